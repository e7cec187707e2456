/* Seals: HMAC-SHA-256 of a cache entry, over its kind, key and bytes, under the secret of its folder: 32 random bytes
 * in DIR/secret, which only their owner may read. Without it nobody can write an entry that is taken for one of
 * ours, nor put one in another's place. Safe for threads and for concurrent processes. */
#ifndef TG_SEAL_H
#define TG_SEAL_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct { unsigned char byte[32]; } Seal;

/* Makes the secret where there is none; DIR/KIND is there. false: it cannot be had, and nothing should be stored. */
bool seal_make(Seal *out, const char *dir, const char *kind, const char *key, const void *data, size_t size_bytes);
/* Is it the seal of these? false too where there is no secret, or one that others may read. */
bool seal_fits(const Seal *s, const char *dir, const char *kind, const char *key, const void *data, size_t size_bytes);

/* The name of what `maker` made of these bytes: 32 hexadecimal digits of SHA-256, so that no model can be written whose
 * text has another's. */
void seal_name(char out[33], uint64_t maker, const void *data, size_t size_bytes);
#endif
