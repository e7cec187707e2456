/* A graph over one sample becomes one over many (seed 003): every value that is made of a mapped one gets an axis more,
 * in front. */
#ifndef TG_VMAP_H
#define TG_VMAP_H
#include "graph/build.h"

/* In: values [n] of a graph over x [nx]; mapped[k]: what takes the place of x[k], of its type, [size, its sizes..].
 * Out: out[k]: value k of each sample, [size, its sizes..]; of what is not made of an x, as often as there are samples.
 * Axes elsewhere are the caller's to permute. TG_UNSUPPORTED: an op, or a size, that is not the same for all samples.
 * Maps nest, and follow gradients. */
TgStatus vmap(Graph *g, const U *value, uint32_t n, const U *x, const U *mapped, uint32_t nx, U size, U *out);
#endif
