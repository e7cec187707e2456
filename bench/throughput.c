/* A stream is a child that runs one request at a time; a thread of ours speaks with each. Offline, a block is all
 * streams of one engine running for a while, the other engine's being silent: engines take turns in random order, and
 * some pairs are of the first engine alone, the placebo. As a server, a block is a list of arrival times at one rate,
 * the same for all engines; whichever stream is free takes the next request, and a request's latency begins when it
 * arrives. After MLPerf's offline and server scenarios. */
#define _GNU_SOURCE
#include "bench/throughput.h"

#include <jansson.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "bench/measure.h"
#include "bench/report.h"
#include "bench/say.h"

enum { BISECTIONS = 6, PLACEBOS = 5, PAIRS_LEAST = 5 };
static const double BLOCK_S = 1, BLOCKS_WANTED = 15, COMMAND_MS = 5, OVERLOADED = 20;

static Peer *stream_of(Engine *e, uint32_t k) { return k ? &e->more[k - 1] : &e->peer; }

/* What the threads of one block share. arrival: NULL offline. */
typedef struct {
    Engine *engine;
    double start_s, seconds;
    double limit_ms;
    const double *arrival; /* seconds after the start, ascending */
    double *latency_ms; /* of each request */
    uint32_t requests, command; /* command: runs in one, offline */
    atomic_uint next;
    atomic_bool failed, overloaded;
} Traffic;

typedef struct {
    Traffic *traffic;
    uint32_t stream;
    double rate; /* requests a second that this stream served */
    TgStatus status;
} Worker;

static void sleep_until(double at_s)
{
    double left = at_s - clock_s();
    struct timespec t = { (time_t)left, (long)(1e9 * (left - floor(left))) };
    if (left > 0) nanosleep(&t, NULL);
}

static void offline(Worker *w, Peer *p)
{
    Traffic *t = w->traffic;
    double ms[t->command], now = t->start_s;
    uint64_t runs = 0;
    while (w->status == TG_OK && !t->failed && now - t->start_s < t->seconds) {
        w->status = peer_run(p, t->command, ms);
        runs += t->command;
        now = clock_s();
    }
    w->rate = (double)runs / (now - t->start_s);
}

static void server(Worker *w, Peer *p)
{
    Traffic *t = w->traffic;
    double ms;
    uint32_t i;
    while (w->status == TG_OK && !t->failed && !t->overloaded && (i = atomic_fetch_add(&t->next, 1)) < t->requests) {
        sleep_until(t->start_s + t->arrival[i]);
        w->status = peer_run(p, 1, &ms);
        t->latency_ms[i] = 1e3 * (clock_s() - t->start_s - t->arrival[i]);
        if (t->latency_ms[i] > OVERLOADED * t->limit_ms) t->overloaded = true;
    }
}

static void *work(void *worker)
{
    Worker *w = worker;
    (w->traffic->arrival ? server : offline)(w, stream_of(w->traffic->engine, w->stream));
    if (w->status != TG_OK) w->traffic->failed = true;
    return NULL;
}

/* One block; offline, *rate is what all streams served. Afterwards the engine is silent. */
static TgStatus block(Traffic *t, double *rate)
{
    Worker worker[STREAMS_MAX];
    pthread_t thread[STREAMS_MAX];
    TgStatus status = TG_OK;
    uint32_t n = 0;
    t->start_s = clock_s();
    for (; n <= t->engine->nmore; n++) {
        worker[n] = (Worker){ .traffic = t, .stream = n };
        if (pthread_create(&thread[n], NULL, work, &worker[n])) {
            t->failed = true;
            status = say_error(TG_LIMIT, "--streams: no thread for stream %u", n + 1);
            break;
        }
    }
    *rate = 0;
    for (uint32_t i = 0; i < n; i++) {
        pthread_join(thread[i], NULL);
        *rate += worker[i].rate;
        if (worker[i].status != TG_OK) status = worker[i].status;
    }
    for (uint32_t i = 0; i < n && status == TG_OK; i++) peer_silent(stream_of(t->engine, i));
    return status;
}

/* ---- offline ---- */

/* Runs in one command, so that its line is little beside them. */
static TgStatus command_runs(uint32_t *out, Engine *e)
{
    double ms[3], typical = 0;
    TgStatus status = TG_OK;
    for (uint32_t i = 0; i <= e->nmore && status == TG_OK; i++) {
        status = peer_run(stream_of(e, i), 3, ms);
        peer_silent(stream_of(e, i));
        typical = ms[2];
    }
    *out = typical > COMMAND_MS ? 1 : (uint32_t)fmin(ceil(COMMAND_MS / typical), 1000);
    return status;
}

static TgStatus offline_pairs(Duel *d, const uint32_t *command, double budget)
{
    double log_ratio[ENGINES_MAX][PAIRS_MAX], sum[ENGINES_MAX] = { 0 }, placebo[PLACEBOS];
    double rate[ENGINES_MAX + 1];
    Random r = { 42 };
    double block_s = fmin(BLOCK_S, budget / d->nengine / BLOCKS_WANTED);
    uint32_t n = d->nengine, wanted = (uint32_t)(budget / block_s / n);
    TgStatus status = TG_OK;
    d->pairs = d->quiet = wanted < PAIRS_LEAST ? PAIRS_LEAST : wanted > PAIRS_MAX ? PAIRS_MAX : wanted;
    d->placebo_pairs = PLACEBOS;
    for (uint32_t k = 0; k < d->pairs && status == TG_OK; k++) {
        say_progress(d->model, k, d->pairs);
        bool twice = k < PLACEBOS; /* the first engine once more, as another one */
        uint32_t all = n + twice, first = (uint32_t)(random_bits(&r) % all), step = random_bits(&r) & 1 ? 1 : all - 1;
        for (uint32_t i = 0; i < all && status == TG_OK; i++) {
            uint32_t e = (first + i * step) % all, engine = e == n ? 0 : e;
            Traffic t = { .engine = &d->engine[engine], .seconds = block_s, .command = command[engine] };
            status = block(&t, &rate[e]);
        }
        if (status != TG_OK) break;
        for (uint32_t e = 0; e < n; e++) {
            sum[e] += rate[e];
            log_ratio[e][k] = log(rate[0] / rate[e]);
        }
        if (twice) placebo[k] = log(rate[0] / rate[n]);
    }
    for (uint32_t e = 0; e < n && status == TG_OK; e++) {
        d->engine[e].offline = sum[e] / d->pairs;
        d->engine[e].faster = e ? ratio_of_pairs(log_ratio[e], d->pairs) : ratio_of_pairs(placebo, PLACEBOS);
    }
    return status;
}

/* ---- as a server ---- */

static TgStatus served_at(Engine *e, double rate, double seconds, double limit_ms, bool *holds)
{
    uint32_t n = (uint32_t)fmax(rate * seconds, runs_for_percentile(90));
    double percent = n >= runs_for_percentile(99) ? 99 : 90; /* what so many requests can say */
    double *arrival = malloc(sizeof *arrival * n), *latency = calloc(n, sizeof *latency), at = 0, unused;
    Random r = { 7 };
    if (!arrival || !latency) return free(arrival), free(latency), say_error(TG_LIMIT, "no memory for the requests");
    for (uint32_t i = 0; i < n; i++) arrival[i] = at -= log(1 - random_unit(&r)) / rate;
    say_progress("requests at random times", 0, 0);
    Traffic t = { .engine = e, .limit_ms = limit_ms, .arrival = arrival, .latency_ms = latency, .requests = n };
    TgStatus status = block(&t, &unused);
    *holds = status == TG_OK && !t.overloaded;
    if (*holds) {
        sort_doubles(latency, n);
        *holds = quantile_sorted(latency, n, percent / 100) <= limit_ms;
        if (*holds && rate > e->server) {
            e->server = rate;
            e->server_p50_ms = quantile_sorted(latency, n, 0.5);
            e->server_percent = percent;
            e->server_high_ms = quantile_sorted(latency, n, percent / 100);
        }
    }
    free(arrival);
    free(latency);
    return status;
}

static TgStatus server_rate(Engine *e, const Args *a, double seconds)
{
    double limit = args_real(a, OPT_latency_limit, 0), low = 0, high = e->offline, given = args_real(a, OPT_rate, 0);
    bool holds;
    if (given > 0) return served_at(e, given, seconds, limit, &holds);
    for (int i = 0; i < BISECTIONS && high > e->offline / 8; i++) {
        double rate = i ? (low + high) / 2 : 0.7 * high;
        TgStatus status = served_at(e, rate, seconds, limit, &holds);
        if (status != TG_OK) return status;
        *(holds ? &low : &high) = rate;
    }
    return TG_OK;
}

/* ---- the whole ---- */

TgStatus throughput_check(const Args *a)
{
    static const struct {
        Opt o;
        const char *name;
    } alone[] = { { OPT_streams, "--streams" }, { OPT_latency_limit, "--latency-limit" }, { OPT_rate, "--rate" } },
      never[] = { { OPT_report, "--report" },
                  { OPT_baseline, "--baseline" },
                  { OPT_cold, "--cold" },
                  { OPT_pairs, "--pairs" },
                  { OPT_block, "--block" } };
    const char *format = args_text(a, OPT_format, "table");
    for (size_t i = 0; i < sizeof alone / sizeof *alone && !args_has(a, OPT_throughput); i++)
        if (args_has(a, alone[i].o)) return say_error(TG_USAGE, "%s: belongs to --throughput", alone[i].name);
    if (!args_has(a, OPT_throughput)) return TG_OK;
    for (size_t i = 0; i < sizeof never / sizeof *never; i++)
        if (args_has(a, never[i].o)) return say_error(TG_USAGE, "%s: not of --throughput", never[i].name);
    if (strcmp(format, "table") && strcmp(format, "json"))
        return say_error(TG_USAGE, "--format: of --throughput table and json");
    if (args_has(a, OPT_rate) && !args_has(a, OPT_latency_limit))
        return say_error(TG_USAGE, "--rate: needs --latency-limit");
    if (args_has(a, OPT_streams) && (args_count(a, OPT_streams, 1) < 1 || args_count(a, OPT_streams, 1) > STREAMS_MAX))
        return say_error(TG_USAGE, "--streams: 1 to %d is wanted", STREAMS_MAX);
    if (args_has(a, OPT_rate) && args_real(a, OPT_rate, 0) <= 0)
        return say_error(TG_USAGE, "--rate: above 0 is wanted");
    if (args_has(a, OPT_latency_limit) && args_real(a, OPT_latency_limit, 0) <= 0)
        return say_error(TG_USAGE, "--latency-limit: above 0 is wanted");
    return TG_OK;
}

TgStatus throughput_start(Duel *d, const Args *a, const char *dir)
{
    TgStatus status = TG_OK;
    for (uint32_t i = 0; i < d->nengine && status == TG_OK; i++) {
        Engine *e = &d->engine[i];
        if (!(e->more = calloc(d->streams, sizeof *e->more))) return say_error(TG_LIMIT, "no memory for the streams");
        for (; e->nmore + 1 < d->streams && status == TG_OK; e->nmore += status == TG_OK)
            status = peer_start(&e->more[e->nmore], e->peer.label, d->model, dir, a);
    }
    return status;
}

void throughput_stop(Duel *d)
{
    for (uint32_t i = 0; i < d->nengine; i++)
        while (d->engine[i].nmore) peer_stop(&d->engine[i].more[--d->engine[i].nmore]);
}

TgStatus throughput_measure(Duel *d, const Args *a)
{
    double budget = args_real(a, OPT_budget, 30);
    bool limited = args_has(a, OPT_latency_limit);
    uint32_t command[ENGINES_MAX] = { 0 };
    TgStatus status = TG_OK;
    for (uint32_t i = 0; i < d->nengine && status == TG_OK; i++) status = command_runs(&command[i], &d->engine[i]);
    if (status == TG_OK) status = offline_pairs(d, command, (limited ? budget / 2 : budget) * d->nengine);
    d->limit_ms = args_real(a, OPT_latency_limit, 0);
    for (uint32_t i = 0; i < d->nengine && status == TG_OK && limited; i++)
        status = server_rate(&d->engine[i], a, budget / 2 / BISECTIONS);
    for (uint32_t i = 0; i < d->nengine && status == TG_OK; i++)
        for (uint32_t k = 0; k <= d->engine[i].nmore; k++)
            d->engine[i].memory_mib += peer_memory(stream_of(&d->engine[i], k));
    return status;
}

/* ---- reports ---- */

void throughput_table(FILE *f, const Duel *d)
{
    const Interval *p = &d->engine[0].faster;
    char text[320];
    fprintf(f, "%s   %u stream%s of %d thread%s, load %.2f   %u pairs of blocks\n", d->model, d->streams,
            d->streams == 1 ? "" : "s", d->threads, d->threads == 1 ? "" : "s", d->load_average, d->pairs);
    fprintf(f, "inputs %s   placebo %s/%s %.3f (%.3f-%.3f)\n", d->inputs, d->engine[0].peer.name,
            d->engine[0].peer.name, p->ratio, p->low, p->high);
    fprintf(f, "  %-20s %12s %9s", "requests a second", "offline", "mem MiB");
    if (d->limit_ms > 0) fprintf(f, " %14s %9s %9s", "server", "p50 ms", "high ms");
    fputc('\n', f);
    for (uint32_t i = 0; i < d->nengine; i++) {
        const Engine *e = &d->engine[i];
        fprintf(f, "  %-20s %12.1f %9.0f", e->peer.name, e->offline, e->memory_mib);
        if (d->limit_ms > 0 && e->server > 0)
            fprintf(f, " %14.1f %9.3f %9.3f (p%g)", e->server, e->server_p50_ms, e->server_high_ms, e->server_percent);
        else if (d->limit_ms > 0) fprintf(f, " above %g ms at every rate tried", d->limit_ms);
        fputc('\n', f);
    }
    for (uint32_t i = 1; i < d->nengine; i++) {
        verdict_text(text, sizeof text, d, i);
        fprintf(f, "offline: %s\n", text);
    }
    fputc('\n', f);
}

json_t *throughput_json(const Duel *d)
{
    json_t *engines = json_array();
    for (uint32_t i = 0; i < d->nengine && d->status == TG_OK; i++) {
        const Engine *e = &d->engine[i];
        json_t *j = json_pack("{s:s, s:s, s:s, s:o, s:o, s:{s:f, s:f, s:f}, s:b}", "engine", e->peer.label, "name",
                              e->peer.name, "device", e->peer.device, "offline_per_s", json_number(e->offline),
                              "memory_mib", json_number(e->memory_mib), "ratio", "value", e->faster.ratio, "low",
                              e->faster.low, "high", e->faster.high, "agrees", e->agrees);
        if (d->limit_ms > 0)
            json_object_set_new(j, "server",
                                json_pack("{s:f, s:f, s:f, s:f, s:f}", "limit_ms", d->limit_ms, "per_s", e->server,
                                          "p50_ms", e->server_p50_ms, "high_ms", e->server_high_ms, "percent",
                                          e->server_percent));
        json_array_append_new(engines, j);
    }
    return json_pack("{s:s, s:s, s:i, s:i, s:i, s:o, s:b, s:i}", "model", d->model, "inputs", d->inputs, "streams",
                     (int)d->streams, "threads", (int)d->threads, "pairs", (int)d->pairs, "engines", engines, "ok",
                     d->status == TG_OK, "exit", (int)d->status);
}
