/* The order of a schedule: a kernel that needs a size which a host call sets comes after the call, whatever their
 * nodes' ids say; where a call costs a wait, those that need not wait for one another stand side by side. And a list
 * that the device does not take is counted. */
#include <string.h>

#include "graph/build.h"
#include "graph/custom.h"
#include "sched/sched.h"
#include "tests/test.h"

/* ConstantOfShape(Shape(NonZero(x))): nothing but the size ties the constant to the call, and callify rebuilds the call
 * (its argument has a no-op), so that its id is larger than the constant's. */
static void sizes_come_before_their_users(void **state)
{
    (void)state;
    Graph *g = graph_new();
    const UOp *four = uop_index(g, 4), *x = uop_param(g, DT_F32, &four, 1, 0), *y = x, *dim[2];
    const UOp *same = UOP(g, UOP_PERMUTE, DT_VOID, ((Arg){ 0, graph_ints(g, (int64_t[]){ 0 }, 1) }), add(g, y, y));
    const UOp *n = size_var(g, "nonzero", 0, 4),
              *call = call_new(g, custom_new(g, "nonzero", NULL, 0, &n, 1), &same, 1);
    dim[0] = uop_index(g, 1), dim[1] = n;
    const UOp *found = call_result(g, call, 0, DT_I64, dim, 2), *filled = expand(g, scalar(g, DT_F32, 3), &n, 1);
    const UOp *out[2] = { filled, found }, *sink = uop_new(g, UOP_SINK, DT_VOID, NO_ARG, out, 2);
    assert_int_equal(graph_error(g), TG_OK);
    const Target target = {
        .kind = "cpu", .vector_bytes = 32, .vector_registers = 16, .threads = 1, .l1_bytes = 32768, .l2_bytes = 1 << 20
    };
    Schedule *s;
    assert_int_equal(sched_schedule(&s, g, sink, &target, NULL, NULL), TG_OK);
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

enum { CALLS = 3 };

/* Three times: the positions of what is not zero in x + k, one more than each, and where those are not zero: what the
 * second calls find needs the first calls' sizes. */
static const UOp *two_rounds_of_calls(Graph *g)
{
    const UOp *four = uop_index(g, 4), *x = uop_param(g, DT_F32, &four, 1, 0), *dim[2] = { uop_index(g, 1) },
              *out[CALLS];
    for (int64_t k = 0; k < CALLS; k++) {
        const UOp *value = add(g, x, scalar(g, DT_F32, (double)k));
        for (int round = 0; round < 2; round++) {
            const UOp *n = size_var(g, "nonzero", 0, 4),
                      *call = call_new(g, custom_new(g, "nonzero", NULL, 0, &n, 1), &value, 1);
            dim[1] = n;
            out[k] = call_result(g, call, 0, DT_I64, dim, 2);
            value = add(g, out[k], uop_int(g, DT_I64, 1));
        }
    }
    assert_int_equal(graph_error(g), TG_OK);
    return uop_new(g, UOP_SINK, DT_VOID, NO_ARG, out, CALLS);
}

/* How often a call follows what is none. */
static uint32_t waits(const Schedule *s)
{
    uint32_t n = 0, calls = 0;
    for (uint32_t i = 0; i < s->count; i++) {
        calls += s->item[i].call != NULL;
        n += s->item[i].call && (!i || !s->item[i - 1].call);
    }
    assert_int_equal(calls, 2 * CALLS);
    return n;
}

static void calls_stand_side_by_side(void **state)
{
    (void)state;
    static const struct { Target target; uint32_t waits; } row[] = {
        { { .kind = "cuda", .vector_bytes = 16, .vector_registers = 255, .threads = 132, .l1_bytes = 232448, .l2_bytes = 50 << 20, .has_locals = true, .max_block = 1024, .warp = 32 }, 2 },
        { { .kind = "cpu", .vector_bytes = 32, .vector_registers = 16, .threads = 1, .l1_bytes = 32768, .l2_bytes = 1 << 20 }, 2 * CALLS },
    };
    for (size_t k = 0; k < sizeof row / sizeof *row; k++) {
        Graph *g = graph_new();
        Schedule *s;
        assert_int_equal(sched_schedule(&s, g, two_rounds_of_calls(g), &row[k].target, NULL, NULL), TG_OK);
        assert_int_equal(waits(s), row[k].waits);
        schedule_free(s);
        graph_free(g);
    }
}

static void too_many_threads(OptList *out, const Kernel *k, const ScheduleItem *item, const Schedule *s, void *user)
{
    (void)k, (void)item, (void)s, (void)user;
    *out = (OptList){ { { .kind = OPT_SPLIT, .axis = 0, .target = AXIS_LOCAL, .factor = 4096 } }, 1 };
}

static void refused_lists_are_counted(void **state)
{
    (void)state;
    const Target t = { .kind = "cuda",
                       .vector_bytes = 16,
                       .vector_registers = 255,
                       .threads = 132,
                       .l1_bytes = 232448,
                       .l2_bytes = 50 << 20,
                       .has_locals = true,
                       .max_block = 1024,
                       .warp = 32 };
    Graph *g = graph_new();
    const UOp *n = uop_index(g, 4096), *x = uop_param(g, DT_F32, &n, 1, 0), *y = add(g, x, x);
    Schedule *s;
    assert_int_equal(sched_schedule(&s, g, uop_new(g, UOP_SINK, DT_VOID, NO_ARG, &y, 1), &t, NULL, NULL), TG_OK);
    assert_int_equal(sched_optimize(s, &t, too_many_threads, NULL, 1, NULL), TG_OK);
    assert_int_equal(s->refused, 1);
    assert_non_null(strstr(s->why_refused.s, s->item[0].kernel->name));
    assert_int_equal(s->item[0].kernel->opts.count, 0);
    schedule_free(s);
    graph_free(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(sizes_come_before_their_users),
                                        cmocka_unit_test(calls_stand_side_by_side),
                                        cmocka_unit_test(refused_lists_are_counted) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
