/* Host functions by hand: odd sizes, ties, duplicates, nothing found, results that nobody reads, indices that are out
 * of range. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "frontend/host/host.h"
#include "graph/custom.h"
#include "graph/scalar.h"
#include "sched/plan.h"
#include "tests/test.h"

typedef struct { DType t; uint32_t rank; int64_t shape[3]; void *data; } Value;
enum { VALUES = 8, MOST = 64 };

static Graph *g;
static int64_t found, parts;             /* parts: 0, or in how many a call is done */

static TgStatus call(const char *name, const void *attr, size_t attr_size, const Value *in, uint32_t nin,
                     const Value *out, uint32_t nout)
{
    HostTensor tensor[VALUES];
    void *args[VALUES];
    uint32_t result[VALUES], kept = 0, var = 0;
    const UOp *arg[VALUES];
    for (uint32_t k = 0; k < nin + nout; k++) {
        const Value *v = k < nin ? &in[k] : &out[k - nin];
        const UOp *dim[3];
        for (uint32_t a = 0; a < v->rank; a++) dim[a] = uop_index(g, v->shape[a]);
        if (k < nin) arg[k] = uop_param(g, v->t, dim, v->rank, k);
        if (!v->data) continue;
        uint32_t at = k < nin ? k : nin + kept;
        tensor[at] = (HostTensor){ v->t, graph_shape(g, dim, v->rank) };
        args[at] = v->data;
        if (k >= nin) result[kept++] = k - nin;
    }
    const UOp *c = call_new(g, custom_new(g, name, attr, attr_size, NULL, 0), arg, nin);
    found = -1;
    HostCall made = { c, NULL, tensor, nin, kept, result, &var };
    if (!parts) return host_find(name)->fn(&made, args, &found);
    TgStatus status = TG_OK;
    for (int64_t k = 0; k < parts; k++) status = host_find(name)->part(&made, args, &found, k, parts);
    return status;
}

static void test_nonzero(void **state)
{
    (void)state;
    float x[2][5] = { { 0, 1, -0.f, NAN, 0 }, { 2, 0, 0, 0, -3 } };
    uint8_t bits[19] = { [3] = 1, [8] = 1, [16] = 1, [18] = 1 };
    int64_t at[MOST];
    assert_int_equal(call("nonzero", NULL, 0, (Value[]){ { DT_F32, 2, { 2, 5 }, x } }, 1,
                          (Value[]){ { DT_I64, 2, { 2, 10 }, at } }, 1),
                     TG_OK);
    assert_int_equal(found, 4);
    assert_memory_equal(at, ((int64_t[]){ 0, 0, 1, 1, 1, 3, 0, 4 }), 64);
    assert_int_equal(call("nonzero", NULL, 0, (Value[]){ { DT_BOOL, 1, { 19 }, bits } }, 1,
                          (Value[]){ { DT_I64, 2, { 1, 19 }, at } }, 1),
                     TG_OK);
    assert_int_equal(found, 4);
    assert_memory_equal(at, ((int64_t[]){ 3, 8, 16, 18 }), 32);
    uint16_t half[3][2][2] = { { { 0x8000, 1 }, { 0, 0 } },
                               { { 0, 0 }, { 0, 0x8000 } },
                               { { 0x8001, 0 }, { 0x7e00, 0 } } };
    assert_int_equal(call("nonzero", NULL, 0, (Value[]){ { DT_F16, 3, { 3, 2, 2 }, half } }, 1,
                          (Value[]){ { DT_I64, 2, { 3, 12 }, at } }, 1),
                     TG_OK);
    assert_int_equal(found, 3);
    assert_memory_equal(at, ((int64_t[]){ 0, 2, 2, 0, 0, 1, 1, 0, 0 }), 72);
    memset(bits, 0, sizeof bits);
    assert_int_equal(call("nonzero", NULL, 0, (Value[]){ { DT_BOOL, 1, { 19 }, bits } }, 1, NULL, 0), TG_OK);
    assert_int_equal(found, 0);
}

static void test_topk(void **state)
{
    (void)state;
    static const struct { int32_t largest; int64_t k; float x[7]; float value[7]; int64_t index[7]; } row[] = {
        { 1, 3, { 1, 5, 5, -2, 5, 0, 3 }, { 5, 5, 5 }, { 1, 2, 4 } },
        { 0, 3, { 1, 5, 0, -0.f, 5, 0, 3 }, { 0, -0.f, 0 }, { 2, 3, 5 } },
        { 1, 7, { 1, INFINITY, 5, -INFINITY, NAN, 0, 3 }, { NAN, INFINITY, 5, 3, 1, 0, -INFINITY }, { 4, 1, 2, 6, 0, 5, 3 } },
        { 1, 0, { 1, 2, 3, 4, 5, 6, 7 }, { 0 }, { 0 } },
    };
    for (size_t r = 0; r < sizeof row / sizeof *row; r++) {
        TopkAttr a = { 0, row[r].largest };
        float value[7], x[7];
        int64_t index[7], k = row[r].k;
        memcpy(x, row[r].x, sizeof x);
        Value in = { DT_F32, 1, { 7 }, x };
        assert_int_equal(call("topk", &a, sizeof a, &in, 1,
                              (Value[]){ { DT_F32, 1, { k }, value }, { DT_I64, 1, { k }, index } }, 2),
                         TG_OK);
        assert_memory_equal(value, row[r].value, (size_t)k * 4);
        assert_memory_equal(index, row[r].index, (size_t)k * 8);
        memset(index, 0xff, sizeof index);
        /* values unread */
        assert_int_equal(call("topk", &a, sizeof a, &in, 1, (Value[]){ { 0 }, { DT_I64, 1, { k }, index } }, 2), TG_OK);
        assert_memory_equal(index, row[r].index, (size_t)k * 8);
    }
    assert_int_equal(call("topk", &(TopkAttr){ 0, 1 }, sizeof(TopkAttr),
                          (Value[]){ { DT_F32, 1, { 1 }, (float[]){ 1 } } }, 1,
                          (Value[]){ { DT_F32, 1, { 2 }, (float[2]){ 0 } } }, 1),
                     TG_BAD_INPUT);
}

static bool comes_first(double a, double b, bool largest)
{
    return largest ? (isnan(a) && !isnan(b)) || a > b : (isnan(b) && !isnan(a)) || a < b;
}

enum { MANY = 3000 };

static void check_topk(DType t, const double *x, int64_t k, bool largest)
{
    static char data[8 * MANY], value[8 * MANY];
    static int64_t index[MANY];
    bool taken[MANY] = { false };
    size_t size = (size_t)dtype_size(t);
    for (int i = 0; i < MANY; i++) scalar_store(t, data, i, dtype_is_float(t) ? scalar_of(x[i]) : (int64_t)x[i]);
    TopkAttr a = { 0, largest };
    assert_int_equal(call("topk", &a, sizeof a, (Value[]){ { t, 1, { MANY }, data } }, 1,
                          (Value[]){ { t, 1, { k }, value }, { DT_I64, 1, { k }, index } }, 2),
                     TG_OK);
    for (int64_t j = 0; j < k; j++) {
        int best = -1;
        for (int i = 0; i < MANY; i++)
            if (!taken[i] && (best < 0 || comes_first(x[i], x[best], largest))) best = i;
        taken[best] = true;
        assert_int_equal(index[j], best);
        assert_memory_equal(value + (size_t)j * size, data + (size_t)best * size, size);
    }
}

/* Few and many of each type, as one would by hand: with ties, zeros of both signs, infinities and NaN; the limits of
 * integers; all alike. */
static void test_topk_of_many(void **state)
{
    (void)state;
    static const DType type[] = { DT_F32, DT_F64, DT_I32, DT_I64 };
    static double x[MANY];
    for (int trial = 0; trial < 4 * 2 * 2 * 5; trial++) {
        DType t = type[trial % 4];
        bool real = dtype_is_float(t), same = trial / 8 % 2;
        double most = real ? (double)INFINITY
            : t == DT_I32  ? 0x1p31 - 1
                           : 0x1p62,
               least = real ? -(double)INFINITY
            : t == DT_I32   ? -0x1p31
                            : -0x1p63;
        for (int i = 0; i < MANY; i++) {
            x[i] = same               ? 0
                : i % 97 == 5 && real ? NAN
                : i % 531 == 7        ? most
                : i % 59 == 2         ? least
                : i % 31 == 3         ? -0.
                : i % 29 == 0         ? 0
                                      : (double)((i * 7919) % 1061 - 30);
            if (real) x[i] /= 4;
        }
        check_topk(t, x, (int64_t[]){ 1, 5, 70, 400, 2900 }[trial / 16], trial / 4 % 2);
    }
}

/* Columns that are found side by side are what each is by itself: rows, and columns of a matrix; ties, zeros of both
 * signs, NaN, the limits of integers. */
static void test_topk_in_lanes(void **state)
{
    (void)state;
    static const DType type[] = { DT_F32, DT_F64, DT_I32, DT_I64 };
    enum { N = 21, COLS = 37 };
    static char data[8 * N * COLS], one[8 * N], value[8 * N * COLS], own[8 * N];
    static int64_t index[N * COLS], own_index[N];
    for (int trial = 0; trial < 4 * 2 * 2 * 3; trial++) {
        DType t = type[trial % 4];
        bool real = dtype_is_float(t), rows = trial / 8 % 2;
        size_t size = (size_t)dtype_size(t);
        int64_t k = (int64_t[]){ 1, 4, 16 }[trial / 16];
        TopkAttr a = { rows, trial / 4 % 2 };
        for (int i = 0; i < N * COLS; i++) {
            double v = i % 13 == 5 && real ? NAN : i % 7 == 2 ? -0. : i % 17 == 3 ? -0x1p31 : (i * 7919) % 23 - 11;
            scalar_store(t, data, i, real ? scalar_of(v) : (int64_t)v);
        }
        Value in = { t, 2, { rows ? COLS : N, rows ? N : COLS }, data };
        int64_t shape[2] = { rows ? COLS : k, rows ? k : COLS };
        Value out[2] = { { t, 2, { shape[0], shape[1] }, value }, { DT_I64, 2, { shape[0], shape[1] }, index } };
        assert_int_equal(call("topk", &a, sizeof a, &in, 1, out, 2), TG_OK);
        for (int c = 0; c < COLS; c++) {
            for (int i = 0; i < N; i++)
                memcpy(one + (size_t)i * size, data + (size_t)(rows ? c * N + i : i * COLS + c) * size, size);
            assert_int_equal(call("topk", &(TopkAttr){ 0, a.largest }, sizeof a, (Value[]){ { t, 1, { N }, one } }, 1,
                                  (Value[]){ { t, 1, { k }, own }, { DT_I64, 1, { k }, own_index } }, 2),
                             TG_OK);
            for (int64_t i = 0; i < k; i++) {
                int64_t at = rows ? c * k + i : i * COLS + c;
                assert_int_equal(index[at], own_index[i]);
                assert_memory_equal(value + (size_t)at * size, own + (size_t)i * size, size);
            }
        }
    }
}

/* Parts that end within a row of columns, more than there are rows: together they are the whole. */
static void test_topk_parts(void **state)
{
    (void)state;
    enum { OUTER = 2, N = 9, INNER = 19, K = 4, OUT = OUTER * K * INNER };
    static float x[OUTER * N * INNER], value[2][OUT];
    static int64_t index[2][OUT];
    TopkAttr a = { 1, 1 };
    const UOp *d[3] = { uop_index(g, OUTER), uop_index(g, N), uop_index(g, INNER) },
              *e[3] = { d[0], uop_index(g, K), d[2] };
    const UOp *in = uop_param(g, DT_F32, d, 3, 0),
              *c = call_new(g, custom_new(g, "topk", &a, sizeof a, NULL, 0), &in, 1);
    const HostTensor tensor[3] = { { DT_F32, graph_shape(g, d, 3) },
                                   { DT_F32, graph_shape(g, e, 3) },
                                   { DT_I64, graph_shape(g, e, 3) } };
    const HostCall host = { c, NULL, tensor, 1, 2, (uint32_t[]){ 0, 1 }, NULL };
    for (int i = 0; i < OUTER * N * INNER; i++) x[i] = (float)(i * 7919 % 101);
    assert_int_equal(host_find("topk")->fn(&host, (void *[]){ x, value[0], index[0] }, NULL), TG_OK);
    for (int64_t parts = 2; parts < 60; parts += 19) {
        memset(value[1], 0xff, sizeof value[1]);
        for (int64_t part = 0; part < parts; part++)
            assert_int_equal(host_find("topk")->part(&host, (void *[]){ x, value[1], index[1] }, NULL, part, parts),
                             TG_OK);
        assert_memory_equal(value[0], value[1], sizeof value[0]);
        assert_memory_equal(index[0], index[1], sizeof index[0]);
    }
}

static void test_scatter(void **state)
{
    (void)state;
    int32_t x[6], y[6];
    int64_t rows[4] = { 1, 1, -1, 0 };
    for (int i = 0; i < 6; i++) x[i] = 1;
    Value in[3] = { { DT_I32, 2, { 3, 2 }, x },
                    { DT_I64, 2, { 2, 2 }, rows },
                    { DT_I32, 2, { 2, 2 }, (int32_t[]){ 3, 4, 5, 6 } } };
    assert_int_equal(call("scatter", &(ScatterAttr){ SCATTER_SET, 0 }, sizeof(ScatterAttr), in, 3,
                          (Value[]){ { DT_I32, 2, { 3, 2 }, y } }, 1),
                     TG_OK);
    assert_memory_equal(y, ((int32_t[]){ 1, 6, 3, 4, 5, 1 }), sizeof y);
    assert_int_equal(call("scatter", &(ScatterAttr){ SCATTER_ADD, 0 }, sizeof(ScatterAttr), in, 3,
                          (Value[]){ { DT_I32, 2, { 3, 2 }, y } }, 1),
                     TG_OK);
    assert_memory_equal(y, ((int32_t[]){ 1, 7, 4, 5, 6, 1 }), sizeof y);
    rows[3] = 3;
    assert_int_equal(call("scatter", &(ScatterAttr){ SCATTER_SET, 0 }, sizeof(ScatterAttr), in, 3,
                          (Value[]){ { DT_I32, 2, { 3, 2 }, y } }, 1),
                     TG_BAD_INPUT);
}

static void test_scatter_rows(void **state)
{
    (void)state;
    float x[6] = { 1, 2, 3, 4, 5, NAN }, y[6];
    int64_t at[3] = { 2, 0, 2 };
    static const struct { ScatterOp op; float out[6]; } row[] = {
        { SCATTER_SET, { 8, -9, 3, 4, 1, 2 } }, { SCATTER_ADD, { 9, -7, 3, 4, 13, NAN } }, { SCATTER_MUL, { 8, -18, 3, 4, 35, NAN } },
        { SCATTER_MAX, { 8, 2, 3, 4, 7, NAN } }, { SCATTER_MIN, { 1, -9, 3, 4, 1, NAN } },
    };
    Value in[3] = { { DT_F32, 2, { 3, 2 }, x },
                    { DT_I64, 2, { 3, 1 }, at },
                    { DT_F32, 2, { 3, 2 }, (float[]){ 7, 6, 8, -9, 1, 2 } } };
    for (size_t r = 0; r < sizeof row / sizeof *row; r++) {
        ScatterAttr a = { (int32_t)row[r].op, -1 };
        assert_int_equal(call("scatter", &a, sizeof a, in, 3, (Value[]){ { DT_F32, 2, { 3, 2 }, y } }, 1), TG_OK);
        for (int i = 0; i < 6; i++) assert_true(y[i] == row[r].out[i] || (isnan(y[i]) && isnan(row[r].out[i])));
    }
    at[1] = -4;
    assert_int_equal(call("scatter", &(ScatterAttr){ SCATTER_SET, -1 }, sizeof(ScatterAttr), in, 3,
                          (Value[]){ { DT_F32, 2, { 3, 2 }, y } }, 1),
                     TG_BAD_INPUT);
}

/* In parts, and in the type's own arithmetic, as element after element: rows [70, 3] under 90 indices, some of them
 * equal. */
static void test_scatter_parts(void **state)
{
    (void)state;
    enum { ROWS = 70, WIDE = 3, N = ROWS * WIDE, UPDATES = 90 };
    static const DType type[] = { DT_F32, DT_F64, DT_I32, DT_I64, DT_I16 };
    char x[N * 8], update[UPDATES * WIDE * 8], want[N * 8], y[N * 8];
    int64_t row[UPDATES], element[UPDATES * WIDE];
    for (int64_t k = 0; k < UPDATES; k++) row[k] = k * k % ROWS - (k % 5 ? 0 : ROWS);
    for (int64_t k = 0; k < UPDATES * WIDE; k++) element[k] = row[k / WIDE];
    for (size_t t = 0; t < sizeof type / sizeof *type; t++)
        for (int op = SCATTER_SET; op <= SCATTER_MIN; op++) {
            size_t bytes = (size_t)(N * dtype_size(type[t]));
            for (int64_t k = 0; k < N; k++)
                scalar_store(type[t], x, k, dtype_is_float(type[t]) ? scalar_of((double)(k % 7) - 2.5) : k % 7 - 3);
            for (int64_t k = 0; k < UPDATES * WIDE; k++)
                scalar_store(type[t], update, k,
                             dtype_is_float(type[t]) ? scalar_of((double)(k % 11) / 2 - 3) : k % 11 - 5);
            memcpy(want, x, bytes);
            for (int64_t k = 0; k < UPDATES * WIDE; k++) {
                int64_t at = (element[k] < 0 ? element[k] + ROWS : element[k]) * WIDE + k % WIDE,
                        a = scalar_load(type[t], want, at), b = scalar_load(type[t], update, k), out = b;
                Op alu = op == SCATTER_ADD ? UOP_ADD : op == SCATTER_MUL ? UOP_MUL : UOP_MAX;
                if (op == SCATTER_MIN)
                    out = dtype_is_float(type[t]) ? (scalar_real(a) < scalar_real(b) ? a : b) : a < b ? a : b;
                else if (op != SCATTER_SET) assert_true(uop_eval(alu, type[t], type[t], (int64_t[]){ a, b }, &out));
                scalar_store(type[t], want, at, out);
            }
            for (parts = 0; parts < 4; parts++)
                for (int32_t axis = -1; axis < 1; axis++) {
                    Value in[3] = { { type[t], 2, { ROWS, WIDE }, x },
                                    { DT_I64, 2, { UPDATES, axis ? 1 : WIDE }, axis ? row : element },
                                    { type[t], 2, { UPDATES, WIDE }, update } };
                    assert_int_equal(call("scatter", &(ScatterAttr){ op, axis }, sizeof(ScatterAttr), in, 3,
                                          (Value[]){ { type[t], 2, { ROWS, WIDE }, y } }, 1),
                                     TG_OK);
                    assert_memory_equal(y, want, bytes);
                }
        }
    parts = 2;
    element[7] = ROWS;
    Value in[3] = { { DT_F32, 2, { ROWS, WIDE }, x },
                    { DT_I64, 2, { UPDATES, WIDE }, element },
                    { DT_F32, 2, { UPDATES, WIDE }, update } };
    assert_int_equal(call("scatter", &(ScatterAttr){ SCATTER_SET, 0 }, sizeof(ScatterAttr), in, 3,
                          (Value[]){ { DT_F32, 2, { ROWS, WIDE }, y } }, 1),
                     TG_BAD_INPUT);
    parts = 0;
}

static void test_unique(void **state)
{
    (void)state;
    int32_t x[5] = { 7, -1, 7, 3, -1 }, y[5];
    int64_t first[5], inverse[5], count[5];
    static const struct { int32_t sorted, y[3]; int64_t first[3], inverse[5], count[3]; } row[] = {
        { 1, { -1, 3, 7 }, { 1, 3, 0 }, { 2, 0, 2, 1, 0 }, { 2, 1, 2 } },
        { 0, { 7, -1, 3 }, { 0, 1, 3 }, { 0, 1, 0, 2, 1 }, { 2, 2, 1 } },
    };
    for (int r = 0; r < 2; r++) {
        Value out[4] = { { DT_I32, 2, { 5, 1 }, y },
                         { DT_I64, 1, { 5 }, first },
                         { DT_I64, 1, { 5 }, inverse },
                         { DT_I64, 1, { 5 }, count } };
        assert_int_equal(call("unique", &(UniqueAttr){ row[r].sorted }, sizeof(UniqueAttr),
                              (Value[]){ { DT_I32, 2, { 5, 1 }, x } }, 1, out, 4),
                         TG_OK);
        assert_int_equal(found, 3);
        assert_memory_equal(y, row[r].y, 12);
        assert_memory_equal(first, row[r].first, 24);
        assert_memory_equal(inverse, row[r].inverse, 40);
        assert_memory_equal(count, row[r].count, 24);
    }
}

/* Numbers of both signs and any size, zeros of both signs, several NaN: as rows of one they are sorted by their bits,
 * as rows of two by comparison. */
static void test_unique_floats(void **state)
{
    (void)state;
    enum { N = 9 };
    static const double one[N] = { NAN, -0.0, 1e300, -2, 0, -INFINITY, NAN, 1e-300, -2 };
    static const int64_t first[6] = { 5, 3, 1, 7, 2, 0 }, inverse[N] = { 5, 2, 4, 1, 2, 0, 5, 3, 1 },
                         count[6] = { 1, 2, 2, 1, 1, 2 };
    for (int64_t width = 1; width <= 2; width++) {
        double x[2 * N], y[2 * N];
        int64_t at[N], group[N], times[N];
        for (int i = 0; i < 2 * N; i++) x[i] = one[i / width % N];
        Value out[4] = { { DT_F64, 2, { N, width }, y },
                         { DT_I64, 1, { N }, at },
                         { DT_I64, 1, { N }, group },
                         { DT_I64, 1, { N }, times } };
        assert_int_equal(call("unique", &(UniqueAttr){ 1 }, sizeof(UniqueAttr),
                              (Value[]){ { DT_F64, 2, { N, width }, x } }, 1, out, 4),
                         TG_OK);
        assert_int_equal(found, 6);
        assert_memory_equal(at, first, sizeof first);
        assert_memory_equal(group, inverse, sizeof inverse);
        assert_memory_equal(times, count, sizeof count);
        for (int i = 0; i < 6 * width; i++) assert_memory_equal(&y[i], &one[first[i / width]], 8);
    }
}

/* The rule said plainly: every pair, every class. */
static int64_t plain_nms(const float *box, const float *score, int64_t n, float iou, float least, int64_t *out)
{
    bool *gone = calloc((size_t)n, 1);
    int64_t kept = 0;
    for (;;) {
        int64_t best = -1;
        for (int64_t i = 0; i < n; i++)
            if (!gone[i] && score[i] > least && (best < 0 || score[i] > score[best])) best = i;
        if (best < 0) break;
        gone[best] = true;
        bool met = false;
        for (int64_t k = 0; k < kept && !met; k++) {
            const float *a = box + best * 4, *b = box + out[k] * 4;
            float h = fminf(a[2], b[2]) - fmaxf(a[0], b[0]), w = fminf(a[3], b[3]) - fmaxf(a[1], b[1]);
            float both = w * h, either = (a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - both;
            met = w > 0 && h > 0 && both / either > iou;
        }
        if (!met) out[kept++] = best;
    }
    free(gone);
    return kept;
}

static void test_nms(void **state)
{
    (void)state;
    enum { N = 301 };
    static float box[N * 4], score[N];
    static int64_t out[N * 3], want[N];
    srand(7);
    for (int round = 0; round < 20; round++) {
        for (int i = 0; i < N; i++) {
            float y = (float)(rand() % 400), x = (float)(rand() % (round % 2 ? 400 : 40000));
            memcpy(box + i * 4, ((float[]){ y, x, y + (float)(1 + rand() % 60), x + (float)(1 + rand() % 60) }), 16);
            score[i] = (float)(rand() % 50) / 50;
        }
        if (round == 5) box[1] = -INFINITY;
        float iou = (float)(round % 4) / 5, least = 0.1f;
        int64_t most = round == 3 ? 2 : N, n = plain_nms(box, score, N, iou, least, want);
        Value in[5] = { { DT_F32, 3, { 1, N, 4 }, box },
                        { DT_F32, 3, { 1, 1, N }, score },
                        { DT_I64, 0, { 0 }, &most },
                        { DT_F32, 0, { 0 }, &iou },
                        { DT_F32, 0, { 0 }, &least } };
        assert_int_equal(
            call("nms", &(NmsAttr){ 0 }, sizeof(NmsAttr), in, 5, (Value[]){ { DT_I64, 2, { N, 3 }, out } }, 1), TG_OK);
        assert_int_equal(found, n < most ? n : most);
        for (int64_t k = 0; k < found; k++) assert_int_equal(out[k * 3 + 2], want[k]);
    }
}

static int setup(void **state)
{
    (void)state;
    g = graph_new();
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    graph_free(g);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_nonzero),       cmocka_unit_test(test_topk),
                                        cmocka_unit_test(test_topk_of_many),  cmocka_unit_test(test_topk_parts),
                                        cmocka_unit_test(test_topk_in_lanes),
                                        cmocka_unit_test(test_scatter),       cmocka_unit_test(test_scatter_rows),
                                        cmocka_unit_test(test_scatter_parts), cmocka_unit_test(test_unique),
                                        cmocka_unit_test(test_unique_floats), cmocka_unit_test(test_nms) };
    return cmocka_run_group_tests(tests, setup, teardown);
}
