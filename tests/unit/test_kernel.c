/* Kernels as objects: what a compiled one forgets, and what it still knows. */
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

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(forgets_code) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
