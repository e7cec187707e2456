/* Strings of npy files, which are all of one width with zeros behind: UTF-32 (U) or bytes (S), against tensors of
 * zero-terminated UTF-8. */
#include "onnx/files/npy_text.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* ---- from a tensor */

/* The next character; a byte that is no UTF-8 is the replacement character. */
static uint32_t next_character(const char **s)
{
    const unsigned char *u = (const unsigned char *)*s;
    int more = *u < 0x80 ? 0 : *u >= 0xf0 ? 3 : *u >= 0xe0 ? 2 : *u >= 0xc0 ? 1 : -1;
    uint32_t c = more == 0 ? *u : more > 0 ? *u & (0x3fu >> more) : 0xfffd;
    for (int k = 1; k <= more; k++) {
        if ((u[k] & 0xc0) != 0x80) return *s += k, 0xfffd;
        c = c << 6 | (u[k] & 0x3f);
    }
    *s += more < 0 ? 1 : more + 1;
    return c;
}

/* Characters of the longest string: npy's strings are of one width, UTF-32, zeros behind. */
size_t npy_text_width(const TgTensor *t)
{
    size_t width = 1;
    for (size_t k = 0; k < t->size_bytes / sizeof(char *); k++) {
        size_t n = 0;
        for (const char *s = ((const char *const *)t->data)[k]; *s; n++) next_character(&s);
        if (n > width) width = n;
    }
    return width;
}

void *npy_text_elements(const TgTensor *t, size_t *size)
{
    size_t width = npy_text_width(t), numel = t->size_bytes / sizeof(char *);
    uint32_t *out = calloc(numel * width + 1, sizeof *out);
    *size = numel * width * sizeof *out;
    for (size_t k = 0; out && k < numel; k++) {
        uint32_t *c = out + k * width;
        for (const char *s = ((const char *const *)t->data)[k]; *s;) *c++ = next_character(&s);
    }
    return out;
}

/* ---- from a file */

/* UTF-8 of c at `to`, or only its length when that is NULL. What is no character is the replacement character. */
static size_t put_character(char *to, uint32_t c)
{
    if (c > 0x10ffff || (c >= 0xd800 && c < 0xe000)) c = 0xfffd;
    size_t n = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    static const uint8_t head[5] = { 0, 0, 0xc0, 0xe0, 0xf0 };
    for (size_t k = n; to && k-- > 1; c >>= 6) to[k] = (char)(0x80 | (c & 0x3f));
    if (to) to[0] = (char)(head[n] | c);
    return n;
}

static uint32_t character_at(const uint8_t *from, size_t k, bool wide)
{
    uint32_t c = from[k];
    if (wide) memcpy(&c, from + 4 * k, 4);
    return c;
}

/* The characters of one string, its zeros behind left out; SIZE_MAX: a zero stands within. */
static size_t length_of(const uint8_t *from, size_t width, bool wide)
{
    size_t n = width;
    while (n && !character_at(from, n - 1, wide)) n--;
    for (size_t k = 0; k < n; k++)
        if (!character_at(from, k, wide)) return SIZE_MAX;
    return n;
}

/* Bytes of S are taken as the UTF-8 that they should be. */
static size_t convert(char *to, const uint8_t *from, size_t n, bool wide)
{
    size_t used = wide ? 0 : n;
    if (!wide && to) memcpy(to, from, n);
    for (size_t k = 0; wide && k < n; k++) used += put_character(to ? to + used : NULL, character_at(from, k, true));
    return used;
}

/* The file's size bounds how many strings there are, unless they take no bytes. */
enum { EMPTY_MOST = 1 << 20 };

TgStatus npy_text_read(TgTensor *t, const uint8_t *from, int32_t bytes, int64_t numel, bool wide)
{
    size_t width = (size_t)bytes / (wide ? 4 : 1), total = 0;
    if (!width && numel > EMPTY_MOST)
        return fail(TG_LIMIT, "%lld empty strings; the limit is %d", (long long)numel, EMPTY_MOST);
    for (int64_t k = 0; k < numel; k++) {
        size_t n = length_of(from + k * bytes, width, wide);
        if (n == SIZE_MAX) return fail(TG_BAD_INPUT, "string %lld holds a zero character", (long long)k);
        total += convert(NULL, from + k * bytes, n, wide) + 1;
    }
    t->size_bytes = (size_t)numel * sizeof(char *);
    char **out = t->data = malloc(t->size_bytes + total + 1);
    if (!out) return fail(TG_LIMIT, "%zu bytes of memory are not there", t->size_bytes + total);
    char *at = (char *)(out + numel);
    for (int64_t k = 0; k < numel; k++) {
        out[k] = at;
        at += convert(at, from + k * bytes, length_of(from + k * bytes, width, wide), wide);
        *at++ = 0;
    }
    return TG_OK;
}
