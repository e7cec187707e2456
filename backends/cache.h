/* The cache folder: bytes by key, one file each. Safe for concurrent processes: a file appears whole (written aside, then renamed) and is checked when it is read.
 * Nothing here fails: a cache that cannot be read or written is an empty one. dir NULL: no cache. */
#ifndef TG_CACHE_H
#define TG_CACHE_H
#include <stdbool.h>
#include <stddef.h>

/* kind: the folder within, such as "cuda". key: letters and digits. out: malloc'ed. */
bool cache_get(void **out, size_t *size_bytes, const char *dir, const char *kind, const char *key);
void cache_put(const char *dir, const char *kind, const char *key, const void *data, size_t size_bytes);
#endif
