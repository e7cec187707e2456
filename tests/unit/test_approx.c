/* Accuracy of what build_approx.c writes, evaluated op by op by the reference interpreter, against libm in double
 * precision. */
#include "backends/reference/reference.h"
#include "graph/build.h"
#include "tests/test.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>

static double sigmoid_exact(double x) { return 1 / (1 + exp(-x)); }
static U exp2_of(Graph *g, U x) { return exp2_(g, x); }

typedef struct {
    const char *name;
    U (*build)(Graph *g, U x);
    double (*exact)(double x);
    DType dtype;
    double from, to, ulps;
} Case;
static const Case cases[] = {
    { "exp", exp_, exp, DT_F32, -104, 89, 2 },       { "exp", exp_, exp, DT_F64, -740, 709, 2 },
    { "exp2", exp2_of, exp2, DT_F32, -140, 128, 0.51 }, { "log", log_, log, DT_F32, 1e-30, 1e30, 1.6 },
    { "log", log_, log, DT_F32, 0.5, 2, 1.6 },         { "cos", cos_, cos, DT_F32, -2.9, 2.9, 1.6 },
    { "tanh", tanh_, tanh, DT_F32, -12, 12, 1.6 },     { "tanh", tanh_, tanh, DT_F64, -20, 20, 2.1 },
    { "tanh", tanh_, tanh, DT_F32, -1e-4, 1e-4, 0.6 }, { "erf", erf_, erf, DT_F32, -6, 6, 1.5 },
    { "erf", erf_, erf, DT_F32, -1e-6, 1e-6, 1 },      { "erf", erf_, erf, DT_F64, -6.5, 6.5, 24 },
    { "sigmoid", sigmoid, sigmoid_exact, DT_F32, -87, 40, 3 }, { "exp", exp_, exp, DT_F16, -16, 11, 0.51 },
    { "tanh", tanh_, tanh, DT_BF16, -5, 5, 0.51 },
};

/* Units in the last place of dtype t at v. */
static double ulp(DType t, double v)
{
    int digits = t == DT_F64 ? 53
        : t == DT_F32        ? 24
        : t == DT_F16        ? 11
                             : 8,
        least = t == DT_F64 ? -1074
        : t == DT_F32       ? -149
        : t == DT_F16       ? -24
                            : -133,
        e;
    frexp(v, &e);
    return ldexp(1, e - digits > least ? e - digits : least);
}

static double double_at(const RefTensor *t, int64_t i)
{
    if (t->dtype == DT_F64) return ((const double *)t->data)[i];
    if (t->dtype == DT_F32) return ((const float *)t->data)[i];
    return NAN;
}

static bool within(const Case *c)
{
    enum { N = 20001 };
    Graph *g = graph_new();
    double *in = malloc(N * sizeof *in), worst = 0, where = 0;
    for (int i = 0; i < N; i++) in[i] = dtype_round(c->dtype, c->from + (c->to - c->from) * i / (N - 1));
    U x = cast(g, tensor_const(g, DT_F64, (const int64_t[]){ N }, 1, in, N * sizeof *in, NULL), c->dtype),
      y = cast(g, c->build(g, x), DT_F64);
    RefTensor out;
    assert_int_equal(graph_error(g), TG_OK);
    assert_int_equal(ref_eval(&out, g, &y, 1, &(RefInput){ 0 }), TG_OK);
    for (int i = 0; i < N; i++) {
        double want = c->exact(in[i]), e = fabs(double_at(&out, i) - want) / ulp(c->dtype, want);
        if (c->dtype == DT_F32 && fabs(want) > (double)FLT_MAX) e = isinf(double_at(&out, i)) ? 0 : 1e9;
        if (!(e <= worst)) worst = e, where = in[i];
    }
    if (getenv("SHOW") || !(worst <= c->ulps))
        print_message("%s %s: %.2f ulp at %.9g\n", c->name, dtype_name(c->dtype), worst, where);
    ref_tensor_free(&out);
    graph_free(g);
    free(in);
    return worst <= c->ulps;
}

static void within_ulps(void **state)
{
    (void)state;
    bool all = true;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) all &= within(&cases[i]);
    assert_true(all);
}

static double at(U (*f)(Graph *g, U x), double v)
{
    Graph *g = graph_new();
    RefTensor out;
    U y = cast(g, f(g, scalar(g, DT_F32, v)), DT_F64);
    assert_int_equal(ref_eval(&out, g, &y, 1, &(RefInput){ 0 }), TG_OK);
    double r = double_at(&out, 0);
    ref_tensor_free(&out);
    graph_free(g);
    return r;
}

static void special_values(void **state)
{
    (void)state;
    assert_true(at(exp_, INFINITY) == INFINITY && at(exp_, -INFINITY) == 0 && isnan(at(exp_, NAN)) &&
                at(exp_, 0) == 1 && at(exp_, 1e30) == INFINITY);
    assert_true(at(sigmoid, INFINITY) == 1 && at(sigmoid, -INFINITY) == 0 && isnan(at(sigmoid, NAN)) &&
                at(sigmoid, 0) == 0.5);
    assert_true(at(tanh_, INFINITY) == 1 && at(tanh_, -INFINITY) == -1 && isnan(at(tanh_, NAN)) && at(tanh_, 0) == 0);
    assert_true(at(erf_, INFINITY) == 1 && at(erf_, -INFINITY) == -1 && isnan(at(erf_, NAN)) && at(erf_, 0) == 0);
    assert_true(at(log_, 0) == -INFINITY && isnan(at(log_, -1)) && at(log_, 1) == 0 && at(log_, INFINITY) == INFINITY);
    assert_true(fabs(at(cos_, 1e4) - cos(1e4)) < 3e-7 && isnan(at(cos_, INFINITY)));
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(within_ulps), cmocka_unit_test(special_values) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
