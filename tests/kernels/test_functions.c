/* Functions: chains of equal blocks, random ones, are found, scheduled once and still what the interpreter says of the
 * tensors; blocks that differ are not shared; calls of calls. FUNCTIONS_COUNT chains (default 120) from FUNCTIONS_SEED
 * (default 1), half of them for a GPU.
 */
#include "tests/test.h"

#include <stdlib.h>
#include <string.h>

#include "graph/base/memory.h"
#include "graph/blocks.h"
#include "random_stages.h"

static const Target targets[2] = {
    { .kind = "cpu", .vector_bytes = 32, .vector_registers = 16, .threads = 4, .l1_bytes = 32 << 10, .l2_bytes = 1 << 20, .has_threads = true, .has_fma = true },
    { .kind = "cuda", .vector_bytes = 16, .vector_registers = 255, .threads = 132, .l1_bytes = 227 << 10, .l2_bytes = 50 << 20, .has_locals = true, .has_fma = true, .max_block = 256, .warp = 32 },
};

/* ---- chains ---- */

enum { STEPS = 7 };
typedef struct { int64_t rows, width; uint32_t steps, blocks, step[STEPS], outputs; U out[16]; double scale; } Chain;

static U weight(RandomGraph *rg, uint32_t rank, const int64_t *shape)
{
    int64_t n = rank > 1 ? shape[0] * shape[1] : shape[0];
    float *v = NEW_N(graph_arena(rg->g), float, n);
    for (int64_t i = 0; i < n; i++) v[i] = ((float)random_below(&rg->r, 33) - 16) / 64;
    return tensor_const(rg->g, DT_F32, shape, rank, v, (size_t)n * sizeof *v, "w");
}

static U dense(RandomGraph *rg, const Chain *c, U x)
{
    int64_t w[2] = { c->width, c->width };
    return add(rg->g, matmul(rg->g, x, weight(rg, 2, w)), weight(rg, 1, w));
}

static U normed(Graph *g, U x)
{
    int64_t axis = -1;
    U d = sub(g, x, mean(g, x, &axis, 1, true)), v = mean(g, mul(g, d, d), &axis, 1, true);
    return mul(g, d, recip(g, sqrt_(g, add(g, v, scalar(g, DT_F32, 1e-3)))));
}

static U attended(RandomGraph *rg, U x, U mask)
{
    Graph *g = rg->g;
    return matmul(g, softmax(g, add(g, matmul(g, x, transpose(g, x)), mask), -1), x);
}

static U joined(Graph *g, const Chain *c, U x)
{
    U half[2] = { slice_i(g, x, 1, c->width / 2, c->width), slice_i(g, x, 1, 0, c->width / 2) };
    return cat(g, half, 2, 1);
}

static U folded(RandomGraph *rg, const Chain *c, U x)
{
    int64_t w[2] = { c->width, c->width };
    return matmul(rg->g, x, add(rg->g, weight(rg, 2, w), transpose(rg->g, weight(rg, 2, w))));
}

/* The mask is an input seen through arithmetic, which all blocks repeat. */
static U block(RandomGraph *rg, Chain *c, U in)
{
    Graph *g = rg->g;
    U x = in, side = NULL, mask = mul(g, sub(g, scalar(g, DT_F32, 1), rg->input[1]), scalar(g, DT_F32, -4));
    for (uint32_t i = 0; i < c->steps; i++)
        switch (c->step[i]) {
        case 0: x = dense(rg, c, x); break;
        case 1: x = relu(g, x); break;
        case 2: x = add(g, x, in); break;
        case 3: x = normed(g, x); break;
        case 4: x = attended(rg, x, mask); break;
        case 5: x = joined(g, c, x); break;
        case 6: x = folded(rg, c, x); break;
        default: side = abs_(g, x);
        }
    if (side) c->out[c->outputs++] = side;
    return normed(g, add(g, dense(rg, c, x), mul(g, in, scalar(g, DT_F32, c->scale))));
}

static void new_input(RandomGraph *rg, uint32_t slot, int64_t rows, int64_t width)
{
    U dim[2] = { uop_index(rg->g, rows), uop_index(rg->g, width) };
    rg->input[slot] = uop_param(rg->g, DT_F32, dim, 2, slot);
    rg->data[slot] = malloc((size_t)(rows * width) * sizeof(float));
    random_fill(&rg->r, DT_F32, rg->data[slot], rows * width);
}

/* differ: the factor of what goes past a block is another in each. */
static void new_chain(RandomGraph *rg, Chain *c, uint64_t seed, bool differ)
{
    *rg = (RandomGraph){ .g = graph_new(), .r = { seed * UINT64_C(0x9e3779b97f4a7c15) } };
    Random *r = &rg->r;
    *c = (Chain){ .rows = 1 + random_below(r, 9),
                  .width = 2 * (1 + random_below(r, 7)),
                  .steps = 1 + random_below(r, STEPS),
                  .blocks = 3 + random_below(r, 4),
                  .scale = seed % 4 ? 0.5 : -0.0 };                     /* whose bits are the least integer */
    for (uint32_t i = 0; i < c->steps; i++) c->step[i] = random_below(r, 8);
    new_input(rg, 0, c->rows, c->width);
    new_input(rg, 1, c->rows, c->rows);
    U x = normed(rg->g, rg->input[0]);
    for (uint32_t k = 0; k < c->blocks; k++) {
        if (differ) c->scale = 0.5 + 0.125 * k;
        x = block(rg, c, x);
    }
    c->out[c->outputs++] = x;
    rg->sink = uop_new(rg->g, UOP_SINK, DT_VOID, NO_ARG, c->out, c->outputs);
}

/* ---- checks ---- */

static uint32_t graphs_of(const Schedule *s)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < s->count; i++) n += s->item[i].kernel && !s->item[i].kernel->owner;
    return n;
}

static Schedule *plain_schedule(RandomGraph *rg, const Target *t)
{
    Schedule *s = mem_zeros(1, sizeof *s);
    const UOp *sink;
    s->g = rg->g;
    assert_int_equal(sched_callify(&sink, rg->g, rg->sink, t, NULL), TG_OK);
    assert_int_equal(sched_rangeify(s, rg->g, sink, t, NULL, NULL, NULL), TG_OK);
    return s;
}

static uint32_t most_calls(const Schedule *s)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < s->nfunction; i++)
        if (s->function[i].calls > n) n = s->function[i].calls;
    return n;
}

/* The outputs are those of the tensors, at both stages. */
static bool agrees(RandomGraph *rg, const UOp *sink, const UOp *tensors, const Target *t, uint64_t seed, Schedule **out)
{
    RefTensor want[16];
    Placements placements = { 0 };
    Rangeify *swept = NULL;
    Schedule *s = *out = mem_zeros(1, sizeof *s);
    Memory m = { 0 };
    Place at = { seed, "rangeify", NULL, NULL, NULL };
    RefInput in = { .param = (const void *const *)rg->data, .nparam = RANDOM_INPUTS };
    s->g = rg->g;
    rg->sink = tensors;
    bool ok = graph_error(rg->g) == TG_OK && went(&at, ref_eval(want, rg->g, tensors->src, tensors->nsrc, &in));
    if (!ok) return false;
    ok = went(&at, sched_callify(&sink, rg->g, sink, t, NULL)) &&
        went(&at, sched_functions(&sink, &placements, &swept, rg->g, sink, t, NULL)) &&
        went(&at, sched_rangeify(s, rg->g, sink, t, &placements, swept, NULL));
    rangeify_free(swept);
    ok = ok && schedule_agrees(rg, s, want, &m, &at);
    memory_free(&m);
    m = (Memory){ 0 };
    at.stage = "layout";
    ok = ok && went(&at, sched_layout(s, t, NULL)) && schedule_agrees(rg, s, want, &m, &at);
    memory_free(&m);
    for (uint32_t k = 0; k < tensors->nsrc; k++) ref_tensor_free(&want[k]);
    placements_free(&placements);
    return ok;
}

/* Nothing that was one kernel is two, and what one call needs was looked at once. */
static void chains_are_functions(void **state)
{
    long count = setting("FUNCTIONS_COUNT", 120), first = setting("FUNCTIONS_SEED", 1), bad = 0, shared = 0,
         kernels = 0;
    (void)state;
    for (long i = 0; i < count; i++) {
        RandomGraph rg;
        Chain c;
        uint64_t seed = (uint64_t)(first + i);
        const Target *t = &targets[seed % 2];
        new_chain(&rg, &c, seed, false);
        Schedule *s, *plain = plain_schedule(&rg, t);
        bool ok = agrees(&rg, rg.sink, rg.sink, t, seed, &s) && s->count == plain->count &&
            most_calls(s) + 1 >= c.blocks && graphs_of(s) < graphs_of(plain);
        if (!ok)
            print_message("seed %lu: %u kernels for %u, %u calls for %u blocks\n", (unsigned long)seed, s->count,
                          plain->count, most_calls(s), c.blocks);
        bad += !ok;
        kernels += s->count;
        shared += s->count - graphs_of(s);
        schedule_free(s);
        schedule_free(plain);
        random_graph_free(&rg);
    }
    print_message("%ld chains, %ld kernels, %ld of them shared, %ld failures\n", count, kernels, shared, bad);
    assert_int_equal(bad, 0);
}

static void blocks_that_differ_stay(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed < 20; seed++) {
        RandomGraph rg;
        Chain c;
        Schedule *s;
        new_chain(&rg, &c, seed, true);
        assert_true(agrees(&rg, rg.sink, rg.sink, &targets[seed % 2], seed, &s));
        /* a part of them may repeat, never the whole */
        for (uint32_t i = 0; i < s->nfunction; i++) assert_true(s->function[i].count * c.blocks < s->count);
        schedule_free(s);
        random_graph_free(&rg);
    }
}

/* ---- calls that somebody wrote ---- */

static U call_of(Graph *g, U f, const UOp *const *arg, uint32_t n)
{
    U src[8] = { f };
    memcpy(src + 1, arg, n * sizeof *arg);
    return uop_new(g, UOP_CALL, DT_VOID, NO_ARG, src, n + 1);
}

static U result(Graph *g, U call, uint32_t k, U like)
{
    return UOP(g, UOP_GETTUPLE, DT_F32, ARG_I(k), call, uop_sizes(g, like->shape->dim, uop_rank(like)));
}

/* inner(a, b) = (|a| row sums + b, b); outer(a, w) = inner(inner(a, w) w) of both results, twice the first; w is a
 * constant in one call and an input in the other. */
static void calls_of_calls(void **state)
{
    (void)state;
    for (uint32_t k = 0; k < 2; k++) {
        RandomGraph rg = { .g = graph_new(), .r = { 5 } };
        Graph *g = rg.g;
        const int64_t size[2] = { 6, 6 }, base = 1000;
        new_input(&rg, 0, 6, 6);
        new_input(&rg, 1, 6, 6);
        U a = uop_param(g, DT_F32, rg.input[0]->shape->dim, 2, base),
          b = uop_param(g, DT_F32, rg.input[0]->shape->dim, 2, base + 1);
        U inner = UOP(g, UOP_FUNCTION, DT_VOID, ARG_I(base),
                      UOP(g, UOP_TUPLE, DT_VOID, NO_ARG, add(g, sum(g, abs_(g, a), 1, true), b), b));
        U c = uop_param(g, DT_F32, a->shape->dim, 2, base + 2), w = uop_param(g, DT_F32, a->shape->dim, 2, base + 3);
        U one = call_of(g, inner, (const UOp *[]){ c, w }, 2),
          two = call_of(g, inner, (const UOp *[]){ matmul(g, result(g, one, 0, c), w), result(g, one, 1, c) }, 2);
        U outer =
            UOP(g, UOP_FUNCTION, DT_VOID, ARG_I(base + 2),
                UOP(g, UOP_TUPLE, DT_VOID, NO_ARG, result(g, two, 0, c), result(g, two, 1, c), result(g, two, 0, c)));
        U first = call_of(g, outer, (const UOp *[]){ rg.input[0], weight(&rg, 2, size) }, 2);
        U second = call_of(g, outer, (const UOp *[]){ result(g, first, 2, c), rg.input[1] }, 2);
        U sink = UOP(g, UOP_SINK, DT_VOID, NO_ARG, result(g, second, 0, c), result(g, second, 1, c),
                     add(g, result(g, first, 0, c), result(g, first, 1, c)));
        Schedule *s;
        assert_true(agrees(&rg, sink, graph_inline(g, sink), &targets[k], k, &s));
        assert_int_equal(s->nfunction, 1);
        assert_int_equal(s->function[0].calls, 2);
        schedule_free(s);
        random_graph_free(&rg);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(chains_are_functions),
                                        cmocka_unit_test(blocks_that_differ_stay), cmocka_unit_test(calls_of_calls) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
