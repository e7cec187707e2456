/* The rewrite engine: rules are rows of data, proved by tests/rules on random and hostile values.
 *
 * A pattern is PAT_ANY (binds its slot), PAT_CONST (a CONST; binds its slot), PAT_VALUE (a CONST of that small value,
 * any numeric dtype), or PAT_OP with source patterns. A slot that occurs twice must be the same pointer. Ops with
 * FLAG_COMM match in both orders. A row's right side is a pattern used as a template (PAT_VALUE takes the matched
 * root's dtype unless the template says), or a function where a template cannot say it.
 */
#ifndef TG_REWRITE_H
#define TG_REWRITE_H
#include "graph/uop.h"

enum { PAT_SLOTS = 12 };
typedef enum { PAT_ANY, PAT_CONST, PAT_VALUE, PAT_OP } PatKind;
typedef struct Pat {
    uint8_t kind, slot, op;
    int8_t value;
    bool any_more;                          /* PAT_OP: further sources are allowed and ignored */
    const struct Pat *src[4];
} Pat;
typedef struct { Graph *g; const UOp *root; const UOp *slot[PAT_SLOTS]; void *user; } Match;

typedef struct {
    const char *name;
    const Pat *see, *write;                 /* write NULL: make says it */
    bool (*only_if)(const Match *m);        /* NULL: always */
    const UOp *(*make)(const Match *m);     /* NULL result: does not apply */
} Rule;
typedef struct { const char *name; const Rule *rule; uint32_t count; } RuleTable;

/* tables compiled to a dispatch by op with an early reject on child ops; immutable, shared by threads */
typedef struct RuleSet RuleSet;
const RuleSet *ruleset_new(const RuleTable *const *table, uint32_t n);
void ruleset_free(const RuleSet *set);
/* The set in *kept, made by the first who asks for it, and never freed. */
const RuleSet *ruleset_once(const RuleSet *_Atomic *kept, const RuleTable *const *table, uint32_t n);

/* One row at u itself, sources untouched; NULL when none applies. */
const UOp *ruleset_apply(const RuleSet *set, Graph *g, const UOp *u, void *user);

enum { REWRITE_TOP_DOWN = 1 };
/* Rewrites root to a fixpoint, sources first (or parents first). Explicit stack, memo by id, a step limit that ends in
 * graph_fail_code(TG_INTERNAL). user is handed to the rules' functions. */
const UOp *graph_rewrite(Graph *g, const UOp *root, const RuleSet *set, unsigned flags, void *user);
/* The same keeping its memo between calls, for many roots of one graph (rangeify simplifies each index expression as it
 * is made). */
typedef struct Rewriter Rewriter;
Rewriter *rewriter_new(Graph *g, const RuleSet *set, void *user);
const UOp *rewriter_run(Rewriter *r, const UOp *root);
void rewriter_free(Rewriter *r);

/* The rule sets. */
/* kernel-level scalars: constants, sums, products, div and mod, comparisons, min/max, WHERE, validity */
const RuleSet *rules_symbolic(void);
/* By hand, what the rows for validity do: clauses that others imply go; a value is simplified by what a condition says
 * of its parts. */
const UOp *simplify_valid(Graph *g, const UOp *valid);                  /* an AND of comparisons */
const UOp *simplify_under(Graph *g, const UOp *value,
                          const UOp *valid); /* value, where valid holds; unchanged when nothing is gained */
const RuleSet *rules_movement(void);        /* tensor level: merge and drop movement ops */
/* TUPLE(value, its gradient) -> TUPLE of its sources' gradients (gradient.h) */
const RuleSet *rules_gradient(void);
/* before: float values written with bits, as arithmetic that has a gradient */
const RuleSet *rules_arithmetic(void);
/* kernel level: unused ranges, hoisted factors, arange and one-hot collapse */
const RuleSet *rules_reduce(void);
/* What a target cannot say: MULACC, shifts, polynomials, narrow floats (decompose.c). user: SelectOptions; NULL is all
 * false. */
typedef struct {
    bool has_fma;               /* ADD(MUL(a, b), c) of f32 and f64 becomes MULACC */
    bool whole_math;            /* the device has EXP2, LOG2 and SIN of f32 */
    bool whole_exp2;            /* and of these EXP2 alone */
    bool has_f16, has_bf16;     /* arithmetic in that type; else in f32, and bf16 moves as bits */
} SelectOptions;
const RuleSet *rules_select(void);
#endif
