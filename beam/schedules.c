/* Searching schedules: lists of choices (sched/choices.h) for a whole graph, before its kernels are searched.
 *
 * A climb: each choice that the stages offered is made beside those that were kept. The kernels that this changes are
 * lowered under the lists that they would get and estimated (cost.c); then, the best estimates first, the worker times
 * those that went and those that came, in alternation, and a choice is kept where they take less. What it left behind
 * may offer more. Kernels that two schedules share cancel out, so most choices cost a few timings.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "beam/cost.h"
#include "beam/worker.h"
#include "graph/base/map.h"
#include "graph/base/memory.h"
#include "graph/base/watcher.h"

/* KERNELS_MOST: of all schedules together; ROUNDS: of timings, the least of which counts; TRIED_MOST: choices */
enum { KERNELS_MOST = 4096, ROUNDS = 2, TRIED_MOST = 512 };
#define GAIN 0.03                   /* what a choice saves of the kernels that it changes, at least, */
#define SHARE 0.003                 /* and of a run */
#define DOUBT 0.25                  /* an estimate may err by so much of the kernels that are changed */
#define ESTIMATING 0.35             /* share of the budget */

/* A kernel of some schedule: a copy, before OptOps, and its list. estimate: seconds; 0: it cannot be lowered. */
typedef struct { Kernel *k; OptList opts; double estimate; } Known;
typedef struct { ScheduleOp op; double gain; } Option;
/* count[0], count[1]: launches in a run of each kernel, as the schedule at hand has them, and as one that is tried */
typedef struct {
    const ScheduleSearch *o;
    const Target *t;
    Worker *worker;
    Arena *arena;
    Map by_key;
    Known *known;
    uint32_t nknown, buffers;
    double *count[2], until, total;
    Choices choices;
    ScheduleList list;
    ScheduleOp *tried;
    uint32_t ntried;
    bool full;                      /* there is no room for more kernels */
} Climb;

/* ---- schedules ---- */

void schedule_launches(double *launches, const Schedule *s)
{
    enum { DEPTH = 64, UNKNOWN = 8 };                           /* iterations of a loop that data end */
    double times[DEPTH] = { 1 };
    int depth = 0;
    for (uint32_t i = 0; i < s->count; i++) {
        const ScheduleItem *item = &s->item[i];
        bool known = !item->mem[0] && item->trip > 0;
        if (item->kind == ITEM_LOOP && depth < DEPTH - 1)
            depth++, times[depth] = times[depth - 1] * (known ? (double)item->trip : UNKNOWN);
        if (item->kind == ITEM_NEXT && depth) depth--;
        bool runs = item->kind == ITEM_KERNEL && !item->once && item->kernel->key[0];
        launches[i] = runs ? times[depth] : 0;
    }
}

static double estimate(Climb *c, Known *x)
{
    Kernel *k = kernel_clone(x->k);
    double seconds = 0;
    choice_of(&x->opts, c->o->search.choice, k);
    if (opt_apply_list(k, &x->opts, c->t) == TG_OK && kernel_lower(k, c->t, NULL) == TG_OK)
        seconds = kernel_cost(k, c->t).seconds;
    kernel_free(k);
    status_clear();
    return seconds;
}

/* The number of the kernel; KERNELS_MOST: there is no room for more. */
static uint32_t number_of(Climb *c, const Kernel *k)
{
    uintptr_t at = (uintptr_t)map_gets(&c->by_key, k->key);
    if (at || c->nknown == KERNELS_MOST) return at ? (uint32_t)at - 1 : KERNELS_MOST;
    Known *x = &c->known[c->nknown++];
    x->k = kernel_clone(k);
    x->estimate = estimate(c, x);
    map_puts(&c->by_key, x->k->key, (void *)(uintptr_t)c->nknown);
    return c->nknown - 1;
}

/* The kernels of the schedule under a list, and what it offers. A failure: there is no such schedule. */
static TgStatus count_kernels(Climb *c, const ScheduleList *l, double *count)
{
    Schedule *s = NULL;
    c->choices.list = *l;
    TgStatus status = sched_schedule(&s, c->o->g, c->o->sink, c->t, &c->choices, NULL);
    graph_error_clear(c->o->g);
    if (status != TG_OK) return graph_drop_buffers(c->o->g, c->buffers), status;
    double *launches = mem_zeros(s->count + 1, sizeof *launches);
    schedule_launches(launches, s);
    memset(count, 0, KERNELS_MOST * sizeof *count);
    for (uint32_t i = 0; i < s->count && !c->full; i++) {
        uint32_t at = launches[i] > 0 ? number_of(c, s->item[i].kernel) : 0;
        c->full = at == KERNELS_MOST;
        if (!c->full) count[at] += launches[i];
    }
    mem_free(launches);
    schedule_free(s);
    graph_drop_buffers(c->o->g, c->buffers);
    return c->full ? fail(TG_LIMIT, "schedules of more than %d kernels", KERNELS_MOST) : TG_OK;
}

static double estimated(const Climb *c, const double *count)
{
    double sum = 0;
    for (uint32_t i = 0; i < c->nknown; i++) sum += count[i] * c->known[i].estimate;
    return sum;
}

/* ---- a choice ---- */

static bool is_changed(const Climb *c, uint32_t i) { return c->count[0][i] != c->count[1][i]; }

/* The schedule with one more choice. false: there is none, nothing changes, or a kernel that comes is not lowered. */
static bool try_choice(Climb *c, ScheduleOp op)
{
    ScheduleList l = c->list;
    bool any = false, lowered = true;
    if (l.count == SCHEDULE_OPS || c->full) return false;
    l.op[l.count++] = op;
    if (count_kernels(c, &l, c->count[1]) != TG_OK) return status_clear(), false;
    for (uint32_t i = 0; i < c->nknown; i++) {
        any |= is_changed(c, i);
        lowered &= !c->count[1][i] || c->known[i].estimate > 0;
    }
    return any && lowered;
}

/* Seconds that the changed kernels of a side take in a run, as they are estimated. */
static double changed_estimate(const Climb *c, int side)
{
    double sum = 0;
    for (uint32_t i = 0; i < c->nknown; i++) sum += is_changed(c, i) ? c->count[side][i] * c->known[i].estimate : 0;
    return sum;
}

/* Likewise, as the worker times them; infinite where one fails. */
static double changed_time(Climb *c, int side)
{
    double sum = 0;
    for (uint32_t i = 0; i < c->nknown && sum < INFINITY; i++) {
        const Known *x = &c->known[i];
        RoundHead h = { .runs = 3, .gain = 2 };                 /* nothing is checked */
        ListResult r = { 0 };
        if (!is_changed(c, i) || !c->count[side][i]) continue;
        TgStatus status = worker_round(c->worker, x->k, &h, &x->opts, 1, &r, c->until);
        bool good = status == TG_OK && r.known && r.state == LIST_TIMED;
        if (!good && c->o->search.verbose > 1)
            watch_say("%s cannot be timed: %s", x->k->name, status != TG_OK ? tg_error() : *r.why ? r.why : "no time");
        sum += good ? c->count[side][i] * r.seconds : INFINITY;
        status_clear();
    }
    return sum;
}

/* Do the kernels that it changes take less? A second look only where a first says so. */
static bool is_faster(Climb *c, double least[2])
{
    least[0] = least[1] = INFINITY;
    for (int n = 0; n < ROUNDS; n++) {
        for (int side = 0; side < 2; side++) least[side] = fmin(least[side], changed_time(c, side));
        if (!(least[1] < (1 - GAIN) * least[0])) return false;
    }
    return least[0] < INFINITY && least[0] - least[1] > SHARE * c->total;
}

static void say(const Climb *c, const char *what, ScheduleOp op, const double ms[2])
{
    ScheduleList one = { { op }, 1 };
    Text t = { 0 };
    if (c->o->search.verbose < 2) return;
    schedule_print(&t, &one);
    watch_say("schedule %s: %s, %.3f -> %.3f ms of the kernels that change", t.s, what, 1e3 * ms[0], 1e3 * ms[1]);
    text_free(&t);
}

/* ---- the climb ---- */

static bool was_tried(const Climb *c, ScheduleOp op)
{
    for (uint32_t i = 0; i < c->ntried; i++)
        if (!memcmp(&c->tried[i], &op, sizeof op)) return true;
    return c->ntried == TRIED_MOST;
}

static int by_gain(const void *a, const void *b)
{
    double x = ((const Option *)a)->gain, y = ((const Option *)b)->gain;
    return (x < y) - (x > y);
}

static bool is_over(const Climb *c, double until)
{
    return clock_s() >= until || c->list.count == SCHEDULE_OPS || c->full || watch_over(watcher_now());
}

/* What is offered beside the list at hand and is not hopeless, the best estimates first. */
static uint32_t find_options(Climb *c, Option *out)
{
    double until = fmin(c->until, clock_s() + ESTIMATING * c->o->search.seconds);
    uint32_t n = 0;
    if (count_kernels(c, &c->list, c->count[0]) != TG_OK) return status_clear(), 0;
    c->total = estimated(c, c->count[0]);
    Choices offers = c->choices;
    for (uint32_t i = 0; i < offers.noffered && !is_over(c, until); i++) {
        if (was_tried(c, offers.offered[i])) continue;
        watch_step("looking at other schedules", i, offers.noffered);
        c->tried[c->ntried++] = offers.offered[i];
        bool changes = try_choice(c, offers.offered[i]);
        double ms[2] = { changed_estimate(c, 0), changed_estimate(c, 1) };
        if (!changes) continue;
        say(c, "estimated", offers.offered[i], ms);
        if (ms[0] > SHARE * c->total && ms[1] < (1 + DOUBT) * ms[0])
            out[n++] = (Option){ offers.offered[i], ms[0] - ms[1] };
    }
    qsort(out, n, sizeof *out, by_gain);
    return n;
}

/* Those that are faster are kept; returns whether any was. */
static bool time_options(Climb *c, const Option *option, uint32_t n)
{
    bool kept = false;
    for (uint32_t i = 0; i < n && !is_over(c, c->until); i++) {
        double ms[2];
        watch_step("timing other schedules", i, n);
        if (!try_choice(c, option[i].op)) continue;
        bool better = is_faster(c, ms);
        if (is_over(c, c->until)) break;                        /* cut short */
        say(c, better ? "BETTER" : "timed", option[i].op, ms);
        if (!better) continue;
        kept = true;
        c->list.op[c->list.count++] = option[i].op;
        memcpy(c->count[0], c->count[1], KERNELS_MOST * sizeof *c->count[0]);
    }
    return kept;
}

static TgStatus climb(Climb *c)
{
    Option *option = NEW_N(c->arena, Option, OFFERED_MOST);
    bool kept = true;
    while (kept && !is_over(c, c->until)) kept = time_options(c, option, find_options(c, option));
    return watch_check();
}

static void undo_climb(void *climb)
{
    Climb *c = climb;
    for (uint32_t i = 0; i < c->nknown; i++) kernel_free(c->known[i].k);
    worker_free(c->worker);
    arena_free(c->arena);
}

TgStatus schedules_search(ScheduleList *list, const ScheduleSearch *o)
{
    WorkerOptions w = search_worker(&o->search);
    Climb c = { .o = o, .t = o->search.choice->target, .arena = arena_new(), .list = *list };
    Undo undo;
    TRY(worker_new(&c.worker, &w));
    undo_push(&undo, undo_climb, &c);
    c.until = clock_s() + o->search.seconds;
    c.buffers = graph_buffer_count(o->g);
    c.known = NEW_N(c.arena, Known, KERNELS_MOST);
    c.tried = NEW_N(c.arena, ScheduleOp, TRIED_MOST);
    for (int side = 0; side < 2; side++) c.count[side] = NEW_N(c.arena, double, KERNELS_MOST);
    map_init(&c.by_key, c.arena);
    TgStatus status = climb(&c);
    graph_drop_buffers(o->g, c.buffers);
    *list = c.list;
    undo_pop(&undo);
    undo_climb(&c);
    return status;
}
