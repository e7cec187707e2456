/* What the files of an import share: the frame of names in which a node stands. */
#ifndef TG_IMPORT_H
#define TG_IMPORT_H
#include "frontend/values/complex.h"
#include "frontend/values/narrow.h"
#include "frontend/values/text.h"
#include "graph/base/map.h"

/* IMPORT_KNOWN: elements of a value that is computed as it appears; IMPORT_LITERAL: of one that becomes numbers of the
 * graph; IMPORT_DEPTH: graphs and functions inside one another. */
enum { IMPORT_KNOWN = 1024, IMPORT_LITERAL = 16, IMPORT_DEPTH = 64 };

/* A name's value. An initializer becomes a constant when it is first used. from_data: the data of a run have a part in
 * its value or sizes, which are built in. missing: a function's input that its call leaves out, and so do the nodes
 * inside. */
typedef struct {
    U value;
    const TensorDef *init;
    bool known, from_data, missing;
} Value;

/* One run of import_model, shared by its frames. */
typedef struct {
    Graph *g;
    Arena *arena;
    const Model *model;
    const TgTensor *const *input;   /* tensors, those inside sequences and maps one by one: their PARAMs' slots */
    uint32_t ninput, depth;
    uint64_t nodes;                 /* imported so far, bodies of functions each time */
    bool *need;                     /* [ninput] those whose values are wanted */
    Known *known;                   /* answers so far; NULL: nothing is queried */
    U question;                     /* the last one that can be queried, or NULL */
    const Dims *dims;               /* sizes that are variables, or NULL */
    StringPool *pool;
} Run;

/* A graph, subgraph or function body being imported: its names, and where names, opsets and attribute references that
 * it lacks are found. */
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

/* border.c. port: of the input, whose sizes may be variables. slot: of its first tensor; moved behind its last. baked:
 * by slot. */
U border_input(Run *run, const TgTensor *t, uint32_t port, uint32_t *slot, const bool *baked);
U border_constant(const Run *run, const TgTensor *t);
/* what out says of outputs, and its sink */
TgStatus border_outputs(Imported *out, const GraphDef *d, const UOp *const *value);
/* sharding.c: the configuration of so many devices; NULL: there is none. A node's input or output as the configuration
 * that is obeyed, if any, has it. */
const ConfigurationDef *sharding_configuration(const Model *m, int32_t devices);
TgStatus sharding_apply(Import *im, const Node *n, const char *tensor, U *value);
/* import.c. In the frame, or those around it; NULL: it has no value yet. A new name of the frame. The value of a name
 * that node c, or the graph's output (NULL), wants. */
Value *import_find(Import *im, const char *name);
Value *import_bind(Import *im, const char *name);
TgStatus import_lookup(U *out, Import *im, const Ctx *c, const char *name);
void import_initializers(Import *im, const GraphDef *d);
TgStatus import_nodes(Import *im, const Node *node, uint32_t n);
int64_t import_opset(const OpsetDef *o, uint32_t n, const char *domain);      /* 0: not imported */
const FunctionDef *import_local(const Model *m, const Node *n);           /* the model's function; NULL: an operator */
/* constants.c. A number, or a few; a value made of known ones: computed now when small, so that nothing of its formula
 * stays. */
bool import_is_literal(U u);
U import_fold(Graph *g, U u);
/* A failure inside of an importer stays in the graph too, with its own place: the importer may return NULL. */
TgStatus import_failure(Graph *g, TgStatus status);
/* Inside a function an attribute may refer to one of the calling node, which may do so again one call further out: what
 * is meant, and in *im the frame in which that is written. */
const Attr *attr_resolve(const Attr *a, Import **im);
const char *node_label(const Node *n);          /* its name, else its first output's */
/* What tensor `y` of the graph around node c would be if its tensors `name` had these values: the nodes between are
 * imported once more. */
TgStatus import_value(U *out, const Ctx *c, const char *y, const char *const *name, const U *value, uint32_t n);
/* A tensor that is a TUPLE around what stands for it: strings (TG_STRING) and narrow types around one tensor, complex
 * types around two; kind 0: a plain one. */
int32_t special_kind(U u);
uint32_t special_parts(int32_t kind);
U special_part(U u, uint32_t k);                /* u itself where it is plain */
U special_wrap(Graph *g, const U *part, int32_t kind);
void import_inputs(Imported *out, const Run *run);      /* what out says of inputs */
void import_needs(Import *im, U x);             /* notes the model's inputs that x is made of */
/* Is x an input of the model, of one integer? Then what this call gives it. */
bool import_at_hand(const Import *im, U x, int64_t *out);
/* Is x made of a few integers (or single floats, when wanted) of inputs, so that importing again with their values will
 * know it? Then notes them; the importer fails with TG_UNSUPPORTED. */
bool import_may_know(Import *im, U x, bool floats);
/* Is x made of a few integers of inputs by arithmetic that sizes have, so that it may become a variable? */
bool import_may_be_size(Import *im, U x);
#endif
