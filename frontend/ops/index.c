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
#include "frontend/ops/index.h"
#include "frontend/values/text.h"
#include "graph/custom.h"

enum { CONST_MAX = 1 << 24 };

/* ---- helpers ---- */

const int64_t *const_ints(Graph *g, U x, uint32_t *n)
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

U ints_const(Graph *g, const int64_t *v, const int64_t *shape, uint32_t rank)
{
    int64_t numel = 1;
    for (uint32_t k = 0; k < rank; k++) numel *= shape[k];
    return tensor_const(g, DT_I64, shape, rank, v, (size_t)numel * 8, "");
}

bool known_ok(Graph *g, const Ctx *c, const int64_t *v, uint32_t n, uint32_t from, uint32_t stride, int64_t size)
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

/* The bits of a float as an integer that orders as the values do, NaN above all; and back. */
static U ordered(Graph *g, U x)
{
    DType t = x->dtype == DT_F64 ? DT_I64 : DT_I32;
    U most = uop_int(g, t, dtype_max(t)), zero = uop_int(g, t, 0), bits = bitcast(g, x, t);
    bits = where(g, eq(g, x, uop_float(g, (DType)x->dtype, 0)), zero, bits);
    return where(g, is_nan(g, x), most, where(g, lt(g, bits, zero), xor_(g, bits, most), bits));
}

static U unordered(Graph *g, U x, DType t)
{
    U most = uop_int(g, (DType)x->dtype, dtype_max((DType)x->dtype));
    return bitcast(g, where(g, lt(g, x, uop_int(g, (DType)x->dtype, 0)), xor_(g, x, most), x), t);
}

/* Of the smallest, NaN would be the maximum of the negated: its order is that of integers. */
static U topk_one(Graph *g, U x, int64_t axis, bool largest, U *index)
{
    bool by_bits = !largest && dtype_is_float((DType)x->dtype);
    U from = by_bits ? topk_type(g, x) : x, v = by_bits ? ordered(g, from) : from;
    if (!largest) v = not_(g, v);
    *index = argmax(g, v, axis, true, false);
    v = max_reduce(g, v, axis, true);
    if (!largest) v = not_(g, v);
    return by_bits ? topk_back(g, unordered(g, v, (DType)from->dtype), (DType)x->dtype) : v;
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
