/* Element-wise builders with exact results: what core.md decides where the spec is open (comparisons and NaN, floor and
 * truncating division, integer minimum). Functions that approximate stand in build_approx.c. Operands are of one dtype
 * (DT_INDEX may meet an integer: the integer becomes DT_INDEX) and broadcast.
 */
#include <math.h>
#include <stdio.h>

#include "graph/build.h"

static bool broadcasts(U a, U b)
{
    uint32_t ra = uop_rank(a), rb = uop_rank(b), r = ra < rb ? ra : rb;
    for (uint32_t k = 1; k <= r; k++) {
        U p = uop_dim(a, ra - k), q = uop_dim(b, rb - k);
        if (p != q && !uop_is_int_const(p, 1) && !uop_is_int_const(q, 1)) return false;
    }
    return true;
}

/* Gives all the sizes that they have in common, where data tell some of them. */
static bool made_to_broadcast(Graph *g, U *src, uint32_t n)
{
    uint32_t rank = 0;
    for (uint32_t s = 0; s < n; s++) rank = uop_rank(src[s]) > rank ? uop_rank(src[s]) : rank;
    for (uint32_t k = 1; k <= rank; k++) {
        U size = uop_index(g, 1);
        for (uint32_t s = 0; s < n && size; s++)
            if (k <= uop_rank(src[s])) size = common_size(g, size, uop_dim(src[s], uop_rank(src[s]) - k));
        for (uint32_t s = 0; s < n && size; s++)
            if (k <= uop_rank(src[s])) src[s] = stretched(g, src[s], -(int64_t)k, size);
        if (!size) return false;
    }
    return true;
}

static U no_broadcast(Graph *g, Op op, U a, U b)
{
    char text[2][200];
    for (int i = 0; i < 2; i++) {
        size_t n = 0;
        U x = i ? b : a;
        text[i][0] = 0;
        for (uint32_t k = 0; k < uop_rank(x) && n < 170; k++)
            n += (size_t)snprintf(text[i] + n, sizeof text[i] - n, uop_is_const(uop_dim(x, k)) ? "%s%lld" : "%s<=%lld",
                                  k ? "," : "", (long long)uop_size(x, k));
    }
    return graph_fail(g, "%s: shapes [%s] and [%s] do not broadcast", op_name(op), text[0], text[1]);
}

/* An element-wise node; folded when every operand is CONST. */
static U alu(Graph *g, Op op, DType t, U *src, uint32_t n)
{
    int64_t v[3], r;
    bool known = true;
    for (uint32_t k = 0; k < n; k++) {
        if (is_error(src[k])) return src[k];
        known &= uop_is_const(src[k]);
        v[k] = src[k]->arg.i;
        for (uint32_t i = 0; i < k; i++)
            if (!broadcasts(src[i], src[k]) && !made_to_broadcast(g, src, n))
                return no_broadcast(g, op, src[i], src[k]);
    }
    U u = NULL;
    if (known) {
        DType out = t != DT_VOID                 ? t
            : op == UOP_CMPLT || op == UOP_CMPNE ? DT_BOOL
                                                 : (DType)src[op == UOP_WHERE]->dtype;
        if (uop_eval(op, out, (DType)src[0]->dtype, v, &r)) u = UOP0(g, UOP_CONST, out, ARG_I(r));
    }
    return u ? u : uop_new(g, op, t, NO_ARG, src, n);
}

static U unary(Graph *g, Op op, U a) { return alu(g, op, DT_VOID, &a, 1); }

static bool one_dtype(Graph *g, Op op, U *a, U *b)
{
    if (is_error(*a) || is_error(*b) || (*a)->dtype == (*b)->dtype) return true;
    if ((*a)->dtype == DT_INDEX && dtype_is_int((*b)->dtype)) return *b = cast(g, *b, DT_INDEX), true;
    if ((*b)->dtype == DT_INDEX && dtype_is_int((*a)->dtype)) return *a = cast(g, *a, DT_INDEX), true;
    return graph_fail(g, "%s: operands are %s and %s", op_name(op), dtype_name((*a)->dtype), dtype_name((*b)->dtype)),
           false;
}

static U error_node(Graph *g) { return UOP0(g, UOP_ERROR, DT_VOID, NO_ARG); }

static U binary(Graph *g, Op op, U a, U b)
{
    if (!one_dtype(g, op, &a, &b)) return error_node(g);
    return alu(g, op, DT_VOID, (U[]){ a, b }, 2);
}

U cast(Graph *g, U x, DType t)
{
    if (is_error(x) || x->dtype == t) return x;
    if (t == DT_BOOL) return ne(g, x, like(g, x, 0));
    return alu(g, UOP_CAST, t, &x, 1);
}

U bitcast(Graph *g, U x, DType t)
{
    if (is_error(x) || x->dtype == t) return x;
    if (dtype_info[x->dtype].bits != dtype_info[t].bits)
        return graph_fail(g, "bitcast: %s to %s changes the size", dtype_name(x->dtype), dtype_name(t));
    return UOP(g, UOP_BITCAST, t, NO_ARG, x);
}

/* ---- arithmetic ---- */

U add(Graph *g, U a, U b) { return binary(g, UOP_ADD, a, b); }
U sub(Graph *g, U a, U b) { return add(g, a, neg(g, b)); }
U mul(Graph *g, U a, U b) { return binary(g, UOP_MUL, a, b); }
U neg(Graph *g, U x) { return mul(g, x, like(g, x, -1)); }
U recip(Graph *g, U x) { return unary(g, UOP_RECIP, x); }
U idiv(Graph *g, U a, U b) { return binary(g, UOP_IDIV, a, b); }
U mod_floor(Graph *g, U a, U b) { return binary(g, UOP_MOD, a, b); }
U max_(Graph *g, U a, U b) { return binary(g, UOP_MAX, a, b); }

static bool may_be_negative(U x) { return !is_error(x) && x->vmin < 0 && dtype_info[x->dtype].kind == KIND_SINT; }

U div_(Graph *g, U a, U b)
{
    if (is_error(a) || is_error(b)) return is_error(a) ? a : b;
    if (dtype_is_float(a->dtype)) return binary(g, UOP_DIV, a, b);
    if (!one_dtype(g, UOP_IDIV, &a, &b)) return error_node(g);
    U q = idiv(g, a, b);
    if (!may_be_negative(a) && !may_be_negative(b)) return q;
    U zero = like(g, a, 0), signs_differ = xor_(g, lt(g, a, zero), lt(g, b, zero)),
      rest = ne(g, mod_floor(g, a, b), zero);
    /* the floor is one below when signs differ and there is a rest */
    return add(g, q, cast(g, and_(g, signs_differ, rest), a->dtype));
}

U mod_trunc(Graph *g, U a, U b)
{
    if (is_error(a) || is_error(b)) return is_error(a) ? a : b;
    if (!one_dtype(g, UOP_MOD, &a, &b)) return error_node(g);
    if (!may_be_negative(a) && !may_be_negative(b) && !dtype_is_float(a->dtype)) return mod_floor(g, a, b);
    U zero = like(g, a, 0), below = lt(g, a, zero), m;
    if (dtype_is_float(a->dtype)) {
        m = mod_floor(g, abs_(g, a), abs_(g, b));
        return where(g, below, neg(g, m), m);
    }
    m = mod_floor(g, a, b);
    return where(g, and_(g, ne(g, m, zero), xor_(g, below, lt(g, m, zero))), sub(g, m, b), m);
}

/* Through -MAX(-a, -b), which keeps NaN; integers through XOR -1, because -INT_MIN is INT_MIN. */
U min_(Graph *g, U a, U b)
{
    if (is_error(a) || is_error(b)) return is_error(a) ? a : b;
    if (!one_dtype(g, UOP_MAX, &a, &b)) return error_node(g);
    if (dtype_is_float(a->dtype)) return neg(g, max_(g, neg(g, a), neg(g, b)));
    return not_(g, max_(g, not_(g, a), not_(g, b)));
}

U clamp(Graph *g, U x, U lo, U hi)
{
    if (lo) x = max_(g, x, lo);
    return hi ? min_(g, x, hi) : x;
}

U relu(Graph *g, U x) { return max_(g, x, like(g, x, 0)); }

/* ---- comparisons and bits ---- */

U lt(Graph *g, U a, U b) { return binary(g, UOP_CMPLT, a, b); }
U gt(Graph *g, U a, U b) { return lt(g, b, a); }
U ne(Graph *g, U a, U b) { return binary(g, UOP_CMPNE, a, b); }
U eq(Graph *g, U a, U b) { return not_(g, ne(g, a, b)); }
/* NOT(b < a) is true for NaN, so floats ask twice. */
U le(Graph *g, U a, U b)
{
    return !is_error(a) && dtype_is_float(a->dtype) ? or_(g, lt(g, a, b), eq(g, a, b)) : not_(g, lt(g, b, a));
}
U ge(Graph *g, U a, U b) { return le(g, b, a); }
U and_(Graph *g, U a, U b) { return binary(g, UOP_AND, a, b); }
U or_(Graph *g, U a, U b) { return binary(g, UOP_OR, a, b); }
U xor_(Graph *g, U a, U b) { return binary(g, UOP_XOR, a, b); }
U shl(Graph *g, U a, U b) { return binary(g, UOP_SHL, a, b); }
U shr(Graph *g, U a, U b) { return binary(g, UOP_SHR, a, b); }
U pow_whole(Graph *g, U a, U b) { return binary(g, UOP_POW, a, b); }

U not_(Graph *g, U x)
{
    if (is_error(x)) return x;
    return x->dtype == DT_BOOL ? ne(g, x, uop_bool(g, true)) : xor_(g, x, uop_int(g, x->dtype, -1));
}

U where(Graph *g, U p, U a, U b)
{
    if (is_error(p)) return p;
    if (p->dtype != DT_BOOL) p = cast(g, p, DT_BOOL);
    if (!one_dtype(g, UOP_WHERE, &a, &b)) return error_node(g);
    return alu(g, UOP_WHERE, DT_VOID, (U[]){ p, a, b }, 3);
}

/* The unsigned dtype with the bits of float dtype t, and its sign bit. */
static DType bits_dtype(DType t) { return t == DT_F64 ? DT_U64 : t == DT_F32 ? DT_U32 : DT_U16; }
static U sign_bit(Graph *g, DType t)
{
    return uop_int(g, bits_dtype(t), (int64_t)(UINT64_C(1) << (dtype_info[t].bits - 1)));
}

U abs_(Graph *g, U x)
{
    if (is_error(x) || dtype_info[x->dtype].kind == KIND_BOOL || dtype_info[x->dtype].kind == KIND_UINT) return x;
    if (!dtype_is_float(x->dtype)) return max_(g, x, neg(g, x));
    return bitcast(g, and_(g, bitcast(g, x, bits_dtype(x->dtype)), not_(g, sign_bit(g, x->dtype))), x->dtype);
}

U with_sign_of(Graph *g, U size, U x)
{
    if (is_error(size) || is_error(x)) return is_error(x) ? x : size;
    DType t = bits_dtype((DType)x->dtype);
    U sign = and_(g, bitcast(g, x, t), sign_bit(g, (DType)x->dtype));
    return bitcast(g, or_(g, bitcast(g, size, t), sign), (DType)x->dtype);
}

U sign(Graph *g, U x)
{
    U zero = like(g, x, 0);
    /* NaN and 0 are their own sign */
    return where(g, lt(g, x, zero), like(g, x, -1), where(g, lt(g, zero, x), like(g, x, 1), x));
}

U is_nan(Graph *g, U x)
{
    return !is_error(x) && dtype_is_float(x->dtype) ? ne(g, x, x) : ne(g, like(g, x, 0), like(g, x, 0));
}
U is_inf(Graph *g, U x) { return eq(g, abs_(g, x), like(g, x, INFINITY)); }

/* ---- rounding ---- */

U trunc_(Graph *g, U x) { return is_error(x) || !dtype_is_float(x->dtype) ? x : unary(g, UOP_TRUNC, x); }

U floor_(Graph *g, U x)
{
    U t = trunc_(g, x);
    return t == x ? x : where(g, lt(g, x, t), sub(g, t, like(g, x, 1)), t);
}

U ceil_(Graph *g, U x)
{
    U t = trunc_(g, x);
    return t == x ? x : where(g, lt(g, t, x), add(g, t, like(g, x, 1)), t);
}

/* Adding and taking away 2^(digits-1) with x's sign rounds to an integer as the hardware rounds: to even. Larger values
 * are integers already. */
U round_even(Graph *g, U x)
{
    if (is_error(x) || !dtype_is_float(x->dtype)) return x;
    if (dtype_is_half((DType)x->dtype)) return cast(g, round_even(g, cast(g, x, DT_F32)), x->dtype);
    double big = x->dtype == DT_F64 ? 0x1p52 : 0x1p23;
    U m = where(g, lt(g, x, like(g, x, 0)), like(g, x, -big), like(g, x, big));
    return where(g, lt(g, abs_(g, x), like(g, x, big)), sub(g, add(g, x, m), m), x);
}
