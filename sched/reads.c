/* How many tensors one kernel may read: a value made of very many (a sum of a hundred inputs) is stored on the way.
 *
 * Comes in: a SINK, bodies of loops and branches within it, of which a kernel read too many. Goes out: the same with
 * CONTIGUOUS around some values, such that everything else is made of at most `most` tensors in memory, whatever is
 * inlined into it. Rangeify may store more values than these, and a kernel then reads those besides: `most` is well
 * below KERNEL_PARAMS.
 */
#include "sched/sched.h"

/* By node id: the tensors in memory that the value is made of, ascending. */
typedef struct { uint32_t n; const uint32_t *id; } Reads;
typedef struct {
    Graph *g;
    Arena *arena;
    uint32_t most;
    Reads *reads;
    bool *stored;
} Limit;

/* What a view shows: it needs no place of its own. */
static const UOp *shown(const UOp *u)
{
    while (op_is((Op)u->op, FLAG_MOVE)) u = u->src[0];
    return u;
}

static uint32_t values_of(const UOp *u)
{
    return u->op == UOP_REDUCE                                                                       ? 1
        : op_is((Op)u->op, FLAG_ALU) || u->op == UOP_INDEX || u->op == UOP_CAT || u->op == UOP_STACK ? u->nsrc
                                                                                                     : 0;
}

static Reads alone(Limit *l, const UOp *u) { return (Reads){ 1, arena_copy(l->arena, &u->id, sizeof u->id) }; }

static Reads both(Limit *l, Reads a, Reads b)
{
    uint32_t *id = NEW_N(l->arena, uint32_t, a.n + b.n + 1), n = 0, i = 0, k = 0;
    while (i < a.n || k < b.n) {
        uint32_t x = i < a.n ? a.id[i] : UINT32_MAX, y = k < b.n ? b.id[k] : UINT32_MAX;
        id[n++] = x < y ? x : y;
        i += x <= y, k += y <= x;
    }
    return n == a.n ? a : n == b.n ? b : (Reads){ n, id };
}

static Reads all_of(Limit *l, const UOp *u)
{
    Reads all = { 0 };
    for (uint32_t k = 0; k < values_of(u); k++) all = both(l, all, l->reads[shown(u->src[k])->id]);
    return all;
}

/* The source that reads most is stored, while u reads too many. */
static Reads limited(Limit *l, const UOp *u)
{
    Reads all = all_of(l, u);
    while (all.n > l->most) {
        const UOp *largest = NULL;
        for (uint32_t k = 0; k < values_of(u); k++) {
            const UOp *s = shown(u->src[k]);
            if (!largest || l->reads[s->id].n > l->reads[largest->id].n) largest = s;
        }
        if (l->reads[largest->id].n < 2) break;
        l->stored[largest->id] = true;
        l->reads[largest->id] = alone(l, largest);
        all = all_of(l, u);
    }
    return all;
}

const UOp *limit_reads(Graph *g, const UOp *sink, uint32_t most)
{
    Limit l = { .g = g, .arena = arena_new(), .most = most };
    uint32_t n, all = graph_count(g);
    const UOp **order = uop_toposort(g, &sink, 1, l.arena, &n), **made = NEW_N(l.arena, const UOp *, all);
    l.reads = NEW_N(l.arena, Reads, all);
    l.stored = NEW_N(l.arena, bool, all);
    for (uint32_t i = 0; i < n; i++) {
        const UOp *u = order[i];
        bool memory = u->op == UOP_PARAM || u->op == UOP_BUFFER || u->op == UOP_GETTUPLE || u->op == UOP_CONTIGUOUS ||
            u->op == UOP_COPY;
        l.reads[u->id] = memory ? alone(&l, u) : limited(&l, u);
    }
    for (uint32_t i = 0; i < n; i++) {
        const UOp *u = order[i], **src = NEW_N(l.arena, const UOp *, u->nsrc + 1);
        for (uint32_t k = 0; k < u->nsrc; k++) src[k] = made[u->src[k]->id];
        made[u->id] = uop_with(g, u, src);
        if (l.stored[u->id]) made[u->id] = UOP(g, UOP_CONTIGUOUS, DT_VOID, NO_ARG, made[u->id]);
    }
    sink = made[sink->id];
    arena_free(l.arena);
    return sink;
}
