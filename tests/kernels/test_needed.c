/* Needed: of random graphs, of which slices are read, no value changes; and what a classifier reads of its last layer
 * is computed for one token, whichever views and sums are between. NEEDED_COUNT graphs (default 1500) from NEEDED_SEED
 * (default 1).
 */
#include "tests/test.h"

#include <stdlib.h>
#include <string.h>

#include "backends/reference/reference.h"
#include "graph/print.h"
#include "random_graph.h"
#include "sched/sched.h"

enum { OUTPUTS = 3 };

static long setting(const char *name, long normal) { return getenv(name) ? atol(getenv(name)) : normal; }

/* ---- what is computed ---- */

static double work(Graph *g, const UOp *root)
{
    Arena *a = arena_new();
    uint32_t n;
    double elements = 0;
    const UOp **order = uop_toposort(g, &root, 1, a, &n);
    for (uint32_t i = 0; i < n; i++)
        if (op_is((Op)order[i]->op, FLAG_ALU)) elements += (double)uop_numel(order[i]);
        else if (order[i]->op == UOP_REDUCE) elements += (double)uop_numel(order[i]->src[0]);
    arena_free(a);
    return elements;
}

/* ---- random graphs ---- */

/* A part of x, somewhere: of each axis a few elements, the last one where the size is a variable. */
static U part_of(RandomGraph *rg, U x)
{
    for (uint32_t k = 0; k < uop_rank(x); k++) {
        U size = uop_dim(x, k);
        if (random_below(&rg->r, 2)) continue;
        if (!uop_is_const(size)) {
            x = slice(rg->g, x, k, dim_sub(rg->g, size, uop_index(rg->g, 1)), uop_index(rg->g, 1));
            continue;
        }
        int64_t n = 1 + random_below(&rg->r, (uint32_t)(size->arg.i + 2) / 3),
                begin = random_below(&rg->r, (uint32_t)(size->arg.i - n + 1));
        if (size->arg.i) x = slice_i(rg->g, x, k, begin, begin + n);
    }
    return x;
}

static U sliced(RandomGraph *rg)
{
    U out[OUTPUTS];
    for (uint32_t k = 0; k < OUTPUTS; k++) {
        U a = part_of(rg, rg->value[random_below(&rg->r, rg->count)]);
        out[k] = random_below(&rg->r, 3) ? a : part_of(rg, add(rg->g, a, a));
    }
    return uop_new(rg->g, UOP_SINK, DT_VOID, NO_ARG, out, OUTPUTS);
}

static bool equal(const RefTensor *a, const RefTensor *b)
{
    return a->rank == b->rank && !memcmp(a->shape, b->shape, a->rank * sizeof *a->shape) &&
        !memcmp(a->data, b->data, (size_t)(a->numel * dtype_size(a->dtype)));
}

static bool seed_agrees(uint64_t seed, unsigned *fewer)
{
    RandomGraph rg;
    RefTensor want[OUTPUTS] = { 0 }, got[OUTPUTS] = { 0 };
    random_graph_new(&rg, seed);
    U sink = sliced(&rg);
    assert_int_equal(graph_error(rg.g), TG_OK);
    U part = compute_needed(rg.g, sink);
    RefInput in = { .param = (const void *const *)rg.data,
                    .nparam = RANDOM_INPUTS,
                    .nvar = rg.var != NULL,
                    .var = &(RefVar){ rg.var, rg.var_value } };
    assert_int_equal(graph_error(rg.g), TG_OK);
    assert_int_equal(ref_eval(want, rg.g, sink->src, OUTPUTS, &in), TG_OK);
    bool ok = ref_eval(got, rg.g, part->src, OUTPUTS, &in) == TG_OK;
    for (uint32_t k = 0; k < OUTPUTS && ok; k++) ok = equal(&want[k], &got[k]);
    double all = work(rg.g, sink), now = work(rg.g, part);
    *fewer += now < all / 2;
    if (!ok || now > all) {
        Text t = { 0 };
        graph_print(&t, rg.g, sink);
        text_add(&t, "\nneeded:\n");
        graph_print(&t, rg.g, part);
        print_error("seed %lu, work %g, now %g:\n%s\n", (unsigned long)seed, all, now, t.s);
        text_free(&t);
    }
    for (uint32_t k = 0; k < OUTPUTS; k++) ref_tensor_free(&want[k]), ref_tensor_free(&got[k]);
    random_graph_free(&rg);
    return ok && now <= all;
}

static void no_value_changes(void **state)
{
    (void)state;
    long count = setting("NEEDED_COUNT", 1500), first = setting("NEEDED_SEED", 1), bad = 0;
    unsigned fewer = 0;
    for (long i = 0; i < count; i++) bad += !seed_agrees((uint64_t)(first + i), &fewer);
    print_message("%ld graphs, %u of them with less than half the work, %ld failures\n", count, fewer, bad);
    assert_int_equal(bad, 0);
    assert_true(fewer > count / 20);
}

/* ---- the last layer of a classifier ---- */

enum { TOKENS = 24, HEADS = 3, WIDE = 12, DEEP = 20 };

static U weight(Graph *g, int64_t rows, int64_t columns)
{
    static float zero[DEEP * DEEP];
    return tensor_const(g, DT_F32, (int64_t[]){ rows, columns }, 2, zero, (size_t)(rows * columns) * sizeof *zero, "");
}

static U normalised(Graph *g, U x)
{
    U centred = sub(g, x, mul(g, sum(g, x, -1, true), scalar(g, DT_F32, 1.0 / WIDE)));
    return mul(g, centred, recip(g, sqrt_(g, sum(g, mul(g, centred, centred), -1, true))));
}

static U heads(Graph *g, U x, U tokens)
{
    U size[] = { uop_index(g, 1), tokens, uop_index(g, HEADS), uop_index(g, WIDE / HEADS) };
    return permute(g, reshape(g, x, size, 4), (int64_t[]){ 0, 2, 1, 3 }, 4);
}

/* [1, tokens, WIDE]: attention, its residual, a layer with its residual, normalised. */
static U layer(Graph *g, U x, U tokens)
{
    U size[] = { uop_index(g, 1), tokens, uop_index(g, WIDE) }, y = normalised(g, x);
    U q = heads(g, matmul(g, y, weight(g, WIDE, WIDE)), tokens),
      k = heads(g, matmul(g, y, weight(g, WIDE, WIDE)), tokens),
      v = heads(g, matmul(g, y, weight(g, WIDE, WIDE)), tokens), scores = matmul(g, q, transpose(g, k)),
      e = exp_(g, sub(g, scores, max_reduce(g, scores, -1, true))), p = div_(g, e, sum(g, e, -1, true));
    U mixed = reshape(g, permute(g, matmul(g, p, v), (int64_t[]){ 0, 2, 1, 3 }, 4), size, 3);
    x = add(g, x, matmul(g, mixed, weight(g, WIDE, WIDE)));
    U deep = relu(g, matmul(g, normalised(g, x), weight(g, WIDE, DEEP)));
    return normalised(g, add(g, x, matmul(g, deep, weight(g, DEEP, WIDE))));
}

static void check_token(bool variable, bool last)
{
    Graph *g = graph_new();
    U tokens = variable ? uop_var(g, "tokens", 1, TOKENS) : uop_index(g, TOKENS), one = uop_index(g, 1);
    U x = uop_param(g, DT_F32, (U[]){ one, tokens, uop_index(g, WIDE) }, 3, 0);
    U y = layer(g, layer(g, x, tokens), tokens), at = last ? dim_sub(g, tokens, one) : uop_index(g, 0);
    U sink = UOP(g, UOP_SINK, DT_VOID, NO_ARG, matmul(g, slice(g, y, 1, at, one), weight(g, WIDE, DEEP - 1)));
    U part = compute_needed(g, sink);
    assert_int_equal(graph_error(g), TG_OK);
    double saved = work(g, sink) - work(g, part);
    print_message("%s tokens, the %s: %.0f of %.0f saved\n", variable ? "1.." : "24", last ? "last" : "first", saved,
                  work(g, sink));
    /* the second layer's two sums of WIDE * DEEP products, all but one token's; and those of the attention's output */
    assert_true(saved >= (TOKENS - 1) * (2.0 * 2 * WIDE * DEEP + 2 * WIDE * WIDE));
    graph_free(g);
}

static void one_token_of_the_last_layer(void **state)
{
    (void)state;
    for (int k = 0; k < 4; k++) check_token(k & 1, k & 2);
}

/* A value that somebody reads as a whole is computed once; most of a value is no part. */
static void others_stay(void **state)
{
    (void)state;
    Graph *g = graph_new();
    U x = uop_param(g, DT_F32, (U[]){ uop_index(g, 8), uop_index(g, 6) }, 2, 0), y = exp_(g, x);
    U both = UOP(g, UOP_SINK, DT_VOID, NO_ARG, slice_i(g, y, 0, 0, 1), y),
      most = UOP(g, UOP_SINK, DT_VOID, NO_ARG, slice_i(g, y, 0, 0, 7)),
      ends = UOP(g, UOP_SINK, DT_VOID, NO_ARG, slice_i(g, y, 0, 0, 1), slice_i(g, y, 0, 7, 8)),
      memory = UOP(g, UOP_SINK, DT_VOID, NO_ARG, exp_(g, slice_i(g, x, 0, 0, 1)));
    assert_ptr_equal(compute_needed(g, both), both);
    assert_ptr_equal(compute_needed(g, most), most);
    assert_ptr_equal(compute_needed(g, ends), ends);
    assert_ptr_equal(compute_needed(g, memory), memory);
    U half = UOP(g, UOP_SINK, DT_VOID, NO_ARG, slice_i(g, y, 0, 1, 5));
    assert_true(compute_needed(g, half) != half);
    graph_free(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_value_changes),
        cmocka_unit_test(one_token_of_the_last_layer),
        cmocka_unit_test(others_stay),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
