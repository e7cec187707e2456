/* A kernel as the heuristics see it: its loops, accesses and sums, read once, and the list that grows while each op is
 * tried on a scratch copy. */
#ifndef TG_TRIAL_H
#define TG_TRIAL_H
#include "sched/sched.h"

enum { ACCESSES = 96 };
typedef struct {
    bool store, constant, gated;
    uint32_t slot, bytes;           /* of the PARAM; of an element */
    uint64_t ranges, placed;        /* that it depends on; that loaded places in it depend on */
    uint64_t scattered;             /* along which its elements lie at a symbolic stride */
    int64_t step[64];               /* by range number; NO_STEP where the index is not linear */
    const UOp *at;
} Access;
typedef struct {
    Kernel *k;
    const Target *t;
    OptList *out;                   /* what k has applied */
    Access access[ACCESSES];
    uint32_t naccess, naxis, nout;
    int number[64];                 /* of the axes as they came: outputs, then reduces */
    int64_t size[64], least[64];    /* by range number; of a symbolic axis the largest, and the least */
    int64_t together[64];           /* by range number: iterations in lanes or replicas, 0 for one */
    uint64_t outs, reduces, symbolic;
    uint64_t shared;                /* among threads already, as the kernel's chain wants it: no axes here */
    uint64_t rows;                  /* outputs on which every reduce depends; without one all */
    uint8_t depend[64];             /* by range number: so many reduces depend on it */
    double elements, reduced;       /* of the output; of its longest reduce */
    /* a product is summed for every element of the output, and its operands do not all vary with all loops */
    bool contraction;
    bool nested;                    /* it is a term of another sum, which has accumulators of its own */
    DType products;                 /* what is multiplied in it, before it was widened */
    int lanes, work;                /* floats of a vector; operations on floats in the kernel's text */
} Trial;

Trial *trial_new(OptList *out, const Kernel *k, const Target *t);        /* out: emptied */
void trial_again(Trial *p, const Kernel *k);                             /* from the beginning */
void trial_free(Trial *p);                                               /* out stays */
bool trial_op(Trial *p, OptOp op);                                       /* false: illegal, nothing changed */
bool trial_split(Trial *p, int number, int64_t factor, AxisType target, bool top);
/* MERGE of a loop of the output and the next one, before any split: the facts are those of one loop. */
bool trial_merge(Trial *p, int number);
int64_t trial_size(const Trial *p, int number);                          /* what is left of a loop; 1: nothing */
/* constants that vary along a reduce */
void trial_pack(Trial *p);
/* Stores past the caches what nobody reads from there, where that can be. */
void trial_stream(Trial *p);
/* does a reduced operand vary along the lane, and not along that axis? */
bool trial_shares(const Trial *p, int number, int lane);

static inline bool is_symbolic(const Trial *p, int number) { return p->symbolic >> number & 1; }
static inline int64_t ceil_to(int64_t n, int64_t m) { return (n + m - 1) / m * m; }
static inline int64_t floor_power(int64_t n)                            /* of two */
{
    int64_t w = 1;
    while (w * 2 <= n) w *= 2;
    return w;
}
#endif
