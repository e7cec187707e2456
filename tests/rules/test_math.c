/* The polynomials of decompose.c against the double precision library: largest error in ulp over samples of all f32,
 * every special value, with and without FMA. */
#include <stdlib.h>

#include "graph/build.h"
#include "graph/rewrite.h"
#include "tests/rules/eval.h"
#include "tests/test.h"

static U exp2_of(Graph *g, U x) { return exp2_(g, x); }
static U log2_of(Graph *g, U x) { return log2_(g, x); }
static U sin_of(Graph *g, U x) { return sin_(g, x); }
static U exp_of(Graph *g, U x) { return exp_(g, x); }

typedef struct {
    const char *name;
    U (*build)(Graph *g, U x);
    double (*exact)(double);
    double ulp;
    uint32_t step;
    bool scaled;                /* the machine has powers of 2 of integers */
} Function;
static const Function function[] = {
    { "exp2", exp2_of, exp2, 1.25, 15013, false },      { "log2", log2_of, log2, 2.0, 15013, false },
    { "sin", sin_of, sin, 1.5, 30011, false },          { "exp", exp_of, exp, 1.5, 15013, false },
    { "exp, scaled", exp_of, exp, 1.5, 15013, true },   { "tanh", tanh_, tanh, 1.6, 15013, false },
    { "erf", erf_, erf, 1.5, 15013, false },
};

typedef struct {
    const UOp **order;
    uint32_t n;
    const UOp *x, *y, *root;    /* y: of a power; else NULL */
    int64_t *value;
    Arena *arena;
} Code;

static double run_two(Code *c, double x, double y)
{
    for (uint32_t i = 0; i < c->n; i++) {
        const UOp *u = c->order[i];
        int64_t v[3] = { 0 };
        for (uint32_t k = 0; k < u->nsrc && k < 3 && u != c->x && u != c->y; k++) v[k] = c->value[u->src[k]->id];
        if (u == c->x || u == c->y) c->value[u->id] = scalar_of(u == c->x ? x : y);
        else if (u->op != UOP_STACK) assert_true(eval_node(u, v, &c->value[u->id]));
    }
    return scalar_real(c->value[c->root->id]);
}

static double run(Code *c, double x) { return run_two(c, x, 0); }

static Code code_from(Graph *g, Code c, U whole, const SelectOptions *o)
{
    c.arena = arena_new();
    c.root = graph_rewrite(g, whole, rules_select(), 0, (void *)(uintptr_t)o);
    c.order = uop_toposort(g, &c.root, 1, c.arena, &c.n);
    c.value = NEW_N(c.arena, int64_t, graph_count(g));
    return c;
}

static Code code_of(Graph *g, const Function *f, const SelectOptions *o)
{
    U x = uop_param(g, DT_F32, NULL, 0, 0);
    Code c = code_from(g, (Code){ .x = x }, f->build(g, x), o);
    for (uint32_t i = 0; i < c.n; i++) {
        Op op = (Op)c.order[i]->op;
        assert_true(op != UOP_LOG2 && op != UOP_SIN);
        assert_true(op != UOP_EXP2 || (f->scaled && c.order[i]->tag == WHOLE_TAG));
    }
    return c;
}

/* Distance in units of the last place that an f32 has at the exact value. */
static double ulps(double got, double want)
{
    double w = dtype_round(DT_F32, want);
    int e;
    if (isnan(w) || isnan(got)) return isnan(w) == isnan(got) ? 0 : INFINITY;
    if (isinf(w) || got == want || isinf(got))
        return got == w ? 0 : isinf(got) && fabs(want) > 0x1.fffffep+127 * (1 - 0x1p-24) ? 1 : INFINITY;
    frexp(want, &e);
    return fabs(got - want) / ldexp(1, (e < -125 ? -125 : e) - 24);
}

static double float_of(uint32_t u)
{
    float f;
    memcpy(&f, &u, 4);
    return f;
}

static double worst(Code *c, const Function *f, double *at)
{
    static const double hard[] = { 0.0,
                                   -0.0,
                                   1,
                                   -1,
                                   0.5,
                                   2,
                                   126,
                                   127,
                                   127.99999,
                                   128,
                                   -126,
                                   -126.5,
                                   -149,
                                   -149.5,
                                   -150,
                                   -151,
                                   1e30,
                                   -1e30,
                                   INFINITY,
                                   -INFINITY,
                                   NAN,
                                   0x1p-149,
                                   0x1p-126,
                                   0x1.fffffep-127,
                                   0x1.fffffep127,
                                   M_PI,
                                   M_PI_2,
                                   3 * M_PI_2,
                                   32767.99,
                                   32768,
                                   1048576,
                                   0x1p31,
                                   0x1p63,
                                   0.99999994,
                                   1.0000001 };
    double most = 0;
    for (size_t k = 0; k < sizeof hard / sizeof *hard; k++) {
        double x = (double)(float)hard[k], want = f->exact(x), got = run(c, x), e = ulps(got, want);
        if (want == 0 && signbit(want) != signbit(got)) e = INFINITY;
        if (e > most) most = e, *at = x;
    }
    for (uint64_t u = 0; u < UINT64_C(1) << 32; u += f->step) {
        double x = float_of((uint32_t)u), e = ulps(run(c, x), f->exact(x));
        if (e > most) most = e, *at = x;
    }
    for (int k = -3000; k < 3000; k++) {            /* where arguments usually are */
        double x = (double)(float)(k * 0.00731), e = ulps(run(c, x), f->exact(x));
        if (e > most) most = e, *at = x;
    }
    return most;
}

static void errors_stay_small(void **state)
{
    (void)state;
    for (int fma = 0; fma < 2; fma++)
        for (size_t k = 0; k < sizeof function / sizeof *function; k++) {
            Graph *g = graph_new();
            double at = 0, e;
            Code c = code_of(g, &function[k], &(SelectOptions){ .has_fma = fma, .whole_exp2 = function[k].scaled });
            e = worst(&c, &function[k], &at);
            print_message("%s%s: %.3f ulp at %.9g, %u nodes\n", function[k].name, fma ? " with FMA" : "", e, at,
                          c.n);
            assert_true(e <= function[k].ulp);
            arena_free(c.arena);
            graph_free(g);
        }
}

/* A division by a constant is the rounded one to the last bit, of zeros and Infs, too; one below
 * 2^-100 is next to it. */
static void divisions_are_rounded(void **state)
{
    (void)state;
    static const float by[] = { 1.41421354f, 3, -7, 255, 1e10f, 1.0000001f, 0x1.fffffep0f, 0.3f };
    long bad = 0, changed = 0;
    for (size_t k = 0; k < sizeof by / sizeof *by; k++) {
        Graph *g = graph_new();
        SelectOptions o = { .has_fma = true };
        Code c = { .x = uop_param(g, DT_F32, NULL, 0, 0), .arena = arena_new() };
        const UOp *div = UOP(g, UOP_DIV, DT_VOID, NO_ARG, c.x, uop_float(g, DT_F32, (double)by[k]));
        c.root = graph_rewrite(g, div, rules_select(), 0, &o);
        changed += c.root != div;
        c.order = uop_toposort(g, &c.root, 1, c.arena, &c.n);
        c.value = NEW_N(c.arena, int64_t, c.root->id + 1);
        for (uint64_t u = 0; u < UINT64_C(1) << 32; u += 9973) {
            float x = float_of((uint32_t)u), got = (float)run(&c, (double)x), want = x / by[k];
            bool same = isnan(want) ? isnan(got) : got == want && signbit(got) == signbit(want);
            double step = fmax(fabs((double)want) * 0x1p-23, 0x1p-149);
            same |= fabsf(want) < 0x1p-100f && fabs((double)got - (double)want) <= step;
            if (!same && !bad++)
                print_message("%a / %a: %a for %a\n", (double)x, (double)by[k], (double)got, (double)want);
        }
        arena_free(c.arena);
        graph_free(g);
    }
    assert_int_equal(bad, 0);
    assert_int_equal(changed, 6);
}

static U cut(Graph *g, U x, double least, double most)
{
    U high = uop_float(g, DT_F32, most), y = UOP(g, UOP_MAX, DT_VOID, NO_ARG, x, uop_float(g, DT_F32, least));
    return UOP(g, UOP_WHERE, DT_VOID, NO_ARG, UOP(g, UOP_CMPLT, DT_VOID, NO_ARG, y, high), y, high);
}

static void prepare(Graph *g, Code *c, const UOp *root)
{
    c->root = root;
    c->order = uop_toposort(g, &c->root, 1, c->arena, &c->n);
    c->value = NEW_N(c->arena, int64_t, graph_count(g));
}

/* Of a range that is known a constant may be below 1, and no quotient is compared with anything if it is positive. */
static void divisions_of_small_numbers_are_rounded(void **state)
{
    (void)state;
    static const float by[] = { 0.3f, 0.0236417912f, -0.999999f, 0x1p-19f };
    for (size_t k = 0; k < sizeof by / sizeof *by; k++) {
        Graph *g = graph_new();
        SelectOptions o = { .has_fma = true };
        Code c = { .x = uop_param(g, DT_F32, NULL, 0, 0), .arena = arena_new() };
        U x = cut(g, c.x, -1000, 1000), div = UOP(g, UOP_DIV, DT_VOID, NO_ARG, x, uop_float(g, DT_F32, (double)by[k]));
        prepare(g, &c, graph_rewrite(g, div, rules_select(), 0, &o));
        for (uint32_t i = 0; i < c.n; i++)
            assert_true(c.order[i]->op != UOP_DIV && (by[k] < 0 || c.order[i]->op != UOP_BITCAST));
        for (uint64_t u = 0; u < UINT64_C(1) << 32; u += 9973) {
            float v = u == 9973 ? -0.0f : float_of((uint32_t)u), got = (float)run(&c, (double)v);
            float want = (v < 1000 ? v > -1000 ? v : -1000 : 1000) / by[k];
            if (fabsf(want) >= 0x1p-60f) assert_true(got == want);
            if (v == 0) assert_true(got == 0 && signbit(got) == signbit(want));
        }
        arena_free(c.arena);
        graph_free(g);
    }
}

/* A rounded float becomes its type, and the float again, without a conversion, and is what it was; the greatest for
 * NaN. Where it does not fit it is converted. */
static void rounded_floats_stay_floats(void **state)
{
    (void)state;
    static const struct {
        DType t;
        double z, beyond;
    } row[] = { { DT_U8, 0, 0 },   { DT_U8, 144, 0 }, { DT_I8, 0, 0 },    { DT_I8, -5, 0 }, { DT_U16, 40000, 0 },
                { DT_I16, -7, 0 }, { DT_I32, 0, 0 },  { DT_U8, 144, 1 }, { DT_I8, 3, 1 } };
    for (size_t k = 0; k < 2 * (sizeof row / sizeof *row); k++) {
        DType t = row[k / 2].t;
        double z = row[k / 2].z, least = t == DT_I32 ? -1000 : (double)dtype_min(t),
               most = t == DT_I32 ? 1000 : (double)dtype_max(t);
        Graph *g = graph_new();
        SelectOptions o = { .has_fma = true };
        Code was = { .x = uop_param(g, DT_F32, NULL, 0, 0), .arena = arena_new() }, now = was;
        U y = cut(g, was.x, least - z, most - z + row[k / 2].beyond);
        y = add(g, add(g, y, uop_float(g, DT_F32, 0x1.8p23)), uop_float(g, DT_F32, -0x1.8p23));
        if (z != 0) y = add(g, y, uop_float(g, DT_F32, z));
        y = cast(g, y, t);
        if (k % 2) y = cast(g, add(g, cast(g, y, DT_I32), uop_int(g, DT_I32, (int64_t)-z)), DT_F32);
        prepare(g, &was, y);
        prepare(g, &now, graph_rewrite(g, y, rules_select(), 0, &o));
        int conversions = 0;
        for (uint32_t i = 0; i < now.n; i++)
            conversions +=
                now.order[i]->op == UOP_CAST && (k % 2 || dtype_is_float((DType)now.order[i]->src[0]->dtype));
        assert_int_equal(conversions > 0, row[k / 2].beyond > 0);
        for (uint64_t u = 0; u < UINT64_C(1) << 32; u += 99991) {
            double x = (double)float_of((uint32_t)u);
            run(&was, x), run(&now, x);
            assert_true(was.value[was.root->id] == now.value[now.root->id]);
        }
        run(&now, NAN);
        if (!(k % 2)) assert_true((double)now.value[now.root->id] == most || row[k / 2].beyond > 0);
        arena_free(was.arena);
        graph_free(g);
    }
}

/* Of a power: hard bases and exponents with each other, and any with any; a constant exponent too. */
static double worst_power(Code *c, const double *fixed, double *at)
{
    static const double hard[] = { 0.0, -0.0, 1, -1, 0.5, -0.5, 2, -2, 3, -3, 2.5, -2.5, 127, -127, 149, -149, 150, 1e4,
                                   -1e4, 16777215, -16777215, 16777216, 1e30, -1e30, INFINITY, -INFINITY, NAN, 0x1p-149,
                                   -0x1p-149, 0x1p-126, 0x1.fffffep127, 0.99999994, 1.0000001, -0.99999994, M_PI };
    enum { HARD = sizeof hard / sizeof *hard, SAMPLES = 60000 };
    uint64_t seed = 88172645463325252u;
    double most = 0;
    for (int k = 0; k < HARD * HARD + SAMPLES; k++) {
        double x, y;
        if (k < HARD * HARD) x = (double)(float)hard[k / HARD], y = (double)(float)hard[k % HARD];
        else {
            seed ^= seed << 13, seed ^= seed >> 7, seed ^= seed << 17;
            x = float_of((uint32_t)seed);
            y = k % 2 ? float_of((uint32_t)(seed >> 32)) : (double)(float)((double)(seed >> 40) * 0x1p-20 - 8);
            if (k % 4 < 2) x = (double)(float)(0x1p-22 * (double)(seed >> 40 & 0xffffff));
        }
        if (fixed) y = *fixed;
        double want = pow(x, y), got = run_two(c, x, y), e = ulps(got, want);
        if (dtype_round(DT_F32, want) == 0 && !isnan(got) && signbit(want) != signbit(got)) e = INFINITY;
        if (e > most) most = e, at[0] = x, at[1] = y;
    }
    return most;
}

static void powers_are_rounded(void **state)
{
    (void)state;
    static const double exponent[] = { NAN, 2.97, -0.75, 7, -3, 6, INFINITY, 0 };
    for (size_t k = 0; k < 2 * (sizeof exponent / sizeof *exponent); k++) {
        Graph *g = graph_new();
        U x = uop_param(g, DT_F32, NULL, 0, 0), y = uop_param(g, DT_F32, NULL, 0, 1);
        double fixed = (double)(float)exponent[k / 2], at[2] = { 0 };
        bool any = k / 2 == 0;
        Code c = code_from(g, (Code){ .x = x, .y = y }, pow_whole(g, x, any ? y : uop_float(g, DT_F32, fixed)),
                           &(SelectOptions){ .has_fma = k % 2 });
        for (uint32_t i = 0; i < c.n; i++) assert_true(c.order[i]->op != UOP_POW);
        double e = worst_power(&c, any ? NULL : &fixed, at);
        print_message("pow of %g: %.3f ulp at %.9g, %.9g, %u nodes\n", fixed, e, at[0], at[1], c.n);
        assert_true(e <= 0.55);
        arena_free(c.arena);
        graph_free(g);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(errors_stay_small), cmocka_unit_test(divisions_are_rounded),
                                        cmocka_unit_test(divisions_of_small_numbers_are_rounded),
                                        cmocka_unit_test(rounded_floats_stay_floats),
                                        cmocka_unit_test(powers_are_rounded) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
