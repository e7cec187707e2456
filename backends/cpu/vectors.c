/* Which element the lanes of a node have in C, and vectors of one element as those of another: see vectors.h. */
#include "backends/cpu/vectors.h"

const VectorKind cv_kind[E_COUNT] = {
    { "f32", "float", 4, true, true },        { "f64", "double", 8, true, true },
    { "i8", "signed char", 1, false, true },  { "u8", "unsigned char", 1, false, false },
    { "i16", "short", 2, false, true },       { "u16", "unsigned short", 2, false, false },
    { "i32", "int", 4, false, true },         { "u32", "unsigned int", 4, false, false },
    { "i64", "long", 8, false, true },        { "u64", "unsigned long", 8, false, false },
};

static int log2_of(uint32_t n) { return 31 - __builtin_clz(n); }
int cv_signed(int bytes) { return bytes == 1 ? E_I8 : bytes == 2 ? E_I16 : bytes == 4 ? E_I32 : E_I64; }
static int integer_of(int bytes, bool is_signed) { return cv_signed(bytes) + !is_signed; }

static void mark(CRender *r, int table, int e, uint32_t lanes)
{
    int bit = e * 8 + log2_of(lanes);
    r->used[table + bit / 64] |= UINT64_C(1) << (bit % 64);
}

const char *cv_type(CRender *r, int e, uint32_t lanes)
{
    mark(r, USED_VALUE, e, lanes);
    return cr_text(r, "%sx%u", cv_kind[e].name, lanes);
}

const char *cv_memory(CRender *r, int e, uint32_t lanes)
{
    cv_type(r, e, lanes);
    mark(r, USED_MEMORY, e, lanes);
    return cr_text(r, "%sx%um", cv_kind[e].name, lanes);
}

void cv_want(CRender *r, int h) { r->used[USED_HELPER] |= UINT64_C(1) << h; }

/* ---- how the lanes of a node are held ---- */

int cv_element_of(DType t)
{
    switch (t) {
    case DT_F32: return E_F32;
    case DT_F64: return E_F64;
    case DT_I8: return E_I8;
    case DT_BOOL: case DT_U8: return E_U8;
    case DT_I16: return E_I16;
    case DT_U16: case DT_F16: case DT_BF16: return E_U16;
    case DT_I32: return E_I32;
    case DT_U32: return E_U32;
    case DT_U64: return E_U64;
    default: return E_I64;
    }
}

static int widest_mask(CRender *r, const UOp *u, uint32_t first)
{
    int bytes = 0;
    for (uint32_t k = first; k < u->nsrc; k++) {
        int b = cr_lanes(u->src[k]) > 1 ? cv_kind[cv_element(r, u->src[k])].bytes : 0;
        if (b > bytes) bytes = b;
    }
    return cv_signed(bytes ? bytes : 4);
}

static int mask_element(CRender *r, const UOp *u)
{
    switch (u->op) {
    case UOP_LOAD: return u->src[0]->op == UOP_BUFFER ? E_I32 : E_I8;
    case UOP_BUFFER: case UOP_STACK: return E_I32;
    case UOP_BITCAST: return E_I8;
    case UOP_WHERE: return widest_mask(r, u, cr_lanes(u->src[1]) > 1 || cr_lanes(u->src[2]) > 1 ? 1 : 0);
    default: return widest_mask(r, u, 0);
    }
}

/* Positions and sizes are i32 where they fit; a quotient and the like, in which the high bits of the operands count,
 * only where those fit too. */
static bool is_narrow(const UOp *u)
{
    bool narrow = u->dtype == DT_INDEX && u->vmin >= INT32_MIN && u->vmax <= INT32_MAX,
         high = u->op == UOP_MOD || u->op == UOP_IDIV || u->op == UOP_SHR || u->op == UOP_MAX;
    for (uint32_t k = 0; high && k < u->nsrc; k++)
        narrow = narrow && u->src[k]->vmin >= INT32_MIN && u->src[k]->vmax <= INT32_MAX;
    return narrow;
}

int cv_element(CRender *r, const UOp *u)
{
    if (r->note[u->id]) return r->note[u->id] - 1;
    bool narrow = is_narrow(u);
    int e = u->dtype == DT_BOOL ? mask_element(r, u) : narrow ? E_I32 : cv_element_of((DType)u->dtype);
    r->note[u->id] = (uint8_t)(e + 1);
    return e;
}

/* ---- conversions ---- */

static const char *convert_step(CRender *r, const char *s, int to, uint32_t lanes)
{
    return cr_text(r, "__builtin_convertvector(%s, %s)", s, cv_type(r, to, lanes));
}

/* 32 bits each, of what fills a register, are cut to fewer. */
static const char *narrow_step(CRender *r, const char *s, int to, uint32_t lanes)
{
    if (lanes != 16 && lanes != 8) return convert_step(r, s, to, lanes);
    cv_want(r, H_NARROW);
    return cr_text(r, "tg_narrow_%u(%s, %s, %s)", lanes, cv_type(r, to, lanes), cv_kind[to].bytes == 1 ? "b" : "w", s);
}

/* What fills a register is widened to 32 bits by one instruction. */
static const char *widen_step(CRender *r, const char *s, int *from, int target, uint32_t lanes)
{
    bool sign = cv_kind[*from].is_signed;
    int to = integer_of(cv_kind[*from].bytes * 2, sign);
    if ((lanes != 16 && lanes != 8) || cv_kind[*from].bytes > 2 || target < 4)
        return *from = to, convert_step(r, s, to, lanes);
    const char *size = cv_kind[*from].bytes == 1 ? "b" : "w";
    cv_want(r, H_WIDEN);
    *from = integer_of(4, sign);
    return cr_text(r, "tg_widen_%u(%s, %s, \"%s\", \"%s\", %s)", lanes, cv_type(r, *from, lanes), cv_type(r, to, lanes),
                   sign ? "s" : "z", size, s);
}

/* GCC converts well between neighbouring widths only: integers widen by doubling and become float at the float's width
 * (or half of it). */
const char *cv_convert(CRender *r, const char *s, int from, int to, uint32_t lanes)
{
    if (from == to) return s;
    if (!cv_kind[from].is_float) {
        int target = to == E_F64 && cv_kind[from].bytes < 4 ? 4 : cv_kind[to].bytes;
        while (cv_kind[from].bytes < target) s = widen_step(r, s, &from, target, lanes);
        if (from == to) return s;
        if (!cv_kind[to].is_float && cv_kind[from].bytes == cv_kind[to].bytes)
            return cr_text(r, "((%s)%s)", cv_type(r, to, lanes), s);
    } else if (!cv_kind[to].is_float && cv_kind[to].bytes < 4) {
        s = convert_step(r, s, E_I32, lanes);
        from = E_I32;
    }
    bool words = !cv_kind[from].is_float && cv_kind[from].bytes == 4;
    if (words && !cv_kind[to].is_float && cv_kind[to].bytes < 4) return narrow_step(r, s, to, lanes);
    return convert_step(r, s, to, lanes);
}

/* C makes an int of narrower integers in an expression, and a long of indices; vectors of another type take none. */
static bool is_promoted(const UOp *u, int e)
{
    return !uop_is_const(u) && (u->dtype == DT_INDEX || (!cv_kind[e].is_float && cv_kind[e].bytes < 4));
}

static const char *splat(CRender *r, const UOp *u, int e, uint32_t lanes)
{
    const char *s = cr_value(r, u), *t = cv_type(r, e, lanes);
    if (uop_is_const(u) && u->arg.i == 0) return cr_text(r, "(%s){ 0 }", t);
    if (u->dtype == DT_BOOL) s = uop_is_const(u) ? "-1" : cr_text(r, "(%s)-(%s != 0)", cv_kind[e].c, s);
    else if (is_promoted(u, e)) s = cr_text(r, "(%s)%s", cv_kind[e].c, s);
    return cr_text(r, "(%s - (%s){ 0 })", s, t);                 /* exact: -0 stays -0 */
}

const char *cv_whole(CRender *r, const UOp *u, int e, uint32_t lanes)
{
    return cr_lanes(u) == 1 ? splat(r, u, e, lanes) : cv_convert(r, cr_value(r, u), cv_element(r, u), e, lanes);
}

const char *cv_operand(CRender *r, const UOp *u, int e, uint32_t lanes)
{
    if (cr_lanes(u) > 1 || u->dtype == DT_BOOL) return cv_whole(r, u, e, lanes);
    if (is_promoted(u, e)) return cr_text(r, "(%s)%s", cv_kind[e].c, cr_value(r, u));
    return cr_value(r, u);
}

const char *cv_list(CRender *r, int e, uint32_t lanes, const char *(*item)(CRender *r, const UOp *u, uint32_t lane),
                    const UOp *u)
{
    Text t = { 0 };
    for (uint32_t l = 0; l < lanes; l++)
        text_add(&t, "%s%s%s", l ? ", " : "", u->dtype == DT_BOOL ? "-" : "", item(r, u, l));
    const char *s = cr_text(r, "(%s){ %s }", cv_type(r, e, lanes), t.s);
    text_free(&t);
    return s;
}

static const char *op_item(CRender *r, const UOp *u, uint32_t l)
{
    const char *o[3];
    for (uint32_t k = 0; k < u->nsrc && k < 3; k++) o[k] = cr_lane(r, u->src[k], l);
    return cr_op(r, u, o);
}

const char *cv_by_lane(CRender *r, const UOp *u, int e, uint32_t lanes) { return cv_list(r, e, lanes, op_item, u); }
