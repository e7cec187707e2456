/* Statistics of timings. Everything is deterministic: random numbers come from a seed. */
#ifndef TG_STATS_H
#define TG_STATS_H
#include <stdbool.h>
#include <stdint.h>

#include "common/order.h"

typedef struct { uint64_t state; } Random;
uint64_t random_bits(Random *r);
double random_unit(Random *r);                                  /* [0, 1) */
double random_normal(Random *r);

/* Runs that a percentile needs to mean something (a binomial bound: 64 for p90, 662 for p99). */
uint32_t runs_for_percentile(double percent);
/* Have timings settled? The medians of the last two groups of `group` runs agree within `tolerance`. */
bool is_steady(const double *v, uint32_t n, uint32_t group, double tolerance);

/* Pairs of blocks: log_ratio[k] = log(median of block of A / median of block of B). */
typedef struct { double ratio, low, high; } Interval;
Interval ratio_of_pairs(const double *log_ratio, uint32_t n); /* exp(median), and where it lies in 95 % of duels */
#endif
