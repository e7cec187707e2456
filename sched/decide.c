/* See rangeify.h. The decision, inline or store, is a matter of repeated work only:
 *   a REDUCE is never computed twice: not for two demands, not under a loop on which its index does not depend, unless
 * that loop can be put inside of it (a row statistic such as a softmax's maximum: it spans the axes that its result is
 * broadcast over), which requires the sets of outer ranges to be a chain; element-wise work is recomputed while it is
 * cheaper than a store and loads; what depends on constants only is staged, and computed once at load.
 */
#include "sched/rangeify.h"

#include <string.h>

/* ACROSS_LEAST: elements whose transpose is worth a kernel; NARROW_LEAST, NARROW_WORK: bytes of a constant that is made
 * again where it is summed, and operations that this may take; POSITIONS: of a table of positions that is none;
 * FEW_ROWS: elements around a value that threads need not share; AGAIN: operations that no kernel computes twice for
 * each element; CHEAP, CHEAP_LOADS: operations and loads that are computed again for each reader; JOINED: sources of a
 * concatenation that is read through; UNROLLED: iterations of a loop that is unrolled whole; NESTED_LEAST: outputs of a
 * kernel whose sums hold sums; LONG_ROW: elements that do not fit in registers; HEAVY_LEAST: terms of a long sum;
 * PICKED: sums for each that data pick, up to which all are stored; READ_OFTEN: readings of an element that pay for a
 * copy. */
enum {
    MAX_RANGES = 52,
    SIM_BUDGET = 200,
    ACROSS_LEAST = 4096,
    NARROW_LEAST = 1 << 18,
    NARROW_WORK = 12,
    POSITIONS = 8,
    FEW_ROWS = 16384,
    AGAIN = 40,
    CHEAP = 6,
    CHEAP_LOADS = 2,
    JOINED = 4,
    UNROLLED = 4,
    NESTED_LEAST = 256,
    LONG_ROW = 32,
    HEAVY_LEAST = 16,
    PICKED = 2,
    READ_OFTEN = 8
};
#define READ_AGAIN 1.5 /* reads an element, above which a concatenation is stored part by part */

/* ---- would inlining repeat a reduce? ---- */

typedef struct {
    const UOp *node;
    const UOp **idx;
} Reach;
/* seen: nodes with several readers and where they were wanted; a formula that uses its parts often is walked once */
typedef struct {
    Reach at[16], seen[SIM_BUDGET];
    uint32_t n, nseen;
    int budget;
} Sim;

static void sim_node(Rangeify *r, const UOp *u, const UOp *const *idx, const UOp *valid, Sim *s);

static Reach reach(Rangeify *r, const UOp *u, const UOp *const *idx)
{
    return (Reach){ u, arena_copy(r->arena, idx, uop_rank(u) * sizeof *idx) };
}

static bool same_reach(const Reach *a, const UOp *u, const UOp *const *idx)
{
    return a->node == u && !memcmp(a->idx, idx, uop_rank(u) * sizeof *idx);
}

static bool is_seen(Rangeify *r, const UOp *u, const UOp *const *idx, Sim *s)
{
    if (r->users[u->id] < 2) return false;
    for (uint32_t k = 0; k < s->nseen; k++)
        if (same_reach(&s->seen[k], u, idx)) return true;
    if (s->nseen < SIM_BUDGET) s->seen[s->nseen++] = reach(r, u, idx);
    return false;
}

static void sim(Rangeify *r, const UOp *u, const UOp *const *idx, const UOp *valid, Sim *s)
{
    bool inlined = !r->forced[u->id] && !r->stored[u->id] && u->op != UOP_CONTIGUOUS;
    if (inlined && r->reduces[u->id] && !is_seen(r, u, idx, s)) sim_node(r, u, idx, valid, s);
}

/* u itself is inlined, whatever is foreseen for it. */
static void sim_node(Rangeify *r, const UOp *u, const UOp *const *idx, const UOp *valid, Sim *s)
{
    if (s->budget-- <= 0 || node_is_leaf(u) || !r->reduces[u->id]) return;
    if (u->op == UOP_REDUCE && r->constant[u->id]) return; /* stored at load */
    if (u->op == UOP_REDUCE) {
        if (s->n == 16) {
            s->budget = 0;
            return;
        }
        s->at[s->n++] = reach(r, u, idx);
        return;
    }
    uint32_t n = node_values(u);
    const UOp *next[64], *next_valid, *gather[16];
    for (uint32_t k = n; k-- > 0;) {
        if (u->op == UOP_INDEX && !k)
            for (uint32_t j = 1; j < n; j++) {
                index_source(r, u, j, idx, valid, NULL, next, &next_valid);
                if (!(gather[j - 1] = inst_position(r, u->src[j], next)))
                    gather[j - 1] = inst_placeholder(r, next, uop_rank(u->src[j]), -1 - (int64_t)u->src[j]->id);
            }
        index_source(r, u, k, idx, valid, gather, next, &next_valid);
        sim(r, u->src[k], next, next_valid, s);
    }
}

static bool has_axis(const UOp *u, uint32_t axis, uint32_t rank)
{
    return axis + uop_rank(u) >= rank && !uop_is_int_const(uop_dim(u, axis + uop_rank(u) - rank), 1);
}

/* A sum of products that each iteration of all loops around, some of them REDUCE loops, has for itself (a block's,
 * which is scaled and summed). None is computed twice, and where both operands vary along the REDUCE loops, tiles of
 * outputs lose nothing. For CPUs, whose threads share no sums. */
static bool is_nested(const Rangeify *r, const Cut *c, const UOp *u, const UOp *const *idx, uint64_t enclosing)
{
    uint32_t rank = uop_rank(u);
    const UOp *p = u->arg.i == UOP_ADD ? reduced_product(u) : NULL;
    if (r->target->max_block || !p || index_ranges(idx, rank) != enclosing || c->out & ~enclosing ||
        cut_extent(c, c->out) < NESTED_LEAST)
        return false;
    for (uint32_t k = 0; k < rank; k++)
        if ((idx[k]->ranges & ~c->out) && !(has_axis(p->src[0], k, rank) && has_axis(p->src[1], k, rank))) return false;
    return true;
}

/* Inlining all demands (of one kernel) reaches each reduce at one index only, and none but nested ones under a REDUCE
 * loop. */
static bool reduces_once(Rangeify *r, const UOp *u)
{
    Sim all = { .budget = SIM_BUDGET };
    const Cut *c = &r->cut[r->inst[u->id]->cut];
    for (Inst *i = r->inst[u->id]; i; i = i->next) {
        uint32_t before = all.n;
        all.nseen = 0; /* each stands under loops of its own */
        sim_node(r, u, i->idx, i->valid, &all);
        if (all.budget <= 0) return false;
        for (uint32_t k = before; k < all.n; k++) {
            uint64_t set = index_ranges(all.at[k].idx, uop_rank(all.at[k].node));
            if ((set & ~c->out) && !is_nested(r, c, all.at[k].node, all.at[k].idx, i->enclosing)) return false;
        }
    }
    for (uint32_t a = 0; a < all.n; a++)
        for (uint32_t b = 0; b < a; b++)
            if (all.at[a].node == all.at[b].node && !same_reach(&all.at[a], all.at[b].node, all.at[b].idx))
                return false;
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
    for (uint32_t k = 0; k < blob_count(u->arg.blob); k++)
        n *= (double)uop_size(u->src[0], (uint32_t)blob_ints(u->arg.blob)[k]);
    return n;
}

/* A value that depends on these outer ranges only may be computed outside of the others: the reduce in it spans what
 * the others do, and the loops can be put in order. */
static bool outside(Rangeify *r, const Cut *c, uint64_t set, double span)
{
    double lacking = cut_extent(c, c->out & ~set), outer = cut_extent(c, set);
    if (set == c->out || (set & ~c->out) || !chain_accepts(c, set) || span > 2 * lacking || lacking > 2 * span)
        return false;
    return outer >= 2 * r->target->threads || outer * lacking <= FEW_ROWS;
}

/* A quotient or remainder of one loop, which becomes two where it is split. */
static bool is_digit(const UOp *u)
{
    return (u->op == UOP_IDIV || u->op == UOP_MOD) && u->src[0]->op == UOP_RANGE && uop_is_const(u->src[1]);
}

/* Loops that are in a place as they are, not by a digit only. */
static uint64_t whole_ranges(Rangeify *r, const UOp *at)
{
    ArenaMark mark = arena_mark(r->arena);
    uint32_t n;
    const UOp **order = uop_toposort(r->g, &at, 1, r->arena, &n);
    uint64_t set = at->op == UOP_RANGE ? range_bit(at) : 0;
    for (uint32_t k = 0; k < n; k++)
        for (uint32_t s = 0; s < order[k]->nsrc && !is_digit(order[k]); s++)
            if (order[k]->src[s]->op == UOP_RANGE) set |= range_bit(order[k]->src[s]);
    arena_release(r->arena, mark);
    return set;
}

/* A product is read along a diagonal (positions relative to each row): rows and columns would both be in the places of
 * an operand, of which no tile could be loaded (128 x 128 of 64 terms, 6 times: 2.1 ms, now 0.1). */
static bool along_diagonal(Rangeify *r, const UOp *u, const Inst *i)
{
    const UOp *p = node_contracts(u) ? reduced_product(u) : NULL;
    uint32_t rank = uop_rank(u);
    uint64_t of[2] = { 0, 0 }, whole = 0, sample = 0;
    for (uint32_t k = 0; k < rank && p; k++) {
        bool first = has_axis(p->src[0], k, rank), second = has_axis(p->src[1], k, rank);
        if (first && second) sample |= i->idx[k]->ranges;
        else if (first || second) of[second] |= i->idx[k]->ranges;
    }
    uint64_t both = of[0] & of[1] & ~sample;
    for (uint32_t k = 0; k < rank && both; k++) whole |= whole_ranges(r, i->idx[k]);
    return (both & whole) != 0;
}

/* May this REDUCE's only demand be met inside the kernel that asks? */
static bool reduce_fits(Rangeify *r, const UOp *u, const Inst *i)
{
    Cut *c = &r->cut[i->cut];
    uint64_t set = index_ranges(i->idx, uop_rank(u));
    double span = reduce_extent(u);
    if (c->nrange + blob_count(u->arg.blob) > MAX_RANGES || i->valid || along_diagonal(r, u, i)) return false;
    if (set & ~c->out) return is_nested(r, c, u, i->idx, i->enclosing);
    if (set == c->out) {
        if (i->enclosing != c->out || (c->heavy && c->heavy != u)) return false;
        if (span >= HEAVY_LEAST) c->heavy = u;
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
    if (!r->reduces[u->id] || (index_ranges(i->idx, uop_rank(u)) & ~c->out)) return false;
    sim_node(r, u, i->idx, i->valid, &s);
    for (uint32_t k = 0; k < s.n; k++)
        if (!outside(r, c, index_ranges(s.at[k].idx, uop_rank(s.at[k].node)), reduce_extent(s.at[k].node)))
            return false;
    return s.n && s.budget > 0;
}

/* An axis' numbers times constants: what an address is made of, and never worth a load. */
static bool axis_sum(const UOp *u)
{
    switch ((Op)u->op) {
    case UOP_CONST:
    case UOP_IOTA: return true;
    case UOP_CAST: return dtype_is_int((DType)u->src[0]->dtype) && axis_sum(u->src[0]);
    case UOP_MUL:
    case UOP_ADD: return dtype_is_int((DType)u->dtype) && axis_sum(u->src[0]) && axis_sum(u->src[1]);
    case UOP_RESHAPE: return uop_rank(u->src[0]) <= 1 && axis_sum(u->src[0]);
    case UOP_EXPAND:
    case UOP_PERMUTE: return axis_sum(u->src[0]);
    default: return false;
    }
}

/* Does another index depend on what this one does? */
static bool others_depend(const Inst *i, uint32_t axis)
{
    bool any = false;
    for (uint32_t k = 0; k < uop_rank(i->node); k++) any |= k != axis && i->idx[k]->ranges & i->idx[axis]->ranges;
    return any;
}

/* How often work is repeated by loops that are unrolled, so that it is not: short ones that the index does not depend
 * on, and the inner part of one that the index divides by little. */
static double unrolled(const Rangeify *r, const Cut *c, const Inst *i, uint64_t set)
{
    double n = 1;
    if (r->target->max_block) return 1;
    for (uint64_t m = i->enclosing & c->out & ~set; m; m &= m - 1) {
        const UOp *size = c->range[__builtin_ctzll(m)]->src[0];
        if (uop_is_const(size) && size->arg.i <= UNROLLED) n *= (double)size->arg.i;
    }
    for (uint32_t k = 0; k < uop_rank(i->node); k++) {
        const UOp *at = i->idx[k];
        if (at->op == UOP_IDIV && at->src[0]->op == UOP_RANGE && uop_is_const(at->src[1]) &&
            at->src[1]->arg.i <= UNROLLED && !others_depend(i, k))
            n *= (double)at->src[1]->arg.i;
    }
    return n;
}

/* Element-wise work under loops that it does not need: a store and loads are cheaper, but than a comparison of
 * positions. */
static bool repeated(Rangeify *r, const UOp *u, const Inst *i)
{
    const Cut *c = &r->cut[i->cut];
    uint64_t set = index_ranges(i->idx, uop_rank(u));
    double times = cut_extent(c, i->enclosing) / (double)uop_numel(u) / unrolled(r, c, i, set);
    if (times < 4 || in_chain(c, set) || row_statistic(r, u, i)) return false;
    /* a few numbers made of positions: constants, where the loop is unrolled */
    if (!r->loads[u->id] && !r->reduces[u->id] && (uop_numel(u) <= POSITIONS || axis_sum(u))) return false;
    if (i->enclosing & ~c->out) return r->cost[u->id] >= (r->loads[u->id] || r->reduces[u->id] ? 1 : 2);
    return r->cost[u->id] >= 12 || r->reduces[u->id];
}

/* The reduces come in by smaller operands: they are the ones to store (A, not A * B, of a product that is summed). */
static bool leaves_it_to_sources(const Rangeify *r, const UOp *u)
{
    for (uint32_t k = 0; k < u->nsrc; k++)
        if (r->reduces[u->src[k]->id] && !r->forced[u->src[k]->id] && 2 * node_base(u->src[k]) > (double)uop_numel(u))
            return false;
    return true;
}

static bool reduces_last_axis(const UOp *u)
{
    uint32_t last = uop_rank(u->src[0]);
    while (last-- && uop_is_int_const(uop_dim(u->src[0], last), 1)) {}
    for (uint32_t k = 0; k < blob_count(u->arg.blob); k++)
        if (blob_ints(u->arg.blob)[k] == last) return true;
    return false;
}

/* u is stored across its rows, and made of statistics of these: either the sums or the store would walk memory with
 * long steps. It is stored as it is, and what is left is a transpose. */
static bool across_rows(Rangeify *r, const UOp *u, const Inst *i)
{
    const Cut *c = &r->cut[i->cut];
    Sim s = { .budget = SIM_BUDGET };
    uint32_t rank = uop_rank(u);
    if (r->target->max_block || !rank || !c->nout || !r->reduces[u->id] || uop_numel(u) < ACROSS_LEAST) return false;
    uint64_t last = UINT64_C(1) << (c->nout - 1);
    if (!(index_ranges(i->idx, rank) & last) || (i->idx[rank - 1]->ranges & last) ||
        (index_ranges(i->idx, rank) & ~c->out))
        return false;
    sim_node(r, u, i->idx, i->valid, &s);
    for (uint32_t k = 0; k < s.n && s.budget > 0; k++) {
        uint64_t set = index_ranges(s.at[k].idx, uop_rank(s.at[k].node));
        if ((set & last) && set != c->out && reduces_last_axis(s.at[k].node) && !node_contracts(s.at[k].node))
            return true;
    }
    return false;
}

/* Do elements that are neighbours along that axis of u come from places of memory that are not, most of them once? */
static bool comes_across(const Rangeify *r, const UOp *u, uint32_t axis, double numel, int depth)
{
    if (!depth || axis >= uop_rank(u) || uop_is_int_const(uop_dim(u, axis), 1)) return false;
    if (node_is_memory(u) || r->forced[u->id]) {
        double step = 1;
        for (uint32_t k = axis + 1; k < uop_rank(u); k++) step *= (double)uop_size(u, k);
        /* what is a few elements off is shuffled */
        return step > LANE_INTERLEAVED && 2 * (double)uop_numel(u) >= numel;
    }
    if (u->op == UOP_PERMUTE) return comes_across(r, u->src[0], (uint32_t)blob_ints(u->arg.blob)[axis], numel, depth);
    if (u->op == UOP_RESHAPE || node_is_leaf(u) || (!op_is((Op)u->op, FLAG_ALU) && !op_is((Op)u->op, FLAG_MOVE)))
        return false;
    for (uint32_t k = 0; k < node_values(u); k++)
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

static bool in_one_cut(const Rangeify *r, const UOp *u)
{
    bool one = true;
    for (const Inst *i = r->inst[u->id]; i; i = i->next) one &= i->cut == r->inst[u->id]->cut;
    return one;
}

/* Two long sums meet, one of which was rounded to a narrow type: a kernel computes one of them. That is the first whose
 * value is widened, and the second is stored before it is widened, in a quarter of its sum's bytes. */
static bool second_sum(Rangeify *r, const UOp *u, const Inst *i)
{
    Cut *c = &r->cut[i->cut];
    Sim s = { .budget = SIM_BUDGET };
    if (!node_widens(u) || !r->reduces[u->id] || i->next || i->valid || i->enclosing != c->out) return false;
    sim_node(r, u, i->idx, NULL, &s);
    const UOp *sum = s.n && s.budget > 0 ? s.at[0].node : NULL;
    for (uint32_t k = 1; k < s.n; k++)
        if (s.at[k].node != sum) return false;
    if (!sum || r->users[sum->id] > 1 || reduce_extent(sum) < HEAVY_LEAST ||
        index_ranges(s.at[0].idx, uop_rank(sum)) != c->out)
        return false;
    if (!c->heavy) c->heavy = sum;
    return c->heavy != sum;
}

/* A costly value is summed across axes between which another lies, and wanted behind the sum too: KEEP holds what one
 * loop computes, and so it is stored (mean of a Gelu over the outer axes of 31 x 160 x 141, which is taken off it: 0.73
 * ms, stored 0.43; of an exponential 0.31, 0.34). */
static bool summed_around(Rangeify *r, const UOp *u)
{
    bool sum = false, behind = false;
    if (r->target->max_block || r->reduces[u->id] || r->cost[u->id] < AGAIN) return false;
    for (const Inst *i = r->inst[u->id]; i; i = i->next) {
        uint64_t inner = i->enclosing & ~r->cut[i->cut].out;
        int axes = 0;
        bool last = false;
        for (uint32_t k = 0; k < uop_rank(u); k++) {
            if (uop_is_int_const(uop_dim(u, k), 1)) continue;
            bool summed = i->idx[k]->ranges & inner;
            axes += summed && !last;
            last = summed;
        }
        behind |= !inner;
        sum |= axes > 1;
    }
    return sum && behind && facts_operations(r, u) >= AGAIN;
}

static bool stage_alu(Rangeify *r, const UOp *u)
{
    const Inst *first = r->inst[u->id];
    bool one_cut = in_one_cut(r, u), under_reduce = false;
    for (const Inst *i = first; i; i = i->next) {
        under_reduce |= (i->enclosing & ~r->cut[i->cut].out) != 0;
        if (repeated(r, u, i) || across_rows(r, u, i)) return true;
    }
    if (one_cut && !r->reduces[u->id] && read_across(r, u)) return true;
    if (second_sum(r, u, first) || (one_cut && summed_around(r, u))) return true;
    if (r->reduces[u->id] && (first->next || under_reduce || first->valid) && (!one_cut || !reduces_once(r, u)))
        return !leaves_it_to_sources(r, u);
    if (!first->next || one_cut) return false;
    return r->cost[u->id] > CHEAP || r->loads[u->id] > CHEAP_LOADS;
}

/* Do neighbours along the joined axis, as a kernel reads them, cross from one row to the next anywhere in its lanes
 * (what is joined was made flat)? Then each of a CPU's lanes has a gate for each part. */
static bool crosses_rows(const Rangeify *r, const UOp *u, const Inst *i)
{
    const UOp *at = i->idx[u->arg.i];
    int64_t lanes = r->target->vector_bytes / (int64_t)sizeof(float);
    if (r->target->max_block || lanes < 2) return false;
    while (at->op == UOP_ADD && at->src[1]->op == UOP_CONST) at = at->src[0];
    return at->op == UOP_MOD && uop_is_const(at->src[1]) && at->src[1]->arg.i % lanes;
}

/* Rows of statistics whose elements are not neighbours in memory that keeps its order: copied as rows (the logarithm of
 * a softmax, 1389 rows of 2048: 5.2 ms, 1.3 copied; 30,000 rows of 24: 1.0, 1.2; 10,000 of 64: 1.0, 0.8). */
static bool rows_across(const Rangeify *r, const UOp *u)
{
    uint32_t rank = uop_rank(u);
    return rank && uop_size(u, rank - 1) >= LONG_ROW && node_is_memory(u->src[0]) && in_one_cut(r, u) &&
        read_across(r, u);
}

/* Cheap joins of what lies in memory already are read through; others are stored part by part. */
static bool stage_cat(Rangeify *r, const UOp *u)
{
    const Inst *i = r->inst[u->id];
    if (u->nsrc > JOINED || r->reduces[u->id] || i->next || crosses_rows(r, u, i)) return true;
    return cut_extent(&r->cut[i->cut], i->enclosing) / (double)uop_numel(u) > READ_AGAIN;
}

static double bytes_read(const UOp *u, int depth)
{
    double n = node_is_memory(u) ? (double)uop_numel(u) * dtype_size((DType)u->dtype) : depth ? 0 : 1e30;
    for (uint32_t k = 0; k < node_values(u) && depth; k++) n += bytes_read(u->src[k], depth - 1);
    return n;
}

/* A large constant that is made of one of at most half the bytes, and summed for a row or two: what it takes to make it
 * again is less than to load it. CPUs wait for memory there. */
static bool stays_narrow(const Rangeify *r, const UOp *u)
{
    double all = (double)uop_numel(u) * dtype_size((DType)u->dtype);
    if (r->target->max_block || all < NARROW_LEAST || r->cost[u->id] > NARROW_WORK || r->reduces[u->id] ||
        2 * bytes_read(u, 32) > all)
        return false;
    for (const Inst *i = r->inst[u->id]; i; i = i->next)
        if (!(i->enclosing & ~r->cut[i->cut].out) ||
            cut_extent(&r->cut[i->cut], i->enclosing) > 2 * (double)uop_numel(u))
            return false;
    return true;
}

/* Only kernels that run once want it, on a CPU, where these are as good as any. */
static bool wanted_once(const Rangeify *r, const UOp *u)
{
    if (r->target->max_block) return false;
    for (const Inst *i = r->inst[u->id]; i; i = i->next)
        if (!r->constant[r->cut[i->cut].root->id]) return false;
    return true;
}

/* Is any part of these places so? */
static bool any_part(Rangeify *r, const UOp *const *idx, uint32_t rank, bool (*is)(const UOp *u))
{
    ArenaMark mark = arena_mark(r->arena);
    uint32_t n;
    bool any = false;
    const UOp **order = uop_toposort(r->g, idx, rank, r->arena, &n);
    for (uint32_t k = 0; k < n && !any; k++) any = is(order[k]);
    arena_release(r->arena, mark);
    return any;
}

static bool is_from_data(const UOp *u) { return u->op == UOP_CUSTOM; }

/* Sums that are picked by data (inst_placeholder), about as many as there are: what each walks lies anywhere, all
 * together in order. */
static bool picked(Rangeify *r, const UOp *u, const Inst *i)
{
    return any_part(r, i->idx, uop_rank(u), is_from_data) &&
        (double)uop_numel(u) <= PICKED * cut_extent(&r->cut[i->cut], i->enclosing);
}

/* A quotient or a remainder of several loops' sum, which no splitting of loops takes away. */
static bool is_digit_of_sum(const UOp *u)
{
    uint64_t loops = u->op == UOP_IDIV || u->op == UOP_MOD ? u->src[0]->ranges : 0;
    return (loops & (loops - 1)) != 0;
}

/* An operand of a product in another shape, whose rows do not lie in rows of what it is made of: finding each element
 * takes longer than the product (8 chunks of 32 rows by 96 terms along a diagonal, 64 columns, 6 times: 2.1 ms, copied
 * 0.2). */
static bool shown_in_pieces(Rangeify *r, const UOp *u)
{
    const Inst *i = r->inst[u->id];
    const Cut *c = &r->cut[i->cut];
    const UOp *at[64], *valid;
    if (!r->multiplied[u->id] || i->next || !(i->enclosing & ~c->out)) return false;
    if (cut_extent(c, i->enclosing) < READ_OFTEN * (double)uop_numel(u)) return false;
    index_source(r, u, 0, i->idx, i->valid, NULL, at, &valid);
    return any_part(r, at, uop_rank(u->src[0]), is_digit_of_sum) && !any_part(r, i->idx, uop_rank(u), is_digit_of_sum);
}

/* ---- what a list may decide otherwise ---- */

bool is_open(const Rangeify *r, const UOp *u)
{
    return (op_is((Op)u->op, FLAG_ALU) || u->op == UOP_REDUCE || u->op == UOP_CAT) && !node_fills(u) &&
        !r->forced[u->id] && !r->constant[u->id] && u->dtype != DT_INDEX && uop_numel(u) > 1;
}

/* Without computing a sum twice. */
bool can_inline(const Rangeify *r, const UOp *u)
{
    return !r->reduces[u->id] && (op_is((Op)u->op, FLAG_ALU) || (u->op == UOP_CAT && u->nsrc <= 2 * JOINED));
}

/* A sum beside another in a kernel, or what is computed more than once, as it is shown to others. */
bool is_repeated(const Rangeify *r, const UOp *u)
{
    const Inst *i = r->inst[u->id];
    const Cut *c = &r->cut[i->cut];
    bool again = i->next || cut_extent(c, i->enclosing) >= 2 * (double)uop_numel(u);
    if (u->op == UOP_REDUCE) return again || !node_contracts(u);
    return again && r->shown[u->id] && (r->loads[u->id] || r->reduces[u->id]);
}

/* ---- all together ---- */

bool is_stored(Rangeify *r, const UOp *u)
{
    if (node_is_leaf(u)) return false;
    if (r->forced[u->id] || u->op == UOP_CONTIGUOUS) return true;
    if (u->op == UOP_CAT) return stage_cat(r, u);
    if (u->op == UOP_STACK) return u->nsrc > 8;
    if (u->op == UOP_PERMUTE) return rows_across(r, u);
    if (u->op == UOP_RESHAPE) return shown_in_pieces(r, u);
    if (u->op == UOP_REDUCE)
        return r->constant[u->id] || r->inst[u->id]->next || !reduce_fits(r, u, r->inst[u->id]) ||
            picked(r, u, r->inst[u->id]);
    if (!op_is((Op)u->op, FLAG_ALU) || node_fills(u)) return false;
    if (r->constant[u->id] && uop_numel(u) > 1 && r->loads[u->id] && !wanted_once(r, u))
        return !node_only_widens(u) && !stays_narrow(r, u);
    return stage_alu(r, u);
}
