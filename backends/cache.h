/* The cache folder: bytes by key, one file each. Safe for concurrent processes: a file appears whole (written aside,
 * then renamed) and is checked when it is read. Nothing here fails: a cache that cannot be read or written is an empty
 * one. dir NULL: no cache. */
#ifndef TG_CACHE_H
#define TG_CACHE_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* kind: the folder within, such as "cuda". key: letters and digits. out: malloc'ed. */
bool cache_get(void **out, size_t *size_bytes, const char *dir, const char *kind, const char *key);
void cache_put(const char *dir, const char *kind, const char *key, const void *data, size_t size_bytes);

/* A file of the folder. used: when it was last read or written, to a day, in seconds since 1970. good: its length and
 * seal are right, and nobody else owns or may write it; always true unless all is read. */
typedef struct {
    const char *kind, *key;
    int64_t size_bytes, used;
    bool good;
} CacheFile;
/* Every file, in no order. false: there is no such folder. */
typedef enum {
    CACHE_NAMES,
    CACHE_HEADS,
    CACHE_ALL
} CacheLook; /* what is read: nothing, which tells no other's file; the heads; everything */
bool cache_walk(const char *dir, CacheLook look, void (*emit)(void *user, const CacheFile *file), void *user);
/* Removes what is not good, then what was not used for longest until at most that many bytes are left. */
typedef struct { int64_t files, bytes, left_files, left_bytes; } CachePruned;
CachePruned cache_prune(const char *dir, int64_t most_bytes);
enum { CACHE_GIB = 4 };         /* cache_put lets the folder grow to that, unless TGRUN_CACHE_SIZE names bytes */
#endif
