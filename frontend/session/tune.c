/* tg_tune: of the program used last, the schedule goes to the search first, then the unique kernels, as they are before
 * OptOps; the winners of each are tried in the model.
 *
 * The search times kernels alone, on data that lie in the caches, and on a machine that others use too: a list that
 * wins there may lose in a run. So the program is made anew with the winners, and runs in alternation with the old one
 * on the caller's inputs: a winner whose kernel takes no less time in the run than before is put back, and all of them
 * are when the run as a whole is not faster. A list of choices stays where the run is faster with it and its outputs
 * are the same.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "beam/beam.h"
#include "beam/alternate.h"
#include "frontend/session/compiled.h"
#include "graph/base/map.h"
#include "graph/base/memory.h"
#include "graph/scalar.h"

#define TRIAL_SHARE 0.15            /* of the budget */
#define LEAST_S 0.5                 /* seconds for kernels, whatever the schedule took */
#define TRIAL_MOST_S 10             /* where there is no budget */
#define SCHEDULE_SHARE 0.3
#define SCHEDULE_MOST_S 40          /* likewise */
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

static void collect(Uniques *u, const Schedule *s, const Choice *c)
{
    double *launches = NEW_N(u->arena, double, s->count + 1);
    Map index;
    schedule_launches(launches, s);
    u->kernel = NEW_N(u->arena, Kernel *, s->count + 1);
    u->count = NEW_N(u->arena, double, s->count + 1);
    u->subject = NEW_N(u->arena, Subject, s->count + 1);
    map_init(&index, u->arena);
    for (uint32_t i = 0; i < s->count; i++) {
        const ScheduleItem *item = &s->item[i];
        if (!launches[i]) continue;
        uintptr_t at = (uintptr_t)map_gets(&index, item->kernel->key);
        if (!at) {
            Subject *x = &u->subject[u->n];
            memcpy(x->key, item->kernel->key, sizeof x->key);
            x->known = tunedb_best(c->db, x->key, c->device, &x->before);
            u->kernel[u->n++] = item->kernel;
            map_puts(&index, x->key, (void *)(uintptr_t)(at = u->n));
        }
        u->count[at - 1] += launches[i];
    }
}

static SearchOptions search_options(const TgSession *s, double seconds, int32_t beam)
{
    const TgOptions *o = &s->options;
    return (SearchOptions){ .choice = &s->choice,
                            .backend = s->backend,
                            .device_index = s->device_index,
                            .threads = o->threads,
                            .cpus = o->cpus,
                            .cache_dir = o->no_cache ? NULL : o->cache_dir,
                            .seconds = seconds,
                            .beam = beam,
                            .verbose = o->verbose };
}

/* The model is imported again: the program's own kernels are lowered. */
static TgStatus import_again(Imported *out, const TgSession *s)
{
    const Program *p = s->program;
    Known known = p->known;
    const Batch *batch = s->batch && !s->batch->serial ? s->batch : NULL;
    TgTensor one[p->nport + 1];
    if (batch) TRY(batch_sample(batch, s->model, one, p->input, -1));
    TRY(import_model(out, s->model, batch ? one : p->input, p->nport, p->dims, &known));
    return batch ? batch_map(batch, out) : TG_OK;
}

static TgStatus search_kernels(TgSession *s, Uniques *u, const Imported *imported, double seconds, int32_t beam)
{
    Schedule *schedule = NULL;
    Choices choices;
    SearchOptions o = search_options(s, seconds, beam);
    choice_schedule(&choices.list, &s->choice, imported->g, imported->sink);
    TRY(sched_schedule(&schedule, imported->g, imported->sink, s->choice.target, &choices, NULL));
    collect(u, schedule, &s->choice);
    o.kernel = u->kernel, o.count = u->count, o.n = u->n;
    TgStatus status = search_run(&s->report, &o);
    schedule_free(schedule);
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

/* ---- the schedule ---- */

/* How far a type's sums may be from one another. */
static double tolerance(DType t) { return t == DT_F64 ? 1e-7 : t == DT_F32 ? 1e-3 : 3e-2; }

/* Numbers of two schedules: floats near each other, beside the root of the mean square; of others, which may lie at a
 * threshold, one in a hundred may differ. */
static bool same_numbers(const TgTensor *a, const TgTensor *b)
{
    DType t = dtype_from_onnx((int32_t)a->type);
    int64_t n = t == DT_VOID ? 0 : (int64_t)(a->size_bytes / (size_t)dtype_size(t)), differ = 0;
    double square = 0;
    if (a->size_bytes != b->size_bytes) return false;
    for (int64_t i = 0; i < n && dtype_is_float(t); i++) {
        double x = scalar_real(scalar_load(t, a->data, i));
        square += isfinite(x) ? x * x : 0;
    }
    double rms = n ? sqrt(square / (double)n) : 0;
    for (int64_t i = 0; i < n; i++) {
        int64_t x = scalar_load(t, a->data, i), y = scalar_load(t, b->data, i);
        double p = scalar_real(x), q = scalar_real(y);
        if (x == y || (dtype_is_float(t) && isnan(p) && isnan(q))) continue;
        if (!dtype_is_float(t)) differ++;
        else if (!(fabs(p - q) <= tolerance(t) * (rms + fabs(p)))) return false;
    }
    return 100 * differ <= n;
}

static TgStatus same_outputs(const Trial *t, bool *same)
{
    uint32_t n = t->program[0]->nresult;
    TgTensor output[2][n + 1];
    *same = true;
    for (int side = 0; side < 2; side++)
        TRY(program_run(t->program[side], t->s->backend, t->input, NULL, output[side]));
    for (uint32_t i = 0; i < n; i++) *same &= same_numbers(&output[0][i], &output[1][i]);
    return TG_OK;
}

/* gain: of a run, by the list that is in the database; 1 where it is not better, and then it is not there any more. */
static TgStatus try_schedule(Trial *t, double *gain)
{
    double seconds[2] = { 0 };
    bool same;
    *gain = 1;
    TRY(session_make_anew(&t->program[1], t->s, t->input));
    watch_step("trying the schedule in the model", 0, t->seconds);
    TRY(same_outputs(t, &same));
    if (!same) watch_say("warning: schedule %s computes something else", t->program[1]->plan->schedule);
    if (same)
        TRY(alternate(&(Alternation){ .sample = whole_sample, .user = t, .n = { 1, 1 }, .seconds = t->seconds / 2 },
                      (double *[2]){ &seconds[0], &seconds[1] }));
    if (same && seconds[1] < (1 - GAIN) * seconds[0]) {
        *gain = seconds[0] / seconds[1];
        session_replace(t->s, t->program[1]);
        t->program[0] = t->program[1];
    } else program_free(t->program[1], t->s->backend);
    t->program[1] = NULL;
    return TG_OK;
}

static TgStatus search_schedule(Trial *t, const Imported *imported, double seconds, double *gain)
{
    const Choice *c = &t->s->choice;
    ScheduleList before, list;
    char key[33];
    schedule_key(key, imported->g, imported->sink);
    choice_schedule(&before, c, imported->g, imported->sink);
    list = before;
    TRY(schedules_search(&list, &(ScheduleSearch){ search_options(t->s, seconds, 0), imported->g, imported->sink }));
    if (list.count == before.count) return TG_OK;
    tunedb_put_schedule(c->db, key, c->device, &list);
    TgStatus status = try_schedule(t, gain);
    if (status != TG_OK || *gain <= 1) tunedb_put_schedule(c->db, key, c->device, &before);
    return status;
}

/* ---- all ---- */

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

/* A schedule is searched where it can be tried, and the user named none. */
static TgStatus search(Trial *t, Uniques *u, double seconds, int32_t beam)
{
    double begin = clock_s(), gain = 1, most = seconds > 0 ? SCHEDULE_SHARE * seconds : SCHEDULE_MOST_S;
    Imported imported = { 0 };
    TgStatus status = import_again(&imported, t->s);
    if (status == TG_OK && t->seconds > 0 && !choice_names_schedule(&t->s->choice))
        status = search_schedule(t, &imported, most, &gain);
    double left = seconds > 0 ? fmax(seconds - t->seconds - (clock_s() - begin), LEAST_S) : 0;
    if (status == TG_OK) status = search_kernels(t->s, u, &imported, left, beam);
    if (imported.g) graph_free(imported.g);
    if (status == TG_OK) status = adopt_winners(t);
    t->s->report.before_s *= gain;
    return status;
}

static TgStatus tune(TgSession *s, const TgTensor *input, bool data, double seconds, int32_t beam)
{
    Uniques u = { .arena = arena_new() };
    Trial t = { .s = s, .input = input, .uniques = &u, .program = { s->program } };
    ProgramHold h;
    program_hold(&h, &t.program[1], s->backend);
    if (data) t.seconds = trial_seconds(&t, seconds);
    TgStatus status = search(&t, &u, seconds, beam);
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
