/* Siblings: sums of products of one value with several constants are one, with what stands behind them, and no value
 * changes. */
#include "backends/reference/reference.h"
#include "graph/build.h"
#include "sched/sched.h"
#include "tests/test.h"

enum { ROWS = 5, DEEP = 7, PARTS = 3 };
static const int64_t width[PARTS] = { 6, 4, 4 };

static float number(uint32_t k) { return (float)((k * 2654435761u >> 20) % 17) / 8 - 1; }

static const UOp *constant(Graph *g, const int64_t *shape, uint32_t rank, uint32_t seed)
{
    int64_t n = 1;
    for (uint32_t k = 0; k < rank; k++) n *= shape[k];
    float *v = NEW_N(graph_arena(g), float, n);
    for (int64_t i = 0; i < n; i++) v[i] = number((uint32_t)i + seed * 1000);
    return tensor_const(g, DT_F32, shape, rank, v, (size_t)n * sizeof *v, "");
}

/* x W; x W + b; (x W + b) / 8: as a query without a bias, a key, a scaled value, each read by a transposition, or by
 * its square. */
static const UOp *projections(Graph *g, bool views)
{
    const UOp *x = uop_param(g, DT_F32, (const UOp *[]){ uop_index(g, ROWS), uop_index(g, DEEP) }, 2, 0), *out[PARTS];
    for (uint32_t k = 0; k < PARTS; k++) {
        const UOp *y = matmul(g, x, constant(g, (int64_t[]){ DEEP, width[k] }, 2, k));
        if (k) y = add(g, y, constant(g, &width[k], 1, 10 + k));
        if (k == 2) y = mul(g, y, scalar(g, DT_F32, 0.125));
        out[k] = views ? transpose(g, y) : mul(g, y, y);
    }
    return uop_new(g, UOP_SINK, DT_VOID, NO_ARG, out, PARTS);
}

static uint32_t reduces(Graph *g, const UOp *root)
{
    Arena *a = arena_new();
    uint32_t n, found = 0;
    const UOp **order = uop_toposort(g, &root, 1, a, &n);
    for (uint32_t i = 0; i < n; i++) found += order[i]->op == UOP_REDUCE;
    arena_free(a);
    return found;
}

static void eval(RefTensor *out, Graph *g, const UOp *sink)
{
    float x[ROWS * DEEP];
    const void *data[1] = { x };
    for (uint32_t i = 0; i < ROWS * DEEP; i++) x[i] = number(i + 7777);
    assert_int_equal(ref_eval(out, g, sink->src, sink->nsrc, &(RefInput){ .param = data, .nparam = 1 }), TG_OK);
}

static void parts_of_one_sum(void **state)
{
    (void)state;
    Graph *g = graph_new();
    RefTensor want[PARTS] = { 0 }, got[PARTS] = { 0 };
    const UOp *sink = projections(g, true), *one = join_siblings(g, sink, NULL);
    assert_int_equal(reduces(g, sink), PARTS);
    assert_int_equal(reduces(g, one), 1);
    assert_int_equal(graph_error(g), TG_OK);
    eval(want, g, sink);
    eval(got, g, one);
    for (uint32_t k = 0; k < PARTS; k++) {
        assert_int_equal(got[k].numel, ROWS * width[k]);
        assert_memory_equal(got[k].data, want[k].data, (size_t)want[k].numel * sizeof(float));
        ref_tensor_free(&want[k]);
        ref_tensor_free(&got[k]);
    }
    graph_free(g);
}

/* What arithmetic reads, also through a view, stays the epilogue's. */
static void epilogues_stay(void **state)
{
    (void)state;
    Graph *g = graph_new();
    const UOp *sink = projections(g, false), *seen = projections(g, true), *out[PARTS];
    assert_ptr_equal(join_siblings(g, sink, NULL), sink);
    for (uint32_t k = 0; k < PARTS; k++) out[k] = mul(g, seen->src[k], scalar(g, DT_F32, 0.25));
    sink = uop_new(g, UOP_SINK, DT_VOID, NO_ARG, out, PARTS);
    assert_ptr_equal(join_siblings(g, sink, NULL), sink);
    graph_free(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(parts_of_one_sum), cmocka_unit_test(epilogues_stay) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
