/* What an ALU node is as an expression on vectors of C. C has no vector ?: - a select is two ANDs and an OR, which
 * compile to one blend. To add an op: a case in cv_op. */
#include "backends/cpu/vectors.h"
#include "graph/guard.h"

static const char *select_of(CRender *r, const char *m, const char *a, const char *b, int e, uint32_t lanes)
{
    const char *t = cv_type(r, e, lanes), *i = cv_type(r, cv_signed(cv_kind[e].bytes), lanes);
    return cr_text(r, "(%s)((%s & (%s)%s) | (~%s & (%s)%s))", t, m, i, a, m, i, b);
}

/* The helper's name for this type, or NULL: no machine has it. */
static const char *machine_op(CRender *r, int h, const char *name, int e, uint32_t lanes)
{
    uint32_t bytes = cv_kind[e].bytes * lanes;
    if (!cv_kind[e].is_float || (bytes != 16 && bytes != 32 && bytes != 64)) return NULL;
    cv_want(r, h);
    return cr_text(r, "tg_%s_%s", name, cv_type(r, e, lanes));
}

static bool is_number(const UOp *u)
{
    return uop_is_const(u) && dtype_is_float((DType)u->dtype) && uop_const_float(u) == uop_const_float(u);
}

/* The machine's maximum gives its second operand when one is NaN; the first is looked at unless it cannot be NaN. */
const char *cv_max(CRender *r, const char *a, const char *b, bool a_is_number, int e, uint32_t lanes)
{
    const char *i = cv_type(r, cv_signed(cv_kind[e].bytes), lanes), *f = machine_op(r, H_MAX, "max", e, lanes);
    if (!cv_kind[e].is_float) return select_of(r, cr_text(r, "((%s)(%s > %s))", i, a, b), a, b, e, lanes);
    if (!f) return select_of(r, cr_text(r, "((%s)(%s > %s) | (%s)(%s != %s))", i, a, b, i, a, a), a, b, e, lanes);
    if (!a_is_number && e == E_F32)
        return cv_want(r, H_MAX_NAN), cr_text(r, "tg_max_nan(%s, %s, %s, %s, %s)", cv_type(r, e, lanes), i, f, a, b);
    const char *m = cr_text(r, "%s(%s, %s)", f, a, b);
    return a_is_number ? m : select_of(r, cr_text(r, "((%s)(%s != %s))", i, a, a), a, m, e, lanes);
}

static const char *max_op(CRender *r, const UOp *u, int e, uint32_t lanes)
{
    bool swap = is_number(u->src[1]);
    const UOp *a = u->src[swap], *b = u->src[!swap];
    bool number = is_number(a) || u->tag == LOOSE_TAG;
    return cv_max(r, cv_whole(r, a, e, lanes), cv_whole(r, b, e, lanes), number, e, lanes);
}

/* Of the machine's the second operand is the result where one is NaN. */
static const char *min_op(CRender *r, const UOp *u, int e, uint32_t lanes)
{
    const char *i = cv_type(r, cv_signed(cv_kind[e].bytes), lanes), *f = machine_op(r, H_MIN, "min", e, lanes),
               *a = cv_whole(r, u->src[0], e, lanes), *b = cv_whole(r, u->src[1], e, lanes);
    return f ? cr_text(r, "%s(%s, %s)", f, b, a) : select_of(r, cr_text(r, "((%s)(%s < %s))", i, b, a), b, a, e, lanes);
}

static const char *compare(CRender *r, const UOp *u, uint32_t lanes)
{
    const UOp *a = u->src[0], *b = u->src[1];
    int e = a->dtype == DT_INDEX ? (fits_int(a) && fits_int(b) ? E_I32 : E_I64) : cv_element_of((DType)a->dtype),
        m = cv_signed(cv_kind[e].bytes);
    const char *s = cr_text(r, "(%s %s %s)", cv_operand(r, a, e, lanes),
                            u->op == UOP_CMPLT ? "<" : "!=", cv_operand(r, b, e, lanes));
    return cv_convert(r, cr_text(r, "((%s)%s)", cv_type(r, m, lanes), s), m, cv_element(r, u), lanes);
}

/* A bool, whose lanes are 0 and -1, as 0 and 1 of another type. */
static const char *bool_as(CRender *r, const UOp *x, int e, uint32_t lanes)
{
    int i = cv_signed(cv_kind[e].bytes);
    const char *mask = cv_convert(r, cr_value(r, x), cv_element(r, x), i, lanes), *t = cv_type(r, e, lanes);
    if (!cv_kind[e].is_float) return cr_text(r, "(%s)(%s & 1)", t, mask);
    return cr_text(r, "(%s)(%s & (%s)(1 - (%s){ 0 }))", t, mask, cv_type(r, i, lanes), t);
}

static const char *half_cast(CRender *r, const UOp *u, uint32_t lanes)
{
    DType to = (DType)u->dtype, from = (DType)u->src[0]->dtype;
    const char *s = cr_value(r, u->src[0]), *f = cv_type(r, E_F32, lanes), *w = cv_type(r, E_U32, lanes),
               *h = cv_type(r, E_U16, lanes), *i = cv_type(r, E_I32, lanes);
    if (from == DT_BOOL) s = cr_text(r, "(%s)", bool_as(r, u->src[0], E_F32, lanes));
    else if (dtype_is_int(from) || from == DT_F64) s = cv_convert(r, s, cv_element(r, u->src[0]), E_F32, lanes);
    if (from == DT_BF16) return cr_text(r, "(%s)(%s << 16)", f, cv_convert(r, s, E_U16, E_U32, lanes));
    if (to == DT_BF16) {
        const char *rounded = cr_text(r, "(((%s)%s + 0x7fff + ((%s)%s >> 16 & 1)) >> 16)", w, s, w, s);
        return cr_text(r, "__builtin_convertvector(((%s)(%s == %s) & (%s)%s) | ((%s)(%s != %s) & 0x7fc0), %s)", i, s, s,
                       i, rounded, i, s, s, h);
    }
    if (lanes != 16 && lanes != 8 && lanes != 4) return cv_by_lane(r, u, from == DT_F16 ? E_F32 : E_U16, lanes);
    cv_want(r, from == DT_F16 ? H_FROM_F16 : H_TO_F16);
    return cr_text(r, from == DT_F16 ? "tg_from_f16x%u(%s)" : "tg_to_f16x%u(%s)", lanes, s);
}

static const char *cast_op(CRender *r, const UOp *u, int e, uint32_t lanes)
{
    const UOp *x = u->src[0];
    int from = cv_element(r, x), m = cv_signed(cv_kind[from].bytes);
    if (u->dtype == x->dtype) return cv_whole(r, x, e, lanes);
    if (u->dtype == DT_BOOL)
        return cv_convert(r, cr_text(r, "((%s)(%s != 0))", cv_type(r, m, lanes), cr_value(r, x)), m, e, lanes);
    if (u->dtype == DT_F16 || u->dtype == DT_BF16 || x->dtype == DT_F16 || x->dtype == DT_BF16) {
        const char *half = half_cast(r, u, lanes);
        return u->dtype == DT_F64 ? cv_convert(r, half, E_F32, e, lanes) : half;
    }
    return x->dtype == DT_BOOL ? bool_as(r, x, e, lanes) : cv_convert(r, cr_value(r, x), from, e, lanes);
}

static const char *infix(CRender *r, const UOp *u, const char *sign, int e, uint32_t lanes)
{
    return cr_text(r, "(%s %s %s)", cv_operand(r, u->src[0], e, lanes), sign, cv_operand(r, u->src[1], e, lanes));
}

static const char *shift_op(CRender *r, const UOp *u, int e, uint32_t lanes)
{
    const UOp *n = u->src[1];
    if (n->vmin < 0 || n->vmax >= cv_kind[e].bytes * 8) return cv_by_lane(r, u, e, lanes);
    return infix(r, u, u->op == UOP_SHL ? "<<" : ">>", e, lanes);
}

static const char *unary(CRender *r, const UOp *u, int h, const char *name, int e, uint32_t lanes)
{
    const char *f = machine_op(r, h, name, e, lanes);
    return f ? cr_text(r, "%s(%s)", f, cv_whole(r, u->src[0], e, lanes)) : cv_by_lane(r, u, e, lanes);
}

static const char *exp2_op(CRender *r, const UOp *u, int e, uint32_t lanes)
{
    if (e != E_F32 || (lanes != 4 && lanes != 8 && lanes != 16)) return cv_by_lane(r, u, e, lanes);
    cv_want(r, lanes == 4 ? H_EXP2_4 : lanes == 8 ? H_EXP2_8 : H_EXP2_16);
    const char *name = u->tag == WHOLE_TAG ? "power"
        : u->tag == NORMAL_TAG             ? "exp2n"
        : u->tag == FLUSH_TAG              ? "exp2z"
                                           : "exp2";
    return cr_text(r, "tg_%s_%s(%s)", name, cv_type(r, e, lanes), cv_whole(r, u->src[0], e, lanes));
}

static const char *scale_op(CRender *r, const UOp *u, int e, uint32_t lanes)
{
    cv_want(r, lanes == 4 ? H_EXP2_4 : lanes == 8 ? H_EXP2_8 : H_EXP2_16);
    return cr_text(r, "tg_scaled_%s(%s, %s)", cv_type(r, e, lanes), cv_whole(r, u->src[0], e, lanes),
                   cv_whole(r, u->src[1], e, lanes));
}

static const char *where_op(CRender *r, const UOp *u, int e, uint32_t lanes)
{
    const char *a = cv_whole(r, u->src[1], e, lanes), *b = cv_whole(r, u->src[2], e, lanes);
    if (cr_lanes(u->src[0]) == 1) return cr_text(r, "(%s ? %s : %s)", cr_value(r, u->src[0]), a, b);
    return select_of(r, cv_whole(r, u->src[0], cv_signed(cv_kind[e].bytes), lanes), a, b, e, lanes);
}

static const char *mask_op(CRender *r, const UOp *u, int e, uint32_t lanes)
{
    switch (u->op) {
    case UOP_ADD: case UOP_MAX: case UOP_OR: return infix(r, u, "|", e, lanes);
    case UOP_MUL: case UOP_AND: return infix(r, u, "&", e, lanes);
    case UOP_XOR: case UOP_CMPNE: return infix(r, u, "^", e, lanes);
    default: return cv_by_lane(r, u, e, lanes);
    }
}

/* One look at all lanes. */
static const char *finite_op(CRender *r, const UOp *u, int e, uint32_t lanes)
{
    if (e != E_F32 || (lanes != 16 && lanes != 8 && lanes != 4)) return cv_by_lane(r, u, e, lanes);
    cv_want(r, H_ALL);
    return cr_text(r, "({ %s g_ = %s; if (__builtin_expect(!tg_all_i32x%u(g_ - g_ == 0), 0)) (%s)[1] = 1; g_; })",
                   cv_type(r, e, lanes), cv_whole(r, u->src[0], e, lanes), lanes, cr_value(r, u->src[2]));
}

const char *cv_op(CRender *r, const UOp *u, int e, uint32_t lanes)
{
    if (u->dtype == DT_BOOL && u->src[0]->dtype == DT_BOOL && u->op != UOP_WHERE && u->op != UOP_CAST)
        return mask_op(r, u, e, lanes);
    switch (u->op) {
    case UOP_ADD: return infix(r, u, "+", e, lanes);
    case UOP_MUL: return infix(r, u, "*", e, lanes);
    case UOP_DIV: return infix(r, u, "/", e, lanes);
    case UOP_XOR: return infix(r, u, "^", e, lanes);
    case UOP_OR: return infix(r, u, "|", e, lanes);
    case UOP_AND: return infix(r, u, "&", e, lanes);
    case UOP_SHL: case UOP_SHR: return shift_op(r, u, e, lanes);
    case UOP_RECIP: return cr_text(r, "(1 / %s)", cv_whole(r, u->src[0], e, lanes));
    case UOP_MULACC:
        return cr_text(r, "(%s * %s + %s)", cv_operand(r, u->src[0], e, lanes), cv_operand(r, u->src[1], e, lanes),
                       cv_operand(r, u->src[2], e, lanes));
    case UOP_CMPLT: case UOP_CMPNE: return compare(r, u, lanes);
    case UOP_MAX: return max_op(r, u, e, lanes);
    case UOP_MIN: return min_op(r, u, e, lanes);
    case UOP_WHERE: return where_op(r, u, e, lanes);
    case UOP_EXP2: return exp2_op(r, u, e, lanes);
    case UOP_SCALE: return scale_op(r, u, e, lanes);
    case UOP_SQRT: return unary(r, u, H_SQRT, "sqrt", e, lanes);
    case UOP_TRUNC: return unary(r, u, H_TRUNC, "trunc", e, lanes);
    case UOP_CAST: return cast_op(r, u, e, lanes);
    case UOP_GUARD: return guard_kind(u->arg) == GUARD_FINITE ? finite_op(r, u, e, lanes) : cv_by_lane(r, u, e, lanes);
    case UOP_BITCAST: return cr_text(r, "(%s)%s", cv_type(r, e, lanes), cr_value(r, u->src[0]));
    case UOP_IDIV: case UOP_MOD:
        if (u->src[0]->vmin < 0 || u->src[1]->vmin <= 0 || cv_kind[e].is_float) return cv_by_lane(r, u, e, lanes);
        return infix(r, u, u->op == UOP_IDIV ? "/" : "%", e, lanes);
    default: return cv_by_lane(r, u, e, lanes);
    }
}
