/* bench/stats.c and the pairs of bench/duel.c: order statistics, and, by simulation, that equal engines seldom look
 * different and that a small difference is found. */
#include "tests/test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "bench/duel.h"

static void medians_and_percentiles(void **state)
{
    (void)state;
    double v[] = { 5, 1, 4, 2, 3 };
    assert_true(median_of(v, 5) == 3);
    assert_float_equal(median_of(v, 4), 3, 0);          /* 1 2 4 5 */
    assert_true(median_of(v, 1) == 5);
    assert_float_equal(v[0], 5, 0);                     /* unchanged */
    sort_doubles(v, 5);
    assert_true(quantile_sorted(v, 5, 0) == 1);
    assert_true(quantile_sorted(v, 5, 1) == 5);
    assert_float_equal(quantile_sorted(v, 5, 0.25), 2, 1e-12);
    assert_int_equal(runs_for_percentile(50), 1);
    assert_int_equal(runs_for_percentile(90), 64);
    assert_int_equal(runs_for_percentile(99), 662);
}

static void steadiness(void **state)
{
    (void)state;
    double v[20];
    for (int i = 0; i < 20; i++) v[i] = 100.0 - i;      /* still getting faster */
    assert_false(is_steady(v, 20, 5, 0.01));
    assert_false(is_steady(v, 9, 5, 0.01));             /* too few */
    for (int i = 0; i < 20; i++) v[i] = 100 + (i & 1) * 0.1;
    assert_true(is_steady(v, 20, 5, 0.01));
}

/* An engine on a machine that is not quiet: a slow drift common to both, bursts of other load, single spikes. `ratio`
 * is how much slower engine 1 is. */
typedef struct { Random r; double drift, ratio; int burst; } Machine;

static bool block(void *user, int who, uint32_t n, double *ms)
{
    Machine *m = user;
    for (uint32_t i = 0; i < n; i++) {
        m->drift = 0.995 * m->drift + 0.004 * random_normal(&m->r);
        if (m->burst) m->burst--;
        else if (random_unit(&m->r) < 0.004) m->burst = (int)(50 * random_unit(&m->r));
        double t = 4 * (who ? m->ratio : 1) * exp(m->drift) * (1 + 0.01 * fabs(random_normal(&m->r)));
        if (m->burst) t *= 1.15;
        if (random_unit(&m->r) < 0.01) t *= 1.5 + random_unit(&m->r);
        ms[i] = t;
    }
    return true;
}

static int differences(double ratio, uint32_t pairs, uint32_t runs, int trials, uint64_t seed)
{
    int found = 0;
    for (int k = 0; k < trials; k++) {
        Machine machine = { { seed + (uint64_t)k * 7919 }, 0, ratio, 0 },
                same = { { seed + (uint64_t)k * 104729 + 1 }, 0, 1, 0 };
        double log_ratio[PAIRS_MAX], placebo[PAIRS_MAX];
        Random r = { (uint64_t)k };
        assert_true(pairs_measure(log_ratio, pairs, runs, block, &machine, &r));
        assert_true(pairs_measure(placebo, 5, runs, block, &same, &r));
        Interval i = ratio_of_pairs(log_ratio, pairs, &r), p = ratio_of_pairs(placebo, 5, &r);
        found += is_different(&i, pairs, &p, 5);
    }
    return found;
}

static void equal_engines_look_equal(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 3; seed++) assert_true(differences(1, 30, 20, 100, seed * 1000003) <= 7);
}

static void five_percent_are_found(void **state)
{
    (void)state;
    assert_true(differences(1.05, 30, 20, 100, 17) >= 93);
}

static void intervals_hold_the_ratio(void **state)
{
    (void)state;
    int inside = 0;
    for (int k = 0; k < 100; k++) {
        Random r = { (uint64_t)k + 1 };
        double v[25];
        for (int i = 0; i < 25; i++) v[i] = log(1.2) + 0.05 * random_normal(&r);
        Interval i = ratio_of_pairs(v, 25, &r);
        inside += i.low <= 1.2 && 1.2 <= i.high;
        assert_true(i.low <= i.ratio && i.ratio <= i.high);
    }
    assert_true(inside >= 88);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(medians_and_percentiles),  cmocka_unit_test(steadiness),
        cmocka_unit_test(equal_engines_look_equal), cmocka_unit_test(five_percent_are_found),
        cmocka_unit_test(intervals_hold_the_ratio),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
