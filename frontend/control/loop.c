/* Loops, as importers request them (loop.h): a few iterations unrolled, or a CALL of "loop" (graph/custom.h) whose body
 * stands for every iteration. What a body uses from outside and does not depend on the iteration is computed once,
 * outside, and captured. A state to which each iteration joins as much again has sizes that are formulas of the step:
 * the body is made for all of them. Must hold: other states keep type and shape (else the loop is unrolled, or refused
 * when the number of iterations is not known).
 */
#include <string.h>

#include "frontend/control/loop.h"
#include "frontend/import/shape_query.h"
#include "graph/base/memory.h"
#include "graph/custom.h"

enum { UNROLLED_BYTES_MAX = 1 << 28, GROWN_MAX = 1 << 20 };

U loop_bare(Graph *g, U x) { return complex_type(x) ? complex_pairs(g, x) : special_part(x, 0); }
U loop_dressed(Graph *g, U x, int32_t kind)
{
    return complex_is(kind) ? complex_of_pairs(g, x, kind) : special_wrap(g, &x, kind);
}

U loop_slice(Graph *g, U x, int64_t axis, U step)
{
    U dim[TG_MAX_RANK + 1];
    if (!uop_is_int_const(uop_dim(x, (uint32_t)axis), 0))
        return squeeze(g, slice(g, x, axis, step, uop_index(g, 1)), axis);
    for (uint32_t k = 0; k + 1 < uop_rank(x); k++) dim[k] = uop_dim(x, k + (k >= axis));
    return expand(g, scalar(g, (DType)x->dtype, 0), dim, uop_rank(x) - 1);
}

/* ---- unrolled ---- */

static U empty_rows(Graph *g, U like)
{
    U dim[TG_MAX_RANK + 1] = { uop_index(g, 0) };
    for (uint32_t k = 0; k < uop_rank(like); k++) dim[k + 1] = uop_dim(like, k);
    return expand(g, scalar(g, (DType)like->dtype, 0), dim, uop_rank(like) + 1);
}

static U stored(Graph *g, U u, U before)
{
    return u->dtype == DT_VOID || uop_is_const(u) || u == before || u->op == UOP_BUFFER ? u : contiguous(g, u);
}

/* Room for one iteration more: rows of all iterations so far, those of an iteration side by side. */
static U *with_room(Arena *a, U *rows, uint64_t width, int64_t iterations, int64_t *room)
{
    if (iterations < *room) return rows;
    U *more = NEW_N(a, U, width * (uint64_t)(*room = 2 * iterations + 8) + 1);
    if (iterations) memcpy(more, rows, sizeof *rows * width * (uint64_t)iterations);
    return more;
}

static U stacked(Graph *g, const U *row, uint64_t width, int64_t iterations)
{
    U *each = NEW_N(graph_arena(g), U, iterations);
    for (int64_t i = 0; i < iterations; i++) each[i] = row[(uint64_t)i * width];
    return stack(g, each, (uint32_t)iterations, 0);
}

/* Iteration by iteration; a state is stored, so that no iteration computes the earlier ones again. What iterations
 * leave bounds them: each leaves something. */
static bool unroll(Graph *g, const Loop *l, int64_t trip, U *last, U *row)
{
    Arena *a = graph_arena(g);
    U *rows = NULL, *next = NEW_N(a, U, l->states + 1), keep = NULL;
    for (uint32_t k = 0; k < l->states; k++) last[k] = l->init[k];
    int64_t i = 0, room = 0;
    size_t before = arena_bytes(a);
    for (; i < trip || (i == 0 && l->rows); i++) {
        if (arena_bytes(a) - before > UNROLLED_BYTES_MAX)
            return graph_fail_code(g, TG_LIMIT,
                                   "%lld iterations of a loop that is done iteration by iteration make a graph of more "
                                   "than %d bytes",
                                   (long long)i, UNROLLED_BYTES_MAX),
                   false;
        rows = with_room(a, rows, l->rows, i, &room);
        if (!l->body(g, l->user, uop_index(g, i), last, next, rows + (uint64_t)i * l->rows, &keep)) return false;
        if (!trip) break;
        if (keep && !uop_is_const(keep))
            return graph_fail_code(g, TG_UNSUPPORTED, "a loop of few iterations has a condition that depends on data"),
                   false;
        bool end = i + 1 == trip || (keep && !uop_const_int(keep));
        for (uint32_t k = 0; k < l->states; k++) last[k] = end ? next[k] : stored(g, next[k], last[k]);
        if (!end) continue;
        i++;
        break;
    }
    for (uint32_t k = 0; k < l->rows; k++) row[k] = i ? stacked(g, rows + k, l->rows, i) : empty_rows(g, rows[k]);
    return graph_error(g) == TG_OK;
}

/* ---- captured values ---- */

/* What a body reads: nodes that do not depend on the iteration, outside which nothing of the body may reach. */
typedef struct { uint8_t *inner, *seen, *constant; U *captured; uint32_t count; } Capture;

/* Integers that are made of constants: quantised weights less their zero points, say. */
static bool is_constant(const uint8_t *constant, U u)
{
    bool is = u->op == UOP_CONST || u->op == UOP_BUFFER || u->op == UOP_STACK || u->op == UOP_IOTA ||
        op_is((Op)u->op, FLAG_MOVE) || (op_is((Op)u->op, FLAG_ALU) && dtype_is_int((DType)u->dtype));
    for (uint32_t k = 0; k < u->nsrc && is; k++) is = constant[u->src[k]->id];
    return is;
}

/* Named again inside: views, sizes and constants, and integers made of them, which the body's sums take in the type
 * that they lie in (sched/integers.c). A CUSTOMFUNCTION's body is a scope of its own. */
static bool is_named_again(const Capture *c, U u)
{
    if (c->constant[u->id]) return true;
    switch (u->op) {
    case UOP_PARAM: case UOP_CALL: case UOP_GETTUPLE: case UOP_CONTIGUOUS: return false;
    case UOP_STACK: case UOP_IOTA: case UOP_BUFFER: case UOP_CUSTOMFUNCTION: return true;
    default:
        return !u->nsrc || op_is((Op)u->op, FLAG_MOVE) ||
            (u->dtype == DT_INDEX && !uop_rank(u) && op_is((Op)u->op, FLAG_ALU));
    }
}

/* Anything else that does not depend on the iteration is captured. Explicit stack: chains can be long. */
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
        if (!c->inner[u->id] && !is_named_again(c, u)) c->captured[c->count++] = u;
        if ((!c->inner[u->id] && !is_named_again(c, u)) || u->op == UOP_CUSTOMFUNCTION) continue;
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

static bool now_inner(uint8_t *inner, U u) { return !inner[u->id] && (inner[u->id] = 1); }

/* step: NULL: none. True where an older node has turned out to be inside: a call one of whose results is of a size that
 * is, and the sizes that such a call tells. */
static bool find_inner(uint8_t *inner, U u, uint32_t first, U step)
{
    inner[u->id] |= u->id >= first;
    for (uint32_t k = 0; k < u->nsrc && !(step && is_loop_of(u, step)); k++) inner[u->id] |= inner[u->src[k]->id];
    bool found = u->op == UOP_GETTUPLE && inner[u->src[1]->id] && now_inner(inner, u->src[0]);
    for (uint32_t k = 0; u->op == UOP_CALL && inner[u->id] && k < u->src[0]->nsrc; k++)
        found |= call_sets(u, u->src[0]->src[k]) && now_inner(inner, u->src[0]->src[k]);
    return found;
}

U lift(Graph *g, U body, const U *formal, uint32_t nformal, uint32_t first, int64_t slot, U **captured, uint32_t *count)
{
    Arena *a = arena_new();
    uint32_t n, all = graph_count(g);
    const UOp **order = uop_toposort(g, &body, 1, a, &n), **param;
    Capture c = { NEW_N(a, uint8_t, all), NEW_N(a, uint8_t, all), NEW_N(a, uint8_t, all),
                  NEW_N(graph_arena(g), U, n + 1), 0 };
    for (uint32_t k = 0; k < nformal; k++) c.inner[formal[k]->id] = c.seen[formal[k]->id] = 1;
    for (bool again = true; again;) {
        again = false;
        for (uint32_t i = 0; i < n; i++)
            again |= find_inner(c.inner, order[i], first, nformal ? formal[nformal - 1] : NULL);
    }
    for (uint32_t i = 0; i < n; i++) c.constant[order[i]->id] = is_constant(c.constant, order[i]);
    c.inner[body->id] = 1;
    capture(&c, body);
    param = NEW_N(a, const UOp *, c.count + 1);
    for (uint32_t k = 0; k < c.count; k++)
        param[k] =
            uop_param(g, (DType)c.captured[k]->dtype, c.captured[k]->shape->dim, uop_rank(c.captured[k]), slot + k);
    *captured = c.captured;
    *count = c.count;
    if (c.count) body = uop_substitute(g, body, c.captured, param, c.count);
    arena_free(a);
    return body;
}

/* ---- a CALL of "loop" ---- */

/* Do these sizes depend on the iteration? */
static bool any_varies(Graph *g, const U *dim, uint32_t rank, U step)
{
    Arena *a = arena_new();
    uint32_t n;
    bool found = false;
    const UOp **order = rank ? uop_toposort(g, dim, rank, a, &n) : NULL;
    for (uint32_t k = 0; order && k < n; k++) found = found || order[k] == step;
    arena_free(a);
    return found;
}

/* The sizes of state k after n iterations. */
static const U *sizes_after(Graph *g, const Loop *l, uint32_t k, U n)
{
    U *dim = NEW_N(graph_arena(g), U, TG_MAX_RANK + 1);
    for (uint32_t a = 0; a < uop_rank(l->init[k]); a++) {
        dim[a] = uop_dim(l->init[k], a);
        if (l->grow[k][a]) dim[a] = dim_add(g, dim[a], dim_mul(g, l->grow[k][a], n));
    }
    return dim;
}

/* What the first iteration, made for the initial states, joins to them. */
static bool find_growth(Graph *g, const Loop *l, U step, const U *value)
{
    bool any = false;
    for (uint32_t k = 0; k < l->states; k++)
        for (uint32_t a = 0;
             value[k]->dtype != DT_VOID && uop_rank(value[k]) == uop_rank(l->init[k]) && a < uop_rank(value[k]); a++) {
            U more = dim_sub(g, uop_dim(value[k], a), uop_dim(l->init[k], a));
            if (more->vmin < 0 || !more->vmax || any_varies(g, &more, 1, step)) continue;
            l->grow[k][a] = more;
            any = true;
        }
    return any && l->most <= GROWN_MAX;
}

static bool fits_state(Graph *g, const Loop *l, uint32_t k, U value, U iterations)
{
    const U *dim = sizes_after(g, l, k, iterations);
    bool same = value->dtype == l->init[k]->dtype && uop_rank(value) == uop_rank(l->init[k]);
    for (uint32_t a = 0; same && a < uop_rank(value); a++) same = same_size(g, uop_dim(value, a), dim[a]);
    return same;
}

static bool check_body(Graph *g, const Loop *l, U step, const U *value)
{
    U after = dim_add(g, step, uop_index(g, 1));
    for (uint32_t k = 0; k < l->states; k++)
        if (value[k]->dtype == DT_VOID || !fits_state(g, l, k, value[k], after))
            return graph_fail_code(g, TG_UNSUPPORTED, "state %u of a loop changes its type or shape", k), false;
    for (uint32_t k = l->states; k < l->states + l->rows; k++)
        if (value[k]->dtype == DT_VOID || any_varies(g, value[k]->shape->dim, uop_rank(value[k]), step))
            return graph_fail_code(g, TG_UNSUPPORTED, "rows of a loop differ in shape"), false;
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
static void loop_results(Graph *g, const Loop *l, U call, U iterations, const LoopAttr *a, const uint32_t *of,
                         const U *value, U *last, U *row)
{
    U *all = NEW_N(graph_arena(g), U, l->states + 1);
    uint32_t own = l->states;
    for (uint32_t k = 0; k < l->states; k++) {
        bool history = loop_keeps_all(a, k);
        if (history) all[k] = result_rows(g, call, k, value[k], uop_index(g, a->trip + 1));
        last[k] = history
            ? squeeze(g, slice_i(g, all[k], 0, a->trip, a->trip + 1), 0)
            : call_result(g, call, k, (DType)value[k]->dtype, sizes_after(g, l, k, iterations), uop_rank(value[k]));
    }
    for (uint32_t k = 0; k < l->rows; k++)
        row[k] = of[k] != UINT32_MAX ? slice_i(g, all[of[k]], 0, 1, a->trip + 1)
                                     : result_rows(g, call, own++, value[l->states + k], iterations);
}

static bool depends(Graph *g, U root, const U *on, uint32_t non)
{
    Arena *a = arena_new();
    uint32_t n;
    bool found = false;
    const UOp **order = uop_toposort(g, &root, 1, a, &n);
    for (uint32_t k = 0; k < n; k++)
        for (uint32_t i = 0; i < non && !found; i++) found = order[k] == on[i];
    arena_free(a);
    return found;
}

/* Behind the body's values, calls that depend on the iteration and of which nothing but a size that they set is
 * requested.
 */
static U with_calls(Graph *g, U tuple, const U *formal, uint32_t nformal)
{
    Arena *a = arena_new();
    uint32_t n, count = tuple->nsrc;
    const UOp **order = uop_toposort(g, &tuple, 1, a, &n);
    U *v = NEW_N(graph_arena(g), U, count + n + 1);
    memcpy(v, tuple->src, count * sizeof *v);
    for (uint32_t k = 0; k < n; k++) {
        U call = order[k]->op == UOP_DEFINE_VAR && size_from_data(g, order[k]) ? size_setter(g, order[k]) : NULL;
        for (uint32_t i = 0; i < n && call; i++)
            if (order[i] == call) call = NULL;
        if (call && depends(g, call, formal, nformal)) v[count++] = call;
    }
    arena_free(a);
    return count == tuple->nsrc ? tuple
                                : with_calls(g, uop_new(g, UOP_TUPLE, DT_VOID, NO_ARG, v, count), formal, nformal);
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

/* States that an iteration passes on unchanged are values from outside: the loop goes on without them. formal, value
 * and keep follow; at: the old number of each that is left. */
static void drop_unchanged(Graph *g, Loop *l, U *formal, U *value, U *keep, int64_t base, uint32_t *at)
{
    Arena *a = graph_arena(g);
    U *from = NEW_N(a, U, l->states + 1), *to = NEW_N(a, U, l->states + 1), *init = NEW_N(a, U, l->states + 1),
      *v = NEW_N(a, U, l->states + l->rows + 2);
    uint32_t left = 0, n = 0, values = 0;
    for (uint32_t k = 0; k < l->states; k++) {
        bool same = value[k] == formal[k];
        from[n] = formal[k];
        to[n++] = same ? l->init[k]
                       : uop_param(g, (DType)formal[k]->dtype, formal[k]->shape->dim, uop_rank(formal[k]), base + left);
        if (same) continue;
        at[left] = k;
        memcpy(l->grow[left], l->grow[k], sizeof *l->grow);
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

/* loops around the one that is built: equal bodies of loops side by side use one name for the step */
static _Thread_local int loop_depth;

static void leave_loop(void *unused)
{
    (void)unused;
    loop_depth--;
}

static bool body_for(Graph *g, const Loop *l, int64_t base, U *formal, U *value, U *keep)
{
    U step = formal[l->states];
    for (uint32_t k = 0; k < l->states; k++)
        formal[k] = uop_param(g, (DType)l->init[k]->dtype, sizes_after(g, l, k, step), uop_rank(l->init[k]), base + k);
    return l->body(g, l->user, step, formal, value, value + l->states, keep);
}

static bool make_body(Graph *g, const Loop *l, int64_t base, U *formal, U *value, U *keep)
{
    for (uint32_t k = 0; k < l->states; k++)
        if (l->init[k]->dtype == DT_VOID)
            return graph_fail_code(g, TG_UNSUPPORTED,
                                   "state %u of a loop is no tensor, and its iterations are not known", k),
                   false;
    /* one that can only be 0 would fold away */
    U step = formal[l->states] =
        uop_var(g, arena_printf(graph_arena(g), "step%d", loop_depth), 0, l->most > 1 ? l->most - 1 : 1);
    Undo undo;
    undo_push(&undo, leave_loop, NULL);
    loop_depth++;
    bool ok = body_for(g, l, base, formal, value, keep);
    if (ok && find_growth(g, l, step, value)) ok = body_for(g, l, base, formal, value, keep);
    undo_pop(&undo);
    leave_loop(NULL);
    return ok && check_body(g, l, step, value);
}

static bool call_body(Graph *g, const Loop *l, int64_t base, const U *formal, const U *value, U keep, U *last, U *row)
{
    Arena *a = graph_arena(g);
    uint32_t *of = NEW_N(a, uint32_t, l->rows + 1);
    bool counted = keep || l->keep || !uop_is_const(l->trip);
    U *captured, iterations = l->trip, step = formal[l->states], trip = cast(g, l->trip, DT_I64);
    LoopAttr attr = { .base = base,
                      .trip = uop_is_const(l->trip) ? uop_const_int(l->trip) : -1,
                      .states = l->states,
                      .has_keep = keep != NULL,
                      .counted = counted };
    for (uint32_t k = 0; k < l->rows; k++) of[k] = UINT32_MAX;
    if (!counted) attr.history = histories(l, value, of);
    U tuple = with_calls(g, body_values(g, l, value, of, keep, &attr.rows), formal, l->states + 1);
    U meta[3] = { lift(g, tuple, formal, l->states + 1, UINT32_MAX, base + l->states, &captured, &attr.captured),
                  step };
    if (counted)
        meta[2] = size_var(g, "iterations", 0, l->most),
        iterations = l->im ? size_answered(l->im->run, meta[2]) : meta[2];
    U *arg = NEW_N(a, U, 2 + l->states + attr.captured);
    arg[0] = trip;
    arg[1] = l->keep ? l->keep : uop_bool(g, true);
    for (uint32_t k = 0; k < l->states; k++) arg[2 + k] = l->init[k];
    for (uint32_t k = 0; k < attr.captured; k++) arg[2 + l->states + k] = captured[k];
    U call = call_new(g, custom_new(g, "loop", &attr, sizeof attr, meta, counted ? 3 : 2), arg,
                      2 + l->states + attr.captured);
    loop_results(g, l, call, iterations, &attr, of, value, last, row);
    /* as many as the size says */
    for (uint32_t k = 0; k < l->rows && counted && !keep && !l->keep && trip != l->trip; k++)
        row[k] = slice(g, row[k], 0, uop_index(g, 0), l->trip);
    return graph_error(g) == TG_OK;
}

static bool call_loop(Graph *g, const Loop *l, U *last, U *row)
{
    Arena *a = graph_arena(g);
    Loop moving = *l;
    int64_t base = (int64_t)graph_count(g) << 8;
    U *formal = NEW_N(a, U, l->states + 1), *value = NEW_N(a, U, l->states + l->rows + 1),
      *found = NEW_N(a, U, l->states + 1), keep = NULL;
    uint32_t *at = NEW_N(a, uint32_t, l->states + 1);
    moving.grow = arena_alloc(a, sizeof *moving.grow * (l->states + 1));
    if (!make_body(g, &moving, base, formal, value, &keep)) return false;
    if (l->rows && l->most > INT32_MAX)
        return graph_fail_code(g, TG_UNSUPPORTED, "a loop without a limit has rows"), false;
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
    if (graph_error(g) != TG_OK) return false;              /* of before: it must not be cleared below */
    if (known && trip <= LOOP_FEW && unroll(g, l, trip, last, row)) return true;
    if (known && !trip) return false;
    graph_error_clear(g);
    if (call_loop(g, l, last, row)) return true;
    if (!known) return false;
    graph_error_clear(g);               /* a body that only makes sense with the iteration's number in its shapes */
    return unroll(g, l, trip, last, row);
}
