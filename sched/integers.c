/* Integers: a sum of products of quantised values becomes that of the integers they are made of, which lie in memory in
 * a byte each, and for which CPUs have dot products.
 *
 * Comes in: REDUCE(ADD, MUL(x, w)), both views of s * (q + z) in f32 or of q + z in i32, q of 8 bits, w constant. Goes
 * out, for a device with a row of wmma.def of u8 and i8: s_x s_w (sum q_x q_w + z_x sum q_w + z_w (sum q_x + n z_x)),
 * where q_x became the row's first type (u8, else i8) and q_w i8 by half the range, which goes to their z; sum q_w is
 * computed once, at load. In f32 that is the same sum rounded once instead of at every step, and what is made of it is
 * divided by a number as by multiplying. Sums without lanes of their own (depthwise convolutions) are made in f32,
 * where they are as exact, and there w may be any constant, z_w in it, so that x is read as it lies. Where x is padded
 * with zeros, q is padded with -z_x: memory holds that around q, on a device that can fill it (halo.h). On others, and
 * where -z_x is no q or not known, z_x counts for the terms inside: sum q_w over them, and n, depend on the place, and
 * are computed once, too. Three channels get a fourth of zeros, so that they are a dot product. Scales that vary along
 * some of what is summed make a sum of sums: of each block in integers, of the blocks in f32. Must hold: s_x is one
 * number; s_w and z are one each, or lie along axes that are not summed (but for blocks); where w is padded z_w is 0;
 * no sum of n terms leaves i32 (in i32 it might: both wrap). To cover one more way to write a quantised value: a case
 * in offset_of or dequantised.
 */
#include <string.h>

#include "graph/build.h"
#include "graph/wmma.h"
#include "sched/sums.h"

/* TERMS_MAX: of 255 * 255 at most each */
enum { HALF = 128, VALUES_MAX = 1 << 16, TERMS_MAX = 1 << 15, VIEWS_MAX = 32 };

/* scale * (q + added), all of it seen through the views, the outermost first. added: i32, NULL for 0; scale: f32, NULL
 * for 1. Both as they broadcast against base. */
typedef struct {
    U base, q, added, scale, view[VIEWS_MAX];
    uint32_t nview;
    bool padded;
    int64_t fill;                   /* what q is padded with */
} Operand;

static bool is_view(U u) { return u->op == UOP_INDEX || (op_is((Op)u->op, FLAG_MOVE) && u->op != UOP_BITCAST); }
static bool is_byte(U u) { return u->dtype == DT_U8 || u->dtype == DT_I8; }
static bool widens(U u, DType t) { return u->op == UOP_CAST && u->dtype == t && is_byte(u->src[0]); }

/* Sources have smaller ids than their users, so one ascending pass over the nodes that came since the last question
 * answers for all of them. */
bool made_of_constants(Constants *c, Graph *g, const UOp *u)
{
    if (u->id >= c->cap) {
        uint32_t cap = u->id + u->id / 2 + 64;
        bool *is = NEW_N(c->arena, bool, cap);
        if (c->count) memcpy(is, c->is, c->count * sizeof *is);
        c->is = is, c->cap = cap;
    }
    for (; c->count <= u->id; c->count++) {
        U v = graph_node(g, c->count);
        bool is = v->op == UOP_CONST || v->op == UOP_STACK || v->op == UOP_IOTA || v->op == UOP_CAT || is_view(v) ||
            op_is((Op)v->op, FLAG_ALU) || (v->op == UOP_BUFFER && graph_buffer(g, buffer_slot(v))->data);
        for (uint32_t k = 0; k < v->nsrc && is; k++) is = c->is[v->src[k]->id];
        c->is[c->count] = is;
    }
    return c->is[u->id] && uop_static(u);
}

/* One known integer in every place of u; NULL is 0. */
static bool known(Graph *g, U u, int64_t *v)
{
    int64_t n = u ? uop_numel(u) : 1;
    U *one = n <= VALUES_MAX ? NEW_N(graph_arena(g), U, n + 1) : NULL;
    *v = 0;
    if (!u) return true;
    if (!one || !n || !values_of(g, u, one, VALUES_MAX)) return false;
    for (int64_t i = 0; i < n; i++)
        if (!one[i] || !uop_is_const(one[i]) || one[i]->arg.i != one[0]->arg.i) return false;
    return *v = one[0]->arg.i, true;
}

/* u as q + added, in i32. */
static bool offset_of(Operand *o, U u)
{
    if (widens(u, DT_I32)) return o->q = u->src[0], true;
    for (uint32_t k = 0; k < 2 && u->op == UOP_ADD && u->dtype == DT_I32; k++)
        if (widens(u->src[k], DT_I32) && u->src[k]->shape == u->shape)
            return o->q = u->src[k]->src[0], o->added = u->src[!k], true;
    return false;
}

/* u as scale * (q + added), in f32. */
static bool dequantised(Operand *o, U u)
{
    for (uint32_t k = 0; k < 2 && u->op == UOP_MUL && !o->scale; k++)
        if (u->src[k]->op == UOP_CAST && u->src[k]->shape == u->shape && dtype_is_int((DType)u->src[k]->src[0]->dtype))
            o->scale = u->src[!k], u = u->src[k];
    if (u->op != UOP_CAST || u->dtype != DT_F32) return false;
    return widens(u, DT_F32) ? o->q = u->src[0], true : offset_of(o, u->src[0]);
}

/* q as this type of a byte. */
static void shift_to(Graph *g, Operand *o, DType t)
{
    int64_t z;
    if (o->q->dtype != t) {
        U by = scalar(g, DT_I32, t == DT_I8 ? HALF : -HALF);
        o->q = add(g, cast(g, o->q, t), scalar(g, t, t == DT_I8 ? -HALF : HALF));
        o->added = o->added ? add(g, o->added, by) : by;
    }
    if (known(g, o->added, &z)) o->added = z ? scalar(g, DT_I32, (double)z) : NULL;
}

static bool operand_of(Graph *g, U u, DType t, Operand *o)
{
    *o = (Operand){ .base = u };
    for (; is_view(o->base); o->base = o->base->src[0]) {
        if (o->nview == VIEWS_MAX || o->base->op == UOP_CONTIGUOUS) return false;
        o->padded |= o->base->op == UOP_PAD;
        o->view[o->nview++] = o->base;
    }
    if (!(u->dtype == DT_I32 ? offset_of(o, o->base) : u->dtype == DT_F32 && dequantised(o, o->base))) return false;
    shift_to(g, o, t);
    return true;
}

/* q where the product wants it, in type t: widened before the views, so that what lies in memory is as small as q. */
static U seen(Graph *g, const Operand *o, DType t)
{
    U x = cast(g, o->q, t);
    for (uint32_t i = o->nview; i-- > 0;) {
        U v = o->view[i], src[RANK_MAX + 1] = { x };
        for (uint32_t k = 1; k < v->nsrc; k++) src[k] = v->src[k];
        U inside = v->op == UOP_PAD && o->fill ? full(g, DT_BOOL, 1, x) : NULL;
        x = uop_with(g, v, src);
        if (!inside) continue;
        src[0] = inside;
        x = where(g, uop_with(g, v, src), x, scalar(g, t, (double)o->fill));
    }
    return x;
}

/* Can q be padded with what stands for 0? Then it is, and the sum has all terms. */
static void fill_padding(Graph *g, Operand *o)
{
    int64_t z;
    DType q = (DType)o->q->dtype;
    if (!o->padded || !o->added || !known(g, o->added, &z) || -z < dtype_min(q) || -z > dtype_max(q)) return;
    o->fill = -z;
    o->padded = false;
}

/* ---- scales and zero points along axes: a value v as it broadcasts against the operand's base ---- */

/* Where a view puts the axis of that size; -1: in several places, or none. */
static int64_t axis_behind(U view, int64_t axis)
{
    U x = view->src[0];
    int64_t before = 1, size = uop_size(x, (uint32_t)axis);
    if (view->op == UOP_EXPAND) return axis + uop_rank(view) - uop_rank(x);
    for (uint32_t k = 0; view->op == UOP_PERMUTE && k < uop_rank(view); k++)
        if (blob_ints(view->arg.blob)[k] == axis) return k;
    if (view->op != UOP_RESHAPE) return -1;
    for (int64_t k = 0; k < axis; k++) before *= uop_size(x, (uint32_t)k);
    for (uint32_t k = 0; k < uop_rank(view); before /= uop_size(view, k++)) {
        if (before == 1 && uop_size(view, k) == size) return k;
        if (before % uop_size(view, k)) return -1;
    }
    return -1;
}

/* Is an axis of the operand, seen as u, one of its base: behind every view all of it, in order? */
static bool is_whole_axis(const Operand *o, U u, uint32_t axis)
{
    for (uint32_t k = 0; k < uop_rank(o->base); k++) {
        int64_t at = k, n = uop_size(o->base, k);
        for (uint32_t i = o->nview; i-- > 0 && at >= 0;) {
            U v = o->view[i];
            if (v->op == UOP_INDEX) at = at < v->nsrc - 1 ? -1 : at + uop_rank(v) - uop_rank(v->src[0]);
            else if (v->op != UOP_PAD && v->op != UOP_SHRINK) at = axis_behind(v, at);
            if (at >= 0 && uop_size(v, (uint32_t)at) != n) at = -1;
        }
        if (at == axis) return uop_size(u, axis) == n;
    }
    return false;
}

/* Which axes of a view vary where those of what it shows do; false: this is not known. */
static bool vary_behind(U view, bool *vary)
{
    U x = view->src[0];
    uint32_t rank = uop_rank(view), own = uop_rank(x), i = 0, j = 0;
    bool was[RANK_MAX] = { 0 };
    memcpy(was, vary, own * sizeof *was);
    if (view->op == UOP_FLIP || view->op == UOP_SHRINK || view->op == UOP_CONTIGUOUS) return true;
    if (view->op != UOP_EXPAND && view->op != UOP_PERMUTE && view->op != UOP_RESHAPE) return false;
    for (uint32_t k = 0; k < rank; k++)
        vary[k] = view->op == UOP_EXPAND ? k + own >= rank && was[k + own - rank]
                                         : view->op == UOP_PERMUTE && was[blob_ints(view->arg.blob)[k]];
    /* the least groups of axes on both sides that have as many elements */
    while (view->op == UOP_RESHAPE && (i < own || j < rank)) {
        uint32_t from = i, to = j;
        int64_t a = i < own ? uop_size(x, i++) : 1, b = j < rank ? uop_size(view, j++) : 1;
        bool any = false;
        while (a != b)
            if (a < b && i < own) a *= uop_size(x, i++);
            else if (j < rank) b *= uop_size(view, j++);
            else return false;
        for (; from < i; from++) any |= was[from];
        for (; to < j; to++) vary[to] = any;
    }
    return true;
}

/* v where the operand is seen as u, of one element along axes on which it does not depend; vary: the others. NULL:
 * which those are is not known. */
static U seen_along(Graph *g, const Operand *o, U v, U u, bool *vary)
{
    U begin[RANK_MAX], size[RANK_MAX];
    uint32_t off = uop_rank(o->base) - uop_rank(v);
    if (o->padded || !uop_static(v)) return NULL;
    for (uint32_t k = 0; k < uop_rank(v); k++) vary[k + off] = uop_size(v, k) > 1;
    Operand values = { .q = expand_like(g, v, o->base), .nview = o->nview };
    memcpy(values.view, o->view, sizeof o->view);
    for (uint32_t i = o->nview; i-- > 0;)
        if (!uop_static(o->view[i]) || !vary_behind(o->view[i], vary)) return NULL;
    for (uint32_t k = 0; k < uop_rank(u); k++) {
        begin[k] = uop_index(g, 0);
        size[k] = vary[k] ? uop_dim(u, k) : uop_index(g, 1);
    }
    return shrink(g, seen(g, &values, (DType)v->dtype), begin, size);
}

/* v where it lies along several axes as it is seen, none of them summed (phases of a transposed convolution, each with
 * the scales of all channels). */
static U along_several(Graph *g, const Operand *o, U v, U u, const bool *summed)
{
    bool vary[RANK_MAX] = { 0 };
    U s = seen_along(g, o, v, u, vary);
    for (uint32_t k = 0; s && k < uop_rank(u); k++)
        if (vary[k] && summed[k]) return NULL;
    return s ? contiguous(g, s) : NULL;
}

/* v, a scale or zero point, beside the sum: one number, or along axes of the rank that the operand has as u, no summed
 * ones. NULL: it is not such. */
static U beside(Graph *g, const Operand *o, U v, U u, const bool *summed)
{
    if (uop_numel(v) == 1) return reshape(g, v, NULL, 0);
    int64_t axis = -1, n = uop_numel(v);
    U dim[RANK_MAX];
    for (uint32_t k = 0; k < uop_rank(v); k++)
        if (uop_size(v, k) == n) axis = k + uop_rank(o->base) - uop_rank(v);
    for (uint32_t i = o->nview; i-- > 0 && axis >= 0;) axis = axis_behind(o->view[i], axis);
    if (axis < 0 || summed[axis] || uop_size(u, (uint32_t)axis) != n || !uop_static(u))
        return uop_static(u) ? along_several(g, o, v, u, summed) : NULL;
    for (uint32_t k = 0; k < uop_rank(u); k++) dim[k] = uop_index(g, k == axis ? n : 1);
    return reshape(g, v, dim, uop_rank(u));
}

static U scale_beside(Graph *g, const Operand *o, U u, const bool *summed)
{
    return o->scale ? beside(g, o, o->scale, u, summed) : scalar(g, DT_F32, 1);
}

/* Replaces the operand's zero point by what it is beside the sum; false: it varies along what is summed. */
static bool zero_beside(Graph *g, Operand *o, U u, const bool *summed)
{
    return !o->added || (o->added = beside(g, o, o->added, u, summed));
}

/* ---- the sum ---- */

/* The axes of a sum as u has them, aligned at the right; false: u lacks one. Multiplies *terms by their sizes. */
static bool summed_axes(U sum, U u, bool *summed, int64_t *terms)
{
    uint32_t off = uop_rank(sum->src[0]) - uop_rank(u);
    for (uint32_t k = 0; k < blob_count(sum->arg.blob); k++) {
        int64_t axis = blob_ints(sum->arg.blob)[k];
        if (axis < off || uop_dim(u, (uint32_t)axis - off) != uop_dim(sum->src[0], (uint32_t)axis) ||
            __builtin_mul_overflow(*terms, uop_size(u, (uint32_t)axis - off), terms))
            return false;
        summed[axis - off] = true;
    }
    return true;
}

static U sum_over(Graph *g, U u, const bool *summed)
{
    int64_t axes[RANK_MAX];
    uint32_t n = 0;
    for (uint32_t k = 0; k < uop_rank(u); k++)
        if (summed[k]) axes[n++] = k;
    return reduce(g, UOP_ADD, u, axes, n, true);
}

/* An axis that both have, whole in what x is made of, and that is summed, of three elements beyond whole fours: with
 * one more of zeros dot products take it (the colours of a picture). Counted from the last axis; 0: there is none. */
static uint32_t axis_of_threes(const Operand *o, U x, U w, const bool *summed)
{
    uint32_t rx = uop_rank(x), rw = uop_rank(w);
    for (uint32_t k = rx < rw ? rx : rw; k > 0; k--) {
        U n = uop_dim(x, rx - k);
        if (summed[rw - k] && n == uop_dim(w, rw - k) && uop_is_const(n) && n->arg.i % 4 == 3 &&
            is_whole_axis(o, x, rx - k))
            return k;
    }
    return 0;
}

/* In which type the sum is made: i32 where w has an axis of its own for the lanes and dot products do not end within
 * it; f32 where no term has a partner in another, so that there is nothing but one product a lane, which CPUs have no
 * quick one of integers for, and all sums are whole numbers that f32 holds. DT_VOID: it stays as it is. threes: the
 * axis that wants a fourth element for it, counted from the last, or 0. */
static DType sum_type(U sum, const Operand *o, U x, U w, const bool *summed, int64_t terms, uint32_t *threes)
{
    U p = sum->src[0];
    uint32_t n = uop_rank(p), rx = uop_rank(x), rw = uop_rank(w);
    bool own = false, fours = false;
    for (uint32_t k = 1; k <= n && k <= rw; k++) {
        bool shared = k <= rx && !uop_is_int_const(uop_dim(x, rx - k), 1);
        own |= !shared && uop_size(w, rw - k) > 1;
        fours |= summed[rw - k] && uop_size(w, rw - k) % 4 == 0;
    }
    *threes = own && !fours ? axis_of_threes(o, x, w, summed) : 0;
    if (own) return fours || *threes ? DT_I32 : DT_VOID;
    return terms * 255 * 255 <= 1 << 24 ? DT_F32 : DT_VOID;
}

/* One element more behind the axis. */
static U with_fourth(Graph *g, U u, uint32_t from_last, int64_t fill)
{
    int64_t before[RANK_MAX] = { 0 }, after[RANK_MAX] = { 0 };
    after[uop_rank(u) - from_last] = 1;
    return from_last ? pad_i(g, u, before, after, scalar(g, (DType)u->dtype, (double)fill)) : u;
}

/* 1 where the operand is not padded. */
static U inside(Graph *g, const Operand *o)
{
    Operand ones = *o;
    ones.q = full(g, o->q->dtype, 1, o->q);
    return seen(g, &ones, DT_I32);
}

/* sum q_w over the terms that are not padded: a constant, which is computed once, at load. */
static U sum_inside(Graph *g, const Operand *a, const Operand *b, U sum)
{
    return contiguous(g, UOP(g, UOP_REDUCE, DT_VOID, sum->arg, mul(g, inside(g, a), seen(g, b, DT_I32))));
}

/* z_x sum q_w + z_w (sum q_x + n z_x), which the zero points add to sum q_x q_w of n terms each. */
static U zeros_of(Graph *g, const Operand *a, const Operand *b, U sum, bool (*summed)[RANK_MAX], int64_t terms)
{
    U z = NULL, z_x = a->added;
    if (z_x) z = mul(g, a->padded ? sum_inside(g, a, b, sum) : sum_over(g, seen(g, b, DT_I32), summed[1]), z_x);
    if (!b->added) return z;
    U x = sum_over(g, seen(g, a, DT_I32), summed[0]);
    if (z_x)
        x = add(g, x, mul(g, z_x, a->padded ? contiguous(g, sum_over(g, inside(g, a), summed[0]))
                                            : uop_int(g, DT_I32, terms)));
    x = mul(g, x, b->added);
    return z ? add(g, z, x) : x;
}

/* fills: memory around q can be what stands for 0. */
static U in_integers(Graph *g, U sum, U x, U w, const Wmma *row, bool fills, Constants *constants)
{
    Operand a, b;
    bool summed[2][RANK_MAX] = { 0 };
    int64_t terms = 1, again = 1;
    uint32_t threes;
    if (!summed_axes(sum, x, summed[0], &terms) || !summed_axes(sum, w, summed[1], &again) || terms > TERMS_MAX ||
        !made_of_constants(constants, g, w) || !operand_of(g, x, (DType)row->a, &a))
        return NULL;
    if (fills) fill_padding(g, &a);
    DType t = sum_type(sum, &a, x, w, summed[1], terms, &threes);
    bool bytes = operand_of(g, w, (DType)row->b, &b), plain = !bytes && t == DT_F32 && sum->dtype == DT_F32 && !a.added;
    if (bytes && t == DT_F32 && b.added) b.q = add(g, cast(g, b.q, DT_I32), b.added), b.added = NULL;
    U s_x = scale_beside(g, &a, x, summed[0]), s_w = bytes ? scale_beside(g, &b, w, summed[1]) : NULL;
    if (t == DT_VOID || !s_x || uop_rank(s_x) || (!s_w && !plain) || !zero_beside(g, &a, x, summed[0]) ||
        (bytes && ((b.added && b.padded) || !zero_beside(g, &b, w, summed[1]))))
        return NULL;
    /* an input lies as it came: with neither halo nor channels last */
    if (threes && a.q->op == UOP_PARAM) a.q = contiguous(g, a.q);
    U q_x = with_fourth(g, seen(g, &a, t), threes, a.fill),
      q_w = with_fourth(g, plain ? w : seen(g, &b, t), threes, 0),
      y = UOP(g, UOP_REDUCE, DT_VOID, sum->arg, mul(g, q_x, q_w)),
      z = bytes ? zeros_of(g, &a, &b, sum, summed, terms) : NULL;
    if (z || sum->dtype == DT_I32) y = cast(g, y, DT_I32);
    if (z) y = add(g, y, z);
    return sum->dtype == DT_I32 ? y : mul(g, cast(g, y, DT_F32), plain ? s_x : mul(g, s_x, s_w));
}

/* ---- blocks ---- */

/* The axes of u, aligned at the right with those of the product, along which scales vary. */
static void mark_blocks(U product, U u, const bool *vary, bool *blocks)
{
    uint32_t off = uop_rank(product) - uop_rank(u);
    for (uint32_t k = 0; k < uop_rank(u); k++) blocks[k + off] |= vary[k];
}

/* Sums whose scales vary along some of what is summed (blocks of weights, each with a scale): within a block, sums of
 * integers; times the scales, these are summed in f32. */
static U in_blocks(Graph *g, U sum, U x, U w, const Wmma *row, Constants *constants)
{
    Operand a, b;
    bool vary[2][RANK_MAX] = { 0 }, blocks[RANK_MAX] = { 0 }, inner[RANK_MAX] = { 0 }, fours = false;
    int64_t outer_axes[RANK_MAX], inner_axes[RANK_MAX], terms = 1;
    uint32_t nouter = 0, ninner = 0, rank = uop_rank(sum->src[0]), off = rank - uop_rank(w);
    if (sum->dtype != DT_F32 || !made_of_constants(constants, g, w) || !operand_of(g, x, (DType)row->a, &a) ||
        !operand_of(g, w, (DType)row->b, &b) || !a.scale || !b.scale || b.added)
        return NULL;
    U s_x = seen_along(g, &a, a.scale, x, vary[0]), s_w = seen_along(g, &b, b.scale, w, vary[1]);
    if (!s_x || !s_w) return NULL;
    s_x = contiguous(g, s_x);
    mark_blocks(sum->src[0], x, vary[0], blocks);
    mark_blocks(sum->src[0], w, vary[1], blocks);
    for (uint32_t i = 0; i < blob_count(sum->arg.blob); i++) {
        int64_t axis = blob_ints(sum->arg.blob)[i];
        if (axis < off || !uop_is_const(uop_dim(sum->src[0], (uint32_t)axis))) return NULL;
        if (blocks[axis]) outer_axes[nouter++] = axis;
        else inner_axes[ninner++] = axis, inner[axis - off] = true;
        int64_t size = uop_size(sum->src[0], (uint32_t)axis);
        if (!blocks[axis]) terms *= size, fours |= size % 4 == 0;
    }
    if (!nouter || !fours || terms > TERMS_MAX || (a.added && uop_numel(a.added) > 1)) return NULL;
    if (a.added) a.added = reshape(g, a.added, NULL, 0);
    U y = reduce(g, UOP_ADD, mul(g, seen(g, &a, DT_I32), seen(g, &b, DT_I32)), inner_axes, ninner, true);
    if (a.added) y = add(g, y, mul(g, sum_over(g, seen(g, &b, DT_I32), inner), a.added));
    return reduce(g, UOP_ADD, mul(g, mul(g, cast(g, y, DT_F32), s_x), s_w), outer_axes, nouter, true);
}

/* u times f, where the constants that u is made with take the factor: (q s + b) f is q (s f) + b f. NULL: they cannot.
 * f > 0 */
static U constants_times(Graph *g, U u, U f, Constants *constants)
{
    if (u->dtype != DT_F32) return NULL;
    if (made_of_constants(constants, g, u)) return mul(g, u, f);
    if (view_is(u)) {
        U src[RANK_MAX + 1] = { constants_times(g, u->src[0], f, constants) };
        for (uint32_t k = 1; k < u->nsrc; k++) src[k] = u->src[k];
        return src[0] ? uop_with(g, u, src) : NULL;
    }
    if (u->op == UOP_MUL) {
        bool first = made_of_constants(constants, g, u->src[0]);
        if (!first && !made_of_constants(constants, g, u->src[1])) return NULL;
        return mul(g, u->src[first], mul(g, u->src[!first], f));
    }
    if (u->op != UOP_ADD && u->op != UOP_MAX) return NULL;
    U a = constants_times(g, u->src[0], f, constants), b = a ? constants_times(g, u->src[1], f, constants) : NULL;
    return b ? UOP(g, (Op)u->op, DT_VOID, NO_ARG, a, b) : NULL;
}

/* x / c for a known number c, where x has been rounded otherwise already: an exact quotient is worth nothing there, and
 * takes as long as all the rest of quantising. */
static U times_reciprocal(Graph *g, U u, Constants *constants)
{
    U c;
    double v =
        uop_numel(u->src[1]) == 1 && values_of(g, u->src[1], &c, 1) && c && uop_is_const(c) ? uop_const_float(c) : 0;
    if (!(v >= 0x1p-100 && v <= 0x1p100)) return NULL;
    U f = uop_float(g, DT_F32, 1 / v), y = constants_times(g, u->src[0], f, constants);
    return y ? y : mul(g, u->src[0], f);
}

/* The device's dot products of bytes: of u8 and i8, else of i8 and i8. */
static const Wmma *row_of(const Target *t)
{
    const Wmma *found = NULL;
    for (int i = 0; i < WMMA_COUNT; i++) {
        const Wmma *w = &wmma_row[i];
        bool bytes = (w->a == DT_U8 || w->a == DT_I8) && w->b == DT_I8;
        if ((t->wmma >> i & 1) && bytes && (!found || w->a == DT_U8)) found = w;
    }
    return found;
}

const UOp *sum_integers(Graph *g, const UOp *root, const Target *t)
{
    const Wmma *row = row_of(t);
    if (!row) return root;
    Arena *a = arena_new();
    uint32_t n;
    const UOp **order = uop_toposort(g, &root, 1, a, &n), **map = NEW_N(a, const UOp *, root->id + 1);
    Constants constants = { .arena = a };
    bool *loose = NEW_N(a, bool, root->id + 1);             /* floats made of a sum that is rounded otherwise now */
    for (uint32_t i = 0; i < n; i++) {
        U u = order[i], y = NULL;
        bool *mine = &loose[u->id];
        const UOp **src = NEW_N(a, const UOp *, u->nsrc + 1);
        for (uint32_t k = 0; k < u->nsrc; k++)
            src[k] = map[u->src[k]->id],
            *mine |= (is_view(u) || op_is((Op)u->op, FLAG_ALU)) && u->dtype == DT_F32 && loose[u->src[k]->id];
        U v = uop_with(g, u, src),
          p = v->op == UOP_REDUCE && v->arg.i == UOP_ADD && v->src[0]->op == UOP_MUL ? v->src[0] : NULL;
        uint32_t node = graph_origin(g, uop_origin(g, u));
        for (uint32_t k = 0; p && k < 2 && !y; k++)
            y = in_integers(g, v, p->src[k], p->src[!k], row, t->clears_halos, &constants);
        for (uint32_t k = 0; p && k < 2 && !y; k++) y = in_blocks(g, v, p->src[k], p->src[!k], row, &constants);
        *mine |= y && y->dtype == DT_F32;
        if (u->op == UOP_DIV && loose[u->src[0]->id]) y = times_reciprocal(g, v, &constants);
        graph_origin(g, node);
        map[u->id] = y ? y : v;
    }
    root = map[root->id];
    arena_free(a);
    return root;
}
