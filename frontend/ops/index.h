/* What index.c and scatter.c share. */
#ifndef TG_OPS_INDEX_H
#define TG_OPS_INDEX_H
#include "frontend/import/import.h"

/* Values of a constant i32 or i64 tensor; NULL when it is not known. */
const int64_t *const_ints(Graph *g, U x, uint32_t *n);
U ints_const(Graph *g, const int64_t *v, const int64_t *shape, uint32_t rank);      /* i64, of values that stay */
/* Known indices are checked here, others by the builder's guard; stride picks every stride-th value from `from` (the
 * columns of GatherND). */
bool known_ok(Graph *g, const Ctx *c, const int64_t *v, uint32_t n, uint32_t from, uint32_t stride, int64_t size);
#endif
