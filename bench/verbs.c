#include "bench/verbs.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "bench/run.h"
#include "bench/say.h"
#include "bench/values.h"

/* ---- compile ---- */

/* A folder has the bytes of its files. */
static int64_t bytes_of(const char *path)
{
    struct stat st;
    struct dirent *e;
    int64_t n = 0;
    if (stat(path, &st)) return -1;
    DIR *d = opendir(path);
    if (!d) return (int64_t)st.st_size;
    while ((e = readdir(d)) != NULL)
        if (!fstatat(dirfd(d), e->d_name, &st, 0) && S_ISREG(st.st_mode)) n += st.st_size;
    closedir(d);
    return n;
}

static TgStatus compile_people(const char *file, int64_t bytes, const TgInfo *i, const Data *data)
{
    char size[32];
    printf("%s   %s: %ld kernels for %s, at most %d thread%s, inputs", file, bytes_text(size, (double)bytes),
           (long)i->kernels, i->device_kind, (int)i->threads, i->threads == 1 ? "" : "s");
    for (int32_t k = 0; k < data->set[0].ninput; k++) {
        char title[200];
        tensor_title(&data->set[0].input[k].tensor, title, sizeof title);
        printf("%s %s", k ? "," : "", title);
    }
    putchar('\n');
    return TG_OK;
}

TgStatus verb_compile(const Args *a, const char *path)
{
    TgSession *s = NULL;
    Data data = { 0 };
    TgInfo info;
    int64_t bytes = 0;
    const char *file = args_text(a, OPT_output, NULL), *device = args_text(a, OPT_device, "auto"),
               *format = args_text(a, OPT_compile_format, "tgc");
    bool source = strcmp(format, "tgc") != 0;
    if (!file || a->value[OPT_output].count != 1)
        return say_error(TG_USAGE, "compile: one --output is wanted: the file or folder to write");
    if (source && strcmp(device, "auto") && strcmp(device, format))
        return say_error(TG_USAGE, "compile: --format %s has no --device %s", format, device);
    TgStatus status = open_model_on(&s, &data, a, path, source ? format : device);
    if (status == TG_OK) {
        TgTensor in[data.set[0].ninput + 1];
        set_inputs(&data.set[0], in);
        status = tg_prepare(s, in, data.set[0].ninput);
        say_progress_done();
        if (status == TG_OK) status = tg_save(s, file);
        if (status == TG_OK) status = tg_info(s, &info);
        if (status != TG_OK) say_library_error(status);
    }
    if (status == TG_OK && (bytes = bytes_of(file)) < 0)
        status = say_error(TG_CACHE, "%s: %s", file, strerror(errno));
    if (status == TG_OK && args_has(a, OPT_json))
        status = json_write(json_pack("{s:s, s:s, s:s, s:I, s:I, s:i, s:b, s:i}", "schema", "tgrun.compile/1", "file",
                                      path, "output", file, "bytes", (json_int_t)bytes, "kernels",
                                      (json_int_t)info.kernels, "threads", (int)info.threads, "ok", 1, "exit", 0),
                            args_text(a, OPT_json, ""));
    else if (status == TG_OK) status = compile_people(file, bytes, &info, &data);
    data_free(&data);
    tg_close(s);
    return status;
}

/* ---- info ---- */

static void print_shape(const TgPort *p)
{
    if (p->rank < 0) return;
    putchar('[');
    for (int32_t k = 0; k < p->rank; k++) {
        if (k) putchar(',');
        if (p->shape[k] >= 0) printf("%ld", (long)p->shape[k]);
        else fputs(p->symbol[k] && *p->symbol[k] ? p->symbol[k] : "?", stdout);
    }
    putchar(']');
}

/* f32[n,3], seq(f32[?]), optional(seq(f32)), seq(map(i64,f32)) */
static void print_port(const TgPort *p)
{
    int open = 0;
    TgType type = p->type;
    for (int k = 0; type >= TG_SEQUENCE && k + 1 < TG_MAX_INSIDE; type = p->inside[k++], open++) {
        printf("%s(", tg_type_name(type));
        if (type == TG_MAP) printf("%s,", tg_type_name(p->inside[k++]));
    }
    fputs(type ? tg_type_name(type) : "of no known type", stdout);
    if (type) print_shape(p);
    while (open--) putchar(')');
}

typedef TgStatus (*PortFn)(const TgSession *s, int32_t index, TgPort *out);

static void ports_people(const TgSession *s, const char *what, int32_t count, PortFn fn)
{
    for (int32_t k = 0; k < count; k++) {
        TgPort p;
        if (fn(s, k, &p) != TG_OK) continue;
        printf("%-8s%-24s ", what, p.name);
        print_port(&p);
        putchar('\n');
    }
}

static json_t *ports_json(const TgSession *s, int32_t count, PortFn fn)
{
    json_t *j = json_array();
    for (int32_t k = 0; k < count; k++) {
        TgPort p;
        if (fn(s, k, &p) != TG_OK) continue;
        json_t *shape = json_array();
        for (int32_t d = 0; d < p.rank; d++)
            json_array_append_new(shape,
                                  p.shape[d] >= 0 ? json_integer(p.shape[d])
                                                  : json_string(p.symbol[d] && *p.symbol[d] ? p.symbol[d] : "?"));
        json_t *port = json_pack("{s:s, s:s, s:o}", "name", p.name, "dtype", p.type ? tg_type_name(p.type) : "",
                                 "shape", shape),
               *inside = json_array();
        for (int i = 0; i < TG_MAX_INSIDE && p.inside[i]; i++)
            json_array_append_new(inside, json_string(tg_type_name(p.inside[i])));
        if (json_array_size(inside)) json_object_set(port, "inside", inside);
        json_decref(inside);
        json_array_append_new(j, port);
    }
    return j;
}

static json_t *operators_json(const TgSession *s)
{
    const char *domain, *name;
    json_t *j = json_array();
    for (int32_t k = 0, n; (n = tg_model_operator(s, k, &domain, &name)) > 0; k++)
        json_array_append_new(
            j, json_pack("{s:s, s:s, s:i}", "domain", *domain ? domain : "ai.onnx", "name", name, "count", (int)n));
    return j;
}

static json_t *info_json(const TgSession *s, const TgInfo *i, const char *path)
{
    return json_pack("{s:s, s:{s:s, s:s, s:I, s:I, s:I}, s:o, s:o, s:o, s:b, s:i}", "schema", "tgrun.info/1", "model",
                     "file", path, "xxh3", i->model_hash, "opset", (json_int_t)i->opset, "nodes", (json_int_t)i->nodes,
                     "parameters", (json_int_t)i->parameters, "inputs", ports_json(s, tg_input_count(s), tg_input),
                     "outputs", ports_json(s, tg_output_count(s), tg_output), "operators", operators_json(s), "ok", 1,
                     "exit", 0);
}

static void emit_calls(void *user, const char *line)
{
    (void)user;
    printf("%-8s%s\n", "repeats", line);
}

static TgStatus open_plain(TgSession **s, const Args *a, const char *path)
{
    TgOptions o;
    args_session_options(a, &o);
    o.device = "none";
    TgStatus status = tg_open(s, path, &o);
    return status == TG_OK ? status : say_library_error(status);
}

/* Are the inputs given, or can they be made up? */
static bool has_inputs(const TgSession *s, const Args *a)
{
    TgPort p;
    if (args_has(a, OPT_input) || args_has(a, OPT_test_data)) return true;
    for (int32_t k = 0; k < tg_input_count(s); k++)
        if (tg_input(s, k, &p) != TG_OK || !p.type || p.type == TG_STRING || p.type >= TG_SEQUENCE || p.rank < 0)
            return false;
    return true;
}

static json_t *memory_json(const TgMemory *m)
{
    return json_pack("{s:I, s:I, s:I}", "values_bytes", (json_int_t)m->values_bytes, "packed_bytes",
                     (json_int_t)m->packed_bytes, "mapped_bytes", (json_int_t)m->mapped_bytes);
}

static void memory_people(const TgMemory *m)
{
    char values[32], packed[32], mapped[32];
    printf("%-8s%s values, %s packed weights, %s mapped weights\n", "memory",
           bytes_text(values, (double)m->values_bytes), bytes_text(packed, (double)m->packed_bytes),
           bytes_text(mapped, (double)m->mapped_bytes));
}

/* What each of several devices has of it. */
static void info_shares(const TgSession *s, const TgTensor *in, int32_t n, json_t *json)
{
    TgShare share[SHARES_MOST];
    int32_t devices = SHARES_MOST;
    if (tg_shares(s, in, n, share, &devices) != TG_OK || devices < 2) return;
    if (json) json_object_set_new(json, "devices", shares_json(share, devices));
    else shares_people(stdout, share, devices);
}

/* What repeats in it and what memory it takes, for the sizes that options and data tell, else 1; nothing where those do
 * not fit the model. */
static TgStatus info_planned(const Args *a, const char *path, json_t *json)
{
    TgSession *s = NULL;
    TgOptions o;
    TgMemory m;
    Data data = { 0 };
    args_session_options(a, &o);
    if (tg_open(&s, path, &o) != TG_OK) return TG_OK;
    TgStatus status = data_make(&data, s, a);
    if (status == TG_OK) {
        int32_t n = data.set[0].ninput;
        TgTensor in[n + 1];
        set_inputs(&data.set[0], in);
        bool planned = tg_memory(s, in, n, &m, json ? NULL : emit_calls, NULL) == TG_OK;
        if (planned && json) json_object_set_new(json, "memory", memory_json(&m));
        else if (planned) memory_people(&m);
        if (planned) info_shares(s, in, n, json);
    }
    data_free(&data);
    tg_close(s);
    return status;
}

static void info_people(const TgSession *s, const TgInfo *i, const char *path)
{
    const char *domain, *name;
    printf("%s   opset %ld, %ld nodes, %ld parameters, xxh3 %s\n", path, (long)i->opset, (long)i->nodes,
           (long)i->parameters, i->model_hash);
    ports_people(s, "input", tg_input_count(s), tg_input);
    ports_people(s, "output", tg_output_count(s), tg_output);
    for (int32_t k = 0, n; (n = tg_model_operator(s, k, &domain, &name)) > 0; k++)
        printf("%-8s%s%s%-24s %d\n", "op", domain, *domain ? "." : "", name, n);
}

TgStatus verb_info(const Args *a, const char *path)
{
    TgSession *s = NULL;
    TgInfo i;
    TgStatus status = open_plain(&s, a, path);
    if (status != TG_OK) return status;
    tg_info(s, &i);
    json_t *json = args_has(a, OPT_json) ? info_json(s, &i, path) : NULL;
    if (!json) info_people(s, &i, path);
    if (has_inputs(s, a)) status = info_planned(a, path, json);
    tg_close(s);
    if (json && status == TG_OK) return json_write(json, args_text(a, OPT_json, ""));
    json_decref(json);
    return status;
}

/* ---- check ---- */

static void emit_stdout(void *user, const char *line)
{
    (void)user;
    puts(line);
}

static void emit_json(void *user, const char *line) { json_array_append_new(user, json_string(line)); }

/* Do the samples of --batch run at once? why: else, what keeps them from it. */
static TgStatus check_batch(const Args *a, const char *path, char why[300])
{
    TgSession *s = NULL;
    Data data = { 0 };
    TgMemory m;
    *why = 0;
    if (!args_has(a, OPT_batch) && !args_has(a, OPT_batch_input)) return TG_OK;
    TgStatus status = open_model(&s, &data, a, path);
    if (status == TG_OK) {
        TgTensor in[data.set[0].ninput + 1];
        set_inputs(&data.set[0], in);
        for (int32_t k = 0; k < data.set[0].ninput; k++) in[k].data = NULL;         /* sizes of data are of each run */
        status = tg_memory(s, in, data.set[0].ninput, &m, NULL, NULL);
        if (status == TG_UNSUPPORTED) snprintf(why, 300, "%s", tg_error()), status = TG_OK;
        else if (status != TG_OK) say_library_error(status);
    }
    data_free(&data);
    tg_close(s);
    return status;
}

TgStatus verb_check(const Args *a, const char *path)
{
    char serial[300] = "";
    bool json = args_has(a, OPT_json), batch = args_has(a, OPT_batch);
    json_t *problems = json_array();
    TgStatus status = tg_check(path, json ? emit_json : emit_stdout, problems);
    if (status == TG_OK && (status = check_batch(a, path, serial)) != TG_OK) return json_decref(problems), status;
    if (json) {
        if (status != TG_OK && status != TG_UNSUPPORTED) json_array_append_new(problems, json_string(tg_error()));
        json_t *j = json_pack("{s:s, s:s, s:O, s:b, s:i}", "schema", "tgrun.check/1", "file", path, "problems",
                              problems, "ok", status == TG_OK, "exit", (int)status);
        if (batch) json_object_set_new(j, "serial", *serial ? json_string(serial) : json_null());
        TgStatus written = json_write(j, args_text(a, OPT_json, ""));
        if (written != TG_OK) status = written;
    } else if (status == TG_OK) {
        if (!args_has(a, OPT_quiet)) printf("%s: valid, and every operator is supported\n", path);
        if (batch && *serial) printf("samples run one after another: %s\n", serial);
        else if (batch && !args_has(a, OPT_quiet)) puts("samples run at once");
    } else {
        fflush(stdout);
        say_library_error(status);
    }
    json_decref(problems);
    return status;
}

/* ---- tune, dump ---- */

/* What the search gained, and the list of every kernel of a run: --opts replays them. */
static void say_tuned(const TgSession *s)
{
    TgInfo i;
    TgKernelTime k;
    if (tg_info(s, &i) != TG_OK) return;
    printf("# %lld kernels timed, %lld better after %.1f s: %.4g -> %.4g ms a run", (long long)i.kernels_timed,
           (long long)i.kernels_better, i.tune_s, 1e3 * i.run_before_s, 1e3 * i.run_after_s);
    if (i.run_after_s > 0) printf(" (%.2fx)", i.run_before_s / i.run_after_s);
    puts("");
    if (*i.schedule) printf("schedule: %s\n", i.schedule);
    for (int32_t n = 0; tg_kernel(s, n, &k); n++)
        if (k.launches) printf("%s: %s\n", k.name, k.options);
}

/* Without --tune and --beam for half a minute; with them tg_prepare searches. */
TgStatus verb_tune(const Args *a, const char *path)
{
    TgSession *s = NULL;
    Data data;
    bool given = args_real(a, OPT_tune, 0) > 0 || args_count(a, OPT_beam, 0);
    TgStatus status = open_model(&s, &data, a, path);
    if (status == TG_OK) {
        TgTensor in[data.set[0].ninput + 1];
        set_inputs(&data.set[0], in);
        status = given ? tg_prepare(s, in, data.set[0].ninput) : tg_tune(s, in, data.set[0].ninput, 30, 0);
        say_progress_done();
        if (status != TG_OK) say_library_error(status);
        else say_tuned(s);
    }
    data_free(&data);
    tg_close(s);
    return status;
}

TgStatus verb_dump(const Args *a, const char *path)
{
    TgSession *s = NULL;
    Data data;
    TgStatus status = open_model(&s, &data, a, path);
    if (status == TG_OK) {
        TgTensor in[data.set[0].ninput + 1];
        set_inputs(&data.set[0], in);
        status = tg_dump(s, in, data.set[0].ninput, args_text(a, OPT_stage, "graph"), args_text(a, OPT_kernel, NULL),
                         emit_stdout, NULL);
        if (status != TG_OK) say_library_error(status);
    }
    data_free(&data);
    tg_close(s);
    return status;
}

/* ---- ops, env ---- */

static const char *domain_of(const TgOperator *o) { return *o->domain ? o->domain : "ai.onnx"; }
static bool same_name(const TgOperator *a, const TgOperator *b)
{
    return !strcmp(a->domain, b->domain) && !strcmp(a->name, b->name);
}

/* One operator in all its versions: those, the types of the newest, and the tests of all. Returns the index behind it.
 */
static int32_t operator_people(int32_t i, TgOperator *o)
{
    TgOperator next;
    int32_t tests = o->tests;
    char versions[96] = "";
    size_t n = (size_t)snprintf(versions, sizeof versions, "%d%s", o->since_version, o->covered ? "" : "!");
    while (tg_operator(++i, &next) && same_name(o, &next)) {
        if (n < sizeof versions)
            n += (size_t)snprintf(versions + n, sizeof versions - n, " %d%s", next.since_version,
                                  next.covered ? "" : "!");
        tests += next.tests;
        *o = next;
    }
    printf("%-24s %-32s %-20s ", domain_of(o), o->name, versions);
    if (o->tests < 0) printf("beyond the standard");
    else printf("%3d test%s", tests, tests == 1 ? " " : "s");
    for (int32_t k = 0; k < 32 && o->type[k]; k++)
        if (tg_type_covered(o->type[k])) printf(" %s", tg_type_name(o->type[k]));
    printf("%s%s%s\n", o->sequence ? " sequence" : "", o->optional ? " optional" : "", o->map ? " map" : "");
    return i;
}

/* What of the standard is not there. */
static void lacks_people(void)
{
    TgOperator o;
    int32_t versions = 0, lacking = 0;
    uint64_t types = 0;
    for (int32_t i = 0; tg_operator(i, &o); i++) {
        if (o.tests < 0) continue;
        versions++, lacking += !o.covered;
        for (int32_t k = 0; k < 32 && o.type[k]; k++)
            types |= tg_type_covered(o.type[k]) ? 0 : UINT64_C(1) << (o.type[k] & 63);
    }
    printf("\n%d operator versions of the standard, %d of them not covered (marked !)", versions, lacking);
    for (int32_t t = 0; t < 64; t++) {
        if (!(types >> t & 1)) continue;
        printf("%s %s", t == __builtin_ctzll(types) ? "; types that are not:" : ",",
               tg_type_bits((TgType)t) ? tg_type_name((TgType)t) : "");
        if (!tg_type_bits((TgType)t)) printf("number %d", t);
    }
    printf("\n");
}

static json_t *operator_json(const TgOperator *o)
{
    json_t *covered = json_array(), *lacking = json_array();
    for (int32_t k = 0; k < 32 && o->type[k]; k++)
        json_array_append_new(tg_type_covered(o->type[k]) ? covered : lacking, json_string(tg_type_name(o->type[k])));
    return json_pack("{s:s, s:s, s:i, s:b, s:b, s:i, s:o, s:o}", "domain", domain_of(o), "name", o->name,
                     "since_version", o->since_version, "covered", o->covered, "standard", o->tests >= 0, "tests",
                     o->tests < 0 ? 0 : o->tests, "types", covered, "types_lacking", lacking);
}

TgStatus verb_ops(const Args *a, const char *unused)
{
    (void)unused;
    TgOperator o;
    if (!args_has(a, OPT_json)) {
        for (int32_t i = 0; tg_operator(i, &o);) i = operator_people(i, &o);
        lacks_people();
        return TG_OK;
    }
    json_t *list = json_array();
    for (int32_t i = 0; tg_operator(i, &o); i++) json_array_append_new(list, operator_json(&o));
    return json_write(json_pack("{s:s, s:o, s:b, s:i}", "schema", "tgrun.ops/1", "operators", list, "ok", 1, "exit", 0),
                      args_text(a, OPT_json, ""));
}

static json_t *rates_json(const TgOptions *o)
{
    TgRates r;
    if (tg_rates(o, &r) != TG_OK) return json_null();
    return json_pack("{s:b, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f}", "measured", r.measured, "hz", r.hz, "products",
                     r.products, "loads", r.loads, "stores", r.stores, "l2_bytes", r.l2_bytes, "l3_bytes", r.l3_bytes,
                     "memory_bytes", r.memory_bytes, "phase_s", r.phase_s);
}

static void print_rates(const json_t *r)
{
    static const char *const name[] = { "products", "loads", "stores", "l2_bytes", "l3_bytes" };
    double v[5];
    for (int i = 0; i < 5; i++) v[i] = json_real_value(json_object_get(r, name[i]));
    printf("%-12s%s%.2f GHz; a cycle: %.3g products, %.3g loads, %.3g stores of vectors, %.3g bytes from L2, "
           "%.3g from L3; ", "", json_is_true(json_object_get(r, "measured")) ? "" : "typical: ",
           json_real_value(json_object_get(r, "hz")) / 1e9, v[0], v[1], v[2], v[3], v[4]);
    printf("memory %.3g GB/s, phase %.2g us\n", json_real_value(json_object_get(r, "memory_bytes")) / 1e9,
           json_real_value(json_object_get(r, "phase_s")) * 1e6);
}

static json_t *devices_json(const Args *a)
{
    static const char *const names[] = { "cpu", "cuda", "reference" };
    json_t *list = json_array();
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char name[128] = "", features[256] = "";
        TgOptions o;
        args_session_options(a, &o);
        o.device = names[i];
        bool works = tg_device(&o, name, features) == TG_OK;
        json_array_append_new(list,
                              json_pack("{s:s, s:b, s:s, s:s, s:o}", "kind", names[i], "works", works, "name",
                                        works ? name : tg_error(), "features", features, "rates",
                                        works && i < 2 ? rates_json(&o) : json_null()));
    }
    return list;
}

TgStatus verb_env(const Args *a, const char *unused)
{
    (void)unused;
    json_t *env = env_json(NULL), *devices = devices_json(a), *value;
    const char *key;
    if (args_has(a, OPT_json)) {
        json_t *j = json_pack("{s:s, s:o, s:o, s:b, s:i}", "schema", "tgrun.env/1", "env", env, "devices", devices,
                              "ok", 1, "exit", 0);
        return json_write(j, args_text(a, OPT_json, ""));
    }
    json_object_foreach(env, key, value) printf("%-12s%s\n", key, json_string_value(value));
    size_t i;
    json_array_foreach(devices, i, value)
    {
        printf("%-12s%s%s  %s\n", json_string_value(json_object_get(value, "kind")),
               json_is_true(json_object_get(value, "works")) ? "" : "not here: ",
               json_string_value(json_object_get(value, "name")),
               json_string_value(json_object_get(value, "features")));
        if (json_is_object(json_object_get(value, "rates"))) print_rates(json_object_get(value, "rates"));
    }
    printf("%-12s%s\n", "cache",
           args_text(a, OPT_cache_dir, getenv("XDG_CACHE_HOME") ? "$XDG_CACHE_HOME/tgrun" : "~/.cache/tgrun"));
    json_decref(env);
    json_decref(devices);
    return TG_OK;
}
