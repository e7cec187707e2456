/* See number.h. The locale is the calling thread's for the time of one call; the process's is not touched. */
#define _GNU_SOURCE
#include "graph/base/number.h"

#include <locale.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

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

int number_vprint(char *out, size_t size, const char *fmt, va_list ap)
{
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
