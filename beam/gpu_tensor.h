/* A GPU's tensor cores: lists for kernels that they take. */
#ifndef TG_GPU_TENSOR_H
#define TG_GPU_TENSOR_H
#include "sched/sched.h"

/* The `which`-th best list; false, and an empty list: there is none. */
bool tensor_opts(OptList *out, const Kernel *k, const Target *t, uint32_t which);
#endif
