/* Are gradients true? Formulas of one f64 tensor, each for the rules that it is named after: the gradient of a weighed
 * sum of the result is compared with central differences. Every row of the table must apply somewhere. To add a case: a
 * function and a row of `cases`.
 */
#include "graph/gradient.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "graph/custom.h"
#include "graph/guard.h"
#include "graph/rules/rules.h"
#include "tests/test.h"

enum { ROWS = 3, COLUMNS = 4, N = ROWS * COLUMNS, NODES = 4096 };
#define K(v) scalar(g, DT_F64, (v))
#define MUST(what, ...) do { bool right = what; if (!right) print_error(__VA_ARGS__); assert_true(right); } while (0)
#define INTS(...) (const int64_t[]){ __VA_ARGS__ }

static const double start[N] = { 0.3, 1.7, 0.9, 2.2, 1.1, 0.6, 2.8, 1.4, 0.2, 3.1, 1.9, 0.75 };

static U constant(Graph *g, DType t, const void *v, int64_t n, size_t size)
{
    int64_t shape = n;
    return tensor_const(g, t, &shape, 1, arena_copy(graph_arena(g), v, size), size, "");
}

static U sums(Graph *g, U x) { return add(g, mul(g, x, slice_i(g, x, 0, 1, 2)), sub(g, slice_i(g, x, 1, 2, 3), x)); }
static U quotients(Graph *g, U x) { return div_(g, add(g, x, K(2)), sqrt_(g, x)); }
static U reciprocals(Graph *g, U x) { return recip(g, add(g, x, K(1))); }
static U exponentials(Graph *g, U x) { return mul(g, exp_(g, neg(g, x)), log_(g, x)); }
static U waves(Graph *g, U x) { return mul(g, sin_(g, x), cos_(g, x)); }
static U sizes(Graph *g, U x) { return mul(g, abs_(g, sub(g, x, K(1))), x); }
static U powers(Graph *g, U x) { return add(g, pow_(g, x, K(3)), pow_(g, K(1.5), x)); }
static U powers_of_both(Graph *g, U x) { return pow_(g, x, flip_axis(g, x, 1)); }
static U choices(Graph *g, U x) { return where(g, lt(g, x, K(1)), mul(g, x, x), max_(g, x, K(1.8))); }
static U remainders(Graph *g, U x) { return add(g, mod_floor(g, x, K(0.71)), mul(g, trunc_(g, x), x)); }
static U casts(Graph *g, U x) { return cast(g, cast(g, mul(g, x, K(0.5)), DT_F32), DT_F64); }
static U through_integers(Graph *g, U x) { return mul(g, cast(g, cast(g, x, DT_I32), DT_F64), x); }
static U totals(Graph *g, U x) { return mul(g, sum(g, mul(g, x, x), 0, true), x); }
static U maxima(Graph *g, U x) { return mul(g, max_reduce(g, x, 1, true), x); }
static U products(Graph *g, U x)
{
    return reduce(g, UOP_MUL, sub(g, x, where(g, lt(g, x, K(0.25)), K(0.2), K(0))), INTS(1), 1, false);
}
static U softmaxes(Graph *g, U x) { return softmax(g, x, 1); }
static U products_of_matrices(Graph *g, U x) { return matmul(g, x, transpose(g, x)); }
static U moves(Graph *g, U x)
{
    return reshape_i(g, pad_i(g, flip_axis(g, transpose(g, x), 0), INTS(1, 0), INTS(0, -1), K(0)), INTS(2, 5), 2);
}
static U joined(Graph *g, U x) { return cat(g, (U[]){ mul(g, x, x), slice_i(g, x, 1, 0, 2), x }, 3, 1); }
static U piled(Graph *g, U x) { return UOP(g, UOP_STACK, DT_VOID, NO_ARG, x, mul(g, x, x)); }
static U slid(Graph *g, U x) { return mul(g, windows(g, x, 1, INTS(2), INTS(1), INTS(1)), K(3)); }
static U chosen(Graph *g, U x) { return gather(g, mul(g, x, x), constant(g, DT_I64, INTS(2, 0, 2), 3, 24), 1); }
static U chosen_twice(Graph *g, U x)
{
    return UOP(g, UOP_INDEX, DT_VOID, NO_ARG, mul(g, x, x), constant(g, DT_I64, INTS(1, 1, 0), 3, 24),
               constant(g, DT_I64, INTS(3, 0), 2, 16));
}
static U stored(Graph *g, U x)
{
    return UOP(g, UOP_CONTIGUOUS, DT_VOID, NO_ARG, UOP(g, UOP_CONTIGUOUSBACKWARD, DT_VOID, NO_ARG, mul(g, x, x)));
}
static U held(Graph *g, U x)
{
    return mul(g, UOP(g, UOP_DETACH, DT_VOID, NO_ARG, constant(g, DT_F64, start, N, sizeof start)),
               reshape_i(g, x, INTS(N), 1));
}
static U gradients_too(Graph *g, U x)
{
    U d = NULL;
    gradient(g, softmax(g, mul(g, x, x), 1), exp_(g, x), &x, 1, &d);
    return d;
}

static U (*const cases[])(Graph *g, U x) = { sums,
                                             quotients,
                                             reciprocals,
                                             exponentials,
                                             waves,
                                             sizes,
                                             powers,
                                             powers_of_both,
                                             choices,
                                             remainders,
                                             casts,
                                             through_integers,
                                             totals,
                                             maxima,
                                             products,
                                             softmaxes,
                                             products_of_matrices,
                                             moves,
                                             joined,
                                             piled,
                                             slid,
                                             chosen,
                                             chosen_twice,
                                             stored,
                                             held,
                                             gradients_too };
enum { CASES = sizeof cases / sizeof *cases };

/* The result of case k, weighed, as one number. */
static U weighed(Graph *g, uint32_t k, U x, U *weight)
{
    U y = cases[k](g, x);
    assert_int_equal(graph_error(g), TG_OK);
    U n = dim_product(g, y->shape->dim, uop_rank(y));
    *weight = reshape(g, cos_(g, cast(g, iota(g, n, DT_I64), DT_F64)), y->shape->dim, uop_rank(y));
    return y;
}

static double value_at(uint32_t k, const double *x)
{
    Graph *g = graph_new();
    U weight, v[1], y = weighed(g, k, reshape_i(g, constant(g, DT_F64, x, N, N * 8), INTS(ROWS, COLUMNS), 2), &weight),
                    all = mul(g, y, weight);
    while (uop_rank(all)) all = sum(g, all, 0, false);
    assert_true(values_of(g, all, v, 1));
    double out = uop_const_float(v[0]);
    graph_free(g);
    return out;
}

static void agrees(uint32_t k)
{
    Graph *g = graph_new();
    U x = uop_param(g, DT_F64, (U[]){ uop_index(g, ROWS), uop_index(g, COLUMNS) }, 2, 0), weight, d, v[N],
      y = weighed(g, k, x, &weight);
    MUST(gradient(g, y, weight, &x, 1, &d) == TG_OK, "case %u: %s\n", k, tg_error());
    assert_ptr_equal(d->shape, x->shape);
    d = uop_substitute(g, d, &x,
                       (U[]){ reshape_i(g, constant(g, DT_F64, start, N, sizeof start), INTS(ROWS, COLUMNS), 2) }, 1);
    assert_true(values_of(g, d, v, N));
    for (uint32_t i = 0; i < N; i++) {
        double up[N], down[N], h = 1e-5 * (cases[k] == casts ? 100 : 1);        /* that rounds to f32 */
        memcpy(up, start, sizeof start), memcpy(down, start, sizeof start);
        up[i] += h, down[i] -= h;
        double want = (value_at(k, up) - value_at(k, down)) / (2 * h), got = uop_const_float(v[i]);
        MUST(fabs(want - got) <= 1e-4 * (1 + fabs(want)), "case %u, element %u: %g, differences say %g\n", k, i, got,
             want);
    }
    graph_free(g);
}

static void finite_differences(void **state)
{
    (void)state;
    for (uint32_t k = 0; k < CASES; k++) agrees(k);
}

/* Does row r apply to a node of some case? */
static bool applies(uint32_t r)
{
    const RuleTable table = { "one row", &table_gradient.rule[r], 1 }, *all[] = { &table };
    const RuleSet *set = ruleset_new(all, 1);
    bool found = false;
    Graph *g = graph_new();
    Arena *arena = arena_new();
    U x = uop_param(g, DT_F64, (U[]){ uop_index(g, ROWS), uop_index(g, COLUMNS) }, 2, 0), weight;
    for (uint32_t k = 0; k < CASES && !found; k++) {
        uint32_t n;
        U y = weighed(g, k, x, &weight), guarded = guard_index(g, cast(g, x, DT_I64), uop_index(g, 2), false),
          root[] = { y, guarded, UOP(g, UOP_BITCAST, DT_I64, NO_ARG, x) };
        const UOp **u = uop_toposort(g, root, 3, arena, &n);
        for (uint32_t i = 0; i < n && !found; i++)
            found = u[i]->dtype != DT_VOID &&
                ruleset_apply(set, g, UOP(g, UOP_TUPLE, DT_VOID, NO_ARG, u[i], full(g, DT_F64, 1, u[i])), NULL);
    }
    arena_free(arena);
    graph_free(g);
    ruleset_free(set);
    return found;
}

static void every_row(void **state)
{
    (void)state;
    for (uint32_t r = 0; r < table_gradient.count; r++)
        MUST(applies(r), "no case reaches %s\n", table_gradient.rule[r].name);
}

static void what_has_none(void **state)
{
    (void)state;
    Graph *g = graph_new();
    U x = uop_param(g, DT_F64, (U[]){ uop_index(g, ROWS) }, 1, 0),
      z = uop_param(g, DT_F64, (U[]){ uop_index(g, ROWS) }, 1, 1), d[2], v[ROWS];
    assert_int_equal(gradient(g, mul(g, x, x), K(1), (U[]){ x, z }, 2, d), TG_OK);
    assert_true(values_of(g, d[1], v, ROWS));
    for (uint32_t k = 0; k < ROWS; k++) assert_true(uop_const_float(v[k]) == 0);
    U call = call_new(g, custom_new(g, "nonzero", NULL, 0, NULL, 0), &x, 1),
      n = call_result(g, call, 0, DT_F64, x->shape->dim, 1);
    assert_int_equal(gradient(g, n, K(1), &x, 1, d), TG_UNSUPPORTED);
    assert_non_null(strstr(tg_error(), "no gradient is known of GETTUPLE"));
    graph_free(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(finite_differences), cmocka_unit_test(every_row),
                                        cmocka_unit_test(what_has_none) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
