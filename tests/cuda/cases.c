#include "cases.h"
#include "graph/base/memory.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const Target gpu_target = {
    .kind = "cuda",
    .vector_bytes = 16,
    .vector_registers = 255,
    .threads = 132,
    .l1_bytes = 227 << 10,
    .l2_bytes = 50 << 20,
    .has_locals = true,
    .has_fma = true,
    .has_f16 = true,
    .has_bf16 = true,
    .max_block = 1024,
    .warp = 32,
};

typedef const UOp *U;

static Kernel *kernel_new(void)
{
    Kernel *k = mem_zeros(1, sizeof *k);
    k->g = graph_new();
    return k;
}

static U param(Kernel *k, DType t, int64_t n, bool written)
{
    U dim = uop_index(k->g, n), p = uop_param(k->g, t, &dim, 1, k->nparam);
    k->param[k->nparam++] = (KernelParam){ .buffer = p, .written = written, .read = !written };
    return p;
}

static U loop(Kernel *k, int number, int64_t n) { return uop_range(k->g, number, uop_index(k->g, n), AXIS_LOOP); }
static U reduce(Kernel *k, int number, int64_t n) { return uop_range(k->g, number, uop_index(k->g, n), AXIS_REDUCE); }
static U alu(Kernel *k, Op op, U a, U b) { return UOP(k->g, op, DT_VOID, NO_ARG, a, b); }
static U at(Kernel *k, U i, int64_t n, U j) { return alu(k, UOP_ADD, alu(k, UOP_MUL, i, uop_index(k->g, n)), j); }
static U load(Kernel *k, U p, U i)
{
    return UOP(k->g, UOP_LOAD, DT_VOID, NO_ARG, UOP(k->g, UOP_INDEX, DT_VOID, NO_ARG, p, i));
}
static U store(Kernel *k, U p, U i, U v)
{
    return UOP(k->g, UOP_STORE, DT_VOID, NO_ARG, UOP(k->g, UOP_INDEX, DT_VOID, NO_ARG, p, i), v);
}
static U cast(Kernel *k, DType t, U v) { return UOP(k->g, UOP_CAST, t, NO_ARG, v); }

static Kernel *done(Kernel *k, const U *end, uint32_t n)
{
    k->root = uop_new(k->g, UOP_SINK, DT_VOID, NO_ARG, end, n);
    kernel_key(k);
    kernel_name(k);
    return k;
}

enum { N = 768, M = 12, K = 96, ODD = 35 };

static Kernel *scale(void)
{
    Kernel *k = kernel_new();
    U out = param(k, DT_F32, N, true), a = param(k, DT_F32, N, false), i = loop(k, 0, N);
    U v = alu(k, UOP_ADD, alu(k, UOP_MUL, load(k, a, i), uop_float(k->g, DT_F32, 2)), uop_float(k->g, DT_F32, 0.5));
    U end = UOP(k->g, UOP_END, DT_VOID, NO_ARG, store(k, out, i, v), i);
    return done(k, &end, 1);
}
static void expect_scale(float *out, float *const *in)
{
    for (int i = 0; i < N; i++) out[i] = in[1][i] * 2 + 0.5f;
}

static Kernel *row_reduce(Op op, int64_t n, DType t)
{
    Kernel *k = kernel_new();
    U out = param(k, DT_F32, M, true), a = param(k, t, M * n, false), i = loop(k, 0, M), j = reduce(k, 1, n),
      x = load(k, a, at(k, i, n, j));
    U v = uop_reduce_ranges(k->g, op, t == DT_F32 ? x : cast(k, DT_F32, x), &j, 1);
    U end = UOP(k->g, UOP_END, DT_VOID, NO_ARG, store(k, out, i, v), i);
    return done(k, &end, 1);
}
static Kernel *row_sum(void) { return row_reduce(UOP_ADD, N, DT_F32); }
static Kernel *row_max(void) { return row_reduce(UOP_MAX, N, DT_F32); }
static Kernel *odd_sum(void) { return row_reduce(UOP_ADD, ODD, DT_F32); }
static void sums(float *out, const float *a, int n)
{
    for (int i = 0; i < M; i++) {
        double s = 0;
        for (int j = 0; j < n; j++) s += a[i * n + j];
        out[i] = (float)s;
    }
}
static void expect_sum(float *out, float *const *in) { sums(out, in[1], N); }
static void expect_odd(float *out, float *const *in) { sums(out, in[1], ODD); }
static void expect_max(float *out, float *const *in)
{
    for (int i = 0; i < M; i++) {
        out[i] = -INFINITY;
        for (int j = 0; j < N; j++) out[i] = fmaxf(out[i], in[1][i * N + j]);
    }
}

static Kernel *matmul(void)
{
    Kernel *k = kernel_new();
    U out = param(k, DT_F32, M * N, true), a = param(k, DT_F32, M * K, false), b = param(k, DT_F32, K * N, false),
      m = loop(k, 0, M), n = loop(k, 1, N), j = reduce(k, 2, K);
    U v = uop_reduce_ranges(k->g, UOP_ADD, alu(k, UOP_MUL, load(k, a, at(k, m, K, j)), load(k, b, at(k, j, N, n))), &j,
                            1);
    U end = UOP(k->g, UOP_END, DT_VOID, NO_ARG, store(k, out, at(k, m, N, n), v), m, n);
    return done(k, &end, 1);
}
static void expect_matmul(float *out, float *const *in)
{
    for (int m = 0; m < M; m++)
        for (int n = 0; n < N; n++) {
            double s = 0;
            for (int j = 0; j < K; j++) s += (double)in[1][m * K + j] * in[2][j * N + n];
            out[m * N + n] = (float)s;
        }
}

/* Rows minus their maximum, over the sum of their squares: two reduces and a staged row, as softmax has. */
static Kernel *staged_rows(void)
{
    Kernel *k = kernel_new();
    U out = param(k, DT_F32, M * N, true), a = param(k, DT_F32, M * N, false), i = loop(k, 0, M),
      dim = uop_index(k->g, N);
    U j1 = reduce(k, 1, N), j2 = loop(k, 2, N), j3 = reduce(k, 3, N), j4 = loop(k, 4, N);
    U most = uop_reduce_ranges(k->g, UOP_MAX, load(k, a, at(k, i, N, j1)), &j1, 1);
    U row = uop_buffer(k->g, DT_F32, &dim, 1, 0, SPACE_LOCAL);
    U value = alu(k, UOP_ADD, load(k, a, at(k, i, N, j2)), alu(k, UOP_MUL, most, uop_float(k->g, DT_F32, -1)));
    U staged =
        UOP(k->g, UOP_AFTER, DT_VOID, NO_ARG, row, UOP(k->g, UOP_END, DT_VOID, NO_ARG, store(k, row, j2, value), j2));
    U e3 = load(k, staged, j3), sum = uop_reduce_ranges(k->g, UOP_ADD, alu(k, UOP_MUL, e3, e3), &j3, 1);
    U end = UOP(k->g, UOP_END, DT_VOID, NO_ARG,
                store(k, out, at(k, i, N, j4), alu(k, UOP_DIV, load(k, staged, j4), sum)), i, j4);
    return done(k, &end, 1);
}
static void expect_rows(float *out, float *const *in)
{
    for (int i = 0; i < M; i++) {
        const float *a = in[1] + i * N;
        float most = a[0];
        double s = 0;
        for (int j = 0; j < N; j++) most = fmaxf(most, a[j]);
        for (int j = 0; j < N; j++) s += (double)(a[j] - most) * (a[j] - most);
        for (int j = 0; j < N; j++) out[i * N + j] = (float)((a[j] - most) / s);
    }
}

/* Each row's sum scaled into the row: the value of a reduce is used by all threads. A second store has fewer axes. */
static Kernel *two_stores(void)
{
    Kernel *k = kernel_new();
    U out = param(k, DT_F32, M * N, true), a = param(k, DT_F32, M * N, false), mean = param(k, DT_F32, M, true),
      i = loop(k, 0, M), j = loop(k, 1, N), r = reduce(k, 2, N);
    U s = uop_reduce_ranges(k->g, UOP_ADD, load(k, a, at(k, i, N, r)), &r, 1);
    U first = UOP(k->g, UOP_END, DT_VOID, NO_ARG,
                  store(k, out, at(k, i, N, j), alu(k, UOP_ADD, load(k, a, at(k, i, N, j)), s)), i, j);
    U end[] = { first, UOP(k->g, UOP_END, DT_VOID, NO_ARG, store(k, mean, i, s), i) };
    return done(k, end, 2);
}
static void expect_two(float *out, float *const *in)
{
    float s[M];
    sums(s, in[1], N);
    for (int i = 0; i < M * N; i++) out[i] = in[1][i] + s[i / N];
}

static Kernel *narrow(DType t)
{
    Kernel *k = kernel_new();
    U out = param(k, DT_F32, N, true), a = param(k, DT_F32, N, false), i = loop(k, 0, N);
    U v = cast(k, t, load(k, a, i)), w = alu(k, UOP_ADD, alu(k, UOP_MUL, v, v), uop_float(k->g, t, 0.25));
    U end = UOP(k->g, UOP_END, DT_VOID, NO_ARG, store(k, out, i, cast(k, DT_F32, alu(k, UOP_MAX, w, v))), i);
    return done(k, &end, 1);
}
static Kernel *narrow_f16(void) { return narrow(DT_F16); }
static Kernel *narrow_bf16(void) { return narrow(DT_BF16); }
static void expect_narrow(float *out, float *const *in, DType t)
{
    for (int i = 0; i < N; i++) {
        double v = dtype_round(t, in[1][i]), w = dtype_round(t, dtype_round(t, v * v) + 0.25);
        out[i] = (float)(w > v ? w : v);
    }
}
static void expect_f16(float *out, float *const *in) { expect_narrow(out, in, DT_F16); }
static void expect_bf16(float *out, float *const *in) { expect_narrow(out, in, DT_BF16); }

/* Integers: floor division and remainder of positions, a gather, and a gate that leaves a tail. */
static Kernel *gathered(void)
{
    Kernel *k = kernel_new();
    U out = param(k, DT_F32, ODD, true), a = param(k, DT_F32, ODD, false), i = loop(k, 0, ODD);
    U turned = alu(k, UOP_MOD, alu(k, UOP_ADD, alu(k, UOP_MUL, i, uop_index(k->g, -3)), uop_index(k->g, 1)),
                   uop_index(k->g, ODD));
    U end = UOP(k->g, UOP_END, DT_VOID, NO_ARG, store(k, out, i, load(k, a, turned)), i);
    return done(k, &end, 1);
}
static void expect_gathered(float *out, float *const *in)
{
    for (int i = 0; i < ODD; i++) out[i] = in[1][((1 - 3 * i) % ODD + ODD) % ODD];
}

const Case cases[] = {
    { "scale plain", scale, "", expect_scale },
    { "scale grid", scale, "SPLIT 0 64 LOCAL; SPLIT 0 12 GLOBAL", expect_scale },
    { "scale vectors", scale, "SPLIT 0 4 UPCAST; SPLIT 0 32 LOCAL; SPLIT 0 6 GLOBAL", expect_scale },
    { "scale loop in a thread", scale, "SPLIT 0 4 UPCAST; SPLIT 0 32 LOCAL; SPLIT 0 3 GLOBAL TOP", expect_scale },
    { "odd tail", gathered, "PADTO 0 8; SPLIT 0 8 LOCAL; SPLIT 0 5 GLOBAL", expect_gathered },
    { "sum plain", row_sum, "", expect_sum },
    { "sum by rows", row_sum, "SPLIT 0 4 LOCAL; SPLIT 0 3 GLOBAL", expect_sum },
    { "sum by a warp", row_sum, "SPLIT 0 12 GLOBAL; SPLIT 1 32 WARP", expect_sum },
    { "sum by half a warp", row_sum, "SPLIT 0 12 GLOBAL; SPLIT 1 16 WARP", expect_sum },
    { "sum by a group", row_sum, "SPLIT 0 12 GLOBAL; SPLIT 1 256 GROUP_REDUCE", expect_sum },
    { "sum by an odd group", row_sum, "SPLIT 0 12 GLOBAL; SPLIT 1 12 GROUP_REDUCE", expect_sum },
    { "sum by 24 rows of warps", row_sum, "SPLIT 0 4 LOCAL; SPLIT 0 3 GLOBAL; SPLIT 2 32 WARP", expect_sum },
    { "sum by group and warp", row_sum, "SPLIT 0 2 LOCAL; SPLIT 0 6 GLOBAL; SPLIT 2 32 WARP; SPLIT 2 8 GROUP_REDUCE", expect_sum },
    { "sum of vectors", row_sum, "SPLIT 0 12 GLOBAL; SPLIT 1 4 UNROLL; SPLIT 1 32 WARP", expect_sum },
    { "sum of 35", odd_sum, "SPLIT 0 12 GLOBAL; SPLIT 1 7 GROUP_REDUCE", expect_odd },
    { "max by a group", row_max, "SPLIT 0 12 GLOBAL; SPLIT 1 64 GROUP_REDUCE; SPLIT 1 4 UNROLL", expect_max },
    { "sum in a loop of rows", row_sum, "SPLIT 1 64 GROUP_REDUCE", expect_sum },
    { "matmul plain", matmul, "SPLIT 1 64 LOCAL; SPLIT 1 12 GLOBAL", expect_matmul },
    { "matmul tile", matmul, "SPLIT 1 4 UPCAST; SPLIT 0 3 UPCAST; SPLIT 2 32 LOCAL; SPLIT 0 4 GLOBAL; SPLIT 2 6 GLOBAL; SPLIT 5 4 UNROLL", expect_matmul },
    { "matmul, k over a warp", matmul, "SPLIT 1 4 UPCAST; SPLIT 0 3 UPCAST; SPLIT 0 4 GLOBAL; SPLIT 2 192 GLOBAL; SPLIT 4 32 WARP", expect_matmul },
    { "matmul, k over a group", matmul, "SPLIT 1 4 UPCAST; SPLIT 0 4 GLOBAL; SPLIT 2 192 GLOBAL; SPLIT 4 48 GROUP_REDUCE", expect_matmul },
    { "staged rows plain", staged_rows, "", expect_rows },
    { "staged rows", staged_rows, "SPLIT 0 12 GLOBAL; SPLIT 1 32 LOCAL", expect_rows },
    { "two stores", two_stores, "SPLIT 0 12 GLOBAL; SPLIT 1 64 LOCAL", expect_two },
    { "two stores, shared group", two_stores, "SPLIT 0 12 GLOBAL; SPLIT 1 64 LOCAL; SPLIT 3 64 GROUP_REDUCE", expect_two },
    { "f16", narrow_f16, "SPLIT 0 4 UPCAST; SPLIT 0 32 LOCAL; SPLIT 0 6 GLOBAL", expect_f16 },
    { "bf16", narrow_bf16, "SPLIT 0 32 LOCAL; SPLIT 0 24 GLOBAL", expect_bf16 },
};
const uint32_t case_count = sizeof cases / sizeof *cases;

int64_t param_numel(const Kernel *k, uint32_t slot) { return uop_numel(k->param[slot].buffer); }

TgStatus case_lower(Kernel **out, const Case *c, const Target *t)
{
    OptList opts;
    Kernel *k = *out = c->build();
    TRY(opt_parse(&opts, c->opts));
    TRY(opt_apply_list(k, &opts, t));
    TRY(kernel_expand(k, t));
    return kernel_linearize(k, t);
}
