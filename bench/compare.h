/* Is an output what was expected? Tolerances are cli.md's: `auto` from dtype and rms of the reference and the output's
 * step, `standard` the standard's own, or given. */
#ifndef TG_COMPARE_H
#define TG_COMPARE_H
#include "bench/inputs.h"
#include "bench/task.h"

typedef struct { double rtol, atol; } Tolerance;
typedef struct {
    bool ok;
    double max_abs, max_rel, ulp99, cosine;     /* max_rel: max_abs / rms of what was expected; ulp99: 0 for integers */
    int64_t numel, outside, first; /* first: flat index of the first value outside (of what holds tensors: the first
                                      tensor with such), -1: none */
    int64_t not_finite;                         /* NaN and Inf in the same places, which pass */
    Tolerance used;
    Task task;                      /* kind above TASK_STANDARD: what decided instead of used */
    double measure;                 /* of that task */
    char why[160];                              /* type or shape differ; "" */
} Comparison;

/* Options --rtol, --atol (also NAME:V) and --tolerance for that output of the model. */
Tolerance tolerance_for(const Args *a, const TgPort *port, const Bound *want);
Comparison compare_tensors(const TgTensor *got, const Bound *want, Tolerance t);
/* The same for that output of the model under its options; of what holds tensors, all of them. */
Comparison compare_output(const Args *a, const TgPort *port, const TgTensor *got, const Bound *want);
double tensor_rms(const TgTensor *t, bool mapped);           /* of the finite values */
#endif
