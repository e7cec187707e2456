/* What the files of rangeify share: rangeify.c sweeps, facts.c knows nodes, demand.c what is wanted where, decide.c
 * what is stored, index_map.c how an index passes through a node, cut.c builds kernels. */
#ifndef TG_RANGEIFY_H
#define TG_RANGEIFY_H
#include "graph/blocks.h"
#include "graph/guard.h"
#include "graph/rewrite.h"
#include "sched/sched.h"

/* A demand for a node's value at an index, in one kernel. Inlined nodes have one expression an instance; staged ones
 * are loaded. */
typedef struct Inst {
    const UOp *node, *valid, *expr;    /* valid: the value counts only where it is true; NULL: always */
    uint32_t cut;
    const UOp **idx;
    uint64_t enclosing;                /* RANGEs under which the value is computed when it is inlined here */
    struct Inst **child;               /* a source's demand; NULL where it has none */
    const UOp **range;                 /* of a REDUCE */
    uint32_t nrange, number;
    bool root;                         /* computes a staged node; others of a staged node load */
    struct Inst *next;
    uint32_t hash;                     /* of node, cut, valid and idx */
} Inst;

/* A kernel in the making. */
typedef struct {
    const UOp *buffer, *root;
    Inst *inst;
    const UOp **store;                 /* indices of the store */
    const UOp *range[64];              /* by number */
    uint32_t nrange, nout;
    /* stores a part of a join: after the kernel that stores the part itself, if there is one */
    bool join;
    uint64_t out;                      /* RANGEs of the store */
    /* sets of outer ranges on which inlined reduces depend: any two contain one another */
    uint64_t chain[16];
    uint32_t nchain;
    const UOp *heavy;                  /* the long sum that is computed in the loops of the store; NULL: none yet */
} Cut;

/* GETTUPLEs by number, NULL where there is none */
typedef struct { const UOp **of; uint32_t n; } Results;

struct Rangeify {
    Graph *g;
    Arena *arena;
    const Target *target;
    Rewriter *simplify;
    Inst **inst;                       /* by node id: list of demands */
    const UOp **buffer;                /* by node id: where a staged node lives, or NULL */
    uint8_t *forced, *reduces, *constant, *called;
    uint8_t *stored;                    /* by node id: will surely lie in memory (foresee) */
    uint8_t *multiplied, *users;       /* by node id: is an operand of products; how many nodes read it, at most 2 */
    uint8_t *shown;                    /* by node id: a view or a reduce reads it */
    /* by node id: element-wise operations one upon another, since memory or a reduce */
    uint16_t *depth;
    float *cost;                       /* by node id: element-wise work of the inlined cone */
    uint8_t *loads;                    /* by node id: buffers that it reads */
    const UOp **join;                  /* CATs that are stored, in the order of the sweep */
    uint32_t njoin;
    Cut *cut;
    uint32_t ncut, cut_cap, ninst, nnode;
    Inst **all;
    uint32_t all_cap;
    Inst **place;                      /* demands by what is requested: open addressing */
    uint32_t nplace;
    Placements *placements;                      /* where values live, when that is known; or NULL */
    Choices *choices;                  /* or NULL */
    const uint32_t *name;              /* by node id: in lists of choices */
    struct Body *body;                 /* FUNCTIONs that are scheduled (function.c) */
    Results *results;                  /* by node id of a CALL */
    const UOp **copied;                /* make_kernel's: by node id, what a node became; NULL between kernels */
};

/* facts.c */
bool node_is_leaf(const UOp *u);
bool node_is_memory(const UOp *u);
uint32_t node_values(const UOp *u);        /* sources that carry values (sizes and offsets of movement ops do not) */
bool node_only_widens(const UOp *u);       /* a wider copy of a constant, which is none */
bool node_widens(const UOp *u);            /* a CAST that keeps every value; also that of short integers to f32 */
double node_base(const UOp *u);            /* elements of what views look at, the fewest on the way */
bool node_contracts(const UOp *u);         /* a sum of products whose operands are smaller than the product */
double facts_operations(Rangeify *r, const UOp *u);     /* of an element, each once, down to what lies in memory */
void facts_gather(Rangeify *r, const UOp *const *order, uint32_t n);
void facts_foresee(Rangeify *r, const UOp *const *order, uint32_t n);      /* what will surely be stored */

/* demand.c */
Inst *inst_new(Rangeify *r, const UOp *u, uint32_t cut, const UOp *const *idx, const UOp *valid, uint64_t enclosing);
Inst *inst_demand(Rangeify *r, const UOp *u, uint32_t cut, const UOp *const *idx, const UOp *valid, uint64_t enclosing);
void inst_push(Rangeify *r, Inst *i);      /* hands a demand on to the sources of its node */
/* an integer that is made of sizes and counts only, at idx; NULL: it is not */
const UOp *inst_position(Rangeify *r, const UOp *u, const UOp *const *idx);
const UOp *inst_placeholder(Rangeify *r, const UOp *const *idx, uint32_t n, int64_t number);
const UOp *cut_range(Rangeify *r, Cut *c, const UOp *bound, AxisType type);      /* a fresh one */
double cut_extent(const Cut *c, uint64_t ranges);
uint64_t index_ranges(const UOp *const *idx, uint32_t n);

/* decide.c */
/* a node with demands is staged in memory, else inlined into each of its consumers */
bool is_stored(Rangeify *r, const UOp *u);
/* May a list choose (choices.h)? What is stored can be inlined; what is not is worth being stored, perhaps. */
bool is_open(const Rangeify *r, const UOp *u);
bool can_inline(const Rangeify *r, const UOp *u);
bool is_repeated(const Rangeify *r, const UOp *u);
bool node_fills(const UOp *u);                  /* a padding with another number than 0: no more than a gate */

/* The index and validity at which source k of node is wanted when node is wanted at idx under valid. Not for REDUCE.
 * gather: stands for the value of an index tensor. */
void index_source(Rangeify *r, const UOp *node, uint32_t k, const UOp *const *idx, const UOp *valid,
                  const UOp *const *gather, const UOp **out_idx, const UOp **out_valid);
/* the index in a value of shape `from` of what is at idx where it has shape `to` */
void index_reshape(Rangeify *r, const Shape *to, const Shape *from, const UOp *const *idx, const UOp **out);
const UOp *index_simplify(Rangeify *r, const UOp *u);
const UOp *index_math(Graph *g, Op op, const UOp *a, const UOp *b);
static inline const UOp *index_add(Graph *g, const UOp *a, const UOp *b) { return index_math(g, UOP_ADD, a, b); }
static inline const UOp *element_at(Graph *g, const UOp *memory, const UOp *at)
{
    return UOP(g, UOP_INDEX, DT_VOID, NO_ARG, memory, at);
}
/* Is the range among those that u (a REDUCE, an END) ends? */
bool ends_range(const UOp *u, const UOp *range);

/* What an OptOp puts in place of one range: its value, and the ranges that stand in END and REDUCE lists instead; where
 * the gate is false nothing is read, stored or summed. */
typedef struct {
    const UOp *old, *value, *list[6];
    uint32_t n;
    const UOp *gate;
} Change;
uint64_t opt_numbers(const Kernel *k);                                  /* of all its ranges, those of stages too */
void kernel_change(Kernel *k, const Change *c);                          /* optimize.c */
/* u of new sources, in a loop that was padded: no LOAD or STORE where the gate is false, and no GUARD looks there */
const UOp *with_gate(Graph *g, const UOp *u, const UOp *const *src, const UOp *gate);
/* A GUARD as kernels have it: with its word, and checked only where the value counts. */
const UOp *guarded(Rangeify *r, const UOp *guard, const UOp *valid, const UOp *const *src);
/* work.c: float operations that each cut's part of the graph needs, in the arena; r->all is sorted by node. */
double *cuts_need(const Rangeify *r);
/* Builds every instance's expression and the kernels; appends to the schedule in order. */
TgStatus cut_kernels(Rangeify *r, Schedule *out);
/* The items of a CALL of "loop" or "if" (control.c). result[nresult]: where the GETTUPLEs of the call lie, or NULL
 * where nobody reads one; nobody reads more. */
TgStatus control_items(Rangeify *r, Schedule *s, const UOp *call, const UOp *const *result, uint32_t nresult);
/* loop.c: of a loop */
TgStatus loop_items(Rangeify *r, Schedule *s, const UOp *call, const UOp *const *result, uint32_t nresult);
static inline const UOp *memory_of(const Rangeify *r, const UOp *u) { return r->buffer[u->id] ? r->buffer[u->id] : u; }
/* function.c: the items of a CALL of a FUNCTION; n results. */
TgStatus function_items(Rangeify *r, Schedule *s, const UOp *call, const UOp *const *result, uint32_t n);
void functions_free(Rangeify *r);
#endif
