/* Loops of a kernel whose indices are flat: which ranges there are, before any OptOp. Long steps outside, neighbours
 * that walk memory as one merged, ranges that an index divides split. Comes in and goes out: form 2 (kernel.h).
 */
#include <stdlib.h>
#include <string.h>

#include "graph/rewrite.h"
#include "sched/rangeify.h"

enum { LANES = 16 };

/* The widest step that any load but a constant's takes along a reduce range: long steps go outside. */
static int64_t reach_of(const Kernel *k, const UOp *const *order, uint32_t n, const UOp *range)
{
    int64_t widest = 0;
    for (uint32_t i = 0; i < n; i++) {
        const UOp *u = order[i];
        if (u->op != UOP_LOAD || u->src[0]->src[0]->op != UOP_PARAM || k->param[u->src[0]->src[0]->arg.i].constant)
            continue;
        int64_t step = range_reach(u->src[0]->src[1], range);
        if (step != NO_STEP && llabs(step) > widest) widest = llabs(step);
    }
    return widest;
}

static void order_reduces(Kernel *k, Arena *scratch)
{
    uint32_t n;
    const UOp **order = uop_toposort(k->g, &k->root, 1, scratch, &n),
              **map = NEW_N(scratch, const UOp *, k->root->id + 1);
    for (uint32_t i = 0; i < n; i++) {
        const UOp *u = order[i], *src[72];
        for (uint32_t s = 0; s < u->nsrc; s++) src[s] = map[u->src[s]->id];
        for (uint32_t s = 2; u->op == UOP_REDUCE && s < u->nsrc; s++)
            for (uint32_t j = s; j > 1 && reach_of(k, order, n, src[j - 1]) < reach_of(k, order, n, src[j]); j--) {
                const UOp *swap = src[j];
                src[j] = src[j - 1];
                src[j - 1] = swap;
            }
        map[u->id] = uop_with(k->g, u, src);
    }
    k->root = map[k->root->id];
}

/* Loops without sums walk the result as it lies in memory: long steps outside. */
static void order_outputs(Kernel *k, Arena *scratch)
{
    uint32_t n;
    const UOp **order = uop_toposort(k->g, &k->root, 1, scratch, &n), *end = NULL, *src[72];
    for (uint32_t i = 0; i < n; i++) {
        if (order[i]->op == UOP_REDUCE || (order[i]->op == UOP_END && end)) return;
        if (order[i]->op == UOP_END) end = order[i];
    }
    const UOp *index = end && end->src[0]->op == UOP_STORE && end->src[0]->src[0]->op == UOP_INDEX
        ? end->src[0]->src[0]->src[1]
        : NULL;
    for (uint32_t s = 1; index && s < end->nsrc; s++)
        if (range_step(index, end->src[s]) == NO_STEP) return;
    if (!index) return;
    memcpy(src, end->src, end->nsrc * sizeof *src);
    for (uint32_t s = 2; s < end->nsrc; s++)
        for (uint32_t j = s; j > 1 && llabs(range_step(index, src[j - 1])) < llabs(range_step(index, src[j])); j--) {
            const UOp *swap = src[j];
            src[j] = src[j - 1];
            src[j - 1] = swap;
        }
    const UOp *ordered = uop_with(k->g, end, src);
    if (ordered != end) k->root = uop_substitute(k->g, k->root, &end, &ordered, 1);
}

static uint32_t divisions(Graph *g, const UOp *root, Arena *scratch)
{
    uint32_t n, found = 0;
    const UOp **order = uop_toposort(g, &root, 1, scratch, &n);
    for (uint32_t i = 0; i < n; i++) found += order[i]->op == UOP_IDIV || order[i]->op == UOP_MOD;
    return found;
}

typedef struct { const UOp *outer, *inner, *root; } Split;

static const UOp *quotient(Graph *g, const UOp *a, const UOp *b)
{
    return graph_rewrite(g, index_math(g, UOP_IDIV, a, b), rules_symbolic(), 0, NULL);
}

static const UOp *product(Graph *g, const UOp *a, const UOp *b)
{
    return graph_rewrite(g, index_math(g, UOP_MUL, a, b), rules_symbolic(), 0, NULL);
}

/* Where the last iteration of outer has fewer of inner than the others: what depends on inner counts as far as r goes.
 */
static const UOp *in_bounds(Graph *g, const UOp *root, const UOp *r, const UOp *inner, const UOp *sum, Arena *scratch)
{
    uint32_t n;
    const UOp **order = uop_toposort(g, &root, 1, scratch, &n), **map = NEW_N(scratch, const UOp *, root->id + 1),
              *gate = UOP(g, UOP_CMPLT, DT_VOID, NO_ARG, sum, r->src[0]);
    for (uint32_t i = 0; i < n; i++) {
        const UOp *u = order[i], *src[72];
        for (uint32_t s = 0; s < u->nsrc; s++) src[s] = map[u->src[s]->id];
        map[u->id] = u->ranges & range_bit(inner) ? with_gate(g, u, src, gate) : uop_with(g, u, src);
    }
    return map[root->id];
}

/* A range r as outer*c + inner: what divided r by c becomes a range of its own. The kernel stays as it is. */
static Split split_range(Kernel *k, const UOp *r, const UOp *c, int number, Arena *scratch)
{
    Graph *g = k->g;
    bool evenly = !uop_is_const(r->src[0]) || r->src[0]->arg.i % c->arg.i == 0;
    const UOp *parts = evenly ? quotient(g, r->src[0], c) : uop_index(g, r->src[0]->arg.i / c->arg.i + 1),
              *outer = uop_range(g, range_number(r), parts, range_type(r)),
              *inner = uop_range(g, number, c, range_type(r));
    const UOp *sum = index_math(g, UOP_ADD, index_math(g, UOP_MUL, outer, c), inner), *before = k->root;
    kernel_change(k, &(Change){ .old = r, .value = sum, .list = { outer, inner }, .n = 2 });
    const UOp *root = k->root;
    k->root = before;
    if (!evenly) root = graph_rewrite(g, in_bounds(g, root, r, inner, sum, scratch), rules_symbolic(), 0, NULL);
    return (Split){ outer, inner, root };
}

/* Does some load depend on one half of a split loop only? Then a tile over the other half reads it once. */
static bool is_reused(const Split *s, Arena *scratch, Graph *g)
{
    uint32_t n;
    const UOp **order = uop_toposort(g, &s->root, 1, scratch, &n);
    bool reduces = false, reused = false;
    for (uint32_t i = 0; i < n; i++) {
        bool outer = order[i]->ranges & range_bit(s->outer), inner = order[i]->ranges & range_bit(s->inner);
        reduces |= order[i]->op == UOP_REDUCE;
        reused |= order[i]->op == UOP_LOAD && outer != inner;
    }
    return reduces && reused;
}

/* Is something loaded side by side along one half, which is no line along the whole loop r? Then lanes there are
 * vectors: of the inner half, or of the outer one, whose iterations alternate with few of the inner; and where both are
 * long, squares turn what lies along the outer one. Kernels with sums have tiles of their own. */
static bool is_straightened(const Kernel *k, const UOp *r, const Split *s, Arena *scratch)
{
    const UOp *half = s->inner->src[0]->vmax <= LANE_INTERLEAVED ? s->outer : s->inner;
    uint32_t n;
    bool bent = false, straight = false;
    const UOp **order = uop_toposort(k->g, &k->root, 1, scratch, &n);
    for (uint32_t i = 0; i < n; i++) {
        if (order[i]->op == UOP_REDUCE) return false;
        bent |= order[i]->op == UOP_LOAD && range_step(order[i]->src[0]->src[1], r) == NO_STEP;
    }
    order = uop_toposort(k->g, &s->root, 1, scratch, &n);
    bool square = half == s->inner && s->outer->src[0]->vmax >= LANES;
    for (uint32_t i = 0; i < n; i++) {
        const UOp *at = order[i]->op == UOP_LOAD ? order[i]->src[0]->src[1] : NULL;
        straight |= at && (range_step(at, half) == 1 || (square && range_step(at, s->outer) == 1));
    }
    return bent && straight && half->src[0]->vmax >= LANES;
}

/* Do places of memory along the whole loop r, which the store's lanes do not walk, serve few neighbours each, in a
 * kernel without sums? Then these are computed at once, and all that is read for them once (an output of Winograd's
 * sums, 32 channels of 256 x 256 pixels: 1.9 ms, 1.2 in tiles of 2 x 2, and 0.44 in a chain with what it reads). */
static bool is_shared(const Kernel *k, const UOp *r, const Split *s, Arena *scratch)
{
    uint32_t n;
    bool shared = false;
    const UOp **order = uop_toposort(k->g, &k->root, 1, scratch, &n);
    for (uint32_t i = 0; i < n; i++)
        if (order[i]->op == UOP_REDUCE || (order[i]->op == UOP_STORE && range_step(order[i]->src[0]->src[1], r) == 1))
            return false;
    order = uop_toposort(k->g, &s->root, 1, scratch, &n);
    for (uint32_t i = 0; i < n; i++) {
        uint64_t ranges = order[i]->op == UOP_LOAD ? order[i]->ranges : 0;
        shared |= (ranges & range_bit(s->outer)) && !(ranges & range_bit(s->inner));
    }
    return shared && s->inner->src[0]->vmax <= LANE_INTERLEAVED;
}

/* u divides a range evenly, or else (not evenly) a loop of the output by little: by how much, at most; 0: it does not.
 */
static int64_t divides(Graph *g, const UOp *u, bool evenly)
{
    const UOp *r = u->nsrc ? u->src[0] : NULL, *c = u->nsrc > 1 ? u->src[1] : NULL;
    if ((u->op != UOP_MOD && u->op != UOP_IDIV) || r->op != UOP_RANGE || c->ranges || c->vmax < 2) return 0;
    if (uop_is_const(r->src[0])) {
        int64_t by = uop_is_const(c) ? c->arg.i : 0;
        bool few = !evenly && by <= LANE_INTERLEAVED && r->src[0]->arg.i > by && range_type(r) == AXIS_LOOP;
        return by && (few || r->src[0]->arg.i % by == 0) ? by : 0;
    }
    return product(g, quotient(g, r->src[0], c), c) == r->src[0] ? c->vmax : 0;
}

/* Divisions of ranges, the smallest divisors first. */
static uint32_t divisions_of_ranges(Graph *g, const UOp *const *order, uint32_t n, const UOp **out)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (!divides(g, order[i], false)) continue;
        uint32_t at = count++;
        for (; at && divides(g, out[at - 1], false) > divides(g, order[i], false); at--) out[at] = out[at - 1];
        out[at] = order[i];
    }
    return count;
}

/* Is what r divides here read by a unit's product, whose rows are strides of memory? */
static bool feeds_unit(const Kernel *k, const UOp *r, const Target *t, Arena *scratch)
{
    uint32_t n;
    const UOp **order = uop_toposort(k->g, &k->root, 1, scratch, &n);
    bool feeds = false;
    for (uint32_t i = 0; i < n && has_parts(t); i++) {
        const UOp *u = order[i],
                  *at = u->op == UOP_CAST && u->src[0]->op == UOP_LOAD && u->src[0]->dtype == DT_BF16
            ? u->src[0]->src[0]
            : NULL;
        feeds |= at && at->op == UOP_INDEX && (at->ranges & range_bit(r)) && range_step(at->src[1], r) == NO_STEP;
    }
    return feeds;
}

/* Ranges that an index divides are split where that takes divisions away: reduce ranges always, since the divisions
 * stand in the loop, and those of symbolic size, by which the machine would have to divide; others for reuse, where
 * vectors follow, and where a unit reads rows. Pairs of terms that a unit takes at once stay in one loop. */
static void split_ranges(Kernel *k, const Target *t, bool vectors, Arena *scratch)
{
    uint32_t n, before = divisions(k->g, k->root, scratch);
    const UOp **order = uop_toposort(k->g, &k->root, 1, scratch, &n), **list = NEW_N(scratch, const UOp *, n);
    int number = range_free(order, n);
    uint32_t count = divisions_of_ranges(k->g, order, n, list);
    for (uint32_t i = 0; before && i < count && number < 64; i++) {
        const UOp *r = list[i]->src[0];
        if (range_type(r) == AXIS_REDUCE && uop_is_int_const(list[i]->src[1], 2) && feeds_unit(k, r, t, scratch))
            continue;
        Split s = split_range(k, r, list[i]->src[1], number, scratch);
        bool shared = vectors && is_shared(k, r, &s, scratch),
             other = range_type(r) == AXIS_REDUCE || !uop_is_const(r->src[0]) || is_reused(&s, scratch, k->g) ||
            feeds_unit(k, r, t, scratch) || (vectors && is_straightened(k, r, &s, scratch));
        if (!shared && !(other && divides(k->g, list[i], true))) continue;
        if (divisions(k->g, s.root, scratch) >= before) continue;
        k->root = s.root;
        split_ranges(k, t, vectors, scratch);
        return;
    }
}

const UOp *ranges_merged(Kernel *k, const UOp *a, const UOp *b, Arena *scratch)
{
    Graph *g = k->g;
    uint32_t n;
    if (range_type(a) != range_type(b)) return NULL;
    const UOp *one = uop_range(g, range_number(a), product(g, a->src[0], b->src[0]), range_type(a));
    const UOp *outer = UOP(g, UOP_IDIV, DT_VOID, NO_ARG, one, b->src[0]),
              *inner = UOP(g, UOP_MOD, DT_VOID, NO_ARG, one, b->src[0]);
    const UOp **order = uop_toposort(g, &k->root, 1, scratch, &n),
              **map = NEW_N(scratch, const UOp *, graph_count(g) + 1);
    for (uint32_t i = 0; i < n; i++) {
        const UOp *u = order[i], *src[72];
        uint32_t m = 0;
        bool closes = u->op == UOP_END || (u->op == UOP_REDUCE && !u->arg.blob),
             of_a = u->ranges & range_bit(a), of_b = u->ranges & range_bit(b);
        if (u->op == UOP_REDUCE && of_a != of_b) return NULL;
        for (uint32_t s = 0; s < u->nsrc; s++) {
            if (closes && s && u->src[s] == a) {
                if (s + 1 >= u->nsrc || u->src[s + 1] != b) return NULL;
                src[m++] = one;
            } else if (closes && s && u->src[s] == b) {
                if (u->src[s - 1] != a) return NULL;
            } else src[m++] = map[u->src[s]->id];
        }
        map[u->id] = u == a ? outer : u == b ? inner : uop_with_n(g, u, src, m);
    }
    return graph_rewrite(g, map[k->root->id], rules_symbolic(), 0, NULL);
}

/* Is a step of a everywhere as long as all of b? Else an address without divisions has some when they are one. */
static bool walk_as_one(const Kernel *k, const UOp *a, const UOp *b, Arena *scratch)
{
    uint32_t n;
    const UOp **order = uop_toposort(k->g, &k->root, 1, scratch, &n);
    for (uint32_t i = 0; i < n; i++) {
        if (order[i]->op != UOP_INDEX || order[i]->nsrc != 2) continue;
        int64_t far = range_step(order[i]->src[1], a), near = range_step(order[i]->src[1], b);
        if (far == NO_STEP || near == NO_STEP) continue;
        if (uop_is_const(b->src[0]) ? far != near * b->src[0]->arg.i : far || near) return false;
    }
    return true;
}

/* Is something loaded in steps along b, far enough for lanes, and anywhere along a? As one loop it has no step. */
static bool is_bent(const Kernel *k, const UOp *a, const UOp *b, Arena *scratch)
{
    uint32_t n;
    bool bent = false;
    const UOp **order = uop_toposort(k->g, &k->root, 1, scratch, &n);
    for (uint32_t i = 0; i < n; i++) {
        const UOp *at = order[i]->op == UOP_LOAD ? order[i]->src[0]->src[1] : NULL;
        int64_t near = at ? range_step(at, b) : 0;
        bent |= near > 0 && near * b->src[0]->vmax >= LANES && range_step(at, a) == NO_STEP;
    }
    return bent;
}

/* Neighbouring loops that walk memory as one become one, where that costs no divisions: fewer loops, longer vectors. */
static void merge_loops(Kernel *k, Arena *scratch)
{
    const UOp *axis[64];
    for (uint32_t n = opt_axes(k, axis, 64), i = 0; i + 1 < n;) {
        bool may = divisions(k->g, k->root, scratch) || walk_as_one(k, axis[i], axis[i + 1], scratch);
        may = may && !is_bent(k, axis[i], axis[i + 1], scratch);
        const UOp *root = may ? ranges_merged(k, axis[i], axis[i + 1], scratch) : NULL;
        if (!root || divisions(k->g, root, scratch) > divisions(k->g, k->root, scratch)) {
            i++;
            continue;
        }
        k->root = root;
        n = opt_axes(k, axis, 64);
    }
}

/* Does a kernel with sums read memory backwards along r, and never forwards? */
static bool is_backwards(const Kernel *k, const UOp *r, Arena *scratch)
{
    uint32_t n;
    const UOp **order = uop_toposort(k->g, &k->root, 1, scratch, &n);
    bool reduces = false, back = false;
    for (uint32_t i = 0; i < n; i++) {
        const UOp *u = order[i];
        int64_t step = u->op == UOP_LOAD && u->src[0]->op == UOP_INDEX ? range_step(u->src[0]->src[1], r) : 0;
        if (step == NO_STEP || step > 0) return false;
        back |= step < 0;
        reduces |= u->op == UOP_REDUCE;
    }
    return reduces && back;
}

/* What a sum reads it reads forwards, as units want their rows, and what is made of it is stored backwards. */
static void turn_loops(Kernel *k, Arena *scratch)
{
    const UOp *axis[64];
    for (uint32_t i = 0, n = opt_axes(k, axis, 64); i < n; i++) {
        const UOp *r = axis[i];
        if (range_type(r) != AXIS_LOOP || !uop_is_const(r->src[0]) || !is_backwards(k, r, scratch)) continue;
        const UOp *turned = index_math(k->g, UOP_ADD, index_math(k->g, UOP_MUL, r, uop_index(k->g, -1)),
                                       uop_index(k->g, r->src[0]->vmax - 1));
        kernel_change(k, &(Change){ .old = r, .value = turned, .list = { r }, .n = 1 });
    }
}

void kernel_loops(Kernel *k, const Target *t)
{
    Arena *scratch = arena_new();
    split_ranges(k, t, !t->max_block, scratch);
    if (!t->max_block) turn_loops(k, scratch);
    order_reduces(k, scratch);
    if (!t->max_block) order_outputs(k, scratch);
    merge_loops(k, scratch);
    arena_free(scratch);
}
