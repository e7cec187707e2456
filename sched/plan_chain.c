/* Chains of a plan: which steps follow one another part by part. See chain.h.
 *
 * Comes in: steps in order, the slices of their kernels. Goes out: runs of steps in each of which part p of a step
 * touches, of what another writes, only bytes that no other part of that step touches; how many parts go together, so
 * that what they touch stays in the second cache; and for what only the run touches a window a thread in place of the
 * whole. Steps have equally many parts, but the first may have fewer (keys that are turned for all rows of a head):
 * what they write is in windows, since threads that share the parts which one of theirs serves each do it. So is what
 * steps write that do parts around a group's too, as far as the schedule wished for such a chain; the zeros around such
 * a value are in its window. */
#include "sched/chain.h"

enum { CHAIN_MOST = 16 };                      /* steps */

/* halo: of each buffer, or NULL. mixed, wide: there may be steps of fewer parts, and of parts around a group's. */
typedef struct {
    Plan *p;
    const Halo *const *halo;
    const Target *t;
    bool mixed, wide;
} Search;

static bool is_coarse(const PlanChain *c, const Step *s) { return s->thread_count < c->parts; }

/* Of parts of the chain, without those around a group's. */
static Slice slice_of(const Plan *p, const PlanChain *c, const Step *s, uint32_t arg)
{
    Slice slice = p->kernel[s->kernel]->slice[arg];
    slice.every *= c->parts / s->thread_count;
    return slice;
}

static Slice slice_around(const Plan *p, const PlanChain *c, const Step *s, uint32_t arg)
{
    Slice slice = slice_of(p, c, s, arg);
    slice.first -= s->before * slice.stride;
    slice.span += (s->before + s->after) * slice.stride;
    return slice;
}

/* Is nothing of what the step writes written by two of its parts? */
static bool writes_once(const PlanChain *c, const Step *s, uint32_t arg, const Slice *slice)
{
    return !(s->access[arg] & ACCESS_WRITE) || slice->every == c->parts / s->thread_count;
}

/* Does the order of the two count, and is it kept where each part of the one follows that part of the other? The zeros
 * around what one of them stores are there for all parts behind the chain only. */
static bool is_met(const Plan *p, const PlanChain *c, const Step *a, const Step *b, bool *kept)
{
    bool met = false;
    for (uint32_t i = 0; i < a->narg; i++)
        for (uint32_t j = 0; j < b->narg; j++)
            if (a->arg[i] == b->arg[j] && ((a->access[i] | b->access[j]) & ACCESS_WRITE)) {
                Slice one = slice_of(p, c, a, i), two = slice_of(p, c, b, j);
                met = true;
                *kept &= !p->buffer[a->arg[i]].zeroed && writes_once(c, a, i, &one) && writes_once(c, b, j, &two) &&
                    slices_disjoint(&one, &two);
            }
    return met;
}

/* ---- parts around a group's ---- */

/* What step a does around a part for step b behind it; false: one does not follow the other part by part. */
static bool widen(const Plan *p, const PlanChain *c, Step *a, const Step *b)
{
    for (uint32_t i = 0; i < a->narg; i++)
        for (uint32_t j = 0; j < b->narg; j++) {
            int64_t before, after;
            if (a->arg[i] != b->arg[j] || !((a->access[i] | b->access[j]) & ACCESS_WRITE)) continue;
            Slice one = slice_of(p, c, a, i), two = slice_of(p, c, b, j);
            bool same = slices_disjoint(&one, &two) && !p->buffer[a->arg[i]].zeroed;
            if (same && !b->before && !b->after) continue;
            if ((a->access[i] & ACCESS_READ) || (b->access[j] & ACCESS_WRITE) ||
                !slices_overlap(&one, &two, &before, &after))
                return false;
            if (a->before < before + b->before) a->before = before + b->before;
            if (a->after < after + b->after) a->after = after + b->after;
        }
    return true;
}

static void narrow(const Plan *p, uint32_t first, uint32_t last)
{
    for (uint32_t i = first; i <= last && i < p->nstep; i++) p->step[i].before = p->step[i].after = 0;
}

/* Sets what steps do around a group's parts. What a step reads then that one behind it writes would be too new. */
static bool widen_all(const Plan *p, const PlanChain *c)
{
    bool good = c->every == 1 && p->step[c->first].wish;
    narrow(p, c->first, c->last);
    for (uint32_t i = c->first; i <= c->last; i++) good &= p->step[i].wish == p->step[c->first].wish;
    for (uint32_t i = c->last; i-- > c->first && good;)
        for (uint32_t j = c->last; j > i && good; j--) good = widen(p, c, &p->step[i], &p->step[j]);
    for (uint32_t i = c->first; i <= c->last && good; i++) {
        const Step *s = &p->step[i];
        for (uint32_t j = i + 1; j <= c->last && good && (s->before || s->after); j++)
            for (uint32_t k = 0; k < s->narg && good; k++)
                for (uint32_t a = 0; a < p->step[j].narg && good; a++)
                    good = s->arg[k] != p->step[j].arg[a] || !(p->step[j].access[a] & ACCESS_WRITE);
    }
    return good;
}

static bool is_plain(const Step *s)
{
    return s->kind == STEP_KERNEL && !s->once && !s->may_idle && s->thread_count > 1;
}

/* One step more, which may be the first of more parts. */
static bool joins(const Search *s, PlanChain *c)
{
    const Plan *p = s->p;
    const Step *b = &p->step[c->last + 1];
    PlanChain with = { c->first, c->last + 1, 1, b->thread_count, 1 };
    if (with.last >= p->nstep || with.last - c->first >= CHAIN_MOST || !is_plain(b) ||
        b->device != p->step[c->first].device)
        return false;
    with.every = with.parts / p->step[c->first].thread_count;
    bool kept = with.parts == c->parts ||
        (s->mixed && c->every == 1 && with.parts % c->parts == 0 && parts_balance(c->parts, s->t));
    if (s->wide) kept = kept && widen_all(p, &with);
    for (uint32_t i = c->first; i < with.last && kept && !s->wide; i++) is_met(p, &with, &p->step[i], b, &kept);
    if (kept) *c = with;
    return kept;
}

static bool meets_others(const Plan *p, const PlanChain *c, uint32_t at)
{
    bool kept = true, met = false;
    for (uint32_t i = c->first; i <= c->last && !met; i++)
        met = i != at && is_met(p, c, &p->step[i < at ? i : at], &p->step[i < at ? at : i], &kept);
    return met;
}

/* Bytes that a part touches: of buffers that it has for itself, and of others. Each buffer once, as its first user
 * does. */
static void count_bytes(const Plan *p, const PlanChain *c, int64_t *own, int64_t *common)
{
    *own = *common = 0;
    for (uint32_t i = c->first; i <= c->last; i++)
        for (uint32_t k = 0; k < p->step[i].narg && !is_coarse(c, &p->step[i]); k++) {
            const Slice *s = &p->kernel[p->step[i].kernel]->slice[k];
            bool seen = false;
            for (uint32_t j = c->first; j < i && !seen; j++)
                for (uint32_t a = 0; a < p->step[j].narg && !is_coarse(c, &p->step[j]); a++)
                    seen |= p->step[j].arg[a] == p->step[i].arg[k];
            if (!seen) *(s->stride > 0 && s->every == 1 ? own : common) += s->touched;
        }
}

/* Of what steps store around a group's parts. */
static int64_t bytes_around(const Plan *p, const PlanChain *c)
{
    int64_t bytes = 0;
    for (uint32_t i = c->first; i <= c->last; i++) {
        const Step *s = &p->step[i];
        for (uint32_t k = 0; k < s->narg; k++)
            if (s->access[k] & ACCESS_WRITE) bytes += (s->before + s->after) * p->kernel[s->kernel]->slice[k].touched;
    }
    return bytes;
}

static int64_t group_of(const Plan *p, const PlanChain *c, const Target *t)
{
    int64_t own, common, most = (c->parts + t->threads - 1) / t->threads, room;
    count_bytes(p, c, &own, &common);
    room = t->l2_bytes * 3 / 4 - common - bytes_around(p, c);
    if (room < t->l2_bytes / 4) room = t->l2_bytes / 4;
    int64_t group = own > 0 ? room / own : most;
    return group < 1 ? 1 : group < most ? group : most;
}

/* The window of a buffer that nothing but this chain touches, a thread's; 0: there is none. Parts that a step of fewer
 * serves do not go together with others. */
static int64_t window_of(const Plan *p, uint32_t buffer, const PlanChain *c, Slice *all)
{
    int64_t end = 0;
    *all = (Slice){ .first = INT64_MAX };
    for (uint32_t i = c->first; i <= c->last; i++)
        for (uint32_t k = 0; k < p->step[i].narg; k++) {
            if (p->step[i].arg[k] != buffer) continue;
            Slice s = slice_around(p, c, &p->step[i], k);
            if (s.stride <= 0 || !s.span || (all->stride && (s.stride != all->stride || s.every != all->every)))
                return 0;
            all->stride = s.stride;
            all->every = s.every;
            all->first = s.first < all->first ? s.first : all->first;
            end = s.first + s.span > end ? s.first + s.span : end;
        }
    int64_t groups = all->every > 1 ? 1 : c->group;
    return all->stride ? ((groups - 1) * all->stride + end - all->first + LINE - 1) / LINE * LINE : 0;
}

/* What only one step of the chain stores, and the zeros around it. */
static bool border_of(const Plan *p, uint32_t buffer, const PlanChain *c, const Halo *halo, Border *out)
{
    Slice stored = { 0 }, reads = { 0 };
    uint32_t writers = 0;
    for (uint32_t i = c->first; i <= c->last; i++)
        for (uint32_t k = 0; k < p->step[i].narg; k++) {
            if (p->step[i].arg[k] != buffer) continue;
            bool writes = p->step[i].access[k] & ACCESS_WRITE;
            Slice s = writes ? slice_of(p, c, &p->step[i], k) : slice_around(p, c, &p->step[i], k);
            writers += writes;
            if (writes) stored = s;
            else if (!reads.span || s.first + s.span > reads.first + reads.span) reads = s;
        }
    return halo && writers == 1 && halo_border(out, halo, &stored, &reads);
}

/* Must what the step stores there be in windows? */
static bool is_private(const Plan *p, const PlanChain *c, const Step *s, uint32_t arg)
{
    bool around = s->before || s->after;
    if (!(s->access[arg] & ACCESS_WRITE)) return false;
    for (uint32_t i = c->first; i <= c->last && p->buffer[s->arg[arg]].zeroed; i++)
        around |= &p->step[i] != s && step_touches(&p->step[i], s->arg[arg]);
    return around || is_coarse(c, s);
}

/* Can all be that must? */
static bool has_windows(const Search *s, const PlanChain *c)
{
    const Plan *p = s->p;
    bool good = true;
    for (uint32_t i = c->first; i <= c->last && good; i++)
        for (uint32_t k = 0; k < p->step[i].narg && good; k++) {
            uint32_t buffer = p->step[i].arg[k];
            const PlanBuffer *b = &p->buffer[buffer];
            Slice all;
            Border border;
            if (!is_private(p, c, &p->step[i], k)) continue;
            good = b->kind == MEM_ARENA && !(p->step[i].access[k] & ACCESS_READ) && window_of(p, buffer, c, &all) > 0 &&
                (!b->zeroed || border_of(p, buffer, c, s->halo[buffer], &border));
            for (uint32_t j = 0; j < p->nstep && good; j++)
                good = (j >= c->first && j <= c->last) || !step_touches(&p->step[j], buffer);
        }
    return good;
}

/* The chain from this step on, as wide as it may be; steps of fewer parts are at its front. */
static PlanChain chain_from(const Search *s, uint32_t first)
{
    const Plan *p = s->p;
    PlanChain c = { first, first, 1, p->step[first].thread_count, 1 };
    while (c.last + 1 < p->nstep && joins(s, &c)) { }
    narrow(p, first, c.last + 1);
    while (c.last > c.first && !meets_others(p, &c, c.last)) c.last--;
    while (c.first < c.last && !meets_others(p, &c, c.first)) c.first++;
    c.parts = p->step[c.last].thread_count;
    c.every = c.parts / p->step[c.first].thread_count;
    return c;
}

/* Parts around a group's where some step does such; else steps of fewer parts. */
static PlanChain best_from(Search *s, uint32_t first)
{
    const Plan *p = s->p;
    bool around = false;
    s->wide = true, s->mixed = false;
    PlanChain c = chain_from(s, first);
    bool good = c.first < c.last && widen_all(p, &c) && has_windows(s, &c);
    for (uint32_t i = c.first; i <= c.last && good; i++)
        for (uint32_t k = 0; k < p->step[i].narg; k++) around |= is_private(p, &c, &p->step[i], k);
    if (good && around) return c;
    narrow(p, c.first, c.last);
    s->wide = false, s->mixed = true;
    c = chain_from(s, first);
    if (c.every == 1 || has_windows(s, &c)) return c;
    s->mixed = false;
    return chain_from(s, first);
}

void plan_chain(Plan *p, const Halo *const *halo, const Target *t)
{
    Search s = { .p = p, .halo = halo, .t = t };
    p->chain = NEW_N(p->arena, PlanChain, p->nstep / 2 + 1);
    if (!t->has_threads || p->jumps) return;
    for (uint32_t i = 0; i < p->nstep; i++) {
        if (!is_plain(&p->step[i])) continue;
        PlanChain c = best_from(&s, i);
        if (c.first == c.last) continue;
        c.group = group_of(p, &c, t);
        p->chain[p->nchain++] = c;
        for (uint32_t k = c.first; k <= c.last; k++) p->step[k].chain = p->nchain;
        i = c.last;
    }
}

void plan_window(Plan *p, uint32_t buffer, const PlanChain *c, const Halo *halo, const Target *t)
{
    PlanBuffer *b = &p->buffer[buffer];
    Slice all;
    Border border;
    int64_t window = window_of(p, buffer, c, &all);
    bool must = false;
    for (uint32_t i = c->first; i <= c->last; i++)
        for (uint32_t k = 0; k < p->step[i].narg; k++) {
            const Step *s = &p->step[i];
            if (s->arg[k] != buffer || !is_private(p, c, s, k)) continue;
            must = true;
            Slice stored = slice_of(p, c, s, k);
            if (s->before || s->after)
                b->kept = (s->after - 1) * all.stride + stored.first + stored.span - all.first;
        }
    if (!window || (!must && all.every == 1 && window * t->threads >= b->size_bytes)) return;
    if (b->zeroed) {
        if (!border_of(p, buffer, c, halo, &border)) return;
        Border *kept = NEW(p->arena, Border);
        *kept = border;
        b->border = kept;
        b->zeroed = false;
    }
    b->window = window;
    b->stride = all.stride;
    b->every = all.every;
    b->first = all.first;
    b->size_bytes = window * t->threads;
}
