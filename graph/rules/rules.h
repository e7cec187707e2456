/* What rule files share: the tables (tests/rules proves each row), and helpers. */
#ifndef TG_RULES_H
#define TG_RULES_H
#include "graph/rewrite.h"

/* symbolic.c, divmod.c, valid.c */
extern const RuleTable table_simple, table_logic, table_sums, table_compare, table_divmod, table_valid;
extern const RuleTable table_movement, table_reduce, table_gradient, table_arithmetic;
extern const RuleTable table_select, table_whole, table_polynomials;        /* decompose.c, whole.c */

/* Added to a small float, 1.5 * 2^23 leaves its nearest integer in the low bits of the sum; that, and its bits. */
enum { MAGIC = 12582912, MAGIC_BITS = 0x4b400000 };

/* Where a float lies, unless it is NaN; depth: of operands that are looked at. (decompose.c) */
typedef struct { double lo, hi; } FloatBounds;
FloatBounds float_bounds(const UOp *a, int depth);
#define SMALL_ANGLE 0x1p20      /* up to which a sine takes a few remainders of pi/2 */

const RuleSet *rules_scalar(void);          /* rules_symbolic without valid.c */

#define ALU1(g, o, a) UOP(g, UOP_##o, DT_VOID, NO_ARG, a)
#define ALU2(g, o, a, b) UOP(g, UOP_##o, DT_VOID, NO_ARG, a, b)
#define ALU3(g, o, a, b, c) UOP(g, UOP_##o, DT_VOID, NO_ARG, a, b, c)
static inline const UOp *cast_to(Graph *g, DType t, const UOp *a)
{
    return a->dtype == t ? a : UOP(g, UOP_CAST, t, NO_ARG, a);
}
static inline const UOp *not_of(Graph *g, const UOp *a) { return ALU2(g, CMPNE, a, uop_bool(g, true)); }
static inline bool is_not(const UOp *u)
{
    return u->op == UOP_CMPNE && u->src[0]->dtype == DT_BOOL && uop_is_int_const(u->src[1], 1);
}
#endif
