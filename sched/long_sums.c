/* Reduces with few results over many elements: in parts.
 *
 * Comes in: a tensor graph. Goes out: REDUCE of few results over a long axis is one over each of so many parts of the
 * axis, stored, and one over the parts, so that all threads (or the whole grid) have some. The number of parts follows
 * from the sizes alone, and parts are reduced in their order: a result has the same bits however many threads there
 * are. Sums of parts are also nearer to the right ones than one long sum. */
#include "graph/build.h"
#include "sched/rangeify.h"

/* RESULTS: from so many on there is work for all; ELEMENTS: fewer are not worth a wait; LANES: vectors side by side */
enum { RESULTS = 32, ELEMENTS = 1 << 17, LANES = 64 };

/* A divisor of the axis, near `wanted`, that leaves whole vectors where that can be; 0: there is none that serves. */
static int64_t parts_of(int64_t size, int64_t wanted)
{
    for (int64_t lanes = LANES; lanes; lanes /= 4)
        for (int64_t p = wanted; p >= wanted / 4; p--)
            if (size % p == 0 && size / p > 1 && size / p % lanes == 0) return p;
    return 0;
}

/* The first axis that is reduced, from the outside, that can be cut; *parts: into so many. */
static int64_t axis_to_cut(U u, const Target *t, int64_t *parts)
{
    for (uint32_t axis = 0; axis < uop_rank(u); axis++) {
        if (!reduce_is_over(u, axis)) continue;
        *parts = parts_of(uop_size(u->src[0], axis), t->max_block ? 256 : 32);
        if (*parts) return axis;
        if (uop_size(u->src[0], axis) > 1) break;               /* parts of an inner axis do not lie together */
    }
    return -1;
}

static U in_parts(Graph *g, U u, int64_t axis, int64_t parts)
{
    U x = u->src[0], dim[RANK_MAX];
    int64_t axes[RANK_MAX];
    uint32_t rank = uop_rank(x), n = 0;
    Op op = (Op)u->arg.i;
    for (uint32_t k = 0; k < rank; k++) {
        dim[k + (k > axis)] = uop_dim(x, k);
        if (reduce_is_over(u, k)) axes[n++] = k + (k >= axis);
    }
    dim[axis] = uop_index(g, parts);
    dim[axis + 1] = uop_index(g, uop_size(x, (uint32_t)axis) / parts);
    U each = contiguous(g, reduce(g, op, reshape(g, x, dim, rank + 1), axes, n, true));
    return reshape(g, reduce(g, op, each, &axis, 1, true), u->shape->dim, uop_rank(u));
}

static bool is_long(U u, const Target *t)
{
    return u->op == UOP_REDUCE && u->arg.blob && uop_static(u->src[0]) && uop_rank(u) + 1 < RANK_MAX &&
        uop_numel(u) < RESULTS && uop_numel(u->src[0]) >= ELEMENTS && (t->has_threads || t->max_block);
}

const UOp *cut_long_reduces(Graph *g, const UOp *root, const Target *t)
{
    Arena *a = arena_new();
    uint32_t n;
    const UOp **order = uop_toposort(g, &root, 1, a, &n), **map = NEW_N(a, const UOp *, root->id + 1);
    bool any = false;
    for (uint32_t i = 0; i < n && !any; i++) any = is_long(order[i], t);
    for (uint32_t i = 0; i < n && any; i++) {
        const UOp *u = order[i], **src = NEW_N(a, const UOp *, u->nsrc + 1);
        for (uint32_t k = 0; k < u->nsrc; k++) src[k] = map[u->src[k]->id];
        U v = uop_with(g, u, src);
        int64_t parts, axis = is_long(v, t) ? axis_to_cut(v, t, &parts) : -1;
        uint32_t node = graph_origin(g, uop_origin(g, u));
        map[u->id] = axis < 0 ? v : in_parts(g, v, axis, parts);
        graph_origin(g, node);
    }
    if (any) root = map[root->id];
    arena_free(a);
    return root;
}
