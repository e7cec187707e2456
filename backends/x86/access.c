/* Loads and stores of a kernel, in memory and of REG variables. A constant that is added to a position becomes part of
 * the address. */
#include "backends/x86/values.h"

#include "backends/cpu/cpu.h"

/* ---- variables ---- */

bool x_is_variable(const Lower *l, const UOp *m)
{
    return m->op == UOP_BUFFER && buffer_space(m) == SPACE_REG && !l->array[m->id];
}

/* ---- addresses ---- */

/* A position without the constants that are added to it; NULL: there is nothing else. */
const UOp *x_without_constants(const UOp *at, int64_t *sum)
{
    for (;;) {
        if (at->op == UOP_CONST) return *sum += at->arg.i, NULL;
        if (at->op != UOP_ADD || cr_lanes(at) > 1) return at;
        int c = at->src[1]->op == UOP_CONST ? 1 : 0;
        if (at->src[c]->op != UOP_CONST) return at;
        *sum += at->src[c]->arg.i;
        at = at->src[!c];
    }
}

const UOp *x_position(const UOp *a) { return a->op == UOP_INDEX ? a->src[1] : a->src[1]->src[0]; }

Place x_place(Lower *l, const UOp *a)
{
    const UOp *m = uop_addressed(a);
    int64_t sum = 0, size = memory_bytes((DType)m->dtype);
    const UOp *p = x_without_constants(x_position(a), &sum);
    Place at = { .kind = AT_ADDRESS, .scale = (uint8_t)size, .disp = sum * size };
    if (p) at.index = x_scalar(l, p);
    if (m->op == UOP_PARAM) at.base = l->param[m->arg.i];
    else if (buffer_space(m) == SPACE_REG) at.kind = AT_FRAME, at.disp += l->offset[m->id];
    else at.base = l->scratch, at.disp += l->offset[m->id];
    if (at.disp != (int32_t)at.disp) {
        Reg far = x_give(l, M_CONST, x_general(l), 0, 0, at.disp);
        at.base = x_give(l, M_ADD, x_general(l), at.base, far, 0);
        at.disp = 0;
    }
    return at;
}

static Place place_of_lane(Lower *l, const UOp *a, const Reg *position, uint32_t lane)
{
    Place at = { 0 };
    const UOp *m = uop_addressed(a);
    int64_t size = memory_bytes((DType)m->dtype);
    if (!position) {
        at = x_place(l, a);
        at.disp += size * lane;
        return at;
    }
    at = (Place){ .kind = AT_ADDRESS, .scale = (uint8_t)size, .index = position[lane] };
    if (m->op == UOP_PARAM) at.base = l->param[m->arg.i];
    else if (buffer_space(m) == SPACE_REG) at.kind = AT_FRAME, at.disp = l->offset[m->id];
    else at.base = l->scratch, at.disp = l->offset[m->id];
    return at;
}

/* ---- loads ---- */

/* bytes of the smallest lane that an access under a mask can have */
static int least_masked(const Lower *l) { return l->m->avx2 ? 4 : 1; }

static bool masked_off(const UOp *u, uint32_t gate) { return u->nsrc > gate && u->src[gate]->vmin != 1; }

/* dst = memory; a float in all lanes of dst. */
static void load_scalar(Lower *l, DType t, Reg dst, Place at, int width)
{
    Ins *i = x_put(l, !full_float(t) ? M_LOAD : t == DT_F32 ? M_BCASTSS : M_BCASTSD);
    i->dst = dst, i->at = at, i->width = (uint8_t)width, i->size = (uint8_t)memory_bytes(t), i->imm = is_signed(t);
}

static Ins *move_to(Lower *l, DType t, Reg dst, Reg from)
{
    Ins *i = x_put(l, full_float(t) ? M_VMOVE : M_MOVE);
    i->dst = dst, i->width = 16;
    if (full_float(t)) i->b = from;
    else i->a = from;
    return i;
}

/* Where a condition does not hold, or its lane, when it has lanes. */
static void jump_unless(Lower *l, const UOp *gate, Reg lane, uint32_t label)
{
    if (!lane) {
        x_jump_unless(l, gate, label);
        return;
    }
    Ins *i = x_put(l, M_JUMP_ZERO);
    i->a = lane, i->label = label;
}

/* otherwise: where the condition (its lane, where it has lanes) does not hold. all: a float is to be in all lanes of
 * the register, as otherwise is. */
static Reg one_load(Lower *l, DType t, Place at, const UOp *gate, Reg lane, Reg otherwise, bool all)
{
    bool f = full_float(t);
    int width = f ? mcode_vector_bytes(l->m) : 16, least = t == DT_F64 ? 32 : 16, some = all ? width : least;
    Reg r = f ? x_vector(l, width) : x_general(l);
    if (!gate) {
        load_scalar(l, t, r, at, width);
        return r;
    }
    uint32_t over = ++l->m->labels;
    if (f) l->m->reg[r].width = (uint8_t)some;
    move_to(l, t, r, otherwise)->width = (uint8_t)some;
    jump_unless(l, gate, lane, over);
    load_scalar(l, t, r, at, some);
    x_put(l, M_LABEL)->label = over;
    return r;
}

void x_hold_lanes(Lower *l, const UOp *u, Reg *lane, uint32_t n)
{
    l->val[u->id] = (Val){ .held = HELD_LANES, .lanes = n, .lane = lane };
}

void x_hold_value(Lower *l, const UOp *u, Reg *lane, uint32_t n)
{
    if (n == 1) x_hold(l, u, lane[0]);
    else if (x_is_vector(l, u)) x_hold(l, u, x_assemble(l, (DType)u->dtype, lane, n, x_reg(l, u)));
    else x_hold_lanes(l, u, lane, n);
}

static void load_lanes(Lower *l, const UOp *u, uint32_t n)
{
    const UOp *a = u->src[0];
    const UOp *gate = masked_off(u, 2) ? u->src[2] : NULL;
    const Reg *position = a->op == UOP_INDEX && cr_lanes(a->src[1]) > 1 ? x_lanes(l, a->src[1], n) : NULL,
              *when = gate && cr_lanes(gate) > 1 ? x_lanes(l, gate, n) : NULL,
              *other = NULL;
    bool all = n == 1 && full_float((DType)u->dtype);
    if (gate && !all) other = x_lanes(l, u->src[1], n);
    Reg spread = all && gate ? x_spread(l, u->src[1], most_bytes(l)) : 0;
    Reg *lane = NEW_N(l->m->arena, Reg, n);
    for (uint32_t k = 0; k < n; k++)
        lane[k] = one_load(l, (DType)u->dtype, place_of_lane(l, a, position, k), gate, when ? when[k] : 0,
                           spread ? spread : gate ? other[k] : 0, all);
    x_hold_value(l, u, lane, n);
    if (all) l->val[u->id].splat = (uint8_t)most_bytes(l);
}

/* By the machine's gather: 32-bit positions, elements of 4 or 8 bytes. Positions that are in registers of their own
 * are loaded from one by one: a vector of them would be made in memory. */
static bool gather(Lower *l, const UOp *u, uint32_t n)
{
    const UOp *a = u->src[0], *at = a->src[1];
    int size = memory_bytes((DType)u->dtype);
    const UOp *m = uop_addressed(a);
    bool fits = (size == 4 || size == 8) && n >= 4 && u->dtype != DT_INDEX;
    if (l->val[at->id].held == HELD_LANES && !masked_off(u, 2)) return false;
    if (a->op != UOP_INDEX || !x_is_vector(l, at) || !fits || (m->op == UOP_BUFFER && buffer_space(m) == SPACE_REG))
        return false;
    int width = x_width_of(u);
    bool gated = masked_off(u, 2);
    Reg index = x_whole(l, at, x_width_of(at)), mask = gated ? x_whole(l, u->src[2], round_width(4 * n)) : 0,
        other = gated ? x_whole(l, u->src[1], width) : 0, r = x_reg(l, u);
    Ins *i = x_put(l, M_GATHER);
    i->dst = r, i->a = other, i->b = index, i->c = mask, i->width = (uint8_t)width, i->size = (uint8_t)size;
    i->imm = n;
    if (m->op == UOP_PARAM) i->at = (Place){ .kind = AT_ADDRESS, .base = l->param[m->arg.i] };
    else i->at = (Place){ .kind = AT_ADDRESS, .base = l->scratch, .disp = l->offset[m->id] };
    x_hold(l, u, r);
    return true;
}

static Reg bools_to_mask(Lower *l, Reg bytes, uint32_t n)
{
    int width = round_width(4 * n);
    Reg wide = x_vector(l, width), mask = x_vector(l, width);
    Ins *i = x_put(l, M_ZXBD);
    i->dst = wide, i->b = bytes, i->width = (uint8_t)width;
    i = x_put(l, M_TEST);
    i->dst = mask, i->b = wide, i->width = (uint8_t)width, i->size = 4, i->imm = n;
    return mask;
}

static void load_vector(Lower *l, const UOp *u, uint32_t n)
{
    DType t = (DType)u->dtype;
    int size = memory_bytes(t), bytes = size * (int)n, width = round_width((uint32_t)bytes);
    const UOp *gate = masked_off(u, 2) ? u->src[2] : NULL;
    bool vector_gate = gate && cr_lanes(gate) > 1;
    bool lanes = vector_gate && (bytes < 16 || size < least_masked(l) || !x_is_vector(l, gate) || t == DT_BOOL);
    if (bytes < 4 || lanes || (gate && t == DT_BOOL)) {
        load_lanes(l, u, n);
        return;
    }
    Reg other = gate ? x_whole(l, u->src[1], width) : 0,
        mask = vector_gate ? x_whole(l, gate, round_width(4 * n)) : 0,
        r = x_vector(l, width);
    Place at = x_place(l, u->src[0]);
    uint32_t over = 0;
    Ins *i;
    if (gate && !vector_gate) {
        i = x_put(l, M_VMOVE);
        i->dst = r, i->b = other, i->width = (uint8_t)width;
        x_jump_unless(l, gate, over = ++l->m->labels);
    }
    i = x_put(l, vector_gate ? M_VLOADM : M_VLOAD);
    i->dst = r, i->at = at, i->width = (uint8_t)width, i->size = (uint8_t)(bytes < 16 ? bytes : width);
    if (vector_gate) i->a = other, i->c = mask, i->size = (uint8_t)size, i->imm = n;
    if (over) x_put(l, M_LABEL)->label = over;
    x_hold(l, u, t == DT_BOOL ? bools_to_mask(l, r, n) : r);
}

void x_load(Lower *l, const UOp *u)
{
    const UOp *a = u->src[0];
    uint32_t n = cr_lanes(u);
    if (x_is_variable(l, a)) {
        const Val *v = x_value(l, a);
        if (l->alias[l->at]) l->val[u->id] = *v;
        else if (v->held == HELD_LANES) {
            Reg *lane = NEW_N(l->m->arena, Reg, n);
            for (uint32_t k = 0; k < n; k++)
                move_to(l, (DType)u->dtype, lane[k] = x_lane_reg(l, (DType)u->dtype), v->lane[k]);
            x_hold_lanes(l, u, lane, n);
        } else {
            Reg r = x_reg(l, u), from = v->r;
            Ins *i = x_put(l, n > 1 || full_float((DType)u->dtype) ? M_VMOVE : M_MOVE);
            i->dst = r, i->width = (uint8_t)x_width_of(u);
            if (i->op == M_MOVE) i->a = from;
            else i->b = from;
            x_hold(l, u, r);
        }
    } else if (n > 1 && x_is_vector(l, u) && a->op == UOP_INDEX && gather(l, u, n)) {
        return;
    } else if (n > 1 && x_is_vector(l, u) && a->op == UOP_SHRINK) {
        load_vector(l, u, n);
    } else {
        load_lanes(l, u, n);
    }
}

/* ---- stores ---- */

static void store_scalar(Lower *l, DType t, Place at, Reg v)
{
    Ins *i = x_put(l, full_float(t) ? M_VSTORE : M_STORE);
    i->a = v, i->at = at, i->width = 16, i->size = (uint8_t)memory_bytes(t);
}

static void store_lanes(Lower *l, const UOp *u, uint32_t n)
{
    const UOp *a = u->src[0];
    const Reg *position = a->op == UOP_INDEX && cr_lanes(a->src[1]) > 1 ? x_lanes(l, a->src[1], n) : NULL,
              *v = x_lanes(l, u->src[1], n);
    const UOp *gate = masked_off(u, 2) ? u->src[2] : NULL;
    const Reg *when = gate && cr_lanes(gate) > 1 ? x_lanes(l, gate, n) : NULL;
    for (uint32_t k = 0; k < n; k++) {
        uint32_t over = gate ? ++l->m->labels : 0;
        Place at = place_of_lane(l, a, position, k);
        if (gate) jump_unless(l, gate, when ? when[k] : 0, over);
        store_scalar(l, (DType)u->src[1]->dtype, at, v[k]);
        if (gate) x_put(l, M_LABEL)->label = over;
    }
}

static void store_vector(Lower *l, const UOp *u, uint32_t n)
{
    const UOp *a = u->src[0], *gate = masked_off(u, 2) ? u->src[2] : NULL;
    DType t = (DType)u->src[1]->dtype;
    int size = memory_bytes(t), bytes = size * (int)n, width = round_width((uint32_t)bytes);
    bool vector_gate = gate && cr_lanes(gate) > 1;
    if (bytes < 4 || (vector_gate && (bytes < 16 || size < least_masked(l) || !x_is_vector(l, gate)))) {
        store_lanes(l, u, n);
        return;
    }
    Reg v = x_whole(l, u->src[1], t == DT_BOOL ? round_width(4 * n) : width);
    if (t == DT_BOOL) {
        Reg ones = x_vector(l, round_width(4 * n)), cut = x_vector(l, width);
        Ins *i = x_put(l, M_PSRLD);
        i->dst = ones, i->a = v, i->imm = 31, i->width = (uint8_t)round_width(4 * n);
        i = x_put(l, M_CUTDB);
        i->dst = cut, i->a = ones, i->width = (uint8_t)round_width(4 * n);
        v = cut;
    }
    Reg mask = vector_gate ? x_whole(l, gate, round_width(4 * n)) : 0;
    Place at = x_place(l, a);
    uint32_t over = 0;
    if (gate && !vector_gate) x_jump_unless(l, gate, over = ++l->m->labels);
    Ins *i = x_put(l, vector_gate ? M_VSTOREM : M_VSTORE);
    i->a = v, i->at = at, i->width = (uint8_t)width, i->size = (uint8_t)(bytes < 16 ? bytes : width);
    if (vector_gate) i->c = mask, i->size = (uint8_t)size, i->imm = n;
    if (over) x_put(l, M_LABEL)->label = over;
}

static void store_variable(Lower *l, const UOp *u, uint32_t n)
{
    const UOp *reg = u->src[0], *v = u->src[1];
    Val *to = x_value(l, reg);
    DType t = (DType)reg->dtype;
    if (l->target[v->id] == reg && l->place[v->id] < l->at) return;
    if (to->held == HELD_LANES) {
        const Reg *lane = x_lanes(l, v, n);
        for (uint32_t k = 0; k < n; k++) move_to(l, t, to->lane[k], lane[k]);
        return;
    }
    bool vec = n > 1 || full_float(t);
    Reg from = n > 1 ? x_whole(l, v, x_width_of(reg)) : x_scalar(l, v);
    Ins *i = x_put(l, vec ? M_VMOVE : M_MOVE);
    i->dst = to->r, i->width = (uint8_t)x_width_of(reg);
    if (vec) i->b = from;
    else i->a = from;
}

/* Positions have 8 bytes in memory and 4 in a vector. */
static bool is_stored_whole(const Lower *l, const UOp *u, uint32_t n)
{
    const UOp *v = u->src[1];
    uint32_t bytes = n * (uint32_t)element_bytes((DType)v->dtype);
    return n > 1 && !(n & (n - 1)) && u->src[0]->op == UOP_SHRINK && v->dtype != DT_INDEX && bytes <= most_bytes(l) &&
        (cr_lanes(v) == 1 || x_is_vector(l, v));
}

void x_store(Lower *l, const UOp *u)
{
    const UOp *a = u->src[0];
    uint32_t n = cr_lanes(a) > cr_lanes(u->src[1]) ? cr_lanes(a) : cr_lanes(u->src[1]);
    if (x_is_variable(l, a)) store_variable(l, u, n);
    else if (is_stored_whole(l, u, n)) store_vector(l, u, n);
    else store_lanes(l, u, n);
}
