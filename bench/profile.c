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
    printf("%6s %9s %9s %9s %9s %9s  %-32s %s\n", "share", "ms", "alone ms", "launches", "GFLOP/s", "GB/s", "kernel", "OptOps");
    for (uint32_t i = 0; i < r->count; i++) {
        const TgKernelTime *k = &r->row[i];
        double s = fmax(total(k), 1e-12), launches = (double)k->launches;
        printf("%5.1f%% %9.4f %9.4f %9ld %9.1f %9.1f  %-32s %s\n", 100 * total(k) / sum, 1e3 * total(k), 1e3 * alone(k), (long)k->launches, launches * (double)k->flops / s * 1e-9,
               launches * (double)k->bytes / s * 1e-9, k->name, k->options);
    }
    printf("sum of kernels %.3f ms; a run %.3f ms\n", 1e3 * sum, run_ms);
}

static json_t *rows_json(const Rows *r)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < r->count; i++) {
        const TgKernelTime *k = &r->row[i];
        json_array_append_new(list, json_pack("{s:s, s:I, s:f, s:f, s:I, s:I, s:s}", "name", k->name, "launches", (json_int_t)k->launches, "seconds", k->seconds, "run_seconds", k->run_seconds, "flops", (json_int_t)k->flops, "bytes",
                                              (json_int_t)k->bytes, "options", k->options));
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
            status = json_write(json_pack("{s:s, s:s, s:f, s:o, s:b, s:i}", "schema", "tgrun.profile/1", "file", path, "run_ms", run_ms, "kernels", rows_json(&rows), "ok", 1, "exit", 0), args_text(a, OPT_json, ""));
        else people(&rows, run_ms);
    }
    free(rows.row);
    data_free(&data);
    tg_close(s);
    return status;
}
