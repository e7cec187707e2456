/* Chains: kernels that follow one another part by part, so that what one leaves for the next stays in a core's cache,
 * and no thread waits for another between them.
 *
 * A part is one value of a kernel's THREAD range. Kernels can be chained where they have equally many parts, and
 * part p of each touches, of every buffer that one of them writes, only what belongs to part p: a slice of it. Before
 * them there may be kernels of fewer parts, each of which serves so many that follow one another: a head's keys, turned
 * for all blocks of its queries.
 * Where part p of a kernel reads of parts around p what one before it stores (windows of a convolution), each group of
 * parts is done by that one with so many parts before and after it (Step.before), into a window of the thread's, so
 * threads need not wait for each other. What the group before it has done of them is kept, so only where a thread
 * begins are parts computed that another computes as well.
 * sched_chains finds kernels whose loops can be cut so and says by which OptOps; plan_chain proves it of the kernels
 * as they came out, whatever their lists are. */
#ifndef TG_CHAIN_H
#define TG_CHAIN_H
#include "sched/plan.h"

/* One digit of a part's number, the outermost first: which block of that range it is. */
typedef struct { const UOp *range; int64_t count, block; } Digit;
enum { DIGITS_MAX = 8 };

/* The slices, in bytes, of all params of k, for parts of these digits. k is in form 2 or 3. */
void kernel_slices(Slice *out, const Kernel *k, const Digit *digit, uint32_t n);
/* The same of one access, by an INDEX or SHRINK; range: the loops that it depends on, by number. */
Slice access_slice(const UOp *address, const UOp *gate, const UOp **range, const Digit *digit, uint32_t n);
int64_t access_width(const UOp *address);                                /* its elements; 0: not known */
/* Do parts with these slices of one buffer touch bytes that no other part does, within a stride of each other? */
bool slices_disjoint(const Slice *a, const Slice *b);
/* Parts around part p that a writer does of what part p reads; false: not known. No byte is written by two parts. */
bool slices_overlap(const Slice *writer, const Slice *reader, int64_t *before, int64_t *after);
/* The zeros in a window for parts of this slice of a buffer with a halo; reads: all that part p reads. false: they are
 * not between and around rows. */
bool halo_border(Border *out, const Halo *h, const Slice *writes, const Slice *reads);
void kernel_slice(Kernel *k);                                            /* sets k->slice, by its THREAD ranges */
/* The loops of the output as they lie in a param, the outermost first, up to those on which its index does not
 * depend linearly. Returns how many. */
uint32_t kernel_order(const Kernel *k, uint32_t slot, const UOp *out[64]);
/* Parts enough for threads: as many for each, or so many that it does not matter. */
bool parts_balance(int64_t parts, const Target *t);
/* What cuts these loops in so many parts; 0: nothing does. */
uint32_t kernel_digits(Digit *out, const UOp *const *range, uint32_t n, int64_t parts);

/* Kernels of a schedule that can be chained, and whose values between them are more than a core's cache holds: moves
 * what stands between them before them, and sets Kernel.chain. */
void sched_chains(Schedule *s, const Target *t);

/* Finds chains among steps in order: Step.chain, Plan.chain. Before buffers have places. halo: of each buffer, or NULL.
 */
void plan_chain(Plan *p, const Halo *const *halo, const Target *t);
/* plan_turns.c: the steps of several devices in turn. After plan_chain, before buffers have places. */
void plan_turns(Plan *p);
/* A buffer that nothing but this chain touches: it becomes a window a thread, where that is smaller or must be. */
void plan_window(Plan *p, uint32_t buffer, const PlanChain *c, const Halo *halo, const Target *t);
#endif
