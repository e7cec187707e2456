/* Protobuf bytes from a short text, so that a test's model is a row of a table.
 *
 *   N:5  N:-1    varint            N:'text'   string          N{ ... }      message
 *   N~0.5        32-bit float      N^0.5      64-bit float    N#00ff#       bytes, in hex
 *   N[1 2 3]     packed varints    N(3){..}   the message, three times      !00ff!   bytes as they are, outside any
 * field N is the field's number in onnx-ml.proto. Unknown text is a mistake of the test and aborts.
 */
#ifndef TG_PBTEXT_H
#define TG_PBTEXT_H
#include <ctype.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "graph/base/text.h"

static inline void pb_varint(Text *t, uint64_t v)
{
    do {
        char byte = (char)((v & 0x7f) | (v > 0x7f ? 0x80 : 0));
        text_bytes(t, &byte, 1);
    } while (v >>= 7);
}

static inline void pb_field(Text *t, uint64_t number, const void *data, size_t size)
{
    pb_varint(t, number << 3 | 2);
    pb_varint(t, size);
    if (size) text_bytes(t, data, size);
}

static inline void pb_hex(Text *t, const char **s, char end)
{
    for (++*s; **s != end; *s += 2) {
        char pair[3] = { (*s)[0], (*s)[1], 0 }, byte = (char)strtol(pair, NULL, 16);
        if (!pair[0] || !pair[1]) abort();
        text_bytes(t, &byte, 1);
    }
    ++*s;
}

static inline void pb_items(Text *t, const char **s);

/* The part of a field behind its number. */
static inline void pb_value(Text *t, const char **s, uint64_t number)
{
    Text part = { 0 };
    const char *c = *s, *end;
    if (*c == ':' && c[1] == '\'') {
        end = strchr(c + 2, '\'');
        pb_field(t, number, c + 2, (size_t)(end - c - 2));
        *s = end + 1;
    } else if (*c == ':') {
        pb_varint(t, number << 3);
        pb_varint(t, c[1] == '-' ? (uint64_t)strtoll(c + 1, (char **)s, 10) : strtoull(c + 1, (char **)s, 10));
    } else if (*c == '~') {
        float v = strtof(c + 1, (char **)s);
        pb_varint(t, number << 3 | 5);
        text_bytes(t, (const char *)&v, sizeof v);
    } else if (*c == '^') {
        double v = strtod(c + 1, (char **)s);
        pb_varint(t, number << 3 | 1);
        text_bytes(t, (const char *)&v, sizeof v);
    } else if (*c == '#') {
        pb_hex(&part, s, '#');
        pb_field(t, number, part.s, part.len);
    } else if (*c == '[') {
        for (c++; *c != ']'; c += strspn(c, " ")) pb_varint(&part, (uint64_t)strtoll(c, (char **)&c, 10));
        pb_field(t, number, part.s, part.len);
        *s = c + 1;
    } else if (*c == '{' || *c == '(') {
        long times = *c == '(' ? strtol(c + 1, (char **)&c, 10) : 1;
        *s = c + (*c == ')' ? 2 : 1);
        pb_items(&part, s);
        if (*(*s)++ != '}') abort();
        while (times--) pb_field(t, number, part.s, part.len);
    } else abort();
    text_free(&part);
}

static inline void pb_items(Text *t, const char **s)
{
    for (; **s && **s != '}';) {
        if (isspace((unsigned char)**s)) ++*s;
        else if (**s == '!') pb_hex(t, s, '!');
        else if (!isdigit((unsigned char)**s)) abort();
        else {
            uint64_t number = strtoull(*s, (char **)s, 10);
            pb_value(t, s, number);
        }
    }
}

static inline Text pb_text(const char *s)
{
    Text t = { 0 };
    pb_items(&t, &s);
    if (*s) abort();
    return t;
}
#endif
