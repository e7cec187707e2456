/* Measuring in alternation, against machines that are made up: which of two is faster, whatever disturbs them? */
#include <math.h>
#include <string.h>

#include "beam/alternate.h"
#include "graph/base/status.h"
#include "tests/test.h"

typedef struct { int calls[2], last, alternations; double (*noise)(int call); int fail_at; } Machine;

/* Side 0 takes 2 and 6, side 1 1.8 and 6.6. */
static TgStatus sample(void *user, int side, double *seconds)
{
    static const double took[2][2] = { { 2, 6 }, { 1.8, 6.6 } };
    Machine *m = user;
    int call = m->calls[0] + m->calls[1];
    if (call == m->fail_at) return fail(TG_BAD_INPUT, "as requested");
    m->alternations += side != m->last;
    m->last = side;
    m->calls[side]++;
    for (int k = 0; k < 2; k++) seconds[k] += took[side][k] * m->noise(call);
    return TG_OK;
}

static double quiet(int call) { return call < 2 ? 50 : 1; }                             /* the first of both is cold */
static double spikes(int call) { return call % 5 == 2 ? 30 : 1; }
static double drift(int call) { return 1 + 0.02 * call; }

static void medians(void **state)
{
    static double (*const noise[])(int) = { quiet, spikes, drift };
    (void)state;
    for (size_t i = 0; i < 3; i++) {
        Machine m = { .last = -1, .noise = noise[i], .fail_at = -1 };
        double a[2], b[2];
        assert_int_equal(alternate(&(Alternation){ .sample = sample, .user = &m, .n = { 2, 2 }, .seconds = 1 },
                                   (double *[]){ a, b }),
                         TG_OK);
        assert_int_equal(m.calls[0], SAMPLES_MOST + 1);
        assert_int_equal(m.calls[1], SAMPLES_MOST + 1);
        assert_true(m.alternations > SAMPLES_MOST);
        assert_true(fabs(b[0] / a[0] - 0.9) < 0.02 && fabs(b[1] / a[1] - 1.1) < 0.02);
        if (i < 2) assert_true(a[0] == 2 && b[1] == 6.6);
    }
}

/* Without time each side still gets its fewest samples. */
static void fewest(void **state)
{
    Machine m = { .noise = quiet, .fail_at = -1 };
    double a[2], b[2];
    (void)state;
    assert_int_equal(alternate(&(Alternation){ .sample = sample, .user = &m, .n = { 2, 2 } }, (double *[]){ a, b }),
                     TG_OK);
    assert_int_equal(m.calls[0], SAMPLES_LEAST + 1);
    assert_int_equal(m.calls[1], SAMPLES_LEAST + 1);
}

static void failure(void **state)
{
    double a[2], b[2];
    (void)state;
    for (int at = 0; at < 6; at++) {
        Machine m = { .noise = quiet, .fail_at = at };
        assert_int_equal(alternate(&(Alternation){ .sample = sample, .user = &m, .n = { 2, 2 }, .seconds = 1 },
                                   (double *[]){ a, b }),
                         TG_BAD_INPUT);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(medians), cmocka_unit_test(fewest),
                                        cmocka_unit_test(failure) };
    return cmocka_run_group_tests_name("samples", tests, NULL, NULL);
}
