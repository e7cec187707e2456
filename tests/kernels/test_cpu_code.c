/* Generated C against plain loops and uop_eval: every element-wise op and cast on every type, as scalars and as vectors; loops, sums, staged rows, gates. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backends/cpu/cpu.h"
#include "tests/kernels/hand.h"
#include "tests/test.h"

#define stop(...) (print_error(__VA_ARGS__), assert_true(false))

static void run_many(Kernel **k, uint32_t n, void *const *const *args, const int64_t *end)
{
    Code *code = NULL;
    for (uint32_t i = 0; i < n; i++) assert_int_equal(kernel_linearize(k[i], NULL), TG_OK);
    if (getenv("SHOW")) {
        Text t = { 0 };
        for (uint32_t i = 0; i < n; i++) cstyle_render(&t, &cpu_style, k[i], "k");
        puts(t.s);
        text_free(&t);
    }
    if (cpu_compile(&code, NULL, 2, k, n, NULL) != TG_OK) stop("%s", tg_error());
    void *scratch = aligned_alloc(64, 1 << 20);
    for (uint32_t i = 0; i < n; i++) code->fn[i](args[i], NULL, 0, end ? end[i] : 1, scratch);
    free(scratch);
    cpu_code_free(code);
}

__attribute__((unused)) static void run_one(Kernel *k, void *const *args, int64_t end)
{
    run_many(&k, 1, (void *const *const[]){ args }, &end);
    kernel_free(k);
}

/* ---- element-wise ops ---- */

enum { COUNT = 64 };
static uint64_t seed = 1;
static uint64_t random64(void) { return seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407), seed ^ seed >> 29; }
static int64_t bits_of(double v) { int64_t i; memcpy(&i, &v, 8); return i; }
static double real_of(int64_t i) { double v; memcpy(&v, &i, 8); return v; }

static int64_t random_value(DType t, bool small)
{
    static const double hostile[] = { 0, -0.0, 1, -1, 0.5, -2.5, 1e-40, -1e-42, 3e38, INFINITY, -INFINITY, NAN, 65504, 1e-7, 2.5, 1e10 };
    uint64_t r = random64();
    if (t == DT_BOOL) return r >> 20 & 1;
    if (dtype_is_float(t)) {
        double v = !small && (r & 3) == 0 ? hostile[r >> 8 & 15] : (double)(int64_t)(r >> 40) / 65536.0 - 128;
        return bits_of(dtype_round(t, v));
    }
    int64_t v = (r & 3) == 0 ? (int64_t[]){ 0, 1, -1, dtype_min(t), dtype_max(t), 2, 7, -7 }[r >> 8 & 7] : (int64_t)(r >> (r >> 58));
    if (small) v = (int64_t)(r >> 40) % 100;
    int64_t one = 0;
    uop_eval(UOP_CAST, t, DT_I64, &v, &one);
    return one;
}

static void put(void *p, DType t, int i, int64_t v)
{
    double d = real_of(v);
    float f = (float)d;
    uint32_t b;
    memcpy(&b, &f, 4);
    if (t == DT_F64) memcpy((char *)p + i * 8, &d, 8);
    else if (t == DT_F32) memcpy((char *)p + i * 4, &f, 4);
    else if (t == DT_BF16) ((uint16_t *)p)[i] = isnan(d) ? 0x7fc0 : (uint16_t)(b >> 16);
    else if (t == DT_F16) { _Float16 h = (_Float16)f; memcpy((char *)p + i * 2, &h, 2); }
    else memcpy((char *)p + i * dtype_size(t), &v, (size_t)dtype_size(t));
}

static int64_t get(const void *p, DType t, int i)
{
    int64_t v = 0;
    if (t == DT_F64) return ((const int64_t *)p)[i];
    if (t == DT_F32) return bits_of(((const float *)p)[i]);
    if (t == DT_BF16) { uint32_t b = (uint32_t)((const uint16_t *)p)[i] << 16; float f; memcpy(&f, &b, 4); return bits_of(f); }
    if (t == DT_F16) { _Float16 h; memcpy(&h, (const char *)p + i * 2, 2); return bits_of((double)h); }
    memcpy(&v, (const char *)p + i * dtype_size(t), (size_t)dtype_size(t));
    int64_t r = v;
    uop_eval(UOP_CAST, t, DT_I64, &v, &r);
    return r;
}

typedef struct { Op op; DType to, from; int64_t lanes; bool constant; Kernel *k; char *in[3], *out; void *args[4]; int64_t v[3][COUNT]; } Case;

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
            c->v[s][e] = shift ? (int64_t)(random64() >> 30) % dtype_info[t].bits : random_value(t, c->op == UOP_CAST && dtype_is_float(c->from) && dtype_is_int(c->to));
            if (c->constant && s == 1) c->v[s][e] = c->v[s][0];
            put(c->in[s], t, e, c->v[s][e]);
        }
        src[s] = hand_load(k, hand_at(k, hand_param(k, (int)s + 1, t, COUNT), i, c->lanes));
        if (c->constant && s == 1) src[s] = UOP0(k->g, UOP_CONST, t, ARG_I(c->v[s][0]));
        c->args[s + 1] = c->in[s];
    }
    c->args[0] = c->out = calloc(COUNT, 8);
    v = uop_new(k->g, c->op, c->to, NO_ARG, src, n);
    const UOp *store = hand_store(k, hand_at(k, hand_param(k, 0, (DType)v->dtype, COUNT), i, c->lanes), v), *loop = hand_loop(k, 0, COUNT / c->lanes, AXIS_LOOP);
    const UOp *end = hand_end(k, store, &loop, 1);
    c->to = (DType)v->dtype;
    hand_sink(k, &end, 1);
}

static bool close_to(DType t, int64_t a, int64_t b, Op op)
{
    if (!dtype_is_float(t)) return a == b;
    double x = real_of(a), y = real_of(b);
    if (isnan(x) || isnan(y)) return isnan(x) && isnan(y);
    bool exact = op != UOP_EXP2 && op != UOP_LOG2 && op != UOP_SIN && op != UOP_POW && op != UOP_MULACC && op != UOP_MOD;
    if (x == y) return true;
    return !exact && fabs(x - y) <= 1e-5 * fabs(y) + 1e-6;
}

static void case_check(const Case *c)
{
    for (int e = 0; e < COUNT; e++) {
        int64_t v[3] = { c->v[0][e], c->v[1][e], c->v[2][e] }, want, got = get(c->out, c->to, e);
        if (!uop_eval(c->op, c->to, c->from, v, &want)) continue;
        if (c->op == UOP_MULACC && dtype_is_float(c->from) && fabs(real_of(want)) > 1e37) continue;
        if (!close_to(c->to, got, want, c->op))
            stop("%s.%s of %s, %d lanes%s, element %d: operands %llx %llx %llx: got %llx (%g), expected %llx (%g)", op_name(c->op), dtype_name(c->to), dtype_name(c->from), (int)c->lanes,
                     c->constant ? ", constant" : "", e, (long long)v[0], (long long)v[1], (long long)v[2], (long long)got, real_of(got), (long long)want, real_of(want));
    }
}

static bool legal(Op op, DType t)
{
    bool f = t == DT_F32 || t == DT_F64, half = t == DT_F16 || t == DT_BF16;
    switch (op) {
    case UOP_RECIP: case UOP_SQRT: case UOP_EXP2: case UOP_LOG2: case UOP_SIN: case UOP_POW: case UOP_DIV: return f;
    case UOP_TRUNC: return f;
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
                if (legal((Op)op, (DType)t) && (!constant || op_info[op].min_src > 1)) c[n++] = (Case){ .op = (Op)op, .from = (DType)t, .to = (DType)t, .lanes = lanes, .constant = constant };
        for (int to = DT_BOOL; to < DT_COUNT; to++) {
            bool half = t == DT_F16 || t == DT_BF16 || to == DT_F16 || to == DT_BF16;
            if (to != DT_INDEX && (!half || t == DT_F32 || to == DT_F32)) c[n++] = (Case){ .op = UOP_CAST, .from = (DType)t, .to = (DType)to, .lanes = lanes };
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ops_on_scalars),
        cmocka_unit_test(ops_on_4_lanes),
        cmocka_unit_test(ops_on_8_lanes),
        cmocka_unit_test(ops_on_16_lanes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
