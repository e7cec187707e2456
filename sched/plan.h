/* The plan: a flat array of steps over flat memory, what `tgrun dump --stage plan` prints. Made once per set of shapes by plan_make, run many times by a backend.
 * Memory: intermediate buffers share one arena (memplan.c, lifetimes from the order of steps); constants, results of `once` steps and pinned buffers (zero halo) have
 * places of their own in a second, persistent arena; inputs and outputs are the caller's or staged by the backend.
 */
#ifndef TG_PLAN_H
#define TG_PLAN_H
#include "sched/sched.h"

typedef enum { MEM_ARENA, MEM_PERSIST, MEM_CONST, MEM_INPUT, MEM_OUTPUT } MemKind;
typedef struct {
    MemKind kind;
    bool zeroed;                    /* MEM_PERSIST: zero at load (halo) */
    int64_t offset, size_bytes;     /* in its arena; MEM_INPUT, MEM_OUTPUT: offset is the port's index */
    const void *data;               /* MEM_CONST: host bytes, valid as long as the session */
    DType dtype;
    const Shape *shape;
} PlanBuffer;

/* A host function between kernels: works on host pointers; may set symbolic sizes. */
typedef struct HostCall HostCall;
typedef TgStatus (*HostFn)(const HostCall *call, void *const *args, int64_t *vars);

typedef enum { STEP_KERNEL, STEP_HOST } StepKind;
typedef struct {
    StepKind kind;
    bool once;                      /* runs at load only */
    bool sync;                      /* all threads (the whole grid) wait before this step: it reads or overwrites what an earlier step since the last sync touched */
    uint32_t kernel;                /* index into Plan.kernel */
    uint32_t narg, nvar;
    uint32_t *arg;                  /* PlanBuffer of each PARAM, or of a host call's arguments then results */
    uint32_t *var;                  /* Plan variable of each kernel variable */
    int64_t thread_count;           /* extent of the THREAD range (1: the calling thread runs it) when static, else -1 */
    HostFn host;
    const HostCall *call;
} Step;

typedef struct Plan {
    Arena *arena;
    Step *step;
    uint32_t nstep;
    Kernel **kernel;                /* unique by key */
    uint32_t nkernel;
    PlanBuffer *buffer;
    uint32_t nbuffer;
    uint32_t ninput, noutput, nvar;
    const char **var_name;
    int64_t arena_bytes, persist_bytes, flops;
    uint32_t nsync;
} Plan;

/* Takes the schedule's kernels (optimised and lowered by then). */
TgStatus plan_make(Plan **out, Schedule *s, const Target *t);
void plan_free(Plan *p);
void plan_print(Text *out, const Plan *p);
#endif
