/* Is a graph that is split over devices the graph? The seven collectives against sums and joins done by hand, all
 * types; formulas of one f64 tensor [6, 12], and random compositions of them, over 2 and 3 devices, by samples and by
 * weights. Every row of the table must be reached, and nothing but COPY and joins may join devices. To add a case: a
 * function and a row of `cases`. */
#include "graph/devices.h"

#include <math.h>
#include <string.h>

#include "graph/custom.h"
#include "tests/test.h"

enum { ROWS = 6, COLUMNS = 12, N = ROWS * COLUMNS, MOST = 4096 };
#define K(v) scalar(g, DT_F64, (v))
#define INTS(...) \
    (const int64_t[]) { __VA_ARGS__ }

static U constant(Graph *g, DType t, const void *v, const int64_t *shape, uint32_t rank, size_t size)
{
    return tensor_const(g, t, shape, rank, arena_copy(graph_arena(g), v, size), size, "");
}

/* [count] numbers of type t, all small and whole */
static U counted(Graph *g, DType t, int64_t count)
{
    double v[MOST];
    for (int64_t i = 0; i < count; i++) v[i] = (double)((i * 7 + 3) % 5);
    return cast(g, constant(g, DT_F64, v, &count, 1, sizeof *v * (size_t)count), t);
}

static double number(U u) { return dtype_is_float((DType)u->dtype) ? uop_const_float(u) : (double)uop_const_int(u); }

/* ---- nothing but COPY joins devices ---- */

enum { NOWHERE = -1, HOST = -2, MIXED = -3 };

static void check_joins(Graph *g, U root)
{
    Arena *a = arena_new();
    uint32_t n;
    const UOp **u = uop_toposort(g, &root, 1, a, &n);
    int64_t *at = NEW_N(a, int64_t, graph_count(g));
    for (uint32_t i = 0; i < n; i++) {
        int64_t lies = u[i]->op == UOP_PARAM || u[i]->op == UOP_CALL ? HOST : NOWHERE;
        for (uint32_t k = 0; k < u[i]->nsrc; k++) {
            int64_t from = at[u[i]->src[k]->id];
            if (from == NOWHERE) continue;
            lies = lies == NOWHERE || lies == from ? from : MIXED;
        }
        if (u[i]->op == UOP_COPY) assert_null(u[i]->arg.blob), lies = u[i]->arg.i;
        if (u[i]->op == UOP_CALL) lies = HOST;
        assert_int_not_equal(u[i]->op, UOP_REPLICATED);
        bool joins = u[i]->op == UOP_CAT || op_is((Op)u[i]->op, FLAG_MOVE);
        if (lies == MIXED && !joins) print_error("%s joins devices\n", op_name((Op)u[i]->op));
        assert_true(lies != MIXED || joins);
        at[u[i]->id] = lies;
    }
    arena_free(a);
}

static U split(Graph *g, U y, uint32_t n, bool weights)
{
    U out = NULL;
    TgStatus status = devices_split(g, &y, 1, &(SplitBy){ first_devices(n), weights }, &out);
    if (status != TG_OK) print_error("%s\n", tg_error());
    assert_int_equal(status, TG_OK);
    check_joins(g, out);
    return out;
}

/* ---- collectives ---- */

typedef U (*Collective)(Graph *g, U x, Devices d);
/* what element i of the result is of x [count] on n devices */
static double same(const double *x, int64_t i, int64_t count, int64_t n) { return (void)count, (void)n, x[i]; }
static double added(const double *x, int64_t i, int64_t count, int64_t n)
{
    double sum = 0;
    for (int64_t d = 0; d < n; d++) sum += x[d * (count / n) + i];
    return sum;
}
static const struct {
    const char *name;
    Collective of;
    double (*element)(const double *x, int64_t i, int64_t count, int64_t n);
    bool from_all; /* x is on all devices, axis 0 */
} collectives[] = { { "broadcast", broadcast_to, same, false }, { "scatter", scatter, same, false },
                    { "gather", gather_from, same, true },      { "reduce", reduce_from, added, true },
                    { "allgather", allgather, same, true },     { "reduce_scatter", reduce_scatter, added, true },
                    { "allreduce", allreduce, added, true } };
enum { COLLECTIVES = sizeof collectives / sizeof *collectives };

static void one_collective(size_t which, DType t, uint32_t n)
{
    Graph *g = graph_new();
    Devices d = first_devices(n);
    int64_t count = n * n * 3;
    U value = counted(g, t, count), x = uop_param(g, t, value->shape->dim, 1, 0), got[MOST], given[MOST];
    U from = collectives[which].from_all ? copy_to_all(g, x, d) : x;
    U y = split(g, collectives[which].of(g, from, d), n, false);
    double v[MOST];
    assert_true(values_of(g, value, given, MOST));
    for (int64_t i = 0; i < count; i++) v[i] = number(given[i]);
    assert_true(values_of(g, uop_substitute(g, y, &x, &value, 1), got, MOST));
    for (int64_t i = 0; i < uop_numel(y); i++) {
        double want = collectives[which].element(v, i, count, n);
        if (number(got[i]) != want)
            print_error("%s of %s over %u, element %ld: %g, not %g\n", collectives[which].name, dtype_name(t), n,
                        (long)i, number(got[i]), want);
        assert_true(number(got[i]) == want);
    }
    graph_free(g);
}

static void all_collectives(void **state)
{
    (void)state;
    static const DType types[] = { DT_F64, DT_F32, DT_F16, DT_BF16, DT_I64, DT_I32,
                                   DT_I16, DT_I8,  DT_U64, DT_U32,  DT_U16, DT_U8 };
    static const uint32_t n[] = { 1, 2, 3, 4, 8 };
    for (size_t k = 0; k < COLLECTIVES; k++)
        for (size_t t = 0; t < sizeof types / sizeof *types; t++)
            for (size_t i = 0; i < sizeof n / sizeof *n; i++) one_collective(k, types[t], n[i]);
}

static void uneven(void **state)
{
    (void)state;
    for (size_t k = 0; k < COLLECTIVES; k++) {
        Graph *g = graph_new();
        Devices d = first_devices(3);
        U x = uop_param(g, DT_F32, (U[]){ uop_index(g, collectives[k].from_all ? 4 : 7) }, 1, 0);
        bool pieces = collectives[k].of == reduce_scatter || collectives[k].of == allreduce;
        if (collectives[k].from_all && pieces) x = uop_param(g, DT_F32, (U[]){ uop_index(g, 6) }, 1, 0);
        U from = collectives[k].from_all ? copy_to_all(g, x, d) : x, y = collectives[k].of(g, from, d);
        /* whole values have no size that must be a multiple */
        if (collectives[k].of == broadcast_to) assert_false(is_error(y));
        else {
            assert_true(is_error(y));
            assert_non_null(strstr(tg_error(), "cannot be divided among 3 devices"));
        }
        graph_free(g);
    }
}

/* ---- formulas ---- */

static U weight(Graph *g)
{
    double v[COLUMNS * COLUMNS];
    for (int i = 0; i < COLUMNS * COLUMNS; i++) v[i] = 0.05 * ((i * 11) % 17 - 8);
    return constant(g, DT_F64, v, INTS(COLUMNS, COLUMNS), 2, sizeof v);
}

static U row(Graph *g)
{
    double v[COLUMNS];
    for (int i = 0; i < COLUMNS; i++) v[i] = 1 + i;
    return constant(g, DT_F64, v, INTS(COLUMNS), 1, sizeof v);
}

static U choice(Graph *g, U x, double rows)
{
    return cast(g, mod_floor(g, trunc_(g, mul(g, x, K(7))), K(rows)), DT_I64);
}
static U beside(Graph *g, U x) { return add(g, x, row(g)); }
static U by_row(Graph *g, U x) { return mul(g, x, slice_i(g, sum(g, x, 0, false), 0, 1, 2)); }
static U by_column(Graph *g, U x) { return mul(g, x, sum(g, x, 1, true)); }
static U chosen(Graph *g, U x) { return where(g, lt(g, x, K(1)), neg(g, x), max_(g, x, K(2))); }
static U softmaxes(Graph *g, U x) { return softmax(g, x, 1); }
static U columns(Graph *g, U x) { return softmax(g, x, 0); }
static U product(Graph *g, U x) { return matmul(g, x, weight(g)); }
static U products(Graph *g, U x) { return matmul(g, x, matmul(g, transpose(g, x), x)); }
static U mlp(Graph *g, U x) { return add(g, x, matmul(g, max_(g, matmul(g, x, weight(g)), K(0)), weight(g))); }
static U turned(Graph *g, U x) { return reshape_i(g, transpose(g, x), INTS(ROWS, COLUMNS), 2); }
static U again(Graph *g, U x)
{
    return reshape_i(g, mul(g, reshape_i(g, x, INTS(2, 3, 4, 3), 4), K(2)), INTS(ROWS, COLUMNS), 2);
}
static U heads(Graph *g, U x)
{
    U q = permute(g, reshape_i(g, matmul(g, x, weight(g)), INTS(ROWS, 6, 2), 3), INTS(1, 0, 2), 3),
      p = softmax(g, matmul(g, q, transpose(g, q)), 2);
    return reshape_i(g, permute(g, matmul(g, p, q), INTS(1, 0, 2), 3), INTS(ROWS, COLUMNS), 2);
}
static U moved(Graph *g, U x)
{
    return slice_i(g, pad_i(g, flip_axis(g, transpose(g, x), 0), INTS(1, 0), INTS(0, 2), K(5)), 1, 1, 4);
}
static U flipped(Graph *g, U x) { return flip_axis(g, flip_axis(g, x, 0), 1); }
static U rolled(Graph *g, U x) { return cat(g, (U[]){ slice_i(g, x, 0, 2, 6), slice_i(g, x, 0, 0, 2) }, 2, 0); }
static U joined(Graph *g, U x) { return cat(g, (U[]){ mul(g, x, x), slice_i(g, x, 1, 0, 2), x }, 3, 1); }
static U piled(Graph *g, U x) { return UOP(g, UOP_STACK, DT_VOID, NO_ARG, x, mul(g, x, x), full(g, DT_F64, 2, x)); }
static U slid(Graph *g, U x) { return windows(g, x, 1, INTS(2), INTS(1), INTS(1)); }
static U slid_down(Graph *g, U x) { return windows(g, x, 2, INTS(2, 2), INTS(1, 2), INTS(1, 1)); }
static U rows_again(Graph *g, U x)
{
    return take(g, x, constant(g, DT_I64, INTS(2, 0, 2, 5, 1, 4), INTS(6), 1, 48), 0);
}
static U of_each(Graph *g, U x) { return take(g, x, choice(g, slice_i(g, x, 1, 0, 2), ROWS), 0); }
static U of_table(Graph *g, U x)
{
    U table = constant(g, DT_F64, (double[]){ 3, 1, 4, 1, 5, 9 }, INTS(3, 2), 2, 48);
    return take(g, table, choice(g, x, 3), 0);
}
static U same_rows(Graph *g, U x)
{
    return UOP(g, UOP_INDEX, DT_VOID, NO_ARG, x, iota(g, uop_index(g, ROWS), DT_INDEX),
               cast(g, constant(g, DT_I64, INTS(3, 0), INTS(2), 1, 16), DT_INDEX));
}
static U checked(Graph *g, U x) { return gather(g, x, choice(g, x, COLUMNS), 1); }
static U stored(Graph *g, U x)
{
    return UOP(g, UOP_DETACH, DT_VOID, NO_ARG,
               UOP(g, UOP_CONTIGUOUSBACKWARD, DT_VOID, NO_ARG, contiguous(g, add(g, x, x))));
}
static U bits(Graph *g, U x) { return bitcast(g, bitcast(g, x, DT_I64), DT_F64); }
static U alone(Graph *g, U x) { return (void)x, add(g, iota(g, uop_index(g, 4), DT_F64), K(1)); }
static U everything(Graph *g, U x) { return add(g, x, reduce(g, UOP_MAX, x, INTS(0, 1), 2, true)); }
static U convolved(Graph *g, U x)
{
    double v[4 * 2 * 3];
    for (int i = 0; i < 24; i++) v[i] = 0.1 * (i % 7 - 3);
    U w = constant(g, DT_F64, v, INTS(4, 2, 3), 3, sizeof v);
    return conv(g, reshape_i(g, x, INTS(ROWS, 2, 6), 3), w, INTS(1), INTS(1), INTS(1), INTS(1), 1);
}

typedef U (*Case)(Graph *g, U x);
static const Case cases[] = { beside, by_row, by_column, chosen,     softmaxes, columns,  product,   products,
                              mlp,    turned, again,     heads,      moved,     flipped,  rolled,    joined,
                              piled,  slid,   slid_down, rows_again, of_each,   of_table, same_rows, checked,
                              stored, bits,   alone,     everything, convolved };
/* those that keep the shape, for compositions */
static const Case steps[] = { beside, by_column, chosen,  softmaxes, columns,    product, mlp,       turned,
                              again,  heads,     flipped, rolled,    rows_again, stored,  everything };
enum { CASES = sizeof cases / sizeof *cases, STEPS = sizeof steps / sizeof *steps };

typedef struct {
    Case step[8];
    uint32_t n;
} Formula;
typedef enum { BY_ROWS, BY_WEIGHTS, ON_HOST, PLACES } Place;

static U apply(Graph *g, const Formula *f, U x)
{
    for (uint32_t k = 0; k < f->n; k++) x = f->step[k](g, x);
    return x;
}

static void agrees(const Formula *f, uint32_t number_of, uint32_t n, Place place)
{
    double v[N];
    for (int i = 0; i < N; i++) v[i] = 0.1 + 0.37 * ((i * 29 + (int)number_of) % 13);
    Graph *g = graph_new();
    Devices d = first_devices(n);
    U x = uop_param(g, DT_F64, (U[]){ uop_index(g, ROWS), uop_index(g, COLUMNS) }, 2, 0),
      given = constant(g, DT_F64, v, INTS(ROWS, COLUMNS), 2, sizeof v), got[MOST], want[MOST],
      on = place == BY_ROWS   ? copy_to_all(g, x, d)
        : place == BY_WEIGHTS ? broadcast_to(g, x, d)
                              : x;
    U y = apply(g, f, x), z = split(g, apply(g, f, on), n, place == BY_WEIGHTS);
    assert_int_equal(graph_error(g), TG_OK);
    assert_ptr_equal(y->shape, z->shape);
    assert_true(uop_numel(y) <= MOST && values_of(g, uop_substitute(g, y, &x, &given, 1), want, MOST) &&
                values_of(g, uop_substitute(g, z, &x, &given, 1), got, MOST));
    for (int64_t i = 0; i < uop_numel(y); i++) {
        double a = number(got[i]), b = number(want[i]);
        if (!(fabs(a - b) <= 1e-9 * (1 + fabs(b))))
            print_error("case %u over %u, place %d, element %ld: %g, not %g\n", number_of, n, (int)place, (long)i, a,
                        b);
        assert_true(fabs(a - b) <= 1e-9 * (1 + fabs(b)));
    }
    graph_free(g);
}

static void each_case(void **state)
{
    (void)state;
    for (uint32_t k = 0; k < CASES; k++)
        for (uint32_t n = 1; n <= 6; n++)
            for (Place place = 0; place < PLACES; place++)
                if (ROWS % n == 0 || place != BY_ROWS) agrees(&(Formula){ { cases[k] }, 1 }, k, n, place);
}

static void compositions(void **state)
{
    (void)state;
    uint64_t r = 1;
    for (uint32_t k = 0; k < 2000; k++) {
        Formula f = { .n = 2 + k % 3 };
        for (uint32_t i = 0; i < f.n; i++) {
            r = r * UINT64_C(6364136223846793005) + 1442695040888963407;
            f.step[i] = i + 1 == f.n ? cases[(r >> 33) % CASES] : steps[(r >> 33) % STEPS];
        }
        agrees(&f, 1000 + k, 2 + k % 2, k / 2 % 2 ? BY_ROWS : BY_WEIGHTS);
    }
}

/* Each op that has a row stands in some case. */
static void every_row(void **state)
{
    (void)state;
    static const Op rows[] = {
        UOP_RESHAPE, UOP_EXPAND, UOP_PERMUTE, UOP_FLIP,    UOP_PAD,    UOP_SHRINK,     UOP_INDEX,
        UOP_STACK,   UOP_CAT,    UOP_REDUCE,  UOP_BITCAST, UOP_DETACH, UOP_CONTIGUOUS, UOP_CONTIGUOUSBACKWARD
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

/* ---- how much travels ---- */

/* Elements that are read on another device than the one that computed them. */
static int64_t travelling(Graph *g, U root)
{
    Arena *a = arena_new();
    uint32_t n;
    int64_t sum = 0;
    const UOp **u = uop_toposort(g, &root, 1, a, &n);
    for (uint32_t i = 0; i < n; i++)
        if (u[i]->op == UOP_COPY && u[i]->src[0]->op != UOP_PARAM) sum += uop_numel(u[i]->src[0]);
    arena_free(a);
    return sum;
}

/* Rows are independent of one another: nothing travels. Two products one upon the other, divided by weights: the sum of
 * the second alone does, in pieces, and what has been added up. */
static void what_travels(void **state)
{
    (void)state;
    Graph *g = graph_new();
    Devices d = first_devices(2);
    U x = uop_param(g, DT_F64, (U[]){ uop_index(g, ROWS), uop_index(g, COLUMNS) }, 2, 0);
    assert_int_equal(travelling(g, split(g, mlp(g, copy_to_all(g, x, d)), 2, false)), 0);
    assert_int_equal(travelling(g, split(g, softmaxes(g, mlp(g, broadcast_to(g, x, d))), 2, true)), 2 * N);
    graph_free(g);
}

/* What has no row is done on the first device. */
static void what_is_opaque(void **state)
{
    (void)state;
    Graph *g = graph_new();
    Devices d = first_devices(2);
    U x = uop_param(g, DT_F64, (U[]){ uop_index(g, ROWS) }, 1, 0), on = mul(g, copy_to_all(g, x, d), K(2)),
      call = call_new(g, custom_new(g, "nonzero", NULL, 0, NULL, 0), &on, 1),
      y = call_result(g, call, 0, DT_F64, x->shape->dim, 1), z = split(g, add(g, y, on), 2, false);
    assert_int_equal(z->op, UOP_CAT);
    graph_free(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(all_collectives), cmocka_unit_test(uneven),
                                        cmocka_unit_test(each_case),       cmocka_unit_test(compositions),
                                        cmocka_unit_test(every_row),       cmocka_unit_test(what_travels),
                                        cmocka_unit_test(what_is_opaque) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
