/* Random tensor graphs, and data for them, from a seed. Values are small integers where a graph may compare or round,
 * so that a comparison never hangs on the last bit. */
#ifndef TG_RANDOM_GRAPH_H
#define TG_RANDOM_GRAPH_H
#include "graph/build.h"

typedef struct { uint64_t state; } Random;
uint32_t random_below(Random *r, uint32_t n);

enum { RANDOM_INPUTS = 3, RANDOM_VALUES = 40 };
typedef struct {
    Graph *g;
    Random r;
    U input[RANDOM_INPUTS];             /* PARAM(slot) */
    void *data[RANDOM_INPUTS];          /* malloc'ed */
    U value[RANDOM_VALUES];
    bool exact[RANDOM_VALUES];          /* small integers (or integers): every op on the way was exact */
    uint32_t count;
    U var;                              /* a DEFINE_VAR that sizes depend on, or NULL */
    int64_t var_value;
    bool hostile;                       /* floats may be NaN, Inf, -0 and denormal; nothing is cast to integers then */
    U sink;
} RandomGraph;

/* every third seed has a symbolic size, every fifth hostile data */
void random_graph_new(RandomGraph *out, uint64_t seed);
void random_graph_free(RandomGraph *rg);
/* Fills count elements of dtype t with small integers. */
void random_fill(Random *r, DType t, void *data, int64_t count);
#endif
