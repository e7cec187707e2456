/* The public API. A session is a checked model, an open device and the programs made so far: one for the first input
 * shapes (and those values that sizes depend on), then one in which the sizes that have changed are variables (dims.h).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "frontend/session/compiled.h"
#include "graph/base/memory.h"

static const int64_t PROGRAMS_BYTES = INT64_C(1) << 30;

const char *tg_version(void)
{
#define TEXT_OF(x) #x
#define VERSION(a, b, c) TEXT_OF(a) "." TEXT_OF(b) "." TEXT_OF(c)
    return VERSION(TG_VERSION_MAJOR, TG_VERSION_MINOR, TG_VERSION_PATCH);
}

const char *session_cache_dir(Arena *a)
{
    const char *xdg = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    if (xdg && *xdg) return arena_printf(a, "%s/tgrun", xdg);
    return home && *home ? arena_printf(a, "%s/.cache/tgrun", home) : NULL;
}

void tg_options_default(TgOptions *options) { *options = (TgOptions){ .device = "auto" }; }

/* ---- sessions ---- */

/* Failures of a model's own making start with the file's name. */
TgStatus session_in_file(const TgSession *s, TgStatus status)
{
    if (status != TG_OK && s->path) status_prefix(s->path);
    return status;
}

/* A program that was made with a newer header may ask for what this library does not know. */
TgStatus session_reserved(const int64_t *reserved, size_t n, const char *what)
{
    for (size_t k = 0; k < n; k++)
        if (reserved[k])
            return fail(TG_USAGE, "%s: a field is set that this library, %s, does not know", what, tg_version());
    return TG_OK;
}

/* The device, once there is a model. */
static TgStatus open_rest(TgSession *s)
{
    const TgOptions *o = &s->options;
    TRY(session_reserved(o->reserved, sizeof o->reserved / sizeof *o->reserved, "options"));
    s->model->seed = (uint64_t)s->options.seed;
    s->whole = s->model->graph;
    s->given = NEW_N(s->arena, bool, s->whole.noptional + 1);
    TRY(choice_named_check(s->options.opts));
    TRY(free_dims_new(&s->dims, s->arena, s->model, s->options.dims));
    TRY(batch_new(&s->batch, s->arena, s->model, &s->options));
    if (s->batch && s->saved) return compiled_fixed("batch");
    if (!strcmp(s->options.device, "none")) return TG_OK;
    TRY(session_open_device(s));
    if (s->shard.devices > 1 && s->saved) return compiled_fixed("device");
    TRY(shard_model(&s->shard, s->model));
    TRY(session_fewer_threads(s));
    s->tunedb = tunedb_open(s->options.no_cache || s->saved ? NULL : s->options.cache_dir);
    TRY(session_target(s));
    if (s->saved) TRY(compiled_device(s));
    choice_init(&s->choice, s->tunedb, s->backend, s->device);
    s->choice.target = &s->target;
    s->choice.named = s->options.opts;
    s->choice.saved = s->saved != NULL;
    return TG_OK;
}

static TgSession *session_new(const char *path, const TgOptions *options)
{
    Arena *a = arena_new();
    TgSession *s = NEW(a, TgSession);
    s->arena = a;
    s->path = arena_strdup(a, path);
    if (options) s->options = *options;
    else tg_options_default(&s->options);
    s->options.device = arena_strdup(a, s->options.device ? s->options.device : "auto");
    s->options.opts = s->options.opts ? arena_strdup(a, s->options.opts) : NULL;
    s->options.dims = s->options.dims ? arena_strdup(a, s->options.dims) : NULL;
    s->options.batch_inputs = s->options.batch_inputs ? arena_strdup(a, s->options.batch_inputs) : NULL;
    s->options.shard = s->options.shard ? arena_strdup(a, s->options.shard) : NULL;
    s->options.compiler = s->options.compiler ? arena_strdup(a, s->options.compiler) : NULL;
    s->options.cpus = s->options.cpus ? arena_strdup(a, s->options.cpus) : NULL;
    s->options.cache_dir = s->options.cache_dir ? arena_strdup(a, s->options.cache_dir) : session_cache_dir(a);
    return s;
}

Watcher session_watch(const TgSession *s)
{
    const TgOptions *o = &s->options;
    double deadline = watcher_now()->deadline;
    if (s->outside) return watcher_set(*watcher_now());
    if (!deadline && o->call_limit_s > 0) deadline = clock_s() + o->call_limit_s;
    return watcher_set((Watcher){ o->progress, o->progress_user, o->log, o->log_user, o->stop, deadline });
}

/* What a session is opened from: a file, or bytes in memory. */
typedef struct { const char *path; const void *data; size_t size_bytes; const char *folder; } Opened;

static TgStatus load_model(TgSession *s, const Opened *from)
{
    const ModelData given = { s->options.data, s->options.data_count };
    for (int64_t k = 0; k < given.n; k++)
        TRY(session_reserved(given.at[k].reserved, sizeof given.at->reserved / sizeof *given.at->reserved, "data"));
    if (from->data) return model_load_bytes(&s->model, from->data, from->size_bytes, from->folder, &given);
    return bundle_is(from->path) ? compiled_open(s) : model_load(&s->model, from->path, &given);
}

static void undo_open(void *session) { tg_close(session); }

static TgStatus open_session(TgSession **out, const Opened *from, const TgOptions *options)
{
    double start = clock_s();
    TgSession *s = session_new(from->data ? "model" : from->path, options);
    Undo undo;
    undo_push(&undo, undo_open, s);
    Watcher before = session_watch(s);
    TgStatus status = load_model(s, from);
    if (status == TG_OK) status = watch_check();
    status = status == TG_OK ? open_rest(s) : session_in_file(s, status);
    watcher_set(before);
    undo_pop(&undo);
    s->load_s = clock_s() - start;
    if (status == TG_OK) *out = s;
    else tg_close(s);
    return status;
}

static TgStatus open_any(TgSession **out, const Opened *from, const TgOptions *options)
{
    Watcher before = *watcher_now();
    TgStatus status;
    ATTEMPT(status, open_session(out, from, options));
    watcher_set(before);
    return status;
}

static TgStatus open_ranks(TgSession **out, const Opened *from, const TgOptions *options)
{
    bool ranked = ranks_wanted(options);
    TgSession *s = NULL;
    TgStatus status;
    if (ranked && (from->data || (options && options->data_count)))
        return fail(TG_UNSUPPORTED, "shard: ranks open a model by its file");
    RANKS_CALL(status, ranked,
               (&(RanksWork){ .call = RANKS_OPEN, .options = options, .text = from->path, .session = NULL }),
               open_any(&s, from, options));
    if (ranked && s && status == TG_OK) ranks_add(s);
    else if (status != TG_OK && s) {
        s->target.rank = 0;         /* it is not one of all ranks */
        tg_close(s);
    }
    if (status == TG_OK) *out = s;
    return status;
}

TgStatus tg_open(TgSession **out, const char *path, const TgOptions *options)
{
    return open_ranks(out, &(Opened){ .path = path }, options);
}

TgStatus tg_open_memory(TgSession **out, const void *data, size_t size_bytes, const char *folder,
                        const TgOptions *options)
{
    return open_ranks(out, &(Opened){ .data = data ? data : "", .size_bytes = data ? size_bytes : 0, .folder = folder },
                    options);
}

void session_drop_programs(TgSession *s)
{
    for (Program *p = s->program, *next; p; p = next) {
        next = p->next;
        program_free(p, s->backend);
    }
    s->program = NULL;
}

static TgStatus close_session(TgSession *s)
{
    session_drop_programs(s);
    ranks_remove(s);
    if (!family_leave(s)) session_free(s);
    return TG_OK;
}

void tg_close(TgSession *s)
{
    TgStatus status;
    bool closed = false;
    if (!s) return;
    RANKS_CALL(status, s->target.rank, (&(RanksWork){ .call = RANKS_CLOSE, .session = s }),
               (closed = true, close_session(s)));
    if (status != TG_OK && !closed) close_session(s);
}

void session_free(TgSession *s)
{
    batch_free(s->batch);
    arena_free(s->profile);
    tunedb_close(s->tunedb);
    if (s->device) s->backend->close(s->device);
    if (s->model) model_free(s->model);
    if (s->saved) bundle_close(s->saved->bundle);
    arena_free(s->arena);
}

/* ---- bodies of loops that an import runs (Bodies in frontend.h) ---- */

static TgStatus open_body(TgSession **out, const void *user, Model *model, const Outside *outside)
{
    const ProgramMaker *maker = user;
    Arena *a = arena_new();
    TgSession *s = NEW(a, TgSession);
    *s = (TgSession){ .arena = a,
                      .model = model,
                      .backend = maker->backend,
                      .device = maker->device,
                      .choice = *maker->choice,
                      .outside = outside,
                      .options = { .max_memory_bytes = maker->max_memory_bytes } };
    s->choice.named = NULL;
    *out = s;
    return free_dims_new(&s->dims, a, model, NULL);
}

static void close_body(TgSession *inside)
{
    inside->device = NULL;
    inside->model = NULL;
    tg_close(inside);
}

TgStatus session_check_inputs(const TgSession *s, const TgTensor *input, int32_t count)
{
    if (!s->device) return fail(TG_USAGE, "the session was opened without a device");
    if (count != tg_input_count(s))
        return fail(TG_BAD_INPUT, "%d inputs are given; %d are wanted", count, tg_input_count(s));
    if (s->batch && !s->batch->serial) {
        TRY(batch_sample(s->batch, s->model, s->batch->one, input, 0));
        input = s->batch->one;
    }
    for (int32_t i = 0; i < count; i++) TRY(port_check(&s->model->graph.input[i], &input[i]));
    return free_dims_check(&s->dims, s->model, input);
}

/* ---- programs ---- */

/* Keeps what was used last: at most PROGRAMS_KEPT, and no second one beyond PROGRAMS_BYTES: each holds its own packed
 * weights. */
static void drop_oldest(TgSession *s)
{
    int64_t bytes = 0;
    Program **p = &s->program;
    for (int i = 0; *p && i < PROGRAMS_KEPT && (!i || bytes + program_bytes(*p) <= PROGRAMS_BYTES);
         i++, p = &(*p)->next)
        bytes += program_bytes(*p);
    for (Program *q = *p, *next; q; q = next) {
        next = q->next;
        program_free(q, s->backend);
    }
    *p = NULL;
}

/* One whose sizes are built in is faster. */
static Program *unlink_fitting(TgSession *s, const TgTensor *input, int32_t count)
{
    Program **best = NULL;
    for (Program **p = &s->program; *p && (!best || (*best)->dims); p = &(*p)->next)
        if (program_fits(*p, s->backend, input, (uint32_t)count) && (!best || !(*p)->dims)) best = p;
    Program *found = best ? *best : NULL;
    if (best) *best = found->next;
    return found;
}

ProgramMaker session_maker(const TgSession *s)
{
    return (ProgramMaker){ .model = s->model,
                           .backend = s->backend,
                           .device = s->device,
                           .choice = &s->choice,
                           .compiled = s->saved ? s->saved->bundle : NULL,
                           .cache_dir = s->options.no_cache || s->saved ? NULL : s->options.cache_dir,
                           .max_memory_bytes = s->options.max_memory_bytes,
                           .batch = s->batch && !s->batch->serial ? s->batch : NULL,
                           .shard = s->shard.devices > 1 ? &s->shard : NULL,
                           .pieces = s->pieces,
                           .outside = s->outside,
                           .bodies = { .open = open_body, .close = close_body } };
}

static void say_variable(const Dims *d, const DimVar *v)
{
    if (v->of && !v->fixed) {
        Text t = { 0 };
        text_add(&t, "size %s is", v->name);
        for (uint32_t k = 0; k < d->nvar; k++)
            if (v->of[k]) text_add(&t, " %ld %s +", (long)v->of[k], d->var[k].name);
        watch_say("%s %ld, times %ld", t.s, (long)v->plus, (long)v->step);
        text_free(&t);
    } else if (!v->fixed)
        watch_say("size %s is a variable: %ld..%ld, step %ld", v->name, (long)v->least, (long)v->largest,
                (long)v->step);
    else if (v->why) watch_say("size %s is built in: %s", v->name, v->why);
}

static TgStatus make_until(Program **out, const TgSession *s, const TgTensor *input, int32_t count, ProgramGoal goal,
                           Dump *dump)
{
    ProgramMaker maker = session_maker(s);
    Undo undo;
    TRY(family_lock(s));
    undo_push(&undo, family_undo, (void *)(uintptr_t)s);
    TgStatus status = program_make(out, &maker, input, (uint32_t)count, s->batch ? NULL : &s->dims, goal, dump);
    undo_pop(&undo);
    family_unlock(s);
    return status;
}

TgStatus session_plan(Program **out, const TgSession *s, const TgTensor *input, int32_t count, Dump *dump)
{
    TgStatus status;
    RANKS_CALL(status, s->target.rank,
               (&(RanksWork){ .call = RANKS_PLAN, .session = s, .input = input, .count = count }),
               make_until(out, s, input, count, PROGRAM_PLAN, dump));
    return status;
}

TgStatus session_make(Program **out, TgSession *s, const TgTensor *input, int32_t count)
{
    if (!s->batch) free_dims_see(&s->dims, input);
    TRY(make_until(out, s, input, count, PROGRAM_READY, NULL));
    const Program *p = *out;
    for (uint32_t i = 0; i < p->ninput && p->ninput == p->nport; i++) s->dims.valued[i] |= p->imported.baked[i];
    s->made++;
    s->kept += p->kept;
    s->compiled += p->stats.compiled;
    s->cached += p->stats.cached;
    s->compile_s += p->stats.compile_s;
    s->schedule_s += p->schedule_s;
    s->load_s += p->load_s;
    for (uint32_t k = 0; s->options.verbose && p->dims && k < p->dims->nvar; k++)
        say_variable(p->dims, &p->dims->var[k]);
    if (s->options.verbose && p->schedule && p->schedule->refused) watch_say("%s", p->schedule->why_refused.s);
    return TG_OK;
}

TgStatus session_make_anew(Program **out, TgSession *s, const TgTensor *input)
{
    return session_make(out, s, input, (int32_t)s->program->nport);
}

void session_replace(TgSession *s, Program *p)
{
    Program *old = s->program;
    p->next = old->next;
    s->program = p;
    program_free(old, s->backend);
}

/* A program that is made as a whole, whatever becomes of the call that wants it. */
static TgStatus make_whole(Program **out, TgSession *s, const TgTensor *input, int32_t count)
{
    ProgramHold h;
    *out = NULL;
    program_hold(&h, out, s->backend);
    TgStatus status =
        s->family ? family_program(out, s, input, count) : session_make(out, s, input, count);
    program_let(&h);
    return status;
}

static TgStatus add_program(TgSession *s, const TgTensor *input, int32_t count)
{
    Program *p;
    TgStatus status;
    ATTEMPT_ALONE(status, make_whole(&p, s, input, count));
    if (status != TG_OK) return session_in_file(s, status);
    p->next = s->program;
    s->program = p;
    return TG_OK;
}

bool session_falls_plain(TgSession *s, TgStatus *status)
{
    if (*status != (TgStatus)GUARD_PLAIN) return false;
    if (s->saved) {
        *status = session_in_file(s, fail(TG_UNSUPPORTED,
                                          "a sum over windows is no number, by an Inf, a NaN or an overflow: run the "
                                          "model that was compiled"));
        return false;
    }
    s->target.plain = true;
    for (Program *p = s->program, *next; p; p = next) {
        next = p->next;
        program_free(p, s->backend);
    }
    s->program = NULL;
    return true;
}

static TgStatus find_program(TgSession *s, const TgTensor *input, int32_t count)
{
    if (s->program && !s->program->dims && program_fits(s->program, s->backend, input, (uint32_t)count)) return TG_OK;
    TRY(session_in_file(s, session_check_inputs(s, input, count)));
    /* the one program of a compiled model is for the inputs for which it was compiled */
    if (s->saved && !s->program) TRY(add_program(s, s->saved->input, (int32_t)s->saved->ninput));
    Program *p = unlink_fitting(s, input, count);
    if (!p) return s->saved ? session_in_file(s, compiled_refuse(s, input, count)) : add_program(s, input, count);
    p->next = s->program;
    s->program = p;
    return TG_OK;
}

TgStatus session_program(TgSession *s, const TgTensor *input, int32_t count)
{
    TgStatus status = find_program(s, input, count);
    if (session_falls_plain(s, &status)) status = find_program(s, input, count);
    return status;
}

TgStatus session_enter(TgSession *s, const TgTensor **inputs, int32_t count)
{
    Batch *b = s->batch;
    if (!b || count != tg_input_count(s)) return TG_OK;
    if (!b->serial) {
        TgStatus status = session_program(s, *inputs, count);
        if (status != TG_UNSUPPORTED) return status;
        b->serial = true;
        snprintf(b->why, sizeof b->why, "%s", tg_error());
        if (s->options.verbose) watch_say("samples run one after another: %s", b->why);
        session_drop_programs(s);
        status_clear();
    }
    TRY(session_in_file(s, batch_sample(b, s->model, b->one, *inputs, 0)));
    *inputs = b->one;
    return TG_OK;
}

int32_t tg_built_in(const TgSession *s, int32_t index)
{
    return s->program && index >= 0 && (uint32_t)index < s->program->nport && s->program->input[index].data != NULL;
}

const char *tg_serial(const TgSession *s) { return s->batch && s->batch->serial ? s->batch->why : NULL; }

static TgStatus prepare(TgSession *s, const TgTensor *inputs, int32_t count)
{
    const TgTensor *all = inputs;
    TRY(watch_check());
    TRY(session_enter(s, &inputs, count));
    TRY(session_program(s, inputs, count));
    bool search = s->options.tune_s > 0 || s->options.beam > 0;
    return search && !s->program->tuned ? tg_tune(s, all, count, s->options.tune_s, s->options.beam) : TG_OK;
}

static TgStatus prepare_watched(TgSession *s, const TgTensor *inputs, int32_t count)
{
    TgStatus status;
    SESSION_CALL(status, s, prepare(s, inputs, count));
    return status;
}

TgStatus tg_prepare(TgSession *s, const TgTensor *inputs, int32_t count)
{
    TgStatus status;
    RANKS_CALL(status, s->target.rank,
               (&(RanksWork){ .call = RANKS_PREPARE, .session = s, .input = inputs, .count = count }),
               prepare_watched(s, inputs, count));
    return status;
}

static TgStatus run_once(TgSession *s, const TgTensor *inputs, int32_t count, const Bound *bound, TgTensor *outputs)
{
    TRY(session_program(s, inputs, count));
    drop_oldest(s);                     /* here, not in tg_prepare: the last run's outputs live until now */
    TgStatus status = program_run(s->program, s->backend, inputs, bound, outputs);
    return session_in_file(s, s->target.rank ? ranks_agree(status) : status);
}

/* The last run failed for a text of more pieces than its program has room for: programs that make strings are made
 * anew, with more. */
static void make_room(TgSession *s)
{
    enum { PIECES = 1024, TIMES = 4 };
    if (!s->pieces) s->pieces = PIECES;
    while (s->pieces < s->program->pieces_wanted) s->pieces *= TIMES;
    for (Program **at = &s->program, *p = *at; p; p = *at) {
        if (!p->imported.makes_text) {
            at = &p->next;
            continue;
        }
        *at = p->next;
        program_free(p, s->backend);
    }
}

/* Inputs are those of the session's programs. */
static TgStatus run_here(TgSession *s, const TgTensor *inputs, int32_t count, const Bound *bound, TgTensor *outputs)
{
    TgStatus status = run_once(s, inputs, count, bound, outputs);
    if (session_falls_plain(s, &status)) status = run_once(s, inputs, count, bound, outputs);
    for (int64_t room = 0; status == TG_LIMIT && s->program && s->program->pieces_wanted > room;
         status = run_once(s, inputs, count, bound, outputs)) {
        room = s->program->pieces_wanted;
        make_room(s);
    }
    return status;
}

static TgStatus run_samples(TgSession *s, const TgTensor *inputs, int32_t count, TgTensor *outputs)
{
    Batch *b = s->batch;
    TgTensor y[b->noutput + 1];
    for (int32_t k = 0; k < b->n; k++) {
        TRY(session_in_file(s, batch_sample(b, s->model, b->one, inputs, k)));
        TRY(run_here(s, b->one, count, NULL, y));
        TRY(session_in_file(s, batch_keep(b, k, y, b->noutput)));
    }
    memcpy(outputs, b->output, sizeof *outputs * b->noutput);
    return s->bound ? session_in_file(s, bound_copy(s->bound, outputs, b->noutput)) : TG_OK;
}

static TgStatus run(TgSession *s, const TgTensor *inputs, int32_t count, TgTensor *outputs)
{
    const TgTensor *all = inputs;
    TRY(watch_check());
    TRY(session_enter(s, &inputs, count));
    return inputs != all ? run_samples(s, all, count, outputs) : run_here(s, inputs, count, s->bound, outputs);
}

static TgStatus run_watched(TgSession *s, const TgTensor *inputs, int32_t count, TgTensor *outputs)
{
    TgStatus status;
    SESSION_CALL(status, s, run(s, inputs, count, outputs));
    return status;
}

TgStatus tg_run(TgSession *s, const TgTensor *inputs, int32_t count, TgTensor *outputs)
{
    TgStatus status;
    RANKS_CALL(status, s->target.rank,
               (&(RanksWork){ .call = RANKS_RUN, .session = s, .input = inputs, .count = count }),
               run_watched(s, inputs, count, outputs));
    return status;
}

static TgStatus bind_output(TgSession *s, int32_t index, void *data, size_t size_bytes)
{
    TgPort port;
    TRY(tg_output(s, index, &port));
    if (port.type == TG_STRING || port.type >= TG_SEQUENCE)
        return session_in_file(s, fail(TG_USAGE, "output %d holds %s: no memory can be bound to it", index,
                                       port.type == TG_STRING ? "strings" : "tensors"));
    if (!s->bound) s->bound = NEW_N(s->arena, Bound, s->whole.noutput + 1);
    s->bound[index] = (Bound){ data, data ? size_bytes : 0 };
    return TG_OK;
}

TgStatus tg_bind_output(TgSession *s, int32_t index, void *data, size_t size_bytes)
{
    TgStatus status;
    ATTEMPT(status, bind_output(s, index, data, size_bytes));
    return status;
}

TgStatus tg_take(TgTensor *out, TgSession *s, int32_t index)
{
    TgTensor *y = s->program && index >= 0 && (uint32_t)index < s->program->nresult ? &s->program->output[index] : NULL;
    if (y && tg_serial(s)) y = &s->batch->output[index];
    if (y && s->bound && s->bound[index].data)
        return fail(TG_USAGE, "output %d is the caller's: memory is bound to it", index);
    if (!y || !y->data) return fail(TG_USAGE, "output %d of no run is there to take", index);
    if (y->type == TG_STRING || holds_tensors(y))
        return fail(TG_USAGE, "output %d holds %s, which stay the session's", index,
                    y->type == TG_STRING ? "strings" : "tensors");
    *out = *y;
    y->data = NULL;
    return TG_OK;
}

int64_t tg_program_count(const TgSession *s) { return s->made; }

double tg_device_seconds(const TgSession *s)
{
    return s->program && s->backend->device_seconds ? s->backend->device_seconds(s->program->executable) : 0;
}
