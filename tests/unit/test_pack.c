/* PACK moves to load time what a kernel reads from constants; where it is read must not depend on data. */
#include "tests/test.h"

#include <stdlib.h>
#include <string.h>

#include "graph/build.h"
#include "sched/sched.h"

static const Target target = { .kind = "cpu", .vector_bytes = 64, .vector_registers = 32, .threads = 2, .l1_bytes = 32 << 10, .l2_bytes = 1 << 20, .has_threads = true, .has_fma = true };

/* PACK of every constant parameter of the only kernel of `value`. */
static TgStatus pack_all(Graph *g, U value, uint32_t *constants)
{
    Schedule *s = calloc(1, sizeof *s);
    s->g = g;
    const UOp *sink = uop_new(g, UOP_SINK, DT_VOID, NO_ARG, &value, 1);
    TgStatus status = TG_OK;
    assert_int_equal(sched_callify(&sink, g, sink, &target), TG_OK);
    assert_int_equal(sched_rangeify(s, g, sink, &target), TG_OK);
    assert_int_equal(sched_layout(s, &target), TG_OK);
    *constants = 0;
    for (uint32_t i = 0; i < s->count; i++)
        for (uint32_t k = 0; s->item[i].kernel && k < s->item[i].kernel->nparam; k++) {
            if (!s->item[i].kernel->param[k].constant) continue;
            ++*constants;
            TgStatus one = opt_apply(s->item[i].kernel, &(OptOp){ .kind = OPT_PACK, .axis = (int8_t)k }, &target);
            status = status == TG_OK ? one : status;
        }
    schedule_free(s);
    return status;
}

static U weights(Graph *g)
{
    static const float data[8 * 16] = { 1 };
    return tensor_const(g, DT_F32, (int64_t[]){ 8, 16 }, 2, data, sizeof data, "w");
}

static void index_from_data(void **state)
{
    (void)state;
    Graph *g = graph_new();
    uint32_t constants;
    U idx = uop_param(g, DT_I64, (U[]){ uop_index(g, 5) }, 1, 0), like = uop_param(g, DT_F32, (U[]){ uop_index(g, 5), uop_index(g, 16) }, 2, 1);
    assert_int_equal(pack_all(g, add(g, take(g, weights(g), idx, 0), like), &constants), TG_USAGE);
    assert_int_equal(constants, 1);
    assert_non_null(strstr(tg_error(), "depends on data"));
    graph_free(g);
}

static void index_from_loops(void **state)
{
    (void)state;
    Graph *g = graph_new();
    uint32_t constants;
    U x = uop_param(g, DT_F32, (U[]){ uop_index(g, 5), uop_index(g, 8) }, 2, 0);
    assert_int_equal(pack_all(g, matmul(g, x, weights(g)), &constants), TG_OK);
    assert_int_equal(constants, 1);
    graph_free(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(index_from_data), cmocka_unit_test(index_from_loops) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
