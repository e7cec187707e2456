/* Element-wise operators. In: broadcastable inputs of one dtype. Out: the broadcast shape. Functions of a
 * half-precision input are computed in f32 and rounded once. To add one: a line here and a row in ops.def.
 */
#include "frontend/values/complex.h"
#include "frontend/import/import.h"
#include "frontend/input_names.h"
#include "frontend/ops/activation.h"
#include "frontend/values/narrow.h"
#include "frontend/values/text.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "graph/guard.h"


#define UNARY(name, value)                       \
    U name(Graph *g, const Ctx *c)               \
    {                                            \
        U like = c->in[0], x = wide(g, like);    \
        return narrow(g, value, like);           \
    }

/* ---- functions of one value ---- */

/* ln(1 + u) without loss for small u: the error of rounding 1 + u cancels in the quotient. */
static U log1p_(Graph *g, U x)
{
    U w = add(g, K(1), x), whole = mul(g, x, div_(g, log_(g, w), sub(g, w, K(1))));
    return where(g, eq(g, w, K(1)), x, where(g, eq(g, w, K(INFINITY)), w, whole));
}

/* atan by two half-angle steps from [0,1] and its series, whose argument is then below 0.2. */
static U atan_(Graph *g, U x)
{
    U a = abs_(g, x), large = gt(g, a, K(1)), t = where(g, large, recip(g, a), a);
    for (int k = 0; k < 2; k++) t = div_(g, t, add(g, K(1), sqrt_(g, add(g, K(1), mul(g, t, t)))));
    U z = mul(g, t, t), s = K(0);
    for (int k = 23; k >= 1; k -= 2) s = add(g, mul(g, s, z), K((k & 2 ? -1.0 : 1.0) / k));
    U y = mul(g, K(4), mul(g, t, s));
    y = where(g, large, sub(g, K(M_PI / 2), y), y);
    return where(g, lt(g, x, K(0)), neg(g, y), y);
}

static U asin_(Graph *g, U x) { return atan_(g, div_(g, x, sqrt_(g, mul(g, sub(g, K(1), x), add(g, K(1), x))))); }
static U acos_(Graph *g, U x) { return mul(g, K(2), atan_(g, sqrt_(g, div_(g, sub(g, K(1), x), add(g, K(1), x))))); }

static U asinh_(Graph *g, U x)
{
    U a = abs_(g, x), square = mul(g, a, a);
    U small = log1p_(g, add(g, a, div_(g, square, add(g, K(1), sqrt_(g, add(g, square, K(1)))))));
    /* the square of larger ones overflows */
    U y = where(g, gt(g, a, K(1e9)), add(g, log_(g, a), K(M_LN2)), small);
    return where(g, lt(g, x, K(0)), neg(g, y), y);
}

static U acosh_(Graph *g, U x)
{
    /* two roots: the product of great negative ones is positive */
    U u = sub(g, x, K(1)), small = log1p_(g, add(g, u, mul(g, sqrt_(g, u), sqrt_(g, add(g, u, K(2))))));
    return where(g, gt(g, x, K(1e9)), add(g, log_(g, x), K(M_LN2)), small);
}

static U atanh_(Graph *g, U x)
{
    U a = abs_(g, x), y = mul(g, K(0.5), log1p_(g, div_(g, mul(g, K(2), a), sub(g, K(1), a))));
    return where(g, lt(g, x, K(0)), neg(g, y), y);
}

/* e^x / 2 by its root: e^x itself overflows earlier. */
static U half_exp(Graph *g, U x)
{
    U root = exp_(g, mul(g, K(0.5), x));
    return mul(g, mul(g, K(0.5), root), root);
}

static U sinh_(Graph *g, U x)
{
    U z = mul(g, x, x), s = K(1);
    /* 1 + z/6 (1 + z/20 (..)) */
    for (int k = x->dtype == DT_F64 ? 17 : 9; k >= 3; k -= 2)
        s = add(g, K(1), mul(g, mul(g, z, K(1.0 / (k * (k - 1)))), s));
    U whole = sub(g, half_exp(g, x), half_exp(g, neg(g, x)));
    return where(g, lt(g, abs_(g, x), K(0.5)), mul(g, x, s), whole);
}

static U cosh_(Graph *g, U x) { return add(g, half_exp(g, x), half_exp(g, neg(g, x))); }
static U softplus(Graph *g, U x) { return add(g, relu(g, x), log1p_(g, exp_(g, neg(g, abs_(g, x))))); }

U op_identity(Graph *g, const Ctx *c) { (void)g; return c->in[0]; }

UNARY(op_abs, abs_(g, x))
UNARY(op_acos, acos_(g, x))
UNARY(op_acosh, acosh_(g, x))
UNARY(op_asin, asin_(g, x))
UNARY(op_asinh, asinh_(g, x))
UNARY(op_atan, atan_(g, x))
UNARY(op_atanh, atanh_(g, x))
UNARY(op_ceil, ceil_(g, x))
UNARY(op_cos, cos_(g, x))
UNARY(op_cosh, cosh_(g, x))
UNARY(op_erf, erf_(g, dtype_is_int(type_of(x)) ? cast(g, x, DT_F32) : x))
UNARY(op_exp, exp_(g, x))
UNARY(op_floor, floor_(g, x))
UNARY(op_log, log_(g, x))
UNARY(op_neg, neg(g, x))
UNARY(op_reciprocal, recip(g, x))
UNARY(op_round, round_even(g, x))
UNARY(op_sigmoid, sigmoid(g, x))
UNARY(op_sign, sign(g, x))
UNARY(op_sin, sin_(g, x))
UNARY(op_sinh, sinh_(g, x))
UNARY(op_sqrt, sqrt_(g, x))
UNARY(op_tan, div_(g, sin_(g, x), cos_(g, x)))
UNARY(op_tanh, tanh_(g, x))

U op_not(Graph *g, const Ctx *c) { return not_(g, c->in[0]); }      /* BitwiseNot too: on integers it is bitwise */
U op_is_nan(Graph *g, const Ctx *c) { return is_nan(g, narrow_decode(g, c->in[0])); }

U op_is_inf(Graph *g, const Ctx *c)
{
    U x = narrow_decode(g, c->in[0]);
    U low = attr_bool(g, c, "detect_negative", true) ? eq(g, x, K(-INFINITY)) : NULL;
    U high = attr_bool(g, c, "detect_positive", true) ? eq(g, x, K(INFINITY)) : NULL;
    if (low && high) return or_(g, low, high);
    return low ? low : high ? high : full(g, DT_BOOL, 0, x);
}

/* ---- activations ---- */

#define ALPHA(v) K(attr_float(g, c, "alpha", (v)))
#define BETA(v) K(attr_float(g, c, "beta", (v)))

static U hard_sigmoid(Graph *g, U x, U slope, U offset)
{
    return clamp(g, add(g, mul(g, x, slope), offset), K(0), K(1));
}

static U celu(Graph *g, U x, U alpha)
{
    U low = mul(g, alpha, sub(g, exp_(g, div_(g, x, alpha)), K(1)));
    return add(g, relu(g, x), min_(g, K(0), low));
}

UNARY(op_relu, relu(g, x))
UNARY(op_leaky_relu, where(g, lt(g, x, K(0)), mul(g, ALPHA(0.01), x), x))
UNARY(op_elu, where(g, lt(g, x, K(0)), mul(g, ALPHA(1), sub(g, exp_(g, x), K(1))), x))
UNARY(op_celu, celu(g, x, ALPHA(1)))
UNARY(op_softplus, softplus(g, x))
UNARY(op_softsign, div_(g, x, add(g, K(1), abs_(g, x))))
UNARY(op_mish, mul(g, x, tanh_(g, softplus(g, x))))
UNARY(op_swish, mul(g, x, sigmoid(g, mul(g, ALPHA(1), x))))
UNARY(op_thresholded_relu, where(g, gt(g, x, ALPHA(1)), x, K(0)))
UNARY(op_hard_sigmoid, hard_sigmoid(g, x, ALPHA(0.2), BETA(0.5)))
UNARY(op_hard_swish, mul(g, x, hard_sigmoid(g, x, K(1.0 / 6), K(0.5))))

U op_selu(Graph *g, const Ctx *c)
{
    U x = wide(g, c->in[0]);
    double alpha = attr_float(g, c, "alpha", c->opset < 6 ? 1.6732 : 1.67326319217681884765625);
    double gamma = attr_float(g, c, "gamma", c->opset < 6 ? 1.0507 : 1.05070102214813232421875);
    U low = mul(g, K(alpha), sub(g, exp_(g, x), K(1)));
    return narrow(g, mul(g, K(gamma), where(g, le(g, x, K(0)), low, x)), c->in[0]);
}

U op_gelu(Graph *g, const Ctx *c)
{
    const char *form = attr_str(g, c, "approximate", "none");
    U x = wide(g, c->in[0]);
    if (!strcmp(form, "none")) return narrow(g, gelu(g, x), c->in[0]);
    if (!strcmp(form, "tanh")) return narrow(g, gelu_tanh(g, x), c->in[0]);
    return fail_node(g, c, TG_BAD_MODEL, "approximate", "is '%s'; wanted none or tanh", form);
}

U op_shrink(Graph *g, const Ctx *c)
{
    /* lambd and bias are seldom whole */
    U x = dtype_is_int(type_of(c->in[0])) ? cast(g, c->in[0], DT_F64) : wide(g, c->in[0]);
    double lambd = attr_float(g, c, "lambd", 0.5), bias = attr_float(g, c, "bias", 0);
    U high = where(g, gt(g, x, K(lambd)), sub(g, x, K(bias)), K(0));
    return narrow(g, where(g, lt(g, x, K(-lambd)), add(g, x, K(bias)), high), c->in[0]);
}

/* Clip (ONNX 6 and 11): limits are attributes, by default float's ends, later inputs that may be absent. The upper one
 * wins. */
U op_clip(Graph *g, const Ctx *c)
{
    U x = c->in[0], lo = c->in[Clip_min], hi = c->in[Clip_max];
    if (c->opset < 11) lo = K(attr_float(g, c, "min", -FLT_MAX)), hi = K(attr_float(g, c, "max", FLT_MAX));
    if ((lo && lo->dtype != x->dtype) || (hi && hi->dtype != x->dtype))
        return fail_node(g, c, TG_BAD_MODEL, NULL, "limits of another type than the input's %s",
                         dtype_name(type_of(x)));
    if ((lo && uop_numel(lo) != 1) || (hi && uop_numel(hi) != 1))
        return fail_node(g, c, TG_BAD_MODEL, NULL, "a limit is not a scalar");
    return clamp(g, x, lo ? reshape_i(g, lo, NULL, 0) : NULL, hi ? reshape_i(g, hi, NULL, 0) : NULL);
}

/* ---- two and more values ---- */

/* Before opset 7, B was aligned with A's axes from `axis` on, if `broadcast` said so. */
static U old_operand(Graph *g, const Ctx *c)
{
    U a = c->in[0], b = c->in[Pow_Y];
    int64_t axis;
    if (c->opset >= 7 || !*c->node->op || !attr_bool(g, c, "broadcast", false) || !attr_find(c, "axis")) return b;
    if (!axis_ok(g, c, "axis", attr_int(g, c, "axis", 0), uop_rank(a), &axis)) return b;
    if (axis + uop_rank(b) > uop_rank(a))
        return fail_node(g, c, TG_BAD_MODEL, "axis", "a second input of rank %u from axis %lld on", uop_rank(b),
                         (long long)axis);
    for (uint32_t k = (uint32_t)axis + uop_rank(b); k < uop_rank(a); k++) b = unsqueeze(g, b, -1);
    return b;
}

/* The two inputs, of one type. */
static bool operands(Graph *g, const Ctx *c, U *a, U *b)
{
    *a = c->in[0];
    *b = old_operand(g, c);
    if ((*b)->op == UOP_ERROR) return false;
    if ((*a)->dtype == (*b)->dtype) return true;
    fail_node(g, c, TG_BAD_MODEL, NULL, "inputs of types %s and %s; wanted one type", dtype_name(type_of(*a)),
              dtype_name(type_of(*b)));
    return false;
}

#define BINARY(name, value)                                  \
    U name(Graph *g, const Ctx *c)                           \
    {                                                        \
        U a, b, like = c->in[0];                             \
        if (!operands(g, c, &a, &b)) return NULL;            \
        a = wide(g, a), b = wide(g, b);                      \
        return narrow(g, value, like);                       \
    }
#define COMPARE(name, value)                                 \
    U name(Graph *g, const Ctx *c)                           \
    {                                                        \
        U a, b;                                              \
        return operands(g, c, &a, &b) ? (value) : NULL;      \
    }

BINARY(op_add, add(g, a, b))
BINARY(op_sub, sub(g, a, b))
BINARY(op_mul, mul(g, a, b))
BINARY(op_div, div_(g, a, guard_nonzero(g, b)))
static BINARY(prelu_aligned, where(g, lt(g, a, scalar(g, type_of(a), 0)), mul(g, a, b), a))
COMPARE(op_equal, eq(g, a, b))
COMPARE(op_greater, gt(g, a, b))
COMPARE(op_greater_or_equal, ge(g, a, b))
COMPARE(op_less, lt(g, a, b))
COMPARE(op_less_or_equal, le(g, a, b))
COMPARE(op_and, and_(g, a, b))        /* the Bitwise operators too */
COMPARE(op_or, or_(g, a, b))
COMPARE(op_xor, xor_(g, a, b))

U op_swi_glu(Graph *g, const Ctx *c)
{
    U x = wide(g, c->in[0]), b = wide(g, c->in[SwiGLU_B]);
    if (!shape_ok(g, c, SwiGLU_B, x->shape->dim, uop_rank(x))) return NULL;
    return narrow(g, mul(g, mul(g, x, sigmoid(g, mul(g, ALPHA(1), x))), b), c->in[0]);
}

/* PRelu: before opset 7, a slope of one axis lay along the channels; later it broadcasts. Models of later opsets still
 * bring [C] for [N,C,..]. */
U op_prelu(Graph *g, const Ctx *c)
{
    U x = c->in[0], slope = c->in[PRelu_slope];
    bool channels = uop_rank(slope) == 1 && uop_rank(x) > 2 && uop_dim(slope, 0) == uop_dim(x, 1) &&
        uop_dim(slope, 0) != uop_dim(x, uop_rank(x) - 1);
    if (uop_rank(slope) == 1 && uop_rank(x) > 1 && (c->opset < 7 || channels))
        for (uint32_t k = 2; k < uop_rank(x); k++) slope = unsqueeze(g, slope, -1);
    const UOp *in[CTX_INPUTS] = { x, slope };
    Ctx aligned = *c;
    aligned.in = in;
    return prelu_aligned(g, &aligned);
}

/* Mod: integers floor, or truncate with fmod; floats need fmod by the standard, and floor without it. */
U op_mod(Graph *g, const Ctx *c)
{
    U a, b;
    if (!operands(g, c, &a, &b)) return NULL;
    a = wide(g, a), b = guard_nonzero(g, wide(g, b));
    return narrow(g, attr_bool(g, c, "fmod", false) ? mod_trunc(g, a, b) : mod_floor(g, a, b), c->in[0]);
}

/* An integer power by squaring: six bits of the exponent reach every power that does not overflow. */
static U pow_int(Graph *g, U x, U e)
{
    DType t = type_of(e);
    U y = K(1), base = x, odd = ne(g, and_(g, e, scalar(g, t, 1)), scalar(g, t, 0));
    for (int k = 0; k < 6; k++, base = mul(g, base, base))
        y = mul(g, y, where(g, ne(g, and_(g, e, scalar(g, t, 1 << k)), scalar(g, t, 0)), base, K(1)));
    if (dtype_info[t].kind == KIND_UINT) return y;
    U unit = where(
        g, eq(g, x, K(1)), K(1),
        dtype_info[x->dtype].kind == KIND_UINT ? K(0) : where(g, eq(g, x, K(-1)), where(g, odd, K(-1), K(1)), K(0)));
    return where(g, lt(g, e, scalar(g, t, 0)), unit, y);
}

/* Pow: the result has the base's type. Squares and cubes are products. */
U op_pow(Graph *g, const Ctx *c)
{
    U like = c->in[0], x = wide(g, like), e = old_operand(g, c);
    U known = known_scalar(g, e);
    double n = !known ? 0 : dtype_is_float(type_of(e)) ? uop_const_float(known) : (double)uop_const_int(known);
    if (uop_rank(e) <= uop_rank(x) && n == 1) return like;
    if (uop_rank(e) <= uop_rank(x) && n == 2) return narrow(g, mul(g, x, x), like);
    if (uop_rank(e) <= uop_rank(x) && n == 3) return narrow(g, mul(g, mul(g, x, x), x), like);
    if (dtype_is_float(type_of(x))) return narrow(g, pow_(g, x, cast(g, e, type_of(x))), like);
    if (dtype_is_int(type_of(e))) return pow_int(g, x, e);
    return cast(g, trunc_(g, pow_(g, cast(g, x, DT_F64), cast(g, e, DT_F64))), type_of(x));
}

U op_bit_shift(Graph *g, const Ctx *c)
{
    const char *direction = attr_str(g, c, "direction", "");
    bool left = !strcmp(direction, "LEFT");
    U x, n;
    if (!operands(g, c, &x, &n)) return NULL;
    if (!left && strcmp(direction, "RIGHT"))
        return fail_node(g, c, TG_BAD_MODEL, "direction", "is '%s'; wanted LEFT or RIGHT", direction);
    U zero = K(0), both = add(g, x, n), inside = and_(g, lt(g, n, K(dtype_info[x->dtype].bits)), ge(g, n, zero));
    if (both->op == UOP_ERROR) return both;
    x = expand_like(g, x, both);
    n = expand_like(g, where(g, inside, n, zero), both);
    /* a shift by the width or more is undefined on machines; by the standard nothing is left of the number, to the
     * right its sign */
    return where(g, inside, UOP(g, left ? UOP_SHL : UOP_SHR, DT_VOID, NO_ARG, x, n),
                 left ? zero : where(g, lt(g, x, zero), not_(g, zero), zero));
}

/* Max, Min, Sum, Mean of any number of inputs, from the left. */
static U fold_inputs(Graph *g, const Ctx *c, U (*join)(Graph *g, U a, U b))
{
    U y = wide(g, c->in[0]);
    for (uint32_t k = 1; k < c->nin; k++) {
        if (!c->in[k]) return fail_node(g, c, TG_BAD_MODEL, NULL, "input %u is missing", k);
        if (c->in[k]->dtype != c->in[0]->dtype)
            return fail_node(g, c, TG_BAD_MODEL, c->node->in[k], "is of type %s; wanted %s",
                             dtype_name(type_of(c->in[k])), dtype_name(type_of(c->in[0])));
        y = join(g, y, wide(g, c->in[k]));
    }
    return y;
}

static U folded(Graph *g, const Ctx *c, U (*join)(Graph *g, U a, U b))
{
    return narrow(g, fold_inputs(g, c, join), c->in[0]);
}

U op_max(Graph *g, const Ctx *c) { return folded(g, c, max_); }
U op_min(Graph *g, const Ctx *c) { return folded(g, c, min_); }
U op_sum(Graph *g, const Ctx *c) { return folded(g, c, add); }

U op_mean(Graph *g, const Ctx *c)
{
    U x = fold_inputs(g, c, add);
    return x->op == UOP_ERROR ? x : narrow(g, div_(g, x, K(c->nin)), c->in[0]);
}

U op_where(Graph *g, const Ctx *c)
{
    if (c->in[0]->dtype != DT_BOOL)
        return fail_node(g, c, TG_BAD_MODEL, c->node->in[0], "is of type %s; wanted bool",
                         dtype_name(type_of(c->in[0])));
    if (c->in[Where_X]->dtype != c->in[Where_Y]->dtype)
        return fail_node(g, c, TG_BAD_MODEL, NULL, "inputs of types %s and %s; wanted one type",
                         dtype_name(type_of(c->in[Where_X])), dtype_name(type_of(c->in[Where_Y])));
    return where(g, c->in[0], c->in[Where_X], c->in[Where_Y]);
}

/* ---- types ---- */

static U convert(Graph *g, U x, DType to)
{
    if (x->dtype == to) return x;
    return to == DT_BOOL ? ne(g, x, K(0)) : cast(g, x, to);
}

static const char *round_mode(Graph *g, const Ctx *c)
{
    static const char *const modes[] = { "up", "down", "nearest", NULL };
    int at;
    return attr_choice(g, c, "round_mode", "up", modes, &at) ? modes[at] : modes[0];
}

/* A double in single precision, whose last bit is 1 where it is not exact: rounding that to a narrower type gives what
 * rounding once does (Boldo and Melquiond, 2008). */
static U single_odd(Graph *g, U x)
{
    U single = cast(g, x, DT_F32), back = cast(g, single, DT_F64), bits = bitcast(g, single, DT_U32),
      one = uop_int(g, DT_U32, 1);
    U below = where(g, lt(g, abs_(g, x), abs_(g, back)), sub(g, bits, one), bits);
    return bitcast(g, where(g, ne(g, x, back), or_(g, below, one), bits), DT_F32);
}

static U cast_to(Graph *g, const Ctx *c, int32_t type)
{
    U x = c->in[0];
    DType to = dtype_from_onnx(type);
    if (type == TG_STRING) return is_text(x) ? x : numbers_to_text(g, c);
    if (is_text(x) && !(x = text_to_numbers(g, c, to == DT_VOID ? DT_F32 : to))) return NULL;
    if (x->dtype == DT_F64 && (to == DT_F16 || to == DT_BF16 || (narrow_is(type) && narrow_is_float(type))))
        x = single_odd(g, x);
    if (narrow_is(type)) return narrow_encode(g, x, type, attr_bool(g, c, "saturate", true), round_mode(g, c));
    if (to == DT_VOID) return fail_node(g, c, TG_UNSUPPORTED, "to", "element type %d is not covered", type);
    return convert(g, narrow_decode(g, x), to);
}

U op_cast(Graph *g, const Ctx *c)
{
    static const char *const old_name[] = { "",      "FLOAT",  "UINT8", "INT8",    "UINT16", "INT16",  "INT32",
                                            "INT64", "STRING", "BOOL",  "FLOAT16", "DOUBLE", "UINT32", "UINT64" };
    int64_t type = 0;
    if (c->opset >= 6) type = attr_int(g, c, "to", 0);
    /* a string then */
    else for (int64_t k = 1; k < 14; k++) type = strcmp(attr_str(g, c, "to", ""), old_name[k]) ? type : k;
    if (type < 1 || type > 30)
        return fail_node(g, c, TG_BAD_MODEL, "to", "is %lld; wanted an element type", (long long)type);
    return cast_to(g, c, (int32_t)type);
}

static int64_t bits_of(int32_t type)
{
    return narrow_is(type) ? narrow_bits(type)
        : complex_is(type) ? 16 * dtype_size(complex_storage(type))
                           : 8 * dtype_size(dtype_from_onnx(type));
}
static DType word_of(DType t)
{
    return dtype_size(t) == 1 ? DT_U8 : dtype_size(t) == 2 ? DT_U16 : dtype_size(t) == 4 ? DT_U32 : DT_U64;
}
static U u64(Graph *g, U x) { return cast(g, bitcast(g, x, DT_U32), DT_U64); }

/* The bits of x as an unsigned integer; of a complex number those of the real part are the lower ones. */
static U bits_in(Graph *g, U x, int32_t type)
{
    U part = special_part(x, 0);
    if (complex_is(type))
        return add(g, u64(g, part), mul(g, u64(g, special_part(x, 1)), uop_int(g, DT_U64, INT64_C(1) << 32)));
    if (part->dtype == DT_BOOL) return cast(g, part, DT_U8);
    U word = bitcast(g, part, word_of((DType)part->dtype));
    return narrow_is(type) ? and_(g, word, uop_int(g, DT_U8, (1 << narrow_bits(type)) - 1)) : word;
}

static U value_of_bits(Graph *g, U bits, int32_t type)
{
    U half[2];
    if (narrow_is(type))
        return narrow_is_float(type) ? narrow_wrap(g, bits, type) : narrow_encode(g, bits, type, true, "up");
    if (!complex_is(type))
        return type == TG_BOOL ? ne(g, bits, scalar(g, DT_U8, 0)) : bitcast(g, bits, dtype_from_onnx(type));
    for (int k = 0; k < 2; k++)
        half[k] = bitcast(g, cast(g, k ? shr(g, bits, uop_int(g, DT_U64, 32)) : bits, DT_U32), DT_F32);
    return complex_wrap(g, half, type);
}

/** BitCast (ONNX 26): the same bits as another type of as many. */
U op_bit_cast(Graph *g, const Ctx *c)
{
    int64_t to = attr_int(g, c, "to", 0);
    U x = c->in[0];
    int32_t from = special_kind(x) ? special_kind(x) : dtype_info[x->dtype].onnx;
    if (to < 1 || to > 30 || to == TG_STRING || !tg_type_covered((TgType)to))
        return fail_node(g, c, TG_BAD_MODEL, "to", "is %lld, no type of numbers", (long long)to);
    if (bits_of((int32_t)to) != bits_of(from))
        return fail_node(g, c, TG_BAD_MODEL, "to", "%s for values of %s", tg_type_name((TgType)to),
                         tg_type_name((TgType)from));
    return from == to ? x : value_of_bits(g, bits_in(g, x, from), (int32_t)to);
}

U op_cast_like(Graph *g, const Ctx *c)
{
    U like = c->in[CastLike_target_type];
    int32_t type = is_text(like) ? (int32_t)TG_STRING
        : narrow_type(like)      ? narrow_type(like)
                                 : dtype_info[like->dtype].onnx;
    return cast_to(g, c, type);
}
