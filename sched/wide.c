/* Wide: what sums of products read one number at a time, for whole vectors of results, lies in memory as f32.
 *
 * Comes in: REDUCE(ADD, MUL(x, w)) in f32 of which x, or w, is CAST of a value u of 16 bits, with views around both.
 * Goes out, for a CPU without arithmetic of that type or a unit for its products: u is stored in f32, as
 * CONTIGUOUS(CAST(u)); sums read that, and whoever else wants u reads CAST(CONTIGUOUS(CAST(u))), which is u to the bit.
 * To widen a number for all lanes takes as long as three products of vectors; to widen a vector, one. Must hold: u
 * depends on an input (constants are packed, wide, at load); each number meets USES columns of the other operand. Sums
 * that a unit makes from parts of 16 bits (parts.c) have been rewritten before. To widen for one more kind of reader: a
 * case in note_sum.
 */
#include "graph/wmma.h"
#include "sched/sums.h"

enum { USES = 16 };

typedef struct {
    Graph *g;
    const Target *t;
    Constants constants;
    bool *kept;                     /* by id: lies in memory as f32 */
    const UOp **map, **wide;        /* by id: in the new graph, and there in f32, or NULL */
} Wide;

/* The device neither computes in the type nor has a unit for products of it. */
static bool is_widened(const Wide *d, U u)
{
    DType t = (DType)u->dtype;
    for (int i = 0; i < WMMA_COUNT; i++)
        if ((d->t->wmma >> i & 1) && wmma_row[i].a == t) return false;
    return (t == DT_F16 && !d->t->has_f16) || (t == DT_BF16 && !d->t->has_bf16);
}

/* How many products each number of the operand takes part in, but for those of windows that overlap. */
static int64_t uses_of(U product, U operand)
{
    int64_t uses = 1;
    for (uint32_t k = 0; k < uop_rank(product) && uses < USES; k++)
        if (uop_is_const(uop_dim(product, k)) && operand_extent(product, operand, k) == 1) uses *= uop_size(product, k);
    return uses;
}

static void note_sum(Wide *d, U sum)
{
    U p = sum->src[0];
    for (uint32_t k = 0; k < 2; k++) {
        U u = p->src[k];
        if (uses_of(p, u) < USES) continue;
        while (view_is(u)) u = u->src[0];
        if (u->op != UOP_CAST || u->dtype != DT_F32 || !is_widened(d, u->src[0])) continue;
        for (u = u->src[0]; view_is(u);) u = u->src[0];
        if (!made_of_constants(&d->constants, d->g, u)) d->kept[u->id] = true;
    }
}

static U with_sources(const Wide *d, U u, const UOp *first)
{
    const UOp **src = NEW_N(graph_arena(d->g), const UOp *, u->nsrc + 1);
    for (uint32_t k = 0; k < u->nsrc; k++) src[k] = d->map[u->src[k]->id];
    if (first) src[0] = first;
    return uop_with(d->g, u, src);
}

static void rebuild(Wide *d, U u)
{
    Graph *g = d->g;
    uint32_t node = graph_origin(g, uop_origin(g, u));
    const UOp *below = u->nsrc ? d->wide[u->src[0]->id] : NULL, *v;
    if (u->op == UOP_CAST && u->dtype == DT_F32 && below) v = below;
    else {
        v = with_sources(d, u, NULL);
        if (d->kept[u->id]) {
            d->wide[u->id] = UOP(g, UOP_CONTIGUOUS, DT_VOID, NO_ARG, cast(g, v, DT_F32));
            v = cast(g, d->wide[u->id], (DType)u->dtype);
        } else if (view_is(u) && below) {
            d->wide[u->id] = with_sources(d, u, below);
        }
    }
    d->map[u->id] = v;
    graph_origin(g, node);
}

const UOp *store_wide(Graph *g, const UOp *root, const Target *t)
{
    if (t->max_block) return root;
    Arena *a = arena_new();
    uint32_t n;
    const UOp **order = uop_toposort(g, &root, 1, a, &n);
    Wide d = { g, t, { .arena = a }, NEW_N(a, bool, root->id + 1), NEW_N(a, const UOp *, root->id + 1),
               NEW_N(a, const UOp *, root->id + 1) };
    for (uint32_t i = 0; i < n; i++) {
        U u = order[i];
        bool sum = u->op == UOP_REDUCE && u->arg.i == UOP_ADD && u->dtype == DT_F32;
        if (sum && u->src[0]->op == UOP_MUL) note_sum(&d, u);
    }
    for (uint32_t i = 0; i < n; i++) rebuild(&d, order[i]);
    root = d.map[root->id];
    arena_free(a);
    return root;
}
