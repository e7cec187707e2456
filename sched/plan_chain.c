/* Chains of a plan: which steps follow one another part by part. See chain.h.
 *
 * Comes in: steps in order, the slices of their kernels. Goes out: runs of steps in each of which part p of a step
 * touches, of what another writes, only bytes that no other part of that step touches; how many parts go together, so
 * that what they touch stays in the second cache; and for what only the run touches a window a thread in place of the
 * whole. Steps have equally many parts, but the first may have fewer (keys that are turned for all rows of a head):
 * what they write is in windows, since threads that share the parts which one of theirs serves each do it. */
#include "sched/chain.h"

enum { CHAIN_MOST = 16 };                      /* steps */

static bool is_coarse(const PlanChain *c, const Step *s) { return s->thread_count < c->parts; }

/* Of parts of the chain. */
static Slice slice_of(const Plan *p, const PlanChain *c, const Step *s, uint32_t arg)
{
    Slice slice = p->kernel[s->kernel]->slice[arg];
    slice.every *= c->parts / s->thread_count;
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

static bool is_plain(const Step *s)
{
    return s->kind == STEP_KERNEL && !s->once && !s->may_idle && s->thread_count > 1;
}

/* One step more, which may be the first of more parts. */
static bool joins(const Plan *p, PlanChain *c, bool mixed, const Target *t)
{
    const Step *b = &p->step[c->last + 1];
    PlanChain with = { c->first, c->last + 1, 1, b->thread_count, 1 };
    if (with.last >= p->nstep || with.last - c->first >= CHAIN_MOST || !is_plain(b) ||
        b->device != p->step[c->first].device)
        return false;
    with.every = with.parts / p->step[c->first].thread_count;
    bool kept = with.parts == c->parts ||
        (mixed && c->every == 1 && with.parts % c->parts == 0 && parts_balance(c->parts, t));
    for (uint32_t i = c->first; i < with.last && kept; i++) is_met(p, &with, &p->step[i], b, &kept);
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

static int64_t group_of(const Plan *p, const PlanChain *c, const Target *t)
{
    int64_t own, common, most = (c->parts + t->threads - 1) / t->threads, room;
    count_bytes(p, c, &own, &common);
    room = t->l2_bytes * 3 / 4 - common;
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
            Slice s = slice_of(p, c, &p->step[i], k);
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

/* Can all that steps of fewer parts write be in windows? */
static bool has_windows(const Plan *p, const PlanChain *c)
{
    bool good = true;
    for (uint32_t i = c->first; i <= c->last && good; i++)
        for (uint32_t k = 0; k < p->step[i].narg && is_coarse(c, &p->step[i]) && good; k++) {
            uint32_t buffer = p->step[i].arg[k];
            const PlanBuffer *b = &p->buffer[buffer];
            Slice all;
            if (!(p->step[i].access[k] & ACCESS_WRITE)) continue;
            good = b->kind == MEM_ARENA && !b->zeroed && !b->halo && !(p->step[i].access[k] & ACCESS_READ) &&
                window_of(p, buffer, c, &all) > 0;
            for (uint32_t j = 0; j < p->nstep && good; j++)
                good = (j >= c->first && j <= c->last) || !step_touches(&p->step[j], buffer);
        }
    return good;
}

/* The chain from this step on, with steps of fewer parts at its front only if they may be there. */
static PlanChain chain_from(const Plan *p, uint32_t first, bool mixed, const Target *t)
{
    PlanChain c = { first, first, 1, p->step[first].thread_count, 1 };
    while (c.last + 1 < p->nstep && joins(p, &c, mixed, t)) { }
    while (c.last > c.first && !meets_others(p, &c, c.last)) c.last--;
    while (c.first < c.last && !meets_others(p, &c, c.first)) c.first++;
    c.parts = p->step[c.last].thread_count;
    c.every = c.parts / p->step[c.first].thread_count;
    return c.every > 1 && !has_windows(p, &c) ? chain_from(p, first, false, t) : c;
}

void plan_chain(Plan *p, const Target *t)
{
    p->chain = NEW_N(p->arena, PlanChain, p->nstep / 2 + 1);
    if (!t->has_threads || p->jumps) return;
    for (uint32_t i = 0; i < p->nstep; i++) {
        if (!is_plain(&p->step[i])) continue;
        PlanChain c = chain_from(p, i, true, t);
        if (c.first == c.last) continue;
        c.group = group_of(p, &c, t);
        p->chain[p->nchain++] = c;
        for (uint32_t k = c.first; k <= c.last; k++) p->step[k].chain = p->nchain;
        i = c.last;
    }
}

void plan_window(Plan *p, uint32_t buffer, const PlanChain *c, const Target *t)
{
    PlanBuffer *b = &p->buffer[buffer];
    Slice all;
    int64_t window = window_of(p, buffer, c, &all);
    if (!window || (all.every == 1 && window * t->threads >= b->size_bytes)) return;
    b->window = window;
    b->stride = all.stride;
    b->every = all.every;
    b->first = all.first;
    b->size_bytes = window * t->threads;
}
