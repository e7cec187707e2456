/* Is an output what was expected? Tolerances are cli.md's: `auto` from dtype and rms of the reference and the output's step, `standard` the standard's own, or given. */
#ifndef TG_COMPARE_H
#define TG_COMPARE_H
#include "bench/inputs.h"

typedef struct { double rtol, atol; } Tolerance;
typedef struct {
    bool ok;
    double max_abs, max_rel, ulp99, cosine;     /* max_rel: max_abs / rms of what was expected; ulp99: 0 for integers */
    int64_t numel, outside, first;              /* first: flat index of the first value outside, -1: none */
    int64_t not_finite;                         /* NaN and Inf in the same places, which pass */
    Tolerance used;
    char why[160];                              /* type or shape differ; "" */
} Comparison;

/* Options --rtol, --atol (also NAME:V) and --tolerance for that output of the model. */
Tolerance tolerance_for(const Args *a, const TgPort *port, const Bound *want);
Comparison compare_tensors(const TgTensor *got, const Bound *want, Tolerance t);
double tensor_rms(const TgTensor *t, bool mapped);           /* of the finite values */
#endif
