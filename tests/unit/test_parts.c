/* Parts: sums of products of f32 are made of products of bf16, and are what the interpreter finds for the sums
 * themselves, to the error that parts.c claims; with Infs, NaNs and zeros, too. */
#include <math.h>
#include <string.h>

#include "backends/reference/reference.h"
#include "graph/build.h"
#include "graph/rewrite.h"
#include "graph/wmma.h"
#include "sched/rangeify.h"
#include "tests/test.h"

static const Target amx = { .kind = "cpu", .wmma = 1 << WMMA_amx_bf16 }, without = { .kind = "cpu", .parts = 2 };
static const Target dots = { .kind = "cpu", .wmma = 1 << WMMA_dot_bf16 };

/* How x and w are multiplied. MATMUL: [m, k] [k, n]; TURNED: x stored [k, m]; HEADS: [2, m, k] [2, k, n], w no
 * constant; CONV: x [1, k, m, m], w [n, k, 3, 3], padded by 1; GROUPS: depthwise. */
typedef enum { MATMUL, TURNED, HEADS, CONV, GROUPS } Form;         /* half: both are f16 first */
typedef struct { Form form; int64_t m, k, n; bool made, special, half; } Row;
static const Row row[] = {
    { MATMUL, 18, 128, 192, true, false },
    { MATMUL, 18, 128, 192, true, true },
    { TURNED, 18, 128, 192, true, false },
    { MATMUL, 18, 128, 256, true, false },
    { MATMUL, 18, 128, 256, true, true },
    { MATMUL, 18, 120, 192, true, false },           /* the run of terms gets zeros */
    { MATMUL, 18, 120, 192, true, true },
    { MATMUL, 4, 512, 160, false, false },         /* too few rows */
    { MATMUL, 300, 128, 8, false, false },          /* too few columns */
    { MATMUL, 100, 20, 140, false, false },         /* too short a run */
    { HEADS, 72, 64, 72, true, false },
    { HEADS, 70, 56, 80, true, true },
    { CONV, 7, 32, 48, true, false },
    { CONV, 7, 32, 48, true, true },
    { GROUPS, 24, 64, 64, false, false },
    { MATMUL, 18, 128, 192, true, false, true },
    { CONV, 7, 32, 48, true, true, true },
};
enum { MOST = 1 << 17 };

static float number(uint32_t k, bool special)
{
    static const float odd[] = { INFINITY, -INFINITY, NAN, 0, -0.0f, 1e30f };
    uint32_t v = k * 2654435761u >> 8;
    return special && v % 4001 < 6 ? odd[v % 4001] : (float)(v % 65537) / 32768 - 1;
}

static U constant(Graph *g, const int64_t *shape, uint32_t rank)
{
    int64_t n = 1;
    for (uint32_t k = 0; k < rank; k++) n *= shape[k];
    float *p = arena_alloc(graph_arena(g), (size_t)n * sizeof *p);
    for (int64_t i = 0; i < n; i++) p[i] = number((uint32_t)i + 99, false);
    return tensor_const(g, DT_F32, shape, rank, p, (size_t)n * sizeof *p, "");
}

static U param(Graph *g, const int64_t *shape, uint32_t rank, int64_t slot)
{
    U dim[4];
    for (uint32_t k = 0; k < rank; k++) dim[k] = uop_index(g, shape[k]);
    return uop_param(g, DT_F32, dim, rank, slot);
}

static U as_given(Graph *g, const Row *r, U x) { return r->half ? cast(g, cast(g, x, DT_F16), DT_F32) : x; }

static U make(Graph *g, const Row *r)
{
    const int64_t one[] = { 1, 1 }, pads[] = { 1, 1 };
    switch (r->form) {
    case MATMUL:
        return matmul(g, as_given(g, r, param(g, (int64_t[]){ r->m, r->k }, 2, 0)),
                      as_given(g, r, constant(g, (int64_t[]){ r->k, r->n }, 2)));
    case TURNED:
        return matmul(g, transpose(g, param(g, (int64_t[]){ r->k, r->m }, 2, 0)),
                      constant(g, (int64_t[]){ r->k, r->n }, 2));
    case HEADS:
        return matmul(g, param(g, (int64_t[]){ 2, r->m, r->k }, 3, 0),
                      transpose(g, param(g, (int64_t[]){ 2, r->n, r->k }, 3, 1)));
    case CONV:
        return conv(g, as_given(g, r, param(g, (int64_t[]){ 1, r->k, r->m, r->m }, 4, 0)),
                    as_given(g, r, constant(g, (int64_t[]){ r->n, r->k, 3, 3 }, 4)), one, one, pads, pads, 1);
    default:
        return conv(g, param(g, (int64_t[]){ 1, r->k, r->m, r->m }, 4, 0), constant(g, (int64_t[]){ r->n, 1, 3, 3 }, 4),
                    one, one, pads, pads, r->k);
    }
}

static void eval(RefTensor *out, Graph *g, U sink, bool special)
{
    static float x[2][MOST];
    const void *data[2] = { x[0], x[1] };
    for (uint32_t i = 0; i < MOST; i++) x[0][i] = number(i, special), x[1][i] = number(i + 5, special);
    assert_int_equal(ref_eval(out, g, sink->src, sink->nsrc, &(RefInput){ .param = data, .nparam = 2 }), TG_OK);
}

/* Within `most` of the sum of the terms' magnitudes, for which a row's share of the largest stands in; what is not
 * finite is the same. */
static bool near(const RefTensor *got, const RefTensor *want, double most, int64_t terms)
{
    for (int64_t i = 0; i < want->numel; i++) {
        double w = ((const float *)want->data)[i], y = ((const float *)got->data)[i],
               scale = fabs(w) > 1e20 ? fabs(w) : (double)terms / 4;
        if (isnan(w) ? !isnan(y) : isinf(w) ? w != y : !(fabs(y - w) <= most * scale))
            return print_message("element %d: %g for %g\n", (int)i, y, w), false;
    }
    return true;
}

/* Short sums are not worth two parts of both, and fewer than 200 products of an element are not worth three. */
static bool is_made(const Row *r, int32_t parts)
{
    bool worth = parts == 1 || r->half || (parts == 2 ? r->form != HEADS : r->form == CONV || r->n > 200);
    return r->made && worth;
}

static void rows_agree(void **state)
{
    (void)state;
    for (const Row *r = row; r < row + sizeof row / sizeof *row; r++)
        for (int32_t parts = 0; parts <= 2; parts++) {
            if (getenv("SANITIZED") && parts != 1) continue;        /* the same code, with more products */
            Graph *g = graph_new();
            RefTensor want = { 0 }, got = { 0 };
            Target t = amx;
            t.parts = parts;
            U sink = graph_rewrite(g, UOP(g, UOP_SINK, DT_VOID, NO_ARG, make(g, r)), rules_movement(), 0, NULL),
              one = sum_parts(g, sink, &t);
            assert_int_equal(graph_error(g), TG_OK);
            if ((one != sink) != is_made(r, parts)) print_message("row %d in %d parts\n", (int)(r - row), (int)parts);
            assert_int_equal(one != sink, is_made(r, parts));
            eval(&want, g, sink, r->special);
            eval(&got, g, one, r->special);
            bool same = got.numel == want.numel &&
                near(&got, &want,
                     parts == 1              ? 0x1p-7
                         : r->half || !parts ? 0x1p-22
                                             : 0x1p-15,
                     r->form == CONV ? 9 * r->k : r->k);
            if (!same) print_message("row %d in %d parts\n", (int)(r - row), (int)parts);
            assert_true(same);
            assert_ptr_equal(sum_parts(g, sink, &without), sink);
            ref_tensor_free(&want);
            ref_tensor_free(&got);
            graph_free(g);
        }
}

static uint32_t count_sums(Graph *g, U sink)
{
    Arena *a = arena_new();
    uint32_t n, sums = 0;
    const UOp **order = uop_toposort(g, &sink, 1, a, &n);
    for (uint32_t i = 0; i < n; i++) sums += order[i]->op == UOP_REDUCE;
    arena_free(a);
    return sums;
}

/* Where rows of all terms are more than the cache holds the sum is one of sums of stretches, if terms make such. */
static void stretches_agree(void **state)
{
    (void)state;
    static const struct { int64_t m, k, n, l2; uint32_t sums; } stretch[] = {
        { 18, 512, 256, 64 << 10, 2 }, { 18, 512, 256, 1 << 20, 1 }, { 18, 544, 256, 64 << 10, 1 }, { 200, 512, 256, 700 << 10, 1 }, { 18, 1000, 256, 128 << 10, 2 },
    };
    for (size_t i = 0; i < sizeof stretch / sizeof *stretch; i++) {
        const Row r = { MATMUL, stretch[i].m, stretch[i].k, stretch[i].n, true, false };
        Graph *g = graph_new();
        RefTensor want = { 0 }, got = { 0 };
        Target t = amx;
        t.l2_bytes = stretch[i].l2;
        t.threads = 2;
        U sink = graph_rewrite(g, UOP(g, UOP_SINK, DT_VOID, NO_ARG, make(g, &r)), rules_movement(), 0, NULL),
          one = sum_parts(g, sink, &t);
        assert_int_equal(graph_error(g), TG_OK);
        assert_int_equal(count_sums(g, one), stretch[i].sums);
        if (i || getenv("SANITIZED")) {             /* one is evaluated: the interpreter takes seconds for it */
            graph_free(g);
            continue;
        }
        eval(&want, g, sink, false);
        eval(&got, g, one, false);
        assert_true(near(&got, &want, 0x1p-22, r.k));
        ref_tensor_free(&want);
        ref_tensor_free(&got);
        graph_free(g);
    }
}

/* What two parts hold: 16 bits of a number, its sign in both, and no second part of 0 but a zero's. */
static void signs_agree(void **state)
{
    (void)state;
    const Row r = { MATMUL, 18, 128, 192, true, false };
    Graph *g = graph_new();
    Target t = amx;
    t.parts = 2;
    U one =
          sum_parts(g, graph_rewrite(g, UOP(g, UOP_SINK, DT_VOID, NO_ARG, make(g, &r)), rules_movement(), 0, NULL), &t),
      stored = NULL;
    Arena *a = arena_new();
    uint32_t n;
    const UOp **order = uop_toposort(g, &one, 1, a, &n);
    for (uint32_t i = 0; i < n; i++)
        if (order[i]->op == UOP_CONTIGUOUS && uop_size(order[i], 0) == 18) stored = order[i];
    arena_free(a);
    assert_non_null(stored);
    RefTensor parts = { 0 };
    eval(&parts, g, UOP(g, UOP_SINK, DT_VOID, NO_ARG, cast(g, stored, DT_F32)), false);
    for (uint32_t i = 0; i < 18 * 128; i++) {
        uint32_t at = i / 32 * 64 + i % 32;                /* runs of 32, of each part one behind the other */
        float x = number(i, false), high = ((const float *)parts.data)[at], low = ((const float *)parts.data)[at + 32];
        assert_true(fabs((double)high + (double)low - (double)x) <= 0x1p-16 * fabs((double)x) &&
                    fabsf(high) <= fabsf(x));
        assert_true(x == 0 ? low == 0 : low != 0 && signbit(low) == signbit(x));
    }
    ref_tensor_free(&parts);
    graph_free(g);
}

/* Dot products in vectors do two terms in the time of one of f32: worth one part a number, of few rows too. */
static void dots_take_one_part(void **state)
{
    (void)state;
    /* a warp's products are not a core's */
    assert_false(has_parts(&(Target){ .kind = "cuda", .wmma = 1 << WMMA_mma_bf16, .parts = 1 }));
    static const struct { Row r; bool made; } product[] = {
        { { MATMUL, 18, 128, 192 }, true },  { { MATMUL, 4, 512, 160 }, true }, { { CONV, 7, 32, 48 }, true },
        { { MATMUL, 300, 128, 8 }, false },  { { GROUPS, 24, 64, 64 }, false },
    };
    for (size_t i = 0; i < sizeof product / sizeof *product; i++)
        for (int32_t parts = 0; parts <= 2; parts++) {
            const Row *r = &product[i].r;
            Graph *g = graph_new();
            Target t = dots;
            t.parts = parts;
            assert_int_equal(has_parts(&t), parts == 1);
            U sink = graph_rewrite(g, UOP(g, UOP_SINK, DT_VOID, NO_ARG, make(g, r)), rules_movement(), 0, NULL),
              one = sum_parts(g, sink, &t);
            assert_int_equal(one != sink, parts == 1 && product[i].made);
            if (one != sink && !getenv("SANITIZED")) {
                RefTensor want = { 0 }, got = { 0 };
                eval(&want, g, sink, false);
                eval(&got, g, one, false);
                assert_true(near(&got, &want, 0x1p-7, r->form == CONV ? 9 * r->k : r->k));
                ref_tensor_free(&want);
                ref_tensor_free(&got);
            }
            graph_free(g);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(rows_agree), cmocka_unit_test(stretches_agree),
                                        cmocka_unit_test(signs_agree), cmocka_unit_test(dots_take_one_part) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
