/* The file: a head, the pieces, each at the start of a page, and a table of them at the end. Numbers are little-endian,
 * as those of every machine that runs this. */
#include "backends/bundle.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include "graph/base/memory.h"

enum { ALIGN = 4096, CHECKED = 16 << 20, NAME_BYTES = 256, ROWS_MOST = 65536 };
static const char magic[8] = "tgmodel1";

typedef struct {
    char magic[8];
    uint64_t size_bytes, table, rows;   /* of the file; where the table begins; how many pieces */
    XXH128_hash_t hash;                 /* of the table */
} Head;
typedef struct {
    char name[NAME_BYTES];
    uint64_t offset, size_bytes;
    XXH128_hash_t hash;
} Row;

struct Bundle {
    int fd;
    const char *data;
    size_t size_bytes;
    const Row *row;
    size_t rows;
};

/* ---- reading ---- */

bool bundle_is(const char *path)
{
    char head[sizeof magic];
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    bool is = fd >= 0 && read(fd, head, sizeof head) == sizeof head && !memcmp(head, magic, sizeof magic);
    if (fd >= 0) close(fd);
    return is;
}

/* NULL: it is as it was written. */
static const char *fault(Bundle *b)
{
    Head h;
    if (b->size_bytes < sizeof h) return "is cut short";
    memcpy(&h, b->data, sizeof h);
    if (memcmp(h.magic, magic, sizeof magic)) return "is no compiled model";
    if (h.size_bytes != b->size_bytes) return "is cut short";
    if (h.rows > ROWS_MOST || h.table % ALIGN || h.table > b->size_bytes ||
        h.rows * sizeof(Row) != b->size_bytes - h.table)
        return "is damaged: its table does not fit";
    b->row = (const Row *)(b->data + h.table);
    b->rows = h.rows;
    if (!XXH128_isEqual(XXH3_128bits(b->row, b->rows * sizeof(Row)), h.hash)) return "is damaged: its table differs";
    for (size_t k = 0; k < b->rows; k++) {
        const Row *r = &b->row[k];
        if (!memchr(r->name, 0, sizeof r->name) || r->offset % ALIGN || r->offset > h.table ||
            r->size_bytes > h.table - r->offset)
            return "is damaged: a piece lies outside of it";
    }
    return NULL;
}

TgStatus bundle_open(Bundle **out, const char *path)
{
    struct stat st;
    Bundle *b = mem_zeros(1, sizeof *b);
    b->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    const char *why = b->fd < 0 || fstat(b->fd, &st) ? strerror(errno)
        : !S_ISREG(st.st_mode)                       ? "is not a regular file"
        : !st.st_size                                ? "is empty"
                                                     : NULL;
    if (!why) {
        b->size_bytes = (size_t)st.st_size;
        void *p = mmap(NULL, b->size_bytes, PROT_READ, MAP_PRIVATE, b->fd, 0);
        if (p == MAP_FAILED) why = strerror(errno);
        else b->data = p;
    }
    if (!why) why = fault(b);
    if (!why) return *out = b, TG_OK;
    TgStatus status = fail(TG_BAD_MODEL, "%s", why);
    bundle_close(b);
    return status;
}

void bundle_close(Bundle *b)
{
    if (!b) return;
    if (b->data) munmap((void *)(uintptr_t)b->data, b->size_bytes);
    if (b->fd >= 0) close(b->fd);
    mem_free(b);
}

static const Row *row_of(const Bundle *b, const char *name)
{
    for (size_t k = 0; k < b->rows; k++)
        if (!strcmp(b->row[k].name, name)) return &b->row[k];
    return NULL;
}

bool bundle_has(const Bundle *b, const char *name) { return row_of(b, name) != NULL; }

TgStatus bundle_get(const Bundle *b, Piece *out, const char *name)
{
    const Row *r = row_of(b, name);
    if (!r) return fail(TG_BAD_MODEL, "has no piece '%s'", name);
    *out = (Piece){ b->data + r->offset, r->size_bytes };
    if (r->size_bytes <= CHECKED && !XXH128_isEqual(XXH3_128bits(out->data, out->size), r->hash))
        return fail(TG_BAD_MODEL, "is damaged: its piece '%s' differs from what was written", name);
    return TG_OK;
}

const char *bundle_name(const Bundle *b, const char *prefix, size_t k)
{
    size_t len = strlen(prefix);
    for (size_t i = 0; i < b->rows; i++)
        if (!strncmp(b->row[i].name, prefix, len) && !k--) return b->row[i].name + len;
    return NULL;
}

void *bundle_map(const Bundle *b, const char *name, size_t *size_bytes)
{
    const Row *r = row_of(b, name);
    if (!r || !r->size_bytes) return NULL;
    void *p = mmap(NULL, r->size_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE, b->fd, (off_t)r->offset);
    *size_bytes = r->size_bytes;
    return p == MAP_FAILED ? NULL : p;
}

/* ---- writing ---- */

struct BundleWriter {
    char path[PATH_MAX], aside[PATH_MAX + 16];
    FILE *f;
    uint64_t at;
    Row *row;
    size_t rows;
};

static TgStatus no_writing(const BundleWriter *w) { return fail(TG_CACHE, "%s: %s", w->path, strerror(errno)); }

TgStatus bundle_begin(BundleWriter **out, const char *path)
{
    static const char zeros[ALIGN];
    BundleWriter *w = mem_zeros(1, sizeof *w);
    if (snprintf(w->path, sizeof w->path, "%s", path) >= (int)sizeof w->path) {
        mem_free(w);
        return fail(TG_USAGE, "a file's name is longer than %d bytes", PATH_MAX);
    }
    struct stat st;
    if (!stat(path, &st) && !S_ISREG(st.st_mode)) {
        mem_free(w);
        return fail(TG_CACHE, "%s: is no regular file: a compiled model cannot be written there", path);
    }
    snprintf(w->aside, sizeof w->aside, "%s.%d.tmp", path, (int)getpid());
    w->f = fopen(w->aside, "wb");
    if (!w->f || fwrite(zeros, 1, ALIGN, w->f) != ALIGN) return bundle_end(w, no_writing(w));
    w->at = ALIGN;
    *out = w;
    return TG_OK;
}

static bool align(BundleWriter *w)
{
    static const char zeros[ALIGN];
    size_t more = (size_t)(-w->at & (ALIGN - 1));
    w->at += more;
    return fwrite(zeros, 1, more, w->f) == more;
}

TgStatus bundle_put(BundleWriter *w, const char *name, const void *data, size_t size_bytes)
{
    if (strlen(name) >= NAME_BYTES || w->rows == ROWS_MOST)
        return fail(TG_LIMIT, "a compiled model holds %d files with names of %d bytes at most", ROWS_MOST, NAME_BYTES);
    w->row = mem_grow(w->row, (w->rows + 1) * sizeof *w->row);
    Row *r = &w->row[w->rows++];
    *r = (Row){ .offset = w->at, .size_bytes = size_bytes, .hash = XXH3_128bits(data, size_bytes) };
    snprintf(r->name, sizeof r->name, "%s", name);
    if (fwrite(data, 1, size_bytes, w->f) != size_bytes) return no_writing(w);
    w->at += size_bytes;
    return align(w) ? TG_OK : no_writing(w);
}

static TgStatus write_table(BundleWriter *w)
{
    Head h = { .table = w->at, .rows = w->rows, .size_bytes = w->at + w->rows * sizeof *w->row };
    memcpy(h.magic, magic, sizeof magic);
    h.hash = XXH3_128bits(w->row, w->rows * sizeof *w->row);
    bool good = fwrite(w->row, sizeof *w->row, w->rows, w->f) == w->rows && !fseek(w->f, 0, SEEK_SET) &&
        fwrite(&h, sizeof h, 1, w->f) == 1;
    return good ? TG_OK : no_writing(w);
}

TgStatus bundle_end(BundleWriter *w, TgStatus status)
{
    if (status == TG_OK) status = write_table(w);
    if (w->f && fclose(w->f) && status == TG_OK) status = no_writing(w);
    if (status == TG_OK && rename(w->aside, w->path)) status = no_writing(w);
    if (status != TG_OK && w->f) unlink(w->aside);
    mem_free(w->row);
    mem_free(w);
    return status;
}
