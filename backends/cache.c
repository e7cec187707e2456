/* Files DIR/KIND/KEY: a head with the length and hash of what follows, so that a cut or damaged file is a miss. Entries may be code: a file or folder that somebody else
 * owns or may write is a miss too; ours are 0600 and 0700. */
#include "backends/cache.h"

#include <errno.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

typedef struct { char magic[8]; uint64_t size_bytes; XXH128_hash_t hash; } Head;
static const char magic[8] = "tgcache2";

static bool place(char *out, const char *dir, const char *kind, const char *key)
{
    return dir && snprintf(out, PATH_MAX, "%s/%s/%s", dir, kind, key) < PATH_MAX;
}

static void make_folders(char *path)
{
    for (char *s = strchr(path + 1, '/'); s; s = strchr(s + 1, '/')) {
        *s = 0;
        mkdir(path, 0700);
        *s = '/';
    }
}

static bool is_ours(const struct stat *st) { return st->st_uid == geteuid() && !(st->st_mode & (S_IWGRP | S_IWOTH)); }

static bool folder_is_ours(const char *path)
{
    char folder[PATH_MAX];
    struct stat st;
    snprintf(folder, sizeof folder, "%.*s", (int)(strrchr(path, '/') - path), path);
    return !stat(folder, &st) && is_ours(&st);
}

static void *read_file(FILE *f, size_t *size_bytes)
{
    Head h;
    struct stat st;
    if (fstat(fileno(f), &st) || !is_ours(&st) || fread(&h, sizeof h, 1, f) != 1 || memcmp(h.magic, magic, sizeof magic)) return NULL;
    if ((uint64_t)st.st_size != sizeof h + h.size_bytes) return NULL;
    void *data = malloc(h.size_bytes + !h.size_bytes);
    if (data && fread(data, 1, h.size_bytes, f) == h.size_bytes && XXH128_isEqual(XXH3_128bits(data, h.size_bytes), h.hash)) return *size_bytes = h.size_bytes, data;
    free(data);
    return NULL;
}

bool cache_get(void **out, size_t *size_bytes, const char *dir, const char *kind, const char *key)
{
    char path[PATH_MAX];
    FILE *f = place(path, dir, kind, key) && folder_is_ours(path) ? fopen(path, "rb") : NULL;
    *out = f ? read_file(f, size_bytes) : NULL;
    if (f) fclose(f);
    return *out != NULL;
}

void cache_put(const char *dir, const char *kind, const char *key, const void *data, size_t size_bytes)
{
    char path[PATH_MAX], aside[PATH_MAX + 16];
    Head h = { .size_bytes = size_bytes, .hash = XXH3_128bits(data, size_bytes) };
    if (!place(path, dir, kind, key)) return;
    make_folders(path);
    if (!folder_is_ours(path)) return;
    memcpy(h.magic, magic, sizeof magic);
    snprintf(aside, sizeof aside, "%s.XXXXXX", path);
    int fd = mkstemp(aside);
    FILE *f = fd < 0 ? NULL : fdopen(fd, "wb");
    if (!f) return;
    bool ok = fwrite(&h, sizeof h, 1, f) == 1 && fwrite(data, 1, size_bytes, f) == size_bytes;
    ok &= !fclose(f);
    if (!ok || rename(aside, path)) unlink(aside);
}
