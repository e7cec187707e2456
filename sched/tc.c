/* TC axis row: a sum of products becomes a device's matrix operation (graph/wmma.def), in two steps.
 *
 * opt_tc, in optimize. Comes in: REDUCE(ADD, MUL(CAST x, CAST y); .. axis ..), x and y of the row's types. Of the
 * output's axes, n is the innermost on which one operand (B) alone depends, m the innermost on which the other (A)
 * alone does, among those whose sizes are multiples of the row's N and M; factor is row + 16 * c, and c takes the c-th
 * next pair. An UPCAST axis serves too: SPLIT m 32 UPCAST; SPLIT n 32 UPCAST; TC is two by two tiles, and parts of a
 * ragged m overlap as always. A tile register holds as many rows of m as divide it, 16 at most. m, n and k are split by
 * the row's bits: lanes become one WARP range that m and n share, elements an UPCAST range of m and one of n (of a tile
 * m's is a LOOP, the last of all; of a vector there is none, and B may depend on what it likes), k UNROLLs. MUL becomes
 * WMMA(x, y, 0), a scalar that is still that product: the kernel is as legal and as executable as before, its new
 * ranges are held in place.
 *
 * kernel_fragments, the first part of expand. REDUCE(ADD, WMMA(x, y, 0); outer.., k..) becomes element (i, j) of
 * REDUCE(ADD, WMMA(A, B, zeros); outer..): A is the STACK of what x is at the m and k of each of a lane's elements, B
 * likewise. With one lane A and B are LOADs of windows: SHRINK(memory, begin, span), for a tile rows of 64 bytes whose
 * stride the span tells; the sum of tiles is stored to LOCAL memory, and element (i, j) is read there. A vector's
 * operands may be element-wise work on what is loaded.
 *
 * Must hold with one lane: A lies along k in memory; B is a constant that PACK lays out (in pairs or fours along k:
 * pack.c asks wmma_pair).
 */
#include <string.h>

#include "graph/rewrite.h"
#include "graph/wmma.h"
#include "sched/rangeify.h"

enum { TILES = 8, ROWS = 16 };

/* ---- bits of indices ---- */

/* Bits from .. from + n - 1 of v, moved to bit `to`. */
static const UOp *move_bits(Graph *g, const UOp *v, int from, int n, int to)
{
    const UOp *high = index_math(g, UOP_IDIV, v, uop_index(g, INT64_C(1) << from));
    const UOp *part =
        v->vmax < INT64_C(1) << (from + n) ? high : index_math(g, UOP_MOD, high, uop_index(g, INT64_C(1) << n));
    return index_math(g, UOP_MUL, part, uop_index(g, INT64_C(1) << to));
}

static bool is_lane(char c) { return c >= 'a'; }

/* How many bits from here on stand side by side where they lie too. */
static int run_of(const char *bits)
{
    int n = 1;
    while (bits[n] && bits[n] == bits[0] + n) n++;
    return n;
}

/* An index of a row's dimension: its element bits are those of i in order, its lane bits those of w. */
static const UOp *index_of(Graph *g, const char *bits, const UOp *i, const UOp *w)
{
    const UOp *v = uop_index(g, 0);
    for (int p = 0, q = 0, n; bits[p]; p += n) {
        n = run_of(bits + p);
        v = index_add(g, v, is_lane(bits[p]) ? move_bits(g, w, bits[p] - 'a', n, p) : move_bits(g, i, q, n, p));
        if (!is_lane(bits[p])) q += n;
    }
    return v;
}

/* The number of the element whose bits in this dimension are i's. */
static const UOp *element_of(Graph *g, const char *bits, const UOp *i)
{
    const UOp *v = uop_index(g, 0);
    for (int p = 0, q = 0, n; bits[p]; p += n) {
        n = run_of(bits + p);
        if (!is_lane(bits[p])) v = index_add(g, v, move_bits(g, i, q, n, bits[p] - '0')), q += n;
    }
    return v;
}

/* Bits p .. p + n - 1 of the index that element e of lane w has. */
static const UOp *field(Graph *g, const char *bits, int p, int n, int64_t e, const UOp *w)
{
    const UOp *v = uop_index(g, 0);
    for (int end = p + n, to = 0, m; p < end; p += m, to += m) {
        m = run_of(bits + p);
        if (m > end - p) m = end - p;
        const UOp *from = is_lane(bits[p]) ? w : uop_index(g, e);
        v = index_add(g, v, move_bits(g, from, bits[p] - (is_lane(bits[p]) ? 'a' : '0'), m, to));
    }
    return v;
}

/* The same index in C's terms: what m's or n's element range is (lanes false), or the lane (true), where an operand's
 * element e of lane w wants this m or n. */
static const UOp *in_c(Graph *g, const char *bits, const char *c, bool lanes, int64_t e, const UOp *w)
{
    const UOp *v = uop_index(g, 0);
    for (int p = 0, q = 0, n; c[p]; p += n) {
        n = run_of(c + p);
        if (is_lane(c[p]) == lanes)
            v = index_add(g, v, move_bits(g, field(g, bits, p, n, e, w), 0, n, lanes ? c[p] - 'a' : q));
        if (!is_lane(c[p])) q += n;
    }
    return v;
}

static int elements_of(const char *bits) { return wmma_elements(bits, ""); }

/* ---- the OptOp ---- */

typedef struct {
    Kernel *k;
    Graph *g;
    const Wmma *w;
    const UOp *reduce, *a, *b, *m, *n, *r;
    uint64_t used;
} Tc;

static const UOp *through_widening(const UOp *u, const Wmma *w)
{
    return u->op == UOP_CAST && u->dtype == w->acc && (u->src[0]->dtype == w->a || u->src[0]->dtype == w->b) ? u->src[0]
                                                                                                             : NULL;
}

/* The one REDUCE of the axis; every END must close both of m and n, or neither. */
static TgStatus look(Tc *tc)
{
    Arena *a = arena_new();
    uint32_t count, found = 0;
    bool whole = true;
    const UOp **order = uop_toposort(tc->g, &tc->k->root, 1, a, &count);
    for (uint32_t i = 0; i < count; i++) {
        const UOp *u = order[i];
        if (u->op == UOP_RANGE) tc->used |= range_bit(u);
        if (u->op == UOP_REDUCE && ends_range(u, tc->r)) tc->reduce = u, found++;
        if (u->op == UOP_END && tc->m && tc->m != tc->n) whole &= ends_range(u, tc->m) == ends_range(u, tc->n);
    }
    arena_free(a);
    if (!whole) return fail(TG_USAGE, "optops: TC: a store that depends on one of the tile's axes only");
    return found == 1 ? TG_OK : fail(TG_USAGE, "optops: TC: %u sums share the axis", found);
}

static const UOp *under(Graph *g, const UOp *gate, const UOp *x)
{
    return gate ? UOP(g, UOP_WHERE, DT_VOID, NO_ARG, gate, x, uop_const_like(g, (DType)x->dtype, 0)) : x;
}

/* Gated by PADTO: WHERE(gate, a * b, 0) is a product of gated operands. */
static TgStatus find_operands(Tc *tc)
{
    const UOp *v = tc->reduce->src[0], *gate = NULL;
    if (tc->reduce->arg.i != UOP_ADD) return fail(TG_USAGE, "optops: TC of a reduce that is no sum");
    if (v->op == UOP_WHERE && uop_is_const(v->src[2]) && v->src[2]->arg.i == 0) gate = v->src[0], v = v->src[1];
    tc->a = v->op == UOP_MUL ? through_widening(v->src[0], tc->w) : NULL;
    tc->b = v->op == UOP_MUL ? through_widening(v->src[1], tc->w) : NULL;
    if (!tc->a || !tc->b)
        return fail(TG_USAGE, "optops: TC %s of a sum that is not of products of %s in %s", tc->w->name,
                    dtype_name(tc->w->a), dtype_name(tc->w->acc));
    tc->a = under(tc->g, gate, tc->a);
    tc->b = under(tc->g, gate, tc->b);
    return TG_OK;
}

static bool may_be_tile(const UOp *r, int64_t size)
{
    AxisType t = range_type(r);
    return size && (t == AXIS_LOOP || t == AXIS_GLOBAL || t == AXIS_UPCAST) && uop_is_const(r->src[0]) &&
        r->src[0]->vmax % size == 0;
}

/* How many rows of m an operation does: a tile register may hold fewer than it has, the most that divide the axis; 0:
 * too few. */
static int64_t rows_of(const Wmma *w, const UOp *m)
{
    int64_t n = w->m;
    while (wmma_tiled(w) && uop_is_const(m->src[0]) && n >= WMMA_ROWS && m->src[0]->vmax % n) n--;
    return n >= WMMA_ROWS || !wmma_tiled(w) ? n : 0;
}

static bool varies(const UOp *u, const UOp *r) { return (u->ranges & range_bit(r)) != 0; }

/* The operands stand on their sides; of a vector only n is requested, and m is n. */
static bool fits_axes(const Tc *tc, const UOp *m, const UOp *n, const UOp *a, const UOp *b)
{
    if (a->dtype != tc->w->a || b->dtype != tc->w->b || !may_be_tile(n, tc->w->n) || !varies(b, n) || varies(a, n))
        return false;
    return tc->w->m == 1 ? m == n : may_be_tile(m, rows_of(tc->w, m)) && varies(a, m) && !varies(b, m);
}

/* Sets m, n, and which operand is A. */
static TgStatus find_axes(Tc *tc, const UOp *const *axis, uint32_t count, int32_t choice)
{
    for (uint32_t j = count; j-- > 0;)
        for (uint32_t i = count; i-- > 0;) {
            const UOp *n = axis[j], *m = axis[i], *b = varies(tc->b, n) ? tc->b : tc->a,
                      *a = b == tc->b ? tc->a : tc->b;
            if (!fits_axes(tc, m, n, a, b) || choice--) continue;
            tc->a = a, tc->b = b, tc->m = m, tc->n = n;
            return TG_OK;
        }
    return fail(TG_USAGE, "optops: TC %s: no axes of multiples of %d and %d on which one operand each depends",
                tc->w->name, tc->w->m, tc->w->n);
}

static int take_number(Tc *tc)
{
    int n = __builtin_ctzll(~tc->used);
    tc->used |= UINT64_C(1) << n;
    return n;
}

static const UOp *new_range(Tc *tc, int64_t size, AxisType type, int64_t *number)
{
    *number = take_number(tc);
    return uop_range(tc->g, (int)*number, uop_index(tc->g, size), type);
}

/* The axis becomes (outer, the ranges in list): outer keeps its number and type. */
static void replace_axis(Tc *tc, const UOp *axis, int64_t tile, const UOp *inner, const UOp *const *list, uint32_t n)
{
    Change c = { .old = axis, .value = inner };
    int64_t parts = axis->src[0]->vmax / tile;
    if (parts > 1) {
        const UOp *outer = c.list[c.n++] =
            uop_range(tc->g, range_number(axis), uop_index(tc->g, parts), range_type(axis));
        c.value = index_add(tc->g, index_math(tc->g, UOP_MUL, outer, uop_index(tc->g, tile)), inner);
    }
    for (uint32_t i = 0; i < n; i++) c.list[c.n++] = list[i];
    kernel_change(tc->k, &c);
}

/* ENDs close this LOOP innermost: what does not depend on it is computed before it. */
static void move_last(Tc *tc, int64_t number)
{
    Arena *a = arena_new();
    uint32_t count;
    const UOp **order = uop_toposort(tc->g, &tc->k->root, 1, a, &count), *from[64], *to[64];
    uint32_t n = 0;
    for (uint32_t i = 0; i < count && n < 64; i++) {
        const UOp *u = order[i], *src[66];
        uint32_t m = 0;
        const UOp *last = NULL;
        for (uint32_t s = 0; u->op == UOP_END && s < u->nsrc; s++)
            if (s && range_number(u->src[s]) == number) last = u->src[s];
            else src[m++] = u->src[s];
        if (!last) continue;
        src[m++] = last;
        from[n] = u;
        to[n++] = uop_new(tc->g, UOP_END, DT_VOID, NO_ARG, src, m);
    }
    tc->k->root = uop_substitute(tc->g, tc->k->root, from, to, n);
    arena_free(a);
}

static void split_axes(Tc *tc)
{
    const Wmma *w = tc->w;
    Graph *g = tc->g;
    WmmaRanges rs = { -1, -1, -1, { -1, -1, -1, -1 }, rows_of(w, tc->m) };
    const UOp *lane = w->lanes > 1 ? new_range(tc, w->lanes, AXIS_WARP, &rs.lane) : NULL, *list[1 + WMMA_K],
              *inner = uop_index(g, 0);
    const UOp *i = w->m > 1
        ? new_range(tc, wmma_tiled(w) ? rs.rows : elements_of(w->cm), w->lanes > 1 ? AXIS_UPCAST : AXIS_LOOP, &rs.m)
        : NULL,
              *j = new_range(tc, elements_of(w->cn), AXIS_UPCAST, &rs.n), *kr[WMMA_K];
    uint32_t nk = 0, n = 0;
    for (int p = 0, len; w->bk[p]; p += len) {
        len = run_of(w->bk + p);
        kr[nk] = new_range(tc, INT64_C(1) << len, AXIS_UNROLL, &rs.k[nk]);
        inner = index_add(g, inner, move_bits(g, kr[nk++], 0, len, p));
    }
    const UOp *product = UOP(g, UOP_WMMA, DT_VOID, ((Arg){ w - wmma_row, graph_blob(g, &rs, sizeof rs) }), tc->a, tc->b,
                             uop_const_like(g, w->acc, 0)),
              *src[72];
    memcpy(src, tc->reduce->src, tc->reduce->nsrc * sizeof *src);
    src[0] = product;
    const UOp *reduce = uop_with(g, tc->reduce, src);
    tc->k->root = uop_substitute(g, tc->k->root, &tc->reduce, &reduce, 1);
    for (uint32_t s = nk; s-- > 0;) list[n++] = kr[s];
    replace_axis(tc, tc->r, w->k, inner, list, n);
    if (i) replace_axis(tc, tc->m, rs.rows, index_of(g, w->cm, i, lane), &i, 1);
    n = 0;
    if (lane) list[n++] = lane;
    list[n++] = j;
    replace_axis(tc, tc->n, w->n, index_of(g, w->cn, j, lane), list, n);
    if (wmma_tiled(w)) move_last(tc, rs.m);
}

/* PACK can lay it out. */
static bool is_constant(const Kernel *k, const UOp *u)
{
    Arena *a = arena_new();
    uint32_t count;
    bool constant = true;
    const UOp **order = uop_toposort(k->g, &u, 1, a, &count);
    for (uint32_t i = 0; i < count; i++) constant &= order[i]->op != UOP_PARAM || k->param[order[i]->arg.i].constant;
    arena_free(a);
    return constant;
}

static const UOp *find_wmma(const Kernel *k, bool scalar, bool one_lane)
{
    Arena *a = arena_new();
    uint32_t count;
    const UOp **order = uop_toposort(k->g, &k->root, 1, a, &count), *found = NULL;
    for (uint32_t i = 0; i < count && !found; i++)
        if (order[i]->op == UOP_WMMA && (!scalar || !order[i]->shape->rank) &&
            (!one_lane || wmma_of(order[i])->lanes == 1))
            found = order[i];
    arena_free(a);
    return found;
}

static const UOp *one_lane_operand(Kernel *k, const UOp *wmma, uint32_t s);

TgStatus opt_tc(Kernel *k, const OptOp *o, const UOp *const *axis, uint32_t n, const Target *t)
{
    int32_t row = o->factor % ROWS;
    if (row >= WMMA_COUNT || !(t->wmma >> row & 1))
        return fail(TG_USAGE, "optops: TC %d is no row of this device", row);
    Tc tc = { .k = k, .g = k->g, .w = &wmma_row[row], .r = axis[o->axis] };
    const UOp *before = k->root;
    if (range_type(tc.r) != AXIS_REDUCE || !uop_is_const(tc.r->src[0]) || tc.r->src[0]->vmax % tc.w->k)
        return fail(TG_USAGE, "optops: TC %s: axis %d is no reduce axis of a multiple of %d", tc.w->name, o->axis,
                    tc.w->k);
    if (find_wmma(k, false, true)) return fail(TG_USAGE, "optops: a second TC");
    TRY(look(&tc));
    TRY(find_operands(&tc));
    TRY(find_axes(&tc, axis, n, o->factor / ROWS));
    TRY(look(&tc));
    if (__builtin_popcountll(tc.used) > 64 - 3 - WMMA_K) return fail(TG_USAGE, "optops: more than 64 ranges");
    split_axes(&tc);
    if (tc.w->lanes > 1) return TG_OK;
    const UOp *made = find_wmma(k, true, true);
    bool fits = one_lane_operand(k, made, 0) != NULL;
    if (fits && (is_constant(k, made->src[1]) || one_lane_operand(k, made, 1))) return TG_OK;
    k->root = before;
    return fail(TG_USAGE,
                fits ? "optops: TC %s: B is no constant" : "optops: TC %s: A does not lie along the axis in memory",
                tc.w->name);
}

/* A range that a WMMA is made of stays as it is, and a product is no term that a gate could stand before. With one lane
 * sums stay whole too. */
bool wmma_holds(const Kernel *k, const OptOp *o, const UOp *range)
{
    Arena *a = arena_new();
    uint32_t count;
    bool held = false;
    const UOp **order = uop_toposort(k->g, &k->root, 1, a, &count);
    for (uint32_t i = 0; i < count; i++) {
        if (order[i]->op != UOP_WMMA) continue;
        const int64_t *number = (const int64_t *)order[i]->arg.blob->data;
        for (size_t j = 0; j < WMMA_RANGES; j++) held |= number[j] == range_number(range);
        held |= (wmma_of(order[i])->lanes == 1 && o->kind == OPT_NEST) ||
            (o->kind == OPT_PADTO && range_type(range) == AXIS_REDUCE);
    }
    arena_free(a);
    return held;
}

int wmma_pair(const Kernel *k)
{
    const UOp *u = find_wmma(k, true, true);
    return u ? (int)wmma_ranges(u)->k[0] : -1;
}

/* ---- fragments ---- */

typedef struct {
    Kernel *k;
    Graph *g;
    const UOp *reduce, *wmma, *lane, *m, *n, *kr[WMMA_K];
    const Wmma *w;
} Fragments;

static void find_ranges(Fragments *f)
{
    Arena *a = arena_new();
    uint32_t count;
    const UOp **order = uop_toposort(f->g, &f->k->root, 1, a, &count);
    const WmmaRanges *rs = wmma_ranges(f->wmma);
    for (uint32_t i = 0; i < count; i++) {
        const UOp *u = order[i];
        if (u->op != UOP_RANGE) continue;
        if (range_number(u) == rs->lane) f->lane = u;
        if (range_number(u) == rs->m) f->m = u;
        if (range_number(u) == rs->n) f->n = u;
        for (int j = 0; j < WMMA_K; j++)
            if (range_number(u) == rs->k[j]) f->kr[j] = u;
    }
    arena_free(a);
}

/* What the ranges are for element e of operand s; returns how many. */
static uint32_t ranges_at(Fragments *f, uint32_t s, int64_t e, const UOp **from, const UOp **to)
{
    const Wmma *w = f->w;
    const char *bits = s ? w->bn : w->am, *c = s ? w->cn : w->cm, *kbits = s ? w->bk : w->ak;
    const UOp *range = s ? f->n : f->m;
    uint32_t n = 0;
    if (f->lane) from[n] = f->lane, to[n++] = in_c(f->g, bits, c, true, e, f->lane);
    if (range) from[n] = range, to[n++] = in_c(f->g, bits, c, false, e, f->lane);
    for (int p = 0, j = 0, len; w->bk[p]; p += len, j++) {
        len = run_of(w->bk + p);
        if (f->kr[j]) from[n] = f->kr[j], to[n++] = field(f->g, kbits, p, len, e, f->lane);
    }
    return n;
}

static const UOp *stack_of(Fragments *f, uint32_t s)
{
    const UOp *v[64], *from[2 + WMMA_K], *to[2 + WMMA_K];
    int count = s ? wmma_elements(f->w->bk, f->w->bn) : wmma_elements(f->w->am, f->w->ak);
    for (int e = 0; e < count; e++) {
        uint32_t n = ranges_at(f, s, e, from, to);
        v[e] = uop_substitute(f->g, f->wmma->src[s], from, to, n);
    }
    return uop_new(f->g, UOP_STACK, DT_VOID, NO_ARG, v, (uint32_t)count);
}

/* The LOAD of the window of memory in which operand s has what this LOAD reads, or NULL: its elements do not lie so, or
 * a tile's are gated. */
static const UOp *window(Fragments *f, uint32_t s, const UOp *load)
{
    Graph *g = f->g;
    const UOp *from[2 + WMMA_K], *to[2 + WMMA_K], *zero[2 + WMMA_K];
    bool tiled = wmma_tiled(f->w);
    int64_t count = wmma_operand(f->wmma, s), columns = tiled ? 64 / dtype_size(f->w->a) : count,
            stride = tiled ? 0 : count;
    if (load->src[0]->op != UOP_INDEX || (tiled && load->nsrc > 1)) return NULL;
    for (int64_t e = 0; e < count; e++) {
        int64_t at = 0;
        uint32_t n = ranges_at(f, s, e, from, to);
        for (uint32_t i = 0; i < n; i++) {
            int64_t step = range_step(load->src[0]->src[1], from[i]);
            if (step == NO_STEP || !uop_is_const(to[i])) return NULL;
            if (load->nsrc > 1 && (varies(load->src[1], from[i]) || varies(load->src[2], from[i]))) return NULL;
            at += step * to[i]->arg.i;
            zero[i] = uop_index(g, 0);
        }
        if (e == columns) stride = at;
        if (at != e / columns * stride + e % columns) return NULL;
    }
    if (stride < columns) return NULL;
    uint32_t n = ranges_at(f, s, 0, from, to);
    const UOp *begin =
                  graph_rewrite(g, uop_substitute(g, load->src[0]->src[1], from, zero, n), rules_symbolic(), 0, NULL),
              *span = uop_index(g, (count / columns - 1) * stride + columns);
    const UOp *src[3] = { UOP(g, UOP_SHRINK, DT_VOID, NO_ARG, load->src[0]->src[0], uop_sizes(g, &begin, 1),
                              uop_sizes(g, &span, 1)) };
    for (uint32_t i = 1; i < load->nsrc; i++) src[i] = load->src[i];
    return uop_new(g, UOP_LOAD, DT_VOID, NO_ARG, src, load->nsrc);
}

/* u at all elements of operand s: what does not depend on them stays a scalar. */
static const UOp *vector_of(Fragments *f, uint32_t s, const UOp *u)
{
    const UOp *from[2 + WMMA_K], *to[2 + WMMA_K], *src[3];
    bool depends = false;
    for (uint32_t n = ranges_at(f, s, 0, from, to); n-- > 0;) depends |= varies(u, from[n]);
    if (!depends) return u;
    if (u->op == UOP_LOAD) return window(f, s, u);
    if (!op_is((Op)u->op, FLAG_ALU)) return NULL;
    for (uint32_t k = 0; k < u->nsrc; k++)
        if (!(src[k] = vector_of(f, s, u->src[k]))) return NULL;
    return uop_with(f->g, u, src);
}

/* Operand s where the elements of its LOADs lie as one lane wants them, else NULL. */
static const UOp *one_lane_operand(Kernel *k, const UOp *wmma, uint32_t s)
{
    Fragments f = { .k = k, .g = k->g, .wmma = wmma, .w = wmma_of(wmma) };
    find_ranges(&f);
    if (wmma_tiled(f.w)) return wmma->src[s]->op == UOP_LOAD ? window(&f, s, wmma->src[s]) : NULL;
    return vector_of(&f, s, wmma->src[s]);
}

static const UOp *zeros(Graph *g, DType t, int n)
{
    const UOp *v[256];
    for (int i = 0; i < n; i++) v[i] = uop_const_like(g, t, 0);
    return uop_new(g, UOP_STACK, DT_VOID, NO_ARG, v, (uint32_t)n);
}

static int64_t next_local(const Kernel *k)
{
    Arena *a = arena_new();
    uint32_t n;
    int64_t next = 0;
    const UOp **order = uop_toposort(k->g, &k->root, 1, a, &n);
    for (uint32_t i = 0; i < n; i++)
        if (order[i]->op == UOP_BUFFER && buffer_slot(order[i]) >= next) next = buffer_slot(order[i]) + 1;
    arena_free(a);
    return next;
}

/* The sum in LOCAL memory, a tile for each assignment of the ranges that expand replicates (UPCAST, and UNROLL where a
 * NEST sums the tiles), and its element (i, j) there. */
static TgStatus through_memory(Fragments *f, const UOp *sum, const UOp *element, const UOp **out)
{
    Graph *g = f->g;
    Arena *a = arena_new();
    uint32_t n;
    int size = wmma_operand(f->wmma, 2);
    int64_t tiles = 1, operands[2] = { 1, 1 };
    const UOp **order = uop_toposort(g, &sum, 1, a, &n), *tile = uop_index(g, 0);
    for (uint32_t i = 0; i < n; i++) {
        const UOp *r = order[i];
        if (r->op != UOP_RANGE || (range_type(r) != AXIS_UPCAST && range_type(r) != AXIS_UNROLL) || !varies(sum, r))
            continue;
        for (int s = 0; s < 2; s++) operands[s] *= varies(f->wmma->src[s], r) ? r->src[0]->vmax : 1;
        tile = index_add(g, index_math(g, UOP_MUL, tile, r->src[0]), r);
        tiles *= r->src[0]->vmax;
    }
    arena_free(a);
    if (tiles + operands[0] + operands[1] > TILES)
        return fail(TG_USAGE, "optops: TC %s: %lld tiles, with operands more than %d", f->w->name, (long long)tiles,
                    TILES);
    const UOp *all = uop_index(g, tiles * size), *one = uop_index(g, size), *begin = index_math(g, UOP_MUL, tile, one);
    const UOp *buffer = uop_buffer(g, f->w->acc, &all, 1, next_local(f->k), SPACE_LOCAL);
    const UOp *store =
        UOP(g, UOP_STORE, DT_VOID, NO_ARG,
            UOP(g, UOP_SHRINK, DT_VOID, NO_ARG, buffer, uop_sizes(g, &begin, 1), uop_sizes(g, &one, 1)), sum);
    *out = UOP(g, UOP_LOAD, DT_VOID, NO_ARG,
               UOP(g, UOP_INDEX, DT_VOID, NO_ARG, UOP(g, UOP_AFTER, DT_VOID, NO_ARG, buffer, store),
                   index_add(g, begin, element)));
    return TG_OK;
}

static bool has_wmma(Graph *g, const UOp *u)
{
    Arena *a = arena_new();
    uint32_t n;
    bool found = false;
    const UOp **order = uop_toposort(g, &u, 1, a, &n);
    for (uint32_t i = 0; i < n; i++) found |= order[i]->op == UOP_WMMA;
    arena_free(a);
    return found;
}

static TgStatus operands(Fragments *f, const UOp **src)
{
    for (uint32_t s = 0; s < 2; s++) {
        if (has_wmma(f->g, f->wmma->src[s]))
            return fail(TG_UNSUPPORTED, "kernel %s: a WMMA's operand comes from another in the same kernel",
                        f->k->name);
        src[s] = f->w->lanes > 1 ? stack_of(f, s) : one_lane_operand(f->k, f->wmma, s);
        if (!src[s]) return fail(TG_USAGE, "optops: TC %s: operand %c is not packed", f->w->name, 'A' + (int)s);
    }
    return TG_OK;
}

static TgStatus fragment(Fragments *f)
{
    Graph *g = f->g;
    const Wmma *w = f->w = wmma_of(f->wmma);
    const UOp *src[3], *outer[64], *value;
    uint32_t n = 0;
    find_ranges(f);
    if ((w->m > 1 && !f->m) || !f->n) return fail(TG_INTERNAL, "kernel %s: a WMMA without its ranges", f->k->name);
    TRY(operands(f, src));
    src[2] = zeros(g, w->acc, wmma_operand(f->wmma, 2));
    for (uint32_t k = 1; k < f->reduce->nsrc; k++) {
        bool inner = false;
        for (int j = 0; j < WMMA_K; j++) inner |= f->reduce->src[k] == f->kr[j];
        if (!inner) outer[n++] = f->reduce->src[k];
    }
    const UOp *sum = uop_new(g, UOP_WMMA, DT_VOID, f->wmma->arg, src, 3),
              *element = index_add(g, element_of(g, w->cm, f->m), element_of(g, w->cn, f->n));
    if (n) sum = uop_reduce_ranges(g, UOP_ADD, sum, outer, n);
    if (!wmma_tiled(w)) value = UOP(g, UOP_INDEX, DT_VOID, NO_ARG, sum, element);
    else TRY(through_memory(f, sum, element, &value));
    f->k->root = uop_substitute(g, f->k->root, &f->reduce, &value, 1);
    return graph_error(g);
}

static const UOp *next_sum(const Kernel *k)
{
    Arena *a = arena_new();
    uint32_t n;
    const UOp **order = uop_toposort(k->g, &k->root, 1, a, &n), *found = NULL;
    for (uint32_t i = 0; i < n && !found; i++)
        if (order[i]->op == UOP_REDUCE && order[i]->src[0]->op == UOP_WMMA && !order[i]->src[0]->shape->rank)
            found = order[i];
    arena_free(a);
    return found;
}

TgStatus kernel_fragments(Kernel *k)
{
    for (const UOp *u = next_sum(k); u; u = next_sum(k)) {
        Fragments f = { .k = k, .g = k->g, .reduce = u, .wmma = u->src[0] };
        TRY(fragment(&f));
    }
    return TG_OK;
}
