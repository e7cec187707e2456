/* See rangeify.h. Demands: a node's value is wanted at an index, in a kernel; each node hands its own on to its
 * sources. */
#include "graph/base/memory.h"
#include "sched/rangeify.h"

#include <stdlib.h>
#include <string.h>

/* ---- demands ---- */

Inst *inst_new(Rangeify *r, const UOp *u, uint32_t cut, const UOp *const *idx, const UOp *valid, uint64_t enclosing)
{
    Inst *i = NEW(r->arena, Inst);
    i->node = u;
    i->cut = cut;
    i->valid = valid;
    i->enclosing = enclosing;
    i->idx = NEW_N(r->arena, const UOp *, uop_rank(u) + 1);
    if (uop_rank(u)) memcpy(i->idx, idx, uop_rank(u) * sizeof *idx);
    if (r->ninst == r->all_cap)
        r->all = mem_grow(r->all, (r->all_cap = r->all_cap ? r->all_cap * 2 : 1024) * sizeof *r->all);
    i->number = r->ninst;
    return r->all[r->ninst++] = i;
}

static uint32_t demand_hash(const UOp *u, uint32_t cut, const UOp *const *idx, const UOp *valid)
{
    uint64_t h = ((uint64_t)u->id << 32 | cut) * UINT64_C(0x9e3779b97f4a7c15) + (valid ? valid->id + 1 : 0);
    for (uint32_t k = 0; k < uop_rank(u); k++) h = (h ^ h >> 29 ^ idx[k]->id) * UINT64_C(0xbf58476d1ce4e5b9);
    return (uint32_t)(h >> 32);
}

static Inst **demand_place(const Rangeify *r, const UOp *u, uint32_t cut, const UOp *const *idx, const UOp *valid,
                           uint32_t hash)
{
    for (uint32_t at = hash;; at++) {
        Inst **p = &r->place[at & (r->nplace - 1)], *i = *p;
        if (!i ||
            (i->hash == hash && i->node == u && i->cut == cut && i->valid == valid &&
             (!uop_rank(u) || !memcmp(i->idx, idx, uop_rank(u) * sizeof *idx))))
            return p;
    }
}

static void grow_places(Rangeify *r)
{
    Inst **old = r->place;
    uint32_t n = r->nplace;
    r->place = mem_zeros(r->nplace = n ? 4 * n : 1024, sizeof *r->place);
    for (uint32_t k = 0; k < n; k++)
        if (old[k]) *demand_place(r, old[k]->node, old[k]->cut, old[k]->idx, old[k]->valid, old[k]->hash) = old[k];
    mem_free(old);
}

Inst *inst_demand(Rangeify *r, const UOp *u, uint32_t cut, const UOp *const *idx, const UOp *valid, uint64_t enclosing)
{
    if (2 * (r->ninst + 1) > r->nplace) grow_places(r);
    uint32_t hash = demand_hash(u, cut, idx, valid);
    Inst **place = demand_place(r, u, cut, idx, valid, hash), *i = *place;
    if (i) return i->enclosing |= enclosing, i;
    *place = i = inst_new(r, u, cut, idx, valid, enclosing);
    i->hash = hash;
    i->next = r->inst[u->id];
    return r->inst[u->id] = i;
}

const UOp *cut_range(Rangeify *r, Cut *c, const UOp *bound, AxisType type)
{
    if (uop_is_int_const(bound, 1)) return uop_index(r->g, 0);
    return c->range[c->nrange] = uop_range(r->g, (int)c->nrange, bound, type), c->range[c->nrange++];
}

uint64_t index_ranges(const UOp *const *idx, uint32_t n)
{
    uint64_t m = 0;
    for (uint32_t k = 0; k < n; k++) m |= idx[k]->ranges;
    return m;
}

double cut_extent(const Cut *c, uint64_t ranges)
{
    double n = 1;
    for (; ranges; ranges &= ranges - 1) n *= (double)c->range[__builtin_ctzll(ranges)]->src[0]->vmax;
    return n;
}

/* Stands for a gathered position until its expression is known: a value that depends on what the index tensor's own
 * index depends on. */
const UOp *inst_placeholder(Rangeify *r, const UOp *const *idx, uint32_t n, int64_t number)
{
    return uop_new(r->g, UOP_CUSTOM, DT_INDEX, ARG_I(number), idx, n);
}

/* Positions made of sizes and counts only (windows, steps) are an expression at once. */
static const UOp *position(Rangeify *r, const UOp *u, const UOp *const *idx)
{
    const UOp *src[16], *next[64], *valid;
    uint32_t n = node_values(u);
    if (u->op == UOP_CONST || u->op == UOP_DEFINE_VAR) return u;
    if (u->op == UOP_IOTA) return idx[0];
    if (!op_is((Op)u->op, FLAG_ALU) && !(op_is((Op)u->op, FLAG_MOVE) && u->op != UOP_PAD && u->op != UOP_BITCAST))
        return NULL;
    for (uint32_t k = 0; k < n; k++) {
        index_source(r, u, k, idx, NULL, NULL, next, &valid);
        if (!(src[k] = position(r, u->src[k], next))) return NULL;
    }
    if (u->op == UOP_GUARD) return guarded(r, u, NULL, src);
    return op_is((Op)u->op, FLAG_ALU) ? index_simplify(r, uop_new(r->g, (Op)u->op, (DType)u->dtype, u->arg, src, n))
                                      : src[0];
}

const UOp *inst_position(Rangeify *r, const UOp *u, const UOp *const *idx)
{
    const UOp *p = !r->loads[u->id] && !r->reduces[u->id] ? position(r, u, idx) : NULL;
    return p && p->dtype != DT_INDEX ? index_simplify(r, UOP(r->g, UOP_CAST, DT_INDEX, NO_ARG, p)) : p;
}

/* Of what a demand is valid under the part that says something of these ranges; NULL: none does. */
static const UOp *valid_along(Rangeify *r, const UOp *valid, uint64_t ranges)
{
    if (!valid || !valid->ranges || (valid->ranges & ranges) == valid->ranges) return valid;
    if (valid->op != UOP_AND) return valid->ranges & ranges ? valid : NULL;
    const UOp *a = valid_along(r, valid->src[0], ranges), *b = valid_along(r, valid->src[1], ranges);
    return a && b ? UOP(r->g, UOP_AND, DT_VOID, NO_ARG, a, b) : a ? a : b;
}

/* Which position an element is gathered from may be read where the element is not, as long as it lies in its tensor. */
static void push_gather(Rangeify *r, Inst *i)
{
    const UOp *u = i->node, *idx[64], *valid, *gather[16];
    for (uint32_t k = 1; k < u->nsrc; k++) {
        index_source(r, u, k, i->idx, i->valid, NULL, idx, &valid);
        if ((gather[k - 1] = inst_position(r, u->src[k], idx))) continue;
        valid = valid_along(r, valid, index_ranges(idx, uop_rank(u->src[k])));
        i->child[k] = inst_demand(r, u->src[k], i->cut, idx, valid, i->enclosing);
        gather[k - 1] = inst_placeholder(r, idx, uop_rank(u->src[k]), i->child[k]->number);
    }
    index_source(r, u, 0, i->idx, i->valid, gather, idx, &valid);
    i->child[0] = inst_demand(r, u->src[0], i->cut, idx, valid, i->enclosing);
}

static void push_reduce(Rangeify *r, Inst *i)
{
    const UOp *u = i->node, *idx[64];
    Cut *c = &r->cut[i->cut];
    uint32_t rank = uop_rank(u), n = blob_count(u->arg.blob);
    uint64_t inside = index_ranges(i->idx, rank);
    memcpy(idx, i->idx, rank * sizeof *idx);
    i->range = NEW_N(r->arena, const UOp *, n + 1);
    for (uint32_t k = 0; k < n; k++) {
        int64_t axis = blob_ints(u->arg.blob)[k];
        idx[axis] = cut_range(r, c, uop_dim(u->src[0], (uint32_t)axis), AXIS_REDUCE);
        if (idx[axis]->op == UOP_RANGE) i->range[i->nrange++] = idx[axis], inside |= range_bit(idx[axis]);
    }
    i->child[0] = inst_demand(r, u->src[0], i->cut, idx, i->valid, inside);
}

/* Hands an inlined instance's demand on to its sources. */
void inst_push(Rangeify *r, Inst *i)
{
    const UOp *u = i->node, *idx[64], *valid;
    uint32_t n = node_values(u);
    i->child = NEW_N(r->arena, Inst *, n + 1);
    if (u->op == UOP_REDUCE) {
        push_reduce(r, i);
        return;
    }
    if (u->op == UOP_INDEX) {
        push_gather(r, i);
        return;
    }
    for (uint32_t k = 0; k < n; k++) {
        if (u->op == UOP_STACK && uop_is_const(i->idx[0]) && i->idx[0]->arg.i != k) continue;
        index_source(r, u, k, i->idx, i->valid, NULL, idx, &valid);
        i->child[k] = inst_demand(r, u->src[k], i->cut, idx, valid, i->enclosing);
    }
}
