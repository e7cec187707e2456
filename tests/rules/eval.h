/* The tests' own evaluator: scalars only, slow and obvious, values encoded as Arg.i says. What a leaf is worth is the
 * test's business. */
#ifndef TG_TEST_EVAL_H
#define TG_TEST_EVAL_H
#include <math.h>
#include <string.h>

#include "graph/scalar.h"
#include "graph/uop.h"

/* BITCAST between types of equal size; narrow floats are not needed. */
static inline int64_t eval_bitcast(DType from, DType to, int64_t v)
{
    uint64_t raw = (uint64_t)v;
    if (from == to) return v;
    if (from == DT_F32) {
        float f = (float)scalar_real(v);
        uint32_t u;
        memcpy(&u, &f, 4);
        raw = u;
    }
    if (from == DT_BF16) {
        float f = (float)scalar_real(v);
        uint32_t u;
        memcpy(&u, &f, 4);
        raw = u >> 16;
    }
    if (to == DT_F64) return (int64_t)raw;
    if (to == DT_F32 || to == DT_BF16) {
        uint32_t u = to == DT_BF16 ? (uint32_t)raw << 16 : (uint32_t)raw;
        float f;
        memcpy(&f, &u, 4);
        return scalar_of((double)f);
    }
    int64_t out;
    uop_eval(UOP_CAST, to, DT_I64, (int64_t[]){ (int64_t)raw }, &out);
    return out;
}

/* One node from the values of its sources; false: undefined there. */
static inline bool eval_node(const UOp *u, const int64_t *v, int64_t *out)
{
    if (u->op == UOP_CONST) return *out = u->arg.i, true;
    if (u->op == UOP_BITCAST) return *out = eval_bitcast((DType)u->src[0]->dtype, (DType)u->dtype, v[0]), true;
    return u->nsrc && uop_eval((Op)u->op, (DType)u->dtype, (DType)u->src[0]->dtype, v, out);
}
#endif
