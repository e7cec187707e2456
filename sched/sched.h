/* The stages, in order; pipeline.c calls them. Each is a function from a graph (or kernel) to the next form and can be
 * printed before and after. */
#ifndef TG_SCHED_H
#define TG_SCHED_H
#include "graph/base/text.h"
#include "graph/blocks.h"
#include "sched/choices.h"
#include "sched/kernel.h"

/* A schedule: kernels and host calls in order over tensor-level BUFFERs of one graph. */
/* LOOP .. NEXT: the items between, each iteration */
typedef enum { ITEM_KERNEL, ITEM_HOST, ITEM_COPY, ITEM_LOOP, ITEM_NEXT, ITEM_IF, ITEM_ELSE, ITEM_ENDIF } ItemKind;
/* Nodes of the model that a kernel computes for, counted from 1, ascending. */
typedef struct { const uint32_t *node; uint32_t count; } Origins;
typedef struct {
    ItemKind kind;
    bool once;                      /* depends on constants only: runs at load */
    bool part;                      /* of what the kernel stores to, a part that no other item stores */
    /* of Target.devices, the one whose it is: until sched_devices its number + 1, as a COPY says, or 0 */
    int32_t device;
    Kernel *kernel;
    uint32_t chain;                 /* kernels of one number were cut to follow one another (chain.h); 0: none were */
    Origins origins;                /* of the kernel */
    const UOp *call;                /* ITEM_HOST: CALL(CUSTOMFUNCTION, args..); args are BUFFERs */
    const struct Guard *at;         /* ITEM_HOST: the node that it belongs to, for messages; may be NULL */
    const UOp *const *out;          /* ITEM_HOST: its result BUFFERs */
    uint32_t nout;
    /* BUFFERs. COPY: to, from (whole). LOOP: trip count (i64 scalar; NULL: trip tells), keep (bool; NULL: true). NEXT:
     * keep. IF: condition */
    const UOp *mem[2];
    /* DEFINE_VARs. COPY: to is a stack of from's, at this number. LOOP: step, and the count of iterations, each or NULL
     */
    const UOp *var[2];
    int64_t trip;                   /* LOOP */
} ScheduleItem;
typedef struct {
    Graph *g;                       /* the tensor graph; buffers live in it */
    ScheduleItem *item;
    uint32_t count, cap;
    const UOp **output;             /* BUFFER of each graph output */
    uint32_t noutput;
    uint32_t refused;               /* kernels whose list the device did not take: they run as they came */
    Text why_refused;               /* a line each */
    ScheduleList list;              /* choices that were made as a list says */
    /* how often a FUNCTION is called; the items of its first call */
    struct FunctionUse { uint32_t calls, first, count; } *function;
    uint32_t nfunction;
} Schedule;

typedef struct { Text *text; const char *stage, *kernel; } Dump;        /* where `tgrun dump` wants text; may be NULL */

/* sink: SINK of the output values; PARAM(slot) are the inputs. Rewrites values into a function of PARAMs and BUFFERs
 * that stores outputs. */
TgStatus sched_callify(const UOp **out, Graph *g, const UOp *sink, const Target *t, Choices *choices);
/* needed.c: values of which a part is read, as that part */
const UOp *compute_needed(Graph *g, const UOp *root);
/* angles.c: sines of numbers that are not large, on a CPU */
const UOp *guard_angles(Graph *g, const UOp *root, const Target *t);
/* commute.c: sums of products and linear maps, in the order of fewer products */
const UOp *commute_products(Graph *g, const UOp *root);
/* sums of products of one value with several constants, as one */
const UOp *join_siblings(Graph *g, const UOp *root, Choices *choices);
/* joins.c: values that are joined and then made narrow, the other way round */
const UOp *narrow_joins(Graph *g, const UOp *root);
/* sums of products of quantised values, in integers */
const UOp *sum_integers(Graph *g, const UOp *root, const Target *t);
/* winograd.c: sums over three neighbours, in fewer products */
const UOp *sum_windows(Graph *g, const UOp *root, const Target *t, Choices *choices);
/* parts.c: sums of products of f32, as products of bf16 parts where the target says in how many */
const UOp *sum_parts(Graph *g, const UOp *root, const Target *t);
/* wide.c: values of 16 bits that sums of products read one number at a time, stored in f32 */
const UOp *store_wide(Graph *g, const UOp *root, const Target *t);
/* long_sums.c: reduces of few results over many elements, in parts that threads share */
const UOp *cut_long_reduces(Graph *g, const UOp *root, const Target *t);
bool has_parts(const Target *t);                                        /* it has a unit for them */
typedef struct {
    Arena *arena;
    bool *is;
    uint32_t count, cap;
} Constants; /* by a node's id, as far as was needed */
bool made_of_constants(Constants *c, Graph *g, const UOp *u);            /* u has one shape, and no input is below it */
/* reads.c: no value is made of more tensors that lie in memory */
const UOp *limit_reads(Graph *g, const UOp *sink, uint32_t most);
/* What rangeify knows of a graph before there are kernels (rangeify.h). */
typedef struct Rangeify Rangeify;
void rangeify_free(Rangeify *r);                                         /* or NULL */
/* Parts that repeat, as FUNCTIONs (graph/blocks.h), and where values live. Where nothing repeats, *swept is what
 * sched_rangeify would find again; else NULL. */
TgStatus sched_functions(const UOp **out, Placements *placements, Rangeify **swept, Graph *g, const UOp *sink,
                         const Target *t, Choices *choices);
/* placements, swept: as sched_functions found them; NULL: none. The caller frees them. */
TgStatus sched_rangeify(Schedule *out, Graph *g, const UOp *sink, const Target *t, Placements *placements,
                        Rangeify *swept, Choices *choices);
/* zeros that layout puts around a value, at most, on a side of an axis */
enum { HALO_MAX = 8 };
/* storage order, halo and padding of intermediate buffers; flattens every INDEX; keys kernels */
TgStatus sched_layout(Schedule *s, const Target *t, Choices *choices);
/* devices.c: which device an item belongs to */
enum { ALL_DEVICES = -1 };
void sched_devices(Schedule *s, const Target *t);
/* host calls side by side, where each must be waited for */
void sched_calls(Schedule *s);
/* the above in order; choices: NULL, or what a list wants and what it could want */
TgStatus sched_schedule(Schedule **out, Graph *g, const UOp *sink, const Target *t, Choices *choices, Dump *dump);
/* frees what only rendering wants of its kernels */
void schedule_forget_code(Schedule *s);
void schedule_free(Schedule *s);
/* an empty item at the end; valid until the next call */
ScheduleItem *schedule_add(Schedule *s, ItemKind kind);

/* Chooses a list for a kernel that is seen for the first time (beam/: heuristics or the tuning database). Several
 * threads call it at once where sched_optimize may use them. */
typedef void (*ChooseOpts)(OptList *out, const Kernel *k, const ScheduleItem *item, const Schedule *s, void *user);
/* Optimises and lowers every kernel, each key once; packed constants become buffers with kernels that run once. */
TgStatus sched_optimize(Schedule *s, const Target *t, ChooseOpts choose, void *user, uint32_t threads, Dump *dump);

/* at most so many vectors share what lies side by side, and take its elements in turn (expand.c) */
enum { LANE_INTERLEAVED = 4 };

/* A kernel's axes as OptOps number them: RANGEs of the output END in order, then those of each REDUCE, outermost first.
 */
uint32_t opt_axes(const Kernel *k, const UOp **range, uint32_t cap);
/* illegal: TG_USAGE and a reason; k unchanged */
TgStatus opt_apply(Kernel *k, const OptOp *op, const Target *t);
TgStatus opt_apply_list(Kernel *k, const OptList *l, const Target *t);
/* applies one more op to a kernel that has l; false: it is illegal, nothing changed */
bool opt_try(OptList *l, Kernel *k, OptOp op, const Target *t);
bool opt_same(const OptList *a, const OptList *b);
bool opt_is_last(const OptOp *op);                                      /* PACK, STAGE, STREAM, CARRY */
bool kernel_streams(const Kernel *k, uint32_t slot);                    /* its list has a STREAM of that parameter */
/* where opt_axes lists the range of that number; -1: nowhere */
int opt_axis(const Kernel *k, int number);
TgStatus opt_stage(Kernel *k, const OptOp *op, const UOp *const *axis, uint32_t n, const Target *t);      /* stage.c */
TgStatus opt_tc(Kernel *k, const OptOp *op, const UOp *const *axis, uint32_t n, const Target *t);         /* tc.c */
bool wmma_holds(const Kernel *k, const OptOp *op, const UOp *range);    /* a TC needs this range as it is */
/* number of the range that PACK lays innermost, for a TC with tiles; -1: none */
int wmma_pair(const Kernel *k);
TgStatus opt_keep(Kernel *k, const UOp *axis, const Target *t);         /* keep.c */
TgStatus opt_carry(Kernel *k, const OptOp *op, const UOp *const *axis, uint32_t n, const Target *t);      /* carry.c */
int64_t kept_bytes(const Kernel *k);                                    /* of LOCAL memory */
void kept_widen(Kernel *k);
void kept_hold(Kernel *k);
/* pack.c; narrow: as it lies in memory, without the arithmetic on it */
TgStatus opt_pack(Kernel *k, uint32_t slot, bool narrow);
Kernel *pack_kernel(const Kernel *k, uint32_t slot);                    /* fills the packed copy, its PARAM(0) */
void opt_print(Text *out, const OptList *l);                            /* "SPLIT 1 32 UPCAST; PACK 2; .." */
TgStatus opt_parse(OptList *out, const char *text);
const char *opt_kind_name(OptKind k);
const char *opt_target_name(AxisType t);
Kernel *kernel_clone(const Kernel *k);                                  /* a scratch copy with its own Graph */
Kernel *kernel_shared(Kernel *k);                                       /* the same graph and code, params of its own */
void kernel_free(Kernel *k);
/* loops.c: merges, orders and splits the ranges of form 2 */
void kernel_loops(Kernel *k, const Target *t);
/* The root with ranges a, b walked as one that has a's number. NULL: they are no neighbours of one kind, a outside, or
 * a sum of the one would be made for each of the other. */
const UOp *ranges_merged(Kernel *k, const UOp *a, const UOp *b, Arena *scratch);
/* work.c */
void kernel_count(Kernel *k);                                           /* sets flops and bytes */
double kernel_flops(const Kernel *k);                                   /* of its loops; forms 1 to 5 */
/* Sets `executed` of a lowered kernel that had so many before it was expanded. */
void kernel_executes(Kernel *k, double optimized);
/* of a linear kernel's parameter: what the code counts on, or more where the buffer has more */
int64_t kernel_param_bytes(const Kernel *k, uint32_t slot);
bool kernel_add_var(Kernel *k, const UOp *var);                         /* false: there are KERNEL_VARS */
bool kernel_vectors(const Kernel *k);                                   /* a linear kernel computes in vectors */
/* parts of its THREAD range may write one value to one place: the last of a ragged axis begins early */
bool kernel_overlaps(const Kernel *k);
/* sets var and nvar from the DEFINE_VARs of root */
void kernel_vars(Kernel *k);
/* frees what stages left in its graph; of a kernel that has linear, root too */
void kernel_compact(Kernel *k);
/* nodes in order, sources first, to bytes; at: room for a number of each id */
void structure_bytes(Text *out, const UOp *const *order, uint32_t n, uint32_t *at);
void kernel_key(Kernel *k);                                             /* sets key from the structure of root */
void kernel_name(Kernel *k);                                            /* sets name from loops and key */
/* tc.c: scalar WMMAs become whole ones; the first part of expand */
TgStatus kernel_fragments(Kernel *k);
enum { REPLICAS_MAX = 4096 };              /* that expand makes of a value */
TgStatus kernel_expand(Kernel *k, const Target *t);
/* Can vectors lie along this range, beside those that a list has already? */
bool expand_serves(const Kernel *k, const UOp *range, const Target *t);
TgStatus kernel_select(Kernel *k, const Target *t);
/* GLOBAL, LOCAL, WARP and GROUP_REDUCE ranges -> SPECIALs; the first part of linearize on a GPU */
TgStatus kernel_gpudims(Kernel *k, const Target *t);
/* CPU: loops whose sums gates make zero are left out */
void kernel_skip_zeros(Kernel *k);
/* CPU: the last iteration of a loop by itself, where only it has gates */
void kernel_peel(Kernel *k);
/* its last part: threads without stores stop behind the last barrier */
void kernel_skip_idle(Kernel *k);
/* its next: rings of staged tiles are filled an iteration ahead */
void kernel_prefetch(Kernel *k);
/* scalar loads side by side become vector loads of up to 16 bytes */
const UOp *merge_loads(Graph *g, const UOp *root);
/* a number that divides every value of u; 0 for 0 */
int64_t index_divisor(const UOp *u);
TgStatus kernel_linearize(Kernel *k, const Target *t);
/* expand, select, linearize; verifies after each in debug builds */
TgStatus kernel_lower(Kernel *k, const Target *t, Dump *dump);
/* in_place.c: params that are read whose memory the one that is stored may have, for a thread that runs code in order;
 * k is linear, and stored so many elements before it had OptOps (kernel_elements; -1: not known). */
int64_t kernel_elements(const Kernel *k);
uint64_t kernel_in_place(const Kernel *k, int64_t elements);
#endif
