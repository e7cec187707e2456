/* Why medians of blocks in pairs: timings drift, come in bursts and have spikes. Neighbouring blocks share the drift, a
 * median ignores spikes, and resampling pairs, not runs, keeps the interval honest when runs resemble their neighbours.
 * tests/unit/test_stats.c repeats the simulation that chose this. */
#include "bench/stats.h"

#include <math.h>
#include <stdlib.h>

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

Interval ratio_of_pairs(const double *log_ratio, uint32_t n, Random *r)
{
    enum { DRAWS = 2000 };
    double draw[DRAWS], sample[n];
    for (int d = 0; d < DRAWS; d++) {
        for (uint32_t i = 0; i < n; i++) sample[i] = log_ratio[random_bits(r) % n];
        sort_doubles(sample, n);
        draw[d] = quantile_sorted(sample, n, 0.5);
    }
    sort_doubles(draw, DRAWS);
    return (Interval){ exp(median_of(log_ratio, n)), exp(quantile_sorted(draw, DRAWS, 0.025)),
                       exp(quantile_sorted(draw, DRAWS, 0.975)) };
}
