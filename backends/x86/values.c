/* Registers, constants, and values as a machine instruction takes them (values.h). */
#include "backends/x86/values.h"

#include "backends/cpu/cpu.h"

#include <string.h>

/* ---- instructions and registers ---- */

Reg mcode_reg(Mcode *m, RegClass cls, int width)
{
    if (m->nreg == m->reg_cap) {
        RegInfo *more = NEW_N(m->arena, RegInfo, m->reg_cap * 2);
        memcpy(more, m->reg, m->nreg * sizeof *more);
        m->reg = more, m->reg_cap *= 2;
    }
    m->reg[m->nreg] = (RegInfo){ .cls = (uint8_t)cls, .width = (uint8_t)width, .machine = -1, .slot = -1 };
    return m->nreg++;
}

Reg x_general(Lower *l) { return mcode_reg(l->m, CLASS_GENERAL, 8); }
Reg x_vector(Lower *l, int width) { return mcode_reg(l->m, CLASS_VECTOR, width); }

Ins *mcode_put(Mcode *m, int op)
{
    if (m->count == m->cap) {
        Ins *more = NEW_N(m->arena, Ins, m->cap * 2);
        memcpy(more, m->ins, m->count * sizeof *more);
        m->ins = more, m->cap *= 2;
    }
    Ins *i = &m->ins[m->count++];
    *i = (Ins){ .op = (uint8_t)op };
    return i;
}

Ins *x_put(Lower *l, int op) { return mcode_put(l->m, op); }

Reg mcode_give(Mcode *m, int op, Reg dst, Reg a, Reg b, int64_t imm, int width)
{
    Ins *i = mcode_put(m, op);
    i->dst = dst, i->a = a, i->b = b, i->imm = imm, i->width = (uint8_t)width;
    return dst;
}

Reg x_give(Lower *l, int op, Reg dst, Reg a, Reg b, int64_t imm) { return mcode_give(l->m, op, dst, a, b, imm, 0); }

void x_unsupported(Lower *l, const UOp *u)
{
    if (!l->status)
        l->status = fail(TG_UNSUPPORTED, "kernel %s: %s.%s has no machine code", l->k->name, op_name((Op)u->op),
                         dtype_name((DType)u->dtype));
}

int64_t x_frame(Lower *l, int bytes, int align)
{
    int32_t at = (l->m->frame_bytes + align - 1) & -align;
    l->m->frame_bytes = at + bytes;
    return at;
}

int64_t mcode_pool(Mcode *m, const void *data, uint32_t bytes)
{
    for (uint32_t at = 0; at + bytes <= m->pool_bytes; at += bytes)
        if (!memcmp(m->pool + at, data, bytes)) return at;
    uint32_t at = (m->pool_bytes + bytes - 1) / bytes * bytes;
    if (at + bytes > m->pool_cap) {
        uint8_t *more = NEW_N(m->arena, uint8_t, m->pool_cap * 2 + bytes);
        memcpy(more, m->pool, m->pool_bytes);
        m->pool = more, m->pool_cap = m->pool_cap * 2 + bytes;
    }
    memcpy(m->pool + at, data, bytes);
    m->pool_bytes = at + bytes;
    return at;
}

int64_t x_pool(Lower *l, const void *data, uint32_t bytes) { return mcode_pool(l->m, data, bytes); }

/* ---- how values are held ---- */

/* Is u one vector register? Positions are where they fit in 32 bits. */
bool x_is_vector(const Lower *l, const UOp *u)
{
    uint32_t n = cr_lanes(u);
    if (n < 2 || (n & (n - 1)) || n > MOST_LANES || n * (uint32_t)element_bytes((DType)u->dtype) > most_bytes(l))
        return false;
    if (u->dtype != DT_INDEX) return true;
    bool narrow = fits_32(u);
    for (uint32_t k = 0; k < u->nsrc && narrow; k++) narrow = u->src[k]->dtype != DT_INDEX || fits_32(u->src[k]);
    return narrow && u->op != UOP_LOAD;
}

int x_width_of(const UOp *u)
{
    return cr_lanes(u) == 1 ? 16 : round_width(cr_lanes(u) * (uint32_t)element_bytes((DType)u->dtype));
}

Reg x_reg(Lower *l, const UOp *u)
{
    if (x_is_vector(l, u)) return x_vector(l, x_width_of(u));
    return full_float((DType)u->dtype) ? x_vector(l, 16) : x_general(l);
}
Reg x_lane_reg(Lower *l, DType t) { return full_float(t) ? x_vector(l, 16) : x_general(l); }

/* ---- constants ---- */

/* A constant as a general register has it, but for f32 and f64: their bits. */
int64_t x_const_bits(const UOp *u)
{
    DType t = (DType)u->dtype;
    if (!dtype_is_float(t)) return t == DT_BOOL ? u->arg.i != 0 : dtype_wrap(t, u->arg.i);
    double v = uop_const_float(u);
    if (dtype_is_half(t)) return cpu_half_bits(t, v);
    int64_t bits = 0;
    float f = (float)v;
    if (t == DT_F32) memcpy(&bits, &f, 4);
    else memcpy(&bits, &v, 8);
    return bits;
}

/* The place of a constant's element in the pool; masks are all bits of it. */
Place x_const_place(Lower *l, const UOp *u)
{
    int64_t v = x_const_bits(u);
    if (u->dtype == DT_BOOL) v = -(v != 0);
    return in_pool(x_pool(l, &v, (uint32_t)element_bytes((DType)u->dtype)));
}

/* ---- operands: scalars ---- */

Val *x_value(Lower *l, const UOp *u)
{
    Val *v = &l->val[u->id];
    if (v->held == HELD_NOT) {
        if (!l->status)
            l->status = fail(TG_UNSUPPORTED, "kernel %s: %s of %u lanes has no value where %s wants it", l->k->name,
                             op_name((Op)u->op), cr_lanes(u), op_name((Op)l->line[l->at]->op));
        *v = (Val){ .held = HELD_ONE, .lanes = 1, .r = x_reg(l, u) };
    }
    return v;
}

static Reg variable(Lower *l, const UOp *u)
{
    uint32_t k = 0;
    while (k + 1 < l->k->nvar && strcmp(var_name(l->k->var[k]), var_name(u))) k++;
    return l->var[k];
}

static Reg load_const(Lower *l, const UOp *u)
{
    if (!full_float((DType)u->dtype)) return x_give(l, M_CONST, x_general(l), 0, 0, x_const_bits(u));
    Reg r = x_vector(l, 16);
    Ins *i = x_put(l, u->dtype == DT_F32 ? M_BCASTSS : M_BCASTSD);
    if (u->dtype == DT_F64) l->m->reg[r].width = 32; /* vbroadcastsd has no narrower form */
    i->dst = r, i->width = u->dtype == DT_F64 ? 32 : 16, i->at = x_const_place(l, u);
    return r;
}

static void store_whole(Lower *l, Reg r, int bytes, int64_t at)
{
    Ins *i = x_put(l, M_VSTORE);
    i->a = r, i->width = (uint8_t)round_width((uint32_t)bytes), i->size = (uint8_t)bytes, i->at = in_frame(at);
}

static Reg load_lane(Lower *l, DType t, int64_t at)
{
    Reg r = x_lane_reg(l, t);
    bool f = full_float(t);
    Ins *i = x_put(l, f ? M_VLOAD : M_LOAD);
    i->dst = r, i->width = 16, i->size = (uint8_t)element_bytes(t), i->at = in_frame(at);
    i->imm = is_signed(t) || t == DT_BOOL;
    if (t == DT_BOOL) x_give(l, M_AND, r, r, 0, 1);
    return r;
}

Reg x_scalar(Lower *l, const UOp *u)
{
    if (l->val[u->id].held == HELD_NOT && x_only_jumps(l, u)) {
        Reg r = x_general(l);
        x_scalar_op(l, u, (Opnd[3]){ { .u = u->src[0] }, { .u = u->src[1] } }, r);
        return r;
    }
    if (u->op == UOP_CONST) return load_const(l, u);
    if (u->op == UOP_DEFINE_VAR) return variable(l, u);
    if (u->op == UOP_STACK && u->nsrc == 1 && l->val[u->id].held == HELD_NOT) return x_scalar(l, u->src[0]);
    return x_value(l, u)->r;
}

/* Where in the frame a vector's lanes lie: they are stored once a block. */
static int64_t stored_lanes(Lower *l, const UOp *u, Val *v)
{
    int size = element_bytes((DType)u->dtype) * (int)cr_lanes(u);
    uint32_t here = l->block[l->at] + 1;
    if (v->stored_in == here) return v->stored_at;
    v->stored_in = here;
    v->stored_at = x_frame(l, round_width((uint32_t)size), MOST_BYTES);
    store_whole(l, v->r, size, v->stored_at);
    return v->stored_at;
}

Reg x_lane(Lower *l, const UOp *u, uint32_t k)
{
    if (u->op == UOP_STACK && l->val[u->id].held == HELD_NOT) return x_scalar(l, u->src[k]);
    if (cr_lanes(u) == 1) return x_scalar(l, u);
    Val *v = x_value(l, u);
    if (v->held == HELD_LANES) return v->lane[k];
    return load_lane(l, (DType)u->dtype, stored_lanes(l, u, v) + element_bytes((DType)u->dtype) * k);
}

const Reg *x_lanes(Lower *l, const UOp *u, uint32_t n)
{
    if (cr_lanes(u) > 1 && l->val[u->id].held == HELD_LANES) return l->val[u->id].lane;
    Reg *lane = NEW_N(l->m->arena, Reg, n), one = cr_lanes(u) == 1 ? x_scalar(l, u) : 0;
    for (uint32_t k = 0; k < n; k++) lane[k] = one ? one : x_lane(l, u, k);
    return lane;
}

/* The first lanes of n registers of floats, by pairs of them: words stored one by one and read as a vector wait for the
 * stores. */
static Reg join_floats(Lower *l, const Reg *lane, uint32_t n, Reg dst)
{
    static const int op[] = { M_UNPCKLPS, M_UNPCKLPD, M_JOIN16, M_JOIN32 };
    Reg part[16];
    memcpy(part, lane, n * sizeof *part);
    for (int step = 0, width = 16; n > 1; step++, n /= 2, width = step < 2 ? 16 : 16 << (step - 1))
        for (uint32_t k = 0; k < n / 2; k++)
            part[k] = mcode_give(l->m, op[step], n > 2 ? x_vector(l, width) : dst, part[2 * k], part[2 * k + 1],
                                 step >= 2, width);
    return dst;
}

/* A vector of lanes in registers of their own. */
Reg x_assemble(Lower *l, DType t, const Reg *lane, uint32_t n, Reg dst)
{
    int size = element_bytes(t), width = round_width((uint32_t)size * n);
    if (t == DT_F32 && (n == 4 || n == 8 || n == 16)) return join_floats(l, lane, n, dst);
    int64_t at = x_frame(l, width, MOST_BYTES);
    bool f = full_float(t);
    for (uint32_t k = 0; k < n; k++) {
        Reg from = lane[k];
        if (t == DT_BOOL) from = x_give(l, M_MUL, x_general(l), from, 0, -1);
        Ins *i = x_put(l, f ? M_VSTORE : M_STORE);
        i->a = from, i->width = 16, i->size = (uint8_t)size, i->at = in_frame(at + size * k);
    }
    Ins *i = x_put(l, M_VLOAD);
    i->dst = dst, i->width = (uint8_t)width, i->size = (uint8_t)(size * (int)n < 16 ? size * (int)n : width);
    i->at = in_frame(at);
    return dst;
}

/* ---- operands: vectors ---- */

/* A scalar in all lanes of a vector. */
Reg x_spread(Lower *l, const UOp *u, int width)
{
    DType t = (DType)u->dtype;
    int size = element_bytes(t);
    if (u->op == UOP_CONST && size >= 4) {
        Reg r = x_vector(l, size == 8 && width < 32 ? 32 : width);
        Ins *i = x_put(l, size == 4 ? M_BCASTSS : M_BCASTSD);
        i->dst = r, i->width = (uint8_t)(size == 8 && width < 32 ? 32 : width), i->at = x_const_place(l, u);
        return r;
    }
    if (u->op != UOP_CONST && full_float(t)) {
        Val *v = x_value(l, u);
        if (v->splat >= width) return v->r;
        if (size == 8 && width < 32) width = 32;
        Ins *i = x_put(l, size == 4 ? M_BCASTSS : M_BCASTSD);
        Reg r = i->dst = x_vector(l, width);
        i->b = v->r, i->width = (uint8_t)width;
        return r;
    }
    Reg from = x_scalar(l, u), r = x_vector(l, width);
    if (t == DT_BOOL) from = x_give(l, M_MUL, x_general(l), from, 0, -1); /* all bits, or none */
    Ins *i = x_put(l, M_SPREAD);
    i->dst = r, i->a = from, i->width = (uint8_t)width, i->size = (uint8_t)size;
    return r;
}

static Reg const_vector(Lower *l, const UOp *u, int width)
{
    uint8_t bytes[MOST_BYTES] = { 0 };
    uint32_t size = (uint32_t)element_bytes((DType)u->dtype);
    for (uint32_t k = 0; k < u->nsrc && (k + 1) * size <= MOST_BYTES; k++) {
        int64_t v = x_const_bits(u->src[k]);
        if (u->dtype == DT_BOOL) v = -(v != 0);
        memcpy(bytes + k * size, &v, size);
    }
    Ins *i = x_put(l, M_VLOAD);
    Reg r = i->dst = x_vector(l, width);
    i->width = i->size = (uint8_t)width, i->at = in_pool(x_pool(l, bytes, (uint32_t)width));
    return r;
}

Reg x_whole(Lower *l, const UOp *u, int width)
{
    if (cr_lanes(u) == 1) return x_spread(l, u, width);
    if (u->op == UOP_STACK && l->val[u->id].held == HELD_NOT && uop_constants(u)) return const_vector(l, u, width);
    if (u->op == UOP_STACK && l->val[u->id].held == HELD_NOT)
        return x_assemble(l, (DType)u->dtype, x_lanes(l, u, cr_lanes(u)), cr_lanes(u), x_vector(l, width));
    Val *v = x_value(l, u);
    if (v->held == HELD_ONE) return v->r;
    return x_assemble(l, (DType)u->dtype, v->lane, cr_lanes(u), x_vector(l, width));
}

Reg x_operand(Lower *l, Opnd o) { return o.r ? o.r : x_scalar(l, o.u); }

void x_hold(Lower *l, const UOp *u, Reg r) { l->val[u->id] = (Val){ .held = HELD_ONE, .lanes = cr_lanes(u), .r = r }; }

/* ---- conditions ---- */

/* A variable may have another value where the jump is. */
static bool is_variable_read(const UOp *u) { return u->op == UOP_LOAD && u->src[0]->op == UOP_BUFFER; }

static bool compares_integers(const UOp *u)
{
    return (u->op == UOP_CMPLT || u->op == UOP_CMPNE) && cr_lanes(u) == 1 && dtype_is_int((DType)u->src[0]->dtype) &&
        !is_variable_read(u->src[0]) && !is_variable_read(u->src[1]);
}

static bool is_negation(const UOp *u)
{
    return u->op == UOP_CMPNE && uop_is_int_const(u->src[1], 1) && compares_integers(u->src[0]);
}

bool x_only_jumps(const Lower *l, const UOp *u)
{
    bool both = u->op == UOP_AND && u->dtype == DT_BOOL && cr_lanes(u) == 1;
    return !l->valued[u->id] && (both || compares_integers(u) || is_negation(u));
}

void x_jump_unless(Lower *l, const UOp *u, uint32_t label)
{
    if (!x_only_jumps(l, u)) {
        Reg r = x_scalar(l, u);
        Ins *i = x_put(l, M_JUMP_ZERO);
        i->a = r, i->label = label;
        return;
    }
    if (u->op == UOP_AND) {
        for (int k = 0; k < 2; k++) x_jump_unless(l, u->src[k], label);
        return;
    }
    bool negated = is_negation(u);
    const UOp *c = negated ? u->src[0] : u, *end = c->src[1];
    Cond holds = c->op == UOP_CMPNE ? COND_NOT_EQUAL : c->src[0]->dtype == DT_U64 ? COND_BELOW : COND_LESS,
         cond = negated ? holds : holds ^ 1;        /* the machine numbers a condition beside its opposite */
    int64_t v = end->op == UOP_CONST ? x_const_bits(end) : 0;
    bool small = end->op == UOP_CONST && v >= INT32_MIN && v <= INT32_MAX;
    Reg a = x_scalar(l, c->src[0]), b = small ? 0 : x_scalar(l, end);
    x_jump_if(l, a, b, v, cond, label);
}

void x_jump_if(Lower *l, Reg a, Reg b, int64_t imm, Cond cond, uint32_t label)
{
    Ins *i = x_put(l, M_JUMP_IF);
    i->a = a, i->b = b, i->imm = imm, i->cond = (uint8_t)cond, i->label = label;
}
