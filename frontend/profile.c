/* tg_kernel: the kernels of the program used last; tg_profile: each of them timed alone on buffers of its own: caches are as warm as a repeated launch leaves them, so sums may lie below a run's time. */
#include <stdio.h>
#include <string.h>

#include "frontend/session.h"

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

static TgStatus profile_kernel(const TgSession *s, Program *p, uint32_t i, TgKernelTime *out)
{
    Kernel *k = p->plan->kernel[i];
    tg_kernel(s, (int32_t)i, out);
    return out->launches ? s->backend->time(&out->seconds, s->device, p->code, i, k, fill, k, PROFILE_RUNS, 0, NULL) : TG_OK;
}

TgStatus tg_profile(TgSession *s, void (*emit)(void *user, const TgKernelTime *row), void *user)
{
    Program *p = s->program;
    if (!p) return session_in_file(s, fail(TG_USAGE, "nothing is prepared yet that could be timed"));
    if (!s->backend->time) return session_in_file(s, fail(TG_UNSUPPORTED, "device %s times no kernels", s->backend->name));
    for (uint32_t i = 0; i < p->plan->nkernel; i++) {
        TgKernelTime row;
        TgStatus status = profile_kernel(s, p, i, &row);
        if (status != TG_OK) return session_in_file(s, status);
        if (row.launches) emit(user, &row);
    }
    return TG_OK;
}
