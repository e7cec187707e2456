/* What a target cannot say, in ops that it can. In: kernel level after expand, scalars or vectors. Out: the same
 * without what SelectOptions lacks.
 *
 * Polynomials of f32 are straight code of MULACC, WHERE, shifts and casts, so that a vector of lanes stays a vector;
 * their coefficients are our own least-maximum fits over the interval that the comment names, and
 * tests/rules/test_math.c holds their error (in ulp, against double precision) under a bound. f64 stays whole for the
 * library. Each row takes an op away that none brings back, or narrows to a type that no row widens.
 */
#include "graph/guard.h"
#include "graph/rules/pat.h"
#include "graph/rules/rules.h"

#include <float.h>
#include <math.h>
#include <string.h>

static const SelectOptions *options(const Match *m)
{
    static const SelectOptions none;
    return m->user ? m->user : &none;
}

/* ---- words for formulas: the first operand's dtype serves constants ---- */

typedef const UOp *V;
static V num(Graph *g, V a, double v) { return uop_const_like(g, (DType)a->dtype, v); }
static V add(Graph *g, V a, V b) { return ALU2(g, ADD, a, b); }
static V mul(Graph *g, V a, V b) { return ALU2(g, MUL, a, b); }
static V mad(Graph *g, V a, V b, V c) { return ALU2(g, ADD, ALU2(g, MUL, a, b), c); }
static V times(Graph *g, V a, double v) { return mul(g, a, num(g, a, v)); }
static V plus(Graph *g, V a, double v) { return add(g, a, num(g, a, v)); }
static V less(Graph *g, V a, V b) { return ALU2(g, CMPLT, a, b); }
static V pick(Graph *g, V p, V a, V b) { return ALU3(g, WHERE, p, a, b); }
static V bits(Graph *g, V a, DType t) { return UOP(g, UOP_BITCAST, t, NO_ARG, a); }
static V word(Graph *g, V a, int64_t v) { return uop_int(g, (DType)a->dtype, v); }
static V shl(Graph *g, V a, int64_t n) { return ALU2(g, SHL, a, word(g, a, n)); }
static V shr(Graph *g, V a, int64_t n) { return ALU2(g, SHR, a, word(g, a, n)); }
static V and_(Graph *g, V a, int64_t v) { return ALU2(g, AND, a, word(g, a, v)); }

enum { FITS = 1 };                  /* tag of a CAST of a float to an integer which fits, or does not matter */
static V convert(Graph *g, DType t, V a) { return uop_tagged(g, UOP(g, UOP_CAST, t, NO_ARG, a), FITS); }

/* k[0] + a*(k[1] + a*(.. k[n-1])) */
static V polynomial(Graph *g, V a, const double *k, int n)
{
    V r = num(g, a, k[n - 1]);
    for (int i = n - 2; i >= 0; i--) r = mad(g, r, a, num(g, a, k[i]));
    return r;
}

/* ---- where a float lies ---- */

/* An end of a sum, rounded as the sum is; `open` where it may lie beyond what is found here. */
static double end_of_sum(DType t, double a, double b, double open)
{
    double s = a + b;
    return isinf(s) || t == DT_F64 || (s - a == b && s - b == a) ? dtype_round(t, s) : open;
}

/* A float whose sign is cleared. */
static FloatBounds of_bits(V image)
{
    bool cleared = image->dtype == DT_U32 && image->op == UOP_AND && uop_is_const(image->src[1]) &&
        (image->src[1]->arg.i & 0xffffffff) == 0x7fffffff;
    return (FloatBounds){ cleared ? 0 : -INFINITY, INFINITY };
}

FloatBounds float_bounds(V a, int depth)
{
    static const FloatBounds all = { -INFINITY, INFINITY };
    FloatBounds x, y;
    DType t = (DType)a->dtype;
    double c = 0;
    if (a->op == UOP_CONST) return (FloatBounds){ uop_const_float(a), uop_const_float(a) };
    if (!depth || !a->nsrc) return all;
    if (a->op == UOP_CAST && dtype_is_int((DType)a->src[0]->dtype) && a->src[0]->dtype != DT_U64)
        return (FloatBounds){ dtype_round(t, (double)a->src[0]->vmin), dtype_round(t, (double)a->src[0]->vmax) };
    if (a->nsrc > 1 && a->src[1]->op == UOP_CONST && dtype_is_float((DType)a->src[1]->dtype))
        c = uop_const_float(a->src[1]);
    switch (a->op) {
    case UOP_BITCAST: return of_bits(a->src[0]);
    case UOP_GUARD:                                         /* where it holds; else the run is made again */
        if (guard_kind(a->arg) != GUARD_FINITE || t != DT_F32) return all;
        return (FloatBounds){ -FLT_MAX, FLT_MAX };
    case UOP_CAST:
    case UOP_TRUNC: return dtype_is_float((DType)a->src[0]->dtype) ? float_bounds(a->src[0], depth - 1) : all;
    case UOP_MAX:
        x = float_bounds(a->src[0], depth - 1), y = float_bounds(a->src[1], depth - 1);
        return (FloatBounds){ fmax(x.lo, y.lo), fmax(x.hi, y.hi) };
    case UOP_MIN:
        x = float_bounds(a->src[0], depth - 1), y = float_bounds(a->src[1], depth - 1);
        return (FloatBounds){ fmin(x.lo, y.lo), fmin(x.hi, y.hi) };
    case UOP_MUL:
    case UOP_MULACC: {
        if (a->src[1]->op != UOP_CONST || !(fabs(c) > 0)) return all;
        x = float_bounds(a->src[0], depth - 1);
        double low = (c < 0 ? x.hi : x.lo) * c, high = (c < 0 ? x.lo : x.hi) * c, l = dtype_round(t, low),
               h = dtype_round(t, high);
        if (a->op == UOP_MUL) return (FloatBounds){ l, h };
        y = float_bounds(a->src[2], depth - 1);             /* rounded once or twice */
        return (FloatBounds){ fmin(end_of_sum(t, low, y.lo, -INFINITY), end_of_sum(t, l, y.lo, -INFINITY)),
                           fmax(end_of_sum(t, high, y.hi, INFINITY), end_of_sum(t, h, y.hi, INFINITY)) };
    }
    case UOP_ADD:
        x = float_bounds(a->src[0], depth - 1), y = float_bounds(a->src[1], depth - 1);
        return (FloatBounds){ end_of_sum(t, x.lo, y.lo, -INFINITY),
                           end_of_sum(t, x.hi, y.hi, INFINITY) };
    case UOP_WHERE:
        x = float_bounds(a->src[1], depth - 1), y = float_bounds(a->src[2], depth - 1);
        /* not below a constant */
        if (a->src[0]->op == UOP_CMPLT && a->src[0]->src[0] == a->src[2] && uop_is_const(a->src[0]->src[1]))
            y.lo = fmax(y.lo, uop_const_float(a->src[0]->src[1]));
        /* the smaller */
        if (a->src[0]->op == UOP_CMPLT && a->src[0]->src[0] == a->src[1] && a->src[0]->src[1] == a->src[2])
            return (FloatBounds){ fmin(x.lo, y.lo), fmin(x.hi, y.hi) };
        return (FloatBounds){ fmin(x.lo, y.lo), fmax(x.hi, y.hi) };
    default: return all;
    }
}

/* ---- 2^a ---- */

/* 2^(n + more) for n + more in -126 .. 128, whose last is Inf. n: an i32 whose upper 23 bits may be anything. */
static V power_above(Graph *g, V n, int64_t more)
{
    int64_t bias = (more + 127) & 511;
    return bits(g, shl(g, bias ? ALU2(g, ADD, n, word(g, n, bias)) : n, 23), DT_F32);
}

/* Adding 1.5*2^23 leaves a float's nearest integer in the low bits of the sum, adding 127 more that plus 127, which is
 * a power's exponent, and twice 127 that of two powers. */
enum { MAGIC_POWER = MAGIC + 127, MAGIC_POWERS = MAGIC + 2 * 127 };

typedef struct { V half, rest; } Powers;

/* 2^(n + more) for n + more in -252 .. 254 as a product of two powers, for each of which the exponent's bias is added
 * before they are parted. n: an i32 whose upper 22 bits may be anything. */
static Powers powers_above(Graph *g, V n, int64_t more)
{
    int64_t bias = (more + 2 * 127) & 1023;
    V sum = bias ? ALU2(g, ADD, n, word(g, n, bias)) : n, half = shr(g, sum, 1),
      rest = ALU2(g, ADD, sum, ALU2(g, MUL, half, word(g, n, -1)));
    return (Powers){ bits(g, shl(g, half, 23), DT_F32), bits(g, shl(g, rest, 23), DT_F32) };
}

/* a = n + f with |f| <= 1/2; 2^f by a polynomial that is 1 at 0, so whole powers are exact; 2^n in two factors, so that
 * overflow and denormals round once, unless there are none. */
static V exp2_f32(Graph *g, V a)
{
    static const double k[] = { 1.0,
                                0.6931472057371963,
                                0.2402264689047553,
                                0.05550328777078189,
                                0.009618488974239474,
                                0.0013399931182934881,
                                0.000153458074000031 };
    V top = num(g, a, 129), low = num(g, a, -151);
    FloatBounds known = float_bounds(a, 8);
    if (known.lo >= -126 && known.hi <= 127) {
        V above = plus(g, a, MAGIC_POWER), rest = add(g, a, times(g, plus(g, above, -MAGIC_POWER), -1));
        return mul(g, polynomial(g, rest, k, 7), power_above(g, bits(g, above, DT_I32), MAGIC - MAGIC_POWER));
    }
    if (!(known.hi <= 129)) a = pick(g, less(g, top, a), top, a);
    if (!(known.lo >= -151)) a = pick(g, less(g, a, low), low, a);
    V shifted = plus(g, a, MAGIC_POWERS), f = add(g, a, times(g, plus(g, shifted, -MAGIC_POWERS), -1));
    Powers two = powers_above(g, bits(g, shifted, DT_I32), MAGIC - MAGIC_POWERS);
    return mul(g, mul(g, polynomial(g, f, k, 7), two.half), two.rest);
}

/* ---- log2(a) ---- */

typedef struct { V f, whole; } Parted;

/* a = 2^whole * (1 + f), 1 + f between sqrt(1/2) and sqrt(2), of a positive number; whole is an f32. */
static Parted parted(Graph *g, V a)
{
    V tiny = less(g, a, num(g, a, 0x1p-126)), b = pick(g, tiny, times(g, a, 0x1p23), a);
    V i = bits(g, b, DT_I32), n = shr(g, ALU2(g, ADD, i, word(g, i, -0x3f3504f3)), 23);
    V f = plus(g, bits(g, ALU2(g, ADD, i, ALU2(g, MUL, n, word(g, n, -(1 << 23)))), DT_F32), -1);
    return (Parted){ f, add(g, cast_to(g, DT_F32, n), pick(g, tiny, num(g, a, -23), num(g, a, 0))) };
}

/* log2(1 + f) = f*log2(e) + f*f*q(f). log2(e) in two parts, since near 1 there is no power to hide an error. */
static V log2_f32(Graph *g, V a)
{
    static const double q[] = { -0.7213473518523359,  0.480898234055676,    -0.3606966242191446,
                                0.2885676398162982,   -0.23961803642087381, 0.20459774316179521,
                                -0.19105583275673305, 0.1861870579168119,   -0.10997752492638546 };
    const double log2e = 0x1.715476p+0, log2e_low = 0x1.4ae0bfp-26;
    Parted p = parted(g, a);
    V f = p.f, low = mad(g, mul(g, f, f), polynomial(g, f, q, 9), times(g, f, log2e_low));
    V r = add(g, mad(g, f, num(g, f, log2e), low), p.whole);
    /* Inf and NaN are their own logarithm */
    r = pick(g, less(g, a, num(g, a, INFINITY)), r, a);
    r = pick(g, less(g, a, num(g, a, 0)), num(g, a, NAN), r);
    return pick(g, ALU2(g, CMPNE, a, num(g, a, 0)), r, num(g, a, -INFINITY));
}

/* ---- a^b ---- */

/* log2 in double precision of a size whose sign is cleared: log2(1 + f) = s * q(s * s) for s = f / (2 + f), within
 * 5e-12 of it. */
static V log2_f64(Graph *g, V size)
{
    static const double q[] = { 2.885390081790142, 0.961796673266225, 0.5770836003423215, 0.41167174509385845,
                                0.3407489933693298 };
    Parted p = parted(g, size);
    V d = cast_to(g, DT_F64, p.f), s = ALU2(g, DIV, d, plus(g, d, 2));
    V r = mad(g, s, polynomial(g, mul(g, s, s), q, 5), cast_to(g, DT_F64, p.whole));
    V wide = cast_to(g, DT_F64, size);
    r = pick(g, less(g, wide, num(g, wide, INFINITY)), r, wide);
    return pick(g, ALU2(g, CMPNE, wide, num(g, wide, 0)), r, num(g, r, -INFINITY));
}

/* 2^t of a double, of which an f32 is left: 0 and Inf beyond +-160. Within 2e-9 of it before it is rounded. */
static V exp2_f64(Graph *g, V t)
{
    static const double k[] = { 1.0000000005585945,    0.6931472058869188,    0.24022646867818434, 0.05550328450795914,
                                0.009618490395108302, 0.0013400063306631374, 0.0001534569685341209 };
    const double magic = 0x1.8p52;                  /* leaves the nearest integer in the low bits */
    V top = num(g, t, 160), low = num(g, t, -160);
    t = pick(g, less(g, top, t), top, t);
    t = pick(g, less(g, t, low), low, t);
    V shifted = plus(g, t, magic), f = add(g, t, times(g, plus(g, shifted, -magic), -1)), n = bits(g, shifted, DT_I64);
    V power = bits(g, shl(g, ALU2(g, ADD, n, word(g, n, 1023)), 52), DT_F64);
    return cast_to(g, DT_F32, mul(g, polynomial(g, f, k, 7), power));
}

/* As C's pow has it: 2^(b log2|a|); the sign is a's where b is an odd integer; NaN where a is negative and finite and b
 * no integer; 1 where b is 0 or a is 1, whatever the other is. */
static V pow_f32(Graph *g, V a, V b)
{
    bool fixed = uop_is_const(b) && isfinite(uop_const_float(b)) && uop_const_float(b) != 0;
    V i = bits(g, a, DT_I32), size = bits(g, and_(g, i, 0x7fffffff), DT_F32);
    V t = mul(g, log2_f64(g, size), cast_to(g, DT_F64, b));
    if (!fixed) t = pick(g, ALU2(g, CMPNE, cast_to(g, DT_F64, size), num(g, t, 1)), t, num(g, t, 0));
    V r = exp2_f64(g, t), broken = ALU2(g, CMPNE, b, ALU1(g, TRUNC, b)),
      odd = ALU2(g, CMPNE, b, times(g, ALU1(g, TRUNC, times(g, b, 0.5)), 2)), none = word(g, i, 0);
    V sign = pick(g, broken, none, pick(g, odd, and_(g, i, 0x80000000), none));
    r = bits(g, ALU2(g, XOR, bits(g, r, DT_I32), sign), DT_F32);
    V negative = pick(g, less(g, num(g, a, -INFINITY), a), less(g, a, num(g, a, 0)), uop_const_like(g, DT_BOOL, 0));
    r = pick(g, broken, pick(g, negative, num(g, a, NAN), r), r);
    return fixed ? r : pick(g, ALU2(g, CMPNE, b, num(g, b, 0)), r, num(g, a, 1));
}

/* ---- sin(a) ---- */

typedef struct { V n, r; } Quadrant;        /* |a| = n * pi/2 + r, n modulo 4 as i32, r an f64 of at most pi/4 */

/* Up to SMALL_ANGLE: n is small enough that n times the first part of pi/2 is exact in double precision. */
static Quadrant reduce_small(Graph *g, V a)
{
    V d = cast_to(g, DT_F64, a), n = ALU1(g, TRUNC, plus(g, times(g, d, M_2_PI), 0.5));
    V r = mad(g, n, num(g, n, -0x1.921fb544p+0), d);
    return (Quadrant){ convert(g, DT_I32, n), mad(g, n, num(g, n, -0x1.0b4611a626331p-34), r) };
}

/* Above: a is a 24-bit integer times 2^e; of its product with 2/pi only 64 bits matter, two before the point (the
 * quadrant) and 62 behind. They come from a window of 96 bits of 2/pi, of which the table holds 32-bit words, the first
 * in front of the point. */
static V window_word(Graph *g, V index, int j)
{
    static const uint32_t two_over_pi[8] = { 0,          0xa2f9836e, 0x4e441529, 0xfc2757d1,
                                             0xf534ddc0, 0xdb629599, 0x3c439041, 0xfe5163ab };
    V r = uop_int(g, DT_U64, two_over_pi[j + 4]);
    for (int i = 3; i >= 0; i--)
        r = pick(g, less(g, index, word(g, index, i + 1)), uop_int(g, DT_U64, two_over_pi[j + i]), r);
    return r;
}

static V or_(Graph *g, V a, V b) { return ALU2(g, OR, a, b); }

static Quadrant reduce_large(Graph *g, V a)
{
    V i = bits(g, a, DT_U32), e = shr(g, i, 23),
      m = cast_to(g, DT_U64, or_(g, and_(g, i, 0x7fffff), word(g, i, 0x800000)));
    V at = ALU2(g, ADD, e, word(g, e, 30 - 150)), index = shr(g, at, 5), s = cast_to(g, DT_U64, and_(g, at, 31));
    V first = or_(g, shl(g, window_word(g, index, 0), 32), window_word(g, index, 1));
    V second = or_(g, shl(g, window_word(g, index, 2), 32), window_word(g, index, 3));
    V back = ALU2(g, ADD, word(g, s, 63), ALU2(g, MUL, s, word(g, s, -1)));
    V high = or_(g, ALU2(g, SHL, first, s), ALU2(g, SHR, shr(g, second, 1), back)),
      low = shr(g, ALU2(g, SHL, second, s), 32);
    V product = ALU2(g, ADD, mul(g, high, m), shr(g, mul(g, low, m), 32));
    V n = shr(g, ALU2(g, ADD, product, word(g, m, INT64_C(1) << 61)), 62);
    V rest = ALU2(g, ADD, product, ALU2(g, MUL, n, word(g, n, -(INT64_C(1) << 62))));
    return (Quadrant){ cast_to(g, DT_I32, n),
                       times(g, cast_to(g, DT_F64, cast_to(g, DT_I64, rest)), 0x1.921fb54442d18p-62) };
}

static V sin_f32(Graph *g, V a)
{
    static const double s[] = { -0.16666654939987136, 0.008332177906383954, -0.00019517265753606414 };
    static const double k[] = { 0.04166664686006574, -0.0013887367193829397, 2.4438413621068452e-05 };
    V i = bits(g, a, DT_U32), sign = and_(g, i, 0x80000000), size = bits(g, and_(g, i, 0x7fffffff), DT_F32),
      small = less(g, size, num(g, a, SMALL_ANGLE));
    FloatBounds known = float_bounds(a, 8);
    bool all_small = fmax(-known.lo, known.hi) <= SMALL_ANGLE;
    Quadrant near = reduce_small(g, size), far = all_small ? near : reduce_large(g, size);
    V n = pick(g, small, near.n, far.n), r = cast_to(g, DT_F32, pick(g, small, near.r, far.r)), z = mul(g, r, r);
    V sine = mad(g, mul(g, r, z), polynomial(g, z, s, 3), r);
    V cosine = plus(g, mad(g, mul(g, z, z), polynomial(g, z, k, 3), times(g, z, -0.5)), 1);
    V v = pick(g, ALU2(g, CMPNE, and_(g, n, 1), word(g, n, 0)), cosine, sine);
    V turned = ALU2(g, XOR, ALU2(g, XOR, bits(g, v, DT_U32), shl(g, cast_to(g, DT_U32, and_(g, n, 2)), 30)), sign);
    return pick(g, less(g, size, num(g, a, INFINITY)), bits(g, turned, DT_F32), num(g, a, NAN));
}

/* x + c where x is a float below 2^24 to which 1.5*2^23 was added, or a little more: an integer, in the low bits of x.
 */
static bool is_shifted(V a)
{
    V x = a->op == UOP_ADD ? a->src[0] : NULL, last = x && x->nsrc > 1 ? x->src[x->nsrc - 1] : NULL;
    if (!last || (x->op != UOP_ADD && x->op != UOP_MULACC)) return false;
    if (!uop_is_const(a->src[1]) || !uop_is_const(last)) return false;
    double c = uop_const_float(a->src[1]), added = uop_const_float(last);
    return added >= MAGIC && added < MAGIC + 512 && added == trunc(added) && c == trunc(c) && fabs(c) < 0x1p24;
}

static V whole_power(const Match *m)
{
    Graph *g = m->g;
    V a = m->slot[X];
    if (m->root->tag || options(m)->whole_math || a->dtype != DT_F32 || !is_shifted(a)) return NULL;
    FloatBounds known = float_bounds(a, 8);
    V n = bits(g, a->src[0], DT_I32);
    if (known.lo >= -126 && known.hi <= 128)
        return power_above(g, n, (int64_t)uop_const_float(a->src[1]) + MAGIC - MAGIC_BITS);
    if (options(m)->whole_exp2) return uop_tagged(g, m->root, WHOLE_TAG);
    if (!(known.lo >= -252 && known.hi <= 254)) return NULL;
    Powers two = powers_above(g, n, (int64_t)uop_const_float(a->src[1]) + MAGIC - MAGIC_BITS);
    return mul(g, two.half, two.rest);
}

static V normal_power(const Match *m)
{
    bool mine = options(m)->whole_exp2 && !m->root->tag && m->root->dtype == DT_F32;
    return mine && float_bounds(m->slot[X], 8).lo >= -126 ? uop_tagged(m->g, m->root, NORMAL_TAG) : NULL;
}

static bool is_vector(V u)
{
    int64_t lanes = u->shape->rank == 1 ? u->shape->dim[0]->vmax : 0;
    return lanes == 4 || lanes == 8 || lanes == 16;
}

/* A vector's product with a power that the device makes whole is one instruction of it. */
static V scaled(const Match *m)
{
    V a = m->slot[X], power = m->slot[Y];
    if (a->op == UOP_EXP2) a = m->slot[Y], power = m->slot[X];
    if (power->op != UOP_EXP2 || power->tag != WHOLE_TAG || !is_vector(m->root)) return NULL;
    return ALU2(m->g, SCALE, a, power->src[0]);
}

/* x, or the smaller of x and a number that no x below -126 reaches */
static bool is_same_below(V u, V x)
{
    if (u == x) return true;
    if (u->op != UOP_MIN || (u->src[0] != x && u->src[1] != x)) return false;
    V most = u->src[u->src[0] == x];
    return uop_is_const(most) && uop_const_float(most) >= -126;
}

/* x < -126 ? 0 : 2^(the larger of x and -126): a mask of the scaling. */
static V flushed(const Match *m)
{
    V power = m->slot[Y], least = m->slot[C];
    bool normal = power->op == UOP_EXP2 && power->tag == NORMAL_TAG && power->src[0]->op == UOP_MAX;
    if (!options(m)->whole_exp2 || !is_vector(m->root) || !normal) return NULL;
    if (least->dtype != DT_F32 || uop_const_float(least) != -126) return NULL;
    V most = power->src[0];
    bool first = most->src[0] == least;
    if ((!first && most->src[1] != least) || !is_same_below(most->src[first], m->slot[X])) return NULL;
    return uop_tagged(m->g, ALU1(m->g, EXP2, most->src[first]), FLUSH_TAG);
}

static bool by_polynomial(const Match *m) { return m->root->dtype == DT_F32 && !options(m)->whole_math; }
static bool exp2_by_polynomial(const Match *m) { return by_polynomial(m) && !options(m)->whole_exp2; }
static V make_exp2(const Match *m) { return exp2_f32(m->g, m->slot[X]); }
static V make_log2(const Match *m) { return log2_f32(m->g, m->slot[X]); }
static V make_pow(const Match *m) { return pow_f32(m->g, m->slot[X], m->slot[Y]); }
static V make_sin(const Match *m) { return sin_f32(m->g, m->slot[X]); }

static const Rule polynomials[] = {
    { "exp2-whole", P(EXP2, x), NULL, NULL, whole_power },
    { "exp2-normal", P(EXP2, x), NULL, NULL, normal_power },
    { "exp2-flush", P(WHERE, P(CMPLT, x, c), zero, y), NULL, NULL, flushed },
    { "exp2-f32", P(EXP2, x), NULL, exp2_by_polynomial, make_exp2 },
    { "scaled",   P(MUL, x, y), NULL, NULL, scaled },
    { "log2-f32", P(LOG2, x), NULL, by_polynomial, make_log2 },
    { "sin-f32",  P(SIN, x),  NULL, by_polynomial, make_sin },
    { "pow-f32",  P(POW, x, y), NULL, by_polynomial, make_pow },
};
const RuleTable table_polynomials = RULES(polynomials);

/* ---- division, multiply-add, shifts ---- */

static bool has_fma(const Match *m)
{
    return options(m)->has_fma && (m->root->dtype == DT_F32 || m->root->dtype == DT_F64);
}

/* log2 of a constant power of two, -1 else. */
static int exponent(const UOp *u)
{
    return u->arg.i > 0 && !(u->arg.i & (u->arg.i - 1)) ? __builtin_ctzll((uint64_t)u->arg.i) : -1;
}

static V shift_for_div(const Match *m)
{
    int n = exponent(m->slot[C]);
    return n < 0 || !is_int(m) ? NULL : n ? shr(m->g, m->slot[X], n) : m->slot[X];
}

static V mask_for_mod(const Match *m)
{
    return exponent(m->slot[C]) < 0 || !is_int(m) ? NULL : and_(m->g, m->slot[X], m->slot[C]->arg.i - 1);
}

/* A division by a constant, rounded as such: a product with its reciprocal is off by a bit at most, and what is left
 * over says by how much (Markstein). Where nothing is left, or what is left is not finite, the product is right: of
 * zeros and Infs. No number of a known range is an Inf, and what is left is taken away without a look: where nothing
 * is left that is +0, and a zero less +0 keeps its sign. Of constants from 1 on, or of numbers of a known range, so
 * that the product does not overflow; whose last bits are not all ones, for which the theorem does not hold. A result
 * below 2^-100 (of constants down to 2^-20: below 2^-60) may be next to the rounded one. */
static V by_reciprocal(const Match *m)
{
    Graph *g = m->g;
    V x = m->slot[X];
    double c = uop_const_float(m->slot[C]);
    int32_t image;
    float narrow = (float)c;
    memcpy(&image, &narrow, sizeof image);
    FloatBounds known = float_bounds(x, 8);
    bool small = fmax(-known.lo, known.hi) < 0x1p60 && fabs(c) > 0x1p-20;
    bool fits =
        x->dtype == DT_F32 && (small || fabs(c) >= 1) && fabs(c) < 0x1p60 && (image & 0x7fffff) != 0x7fffff;
    if (!fits || !has_fma(m)) return NULL;
    V inverse = num(g, x, (float)(1 / c)), q = mul(g, x, inverse), left = ALU3(g, MULACC, q, num(g, x, -c), x);
    if (small && c > 0) {
        V beyond = ALU3(g, MULACC, q, num(g, x, c), times(g, x, -1));
        return ALU3(g, MULACC, beyond, times(g, inverse, -1), q);
    }
    V size = bits(g, and_(g, bits(g, left, DT_U32), 0x7fffffff), DT_F32), some = less(g, num(g, x, 0), size);
    return pick(g, some, ALU3(g, MULACC, left, inverse, q), q);
}

/* ---- narrow floats: arithmetic in f32, each result rounded ---- */

static bool is_narrow(const Match *m, DType t)
{
    return (t == DT_F16 && !options(m)->has_f16) || (t == DT_BF16 && !options(m)->has_bf16);
}

static V widen(const Match *m)
{
    const UOp *u = m->root, *src[3];
    if (!op_is((Op)u->op, FLAG_ALU) || u->op == UOP_CAST || u->op == UOP_WHERE || !u->nsrc || u->nsrc > 3 ||
        !is_narrow(m, (DType)u->src[0]->dtype))
        return NULL;
    for (uint32_t k = 0; k < u->nsrc; k++) src[k] = cast_to(m->g, DT_F32, u->src[k]);
    return cast_to(m->g, (DType)u->dtype, uop_new(m->g, (Op)u->op, DT_VOID, u->arg, src, u->nsrc));
}

/* bf16 is the upper half of an f32. */
static V from_bf16(const Match *m)
{
    V a = m->slot[X];
    if (a->dtype != DT_BF16 || !is_narrow(m, DT_BF16)) return NULL;
    V f = bits(m->g, shl(m->g, cast_to(m->g, DT_U32, bits(m->g, a, DT_U16)), 16), DT_F32);
    return cast_to(m->g, (DType)m->root->dtype, f);
}

/* To nearest, ties to even: half of the last place, less one when that is even, carries upward. A NaN stays one. */
static V to_bf16(const Match *m)
{
    Graph *g = m->g;
    if (m->root->dtype != DT_BF16 || !is_narrow(m, DT_BF16)) return NULL;
    V f = cast_to(g, DT_F32, m->slot[X]), i = bits(g, f, DT_U32), odd = and_(g, shr(g, i, 16), 1);
    V up = shr(g, ALU2(g, ADD, ALU2(g, ADD, i, odd), word(g, i, 0x7fff)), 16),
      top = pick(g, ALU2(g, CMPNE, f, f), word(g, i, 0x7fc0), up);
    return bits(g, cast_to(g, DT_U16, top), DT_BF16);
}

/* ---- floats to integers: machines differ, and C says nothing, where the value does not fit ---- */

/* Truncation where it fits, else the nearest end of the type; NaN is 0. Machines take a NaN to 0 or to a number whose
 * low bits are 0, which serves the small types. */
static V saturated(const Match *m)
{
    Graph *g = m->g;
    V u = m->root, a = m->slot[X];
    DType t = (DType)u->dtype;
    if (u->tag == FITS || !dtype_is_int(t) || (a->dtype != DT_F32 && a->dtype != DT_F64)) return NULL;
    int bits = dtype_info[t].bits;
    bool is_signed = dtype_info[t].kind == KIND_SINT;
    double lo = is_signed ? -ldexp(1, bits - 1) : 0, end = ldexp(1, bits - is_signed);
    FloatBounds known = float_bounds(a, 8);
    V nan = ALU2(g, CMPNE, a, a), zero = num(g, a, 0);
    if (known.lo > lo - 1 && known.hi < end) return convert(g, t, bits < 32 ? a : pick(g, nan, zero, a));
    if (bits < 32) {                                            /* the ends are floats, too */
        V least = num(g, a, lo), most = num(g, a, end - 1);
        a = pick(g, less(g, a, least), least, a);
        return convert(g, t, pick(g, less(g, most, a), most, a));
    }
    V below = less(g, a, num(g, a, lo)), fits = less(g, a, num(g, a, end)),
      inside = ALU2(g, AND, fits, ALU2(g, CMPNE, below, uop_bool(g, true)));
    V v = convert(g, t, pick(g, inside, a, zero));
    if (is_signed) v = pick(g, below, uop_int(g, t, dtype_min(t)), v);
    return pick(g, fits, v, pick(g, nan, uop_int(g, t, 0), uop_int(g, t, t == DT_U64 ? -1 : dtype_max(t))));
}

/* ---- bytes that become words: machines have shifts and sums of bytes for long vectors at best ---- */

/* What is computed of bytes or halves of words without a carry, in words: int4 weights, eight to a vector. */
static V in_words(const Match *m)
{
    const UOp *u = m->root, *a = u->src[0];
    DType t = (DType)u->dtype, narrow = (DType)a->dtype;
    if ((a->op != UOP_ADD && a->op != UOP_AND && a->op != UOP_SHR) || !dtype_is_int(narrow) ||
        dtype_info[narrow].bits > 16 || dtype_info[t].bits < 32 || t == DT_INDEX ||
        (a->vmin <= dtype_min(narrow) && a->vmax >= dtype_max(narrow)))
        return NULL;
    const UOp *src[2] = { cast_to(m->g, DT_I32, a->src[0]), cast_to(m->g, DT_I32, a->src[1]) };
    return cast_to(m->g, t, uop_new(m->g, (Op)a->op, DT_VOID, a->arg, src, 2));
}

/* Of a term of a sum that is a sum itself it stays one (sched/expand.c). Of two products the first is the one that is
 * added to: terms of a loop are read in their order in memory, which is how processors foresee them (a row by a matrix
 * from memory, Zen 4: 31 GB/s, the second of four terms first 18). */
static V multiply_add(const Match *m)
{
    const UOp *first = m->root->src[0], *product = m->root->src[1];
    bool both = first->op == UOP_MUL && product->op == UOP_MUL;
    V sum = both ? ALU3(m->g, MULACC, product->src[0], product->src[1], first)
                 : ALU3(m->g, MULACC, m->slot[X], m->slot[Y], m->slot[Z]);
    return uop_tagged(m->g, sum, m->root->tag);
}

static bool cuts_float(const Match *m)
{
    double to = uop_const_float(m->slot[C]);
    return (m->root->dtype == DT_F32 || m->root->dtype == DT_F64) && !isnan(to) && to != 0;
}

/* -MAX(x * c, d) of a negative c is the smaller of x * -c and -d: one instruction, or a comparison and a choice. */
static V minimum(const Match *m)
{
    Graph *g = m->g;
    V x = m->slot[X];
    if (x->dtype != DT_F32 && x->dtype != DT_F64) return NULL;
    double c = uop_const_float(m->slot[C]), d = uop_const_float(m->slot[D]);
    if (!(c < 0) || isnan(d)) return NULL;
    return ALU2(g, MIN, c < -1 || c > -1 ? times(g, x, -c) : x, num(g, x, -d));
}

static const Rule select[] = {
    /* name          see                                write               only if   make */
    { "min",         P(MUL, P(MAX, P(MUL, x, c), d), minus_one), NULL,     NULL,     minimum },
    { "min-of",      P(WHERE, P(CMPLT, c, x), c, x),    P(MIN, x, c),       cuts_float, NULL },
    { "min-or",      P(WHERE, P(CMPLT, x, c), x, c),    P(MIN, c, x),       cuts_float, NULL },      /* c for NaN */
    { "mulacc",      P(ADD, P(MUL, x, y), z),           NULL,               has_fma,  multiply_add },
    { "div-constant", P(DIV, x, c),                     NULL,               NULL,     by_reciprocal },
    { "div-shift",   P(IDIV, x, c),                     NULL,               NULL,     shift_for_div },
    { "mod-mask",    P(MOD, x, c),                      NULL,               NULL,     mask_for_mod },
    { "float-to-int", P(CAST, x),                       NULL,               NULL,     saturated },
    { "in-words",    P(CAST, x),                        NULL,               NULL,     in_words },
    { "widen",       x,                                 NULL,               NULL,     widen },
    { "from-bf16",   P(CAST, x),                        NULL,               NULL,     from_bf16 },
    { "to-bf16",     P(CAST, x),                        NULL,               NULL,     to_bf16 },
};
const RuleTable table_select = RULES(select);

const RuleSet *rules_select(void)
{
    static const RuleTable *const all[] = { &table_whole, &table_select, &table_polynomials, &table_simple };
    static const RuleSet *_Atomic set;
    return ruleset_once(&set, all, 4);
}
