/* Parts: a sum of products of f32 becomes one of products of bf16, which the device's matrix units do many times as fast (--precision; Target.parts).
 *
 * Comes in: REDUCE(ADD, MUL(x, w)) of f32, w made of constants. Goes out: the same sum in f32, of
 *   1 (fast)    x w, both rounded to bf16: a term's error is 2^-8 of it
 *   2 (split)   x_p w_q for all p and q, where x = x_0 + x_1: its upper 16 bits, and what is left, rounded: 2^-16
 * in which p and q are two more axes that are summed, the innermost. The parts are made of what lies before views of x and w that repeat elements (windows, halos), and stored: those of w at
 * load, those of x once for all sums of it.
 * An Inf is its own second part. Parts have one sign, and no second part is 0 unless the number is: so Inf times a number is Inf here too, and no Inf - Inf or Inf * 0 comes of it.
 * Must hold: there are rows, columns and terms enough to fill the unit (tc.c), all known; every view of x and w is one that view_beside knows.
 * Outside of the claim: terms below 2^-100, and denormals, which the units take for 0.
 */
#include <math.h>
#include <string.h>

#include "graph/build.h"
#include "graph/wmma.h"
#include "sched/sched.h"

enum { VIEWS_MAX = 32, CUT_BITS = 16, NAN_BITS = 0x7fc0, MAGNITUDE = 0x7fff, SIGN = 0x8000, LEAST = 0x0080, LEAST_WORK = 1 << 18 };         /* LEAST_WORK: products of a sum; of fewer, a wait for the parts is longer than what they save */
enum { WORTH_ROUNDING = 24, WORTH_CUTTING = 100 };        /* products of an element of x: fewer save less time than it takes to store its parts (measured: 0.15 and 0.35 ns, against 5 and 3 ps a product) */

typedef struct { U base, view[VIEWS_MAX]; uint32_t nview; } Seen;

static bool is_view(U u) { return u->op == UOP_INDEX || (op_is((Op)u->op, FLAG_MOVE) && u->op != UOP_BITCAST && u->op != UOP_CONTIGUOUS); }

/* ---- views with one more axis at the end ---- */

static U one_more(Graph *g, U sizes, int64_t last)
{
    U v[RANK_MAX + 1];
    for (uint32_t k = 0; k < sizes->nsrc; k++) v[k] = sizes->src[k];
    v[sizes->nsrc] = uop_index(g, last);
    return uop_sizes(g, v, sizes->nsrc + 1);
}

static U expanded(Graph *g, U x, U view, int64_t parts)
{
    U dim[RANK_MAX + 1];
    uint32_t rank = uop_rank(view), own = uop_rank(view->src[0]);
    for (uint32_t k = 0; k < rank; k++) dim[k] = k + own < rank ? uop_index(g, 1) : uop_dim(view->src[0], k + own - rank);
    dim[rank] = uop_index(g, parts);
    x = reshape(g, x, dim, rank + 1);
    for (uint32_t k = 0; k < rank; k++) dim[k] = uop_dim(view, k);
    return expand(g, x, dim, rank + 1);
}

static U permuted(Graph *g, U x, U view)
{
    int64_t order[RANK_MAX + 1];
    uint32_t rank = uop_rank(view);
    memcpy(order, blob_ints(view->arg.blob), rank * sizeof *order);
    order[rank] = rank;
    return permute(g, x, order, rank + 1);
}

/* What the view makes of each part of x; NULL: it is none that is known here. */
static U view_beside(Graph *g, U x, U view, int64_t parts)
{
    U src[RANK_MAX + 1] = { x };
    for (uint32_t k = 1; k < view->nsrc; k++) src[k] = view->src[k];
    switch (view->op) {
    case UOP_RESHAPE: return UOP(g, UOP_RESHAPE, DT_VOID, NO_ARG, x, one_more(g, view->src[1], parts));
    case UOP_EXPAND:  return expanded(g, x, view, parts);
    case UOP_PERMUTE: return permuted(g, x, view);
    case UOP_PAD:     return UOP(g, UOP_PAD, DT_VOID, NO_ARG, x, one_more(g, view->src[1], 0), one_more(g, view->src[2], parts));
    case UOP_SHRINK:  return UOP(g, UOP_SHRINK, DT_VOID, NO_ARG, x, one_more(g, view->src[1], 0), one_more(g, view->src[2], parts));
    case UOP_INDEX:   return uop_new(g, UOP_INDEX, DT_VOID, NO_ARG, src, view->nsrc);       /* axes behind the indices stay */
    default:          return NULL;
    }
}

/* Zeros around u that layout lays in memory, so that nobody asks where they begin: units read memory as it lies. */
static bool is_halo(U pad)
{
    bool few = uop_numel(pad) <= 2 * uop_numel(pad->src[0]);
    for (uint32_t k = 0; k < uop_rank(pad) && few; k++) {
        int64_t before = pad->src[1]->src[k]->vmax, after = uop_size(pad, k) - uop_size(pad->src[0], k) - before;
        few = before <= HALO_MAX && after <= HALO_MAX;
    }
    return few;
}

/* Which views stay: the outermost value that has no more elements than the base is stored, as it is read; what repeats elements (windows, halos, broadcasts) is left to the reader. */
static bool see(Seen *s, U u)
{
    U base = u;
    while (is_view(base)) base = base->src[0];
    for (s->nview = 0, s->base = u; uop_numel(s->base) > uop_numel(base); s->base = s->base->src[0]) {
        if (s->nview == VIEWS_MAX || uop_rank(s->base) + 2 > RANK_MAX || (s->base->op == UOP_PAD && !is_halo(s->base))) return false;
        s->view[s->nview++] = s->base;
    }
    return uop_rank(s->base) + 2 <= RANK_MAX;
}

/* ---- parts ---- */

/* The bits of its two parts as bf16. */
static void cut(Graph *g, U x, U part[2])
{
    U bits = bitcast(g, x, DT_U32), upper = shr(g, bits, uop_int(g, DT_U32, CUT_BITS)), high = cast(g, upper, DT_U16);
    U rest = sub(g, x, bitcast(g, shl(g, upper, uop_int(g, DT_U32, CUT_BITS)), DT_F32)), low = bitcast(g, cast(g, rest, DT_BF16), DT_U16);
    U tiny = lt(g, and_(g, low, uop_int(g, DT_U16, MAGNITUDE)), uop_int(g, DT_U16, LEAST)), least = or_(g, and_(g, high, uop_int(g, DT_U16, SIGN)), uop_int(g, DT_U16, LEAST));
    low = where(g, tiny, where(g, eq(g, x, scalar(g, DT_F32, 0)), uop_int(g, DT_U16, 0), least), low);
    part[0] = where(g, is_nan(g, x), uop_int(g, DT_U16, NAN_BITS), high);
    part[1] = where(g, lt(g, abs_(g, x), scalar(g, DT_F32, INFINITY)), low, high);
}

/* u's parts, stored one behind the other, through its views. */
static U in_parts(Graph *g, const Seen *s, int64_t parts)
{
    U x = s->base, part[2], dim[RANK_MAX + 1], y;
    uint32_t rank = uop_rank(x);
    int64_t order[RANK_MAX + 1];
    for (uint32_t k = 0; k <= rank; k++) order[k] = k == rank ? 0 : k + 1, dim[k] = k ? uop_dim(x, k - 1) : uop_index(g, 1);
    if (parts == 1) y = reshape(g, cast(g, x, DT_BF16), dim, rank + 1);
    else {
        cut(g, x, part);
        for (int p = 0; p < 2; p++) part[p] = reshape(g, part[p], dim, rank + 1);
        for (uint32_t k = 1; k <= rank; k++) dim[k] = uop_index(g, 1);
        dim[0] = uop_index(g, 2);
        y = bitcast(g, where(g, lt(g, reshape(g, iota(g, dim[0], DT_I32), dim, rank + 1), uop_int(g, DT_I32, 1)), part[0], part[1]), DT_BF16);
    }
    y = permute(g, cast(g, contiguous(g, y), DT_F32), order, rank + 1);         /* widened before the views, as rangeify wants what is stored narrow */
    for (uint32_t i = s->nview; i-- > 0 && y;) y = view_beside(g, y, s->view[i], parts);
    return y;
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

/* Rows of x, columns of w and a run of terms that fill a tile: how many products; else 0. */
static int64_t products_of(U sum, U x, U w, const Wmma *row)
{
    U p = sum->src[0];
    int64_t rows = 1, columns = 1, terms = 1;
    bool run = false;
    for (uint32_t k = 0; k < uop_rank(p); k++) {
        int64_t a = extent(p, x, k), b = extent(p, w, k);
        if (is_summed(sum, k)) terms *= uop_size(p, k), run |= a > 1 && b > 1 && a % row->k == 0;
        else if (a > 1 && b > 1) return 0;                      /* a product for each: depthwise, in groups */
        else rows *= a, columns *= b;
    }
    return run && rows >= WMMA_ROWS && columns >= row->n && rows * columns * terms >= LEAST_WORK ? rows * columns * terms : 0;
}

static U sum_in_parts(Graph *g, U sum, U x, U w, const Wmma *row, int64_t parts)
{
    Seen a, b;
    U p = sum->src[0], operand[2];
    int64_t products = 0;
    if (x->dtype != DT_F32 || !uop_static(p) || !uop_static(x) || !(products = products_of(sum, x, w, row)) || !made_of_constants(g, w) || !see(&a, x) || !see(&b, w) || uop_rank(p) + 2 > RANK_MAX || products < uop_numel(a.base) * (parts > 1 ? WORTH_CUTTING : WORTH_ROUNDING)) return NULL;
    operand[0] = in_parts(g, &a, parts);
    operand[1] = in_parts(g, &b, parts);
    if (!operand[0] || !operand[1]) return NULL;
    U dim[RANK_MAX + 2];
    uint32_t rank = uop_rank(p), n = 0;
    for (uint32_t s = 0; s < 2; s++) {
        U v = s ? w : x;
        uint32_t off = rank - uop_rank(v);
        for (uint32_t k = 0; k < rank; k++) dim[k] = k < off ? uop_index(g, 1) : uop_dim(v, k - off);
        dim[rank] = uop_index(g, s ? 1 : parts);
        dim[rank + 1] = uop_index(g, s ? parts : 1);
        operand[s] = reshape(g, operand[s], dim, rank + 2);
    }
    int64_t axes[RANK_MAX + 2];
    for (uint32_t k = 0; k < rank; k++)
        if (is_summed(sum, k)) axes[n++] = k;
    axes[n++] = rank;
    axes[n++] = rank + 1;
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
    if (!row || !t->parts) return root;
    Arena *a = arena_new();
    uint32_t n;
    const UOp **order = uop_toposort(g, &root, 1, a, &n), **map = NEW_N(a, const UOp *, root->id + 1);
    for (uint32_t i = 0; i < n; i++) {
        U u = order[i], y = NULL;
        const UOp **src = NEW_N(a, const UOp *, u->nsrc + 1);
        for (uint32_t k = 0; k < u->nsrc; k++) src[k] = map[u->src[k]->id];
        U v = uop_with(g, u, src), p = v->op == UOP_REDUCE && v->arg.i == UOP_ADD && v->dtype == DT_F32 && v->src[0]->op == UOP_MUL ? v->src[0] : NULL;
        for (uint32_t k = 0; p && k < 2 && !y; k++) y = sum_in_parts(g, v, p->src[k], p->src[!k], row, t->parts);
        map[u->id] = y ? y : v;
    }
    root = map[root->id];
    arena_free(a);
    return root;
}
