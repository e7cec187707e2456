/* A forest: trees as lists of nodes, as ops/trees.c reads them, and what rows get from it. */
#ifndef TG_FOREST_H
#define TG_FOREST_H
#include "frontend/ops/ml.h"

typedef enum { BRANCH_LEQ, BRANCH_LT, BRANCH_GTE, BRANCH_GT, BRANCH_EQ, BRANCH_NEQ, LEAF, MODE_COUNT } Branch;
typedef enum { JOIN_AVERAGE, JOIN_SUM, JOIN_MIN, JOIN_MAX, JOIN_COUNT } Join;

typedef struct {
    uint32_t nodes, trees, depth, targets;
    int64_t *feature, *yes, *no, *mode, *root, *missing;        /* missing: does NaN go the way of yes? */
    uint32_t *deep;                                             /* [trees] the longest path of each, by forest_ok */
    double *value, *weight;
    bool wide;                                                  /* weights are doubles, and so are their sums */
    Join join;
    Post post;
} Forest;

/* Features that are there, and the longest path of each tree and of all; false: it is no forest over rows x, and the
 * node fails. */
bool forest_ok(Graph *g, const Ctx *c, U x, Forest *f);
/* What rows x [n, features] get for each target, in type t: [n, targets]. Puts the trees in order of their depth. */
U forest_scores(Graph *g, U x, Forest *f, DType t);
U forest_table(Graph *g, DType t, const double *v, int64_t n);           /* constants */
#endif
