/* tg_kernel: the kernels of the program used last. tg_profile: the time of each within whole runs, and alone on buffers
 * of its own, where caches are as warm as a repeated launch leaves them: the two distinguish a kernel that is slow from
 * one whose data come from afar. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/order.h"
#include "frontend/session/session.h"
#include "graph/base/memory.h"

enum { PROFILE_RUNS = 20 };

/* Ordinary numbers in floats, zero in integers: an index must stay in range. */
static void fill(void *user, uint32_t slot, void *ptr, size_t bytes)
{
    const Kernel *k = user;
    const UOp *b = slot < k->nparam ? k->param[slot].buffer : NULL;
    memset(ptr, b && dtype_is_float((DType)b->dtype) ? 0x3c : 0, bytes);
}

/* Launches of kernel i in a run; a loop's body counts once for each iteration that is known. */
static int64_t launches_of(const Plan *p, uint32_t kernel)
{
    int64_t n = 0;
    for (uint32_t i = 0; i < p->nstep; i++)
        n += p->step[i].kind == STEP_KERNEL && !p->step[i].once && p->step[i].kernel == kernel;
    return n;
}

static TgStatus describe_kernel(const Program *p, uint32_t index, TgKernelTime *out)
{
    const Kernel *k = p->plan->kernel[index];
    Text opts = { 0 };
    *out = (TgKernelTime){ .launches = launches_of(p->plan, index),
                           .flops = k->flops,
                           .bytes = k->bytes,
                           .excess = k->needed > 0 ? k->executed / k->needed : 0 };
    opt_print(&opts, &k->opts);
    snprintf(out->name, sizeof out->name, "%s", k->name);
    snprintf(out->options, sizeof out->options, "%s", opts.s ? opts.s : "");
    text_free(&opts);
    return TG_OK;
}

int32_t tg_kernel(const TgSession *s, int32_t index, TgKernelTime *out)
{
    const Program *p = s->program;
    TgStatus status;
    if (!p || index < 0 || (uint32_t)index >= p->plan->nkernel) return 0;
    ATTEMPT(status, describe_kernel(p, (uint32_t)index, out));
    return status == TG_OK;
}

TgStatus trace_kernels(Program *p, const Backend *b, const TgTensor *input, double *seconds)
{
    const Plan *plan = p->plan;
    double *step = mem_zeros(plan->nstep + 1, sizeof *step);
    TgStatus status = program_trace(p, b, input, step);
    for (uint32_t i = 0; i < plan->nstep && status == TG_OK; i++)
        if (plan->step[i].kind == STEP_KERNEL) seconds[plan->step[i].kernel] += step[i];
    mem_free(step);
    return status;
}

static TgStatus time_alone(const TgSession *s, uint32_t i, TgKernelTime *row)
{
    Kernel *k = s->program->plan->kernel[i];
    return s->backend->time(&row->seconds, s->device, s->program->code, i, k, fill, k, PROFILE_RUNS, 0, NULL);
}

typedef struct { void (*emit)(void *user, const TgKernelTime *row); void *user; } Sink;

/* run[r * nstep + i]: what step i took in run r. A kernel's time is the median over runs of the sum of its steps. */
static TgStatus emit_rows(const TgSession *s, const double *run, const Sink *to)
{
    const Plan *p = s->program->plan;
    for (uint32_t k = 0; k < p->nkernel; k++) {
        TgKernelTime row;
        double seconds[PROFILE_RUNS] = { 0 };
        tg_kernel(s, (int32_t)k, &row);
        if (!row.launches) continue;
        for (uint32_t i = 0; i < p->nstep; i++)
            for (int r = 0; p->step[i].kind == STEP_KERNEL && p->step[i].kernel == k && r < PROFILE_RUNS; r++)
                seconds[r] += run[(size_t)r * p->nstep + i];
        row.run_seconds = median_of(seconds, PROFILE_RUNS);
        TRY(time_alone(s, k, &row));
        to->emit(to->user, &row);
    }
    return TG_OK;
}

/* ---- nodes of the model ---- */

/* What step i computes, in the plan's order. */
static TgNodeTime step_row(const TgSession *s, uint32_t i, const double *run)
{
    const Plan *p = s->program->plan;
    const Step *step = &p->step[i];
    const Kernel *k = step->kind == STEP_KERNEL ? p->kernel[step->kernel] : NULL;
    const Origins *o = &step->origins;
    int32_t *node = NEW_N(s->profile, int32_t, o->count);
    double seconds[PROFILE_RUNS];
    for (uint32_t n = 0; n < o->count; n++) node[n] = (int32_t)o->node[n] - 1;
    for (int r = 0; r < PROFILE_RUNS; r++) seconds[r] = run[(size_t)r * p->nstep + i];
    return (TgNodeTime){ .kernel = arena_strdup(s->profile, k ? k->name : ""),
                         .node = node,
                         .node_count = (int32_t)o->count,
                         .launches = 1,
                         .flops = k ? k->flops : 0,
                         .bytes = k ? k->bytes : 0,
                         .run_seconds = median_of(seconds, PROFILE_RUNS) };
}

/* Steps of one kernel for the same nodes are one row. */
static TgNodeTime *row_like(TgSession *s, const TgNodeTime *step)
{
    for (uint32_t i = 0; i < s->nnode_time; i++) {
        TgNodeTime *row = &s->node_time[i];
        if (!strcmp(row->kernel, step->kernel) && row->node_count == step->node_count &&
            !memcmp(row->node, step->node, (size_t)step->node_count * sizeof *step->node))
            return row;
    }
    TgNodeTime *row = &s->node_time[s->nnode_time++];
    *row = (TgNodeTime){ .kernel = step->kernel, .node = step->node, .node_count = step->node_count };
    return row;
}

static int by_seconds(const void *a, const void *b)
{
    double x = ((const TgNodeTime *)a)->run_seconds, y = ((const TgNodeTime *)b)->run_seconds;
    return (x < y) - (x > y);
}

static void keep_nodes(TgSession *s, const double *run)
{
    const Plan *p = s->program->plan;
    s->nstep_time = s->nnode_time = 0;
    arena_free(s->profile);
    s->profile = NULL;
    arena_keep(s->profile = arena_new());
    s->step_time = NEW_N(s->profile, TgNodeTime, p->nstep + 1);
    s->node_time = NEW_N(s->profile, TgNodeTime, p->nstep + 1);
    for (uint32_t i = 0; i < p->nstep; i++) {
        if (p->step[i].once || p->step[i].kind == STEP_JUMP) continue;
        TgNodeTime *step = &s->step_time[s->nstep_time];
        *step = step_row(s, i, run);
        s->nstep_time++;
        TgNodeTime *row = row_like(s, step);
        row->launches++;
        row->run_seconds += step->run_seconds;
        row->flops += step->flops;
        row->bytes += step->bytes;
    }
    if (s->nnode_time) qsort(s->node_time, s->nnode_time, sizeof *s->node_time, by_seconds);
}

int32_t tg_node_time(const TgSession *s, int32_t index, TgNodeTime *out)
{
    if (index < 0 || (uint32_t)index >= s->nnode_time) return 0;
    *out = s->node_time[index];
    return 1;
}

int32_t tg_step_time(const TgSession *s, int32_t index, TgNodeTime *out)
{
    if (index < 0 || (uint32_t)index >= s->nstep_time) return 0;
    *out = s->step_time[index];
    return 1;
}

static TgStatus profile(TgSession *s, const TgTensor *inputs, int32_t count, const Sink *sink)
{
    if (s->target.rank) return fail(TG_UNSUPPORTED, "shard: the kernels of ranks are not timed");
    TRY(tg_prepare(s, inputs, count));
    TRY(session_enter(s, &inputs, count));
    if (!s->backend->time)
        return session_in_file(s, fail(TG_UNSUPPORTED, "device %s times no kernels", s->backend->name));
    uint32_t n = s->program->plan->nstep;
    double *run = mem_zeros((size_t)n * PROFILE_RUNS + 1, sizeof *run);
    TgStatus status = TG_OK;
    for (int r = 0; r < PROFILE_RUNS && s->backend->trace && status == TG_OK; r++)
        status = program_trace(s->program, s->backend, inputs, run + (size_t)r * n);
    if (status == TG_OK) status = emit_rows(s, run, sink);
    if (status == TG_OK) keep_nodes(s, run);
    mem_free(run);
    return session_in_file(s, status);
}

TgStatus tg_profile(TgSession *s, const TgTensor *inputs, int32_t count,
                    void (*emit)(void *user, const TgKernelTime *row), void *user)
{
    const Sink sink = { emit, user };
    TgStatus status;
    SESSION_CALL(status, s, profile(s, inputs, count, &sink));
    if (session_falls_plain(s, &status)) SESSION_CALL(status, s, profile(s, inputs, count, &sink));
    return status;
}
