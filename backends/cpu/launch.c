/* A run: the steps of a plan, walked in one region of the team.
 *
 * The steps between two waits are a phase (team_run). A step belongs to part 0 (host functions that have no parts,
 * small copies, kernels without a THREAD range or too small to share) or to all parts, each taking a contiguous piece
 * of the THREAD range, of the bytes, of the function. Of a long last work of a phase, threads that are done take pieces
 * from the others (pieces.c): works of a phase do not depend on each other. Of a plan of several devices each has a
 * share of the parts, and its steps belong to these. There is a wait where the plan says so, unless all that ran since
 * the last one and all that comes before the next is part 0's. A plan without shared steps never wakes the team: the
 * caller walks alone. A failed host step ends the run with its phase. Where a JUMP goes is decided between phases.
 */
#include <string.h>

#include "backends/cpu/executable.h"
#include "common/clock.h"
#include "graph/base/memory.h"

enum { PIECES = 64 };           /* of a thread's iterations, at most */

/* Which of the threads that run it a part is of one device's work; threads 0: it is none of them. */
typedef struct { int thread, threads; } Seat;

/* ---- one step ---- */

static void clear_halos(const Executable *e, const Work *w, int thread, int threads)
{
    for (uint64_t left = w->clears; left; left &= left - 1) {
        int a = __builtin_ctzll(left);
        plan_clear(e->plan, e->plan->buffer[w->arg[a]].halo, e->vars, w->args[a], thread, threads);
    }
}

static void load_vars(const Executable *e, const Work *w, int64_t *vars)
{
    for (uint32_t i = 0; i < w->nvar; i++) vars[i] = e->vars[w->var[i]];
}

/* What a run does of the THREAD range. */
typedef struct { int64_t first, size; } Extent;

static Extent extent_of(const Work *w, const int64_t *vars)
{
    int64_t n = w->count >= 0 ? w->count : kernel_value(w->kernel, w->kernel->thread_bound, vars);
    int64_t first = w->parts ? n * w->part / w->parts : 0;
    return (Extent){ first, (w->parts ? n * (w->part + 1) / w->parts : n) - first };
}

/* What a thread does next of so much; again: it has done a piece of this work. */
static bool next_piece(const Executable *e, const Work *w, Seat s, int64_t size, bool again, int64_t *begin,
                       int64_t *end)
{
    if (w == e->dealt) return pieces_take(e->piece, s.thread, e->device->machine.count, e->grain, begin, end);
    *begin = size * s.thread / s.threads, *end = size * (s.thread + 1) / s.threads;
    return !again && *begin < *end;
}

static void kernel_work(const Executable *e, const Work *w, Seat s, char *scratch)
{
    if (w->clears) clear_halos(e, w, s.thread, s.threads);
    if (plan_idle(e->plan, &e->plan->step[w->step], e->vars)) return;
    int64_t vars[KERNEL_VARS], begin, end;
    load_vars(e, w, vars);
    Extent x = extent_of(w, vars);
    for (bool again = false; next_piece(e, w, s, x.size, again, &begin, &end); again = true)
        call_kernel(w->kernel, w->fn, w->args, vars, x.first + begin, x.first + end, scratch);
}

/* Its arguments for parts from `part` on: windows begin where the first of these parts does. */
static void *const *window_args(const Executable *e, const Work *w, int thread, int64_t part, void **out)
{
    if (!w->windows) return w->args;
    const Step *s = &e->plan->step[w->step];
    for (uint32_t k = 0; k < s->narg; k++) {
        const PlanBuffer *b = &e->plan->buffer[w->arg[k]];
        out[k] = b->window
            ? (void *)((uintptr_t)w->args[k] + (uintptr_t)(b->window * thread - part / b->every * b->stride - b->first))
            : w->args[k];
    }
    return out;
}

static const PlanChain *chain_of(const Executable *e, const Work *w)
{
    return &e->plan->chain[e->plan->step[w->step].chain - 1];
}

/* The zeros in windows of what the work stores: of all groups before the first, of one before it. */
static void clear_borders(const Executable *e, const Work *w, int thread, const PlanChain *c, int64_t begin,
                          int64_t end)
{
    const Step *s = &e->plan->step[w->step];
    for (uint32_t k = 0; k < s->narg; k++) {
        const PlanBuffer *b = &e->plan->buffer[w->arg[k]];
        char *window = (char *)w->args[k] + b->window * thread;
        if (!b->border || !(s->access[k] & ACCESS_WRITE)) continue;
        if (begin < end) plan_border_ends(b, s, window, begin, end, c->parts);
        else plan_border(b, window);
    }
}

/* What the work stored for the group before this one goes to where this one has it. */
static void keep(const Executable *e, const Work *w, int thread, int64_t parts)
{
    const Step *s = &e->plan->step[w->step];
    for (uint32_t k = 0; k < s->narg; k++) {
        const PlanBuffer *b = &e->plan->buffer[w->arg[k]];
        char *window = (char *)w->args[k] + b->window * thread;
        if (b->kept && (s->access[k] & ACCESS_WRITE)) memmove(window, window + parts * b->stride, (size_t)b->kept);
    }
}

/* The works of a chain on the group [begin, end) of parts; last: where the group began that the thread has done before
 * it, if that ended here, else -1; again: the thread has done the part of those that have fewer. */
static void group_work(Executable *e, const Work *w, int thread, int64_t begin, int64_t end, int64_t last, bool again,
                       char *scratch)
{
    const PlanChain *c = chain_of(e, w);
    int64_t vars[KERNEL_VARS];
    void *args[KERNEL_PARAMS];
    for (const Work *x = w; x < w + w->works; x++) {
        double start = e->seconds && !thread ? clock_s() : 0;
        bool coarse = x->count < c->parts;
        const Step *s = &e->plan->step[x->step];
        bool goes_on = last >= 0 && (s->before || s->after);
        int64_t from = goes_on ? begin + s->after : begin > s->before ? begin - s->before : 0,
                to = end + s->after < c->parts ? end + s->after : c->parts;
        if (coarse && again) continue;
        if (coarse) from = begin / c->every, to = from + 1;
        if (goes_on) keep(e, x, thread, begin - last);
        if (x->windows) clear_borders(e, x, thread, c, begin, end);
        load_vars(e, x, vars);
        if (from < to)
            call_kernel(x->kernel, x->fn, window_args(e, x, thread, begin, args), vars, from, to, scratch);
        if (e->seconds && !thread) e->seconds[x->step] += clock_s() - start;
    }
}

/* The works of a chain, on a thread's parts: all of them on a group of parts, then on the next. */
static void chain_work(Executable *e, const Work *w, Seat s, char *scratch)
{
    const PlanChain *c = chain_of(e, w);
    /* before: of the parts that works of fewer parts have; last: the group before, up to done */
    int64_t begin, end, next, before = -1, last = -1, done = -1;
    for (const Work *x = w; x < w + w->works; x++) {
        if (x->clears) clear_halos(e, x, s.thread, s.threads);
        if (x->windows) clear_borders(e, x, s.thread, c, 0, 0);
    }
    for (bool again = false; next_piece(e, w, s, c->parts, again, &begin, &end); again = true)
        for (int64_t p = begin; p < end; p = next) {
            int64_t served = (p / c->every + 1) * c->every;
            next = p + c->group < end ? p + c->group : end;
            if (c->every > 1 && next > served) next = served;
            group_work(e, w, s.thread, p, next, p == done ? last : -1, before == p / c->every, scratch);
            before = p / c->every;
            last = p;
            done = next;
        }
}

static int64_t copied_bytes(const Executable *e, const PlanBuffer *b)
{
    int64_t n = dtype_size(b->dtype);
    for (uint32_t k = 0; k < b->shape->rank; k++) n *= plan_eval(e->plan, b->shape->dim[k], e->vars);
    return n < 0 ? 0 : n < b->size_bytes ? n : b->size_bytes;
}

static void copy_work(const Executable *e, const Work *w, int thread, int threads)
{
    int64_t n = copied_bytes(e, w->copied), begin = n * thread / threads & ~INT64_C(63),
            end = thread + 1 == threads ? n : n * (thread + 1) / threads & ~INT64_C(63);
    if (begin < end) memmove((char *)w->args[0] + begin, (char *)w->args[1] + begin, (size_t)(end - begin));
}

/* Where a part fails all do: thread 0 tells. */
static void host_work(Executable *e, const Work *w, int thread, int threads)
{
    TgStatus status;
    ATTEMPT(status, w->shared ? w->host_part(w->call, w->args, e->vars, thread, threads)
                              : w->host(w->call, w->args, e->vars));
    if (!thread) e->status = host_status(w->call, status);
}

static void do_work(Executable *e, const Work *w, Seat s, char *scratch)
{
    if (w->works > 1) chain_work(e, w, s, scratch);
    else if (w->kind == STEP_KERNEL) kernel_work(e, w, s, scratch);
    else if (w->kind == STEP_COPY) copy_work(e, w, s.thread, s.threads);
    else host_work(e, w, s.thread, s.threads);
}

/* A long last work of the phase is dealt out. */
static void deal(Executable *e, const Work *w)
{
    int threads = e->device->machine.count;
    int64_t vars[KERNEL_VARS], size = w->works > 1 ? chain_of(e, w)->parts : w->count;
    e->dealt = NULL;
    if (!w->balanced) return;
    load_vars(e, w, vars);
    if (w->works < 2) size = extent_of(w, vars).size;
    e->grain = w->works > 1 ? chain_of(e, w)->group : 1 + size / (PIECES * threads);
    if (pieces_deal(e->piece, threads, size)) e->dealt = w;
}

/* A failed run takes no jump, so that it ends. */
static void take_jumps(Executable *e)
{
    while (e->at < e->nwork && e->work[e->at].kind == STEP_JUMP)
        e->at = e->vars[e->work[e->at].var[0]] ? e->at + 1 : e->work[e->at].target;
}

static TeamParts next_phase(void *user)
{
    Executable *e = user;
    bool shared = false;
    if (e->seconds && e->end && e->work[e->at].works == 1) e->seconds[e->work[e->end - 1].step] += clock_s() - e->start;
    e->at = e->end;
    e->over = watch_over(e->watcher);
    if (e->status != TG_OK || e->over) return TEAM_OVER;
    take_jumps(e);
    const Work *last = NULL;
    for (e->end = e->at; e->end < e->nwork && e->work[e->end].kind != STEP_JUMP &&
         (e->end == e->at || (!e->work[e->end].wait && !e->seconds));) {
        last = &e->work[e->end];
        shared |= last->shared;
        e->end += last->works;
    }
    if (last) deal(e, last);
    if (e->seconds) e->start = clock_s();
    e->alone = !shared;
    return e->at >= e->nwork ? TEAM_OVER : shared ? TEAM_ALL : TEAM_ONE;
}

/* Devices have equal shares of the parts; where these are fewer, a part does what several devices have to do. */
static Seat seat_of(const Executable *e, int32_t device, int part, int parts)
{
    int n = e->plan->devices;
    if (n < 2 || device < 0) return (Seat){ part, parts };
    if (parts < n) return (Seat){ 0, part == device % parts };
    int first = (int)((int64_t)device * parts / n), end = (int)((int64_t)(device + 1) * parts / n);
    return (Seat){ part - first, part < first || part >= end ? 0 : end - first };
}

static void do_phase(void *user, int part, int parts)
{
    Executable *e = user;
    char *scratch = e->scratch + e->scratch_bytes * part;
    for (uint32_t i = e->at; i < e->end && e->status == TG_OK; i += e->work[i].works) {
        Seat s = seat_of(e, e->work[i].device, part, e->alone ? 1 : parts);
        if (!s.threads) continue;
        /* of a single part the first does all, as of what is not worth sharing */
        bool whole = !e->work[i].shared || (e->work[i].kind == STEP_KERNEL && e->work[i].count == 1);
        if (!whole) do_work(e, &e->work[i], s, scratch);
        else if (!s.thread) do_work(e, &e->work[i], (Seat){ 0, 1 }, scratch);
    }
}

TgStatus executable_walk(Executable *e)
{
    const TeamJob job = { next_phase, do_phase, e };
    e->status = TG_OK;
    e->at = e->end = 0;
    e->watcher = watcher_now();
    /* where others run, threads that wait for each other's cores would do less than each run alone */
    bool only = !atomic_fetch_add(&e->device->runs, 1);
    if (e->shared && only) team_run(e->device->team, &job);
    else
        while (next_phase(e) != TEAM_OVER) do_phase(e, 0, 1);
    atomic_fetch_sub(&e->device->runs, 1);
    return e->over && e->status == TG_OK ? watch_check() : e->status;
}

/* ---- the run ---- */

/* Kernels that the compiler has made meanwhile run from now on. */
static void take_ready(Executable *e)
{
    unsigned version = cpu_code_ready(e->code);
    if (version == e->version) return;
    e->version = version;
    for (uint32_t i = 0; i < e->nwork; i++)
        if (e->work[i].kind == STEP_KERNEL) e->work[i].fn = e->code->fn[e->plan->step[e->work[i].step].kernel];
}

TgStatus executable_run(Executable *e, const void *const *inputs, void *const *outputs, int64_t *vars)
{
    take_ready(e);
    for (uint32_t i = 0; i < e->npatch; i++) {
        const Patch *p = &e->patch[i];
        *p->arg = p->output ? outputs[p->port] : (void *)(uintptr_t)inputs[p->port];
    }
    e->vars = vars;
    /* a bad index may be why something else failed */
    TgStatus status = executable_walk(e), guarded = plan_guards(e->plan, e->own ? e->own : e->persist, TG_BAD_INPUT);
    return guarded ? guarded : status;
}

TgStatus executable_trace(Executable *e, const void *const *inputs, void *const *outputs, int64_t *vars,
                          double *seconds)
{
    e->seconds = seconds;
    TgStatus status = executable_run(e, inputs, outputs, vars);
    e->seconds = NULL;
    return status;
}
