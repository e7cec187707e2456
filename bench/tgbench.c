/* tgbench: the time of engines on the same model, inputs and processors, so that a difference is one. */
#define _GNU_SOURCE
#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench/duel.h"
#include "bench/report.h"
#include "bench/say.h"
#include "bench/serve.h"
#include "bench/stop.h"
#include "bench/throughput.h"

extern const char suite_schema[];      /* docs/suite.schema.json */
enum { MODELS_MAX = 256 };
/* dim: of a sweep */
typedef struct {
    const char *model, *data, *atol, *rtol, *dim;
} Job;
typedef struct {
    Job job[MODELS_MAX];
    uint32_t count;
    json_t *suite;
    char *text[3 * MODELS_MAX];
    uint32_t ntext;
} Jobs;

/* ---- what to measure ---- */

/* Names in a suite are relative to its file. */
static const char *beside(Jobs *j, const char *file, const char *name)
{
    const char *slash = strrchr(file, '/');
    if (!name || j->ntext == 3 * MODELS_MAX) return name;
    char *path = NULL;
    if (*name == '/' || !slash) path = strdup(name);
    else if (asprintf(&path, "%.*s/%s", (int)(slash - file), file, name) < 0) path = NULL;
    return j->text[j->ntext++] = path;
}

static const char *number_text(Jobs *j, const json_t *v)
{
    char *text = NULL;
    if (!json_is_number(v) || j->ntext == 3 * MODELS_MAX || asprintf(&text, "%.17g", json_number_value(v)) < 0)
        return NULL;
    return j->text[j->ntext++] = text;
}

/* {"models": [{"model": "a/model.onnx", "test_data": "a", "rtol": 1e-3, "atol": 1e-5}]} */
static TgStatus read_suite(Jobs *j, const char *file)
{
    json_error_t e;
    j->suite = json_load_file(file, 0, &e);
    json_t *list = json_object_get(j->suite, "models"), *row;
    size_t i;
    if (!j->suite) return say_error(TG_USAGE, "--suite: %s:%d: %s", file, e.line, e.text);
    if (!json_is_array(list)) return say_error(TG_USAGE, "--suite: %s: 'models' is missing; a list is wanted", file);
    json_array_foreach(list, i, row) {
        const char *model = json_string_value(json_object_get(row, "model"));
        if (!model)
            return say_error(TG_USAGE, "--suite: %s: row %zu: 'model' is missing; a file name is wanted", file, i);
        if (j->count == MODELS_MAX) return say_error(TG_USAGE, "--suite: %s: more than %d models", file, MODELS_MAX);
        static const char *const keys[] = { "model", "test_data", "atol", "rtol" };
        const char *key;
        json_t *value;
        json_object_foreach(row, key, value) {
            size_t k = 0;
            while (k < 4 && strcmp(key, keys[k])) k++;
            if (k == 4)
                return say_error(TG_USAGE,
                                 "--suite: %s: row %zu: '%s' is no key; model, test_data, atol or rtol is wanted", file,
                                 i, key);
            if (k < 2 ? !json_is_string(value) : !json_is_number(value))
                return say_error(TG_USAGE, "--suite: %s: row %zu: '%s' is wrong; a %s is wanted", file, i, key,
                                 k < 2 ? "text" : "number");
        }
        j->job[j->count++] = (Job){ .model = beside(j, file, model),
                                    .data = beside(j, file, json_string_value(json_object_get(row, "test_data"))),
                                    .atol = number_text(j, json_object_get(row, "atol")),
                                    .rtol = number_text(j, json_object_get(row, "rtol")) };
    }
    return TG_OK;
}

/* --sweep SYMBOL=1..128: each job once for every size, which doubles from the first to the last. */
static TgStatus sweep(Jobs *j, const Args *a)
{
    const char *s = args_text(a, OPT_sweep, NULL), *equals = s ? strrchr(s, '=') : NULL,
               *dots = equals ? strstr(equals, "..") : NULL;
    long long first, last;
    if (!s) return TG_OK;
    if (!dots || equals == s || sscanf(equals + 1, "%lld..%lld", &first, &last) != 2 || first < 1 || last < first)
        return say_error(TG_USAGE, "--sweep: '%s' is wrong; SYMBOL=1..128 is wanted", s);
    static Job all[MODELS_MAX];
    uint32_t n = 0;
    for (uint32_t i = 0; i < j->count; i++)
        for (long long size = first, more = 1; more; size = size * 2 < last ? size * 2 : last) {
            char *text = NULL;
            if (n == MODELS_MAX || j->ntext == 3 * MODELS_MAX)
                return say_error(TG_USAGE, "--sweep: more than %d measurements", MODELS_MAX);
            if (asprintf(&text, "%.*s=%lld", (int)(equals - s), s, size) < 0)
                return say_error(TG_LIMIT, "no memory for a sweep");
            j->text[j->ntext++] = text;
            all[n] = j->job[i];
            all[n++].dim = text;
            more = size < last;
        }
    memcpy(j->job, all, n * sizeof *all);
    j->count = n;
    return TG_OK;
}

static TgStatus collect(Jobs *j, const Args *a)
{
    const char *suite = args_text(a, OPT_suite, NULL);
    for (uint32_t i = 0; i < a->operand.count && i < MODELS_MAX; i++)
        j->job[j->count++] = (Job){ .model = a->operand.v[i] };
    TgStatus status = suite ? read_suite(j, suite) : TG_OK;
    if (status == TG_OK) status = sweep(j, a);
    if (status == TG_OK && !j->count)
        return say_error(TG_USAGE, "a model is missing: tgbench MODEL... [options]; --help tells more");
    return status;
}

static void push(Args *a, Opt o, const char *s)
{
    if (s && a->value[o].count < ARGS_LIST) a->value[o].v[a->value[o].count++] = s;
}

/* All engines get the same processors: children inherit our mask. */
static TgStatus bind_cpus(const char *list)
{
    cpu_set_t mask;
    CPU_ZERO(&mask);
    for (const char *s = list; s && *s;) {
        int a, b, used = 0;
        if (sscanf(s, "%d-%d%n", &a, &b, &used) < 2 && (sscanf(s, "%d%n", &a, &used) < 1 || (b = a, false))) used = 0;
        if (!used || a < 0 || b < a || b >= CPU_SETSIZE || (s[used] && s[used] != ','))
            return say_error(TG_USAGE, "--cpus: '%s' is wrong; a list such as 0-3,8 is wanted", list);
        for (; a <= b; a++) CPU_SET(a, &mask);
        s += used + (s[used] == ',');
    }
    if (list && sched_setaffinity(0, sizeof mask, &mask))
        return say_error(TG_USAGE, "--cpus: '%s': %s", list, strerror(errno));
    return TG_OK;
}

/* ---- gates ---- */

static TgStatus parse_require(const Args *a, double *least)
{
    const char *s = args_text(a, OPT_require, NULL);
    char end;
    *least = 0;
    if (s && a->value[OPT_engine].count == 1)
        return say_error(TG_USAGE, "--require: a ratio is of two engines; --engine names one");
    if (!s || sscanf(s, " ratio >= %lf %c", least, &end) == 1) return TG_OK;
    return say_error(TG_USAGE, "--require: '%s' is wrong; 'ratio >= 1.0' is wanted", s);
}

static TgStatus gate(const Duel *d, double least)
{
    TgStatus status = TG_OK;
    for (uint32_t i = 1; i < d->nengine; i++) {
        const Engine *e = &d->engine[i];
        if (!e->agrees) status = TG_DIFFERS;
        bool shown = least < 1 || is_different(&e->faster, d->quiet, &d->engine[0].faster, d->placebo_pairs);
        if (least && e->faster.low >= least && !shown) {
            say_note("%s: gate: ratio to %s is at least %.3f (95 %%), but an engine against itself differs as much "
                     "here; %.3f is required",
                     d->model, e->peer.name, e->faster.low, least);
            status = TG_DIFFERS;
        }
        if (e->faster.low >= least) continue;
        say_note("%s: gate: ratio to %s is at least %.3f (95 %%); %.3f is required", d->model, e->peer.name,
                 e->faster.low, least);
        status = TG_DIFFERS;
    }
    return status;
}

/* ---- an earlier result ---- */

static const json_t *row_in(const json_t *list, const char *key, const char *value)
{
    json_t *row;
    size_t i;
    json_array_foreach(list, i, row)
        if (!strcmp(value, json_string_value(json_object_get(row, key)) ?: "")) return row;
    return NULL;
}

/* Read before anything is timed. Times of another machine are not compared. */
static TgStatus read_baseline(json_t **out, const Args *a)
{
    const char *file = args_text(a, OPT_baseline, NULL);
    json_error_t e;
    *out = NULL;
    if (!file) return TG_OK;
    json_t *old = json_load_file(file, 0, &e), *env = env_json(NULL);
    const char *then = json_string_value(json_object_get(json_object_get(old, "env"), "cpu")),
               *now = json_string_value(json_object_get(env, "cpu"));
    TgStatus status = TG_OK;
    if (!old) status = say_error(TG_USAGE, "--baseline: %s:%d: %s", file, e.line, e.text);
    else if (!json_is_array(json_object_get(old, "results")))
        status = say_error(TG_USAGE, "--baseline: %s is no report of --format json", file);
    else if (!then || strcmp(then, now))
        status = say_error(TG_USAGE, "--baseline: %s is from '%s', this is '%s': not compared", file, then ? then : "?",
                           now);
    if (status == TG_OK) *out = json_incref(old);
    json_decref(old);
    json_decref(env);
    return status;
}

/* How the first engine stands to that one, then and now: the machine's own changes meet both. */
static TgStatus against_before(const Duel *d, const Engine *e, const json_t *then)
{
    const json_t *ratio = json_object_get(then, "ratio");
    double value = json_number_value(json_object_get(ratio, "value")),
           low = json_number_value(json_object_get(ratio, "low")),
           high = json_number_value(json_object_get(ratio, "high"));
    if (!value) return TG_OK;
    bool slower = e->faster.high < low, faster = e->faster.low > high;
    fprintf(stderr, "%s  %s over %s: %.3f (%.3f-%.3f), was %.3f (%.3f-%.3f): %s\n", d->model, e->peer.label,
            d->engine[0].peer.label, e->faster.ratio, e->faster.low, e->faster.high, value, low, high,
            slower       ? "slower"
                : faster ? "faster"
                         : "no difference shown");
    return slower ? TG_DIFFERS : TG_OK;
}

static TgStatus against_baseline(const json_t *old, const Duel *d, uint32_t n)
{
    TgStatus status = TG_OK;
    for (uint32_t i = 0; i < n; i++) {
        const json_t *model = row_in(json_object_get(old, "results"), "model", d[i].model);
        for (uint32_t k = 0; k < d[i].nengine && d[i].status == TG_OK; k++) {
            const Engine *en = &d[i].engine[k];
            const json_t *then = row_in(json_object_get(model, "engines"), "engine", en->peer.label);
            double before = json_number_value(json_object_get(then, "median")),
                   after = quantile_sorted(en->sorted, en->runs, 0.5);
            if (before > 0)
                fprintf(stderr, "%s  %s  median %.3f ms, was %.3f (%.2fx as fast)\n", d[i].model, en->peer.label, after,
                        before, before / after);
            if (k && against_before(&d[i], en, then) != TG_OK) status = TG_DIFFERS;
        }
    }
    return status;
}

/* ---- reports ---- */

static void show(const Args *a, const Duel *d, bool first)
{
    const char *format = args_text(a, OPT_format, "table");
    if (!strcmp(format, "table")) duel_table(stdout, d);
    else if (!strcmp(format, "md")) duel_markdown(stdout, d, first);
    else if (!strcmp(format, "csv")) duel_csv(stdout, d, first);
    fflush(stdout);
}

static TgStatus write_page(const char *file, const Duel *d, uint32_t n)
{
    FILE *f = fopen(file, "w");
    if (!f) return say_error(TG_CACHE, "--report: %s: %s", file, strerror(errno));
    duels_page(f, d, n);
    return fclose(f) ? say_error(TG_CACHE, "--report: %s: %s", file, strerror(errno)) : TG_OK;
}

/* The geometric mean over models, each as heavy as another. Its interval is what the models' own intervals leave open,
 * as if they were normal: not how other models would do. */
static void summary(const Duel *d, uint32_t n)
{
    double sum = 0, square = 0;
    uint32_t good = 0;
    for (uint32_t i = 0; i < n; i++)
        if (d[i].status == TG_OK && d[i].nengine > 1 && d[i].engine[1].agrees) {
            double half = log(d[i].engine[1].faster.high / d[i].engine[1].faster.low) / 2;
            sum += log(d[i].engine[1].faster.ratio);
            square += half * half;
            good++;
        }
    if (n < 2 || !good) return;
    double mean = sum / good, half = sqrt(square) / good;
    printf("%u of %u models; %s is %.2fx as fast as %s (geometric mean, 95 %%: %.2f-%.2f for these models)\n", good, n,
           d[0].engine[0].peer.label, exp(mean), d[0].engine[1].peer.label, exp(mean - half), exp(mean + half));
}

static TgStatus finish(const Args *a, const Duel *d, uint32_t n, const json_t *baseline)
{
    TgStatus status = TG_OK;
    const char *format = args_text(a, OPT_format, "table");
    if (!strcmp(format, "table")) summary(d, n);
    if (!strcmp(format, "json")) {
        json_t *list = json_array();
        for (uint32_t i = 0; i < n; i++) json_array_append_new(list, duel_json(&d[i]));
        status =
            json_write(json_pack("{s:s, s:o, s:o}", "schema", "tgbench/1", "env", env_json(NULL), "results", list), "");
    }
    if (status == TG_OK && args_has(a, OPT_report)) status = write_page(args_text(a, OPT_report, ""), d, n);
    if (status == TG_OK && baseline) status = against_baseline(baseline, d, n);
    return status;
}

/* What could fail after an hour of timing fails now. */
static TgStatus check_report(const Args *a)
{
    const char *file = args_text(a, OPT_report, NULL);
    bool there = file && !access(file, F_OK);
    FILE *f = file ? fopen(file, "a") : NULL;
    if (file && !f) return say_error(TG_CACHE, "--report: %s: %s", file, strerror(errno));
    if (f) fclose(f);
    if (f && !there) remove(file);
    return TG_OK;
}

static TgStatus bench(Args *a, Jobs *jobs)
{
    double least;
    char threads[16], given[16], streams_text[16];
    json_t *baseline = NULL;
    Duel *d = calloc(jobs->count + 1, sizeof *d);
    TgStatus status = parse_require(a, &least), worst = TG_OK;
    if (status == TG_OK) status = bind_cpus(args_text(a, OPT_cpus, NULL));
    if (status == TG_OK) status = throughput_check(a);
    if (status == TG_OK) status = check_report(a);
    if (status == TG_OK) status = read_baseline(&baseline, a);
    if (!d || status != TG_OK) return free(d), status;
    snprintf(given, sizeof given, "%d", physical_cores());
    if (!args_count(a, OPT_threads, 0)) push(a, OPT_threads, given);
    if (args_has(a, OPT_throughput)) {
        int64_t all = args_count(a, OPT_threads, 1);
        int64_t streams = args_count(a, OPT_streams, all < STREAMS_MAX ? all : STREAMS_MAX);
        snprintf(streams_text, sizeof streams_text, "%ld", (long)streams);
        snprintf(threads, sizeof threads, "%ld", (long)(all > streams ? all / streams : 1));
        push(a, OPT_streams, streams_text);
        push(a, OPT_threads, threads);
    }
    for (uint32_t i = 0; i < jobs->count; i++) {
        Args one = *a;
        push(&one, OPT_test_data, jobs->job[i].data);
        push(&one, OPT_atol, jobs->job[i].atol);
        push(&one, OPT_rtol, jobs->job[i].rtol);
        push(&one, OPT_dim, jobs->job[i].dim);
        status = duel_run(&d[i], &one, jobs->job[i].model);
        if (status == TG_OK) status = gate(&d[i], least);
        if (status != TG_OK) worst = status;
        show(a, &d[i], i == 0);
    }
    status = finish(a, d, jobs->count, baseline);
    json_decref(baseline);
    for (uint32_t i = 0; i < jobs->count; i++) duel_free(&d[i]);
    free(d);
    return status == TG_OK ? worst : status;
}

static TgStatus dispatch(Args *a)
{
    static Jobs jobs;
    const char *none[] = { NULL };
    if (args_has(a, OPT_help) && a->operand.count == 1 && !strcmp(a->operand.v[0], "suite"))
        return fputs(suite_schema, stdout), TG_OK;
    if (args_has(a, OPT_help))
        return args_help(PROGRAM_TGBENCH,
                         "tgbench MODEL... [options]\n(the first engine is compared with each of the others)\n\nexamples:\n"
                         "  tgbench model.onnx --engine tgrun --engine ort --engine ov --report page.html\n"
                         "  tgbench model.onnx --engine 'tgrun:--precision fast' --engine tgrun --budget 60\n"
                         "  tgbench model.onnx --throughput --streams 4 --latency-limit 20      requests a second\n"
                         "  tgbench --suite suite.json --format csv      `tgbench --help suite` has its schema\n"),
               TG_OK;
    if (args_has(a, OPT_version)) return printf("tgbench %s\n", tg_version()), TG_OK;
    if (args_has(a, OPT_completion))
        return args_completion(PROGRAM_TGBENCH, args_text(a, OPT_completion, "bash"), none), TG_OK;
    stop_after(args_real(a, OPT_timeout, 0));
    TgStatus status = collect(&jobs, a);
    if (status == TG_OK) status = bench(a, &jobs);
    for (uint32_t i = 0; i < jobs.ntext; i++) free(jobs.text[i]);
    json_decref(jobs.suite);
    return status;
}

int main(int argc, char **argv)
{
    Args a;
    setenv("TGRUN_DEFAULT_COMPILER", "cc", 0);                   /* what is measured is what stays */
    if (argc > 1 && !strcmp(argv[1], "@engine")) return serve(argc - 1, argv + 1);
    say_setup("tgbench", NULL, false);
    stop_setup("tgbench");
    TgStatus status = args_parse(&a, PROGRAM_TGBENCH, argc, argv);
    if (status != TG_OK) return (int)status;
    say_setup("tgbench", NULL, args_has(&a, OPT_quiet));
    say_progress_setup(args_text(&a, OPT_progress, "auto"));
    return say_end(dispatch(&a));
}
