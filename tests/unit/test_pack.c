/* PACK moves to load time what a kernel reads from constants; where it is read must not depend on data. The copies:
 * few, and made from front to back of the file. */
#include "tests/test.h"

#include <stdlib.h>
#include <string.h>

#include "beam/beam.h"
#include "graph/base/memory.h"
#include "graph/build.h"
#include "sched/rangeify.h"
#include "sched/sched.h"

static const Target target = { .kind = "cpu",
                               .vector_bytes = 64,
                               .vector_registers = 32,
                               .threads = 2,
                               .l1_bytes = 32 << 10,
                               .l2_bytes = 1 << 20,
                               .has_threads = true,
                               .has_fma = true };

/* PACK of every constant parameter of the only kernel of `value`. */
static TgStatus pack_all(Graph *g, U value, uint32_t *constants)
{
    Schedule *s = mem_zeros(1, sizeof *s);
    s->g = g;
    const UOp *sink = uop_new(g, UOP_SINK, DT_VOID, NO_ARG, &value, 1);
    TgStatus status = TG_OK;
    assert_int_equal(sched_callify(&sink, g, sink, &target, NULL), TG_OK);
    assert_int_equal(sched_rangeify(s, g, sink, &target, NULL, NULL, NULL), TG_OK);
    assert_int_equal(sched_layout(s, &target, NULL), TG_OK);
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
    U idx = uop_param(g, DT_I64, (U[]){ uop_index(g, 5) }, 1, 0),
      like = uop_param(g, DT_F32, (U[]){ uop_index(g, 5), uop_index(g, 16) }, 2, 1);
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

static uint32_t constant_of(const Kernel *k)
{
    uint32_t slot = 0;
    while (slot < k->nparam && !k->param[slot].constant) slot++;
    assert_true(slot < k->nparam);
    return slot;
}

/* Tiles of 48 along n of a GEMM, its constant packed. */
static void choose_tiles(OptList *out, const Kernel *k, const ScheduleItem *item, const Schedule *s, void *user)
{
    (void)s, (void)user;
    if (item->once) return;
    assert_int_equal(opt_parse(out, "SPLIT 1 16 UPCAST; SPLIT 1 3 UPCAST"), TG_OK);
    out->op[out->count++] = (OptOp){ .kind = OPT_PACK, .axis = (int8_t)constant_of(k) };
}

static U times(Graph *g, U w, int64_t rows, int64_t slot)
{
    return matmul(g, uop_param(g, DT_F32, (U[]){ uop_index(g, rows), uop_index(g, 48) }, 2, slot),
                  permute(g, w, (int64_t[]){ 1, 0 }, 2));
}

/* The schedule of GEMMs of 5 and 7 rows with one constant [1009,48]. */
static Schedule *two_readers(Graph *g)
{
    static const float data[1009 * 48];
    U w = tensor_const(g, DT_F32, (int64_t[]){ 1009, 48 }, 2, data, sizeof data, "w"),
      y[2] = { times(g, w, 5, 0), times(g, w, 7, 1) };
    Schedule *s = NULL;
    assert_int_equal(sched_schedule(&s, g, uop_new(g, UOP_SINK, DT_VOID, NO_ARG, y, 2), &target, NULL, NULL), TG_OK);
    assert_int_equal(sched_optimize(s, &target, choose_tiles, NULL, 1, NULL), TG_OK);
    return s;
}

static void one_copy_for_all(void **state)
{
    (void)state;
    Graph *g = graph_new();
    Schedule *s = two_readers(g);
    const UOp *packed[2];
    uint32_t once = 0, runs = 0;
    for (uint32_t i = 0; i < s->count; i++)
        if (s->item[i].once) once++;
        else packed[runs++] = s->item[i].kernel->param[constant_of(s->item[i].kernel)].buffer;
    assert_int_equal(once, 1);
    assert_int_equal(runs, 2);
    assert_ptr_equal(packed[0], packed[1]);
    schedule_free(s);
    graph_free(g);
}

/* 22 tiles of 48 rows of the file, though a gate keeps the last inside: a thread, or a part of the load, reads its own
 * share of the file. */
static void in_order_of_the_file(void **state)
{
    (void)state;
    Graph *g = graph_new();
    U x = uop_param(g, DT_F32, (U[]){ uop_index(g, 5), uop_index(g, 768) }, 2, 0);
    static const float data[1009 * 768];
    U w = tensor_const(g, DT_F32, (int64_t[]){ 1009, 768 }, 2, data, sizeof data, "w"),
      y = matmul(g, x, permute(g, w, (int64_t[]){ 1, 0 }, 2));
    Schedule *s = NULL;
    OptList tiles = { .count = 0 }, opts;
    assert_int_equal(sched_schedule(&s, g, UOP(g, UOP_SINK, DT_VOID, NO_ARG, y), &target, NULL, NULL), TG_OK);
    choose_tiles(&tiles, s->item[0].kernel, &s->item[0], s, NULL);
    assert_int_equal(opt_apply_list(s->item[0].kernel, &tiles, &target), TG_OK);
    Kernel *p = pack_kernel(s->item[0].kernel, constant_of(s->item[0].kernel));
    heuristic_opts(&opts, p, &target);
    assert_true(opts.count && opts.op[opts.count - 1].target == AXIS_THREAD);
    assert_int_equal(opts.op[opts.count - 1].factor, 22);
    kernel_free(p);
    schedule_free(s);
    graph_free(g);
}

/* Threads side by side along an output read what lies side by side, also where others share their sums: the lanes' step
 * is that of their UPCAST. */
static void neighbours_read_neighbours(void **state)
{
    (void)state;
    static const float data[64 * 256] = { 1 };
    const Target gpu = { .kind = "cuda",
                         .vector_bytes = 16,
                         .vector_registers = 255,
                         .threads = 132,
                         .l1_bytes = 232448,
                         .l2_bytes = 50 << 20,
                         .has_locals = true,
                         .max_block = 1024,
                         .warp = 32 };
    Graph *g = graph_new();
    U w = tensor_const(g, DT_F32, (int64_t[]){ 64, 256 }, 2, data, sizeof data, "w"),
      x = uop_param(g, DT_F32, (U[]){ uop_index(g, 16), uop_index(g, 64) }, 2, 0), y = matmul(g, x, w);
    Schedule *s;
    OptList list;
    assert_int_equal(sched_schedule(&s, g, uop_new(g, UOP_SINK, DT_VOID, NO_ARG, &y, 1), &gpu, NULL, NULL), TG_OK);
    Kernel *k = s->item[0].kernel;
    assert_int_equal(
        opt_parse(&list, "SPLIT 1 4 UPCAST; SPLIT 3 4 GROUP_REDUCE TOP; SPLIT 4 4 UNROLL; SPLIT 1 32 LOCAL"), TG_OK);
    assert_int_equal(opt_apply_list(k, &list, &gpu), TG_OK);
    for (uint32_t p = 0; p < k->nparam; p++) {
        const UOp *axis[64];
        if (!k->param[p].constant) continue;
        assert_int_equal(opt_apply(k, &(OptOp){ .kind = OPT_PACK, .axis = (int8_t)p }, &gpu), TG_OK);
        for (uint32_t i = opt_axes(k, axis, 64); i--;)
            if (range_type(axis[i]) == AXIS_LOCAL) assert_int_equal(range_step(k->pack[p]->at, axis[i]), 4);
    }
    schedule_free(s);
    graph_free(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(index_from_data), cmocka_unit_test(index_from_loops),
                                        cmocka_unit_test(one_copy_for_all), cmocka_unit_test(in_order_of_the_file),
                                        cmocka_unit_test(neighbours_read_neighbours) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
