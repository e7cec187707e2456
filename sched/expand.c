/* Expand: UPCAST and UNROLL ranges become shape. Those along which stores (else loads) are contiguous become lane axes:
 * values that depend on one get shape (L); no value depends on two. The others become replicas: a node is evaluated
 * once for each assignment of those that it depends on; interning shares what is equal.
 *
 * What a vector touches here and there, though its replicas lie in between, is touched side by side, and the lanes
 * change places by shuffles (moved_together).
 *
 * An unrolled REDUCE combines its replicas in order and keeps the loops that remain; where a lane axis is among its
 * ranges, lanes are combined after the loop. Comes in: form 3 (kernel.h). Goes out: form 4.
 */
#include <stdlib.h>
#include <string.h>

#include "graph/rewrite.h"
#include "graph/wmma.h"
#include "sched/rangeify.h"

typedef struct {
    Graph *g;
    Arena *arena;
    Rewriter *rw;
    const UOp *range[64];           /* by number: those that become replicas */
    uint64_t up;                    /* their bits */
    uint64_t lanes;                 /* bits of the lane axes */
    const UOp ***memo;              /* by id: one value an assignment of the node's own ranges */
    uint32_t limit;                 /* ids below have a memo */
    int64_t at[64];                 /* the assignment under evaluation, by range number */
    int64_t vector_bytes;
    bool too_many, gpu;
} Expand;

static bool expands(const UOp *r) { return range_type(r) == AXIS_UPCAST || range_type(r) == AXIS_UNROLL; }

/* ---- the lane axis ---- */

/* index(range = v), simplified. */
static const UOp *at_value(Expand *x, const UOp *u, const UOp *range, int64_t v)
{
    const UOp *c = uop_index(x->g, v);
    return rewriter_run(x->rw, uop_substitute(x->g, u, &range, &c, 1));
}

/* The constant step between neighbouring lanes, or NO_STEP when there is none. */
static int64_t lane_stride(Expand *x, const UOp *index, const UOp *range)
{
    int64_t linear = range_step(index, range);
    if (linear != NO_STEP) return linear;
    const UOp *first = at_value(x, index, range, 0);
    int64_t step = NO_STEP;
    for (int64_t v = 1; v < range->src[0]->vmax; v++) {
        const UOp *d = rewriter_run(x->rw,
                                    index_math(x->g, UOP_ADD, at_value(x, index, range, v),
                                               index_math(x->g, UOP_MUL, first, uop_index(x->g, -1))));
        if (!uop_is_const(d) || (v > 1 && d->arg.i != step * v)) return NO_STEP;
        if (v == 1) step = d->arg.i;
    }
    return step;
}

/* The replicas that touch what lies between the lanes: as many as there are lanes, whose places may be anywhere, or a
 * few that alternate. NULL: none do. */
static const UOp *between(const Expand *x, const UOp *u, const UOp *lane, bool *square)
{
    bool load = u->op == UOP_LOAD,
         plain = (load ? u->nsrc == 1 : u->op == UOP_STORE && u->nsrc == 2) && u->src[0]->op == UOP_INDEX &&
        u->src[0]->src[0]->op == UOP_PARAM;
    int64_t n = lane ? lane->src[0]->vmax : 0, step = plain && n ? range_step(u->src[0]->src[1], lane) : 1;
    if (step == 1 || x->gpu || u->src[0]->dtype == DT_BOOL || n * dtype_size((DType)u->src[0]->dtype) > x->vector_bytes)
        return NULL;
    for (uint64_t m = u->src[0]->ranges & x->up; m; m &= m - 1) {
        const UOp *r = x->range[__builtin_ctzll(m)];
        int64_t count = r->src[0]->vmax;
        *square = count == n;
        if (range_step(u->src[0]->src[1], r) == 1 && (*square || (count <= LANE_INTERLEAVED && step == count)))
            return r;
    }
    return NULL;
}

/* Elements below four bytes count as four: they are computed so. A GPU only moves them together. */
static int64_t lane_bytes(const UOp *r, const UOp *const *order, uint32_t n, const Target *t)
{
    int64_t most = 1;
    for (uint32_t i = 0; i < n && t->max_block; i++) {
        const UOp *u = order[i];
        bool access = (u->op == UOP_STORE || u->op == UOP_LOAD) && (u->src[0]->ranges & range_bit(r));
        if (access && dtype_size((DType)u->src[0]->dtype) > most) most = dtype_size((DType)u->src[0]->dtype);
    }
    return t->max_block ? most : 4;
}

static bool fits_vector(const UOp *r, const UOp *const *order, uint32_t count, const Target *t)
{
    int64_t n = r->src[0]->vmax;
    return n >= 2 && n <= t->vector_bytes / lane_bytes(r, order, count, t) && !(n & (n - 1));
}

/* An access inside a reduce loop runs many times for a store outside of it. */
static int access_weight(const UOp *u, uint64_t reduces)
{
    if (u->src[0]->ranges & reduces) return 40;
    return u->op == UOP_STORE ? (reduces ? 20 : 400) : reduces ? 2 : 40;
}

/* Lanes compute together what scalars do one by one: four operations are worth what a scattered load and store of the
 * lanes take beyond a scalar's (150,000 floats to a transposed place: one operation 0.18 ms, in lanes 0.27; the eight
 * of a HardSwish 0.51, 0.20). Beside reduces exponentials and their like alone count. */
static int work_weight(const UOp *u, uint64_t reduces)
{
    if (u->op == UOP_EXP2 || u->op == UOP_LOG2 || u->op == UOP_SIN) return reduces ? 20 : 150;
    return !reduces && op_is((Op)u->op, FLAG_ALU) && dtype_is_float((DType)u->dtype) ? 12 : 0;
}

/* Contiguous accesses and long computations count for a lane axis, those that shuffles make contiguous a little less,
 * scattered accesses against it, and look-ups for it a little, which data scatter along any axis; a reduce axis serves
 * only where no store axis does. Of a CPU's lanes more do more: 32 bytes made from floats, summed and put through a
 * sigmoid take 1.3 ms for 2^16 sums in the 4 lanes of the stores, 0.8 in the 16 of the sum. */
static int lane_score(Expand *x, const UOp *r, const UOp *const *order, uint32_t n, uint64_t reduces)
{
    int score = 0;
    bool square;
    for (uint32_t j = 0; j < n; j++) {
        const UOp *u = order[j];
        if (u->ranges & range_bit(r) && !x->gpu) score += work_weight(u, reduces);
        if ((u->op != UOP_STORE && u->op != UOP_LOAD) || u->src[0]->op != UOP_INDEX ||
            !(u->src[0]->ranges & range_bit(r)))
            continue;
        int weight = access_weight(u, reduces & ~range_bit(r));
        int64_t stride = lane_stride(x, u->src[0]->src[1], r);
        /* two loads and a shuffle */
        bool shuffled = u->op == UOP_LOAD && u->nsrc == 1 && (stride == 2 || stride == -1);
        if (stride == 1) score += weight;
        else if (shuffled || between(x, u, r, &square)) score += weight - weight / 8;
        else score += u->op == UOP_LOAD && range_data(x->g, u->src[0]->src[1]) ? weight / 10 : -weight / 10 - 1;
    }
    if (range_type(r) == AXIS_UNROLL && score > 0) score = (score + 3) / 4;
    return x->gpu ? score : score * (63 - __builtin_clzll((uint64_t)r->src[0]->vmax));
}

/* Does a value depend on all of them, or a REDUCE close all? */
static bool together(const UOp *const *order, uint32_t n, uint64_t bits)
{
    for (uint32_t i = 0; i < n; i++) {
        uint64_t own = order[i]->ranges;
        for (uint32_t k = 1; order[i]->op == UOP_REDUCE && k < order[i]->nsrc; k++) own |= order[i]->src[k]->ranges;
        if ((own & bits) == bits) return true;
    }
    return false;
}

bool expand_serves(const Kernel *k, const UOp *range, const Target *t)
{
    Arena *a = arena_new();
    uint32_t n;
    const UOp **order = uop_toposort(k->g, &k->root, 1, a, &n);
    bool ok = expands(range) && fits_vector(range, order, n, t) && !(t->max_block && range_type(range) == AXIS_UNROLL);
    for (uint64_t m = k->lanes; m && ok; m &= m - 1) ok = !together(order, n, range_bit(range) | (m & -m));
    arena_free(a);
    return ok;
}

static void choose_lanes(Expand *x, const UOp *const *order, uint32_t n, const Target *t)
{
    int score[64] = { 0 };
    uint64_t reduces = 0, tiles = 0;
    for (uint32_t i = 0; i < n; i++)
        if (order[i]->op == UOP_RANGE && (range_type(order[i]) == AXIS_REDUCE || range_type(order[i]) == AXIS_UNROLL))
            reduces |= range_bit(order[i]);
    for (uint32_t i = 0; i < n; i++)
        /* an operation is whole: its operands have shapes already */
        if (order[i]->op == UOP_WMMA) tiles |= order[i]->ranges;
    for (uint32_t i = 0; i < n; i++)
        if (order[i]->op == UOP_RANGE && expands(order[i]) && !(tiles & range_bit(order[i])) &&
            fits_vector(order[i], order, n, t) && !(t->max_block && range_type(order[i]) == AXIS_UNROLL))
            /* a GPU's lanes are scalars: a reduce in lanes only has more sums */
            score[range_number(order[i])] = lane_score(x, order[i], order, n, reduces);
    for (;;) {
        int best = -1;
        for (int b = 0; b < 64; b++)
            if (score[b] > 0 && (best < 0 || score[b] > score[best])) best = b;
        if (best < 0) return;
        score[best] = 0;
        bool alone = true;
        for (uint64_t m = x->lanes; m; m &= m - 1) alone &= !together(order, n, UINT64_C(1) << best | (m & -m));
        if (alone) x->lanes |= UINT64_C(1) << best;
    }
}

/* ---- evaluation ---- */

static uint64_t own(const Expand *x, const UOp *u) { return u->ranges & x->up; }

static int64_t variants(const Expand *x, uint64_t ranges)
{
    int64_t n = 1;
    for (; ranges; ranges &= ranges - 1) n *= x->range[__builtin_ctzll(ranges)]->src[0]->vmax;
    return n;
}

static int64_t variant_now(const Expand *x, uint64_t ranges)
{
    int64_t n = 0;
    for (; ranges; ranges &= ranges - 1) {
        int b = __builtin_ctzll(ranges);
        n = n * x->range[b]->src[0]->vmax + x->at[b];
    }
    return n;
}

static const UOp *now(Expand *x, const UOp *u) { return x->memo[u->id][variant_now(x, own(x, u))]; }

/* Steps the assignment of these ranges; false after the last. */
static bool next_assignment(Expand *x, uint64_t ranges)
{
    for (uint64_t m = ranges; m;) {
        int b = 63 - __builtin_clzll(m);
        if (++x->at[b] < x->range[b]->src[0]->vmax) return true;
        x->at[b] = 0;
        m &= ~(UINT64_C(1) << b);
    }
    return false;
}

/* The lane axis that u depends on, or NULL. */
static const UOp *lane_of(const Expand *x, const UOp *u)
{
    uint64_t m = u->ranges & x->lanes;
    return m ? x->range[__builtin_ctzll(m)] : NULL;
}

static const UOp *lane_numbers(Expand *x, const UOp *lane)
{
    const UOp *v[64];
    for (int64_t i = 0; i < lane->src[0]->vmax; i++) v[i] = uop_index(x->g, i);
    return uop_new(x->g, UOP_STACK, DT_VOID, NO_ARG, v, (uint32_t)lane->src[0]->vmax);
}

/* Integer expressions are kept with the lane RANGE inside until they are used, so that strides can be seen. */
static const UOp *in_lanes(Expand *x, const UOp *u)
{
    const UOp *lane = lane_of(x, u);
    if (!lane) return u;
    const UOp *v = lane_numbers(x, lane);
    return uop_substitute(x->g, u, &lane, &v, 1);
}

/* The address of a buffer element, with the lane axis made shape. index still holds the lane RANGE. */
static const UOp *address(Expand *x, const UOp *buffer, const UOp *index)
{
    Graph *g = x->g;
    if (uop_rank(index)) index = in_lanes(x, index);
    const UOp *lane = lane_of(x, index), *v[64];
    if (!lane) return UOP(g, UOP_INDEX, DT_VOID, NO_ARG, buffer, index);
    int64_t step = lane_stride(x, index, lane);
    const UOp *first = at_value(x, index, lane, 0), *lanes = lane->src[0];
    if (step == 1) return UOP(g, UOP_SHRINK, DT_VOID, NO_ARG, buffer, uop_sizes(g, &first, 1), uop_sizes(g, &lanes, 1));
    for (int64_t i = 0; i < lanes->vmax; i++)
        v[i] = step == NO_STEP ? at_value(x, index, lane, i)
                               : rewriter_run(x->rw, index_math(g, UOP_ADD, first, uop_index(g, i * step)));
    return UOP(g, UOP_INDEX, DT_VOID, NO_ARG, buffer, uop_new(g, UOP_STACK, DT_VOID, NO_ARG, v, (uint32_t)lanes->vmax));
}

static bool is_value(const UOp *u)
{
    u = uop_memory(u);
    return u->op != UOP_PARAM && u->op != UOP_BUFFER;
}

/* Elements of a WMMA's result: one, one a lane, or as they are. */
static const UOp *elements(Expand *x, const UOp *v, const UOp *index)
{
    const UOp *lane = lane_of(x, index), *e[64];
    if (lane && index == lane && lane->src[0]->vmax == uop_numel(v)) return v;
    if (!lane) return UOP(x->g, UOP_INDEX, DT_VOID, NO_ARG, v, index);
    for (int64_t i = 0; i < lane->src[0]->vmax; i++)
        e[i] = UOP(x->g, UOP_INDEX, DT_VOID, NO_ARG, v, at_value(x, index, lane, i));
    return uop_new(x->g, UOP_STACK, DT_VOID, NO_ARG, e, (uint32_t)lane->src[0]->vmax);
}

/* A step of reduce u. */
static const UOp *joined(Expand *x, const UOp *u, const UOp *a, const UOp *b, bool into_unit)
{
    if (into_unit && u->arg.i == UOP_ADD && wmma_adds(b))
        return UOP(x->g, UOP_WMMA, DT_VOID, b->arg, b->src[0], b->src[1], a);
    const UOp *v = UOP(x->g, (Op)u->arg.i, DT_VOID, NO_ARG, a, b);
    return u->tag && v->op == UOP_MAX ? uop_tagged(x->g, v, u->tag) : v;
}

/* In order, or in pairs: then fewer wait for one another. Where loops remain, linearize makes one accumulator of them.
 */
static const UOp *combine(Expand *x, const UOp *u, const UOp **v, uint32_t n, bool pairs, bool loops)
{
    for (uint32_t step = 1; step < n; step = pairs ? 2 * step : step + 1)
        for (uint32_t i = 0; i + step < n; i += pairs ? 2 * step : n)
            v[i] = joined(x, u, v[i], v[i + step], !loops);
    return v[0];
}

/* A term of a sum or product under a mask that the assignment decides: as it is without, or NULL for one that is left
 * out. So replicas of a running sum have their first terms in common. */
static const UOp *unmasked(Expand *x, Op op, const UOp *v)
{
    bool load = v->op == UOP_LOAD && v->nsrc > 2;
    const UOp *gate = load ? v->src[2] : v->op == UOP_WHERE ? v->src[0] : NULL;
    if (!gate || op == UOP_MAX || gate->ranges || uop_rank(gate)) return v;
    gate = rewriter_run(x->rw, gate);
    if (gate->op != UOP_CONST) return v;
    v = !load ? v->src[gate->arg.i ? 1 : 2] : gate->arg.i ? UOP(x->g, UOP_LOAD, DT_VOID, NO_ARG, v->src[0]) : v->src[1];
    return v == uop_const_like(x->g, (DType)v->dtype, op == UOP_MUL) ? NULL : v;
}

/* A sum of a unit's products, of as many as numbers are cut into (parts.c)? */
static bool has_wmma(const UOp *u, int depth)
{
    bool sum = u->op == UOP_ADD && depth;
    return u->op == UOP_WMMA || (sum && (has_wmma(u->src[0], depth - 1) || has_wmma(u->src[1], depth - 1)));
}

/* A term of a sum of floats that is a sum itself is added up first. Added to the whole part by part, which may be much
 * larger, x - y would lose its low bits, and x + c the same ones in each iteration. */
static const UOp *whole_term(Expand *x, Op op, const UOp *v)
{
    bool sum = op == UOP_ADD && v->op == UOP_ADD && dtype_is_float((DType)v->dtype) && !has_wmma(v, 8);
    return sum ? uop_tagged(x->g, v, TERM_TAG) : v;
}

static const UOp *expand_reduce(Expand *x, const UOp *u)
{
    const UOp *src[65], *v;
    uint64_t unrolled = 0;
    uint32_t n = 1, count = 0;
    const UOp *across = NULL;
    for (uint32_t k = 1; k < u->nsrc; k++) {
        const UOp *r = u->src[k];
        if (range_bit(r) & x->lanes) across = r;
        else if (range_bit(r) & x->up) unrolled |= range_bit(r);
        else src[n++] = now(x, r);
    }
    for (uint64_t m = unrolled; m; m &= m - 1) x->at[__builtin_ctzll(m)] = 0;
    const UOp **part = NEW_N(x->arena, const UOp *, variants(x, unrolled));
    do {
        const UOp *term = now(x, u->src[0]), *kept = unmasked(x, (Op)u->arg.i, term);
        term = whole_term(x, (Op)u->arg.i, in_lanes(x, kept ? kept : term));
        if (kept || !count) part[count] = term, count += kept != NULL;
    } while (next_assignment(x, unrolled));
    if (!count) count = 1;
    v = combine(x, u, part, count, across || u->arg.i == UOP_MAX, n > 1);
    if (across && uop_rank(v) == 0)
        v = UOP(x->g, UOP_ADD, DT_VOID, NO_ARG, v,
                UOP(x->g, UOP_CAST, (DType)u->dtype, NO_ARG,
                    UOP(x->g, UOP_MUL, DT_VOID, NO_ARG, lane_numbers(x, across), uop_index(x->g, 0))));
    src[0] = v;
    v = uop_reduce_like(x->g, u, v, src + 1, n - 1);
    if (!across) return v;
    int64_t axis = 0;
    v = UOP(x->g, UOP_REDUCE, DT_VOID, ((Arg){ u->arg.i, graph_ints(x->g, &axis, 1) }), v);
    if (u->tag) v = uop_tagged(x->g, v, u->tag);
    return UOP(x->g, UOP_INDEX, DT_VOID, NO_ARG, v, uop_index(x->g, 0));
}

static const UOp *expand_end(Expand *x, const UOp *u)
{
    const UOp *src[65];
    uint64_t closed = 0;
    uint32_t n = 1, count = 0;
    for (uint32_t k = 1; k < u->nsrc; k++) {
        const UOp *r = u->src[k];
        if (range_bit(r) & x->up) closed |= range_bit(r);
        else if (!(range_bit(r) & x->lanes)) src[n++] = now(x, r);
    }
    const UOp **store = NEW_N(x->arena, const UOp *, variants(x, closed));
    for (uint64_t m = closed; m; m &= m - 1) x->at[__builtin_ctzll(m)] = 0;
    do store[count++] = now(x, u->src[0]);
    while (next_assignment(x, closed));
    src[0] = count == 1 ? store[0] : uop_new(x->g, UOP_GROUP, DT_VOID, NO_ARG, store, count);
    return uop_new(x->g, UOP_END, DT_VOID, NO_ARG, src, n);
}

static bool is_index_math(const UOp *u) { return !dtype_is_float((DType)u->dtype) && u->dtype != DT_VOID; }

/* A load of one element whose gate differs by lane, from memory: one load where some lane wants it, and a choice. NULL:
 * when that is, is no simple question. */
static const UOp *load_once(Expand *x, const UOp *u, const UOp *const *src)
{
    Graph *g = x->g;
    const UOp *lane = lane_of(x, src[2]), *any = uop_bool(g, false), *load = src[1];
    if (!lane || uop_addressed(u->src[0])->op != UOP_PARAM || src[0]->op != UOP_INDEX || uop_rank(src[0]) ||
        uop_rank(src[1]) || lane_of(x, src[1]))
        return NULL;
    for (int64_t i = 0; i < lane->src[0]->vmax && any->op != UOP_OR; i++)
        any = rewriter_run(x->rw, UOP(g, UOP_OR, DT_VOID, NO_ARG, any, at_value(x, src[2], lane, i)));
    if (any->op == UOP_OR) return NULL;
    if (any->op != UOP_CONST) load = UOP(g, UOP_LOAD, DT_VOID, NO_ARG, src[0], src[1], any);
    else if (any->arg.i) load = UOP(g, UOP_LOAD, DT_VOID, NO_ARG, src[0]);
    return UOP(g, UOP_WHERE, DT_VOID, NO_ARG, in_lanes(x, src[2]), load, src[1]);
}

/* Else it is a load a lane. */
static const UOp *widen_address(Expand *x, const UOp *a, const UOp *gate)
{
    const UOp *v[64];
    if (a->op != UOP_INDEX || uop_rank(a) || !uop_rank(gate)) return a;
    for (int64_t i = 0; i < uop_numel(gate); i++) v[i] = a->src[1];
    return UOP(x->g, UOP_INDEX, DT_VOID, NO_ARG, a->src[0],
               uop_new(x->g, UOP_STACK, DT_VOID, NO_ARG, v, (uint32_t)uop_numel(gate)));
}

/* ---- lanes that change places ---- */

static const UOp *lane_at(Expand *x, const UOp *v, int64_t lane)
{
    return uop_rank(v) ? UOP(x->g, UOP_INDEX, DT_VOID, NO_ARG, v, uop_index(x->g, lane)) : v;
}

/* Lane i is lane[i] of v[from[i]]: each vector after the first is one shuffle. */
static const UOp *woven(Expand *x, const UOp *const *v, const int64_t *from, const int64_t *lane, int64_t n,
                        int64_t vectors)
{
    const UOp *y = v[0], *s[64];
    for (int64_t k = 1; k < vectors; k++) {
        for (int64_t i = 0; i < n; i++)
            s[i] = from[i] > k ? lane_at(x, v[k], 0)
                : from[i] == k ? lane_at(x, v[k], lane[i])
                : k > 1        ? lane_at(x, y, i)
                               : lane_at(x, v[0], lane[i]);
        y = uop_new(x->g, UOP_STACK, DT_VOID, NO_ARG, s, (uint32_t)n);
    }
    return y;
}

/* Element e of vector k is lane e * vectors + k of all that lies side by side in v; `back`: in reverse order. */
static void interleave(Expand *x, const UOp **v, int64_t n, int64_t vectors, bool back)
{
    const UOp *y[LANE_INTERLEAVED];
    int64_t from[64], lane[64];
    for (int64_t k = 0; k < vectors; k++) {
        for (int64_t i = 0; i < n; i++) {
            int64_t at = back ? k * n + i : i * vectors + k;
            from[i] = back ? at % vectors : at / n;
            lane[i] = back ? at / vectors : at % n;
        }
        y[k] = woven(x, v, from, lane, n, vectors);
    }
    memcpy(v, y, (size_t)vectors * sizeof *v);
}

/* Lane i of v[k] becomes lane k of v[i]: half of the rows meets the other half, as often as the size has bits. */
static void transpose(Expand *x, const UOp **v, int64_t n)
{
    const UOp *y[64];
    int64_t from[64], lane[64];
    for (int64_t stage = 1; stage < n; stage *= 2) {
        for (int64_t k = 0; k < n; k++) {
            for (int64_t i = 0; i < n; i++) from[i] = i % 2, lane[i] = k % 2 * n / 2 + i / 2;
            y[k] = woven(x, (const UOp *[]){ v[k / 2], v[k / 2 + n / 2] }, from, lane, n, 2);
        }
        memcpy(v, y, (size_t)n * sizeof *v);
    }
}

/* A LOAD or STORE of lanes that are not contiguous, together with those of the replicas in between; NULL: it is none of
 * these. The first replica makes all. */
static const UOp *moved_together(Expand *x, const UOp *u)
{
    Graph *g = x->g;
    bool load = u->op == UOP_LOAD, square;
    if (!load && u->op != UOP_STORE) return NULL;
    const UOp *lane = lane_of(x, u->src[0]), *row = between(x, u, lane, &square), *v[64];
    if (!row) return NULL;
    int64_t *at = &x->at[range_number(row)], count = row->src[0]->vmax, n = lane->src[0]->vmax;
    if (*at) return x->memo[u->id][variant_now(x, own(x, u))];
    const UOp *memory = u->src[0]->src[0], *index = rewriter_run(x->rw, now(x, u->src[0]->src[1])),
              *lanes = uop_index(g, n);
    if (uop_rank(index)) return NULL;
    for (*at = 0; !load && *at < count; ++*at) v[*at] = in_lanes(x, now(x, u->src[1]));
    if (!load && square) transpose(x, v, n);
    else if (!load) interleave(x, v, n, count, true);
    for (int64_t k = 0; k < count; k++) {
        const UOp *first = square
            ? at_value(x, index, lane, k)
            : rewriter_run(x->rw, index_math(g, UOP_ADD, at_value(x, index, lane, 0), uop_index(g, k * n)));
        const UOp *address =
            UOP(g, UOP_SHRINK, DT_VOID, NO_ARG, memory, uop_sizes(g, &first, 1), uop_sizes(g, &lanes, 1));
        v[k] = load ? UOP(g, UOP_LOAD, DT_VOID, NO_ARG, address) : UOP(g, UOP_STORE, DT_VOID, NO_ARG, address, v[k]);
    }
    if (load && square) transpose(x, v, n);
    else if (load) interleave(x, v, n, count, false);
    for (*at = 0; *at < count; ++*at) x->memo[u->id][variant_now(x, own(x, u))] = v[*at];
    *at = 0;
    return v[0];
}

/* A load of lanes at known distances within twice their number, as one or two vectors of what lies between the first
 * and the last, and a shuffle; NULL: it is none. What a LOAD's gate leaves, and the gate, are one for all lanes. */
static const UOp *load_around(Expand *x, const UOp *const *src, uint32_t nsrc)
{
    Graph *g = x->g;
    if (nsrc > 2 && (uop_rank(src[1]) || uop_rank(src[2]))) return NULL;
    const UOp *address = src[0],
              *at = address->op == UOP_INDEX && address->src[0]->op == UOP_PARAM && !x->gpu ? address->src[1] : NULL,
              *lane[64], *part[2] = { NULL, NULL };
    int64_t place[64], n = at && at->op == UOP_STACK ? at->nsrc : 0, least = 0, most = 0, first = 0, width = n;
    if (n < 4 || n * dtype_size((DType)address->dtype) > x->vector_bytes || address->dtype == DT_BOOL) return NULL;
    for (int64_t i = 0; i < n; i++) {
        const UOp *d = rewriter_run(
            x->rw, index_math(g, UOP_ADD, at->src[i], index_math(g, UOP_MUL, at->src[0], uop_index(g, -1))));
        if (!uop_is_const(d)) return NULL;
        place[i] = d->arg.i;
        if (place[i] < least) least = place[i], first = i;
        if (place[i] > most) most = place[i];
    }
    int64_t span = most - least + 1;
    while (width > span) width /= 2;
    if (span > 2 * n || width < 4) return NULL;
    for (int k = 0; k < 2; k++) {
        const UOp *begin =
                      rewriter_run(x->rw, index_math(g, UOP_ADD, at->src[first], uop_index(g, k ? span - width : 0))),
                  *size = uop_index(g, width);
        const UOp *of[3] = { UOP(g, UOP_SHRINK, DT_VOID, NO_ARG, address->src[0], uop_sizes(g, &begin, 1),
                                 uop_sizes(g, &size, 1)) };
        if (nsrc > 2) of[1] = src[1], of[2] = src[2];
        part[k] = uop_new(g, UOP_LOAD, DT_VOID, NO_ARG, of, nsrc);
    }
    for (int64_t i = 0; i < n; i++)
        lane[i] = place[i] - least < width ? lane_at(x, part[0], place[i] - least)
                                           : lane_at(x, part[1], place[i] - least - (span - width));
    return uop_new(g, UOP_STACK, DT_VOID, NO_ARG, lane, (uint32_t)n);
}

/* Simplifies the gate of a parameter's LOAD for this replica: an open one goes. true: it is closed. (Values on chip
 * keep theirs, by which what is stored and what is loaded meet.) */
static bool is_closed(Expand *x, const UOp *u, const UOp **src, uint32_t *nsrc)
{
    if (u->op != UOP_LOAD || u->nsrc < 3 || uop_addressed(u->src[0])->op != UOP_PARAM) return false;
    src[2] = rewriter_run(x->rw, src[2]);
    if (src[2]->op != UOP_CONST) return false;
    *nsrc = 1;
    return !src[2]->arg.i;
}

/* One node under the assignment in x->at. */
static const UOp *expand_one(Expand *x, const UOp *u)
{
    const UOp *few[16], **src = u->nsrc > 16 ? NEW_N(x->arena, const UOp *, u->nsrc) : few;
    if (u->op == UOP_RANGE && (range_bit(u) & x->up)) return uop_index(x->g, x->at[range_number(u)]);
    if (u->op == UOP_REDUCE) return expand_reduce(x, u);
    if (u->op == UOP_END) return expand_end(x, u);
    const UOp *together = moved_together(x, u);
    if (together) return together;
    uint32_t nsrc = u->nsrc;
    for (uint32_t k = 0; k < nsrc; k++) src[k] = now(x, u->src[k]);
    if (is_closed(x, u, src, &nsrc)) return src[1];
    if (u->op == UOP_INDEX && is_value(u->src[0])) return elements(x, src[0], rewriter_run(x->rw, src[1]));
    if (u->op == UOP_INDEX) return address(x, src[0], rewriter_run(x->rw, src[1]));
    const UOp *once = u->op == UOP_LOAD && nsrc > 2 ? load_once(x, u, src) : NULL;
    if (once) return once;
    if (u->op == UOP_SHRINK) src[1] = uop_sizes(x->g, (const UOp *[]){ rewriter_run(x->rw, src[1]->src[0]) }, 1);
    if (u->op == UOP_LOAD || u->op == UOP_STORE || (op_is((Op)u->op, FLAG_ALU) && !is_index_math(u)))
        for (uint32_t k = 0; k < nsrc; k++) src[k] = in_lanes(x, src[k]);
    if (u->op != UOP_LOAD) return uop_with(x->g, u, src);
    if (nsrc > 2) src[0] = widen_address(x, src[0], src[2]);
    const UOp *around = load_around(x, src, nsrc);
    return around ? around : uop_tagged(x->g, uop_new(x->g, UOP_LOAD, (DType)u->dtype, u->arg, src, nsrc), u->tag);
}

static void expand_node(Expand *x, const UOp *u)
{
    uint64_t mine = own(x, u);
    int64_t n = variants(x, mine);
    if (n > REPLICAS_MAX) {
        x->too_many = true;
        n = 1;
    }
    x->memo[u->id] = NEW_N(x->arena, const UOp *, n);
    for (uint64_t m = mine; m; m &= m - 1) x->at[__builtin_ctzll(m)] = 0;
    int64_t saved[64];
    do {
        memcpy(saved, x->at, sizeof saved);
        const UOp *v = expand_one(x, u);
        memcpy(x->at, saved, sizeof saved);
        x->memo[u->id][variant_now(x, mine)] = v;
    } while (!x->too_many && next_assignment(x, mine));
}

TgStatus kernel_expand(Kernel *k, const Target *t)
{
    TRY(kernel_fragments(k));
    kept_widen(k);
    Expand x = { .g = k->g,
                 .arena = arena_new(),
                 .rw = rewriter_new(k->g, rules_symbolic(), NULL),
                 .vector_bytes = t->vector_bytes,
                 .gpu = t->max_block > 0 };
    uint32_t n;
    const UOp **order = uop_toposort(k->g, &k->root, 1, x.arena, &n);
    for (uint32_t i = 0; i < n; i++)
        if (order[i]->op == UOP_RANGE && expands(order[i]))
            x.range[range_number(order[i])] = order[i], x.up |= range_bit(order[i]);
    x.lanes = k->lanes & x.up;
    choose_lanes(&x, order, n, t);
    x.up &= ~x.lanes;
    x.memo = NEW_N(x.arena, const UOp **, k->root->id + 1);
    for (uint32_t i = 0; i < n && !x.too_many; i++) expand_node(&x, order[i]);
    bool bad = x.too_many;
    if (!bad && (x.up || x.lanes)) {
        k->root = x.memo[k->root->id][0];
        kept_hold(k);
    }
    rewriter_free(x.rw);
    arena_free(x.arena);
    return bad ? fail(TG_USAGE, "optops: more than %d replicas of a value", REPLICAS_MAX) : TG_OK;
}
