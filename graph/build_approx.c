/* Functions that are approximated: exponentials, logarithms, powers, circular and error functions. EXP2, LOG2, SIN,
 * SQRT and POW stay whole nodes (a device's own instruction or graph/rules/decompose.c serves them); around them stands
 * what keeps their accuracy. Coefficients are our own least-maximum fits over the interval that the comment names;
 * errors are measured against double precision by tests/unit/test_approx.c. f16 and bf16 are computed in f32.
 */
#include <math.h>

#include "graph/build.h"

typedef U (*Function)(Graph *g, U x);

/* Runs f in f32 for narrow floats; NULL when x has a dtype that f computes itself. */
static U widened(Graph *g, const char *name, U x, Function f)
{
    if (is_error(x)) return x;
    if (!dtype_is_float(x->dtype)) return graph_fail(g, "%s: operand is %s", name, dtype_name(x->dtype));
    if (x->dtype == DT_F16 || x->dtype == DT_BF16) return cast(g, f(g, cast(g, x, DT_F32)), x->dtype);
    return NULL;
}

static U whole(Graph *g, Op op, U x, Function f)
{
    U w = widened(g, op_name(op), x, f);
    return w ? w : UOP(g, op, DT_VOID, NO_ARG, x);
}

U sqrt_(Graph *g, U x) { return whole(g, UOP_SQRT, x, sqrt_); }
U exp2_(Graph *g, U x) { return whole(g, UOP_EXP2, x, exp2_); }
U log2_(Graph *g, U x) { return whole(g, UOP_LOG2, x, log2_); }
U sin_(Graph *g, U x) { return whole(g, UOP_SIN, x, sin_); }

/* c[0] + s*(c[1] + s*(.. c[n-1])) */
static U polynomial(Graph *g, U s, const double *c, int n)
{
    U r = like(g, s, c[n - 1]);
    for (int i = n - 2; i >= 0; i--) r = add(g, mul(g, r, s), like(g, s, c[i]));
    return r;
}

/* An f64 without its low bits, so that a product with another such number is exact. */
static U high_part(Graph *g, U x)
{
    U kept = uop_int(g, DT_U64, (int64_t)UINT64_C(0xfffffffff8000000));
    return bitcast(g, and_(g, bitcast(g, x, DT_U64), kept), DT_F64);
}

/* e^x = 2^t * e^d, where t is x*log2(e) rounded and d the rounding error times ln 2, found by an exact product of high
 * parts: one rounded product would lose 10 bits at |x| = 700. d is below 2^-44, so 1 + d is its exponential. Where t is
 * not finite or absurd, 2^t alone is the answer. */
static U exp_double(Graph *g, U x)
{
    const double high = 0x1.7154764p+0, low = 4.3584687174185184e-09;
    U t = mul(g, x, like(g, x, M_LOG2E)), xh = high_part(g, x), xl = sub(g, x, xh);
    U e = add(g, add(g, sub(g, mul(g, xh, like(g, x, high)), t), mul(g, xl, like(g, x, high))),
              mul(g, x, like(g, x, low)));
    U d = where(g, lt(g, mul(g, t, t), like(g, x, 0x1p24)), mul(g, e, like(g, x, M_LN2)), like(g, x, 0));
    return mul(g, exp2_(g, t), add(g, d, like(g, x, 1)));
}

/* scale * e^f, where f = x - n ln 2 is at most half of ln 2; that is in two parts of which the first has 9 bits, so
 * that its product with n is exact. */
static U exp_rest(Graph *g, U x, U n, double scale)
{
    double c[] = { 1, 1, 0.499999934, 0.166665195, 0.0416684016, 0.00836885646, 0.00138143094 };
    for (int k = 0; k < 7; k++) c[k] *= scale;
    U f = add(g, add(g, x, mul(g, n, like(g, x, -0.693359375))), mul(g, n, like(g, x, 0.693359375 - M_LN2)));
    return polynomial(g, f, c, 7);
}

/* e^x = 2^(n-1) * 2 e^f, where n is the integer next to x*log2(e). n - 1 and twice the polynomial, because 2^128
 * overflows where e^x does not. x ends where e^x is 0 and where it is infinite, so that n and f are finite. */
U exp_(Graph *g, U x)
{
    const double magic = 12582912 + 253;    /* 1.5 * 2^23: what is added to it is rounded; 254: two powers' exponents */
    U w = widened(g, "exp", x, exp_);
    if (w) return w;
    if (x->dtype == DT_F64) return exp_double(g, x);
    x = min_(g, max_(g, x, like(g, x, -104)), like(g, x, 89));
    U shifted = add(g, mul(g, x, like(g, x, M_LOG2E)), like(g, x, magic)), n = sub(g, shifted, like(g, x, magic));
    return mul(g, exp_rest(g, x, n, 2), exp2_(g, sub(g, shifted, like(g, x, magic + 1))));
}

U log_(Graph *g, U x)
{
    U w = widened(g, "log", x, log_);
    return w ? w : mul(g, log2_(g, x), like(g, x, M_LN2));
}

/* Near the first zero sin(pi/2 - |x|) with pi/2 in two parts; elsewhere 1 - 2 sin(x/2)^2, because x/2 is exact and pi/2
 * - |x| is not. */
U cos_(Graph *g, U x)
{
    U w = widened(g, "cos", x, cos_);
    if (w) return w;
    bool wide = x->dtype == DT_F64;
    double high = wide ? M_PI_2 : (double)(float)M_PI_2,
           low = wide ? 6.123233995736766e-17 : M_PI_2 - (double)(float)M_PI_2;
    U a = abs_(g, x), near = lt(g, a, like(g, x, 3)), turned = add(g, sub(g, like(g, x, high), a), like(g, x, low));
    U s = sin_(g, where(g, near, turned, mul(g, a, like(g, x, 0.5))));
    return where(g, near, s, sub(g, like(g, x, 1), mul(g, like(g, x, 2), mul(g, s, s))));
}

/* base^n for n >= 0, by squaring. */
static U power(Graph *g, U base, int64_t n)
{
    U r = NULL;
    for (; n; n >>= 1) {
        if (n & 1) r = r ? mul(g, r, base) : base;
        if (n > 1) base = mul(g, base, base);
    }
    return r ? r : expand_like(g, like(g, base, 1), base);
}

/* Integers: the product over the exponent's bits of base^(2^bit), 6 of them: higher ones overflow but for 0, 1 and -1.
 * A negative exponent gives 0, but for the bases 1 and -1, whose powers have a period that divides 64. */
static U int_power(Graph *g, U a, U b)
{
    U r = like(g, a, 1), at = a, zero = like(g, b, 0);
    for (int bit = 0; bit < 6; bit++, at = mul(g, at, at))
        r = where(g, ne(g, and_(g, b, like(g, b, 1 << bit)), zero), mul(g, r, at), r);
    U unit = or_(g, eq(g, a, like(g, a, 1)), eq(g, a, like(g, a, -1)));
    return where(g, and_(g, lt(g, b, zero), not_(g, unit)), like(g, a, 0), r);
}

static U float_power(Graph *g, U a, U b)
{
    double n = uop_is_const(b) ? uop_const_float(b) : NAN;
    if (n == 0.5) return sqrt_(g, a);
    if (n == -1) return recip(g, a);
    if (n == 0 || n == 1 || n == 2 || n == 3 || n == 4) return power(g, a, (int64_t)n);
    if (a->dtype == DT_F16 || a->dtype == DT_BF16)
        return cast(g, float_power(g, cast(g, a, DT_F32), cast(g, b, DT_F32)), a->dtype);
    return pow_whole(g, a, b);
}

/* numpy's power; the result has a's dtype. -0 and -Inf to 0.5 are those of the square root. */
U pow_(Graph *g, U a, U b)
{
    if (is_error(a) || is_error(b)) return is_error(a) ? a : b;
    if (dtype_is_float(a->dtype)) return float_power(g, a, cast(g, b, a->dtype));
    if (dtype_is_float(b->dtype)) return cast(g, pow_(g, cast(g, a, DT_F64), cast(g, b, DT_F64)), a->dtype);
    if (uop_is_const(b) && b->arg.i >= 0 && b->arg.i < 64) return power(g, a, b->arg.i);
    return int_power(g, a, b);
}

/* 1 / (1 + e^-x). e^-x as in exp_, but x ends at 87, where 1 + e^-x is 1, and at -89, where n is 128 and 2^n Inf: 0
 * then. So 2^n is one factor. */
U sigmoid(Graph *g, U x)
{
    const double magic = 12582912 + 127;
    U w = widened(g, "sigmoid", x, sigmoid), one = like(g, x, 1);
    if (w) return w;
    if (x->dtype == DT_F64) return recip(g, add(g, one, exp_(g, neg(g, x))));
    U y = max_(g, neg(g, max_(g, x, like(g, x, -89))), like(g, x, -87));
    U shifted = add(g, mul(g, y, like(g, x, M_LOG2E)), like(g, x, magic)), n = sub(g, shifted, like(g, x, magic));
    return recip(g, add(g, one, mul(g, exp_rest(g, y, n, 1), exp2_(g, sub(g, shifted, like(g, x, magic))))));
}

/* |x| < 0.65: x + x^3 P(x^2) (f32), Lambert's continued fraction (f64); else 1 - 2e / (e + 1) of e = e^-2|x|, where the
 * rounding of 2|x|log2(e) no longer shows; from 2^-30 on that is 1. */
U tanh_(Graph *g, U x)
{
    static const double c[] = { -0.333332598, 0.133308303, -0.0536880211, 0.0204694145, -0.00551515878 };
    U w = widened(g, "tanh", x, tanh_);
    if (w) return w;
    U s = mul(g, x, x), a = abs_(g, x), one = like(g, x, 1), small;
    if (x->dtype == DT_F64) {
        small = like(g, x, 19);
        for (int n = 17; n >= 1; n -= 2) small = add(g, like(g, x, n), div_(g, s, small));
        small = div_(g, x, small);
    } else small = add(g, x, mul(g, mul(g, x, s), polynomial(g, s, c, 5)));
    U e = x->dtype == DT_F64 ? exp_(g, mul(g, a, like(g, x, -2)))
                             : exp2_(g, max_(g, mul(g, a, like(g, x, -2 * M_LOG2E)), like(g, x, -30)));
    U half = like(g, x, 0.5), large = sub(g, one, div_(g, e, add(g, mul(g, e, half), half)));
    return with_sign_of(g, where(g, lt(g, a, like(g, x, 0.65)), small, large), x);      /* of 0 too */
}

/* 2/sqrt(pi) x e^-s (1 + 2s/3 (1 + 2s/5 (1 + ..))): all terms positive; 110 of them serve s = 36. Beyond 6 it is 1. */
static U erf_double(Graph *g, U x)
{
    U a = min_(g, abs_(g, x), like(g, x, 6)), s = mul(g, a, a), one = like(g, x, 1), r = one;
    for (int n = 110; n >= 1; n--) r = add(g, one, mul(g, mul(g, s, like(g, x, 2.0 / (2 * n + 1))), r));
    U y = mul(g, mul(g, a, like(g, x, M_2_SQRTPI)), mul(g, exp_(g, neg(g, s)), r));
    return with_sign_of(g, where(g, gt(g, abs_(g, x), like(g, x, 6)), one, y), x);
}

/* |x| < 1: x + x P(x^2); else 1 - 2^R(-|x|), where R fits log2(erfc) on [1, 4]; 1 from there on. */
U erf_(Graph *g, U x)
{
    static const double p[] = { 0.128379166,   -0.376126258,    0.112835851,   -0.0268538118,
                                0.00518832747, -0.000801019188, 7.85385586e-05 };
    static const double r[] = { 0.000271282714, 1.62963718,    -0.913543216,  0.156414927,
                                0.0363678168,   0.00606589697, 0.00063671311, 3.12874549e-05 };
    U w = widened(g, "erf", x, erf_);
    if (w) return w;
    if (x->dtype == DT_F64) return erf_double(g, x);
    U a = abs_(g, x), s = mul(g, x, x), one = like(g, x, 1), small = add(g, x, mul(g, x, polynomial(g, s, p, 7)));
    /* R is negative and above -27 there; both are said for 2^R */
    U log = abs_(g, polynomial(g, max_(g, neg(g, a), like(g, x, -4)), r, 8));
    U large = sub(g, one, exp2_(g, max_(g, neg(g, log), like(g, x, -27))));
    return with_sign_of(g, where(g, lt(g, a, one), small, large), x);
}
