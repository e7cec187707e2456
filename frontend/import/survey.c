/* What of a model is not covered: operators, by opset and with their nodes, in bodies of functions and subgraphs too,
 * and types of inputs and outputs. */
#include "frontend/import/import.h"
#include "frontend/values/ports.h"

typedef struct { char *head, *names; int64_t count; } Missing;
typedef struct { const Model *model; Arena *arena; Map found; uint32_t depth; } Survey;

static void survey_nodes(Survey *s, const Node *node, uint32_t n, const OpsetDef *opset, uint32_t nopset);

static void survey_node(Survey *s, const Node *n, const OpsetDef *opset, uint32_t nopset)
{
    int64_t version = import_opset(opset, nopset, n->domain);
    if (!version && *n->domain) version = 1;
    if (import_local(s->model, n) || op_find(n->domain, n->op, version)) return;
    char *key =
        arena_printf(s->arena, "%s%s%s, opset %lld", n->domain, *n->domain ? "." : "", n->op, (long long)version);
    Missing *m = map_gets(&s->found, key);
    if (!m) map_puts(&s->found, key, m = NEW(s->arena, Missing)), m->head = key, m->names = arena_strdup(s->arena, "");
    if (m->count++ < 4)
        m->names = arena_printf(s->arena, "%s%s'%.80s'", m->names, m->count > 1 ? ", " : "", node_label(n));
}

static void survey_nodes(Survey *s, const Node *node, uint32_t n, const OpsetDef *opset, uint32_t nopset)
{
    if (s->depth++ > IMPORT_DEPTH) return;
    for (uint32_t k = 0; k < n; k++) {
        survey_node(s, &node[k], opset, nopset);
        for (uint32_t a = 0; a < node[k].nattr; a++)
            if (node[k].attr[a].type == ATTR_GRAPH && node[k].attr[a].graph)
                survey_nodes(s, node[k].attr[a].graph->node, node[k].attr[a].graph->nnode, opset, nopset);
    }
    s->depth--;
}

static uint32_t survey_inputs(Survey *s, const ValueDef *v, uint32_t n, void (*emit)(void *user, const char *line),
                              void *user)
{
    uint32_t found = 0;
    for (uint32_t k = 0; k < n; k++) {
        if (port_covered(&v[k])) continue;
        emit(user,
             arena_printf(s->arena, "input '%.80s' is %s, which is not covered", v[k].name,
                          v[k].kind == VALUE_UNKNOWN ? "of no known type" : "of such a type"));
        found++;
    }
    return found;
}

uint32_t import_unsupported(const Model *m, uint32_t *ports, void (*emit)(void *user, const char *line), void *user)
{
    Survey s = { .model = m, .arena = arena_new() };
    map_init(&s.found, s.arena);
    survey_nodes(&s, m->graph.node, m->graph.nnode, m->opset, m->nopset);
    for (uint32_t k = 0; k < m->nfunction; k++)
        survey_nodes(&s, m->function[k].node, m->function[k].nnode, m->function[k].opset, m->function[k].nopset);
    uint32_t count = s.found.count;
    for (uint32_t k = 0; k < count; k++) {
        const Missing *x = s.found.entry[k].value;
        char *rest = x->count > 4 ? arena_printf(s.arena, " and %lld more", (long long)x->count - 4) : "";
        emit(user,
             arena_printf(s.arena, "%s is not covered: node%s %s%s", x->head, x->count > 1 ? "s" : "", x->names, rest));
    }
    *ports = survey_inputs(&s, m->graph.input, m->graph.ninput, emit, user);
    arena_free(s.arena);
    return count;
}
