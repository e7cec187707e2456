/* What the rewrites of sums of products share: which axis of an operand is which axis of the product, through views. */
#ifndef TG_SUMS_H
#define TG_SUMS_H
#include "graph/build.h"
#include "sched/sched.h"

/* u is its first source, each element there or repeated, or a zero beside them. */
bool view_is(U u);
/* The axis of what a view looks at that is this axis of the view, whole; -1: there is none. */
int view_axis(U view, int axis);
/* Size of u along axis of the product p, 1 where it is the same all along. */
int64_t operand_extent(U p, U u, uint32_t axis);
/* value[i] along an axis of n that begins at i, in the shape of i. */
U choose_value(Graph *g, U i, const U *value, int64_t n);
#endif
