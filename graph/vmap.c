/* From the sources up: a node all of whose sources are the same for all samples stays as it is; of another one the row
 * of its op, or of its kind of ops, says what it is over all samples. To add one: a function and a row; a case in
 * tests/rules/test_vmap.c. */
#include "graph/vmap.h"

#include <string.h>

#include "graph/custom.h"

/* to: by id, what a node is over all samples; NULL: the same for all. */
typedef struct { Graph *g; U size; const UOp **to; } Mapper;

static U refuse(const Mapper *m, const UOp *u)
{
    if (u->op == UOP_CALL && u->src[0]->op == UOP_CUSTOMFUNCTION)
        return graph_fail_code(m->g, TG_UNSUPPORTED, "what %s does differs from sample to sample",
                               custom_name(u->src[0]));
    return graph_fail_code(m->g, TG_UNSUPPORTED, "%s differs from sample to sample", op_name((Op)u->op));
}

static bool is_mapped(const Mapper *m, const UOp *u) { return m->to[u->id] != NULL; }

static bool any_mapped(const Mapper *m, const UOp *u, uint32_t from)
{
    for (uint32_t s = from; s < u->nsrc; s++)
        if (is_mapped(m, u->src[s])) return true;
    return false;
}

/* [size, dim..] */
static uint32_t in_front(const Mapper *m, U out[RANK_MAX], const UOp *const *dim, uint32_t rank)
{
    out[0] = m->size;
    for (uint32_t k = 0; k < rank; k++) out[k + 1] = dim[k];
    return rank + 1;
}

/* u of every sample, with the axis. */
static U all_of(const Mapper *m, U u)
{
    U dim[RANK_MAX];
    return m->to[u->id] ? m->to[u->id] : expand(m->g, u, dim, in_front(m, dim, u->shape->dim, uop_rank(u)));
}

/* ---- rows ---- */

/* Operands meet from the right: one of fewer axes gets some of size 1 behind that of samples. */
static U map_elements(const Mapper *m, U u)
{
    const UOp **src = NEW_N(graph_arena(m->g), const UOp *, u->nsrc);
    for (uint32_t s = 0; s < u->nsrc; s++) {
        U x = u->src[s], dim[RANK_MAX];
        uint32_t rank = uop_rank(u), less = rank - uop_rank(x);
        src[s] = is_mapped(m, x) ? m->to[x->id] : x;
        if (!is_mapped(m, x) || !less) continue;
        dim[0] = m->size;
        for (uint32_t k = 0; k < rank; k++) dim[k + 1] = k < less ? uop_index(m->g, 1) : uop_dim(x, k - less);
        src[s] = reshape(m->g, src[s], dim, rank + 1);
        if (is_error(src[s])) return src[s];
    }
    return uop_new(m->g, (Op)u->op, (DType)u->dtype, u->arg, src, u->nsrc);
}

static U map_same(const Mapper *m, U u)
{
    return uop_new(m->g, (Op)u->op, (DType)u->dtype, u->arg, (U[]){ m->to[u->src[0]->id] }, 1);
}

static U map_sizes(const Mapper *m, U u)
{
    U dim[RANK_MAX], x = m->to[u->src[0]->id];
    uint32_t rank = in_front(m, dim, u->shape->dim, uop_rank(u));
    return u->op == UOP_RESHAPE ? reshape(m->g, x, dim, rank) : expand(m->g, x, dim, rank);
}

static U map_permute(const Mapper *m, U u)
{
    int64_t order[RANK_MAX] = { 0 };
    const int64_t *old = blob_ints(u->arg.blob);
    for (uint32_t k = 0; k < uop_rank(u); k++) order[k + 1] = old[k] + 1;
    return permute(m->g, m->to[u->src[0]->id], order, uop_rank(u) + 1);
}

static U map_flip(const Mapper *m, U u)
{
    bool axes[RANK_MAX] = { false };
    const int64_t *old = blob_ints(u->arg.blob);
    for (uint32_t k = 0; k < uop_rank(u); k++) axes[k + 1] = old[k] != 0;
    return flip(m->g, m->to[u->src[0]->id], axes);
}

/* PAD and SHRINK: offsets src[1], sizes src[2]. */
static U map_part(const Mapper *m, U u)
{
    U offset[RANK_MAX], dim[RANK_MAX];
    uint32_t rank = in_front(m, dim, u->shape->dim, uop_rank(u));
    in_front(m, offset, u->src[1]->src, uop_rank(u));
    offset[0] = uop_index(m->g, 0);
    return UOP(m->g, (Op)u->op, DT_VOID, NO_ARG, m->to[u->src[0]->id], uop_sizes(m->g, offset, rank),
               uop_sizes(m->g, dim, rank));
}

static U map_reduce(const Mapper *m, U u)
{
    int64_t axis[RANK_MAX];
    if (!u->arg.blob) return refuse(m, u);
    uint32_t n = blob_count(u->arg.blob);
    for (uint32_t k = 0; k < n; k++) axis[k] = blob_ints(u->arg.blob)[k] + 1;
    return reduce(m->g, (Op)u->arg.i, m->to[u->src[0]->id], axis, n, true);
}

/* STACK along a new axis behind that of samples; CAT along its own, which is one further back. */
static U map_joined(const Mapper *m, U u)
{
    const UOp **part = NEW_N(graph_arena(m->g), const UOp *, u->nsrc + 1);
    for (uint32_t s = 0; s < u->nsrc; s++) part[s] = all_of(m, u->src[s]);
    return u->op == UOP_STACK ? stack(m->g, part, u->nsrc, 1) : cat(m->g, part, u->nsrc, u->arg.i + 1);
}

/* One number for where src[0] is read in its first axes, those that are indexed, and that of samples where it has one:
 * [size or 1, sizes of the indices..]. */
static U position(const Mapper *m, U u)
{
    U x = u->src[0], samples[RANK_MAX], at = uop_int(m->g, DT_I64, 0);
    uint32_t rank = 0, before = 1;
    for (uint32_t s = 1; s < u->nsrc; s++) rank += uop_rank(u->src[s]);
    for (uint32_t k = 0; k <= rank; k++) samples[k] = k ? uop_index(m->g, 1) : m->size;
    if (is_mapped(m, x)) at = reshape(m->g, iota(m->g, m->size, DT_I64), samples, rank + 1);
    for (uint32_t s = 1; s < u->nsrc; s++) {
        U i = u->src[s], dim[RANK_MAX];
        for (uint32_t k = 0; k <= rank; k++) dim[k] = uop_index(m->g, 1);
        if (is_mapped(m, i)) dim[0] = m->size;
        for (uint32_t k = 0; k < uop_rank(i); k++) dim[before + k] = uop_dim(i, k);
        before += uop_rank(i);
        i = reshape(m->g, cast(m->g, is_mapped(m, i) ? m->to[i->id] : i, DT_I64), dim, rank + 1);
        at = add(m->g, mul(m->g, at, cast(m->g, uop_dim(x, s - 1), DT_I64)), i);
    }
    return at;
}

static U map_index(const Mapper *m, U u)
{
    U x = all_of(m, u->src[0]), dim[RANK_MAX];
    const UOp **src = NEW_N(graph_arena(m->g), const UOp *, u->nsrc + 1);
    uint32_t n = u->nsrc - 1, rest = uop_rank(u->src[0]) - n;
    if (!any_mapped(m, u, 1)) {                             /* the same place in each sample */
        src[0] = x, src[1] = UOP(m->g, UOP_IOTA, DT_VOID, NO_ARG, m->size);
        memcpy(src + 2, u->src + 1, n * sizeof *src);
        return uop_new(m->g, UOP_INDEX, DT_VOID, NO_ARG, src, n + 2);
    }
    U at = position(m, u), before = dim_product(m->g, u->src[0]->shape->dim, n);
    dim[0] = is_mapped(m, u->src[0]) ? dim_mul(m->g, m->size, before) : before;
    for (uint32_t k = 0; k < rest; k++) dim[k + 1] = uop_dim(u->src[0], n + k);
    x = reshape(m->g, is_mapped(m, u->src[0]) ? x : u->src[0], dim, rest + 1);
    return is_error(x) || is_error(at) ? (is_error(x) ? x : at)
                                       : UOP(m->g, UOP_INDEX, DT_VOID, NO_ARG, x, cast(m->g, at, DT_INDEX));
}

/* data: so many sources hold data; behind them are sizes, which are the same for all samples. 0: all. */
static const struct { Op op; U (*map)(const Mapper *m, U u); uint32_t data; } rows[] = {
    { UOP_RESHAPE, map_sizes, 1 },
    { UOP_EXPAND, map_sizes, 1 },
    { UOP_PERMUTE, map_permute, 1 },
    { UOP_FLIP, map_flip, 1 },
    { UOP_PAD, map_part, 1 },
    { UOP_SHRINK, map_part, 1 },
    { UOP_INDEX, map_index, 0 },
    { UOP_STACK, map_joined, 0 },
    { UOP_CAT, map_joined, 0 },
    { UOP_REDUCE, map_reduce, 1 },
    { UOP_BITCAST, map_same, 1 },
    { UOP_CONTIGUOUS, map_same, 1 },
    { UOP_CONTIGUOUSBACKWARD, map_same, 1 },
    { UOP_DETACH, map_same, 1 },
};

static U map_node(const Mapper *m, U u)
{
    if (op_is((Op)u->op, FLAG_ALU)) return map_elements(m, u);
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++)
        if (rows[r].op == u->op)
            return rows[r].data && any_mapped(m, u, rows[r].data) ? refuse(m, u) : rows[r].map(m, u);
    return refuse(m, u);
}

TgStatus vmap(Graph *g, const U *value, uint32_t n, const U *x, const U *mapped, uint32_t nx, U size, U *out)
{
    Arena *arena = arena_new();
    uint32_t count;
    const UOp **u = uop_toposort(g, value, n, arena, &count);
    Mapper m = { g, size, NEW_N(arena, const UOp *, graph_count(g) + 1) };
    TgStatus status = TG_OK;
    for (uint32_t k = 0; k < nx; k++) m.to[x[k]->id] = mapped[k];
    for (uint32_t k = 0; k < count && status == TG_OK; k++) {
        if (is_mapped(&m, u[k]) || !any_mapped(&m, u[k], 0)) continue;
        uint32_t node = graph_origin(g, uop_origin(g, u[k]));
        m.to[u[k]->id] = map_node(&m, u[k]);
        graph_origin(g, node);
        status = graph_error(g);
    }
    for (uint32_t k = 0; k < n && status == TG_OK; k++) out[k] = all_of(&m, value[k]);
    arena_free(arena);
    return status == TG_OK ? graph_error(g) : status;
}
