/* Files DIR/KIND/KEY: a head with the length and hash of what follows, so that a cut or damaged file is a miss. */
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

typedef struct { char magic[8]; uint64_t size_bytes, hash; } Head;
static const char magic[8] = "tgcache1";

static bool place(char *out, const char *dir, const char *kind, const char *key)
{
    return dir && snprintf(out, PATH_MAX, "%s/%s/%s", dir, kind, key) < PATH_MAX;
}

static void make_folders(char *path)
{
    for (char *s = strchr(path + 1, '/'); s; s = strchr(s + 1, '/')) {
        *s = 0;
        mkdir(path, 0755);
        *s = '/';
    }
}

static void *read_file(FILE *f, size_t *size_bytes)
{
    Head h;
    struct stat st;
    if (fread(&h, sizeof h, 1, f) != 1 || memcmp(h.magic, magic, sizeof magic) || fstat(fileno(f), &st)) return NULL;
    if ((uint64_t)st.st_size != sizeof h + h.size_bytes) return NULL;
    void *data = malloc(h.size_bytes + !h.size_bytes);
    if (data && fread(data, 1, h.size_bytes, f) == h.size_bytes && XXH3_64bits(data, h.size_bytes) == h.hash) return *size_bytes = h.size_bytes, data;
    free(data);
    return NULL;
}

bool cache_get(void **out, size_t *size_bytes, const char *dir, const char *kind, const char *key)
{
    char path[PATH_MAX];
    FILE *f = place(path, dir, kind, key) ? fopen(path, "rb") : NULL;
    *out = f ? read_file(f, size_bytes) : NULL;
    if (f) fclose(f);
    return *out != NULL;
}

void cache_put(const char *dir, const char *kind, const char *key, const void *data, size_t size_bytes)
{
    char path[PATH_MAX], aside[PATH_MAX + 16];
    Head h = { .size_bytes = size_bytes, .hash = XXH3_64bits(data, size_bytes) };
    if (!place(path, dir, kind, key)) return;
    make_folders(path);
    memcpy(h.magic, magic, sizeof magic);
    snprintf(aside, sizeof aside, "%s.XXXXXX", path);
    int fd = mkstemp(aside);
    FILE *f = fd < 0 ? NULL : fdopen(fd, "wb");
    if (!f) return;
    bool ok = fwrite(&h, sizeof h, 1, f) == 1 && fwrite(data, 1, size_bytes, f) == size_bytes;
    ok &= !fclose(f);
    if (!ok || rename(aside, path)) unlink(aside);
}
