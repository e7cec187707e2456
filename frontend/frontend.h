/* From a Model to a tensor graph: what operators mean, in primitives. import.c walks nodes in order; importers
 * (ops_*.c) are rows of ops.def. */
#ifndef TG_FRONTEND_H
#define TG_FRONTEND_H
#include "frontend/import/dims.h"

/* What an importer sees of one node. in[0] is what it works on; the others go by the names of the standard, in[Conv_W]
 * (frontend/input_names.h, made at build time by scripts/input_names.py). Inputs that are absent are NULL; in[] may be
 * read up to CTX_INPUTS beyond nin. Those that its row calls required are there. */
typedef struct Import Import;
enum { CTX_INPUTS = 16 };
typedef struct {
    Import *im;
    const Node *node;
    int64_t opset;                  /* version of the node's domain that the model imports */
    const U *in;
    uint32_t nin, nout;
    bool from_data;                      /* the data of a run have a part in what it sees (import.h) */
    /* in[] holds numbers of strings, which may be moved and not mixed (TEXT_LINEAR in text.h) */
    bool text;
} Ctx;

/* One importer: returns the value, or `outputs` of several. An ERROR node (graph_fail) or NULL with a recorded status
 * fails the import. A sequence is a TUPLE as the one value of a node. least, most: inputs that must be there, and that
 * may be. */
typedef U (*Importer)(Graph *g, const Ctx *c);
typedef struct {
    const char *domain, *name;
    int32_t since;
    uint32_t least, most;
    Importer fn;
} OpRow;
extern const OpRow op_rows[];
extern const uint32_t op_row_count;
const OpRow *op_find(const char *domain, const char *name, int64_t opset);     /* the newest row not newer than opset */

/* The node's result from n values of which it wants the first nout; NULL for one that it cannot have. */
U outputs(Graph *g, const Ctx *c, const U *v, uint32_t n);
/* Half precision is stored, not computed in: f16 and bf16 become f32 at a node's inputs, and are rounded once at its
 * outputs. */
U wide(Graph *g, U x);
U narrow(Graph *g, U y, U like);                               /* y in the dtype of like */

static inline bool ok(Graph *g) { return graph_error(g) == TG_OK; }
static inline DType type_of(U x) { return (DType)x->dtype; }
#define K(v) scalar(g, type_of(x), (v))          /* a constant of the type of x, which is the operand at hand */

/* Attributes; a wrong type records an error in the graph and returns the default. */
int64_t attr_int(Graph *g, const Ctx *c, const char *name, int64_t otherwise);
/* defaults are of single precision as well */
double attr_float(Graph *g, const Ctx *c, const char *name, double otherwise);
const char *attr_str(Graph *g, const Ctx *c, const char *name, const char *otherwise);
bool attr_ints(Graph *g, const Ctx *c, const char *name, const int64_t **out, uint32_t *n);        /* false: absent */
bool attr_floats(Graph *g, const Ctx *c, const char *name, const float **out, uint32_t *n);
/* references inside functions are followed; NULL: absent */
const Attr *attr_find(const Ctx *c, const char *name);
const Attr *attr_typed(Graph *g, const Ctx *c, const char *name, AttrType type);
bool attr_bool(Graph *g, const Ctx *c, const char *name, bool otherwise);     /* 0 or 1 */
/* conv with the node's auto_pad, pads, strides, dilations, group (ops/nn.c) */
U conv_node(Graph *g, const Ctx *c, U x, U w);
/* that operator of the standard on these inputs, with the node's attributes; NULL: it failed (ops/microsoft.c) */
U standard_node(Graph *g, const Ctx *c, const char *name, int64_t opset, const U *in, uint32_t n);
/* fn, as if those inputs (a bit each) and its results had their channels on axis 1; they are last (ops/nn.c) */
U from_channels_last(Graph *g, const Ctx *c, uint32_t inputs, Importer fn);
/* a tensor of the file as a constant; small ones as scalars that fold */
U import_tensor(Graph *g, const TensorDef *t);
U fail_node(Graph *g, const Ctx *c, TgStatus code, const char *field, const char *fmt, ...)
    __attribute__((format(printf, 5, 6)));
/* An axis attribute or value normalised to 0 .. rank-1; error names the field. */
bool axis_ok(Graph *g, const Ctx *c, const char *field, int64_t axis, int64_t rank, int64_t *out);
/* a word of a list that ends with NULL: its place */
bool attr_choice(Graph *g, const Ctx *c, const char *name, const char *otherwise, const char *const *allowed, int *out);
/* DT_VOID: a type that is not computed in, or none */
DType attr_dtype(Graph *g, const Ctx *c, const char *name, int64_t otherwise);
DType attr_float_type(Graph *g, const Ctx *c, const char *name, int64_t otherwise); /* of floats, or the import fails */
/* Is input i, where it is there, a tensor of these n sizes? NULL: any. */
bool shape_ok(Graph *g, const Ctx *c, uint32_t i, const U *dim, uint32_t n);
/* does it broadcast to them, and make nothing larger? */
bool spreads_ok(Graph *g, const Ctx *c, uint32_t i, const U *dim, uint32_t n);
/* Values of a small integer input (shape, axes, pads), folded; false and an error when they depend on data. */
bool input_ints(Graph *g, const Ctx *c, uint32_t i, const int64_t **out, uint32_t *n);
/* The same as DT_INDEX scalars, symbolic sizes allowed. */
bool input_sizes(Graph *g, const Ctx *c, uint32_t i, const U **out, uint32_t *n);
/* A scalar i64 as the size that it is, or NULL. */
U size_of_value(Graph *g, U v);
/* Input i as i64, whose elements are positions below size, or counts up to most; what is neither fails the run, or the
 * import where it is known. */
U input_place(Graph *g, const Ctx *c, uint32_t i, U size);
U input_count(Graph *g, const Ctx *c, uint32_t i, U most);
/* The CONST that x's one element is known to be; NULL: more, fewer, or not known. */
U known_scalar(Graph *g, U x);
/* The error that input i's value is needed but depends on data; when that is a small model input, the import is tried
 * again with its value. */
U fail_data(Graph *g, const Ctx *c, uint32_t i);
/* Whether a scalar that only a run can tell is not 0; false: that is not known yet, the importer fails and is tried
 * again with the answer. */
bool said_to_hold(Graph *g, const Ctx *c, U x, bool *holds);
/* x, an i64 scalar made of input i that only a run can tell, as a size; NULL: not known yet, likewise. */
U queried_size(Graph *g, const Ctx *c, uint32_t i, U x);
/* axes of a node: attribute, or input i of later opsets (i < 0: none); normalised, each once. All axes of rank when
 * absent. *given tells. */
bool node_axes(Graph *g, const Ctx *c, int32_t i, int64_t rank, const int64_t **out, uint32_t *n, bool *given);
/* A graph that is a node's attribute, and the frame whose names it sees: where it is written, though calls of functions
 * may pass it on. */
typedef struct { const GraphDef *def; Import *frame; } SubGraph;
/* false: it is missing, or something else, and the import fails */
bool attr_graph(Graph *g, const Ctx *c, const char *name, SubGraph *out);
/* Imports `sub` of c's node with these values for its inputs; outputs to out. */
TgStatus import_subgraph(Graph *g, const Ctx *c, const SubGraph *sub, const U *in, uint32_t nin, U *out, uint32_t nout);

/* What the imports of a program have come to know: inputs whose values are part of the graph, and values that only a
 * run can tell (shape_query.h). All of it stays as long as arena. */
typedef struct { uint32_t node; TgTensor value; } Answer;
/* Where the body of a loop stands whose iterations are models of their own: its frame, and of each input the frame
 * whose name it is: 0 that one, 1 that of the call around it, and so on. */
typedef struct { const Import *frame; const uint32_t *level; } Outside;
/* Sessions of such bodies, made by whoever makes programs: an import knows no more of sessions than this. */
typedef struct {
    const void *user;
    /* with the program's device; model and outside must outlive *body, which tg_run runs */
    TgStatus (*open)(TgSession **body, const void *user, Model *model, const Outside *outside);
    void (*close)(TgSession *body);
} Bodies;
typedef struct {
    Arena *arena;
    bool *baked;
    Answer *item;
    uint32_t n, room, queries, used; /* queries: so far, forgotten ones too; used: how often answers were */
    struct Iterations *iterations;          /* loops that were run iteration by iteration (iterations.h), by */
    Bodies bodies;
    int64_t pieces;                 /* ProgramMaker's */
    /* an import found that runs make strings; what looks into strings must know them at import: small inputs of them
     * become part of the graph */
    bool makes_text, strings;
    const Outside *outside;         /* of a loop's body, or NULL */
} Known;

typedef struct {
    Graph *g;
    const UOp *sink;                /* SINK of the output tensors; input tensors are PARAM(slot) */
    /* tensors, in the order of the model's ports, those inside sequences and maps one by one (ports.h) */
    uint32_t ninput, noutput;
    /* [the model's outputs] what holds those tensors; their types, shapes and data are the program's */
    TgTensor *output;
    struct StringPool *pool;        /* of the strings below (text.h) */
    bool makes_text;                /* the run makes strings of its own */
    const bool *input_text, *output_text;   /* [ninput], [noutput]: the graph sees i64 numbers of the pool's strings */
    /* the TgType of those whose storage differs from their file form (narrow.h; of outputs also complex.h), else 0 */
    const int32_t *input_narrow, *output_narrow;
    /* [ninput] the value, not only the shape, of this input is part of the graph: sizes depend on it */
    const bool *baked;
    /* the first output is what this node would be, which an import must know before it can be made */
    bool question;
    uint32_t node;
} Imported;
/* input[k]: concrete type and shape, of sequences each tensor's (data may be NULL; small integer inputs on which shapes
 * depend need it). dims: sizes that are variables, less of them where that is needed; NULL: none. known: what earlier
 * tries have found; NULL: it asks nothing. */
TgStatus import_model(Imported *out, const Model *m, const TgTensor *input, uint32_t ninput, Dims *dims, Known *known);
/* a later opset may give an operator another meaning: it is refused, not guessed */
TgStatus import_opsets(const Model *m);
/* Every unsupported operator of the model at once, grouped, a line each; returns how many. *ports: how many inputs and
 * outputs are not supported, a line each as well. */
uint32_t import_unsupported(const Model *m, uint32_t *ports, void (*emit)(void *user, const char *line), void *user);
#endif
