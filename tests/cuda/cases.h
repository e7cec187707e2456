/* Kernels by hand (form 2) with lists of OptOps, and what they must compute. A new case is a row in cases.c. */
#ifndef TG_CUDA_CASES_H
#define TG_CUDA_CASES_H
#include "sched/sched.h"

typedef struct {
    const char *name;
    Kernel *(*build)(void);
    const char *opts;
    void (*expect)(float *out, float *const *in);       /* out: param 0; in: the params, filled */
} Case;
extern const Case cases[];
extern const uint32_t case_count;
extern const Target gpu_target;

TgStatus case_lower(Kernel **out, const Case *c, const Target *t);
int64_t param_numel(const Kernel *k, uint32_t slot);
#endif
