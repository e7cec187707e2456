/* The condition of a Loop: the part of the body that makes it, and the number of iterations that it leaves. */
#ifndef TG_CONDITION_H
#define TG_CONDITION_H
#include "frontend/frontend.h"

/* The body as far as its condition needs it, in every iteration: with fewer states, at[k] being the old number of state
 * k, and without rows. */
GraphDef condition_body(Arena *a, const GraphDef *body, uint32_t states, uint32_t *at, uint32_t *left);

/* The number of iterations, a size, of a loop whose first one takes place and whose condition compares counters with
 * what stays: `while (i < n)`. A counter is an integer to which each iteration adds the same constant. NULL: the
 * condition is of another form. */
U condition_trip(Graph *g, const Ctx *c, const SubGraph *body, uint32_t states, const U *init);
#endif
