/* What each device has of a plan of several, for people who look at it. Comes in: steps in their first order, with
 * their devices, before buffers have places. */
#include "graph/base/memory.h"
#include "sched/plan_build.h"

/* Of a buffer: how many steps store it, and how many of these are other devices'; whether it has been counted. */
typedef struct {
    int64_t stores, foreign;
    bool seen;
} Stored;

static void count_stores(Stored *stored, const Plan *p, int32_t device)
{
    for (uint32_t i = 0; i < p->nstep; i++)
        for (uint32_t k = 0; k < p->step[i].narg; k++) {
            if (!(p->step[i].access[k] & ACCESS_WRITE)) continue;
            stored[p->step[i].arg[k]].stores++;
            stored[p->step[i].arg[k]].foreign += p->step[i].device != device && p->step[i].device != ALL_DEVICES;
        }
}

static bool is_constant(const Build *b, uint32_t buffer)
{
    const UOp *u = b->use[buffer].uop;
    return b->use[buffer].once_write || (u->op == UOP_BUFFER && graph_buffer(b->s->g, buffer_slot(u))->data);
}

static PlanShare share_of(const Build *b, int32_t device)
{
    const Plan *p = b->p;
    PlanShare s = { 0 };
    Stored *stored = mem_zeros(p->nbuffer + 1, sizeof *stored);
    count_stores(stored, p, device);
    for (uint32_t i = 0; i < p->nstep; i++) {
        const Step *step = &p->step[i];
        if (step->once || step->device != device) continue;
        s.kernels += step->kind == STEP_KERNEL;
        s.flops += step->kind == STEP_KERNEL ? p->kernel[step->kernel]->flops : 0;
        for (uint32_t k = 0; k < step->narg; k++) {
            Stored *x = &stored[step->arg[k]];
            int64_t bytes = p->buffer[step->arg[k]].size_bytes;
            if (x->seen || !(step->access[k] & ACCESS_READ)) continue;
            x->seen = true;
            if (x->foreign) s.foreign_bytes += bytes * x->foreign / x->stores;
            if (is_constant(b, step->arg[k])) s.constant_bytes += bytes;
        }
    }
    mem_free(stored);
    return s;
}

void plan_shares(Build *b)
{
    PlanShare *share = NEW_N(b->p->arena, PlanShare, b->p->devices);
    for (int32_t d = 0; d < b->p->devices; d++) share[d] = share_of(b, d);
    b->p->share = share;
    b->p->nshare = b->p->devices;
}
