/* The order of a schedule: a kernel that needs a size which a host call sets comes after the call, whatever their nodes' ids say. */
#include "graph/build.h"
#include "graph/custom.h"
#include "sched/sched.h"
#include "tests/test.h"

/* ConstantOfShape(Shape(NonZero(x))): nothing but the size ties the constant to the call, and callify rebuilds the call (its argument has a no-op), so that its id is
 * larger than the constant's. */
static void sizes_come_before_their_users(void **state)
{
    (void)state;
    Graph *g = graph_new();
    const UOp *four = uop_index(g, 4), *x = uop_param(g, DT_F32, &four, 1, 0), *y = x, *dim[2];
    const UOp *same = UOP(g, UOP_PERMUTE, DT_VOID, ((Arg){ 0, graph_ints(g, (int64_t[]){ 0 }, 1) }), add(g, y, y));
    const UOp *n = size_var(g, "nonzero", 0, 4), *call = call_new(g, custom_new(g, "nonzero", NULL, 0, &n, 1), &same, 1);
    dim[0] = uop_index(g, 1), dim[1] = n;
    const UOp *found = call_result(g, call, 0, DT_I64, dim, 2), *filled = expand(g, scalar(g, DT_F32, 3), &n, 1);
    const UOp *out[2] = { filled, found }, *sink = uop_new(g, UOP_SINK, DT_VOID, NO_ARG, out, 2);
    assert_int_equal(graph_error(g), TG_OK);
    const Target target = { .kind = "cpu", .vector_bytes = 32, .vector_registers = 16, .threads = 1, .l1_bytes = 32768, .l2_bytes = 1 << 20 };
    Schedule *s;
    assert_int_equal(sched_schedule(&s, g, sink, &target, NULL), TG_OK);
    bool called = false, filled_seen = false;
    for (uint32_t i = 0; i < s->count; i++) {
        called |= s->item[i].call != NULL;
        if (!s->item[i].kernel || !s->item[i].kernel->nvar) continue;
        filled_seen = true;
        assert_true(called);
    }
    assert_true(called && filled_seen);
    schedule_free(s);
    graph_free(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(sizes_come_before_their_users) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
