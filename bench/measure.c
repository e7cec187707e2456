/* Warm until the medians of two neighbouring groups agree (or as --warmup says), then time until --duration or --runs;
 * without either, until every default percentile has its runs, at most 3 s. */
#include "bench/measure.h"

#include <stdlib.h>
#include <string.h>

#include "bench/say.h"
#include "bench/stats.h"

enum { GROUP = 5, SAMPLES_MAX = 1 << 20 };
typedef struct {
    TgSession *s;
    const TgTensor *in;
    int32_t nin;
    TgTensor *out;
    double *ms, *device;
    uint32_t n;
} Timer;

static TgStatus time_one(Timer *t)
{
    double start = clock_s();
    TgStatus status = tg_run(t->s, t->in, t->nin, t->out);
    if (status != TG_OK) return say_library_error(status);
    t->ms[t->n] = 1e3 * (clock_s() - start);
    t->device[t->n++] = 1e3 * tg_device_seconds(t->s);
    return TG_OK;
}

typedef struct { uint32_t runs; double seconds; bool automatic; } Until;

static TgStatus warmup_option(const Args *a, Until *out)
{
    const char *s = args_text(a, OPT_warmup, "auto");
    size_t len = strlen(s);
    int64_t n;
    char digits[32];
    *out = (Until){ .runs = SAMPLES_MAX, .seconds = 1, .automatic = !strcmp(s, "auto") };
    if (out->automatic) return TG_OK;
    if (parse_int(s, &n) && n >= 0 && n < SAMPLES_MAX)
        return *out = (Until){ .runs = (uint32_t)n, .seconds = 1e9 }, TG_OK;
    if (len > 1 && len < sizeof digits && s[len - 1] == 's') {
        memcpy(digits, s, len - 1);
        digits[len - 1] = 0;
        if (parse_real(digits, &out->seconds) && out->seconds >= 0) return TG_OK;
    }
    return say_error(TG_USAGE, "--warmup: '%s' is wrong; runs (3), seconds (0.5s) or auto is wanted", s);
}

static TgStatus warm(Timer *t, const Until *u)
{
    double start = clock_s();
    while (t->n < u->runs && clock_s() - start < u->seconds && !(u->automatic && is_steady(t->ms, t->n, GROUP, 0.01))) {
        say_progress("warming up", t->n, u->automatic ? 0 : u->runs);
        TgStatus status = time_one(t);
        if (status != TG_OK) return status;
    }
    return TG_OK;
}

static TgStatus time_runs(Timer *t, const Args *a)
{
    bool counted = args_has(a, OPT_runs), timed = args_has(a, OPT_duration);
    uint32_t most = counted ? (uint32_t)args_count(a, OPT_runs, 1) : SAMPLES_MAX, enough = runs_for_percentile(99);
    double seconds = timed ? args_real(a, OPT_duration, 3) : counted ? 1e9 : 3, start = clock_s();
    if (most > SAMPLES_MAX) most = SAMPLES_MAX;
    while (t->n < most) {
        double passed = clock_s() - start;
        if (t->n && (passed >= seconds || (!counted && !timed && t->n >= enough && passed >= 1))) break;
        say_progress("timing", most < SAMPLES_MAX ? t->n : passed, most < SAMPLES_MAX ? most : seconds);
        TgStatus status = time_one(t);
        if (status != TG_OK) return status;
    }
    return TG_OK;
}

TgStatus latency_measure(Latency *out, TgSession *s, const Args *a, const TgTensor *in, int32_t nin, TgTensor *outputs)
{
    Until until;
    *out = (Latency){ .warm = 1 };
    TgStatus status = warmup_option(a, &until);
    if (status != TG_OK || args_count(a, OPT_runs, 0) == 1) return status;
    Timer t = { .s = s,
                .in = in,
                .nin = nin,
                .out = outputs,
                .ms = malloc(sizeof(double) * SAMPLES_MAX),
                .device = malloc(sizeof(double) * SAMPLES_MAX) };
    if (!t.ms || !t.device) status = say_error(TG_LIMIT, "no memory for the timings");
    if (status == TG_OK) status = warm(&t, &until);
    out->warm += t.n;
    t.n = 0;
    double start = clock_s();
    if (status == TG_OK) status = time_runs(&t, a);
    out->total_s = clock_s() - start;
    say_progress_done();
    out->runs = t.n;
    out->device_median_ms = t.n ? median_of(t.device, t.n) : 0;
    if (t.n) sort_doubles(t.ms, t.n);
    out->ms = t.ms;
    free(t.device);
    return status;
}
