/* Rangeify: from tensors to kernels.
 *
 * Comes in: SINK of values over PARAMs (inputs), BUFFERs (constants) and results of CALLs. Goes out: a schedule of
 * kernels (kernel.h form 1) and host calls. One sweep from outputs to inputs (descending ids) carries demands: a node's
 * value is wanted at an index, in a kernel. Movement ops rewrite the index (index_map.c). For each node with demands
 * one decision: inline it into each of its consumers, or stage it in a GLOBAL buffer, which begins a kernel with fresh
 * ranges. A REDUCE that is inlined gets fresh REDUCE ranges; where it stands in the loop nest follows from the ranges
 * that its index depends on. Files: facts.c (of nodes, before the sweep), demand.c (what is wanted where), decide.c
 * (inline or store), index_map.c, cut.c.
 */
#include "graph/base/memory.h"
#include "sched/rangeify.h"
#include "graph/custom.h"
#include "graph/scalar.h"
#include "graph/wmma.h"

#include <stdlib.h>
#include <string.h>

/* ---- staging ---- */

static Cut *new_cut(Rangeify *r, const UOp *u, const UOp *buffer)
{
    if (r->ncut == r->cut_cap)
        r->cut = mem_grow(r->cut, (r->cut_cap = r->cut_cap ? r->cut_cap * 2 : 64) * sizeof *r->cut);
    Cut *c = &r->cut[r->ncut];
    memset(c, 0, sizeof *c);
    c->buffer = buffer;
    c->root = u;
    uint32_t rank = uop_rank(u);
    c->store = NEW_N(r->arena, const UOp *, rank + 1);
    for (uint32_t k = 0; k < rank; k++) c->store[k] = cut_range(r, c, uop_dim(u, k), AXIS_LOOP);
    c->nout = c->nrange;
    c->out = c->nrange ? (UINT64_C(2) << (c->nrange - 1)) - 1 : 0;
    c->inst = inst_new(r, u, r->ncut++, c->store, NULL, c->out);
    return c;
}

static const UOp *new_buffer(Rangeify *r, const UOp *u)
{
    BufferInfo info = { (DType)u->dtype, u->shape, NULL, (size_t)(uop_numel(u) * dtype_size((DType)u->dtype)), NULL };
    info.value = r->name ? r->name[u->id] : 0;
    return r->buffer[u->id] = graph_add_buffer(r->g, &info);
}

/* A join whose parts are the first of a join that is stored already (networks that append to what they have): it is
 * there. */
static const UOp *stored_join(const Rangeify *r, const UOp *u)
{
    for (uint32_t i = 0; i < r->njoin; i++) {
        const UOp *v = r->join[i];
        if (v->arg.i == u->arg.i && v->nsrc >= u->nsrc && !memcmp(v->src, u->src, u->nsrc * sizeof *u->src))
            return r->buffer[v->id];
    }
    return NULL;
}

/* One kernel a part, each storing its slice as soon as the part can be computed. */
static void stage_parts(Rangeify *r, const UOp *u)
{
    if (!r->forced[u->id] && (r->buffer[u->id] = stored_join(r, u))) return;
    r->join[r->njoin++] = u;
    const UOp *buffer = new_buffer(r, u), *begin = uop_index(r->g, 0);
    int64_t axis = u->arg.i;
    for (uint32_t k = 0; k < u->nsrc; k++) {
        Cut *c = new_cut(r, u->src[k], buffer);
        c->join = true;
        c->store[axis] = index_simplify(r, index_math(r->g, UOP_ADD, c->store[axis], begin));
        begin = index_simplify(r, index_math(r->g, UOP_ADD, begin, uop_dim(u->src[k], (uint32_t)axis)));
        Inst *i = c->inst;
        i->next = r->inst[u->src[k]->id];
        r->inst[u->src[k]->id] = i;
    }
}

/* What a RESHAPE shows is stored in the loops of its own shape: in those of another, every index would be a quotient
 * or a remainder. */
static bool stage_reshaped(Rangeify *r, const UOp *u)
{
    const UOp *s = u;
    while (s->op == UOP_RESHAPE) s = s->src[0];
    if (s == u || node_is_leaf(s) || !uop_static(s) || !uop_static(u)) return false;
    Cut *c = new_cut(r, s, new_buffer(r, u));
    const UOp **store = NEW_N(r->arena, const UOp *, uop_rank(u) + 1);
    index_reshape(r, s->shape, u->shape, c->store, store);
    c->store = store;
    c->root = u;
    c->inst->next = r->inst[s->id];
    r->inst[s->id] = c->inst;
    return true;
}

/* Does the device multiply values of that type as they are? */
static bool multiplies(const Target *t, DType type)
{
    for (int32_t row = 0; row < WMMA_COUNT; row++)
        if ((t->wmma >> row & 1) && (wmma_row[row].a == type || wmma_row[row].b == type)) return true;
    return t->max_block;
}

/* What is stored where a wider copy of it should be: the value before it was widened, of half the bytes or a quarter,
 * and in the type that tensor cores take. Products of wide numbers alone, which take each value many times, have it
 * widened once: where it is stored. */
static bool stage_narrow(Rangeify *r, const UOp *u)
{
    const UOp *s = u->src[0];
    if (!node_widens(u) || r->forced[u->id]) return false;
    if (r->multiplied[u->id] && r->users[s->id] == 1 && op_is((Op)s->op, FLAG_ALU) &&
        !multiplies(r->target, (DType)s->dtype))
        return false;
    while (s->op == UOP_RESHAPE || s->op == UOP_PERMUTE) s = s->src[0];
    if (!node_is_leaf(s)) r->forced[s->id] = 1;
    return true;
}

static bool decide(Rangeify *r, const UOp *u)
{
    Placement placement = placement_of(r->placements, u);
    if (placement != PLACED_OPEN) return placement != PLACED_INLINE;
    bool open = r->choices && is_open(r, u);
    if (open && choices_find(r->choices, SCHED_STORE, r->name[u->id])) return !stage_narrow(r, u);
    bool stored = is_stored(r, u);
    if (open && (stored ? can_inline(r, u) : is_repeated(r, u)))
        stored = choices_between(r->choices, (Either){ SCHED_STORE, SCHED_INLINE }, r->name[u->id], u, stored);
    return stored && !stage_narrow(r, u);
}

static void visit(Rangeify *r, const UOp *u)
{
    if (!r->inst[u->id] && !r->forced[u->id]) return;
    bool staged = r->inst[u->id] ? decide(r, u) : !node_is_leaf(u);
    if (node_is_leaf(u)) return;
    if (!staged)
        for (Inst *i = r->inst[u->id]; i; i = i->next) inst_push(r, i);
    else if (u->op == UOP_CAT) stage_parts(r, u);
    else if (!stage_reshaped(r, u)) {
        Inst *i = new_cut(r, u, new_buffer(r, u))->inst;
        i->root = true;
        inst_push(r, i);
    }
}

/* ---- the sweep ---- */

/* Outputs and whatever a CALL reads must lie in memory. */
static void force(Rangeify *r, const UOp *const *order, uint32_t n, const UOp *sink)
{
    for (uint32_t k = 0; k < sink_values(sink); k++) r->forced[sink->src[k]->id] = 1;
    for (uint32_t i = 0; i < n; i++)
        if (order[i]->op == UOP_CALL) {
            r->called[order[i]->id] = 1;
            for (uint32_t k = 1; k < order[i]->nsrc; k++) r->forced[order[i]->src[k]->id] = 1;
        }
    for (uint32_t i = 0; i < n; i++) {
        /* what another device reads */
        if (order[i]->op == UOP_COPY && !node_is_leaf(order[i]->src[0])) r->forced[order[i]->src[0]->id] = 1;
        if (order[i]->op == UOP_GETTUPLE) new_buffer(r, order[i]);
    }
}

static TgStatus unsupported(const UOp *const *order, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        switch ((Op)order[i]->op) {
        case UOP_ERROR:
        case UOP_STORE:
        case UOP_LOAD:
        case UOP_WMMA:
        case UOP_INS:
        case UOP_ATOMICADD:
        case UOP_CUSTOM:
        case UOP_REPLICATED:
        case UOP_BINARY: return fail(TG_INTERNAL, "rangeify: %s in a tensor graph", op_name((Op)order[i]->op));
        default: break;
        }
    return TG_OK;
}

/* Where an output lies: its buffer, or the input or constant that it is; a bare number gets memory of its own. */
static const UOp *output_place(Rangeify *r, const UOp *u)
{
    if (r->buffer[u->id]) return r->buffer[u->id];
    if (u->op != UOP_CONST) return u;
    void *data = arena_alloc(graph_arena(r->g), 8);
    scalar_store((DType)u->dtype, data, 0, u->arg.i);
    return graph_add_buffer(r->g,
                            &(BufferInfo){ .dtype = (DType)u->dtype,
                                           .shape = u->shape,
                                           .data = data,
                                           .size_bytes = (size_t)dtype_size((DType)u->dtype),
                                           .name = "" });
}

static Rangeify *rangeify_new(Graph *g, const Target *t, Placements *placements, Choices *choices)
{
    Rangeify *r = mem_new(sizeof *r);
    *r = (Rangeify){ .g = g, .target = t, .placements = placements, .choices = choices };
    r->arena = arena_new();
    r->nnode = graph_count(r->g);
    r->inst = NEW_N(r->arena, Inst *, r->nnode);
    r->buffer = NEW_N(r->arena, const UOp *, r->nnode);
    r->called = NEW_N(r->arena, uint8_t, r->nnode);
    r->stored = NEW_N(r->arena, uint8_t, r->nnode);
    r->multiplied = NEW_N(r->arena, uint8_t, r->nnode);
    r->users = NEW_N(r->arena, uint8_t, r->nnode);
    r->shown = NEW_N(r->arena, uint8_t, r->nnode);
    r->join = NEW_N(r->arena, const UOp *, r->nnode);
    r->forced = NEW_N(r->arena, uint8_t, r->nnode);
    r->reduces = NEW_N(r->arena, uint8_t, r->nnode);
    r->constant = NEW_N(r->arena, uint8_t, r->nnode);
    r->loads = NEW_N(r->arena, uint8_t, r->nnode);
    r->cost = NEW_N(r->arena, float, r->nnode);
    r->depth = NEW_N(r->arena, uint16_t, r->nnode);
    r->simplify = rewriter_new(r->g, rules_symbolic(), NULL);
    return r;
}

void rangeify_free(Rangeify *r)
{
    if (!r) return;
    functions_free(r);
    rewriter_free(r->simplify);
    mem_free(r->all);
    mem_free(r->place);
    mem_free(r->cut);
    arena_free(r->arena);
    mem_free(r);
}

static TgStatus sweep(Rangeify *r, const UOp *sink)
{
    uint32_t n;
    const UOp **order = graph_outer(r->g, sink, r->arena, &n);
    TRY(unsupported(order, n));
    force(r, order, n, sink);
    if (r->choices) r->name = value_names(order, n, r->nnode, r->arena);
    facts_gather(r, order, n);
    facts_foresee(r, order, n);
    for (uint32_t i = n; i-- > 0;)
        if (order[i] != sink) visit(r, order[i]);
    return graph_error(r->g);
}

TgStatus sched_rangeify(Schedule *out, Graph *g, const UOp *sink, const Target *t, Placements *placements,
                        Rangeify *swept, Choices *choices)
{
    Rangeify *r = swept ? swept : rangeify_new(g, t, placements, choices);
    TgStatus status = swept ? TG_OK : sweep(r, sink);
    if (status == TG_OK) status = cut_kernels(r, out);
    out->noutput = sink_values(sink);
    out->output = NEW_N(graph_arena(g), const UOp *, sink->nsrc + 1);
    for (uint32_t k = 0; k < out->noutput && status == TG_OK; k++) out->output[k] = output_place(r, sink->src[k]);
    if (!swept) rangeify_free(r);
    return status;
}

/* ---- functions ---- */

/* What the sweep decided, by node; memory of two values is PLACED_JOIN. */
static void keep_homes(const Rangeify *r, Placements *placements)
{
    uint32_t buffers = graph_buffer_count(r->g);
    uint8_t *uses = NEW_N(r->arena, uint8_t, buffers + 1);
    for (uint32_t id = 0; id < r->nnode; id++)
        if (r->buffer[id] && uses[buffer_slot(r->buffer[id])] < 2) uses[buffer_slot(r->buffer[id])]++;
    for (uint32_t id = 0; id < r->nnode; id++) {
        const UOp *b = r->buffer[id];
        if (b)
            placement_set(placements, graph_node(r->g, id), uses[buffer_slot(b)] > 1 ? PLACED_JOIN : PLACED_MEMORY, id);
        else if (r->inst[id]) placement_set(placements, graph_node(r->g, id), PLACED_INLINE, id);
    }
}

TgStatus sched_functions(const UOp **out, Placements *placements, Rangeify **swept, Graph *g, const UOp *sink,
                         const Target *t, Choices *choices)
{
    Rangeify *r = rangeify_new(g, t, NULL, choices);
    uint32_t buffers = graph_buffer_count(g);
    TgStatus status = sweep(r, sink);
    if (status == TG_OK) keep_homes(r, placements), *out = graph_blocks(g, sink, placements);
    r->placements = placements;
    *swept = status == TG_OK && *out == sink ? r : NULL;
    if (*swept) return graph_error(g);
    rangeify_free(r);
    graph_drop_buffers(g, buffers);
    return status == TG_OK ? graph_error(g) : status;
}
