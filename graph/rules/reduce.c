/* Kernel level: reductions over ranges that a closed form replaces. In: REDUCE(value, range..; op), value in symbolic
 * normal form.
 *
 *   a range on which nothing depends          sum: times its length (integers, and floats that are whole and small);
 * max: once sum over r of WHERE(lo <= r < hi, v, 0)   v times the count that clamping gives: arange, cumsum of
 * constants, triangles, pooling divisors over r of WHERE(r == i, v(r), 0)          v(i), its LOADs gated by 0 <= i < n:
 * gather and embedding from a one-hot sum over r of v * k, v + k                integers: k leaves the loop;  WHERE(p,
 * v, 0): p leaves the loop for any type Every row takes a range away or moves something out of one. Floats keep their
 * rounding: nothing is done where a sum might round.
 */
#include "graph/rules/pat.h"
#include "graph/rules/poly.h"
#include "graph/rules/rules.h"

#include <math.h>
#include <string.h>

enum { CLAUSES = 16, RANGES = 64 };

static bool depends(const UOp *u, const UOp *range) { return (u->ranges & range_bit(range)) != 0; }
static const UOp *zero_of(Graph *g, DType t) { return uop_const_like(g, t, 0); }

/* What a reduction starts from: 0, the least value, 1. */
static const UOp *identity_of(Graph *g, Op op, DType t)
{
    if (op != UOP_MAX) return uop_const_like(g, t, op == UOP_MUL);
    return dtype_is_float(t) ? uop_float(g, t, -INFINITY) : uop_int(g, t, dtype_min(t));
}

/* ---- one range out of a REDUCE ---- */

/* inner stands for the value reduced over range k; the other ranges remain. */
static const UOp *without_range(const Match *m, uint32_t k, const UOp *inner)
{
    const UOp *u = m->root, *rest[RANGES];
    uint32_t n = 0;
    for (uint32_t i = 1; i < u->nsrc; i++)
        if (i != k) rest[n++] = u->src[i];
    return uop_reduce_like(m->g, u, inner, rest, n);
}

/* Tries of(m, range, value) on each range of a kernel-level REDUCE. */
typedef const UOp *(*OneRange)(const Match *m, const UOp *range, const UOp *value);
static const UOp *each_range(const Match *m, OneRange of)
{
    const UOp *u = m->root;
    if (u->arg.blob || u->nsrc > RANGES || u->shape->rank) return NULL;
    for (uint32_t k = 1; k < u->nsrc; k++) {
        /* a loop that may not run at all gives the identity */
        if (u->src[k]->op != UOP_RANGE || u->src[k]->src[0]->vmin < 1) continue;
        const UOp *to = of(m, u->src[k], u->src[0]);
        if (to) return without_range(m, k, to);
    }
    return NULL;
}

/* ---- counting ---- */

/* v as an integer expression of dtype index when it is whole: integers, casts of them, whole constants. */
static const UOp *whole(Graph *g, const UOp *v)
{
    if (v->op == UOP_CONST && dtype_is_float((DType)v->dtype)) {
        double f = uop_const_float(v);
        return f == trunc(f) && fabs(f) <= 1 << 24 && !(f == 0 && signbit(f)) ? uop_index(g, (int64_t)f) : NULL;
    }
    if (v->op == UOP_CAST && (dtype_is_int((DType)v->src[0]->dtype) || v->src[0]->dtype == DT_BOOL)) v = v->src[0];
    return dtype_is_float((DType)v->dtype) || v->dtype == DT_U64 ? NULL : cast_to(g, DT_INDEX, v);
}

/* v * count in v's type, or NULL where a sum of floats might round. Integers wrap alike either way. */
static const UOp *times(const Match *m, const UOp *v, const UOp *count)
{
    Graph *g = m->g;
    DType t = (DType)v->dtype;
    if (t == DT_BOOL) return ALU2(g, AND, v, ALU2(g, CMPLT, uop_index(g, 0), count));
    if (!dtype_is_float(t)) return ALU2(g, MUL, v, cast_to(g, t, count));
    const UOp *n = whole(g, v);
    int64_t most = INT64_C(1) << (t == DT_F64 ? 53 : t == DT_F32 ? 24 : t == DT_F16 ? 11 : 8), length = 1;
    for (uint32_t k = 1; k < m->root->nsrc; k++)                /* the other ranges' sum must not round either */
        if (__builtin_mul_overflow(length, m->root->src[k]->op == UOP_RANGE ? m->root->src[k]->src[0]->vmax : 1,
                                   &length))
            return NULL;
    if (!n || length > most || n->vmin < -(most / length) || n->vmax > most / length) return NULL;
    return cast_to(g, t, ALU2(g, MUL, n, count));
}

static const UOp *unused_range(const Match *m, const UOp *range, const UOp *v)
{
    if (depends(v, range)) return NULL;
    if (m->root->arg.i == UOP_MAX) return v;
    return m->root->arg.i == UOP_ADD ? times(m, v, range->src[0]) : NULL;
}

static const UOp *reduce_unused(const Match *m) { return each_range(m, unused_range); }

/* ---- masks ---- */

/* value = WHERE(mask, v, identity) in any of its spellings; a LOAD with a gate stays whole. */
static bool masked(const Match *m, const UOp *value, const UOp **mask, const UOp **v)
{
    const UOp *id = identity_of(m->g, (Op)m->root->arg.i, (DType)value->dtype);
    if (value->op == UOP_CAST && value->src[0]->dtype == DT_BOOL && m->root->arg.i == UOP_ADD)
        return *mask = value->src[0], *v = uop_const_like(m->g, (DType)value->dtype, 1), true;
    if (value->op == UOP_LOAD && value->nsrc > 2 && value->src[1] == id) return *mask = value->src[2], *v = value, true;
    if (value->op != UOP_WHERE) return false;
    if (value->src[2] == id) return *mask = value->src[0], *v = value->src[1], true;
    if (value->src[1] == id) return *mask = not_of(m->g, value->src[0]), *v = value->src[2], true;
    return false;
}

static bool clauses_of(const UOp *u, const UOp **out, uint32_t *n)
{
    if (u->op == UOP_AND) return clauses_of(u->src[0], out, n) && clauses_of(u->src[1], out, n);
    if (*n == CLAUSES) return false;
    out[(*n)++] = u;
    return true;
}

static const UOp *and_all(Graph *g, const UOp *a, const UOp *b) { return !a ? b : ALU2(g, AND, a, b); }

/* Splits a mask in clauses that depend on range (into on) and one condition of the others (NULL: none). */
static bool split_mask(Graph *g, const UOp *mask, const UOp *range, const UOp **on, uint32_t *n, const UOp **off)
{
    const UOp *all[CLAUSES];
    uint32_t count = 0;
    *n = 0, *off = NULL;
    if (!clauses_of(mask, all, &count)) return false;
    for (uint32_t k = 0; k < count; k++) {
        if (depends(all[k], range)) on[(*n)++] = all[k];
        else *off = and_all(g, *off, all[k]);
    }
    return true;
}

static const UOp *where_or(Graph *g, const UOp *p, const UOp *v, const UOp *other)
{
    return p ? ALU3(g, WHERE, p, v, other) : v;
}

/* Clauses that depend on no range of the REDUCE leave it. */
static const UOp *reduce_mask(const Match *m)
{
    const UOp *u = m->root, *mask, *v, *clause[CLAUSES], *in = NULL, *off = NULL;
    uint64_t closed = 0;
    uint32_t n = 0;
    if (u->arg.blob || u->shape->rank || !masked(m, u->src[0], &mask, &v) || u->src[0]->op != UOP_WHERE ||
        !clauses_of(mask, clause, &n))
        return NULL;
    for (uint32_t k = 1; k < u->nsrc; k++)
        if (u->src[k]->op == UOP_RANGE) closed |= range_bit(u->src[k]);
    for (uint32_t k = 0; k < n; k++) {
        if (clause[k]->ranges & closed) in = and_all(m->g, in, clause[k]);
        else off = and_all(m->g, off, clause[k]);
    }
    const UOp *id = identity_of(m->g, (Op)u->arg.i, (DType)u->dtype);
    return off ? ALU3(m->g, WHERE, off,
                      uop_reduce_like(m->g, u, where_or(m->g, in, v, id), u->src + 1, u->nsrc - 1), id)
               : NULL;
}

/* The coefficient of range in the sum a (its terms: index math), the rest into *rest; 0 when it stands in no term
 * alone. */
static int64_t coefficient(Graph *g, const UOp *a, const UOp *range, const UOp **rest)
{
    Poly s;
    int64_t c = 0;
    if (a->dtype != DT_INDEX || !poly_of(&s, g, a)) return 0;
    for (uint32_t k = 0; k < s.n; k++)
        if (s.term[k].f == range) {
            c = s.term[k].c;
            s.term[k] = s.term[--s.n];
            break;
        }
    *rest = poly_build(&s);
    return c && c > -INT64_MAX && !depends(*rest, range) ? c : 0;
}

static const UOp *minus(Graph *g, const UOp *a, const UOp *b)
{
    return ALU2(g, ADD, a, ALU2(g, MUL, b, uop_index(g, -1)));
}
static const UOp *least(Graph *g, const UOp *a, const UOp *b) { return ALU3(g, WHERE, ALU2(g, CMPLT, a, b), a, b); }

/* A clause `c*r + rest < k` or its NOT as a bound on r: r < *hi or r >= *lo. */
static bool bound_by(Graph *g, const UOp *clause, const UOp *range, const UOp **lo, const UOp **hi)
{
    bool turned = is_not(clause);
    const UOp *t = turned ? clause->src[0] : clause, *rest, *edge;
    if (t->op != UOP_CMPLT || t->src[1]->dtype != DT_INDEX || depends(t->src[1], range)) return false;
    int64_t c = coefficient(g, t->src[0], range, &rest);
    if (!c) return false;
    /* c > 0: r < ceil((k - rest) / c).  c < 0: r > (rest - k) / -c, so r >= floor of it, plus 1. */
    if (c > 0) edge = ALU2(g, IDIV, ALU2(g, ADD, minus(g, t->src[1], rest), uop_index(g, c - 1)), uop_index(g, c));
    else edge = ALU2(g, ADD, ALU2(g, IDIV, minus(g, rest, t->src[1]), uop_index(g, -c)), uop_index(g, 1));
    if ((c > 0) != turned) *hi = least(g, edge, *hi);
    else *lo = ALU2(g, MAX, edge, *lo);
    return true;
}

static const UOp *counted(const Match *m, const UOp *range, const UOp *value)
{
    const UOp *mask, *v, *on[CLAUSES], *off;
    uint32_t n;
    if (m->root->arg.i != UOP_ADD || !masked(m, value, &mask, &v) || depends(v, range)) return NULL;
    if (!split_mask(m->g, mask, range, on, &n, &off)) return NULL;
    const UOp *lo = uop_index(m->g, 0), *hi = range->src[0];
    for (uint32_t k = 0; k < n; k++)
        if (!bound_by(m->g, on[k], range, &lo, &hi)) return NULL;
    const UOp *count = ALU2(m->g, MAX, minus(m->g, hi, lo), uop_index(m->g, 0)), *sum = times(m, v, count);
    return sum ? where_or(m->g, off, sum, zero_of(m->g, (DType)value->dtype)) : NULL;
}

static const UOp *reduce_count(const Match *m) { return each_range(m, counted); }

/* ---- one-hot ---- */

/* The value i for which the clause says range == i, or NULL. Either side may be cast. */
static const UOp *equal_to(Graph *g, const UOp *clause, const UOp *range)
{
    Poly s;
    if (!is_not(clause) || clause->src[0]->op != UOP_CMPNE) return NULL;
    const UOp *ne = clause->src[0];
    if (!dtype_is_int((DType)ne->src[0]->dtype) || !poly_of(&s, g, ne->src[0]) || !poly_add(&s, ne->src[1], -1))
        return NULL;
    for (uint32_t k = 0; k < s.n; k++) {
        const UOp *f = s.term[k].f;
        int64_t c = s.term[k].c;
        bool is_range =
            f == range || (f->op == UOP_CAST && f->src[0] == range && range->vmax <= dtype_max((DType)f->dtype));
        if (!is_range || (c != 1 && c != -1)) continue;
        s.term[k] = s.term[--s.n];
        const UOp *i = poly_build(&s);                      /* c*r + i = 0 */
        if (c == 1) i = ALU2(g, MUL, i, uop_int(g, (DType)i->dtype, -1));
        return depends(i, range) ? NULL : i;
    }
    return NULL;
}

/* A LOAD that may be reached out of range only runs where `in` holds. */
static const UOp *gate_load(Graph *g, const UOp *load, const UOp *in)
{
    const UOp *alt = load->nsrc > 1 ? load->src[1] : zero_of(g, (DType)load->dtype);
    return ALU3(g, LOAD, load->src[0], alt, load->nsrc > 2 ? ALU2(g, AND, in, load->src[2]) : in);
}

/* v with range := to, its LOADs that depend on range gated by `in` (NULL: no gate is needed). */
static const UOp *at_value(Graph *g, const UOp *v, const UOp *range, const UOp *to, const UOp *in)
{
    Arena *scratch = arena_new();
    uint32_t n;
    const UOp **order = uop_toposort(g, &v, 1, scratch, &n), **map = NEW_N(scratch, const UOp *, v->id + 1);
    for (uint32_t i = 0; i < n; i++) {
        const UOp *u = order[i], **src = NEW_N(scratch, const UOp *, u->nsrc + 1);
        for (uint32_t k = 0; k < u->nsrc; k++) src[k] = map[u->src[k]->id];
        map[u->id] = u == range ? to : uop_with(g, u, src);
        if (in && u->op == UOP_LOAD && depends(u, range)) map[u->id] = gate_load(g, map[u->id], in);
    }
    const UOp *r = map[v->id];
    arena_free(scratch);
    return r;
}

static const UOp *in_range(Graph *g, const UOp *i, const UOp *n)
{
    const UOp *from = not_of(g, ALU2(g, CMPLT, i, uop_index(g, 0)));
    return ALU2(g, AND, from, ALU2(g, CMPLT, i, n));
}

static const UOp *picked(const Match *m, const UOp *range, const UOp *value)
{
    Graph *g = m->g;
    const UOp *mask, *v, *on[CLAUSES], *off, *i = NULL;
    uint32_t n, k;
    if (m->root->arg.i == UOP_MUL || !masked(m, value, &mask, &v) || !split_mask(g, mask, range, on, &n, &off))
        return NULL;
    for (k = 0; k < n && !i; k++) i = equal_to(g, on[k], range);
    if (!i) return NULL;
    const UOp *id = identity_of(g, (Op)m->root->arg.i, (DType)value->dtype),
              *wide = i->dtype == DT_U64 ? NULL : cast_to(g, DT_INDEX, i);
    if (!wide) return NULL;
    const UOp *in = in_range(g, wide, range->src[0]), *all = and_all(g, off, in);
    for (uint32_t j = 0; j < n; j++)
        if (j + 1 != k) all = ALU2(g, AND, all, at_value(g, on[j], range, wide, in));
    return ALU3(g, WHERE, all, at_value(g, v, range, wide, in), id);
}

static const UOp *reduce_pick(const Match *m) { return each_range(m, picked); }

/* ---- integers: what does not depend on the range leaves the loop ---- */

static const UOp *hoisted_term(const Match *m, const UOp *range, const UOp *value)
{
    if (m->root->arg.i != UOP_ADD || !is_int(m) || (value->op != UOP_ADD && value->op != UOP_MUL)) return NULL;
    bool first = !depends(value->src[0], range), second = !depends(value->src[1], range);
    if (first == second) return NULL;
    const UOp *out = value->src[first ? 0 : 1],
              *in = uop_reduce_ranges(m->g, UOP_ADD, value->src[first ? 1 : 0], &range, 1);
    if (value->op == UOP_MUL) return ALU2(m->g, MUL, in, out);
    return ALU2(m->g, ADD, in, ALU2(m->g, MUL, out, cast_to(m->g, (DType)out->dtype, range->src[0])));
}

static const UOp *reduce_hoist(const Match *m) { return each_range(m, hoisted_term); }

/* mask * v of integers is a WHERE, which the rows above understand. */
static bool mask_and_int(const Match *m)
{
    return is_int(m) && m->slot[SLOT_P]->dtype == DT_BOOL && m->slot[X]->op != UOP_CONST;
}

static const Rule reduce[] = {
    /* name            see                         write                only if       make */
    { "mul-mask",      P(MUL, P(CAST, p), x),      P(WHERE, p, x, zero), mask_and_int, NULL },
    { "reduce-unused", P_MORE(REDUCE, x),          NULL,                NULL,         reduce_unused },
    { "reduce-pick",   P_MORE(REDUCE, x),          NULL,                NULL,         reduce_pick },
    { "reduce-count",  P_MORE(REDUCE, x),          NULL,                NULL,         reduce_count },
    { "reduce-hoist",  P_MORE(REDUCE, x),          NULL,                NULL,         reduce_hoist },
    { "reduce-mask",   P_MORE(REDUCE, x),          NULL,                NULL,         reduce_mask },
};
const RuleTable table_reduce = RULES(reduce);

const RuleSet *rules_reduce(void)
{
    static const RuleTable *const all[] = { &table_simple, &table_logic, &table_sums,  &table_compare,
                                            &table_divmod, &table_valid, &table_reduce };
    static const RuleSet *_Atomic set;
    return ruleset_once(&set, all, 7);
}
