/* The clock that all times are taken by. Inline, since the programs and the library each want it. */
#ifndef TG_CLOCK_H
#define TG_CLOCK_H
#include <stdint.h>
#include <time.h>

static inline int64_t clock_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

static inline double clock_s(void) { return 1e-9 * (double)clock_ns(); }
#endif
