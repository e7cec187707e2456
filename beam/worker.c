/* One worker at a time; a new one takes the place of one that died. What was begun when it died is the culprit:
 * LIST_FAILED, and the rest of the round is sent again (one list a round, when it died while all were compiled
 * together). */
#include "beam/worker.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backends/child.h"
#include "graph/base/memory.h"

enum { START_S = 60, COMPILE_S = 10, GRACE_S = 2 };     /* COMPILE_S: of one list */
struct Worker {
    WorkerOptions o;
    char path[4096];
    Child child;
    bool alive;
    const Kernel *kernel;
};

/* ---- the process ---- */

TgStatus worker_new(Worker **out, const WorkerOptions *o)
{
    Worker *w = mem_zeros(1, sizeof *w);
    w->o = *o;
    if (w->o.patience_s <= 0) w->o.patience_s = 20;
    if (!child_find(w->path, sizeof w->path))
        return mem_free(w), fail(TG_CACHE, "tuning needs the program tgrun-worker beside the library or the program");
    *out = w;
    return TG_OK;
}

static void drop(Worker *w, bool at_once)
{
    if (w->alive) child_stop(&w->child, at_once);
    w->alive = false;
    w->kernel = NULL;
}

void worker_free(Worker *w)
{
    if (!w) return;
    drop(w, true);
    mem_free(w);
}

typedef enum { HEARD, DIED, SILENT } Hearing;

static Hearing hear(Worker *w, Answer *a, double limit_s, double until)
{
    double end = clock_s() + limit_s;
    if (until < end) end = until;
    for (;;) {
        struct pollfd fd = { .fd = w->child.from, .events = POLLIN };
        double left = end - clock_s();
        int n = poll(&fd, 1, left > 0 ? left > 1e6 ? 1000000000 : (int)(left * 1e3) + 1 : 0);
        if (n > 0) return pipe_read(w->child.from, a, sizeof *a) ? HEARD : DIED;
        if ((n < 0 && errno != EINTR) || end <= clock_s()) return SILENT;
    }
}

static bool send_frame(Worker *w, uint32_t kind, const Text *t)
{
    Frame f = { kind, (uint32_t)t->len };
    return pipe_write(w->child.to, &f, sizeof f) && pipe_write(w->child.to, t->s, t->len);
}

/* The status of what was requested, which is answered by one EVENT_END. */
static TgStatus hear_end(Worker *w, const char *what)
{
    Answer a;
    if (hear(w, &a, START_S + w->o.patience_s, 1e300) != HEARD)
        return drop(w, true), fail(TG_DEVICE, "the tuning process ended while it %s", what);
    return a.status ? fail((TgStatus)a.status, "%s", a.why) : TG_OK;
}

static TgStatus start(Worker *w)
{
    char index[16], threads[16];
    snprintf(index, sizeof index, "%d", w->o.options.index);
    snprintf(threads, sizeof threads, "%d", w->o.options.threads);
    const char *argv[] = { w->path,
                           "tune",
                           w->o.backend,
                           index,
                           threads,
                           w->o.options.cpus ? w->o.options.cpus : "",
                           w->o.options.cache_dir ? w->o.options.cache_dir : "",
                           NULL };
    if (!child_start(&w->child, w->path, argv, true)) return fail(TG_CACHE, "%s cannot be started", w->path);
    w->alive = true;
    TgStatus status = hear_end(w, "started");
    if (status != TG_OK) drop(w, true);
    return status;
}

static TgStatus load_kernel(Worker *w, const Kernel *k)
{
    Text t = { 0 };
    if (!w->alive) TRY(start(w));
    if (w->kernel == k) return TG_OK;
    kernel_write(&t, k);
    bool sent = send_frame(w, FRAME_KERNEL, &t);
    text_free(&t);
    TgStatus status =
        sent ? hear_end(w, "took a kernel") : (drop(w, true), fail(TG_DEVICE, "the tuning process ended"));
    if (status == TG_OK) w->kernel = k;
    return status;
}

/* ---- rounds ---- */

/* Which lists a round holds: at[0] is the incumbent. */
typedef struct { uint32_t at[ROUND_MOST], n; } Sent;

static bool send_round(Worker *w, const RoundHead *h, const OptList *list, const Sent *s)
{
    Text t = { 0 };
    text_bytes(&t, (const char *)h, sizeof *h);
    for (uint32_t i = 0; i < s->n; i++) opt_print(&t, &list[s->at[i]]), text_add(&t, "\n");
    bool ok = send_frame(w, FRAME_ROUND, &t);
    text_free(&t);
    return ok;
}

static double patience(const Worker *w, const Answer *begun, const Sent *s, double incumbent_s)
{
    if (begun->event == EVENT_COMPILE) return w->o.patience_s + COMPILE_S * s->n;
    if (begun->event == EVENT_CHECK) return w->o.patience_s * 3;
    return w->o.patience_s + 300 * incumbent_s;
}

static void note(ListResult *r, const Answer *a)
{
    r->known = true;
    r->state = (ListState)a->state;
    r->seconds = a->seconds;
    r->incumbent_s = a->incumbent_s;
    memcpy(r->why, a->why, sizeof r->why);
}

typedef enum { ROUND_DONE, ROUND_REFUSED, ROUND_DIED, ROUND_LATE } Outcome;

/* Hears a round to its end. culprit: what was begun last. */
static Outcome hear_round(Worker *w, const Sent *s, ListResult *result, Answer *culprit, double until)
{
    double incumbent_s = 0;
    *culprit = (Answer){ .event = EVENT_COMPILE };
    for (;;) {
        Answer a;
        Hearing h = hear(w, &a, patience(w, culprit, s, incumbent_s), until);
        if (h == SILENT && clock_s() >= until) return ROUND_LATE;
        if (h != HEARD) {
            snprintf(culprit->why, sizeof culprit->why, "%s", h == DIED ? "crashed" : "hung");
            return ROUND_DIED;
        }
        if (a.event == EVENT_END) return a.status ? (fail((TgStatus)a.status, "%s", a.why), ROUND_REFUSED) : ROUND_DONE;
        if (a.event != EVENT_RESULT) *culprit = a;
        else if (a.index < s->n) note(&result[s->at[a.index]], &a), incumbent_s = a.incumbent_s;
    }
}

/* Everything that has no result yet; of all, or of the first alone. */
static Sent what_is_left(const ListResult *result, uint32_t n, bool alone)
{
    Sent s = { .n = 1 };
    for (uint32_t i = 1; i < n && s.n < (alone ? 2 : ROUND_MOST); i++)
        if (!result[i].known) s.at[s.n++] = i;
    return s;
}

static bool blame(ListResult *result, const Sent *s, const Answer *culprit)
{
    uint32_t i = culprit->event == EVENT_COMPILE ? s->n - 1 : culprit->index;
    if (i == 0 || i >= s->n) return false;
    result[s->at[i]] = (ListResult){ .known = true, .state = LIST_FAILED };
    snprintf(result[s->at[i]].why, sizeof result->why, "%s", culprit->why);
    return true;
}

TgStatus worker_round(Worker *w, const Kernel *k, const RoundHead *h, const OptList *list, uint32_t n,
                      ListResult *result, double until)
{
    bool alone = false, first = true;
    for (uint32_t i = 0; i < n; i++) result[i] = (ListResult){ .seconds = 0 };
    for (Sent s = what_is_left(result, n, alone); first || s.n > 1; s = what_is_left(result, n, alone)) {
        Answer culprit;
        first = false;
        TRY(load_kernel(w, k));
        Outcome o = send_round(w, h, list, &s) ? hear_round(w, &s, result, &culprit, until + GRACE_S) : ROUND_DIED;
        if (o == ROUND_REFUSED) return drop(w, true), TG_DEVICE;
        if (o == ROUND_DONE) continue;
        drop(w, true);
        if (o == ROUND_LATE) return TG_OK;
        if (culprit.event == EVENT_COMPILE && s.n > 2) alone = true;
        else if (!blame(result, &s, &culprit)) return fail(TG_DEVICE, "the list in use %s", culprit.why);
    }
    return TG_OK;
}
