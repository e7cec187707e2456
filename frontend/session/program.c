/* From a model and concrete inputs to something that runs: import, schedule, choose and lower kernels, plan, compile,
 * load. In: a checked Model, the inputs' types and shapes (and values, where sizes depend on them), an open device.
 * Out: a Program. The stages are called here in order and nowhere else; a stage that is added to a kernel's way belongs
 * to kernel_lower, one that sees all kernels to sched_schedule. */
#include "frontend/session/program.h"

#include <malloc.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backends/cache.h"
#include "frontend/session/batch.h"
#include "frontend/session/kept.h"
#include "frontend/session/ranks.h"
#include "frontend/session/shard.h"
#include "frontend/values/complex.h"
#include "graph/base/memory.h"
#include "graph/base/spare.h"
#include "graph/custom.h"
#include "graph/print.h"

/* of values, for the largest sizes of a range that nobody requested */
static const int64_t REACH_BYTES = INT64_C(1) << 28;

/* A list that the user named is used or is an error; others may be dropped by sched_optimize. */
typedef struct { const Choice *choice; uint32_t named; TgStatus status; char why[1024]; } Chooser;

static void choose(OptList *out, const Kernel *k, const ScheduleItem *item, const Schedule *s, void *user)
{
    Chooser *c = user;
    (void)item;
    (void)s;
    choice_of(out, c->choice, k);
    if (!c->choice->named || c->choice->saved || !choice_is_named(c->choice, k)) return;
    c->named++;
    if (c->status != TG_OK || choice_is_legal(c->choice, k, out) == TG_OK) return;
    c->status = TG_USAGE;
    snprintf(c->why, sizeof c->why, "opts: kernel %s: %s", k->name, tg_error());
}

static TgStatus choose_all(Schedule *s, const Choice *choice, Dump *dump)
{
    Chooser c = { .choice = choice, .named = choice_names_schedule(choice) ? s->list.count : 0 };
    tunedb_look(choice->db);
    TRY(sched_optimize(s, choice->target, choose, &c, choice->named ? 1 : target_workers(choice->target), dump));
    if (c.status != TG_OK) return fail(c.status, "%s", c.why);
    return choice->named && !choice->saved && !c.named
        ? fail(TG_USAGE, "opts: none of the kernels and values that they name is here")
        : TG_OK;
}

static TgStatus bind_host_steps(Plan *p)
{
    for (uint32_t i = 0; i < p->nstep; i++) {
        Step *s = &p->step[i];
        if (s->kind != STEP_HOST || s->host) continue;
        if (s->call->exchange) {
            s->host = ranks_exchange;
            continue;
        }
        const char *name = custom_name(s->call->call->src[0]);
        const HostEntry *entry = host_find(name);
        if (!entry) return fail(TG_INTERNAL, "step %u of the plan calls '%s', which is no host function", i, name);
        s->host = entry->fn;
        s->part = entry->part, s->part_bytes = entry->part_bytes;
    }
    return TG_OK;
}

/* A data-dependent size must be found by a step, one of an input by its shape. */
static TgStatus check_sizes(Program *p)
{
    const Plan *plan = p->plan;
    bool *set = NEW_N(p->arena, bool, plan->nvar + 1);
    for (uint32_t i = 0; i < plan->nstep; i++) {
        const Step *s = &plan->step[i];
        const Control *c = s->kind == STEP_HOST ? s->call->control : NULL;
        if (c && c->step >= 0) set[c->step] = true;
        if (c && c->count >= 0) set[c->count] = true;
        for (uint32_t k = 0; s->kind == STEP_HOST && s->call->call && k < s->call->call->src[0]->nsrc; k++)
            set[s->call->var[k]] = true;
    }
    for (uint32_t k = 0; p->dims && k < p->dims->nvar; k++) {
        int32_t at = plan_var(plan, p->dims->var[k].name);
        if (at >= 0) set[at] = true;
    }
    for (uint32_t k = 0; k < plan->nvar; k++)
        if (!set[k] && *plan->var_name[k] != '#')
            return fail(TG_UNSUPPORTED, "size '%s' is used, but nothing that finds it is", plan->var_name[k]);
    return TG_OK;
}

static void make_vars(Program *p)
{
    p->vars = NEW_N(p->arena, int64_t, p->plan->nvar + 1);
    if (p->plan->nvar) memcpy(p->vars, p->plan->var_value, sizeof *p->vars * p->plan->nvar);
}

static TgStatus make_plan(Program *p, const Choice *c, Dump *dump)
{
    Choices choices;
    bool offered = dump && !strcmp(dump->stage, "choices");
    choice_schedule(&choices.list, c, p->imported.g, p->imported.sink);
    TRY(sched_schedule(&p->schedule, p->imported.g, p->imported.sink, c->target,
                       choices.list.count || offered ? &choices : NULL, dump));
    TRY(choose_all(p->schedule, c, dump));
    TRY(plan_make(&p->plan, p->schedule, c->target));
    TRY(bind_host_steps(p->plan));
    TRY(check_sizes(p));
    make_vars(p);
    if (c->target->rank) TRY(ranks_same(p->plan->common, "plan"));
    if (dump && !strcmp(dump->stage, "plan")) plan_print(dump->text, p->plan);
    if (dump && !strcmp(dump->stage, "memplan")) plan_print_memory(dump->text, p->plan);
    return TG_OK;
}

static TgStatus make_outputs(Program *p)
{
    p->noutput = p->imported.noutput;
    p->output = p->imported.output;
    p->out = NEW_N(p->arena, TgTensor *, p->noutput + 1);
    port_parts((const TgTensor **)p->out, p->output, p->nresult);
    for (uint32_t i = 0; i < p->plan->nbuffer; i++) {
        const PlanBuffer *b = &p->plan->buffer[i];
        if (b->kind != MEM_OUTPUT) continue;
        TgTensor *y = p->out[b->offset];
        y->type = p->imported.output_text[b->offset] ? TG_STRING
            : p->imported.output_narrow[b->offset]   ? (TgType)p->imported.output_narrow[b->offset]
                                                     : (TgType)dtype_info[b->dtype].onnx;
        y->rank = (int32_t)b->shape->rank - complex_is((int32_t)y->type);
    }
    return program_outputs(p, NULL);
}

void program_inputs(Program *p, const TgTensor *input, uint32_t nport)
{
    p->nport = nport;
    p->input = port_copy(p->arena, input, nport);
    p->ninput = port_parts(NULL, p->input, nport);
    p->in = NEW_N(p->arena, TgTensor *, p->ninput + 1);
    p->given = NEW_N(p->arena, const TgTensor *, p->ninput + 1);
    port_parts((const TgTensor **)p->in, p->input, nport);
}

/* ---- values that are kept ---- */

static const char **copy_strings(Program *p, const TgTensor *t)
{
    const char **out = NEW_N(p->arena, const char *, tensor_count(t) + 1);
    for (int64_t k = 0; k < tensor_count(t); k++) out[k] = arena_strdup(p->arena, ((const char *const *)t->data)[k]);
    return out;
}

static void make_text(Program *p)
{
    p->own = NEW_N(p->arena, void *, p->ninput + 1);
    p->room = NEW_N(p->arena, int64_t, p->ninput + 1);
}

static void keep_baked(Program *p, const TgTensor *input)
{
    port_parts(p->given, input, p->nport);
    for (uint32_t i = 0; i < p->ninput; i++) {
        const TgTensor *x = p->given[i];
        if (p->imported.baked[i] && x->data)
            p->in[i]->data =
                x->type == TG_STRING ? (void *)copy_strings(p, x) : arena_copy(p->arena, x->data, x->size_bytes);
    }
}

static void forget(void *owner, const void *data, size_t bytes) { model_forget(owner, data, bytes); }

int64_t program_bytes(const Program *p)
{
    int64_t bytes = p->plan->arena_bytes + p->plan->persist_bytes;
    for (uint32_t i = 0; i < p->plan->nbuffer; i++)
        bytes += p->plan->buffer[i].kind == MEM_OUTPUT ? p->plan->buffer[i].size_bytes : 0;
    return bytes;
}

/* What was made on the way to code goes back to the system before the model's own memory is requested. */
static void forget_code(Program *p)
{
    if (p->schedule) schedule_forget_code(p->schedule);
#ifdef __GLIBC__
    malloc_trim(0);
#endif
}

static TgStatus check_memory(const Program *p, int64_t limit)
{
    int64_t bytes = program_bytes(p);
    return limit && bytes > limit
        ? fail(TG_LIMIT, "needs %ld bytes for its values; the limit is %ld", (long)bytes, (long)limit)
        : TG_OK;
}

static void drop_plan(Program *p)
{
    if (p->plan) plan_free(p->plan);
    if (p->schedule) schedule_free(p->schedule);
    if (p->imported.g) graph_free(p->imported.g);
    p->plan = NULL;
    p->schedule = NULL;
    p->imported.g = NULL;
}

static TgStatus restore(Program *p, const ProgramMaker *k)
{
    double start = clock_s();
    TRY(k->backend->restore(&p->executable, &p->code, k->device, p->plan, k->compiled));
    forget_code(p);
    p->stats.cached = p->plan->nkernel;
    p->load_s = clock_s() - start;
    return TG_OK;
}

/* Of several ranks on a machine the first compiles, then the others find in the cache what it has made. */
static TgStatus compile_kernels(Program *p, const ProgramMaker *k)
{
    bool ranks = k->choice->target->rank;
    if (ranks) TRY(ranks_turn(false));
    TgStatus status = k->backend->compile(&p->code, k->device, p->plan->kernel, p->plan->nkernel, &p->stats);
    TgStatus turned = ranks ? ranks_turn(true) : TG_OK;
    return status == TG_OK ? turned : status;
}

static TgStatus load(Program *p, const ProgramMaker *k)
{
    double start = clock_s();
    p->plan->forget = forget;
    p->plan->forget_owner = (void *)(uintptr_t)k->model;
    TRY(k->backend->load(&p->executable, k->device, p->plan, p->code));
    /* around what was read, the system has mapped up to 2 MiB */
    model_forget_all(k->model);
    p->load_s = clock_s() - start;
    return TG_OK;
}

static TgStatus compile_and_load(Program *p, const ProgramMaker *k)
{
    TRY(check_memory(p, k->max_memory_bytes));
    TRY(make_outputs(p));
    if (k->compiled) return restore(p, k);
    TRY(compile_kernels(p, k));
    if (!k->backend->interprets) forget_code(p);
    return load(p, k);
}

/* ---- questions (shape_query.h) ---- */

static Program *program_empty(void)
{
    Arena *arena = arena_new();
    Program *p = NEW(arena, Program);
    p->arena = p->known.arena = arena;
    p->users = 1;
    return p;
}

static Program *program_new(const TgTensor *input, uint32_t nport)
{
    Program *p = program_empty();
    program_inputs(p, input, nport);
    return p;
}

/* Those that the import has forgotten. */
static void drop_asked(Program *p, const Backend *b)
{
    uint32_t n = p->known.n;
    for (; p->answer && p->answer[n]; n++) {
        program_free(p->answer[n], b);
        p->answer[n] = NULL;
    }
}

static Program **room_for_question(Program *p)
{
    Known *k = &p->known;
    if (k->n + 1 >= k->room) {
        Answer *item = NEW_N(p->arena, Answer, k->room = 2 * k->room + 4);
        Program **answer = NEW_N(p->arena, Program *, k->room + 1);
        if (k->n) memcpy(item, k->item, sizeof *item * k->n), memcpy(answer, p->answer, sizeof *answer * k->n);
        k->item = item;
        p->answer = answer;
    }
    return &p->answer[k->n];
}

static void keep_answer(Program *p, const TgTensor *y)
{
    Answer *a = &p->known.item[p->known.n++];
    *a = (Answer){ p->imported.node, *y };
    a->value.data = y->type == TG_STRING ? (void *)copy_strings(p, y) : arena_copy(p->arena, y->data, y->size_bytes);
}

/* The graph that p's import has come to computes a value that it must know: a program of its own, which lives as long
 * as p. */
static TgStatus ask(Program *p, const ProgramMaker *k, const TgTensor *input)
{
    if (!port_has_data(input, p->nport))
        return fail(TG_UNSUPPORTED, "a size or axis depends on the data of inputs, which are not given");
    Program *q = *room_for_question(p) = program_new(input, p->nport);
    q->dims = p->dims;
    q->imported = p->imported;
    p->imported.g = NULL;
    if (k->shard) TRY(shard_split(k->shard, k->model, &q->imported, false));
    keep_baked(q, input);
    make_text(q);
    TRY(make_plan(q, k->choice, NULL));
    q->nresult = 1;
    TRY(compile_and_load(q, k));
    TgTensor y[q->nresult];
    TRY(program_run(q, k->backend, input, NULL, y));
    keep_answer(p, y);
    return TG_OK;
}

static void add_stats(CompileStats *to, const CompileStats *s)
{
    to->compiled += s->compiled;
    to->cached += s->cached;
    to->compile_s += s->compile_s;
}

static TgStatus import_asking(Program *p, const ProgramMaker *k, const TgTensor *input)
{
    p->known.bodies = k->bodies, p->known.bodies.user = k, p->known.pieces = k->pieces, p->known.outside = k->outside;
    for (;;) {
        TRY(import_model(&p->imported, k->model, input, p->nport, p->dims, &p->known));
        drop_asked(p, k->backend);
        if (!p->imported.question) return TG_OK;
        if (k->batch) return fail(TG_UNSUPPORTED, "a size or axis depends on the data of inputs");
        TRY(ask(p, k, input));
    }
}

static bool same_answers(const Program *p, const Backend *b, const TgTensor *input)
{
    for (uint32_t i = 0; i < p->known.n; i++) {
        TgTensor y[p->answer[i]->nresult];
        if (program_run(p->answer[i], b, input, NULL, y) != TG_OK) return false;
        if (!port_same(&p->known.item[i].value, y)) return false;
    }
    return true;
}

/* ---- all of it ---- */

/* Of values, where ranges end as they do now, by the shapes of a plan for wider ones. */
static double value_bytes(const Program *p)
{
    double then = 0, now = 0;
    for (uint32_t i = 0; i < p->plan->nbuffer; i++) {
        const PlanBuffer *b = &p->plan->buffer[i];
        double bytes = b->kind == MEM_ARENA || b->kind == MEM_OUTPUT ? (double)b->size_bytes : 0;
        then += bytes;
        for (uint32_t k = 0; bytes > 0 && k < b->shape->rank; k++) bytes *= dims_share(p->dims, b->shape->dim[k]);
        now += bytes;
    }
    return then > 0 ? (double)(program_bytes(p) - p->plan->persist_bytes) * (now / then) : 0;
}

/* Before there is a plan: what a sum makes and the largest sum that it reads, that once more with a border or in
 * another order, and one that is kept for later: plans of a text detector, a recogniser and a classifier hold 2.3 to
 * 3.9 times the largest. */
static double sum_bytes(const Program *p)
{
    Arena *scratch = arena_new();
    uint32_t n;
    const UOp **order = uop_toposort(p->imported.g, &p->imported.sink, 1, scratch, &n);
    double *reads = NEW_N(scratch, double, p->imported.sink->id + 1), most = 0;
    for (uint32_t i = 0; i < n; i++) {
        const UOp *u = order[i];
        for (uint32_t k = 0; k < u->nsrc; k++) reads[u->id] = fmax(reads[u->id], reads[u->src[k]->id]);
        if (u->op != UOP_REDUCE) continue;
        double made = dims_bytes(p->dims, u);
        most = fmax(most, made + 3 * reads[u->id]);
        reads[u->id] = made;
    }
    arena_free(scratch);
    return most;
}

/* Ranges end where the values need no more than what is cheap; false: they do, or cannot. */
static bool narrows(Program *p, double (*bytes)(const Program *p))
{
    bool any = false;
    while (p->dims && bytes(p) > REACH_BYTES && dims_narrow(p->dims)) any = true;
    return any;
}

/* Memory is planned for the largest sizes: those that nobody requested reach as far as that is cheap. */
static TgStatus import_and_plan(Program *p, const ProgramMaker *k, const TgTensor *input, Dump *dump)
{
    TgTensor one[p->nport + 1];
    if (k->batch) TRY(batch_sample(k->batch, k->model, one, input, -1));
    do {
        do {
            drop_plan(p);
            p->known.n = 0;
            TRY(import_asking(p, k, k->batch ? one : input));
        } while (narrows(p, sum_bytes));
        if (k->batch) TRY(batch_map(k->batch, &p->imported));
        if (k->shard) TRY(shard_split(k->shard, k->model, &p->imported, true));
        keep_baked(p, input);
        make_text(p);
        TRY(make_plan(p, k->choice, dump));
    } while (narrows(p, value_bytes));
    return TG_OK;
}

static TgStatus make(Program *p, const ProgramMaker *k, const TgTensor *input, ProgramGoal goal, Dump *dump)
{
    double start = clock_s();
    TRY(import_and_plan(p, k, input, dump));
    p->schedule_s = clock_s() - start;
    p->plain = k->choice->target->plain;
    p->pieces = k->pieces;
    if (goal == PROGRAM_PLAN) return TG_OK;
    TRY(compile_and_load(p, k));
    for (uint32_t i = 0; i < p->known.n; i++) add_stats(&p->stats, &p->answer[i]->stats);
    return TG_OK;
}

/* ---- attempts that fail ---- */

/* What is no memory of this attempt. */
static void release(Program *p, const Backend *b)
{
    if (p->executable) b->unload(p->executable);
    if (p->code && !p->of) b->code_free(p->code);
    for (uint32_t i = 0; p->out && i < p->noutput; i++)
        if (p->out[i]) spare_free(p->out[i]->data);
    for (uint32_t i = 0; p->answer && p->answer[i]; i++) release(p->answer[i], b);
    if (p->of) atomic_fetch_sub(&p->of->users, 1);          /* that one is somebody's still */
}

static void undo_make(void *hold) { release(*((ProgramHold *)hold)->p, ((ProgramHold *)hold)->b); }

static void undo_hold(void *hold) { program_free(*((ProgramHold *)hold)->p, ((ProgramHold *)hold)->b); }

static void begin_hold(ProgramHold *h, Program **p, const Backend *b, void (*undo)(void *hold))
{
    h->p = p;
    h->b = b;
    undo_push(&h->undo, undo, h);
}

void program_hold(ProgramHold *h, Program **p, const Backend *b) { begin_hold(h, p, b, undo_hold); }

void program_let(ProgramHold *h) { undo_pop(&h->undo); }

/* ---- programs that are kept (kept.h) ---- */

/* What is written of one is read. TG_CACHE: it is for others. */
static TgStatus read_back(Program *p, const ProgramMaker *k, ByteReader *in, const TgTensor *input, uint32_t nport)
{
    double start = clock_s();
    if (!program_read(p, in, k->model) || !program_fits(p, k->backend, input, nport)) return TG_CACHE;
    make_text(p);
    make_vars(p);
    p->kept = true;
    p->plain = k->choice->target->plain;
    p->pieces = k->pieces;
    TRY(bind_host_steps(p->plan));
    TRY(check_memory(p, k->max_memory_bytes));
    TRY(make_outputs(p));
    p->schedule_s = clock_s() - start;
    if (k->compiled) return restore(p, k);
    if (!k->backend->recall(&p->code, k->device, in, p->plan->nkernel, &p->stats)) return TG_CACHE;
    return load(p, k);
}

/* false: there is none, or it could not be made to run; then it is made as if there were none. */
static bool recall(Program **out, const ProgramMaker *k, ByteReader in, const TgTensor *input, uint32_t nport)
{
    ProgramHold h;
    Program *p = program_empty();
    begin_hold(&h, &p, k->backend, undo_make);
    TgStatus status = read_back(p, k, &in, input, nport);
    program_let(&h);
    if (status == TG_OK) return *out = p, true;
    program_free(p, k->backend);
    status_clear();
    return false;
}

static bool find_kept(Program **out, const ProgramMaker *k, const char *key, const TgTensor *input, uint32_t nport)
{
    Piece piece = { 0 };
    void *bytes = NULL;
    if (k->compiled && bundle_has(k->compiled, KEPT_NAME)) {
        if (bundle_get(k->compiled, &piece, KEPT_NAME) != TG_OK) return status_clear(), false;
    } else if (!*key || !cache_get(&bytes, &piece.size, k->cache_dir, KEPT_NAME, key)) return false;
    else piece.data = bytes;
    bool found = recall(out, k, (ByteReader){ piece.data, (const uint8_t *)piece.data + piece.size, false }, input,
                        nport);
    mem_free(bytes);
    return found;
}

static TgStatus write_kept(const Program *p, const ProgramMaker *k, const char *key)
{
    Text t = { 0 };
    if (program_write(&t, p, k->model) && k->backend->remember(&t, p->code))
        cache_put(k->cache_dir, KEPT_NAME, key, t.s, t.len);
    text_free(&t);
    return TG_OK;
}

/* Where there is no memory for that, it is not kept. */
static void keep(const Program *p, const ProgramMaker *k, const char *key)
{
    TgStatus status;
    if (!*key) return;
    ATTEMPT(status, write_kept(p, k, key));
    if (status != TG_OK) status_clear();
}

/* ---- making and sharing ---- */

/* What cannot be done with sizes that are variables is done with those at hand, and what then cannot be done with
 * strings of each run, with those at hand. */
TgStatus program_make(Program **out, const ProgramMaker *maker, const TgTensor *input, uint32_t nport,
                      const FreeDims *f, ProgramGoal goal, Dump *dump)
{
    KeptKey key = "";
    if (goal == PROGRAM_READY && !kept_key(key, maker, input, nport, f)) *key = 0;
    if (goal == PROGRAM_READY && find_kept(out, maker, key, input, nport)) return TG_OK;
    for (bool strings = false;;) {
        ProgramHold h;
        Program *p = program_new(input, nport);
        begin_hold(&h, &p, maker->backend, undo_make);
        p->nresult = maker->model->graph.noutput;
        p->dims = f ? dims_new(p->arena, f, maker->model, input) : NULL;
        p->known.strings = strings;
        TgStatus status = make(p, maker, input, goal, dump);
        program_let(&h);
        if (status == TG_OK) {
            keep(p, maker, key);
            return *out = p, TG_OK;
        }
        bool fixed = p->dims != NULL, again = fixed || (p->known.makes_text && !strings);
        program_free(p, maker->backend);
        if (!again) return status;
        if (fixed) f = NULL;
        else strings = true;
    }
}

static TgStatus share_answers(Program *q, const Program *p, const Backend *b)
{
    q->known.room = p->known.n + 1;
    q->answer = NEW_N(q->arena, Program *, p->known.n + 2);
    for (uint32_t i = 0; i < p->known.n; i++) TRY(program_share(&q->answer[i], p->answer[i], b));
    return TG_OK;
}

TgStatus program_share(Program **out, Program *p, const Backend *b)
{
    ProgramHold h;
    Arena *arena = arena_new();
    Program *q = NEW(arena, Program), *of = p->of ? p->of : p;
    atomic_fetch_add(&of->users, 1);
    /* what is only read is p's, which lives as long as q */
    *q = (Program){ .of = of,
                    .arena = arena,
                    .nport = p->nport,
                    .nresult = p->nresult,
                    .ninput = p->ninput,
                    .noutput = p->noutput,
                    .input = p->input,
                    .in = p->in,
                    .dims = p->dims,
                    .imported = p->imported,
                    .known = p->known,
                    .schedule = p->schedule,
                    .plan = p->plan,
                    .code = p->code,
                    .tuned = p->tuned,
                    .plain = p->plain,
                    .pieces = p->pieces };
    begin_hold(&h, &q, b, undo_make);
    q->given = NEW_N(arena, const TgTensor *, q->ninput + 1);
    q->output = port_copy(arena, p->output, q->nresult);
    q->out = NEW_N(arena, TgTensor *, q->noutput + 1);
    port_parts((const TgTensor **)q->out, q->output, q->nresult);
    make_text(q);
    q->vars = NEW_N(arena, int64_t, q->plan->nvar + 1);
    if (q->plan->nvar) memcpy(q->vars, q->plan->var_value, sizeof *q->vars * q->plan->nvar);
    TgStatus status = share_answers(q, p, b);
    if (status == TG_OK) status = b->share(&q->executable, of->executable);
    program_let(&h);
    if (status == TG_OK) *out = q;
    else program_free(q, b);
    return status;
}

/* Its own; the last of those that use it gives back what they shared. */
static void program_release(Program *p, const Backend *b)
{
    if (atomic_fetch_sub(&p->users, 1) > 1) return;
    if (p->executable) b->unload(p->executable);
    if (p->code) b->code_free(p->code);
    for (uint32_t i = 0; i < p->noutput; i++) spare_free(p->out[i]->data);        /* the graph's memory holds out */
    drop_plan(p);
    arena_free(p->words);
    arena_free(p->arena);
}

void program_free(Program *p, const Backend *b)
{
    if (!p) return;
    Program *of = p->of;
    p->known.n = 0;
    drop_asked(p, b);
    if (of) {
        if (p->executable) b->unload(p->executable);
        for (uint32_t i = 0; i < p->noutput; i++) spare_free(p->out[i]->data);
        arena_free(p->words);
        arena_free(p->arena);
    }
    program_release(of ? of : p, b);
}

/* Of equal form and sizes, where these are built in, and of equal value where that is. */
static bool same_port(const Program *p, uint32_t i, const TgTensor *x)
{
    const TgTensor *mine = &p->input[i];
    TgTensor alike = *x;
    int64_t value[DIMS_VALUES];
    if (mine->data && p->dims && x->data && mine->size_bytes == x->size_bytes && x->size_bytes <= sizeof value) {
        size_t width = (size_t)tg_type_bits(mine->type) / 8;
        alike.data = memcpy(value, x->data, x->size_bytes);
        for (int64_t e = 0; width && e < (int64_t)(x->size_bytes / width); e++)
            if (dims_find_value(p->dims, i, e) >= 0)
                memcpy((char *)value + (size_t)e * width, (const char *)mine->data + (size_t)e * width, width);
    }
    for (int32_t k = 0; k < x->rank && k < mine->rank; k++)
        if (!mine->data && dims_find(p->dims, i, k) >= 0) alike.shape[k] = mine->shape[k];
    return port_same(mine, &alike);
}

bool program_fits(const Program *p, const Backend *b, const TgTensor *input, uint32_t nport)
{
    if (p->nport != nport) return false;
    for (uint32_t i = 0; i < nport; i++)
        if (!same_port(p, i, &input[i])) return false;
    int64_t value[p->dims ? p->dims->nvar + 1 : 1];
    return (!p->dims || (dims_values(p->dims, input, value) && dims_hold(p->dims, p->imported.g, value))) &&
        same_answers(p, b, input);
}
