/* Integer sums in normal form: k + c0*f0 + c1*f1 + .., the f distinct factors without a constant, in structural order.
 * Index math is done on these. DT_INDEX multiplies out products of sums and is taken not to overflow; other integers
 * wrap, and only their coefficients are collected.
 */
#ifndef TG_POLY_H
#define TG_POLY_H
#include "graph/rewrite.h"

enum { POLY_TERMS = 32 };
typedef struct { const UOp *f; int64_t c; } Term;
typedef struct {
    Graph *g;
    DType t;
    int64_t k;
    uint32_t n;
    Term term[POLY_TERMS];
} Poly;

/* A total order that only structure decides (never ids): ranges by number, variables, other nodes; constants last. */
int uop_order(const UOp *a, const UOp *b);

/* false: too many terms, or a coefficient overflows; p is then of no use. */
bool poly_of(Poly *p, Graph *g, const UOp *u);
void poly_init(Poly *p, Graph *g, DType t);
bool poly_add(Poly *p, const UOp *u, int64_t scale);                /* p += u * scale */
bool poly_add_term(Poly *p, const UOp *f, int64_t c);               /* f is a factor, not a sum */
bool poly_mul(Poly *out, const Poly *a, const Poly *b);             /* DT_INDEX */
/* (y%c)*a + (y//c)*a*c -> y*a, and its like; true when something changed */
bool poly_recombine(Poly *p);
void poly_sort(Poly *p);
bool is_divmod(const UOp *u, Op op);                                /* u / c or u % c, c > 0 */
const UOp *poly_build(Poly *p);                                     /* sorts p */
bool poly_bounds(const Poly *p, int64_t *lo, int64_t *hi);          /* false: not bounded in 64 bits */
/* A bound of p that keeps symbols: each range at its last step or at 0, whichever makes the sum greater (or smaller).
 * false: a sign is not known. */
bool poly_extreme(Poly *out, const Poly *p, bool greatest);
int64_t gcd64(int64_t a, int64_t b);
int64_t floor_div64(int64_t a, int64_t b);                          /* b > 0 */
#endif
