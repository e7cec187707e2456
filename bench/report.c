#include "bench/report.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "bench/say.h"
#include "bench/stats.h"
#include "bench/values.h"

#ifdef __clang__
#define COMPILER "clang " __clang_version__
#else
#define COMPILER "gcc " __VERSION__
#endif

/* Of this program alone: what getrusage tells starts at the highest of the process that started it. */
static int64_t peak_from_status(void)
{
    char line[256];
    long kib = 0;
    FILE *f = fopen("/proc/self/status", "r");
    while (f && !kib && fgets(line, sizeof line, f)) sscanf(line, "VmHWM: %ld kB", &kib);
    if (f) fclose(f);
    return (int64_t)kib * 1024;
}

int64_t peak_bytes(void)
{
    struct rusage u;
    int64_t bytes = peak_from_status();
    if (bytes) return bytes;
    getrusage(RUSAGE_SELF, &u);
    return (int64_t)u.ru_maxrss * 1024;
}

const char *precision_name(const Args *a) { return args_text(a, OPT_precision, "exact"); }

TgStatus percentile_list(const Args *a, double out[8], uint32_t *n)
{
    const char *s = args_text(a, OPT_percentiles, "50,90,99");
    char *end;
    for (*n = 0; *s && *n < 8; s = *end == ',' ? end + 1 : end) {
        double p = strtod(s, &end);
        if (end == s || (*end && *end != ',') || !(p > 0 && p < 100)) break;
        out[(*n)++] = p;
    }
    return *s || !*n ? say_error(TG_USAGE, "--percentiles: '%s' is wrong; up to 8 numbers between 0 and 100 are wanted",
                                 args_text(a, OPT_percentiles, ""))
                     : TG_OK;
}

/* ---- text ---- */

/* 25600000 as "25.6 M", with `step` 1000 or 1024. */
static char *engineering(char buf[32], double v, double step)
{
    static const char *const unit[] = { "", "k", "M", "G", "T", "P" };
    int i = 0;
    for (; fabs(v) >= step && i < 5; i++) v /= step;
    snprintf(buf, 28,
             v == floor(v) && v < step ? "%.0f %s"
                 : v < 10              ? "%.2f %s"
                 : v < 100             ? "%.1f %s"
                                       : "%.0f %s",
             v, unit[i]);
    return buf;
}

const char *bytes_text(char buf[32], double v)
{
    char *kilo = strchr(engineering(buf, v, 1024), 'k');
    if (kilo) *kilo = 'K';
    strcat(buf, v < 1024 ? "B" : "iB");
    return buf;
}

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static void head_line(FILE *f, const Result *r)
{
    char params[32];
    const TgInfo *i = &r->info;
    fprintf(f, "%s   opset %ld, %ld nodes -> %ld kernels, %sparameters   %s", base_name(r->file), (long)i->opset,
            (long)i->nodes, (long)i->kernels, engineering(params, (double)i->parameters, 1000), i->device_kind);
    if (!strcmp(i->device_kind, "cuda")) fprintf(f, ", %s", i->device_name);
    else fprintf(f, ", %d thread%s", i->threads, i->threads == 1 ? "" : "s");
    fprintf(f, "%s%s%s%s\n", *i->features ? ", " : "", i->features,
            strcmp(precision_name(r->args), "exact") ? "   precision " : "",
            strcmp(precision_name(r->args), "exact") ? precision_name(r->args) : "");
}

static void index_text(char *out, size_t cap, const TgTensor *t, int64_t flat)
{
    int64_t at[TG_MAX_RANK];
    size_t n = 0;
    for (int32_t k = t->rank - 1; k >= 0; k--) {
        at[k] = flat % t->shape[k];
        flat /= t->shape[k];
    }
    *out = 0;
    for (int32_t k = 0; k < t->rank && n < cap; k++)
        n += (size_t)snprintf(out + n, cap - n, "%s%ld", k ? "," : "", (long)at[k]);
}

static void task_verdict(FILE *f, const Comparison *c)
{
    fprintf(f, "%s   %s %.9g, at least %.9g   max|d| %.2g  cos %.6f", c->ok ? "ok" : "DIFFERS", task_name(c->task.kind),
            c->measure, c->task.least, c->max_abs, c->cosine);
}

static void verdict(FILE *f, const Comparison *c, const TgTensor *want)
{
    char at[128];
    if (*c->why) return (void)fprintf(f, "DIFFERS   %s", c->why);
    if (c->task.kind > TASK_STANDARD) return task_verdict(f, c);
    fprintf(f, "%s   max|d| %.2g  rel %.2g  ulp99 %.0f  cos %.6f", c->ok ? "ok" : "DIFFERS", c->max_abs, c->max_rel,
            c->ulp99, c->cosine);
    if (c->not_finite) fprintf(f, "  %ld NaN or Inf in place", (long)c->not_finite);
    if (!c->ok) {
        index_text(at, sizeof at, want, c->first);
        fprintf(f, "  %ld of %ld outside, first [%s]", (long)c->outside, (long)c->numel, at);
    }
    fprintf(f, "   (rtol %g atol %.2g)", c->used.rtol, c->used.atol);
}

/* Width of the longest name, so that columns align; one that is much longer than the others stands out. */
static int name_width(const Result *r)
{
    int width = 6;
    TgPort p;
    for (int32_t k = 0; k < r->data->set[0].ninput; k++)
        if (tg_input(r->session, k, &p) == TG_OK && (int)strlen(p.name) > width) width = (int)strlen(p.name);
    for (int32_t k = 0; k < r->data->set[0].noutput; k++)
        if (tg_output(r->session, k, &p) == TG_OK && (int)strlen(p.name) > width) width = (int)strlen(p.name);
    return width < 32 ? width : 32;
}

static void set_lines(FILE *f, const Result *r, uint32_t s)
{
    const DataSet *set = &r->data->set[s];
    char title[160];
    int width = name_width(r);
    if (r->data->count > 1) fprintf(f, "%s\n", set->name);
    for (int32_t k = 0; k < set->ninput; k++) {
        TgPort p;
        tensor_title(&set->input[k].tensor, title, sizeof title);
        if (tg_input(r->session, k, &p) == TG_OK)
            fprintf(f, "input   %-*s  %-18s %s\n", width, p.name, title, set->input[k].source);
    }
    for (int32_t k = 0; k < set->noutput; k++) {
        TgPort p;
        if (tg_output(r->session, k, &p) != TG_OK) continue;
        if (!s) tensor_title(&r->output[k], title, sizeof title);
        else if (set->output[k].known) tensor_title(&set->output[k].tensor, title, sizeof title);
        else continue;
        fprintf(f, "output  %-*s  %-18s ", width, p.name, title);
        if (set->output[k].known)
            verdict(f, &r->compare[s * (uint32_t)set->noutput + (uint32_t)k], &set->output[k].tensor);
        fputc('\n', f);
    }
}

static double latency_quantile(const Latency *l, double percent)
{
    return quantile_sorted(l->ms, l->runs, percent / 100);
}

static const char *percent_label(char buf[16], double p)
{
    if (p == 50) snprintf(buf, 16, "median");
    else snprintf(buf, 16, "p%g", p);
    return buf;
}

/* Three decimals, more where the median would have less than three digits. */
static int decimals_of(const Latency *l)
{
    double median = latency_quantile(l, 50);
    return median <= 0 || median >= 0.1 ? 3 : median >= 0.01 ? 4 : 5;
}

static void latency_lines(FILE *f, const Result *r)
{
    double percent[8];
    uint32_t n;
    char label[16];
    const Latency *l = &r->latency;
    const TgInfo *i = &r->info;
    if (!l->runs || percentile_list(r->args, percent, &n) != TG_OK) return;
    fprintf(f, "\nlatency %8s", "min");
    for (uint32_t k = 0; k < n; k++) fprintf(f, " %9s", percent_label(label, percent[k]));
    fprintf(f, " %9s %7s      load %.2f s  schedule %.2f s  compile %.2f s (%ld of %ld cached)\n", "max", "runs",
            i->load_s, i->schedule_s, i->compile_s, (long)i->kernels_cached,
            (long)(i->kernels_cached + i->kernels_compiled));
    int decimals = decimals_of(l);
    fprintf(f, "  ms    %8.*f", decimals, l->ms[0]);
    for (uint32_t k = 0; k < n; k++)
        if (l->runs >= runs_for_percentile(percent[k])) fprintf(f, " %9.*f", decimals, latency_quantile(l, percent[k]));
        else fprintf(f, " %9s", "n/a");
    fprintf(f, " %9.*f %7u      first run %.*f ms, warm after %u\n", decimals, l->ms[l->runs - 1], l->runs,
            decimals - 2, r->first_run_ms, l->warm);
}

static void throughput_line(FILE *f, const Result *r)
{
    char planned[32], peak[32], flops[32], rate[32];
    double median = r->latency.runs ? latency_quantile(&r->latency, 50) : 0;
    if (median > 0) fprintf(f, "%.4g runs/s   ", 1e3 / median);
    fprintf(f, "memory %s planned, %s peak",
            bytes_text(planned, (double)(r->info.planned_bytes + r->info.weight_bytes)),
            bytes_text(peak, (double)peak_bytes()));
    if (r->info.flops > 0) fprintf(f, "   %sFLOP/run", engineering(flops, (double)r->info.flops, 1000));
    if (r->info.flops > 0 && median > 0)
        fprintf(f, "   %sFLOP/s", engineering(rate, (double)r->info.flops / median * 1e3, 1000));
    fputc('\n', f);
}

void shares_people(FILE *f, const TgShare *share, int32_t devices)
{
    char flops[32], weights[32], foreign[32];
    for (int32_t d = 0; d < devices; d++)
        fprintf(f, "device  %d: %ld kernels, %sFLOP, %s of weights; reads %s that others computed\n", d,
                (long)share[d].kernels, engineering(flops, (double)share[d].flops, 1000),
                bytes_text(weights, (double)share[d].weight_bytes),
                bytes_text(foreign, (double)share[d].foreign_bytes));
}

json_t *shares_json(const TgShare *share, int32_t devices)
{
    json_t *j = json_array();
    for (int32_t d = 0; d < devices; d++)
        json_array_append_new(j, json_pack("{s:I, s:I, s:I, s:I}", "kernels", (json_int_t)share[d].kernels, "flops",
                                           (json_int_t)share[d].flops, "weight_bytes",
                                           (json_int_t)share[d].weight_bytes, "foreign_bytes",
                                           (json_int_t)share[d].foreign_bytes));
    return j;
}

static int32_t shares_of(const Result *r, TgShare share[SHARES_MOST])
{
    int32_t devices = SHARES_MOST;
    return r->session && tg_shares(r->session, NULL, 0, share, &devices) == TG_OK && devices > 1 ? devices : 0;
}

void report_people(FILE *f, const Result *r)
{
    TgShare share[SHARES_MOST];
    head_line(f, r);
    for (uint32_t s = 0; s < r->data->count; s++) set_lines(f, r, s);
    latency_lines(f, r);
    throughput_line(f, r);
    shares_people(f, share, shares_of(r, share));
}

/* ---- JSON ---- */

static json_t *shape_json(const TgTensor *t)
{
    json_t *j = json_array();
    for (int32_t k = 0; k < t->rank; k++) json_array_append_new(j, json_integer(t->shape[k]));
    return j;
}

/* What holds tensors tells theirs as `inside`. */
static json_t *form_json(const TgTensor *t)
{
    json_t *j = json_pack("{s:s, s:o}", "dtype", tg_type_name(t->type), "shape", shape_json(t)),
           *inside = holds_tensors(t) ? json_array() : NULL;
    for (int64_t k = 0; inside && k < t->shape[0]; k++)
        json_array_append_new(inside, form_json((const TgTensor *)t->data + k));
    if (inside) json_object_set_new(j, "inside", inside);
    return j;
}

static json_t *port_json(const TgPort *p, const TgTensor *t, const char *source)
{
    json_t *j = json_pack("{s:s}", "name", p->name), *form = form_json(t);
    json_object_update(j, form);
    json_decref(form);
    json_object_set_new(j, "source", json_string(source));
    return j;
}

static json_t *inputs_json(const Result *r)
{
    json_t *j = json_array();
    const DataSet *set = &r->data->set[0];
    TgPort p;
    for (int32_t k = 0; k < set->ninput; k++)
        if (tg_input(r->session, k, &p) == TG_OK)
            json_array_append_new(j, port_json(&p, &set->input[k].tensor, set->input[k].source));
    return j;
}

static json_t *outputs_json(const Result *r)
{
    json_t *j = json_array();
    const DataSet *set = &r->data->set[0];
    TgPort p;
    for (int32_t k = 0; k < set->noutput; k++)
        if (tg_output(r->session, k, &p) == TG_OK)
            json_array_append_new(j, port_json(&p, &r->output[k], set->output[k].source));
    return j;
}

static json_t *compare_json(const Result *r)
{
    json_t *j = json_array();
    for (uint32_t s = 0; s < r->data->count; s++)
        for (int32_t k = 0; k < r->data->set[s].noutput; k++) {
            TgPort p;
            const Comparison *c = &r->compare[s * (uint32_t)r->data->set[s].noutput + (uint32_t)k];
            if (!r->data->set[s].output[k].known || tg_output(r->session, k, &p) != TG_OK) continue;
            bool task = c->task.kind > TASK_STANDARD;
            json_array_append_new(
                j,
                json_pack("{s:i, s:s, s:b, s:o, s:o, s:o, s:o, s:I, s:o, s:o, s:s, s:s*, s:o*}", "set", (int)s, "name",
                          p.name, "ok", c->ok, "max_abs", json_number(c->max_abs), "max_rel", json_number(c->max_rel),
                          "ulp99", json_number(c->ulp99), "cosine", json_number(c->cosine), "outside",
                          (json_int_t)c->outside, "rtol", json_number(c->used.rtol), "atol", json_number(c->used.atol),
                          "why", c->why, "task", task ? task_name(c->task.kind) : NULL, "measure",
                          task ? json_number(c->measure) : NULL));
        }
    return j;
}

static json_t *latency_json(const Result *r)
{
    const Latency *l = &r->latency;
    if (!l->runs) return json_pack("{s:i}", "runs", 0);
    json_t *j = json_pack("{s:f, s:f, s:f, s:i, s:f}", "min", l->ms[0], "median", latency_quantile(l, 50), "max",
                          l->ms[l->runs - 1], "runs", (int)l->runs, "device_median", l->device_median_ms);
    double percent[8] = { 90, 99 };
    uint32_t n = 2;
    if (args_has(r->args, OPT_percentiles)) percentile_list(r->args, percent, &n);
    for (uint32_t k = 0; k < n; k++) {
        char label[16];
        json_object_set_new(j, percent_label(label, percent[k]),
                            l->runs >= runs_for_percentile(percent[k]) ? json_real(latency_quantile(l, percent[k]))
                                                                       : json_null());
    }
    return j;
}

static void first_line_of(const char *path, const char *key, char *out, size_t cap)
{
    char line[256];
    FILE *f = fopen(path, "r");
    *out = 0;
    while (f && !*out && fgets(line, sizeof line, f)) {
        char *value = *key ? strchr(line, ':') : line;
        if (strncmp(line, key, strlen(key)) || !value) continue;
        value += *key ? 2 : 0;
        value[strcspn(value, "\n")] = 0;
        snprintf(out, cap, "%s", value);
    }
    if (f) fclose(f);
}

json_t *env_json(const TgInfo *info)
{
    char cpu[128], driver[160], os[256];
    struct utsname u;
    uname(&u);
    snprintf(os, sizeof os, "%.60s %.80s %.60s", u.sysname, u.release, u.machine);
    first_line_of("/proc/cpuinfo", "model name", cpu, sizeof cpu);
    first_line_of("/proc/driver/nvidia/version", "", driver, sizeof driver);
    (void)info;
    return json_pack("{s:s, s:s, s:s, s:s, s:s}", "version", tg_version(), "cpu", cpu, "os", os, "compiler", COMPILER,
                     "driver", driver);
}

json_t *report_json(const Result *r, TgStatus exit_code)
{
    const TgInfo *i = &r->info;
    json_t *model = json_pack("{s:s, s:s, s:I, s:I, s:I, s:I, s:I, s:I}", "file", r->file, "xxh3", i->model_hash,
                              "opset", (json_int_t)i->opset, "nodes", (json_int_t)i->nodes, "kernels",
                              (json_int_t)i->kernels, "syncs", (json_int_t)i->syncs, "host_steps",
                              (json_int_t)i->host_steps, "parameters", (json_int_t)i->parameters);
    json_t *device = json_pack("{s:s, s:s, s:i, s:s}", "kind", i->device_kind, "name", i->device_name, "threads",
                               (int)i->threads, "features", i->features);
    json_t *memory = json_pack("{s:I, s:I, s:I}", "planned_bytes", (json_int_t)i->planned_bytes, "weight_bytes",
                               (json_int_t)i->weight_bytes, "peak_bytes", (json_int_t)peak_bytes());
    json_t *j = json_pack("{s:s, s:o, s:o, s:s, s:o, s:o, s:o, s:o}", "schema", "tgrun.run/1", "model", model, "device",
                          device, "precision", precision_name(r->args), "inputs", inputs_json(r), "outputs",
                          outputs_json(r), "compare", compare_json(r), "latency_ms", latency_json(r));
    json_t *rest = json_pack(
        "{s:f, s:f, s:f, s:f, s:I, s:I, s:I, s:I, s:I, s:f, s:o, s:I, s:b, s:i, s:o}", "load_s", i->load_s, "schedule_s",
        i->schedule_s, "compile_s", i->compile_s, "tune_s", i->tune_s, "programs",
        (json_int_t)tg_program_count(r->session), "programs_kept", (json_int_t)i->programs_kept, "kernels_compiled",
        (json_int_t)i->kernels_compiled, "kernels_cached", (json_int_t)i->kernels_cached, "lists_refused",
        (json_int_t)i->lists_refused, "first_run_ms", r->first_run_ms, "memory", memory, "flops",
        (json_int_t)i->flops, "ok", r->ok, "exit", (int)exit_code, "env", env_json(i));
    json_object_update(j, rest);
    json_decref(rest);
    TgShare share[SHARES_MOST];
    int32_t devices = shares_of(r, share);
    if (devices) json_object_set_new(j, "devices", shares_json(share, devices));
    return j;
}

TgStatus json_write(json_t *j, const char *file)
{
    char temporary[4200];
    struct stat st;
    bool straight = !stat(file, &st) && !S_ISREG(st.st_mode);       /* a pipe or a device stays what it is */
    if (straight) snprintf(temporary, sizeof temporary, "%s", file);
    else snprintf(temporary, sizeof temporary, "%s.%d.tmp", file, (int)getpid());
    FILE *f = *file ? fopen(temporary, "w") : stdout;
    if (!f) {
        json_decref(j);
        return say_error(TG_CACHE, "%s: %s", file, strerror(errno));
    }
    int bad = json_dumpf(j, f, JSON_INDENT(2) | JSON_REAL_PRECISION(9)) < 0;
    bad |= fputc('\n', f) < 0;
    json_decref(j);
    if (!*file) return fflush(f) || bad ? say_error(TG_CACHE, "standard output: %s", strerror(errno)) : TG_OK;
    bad |= fclose(f) != 0;
    if (!bad && (straight || !rename(temporary, file))) return TG_OK;
    if (!straight) remove(temporary);
    return say_error(TG_CACHE, "%s: %s", file, strerror(errno));
}
