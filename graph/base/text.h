/* Text: a growing string for printers and renderers. Always zero-terminated. */
#ifndef TG_TEXT_H
#define TG_TEXT_H
#include <stdarg.h>
#include <stddef.h>

typedef struct { char *s; size_t len, cap; } Text;

void text_add(Text *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void text_vadd(Text *t, const char *fmt, va_list ap);
void text_bytes(Text *t, const char *s, size_t n);
void text_free(Text *t);
#endif
