/* A Loop or Scan that is run iteration by iteration, by programs of its body. */
#ifndef TG_ROUNDS_H
#define TG_ROUNDS_H
#include "frontend/import/import.h"

/* what follows has been called for this node by an earlier import: with what was requested since, it might be unrolled,
 * as constants */
bool loop_is_run(const Ctx *c);
/* counted: of a Loop, whose body is given the iteration's number and a condition, and tells whether to go on. trip,
 * keep: NULL: without limit, true. scan: of a Scan, what the body is given slices of behind its states, by axis, last
 * first where reverse says so; the body has as many inputs and outputs as that makes. */
typedef struct {
    SubGraph body;
    bool counted;
    U trip, keep;
    const U *state, *scan;
    uint32_t states, scans, rows;
    const int64_t *axis, *reverse;
} RoundsNode;
/* Its states and stacked rows. NULL: it has failed, as the graph says, or something must be requested first. */
U *loop_by_iterations(Graph *g, const Ctx *c, const RoundsNode *n);
#endif
