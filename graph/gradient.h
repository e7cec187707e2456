/* Reverse-mode gradients of tensor graphs: rows of graph/rules/gradient.c from the value back to what it is made of. */
#ifndef TG_GRADIENT_H
#define TG_GRADIENT_H
#include "graph/build.h"

/* out[k]: the gradient of the sum of y times dy with respect to x[k], of x[k]'s type and shape; zeros where y is not
 * made of it. x: PARAMs. */
TgStatus gradient(Graph *g, U y, U dy, const U *x, uint32_t n, U *out);
#endif
