/* A hash as the text that names files and kernels: 32 hexadecimal digits. */
#ifndef TG_HASH_H
#define TG_HASH_H
#include <stdio.h>
#include <xxhash.h>

static inline void hash_text(char out[33], XXH128_hash_t h)
{
    snprintf(out, 33, "%016llx%016llx", (unsigned long long)h.high64, (unsigned long long)h.low64);
}
#endif
