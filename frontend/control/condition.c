/* See condition.h. The part that makes the condition is imported twice. First with a variable for each integer state,
 * which shows by how much an iteration changes it. Then with every state as a formula of the iteration's number: the
 * condition becomes a comparison of such formulas, and where it is linear, the first iteration that makes it false
 * follows by a division.
 */
#include <string.h>

#include "frontend/control/condition.h"
#include "frontend/import/import.h"

/* So many iterations, and steps of a counter, are within the formulas: casts of the values to f32, as exporters compare
 * them, are exact. A state's variable is at most so far from 0. */
enum { COUNTED_MAX = 1 << 20, STEP_MAX = 1 << 8, STATE_MAX = 1 << 29 };

/* ---- the part of the body ---- */

static void mark_uses(Map *used, const Node *n)
{
    for (uint32_t k = 0; k < n->nin; k++) map_puts(used, n->in[k], used);
    for (uint32_t k = 0; k < n->nattr; k++)
        for (uint32_t i = 0; n->attr[k].graph && i < n->attr[k].graph->nnode; i++)
            mark_uses(used, &n->attr[k].graph->node[i]);
    for (uint32_t k = 0; k < n->nattr; k++)
        for (uint32_t i = 0; n->attr[k].graph && i < n->attr[k].graph->noutput; i++)
            map_puts(used, n->attr[k].graph->output[i].name, used);
}

/* Nodes of which the used names are made; in order. */
static uint32_t nodes_for(Map *used, const GraphDef *body, Node *kept)
{
    uint32_t n = 0;
    for (uint32_t k = body->nnode; k-- > 0;) {
        bool use = false;
        for (uint32_t i = 0; i < body->node[k].nout; i++) use |= map_gets(used, body->node[k].out[i]) != NULL;
        if (use) mark_uses(used, &body->node[k]), kept[n++] = body->node[k];
    }
    for (uint32_t k = 0; k < n / 2; k++) {
        Node first = kept[k];
        kept[k] = kept[n - 1 - k], kept[n - 1 - k] = first;
    }
    return n;
}

GraphDef condition_body(Arena *a, const GraphDef *body, uint32_t states, uint32_t *at, uint32_t *left)
{
    Map used;
    GraphDef part = *body;
    Node *node = NEW_N(a, Node, body->nnode + 1);
    ValueDef *in = NEW_N(a, ValueDef, states + 2), *out = NEW_N(a, ValueDef, states + 1);
    bool *kept = NEW_N(a, bool, states + 1), more = true;
    map_init(&used, a);
    map_puts(&used, body->output[0].name, &used);
    while (more) {
        more = false;
        part.nnode = nodes_for(&used, body, node);
        for (uint32_t k = 0; k < states; k++) {
            if (kept[k] || !map_gets(&used, body->input[2 + k].name)) continue;
            kept[k] = more = true;
            map_puts(&used, body->output[1 + k].name, &used);
        }
    }
    memcpy(in, body->input, 2 * sizeof *in);
    *out = *body->output;
    *left = 0;
    for (uint32_t k = 0; k < states; k++)
        if (kept[k]) in[2 + *left] = body->input[2 + k], out[1 + *left] = body->output[1 + k], at[(*left)++] = k;
    part.node = node, part.input = in, part.output = out;
    part.ninput = 2 + *left, part.noutput = 1 + *left;
    return part;
}

/* ---- the number of iterations ---- */

/* The part of a body with the values of the outer graph. delta: what an iteration adds to each state. */
typedef struct {
    Graph *g;
    const Ctx *c;
    SubGraph part;
    uint32_t states;
    U *init, *out, *delta;
} Counted;

static U scalar_of(Graph *g, U x)
{
    const UOp *v[1];
    return x->dtype != DT_VOID && uop_static(x) && uop_numel(x) == 1 && values_of(g, x, v, 1) ? v[0] : NULL;
}

static U as_size(Graph *g, U v) { return dim_simplify(g, cast(g, v, DT_INDEX)); }

/* An integer scalar whose value is known, if need be as a formula of sizes. */
static U size_of_scalar(Graph *g, U x)
{
    U v = dtype_is_int((DType)x->dtype) ? scalar_of(g, x) : NULL;
    return v ? as_size(g, v) : NULL;
}

static bool is_counter(U x) { return (x->dtype == DT_I64 || x->dtype == DT_I32) && uop_static(x) && uop_numel(x) == 1; }

/* Passed on as it is, of any type. */
static bool stays(const Counted *n, uint32_t k)
{
    return !strcmp(n->part.def->input[2 + k].name, n->part.def->output[1 + k].name);
}

static bool import_part(const Counted *n, U step, U *in)
{
    in[0] = cast(n->g, step, DT_I64);
    in[1] = uop_bool(n->g, true);
    return import_subgraph(n->g, n->c, &n->part, in, n->states + 2, n->out, n->states + 1) == TG_OK &&
        graph_error(n->g) == TG_OK;
}

/* What the variable of a state stands for, in every iteration. */
static bool within_variable(Graph *g, U init, U delta)
{
    U first = size_of_scalar(g, init);
    return first && uop_is_const(delta) && delta->vmin >= -STEP_MAX && delta->vmax <= STEP_MAX &&
        first->vmin > -STATE_MAX / 2 && first->vmax < STATE_MAX / 2;
}

static bool find_deltas(const Counted *n, U step, U *in)
{
    Graph *g = n->g;
    U *state = NEW_N(graph_arena(g), U, n->states + 1);
    for (uint32_t k = 0; k < n->states; k++) {
        if (!is_counter(n->init[k]) && !stays(n, k)) return false;
        state[k] = uop_var(g, arena_printf(graph_arena(g), "state%u", k), -STATE_MAX, STATE_MAX);
        in[2 + k] = stays(n, k)
            ? n->init[k]
            : reshape(g, cast(g, state[k], (DType)n->init[k]->dtype), n->init[k]->shape->dim, uop_rank(n->init[k]));
    }
    if (!import_part(n, step, in)) return false;
    for (uint32_t k = 0; k < n->states; k++) {
        U next = stays(n, k) ? state[k] : size_of_scalar(g, n->out[1 + k]);
        if (!next) return false;
        n->delta[k] = dim_sub(g, next, state[k]);
        if (!stays(n, k) && !within_variable(g, n->init[k], n->delta[k])) return false;
    }
    return true;
}

/* a < b as long as the first is positive: a formula of the step. */
static U first_false(Graph *g, U difference, U step)
{
    U one = uop_index(g, 1), zero = uop_index(g, 0);
    U at0 = uop_substitute(g, difference, &step, &zero, 1), at1 = uop_substitute(g, difference, &step, &one, 1);
    at0 = dim_simplify(g, at0);
    U slope = dim_sub(g, at0, dim_simplify(g, at1));
    if (!uop_is_const(slope) || uop_const_int(slope) < 1 ||
        !uop_is_int_const(dim_sub(g, dim_add(g, difference, dim_mul(g, slope, step)), at0), 0))
        return NULL;
    U up = dim_add(g, at0, uop_index(g, uop_const_int(slope) - 1));
    return dim_div(g, dim_max(g, up, zero), slope);
}

static bool is_not(U p) { return p->op == UOP_CMPNE && p->src[0]->dtype == DT_BOOL && uop_is_int_const(p->src[1], 1); }

/* The first step at which the condition is false. */
static U end_of(Graph *g, U p, U step)
{
    if (uop_is_const(p)) return uop_index(g, uop_const_int(p) ? COUNTED_MAX : 0);
    if (p->op == UOP_AND) {
        U a = end_of(g, p->src[0], step), b = end_of(g, p->src[1], step);
        return a && b ? dim_min(g, a, b) : NULL;
    }
    U less = is_not(p) ? p->src[0] : p;
    if (less->op != UOP_CMPLT || !dtype_is_int((DType)less->src[0]->dtype)) return NULL;
    U a = as_size(g, less->src[0]), b = as_size(g, less->src[1]);
    return first_false(g, less == p ? dim_sub(g, b, a) : dim_add(g, dim_sub(g, a, b), uop_index(g, 1)), step);
}

/* The condition as a formula of the step; NULL: it is none. */
static U condition_at(const Counted *n, U step)
{
    Graph *g = n->g;
    U *in = NEW_N(graph_arena(g), U, n->states + 2);
    if (!find_deltas(n, step, in)) return NULL;
    for (uint32_t k = 0; k < n->states; k++) {
        U init = n->init[k];
        in[2 + k] = uop_is_int_const(n->delta[k], 0)
            ? init
            : add(g, init, cast(g, mul(g, n->delta[k], step), (DType)init->dtype));
    }
    U p = import_part(n, step, in) ? scalar_of(g, n->out[0]) : NULL;
    return p ? dim_simplify(g, p) : NULL;
}

U condition_trip(Graph *g, const Ctx *c, const SubGraph *body, uint32_t states, const U *init)
{
    Arena *a = graph_arena(g);
    Run *run = c->im->run;
    uint32_t *at = NEW_N(a, uint32_t, states + 1), left;
    GraphDef part = condition_body(a, body->def, states, at, &left);
    Counted n = { g, c, { &part, body->frame }, left, NEW_N(a, U, left + 1), NEW_N(a, U, left + 1),
                  NEW_N(a, U, left + 1) };
    for (uint32_t k = 0; k < left; k++) n.init[k] = init[at[k]];
    if (!left) return NULL;
    /* a part that fails leaves no trace */
    U question = run->question, step = uop_var(g, "step", 0, COUNTED_MAX);
    bool *need = arena_copy(a, run->need, run->ninput * sizeof *need);
    U p = condition_at(&n, step), end = p ? end_of(g, p, step) : NULL;
    run->question = question;
    memcpy(run->need, need, run->ninput * sizeof *need);
    graph_error_clear(g);
    return end && end->vmax < COUNTED_MAX ? dim_add(g, end, uop_index(g, 1)) : NULL;
}
