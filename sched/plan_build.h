/* A plan in the making, as the files that make it share it: plan.c adds steps, plan_places.c gives buffers places. */
#ifndef TG_PLAN_BUILD_H
#define TG_PLAN_BUILD_H
#include "graph/base/map.h"
#include "sched/chain.h"

/* first, last: while it lives; made: the step that touches it first */
typedef struct {
    uint32_t first, last, made;
    bool read_first, once_write, run_write, run_use;
    const UOp *uop;
} Use;
typedef struct { uint32_t first, last; } Range;
typedef struct {
    Plan *p;
    Schedule *s;
    uint32_t *of_buffer, *of_input; /* PlanBuffer + 1 by slot */
    uint32_t ninput_cap;
    Use *use;                       /* by PlanBuffer */
    Map kernel;                     /* key -> index + 1 */
    Range *loop;                    /* steps of loops that run as such, inner ones first */
    uint32_t nloop, nflag;
    bool clears;                    /* the device can zero a halo in a run */
    uint32_t *into;                 /* by PlanBuffer: in whose place it may lie; its own number: in nobody's */
    uint32_t *step_var;             /* variable + 1 that holds 0, 1, .. */
} Build;

/* A step that was added, or has another number now, touches a buffer. */
void plan_note_use(Build *b, uint32_t buffer, uint8_t access, bool once, uint32_t step);
/* plan_share.c: sets Plan.share. */
void plan_shares(Build *b);
/* plan_ranks.c: the plan of all ranks becomes this one's. */
void plan_ranks(Build *b, const Target *t);
/* plan_in_place.c: sets Build.into, by the lives in loops. */
void plan_in_place(Build *b);
/* The steps have another order. */
void plan_note_again(Build *b);
/* Chains, turns and lives of what the steps touch, and places from them. */
TgStatus plan_place(Build *b, const Target *t);
#endif
