/* Operators that make tensors, tell their sizes and show them in other shapes; slice.c has those that cut and join.
 * In: values whose sizes may be symbolic. Out: views of them; sizes and axes come from attributes (old opsets) or from
 * inputs that fold to known values. To add one: a function here and a row in ops.def.
 */
#include "frontend/import/import.h"
#include "frontend/input_names.h"
#include "frontend/ops/shape.h"
#include "frontend/values/text.h"
#include "graph/custom.h"

#include <math.h>
#include <string.h>

#define RANGE_MAX (INT64_C(1) << 42)    /* what the importer takes for a value */

/* Sizes of a result from input i; -1 and below are errors. */
static bool sizes_ok(Graph *g, const Ctx *c, uint32_t i, const U **v, uint32_t *n)
{
    if (!input_sizes(g, c, i, v, n)) return false;
    if (*n > TG_MAX_RANK)
        return fail_node(g, c, TG_LIMIT, c->node->in[i], "rank %u; at most %d", *n, TG_MAX_RANK), false;
    for (uint32_t k = 0; k < *n; k++)
        if ((*v)[k]->vmax < 0)
            return fail_node(g, c, TG_BAD_MODEL, c->node->in[i], "size %lld of axis %u", (long long)(*v)[k]->vmax, k),
                   false;
    return true;
}

/* ---- constants ---- */

U op_constant(Graph *g, const Ctx *c)
{
    const Attr *a = NULL;
    for (uint32_t k = 0; k < c->node->nattr; k++) {
        if (strncmp(c->node->attr[k].name, "value", 5) && strcmp(c->node->attr[k].name, "sparse_value")) continue;
        if (a) return fail_node(g, c, TG_BAD_MODEL, c->node->attr[k].name, "has a second value");
        a = attr_find(c, c->node->attr[k].name);
    }
    if (!a) return fail_node(g, c, TG_BAD_MODEL, "value", "is missing");
    int64_t n = a->n;
    if (a->type == ATTR_STRING) return text_list(g, import_pool(c), &a->s, NULL, 0);
    if (a->type == ATTR_STRINGS) return text_list(g, import_pool(c), a->strings, &n, 1);
    if ((a->type == ATTR_TENSOR || a->type == ATTR_SPARSE_TENSOR) && a->t)
        return import_constant(g, import_pool(c), a->t);
    if (a->type == ATTR_FLOAT) return scalar(g, DT_F32, (double)a->f);
    if (a->type == ATTR_INT) return uop_int(g, DT_I64, a->i);
    if (a->type == ATTR_FLOATS)
        return import_tensor(g,
                             &(TensorDef){ .name = "",
                                           .type = TG_F32,
                                           .rank = 1,
                                           .shape = &n,
                                           .numel = n,
                                           .data = a->floats,
                                           .size_bytes = (size_t)n * 4 });
    if (a->type == ATTR_INTS)
        return import_tensor(g,
                             &(TensorDef){ .name = "",
                                           .type = TG_I64,
                                           .rank = 1,
                                           .shape = &n,
                                           .numel = n,
                                           .data = a->ints,
                                           .size_bytes = (size_t)n * 8 });
    return fail_node(g, c, TG_UNSUPPORTED, a->name, "constants of this kind are not covered");
}

U op_constant_of_shape(Graph *g, const Ctx *c)
{
    const Attr *a = attr_find(c, "value");
    const U *dim;
    uint32_t n;
    if (a && (a->type != ATTR_TENSOR || a->t->numel != 1))
        return fail_node(g, c, TG_BAD_MODEL, "value", "wanted a tensor of one element");
    U v = a ? import_constant(g, import_pool(c), a->t) : scalar(g, DT_F32, 0), part[2];
    if (!sizes_ok(g, c, 0, &dim, &n)) return NULL;
    for (uint32_t k = 0; k < special_parts(special_kind(v)); k++)
        part[k] = expand(g, reshape_i(g, special_part(v, k), NULL, 0), dim, n);
    return special_wrap(g, part, special_kind(v));
}

U op_eye_like(Graph *g, const Ctx *c)
{
    U x = c->in[0];
    int64_t k = clamp_i(attr_int(g, c, "k", 0), -EXTENT_MAX, EXTENT_MAX), to = attr_int(g, c, "dtype", 0);
    DType t = attr_find(c, "dtype") ? attr_dtype(g, c, "dtype", 0) : type_of(x);
    if (uop_rank(x) != 2) return fail_node(g, c, TG_BAD_MODEL, NULL, "an input of rank %u; wanted 2", uop_rank(x));
    if (t == DT_VOID)
        return fail_node(g, c, TG_UNSUPPORTED, "dtype", "element type %lld is not covered", (long long)to);
    U row = unsqueeze(g, iota(g, uop_dim(x, 0), DT_I64), 1), col = iota(g, uop_dim(x, 1), DT_I64);
    return cast(g, eq(g, add(g, row, uop_int(g, DT_I64, k)), col), t);
}

/* Number of steps of a Range whose ends are constants. */
static int64_t range_count(U start, U limit, U delta)
{
    if (!dtype_is_float(type_of(start))) {
        __int128 span = (__int128)limit->arg.i - start->arg.i, step = delta->arg.i,
                 n = (span + step - (step > 0 ? 1 : -1)) / step;
        return (span > 0) != (step > 0) || !span ? 0 : n > INT64_MAX ? INT64_MAX : (int64_t)n;
    }
    double n = ceil((uop_const_float(limit) - uop_const_float(start)) / uop_const_float(delta));
    return n > 0 ? (n < 1e15 ? (int64_t)n : INT64_MAX) : 0;
}

/* The size of a Range of which input i, an integer, is known to a run alone, as is the size then. */
static U count_by_data(Graph *g, const Ctx *c, uint32_t i, int64_t delta)
{
    U by = uop_int(g, DT_I64, delta), start = cast(g, reshape(g, c->in[0], NULL, 0), DT_I64),
      span = sub(g, cast(g, reshape(g, c->in[Range_limit], NULL, 0), DT_I64), start),
      n = div_(g, add(g, span, uop_int(g, DT_I64, delta - (delta > 0 ? 1 : -1))), by);
    return queried_size(g, c, i, clamp(g, n, uop_int(g, DT_I64, 0), uop_int(g, DT_I64, RANGE_MAX)));
}

/* The size of a Range: counted, or limit - start where one is symbolic and the step is 1. */
static U range_size(Graph *g, const Ctx *c)
{
    const UOp *v[3], *one;
    const U *s[3];
    uint32_t n;
    bool known = true;
    for (uint32_t k = 0; k < 3; k++) {
        if (uop_numel(c->in[k]) != 1) return fail_node(g, c, TG_BAD_MODEL, c->node->in[k], "is not a scalar");
        bool here = (v[k] = known_scalar(g, c->in[k])) != NULL;
        if (!here && dtype_is_float(type_of(c->in[k]))) return fail_data(g, c, k);
        known = known && here;
    }
    if (known && (dtype_is_float(type_of(c->in[Range_delta])) ? uop_const_float(v[2]) == 0 : v[2]->arg.i == 0))
        return fail_node(g, c, TG_BAD_MODEL, c->node->in[Range_delta], "is 0; wanted another step");
    if (known) {
        int64_t count = range_count(v[0], v[1], v[2]);
        return count <= RANGE_MAX ? uop_index(g, count)
                                  : fail_node(g, c, TG_LIMIT, NULL, "more than %lld elements", (long long)RANGE_MAX);
    }
    for (uint32_t k = 0; k < 2 && v[2] && v[2]->arg.i; k++)
        if (!values_of(g, c->in[k], &one, 1) && (v[2]->arg.i != 1 || !import_may_be_size(c->im, c->in[k])))
            return count_by_data(g, c, k, v[2]->arg.i);
    for (uint32_t k = 0; k < 3; k++)
        if (!input_sizes(g, c, k, &s[k], &n)) return NULL;
    if (!uop_is_int_const(*s[2], 1))
        return fail_node(g, c, TG_UNSUPPORTED, c->node->in[Range_delta],
                         "is other than 1 with a symbolic end, which is not covered");
    return dim_max(g, uop_index(g, 0), dim_sub(g, *s[1], *s[0]));
}

U op_range(Graph *g, const Ctx *c)
{
    DType t = type_of(c->in[0]);
    U size = range_size(g, c);
    DType stash = attr_float_type(g, c, "stash_type", TG_F32);
    if (!size || !ok(g)) return size;
    U start = reshape_i(g, c->in[0], NULL, 0), delta = reshape_i(g, c->in[Range_delta], NULL, 0);
    if (t == DT_F16 || t == DT_BF16) start = wide(g, cast(g, start, stash)), delta = wide(g, cast(g, delta, stash));
    if (type_of(c->in[Range_limit]) != t || type_of(c->in[Range_delta]) != t)
        return fail_node(g, c, TG_BAD_MODEL, NULL, "inputs of several types");
    return cast(g, add(g, start, mul(g, iota(g, size, type_of(start)), delta)), t);
}

/* ---- shapes ---- */

U size_value(Graph *g, U dim)
{
    return uop_is_const(dim) ? uop_int(g, DT_I64, uop_const_int(dim)) : cast(g, dim, DT_I64);
}

U op_shape(Graph *g, const Ctx *c)
{
    int64_t rank = uop_rank(c->in[0]), start = attr_int(g, c, "start", 0), end = attr_int(g, c, "end", rank);
    const UOp *v[TG_MAX_RANK];
    start = clamp_i(start < 0 ? start + rank : start, 0, rank);
    end = clamp_i(end < 0 ? end + rank : end, start, rank);
    int64_t n = end - start;
    for (int64_t k = 0; k < n; k++) v[k] = size_value(g, uop_dim(c->in[0], (uint32_t)(start + k)));
    return from_values(g, DT_I64, v, &n, 1);
}

U op_size(Graph *g, const Ctx *c) { return size_value(g, dim_product(g, c->in[0]->shape->dim, uop_rank(c->in[0]))); }

/* The size that -1 stands for. Sizes that occur on both sides cancel first, so that symbolic ones need no division. */
static U inferred(Graph *g, const Ctx *c, U x, const U *dim, uint32_t n)
{
    U rest[TG_MAX_RANK], under = uop_index(g, 1);
    uint32_t count = uop_rank(x);
    memcpy(rest, x->shape->dim, sizeof *rest * count);
    for (uint32_t k = 0, j; k < n; k++) {
        if (!dim[k]) continue;
        for (j = 0; j < count && rest[j] != dim[k]; j++) {}
        if (j < count) rest[j] = rest[--count];
        else under = dim_mul(g, under, dim[k]);
    }
    U over = dim_product(g, rest, count);
    if (uop_is_int_const(under, 0) || under->vmax <= 0)
        return fail_node(g, c, TG_BAD_MODEL, "shape", "-1 beside a size of 0");
    if (uop_is_const(over) && uop_is_const(under) && over->arg.i % under->arg.i)
        return fail_node(g, c, TG_BAD_MODEL, "shape", "%lld elements cannot be divided by %lld", (long long)over->arg.i,
                         (long long)under->arg.i);
    return dim_div(g, over, under);
}

/* Reshape: 0 copies a size (unless allowzero), -1 is inferred. */
U op_reshape(Graph *g, const Ctx *c)
{
    const U *want;
    const int64_t *list;
    U dim[TG_MAX_RANK], x = c->in[0];
    uint32_t n;
    int64_t at = -1;
    bool zero = attr_bool(g, c, "allowzero", false), nothing = false,
         attr = c->opset < 5 && attr_ints(g, c, "shape", &list, &n);
    if (!attr && !input_sizes(g, c, Reshape_shape, &want, &n)) return NULL;
    if (n > TG_MAX_RANK) return fail_node(g, c, TG_LIMIT, "shape", "rank %u; at most %d", n, TG_MAX_RANK);
    for (uint32_t k = 0; k < n; k++) {
        dim[k] = attr ? uop_index(g, list[k]) : want[k];
        bool copy = uop_is_int_const(dim[k], 0) && !zero;
        if (copy && k >= uop_rank(x))
            return fail_node(g, c, TG_BAD_MODEL, "shape", "0 at axis %u of an input of rank %u", k, uop_rank(x));
        if (copy) dim[k] = uop_dim(x, k);
        nothing |= uop_is_int_const(dim[k], 0) && zero;
        if (dim[k]->vmax < -1) return fail_node(g, c, TG_BAD_MODEL, "shape", "size %lld", (long long)dim[k]->vmax);
        if (!uop_is_int_const(dim[k], -1)) continue;
        if (at >= 0) return fail_node(g, c, TG_BAD_MODEL, "shape", "-1 twice");
        dim[at = k] = NULL;
    }
    if (at >= 0 && nothing) return fail_node(g, c, TG_BAD_MODEL, "shape", "-1 beside a size of 0");
    if (at >= 0) dim[at] = inferred(g, c, x, dim, n);
    return reshape(g, x, dim, n);
}

U op_flatten(Graph *g, const Ctx *c) { return flatten(g, c->in[0], attr_int(g, c, "axis", 1)); }

U op_expand(Graph *g, const Ctx *c)
{
    U x = c->in[0], dim[TG_MAX_RANK];
    const U *want;
    uint32_t n, r = uop_rank(x);
    if (!sizes_ok(g, c, 1, &want, &n)) return NULL;
    uint32_t rank = n > r ? n : r;
    for (uint32_t k = 0; k < rank; k++) {
        U a = k + r >= rank ? uop_dim(x, k + r - rank) : NULL, b = k + n >= rank ? want[k + n - rank] : NULL;
        U common = a && b ? common_size(g, a, b) : NULL;
        dim[k] = common ? common : b ? b : a;
        if (common && size_from_data(g, b)) x = beside_size(g, x, b, common);
    }
    return expand(g, x, dim, rank);
}

U op_squeeze(Graph *g, const Ctx *c)
{
    U x = c->in[0], dim[TG_MAX_RANK];
    const int64_t *axis;
    uint64_t named = 0, drop = 0;
    uint32_t n, rank = 0;
    bool given;
    if (!node_axes(g, c, Squeeze_axes, uop_rank(x), &axis, &n, &given)) return NULL;
    /* an empty attribute is none; an empty input names no axes */
    given = given && (n || c->nin > 1);
    for (uint32_t k = 0; k < n && given; k++) named |= UINT64_C(1) << axis[k];
    for (uint32_t k = 0; k < uop_rank(x); k++) {
        U size = uop_dim(x, k), none = uop_index(g, 1);
        bool wanted = named >> k & 1, from_data = size_from_data(g, size) && may_agree(g, size, none),
             one = uop_is_int_const(size, 1) || (wanted && from_data);
        if (!given && from_data && !said_to_hold(g, c, eq(g, size, none), &one))
            return fail_node(g, c, TG_UNSUPPORTED, "axes",
                             "are missing, and only a run can tell whether axis %u has size 1", k);
        if (!given && !one && size->vmin < 2) graph_need(g, dim_sub(g, size, uop_index(g, 2)));
        if (wanted && !one)
            return fail_node(g, c, TG_BAD_MODEL, "axes", "axis %u has size %lld; wanted 1", k,
                             (long long)uop_size(x, k));
        if (!one || (given && !wanted)) continue;
        x = sized(g, x, k, none);
        drop |= UINT64_C(1) << k;
    }
    for (uint32_t k = 0; k < uop_rank(x); k++)
        if (!(drop >> k & 1)) dim[rank++] = uop_dim(x, k);
    return reshape(g, x, dim, rank);
}

U op_unsqueeze(Graph *g, const Ctx *c)
{
    U x = c->in[0], dim[TG_MAX_RANK];
    const int64_t *axis;
    uint64_t ones = 0;
    uint32_t n = 0, at = 0;
    bool given;
    if (c->nin > 1 && c->in[Unsqueeze_axes]) n = (uint32_t)clamp_i(uop_numel(c->in[Unsqueeze_axes]), 0, 64);
    else if (!attr_ints(g, c, "axes", &axis, &n)) return fail_node(g, c, TG_BAD_MODEL, "axes", "is missing");
    uint32_t rank = uop_rank(x) + n;
    if (n > TG_MAX_RANK || rank > TG_MAX_RANK)
        return fail_node(g, c, TG_LIMIT, "axes", "rank %u; at most %d", rank, TG_MAX_RANK);
    if (!node_axes(g, c, Unsqueeze_axes, rank, &axis, &n, &given)) return NULL;
    for (uint32_t k = 0; k < n; k++) ones |= UINT64_C(1) << axis[k];
    for (uint32_t k = 0; k < rank; k++) dim[k] = ones >> k & 1 ? uop_index(g, 1) : uop_dim(x, at++);
    return reshape(g, x, dim, rank);
}

U op_transpose(Graph *g, const Ctx *c)
{
    const int64_t *perm;
    int64_t order[TG_MAX_RANK];
    uint32_t n, rank = uop_rank(c->in[0]);
    if (attr_ints(g, c, "perm", &perm, &n)) return permute(g, c->in[0], perm, n);
    for (uint32_t k = 0; k < rank; k++) order[k] = rank - 1 - k;
    return permute(g, c->in[0], order, rank);
}

/* [n, c, h, w] <-> blocks. DCR: channels are (block, block, depth); CRD: (depth, block, block). */
U op_depth_to_space(Graph *g, const Ctx *c)
{
    static const int64_t dcr[] = { 0, 3, 4, 1, 5, 2 }, crd[] = { 0, 1, 4, 2, 5, 3 };
    U x = c->in[0];
    const char *mode = attr_str(g, c, "mode", "DCR");
    int64_t b = attr_int(g, c, "blocksize", 0);
    bool first = !strcmp(mode, "DCR");
    if (!first && strcmp(mode, "CRD")) return fail_node(g, c, TG_BAD_MODEL, "mode", "is '%s'; wanted DCR or CRD", mode);
    if (uop_rank(x) != 4) return fail_node(g, c, TG_BAD_MODEL, NULL, "an input of rank %u; wanted 4", uop_rank(x));
    if (b < 1 || b > EXTENT_MAX || fixed_size(g, x, 1) % (b * b))
        return fail_node(g, c, TG_BAD_MODEL, "blocksize", "%lld with %lld channels", (long long)b,
                         (long long)uop_size(x, 1));
    U n = uop_dim(x, 0), h = uop_dim(x, 2), w = uop_dim(x, 3), s = uop_index(g, b),
      d = dim_div(g, uop_dim(x, 1), uop_index(g, b * b));
    U y = reshape(g, x, first ? (U[]){ n, s, s, d, h, w } : (U[]){ n, d, s, s, h, w }, 6);
    return reshape(g, permute(g, y, first ? dcr : crd, 6), (U[]){ n, d, dim_mul(g, h, s), dim_mul(g, w, s) }, 4);
}

U op_space_to_depth(Graph *g, const Ctx *c)
{
    static const int64_t dcr[] = { 0, 3, 5, 1, 2, 4 }, crd[] = { 0, 1, 3, 5, 2, 4 };
    U x = c->in[0];
    const char *mode = attr_str(g, c, "mode", "DCR");
    int64_t b = attr_int(g, c, "blocksize", 0);
    if (strcmp(mode, "DCR") && strcmp(mode, "CRD"))
        return fail_node(g, c, TG_BAD_MODEL, "mode", "is '%s'; wanted DCR or CRD", mode);
    if (uop_rank(x) != 4) return fail_node(g, c, TG_BAD_MODEL, NULL, "an input of rank %u; wanted 4", uop_rank(x));
    if (b < 1 || b > EXTENT_MAX || (uop_is_const(uop_dim(x, 2)) && uop_size(x, 2) % b) ||
        (uop_is_const(uop_dim(x, 3)) && uop_size(x, 3) % b))
        return fail_node(g, c, TG_BAD_MODEL, "blocksize", "%lld on %lldx%lld", (long long)b, (long long)uop_size(x, 2),
                         (long long)uop_size(x, 3));
    U n = uop_dim(x, 0), d = uop_dim(x, 1), s = uop_index(g, b), h = dim_div(g, uop_dim(x, 2), s),
      w = dim_div(g, uop_dim(x, 3), s);
    U y = permute(g, reshape(g, x, (U[]){ n, d, h, s, w, s }, 6), !strcmp(mode, "DCR") ? dcr : crd, 6);
    return reshape(g, y, (U[]){ n, dim_mul(g, d, uop_index(g, b * b)), h, w }, 4);
}
