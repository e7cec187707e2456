/* Buffers that lie where another one did: what the last kernel that reads a buffer stores takes its place.
 *
 * Comes in: steps in order, lives of buffers, and of each kernel the params whose memory the stored one may have
 * (in_place.c). Goes out: Build.into. Must hold: no step waits for another that it would not wait for anyway, and what
 * is made outside of a loop is there in its next iteration. */
#include "sched/plan_build.h"

static bool same_loops(const Build *b, uint32_t one, uint32_t two)
{
    bool same = true;
    for (uint32_t l = 0; l < b->nloop && same; l++) {
        const Range *r = &b->loop[l];
        same = (one >= r->first && one <= r->last) == (two >= r->first && two <= r->last);
    }
    return same;
}

/* The second reads what the first stores. */
static bool follows(const Step *first, const Step *second)
{
    for (uint32_t i = 0; i < first->narg; i++)
        for (uint32_t k = 0; k < second->narg && first->access[i] & ACCESS_WRITE; k++)
            if (first->arg[i] == second->arg[k] && second->access[k] & ACCESS_READ) return true;
    return false;
}

/* Those that read the buffer before are done when this step begins, as one that it waits for reads what they store. */
static bool readers_done(const Build *b, uint32_t buffer, uint32_t step)
{
    bool done = true;
    for (uint32_t i = b->use[buffer].made + 1; i < step && done; i++) {
        if (!step_touches(&b->p->step[i], buffer)) continue;
        done = false;
        for (uint32_t k = i + 1; k <= step && !done; k++) done = follows(&b->p->step[i], &b->p->step[k]);
    }
    return done;
}

/* It lives from one of these steps to the other, made and read in the same iterations. */
static bool is_passing(const Build *b, uint32_t buffer)
{
    const PlanBuffer *m = &b->p->buffer[buffer];
    const Use *u = &b->use[buffer];
    return m->kind == MEM_ARENA && !m->zeroed && !m->halo && !u->read_first && !u->once_write && u->made == u->first &&
        same_loops(b, u->first, u->last);
}

static void look_at(Build *b, uint32_t at)
{
    const Step *s = &b->p->step[at];
    const Kernel *k = s->kind == STEP_KERNEL ? b->p->kernel[s->kernel] : NULL;
    uint32_t made = UINT32_MAX;
    for (uint32_t i = 0; k && i < s->narg; i++)
        if (s->access[i] & ACCESS_WRITE) made = s->arg[i];
    if (!k || !k->in_place || s->once || s->may_idle || b->use[made].first != at || !is_passing(b, made)) return;
    for (uint32_t i = 0; i < s->narg; i++) {
        uint32_t old = s->arg[i];
        bool fits = k->in_place >> i & 1 && b->use[old].last == at && is_passing(b, old) &&
            b->p->buffer[old].size_bytes == b->p->buffer[made].size_bytes && readers_done(b, old, at);
        for (uint32_t j = 0; j < s->narg && fits; j++) fits = j == i || s->arg[j] != old;
        if (!fits) continue;
        b->into[made] = old;
        return;
    }
}

void plan_in_place(Build *b)
{
    b->into = NEW_N(b->p->arena, uint32_t, b->p->nbuffer + 1);
    for (uint32_t k = 0; k < b->p->nbuffer; k++) b->into[k] = k;
    for (uint32_t i = 0; i < b->p->nstep && b->p->devices < 2; i++) look_at(b, i);
}
