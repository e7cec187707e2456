/* Votes: in which order kernels want the axes of what they read and store. A vote is the time that an axis would save
 * if it were the last.
 *
 * A kernel that sums products votes for the axis along which its constant operand varies (the columns of a GEMM, the
 * output channels of a convolution) to be last in what it stores, for its reduce axis to be last in what it reads, and
 * without constants for the axis that will be its lanes; element-wise kernels carry votes on between buffers whose axes
 * they walk together. */
#include "sched/layout.h"

/* Iterations of a loop that is worth lanes, and of a sum of bytes that is a dot product. */
enum { LANES_LEAST = 8, DOT_LEAST = 4 };

int layout_bare_axis(const UOp *index, const UOp *range)
{
    for (uint32_t a = 1; a < index->nsrc; a++)
        if (index->src[a] == range) return (int)a - 1;
    return -1;
}

static void vote(Layout *all, const Kernel *k, const UOp *index, const UOp *range, float weight)
{
    Layout *l = layout_of(all, buffer_of(k, index));
    int axis = l && !l->fixed ? layout_bare_axis(index, range) : -1;
    if (axis >= 0 && axis < AXES) l->vote[axis] += weight;
}

/* Does this REDUCE close a loop in which that sum stands? */
static bool holds(const UOp *reduce, const UOp *sum)
{
    uint64_t closed = 0;
    for (uint32_t k = 1; k < reduce->nsrc; k++) closed |= reduce->src[k]->ranges;
    return sum && (closed & sum->ranges);
}

void layout_accesses(Access *a, const Kernel *k, Arena *scratch)
{
    uint32_t n;
    const UOp **order = uop_toposort(k->g, &k->root, 1, scratch, &n);
    memset(a, 0, sizeof *a);
    for (uint32_t i = 0; i < n; i++) {
        const UOp *u = order[i];
        if (u->op == UOP_STORE && u->src[0]->op == UOP_INDEX && u->src[0]->src[0]->op == UOP_PARAM && a->nstore < 8)
            a->store[a->nstore++] = u->src[0];
        if (u->op == UOP_LOAD && u->src[0]->op == UOP_INDEX && u->src[0]->src[0]->op == UOP_PARAM && a->nload < 64)
            a->load[a->nload++] = u->src[0];
        if (u->op == UOP_RANGE && a->nrange < 64) a->range[a->nrange++] = u;
        const UOp *p = reduced_product(u);
        if (p && !holds(u, a->sum)) a->product = p, a->sum = u;
    }
}

bool layout_constant(const Schedule *s, const Kernel *k, const UOp *index, const uint8_t *once)
{
    const UOp *b = buffer_of(k, index);
    return b->op == UOP_BUFFER && (graph_buffer(s->g, buffer_slot(b))->data || once[buffer_slot(b)]);
}

/* Does u read one (that of this index, unless NULL), not counting what sums in it read? */
static bool reads_constant(const Schedule *s, const Kernel *k, const UOp *u, const UOp *index, const uint8_t *once)
{
    Arena *a = arena_new();
    uint32_t n;
    const UOp **order = uop_toposort(k->g, &u, 1, a, &n);
    bool *reads = NEW_N(a, bool, u->id + 1);
    for (uint32_t i = 0; i < n; i++) {
        const UOp *v = order[i], *at = v->op == UOP_LOAD ? v->src[0] : NULL;
        if (at)
            reads[v->id] = at->op == UOP_INDEX && at->src[0]->op == UOP_PARAM && (!index || at == index) &&
                layout_constant(s, k, at, once);
        for (uint32_t j = 0; !at && v->op != UOP_REDUCE && j < v->nsrc; j++) reads[v->id] |= reads[v->src[j]->id];
    }
    bool found = reads[u->id];
    arena_free(a);
    return found;
}

static float elements(const UOp *index) { return ELEMENT_NS * (float)uop_numel(index->src[0]); }

/* The ranges along which it is read step by step; not those of which it takes a remainder (phases of a transposed
 * convolution), which are no columns of it. */
static uint64_t stepped(const Access *a, const UOp *index)
{
    uint64_t set = 0;
    for (uint32_t i = 0; i < a->nrange; i++)
        for (uint32_t k = 1; k < index->nsrc && (index->ranges & range_bit(a->range[i])); k++)
            if ((index->src[k]->ranges & range_bit(a->range[i])) && range_step(index->src[k], a->range[i]) != NO_STEP)
                set |= range_bit(a->range[i]);
    return set;
}

/* Constants that are multiplied take any order: their columns decide the store, their rows the other operand. */
static void vote_heavy(Schedule *s, Layout *all, const Kernel *k, const Access *a, const uint8_t *once)
{
    uint64_t weights = 0, others = 0;
    for (uint32_t i = 0; i < a->nload; i++) {
        if (a->load[i]->nsrc < 2) continue;
        if (!layout_constant(s, k, a->load[i], once)) others |= a->load[i]->ranges;
        else if (reads_constant(s, k, a->product, a->load[i], once)) weights |= stepped(a, a->load[i]);
    }
    for (uint32_t i = 0; i < a->nrange; i++) {
        const UOp *r = a->range[i];
        uint64_t bit = range_bit(r);
        bool around = range_type(r) == AXIS_REDUCE && a->sum && (a->sum->ranges & bit);    /* of a sum of sums */
        bool dot = range_type(r) == AXIS_REDUCE && a->product->dtype == DT_I32;
        if (r->src[0]->vmax < (dot ? DOT_LEAST : LANES_LEAST) || !(weights & bit) || around) continue;
        for (uint32_t j = 0; j < a->nstore && range_type(r) == AXIS_LOOP; j++)
            vote(all, k, a->store[j], r, elements(a->store[j]));
        for (uint32_t j = 0; j < a->nload && (range_type(r) == AXIS_REDUCE || (others & bit)); j++)
            if (!layout_constant(s, k, a->load[j], once)) vote(all, k, a->load[j], r, elements(a->load[j]));
    }
}

/* Its lanes run along an output axis of one of them, the last of what is stored where there is a choice. */
const UOp *layout_lane(const Schedule *s, const Kernel *k, const Access *a, const uint8_t *once)
{
    const UOp *lane = NULL;
    if (!a->product || reads_constant(s, k, a->product, NULL, once)) return NULL;
    uint64_t one = a->product->src[0]->ranges, two = a->product->src[1]->ranges;
    for (uint32_t i = 0; i < a->nrange; i++) {
        const UOp *r = a->range[i];
        uint64_t bit = range_bit(r);
        if (range_type(r) != AXIS_LOOP || r->src[0]->vmax < LANES_LEAST || !(one & bit) == !(two & bit)) continue;
        if (!lane || range_number(r) > range_number(lane)) lane = r;
    }
    return lane;
}

/* How often a kernel reads the buffer of this load. */
static float reads(const Kernel *k, const Access *a, uint32_t load)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < a->nload; i++) n += buffer_of(k, a->load[i]) == buffer_of(k, a->load[load]);
    return (float)n;
}

/* The loop along which it lies in memory, element by element; NULL: there is none. */
static const UOp *innermost(const Access *a, const UOp *index)
{
    const UOp *found = NULL;
    for (uint32_t i = 0; i < a->nrange && index->nsrc > 1 && !found; i++)
        if (range_step(index->src[index->nsrc - 1], a->range[i]) == 1) found = a->range[i];
    return found;
}

/* What is stored in an order that is fixed (an output) by a kernel that reads its operand again and again, for its
 * statistics, is read in that order: along another axis each store would go to a line of its own. */
static void vote_fixed(Layout *all, const Kernel *k, const Access *a)
{
    for (uint32_t j = 0; j < a->nstore && a->nload > 1; j++) {
        const Layout *l = layout_of(all, buffer_of(k, a->store[j]));
        const UOp *last = l && l->fixed ? innermost(a, a->store[j]) : NULL;
        if (!last || last->src[0]->vmax < LANES_LEAST) continue;
        for (uint32_t i = 0; i < a->nload; i++) vote(all, k, a->load[i], last, reads(k, a, i) * elements(a->load[i]));
    }
}

/* Buffers whose axes one range walks share their votes. */
static void vote_along(Layout *all, const Kernel *k, const Access *a)
{
    for (uint32_t i = 0; i < a->nrange; i++) {
        const UOp *r = a->range[i];
        float sum = 0;
        uint32_t n = 0;
        for (uint32_t j = 0; j < a->nstore + a->nload; j++) {
            const UOp *x = j < a->nstore ? a->store[j] : a->load[j - a->nstore];
            Layout *l = layout_of(all, buffer_of(k, x));
            int axis = l ? layout_bare_axis(x, r) : -1;
            if (axis >= 0 && axis < AXES) sum += l->vote[axis], n++;
        }
        for (uint32_t j = 0; j < a->nstore + a->nload && n > 1; j++) {
            const UOp *x = j < a->nstore ? a->store[j] : a->load[j - a->nstore];
            Layout *l = layout_of(all, buffer_of(k, x));
            int axis = l && !l->fixed ? layout_bare_axis(x, r) : -1;
            if (axis >= 0 && axis < AXES && l->vote[axis] < 0.5f * sum / (float)n)
                l->vote[axis] = 0.5f * sum / (float)n;
        }
    }
}

void layout_vote(Schedule *s, Layout *all, Facts *const *facts, const uint8_t *once)
{
    for (uint32_t i = 0; i < s->count; i++) {
        Kernel *k = s->item[i].kernel;
        const Access *a = k ? &facts[i]->access : NULL;
        if (!a) continue;
        /* squares are statistics */
        if (!a->product || a->product->src[0] == a->product->src[1]) {
            vote_fixed(all, k, a);
            continue;
        }
        vote_heavy(s, all, k, a, once);
        const UOp *lane = layout_lane(s, k, a, once);
        for (uint32_t j = 0; lane && j < a->nload; j++)
            vote(all, k, a->load[j], lane, LANE_NS_PER_FLOP * (float)k->flops);
    }
    for (int round = 0; round < 6; round++)
        for (uint32_t i = 0; i < s->count; i++) {
            uint32_t at = round % 2 ? s->count - 1 - i : i;
            if (s->item[at].kernel && !facts[at]->access.product)
                vote_along(all, s->item[at].kernel, &facts[at]->access);
        }
}

