/* Values that are no tensors are TUPLEs, distinguished by tags: sequences, empty optionals and maps here, strings in
 * text.h, narrow types in narrow.h. An optional that is not empty is its element. A sequence's length is known at
 * import, so that nothing of it is left in the graph but its tensors; where it is a variable, all are of one form, and
 * the rows of one tensor. */
#ifndef TG_TUPLE_H
#define TG_TUPLE_H
#include "frontend/frontend.h"

enum { EMPTY_OPTIONAL = 1, MAP_VALUE = 3, ROWS_VALUE = 4 };

static inline U sequence_new(Graph *g, const U *v, uint32_t n) { return uop_new(g, UOP_TUPLE, DT_VOID, NO_ARG, v, n); }
static inline bool is_sequence(U x) { return x->op == UOP_TUPLE && !x->tag; }
static inline U optional_empty(Graph *g) { return uop_tagged(g, sequence_new(g, NULL, 0), EMPTY_OPTIONAL); }
static inline bool is_empty_optional(U x) { return x->op == UOP_TUPLE && x->tag == EMPTY_OPTIONAL; }
/* Keys [K] and values [K], or [N,K]: a sequence of N maps that share their keys. */
static inline U map_new(Graph *g, U keys, U values)
{
    return uop_tagged(g, sequence_new(g, (const U[]){ keys, values }, 2), MAP_VALUE);
}
/* a sequence of N maps as a sequence; another value as it is (ops/map.c) */
U maps_apart(Graph *g, U x);
static inline bool is_map(U x) { return x->op == UOP_TUPLE && x->tag == MAP_VALUE; }

/* A sequence as rows, which may be strings or of a narrow or complex type (special_part). */
static inline bool is_rows(U x) { return x->op == UOP_TUPLE && x->tag == ROWS_VALUE; }
static inline U rows_new(Graph *g, U rows) { return uop_tagged(g, sequence_new(g, &rows, 1), ROWS_VALUE); }
/* of a known length as a sequence of tensors; another value as it is (ops/seq.c) */
U rows_apart(Graph *g, U x);

bool takes_sequences(const char *op);           /* ops/seq.c: may inputs be such values? */
#endif
