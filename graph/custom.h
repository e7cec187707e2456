/* CUSTOMFUNCTION: what is opaque to the compiler, a function with a name and attributes that a CALL applies to values.
 *   CALL(CUSTOMFUNCTION(meta..; name, attributes), arguments..); its results are GETTUPLE(CALL, sizes; k). Arguments
 * and results are tensors. A host function (frontend/host/host.c, by name): meta are the DEFINE_VARs that it sets,
 * sizes of its results that depend on data. Whatever uses such a variable comes after the call, also when it reads
 * none of its results. "loop": meta are TUPLE body, DEFINE_VAR step [, DEFINE_VAR count]; attributes are a LoopAttr.
 * Arguments: trip (scalar i64), keep (scalar bool: go on?), the initial states, then values that the body captures.
 * body: TUPLE(next states.., rows.., [keep]) of the same types and shapes as the states (or of sizes that are linear in
 * the step, of one that grows), made of PARAM(base + k), k counting states then captured values, of the DEFINE_VAR step
 * = 0, 1 .. and of constants. Results: the last states (or, for bits of history, all values of a state, the initial one
 * first: [trip + 1, ..]), then each row stacked along a new axis 0 of size trip, or of `count` when a condition or the
 * data set the number of iterations. "if": meta are TUPLE then, TUPLE else, of equal types and shapes, over PARAM(base
 * + k) of captured values; attributes are a BranchAttr. Arguments: condition (scalar bool), captured. A body is a scope
 * of its own: its PARAMs belong to the CALL (base distinguishes them from others'), and no pass moves nodes across its
 * edge.
 */
#ifndef TG_CUSTOM_H
#define TG_CUSTOM_H
#include "graph/uop.h"

/* trip -1: data-dependent */
typedef struct {
    int64_t base, trip;
    uint64_t history;
    uint32_t states, rows, captured, has_keep, counted, unused;
} LoopAttr;
typedef struct { int64_t base; uint32_t values, captured; } BranchAttr;
static inline bool loop_keeps_all(const LoopAttr *a, uint32_t state) { return state < 64 && a->history >> state & 1; }

/* A fresh DEFINE_VAR for a data-dependent size. */
const UOp *size_var(Graph *g, const char *what, int64_t least, int64_t largest);
bool size_from_data(Graph *g, const UOp *size);              /* it depends on one */
/* itself, or where that is not known a negative number of its own */
int64_t size_number(const UOp *size);
/* SINK of the values, and behind them of CALLs that set sizes which these request, though nobody reads what else such a
 * CALL finds. */
const UOp *sink_of(Graph *g, const UOp *const *value, uint32_t n);
uint32_t sink_values(const UOp *sink);                  /* how many of its sources are values */
/* attr: plain bytes without pointers or uninitialised padding (part of the node's identity). */
const UOp *custom_new(Graph *g, const char *name, const void *attr, size_t attr_bytes, const UOp *const *meta,
                      uint32_t nmeta);
const char *custom_name(const UOp *function);
const void *custom_attr(const UOp *function, size_t *size_bytes);             /* aligned to 8; size_bytes may be NULL */
/* a CALL of the CUSTOMFUNCTION of that name */
bool custom_is(const UOp *call, const char *name);
const UOp *size_setter(Graph *g, const UOp *var);        /* the CALL that tells this size; NULL: there is none */
/* a CALL that tells this size; the step of a loop is the loop's own */
bool call_sets(const UOp *call, const UOp *var);
/* A call reads memory: scalar constants among the arguments become BUFFERs. */
const UOp *call_new(Graph *g, const UOp *function, const UOp *const *arg, uint32_t narg);
const UOp *call_result(Graph *g, const UOp *call, uint32_t k, DType t, const UOp *const *dim, uint32_t rank);
#endif
