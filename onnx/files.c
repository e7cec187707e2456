/* Opening and mapping what a model consists of.
 *
 * In: the user's path, then names that stand in the model. Out: mapped bytes. A name from a model is trusted with
 * nothing: the kernel itself (openat2) keeps it beneath the model's folder and off links, checked at the moment of
 * opening; where the call is missing, the folders are walked one by one. Opening never waits (O_NONBLOCK: pipes,
 * devices), and what was opened must be a regular file.
 * One use of links is common and harmless: a download cache in which model and weights are links into one folder of
 * blobs. So when the user's path is itself a link, a link beside it may lead into the folder in which the model really
 * lies. Hard links look like files; the kernel's protected_hardlinks guards against foreign ones. A file that
 * is cut short while it is mapped raises SIGBUS on the next access: a program that must survive that catches the
 * signal.
 */
#define _GNU_SOURCE
#include "onnx/files.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <xxhash.h>

#include "graph/base/map.h"
#include "graph/base/memory.h"

enum { OPEN_FLAGS = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, MAX_FILES = 4096 };
#define DIGEST_STEP ((size_t)8 << 20)

typedef struct Block { struct Block *next; void *p; } Block;
/* mapped: by this, or by somebody who maps it as long; else it is anybody's memory. place: the k-th that was read, from
 * 1 on; 0: nobody read it */
typedef struct { Bytes bytes; bool mapped; uint32_t place; } File;
struct Files {
    Arena *arena;
    /* the folder of the path, and, when the path is a link, the folder of what it leads to; -1: none */
    int folder, store;
    Map map;                /* name -> File; "" is the model itself */
    uint32_t nread;
    bool borrowed;          /* the mappings are somebody else's */
    const char *known;      /* the digest, where nothing must be read for it; or NULL */
    Block *blocks;
    XXH3_state_t *digest;
};

static TgStatus refuse(const char *field, const char *name, const char *why)
{
    return fail_at(TG_BAD_MODEL, NULL, NULL, field, "external file '%.200s' %s", name, why);
}

static Files *files_new(Arena *arena)
{
    Files *f = NEW(arena, Files);
    *f = (Files){ .arena = arena, .folder = -1, .store = -1, .digest = XXH3_createState() };
    if (!f->digest) attempt_fail(0);
    XXH3_128bits_reset(f->digest);
    map_init(&f->map, arena);
    return f;
}

void files_free(Files *f)
{
    if (!f) return;
    for (uint32_t k = 0; k < f->map.count && !f->borrowed; k++) {
        const File *file = f->map.entry[k].value;
        if (file->mapped && file->bytes.size) munmap((void *)file->bytes.data, file->bytes.size);
    }
    for (Block *b = f->blocks; b; b = b->next) free(b->p);
    if (f->folder >= 0) close(f->folder);
    if (f->store >= 0) close(f->store);
    XXH3_freeState(f->digest);
}

static void undo_open(void *fd) { close(*(int *)fd); }

void files_undo(void *files) { files_free(files); }

/* Takes fd. An empty file has no mapping. */
static TgStatus map_fd(Bytes *out, Files *f, int fd, size_t size, const char *name)
{
    Undo undo;
    undo_push(&undo, undo_open, &fd);
    File *kept = NEW(f->arena, File);                       /* of no size until it is mapped */
    map_puts(&f->map, name, kept);
    undo_pop(&undo);
    void *p = size ? mmap(NULL, size, PROT_READ, MAP_PRIVATE, fd, 0) : (void *)"";
    int error = errno;
    close(fd);
    if (p == MAP_FAILED)
        return fail(error == ENOMEM ? TG_LIMIT : TG_BAD_MODEL, "cannot be mapped: %s", strerror(error));
    *out = (Bytes){ p, size };
    *kept = (File){ *out, .mapped = true, .place = ++f->nread };
    return TG_OK;
}

static int open_folder_of(const char *path)
{
    char folder[PATH_MAX];
    const char *slash = strrchr(path, '/');
    if (!slash) return open(".", O_PATH | O_DIRECTORY | O_CLOEXEC);
    if ((size_t)(slash - path) + 2 > sizeof folder) return -1;
    memcpy(folder, path, (size_t)(slash - path) + 1);
    folder[slash - path + 1] = 0;
    return open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
}

TgStatus files_open(Files **out, Bytes *bytes, Arena *arena, const char *path)
{
    struct stat st;
    int fd = open(path, OPEN_FLAGS);
    if (fd < 0) return fail(TG_BAD_MODEL, "cannot be opened: %s", strerror(errno));
    const char *why = fstat(fd, &st) ? strerror(errno)
        : S_ISDIR(st.st_mode)        ? "is a folder, not a model file"
        : !S_ISREG(st.st_mode)       ? "is not a regular file"
        : !st.st_size                ? "is empty"
        : st.st_size > 0x7fffffff    ? "has 2 GiB or more, the limit of the format: larger weights go to external files"
                                     : NULL;
    if (why) return close(fd), fail(TG_BAD_MODEL, "%s", why);
    Undo undo;
    undo_push(&undo, undo_open, &fd);
    *out = files_new(arena);
    undo_pop(&undo);
    undo_push(&undo, files_undo, *out);
    TgStatus status = map_fd(bytes, *out, fd, (size_t)st.st_size, "");
    char real[PATH_MAX];
    (*out)->folder = open_folder_of(path);
    if (!lstat(path, &st) && S_ISLNK(st.st_mode) && realpath(path, real)) (*out)->store = open_folder_of(real);
    undo_pop(&undo);
    if (status != TG_OK) files_free(*out);
    return status;
}

TgStatus files_open_memory(Files **out, Arena *arena, const char *folder)
{
    *out = files_new(arena);
    if (folder) (*out)->folder = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
    return TG_OK;
}

static void add(Files *f, const char *name, Bytes bytes, bool mapped)
{
    const File one = { bytes, mapped, 0 };
    map_puts(&f->map, arena_strdup(f->arena, name), arena_copy(f->arena, &one, sizeof one));
}

TgStatus files_open_all(Files **out, Arena *arena, const NamedBytes *file, uint32_t n, const char *digest)
{
    Undo undo;
    *out = files_new(arena);
    undo_push(&undo, files_undo, *out);
    (*out)->borrowed = true;
    (*out)->known = arena_strdup(arena, digest);
    for (uint32_t k = 0; k < n; k++) add(*out, file[k].name, file[k].bytes, true);
    undo_pop(&undo);
    return TG_OK;
}

bool files_give(Files *f, const char *name, Bytes bytes)
{
    if (map_gets(&f->map, name)) return false;
    add(f, name, bytes, false);
    return true;
}

bool files_find(Files *f, const char *name, Bytes *out)
{
    File *file = map_gets(&f->map, name);
    if (!file) return false;
    if (!file->place) file->place = ++f->nread;
    *out = file->bytes;
    return true;
}

bool files_read(const Files *f, const char *name)
{
    const File *file = map_gets(&f->map, name);
    return file && file->place;
}

bool files_at(const Files *f, uint32_t k, NamedBytes *out)
{
    for (uint32_t i = 0; i < f->map.count; i++) {
        const MapEntry *e = &f->map.entry[i];
        const File *file = e->value;
        if (file->place != k + 1) continue;
        *out = (NamedBytes){ arena_printf(f->arena, "%.*s", (int)e->key_len, (const char *)e->key), file->bytes };
        return true;
    }
    return false;
}

/* Without openat2: each part of the name is opened in the folder before it, and no part may be a link or lead up. */
static int open_by_steps(int folder, const char *name)
{
    char part[NAME_MAX + 1];
    struct stat st;
    int at = dup(folder);
    while (at >= 0) {
        size_t n = strcspn(name, "/");
        if (n >= sizeof part) return close(at), errno = ENAMETOOLONG, -1;
        memcpy(part, name, n);
        part[n] = 0;
        int next = openat(at, part, (name[n] ? O_PATH | O_DIRECTORY | O_CLOEXEC : OPEN_FLAGS) | O_NOFOLLOW);
        int error = errno;
        if (next < 0 && !fstatat(at, part, &st, AT_SYMLINK_NOFOLLOW) && S_ISLNK(st.st_mode)) error = ELOOP;
        close(at);
        errno = error;
        if (!name[n] || next < 0) return next;
        at = next;
        name += n + 1;
    }
    return -1;
}

static int open_beneath(int folder, const char *name)
{
    struct open_how how = { .flags = OPEN_FLAGS,
                            .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS };
    int fd = (int)syscall(SYS_openat2, folder, name, &how, sizeof how);
    return fd < 0 && (errno == ENOSYS || errno == EPERM) ? open_by_steps(folder, name) : fd;
}

/* name is a link beside the user's link: it may lead to a file of the folder where the model really lies. */
static int open_in_store(const Files *f, const char *name)
{
    char target[PATH_MAX], folder[PATH_MAX];
    struct stat here, store;
    ssize_t n = readlinkat(f->folder, name, target, sizeof target - 1);
    if (n < 0) return open_beneath(f->store, name);         /* not a link: a plain file beside the model itself */
    target[n] = 0;
    const char *slash = strrchr(target, '/');
    snprintf(folder, sizeof folder, "%.*s", slash > target ? (int)(slash - target) : 1, slash ? target : ".");
    /* a relative target starts at the link's folder: only links right beside the model are served */
    bool beside = !strchr(name, '/');
    bool same = beside && !fstatat(f->folder, folder, &here, 0) && !fstat(f->store, &store) &&
        here.st_dev == store.st_dev && here.st_ino == store.st_ino;
    return same ? open_beneath(f->store, slash ? slash + 1 : target) : (errno = ELOOP, -1);
}

/* NULL when the name may be tried. */
static const char *bad_name(const char *name)
{
    if (!*name) return "has no name";
    if (strlen(name) >= PATH_MAX) return "has too long a name";
    if (*name == '/') return "lies outside the model's folder (its name is absolute)";
    for (const char *part = name;; part++) {
        size_t n = strcspn(part, "/");
        if (!n) return "has an empty part in its name";
        if (n == 2 && !memcmp(part, "..", 2)) return "may lie outside the model's folder (its name holds ..)";
        if (!part[n]) return NULL;
        part += n;
    }
}

TgStatus files_map(Bytes *out, Files *f, const char *name, const char *field)
{
    struct stat st;
    if (*name && *name != '/' && files_find(f, name, out)) return TG_OK;
    const char *why = bad_name(name);
    if (why) return refuse(field, name, why);
    if (f->folder < 0) return refuse(field, name, "cannot be looked for: the model has no folder");
    if (f->map.count >= MAX_FILES)
        return fail_at(TG_LIMIT, NULL, NULL, field, "more than %d external files", MAX_FILES);
    int fd = open_beneath(f->folder, name);
    if (fd < 0 && f->store >= 0 && (errno == ELOOP || errno == ENOENT)) fd = open_in_store(f, name);
    if (fd < 0 && errno == EIO)
        return fail_at(TG_CACHE, NULL, NULL, field, "external file '%s' cannot be opened: %s", name, strerror(errno));
    if (fd < 0)
        return refuse(field, name,
                      errno == ELOOP       ? "is reached through a link"
                          : errno == EXDEV ? "lies outside the model's folder"
                                           : strerror(errno));
    if (fstat(fd, &st) || !S_ISREG(st.st_mode)) return close(fd), refuse(field, name, "is not a regular file");
    return map_fd(out, f, fd, (size_t)st.st_size, name);
}

void *files_block(Files *f, size_t size)
{
    Block *b = NEW(f->arena, Block);
    if (posix_memalign(&b->p, 64, size ? size : 1)) return NULL;
    b->next = f->blocks;
    f->blocks = b;
    return b->p;
}

void files_forget(const Files *f, Bytes bytes)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), first = ((uintptr_t)bytes.data + page - 1) & ~(page - 1),
              last = ((uintptr_t)bytes.data + bytes.size) & ~(page - 1);
    for (uint32_t k = 0; k < f->map.count && first < last; k++) {
        const File *file = f->map.entry[k].value;
        const Bytes *b = &file->bytes;
        if (file->mapped && bytes.data >= b->data && bytes.data < b->data + b->size)
            madvise((void *)first, last - first, MADV_DONTNEED);
    }
}

void files_forget_all(const Files *f)
{
    for (uint32_t k = 0; k < f->map.count; k++) files_forget(f, ((const File *)f->map.entry[k].value)->bytes);
}

void files_digest(Files *f, Bytes bytes)
{
    if (f->known) return;
    while (bytes.size) {
        Bytes step = { bytes.data, bytes.size < DIGEST_STEP ? bytes.size : DIGEST_STEP };
        XXH3_128bits_update(f->digest, step.data, step.size);
        if (step.size > DIGEST_STEP / 128) files_forget(f, step);
        bytes = (Bytes){ bytes.data + step.size, bytes.size - step.size };
    }
}

void files_digest_hex(const Files *f, char hex[33])
{
    XXH128_canonical_t c;
    if (f->known) return (void)snprintf(hex, 33, "%s", f->known);
    XXH128_canonicalFromHash(&c, XXH3_128bits_digest(f->digest));
    for (int k = 0; k < 16; k++) {
        hex[2 * k] = "0123456789abcdef"[c.digest[k] >> 4];
        hex[2 * k + 1] = "0123456789abcdef"[c.digest[k] & 15];
    }
    hex[32] = 0;
}
