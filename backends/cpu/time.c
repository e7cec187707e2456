/* One kernel's time, for search: the best of a few runs on memory that a caller fills. */
#include <string.h>

#include "backends/cpu/executable.h"
#include "common/clock.h"

enum { SHARE_NS = 4000 };

/* What kernels reach of the peak; of loads from the second cache, where they store as well; of those from the third,
 * where other cores' values lie. */
static const double peak_share = 0.4, near_share = 0.75, fresh_share = 0.4;
/* Bytes a second that loops without vectors read or write. */
static const double scalar_bytes = 12e9;

/* What a thread alone needs, on values that lie in its second cache, or in the third, where others have put them. */
static double alone_s(const Target *t, const Kernel *k, bool near)
{
    const Rates *r = target_rates(t);
    bool vectors = kernel_vectors(k);
    double terms = 2.0 * (t->vector_bytes / 4) * r->fma * peak_share,
           bytes_s = r->hz * (near ? r->l2_rate * near_share : r->l3_rate * fresh_share);
    if (!vectors && bytes_s > scalar_bytes) bytes_s = scalar_bytes;
    return (double)k->flops / (vectors ? terms * r->hz : r->hz) + (double)k->bytes / bytes_s;
}

int64_t cpu_cached_ns(const Target *t, const Kernel *k) { return (int64_t)(1e9 * alone_s(t, k, true)); }

bool cpu_worth_sharing(const Target *t, int threads, const Kernel *k, int64_t count)
{
    return threads > 1 && count != 1 && count != 0 && 1e9 * alone_s(t, k, false) > SHARE_NS;
}

typedef struct {
    Device *d;
    const Kernel *kernel;
    CpuKernel fn;
    void **args;
    int64_t vars[KERNEL_VARS], count, scratch_bytes;
    char *scratch;
    int runs;
    double limit_s, best_s, start;
    int round;
    bool stop;
} Timing;

static void timing_part(void *user, int thread, int threads)
{
    const Timing *t = user;
    int64_t begin = t->count * thread / threads, end = t->count * (thread + 1) / threads;
    char *scratch = t->scratch + t->scratch_bytes * thread;
    if (begin < end) call_kernel(t->kernel, t->fn, t->args, t->vars, begin, end, scratch);
}

/* The first round warms caches and pages, and is taken only when it alone is far beyond the limit. Others may disturb a
 * round, so it takes three to give up. */
static TeamParts timing_next(void *user)
{
    Timing *t = user;
    double s = clock_s() - t->start;
    int r = t->round++ - 1;                                      /* the round that is over */
    if (r >= 0) {
        bool hopeless = t->limit_s > 0 && !r && s > 50 * t->limit_s;
        if ((r || hopeless || !t->runs) && (t->best_s < 0 || s < t->best_s)) t->best_s = s;
        t->stop = hopeless || (t->limit_s > 0 && r >= 3 && t->best_s > t->limit_s);
    }
    t->start = clock_s();
    return r < t->runs && !t->stop ? TEAM_ALL : TEAM_OVER;
}

static TgStatus timing_memory(Timing *t, const Kernel *k, Fill *fill, void *user)
{
    for (uint32_t i = 0; i < k->nparam; i++) {
        size_t n = (size_t)kernel_param_bytes(k, i);
        t->args[i] = cpu_pages_new((int64_t)n + 64);
        if (!t->args[i]) return fail(TG_LIMIT, "no memory to time kernel %s", k->name);
        if (fill) fill(user, i, t->args[i], n);
    }
    t->scratch_bytes = (k->local_bytes + PAGE - 1) / PAGE * PAGE + SCRATCH_PAD;
    t->scratch = cpu_pages_new(t->scratch_bytes * t->d->machine.count);
    return t->scratch ? TG_OK : fail(TG_LIMIT, "no memory to time kernel %s", k->name);
}

/* What the kernel writes, from fresh inputs: timing may have run it on its own results. */
static void timing_results(Timing *t, const Kernel *k, Fill *fill, void *user, void *const *out)
{
    for (uint32_t i = 0; i < k->nparam && fill; i++) fill(user, i, t->args[i], (size_t)kernel_param_bytes(k, i));
    timing_part(t, 0, 1);
    for (uint32_t i = 0; i < k->nparam; i++)
        if (k->param[i].written && out[i]) memcpy(out[i], t->args[i], (size_t)kernel_param_bytes(k, i));
}

TgStatus cpu_time(double *seconds, Device *d, Code *c, uint32_t i, const Kernel *k, Fill *fill, void *user, int runs,
                  double limit_s, void *const *out)
{
    void *args[KERNEL_PARAMS] = { 0 };
    Timing t = { .d = d, .kernel = k, .fn = c->fn[i], .args = args, .runs = runs, .limit_s = limit_s, .best_s = -1 };
    for (uint32_t v = 0; v < k->nvar && v < KERNEL_VARS; v++) t.vars[v] = k->var[v]->vmax;
    t.count = k->thread_bound ? kernel_value(k, k->thread_bound, t.vars) : 1;
    TgStatus s = timing_memory(&t, k, fill, user);
    const TeamJob job = { timing_next, timing_part, &t };
    if (!s && cpu_worth_sharing(&d->target, d->machine.count, k, t.count)) team_run(d->team, &job);
    else if (!s)
        while (timing_next(&t) != TEAM_OVER) timing_part(&t, 0, 1);
    if (!s && out) timing_results(&t, k, fill, user, out);
    for (uint32_t p = 0; p < k->nparam; p++) cpu_pages_free(args[p], kernel_param_bytes(k, p) + 64);
    cpu_pages_free(t.scratch, t.scratch_bytes * d->machine.count);
    *seconds = t.best_s;
    return s;
}
