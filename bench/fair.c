#include "bench/fair.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/say.h"
#include "bench/values.h"

enum { SMALL = 8 };             /* integer tensors up to that many elements may be sizes, axes or lengths */

/* ---- inputs ---- */

bool same_shapes(const DataSet *a, const DataSet *b)
{
    for (int32_t k = 0; k < a->ninput; k++) {
        const TgTensor *x = &a->input[k].tensor, *y = &b->input[k].tensor;
        if (x->type != y->type || x->rank != y->rank || memcmp(x->shape, y->shape, (size_t)x->rank * sizeof *x->shape))
            return false;
    }
    return true;
}

/* Elements of whole bytes rotate: element i becomes that at i + by. */
static bool turn_tensor(TgTensor *out, const TgTensor *t, uint32_t turn)
{
    if (!tensor_copy(out, t)) return false;
    int64_t n = tensor_numel(t), bits = tg_type_bits(t->type);
    bool fixed = holds_tensors(t) || bits < 8 || n < 2 || (type_is_integer(t->type) && n <= SMALL);
    if (fixed) return true;
    int64_t by = n / (2 + (int64_t)turn) + 1;
    size_t size = (size_t)bits / 8;
    char *to = out->data, *from = malloc(out->size_bytes);
    if (!from) return false;
    memcpy(from, to, out->size_bytes);              /* strings: the copy's own pointers */
    for (int64_t i = 0; i < n; i++) memcpy(to + (size_t)i * size, from + (size_t)((i + by) % n) * size, size);
    free(from);
    return true;
}

TgStatus set_turned(Data *out, const DataSet *set, uint32_t turn)
{
    *out = (Data){ 1, calloc(1, sizeof *out->set) };
    bool good = out->set && (out->set->input = calloc((size_t)set->ninput + 1, sizeof(Bound)));
    for (int32_t k = 0; k < set->ninput && good; k++) {
        out->set->ninput = k + 1;
        good = out->set->input[k].known = turn_tensor(&out->set->input[k].tensor, &set->input[k].tensor, turn);
    }
    return good ? TG_OK : say_error(TG_LIMIT, "no memory for another set of inputs");
}

/* ---- engines ---- */

TgStatus fair_devices(const Duel *d, const Args *a)
{
    const Peer *first = &d->engine[0].peer;
    for (uint32_t i = 1; i < d->nengine; i++) {
        const Peer *p = &d->engine[i].peer;
        if (!*first->device || !*p->device || !strcmp(first->device, p->device)) continue;
        if (args_has(a, OPT_device) || (strstr(first->label, "device") && strchr(p->label, ':'))) continue;
        return say_error(TG_USAGE, "--engine: %s runs on %s, %s runs on %s; -d names the device", first->name,
                         first->device, p->name, p->device);
    }
    return TG_OK;
}

void duel_note(Duel *d, const char *fmt, ...)
{
    va_list ap;
    if (d->notes == NOTES_MAX) return;
    va_start(ap, fmt);
    vsnprintf(d->note[d->notes++], sizeof d->note[0], fmt, ap);
    va_end(ap);
}

/* The system counts a process's time in steps of up to some milliseconds: of less than WALL_LEAST they say nothing. */
#define WALL_LEAST 0.1
double engine_cores(const Engine *e) { return e->wall_s > WALL_LEAST ? e->cpu_s / e->wall_s : NAN; }

double engine_energy_j(const Duel *d, uint32_t engine)
{
    double sum = 0, runs = 0;
    for (uint32_t i = 0; i < d->nblock; i++)
        if (d->block[i].engine == engine) sum += d->block[i].watched.energy_j, runs += d->block[i].runs;
    return runs > 0 ? sum / runs : NAN;
}

/* Threads that spin until they are needed make one core more than is named look busy; a quarter more is somebody's own
 * threads. */
static void note_cores(Duel *d, const Engine *e)
{
    double cores = engine_cores(e);
    bool on_cpu = !*e->peer.device || !strcmp(e->peer.device, "cpu");
    if (!isfinite(cores) || !on_cpu || d->threads < 1) return;
    if (cores > 1.25 * d->threads)
        duel_note(d, "%s keeps %.1f processors busy; %d thread%s given", e->peer.name, cores, d->threads,
                  d->threads == 1 ? " was" : "s were");
    if (e->peer.threads && e->peer.threads != d->threads)
        duel_note(d, "%s says that it has %d threads; %d were given", e->peer.name, e->peer.threads, d->threads);
    else if (d->threads > 1 && quantile_sorted(e->sorted, e->runs, 0.5) > 2 && cores < 0.55 * d->threads)
        duel_note(d, "%s keeps %.1f processors busy of %d that it may use", e->peer.name, cores, d->threads);
}

void fair_notes(Duel *d)
{
    for (uint32_t i = 0; i < d->nengine; i++) {
        const Engine *e = &d->engine[i];
        double median = quantile_sorted(e->sorted, e->runs, 0.5);
        note_cores(d, e);
        if (!e->peer.sets && d->sets > 1)
            duel_note(d, "%s is timed on one set of inputs, others on %u", e->peer.name, d->sets);
        if (*e->peer.built_in)
            duel_note(d, "%s has the value of %s built in; another one is work that these runs do not show",
                      e->peer.name, e->peer.built_in);
        if (e->unseen_ms > 3 * median + 2)
            duel_note(d, "%s takes %.2f ms for inputs that it has not seen, %.2f for those that come again",
                      e->peer.name, e->unseen_ms, median);
    }
}
