/* Whole numbers: a float of a small range that is rounded by adding 1.5 * 2^23 stands as an integer in the low bits of
 * that sum. So QuantizeLinear's last step is no conversion, and what is quantised and dequantised in one kernel stays a
 * float. In select (sched/select.c), after decompose.c has made MINs of what is cut to a constant. Each row takes a
 * conversion between floats and integers away, so rewriting ends. tests/rules/test_math.c proves them on samples of all
 * floats. */
#include <math.h>

#include "graph/rules/pat.h"
#include "graph/rules/rules.h"

/* SMALL: what is added to a rounded number, and numbers, are below it: sums with MAGIC stay below 2^24, so exact. */
enum { SMALL = 1 << 20, DEPTH = 8 };

/* value = round(x) + more, where sum = x + MAGIC; lo and hi are the ends of round(x). */
typedef struct { const UOp *sum; double lo, hi, more; } Rounded;

/* A number, not NaN: MIN's first operand where the other is NaN. */
static bool is_number(const UOp *u)
{
    return (u->op == UOP_MIN && u->src[0]->op == UOP_CONST && !isnan(uop_const_float(u->src[0]))) ||
        (u->op == UOP_CAST && dtype_is_int((DType)u->src[0]->dtype));
}

/* Is this x + MAGIC of a small number? */
static bool starts(const UOp *u, Rounded *r)
{
    if (u->op != UOP_ADD || u->dtype != DT_F32 || u->src[1]->op != UOP_CONST || uop_const_float(u->src[1]) != MAGIC ||
        !is_number(u->src[0]))
        return false;
    FloatBounds at = float_bounds(u->src[0], DEPTH);
    *r = (Rounded){ .sum = u, .lo = rint(at.lo), .hi = rint(at.hi) };
    return r->lo > -SMALL && r->hi < SMALL;
}

/* A float that is such a sum plus constants. */
static bool rounded_float(const UOp *u, Rounded *r, int depth)
{
    if (starts(u, r)) return r->more = MAGIC, true;
    if (!depth || u->op != UOP_ADD || u->dtype != DT_F32 || u->src[1]->op != UOP_CONST) return false;
    double c = uop_const_float(u->src[1]);
    if (!(fabs(c) <= MAGIC) || c != rint(c) || !rounded_float(u->src[0], r, depth - 1)) return false;
    r->more += c;
    return r->more == MAGIC || fabs(r->more) < SMALL;
}

static bool fits(const Rounded *r, DType t)
{
    return r->lo + r->more >= (double)dtype_min(t) && r->hi + r->more <= (double)dtype_max(t);
}

/* An integer: the sum's bits, cut to types that hold the number, plus constants. */
static bool rounded_integer(const UOp *u, Rounded *r, int depth)
{
    DType t = (DType)u->dtype;
    if (!depth) return false;
    if (u->op == UOP_BITCAST && t == DT_I32 && starts(u->src[0], r)) return r->more = MAGIC_BITS, true;
    if (u->op == UOP_ADD && uop_is_const(u->src[1]) && rounded_integer(u->src[0], r, depth - 1)) {
        r->more += (double)u->src[1]->arg.i;
        return fits(r, t);
    }
    if (u->op != UOP_CAST || !dtype_is_int(t) || !rounded_integer(u->src[0], r, depth - 1)) return false;
    if (dtype_info[t].bits <= 16 && r->more > SMALL) r->more -= MAGIC_BITS;          /* whose low half is 0 */
    return fits(r, t);
}

static const UOp *bits_of_sum(const Match *m)
{
    Graph *g = m->g;
    DType t = (DType)m->root->dtype;
    Rounded r;
    if (!dtype_is_int(t) || dtype_info[t].bits > 32 || !rounded_float(m->slot[X], &r, 3) || fabs(r.more) >= SMALL ||
        !fits(&r, t))
        return NULL;
    int64_t more = (int64_t)r.more - (dtype_info[t].bits > 16 ? MAGIC_BITS : 0);
    const UOp *i = UOP(g, UOP_BITCAST, DT_I32, NO_ARG, r.sum);
    return cast_to(g, t, more ? ALU2(g, ADD, i, uop_int(g, DT_I32, more)) : i);
}

static const UOp *stays_float(const Match *m)
{
    Graph *g = m->g;
    Rounded r;
    if (m->root->dtype != DT_F32 || !dtype_is_int((DType)m->slot[X]->dtype) ||
        !rounded_integer(m->slot[X], &r, 5) || fabs(r.more) >= SMALL)
        return NULL;
    const UOp *v = ALU2(g, ADD, r.sum, uop_const_like(g, DT_F32, -MAGIC));
    return r.more != 0 ? ALU2(g, ADD, v, uop_const_like(g, DT_F32, r.more)) : v;
}

static const Rule whole[] = {
    /* name          see         write  only if  make */
    { "whole-bits",  P(CAST, x), NULL,  NULL,    bits_of_sum },
    { "whole-float", P(CAST, x), NULL,  NULL,    stays_float },
};
const RuleTable table_whole = RULES(whole);
