/* Kernels built by hand, for tests of the code generators: form 4 (kernel.h) without the stages above. */
#ifndef TG_HAND_H
#define TG_HAND_H
#include "sched/sched.h"

/* empty, with a graph; freed by kernel_free */
Kernel *hand_kernel(void);
const UOp *hand_param(Kernel *k, int slot, DType t, int64_t size);          /* flat */
const UOp *hand_loop(Kernel *k, int number, int64_t bound, AxisType type);
const UOp *hand_at(Kernel *k, const UOp *memory, const UOp *i, int64_t lanes);      /* INDEX, or SHRINK of lanes > 1 */
const UOp *hand_load(Kernel *k, const UOp *address);
const UOp *hand_store(Kernel *k, const UOp *address, const UOp *value);
const UOp *hand_end(Kernel *k, const UOp *effect, const UOp *const *range, uint32_t n);
const UOp *hand_add(Kernel *k, const UOp *a, const UOp *b);
const UOp *hand_mul(Kernel *k, const UOp *a, const UOp *b);
const UOp *hand_scaled(Kernel *k, const UOp *i, int64_t scale, int64_t offset);     /* i * scale + offset */
void hand_sink(Kernel *k, const UOp *const *effect, uint32_t n);
#endif
