/* Chains of a plan: which steps follow one another part by part. See chain.h.
 *
 * Comes in: steps in order, the slices of their kernels. Goes out: runs of steps with equally many parts, in each of
 * which part p of a step touches, of what another writes, only bytes that no other part of that step touches; how
 * many parts go together, so that what they touch stays in the second cache; and for what only the run touches a
 * window a thread in place of the whole. */
#include "sched/chain.h"

enum { CHAIN_MOST = 16 };                      /* steps */

static bool is_known(const Slice *s) { return s->stride > 0 && s->span > 0; }

/* Does the order of the two count, and is it kept where each part of the one follows that part of the other? The zeros
 * around what one of them stores are there for all parts behind the chain only. */
static bool is_met(const Plan *p, const Step *a, const Step *b, bool *kept)
{
    const Slice *one = p->kernel[a->kernel]->slice, *two = p->kernel[b->kernel]->slice;
    bool met = false;
    for (uint32_t i = 0; i < a->narg; i++)
        for (uint32_t j = 0; j < b->narg; j++)
            if (a->arg[i] == b->arg[j] && ((a->access[i] | b->access[j]) & ACCESS_WRITE)) {
                met = true;
                *kept &= !p->buffer[a->arg[i]].zeroed && slices_disjoint(&one[i], &two[j]);
            }
    return met;
}

static bool is_plain(const Step *s)
{
    return s->kind == STEP_KERNEL && !s->once && !s->may_idle && s->thread_count > 1;
}

static bool joins(const Plan *p, uint32_t first, uint32_t at)
{
    const Step *a = &p->step[first], *b = &p->step[at];
    bool kept = at - first < CHAIN_MOST && is_plain(b) && a->thread_count == b->thread_count &&
        a->device == b->device;
    for (uint32_t i = first; i < at && kept; i++) is_met(p, &p->step[i], &p->step[at], &kept);
    return kept;
}

static bool meets_others(const Plan *p, uint32_t at, uint32_t first, uint32_t last)
{
    bool kept = true, met = false;
    for (uint32_t i = first; i <= last && !met; i++) met = i != at && is_met(p, &p->step[i], &p->step[at], &kept);
    return met;
}

/* Bytes that a part touches: of buffers that it has for itself, and of others. Each buffer once, as its first user
 * does. */
static void count_bytes(const Plan *p, const PlanChain *c, int64_t *own, int64_t *common)
{
    *own = *common = 0;
    for (uint32_t i = c->first; i <= c->last; i++)
        for (uint32_t k = 0; k < p->step[i].narg; k++) {
            const Slice *s = &p->kernel[p->step[i].kernel]->slice[k];
            bool seen = false;
            for (uint32_t j = c->first; j < i && !seen; j++)
                for (uint32_t a = 0; a < p->step[j].narg; a++) seen |= p->step[j].arg[a] == p->step[i].arg[k];
            if (!seen) *(s->stride > 0 ? own : common) += s->touched;
        }
}

static int64_t group_of(const Plan *p, const PlanChain *c, const Target *t)
{
    int64_t own, common, count = p->step[c->first].thread_count, most = (count + t->threads - 1) / t->threads, room;
    count_bytes(p, c, &own, &common);
    room = t->l2_bytes * 3 / 4 - common;
    if (room < t->l2_bytes / 4) room = t->l2_bytes / 4;
    int64_t group = own > 0 ? room / own : most;
    return group < 1 ? 1 : group < most ? group : most;
}

void plan_chain(Plan *p, const Target *t)
{
    p->chain = NEW_N(p->arena, PlanChain, p->nstep / 2 + 1);
    if (!t->has_threads || p->jumps) return;
    for (uint32_t i = 0; i < p->nstep; i++) {
        PlanChain c = { .first = i, .last = i };
        if (!is_plain(&p->step[i])) continue;
        while (c.last + 1 < p->nstep && joins(p, i, c.last + 1)) c.last++;
        while (c.last > c.first && !meets_others(p, c.last, c.first, c.last)) c.last--;
        while (c.first < c.last && !meets_others(p, c.first, c.first, c.last)) c.first++;
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
    int64_t stride = 0, low = INT64_MAX, end = 0;
    for (uint32_t i = c->first; i <= c->last; i++)
        for (uint32_t k = 0; k < p->step[i].narg; k++) {
            const Slice *s = &p->kernel[p->step[i].kernel]->slice[k];
            if (p->step[i].arg[k] != buffer) continue;
            if (!is_known(s) || (stride && s->stride != stride)) return;
            stride = s->stride;
            low = s->first < low ? s->first : low;
            end = s->first + s->span > end ? s->first + s->span : end;
        }
    int64_t window = ((c->group - 1) * stride + end - low + LINE - 1) / LINE * LINE;
    if (!stride || window * t->threads >= b->size_bytes) return;
    b->window = window;
    b->stride = stride;
    b->first = low;
    b->size_bytes = window * t->threads;
}
