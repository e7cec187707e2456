/* C with GCC's and Clang's vector types. Scalars, loops and addresses come from backends/cstyle.c; here are vectors of
 * 2, 4 .. lanes and the frame of a kernel.
 *
 * A vector of a type is f32x16; f32x16m is the same in memory, aligned to its element only. A vector of bool is a mask:
 * lanes 0 and -1, as wide as what it was compared from. Positions (DT_INDEX) are i32 where their bounds allow, else
 * i64. f16 and bf16 are their bits, u16: select has made their arithmetic f32. C has no vector ?: - a select is two
 * ANDs and an OR, which compile to one blend. To add an op: a case in vector_op; what wants machine instructions: a row
 * in helper[] (helpers.c).
 */
#include <string.h>

#include "backends/cpu/cpu.h"
#include "backends/cpu/helpers.h"
#include "graph/guard.h"
#include "graph/wmma.h"

enum { E_F32, E_F64, E_I8, E_U8, E_I16, E_U16, E_I32, E_U32, E_I64, E_U64, E_COUNT };
static const struct { const char *name, *c; uint8_t bytes; bool is_float, is_signed; } element[E_COUNT] = {
    { "f32", "float", 4, true, true },        { "f64", "double", 8, true, true },
    { "i8", "signed char", 1, false, true },  { "u8", "unsigned char", 1, false, false },
    { "i16", "short", 2, false, true },       { "u16", "unsigned short", 2, false, false },
    { "i32", "int", 4, false, true },         { "u32", "unsigned int", 4, false, false },
    { "i64", "long", 8, false, true },        { "u64", "unsigned long", 8, false, false },
};
/* CRender.used: 128 bits of value types, 128 of memory types, helpers */
enum { USED_VALUE, USED_MEMORY = 2, USED_HELPER = 4 };

static int log2_of(uint32_t n) { return 31 - __builtin_clz(n); }
static int signed_of(int bytes) { return bytes == 1 ? E_I8 : bytes == 2 ? E_I16 : bytes == 4 ? E_I32 : E_I64; }
static int integer_of(int bytes, bool is_signed) { return signed_of(bytes) + !is_signed; }

static void mark(CRender *r, int table, int e, uint32_t lanes)
{
    int bit = e * 8 + log2_of(lanes);
    r->used[table + bit / 64] |= UINT64_C(1) << (bit % 64);
}

static const char *vec(CRender *r, int e, uint32_t lanes)
{
    mark(r, USED_VALUE, e, lanes);
    return cr_text(r, "%sx%u", element[e].name, lanes);
}

static const char *mem(CRender *r, int e, uint32_t lanes)
{
    vec(r, e, lanes);
    mark(r, USED_MEMORY, e, lanes);
    return cr_text(r, "%sx%um", element[e].name, lanes);
}

static void want(CRender *r, int h) { r->used[USED_HELPER] |= UINT64_C(1) << h; }

/* ---- how the lanes of a node are held ---- */

static int memory_element(DType t)
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

static int element_of(CRender *r, const UOp *u);

static int widest_mask(CRender *r, const UOp *u, uint32_t first)
{
    int bytes = 0;
    for (uint32_t k = first; k < u->nsrc; k++) {
        int b = cr_lanes(u->src[k]) > 1 ? element[element_of(r, u->src[k])].bytes : 0;
        if (b > bytes) bytes = b;
    }
    return signed_of(bytes ? bytes : 4);
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

static int element_of(CRender *r, const UOp *u)
{
    if (r->note[u->id]) return r->note[u->id] - 1;
    bool narrow = is_narrow(u);
    int e = u->dtype == DT_BOOL ? mask_element(r, u) : narrow ? E_I32 : memory_element((DType)u->dtype);
    r->note[u->id] = (uint8_t)(e + 1);
    return e;
}

/* ---- conversions ---- */

static const char *convert_step(CRender *r, const char *s, int to, uint32_t lanes)
{
    return cr_text(r, "__builtin_convertvector(%s, %s)", s, vec(r, to, lanes));
}

/* What fills a register is widened to 32 bits by one instruction. */
static const char *widen_step(CRender *r, const char *s, int *from, int target, uint32_t lanes)
{
    bool sign = element[*from].is_signed;
    int to = integer_of(element[*from].bytes * 2, sign);
    if ((lanes != 16 && lanes != 8) || element[*from].bytes > 2 || target < 4)
        return *from = to, convert_step(r, s, to, lanes);
    const char *size = element[*from].bytes == 1 ? "b" : "w";
    want(r, H_WIDEN);
    *from = integer_of(4, sign);
    return cr_text(r, "tg_widen_%u(%s, %s, \"%s\", \"%s\", %s)", lanes, vec(r, *from, lanes), vec(r, to, lanes),
                   sign ? "s" : "z", size, s);
}

/* GCC converts well between neighbouring widths only: integers widen by doubling and become float at the float's width
 * (or half of it). */
static const char *convert(CRender *r, const char *s, int from, int to, uint32_t lanes)
{
    if (from == to) return s;
    if (!element[from].is_float) {
        int target = to == E_F64 && element[from].bytes < 4 ? 4 : element[to].bytes;
        while (element[from].bytes < target) s = widen_step(r, s, &from, target, lanes);
        if (from == to) return s;
        if (!element[to].is_float && element[from].bytes == element[to].bytes)
            return cr_text(r, "((%s)%s)", vec(r, to, lanes), s);
    } else if (!element[to].is_float && element[to].bytes < 4) {
        s = convert_step(r, s, E_I32, lanes);
    }
    return convert_step(r, s, to, lanes);
}

/* C makes an int of narrower integers in an expression, and a long of indices; vectors of another type take none. */
static bool is_promoted(const UOp *u, int e)
{
    return !uop_is_const(u) && (u->dtype == DT_INDEX || (!element[e].is_float && element[e].bytes < 4));
}

static const char *splat(CRender *r, const UOp *u, int e, uint32_t lanes)
{
    const char *s = cr_value(r, u), *t = vec(r, e, lanes);
    if (uop_is_const(u) && u->arg.i == 0) return cr_text(r, "(%s){ 0 }", t);
    if (u->dtype == DT_BOOL) s = uop_is_const(u) ? "-1" : cr_text(r, "(%s)-(%s != 0)", element[e].c, s);
    else if (is_promoted(u, e)) s = cr_text(r, "(%s)%s", element[e].c, s);
    return cr_text(r, "(%s - (%s){ 0 })", s, t);                 /* exact: -0 stays -0 */
}

/* u as a whole vector of element type e. */
static const char *whole(CRender *r, const UOp *u, int e, uint32_t lanes)
{
    return cr_lanes(u) == 1 ? splat(r, u, e, lanes) : convert(r, cr_value(r, u), element_of(r, u), e, lanes);
}

/* The same where a plain scalar beside a vector will do. */
static const char *operand(CRender *r, const UOp *u, int e, uint32_t lanes)
{
    if (cr_lanes(u) > 1 || u->dtype == DT_BOOL) return whole(r, u, e, lanes);
    if (is_promoted(u, e)) return cr_text(r, "(%s)%s", element[e].c, cr_value(r, u));
    return cr_value(r, u);
}

static const char *list(CRender *r, int e, uint32_t lanes, const char *(*item)(CRender *r, const UOp *u, uint32_t lane),
                        const UOp *u)
{
    Text t = { 0 };
    for (uint32_t l = 0; l < lanes; l++)
        text_add(&t, "%s%s%s", l ? ", " : "", u->dtype == DT_BOOL ? "-" : "", item(r, u, l));
    const char *s = cr_text(r, "(%s){ %s }", vec(r, e, lanes), t.s);
    text_free(&t);
    return s;
}

static const char *op_item(CRender *r, const UOp *u, uint32_t l)
{
    const char *o[3];
    for (uint32_t k = 0; k < u->nsrc && k < 3; k++) o[k] = cr_lane(r, u->src[k], l);
    return cr_op(r, u, o);
}

static const char *by_lane(CRender *r, const UOp *u, int e, uint32_t lanes) { return list(r, e, lanes, op_item, u); }

/* ---- vector expressions ---- */

static const char *select_of(CRender *r, const char *m, const char *a, const char *b, int e, uint32_t lanes)
{
    const char *t = vec(r, e, lanes), *i = vec(r, signed_of(element[e].bytes), lanes);
    return cr_text(r, "(%s)((%s & (%s)%s) | (~%s & (%s)%s))", t, m, i, a, m, i, b);
}

/* The helper's name for this type, or NULL: no machine has it. */
static const char *machine_op(CRender *r, int h, const char *name, int e, uint32_t lanes)
{
    uint32_t bytes = element[e].bytes * lanes;
    if (!element[e].is_float || (bytes != 16 && bytes != 32 && bytes != 64)) return NULL;
    want(r, h);
    return cr_text(r, "tg_%s_%s", name, vec(r, e, lanes));
}

static bool is_number(const UOp *u)
{
    return uop_is_const(u) && dtype_is_float((DType)u->dtype) && uop_const_float(u) == uop_const_float(u);
}

/* The machine's maximum gives its second operand when one is NaN; the first is looked at unless it cannot be NaN. */
static const char *max_of(CRender *r, const char *a, const char *b, bool a_is_number, int e, uint32_t lanes)
{
    const char *i = vec(r, signed_of(element[e].bytes), lanes), *f = machine_op(r, H_MAX, "max", e, lanes);
    if (!element[e].is_float) return select_of(r, cr_text(r, "((%s)(%s > %s))", i, a, b), a, b, e, lanes);
    if (!f) return select_of(r, cr_text(r, "((%s)(%s > %s) | (%s)(%s != %s))", i, a, b, i, a, a), a, b, e, lanes);
    if (!a_is_number && e == E_F32)
        return want(r, H_MAX_NAN), cr_text(r, "tg_max_nan(%s, %s, %s, %s, %s)", vec(r, e, lanes), i, f, a, b);
    const char *m = cr_text(r, "%s(%s, %s)", f, a, b);
    return a_is_number ? m : select_of(r, cr_text(r, "((%s)(%s != %s))", i, a, a), a, m, e, lanes);
}

static const char *max_op(CRender *r, const UOp *u, int e, uint32_t lanes)
{
    bool swap = is_number(u->src[1]);
    const UOp *a = u->src[swap], *b = u->src[!swap];
    return max_of(r, whole(r, a, e, lanes), whole(r, b, e, lanes), is_number(a), e, lanes);
}

static const char *compare(CRender *r, const UOp *u, uint32_t lanes)
{
    const UOp *a = u->src[0], *b = u->src[1];
    int e = a->dtype == DT_INDEX ? (fits_int(a) && fits_int(b) ? E_I32 : E_I64) : memory_element((DType)a->dtype),
        m = signed_of(element[e].bytes);
    const char *s =
        cr_text(r, "(%s %s %s)", operand(r, a, e, lanes), u->op == UOP_CMPLT ? "<" : "!=", operand(r, b, e, lanes));
    return convert(r, cr_text(r, "((%s)%s)", vec(r, m, lanes), s), m, element_of(r, u), lanes);
}

/* A bool, whose lanes are 0 and -1, as 0 and 1 of another type. */
static const char *bool_as(CRender *r, const UOp *x, int e, uint32_t lanes)
{
    int i = signed_of(element[e].bytes);
    const char *mask = convert(r, cr_value(r, x), element_of(r, x), i, lanes), *t = vec(r, e, lanes);
    if (!element[e].is_float) return cr_text(r, "(%s)(%s & 1)", t, mask);
    return cr_text(r, "(%s)(%s & (%s)(1 - (%s){ 0 }))", t, mask, vec(r, i, lanes), t);
}

static const char *half_cast(CRender *r, const UOp *u, uint32_t lanes)
{
    DType to = (DType)u->dtype, from = (DType)u->src[0]->dtype;
    const char *s = cr_value(r, u->src[0]), *f = vec(r, E_F32, lanes), *w = vec(r, E_U32, lanes),
               *h = vec(r, E_U16, lanes), *i = vec(r, E_I32, lanes);
    if (from == DT_BOOL) s = cr_text(r, "(%s)", bool_as(r, u->src[0], E_F32, lanes));
    else if (dtype_is_int(from) || from == DT_F64) s = convert(r, s, element_of(r, u->src[0]), E_F32, lanes);
    if (from == DT_BF16) return cr_text(r, "(%s)(%s << 16)", f, convert(r, s, E_U16, E_U32, lanes));
    if (to == DT_BF16) {
        const char *rounded = cr_text(r, "(((%s)%s + 0x7fff + ((%s)%s >> 16 & 1)) >> 16)", w, s, w, s);
        return cr_text(r, "__builtin_convertvector(((%s)(%s == %s) & (%s)%s) | ((%s)(%s != %s) & 0x7fc0), %s)", i, s, s,
                       i, rounded, i, s, s, h);
    }
    if (lanes != 16 && lanes != 8 && lanes != 4) return by_lane(r, u, from == DT_F16 ? E_F32 : E_U16, lanes);
    want(r, from == DT_F16 ? H_FROM_F16 : H_TO_F16);
    return cr_text(r, from == DT_F16 ? "tg_from_f16x%u(%s)" : "tg_to_f16x%u(%s)", lanes, s);
}

static const char *cast_op(CRender *r, const UOp *u, int e, uint32_t lanes)
{
    const UOp *x = u->src[0];
    int from = element_of(r, x), m = signed_of(element[from].bytes);
    if (u->dtype == x->dtype) return whole(r, x, e, lanes);
    if (u->dtype == DT_BOOL)
        return convert(r, cr_text(r, "((%s)(%s != 0))", vec(r, m, lanes), cr_value(r, x)), m, e, lanes);
    if (u->dtype == DT_F16 || u->dtype == DT_BF16 || x->dtype == DT_F16 || x->dtype == DT_BF16) {
        const char *half = half_cast(r, u, lanes);
        return u->dtype == DT_F64 ? convert(r, half, E_F32, e, lanes) : half;
    }
    return x->dtype == DT_BOOL ? bool_as(r, x, e, lanes) : convert(r, cr_value(r, x), from, e, lanes);
}

static const char *infix(CRender *r, const UOp *u, const char *sign, int e, uint32_t lanes)
{
    return cr_text(r, "(%s %s %s)", operand(r, u->src[0], e, lanes), sign, operand(r, u->src[1], e, lanes));
}

static const char *shift_op(CRender *r, const UOp *u, int e, uint32_t lanes)
{
    const UOp *n = u->src[1];
    if (n->vmin < 0 || n->vmax >= element[e].bytes * 8) return by_lane(r, u, e, lanes);
    return infix(r, u, u->op == UOP_SHL ? "<<" : ">>", e, lanes);
}

static const char *unary(CRender *r, const UOp *u, int h, const char *name, int e, uint32_t lanes)
{
    const char *f = machine_op(r, h, name, e, lanes);
    return f ? cr_text(r, "%s(%s)", f, whole(r, u->src[0], e, lanes)) : by_lane(r, u, e, lanes);
}

static const char *exp2_op(CRender *r, const UOp *u, int e, uint32_t lanes)
{
    if (e != E_F32 || (lanes != 4 && lanes != 8 && lanes != 16)) return by_lane(r, u, e, lanes);
    want(r, lanes == 4 ? H_EXP2_4 : lanes == 8 ? H_EXP2_8 : H_EXP2_16);
    const char *name = u->tag == WHOLE_TAG ? "power" : u->tag == NORMAL_TAG ? "exp2n" : "exp2";
    return cr_text(r, "tg_%s_%s(%s)", name, vec(r, e, lanes), whole(r, u->src[0], e, lanes));
}

static const char *where_op(CRender *r, const UOp *u, int e, uint32_t lanes)
{
    const char *a = whole(r, u->src[1], e, lanes), *b = whole(r, u->src[2], e, lanes);
    if (cr_lanes(u->src[0]) == 1) return cr_text(r, "(%s ? %s : %s)", cr_value(r, u->src[0]), a, b);
    return select_of(r, whole(r, u->src[0], signed_of(element[e].bytes), lanes), a, b, e, lanes);
}

static const char *mask_op(CRender *r, const UOp *u, int e, uint32_t lanes)
{
    switch (u->op) {
    case UOP_ADD: case UOP_MAX: case UOP_OR: return infix(r, u, "|", e, lanes);
    case UOP_MUL: case UOP_AND: return infix(r, u, "&", e, lanes);
    case UOP_XOR: case UOP_CMPNE: return infix(r, u, "^", e, lanes);
    default: return by_lane(r, u, e, lanes);
    }
}

/* One look at all lanes. */
static const char *finite_op(CRender *r, const UOp *u, int e, uint32_t lanes)
{
    if (e != E_F32 || (lanes != 16 && lanes != 8 && lanes != 4)) return by_lane(r, u, e, lanes);
    want(r, H_ALL);
    return cr_text(r, "({ %s g_ = %s; if (__builtin_expect(!tg_all_i32x%u(g_ - g_ == 0), 0)) (%s)[1] = 1; g_; })",
                   vec(r, e, lanes), whole(r, u->src[0], e, lanes), lanes, cr_value(r, u->src[2]));
}

static const char *vector_op(CRender *r, const UOp *u, int e, uint32_t lanes)
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
    case UOP_RECIP: return cr_text(r, "(1 / %s)", whole(r, u->src[0], e, lanes));
    case UOP_MULACC:
        return cr_text(r, "(%s * %s + %s)", operand(r, u->src[0], e, lanes), operand(r, u->src[1], e, lanes),
                       operand(r, u->src[2], e, lanes));
    case UOP_CMPLT: case UOP_CMPNE: return compare(r, u, lanes);
    case UOP_MAX: return max_op(r, u, e, lanes);
    case UOP_WHERE: return where_op(r, u, e, lanes);
    case UOP_EXP2: return exp2_op(r, u, e, lanes);
    case UOP_SQRT: return unary(r, u, H_SQRT, "sqrt", e, lanes);
    case UOP_TRUNC: return unary(r, u, H_TRUNC, "trunc", e, lanes);
    case UOP_CAST: return cast_op(r, u, e, lanes);
    case UOP_GUARD: return guard_kind(u->arg) == GUARD_FINITE ? finite_op(r, u, e, lanes) : by_lane(r, u, e, lanes);
    case UOP_BITCAST: return cr_text(r, "(%s)%s", vec(r, e, lanes), cr_value(r, u->src[0]));
    case UOP_IDIV: case UOP_MOD:
        if (u->src[0]->vmin < 0 || u->src[1]->vmin <= 0 || element[e].is_float) return by_lane(r, u, e, lanes);
        return infix(r, u, u->op == UOP_IDIV ? "/" : "%", e, lanes);
    default: return by_lane(r, u, e, lanes);
    }
}

/* ---- instructions on vectors ---- */

static void define(CRender *r, const UOp *u, const char *s)
{
    const char *t = vec(r, element_of(r, u), cr_lanes(u));
    cr_line(r, "const %s %s = %s;", t, cr_name(r, u), s);
}

/* Memory's lanes as a value: bools become a mask. */
static const char *vector_at(CRender *r, const UOp *a, uint32_t lanes)
{
    const char *s = cr_text(r, "*(const %s *)(%s + %s)", mem(r, memory_element((DType)a->dtype), lanes),
                            cr_memory(r, a), cr_position(r, a, 0));
    return a->dtype == DT_BOOL ? cr_text(r, "((%s)(%s != 0))", vec(r, E_I8, lanes), s) : s;
}

static const char *gather_item(CRender *r, const UOp *u, uint32_t l)
{
    const char *s = cr_element(r, u->src[0], l);
    return u->nsrc > 2 ? cr_text(r, "(%s ? %s : %s)", cr_lane(r, u->src[2], l), s, cr_lane(r, u->src[1], l)) : s;
}

/* The float type whose masked access moves elements of this type, or -1. */
static int masked_as(int e, uint32_t lanes)
{
    uint32_t bytes = element[e].bytes * lanes;
    if (element[e].bytes < 4 || lanes < 4 || bytes > 64) return -1;
    return element[e].bytes == 4 ? E_F32 : E_F64;
}

/* What of an INDEX's position differs by lane, where that fits the machine's gather; NULL: it is loaded lane by lane.
 */
static const UOp *gathered_by(const UOp *load)
{
    const UOp *a = load->src[0], *at = a->op == UOP_INDEX ? a->src[1] : NULL;
    uint32_t lanes = cr_lanes(load);
    if (!at || (lanes & (lanes - 1)) || load->dtype == DT_BOOL ||
        masked_as(memory_element((DType)load->dtype), lanes) < 0)
        return NULL;
    while (at->op == UOP_ADD && (cr_lanes(at->src[0]) == 1 || cr_lanes(at->src[1]) == 1))
        at = at->src[cr_lanes(at->src[0]) == 1];
    return cr_lanes(at) == lanes && fits_int(at) && (at->op != UOP_STACK || uop_constants(at)) ? at : NULL;
}

static void gather(CRender *r, const UOp *u, const UOp *part, uint32_t lanes)
{
    int e = element_of(r, u), m = masked_as(e, lanes);
    const char *t = vec(r, e, lanes), *f = vec(r, m, lanes), *base = cr_memory(r, u->src[0]),
               *at = whole(r, part, E_I32, lanes);
    for (const UOp *i = u->src[0]->src[1]; i != part; i = i->src[cr_lanes(i->src[0]) == 1])
        base = cr_text(r, "%s + %s", base, cr_value(r, i->src[cr_lanes(i->src[0]) > 1]));
    want(r, H_GATHER);
    if (u->nsrc < 3) define(r, u, cr_text(r, "(%s)tg_gather_%s(%s, %s)", t, f, base, at));
    else
        define(r, u,
               cr_text(r, "(%s)tg_gather_if_%s(%s, %s, %s, (%s)%s)", t, f, base, at, whole(r, u->src[2], E_I32, lanes),
                       f, whole(r, u->src[1], e, lanes)));
}

static const char *all_true(CRender *r, const UOp *gate, uint32_t lanes)
{
    if (lanes == 16 || lanes == 8 || lanes == 4) {
        want(r, H_ALL);
        return cr_text(r, "tg_all_i32x%u(%s)", lanes, whole(r, gate, E_I32, lanes));
    }
    Text t = { 0 };
    for (uint32_t l = 0; l < lanes; l++) text_add(&t, "%s%s[%u]", l ? " & " : "", cr_value(r, gate), l);
    const char *s = cr_text(r, "%s", t.s);
    text_free(&t);
    return s;
}

/* A vector gate: the machine's masked access; for small types one access when all lanes are on, else lane by lane. */
static void masked_load(CRender *r, const UOp *u, uint32_t lanes)
{
    const UOp *a = u->src[0];
    int e = element_of(r, u), m = masked_as(e, lanes);
    const char *t = vec(r, e, lanes), *f = vec(r, m, lanes), *gate = whole(r, u->src[2], E_I32, lanes);
    want(r, H_MASKED);
    define(r, u,
           cr_text(r, "(%s)tg_load_%s(%s + %s, %s, (%s)%s)", t, f, cr_memory(r, a), cr_position(r, a, 0), gate, f,
                   whole(r, u->src[1], e, lanes)));
}

static void gated_load(CRender *r, const UOp *u, uint32_t lanes)
{
    const UOp *a = u->src[0];
    int e = element_of(r, u);
    const char *all = all_true(r, u->src[2], lanes), *at = vector_at(r, a, lanes), *alt = whole(r, u->src[1], e, lanes),
               *v = cr_name(r, u);
    const char *one = cr_text(r, "%s[%s + l]", cr_memory(r, a), cr_position(r, a, 0));
    cr_line(r, "%s %s = %s;", vec(r, e, lanes), v, alt);
    cr_line(r, "if (%s) %s = %s;", all, v, at);
    cr_line(r, "else for (int l = 0; l < %u; l++) if (%s[l]) %s[l] = %s;", lanes, cr_value(r, u->src[2]), v,
            u->dtype == DT_BOOL ? cr_text(r, "-(%s != 0)", one) : one);
}

static void load_line(CRender *r, const UOp *u, uint32_t lanes)
{
    const UOp *a = u->src[0];
    int e = element_of(r, u);
    const UOp *part = gathered_by(u);
    if (c_is_variable(r, a)) define(r, u, cr_memory(r, a));
    else if (part) gather(r, u, part, lanes);
    else if (a->op == UOP_INDEX) define(r, u, list(r, e, lanes, gather_item, u));
    else if (u->nsrc < 3 || u->src[2]->vmin == 1) define(r, u, vector_at(r, a, lanes));
    else if (cr_lanes(u->src[2]) == 1)
        define(r, u,
               cr_text(r, "%s ? (%s)%s : %s", cr_value(r, u->src[2]), vec(r, e, lanes), vector_at(r, a, lanes),
                       whole(r, u->src[1], e, lanes)));
    else if (masked_as(e, lanes) >= 0) masked_load(r, u, lanes);
    else gated_load(r, u, lanes);
}

static void scatter(CRender *r, const UOp *u, uint32_t lanes)
{
    for (uint32_t l = 0; l < lanes; l++) {
        const char *gate = u->nsrc > 2 ? cr_text(r, "if (%s) ", cr_lane(r, u->src[2], l)) : "";
        cr_line(r, "%s%s = %s;", gate, cr_element(r, u->src[0], l), cr_lane(r, u->src[1], l));
    }
}

static const char *stored(CRender *r, const UOp *v, DType t, uint32_t lanes)
{
    if (t == DT_BOOL) return cr_text(r, "(%s)(%s & 1)", vec(r, E_U8, lanes), whole(r, v, E_I8, lanes));
    return whole(r, v, memory_element(t), lanes);
}

static void vector_store(CRender *r, const UOp *u, uint32_t lanes)
{
    const UOp *a = u->src[0], *gate = u->nsrc > 2 && u->src[2]->vmin != 1 ? u->src[2] : NULL;
    int e = memory_element((DType)a->dtype), m = gate && cr_lanes(gate) > 1 ? masked_as(e, lanes) : -1;
    if (a->op == UOP_INDEX) {
        scatter(r, u, lanes);
        return;
    }
    const char *v = stored(r, u->src[1], (DType)a->dtype, lanes), *to = mem(r, e, lanes);
    if (m >= 0) {
        want(r, H_MASKED);
        cr_line(r, "tg_store_%s(%s + %s, %s, (%s)%s);", vec(r, m, lanes), cr_memory(r, a), cr_position(r, a, 0),
                whole(r, gate, E_I32, lanes), vec(r, m, lanes), v);
        return;
    }
    const char *at = cr_text(r, "%s + %s", cr_memory(r, a), cr_position(r, a, 0));
    if (!gate || cr_lanes(gate) == 1)
        cr_line(r, "%s*(%s *)(%s) = %s;", gate ? cr_text(r, "if (%s) ", cr_value(r, gate)) : "", to, at, v);
    else {
        cr_line(r, "{");
        r->depth++;
        cr_line(r, "const %s x = %s;", vec(r, e, lanes), v);
        cr_line(r, "if (%s) *(%s *)(%s) = x;", all_true(r, gate, lanes), to, at);
        cr_line(r, "else for (int l = 0; l < %u; l++) if (%s[l]) (%s)[l] = x[l];", lanes, cr_value(r, gate), at);
        r->depth--;
        cr_line(r, "}");
    }
}

/* n lanes of x beginning with `from`; beyond the last of its `width` come the same again. */
static const char *lanes_from(CRender *r, const char *x, uint32_t from, uint32_t n, uint32_t width)
{
    Text t = { 0 };
    for (uint32_t l = 0; l < n; l++) text_add(&t, ", %u", from + l < width ? from + l : from);
    const char *s = cr_text(r, "__builtin_shufflevector(%s, %s%s)", x, x, t.s ? t.s : "");
    text_free(&t);
    return s;
}

/* A horizontal reduction: halves are joined, the last four lanes without leaving their register. */
static void across(CRender *r, const UOp *u)
{
    int e = element_of(r, u->src[0]);
    bool mask = u->dtype == DT_BOOL, max = u->arg.i == UOP_MAX && !mask;
    const char *x = cr_value(r, u->src[0]), *v = cr_name(r, u),
               *sign = u->arg.i == UOP_MUL ? mask ? "&" : "*"
        : mask                             ? "|"
                                           : "+";
    uint32_t width = cr_lanes(u->src[0]);
    for (uint32_t h = width / 2; h > 0 && width > 2; h /= 2) {
        uint32_t n = h < 4 ? 4 : h;
        const char *t = vec(r, e, n), *a = n == width ? x : cr_text(r, "%s_%ua", v, h), *b = cr_text(r, "%s_%ub", v, h);
        if (n < width) cr_line(r, "const %s %s = %s;", t, a, lanes_from(r, x, 0, n, width));
        cr_line(r, "const %s %s = %s;", t, b, lanes_from(r, x, h, n, width));
        cr_line(r, "const %s %s_%u = %s;", t, v, h,
                max ? max_of(r, a, b, false, e, n) : cr_text(r, "%s %s %s", a, sign, b));
        x = cr_text(r, "%s_%u", v, h);
        width = n;
    }
    const char *last = width > 2 ? cr_text(r, "%s[0]", x)
        /* so it is no branch on data: an instruction, and one that is foreseen */
        : max ? cr_text(r, "%s[0] != %s[0] ? %s[0] : %s[0] > %s[1] ? %s[0] : %s[1]", x, x, x, x, x, x, x)
              : cr_text(r, "%s[0] %s %s[1]", x, sign, x);
    cr_line(r, mask ? "const %s %s = (%s) & 1;" : "const %s %s = %s;", cr_type(r, u), v, last);
}

static void dot_product(CRender *r, const UOp *u, uint32_t lanes)
{
    const char *c = whole(r, u->src[2], element_of(r, u), lanes);
    want(r, H_DOT);
    vec(r, DT_I32, lanes);                                      /* a's lanes are made as such */
    define(r, u, cr_text(r, "tg_%s(%s, %s, %s)", wmma_of(u)->name, c, cr_value(r, u->src[0]), cr_value(r, u->src[1])));
}

/* Lanes of one or two vectors, in a new order. */
static const char *shuffle(CRender *r, const UOp *u, const UOp *const *of, uint32_t lanes)
{
    Text t = { 0 };
    for (uint32_t l = 0; l < lanes; l++)
        text_add(&t, ", %u", (unsigned)u->src[l]->src[1]->arg.i + (u->src[l]->src[0] != of[0] ? cr_lanes(of[0]) : 0));
    const char *s =
        cr_text(r, "__builtin_shufflevector(%s, %s%s)", cr_value(r, of[0]), cr_value(r, of[of[1] != NULL]), t.s);
    text_free(&t);
    return s;
}

static const char *stack_item(CRender *r, const UOp *u, uint32_t l) { return cr_value(r, u->src[l]); }

static bool store_line(CRender *r, const UOp *u)
{
    const UOp *a = u->src[0];
    uint32_t n = cr_lanes(a) > cr_lanes(u->src[1]) ? cr_lanes(a) : cr_lanes(u->src[1]);
    if (n < 2 || (n & (n - 1))) return false;
    if (c_is_variable(r, a)) cr_line(r, "%s = %s;", cr_memory(r, a), whole(r, u->src[1], element_of(r, a), n));
    else vector_store(r, u, n);
    return true;
}

static bool vector_line(CRender *r, const UOp *u)
{
    const UOp *of[2];
    uint32_t n = cr_lanes(u);
    if (u->op == UOP_RANGE) return cpu_prefetch_epilogue(r, u), false;
    if (cpu_tile_line(r, u)) return true;
    if (u->op == UOP_STORE) return store_line(r, u);
    if (u->op == UOP_REDUCE && cr_lanes(u->src[0]) > 1 && !cr_by_lanes(r, u->src[0])) return across(r, u), true;
    if (n < 2 || (n & (n - 1)) || cr_by_lanes(r, u)) return false;
    if (u->op == UOP_LOAD) return cpu_prefetch_panel(r, u), load_line(r, u, n), true;
    if (uop_is_shuffle(u, of)) return define(r, u, shuffle(r, u, of, n)), true;
    if (u->op == UOP_STACK) return define(r, u, list(r, element_of(r, u), n, stack_item, u)), true;
    if (c_is_variable(r, u)) return cr_line(r, "%s %s;", vec(r, element_of(r, u), n), cr_memory(r, u)), true;
    if (u->op == UOP_WMMA) return dot_product(r, u, n), true;
    if (!op_is((Op)u->op, FLAG_ALU) && u->op != UOP_BITCAST) return false;
    define(r, u, vector_op(r, u, element_of(r, u), n));
    return true;
}

/* ---- scalars of our own, the frame ---- */

static const char *scalar_type(DType t)
{
    return t == DT_F16 || t == DT_BF16 ? "unsigned short" : dtype_info[t].c_name;
}

/* v is a value of the type already: nothing to round. */
unsigned cpu_half_bits(DType t, double v)
{
    float f = (float)v;
    uint32_t i;
    memcpy(&i, &f, 4);
    if (t == DT_BF16) return i >> 16;
    uint32_t sign = i >> 16 & 0x8000, a = i & 0x7fffffff;
    if (a >= 0x7f800000) return a > 0x7f800000 ? 0x7e00 : sign | 0x7c00;
    if (a < 0x38800000) return sign | (unsigned)(__builtin_fabs(v) * 0x1p24);
    return sign | ((a - 0x38000000) >> 13);
}

static bool scalar_op(Text *out, const UOp *u, const char *const *o)
{
    DType t = (DType)u->dtype, from = u->nsrc ? (DType)u->src[0]->dtype : DT_VOID;
    if (u->op == UOP_CONST && (t == DT_F16 || t == DT_BF16))
        return text_add(out, "%u", cpu_half_bits(t, uop_const_float(u))), true;
    if (u->op == UOP_EXP2 && t == DT_F32) return text_add(out, "tg_exp2(%s)", o[0]), true;
    if (u->op != UOP_CAST || t == from) return false;
    if (from == DT_F16 || from == DT_BF16)
        return text_add(out, "%s(%s)", from == DT_F16 ? "tg_f16" : "tg_bf16", o[0]), true;
    if (t == DT_F16 || t == DT_BF16)
        return text_add(out, "%s(%s)", t == DT_F16 ? "tg_to_f16" : "tg_to_bf16", o[0]), true;
    return false;
}

static bool is_half(const UOp *u) { return dtype_is_half((DType)u->dtype); }

static void typedefs(const CRender *r, Text *out)
{
    for (int e = 0; e < E_COUNT; e++)
        for (int n = 1; n < 8; n++) {
            int bit = e * 8 + n, lanes = 1 << n;
            const char *name = element[e].name;
            if (r->used[USED_VALUE + bit / 64] >> (bit % 64) & 1)
                text_add(out, "typedef %s %sx%d __attribute__((vector_size(%d)));\n", element[e].c, name, lanes,
                         element[e].bytes * lanes);
            if (r->used[USED_MEMORY + bit / 64] >> (bit % 64) & 1)
                text_add(out, "typedef %sx%d %sx%dm __attribute__((aligned(%d), may_alias));\n", name, lanes, name,
                         lanes, element[e].bytes);
        }
}

static void preamble(CRender *r, Text *out)
{
    const UOp *l = r->k->linear;
    for (uint32_t i = 0; i < l->nsrc; i++)
        if (l->src[i]->op == UOP_CAST && (is_half(l->src[i]) || is_half(l->src[i]->src[0]))) want(r, H_HALF);
    for (uint32_t i = 0; i < l->nsrc; i++)
        if (l->src[i]->op == UOP_EXP2 && l->src[i]->dtype == DT_F32) want(r, H_EXP2);
    typedefs(r, out);
    if (cpu_has_tiles(r->k)) cpu_tile_sizes(r, out);
    for (int h = 0; h < H_COUNT; h++)
        if (r->used[USED_HELPER] >> h & 1)
            text_add(out, "#ifndef TG_HELPER_%d\n#define TG_HELPER_%d\n%s#endif\n", h, h, cpu_helper[h]);
}

static void prologue(Text *out, const Kernel *k, const char *name)
{
    text_add(out, "void %s(void *const *args, const long *vars, long begin, long end, void *scratch)\n{\n", name);
    for (uint32_t i = 0; i < k->linear->nsrc; i++) {
        const UOp *u = k->linear->src[i];
        const char *t = scalar_type((DType)u->dtype);
        if (u->op == UOP_PARAM)
            text_add(out, "    %s *p%ld = (%s *)args[%ld];\n", t, (long)u->arg.i, t, (long)u->arg.i);
    }
    for (uint32_t i = 0; i < k->nvar; i++) text_add(out, "    const long n%u = vars[%u];\n", i, i);
    if (cpu_has_tiles(k)) text_add(out, "    __asm__ volatile(\"ldtilecfg %%0\" : : \"m\"(TG_TILES_HERE));\n");
}

static void epilogue(Text *out, const Kernel *k)
{
    if (cpu_has_tiles(k)) text_add(out, "    __asm__ volatile(\"tilerelease\" : : );\n");
    text_add(out, "}\n");
}

const CStyle cpu_style = {
    .name = "C",
    .vectors = true,
    .math = "__builtin_",
    .inline_function = "static inline",
    .prologue = prologue,
    .epilogue = epilogue,
    .op = scalar_op,
    .type = scalar_type,
    .line = vector_line,
    .vector_part = gathered_by,
    .preamble = preamble,
};
