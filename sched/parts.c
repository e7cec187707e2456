/* Parts: a sum of products of f32 becomes one of products of bf16, which the device's matrix units do many times as
 * fast (--precision; Target.parts).
 *
 * Comes in: REDUCE(ADD, MUL(x, w)) of f32. Goes out: the same sum in f32, of
 *   x w, both rounded to bf16 (fast): a term's error is 2^-8 of it
 *   x_p w_q for all p and q, where x = x_0 + x_1 (split): 2^-16; without x_1 w_1 all errors would have one sign, since
 * parts do, for a tenth of the time x_p w_q, p + q < 3, where x = x_0 + x_1 + x_2 (exact): 2^-23; the six products of 8
 * bits by 8 bits that f32's 24 bits require. Numbers that were f16 or bf16 are their two parts or their one, whatever
 * is allowed, and all products of these are taken: nothing is lost. bf16 that lies as the unit reads it is left alone.
 * The pairs (p, q) are one more axis that is summed, the innermost; p and q are tables of it. The run of terms that the
 * unit sums becomes (k / RUN, RUN), and the parts of x lie between: a tile's rows, and those of its other parts, are
 * neighbours. The parts are made of what lies before views of x and w that repeat elements (windows, halos), and
 * stored: those of w at load, those of x once for all sums of it. Where the unit is a dot product in vectors, in place
 * of tiles, only sums of one pair are written so: more are slower than the f32 that they stand for. An Inf is its own
 * second and third part. Parts have one sign, and none is 0 unless the number is: so Inf times a number is Inf here
 * too, and no Inf - Inf or Inf * 0 comes of it. Must hold: there are rows, columns and terms enough to fill the unit
 * (tc.c), all known; every view of x and w is one that view_beside knows. Outside of the claim: terms below 2^-100, and
 * denormals, which the units take for 0.
 */
#include <math.h>
#include <string.h>

#include "graph/build.h"
#include "graph/wmma.h"
#include "sched/sums.h"

/* LEAST_WORK: products of a sum; of fewer, a wait for the parts is longer than what they save; LEAST_RUNS: of terms, in
 * a stretch. */
enum {
    VIEWS_MAX = 32,
    CUT_BITS = 16,
    NAN_BITS = 0x7fc0,
    MAGNITUDE = 0x7fff,
    SIGN = 0x8000,
    LEAST = 0x0080,
    LEAST_WORK = 1 << 18,
    RUN = 32,
    PARTS_MAX = 3,
    PAIRS_MAX = 9,
    LEAST_RUNS = 8
};
/* Products of an element of x that are worth its parts, of one, two and three: fewer save less time than it takes to
 * store them (measured: 0.15 to 0.5 ns, against 5 to 2.5 ps a product). */
static const int64_t worth[] = { 24, 160, 200 };
/* Of three parts x_1 w_2, x_2 w_1 and x_2 w_2 are left out. Parts have one sign, so that each term lacks something: in
 * the mean 0.75 * 2^-24 of it (measured, of positive numbers of any size), which is less than f32's last bit, but the
 * same way in all layers of a network. The last part of w has it. */
static const double LEFT_OUT = 0.75 / 16777216;

typedef struct { U base, view[VIEWS_MAX]; uint32_t nview; } Seen;

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
    for (uint32_t k = 0; k < rank; k++)
        dim[k] = k + own < rank ? uop_index(g, 1) : uop_dim(view->src[0], k + own - rank);
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
    case UOP_PAD:
        return UOP(g, UOP_PAD, DT_VOID, NO_ARG, x, one_more(g, view->src[1], 0), one_more(g, view->src[2], parts));
    case UOP_SHRINK:
        return UOP(g, UOP_SHRINK, DT_VOID, NO_ARG, x, one_more(g, view->src[1], 0), one_more(g, view->src[2], parts));
    /* axes behind the indices stay */
    case UOP_INDEX:   return uop_new(g, UOP_INDEX, DT_VOID, NO_ARG, src, view->nsrc);
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

/* Which views stay: the outermost value that has no more elements than the base is stored, as it is read; what repeats
 * elements (windows, halos, broadcasts) is left to the reader. */
static bool see(Seen *s, U u)
{
    U base = u;
    while (view_is(base)) base = base->src[0];
    for (s->nview = 0, s->base = u; uop_numel(s->base) > uop_numel(base); s->base = s->base->src[0]) {
        if (s->nview == VIEWS_MAX || uop_rank(s->base) + 2 > RANK_MAX || (s->base->op == UOP_PAD && !is_halo(s->base)))
            return false;
        s->view[s->nview++] = s->base;
    }
    return uop_rank(s->base) + 2 <= RANK_MAX;
}

/* y, the base's parts, through all views. */
static U through(Graph *g, const Seen *s, U y, int64_t parts)
{
    for (uint32_t i = s->nview; i-- > 0 && y;) y = view_beside(g, y, s->view[i], parts);
    return y;
}

/* The base's axis that is this axis of what is seen. */
static int axis_seen(const Seen *s, U u, int axis)
{
    for (; u != s->base && axis >= 0; u = u->src[0]) axis = view_axis(u, axis);
    return axis;
}

/* ---- parts ---- */

static U bits(Graph *g, int64_t v) { return uop_int(g, DT_U32, v); }

/* The upper half of x's bits as bf16's, in 32 bits, and what is left of x. */
static U upper_half(Graph *g, U x, U *rest)
{
    U upper = shr(g, bitcast(g, x, DT_U32), bits(g, CUT_BITS));
    *rest = sub(g, x, bitcast(g, shl(g, upper, bits(g, CUT_BITS)), DT_F32));
    return upper;
}

/* x rounded to bf16, to even; x is finite. */
static U rounded_half(Graph *g, U x)
{
    U v = bitcast(g, x, DT_U32), odd = and_(g, shr(g, v, bits(g, CUT_BITS)), bits(g, 1));
    return shr(g, add(g, add(g, v, odd), bits(g, MAGNITUDE)), bits(g, CUT_BITS));
}

/* The bits of x's parts as bf16: each the upper half of what the ones before left, the last rounded. whole: with the
 * mean of what sums of products of three parts by three leave out. All is done in 32 bits, as x is: narrower masks cost
 * more. */
static void cut(Graph *g, U x, int64_t parts, bool whole, U *part)
{
    U rest = x, high = upper_half(g, x, &rest), least = or_(g, and_(g, high, bits(g, SIGN)), bits(g, LEAST));
    U finite = lt(g, abs_(g, x), scalar(g, DT_F32, INFINITY));
    least = where(g, eq(g, x, scalar(g, DT_F32, 0)), bits(g, 0), least);
    part[0] = where(g, is_nan(g, x), bits(g, NAN_BITS), high);
    for (int64_t k = 1; k < parts; k++) {
        if (whole && k == 2) rest = add(g, rest, mul(g, x, scalar(g, DT_F32, LEFT_OUT)));
        U low = k + 1 < parts ? upper_half(g, rest, &rest) : rounded_half(g, rest);
        U tiny = lt(g, and_(g, low, bits(g, MAGNITUDE)), bits(g, LEAST));
        part[k] = where(g, finite, where(g, tiny, least, low), high);
    }
    for (int64_t k = 0; k < parts; k++) part[k] = cast(g, part[k], DT_U16);
}

/* x's parts, one behind the other. */
static U cut_in_parts(Graph *g, U x, int64_t parts, bool whole)
{
    U part[PARTS_MAX], dim[RANK_MAX + 1];
    uint32_t rank = uop_rank(x);
    for (uint32_t k = 0; k <= rank; k++) dim[k] = k ? uop_dim(x, k - 1) : uop_index(g, 1);
    if (parts == 1) return reshape(g, cast(g, x, DT_BF16), dim, rank + 1);
    cut(g, x, parts, whole, part);
    for (int64_t p = 0; p < parts; p++) part[p] = reshape(g, part[p], dim, rank + 1);
    for (uint32_t k = 1; k <= rank; k++) dim[k] = uop_index(g, 1);
    dim[0] = uop_index(g, parts);
    return bitcast(g, choose_value(g, reshape(g, iota(g, dim[0], DT_I32), dim, rank + 1), part, parts), DT_BF16);
}

/* They are stored, and seen through the views, where they are the last axis. */
static U in_parts(Graph *g, const Seen *s, int64_t parts, bool whole)
{
    uint32_t rank = uop_rank(s->base);
    int64_t order[RANK_MAX + 1];
    for (uint32_t k = 0; k <= rank; k++) order[k] = k == rank ? 0 : k + 1;
    /* widened before the views, as rangeify wants what is stored narrow */
    return through(g, s,
                   permute(g, cast(g, contiguous(g, cut_in_parts(g, s->base, parts, whole)), DT_F32), order, rank + 1),
                   parts);
}

/* ---- sums ---- */

/* The type that u was before it was widened. */
static DType given_as(U u)
{
    while (view_is(u)) u = u->src[0];
    return u->op == UOP_CAST ? (DType)u->src[0]->dtype : (DType)u->dtype;
}

/* In how many parts a number is all that it is: what was narrow holds in few; of others at most `most`. */
static int64_t parts_for(U u, int64_t most)
{
    int64_t whole = given_as(u) == DT_BF16 ? 1 : given_as(u) == DT_F16 ? 2 : 3;
    return whole < most ? whole : most;
}

/* One sum: its axes in terms of the product p. k: the run of terms that the unit sums, and how long it is with zeros
 * behind; n: columns of w that are none of x; pair: which parts are multiplied. */
/* parts: of x, of w */
typedef struct {
    U sum, p, x, w;
    int64_t parts[2], pair[2][PAIRS_MAX], npair, k, n, run, products, rows, columns, stretches;
    bool constant;
} Sum;

/* All pairs, but of three parts those that count; the small products first, so that the sum keeps more of them. */
static void find_pairs(Sum *s)
{
    bool all = s->parts[0] < PARTS_MAX && s->parts[1] < PARTS_MAX;
    for (int64_t p = s->parts[0]; p-- > 0;)
        for (int64_t q = s->parts[1]; q-- > 0;)
            if (all || p + q < PARTS_MAX) s->pair[0][s->npair] = p, s->pair[1][s->npair++] = q;
}

/* Rows of x, columns of w and a run of terms that fill a tile; a batch of them only where w is no constant. */
static bool fills(Sum *s, const Wmma *row)
{
    int64_t rows = 1, columns = 1, terms = 1, batch = 1;
    bool last = false;                                          /* the innermost axis of the output is one of w */
    s->k = s->n = -1;
    for (uint32_t k = 0; k < uop_rank(s->p); k++) {
        int64_t a = operand_extent(s->p, s->x, k), b = operand_extent(s->p, s->w, k), size = uop_size(s->p, k);
        if (reduce_is_over(s->sum, k)) {
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
    s->rows = rows;
    s->columns = columns;
    return s->run * 4 <= size * 5 && rows >= (wmma_tiled(row) ? WMMA_ROWS : 1) &&
        columns >= row->n && s->products / batch >= LEAST_WORK;
}

/* ---- operands ---- */

/* y is u with its parts behind. Goes out: with those of each pair, and as the product has it: the axes of k, then that
 * of the pairs. */
static U beside(Graph *g, const Sum *s, U y, U u, bool second)
{
    U dim[RANK_MAX + 2], number[PAIRS_MAX];
    uint32_t rank = uop_rank(u), whole = uop_rank(s->p), off = whole - rank, n = 0;
    const int64_t *part = s->pair[second];
    int64_t first[RANK_MAX + 1], last[RANK_MAX + 1], parts = s->parts[second];
    for (uint32_t k = 0; k <= rank; k++) first[k] = k ? k - 1 : rank, last[k] = k == rank ? 0 : k + 1;
    for (int64_t i = 0; i < s->npair; i++) number[i] = uop_index(g, part[i]);
    if (s->npair > 1 && parts > 1)
        y = permute(g,
                    UOP(g, UOP_INDEX, DT_VOID, NO_ARG, permute(g, y, first, rank + 1),
                        choose_value(g, iota(g, uop_index(g, s->npair), DT_INDEX), number, s->npair)),
                    last, rank + 1);
    for (uint32_t k = 0; k < whole; k++) {
        dim[n++] = k < off ? uop_index(g, 1) : uop_dim(y, k - off);
        if (s->npair > 1 && k == s->k) dim[n - 1] = uop_index(g, s->run / RUN), dim[n++] = uop_index(g, RUN);
    }
    if (s->npair > 1) dim[n++] = uop_index(g, parts > 1 ? s->npair : 1);
    return reshape(g, y, dim, n);
}

/* The parts of base, whose axis k has the run of terms, as the unit reads them: runs innermost, one part of each behind
 * the other; of w, which nobody packs, pairs of terms along its columns n. Zeros fill the run. Goes out as base with
 * its parts behind. Where w is no constant runs lie as pairs, which layout leaves where they are. Stretches of terms
 * that are summed by themselves lie one behind the other: rows are near each other then. */
static U laid_out(Graph *g, const Sum *s, U base, uint32_t k, int n, int64_t parts, bool whole)
{
    U zero = uop_index(g, 0), before[RANK_MAX + 1], after[RANK_MAX + 1], dim[RANK_MAX + 4],
      y = cut_in_parts(g, base, parts, whole);
    int64_t order[RANK_MAX + 4], back[RANK_MAX + 4], size = uop_size(base, k), block = parts > 1 ? RUN : s->run;
    uint32_t rank = uop_rank(base), count = 0, pairs = !s->constant,
             lead = s->constant && s->stretches > 1 && parts > 1;
    /* axes of y: the parts, base's up to k, which is stretches, run / block, block / 2, 2, those behind */
    uint32_t more = 1 + pairs + lead, run = k + 1 + lead;
    int column = n < 0 ? -1 : n + 1 + (n > (int)k ? (int)more : 0);
    for (uint32_t i = 0; i <= rank; i++) before[i] = zero, after[i] = i == k + 1 ? uop_index(g, s->run - size) : zero;
    y = pad(g, y, before, after, NULL);
    for (uint32_t i = 0; i <= rank; i++) dim[i + (i > k + 1 ? more : 0)] = uop_dim(y, i);
    if (lead) dim[k + 1] = uop_index(g, s->stretches);
    dim[run] = uop_index(g, s->run / block / (lead ? s->stretches : 1));
    dim[run + 1] = uop_index(g, block / (1 + pairs));
    if (pairs) dim[run + 2] = uop_index(g, 2);
    if (lead) order[count++] = k + 1;
    for (uint32_t i = 1; i <= rank + more; i++)
        if ((i < k + 1 || i > k + 1 + more) && (int)i != column) order[count++] = i;
    order[count++] = run;
    order[count++] = 0;
    order[count++] = run + 1;
    if (column >= 0) order[count++] = column;
    if (pairs) order[count++] = run + 2;
    for (uint32_t i = 0; i < count; i++) back[order[i]] = i;
    y = permute(g, cast(g, contiguous(g, permute(g, reshape(g, y, dim, count), order, count)), DT_F32), back, count);
    for (uint32_t i = 0; i <= rank; i++)
        dim[i] = i == k + 1 ? uop_index(g, s->run) : i ? uop_dim(base, i - 1) : uop_index(g, parts);
    y = reshape(g, y, dim, rank + 1);
    for (uint32_t i = 0; i <= rank; i++) order[i] = i == rank ? 0 : i + 1;
    return permute(g, y, order, rank + 1);
}

/* Constants, and what is one part: the parts of the least that is seen, through its views; layout has the run of terms
 * last. Else laid out as above: in the product's own order where views repeat no element, so that the unit can read
 * them whatever the views are. NULL: they do, and have no axis that is the run. */
static U operand_of(Graph *g, const Sum *s, U u)
{
    Seen v;
    U core = u->op == UOP_EXPAND ? u->src[0] : u;
    bool padded = s->run != uop_size(s->p, (uint32_t)s->k), second = u == s->w;
    /* of fewer parts of x other terms are left out, or none */
    bool whole = second && s->parts[0] == PARTS_MAX;
    int64_t parts = s->parts[second], off = uop_rank(s->p) - uop_rank(core);
    if (!see(&v, u)) return NULL;
    if (s->constant && !padded && (second || parts == 1)) return beside(g, s, in_parts(g, &v, parts, whole), u, second);
    if (uop_numel(core) == uop_numel(v.base) && uop_rank(core) + 3 <= RANK_MAX)
        return beside(
            g, s,
            laid_out(g, s, core, (uint32_t)(s->k - off), second && !s->constant ? (int)(s->n - off) : -1, parts, whole),
            core, second);
    int k = s->constant && !padded ? axis_seen(&v, u, (int)(s->k - uop_rank(s->p) + uop_rank(u))) : -1;
    return k >= 0 ? beside(g, s, through(g, &v, laid_out(g, s, v.base, (uint32_t)k, -1, parts, false), parts), u, false)
                  : NULL;
}

/* The unit reads them as they are. */
static bool is_ready(const Sum *s)
{
    return given_as(s->x) == DT_BF16 && given_as(s->w) == DT_BF16 && s->constant &&
        s->run == uop_size(s->p, (uint32_t)s->k);
}

/* In how many stretches of terms a sum is cut, each of which leaves a result of its own in memory; 1: it is not. Where
 * rows of all terms are more than the second cache holds, each column of tiles fetches them again. A stretch of terms
 * with all columns does not, for what its results cost; nor does a stretch of rows, for which all columns' weights come
 * again. */
static int64_t stretches_of(const Sum *s, const Target *t)
{
    int64_t runs = s->run / RUN, bytes = s->rows * s->run * 2 * s->parts[0], room = t->l2_bytes / 2;
    int64_t weights = s->columns * s->run * 2 * s->parts[1],
            results = s->rows * s->columns * 4 * (int64_t)sizeof(float);
    if (!s->constant || s->npair == 1 || s->products != s->rows * s->columns * uop_size(s->p, (uint32_t)s->k)) return 1;
    if (!room || bytes <= cache_room(t)) return 1;
    int64_t least = (bytes + room - 1) / room, n = least;
    while (n * LEAST_RUNS <= runs && (runs % n || (t->threads > 1 && n % t->threads && n <= 2 * least))) n++;
    return n * LEAST_RUNS <= runs && 3 * (weights + n * results) < 2 * least * weights ? n : 1;
}

/* one * two, summed along these axes, of k in stretches. */
static U sum_stretches(Graph *g, const Sum *s, U one, U two, const int64_t *axes, uint32_t n)
{
    U src[2] = { one, two }, dim[RANK_MAX + 3];
    uint32_t rank = uop_rank(one), k = (uint32_t)s->k;
    int64_t inner[RANK_MAX + 3], order[RANK_MAX + 3], first = 0;
    if (s->stretches == 1 || rank + 1 > RANK_MAX) return reduce(g, UOP_ADD, mul(g, one, two), axes, n, true);
    for (int side = 0; side < 2; side++) {
        for (uint32_t i = 0; i <= rank; i++) dim[i] = uop_dim(src[side], i > k ? i - 1 : i);
        dim[k] = uop_index(g, s->stretches);
        dim[k + 1] = uop_index(g, uop_size(src[side], k) / s->stretches);
        src[side] = reshape(g, src[side], dim, rank + 1);
    }
    for (uint32_t i = 0; i < n; i++) inner[i] = axes[i] + (axes[i] >= (int64_t)k);
    for (uint32_t i = 0; i <= rank; i++) order[i] = i == 0 ? k : i <= k ? i - 1 : i;
    U y = contiguous(g, permute(g, reduce(g, UOP_ADD, mul(g, src[0], src[1]), inner, n, true), order, rank + 1));
    return reduce(g, UOP_ADD, y, &first, 1, false);
}

static U sum_in_parts(Graph *g, U sum, U x, U w, const Wmma *row, const Target *t, Constants *constants)
{
    int64_t most = t->parts ? t->parts : PARTS_MAX;
    Sum s = { .sum = sum,
              .p = sum->src[0],
              .x = x,
              .w = w,
              .parts = { parts_for(x, most), parts_for(w, most) },
              .constant = made_of_constants(constants, g, w) };
    uint32_t rank = uop_rank(s.p), n = 0;
    int64_t axes[RANK_MAX + 2], stored;
    if (!uop_static(s.p) || !uop_static(x) || !uop_static(w) || rank + 2 > RANK_MAX || !fills(&s, row)) return NULL;
    Seen a, b;
    if (is_ready(&s) || !see(&a, x) || !see(&b, w)) return NULL;
    find_pairs(&s);
    if (s.npair > 1 && !wmma_tiled(row)) return NULL;
    stored = uop_numel(a.base) + (s.constant ? 0 : uop_numel(b.base));
    if (s.products < stored * worth[s.npair > 4 ? 2 : s.npair > 1]) return NULL;
    s.stretches = stretches_of(&s, t);
    U one = operand_of(g, &s, x), two = operand_of(g, &s, w);
    if (!one || !two) return NULL;
    for (uint32_t k = 0; k < rank; k++) {
        if (reduce_is_over(sum, k)) axes[n++] = k + (s.npair > 1 && k > s.k);
        if (k == s.k && s.npair > 1) axes[n++] = k + 1;
    }
    if (s.npair > 1) axes[n++] = rank + 1;
    return reshape(g, sum_stretches(g, &s, one, two, axes, n), sum->shape->dim, uop_rank(sum));
}

/* The unit of a core for bf16: tiles, else dot products in vectors. */
static const Wmma *row_of(const Target *t)
{
    const Wmma *found = NULL;
    for (int i = 0; i < WMMA_COUNT; i++)
        if ((t->wmma >> i & 1) && wmma_row[i].a == DT_BF16 && wmma_row[i].lanes == 1 &&
            !strcmp(wmma_row[i].device, t->kind) && (!found || !wmma_tiled(found)))
            found = &wmma_row[i];
    return found;
}

bool has_parts(const Target *t)
{
    const Wmma *row = row_of(t);
    return row && (wmma_tiled(row) || t->parts == 1);
}

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
        U v = uop_with(g, u, src),
          p = v->op == UOP_REDUCE && v->arg.i == UOP_ADD && v->dtype == DT_F32 && v->src[0]->op == UOP_MUL ? v->src[0]
                                                                                                           : NULL;
        uint32_t node = graph_origin(g, uop_origin(g, u));
        for (uint32_t k = 0; p && k < 2 && !y; k++) y = sum_in_parts(g, v, p->src[k], p->src[!k], row, t, &constants);
        graph_origin(g, node);
        map[u->id] = y ? y : v;
    }
    root = map[root->id];
    arena_free(a);
    return root;
}
