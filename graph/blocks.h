/* Functions: a part of a graph that is written once and called with different values.
 *   FUNCTION(TUPLE(values..); base): the values are made of PARAM(base + k) and of what is the same for all calls; base
 * distinguishes its PARAMs from others'. GETTUPLE(CALL(FUNCTION, arguments..), sizes; k): value k with the arguments in
 * the place of the PARAMs. A CALL's arguments and results lie in memory. Placements: where the scheduler keeps each
 * value, by node id. A pass that puts one node in the place of another hands its placement on.
 */
#ifndef TG_BLOCKS_H
#define TG_BLOCKS_H
#include "graph/uop.h"

/* not decided; no place; memory of its own; memory that it shares with another */
typedef enum { PLACED_OPEN, PLACED_INLINE, PLACED_MEMORY, PLACED_JOIN } Placement;
/* order: what is computed before what, + 1; 0: as ids are */
typedef struct { uint8_t *placement; uint32_t *order, cap; } Placements;
Placement placement_of(const Placements *h, const UOp *u);                                 /* h may be NULL */
uint32_t placement_order(const Placements *h, const UOp *u);
void placement_set(Placements *h, const UOp *u, Placement placement, uint32_t order);
void placement_move(Placements *h, const UOp *to, const UOp *from);
void placements_free(Placements *h);

static inline bool calls_function(const UOp *u) { return u->op == UOP_CALL && u->src[0]->op == UOP_FUNCTION; }
/* A value of a body has a scope of its own: walks of the graph around it stop here. */
static inline bool is_scope(const UOp *u) { return u->op == UOP_FUNCTION || u->op == UOP_CUSTOMFUNCTION; }
/* What root reaches, sources first in the order of ids, without bodies. */
const UOp **graph_outer(Graph *g, const UOp *root, Arena *arena, uint32_t *count);
/* Rebuilds what root reaches with memo's nodes (by id) in the place of their keys; bodies are left alone. placements
 * may be NULL. */
const UOp *graph_rebuild(Graph *g, const UOp *root, const UOp **memo, Placements *placements);
/* Every CALL of a FUNCTION replaced by its values, inner ones too. */
const UOp *graph_inline(Graph *g, const UOp *root);
/* Parts that repeat become FUNCTIONs and CALLs; the sink itself when none do. */
const UOp *graph_blocks(Graph *g, const UOp *sink, Placements *placements);
#endif
