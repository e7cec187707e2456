/* tg_tune: the unique kernels of the program used last, as they are before OptOps, go to the search; then its winners
 * are tried in the model.
 *
 * The search times kernels alone, on data that lie in the caches, and on a machine that others use too: a list that
 * wins there may lose in a run. So the program is made anew with the winners, and runs in alternation with the old one
 * on the caller's inputs: a winner whose kernel takes no less time in the run than before is put back, and all of them
 * are when the run as a whole is not faster.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "beam/beam.h"
#include "beam/alternate.h"
#include "frontend/session/compiled.h"
#include "graph/base/map.h"
#include "graph/base/memory.h"

#define TRIAL_SHARE 0.15            /* of the budget */
#define TRIAL_MOST_S 10             /* where there is no budget */
#define GAIN 0.005                  /* a winner saves that share of its kernel's time in the model at least */

/* A unique kernel and what the database knew of it before the search. */
typedef struct { char key[33]; bool known; Tuned before; } Subject;
typedef struct {
    Arena *arena;
    Kernel **kernel;
    double *count;
    Subject *subject;
    uint32_t n;
} Uniques;
/* program: the old, the new */
typedef struct {
    TgSession *s;
    const TgTensor *input;
    const Uniques *uniques;
    Program *program[2];
    double seconds;
} Trial;

/* ---- the search ---- */

/* Launches of an item in a run: those of a loop's body count once an iteration, where that is known. */
static void collect(Uniques *u, const Schedule *s, const Choice *c)
{
    double times[64] = { 1 };
    int depth = 0;
    Map index;
    u->kernel = NEW_N(u->arena, Kernel *, s->count + 1);
    u->count = NEW_N(u->arena, double, s->count + 1);
    u->subject = NEW_N(u->arena, Subject, s->count + 1);
    map_init(&index, u->arena);
    for (uint32_t i = 0; i < s->count; i++) {
        const ScheduleItem *item = &s->item[i];
        if (item->kind == ITEM_LOOP && depth < 63)
            depth++, times[depth] = times[depth - 1] * (item->mem[0] || item->trip < 1 ? 8 : (double)item->trip);
        if (item->kind == ITEM_NEXT && depth) depth--;
        if (item->kind != ITEM_KERNEL || item->once || !item->kernel->key[0]) continue;
        uintptr_t at = (uintptr_t)map_gets(&index, item->kernel->key);
        if (!at) {
            Subject *x = &u->subject[u->n];
            memcpy(x->key, item->kernel->key, sizeof x->key);
            x->known = tunedb_best(c->db, x->key, c->device, &x->before);
            u->kernel[u->n++] = item->kernel;
            map_puts(&index, x->key, (void *)(uintptr_t)(at = u->n));
        }
        u->count[at - 1] += times[depth];
    }
}

static TgStatus search(TgSession *s, const Uniques *u, double seconds, int32_t beam)
{
    const TgOptions *o = &s->options;
    SearchOptions so = { .choice = &s->choice,
                         .backend = s->backend,
                         .device_index = s->device_index,
                         .threads = o->threads,
                         .cpus = o->cpus,
                         .cache_dir = o->no_cache ? NULL : o->cache_dir,
                         .kernel = u->kernel,
                         .count = u->count,
                         .n = u->n,
                         .seconds = seconds,
                         .beam = beam,
                         .verbose = o->verbose };
    return search_run(&s->report, &so);
}

/* The model is imported and scheduled again: the program's own kernels are lowered. */
static TgStatus search_program(TgSession *s, Uniques *u, double seconds, int32_t beam)
{
    const Program *p = s->program;
    Known known = p->known;
    Imported imported = { 0 };
    Schedule *schedule = NULL;
    const Batch *batch = s->batch && !s->batch->serial ? s->batch : NULL;
    TgTensor one[p->nport + 1];
    if (batch) TRY(batch_sample(batch, s->model, one, p->input, -1));
    TgStatus status = import_model(&imported, s->model, batch ? one : p->input, p->nport, p->dims, &known);
    if (status == TG_OK && batch) status = batch_map(batch, &imported);
    if (status == TG_OK) status = sched_schedule(&schedule, imported.g, imported.sink, s->choice.target, NULL);
    if (status == TG_OK) {
        collect(u, schedule, &s->choice);
        status = search(s, u, seconds, beam);
    }
    if (schedule) schedule_free(schedule);
    if (imported.g) graph_free(imported.g);
    return status;
}

/* ---- the trial ---- */

static void put_back(const Trial *t, const Subject *x)
{
    const Choice *c = &t->s->choice;
    if (x->known) tunedb_put_best(c->db, x->key, c->device, &x->before);
    else tunedb_forget_best(c->db, x->key, c->device);
}

/* The plan's kernel of that key, and its number. */
static const Kernel *kernel_of(const Plan *p, const char *key, uint32_t *at)
{
    for (*at = 0; *at < p->nkernel; ++*at)
        if (!strcmp(p->kernel[*at]->key, key)) return p->kernel[*at];
    return NULL;
}

/* How many subjects run under other lists in the new program than in the old. */
static uint32_t differences(const Trial *t)
{
    uint32_t n = 0, at;
    for (uint32_t i = 0; i < t->uniques->n; i++) {
        const char *key = t->uniques->subject[i].key;
        const Kernel *a = kernel_of(t->program[0]->plan, key, &at), *b = kernel_of(t->program[1]->plan, key, &at);
        n += a && b && !opt_same(&a->opts, &b->opts);
    }
    return n;
}

/* ---- kernel by kernel, where the device can tell ---- */

static TgStatus traced_sample(void *user, int side, double *seconds)
{
    const Trial *t = user;
    return trace_kernels(t->program[side], t->s->backend, t->input, seconds);
}

/* Puts back what saves nothing in the model; returns how much that was. */
static uint32_t drop_losers(const Trial *t, double *const median[2])
{
    uint32_t lost = 0, i, j;
    for (uint32_t n = 0; n < t->uniques->n; n++) {
        const Subject *x = &t->uniques->subject[n];
        const Kernel *a = kernel_of(t->program[0]->plan, x->key, &i), *b = kernel_of(t->program[1]->plan, x->key, &j);
        if (!a || !b || opt_same(&a->opts, &b->opts) || median[1][j] < (1 - GAIN) * median[0][i]) continue;
        put_back(t, x);
        lost++;
    }
    return lost;
}

static TgStatus try_kernels(Trial *t)
{
    Alternation both = { .sample = traced_sample,
                    .user = t,
                    .n = { t->program[0]->plan->nkernel, t->program[1]->plan->nkernel },
                    .seconds = t->seconds / 2 };
    double *median[2];
    for (int i = 0; i < 2; i++) median[i] = mem_zeros(both.n[i] + 1, sizeof **median);
    TgStatus status = alternate(&both, median);
    bool lost = status == TG_OK && drop_losers(t, median);
    for (int i = 0; i < 2; i++) mem_free(median[i]);
    if (!lost) return status;
    program_free(t->program[1], t->s->backend);
    t->program[1] = NULL;
    return session_make_anew(&t->program[1], t->s, t->input);
}

/* ---- the run as a whole ---- */

static TgStatus whole_sample(void *user, int side, double *seconds)
{
    const Trial *t = user;
    TgTensor output[t->program[side]->nresult + 1];
    double start = clock_s();
    TRY(program_run(t->program[side], t->s->backend, t->input, NULL, output));
    *seconds = clock_s() - start;
    return TG_OK;
}

static TgStatus try_whole(Trial *t)
{
    SearchReport *r = &t->s->report;
    return alternate(&(Alternation){ .sample = whole_sample, .user = t, .n = { 1, 1 }, .seconds = t->seconds / 2 },
                      (double *[2]){ &r->before_s, &r->after_s });
}

/* ---- both ---- */

static TgStatus try_all(Trial *t)
{
    SearchReport *r = &t->s->report;
    if (t->s->backend->trace && differences(t)) TRY(try_kernels(t));
    r->improved = differences(t);
    TRY(try_whole(t));
    if (r->improved && r->after_s <= r->before_s) return TG_OK;
    for (uint32_t i = 0; i < t->uniques->n; i++) put_back(t, &t->uniques->subject[i]);
    *r = (SearchReport){
        .before_s = r->before_s, .after_s = r->before_s, .timed = r->timed, .tried = r->tried, .bad = r->bad
    };
    program_free(t->program[1], t->s->backend);
    t->program[1] = NULL;
    return TG_OK;
}

/* The program with the winners takes the place of the old one, if it has won. */
static TgStatus adopt_winners(Trial *t)
{
    TRY(session_make_anew(&t->program[1], t->s, t->input));
    if (t->seconds > 0) watch_step("trying the winners in the model", 0, t->seconds);
    TgStatus status = t->seconds > 0 ? try_all(t) : TG_OK;
    if (status == TG_OK && t->program[1]) session_replace(t->s, t->program[1]);
    else program_free(t->program[1], t->s->backend);
    t->s->program->tuned = true;
    return status;
}

/* Its share of the budget: enough for some samples of a slow model, never more than half. 0: the model does not run on
 * these inputs, so there is no trial. */
static double trial_seconds(Trial *t, double budget)
{
    double run = 0, most = budget > 0 ? budget / 2 : TRIAL_MOST_S,
           share = budget > 0 ? TRIAL_SHARE * budget : TRIAL_MOST_S;
    for (int i = 0; i < 2; i++)
        if (whole_sample(t, 0, &run) != TG_OK) return status_clear(), 0;
    return fmin(most, fmax(share, 4 * (SAMPLES_LEAST + 1) * run));
}

static TgStatus tune(TgSession *s, const TgTensor *input, bool data, double seconds, int32_t beam)
{
    Uniques u = { .arena = arena_new() };
    Trial t = { .s = s, .input = input, .uniques = &u, .program = { s->program } };
    if (data) t.seconds = trial_seconds(&t, seconds);
    TgStatus status = search_program(s, &u, seconds > 0 ? seconds - t.seconds : 0, beam);
    ProgramHold h;
    program_hold(&h, &t.program[1], s->backend);
    if (status == TG_OK) status = adopt_winners(&t);
    program_let(&h);
    arena_free(u.arena);
    return status;
}

static TgStatus enter_and_tune(TgSession *s, const TgTensor *inputs, int32_t count, double seconds, int32_t beam)
{
    double start = clock_s();
    if (s->saved) return session_in_file(s, compiled_fixed("tune"));
    if (s->target.rank) return fail(TG_UNSUPPORTED, "shard: ranks do not search");
    if (!s->backend->time)
        return fail(TG_UNSUPPORTED, "tune: device %s runs nothing; search on cpu, whose lists it then takes",
                    s->backend->name);
    TRY(watch_check());
    TRY(session_enter(s, &inputs, count));
    TRY(session_program(s, inputs, count));
    TgStatus status = tune(s, inputs, port_has_data(inputs, count), seconds, beam);
    s->tune_s += clock_s() - start;
    return session_in_file(s, status);
}

TgStatus tg_tune(TgSession *s, const TgTensor *inputs, int32_t count, double seconds, int32_t beam)
{
    TgStatus status;
    SESSION_CALL(status, s, enter_and_tune(s, inputs, count, seconds, beam));
    return status;
}
