/* Movement builders: views only. What comes in is any value and sizes; what goes out is the same elements at other
 * places, as few nodes as say it. Windows and strided slices are an INDEX by IOTA expressions: o*stride + k*dilation
 * stands in the graph as it will stand in the kernel.
 */
#include <stdlib.h>

#include "graph/build.h"
#include "graph/custom.h"

static bool is_size(U d, int64_t v) { return uop_is_int_const(d, v); }

static bool same_dims(U x, const U *dim, uint32_t rank)
{
    if (uop_rank(x) != rank) return false;
    for (uint32_t k = 0; k < rank; k++)
        if (uop_dim(x, k) != dim[k]) return false;
    return true;
}

static void sizes_i(Graph *g, const int64_t *v, uint32_t n, U *out)
{
    for (uint32_t k = 0; k < n; k++) out[k] = uop_index(g, v[k]);
}

U reshape(Graph *g, U x, const U *dim, uint32_t rank)
{
    if (is_error(x)) return x;
    if (rank > RANK_MAX) return graph_fail(g, "reshape: rank %u is above %d", rank, RANK_MAX);
    for (uint32_t k = 0; k < rank; k++)
        if (is_error(dim[k])) return dim[k];
    while (x->op == UOP_RESHAPE && !same_dims(x, dim, rank)) x = x->src[0];
    if (same_dims(x, dim, rank)) return x;
    U from = dim_product(g, x->shape->dim, uop_rank(x)), to = dim_product(g, dim, rank);
    bool from_data = from != to && (size_from_data(g, from) || size_from_data(g, to)), fits = may_agree(g, from, to);
    if (!fits && (from_data || (uop_is_const(from) && uop_is_const(to))))
        return graph_fail(g, "reshape: %lld elements do not fill %lld", (long long)from->vmax, (long long)to->vmax);
    if (from_data && !uop_is_int_const(dim_sub(g, from, to), 0))
        x = sized(g, UOP(g, UOP_RESHAPE, DT_VOID, NO_ARG, x, uop_sizes(g, &from, 1)), 0, to);
    return UOP(g, UOP_RESHAPE, DT_VOID, NO_ARG, x, uop_sizes(g, dim, rank));
}

U reshape_i(Graph *g, U x, const int64_t *dim, uint32_t rank)
{
    U d[RANK_MAX];
    if (rank > RANK_MAX) return graph_fail(g, "reshape: rank %u is above %d", rank, RANK_MAX);
    sizes_i(g, dim, rank, d);
    return reshape(g, x, d, rank);
}

U expand(Graph *g, U x, const U *dim, uint32_t rank)
{
    if (is_error(x)) return x;
    uint32_t r = uop_rank(x);
    U d[RANK_MAX];
    if (rank < r || rank > RANK_MAX) return graph_fail(g, "expand: rank %u to rank %u", r, rank);
    for (uint32_t k = 0; k < rank; k++) d[k] = k + r < rank ? uop_index(g, 1) : uop_dim(x, k + r - rank);
    x = reshape(g, x, d, rank);
    if (is_error(x) || same_dims(x, dim, rank)) return x;
    for (uint32_t k = 0; k < rank; k++)
        if (!is_size(d[k], 1) && size_from_data(g, d[k]) && common_size(g, d[k], dim[k]) == dim[k])
            x = stretched(g, x, k, dim[k]);
        else if (!is_size(d[k], 1) && may_agree(g, d[k], dim[k])) x = sized(g, x, k, dim[k]);
        else if (!is_size(d[k], 1))
            return graph_fail(g, "expand: axis %u of %lld elements to %lld", k, (long long)d[k]->vmax,
                              (long long)dim[k]->vmax);
    if (is_error(x) || same_dims(x, dim, rank)) return x;
    if (x->op == UOP_EXPAND) x = x->src[0];
    return UOP(g, UOP_EXPAND, DT_VOID, NO_ARG, x, uop_sizes(g, dim, rank));
}

U expand_like(Graph *g, U x, U like) { return is_error(like) ? like : expand(g, x, like->shape->dim, uop_rank(like)); }

U contiguous(Graph *g, U x) { return is_error(x) ? x : UOP(g, UOP_CONTIGUOUS, DT_VOID, NO_ARG, x); }

U permute(Graph *g, U x, const int64_t *order, uint32_t n)
{
    if (is_error(x)) return x;
    int64_t to[RANK_MAX];
    uint64_t seen = 0;
    bool same = true;
    if (n != uop_rank(x)) return graph_fail(g, "permute: %u axes for a tensor of rank %u", n, uop_rank(x));
    for (uint32_t k = 0; k < n; k++) {
        to[k] = axis_of(g, "permute", order[k], n);
        if (to[k] < 0 || seen >> to[k] & 1) return graph_fail(g, "permute: the order is no permutation");
        seen |= UINT64_C(1) << to[k];
        same &= to[k] == k;
    }
    if (same) return x;
    if (x->op == UOP_PERMUTE) {
        for (uint32_t k = 0; k < n; k++) to[k] = blob_ints(x->arg.blob)[to[k]];
        return permute(g, x->src[0], to, n);
    }
    return UOP(g, UOP_PERMUTE, DT_VOID, ((Arg){ 0, graph_ints(g, to, n) }), x);
}

U transpose(Graph *g, U x)
{
    if (is_error(x)) return x;
    uint32_t r = uop_rank(x);
    int64_t order[RANK_MAX];
    if (r < 2) return graph_fail(g, "transpose: rank %u is below 2", r);
    for (uint32_t k = 0; k < r; k++) order[k] = k;
    order[r - 2] = r - 1;
    order[r - 1] = r - 2;
    return permute(g, x, order, r);
}

U unsqueeze(Graph *g, U x, int64_t axis)
{
    if (is_error(x)) return x;
    uint32_t r = uop_rank(x);
    U d[RANK_MAX + 1];
    if ((axis = axis_of(g, "unsqueeze", axis, r + 1)) < 0) return graph_fail(g, "unsqueeze");
    for (uint32_t k = 0; k <= r; k++) d[k] = k == axis ? uop_index(g, 1) : uop_dim(x, k - (k > axis));
    return reshape(g, x, d, r + 1);
}

U squeeze(Graph *g, U x, int64_t axis)
{
    if (is_error(x)) return x;
    uint32_t r = uop_rank(x);
    U d[RANK_MAX];
    if ((axis = axis_of(g, "squeeze", axis, r)) < 0) return graph_fail(g, "squeeze");
    if (!is_size(uop_dim(x, (uint32_t)axis), 1))
        return graph_fail(g, "squeeze: axis %lld has %lld elements", (long long)axis,
                          (long long)uop_size(x, (uint32_t)axis));
    for (uint32_t k = 0; k + 1 < r; k++) d[k] = uop_dim(x, k + (k >= axis));
    return reshape(g, x, d, r - 1);
}

U flip(Graph *g, U x, const bool *axes)
{
    if (is_error(x)) return x;
    int64_t flag[RANK_MAX], any = 0;
    for (uint32_t k = 0; k < uop_rank(x); k++) any |= flag[k] = axes[k] && !is_size(uop_dim(x, k), 1);
    /* one 0 or 1 an axis */
    return any ? UOP(g, UOP_FLIP, DT_VOID, ((Arg){ 0, graph_ints(g, flag, uop_rank(x)) }), x) : x;
}

U flip_axis(Graph *g, U x, int64_t axis)
{
    bool flag[RANK_MAX] = { false };
    if (is_error(x)) return x;
    if ((axis = axis_of(g, "flip", axis, uop_rank(x))) < 0) return graph_fail(g, "flip");
    flag[axis] = true;
    return flip(g, x, flag);
}

U shrink(Graph *g, U x, const U *begin, const U *size)
{
    if (is_error(x)) return x;
    uint32_t r = uop_rank(x);
    bool all = true;
    for (uint32_t k = 0; k < r; k++) {
        U b = begin[k], n = size[k], d = uop_dim(x, k);
        if (is_error(b) || is_error(n)) return is_error(b) ? b : n;
        if (b->vmin < 0 && uop_is_const(b))
            return graph_fail(g, "shrink: axis %u begins at %lld", k, (long long)b->arg.i);
        if (n->vmax < 0 || (uop_is_const(b) && uop_is_const(n) && uop_is_const(d) && n->arg.i > d->arg.i - b->arg.i))
            return graph_fail(g, "shrink: %lld elements from %lld on an axis of %lld", (long long)n->vmax,
                              (long long)b->vmin, (long long)d->vmax);
        if (!is_size(b, 0) || n != d) graph_need(g, dim_sub(g, dim_sub(g, d, b), n));
        all &= is_size(b, 0) && n == d;
    }
    return all ? x : UOP(g, UOP_SHRINK, DT_VOID, NO_ARG, x, uop_sizes(g, begin, r), uop_sizes(g, size, r));
}

/* The part of a pad that is negative, as a crop of that many elements. A symbolic size must be known to have one sign.
 */
static U crop_of(Graph *g, U n) { return n->vmin >= 0 ? uop_index(g, 0) : dim_mul(g, n, uop_index(g, -1)); }

U pad(Graph *g, U x, const U *before, const U *after, U fill)
{
    U begin[RANK_MAX], size[RANK_MAX], offset[RANK_MAX];
    bool none = true;
    if (is_error(x) || !uop_rank(x)) return x;
    uint32_t r = uop_rank(x);
    for (uint32_t k = 0; k < r; k++) {
        if (is_error(before[k]) || is_error(after[k])) return is_error(before[k]) ? before[k] : after[k];
        if ((before[k]->vmin < 0 && before[k]->vmax > 0) || (after[k]->vmin < 0 && after[k]->vmax > 0))
            return graph_fail_code(g, TG_UNSUPPORTED, "pad: the sign of a symbolic size is not known");
        begin[k] = crop_of(g, before[k]);
        size[k] = dim_sub(g, dim_sub(g, uop_dim(x, k), begin[k]), crop_of(g, after[k]));
        graph_need(g, size[k]);
    }
    x = shrink(g, x, begin, size);
    for (uint32_t k = 0; k < r; k++) {
        offset[k] = before[k]->vmin >= 0 ? before[k] : uop_index(g, 0);
        size[k] = dim_add(g, dim_add(g, size[k], offset[k]), after[k]->vmin >= 0 ? after[k] : uop_index(g, 0));
        none &= is_error(x) || size[k] == uop_dim(x, k);
    }
    if (none) return x;
    U at = uop_sizes(g, offset, r), to = uop_sizes(g, size, r), y = UOP(g, UOP_PAD, DT_VOID, NO_ARG, x, at, to);
    if (!fill || (uop_is_const(fill) && fill->arg.i == 0)) return y;
    return where(g, UOP(g, UOP_PAD, DT_VOID, NO_ARG, full(g, DT_BOOL, 1, x), at, to), y, fill);
}

U pad_i(Graph *g, U x, const int64_t *before, const int64_t *after, U fill)
{
    U b[RANK_MAX], a[RANK_MAX];
    if (is_error(x)) return x;
    sizes_i(g, before, uop_rank(x), b);
    sizes_i(g, after, uop_rank(x), a);
    return pad(g, x, b, a, fill);
}

U slice(Graph *g, U x, int64_t axis, U begin, U size)
{
    U b[RANK_MAX], n[RANK_MAX];
    if (is_error(x)) return x;
    if ((axis = axis_of(g, "slice", axis, uop_rank(x))) < 0) return graph_fail(g, "slice");
    for (uint32_t k = 0; k < uop_rank(x); k++) b[k] = uop_index(g, 0), n[k] = uop_dim(x, k);
    b[axis] = begin;
    n[axis] = size;
    return shrink(g, x, b, n);
}

U slice_i(Graph *g, U x, int64_t axis, int64_t begin, int64_t end)
{
    return slice(g, x, axis, uop_index(g, begin), uop_index(g, end > begin ? end - begin : 0));
}

U take(Graph *g, U x, U idx, int64_t axis)
{
    if (is_error(x) || is_error(idx)) return is_error(x) ? x : idx;
    uint32_t r = uop_rank(x), n = uop_rank(idx), at = 0;
    int64_t order[RANK_MAX];
    if (r + n > RANK_MAX) return graph_fail(g, "take: rank %u is above %d", r + n, RANK_MAX);
    if ((axis = axis_of(g, "take", axis, r)) < 0) return graph_fail(g, "take");
    if (uop_is_int_const(uop_dim(x, (uint32_t)axis), 0) && uop_numel(idx))
        return graph_fail(g, "an index into an axis of size 0");
    order[at++] = axis;
    for (uint32_t k = 0; k < r; k++)
        if (k != axis) order[at++] = k;
    /* [idx.., rest..] */
    U y = UOP(g, UOP_INDEX, DT_VOID, NO_ARG, permute(g, x, order, r), cast(g, idx, DT_INDEX));
    at = 0;
    for (uint32_t k = 0; k < axis; k++) order[at++] = n + k;
    for (uint32_t k = 0; k < n; k++) order[at++] = k;
    for (uint32_t k = (uint32_t)axis; k + 1 < r; k++) order[at++] = n + k;
    return permute(g, y, order, at);
}

/* begin + step * iota */
static U progression(Graph *g, U size, int64_t begin, int64_t step)
{
    return add(g, mul(g, iota(g, size, DT_INDEX), uop_index(g, step)), uop_index(g, begin));
}

U slice_step(Graph *g, U x, int64_t axis, int64_t begin, int64_t size, int64_t step)
{
    if (is_error(x)) return x;
    if ((axis = axis_of(g, "slice", axis, uop_rank(x))) < 0) return graph_fail(g, "slice");
    int64_t last = begin + (size - 1) * step, n = uop_size(x, (uint32_t)axis);
    if (size <= 0) return slice_i(g, x, axis, 0, 0);
    if (step == 0 || begin < 0 || last < 0 || begin >= n || last >= n)
        return graph_fail(g, "slice: %lld .. %lld by %lld on an axis of %lld", (long long)begin, (long long)last,
                          (long long)step, (long long)n);
    if (step == 1 || size == 1) return slice_i(g, x, axis, begin, begin + size);
    if (step == -1) return flip_axis(g, slice_i(g, x, axis, last, begin + 1), axis);
    return take(g, x, progression(g, uop_index(g, size), begin, step), axis);
}

U cat(Graph *g, const U *x, uint32_t n, int64_t axis)
{
    const UOp **part = NEW_N(graph_arena(g), const UOp *, n ? n : 1);
    uint32_t count = 0;
    U size[RANK_MAX];
    if (!n) return graph_fail(g, "cat: nothing to join");
    for (uint32_t k = 0; k < n; k++)
        if (is_error(x[k])) return x[k];
    if ((axis = axis_of(g, "cat", axis, uop_rank(x[0]))) < 0) return graph_fail(g, "cat");
    for (uint32_t k = 0; k < n; k++) {
        if (uop_rank(x[k]) != uop_rank(x[0]))
            return graph_fail(g, "cat: part %u has rank %u, part 0 has rank %u", k, uop_rank(x[k]), uop_rank(x[0]));
        if (x[k]->dtype != x[0]->dtype)
            return graph_fail(g, "cat: part %u is %s, part 0 is %s", k, dtype_name(x[k]->dtype),
                              dtype_name(x[0]->dtype));
        for (uint32_t i = 0; i < uop_rank(x[0]); i++)
            if (!k || uop_is_const(uop_dim(x[k], i))) size[i] = uop_dim(x[k], i);
    }
    for (uint32_t k = 0; k < n; k++) {
        U y = x[k];
        for (uint32_t i = 0; i < uop_rank(x[0]); i++) {
            if (i == axis) continue;
            if (!may_agree(g, uop_dim(y, i), size[i]))
                return graph_fail(g, "cat: part %u has %lld elements on axis %u, others have %lld", k,
                                  (long long)uop_size(y, i), i, (long long)size[i]->vmax);
            y = sized(g, y, i, size[i]);
        }
        if (!is_size(uop_dim(y, (uint32_t)axis), 0)) part[count++] = y;
    }
    if (count < 2) return count ? part[0] : x[0];
    return uop_new(g, UOP_CAT, DT_VOID, ARG_I(axis), part, count);
}

U stack(Graph *g, const U *x, uint32_t n, int64_t axis)
{
    const UOp **part = NEW_N(graph_arena(g), const UOp *, n ? n : 1);
    bool scalars = n > 0;
    for (uint32_t k = 0; k < n; k++) {
        if (is_error(x[k])) return x[k];
        scalars &= !uop_rank(x[k]) && x[k]->dtype == x[0]->dtype;
    }
    if (scalars) return uop_new(g, UOP_STACK, DT_VOID, NO_ARG, x, n);
    for (uint32_t k = 0; k < n; k++) part[k] = unsqueeze(g, x[k], axis);
    return cat(g, part, n, axis);
}

/* Index of one windowed axis, shape [o, k]: o * stride + k * dilation. */
static U window_index(Graph *g, U dim, int64_t kernel, int64_t stride, int64_t dilation)
{
    U reach = uop_index(g, dilation * (kernel - 1) + 1),
      out = dim_add(g, dim_div(g, dim_sub(g, dim, reach), uop_index(g, stride)), uop_index(g, 1));
    if (kernel < 1 || stride < 1 || dilation < 1)
        return graph_fail(g, "windows: kernel, stride and dilation must be positive");
    if (out->vmax < 0)
        return graph_fail(g, "windows: a kernel that reaches %lld elements on an axis of %lld", (long long)reach->arg.i,
                          (long long)dim->vmax);
    graph_need(g, out);
    return add(g, unsqueeze(g, progression(g, out, 0, stride), 1), progression(g, uop_index(g, kernel), 0, dilation));
}

U windows(Graph *g, U x, uint32_t naxes, const int64_t *kernel, const int64_t *stride, const int64_t *dilation)
{
    if (is_error(x)) return x;
    uint32_t r = uop_rank(x), rest = r - naxes;
    int64_t order[RANK_MAX];
    U src[RANK_MAX];
    if (naxes > r || r + naxes > RANK_MAX) return graph_fail(g, "windows: %u axes of a tensor of rank %u", naxes, r);
    /* the windowed axes first: INDEX goes from the left */
    for (uint32_t k = 0; k < r; k++) order[k] = (k + rest) % r;
    src[0] = permute(g, x, order, r);
    for (uint32_t k = 0; k < naxes; k++) {
        src[k + 1] = window_index(g, uop_dim(x, rest + k), kernel[k], stride[k], dilation[k]);
        if (is_error(src[k + 1])) return src[k + 1];
    }
    U y = uop_new(g, UOP_INDEX, DT_VOID, NO_ARG, src, naxes + 1);                 /* [o, k, o, k, .. rest..] */
    for (uint32_t k = 0; k < rest; k++) order[k] = 2 * naxes + k;
    for (uint32_t k = 0; k < naxes; k++) order[rest + k] = 2 * k, order[rest + naxes + k] = 2 * k + 1;
    return permute(g, y, order, r + naxes);
}

U tile(Graph *g, U x, const U *repeats)
{
    if (is_error(x)) return x;
    uint32_t r = uop_rank(x);
    U one[2 * RANK_MAX], wide[2 * RANK_MAX], out[RANK_MAX];
    if (2 * r > RANK_MAX) return graph_fail(g, "tile: rank %u is above %d", r, RANK_MAX / 2);
    for (uint32_t k = 0; k < r; k++) {
        one[2 * k] = uop_index(g, 1);
        wide[2 * k] = repeats[k];
        one[2 * k + 1] = wide[2 * k + 1] = uop_dim(x, k);
        out[k] = dim_mul(g, wide[2 * k], uop_dim(x, k));
    }
    return reshape(g, expand(g, reshape(g, x, one, 2 * r), wide, 2 * r), out, r);
}

U flatten(Graph *g, U x, int64_t axis)
{
    if (is_error(x)) return x;
    uint32_t r = uop_rank(x);
    if (axis < 0) axis += r;
    if (axis < 0 || axis > r)
        return graph_fail(g, "flatten: axis %lld is outside a tensor of rank %u", (long long)axis, r);
    U d[2] = { dim_product(g, x->shape->dim, (uint32_t)axis),
               dim_product(g, x->shape->dim + axis, r - (uint32_t)axis) };
    return reshape(g, x, d, 2);
}
