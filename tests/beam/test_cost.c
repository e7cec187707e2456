/* The estimate puts what is plainly better first; recipes mean the lists that they were made of; kernels survive as
 * text. */
#include "tests/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backends/reference/reference.h"
#include "beam/cost.h"
#include "beam/moves.h"
#include "beam/wire.h"
#include "subject.h"

static Graph *g;
static Schedule *schedule;
static Kernel *gemm;

static int setup(void **state)
{
    (void)state;
    g = graph_new();
    gemm = subject_of(g, subject_gemm(g, 96, 128, 256), &beam_target, &schedule);
    return gemm ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    schedule_free(schedule);
    graph_free(g);
    return 0;
}

static double seconds(const char *list)
{
    Kernel *k = subject_under(gemm, &beam_target, list);
    if (!k) print_message("%s: %s\n", list, tg_error());
    assert_non_null(k);
    double s = kernel_cost(k, &beam_target).seconds;
    kernel_free(k);
    return s;
}

/* Each row: the first list is better than the second. */
static void test_order(void **state)
{
    static const char *const row[][2] = {
        { "SPLIT 1 8 UPCAST; PACK 2", "" },                                                                     /* lanes */
        { "SPLIT 1 8 UPCAST; SPLIT 0 6 UPCAST; PACK 2", "SPLIT 1 8 UPCAST; PACK 2" },                            /* accumulators hide latency */
        { "SPLIT 1 8 UPCAST; SPLIT 1 2 UPCAST; SPLIT 0 6 UPCAST; PACK 2", "SPLIT 1 8 UPCAST; SPLIT 0 2 UPCAST; PACK 2" },         /* loads a multiply-add */
        { "SPLIT 1 8 UPCAST; SPLIT 1 2 UPCAST; SPLIT 0 6 UPCAST; PACK 2", "SPLIT 1 8 UPCAST; SPLIT 1 4 UPCAST; SPLIT 0 12 UPCAST; PACK 2" },     /* registers */
        { "SPLIT 1 8 UPCAST; SPLIT 0 6 UPCAST; SPLIT 0 16 THREAD; PACK 2", "SPLIT 1 8 UPCAST; SPLIT 0 6 UPCAST; PACK 2" },        /* threads */
        { "SPLIT 1 8 UPCAST; SPLIT 0 6 UPCAST; PACK 2", "SPLIT 0 8 UPCAST; SPLIT 2 4 UPCAST" },                                   /* a gather for each lane */
    };
    (void)state;
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        double a = seconds(row[i][0]), b = seconds(row[i][1]);
        if (a >= b) print_message("%s (%.3g) should beat %s (%.3g)\n", row[i][0], a, row[i][1], b);
        assert_true(a < b);
    }
}

static void test_grows_with_work(void **state)
{
    double last = 0;
    (void)state;
    for (int64_t n = 16; n <= 256; n *= 2) {
        Graph *own = graph_new();
        Schedule *s = NULL;
        Kernel *k = subject_of(own, subject_gemm(own, n, 64, 64), &beam_target, &s),
               *low = subject_under(k, &beam_target, "SPLIT 1 8 UPCAST");
        Cost c = kernel_cost(low, &beam_target);
        assert_true(c.seconds > last);
        last = c.seconds;
        kernel_free(low);
        schedule_free(s);
        graph_free(own);
    }
}

static void assert_same(const OptList *a, const OptList *b)
{
    Text x = { 0 }, y = { 0 };
    opt_print(&x, a);
    opt_print(&y, b);
    assert_string_equal(x.s, y.s);
    text_free(&x);
    text_free(&y);
}

static void test_recipe(void **state)
{
    static const char *const list[] = {
        "SPLIT 1 16 UPCAST; SPLIT 1 2 UPCAST; SPLIT 0 8 UPCAST; SWAP 2 1; SWAP 1 0; SPLIT 0 4 THREAD; PACK 2",
        "SPLIT 0 2 LOOP TOP; SWAP 0 1; SPLIT 3 4 UNROLL", "PADTO 2 7; SPLIT 1 8 UPCAST"
    };
    (void)state;
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
        OptList l, out;
        Recipe r;
        assert_int_equal(opt_parse(&l, list[i]), TG_OK);
        assert_true(recipe_of(&r, gemm, &l, &beam_target));
        Kernel *k = recipe_apply(&out, gemm, &r, &beam_target);
        assert_non_null(k);
        assert_same(&l, &out);
        kernel_free(k);
    }
}

static uint32_t seen, legal;

static void try_one(void *user, const Recipe *r)
{
    OptList out;
    (void)user;
    seen++;
    Kernel *k = recipe_apply(&out, gemm, r, &beam_target);
    if (k) legal++, kernel_free(k);
}

static void test_neighbours(void **state)
{
    OptList l;
    Recipe r;
    (void)state;
    heuristic_opts(&l, gemm, &beam_target);
    assert_true(recipe_of(&r, gemm, &l, &beam_target));
    recipe_neighbours(&r, gemm, &beam_target, try_one, NULL);
    assert_true(seen > 50);
    assert_true(legal * 3 > seen);
}

static const Target wide = { .kind = "cpu",
                             .vector_bytes = 64,
                             .vector_registers = 32,
                             .threads = 1,
                             .l1_bytes = 48 << 10,
                             .l2_bytes = 1 << 20,
                             .has_fma = true };

/* Rows of the tile that is chosen for 56 rows of k floats by 32 columns. */
static int64_t tile_rows(int64_t k)
{
    Graph *own = graph_new();
    Schedule *s = NULL;
    OptList l;
    int64_t rows = 1;
    heuristic_opts(&l, subject_of(own, subject_gemm(own, 56, 32, k), &wide, &s), &wide);
    for (uint32_t i = 0; i < l.count; i++)
        if (l.op[i].kind == OPT_SPLIT && l.op[i].target == AXIS_UPCAST && l.op[i].factor != 16 && l.op[i].factor != 2)
            rows *= l.op[i].factor;
    schedule_free(s);
    graph_free(own);
    return rows;
}

/* A cache of twelve ways holds fourteen rows that are not at a stride of pages. */
static void test_crowded_sets(void **state)
{
    (void)state;
    assert_int_equal(tile_rows(1000), 14);
    assert_in_range(tile_rows(1024), 2, 10);
    assert_in_range(tile_rows(2048), 2, 10);
}

/* The list of m rows of k floats by n columns. */
static void check_rows(int64_t m, int64_t n, int64_t k, const char *has, const char *lacks)
{
    Graph *own = graph_new();
    Schedule *s = NULL;
    OptList l;
    Text text = { 0 };
    Target two = wide;
    two.threads = 2, two.has_threads = true;
    heuristic_opts(&l, subject_of(own, subject_gemm(own, m, n, k), &two, &s), &two);
    opt_print(&text, &l);
    bool good = strstr(text.s, has) && !strstr(text.s, lacks);
    if (!good) print_error("%lld x %lld: %s\n", (long long)m, (long long)n, text.s);
    assert_true(good);
    text_free(&text);
    schedule_free(s);
    graph_free(own);
}

/* A result of n numbers, on two threads that share so much of a last cache: is it stored past the caches? */
static bool streams(int64_t n, const UOp *(*of)(Graph *, const UOp *), int64_t l3_bytes)
{
    Graph *own = graph_new();
    Schedule *s = NULL;
    OptList l;
    Text text = { 0 };
    Target two = wide;
    two.threads = 2, two.has_threads = two.has_streams = true, two.l3_bytes = l3_bytes;
    const UOp *size = uop_index(own, n), *x = uop_param(own, DT_F32, &size, 1, 0);
    heuristic_opts(&l, subject_of(own, of(own, x), &two, &s), &two);
    opt_print(&text, &l);
    bool has = strstr(text.s, "; STREAM 0") != NULL;
    text_free(&text);
    schedule_free(s);
    graph_free(own);
    return has;
}

static void test_streams(void **state)
{
    (void)state;
    assert_true(streams(4 << 20, neg, 48 << 20));
    assert_false(streams(4 << 20, neg, 96 << 20));                  /* stays in it */
    assert_false(streams(4 << 20, neg, 0));
    assert_false(streams(4 << 20, erf_, 48 << 20));                 /* waits for no memory */
}

/* Rows that no cache holds go in stretches whose tiles are full, but not where one column of tiles reads them once, or
 * where all columns stay in the first cache and sums are short. */
static void test_row_stretches(void **state)
{
    (void)state;
    check_rows(3483, 96, 640, "SPLIT 0 43 THREAD TOP; SPLIT 2 16 UPCAST; SPLIT 2 3 UPCAST; SPLIT 1 9 UPCAST", "0 27");
    check_rows(16384, 192, 64, " TOP", "SPLIT 1 4 UPCAST");
    check_rows(3072, 64, 160, "SPLIT 0 512 THREAD", " TOP");
    check_rows(12800, 197, 32, " THREAD", "SWAP");
}

/* Of windows of 3 x 3 for each of c channels, channels last, in 14 x w - 2: how many vectors the list computes at once,
 * and how many rows of them. */
static void depthwise_tile(int64_t w, int64_t c, int64_t *vectors, int64_t *rows)
{
    const int64_t first[] = { 0, 3, 1, 2 }, last[] = { 0, 2, 3, 1 }, one[] = { 1, 1 }, none[] = { 0, 0 };
    Graph *own = graph_new();
    Schedule *s = NULL;
    OptList l;
    float *weight = calloc((size_t)c * 9, sizeof *weight);
    const UOp *dim[] = { uop_index(own, 1), uop_index(own, 16), uop_index(own, w), uop_index(own, c) },
              *x = permute(own, uop_param(own, DT_F32, dim, 4, 0), first, 4),
              *k = tensor_const(own, DT_F32, (int64_t[]){ c, 1, 3, 3 }, 4, weight, (size_t)c * 36, "w");
    Kernel *kernel = subject_of(own, permute(own, conv(own, x, k, one, one, none, none, c), last, 4), &wide, &s);
    const UOp *axis[64];
    heuristic_opts(&l, kernel, &wide);
    Kernel *under = kernel_clone(kernel);
    assert_int_equal(opt_apply_list(under, &l, &wide), TG_OK);
    *vectors = *rows = 1;
    for (uint32_t i = opt_axes(under, axis, 64); i-- > 0;)
        if (range_type(axis[i]) == AXIS_UPCAST) *vectors *= axis[i]->src[0]->vmax;
    *vectors /= 16;
    for (uint32_t i = 0; i < l.count; i++)
        if (l.op[i].kind == OPT_SPLIT && l.op[i].target == AXIS_UPCAST && l.op[i].factor == 14) *rows = 14;
    kernel_free(under);
    schedule_free(s);
    graph_free(own);
    free(weight);
}

/* Of windows of 3 x 3 in w x w pixels, channels last: are lines walked as one? rows: of the tile, of 16 registers. */
static bool merges_lines(int64_t w, int64_t *rows)
{
    enum { IN = 16, OUT = 32 };
    static const Target narrow = { .kind = "cpu",
                                   .vector_bytes = 32,
                                   .vector_registers = 16,
                                   .threads = 1,
                                   .l1_bytes = 32 << 10,
                                   .l2_bytes = 512 << 10,
                                   .has_fma = true };
    const int64_t first[] = { 0, 3, 1, 2 }, last[] = { 0, 2, 3, 1 }, one[] = { 1, 1 }, none[] = { 0, 0 };
    Graph *own = graph_new();
    Schedule *s = NULL;
    OptList l;
    float *weight = calloc(OUT * IN * 9, sizeof *weight);
    const UOp *dim[] = { uop_index(own, 1), uop_index(own, w + 2), uop_index(own, w + 2), uop_index(own, IN) },
              *x = permute(own, uop_param(own, DT_F32, dim, 4, 0), first, 4),
              *k = tensor_const(own, DT_F32, (int64_t[]){ OUT, IN, 3, 3 }, 4, weight, OUT * IN * 36, "w"),
              *y = permute(own, conv(own, x, k, one, one, none, none, 1), last, 4);
    bool merged = false;
    heuristic_opts(&l, subject_of(own, y, &narrow, &s), &narrow);
    for (uint32_t i = 0; i < l.count; i++) {
        merged |= l.op[i].kind == OPT_MERGE;
        if (l.op[i].kind == OPT_SPLIT && l.op[i].target == AXIS_UPCAST && l.op[i].factor != 8 && l.op[i].factor != 2)
            *rows = l.op[i].factor;
    }
    schedule_free(s);
    graph_free(own);
    free(weight);
    return merged;
}

/* Of 7 pixels a line two tiles of 4 or 5 hold more than there are; 49 fill ten of 5. Lines of 12 fill two of 6. */
static void test_merged_lines(void **state)
{
    int64_t rows = 0;
    (void)state;
    assert_true(merges_lines(7, &rows));
    assert_int_equal(rows, 5);
    assert_false(merges_lines(12, &rows));
    assert_int_equal(rows, 6);
}

/* A sum that nothing divides is padded, so that several of its terms are one iteration. */
static void test_odd_sum(void **state)
{
    static const struct { int64_t k; bool padded; } sum[] = {
        { 197, true }, { 551, true }, { 256, false }, { 53, false }
    };
    (void)state;
    for (size_t i = 0; i < sizeof sum / sizeof *sum; i++) {
        Graph *own = graph_new();
        Schedule *s = NULL;
        Target t = beam_target;
        OptList l = { .count = 0 };
        Text text = { 0 };
        t.vector_bytes = 32, t.vector_registers = 16;
        heuristic_opts(&l, subject_of(own, subject_gemm(own, 961, 96, sum[i].k), &t, &s), &t);
        opt_print(&text, &l);
        assert_int_equal(strstr(text.s, "PADTO 5 4; SPLIT 5 4 UNROLL") != NULL, sum[i].padded);
        text_free(&text);
        schedule_free(s);
        graph_free(own);
    }
}

/* A sum of its own vectors wants two registers; rows at a stride of whole pages are not together in a tile. */
static void test_depthwise(void **state)
{
    int64_t vectors, rows;
    (void)state;
    depthwise_tile(16, 96, &vectors, &rows);
    assert_in_range(vectors, 7, 15);
    depthwise_tile(16, 384, &vectors, &rows);               /* rows, but not places of a row, are */
    assert_in_range(vectors, 7, 15);
    depthwise_tile(16, 1024, &vectors, &rows);
    assert_int_equal(rows, 1);
}

/* What cut_sum adds to `before` for a sum of k terms, at most 128 in a part. */
static void cut_is(int64_t k, const char *before, const char *after)
{
    Graph *own = graph_new();
    Schedule *s = NULL;
    OptList l = { 0 };
    Text t = { 0 };
    Kernel *kernel = kernel_clone(subject_of(own, subject_gemm(own, 8, 16, k), &beam_target, &s));
    assert_int_equal(opt_parse(&l, before), TG_OK);
    for (uint32_t i = 0; i < l.count; i++) assert_int_equal(opt_apply(kernel, &l.op[i], &beam_target), TG_OK);
    cut_sum(&l, kernel, &beam_target, 128);
    opt_print(&t, &l);
    assert_string_equal(t.s ? t.s : "", after);
    text_free(&t);
    kernel_free(kernel);
    schedule_free(s);
    graph_free(own);
}

static void test_cut_sum(void **state)
{
    (void)state;
    cut_is(255, "", "");
    cut_is(1024, "", "SPLIT 2 128 REDUCE; NEST 3");
    cut_is(1000, "", "SPLIT 2 125 REDUCE; NEST 3");
    cut_is(1009, "", "");                                                       /* a prime */
    cut_is(1024, "SPLIT 2 4 UNROLL", "SPLIT 2 4 UNROLL; SPLIT 2 32 REDUCE; NEST 3");
    cut_is(1152, "SPLIT 2 128 REDUCE", "SPLIT 2 128 REDUCE; NEST 3");           /* nine windows of 128 */
    /* windows inside: eight channels of each, or so */
    cut_is(1152, "SPLIT 2 9 REDUCE", "SPLIT 2 9 REDUCE; SPLIT 2 8 REDUCE; NEST 3");
}

static void test_text(void **state)
{
    Text t = { 0 };
    Kernel *k = NULL;
    (void)state;
    Kernel *far = kernel_clone(gemm);
    far->param[0].far = true;                                 /* which is in its key */
    kernel_key(far);
    kernel_write(&t, far);
    assert_int_equal(kernel_read(&k, t.s), TG_OK);
    assert_string_equal(k->key, far->key);
    assert_true(k->param[0].far);
    kernel_free(far);
    assert_int_equal(k->nparam, gemm->nparam);
    for (uint32_t i = 0; i < k->nparam; i++) {
        assert_int_equal(k->param[i].written, gemm->param[i].written);
        assert_int_equal(k->param[i].constant, gemm->param[i].constant);
        assert_int_equal(uop_numel(k->param[i].buffer), uop_numel(gemm->param[i].buffer));
    }
    kernel_free(k);
    *strchr(t.s, '%') = '(';
    assert_int_not_equal(kernel_read(&k, t.s), TG_OK);
    text_free(&t);
}

/* Eight sums of 240 terms in one loop: more than linearize splits. */
static void test_long_unroll(void **state)
{
    enum { M = 8, N = 3, K = 480 };
    static float a[M * K], b[N * K], plain[M * N], unrolled[M * N];
    Graph *own = graph_new();
    Schedule *s = NULL;
    int64_t vars[1];
    Kernel *k = subject_of(own, subject_gemm(own, M, N, K), &beam_target, &s),
           *low = subject_under(k, &beam_target, "SPLIT 0 8 UPCAST; SPLIT 2 60 UNROLL; SPLIT 2 4 UNROLL");
    (void)state;
    assert_non_null(low);
    for (int i = 0; i < M * K; i++) a[i] = (float)(i % 17) - 8;
    for (int i = 0; i < N * K; i++) b[i] = (float)(i % 11) - 5;
    RefMem mem[] = { { plain, sizeof plain }, { a, sizeof a }, { b, sizeof b } };
    assert_int_equal(ref_exec_root(k, mem, vars), TG_OK);
    mem[0].data = unrolled;
    assert_int_equal(ref_exec_linear(low, mem, vars), TG_OK);
    assert_memory_equal(plain, unrolled, sizeof plain);
    kernel_free(low);
    schedule_free(s);
    graph_free(own);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_long_unroll), cmocka_unit_test(test_order),      cmocka_unit_test(test_grows_with_work),
        cmocka_unit_test(test_recipe),      cmocka_unit_test(test_neighbours), cmocka_unit_test(test_crowded_sets),
        cmocka_unit_test(test_row_stretches), cmocka_unit_test(test_streams),
        cmocka_unit_test(test_depthwise),   cmocka_unit_test(test_odd_sum),
        cmocka_unit_test(test_merged_lines),
        cmocka_unit_test(test_text),        cmocka_unit_test(test_cut_sum),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
