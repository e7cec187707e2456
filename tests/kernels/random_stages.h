/* What the tests of random graphs share: a schedule's memory, runs of its kernels by the interpreter, comparisons,
 * random lists of OptOps. */
#ifndef TG_RANDOM_STAGES_H
#define TG_RANDOM_STAGES_H
#include "backends/backend.h"
#include "backends/reference/reference.h"
#include "random_graph.h"
#include "sched/sched.h"

long setting(const char *name, long otherwise);                     /* a number from the environment */

/* Opens b for a test: CUDA on the emulator (CUDA_EMULATOR), or on a GPU with TGRUN_TEST_GPU. false: not here. */
bool open_backend(Device **out, const Backend *b);

/* Every buffer of a schedule, allocated when it is first used; inputs and constants are where they are. */
typedef struct {
    RandomGraph *rg;
    Schedule *s;
    void **buffer;
    int64_t *size;
    uint32_t count;
} Memory;
Memory memory_new(RandomGraph *rg, Schedule *s);
void memory_free(Memory *m);
const UOp *under(const UOp *u);                                     /* the BUFFER or PARAM */
RefMem mem_of(Memory *m, const UOp *u);
void kernel_mem(Memory *m, const Kernel *k, RefMem *mem);

const int64_t *vars_of(const RandomGraph *rg, const Kernel *k);     /* values of the kernel's variables */

/* Where we are, for messages. RANDOM_VERBOSE prints the kernel too. */
typedef struct {
    uint64_t seed;
    const char *stage;
    const Kernel *k;
    const OptList *opts;
    const UOp *original;
} Place;
/* integers equal; floats to a small part of the tensor's scale */
bool agree(const Place *p, DType t, const void *got, const void *want, int64_t n);
bool went(const Place *p, TgStatus status);

/* Runs all kernels in the form that they have and compares the outputs. *m is new and keeps every result. */
bool schedule_agrees(RandomGraph *rg, Schedule *s, const RefTensor *want, Memory *m, const Place *at);

/* Every OptOp that a list is given at random goes through here, and is counted when it is legal. */
bool random_apply(Kernel *k, const OptOp *o, const Target *target);
/* at most `most` legal OptOps, from three times as many tries; returns how many */
unsigned random_opts(Kernel *k, Random *r, uint32_t most, const Target *target);
/* Prints how often each OptOp, each target of a SPLIT, and with `tiles` a TC of each row of wmma.def was applied on
 * devices like `t`, and counts from 0 again. false: one that `t` has was never legal. */
bool random_opts_complete(const Target *t, bool tiles);
/* The packed copies of k's constants, made by their kernels; again when k is lowered, which must change nothing. */
bool fill_packs(Memory *m, Kernel *k, RefMem *pack, const Place *at);
/* Memory of one launch: fresh for what is written, packed copies for what is packed. */
void launch_mem(Memory *m, const Kernel *k, const RefMem *pack, RefMem *mem, void **fresh);
/* The type of what k writes there; of a float's bits stored as an integer (its sign taken off) that of the float, which
 * is right to within rounding. */
DType compared_as(const Kernel *k, uint32_t param);
typedef TgStatus (*Run)(const Kernel *k, const RefMem *mem, const int64_t *vars);
/* Runs k and compares what it wrote with `want` (or keeps it there when that is empty). */
bool launch(Memory *m, Kernel *k, const RefMem *pack, Run run, void **want, const Place *at);
#endif
