/* Host calls of a schedule, for a device that must be waited for before each: calls that need not wait for one another
 * stand side by side, so that one wait serves them all.
 *
 * Comes in: items in an order that respects their data. Goes out: the same items; in every stretch without loops and
 * branches first the kernels that wait for no call, then the calls that wait for those only, then the kernels that need
 * what these found, and so on. Must hold: what conflicts in a buffer, or needs a size that a call sets, keeps its
 * order.
 */
#include <stdlib.h>

#include "graph/base/map.h"
#include "sched/sched.h"

/* A time is even for kernels, odd for calls. last: of what wrote and what read a buffer. */
typedef struct { uint32_t wrote, read; } Last;
typedef struct { Last *last; Map set; } Times;            /* set: the time of the call that sets a size, by its name */
typedef struct { uint32_t time, at; ScheduleItem item; } Timed;

static bool is_call(const ScheduleItem *i) { return i->kind == ITEM_HOST; }
static bool is_control(const ScheduleItem *i)
{
    return i->kind != ITEM_KERNEL && i->kind != ITEM_HOST && i->kind != ITEM_COPY;
}

static Last *last_of(Times *t, const UOp *u)
{
    u = uop_memory(u);
    return u->op == UOP_BUFFER ? &t->last[buffer_slot(u)] : NULL;
}

static void wait_until(uint32_t *time, uint32_t when)
{
    if (*time < when) *time = when;
}

static void wait_for_size(Times *t, uint32_t *time, const char *name)
{
    wait_until(time, (uint32_t)(uintptr_t)map_gets(&t->set, name));
}

static void wait_for_sizes(Times *t, uint32_t *time, const UOp *u)
{
    if (u->op == UOP_DEFINE_VAR) wait_for_size(t, time, var_name(u));
    for (uint32_t k = 0; k < u->nsrc; k++) wait_for_sizes(t, time, u->src[k]);
}

/* One use of a buffer: with time NULL it is noted, else it is waited for. */
static void use(Times *t, uint32_t *time, uint32_t now, const UOp *u, bool read, bool written)
{
    Last *l = last_of(t, u);
    if (l && time && (read || written)) wait_until(time, l->wrote);
    if (l && time && written) wait_until(time, l->read);
    if (l && !time && read) wait_until(&l->read, now);
    if (l && !time && written) wait_until(&l->wrote, now);
}

static void uses(Times *t, uint32_t *time, uint32_t now, const ScheduleItem *i)
{
    for (uint32_t k = 0; i->kernel && k < i->kernel->nparam; k++)
        use(t, time, now, i->kernel->param[k].buffer, i->kernel->param[k].read, i->kernel->param[k].written);
    for (uint32_t k = 1; i->call && k < i->call->nsrc; k++) use(t, time, now, i->call->src[k], true, false);
    for (uint32_t k = 0; k < i->nout; k++)
        if (i->out[k]) use(t, time, now, i->out[k], false, true);
    for (uint32_t k = 0; k < 2; k++)
        if (i->mem[k]) use(t, time, now, i->mem[k], k == 1, k == 0);
}

static void sizes(Times *t, uint32_t *time, const ScheduleItem *i)
{
    for (uint32_t k = 0; i->kernel && k < i->kernel->nvar; k++) wait_for_size(t, time, var_name(i->kernel->var[k]));
    for (uint32_t k = 1; i->call && k < i->call->nsrc; k++)
        for (uint32_t d = 0; d < uop_rank(i->call->src[k]); d++) wait_for_sizes(t, time, uop_dim(i->call->src[k], d));
    for (uint32_t k = 0; k < i->nout; k++)
        for (uint32_t d = 0; i->out[k] && d < uop_rank(i->out[k]); d++) wait_for_sizes(t, time, uop_dim(i->out[k], d));
}

/* The sizes that a call sets are its own. */
static uint32_t time_of(Times *t, const ScheduleItem *i)
{
    uint32_t time = 0;
    uses(t, &time, 0, i);
    sizes(t, &time, i);
    time += time % 2 != is_call(i);
    uses(t, NULL, time, i);
    for (uint32_t k = 0; i->call && k < i->call->src[0]->nsrc; k++)
        if (i->call->src[0]->src[k]->op == UOP_DEFINE_VAR)
            map_puts(&t->set, var_name(i->call->src[0]->src[k]), (void *)(uintptr_t)time);
    return time;
}

static int by_time(const void *a, const void *b)
{
    const Timed *x = a, *y = b;
    return x->time != y->time ? (x->time < y->time ? -1 : 1) : x->at < y->at ? -1 : x->at > y->at;
}

/* What runs once, at load, is no part of it. */
static void sort_stretch(Schedule *s, uint32_t from, uint32_t to)
{
    Arena *a = arena_new();
    Times t = { .last = NEW_N(a, Last, graph_buffer_count(s->g) + 1) };
    Timed *timed = NEW_N(a, Timed, to - from + 1);
    map_init(&t.set, a);
    for (uint32_t i = from; i < to; i++)
        timed[i - from] = (Timed){ s->item[i].once ? 0 : 1 + time_of(&t, &s->item[i]), i, s->item[i] };
    qsort(timed, to - from, sizeof *timed, by_time);
    for (uint32_t i = from; i < to; i++) s->item[i] = timed[i - from].item;
    arena_free(a);
}

void sched_calls(Schedule *s)
{
    for (uint32_t from = 0, to; from < s->count; from = to + 1) {
        bool calls = false;
        for (to = from; to < s->count && !is_control(&s->item[to]); to++)
            calls |= is_call(&s->item[to]) && !s->item[to].once;
        if (calls) sort_stretch(s, from, to);
    }
}
