/* What follows from a node's op, argument and sources: see derive.c. */
#ifndef TG_DERIVE_H
#define TG_DERIVE_H
#include "graph/uop.h"

typedef struct { int64_t lo, hi; } Bounds;
const Shape *derive_shape(Graph *g, Op op, Arg arg, const UOp *const *src, uint32_t n);
DType derive_dtype(Op op, DType given, Arg arg, const UOp *const *src, uint32_t n);
/* of the values; floats have none */
Bounds derive_bounds(Op op, DType t, Arg arg, const UOp *const *src, uint32_t n);
/* those that are open, a bit each */
uint64_t derive_ranges(Op op, const UOp *const *src, uint32_t n, Arg arg);
#endif
