/* Whole numbers as seven bits a byte, the lowest first, the sign in the lowest bit. Comes in and out: bytes.h. */
#include "graph/base/bytes.h"

#include <string.h>

void put_int(Text *out, int64_t v)
{
    char byte[10];
    size_t n = 0;
    uint64_t left = ((uint64_t)v << 1) ^ (v < 0 ? UINT64_MAX : 0);
    do {
        byte[n++] = (char)((left & 0x7f) | (left > 0x7f ? 0x80 : 0));
        left >>= 7;
    } while (left);
    text_bytes(out, byte, n);
}

int64_t get_int(ByteReader *r)
{
    uint64_t v = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
        if (r->at == r->end) break;
        uint8_t byte = *r->at++;
        v |= (uint64_t)(byte & 0x7f) << shift;
        if (!(byte & 0x80)) return (int64_t)((v >> 1) ^ (v & 1 ? UINT64_MAX : 0));
    }
    r->bad = true;
    r->at = r->end;
    return 0;
}

uint32_t get_count(ByteReader *r)
{
    int64_t n = get_int(r);
    if (n >= 0 && n <= r->end - r->at && n < UINT32_MAX) return (uint32_t)n;
    r->bad = true;
    r->at = r->end;
    return 0;
}

void put_bytes(Text *out, const void *data, size_t size)
{
    put_int(out, (int64_t)size);
    if (size) text_bytes(out, data, size);
}

const void *get_bytes(ByteReader *r, size_t *size)
{
    *size = get_count(r);
    const void *data = *size ? r->at : NULL;
    r->at += *size;
    return data;
}

void put_float(Text *out, double v) { text_bytes(out, (const char *)&v, sizeof v); }

double get_float(ByteReader *r)
{
    double v = 0;
    if ((size_t)(r->end - r->at) < sizeof v) r->bad = true, r->at = r->end;
    else memcpy(&v, r->at, sizeof v), r->at += sizeof v;
    return v;
}

void put_text(Text *out, const char *s)
{
    put_int(out, s != NULL);
    if (s) put_bytes(out, s, strlen(s));
}

const char *get_text(ByteReader *r, Arena *arena)
{
    size_t size;
    if (!get_int(r)) return NULL;
    const char *s = get_bytes(r, &size);
    return arena_strndup(arena, s ? s : "", size);
}
