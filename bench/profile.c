#include "bench/profile.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bench/run.h"
#include "bench/say.h"
#include "bench/stats.h"
#include "bench/verbs.h"

static void keep(void *user, const TgKernelTime *row)
{
    Profile *p = user;
    if (p->count == p->cap) {
        TgKernelTime *grown = realloc(p->row, sizeof *grown * (p->cap = p->cap ? 2 * p->cap : 64));
        if (!grown) return;
        p->row = grown;
    }
    p->row[p->count++] = *row;
}

static double alone(const TgKernelTime *row) { return row->seconds * (double)row->launches; }
static double total(const TgKernelTime *row) { return row->run_seconds > 0 ? row->run_seconds : alone(row); }

static int by_time(const void *a, const void *b)
{
    double x = total(a), y = total(b);
    return (x < y) - (x > y);
}

static double sum_of(const Profile *p)
{
    double sum = 0;
    for (uint32_t i = 0; i < p->count; i++) sum += total(&p->row[i]);
    return sum;
}

/* ---- beside the machine's peaks ---- */

/* Tiles multiply where a list says TC. */
static double peak_flops(const Profile *p, const TgKernelTime *k)
{
    bool tiles = strstr(k->options, "TC") && isfinite(p->peaks.matrix_flops);
    return tiles ? p->peaks.matrix_flops : p->peaks.flops;
}

static Level level_of(const Profile *p, const TgKernelTime *k) { return peaks_level(&p->peaks, (double)k->bytes); }

/* The share of its time that the peaks allow: what its operations or its bytes take at least, whichever is more. NAN:
 * no peaks are known. */
static double roof_share(const Profile *p, const TgKernelTime *k)
{
    double least = fmax((double)k->flops / peak_flops(p, k), (double)k->bytes / p->peaks.bytes[level_of(p, k)]);
    return isfinite(p->peaks.flops) ? (double)k->launches * least / fmax(total(k), 1e-12) : NAN;
}

static void people(const Profile *p)
{
    double sum = sum_of(p);
    bool known = isfinite(p->peaks.flops);
    printf("%6s %9s %9s %9s %9s %9s %6s %-6s %6s  %-32s %s\n", "share", "ms", "alone ms", "launches", "GFLOP/s", "GB/s",
           "roof", "bytes", "excess", "kernel", "OptOps");
    for (uint32_t i = 0; i < p->count; i++) {
        const TgKernelTime *k = &p->row[i];
        double s = fmax(total(k), 1e-12), launches = (double)k->launches;
        char roof[16] = "-", excess[16] = "-";
        if (k->excess > 0) snprintf(excess, sizeof excess, "%.2f", k->excess);
        if (known) snprintf(roof, sizeof roof, "%.0f%%", 100 * roof_share(p, k));
        printf("%5.1f%% %9.4f %9.4f %9ld %9.1f %9.1f %6s %-6s %6s  %-32s %s\n", 100 * total(k) / sum, 1e3 * total(k),
               1e3 * alone(k), (long)k->launches, launches * (double)k->flops / s * 1e-9,
               launches * (double)k->bytes / s * 1e-9, roof, known ? level_name[level_of(p, k)] : "-", excess,
               k->name, k->options);
    }
    printf("sum of kernels %.3f ms; a run %.3f ms; excess: operations executed for each that is needed\n", 1e3 * sum,
           p->run_ms);
    if (!known) return;
    printf("roof: the share of a kernel's time that the measured peaks allow: f32 %.0f GFLOP/s", p->peaks.flops * 1e-9);
    if (isfinite(p->peaks.matrix_flops)) printf(", bf16 tiles %.0f", p->peaks.matrix_flops * 1e-9);
    for (Level l = LEVEL_L2; l < LEVELS; l++)
        if (isfinite(p->peaks.bytes[l])) printf(", %s %.0f GB/s", level_name[l], p->peaks.bytes[l] * 1e-9);
    putchar('\n');
}

/* ---- nodes of the model ---- */

enum { NODES_SHOWN = 4 };
static const double SHARE_LEAST = 0.002;

/* `Conv 'a' + Relu 'b' + 3 more` */
static void nodes_text(char *out, size_t cap, const TgSession *s, const TgNodeTime *row)
{
    size_t n = 0;
    *out = 0;
    for (int32_t k = 0; k < row->node_count && k < NODES_SHOWN && n < cap; k++) {
        TgNode node;
        if (!tg_node(s, row->node[k], &node)) continue;
        n += (size_t)snprintf(out + n, cap - n, "%s%s '%.60s'", k ? " + " : "", node.op, node.name);
    }
    if (row->node_count > NODES_SHOWN && n < cap)
        snprintf(out + n, cap - n, " + %d more", row->node_count - NODES_SHOWN);
    if (!row->node_count)
        snprintf(out, cap, "%s", *row->kernel ? "(nothing of the model: values moved or cut)" : "(copy)");
}

static double nodes_sum(const TgSession *s)
{
    TgNodeTime row;
    double sum = 0;
    for (int32_t i = 0; tg_node_time(s, i, &row); i++) sum += row.run_seconds;
    return sum;
}

static void nodes_people(const TgSession *s)
{
    TgNodeTime row;
    char text[512];
    double sum = nodes_sum(s);
    if (sum <= 0) return;
    printf("\n%6s %9s %9s %9s %9s  %s\n", "share", "ms", "launches", "GFLOP/s", "GB/s",
           "nodes that are computed together");
    double rest = sum;
    for (int32_t i = 0; tg_node_time(s, i, &row); i++) {
        double seconds = fmax(row.run_seconds, 1e-12);
        if (row.run_seconds < SHARE_LEAST * sum) {
            printf("%5.1f%% %9.4f                               others, each below %.1f%%\n", 100 * rest / sum,
                   1e3 * rest, 100 * SHARE_LEAST);
            break;
        }
        rest -= row.run_seconds;
        nodes_text(text, sizeof text, s, &row);
        printf("%5.1f%% %9.4f %9ld %9.1f %9.1f  %s\n", 100 * row.run_seconds / sum, 1e3 * row.run_seconds,
               (long)row.launches, (double)row.flops / seconds * 1e-9, (double)row.bytes / seconds * 1e-9, text);
    }
}

static json_t *nodes_json(const TgSession *s)
{
    json_t *list = json_array();
    TgNodeTime row;
    for (int32_t i = 0; tg_node_time(s, i, &row); i++) {
        json_t *nodes = json_array();
        for (int32_t k = 0; k < row.node_count; k++) {
            TgNode node;
            if (tg_node(s, row.node[k], &node))
                json_array_append_new(
                    nodes, json_pack("{s:s, s:s, s:i}", "name", node.name, "op", node.op, "index", (int)row.node[k]));
        }
        json_array_append_new(list,
                              json_pack("{s:o, s:s, s:I, s:f, s:I, s:I}", "nodes", nodes, "kernel", row.kernel,
                                        "launches", (json_int_t)row.launches, "run_seconds", row.run_seconds, "flops",
                                        (json_int_t)row.flops, "bytes", (json_int_t)row.bytes));
    }
    return list;
}

/* ---- as JSON ---- */

static json_t *peaks_json(const Profile *p)
{
    json_t *bytes = json_object();
    for (Level l = LEVEL_L2; l < LEVELS; l++)
        json_object_set_new(bytes, level_name[l], json_number(p->peaks.bytes[l]));
    return json_pack("{s:o, s:o, s:o}", "flops", json_number(p->peaks.flops), "matrix_flops",
                     json_number(p->peaks.matrix_flops), "bytes", bytes);
}

static json_t *rows_json(const Profile *p)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < p->count; i++) {
        const TgKernelTime *k = &p->row[i];
        bool known = isfinite(p->peaks.flops);
        json_array_append_new(
            list, json_pack("{s:s, s:I, s:f, s:f, s:I, s:I, s:f, s:o, s:o, s:o, s:s}", "name", k->name, "launches",
                            (json_int_t)k->launches, "seconds", k->seconds, "run_seconds", k->run_seconds, "flops",
                            (json_int_t)k->flops, "bytes", (json_int_t)k->bytes, "excess", k->excess, "peak_flops",
                            json_number(peak_flops(p, k)), "roof", json_number(roof_share(p, k)), "level",
                            known ? json_string(level_name[level_of(p, k)]) : json_null(), "options", k->options));
    }
    return list;
}

json_t *profile_json(const Profile *p, const TgSession *s, const char *file)
{
    return json_pack("{s:s, s:s, s:f, s:f, s:o, s:o, s:o}", "schema", "tgrun.profile/1", "file", file, "run_ms",
                     p->run_ms, "kernels_ms", 1e3 * sum_of(p), "peaks", peaks_json(p), "kernels", rows_json(p), "nodes",
                     nodes_json(s));
}

/* ---- as a trace ---- */

/* The steps of one run, end to end, as trace events: complete ones ("X"), times in microseconds. */
static TgStatus trace_write(const TgSession *s, const char *model, const char *file)
{
    json_t *events = json_array();
    TgNodeTime row;
    double at = 0;
    json_array_append_new(events, json_pack("{s:s, s:s, s:i, s:{s:s}}", "name", "process_name", "ph", "M", "pid", 1,
                                            "args", "name", model));
    for (int32_t i = 0; tg_step_time(s, i, &row); i++) {
        char nodes[512];
        nodes_text(nodes, sizeof nodes, s, &row);
        json_array_append_new(
            events, json_pack("{s:s, s:s, s:s, s:i, s:i, s:f, s:f, s:{s:s, s:I, s:I}}", "name",
                              *row.kernel ? row.kernel : "(host)", "cat", *row.kernel ? "kernel" : "host", "ph", "X",
                              "pid", 1, "tid", 1, "ts", at, "dur", 1e6 * row.run_seconds, "args", "nodes", nodes,
                              "flops", (json_int_t)row.flops, "bytes", (json_int_t)row.bytes));
        at += 1e6 * row.run_seconds;
    }
    return json_write(json_pack("{s:s, s:o}", "displayTimeUnit", "ms", "traceEvents", events), file);
}

/* ---- measuring ---- */

/* The median of some whole runs stands beside the sum, so that what lies between kernels shows. */
TgStatus profile_measure(Profile *out, TgSession *s, const DataSet *set)
{
    enum { RUNS = 11 };
    TgTensor in[set->ninput + 1], result[set->noutput + 1];
    double ms[RUNS];
    TgInfo info;
    *out = (Profile){ .peaks = { NAN, NAN, { NAN, NAN, NAN }, { 0 } } };
    set_inputs(set, in);
    TgStatus status = tg_prepare(s, in, set->ninput);
    for (int i = -3; i < RUNS && status == TG_OK; i++) {
        double start = clock_s();
        say_progress("running", i + 3, RUNS + 3);
        status = tg_run(s, in, set->ninput, result);
        if (i >= 0) ms[i] = 1e3 * (clock_s() - start);
    }
    if (status == TG_OK) status = tg_profile(s, in, set->ninput, keep, out);
    if (status == TG_OK) status = tg_info(s, &info);
    if (status != TG_OK) return say_library_error(status);
    out->run_ms = median_of(ms, RUNS);
    if (out->count) qsort(out->row, out->count, sizeof *out->row, by_time);
    say_progress("measuring what the machine can do", 0, 0);
    if (!strcmp(info.device_kind, "cpu")) out->peaks = peaks_measure(info.threads, info.features);
    say_progress_done();
    return TG_OK;
}

void profile_free(Profile *p) { free(p->row); }

TgStatus verb_profile(const Args *a, const char *path)
{
    TgSession *s = NULL;
    Data data;
    Profile p = { .row = NULL };
    TgStatus status = open_model(&s, &data, a, path);
    if (status == TG_OK) status = profile_measure(&p, s, &data.set[0]);
    if (status == TG_OK && args_has(a, OPT_trace)) status = trace_write(s, path, args_text(a, OPT_trace, ""));
    if (status == TG_OK && args_has(a, OPT_json)) {
        json_t *j = profile_json(&p, s, path);
        json_object_set_new(j, "ok", json_true());
        json_object_set_new(j, "exit", json_integer(0));
        status = json_write(j, args_text(a, OPT_json, ""));
    } else if (status == TG_OK) {
        people(&p);
        nodes_people(s);
    }
    profile_free(&p);
    data_free(&data);
    tg_close(s);
    return status;
}
