/* Steps of several devices take turns: what they can do at the same time stands side by side, in the order of devices,
 * so that they meet at the plan's waits.
 *
 * Comes in: steps in order, chains known, before buffers have places. Goes out: the same steps; a turn is at most one
 * of each device, or a chain of it, none of which waits for another of that turn. Of equal work, the same kernel, all
 * have the same turn where they can. Must hold: a step stands behind what writes what it reads or writes, and behind
 * what reads what it writes; host functions, which may set sizes, stay where they are, as does what runs at load. */
#include "sched/chain.h"

#include <string.h>

/* A step, or those of a chain. level: how many stand one upon another below it. */
typedef struct {
    uint32_t first, last, level;
    int32_t device;
    uint32_t *need, nneed, cap;
    bool done;
} Unit;
/* Of a buffer, the units so far that write and that read it. */
typedef struct { uint32_t *unit, n, cap; } Users;
typedef struct {
    Plan *p;
    Arena *arena;
    Unit *unit;
    uint32_t nunit;
    Users *writer, *reader;             /* by buffer */
    Step *out;
    uint32_t nout;
} Turns;

static void add(Arena *a, uint32_t **list, uint32_t *n, uint32_t *cap, uint32_t v)
{
    if (*n == *cap) {
        uint32_t *more = NEW_N(a, uint32_t, *cap = *cap ? 2 * *cap : 4);
        if (*n) memcpy(more, *list, *n * sizeof *more);
        *list = more;
    }
    (*list)[(*n)++] = v;
}

static void needs(Turns *t, uint32_t unit, const Users *u)
{
    Unit *x = &t->unit[unit];
    for (uint32_t k = 0; k < u->n; k++) {
        if (u->unit[k] == unit) continue;
        add(t->arena, &x->need, &x->nneed, &x->cap, u->unit[k]);
        if (x->level <= t->unit[u->unit[k]].level) x->level = t->unit[u->unit[k]].level + 1;
    }
}

/* Parts of a join are written in any order. */
static void link(Turns *t, uint32_t unit)
{
    const Unit *x = &t->unit[unit];
    for (uint32_t i = x->first; i <= x->last; i++) {
        const Step *s = &t->p->step[i];
        for (uint32_t k = 0; k < s->narg; k++) {
            Users *w = &t->writer[s->arg[k]], *r = &t->reader[s->arg[k]];
            if (!(s->access[k] & ACCESS_PART)) needs(t, unit, w);
            if (s->access[k] & ACCESS_WRITE) needs(t, unit, r);
        }
    }
    for (uint32_t i = x->first; i <= x->last; i++) {
        const Step *s = &t->p->step[i];
        for (uint32_t k = 0; k < s->narg; k++) {
            Users *w = &t->writer[s->arg[k]], *r = &t->reader[s->arg[k]];
            if (s->access[k] & ACCESS_WRITE) add(t->arena, &w->unit, &w->n, &w->cap, unit);
            if (s->access[k] & ACCESS_READ) add(t->arena, &r->unit, &r->n, &r->cap, unit);
        }
    }
}

static bool is_ready(const Turns *t, uint32_t unit)
{
    const Unit *x = &t->unit[unit];
    bool ready = true;
    for (uint32_t k = 0; k < x->nneed && ready; k++) ready = t->unit[x->need[k]].done;
    return ready;
}

/* What belongs to all has the first one's turns. */
static int32_t queue_of(const Turns *t, uint32_t unit)
{
    return t->unit[unit].device < 0 ? 0 : t->unit[unit].device;
}

/* The next unit of a device from this one on; nunit: there is none. */
static uint32_t head(const Turns *t, int32_t d, uint32_t from)
{
    while (from < t->nunit && (t->unit[from].done || queue_of(t, from) != d)) from++;
    return from;
}

static bool same_work(const Plan *p, const Unit *a, const Unit *b)
{
    bool same = a->last - a->first == b->last - b->first;
    for (uint32_t i = a->first; i <= a->last && same; i++) {
        const Step *x = &p->step[i], *y = &p->step[b->first + i - a->first];
        same = x->kind == STEP_KERNEL && y->kind == STEP_KERNEL && x->kernel == y->kernel;
    }
    return same;
}

/* Of the next few units of a device, one that may have this turn: of the same work as `like`, else the first. */
static uint32_t candidate(const Turns *t, int32_t d, uint32_t at, const Unit *like)
{
    enum { AHEAD = 12 };
    uint32_t best = at < t->nunit && is_ready(t, at) ? at : t->nunit;
    for (uint32_t k = 0, i = at; k < AHEAD && like && i < t->nunit; k++, i = head(t, d, i + 1))
        if (same_work(t->p, &t->unit[i], like) && is_ready(t, i)) return i;
    return best;
}

static void emit(Turns *t, uint32_t unit)
{
    Unit *x = &t->unit[unit];
    const Step *step = &t->p->step[x->first];
    if (step->chain) {
        PlanChain *c = &t->p->chain[step->chain - 1];
        c->first = t->nout;
        c->last = t->nout + x->last - x->first;
    }
    for (uint32_t i = x->first; i <= x->last; i++) t->out[t->nout++] = t->p->step[i];
    x->done = true;
}

/* Devices do the same one step after the other: who is further than others, by what it has ready, waits for them. */
static void take_turns(Turns *t)
{
    int32_t n = t->p->devices;
    uint32_t next[n], chosen[n], end = t->nout;
    memset(next, 0, sizeof next);
    for (uint32_t u = 0; u < t->nunit; u++) end += t->unit[u].last - t->unit[u].first + 1;
    while (t->nout < end) {
        const Unit *like = NULL;
        uint32_t level = UINT32_MAX;
        for (int32_t d = 0; d < n; d++) {
            next[d] = head(t, d, next[d]);
            chosen[d] = candidate(t, d, next[d], like);
            if (chosen[d] == t->nunit) continue;
            const Unit *u = &t->unit[chosen[d]];
            if (u->level < level) like = u, level = u->level;
        }
        for (int32_t d = 0; d < n; d++)
            if (chosen[d] < t->nunit && t->unit[chosen[d]].level == level) emit(t, chosen[d]);
    }
}

/* The units of steps from .. to - 1, and what each waits for. */
static void find_units(Turns *t, uint32_t from, uint32_t to)
{
    t->unit = NEW_N(t->arena, Unit, to - from + 1);
    t->nunit = 0;
    memset(t->writer, 0, t->p->nbuffer * sizeof *t->writer);
    memset(t->reader, 0, t->p->nbuffer * sizeof *t->reader);
    for (uint32_t i = from, last; i < to; i = last + 1) {
        uint32_t chain = t->p->step[i].chain;
        for (last = i; chain && last + 1 < to && t->p->step[last + 1].chain == chain;) last++;
        t->unit[t->nunit] = (Unit){ .first = i, .last = last, .device = t->p->step[i].device };
        link(t, t->nunit++);
    }
}

static bool stays(const Step *s) { return s->once || s->kind == STEP_HOST || s->kind == STEP_JUMP; }

void plan_turns(Plan *p)
{
    if (p->devices < 2 || p->jumps) return;
    Arena *a = arena_new();
    Turns t = { .p = p,
                .arena = a,
                .writer = NEW_N(a, Users, p->nbuffer + 1),
                .reader = NEW_N(a, Users, p->nbuffer + 1),
                .out = NEW_N(a, Step, p->nstep + 1) };
    for (uint32_t i = 0, end; i < p->nstep; i = end) {
        for (end = i; end < p->nstep && !stays(&p->step[end]);) end++;
        if (end > i) {
            find_units(&t, i, end);
            take_turns(&t);
        } else t.out[t.nout++] = p->step[end++];
    }
    if (p->nstep) memcpy(p->step, t.out, p->nstep * sizeof *p->step);
    arena_free(a);
}
