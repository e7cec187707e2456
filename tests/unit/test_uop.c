/* Interning, shapes, bounds, copies: graph/uop.c. */
#include "graph/uop.h"
#include "tests/test.h"

static void equal_nodes_are_one(void **state)
{
    (void)state;
    Graph *g = graph_new();
    const UOp *r = uop_range(g, 3, uop_index(g, 56), AXIS_LOOP);
    const UOp *a = UOP(g, UOP_ADD, DT_VOID, NO_ARG, r, uop_index(g, 7)),
              *b = UOP(g, UOP_ADD, DT_VOID, NO_ARG, r, uop_index(g, 7));
    assert_ptr_equal(a, b);
    assert_int_equal(a->vmin, 7);
    assert_int_equal(a->vmax, 62);
    assert_true(a->ranges == 8);
    assert_int_equal(UOP(g, UOP_MOD, DT_VOID, NO_ARG, a, uop_index(g, 8))->vmax, 7);
    for (int i = 0; i < 5000; i++) uop_index(g, i);
    assert_ptr_equal(a, UOP(g, UOP_ADD, DT_VOID, NO_ARG, r, uop_index(g, 7)));
    graph_free(g);
}

static void reduce_closes_its_range(void **state)
{
    (void)state;
    Graph *g = graph_new();
    const UOp *i = uop_range(g, 0, uop_index(g, 4), AXIS_LOOP), *k = uop_range(g, 1, uop_index(g, 9), AXIS_REDUCE);
    const UOp *v = UOP(g, UOP_MUL, DT_VOID, NO_ARG, i, k), *s = uop_reduce_ranges(g, UOP_ADD, v, &k, 1);
    assert_true(v->ranges == 3);
    assert_true(s->ranges == 1);
    graph_free(g);
}

static void shapes_broadcast(void **state)
{
    (void)state;
    Graph *g = graph_new();
    const UOp *three = uop_index(g, 3), *one = uop_index(g, 1), *four = uop_index(g, 4);
    const UOp *a = uop_param(g, DT_F32, (const UOp *const[]){ three, one }, 2, 0),
              *b = uop_param(g, DT_F32, &four, 1, 1);
    const UOp *c = UOP(g, UOP_ADD, DT_VOID, NO_ARG, a, b);
    assert_int_equal(uop_rank(c), 2);
    assert_int_equal(uop_numel(c), 12);
    graph_free(g);
}

static void copies_are_equal(void **state)
{
    (void)state;
    Graph *g = graph_new(), *h = graph_new();
    const UOp *x = uop_range(g, 0, uop_index(g, 5), AXIS_LOOP);
    for (int i = 0; i < 100000; i++) x = UOP(g, UOP_ADD, DT_VOID, NO_ARG, x, uop_index(g, i % 7));
    const UOp *y = uop_copy(h, x, NULL);
    assert_int_equal(x->hash, y->hash);
    graph_free(g);
    graph_free(h);
}

/* ((x y) + z) of leaves that came in this order or the other: ids differ, the walk does not. */
static void walks_are_equal(void **state)
{
    (void)state;
    Graph *g[2] = { graph_new(), graph_new() };
    Arena *a = arena_new();
    const UOp **order[2], *leaf[3];
    uint32_t n[2];
    for (int k = 0; k < 2; k++) {
        for (int i = 0; i < 3; i++) leaf[k ? 2 - i : i] = uop_param(g[k], DT_F32, NULL, 0, k ? 2 - i : i);
        const UOp *root =
            UOP(g[k], UOP_ADD, DT_VOID, NO_ARG, UOP(g[k], UOP_MUL, DT_VOID, NO_ARG, leaf[0], leaf[1]), leaf[2]);
        order[k] = uop_postorder(g[k], root, a, &n[k]);
    }
    assert_int_equal(n[0], n[1]);
    for (uint32_t i = 0; i < n[0]; i++) {
        assert_int_equal(order[0][i]->op, order[1][i]->op);
        assert_int_equal(order[0][i]->arg.i, order[1][i]->arg.i);
    }
    assert_int_not_equal(order[0][1]->id, order[1][1]->id);
    for (int k = 0; k < 2; k++) graph_free(g[k]);
    arena_free(a);
}

static void evaluates_constants(void **state)
{
    (void)state;
    int64_t r;
    assert_true(uop_eval(UOP_IDIV, DT_I32, DT_I32, (int64_t[]){ -7, 2 }, &r) && r == -4);
    assert_true(uop_eval(UOP_MOD, DT_I32, DT_I32, (int64_t[]){ -7, 2 }, &r) && r == 1);
    assert_true(uop_eval(UOP_IDIV, DT_I32, DT_I32, (int64_t[]){ INT32_MIN, -1 }, &r) && r == INT32_MIN);
    assert_false(uop_eval(UOP_MOD, DT_I32, DT_I32, (int64_t[]){ 1, 0 }, &r));
    assert_true(uop_eval(UOP_ADD, DT_U8, DT_U8, (int64_t[]){ 250, 10 }, &r) && r == 4);
}

static void steps_of_ranges(void **state)
{
    (void)state;
    Graph *g = graph_new();
    const UOp *i = uop_range(g, 0, uop_index(g, 5), AXIS_LOOP), *j = uop_range(g, 1, uop_index(g, 7), AXIS_LOOP),
              *minus = UOP(g, UOP_MUL, DT_VOID, NO_ARG, j, uop_index(g, -3));
    const UOp *linear =
        UOP(g, UOP_ADD, DT_VOID, NO_ARG,
            UOP(g, UOP_MUL, DT_VOID, NO_ARG, UOP(g, UOP_ADD, DT_VOID, NO_ARG, i, minus), uop_index(g, 4)), i);
    const UOp *half = UOP(g, UOP_ADD, DT_VOID, NO_ARG, UOP(g, UOP_IDIV, DT_VOID, NO_ARG, i, uop_index(g, 2)), j);
    assert_int_equal(range_step(linear, i), 5);
    assert_int_equal(range_step(linear, j), -12);
    assert_int_equal(range_step(half, j), 1);
    assert_int_equal(range_step(half, i), NO_STEP);
    assert_int_equal(range_step(i, j), 0);
    graph_free(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equal_nodes_are_one), cmocka_unit_test(reduce_closes_its_range),
        cmocka_unit_test(shapes_broadcast),    cmocka_unit_test(copies_are_equal),
        cmocka_unit_test(walks_are_equal),     cmocka_unit_test(evaluates_constants),
        cmocka_unit_test(steps_of_ranges)
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
