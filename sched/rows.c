/* Rows: in which intermediate buffers each row along the last axis begins with a line of the cache, some elements after
 * the end of the row before.
 *
 * A vector of a line's size that does not begin with one touches two, and so does each after it: scores of an attention
 * over 1,500 tokens take 31 ms, over 1,504 10.5 (two cores, Cascade Lake). A kernel that sums products wants it of what
 * it stores and reads in its lanes; kernels that walk rows of a buffer beside those of another want it of both, else
 * one could not take the other's place. What is multiplied by no constant is read again and again as it lies: there
 * rows at a multiple of 1,024 bytes, which share few sets of a cache, get a line more (QK' of 8 heads and 4,096 tokens:
 * 370 ms, 200 with it; two cores, AVX2). Must hold: no access takes the last axis and another from one loop, which
 * would have to divide; the row is long beside what is added. */
#include "sched/layout.h"
#include "sched/rangeify.h"

enum { LEAST_ROW = 6 * LINE, PASSES = 4, SETS = 1024 };
/* What is wanted of a buffer's rows. */
typedef enum { NOTHING, ON_LINES, IN_ALL_SETS } Wish;

static uint32_t accesses(const Access *a) { return a->nstore + a->nload; }
static const UOp *access_at(const Access *a, uint32_t i)
{
    return i < a->nstore ? a->store[i] : a->load[i - a->nstore];
}

/* Elements after each row; 0: rows lie as they should already, or are too short. */
static int32_t added(const Layout *l, const BufferInfo *b, Wish wish)
{
    for (uint32_t a = 0; a < l->rank; a++)
        if (l->before[a] || l->after[a]) return 0;              /* a halo lies there, and knows of no other bytes */
    if (l->fixed || !shape_static(b->shape)) return 0;
    int64_t size = dtype_size(b->dtype), bytes = b->shape->dim[l->last]->vmax * size, over = bytes % LINE;
    if (bytes < LEAST_ROW || (!over && (wish < IN_ALL_SETS || bytes % SETS))) return 0;
    return (int32_t)((LINE - over) / size);
}

/* The loop that walks the last axis of what is accessed there, step by step; NULL: there is none. */
static const UOp *row_loop(Layout *all, const Kernel *k, const UOp *index)
{
    const Layout *l = layout_of(all, buffer_of(k, index));
    const UOp *i = l && !l->fixed && index->nsrc > 1 ? index->src[1 + l->last] : NULL;
    return i && i->op == UOP_RANGE ? i : NULL;
}

static void want(Layout *all, const Kernel *k, const UOp *index, uint8_t *wanted, Wish wish)
{
    const UOp *b = buffer_of(k, index);
    if (layout_of(all, b) && wanted[buffer_slot(b)] < wish) wanted[buffer_slot(b)] = (uint8_t)wish;
}

static void want_lanes(Layout *all, const Kernel *k, const Access *a, uint8_t *wanted, Wish wish)
{
    for (uint32_t i = 0; i < accesses(a); i++) {
        const UOp *r = row_loop(all, k, access_at(a, i));
        if (r && range_type(r) == AXIS_LOOP) want(all, k, access_at(a, i), wanted, wish);
    }
}

static Wish wish_of(Layout *all, const Kernel *k, const UOp *index, const uint8_t *wanted)
{
    const UOp *b = buffer_of(k, index);
    return layout_of(all, b) ? (Wish)wanted[buffer_slot(b)] : NOTHING;
}

static void want_beside(Layout *all, const Kernel *k, const Access *a, uint8_t *wanted)
{
    for (uint32_t i = 0; i < accesses(a); i++) {
        const UOp *x = access_at(a, i), *r = row_loop(all, k, x);
        Wish wish = wish_of(all, k, x, wanted);
        if (!r || !wish) continue;
        for (uint32_t j = 0; j < accesses(a); j++)
            if (row_loop(all, k, access_at(a, j)) == r) want(all, k, access_at(a, j), wanted, wish);
    }
}

/* Some loop moves along the last axis and another, too. */
static bool is_mixed(const Layout *l, const UOp *index)
{
    uint64_t others = 0;
    for (uint32_t a = 1; a < index->nsrc; a++)
        if (a - 1 != l->last) others |= index->src[a]->ranges;
    return (index->src[1 + l->last]->ranges & others) != 0;
}

static void refuse_mixed(Layout *all, const Kernel *k, const Access *a, uint8_t *wanted)
{
    bool all_seen = a->nload < sizeof a->load / sizeof *a->load && a->nstore < sizeof a->store / sizeof *a->store;
    for (uint32_t p = 0; !all_seen && p < k->nparam; p++)
        if (k->param[p].buffer->op == UOP_BUFFER) wanted[buffer_slot(k->param[p].buffer)] = NOTHING;
    for (uint32_t i = 0; i < accesses(a); i++) {
        const UOp *x = access_at(a, i);
        const Layout *l = layout_of(all, buffer_of(k, x));
        if (l && !l->fixed && x->nsrc > 1 && is_mixed(l, x)) wanted[buffer_slot(buffer_of(k, x))] = NOTHING;
    }
}

void layout_rows(Schedule *s, Layout *all, Facts *const *facts, const uint8_t *once, Arena *scratch)
{
    uint32_t n = graph_buffer_count(s->g);
    uint8_t *wanted = NEW_N(scratch, uint8_t, n + 1);
    for (uint32_t i = 0; i < s->count; i++) {
        const Kernel *k = s->item[i].kernel;
        const Access *a = k ? &facts[i]->access : NULL;
        if (a && a->product) want_lanes(all, k, a, wanted, layout_lane(s, k, a, once) ? IN_ALL_SETS : ON_LINES);
    }
    for (int pass = 0; pass < PASSES; pass++)
        for (uint32_t i = 0; i < s->count; i++)
            if (s->item[i].kernel && !facts[i]->access.product)
                want_beside(all, s->item[i].kernel, &facts[i]->access, wanted);
    for (uint32_t i = 0; i < s->count; i++)
        if (s->item[i].kernel) refuse_mixed(all, s->item[i].kernel, &facts[i]->access, wanted);
    for (uint32_t b = 0; b < n; b++)
        if (wanted[b] && !once[b]) all[b].added = added(&all[b], graph_buffer(s->g, b), (Wish)wanted[b]);
}
