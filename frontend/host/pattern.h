/* Regular expressions, as the standard names them: RE2's. */
#ifndef TG_PATTERN_H
#define TG_PATTERN_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tgrun.h"

/* Is it a pattern of RE2's, and short enough? Else TG_UNSUPPORTED or TG_LIMIT, and why. */
TgStatus pattern_check(const char *pattern, char *why, size_t size);

typedef struct Matcher Matcher;
/* The thread's own matcher of a pattern, which it keeps: a run of one short text takes less than compiling its pattern.
 * full: it matches a string as a whole. strings: that come next. */
TgStatus matcher_of(Matcher **out, const char *pattern, bool full, int64_t strings);
/* Where it matches next, from byte `at` of s on: bytes begin to end. *found: does it? */
TgStatus matcher_next(Matcher *m, const char *s, size_t len, size_t at, size_t *begin, size_t *end, bool *found);
#endif
