/* Numbers, texts and bytes behind one another, written to a Text and read back: what is kept in a file of the cache.
 * Whole numbers take as many bytes as they need. A reader that comes to an end too early, or to a length that cannot
 * be, is bad from then on and reads zeros. */
#ifndef TG_BYTES_H
#define TG_BYTES_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "graph/base/arena.h"
#include "graph/base/text.h"

typedef struct { const uint8_t *at, *end; bool bad; } ByteReader;

void put_int(Text *out, int64_t v);
void put_float(Text *out, double v);
void put_text(Text *out, const char *s);                        /* may be NULL */
void put_bytes(Text *out, const void *data, size_t size);       /* their number in front */
int64_t get_int(ByteReader *r);
uint32_t get_count(ByteReader *r);      /* a number of things that follow, each of a byte at least */
double get_float(ByteReader *r);
const char *get_text(ByteReader *r, Arena *arena);              /* a copy; NULL as it was written */
const void *get_bytes(ByteReader *r, size_t *size);             /* where they lie; NULL: there are none */
#endif
