/* Seconds that a lowered kernel should take, estimated. Only the order of estimates counts: the search compiles those
 * that come first. */
#ifndef TG_COST_H
#define TG_COST_H
#include "sched/kernel.h"

/* What the estimate was made of, for tests and for `dump`. */
typedef struct {
    double seconds, compute_s, l1_s, l2_s, memory_s;
    int64_t accumulators, instructions;
} Cost;
Cost kernel_cost(const Kernel *k, const Target *t);            /* k->linear is there */
#endif
