/* Inputs on which a kernel is timed and compared, and the comparison. */
#ifndef TG_DATA_H
#define TG_DATA_H
#include "sched/kernel.h"

/* One block a parameter, by slot; the kernel's own sizes. hostile: NaN, Inf, denormals and negative zeros among the
 * floats that are not constants. */
typedef struct { void *data[KERNEL_PARAMS]; size_t size_bytes[KERNEL_PARAMS]; uint32_t count; } Inputs;
bool inputs_make(Inputs *in, const Kernel *k, bool hostile);              /* false: no memory */
void inputs_free(Inputs *in);
/* a Backend's `fill`; user: Inputs. What lies beyond them is zero */
void inputs_fill(void *user, uint32_t slot, void *ptr, size_t size_bytes);

/* What a kernel writes may differ from `oracle` (NULL: from `plain`) by twice the plain kernel's error and 4 ulp. Where
 * one of the two is missing the error is estimated from `terms`, how many numbers are added up for one of it. NaN and
 * Inf stand in the same places; integers agree exactly. false: `why` tells. */
typedef struct {
    DType dtype;
    int64_t numel;
    const void *got, *plain, *oracle;
    double terms;
} Comparison;
bool results_agree(const Comparison *c, char why[160]);
#endif
