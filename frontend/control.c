/* Control flow: If, Loop, Scan, and the loops of recurrent operators.
 * In: subgraphs, imported as often as needed with the values of the enclosing graph visible. Out: the branch that was chosen, or both under a WHERE; a
 * short loop unrolled, or a CALL of "loop" whose body stands for every round. What a body uses from outside and does not depend on the round is computed
 * once, outside, and captured. Must hold: a loop's states keep type and shape (else it is unrolled, or refused when the number of rounds is not known).
 */
#include <string.h>

#include "frontend/import.h"
#include "frontend/loop.h"
#include "graph/custom.h"

enum { UNROLL_MAX = 8, FORCED_MAX = 512 };

/* ---- unrolled ---- */

static U empty_rows(Graph *g, U like)
{
    U dim[TG_MAX_RANK + 1] = { uop_index(g, 0) };
    for (uint32_t k = 0; k < uop_rank(like); k++) dim[k + 1] = uop_dim(like, k);
    return expand(g, scalar(g, (DType)like->dtype, 0), dim, uop_rank(like) + 1);
}

static U stored(Graph *g, U u, U before)
{
    return u->dtype == DT_VOID || uop_is_const(u) || u == before || u->op == UOP_BUFFER ? u : UOP(g, UOP_CONTIGUOUS, DT_VOID, NO_ARG, u);
}

/* Round by round; a state is stored, so that no round computes the earlier ones again. */
static bool unroll(Graph *g, const Loop *l, int64_t trip, U *last, U *row)
{
    Arena *a = graph_arena(g);
    U *rows = NEW_N(a, U, (uint64_t)l->rows * (uint64_t)(trip + 1) + 1), *next = NEW_N(a, U, l->states + 1), *now = NEW_N(a, U, l->rows + 1), keep = NULL;
    for (uint32_t k = 0; k < l->states; k++) last[k] = l->init[k];
    int64_t i = 0;
    for (; i < trip || (i == 0 && l->rows); i++) {
        if (!l->body(g, l->user, uop_index(g, i), last, next, now, &keep)) return false;
        for (uint32_t k = 0; k < l->rows; k++) rows[k * (trip + 1) + i] = now[k];
        if (!trip) break;
        if (keep && !uop_is_const(keep)) return graph_fail_code(g, TG_UNSUPPORTED, "a loop of few rounds has a condition that depends on data"), false;
        bool end = i + 1 == trip || (keep && !uop_const_int(keep));
        for (uint32_t k = 0; k < l->states; k++) last[k] = end ? next[k] : stored(g, next[k], last[k]);
        if (!end) continue;
        i++;
        break;
    }
    for (uint32_t k = 0; k < l->rows; k++) row[k] = i ? stack(g, rows + k * (trip + 1), (uint32_t)i, 0) : empty_rows(g, rows[k * (trip + 1)]);
    return graph_error(g) == TG_OK;
}

/* ---- captured values ---- */

/* What a body reads: nodes that do not depend on the round, outside which nothing of the body may reach. */
typedef struct { uint8_t *inner, *seen; U *captured; uint32_t count; } Capture;

/* Named again inside: views, sizes and constants. A CUSTOMFUNCTION's body is a scope of its own. */
static bool is_named_again(U u)
{
    switch (u->op) {
    case UOP_PARAM: case UOP_CALL: case UOP_GETTUPLE: case UOP_CONTIGUOUS: return false;
    case UOP_STACK: case UOP_IOTA: case UOP_BUFFER: case UOP_CUSTOMFUNCTION: return true;
    default: return !u->nsrc || op_is((Op)u->op, FLAG_MOVE) || (u->dtype == DT_INDEX && !uop_rank(u) && op_is((Op)u->op, FLAG_ALU));
    }
}

/* Anything else that does not depend on the round is captured. Explicit stack: chains can be long. */
static void capture(Capture *c, U root)
{
    Arena *a = arena_new();
    uint32_t cap = 64, n = 0;
    U *todo = NEW_N(a, U, cap);
    todo[n++] = root;
    while (n) {
        U u = todo[--n];
        if (c->seen[u->id]) continue;
        c->seen[u->id] = 1;
        if (!c->inner[u->id] && !is_named_again(u)) c->captured[c->count++] = u;
        if ((!c->inner[u->id] && !is_named_again(u)) || u->op == UOP_CUSTOMFUNCTION) continue;
        if (n + u->nsrc > cap) {
            U *grown = NEW_N(a, U, cap = (n + u->nsrc) * 2);
            memcpy(grown, todo, n * sizeof *todo);
            todo = grown;
        }
        for (uint32_t k = u->nsrc; k-- > 0;) todo[n++] = u->src[k];
    }
    arena_free(a);
}

/* A loop before this one, with a step of the same name. */
static bool is_loop_of(U f, U step) { return f->op == UOP_CUSTOMFUNCTION && f->nsrc > 1 && f->src[1] == step; }

/* Replaces what the body takes from outside by PARAM(slot..), in order of first use. Inside is what depends on a formal (of a loop: its states and, last, its step), and
 * what is as young as node `first`. Returns the new body; captured: the values. */
static U lift(Graph *g, U body, const U *formal, uint32_t nformal, uint32_t first, int64_t slot, U **captured, uint32_t *count)
{
    Arena *a = arena_new();
    uint32_t n, all = graph_count(g);
    const UOp **order = uop_toposort(g, &body, 1, a, &n), **param;
    Capture c = { NEW_N(a, uint8_t, all), NEW_N(a, uint8_t, all), NEW_N(graph_arena(g), U, n + 1), 0 };
    for (uint32_t k = 0; k < nformal; k++) c.inner[formal[k]->id] = c.seen[formal[k]->id] = 1;
    for (uint32_t i = 0; i < n; i++) {
        if (order[i]->id >= first) c.inner[order[i]->id] = 1;
        else if (!nformal || !is_loop_of(order[i], formal[nformal - 1]))
            for (uint32_t k = 0; k < order[i]->nsrc; k++) c.inner[order[i]->id] |= c.inner[order[i]->src[k]->id];
    }
    c.inner[body->id] = 1;
    capture(&c, body);
    param = NEW_N(a, const UOp *, c.count + 1);
    for (uint32_t k = 0; k < c.count; k++) param[k] = uop_param(g, (DType)c.captured[k]->dtype, c.captured[k]->shape->dim, uop_rank(c.captured[k]), slot + k);
    *captured = c.captured;
    *count = c.count;
    if (c.count) body = uop_substitute(g, body, c.captured, param, c.count);
    arena_free(a);
    return body;
}

/* ---- a CALL of "loop" ---- */

static bool same_form(U a, U b) { return a->dtype == b->dtype && a->shape == b->shape; }

/* Does u's shape depend on the round? Then rounds do not stack. */
static bool varies(Graph *g, U u, U step)
{
    Arena *a = arena_new();
    uint32_t n;
    bool found = false;
    const UOp **order = uop_rank(u) ? uop_toposort(g, u->shape->dim, uop_rank(u), a, &n) : NULL;
    for (uint32_t k = 0; order && k < n; k++) found = found || order[k] == step;
    arena_free(a);
    return found;
}

static bool check_body(Graph *g, const Loop *l, U step, const U *value)
{
    for (uint32_t k = 0; k < l->states; k++)
        if (value[k]->dtype == DT_VOID || !same_form(value[k], l->init[k])) return graph_fail_code(g, TG_UNSUPPORTED, "state %u of a loop changes its type or shape", k), false;
    for (uint32_t k = l->states; k < l->states + l->rows; k++)
        if (value[k]->dtype == DT_VOID || varies(g, value[k], step)) return graph_fail_code(g, TG_UNSUPPORTED, "rows of a loop differ in shape"), false;
    return true;
}

/* n values of that form along a new axis 0. */
static U result_rows(Graph *g, U call, uint32_t k, U like, U n)
{
    U dim[TG_MAX_RANK + 1] = { n };
    for (uint32_t i = 0; i < uop_rank(like); i++) dim[i + 1] = uop_dim(like, i);
    return call_result(g, call, k, (DType)like->dtype, dim, uop_rank(like) + 1);
}

/* Rows that are a state's next values need no place of their own: the state's history holds them. */
static uint64_t histories(const Loop *l, const U *value, uint32_t *of)
{
    uint64_t bits = 0;
    for (uint32_t k = 0; k < l->rows; k++) {
        of[k] = UINT32_MAX;
        for (uint32_t s = 0; s < l->states && s < 64; s++)
            if (value[s] == value[l->states + k]) of[k] = s;
        if (of[k] != UINT32_MAX) bits |= UINT64_C(1) << of[k];
    }
    return bits;
}

/* of: the state whose history a row is, or UINT32_MAX. */
static void loop_results(Graph *g, const Loop *l, U call, U rounds, const LoopAttr *a, const uint32_t *of, const U *value, U *last, U *row)
{
    U *all = NEW_N(graph_arena(g), U, l->states + 1);
    uint32_t own = l->states;
    for (uint32_t k = 0; k < l->states; k++) {
        bool history = a->history >> (k & 63) & 1 && k < 64;
        if (history) all[k] = result_rows(g, call, k, value[k], uop_index(g, a->trip + 1));
        last[k] = history ? squeeze(g, slice_i(g, all[k], 0, a->trip, a->trip + 1), 0) : call_result(g, call, k, (DType)value[k]->dtype, value[k]->shape->dim, uop_rank(value[k]));
    }
    for (uint32_t k = 0; k < l->rows; k++) row[k] = of[k] != UINT32_MAX ? slice_i(g, all[of[k]], 0, 1, a->trip + 1) : result_rows(g, call, own++, value[l->states + k], rounds);
}

/* The body's values: states, rows that have a place of their own, and whether to go on. */
static U body_values(Graph *g, const Loop *l, const U *value, const uint32_t *of, U keep, uint32_t *rows)
{
    U *v = NEW_N(graph_arena(g), U, l->states + l->rows + 1);
    uint32_t n = 0;
    for (uint32_t k = 0; k < l->states + l->rows; k++)
        if (k < l->states || of[k - l->states] == UINT32_MAX) v[n++] = value[k];
    *rows = n - l->states;
    if (keep) v[n++] = keep;
    return uop_new(g, UOP_TUPLE, DT_VOID, NO_ARG, v, n);
}

/* States that a round passes on unchanged are values from outside: the loop goes on without them. formal, value and keep follow; at: the old number of each that is left. */
static void drop_unchanged(Graph *g, Loop *l, U *formal, U *value, U *keep, int64_t base, uint32_t *at)
{
    Arena *a = graph_arena(g);
    U *from = NEW_N(a, U, l->states + 1), *to = NEW_N(a, U, l->states + 1), *init = NEW_N(a, U, l->states + 1), *v = NEW_N(a, U, l->states + l->rows + 2);
    uint32_t left = 0, n = 0, values = 0;
    for (uint32_t k = 0; k < l->states; k++) {
        bool same = value[k] == formal[k];
        from[n] = formal[k];
        to[n++] = same ? l->init[k] : uop_param(g, (DType)formal[k]->dtype, formal[k]->shape->dim, uop_rank(formal[k]), base + left);
        if (same) continue;
        at[left] = k;
        init[left] = l->init[k];
        v[left++] = value[k];
    }
    if (left == l->states) return;
    values = left;
    for (uint32_t k = 0; k < l->rows; k++) v[values++] = value[l->states + k];
    if (*keep) v[values++] = *keep;
    U tuple = uop_substitute(g, uop_new(g, UOP_TUPLE, DT_VOID, NO_ARG, v, values), from, to, n);
    for (uint32_t k = 0; k < left + l->rows; k++) value[k] = tuple->src[k];
    if (*keep) *keep = tuple->src[values - 1];
    for (uint32_t k = 0; k < left; k++) formal[k] = to[at[k]];
    formal[left] = formal[l->states];
    l->states = left;
    l->init = init;
}

static _Thread_local int loop_depth;     /* loops around the one that is built: equal bodies of loops side by side use one name for the step */

static bool make_body(Graph *g, const Loop *l, int64_t base, U *formal, U *value, U *keep)
{
    for (uint32_t k = 0; k < l->states; k++) formal[k] = uop_param(g, (DType)l->init[k]->dtype, l->init[k]->shape->dim, uop_rank(l->init[k]), base + k);
    U step = formal[l->states] = uop_var(g, arena_printf(graph_arena(g), "step%d", loop_depth++), 0, l->most > 0 ? l->most - 1 : 0);
    bool ok = l->body(g, l->user, step, formal, value, value + l->states, keep) && check_body(g, l, step, value);
    loop_depth--;
    return ok;
}

static bool call_body(Graph *g, const Loop *l, int64_t base, const U *formal, const U *value, U keep, U *last, U *row)
{
    Arena *a = graph_arena(g);
    uint32_t *of = NEW_N(a, uint32_t, l->rows + 1);
    bool counted = keep || l->keep || !uop_is_const(l->trip);
    U *captured, rounds = l->trip, step = formal[l->states];
    LoopAttr attr = { .base = base, .trip = uop_is_const(l->trip) ? uop_const_int(l->trip) : -1, .states = l->states, .has_keep = keep != NULL, .counted = counted };
    for (uint32_t k = 0; k < l->rows; k++) of[k] = UINT32_MAX;
    if (!counted) attr.history = histories(l, value, of);
    U tuple = body_values(g, l, value, of, keep, &attr.rows);
    U meta[3] = { lift(g, tuple, formal, l->states + 1, UINT32_MAX, base + l->states, &captured, &attr.captured), step };
    if (counted) rounds = meta[2] = size_var(g, "rounds", 0, l->most);
    U *arg = NEW_N(a, U, 2 + l->states + attr.captured);
    arg[0] = uop_is_const(l->trip) ? uop_int(g, DT_I64, uop_const_int(l->trip)) : l->trip;
    arg[1] = l->keep ? l->keep : uop_bool(g, true);
    for (uint32_t k = 0; k < l->states; k++) arg[2 + k] = l->init[k];
    for (uint32_t k = 0; k < attr.captured; k++) arg[2 + l->states + k] = captured[k];
    U call = call_new(g, custom_new(g, "loop", &attr, sizeof attr, meta, counted ? 3 : 2), arg, 2 + l->states + attr.captured);
    loop_results(g, l, call, rounds, &attr, of, value, last, row);
    return graph_error(g) == TG_OK;
}

static bool call_loop(Graph *g, const Loop *l, U *last, U *row)
{
    Arena *a = graph_arena(g);
    Loop moving = *l;
    int64_t base = (int64_t)graph_count(g) << 8;
    U *formal = NEW_N(a, U, l->states + 1), *value = NEW_N(a, U, l->states + l->rows + 1), *found = NEW_N(a, U, l->states + 1), keep = NULL;
    uint32_t *at = NEW_N(a, uint32_t, l->states + 1);
    if (!make_body(g, l, base, formal, value, &keep)) return false;
    if ((keep || l->keep || !uop_is_const(l->trip)) && l->rows && l->most > INT32_MAX) return graph_fail_code(g, TG_UNSUPPORTED, "a loop without a limit has rows"), false;
    for (uint32_t k = 0; k < l->states; k++) at[k] = k, last[k] = l->init[k];
    drop_unchanged(g, &moving, formal, value, &keep, base, at);
    if (!call_body(g, &moving, base, formal, value, keep, found, row)) return false;
    for (uint32_t k = 0; k < moving.states; k++) last[at[k]] = found[k];
    return true;
}

bool loop_build(Graph *g, const Loop *l, U *last, U *row)
{
    bool known = uop_is_const(l->trip) && (!l->keep || uop_is_const(l->keep));
    int64_t trip = known ? (l->keep && !uop_const_int(l->keep) ? 0 : uop_const_int(l->trip)) : -1;
    if (known && trip <= UNROLL_MAX && unroll(g, l, trip, last, row)) return true;
    if (known && !trip) return false;
    graph_error_clear(g);
    if (call_loop(g, l, last, row)) return true;
    if (!known || trip > FORCED_MAX) return false;
    graph_error_clear(g);               /* a body that only makes sense with the round's number in its shapes */
    return unroll(g, l, trip, last, row);
}

/* ---- Loop ---- */

/* A bool scalar that is known: 0 or 1; else -1. */
static int known_bool(Graph *g, U u)
{
    const UOp *v[1];
    if (u->dtype == DT_VOID || !uop_static(u) || uop_numel(u) != 1 || !values_of(g, u, v, 1) || !uop_is_const(v[0])) return -1;
    return uop_const_int(v[0]) != 0;
}

typedef struct { const Ctx *c; const GraphDef *body; uint32_t states, rows; } LoopNode;

static bool loop_round(Graph *g, void *user, U step, const U *state, U *next, U *row, U *keep)
{
    LoopNode *n = user;
    U *in = NEW_N(graph_arena(g), U, n->states + 2), *out = NEW_N(graph_arena(g), U, n->states + n->rows + 1);
    in[0] = uop_is_const(step) ? uop_int(g, DT_I64, uop_const_int(step)) : cast(g, step, DT_I64);
    in[1] = uop_bool(g, true);                                  /* a round takes place only when the condition holds */
    for (uint32_t k = 0; k < n->states; k++) in[2 + k] = state[k];
    if (import_subgraph(g, n->c, n->body, in, n->states + 2, out, 1 + n->states + n->rows) != TG_OK) return false;
    int go_on = known_bool(g, out[0]);
    *keep = go_on == 1 ? NULL : go_on == 0 ? uop_bool(g, false) : reshape_i(g, out[0], NULL, 0);
    for (uint32_t k = 0; k < n->states; k++) next[k] = out[1 + k];
    for (uint32_t k = 0; k < n->rows; k++) row[k] = out[1 + n->states + k];
    return graph_error(g) == TG_OK;
}

static const GraphDef *body_of(Graph *g, const Ctx *c, const char *name)
{
    const Attr *a = attr_find(c, name);
    if (a && a->type == ATTR_GRAPH && a->graph) return a->graph;
    fail_node(g, c, TG_BAD_MODEL, name, "is missing");
    return NULL;
}

static U results(Graph *g, const Ctx *c, U *last, uint32_t states, const U *row, uint32_t rows)
{
    U *v = NEW_N(graph_arena(g), U, states + rows + 1);
    for (uint32_t k = 0; k < states + rows; k++) v[k] = k < states ? last[k] : row[k - states];
    return outputs(g, c, v, states + rows);
}

/* The number of rounds: known, folded; or told by data (an i64 scalar); or without limit. */
static U trip_of(Graph *g, const Ctx *c, int64_t *most)
{
    const UOp *v[1];
    U m = c->in[0];
    *most = INT64_MAX;
    if (!m) return uop_index(g, INT64_MAX);
    m = reshape_i(g, cast(g, m, DT_I64), NULL, 0);
    if (!values_of(g, m, v, 1) || !uop_is_const(v[0])) return import_may_know(c->im, m, true) ? fail_node(g, c, TG_UNSUPPORTED, "M", "depends on the data of an input") : m;
    *most = uop_const_int(v[0]) < 0 ? 0 : uop_const_int(v[0]);
    return uop_index(g, *most);
}

/** Loop (ONNX 1, 11, 13, 16): up to `trip` rounds while the condition holds; states go round, rows are stacked. */
U op_loop(Graph *g, const Ctx *c)
{
    LoopNode n = { c, body_of(g, c, "body"), c->nin > 2 ? c->nin - 2 : 0, 0 };
    Arena *a = graph_arena(g);
    if (!n.body) return NULL;
    if (n.body->noutput < 1 + n.states || n.body->ninput != n.states + 2) return fail_node(g, c, TG_BAD_MODEL, "body", "%u inputs and %u outputs do not fit", n.body->ninput, n.body->noutput);
    n.rows = n.body->noutput - 1 - n.states;
    Loop l = { .body = loop_round, .user = &n, .states = n.states, .rows = n.rows, .init = c->in + 2, .keep = c->in[1] };
    U *last = NEW_N(a, U, n.states + 1), *row = NEW_N(a, U, n.rows + 1);
    l.trip = trip_of(g, c, &l.most);
    int start = l.keep ? known_bool(g, l.keep) : 1;
    if (l.trip->op == UOP_ERROR) return NULL;
    if (start < 0 && import_may_know(c->im, l.keep, false)) return fail_node(g, c, TG_UNSUPPORTED, "cond", "depends on the data of an input");
    if (l.keep) l.keep = start == 1 ? NULL : start == 0 ? uop_bool(g, false) : reshape_i(g, l.keep, NULL, 0);
    for (uint32_t k = 0; k < n.states; k++)
        if (!l.init[k]) return fail_node(g, c, TG_UNSUPPORTED, NULL, "state %u without a first value is not covered", k);
    return loop_build(g, &l, last, row) ? results(g, c, last, n.states, row, n.rows) : NULL;
}

/* ---- Scan ---- */

typedef struct { const Ctx *c; const GraphDef *body; uint32_t states, rows, inputs; const U *input; int64_t trip, *axis; const int64_t *reverse; } ScanNode;

static U scan_slice(Graph *g, const ScanNode *n, uint32_t k, U step)
{
    U at = n->reverse[k] ? sub(g, uop_index(g, n->trip - 1), step) : step;
    return squeeze(g, slice(g, n->input[k], n->axis[k], at, uop_index(g, 1)), n->axis[k]);
}

static bool scan_round(Graph *g, void *user, U step, const U *state, U *next, U *row, U *keep)
{
    ScanNode *n = user;
    U *in = NEW_N(graph_arena(g), U, n->states + n->inputs + 1), *out = NEW_N(graph_arena(g), U, n->states + n->rows + 1);
    for (uint32_t k = 0; k < n->states; k++) in[k] = state[k];
    for (uint32_t k = 0; k < n->inputs; k++) in[n->states + k] = scan_slice(g, n, k, step);
    if (import_subgraph(g, n->c, n->body, in, n->states + n->inputs, out, n->states + n->rows) != TG_OK) return false;
    for (uint32_t k = 0; k < n->states; k++) next[k] = out[k];
    for (uint32_t k = 0; k < n->rows; k++) row[k] = out[n->states + k];
    *keep = NULL;
    return graph_error(g) == TG_OK;
}

static const int64_t *list_or_zeros(Graph *g, const Ctx *c, const char *name, uint32_t n)
{
    const int64_t *v;
    uint32_t count;
    if (!attr_ints(g, c, name, &v, &count)) return NEW_N(graph_arena(g), int64_t, n + 1);
    if (count == n) return v;
    fail_node(g, c, TG_BAD_MODEL, name, "has %u values; wanted %u", count, n);
    return NULL;
}

/* Stacked rows, first round first along axis 0, brought to the axis and direction that the node asks for. */
static bool place_rows(Graph *g, const Ctx *c, U *row, uint32_t rows, const int64_t *axis, const int64_t *reverse)
{
    for (uint32_t k = 0; k < rows; k++) {
        int64_t order[TG_MAX_RANK + 1], rank = uop_rank(row[k]), at;
        if (!axis_ok(g, c, "scan_output_axes", axis[k], rank, &at)) return false;
        for (int64_t i = 0; i < rank; i++) order[i] = i < at ? i + 1 : i == at ? 0 : i;
        if (reverse[k]) row[k] = flip_axis(g, row[k], 0);
        if (at) row[k] = permute(g, row[k], order, (uint32_t)rank);
    }
    return true;
}

static bool scan_run(Graph *g, ScanNode *n, const U *init, U *last, U *row)
{
    for (uint32_t k = 0; k < n->inputs; k++) {
        U d = uop_dim(n->input[k], (uint32_t)n->axis[k]);
        if (!uop_is_const(d)) return fail_node(g, n->c, TG_UNSUPPORTED, NULL, "a number of rounds that depends on data is not covered"), false;
        if (k && uop_const_int(d) != n->trip) return fail_node(g, n->c, TG_BAD_MODEL, NULL, "inputs of different lengths"), false;
        n->trip = uop_const_int(d);
    }
    Loop l = { .body = scan_round, .user = n, .trip = uop_index(g, n->trip), .most = n->trip, .states = n->states, .rows = n->rows, .init = init };
    return loop_build(g, &l, last, row);
}

static bool scan_node(Graph *g, const Ctx *c, ScanNode *n, uint32_t first)
{
    int64_t inputs = attr_int(g, c, "num_scan_inputs", 0);
    if (!(n->body = body_of(g, c, "body"))) return false;
    if (inputs < 1 || inputs > c->nin - first || c->nin - first != n->body->ninput) return fail_node(g, c, TG_BAD_MODEL, "num_scan_inputs", "%lld does not fit", (long long)inputs), false;
    n->c = c;
    n->inputs = (uint32_t)inputs;
    n->states = c->nin - first - n->inputs;
    if (n->body->noutput < n->states) return fail_node(g, c, TG_BAD_MODEL, "body", "has fewer outputs than states"), false;
    n->rows = n->body->noutput - n->states;
    n->axis = NEW_N(graph_arena(g), int64_t, n->inputs + 1);
    for (uint32_t k = first; k < c->nin; k++)
        if (!c->in[k]) return fail_node(g, c, TG_BAD_MODEL, NULL, "input %u is missing", k), false;
    return true;
}

/** Scan (ONNX 9, 11, 16, 19): rounds over slices of the inputs along an axis each; states go round, rows are stacked along an axis each. */
U op_scan(Graph *g, const Ctx *c)
{
    ScanNode n = { 0 };
    if (!scan_node(g, c, &n, 0)) return NULL;
    const int64_t *axes = list_or_zeros(g, c, "scan_input_axes", n.inputs), *to = list_or_zeros(g, c, "scan_output_axes", n.rows), *back = list_or_zeros(g, c, "scan_output_directions", n.rows);
    U *last = NEW_N(graph_arena(g), U, n.states + 1), *row = NEW_N(graph_arena(g), U, n.rows + 1);
    n.reverse = list_or_zeros(g, c, "scan_input_directions", n.inputs);
    n.input = c->in + n.states;
    if (!axes || !to || !back || !n.reverse) return NULL;
    for (uint32_t k = 0; k < n.inputs; k++)
        if (!axis_ok(g, c, "scan_input_axes", axes[k], uop_rank(n.input[k]), &n.axis[k])) return NULL;
    if (!scan_run(g, &n, c->in, last, row) || !place_rows(g, c, row, n.rows, to, back)) return NULL;
    return results(g, c, last, n.states, row, n.rows);
}

/** Scan (ONNX 8): the same for each element of a batch axis 0; input 0 would give lengths, one an element. */
U op_scan_8(Graph *g, const Ctx *c)
{
    ScanNode n = { 0 };
    if (c->in[0]) return fail_node(g, c, TG_UNSUPPORTED, "sequence_lens", "lengths are not covered");
    if (!scan_node(g, c, &n, 1) || !(n.reverse = list_or_zeros(g, c, "directions", n.inputs))) return NULL;
    uint32_t all = n.states + n.rows;
    if (!uop_static(c->in[1]) || !uop_rank(c->in[1]) || uop_size(c->in[1], 0) < 1) return fail_node(g, c, TG_BAD_MODEL, NULL, "wanted a batch axis");
    int64_t batch = uop_size(c->in[1], 0);
    U *in = NEW_N(graph_arena(g), U, c->nin), *out = NEW_N(graph_arena(g), U, (uint64_t)all * (uint64_t)batch + 1), *last = NEW_N(graph_arena(g), U, all + 1);
    n.input = in + n.states;
    for (int64_t b = 0; b < batch; b++) {
        for (uint32_t k = 1; k < c->nin; k++) in[k - 1] = squeeze(g, slice_i(g, c->in[k], 0, b, b + 1), 0);
        if (graph_error(g) != TG_OK || !scan_run(g, &n, in, last, last + n.states)) return NULL;
        for (uint32_t k = 0; k < all; k++) out[k * batch + b] = last[k];
    }
    for (uint32_t k = 0; k < all; k++) last[k] = stack(g, out + k * batch, (uint32_t)batch, 0);
    return outputs(g, c, last, all);
}

/* ---- If ---- */

static bool branch(Graph *g, const Ctx *c, const char *name, U *out)
{
    const GraphDef *body = body_of(g, c, name);
    if (!body) return false;
    if (body->noutput != c->nout) return fail_node(g, c, TG_BAD_MODEL, name, "has %u outputs; wanted %u", body->noutput, c->nout), false;
    return import_subgraph(g, c, body, NULL, 0, out, c->nout) == TG_OK;
}

/* An empty value or x: as much of x as the sizes say, which a formula of sizes chooses. NULL when none is empty or the condition is none. */
static U empty_or(Graph *g, U p, U yes, U no)
{
    const UOp *v[1], *dim[TG_MAX_RANK], *zero[TG_MAX_RANK];
    bool empty_yes = uop_static(yes) && !uop_numel(yes), empty_no = uop_static(no) && !uop_numel(no);
    if (yes->dtype != no->dtype || uop_rank(yes) != uop_rank(no) || empty_yes == empty_no || !values_of(g, p, v, 1)) return NULL;
    for (uint32_t k = 0; k < uop_rank(yes); k++) {
        U a = uop_dim(yes, k), b = uop_dim(no, k);
        dim[k] = a == b ? a : where(g, v[0], a, b);
        zero[k] = uop_index(g, 0);
    }
    return shrink(g, empty_yes ? no : yes, zero, dim);
}

/* Do the branches hold what is worth skipping: a reduction or a call? */
static bool is_heavy(Graph *g, U both, uint32_t first)
{
    Arena *a = arena_new();
    uint32_t n;
    bool heavy = false;
    const UOp **order = uop_toposort(g, &both, 1, a, &n);
    for (uint32_t k = 0; k < n; k++) heavy = heavy || (order[k]->id >= first && (order[k]->op == UOP_REDUCE || order[k]->op == UOP_CALL));
    arena_free(a);
    return heavy;
}

/* Only the branch that was chosen runs: a CALL of "if". first: the oldest node of the branches. NULL where their values differ in form or are cheap. */
static U call_if(Graph *g, const Ctx *c, U p, const U *yes, const U *no, uint32_t first)
{
    U tuple[2] = { uop_new(g, UOP_TUPLE, DT_VOID, NO_ARG, yes, c->nout), uop_new(g, UOP_TUPLE, DT_VOID, NO_ARG, no, c->nout) }, both = uop_new(g, UOP_TUPLE, DT_VOID, NO_ARG, tuple, 2);
    U *captured, *out = NEW_N(graph_arena(g), U, c->nout + 1);
    for (uint32_t k = 0; k < c->nout; k++)
        if (yes[k]->dtype == DT_VOID || !same_form(yes[k], no[k])) return NULL;
    if (!is_heavy(g, both, first)) return NULL;
    BranchAttr attr = { .base = (int64_t)graph_count(g) << 8, .values = c->nout };
    U body = lift(g, both, NULL, 0, first, attr.base, &captured, &attr.captured), *arg = NEW_N(graph_arena(g), U, attr.captured + 1);
    arg[0] = p;
    for (uint32_t k = 0; k < attr.captured; k++) arg[k + 1] = captured[k];
    U call = call_new(g, custom_new(g, "if", &attr, sizeof attr, body->src, 2), arg, attr.captured + 1);
    for (uint32_t k = 0; k < c->nout; k++) out[k] = call_result(g, call, k, (DType)yes[k]->dtype, yes[k]->shape->dim, uop_rank(yes[k]));
    return outputs(g, c, out, c->nout);
}

static U choose(Graph *g, const Ctx *c, uint32_t k, U p, U yes, U no)
{
    if (yes->dtype != DT_VOID && same_form(yes, no)) return where(g, p, yes, no);
    U y = yes->dtype != DT_VOID && no->dtype != DT_VOID ? empty_or(g, p, yes, no) : NULL;
    return y ? y : fail_node(g, c, TG_UNSUPPORTED, c->node->out[k], "branches of different types or shapes, chosen by data, are not covered");
}

/** If (ONNX 1, 11, 13, 16, 19): the branch that the condition chooses. One that depends on a small input chooses at import, for this plan; else both
 * branches are computed, and each value is chosen, or, when that is work, the plan branches. */
U op_if(Graph *g, const Ctx *c)
{
    U *yes = NEW_N(graph_arena(g), U, c->nout + 1), *no = NEW_N(graph_arena(g), U, c->nout + 1), p = c->in[0];
    int known = known_bool(g, p);
    if (known >= 0) return branch(g, c, known ? "then_branch" : "else_branch", yes) ? outputs(g, c, yes, c->nout) : NULL;
    if (import_may_know(c->im, p, false)) return fail_node(g, c, TG_UNSUPPORTED, "cond", "depends on the data of an input");
    p = reshape_i(g, p, NULL, 0);
    uint32_t first = graph_count(g);
    if (!branch(g, c, "then_branch", yes) || !branch(g, c, "else_branch", no)) return NULL;
    U called = call_if(g, c, p, yes, no, first);
    if (called) return called;
    for (uint32_t k = 0; k < c->nout; k++) yes[k] = choose(g, c, k, p, yes[k], no[k]);
    return outputs(g, c, yes, c->nout);
}
