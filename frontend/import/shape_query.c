/* See shape_query.h. In: an import that has failed for want of a value. Out: the graph that computes it, and later the
 * answer in its place. Must hold: an import is the same again up to the first use of its last answer, so that the
 * number of a node names a value: a question about an older node forgets the answers about younger ones, and what else
 * changes imports (values baked in, sizes that are variables) all of them.
 */
#include "frontend/import/shape_query.h"

#include <string.h>

#include "frontend/values/ports.h"
#include "graph/custom.h"

static U plain_of(U x) { return special_part(x, 0); }
static uint32_t id_of(U x) { return complex_type(x) ? x->id : plain_of(x)->id; }
static int32_t kind_of(TgType type)
{
    return type == TG_STRING || narrow_is((int32_t)type) || complex_is((int32_t)type) ? (int32_t)type : 0;
}

U question_answered(const Run *run, U x)
{
    for (uint32_t k = 0; run->known && k < run->known->n; k++)
        if (run->known->item[k].node == id_of(x) && kind_of(run->known->item[k].value.type) == special_kind(x))
            return run->known->used++, border_constant(run, &run->known->item[k].value);
    return x;
}

/* ---- what a value is made of ---- */

/* Nodes that root reaches, sources first; a body is a scope of its own. */
static U *reached(Graph *g, U root, Arena *a, uint32_t *count)
{
    uint32_t all;
    const UOp **order = uop_toposort(g, &root, 1, a, &all), **kept = NEW_N(a, const UOp *, all + 1);
    bool *inside = NEW_N(a, bool, graph_count(g));
    inside[root->id] = true;
    for (uint32_t k = all; k-- > 0;)
        for (uint32_t i = 0; inside[order[k]->id] && order[k]->op != UOP_CUSTOMFUNCTION && i < order[k]->nsrc; i++)
            inside[order[k]->src[i]->id] = true;
    *count = 0;
    for (uint32_t k = 0; k < all; k++)
        if (inside[order[k]->id]) kept[(*count)++] = order[k];
    return kept;
}

/* Does a call set this size? None does those of inputs, and those of a loop that is being made. */
static bool is_set(Graph *g, U var)
{
    for (uint32_t k = 0; k < graph_count(g); k++)
        if (call_sets(graph_node(g, k), var)) return true;
    return false;
}

/* ---- what can be queried ---- */

static bool is_input_size(const Run *run, U var)
{
    for (uint32_t k = 0; run->dims && k < run->dims->nvar; k++)
        if (!strcmp(run->dims->var[k].name, var_name(var))) return true;
    return false;
}

/* Is all that x is made of at hand, outside of bodies that are being made? */
static bool can_ask(const Run *run, U x)
{
    U part[2] = { special_part(x, 0), complex_type(x) ? special_part(x, 1) : NULL };
    Arena *a = arena_new();
    uint32_t count;
    U sink = sink_of(run->g, part, special_parts(special_kind(x))), *u = reached(run->g, sink, a, &count);
    bool good = true;
    for (uint32_t k = 0; k < count && good; k++) {
        if (u[k]->op == UOP_PARAM) good = u[k]->arg.i < run->ninput;
        if (u[k]->op == UOP_DEFINE_VAR) good = is_input_size(run, u[k]) || is_set(run->g, u[k]);
    }
    arena_free(a);
    return good;
}

U import_query(Import *im, U x)
{
    U known = question_answered(im->run, x), plain = plain_of(x);
    if (known != x) return known;
    if (im->run->known && plain->dtype != DT_VOID && plain->op != UOP_ERROR && can_ask(im->run, x))
        im->run->question = x;
    return NULL;
}

/* ---- sizes ---- */

/* In a size, or in those of a value, of the tensors of a sequence too. */
static U told_of(Graph *g, U u)
{
    bool size = u->dtype == DT_INDEX && !uop_rank(u);
    U found = size && u->op == UOP_DEFINE_VAR && size_from_data(g, u) ? u : NULL;
    for (uint32_t k = 0; (size || u->op == UOP_TUPLE) && k < u->nsrc && !found; k++) found = told_of(g, u->src[k]);
    for (uint32_t k = 0; !size && u->op != UOP_TUPLE && k < uop_rank(u) && !found; k++)
        found = told_of(g, uop_dim(u, k));
    return found;
}

void import_query_size(Import *im, const Ctx *c)
{
    for (uint32_t k = 0; k < c->nin && !im->run->question; k++) {
        U size = c->in[k] ? told_of(im->run->g, c->in[k]) : NULL;
        if (size) import_query(im, size);
    }
}

U size_answered(const Run *run, U var)
{
    U x = question_answered(run, var);
    return x == var ? var : uop_index(run->g, uop_const_int(known_scalar(run->g, x)));
}

bool import_queries(const Import *im) { return im->run->known != NULL; }

/* ---- the question ---- */

TgStatus question_import(Imported *out, Run *run)
{
    U x = run->question, y = x->dtype == DT_INDEX ? cast(run->g, x, DT_I64) : x;
    ValueDef port = { .name = "", .kind = VALUE_UNKNOWN, .rank = -1 };
    while (run->known->n && run->known->item[run->known->n - 1].node > id_of(x)) run->known->n--;
    if (run->known->queries++ == QUESTIONS_MAX)
        return fail(TG_LIMIT, "sizes depend on more than %d values that only a run can tell", QUESTIONS_MAX);
    graph_error_clear(run->g);
    import_inputs(out, run);
    out->question = true;
    out->node = id_of(x);
    return border_outputs(out, &(GraphDef){ .output = &port, .noutput = 1 }, &y);
}
