/* Control steps of a plan: loops whose number of iterations depends on data (or that are too long to be written out),
 * and branches. They work like host functions, on host pointers, and leave their decision in a variable; a JUMP
 * follows. */
#include "sched/plan.h"

static bool go_on(const Control *c, void *const *args, int64_t iteration)
{
    int64_t trip = c->has_trip ? *(const int64_t *)args[0] : c->trip;
    return iteration < trip && (!c->has_keep || *(const uint8_t *)args[c->has_trip]);
}

static void set(int64_t *vars, int32_t var, int64_t value)
{
    if (var >= 0) vars[var] = value;
}

/* flag 0: not even one iteration. */
TgStatus control_begin(const HostCall *call, void *const *args, int64_t *vars)
{
    const Control *c = call->control;
    set(vars, c->step, 0);
    set(vars, c->count, 0);
    set(vars, c->flag, go_on(c, args, 0));
    return TG_OK;
}

/* flag 0: another iteration. */
TgStatus control_next(const HostCall *call, void *const *args, int64_t *vars)
{
    const Control *c = call->control;
    int64_t iteration = vars[c->step] + 1;
    bool more = go_on(c, args, iteration);
    set(vars, c->count, iteration);
    if (more) vars[c->step] = iteration;
    set(vars, c->flag, !more);
    return TG_OK;
}

/* flag 0: the second branch. */
TgStatus control_if(const HostCall *call, void *const *args, int64_t *vars)
{
    set(vars, call->control->flag, *(const uint8_t *)args[0] != 0);
    return TG_OK;
}
