/* Which kernels should be chained: see chain.h. The heuristics cut their loops as it is said here, and choose the rest
 * of their lists for a part.
 *
 * From each kernel on, and for each number of parts into which what it stores can be cut, a chain is at most as long as
 * what a part touches stays in the second cache. Those chains are taken that together keep most bytes from memory, with
 * the fewest parts. Products must keep rows and columns enough for tiles. Values that no cache holds (the scores of a
 * long attention) are kept in the third where parts for the second would be too small. A kernel before the chain that
 * makes what several parts read of one slice, and nobody else reads, goes with it in fewer parts. Where a part reads of
 * parts around it, what these cost once more in each thread, and to keep them from group to group, counts against it.
 */
#include "graph/base/memory.h"
#include "sched/chain.h"

#include <stdlib.h>
#include <string.h>

#include "graph/base/map.h"
#include "graph/wmma.h"

/* AHEAD: items between two kernels of a chain; PARTS_MOST: parts; PARTS_LEAST: for each thread, where they do not
 * balance; TILE: rows or columns that a product wants; STREAMS: rows that pay for weights from memory. */
enum { MEMBERS = 8, AHEAD = 6, PARTS_MOST = 4096, PARTS_LEAST = 16, TILE = 16, STREAMS = 96 };
/* Of a core's second cache: what a part may have of the third; values that are too many for the third. Attention over
 * 4096 of 8 heads: 202 ms and 1 GiB of values, 180 ms and 9 MiB in parts. NEARER: times as fast as the third. */
enum { FAR_ROOM = 4, FAR_LEAST = 16, NEARER = 8 };

typedef struct {
    uint32_t n, item[MEMBERS];
    uint32_t digits[MEMBERS];
    Digit digit[MEMBERS][DIGITS_MAX];
    Slice slice[MEMBERS][KERNEL_PARAMS];
    int64_t every[MEMBERS];         /* parts of the chain that one of the member's serves */
    int64_t before[MEMBERS], after[MEMBERS];    /* parts around those of a group that it does too */
    int64_t parts, own, common;
    bool far;                       /* what a part touches lies in the third cache */
    double saved, waste;            /* seconds of a core */
} Members;

/* What tiles do, by experience: a core's, a second. */
static const double TILE_FLOPS = 1.2e12;

/* Seconds of a core until it has so many bytes of a value back that a kernel has stored. Of few bytes most are in the
 * second caches. */
static double read_back(int64_t bytes, const Target *t)
{
    const Rates *r = target_rates(t);
    bool third = bytes <= t->l3_bytes / 2, second = bytes <= t->l2_bytes / 2 * t->threads;
    return (double)bytes / (third ? r->l3_rate * r->hz : r->memory_rate / t->threads) / (second ? NEARER : 1);
}

static bool can_join(const ScheduleItem *i)
{
    return i->kind == ITEM_KERNEL && !i->once && i->kernel->root->nsrc == 1 && i->kernel->nvar == 0;
}

static int written_slot(const Kernel *k)
{
    for (uint32_t i = 0; i < k->nparam; i++)
        if (k->param[i].written) return (int)i;
    return -1;
}

static int slot_of(const Kernel *k, const UOp *buffer)
{
    for (uint32_t i = 0; i < k->nparam; i++)
        if (uop_memory(k->param[i].buffer) == buffer) return (int)i;
    return -1;
}

/* ---- one more kernel ---- */

/* Elements of this loop in a part. */
static int64_t size_in_part(const UOp *axis, const Digit *digit, uint32_t n)
{
    for (uint32_t d = 0; d < n; d++)
        if (digit[d].range == axis) return digit[d].block;
    return axis->src[0]->vmax;
}

/* A sum of products keeps two loops that are long enough, if it had them. waste: seconds that its rows' tiles are not
 * filled. */
static bool keeps_tiles(const Kernel *k, const Digit *digit, uint32_t n, double *waste)
{
    const UOp *axis[64];
    uint32_t axes = opt_axes(k, axis, 64), before = 0, after = 0;
    bool product = false;
    for (uint32_t i = 0; i < axes; i++) {
        if (range_type(axis[i]) != AXIS_LOOP) continue;
        before += axis[i]->src[0]->vmax >= TILE;
        after += size_in_part(axis[i], digit, n) >= TILE;
    }
    Arena *a = arena_new();
    uint32_t count;
    const UOp **order = uop_toposort(k->g, &k->root, 1, a, &count);
    for (uint32_t i = 0; i < count; i++) {
        const UOp *u = order[i]->arg.i == UOP_ADD ? reduced_product(order[i]) : NULL;
        product |= u && u->src[0]->ranges != u->src[1]->ranges;
    }
    arena_free(a);
    double filled = 1;
    int64_t tiles;
    if (product && n && digit[n - 1].block > 1) wmma_cover(digit[n - 1].block, &tiles, &filled);
    if (filled > 0) *waste += (double)k->flops * (1 / filled - 1) / TILE_FLOPS;
    return !product || after >= (before < 2 ? before : 2);
}

/* Is nothing computed anew in each part? Every sum depends on each loop that is cut; where there is none, some load
 * does. */
static bool shares_no_work(const Kernel *k, const Digit *digit, uint32_t n)
{
    Arena *a = arena_new();
    uint32_t count;
    const UOp **order = uop_toposort(k->g, &k->root, 1, a, &count);
    uint64_t loads = 0, sums = ~UINT64_C(0);
    bool good = true, any = false;
    for (uint32_t i = 0; i < count; i++)
        if (order[i]->op == UOP_LOAD) loads |= order[i]->ranges;
        else if (order[i]->op == UOP_REDUCE) sums &= order[i]->ranges, any = true;
    uint64_t with = any ? sums : loads ? loads : ~UINT64_C(0);
    for (uint32_t d = 0; d < n; d++) good &= (with & range_bit(digit[d].range)) != 0;
    arena_free(a);
    return good;
}

/* Is a loop along which memory is contiguous left long enough for the lanes of a vector, if it was? */
static bool keeps_lanes(const Kernel *k, const Digit *digit, uint32_t n, const Target *t)
{
    Arena *a = arena_new();
    uint32_t count;
    const UOp **order = uop_toposort(k->g, &k->root, 1, a, &count);
    int64_t lanes = t->vector_bytes / (int64_t)sizeof(float);
    bool good = true;
    for (uint32_t d = 0; d < n; d++) {
        if (digit[d].block >= lanes || digit[d].range->src[0]->vmax < lanes) continue;
        for (uint32_t i = 0; i < count; i++)
            good &= order[i]->op != UOP_INDEX || order[i]->nsrc != 2 ||
                range_step(order[i]->src[1], digit[d].range) != 1;
    }
    arena_free(a);
    return good;
}

/* One of them writes what the other reads or writes. */
static bool share(const KernelParam *a, const KernelParam *b)
{
    return (a->written || b->written) && uop_memory(a->buffer) == uop_memory(b->buffer);
}

/* Does each part of k touch, of what members write or k does, its part only? Or others', of what it only reads. */
static bool fits(const Schedule *s, const Members *m, const Kernel *k, const Slice *slice)
{
    bool fit = true;
    int64_t before, after;
    for (uint32_t i = 0; i < m->n && fit; i++) {
        const Kernel *other = s->item[m->item[i]].kernel;
        for (uint32_t a = 0; a < other->nparam; a++)
            for (uint32_t b = 0; b < k->nparam; b++)
                if (share(&other->param[a], &k->param[b]))
                    fit &= slices_disjoint(&m->slice[i][a], &slice[b]) ||
                        (!other->param[a].read && !k->param[b].written &&
                         slices_overlap(&m->slice[i][a], &slice[b], &before, &after));
    }
    return fit;
}

/* What members do around a group's parts. */
static void widen(const Schedule *s, Members *m)
{
    for (uint32_t i = m->n; i-- > 0;) {
        const Kernel *k = s->item[m->item[i]].kernel;
        m->before[i] = m->after[i] = 0;
        for (uint32_t j = i + 1; j < m->n; j++) {
            const Kernel *next = s->item[m->item[j]].kernel;
            for (uint32_t a = 0; a < k->nparam; a++)
                for (uint32_t b = 0; b < next->nparam; b++) {
                    int64_t before = 0, after = 0;
                    if (!k->param[a].written || !share(&k->param[a], &next->param[b])) continue;
                    slices_overlap(&m->slice[i][a], &m->slice[j][b], &before, &after);
                    if (m->before[i] < before + m->before[j]) m->before[i] = before + m->before[j];
                    if (m->after[i] < after + m->after[j]) m->after[i] = after + m->after[j];
                }
        }
    }
}

/* Do members only touch what this one stores, and may zeros lie around it in a window? */
static bool may_be_window(const Schedule *s, const Members *m, uint32_t i, uint32_t param)
{
    const UOp *b = uop_memory(s->item[m->item[i]].kernel->param[param].buffer);
    const BufferInfo *info = b->op == UOP_BUFFER ? graph_buffer(s->g, buffer_slot(b)) : NULL;
    Border border;
    if (!info || s->item[m->item[i]].kernel->param[param].read) return false;
    for (uint32_t k = 0, at = 0; k < s->count; k++) {
        bool member = at < m->n && m->item[at] == k;
        int slot = s->item[k].kernel ? slot_of(s->item[k].kernel, b) : -1;
        at += member;
        if (slot < 0 || k == m->item[i]) continue;
        if (!member || s->item[k].kernel->param[slot].written ||
            (info->zeroed && (!info->halo || !halo_border(&border, info->halo, &m->slice[i][param],
                                                          &m->slice[at - 1][slot]))))
            return false;
    }
    return true;
}

/* Does a member behind this one touch the buffer, or write it? */
static bool is_met_after(const Schedule *s, const Members *m, uint32_t i, const UOp *buffer, bool written)
{
    bool met = false;
    for (uint32_t k = i + 1; k < m->n; k++) {
        const Kernel *next = s->item[m->item[k]].kernel;
        int slot = slot_of(next, buffer);
        met |= slot >= 0 && (!written || next->param[slot].written);
    }
    return met;
}

/* Is what members do around a group's parts their own, and what they read then older than the chain? Is what zeros lie
 * around their own? */
static bool may_widen(const Schedule *s, const Members *m)
{
    for (uint32_t i = 0; i < m->n; i++) {
        const Kernel *k = s->item[m->item[i]].kernel;
        bool around = m->before[i] || m->after[i];
        if (around && m->far) return false;
        for (uint32_t a = 0; a < k->nparam; a++) {
            const UOp *b = uop_memory(k->param[a].buffer);
            bool zeroed = b->op == UOP_BUFFER && graph_buffer(s->g, buffer_slot(b))->zeroed;
            if (around && is_met_after(s, m, i, b, true)) return false;
            bool own = k->param[a].written && (around || (zeroed && is_met_after(s, m, i, b, false)));
            if (own && !may_be_window(s, m, i, a)) return false;
        }
    }
    return true;
}

/* Bytes that members store around a group's parts; waste: seconds to keep them, and to compute them in each thread. */
static int64_t count_around(const Schedule *s, const Members *m, const Target *t, double *waste)
{
    const Rates *r = target_rates(t);
    double seconds = 0, flops_a_cycle = r->fma * 2 * t->vector_bytes / (double)sizeof(float);
    int64_t bytes = 0, most = (m->parts + t->threads - 1) / t->threads;
    for (uint32_t i = 0; i < m->n; i++) {
        const Kernel *k = s->item[m->item[i]].kernel;
        int64_t around = m->before[i] + m->after[i];
        seconds += (double)around * ((double)k->flops / flops_a_cycle + (double)k->bytes / r->l3_rate) / r->hz;
        for (uint32_t a = 0; a < k->nparam; a++)
            if (k->param[a].written) bytes += around * m->slice[i][a].touched;
    }
    int64_t room = cache_room(t) - m->common - bytes, group = m->own > 0 ? room / m->own : most;
    *waste = seconds * (double)t->threads / (double)m->parts +
        (double)(bytes * m->parts) / (double)(group < 1 ? 1 : group < most ? group : most) / r->l2_rate / r->hz;
    return bytes;
}

static bool is_seen(const Schedule *s, const Members *m, const UOp *buffer, bool written)
{
    for (uint32_t i = 0; i < m->n; i++) {
        int slot = slot_of(s->item[m->item[i]].kernel, buffer);
        if (slot >= 0 && (!written || s->item[m->item[i]].kernel->param[slot].written)) return true;
    }
    return false;
}

/* How often a part reads an element of a param. */
static int64_t reuse(const Kernel *k, const Slice *s, const Digit *digit, uint32_t n)
{
    const UOp *axis[64];
    uint32_t axes = opt_axes(k, axis, 64);
    int64_t times = 1;
    for (uint32_t i = 0; i < axes; i++)
        if (range_type(axis[i]) == AXIS_LOOP && !(s->ranges & range_bit(axis[i])))
            times *= size_in_part(axis[i], digit, n);
    return times;
}

/* What comes from outside passes the cache once, but for what all parts read: where a part reads it often enough to pay
 * for fetching it again, it need not stay. Constants are packed, and take more rows to pay. */
static void count_bytes(Members *m, const Kernel *k, uint32_t i, const Slice *s, const Digit *digit, uint32_t n)
{
    int64_t whole = size_in_bytes(uop_memory(k->param[i].buffer)),
            touched = s->span && s->touched < whole ? s->touched : whole;
    int64_t pays = k->param[i].constant ? STREAMS : m->far ? TILE : STREAMS / 3;
    if (s->stride > 0 && s->every == 1) m->own += k->param[i].written ? touched : touched / 2;
    else if (reuse(k, s, digit, n) < pays) m->common += touched;
}

static bool is_read_after(const Schedule *s, uint32_t item, const UOp *buffer)
{
    for (uint32_t i = item + 1; i < s->count; i++) {
        const Kernel *k = s->item[i].kernel;
        int slot = k ? slot_of(k, buffer) : -1;
        if (!k || (slot >= 0 && k->param[slot].read)) return true;
    }
    return false;
}

/* What it stores may lie where it reads what a member stored, part by part, and nobody does after it (in_place.c). */
static bool lies_in_place(const Schedule *s, const Members *m, uint32_t item, uint32_t slot, const Slice *slice)
{
    const Kernel *k = s->item[item].kernel;
    const UOp *to = uop_memory(k->param[slot].buffer);
    for (uint32_t i = 0; i < k->nparam && k->param[slot].written; i++) {
        const UOp *from = uop_memory(k->param[i].buffer);
        if (i != slot && is_seen(s, m, from, true) && from->dtype == to->dtype &&
            size_in_bytes(from) == size_in_bytes(to) && slice[i].stride == slice[slot].stride &&
            slice[i].every == slice[slot].every && slice[i].span == slice[slot].span && !is_read_after(s, item, from))
            return true;
    }
    return false;
}

static bool has_room(const Members *m, int64_t around, const Target *t)
{
    if (m->far) return m->own + m->common <= FAR_ROOM * t->l2_bytes;
    return m->own + around <= cache_room(t) && m->own + around + m->common <= t->l2_bytes * 7 / 8;
}

/* Can what is stored by this slot's loops be cut so? Writes the next member's digits and slices. */
static bool can_cut(const Schedule *s, Members *m, uint32_t item, uint32_t slot, int64_t parts, const Target *t)
{
    const Kernel *k = s->item[item].kernel;
    const UOp *range[64];
    Digit *digit = m->digit[m->n];
    Slice *slice = m->slice[m->n];
    uint32_t n = m->digits[m->n] = kernel_digits(digit, range, kernel_order(k, slot, range), parts);
    if (!n || (k->chain_parts && k->chain_parts != parts) || !keeps_tiles(k, digit, n, &m->waste) ||
        !shares_no_work(k, digit, n) || !keeps_lanes(k, digit, n, t))
        return false;
    m->item[m->n] = item;
    m->every[m->n] = m->parts / parts;
    kernel_slices(slice, k, digit, n);
    for (uint32_t i = 0; i < k->nparam; i++) slice[i].every *= m->every[m->n];
    return fits(s, m, k, slice);
}

static bool add_member(const Schedule *s, Members *chain, uint32_t item, uint32_t slot, const Target *t)
{
    Members with = *chain, *m = &with;
    const Kernel *k = s->item[item].kernel;
    if (!can_cut(s, m, item, slot, m->parts, t)) return false;
    const Digit *digit = m->digit[m->n];
    const Slice *slice = m->slice[m->n];
    uint32_t n = m->digits[m->n];
    for (uint32_t i = 0; i < k->nparam; i++) {
        const UOp *b = uop_memory(k->param[i].buffer);
        if (!is_seen(s, m, b, false) && !lies_in_place(s, m, item, i, slice))
            count_bytes(m, k, i, &slice[i], digit, n);
        if (k->param[i].read && b->op == UOP_BUFFER && is_seen(s, m, b, true))
            m->saved += read_back(size_in_bytes(b), t);
    }
    m->n++;
    widen(s, m);
    double waste;
    if (!has_room(m, count_around(s, m, t, &waste), t)) return false;
    *chain = with;
    return true;
}

/* ---- the chain from one kernel on ---- */

static bool depends(const Schedule *s, const Members *m, const Kernel *k)
{
    bool any = false;
    for (uint32_t i = 0; i < m->n && !any; i++) {
        const Kernel *other = s->item[m->item[i]].kernel;
        for (uint32_t a = 0; a < other->nparam; a++)
            for (uint32_t b = 0; b < k->nparam; b++) any |= share(&other->param[a], &k->param[b]);
    }
    return any;
}

/* A param by which k reads what a member stores; -1: there is none. */
static int joint(const Schedule *s, const Members *m, const Kernel *k)
{
    for (uint32_t b = 0; b < k->nparam; b++)
        if (k->param[b].read && is_seen(s, m, uop_memory(k->param[b].buffer), true)) return (int)b;
    return -1;
}

/* The next kernel that reads what a member stores, of the same device; all between must be independent of the members.
 */
static bool grow(const Schedule *s, Members *m, const Target *t)
{
    uint32_t from = m->item[m->n - 1] + 1;
    int32_t device = s->item[from - 1].device;
    for (uint32_t i = from, seen = 0; i < s->count && seen <= AHEAD && m->n < MEMBERS; i++) {
        const ScheduleItem *item = &s->item[i];
        if (item->kind != ITEM_KERNEL) return false;
        seen += item->device == device;
        if (!depends(s, m, item->kernel)) continue;
        int slot = can_join(item) && item->device == device ? joint(s, m, item->kernel) : -1;
        return slot >= 0 && add_member(s, m, i, (uint32_t)slot, t);
    }
    return false;
}

bool parts_balance(int64_t parts, const Target *t)
{
    return parts % t->threads == 0 || parts >= PARTS_LEAST * t->threads;
}

/* Numbers of parts that cut what the loops store: whole loops, and a divisor of the next. */
static uint32_t numbers(const UOp *const *range, uint32_t n, const Target *t, int64_t *out)
{
    uint32_t count = 0;
    int64_t before = 1;
    for (uint32_t i = 0; i < n; i++) {
        int64_t size = range[i]->src[0]->vmax;
        for (int64_t q = 2; q <= size && before * q <= PARTS_MOST && count < 64; q++)
            if (size % q == 0 && parts_balance(before * q, t)) out[count++] = before * q;
        if (before * size > PARTS_MOST) break;
        before *= size;
    }
    return count;
}

static double gain(const Schedule *s, const Members *m, const Target *t)
{
    double around;
    count_around(s, m, t, &around);
    return m->saved / (m->far ? 2 : 1) - m->waste - around;
}

/* The best chain of so many members from an item on, and what it and those behind its end save together. */
typedef struct {
    double gain, total;
    int64_t parts;
    uint32_t n, end;
    bool far;
} Offer;

/* A chain from this item on for each number of members. */
static void find_offers(const Schedule *s, uint32_t first, const Target *t, Offer *offer)
{
    const Kernel *k = s->item[first].kernel;
    int slot = written_slot(k);
    const UOp *range[64];
    int64_t parts[64];
    if (slot < 0 || size_in_bytes(uop_memory(k->param[slot].buffer)) <= t->l2_bytes / 2 * t->threads) return;
    uint32_t n = numbers(range, kernel_order(k, (uint32_t)slot, range), t, parts);
    bool many = size_in_bytes(uop_memory(k->param[slot].buffer)) > FAR_LEAST * t->l2_bytes * t->threads;
    for (uint32_t i = 0; i < n * (many ? 2 : 1); i++) {
        Members m = { .parts = parts[i % n], .far = i >= n };
        if (!add_member(s, &m, first, (uint32_t)slot, t)) continue;
        while (grow(s, &m, t)) {
            double saved = gain(s, &m, t);
            if (saved > offer[m.n].gain && may_widen(s, &m))
                offer[m.n] = (Offer){ saved, 0, m.parts, m.n, m.item[m.n - 1] + 1, m.far };
        }
    }
}

/* By item: the chain from it on with which all from there on save most; n 0: none begins there. */
static Offer *best_offers(const Schedule *s, const Target *t, Arena *a)
{
    Offer *best = NEW_N(a, Offer, s->count + 1);
    for (uint32_t i = s->count; i-- > 0;) {
        Offer offer[MEMBERS + 1] = { 0 };
        best[i].total = best[i + 1].total;
        if (can_join(&s->item[i])) find_offers(s, i, t, offer);
        for (uint32_t n = 2; n <= MEMBERS; n++) {
            if (!offer[n].n) continue;
            offer[n].total = offer[n].gain + best[offer[n].end].total;
            if (offer[n].total > best[i].total) best[i] = offer[n];
        }
    }
    return best;
}

/* The members of such a chain; false: kernels that are the same are already cut otherwise. */
static bool take(const Schedule *s, uint32_t first, const Offer *o, const Target *t, Members *m)
{
    *m = (Members){ .parts = o->parts, .far = o->far };
    if (!o->n || !add_member(s, m, first, (uint32_t)written_slot(s->item[first].kernel), t)) return false;
    while (m->n < o->n && grow(s, m, t)) { }
    return m->n == o->n;
}

/* ---- kernels of fewer parts before it ---- */

/* Parts of the chain that read the same of this buffer; 1: not only they, or not members only. */
static int64_t sharers(const Schedule *s, const Members *m, uint32_t item, const UOp *buffer)
{
    int64_t every = 0;
    uint32_t at = 0;
    for (uint32_t i = item + 1; i < s->count; i++) {
        const Kernel *k = s->item[i].kernel;
        bool member = at < m->n && m->item[at] == i;
        int slot = k ? slot_of(k, buffer) : -1;
        if (!k) return 1;
        if (slot >= 0) {
            int64_t own = member && m->slice[at][slot].stride > 0 ? m->slice[at][slot].every : 1;
            if (every && own != every) return 1;
            every = own;
        }
        at += member;
    }
    return every;
}

/* None between them and the first member depends on it, so that it may follow them. */
static bool may_wait(const Schedule *s, uint32_t item, uint32_t first)
{
    const Kernel *k = s->item[item].kernel;
    bool free = true;
    for (uint32_t i = item + 1; i < first && free; i++) {
        const Kernel *other = s->item[i].kernel;
        for (uint32_t a = 0; a < k->nparam; a++)
            for (uint32_t b = 0; b < other->nparam; b++) free &= !share(&k->param[a], &other->param[b]);
    }
    return free;
}

static void put_first(Members *m)
{
    Members was = *m;
    m->n = was.n + 1;
    for (uint32_t i = 0; i < m->n; i++) {
        uint32_t from = i ? i - 1 : was.n;
        m->item[i] = was.item[from];
        m->digits[i] = was.digits[from];
        m->every[i] = was.every[from];
        memcpy(m->digit[i], was.digit[from], sizeof *m->digit);
        memcpy(m->slice[i], was.slice[from], sizeof *m->slice);
    }
}

static void add_before(const Schedule *s, Members *m, const Target *t)
{
    uint32_t first = m->item[0];
    for (uint32_t i = 0; i < m->n; i++)
        if (m->before[i] || m->after[i]) return;
    for (uint32_t seen = 0, i = first; i-- > 0 && seen < AHEAD && m->n < MEMBERS; seen++) {
        if (s->item[i].kind != ITEM_KERNEL) return;
        const Kernel *k = s->item[i].kernel;
        int slot = can_join(&s->item[i]) && s->item[i].device == s->item[first].device ? written_slot(k) : -1;
        const UOp *b = slot >= 0 ? uop_memory(k->param[slot].buffer) : NULL;
        if (!b || b->op != UOP_BUFFER || k->param[slot].read || size_in_bytes(b) < t->l2_bytes) continue;
        int64_t every = sharers(s, m, i, b);
        if (every > 1 && m->parts % every == 0 && parts_balance(m->parts / every, t) && may_wait(s, i, first) &&
            can_cut(s, m, i, (uint32_t)slot, m->parts / every, t))
            put_first(m);
    }
}

/* ---- the OptOps of members ---- */

static bool wish(OptList *out, const Kernel *k, const Digit *digit, uint32_t n, const Target *t)
{
    Kernel *copy = kernel_clone(k);
    bool good = true;
    out->count = 0;
    for (uint32_t i = 0; i < n && good; i++) {
        OptOp cut = { .kind = OPT_SPLIT, .axis = (int8_t)i, .target = AXIS_THREAD, .top = digit[i].block > 1 };
        cut.factor = (int32_t)digit[i].count;
        for (int at = opt_axis(copy, range_number(digit[i].range)); good && at > (int)i; at--)
            good = opt_try(out, copy, (OptOp){ .kind = OPT_SWAP, .axis = (int8_t)at, .factor = at - 1 }, t);
        good = good && opt_try(out, copy, cut, t);
    }
    kernel_free(copy);
    if (!good) status_clear();
    return good;
}

/* What stands between the members goes before them. Returns the place of the last. */
static uint32_t gather(Schedule *s, const Members *m)
{
    uint32_t first = m->item[0], last = m->item[m->n - 1], others = last - first + 1 - m->n, at = 0, done = 0;
    ScheduleItem *moved = mem_new((last - first + 1) * sizeof *moved);
    for (uint32_t i = first; i <= last; i++) {
        bool member = done < m->n && m->item[done] == i;
        moved[member ? others + done++ : at++] = s->item[i];
    }
    memcpy(&s->item[first], moved, (last - first + 1) * sizeof *moved);
    mem_free(moved);
    return last;
}

static void set_wishes(Schedule *s, const Members *m, uint32_t number, const Target *t, Map *known)
{
    OptList list[MEMBERS];
    for (uint32_t i = 0; i < m->n; i++)
        if (!wish(&list[i], s->item[m->item[i]].kernel, m->digit[i], m->digits[i], t)) return;
    for (uint32_t i = 0; i < m->n; i++) {
        Kernel *k = s->item[m->item[i]].kernel;
        k->chain = list[i];
        k->chain_parts = m->parts / m->every[i];
        s->item[m->item[i]].chain = number;
        if (!map_gets(known, k->key)) map_puts(known, k->key, k);
    }
}

void sched_chains(Schedule *s, const Target *t)
{
    Arena *a = arena_new();
    Members *m = NEW(a, Members);
    Map known;
    map_init(&known, a);
    const Offer *best = t->has_threads ? best_offers(s, t, a) : NULL;
    for (uint32_t i = 0; i < s->count && best; i++) {
        const Kernel *like = s->item[i].kernel ? map_gets(&known, s->item[i].kernel->key) : NULL;
        if (like) s->item[i].kernel->chain_parts = like->chain_parts;
        if (!take(s, i, &best[i], t, m)) continue;
        add_before(s, m, t);
        set_wishes(s, m, i + 1, t, &known);
        i = gather(s, m);
    }
    for (uint32_t i = 0; i < s->count; i++) {
        Kernel *k = s->item[i].kernel;
        const Kernel *like = k ? map_gets(&known, k->key) : NULL;
        if (like) k->chain = like->chain;
    }
    arena_free(a);
}
