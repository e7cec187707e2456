/* The split: from the sources up, each node becomes one a device.
 *
 * A node is split along an axis (each device has its part), or all devices have it, or it is one value, of no device or
 * of the host. The row of its op, or of its kind of ops, says which of these it is, given what its sources are; sources
 * that are something else are brought along: by a view where all have the value, by a join of parts that travels
 * (COPY of a CAT) where it is split along another axis. A sum over the axis is made of each device's sum: of pieces of
 * these, one a device, where an axis can be divided, so that it stays split and is joined when somebody wants it whole
 * (an allreduce is a reduce_scatter and an allgather). COPY goes below views, so that what travels is what was
 * computed, once; constants never travel. To add an op: a function and a row; a case in tests/rules/test_devices.c. */
#include "graph/devices.h"

#include <string.h>

#include "graph/base/map.h"
#include "graph/guard.h"

/* Where a value is: AXIS 0 and up: split along it. ALL: each device has it, u[n]. ONE: u[0]. */
enum { ALL = -1, ONE = -2 };
typedef struct {
    int32_t axis;
    U u[];
} Split;

/* Of a node: it lies nowhere, on the host, on several (a join of parts), or on the device of that number. */
enum { NOWHERE = -1, HOST = -2, SEVERAL = -3, UNKNOWN = -4 };

typedef struct {
    Graph *g;
    Arena *arena;
    uint32_t n;
    bool weights;
    Split **of;                     /* by id of the graph that is split */
    int32_t *lies;                  /* by id; grows with the graph */
    uint32_t nlies;
    const UOp **sum_of;             /* by id of a product: the REDUCE that sums it, or NULL */
} Splitter;

/* ---- where a node of the new graph lies ---- */

static int32_t lies(Splitter *s, U u)
{
    if (u->id >= s->nlies) {
        uint32_t n = u->id + u->id / 2 + 64;
        int32_t *more = NEW_N(s->arena, int32_t, n);
        if (s->nlies) memcpy(more, s->lies, s->nlies * sizeof *more);
        for (uint32_t k = s->nlies; k < n; k++) more[k] = UNKNOWN;
        s->lies = more;
        s->nlies = n;
    }
    if (s->lies[u->id] != UNKNOWN) return s->lies[u->id];
    int32_t at = u->op == UOP_COPY ? (int32_t)u->arg.i : u->op == UOP_PARAM || u->op == UOP_CALL ? HOST : NOWHERE;
    for (uint32_t k = 0; k < u->nsrc && u->op != UOP_COPY && u->op != UOP_CALL; k++) {
        int32_t from = lies(s, u->src[k]);
        if (from != NOWHERE) at = at == NOWHERE || at == from ? from : SEVERAL;
    }
    return s->lies[u->id] = at;
}

static bool is_view(U u)
{
    return u->op == UOP_RESHAPE || u->op == UOP_PERMUTE || u->op == UOP_FLIP || u->op == UOP_EXPAND ||
        u->op == UOP_SHRINK || u->op == UOP_PAD || u->op == UOP_BITCAST;
}

/* x, wherever it lies, as device d has it. */
static U on_device(Splitter *s, U x, uint32_t d)
{
    int32_t at = lies(s, x);
    if (at == NOWHERE || at == (int32_t)d) return x;
    if (x->op == UOP_COPY) return on_device(s, x->src[0], d);
    if (!is_view(x)) return copy_to(s->g, x, d);
    const UOp *src[3] = { on_device(s, x->src[0], d), x->nsrc > 1 ? x->src[1] : NULL, x->nsrc > 2 ? x->src[2] : NULL };
    return uop_with(s->g, x, src);
}

/* ---- parts ---- */

static bool divides(const Splitter *s, U u, int64_t axis)
{
    return uop_is_const(uop_dim(u, (uint32_t)axis)) && uop_size(u, (uint32_t)axis) % s->n == 0 &&
        uop_size(u, (uint32_t)axis) > 0;
}

/* Elements begin .. of an axis. What is broadcast along it is not read at all, and a part of a join is that part. */
static U part_of(Splitter *s, U u, uint32_t axis, int64_t begin, int64_t size)
{
    U dim[RANK_MAX];
    uint32_t rank = uop_rank(u);
    if (size == uop_size(u, axis)) return u;
    if (u->op == UOP_EXPAND && uop_rank(u->src[0]) == rank) {
        for (uint32_t k = 0; k < rank; k++) dim[k] = k == axis ? uop_index(s->g, size) : uop_dim(u, k);
        U x = uop_is_int_const(uop_dim(u->src[0], axis), 1) ? u->src[0] : part_of(s, u->src[0], axis, begin, size);
        return expand(s->g, x, dim, rank);
    }
    if (u->op == UOP_CAT && u->arg.i == axis)
        for (uint32_t k = 0, at = 0; k < u->nsrc; at += (uint32_t)uop_size(u->src[k++], axis))
            if (at == begin && uop_size(u->src[k], axis) == size) return u->src[k];
    return slice_i(s->g, u, axis, begin, begin + size);
}

static U chunk(Splitter *s, U u, uint32_t axis, uint32_t d)
{
    int64_t size = uop_size(u, axis) / s->n;
    return part_of(s, u, axis, d * size, size);
}

static Split *split_new(Splitter *s, int32_t axis)
{
    Split *r = arena_alloc(s->arena, sizeof *r + s->n * sizeof *r->u);
    r->axis = axis;
    return r;
}

static Split *one(Splitter *s, U u)
{
    Split *r = split_new(s, ONE);
    r->u[0] = u;
    return r;
}

/* All of it, its parts where they are. */
static U joined(Splitter *s, const Split *x) { return x->axis < 0 ? x->u[0] : cat(s->g, x->u, s->n, x->axis); }
static U whole(Splitter *s, const Split *x, uint32_t d)
{
    return x->axis == ALL ? x->u[d] : on_device(s, joined(s, x), d);
}

/* Device d's part along an axis that can be divided. */
static U along(Splitter *s, const Split *x, uint32_t axis, uint32_t d)
{
    if (x->axis == (int32_t)axis) return x->u[d];
    if (x->axis == ALL) return chunk(s, x->u[d], axis, d);
    if (x->axis == ONE) return on_device(s, chunk(s, x->u[0], axis, d), d);
    U part[DEVICES_MAX];
    for (uint32_t e = 0; e < s->n; e++) part[e] = chunk(s, x->u[e], axis, d);
    return on_device(s, cat(s->g, part, s->n, x->axis), d);
}

/* ---- rows ---- */

typedef const Split *(*Rule)(Splitter *s, U u);
static const Split *source(const Splitter *s, U u, uint32_t k) { return s->of[u->src[k]->id]; }

/* u over the first k sources as device d has them (k: data; the rest are sizes, which stay). */
static U with(Splitter *s, U u, const UOp *const *src, uint32_t data)
{
    const UOp **all = NEW_N(s->arena, const UOp *, u->nsrc + 1);
    for (uint32_t k = 0; k < u->nsrc; k++) all[k] = k < data ? src[k] : u->src[k];
    return uop_with(s->g, u, all);
}

/* Each device computes all of it; or it is one value, where all sources are. */
static const Split *everywhere(Splitter *s, U u, uint32_t data)
{
    bool single = true;
    for (uint32_t k = 0; k < data; k++) single &= source(s, u, k)->axis == ONE;
    Split *r = split_new(s, single ? ONE : ALL);
    const UOp **src = NEW_N(s->arena, const UOp *, u->nsrc + 1);
    int32_t there = HOST;               /* a single value is made where its first source on a device is */
    for (uint32_t k = 0; k < data && single && there < 0; k++) there = lies(s, source(s, u, k)->u[0]);
    for (uint32_t d = 0; d < (single ? 1 : s->n); d++) {
        for (uint32_t k = 0; k < data; k++)
            src[k] = !single   ? whole(s, source(s, u, k), d)
                : there < 0 ? source(s, u, k)->u[0]
                            : on_device(s, source(s, u, k)->u[0], (uint32_t)there);
        r->u[d] = with(s, u, src, data);
    }
    return r;
}

static const Split *on_host(Splitter *s, U u)
{
    const UOp **src = NEW_N(s->arena, const UOp *, u->nsrc + 1);
    for (uint32_t k = 0; k < u->nsrc; k++) {
        const Split *x = source(s, u, k);
        src[k] = u->op == UOP_CALL || x->axis < 0 ? joined(s, x) : whole(s, x, 0);
    }
    U made = uop_with(s->g, u, src);
    if (u->op == UOP_CALL && made != u && graph_call_place(s->g, u))
        map_put(graph_calls(s->g), &made->id, sizeof made->id, (void *)(uintptr_t)graph_call_place(s->g, u));
    return one(s, made);
}

/* Does a broadcast to this axis of u begin in source x? */
static bool varies(U x, U u, uint32_t axis)
{
    uint32_t less = uop_rank(u) - uop_rank(x);
    if (axis < less) return false;
    U own = uop_dim(x, axis - less);
    if (uop_is_int_const(own, 1)) return false;
    return x->op != UOP_EXPAND || uop_rank(x->src[0]) != uop_rank(x) ||
        !uop_is_int_const(uop_dim(x->src[0], axis - less), 1);
}

/* The axis by which a sum of products is divided: that of the weights which the other operand does not have, the
 * largest; else one that both have (heads, groups). -1: there is none. */
static int32_t product_axis(Splitter *s, U u, U sum)
{
    U a = u->src[0], b = u->src[1];
    bool constant[2] = { lies(s, source(s, u, 0)->u[0]) == NOWHERE, lies(s, source(s, u, 1)->u[0]) == NOWHERE };
    int32_t best = -1;
    int best_kind = 0;
    for (uint32_t k = 0; k < uop_rank(u); k++) {
        if (reduce_is_over(sum, k) || !divides(s, u, k)) continue;
        bool in_a = varies(a, u, k), in_b = varies(b, u, k);
        int kind = (constant[0] && in_a && !in_b) || (constant[1] && in_b && !in_a) ? 2 : in_a && in_b ? 1 : 0;
        if (kind > best_kind || (kind && kind == best_kind && uop_size(u, k) > uop_size(u, (uint32_t)best)))
            best = (int32_t)k, best_kind = kind;
    }
    return best;
}

/* Elements that u is made of, below what broadcasts it. */
static double base_of(U u)
{
    while (u->op == UOP_EXPAND || u->op == UOP_RESHAPE || u->op == UOP_PERMUTE) u = u->src[0];
    return (double)uop_numel(u);
}

/* Does no more travel where each device sums what it has of this axis, and these sums are added up in pieces, than
 * where what is split is joined? Either way the result is split. */
static bool sums_parts(const Splitter *s, U u, U sum)
{
    double joined_elements = 0;
    for (uint32_t k = 0; k < u->nsrc; k++)
        if (source(s, u, k)->axis >= 0) joined_elements += base_of(u->src[k]);
    return (double)uop_numel(sum) <= joined_elements;
}

/* The axis that an element-wise op is split by: of its largest split source; of a product under a sum, that of the
 * weights, unless what is summed is split already and better stays so. */
static int32_t elements_axis(Splitter *s, U u)
{
    int32_t axis = -1;
    int64_t most = -1;
    bool all = false;
    for (uint32_t k = 0; k < u->nsrc; k++) {
        const Split *x = source(s, u, k);
        int32_t at = x->axis < 0 ? -1 : x->axis + (int32_t)(uop_rank(u) - uop_rank(u->src[k]));
        all |= x->axis != ONE;
        if (at >= 0 && uop_numel(u->src[k]) > most && divides(s, u, at)) axis = at, most = uop_numel(u->src[k]);
    }
    U sum = u->op == UOP_MUL && s->weights ? s->sum_of[u->id] : NULL;
    if (!sum || !all || (axis >= 0 && reduce_is_over(sum, (uint32_t)axis) && sums_parts(s, u, sum))) return axis;
    int32_t wanted = product_axis(s, u, sum);
    return wanted >= 0 ? wanted : axis;
}

static const Split *split_elements(Splitter *s, U u)
{
    int32_t axis = u->nsrc ? elements_axis(s, u) : -1;
    if (axis < 0) return everywhere(s, u, u->nsrc);
    Split *r = split_new(s, axis);
    for (uint32_t d = 0; d < s->n; d++) {
        const UOp **src = NEW_N(s->arena, const UOp *, u->nsrc);
        for (uint32_t k = 0; k < u->nsrc; k++) {
            uint32_t less = uop_rank(u) - uop_rank(u->src[k]), own = (uint32_t)axis - less;
            bool alike = (uint32_t)axis < less || uop_is_int_const(uop_dim(u->src[k], own), 1);
            src[k] = alike ? whole(s, source(s, u, k), d) : along(s, source(s, u, k), own, d);
        }
        r->u[d] = uop_with(s->g, u, src);
    }
    return r;
}

static const Split *split_same(Splitter *s, U u)
{
    const Split *x = source(s, u, 0);
    if (x->axis < 0) return everywhere(s, u, 1);
    Split *r = split_new(s, x->axis);
    for (uint32_t d = 0; d < s->n; d++) r->u[d] = with(s, u, &x->u[d], 1);
    return r;
}

/* u's sizes, with a part of the axis. */
static void part_sizes(const Splitter *s, U u, uint32_t axis, U *dim)
{
    for (uint32_t k = 0; k < uop_rank(u); k++) dim[k] = uop_dim(u, k);
    dim[axis] = uop_index(s->g, uop_size(u, axis) / s->n);
}

/* The axis of a reshape before which as many elements lie as before this one of its source, in so many parts. */
static int32_t reshaped_axis(const Splitter *s, U u, uint32_t axis)
{
    U before = dim_product(s->g, u->src[0]->shape->dim, axis), own = uop_index(s->g, 1);
    for (uint32_t k = 0; k < uop_rank(u); own = dim_mul(s->g, own, uop_dim(u, k++)))
        if (own == before && divides(s, u, k)) return (int32_t)k;
    return -1;
}

static const Split *split_sizes(Splitter *s, U u)
{
    const Split *x = source(s, u, 0);
    U dim[RANK_MAX];
    int32_t axis = x->axis < 0 ? -1
        : u->op == UOP_EXPAND  ? x->axis + (int32_t)(uop_rank(u) - uop_rank(u->src[0]))
                               : reshaped_axis(s, u, (uint32_t)x->axis);
    if (axis < 0) return everywhere(s, u, 1);
    Split *r = split_new(s, axis);
    part_sizes(s, u, (uint32_t)axis, dim);
    for (uint32_t d = 0; d < s->n; d++)
        r->u[d] =
            u->op == UOP_EXPAND ? expand(s->g, x->u[d], dim, uop_rank(u)) : reshape(s->g, x->u[d], dim, uop_rank(u));
    return r;
}

static const Split *split_permute(Splitter *s, U u)
{
    const Split *x = source(s, u, 0);
    if (x->axis < 0) return everywhere(s, u, 1);
    int32_t axis = 0;
    while (blob_ints(u->arg.blob)[axis] != x->axis) axis++;
    Split *r = split_new(s, axis);
    for (uint32_t d = 0; d < s->n; d++) r->u[d] = with(s, u, &x->u[d], 1);
    return r;
}

static const Split *split_flip(Splitter *s, U u)
{
    const Split *x = source(s, u, 0);
    return x->axis >= 0 && blob_ints(u->arg.blob)[x->axis] ? everywhere(s, u, 1) : split_same(s, u);
}

/* PAD and SHRINK: offsets src[1], sizes src[2]. */
static const Split *split_part(Splitter *s, U u)
{
    const Split *x = source(s, u, 0);
    U dim[RANK_MAX];
    if (x->axis < 0 || uop_dim(u, (uint32_t)x->axis) != uop_dim(u->src[0], (uint32_t)x->axis))
        return everywhere(s, u, 1);
    Split *r = split_new(s, x->axis);
    part_sizes(s, u, (uint32_t)x->axis, dim);
    for (uint32_t d = 0; d < s->n; d++)
        r->u[d] = UOP(s->g, (Op)u->op, DT_VOID, NO_ARG, x->u[d], u->src[1], uop_sizes(s->g, dim, uop_rank(u)));
    return r;
}

/* Every source of a join has its part. */
static const Split *split_joined(Splitter *s, U u)
{
    int32_t axis = -1, more = u->op == UOP_STACK;
    int64_t most = -1;
    for (uint32_t k = 0; k < u->nsrc; k++) {
        const Split *x = source(s, u, k);
        if (x->axis >= 0 && uop_numel(u->src[k]) > most && (more || x->axis != u->arg.i))
            axis = x->axis, most = uop_numel(u->src[k]);
    }
    if (axis < 0) return everywhere(s, u, u->nsrc);
    Split *r = split_new(s, axis + more);
    for (uint32_t d = 0; d < s->n; d++) {
        const UOp **src = NEW_N(s->arena, const UOp *, u->nsrc);
        for (uint32_t k = 0; k < u->nsrc; k++) src[k] = along(s, source(s, u, k), (uint32_t)axis, d);
        r->u[d] = uop_with(s->g, u, src);
    }
    return r;
}

/* The result's axis that source k of an INDEX is split by, and whether the parts of the result are made of its parts:
 * an axis that is not indexed, or is by 0 1 .. (then that index has a part, too); or one of an index. */
static int32_t indexed_axis(const Splitter *s, U u, uint32_t k, int32_t *counted)
{
    int32_t axis = source(s, u, k)->axis, before = 0;
    *counted = -1;
    if (axis < 0) return -1;
    uint32_t upto = k ? k : u->nsrc;
    bool is_indexed = !k && axis < (int32_t)u->nsrc - 1;
    if (is_indexed) {
        upto = (uint32_t)axis + 1;
        U i = u->src[upto];
        if (i->op != UOP_IOTA || uop_dim(i, 0) != uop_dim(u->src[0], (uint32_t)axis)) return -1;
        *counted = (int32_t)upto;
    }
    for (uint32_t i = 1; i < upto; i++) before += (int32_t)uop_rank(u->src[i]);
    return k ? before + axis : is_indexed ? before : before + axis - (int32_t)(u->nsrc - 1);
}

static const Split *split_index(Splitter *s, U u)
{
    int32_t axis = -1, counted = -1;
    uint32_t by = 0;
    for (uint32_t k = 0; k < u->nsrc && axis < 0; k++) axis = indexed_axis(s, u, by = k, &counted);
    if (axis < 0) return everywhere(s, u, u->nsrc);
    Split *r = split_new(s, axis);
    for (uint32_t d = 0; d < s->n; d++) {
        const UOp **src = NEW_N(s->arena, const UOp *, u->nsrc);
        for (uint32_t k = 0; k < u->nsrc; k++)
            src[k] = k == by ? source(s, u, k)->u[d]
                : (int32_t)k == counted
                ? UOP(s->g, UOP_IOTA, DT_VOID, NO_ARG, uop_index(s->g, uop_size(u->src[k], 0) / s->n))
                : whole(s, source(s, u, k), d);
        r->u[d] = uop_with(s->g, u, src);
    }
    return r;
}

/* Each device's value of all of them, by the op of the sum, in the order of devices. */
static U combined(Splitter *s, Op op, const UOp *const *part, uint32_t d)
{
    U r = on_device(s, part[0], d);
    for (uint32_t e = 1; e < s->n; e++) r = UOP(s->g, op, DT_VOID, NO_ARG, r, on_device(s, part[e], d));
    return r;
}

static const Split *split_sum(Splitter *s, Op op, const UOp *const *part)
{
    int32_t axis = -1;
    U piece[DEVICES_MAX];
    for (uint32_t k = uop_rank(part[0]); k-- > 0;)
        if (divides(s, part[0], k)) axis = (int32_t)k;
    Split *r = split_new(s, axis < 0 ? ALL : axis);
    for (uint32_t d = 0; d < s->n; d++) {
        for (uint32_t e = 0; e < s->n; e++) piece[e] = axis < 0 ? part[e] : chunk(s, part[e], (uint32_t)axis, d);
        r->u[d] = combined(s, op, piece, d);
    }
    return r;
}

/* A join that is summed along its axis: each part is, where it lies. */
static U reduced(Splitter *s, U u, U x)
{
    bool own = x->op == UOP_COPY && x->src[0]->op == UOP_CAT;
    U all = own ? x->src[0] : x, r = NULL;
    if (all->op != UOP_CAT || blob_count(u->arg.blob) != 1 || blob_ints(u->arg.blob)[0] != all->arg.i)
        return with(s, u, &x, 1);
    for (uint32_t k = 0; k < all->nsrc; k++) {
        U part = with(s, u, &all->src[k], 1);
        if (uop_size(all->src[k], (uint32_t)all->arg.i) == 1) part = all->src[k];
        if (own) part = on_device(s, part, (uint32_t)x->arg.i);
        r = r ? UOP(s->g, (Op)u->arg.i, DT_VOID, NO_ARG, r, part) : part;
    }
    return r;
}

static const Split *split_reduce(Splitter *s, U u)
{
    const Split *x = source(s, u, 0);
    if (x->axis == ONE) return one(s, reduced(s, u, x->u[0]));
    if (x->axis == ALL) return everywhere(s, u, 1);
    Split *r = split_new(s, x->axis);
    for (uint32_t d = 0; d < s->n; d++) r->u[d] = reduced(s, u, x->u[d]);
    return reduce_is_over(u, (uint32_t)x->axis) ? split_sum(s, (Op)u->arg.i, r->u) : r;
}

static const Split *split_copy(Splitter *s, U u)
{
    const Split *x = source(s, u, 0);
    if (!u->arg.blob) return one(s, on_device(s, joined(s, x), (uint32_t)u->arg.i));
    Split *r = split_new(s, 0);
    for (uint32_t d = 0; d < s->n; d++) r->u[d] = along(s, x, 0, d);
    return r;
}

static const Split *split_replicated(Splitter *s, U u)
{
    const Split *x = source(s, u, 0);
    if (x->axis != u->arg.i) return everywhere(s, u, 1);
    Split *r = split_new(s, ALL);
    memcpy(r->u, x->u, s->n * sizeof *r->u);
    return r;
}

static const struct {
    Op op;
    Rule split;
} rows[] = {
    { UOP_RESHAPE, split_sizes },   { UOP_EXPAND, split_sizes },
    { UOP_PERMUTE, split_permute }, { UOP_FLIP, split_flip },
    { UOP_PAD, split_part },        { UOP_SHRINK, split_part },
    { UOP_INDEX, split_index },     { UOP_STACK, split_joined },
    { UOP_CAT, split_joined },      { UOP_REDUCE, split_reduce },
    { UOP_BITCAST, split_same },    { UOP_CONTIGUOUS, split_same },
    { UOP_DETACH, split_same },     { UOP_CONTIGUOUSBACKWARD, split_same },
    { UOP_COPY, split_copy },       { UOP_REPLICATED, split_replicated },
};

/* Sizes and positions are DT_INDEX scalars, and belong to no device. */
static bool is_size(U u) { return u->dtype == DT_INDEX; }

static const Split *split_node(Splitter *s, U u)
{
    if (!u->nsrc || u->op == UOP_PARAM || u->op == UOP_BUFFER || u->op == UOP_IOTA) return one(s, u);
    if (is_size(u)) return on_host(s, u);
    if (op_is((Op)u->op, FLAG_ALU)) return split_elements(s, u);
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++)
        if (rows[k].op == u->op) return rows[k].split(s, u);
    return on_host(s, u);
}

/* ---- all of it ---- */

/* Products that are summed, through what only converts them. */
static void find_sums(Splitter *s, const UOp *const *order, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        U u = order[i], p = u->op == UOP_REDUCE && u->arg.i == UOP_ADD && u->arg.blob ? u->src[0] : NULL;
        while (p && p->op == UOP_CAST) p = p->src[0];
        if (p && p->op == UOP_MUL && uop_rank(p) == uop_rank(u)) s->sum_of[p->id] = u;
    }
}

static TgStatus check_devices(const Splitter *s, U u)
{
    if (u->op != UOP_COPY) return TG_OK;
    bool known = u->arg.blob ? blob_count(u->arg.blob) == s->n : u->arg.i >= 0 && u->arg.i < s->n;
    for (uint32_t k = 0; known && u->arg.blob && k < s->n; k++) known = blob_ints(u->arg.blob)[k] == k;
    return known ? TG_OK : fail(TG_UNSUPPORTED, "copy: to devices that are not those of the graph");
}

static TgStatus split_all(Splitter *s, const UOp *const *order, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        TRY(check_devices(s, order[i]));
        uint32_t node = graph_origin(s->g, uop_origin(s->g, order[i]));
        const Split *made = s->of[order[i]->id] = (Split *)(uintptr_t)split_node(s, order[i]);
        /* in this order it looks at few nodes each time */
        for (uint32_t d = 0; d < (made->axis == ONE ? 1 : s->n); d++) lies(s, made->u[d]);
        graph_origin(s->g, node);
        TRY(graph_error(s->g));
    }
    return TG_OK;
}

TgStatus devices_split(Graph *g, const U *value, uint32_t n, const SplitBy *by, U *out)
{
    Arena *arena = arena_new();
    uint32_t count;
    for (uint32_t k = 0; k < by->devices.n; k++)
        if (by->devices.device[k] != k) return arena_free(arena), fail(TG_UNSUPPORTED, "devices are not 0, 1 ..");
    const UOp **order = uop_toposort(g, value, n, arena, &count);
    Splitter s = { .g = g,
                   .arena = arena,
                   .n = by->devices.n,
                   .weights = by->weights,
                   .of = NEW_N(arena, Split *, graph_count(g) + 1),
                   .sum_of = NEW_N(arena, const UOp *, graph_count(g) + 1) };
    find_sums(&s, order, count);
    TgStatus status =
        s.n < 1 || s.n > DEVICES_MAX ? fail(TG_USAGE, "devices: 1 to %d", DEVICES_MAX) : split_all(&s, order, count);
    for (uint32_t k = 0; k < n && status == TG_OK; k++) out[k] = joined(&s, s.of[value[k]->id]);
    arena_free(arena);
    return status == TG_OK ? graph_error(g) : status;
}
