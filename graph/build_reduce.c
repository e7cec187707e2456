/* Reductions, and what is made of them: means, softmax, matrix products, convolutions, running sums. Sums and products of f16 and bf16 are accumulated in f32 and
 * rounded once. A product-sum is always REDUCE(ADD, MUL(a, b)) over broadcast operands: what it is called is the optimiser's business, which looks at indices.
 */
#include <math.h>

#include "graph/build.h"

static bool is_narrow(U x) { return x->dtype == DT_F16 || x->dtype == DT_BF16; }

static U drop_axes(Graph *g, U x, uint64_t axes)
{
    U d[RANK_MAX];
    uint32_t n = 0;
    for (uint32_t k = 0; k < uop_rank(x); k++)
        if (!(axes >> k & 1)) d[n++] = uop_dim(x, k);
    return reshape(g, x, d, n);
}

/* What a reduce of nothing gives: x's shape with these axes 1, filled with the op's neutral element. NULL: there is something. */
static U reduce_nothing(Graph *g, Op op, U x, const int64_t *axis, uint32_t n)
{
    U d[RANK_MAX];
    DType t = (DType)x->dtype;
    bool nothing = false;
    for (uint32_t k = 0; k < uop_rank(x); k++) d[k] = uop_dim(x, k);
    for (uint32_t k = 0; k < n; k++) nothing |= uop_is_int_const(d[axis[k]], 0), d[axis[k]] = uop_index(g, 1);
    U neutral = op != UOP_MAX ? scalar(g, t, op == UOP_MUL) : dtype_is_float(t) ? scalar(g, t, -INFINITY) : uop_int(g, t, dtype_min(t));
    return nothing ? expand(g, neutral, d, uop_rank(x)) : NULL;
}

U reduce(Graph *g, Op op, U x, const int64_t *axes, uint32_t n, bool keepdims)
{
    if (is_error(x)) return x;
    uint64_t set = 0;
    int64_t list[RANK_MAX];
    uint32_t count = 0;
    DType t = (DType)x->dtype;
    for (uint32_t k = 0; k < n; k++) {
        int64_t a = axis_of(g, "reduce", axes[k], uop_rank(x));
        if (a < 0) return graph_fail(g, "reduce");
        set |= UINT64_C(1) << a;
    }
    for (uint32_t k = 0; k < uop_rank(x); k++)
        if (set >> k & 1 && !uop_is_int_const(uop_dim(x, k), 1)) list[count++] = k;         /* over one element there is nothing to do */
    U nothing = reduce_nothing(g, op, x, list, count);
    if (nothing) x = nothing;
    else if (count) {
        if (is_narrow(x) && op != UOP_MAX) x = cast(g, x, DT_F32);
        x = UOP(g, UOP_REDUCE, DT_VOID, ((Arg){ op, graph_ints(g, list, count) }), x);
        x = cast(g, x, t);
    }
    return keepdims ? x : drop_axes(g, x, set);
}

U sum(Graph *g, U x, int64_t axis, bool keepdims) { return reduce(g, UOP_ADD, x, &axis, 1, keepdims); }
U max_reduce(Graph *g, U x, int64_t axis, bool keepdims) { return reduce(g, UOP_MAX, x, &axis, 1, keepdims); }

U min_reduce(Graph *g, U x, int64_t axis, bool keepdims)
{
    if (is_error(x)) return x;
    return dtype_is_float(x->dtype) ? neg(g, max_reduce(g, neg(g, x), axis, keepdims)) : not_(g, max_reduce(g, not_(g, x), axis, keepdims));
}

U mean(Graph *g, U x, const int64_t *axes, uint32_t n, bool keepdims)
{
    if (is_error(x)) return x;
    DType t = (DType)x->dtype;
    U count = uop_index(g, 1);
    uint64_t set = 0;
    for (uint32_t k = 0; k < n; k++) {
        int64_t a = axis_of(g, "mean", axes[k], uop_rank(x));
        if (a < 0) return graph_fail(g, "mean");
        if (!(set >> a & 1)) count = dim_mul(g, count, uop_dim(x, (uint32_t)a));
        set |= UINT64_C(1) << a;
    }
    if (is_narrow(x)) x = cast(g, x, DT_F32);
    U total = reduce(g, UOP_ADD, x, axes, n, keepdims);
    return is_error(total) ? total : cast(g, div_(g, total, cast(g, count, total->dtype)), t);
}

/* ---- softmax ---- */

/* f in f32 for narrow floats. */
static U in_wide(Graph *g, U x, int64_t axis, U (*f)(Graph *g, U x, int64_t axis))
{
    if (is_error(x) || !is_narrow(x)) return f(g, x, axis);
    return cast(g, f(g, cast(g, x, DT_F32), axis), x->dtype);
}

static U below_max(Graph *g, U x, int64_t axis) { return sub(g, x, max_reduce(g, x, axis, true)); }

/* Arguments are 0 or below and every term is divided by a sum of 1 or more: one rounded product by log2(e) serves, unlike in exp_. Terms that would be denormal are 0:
 * masks make rows full of them, and processors take hundreds of cycles for each, here and again in the products that follow. */
static U exp_below(Graph *g, U x)
{
    if (is_error(x)) return x;
    double least = x->dtype == DT_F64 ? -1022 : -126;
    U t = mul(g, x, uop_const_like(g, x->dtype, M_LOG2E));
    return exp2_(g, where(g, lt(g, t, uop_const_like(g, x->dtype, least)), uop_const_like(g, x->dtype, -INFINITY), t));
}

static U softmax_wide(Graph *g, U x, int64_t axis)
{
    U e = exp_below(g, below_max(g, x, axis));
    return div_(g, e, sum(g, e, axis, true));
}

static U log_softmax_wide(Graph *g, U x, int64_t axis)
{
    U d = below_max(g, x, axis);
    return sub(g, d, log_(g, sum(g, exp_below(g, d), axis, true)));
}

U softmax(Graph *g, U x, int64_t axis) { return in_wide(g, x, axis, softmax_wide); }
U log_softmax(Graph *g, U x, int64_t axis) { return in_wide(g, x, axis, log_softmax_wide); }

/* The largest of n - i (first) or i (last) over the places where x is its maximum, or is NaN, which wins as in numpy. */
U argmax(Graph *g, U x, int64_t axis, bool keepdims, bool last)
{
    if (is_error(x)) return x;
    uint32_t r = uop_rank(x);
    if ((axis = axis_of(g, "argmax", axis, r)) < 0) return graph_fail(g, "argmax");
    U size = uop_dim(x, (uint32_t)axis), d[RANK_MAX];
    DType t = size->vmax < INT32_MAX ? DT_I32 : DT_I64;
    for (uint32_t k = 0; k < r; k++) d[k] = k == axis ? size : uop_index(g, 1);
    U hit = or_(g, eq(g, x, max_reduce(g, x, axis, true)), is_nan(g, x)), n = cast(g, size, t), i = reshape(g, iota(g, size, t), d, r);
    U best = max_reduce(g, where(g, hit, last ? i : sub(g, n, i), uop_int(g, t, 0)), axis, keepdims);
    return cast(g, last ? best : sub(g, n, best), DT_I64);
}

/* ---- products ---- */

/* Sum of a * b over axes; f16 and bf16 are widened before they are multiplied. */
static U product_sum(Graph *g, U a, U b, const int64_t *axes, uint32_t n)
{
    if (is_error(a) || is_error(b)) return is_error(a) ? a : b;
    DType t = (DType)a->dtype;
    if (a->dtype != b->dtype) return graph_fail(g, "product of %s and %s", dtype_name(a->dtype), dtype_name(b->dtype));
    if (is_narrow(a)) a = cast(g, a, DT_F32), b = cast(g, b, DT_F32);
    U y = reduce(g, UOP_ADD, mul(g, a, b), axes, n, false);
    return cast(g, y, t);
}

U matmul(Graph *g, U a, U b)
{
    if (is_error(a) || is_error(b)) return is_error(a) ? a : b;
    uint32_t ra = uop_rank(a), rb = uop_rank(b);
    if (!ra || !rb) return graph_fail(g, "matmul: a scalar operand");
    if (ra == 1) a = unsqueeze(g, a, 0);
    if (rb == 1) b = unsqueeze(g, b, 1);
    U inner = uop_dim(a, uop_rank(a) - 1), other = uop_dim(b, uop_rank(b) - 2);
    if (!same_size(g, inner, other)) return graph_fail(g, "matmul: %lld columns meet %lld rows", (long long)inner->vmax, (long long)other->vmax);
    U y = product_sum(g, unsqueeze(g, a, -1), unsqueeze(g, b, -3), (const int64_t[]){ -2 }, 1);      /* [.., M, K, 1] * [.., 1, K, N] */
    if (rb == 1) y = squeeze(g, y, -1);
    return ra == 1 ? squeeze(g, y, rb == 1 ? -1 : -2) : y;
}

static U pad_spatial(Graph *g, U x, const int64_t *before, const int64_t *after)
{
    int64_t b[RANK_MAX] = { 0 }, a[RANK_MAX] = { 0 };
    for (uint32_t k = 2; k < uop_rank(x); k++) b[k] = before[k - 2], a[k] = after[k - 2];
    return pad_i(g, x, b, a, NULL);
}

/* x as [N, g, 1, o.., C/g, k..] and w as [g, M/g, 1.., C/g, k..]; the sum over C/g and k leaves [N, g, M/g, o..]. */
U conv(Graph *g, U x, U w, const int64_t *stride, const int64_t *dilation, const int64_t *pad_before, const int64_t *pad_after, int64_t groups)
{
    if (is_error(x) || is_error(w)) return is_error(x) ? x : w;
    uint32_t s = uop_rank(x) - 2, n = 0;
    int64_t kernel[RANK_MAX], order[RANK_MAX], axes[RANK_MAX];
    U d[RANK_MAX], ng = uop_index(g, groups), one = uop_index(g, 1);
    if (uop_rank(x) < 3 || uop_rank(w) != uop_rank(x) || 3 * s + 4 > RANK_MAX) return graph_fail(g, "conv: ranks %u and %u", uop_rank(x), uop_rank(w));
    if (!uop_static(w)) return graph_fail_code(g, TG_UNSUPPORTED, "conv: a weight of symbolic size");
    if (groups < 1 || uop_size(w, 0) % groups || uop_dim(x, 1) != dim_mul(g, uop_dim(w, 1), ng))
        return graph_fail(g, "conv: %lld channels, a weight of %lld and %lld groups", (long long)uop_size(x, 1), (long long)uop_size(w, 1), (long long)groups);
    for (uint32_t k = 0; k < s; k++) kernel[k] = uop_size(w, k + 2);
    U v = windows(g, pad_spatial(g, x, pad_before, pad_after), s, kernel, stride, dilation);         /* [N, C, o.., k..] */
    if (is_error(v)) return v;

    d[n++] = uop_dim(v, 0), d[n++] = ng, d[n++] = uop_dim(w, 1);
    for (uint32_t k = 0; k < 2 * s; k++) d[n++] = uop_dim(v, k + 2);
    v = unsqueeze(g, reshape(g, v, d, n), 2);                                                        /* [N, g, 1, C/g, o.., k..] */
    for (uint32_t k = 0; k <= n; k++) order[k] = k < 3 ? k : k < 3 + s ? k + 1 : k == 3 + s ? 3 : k;
    v = permute(g, v, order, n + 1);

    n = 0;
    d[n++] = ng, d[n++] = uop_index(g, uop_size(w, 0) / groups);
    for (uint32_t k = 0; k < s; k++) d[n++] = one;
    for (uint32_t k = 1; k < uop_rank(w); k++) d[n++] = uop_dim(w, k);
    for (uint32_t k = 0; k <= s; k++) axes[k] = (int64_t)k - s - 1;
    U y = product_sum(g, v, reshape(g, w, d, n), axes, s + 1);                                       /* [N, g, M/g, o..] */
    if (is_error(y)) return y;
    d[0] = uop_dim(y, 0), d[1] = uop_dim(w, 0);
    for (uint32_t k = 0; k < s; k++) d[k + 2] = uop_dim(y, k + 3);
    return reshape(g, y, d, s + 2);
}

/* ---- running sums ---- */

U tri_mask(Graph *g, U rows, U cols, int64_t diagonal, bool upper)
{
    U i = unsqueeze(g, add(g, iota(g, rows, DT_INDEX), uop_index(g, diagonal)), 1), j = iota(g, cols, DT_INDEX);
    return upper ? le(g, i, j) : le(g, j, i);
}

/* Along an axis, all pairs. */
static U cumsum_pairs(Graph *g, U x, uint32_t axis)
{
    U n = uop_dim(x, axis), upto = tri_mask(g, n, n, 0, false);
    for (uint32_t k = axis + 1; k < uop_rank(x); k++) upto = unsqueeze(g, upto, -1);
    return sum(g, where(g, upto, unsqueeze(g, x, axis), uop_const_like(g, x->dtype, 0)), axis + 1, false);
}

static U shift_right(Graph *g, U x, uint32_t axis)
{
    int64_t before[RANK_MAX] = { 0 }, after[RANK_MAX] = { 0 };
    before[axis] = 1;
    after[axis] = -1;
    return pad_i(g, x, before, after, NULL);
}

/* By levels: running sums in small blocks, to which the running sums of the blocks' totals are added. */
static U cumsum_blocks(Graph *g, U x, uint32_t axis)
{
    enum { BLOCK = 8 };
    uint32_t r = uop_rank(x);
    U n = uop_dim(x, axis), d[RANK_MAX];
    int64_t before[RANK_MAX] = { 0 }, after[RANK_MAX] = { 0 };
    if (!uop_is_const(n) || n->arg.i <= 2 * BLOCK) return cumsum_pairs(g, x, axis);
    after[axis] = (BLOCK - n->arg.i % BLOCK) % BLOCK;
    U p = pad_i(g, x, before, after, NULL);
    for (uint32_t k = 0; k <= r; k++) d[k] = k == axis ? uop_index(g, uop_size(p, axis) / BLOCK) : k == axis + 1 ? uop_index(g, BLOCK) : uop_dim(p, k - (k > axis));
    U y = cumsum_pairs(g, reshape(g, p, d, r + 1), axis + 1);                                      /* [.., blocks, BLOCK, ..] */
    U total = squeeze(g, slice_i(g, y, axis + 1, BLOCK - 1, BLOCK), axis + 1), start = shift_right(g, cumsum_blocks(g, total, axis), axis);
    return slice(g, reshape(g, add(g, y, unsqueeze(g, start, axis + 1)), p->shape->dim, r), axis, uop_index(g, 0), n);
}

U cumsum(Graph *g, U x, int64_t axis, bool exclusive, bool reverse)
{
    if (is_error(x)) return x;
    if ((axis = axis_of(g, "cumsum", axis, uop_rank(x))) < 0) return graph_fail(g, "cumsum");
    U y = is_narrow(x) ? cast(g, x, DT_F32) : x;
    if (reverse) y = flip_axis(g, y, axis);
    y = cumsum_blocks(g, y, (uint32_t)axis);
    if (exclusive) y = shift_right(g, y, (uint32_t)axis);
    if (reverse) y = flip_axis(g, y, axis);
    return cast(g, y, (DType)x->dtype);
}
