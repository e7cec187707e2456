/* Operators that place elements by index: ScatterND, ScatterElements.
 * In: indices known at import (checked there) or not (guarded, graph/guard.h). Out: of known ones each place looks up
 * its update, or, where they are a grid of rows and columns, the updates are shifted to it; few unknown ones are
 * compared with each place; else a host function (host.c), since the order of writes depends on data.
 */
#include <string.h>

#include "frontend/host/host.h"
#include "frontend/input_names.h"
#include "frontend/ops/index.h"
#include "graph/custom.h"

enum { CHAIN_MAX = 16, ROWS_MAX = 1 << 22, ROW_LEAST = 16 };

static bool scatter_op(Graph *g, const Ctx *c, ScatterOp *op)
{
    static const char *const name[] = { "none", "add", "mul", "max", "min" };
    const char *s = attr_str(g, c, "reduction", "none");
    for (int k = 0; k < 5; k++)
        if (!strcmp(s, name[k])) return *op = (ScatterOp)k, true;
    return fail_node(g, c, TG_BAD_MODEL, "reduction", "'%s' is none of none, add, mul, max, min", s), false;
}

static U combine(Graph *g, ScatterOp op, U old, U update)
{
    switch (op) {
    case SCATTER_ADD: return add(g, old, update);
    case SCATTER_MUL: return mul(g, old, update);
    case SCATTER_MAX: return max_(g, old, update);
    case SCATTER_MIN: return min_(g, old, update);
    default: return update;
    }
}

/* Which row of the updates each of `places` gets, -1 for none; false when one gets several and they would have to be
 * combined. */
static bool invert(int64_t *from, int64_t places, const int64_t *at, int64_t n, ScatterOp op)
{
    for (int64_t k = 0; k < places; k++) from[k] = -1;
    for (int64_t k = 0; k < n; k++) {
        if (op != SCATTER_SET && from[at[k]] >= 0) return false;
        from[at[k]] = k; /* of equal indices the last counts */
    }
    return true;
}

/* data [P, S], updates [K, S], known places: each row of the result looks up its update. */
static U scatter_known(Graph *g, U data, U updates, const int64_t *at, int64_t n, ScatterOp op)
{
    int64_t places = uop_size(data, 0), *from = NEW_N(graph_arena(g), int64_t, places + 1);
    uint8_t *hit = arena_alloc(graph_arena(g), (size_t)places + 1);
    if (!invert(from, places, at, n, op)) return NULL;
    for (int64_t k = 0; k < places; k++) {
        hit[k] = from[k] >= 0;
        if (from[k] < 0) from[k] = 0;
    }
    U mask = tensor_const(g, DT_BOOL, (int64_t[]){ places, 1 }, 2, hit, (size_t)places, "");
    return where(g, mask, combine(g, op, data, gather(g, updates, ints_const(g, from, &places, 1), 0)), data);
}

/* The same with few rows whose places depend on data (at: i64 [K], non-negative): one after the other. */
static U scatter_chain(Graph *g, U data, U updates, U at, ScatterOp op)
{
    U place = unsqueeze(g, iota(g, uop_dim(data, 0), DT_I64), 1);
    for (int64_t k = 0; k < uop_size(at, 0); k++) {
        U hit = eq(g, place, unsqueeze(g, slice_i(g, at, 0, k, k + 1), 1));
        data = where(g, hit, combine(g, op, data, slice_i(g, updates, 0, k, k + 1)), data);
    }
    return data;
}

/* Whole rows [K, ..] take the places that at [K] tells, of equal ones the last: each place looks for its row. Worth it
 * where rows are longer than the search. */
static U scatter_rows(Graph *g, U x, U updates, U at, uint32_t axis)
{
    U places = uop_dim(x, axis), none = uop_int(g, DT_I32, -1), dim[TG_MAX_RANK];
    int64_t row = 1;
    for (uint32_t k = 0; k < uop_rank(x); k++) row *= k == axis ? 1 : uop_dim(x, k)->vmax;
    if (places->vmax < 2 || row < ROW_LEAST || places->vmax * uop_dim(at, 0)->vmax > ROWS_MAX) return NULL;
    U hit =
        eq(g, unsqueeze(g, iota(g, places, DT_I32), 1), unsqueeze(g, cast(g, position_in(g, at, places), DT_I32), 0));
    U from = max_reduce(g, where(g, hit, unsqueeze(g, iota(g, uop_dim(at, 0), DT_I32), 0), none), 1, false);
    for (uint32_t k = 0; k < uop_rank(x); k++) dim[k] = k == axis ? places : uop_index(g, 1);
    U found = lt(g, none, from), place = place_where(g, found, from, &updates, axis);
    return where(g, reshape(g, found, dim, uop_rank(x)), take(g, updates, cast(g, place, DT_INDEX), axis), x);
}

static bool index_type_ok(Graph *g, const Ctx *c)
{
    DType t = (DType)c->in[ScatterElements_indices]->dtype;
    return t == DT_I32 || t == DT_I64 ||
        (fail_node(g, c, TG_BAD_MODEL, c->node->in[ScatterElements_indices], "is of type %s; wanted i32 or i64",
                   dtype_name(t)),
         false);
}

static U scatter_host(Graph *g, U x, U idx, U updates, ScatterOp op, int64_t axis)
{
    U arg[3] = { x, idx, updates };
    U call = call_new(
        g, custom_new(g, "scatter", &(ScatterAttr){ (int32_t)op, (int32_t)axis }, sizeof(ScatterAttr), NULL, 0), arg,
        3);
    return call_result(g, call, 0, (DType)arg[0]->dtype, arg[0]->shape->dim, uop_rank(arg[0]));
}

/* Rows of an index [.., depth] as positions in the first depth axes of x. */
static U flat_places(Graph *g, U x, U idx, int64_t depth)
{
    U at = NULL;
    for (int64_t k = 0; k < depth; k++) {
        U size = uop_dim(x, (uint32_t)k), v = position_in(g, squeeze(g, slice_i(g, idx, -1, k, k + 1), -1), size);
        at = at ? add(g, mul(g, at, size), v) : v;
    }
    return cast(g, reshape_i(g, at, (int64_t[]){ uop_numel(at) }, 1), DT_I64);
}

static const int64_t *row_places(Graph *g, U x, const int64_t *v, int64_t rows, int64_t depth)
{
    int64_t *at = NEW_N(graph_arena(g), int64_t, rows + 1);
    for (int64_t j = 0; j < rows; j++)
        for (int64_t k = 0; k < depth; k++) {
            int64_t size = uop_size(x, (uint32_t)k), i = v[j * depth + k];
            at[j] = at[j] * size + (i < 0 ? i + size : i);
        }
    return at;
}

/* ---- places that are a grid ---- */

/* Places along one axis of the data, a column of the index: values that vary along one axis of the grid, or along none
 * (-1). */
typedef struct {
    const int64_t *v;
    uint32_t n;
    int axis;
} Column;

static bool column_of(Graph *g, U idx, U u, Column *c)
{
    uint32_t rank = uop_rank(idx) - 1;
    if (u->op == UOP_RESHAPE) u = u->src[0]; /* a last axis of size 1 is added to the grid's */
    bool grid = uop_rank(u) == rank;
    for (uint32_t k = 0; k < rank && grid; k++) grid = uop_dim(u, k) == uop_dim(idx, k);
    while (u->op == UOP_EXPAND) u = u->src[0];
    c->axis = -1;
    for (uint32_t k = 0; k < uop_rank(u) && grid; k++)
        if (uop_size(u, k) > 1) {
            grid = c->axis < 0;
            c->axis = (int)(k + rank - uop_rank(u));
        }
    return grid && (c->v = const_ints(g, u, &c->n));
}

/* Each axis of the data has a column of its own, and no other axis of the grid repeats places. */
static bool columns_of(Graph *g, U idx, Column *c)
{
    uint32_t rank = uop_rank(idx) - 1;
    uint64_t used = 0;
    bool grid = idx->op == UOP_CAT && idx->arg.i == rank;
    for (uint32_t k = 0; k < idx->nsrc && grid; k++) {
        grid = uop_is_int_const(uop_dim(idx->src[k], rank), 1) && column_of(g, idx, idx->src[k], &c[k]);
        uint64_t bit = grid && c[k].axis >= 0 ? UINT64_C(1) << c[k].axis : 0;
        grid = grid && !(used & bit);
        used |= bit;
    }
    for (uint32_t k = 0; k < rank && grid; k++) grid = uop_size(idx, k) == 1 || used >> k & 1;
    return grid;
}

/* Updates with the data's axes, in their order. */
static U in_order(Graph *g, U x, U idx, U updates, const Column *c)
{
    uint32_t rank = uop_rank(idx) - 1, depth = idx->nsrc, n = 0, at[TG_MAX_RANK] = { 0 };
    U dim[TG_MAX_RANK];
    int64_t order[TG_MAX_RANK];
    uint32_t count = 0;
    for (uint32_t k = 0; k < rank; k++) /* the grid's axes that vary */
        if (uop_size(idx, k) > 1) at[k] = n, dim[n++] = uop_dim(idx, k);
    for (uint32_t k = 0; k < depth; k++)
        if (c[k].axis >= 0) order[count++] = at[c[k].axis];
    for (uint32_t k = depth; k < uop_rank(x); k++) dim[n] = uop_dim(x, k), order[count++] = n++;
    updates = permute(g, reshape(g, updates, dim, n), order, n);
    for (uint32_t k = 0; k < uop_rank(x); k++) dim[k] = k < depth ? uop_index(g, c[k].n) : uop_dim(x, k);
    return reshape(g, updates, dim, uop_rank(x));
}

static bool is_run(const int64_t *v, uint32_t n)
{
    bool run = v[0] >= 0;
    for (uint32_t k = 1; k < n && run; k++) run = v[k] == v[0] + k;
    return run;
}

/* Updates along one axis at their places, anything elsewhere; places: which these are, of the axis alone. */
static U spread(Graph *g, U updates, const Column *c, uint32_t axis, int64_t size, U *places)
{
    int64_t before[TG_MAX_RANK] = { 0 }, after[TG_MAX_RANK] = { 0 };
    if (is_run(c->v, c->n)) {
        int64_t n = c->n, begin = c->v[0], end = size - begin - n;
        U one = scalar(g, DT_BOOL, 1), all = uop_index(g, n);
        *places = pad_i(g, expand(g, one, &all, 1), &begin, &end, NULL);
        before[axis] = begin, after[axis] = end;
        return pad_i(g, updates, before, after, NULL);
    }
    int64_t *from = NEW_N(graph_arena(g), int64_t, size + 1);
    uint8_t *hit = arena_alloc(graph_arena(g), (size_t)size + 1);
    memset(hit, 0, (size_t)size);
    for (uint32_t k = 0; k < c->n; k++) { /* of equal places the last counts */
        int64_t at = c->v[k] < 0 ? c->v[k] + size : c->v[k];
        from[at] = k, hit[at] = 1;
    }
    *places = tensor_const(g, DT_BOOL, &size, 1, hit, (size_t)size, "");
    return take(g, updates, ints_const(g, from, &size, 1), axis);
}

/* Places that are all of some rows by all of some columns, as an assignment to slices has them: updates are shifted,
 * and chosen where rows and columns are theirs. NULL: they are no grid. */
static U scatter_grid(Graph *g, const Ctx *c, U x, U idx, U updates)
{
    Column column[TG_MAX_RANK];
    U there = NULL, places, dim[TG_MAX_RANK];
    if (idx->nsrc > TG_MAX_RANK || uop_rank(idx) - 1 > TG_MAX_RANK || !columns_of(g, idx, column)) return NULL;
    for (uint32_t k = 0; k < idx->nsrc; k++)
        if (!known_ok(g, c, column[k].v, column[k].n, 0, 1, uop_size(x, k))) return NULL;
    updates = in_order(g, x, idx, updates, column);
    for (uint32_t k = 0; k < idx->nsrc; k++) {
        if (is_run(column[k].v, column[k].n) && column[k].n == uop_size(x, k)) continue;
        updates = spread(g, updates, &column[k], k, uop_size(x, k), &places);
        for (uint32_t i = 0; i < uop_rank(x); i++) dim[i] = i == k ? uop_dim(x, k) : uop_index(g, 1);
        places = reshape(g, places, dim, uop_rank(x));
        there = there ? and_(g, there, places) : places;
    }
    return there ? where(g, there, updates, x) : updates;
}

/* ---- the operators ---- */

/** ScatterND (ONNX 11, 16, 18): data with slices named by the rows of the indices replaced by, or combined with, the
 * updates. */
U op_scatter_nd(Graph *g, const Ctx *c)
{
    U x = c->in[0], idx = c->in[ScatterND_indices], updates = c->in[ScatterND_updates];
    uint32_t n = 0, rank = uop_rank(idx);
    ScatterOp op;
    if (!scatter_op(g, c, &op) || !index_type_ok(g, c)) return NULL;
    int64_t depth = rank && uop_is_const(uop_dim(idx, rank - 1)) ? uop_size(idx, rank - 1) : -1, places = 1, slice = 1,
            rows = 1;
    if (depth < 1 || depth > uop_rank(x))
        return fail_node(g, c, TG_BAD_MODEL, c->node->in[ScatterND_indices],
                         "%lld indices a row; the data have rank %u", (long long)depth, uop_rank(x));
    if (uop_rank(updates) != rank - 1 + uop_rank(x) - depth)
        return fail_node(g, c, TG_BAD_MODEL, c->node->in[ScatterND_updates], "rank %u does not fit", uop_rank(updates));
    if (!uop_static(x) || !uop_static(idx) || !uop_static(updates)) return scatter_host(g, x, idx, updates, op, -1);
    for (uint32_t k = 0; k < uop_rank(x); k++) *(k < depth ? &places : &slice) *= uop_size(x, k);
    for (uint32_t k = 0; k + 1 < rank; k++) rows *= uop_size(idx, k);
    if (uop_numel(updates) != rows * slice)
        return fail_node(g, c, TG_BAD_MODEL, c->node->in[ScatterND_updates], "%lld elements; wanted %lld",
                         (long long)uop_numel(updates), (long long)(rows * slice));
    if (!rows) return x;
    if (!places) return fail_node(g, c, TG_BAD_MODEL, c->node->in[ScatterND_indices], "indices on an axis of size 0");
    if (!uop_numel(x)) return x;
    U grid = op == SCATTER_SET ? scatter_grid(g, c, x, idx, updates) : NULL;
    if (grid || graph_error(g) != TG_OK) return grid;
    const int64_t *known = const_ints(g, idx, &n);
    for (int64_t k = 0; known && k < depth; k++)
        if (!known_ok(g, c, known, n, (uint32_t)k, (uint32_t)depth, uop_size(x, (uint32_t)k))) return NULL;
    if (!known && rows > CHAIN_MAX) return scatter_host(g, x, idx, updates, op, -1);
    U flat = reshape_i(g, x, (int64_t[]){ places, slice }, 2),
      rows_of = reshape_i(g, updates, (int64_t[]){ rows, slice }, 2);
    U at = known ? NULL : flat_places(g, x, cast(g, idx, DT_I64), depth),
      y = at && op == SCATTER_SET ? scatter_rows(g, flat, rows_of, at, 0) : NULL;
    if (!y)
        y = known ? scatter_known(g, flat, rows_of, row_places(g, x, known, rows, depth), rows, op)
                  : scatter_chain(g, flat, rows_of, at, op);
    return y ? reshape(g, y, x->shape->dim, uop_rank(x)) : scatter_host(g, x, idx, updates, op, -1);
}

/* Known indices of ScatterElements as row-major positions in x. */
static const int64_t *element_places(Graph *g, U x, U idx, const int64_t *v, int64_t axis)
{
    int64_t n = uop_numel(idx), *at = NEW_N(graph_arena(g), int64_t, n + 1);
    for (int64_t j = 0; j < n; j++) {
        int64_t step = 1, rest = j;
        for (uint32_t k = uop_rank(x); k-- > 0; step *= uop_size(x, k), rest /= uop_size(idx, k))
            at[j] += step * (k != axis ? rest % uop_size(idx, k) : v[j] < 0 ? v[j] + uop_size(x, k) : v[j]);
    }
    return at;
}

/* An index that is the same along all axes but one, as [K]; NULL: it is not known to be. */
static U along_axis(Graph *g, U idx, U x, uint32_t axis)
{
    U from = idx->op == UOP_EXPAND ? idx->src[0] : idx, size = uop_dim(idx, axis);
    uint32_t lead = uop_rank(idx) - uop_rank(from);
    if (from == idx || axis < lead || uop_dim(from, axis - lead) != size) return NULL;
    for (uint32_t k = 0; k < uop_rank(idx); k++)
        if (k != axis &&
            (uop_dim(idx, k) != uop_dim(x, k) || (k >= lead && !uop_is_int_const(uop_dim(from, k - lead), 1))))
            return NULL;
    return reshape(g, from, &size, 1);
}

/** ScatterElements (ONNX 11, 16, 18), Scatter (9): each update goes to its own place, but for the axis, where the index
 * tells. */
U op_scatter_elements(Graph *g, const Ctx *c)
{
    U x = c->in[0], idx = c->in[ScatterElements_indices], updates = c->in[ScatterElements_updates];
    uint32_t n = 0;
    int64_t axis;
    ScatterOp op;
    if (!scatter_op(g, c, &op) || !index_type_ok(g, c) ||
        !axis_ok(g, c, "axis", attr_int(g, c, "axis", 0), uop_rank(x), &axis))
        return NULL;
    bool fits = uop_rank(idx) == uop_rank(x) && uop_rank(updates) == uop_rank(x);
    for (uint32_t k = 0; fits && k < uop_rank(x); k++) fits = one_size(g, &idx, k, &updates, k);
    if (!fits) return fail_node(g, c, TG_BAD_MODEL, c->node->in[ScatterElements_indices], "its shape does not fit");
    for (uint32_t k = 0; k < uop_rank(x); k++)
        if (k != axis && uop_dim(idx, k)->vmin > uop_size(x, k))
            return fail_node(g, c, TG_BAD_MODEL, c->node->in[ScatterElements_indices],
                             "axis %u is longer than that of the data", k);
    const int64_t *known = uop_static(x) && uop_static(idx) ? const_ints(g, idx, &n) : NULL;
    if (uop_static(idx) && !uop_numel(idx)) return x;
    if (uop_is_int_const(uop_dim(x, (uint32_t)axis), 0))
        return fail_node(g, c, TG_BAD_MODEL, c->node->in[ScatterElements_indices], "indices on an axis of size 0");
    if (!known) {
        U at = op == SCATTER_SET ? along_axis(g, idx, x, (uint32_t)axis) : NULL,
          y = at ? scatter_rows(g, x, updates, at, (uint32_t)axis) : NULL;
        return y ? y : scatter_host(g, x, idx, updates, op, axis);
    }
    if (!known_ok(g, c, known, n, 0, 1, uop_size(x, (uint32_t)axis))) return NULL;
    U flat = reshape_i(g, x, (int64_t[]){ uop_numel(x), 1 }, 2), rows = reshape_i(g, updates, (int64_t[]){ n, 1 }, 2);
    U y = scatter_known(g, flat, rows, element_places(g, x, idx, known, axis), n, op);
    return y ? reshape(g, y, x->shape->dim, uop_rank(x)) : scatter_host(g, x, idx, updates, op, axis);
}
