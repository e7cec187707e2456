/* Generated C against plain loops and uop_eval: every element-wise op and cast on every type, as scalars and as
 * vectors; loops, sums, staged rows, gates. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "backends/cpu/cpu.h"
#include "backends/cpu/processor.h"
#include "bench/values.h"
#include "common/clock.h"
#include "graph/scalar.h"
#include "tests/kernels/hand.h"
#include "tests/test.h"

#define stop(...) (print_error(__VA_ARGS__), assert_true(false))

static const Target target = {
    .kind = "cpu", .vector_bytes = 64, .vector_registers = 32, .threads = 1, .has_fma = true
};

static void run_many(Kernel **k, uint32_t n, void *const *const *args, const int64_t *end)
{
    Code *code = NULL;
    for (uint32_t i = 0; i < n; i++) assert_int_equal(kernel_linearize(k[i], &target), TG_OK);
    if (getenv("SHOW")) {
        Text t = { 0 };
        for (uint32_t i = 0; i < n; i++) cstyle_render(&t, &cpu_style, k[i], "k");
        puts(t.s);
        text_free(&t);
    }
    if (cpu_compile(&code, &(CpuCompile){ .jobs = 2 }, k, n, NULL) != TG_OK) stop("%s", tg_error());
    void *scratch = aligned_alloc(64, 1 << 20);
    for (uint32_t i = 0; i < n; i++) code->fn[i](args[i], NULL, 0, end ? end[i] : 1, scratch);
    free(scratch);
    cpu_code_free(code);
}

static void run_one(Kernel *k, void *const *args, int64_t end)
{
    run_many(&k, 1, (void *const *const[]){ args }, &end);
    kernel_free(k);
}

/* ---- element-wise ops ---- */

enum { COUNT = 64 };
static uint64_t seed = 1;
static uint64_t random64(void)
{
    return seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407), seed ^ seed >> 29;
}

static int64_t random_value(DType t, bool small)
{
    static const double hostile[] = { 0,    -0.0,     1,         -1,  0.5,   -2.5, 1e-40, -1e-42,
                                      3e38, INFINITY, -INFINITY, NAN, 65504, 1e-7, 2.5,   1e10 };
    uint64_t r = random64();
    if (t == DT_BOOL) return r >> 20 & 1;
    if (dtype_is_float(t)) {
        double v = !small && (r & 3) == 0 ? hostile[r >> 8 & 15] : (double)(int64_t)(r >> 40) / 65536.0 - 128;
        return scalar_of(dtype_round(t, v));
    }
    int64_t v = (r & 3) == 0 ? (int64_t[]){ 0, 1, -1, dtype_min(t), dtype_max(t), 2, 7, -7 }[r >> 8 & 7]
                             : (int64_t)(r >> (r >> 58));
    if (small) v = (int64_t)(r >> 40) % 100;
    int64_t one = 0;
    uop_eval(UOP_CAST, t, DT_I64, &v, &one);
    return one;
}

static void put(void *p, DType t, int i, int64_t v)
{
    double d = scalar_real(v);
    float f = (float)d;
    uint32_t b;
    memcpy(&b, &f, 4);
    if (t == DT_F64) memcpy((char *)p + i * 8, &d, 8);
    else if (t == DT_F32) memcpy((char *)p + i * 4, &f, 4);
    else if (t == DT_BF16) ((uint16_t *)p)[i] = isnan(d) ? 0x7fc0 : (uint16_t)(b >> 16);
    else if (t == DT_F16) value_put(TG_F16, p, i, (double)f);
    else memcpy((char *)p + i * dtype_size(t), &v, (size_t)dtype_size(t));
}

static int64_t get(const void *p, DType t, int i)
{
    int64_t v = 0;
    if (t == DT_F64) return ((const int64_t *)p)[i];
    if (t == DT_F32) return scalar_of(((const float *)p)[i]);
    if (t == DT_BF16) {
        uint32_t b = (uint32_t)((const uint16_t *)p)[i] << 16;
        float f;
        memcpy(&f, &b, 4);
        return scalar_of(f);
    }
    if (t == DT_F16) return scalar_of(value_get(TG_F16, p, i));
    memcpy(&v, (const char *)p + i * dtype_size(t), (size_t)dtype_size(t));
    int64_t r = v;
    uop_eval(UOP_CAST, t, DT_I64, &v, &r);
    return r;
}

typedef struct {
    Op op;
    DType to, from;
    int64_t lanes;
    bool constant;
    Kernel *k;
    char *in[3], *out;
    void *args[4];
    int64_t v[3][COUNT];
} Case;

/* out = op(a, b, c); with `constant` the second operand is one scalar for all lanes. */
static void case_build(Case *c)
{
    Kernel *k = c->k = hand_kernel();
    uint32_t n = op_info[c->op].min_src;
    const UOp *i = hand_scaled(k, hand_loop(k, 0, COUNT / c->lanes, AXIS_LOOP), c->lanes, 0), *src[3], *v;
    for (uint32_t s = 0; s < n; s++) {
        DType t = c->op == UOP_WHERE && s == 0 ? DT_BOOL : c->from;
        bool shift = (c->op == UOP_SHL || c->op == UOP_SHR) && s == 1;
        c->in[s] = calloc(COUNT, 8);
        for (int e = 0; e < COUNT; e++) {
            bool power = c->op == UOP_SCALE && s == 1;
            c->v[s][e] = shift ? (int64_t)(random64() >> 30) % dtype_info[t].bits
                : power        ? scalar_of((double)(random64() >> 30 & 511) - 280)
                               : random_value(t, c->op == UOP_CAST && dtype_is_float(c->from) && dtype_is_int(c->to));
            /* out of range: as the machine likes */
            if (c->op == UOP_CAST && dtype_is_float(t) && dtype_is_int(c->to))
                c->v[s][e] = scalar_of(fabs(scalar_real(c->v[s][e])));
            if (c->op == UOP_MIN && s == 1 && isnan(scalar_real(c->v[s][e]))) c->v[s][e] = scalar_of(1);
            if (c->constant && s == 1) c->v[s][e] = c->v[s][0];
            put(c->in[s], t, e, c->v[s][e]);
        }
        src[s] = hand_load(k, hand_at(k, hand_param(k, (int)s + 1, t, COUNT), i, c->lanes));
        if (c->constant && s == 1) src[s] = UOP0(k->g, UOP_CONST, t, ARG_I(c->v[s][0]));
        c->args[s + 1] = c->in[s];
    }
    c->args[0] = c->out = calloc(COUNT, 8);
    v = uop_new(k->g, c->op, c->to, NO_ARG, src, n);
    const UOp *store = hand_store(k, hand_at(k, hand_param(k, 0, (DType)v->dtype, COUNT), i, c->lanes), v),
              *loop = hand_loop(k, 0, COUNT / c->lanes, AXIS_LOOP);
    const UOp *end = hand_end(k, store, &loop, 1);
    c->to = (DType)v->dtype;
    hand_sink(k, &end, 1);
}

static bool close_to(DType t, int64_t a, int64_t b, Op op)
{
    if (!dtype_is_float(t)) return a == b;
    double x = scalar_real(a), y = scalar_real(b);
    if (isnan(x) || isnan(y)) return isnan(x) && isnan(y);
    bool exact =
        op != UOP_EXP2 && op != UOP_LOG2 && op != UOP_SIN && op != UOP_POW && op != UOP_MULACC && op != UOP_MOD;
    if (x == y) return true;
    if (op == UOP_EXP2 && t == DT_F32) return fabs(x - y) <= 2.5e-7 * fabs(y) + 2e-45;
    return !exact && fabs(x - y) <= 1e-5 * fabs(y) + 1e-6;
}

static void case_check(const Case *c)
{
    for (int e = 0; e < COUNT; e++) {
        int64_t v[3] = { c->v[0][e], c->v[1][e], c->v[2][e] }, want, got = get(c->out, c->to, e);
        if (!uop_eval(c->op, c->to, c->from, v, &want)) continue;
        /* uop_eval rounds the quotient */
        if (c->op == UOP_MOD && dtype_is_float(c->from) && !(fabs(scalar_real(v[0])) < 1e6 * fabs(scalar_real(v[1]))))
            continue;
        /* compilers make x^0.5 a square root */
        if (c->op == UOP_POW && scalar_real(v[0]) == -INFINITY) continue;
        if (c->op == UOP_MULACC && dtype_is_float(c->from) && fabs(scalar_real(want)) > 1e37) continue;
        if (!close_to(c->to, got, want, c->op))
            stop("%s.%s of %s, %d lanes%s, element %d: operands %llx %llx %llx: got %llx (%g), expected %llx (%g)",
                 op_name(c->op), dtype_name(c->to), dtype_name(c->from), (int)c->lanes, c->constant ? ", constant" : "",
                 e, (long long)v[0], (long long)v[1], (long long)v[2], (long long)got, scalar_real(got),
                 (long long)want, scalar_real(want));
    }
}

/* of vectors on this processor */
static bool scales(int64_t lanes)
{
    Machine m = { 0 };
    assert_int_equal(processor_read(&m), TG_OK);
    return m.has_exp2 && lanes > 1;
}

static bool legal(Op op, DType t, int64_t lanes)
{
    bool f = t == DT_F32 || t == DT_F64, half = t == DT_F16 || t == DT_BF16;
    switch (op) {
    case UOP_RECIP: case UOP_SQRT: case UOP_EXP2: case UOP_LOG2: case UOP_SIN: case UOP_POW: case UOP_DIV: return f;
    case UOP_TRUNC: case UOP_MIN: return f;
    case UOP_SCALE: return t == DT_F32 && scales(lanes);
    case UOP_ADD: case UOP_MUL: case UOP_MAX: case UOP_CMPLT: case UOP_CMPNE: return !half;
    case UOP_MULACC: return !half && t != DT_BOOL;
    case UOP_XOR: case UOP_OR: case UOP_AND: return dtype_is_int(t) || t == DT_BOOL;
    case UOP_SHL: case UOP_SHR: return dtype_is_int(t);
    case UOP_IDIV: return dtype_is_int(t);
    case UOP_MOD: return dtype_is_int(t) || f;
    case UOP_WHERE: return true;
    default: return false;
    }
}

static uint32_t cases_of(Case *c, int64_t lanes)
{
    uint32_t n = 0;
    for (int t = DT_BOOL; t < DT_COUNT; t++) {
        if (t == DT_INDEX) continue;
        for (int op = 0; op < UOP_COUNT; op++)
            for (int constant = 0; constant < 2; constant++)
                if (legal((Op)op, (DType)t, lanes) && (!constant || op_info[op].min_src > 1))
                    c[n++] =
                        (Case){ .op = (Op)op, .from = (DType)t, .to = (DType)t, .lanes = lanes, .constant = constant };
        for (int to = DT_BOOL; to < DT_COUNT; to++) {
            bool half = t == DT_F16 || t == DT_BF16 || to == DT_F16 || to == DT_BF16;
            if (to != DT_INDEX && (!half || t == DT_F32 || to == DT_F32))
                c[n++] = (Case){ .op = UOP_CAST, .from = (DType)t, .to = (DType)to, .lanes = lanes };
        }
    }
    return n;
}

static void every_op(int64_t lanes)
{
    Case *c = calloc(1000, sizeof *c);
    uint32_t n = cases_of(c, lanes);
    Kernel **k = calloc(n, sizeof *k);
    void *const **args = calloc(n, sizeof *args);
    for (uint32_t i = 0; i < n; i++) case_build(&c[i]), k[i] = c[i].k, args[i] = c[i].args;
    run_many(k, n, args, NULL);
    for (uint32_t i = 0; i < n; i++) {
        case_check(&c[i]);
        for (int s = 0; s < 3; s++) free(c[i].in[s]);
        free(c[i].out);
        kernel_free(k[i]);
    }
    free(k);
    free(args);
    free(c);
}

static void ops_on_scalars(void **state) { (void)state; every_op(1); }
static void ops_on_4_lanes(void **state) { (void)state; every_op(4); }
static void ops_on_8_lanes(void **state) { (void)state; every_op(8); }
static void ops_on_16_lanes(void **state) { (void)state; every_op(16); }

/* ---- loops ---- */

static float *floats(int64_t n)
{
    float *p = aligned_alloc(64, (size_t)(n * 4 + 127) & ~(size_t)63);
    for (int64_t i = 0; i < n; i++) p[i] = (float)((int64_t)(random64() >> 40) % 2001 - 1000) / 256;
    return p;
}

static void close_floats(const float *got, const float *want, int64_t n, float tolerance)
{
    for (int64_t i = 0; i < n; i++)
        if (!(fabsf(got[i] - want[i]) <= tolerance * (1 + fabsf(want[i]))))
            stop("element %ld: got %g, expected %g\n", (long)i, got[i], want[i]);
}

/* y[i] = sum_j x[i, j], rows over the caller's part. */
static void row_sums(void **state)
{
    (void)state;
    enum { M = 7, N = 33 };
    Kernel *k = hand_kernel();
    const UOp *i = hand_loop(k, 0, M, AXIS_THREAD), *j = hand_loop(k, 1, N, AXIS_REDUCE);
    const UOp *x =
        hand_load(k, hand_at(k, hand_param(k, 1, DT_F32, M * N), hand_add(k, hand_scaled(k, i, N, 0), j), 1));
    const UOp *end = hand_end(
        k, hand_store(k, hand_at(k, hand_param(k, 0, DT_F32, M), i, 1), uop_reduce_ranges(k->g, UOP_ADD, x, &j, 1)), &i,
        1);
    float *in = floats(M * N), got[M], want[M] = { 0 };
    hand_sink(k, &end, 1);
    for (int e = 0; e < M * N; e++) want[e / N] += in[e];
    run_one(k, (void *[]){ got, in }, M);
    close_floats(got, want, M, 1e-6f);
    free(in);
}

/* Two THREAD ranges run as one: y[i, j] = x[j, i]. */
static void two_thread_ranges(void **state)
{
    (void)state;
    enum { M = 5, N = 9 };
    Kernel *k = hand_kernel();
    const UOp *r[2] = { hand_loop(k, 0, M, AXIS_THREAD), hand_loop(k, 1, N, AXIS_THREAD) };
    const UOp *x =
        hand_load(k, hand_at(k, hand_param(k, 1, DT_F32, M * N), hand_add(k, hand_scaled(k, r[1], M, 0), r[0]), 1));
    const UOp *end = hand_end(
        k,
        hand_store(k, hand_at(k, hand_param(k, 0, DT_F32, M * N), hand_add(k, hand_scaled(k, r[0], N, 0), r[1]), 1), x),
        r, 2);
    float *in = floats(M * N), got[M * N], want[M * N];
    hand_sink(k, &end, 1);
    for (int e = 0; e < M * N; e++) want[e] = in[e % N * M + e / N];
    run_one(k, (void *[]){ got, in }, M * N);
    close_floats(got, want, M * N, 0);
    free(in);
}

/* Softmax of rows: maximum and sum are variables of the row, exp2(x - m) is staged; the three loops over j depend on
 * each other. */
static void staged_softmax(void **state)
{
    (void)state;
    enum { M = 5, N = 31 };
    Kernel *k = hand_kernel();
    Graph *g = k->g;
    const UOp *i = hand_loop(k, 0, M, AXIS_THREAD), *j[4], *n = uop_index(g, N),
              *e = uop_buffer(g, DT_F32, &n, 1, 0, SPACE_LOCAL), *x[2];
    for (int a = 0; a < 4; a++) j[a] = hand_loop(k, 1 + a, N, a == 0 || a == 2 ? AXIS_REDUCE : AXIS_LOOP);
    for (int a = 0; a < 2; a++)
        x[a] = hand_load(k, hand_at(k, hand_param(k, 1, DT_F32, M * N), hand_add(k, hand_scaled(k, i, N, 0), j[a]), 1));
    const UOp *m = uop_reduce_ranges(g, UOP_MAX, x[0], j, 1),
              *less = hand_add(k, x[1], hand_mul(k, m, uop_float(g, DT_F32, -1)));
    const UOp *stage =
        hand_end(k, hand_store(k, hand_at(k, e, j[1], 1), UOP(g, UOP_EXP2, DT_VOID, NO_ARG, less)), j + 1, 1);
    const UOp *after = UOP(g, UOP_AFTER, DT_VOID, NO_ARG, e, stage),
              *s = uop_reduce_ranges(g, UOP_ADD, hand_load(k, hand_at(k, after, j[2], 1)), j + 2, 1);
    const UOp *y = UOP(g, UOP_DIV, DT_VOID, NO_ARG, hand_load(k, hand_at(k, after, j[3], 1)), s), *r[2] = { i, j[3] };
    const UOp *end = hand_end(
        k, hand_store(k, hand_at(k, hand_param(k, 0, DT_F32, M * N), hand_add(k, hand_scaled(k, i, N, 0), j[3]), 1), y),
        r, 2);
    float *in = floats(M * N), got[M * N], want[M * N];
    hand_sink(k, &end, 1);
    for (int a = 0; a < M; a++) {
        float most = -INFINITY, sum = 0;
        for (int b = 0; b < N; b++) most = fmaxf(most, in[a * N + b]);
        for (int b = 0; b < N; b++) sum += exp2f(in[a * N + b] - most);
        for (int b = 0; b < N; b++) want[a * N + b] = exp2f(in[a * N + b] - most) / sum;
    }
    run_one(k, (void *[]){ got, in }, M);
    close_floats(got, want, M * N, 1e-6f);
    free(in);
}

/* A tile of a product of matrices: 6 x 2 vectors of 16, k unrolled by 4, as expand makes it. */
static void gemm_tile(void **state)
{
    (void)state;
    enum { M = 12, N = 64, K = 20, MR = 6, NR = 2, KU = 4 };
    Kernel *k = hand_kernel();
    Graph *g = k->g;
    const UOp *r[2] = { hand_loop(k, 0, M / MR, AXIS_THREAD), hand_loop(k, 1, N / 32, AXIS_LOOP) },
              *kk = hand_loop(k, 2, K / KU, AXIS_REDUCE), *store[MR * NR];
    const UOp *pa = hand_param(k, 1, DT_F32, M * K), *pb = hand_param(k, 2, DT_F32, K * N),
              *pc = hand_param(k, 0, DT_F32, M * N);
    for (int m = 0; m < MR; m++)
        for (int n = 0; n < NR; n++) {
            const UOp *sum = NULL;
            for (int u = 0; u < KU; u++) {
                const UOp *a = hand_load(
                    k,
                    hand_at(k, pa, hand_add(k, hand_scaled(k, r[0], MR * K, 0), hand_scaled(k, kk, KU, m * K + u)), 1));
                const UOp *b = hand_load(
                    k,
                    hand_at(k, pb, hand_add(k, hand_scaled(k, r[1], 32, 0), hand_scaled(k, kk, KU * N, u * N + n * 16)),
                            16));
                const UOp *product = hand_mul(k, a, b);
                sum = sum ? hand_add(k, sum, product) : product;
            }
            const UOp *at = hand_add(k, hand_scaled(k, r[0], MR * N, 0), hand_scaled(k, r[1], 32, m * N + n * 16));
            store[m * NR + n] = hand_store(k, hand_at(k, pc, at, 16), uop_reduce_ranges(g, UOP_ADD, sum, &kk, 1));
        }
    const UOp *end = hand_end(k, uop_new(g, UOP_GROUP, DT_VOID, NO_ARG, store, MR * NR), r, 2);
    float *a = floats(M * K), *b = floats(K * N), got[M * N], want[M * N] = { 0 };
    hand_sink(k, &end, 1);
    for (int e = 0; e < M * N * K; e++) want[e / K] += a[e / K / N * K + e % K] * b[e % K * N + e / K % N];
    run_one(k, (void *[]){ got, a, b }, M / MR);
    close_floats(got, want, M * N, 1e-5f);
    free(a);
    free(b);
}

/* 37 elements by vectors of 16 with a gate a lane; a strided read; the last lanes of the output stay as they were. */
static void gates_a_lane(void **state)
{
    (void)state;
    enum { N = 37 };
    Kernel *k = hand_kernel();
    Graph *g = k->g;
    const UOp *i = hand_loop(k, 0, 3, AXIS_LOOP), *lane[16], *first = hand_scaled(k, i, 16, 0);
    for (int l = 0; l < 16; l++) lane[l] = uop_index(g, l);
    const UOp *at = hand_add(k, first, uop_new(g, UOP_STACK, DT_VOID, NO_ARG, lane, 16)),
              *gate = UOP(g, UOP_CMPLT, DT_VOID, NO_ARG, at, uop_index(g, N));
    const UOp *x = UOP(g, UOP_LOAD, DT_VOID, NO_ARG, hand_at(k, hand_param(k, 1, DT_F32, N), first, 16),
                       uop_float(g, DT_F32, 0), gate);
    const UOp *z =
        UOP(g, UOP_LOAD, DT_VOID, NO_ARG, hand_at(k, hand_param(k, 2, DT_F32, 3 * N), hand_scaled(k, at, 3, 0), 1),
            uop_float(g, DT_F32, 0), gate);
    const UOp *where = UOP(g, UOP_CAST, DT_F32, NO_ARG, at), *v = hand_add(k, hand_add(k, x, z), where);
    const UOp *end = hand_end(
        k, UOP(g, UOP_STORE, DT_VOID, NO_ARG, hand_at(k, hand_param(k, 0, DT_F32, N), first, 16), v, gate), &i, 1);
    float *a = floats(N), *b = floats(3 * N), got[48] = { 0 }, want[48] = { 0 };
    hand_sink(k, &end, 1);
    for (int e = 0; e < N; e++) want[e] = a[e] + b[3 * e] + (float)e;
    run_one(k, (void *[]){ got, a, b }, 1);
    close_floats(got, want, 48, 1e-6f);
    free(a);
    free(b);
}

/* A gate a lane on every type and width: 3 vectors over the first 2 and a half, others read as one and stay as they
 * were. */
static void masked_types(void **state)
{
    (void)state;
    for (int t = DT_BOOL; t < DT_COUNT; t++)
        for (int lanes = 2; lanes <= 16 && t != DT_INDEX; lanes *= 2) {
            Kernel *k = hand_kernel();
            Graph *g = k->g;
            int n = 2 * lanes + lanes / 2;
            const UOp *i = hand_loop(k, 0, 3, AXIS_LOOP), *lane[16], *first = hand_scaled(k, i, lanes, 0);
            for (int l = 0; l < lanes; l++) lane[l] = uop_index(g, l);
            const UOp *at = hand_add(k, first, uop_new(g, UOP_STACK, DT_VOID, NO_ARG, lane, (uint32_t)lanes)),
                      *gate = UOP(g, UOP_CMPLT, DT_VOID, NO_ARG, at, uop_index(g, n));
            const UOp *x = UOP(g, UOP_LOAD, DT_VOID, NO_ARG, hand_at(k, hand_param(k, 1, (DType)t, n), first, lanes),
                               uop_const_like(g, (DType)t, 1), gate);
            const UOp *store[2] = { UOP(g, UOP_STORE, DT_VOID, NO_ARG,
                                        hand_at(k, hand_param(k, 0, (DType)t, 48), first, lanes), x, gate),
                                    hand_store(k, hand_at(k, hand_param(k, 2, (DType)t, 48), first, lanes), x) };
            const UOp *end = hand_end(k, uop_new(g, UOP_GROUP, DT_VOID, NO_ARG, store, 2), &i, 1);
            char in[48 * 8], got[2][48 * 8], want[2][48 * 8];
            memset(got, 0, sizeof got), memset(want, 0, sizeof want), memset(in, 0, sizeof in);
            for (int e = 0; e < n; e++) {
                int64_t v = random_value((DType)t, true);
                put(in, (DType)t, e, v), put(want[0], (DType)t, e, v), put(want[1], (DType)t, e, v);
            }
            for (int e = n; e < 3 * lanes; e++) put(want[1], (DType)t, e, dtype_is_float((DType)t) ? scalar_of(1) : 1);
            hand_sink(k, &end, 1);
            run_one(k, (void *[]){ got[0], in, got[1] }, 1);
            if (memcmp(got, want, sizeof got))
                stop("%s, %d lanes: masked access differs\n", dtype_name((DType)t), lanes);
        }
}

/* Vectors whose gates are all closed, where no page is: nothing is touched, at no cost worth a word (a load and
 * a store took a Zen 4 640 ns). */
static void masked_pages(void **state)
{
    (void)state;
    enum { N = 1 << 15, BYTES = N * 64 };
    static const double most_s = 40e-9 * N;
    Machine here = { 0 };
    assert_int_equal(processor_read(&here), TG_OK);
    const uint32_t lanes = (uint32_t)here.vector_bytes / 4, some = lanes - lanes / 3;
    Kernel *k = hand_kernel();
    Graph *g = k->g;
    const UOp *i = hand_loop(k, 0, N, AXIS_LOOP), *lane[16], *first = hand_scaled(k, i, lanes, 0);
    for (uint32_t l = 0; l < lanes; l++) lane[l] = uop_index(g, l);
    const UOp *at = hand_add(k, first, uop_new(g, UOP_STACK, DT_VOID, NO_ARG, lane, lanes)),
              *gate = UOP(g, UOP_CMPLT, DT_VOID, NO_ARG, at, uop_index(g, some)),
              *from = hand_at(k, hand_param(k, 1, DT_F32, 16 * N), first, lanes),
              *to = hand_at(k, hand_param(k, 0, DT_F32, 16 * N), first, lanes),
              *x = UOP(g, UOP_LOAD, DT_VOID, NO_ARG, from, uop_float(g, DT_F32, 3), gate);
    const UOp *end = hand_end(k, UOP(g, UOP_STORE, DT_VOID, NO_ARG, to, x, gate), &i, 1);
    hand_sink(k, &end, 1);
    assert_int_equal(kernel_linearize(k, &target), TG_OK);
    float *page[2];
    for (int p = 0; p < 2; p++) {
        page[p] = mmap(NULL, BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        assert_true(page[p] != MAP_FAILED && !mprotect(page[p], 4096, PROT_READ | PROT_WRITE));
        for (int e = 0; e < 16; e++) page[p][e] = p ? (float)e : -1;
    }
    for (CpuCompiler by = CPU_CC; by <= CPU_OWN; by += CPU_OWN - CPU_CC) {
        Code *code = NULL;
        double best = 1;
        if (by == CPU_OWN && !here.has_own) continue;
        CpuCompile how = { .jobs = 1, .by = by, .avx2 = here.vector_bytes < 64 };
        assert_int_equal(cpu_compile(&code, &how, &k, 1, NULL), TG_OK);
        for (int r = 0; r < 8; r++) {
            double start = clock_s();
            code->fn[0]((void *[]){ page[0], page[1] }, NULL, 0, 1, NULL);
            if (clock_s() - start < best) best = clock_s() - start;
        }
        cpu_code_free(code);
        for (uint32_t e = 0; e < 16; e++) assert_true(page[0][e] == (e < some ? (float)e : -1));
        if (best > most_s && !getenv("SANITIZED")) stop("compiler %d: %.0f ns a vector", (int)by, 1e9 * best / N);
    }
    for (int p = 0; p < 2; p++) munmap(page[p], BYTES);
    kernel_free(k);
}

/* Lanes from places that lie in memory, with a gate a lane and without: negative places read as 1, or are counted
 * from 50. */
static void gathered_lanes(void **state)
{
    (void)state;
    for (int t = DT_BOOL; t < DT_COUNT; t++)
        for (int lanes = 2; lanes <= 16 && t != DT_INDEX; lanes *= 2) {
            Kernel *k = hand_kernel();
            Graph *g = k->g;
            enum { N = 100, OUT = 48, FROM = 50 };
            const UOp *i = hand_loop(k, 0, 3, AXIS_LOOP), *first = hand_scaled(k, i, lanes, 0),
                      *x = hand_param(k, 1, (DType)t, N);
            const UOp *place = hand_load(k, hand_at(k, hand_param(k, 2, DT_I32, OUT), first, lanes)),
                      *at = UOP(g, UOP_CAST, DT_INDEX, NO_ARG, place);
            const UOp *below = UOP(g, UOP_CMPLT, DT_VOID, NO_ARG, at, uop_index(g, 0)),
                      *gate = UOP(g, UOP_CMPNE, DT_VOID, NO_ARG, below, uop_bool(g, true));
            const UOp *v[2] = { UOP(g, UOP_LOAD, DT_VOID, NO_ARG, hand_at(k, x, at, 1), uop_const_like(g, (DType)t, 1),
                                    gate),
                                hand_load(k, hand_at(k, x, hand_add(k, hand_scaled(k, i, 2, FROM), at), 1)) },
                      *store[2];
            for (int s = 0; s < 2; s++)
                store[s] = hand_store(k, hand_at(k, hand_param(k, s ? 3 : 0, (DType)t, OUT), first, lanes), v[s]);
            const UOp *end = hand_end(k, uop_new(g, UOP_GROUP, DT_VOID, NO_ARG, store, 2), &i, 1);
            char in[N * 8], got[2][OUT * 8], want[2][OUT * 8];
            int32_t from[OUT];
            memset(got, 0, sizeof got), memset(want, 0, sizeof want), memset(in, 0, sizeof in);
            for (int e = 0; e < N; e++) put(in, (DType)t, e, random_value((DType)t, true));
            for (int e = 0; e < 3 * lanes; e++) {
                from[e] = (int32_t)((random64() >> 40) % 90) - 45;
                put(want[0], (DType)t, e,
                    from[e] < 0 ? (dtype_is_float((DType)t) ? scalar_of(1) : 1) : get(in, (DType)t, from[e]));
                put(want[1], (DType)t, e, get(in, (DType)t, FROM + 2 * (e / lanes) + from[e]));
            }
            hand_sink(k, &end, 1);
            run_one(k, (void *[]){ got[0], in, from, got[1] }, 1);
            if (memcmp(got, want, sizeof got))
                stop("%s, %d lanes: gathered lanes differ\n", dtype_name((DType)t), lanes);
        }
}

/* A scalar gate before a vector: rows beyond the first three read as 7. */
static void gate_a_vector(void **state)
{
    (void)state;
    Kernel *k = hand_kernel();
    const UOp *i = hand_loop(k, 0, 5, AXIS_LOOP), *gate = UOP(k->g, UOP_CMPLT, DT_VOID, NO_ARG, i, uop_index(k->g, 3)),
              *at = hand_scaled(k, i, 16, 0);
    const UOp *x = UOP(k->g, UOP_LOAD, DT_VOID, NO_ARG, hand_at(k, hand_param(k, 1, DT_F32, 48), at, 16),
                       uop_float(k->g, DT_F32, 7), gate);
    const UOp *end = hand_end(k, hand_store(k, hand_at(k, hand_param(k, 0, DT_F32, 80), at, 16), x), &i, 1);
    float *in = floats(48), got[80], want[80];
    hand_sink(k, &end, 1);
    for (int e = 0; e < 80; e++) want[e] = e < 48 ? in[e] : 7;
    run_one(k, (void *[]){ got, in }, 1);
    close_floats(got, want, 80, 0);
    free(in);
}

/* Sums, maxima and products across lanes after a loop of vectors; NaN wins a maximum. */
static void across_lanes(void **state)
{
    (void)state;
    enum { M = 4, N = 48 };
    static const Op op[3] = { UOP_ADD, UOP_MAX, UOP_MUL };
    float *in = floats(M * N), got[3][M], want[3][M];
    for (int e = 0; e < M * N; e++) in[e] = 1 + in[e] / 64;
    in[2 * N + 5] = NAN;
    for (int o = 0; o < 3; o++) {
        Kernel *k = hand_kernel();
        const UOp *i = hand_loop(k, 0, M, AXIS_LOOP), *j = hand_loop(k, 1, N / 16, AXIS_REDUCE);
        const UOp *x = hand_load(k,
                                 hand_at(k, hand_param(k, 1, DT_F32, M * N),
                                         hand_add(k, hand_scaled(k, i, N, 0), hand_scaled(k, j, 16, 0)), 16));
        const UOp *v = UOP(k->g, UOP_REDUCE, DT_VOID, ((Arg){ op[o], graph_ints(k->g, (int64_t[]){ 0 }, 1) }),
                           uop_reduce_ranges(k->g, op[o], x, &j, 1));
        const UOp *lane0 = UOP(k->g, UOP_INDEX, DT_VOID, NO_ARG, v, uop_index(k->g, 0));
        const UOp *end = hand_end(k, hand_store(k, hand_at(k, hand_param(k, 0, DT_F32, M), i, 1), lane0), &i, 1);
        hand_sink(k, &end, 1);
        run_one(k, (void *[]){ got[o], in }, 1);
        for (int e = 0; e < M; e++) {
            want[o][e] = o == 0 ? 0 : o == 1 ? -INFINITY : 1;
            for (int a = 0; a < N; a++) {
                float b = in[e * N + a], *w = &want[o][e];
                *w = o == 0 ? *w + b : o == 1 ? isnan(*w) || isnan(b) ? NAN : fmaxf(*w, b) : *w * b;
            }
            if (e != 2) close_floats(&got[o][e], &want[o][e], 1, 1e-5f);
            else assert_true(isnan(got[o][e]));
        }
    }
    free(in);
}

/* f16 and bf16 are computed in f32 and rounded once an op. */
static void halves(void **state)
{
    (void)state;
    for (int t = DT_F16; t <= DT_BF16; t++)
        for (int lanes = 1; lanes <= 16; lanes += 15) {
            Kernel *k = hand_kernel();
            const UOp *i = hand_loop(k, 0, COUNT / lanes, AXIS_LOOP), *at = hand_scaled(k, i, lanes, 0);
            const UOp *a = hand_load(k, hand_at(k, hand_param(k, 1, (DType)t, COUNT), at, lanes)),
                      *b = hand_load(k, hand_at(k, hand_param(k, 2, (DType)t, COUNT), at, lanes));
            const UOp *end = hand_end(k,
                                      hand_store(k, hand_at(k, hand_param(k, 0, (DType)t, COUNT), at, lanes),
                                                 hand_add(k, hand_mul(k, a, b), a)),
                                      &i, 1);
            uint16_t in[2][COUNT], got[COUNT];
            int64_t v[2][COUNT];
            for (int e = 0; e < 2 * COUNT; e++)
                v[e / COUNT][e % COUNT] = random_value((DType)t, false),
                                 put(in[e / COUNT], (DType)t, e % COUNT, v[e / COUNT][e % COUNT]);
            hand_sink(k, &end, 1);
            assert_int_equal(kernel_select(k, &target), TG_OK);
            run_one(k, (void *[]){ got, in[0], in[1] }, 1);
            for (int e = 0; e < COUNT; e++) {
                int64_t p[2] = { v[0][e], v[1][e] }, want;
                uop_eval(UOP_MUL, (DType)t, (DType)t, p, &p[0]);
                p[1] = v[0][e];
                uop_eval(UOP_ADD, (DType)t, (DType)t, p, &want);
                if (!close_to((DType)t, get(got, (DType)t, e), want, UOP_ADD))
                    stop("%s element %d: got %g, expected %g\n", dtype_name((DType)t), e,
                         scalar_real(get(got, (DType)t, e)), scalar_real(want));
            }
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ops_on_scalars),
        cmocka_unit_test(ops_on_4_lanes),
        cmocka_unit_test(ops_on_8_lanes),
        cmocka_unit_test(ops_on_16_lanes),
        cmocka_unit_test(row_sums),
        cmocka_unit_test(two_thread_ranges),
        cmocka_unit_test(staged_softmax),
        cmocka_unit_test(gemm_tile),
        cmocka_unit_test(gates_a_lane),
        cmocka_unit_test(masked_types),      cmocka_unit_test(masked_pages),
        cmocka_unit_test(gathered_lanes),
        cmocka_unit_test(gate_a_vector),
        cmocka_unit_test(across_lanes),
        cmocka_unit_test(halves),
    };
    if (getenv("ONLY")) cmocka_set_test_filter(getenv("ONLY"));
    return cmocka_run_group_tests(tests, NULL, NULL);
}
