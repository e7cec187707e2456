/* Gradients of a whole graph. In: a value, its gradient, and nodes x. Out: what each x gets. From the value down,
 * sources last: a node's gradient is complete when all that read it have handed theirs down; what is not made of an x,
 * and integers, get none.
 */
#include "graph/gradient.h"

#include "graph/rewrite.h"

/* d with the axes along which `like` was repeated summed up. */
static U sum_to(Graph *g, U d, U like)
{
    int64_t axis[RANK_MAX];
    uint32_t n = 0, more = is_error(d) ? 0 : uop_rank(d) - uop_rank(like);
    if (is_error(d) || d->shape == like->shape) return d;
    for (uint32_t k = 0; k < uop_rank(d); k++)
        if (k < more || (uop_is_int_const(uop_dim(like, k - more), 1) && !uop_is_int_const(uop_dim(d, k), 1)))
            axis[n++] = k;
    return reshape(g, n ? reduce(g, UOP_ADD, d, axis, n, true) : d, like->shape->dim, uop_rank(like));
}

/* Marks what is made of an x. */
static void reach(const UOp *const *u, uint32_t count, const U *x, uint32_t n, bool *reached)
{
    for (uint32_t k = 0; k < n; k++) reached[x[k]->id] = true;
    for (uint32_t k = 0; k < count; k++)
        for (uint32_t s = 0; s < u[k]->nsrc; s++) reached[u[k]->id] |= reached[u[k]->src[s]->id];
}

static bool is_one_of(U u, const U *x, uint32_t n)
{
    for (uint32_t k = 0; k < n; k++)
        if (x[k] == u) return true;
    return false;
}

/* Hands u's gradient down to its sources. */
static TgStatus hand_down(Graph *g, U u, const bool *reached, U *d)
{
    U to = ruleset_apply(rules_gradient(), g, uop_new(g, UOP_TUPLE, DT_VOID, NO_ARG, (U[]){ u, d[u->id] }, 2), NULL);
    if (!to)
        return graph_fail_code(g, TG_UNSUPPORTED, "no gradient is known of %s", op_name((Op)u->op)), TG_UNSUPPORTED;
    for (uint32_t s = 0; s < u->nsrc && s < to->nsrc; s++) {
        U src = u->src[s];
        if (!reached[src->id] || !dtype_is_float((DType)src->dtype) || to->src[s]->dtype == DT_VOID) continue;
        U part = sum_to(g, to->src[s], src);
        d[src->id] = d[src->id] ? add(g, d[src->id], part) : part;
    }
    return graph_error(g);
}

TgStatus gradient(Graph *g, U y, U dy, const U *x, uint32_t n, U *out)
{
    Arena *arena = arena_new();
    y = graph_rewrite(g, y, rules_arithmetic(), 0, NULL);
    uint32_t count, ids = graph_count(g);
    const UOp **u = uop_toposort(g, &y, 1, arena, &count), **d = NEW_N(arena, const UOp *, ids + 1);
    bool *reached = NEW_N(arena, bool, ids + 1);
    TgStatus status = TG_OK;
    reach(u, count, x, n, reached);
    d[y->id] = dy;
    for (uint32_t k = count; k-- > 0 && status == TG_OK;)
        if (d[u[k]->id] && reached[u[k]->id] && !is_one_of(u[k], x, n)) status = hand_down(g, u[k], reached, d);
    for (uint32_t k = 0; k < n && status == TG_OK; k++)
        out[k] = d[x[k]->id] ? d[x[k]->id] : full(g, (DType)x[k]->dtype, 0, x[k]);
    arena_free(arena);
    return status;
}
