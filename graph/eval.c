/* Element-wise ops on constants: the one place that says what an op computes, for folding, the interpreter and tests.
 */
#include <math.h>
#include <string.h>

#include "graph/scalar.h"
#include "graph/uop.h"

static int64_t wrap(DType t, int64_t v)
{
    int n = dtype_info[t].bits;
    if (dtype_info[t].kind == KIND_BOOL) return v != 0;
    if (n == 64) return v;
    uint64_t m = (UINT64_C(1) << n) - 1, u = (uint64_t)v & m;
    return dtype_info[t].kind == KIND_SINT && u >> (n - 1) ? (int64_t)(u | ~m) : (int64_t)u;
}

static bool float_op(Op op, double a, double b, double c, double *r)
{
    switch (op) {
    case UOP_RECIP: *r = 1 / a; break;
    case UOP_TRUNC: *r = trunc(a); break;
    case UOP_ADD: *r = a + b; break;
    case UOP_MUL: *r = a * b; break;
    case UOP_DIV: *r = a / b; break;
    case UOP_MAX: *r = isnan(a) || isnan(b) ? NAN : a > b || (a == b && !signbit(a)) ? a : b; break;
    case UOP_MOD: *r = fmod(a, b), *r += *r != 0 && (*r < 0) != (b < 0) ? b : 0; break;
    case UOP_SQRT: *r = sqrt(a); break;
    case UOP_EXP2: *r = exp2(a); break;
    case UOP_SCALE: *r = a * exp2(b); break;
    case UOP_LOG2: *r = log2(a); break;
    case UOP_SIN: *r = sin(a); break;
    case UOP_POW: *r = pow(a, b); break;
    case UOP_MIN: *r = b < a || (b == a && signbit(b)) ? b : a; break;
    case UOP_MULACC: *r = fma(a, b, c); break;
    default: return false;
    }
    return true;
}

static int64_t shift_right(DType t, int64_t a, int64_t n)
{
    bool is_signed = dtype_info[t].kind == KIND_SINT;
    if (n < 0 || n >= dtype_info[t].bits) return is_signed && a < 0 ? -1 : 0;
    return is_signed ? a >> n : (int64_t)((uint64_t)a >> n);
}

static bool int_op(Op op, DType t, int64_t a, int64_t b, int64_t c, int64_t *r)
{
    uint64_t ua = (uint64_t)a, ub = (uint64_t)b;
    switch (op) {
    case UOP_ADD: *r = t == DT_BOOL ? a | b : (int64_t)(ua + ub); break;
    case UOP_MUL: *r = (int64_t)(ua * ub); break;
    case UOP_MAX: *r = (t == DT_U64 ? ua > ub : a > b) ? a : b; break;
    case UOP_IDIV:
    case UOP_MOD: {
        if (b == 0) return false;
        int64_t q, m;
        if (t == DT_U64) q = (int64_t)(ua / ub), m = (int64_t)(ua % ub);
        else if (b == -1) q = (int64_t)(0 - ua), m = 0;                     /* INT_MIN / -1 wraps */
        else {
            q = a / b, m = a % b;
            if (m && (m < 0) != (b < 0)) q--, m += b;
        }
        *r = op == UOP_IDIV ? q : m;
        break;
    }
    case UOP_XOR: *r = a ^ b; break;
    case UOP_OR: *r = a | b; break;
    case UOP_AND: *r = a & b; break;
    case UOP_SHR: *r = shift_right(t, a, b); break;
    case UOP_SHL: *r = b < 0 || b >= dtype_info[t].bits ? 0 : (int64_t)(ua << b); break;
    case UOP_MULACC: *r = (int64_t)(ua * ub + (uint64_t)c); break;
    case UOP_TRUNC: *r = a; break;
    default: return false;
    }
    return true;
}

static int64_t cast_value(DType from, DType to, int64_t v)
{
    if (dtype_is_float(from) && dtype_is_float(to)) return scalar_of(dtype_round(to, scalar_real(v)));
    if (dtype_is_float(to)) return scalar_of(dtype_round(to, from == DT_U64 ? (double)(uint64_t)v : (double)v));
    if (!dtype_is_float(from)) return wrap(to, v);
    double d = scalar_real(v);
    if (to == DT_BOOL) return d != 0;
    if (isnan(d)) return 0;
    if (to == DT_U64) return d <= -1 ? 0 : d >= 18446744073709551616.0 ? -1 : (int64_t)(uint64_t)d;
    double lo = (double)dtype_min(to), hi = (double)dtype_max(to);
    return d <= lo ? dtype_min(to) : d >= hi ? dtype_max(to) : (int64_t)d;
}

bool uop_eval(Op op, DType t, DType s, const int64_t *v, int64_t *out)
{
    double r;
    if (op == UOP_WHERE) return *out = v[0] ? v[1] : v[2], true;
    if (op == UOP_CAST) return *out = cast_value(s, t, v[0]), true;
    if (op == UOP_CMPLT)
        return *out = dtype_is_float(s) ? scalar_real(v[0]) < scalar_real(v[1])
                   : s == DT_U64        ? (uint64_t)v[0] < (uint64_t)v[1]
                                        : v[0] < v[1],
               true;
    if (op == UOP_CMPNE) return *out = dtype_is_float(s) ? scalar_real(v[0]) != scalar_real(v[1]) : v[0] != v[1], true;
    if (!dtype_is_float(t)) {
        int64_t b = op == UOP_TRUNC || op == UOP_RECIP ? 0 : v[1];
        if (!int_op(op, t, v[0], b, op == UOP_MULACC ? v[2] : 0, out)) return false;
        return *out = wrap(t, *out), true;
    }
    int n = op_info[op].min_src;
    if (!float_op(op, scalar_real(v[0]), n > 1 ? scalar_real(v[1]) : 0, n > 2 ? scalar_real(v[2]) : 0, &r))
        return false;
    return *out = scalar_of(isnan(r) ? NAN : dtype_round(t, r)), true;
}

bool uop_value(const UOp *u, LeafValue *leaf, const void *from, int64_t *out)
{
    int64_t v[3] = { 0 };
    if (u->op == UOP_CONST) return *out = u->arg.i, true;
    if (!op_is((Op)u->op, FLAG_ALU)) return leaf(from, u, out);
    for (uint32_t k = 0; k < u->nsrc; k++)
        if (!uop_value(u->src[k], leaf, from, &v[k])) return false;
    return uop_eval((Op)u->op, (DType)u->dtype, (DType)u->src[0]->dtype, v, out);
}
