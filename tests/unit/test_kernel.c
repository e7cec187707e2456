/* Kernels as objects: what a compiled one forgets, and what it still knows; which of their threads are idle. */
#include "tests/test.h"

#include <stdlib.h>

#include "beam/beam.h"
#include "graph/build.h"
#include "sched/sched.h"

static const Target target = { .kind = "cpu",
                               .vector_bytes = 64,
                               .vector_registers = 32,
                               .threads = 2,
                               .l1_bytes = 32 << 10,
                               .l2_bytes = 1 << 20,
                               .has_threads = true,
                               .has_fma = true };

static void choose(OptList *out, const Kernel *k, const ScheduleItem *item, const Schedule *s, void *user)
{
    (void)item, (void)s, (void)user;
    heuristic_opts(out, k, &target);
}

/* Two equal softmaxes of n rows, n up to 100, and a GEMM with a constant. */
static Schedule *make(Graph *g)
{
    static const float data[64 * 48];
    const UOp *n = uop_var(g, "n", 1, 100), *x = uop_param(g, DT_F32, (U[]){ n, uop_index(g, 64) }, 2, 0),
              *w = tensor_const(g, DT_F32, (int64_t[]){ 64, 48 }, 2, data, sizeof data, "w");
    U once = softmax(g, x, 1), y = matmul(g, softmax(g, once, 1), w);
    Schedule *s = NULL;
    assert_int_equal(sched_schedule(&s, g, UOP(g, UOP_SINK, DT_VOID, NO_ARG, y), &target, NULL, NULL), TG_OK);
    assert_int_equal(sched_optimize(s, &target, choose, NULL, 1, NULL), TG_OK);
    return s;
}

static void forgets_code(void **state)
{
    (void)state;
    Graph *g = graph_new();
    Schedule *s = make(g);
    struct { int64_t bytes[3], bound; bool vectors, overlaps; } before[8];
    uint32_t nodes = 0;
    assert_in_range(s->count, 3, 8);
    for (uint32_t i = 0; i < s->count; i++) {
        const Kernel *k = s->item[i].kernel;
        for (uint32_t p = 0; p < k->nparam && p < 3; p++) before[i].bytes[p] = kernel_param_bytes(k, p);
        before[i].bound = k->thread_bound ? k->thread_bound->vmax : 0;
        nodes += graph_count(k->g);
        before[i].vectors = kernel_vectors(k);
        before[i].overlaps = kernel_overlaps(k);
    }
    schedule_forget_code(s);
    for (uint32_t i = 0; i < s->count; i++) {
        const Kernel *k = s->item[i].kernel;
        assert_null(k->linear);
        assert_true(graph_count(k->g) < nodes / 8);
        assert_ptr_equal(k->g, s->item[0].kernel->g);
        for (uint32_t p = 0; p < k->nparam && p < 3; p++)
            assert_int_equal(kernel_param_bytes(k, p), before[i].bytes[p]);
        assert_int_equal(k->thread_bound ? k->thread_bound->vmax : 0, before[i].bound);
        assert_int_equal(kernel_vectors(k), before[i].vectors);
        assert_int_equal(kernel_overlaps(k), before[i].overlaps);
        for (uint32_t v = 0; v < k->nvar; v++) assert_ptr_equal(k->var[v], graph_node(k->g, k->var[v]->id));
    }
    schedule_free(s);
    graph_free(g);
}

/* Behind a shuffle, four loops of a store under a gate `position < 1`: an IF holds all of them where the position is a
 * thread's, and none where it is the loop's own, which begins inside. */
static uint32_t ifs(bool of_loop)
{
    Graph *g = graph_new();
    U size = uop_index(g, 64), one = uop_index(g, 1), y = uop_param(g, DT_F32, &size, 1, 0),
      place = UOP(g, UOP_INDEX, DT_VOID, NO_ARG, uop_param(g, DT_F32, &size, 1, 1), one),
      x = UOP(g, UOP_LOAD, DT_VOID, NO_ARG, place),
      turned = UOP(g, UOP_SHUFFLE, DT_VOID, ARG_I(1), x), loop = uop_range(g, 0, uop_index(g, 4), AXIS_LOOP),
      thread = UOP(g, UOP_SPECIAL, DT_INDEX, ((Arg){ .blob = graph_blob(g, "lidx0", 6) }), uop_index(g, 8)),
      gate = UOP(g, UOP_CMPLT, DT_VOID, NO_ARG, of_loop ? loop : thread, one),
      store = UOP(g, UOP_STORE, DT_VOID, NO_ARG, UOP(g, UOP_INDEX, DT_VOID, NO_ARG, y, loop), turned, gate),
      end = UOP(g, UOP_END, DT_VOID, NO_ARG, store, loop), line[] = { x, thread, turned, loop, gate, store, end };
    Kernel k = { .g = g, .linear = uop_new(g, UOP_LINEAR, DT_VOID, NO_ARG, line, 7) };
    uint32_t n = 0;
    assert_int_equal(graph_error(g), TG_OK);
    kernel_skip_idle(&k);
    for (uint32_t i = 0; i < k.linear->nsrc; i++) n += k.linear->src[i]->op == UOP_IF;
    graph_free(g);
    return n;
}

static void idle_threads_stop(void **state)
{
    (void)state;
    assert_int_equal(ifs(false), 1);
    assert_int_equal(ifs(true), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(forgets_code), cmocka_unit_test(idle_threads_stop) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
