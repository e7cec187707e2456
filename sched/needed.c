/* Needed: a value of which a part is read is computed in that part (the first token of a classifier's last layer, the
 * last token's logits, a slice behind arithmetic).
 *
 * Comes in: a tensor graph. From the outputs up each node is given the span of each axis that its readers need, the
 * hull of them all; where that is at most half of what the node has, the node is built for these spans, and its readers
 * see a SHRINK of it where they need less. Goes out: the same outputs. Must hold: a span is [begin, begin + size); ends
 * of spans that differ are known numbers, and so are sizes that a RESHAPE joins or divides. What has an effect, is
 * called, or checks its values (GUARD) is needed whole. To add an op: a case of source_spans, and one of built where
 * its sizes are sources.
 */
#include <stdlib.h>
#include <string.h>

#include "graph/base/memory.h"
#include "sched/rangeify.h"

enum { RANK_MAX = 64 };
/* A part that is more of the whole than this is no gain: axes lose the sizes that tiles and lanes divide. */
#define MOST 0.5

typedef struct { const UOp *begin, *size; } Span;           /* begin NULL: the axis as a whole */
/* span: NULL: nobody needs it yet. work: it is more than views of memory and of positions. */
typedef struct {
    Span *span;
    bool loads, work;
} Need;
typedef struct {
    Graph *g;
    Arena *arena;
    Need *need;                                             /* by a node's id, as what is built for it */
    const UOp **map;
} Needed;

static bool is_known(const Span *s) { return s->begin && uop_is_const(s->begin) && uop_is_const(s->size); }
static Span known(Graph *g, int64_t begin, int64_t size) { return (Span){ uop_index(g, begin), uop_index(g, size) }; }
static int64_t end_of(const Span *s) { return s->begin->arg.i + s->size->arg.i; }

static const UOp *size_of(const UOp *u, const Span *s, uint32_t k) { return s[k].begin ? s[k].size : uop_dim(u, k); }
static const UOp *begin_of(Graph *g, const Span *s, uint32_t k) { return s[k].begin ? s[k].begin : uop_index(g, 0); }

static bool all_whole(const Span *s, uint32_t n)
{
    for (uint32_t k = 0; k < n; k++)
        if (s[k].begin) return false;
    return true;
}

static bool numbers(const UOp *const *dim, uint32_t n)
{
    for (uint32_t k = 0; k < n; k++)
        if (!uop_is_const(dim[k])) return false;
    return true;
}

/* ---- a RESHAPE, by groups of axes that have equally many elements ---- */

typedef struct { uint32_t from, nfrom, to, nto; } Group;

static uint32_t skip_ones(const UOp *u, uint32_t k)
{
    while (k < uop_rank(u) && uop_is_int_const(uop_dim(u, k), 1)) k++;
    return k;
}

/* Axes of size 1 are in no group. False: there is none any more. Sizes that are no numbers have groups of their own, or
 * make one of all that is left. */
static bool next_group(const UOp *from, const UOp *to, Group *g)
{
    uint32_t i = g->from = skip_ones(from, g->from + g->nfrom), j = g->to = skip_ones(to, g->to + g->nto);
    if (i == uop_rank(from) || j == uop_rank(to)) return false;
    g->nfrom = g->nto = 1;
    if (uop_dim(from, i) == uop_dim(to, j)) return true;
    int64_t a = uop_size(from, i), b = uop_size(to, j);
    bool fit = uop_is_const(uop_dim(from, i)) && uop_is_const(uop_dim(to, j));
    while (fit && a != b) {
        bool more = a < b ? i + 1 < uop_rank(from) : j + 1 < uop_rank(to);
        const UOp *next = !more ? NULL : a < b ? uop_dim(from, ++i) : uop_dim(to, ++j);
        fit = next && uop_is_const(next);
        if (fit) *(a < b ? &a : &b) *= next->arg.i;
    }
    g->nfrom = fit ? i + 1 - g->from : uop_rank(from) - g->from;
    g->nto = fit ? j + 1 - g->to : uop_rank(to) - g->to;
    return true;
}

/* The group's elements that spans s of u, from that axis on, are, where they follow each other. */
static bool flat_span(const UOp *u, const Span *s, uint32_t axis, uint32_t n, int64_t *begin, int64_t *size)
{
    int64_t step = 1;
    uint32_t k = axis;
    for (uint32_t i = 0; i < n; i++) step *= uop_size(u, axis + i);
    for (*begin = 0; k < axis + n && s[k].begin; k++) {
        if (!is_known(&s[k])) return false;
        step /= uop_size(u, k);
        *begin += s[k].begin->arg.i * step;
        *size = s[k].size->arg.i * step;
        if (s[k].size->arg.i != 1) {
            k++;
            break;
        }
    }
    return all_whole(s + k, axis + n - k);
}

/* Spans of u that are these elements of the group and no others. */
static bool spans_of_flat(Graph *g, const UOp *u, uint32_t axis, uint32_t n, int64_t begin, int64_t size, Span *out)
{
    int64_t step = 1;
    for (uint32_t i = 0; i < n; i++) step *= uop_size(u, axis + i), out[axis + i] = (Span){ 0 };
    for (uint32_t k = axis; k < axis + n; k++) {
        step /= uop_size(u, k);
        bool one = begin / step == (begin + size - 1) / step && size < step;
        if (!one && (begin % step || size % step)) return false;
        out[k] = known(g, begin / step, one ? 1 : size / step);
        if (!one) return true;
        begin %= step;
    }
    return true;
}

/* What of the source is what s is of the group; false: none is, and both are whole. */
static bool group_spans(Graph *g, const UOp *u, const Group *at, const Span *s, Span *out)
{
    int64_t begin = 0, size = 0;
    if (at->nfrom == 1 && at->nto == 1 && uop_dim(u->src[0], at->from) == uop_dim(u, at->to)) {
        out[at->from] = s[at->to];
        return true;
    }
    return numbers(u->shape->dim + at->to, at->nto) && numbers(u->src[0]->shape->dim + at->from, at->nfrom) &&
        flat_span(u, s, at->to, at->nto, &begin, &size) &&
        spans_of_flat(g, u->src[0], at->from, at->nfrom, begin, size, out);
}

/* out: the source's. Makes spans of u whole which the source has no spans for. */
static void reshape_spans(Graph *g, const UOp *u, Span *s, Span *out)
{
    Group at = { 0 };
    for (uint32_t k = 0; k < uop_rank(u->src[0]); k++) out[k] = (Span){ 0 };
    while (next_group(u->src[0], u, &at)) {
        if (all_whole(s + at.to, at.nto) || group_spans(g, u, &at, s, out)) continue;
        for (uint32_t k = 0; k < at.nto; k++) s[at.to + k] = (Span){ 0 };
        for (uint32_t k = 0; k < at.nfrom; k++) out[at.from + k] = (Span){ 0 };
    }
}

/* ---- what a node's spans need of a source ---- */

/* Sources and results have their last axes in common; what is broadcast has size 1. */
static void aligned_spans(const UOp *u, const UOp *source, const Span *s, Span *out)
{
    uint32_t more = uop_rank(u) - uop_rank(source);
    for (uint32_t k = 0; k < uop_rank(source); k++)
        out[k] = uop_dim(source, k) == uop_dim(u, k + more) ? s[k + more] : (Span){ 0 };
}

static void permute_spans(const UOp *u, const Span *s, Span *out)
{
    for (uint32_t k = 0; k < uop_rank(u); k++) out[blob_ints(u->arg.blob)[k]] = s[k];
}

static void flip_spans(Graph *g, const UOp *u, Span *s, Span *out)
{
    for (uint32_t k = 0; k < uop_rank(u); k++) {
        const UOp *dim = uop_dim(u, k);
        if (blob_ints(u->arg.blob)[k] && s[k].begin && !(is_known(&s[k]) && uop_is_const(dim))) s[k] = (Span){ 0 };
        out[k] = s[k];
        if (blob_ints(u->arg.blob)[k] && s[k].begin)
            out[k] = known(g, dim->arg.i - end_of(&s[k]), s[k].size->arg.i);
    }
}

static void shrink_spans(Graph *g, const UOp *u, const Span *s, Span *out)
{
    for (uint32_t k = 0; k < uop_rank(u); k++)
        out[k] = (Span){ index_add(g, u->src[1]->src[k], begin_of(g, s, k)), size_of(u, s, k) };
}

/* Of an axis that is padded: what lies inside of the source, which must be something. */
static void pad_spans(Graph *g, const UOp *u, Span *s, Span *out)
{
    for (uint32_t k = 0; k < uop_rank(u); k++) {
        const UOp *size = uop_dim(u->src[0], k), *offset = u->src[1]->src[k];
        out[k] = s[k];
        if (!s[k].begin || size == uop_dim(u, k)) continue;
        bool fit = is_known(&s[k]) && uop_is_const(size) && uop_is_const(offset);
        int64_t begin = fit ? s[k].begin->arg.i - offset->arg.i : 0, end = fit ? begin + s[k].size->arg.i : 0;
        begin = begin > 0 ? begin : 0;
        end = fit && end > size->arg.i ? size->arg.i : end;
        if (end <= begin) s[k] = out[k] = (Span){ 0 };
        else out[k] = known(g, begin, end - begin);
    }
}

static void reduce_spans(const UOp *u, const Span *s, Span *out)
{
    for (uint32_t k = 0; k < uop_rank(u); k++) out[k] = reduce_is_over(u, k) ? (Span){ 0 } : s[k];
}

/* Of part k of what is joined: false: none of it is needed. */
static bool joined_spans(Graph *g, const UOp *u, uint32_t part, Span *s, Span *out)
{
    uint32_t axis = (uint32_t)u->arg.i;
    int64_t first = 0, size = 0;
    memcpy(out, s, uop_rank(u) * sizeof *s);
    for (uint32_t k = 0; k < u->nsrc && s[axis].begin; k++)
        if (!is_known(&s[axis]) || !uop_is_const(uop_dim(u->src[k], axis))) s[axis] = out[axis] = (Span){ 0 };
    if (!s[axis].begin) return true;
    for (uint32_t k = 0; k < part; k++) first += uop_dim(u->src[k], axis)->arg.i;
    size = uop_dim(u->src[part], axis)->arg.i;
    int64_t begin = s[axis].begin->arg.i - first, end = end_of(&s[axis]) - first;
    begin = begin > 0 ? begin : 0;
    end = end < size ? end : size;
    if (end > begin) out[axis] = known(g, begin, end - begin);
    return end > begin;
}

static bool stacked_spans(const UOp *u, uint32_t part, Span *s, Span *out)
{
    if (s[0].begin && !is_known(&s[0])) s[0] = (Span){ 0 };
    memcpy(out, s + 1, (uop_rank(u) - 1) * sizeof *s);
    return !s[0].begin || (part >= s[0].begin->arg.i && part < end_of(&s[0]));
}

/* Axes of the indices, one after another, then those of the source that have none. */
static void index_spans(const UOp *u, uint32_t source, const Span *s, Span *out)
{
    uint32_t at = 0;
    for (uint32_t k = 1; k < (source ? source : u->nsrc); k++) at += uop_rank(u->src[k]);
    for (uint32_t k = 0; k < uop_rank(u->src[source]); k++)
        out[k] = !source && k < u->nsrc - 1 ? (Span){ 0 } : s[at++];
}

/* out: what source k must have for spans s of u; false: nothing of it. Makes those of s whole that cannot be had. */
static bool source_spans(Graph *g, const UOp *u, uint32_t k, Span *s, Span *out)
{
    const UOp *source = u->src[k];
    memset(out, 0, uop_rank(source) * sizeof *out);
    if (op_is((Op)u->op, FLAG_ALU) && u->op != UOP_GUARD) return aligned_spans(u, source, s, out), true;
    if (k && (op_is((Op)u->op, FLAG_MOVE) || u->op == UOP_REDUCE)) return true;         /* sizes and offsets */
    switch ((Op)u->op) {
    case UOP_BITCAST:
    case UOP_CONTIGUOUS: memcpy(out, s, uop_rank(u) * sizeof *s); return true;
    case UOP_EXPAND: return aligned_spans(u, source, s, out), true;
    case UOP_PERMUTE: return permute_spans(u, s, out), true;
    case UOP_FLIP: return flip_spans(g, u, s, out), true;
    case UOP_SHRINK: return shrink_spans(g, u, s, out), true;
    case UOP_PAD: return pad_spans(g, u, s, out), true;
    case UOP_RESHAPE: return reshape_spans(g, u, s, out), true;
    case UOP_REDUCE: return reduce_spans(u, s, out), true;
    case UOP_INDEX: return index_spans(u, k, s, out), true;
    case UOP_CAT: return joined_spans(g, u, k, s, out);
    case UOP_STACK: return uop_rank(u) ? stacked_spans(u, k, s, out) : true;
    default: memset(s, 0, uop_rank(u) * sizeof *s); return true;
    }
}

/* ---- from the outputs up ---- */

/* What both need; as a whole where that is not known. */
static Span hull(Graph *g, const Span *a, const Span *b)
{
    if (a->begin == b->begin && a->size == b->size) return *a;
    if (!is_known(a) || !is_known(b)) return (Span){ 0 };
    int64_t begin = a->begin->arg.i < b->begin->arg.i ? a->begin->arg.i : b->begin->arg.i,
            end = end_of(a) > end_of(b) ? end_of(a) : end_of(b);
    return known(g, begin, end - begin);
}

static void wants(Needed *n, const UOp *u, const Span *s)
{
    Need *need = &n->need[u->id];
    bool first = !need->span;
    if (first) need->span = NEW_N(n->arena, Span, uop_rank(u) + 1);
    for (uint32_t k = 0; k < uop_rank(u); k++) need->span[k] = first ? s[k] : hull(n->g, &need->span[k], &s[k]);
}

/* The part of u that its spans are, 0 .. 1. */
static double share(const UOp *u, const Span *s)
{
    double part = 1;
    for (uint32_t k = 0; k < uop_rank(u); k++)
        if (s[k].begin) part *= (double)s[k].size->vmax / (double)uop_size(u, k);
    return part;
}

static void settle(Needed *n, const UOp *u)
{
    Need *need = &n->need[u->id];
    Span *s = need->span, out[RANK_MAX];
    for (uint32_t k = 0; k < uop_rank(u); k++)
        if (s[k].begin && s[k].size == uop_dim(u, k)) s[k] = (Span){ 0 };
    if (!need->work || share(u, s) > MOST) memset(s, 0, uop_rank(u) * sizeof *s);
    for (uint32_t k = 0; k < u->nsrc; k++) source_spans(n->g, u, k, s, out);        /* what cannot be had is whole */
    for (uint32_t k = 0; k < u->nsrc; k++)
        if (source_spans(n->g, u, k, s, out)) wants(n, u->src[k], out);
}

/* ---- and down again ---- */

/* These spans of what is built for u. */
static const UOp *part_of(Needed *n, const UOp *u, const Span *s)
{
    const UOp *begin[RANK_MAX], *size[RANK_MAX], *y = n->map[u->id];
    const Span *has = n->need[u->id].span;
    uint32_t rank = uop_rank(u);
    bool same = true;
    for (uint32_t k = 0; k < rank; k++) {
        const UOp *first = begin_of(n->g, has, k), *wanted = begin_of(n->g, s, k);
        size[k] = size_of(u, s, k);
        begin[k] = wanted == first ? uop_index(n->g, 0)
            : uop_is_const(first) && uop_is_const(wanted)
            ? uop_index(n->g, wanted->arg.i - first->arg.i)
            : wanted;                                       /* of the axis as a whole: hull makes no others */
        same &= size[k] == uop_dim(y, k);
    }
    return same ? y : UOP(n->g, UOP_SHRINK, DT_VOID, NO_ARG, y, uop_sizes(n->g, begin, rank),
                          uop_sizes(n->g, size, rank));
}

static const UOp *sizes_of(Needed *n, const UOp *u, const Span *s)
{
    const UOp *size[RANK_MAX];
    for (uint32_t k = 0; k < uop_rank(u); k++) size[k] = size_of(u, s, k);
    return uop_sizes(n->g, size, uop_rank(u));
}

/* Where what is left of the source begins in what is left of the zeros around it. */
static const UOp *pad_offsets(Needed *n, const UOp *u, const Span *s, const Span *inner)
{
    const UOp *at[RANK_MAX];
    for (uint32_t k = 0; k < uop_rank(u); k++) {
        bool cut = s[k].begin && uop_dim(u->src[0], k) != uop_dim(u, k);
        at[k] = !cut ? u->src[1]->src[k]
                     : uop_index(n->g, inner[k].begin->arg.i + u->src[1]->src[k]->arg.i - s[k].begin->arg.i);
    }
    return uop_sizes(n->g, at, uop_rank(u));
}

static const UOp *built(Needed *n, const UOp *u)
{
    Span *s = n->need[u->id].span, out[RANK_MAX];
    const UOp **src = NEW_N(n->arena, const UOp *, u->nsrc + 1);
    uint32_t count = 0;
    bool whole = all_whole(s, uop_rank(u));
    for (uint32_t k = 0; k < u->nsrc; k++)
        if (source_spans(n->g, u, k, s, out)) src[count++] = part_of(n, u->src[k], out);
    if (u->op == UOP_SHRINK) return src[0];
    if (u->op == UOP_PAD && !whole) {
        source_spans(n->g, u, 0, s, out);
        src[1] = pad_offsets(n, u, s, out);
        src[2] = sizes_of(n, u, s);
    }
    if ((u->op == UOP_RESHAPE || u->op == UOP_EXPAND) && !whole) src[1] = sizes_of(n, u, s);
    if (count == u->nsrc) return uop_with(n->g, u, src);
    return uop_new(n->g, (Op)u->op, DT_VOID, u->arg, src, count);
}

/* ---- all of it ---- */

/* Is something computed of which a SHRINK leaves out a part? */
static bool look(Needed *n, const UOp *const *order, uint32_t count)
{
    bool any = false;
    for (uint32_t i = 0; i < count; i++) {
        const UOp *u = order[i];
        Need *need = &n->need[u->id];
        need->loads = node_is_memory(u);
        for (uint32_t k = 0; k < node_values(u); k++) {
            need->loads |= n->need[u->src[k]->id].loads;
            need->work |= n->need[u->src[k]->id].work;
        }
        need->work |= need->loads && (op_is((Op)u->op, FLAG_ALU) || u->op == UOP_REDUCE);
        any |= u->op == UOP_SHRINK && need->work;
        if (uop_rank(u) > RANK_MAX) return false;
    }
    return any;
}

const UOp *compute_needed(Graph *g, const UOp *root)
{
    Arena *arena = arena_new();
    uint32_t count, ids = root->id + 1;
    const UOp **order = uop_toposort(g, &root, 1, arena, &count);
    Needed n = { g, arena, NEW_N(arena, Need, ids), NEW_N(arena, const UOp *, ids) };
    if (look(&n, order, count)) {
        wants(&n, root, NULL);
        for (uint32_t i = count; i-- > 0;)
            if (n.need[order[i]->id].span) settle(&n, order[i]);
        for (uint32_t i = 0; i < count; i++)
            if (n.need[order[i]->id].span) n.map[order[i]->id] = built(&n, order[i]);
        root = n.map[root->id];
    }
    arena_free(arena);
    return root;
}
