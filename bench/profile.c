/* The verb `profile`: where a run's time goes, kernel by kernel, the most expensive first. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bench/run.h"
#include "bench/say.h"
#include "bench/stats.h"
#include "bench/verbs.h"

typedef struct { TgKernelTime *row; uint32_t count, cap; } Rows;

static void keep(void *user, const TgKernelTime *row)
{
    Rows *r = user;
    if (r->count == r->cap) {
        TgKernelTime *grown = realloc(r->row, sizeof *grown * (r->cap = r->cap ? 2 * r->cap : 64));
        if (!grown) return;
        r->row = grown;
    }
    r->row[r->count++] = *row;
}

static double alone(const TgKernelTime *row) { return row->seconds * (double)row->launches; }
static double total(const TgKernelTime *row) { return row->run_seconds > 0 ? row->run_seconds : alone(row); }

static int by_time(const void *a, const void *b)
{
    double x = total(a), y = total(b);
    return (x < y) - (x > y);
}

static double sum_of(const Rows *r)
{
    double sum = 0;
    for (uint32_t i = 0; i < r->count; i++) sum += total(&r->row[i]);
    return sum;
}

static void people(const Rows *r, double run_ms)
{
    double sum = sum_of(r);
    printf("%6s %9s %9s %9s %9s %9s  %-32s %s\n", "share", "ms", "alone ms", "launches", "GFLOP/s", "GB/s", "kernel",
           "OptOps");
    for (uint32_t i = 0; i < r->count; i++) {
        const TgKernelTime *k = &r->row[i];
        double s = fmax(total(k), 1e-12), launches = (double)k->launches;
        printf("%5.1f%% %9.4f %9.4f %9ld %9.1f %9.1f  %-32s %s\n", 100 * total(k) / sum, 1e3 * total(k), 1e3 * alone(k),
               (long)k->launches, launches * (double)k->flops / s * 1e-9, launches * (double)k->bytes / s * 1e-9,
               k->name, k->options);
    }
    printf("sum of kernels %.3f ms; a run %.3f ms\n", 1e3 * sum, run_ms);
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

/* ---- kernels ---- */

static json_t *rows_json(const Rows *r)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < r->count; i++) {
        const TgKernelTime *k = &r->row[i];
        json_array_append_new(list,
                              json_pack("{s:s, s:I, s:f, s:f, s:I, s:I, s:s}", "name", k->name, "launches",
                                        (json_int_t)k->launches, "seconds", k->seconds, "run_seconds", k->run_seconds,
                                        "flops", (json_int_t)k->flops, "bytes", (json_int_t)k->bytes, "options",
                                        k->options));
    }
    return list;
}

/* The median of some whole runs stands beside the sum, so that what lies between kernels shows. */
static TgStatus measure(TgSession *s, const Data *data, Rows *rows, double *run_ms)
{
    enum { RUNS = 11 };
    const DataSet *set = &data->set[0];
    TgTensor in[set->ninput + 1], out[set->noutput + 1];
    double ms[RUNS];
    set_inputs(set, in);
    TgStatus status = tg_prepare(s, in, set->ninput);
    for (int i = -3; i < RUNS && status == TG_OK; i++) {
        double start = clock_s();
        status = tg_run(s, in, set->ninput, out);
        if (i >= 0) ms[i] = 1e3 * (clock_s() - start);
    }
    if (status == TG_OK) status = tg_profile(s, in, set->ninput, keep, rows);
    *run_ms = status == TG_OK ? median_of(ms, RUNS) : 0;
    return status == TG_OK ? status : say_library_error(status);
}

TgStatus verb_profile(const Args *a, const char *path)
{
    TgSession *s = NULL;
    Data data;
    Rows rows = { 0 };
    double run_ms = 0;
    TgStatus status = open_model(&s, &data, a, path);
    if (status == TG_OK) status = measure(s, &data, &rows, &run_ms);
    if (status == TG_OK) {
        qsort(rows.row, rows.count, sizeof *rows.row, by_time);
        if (args_has(a, OPT_json))
            status = json_write(json_pack("{s:s, s:s, s:f, s:o, s:o, s:b, s:i}", "schema", "tgrun.profile/1", "file",
                                          path, "run_ms", run_ms, "kernels", rows_json(&rows), "nodes", nodes_json(s),
                                          "ok", 1, "exit", 0),
                                args_text(a, OPT_json, ""));
        else people(&rows, run_ms), nodes_people(s);
    }
    free(rows.row);
    data_free(&data);
    tg_close(s);
    return status;
}
