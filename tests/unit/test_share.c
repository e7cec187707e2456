/* tg_share: sessions that share run at once, and each gives what one alone gives: values behind halos, guards, sizes
 * that vary, programs that one of them makes, kernels that a compiler replaces meanwhile. Under ThreadSanitizer,
 * too. */
#include "tests/test.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/pbtext.h"
#include "tgrun.h"

/* y = Gather(Conv(Relu(Conv(x, w)), w), i): x f32[n,2,6,6], w f32[2,2,3,3], i i64[3] */
#define DIM(N) "1{1:" #N "}"
#define PADS "5{1:'pads' 20:7 8[1 1 1 1]}"
static const char text[] =
    "1:8 8{2:13} 7{1{1:'x' 1:'w' 2:'a' 4:'Conv' " PADS "} 1{1:'a' 2:'b' 4:'Relu'} 1{1:'b' 1:'w' 2:'c' 4:'Conv' " PADS "} "
    "1{1:'c' 1:'i' 2:'y' 4:'Gather'} 11{1:'x' 2{1{1:1 2{1{2:'n'} " DIM(2) DIM(6) DIM(6) "}}}} "
    "11{1:'w' 2{1{1:1 2{" DIM(2) DIM(2) DIM(3) DIM(3) "}}}} 11{1:'i' 2{1{1:7 2{" DIM(3) "}}}} 12{1:'y' 2{1{1:1}}}}";

enum { ROWS = 6, PICTURE = 72, THREADS = 4, RUNS = 60, OUT = 3 * PICTURE };
typedef struct { float x[ROWS * PICTURE], w[36]; int64_t i[3]; } Data;

static void fill(Data *d, unsigned seed)
{
    for (int k = 0; k < ROWS * PICTURE; k++) d->x[k] = (float)((k * 7 + (int)seed * 13) % 23 - 11) / 16;
    for (int k = 0; k < 36; k++) d->w[k] = (float)((k * 5 + (int)seed) % 9 - 4) / 8;
    for (int k = 0; k < 3; k++) d->i[k] = (int64_t)((seed + (unsigned)k) % 2);
}

static TgStatus run(TgSession *s, Data *d, int64_t n, TgTensor *y)
{
    const TgTensor in[] = {
        { .type = TG_F32, .rank = 4, .shape = { n, 2, 6, 6 }, .data = d->x, .size_bytes = (size_t)n * PICTURE * 4 },
        { .type = TG_F32, .rank = 4, .shape = { 2, 2, 3, 3 }, .data = d->w, .size_bytes = sizeof d->w },
        { .type = TG_I64, .rank = 1, .shape = { 3 }, .data = d->i, .size_bytes = sizeof d->i }
    };
    return tg_run(s, in, 3, y);
}

static Text bytes;
static TgSession *open_it(const char *device, const char *compiler)
{
    TgOptions o;
    TgSession *s = NULL;
    tg_options_default(&o);
    o.device = device, o.no_cache = 1, o.threads = 2, o.compiler = compiler;
    assert_int_equal(tg_open_memory(&s, bytes.s, bytes.len, NULL, &o), TG_OK);
    return s;
}

static float want[THREADS][ROWS + 1][OUT];
static atomic_int wrong;

typedef struct { TgSession *s; int number; } Client;

/* Sizes in an order of its own; every fifth run has an index that is not there. */
static void *client(void *user)
{
    const Client *c = user;
    Data d;
    TgTensor y;
    for (int r = 0; r < RUNS; r++) {
        int64_t n = 2 + (r + c->number) % (ROWS - 1);
        fill(&d, (unsigned)c->number);
        if (r % 5 == 4) d.i[1] = n + 3;
        TgStatus status = run(c->s, &d, n, &y);
        bool good = r % 5 == 4
            ? status == TG_BAD_INPUT
            : status == TG_OK && !memcmp(y.data, want[c->number][n], sizeof *want[0]);
        if (!good) atomic_fetch_add(&wrong, 1);
    }
    tg_close(c->s);
    return NULL;
}

static void at_once(const char *compiler, bool prepared, bool root_first)
{
    TgSession *root = open_it("cpu", compiler);
    Client c[THREADS];
    pthread_t thread[THREADS];
    Data d;
    TgTensor y;
    fill(&d, 0);
    if (prepared) assert_int_equal(run(root, &d, 3, &y), TG_OK);
    for (int k = 0; k < THREADS; k++) {
        c[k] = (Client){ .number = k };
        assert_int_equal(tg_share(&c[k].s, k % 2 ? c[k - 1].s : root, NULL), TG_OK);
    }
    if (root_first) tg_close(root);
    for (int k = 0; k < THREADS; k++) assert_int_equal(pthread_create(&thread[k], NULL, client, &c[k]), 0);
    for (int k = 0; k < THREADS; k++) pthread_join(thread[k], NULL);
    if (!root_first) {
        fill(&d, 0);
        assert_int_equal(run(root, &d, 4, &y), TG_OK);
        assert_memory_equal(y.data, want[0][4], sizeof *want[0]);
        assert_true(tg_program_count(root) <= 2);
        tg_close(root);
    }
    assert_int_equal(atomic_exchange(&wrong, 0), 0);
}

static int make_want(void **state)
{
    (void)state;
    bytes = pb_text(text);
    TgSession *s = open_it("cpu", "cc");
    for (int k = 0; k < THREADS; k++)
        for (int64_t n = 2; n <= ROWS; n++) {
            Data d;
            TgTensor y;
            fill(&d, (unsigned)k);
            assert_int_equal(run(s, &d, n, &y), TG_OK);
            memcpy(want[k][n], y.data, sizeof *want[0]);
        }
    tg_close(s);
    return 0;
}

static void run_at_once(void **state)
{
    (void)state;
    at_once("cc", true, false);
}

static void made_by_any(void **state)
{
    (void)state;
    at_once("cc", false, false);
}

static void root_is_closed_first(void **state)
{
    (void)state;
    at_once("cc", true, true);
    at_once("cc", false, true);
}

/* Kernels of our own, and then the compiler's, differ in last bits: only that all goes well is seen. */
static void kernels_are_replaced(void **state)
{
    (void)state;
    TgSession *root = open_it("cpu", "auto"), *s[THREADS];
    Data d;
    TgTensor y;
    fill(&d, 1);
    for (int k = 0; k < THREADS; k++) assert_int_equal(tg_share(&s[k], root, NULL), TG_OK);
    for (int r = 0; r < 300; r++)
        for (int k = 0; k < THREADS; k++) {
            assert_int_equal(run(s[k], &d, 5, &y), TG_OK);
            for (int e = 0; e < OUT; e++) {
                float a = ((float *)y.data)[e] - want[1][5][e];
                assert_true(a < 1e-5f && a > -1e-5f);
            }
        }
    for (int k = 0; k < THREADS; k++) tg_close(s[k]);
    tg_close(root);
}

static void refused(void **state)
{
    (void)state;
    TgSession *root = open_it("reference", NULL), *s = NULL;
    assert_int_equal(tg_share(&s, root, NULL), TG_UNSUPPORTED);
    assert_null(s);
    tg_close(root);
    root = open_it("none", NULL);
    assert_int_equal(tg_share(&s, root, NULL), TG_USAGE);
    tg_close(root);
}

/* A share's own flag stops it alone. */
static void own_watcher(void **state)
{
    (void)state;
    static int32_t flag;
    TgOptions o;
    TgSession *root = open_it("cpu", "cc"), *s;
    Data d;
    TgTensor y;
    tg_options_default(&o);
    o.stop = &flag;
    fill(&d, 2);
    assert_int_equal(tg_share(&s, root, &o), TG_OK);
    flag = 1;
    assert_int_equal(run(s, &d, 3, &y), TG_STOPPED);
    assert_int_equal(run(root, &d, 3, &y), TG_OK);
    flag = 0;
    assert_int_equal(run(s, &d, 3, &y), TG_OK);
    assert_memory_equal(y.data, want[2][3], sizeof *want[0]);
    tg_close(s);
    tg_close(root);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(run_at_once),          cmocka_unit_test(made_by_any),
                                        cmocka_unit_test(root_is_closed_first), cmocka_unit_test(kernels_are_replaced),
                                        cmocka_unit_test(refused),              cmocka_unit_test(own_watcher) };
    return cmocka_run_group_tests(tests, make_want, NULL);
}
