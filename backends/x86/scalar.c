/* Element-wise operations on scalars (values.h). Integers are extended to 64 bits, so that comparisons, quotients and
 * shifts to the right are of 64 bits; what may leave its type is cut back. Floats are vectors of one lane that counts.
 * To add one: a case in integer_op. */
#include <math.h>

#include "backends/x86/values.h"
#include "graph/guard.h"
#include "graph/scalar.h"

static int64_t bits_of(DType t) { return dtype_info[t].bits; }

static void cut_back(Lower *l, DType t, Reg r)
{
    if (!dtype_is_int(t) || bits_of(t) == 64) return;
    Ins *i = x_put(l, M_EXTEND);
    i->dst = i->a = r, i->size = (uint8_t)(bits_of(t) / 8), i->imm = is_signed(t);
}

static bool is_number(Opnd o) { return !o.r && o.u->op == UOP_CONST; }

/* dst = a op b, b a number where it is one of 32 bits. */
static void two(Lower *l, int op, Opnd a, Opnd b, Reg dst)
{
    if (is_number(a) && !is_number(b) && op != M_SHL && op != M_SHR && op != M_SAR) {
        Opnd t = a;
        a = b, b = t;
    }
    int64_t v = is_number(b) ? x_const_bits(b.u) : 0;
    bool small = is_number(b) && v >= INT32_MIN && v <= INT32_MAX;
    Reg x = x_operand(l, a), y = small ? 0 : x_operand(l, b);
    x_give(l, op, dst, x, y, v);
}

static void set(Lower *l, Reg dst, Reg a, Reg b, int64_t imm, Cond cond)
{
    Ins *i = x_put(l, M_SET);
    i->dst = dst, i->a = a, i->b = b, i->imm = imm, i->cond = (uint8_t)cond;
}

static Reg set_new(Lower *l, Reg a, Reg b, int64_t imm, Cond cond)
{
    Reg r = x_general(l);
    set(l, r, a, b, imm, cond);
    return r;
}

static void choose(Lower *l, Reg dst, Reg c, Reg a, Reg b)
{
    Ins *i = x_put(l, M_CHOOSE);
    i->dst = dst, i->a = a, i->b = b, i->c = c;
}

static Reg number(Lower *l, int64_t v) { return x_give(l, M_CONST, x_general(l), 0, 0, v); }

/* On first lanes. */
static bool float_op(Lower *l, const UOp *u, const Opnd *o, Reg dst)
{
    Opnd first[3] = { { 0 } };
    for (uint32_t k = 0; k < u->nsrc && k < 3; k++) {
        first[k] = o[k];
        if (!o[k].r && o[k].u->op != UOP_CONST) first[k].r = x_scalar(l, o[k].u);
    }
    return x_vector_op(l, u, first, 1, dst);
}

static void compare(Lower *l, const UOp *u, const Opnd *o, Reg dst)
{
    DType t = (DType)u->src[0]->dtype;
    Cond less = t == DT_U64 ? COND_BELOW : COND_LESS, cond = u->op == UOP_CMPLT ? less : COND_NOT_EQUAL;
    if (full_float(t)) {
        Reg mask = x_vector(l, 16), one = x_general(l);
        if (!float_op(l, u, o, mask)) x_unsupported(l, u);
        Ins *i = x_put(l, M_TO_GENERAL);
        i->dst = one, i->a = mask, i->size = 4;
        x_give(l, M_AND, dst, one, 0, 1);
        return;
    }
    int64_t v = is_number(o[1]) ? x_const_bits(o[1].u) : 0;
    bool small = is_number(o[1]) && v >= INT32_MIN && v <= INT32_MAX;
    Reg a = x_operand(l, o[0]), b = small ? 0 : x_operand(l, o[1]);
    set(l, dst, a, b, v, cond);
}

static int power_of_2(int64_t v) { return v > 0 && !(v & (v - 1)) ? __builtin_ctzll((uint64_t)v) : -1; }

static Reg divide(Lower *l, int op, Reg a, Reg b, int size)
{
    Reg r = x_general(l);
    Ins *i = x_put(l, op);
    i->dst = r, i->a = a, i->b = b, i->size = (uint8_t)size;
    return r;
}

/* The general case: of 0 it is 0, of -1 it does not overflow, a quotient is rounded down and a remainder has b's sign.
 */
static void divide_floor(Lower *l, bool div, Reg a, Reg b, Reg dst)
{
    Reg zero = set_new(l, b, 0, 0, COND_EQUAL), minus = set_new(l, b, 0, -1, COND_EQUAL),
        bad = x_give(l, M_OR, x_general(l), zero, minus, 0), one = number(l, 1), safe = x_general(l);
    choose(l, safe, bad, one, b);
    Reg q = divide(l, M_DIVIDE_SIGNED, a, safe, 8), back = x_give(l, M_MUL, x_general(l), q, safe, 0),
        neg = x_give(l, M_MUL, x_general(l), back, 0, -1), rest = x_give(l, M_ADD, x_general(l), a, neg, 0),
        some = set_new(l, rest, 0, 0, COND_NOT_EQUAL), sign = x_give(l, M_XOR, x_general(l), rest, safe, 0),
        differ = set_new(l, sign, 0, 0, COND_LESS), fix = x_give(l, M_AND, x_general(l), some, differ, 0);
    Reg other, r = x_general(l), none = number(l, 0), minus_a = x_give(l, M_MUL, x_general(l), a, 0, -1);
    if (div) {
        Reg off = x_give(l, M_MUL, x_general(l), fix, 0, -1);
        x_give(l, M_ADD, r, q, off, 0);
        other = x_general(l);
        choose(l, other, zero, none, minus_a);
    } else {
        Reg add = x_general(l);
        choose(l, add, fix, safe, none);
        x_give(l, M_ADD, r, rest, add, 0);
        other = none;
    }
    choose(l, dst, bad, other, r);
}

static void division(Lower *l, const UOp *u, const Opnd *o, Reg dst)
{
    const UOp *x = u->src[0], *y = u->src[1];
    bool div = u->op == UOP_IDIV, is_unsigned = dtype_info[u->dtype].kind == KIND_UINT,
         plain = x->vmin >= 0 && dtype_info[x->dtype].kind == KIND_SINT;
    int shift = is_number(o[1]) && u->dtype != DT_U64 ? power_of_2(x_const_bits(o[1].u)) : -1;
    Reg a = x_operand(l, o[0]);
    if (shift >= 0) { /* rounds down, whatever the sign */
        if (div) x_give(l, is_unsigned ? M_SHR : M_SAR, dst, a, 0, shift);
        else if (shift < 31) x_give(l, M_AND, dst, a, 0, (1LL << shift) - 1);
        else x_give(l, M_AND, dst, a, number(l, (int64_t)((UINT64_C(1) << shift) - 1)), 0);
        return;
    }
    Reg b = x_operand(l, o[1]);
    if ((plain || is_unsigned) && (y->vmin > 0 || is_unsigned)) {
        bool narrow =
            bits_of((DType)u->dtype) <= 32 || (plain && x->vmax <= INT32_MAX && y->vmin > 0 && y->vmax <= INT32_MAX);
        Reg zero = y->vmin > 0 ? 0 : set_new(l, b, 0, 0, COND_EQUAL), safe = b;
        if (zero) choose(l, safe = x_general(l), zero, number(l, 1), b);
        Reg r = divide(l, div ? M_DIVIDE : M_REMAINDER, a, safe, narrow ? 4 : 8);
        if (zero) choose(l, dst, zero, number(l, 0), r);
        else x_give(l, M_MOVE, dst, r, 0, 0);
        return;
    }
    divide_floor(l, div, a, b, dst);
    cut_back(l, (DType)u->dtype, dst);
}

static void shift(Lower *l, const UOp *u, const Opnd *o, Reg dst)
{
    const UOp *n = u->src[1];
    DType t = (DType)u->dtype;
    int op = u->op == UOP_SHL ? M_SHL : is_signed(t) ? M_SAR : M_SHR;
    if (n->vmin >= 0 && n->vmax < bits_of(t)) {
        two(l, op, o[0], o[1], dst);
        if (op == M_SHL) cut_back(l, t, dst);
        return;
    }
    /* all bits go, or the sign stays */
    Reg a = x_operand(l, o[0]), by = x_operand(l, o[1]), r = x_general(l), far = x_general(l);
    Reg out = set_new(l, by, number(l, bits_of(t) - 1), 0, COND_BELOW),
        same = set_new(l, by, 0, bits_of(t) - 1, COND_EQUAL);
    Reg in = x_give(l, M_OR, x_general(l), out, same, 0);
    x_give(l, op, r, a, by, 0);
    if (op == M_SHL) cut_back(l, t, r);
    if (op == M_SAR) x_give(l, M_SAR, far, a, 0, 63);
    else x_give(l, M_CONST, far, 0, 0, 0);
    choose(l, dst, in, r, far);
}

static void move_float(Lower *l, Reg dst, Reg from)
{
    Ins *i = x_put(l, M_VMOVE);
    i->dst = dst, i->b = from, i->width = 16;
}

/* One vector instruction on first lanes. */
static void first_lane(Lower *l, int op, Reg dst, Reg b, int64_t imm)
{
    Ins *i = x_put(l, op);
    i->dst = dst, i->b = b, i->imm = imm, i->width = 16;
}

static void to_bits(Lower *l, Reg dst, Reg a, int size)
{
    Ins *i = x_put(l, M_TO_GENERAL);
    i->dst = dst, i->a = a, i->size = (uint8_t)size;
}

static void of_bits(Lower *l, Reg dst, Reg a, int size)
{
    Ins *i = x_put(l, M_TO_VECTOR);
    i->dst = dst, i->a = a, i->size = (uint8_t)size;
}

static void from_half(Lower *l, DType from, Reg a, Reg dst)
{
    if (from == DT_BF16) {
        Reg up = x_give(l, M_SHL, x_general(l), a, 0, 16);
        of_bits(l, dst, up, 4);
        return;
    }
    Reg v = x_vector(l, 16);
    of_bits(l, v, a, 4);
    first_lane(l, M_PH2PS, dst, v, 0);
}

/* bf16: rounded to the nearest, ties to even; a NaN stays one. */
static void to_half(Lower *l, DType to, Reg a, Reg dst)
{
    if (to == DT_F16) {
        Reg v = x_vector(l, 16);
        Ins *i = x_put(l, M_PS2PH);
        i->dst = v, i->a = a, i->width = 16;
        Reg r = x_general(l);
        to_bits(l, r, v, 4);
        x_give(l, M_AND, dst, r, 0, 0xffff);
        return;
    }
    Reg i = x_general(l), r = x_general(l), nan = x_general(l);
    to_bits(l, i, a, 4);
    Reg up = x_give(l, M_SHR, x_general(l), i, 0, 16), odd = x_give(l, M_AND, x_general(l), up, 0, 1),
        plus = x_give(l, M_ADD, x_general(l), i, 0, 0x7fff), sum = x_give(l, M_ADD, x_general(l), plus, odd, 0);
    x_give(l, M_SHR, r, sum, 0, 16);
    Reg magnitude = x_give(l, M_AND, x_general(l), i, 0, 0x7fffffff);
    set(l, nan, number(l, 0x7f800000), magnitude, 0, COND_LESS);
    choose(l, dst, nan, number(l, 0x7fc0), r);
}

static void int_to_float(Lower *l, DType to, DType from, Reg a, Reg dst)
{
    Ins *i = x_put(l, M_INT_TO_FLOAT);
    i->dst = dst, i->a = a, i->size = (uint8_t)dtype_size(to), i->imm = from == DT_U64;
}

/* Halves meet the others by way of f32. */
static void convert(Lower *l, DType to, DType from, Reg a, Reg dst)
{
    bool half = dtype_is_half(to) || dtype_is_half(from);
    if (to == from) {
        if (full_float(to)) move_float(l, dst, a);
        else x_give(l, M_MOVE, dst, a, 0, 0);
    } else if (full_float(to) && full_float(from)) {
        first_lane(l, to == DT_F64 ? M_PS2PD : M_PD2PS, dst, a, 0);
    } else if (to == DT_F32 && dtype_is_half(from)) {
        from_half(l, from, a, dst);
    } else if (dtype_is_half(to) && from == DT_F32) {
        to_half(l, to, a, dst);
    } else if (to == DT_BOOL && dtype_is_half(from)) {
        Reg bits = x_give(l, M_AND, x_general(l), a, 0, 0x7fff);
        set(l, dst, bits, 0, 0, COND_NOT_EQUAL);
    } else if (half) {
        Reg f = x_vector(l, 16);
        convert(l, DT_F32, from, a, f);
        convert(l, to, DT_F32, f, dst);
    } else if (full_float(to)) {
        Reg r = x_vector(l, 16);
        int_to_float(l, to, from, a, r);
        move_float(l, dst, r);
    } else if (full_float(from) && to == DT_BOOL) {
        Reg bits = x_general(l);
        to_bits(l, bits, a, (int)dtype_size(from));
        Reg twice = x_give(l, M_SHL, x_general(l), bits, 0, from == DT_F32 ? 33 : 1); /* without the sign */
        set(l, dst, twice, 0, 0, COND_NOT_EQUAL);
    } else if (full_float(from)) {
        Ins *i = x_put(l, M_FLOAT_TO_INT);
        i->dst = dst, i->a = a, i->size = (uint8_t)dtype_size(from), i->imm = to == DT_U64;
        cut_back(l, to, dst);
    } else if (to == DT_BOOL) {
        set(l, dst, a, 0, 0, COND_NOT_EQUAL);
    } else {
        x_give(l, M_MOVE, dst, a, 0, 0);
        cut_back(l, to, dst);
    }
}

static void cast(Lower *l, const UOp *u, const Opnd *o, Reg dst)
{
    convert(l, (DType)u->dtype, (DType)u->src[0]->dtype, x_operand(l, o[0]), dst);
}

static void bitcast(Lower *l, const UOp *u, const Opnd *o, Reg dst)
{
    DType to = (DType)u->dtype, from = (DType)u->src[0]->dtype;
    Reg a = x_operand(l, o[0]);
    int size = (int)dtype_size(from);
    if (full_float(to) && full_float(from)) move_float(l, dst, a);
    else if (full_float(to)) of_bits(l, dst, a, size);
    else {
        if (full_float(from)) to_bits(l, dst, a, size);
        else x_give(l, M_MOVE, dst, a, 0, 0);
        cut_back(l, to, dst);
        if (dtype_is_half(to)) x_give(l, M_AND, dst, dst, 0, 0xffff);
    }
}

/* dst = c ? a : b. */
static void where(Lower *l, const UOp *u, const Opnd *o, Reg dst)
{
    Reg c = x_operand(l, o[0]), a = x_operand(l, o[1]), b = x_operand(l, o[2]);
    if (!full_float((DType)u->dtype)) {
        choose(l, dst, c, a, b);
        return;
    }
    Reg r = x_vector(l, 16);
    uint32_t over = ++l->m->labels;
    move_float(l, r, b);
    Ins *i = x_put(l, M_JUMP_ZERO);
    i->a = c, i->label = over;
    move_float(l, r, a);
    x_put(l, M_LABEL)->label = over;
    move_float(l, dst, r);
}

static void note(Lower *l, const UOp *word, Reg v, int at)
{
    const UOp *memory = uop_addressed(word);
    Ins *i = x_put(l, M_STORE);
    i->a = v, i->size = 8, i->at = (Place){ .kind = AT_ADDRESS, .base = l->param[memory->arg.i], .disp = 8 * at };
}

/* The value, or a harmless one and a note in the word (graph/guard.h). The word's position is 0. */
static void guard(Lower *l, const UOp *u, const Opnd *o, Reg dst)
{
    GuardKind kind = guard_kind(u->arg);
    uint32_t fine = ++l->m->labels;
    if (u->src[2]->op != UOP_INDEX || !uop_is_const(u->src[2]->src[1]) || u->src[2]->src[1]->arg.i) {
        x_unsupported(l, u);
        return;
    }
    Reg v = x_operand(l, o[0]);
    if (kind == GUARD_FINITE) {
        Reg bits = x_general(l);
        if (u->dtype != DT_F32) x_unsupported(l, u);
        to_bits(l, bits, v, 4);
        Reg magnitude = x_give(l, M_AND, x_general(l), bits, 0, 0x7f800000);
        x_jump_if(l, magnitude, 0, 0x7f800000, COND_NOT_EQUAL, fine);
        note(l, u->src[2], number(l, 0), 0);
        note(l, u->src[2], number(l, 1), 1);
        x_put(l, M_LABEL)->label = fine;
        move_float(l, dst, v);
        return;
    }
    Reg n = x_operand(l, o[1]), r = x_give(l, M_MOVE, x_general(l), v, 0, 0);
    if (kind == GUARD_INDEX) x_jump_if(l, v, n, 0, COND_BELOW, fine);
    if (kind == GUARD_NONZERO) x_jump_if(l, v, n, 0, COND_NOT_EQUAL, fine);
    if (kind == GUARD_SIZE || kind == GUARD_BROADCAST) x_jump_if(l, v, n, 0, COND_EQUAL, fine);
    if (kind == GUARD_BROADCAST) x_jump_if(l, v, 0, 1, COND_EQUAL, fine);
    if (kind == GUARD_NONZERO) note(l, u->src[2], number(l, 0), 0), note(l, u->src[2], number(l, 1), 1);
    else {
        note(l, u->src[2], v, 0);
        note(l, u->src[2], x_give(l, M_ADD, x_general(l), n, 0, 1), 1);
    }
    x_give(l, M_CONST, r, 0, 0, guard_otherwise(kind));
    x_put(l, M_LABEL)->label = fine;
    x_give(l, M_MOVE, dst, r, 0, 0);
}

static double modulo(double a, double b)
{
    int64_t r = 0;
    uop_eval(UOP_MOD, DT_F64, DT_F64, (const int64_t[]){ scalar_of(a), scalar_of(b) }, &r);
    return scalar_real(r);
}

static float modulo_f(float a, float b) { return (float)modulo((double)a, (double)b); }

/* What C's library computes: of each operation the functions of single and double precision. */
static const Op computed[] = { UOP_EXP2, UOP_LOG2, UOP_SIN, UOP_POW, UOP_MOD };
X86Function *const x86_functions[] = {
    (X86Function *)exp2f, (X86Function *)exp2, (X86Function *)log2f, (X86Function *)log2,     (X86Function *)sinf,
    (X86Function *)sin,   (X86Function *)powf, (X86Function *)pow,   (X86Function *)modulo_f, (X86Function *)modulo
};
const uint32_t x86_function_count = sizeof x86_functions / sizeof *x86_functions;

static void function(Lower *l, const UOp *u, const Opnd *o, Reg dst)
{
    Reg a = x_operand(l, o[0]), b = u->nsrc > 1 ? x_operand(l, o[1]) : 0;
    uint32_t k = 0;
    while (k < sizeof computed / sizeof *computed && computed[k] != (Op)u->op) k++;
    if (k == sizeof computed / sizeof *computed) x_unsupported(l, u);
    Ins *i = x_put(l, M_CALL);
    i->dst = dst, i->a = a, i->b = b, i->size = (uint8_t)dtype_size((DType)u->dtype);
    i->imm = 2 * k + (u->dtype == DT_F64);
}

static void integer_op(Lower *l, const UOp *u, const Opnd *o, Reg dst)
{
    DType t = (DType)u->dtype;
    switch (u->op) {
    case UOP_ADD: two(l, t == DT_BOOL ? M_OR : M_ADD, o[0], o[1], dst); break;
    case UOP_MUL: two(l, t == DT_BOOL ? M_AND : M_MUL, o[0], o[1], dst); break;
    case UOP_AND: two(l, M_AND, o[0], o[1], dst); return;
    case UOP_OR: two(l, M_OR, o[0], o[1], dst); return;
    case UOP_XOR: two(l, M_XOR, o[0], o[1], dst); break;
    case UOP_MULACC: {
        Reg p = x_general(l);
        two(l, M_MUL, o[0], o[1], p);
        two(l, M_ADD, (Opnd){ .r = p, .u = u }, o[2], dst);
        break;
    }
    case UOP_MAX: {
        Reg a = x_operand(l, o[0]), b = x_operand(l, o[1]);
        choose(l, dst, set_new(l, b, a, 0, t == DT_U64 ? COND_BELOW : COND_LESS), a, b);
        return;
    }
    default: x_unsupported(l, u); return;
    }
    cut_back(l, t, dst);
}

void x_scalar_op(Lower *l, const UOp *u, const Opnd *o, Reg dst)
{
    switch (u->op) {
    case UOP_CMPLT:
    case UOP_CMPNE: compare(l, u, o, dst); return;
    case UOP_WHERE: where(l, u, o, dst); return;
    case UOP_CAST: cast(l, u, o, dst); return;
    case UOP_BITCAST: bitcast(l, u, o, dst); return;
    case UOP_GUARD: guard(l, u, o, dst); return;
    default: break;
    }
    if (full_float((DType)u->dtype)) {
        if (!float_op(l, u, o, dst)) function(l, u, o, dst);
    } else if (u->op == UOP_IDIV || u->op == UOP_MOD) {
        division(l, u, o, dst);
    } else if (u->op == UOP_SHL || u->op == UOP_SHR) {
        shift(l, u, o, dst);
    } else {
        integer_op(l, u, o, dst);
    }
}
