/* Kernels to tune, as the stages before OptOps make them. */
#ifndef TG_SUBJECT_H
#define TG_SUBJECT_H
#include "graph/build.h"
#include "sched/sched.h"

extern const Target beam_target;
/* [m,k] from an input, [k,n] constant; n * k at most 65536 */
const UOp *subject_gemm(Graph *g, int64_t m, int64_t n, int64_t k);
/* the first kernel; it lives in the schedule */
Kernel *subject_of(Graph *g, const UOp *value, const Target *t, Schedule **schedule);
Kernel *subject_under(const Kernel *k, const Target *t, const char *list);  /* lowered under that list; NULL: illegal */
#endif
