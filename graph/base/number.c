/* See number.h. The locale is the calling thread's for the time of one call; the process's is not touched. */
#define _GNU_SOURCE
#include "graph/base/number.h"

#include <locale.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static locale_t plain;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void make_plain(void) { plain = newlocale(LC_ALL_MASK, "C", (locale_t)0); }

/* Returns the thread's own. */
static locale_t to_plain(void)
{
    pthread_once(&once, make_plain);
    return plain ? uselocale(plain) : (locale_t)0;
}

static void back_to(locale_t own)
{
    if (own) uselocale(own);
}

/* Only %s, %d, %u, %ld, %lu, %lld, %llu, %c and %%: most formats of kernels' text. By vsnprintf they took a tenth of a
 * first run, since it is slow in processes that have loaded libquadmath, as numpy has. */
static bool is_plain(const char *fmt)
{
    while ((fmt = strchr(fmt, '%'))) {
        fmt++;
        if (*fmt == 'l') fmt += fmt[1] == 'l' ? 2 : 1;
        if (*fmt == '\0' || !strchr(fmt[-1] == 'l' ? "du" : "sduc%", *fmt)) return false;
        fmt++;
    }
    return true;
}

/* Writes in front of end, at most 22 bytes; returns where the text begins. */
static const char *decimal(char *end, unsigned long long v, bool negative)
{
    *--end = '\0';
    do *--end = (char)('0' + v % 10), v /= 10;
    while (v);
    if (negative) *--end = '-';
    return end;
}

static int print_plain(char *out, size_t size, const char *fmt, va_list ap)
{
    size_t n = 0;
    for (size_t of; *fmt; fmt++) {
        char text[24];
        const char *s = text;
        if (*fmt != '%') {
            s = fmt, of = strcspn(fmt, "%"), fmt += of - 1;
        } else if (*++fmt == 's') {
            s = va_arg(ap, const char *), of = strlen(s);
        } else if (*fmt == 'c' || *fmt == '%') {
            text[0] = (char)(*fmt == 'c' ? va_arg(ap, int) : '%'), of = 1;
        } else {
            int longs = 0;
            while (*fmt == 'l') fmt++, longs++;
            bool is_signed = *fmt == 'd';
            long long v = longs == 2 ? va_arg(ap, long long) : longs == 1 ? va_arg(ap, long)
                        : is_signed ? va_arg(ap, int) : (long long)va_arg(ap, unsigned);
            bool negative = is_signed && v < 0;
            s = decimal(text + sizeof text, negative ? -(unsigned long long)v : (unsigned long long)v, negative);
            of = strlen(s);
        }
        if (n < size) memcpy(out + n, s, of < size - n ? of : size - n);
        n += of;
    }
    if (size) out[n < size ? n : size - 1] = '\0';
    return (int)n;
}

int number_vprint(char *out, size_t size, const char *fmt, va_list ap)
{
    if (is_plain(fmt)) return print_plain(out, size, fmt, ap);
    locale_t own = to_plain();
    int n = vsnprintf(out, size, fmt, ap);
    back_to(own);
    return n;
}

int number_print(char *out, size_t size, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    int n = number_vprint(out, size, fmt, ap);
    va_end(ap);
    return n;
}

double number_parse(const char *text, char **end)
{
    locale_t own = to_plain();
    double v = strtod(text, end);
    back_to(own);
    return v;
}
