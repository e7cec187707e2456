/* The pieces: `about` (SavedAbout), `target`, `input/K` (SavedInput, then its elements where they are built in), `opts`
 * and `dims` as their options' texts, `model` and `file/NAME` as they were read, `program` (kept.h), where it is one
 * that is kept, and the device's own (backends/). */
#include "frontend/session/compiled.h"
#include "frontend/session/kept.h"
#include "graph/base/memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Fixed widths: another version refuses the file by the first field. */
typedef struct {
    char version[32], device[16], hash[40];
    int64_t seed, inputs;
    int32_t precision, threads;
} SavedAbout;
typedef struct {
    int64_t shape[TG_MAX_RANK];
    uint64_t size_bytes;            /* of the elements that follow; 0: none do */
    int32_t type, rank;
} SavedInput;

/* ---- writing ---- */

static TgStatus savable(const TgSession *s)
{
    const Program *p = s->program;
    if (!p || (!p->executable && !s->backend->write))
        return fail(TG_USAGE, "nothing is prepared that could be saved");
    if (!s->backend->save_code && !s->backend->write)
        return fail(TG_UNSUPPORTED, "device %s has no compiled models", s->backend->name);
    if (s->saved) return fail(TG_USAGE, "is a compiled model already");
    if (s->batch) return fail(TG_UNSUPPORTED, "batch: a compiled model is the model as it is");
    if (s->shard.devices > 1) return fail(TG_UNSUPPORTED, "device: a compiled model is one of one device");
    if (s->made > 1)
        return fail(TG_UNSUPPORTED, "the session has met several shapes; a compiled model has one program: name a "
                    "range by dims");
    if (p->known.n) return fail(TG_UNSUPPORTED, "sizes depend on the data of inputs: such a model is not compiled");
    for (uint32_t i = 0; i < s->whole.noptional; i++)
        if (s->given[i]) return fail(TG_UNSUPPORTED, "an input that has a default value is given");
    for (uint32_t i = 0; i < p->nport; i++)
        if (holds_tensors(&p->input[i]) || (p->input[i].type == TG_STRING && p->input[i].data))
            return fail(TG_UNSUPPORTED, "input %u: sequences, maps, and strings that shapes follow from are not saved",
                        i);
    return TG_OK;
}

static TgStatus save_about(BundleWriter *w, const TgSession *s)
{
    SavedAbout a;
    Target target = s->target;
    memset(&a, 0, sizeof a);
    snprintf(a.version, sizeof a.version, "%s", tg_version());
    snprintf(a.device, sizeof a.device, "%s", s->backend->name);
    snprintf(a.hash, sizeof a.hash, "%s", s->model->hash);
    a.seed = s->options.seed;
    a.inputs = s->program->nport;
    a.precision = (int32_t)s->options.precision;
    a.threads = s->target.threads;
    target.kind = NULL;
    TRY(bundle_put(w, "about", &a, sizeof a));
    return bundle_put(w, "target", &target, sizeof target);
}

static TgStatus save_inputs(BundleWriter *w, const Program *p)
{
    for (uint32_t i = 0; i < p->nport; i++) {
        const TgTensor *t = &p->input[i];
        char name[32];
        SavedInput in;
        Text bytes = { 0 };
        memset(&in, 0, sizeof in);
        memcpy(in.shape, t->shape, sizeof in.shape);
        in.type = (int32_t)t->type;
        in.rank = t->rank;
        in.size_bytes = t->data ? t->size_bytes : 0;
        text_bytes(&bytes, (const char *)&in, sizeof in);
        if (t->data) text_bytes(&bytes, t->data, t->size_bytes);
        snprintf(name, sizeof name, "input/%u", i);
        TgStatus status = bundle_put(w, name, bytes.s, bytes.len);
        text_free(&bytes);
        TRY(status);
    }
    return TG_OK;
}

static TgStatus save_choices(BundleWriter *w, const TgSession *s)
{
    Text t = { 0 };
    const Plan *p = s->program->plan;
    if (*p->schedule) text_add(&t, "schedule: %s\n", p->schedule);
    for (uint32_t i = 0; i < p->nkernel; i++) {
        text_add(&t, "%s: ", p->kernel[i]->name);
        opt_print(&t, &p->kernel[i]->opts);
        text_add(&t, "\n");
    }
    TgStatus status = bundle_put(w, "opts", t.s ? t.s : "", t.len + 1);
    text_free(&t);
    if (status == TG_OK && s->options.dims)
        status = bundle_put(w, "dims", s->options.dims, strlen(s->options.dims) + 1);
    return status;
}

static TgStatus save_model(BundleWriter *w, const Model *m)
{
    ModelFile f;
    TRY(bundle_put(w, "model", m->file_data, m->file_bytes));
    for (uint32_t k = 0; model_external(m, k, &f); k++) {
        char name[256];
        if (snprintf(name, sizeof name, "file/%s", f.name) >= (int)sizeof name)
            return fail(TG_LIMIT, "external file '%.100s..': its name is too long", f.name);
        TRY(bundle_put(w, name, f.data, f.size_bytes));
    }
    return TG_OK;
}

/* The program and its kernels. One that is loaded has forgotten how they are written. */
static TgStatus save_program(BundleWriter *w, TgSession *s)
{
    ProgramMaker maker = session_maker(s);
    Program *p;
    TRY(program_make(&p, &maker, s->program->input, s->program->nport, &s->dims, PROGRAM_PLAN, NULL));
    ProgramHold h;
    program_hold(&h, &p, s->backend);
    Text t = { 0 };
    TgStatus status = s->backend->save_code(w, s->device, p->plan->kernel, p->plan->nkernel);
    if (status == TG_OK && program_write(&t, p, s->model)) status = bundle_put(w, KEPT_NAME, t.s, t.len);
    text_free(&t);
    program_let(&h);
    program_free(p, s->backend);
    return status;
}

static TgStatus save_all(BundleWriter *w, TgSession *s)
{
    TRY(save_about(w, s));
    TRY(save_inputs(w, s->program));
    TRY(save_choices(w, s));
    TRY(save_model(w, s->model));
    TRY(save_program(w, s));
    TgStatus status = s->backend->save_memory(w, s->program->executable);
    model_forget_all(s->model);
    return status;
}

static void undo_begin(void *writer) { bundle_end(writer, TG_LIMIT); }

static TgStatus save(TgSession *s, const char *path)
{
    BundleWriter *w;
    TRY(session_in_file(s, savable(s)));
    if (s->backend->write) return session_in_file(s, source_write(s, path));
    Undo undo;
    TRY(bundle_begin(&w, path));
    undo_push(&undo, undo_begin, w);
    TgStatus status = save_all(w, s);
    undo_pop(&undo);
    return bundle_end(w, status);
}

TgStatus tg_save(TgSession *s, const char *path)
{
    TgStatus status;
    SESSION_CALL(status, s, save(s, path));
    return status;
}

/* ---- reading ---- */

/* A piece that is a text, with its end. */
static TgStatus text_piece(const char **out, const Bundle *b, const char *name)
{
    Piece p;
    TRY(bundle_get(b, &p, name));
    if (!p.size || ((const char *)p.data)[p.size - 1])
        return fail(TG_BAD_MODEL, "is damaged: its piece '%s' is no text", name);
    *out = *(const char *)p.data ? p.data : NULL;
    return TG_OK;
}

static TgStatus read_input(TgTensor *out, Arena *a, const Bundle *b, uint32_t i)
{
    char name[32];
    Piece p;
    SavedInput in;
    snprintf(name, sizeof name, "input/%u", i);
    TRY(bundle_get(b, &p, name));
    if (p.size < sizeof in) return fail(TG_BAD_MODEL, "is damaged: its piece '%s' is cut short", name);
    memcpy(&in, p.data, sizeof in);
    if (in.rank < 0 || in.rank > TG_MAX_RANK || in.size_bytes != p.size - sizeof in)
        return fail(TG_BAD_MODEL, "is damaged: its piece '%s' does not fit", name);
    *out = (TgTensor){ .type = (TgType)in.type, .rank = in.rank, .size_bytes = in.size_bytes };
    memcpy(out->shape, in.shape, sizeof in.shape);
    if (in.size_bytes) out->data = arena_copy(a, (const char *)p.data + sizeof in, in.size_bytes);
    return TG_OK;
}

static TgStatus read_model(TgSession *s, const SavedAbout *about)
{
    const Bundle *b = s->saved->bundle;
    Piece model, p;
    uint32_t n = 0;
    TRY(bundle_get(b, &model, "model"));
    while (bundle_name(b, "file/", n)) n++;
    ModelFile *external = NEW_N(s->arena, ModelFile, n + 1);
    for (uint32_t k = 0; k < n; k++) {
        const char *name = bundle_name(b, "file/", k);
        TRY(bundle_get(b, &p, arena_printf(s->arena, "file/%s", name)));
        external[k] = (ModelFile){ name, p.data, p.size };
    }
    return model_load_files(&s->model, &(ModelFile){ "", model.data, model.size }, external, n, about->hash);
}

TgStatus compiled_fixed(const char *option)
{
    return fail(TG_USAGE, "%s: a compiled model has its own; compile it again with another", option);
}

/* What the caller asks for beside what is in the file, which then is the session's. */
static TgStatus take_options(TgSession *s, const SavedAbout *a)
{
    TgOptions *o = &s->options;
    if (o->opts) return compiled_fixed("opts");
    if (o->dims) return compiled_fixed("dims");
    if (o->data_count) return compiled_fixed("data");
    if (o->tune_s > 0 || o->beam > 0) return compiled_fixed("tune");
    if (o->seed && o->seed != a->seed) return compiled_fixed("seed");
    if (o->precision != TG_PRECISION_EXACT && (int32_t)o->precision != a->precision) return compiled_fixed("precision");
    if (o->threads > a->threads)
        return fail(TG_USAGE, "threads: it was compiled for at most %d", (int)a->threads);
    if (strcmp(o->device, "auto") && strcmp(o->device, "none") && strcmp(o->device, a->device))
        return fail(TG_DEVICE, "device '%s': it was compiled for %s", o->device, a->device);
    o->precision = (TgPrecision)a->precision;
    o->seed = a->seed;
    o->dims = s->saved->dims;
    o->opts = s->saved->opts;
    if (!strcmp(o->device, "auto")) o->device = s->saved->device;
    return TG_OK;
}

static TgStatus read_all(TgSession *s)
{
    Compiled *c = s->saved;
    Piece p;
    SavedAbout about;
    TRY(bundle_open(&c->bundle, s->path));
    TRY(bundle_get(c->bundle, &p, "about"));
    if (p.size != sizeof about || memcmp(p.data, tg_version(), strlen(tg_version()) + 1))
        return fail(TG_BAD_MODEL, "was compiled by tgrun %.*s, this is %s: compile it again", p.size < 32 ? 0 : 31,
                    (const char *)p.data, tg_version());
    memcpy(&about, p.data, sizeof about);
    about.device[sizeof about.device - 1] = about.hash[32] = 0;
    c->device = arena_strdup(s->arena, about.device);
    TRY(bundle_get(c->bundle, &p, "target"));
    if (p.size != sizeof c->target || about.inputs < 0 || about.inputs > UINT16_MAX)
        return fail(TG_BAD_MODEL, "was compiled by another build of tgrun: compile it again");
    memcpy(&c->target, p.data, sizeof c->target);
    TRY(text_piece(&c->opts, c->bundle, "opts"));
    if (bundle_has(c->bundle, "dims")) TRY(text_piece(&c->dims, c->bundle, "dims"));
    c->ninput = (uint32_t)about.inputs;
    c->input = NEW_N(s->arena, TgTensor, c->ninput + 1);
    for (uint32_t i = 0; i < c->ninput; i++) TRY(read_input(&c->input[i], s->arena, c->bundle, i));
    TRY(take_options(s, &about));
    return read_model(s, &about);
}

TgStatus compiled_open(TgSession *s)
{
    s->saved = NEW(s->arena, Compiled);
    return read_all(s);
}

/* Windows of a chain are as many as threads were: more cannot run, fewer can. */
TgStatus compiled_device(TgSession *s)
{
    const Compiled *c = s->saved;
    const char *kind = s->target.kind;
    if (!s->backend->restore) return fail(TG_DEVICE, "device %s has no compiled models", s->backend->name);
    s->target = c->target;
    s->target.kind = kind;
    return TG_OK;
}

static void shapes_text(Text *out, const TgTensor *t, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        text_add(out, "%s%s[", i ? ", " : "", tg_type_name(t[i].type));
        for (int32_t k = 0; k < t[i].rank; k++) text_add(out, "%s%lld", k ? "," : "", (long long)t[i].shape[k]);
        text_add(out, t[i].data ? "] of these values" : "]");
    }
}

TgStatus compiled_refuse(const TgSession *s, const TgTensor *input, int32_t count)
{
    Text was = { 0 }, is = { 0 };
    shapes_text(&was, s->saved->input, s->saved->ninput);
    for (int32_t i = 0; i < count; i++) {
        TgTensor t = input[i];
        t.data = NULL;
        if (i) text_add(&is, ", ");
        shapes_text(&is, &t, 1);
    }
    TgStatus status = fail(TG_BAD_INPUT, "it was compiled for %s%s%s; %s is given", was.s ? was.s : "no inputs",
                           s->saved->dims ? " and " : "", s->saved->dims ? s->saved->dims : "", is.s ? is.s : "");
    text_free(&was);
    text_free(&is);
    return status;
}
