/* Guards: what a run checks of its data. A builder wraps an index or a divisor; the kernel that computes it compares,
 * goes on with a harmless value where the check fails, and leaves a note in the guard's word: a buffer of two numbers
 * (value, limit), zero until then, that the backend looks at once after the run. Any one failing element may win.
 * Nothing is left of a guard whose value is in bounds by what is known at import, and one of constants fails there.
 * What nobody reads is not computed, so not checked. To add a kind: a row here, a case in guard.c, derive.c (bounds),
 * rules/symbolic.c (known to hold) and backends/cstyle.c.
 */
#ifndef TG_GUARD_H
#define TG_GUARD_H
#include "graph/uop.h"

typedef enum {
    GUARD_INDEX,                    /* 0 <= value < bound, else 0 */
    GUARD_NONZERO,                  /* value != 0, else 1; the bound is 0 */
    GUARD_SIZE,                     /* value == bound, else 1: data-dependent sizes */
    GUARD_BROADCAST,                /* value == bound or value == 1, else 1 */
    GUARD_FINITE,                   /* value, of floats, is a number, else as it is: what was rewritten does not hold */
} GuardKind;
/* In the graph's arena; names that are not known are NULL. from_end: negative positions were counted from the end
 * before they came here. */
typedef struct Guard {
    GuardKind kind;
    bool from_end;
    const char *node, *op, *field;
} Guard;
/* GUARD_PLAIN: the status of a run in which a GUARD_FINITE failed; it must be run again without the rewrite. */
enum { GUARD_WORDS = 2, GUARD_BYTES = 16, GUARD_PLAIN = 200 };

/* arg.i of a GUARD: the kind, and at tensor level the slot of its word. */
static inline GuardKind guard_kind(Arg a) { return (GuardKind)(a.i & 0xff); }
static inline int64_t guard_slot(const UOp *u) { return u->arg.i >> 8; }
static inline int64_t guard_otherwise(GuardKind kind) { return kind != GUARD_INDEX && kind != GUARD_FINITE; }

bool guard_allows(GuardKind kind, int64_t value, int64_t bound);
void guard_note(GuardKind kind, int64_t value, int64_t bound, int64_t *word);       /* what a kernel does when not */
/* the message of a word that is not zero */
TgStatus guard_fail(const Guard *w, TgStatus code, const int64_t *word);

/* The value checked; at run time, unless it is known. */
const UOp *guard_index(Graph *g, const UOp *index, const UOp *size, bool from_end);
const UOp *guard_nonzero(Graph *g, const UOp *value);
const UOp *guard_finite(Graph *g, const UOp *value);
/* GUARD_SIZE or GUARD_BROADCAST */
const UOp *guard_size(Graph *g, GuardKind kind, const UOp *size, const UOp *wanted);
/* What a host function belongs to, by its CALL; NULL: nothing is known. */
void graph_call_at(Graph *g, const UOp *call);
const Guard *graph_call_place(Graph *g, const UOp *call);
/* What the guards and calls built from here on belong to: the node that is imported. Kept by pointer until the next
 * call. */
void graph_at(Graph *g, const char *node, const char *op, const char *field);
#endif
