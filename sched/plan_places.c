/* Places of a plan's buffers: from the steps that touch them to a memory and an offset.
 *
 * Comes in: all steps in order, and what each buffer is used for. Goes out: chains, the turns of devices, and a
 * place for each buffer: of load or of what must stay zero in the persistent arena, the others in the arena by
 * their lives. Must hold: what loops carry lives in all of the loop, what a chain or a turn touches through all of
 * it. */
#include "sched/plan_build.h"

enum { ALIGN = 256 };               /* bytes; what CUDA's widest loads and copy engines want, and four cache lines */

static bool meet(const Use *a, const Use *b) { return a->first <= b->last && b->first <= a->last; }

/* NULL: keeps a place of its own, as what an earlier run or the load left must stay. */
static const Halo *halo_of(const Build *b, uint32_t k)
{
    const Use *u = &b->use[k];
    return b->p->buffer[k].zeroed && !u->read_first && !u->once_write ? graph_buffer(b->s->g, buffer_slot(u->uop))->halo
                                                                      : NULL;
}

/* The kernel that stores first of what it surrounds has its zeros made: then it is like any other value. Not where a
 * jump may come to another kernel first. */
static bool clear_halo(Build *b, uint32_t k)
{
    const Step *s = &b->p->step[b->use[k].made];
    const Halo *halo = b->clears ? halo_of(b, k) : NULL;
    if (!halo || b->p->jumps || s->kind != STEP_KERNEL) return false;
    for (uint32_t i = 0; i < s->narg; i++)
        if (s->arg[i] == k) s->access[i] |= ACCESS_CLEAR;
    b->p->buffer[k].halo = halo;
    b->p->buffer[k].zeroed = false;
    return true;
}

void plan_note_again(Build *b)
{
    Plan *p = b->p;
    for (uint32_t k = 0; k < p->nbuffer; k++) b->use[k] = (Use){ .first = UINT32_MAX, .uop = b->use[k].uop };
    for (uint32_t i = 0; i < p->nstep; i++)
        for (uint32_t k = 0; k < p->step[i].narg; k++)
            plan_note_use(b, p->step[i].arg[k], p->step[i].access[k], p->step[i].once, i);
}

/* Buffers with zeros at the same places follow one another in one memory: what each stores lies between them. */
static bool share_halo(Build *b, uint32_t k)
{
    PlanBuffer *all = b->p->buffer;
    const Halo *halo = halo_of(b, k);
    for (uint32_t j = 0; j < k && halo; j++) {
        bool is_free = halo_of(b, j) == halo;
        for (uint32_t i = 0; i < k && is_free; i++)
            is_free = halo_of(b, i) != halo || all[i].offset != all[j].offset || !meet(&b->use[i], &b->use[k]);
        if (is_free) return all[k].offset = all[j].offset, true;
    }
    return false;
}

static TgStatus place_of(Build *b, uint32_t k)
{
    PlanBuffer *m = &b->p->buffer[k];
    const Use *u = &b->use[k];
    m->once = !u->run_use;
    if (m->kind == MEM_INPUT) m->offset = u->uop->arg.i;
    if (m->kind != MEM_ARENA) return TG_OK;
    const BufferInfo *info = graph_buffer(b->s->g, buffer_slot(u->uop));
    if (info->data) {
        if (u->once_write || u->run_write)
            return fail(TG_INTERNAL, "plan: constant buffer %d is written", (int)buffer_slot(u->uop));
        *m = (PlanBuffer){ .kind = MEM_CONST,
                           .once = m->once,
                           .size_bytes = m->size_bytes,
                           .data = info->data,
                           .dtype = m->dtype,
                           .shape = m->shape };
        return TG_OK;
    }
    if (u->once_write && u->run_write)
        return fail(TG_INTERNAL, "plan: buffer %d is written at load and by a run", (int)buffer_slot(u->uop));
    if (u->read_first && !info->zeroed && m->size_bytes)
        return fail(TG_INTERNAL, "plan: buffer %d is read before it is written", (int)buffer_slot(u->uop));
    if (clear_halo(b, k)) return TG_OK;
    if (m->zeroed && (!shape_static(m->shape) || (info->halo && info->halo->fill)))
        return fail(TG_INTERNAL, "plan: buffer %d needs a halo that no step makes", (int)buffer_slot(u->uop));
    if (m->zeroed || (u->once_write && u->run_use)) {
        m->kind = MEM_PERSIST;
        if (m->zeroed && share_halo(b, k)) return TG_OK;
        m->offset = b->p->persist_bytes;
        b->p->persist_bytes += (m->size_bytes + ALIGN - 1) / ALIGN * ALIGN;
    }
    return TG_OK;
}

/* What enters a loop, leaves it or goes from iteration to iteration lives in all of it. Inner loops come first. */
static void extend_lives(Build *b)
{
    for (uint32_t l = 0; l < b->nloop; l++)
        for (uint32_t k = 0; k < b->p->nbuffer; k++) {
            Use *u = &b->use[k];
            uint32_t first = b->loop[l].first, last = b->loop[l].last;
            if (u->first == UINT32_MAX || u->last < first || u->first > last ||
                (u->first >= first && u->last <= last && !u->read_first))
                continue;
            if (u->first > first) u->first = first;
            if (u->last < last) u->last = last;
        }
}

enum { TURN_MOST = 8 };             /* steps a device that are done at once, at most */

/* What devices do at the same time stands side by side, in the order of devices: what one of these steps touches lives
 * through all of them. */
static void turn_lives(Build *b)
{
    Plan *p = b->p;
    uint32_t *first = NEW_N(p->arena, uint32_t, p->nstep + 1), *last = NEW_N(p->arena, uint32_t, p->nstep + 1);
    for (uint32_t i = 0, end; i < p->nstep; i = end) {
        uint32_t most = i + TURN_MOST * (uint32_t)p->devices;
        for (end = i + 1; end < p->nstep && end < most && p->step[end].device >= p->step[end - 1].device;) end++;
        for (uint32_t k = i; k < end; k++) first[k] = i, last[k] = end - 1;
    }
    for (uint32_t k = 0; k < p->nbuffer; k++) {
        Use *u = &b->use[k];
        if (u->first == UINT32_MAX) continue;
        u->first = first[u->first];
        u->last = last[u->last];
    }
}

/* Of a chain's steps some threads are at the last while others are at the first. What only they touch may be in
 * windows. */
static void chain_lives(Build *b, const Target *t)
{
    Plan *p = b->p;
    for (uint32_t k = 0; k < p->nbuffer; k++) {
        Use *u = &b->use[k];
        if (u->first == UINT32_MAX) continue;
        uint32_t from = p->step[u->first].chain, to = p->step[u->last].chain;
        const PlanBuffer *m = &p->buffer[k];
        bool own = from && from == to && m->kind == MEM_ARENA && !m->halo && !u->read_first;
        if (own) plan_window(p, k, &p->chain[from - 1], halo_of(b, k), t);
        if (from) u->first = p->chain[from - 1].first;
        if (to) u->last = p->chain[to - 1].last;
    }
}

static const Guard *guard_of(const Build *b, uint32_t k)
{
    const UOp *u = b->use[k].uop;
    return u->op == UOP_BUFFER ? graph_buffer(b->s->g, buffer_slot(u))->guard : NULL;
}

/* The words of guards stand side by side, so that one look is enough. */
static void place_guards(Build *b)
{
    Plan *p = b->p;
    const Guard **guard = NEW_N(p->arena, const Guard *, p->nbuffer);
    for (uint32_t k = 0; k < p->nbuffer; k++) {
        if (!(guard[p->nguard] = guard_of(b, k))) continue;
        p->buffer[k].kind = MEM_PERSIST;
        p->buffer[k].zeroed = true;
        p->buffer[k].offset = GUARD_BYTES * p->nguard++;
    }
    p->guard = guard;
    p->persist_bytes = (p->nguard * GUARD_BYTES + ALIGN - 1) / ALIGN * ALIGN;
}

/* The first of those that lie in one place, one after the other. Inside of a chain only windows alike do. */
static uint32_t first_of(const Build *b, uint32_t k)
{
    const PlanBuffer *m = &b->p->buffer[k], *old = &b->p->buffer[b->into[k]];
    bool one = m->kind == MEM_ARENA && old->kind == MEM_ARENA && m->size_bytes == old->size_bytes &&
        !m->kept && !old->kept && m->window == old->window && m->stride == old->stride && m->every == old->every &&
        m->first == old->first &&
        (m->window || b->use[k].first >= b->use[b->into[k]].last);
    return b->into[k] == k || !one ? k : first_of(b, b->into[k]);
}

static void place_arena(Build *b)
{
    Plan *p = b->p;
    Life *life = NEW_N(p->arena, Life, p->nbuffer + 1);
    p->life = life;
    for (uint32_t k = 0; k < p->nbuffer; k++)
        if (p->buffer[k].kind == MEM_ARENA && first_of(b, k) == k) {
            life[p->buffer[k].life = p->nlife++] =
                (Life){ .size_bytes = p->buffer[k].size_bytes, .first = b->use[k].first, .last = b->use[k].last };
        }
    for (uint32_t k = 0; k < p->nbuffer; k++) {
        if (p->buffer[k].kind != MEM_ARENA || first_of(b, k) == k) continue;
        Life *l = &life[p->buffer[k].life = p->buffer[first_of(b, k)].life];
        if (b->use[k].last > l->last) l->last = b->use[k].last;
    }
    p->arena_bytes = memplan_place(life, p->nlife, ALIGN);
    for (uint32_t k = 0; k < p->nbuffer; k++)
        if (p->buffer[k].kind == MEM_ARENA) p->buffer[k].offset = life[p->buffer[k].life].offset;
}

TgStatus plan_place(Build *b, const Target *t)
{
    Plan *p = b->p;
    const Halo **halo = NEW_N(p->arena, const Halo *, p->nbuffer + 1);
    for (uint32_t k = 0; k < p->nbuffer; k++) halo[k] = halo_of(b, k);
    plan_chain(p, halo, t);
    if (p->devices > 1) {
        plan_turns(p);
        plan_note_again(b);
    }
    extend_lives(b);
    plan_in_place(b);
    chain_lives(b, t);
    if (p->devices > 1) turn_lives(b);
    place_guards(b);
    for (uint32_t k = 0; k < p->nbuffer; k++)
        if (!guard_of(b, k)) TRY(place_of(b, k));
    place_arena(b);
    return TG_OK;
}
