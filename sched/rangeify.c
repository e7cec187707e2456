/* Rangeify: from tensors to kernels.
 *
 * Comes in: SINK of values over PARAMs (inputs), BUFFERs (constants) and results of CALLs. Goes out: a schedule of kernels (kernel.h form 1) and host calls.
 * One sweep from outputs to inputs (descending ids) carries demands: a node's value is wanted at an index, in a kernel. Movement ops rewrite the index
 * (index_map.c). For each node with demands one decision: inline it into each of its consumers, or stage it in a GLOBAL buffer, which begins a kernel with fresh
 * ranges. A REDUCE that is inlined gets fresh REDUCE ranges; where it stands in the loop nest follows from the ranges that its index depends on.
 *
 * The decision (stage below) is a matter of repeated work only:
 *   a REDUCE is never computed twice: not for two demands, not under a loop on which its index does not depend, unless that loop can be put inside of it (a row statistic
 *   such as a softmax's maximum: it spans the axes that its result is broadcast over), which asks for the sets of outer ranges to be a chain;
 *   element-wise work is recomputed while it is cheaper than a store and loads;
 *   what depends on constants only is staged, and computed once at load.
 */
#include "sched/rangeify.h"
#include "graph/custom.h"
#include "graph/scalar.h"
#include "graph/wmma.h"

#include <stdlib.h>
#include <string.h>

/* MAX_DEPTH: of one kernel's operations upon operations; ACROSS_LEAST: elements whose transpose is worth a kernel; NARROW_LEAST, NARROW_WORK: bytes of a constant that is made again where
 * it is summed, and operations that this may take; POSITIONS: of a table of positions that is none. */
enum { MAX_RANGES = 52, SIM_BUDGET = 200, MAX_DEPTH = 1000, ACROSS_LEAST = 4096, NARROW_LEAST = 1 << 18, NARROW_WORK = 12, POSITIONS = 8 };

static bool is_leaf(const UOp *u)
{
    switch ((Op)u->op) {
    case UOP_BUFFER: case UOP_PARAM: case UOP_CONST: case UOP_IOTA: case UOP_DEFINE_VAR: case UOP_BIND: case UOP_GETTUPLE: return true;
    default: return false;
    }
}

static bool is_memory(const UOp *u) { return u->op == UOP_BUFFER || u->op == UOP_PARAM || u->op == UOP_GETTUPLE; }

/* Sources that carry values (sizes and offsets of movement ops do not). */
static uint32_t value_sources(const UOp *u)
{
    if (is_leaf(u)) return 0;
    if (op_is((Op)u->op, FLAG_MOVE) || u->op == UOP_REDUCE) return 1;
    return u->nsrc;
}

/* ---- facts about nodes, before the sweep ---- */

static float own_cost(const UOp *u)
{
    switch ((Op)u->op) {
    case UOP_EXP2: case UOP_LOG2: case UOP_SIN: case UOP_POW: return 10;
    case UOP_SQRT: case UOP_RECIP: case UOP_DIV: case UOP_MOD: case UOP_IDIV: return 4;
    case UOP_CAST: return dtype_size((DType)u->dtype) > dtype_size((DType)u->src[0]->dtype) ? 0 : 1;
    default: return op_is((Op)u->op, FLAG_ALU) ? 1 : 0;
    }
}

/* A kernel of very many operations one upon another would help nobody, and its compiler least: the value at the limit lies in memory. */
static void limit_depth(Rangeify *r, const UOp *u, uint32_t ns)
{
    uint16_t depth = 0;
    for (uint32_t k = 0; k < ns; k++) {
        const UOp *s = u->src[k];
        if (!r->forced[s->id] && s->op != UOP_REDUCE && r->depth[s->id] > depth) depth = r->depth[s->id];
    }
    r->depth[u->id] = depth + op_is((Op)u->op, FLAG_ALU);
    if (r->depth[u->id] == MAX_DEPTH && op_is((Op)u->op, FLAG_ALU)) r->forced[u->id] = 1;
}

static void gather_facts(Rangeify *r, const UOp *const *order, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        const UOp *u = order[i];
        uint32_t ns = value_sources(u), loads = is_memory(u) && uop_numel(u) > 1;
        bool constant = u->op == UOP_CONST || u->op == UOP_IOTA || (u->op == UOP_BUFFER && graph_buffer(r->g, buffer_slot(u))->data), reduces = u->op == UOP_REDUCE;
        float cost = own_cost(u);
        for (uint32_t k = 0; k < ns; k++) {
            const UOp *s = u->src[k];
            if (r->users[s->id] < 2) r->users[s->id]++;
            constant = (k == 0 || constant) && r->constant[s->id];
            if (r->forced[s->id] || s->op == UOP_CONTIGUOUS) { loads++; continue; }
            reduces |= r->reduces[s->id];
            if (s->op != UOP_REDUCE) cost += r->cost[s->id], loads += r->loads[s->id];
            else loads++;
        }
        r->constant[u->id] = constant && u->op != UOP_CALL && uop_static(u);
        r->reduces[u->id] = reduces;
        r->cost[u->id] = cost > 1e6f ? 1e6f : cost;
        r->loads[u->id] = (uint8_t)(loads > 200 ? 200 : loads);
        limit_depth(r, u, ns);
    }
}

static double base_numel(const UOp *u)
{
    double n = (double)uop_numel(u);
    for (; op_is((Op)u->op, FLAG_MOVE) || u->op == UOP_INDEX; u = u->src[0])
        if ((double)uop_numel(u->src[0]) < n) n = (double)uop_numel(u->src[0]);
    return n;
}

/* A sum of products whose operands are smaller than the product: worth a kernel of its own, never worth repeating. */
static bool is_contraction(const UOp *u)
{
    const UOp *p = u->op == UOP_REDUCE ? u->src[0] : NULL;
    while (p && p->op == UOP_CAST) p = p->src[0];
    if (!p || p->op != UOP_MUL) return false;
    return 2 * base_numel(p->src[0]) <= (double)uop_numel(p) && 2 * base_numel(p->src[1]) <= (double)uop_numel(p);
}

static bool is_product(const UOp *u) { return u->op == UOP_MUL && 2 * base_numel(u->src[0]) <= (double)uop_numel(u) && 2 * base_numel(u->src[1]) <= (double)uop_numel(u); }

/* What the sweep, which meets users first, cannot know yet: element-wise operands of a contraction will be stored, and so will a contraction's result that a row statistic
 * reads besides others. sim stops there. A wrong guess costs nothing: the node's own decision comes later. */
static void foresee(Rangeify *r, const UOp *const *order, uint32_t n)
{
    enum { TO_PRODUCT = 1, TO_STATISTIC = 2, HEAVY = 4, STATISTIC = 8 };
    uint8_t *fact = NEW_N(r->arena, uint8_t, r->nnode), *fan = NEW_N(r->arena, uint8_t, r->nnode);
    for (int pass = 0; pass < 2; pass++) {
        for (uint32_t i = n; i-- > 0;) {
            const UOp *u = order[i];
            bool passes = op_is((Op)u->op, FLAG_ALU) || op_is((Op)u->op, FLAG_MOVE) || u->op == UOP_INDEX, view = passes && !op_is((Op)u->op, FLAG_ALU);
            uint8_t f = fact[u->id];
            r->multiplied[u->id] = f & TO_PRODUCT;
            if (op_is((Op)u->op, FLAG_ALU) && (f & TO_PRODUCT) && r->cost[u->id] >= 1) r->rests[u->id] = 1;
            if (pass && (f & HEAVY) && !(f & STATISTIC) && (f & TO_STATISTIC) && fan[u->id] > 1 && !view) r->rests[u->id] = 1;
            for (uint32_t k = 0; k < value_sources(u); k++) {
                uint8_t *s = &fact[u->src[k]->id];
                if (!pass && fan[u->src[k]->id] < 9) fan[u->src[k]->id] += view && fan[u->id] ? fan[u->id] : 1;
                if (is_product(u) || (view && (f & TO_PRODUCT))) *s |= TO_PRODUCT;
                if ((u->op == UOP_REDUCE && !is_contraction(u)) || (passes && (f & TO_STATISTIC) && !r->rests[u->id] && !is_product(u))) *s |= TO_STATISTIC;
            }
        }
        for (uint32_t i = 0; i < n && !pass; i++) {
            const UOp *u = order[i];
            if (u->op == UOP_REDUCE) { fact[u->id] |= is_contraction(u) ? HEAVY : STATISTIC; continue; }
            for (uint32_t k = 0; k < value_sources(u); k++)
                if (!r->rests[u->src[k]->id] && !r->forced[u->src[k]->id]) fact[u->id] |= fact[u->src[k]->id] & (HEAVY | STATISTIC);
        }
    }
}

/* ---- demands ---- */

static Inst *new_inst(Rangeify *r, const UOp *u, uint32_t cut, const UOp *const *idx, const UOp *valid, uint64_t enclosing)
{
    Inst *i = NEW(r->arena, Inst);
    i->node = u;
    i->cut = cut;
    i->valid = valid;
    i->enclosing = enclosing;
    i->idx = NEW_N(r->arena, const UOp *, uop_rank(u) + 1);
    if (uop_rank(u)) memcpy(i->idx, idx, uop_rank(u) * sizeof *idx);
    if (r->ninst == r->all_cap) r->all = realloc(r->all, (r->all_cap = r->all_cap ? r->all_cap * 2 : 1024) * sizeof *r->all);
    i->number = r->ninst;
    return r->all[r->ninst++] = i;
}

static uint32_t demand_hash(const UOp *u, uint32_t cut, const UOp *const *idx, const UOp *valid)
{
    uint64_t h = ((uint64_t)u->id << 32 | cut) * UINT64_C(0x9e3779b97f4a7c15) + (valid ? valid->id + 1 : 0);
    for (uint32_t k = 0; k < uop_rank(u); k++) h = (h ^ h >> 29 ^ idx[k]->id) * UINT64_C(0xbf58476d1ce4e5b9);
    return (uint32_t)(h >> 32);
}

static Inst **demand_place(const Rangeify *r, const UOp *u, uint32_t cut, const UOp *const *idx, const UOp *valid, uint32_t hash)
{
    for (uint32_t at = hash;; at++) {
        Inst **p = &r->place[at & (r->nplace - 1)], *i = *p;
        if (!i || (i->hash == hash && i->node == u && i->cut == cut && i->valid == valid && (!uop_rank(u) || !memcmp(i->idx, idx, uop_rank(u) * sizeof *idx)))) return p;
    }
}

static void grow_places(Rangeify *r)
{
    Inst **old = r->place;
    uint32_t n = r->nplace;
    r->place = calloc(r->nplace = n ? 4 * n : 1024, sizeof *r->place);
    for (uint32_t k = 0; k < n; k++)
        if (old[k]) *demand_place(r, old[k]->node, old[k]->cut, old[k]->idx, old[k]->valid, old[k]->hash) = old[k];
    free(old);
}

static Inst *demand(Rangeify *r, const UOp *u, uint32_t cut, const UOp *const *idx, const UOp *valid, uint64_t enclosing)
{
    if (2 * (r->ninst + 1) > r->nplace) grow_places(r);
    uint32_t hash = demand_hash(u, cut, idx, valid);
    Inst **place = demand_place(r, u, cut, idx, valid, hash), *i = *place;
    if (i) return i->enclosing |= enclosing, i;
    *place = i = new_inst(r, u, cut, idx, valid, enclosing);
    i->hash = hash;
    i->next = r->inst[u->id];
    return r->inst[u->id] = i;
}

static const UOp *fresh_range(Rangeify *r, Cut *c, const UOp *bound, AxisType type)
{
    if (uop_is_int_const(bound, 1)) return uop_index(r->g, 0);
    return c->range[c->nrange] = uop_range(r->g, (int)c->nrange, bound, type), c->range[c->nrange++];
}

static uint64_t depends(const UOp *const *idx, uint32_t n)
{
    uint64_t m = 0;
    for (uint32_t k = 0; k < n; k++) m |= idx[k]->ranges;
    return m;
}

static double extent(const Cut *c, uint64_t ranges)
{
    double n = 1;
    for (; ranges; ranges &= ranges - 1) n *= (double)c->range[__builtin_ctzll(ranges)]->src[0]->vmax;
    return n;
}

/* Stands for a gathered position until its expression is known: a value that depends on what the index tensor's own index depends on. */
static const UOp *placeholder(Rangeify *r, const UOp *const *idx, uint32_t n, int64_t number) { return uop_new(r->g, UOP_CUSTOM, DT_INDEX, ARG_I(number), idx, n); }

/* Positions made of sizes and counts only (windows, steps) are an expression at once. */
static const UOp *position(Rangeify *r, const UOp *u, const UOp *const *idx)
{
    const UOp *src[16], *next[64], *valid;
    uint32_t n = value_sources(u);
    if (u->op == UOP_CONST || u->op == UOP_DEFINE_VAR) return u;
    if (u->op == UOP_IOTA) return idx[0];
    if (!op_is((Op)u->op, FLAG_ALU) && !(op_is((Op)u->op, FLAG_MOVE) && u->op != UOP_PAD && u->op != UOP_BITCAST)) return NULL;
    for (uint32_t k = 0; k < n; k++) {
        index_source(r, u, k, idx, NULL, NULL, next, &valid);
        if (!(src[k] = position(r, u->src[k], next))) return NULL;
    }
    if (u->op == UOP_GUARD) return guarded(r, u, NULL, src);
    return op_is((Op)u->op, FLAG_ALU) ? index_simplify(r, uop_new(r->g, (Op)u->op, (DType)u->dtype, u->arg, src, n)) : src[0];
}

static const UOp *as_position(Rangeify *r, const UOp *u, const UOp *const *idx)
{
    const UOp *p = !r->loads[u->id] && !r->reduces[u->id] ? position(r, u, idx) : NULL;
    return p && p->dtype != DT_INDEX ? index_simplify(r, UOP(r->g, UOP_CAST, DT_INDEX, NO_ARG, p)) : p;
}

static void push_gather(Rangeify *r, Inst *i)
{
    const UOp *u = i->node, *idx[64], *valid, *gather[16];
    for (uint32_t k = 1; k < u->nsrc; k++) {
        index_source(r, u, k, i->idx, i->valid, NULL, idx, &valid);
        if ((gather[k - 1] = as_position(r, u->src[k], idx))) continue;
        i->child[k] = demand(r, u->src[k], i->cut, idx, valid, i->enclosing);
        gather[k - 1] = placeholder(r, idx, uop_rank(u->src[k]), i->child[k]->number);
    }
    index_source(r, u, 0, i->idx, i->valid, gather, idx, &valid);
    i->child[0] = demand(r, u->src[0], i->cut, idx, valid, i->enclosing);
}

static void push_reduce(Rangeify *r, Inst *i)
{
    const UOp *u = i->node, *idx[64];
    Cut *c = &r->cut[i->cut];
    uint32_t rank = uop_rank(u), n = blob_count(u->arg.blob);
    uint64_t inside = depends(i->idx, rank);
    memcpy(idx, i->idx, rank * sizeof *idx);
    i->range = NEW_N(r->arena, const UOp *, n + 1);
    for (uint32_t k = 0; k < n; k++) {
        int64_t axis = blob_ints(u->arg.blob)[k];
        idx[axis] = fresh_range(r, c, uop_dim(u->src[0], (uint32_t)axis), AXIS_REDUCE);
        if (idx[axis]->op == UOP_RANGE) i->range[i->nrange++] = idx[axis], inside |= range_bit(idx[axis]);
    }
    i->child[0] = demand(r, u->src[0], i->cut, idx, i->valid, inside);
}

/* Hands an inlined instance's demand on to its sources. */
static void push(Rangeify *r, Inst *i)
{
    const UOp *u = i->node, *idx[64], *valid;
    uint32_t n = value_sources(u);
    i->child = NEW_N(r->arena, Inst *, n + 1);
    if (u->op == UOP_REDUCE) { push_reduce(r, i); return; }
    if (u->op == UOP_INDEX) { push_gather(r, i); return; }
    for (uint32_t k = 0; k < n; k++) {
        if (u->op == UOP_STACK && uop_is_const(i->idx[0]) && i->idx[0]->arg.i != k) continue;
        index_source(r, u, k, i->idx, i->valid, NULL, idx, &valid);
        i->child[k] = demand(r, u->src[k], i->cut, idx, valid, i->enclosing);
    }
}

/* ---- would inlining repeat a reduce? ---- */

typedef struct { const UOp *node; const UOp **idx; } Reach;
typedef struct { Reach at[16]; uint32_t n; int budget; } Sim;

static void sim_node(Rangeify *r, const UOp *u, const UOp *const *idx, const UOp *valid, Sim *s);

static void sim(Rangeify *r, const UOp *u, const UOp *const *idx, const UOp *valid, Sim *s)
{
    if (!r->forced[u->id] && !r->rests[u->id]) sim_node(r, u, idx, valid, s);
}

/* u itself is inlined, whatever is foreseen for it. */
static void sim_node(Rangeify *r, const UOp *u, const UOp *const *idx, const UOp *valid, Sim *s)
{
    if (s->budget-- <= 0 || is_leaf(u) || !r->reduces[u->id]) return;
    if (u->op == UOP_REDUCE) {
        if (s->n == 16) { s->budget = 0; return; }
        s->at[s->n].node = u;
        s->at[s->n++].idx = arena_copy(r->arena, idx, uop_rank(u) * sizeof *idx);
        return;
    }
    uint32_t n = value_sources(u);
    const UOp *next[64], *next_valid, *gather[16];
    for (uint32_t k = n; k-- > 0;) {
        if (u->op == UOP_INDEX && !k)
            for (uint32_t j = 1; j < n; j++) {
                index_source(r, u, j, idx, valid, NULL, next, &next_valid);
                if (!(gather[j - 1] = as_position(r, u->src[j], next))) gather[j - 1] = placeholder(r, next, uop_rank(u->src[j]), -1 - (int64_t)u->src[j]->id);
            }
        index_source(r, u, k, idx, valid, gather, next, &next_valid);
        sim(r, u->src[k], next, next_valid, s);
    }
}

/* Inlining all demands (of one kernel) reaches each reduce at one index only, and none under a REDUCE loop. */
static bool reduces_once(Rangeify *r, const UOp *u)
{
    Sim all = { .budget = SIM_BUDGET };
    const Cut *c = &r->cut[r->inst[u->id]->cut];
    for (Inst *i = r->inst[u->id]; i; i = i->next) {
        uint32_t before = all.n;
        sim_node(r, u, i->idx, i->valid, &all);
        if (all.budget <= 0) return false;
        for (uint32_t k = before; k < all.n; k++)
            if (depends(all.at[k].idx, uop_rank(all.at[k].node)) & ~c->out) return false;
    }
    for (uint32_t a = 0; a < all.n; a++)
        for (uint32_t b = 0; b < a; b++)
            if (all.at[a].node == all.at[b].node && memcmp(all.at[a].idx, all.at[b].idx, uop_rank(all.at[a].node) * sizeof(UOp *))) return false;
    return true;
}

/* ---- the decision ---- */

static bool chain_accepts(const Cut *c, uint64_t set)
{
    for (uint32_t k = 0; k < c->nchain; k++)
        if ((c->chain[k] & set) != set && (c->chain[k] & set) != c->chain[k]) return false;
    return c->nchain < 16;
}

static double reduce_extent(const UOp *u)
{
    double n = 1;
    for (uint32_t k = 0; k < blob_count(u->arg.blob); k++) n *= (double)uop_size(u->src[0], (uint32_t)blob_ints(u->arg.blob)[k]);
    return n;
}

/* A value that depends on these outer ranges only may be computed outside of the others: the reduce in it spans what the others do, and the loops can be put in order. */
static bool outside(Rangeify *r, const Cut *c, uint64_t set, double span)
{
    double lacking = extent(c, c->out & ~set), outer = extent(c, set);
    if (set == c->out || (set & ~c->out) || !chain_accepts(c, set) || span > 2 * lacking || lacking > 2 * span) return false;
    return outer >= 2 * r->target->threads || outer * lacking <= 16384;
}

/* May this REDUCE's only demand be met inside the kernel that asks? */
static bool reduce_fits(Rangeify *r, const UOp *u, const Inst *i)
{
    Cut *c = &r->cut[i->cut];
    uint64_t set = depends(i->idx, uop_rank(u));
    double span = reduce_extent(u);
    if (c->nrange + blob_count(u->arg.blob) > MAX_RANGES || (set & ~c->out) || i->valid) return false;
    if (set == c->out) {
        if (i->enclosing != c->out || c->nheavy) return false;
        if (span >= 16) c->nheavy++;
        return true;
    }
    if (!outside(r, c, set, span)) return false;
    for (uint32_t k = 0; k < c->nchain; k++)
        if (c->chain[k] == set) return true;
    c->chain[c->nchain++] = set;
    return true;
}

static bool in_chain(const Cut *c, uint64_t set)
{
    for (uint32_t k = 0; k < c->nchain; k++)
        if ((set & ~c->chain[k]) == 0) return true;
    return false;
}

/* u is made of row statistics that will stand outside of the loops that it does not need. */
static bool row_statistic(Rangeify *r, const UOp *u, const Inst *i)
{
    const Cut *c = &r->cut[i->cut];
    Sim s = { .budget = SIM_BUDGET };
    if (!r->reduces[u->id] || (depends(i->idx, uop_rank(u)) & ~c->out)) return false;
    sim_node(r, u, i->idx, i->valid, &s);
    for (uint32_t k = 0; k < s.n; k++)
        if (!outside(r, c, depends(s.at[k].idx, uop_rank(s.at[k].node)), reduce_extent(s.at[k].node))) return false;
    return s.n && s.budget > 0;
}

/* An axis' numbers times constants: what an address is made of, and never worth a load. */
static bool axis_sum(const UOp *u)
{
    switch ((Op)u->op) {
    case UOP_CONST: case UOP_IOTA: return true;
    case UOP_CAST: return dtype_is_int((DType)u->src[0]->dtype) && axis_sum(u->src[0]);
    case UOP_MUL: case UOP_ADD: return dtype_is_int((DType)u->dtype) && axis_sum(u->src[0]) && axis_sum(u->src[1]);
    case UOP_RESHAPE: return uop_rank(u->src[0]) <= 1 && axis_sum(u->src[0]);
    case UOP_EXPAND: case UOP_PERMUTE: return axis_sum(u->src[0]);
    default: return false;
    }
}

/* Element-wise work under loops that it does not need: a store and loads are cheaper, but than a comparison of positions. */
static bool repeated(Rangeify *r, const UOp *u, const Inst *i)
{
    const Cut *c = &r->cut[i->cut];
    uint64_t set = depends(i->idx, uop_rank(u));
    double times = extent(c, i->enclosing) / (double)uop_numel(u);
    if (times < 4 || in_chain(c, set) || row_statistic(r, u, i)) return false;
    if (!r->loads[u->id] && !r->reduces[u->id] && (uop_numel(u) <= POSITIONS || axis_sum(u))) return false;       /* a few numbers made of positions: constants, where the loop is unrolled */
    if (i->enclosing & ~c->out) return r->cost[u->id] >= (r->loads[u->id] || r->reduces[u->id] ? 1 : 2);
    return r->cost[u->id] >= 12 || r->reduces[u->id];
}

/* The reduces come in by smaller operands: they are the ones to store (A, not A * B, of a product that is summed). */
static bool leaves_it_to_sources(const Rangeify *r, const UOp *u)
{
    for (uint32_t k = 0; k < u->nsrc; k++)
        if (r->reduces[u->src[k]->id] && !r->forced[u->src[k]->id] && 2 * base_numel(u->src[k]) > (double)uop_numel(u)) return false;
    return true;
}

static bool reduces_last_axis(const UOp *u)
{
    uint32_t last = uop_rank(u->src[0]);
    while (last-- && uop_is_int_const(uop_dim(u->src[0], last), 1)) { }
    for (uint32_t k = 0; k < blob_count(u->arg.blob); k++)
        if (blob_ints(u->arg.blob)[k] == last) return true;
    return false;
}

/* u is stored across its rows, and made of statistics of these: either the sums or the store would walk memory with long steps. It is stored as it is, and what is left is a transpose. */
static bool across_rows(Rangeify *r, const UOp *u, const Inst *i)
{
    const Cut *c = &r->cut[i->cut];
    Sim s = { .budget = SIM_BUDGET };
    uint32_t rank = uop_rank(u);
    if (r->target->max_block || !rank || !c->nout || !r->reduces[u->id] || uop_numel(u) < ACROSS_LEAST) return false;
    uint64_t last = UINT64_C(1) << (c->nout - 1);
    if (!(depends(i->idx, rank) & last) || (i->idx[rank - 1]->ranges & last) || (depends(i->idx, rank) & ~c->out)) return false;
    sim_node(r, u, i->idx, i->valid, &s);
    for (uint32_t k = 0; k < s.n && s.budget > 0; k++) {
        uint64_t set = depends(s.at[k].idx, uop_rank(s.at[k].node));
        if ((set & last) && set != c->out && reduces_last_axis(s.at[k].node) && !is_contraction(s.at[k].node)) return true;
    }
    return false;
}

/* Do elements that are neighbours along that axis of u come from places of memory that are not, most of them once? */
static bool comes_across(const Rangeify *r, const UOp *u, uint32_t axis, double numel, int depth)
{
    if (!depth || axis >= uop_rank(u) || uop_is_int_const(uop_dim(u, axis), 1)) return false;
    if (is_memory(u) || r->forced[u->id]) {
        double step = 1;
        for (uint32_t k = axis + 1; k < uop_rank(u); k++) step *= (double)uop_size(u, k);
        return step > LANE_TURNS && 2 * (double)uop_numel(u) >= numel;                  /* what is a few elements off is shuffled */
    }
    if (u->op == UOP_PERMUTE) return comes_across(r, u->src[0], (uint32_t)blob_ints(u->arg.blob)[axis], numel, depth);
    if (u->op == UOP_RESHAPE || is_leaf(u) || (!op_is((Op)u->op, FLAG_ALU) && !op_is((Op)u->op, FLAG_MOVE))) return false;
    for (uint32_t k = 0; k < value_sources(u); k++)
        if (uop_rank(u->src[k]) == uop_rank(u) && comes_across(r, u->src[k], axis, numel, depth - 1)) return true;
    return false;
}

/* Several loops along the last axis read u, whose elements lie elsewhere in memory: it is transposed once. */
static bool read_across(const Rangeify *r, const UOp *u)
{
    const Inst *i = r->inst[u->id];
    uint32_t rank = uop_rank(u), loops = 0;
    if (r->target->max_block || rank < 2 || !i->next || r->constant[u->id] || uop_numel(u) < ACROSS_LEAST) return false;
    for (const UOp *at = NULL; i; i = i->next)
        if (i->idx[rank - 1]->op == UOP_RANGE && i->idx[rank - 1] != at) at = i->idx[rank - 1], loops++;
    return loops > 1 && comes_across(r, u, rank - 1, (double)uop_numel(u), 32);
}

static bool stage_alu(Rangeify *r, const UOp *u)
{
    const Inst *first = r->inst[u->id];
    bool one_cut = true, under_reduce = false;
    for (const Inst *i = first; i; i = i->next) {
        one_cut &= i->cut == first->cut;
        under_reduce |= (i->enclosing & ~r->cut[i->cut].out) != 0;
        if (repeated(r, u, i) || across_rows(r, u, i)) return true;
    }
    if (one_cut && read_across(r, u)) return true;
    if (r->reduces[u->id] && (first->next || under_reduce || first->valid) && (!one_cut || !reduces_once(r, u))) return !leaves_it_to_sources(r, u);
    if (!first->next || one_cut) return false;
    return r->cost[u->id] > 6 || r->loads[u->id] > 2;
}

/* Cheap joins of what lies in memory already are read through; others are stored part by part. */
static bool stage_cat(Rangeify *r, const UOp *u)
{
    const Inst *i = r->inst[u->id];
    if (u->nsrc > 4 || r->reduces[u->id] || i->next) return true;
    return extent(&r->cut[i->cut], i->enclosing) / (double)uop_numel(u) > 1.5;
}

/* A wider copy of a constant is none: it is read narrow and widened there (PACK may yet make one). */
static bool only_widens(const UOp *u) { return u->op == UOP_CAST && dtype_is_float((DType)u->dtype) == dtype_is_float((DType)u->src[0]->dtype) && dtype_size((DType)u->dtype) > dtype_size((DType)u->src[0]->dtype); }

static bool holds(const UOp *u) { return u->op == UOP_CAST && u->dtype == DT_F32 && dtype_is_int((DType)u->src[0]->dtype) && dtype_size((DType)u->src[0]->dtype) < 3; }        /* every value of that integer */

static double bytes_read(const UOp *u, int depth)
{
    double n = is_memory(u) ? (double)uop_numel(u) * dtype_size((DType)u->dtype) : depth ? 0 : 1e30;
    for (uint32_t k = 0; k < value_sources(u) && depth; k++) n += bytes_read(u->src[k], depth - 1);
    return n;
}

/* A large constant that is made of one of at most half the bytes, and summed for a row or two: what it takes to make it again is less than to load it. CPUs wait for memory there. */
static bool stays_narrow(const Rangeify *r, const UOp *u)
{
    double all = (double)uop_numel(u) * dtype_size((DType)u->dtype);
    if (r->target->max_block || all < NARROW_LEAST || r->cost[u->id] > NARROW_WORK || r->reduces[u->id] || 2 * bytes_read(u, 32) > all) return false;
    for (const Inst *i = r->inst[u->id]; i; i = i->next)
        if (!(i->enclosing & ~r->cut[i->cut].out) || extent(&r->cut[i->cut], i->enclosing) > 2 * (double)uop_numel(u)) return false;
    return true;
}

static bool stage(Rangeify *r, const UOp *u)
{
    if (is_leaf(u)) return false;
    if (r->forced[u->id] || u->op == UOP_CONTIGUOUS) return true;
    if (u->op == UOP_CAT) return stage_cat(r, u);
    if (u->op == UOP_STACK) return u->nsrc > 8;
    if (u->op == UOP_REDUCE) return r->constant[u->id] || r->inst[u->id]->next || !reduce_fits(r, u, r->inst[u->id]);
    if (!op_is((Op)u->op, FLAG_ALU)) return false;
    if (r->constant[u->id] && uop_numel(u) > 1 && r->loads[u->id]) return !only_widens(u) && !stays_narrow(r, u);
    return stage_alu(r, u);
}

/* ---- staging ---- */

static Cut *new_cut(Rangeify *r, const UOp *u, const UOp *buffer)
{
    if (r->ncut == r->cut_cap) r->cut = realloc(r->cut, (r->cut_cap = r->cut_cap ? r->cut_cap * 2 : 64) * sizeof *r->cut);
    Cut *c = &r->cut[r->ncut];
    memset(c, 0, sizeof *c);
    c->buffer = buffer;
    c->root = u;
    uint32_t rank = uop_rank(u);
    c->store = NEW_N(r->arena, const UOp *, rank + 1);
    for (uint32_t k = 0; k < rank; k++) c->store[k] = fresh_range(r, c, uop_dim(u, k), AXIS_LOOP);
    c->nout = c->nrange;
    c->out = c->nrange ? (UINT64_C(2) << (c->nrange - 1)) - 1 : 0;
    c->inst = new_inst(r, u, r->ncut++, c->store, NULL, c->out);
    return c;
}

static const UOp *new_buffer(Rangeify *r, const UOp *u)
{
    BufferInfo info = { (DType)u->dtype, u->shape, NULL, (size_t)(uop_numel(u) * dtype_size((DType)u->dtype)), NULL };
    return r->buffer[u->id] = graph_add_buffer(r->g, &info);
}

/* A join whose parts are the first of a join that is stored already (networks that append to what they have): it is there. */
static const UOp *stored_join(const Rangeify *r, const UOp *u)
{
    for (uint32_t i = 0; i < r->njoin; i++) {
        const UOp *v = r->join[i];
        if (v->arg.i == u->arg.i && v->nsrc >= u->nsrc && !memcmp(v->src, u->src, u->nsrc * sizeof *u->src)) return r->buffer[v->id];
    }
    return NULL;
}

/* One kernel a part, each storing its slice as soon as the part can be computed. */
static void stage_parts(Rangeify *r, const UOp *u)
{
    if (!r->forced[u->id] && (r->buffer[u->id] = stored_join(r, u))) return;
    r->join[r->njoin++] = u;
    const UOp *buffer = new_buffer(r, u), *begin = uop_index(r->g, 0);
    int64_t axis = u->arg.i;
    for (uint32_t k = 0; k < u->nsrc; k++) {
        Cut *c = new_cut(r, u->src[k], buffer);
        c->join = true;
        c->store[axis] = index_simplify(r, index_math(r->g, UOP_ADD, c->store[axis], begin));
        begin = index_simplify(r, index_math(r->g, UOP_ADD, begin, uop_dim(u->src[k], (uint32_t)axis)));
        Inst *i = c->inst;
        i->next = r->inst[u->src[k]->id];
        r->inst[u->src[k]->id] = i;
    }
}

/* Does the device multiply values of that type as they are? */
static bool multiplies(const Target *t, DType type)
{
    for (int32_t row = 0; row < WMMA_COUNT; row++)
        if ((t->wmma >> row & 1) && (wmma_row[row].a == type || wmma_row[row].b == type)) return true;
    return t->max_block;
}

/* What is stored where a wider copy of it should be: the value before it was widened, of half the bytes or a quarter, and in the type that tensor cores take. Products of wide numbers alone,
 * which take each value many times, have it widened once: where it is stored. */
static bool stage_narrow(Rangeify *r, const UOp *u)
{
    const UOp *s = u->src[0];
    if ((!only_widens(u) && !holds(u)) || r->forced[u->id]) return false;
    if (r->multiplied[u->id] && r->users[s->id] == 1 && op_is((Op)s->op, FLAG_ALU) && !multiplies(r->target, (DType)s->dtype)) return false;
    while (s->op == UOP_RESHAPE || s->op == UOP_PERMUTE) s = s->src[0];
    if (!is_leaf(s)) r->forced[s->id] = 1;
    return true;
}

static bool decide(Rangeify *r, const UOp *u)
{
    Home home = home_of(r->homes, u);
    return home == HOME_OPEN ? stage(r, u) && !stage_narrow(r, u) : home != HOME_INLINE;
}

static void visit(Rangeify *r, const UOp *u)
{
    if (!r->inst[u->id] && !r->forced[u->id]) return;
    bool staged = r->inst[u->id] ? decide(r, u) : !is_leaf(u);
    if (is_leaf(u)) return;
    if (staged && u->op == UOP_CAT) stage_parts(r, u);
    else if (staged) {
        Inst *i = new_cut(r, u, new_buffer(r, u))->inst;
        i->root = true;
        push(r, i);
    } else
        for (Inst *i = r->inst[u->id]; i; i = i->next) push(r, i);
}

/* ---- the sweep ---- */

/* Outputs and whatever a CALL reads must lie in memory. */
static void force(Rangeify *r, const UOp *const *order, uint32_t n, const UOp *sink)
{
    for (uint32_t k = 0; k < sink_values(sink); k++) r->forced[sink->src[k]->id] = 1;
    for (uint32_t i = 0; i < n; i++)
        if (order[i]->op == UOP_CALL) {
            r->called[order[i]->id] = 1;
            for (uint32_t k = 1; k < order[i]->nsrc; k++) r->forced[order[i]->src[k]->id] = 1;
        }
    for (uint32_t i = 0; i < n; i++)
        if (order[i]->op == UOP_GETTUPLE) new_buffer(r, order[i]);
}

static TgStatus unsupported(const UOp *const *order, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        switch ((Op)order[i]->op) {
        case UOP_ERROR: case UOP_STORE: case UOP_LOAD: case UOP_WMMA: case UOP_INS: case UOP_ATOMICADD: case UOP_CUSTOM: case UOP_BINARY:
            return fail(TG_INTERNAL, "rangeify: %s in a tensor graph", op_name((Op)order[i]->op));
        default: break;
        }
    return TG_OK;
}

/* Where an output lies: its buffer, or the input or constant that it is; a bare number gets memory of its own. */
static const UOp *output_place(Rangeify *r, const UOp *u)
{
    if (r->buffer[u->id]) return r->buffer[u->id];
    if (u->op != UOP_CONST) return u;
    void *data = arena_alloc(graph_arena(r->g), 8);
    scalar_store((DType)u->dtype, data, 0, u->arg.i);
    return graph_add_buffer(r->g, &(BufferInfo){ .dtype = (DType)u->dtype, .shape = u->shape, .data = data, .size_bytes = (size_t)dtype_size((DType)u->dtype), .name = "" });
}

static void begin(Rangeify *r)
{
    r->arena = arena_new();
    r->nnode = graph_count(r->g);
    r->inst = NEW_N(r->arena, Inst *, r->nnode);
    r->buffer = NEW_N(r->arena, const UOp *, r->nnode);
    r->called = NEW_N(r->arena, uint8_t, r->nnode);
    r->rests = NEW_N(r->arena, uint8_t, r->nnode);
    r->multiplied = NEW_N(r->arena, uint8_t, r->nnode);
    r->users = NEW_N(r->arena, uint8_t, r->nnode);
    r->join = NEW_N(r->arena, const UOp *, r->nnode);
    r->forced = NEW_N(r->arena, uint8_t, r->nnode);
    r->reduces = NEW_N(r->arena, uint8_t, r->nnode);
    r->constant = NEW_N(r->arena, uint8_t, r->nnode);
    r->loads = NEW_N(r->arena, uint8_t, r->nnode);
    r->cost = NEW_N(r->arena, float, r->nnode);
    r->depth = NEW_N(r->arena, uint16_t, r->nnode);
    r->simplify = rewriter_new(r->g, rules_symbolic(), NULL);
}

static void end(Rangeify *r)
{
    functions_free(r);
    rewriter_free(r->simplify);
    free(r->all);
    free(r->place);
    free(r->cut);
    arena_free(r->arena);
}

static TgStatus sweep(Rangeify *r, const UOp *sink)
{
    uint32_t n;
    const UOp **order = graph_outer(r->g, sink, r->arena, &n);
    TRY(unsupported(order, n));
    force(r, order, n, sink);
    gather_facts(r, order, n);
    foresee(r, order, n);
    for (uint32_t i = n; i-- > 0;)
        if (order[i] != sink) visit(r, order[i]);
    return graph_error(r->g);
}

TgStatus sched_rangeify(Schedule *out, Graph *g, const UOp *sink, const Target *t, Homes *homes)
{
    Rangeify r = { .g = g, .target = t, .homes = homes };
    begin(&r);
    TgStatus status = sweep(&r, sink);
    if (status == TG_OK) status = cut_kernels(&r, out);
    out->noutput = sink_values(sink);
    out->output = NEW_N(graph_arena(g), const UOp *, sink->nsrc + 1);
    for (uint32_t k = 0; k < out->noutput && status == TG_OK; k++) out->output[k] = output_place(&r, sink->src[k]);
    end(&r);
    return status;
}

/* ---- functions ---- */

/* What the sweep decided, by node; memory of two values is HOME_JOIN. */
static void keep_homes(const Rangeify *r, Homes *homes)
{
    uint32_t buffers = graph_buffer_count(r->g);
    uint8_t *uses = NEW_N(r->arena, uint8_t, buffers + 1);
    for (uint32_t id = 0; id < r->nnode; id++)
        if (r->buffer[id] && uses[buffer_slot(r->buffer[id])] < 2) uses[buffer_slot(r->buffer[id])]++;
    for (uint32_t id = 0; id < r->nnode; id++) {
        const UOp *b = r->buffer[id];
        if (b) home_set(homes, graph_node(r->g, id), uses[buffer_slot(b)] > 1 ? HOME_JOIN : HOME_MEMORY, id);
        else if (r->inst[id]) home_set(homes, graph_node(r->g, id), HOME_INLINE, id);
    }
}

TgStatus sched_functions(const UOp **out, Homes *homes, Graph *g, const UOp *sink, const Target *t)
{
    Rangeify r = { .g = g, .target = t };
    uint32_t buffers = graph_buffer_count(g);
    begin(&r);
    TgStatus status = sweep(&r, sink);
    if (status == TG_OK) keep_homes(&r, homes);
    end(&r);
    graph_drop_buffers(g, buffers);
    if (status == TG_OK) *out = graph_blocks(g, sink, homes);
    return status == TG_OK ? graph_error(g) : status;
}
