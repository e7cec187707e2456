/* Operators that find, take and place elements by index.
 * In: indices known at import (checked there) or not (guarded: one that is out of range fails the run, graph/guard.h).
 * Out: INDEX of a shaped index where that says it, a host function (host.c) where the result's size or the order of
 * writes depends on data. A data-dependent size is a DEFINE_VAR with bounds, so what follows is compiled once.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "frontend/values/complex.h"
#include "frontend/host/host.h"
#include "frontend/import/import.h"
#include "frontend/import/shape_query.h"
#include "frontend/input_names.h"
#include "frontend/values/text.h"
#include "graph/custom.h"

enum { CONST_MAX = 1 << 24, CHAIN_MAX = 16, ROWS_MAX = 1 << 22, ROW_LEAST = 16 };

/* ---- helpers ---- */

/* Values of a constant i32 or i64 tensor; NULL when it is not known. */
static const int64_t *const_ints(Graph *g, U x, uint32_t *n)
{
    size_t size;
    const void *p = dtype_is_int((DType)x->dtype) && uop_static(x) ? data_of(g, x, CONST_MAX, &size) : NULL;
    if (!p) return NULL;
    *n = (uint32_t)uop_numel(x);
    if (x->dtype == DT_I64) return p;
    if (x->dtype != DT_I32) return NULL;
    int64_t *v = NEW_N(graph_arena(g), int64_t, *n + 1);
    for (uint32_t k = 0; k < *n; k++) v[k] = ((const int32_t *)p)[k];
    return v;
}

static U ints_const(Graph *g, const int64_t *v, const int64_t *shape, uint32_t rank)
{
    int64_t numel = 1;
    for (uint32_t k = 0; k < rank; k++) numel *= shape[k];
    return tensor_const(g, DT_I64, shape, rank, v, (size_t)numel * 8, "");
}

/* Known indices are checked here, others by the builder's guard; stride picks every stride-th value from `from` (the
 * columns of GatherND). */
static bool known_ok(Graph *g, const Ctx *c, const int64_t *v, uint32_t n, uint32_t from, uint32_t stride, int64_t size)
{
    for (uint32_t k = from; k < n; k += stride)
        if (v[k] < -size || v[k] >= size)
            return fail_node(g, c, TG_BAD_MODEL, c->node->in[Gather_indices], "index %lld; the axis has size %lld",
                             (long long)v[k], (long long)size),
                   false;
    return true;
}

static bool index_ok(Graph *g, const Ctx *c, U x, U idx, uint32_t axis)
{
    uint32_t n;
    bool fixed = uop_is_const(uop_dim(x, axis));
    const int64_t *v = fixed ? const_ints(g, idx, &n) : NULL;
    if (!v && fixed && !uop_size(x, axis) && uop_numel(idx))
        return fail_node(g, c, TG_BAD_MODEL, c->node->in[Gather_indices], "%lld indices on an axis of size 0",
                         (long long)uop_numel(idx)),
               false;
    return !v || known_ok(g, c, v, n, 0, 1, uop_size(x, axis));
}

/* ---- Gather ---- */

/* One known position is a view; a run of them too. */
static U gather_view(Graph *g, U x, U idx, int64_t axis)
{
    const UOp *v[1];
    if (!uop_static(idx) || uop_numel(idx) != 1 || !values_of(g, idx, v, 1)) return NULL;
    U at = uop_is_const(v[0])                                     ? uop_index(g, uop_const_int(v[0]))
        : v[0]->op == UOP_CAST && v[0]->src[0]->dtype == DT_INDEX ? v[0]->src[0]
                                                                  : NULL;
    if (!at || (uop_is_const(at) && uop_const_int(at) < 0 && !uop_is_const(uop_dim(x, (uint32_t)axis)))) return NULL;
    if (uop_is_const(at) && uop_const_int(at) < 0) at = uop_index(g, uop_const_int(at) + uop_size(x, (uint32_t)axis));
    U size = uop_dim(x, (uint32_t)axis);
    if (at->vmin < 0 || (size_from_data(g, size) && at->vmax >= size->vmin)) return NULL;
    graph_need(g, dim_sub(g, dim_sub(g, size, uop_index(g, 1)), at));
    U y = squeeze(g, slice(g, x, axis, at, uop_index(g, 1)), axis);
    for (uint32_t k = 0; k < uop_rank(idx); k++) y = unsqueeze(g, y, axis);
    return y;
}

U op_gather(Graph *g, const Ctx *c)
{
    U x = c->in[0], idx = c->in[Gather_indices];
    int64_t axis;
    if (!axis_ok(g, c, "axis", attr_int(g, c, "axis", 0), uop_rank(x), &axis)) return NULL;
    if (!index_ok(g, c, x, idx, (uint32_t)axis)) return NULL;
    U view = gather_view(g, x, idx, axis);
    return view ? view : gather(g, x, idx, axis);
}

U op_gather_elements(Graph *g, const Ctx *c)
{
    U x = c->in[0], idx = c->in[GatherElements_indices];
    int64_t axis;
    if (uop_rank(idx) != uop_rank(x))
        return fail_node(g, c, TG_BAD_MODEL, c->node->in[GatherElements_indices], "rank %u; wanted %u", uop_rank(idx),
                         uop_rank(x));
    if (!axis_ok(g, c, "axis", attr_int(g, c, "axis", 0), uop_rank(x), &axis)) return NULL;
    return index_ok(g, c, x, idx, (uint32_t)axis) ? gather_elements(g, x, idx, axis) : NULL;
}

U op_gather_nd(Graph *g, const Ctx *c)
{
    U x = c->in[0], idx = c->in[GatherND_indices];
    int64_t batch = attr_int(g, c, "batch_dims", 0);
    uint32_t rank = uop_rank(idx), n;
    int64_t depth = rank && uop_is_const(uop_dim(idx, rank - 1)) ? uop_size(idx, rank - 1) : -1;
    if (batch < 0 || depth < 1 || batch >= rank || batch + depth > uop_rank(x))
        return fail_node(g, c, TG_BAD_MODEL, c->node->in[GatherND_indices],
                         "%lld indices a row after %lld batch axes do not fit rank %u", (long long)depth,
                         (long long)batch, uop_rank(x));
    const int64_t *v = uop_static(x) ? const_ints(g, idx, &n) : NULL;
    for (int64_t k = 0; k < depth; k++) {
        int64_t size = uop_size(x, (uint32_t)(batch + k));
        if (v && !known_ok(g, c, v, n, (uint32_t)k, (uint32_t)depth, size)) return NULL;
        if (!v && !size && uop_numel(idx))
            return fail_node(g, c, TG_BAD_MODEL, c->node->in[GatherND_indices], "indices on an axis of size 0");
    }
    return gather_nd(g, x, idx, batch);
}

/* ---- NonZero, Compress, Unique ---- */

/* Row-major positions [rank, n] of what is known at import. */
static U nonzero_known(Graph *g, U x, const void *data)
{
    int64_t numel = uop_numel(x), n = nonzero_find(x->dtype, data, numel, NULL), rank = uop_rank(x),
            *flat = NEW_N(graph_arena(g), int64_t, n + 1);
    int64_t *out = NEW_N(graph_arena(g), int64_t, rank * n + 1);
    nonzero_find(x->dtype, data, numel, flat);
    for (int64_t k = rank; k-- > 0;)
        for (int64_t i = 0; i < n; i++)
            out[k * n + i] = flat[i] % uop_size(x, (uint32_t)k), flat[i] /= uop_size(x, (uint32_t)k);
    return ints_const(g, out, (int64_t[]){ rank, n }, 2);
}

static U nonzero(Graph *g, const Ctx *c, U x)
{
    size_t size;
    const void *data = uop_static(x) ? data_of(g, x, CONST_MAX, &size) : NULL;
    if (data) return nonzero_known(g, x, data);
    U n = size_var(g, "nonzero", 0, uop_numel(x));
    U call = call_new(g, custom_new(g, "nonzero", NULL, 0, &n, 1), &x, 1);
    return call_result(g, call, 0, DT_I64, (U[]){ uop_index(g, uop_rank(x)), size_answered(c->im->run, n) }, 2);
}

/* Of strings the empty one is nothing. */
U op_non_zero(Graph *g, const Ctx *c)
{
    U x = special_part(c->in[0], 0), zero = scalar(g, type_of(x), 0);
    return nonzero(g, c, complex_type(c->in[0]) ? or_(g, ne(g, x, zero), ne(g, special_part(c->in[0], 1), zero)) : x);
}

/** Compress (ONNX 9): slices of x along the axis (without one: elements of x in a row) at which the condition holds; a
 * short condition leaves the rest out. */
U op_compress(Graph *g, const Ctx *c)
{
    U x = c->in[0], keep = c->in[Compress_condition];
    int64_t axis = 0;
    if (!attr_find(c, "axis")) x = flatten(g, x, 0), x = squeeze(g, x, 0);
    else if (!axis_ok(g, c, "axis", attr_int(g, c, "axis", 0), uop_rank(x), &axis)) return NULL;
    if (uop_rank(keep) != 1)
        return fail_node(g, c, TG_BAD_MODEL, c->node->in[Compress_condition], "rank %u; wanted 1", uop_rank(keep));
    U left = dim_sub(g, uop_dim(x, (uint32_t)axis), uop_dim(keep, 0));
    if (left->vmax < 0)
        return fail_node(g, c, TG_BAD_MODEL, c->node->in[Compress_condition], "has size %lld; there are %lld slices",
                         (long long)uop_size(keep, 0), (long long)uop_size(x, (uint32_t)axis));
    graph_need(g, left);
    return gather(g, x, squeeze(g, nonzero(g, c, keep), 0), axis);
}

static int by_text(const void *a, const void *b) { return strcmp(*(const char *const *)a, *(const char *const *)b); }

/* Strings as their places among all that occur, in order; *word: those. */
static U text_ranks(Graph *g, const Ctx *c, U *word)
{
    const char **s;
    int64_t n, count = 0, shape[TG_MAX_RANK];
    if (!input_text(g, c, 0, &s, &n)) return NULL;
    const char **sorted = NEW_N(graph_arena(g), const char *, n + 1);
    int64_t *rank = NEW_N(graph_arena(g), int64_t, n + 1);
    memcpy(sorted, s, sizeof *s * (size_t)n);
    qsort(sorted, (size_t)n, sizeof *sorted, by_text);
    for (int64_t k = 0; k < n; k++)
        if (!count || strcmp(sorted[k], sorted[count - 1])) sorted[count++] = sorted[k];
    for (int64_t k = 0; k < n; k++)
        rank[k] = (const char **)bsearch(&s[k], sorted, (size_t)count, sizeof *sorted, by_text) - sorted;
    U x = text_numbers(c->in[0]);
    for (uint32_t k = 0; k < uop_rank(x); k++) shape[k] = uop_size(x, k);
    *word = text_list(g, import_pool(c), sorted, &count, 1);
    return ints_const(g, rank, shape, uop_rank(x));
}

/* Distinct elements, or slices along an axis, and their counts. Slices become rows for the host function; complex
 * numbers are pairs there, strings numbers: where they are sorted, places in order. false: it failed. */
static bool unique(Graph *g, const Ctx *c, bool sorted, U out[4])
{
    U x = c->in[0], word = NULL, dim[TG_MAX_RANK + 1] = { 0 };
    bool whole = !attr_find(c, "axis"), text = is_text(x);
    int64_t axis = 0, order[TG_MAX_RANK + 1], back[TG_MAX_RANK + 1];
    int32_t pair = complex_type(x);
    if (!whole && !axis_ok(g, c, "axis", attr_int(g, c, "axis", 0), uop_rank(special_part(x, 0)), &axis)) return false;
    x = pair ? complex_pairs(g, x) : text && sorted ? text_ranks(g, c, &word) : special_part(x, 0);
    if (!x) return false;
    uint32_t rank = uop_rank(x);
    for (int64_t k = 0; k < rank; k++) order[k] = !k ? axis : k <= axis ? k - 1 : k, back[order[k]] = k;
    U moved = whole ? x : permute(g, x, order, rank);
    U flat = flatten(g, moved,
                     !whole     ? 1
                         : pair ? rank - 1
                                : rank),
      rows = uop_dim(flat, 0), n = size_var(g, "unique", rows->vmin > 0, rows->vmax);
    U call = call_new(g, custom_new(g, "unique", &(UniqueAttr){ sorted }, sizeof(UniqueAttr), &n, 1), &flat, 1);
    n = size_answered(c->im->run, n);
    U y = call_result(g, call, 0, (DType)x->dtype, (U[]){ n, uop_dim(flat, 1) }, 2);
    for (uint32_t k = 0; k < rank; k++) dim[k] = k ? uop_dim(moved, k) : n;
    y = whole ? reshape(g, y, (U[]){ n, uop_index(g, 2) }, pair ? 2 : 1)
              : permute(g, reshape(g, y, dim, rank), back, rank);
    out[0] = pair              ? complex_of_pairs(g, y, pair)
        : word && uop_numel(x) ? text_wrap(g, take(g, text_numbers(word), y, 0))
        : text                 ? text_wrap(g, y)
                               : y;
    for (uint32_t k = 1; k < 4; k++) out[k] = call_result(g, call, k, DT_I64, k == 2 ? &rows : &n, 1);
    return ok(g);
}

/** Unique (ONNX 11): elements or slices, where each stood first, which each of x is, counts. */
U op_unique(Graph *g, const Ctx *c)
{
    U out[4];
    return unique(g, c, attr_bool(g, c, "sorted", true), out) ? outputs(g, c, out, 4) : NULL;
}

/* com.microsoft Unique: in the order of x, without where each stood first. */
U op_unique_ms(Graph *g, const Ctx *c)
{
    U out[4];
    return unique(g, c, false, out) ? outputs(g, c, (U[]){ out[0], out[2], out[3] }, 3) : NULL;
}

/* ---- TopK ---- */

static U topk_one(Graph *g, U x, int64_t axis, bool largest, U *index)
{
    U v = largest ? x : dtype_is_float((DType)x->dtype) ? neg(g, x) : not_(g, x);
    *index = argmax(g, v, axis, true, false);
    v = max_reduce(g, v, axis, true);
    return largest ? v : dtype_is_float((DType)x->dtype) ? neg(g, v) : not_(g, v);
}

/* As one of the four types that the host function takes; unsigned ones with the upper half first. */
static U topk_type(Graph *g, U x)
{
    DType t = (DType)x->dtype;
    if (t == DT_F32 || t == DT_F64 || t == DT_I32 || t == DT_I64) return x;
    if (t == DT_U64) return bitcast(g, xor_(g, x, uop_int(g, t, INT64_MIN)), DT_I64);
    return cast(g, x, dtype_is_float(t) ? DT_F32 : dtype_size(t) < 4 ? DT_I32 : DT_I64);
}

static U topk_back(Graph *g, U y, DType t)
{
    return t == DT_U64 ? xor_(g, bitcast(g, y, t), uop_int(g, t, INT64_MIN)) : y->dtype == t ? y : cast(g, y, t);
}

/** TopK (ONNX 1, 10, 11): the k largest (or smallest) along the axis, best first; equal ones by lower index. */
U op_top_k(Graph *g, const Ctx *c)
{
    U x = c->in[0], k, dim[TG_MAX_RANK], out[2];
    const U *size;
    int64_t axis;
    uint32_t n = 1, rank = uop_rank(x);
    bool largest = attr_bool(g, c, "largest", true);
    if (!axis_ok(g, c, "axis", attr_int(g, c, "axis", -1), rank, &axis)) return NULL;
    if (c->opset >= 10 && !input_sizes(g, c, TopK_K, &size, &n)) return NULL;
    if (n != 1) return fail_node(g, c, TG_BAD_MODEL, "K", "has %u values; wanted 1", n);
    k = c->opset >= 10 ? size[0] : uop_index(g, attr_int(g, c, "k", -1));
    graph_need(g, dim_sub(g, uop_dim(x, (uint32_t)axis), k));
    if (k->vmin < 0 || (uop_is_const(k) && uop_const_int(k) > uop_size(x, (uint32_t)axis)))
        return fail_node(g, c, TG_BAD_MODEL, "K", "%lld of an axis of size %lld", (long long)k->vmin,
                         (long long)uop_size(x, (uint32_t)axis));
    for (uint32_t i = 0; i < rank; i++) dim[i] = i == axis ? k : uop_dim(x, i);
    if (uop_is_int_const(k, 1)) {
        out[0] = topk_one(g, x, axis, largest, &out[1]);
        return outputs(g, c, out, 2);
    }
    U from = topk_type(g, x),
      call = call_new(
          g, custom_new(g, "topk", &(TopkAttr){ (int32_t)axis, largest, size_number(k) }, sizeof(TopkAttr), NULL, 0),
          &from, 1);
    out[0] = topk_back(g, call_result(g, call, 0, (DType)from->dtype, dim, rank), (DType)x->dtype);
    out[1] = call_result(g, call, 1, DT_I64, dim, rank);
    return outputs(g, c, out, 2);
}

/* ---- NonMaxSuppression ---- */

static U or_scalar(Graph *g, const Ctx *c, uint32_t i, DType t, double otherwise)
{
    return c->in[i] ? reshape_i(g, cast(g, c->in[i], t), NULL, 0) : scalar(g, t, otherwise);
}

/** NonMaxSuppression (ONNX 10, 11): rows of (picture, class, box), class by class, best first.
 *  in   boxes [B,N,4], scores [B,C,N], most a class (0), overlap limit (0), least score     out  [n,3] i64, n given by
 * the data
 */
U op_non_max_suppression(Graph *g, const Ctx *c)
{
    U boxes = cast(g, c->in[0], DT_F32), scores = cast(g, c->in[NonMaxSuppression_scores], DT_F32),
      most = or_scalar(g, c, 2, DT_I64, 0);
    if (uop_rank(boxes) != 3 || uop_rank(scores) != 3)
        return fail_node(g, c, TG_BAD_MODEL, NULL, "boxes of rank %u, scores of rank %u; wanted 3", uop_rank(boxes),
                         uop_rank(scores));
    if (!uop_is_int_const(uop_dim(boxes, 2), 4) || !one_size(g, &boxes, 0, &scores, 0) ||
        !one_size(g, &boxes, 1, &scores, 2))
        return fail_node(g, c, TG_BAD_MODEL, NULL, "boxes and scores do not fit each other");
    const UOp *limit[1];
    int64_t each = uop_size(scores, 2),
            known = values_of(g, most, limit, 1) && uop_is_const(limit[0]) ? uop_const_int(limit[0]) : each;
    each = known < 0 ? 0 : known < each ? known : each;
    U n = size_var(g, "nms", 0, uop_size(scores, 0) * uop_size(scores, 1) * each);
    U arg[5] = { boxes, scores, most, or_scalar(g, c, 3, DT_F32, 0), or_scalar(g, c, 4, DT_F32, -INFINITY) };
    U call = call_new(
        g, custom_new(g, "nms", &(NmsAttr){ attr_bool(g, c, "center_point_box", false) }, sizeof(NmsAttr), &n, 1), arg,
        5);
    return call_result(g, call, 0, DT_I64, (U[]){ size_answered(c->im->run, n), uop_index(g, 3) }, 2);
}

/* ---- ScatterND, ScatterElements ---- */

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
        from[at[k]] = k;                            /* of equal indices the last counts */
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
