/* Placements, and what a FUNCTION means: its body with arguments in the place of PARAMs (blocks.h). */
#include <stdlib.h>
#include <string.h>

#include "graph/base/memory.h"
#include "graph/blocks.h"

/* ---- placements ---- */

Placement placement_of(const Placements *h, const UOp *u)
{
    return h && u->id < h->cap ? (Placement)h->placement[u->id] : PLACED_OPEN;
}

uint32_t placement_order(const Placements *h, const UOp *u)
{
    return h && u->id < h->cap && h->order[u->id] ? h->order[u->id] - 1 : u->id;
}

void placement_set(Placements *h, const UOp *u, Placement placement, uint32_t order)
{
    if (u->id >= h->cap) {
        uint32_t cap = u->id + u->id / 2 + 1024;
        h->placement = mem_grow(h->placement, cap * sizeof *h->placement);
        h->order = mem_grow(h->order, cap * sizeof *h->order);
        memset(h->placement + h->cap, 0, (cap - h->cap) * sizeof *h->placement);
        memset(h->order + h->cap, 0, (cap - h->cap) * sizeof *h->order);
        h->cap = cap;
    }
    h->placement[u->id] = (uint8_t)placement;
    h->order[u->id] = order + 1;
}

void placement_move(Placements *h, const UOp *to, const UOp *from)
{
    if (h && to != from) placement_set(h, to, placement_of(h, from), placement_order(h, from));
}

void placements_free(Placements *h)
{
    mem_free(h->placement);
    mem_free(h->order);
    *h = (Placements){ 0 };
}

/* ---- bodies ---- */

const UOp **graph_outer(Graph *g, const UOp *root, Arena *arena, uint32_t *count)
{
    uint8_t *mark = NEW_N(arena, uint8_t, root->id + 1);
    const UOp **order = NEW_N(arena, const UOp *, root->id + 1);
    mark[root->id] = 1;
    for (uint32_t id = root->id + 1; id-- > 0;) {
        const UOp *u = graph_node(g, id);
        for (uint32_t k = 0; mark[id] && !is_scope(u) && k < u->nsrc; k++) mark[u->src[k]->id] = 1;
    }
    *count = 0;
    for (uint32_t id = 0; id <= root->id; id++)
        if (mark[id]) order[(*count)++] = graph_node(g, id);
    return order;
}

typedef struct { const UOp *u; uint32_t next; } Frame;

const UOp *graph_rebuild(Graph *g, const UOp *root, const UOp **memo, Placements *placements)
{
    uint32_t top = 0, cap = 64;
    Frame *stack = mem_new(cap * sizeof *stack);
    if (!memo[root->id]) stack[top++] = (Frame){ root, 0 };
    while (top) {
        Frame *f = &stack[top - 1];
        const UOp *u = f->u;
        while (!is_scope(u) && f->next < u->nsrc && memo[u->src[f->next]->id]) f->next++;
        if (!is_scope(u) && f->next < u->nsrc) {
            const UOp *next = u->src[f->next];
            if (top == cap) stack = mem_grow(stack, (cap *= 2) * sizeof *stack);
            stack[top++] = (Frame){ next, 0 };
            continue;
        }
        const UOp *src[u->nsrc + 1];
        for (uint32_t k = 0; k < u->nsrc; k++) src[k] = is_scope(u) ? u->src[k] : memo[u->src[k]->id];
        memo[u->id] = uop_with(g, u, src);
        placement_move(placements, memo[u->id], u);
        top--;
    }
    mem_free(stack);
    return memo[root->id];
}

/* The values of a call, whose arguments hold no calls any more. */
static const UOp *body_of(Graph *g, const UOp *call, Arena *a)
{
    const UOp *f = call->src[0], *body = graph_inline(g, f->src[0]), **memo = NEW_N(a, const UOp *, graph_count(g));
    uint32_t n;
    const UOp **order = uop_toposort(g, &body, 1, a, &n);
    for (uint32_t i = 0; i < n; i++) {
        int64_t k = order[i]->op == UOP_PARAM ? order[i]->arg.i - f->arg.i : -1;
        if (k >= 0 && k + 1 < call->nsrc) memo[order[i]->id] = call->src[k + 1];
    }
    return graph_rebuild(g, body, memo, NULL);
}

const UOp *graph_inline(Graph *g, const UOp *root)
{
    Arena *a = arena_new();
    uint32_t n, count = graph_count(g);
    const UOp **order = uop_toposort(g, &root, 1, a, &n), **memo = NEW_N(a, const UOp *, count),
              **body = NEW_N(a, const UOp *, count);
    for (uint32_t i = 0; i < n; i++) {
        const UOp *u = order[i], *call = u->op == UOP_GETTUPLE && calls_function(u->src[0]) ? u->src[0] : NULL;
        if (!call) {
            graph_rebuild(g, u, memo, NULL);
            continue;
        }
        if (!body[call->id]) body[call->id] = body_of(g, memo[call->id], a);
        memo[u->id] = body[call->id]->src[u->arg.i];
    }
    root = memo[root->id];
    arena_free(a);
    return root;
}
