/* Order statistics of timings: what spikes do not move. Inline, since the programs and the library each want them. */
#ifndef TG_ORDER_H
#define TG_ORDER_H
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static inline int order_ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static inline void sort_doubles(double *v, uint32_t n) { qsort(v, n, sizeof *v, order_ascending); }

/* Linear between order statistics; q in 0 .. 1. */
static inline double quantile_sorted(const double *v, uint32_t n, double q)
{
    double at = q * (n - 1);
    uint32_t i = (uint32_t)at;
    return i + 1 < n ? v[i] + (at - i) * (v[i + 1] - v[i]) : v[n - 1];
}

/* v is not changed; NAN of none. */
static inline double median_of(const double *v, uint32_t n)
{
    double *copy = malloc(sizeof *v * n), m = NAN;
    if (copy && n) {
        memcpy(copy, v, sizeof *v * n);
        sort_doubles(copy, n);
        m = quantile_sorted(copy, n, 0.5);
    }
    free(copy);
    return m;
}
#endif
