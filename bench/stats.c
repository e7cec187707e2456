/* Why medians of blocks in pairs: timings drift, come in bursts and have spikes. Neighbouring blocks share the drift, a
 * median ignores spikes, and an interval from pairs, not runs, stays honest when runs resemble their neighbours.
 * tests/unit/test_stats.c repeats the simulation that chose this. */
#include "bench/stats.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* splitmix64: one multiply-xorshift chain a number, any seed is good. */
uint64_t random_bits(Random *r)
{
    uint64_t z = r->state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

double random_unit(Random *r) { return (double)(random_bits(r) >> 11) * 0x1p-53; }

double random_normal(Random *r)
{
    double u = 1 - random_unit(r), v = random_unit(r);
    return sqrt(-2 * log(u)) * cos(6.283185307179586 * v);
}

/* The fewest runs of which at least two lie above the percentile with 99 % confidence: fewer, and one spike would be
 * the answer. */
uint32_t runs_for_percentile(double percent)
{
    double tail = 1 - percent / 100;
    uint32_t n = 1;
    if (percent <= 50) return 1;
    while (n < 10000000 && pow(1 - tail, n) + n * tail * pow(1 - tail, n - 1) > 0.01) n++;
    return n;
}

bool is_steady(const double *v, uint32_t n, uint32_t group, double tolerance)
{
    if (n < 2 * group) return false;
    double now = median_of(v + n - group, group), before = median_of(v + n - 2 * group, group);
    return fabs(now - before) <= tolerance * before;
}

/* How many times the variance that independent pairs would have: an engine may stay for a while in one of two modes,
 * and then neighbours resemble each other. As of an autoregressive process whose correlation of neighbours is theirs,
 * with the bias that an estimate from n has (Marriott and Pope, Biometrika 41, 1954). */
static double dependence(const double *v, uint32_t n)
{
    double mean = 0, all = 0, next = 0, r;
    for (uint32_t i = 0; i < n; i++) mean += v[i] / n;
    for (uint32_t i = 0; i < n; i++) {
        all += (v[i] - mean) * (v[i] - mean);
        if (i) next += (v[i] - mean) * (v[i - 1] - mean);
    }
    r = all > 0 ? next / all : 0;
    r = fmin(0.9, fmax(0, r + (1 + 3 * fmax(0, r)) / n));
    return (1 + r) / (1 - r);
}

/* The median lies between two order statistics whose distance is the binomial distribution's, in its normal form, which
 * asks nothing of the values' own distribution. */
Interval ratio_of_pairs(const double *log_ratio, uint32_t n)
{
    double v[n], beyond = 0.5 * (n - 1 - 1.96 * sqrt(n * dependence(log_ratio, n)));
    memcpy(v, log_ratio, sizeof v);
    sort_doubles(v, n);
    double part = fmax(0, beyond) / fmax(1, n - 1);
    return (Interval){ exp(quantile_sorted(v, n, 0.5)), exp(quantile_sorted(v, n, part)),
                       exp(quantile_sorted(v, n, 1 - part)) };
}
