/* What the GPU stages do to a graph: merged loads, divisors of indices, barriers and gates of shared reductions. */
#include "graph/base/memory.h"
#include "tests/test.h"

#include <stdlib.h>
#include <string.h>

#include "sched/sched.h"

typedef const UOp *U;
static U alu(Graph *g, Op op, U a, U b) { return UOP(g, op, DT_VOID, NO_ARG, a, b); }
static U load_at(Graph *g, U p, U i)
{
    return UOP(g, UOP_LOAD, DT_VOID, NO_ARG, UOP(g, UOP_INDEX, DT_VOID, NO_ARG, p, i));
}

static void divisors(void **state)
{
    (void)state;
    Graph *g = graph_new();
    U r = uop_range(g, 0, uop_index(g, 10), AXIS_LOOP), twelve = alu(g, UOP_MUL, r, uop_index(g, 12)),
      eight = alu(g, UOP_MUL, uop_index(g, 8), r);
    assert_int_equal(index_divisor(twelve), 12);
    assert_int_equal(index_divisor(alu(g, UOP_ADD, twelve, eight)), 4);
    assert_int_equal(index_divisor(alu(g, UOP_ADD, eight, uop_index(g, 3))), 1);
    assert_int_equal(index_divisor(alu(g, UOP_MOD, twelve, uop_index(g, 18))), 6);
    assert_int_equal(index_divisor(alu(g, UOP_IDIV, twelve, uop_index(g, 4))), 1);
    graph_free(g);
}

static uint32_t count_op(Graph *g, U root, Op op, uint32_t lanes)
{
    Arena *a = arena_new();
    uint32_t n, found = 0;
    const UOp **order = uop_toposort(g, &root, 1, a, &n);
    for (uint32_t i = 0; i < n; i++)
        found += order[i]->op == op &&
            (lanes ? uop_rank(order[i]) == 1 && uop_size(order[i], 0) == lanes : !uop_rank(order[i]));
    arena_free(a);
    return found;
}

/* Sums a[scale * r + first .. + count - 1]. */
static U sum_of_loads(Graph *g, int64_t scale, int64_t first, int count)
{
    U dim = uop_index(g, 1000), p = uop_param(g, DT_F32, &dim, 1, 0), r = uop_range(g, 0, uop_index(g, 10), AXIS_LOOP),
      sum = NULL;
    for (int k = 0; k < count; k++) {
        U v = load_at(g, p, alu(g, UOP_ADD, alu(g, UOP_MUL, r, uop_index(g, scale)), uop_index(g, first + k)));
        sum = sum ? alu(g, UOP_ADD, sum, v) : v;
    }
    return sum;
}

static void loads_side_by_side(void **state)
{
    static const struct { int64_t scale, first; int count, fours, twos, ones; } row[] = {
        { 8, 0, 4, 1, 0, 0 }, { 8, 4, 4, 1, 0, 0 }, { 8, 0, 7, 1, 1, 1 }, { 8, 1, 4, 0, 1, 2 }, { 6, 0, 4, 0, 2, 0 }, { 7, 0, 4, 0, 0, 4 }, { 16, 0, 16, 4, 0, 0 },
    };
    (void)state;
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        Graph *g = graph_new();
        U root = merge_loads(g, sum_of_loads(g, row[i].scale, row[i].first, row[i].count));
        assert_int_equal(count_op(g, root, UOP_LOAD, 4), row[i].fours);
        assert_int_equal(count_op(g, root, UOP_LOAD, 2), row[i].twos);
        assert_int_equal(count_op(g, root, UOP_LOAD, 0), row[i].ones);
        graph_free(g);
    }
}

static uint32_t count_linear(const Kernel *k, Op op)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < k->linear->nsrc; i++) n += k->linear->src[i]->op == op;
    return n;
}

/* Two sums over one group of threads share a barrier; the threads that do not store stop behind it. */
static void sums_share_a_barrier(void **state)
{
    const Target t = {
        .kind = "cuda", .vector_bytes = 16, .max_block = 1024, .warp = 32, .l1_bytes = 100000, .has_locals = true
    };
    (void)state;
    Kernel *k = mem_zeros(1, sizeof *k);
    Graph *g = k->g = graph_new();
    U ten = uop_index(g, 10), big = uop_index(g, 640), out = uop_param(g, DT_F32, &ten, 1, 0),
      a = uop_param(g, DT_F32, &big, 1, 1), b = uop_param(g, DT_F32, &big, 1, 2);
    U i = uop_range(g, 0, ten, AXIS_GLOBAL), j = uop_range(g, 1, uop_index(g, 64), AXIS_GROUP_REDUCE),
      at = alu(g, UOP_ADD, alu(g, UOP_MUL, i, uop_index(g, 64)), j);
    U s = uop_reduce_ranges(g, UOP_ADD, load_at(g, a, at), &j, 1),
      u = uop_reduce_ranges(g, UOP_ADD, load_at(g, b, at), &j, 1);
    U store = UOP(g, UOP_STORE, DT_VOID, NO_ARG, UOP(g, UOP_INDEX, DT_VOID, NO_ARG, out, i), alu(g, UOP_MUL, s, u)),
      end = UOP(g, UOP_END, DT_VOID, NO_ARG, store, i);
    k->root = UOP(g, UOP_SINK, DT_VOID, NO_ARG, end);
    assert_int_equal(kernel_linearize(k, &t), TG_OK);
    assert_int_equal(count_linear(k, UOP_BARRIER), 1);
    assert_int_equal(count_linear(k, UOP_SHUFFLE), 10);
    assert_int_equal(count_linear(k, UOP_IF), 1);
    assert_int_equal(count_linear(k, UOP_RANGE), 1);            /* both sums over the two warps in one loop */
    assert_int_equal(uop_const_int(k->block[0]), 64);
    assert_int_equal(uop_const_int(k->grid[0]), 10);
    assert_int_equal(k->shared_bytes, 2 * 64 * 4);
    kernel_free(k);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(divisors), cmocka_unit_test(loads_side_by_side),
                                        cmocka_unit_test(sums_share_a_barrier) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
