/* Map: byte-string keys to pointers, open addressing, XXH3; insertion order is kept for walking. Keys are copied into
 * the arena, or held by the caller. */
#ifndef TG_MAP_H
#define TG_MAP_H
#include "graph/base/arena.h"

typedef struct { const void *key; size_t key_len; uint64_t hash; void *value; } MapEntry;
typedef struct Map {
    Arena *arena;
    MapEntry *entry;
    uint32_t count, cap;
    uint32_t *slot;
    uint32_t slots;
} Map;

void map_init(Map *m, Arena *arena);
void *map_get(const Map *m, const void *key, size_t len);              /* NULL when absent */
void map_put(Map *m, const void *key, size_t len, void *value);        /* replaces */
void map_put_held(Map *m, const void *key, size_t len, void *value);   /* the key stays where it is */
void *map_gets(const Map *m, const char *key);
void map_puts(Map *m, const char *key, void *value);
#endif
