/* Reductions, and what is made of them: means, softmax, matrix products, convolutions, running sums. Sums and products
 * of f16 and bf16 are accumulated in f32 and rounded once. A product-sum is always REDUCE(ADD, MUL(a, b)) over
 * broadcast operands: what it is called is the optimiser's business, which looks at indices.
 */
#include <math.h>

#include "graph/build.h"

static U drop_axes(Graph *g, U x, uint64_t axes)
{
    U d[RANK_MAX];
    uint32_t n = 0;
    for (uint32_t k = 0; k < uop_rank(x); k++)
        if (!(axes >> k & 1)) d[n++] = uop_dim(x, k);
    return reshape(g, x, d, n);
}

/* What a reduce of nothing gives: x's shape with these axes 1, filled with the op's neutral element. NULL: there is
 * something. */
static U reduce_nothing(Graph *g, Op op, U x, const int64_t *axis, uint32_t n)
{
    U d[RANK_MAX];
    DType t = (DType)x->dtype;
    bool nothing = false;
    for (uint32_t k = 0; k < uop_rank(x); k++) d[k] = uop_dim(x, k);
    for (uint32_t k = 0; k < n; k++) nothing |= d[axis[k]]->vmax == 0, d[axis[k]] = uop_index(g, 1);
    U neutral = op != UOP_MAX ? scalar(g, t, op == UOP_MUL)
        : dtype_is_float(t)   ? scalar(g, t, -INFINITY)
                              : uop_int(g, t, dtype_min(t));
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
        /* over one element there is nothing to do */
        if (set >> k & 1 && !uop_is_int_const(uop_dim(x, k), 1)) list[count++] = k;
    U nothing = reduce_nothing(g, op, x, list, count);
    if (nothing) x = nothing;
    else if (count) {
        if (dtype_is_half((DType)x->dtype) && op != UOP_MAX) x = cast(g, x, DT_F32);
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
    return dtype_is_float(x->dtype) ? neg(g, max_reduce(g, neg(g, x), axis, keepdims))
                                    : not_(g, max_reduce(g, not_(g, x), axis, keepdims));
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
    if (dtype_is_half((DType)x->dtype)) x = cast(g, x, DT_F32);
    U total = reduce(g, UOP_ADD, x, axes, n, keepdims);
    return is_error(total) ? total : cast(g, div_(g, total, cast(g, count, total->dtype)), t);
}

/* ---- softmax ---- */

/* f in f32 for narrow floats. */
static U in_wide(Graph *g, U x, int64_t axis, U (*f)(Graph *g, U x, int64_t axis))
{
    if (is_error(x) || !dtype_is_half((DType)x->dtype)) return f(g, x, axis);
    return cast(g, f(g, cast(g, x, DT_F32), axis), x->dtype);
}

/* Of a row with NaN, which its exponentials bring to the sum, the maximum does not matter. */
static U below_max(Graph *g, U x, int64_t axis)
{
    U m = max_reduce(g, x, axis, true);
    return sub(g, x, m != x && m->op == UOP_REDUCE ? uop_tagged(g, m, LOOSE_TAG) : m);
}

/* Every term is divided by a sum of 1 or more: one rounded product by log2(e) serves, unlike in exp_. Terms that would
 * be denormal are 0: masks make rows full of them, and processors take hundreds of cycles for each, here and again in
 * the products that follow. That nothing is above 0 is said for 2^t. */
U exp_below(Graph *g, U x)
{
    if (is_error(x)) return x;
    U least = uop_const_like(g, x->dtype, x->dtype == DT_F64 ? -1022 : -126), zero = uop_const_like(g, x->dtype, 0);
    U t = mul(g, x, uop_const_like(g, x->dtype, M_LOG2E));
    return where(g, lt(g, t, least), zero, exp2_(g, max_(g, min_(g, t, zero), least)));
}

/* The sum is at least 1 and finite, so that its reciprocal is as good to a bit, and one division serves a row. */
static U softmax_wide(Graph *g, U x, int64_t axis)
{
    U e = exp_below(g, below_max(g, x, axis)), total = sum(g, e, axis, true);
    return !is_error(x) && x->dtype == DT_F64 ? div_(g, e, total) : mul(g, e, recip(g, total));
}

static U log_softmax_wide(Graph *g, U x, int64_t axis)
{
    U d = below_max(g, x, axis);
    return sub(g, d, log_(g, sum(g, exp_below(g, d), axis, true)));
}

U softmax(Graph *g, U x, int64_t axis) { return in_wide(g, x, axis, softmax_wide); }
U log_softmax(Graph *g, U x, int64_t axis) { return in_wide(g, x, axis, log_softmax_wide); }

/* The largest of n - i (first) or i (last) over the places where x is its maximum, or is NaN, which wins as in numpy.
 */
U argmax(Graph *g, U x, int64_t axis, bool keepdims, bool last)
{
    if (is_error(x)) return x;
    uint32_t r = uop_rank(x);
    if ((axis = axis_of(g, "argmax", axis, r)) < 0) return graph_fail(g, "argmax");
    U size = uop_dim(x, (uint32_t)axis), d[RANK_MAX];
    DType t = size->vmax < INT32_MAX ? DT_I32 : DT_I64;
    for (uint32_t k = 0; k < r; k++) d[k] = k == axis ? size : uop_index(g, 1);
    U hit = or_(g, eq(g, x, max_reduce(g, x, axis, true)), is_nan(g, x)), n = cast(g, size, t),
      i = reshape(g, iota(g, size, t), d, r);
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
    if (dtype_is_half((DType)a->dtype)) a = cast(g, a, DT_F32), b = cast(g, b, DT_F32);
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
    if (!one_size(g, &a, -1, &b, -2))
        return graph_fail(g, "matmul: %lld columns meet %lld rows", (long long)inner->vmax, (long long)other->vmax);
    /* [.., M, K, 1] * [.., 1, K, N] */
    U y = product_sum(g, unsqueeze(g, a, -1), unsqueeze(g, b, -3), (const int64_t[]){ -2 }, 1);
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
U conv(Graph *g, U x, U w, const int64_t *stride, const int64_t *dilation, const int64_t *pad_before,
       const int64_t *pad_after, int64_t groups)
{
    if (is_error(x) || is_error(w)) return is_error(x) ? x : w;
    uint32_t s = uop_rank(x) - 2, n = 0;
    int64_t kernel[RANK_MAX], order[RANK_MAX], axes[RANK_MAX];
    U d[RANK_MAX], ng = uop_index(g, groups), one = uop_index(g, 1);
    if (uop_rank(x) < 2 || uop_rank(w) != uop_rank(x) || 3 * s + 4 > RANK_MAX)
        return graph_fail(g, "conv: ranks %u and %u", uop_rank(x), uop_rank(w));
    if (!uop_static(w)) return graph_fail_code(g, TG_UNSUPPORTED, "conv: a weight of symbolic size");
    if (groups < 1 || uop_size(w, 0) % groups || uop_dim(x, 1) != dim_mul(g, uop_dim(w, 1), ng))
        return graph_fail(g, "conv: %lld channels, a weight of %lld and %lld groups", (long long)uop_size(x, 1),
                          (long long)uop_size(w, 1), (long long)groups);
    for (uint32_t k = 0; k < s; k++) kernel[k] = uop_size(w, k + 2);
    /* [N, C, o.., k..] */
    U v = windows(g, pad_before ? pad_spatial(g, x, pad_before, pad_after) : x, s, kernel, stride, dilation);
    if (is_error(v)) return v;

    d[n++] = uop_dim(v, 0), d[n++] = ng, d[n++] = uop_dim(w, 1);
    for (uint32_t k = 0; k < 2 * s; k++) d[n++] = uop_dim(v, k + 2);
    /* [N, g, 1, C/g, o.., k..] */
    v = unsqueeze(g, reshape(g, v, d, n), 2);
    for (uint32_t k = 0; k <= n; k++) order[k] = k < 3 ? k : k < 3 + s ? k + 1 : k == 3 + s ? 3 : k;
    v = permute(g, v, order, n + 1);

    n = 0;
    d[n++] = ng, d[n++] = uop_index(g, uop_size(w, 0) / groups);
    for (uint32_t k = 0; k < s; k++) d[n++] = one;
    for (uint32_t k = 1; k < uop_rank(w); k++) d[n++] = uop_dim(w, k);
    for (uint32_t k = 0; k <= s; k++) axes[k] = (int64_t)k - s - 1;
    /* [N, g, M/g, o..] */
    U y = product_sum(g, v, reshape(g, w, d, n), axes, s + 1);
    if (is_error(y)) return y;
    d[0] = uop_dim(y, 0), d[1] = uop_dim(w, 0);
    for (uint32_t k = 0; k < s; k++) d[k + 2] = uop_dim(y, k + 3);
    return reshape(g, y, d, s + 2);
}

/* ---- running sums and products ---- */

U tri_mask(Graph *g, U rows, U cols, int64_t diagonal, bool upper)
{
    U i = unsqueeze(g, add(g, iota(g, rows, DT_INDEX), uop_index(g, diagonal)), 1), j = iota(g, cols, DT_INDEX);
    return upper ? le(g, i, j) : le(g, j, i);
}

/* Along an axis, all pairs. Sums from either end have their terms in the same order, so that each is the one before and
 * a term. */
static U running_pairs(Graph *g, Op op, U x, uint32_t axis, bool reverse)
{
    U i = iota(g, uop_dim(x, axis), DT_INDEX), beyond = lt(g, unsqueeze(g, i, 1), i);
    if (reverse) x = flip_axis(g, x, axis), beyond = flip_axis(g, beyond, 0);
    for (uint32_t k = axis + 1; k < uop_rank(x); k++) beyond = unsqueeze(g, beyond, -1);
    return reduce(g, op, where(g, beyond, uop_neutral(g, op, (DType)x->dtype), unsqueeze(g, x, axis)),
                  (const int64_t[]){ axis + 1 }, 1, false);
}

/* x one place further from where the sums begin. */
static U later(Graph *g, Op op, U x, uint32_t axis, bool reverse)
{
    int64_t before[RANK_MAX] = { 0 }, after[RANK_MAX] = { 0 };
    before[axis] = reverse ? -1 : 1;
    after[axis] = -before[axis];
    return pad_i(g, x, before, after, uop_neutral(g, op, (DType)x->dtype));
}

static U with_start(Graph *g, Op op, U y, U start) { return op == UOP_MUL ? mul(g, y, start) : add(g, y, start); }

/* FEW: terms that are summed for each place anew, in kernels that have no place for another's sum; FEW_ROWS: of rows,
 * whose sums a CPU's kernel carries from row to row in lanes (40 rows of 100,000: 1.3 ms in blocks, 0.7; more rows are
 * too many streams). */
enum { BLOCK = 16, FEW = 24, FEW_ROWS = 48 };
static U running_blocks(Graph *g, Op op, U x, uint32_t axis, bool reverse);

/* x of whole blocks: running sums in each, and before them those of the blocks' totals (upto), which are sums of their
 * own: x is read twice, and only the result is stored. */
static U in_blocks(Graph *g, Op op, U x, uint32_t axis, U blocks, int64_t block, bool reverse, U *upto)
{
    U d[RANK_MAX];
    uint32_t r = uop_rank(x);
    for (uint32_t k = 0; k <= r; k++)
        d[k] = k == axis ? blocks : k == axis + 1 ? uop_index(g, block) : uop_dim(x, k - (k > axis));
    U p = reshape(g, x, d, r + 1);
    *upto = running_blocks(g, op, reduce(g, op, p, (const int64_t[]){ axis + 1 }, 1, false), axis, reverse);
    U y = with_start(g, op, running_pairs(g, op, p, axis + 1, reverse),
                     unsqueeze(g, later(g, op, *upto, axis, reverse), axis + 1));
    return is_error(y) ? y : reshape(g, y, x->shape->dim, r);
}

/* x with what changes no sum behind it, up to this size. */
static U filled(Graph *g, Op op, U x, uint32_t axis, U size)
{
    U at[RANK_MAX], to[RANK_MAX];
    for (uint32_t k = 0; k < uop_rank(x); k++) at[k] = uop_index(g, 0), to[k] = k == axis ? size : uop_dim(x, k);
    U begin = uop_sizes(g, at, uop_rank(x)), sizes = uop_sizes(g, to, uop_rank(x)),
      y = UOP(g, UOP_PAD, DT_VOID, NO_ARG, x, begin, sizes);
    return op == UOP_ADD ? y
                         : where(g, UOP(g, UOP_PAD, DT_VOID, NO_ARG, full(g, DT_BOOL, 1, x), begin, sizes), y,
                                 uop_neutral(g, op, (DType)x->dtype));
}

/* By levels. What whole blocks leave at the far end is a short one; where the size is symbolic, the last one is filled
 * up. */
static U running_blocks(Graph *g, Op op, U x, uint32_t axis, bool reverse)
{
    U upto, part[2];
    int64_t few = axis + 1 < uop_rank(x) && uop_is_const(uop_dim(x, axis)) ? FEW_ROWS : FEW;
    if (is_error(x) || uop_dim(x, axis)->vmax <= few) return is_error(x) ? x : running_pairs(g, op, x, axis, reverse);
    U size = uop_dim(x, axis), length = uop_index(g, BLOCK);
    if (!uop_is_const(size)) {
        U blocks = dim_div(g, dim_add(g, size, uop_index(g, BLOCK - 1)), length);
        return slice(
            g,
            in_blocks(g, op, filled(g, op, x, axis, dim_mul(g, blocks, length)), axis, blocks, BLOCK, reverse, &upto),
            axis, uop_index(g, 0), size);
    }
    int64_t n = size->arg.i, block = n % BLOCK && n % (BLOCK / 2) == 0 ? BLOCK / 2 : BLOCK, rest = n % block,
            from = reverse ? rest : 0;
    part[reverse] = in_blocks(g, op, slice_i(g, x, axis, from, from + n - rest), axis, uop_index(g, n / block), block,
                              reverse, &upto);
    if (!rest) return part[reverse];
    U last = slice_i(g, upto, axis, reverse ? 0 : n / block - 1, reverse ? 1 : n / block);
    part[!reverse] = with_start(
        g, op, running_pairs(g, op, slice_i(g, x, axis, reverse ? 0 : n - rest, reverse ? rest : n), axis, reverse),
        last);
    return cat(g, part, 2, axis);
}

U running(Graph *g, Op op, U x, int64_t axis, bool exclusive, bool reverse)
{
    if (is_error(x)) return x;
    if ((axis = axis_of(g, "running", axis, uop_rank(x))) < 0) return graph_fail(g, "running");
    if (uop_is_int_const(uop_dim(x, (uint32_t)axis), 0)) return x;
    U y = dtype_is_half((DType)x->dtype) ? cast(g, x, DT_F32) : x;
    if (exclusive) y = later(g, op, y, (uint32_t)axis, reverse);
    return cast(g, running_blocks(g, op, y, (uint32_t)axis, reverse), (DType)x->dtype);
}
