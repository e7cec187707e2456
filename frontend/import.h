/* What import.c and attr.c share: the frame of names in which a node stands. */
#ifndef TG_IMPORT_H
#define TG_IMPORT_H
#include "frontend/narrow.h"
#include "frontend/text.h"
#include "graph/base/map.h"

/* A name's value. An initializer becomes a constant when it is first asked for. */
typedef struct { U value; const TensorDef *init; bool known; } Value;

/* One run of import_model, shared by its frames. */
typedef struct {
    Graph *g;
    Arena *arena;
    const Model *model;
    const TgTensor *input;
    uint32_t ninput, depth;
    uint64_t nodes;                 /* imported so far, bodies of functions each time */
    bool *need;                     /* inputs whose values are wanted */
    const Dims *dims;               /* sizes that are variables, or NULL */
    StringPool *pool;
} Run;

/* A graph, subgraph or function body being imported: its names, and where names, opsets and attribute references that it lacks are found. */
struct Import {
    Run *run;
    Import *up;                     /* enclosing graph whose names are visible, or NULL */
    Map name;                       /* -> Value */
    const Node *node;               /* its nodes, in order */
    uint32_t nnode;
    const OpsetDef *opset;
    uint32_t nopset;
    const FunctionDef *function;    /* innermost function, or NULL, and the node that calls it */
    const Ctx *call;
};

const char *node_label(const Node *n);          /* its name, else its first output's */
bool takes_sequences(const char *op);           /* ops_seq.c: may inputs be TUPLEs? */
/* What tensor `y` of the graph around node c would be if its tensors `name` had these values: the nodes between are imported once more. */
TgStatus import_value(U *out, const Ctx *c, const char *y, const char *const *name, const U *value, uint32_t n);
void import_needs(Import *im, U x);             /* notes the model's inputs that x is made of */
/* Is x made of a few integers (or single floats, when asked) of inputs, so that importing again with their values will know it? Then notes them; the importer fails with TG_UNSUPPORTED. */
bool import_may_know(Import *im, U x, bool floats);
#endif
