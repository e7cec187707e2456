/* Callify: the tensor graph as one stateless function of PARAMs: sines guarded, values computed in the parts that are
 * needed, movement merged, sums that are made of integers written so, products and linear maps in the order of fewer
 * products, sums of products of one value joined, values made narrow before they are joined, sums over windows made of
 * Winograd's tiles and sums made of parts where --precision allows it, what they read of 16 bits stored in f32, long
 * reduces cut. */
#include "graph/rewrite.h"
#include "sched/rangeify.h"

/* An output lies in memory: a scalar constant or a size is stored by a kernel of its own. */
static const UOp *store_scalars(Graph *g, const UOp *sink)
{
    const UOp **src = NEW_N(graph_arena(g), const UOp *, sink->nsrc + 1);
    for (uint32_t k = 0; k < sink->nsrc; k++) {
        const UOp *u = sink->src[k];
        bool leaf = u->op == UOP_CONST || u->op == UOP_IOTA || u->op == UOP_DEFINE_VAR || u->op == UOP_BIND;
        src[k] = leaf ? UOP(g, UOP_CONTIGUOUS, DT_VOID, NO_ARG, u) : u;
    }
    return uop_with(g, sink, src);
}

TgStatus sched_callify(const UOp **out, Graph *g, const UOp *sink, const Target *t, Choices *choices)
{
    sink = sum_integers(g, compute_needed(g, guard_angles(g, sink, t)), t);
    *out = join_siblings(g, commute_products(g, graph_rewrite(g, sink, rules_movement(), 0, NULL)), choices);
    *out = narrow_joins(g, *out);
    *out = cut_long_reduces(g, store_wide(g, sum_parts(g, sum_windows(g, *out, t, choices), t), t), t);
    if (graph_error(g) == TG_OK) *out = store_scalars(g, *out);
    return graph_error(g);
}
