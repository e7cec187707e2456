/* Which inputs a session takes and which outputs it has: the model's graph as the importer sees it (s->model->graph) is
 * that of the file (s->whole) with initializers made inputs, and with the wanted outputs and what makes them. */
#include <string.h>

#include "frontend/session/compiled.h"
#include "graph/base/map.h"
#include "graph/base/memory.h"

static uint32_t optional_named(const GraphDef *g, const char *name)
{
    uint32_t k = 0;
    while (k < g->noptional && strcmp(g->optional[k].name, name)) k++;
    return k;
}

typedef struct { GraphDef *graph, before; } Changed;

static void undo_change(void *changed)
{
    const Changed *c = changed;
    *c->graph = c->before;
}

/* The graph becomes another, or everything stays as it was. */
static TgStatus begin_anew(TgSession *s, const GraphDef *graph)
{
    Changed c = { &s->model->graph, s->model->graph };
    FreeDims dims;
    Batch *batch = NULL;
    Undo undo;
    *c.graph = *graph;
    undo_push(&undo, undo_change, &c);
    TgStatus status = free_dims_new(&dims, s->arena, s->model, s->options.dims);
    if (status == TG_OK) status = batch_new(&batch, s->arena, s->model, &s->options);
    undo_pop(&undo);
    if (status != TG_OK) return undo_change(&c), session_in_file(s, status);
    session_drop_programs(s);
    batch_free(s->batch);
    s->dims = dims;
    s->batch = batch;
    return TG_OK;
}

static TgStatus give(TgSession *s, const char *name, bool given)
{
    GraphDef g = s->model->graph;
    const GraphDef *whole = &s->whole;
    uint32_t at = optional_named(whole, name);
    if (at == whole->noptional)
        return session_in_file(s, fail(TG_BAD_INPUT, "'%s' is no initializer that is an input's default value", name));
    if (s->given[at] == given) return TG_OK;
    if (s->family && !family_alone(s))
        return fail(TG_USAGE, "the session shares its model: '%s' stays as it is", name);
    ValueDef *in = NEW_N(s->arena, ValueDef, whole->ninput + whole->noptional + 1);
    TensorDef *init = NEW_N(s->arena, TensorDef, whole->ninit + 1);
    g.input = in, g.ninput = 0, g.init = init, g.ninit = 0;
    for (uint32_t k = 0; k < whole->ninput; k++) in[g.ninput++] = whole->input[k];
    for (uint32_t k = 0; k < whole->noptional; k++)
        if (k == at ? given : s->given[k]) in[g.ninput++] = whole->optional[k];
    for (uint32_t k = 0; k < whole->ninit; k++) {
        uint32_t of = optional_named(whole, whole->init[k].name);
        if (of == whole->noptional || !(of == at ? given : s->given[of])) init[g.ninit++] = whole->init[k];
    }
    TRY(begin_anew(s, &g));
    s->given[at] = given;
    return TG_OK;
}

static TgStatus attempt_give(TgSession *s, const char *name, bool given)
{
    TgStatus status;
    ATTEMPT(status, give(s, name, given));
    return status;
}

TgStatus tg_give(TgSession *s, const char *name, int32_t given)
{
    TgStatus status;
    RANKS_CALL(status, s->target.rank,
               (&(RanksWork){ .call = RANKS_GIVE, .session = s, .text = name, .count = given != 0 }),
               attempt_give(s, name, given != 0));
    return status;
}

/* ---- outputs ---- */

/* What a node reads, its subgraphs' nodes included: their own names may be among these, which makes at worst a node
 * that nobody needs one that is kept. */
static void add_reads(Map *read, const Node *n)
{
    for (uint32_t k = 0; k < n->nin; k++) map_puts(read, n->in[k], read);
    for (uint32_t k = 0; k < n->nattr; k++) {
        const GraphDef *sub = n->attr[k].graph;
        for (uint32_t i = 0; sub && i < sub->nnode; i++) add_reads(read, &sub->node[i]);
        for (uint32_t i = 0; sub && i < sub->noutput; i++) map_puts(read, sub->output[i].name, read);
    }
}

static void keep_nodes(GraphDef *g, const GraphDef *whole, Arena *a)
{
    Node *kept = NEW_N(a, Node, whole->nnode + 1);
    uint32_t first = whole->nnode;
    Arena *scratch = arena_new();
    Map read;
    map_init(&read, scratch);
    for (uint32_t k = 0; k < g->noutput; k++) map_puts(&read, g->output[k].name, &read);
    for (uint32_t n = whole->nnode; n--;) {
        const Node *node = &whole->node[n];
        bool needed = false;
        for (uint32_t k = 0; k < node->nout && !needed; k++) needed = *node->out[k] && map_gets(&read, node->out[k]);
        if (!needed) continue;
        add_reads(&read, node);
        kept[--first] = *node;
    }
    g->node = kept + first;
    g->nnode = whole->nnode - first;
    arena_free(scratch);
}

static TgStatus select_outputs(TgSession *s, const int32_t *index, int32_t count)
{
    GraphDef g = s->model->graph;
    const GraphDef *whole = &s->whole;
    for (int32_t k = 0; k < count; k++) {
        if (index[k] < 0 || (uint32_t)index[k] >= whole->noutput)
            return session_in_file(s, fail(TG_USAGE, "output %d: the model has %u", index[k], whole->noutput));
        const char *name = whole->output[index[k]].name;
        for (int32_t j = 0; j < k; j++)
            if (index[j] == index[k])
                return session_in_file(s, fail(TG_USAGE, "output '%s' is named twice", name));
    }
    if (s->saved) return session_in_file(s, compiled_fixed("outputs"));
    if (s->family && !family_alone(s)) return fail(TG_USAGE, "the session shares its model: its outputs stay");
    g.output = whole->output, g.noutput = whole->noutput, g.node = whole->node, g.nnode = whole->nnode;
    if (count > 0) {
        ValueDef *out = NEW_N(s->arena, ValueDef, count);
        for (int32_t k = 0; k < count; k++) out[k] = whole->output[index[k]];
        g.output = out, g.noutput = (uint32_t)count;
        keep_nodes(&g, whole, s->arena);
    }
    TRY(begin_anew(s, &g));
    s->bound = NULL;
    return TG_OK;
}

static TgStatus attempt_select(TgSession *s, const int32_t *index, int32_t count)
{
    TgStatus status;
    ATTEMPT(status, select_outputs(s, index, count));
    return status;
}

TgStatus tg_select_outputs(TgSession *s, const int32_t *index, int32_t count)
{
    TgStatus status;
    RANKS_CALL(status, s->target.rank,
               (&(RanksWork){ .call = RANKS_SELECT, .session = s, .index = index, .count = count }),
               attempt_select(s, index, count));
    return status;
}
