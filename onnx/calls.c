/* Who calls which model-local function. In: a Model whose names are checked. Refused: operators of a domain that is not
 * imported, functions given twice, calls in circles, and bodies that would grow beyond a million nodes when they stand
 * in place of every call (each function of a chain calling the next one twice doubles it).
 */
#include <string.h>

#include "graph/base/map.h"
#include "onnx/loader.h"

enum { MAX_CALL_DEPTH = 64, MAX_NODES = 1000000 };
/* of a function's body with every call replaced */
typedef struct { uint64_t nodes; enum { NEW_FUNCTION, OPEN, DONE } state; uint32_t height; } Size;
typedef struct { const Model *m; Map by_name; Arena *scratch; Size *size; } Calls;
typedef struct { const OpsetDef *opset; uint32_t nopset; } Imports;

static void *function_key(const Calls *c, const char *domain, const char *name, size_t *len)
{
    *len = strlen(domain) + strlen(name) + 1;
    return arena_printf(c->scratch, "%s\n%s", domain, name);
}

/* Index + 1, or 0. */
static uint32_t function_find(const Calls *c, const char *domain, const char *name)
{
    size_t len;
    if (!c->m->nfunction) return 0;
    void *key = function_key(c, domain, name, &len);
    return (uint32_t)(uintptr_t)map_get(&c->by_name, key, len);
}

/* onnxruntime's own domain is there without being imported: models that its tools write rely on that. */
static bool imported(const Imports *im, const char *domain)
{
    if (!strcmp(domain, "com.microsoft")) return true;
    for (uint32_t k = 0; k < im->nopset; k++)
        if (!strcmp(im->opset[k].domain, domain)) return true;
    return false;
}

static TgStatus visit(Calls *c, uint32_t f, uint32_t depth);

static TgStatus walk(Calls *c, const Node *node, uint32_t n, const Imports *im, uint32_t depth, Size *size)
{
    for (uint32_t i = 0; i < n; i++) {
        uint32_t f = function_find(c, node[i].domain, node[i].op);
        if (!f && !imported(im, node[i].domain))
            return fail_at(TG_BAD_MODEL, node[i].name, node[i].op, "domain", "'%s' is not among the opset imports",
                           *node[i].domain ? node[i].domain : "ai.onnx");
        if (f) TRY(visit(c, f - 1, depth + 1));
        size->nodes += f ? c->size[f - 1].nodes : 1;
        if (f && size->height <= c->size[f - 1].height) size->height = c->size[f - 1].height + 1;
        for (uint32_t k = 0; k < node[i].nattr; k++)
            if (node[i].attr[k].graph)
                TRY(walk(c, node[i].attr[k].graph->node, node[i].attr[k].graph->nnode, im, depth, size));
        if (size->nodes > MAX_NODES)
            return fail_at(TG_LIMIT, node[i].name, node[i].op, NULL,
                           "more than %d nodes once functions are put in place of their calls", MAX_NODES);
        if (size->height > MAX_CALL_DEPTH)
            return fail_at(TG_LIMIT, node[i].name, node[i].op, NULL, "functions call one another more than %d deep",
                           MAX_CALL_DEPTH);
    }
    return TG_OK;
}

static TgStatus visit(Calls *c, uint32_t f, uint32_t depth)
{
    const FunctionDef *def = &c->m->function[f];
    Size *size = &c->size[f];
    if (size->state == DONE) return TG_OK;
    if (size->state == OPEN)
        return fail_at(TG_BAD_MODEL, NULL, NULL, "function", "'%s' calls itself, directly or through others",
                       def->name);
    if (depth > MAX_CALL_DEPTH)
        return fail_at(TG_LIMIT, NULL, NULL, "function", "'%s' is called more than %d deep", def->name, MAX_CALL_DEPTH);
    size->state = OPEN;
    TRY(walk(c, def->node, def->nnode, &(Imports){ def->opset, def->nopset }, depth, size));
    size->state = DONE;
    return TG_OK;
}

TgStatus calls_check(const Model *m, Arena *scratch)
{
    Calls c = { .m = m, .scratch = scratch, .size = NEW_N(scratch, Size, m->nfunction) };
    Size whole = { 0 };
    map_init(&c.by_name, scratch);
    for (uint32_t k = 0; k < m->nfunction; k++) {
        size_t len;
        void *key = function_key(&c, m->function[k].domain, m->function[k].name, &len);
        if (map_get(&c.by_name, key, len))
            return fail_at(TG_BAD_MODEL, NULL, NULL, "function", "'%s' is given twice", m->function[k].name);
        map_put(&c.by_name, key, len, (void *)(uintptr_t)(k + 1));
    }
    for (uint32_t k = 0; k < m->nfunction; k++) TRY(visit(&c, k, 0));
    return walk(&c, m->graph.node, m->graph.nnode, &(Imports){ m->opset, m->nopset }, 0, &whole);
}
