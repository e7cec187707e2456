/* Control flow: If, Loop, Scan.
 * In: subgraphs, imported as often as needed with the values of the enclosing graph visible. Out: the branch that was
 * chosen, both under a WHERE, or a CALL of "if"; loops by loop.c.
 */
#include <string.h>

#include "frontend/import/shape_query.h"
#include "frontend/control/condition.h"
#include "frontend/control/loop.h"
#include "frontend/control/iterations.h"
#include "frontend/input_names.h"
#include "frontend/values/tuple.h"
#include "graph/custom.h"

/* ---- Loop ---- */

/* A bool scalar that is known: 0 or 1; else -1. */
static int known_bool(Graph *g, U u)
{
    const UOp *v[1];
    if (u->dtype == DT_VOID || !uop_static(u) || uop_numel(u) != 1 || !values_of(g, u, v, 1) || !uop_is_const(v[0]))
        return -1;
    return uop_const_int(v[0]) != 0;
}

/* kind: of states, then rows. counted: no iteration before the last is the last; open: data
 * tell which is; run: nothing else but running them tells what the iterations are. */
typedef struct {
    const Ctx *c;
    SubGraph body;
    uint32_t states, rows;
    int32_t *kind;
    bool counted, open, run;
} LoopNode;

static uint32_t rank_of(U x, int32_t kind) { return uop_rank(x) - complex_is(kind); }

/* What a body has made: n states of the kinds that they had, then rows, which are tensors. */
static bool undress(Graph *g, const Ctx *c, const U *out, uint32_t states, uint32_t rows, U *next, U *row,
                    int32_t *kind)
{
    for (uint32_t k = 0; k < states + rows; k++) {
        int32_t found = special_kind(out[k]);
        if (k < states && kind[k] != found)
            return fail_node(g, c, TG_BAD_MODEL, "body", "state %u changes its type", k), false;
        if (k >= states && (is_sequence(out[k]) || is_rows(out[k]) || is_map(out[k]) || is_empty_optional(out[k])))
            return fail_node(g, c, TG_BAD_MODEL, "body", "scan output %u is no tensor", k - states), false;
        kind[k] = found;
        *(k < states ? next + k : row + k - states) = loop_bare(g, out[k]);
    }
    return true;
}

static bool loop_iteration(Graph *g, void *user, U step, const U *state, U *next, U *row, U *keep)
{
    LoopNode *n = user;
    U *in = NEW_N(graph_arena(g), U, n->states + 2), *out = NEW_N(graph_arena(g), U, n->states + n->rows + 1);
    in[0] = uop_is_const(step) ? uop_int(g, DT_I64, uop_const_int(step)) : cast(g, step, DT_I64);
    /* an iteration takes place only when the condition holds */
    in[1] = uop_bool(g, true);
    for (uint32_t k = 0; k < n->states; k++) in[2 + k] = loop_dressed(g, state[k], n->kind[k]);
    if (import_subgraph(g, n->c, &n->body, in, n->states + 2, out, 1 + n->states + n->rows) != TG_OK) return false;
    if (out[0]->dtype != DT_BOOL || fixed_numel(g, out[0]) != 1)
        return fail_node(g, n->c, TG_BAD_MODEL, "body", "its first output, the condition, is no bool of one element"),
               false;
    int go_on = known_bool(g, out[0]);
    n->open |= go_on < 0;
    *keep = go_on == 1 || n->counted ? NULL : go_on == 0 ? uop_bool(g, false) : reshape_i(g, out[0], NULL, 0);
    return undress(g, n->c, out + 1, n->states, n->rows, next, row, n->kind) && graph_error(g) == TG_OK;
}

static U results(Graph *g, const Ctx *c, U *last, uint32_t states, const U *row, uint32_t rows, const int32_t *kind)
{
    U *v = NEW_N(graph_arena(g), U, states + rows + 1);
    for (uint32_t k = 0; k < states + rows; k++)
        v[k] = loop_dressed(g, k < states ? last[k] : row[k - states], kind[k]);
    return outputs(g, c, v, states + rows);
}

/* The number of iterations: known, folded; or dependent on data (an i64 scalar); or without limit. */
static U trip_of(Graph *g, const Ctx *c, int64_t *most)
{
    const UOp *v[1];
    U m = c->in[0];
    *most = INT64_MAX;
    if (!m) return uop_index(g, INT64_MAX);
    m = reshape_i(g, cast(g, m, DT_I64), NULL, 0);
    if (values_of(g, m, v, 1) && v[0]->op == UOP_CAST && v[0]->src[0]->dtype == DT_INDEX)
        return *most = v[0]->src[0]->vmax, dim_max(g, uop_index(g, 0), v[0]->src[0]);
    if (!values_of(g, m, v, 1) || !uop_is_const(v[0]))
        return import_may_know(c->im, m, true) ? fail_node(g, c, TG_UNSUPPORTED, "M", "depends on the data of an input")
                                               : m;
    *most = uop_const_int(v[0]) < 0 ? 0 : uop_const_int(v[0]);
    return uop_index(g, *most);
}

/* ---- the number of iterations of a Loop ---- */

/* One state more: the number of iterations. */
static bool count_iteration(Graph *g, void *user, U step, const U *state, U *next, U *row, U *keep)
{
    LoopNode *n = user;
    next[n->states] = add(g, cast(g, step, DT_I64), uop_int(g, DT_I64, 1));
    return loop_iteration(g, user, step, state, next, row, keep);
}

/* A value: how many iterations the loop has, by a loop of what the condition is made of. NULL: it is made of what the
 * device cannot loop over. */
static U iterations_of(Graph *g, const LoopNode *n, const Loop *l)
{
    Arena *a = graph_arena(g);
    uint32_t *at = NEW_N(a, uint32_t, n->states + 1), left;
    GraphDef part = condition_body(a, n->body.def, n->states, at, &left);
    LoopNode m = { .c = n->c, .body = { &part, n->body.frame }, .states = left, .kind = NEW_N(a, int32_t, left + 1) };
    U *init = NEW_N(a, U, left + 1), *last = NEW_N(a, U, left + 1);
    if (left == n->states && !n->rows) return NULL;
    for (uint32_t k = 0; k < left; k++) m.kind[k] = n->kind[at[k]], init[k] = l->init[at[k]];
    init[left] = uop_int(g, DT_I64, 0);
    Loop counting = { .body = count_iteration,
                      .user = &m,
                      .trip = l->trip,
                      .most = l->most,
                      .keep = l->keep,
                      .states = left + 1,
                      .init = init,
                      .im = n->c->im };
    graph_error_clear(g);
    return loop_build(g, &counting, last, NULL) ? last[left] : NULL;
}

/* An iteration requests what only a run can tell, and so may the others. */
static bool many_asked(const Ctx *c, U trip)
{
    return c->im->run->question && uop_is_const(trip) && uop_const_int(trip) > LOOP_FEW;
}

/* What the device cannot loop over (sequences, shapes that change) is done iteration by iteration, as many as a run
 * tells, where that is all it has to tell. The first failure stands until their number is known. */
static bool iterations_by_answers(Graph *g, LoopNode *n, Loop *l, U *last, U *row)
{
    bool counted = uop_is_const(l->trip), until = l->keep && !uop_is_const(l->keep);
    /* it is another failure */
    if (counted && !until && !n->open) return n->run = many_asked(n->c, l->trip), false;
    U iterations = iterations_of(g, n, l),
      known = !iterations             ? NULL
        : known_scalar(g, iterations) ? iterations
                                  : import_query(n->c->im, iterations);
    if (known) {
        l->trip = uop_index(g, l->most = uop_const_int(known_scalar(g, known)));
        l->keep = NULL;
        n->counted = true;
    } else if (iterations && import_queries(n->c->im))
        return graph_fail_code(g, TG_UNSUPPORTED, "the number of a loop's iterations depends on data"), false;
    else if (!counted) return import_query(n->c->im, n->c->in[0]), false;
    else if (until) return import_query(n->c->im, n->c->in[Loop_cond]), false;
    graph_error_clear(g);
    if (known && loop_build(g, l, last, row)) return true;
    n->run = !known || many_asked(n->c, l->trip);
    return false;
}

static U loop_iterations(Graph *g, const LoopNode *n)
{
    const Ctx *c = n->c;
    U *v = loop_by_iterations(g, c,
                          &(RoundsNode){ .body = n->body,
                                         .counted = true,
                                         .trip = c->in[0],
                                         .keep = c->in[Loop_cond],
                                         .state = c->in + 2,
                                         .states = n->states,
                                         .rows = n->rows });
    return v ? outputs(g, c, v, n->states + n->rows) : NULL;
}

/* A condition that only compares counters with what stays says how many iterations there are. */
static void count_iterations(Graph *g, LoopNode *n, Loop *l)
{
    if (graph_error(g) != TG_OK || l->keep || l->trip->dtype != DT_INDEX) return;
    U trip = condition_trip(g, n->c, &n->body, n->states, l->init);
    if (!trip) return;
    l->trip = dim_min(g, l->trip, trip);
    l->most = l->trip->vmax;
    n->counted = true;
}

/** Loop (ONNX 1, 11, 13, 16): up to `trip` iterations while the condition holds; states are carried, rows are stacked.
 */
U op_loop(Graph *g, const Ctx *c)
{
    LoopNode n = { .c = c, .states = c->nin > 2 ? c->nin - 2 : 0 };
    Arena *a = graph_arena(g);
    if (!attr_graph(g, c, "body", &n.body)) return NULL;
    const GraphDef *body = n.body.def;
    if (body->noutput < 1 + n.states || body->ninput != n.states + 2)
        return fail_node(g, c, TG_BAD_MODEL, "body", "%u inputs and %u outputs do not fit", body->ninput,
                         body->noutput);
    n.rows = body->noutput - 1 - n.states;
    if (loop_is_run(c)) return loop_iterations(g, &n);
    n.kind = NEW_N(a, int32_t, n.states + n.rows + 1);
    U *init = NEW_N(a, U, n.states + 1);
    for (uint32_t k = 0; k < n.states; k++) {
        if (!c->in[2 + k])
            return fail_node(g, c, TG_UNSUPPORTED, NULL, "state %u without a first value is not covered", k);
        n.kind[k] = special_kind(c->in[2 + k]);
        init[k] = loop_bare(g, c->in[2 + k]);
    }
    Loop l = { .body = loop_iteration,
               .user = &n,
               .states = n.states,
               .rows = n.rows,
               .init = init,
               .im = c->im,
               .keep = c->in[Loop_cond] };
    U *last = NEW_N(a, U, n.states + 1), *row = NEW_N(a, U, n.rows + 1);
    l.trip = trip_of(g, c, &l.most);
    int start = l.keep ? known_bool(g, l.keep) : 1;
    if (l.trip->op == UOP_ERROR) return NULL;
    if (start < 0 && import_may_know(c->im, l.keep, false))
        return fail_node(g, c, TG_UNSUPPORTED, "cond", "depends on the data of an input");
    if (l.keep) l.keep = start == 1 ? NULL : start == 0 ? uop_bool(g, false) : reshape_i(g, l.keep, NULL, 0);
    count_iterations(g, &n, &l);
    if (loop_build(g, &l, last, row) || iterations_by_answers(g, &n, &l, last, row))
        return results(g, c, last, n.states, row, n.rows, n.kind);
    return n.run ? loop_iterations(g, &n) : NULL;
}

/* ---- Scan ---- */

/* length: how many iterations count, a scalar i64; NULL: all. kind: of states, rows, inputs. */
typedef struct {
    const Ctx *c;
    SubGraph body;
    uint32_t states, rows, inputs;
    const U *input;
    U trip, length;
    int64_t *axis;
    const int64_t *reverse;
    int32_t *kind;
} ScanNode;

static U scan_slice(Graph *g, const ScanNode *n, uint32_t k, U step)
{
    if (n->length && n->reverse[k]) {
        U last = sub(g, sub(g, n->length, uop_int(g, DT_I64, 1)), cast(g, step, DT_I64));
        return gather(g, n->input[k], max_(g, last, uop_int(g, DT_I64, 0)), n->axis[k]);
    }
    U at = n->reverse[k] ? sub(g, dim_sub(g, n->trip, uop_index(g, 1)), step) : step;
    return loop_slice(g, n->input[k], n->axis[k], at);
}

static bool scan_iteration(Graph *g, void *user, U step, const U *state, U *next, U *row, U *keep)
{
    ScanNode *n = user;
    U *in = NEW_N(graph_arena(g), U, n->states + n->inputs + 1),
      *out = NEW_N(graph_arena(g), U, n->states + n->rows + 1);
    for (uint32_t k = 0; k < n->states; k++) in[k] = loop_dressed(g, state[k], n->kind[k]);
    for (uint32_t k = 0; k < n->inputs; k++)
        in[n->states + k] = loop_dressed(g, scan_slice(g, n, k, step), n->kind[n->states + n->rows + k]);
    if (import_subgraph(g, n->c, &n->body, in, n->states + n->inputs, out, n->states + n->rows) != TG_OK) return false;
    if (!undress(g, n->c, out, n->states, n->rows, next, row, n->kind)) return false;
    U counts = n->length ? lt(g, cast(g, step, DT_I64), n->length) : NULL;
    for (uint32_t k = 0; counts && k < n->states; k++) next[k] = where(g, counts, next[k], state[k]);
    for (uint32_t k = 0; counts && k < n->rows; k++)
        row[k] = where(g, counts, row[k], scalar(g, (DType)row[k]->dtype, 0));
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

/* Stacked rows of those kinds, first iteration first along axis 0, brought to the axis and direction that the node
 * requests. */
static bool place_rows(Graph *g, const Ctx *c, U *row, const int32_t *kind, uint32_t rows, const int64_t *axis,
                       const int64_t *reverse)
{
    for (uint32_t k = 0; k < rows; k++) {
        int64_t order[TG_MAX_RANK + 2], rank = uop_rank(row[k]), at;
        if (!axis_ok(g, c, "scan_output_axes", axis[k], rank_of(row[k], kind[k]), &at)) return false;
        for (int64_t i = 0; i < rank; i++) order[i] = i < at ? i + 1 : i == at ? 0 : i;
        if (reverse[k]) row[k] = flip_axis(g, row[k], 0);
        if (at) row[k] = permute(g, row[k], order, (uint32_t)rank);
    }
    return true;
}

static bool scan_trip(Graph *g, ScanNode *n)
{
    for (uint32_t k = 0; k < n->inputs; k++) {
        U d = uop_dim(n->input[k], (uint32_t)n->axis[k]);
        if (k && !same_size(g, d, n->trip))
            return fail_node(g, n->c, TG_BAD_MODEL, NULL, "inputs of different lengths"), false;
        n->trip = d;
    }
    return true;
}

static bool scan_run(Graph *g, ScanNode *n, const U *init, U *last, U *row)
{
    if (!scan_trip(g, n)) return false;
    Loop l = { .body = scan_iteration,
               .user = n,
               .trip = n->trip,
               .most = n->trip->vmax,
               .states = n->states,
               .rows = n->rows,
               .init = init,
               .im = n->c->im };
    return loop_build(g, &l, last, row);
}

/* Iteration by iteration (iterations.h); in: the node's inputs. */
static bool scan_iterations(Graph *g, ScanNode *n, const U *in, U *last, U *row)
{
    if (!scan_trip(g, n)) return false;
    RoundsNode node = { .body = n->body,
                        .trip = cast(g, n->trip, DT_I64),
                        .state = in,
                        .scan = in + n->states,
                        .states = n->states,
                        .scans = n->inputs,
                        .rows = n->rows,
                        .axis = n->axis,
                        .reverse = n->reverse };
    U *v = loop_by_iterations(g, n->c, &node);
    return v && undress(g, n->c, v, n->states, n->rows, last, row, n->kind);
}

/* in: the node's inputs from `first` on, bare. */
static bool scan_node(Graph *g, const Ctx *c, ScanNode *n, uint32_t first, U *in)
{
    int64_t inputs = attr_int(g, c, "num_scan_inputs", 0);
    if (!attr_graph(g, c, "body", &n->body)) return false;
    if (inputs < 1 || inputs > c->nin - first || c->nin - first != n->body.def->ninput)
        return fail_node(g, c, TG_BAD_MODEL, "num_scan_inputs", "%lld does not fit", (long long)inputs), false;
    n->c = c;
    n->inputs = (uint32_t)inputs;
    n->states = c->nin - first - n->inputs;
    if (n->body.def->noutput < n->states)
        return fail_node(g, c, TG_BAD_MODEL, "body", "has fewer outputs than states"), false;
    n->rows = n->body.def->noutput - n->states;
    n->axis = NEW_N(graph_arena(g), int64_t, n->inputs + 1);
    n->kind = NEW_N(graph_arena(g), int32_t, c->nin + n->rows + 1);
    for (uint32_t k = first; k < c->nin; k++) {
        if (!c->in[k]) return fail_node(g, c, TG_BAD_MODEL, NULL, "input %u is missing", k), false;
        in[k - first] = loop_bare(g, c->in[k]);
        if (in[k - first]->dtype == DT_VOID)
            return fail_node(g, c, TG_UNSUPPORTED, c->node->in[k], "is no tensor that Scan is covered for"), false;
        n->kind[k - first < n->states ? k - first : k - first + n->rows] = special_kind(c->in[k]);
    }
    return true;
}

/** Scan (ONNX 9, 11, 16, 19): iterations over slices of the inputs along an axis each; states are carried, rows are
 * stacked along an axis each. */
U op_scan(Graph *g, const Ctx *c)
{
    ScanNode n = { 0 };
    U *in = NEW_N(graph_arena(g), U, c->nin + 1);
    if (!scan_node(g, c, &n, 0, in)) return NULL;
    const int64_t *axes = list_or_zeros(g, c, "scan_input_axes", n.inputs),
                  *to = list_or_zeros(g, c, "scan_output_axes", n.rows),
                  *back = list_or_zeros(g, c, "scan_output_directions", n.rows);
    U *last = NEW_N(graph_arena(g), U, n.states + 1), *row = NEW_N(graph_arena(g), U, n.rows + 1);
    n.reverse = list_or_zeros(g, c, "scan_input_directions", n.inputs);
    n.input = in + n.states;
    if (!axes || !to || !back || !n.reverse) return NULL;
    for (uint32_t k = 0; k < n.inputs; k++)
        if (!axis_ok(g, c, "scan_input_axes", axes[k], rank_of(n.input[k], n.kind[n.states + n.rows + k]), &n.axis[k]))
            return NULL;
    bool run = loop_is_run(c), made = !run && scan_run(g, &n, in, last, row);
    if (!made && (run || many_asked(c, n.trip))) made = scan_iterations(g, &n, c->in, last, row);
    return made && place_rows(g, c, row, n.kind + n.states, n.rows, to, back)
        ? results(g, c, last, n.states, row, n.rows, n.kind)
        : NULL;
}

/** Scan (ONNX 8): the same for each element of a batch axis 0, of which input 0 may give lengths; rows beyond an
 * element's length are 0. */
U op_scan_8(Graph *g, const Ctx *c)
{
    ScanNode n = { 0 };
    U *all_in = NEW_N(graph_arena(g), U, c->nin + 1), *in = NEW_N(graph_arena(g), U, c->nin + 1);
    if (!scan_node(g, c, &n, 1, all_in) || !(n.reverse = list_or_zeros(g, c, "directions", n.inputs))) return NULL;
    uint32_t all = n.states + n.rows;
    for (uint32_t k = 1; k < c->nin; k++)
        if (uop_rank(all_in[k - 1]) < 1 + (k > n.states) || !uop_is_const(uop_dim(all_in[k - 1], 0)) ||
            uop_size(all_in[k - 1], 0) < 1 || uop_size(all_in[k - 1], 0) != uop_size(all_in[0], 0))
            return fail_node(g, c, TG_BAD_MODEL, c->node->in[k], "wanted the same batch axis as in input 1%s",
                             k > n.states ? ", and one to scan" : "");
    int64_t batch = uop_size(all_in[0], 0);
    U *out = NEW_N(graph_arena(g), U, (uint64_t)all * (uint64_t)batch + 1), *last = NEW_N(graph_arena(g), U, all + 1);
    if (c->in[0] && (!uop_static(c->in[0]) || uop_numel(c->in[0]) != batch))
        return fail_node(g, c, TG_BAD_MODEL, "sequence_lens", "wanted one for each of %lld", (long long)batch);
    n.input = in + n.states;
    for (int64_t b = 0; b < batch; b++) {
        if (c->in[0]) n.length = cast(g, reshape_i(g, slice_i(g, c->in[0], 0, b, b + 1), NULL, 0), DT_I64);
        for (uint32_t k = 1; k < c->nin; k++) in[k - 1] = squeeze(g, slice_i(g, all_in[k - 1], 0, b, b + 1), 0);
        if (graph_error(g) != TG_OK || !scan_run(g, &n, in, last, last + n.states)) return NULL;
        for (uint32_t k = 0; k < all; k++) out[k * batch + b] = last[k];
    }
    for (uint32_t k = 0; k < all; k++) last[k] = stack(g, out + k * batch, (uint32_t)batch, 0);
    return results(g, c, last, n.states, last + n.states, n.rows, n.kind);
}

/* ---- If ---- */

static bool branch(Graph *g, const Ctx *c, const char *name, U *out)
{
    SubGraph body;
    if (!attr_graph(g, c, name, &body)) return false;
    if (body.def->noutput != c->nout)
        return fail_node(g, c, TG_BAD_MODEL, name, "has %u outputs; wanted %u", body.def->noutput, c->nout), false;
    return import_subgraph(g, c, &body, NULL, 0, out, c->nout) == TG_OK;
}

/* An empty value or x: as much of x as the sizes say, which a formula of sizes chooses. NULL when none is empty or the
 * condition is none. */
static U empty_or(Graph *g, U p, U yes, U no)
{
    const UOp *v[1], *dim[TG_MAX_RANK], *zero[TG_MAX_RANK];
    bool empty_yes = uop_static(yes) && !uop_numel(yes), empty_no = uop_static(no) && !uop_numel(no);
    if (yes->dtype != no->dtype || uop_rank(yes) != uop_rank(no) || empty_yes == empty_no || !values_of(g, p, v, 1))
        return NULL;
    for (uint32_t k = 0; k < uop_rank(yes); k++) {
        U a = uop_dim(yes, k), b = uop_dim(no, k);
        dim[k] = a == b ? a : where(g, v[0], a, b);
        zero[k] = uop_index(g, 0);
    }
    return shrink(g, empty_yes ? no : yes, zero, dim);
}

/* Do the branches hold what is worth skipping, a reduction or a call, or what must not fail where it is skipped? */
static bool is_heavy(Graph *g, U both, uint32_t first)
{
    Arena *a = arena_new();
    uint32_t n;
    bool heavy = false;
    const UOp **order = uop_toposort(g, &both, 1, a, &n);
    for (uint32_t k = 0; k < n; k++)
        heavy = heavy ||
            (order[k]->id >= first &&
             (order[k]->op == UOP_REDUCE || order[k]->op == UOP_CALL || order[k]->op == UOP_GUARD));
    arena_free(a);
    return heavy;
}

/* Only the branch that was chosen runs: a CALL of "if". first: the oldest node of the branches. NULL where their values
 * differ in form or are cheap. */
static U call_if(Graph *g, const Ctx *c, U p, const U *yes, const U *no, uint32_t first)
{
    U tuple[2] = { uop_new(g, UOP_TUPLE, DT_VOID, NO_ARG, yes, c->nout),
                   uop_new(g, UOP_TUPLE, DT_VOID, NO_ARG, no, c->nout) },
      both = uop_new(g, UOP_TUPLE, DT_VOID, NO_ARG, tuple, 2);
    U *captured, *out = NEW_N(graph_arena(g), U, c->nout + 1);
    for (uint32_t k = 0; k < c->nout; k++)
        if (yes[k]->dtype == DT_VOID || !same_form(yes[k], no[k])) return NULL;
    if (!is_heavy(g, both, first)) return NULL;
    BranchAttr attr = { .base = (int64_t)graph_count(g) << 8, .values = c->nout };
    U body = lift(g, both, NULL, 0, first, attr.base, &captured, &attr.captured),
      *arg = NEW_N(graph_arena(g), U, attr.captured + 1);
    arg[0] = p;
    for (uint32_t k = 0; k < attr.captured; k++) arg[k + 1] = captured[k];
    U call = call_new(g, custom_new(g, "if", &attr, sizeof attr, body->src, 2), arg, attr.captured + 1);
    for (uint32_t k = 0; k < c->nout; k++)
        out[k] = call_result(g, call, k, (DType)yes[k]->dtype, yes[k]->shape->dim, uop_rank(yes[k]));
    return outputs(g, c, out, c->nout);
}

static U choose(Graph *g, const Ctx *c, uint32_t k, U p, U yes, U no)
{
    int32_t kind = special_kind(yes);
    if (kind && kind == special_kind(no)) {
        U part[2];
        for (uint32_t i = 0; i < special_parts(kind); i++) part[i] = choose(g, c, k, p, yes->src[i], no->src[i]);
        return special_wrap(g, part, kind);
    }
    if (is_sequence(yes) && is_sequence(no) && yes->nsrc == no->nsrc) {
        const UOp **v = NEW_N(graph_arena(g), const UOp *, yes->nsrc + 1);
        for (uint32_t i = 0; i < yes->nsrc; i++) v[i] = choose(g, c, k, p, yes->src[i], no->src[i]);
        return sequence_new(g, v, yes->nsrc);
    }
    if (is_rows(yes) && is_rows(no)) return rows_new(g, choose(g, c, k, p, yes->src[0], no->src[0]));
    if (yes->dtype != DT_VOID && same_form(yes, no)) return where(g, p, yes, no);
    U y = yes->dtype != DT_VOID && no->dtype != DT_VOID ? empty_or(g, p, yes, no) : NULL;
    return y ? y
             : fail_node(g, c, TG_UNSUPPORTED, c->node->out[k],
                         "branches of different types or shapes, chosen by data, are not covered");
}

/** If (ONNX 1, 11, 13, 16, 19): the branch that the condition chooses. One that depends on a small input chooses at
 * import, for this plan; else both branches are computed, and each value is chosen, or, when that is work, the plan
 * branches. Values that differ in form, and a branch that fails, make the condition a question. */
U op_if(Graph *g, const Ctx *c)
{
    U *yes = NEW_N(graph_arena(g), U, c->nout + 1), *no = NEW_N(graph_arena(g), U, c->nout + 1), p = c->in[0];
    int known = known_bool(g, p);
    SubGraph other;
    /* it is not imported, but must be there */
    if (!attr_graph(g, c, "then_branch", &other) || !attr_graph(g, c, "else_branch", &other)) return NULL;
    if (known >= 0)
        return branch(g, c, known ? "then_branch" : "else_branch", yes) ? outputs(g, c, yes, c->nout) : NULL;
    if (import_may_know(c->im, p, false))
        return fail_node(g, c, TG_UNSUPPORTED, "cond", "depends on the data of an input");
    p = reshape_i(g, p, NULL, 0);
    uint32_t first = graph_count(g);
    if (!branch(g, c, "then_branch", yes) || !branch(g, c, "else_branch", no))
        return import_query(c->im, c->in[0]), NULL;
    U called = call_if(g, c, p, yes, no, first);
    if (called) return called;
    for (uint32_t k = 0; k < c->nout; k++) yes[k] = choose(g, c, k, p, yes[k], no[k]);
    if (graph_error(g) != TG_OK) import_query(c->im, c->in[0]);
    return outputs(g, c, yes, c->nout);
}
