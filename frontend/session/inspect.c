/* What a session and a model file tell without running: ports, facts, dumps of stages, and whether everything is
 * supported. */
#include <stdio.h>
#include <string.h>

#include "frontend/session/session.h"
#include "graph/base/memory.h"
#include "graph/base/text.h"
#include "onnx/extract.h"

/* ---- ports ---- */

int32_t tg_input_count(const TgSession *s) { return (int32_t)s->model->graph.ninput; }
int32_t tg_output_count(const TgSession *s) { return (int32_t)s->model->graph.noutput; }

static TgType port_type(const ValueDef *v)
{
    static const TgType holder[] = {
        [VALUE_SEQUENCE] = TG_SEQUENCE, [VALUE_OPTIONAL] = TG_OPTIONAL, [VALUE_MAP] = TG_MAP
    };
    return v->kind == VALUE_TENSOR ? (TgType)v->type : v->kind == VALUE_UNKNOWN ? 0 : holder[v->kind];
}

static void inside_of(TgType inside[TG_MAX_INSIDE], const ValueDef *v)
{
    for (uint32_t n = 0; v->inside && n + 2 < TG_MAX_INSIDE; v = v->inside) {
        if (v->kind == VALUE_MAP) inside[n++] = (TgType)v->key;
        inside[n++] = port_type(v->inside);
    }
}

static TgStatus port(const ValueDef *list, uint32_t count, int32_t index, TgPort *out)
{
    if (index < 0 || (uint32_t)index >= count) return fail(TG_USAGE, "port %d of %u", index, count);
    const ValueDef *v = &list[index];
    *out = (TgPort){ .name = v->name,
                     .type = port_type(v),
                     .rank = v->rank,
                     .sparse = v->sparse,
                     .denotation = v->denotation };
    inside_of(out->inside, v);
    if (v->rank > TG_MAX_RANK)
        return fail(TG_UNSUPPORTED, "'%s' has %d dimensions; %d are supported", v->name, v->rank, TG_MAX_RANK);
    for (int32_t k = 0; k < v->rank; k++) {
        out->shape[k] = v->dim[k].size;
        out->symbol[k] = v->dim[k].symbol;
    }
    return TG_OK;
}

TgStatus tg_input(const TgSession *s, int32_t index, TgPort *out)
{
    TRY(port(s->model->graph.input, s->model->graph.ninput, index, out));
    if (s->batch) batch_port(s->batch, out, index);
    return TG_OK;
}
TgStatus tg_output(const TgSession *s, int32_t index, TgPort *out)
{
    TRY(port(s->model->graph.output, s->model->graph.noutput, index, out));
    out->step = model_step(s->model, out->name);
    out->rounded = model_rounded(s->model, out->name);
    if (s->batch) batch_port(s->batch, out, -1);
    return TG_OK;
}

/* ---- what a session knows ---- */

void tg_model(const TgSession *s, TgModel *out) { *out = s->model->about; }

int32_t tg_model_property(const TgSession *s, int32_t index, const char **key, const char **value)
{
    if (index < 0 || (uint32_t)index >= s->model->nproperty) return 0;
    *key = s->model->property[index].key;
    *value = s->model->property[index].value;
    return 1;
}

static int64_t parameters(const GraphDef *g)
{
    int64_t n = 0;
    for (uint32_t i = 0; i < g->ninit; i++) n += g->init[i].numel;
    return n;
}

/* What is zero at load and then written by runs is a value with a halo. */
static TgMemory memory_of(const Plan *p)
{
    TgMemory m = { .values_bytes = p->arena_bytes + p->persist_bytes };
    for (uint32_t i = 0; i < p->nbuffer; i++) {
        const PlanBuffer *b = &p->buffer[i];
        if (b->kind == MEM_CONST && !b->once) m.mapped_bytes += b->size_bytes;
        if (b->kind == MEM_PERSIST && !b->zeroed) m.packed_bytes += b->size_bytes;
    }
    m.values_bytes -= m.packed_bytes;
    return m;
}

static void plan_facts(const Plan *p, TgInfo *out)
{
    for (uint32_t i = 0; i < p->nstep; i++) {
        if (p->step[i].once) continue;
        out->kernels += p->step[i].kind == STEP_KERNEL;
        out->host_steps += p->step[i].kind == STEP_HOST;
    }
    out->weight_bytes = memory_of(p).mapped_bytes;
    out->syncs = p->nsync;
    out->planned_bytes = p->arena_bytes + p->persist_bytes;
    out->flops = p->flops;
}

TgStatus tg_info(const TgSession *s, TgInfo *out)
{
    *out = (TgInfo){ .opset = model_opset(s->model, ""),
                     .nodes = s->model->graph.nnode,
                     .parameters = parameters(&s->model->graph),
                     .load_s = s->load_s,
                     .schedule_s = s->schedule_s,
                     .compile_s = s->compile_s,
                     .tune_s = s->tune_s,
                     .kernels_timed = s->report.timed,
                     .kernels_better = s->report.improved,
                     .run_before_s = s->report.before_s,
                     .run_after_s = s->report.after_s,
                     .kernels_compiled = s->compiled,
                     .kernels_cached = s->cached,
                     .programs_kept = s->kept,
                     .schedule = s->program && s->program->plan ? s->program->plan->schedule : "" };
    snprintf(out->model_hash, sizeof out->model_hash, "%s", s->model->hash);
    if (!s->device) return TG_OK;
    snprintf(out->device_kind, sizeof out->device_kind, "%s", s->backend->name);
    s->backend->describe(s->device, out->device_name, out->features);
    out->threads = s->backend->target(s->device)->threads;
    if (s->program) plan_facts(s->program->plan, out);
    if (s->program && s->program->schedule) out->lists_refused = s->program->schedule->refused;
    return TG_OK;
}

static bool same_operator(const Node *a, const Node *b)
{
    return !strcmp(a->op, b->op) && !strcmp(a->domain, b->domain);
}

/* Operators by their first node; the list is short, so that each call may walk: the first node like this one is most
 * often near the start. */
int32_t tg_model_operator(const TgSession *s, int32_t index, const char **domain, const char **name)
{
    const GraphDef *g = &s->model->graph;
    for (uint32_t i = 0; i < g->nnode; i++) {
        int32_t after = 1;
        uint32_t first = 0;
        while (!same_operator(&g->node[first], &g->node[i])) first++;
        if (first < i || index--) continue;
        for (uint32_t k = i + 1; k < g->nnode; k++) after += same_operator(&g->node[k], &g->node[i]);
        *domain = g->node[i].domain;
        *name = g->node[i].op;
        return after;
    }
    return 0;
}

int32_t tg_node(const TgSession *s, int32_t index, TgNode *out)
{
    const GraphDef *g = &s->model->graph;
    if (index < 0 || (uint32_t)index >= g->nnode) return 0;
    const Node *n = &g->node[index];
    *out = (TgNode){ .name = n->name,
                     .op = n->op,
                     .domain = n->domain,
                     .input_count = (int32_t)n->nin,
                     .output_count = (int32_t)n->nout,
                     .input = n->in,
                     .output = n->out };
    return 1;
}

int32_t tg_weight(const TgSession *s, int32_t index, const char **name, TgTensor *out)
{
    const GraphDef *g = &s->model->graph;
    if (index < 0 || (uint32_t)index >= g->ninit) return 0;
    const TensorDef *t = &g->init[index];
    *name = t->name;
    *out = (TgTensor){ .type = (TgType)t->type, .rank = (int32_t)t->rank, .size_bytes = t->size_bytes };
    memcpy(out->shape, t->shape, t->rank * sizeof *t->shape);
    if (t->type != TG_STRING) out->data = (void *)(uintptr_t)t->data;
    return 1;
}

TgStatus tg_extract(const char *model, const TgExtract *part, const char *path)
{
    TRY(session_reserved(part->reserved, sizeof part->reserved / sizeof *part->reserved, "part"));
    TgStatus status;
    ATTEMPT(status, extract(model, part, path));
    if (status != TG_OK) status_prefix(model);
    return status;
}

/* ---- plans, dump and check ---- */

static void emit_lines(Text *t, void (*emit)(void *user, const char *text), void *user)
{
    for (char *line = t->s, *end; line && *line; line = end + 1) {
        end = strchr(line, '\n');
        if (end) *end = 0;
        emit(user, line);
        if (!end) return;
    }
}

/* Where text goes, a line at a time. */
typedef struct { void (*emit)(void *user, const char *line); void *user; } Sink;

static TgStatus plan_memory(const TgSession *s, const TgTensor *inputs, int32_t count, TgMemory *out, const Sink *calls)
{
    Text text = { 0 };
    Dump dump = { .text = &text, .stage = "calls" };
    Program *p = NULL;
    TRY(session_in_file(s, session_check_inputs(s, inputs, count)));
    TgStatus status = session_in_file(s, session_plan(&p, s, inputs, count, calls->emit ? &dump : NULL));
    if (status == TG_OK) *out = memory_of(p->plan);
    emit_lines(&text, calls->emit, calls->user);
    text_free(&text);
    program_free(p, s->backend);
    return status;
}

TgStatus tg_memory(const TgSession *s, const TgTensor *inputs, int32_t count, TgMemory *out,
                   void (*calls)(void *user, const char *line), void *user)
{
    TgStatus status;
    SESSION_CALL(status, s, plan_memory(s, inputs, count, out, &(Sink){ calls, user }));
    return status;
}

static void fill_shares(const Plan *p, TgShare *out, int32_t *devices)
{
    for (int32_t d = 0; d < p->nshare && d < *devices; d++) {
        PlanShare s = p->share[d];
        out[d] = (TgShare){ .kernels = s.kernels,
                            .flops = s.flops,
                            .weight_bytes = s.constant_bytes,
                            .foreign_bytes = s.foreign_bytes };
    }
    *devices = p->nshare;
}

static TgStatus plan_shares(const TgSession *s, const TgTensor *inputs, int32_t count, TgShare *out, int32_t *devices)
{
    Program *p = NULL;
    ProgramHold h;
    if (!inputs) {
        if (!s->program) return session_in_file(s, fail(TG_USAGE, "nothing is prepared yet"));
        return fill_shares(s->program->plan, out, devices), TG_OK;
    }
    TRY(session_in_file(s, session_check_inputs(s, inputs, count)));
    TgStatus status = session_in_file(s, session_plan(&p, s, inputs, count, NULL));
    program_hold(&h, &p, s->backend);
    if (status == TG_OK) fill_shares(p->plan, out, devices);
    program_let(&h);
    program_free(p, s->backend);
    return status;
}

TgStatus tg_shares(const TgSession *s, const TgTensor *inputs, int32_t count, TgShare *out, int32_t *devices)
{
    TgStatus status;
    SESSION_CALL(status, s, plan_shares(s, inputs, count, out, devices));
    return status;
}

/* Source and assembly come from the backend, one kernel after the other. */
static TgStatus dump_code(const TgSession *s, const Plan *p, const char *stage, const char *kernel, Text *out)
{
    bool assembly = !strcmp(stage, "asm");
    if (assembly && !s->backend->assembly) return fail(TG_UNSUPPORTED, "device %s has no stage asm", s->backend->name);
    for (uint32_t i = 0; i < p->nkernel; i++) {
        if (kernel && strcmp(kernel, p->kernel[i]->name)) continue;
        TRY(assembly ? s->backend->assembly(out, s->device, p->kernel[i])
                     : s->backend->render(out, s->device, p->kernel[i]));
        text_add(out, "\n");
    }
    return TG_OK;
}

static bool stage_known(const char *stage)
{
    static const char *const names[] = { "graph",    "callify", "functions", "calls",     "rangeify",
                                         "layout",   "choices", "optimize",  "expand",    "select",
                                         "linearize", "memplan", "plan",     "source",    "asm" };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!strcmp(stage, names[i])) return true;
    return false;
}

/* Which stage of which kernel; NULL: of all. */
typedef struct { const char *stage, *kernel; } Wanted;

static TgStatus dump(TgSession *s, const TgTensor *inputs, int32_t count, const Wanted *wanted, const Sink *to)
{
    const char *stage = wanted->stage, *kernel = wanted->kernel;
    if (!stage_known(stage))
        return fail(TG_USAGE,
                    "stage '%s' is unknown; graph, callify, functions, calls, rangeify, layout, choices, optimize, "
                    "expand, select, linearize, memplan, plan, source or asm is wanted",
                    stage);
    TRY(session_in_file(s, session_check_inputs(s, inputs, count)));
    Text text = { 0 };
    Dump dump = { .text = &text, .stage = stage, .kernel = kernel };
    Program *p = NULL;
    ProgramHold h;
    TgStatus status = session_plan(&p, s, inputs, count, &dump);
    program_hold(&h, &p, s->backend);
    if (status == TG_OK && (!strcmp(stage, "source") || !strcmp(stage, "asm")))
        status = dump_code(s, p->plan, stage, kernel, &text);
    program_let(&h);
    if (status == TG_OK && kernel && !text.len)
        status = fail(TG_USAGE, "no kernel '%s' is there at stage '%s'", kernel, stage);
    emit_lines(&text, to->emit, to->user);              /* also what there was before a failure */
    program_free(p, s->backend);
    text_free(&text);
    return session_in_file(s, status);
}

TgStatus tg_dump(TgSession *s, const TgTensor *inputs, int32_t count, const char *stage, const char *kernel,
                 void (*emit)(void *user, const char *text), void *user)
{
    TgStatus status;
    SESSION_CALL(status, s, dump(s, inputs, count, &(Wanted){ stage, kernel }, &(Sink){ emit, user }));
    return status;
}

/* An input as it is declared, without elements; false: its sizes are open. */
static bool declared(TgTensor *out, const TgSession *s, int32_t index)
{
    TgPort p;
    if (tg_input(s, index, &p) != TG_OK || !p.type || p.type >= TG_SEQUENCE || p.rank < 0) return false;
    *out = (TgTensor){ .type = p.type, .rank = p.rank };
    int64_t n = 1;
    for (int32_t k = 0; k < p.rank; k++) {
        if (p.shape[k] < 0) return false;
        n *= out->shape[k] = p.shape[k];
    }
    out->size_bytes = (size_t)(n * tg_type_bits(p.type) + 7) / 8;
    return true;
}

/* Where every input's shape is declared, the shapes of all values follow: what cannot be is found. Nothing is
 * compiled. */
static TgStatus check_shapes(const TgSession *s)
{
    int32_t n = tg_input_count(s);
    TgTensor *input = NEW_N(s->arena, TgTensor, n + 1);
    for (int32_t i = 0; i < n; i++)
        if (!declared(&input[i], s, i)) return TG_OK;
    ProgramMaker maker = session_maker(s);
    Program *p = NULL;
    TgStatus status = program_make(&p, &maker, input, (uint32_t)n, NULL, PROGRAM_PLAN, NULL);
    program_free(p, s->backend);
    if (status == TG_BAD_MODEL || status == TG_BAD_INPUT) return session_in_file(s, status);
    status_clear();                                     /* some shapes follow from data, which are not here */
    return TG_OK;
}

static void undo_open(void *session) { tg_close(session); }

static TgStatus check(const char *path, const Sink *to)
{
    TgSession *s;
    TgOptions o;
    if (bundle_is(path)) return fail(TG_USAGE, "%s: is a compiled model: it was checked when it was made", path);
    tg_options_default(&o);
    o.device = "reference";
    o.no_cache = 1;
    Undo undo;
    TRY(tg_open(&s, path, &o));
    undo_push(&undo, undo_open, s);
    uint32_t ports, n = import_unsupported(s->model, &ports, to->emit, to->user);
    TgStatus status = session_in_file(s, import_opsets(s->model));
    if (status == TG_OK && n)
        status = fail(TG_UNSUPPORTED, "%s: %u operator%s not supported", path, n, n == 1 ? " is" : "s are");
    else if (status == TG_OK && ports)
        status = fail(TG_UNSUPPORTED, "%s: %u input%s or output%s not supported", path, ports, ports == 1 ? "" : "s",
                      ports == 1 ? " is" : "s are");
    else if (status == TG_OK) status = check_shapes(s);
    undo_pop(&undo);
    tg_close(s);
    return status;
}

TgStatus tg_check(const char *path, void (*emit)(void *user, const char *line), void *user)
{
    TgStatus status;
    ATTEMPT(status, check(path, &(Sink){ emit, user }));
    return status;
}
