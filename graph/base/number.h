/* Numbers as text in the C locale, whatever the host's is: where a comma parts decimals, a kernel's constants and the
 * worker's protocol would be other numbers. */
#ifndef TG_NUMBER_H
#define TG_NUMBER_H
#include <stdarg.h>
#include <stddef.h>

/* vsnprintf */
int number_vprint(char *out, size_t size, const char *fmt, va_list ap);
/* snprintf */
int number_print(char *out, size_t size, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
/* strtod */
double number_parse(const char *text, char **end);
#endif
