/* Reductions, running sums, products of matrices, softmax. In: values of which half-precision ones are widened, so that
 * sums round once. Out: as numpy. To add one: a function here and a row in ops.def.
 */
#include "frontend/control/loop.h"
#include "frontend/input_names.h"

#include <math.h>
#include <string.h>


/* ---- Reduce* ---- */

typedef struct { const int64_t *axis; uint32_t n; bool keep; } Axes;

/* Axes were attributes until opset 13 (ReduceSum) or 18, then an input; whichever is there is taken. None means all, or
 * none with noop_with_empty_axes. */
static bool reduce_axes(Graph *g, const Ctx *c, Axes *a)
{
    bool given;
    a->keep = attr_bool(g, c, "keepdims", true);
    if (!node_axes(g, c, ReduceMean_axes, uop_rank(c->in[0]), &a->axis, &a->n, &given)) return false;
    if (given && a->n) return true;
    if (attr_bool(g, c, "noop_with_empty_axes", false)) return a->n = 0, true;
    int64_t *all = NEW_N(graph_arena(g), int64_t, uop_rank(c->in[0]) + 1);
    for (a->n = 0; a->n < uop_rank(c->in[0]); a->n++) all[a->n] = a->n;
    a->axis = all;
    return ok(g);
}

static U red(Graph *g, Op op, U x, const Axes *a) { return a->n ? reduce(g, op, x, a->axis, a->n, a->keep) : x; }
static U min_over(Graph *g, U x, const Axes *a)
{
    /* ~ reverses the order without overflow */
    if (dtype_is_int(type_of(x))) return not_(g, red(g, UOP_MAX, not_(g, x), a));
    return neg(g, red(g, UOP_MAX, neg(g, x), a));
}

/* ln(sum(exp(x))) with the maximum taken out; rows that are all -inf or hold inf keep that. */
static U log_sum_exp(Graph *g, U x, const Axes *a)
{
    Axes kept = { a->axis, a->n, true };
    U top = red(g, UOP_MAX, x, &kept), m = where(g, is_inf(g, top), K(0), top);
    U s = red(g, UOP_ADD, exp_(g, sub(g, x, m)), a);
    return add(g, log_(g, s),
               a->keep || !a->n ? m : reshape(g, m, s->shape->dim, s->op == UOP_ERROR ? 0 : uop_rank(s)));
}

#define REDUCE(name, value)                              \
    U name(Graph *g, const Ctx *c)                       \
    {                                                    \
        U x = wide(g, c->in[0]);                         \
        Axes axes, *a = &axes;                           \
        if (!reduce_axes(g, c, a)) return NULL;          \
        return narrow(g, value, c->in[0]);               \
    }

REDUCE(op_reduce_sum, red(g, UOP_ADD, x, a))
REDUCE(op_reduce_prod, red(g, UOP_MUL, x, a))
REDUCE(op_reduce_l1, red(g, UOP_ADD, abs_(g, x), a))
REDUCE(op_reduce_sum_square, red(g, UOP_ADD, mul(g, x, x), a))
static bool is_int(U x) { return dtype_is_int(type_of(x)); }

/* Of integers by way of f64, as their results are integers again. */
REDUCE(op_reduce_l2, sqrt_(g, red(g, UOP_ADD, is_int(x) ? cast(g, mul(g, x, x), DT_F64) : mul(g, x, x), a)))
REDUCE(op_reduce_log_sum, log_(g, red(g, UOP_ADD, is_int(x) ? cast(g, x, DT_F64) : x, a)))
REDUCE(op_reduce_log_sum_exp, log_sum_exp(g, is_int(x) ? cast(g, x, DT_F64) : x, a))

static U extremum(Graph *g, const Ctx *c, bool least)
{
    U x = c->in[0]->dtype == DT_BOOL ? cast(g, c->in[0], DT_U8) : c->in[0];
    Axes a;
    if (!reduce_axes(g, c, &a)) return NULL;
    return narrow(g, least ? min_over(g, x, &a) : red(g, UOP_MAX, x, &a), c->in[0]);
}

U op_reduce_max(Graph *g, const Ctx *c) { return extremum(g, c, false); }
U op_reduce_min(Graph *g, const Ctx *c) { return extremum(g, c, true); }

U op_reduce_mean(Graph *g, const Ctx *c)
{
    U x = wide(g, c->in[0]);
    Axes a;
    if (!reduce_axes(g, c, &a)) return NULL;
    if (!is_int(x)) return a.n ? narrow(g, mean(g, x, a.axis, a.n, a.keep), c->in[0]) : c->in[0];
    U count = uop_index(g, 1);
    for (uint32_t k = 0; k < a.n; k++) count = dim_mul(g, count, uop_dim(x, (uint32_t)a.axis[k]));
    /* of nothing: the sum, 0 */
    return div_(g, red(g, UOP_ADD, x, &a), cast(g, dim_max(g, count, uop_index(g, 1)), type_of(x)));
}

static U arg_extremum(Graph *g, const Ctx *c, bool least)
{
    U x = c->in[0];
    int64_t axis;
    if (!axis_ok(g, c, "axis", attr_int(g, c, "axis", 0), uop_rank(x), &axis)) return NULL;
    U size = uop_dim(x, (uint32_t)axis);
    if (uop_is_int_const(size, 0))
        return fail_node(g, c, TG_BAD_MODEL, c->node->in[0], "has no elements along axis %lld", (long long)axis);
    if (least) x = is_int(x) ? not_(g, x) : neg(g, x);
    U y = argmax(g, x, axis, attr_bool(g, c, "keepdims", true), attr_bool(g, c, "select_last_index", false));
    /* the first of nothing is an index out of range */
    return size->vmin > 0 ? y : add(g, y, place_in(g, uop_int(g, DT_I64, 0), size));
}

U op_arg_max(Graph *g, const Ctx *c) { return arg_extremum(g, c, false); }
U op_arg_min(Graph *g, const Ctx *c) { return arg_extremum(g, c, true); }

/* ---- running sums and products ---- */

static bool running_axis(Graph *g, const Ctx *c, int64_t *axis)
{
    const int64_t *v;
    uint32_t n;
    if (!input_ints(g, c, CumSum_axis, &v, &n)) return false;
    if (n != 1) return fail_node(g, c, TG_BAD_MODEL, "axis", "has %u values; wanted 1", n), false;
    return axis_ok(g, c, "axis", v[0], uop_rank(c->in[0]), axis);
}

static U cumulative(Graph *g, const Ctx *c, Op op)
{
    int64_t axis;
    if (!running_axis(g, c, &axis)) return NULL;
    return narrow(
        g,
        running(g, op, wide(g, c->in[0]), axis, attr_bool(g, c, "exclusive", false), attr_bool(g, c, "reverse", false)),
        c->in[0]);
}

U op_cum_sum(Graph *g, const Ctx *c) { return cumulative(g, c, UOP_ADD); }
U op_cum_prod(Graph *g, const Ctx *c) { return cumulative(g, c, UOP_MUL); }

/* ---- matrices ---- */

/* Square matrices that are eliminated column by column: one iteration of both operators. at: the iteration, rows: 0 ..
 * n-1, one below the other; best: the row of column `at` that has the largest number. */
typedef struct { U at, rows, best; } Column;

static Column column_of(Graph *g, U x, U step)
{
    Column c = { .at = cast(g, step, DT_I64), .rows = unsqueeze(g, iota(g, uop_dim(x, uop_rank(x) - 2), DT_I64), 1) };
    c.best = argmax(g, where(g, lt(g, c.rows, c.at), K(-1), abs_(g, slice(g, x, -1, step, uop_index(g, 1)))), -2, true,
                    false);
    return c;
}

static U chosen_row(Graph *g, U x, Column c) { return sum(g, where(g, eq(g, c.rows, c.best), x, K(0)), -2, true); }
static U with_row(Graph *g, U x, U at, Column c, U row) { return where(g, eq(g, c.rows, at), row, x); }

/* Loses what lies under the pivot; the determinant is the pivots' product, negative after an odd number of swaps. */
static bool det_iteration(Graph *g, void *user, U step, const U *state, U *next, U *row, U *keep)
{
    (void)user, (void)row;
    U x = state[0], one = uop_index(g, 1);
    Column c = column_of(g, x, step);
    U chosen = chosen_row(g, x, c), pivot = slice(g, chosen, -1, step, one),
      swapped = with_row(g, x, c.best, c, slice(g, x, -2, step, one));
    U scale = div_(g, slice(g, swapped, -1, step, one), where(g, eq(g, pivot, K(0)), K(1), pivot));
    next[0] = where(g, gt(g, c.rows, c.at), sub(g, swapped, mul(g, scale, chosen)), swapped);
    next[1] = mul(g, state[1], squeeze(g, squeeze(g, where(g, ne(g, c.best, c.at), neg(g, pivot), pivot), -1), -1));
    *keep = NULL;
    return ok(g);
}

static bool inverse_iteration(Graph *g, void *user, U step, const U *state, U *next, U *row, U *keep)
{
    (void)user, (void)row;
    U x = state[0], one = uop_index(g, 1);
    Column c = column_of(g, x, step);
    U chosen = chosen_row(g, x, c), unit = div_(g, chosen, slice(g, chosen, -1, step, one));
    x = with_row(g, x, c.best, c, slice(g, x, -2, step, one));
    next[0] = with_row(g, sub(g, x, mul(g, slice(g, x, -1, step, one), unit)), c.at, c, unit);
    *keep = NULL;
    return ok(g);
}

/* The size of square matrices. */
static U square(Graph *g, const Ctx *c)
{
    uint32_t r = uop_rank(c->in[0]);
    if (r < 2 || uop_dim(c->in[0], r - 1) != uop_dim(c->in[0], r - 2))
        return fail_node(g, c, TG_BAD_MODEL, NULL, "wanted square matrices"), NULL;
    return uop_dim(c->in[0], r - 1);
}

/* n iterations, one a column; state: the first ones, then the last. */
static bool eliminate(Graph *g, LoopBody body, U n, U *state, uint32_t states)
{
    U init[2] = { state[0], state[states - 1] };
    return loop_build(g, &(Loop){ .body = body, .trip = n, .most = n->vmax, .states = states, .init = init }, state,
                      NULL);
}

U op_det(Graph *g, const Ctx *c)
{
    U n = square(g, c);
    if (!n) return NULL;
    U x = wide(g, c->in[0]), state[2] = { x, expand(g, K(1), x->shape->dim, uop_rank(x) - 2) };
    return eliminate(g, det_iteration, n, state, 2) ? narrow(g, state[1], c->in[0]) : NULL;
}

/* com.microsoft Inverse: Gauss and Jordan on [x, 1], with the largest pivot of each column. A matrix without an inverse
 * gives infinities or NaN. */
U op_inverse(Graph *g, const Ctx *c)
{
    U n = square(g, c);
    if (!n) return NULL;
    U x = wide(g, c->in[0]), column = iota(g, n, DT_I64),
      unit = cast(g, eq(g, unsqueeze(g, column, 1), column), type_of(x));
    U state = cat(g, (U[]){ x, expand_like(g, unit, x) }, 2, -1);
    return eliminate(g, inverse_iteration, n, &state, 1) ? narrow(g, slice(g, state, -1, n, n), c->in[0]) : NULL;
}

U op_mat_mul(Graph *g, const Ctx *c)
{
    if (c->in[0]->dtype != c->in[MatMul_B]->dtype)
        return fail_node(g, c, TG_BAD_MODEL, NULL, "inputs of types %s and %s; wanted one type",
                         dtype_name(type_of(c->in[0])), dtype_name(type_of(c->in[MatMul_B])));
    return narrow(g, matmul(g, wide(g, c->in[0]), wide(g, c->in[MatMul_B])), c->in[0]);
}

/** Gemm (ONNX 13): Y = alpha * A' B' + beta * C.
 *  in   A'[M,K], B'[K,N] of one dtype; C broadcasts to [M,N], may be absent
 *  out  Y[M,N], dtype of A
 */
U op_gemm(Graph *g, const Ctx *c)
{
    U a = wide(g, c->in[0]), b = wide(g, c->in[Gemm_B]), bias = wide(g, c->in[Gemm_C]), x = a;
    double alpha = attr_float(g, c, "alpha", 1), beta = attr_float(g, c, "beta", 1);
    if (uop_rank(a) != 2 || uop_rank(b) != 2)
        return fail_node(g, c, TG_BAD_MODEL, NULL, "inputs of ranks %u and %u; wanted 2", uop_rank(a), uop_rank(b));
    if (type_of(a) != type_of(b) || (bias && type_of(bias) != type_of(a)))
        return fail_node(g, c, TG_BAD_MODEL, NULL, "inputs of several types");
    if (attr_bool(g, c, "transA", false)) a = transpose(g, a);
    if (attr_bool(g, c, "transB", false)) b = transpose(g, b);
    U y = matmul(g, a, b);
    if (alpha != 1) y = mul(g, y, K(alpha));
    if (y->op == UOP_ERROR || !bias || beta == 0) return narrow(g, y, c->in[0]);
    return narrow(g, add(g, y, expand_like(g, beta != 1 ? mul(g, bias, K(beta)) : bias, y)), c->in[0]);
}

/* ---- Einsum ---- */

/* One term of an equation: its letters in order, -1 for an axis that "..." covers, counted from the right in `dots`. */
enum { EINSUM_LABELS = 64, EINSUM_DOTS = 52 };
typedef struct { uint8_t label[TG_MAX_RANK]; uint32_t n; } Term;

/* Letters become 0..51, the axes of "..." 52 and on, the last of them the rightmost. false: malformed. */
static bool read_term(Term *t, const char **s, int64_t rank, uint32_t *ndots)
{
    bool dots = false;
    uint32_t letters = 0;
    for (const char *p = *s; *p && *p != ',' && *p != '-'; p++) letters += (*p | 32) >= 'a' && (*p | 32) <= 'z';
    t->n = 0;
    for (; **s && **s != ',' && **s != '-'; ++*s) {
        char ch = **s;
        if (ch == ' ') continue;
        if (t->n >= TG_MAX_RANK) return false;
        if (ch >= 'a' && ch <= 'z') t->label[t->n++] = (uint8_t)(ch - 'a');
        else if (ch >= 'A' && ch <= 'Z') t->label[t->n++] = (uint8_t)(26 + ch - 'A');
        else if (!strncmp(*s, "...", 3) && !dots) {
            uint32_t m = rank < 0 ? *ndots : rank >= letters ? (uint32_t)(rank - letters) : 0;
            if (t->n + m > TG_MAX_RANK || m > EINSUM_LABELS - EINSUM_DOTS) return false;
            for (uint32_t k = 0; k < m; k++) t->label[t->n++] = (uint8_t)(EINSUM_LABELS - m + k);
            if (m > *ndots) *ndots = m;
            dots = true;
            *s += 2;
        } else return false;
    }
    return rank < 0 || t->n == rank;
}

/* The diagonal of axes i < j as axis i: with n more elements behind them, n * n elements are n rows of n + 1, whose
 * first are the diagonal. */
static U diagonal_of(Graph *g, U x, uint32_t i, uint32_t j)
{
    uint32_t r = uop_rank(x), at = 0;
    int64_t last[TG_MAX_RANK], back[TG_MAX_RANK];
    U n = uop_dim(x, i), zero = uop_index(g, 0), none[TG_MAX_RANK], more[TG_MAX_RANK], flat[TG_MAX_RANK];
    for (uint32_t k = 0; k < r; k++)
        if (k != i && k != j) flat[at] = uop_dim(x, k), last[at++] = k;
    last[at] = i, last[at + 1] = j;
    for (uint32_t k = 0; k <= at; k++) none[k] = more[k] = zero, back[k] = k < i ? k : k == i ? at : k - 1;
    flat[at] = dim_mul(g, n, n), more[at] = n;
    x = pad(g, reshape(g, permute(g, x, last, r), flat, r - 1), none, more, NULL);
    flat[at] = n, flat[at + 1] = dim_add(g, n, uop_index(g, 1));
    return permute(g, squeeze(g, slice_i(g, reshape(g, x, flat, r), -1, 0, 1), -1), back, r - 1);
}

/* Takes the diagonal where a letter repeats inside one term, so that each occurs once. */
static U diagonal(Graph *g, U x, Term *t)
{
    for (uint32_t i = 0; i < t->n; i++)
        for (uint32_t j = i + 1; j < t->n && x->op != UOP_ERROR; j++) {
            if (t->label[i] != t->label[j]) continue;
            if (uop_dim(x, i) != uop_dim(x, j))
                return graph_fail(g, "a repeated letter on axes of %lld and %lld", (long long)uop_size(x, i),
                                  (long long)uop_size(x, j));
            x = diagonal_of(g, x, i, j);
            memmove(&t->label[j], &t->label[j + 1], t->n - j - 1);
            t->n--;
            j--;
        }
    return x;
}

/* x's axes at the places of their labels in `order` (n labels), 1 elsewhere. */
static U spread(Graph *g, U x, const Term *t, const uint8_t *order, uint32_t n)
{
    int64_t perm[TG_MAX_RANK];
    U dim[EINSUM_LABELS];
    uint32_t at = 0;
    for (uint32_t k = 0; k < n; k++) {
        dim[k] = uop_index(g, 1);
        for (uint32_t j = 0; j < t->n; j++)
            if (t->label[j] == order[k]) perm[at++] = j, dim[k] = uop_dim(x, j);
    }
    return reshape(g, permute(g, x, perm, at), dim, n);
}

/* Without "->": the letters that occur once, in alphabetical order, after the axes of "...". */
static void implied(Term *out, const Term *in, uint32_t n)
{
    uint32_t count[EINSUM_LABELS] = { 0 };
    for (uint32_t k = 0; k < n; k++)
        for (uint32_t j = 0; j < in[k].n; j++) count[in[k].label[j]]++;
    out->n = 0;
    for (uint32_t l = EINSUM_DOTS; l < EINSUM_LABELS && out->n < TG_MAX_RANK; l++)
        if (count[l]) out->label[out->n++] = (uint8_t)l;
    for (uint32_t upper = 0; upper < 2; upper++)
        for (uint32_t l = 0; l < 26 && out->n < TG_MAX_RANK; l++)
            if (count[(upper ? 0 : 26) + l] == 1) out->label[out->n++] = (uint8_t)((upper ? 0 : 26) + l);
}

static bool read_equation(Graph *g, const Ctx *c, const char *s, Term *in, Term *out)
{
    uint32_t ndots = 0;
    for (uint32_t k = 0; k < c->nin; k++) {
        if (!c->in[k] || !read_term(&in[k], &s, uop_rank(c->in[k]), &ndots)) return false;
        if (k + 1 < c->nin && *s++ != ',') return false;
    }
    if (!*s) return implied(out, in, c->nin), true;
    if (strncmp(s, "->", 2)) return false;
    s += 2;
    (void)g;
    return read_term(out, &s, -1, &ndots) && !*s;
}

/* Einsum: every term over all labels, output labels first; product; sum over the rest. Two terms of a matrix product
 * come out as the same REDUCE(ADD, MUL) that matmul makes. */
U op_einsum(Graph *g, const Ctx *c)
{
    Term in[16], out;
    uint8_t order[EINSUM_LABELS];
    bool seen[EINSUM_LABELS] = { false };
    uint32_t n = 0;
    const char *equation = attr_str(g, c, "equation", "");
    if (c->nin > 16 || !read_equation(g, c, equation, in, &out))
        return fail_node(g, c, TG_BAD_MODEL, "equation", "'%s' does not fit the inputs", equation);
    for (uint32_t k = 0; k < out.n; k++) {
        if (seen[out.label[k]])
            return fail_node(g, c, TG_BAD_MODEL, "equation", "'%s': a letter twice in the output", equation);
        seen[order[n++] = out.label[k]] = true;
        bool found = false;
        for (uint32_t i = 0; i < c->nin; i++)
            for (uint32_t j = 0; j < in[i].n; j++) found |= in[i].label[j] == out.label[k];
        if (!found)
            return fail_node(g, c, TG_BAD_MODEL, "equation", "'%s': a letter of the output is in no input", equation);
    }
    U x[16], y = NULL;
    for (uint32_t k = 0; k < c->nin; k++) {
        x[k] = diagonal(g, wide(g, c->in[k]), &in[k]);
        if (x[k]->op == UOP_ERROR) return x[k];
        for (uint32_t j = 0; j < in[k].n; j++)
            if (!seen[in[k].label[j]]) seen[order[n++] = in[k].label[j]] = true;
    }
    if (n > 2 * TG_MAX_RANK) return fail_node(g, c, TG_LIMIT, "equation", "%u letters; at most %d", n, 2 * TG_MAX_RANK);
    for (uint32_t k = 0; k < c->nin; k++) {
        U term = spread(g, x[k], &in[k], order, n);
        y = y ? mul(g, y, term) : term;
    }
    int64_t rest[EINSUM_LABELS];
    for (uint32_t k = out.n; k < n; k++) rest[k - out.n] = k;
    return narrow(g, n > out.n ? reduce(g, UOP_ADD, y, rest, n - out.n, false) : y, c->in[0]);
}

/* ---- softmax ---- */

/* Before opset 13 the axes from `axis` (1) on were one row; since then `axis` (-1) alone is. */
static U rows(Graph *g, const Ctx *c, U (*f)(Graph *g, U x, int64_t axis))
{
    U x = wide(g, c->in[0]);
    uint32_t rank = uop_rank(x);
    int64_t axis = attr_int(g, c, "axis", c->opset < 13 ? 1 : -1);
    if (c->opset < 13 && axis == rank)
        return narrow(g, reshape(g, f(g, unsqueeze(g, x, -1), -1), x->shape->dim, rank), c->in[0]);
    if (rank == 0 && (axis == 0 || axis == -1))
        return narrow(g, reshape(g, f(g, unsqueeze(g, x, 0), 0), NULL, 0), c->in[0]);
    if (!axis_ok(g, c, "axis", axis, rank, &axis)) return NULL;
    if (c->opset >= 13 || axis + 1 == rank) return narrow(g, f(g, x, axis), c->in[0]);
    U dim[TG_MAX_RANK];
    memcpy(dim, x->shape->dim, sizeof *dim * (size_t)axis);
    dim[axis] = dim_product(g, x->shape->dim + axis, rank - (uint32_t)axis);
    return narrow(g, reshape(g, f(g, reshape(g, x, dim, (uint32_t)axis + 1), axis), x->shape->dim, rank), c->in[0]);
}

/* One where the first maximum of the row stands. */
static U hardmax(Graph *g, U x, int64_t axis)
{
    U at = argmax(g, x, axis, true, false), n = uop_dim(x, (uint32_t)(axis < 0 ? axis + uop_rank(x) : axis)),
      i = iota(g, n, DT_I64);
    for (uint32_t k = (uint32_t)(axis < 0 ? axis + uop_rank(x) : axis) + 1; k < uop_rank(x); k++)
        i = unsqueeze(g, i, -1);
    return cast(g, eq(g, at, i), type_of(x));
}

U op_softmax(Graph *g, const Ctx *c) { return rows(g, c, softmax); }
U op_log_softmax(Graph *g, const Ctx *c) { return rows(g, c, log_softmax); }
U op_hardmax(Graph *g, const Ctx *c) { return rows(g, c, hardmax); }
