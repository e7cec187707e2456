/* Files DIR/KIND/KEY: a head with the length and seal of what follows, so that a cut, damaged or foreign file is a
 * miss. Entries may be code: a file or folder that somebody else owns or may write is a miss too; ours are 0600 and
 * 0700. */
#include "backends/cache.h"
#include "backends/seal.h"
#include "common/folders.h"
#include "graph/base/memory.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { HOUR = 3600, DAY = 24 * HOUR, LOOK_EVERY = 64 << 20 };
#define NAME_LETTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_"
typedef struct { char magic[8]; uint64_t size_bytes; Seal seal; } Head;
static const char magic[8] = "tgcache3";

static bool place(char *out, const char *dir, const char *kind, const char *key)
{
    return dir && snprintf(out, PATH_MAX, "%s/%s/%s", dir, kind, key) < PATH_MAX;
}

static bool is_ours(const struct stat *st) { return st->st_uid == geteuid() && !(st->st_mode & (S_IWGRP | S_IWOTH)); }

static bool folder_is_ours(const char *path)
{
    char folder[PATH_MAX];
    struct stat st;
    snprintf(folder, sizeof folder, "%.*s", (int)(strrchr(path, '/') - path), path);
    return !stat(folder, &st) && is_ours(&st);
}

static void *read_file(FILE *f, const char *dir, const char *kind, const char *key, size_t *size_bytes)
{
    Head h;
    struct stat st;
    if (fstat(fileno(f), &st) || !is_ours(&st) || fread(&h, sizeof h, 1, f) != 1 ||
        memcmp(h.magic, magic, sizeof magic))
        return NULL;
    if ((uint64_t)st.st_size != sizeof h + h.size_bytes) return NULL;
    void *data = mem_try(h.size_bytes + !h.size_bytes);
    if (data && fread(data, 1, h.size_bytes, f) == h.size_bytes &&
        seal_fits(&h.seal, dir, kind, key, data, h.size_bytes)) {
        if (time(NULL) - st.st_mtime > DAY) futimens(fileno(f), NULL);
        return *size_bytes = h.size_bytes, data;
    }
    mem_free(data);
    return NULL;
}

bool cache_get(void **out, size_t *size_bytes, const char *dir, const char *kind, const char *key)
{
    char path[PATH_MAX];
    FILE *f = place(path, dir, kind, key) && folder_is_ours(path) ? fopen(path, "rb") : NULL;
    *out = f ? read_file(f, dir, kind, key, size_bytes) : NULL;
    if (f) fclose(f);
    return *out != NULL;
}

/* ---- the folder as a whole ---- */

static bool plain_name(const char *s) { return *s && *s != '.' && strspn(s, NAME_LETTERS) == strlen(s); }

typedef void LookFn(void *user, const char *path, const char *kind, const char *key, const struct stat *st);

/* Every plain file DIR/KIND/KEY; false: there is no such folder. */
static bool each_file(const char *dir, LookFn *look, void *user)
{
    char path[PATH_MAX];
    struct stat st;
    DIR *kinds = dir ? opendir(dir) : NULL;
    for (struct dirent *kind; kinds && (kind = readdir(kinds));) {
        if (!plain_name(kind->d_name) || snprintf(path, sizeof path, "%s/%s", dir, kind->d_name) >= PATH_MAX) continue;
        if (lstat(path, &st) || !S_ISDIR(st.st_mode)) continue;
        DIR *keys = opendir(path);
        for (struct dirent *key; keys && (key = readdir(keys));)
            if (place(path, dir, kind->d_name, key->d_name) && !lstat(path, &st) && S_ISREG(st.st_mode))
                look(user, path, kind->d_name, key->d_name, &st);
        if (keys) closedir(keys);
    }
    if (kinds) closedir(kinds);
    return kinds != NULL;
}

/* KEY.XXXXXX of cache_put, in a process that was killed: nobody writes one for an hour. */
static void remove_leftover(void *user, const char *path, const char *kind, const char *key, const struct stat *st)
{
    const char *dot = strchr(key, '.');
    (void)user, (void)kind;
    if (dot && dot > key && strlen(dot) == 7 && strspn(dot + 1, NAME_LETTERS) == 6 && is_ours(st) &&
        time(NULL) - st->st_mtime > HOUR)
        unlink(path);
}

/* Only what looks like an entry of ours, of any version, is looked at. */
static bool is_entry(const char *path)
{
    char head[sizeof magic];
    FILE *f = fopen(path, "rb");
    bool ours = f && fread(head, sizeof head, 1, f) == 1 && !memcmp(head, magic, sizeof magic - 1);
    if (f) fclose(f);
    return ours;
}

static bool is_good(const char *path, const char *dir, const char *kind, const char *key)
{
    size_t size;
    FILE *f = folder_is_ours(path) ? fopen(path, "rb") : NULL;
    void *data = f ? read_file(f, dir, kind, key, &size) : NULL;
    if (f) fclose(f);
    mem_free(data);
    return data != NULL;
}

typedef struct { const char *dir; CacheLook look; void (*emit)(void *user, const CacheFile *file); void *user; } Walk;

static void walk_file(void *user, const char *path, const char *kind, const char *key, const struct stat *st)
{
    const Walk *w = user;
    if (!plain_name(key) || (w->look && !is_entry(path))) return;
    bool good = w->look < CACHE_ALL || is_good(path, w->dir, kind, key);
    w->emit(w->user, &(CacheFile){ kind, key, st->st_size, st->st_mtime, good });
}

bool cache_walk(const char *dir, CacheLook look, void (*emit)(void *user, const CacheFile *file), void *user)
{
    return each_file(dir, walk_file, &(Walk){ dir, look, emit, user });
}

typedef struct {
    char name[NAME_MAX + 1], kind[64];
    int64_t bytes, used;
    bool good;
} Entry;
typedef struct { Entry *list; size_t count, cap; } Entries;

static void collect(void *user, const CacheFile *f)
{
    Entries *e = user;
    if (e->count == e->cap) {
        Entry *grown = mem_try_grow(e->list, (e->cap ? 2 * e->cap : 256) * sizeof *grown);
        if (!grown) return;
        e->list = grown;
        e->cap = e->cap ? 2 * e->cap : 256;
    }
    Entry *to = &e->list[e->count++];
    *to = (Entry){ .bytes = f->size_bytes, .used = f->used, .good = f->good };
    snprintf(to->name, sizeof to->name, "%s", f->key);
    snprintf(to->kind, sizeof to->kind, "%s", f->kind);
}

static int by_use(const void *a, const void *b)
{
    const Entry *x = a, *y = b;
    if (x->good != y->good) return x->good - y->good;
    return (x->used > y->used) - (x->used < y->used);
}

static CachePruned prune(const char *dir, int64_t most_bytes, CacheLook look)
{
    Entries e = { 0 };
    CachePruned p = { 0 };
    each_file(dir, remove_leftover, NULL);
    cache_walk(dir, look, collect, &e);
    for (size_t i = 0; i < e.count; i++) p.left_bytes += e.list[i].bytes;
    p.left_files = (int64_t)e.count;
    if (e.count) qsort(e.list, e.count, sizeof *e.list, by_use);
    for (size_t i = 0; i < e.count && (!e.list[i].good || p.left_bytes > most_bytes); i++) {
        char path[PATH_MAX];
        if (!place(path, dir, e.list[i].kind, e.list[i].name) || !is_entry(path) || unlink(path)) continue;
        p.files++, p.left_files--;
        p.bytes += e.list[i].bytes, p.left_bytes -= e.list[i].bytes;
    }
    mem_free(e.list);
    return p;
}

CachePruned cache_prune(const char *dir, int64_t most_bytes) { return prune(dir, most_bytes, CACHE_ALL); }

/* Looks at the folder after every 64 MiB that the process has written, and one process in 16 with its first entry. */
static void keep_small(const char *dir, int64_t bytes)
{
    static _Atomic int64_t since = -1;
    int64_t first = -1;
    atomic_compare_exchange_strong(&since, &first, getpid() % 16 ? 0 : LOOK_EVERY);
    const char *size = getenv("TGRUN_CACHE_SIZE");
    int64_t most = size && *size ? strtoll(size, NULL, 10) : (int64_t)CACHE_GIB << 30;
    if (atomic_fetch_add(&since, bytes) < LOOK_EVERY) return;
    atomic_store(&since, 0);
    prune(dir, most, CACHE_NAMES);
}

void cache_put(const char *dir, const char *kind, const char *key, const void *data, size_t size_bytes)
{
    char path[PATH_MAX], aside[PATH_MAX + 16];
    Head h = { .size_bytes = size_bytes };
    if (!place(path, dir, kind, key)) return;
    make_folders(path, 1, 0700);
    if (!folder_is_ours(path) || !seal_make(&h.seal, dir, kind, key, data, size_bytes)) return;
    memcpy(h.magic, magic, sizeof magic);
    snprintf(aside, sizeof aside, "%s.XXXXXX", path);
    int fd = mkstemp(aside);
    FILE *f = fd < 0 ? NULL : fdopen(fd, "wb");
    if (!f) return;
    bool ok = fwrite(&h, sizeof h, 1, f) == 1 && fwrite(data, 1, size_bytes, f) == size_bytes;
    ok &= !fclose(f);
    if (!ok || rename(aside, path)) unlink(aside);
    else keep_small(dir, (int64_t)(sizeof h + size_bytes));
}
