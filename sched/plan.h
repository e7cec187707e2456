/* The plan: a flat array of steps over flat memory, what `tgrun dump --stage plan` prints. Made once per set of shapes
 * by plan_make, run many times by a backend. Memory: intermediate buffers share one arena (memplan.c, lifetimes from
 * the order of steps); constants, results of `once` steps and what must stay zero between runs have places of their own
 * in a second, persistent arena; inputs and outputs are the caller's or staged by the backend. plan_serial.c writes and
 * reads it as bytes: a field that is added here, or to what schedule_forget_code leaves of kernels, is added there.
 */
#ifndef TG_PLAN_H
#define TG_PLAN_H
#include "graph/guard.h"
#include "sched/halo.h"
#include "sched/sched.h"

typedef enum { MEM_ARENA, MEM_PERSIST, MEM_CONST, MEM_INPUT, MEM_OUTPUT } MemKind;

/* The zeros of a halo in a window. Of each `pitch` bytes of what is addressed `gap` bytes from `at` on are zeros. Part
 * p stores [p * stride + from, p * stride + to), and reads up to p * stride + end. fill: see Halo. */
typedef struct {
    int64_t pitch, at, gap, from, to, end;
    uint8_t fill;
} Border;

typedef struct {
    MemKind kind;
    /* zeros must lie around what is stored, until a step makes them (halo); MEM_PERSIST: zero at load */
    bool zeroed;
    /* window > 0: that many bytes a thread; those of part p begin at p / every * stride + first of what is addressed
     * (chain.h). kept: at the next group's beginning, as many as both groups of parts have */
    int64_t window, stride, every, first, kept;
    const Border *border;           /* of a window, or NULL */
    const Halo *halo;               /* MEM_ARENA: the zeros that the step with ACCESS_CLEAR makes, or NULL */
    /* only `once` steps touch it: a MEM_CONST of this kind need not stay on the device after load */
    bool once;
    uint32_t life;                  /* MEM_ARENA: of Plan.life, which those that lie in one place share */
    int64_t offset, size_bytes;     /* in its arena; MEM_INPUT, MEM_OUTPUT: offset is the port's index */
    const void *data;               /* MEM_CONST: host bytes, valid as long as the session */
    DType dtype;
    const Shape *shape;
} PlanBuffer;

/* A host function between kernels: works on host pointers; may set symbolic sizes. Arguments first, then results, in
 * args as in tensor. */
typedef struct Plan Plan;
typedef struct { DType dtype; const Shape *shape; } HostTensor;
typedef struct HostCall {
    /* CALL(CUSTOMFUNCTION, args..): the function's name and attributes are its source's arg.blob */
    const UOp *call;
    const Plan *plan;               /* for plan_eval of symbolic sizes and plan_var */
    const HostTensor *tensor;       /* [nin + nout] */
    uint32_t nin, nout;
    /* [nout] which of the function's results args[nin + k] is: those that nobody reads are left out */
    const uint32_t *result;
    /* the plan's number of each DEFINE_VAR that the function sets: sources of its CUSTOMFUNCTION */
    const uint32_t *var;
    const Guard *at;                /* the node that it belongs to, or NULL */
    /* a step of a loop or branch (steps.c), or one of ranks (Exchange): those have no call; else NULL */
    const struct Control *control;
    const struct Exchange *exchange;
} HostCall;
typedef TgStatus (*HostFn)(const HostCall *call, void *const *args, int64_t *vars);
typedef TgStatus (*HostPart)(const HostCall *call, void *const *args, const int64_t *vars, int64_t part, int64_t parts);
/* part: NULL, or one of several that together are fn, at once; sets no size, and fails only where all parts do.
 * part_bytes: of the first argument, that are worth a thread. */
typedef struct { const char *name; HostFn fn; HostPart part; int64_t part_bytes; } HostEntry;
const HostEntry *host_find(const char *name);       /* frontend/host/host.c; NULL: no such function */

/* What a control step decides: a loop's first iteration, whether another follows, a branch. It sets `flag`, which the
 * JUMP behind it reads. Numbers of variables; -1: none. */
/* has_trip, has_keep: arguments, in that order */
typedef struct Control {
    int64_t trip;
    int32_t step, count, flag;
    bool has_trip, has_keep;
} Control;
TgStatus control_begin(const HostCall *call, void *const *args, int64_t *vars);
TgStatus control_next(const HostCall *call, void *const *args, int64_t *vars);
TgStatus control_if(const HostCall *call, void *const *args, int64_t *vars);

/* What ranks send each other: bytes of a step's arguments, one behind the other. number: of the messages of a plan, the
 * same for both ends. */
typedef struct { uint32_t arg; int64_t begin, bytes; } MessagePart;
typedef struct { int32_t peer, number; const MessagePart *piece; uint32_t npiece; int64_t bytes; } Message;
typedef struct Exchange { bool sends; const Message *message; uint32_t nmessage; } Exchange;

/* COPY: arg[1] to arg[0], whole buffers (an output that is an input or a constant). JUMP: to step `target` when
 * variable var[0] is 0. */
typedef enum { STEP_KERNEL, STEP_HOST, STEP_COPY, STEP_JUMP } StepKind;
typedef struct {
    StepKind kind;
    bool once;                      /* runs at load only */
    /* what it writes has one slice or none: its loop of one iteration is no loop, and what it loads may not be there
     * when there is none (plan_idle) */
    bool may_idle;
    /* all threads (the whole grid) wait before this step: it reads or overwrites what an earlier step since the last
     * sync touched */
    bool sync;
    int32_t device;                 /* whose threads run it; ALL_DEVICES: those of all */
    uint32_t kernel;                /* index into Plan.kernel */
    Origins origins;                /* nodes of the model that it computes for */
    uint32_t wish;                  /* ScheduleItem.chain, while the plan is made */
    uint32_t chain;                 /* index into Plan.chain + 1; 0: none */
    int64_t before, after;          /* parts around those of a group that it does with them (chain.h) */
    uint32_t narg, nvar;
    uint32_t *arg;                  /* PlanBuffer of each PARAM, or of a host call's arguments then results */
    uint8_t *access;                /* ACCESS_READ | ACCESS_WRITE of each arg */
    uint32_t *var;                  /* Plan variable of each kernel variable */
    /* extent of the THREAD range (1: the calling thread runs it) when static, else -1 */
    int64_t thread_count;
    HostFn host;                    /* NULL from plan_make: the session, which knows the functions, sets it */
    HostPart part;                  /* likewise; may stay NULL */
    int64_t part_bytes;
    const HostCall *call;
    uint32_t target;                /* JUMP */
} Step;
/* CLEAR: the buffer's halo is zeroed while the kernel stores what is inside. PART: none of what it stores is stored by
 * another step */
enum { ACCESS_READ = 1, ACCESS_WRITE = 2, ACCESS_CLEAR = 4, ACCESS_PART = 8 };

/* Steps first .. last, each thread group after group of parts: all steps of one group, then those of the next
 * (chain.h). Those that have fewer parts come first: one of theirs is done before the first of `every` others, by each
 * thread that has any of these. */
typedef struct { uint32_t first, last; int64_t group, parts, every; } PlanChain;

/* The steps first .. last during which a buffer of the arena needs `size_bytes` at `offset`. */
typedef struct { int64_t size_bytes, offset; uint32_t first, last; } Life;

struct Plan {
    Arena *arena;
    Step *step;
    uint32_t nstep;
    PlanChain *chain;
    uint32_t nchain;
    Kernel **kernel;                /* unique by key */
    uint32_t nkernel;
    PlanBuffer *buffer;
    uint32_t nbuffer;
    uint32_t ninput, noutput, nvar; /* ninput: one more than the last input that is read */
    const char **var_name;
    /* [nvar] what a variable holds before a run: the steps of loops; 0 for the others */
    const int64_t *var_value;
    /* may be NULL: these bytes of a constant will not be read soon and need not stay in memory */
    void (*forget)(void *owner, const void *data, size_t bytes);
    void *forget_owner;
    int64_t arena_bytes, persist_bytes, flops;
    /* [nguard] whose words stand first in the persistent arena: what kernels note that their data are wrong
     * (graph/guard.h) */
    const Guard *const *guard;
    uint32_t nguard;
    const Life *life;               /* [nlife] of the places in the arena; for plan_print_memory */
    uint32_t nlife;
    uint32_t nsync;
    bool jumps;                     /* there are JUMPs */
    int32_t devices;                /* whose steps these are; at least 1. Of a rank's plan 1, itself */
    const struct PlanShare *share;  /* [nshare] of all among whom the graph is divided */
    int32_t nshare;
    const char *schedule;           /* the choices of a list that were made, as schedule_print says them; "": none */
    uint64_t common;                /* of a rank's plan, a hash of what all ranks together do, the same for each */
};

/* Takes the schedule's kernels (optimised and lowered by then): borrowed, so the schedule must outlive the plan. */
TgStatus plan_make(Plan **out, Schedule *s, const Target *t);
void plan_free(Plan *p);
/* The status of a host function, its message with the node in front. */
static inline TgStatus host_status(const HostCall *call, TgStatus status)
{
    if (status != TG_OK && call && call->at) status_at(call->at->node, call->at->op);
    return status;
}
/* The notes of a run (words: the first nguard * 16 bytes of the persistent arena, or a copy), which are cleared: the
 * failure that the first of them is, or TG_OK. */
TgStatus plan_guards(const Plan *p, void *words, TgStatus code);
void plan_print(Text *out, const Plan *p);
void plan_print_memory(Text *out, const Plan *p);       /* buffers of the arena by live range, and where most is live */
/* What a device has to do in a run, and in bytes: constants that it reads, and what others computed that it reads (of a
 * join, the share of those who store other parts). */
typedef struct PlanShare { int64_t kernels, flops, constant_bytes, foreign_bytes; } PlanShare;
int32_t plan_var(const Plan *p, const char *name);                         /* its number, -1: none */
/* Value of a symbolic size (DT_INDEX expression over DEFINE_VARs). INT64_MIN when it depends on anything else. */
int64_t plan_eval(const Plan *p, const UOp *size, const int64_t *vars);
/* Zeroes this part of the parts of a buffer's halo, at the sizes that the variables give. */
void plan_clear(const Plan *p, const Halo *h, const int64_t *vars, void *data, int part, int parts);
/* The zeros of a window with a border: between rows, for all groups; and before and behind all that s stores there, for
 * the group [begin, end) of parts. */
void plan_border(const PlanBuffer *b, char *window);
void plan_border_ends(const PlanBuffer *b, const Step *s, char *window, int64_t begin, int64_t end, int64_t parts);
/* there are sizes at which it must not run */
bool plan_may_idle(const Plan *p, const Step *s);
/* this step must not run: what it would write has no elements */
bool plan_idle(const Plan *p, const Step *s, const int64_t *vars);

/* memplan.c. Each life gets an offset. Returns the bytes of the arena. */
int64_t memplan_place(Life *life, uint32_t n, int64_t align);
/* one writes bytes that the other touches: their order counts */
bool plan_conflict(const Plan *p, const Step *a, const Step *b);
bool step_touches(const Step *s, uint32_t buffer);
void plan_sync(Plan *p, const Target *t);                                  /* Step.sync and Plan.nsync, from places */
#endif
