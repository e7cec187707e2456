/* See archive.h. In: a file that nobody trusts. Out: its files and folders. Must hold: a name is checked before
 * anything is made of it, and as no link is ever made, none leads out of the folder; a size is believed only as far as
 * bytes follow. ustar, with the sizes and long names of GNU tar and of pax. To add a kind of member: a case of
 * take_member. Packed ones are read by zlib, which passes on what it does not know.
 */
#define _GNU_SOURCE
#include "bench/archive.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "bench/say.h"
#include "common/folders.h"

enum { BLOCK = 512, NAME_LEN = 4096, EXTRA_MAX = 1 << 20, CHUNK = 1 << 16, MEMBERS_MAX = 1 << 20 };
static const int64_t BYTES_MAX = INT64_C(1) << 38;          /* of all members */

/* ---- xz, by liblzma's stable interface ---- */

typedef struct {
    const uint8_t *in;
    size_t in_left;
    uint64_t in_total;
    uint8_t *out;
    size_t out_left;
    uint64_t out_total;
    void *own[6];
    uint64_t reserved[5];
} Lzma;
enum { LZMA_OK = 0, LZMA_STREAM_END = 1, LZMA_CONCATENATED = 8, LZMA_RUN = 0, LZMA_FINISH = 3 };
static struct {
    int (*decoder)(Lzma *, uint64_t memory_max, uint32_t flags), (*code)(Lzma *, int action);
    void (*end)(Lzma *);
} lzma;

static bool open_lzma(void)
{
    void *handle = dlopen("liblzma.so.5", RTLD_NOW | RTLD_LOCAL), *address[3];
    if (!handle) return false;
    address[0] = dlsym(handle, "lzma_stream_decoder"), address[1] = dlsym(handle, "lzma_code"),
    address[2] = dlsym(handle, "lzma_end");
    memcpy(&lzma, address, sizeof lzma);
    return address[0] && address[1] && address[2];
}

/* ---- bytes ---- */

typedef struct {
    const char *archive, *folder;
    const volatile sig_atomic_t *stop;
    gzFile file;
    bool xz, ended;
    Lzma z;
    uint8_t packed[CHUNK];
    char name[NAME_LEN];            /* of the next member, where one before it gave a long one; else empty */
    int64_t size, bytes;            /* of the next member, by pax, else -1; of all so far */
} Archive;

static TgStatus bad(const Archive *a, const char *why) { return say_error(TG_BAD_INPUT, "%s: %s", a->archive, why); }
static TgStatus bad_member(const Archive *a, const char *name, const char *why)
{
    return say_error(TG_BAD_INPUT, "%s: '%.200s' %s", a->archive, name, why);
}

static TgStatus archive_open(Archive *a)
{
    static const uint8_t xz[] = { 0xFD, '7', 'z', 'X', 'Z', 0 };
    uint8_t head[sizeof xz];
    if (!(a->file = gzopen(a->archive, "rb"))) return say_error(TG_BAD_INPUT, "%s: %s", a->archive, strerror(errno));
    gzbuffer(a->file, CHUNK);
    a->xz = gzread(a->file, head, sizeof head) == sizeof head && !memcmp(head, xz, sizeof head);
    gzrewind(a->file);
    if (!a->xz) return TG_OK;
    if (!open_lzma())
        return say_error(TG_UNSUPPORTED,
                         "%s: archives of xz need liblzma.so.5, which is not installed (package liblzma5)", a->archive);
    return lzma.decoder(&a->z, UINT64_C(1) << 30, LZMA_CONCATENATED) == LZMA_OK ? TG_OK : bad(a, "cannot be unpacked");
}

static void archive_close(Archive *a)
{
    if (a->xz && lzma.end) lzma.end(&a->z);
    if (a->file) gzclose(a->file);
}

/* As many of n bytes as there are; -1: they are broken. */
static int64_t read_xz(Archive *a, void *to, int64_t n)
{
    a->z.out = to;
    a->z.out_left = (size_t)n;
    while (a->z.out_left && !a->ended) {
        int got = a->z.in_left ? 0 : gzread(a->file, a->packed, CHUNK);
        if (got > 0) a->z.in = a->packed, a->z.in_left = (size_t)got;
        int code = got < 0 ? -1 : lzma.code(&a->z, a->z.in_left ? LZMA_RUN : LZMA_FINISH);
        a->ended = code == LZMA_STREAM_END;
        if (code != LZMA_OK && !a->ended) return -1;
    }
    return n - (int64_t)a->z.out_left;
}

static int64_t read_gz(Archive *a, void *to, int64_t n)
{
    int code = Z_OK, got = gzread(a->file, to, (unsigned)n);
    if (got < n) gzerror(a->file, &code);
    return code == Z_BUF_ERROR ? -1 : got;                  /* the end of the file, but not of what is packed */
}

static int64_t read_some(Archive *a, void *to, int64_t n) { return a->xz ? read_xz(a, to, n) : read_gz(a, to, n); }

static TgStatus read_all(Archive *a, void *to, int64_t n)
{
    if (*a->stop) return TG_LIMIT;
    int64_t got = read_some(a, to, n);
    return got == n ? TG_OK : bad(a, got < 0 ? "is broken" : "ends in the middle");
}

/* A member's content, n bytes and what fills the last block, to a file; -1: to nowhere. */
static TgStatus copy_content(Archive *a, const char *name, int64_t n, int fd)
{
    static char chunk[CHUNK];
    if ((a->bytes += n) > BYTES_MAX) return bad_member(a, name, "and those before it are too large");
    for (int64_t left = (n + BLOCK - 1) / BLOCK * BLOCK; left > 0;) {
        int64_t now = left < CHUNK ? left : CHUNK, mine = n < now ? n : now;
        TgStatus status = read_all(a, chunk, now);
        if (status != TG_OK) return status;
        for (int64_t done = 0, wrote; fd >= 0 && done < mine; done += wrote)
            if ((wrote = write(fd, chunk + done, (size_t)(mine - done))) < 0)
                return say_error(TG_CACHE, "%s: '%.200s': %s", a->archive, name, strerror(errno));
        left -= now;
        n -= mine;
    }
    return TG_OK;
}

/* ---- names ---- */

/* Does it stay below the folder? No part goes up, none is empty. */
static bool is_safe(const char *name)
{
    for (const char *part = name; *part; part += strcspn(part, "/"), part += *part == '/')
        if (*part == '/' || (!strncmp(part, "..", 2) && (part[2] == '/' || !part[2]))) return false;
    return *name;
}

static TgStatus write_member(Archive *a, const char *name, int64_t size, bool is_folder)
{
    char path[2 * NAME_LEN];
    int length = snprintf(path, sizeof path, "%s/%s%s", a->folder, name, is_folder ? "/" : "");
    if (length < 0 || (size_t)length >= sizeof path || !is_safe(name))
        return bad_member(a, name, "is no name within a folder");
    bool good = make_folders(path, strlen(a->folder) + 1, 0777);
    if (is_folder && good) return copy_content(a, name, size, -1);
    int fd = good ? open(path, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0666) : -1;
    if (fd < 0 && (errno == ENOTDIR || errno == EISDIR)) return bad_member(a, name, "is a file and a folder");
    if (fd < 0) return say_error(TG_CACHE, "%s: '%.200s': %s", a->archive, name, strerror(errno));
    TgStatus status = copy_content(a, name, size, fd);
    close(fd);
    return status;
}

/* ---- members ---- */

/* Octal digits, or base 256 where the first bit is set; -1: neither. */
static int64_t number(const uint8_t *field, int n)
{
    int64_t v = *field & 0x80 ? *field & 0x3F : 0;
    int k = 0;
    if (*field & 0x80) {
        for (k = 1; k < n && v >= 0 && v < INT64_C(1) << 54; k++) v = v << 8 | field[k];
        return k == n && !(*field & 0x40) ? v : -1;
    }
    while (k < n && field[k] == ' ') k++;
    for (; k < n && field[k] >= '0' && field[k] <= '7'; k++) v = v << 3 | (field[k] - '0');
    return k < n && field[k] && field[k] != ' ' ? -1 : v;
}

static bool is_header(const uint8_t *block)
{
    int64_t sum = 8 * ' ';
    for (int k = 0; k < BLOCK; k++) sum += k < 148 || k >= 156 ? block[k] : 0;
    return number(block + 148, 8) == sum;
}

/* Records `LENGTH KEY=VALUE\n`: a path and a size are for the next member. */
static bool take_pax(Archive *a, char *text, int64_t n)
{
    for (char *end; n > 0; n -= end - text, text = end) {
        char *key, *value;
        int64_t length = strtoll(text, &key, 10);
        if (length < 5 || length > n || *key != ' ' || text[length - 1] != '\n') return false;
        end = text + length;
        end[-1] = 0;
        if (!(value = strchr(++key, '='))) return false;
        *value++ = 0;
        if (!strcmp(key, "path") && (strlen(value) >= sizeof a->name || value + strlen(value) + 1 != end)) return false;
        if (!strcmp(key, "path")) strcpy(a->name, value);
        if (!strcmp(key, "size") && (a->size = strtoll(value, NULL, 10)) < 0) return false;
    }
    return true;
}

/* What is said of the next member. */
static TgStatus take_extra(Archive *a, char kind, int64_t size)
{
    int64_t whole = (size + BLOCK - 1) / BLOCK * BLOCK;
    if (size > EXTRA_MAX) return bad(a, "has too long a header");
    char *text = calloc(1, (size_t)whole + 1);
    if (!text) return say_error(TG_LIMIT, "%s: no memory", a->archive);
    TgStatus status = read_all(a, text, whole);
    if (status == TG_OK) {
        text[size] = 0;
        bool good = kind == 'L' ? strlen(text) < sizeof a->name : kind != 'x' || take_pax(a, text, size);
        if (!good) status = bad(a, "has a broken header");
        else if (kind == 'L') strcpy(a->name, text);
    }
    free(text);
    return status;
}

static TgStatus take_member(Archive *a, const uint8_t *block)
{
    char kind = (char)block[156], name[NAME_LEN];
    int64_t size = number(block + 124, 12);
    bool ustar = !memcmp(block + 257, "ustar", 6) && block[345];
    if (size < 0) return bad(a, "has a member without a size");
    if (kind && strchr("xgLK", kind)) return take_extra(a, kind, size);
    if (*a->name) strcpy(name, a->name);
    else
        snprintf(name, sizeof name, "%.155s%s%.100s", ustar ? (const char *)block + 345 : "", ustar ? "/" : "",
                 (const char *)block);
    if (a->size >= 0) size = a->size;
    *a->name = 0;
    a->size = -1;
    switch (kind) {
    case 0: case '0': case '7': return write_member(a, name, size, *name && name[strlen(name) - 1] == '/');
    case '5': return write_member(a, name, size, true);
    case '1': case '2': return bad_member(a, name, "is a link");
    default: return bad_member(a, name, "is neither a file nor a folder");
    }
}

/* What follows the members: the packer's own sum is checked at its end. */
static TgStatus take_rest(Archive *a)
{
    char rest[BLOCK * 8];
    int64_t got = 1;
    while (got > 0 && !*a->stop) got = read_some(a, rest, sizeof rest);
    return got < 0 ? bad(a, "is broken") : TG_OK;
}

/* Up to a block of zeros, or the end of a file that is complete without. */
static TgStatus take_members(Archive *a)
{
    static const uint8_t zeros[BLOCK];
    uint8_t block[BLOCK];
    TgStatus status = TG_OK;
    for (int n = 0; status == TG_OK; n++) {
        int64_t got = read_some(a, block, BLOCK);
        if (n && (!got || (got == BLOCK && !memcmp(block, zeros, BLOCK)))) return take_rest(a);
        if (got != BLOCK || !is_header(block)) return bad(a, n ? "is broken" : "is no archive of tar");
        if (n == MEMBERS_MAX) return bad(a, "has too many members");
        status = *a->stop ? TG_LIMIT : take_member(a, block);
    }
    return status;
}

TgStatus archive_unpack(const char *archive, const char *folder, const volatile sig_atomic_t *stop)
{
    Archive *a = calloc(1, sizeof *a);
    if (!a) return say_error(TG_LIMIT, "%s: no memory", archive);
    *a = (Archive){ .archive = archive, .folder = folder, .stop = stop, .size = -1 };
    TgStatus status = archive_open(a);
    if (status == TG_OK) status = take_members(a);
    archive_close(a);
    free(a);
    return status;
}
