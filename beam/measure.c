/* The worker's side of a search: rounds of lists for one kernel, the incumbent first. All are lowered and compiled
 * together; each is timed, those that come near the incumbent in alternation with it, so that noise hits both; one that
 * is faster is checked (check.c). What may crash or hang is announced first (wire.h). */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backends/backend.h"
#include "backends/child.h"
#include "backends/sandbox.h"
#include "beam/check.h"
#include "beam/wire.h"
#include "common/folders.h"
#include "common/order.h"
#include "graph/base/memory.h"

#define NO_LIMIT 1e9               /* seconds */
enum { LISTS = ROUND_MOST, TIMES = 5, RUNS_MOST = 60, MOST_BYTES = 1 << 26 };
/* Seconds of a timing, the clock's resolution, and what a GPU's first launch may take; shares of the incumbent's time
 * at which a list is given up, and up to which it is timed in alternation. */
static const double timing_s = 5e-3, clock_s = 1e-7, cold_launch_s = 3e-5, hopeless = 1.2, near = 1.05;
typedef struct {
    Kernel *k;
    Code *code;
    uint32_t at;
    ListState state;
    char why[160];
} Try;
typedef struct {
    const Backend *b;
    Device *d;
    const Target *t;
    int out;
    Kernel *base;
    Checker checker;
    Try list[LISTS];
    uint32_t n;
    Code *shared;
} Tuner;

static void say(const Tuner *t, Answer a)
{
    if (!pipe_write(t->out, &a, sizeof a)) _exit(TG_CACHE);
}

static void say_result(const Tuner *t, uint32_t i, double seconds, double incumbent_s)
{
    Answer a = {
        .event = EVENT_RESULT, .index = i, .state = t->list[i].state, .seconds = seconds, .incumbent_s = incumbent_s
    };
    snprintf(a.why, sizeof a.why, "%s", t->list[i].why);
    say(t, a);
}

static void settle(Try *l, ListState state)
{
    l->state = state;
    snprintf(l->why, sizeof l->why, "%s", tg_error());
}

/* ---- lists to code ---- */

static void lower(Tuner *t, Try *l, const char *text)
{
    OptList opts;
    l->k = kernel_clone(t->base);
    TgStatus status = opt_parse(&opts, text);
    if (status == TG_OK) status = opt_apply_list(l->k, &opts, t->t);
    if (status == TG_OK) status = kernel_lower(l->k, t->t, NULL);
    if (status != TG_OK) settle(l, LIST_ILLEGAL);
}

static void lower_all(Tuner *t, char *text)
{
    for (char *line = text, *end; (end = strchr(line, '\n')) && t->n < LISTS; line = end + 1) {
        *end = 0;
        Try *l = &t->list[t->n++];
        *l = (Try){ .state = LIST_TIMED };
        lower(t, l, line);
    }
}

static void compile_one(Tuner *t, Try *l)
{
    CompileStats stats = { 0 };
    l->at = 0;
    if (t->b->compile(&l->code, t->d, &l->k, 1, &stats) != TG_OK) l->code = NULL, settle(l, LIST_UNCOMPILED);
}

/* All at once; when one of them cannot be compiled, each alone. */
static void compile_all(Tuner *t)
{
    Kernel *k[LISTS];
    uint32_t n = 0;
    CompileStats stats = { 0 };
    say(t, (Answer){ .event = EVENT_COMPILE });
    for (uint32_t i = 0; i < t->n; i++)
        if (t->list[i].state == LIST_TIMED) t->list[i].at = n, k[n++] = t->list[i].k;
    bool together = n && t->b->compile(&t->shared, t->d, k, n, &stats) == TG_OK;
    if (!together) t->shared = NULL;
    for (uint32_t i = 0; i < t->n; i++) {
        Try *l = &t->list[i];
        if (l->state == LIST_TIMED && together) l->code = t->shared;
        else if (l->state == LIST_TIMED) compile_one(t, l);
    }
}

static void round_free(Tuner *t)
{
    for (uint32_t i = 0; i < t->n; i++) {
        if (t->list[i].code && t->list[i].code != t->shared) t->b->code_free(t->list[i].code);
        kernel_free(t->list[i].k);
    }
    if (t->shared) t->b->code_free(t->shared);
    t->shared = NULL;
    t->n = 0;
}

/* ---- timing ---- */

static TgStatus time_list(Tuner *t, Try *l, int runs, double limit_s, double *best_s)
{
    double s = 0;
    Kernel sized = *l->k;
    pack_buffers(&sized);
    TRY(t->b->time(&s, t->d, l->code, l->at, &sized, inputs_fill, &t->checker.in[0], runs, limit_s, NULL));
    if (s < *best_s) *best_s = s;
    return TG_OK;
}

static int runs_for(const RoundHead *h, double seconds)
{
    double n = timing_s / (seconds > clock_s ? seconds : clock_s);
    return n < h->runs ? h->runs : n > RUNS_MOST ? RUNS_MOST : (int)n;
}

/* A GPU's first launch is cold and alone: it says little of kernels that take microseconds. */
static double limit_for(const Tuner *t, double incumbent_s)
{
    return hopeless * incumbent_s + (t->t->max_block ? cold_launch_s : 0);
}

/* In alternation with the incumbent when the first timing comes near it. gain: what it saves of the incumbent's time,
 * by the ratios' median and by the best of each: noise is seldom lucky twice. */
static TgStatus race(Tuner *t, const RoundHead *h, Try *l, double *seconds, double *incumbent_s, double *gain)
{
    double ratio[TIMES];
    uint32_t i = 0;
    TRY(time_list(t, l, runs_for(h, *incumbent_s), limit_for(t, *incumbent_s), seconds));
    for (; i < TIMES && *seconds < near * *incumbent_s; i++) {
        double mine = 1e30, theirs = 1e30;
        TRY(time_list(t, &t->list[0], runs_for(h, *incumbent_s), NO_LIMIT, &theirs));
        TRY(time_list(t, l, runs_for(h, *incumbent_s), NO_LIMIT, &mine));
        ratio[i] = mine / theirs;
        *incumbent_s = fmin(*incumbent_s, theirs);
        *seconds = fmin(*seconds, mine);
    }
    *gain = i < TIMES ? 0 : 1 - fmax(median_of(ratio, TIMES), *seconds / *incumbent_s);
    return TG_OK;
}

static void judge(Tuner *t, Try *l, uint32_t i)
{
    say(t, (Answer){ .event = EVENT_CHECK, .index = i });
    TgStatus status = check_list(&t->checker, l->k, l->code, l->at, l->why);
    if (status == TG_OK) l->state = LIST_BETTER;
    else if (status == TG_DIFFERS) l->state = LIST_WRONG;
    else settle(l, LIST_FAILED);
}

static TgStatus time_all(Tuner *t, const RoundHead *h)
{
    double incumbent_s = 1e30;
    if (t->list[0].state != LIST_TIMED)
        return fail(TG_INTERNAL, "the incumbent cannot be compiled: %s", t->list[0].why);
    say(t, (Answer){ .event = EVENT_TIME });
    TRY(time_list(t, &t->list[0], h->runs, NO_LIMIT, &incumbent_s));
    TRY(time_list(t, &t->list[0], runs_for(h, incumbent_s), NO_LIMIT, &incumbent_s));
    say_result(t, 0, incumbent_s, incumbent_s);
    for (uint32_t i = 1; i < t->n; i++) {
        Try *l = &t->list[i];
        double seconds = 1e30, gain = 0;
        if (l->state == LIST_TIMED) {
            say(t, (Answer){ .event = EVENT_TIME, .index = i });
            if (race(t, h, l, &seconds, &incumbent_s, &gain) != TG_OK) settle(l, LIST_FAILED);
            else if (gain > h->gain) judge(t, l, i);
        }
        say_result(t, i, seconds < NO_LIMIT ? seconds : 0, incumbent_s);
    }
    return TG_OK;
}

static TgStatus tune_round(Tuner *t, char *bytes)
{
    RoundHead h;
    memcpy(&h, bytes, sizeof h);
    if (!t->base) return fail(TG_INTERNAL, "tuning: a round without a kernel");
    lower_all(t, bytes + sizeof h);
    if (!t->n) return fail(TG_INTERNAL, "tuning: a round without lists");
    compile_all(t);
    return time_all(t, &h);
}

/* ---- frames ---- */

static void forget_kernel(Tuner *t)
{
    if (t->base) checker_free(&t->checker), kernel_free(t->base);
    t->base = NULL;
}

static TgStatus take_kernel(Tuner *t, const char *text)
{
    forget_kernel(t);
    TRY(kernel_read(&t->base, text));
    TgStatus status = checker_init(&t->checker, t->b, t->d, t->base);
    if (status != TG_OK) forget_kernel(t);
    return status;
}

static void answer_frame(Tuner *t, const Frame *f, char *bytes)
{
    Answer a = { .event = EVENT_END };
    status_clear();
    a.status = f->kind == FRAME_KERNEL ? take_kernel(t, bytes) : tune_round(t, bytes);
    if (a.status) snprintf(a.why, sizeof a.why, "%s", tg_error());
    round_free(t);
    say(t, a);
}

static TgStatus open_device(Tuner *t, const Backend *const *backends, char **argv)
{
    DeviceOptions o = { .index = atoi(argv[1]),
                        .threads = atoi(argv[2]),
                        .cpus = *argv[3] ? argv[3] : NULL,
                        .cache_dir = *argv[4] ? argv[4] : NULL };
    while (*backends && strcmp((*backends)->name, argv[0])) backends++;
    if (!*backends) return fail(TG_DEVICE, "device '%s' is unknown", argv[0]);
    t->b = *backends;
    TRY(t->b->open(&t->d, &o));
    t->t = t->b->target(t->d);
    return TG_OK;
}

int tune_serve(const Backend *const *backends, int argc, char **argv)
{
    Tuner *t = mem_zeros(1, sizeof *t);
    Frame f;
    t->out = dup(STDOUT_FILENO);
    dup2(STDERR_FILENO, STDOUT_FILENO);                 /* whatever is printed by accident stays out of the answers */
    /* a GPU's driver keeps files of its own */
    if (argc == 5 && strcmp(argv[0], "cuda"))
        sandbox_enter((const char *const[]){ temporary_folder(), argv[4] }, 2);
    if (argc != 5 || open_device(t, backends, argv) != TG_OK) {
        Answer a = { .event = EVENT_END, .status = TG_DEVICE };
        snprintf(a.why, sizeof a.why, "%s", argc == 5 ? tg_error() : "tuning: five arguments are wanted");
        say(t, a);
        return TG_DEVICE;
    }
    say(t, (Answer){ .event = EVENT_END });
    while (pipe_read(STDIN_FILENO, &f, sizeof f) && f.size_bytes < MOST_BYTES) {
        char *bytes = mem_zeros(1, (size_t)f.size_bytes + sizeof(RoundHead) + 1);
        if (!pipe_read(STDIN_FILENO, bytes, f.size_bytes)) return TG_CACHE;
        answer_frame(t, &f, bytes);
        mem_free(bytes);
    }
    forget_kernel(t);
    t->b->close(t->d);
    mem_free(t);
    return 0;
}
