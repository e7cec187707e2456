/* Commute: products with constants stand where they are fewest, and the values are those of before. */
#include "backends/reference/reference.h"
#include "graph/build.h"
#include "sched/sched.h"
#include "tests/test.h"

#include <math.h>

enum { SIDE = 7, DEEP = 48, WIDE = 40, INPUT = SIDE * SIDE * DEEP };

static float number(uint32_t k) { return (float)((k * 2654435761u >> 20) % 17) / 8 - 1; }

static const UOp *constant(Graph *g, const int64_t *shape, uint32_t rank, uint32_t seed)
{
    int64_t n = 1;
    for (uint32_t k = 0; k < rank; k++) n *= shape[k];
    float *v = NEW_N(graph_arena(g), float, n);
    for (int64_t i = 0; i < n; i++) v[i] = number((uint32_t)i + seed * 1000);
    return tensor_const(g, DT_F32, shape, rank, v, (size_t)n * sizeof *v, "");
}

static const UOp *weight(Graph *g, int64_t from, int64_t to, uint32_t seed)
{
    return constant(g, (int64_t[]){ from, to }, 2, seed);
}

/* A convolution of size 1 to as many columns as there are. */
static const UOp *mix(Graph *g, const UOp *x, int64_t columns, uint32_t seed)
{
    const UOp *w = constant(g, (int64_t[]){ columns, uop_size(x, 1), 1, 1 }, 4, seed);
    return conv(g, x, w, (int64_t[]){ 1, 1 }, (int64_t[]){ 1, 1 }, NULL, NULL, 1);
}

/* Rows, or columns, by four: each is a mean of two neighbours. */
static const UOp *enlarged(Graph *g, const UOp *x, int64_t axis)
{
    int64_t n = uop_size(x, (uint32_t)axis), *first = NEW_N(graph_arena(g), int64_t, 8 * n), *second = first + 4 * n;
    int64_t dim[4] = { 1, 1, 1, 1 };
    float *share = NEW_N(graph_arena(g), float, 4 * n);
    for (int64_t i = 0; i < 4 * n; i++) {
        first[i] = i / 4, second[i] = i / 4 + 1 < n ? i / 4 + 1 : n - 1;
        share[i] = (float)(i % 4) / 4;
    }
    dim[axis] = 4 * n;
    const UOp *w = tensor_const(g, DT_F32, dim, 4, share, (size_t)(4 * n) * sizeof *share, "");
    const UOp *tap[2];
    for (int k = 0; k < 2; k++) {
        const UOp *i = tensor_const(g, DT_I64, dim + axis, 1, k ? second : first, (size_t)(4 * n) * sizeof *first, "");
        tap[k] = gather(g, x, i, axis);
    }
    return add(g, mul(g, tap[0], sub(g, scalar(g, DT_F32, 1), w)), mul(g, tap[1], w));
}

static const UOp *larger(Graph *g, const UOp *x) { return enlarged(g, contiguous(g, enlarged(g, x, 2)), 3); }

static const UOp *pooled(Graph *g, const UOp *x)
{
    const int64_t two[2] = { 2, 2 }, one[2] = { 1, 1 };
    const UOp *y = windows(g, x, 2, two, two, one);
    return mul(g, reduce(g, UOP_ADD, y, (int64_t[]){ 4, 5 }, 2, false), scalar(g, DT_F32, 0.25));
}

/* ---- what may commute, and what may not ---- */

static const UOp *of_enlarged(Graph *g, const UOp *x) { return relu(g, mix(g, larger(g, x), WIDE, 1)); }

static const UOp *of_joined(Graph *g, const UOp *x)
{
    const UOp *whole = relu(g, larger(g, x)), *part[4] = { larger(g, x), whole, larger(g, neg(g, x)), abs_(g, whole) };
    return relu(g, mix(g, cat(g, part, 4, 1), WIDE, 2));
}

static const UOp *of_repeated(Graph *g, const UOp *x)
{
    const UOp *mean = reduce(g, UOP_ADD, x, (int64_t[]){ 2, 3 }, 2, true), *dim[4], *part[2];
    for (uint32_t k = 0; k < 4; k++) dim[k] = uop_index(g, k < 2 ? uop_size(mean, k) : 4 * SIDE);
    part[0] = relu(g, larger(g, x)), part[1] = expand(g, relu(g, mean), dim, 4);
    return relu(g, mix(g, cat(g, part, 2, 1), WIDE, 3));
}

static const UOp *of_product(Graph *g, const UOp *x)
{
    x = relu(g, larger(g, x));
    x = permute(g, reshape_i(g, x, (int64_t[]){ 1, DEEP, 16 * SIDE * SIDE }, 3), (int64_t[]){ 0, 2, 1 }, 3);
    x = add(g, matmul(g, x, weight(g, DEEP, 2 * WIDE, 4)), constant(g, (int64_t[]){ 2 * WIDE }, 1, 5));
    return relu(g, matmul(g, x, weight(g, 2 * WIDE, WIDE, 6)));
}

/* A head of several scales: products, enlarged by their scale, joined. */
static const UOp *of_all(Graph *g, const UOp *x)
{
    const UOp *part[2] = { larger(g, add(g, mix(g, x, 64, 7), constant(g, (int64_t[]){ 64, 1, 1 }, 3, 8))),
                           mix(g, relu(g, larger(g, x)), 64, 9) };
    return relu(g, mix(g, cat(g, part, 2, 1), WIDE, 10));
}

static const UOp *of_pool(Graph *g, const UOp *x)
{
    return relu(g, pooled(g, mix(g, relu(g, larger(g, x)), WIDE, 11)));
}

/* Another reader keeps what is enlarged. */
static const UOp *of_shared(Graph *g, const UOp *x)
{
    const UOp *y = larger(g, x);
    return add(g, mix(g, y, DEEP, 12), y);
}

/* Channels have factors of their own behind the map, which end it. */
static const UOp *of_unlike(Graph *g, const UOp *x)
{
    return mix(g, mul(g, larger(g, x), constant(g, (int64_t[]){ DEEP, 1, 1 }, 3, 13)), WIDE, 14);
}

static const UOp *of_activated(Graph *g, const UOp *x) { return mix(g, relu(g, larger(g, x)), WIDE, 15); }

/* Products that a graph takes, of constants too. */
static double work(Graph *g, const UOp *root)
{
    Arena *a = arena_new();
    uint32_t n;
    double all = 0;
    const UOp **order = uop_toposort(g, &root, 1, a, &n);
    for (uint32_t i = 0; i < n; i++)
        if (order[i]->op == UOP_REDUCE && order[i]->src[0]->op == UOP_MUL) all += (double)uop_numel(order[i]->src[0]);
    arena_free(a);
    return all;
}

/* least, most: the share of the products that is left; symbolic: of as many samples as a run has. */
typedef struct {
    const char *name;
    const UOp *(*make)(Graph *g, const UOp *x);
    double least, most;
    bool symbolic;
} Row;
static const Row row[] = {
    { "enlarged", of_enlarged, 0.06, 0.07, false }, { "joined", of_joined, 0.53, 0.54, false },
    { "repeated", of_repeated, 0.5, 0.51, false },  { "product", of_product, 0.3, 0.4, false },
    { "pool", of_pool, 0.25, 0.25, false },         { "scales", of_all, 0.22, 0.28, true },
    { "shared", of_shared, 1, 1, false },           { "unlike", of_unlike, 1, 1, false },
    { "activated", of_activated, 1, 1, false },
};

static bool same_values(Graph *g, const Row *row, const UOp *sink, const UOp *less, const RefInput *in)
{
    RefTensor want = { 0 }, got = { 0 };
    assert_int_equal(ref_eval(&want, g, sink->src, 1, in), TG_OK);
    assert_int_equal(ref_eval(&got, g, less->src, 1, in), TG_OK);
    assert_int_equal(got.numel, want.numel);
    const float *a = got.data, *b = want.data;
    int64_t at = 0, n = got.numel;
    while (at < n && fabsf(a[at] - b[at]) <= 1e-3f) at++;
    if (at < n) print_error("%s: element %lld is %g for %g\n", row->name, (long long)at, a[at], b[at]);
    ref_tensor_free(&want);
    ref_tensor_free(&got);
    return at == n;
}

/* Whether the row's graph has the wanted share of products, and its values. */
static bool is_right(const Row *row, const float *x)
{
    Graph *g = graph_new();
    const UOp *n = row->symbolic ? uop_var(g, "n", 1, 2) : uop_index(g, 1), *side = uop_index(g, SIDE),
              *dim[4] = { n, uop_index(g, DEEP), side, side }, *y = row->make(g, uop_param(g, DT_F32, dim, 4, 0)),
              *sink = UOP(g, UOP_SINK, DT_VOID, NO_ARG, y), *less = commute_products(g, sink);
    const void *data[1] = { x };
    const RefInput in = { .param = data, .nparam = 1, .var = &(RefVar){ n, 2 }, .nvar = row->symbolic };
    double share = work(g, less) / work(g, sink);
    bool right = share >= row->least && share <= row->most;
    if (!right) print_error("%s: %g of the products\n", row->name, share);
    assert_int_equal(graph_error(g), TG_OK);
    assert_ptr_equal(less->src[0]->shape, y->shape);
    if (less != sink) right &= same_values(g, row, sink, less, &in);
    graph_free(g);
    return right;
}

static void fewer_products(void **state)
{
    (void)state;
    float *x = malloc(2 * INPUT * sizeof *x);
    int wrong = 0;
    for (uint32_t i = 0; i < 2 * INPUT; i++) x[i] = number(i + 7777);
    for (size_t k = 0; k < sizeof row / sizeof *row; k++) wrong += !is_right(&row[k], x);
    free(x);
    assert_int_equal(wrong, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(fewer_products) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
