#include "graph/base/map.h"

#include <stdbool.h>
#include <string.h>
#include <xxhash.h>

void map_init(Map *m, Arena *arena) { *m = (Map){ .arena = arena }; }

static uint32_t find(const Map *m, const void *key, size_t len, uint64_t hash)
{
    uint32_t i = (uint32_t)hash & (m->slots - 1);
    for (; m->slot[i]; i = (i + 1) & (m->slots - 1)) {
        const MapEntry *e = &m->entry[m->slot[i] - 1];
        if (e->hash == hash && e->key_len == len && !memcmp(e->key, key, len)) break;
    }
    return i;
}

void *map_get(const Map *m, const void *key, size_t len)
{
    if (!m->slots) return NULL;
    uint32_t at = m->slot[find(m, key, len, XXH3_64bits(key, len))];
    return at ? m->entry[at - 1].value : NULL;
}

static void grow(Map *m)
{
    uint32_t cap = m->cap ? m->cap * 2 : 16;
    MapEntry *entry = NEW_N(m->arena, MapEntry, cap);
    if (m->count) memcpy(entry, m->entry, sizeof *entry * m->count);
    m->entry = entry;
    m->cap = cap;
    m->slots = cap * 2;
    m->slot = NEW_N(m->arena, uint32_t, m->slots);
    for (uint32_t k = 0; k < m->count; k++) m->slot[find(m, entry[k].key, entry[k].key_len, entry[k].hash)] = k + 1;
}

static void put(Map *m, const void *key, size_t len, void *value, bool held)
{
    if (m->count == m->cap) grow(m);
    uint64_t hash = XXH3_64bits(key, len);
    uint32_t i = find(m, key, len, hash);
    if (m->slot[i]) {
        m->entry[m->slot[i] - 1].value = value;
        return;
    }
    m->entry[m->count] = (MapEntry){ held ? key : arena_copy(m->arena, key, len), len, hash, value };
    m->slot[i] = ++m->count;
}

void map_put(Map *m, const void *key, size_t len, void *value) { put(m, key, len, value, false); }
void map_put_held(Map *m, const void *key, size_t len, void *value) { put(m, key, len, value, true); }
void *map_gets(const Map *m, const char *key) { return map_get(m, key, strlen(key)); }
void map_puts(Map *m, const char *key, void *value) { map_put(m, key, strlen(key), value); }
