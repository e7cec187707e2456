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
    assert_float_equal(median_of(v, 4), 3, 0); /* 1 2 4 5 */
    assert_true(median_of(v, 1) == 5);
    assert_float_equal(v[0], 5, 0); /* unchanged */
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
    for (int i = 0; i < 20; i++) v[i] = 100.0 - i; /* still getting faster */
    assert_false(is_steady(v, 20, 5, 0.01));
    assert_false(is_steady(v, 9, 5, 0.01)); /* too few */
    for (int i = 0; i < 20; i++) v[i] = 100 + (i & 1) * 0.1;
    assert_true(is_steady(v, 20, 5, 0.01));
}

/* An engine on a machine that is not quiet: a slow drift common to both, bursts of other load, single spikes, an engine
 * whose times come in two modes, in which it stays for a while. `ratio` is how much slower engine 1 is. */
typedef struct {
    const char *name;
    double drift, bursts, spikes, modes;
} Weather;
typedef struct {
    Random r;
    const Weather *w;
    double drift, ratio;
    int burst;
    bool slow[2];
} Machine;

static const Weather weathers[] = { { "calm", 0, 0, 0, 0 },
                                    { "drift", 0.004, 0, 0, 0 },
                                    { "bursts", 0, 0.004, 0.01, 0 },
                                    { "modes", 0, 0, 0, 0.02 },
                                    { "all", 0.004, 0.004, 0.01, 0.02 } };
enum { WEATHERS = sizeof weathers / sizeof *weathers, PAIRS = 30, RUNS = 20, PLACEBOS = 5 };

static bool block(void *user, int who, uint32_t n, double *ms)
{
    Machine *m = user;
    for (uint32_t i = 0; i < n; i++) {
        m->drift = 0.995 * m->drift + m->w->drift * random_normal(&m->r);
        if (m->burst) m->burst--;
        else if (random_unit(&m->r) < m->w->bursts) m->burst = (int)(50 * random_unit(&m->r));
        if (random_unit(&m->r) < m->w->modes) m->slow[who] = !m->slow[who];
        double t = 4 * (who ? m->ratio : 1) * exp(m->drift) * (1 + 0.01 * fabs(random_normal(&m->r)));
        if (m->slow[who]) t *= 1.1;
        if (m->burst) t *= 1.15;
        if (random_unit(&m->r) < m->w->spikes) t *= 1.5 + random_unit(&m->r);
        ms[i] = t;
    }
    return true;
}

/* Of `trials` duels: in how many a difference was shown, and in how many the interval held the true ratio. */
typedef struct {
    int found, held;
} Trials;

static Trials duels(const Weather *w, double ratio, int trials, uint64_t seed)
{
    Trials t = { 0, 0 };
    for (int k = 0; k < trials; k++) {
        Machine machine = { { seed + (uint64_t)k * 7919 }, w, 0, ratio, 0, { false } },
                same = { { seed + (uint64_t)k * 104729 + 1 }, w, 0, 1, 0, { false } };
        double log_ratio[PAIRS_MAX], placebo[PAIRS_MAX];
        Random r = { (uint64_t)k };
        assert_true(pairs_measure(log_ratio, PAIRS, RUNS, block, &machine, &r));
        assert_true(pairs_measure(placebo, PLACEBOS, RUNS, block, &same, &r));
        Interval i = ratio_of_pairs(log_ratio, PAIRS), p = ratio_of_pairs(placebo, PLACEBOS);
        t.found += is_different(&i, PAIRS, &p, PLACEBOS);
        t.held += i.low <= ratio && ratio <= i.high;
    }
    return t;
}

static void equal_engines_look_equal(void **state)
{
    (void)state;
    for (int w = 0; w < WEATHERS; w++) {
        Trials t = duels(&weathers[w], 1, 1000, 1000003 * (uint64_t)(w + 1));
        print_message("%s: equal engines look different in %d of 1000 duels; %d intervals hold 1\n", weathers[w].name,
                      t.found, t.held);
        assert_true(t.found < 70);
        assert_true(t.held >= 930);
    }
}

static void five_percent_are_found(void **state)
{
    (void)state;
    for (int w = 0; w < WEATHERS; w++) {
        Trials t = duels(&weathers[w], 1.05, 1000, 17 + (uint64_t)w);
        print_message("%s: 5 %% are found in %d of 1000 duels; %d intervals hold them\n", weathers[w].name, t.found,
                      t.held);
        assert_true(t.held >= 930);
        assert_true(weathers[w].modes > 0 || t.found >= 930);
    }
}

/* Pairs that other programs disturbed do not count, but for what disturbs nearly all of them. */
static void quiet_pairs_count(void **state)
{
    (void)state;
    double v[30], others[30], busy[30];
    for (int k = 0; k < 30; k++) v[k] = k, others[k] = k % 2 ? 0.9 : 0.1, busy[k] = k % 3 ? 0.9 : 0;
    assert_int_equal(pairs_quiet(v, others, 30), 15);
    assert_true(v[0] == 0 && v[1] == 2 && v[14] == 28);
    for (int k = 0; k < 30; k++) v[k] = k;
    assert_int_equal(pairs_quiet(v, busy, 30), 30);
    assert_true(v[1] == 1);
}

static void intervals_hold_the_ratio(void **state)
{
    (void)state;
    int inside = 0;
    for (int k = 0; k < 100; k++) {
        Random r = { (uint64_t)k + 1 };
        double v[25];
        for (int i = 0; i < 25; i++) v[i] = log(1.2) + 0.05 * random_normal(&r);
        Interval i = ratio_of_pairs(v, 25);
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
        cmocka_unit_test(quiet_pairs_count),        cmocka_unit_test(intervals_hold_the_ratio),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
