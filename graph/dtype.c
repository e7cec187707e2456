/* Element types, from the rows of dtype.def: least and largest values, what a number becomes when it is stored as one.
 */
#include <math.h>

#include "graph/uop.h"

const DTypeInfo dtype_info[DT_COUNT] = {
#define TYPE(id, text, c, nbits, k, onnx_type) [DT_##id] = { text, c, nbits, KIND_##k, onnx_type },
#include "graph/dtype.def"
#undef TYPE
};

DType dtype_from_onnx(int32_t type)
{
    for (int t = 1; t < DT_COUNT && type > 0; t++)
        if (dtype_info[t].onnx == type) return (DType)t;
    return DT_VOID;
}

int64_t dtype_min(DType t)
{
    const DTypeInfo *i = &dtype_info[t];
    if (i->kind == KIND_BOOL || i->kind == KIND_UINT) return 0;
    return i->kind == KIND_SINT && i->bits < 64 ? -(INT64_C(1) << (i->bits - 1)) : INT64_MIN;
}

int64_t dtype_max(DType t)
{
    const DTypeInfo *i = &dtype_info[t];
    if (i->kind == KIND_BOOL) return 1;
    if (i->kind == KIND_FLOAT || i->kind == KIND_VOID || i->bits == 64) return INT64_MAX;
    return (INT64_C(1) << (i->bits - (i->kind == KIND_SINT))) - 1;
}

static double round_bits(double v, int digits, int least_exp, double largest)
{
    if (v == 0 || !isfinite(v)) return v;
    int e;
    frexp(v, &e);
    int shift = e - digits > least_exp ? e - digits : least_exp;
    double r = ldexp(nearbyint(ldexp(v, -shift)), shift);
    return fabs(r) > largest ? copysign(INFINITY, v) : r;
}

double dtype_round(DType t, double v)
{
    if (t == DT_F32) return (double)(float)v;
    if (t == DT_F16) return round_bits(v, 11, -24, 65504);
    if (t == DT_BF16) return round_bits(v, 8, -133, 3.3895313892515355e38);
    return v;
}

int64_t dtype_wrap(DType t, int64_t v)
{
    int bits = dtype_info[t].bits;
    if (dtype_info[t].kind == KIND_BOOL) return v != 0;
    if (bits == 64) return v;
    uint64_t m = (UINT64_C(1) << bits) - 1, u = (uint64_t)v & m;
    return dtype_info[t].kind == KIND_SINT && u >> (bits - 1) ? (int64_t)(u | ~m) : (int64_t)u;
}
