#include "graph/base/text.h"

#include "graph/base/memory.h"
#include "graph/base/number.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static void grow(Text *t, size_t more)
{
    if (t->len + more + 1 <= t->cap) return;
    size_t cap = (t->len + more + 1) * 2;
    t->s = mem_grow(t->s, cap);
    t->cap = cap;
}

void text_bytes(Text *t, const char *s, size_t n)
{
    grow(t, n);
    memcpy(t->s + t->len, s, n);
    t->s[t->len += n] = 0;
}

void text_vadd(Text *t, const char *fmt, va_list ap)
{
    va_list again;
    va_copy(again, ap);
    grow(t, 160);
    int n = number_vprint(t->s + t->len, t->cap - t->len, fmt, ap);
    if ((size_t)n >= t->cap - t->len) {
        grow(t, (size_t)n);
        number_vprint(t->s + t->len, t->cap - t->len, fmt, again);
    }
    va_end(again);
    t->len += (size_t)n;
}

void text_add(Text *t, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    text_vadd(t, fmt, ap);
    va_end(ap);
}

void text_free(Text *t)
{
    mem_free(t->s);
    *t = (Text){ 0 };
}
