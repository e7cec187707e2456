/* Element-wise operations on vectors, and on floats, which are vectors of one lane (values.h). To add one: a row in
 * by_type or a case in x_vector_op. What is not here is done lane by lane. */
#include "backends/cpu/cpu.h"
#include "backends/x86/values.h"
#include "graph/wmma.h"
#include "graph/guard.h"

#include <string.h>

enum { NONE = M_COUNT };
/* Rows of mir.def by what an element is. */
typedef struct {
    uint8_t f32, f64, s8, u8, s16, u16, s32, u32, s64, u64;
} ByType;
#define INTEGERS(b, w, d, q) b, b, w, w, d, d, q, q
static const ByType add_row = { M_ADDPS, M_ADDPD, INTEGERS(M_PADDB, M_PADDW, M_PADDD, M_PADDQ) },
                    mul_row = { M_MULPS, M_MULPD, INTEGERS(NONE, M_PMULLW, M_PMULLD, M_PMULLQ) },
                    and_row = { NONE, NONE, INTEGERS(M_PAND, M_PAND, M_PAND, M_PAND64) },
                    or_row = { NONE, NONE, INTEGERS(M_POR, M_POR, M_POR, M_POR64) },
                    xor_row = { NONE, NONE, INTEGERS(M_PXOR, M_PXOR, M_PXOR, M_PXOR64) },
                    shl_row = { NONE, NONE, INTEGERS(NONE, M_PSLLVW, M_PSLLVD, M_PSLLVQ) },
                    shl_by_row = { NONE, NONE, INTEGERS(NONE, M_PSLLW, M_PSLLD, M_PSLLQ) },
                    shr_row = { NONE, NONE, NONE, NONE, M_PSRAVW, M_PSRLVW, M_PSRAVD, M_PSRLVD, M_PSRAVQ, M_PSRLVQ },
                    shr_by_row = { NONE, NONE, NONE, NONE, M_PSRAW, M_PSRLW, M_PSRAD, M_PSRLD, M_PSRAQ, M_PSRLQ },
                    div_row = { M_DIVPS, M_DIVPD, INTEGERS(NONE, NONE, NONE, NONE) },
                    sqrt_row = { M_SQRTPS, M_SQRTPD, INTEGERS(NONE, NONE, NONE, NONE) },
                    trunc_row = { M_ROUNDPS, M_ROUNDPD, INTEGERS(NONE, NONE, NONE, NONE) },
                    fma_row = { M_FMAPS, M_FMAPD, INTEGERS(NONE, NONE, NONE, NONE) },
                    max_row = { M_MAXNAN, M_MAXNAN, M_PMAXSB, M_PMAXUB, M_PMAXSW,
                                M_PMAXUW, M_PMAXSD, M_PMAXUD, M_PMAXSQ, M_PMAXUQ },
                    cmp_row = { M_CMPPS,  M_CMPPD, M_PCMPB,  M_PCMPUB, M_PCMPW,
                                M_PCMPUW, M_PCMPD, M_PCMPUD, M_PCMPQ,  M_PCMPUQ };
/* predicates: of floats less (ordered), not equal (or unordered); of integers */
enum {
    FLOAT_LESS = 17,
    FLOAT_NOT_EQUAL = 4,
    INT_LESS = 1,
    INT_NOT_EQUAL = 4,
    TOWARDS_ZERO = 11,
    NEAREST = 8
};

static int row_for(const ByType *row, DType t)
{
    switch (t) {
    case DT_F32: return row->f32;
    case DT_F64: return row->f64;
    case DT_I8: return row->s8;
    case DT_U8: return row->u8;
    case DT_I16: return row->s16;
    case DT_U16: return row->u16;
    case DT_I32:
    case DT_INDEX: return row->s32;
    case DT_BOOL:
    case DT_U32: return row->u32;
    case DT_I64: return row->s64;
    case DT_U64: return row->u64;
    default: return NONE;
    }
}

/* NONE too where the machine lacks it */
static int row_of(const Lower *l, const ByType *row, DType t)
{
    int op = row_for(row, t);
    return op != NONE && mcode_has(l->m, op) ? op : NONE;
}

static int width_of(DType t, uint32_t lanes) { return round_width((uint32_t)element_bytes(t) * lanes); }

static Reg take(Lower *l, Opnd o, int width) { return o.r ? o.r : x_whole(l, o.u, width); }
static bool is_const(Opnd o) { return !o.r && o.u->op == UOP_CONST; }

/* May it be an element in memory that the instruction repeats? */
static bool in_memory(Opnd o) { return is_const(o) && element_bytes((DType)o.u->dtype) >= 4; }

typedef struct {
    Reg r;
    Place at;
    bool memory;
} Last;
static Last last_operand(Lower *l, Opnd o, int width)
{
    if (in_memory(o)) return (Last){ 0, x_const_place(l, o.u), true };
    return (Last){ take(l, o, width), (Place){ 0 }, false };
}

static Ins *put_last(Lower *l, int op, int width, Last b)
{
    Ins *i = x_put(l, op);
    i->width = (uint8_t)width, i->b = b.r, i->at = b.at, i->broadcast = b.memory;
    return i;
}

static bool two(Lower *l, int op, Opnd a, Opnd b, int width, bool commutes, Reg dst)
{
    if (op == NONE) return false;
    if (commutes && in_memory(a) && !in_memory(b)) {
        Opnd t = a;
        a = b, b = t;
    }
    Reg x = take(l, a, width);
    Last y = last_operand(l, b, width);
    Ins *i = put_last(l, op, width, y);
    i->dst = dst, i->a = x;
    return true;
}

static bool one(Lower *l, int op, Opnd b, int width, int64_t imm, Reg dst)
{
    if (op == NONE) return false;
    Last y = last_operand(l, b, width);
    Ins *i = put_last(l, op, width, y);
    i->dst = dst, i->imm = imm;
    return true;
}

static Reg simple(Lower *l, int op, Reg b, int width, int result_width, int64_t imm)
{
    Reg r = x_vector(l, result_width);
    Ins *i = x_put(l, op);
    i->dst = r, i->b = b, i->width = (uint8_t)width, i->imm = imm;
    return r;
}

static void move(Lower *l, Reg dst, Reg from, int width)
{
    Ins *i = x_put(l, M_VMOVE);
    i->dst = dst, i->b = from, i->width = (uint8_t)width;
}

static bool mulacc(Lower *l, int op, const Opnd *o, int width, Reg dst)
{
    bool swap = in_memory(o[0]) && !in_memory(o[1]);
    Opnd a = o[swap], b = o[!swap];
    if (op == NONE) return false;
    Reg x = take(l, a, width), y = 0, z = 0;
    Place at = { 0 };
    if (in_memory(b)) at = x_const_place(l, b.u);
    else y = take(l, b, width);
    if (at.kind == AT_NONE && in_memory(o[2])) at = x_const_place(l, o[2].u);
    else z = take(l, o[2], width);
    Ins *i = x_put(l, op);
    i->dst = dst, i->a = x, i->b = y, i->c = z, i->at = at, i->broadcast = at.kind != AT_NONE,
    i->width = (uint8_t)width;
    return true;
}

static bool maximum(Lower *l, const UOp *u, const Opnd *o, int width, Reg dst)
{
    DType t = (DType)u->dtype;
    int op = row_of(l, &max_row, t);
    if (op != M_MAXNAN) return two(l, op, o[0], o[1], width, true, dst);
    bool number0 = is_const(o[0]) && uop_const_float(o[0].u) == uop_const_float(o[0].u),
         number1 = is_const(o[1]) && uop_const_float(o[1].u) == uop_const_float(o[1].u);
    int plain = t == DT_F32 ? M_MAXPS : M_MAXPD; /* gives its second operand where one is NaN */
    if (number0 || u->tag == LOOSE_TAG) return two(l, plain, o[0], o[1], width, false, dst);
    if (number1) return two(l, plain, o[1], o[0], width, false, dst);
    Reg a = take(l, o[0], width), b = take(l, o[1], width);
    Ins *i = x_put(l, op);
    i->dst = dst, i->a = a, i->b = b, i->width = (uint8_t)width, i->size = (uint8_t)dtype_size(t);
    return true;
}

static bool compare(Lower *l, const UOp *u, const Opnd *o, uint32_t n, Reg dst)
{
    DType t = (DType)u->src[0]->dtype;
    int op = row_of(l, &cmp_row, t), width = width_of(t, n);
    bool less = u->op == UOP_CMPLT;
    if (op == NONE || t == DT_BOOL) return false;
    Reg a = take(l, o[0], width);
    Last b = last_operand(l, o[1], width);
    Ins *i = put_last(l, op, width, b);
    i->dst = dst, i->a = a, i->size = (uint8_t)n;
    i->imm = full_float(t) ? (less ? FLOAT_LESS : FLOAT_NOT_EQUAL) : (less ? INT_LESS : INT_NOT_EQUAL);
    return true;
}

static bool masks(Lower *l, const UOp *u, const Opnd *o, int width, Reg dst)
{
    switch (u->op) {
    case UOP_ADD:
    case UOP_MAX:
    case UOP_OR: return two(l, M_POR, o[0], o[1], width, true, dst);
    case UOP_MUL:
    case UOP_AND: return two(l, M_PAND, o[0], o[1], width, true, dst);
    case UOP_XOR:
    case UOP_CMPNE: return two(l, M_PXOR, o[0], o[1], width, true, dst);
    case UOP_CMPLT: return two(l, M_PANDN, o[0], o[1], width, false, dst);
    default: return false;
    }
}

static bool pick(Lower *l, const UOp *u, const Opnd *o, uint32_t n, Reg dst)
{
    int width = width_of((DType)u->dtype, n);
    if (!o[0].r && cr_lanes(o[0].u) == 1) {
        Reg a = take(l, o[1], width), b = take(l, o[2], width), c = x_scalar(l, o[0].u), r = x_vector(l, width);
        uint32_t over = ++l->m->labels;
        move(l, r, b, width);
        Ins *i = x_put(l, M_JUMP_ZERO);
        i->a = c, i->label = over;
        move(l, r, a, width);
        x_put(l, M_LABEL)->label = over;
        move(l, dst, r, width);
        return true;
    }
    if (!o[0].r && !x_is_vector(l, o[0].u)) return false;
    Reg c = take(l, o[0], width_of(DT_BOOL, n)), a = take(l, o[1], width), b = take(l, o[2], width);
    Ins *i = x_put(l, M_PICK);
    i->dst = dst, i->a = a, i->b = b, i->c = c, i->width = (uint8_t)width;
    i->size = (uint8_t)element_bytes((DType)u->dtype);
    return true;
}

static bool shift(Lower *l, const UOp *u, const Opnd *o, int width, Reg dst)
{
    DType t = (DType)u->dtype;
    bool left = u->op == UOP_SHL;
    int op = row_of(l, left ? &shl_row : &shr_row, t), by = row_of(l, left ? &shl_by_row : &shr_by_row, t);
    if (!is_const(o[1]) || u->src[1]->vmin < 0 || u->src[1]->vmax >= dtype_info[t].bits)
        return two(l, op, o[0], o[1], width, false, dst);
    if (by == NONE) return false;
    Reg a = take(l, o[0], width);
    Ins *i = x_put(l, by);
    i->dst = dst, i->a = a, i->imm = x_const_bits(o[1].u), i->width = (uint8_t)width;
    return true;
}

static const float least_normal = -126, none;

static Reg constant(Lower *l, const float *c, int width)
{
    Reg r = x_vector(l, width);
    Ins *i = x_put(l, M_BCASTSS);
    i->dst = r, i->width = (uint8_t)width, i->at = in_pool(x_pool(l, c, 4));
    return r;
}

/* Where 2^x is less than a normal number, as a mask. */
static Reg below_normal(Lower *l, Reg x, Reg least, uint32_t lanes, int width)
{
    Reg low = x_vector(l, width);
    Ins *i = x_put(l, M_CMPPS);
    i->dst = low, i->a = x, i->b = least, i->imm = FLOAT_LESS, i->size = (uint8_t)lanes, i->width = (uint8_t)width;
    return low;
}

/* 2^x = 2^n p(x - n), n the nearest integer, as helpers.c says. */
static bool exp2_op(Lower *l, const UOp *u, const Opnd *o, uint32_t lanes, int width, Reg dst)
{
    static const float c[] = {
        0.000153458081f, 0.00133999309f, 0.00961848907f, 0.0555032864f, 0.240226462f, 0.693147182f, 1.0f
    };
    enum { TERMS = sizeof c / sizeof *c };
    if (u->dtype != DT_F32 || !mcode_has(l->m, M_SCALEFPS)) return false;
    bool whole = u->tag == WHOLE_TAG;                   /* p is 1 then */
    Reg x = take(l, o[0], width), low = 0;
    if (u->tag == FLUSH_TAG) {
        Reg least = constant(l, &least_normal, width), most = x_vector(l, width);
        low = below_normal(l, x, least, lanes, width);
        Ins *i = x_put(l, M_MAXPS);                     /* NaN where its second operand is */
        i->dst = most, i->a = least, i->b = x, i->width = (uint8_t)width;
        x = most;
    }
    Reg n = whole ? x : simple(l, M_ROUNDPS, x, width, width, NEAREST);
    Reg p = constant(l, &c[whole ? TERMS - 1 : 0], width);
    Ins *i;
    Reg f = whole ? 0 : simple(l, M_REDUCEPS, x, width, width, NEAREST);
    for (int k = 1; k < TERMS && !whole; k++) {
        i = x_put(l, M_FMAPS);
        i->dst = p, i->a = p, i->b = f, i->width = (uint8_t)width, i->broadcast = true;
        i->at = in_pool(x_pool(l, &c[k], 4));
    }
    Reg r = low ? x_vector(l, width) : dst;
    i = x_put(l, M_SCALEFPS);
    i->dst = r, i->a = p, i->b = n, i->width = (uint8_t)width;
    if (!low) return true;
    Reg zeros = constant(l, &none, width);
    i = x_put(l, M_PICK);
    i->dst = dst, i->a = zeros, i->b = r, i->c = low, i->width = (uint8_t)width, i->size = 4;
    return true;
}

static bool scale_op(Lower *l, const UOp *u, const Opnd *o, int width, Reg dst)
{
    if (u->dtype != DT_F32 || !mcode_has(l->m, M_SCALEFPS)) return false;
    return two(l, M_SCALEFPS, o[0], o[1], width, false, dst);
}

/* ---- casts ---- */

static int integer_bytes(DType t) { return element_bytes(t); }

static int widening(bool sign, int from, int to)
{
    static const uint8_t row[2][3][3] = { { { M_ZXBW, M_ZXBD, M_ZXBQ }, { 0, M_ZXWD, M_ZXWQ }, { 0, 0, M_ZXDQ } },
                                          { { M_SXBW, M_SXBD, M_SXBQ }, { 0, M_SXWD, M_SXWQ }, { 0, 0, M_SXDQ } } };
    return row[sign][__builtin_ctz((unsigned)from)][__builtin_ctz((unsigned)to) - 1];
}

static int narrowing(int from, int to)
{
    static const uint8_t row[3][4] = { { 0, M_CUTWB, M_CUTDB, M_CUTQB },
                                       { 0, 0, M_CUTDW, M_CUTQW },
                                       { 0, 0, 0, M_CUTQD } };
    return row[__builtin_ctz((unsigned)to)][__builtin_ctz((unsigned)from)];
}

/* Integers of another width. */
static Reg resize(Lower *l, Reg a, bool sign, int from, int to, uint32_t n)
{
    if (from == to) return a;
    int big = round_width((uint32_t)(from > to ? from : to) * n), result = round_width((uint32_t)to * n);
    if (to > from) return simple(l, widening(sign, from, to), a, big, result, 0);
    Reg r = x_vector(l, result);
    Ins *i = x_put(l, narrowing(from, to));
    i->dst = r, i->a = a, i->width = (uint8_t)big;
    return r;
}

static Reg and_const(Lower *l, Reg a, uint32_t bits, int width)
{
    Reg r = x_vector(l, width);
    Ins *i = x_put(l, M_PAND);
    i->dst = r, i->a = a, i->width = (uint8_t)width, i->broadcast = true, i->at = in_pool(x_pool(l, &bits, 4));
    return r;
}

static uint32_t one_of(DType t) { return t == DT_F32 ? 0x3f800000 : t == DT_F16 ? 0x3c00 : t == DT_BF16 ? 0x3f80 : 1; }

static Reg of_bool(Lower *l, Reg mask, DType to, uint32_t n)
{
    int width = width_of(DT_BOOL, n);
    Reg bits = and_const(l, mask, one_of(to), width);
    if (to == DT_F64) return simple(l, M_DQ2PD, bits, width_of(to, n), width_of(to, n), 0);
    return resize(l, bits, false, 4, element_bytes(to), n);
}

/* 0: the machine has no such conversion */
static Reg int_to_float(Lower *l, Reg a, DType from, DType to, uint32_t n)
{
    bool sign = is_signed(from);
    int size = integer_bytes(from), full = size < 4 ? 4 : size;
    bool as_signed = sign || size < 4;
    int big = round_width((uint32_t)(full > element_bytes(to) ? full : element_bytes(to)) * n);
    int op = to == DT_F32 ? (full == 4       ? (as_signed ? M_DQ2PS : M_UDQ2PS)
                                 : as_signed ? M_QQ2PS
                                             : M_UQQ2PS)
                          : (full == 4       ? (as_signed ? M_DQ2PD : M_UDQ2PD)
                                 : as_signed ? M_QQ2PD
                                             : M_UQQ2PD);
    if (!mcode_has(l->m, op)) return 0;
    if (size < 4) a = resize(l, a, sign, size, 4, n);
    return simple(l, op, a, big, width_of(to, n), 0);
}

static Reg float_to_int(Lower *l, Reg a, DType from, DType to, uint32_t n)
{
    int size = integer_bytes(to), from_size = element_bytes(from), mid = size < 4 ? 4 : size;
    if (from == DT_F64 && to == DT_U32) mid = 8;
    int big = round_width((uint32_t)(mid > from_size ? mid : from_size) * n), op;
    if (from == DT_F32) op = to == DT_U32 ? M_PS2UDQ : mid == 4 ? M_PS2DQ : to == DT_U64 ? M_PS2UQQ : M_PS2QQ;
    else op = mid == 4 ? M_PD2DQ : to == DT_U64 ? M_PD2UQQ : M_PD2QQ;
    if (!mcode_has(l->m, op)) return 0;
    return resize(l, simple(l, op, a, big, round_width((uint32_t)mid * n), 0), false, mid, size, n);
}

static Reg to_bf16(Lower *l, Reg f, uint32_t n)
{
    static const uint32_t half = 0x7fff, one = 1, quiet = 0x7fc0;
    int width = width_of(DT_F32, n);
    Reg up = x_vector(l, width), sum = x_vector(l, width), nan = x_vector(l, width), r = x_vector(l, width);
    Ins *i = x_put(l, M_PSRLD);
    i->dst = up, i->a = f, i->imm = 16, i->width = (uint8_t)width;
    Reg odd = and_const(l, up, one, width);
    i = x_put(l, M_PADDD);
    i->dst = sum, i->a = odd, i->width = (uint8_t)width, i->broadcast = true, i->at = in_pool(x_pool(l, &half, 4));
    Reg total = x_vector(l, width), high = x_vector(l, width), q = x_vector(l, width);
    i = x_put(l, M_PADDD);
    i->dst = total, i->a = sum, i->b = f, i->width = (uint8_t)width;
    i = x_put(l, M_PSRLD);
    i->dst = high, i->a = total, i->imm = 16, i->width = (uint8_t)width;
    i = x_put(l, M_CMPPS);
    i->dst = nan, i->a = f, i->b = f, i->imm = FLOAT_NOT_EQUAL, i->size = (uint8_t)n, i->width = (uint8_t)width;
    i = x_put(l, M_BCASTSS);
    i->dst = q, i->width = (uint8_t)width, i->at = in_pool(x_pool(l, &quiet, 4));
    i = x_put(l, M_PICK);
    i->dst = r, i->a = q, i->b = high, i->c = nan, i->size = 4, i->width = (uint8_t)width;
    return resize(l, r, false, 4, 2, n);
}

static Reg half_cast(Lower *l, Reg a, DType from, DType to, uint32_t n)
{
    int wide = width_of(DT_F32, n), narrow = width_of(DT_F16, n);
    if (from == DT_F16) return simple(l, M_PH2PS, a, wide, wide, 0);
    if (to == DT_BF16) return to_bf16(l, a, n);
    if (to == DT_F16) {
        Reg r = x_vector(l, narrow);
        Ins *i = x_put(l, M_PS2PH);
        i->dst = r, i->a = a, i->width = (uint8_t)wide;
        return r;
    }
    Reg up = resize(l, a, false, 2, 4, n), r = x_vector(l, wide);
    Ins *i = x_put(l, M_PSLLD);
    i->dst = r, i->a = up, i->imm = 16, i->width = (uint8_t)wide;
    return r;
}

static Reg to_bool(Lower *l, Reg a, DType from, uint32_t n)
{
    static const int64_t zero = 0;
    int size = element_bytes(from), width = width_of(from, n), op = row_of(l, &cmp_row, from);
    Reg r = x_vector(l, width_of(DT_BOOL, n));
    if (size < 4) a = resize(l, a, false, size, 4, n), width = width_of(DT_I32, n), size = 4, op = M_PCMPD;
    Ins *i = x_put(l, op);
    i->dst = r, i->a = a, i->broadcast = true, i->at = in_pool(x_pool(l, &zero, (uint32_t)size)), i->size = (uint8_t)n;
    i->imm = full_float(from) ? FLOAT_NOT_EQUAL : INT_NOT_EQUAL, i->width = (uint8_t)width;
    return r;
}

/* The select stage lets halves meet f32 only. */
static bool cast(Lower *l, const UOp *u, const Opnd *o, uint32_t n, Reg dst)
{
    DType to = (DType)u->dtype, from = (DType)u->src[0]->dtype;
    bool halves = dtype_is_half(to) || dtype_is_half(from);
    if (!o[0].r && !x_is_vector(l, o[0].u)) return false;
    if (halves && to != from && to != DT_F32 && from != DT_F32 && from != DT_BOOL) return false;
    if (element_bytes(from) * n > most_bytes(l) || element_bytes(to) * n > most_bytes(l)) return false;
    if (n * 4 > most_bytes(l) && element_bytes(from) != element_bytes(to)) return false;
    if (from == DT_F64 && to == DT_U32 && n * 8 > most_bytes(l)) return false;
    Reg a = take(l, o[0], width_of(from, n)), r;
    if (to == from) r = a;
    else if (from == DT_BOOL) r = of_bool(l, a, to, n);
    else if (to == DT_BOOL) r = to_bool(l, a, from, n);
    else if (halves) r = half_cast(l, a, from, to, n);
    else if (full_float(to) && full_float(from))
        r = simple(l, to == DT_F64 ? M_PS2PD : M_PD2PS, a, width_of(DT_F64, n), width_of(to, n), 0);
    else if (full_float(to)) r = int_to_float(l, a, from, to, n);
    else if (full_float(from)) r = float_to_int(l, a, from, to, n);
    else r = resize(l, a, is_signed(from), integer_bytes(from), integer_bytes(to), n);
    if (!r) return false;
    move(l, dst, r, width_of(to, n));
    return true;
}

static bool guarded(Lower *l, const UOp *u, const Opnd *o, uint32_t n, Reg dst)
{
    static const uint32_t exponent = 0x7f800000;
    const UOp *word = u->src[2];
    if (guard_kind(u->arg) != GUARD_FINITE || u->dtype != DT_F32 || n < 2 || n > 16 || word->op != UOP_INDEX ||
        !uop_is_const(word->src[1]) || word->src[1]->arg.i)
        return false;
    int width = width_of(DT_F32, n);
    Reg x = take(l, o[0], width), bits = and_const(l, x, exponent, width), mask = x_vector(l, width),
        all = x_general(l);
    Ins *i = x_put(l, M_PCMPD);
    i->dst = mask, i->a = bits, i->broadcast = true, i->at = in_pool(x_pool(l, &exponent, 4)), i->imm = INT_NOT_EQUAL;
    i->size = (uint8_t)n, i->width = (uint8_t)width;
    i = x_put(l, M_ALL);
    i->dst = all, i->a = mask, i->size = (uint8_t)n, i->width = (uint8_t)width;
    uint32_t fine = ++l->m->labels;
    i = x_put(l, M_JUMP_IF);
    i->a = all, i->imm = 0, i->cond = COND_NOT_EQUAL, i->label = fine;
    for (int at = 0; at < 2; at++) {
        Reg v = x_give(l, M_CONST, x_general(l), 0, 0, at);
        i = x_put(l, M_STORE);
        i->a = v, i->size = 8;
        i->at = (Place){ .kind = AT_ADDRESS, .base = l->param[uop_addressed(word)->arg.i], .disp = 8 * at };
    }
    x_put(l, M_LABEL)->label = fine;
    move(l, dst, x, width);
    return true;
}

bool x_vector_op(Lower *l, const UOp *u, const Opnd *o, uint32_t n, Reg dst)
{
    DType t = (DType)u->dtype;
    int width = width_of(t, n);
    if (t == DT_BOOL && u->src[0]->dtype == DT_BOOL && u->op != UOP_WHERE && u->op != UOP_CAST)
        return masks(l, u, o, width, dst);
    switch (u->op) {
    case UOP_ADD: return two(l, row_of(l, &add_row, t), o[0], o[1], width, true, dst);
    case UOP_MUL: return two(l, row_of(l, &mul_row, t), o[0], o[1], width, true, dst);
    case UOP_AND: return two(l, row_of(l, &and_row, t), o[0], o[1], width, true, dst);
    case UOP_OR: return two(l, row_of(l, &or_row, t), o[0], o[1], width, true, dst);
    case UOP_XOR: return two(l, row_of(l, &xor_row, t), o[0], o[1], width, true, dst);
    case UOP_DIV: return two(l, row_of(l, &div_row, t), o[0], o[1], width, false, dst);
    case UOP_RECIP: {
        if (row_of(l, &div_row, t) == NONE) return false;
        Opnd c = { .u = uop_float(l->k->g, t, 1) };
        return two(l, row_of(l, &div_row, t), c, o[0], width, false, dst);
    }
    case UOP_MULACC: return mulacc(l, row_of(l, &fma_row, t), o, width, dst);
    case UOP_MAX: return maximum(l, u, o, width, dst);
    case UOP_MIN: return full_float(t) && two(l, t == DT_F32 ? M_MINPS : M_MINPD, o[1], o[0], width, false, dst);
    case UOP_SQRT: return one(l, row_of(l, &sqrt_row, t), o[0], width, 0, dst);
    case UOP_TRUNC: return one(l, row_of(l, &trunc_row, t), o[0], width, TOWARDS_ZERO, dst);
    case UOP_EXP2: return exp2_op(l, u, o, n, width, dst);
    case UOP_SCALE: return scale_op(l, u, o, width, dst);
    case UOP_SHL:
    case UOP_SHR: return shift(l, u, o, width, dst);
    case UOP_CMPLT:
    case UOP_CMPNE: return compare(l, u, o, n, dst);
    case UOP_WHERE: return n > 1 && pick(l, u, o, n, dst);
    case UOP_CAST: return n > 1 && cast(l, u, o, n, dst);
    case UOP_GUARD: return guarded(l, u, o, n, dst);
    case UOP_BITCAST:
        if (n < 2 || t == DT_BOOL || u->src[0]->dtype == DT_BOOL) return false;
        move(l, dst, take(l, o[0], width), width);
        return true;
    default: return false;
    }
}

bool x_changes_in_place(const UOp *u)
{
    switch (u->op) {
    case UOP_ADD:
    case UOP_MUL:
    case UOP_MAX:
    case UOP_AND:
    case UOP_OR:
    case UOP_XOR: return true;
    case UOP_MULACC: return full_float((DType)u->dtype);
    case UOP_WMMA: return u->arg.i == WMMA_vnni_u8 || u->arg.i == WMMA_dot_bf16 || u->arg.i == WMMA_avx_u8;
    default: return false;
    }
}

/* A horizontal reduction: the upper half meets the lower one, until one lane is left. */
void x_across(Lower *l, const UOp *u)
{
    const UOp *x = u->src[0];
    DType t = (DType)x->dtype;
    uint32_t n = cr_lanes(x);
    int size = element_bytes(t);
    struct {
        UOp u;
        const UOp *src[2];
    } step = { { .op = (uint8_t)u->arg.i,
                 .dtype = x->dtype,
                 .tag = u->tag,
                 .nsrc = 2,
                 .vmin = INT64_MIN,
                 .vmax = INT64_MAX },
               { x, x } };
    int most = u->arg.i == UOP_ADD || !l->m->avx2 ? 8 : 4;      /* of 8 bytes AVX2 has sums alone */
    bool halves = x_is_vector(l, x) && (t == DT_BOOL || full_float(t) || (size >= 4 && size <= most));
    Reg r = halves ? x_whole(l, x, width_of(t, n)) : 0;
    for (uint32_t h = n / 2; halves && h > 0; h /= 2) {
        int64_t at = x_frame(l, MOST_BYTES, MOST_BYTES);
        Ins *i = x_put(l, M_VSTORE);
        i->a = r, i->width = (uint8_t)width_of(t, 2 * h), i->size = (uint8_t)(2 * h * (uint32_t)size),
        i->at = in_frame(at);
        int bytes = (int)h * size, width = round_width((uint32_t)bytes);
        Reg up = x_vector(l, width), sum = x_vector(l, width);
        i = x_put(l, M_VLOAD);
        i->dst = up, i->width = (uint8_t)width, i->size = (uint8_t)bytes, i->at = in_frame(at + bytes);
        if (!x_vector_op(l, &step.u, (Opnd[]){ { x, r }, { x, up } }, h, sum)) x_unsupported(l, u);
        r = sum;
    }
    if (halves && !full_float(t)) {
        Reg g = x_general(l);
        Ins *i = x_put(l, M_TO_GENERAL);
        i->dst = g, i->a = r, i->size = (uint8_t)size;
        if (size < 8) {
            i = x_put(l, M_EXTEND);
            i->dst = i->a = g, i->size = (uint8_t)size, i->imm = is_signed(t);
        }
        if (t == DT_BOOL) x_give(l, M_AND, g, g, 0, 1);
        r = g;
    }
    if (!halves) {
        const Reg *lane = x_lanes(l, x, n);
        r = lane[0];
        for (uint32_t k = 1; k < n; k++) {
            Reg sum = x_lane_reg(l, t);
            x_scalar_op(l, &step.u, (Opnd[]){ { x, r }, { x, lane[k] } }, sum);
            r = sum;
        }
    }
    x_hold(l, u, r);
}
