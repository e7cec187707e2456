/* Slices: which elements of its params a part of a kernel touches.
 *
 * Comes in: a kernel whose indices are flat, and the digits of a part's number. Each index is a sum of ranges times
 * numbers, and of a rest with bounds. The digits make where the slice begins, all else how long it is. Where an
 * index depends on a digit in another way, or digits do not count through the buffer, the slice has no stride; where
 * bounds are not known, no span. Parts that differ in the last digits only share a slice that depends on none of
 * these. */
#include <stdlib.h>
#include <string.h>

#include "sched/chain.h"

enum { FAR = 1 << 30 };             /* bounds beyond are none */

/* An index: coef[r] * range r .. + [low, high]. other: ranges on which it depends in another way. */
typedef struct {
    int64_t coef[64], low, high;
    uint64_t linear, other;
    bool bounded;
    const UOp **range;              /* by number, those of the kernel */
} Line;

static void add_bounds(Line *l, int64_t low, int64_t high, int64_t scale)
{
    int64_t far = FAR;
    l->bounded &= low >= -far && high <= far && scale >= -far && scale <= far;
    if (!l->bounded) return;
    l->low += scale < 0 ? scale * high : scale * low;
    l->high += scale < 0 ? scale * low : scale * high;
}

/* What the linear part of these ranges adds, at most; they are no part of it any more. */
static void close_ranges(Line *l, uint64_t ranges)
{
    for (uint64_t left = l->linear & ranges; left; left &= left - 1) {
        int number = __builtin_ctzll(left);
        add_bounds(l, 0, l->range[number]->src[0]->vmax - 1, l->coef[number]);
        l->coef[number] = 0;
    }
    l->other |= l->linear & ranges;
    l->linear &= ~ranges;
}

static void read_index(Line *l, const UOp *u, int64_t scale);

/* Where e < n, and e times a number is part of the index, that part is below n times the number. */
static void read_gate(Line *l, const UOp *gate)
{
    Line e = { .bounded = true, .range = l->range };
    int64_t scale = 0, most = 0;
    if (gate->op == UOP_AND) {
        read_gate(l, gate->src[0]);
        read_gate(l, gate->src[1]);
        return;
    }
    if (gate->op != UOP_CMPLT || !uop_is_const(gate->src[1])) return;
    read_index(&e, gate->src[0], 1);
    if (!e.linear || e.other || !e.bounded || e.low || e.high) return;
    if ((e.linear & ~l->linear) || (e.linear & l->other)) return;
    for (uint64_t left = e.linear; left; left &= left - 1) {
        int number = __builtin_ctzll(left);
        if (e.coef[number] <= 0 || l->coef[number] <= 0 || l->coef[number] % e.coef[number]) return;
        if (scale && l->coef[number] != scale * e.coef[number]) return;
        scale = l->coef[number] / e.coef[number];
        most += e.coef[number] * (l->range[number]->src[0]->vmax - 1);
    }
    for (uint64_t left = e.linear; left; left &= left - 1) l->coef[__builtin_ctzll(left)] = 0;
    l->linear &= ~e.linear;
    l->other |= e.linear;
    add_bounds(l, 0, most < gate->src[1]->arg.i - 1 ? most : gate->src[1]->arg.i - 1, scale);
}

/* The last part of a ragged axis begins early: one number as long as e < n, another from there on. */
static bool read_ragged(Line *l, const UOp *u, int64_t scale)
{
    Line one = { .bounded = true, .range = l->range };
    if (u->op != UOP_WHERE || u->dtype != DT_INDEX) return false;
    read_index(&one, u->src[1], 1);
    read_gate(&one, u->src[0]);
    close_ranges(&one, ~UINT64_C(0));
    if (!one.bounded) return false;
    int64_t low = u->src[2]->vmin, high = u->src[2]->vmax;
    add_bounds(l, one.low < low ? one.low : low, one.high > high ? one.high : high, scale);
    l->other |= u->ranges;
    return true;
}

static void read_index(Line *l, const UOp *u, int64_t scale)
{
    if (read_ragged(l, u, scale)) return;
    if (u->op == UOP_RANGE && llabs(scale) < FAR) {
        l->coef[range_number(u)] += scale;
        l->linear |= range_bit(u);
        l->range[range_number(u)] = u;
    } else if (u->op == UOP_ADD) {
        read_index(l, u->src[0], scale);
        read_index(l, u->src[1], scale);
    } else if (u->op == UOP_MUL && uop_is_const(u->src[1]) && llabs(u->src[1]->arg.i) < FAR && llabs(scale) < FAR) {
        read_index(l, u->src[0], scale * u->src[1]->arg.i);
    } else {
        add_bounds(l, u->vmin, u->vmax, scale);
        l->other |= u->ranges;
    }
}

/* Where the digits lead, and how far the rest reaches. */
static Slice slice_of(Line *l, const Digit *digit, uint32_t n)
{
    Slice s = { .stride = 0, .every = 1 };
    uint64_t digits = 0;
    bool counts = true, begun = false;
    double touched = 1;
    int64_t next = 0;               /* what a step of the digits inside, all together, would be */
    for (uint32_t k = n; k-- > 0;) {
        int number = range_number(digit[k].range);
        int64_t step = l->coef[number] * digit[k].block;
        digits |= range_bit(digit[k].range);
        if ((l->linear | l->other) >> number & 1) touched *= (double)digit[k].block;
        add_bounds(l, 0, digit[k].block - 1, l->coef[number]);
        counts &= !(l->other >> number & 1) && step >= 0 && (!begun || step == next);
        if (!begun && !step) s.every *= digit[k].count;
        else if (!begun) s.stride = step, begun = true;
        next = step * digit[k].count;
    }
    for (uint64_t left = (l->linear | l->other) & ~digits; left; left &= left - 1)
        touched *= (double)l->range[__builtin_ctzll(left)]->src[0]->vmax;
    close_ranges(l, ~digits);
    if (!counts) s.stride = -1;
    if (s.stride <= 0) s.every = 1;
    s.first = l->low;
    s.span = l->bounded ? l->high - l->low + 1 : 0;
    s.touched = touched < (double)s.span ? (int64_t)touched : s.span;
    return s;
}

static void join(Slice *all, const Slice *one, bool first)
{
    if (first) {
        *all = *one;
        return;
    }
    int64_t low = all->first < one->first ? all->first : one->first;
    int64_t end = all->first + all->span, other = one->first + one->span;
    if (all->stride != one->stride || all->every != one->every) all->stride = -1, all->every = 1;
    all->span = all->span && one->span ? (end > other ? end : other) - low : 0;
    all->touched = all->touched + one->touched < all->span ? all->touched + one->touched : all->span;
    all->first = low;
    all->ranges |= one->ranges;
}

int64_t access_width(const UOp *address)
{
    const UOp *length = address->op == UOP_SHRINK ? address->src[2]->src[0] : NULL;
    return !length ? uop_numel(address) : address->src[2]->nsrc == 1 && uop_is_const(length) ? length->arg.i : 0;
}

/* Elements from the index on; 0: they are scattered. */
static int64_t length_of(const UOp *address)
{
    return address->op == UOP_SHRINK || uop_numel(address) == 1 ? access_width(address) : 0;
}

Slice access_slice(const UOp *address, const UOp *gate, const UOp **range, const Digit *digit, uint32_t n)
{
    Line l = { .bounded = true, .range = range };
    const UOp *index = address->op == UOP_SHRINK ? address->src[1]->src[0] : address->src[1];
    int64_t width = length_of(address);
    read_index(&l, index, 1);
    if (gate) read_gate(&l, gate);
    add_bounds(&l, 0, width - 1, 1);
    Slice s = slice_of(&l, digit, n);
    int64_t bytes = dtype_size((DType)address->src[0]->dtype), stride = s.stride < 0 ? -1 : s.stride * bytes;
    return (Slice){ stride, s.every, s.first * bytes, width ? s.span * bytes : 0, s.touched * bytes, index->ranges };
}

void kernel_slices(Slice *out, const Kernel *k, const Digit *digit, uint32_t n)
{
    Arena *a = arena_new();
    uint32_t count;
    const UOp **order = uop_toposort(k->g, &k->root, 1, a, &count), *range[64] = { 0 };
    uint64_t seen = 0;
    for (uint32_t i = 0; i < k->nparam; i++) out[i] = (Slice){ .stride = -1, .every = 1 };
    for (uint32_t i = 0; i < count; i++) {
        const UOp *u = order[i];
        if (u->op == UOP_RANGE) range[range_number(u)] = u;
        bool access = u->op == UOP_LOAD || u->op == UOP_STORE;
        const UOp *gate = access && u->nsrc > 2 ? u->src[2] : NULL;
        if (access || u->op == UOP_GUARD) u = u->src[access ? 0 : 2];
        if (u->op != UOP_INDEX || u->src[0]->op != UOP_PARAM || (!access && order[i]->op != UOP_GUARD)) continue;
        uint32_t slot = (uint32_t)u->src[0]->arg.i;
        Slice s = access_slice(u, gate, range, digit, n);
        join(&out[slot], &s, !(seen >> slot & 1));
        seen |= UINT64_C(1) << slot;
    }
    arena_free(a);
}

bool slices_disjoint(const Slice *a, const Slice *b)
{
    int64_t low = a->first < b->first ? a->first : b->first, x = a->first + a->span, y = b->first + b->span;
    bool known = a->stride > 0 && a->span > 0 && b->span > 0;
    return known && a->stride == b->stride && a->every == b->every && (x > y ? x : y) - low <= a->stride;
}

static int64_t floor_over(int64_t a, int64_t b) { return a / b - (a % b < 0); }

bool slices_overlap(const Slice *w, const Slice *r, int64_t *before, int64_t *after)
{
    bool known = w->stride > 0 && w->stride == r->stride && w->every == 1 && r->every == 1 && w->span > 0 &&
        r->span > 0 && w->span <= w->stride;
    if (!known) return false;
    int64_t first = floor_over(r->first - w->first - w->span, w->stride) + 1,
            last = -floor_over(w->first - r->first - r->span, w->stride) - 1;
    *before = first < 0 ? -first : 0;
    *after = last > 0 ? last : 0;
    return true;
}

/* Parts are rows of an image: of the first axis that is longer than 1, and at most the next one has zeros too. */
bool halo_border(Border *out, const Halo *h, const Slice *w, const Slice *r)
{
    const HaloAxis *axis = h->axis, *last = axis + h->rank - 1;
    if (!uop_is_const(h->element)) return false;
    for (uint32_t k = 0; k < h->rank; k++)
        if (!uop_is_const(axis[k].size)) return false;
    bool image = axis->size->arg.i == 1;
    if (h->rank != (image ? 3 : 2) && !(image && h->rank == 2)) return false;
    int64_t pitch = h->element->arg.i, gap = 0, at = 0;
    if (h->rank == 3 || !image) {
        at = (last->before + last->size->arg.i) * pitch;
        gap = (last->before + last->after) * pitch;
        pitch = at + last->after * pitch;
    }
    *out = (Border){ pitch, at, gap, w->first, w->first + w->span, r->first + r->span, h->fill };
    return w->stride > 0 && w->stride % pitch == 0 && w->span > 0 && r->span > 0;
}

void kernel_slice(Kernel *k)
{
    Digit digit[DIGITS_MAX];
    const UOp *axis[64];
    uint32_t n = opt_axes(k, axis, 64), digits = 0;
    memset(k->slice, 0, sizeof k->slice);
    for (uint32_t i = 0; i < n; i++) {
        if (range_type(axis[i]) != AXIS_THREAD) continue;
        if (digits == DIGITS_MAX || !uop_is_const(axis[i]->src[0])) return;
        digit[digits++] = (Digit){ axis[i], axis[i]->src[0]->vmax, 1 };
    }
    if (digits) kernel_slices(k->slice, k, digit, digits);
}

/* ---- digits ---- */

static void sort_by_step(const UOp **range, uint32_t n, const Line *l)
{
    for (uint32_t i = 1; i < n; i++)
        for (uint32_t k = i; k && l->coef[range_number(range[k])] > l->coef[range_number(range[k - 1])]; k--) {
            const UOp *other = range[k];
            range[k] = range[k - 1];
            range[k - 1] = other;
        }
}

uint32_t kernel_order(const Kernel *k, uint32_t slot, const UOp *out[64])
{
    Arena *a = arena_new();
    const UOp *range[64] = { 0 }, *axis[64];
    Line l = { .bounded = true, .range = range };
    uint32_t count, n = 0;
    bool found = false;
    const UOp **order = uop_toposort(k->g, &k->root, 1, a, &count);
    for (uint32_t i = 0; i < count && !found; i++) {
        const UOp *u = order[i];
        found = u->op == UOP_INDEX && u->src[0]->op == UOP_PARAM && (uint32_t)u->src[0]->arg.i == slot;
        if (found) read_index(&l, u->src[1], 1);
    }
    uint32_t axes = opt_axes(k, axis, 64);
    for (uint32_t i = 0; i < axes; i++) {
        int number = range_number(axis[i]);
        bool loop = range_type(axis[i]) == AXIS_LOOP && uop_is_const(axis[i]->src[0]);
        if (loop && l.coef[number] > 0 && !(l.other >> number & 1)) out[n++] = axis[i];
    }
    sort_by_step(out, n, &l);
    arena_free(a);
    return n;
}

uint32_t kernel_digits(Digit *out, const UOp *const *range, uint32_t n, int64_t parts)
{
    uint32_t digits = 0;
    for (uint32_t i = 0; i < n && parts > 1; i++) {
        int64_t size = range[i]->src[0]->vmax, count = parts % size == 0 ? size : size % parts == 0 ? parts : 0;
        if (size < 2) continue;
        if (!count || digits == DIGITS_MAX) return 0;
        out[digits++] = (Digit){ range[i], count, size / count };
        parts /= count;
    }
    return parts == 1 ? digits : 0;
}
