/* Wide: values of 16 bits that sums of products read one number at a time lie in memory as f32, to the bit what they
 * were. */
#include <string.h>

#include "backends/reference/reference.h"
#include "graph/build.h"
#include "graph/wmma.h"
#include "sched/sched.h"
#include "tests/test.h"

static const Target cpu = { .kind = "cpu" }, with_f16 = { .kind = "cpu", .has_f16 = true },
                    gpu = { .kind = "cuda", .max_block = 1024 },
                    unit = { .kind = "cpu", .wmma = 1 << WMMA_mma_f16 };
enum { MOST = 6 * 8 * 9 * 9 };

static uint16_t half(uint32_t k) { return (uint16_t)((k * 2654435761u >> 17 & 0x83ff) | 0x3800); }

static U weights(Graph *g, const int64_t *shape, uint32_t rank)
{
    int64_t n = 1;
    for (uint32_t k = 0; k < rank; k++) n *= shape[k];
    uint16_t *p = arena_alloc(graph_arena(g), (size_t)n * 2);
    for (int64_t i = 0; i < n; i++) p[i] = half((uint32_t)i + 71);
    return tensor_const(g, DT_F16, shape, rank, p, (size_t)n * 2, "");
}

static U wide(Graph *g, U u) { return cast(g, u, DT_F32); }
static U input(Graph *g, uint32_t slot, const int64_t *shape, uint32_t rank)
{
    U dim[4];
    for (uint32_t k = 0; k < rank; k++) dim[k] = uop_index(g, shape[k]);
    return uop_param(g, DT_F16, dim, rank, slot);
}

/* x relu(x [5,8] w [8,m]), and what else reads the relu */
static U products(Graph *g, int64_t m, bool read_twice)
{
    U x = input(g, 0, (int64_t[]){ 5, 8 }, 2), h = cast(g, max_(g, wide(g, x), scalar(g, DT_F32, 0)), DT_F16),
      y = cast(g, matmul(g, wide(g, h), wide(g, weights(g, (int64_t[]){ 8, m }, 2))), DT_F16),
      out[] = { y, cast(g, add(g, wide(g, h), wide(g, x)), DT_F16) };
    return uop_new(g, UOP_SINK, DT_VOID, NO_ARG, out, read_twice ? 2 : 1);
}

static U of_twenty(Graph *g) { return products(g, 20, false); }
static U of_three(Graph *g) { return products(g, 3, false); }
static U read_by_others(Graph *g) { return products(g, 20, true); }

/* Two inputs, both of which the other's lanes want. */
static U of_inputs(Graph *g)
{
    U q = input(g, 0, (int64_t[]){ 2, 17, 8 }, 3), k = input(g, 1, (int64_t[]){ 2, 17, 8 }, 3);
    return UOP(g, UOP_SINK, DT_VOID, NO_ARG,
               cast(g, matmul(g, wide(g, q), wide(g, permute(g, k, (int64_t[]){ 0, 2, 1 }, 3))), DT_F16));
}

static U window(Graph *g, int64_t channels, int64_t groups)
{
    int64_t one[] = { 1, 1 };
    U x = input(g, 0, (int64_t[]){ 1, 4, 9, 9 }, 4), h = cast(g, max_(g, wide(g, x), scalar(g, DT_F32, 0)), DT_F16),
      w = weights(g, (int64_t[]){ channels, 4 / groups, 3, 3 }, 4);
    return UOP(g, UOP_SINK, DT_VOID, NO_ARG,
               cast(g, conv(g, wide(g, h), wide(g, w), one, one, one, one, groups), DT_F16));
}

static U of_windows(Graph *g) { return window(g, 16, 1); }
static U depthwise(Graph *g) { return window(g, 4, 4); }

static uint32_t stored(Graph *g, U root)
{
    Arena *a = arena_new();
    uint32_t n, found = 0;
    const UOp **order = uop_toposort(g, &root, 1, a, &n);
    for (uint32_t i = 0; i < n; i++)
        found += order[i]->op == UOP_CONTIGUOUS && order[i]->dtype == DT_F32 && order[i]->src[0]->op == UOP_CAST &&
            order[i]->src[0]->src[0]->dtype == DT_F16;
    arena_free(a);
    return found;
}

static void same_to_the_bit(Graph *g, U sink, U one)
{
    static uint16_t x[MOST], y[MOST];
    const void *data[] = { x, y };
    RefTensor want[2] = { 0 }, got[2] = { 0 };
    for (uint32_t i = 0; i < MOST; i++) x[i] = half(i), y[i] = half(i + 999);
    assert_int_equal(ref_eval(want, g, sink->src, sink->nsrc, &(RefInput){ .param = data, .nparam = 2 }), TG_OK);
    assert_int_equal(ref_eval(got, g, one->src, one->nsrc, &(RefInput){ .param = data, .nparam = 2 }), TG_OK);
    for (uint32_t k = 0; k < sink->nsrc; k++) {
        assert_true(want[k].numel == got[k].numel && want[k].numel > 0);
        assert_memory_equal(want[k].data, got[k].data, (size_t)want[k].numel * 2);
        ref_tensor_free(&want[k]);
        ref_tensor_free(&got[k]);
    }
}

static void rows_lie_as_f32(void **state)
{
    (void)state;
    static const struct { const char *name; U (*make)(Graph *g); uint32_t stored; } row[] = {
        { "20 columns", of_twenty, 1 },     { "3 columns", of_three, 0 }, { "other readers", read_by_others, 1 },
        { "two inputs", of_inputs, 2 },     { "windows", of_windows, 1 }, { "depthwise", depthwise, 0 },
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        Graph *g = graph_new();
        U sink = row[i].make(g), one = store_wide(g, sink, &cpu);
        assert_int_equal(graph_error(g), TG_OK);
        if (stored(g, one) != row[i].stored) print_message("%s: %u\n", row[i].name, stored(g, one));
        assert_int_equal(stored(g, one), row[i].stored);
        same_to_the_bit(g, sink, one);
        assert_ptr_equal(store_wide(g, sink, &with_f16), sink);
        assert_ptr_equal(store_wide(g, sink, &unit), sink);
        assert_ptr_equal(store_wide(g, sink, &gpu), sink);
        graph_free(g);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(rows_lie_as_f32) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
