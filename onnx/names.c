/* Who makes which name. In: a body whose nodes are decoded. Out: the same, its nodes in an order in which each follows
 * those that it reads (the standard wants files in that order, some writers do not care), and the names that it takes
 * from around it. Refused: a name with two makers, cycles. Shadowing a name of an outer graph is allowed: the inner one
 * wins.
 */
#include <stdio.h>
#include <string.h>

#include "graph/base/map.h"
#include "onnx/loader.h"

enum { BY_INPUT = 1, BY_INIT = 2, BY_NODE = 4, NOBODY = 0 };       /* values of the map; BY_NODE + k is node k */

static uintptr_t maker_of(const Map *m, const char *name) { return (uintptr_t)map_gets(m, name); }
static void set_maker(Map *m, const char *name, uintptr_t who) { map_puts(m, name, (void *)who); }

static TgStatus add_given(Map *m, const Body *b, const char *const *name, uint32_t n, uintptr_t who, const char *what)
{
    for (uint32_t k = 0; k < n; k++) {
        uintptr_t before = maker_of(m, name[k]);
        if (!*name[k]) return fail_at(TG_BAD_MODEL, NULL, NULL, b->where, "%s %u has no name", what, k);
        if (before & who) return fail_at(TG_BAD_MODEL, NULL, NULL, b->where, "%s '%s' is given twice", what, name[k]);
        set_maker(m, name[k], before | who);
    }
    return TG_OK;
}

static TgStatus add_nodes(Map *m, const Body *b)
{
    for (uint32_t i = 0; i < b->nnode; i++) {
        const Node *n = &b->node[i];
        for (uint32_t k = 0; k < n->nout; k++) {
            if (!*n->out[k]) continue;
            uintptr_t before = maker_of(m, n->out[k]);
            if (before >= BY_NODE)
                return fail_at(TG_BAD_MODEL, n->name, n->op, "output", "'%s' is made by node '%s' too", n->out[k],
                               b->node[before - BY_NODE].name);
            if (before)
                return fail_at(TG_BAD_MODEL, n->name, n->op, "output", "'%s' is the name of an %s too", n->out[k],
                               before & BY_INIT ? "initializer" : "input");
            set_maker(m, n->out[k], BY_NODE + i);
        }
    }
    return TG_OK;
}

/* The k-th name that node i reads, itself or in a subgraph; NULL after the last. */
static const char *reads(const Body *b, uint32_t i, uint32_t k)
{
    uint32_t nin = b->node[i].nin;
    return k < nin ? b->node[i].in[k] : k - nin < b->captured[i].n ? b->captured[i].v[k - nin].name : NULL;
}

static bool in_order(const Map *m, const Body *b)
{
    const char *name;
    for (uint32_t i = 0; i < b->nnode; i++)
        for (uint32_t k = 0; (name = reads(b, i, k)); k++)
            if (maker_of(m, name) >= BY_NODE + i) return false;
    return true;
}

static TgStatus cycle(const Body *b, const uint32_t *stack, uint32_t depth, uint32_t again)
{
    char text[400];
    size_t len = 0;
    uint32_t first = depth;
    while (stack[first - 1] != again) first--;
    for (uint32_t k = depth; k >= first && len < 300; k--)
        len += (size_t)snprintf(text + len, sizeof text - len, "'%.80s' -> ", b->node[stack[k - 1]].name);
    const Node *n = &b->node[again];
    return fail_at(TG_BAD_MODEL, n->name, n->op, "input", "nodes form a cycle: %s...", text);
}

/* Depth first with a stack of our own, nodes in the file's order: those that are in order already stay where they are.
 */
static TgStatus sort(const Map *m, Body *b, Arena *scratch)
{
    uint32_t n = b->nnode, depth = 0, done = 0;
    uint32_t *stack = NEW_N(scratch, uint32_t, n), *order = NEW_N(scratch, uint32_t, n),
             *at = NEW_N(scratch, uint32_t, n);
    enum { NEW_NODE, OPEN, DONE };
    uint8_t *state = NEW_N(scratch, uint8_t, n);
    for (uint32_t i = 0; i < n; i++) {
        if (state[i] == NEW_NODE) state[stack[depth++] = i] = OPEN;
        while (depth) {
            uint32_t top = stack[depth - 1];
            const char *name = reads(b, top, at[top]++);
            if (!name) {
                state[order[done++] = top] = DONE;
                depth--;
                continue;
            }
            uintptr_t who = maker_of(m, name);
            if (who < BY_NODE || state[who - BY_NODE] == DONE) continue;
            if (state[who - BY_NODE] == OPEN) return cycle(b, stack, depth, (uint32_t)(who - BY_NODE));
            state[stack[depth++] = (uint32_t)(who - BY_NODE)] = OPEN;
        }
    }
    Node *node = arena_copy(scratch, b->node, sizeof *node * n);
    Wants *captured = arena_copy(scratch, b->captured, sizeof *captured * n);
    for (uint32_t k = 0; k < n; k++) {
        b->node[k] = node[order[k]];
        b->captured[k] = captured[order[k]];
    }
    return TG_OK;
}

static void want(Wants *w, const char *name, const Node *reader, Arena *scratch)
{
    if (w->n == w->cap) {
        Want *v = NEW_N(scratch, Want, w->cap ? w->cap * 2 : 8);
        if (w->n) memcpy(v, w->v, sizeof *v * w->n);
        w->v = v;
        w->cap = w->cap ? w->cap * 2 : 8;
    }
    w->v[w->n++] = (Want){ name, reader };
}

/* Each missing name once. */
static void add_wants(Wants *wants, Map *m, const char *name, const Node *reader, Arena *scratch)
{
    if (!*name || maker_of(m, name) != NOBODY) return;
    want(wants, name, reader, scratch);
    set_maker(m, name, BY_INPUT);
}

TgStatus names_check(Body *b, Wants *wants, Arena *scratch)
{
    Map m;
    map_init(&m, scratch);
    TRY(add_given(&m, b, b->input, b->ninput, BY_INPUT, "input"));
    TRY(add_given(&m, b, b->init, b->ninit, BY_INIT, "initializer"));
    TRY(add_nodes(&m, b));
    if (!in_order(&m, b)) TRY(sort(&m, b, scratch));
    for (uint32_t i = 0; i < b->nnode; i++) {
        for (uint32_t k = 0; k < b->node[i].nin; k++) add_wants(wants, &m, b->node[i].in[k], &b->node[i], scratch);
        for (uint32_t k = 0; k < b->captured[i].n; k++)
            add_wants(wants, &m, b->captured[i].v[k].name, b->captured[i].v[k].reader, scratch);
    }
    for (uint32_t k = 0; k < b->noutput; k++) {
        if (!*b->output[k]) return fail_at(TG_BAD_MODEL, NULL, NULL, b->where, "output %u has no name", k);
        add_wants(wants, &m, b->output[k], NULL, scratch);
    }
    return TG_OK;
}

TgStatus names_refuse(const Body *b, const Wants *wants)
{
    if (!wants->n) return TG_OK;
    const Want *w = &wants->v[0];
    if (!w->reader) return fail_at(TG_BAD_MODEL, NULL, NULL, b->where, "output '%s' is made by nobody", w->name);
    return fail_at(TG_BAD_MODEL, w->reader->name, w->reader->op, "input",
                   "'%s' is made by no node, input or initializer", w->name);
}
