/* Parts: a sum of products of f32 becomes one of products of bf16, which the device's matrix units do many times as fast (--precision; Target.parts).
 *
 * Comes in: REDUCE(ADD, MUL(x, w)) of f32, w made of constants. Goes out: the same sum in f32, of
 *   1 (fast)    x w, both rounded to bf16: a term's error is 2^-8 of it
 *   2 (split)   x_p w_q for all p and q, where x = x_0 + x_1: its upper 16 bits, and what is left, rounded: 2^-16
 * Numbers that were f16 or bf16 are their two parts or their one, whatever is allowed: nothing is lost. bf16 that lies as the unit reads it is left alone.
 * In these p and q are two more axes that are summed, the innermost. The parts are made of what lies before views of x and w that repeat elements (windows, halos), and stored: those of w at
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

/* x's parts, one behind the other. */
static U cut_in_parts(Graph *g, U x, int64_t parts)
{
    U part[2], dim[RANK_MAX + 1];
    uint32_t rank = uop_rank(x);
    for (uint32_t k = 0; k <= rank; k++) dim[k] = k ? uop_dim(x, k - 1) : uop_index(g, 1);
    if (parts == 1) return reshape(g, cast(g, x, DT_BF16), dim, rank + 1);
    cut(g, x, part);
    for (int p = 0; p < 2; p++) part[p] = reshape(g, part[p], dim, rank + 1);
    for (uint32_t k = 1; k <= rank; k++) dim[k] = uop_index(g, 1);
    dim[0] = uop_index(g, 2);
    return bitcast(g, where(g, lt(g, reshape(g, iota(g, dim[0], DT_I32), dim, rank + 1), uop_int(g, DT_I32, 1)), part[0], part[1]), DT_BF16);
}

/* They are stored, and seen through the views, where they are the last axis. */
static U in_parts(Graph *g, const Seen *s, int64_t parts)
{
    uint32_t rank = uop_rank(s->base);
    int64_t order[RANK_MAX + 1];
    for (uint32_t k = 0; k <= rank; k++) order[k] = k == rank ? 0 : k + 1;
    U y = permute(g, cast(g, contiguous(g, cut_in_parts(g, s->base, parts)), DT_F32), order, rank + 1);         /* widened before the views, as rangeify wants what is stored narrow */
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

/* One sum: its axes in terms of the product p. k: the run of terms that the unit sums, and how long it is with zeros behind; n: columns of w that are none of x. */
typedef struct { U sum, p, x, w; int64_t parts[2], k, n, run, products; bool constant; } Sum;             /* parts: of x, of w */

/* Rows of x, columns of w and a run of terms that fill a tile; a batch of them only where w is no constant. */
static bool fills(Sum *s, const Wmma *row)
{
    int64_t rows = 1, columns = 1, terms = 1, batch = 1;
    bool last = false;                                          /* the innermost axis of the output is one of w */
    s->k = s->n = -1;
    for (uint32_t k = 0; k < uop_rank(s->p); k++) {
        int64_t a = extent(s->p, s->x, k), b = extent(s->p, s->w, k), size = uop_size(s->p, k);
        if (is_summed(s->sum, k)) {
            terms *= size;
            if (a > 1 && b > 1 && (size % row->k == 0 || s->k < 0)) s->k = k;
        } else if (a > 1 && b > 1) batch *= size;               /* a product for each: heads, groups, depthwise */
        else if (b > 1) columns *= b, s->n = k, last = true;
        else if (a > 1) rows *= a, last = false;
    }
    if (s->k < 0 || s->n < 0 || (s->constant ? batch > 1 : !last)) return false;
    int64_t size = uop_size(s->p, (uint32_t)s->k);
    s->run = (size + row->k - 1) / row->k * row->k;
    s->products = rows * columns * terms * batch;
    return s->run * 4 <= size * 5 && rows >= WMMA_ROWS && columns >= row->n && s->products / batch >= LEAST_WORK;
}

/* ---- operands ---- */

/* A view of u as the product has it, behind its parts' own axis: u with the parts' axis where the product has p (first) or q. */
static U beside(Graph *g, const Sum *s, U y, U u, bool first)
{
    U dim[RANK_MAX + 2];
    uint32_t rank = uop_rank(s->p), off = rank - uop_rank(u);
    for (uint32_t k = 0; k < rank; k++) dim[k] = k < off ? uop_index(g, 1) : uop_dim(y, k - off);
    dim[rank] = uop_index(g, first ? s->parts[0] : 1);
    dim[rank + 1] = uop_index(g, first ? 1 : s->parts[1]);
    return reshape(g, y, dim, rank + 2);
}

/* An operand as the unit reads it: the run of terms innermost; of w, which nobody packs, pairs of them along its columns. Zeros fill the run. */
static U laid_out(Graph *g, const Sum *s, U u, bool pairs)
{
    U core = u->op == UOP_EXPAND ? u->src[0] : u, zero = uop_index(g, 0), before[RANK_MAX + 1], after[RANK_MAX + 1], dim[RANK_MAX + 2], y = cut_in_parts(g, core, s->parts[u == s->w]);
    uint32_t rank = uop_rank(core), off = uop_rank(s->p) - rank, k = (uint32_t)s->k - off + 1, n = pairs ? (uint32_t)s->n - off + 1 : 0, count = 0;
    int64_t order[RANK_MAX + 2], back[RANK_MAX + 2];
    for (uint32_t i = 0; i <= rank; i++) before[i] = zero, after[i] = i == k ? uop_index(g, s->run - uop_size(y, i)) : zero;
    y = pad(g, y, before, after, NULL);
    for (uint32_t i = 0; i <= rank; i++) dim[i + (i > k)] = uop_dim(y, i);           /* k becomes (k / 2, 2) */
    dim[k] = uop_index(g, s->run / 2);
    dim[k + 1] = uop_index(g, 2);
    n += n > k;
    for (uint32_t i = 0; i <= rank + 1; i++)
        if (i != k && i != k + 1 && (!pairs || i != n)) order[count++] = i;
    order[count++] = k;
    if (pairs) order[count++] = n;
    order[count++] = k + 1;
    for (uint32_t i = 0; i < count; i++) back[order[i]] = i;
    y = cast(g, contiguous(g, permute(g, reshape(g, y, dim, count), order, count)), DT_F32);
    y = permute(g, y, back, count);
    for (uint32_t i = 0; i <= rank; i++) dim[i] = i == k ? uop_index(g, s->run) : i < k ? uop_dim(y, i) : uop_dim(y, i + 1);
    y = reshape(g, y, dim, rank + 1);
    for (uint32_t i = 0; i <= rank; i++) order[i] = i == rank ? 0 : i + 1;
    return beside(g, s, permute(g, y, order, rank + 1), core, u == s->x);
}

/* As laid out above where layout would not do it by itself: for constants it has the run of terms last (layout.c). Else the parts of the least that is seen, through its views.
 * NULL: that would be needed, and views repeat elements. */
static U operand_of(Graph *g, const Sum *s, U u)
{
    Seen v;
    U core = u->op == UOP_EXPAND ? u->src[0] : u;
    bool padded = s->run != uop_size(s->p, (uint32_t)s->k);
    if (!see(&v, u)) return NULL;
    if (s->constant && !padded) return beside(g, s, in_parts(g, &v, s->parts[u == s->w]), u, u == s->x);
    return uop_numel(core) == uop_numel(v.base) && uop_rank(core) + 3 <= RANK_MAX ? laid_out(g, s, u, u == s->w && !s->constant) : NULL;
}

/* The type that u was before it was widened. */
static DType given_as(U u)
{
    while (is_view(u)) u = u->src[0];
    return u->op == UOP_CAST ? (DType)u->src[0]->dtype : (DType)u->dtype;
}

/* In how many parts a number is all that it is: what was narrow holds in few; of others at most `most`. */
static int64_t parts_for(U u, int64_t most)
{
    int64_t whole = given_as(u) == DT_BF16 ? 1 : given_as(u) == DT_F16 ? 2 : 3;
    return whole < 3 && (!most || whole < most) ? whole : most;
}

/* The unit reads them as they are. */
static bool is_ready(const Sum *s) { return given_as(s->x) == DT_BF16 && given_as(s->w) == DT_BF16 && s->constant && s->run == uop_size(s->p, (uint32_t)s->k); }

static U sum_in_parts(Graph *g, U sum, U x, U w, const Wmma *row, int64_t most, Constants *constants)
{
    Sum s = { .sum = sum, .p = sum->src[0], .x = x, .w = w, .parts = { parts_for(x, most), parts_for(w, most) }, .constant = made_of_constants(constants, g, w) };
    uint32_t rank = uop_rank(s.p), n = 0;
    int64_t axes[RANK_MAX + 2], stored;
    if (!s.parts[0] || !s.parts[1] || !uop_static(s.p) || !uop_static(x) || !uop_static(w) || rank + 2 > RANK_MAX || !fills(&s, row)) return NULL;
    Seen a, b;
    if (is_ready(&s) || !see(&a, x) || !see(&b, w)) return NULL;
    stored = uop_numel(a.base) + (s.constant ? 0 : uop_numel(b.base));
    if (s.products < stored * (s.parts[0] * s.parts[1] > 1 ? WORTH_CUTTING : WORTH_ROUNDING)) return NULL;
    U one = operand_of(g, &s, x), two = operand_of(g, &s, w);
    if (!one || !two) return NULL;
    for (uint32_t k = 0; k < rank; k++)
        if (is_summed(sum, k)) axes[n++] = k;
    axes[n++] = rank;
    axes[n++] = rank + 1;
    return reshape(g, reduce(g, UOP_ADD, mul(g, one, two), axes, n, true), sum->shape->dim, uop_rank(sum));
}

static const Wmma *row_of(const Target *t)
{
    for (int i = 0; i < WMMA_COUNT; i++)
        if ((t->wmma >> i & 1) && wmma_row[i].a == DT_BF16 && wmma_tiled(&wmma_row[i]) && !strcmp(wmma_row[i].device, t->kind)) return &wmma_row[i];
    return NULL;
}

bool has_parts(const Target *t) { return row_of(t) != NULL; }

const UOp *sum_parts(Graph *g, const UOp *root, const Target *t)
{
    const Wmma *row = row_of(t);
    if (!row) return root;
    Arena *a = arena_new();
    Constants constants = { .arena = a };
    uint32_t n;
    const UOp **order = uop_toposort(g, &root, 1, a, &n), **map = NEW_N(a, const UOp *, root->id + 1);
    for (uint32_t i = 0; i < n; i++) {
        U u = order[i], y = NULL;
        const UOp **src = NEW_N(a, const UOp *, u->nsrc + 1);
        for (uint32_t k = 0; k < u->nsrc; k++) src[k] = map[u->src[k]->id];
        U v = uop_with(g, u, src), p = v->op == UOP_REDUCE && v->arg.i == UOP_ADD && v->dtype == DT_F32 && v->src[0]->op == UOP_MUL ? v->src[0] : NULL;
        for (uint32_t k = 0; p && k < 2 && !y; k++) y = sum_in_parts(g, v, p->src[k], p->src[!k], row, t->parts, &constants);
        map[u->id] = y ? y : v;
    }
    root = map[root->id];
    arena_free(a);
    return root;
}
