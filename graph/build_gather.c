/* Indexing by data: INDEX with a shaped index, which stays an index in the kernel that reads. Several indexed axes
 * become one, at a flat index. Negative indices wrap here, and are guarded (guard.h): one that is out of range fails
 * the run.
 */
#include "graph/guard.h"
#include "graph/build.h"
#include "graph/scalar.h"

static U wrapped(Graph *g, U idx, U size)
{
    if (is_error(idx)) return idx;
    bool may_wrap = idx->vmin < 0;
    idx = cast(g, idx, DT_INDEX);
    return may_wrap ? where(g, lt(g, idx, uop_index(g, 0)), add(g, idx, size), idx) : idx;
}

U position_in(Graph *g, U idx, U size) { return guard_index(g, wrapped(g, idx, size), size, true); }

/* A table that is known at import, and in bounds. One out of bounds is an error in *bad. */
static bool all_inside(Graph *g, U idx, U size, bool wraps, U *bad)
{
    size_t bytes;
    const void *data =
        !is_error(idx) && uop_is_const(size) && uop_static(idx) ? data_of(g, idx, 1 << 24, &bytes) : NULL;
    for (int64_t k = 0; data && k < uop_numel(idx) && !*bad; k++) {
        int64_t v = scalar_load((DType)idx->dtype, data, k), at = v < 0 && wraps ? v + size->arg.i : v;
        if (at < 0 || at >= size->arg.i) *bad = guard_index(g, uop_index(g, at), size, wraps);
    }
    return data && !*bad;
}

U place_in(Graph *g, U idx, U size)
{
    U bad = NULL;
    bool inside = all_inside(g, idx, size, false, &bad);
    return is_error(idx) ? idx
        : bad            ? bad
        : inside         ? cast(g, idx, DT_I64)
                         : cast(g, guard_index(g, cast(g, idx, DT_INDEX), size, false), DT_I64);
}

/* Of an axis of size 1 every index would fold to 0, and its check with it: there the result is chosen by the index. ok:
 * NULL, or what must hold. */
static U checked(Graph *g, U idx, U size, U *ok)
{
    U bad = NULL;
    if (all_inside(g, idx, size, true, &bad)) return wrapped(g, idx, size);
    if (bad) return bad;
    U i = position_in(g, idx, size);
    if (!is_error(i) && i->op == UOP_GUARD && size->vmax <= 1) {
        U here = lt(g, i, uop_index(g, 1));
        *ok = *ok ? and_(g, *ok, here) : here;
    }
    return i;
}

/* y where ok holds, which has y's axes up to the last `behind`. */
static U where_ok(Graph *g, U y, U ok, uint32_t behind)
{
    U dim[RANK_MAX];
    uint32_t n = 0;
    if (!ok || is_error(y) || is_error(ok)) return y;
    for (; n < uop_rank(ok); n++) dim[n] = uop_dim(ok, n);
    for (uint32_t k = 0; k < behind; k++) dim[n++] = uop_index(g, 1);
    return where(g, reshape(g, ok, dim, n), y, full(g, (DType)y->dtype, 0, NULL));
}

/* A WHERE around what is taken does not keep it from being read, and being checked: rows that the data count may be
 * none, and what a row is made of must not be whatever lay there. */
U place_where(Graph *g, U there, U at, U *x, uint32_t axis)
{
    if (is_error(*x) || is_error(at)) return is_error(*x) ? *x : at;
    U rows = uop_dim(*x, axis), otherwise = uop_int(g, (DType)at->dtype, 0);
    int64_t before[RANK_MAX] = { 0 }, after[RANK_MAX] = { 0 };
    if (rows->vmin < 1) {
        after[axis] = 1;
        *x = pad_i(g, *x, before, after, NULL);
        otherwise = cast(g, rows, (DType)at->dtype);
    }
    return where(g, there, at, otherwise);
}

/* Constant indices in equal steps are a slice. NULL: they are not, or are not known. */
static U constant_gather(Graph *g, U x, U idx, int64_t axis)
{
    int64_t v[256], n = uop_size(x, (uint32_t)axis);
    uint32_t count;
    if (!uop_is_const(uop_dim(x, (uint32_t)axis)) || !ints_of(g, idx, v, 256, &count) || !count || uop_rank(idx) > 1)
        return NULL;
    for (uint32_t k = 0; k < count; k++) {
        if (v[k] < -n || v[k] >= n)
            return graph_fail(g, "gather: index %lld on an axis of %lld", (long long)v[k], (long long)n);
        if (v[k] < 0) v[k] += n;
        if (k > 1 && v[k] - v[k - 1] != v[1] - v[0]) return NULL;
    }
    int64_t step = count > 1 ? v[1] - v[0] : 1;
    if (!step) return NULL;
    U y = slice_step(g, x, axis, v[0], count, step);
    return uop_rank(idx) ? y : squeeze(g, y, axis);
}

U gather(Graph *g, U x, U idx, int64_t axis)
{
    if (is_error(x) || is_error(idx)) return is_error(x) ? x : idx;
    if ((axis = axis_of(g, "gather", axis, uop_rank(x))) < 0) return graph_fail(g, "gather");
    U y = constant_gather(g, x, idx, axis), ok = NULL;
    return y ? y
             : where_ok(g, take(g, x, checked(g, idx, uop_dim(x, (uint32_t)axis), &ok), axis), ok,
                        uop_rank(x) - 1 - (uint32_t)axis);
}

/* [0 .. n-1] along axis k of `rank`. */
static U iota_on(Graph *g, U n, uint32_t k, uint32_t rank)
{
    U d[RANK_MAX];
    for (uint32_t i = 0; i < rank; i++) d[i] = i == k ? n : uop_index(g, 1);
    return reshape(g, iota(g, n, DT_INDEX), d, rank);
}

U gather_elements(Graph *g, U x, U idx, int64_t axis)
{
    if (is_error(x) || is_error(idx)) return is_error(x) ? x : idx;
    uint32_t r = uop_rank(x);
    if ((axis = axis_of(g, "gather_elements", axis, r)) < 0) return graph_fail(g, "gather_elements");
    if (uop_rank(idx) != r) return graph_fail(g, "gather_elements: ranks %u and %u", r, uop_rank(idx));
    U at = uop_index(g, 0), step = uop_index(g, 1), ok = NULL;
    for (uint32_t k = r; k-- > 0; step = dim_mul(g, step, uop_dim(x, k))) {
        U have = uop_dim(x, k), want = uop_dim(idx, k), left = dim_sub(g, have, want);
        if (k != axis && left->vmax < 0)
            return graph_fail(g, "gather_elements: indices of size %lld on axis %u of size %lld", (long long)want->vmin,
                              k, (long long)have->vmax);
        if (k != axis) graph_need(g, left);             /* of an axis of size 1 the guard folds away */
        U i = k == axis ? checked(g, idx, have, &ok) : guard_index(g, iota_on(g, want, k, r), have, false);
        at = add(g, at, mul(g, i, step));
    }
    return where_ok(g, take(g, reshape(g, x, &step, 1), expand_like(g, at, idx), 0), ok, 0);
}

U gather_nd(Graph *g, U x, U idx, int64_t batch)
{
    if (is_error(x) || is_error(idx)) return is_error(x) ? x : idx;
    uint32_t r = uop_rank(x), q = uop_rank(idx), n = 1, b = (uint32_t)batch;
    U d[RANK_MAX], at = uop_index(g, 0), step = uop_index(g, 1), ok = NULL;
    if (!q || !uop_is_const(uop_dim(idx, q - 1)) || batch < 0 || b >= q || b + uop_size(idx, q - 1) > r)
        return graph_fail(g, "gather_nd: indices of rank %u with %lld columns on a tensor of rank %u, %lld batch axes",
                          q, q ? (long long)uop_size(idx, q - 1) : 0LL, r, (long long)batch);
    uint32_t last = b + (uint32_t)uop_size(idx, q - 1);
    for (uint32_t k = 0; k < b; k++)
        if (!same_size(g, uop_dim(x, k), uop_dim(idx, k)))
            return graph_fail(g, "gather_nd: sizes %lld and %lld on batch axis %u", (long long)uop_size(x, k),
                              (long long)uop_size(idx, k), k);
    for (uint32_t k = last; k-- > 0; step = dim_mul(g, step, uop_dim(x, k))) {
        U i = k < b ? iota_on(g, uop_dim(x, k), k, q - 1)
                    : checked(g, squeeze(g, slice_i(g, idx, -1, k - b, k - b + 1), -1), uop_dim(x, k), &ok);
        at = add(g, at, mul(g, i, step));
    }
    d[0] = step;
    for (uint32_t k = last; k < r; k++) d[n++] = uop_dim(x, k);
    return where_ok(g, take(g, reshape(g, x, d, n), expand(g, at, idx->shape->dim, q - 1), 0), ok, n - 1);
}

U one_hot(Graph *g, U idx, U depth, int64_t axis, U off_on)
{
    if (is_error(idx) || is_error(off_on)) return is_error(idx) ? idx : off_on;
    uint32_t r = uop_rank(idx) + 1;
    if ((axis = axis_of(g, "one_hot", axis, r)) < 0) return graph_fail(g, "one_hot");
    U hit = eq(g, unsqueeze(g, wrapped(g, idx, depth), axis), iota_on(g, depth, (uint32_t)axis, r));
    U off = squeeze(g, slice_i(g, off_on, 0, 0, 1), 0), on = squeeze(g, slice_i(g, off_on, 0, 1, 2), 0);
    return where(g, hit, on, off);
}
