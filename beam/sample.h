/* A kernel over a sample of its outputs. */
#ifndef TG_SAMPLE_H
#define TG_SAMPLE_H
#include "sched/kernel.h"

/* work: base's; most: about what the sample may have. The caller frees it */
Kernel *kernel_sample(const Kernel *base, double work, double most);
#endif
