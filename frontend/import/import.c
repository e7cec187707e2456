/* The walk: nodes of a checked Model come in, values of a tensor graph go out. Nodes are taken in order; each name
 * becomes a value; importers (rows of ops.def) say what an operator means. Must hold: an error names its node; nothing
 * in a file reaches an assert; work is linear in nodes (bodies of functions count each time they are called). */
#include "frontend/import/shape_query.h"

#include <string.h>

#include "frontend/import/standard.h"
#include "frontend/values/tuple.h"
#include "graph/base/watcher.h"
#include "graph/guard.h"

enum { NODES_MAX = 1000000 };
#define NUMEL_MAX \
    (INT64_C(1) << 42) /* elements of one value: no machine holds more, and sums of sizes stay far from overflow */

/* ---- names ---- */

Value *import_bind(Import *im, const char *name)
{
    Value *v = NEW(im->run->arena, Value);
    map_puts(&im->name, name, v);
    return v;
}

Value *import_find(Import *im, const char *name)
{
    for (; im; im = im->up) {
        Value *v = map_gets(&im->name, name);
        if (v) return v;
    }
    return NULL;
}

TgStatus import_lookup(U *out, Import *im, const Ctx *c, const char *name)
{
    Value *v = import_find(im, name);
    if (v && v->missing)
        return fail_at(TG_BAD_MODEL, node_label(c->node), c->node->op, NULL,
                       "input '%s' is wanted, which the function's call leaves out", name);
    if (!v && c)
        return fail_at(TG_BAD_MODEL, node_label(c->node), c->node->op, NULL,
                       "tensor '%s' is not defined before its use", name);
    if (!v) return fail(TG_BAD_MODEL, "output '%s' is not made by any node", name);
    if (!v->value) {
        v->value = import_constant(im->run->g, im->run->pool, v->init);
        v->known = v->init->numel <= IMPORT_KNOWN;
    }
    U x = question_answered(im->run, v->value);
    if (x != v->value) *v = (Value){ .value = x, .known = true, .from_data = true };
    *out = x;
    return graph_error(im->run->g);
}

/* ---- nodes ---- */

/* Gives an error without a place that of the node, once. */
static TgStatus place(Graph *g, const Node *n)
{
    const char *node, *op, *field;
    char text[900];
    TgStatus code = graph_error(g) != TG_OK ? graph_error(g) : TG_INTERNAL;
    tg_error_where(&node, &op, &field);
    if (*node) return code;
    strncpy(text, tg_error(), sizeof text - 1);
    text[sizeof text - 1] = 0;
    return fail_at(code, node_label(n), n->op, NULL, "%s", *text ? text : "failed without a message");
}

/* As many elements as x would have were none of its sizes 0: a tensor without elements may not have sizes that no sum
 * holds either. */
static int64_t extent(U x)
{
    int64_t n = 1;
    for (uint32_t k = 0; k < uop_rank(x); k++)
        if (uop_size(x, k) && __builtin_mul_overflow(n, uop_size(x, k), &n)) return INT64_MAX;
    return n;
}

static TgStatus bind_output(Import *im, const Ctx *c, uint32_t k, U u, bool known)
{
    Graph *g = im->run->g;
    const Node *n = c->node;
    int32_t kind = special_kind(u);
    /* of strings, narrow types and complex numbers what moves */
    U part[2];
    if (!*n->out[k]) return TG_OK;
    for (uint32_t i = 0; i < special_parts(kind); i++) {
        U x = special_part(u, i);
        bool tensor = x->dtype != DT_VOID;
        if (tensor && uop_rank(x) > TG_MAX_RANK)
            return fail_at(TG_LIMIT, node_label(n), n->op, n->out[k], "rank %u; at most %d", uop_rank(x), TG_MAX_RANK);
        if (tensor && extent(x) > NUMEL_MAX)
            return fail_at(TG_LIMIT, node_label(n), n->op, n->out[k], "sizes of %lld elements; at most %lld",
                           (long long)extent(x), (long long)NUMEL_MAX);
        /* no elements, no formula */
        if (tensor && !uop_numel(x)) x = expand(g, scalar(g, (DType)x->dtype, 0), x->shape->dim, uop_rank(x));
        part[i] = known ? import_fold(g, x) : x;
    }
    if (map_gets(&im->name, n->out[k]))
        return fail_at(TG_BAD_MODEL, node_label(n), n->op, n->out[k], "this tensor is already defined");
    U value = special_wrap(g, part, kind);
    if (n->nsharding) TRY(sharding_apply(im, n, n->out[k], &value));
    *import_bind(im, n->out[k]) = (Value){ .value = value,
                                           .known = part[0]->op == UOP_BUFFER || import_is_literal(part[0]),
                                           .from_data = c->from_data };
    return graph_error(g) == TG_OK ? TG_OK : place(g, n);
}

static TgStatus bind_outputs(Import *im, const Ctx *c, U result, bool known)
{
    const Node *n = c->node;
    if (n->nout <= 1) return n->nout ? bind_output(im, c, 0, result, known) : TG_OK;
    if (result->op != UOP_TUPLE || result->nsrc < n->nout)
        return fail_at(TG_BAD_MODEL, node_label(n), n->op, NULL, "%u outputs; it has %u", n->nout,
                       result->op == UOP_TUPLE ? result->nsrc : 1);
    for (uint32_t k = 0; k < n->nout; k++) TRY(bind_output(im, c, k, result->src[k], known));
    return TG_OK;
}

int64_t import_opset(const OpsetDef *o, uint32_t n, const char *domain)
{
    bool standard = !*domain || !strcmp(domain, "ai.onnx");
    for (uint32_t k = 0; k < n; k++)
        if (standard ? !*o[k].domain || !strcmp(o[k].domain, "ai.onnx") : !strcmp(o[k].domain, domain))
            return o[k].version;
    return 0;
}

/* Version of a domain in a frame; other domains than the standard's need not be declared. */
static int64_t frame_opset(const Import *im, const char *domain)
{
    int64_t v = import_opset(im->opset, im->nopset, domain);
    if (!v) v = import_opset(im->run->model->opset, im->run->model->nopset, domain);
    return v || !*domain ? v : 1;
}

const FunctionDef *import_local(const Model *m, const Node *n)
{
    for (uint32_t k = 0; k < m->nfunction; k++)
        if (!strcmp(m->function[k].name, n->op) && !strcmp(m->function[k].domain, n->domain)) return &m->function[k];
    return NULL;
}

/* A value that is no plain tensor goes to operators that know it; strings go as their numbers, narrow types as their
 * storage, complex ones part by part, to those that only move them. kind: what the results are then, TG_STRING, a
 * narrow or a complex type. */
static TgStatus special_input(Ctx *c, uint32_t k, const UOp **in, int32_t *kind, uint32_t part)
{
    const Node *n = c->node;
    TextUse use = text_use(n->op);
    int32_t type = special_kind(*in);
    if (takes_sequences(n->op) || (type && use == TEXT_KNOWS)) return TG_OK;
    if (!type)
        return fail_at(TG_BAD_MODEL, node_label(n), n->op, n->in[k], "is a sequence or optional; wanted a tensor");
    if (use != TEXT_MOVES && use != TEXT_ASKS &&
        !(use == TEXT_LINEAR && (complex_is(type) || type == (int32_t)TG_STRING)))
        return fail_at(TG_UNSUPPORTED, node_label(n), n->op, n->in[k],
                       "is of type %s, which this operator does not take", tg_type_name((TgType)type));
    *in = special_part(*in, part);
    c->text |= use == TEXT_LINEAR && type == (int32_t)TG_STRING;
    if (use != TEXT_ASKS) *kind = type;
    return TG_OK;
}

int32_t special_kind(U u)
{
    return is_text(u) ? (int32_t)TG_STRING : complex_type(u) ? complex_type(u) : narrow_type(u);
}
uint32_t special_parts(int32_t kind) { return complex_is(kind) ? 2 : 1; }
U special_part(U u, uint32_t k) { return special_kind(u) ? u->src[k] : u; }
U special_wrap(Graph *g, const U *part, int32_t kind)
{
    return !kind            ? part[0]
        : kind == TG_STRING ? text_wrap(g, part[0])
        : complex_is(kind)  ? complex_wrap(g, part, kind)
                            : narrow_wrap(g, part[0], kind);
}

/* The results of an operator that moved such values, part by part. */
static U wrap_results(Graph *g, const U *part, int32_t kind)
{
    if (!kind || part[0]->op != UOP_TUPLE) return special_wrap(g, part, kind);
    const UOp **v = NEW_N(graph_arena(g), const UOp *, part[0]->nsrc + 1), *each[2];
    for (uint32_t k = 0; k < part[0]->nsrc; k++) {
        for (uint32_t i = 0; i < special_parts(kind); i++) each[i] = part[i]->src[k];
        v[k] = special_wrap(g, each, kind);
    }
    return uop_new(g, UOP_TUPLE, DT_VOID, NO_ARG, v, part[0]->nsrc);
}

static TgStatus check_arity(const Ctx *c, const OpRow *row)
{
    const char *node = node_label(c->node), *op = c->node->op;
    if (c->nin > row->most) return fail_at(TG_BAD_MODEL, node, op, NULL, "%u inputs; at most %u", c->nin, row->most);
    for (uint32_t k = 0; k < row->least; k++)
        if (!c->in[k]) return fail_at(TG_BAD_MODEL, node, op, NULL, "input %u is missing; it needs %u", k, row->least);
    return TG_OK;
}

/* row: NULL for a function, whose nodes are checked when it is their turn. */
static TgStatus node_inputs(Import *im, Ctx *c, const OpRow *row, bool *known, int32_t *kind, uint32_t part)
{
    const Node *n = c->node;
    const UOp **in = NEW_N(im->run->arena, const UOp *, n->nin + CTX_INPUTS);
    for (uint32_t k = 0; k < n->nin; k++) {
        const Value *v = *n->in[k] ? import_find(im, n->in[k]) : NULL;
        if (!*n->in[k] || (v && v->missing)) continue;
        TRY(import_lookup(&in[k], im, c, n->in[k]));
        if (n->nsharding) TRY(sharding_apply(im, n, n->in[k], &in[k]));
        *known = *known && v->known;
        c->from_data |= v->from_data;
    }
    /* bodies capture what they like */
    for (uint32_t k = 0; k < n->nattr; k++) *known = *known && n->attr[k].type != ATTR_GRAPH;
    c->in = in;
    c->nin = n->nin;
    if (!row) return TG_OK;
    TRY(standard_check(im->run->g, c));
    for (uint32_t k = 0; k < n->nin; k++)
        if (in[k] && in[k]->op == UOP_TUPLE) TRY(special_input(c, k, &in[k], kind, part));
    return check_arity(c, row);
}

/* A body in place of its call: names of its own, inputs by position, outputs as a TUPLE. */
static TgStatus import_function(U *out, const Ctx *c, const FunctionDef *f)
{
    Run *run = c->im->run;
    Import im = { .run = run, .opset = f->opset, .nopset = f->nopset, .function = f, .call = c };
    const UOp **v = NEW_N(run->arena, const UOp *, f->nout + 1);
    ArenaMark mark = arena_mark(run->arena);        /* names inside are gone afterwards; values live in the graph */
    if (++run->depth > IMPORT_DEPTH)
        return fail_at(TG_BAD_MODEL, node_label(c->node), c->node->op, NULL, "functions call each other deeper than %d",
                       IMPORT_DEPTH);
    if (c->nin > f->nin)
        return fail_at(TG_BAD_MODEL, node_label(c->node), c->node->op, NULL, "%u inputs; at most %u", c->nin, f->nin);
    map_init(&im.name, run->arena);
    for (uint32_t k = 0; k < f->nin; k++) {
        U x = k < c->nin ? c->in[k] : NULL;
        *import_bind(&im, f->in[k]) = x
            ? (Value){ .value = x, .known = import_is_literal(x), .from_data = c->from_data }
            : (Value){ .missing = true };
    }
    TRY(import_nodes(&im, f->node, f->nnode));
    for (uint32_t k = 0; k < f->nout && k < c->nout; k++) TRY(import_lookup(&v[k], &im, c, f->out[k]));
    arena_release(run->arena, mark);
    run->depth--;
    *out = c->nout == 1 && f->nout
        ? v[0]
        : uop_new(run->g, UOP_TUPLE, DT_VOID, NO_ARG, v, f->nout < c->nout ? f->nout : c->nout);
    return TG_OK;
}

/* Where the data had a part in what an importer refuses, they do not fit: the model may be good. Not so where it names
 * an attribute. */
static TgStatus blame(const Ctx *c, TgStatus status)
{
    const char *node, *op, *field;
    tg_error_where(&node, &op, &field);
    if (status != TG_BAD_MODEL || !c->from_data || strcmp(op, c->node->op) != 0 || attr_find(c, field)) return status;
    return graph_error_is(c->im->run->g, TG_BAD_INPUT), TG_BAD_INPUT;
}

static TgStatus node_results(Import *im, Ctx *c, const FunctionDef *f, const OpRow *row)
{
    Run *run = im->run;
    bool known = true;
    uint32_t before = run->known ? run->known->used : 0;
    int32_t kind = 0;
    U result[2] = { NULL };
    for (uint32_t part = 0; part < special_parts(kind); part++) {
        TRY(node_inputs(im, c, row, &known, &kind, part));
        if (f) TRY(import_function(&result[part], c, f));
        else result[part] = row->fn(run->g, c);
        c->from_data |= run->known && run->known->used > before;
        if (!result[part] || graph_error(run->g) != TG_OK) return blame(c, place(run->g, c->node));
    }
    return bind_outputs(im, c, wrap_results(run->g, result, kind), known);
}

static TgStatus import_node(Import *im, const Node *n)
{
    Run *run = im->run;
    const FunctionDef *f = import_local(run->model, n);
    Ctx c = { .im = im, .node = n, .nout = n->nout, .opset = frame_opset(im, n->domain) };
    const OpRow *row = f ? NULL : op_find(n->domain, n->op, c.opset);
    if (++run->nodes > NODES_MAX) return fail(TG_LIMIT, "more than %d nodes with the bodies of functions", NODES_MAX);
    if (!f && !row)
        return fail_at(TG_UNSUPPORTED, node_label(n), n->op, NULL, "operator %s%s%s of opset %lld is not covered",
                       n->domain, *n->domain ? "." : "", n->op, (long long)c.opset);
    graph_at(run->g, node_label(n), n->op, n->nin > 1 ? n->in[1] : NULL);
    TgStatus status = node_results(im, &c, f, row);
    if (status != TG_OK) import_query_size(im, &c);
    return status;
}

TgStatus import_nodes(Import *im, const Node *node, uint32_t n)
{
    im->node = node, im->nnode = n;
    bool main_graph = !im->run->depth;
    for (uint32_t k = 0; k < n; k++) {
        if (main_graph) graph_origin(im->run->g, k + 1);
        TRY(watch_check());
        TRY(import_node(im, &node[k]));
    }
    if (main_graph) graph_origin(im->run->g, 0);
    return TG_OK;
}

void import_initializers(Import *im, const GraphDef *d)
{
    for (uint32_t k = 0; k < d->ninit; k++) *import_bind(im, d->init[k].name) = (Value){ .init = &d->init[k] };
}

static TgStatus subgraph(Graph *g, const Ctx *c, const SubGraph *s, const U *in, uint32_t nin, U *out, uint32_t nout)
{
    Run *run = c->im->run;
    const GraphDef *sub = s->def;
    Import im = *s->frame;
    ArenaMark mark = arena_mark(run->arena);
    im.up = s->frame;
    map_init(&im.name, run->arena);
    if (++run->depth > IMPORT_DEPTH)
        return fail_at(TG_LIMIT, node_label(c->node), c->node->op, NULL, "subgraphs are nested deeper than %d",
                       IMPORT_DEPTH);
    if (nin != sub->ninput || nout > sub->noutput)
        return fail_at(TG_BAD_MODEL, node_label(c->node), c->node->op, sub->name,
                       "the subgraph has %u inputs and %u outputs; wanted %u and %u", sub->ninput, sub->noutput, nin,
                       nout);
    import_initializers(&im, sub);
    for (uint32_t k = 0; k < nin; k++)
        *import_bind(&im, sub->input[k].name) =
            (Value){ .value = in[k], .known = import_is_literal(in[k]), .from_data = c->from_data };
    TRY(import_nodes(&im, sub->node, sub->nnode));
    for (uint32_t k = 0; k < nout; k++) TRY(import_lookup(&out[k], &im, c, sub->output[k].name));
    arena_release(run->arena, mark);
    run->depth--;
    return graph_error(g);
}

TgStatus import_failure(Graph *g, TgStatus status)
{
    const char *node, *op, *field;
    if (status == TG_OK || graph_error(g) != TG_OK) return status;
    tg_error_where(&node, &op, &field);
    Arena *arena = graph_arena(g);
    char *line = arena_strdup(arena, tg_error()), *head = arena_printf(arena, "node '%s' (%s): ", node, op);
    char *at = arena_strdup(arena, node), *by = arena_strdup(arena, op);
    graph_fail_code(g, status, "%s", line);
    return *at ? fail_at(status, at, by, NULL, "%s", strncmp(line, head, strlen(head)) ? line : line + strlen(head))
               : status;
}

TgStatus import_subgraph(Graph *g, const Ctx *c, const SubGraph *sub, const U *in, uint32_t nin, U *out, uint32_t nout)
{
    uint32_t depth = c->im->run->depth;
    TgStatus status = subgraph(g, c, sub, in, nin, out, nout);
    c->im->run->depth = depth;                      /* an importer may go on after a failure */
    return import_failure(g, status);
}

/* ---- a part once more ---- */

/* Marks what node n makes as made of `changed` names, where an input is, or a subgraph might be. */
static bool spread(Map *changed, const Node *n)
{
    bool made = false;
    for (uint32_t k = 0; k < n->nin && !made; k++) made = map_gets(changed, n->in[k]) != NULL;
    for (uint32_t k = 0; k < n->nattr && !made; k++) made = n->attr[k].type == ATTR_GRAPH;
    for (uint32_t k = 0; k < n->nout && made; k++)
        if (*n->out[k] && !map_gets(changed, n->out[k])) map_puts(changed, n->out[k], (void *)(uintptr_t)n);
    return made;
}

/* Nodes that make y, back to those that nothing changes; *kept: in order. */
static uint32_t between(Import *im, const Node *until, Map *changed, const char *y, const Node **kept)
{
    Map wanted;
    uint32_t n = 0, last = (uint32_t)(until - im->node);
    bool *made = NEW_N(im->run->arena, bool, last + 1);
    map_init(&wanted, im->run->arena);
    map_puts(&wanted, y, changed);
    for (uint32_t k = 0; k < last; k++) made[k] = spread(changed, &im->node[k]);
    for (uint32_t k = last; k-- > 0;) {
        const Node *node = &im->node[k];
        bool use = false;
        for (uint32_t o = 0; o < node->nout && made[k]; o++)
            use |= map_gets(&wanted, node->out[o]) && map_gets(changed, node->out[o]) == node;
        for (uint32_t i = 0; i < node->nin && use; i++) map_puts(&wanted, node->in[i], changed);
        if (use) kept[n++] = node;
    }
    for (uint32_t k = 0; k < n / 2; k++) {
        const Node *first = kept[k];
        kept[k] = kept[n - 1 - k], kept[n - 1 - k] = first;
    }
    return n;
}

static TgStatus value_once_more(U *out, const Ctx *c, const char *y, const char *const *name, const U *value,
                                uint32_t n)
{
    Run *run = c->im->run;
    Import im = *c->im;
    Map changed;
    ArenaMark mark = arena_mark(run->arena);
    if (++run->depth > IMPORT_DEPTH)
        return fail_at(TG_LIMIT, node_label(c->node), c->node->op, NULL, "nested deeper than %d", IMPORT_DEPTH);
    im.up = c->im;
    map_init(&im.name, run->arena);
    map_init(&changed, run->arena);
    for (uint32_t k = 0; k < n; k++) {
        if (map_gets(&im.name, name[k]))
            return fail_at(TG_BAD_MODEL, node_label(c->node), c->node->op, NULL, "'%s' twice", name[k]);
        *import_bind(&im, name[k]) = (Value){ .value = value[k], .from_data = c->from_data };
        map_puts(&changed, name[k], &im);
    }
    const Node **kept = NEW_N(run->arena, const Node *, im.nnode + 1);
    uint32_t count = between(c->im, c->node, &changed, y, kept);
    for (uint32_t k = 0; k < count; k++) TRY(import_node(&im, kept[k]));
    TRY(import_lookup(out, &im, c, y));
    arena_release(run->arena, mark);
    run->depth--;
    return graph_error(run->g);
}

TgStatus import_value(U *out, const Ctx *c, const char *y, const char *const *name, const U *value, uint32_t n)
{
    return import_failure(c->im->run->g, value_once_more(out, c, y, name, value, n));
}
