/* Complex numbers: stored and moved, not computed in, as the standard has them. Such a value is a TUPLE with a tag
 * around its real and its imaginary part; an operator that moves elements moves one, then the other. At a model's
 * border, as in a file, it is one tensor with a last axis of 2. */
#ifndef TG_COMPLEX_H
#define TG_COMPLEX_H
#include "frontend/frontend.h"

bool complex_is(int32_t type);
int32_t complex_type(U x);                                         /* TG_COMPLEX64, TG_COMPLEX128; 0: another value */
DType complex_storage(int32_t type);
U complex_wrap(Graph *g, const U part[2], int32_t type);
U complex_of_pairs(Graph *g, U pairs, int32_t type);               /* [.., 2] */
U complex_pairs(Graph *g, U x);
U complex_constant(Graph *g, const TensorDef *t);
#endif
