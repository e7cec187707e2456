/* tg_kernel: the kernels of the program used last. tg_profile: the time of each within whole runs, and alone on buffers of its own, where caches are as warm as a repeated launch leaves them:
 * the two tell apart a kernel that is slow from one whose data come from afar. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "frontend/session.h"
#include "graph/base/order.h"

enum { PROFILE_RUNS = 20 };

/* Ordinary numbers in floats, zero in integers: an index must stay in range. */
static void fill(void *user, uint32_t slot, void *ptr, size_t bytes)
{
    const Kernel *k = user;
    const UOp *b = slot < k->nparam ? k->param[slot].buffer : NULL;
    memset(ptr, b && dtype_is_float((DType)b->dtype) ? 0x3c : 0, bytes);
}

/* Launches of kernel i in a run; a loop's body counts once for each round that is known. */
static int64_t launches_of(const Plan *p, uint32_t kernel)
{
    int64_t n = 0;
    for (uint32_t i = 0; i < p->nstep; i++) n += p->step[i].kind == STEP_KERNEL && !p->step[i].once && p->step[i].kernel == kernel;
    return n;
}

int32_t tg_kernel(const TgSession *s, int32_t index, TgKernelTime *out)
{
    const Program *p = s->program;
    if (!p || index < 0 || (uint32_t)index >= p->plan->nkernel) return 0;
    const Kernel *k = p->plan->kernel[index];
    Text opts = { 0 };
    *out = (TgKernelTime){ .launches = launches_of(p->plan, (uint32_t)index), .flops = k->flops, .bytes = k->bytes };
    opt_print(&opts, &k->opts);
    snprintf(out->name, sizeof out->name, "%s", k->name);
    snprintf(out->options, sizeof out->options, "%s", opts.s ? opts.s : "");
    text_free(&opts);
    return 1;
}

TgStatus trace_kernels(Program *p, const Backend *b, const TgTensor *input, double *seconds)
{
    const Plan *plan = p->plan;
    double *step = calloc(plan->nstep + 1, sizeof *step);
    TgStatus status = step ? program_trace(p, b, input, step) : fail(TG_LIMIT, "out of memory");
    for (uint32_t i = 0; i < plan->nstep && status == TG_OK; i++)
        if (plan->step[i].kind == STEP_KERNEL) seconds[plan->step[i].kernel] += step[i];
    free(step);
    return status;
}

static TgStatus time_alone(const TgSession *s, uint32_t i, TgKernelTime *row)
{
    Kernel *k = s->program->plan->kernel[i];
    return s->backend->time(&row->seconds, s->device, s->program->code, i, k, fill, k, PROFILE_RUNS, 0, NULL);
}

typedef struct { void (*emit)(void *user, const TgKernelTime *row); void *user; } Sink;

/* run[r * nkernel + k]: what all launches of kernel k took in run r. */
static TgStatus emit_rows(const TgSession *s, const double *run, const Sink *to)
{
    uint32_t n = s->program->plan->nkernel;
    for (uint32_t k = 0; k < n; k++) {
        TgKernelTime row;
        double seconds[PROFILE_RUNS];
        tg_kernel(s, (int32_t)k, &row);
        if (!row.launches) continue;
        for (int r = 0; r < PROFILE_RUNS; r++) seconds[r] = run[(size_t)r * n + k];
        row.run_seconds = median_of(seconds, PROFILE_RUNS);
        TRY(time_alone(s, k, &row));
        to->emit(to->user, &row);
    }
    return TG_OK;
}

TgStatus tg_profile(TgSession *s, const TgTensor *inputs, int32_t count, void (*emit)(void *user, const TgKernelTime *row), void *user)
{
    TRY(tg_prepare(s, inputs, count));
    if (!s->backend->time) return session_in_file(s, fail(TG_UNSUPPORTED, "device %s times no kernels", s->backend->name));
    uint32_t n = s->program->plan->nkernel;
    double *run = calloc((size_t)n * PROFILE_RUNS + 1, sizeof *run);
    TgStatus status = run ? TG_OK : fail(TG_LIMIT, "out of memory");
    for (int r = 0; r < PROFILE_RUNS && s->backend->trace && status == TG_OK; r++) status = trace_kernels(s->program, s->backend, inputs, run + (size_t)r * n);
    if (status == TG_OK) status = emit_rows(s, run, &(Sink){ emit, user });
    free(run);
    return session_in_file(s, status);
}
