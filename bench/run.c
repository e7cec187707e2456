/* In: a model and options. Every data set runs once and is compared and written at once, because a run's outputs live
 * until the next; the first set is then timed. */
#include "bench/run.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "bench/maps.h"
#include "bench/peer.h"
#include "bench/say.h"
#include "bench/values.h"
#include "common/folders.h"

/* The values of --opts, files read: one text of lines. */
static TgStatus opts_text(char **out, const Args *a)
{
    size_t size;
    FILE *all = open_memstream(out, &size);
    if (!all) return say_error(TG_LIMIT, "--opts: no memory");
    for (uint32_t i = 0; i < a->value[OPT_opts].count; i++) {
        const char *value = a->value[OPT_opts].v[i];
        FILE *f = fopen(value, "r");
        int why = errno;                                         /* before fclose has another */
        char part[4096];
        for (size_t n; f && (n = fread(part, 1, sizeof part, f)) > 0;) fwrite(part, 1, n, all);
        if (f) fclose(f);
        else if (!strchr(value, ':'))
            return fclose(all), say_error(TG_BAD_INPUT, "--opts: %s: %s", value, strerror(why));
        else fputs(value, all);
        fputc('\n', all);
    }
    return fclose(all) ? say_error(TG_LIMIT, "--opts: no memory") : TG_OK;
}

TgStatus open_model(TgSession **session, Data *data, const Args *a, const char *path)
{
    return open_model_on(session, data, a, path, args_text(a, OPT_device, "auto"));
}

TgStatus open_model_on(TgSession **session, Data *data, const Args *a, const char *path, const char *device)
{
    TgOptions o;
    char *opts = NULL;
    *data = (Data){ 0 };
    args_session_options(a, &o);
    o.device = device;
    TgStatus read = opts_text(&opts, a);
    o.opts = opts && *opts ? opts : NULL;
    TgStatus status = read == TG_OK ? tg_open(session, path, &o) : read;
    free(opts);
    if (read != TG_OK) return read;
    return status == TG_OK ? data_make(data, *session, a) : say_library_error(status);
}

void set_inputs(const DataSet *set, TgTensor *tensors)
{
    for (int32_t k = 0; k < set->ninput; k++) tensors[k] = set->input[k].tensor;
}

/* ---- writing ---- */

static TgStatus make_folder(const char *dir)
{
    char path[4096];
    snprintf(path, sizeof path, "%s", dir);
    struct stat st;
    if (!make_folders(path, 1, 0777)) return say_error(TG_CACHE, "--output-dir: %s: %s", path, strerror(errno));
    if (!mkdir(path, 0777) || (!stat(path, &st) && S_ISDIR(st.st_mode))) return TG_OK;
    return say_error(TG_CACHE, "--output-dir: %s: %s", path, strerror(errno));
}

void file_name(char *out, size_t cap, const char *name)
{
    size_t n = 0;
    for (; *name && n + 1 < cap; name++) {
        bool plain = (*name >= 'a' && *name <= 'z') || (*name >= 'A' && *name <= 'Z') ||
            (*name >= '0' && *name <= '9') || *name == '.' || *name == '_' || *name == '-';
        if (((unsigned char)*name & 0xc0) == 0x80) continue; /* a character is one _, however many bytes it has */
        out[n++] = plain ? *name : '_';
    }
    out[n] = 0;
}

static TgStatus write_value(const TgTensor *t, const char *name, const char *path)
{
    if (ends_with(path, ".json")) return map_write(t, name, path);
    TgStatus status = tg_tensor_write(t, name, path);
    return status == TG_OK ? TG_OK : say_library_error(status);
}

static TgStatus write_folder(const Result *r, uint32_t set, const TgTensor *output)
{
    char dir[2048], name[512], path[2600];
    const DataSet *d = &r->data->set[set];
    TgPort p;
    if (!args_has(r->args, OPT_output_dir)) return TG_OK;
    snprintf(dir, sizeof dir, "%s%s%s", args_text(r->args, OPT_output_dir, "."), r->data->count > 1 ? "/" : "",
             r->data->count > 1 ? d->name : "");
    TgStatus status = make_folder(dir);
    for (int32_t k = 0; k < d->noutput && status == TG_OK; k++) {
        if (tg_output(r->session, k, &p) != TG_OK) continue;
        file_name(name, sizeof name, p.name);
        snprintf(path, sizeof path, "%s/%s.%s", dir, name,
                 output[k].type == TG_MAP        ? "json"
                     : holds_tensors(&output[k]) ? "pb"
                                                 : "npy");
        status = write_value(&output[k], p.name, path);
    }
    return status;
}

static int32_t output_named(const Result *r, const char *s, const char **file)
{
    for (int32_t k = 0; k < r->data->set[0].noutput; k++) {
        TgPort p;
        if (tg_output(r->session, k, &p) != TG_OK) continue;
        size_t len = strlen(p.name);
        if (!strncmp(s, p.name, len) && s[len] == '=') return *file = s + len + 1, k;
    }
    return *file = s, -1;
}

static bool is_output(const Result *r, const char *name, size_t len)
{
    TgPort p;
    for (int32_t k = 0; k < tg_output_count(r->session); k++)
        if (tg_output(r->session, k, &p) == TG_OK && strlen(p.name) == len && !memcmp(p.name, name, len)) return true;
    return false;
}

/* What options say of outputs, before anything runs: NAME:V of a tolerance, NAME=FILE where the name is no folder's. */
static TgStatus check_names(const Result *r)
{
    static const struct { Opt o; const char *text; } tolerance[] = { { OPT_rtol, "--rtol" }, { OPT_atol, "--atol" } };
    const Args *a = r->args;
    int32_t in_order = 0;
    for (uint32_t i = 0; i < a->value[OPT_tolerance].count; i++) {
        const char *s = a->value[OPT_tolerance].v[i], *equals = strrchr(s, '=');
        if (equals && !is_output(r, s, (size_t)(equals - s)))
            return say_error(TG_USAGE, "--tolerance %s: the model has no output '%.*s'", s, (int)(equals - s), s);
    }
    for (size_t t = 0; t < sizeof tolerance / sizeof *tolerance; t++)
        for (uint32_t i = 0; i < a->value[tolerance[t].o].count; i++) {
            const char *s = a->value[tolerance[t].o].v[i], *colon = strrchr(s, ':');
            if (colon && !is_output(r, s, (size_t)(colon - s)))
                return say_error(TG_USAGE, "%s %s: the model has no output '%.*s'", tolerance[t].text, s,
                                 (int)(colon - s), s);
        }
    if (args_has(a, OPT_output) && r->data->count > 1 && !args_has(a, OPT_test_data))
        return say_error(TG_USAGE, "-o: %u inputs have an output each, which --output-dir takes", r->data->count);
    for (uint32_t i = 0; i < a->value[OPT_output].count; i++) {
        const char *s = a->value[OPT_output].v[i], *equals = strchr(s, '=');
        bool named = equals && !memchr(s, '/', (size_t)(equals - s));
        for (const char *e = equals; e && !is_output(r, s, (size_t)(equals - s)); e = strchr(e + 1, '='))
            equals = e; /* names may have one, too */
        bool found = equals && is_output(r, s, (size_t)(equals - s));
        if (named && !found)
            return say_error(TG_USAGE, "-o %s: the model has no output '%.*s'", s, (int)(strchr(s, '=') - s), s);
        in_order += !found;
    }
    if (in_order > tg_output_count(r->session))
        return say_error(TG_USAGE, "-o: %d files are for outputs in their order, of which the model has %d", in_order,
                         tg_output_count(r->session));
    return TG_OK;
}

/* -o: by name, else the outputs in order; the first set's. */
static TgStatus write_files(const Result *r, const TgTensor *output)
{
    int32_t next = 0;
    for (uint32_t i = 0; i < r->args->value[OPT_output].count; i++) {
        const char *file;
        int32_t k = output_named(r, r->args->value[OPT_output].v[i], &file);
        TgPort p;
        if (k < 0) k = next++;
        if (k >= r->data->set[0].noutput)
            return say_error(TG_USAGE, "-o %s: the model has %d outputs, and none has that name", file,
                             r->data->set[0].noutput);
        TgStatus status = tg_output(r->session, k, &p);
        if (status != TG_OK) return say_library_error(status);
        if (!strcmp(file, "-")) tensor_print(stdout, p.name, &output[k]);
        else if ((status = write_value(&output[k], p.name, file)) != TG_OK) return status;
    }
    return TG_OK;
}

/* ---- expectations computed by somebody else ---- */

static TgStatus against_reference(DataSet *set, const Args *a, const char *path)
{
    TgOptions o;
    TgSession *s = NULL;
    TgTensor in[set->ninput + 1], out[set->noutput + 1];
    args_session_options(a, &o);
    o.device = "reference";
    o.tune_s = o.beam = 0;
    set_inputs(set, in);
    TgStatus status = tg_open(&s, path, &o);
    if (status == TG_OK) inputs_give(s, a), status = tg_run(s, in, set->ninput, out);
    say_progress_done();
    for (int32_t k = 0; k < set->noutput && status == TG_OK; k++) {
        Bound *b = &set->output[k];
        bound_clear(b);
        if (!(b->known = tensor_copy(&b->tensor, &out[k])))
            return say_error(TG_LIMIT, "no memory for the reference's outputs");
        snprintf(b->source, sizeof b->source, "reference");
    }
    if (status != TG_OK) say_library_error(status);
    tg_close(s);
    return status;
}

static TgStatus against_peer(DataSet *set, const Args *a, const char *path, const TgSession *session,
                             const char *engine)
{
    char dir[64];
    Peer peer;
    if (!folder_make(dir)) return TG_CACHE;
    TgStatus status = inputs_write(set, dir);
    if (status == TG_OK && (status = peer_start(&peer, engine, path, dir, a)) == TG_OK) {
        status = peer_save(&peer, dir);
        if (status == TG_OK) status = expected_read(set, session, dir, peer.name);
        peer_stop(&peer);
    }
    folder_remove(dir);
    return status;
}

static TgStatus against(Data *data, const Args *a, const char *path, const TgSession *session)
{
    const char *who = args_text(a, OPT_against, NULL);
    if (!who) return TG_OK;
    bool reference = !strcmp(who, "reference");
    if (!reference && strcmp(who, "ort") && strncmp(who, "ort:", 4))
        return say_error(TG_USAGE, "--against: '%s' is wrong; ort, ort:LIB or reference is wanted", who);
    for (uint32_t i = 0; i < data->count; i++) {
        TgStatus status =
            reference ? against_reference(&data->set[i], a, path) : against_peer(&data->set[i], a, path, session, who);
        if (status != TG_OK) return status;
    }
    return TG_OK;
}

/* ---- the run ---- */

static void compare_set(Result *r, uint32_t s, const TgTensor *output)
{
    const DataSet *set = &r->data->set[s];
    for (int32_t k = 0; k < set->noutput; k++) {
        TgPort p;
        if (!set->output[k].known || tg_output(r->session, k, &p) != TG_OK) continue;
        Comparison *c = &r->compare[s * (uint32_t)set->noutput + (uint32_t)k];
        *c = compare_output(r->args, &p, &output[k], &set->output[k]);
        r->ok &= c->ok;
        if (!c->ok && args_has(r->args, OPT_quiet))
            say_error(TG_DIFFERS, "%s: %s%soutput '%s' %s: %ld of %ld values outside rtol %g atol %.2g", r->file,
                      set->name, *set->name ? ": " : "", p.name, *c->why ? c->why : "differs", (long)c->outside,
                      (long)c->numel, c->used.rtol, c->used.atol);
    }
}

/* Later sets may have needed programs of their own. */
static void count_kernels(Result *r)
{
    TgInfo now;
    tg_info(r->session, &now);
    r->info.kernels_compiled = now.kernels_compiled;
    r->info.kernels_cached = now.kernels_cached;
    r->info.programs_kept = now.programs_kept;
    r->info.schedule_s = now.schedule_s;
    r->info.compile_s = now.compile_s;
}

static TgStatus run_set(Result *r, TgSession *session, uint32_t s)
{
    const DataSet *set = &r->data->set[s];
    TgTensor in[set->ninput + 1], out[set->noutput + 1];
    set_inputs(set, in);
    TgStatus status = tg_prepare(session, in, set->ninput);
    double start = clock_s();
    if (status == TG_OK) status = tg_run(session, in, set->ninput, out);
    say_progress_done();
    if (status != TG_OK) return say_library_error(status);
    double first = 1e3 * (clock_s() - start);
    compare_set(r, s, out);
    status = write_folder(r, s, out);
    if (s) count_kernels(r);
    if (s || status != TG_OK) return status;
    r->first_run_ms = first;
    for (int32_t k = 0; k < set->noutput; k++)
        if (!holds_tensors(&out[k])) r->output[k] = out[k];
        else if (!tensor_copy(&r->output[k], &out[k])) return say_error(TG_LIMIT, "no memory for output %d", k);
    tg_info(session, &r->info);
    status = write_files(r, out);
    if (status == TG_OK) status = latency_measure(&r->latency, session, r->args, in, set->ninput, out);
    return status;
}

static TgStatus tune(TgSession *session, const Args *a, const DataSet *set)
{
    TgTensor in[set->ninput + 1];
    set_inputs(set, in);
    if (args_real(a, OPT_tune, 0) <= 0 && !args_count(a, OPT_beam, 0)) return TG_OK;
    TgStatus status = tg_prepare(session, in, set->ninput);
    say_progress_done();
    return status == TG_OK ? status : say_library_error(status);
}

static void emit_problem(void *user, const char *line)
{
    (void)user;
    say_note("  %s", line);
}

static TgStatus run_and_report(Result *r, TgSession *session)
{
    TgStatus status = tune(session, r->args, &r->data->set[0]);
    for (uint32_t s = 0; s < r->data->count && status == TG_OK; s++) status = run_set(r, session, s);
    if (status == TG_OK && tg_serial(session))
        say_note("batch: samples run one after another: %s", tg_serial(session));
    if (status == TG_UNSUPPORTED) tg_check(r->file, emit_problem, NULL);       /* all of it at once, not one a try */
    if (status != TG_OK) return status;
    status = r->ok ? TG_OK : TG_DIFFERS;
    if (!args_has(r->args, OPT_quiet))
        report_people(args_has(r->args, OPT_json) || args_has(r->args, OPT_output) ? stderr : stdout, r);
    if (args_has(r->args, OPT_json)) {
        TgStatus written = json_write(report_json(r, status), args_text(r->args, OPT_json, ""));
        if (written != TG_OK) return written;
    }
    return status;
}

/* ---- values inside the graph ---- */

typedef struct { const char **name; int32_t count, cap; } Names;

static bool add_name(Names *n, const char *name)
{
    for (int32_t k = 0; k < n->count; k++)
        if (!strcmp(n->name[k], name)) return true;
    if (n->count == n->cap) {
        const char **grown = realloc(n->name, (size_t)(n->cap ? 2 * n->cap : 64) * sizeof *grown);
        if (!grown) return false;
        n->name = grown;
        n->cap = n->cap ? 2 * n->cap : 64;
    }
    n->name[n->count++] = name;
    return true;
}

/* The model's outputs, then what --values names. */
static TgStatus list_values(Names *n, const TgSession *s, const Args *a)
{
    TgPort p;
    TgNode node;
    bool good = true;
    for (int32_t k = 0; k < tg_output_count(s) && tg_output(s, k, &p) == TG_OK; k++) good = good && add_name(n, p.name);
    for (uint32_t i = 0; i < a->value[OPT_values].count; i++) {
        const char *name = a->value[OPT_values].v[i];
        if (strcmp(name, "all")) good = good && add_name(n, name);
        for (int32_t k = 0; !strcmp(name, "all") && tg_node(s, k, &node); k++)
            for (int32_t o = 0; o < node.output_count; o++)
                if (*node.output[o]) good = good && add_name(n, node.output[o]);
    }
    if (n->count > PORTS_MAX)
        return say_error(TG_LIMIT, "--values: %d values; at most %d are written at once", n->count, PORTS_MAX);
    return good ? TG_OK : say_error(TG_LIMIT, "--values: no memory for the names");
}

/* The model with more outputs, as a file of its own in that folder. */
static TgStatus model_with_values(char *out, size_t cap, const char *dir, const Args *a, const char *path)
{
    TgSession *s = NULL;
    TgOptions o;
    Names n = { NULL };
    args_session_options(a, &o);
    o.device = "none";
    o.dims = NULL;
    TgStatus status = tg_open(&s, path, &o);
    if (status != TG_OK) return say_library_error(status);
    status = list_values(&n, s, a);
    snprintf(out, cap, "%s/model.onnx", dir);
    if (status == TG_OK) {
        status = tg_extract(path, &(TgExtract){ .output = n.name, .output_count = n.count }, out);
        if (status != TG_OK) say_library_error(status);
    }
    free(n.name);
    tg_close(s);
    return status;
}

static TgStatus run_file(const Args *a, const char *shown, const char *path);

TgStatus run_model(const Args *a, const char *path)
{
    char dir[64], model[128];
    if (!args_has(a, OPT_values)) return run_file(a, path, path);
    if (!args_has(a, OPT_output) && !args_has(a, OPT_output_dir))
        return say_error(TG_USAGE, "--values: --output-dir or -o must say where they go");
    if (!folder_make(dir)) return TG_CACHE;
    TgStatus status = model_with_values(model, sizeof model, dir, a, path);
    if (status == TG_OK) status = run_file(a, path, model);
    folder_clear(dir);
    return status;
}

static TgStatus run_file(const Args *a, const char *shown, const char *path)
{
    TgSession *session = NULL;
    Data data;
    double percent[8];
    uint32_t n;
    TgStatus status = percentile_list(a, percent, &n);
    if (status == TG_OK) status = open_model(&session, &data, a, path);
    else data = (Data){ 0 };
    if (status == TG_OK) status = against(&data, a, path, session);
    Result r = { .file = shown, .args = a, .session = session, .data = &data, .ok = true };
    if (status == TG_OK) status = check_names(&r);
    if (status == TG_OK) {
        size_t nout = (size_t)data.set[0].noutput + 1;
        r.output = calloc(nout, sizeof *r.output);
        r.compare = calloc(nout * data.count, sizeof *r.compare);
        status = r.output && r.compare ? run_and_report(&r, session) : say_error(TG_LIMIT, "no memory for the results");
    }
    for (int32_t k = 0; r.output && k < data.set[0].noutput; k++)
        if (holds_tensors(&r.output[k])) tg_tensor_free(&r.output[k]);
    free(r.latency.ms);
    free(r.output);
    free(r.compare);
    data_free(&data);
    tg_close(session);
    return status;
}
