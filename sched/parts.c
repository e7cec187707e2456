/* Parts: a sum of products of f32 becomes one of products of bf16, which the device's matrix units do many times as fast (--precision; Target.products).
 *
 * Comes in: REDUCE(ADD, MUL(x, w)) of f32, w made of constants. Goes out: the same sum of x_p w_p in f32, over p too where there are several:
 *   1 (fast)    both rounded to bf16: a term's error is 2^-8 of it
 *   3 (split)   (high, high), (low, high), (high, low), where high is a number without its last 16 bits, and low what is left, rounded: 2^-16
 * The parts are made of what lies before the views of x and w (windows, halos), and stored: those of w at load, those of x once for all sums of it. p is an axis in front of the others.
 * An Inf or NaN is its own high part. Its low part is 0, and so is its high part wherever it meets a low part: Inf * 0 would make a NaN of it.
 * Must hold: there are rows, columns and terms enough to fill the unit (tc.c), all known; every view of x and w is one that view_beside knows.
 * Outside of the claim: terms below 2^-100, and denormals, which the units take for 0.
 */
#include <math.h>

#include "graph/build.h"
#include "graph/wmma.h"
#include "sched/sched.h"

enum { VIEWS_MAX = 32, CUT_BITS = 16, NAN_BITS = 0x7fc0, LEAST_WORK = 1 << 18 };         /* LEAST_WORK: products of a sum; of fewer, a wait for the parts is longer than what they save */

typedef struct { U base, view[VIEWS_MAX]; uint32_t nview; } Seen;

static bool is_view(U u) { return u->op == UOP_INDEX || (op_is((Op)u->op, FLAG_MOVE) && u->op != UOP_BITCAST && u->op != UOP_CONTIGUOUS); }

/* ---- views with one more axis in front ---- */

static U one_more(Graph *g, U sizes, int64_t first)
{
    U v[RANK_MAX + 1] = { uop_index(g, first) };
    for (uint32_t k = 0; k < sizes->nsrc; k++) v[k + 1] = sizes->src[k];
    return uop_sizes(g, v, sizes->nsrc + 1);
}

static U expanded(Graph *g, U x, U view, int64_t parts)
{
    U dim[RANK_MAX + 1] = { uop_index(g, parts) };
    uint32_t rank = uop_rank(view), own = uop_rank(view->src[0]);
    for (uint32_t k = 0; k < rank; k++) dim[k + 1] = k + own < rank ? uop_index(g, 1) : uop_dim(view->src[0], k + own - rank);
    x = reshape(g, x, dim, rank + 1);
    for (uint32_t k = 0; k < rank; k++) dim[k + 1] = uop_dim(view, k);
    return expand(g, x, dim, rank + 1);
}

static U permuted(Graph *g, U x, U view)
{
    int64_t order[RANK_MAX + 1] = { 0 };
    for (uint32_t k = 0; k < uop_rank(view); k++) order[k + 1] = blob_ints(view->arg.blob)[k] + 1;
    return permute(g, x, order, uop_rank(view) + 1);
}

static U indexed(Graph *g, U x, U view, int64_t parts)
{
    U src[RANK_MAX + 2] = { x, iota(g, uop_index(g, parts), DT_INDEX) };
    for (uint32_t k = 1; k < view->nsrc; k++) src[k + 1] = view->src[k];
    return uop_new(g, UOP_INDEX, DT_VOID, NO_ARG, src, view->nsrc + 1);
}

/* What the view makes of each part of x; NULL: it is none that is known here. */
static U view_beside(Graph *g, U x, U view, int64_t parts)
{
    switch (view->op) {
    case UOP_RESHAPE: return UOP(g, UOP_RESHAPE, DT_VOID, NO_ARG, x, one_more(g, view->src[1], parts));
    case UOP_EXPAND:  return expanded(g, x, view, parts);
    case UOP_PERMUTE: return permuted(g, x, view);
    case UOP_PAD:     return UOP(g, UOP_PAD, DT_VOID, NO_ARG, x, one_more(g, view->src[1], 0), one_more(g, view->src[2], parts));
    case UOP_SHRINK:  return UOP(g, UOP_SHRINK, DT_VOID, NO_ARG, x, one_more(g, view->src[1], 0), one_more(g, view->src[2], parts));
    case UOP_INDEX:   return indexed(g, x, view, parts);
    default:          return NULL;
    }
}

static bool see(Seen *s, U u)
{
    for (s->nview = 0, s->base = u; is_view(s->base); s->base = s->base->src[0]) {
        if (s->nview == VIEWS_MAX || uop_rank(s->base) >= RANK_MAX) return false;
        s->view[s->nview++] = s->base;
    }
    return uop_rank(s->base) < RANK_MAX;
}

/* ---- parts ---- */

typedef struct { U high, low, tame; } Parts;                /* bits of bf16; tame: high, or 0 where that is not finite */

static Parts parts_of(Graph *g, U x)
{
    U bits = bitcast(g, x, DT_U32), upper = shr(g, bits, uop_int(g, DT_U32, CUT_BITS)), zero = uop_int(g, DT_U16, 0), finite = lt(g, abs_(g, x), scalar(g, DT_F32, INFINITY));
    U cut = bitcast(g, shl(g, upper, uop_int(g, DT_U32, CUT_BITS)), DT_F32), low = cast(g, where(g, finite, sub(g, x, cut), scalar(g, DT_F32, 0)), DT_BF16), high = cast(g, upper, DT_U16);
    return (Parts){ where(g, is_nan(g, x), uop_int(g, DT_U16, NAN_BITS), high), bitcast(g, low, DT_U16), where(g, finite, high, zero) };
}

/* The parts of u, stored, through u's views. second: of w. */
static U in_parts(Graph *g, const Seen *s, int64_t parts, bool second)
{
    U x = cast(g, s->base, DT_BF16), dim[RANK_MAX + 1] = { uop_index(g, parts) };
    uint32_t rank = uop_rank(s->base);
    for (uint32_t k = 0; k < rank; k++) dim[k + 1] = uop_dim(s->base, k);
    if (parts > 1) {
        Parts p = parts_of(g, s->base);
        U first[RANK_MAX + 1] = { uop_index(g, parts) }, number;
        for (uint32_t k = 0; k < rank; k++) first[k + 1] = uop_index(g, 1);
        number = reshape(g, iota(g, uop_index(g, parts), DT_I32), first, rank + 1);
        U later = where(g, lt(g, number, uop_int(g, DT_I32, 2)), second ? p.tame : p.low, second ? p.low : p.tame);
        x = bitcast(g, where(g, lt(g, number, uop_int(g, DT_I32, 1)), p.high, later), DT_BF16);
    }
    x = cast(g, contiguous(g, reshape(g, x, dim, rank + 1)), DT_F32);        /* widened before the views, as rangeify wants what is stored narrow */
    for (uint32_t i = s->nview; i-- > 0 && x;) x = view_beside(g, x, s->view[i], parts);
    return x;
}

/* ---- sums ---- */

static bool is_summed(U sum, uint32_t axis)
{
    for (uint32_t k = 0; k < blob_count(sum->arg.blob); k++)
        if (blob_ints(sum->arg.blob)[k] == axis) return true;
    return false;
}

/* Size of u along axis of the product p, 1 where it is the same all along. */
static int64_t extent(U p, U u, uint32_t axis)
{
    uint32_t off = uop_rank(p) - uop_rank(u);
    const UOp *v = u;
    if (axis < off) return 1;
    axis -= off;
    if (v->op == UOP_EXPAND) {
        off = uop_rank(v) - uop_rank(v->src[0]);
        if (axis < off || uop_is_int_const(uop_dim(v->src[0], axis - off), 1)) return 1;
    }
    return uop_size(u, axis);
}

/* Rows of x, columns of w and a run of terms that fill a tile. */
static bool fills(U sum, U x, U w, const Wmma *row)
{
    U p = sum->src[0];
    int64_t rows = 1, columns = 1, terms = 1;
    bool run = false;
    for (uint32_t k = 0; k < uop_rank(p); k++) {
        int64_t a = extent(p, x, k), b = extent(p, w, k);
        if (is_summed(sum, k)) terms *= uop_size(p, k), run |= a > 1 && b > 1 && a % row->k == 0;
        else if (a > 1 && b > 1) return false;                  /* a product for each: depthwise, in groups */
        else rows *= a, columns *= b;
    }
    return run && rows >= WMMA_ROWS && columns >= row->n && rows * columns * terms >= LEAST_WORK;
}

static U sum_in_parts(Graph *g, U sum, U x, U w, const Wmma *row, int64_t parts)
{
    Seen a, b;
    U p = sum->src[0], operand[2];
    if (x->dtype != DT_F32 || !uop_static(p) || !uop_static(x) || !fills(sum, x, w, row) || !made_of_constants(g, w) || !see(&a, x) || !see(&b, w)) return NULL;
    operand[0] = in_parts(g, &a, parts, false);
    operand[1] = in_parts(g, &b, parts, true);
    if (!operand[0] || !operand[1]) return NULL;
    U dim[RANK_MAX + 1] = { uop_index(g, parts) };
    for (uint32_t s = 0; s < 2; s++) {
        U v = s ? w : x, y = operand[s];
        uint32_t off = uop_rank(p) - uop_rank(v);
        for (uint32_t k = 0; k < uop_rank(p); k++) dim[k + 1] = k < off ? uop_index(g, 1) : uop_dim(v, k - off);
        operand[s] = reshape(g, y, dim, uop_rank(p) + 1);
    }
    int64_t axes[RANK_MAX + 1] = { 0 };
    uint32_t n = 1;
    for (uint32_t k = 0; k < uop_rank(p); k++)
        if (is_summed(sum, k)) axes[n++] = k + 1;
    U y = reduce(g, UOP_ADD, mul(g, operand[0], operand[1]), axes, n, true);
    return reshape(g, y, sum->shape->dim, uop_rank(sum));
}

static const Wmma *row_of(const Target *t)
{
    for (int i = 0; i < WMMA_COUNT; i++)
        if ((t->wmma >> i & 1) && wmma_row[i].a == DT_BF16 && wmma_tiled(&wmma_row[i])) return &wmma_row[i];
    return NULL;
}

bool has_parts(const Target *t) { return row_of(t) != NULL; }

const UOp *sum_parts(Graph *g, const UOp *root, const Target *t)
{
    const Wmma *row = row_of(t);
    if (!row || !t->products) return root;
    Arena *a = arena_new();
    uint32_t n;
    const UOp **order = uop_toposort(g, &root, 1, a, &n), **map = NEW_N(a, const UOp *, root->id + 1);
    for (uint32_t i = 0; i < n; i++) {
        U u = order[i], y = NULL;
        const UOp **src = NEW_N(a, const UOp *, u->nsrc + 1);
        for (uint32_t k = 0; k < u->nsrc; k++) src[k] = map[u->src[k]->id];
        U v = uop_with(g, u, src), p = v->op == UOP_REDUCE && v->arg.i == UOP_ADD && v->dtype == DT_F32 && v->src[0]->op == UOP_MUL ? v->src[0] : NULL;
        for (uint32_t k = 0; p && k < 2 && !y; k++) y = sum_in_parts(g, v, p->src[k], p->src[!k], row, t->products);
        map[u->id] = y ? y : v;
    }
    root = map[root->id];
    arena_free(a);
    return root;
}
