/* A Loop that is run round by round, by programs of its body. */
#ifndef TG_ROUNDS_H
#define TG_ROUNDS_H
#include "frontend/import.h"

bool loop_is_run(const Ctx *c);                     /* what follows has been called for this node by an earlier import: with what was asked for since, it might be unrolled, as constants */
/* The results of a Loop whose body has as many inputs and outputs as its node asks for. NULL: it has failed, as the graph says, or something must be asked for first. */
U loop_by_rounds(Graph *g, const Ctx *c, const SubGraph *body);
#endif
