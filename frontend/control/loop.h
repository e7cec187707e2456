/* Loops of the graph, for importers: recurrent operators, Scan, Loop (control.c). */
#ifndef TG_LOOP_H
#define TG_LOOP_H
#include "frontend/frontend.h"

enum { LOOP_FEW = 8 };          /* iterations that are unrolled, and in which single values are requested */

/* One iteration: from the iteration's number (DT_INDEX: CONST when unrolled, else a DEFINE_VAR) and the states to the
 * next states and this iteration's rows. keep: go on after this iteration (bool scalar), set it to NULL where that is
 * certain. May be called several times. false: failed, the error stands in the graph. */
typedef bool (*LoopBody)(Graph *g, void *user, U step, const U *state, U *next, U *row, U *keep);

typedef struct {
    LoopBody body;
    void *user;
    U trip;                         /* DT_INDEX, a size; or a scalar i64 that depends on data, at most `most` */
    int64_t most;
    U keep;                         /* bool scalar: start at all? NULL: yes */
    uint32_t states, rows;
    const U *init;
    /* where answers are (shape_query.h); NULL: a number of iterations that depends on data is not requested */
    Import *im;
    /* loop_build's own: by how much each iteration makes an axis of a state longer, NULL: not at all */
    U (*grow)[TG_MAX_RANK];
} Loop;

/* last[states]: states after the last iteration. row[rows]: each iteration's row stacked along a new axis 0. Few
 * iterations are unrolled; more become a CALL of "loop" (graph/custom.h), where states keep their shapes, or grow by
 * the same size each iteration. */
bool loop_build(Graph *g, const Loop *l, U *last, U *row);

/* Strings and narrow types are carried as what stands for them, complex numbers as pairs. */
U loop_bare(Graph *g, U x);
U loop_dressed(Graph *g, U x, int32_t kind);

/* x at that step along the axis, which is gone; of an axis without elements, which no iteration requests, zeros */
U loop_slice(Graph *g, U x, int64_t axis, U step);

/* Bodies of CALLs. Replaces what `body` takes from outside by PARAM(slot..), in order of first use. Inside is what
 * depends on a formal (of a loop: its states and, last, its step), and what is as young as node `first`. Returns the
 * new body; captured: the values. */
U lift(Graph *g, U body, const U *formal, uint32_t nformal, uint32_t first, int64_t slot, U **captured,
       uint32_t *count);
static inline bool same_form(U a, U b) { return a->dtype == b->dtype && a->shape == b->shape; }
#endif
