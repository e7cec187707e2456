/* Choosing OptOps for a kernel; never changing what it means. */
#ifndef TG_BEAM_H
#define TG_BEAM_H
#include "sched/sched.h"

void heuristic_opts(OptList *out, const Kernel *k, const Target *t);      /* heuristic.c: a good list at once, from the kernel and the device alone */
void gpu_opts(OptList *out, const Kernel *k, const Target *t);            /* gpu.c: its part for GPUs */
uint32_t gpu_candidates(OptList *out, uint32_t cap, const Kernel *k, const Target *t);      /* different lists for a GPU, the likeliest first; returns how many */
#endif
