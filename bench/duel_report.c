/* What tgbench shows: a table for people, markdown and CSV for documents, JSON for programs. The page: page.c. */
#include <jansson.h>
#include <math.h>
#include <string.h>

#include "bench/cold.h"
#include "bench/fair.h"
#include "bench/report.h"
#include "bench/throughput.h"

static double quantile(const Engine *e, double percent) { return quantile_sorted(e->sorted, e->runs, percent / 100); }

const char *percentile_text(char buf[24], const Engine *e, double percent)
{
    if (e->runs >= runs_for_percentile(percent)) snprintf(buf, 24, "%.3f", quantile(e, percent));
    else snprintf(buf, 24, "n/a");
    return buf;
}

void verdict_text(char *out, size_t cap, const Duel *d, uint32_t i)
{
    const Engine *me = &d->engine[0], *e = &d->engine[i];
    if (!e->agrees) snprintf(out, cap, "%s and %s: not comparable, their outputs differ", me->peer.name, e->peer.name);
    else if (is_different(&e->faster, d->quiet, &me->faster, d->placebo_pairs))
        snprintf(out, cap, "%s is %.2fx as fast as %s (95 %%: %.2f-%.2f)", me->peer.name, e->faster.ratio, e->peer.name,
                 e->faster.low, e->faster.high);
    else
        snprintf(out, cap, "no difference shown between %s and %s (95 %%: %.3f-%.3f)", me->peer.name, e->peer.name,
                 e->faster.low, e->faster.high);
}

static void engine_row(FILE *f, const Engine *e)
{
    char p90[24], p99[24];
    fprintf(f, "  %-20s %9.3f %9.3f %9s %9s %8u %9.0f %8.2f %10.1f\n", e->peer.name, e->sorted[0], quantile(e, 50),
            percentile_text(p90, e, 90), percentile_text(p99, e, 99), e->runs, e->memory_mib, e->peer.load_s,
            e->peer.first_ms);
}

/* What it says that it is, and what it was seen to use. */
static void engine_facts(FILE *f, const Duel *d, const Engine *e)
{
    fprintf(f, "  %-20s %s", e->peer.name, *e->peer.device ? e->peer.device : "device not said");
    if (*e->peer.provider) fprintf(f, " %s", e->peer.provider);
    if (*e->peer.precision) fprintf(f, " %s", e->peer.precision);
    if (isfinite(engine_cores(e))) fprintf(f, ", %.1f of %d processors busy", engine_cores(e), d->threads);
    double energy = engine_energy_j(d, (uint32_t)(e - d->engine));
    if (isfinite(energy)) fprintf(f, ", %.3g J a run (all of the package)", energy);
    if (e->unseen_ms > 0) fprintf(f, ", %.3f ms on inputs not seen before", e->unseen_ms);
    if (isfinite(e->peer.overhead_ms)) fprintf(f, ", %.4f ms a run of nothing", e->peer.overhead_ms);
    fputc('\n', f);
}

static double largest_difference(const Duel *d)
{
    double m = 0;
    for (uint32_t i = 1; i < d->nengine; i++) m = fmax(m, d->engine[i].max_abs);
    return m;
}

static bool all_agree(const Duel *d)
{
    bool all = true;
    for (uint32_t i = 1; i < d->nengine; i++) all &= d->engine[i].agrees;
    return all;
}

void duel_table(FILE *f, const Duel *d)
{
    const Interval *p = &d->engine[0].faster;
    if (d->status != TG_OK) return (void)fprintf(f, "%s   failed, exit %d\n", d->model, (int)d->status);
    if (d->streams) return throughput_table(f, d);
    fprintf(f, "%s   %d thread%s, load %.2f   %u pairs of blocks, order random\n", d->model, d->threads,
            d->threads == 1 ? "" : "s", d->load_average, d->pairs);
    fprintf(f, "outputs %s (max|d| %.2g)           placebo %s/%s %.3f (%.3f-%.3f)\n", all_agree(d) ? "agree" : "DIFFER",
            largest_difference(d), d->engine[0].peer.name, d->engine[0].peer.name, p->ratio, p->low, p->high);
    fprintf(f, "inputs %s   %u set%s in turn\n", d->inputs, d->sets, d->sets == 1 ? "" : "s");
    fprintf(f, "  %-20s %9s %9s %9s %9s %8s %9s %8s %10s\n", "ms", "min", "median", "p90", "p99", "runs", "mem MiB",
            "load s", "first ms");
    for (uint32_t i = 0; i < d->nengine; i++) engine_row(f, &d->engine[i]);
    for (uint32_t i = 0; i < 2 * d->nengine; i++) {
        char text[200];
        const Engine *e = &d->engine[i / 2];
        if (cold_text(text, sizeof text, e, i & 1)) fprintf(f, "  %-20s %s\n", e->peer.name, text);
    }
    for (uint32_t i = 1; i < d->nengine; i++) {
        char text[320];
        verdict_text(text, sizeof text, d, i);
        fprintf(f, "%s\n", text);
    }
    for (uint32_t i = 0; i < d->nengine; i++) engine_facts(f, d, &d->engine[i]);
    for (uint32_t i = 0; i < d->notes; i++) fprintf(f, "note: %s\n", d->note[i]);
    if (d->restless) fprintf(f, "%u hand-overs to an engine while the one before was still busy\n", d->restless);
    fputc('\n', f);
}

static const char *cold_cell(char out[24], const Engine *e, const ColdStart *c)
{
    snprintf(out, 24, "%.3f", c->start_s);
    return e->cold.known ? out : "";
}

/* As it says, else as it was given. */
static int engine_threads(const Duel *d, const Engine *e) { return e->peer.threads ? e->peer.threads : d->threads; }

/* onnxruntime 1.31.1, cpu CPUExecutionProvider, 2 threads */
static void engine_cell(char *out, size_t cap, const Duel *d, const Engine *e)
{
    const Peer *p = &e->peer;
    int threads = engine_threads(d, e);
    snprintf(out, cap, "%s, %s%s%s%s%s, %d thread%s", p->name, *p->device ? p->device : "device not said",
             *p->provider ? " " : "", p->provider, *p->precision ? " " : "", p->precision, threads,
             threads == 1 ? "" : "s");
}

void duel_markdown(FILE *f, const Duel *d, bool head)
{
    if (head)
        fputs("| model | engine | min ms | median ms | p90 | p99 | runs | MiB | load s | the first engine is this many "
              "times as fast (95 %) | cold start s, files in memory | from disk |\n"
              "|---|---|---|---|---|---|---|---|---|---|---|---|\n",
              f);
    if (d->status != TG_OK)
        return (void)fprintf(f, "| %s | failed, exit %d | | | | | | | | | | |\n", d->model, (int)d->status);
    for (uint32_t i = 0; i < d->nengine; i++) {
        const Engine *e = &d->engine[i];
        char p90[24], p99[24], memory[24], disk[24], who[200];
        engine_cell(who, sizeof who, d, e);
        fprintf(f, "| %s | %s | %.3f | %.3f | %s | %s | %u | %.0f | %.2f | %.3f (%.3f-%.3f)%s | %s | %s |\n",
                d->model, who, e->sorted[0], quantile(e, 50), percentile_text(p90, e, 90),
                percentile_text(p99, e, 99), e->runs,
                e->memory_mib, e->peer.load_s, e->faster.ratio, e->faster.low, e->faster.high,
                i ? e->agrees ? "" : " outputs differ" : " placebo", cold_cell(memory, e, &e->cold.in_memory),
                cold_cell(disk, e, &e->cold.from_disk));
    }
}

void duel_csv(FILE *f, const Duel *d, bool head)
{
    if (head)
        fputs("model,engine,min_ms,median_ms,p90_ms,p99_ms,runs,memory_mib,load_s,first_ms,ratio,ratio_low,ratio_high,"
              "agrees,exit,cold_s,cold_from_disk_s,device,provider,precision,threads\n",
              f);
    if (d->status != TG_OK) return (void)fprintf(f, "\"%s\",,,,,,,,,,,,,,%d,,,,,,\n", d->model, (int)d->status);
    for (uint32_t i = 0; i < d->nengine; i++) {
        const Engine *e = &d->engine[i];
        char p90[24], p99[24], memory[24], disk[24];
        fprintf(f, "\"%s\",\"%s\",%.6f,%.6f,%s,%s,%u,%.3f,%.6f,%.6f,%.6f,%.6f,%.6f,%d,0,%s,%s,%s,%s,%s,%d\n",
                d->model, e->peer.name, e->sorted[0], quantile(e, 50), percentile_text(p90, e, 90),
                percentile_text(p99, e, 99), e->runs, e->memory_mib, e->peer.load_s, e->peer.first_ms, e->faster.ratio,
                e->faster.low, e->faster.high, e->agrees, cold_cell(memory, e, &e->cold.in_memory),
                cold_cell(disk, e, &e->cold.from_disk), e->peer.device, e->peer.provider, e->peer.precision,
                engine_threads(d, e));
    }
}

static json_t *engine_json(const Duel *d, const Engine *e)
{
    json_t *samples = json_array();
    for (uint32_t k = 0; k < e->runs; k++) json_array_append_new(samples, json_real(e->ms[k]));
    json_t *j = json_pack(
        "{s:s, s:s, s:s, s:o, s:o, s:s, s:s, s:o, s:o, s:o, s:i, s:i, s:o, s:f, s:f, s:{s:f, s:f, s:f}, s:b, s:o, s:o}",
        "device", e->peer.device, "provider", e->peer.provider, "precision", e->peer.precision, "processors",
        json_number(engine_cores(e)), "unseen_ms", e->unseen_ms > 0 ? json_real(e->unseen_ms) : json_null(), "engine",
        e->peer.label, "name", e->peer.name, "min", json_number(e->sorted[0]), "median", json_number(quantile(e, 50)),
        "p90", e->runs >= runs_for_percentile(90) ? json_number(quantile(e, 90)) : json_null(), "runs", (int)e->runs,
        "block", (int)e->block, "memory_mib", json_number(e->memory_mib), "load_s", e->peer.load_s, "first_ms",
        e->peer.first_ms, "ratio", "value", e->faster.ratio, "low", e->faster.low, "high", e->faster.high, "agrees",
        e->agrees, "max_abs", json_number(e->max_abs), "samples_ms", samples);
    json_object_set_new(j, "cold", cold_json(&e->cold));
    json_object_set_new(j, "overhead_ms", json_number(e->peer.overhead_ms));
    json_object_set_new(j, "built_in", json_string(e->peer.built_in));
    json_object_set_new(j, "energy_j", json_number(engine_energy_j(d, (uint32_t)(e - d->engine))));
    if (e->profile) json_object_set(j, "profile", e->profile);
    return j;
}

static json_t *blocks_json(const Duel *d)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < d->nblock; i++) {
        const Block *b = &d->block[i];
        const Watched *w = &b->watched;
        json_array_append_new(list,
                              json_pack("{s:s, s:i, s:f, s:f, s:f, s:o, s:o, s:o, s:o, s:I, s:I}", "engine",
                                        d->engine[b->engine].peer.label, "runs", (int)b->runs, "at_s", b->at_s,
                                        "wall_s", b->wall_s, "median_ms", b->median_ms, "others",
                                        json_number(w->others), "steal", json_number(w->steal), "mhz",
                                        json_number(w->mhz), "rss_mib", json_number(w->rss_mib), "switches",
                                        (json_int_t)w->switches, "throttled", (json_int_t)w->throttled));
    }
    return list;
}

struct json_t *duel_json(const Duel *d)
{
    if (d->streams) return throughput_json(d);
    json_t *engines = json_array();
    for (uint32_t i = 0; i < d->nengine && d->status == TG_OK; i++)
        json_array_append_new(engines, engine_json(d, &d->engine[i]));
    json_t *notes = json_array();
    for (uint32_t i = 0; i < d->notes; i++) json_array_append_new(notes, json_string(d->note[i]));
    return json_pack("{s:s, s:s, s:i, s:o, s:i, s:i, s:i, s:o, s:o, s:o, s:b, s:i}", "model", d->model, "inputs",
                     d->inputs, "sets", (int)d->sets, "notes", notes, "threads", (int)d->threads, "pairs",
                     (int)d->pairs, "quiet_pairs", (int)d->quiet, "load_average", json_number(d->load_average),
                     "engines", engines, "blocks", blocks_json(d), "ok", d->status == TG_OK && all_agree(d), "exit",
                     (int)d->status);
}
