/* One element of memory as Arg.i encodes it (a float's value as the bits of a double, an integer sign- or
 * zero-extended), and back. i counts elements. */
#ifndef TG_SCALAR_H
#define TG_SCALAR_H
#include "graph/uop.h"

int64_t scalar_load(DType t, const void *base, int64_t i);
void scalar_store(DType t, void *base, int64_t i, int64_t value);
int64_t scalar_bitcast(DType from, DType to, int64_t value);         /* dtypes of one size */
static inline int64_t scalar_of(double v)
{
    int64_t i;
    __builtin_memcpy(&i, &v, 8);
    return i;
}

static inline double scalar_real(int64_t i)
{
    double v;
    __builtin_memcpy(&v, &i, 8);
    return v;
}
#endif
