/* Is a mapped graph the graph on each sample? Formulas of one f64 tensor [3, 4], and random compositions of them, each
 * evaluated sample by sample and at once. Every row of the table must be reached. To add a case: a function and a row
 * of `cases`. */
#include "graph/vmap.h"

#include <stdlib.h>
#include <string.h>

#include "graph/custom.h"
#include "graph/gradient.h"
#include "graph/guard.h"
#include "tests/test.h"

enum { SAMPLES = 3, ROWS = 3, COLUMNS = 4, N = ROWS * COLUMNS, MOST = 512 };
#define K(v) scalar(g, DT_F64, (v))
#define INTS(...) \
    (const int64_t[]) { __VA_ARGS__ }

static U constant(Graph *g, DType t, const void *v, const int64_t *shape, uint32_t rank, size_t size)
{
    return tensor_const(g, t, shape, rank, arena_copy(graph_arena(g), v, size), size, "");
}

/* rows of the same tensor, chosen by its own numbers: 0 .. ROWS-1 */
static U choice(Graph *g, U x) { return cast(g, mod_floor(g, trunc_(g, x), K(ROWS)), DT_I64); }
static U beside(Graph *g, U x) { return add(g, x, constant(g, DT_F64, (double[]){ 1, 2, 3, 4 }, INTS(4), 1, 32)); }
static U by_row(Graph *g, U x) { return mul(g, x, slice_i(g, sum(g, x, 0, false), 0, 1, 2)); }
static U chosen(Graph *g, U x) { return where(g, lt(g, x, K(1)), neg(g, x), max_(g, x, K(2))); }
static U softmaxes(Graph *g, U x) { return softmax(g, x, 1); }
static U products(Graph *g, U x) { return matmul(g, x, matmul(g, transpose(g, x), x)); }
static U moved(Graph *g, U x)
{
    return slice_i(g, pad_i(g, flip_axis(g, transpose(g, x), 0), INTS(1, 0), INTS(0, 2), K(5)), 1, 1, 4);
}
static U turned(Graph *g, U x) { return reshape_i(g, transpose(g, x), INTS(ROWS, COLUMNS), 2); }
static U joined(Graph *g, U x) { return cat(g, (U[]){ mul(g, x, x), slice_i(g, x, 1, 0, 2), x }, 3, 1); }
static U with_constant(Graph *g, U x)
{
    return cat(g, (U[]){ x, constant(g, DT_F64, (double[]){ 7, 8, 9, 6 }, INTS(1, 4), 2, 32) }, 2, 0);
}
static U piled(Graph *g, U x) { return UOP(g, UOP_STACK, DT_VOID, NO_ARG, x, mul(g, x, x), full(g, DT_F64, 2, x)); }
static U slid(Graph *g, U x) { return windows(g, x, 1, INTS(2), INTS(1), INTS(1)); }
static U rows_again(Graph *g, U x) { return take(g, x, constant(g, DT_I64, INTS(2, 0, 2), INTS(3), 1, 24), 0); }
static U of_each(Graph *g, U x) { return take(g, x, choice(g, slice_i(g, x, 1, 0, 2)), 0); }
static U of_table(Graph *g, U x)
{
    U table = constant(g, DT_F64, (double[]){ 3, 1, 4, 1, 5, 9 }, INTS(3, 2), 2, 48);
    return take(g, table, choice(g, x), 0);
}
static U twice(Graph *g, U x)
{
    return UOP(g, UOP_INDEX, DT_VOID, NO_ARG, x, cast(g, choice(g, slice_i(g, x, 0, 0, 1)), DT_INDEX),
               cast(g, constant(g, DT_I64, INTS(3, 0), INTS(2), 1, 16), DT_INDEX));
}
static U one_row(Graph *g, U x)
{
    return UOP(g, UOP_INDEX, DT_VOID, NO_ARG, x, uop_index(g, 1), cast(g, choice(g, slice_i(g, x, 0, 0, 1)), DT_INDEX));
}
static U checked(Graph *g, U x) { return gather(g, x, choice(g, x), 1); }
static U stored(Graph *g, U x)
{
    return UOP(g, UOP_DETACH, DT_VOID, NO_ARG,
               UOP(g, UOP_CONTIGUOUSBACKWARD, DT_VOID, NO_ARG, contiguous(g, add(g, x, x))));
}
static U bits(Graph *g, U x) { return bitcast(g, bitcast(g, x, DT_I64), DT_F64); }
static U alone(Graph *g, U x) { return (void)x, add(g, iota(g, uop_index(g, 4), DT_F64), K(1)); }
static U slopes(Graph *g, U x)
{
    U d = NULL;
    gradient(g, softmax(g, mul(g, x, x), 1), exp_(g, x), &x, 1, &d);
    return d;
}
static U maps_of_rows(Graph *g, U x)
{
    U row = uop_param(g, DT_F64, (U[]){ uop_index(g, COLUMNS) }, 1, 77), y = softmax(g, mul(g, row, row), 0), out;
    return vmap(g, &y, 1, &row, &x, 1, uop_index(g, ROWS), &out) == TG_OK ? out : NULL;
}

typedef U (*Case)(Graph *g, U x);
static const Case cases[] = { beside,        by_row, chosen, softmaxes,  products, moved,       turned, joined,
                              with_constant, piled,  slid,   rows_again, of_each,  of_table,    twice,  one_row,
                              checked,       stored, bits,   alone,      slopes,   maps_of_rows };
/* those that keep the shape, for compositions */
static const Case steps[] = { beside, by_row, chosen, softmaxes, turned, rows_again, stored, slopes, maps_of_rows };
enum { CASES = sizeof cases / sizeof *cases, STEPS = sizeof steps / sizeof *steps };

typedef struct {
    Case step[8];
    uint32_t n;
} Formula;

static U apply(Graph *g, const Formula *f, U x)
{
    for (uint32_t k = 0; k < f->n; k++) x = f->step[k](g, x);
    return x;
}

static void agrees(const Formula *f, uint32_t number)
{
    double v[SAMPLES * N];
    for (int i = 0; i < SAMPLES * N; i++) v[i] = 0.1 + 0.37 * ((i * 29 + (int)number) % 13);
    Graph *g = graph_new();
    U x = uop_param(g, DT_F64, (U[]){ uop_index(g, ROWS), uop_index(g, COLUMNS) }, 2, 0), y = apply(g, f, x), all,
      given = constant(g, DT_F64, v, INTS(SAMPLES, ROWS, COLUMNS), 3, sizeof v), got[SAMPLES * MOST], want[MOST];
    assert_int_equal(graph_error(g), TG_OK);
    TgStatus status = vmap(g, &y, 1, &x, &given, 1, uop_index(g, SAMPLES), &all);
    if (status != TG_OK) print_error("case %u: %s\n", number, tg_error());
    assert_int_equal(status, TG_OK);
    assert_int_equal(uop_rank(all), uop_rank(y) + 1);
    int64_t n = uop_numel(y);
    assert_true(n <= MOST && values_of(g, all, got, SAMPLES * MOST));
    for (int s = 0; s < SAMPLES; s++) {
        U one = uop_substitute(g, y, &x, (U[]){ constant(g, DT_F64, v + s * N, INTS(ROWS, COLUMNS), 2, N * 8) }, 1);
        assert_true(values_of(g, one, want, MOST));
        for (int64_t i = 0; i < n; i++) {
            if (got[s * n + i] != want[i])
                print_error("case %u, sample %d, element %ld: %g, alone %g\n", number, s, (long)i,
                            uop_const_float(got[s * n + i]), uop_const_float(want[i]));
            assert_ptr_equal(got[s * n + i], want[i]);
        }
    }
    graph_free(g);
}

static void each_case(void **state)
{
    (void)state;
    for (uint32_t k = 0; k < CASES; k++) agrees(&(Formula){ { cases[k] }, 1 }, k);
}

/* Each op that has a row stands in some case. */
static void every_row(void **state)
{
    (void)state;
    static const Op rows[] = {
        UOP_RESHAPE, UOP_EXPAND, UOP_PERMUTE, UOP_FLIP,    UOP_PAD,        UOP_SHRINK, UOP_INDEX,
        UOP_STACK,   UOP_CAT,    UOP_REDUCE,  UOP_BITCAST, UOP_CONTIGUOUS, UOP_DETACH, UOP_CONTIGUOUSBACKWARD
    };
    bool met[UOP_COUNT] = { false };
    Graph *g = graph_new();
    Arena *arena = arena_new();
    U x = uop_param(g, DT_F64, (U[]){ uop_index(g, ROWS), uop_index(g, COLUMNS) }, 2, 0);
    for (uint32_t k = 0; k < CASES; k++) {
        uint32_t n;
        U y = cases[k](g, x);
        const UOp **u = uop_toposort(g, &y, 1, arena, &n);
        for (uint32_t i = 0; i < n; i++) met[u[i]->op] = true;
    }
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        if (!met[rows[r]]) print_error("no case has %s\n", op_name(rows[r]));
        assert_true(met[rows[r]]);
    }
    arena_free(arena);
    graph_free(g);
}

static void compositions(void **state)
{
    (void)state;
    uint64_t r = 1;
    for (uint32_t k = 0; k < 2000; k++) {
        Formula f = { .n = 2 + k % 4 };
        for (uint32_t i = 0; i < f.n; i++) {
            r = r * UINT64_C(6364136223846793005) + 1442695040888963407;
            f.step[i] = i + 1 == f.n ? cases[(r >> 33) % CASES] : steps[(r >> 33) % STEPS];
        }
        agrees(&f, 1000 + k);
    }
}

/* What has no row is refused by its name: the caller runs samples one by one. */
static void what_is_refused(void **state)
{
    (void)state;
    Graph *g = graph_new();
    U x = uop_param(g, DT_F64, (U[]){ uop_index(g, ROWS) }, 1, 0), out,
      many = uop_param(g, DT_F64, (U[]){ uop_index(g, SAMPLES), uop_index(g, ROWS) }, 2, 1),
      call = call_new(g, custom_new(g, "nonzero", NULL, 0, NULL, 0), &x, 1),
      y = call_result(g, call, 0, DT_F64, x->shape->dim, 1);
    assert_int_equal(vmap(g, &y, 1, &x, &many, 1, uop_index(g, SAMPLES), &out), TG_UNSUPPORTED);
    assert_non_null(strstr(tg_error(), "what nonzero does differs from sample to sample"));
    graph_free(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(each_case), cmocka_unit_test(every_row),
                                        cmocka_unit_test(compositions), cmocka_unit_test(what_is_refused) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
