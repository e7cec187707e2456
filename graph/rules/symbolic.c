/* Kernel-level scalars: constants, identities, logic, integer sums, comparisons. In: ALU nodes whose sources are in
 * normal form.
 *
 * The normal form: constants last; integer sums as poly.h says; a comparison of index math is `terms < constant` or its
 * NOT, its first coefficient positive; NOT stands on comparisons only. Rows end because each makes the node count
 * smaller, or moves an operand toward its place in one fixed order. Floats: only what keeps every bit, NaN, Inf and -0
 * included. To add a rule: a row here; tests/rules finds it and proves it.
 */
#include "graph/guard.h"
#include "graph/rules/pat.h"
#include "graph/rules/poly.h"
#include "graph/rules/rules.h"

#include <math.h>
#include <string.h>

/* ---- constants and identities ---- */

static bool all_const(const Match *m)
{
    const UOp *u = m->root;
    if (!op_is((Op)u->op, FLAG_ALU) || !u->nsrc || u->shape->rank) return false;
    for (uint32_t k = 0; k < u->nsrc; k++)
        if (u->src[k]->op != UOP_CONST) return false;
    return true;
}

/* A float whose reciprocal is exact. */
static bool is_power_of_two(const UOp *u)
{
    int e;
    if (u->op != UOP_CONST || !dtype_is_float((DType)u->dtype)) return false;
    double v = fabs(uop_const_float(u)),
           least = u->dtype == DT_F64 ? 0x1p-1022
        : u->dtype == DT_F16          ? 0x1p-14
                                      : 0x1p-126;
    return v >= least && v <= 1 / least && frexp(v, &e) == 0.5;
}

static const UOp *evaluated(const Match *m)
{
    const UOp *u = m->root;
    int64_t v[3] = { 0 }, r;
    for (uint32_t k = 0; k < u->nsrc; k++) v[k] = u->src[k]->arg.i;
    if (!uop_eval((Op)u->op, (DType)u->dtype, (DType)u->src[0]->dtype, v, &r)) return NULL;
    return UOP0(m->g, UOP_CONST, (DType)u->dtype, ARG_I(r));
}

static bool one_value(const Match *m)
{
    const UOp *u = m->root;
    if (u->vmin != u->vmax || u->op == UOP_CONST || dtype_is_float((DType)u->dtype) || u->dtype == DT_VOID)
        return false;
    if (u->dtype == DT_U64 && u->vmax == INT64_MAX) return false;              /* stands for "or more" */
    if (u->op == UOP_RANGE || u->op == UOP_SPECIAL) return uop_is_int_const(u->src[0], 1);
    return op_is((Op)u->op, FLAG_ALU) || u->op == UOP_DEFINE_VAR;
}

static bool is_allowed(const Match *m)
{
    const UOp *v = m->slot[X], *bound = m->slot[Y];
    switch (guard_kind(m->root->arg)) {
    case GUARD_INDEX: return v->vmin >= 0 && v->vmax < bound->vmin;
    case GUARD_NONZERO: return v->vmin > 0 || v->vmax < 0;
    case GUARD_FINITE: return false;
    default: return v == bound;
    }
}

static const UOp *that_value(const Match *m) { return uop_int(m->g, (DType)m->root->dtype, m->root->vmin); }

/* a / 2^n is a product without rounding. */
static bool by_power_of_two(const Match *m) { return is_power_of_two(m->slot[C]); }

/* Constants stand last; integers and bools besides in structural order. Floats keep the order in which they were
 * written. */
static bool out_of_order(const Match *m)
{
    const UOp *u = m->root, *a = u->src[0], *b = u->src[1];
    /* poly.h orders those */
    if (b->op == UOP_CONST || (is_int(m) && u->op == UOP_ADD) || (is_index(m) && u->op == UOP_MUL)) return false;
    return a->op == UOP_CONST || (!dtype_is_float((DType)a->dtype) && uop_order(a, b) > 0);
}

static const UOp *swapped(const Match *m)
{
    const UOp *u = m->root;
    return UOP(m->g, (Op)u->op, DT_VOID, NO_ARG, u->src[1], u->src[0]);
}

static bool is_commutative(const Match *m) { return op_is((Op)m->root->op, FLAG_COMM) && out_of_order(m); }

static bool first_wins(const Match *m)
{
    return not_float(m) && m->root->dtype != DT_U64 && m->slot[X]->vmin >= m->slot[Y]->vmax;
}

/* Loops that ended in a constant leave END and REDUCE. */
static const UOp *without_consts(const Match *m)
{
    const UOp *u = m->root, *src[66];
    uint32_t n = 0;
    if (u->nsrc > 65 || (u->op == UOP_REDUCE && u->arg.blob)) return NULL;
    for (uint32_t k = 0; k < u->nsrc; k++)
        if (!k || u->src[k]->op != UOP_CONST) src[n++] = u->src[k];
    return n == 1 && u->op == UOP_REDUCE ? src[0] : uop_with_n(m->g, u, src, n);
}

/* Is each value of x, a float of depth operations at most, one of t's too? What was widened is, and what only chooses
 * among such or turns a sign. */
static bool holds(const UOp *x, DType t, int depth)
{
    if (x->op == UOP_CONST) return dtype_round(t, uop_const_float(x)) == uop_const_float(x);
    if (!depth) return false;
    if (x->op == UOP_CAST) return x->src[0]->dtype == t;
    if (x->op == UOP_MUL)
        return x->src[1]->op == UOP_CONST && fabs(uop_const_float(x->src[1])) == 1 && holds(x->src[0], t, depth - 1);
    uint32_t first = x->op == UOP_WHERE;
    if (!first && x->op != UOP_MAX && x->op != UOP_MIN) return false;
    return holds(x->src[first], t, depth - 1) && holds(x->src[first + 1], t, depth - 1);
}

/* Every value of x fits t, so casting x to t and back loses nothing. */
static bool fits(const UOp *x, DType t)
{
    DType from = (DType)x->dtype;
    if (from == t || from == DT_BOOL) return true;
    if (dtype_is_float(from))
        return t == DT_F64 || (t == DT_F32 && from != DT_F64) || (dtype_is_float(t) && holds(x, t, 8));
    if (from == DT_U64) return false;
    if (!dtype_is_float(t)) return t == DT_U64 ? x->vmin >= 0 : x->vmin >= dtype_min(t) && x->vmax <= dtype_max(t);
    int64_t most = INT64_C(1) << (t == DT_F64 ? 53 : t == DT_F32 ? 24 : t == DT_F16 ? 11 : 8);
    return x->vmin >= -most && x->vmax <= most;
}

static const UOp *cast_again(const Match *m)
{
    const UOp *mid = m->root->src[0], *a = mid->src[0];
    DType t = (DType)m->root->dtype;
    if (t == DT_BOOL || !fits(a, (DType)mid->dtype)) return NULL;
    /* a float saturates, an integer wraps */
    if (dtype_is_float((DType)mid->dtype) && dtype_is_int(t) && !fits(a, t)) return NULL;
    return cast_to(m->g, t, a);
}

/* Casting an integer sum or product to another integer type: cast the parts, where nothing wraps on the way. This takes
 * i64 position arithmetic back to index math. */
static const UOp *cast_parts(const Match *m)
{
    const UOp *a = m->root->src[0];
    DType t = (DType)m->root->dtype;
    if (t != DT_INDEX || !dtype_is_int((DType)a->dtype) || a->dtype == DT_U64) return NULL;
    if (a->vmin <= dtype_min((DType)a->dtype) && a->vmax >= dtype_max((DType)a->dtype)) return NULL;
    return UOP(m->g, (Op)a->op, DT_VOID, NO_ARG, cast_to(m->g, t, a->src[0]), cast_to(m->g, t, a->src[1]));
}

/* A mask of low bits, of a number that has no others. */
static bool covers(const Match *m)
{
    int64_t c = m->slot[C]->arg.i, lo = m->slot[X]->vmin, hi = m->slot[X]->vmax;
    return is_int(m) && m->root->dtype != DT_U64 && c >= 0 && !((uint64_t)c & ((uint64_t)c + 1)) && lo >= 0 && hi <= c;
}

static bool same_cast(const Match *m) { return m->root->dtype == m->slot[X]->dtype; }
static bool integral(const Match *m) { return dtype_is_int((DType)m->slot[X]->dtype); }

/* A constant NaN has no payload, so bits that are a NaN stay bits. */
static bool is_nan_bits(int64_t v)
{
    double f;
    memcpy(&f, &v, 8);
    return isnan(f);
}

static const UOp *bits_const(const Match *m)
{
    DType from = (DType)m->slot[C]->dtype, to = (DType)m->root->dtype;
    int64_t v = m->slot[C]->arg.i;
    if (from == to) return m->slot[C];
    if (from == DT_F64) return UOP0(m->g, UOP_CONST, to, ARG_I(v));
    if (to == DT_F64) return is_nan_bits(v) ? NULL : UOP0(m->g, UOP_CONST, to, ARG_I(v));
    if (from == DT_F32) {
        float f = (float)uop_const_float(m->slot[C]);
        int32_t i;
        memcpy(&i, &f, 4);
        return dtype_is_int(to) ? uop_int(m->g, to, i) : NULL;
    }
    if (to != DT_F32) return NULL;
    int32_t i = (int32_t)v;
    float f;
    memcpy(&f, &i, 4);
    return isnan(f) ? NULL : uop_float(m->g, to, f);
}

static const UOp *bits_again(const Match *m)
{
    return m->root->dtype == m->slot[X]->dtype ? m->slot[X]
                                               : UOP(m->g, UOP_BITCAST, (DType)m->root->dtype, NO_ARG, m->slot[X]);
}

static const UOp *no_load(const Match *m) { return m->root->src[1]; }
static const UOp *plain_load(const Match *m) { return UOP(m->g, UOP_LOAD, DT_VOID, NO_ARG, m->root->src[0]); }

/* Of floats: -0 + 0 is 0, so a zero counts unless a constant was added already, whose sum is no -0. Masked terms of a
 * sum that is unrolled are such zeros. */
static const UOp *second_zero(const Match *m)
{
    const UOp *sum = m->root->src[0], *zero = m->root->src[1];
    if (!dtype_is_float((DType)m->root->dtype) || sum->op != UOP_ADD || sum->src[1]->op != UOP_CONST) return NULL;
    double added = uop_const_float(sum->src[1]);
    if (signbit(uop_const_float(zero)) || (added == 0 && signbit(added))) return NULL;
    return uop_tagged(m->g, sum, m->root->tag);
}

static const Rule simple[] = {
    /* name           see                          write        only if     make */
    { "const-fold",   x,                           NULL,        all_const,  evaluated },
    { "one-value",    x,                           NULL,        one_value,  that_value },
    { "order",        x,                           NULL,        is_commutative, swapped },
    { "add-zero",     P(ADD, x, zero),             x,           is_int,     NULL },
    { "add-zeros",    P(ADD, P(ADD, x, c), zero),  NULL,        NULL,       second_zero },
    { "div-exact",    P(DIV, x, c),                P(MUL, x, P(RECIP, c)), by_power_of_two, NULL },
    { "guard-inside", P_MORE(GUARD, x, y),         x,           is_allowed, NULL },
    { "mul-one",      P(MUL, x, one),              x,           NULL,       NULL },
    { "mul-zero",     P(MUL, x, zero),             zero,        not_float,  NULL },       /* NaN * 0 is NaN */
    { "idiv-one",     P(IDIV, x, one),             x,           is_int,     NULL },
    { "max-same",     P(MAX, x, x),                x,           NULL,       NULL },
    { "max-absorb",   P(MAX, P(MAX, x, y), y),     P(MAX, x, y), NULL,      NULL },
    { "max-bounds",   P(MAX, x, y),                x,           first_wins, NULL },
    { "max-consts",   P(MAX, P(MAX, x, c), d),     P(MAX, x, P(MAX, c, d)), NULL, NULL },
    { "xor-same",     P(XOR, x, x),                zero,        not_float,  NULL },
    { "xor-zero",     P(XOR, x, zero),             x,           not_float,  NULL },
    { "xor-ones",     P(XOR, x, minus_one),        P(ADD, P(MUL, x, minus_one), minus_one), is_index, NULL },
    { "xor-consts",   P(XOR, P(XOR, x, c), d),     P(XOR, x, P(XOR, c, d)), not_float, NULL },
    { "and-same",     P(AND, x, x),                x,           not_float,  NULL },
    { "and-zero",     P(AND, x, zero),             zero,        not_float,  NULL },
    { "and-ones",     P(AND, x, minus_one),        x,           is_int,     NULL },
    { "and-covers",   P(AND, x, c),                x,           covers,     NULL },
    { "or-same",      P(OR, x, x),                 x,           not_float,  NULL },
    { "or-zero",      P(OR, x, zero),              x,           not_float,  NULL },
    { "shr-zero",     P(SHR, x, zero),             x,           is_int,     NULL },
    { "shl-zero",     P(SHL, x, zero),             x,           is_int,     NULL },
    { "trunc-twice",  P(TRUNC, P(TRUNC, x)),       P(TRUNC, x), NULL,       NULL },
    { "trunc-int",    P(TRUNC, P(CAST, x)),        P(CAST, x),  integral,   NULL },
    { "cast-same",    P(CAST, x),                  x,           same_cast,  NULL },
    { "cast-again",   P(CAST, P(CAST, x)),         NULL,        NULL,       cast_again },
    { "cast-add",     P(CAST, P(ADD, x, y)),       NULL,        NULL,       cast_parts },
    { "cast-mul",     P(CAST, P(MUL, x, y)),       NULL,        NULL,       cast_parts },
    { "bits-const",   P(BITCAST, c),               NULL,        NULL,       bits_const },
    { "bits-again",   P(BITCAST, P(BITCAST, x)),   NULL,        NULL,       bits_again },
    { "bits-same",    P(BITCAST, x),               x,           same_cast,  NULL },
    { "load-never",   P(LOAD, x, y, no),           NULL,        NULL,       no_load },
    { "load-always",  P(LOAD, x, y, yes),          NULL,        NULL,       plain_load },
    { "end-once",     P_MORE(END, x),              NULL,        NULL,       without_consts },
    { "reduce-once",  P_MORE(REDUCE, x),           NULL,        NULL,       without_consts },
};
const RuleTable table_simple = RULES(simple);

/* ---- logic ---- */

static bool bool_arms(const Match *m) { return m->slot[X]->dtype == DT_BOOL; }
static bool two_bools(const Match *m) { return m->slot[X]->dtype == DT_BOOL && m->slot[Y]->dtype == DT_BOOL; }
static bool of_bools(const Match *m) { return m->root->src[0]->dtype == DT_BOOL; }

static bool p_bool(const Match *m) { return m->slot[SLOT_P]->dtype == DT_BOOL; }

static const UOp *as_bool(const Match *m) { return m->slot[X]->dtype == DT_BOOL ? m->slot[X] : NULL; }

static const Rule logic[] = {
    { "ne-false",      P(CMPNE, x, no),                        NULL,                          of_bools,  as_bool },
    { "not-not",       P(CMPNE, P(CMPNE, x, yes), yes),        x,                             bool_arms, NULL },
    { "not-of-bools",  P(CMPNE, P(CMPNE, x, yes), P(CMPNE, y, yes)), P(CMPNE, x, y),          two_bools, NULL },
    { "not-or",        P(CMPNE, P(OR, x, y), yes),             P(AND, P(CMPNE, x, yes), P(CMPNE, y, yes)), bool_arms, NULL },
    { "cast-bool-ne",  P(CMPNE, P(CAST, x), zero),             x,                             bool_arms, NULL },
    { "xor-bool",      P(XOR, x, y),                           P(CMPNE, x, y),                is_bool,   NULL },
    { "mul-bool",      P(MUL, x, y),                           P(AND, x, y),                  is_bool,   NULL },
    { "add-bool",      P(ADD, x, y),                           P(OR, x, y),                   is_bool,   NULL },
    { "max-bool",      P(MAX, x, y),                           P(OR, x, y),                   is_bool,   NULL },
    { "lt-bool",       P(CMPLT, x, y),                         P(AND, P(CMPNE, x, yes), y),   bool_arms, NULL },
    { "and-true",      P(AND, x, yes),                         x,                             is_bool,   NULL },
    { "or-true",       P(OR, x, yes),                          yes,                           is_bool,   NULL },
    { "and-again",     P(AND, P(AND, x, y), x),                P(AND, x, y),                  not_float, NULL },
    { "or-again",      P(OR, P(OR, x, y), x),                  P(OR, x, y),                   not_float, NULL },
    { "and-absorb",    P(AND, x, P(OR, x, y)),                 x,                             not_float, NULL },
    { "or-absorb",     P(OR, x, P(AND, x, y)),                 x,                             not_float, NULL },
    { "and-not",       P(AND, x, P(CMPNE, x, yes)),            no,                            is_bool,   NULL },
    { "or-not",        P(OR, x, P(CMPNE, x, yes)),             yes,                           is_bool,   NULL },
    { "or-of-ands",    P(OR, P(AND, x, y), P(AND, x, z)),      P(AND, x, P(OR, y, z)),        is_bool,   NULL },
    { "or-not-and",    P(OR, P(CMPNE, x, yes), P(AND, x, y)),  P(OR, P(CMPNE, x, yes), y),    is_bool,   NULL },
    { "or-and-not",    P(OR, x, P(AND, P(CMPNE, x, yes), y)),  P(OR, x, y),                   is_bool,   NULL },
    { "where-true",    P(WHERE, yes, x, y),                    x,                             NULL,      NULL },
    { "where-false",   P(WHERE, no, x, y),                     y,                             NULL,      NULL },
    { "same-arms",     P(WHERE, p, x, x),                      x,                             NULL,      NULL },
    { "where-not",     P(WHERE, P(CMPNE, p, yes), x, y),       P(WHERE, p, y, x),             p_bool,    NULL },
    { "where-bool",    P(WHERE, p, yes, no),                   p,                             is_bool,   NULL },
    { "where-notbool", P(WHERE, p, no, yes),                   P(CMPNE, p, yes),              is_bool,   NULL },
    { "where-and",     P(WHERE, p, x, no),                     P(AND, p, x),                  is_bool,   NULL },
    { "where-or",      P(WHERE, p, yes, x),                    P(OR, p, x),                   is_bool,   NULL },
    { "where-notand",  P(WHERE, p, no, x),                     P(AND, P(CMPNE, p, yes), x),   is_bool,   NULL },
    { "where-notor",   P(WHERE, p, x, yes),                    P(OR, P(CMPNE, p, yes), x),    is_bool,   NULL },
    { "where-then",    P(WHERE, p, P(WHERE, p, x, y), z),      P(WHERE, p, x, z),             NULL,      NULL },
    { "where-else",    P(WHERE, p, x, P(WHERE, p, y, z)),      P(WHERE, p, x, z),             NULL,      NULL },
    { "where-both",    P(WHERE, p, P(WHERE, q, x, y), y),      P(WHERE, P(AND, p, q), x, y),  NULL,      NULL },
    { "where-either",  P(WHERE, p, x, P(WHERE, q, x, y)),      P(WHERE, P(OR, p, q), x, y),   NULL,      NULL },
};
const RuleTable table_logic = RULES(logic);

/* ---- integer sums and products ---- */

static const UOp *sum_normal(const Match *m)
{
    Poly s;
    if (!poly_of(&s, m->g, m->root)) return NULL;
    poly_recombine(&s);
    return poly_build(&s);
}

/* Index math multiplies out, so that a sum has one form. */
static const UOp *product_normal(const Match *m)
{
    Poly a, b, r;
    if (!poly_of(&a, m->g, m->root->src[0]) || !poly_of(&b, m->g, m->root->src[1]) || !poly_mul(&r, &a, &b))
        return NULL;
    return poly_build(&r);
}

/* Other integers: (x * c) * d and (x * c) * y collect their constants. */
static const UOp *where_plus(const Match *m)
{
    const UOp *t = m->root->src[0], *k = m->root->src[1];
    if (t->op != UOP_WHERE || k->op != UOP_CONST || t->src[1]->op != UOP_CONST || t->src[2]->op != UOP_CONST)
        return NULL;
    Op op = (Op)m->root->op;
    return ALU3(m->g, WHERE, t->src[0], UOP(m->g, op, DT_VOID, NO_ARG, t->src[1], k),
                UOP(m->g, op, DT_VOID, NO_ARG, t->src[2], k));
}

static const Rule sums[] = {
    { "mul-consts",  P(MUL, P(MUL, x, c), d),             P(MUL, x, P(MUL, c, d)),        is_int,   NULL },
    { "mul-inner",   P(MUL, P(MUL, x, c), y),             P(MUL, P(MUL, x, y), c),        is_int,   NULL },
    { "sum",         P(ADD, x, y),                        NULL,                           is_int,   sum_normal },
    { "product",     P(MUL, x, y),                        NULL,                           is_index, product_normal },
    { "add-where",   P(ADD, P(WHERE, p, c, d), x),        NULL,                           NULL,     where_plus },
    { "mul-where",   P(MUL, P(WHERE, p, c, d), x),        NULL,                           NULL,     where_plus },
    { "idiv-where",  P(IDIV, P(WHERE, p, c, d), x),       NULL,                           NULL,     where_plus },
    { "mod-where",   P(MOD, P(WHERE, p, c, d), x),        NULL,                           NULL,     where_plus },
    { "lt-where",    P(CMPLT, P(WHERE, p, c, d), x),      NULL,                           NULL,     where_plus },
    { "ne-where",    P(CMPNE, P(WHERE, p, c, d), x),      NULL,                           NULL,     where_plus },
    { "cast-where",  P(CAST, P(WHERE, p, c, d)),          P(WHERE, p, P(CAST, c), P(CAST, d)), NULL, NULL },
};
const RuleTable table_sums = RULES(sums);

/* ---- comparisons of index math ---- */

static bool index_sources(const Match *m) { return m->root->src[0]->dtype == DT_INDEX; }

/* a - b, sorted; false when too large. */
static bool difference(Poly *s, const Match *m)
{
    poly_init(s, m->g, DT_INDEX);
    return poly_add(s, m->root->src[0], 1) && poly_add(s, m->root->src[1], -1) && s->k > INT64_MIN &&
        (poly_sort(s), true);
}

static int64_t common(const Poly *s)
{
    int64_t r = 0;
    for (uint32_t i = 0; i < s->n; i++) r = gcd64(r, s->term[i].c);
    return r;
}

static void divide(Poly *s, int64_t by)
{
    for (uint32_t i = 0; i < s->n; i++) s->term[i].c /= by;
}

/* sum < k, all coefficients with the common factor g: sum/g < ceil(k/g). A leading minus turns into NOT(-sum < 1 - k).
 */
static const UOp *less_normal(const Match *m)
{
    Poly s;
    if (!difference(&s, m) || !s.n) return NULL;
    int64_t g = common(&s), k = -s.k;
    s.k = 0;
    bool turn = s.term[0].c < 0;
    if (k > INT64_MAX / 2 || k < INT64_MIN / 2) return NULL;
    k = -floor_div64(-k, g);
    divide(&s, turn ? -g : g);
    const UOp *lt = ALU2(m->g, CMPLT, poly_build(&s), uop_index(m->g, turn ? 1 - k : k));
    return turn ? not_of(m->g, lt) : lt;
}

static const UOp *unequal_normal(const Match *m)
{
    Poly s;
    if (!difference(&s, m) || !s.n) return NULL;
    int64_t g = common(&s), k = -s.k;
    s.k = 0;
    if (k % g) return uop_bool(m->g, true);
    if (s.term[0].c < 0) g = -g;
    divide(&s, g);
    return ALU2(m->g, CMPNE, poly_build(&s), uop_index(m->g, k / g));
}

/* g*A + B < k where B is small: A < t when (k - B)/g rounds up to one t. */
static const UOp *less_without_small(const Match *m)
{
    Poly s, big, small;
    int64_t lo, hi, k;
    if (!poly_of(&s, m->g, m->slot[X]) || s.n < 2 || __builtin_sub_overflow(m->slot[C]->arg.i, s.k, &k) ||
        k > INT64_MAX / 4 || k < INT64_MIN / 4)
        return NULL;
    for (uint32_t i = 0; i < s.n; i++) {
        int64_t g = s.term[i].c < 0 ? -s.term[i].c : s.term[i].c;
        if (g < 2) continue;
        poly_init(&big, m->g, DT_INDEX), poly_init(&small, m->g, DT_INDEX);
        for (uint32_t j = 0; j < s.n; j++) poly_add_term(s.term[j].c % g ? &small : &big, s.term[j].f, s.term[j].c);
        if (!small.n || !poly_bounds(&small, &lo, &hi) || hi > INT64_MAX / 4 || lo < INT64_MIN / 4) continue;
        int64_t t = -floor_div64(hi - k, g);
        if (t != -floor_div64(lo - k, g)) continue;
        divide(&big, g);
        return ALU2(m->g, CMPLT, poly_build(&big), uop_index(m->g, t));
    }
    return NULL;
}

/* x < c where ranges have symbolic bounds: decided by x at the ends of its ranges, symbols kept. */
static const UOp *less_symbolic(const Match *m)
{
    Poly s, end;
    int64_t lo, hi, k = m->slot[C]->arg.i;
    if (!poly_of(&s, m->g, m->slot[X]) || s.n < 2) return NULL;
    if (poly_extreme(&end, &s, true) && poly_bounds(&end, &lo, &hi) && hi < k) return uop_bool(m->g, true);
    return poly_extreme(&end, &s, false) && poly_bounds(&end, &lo, &hi) && lo >= k ? uop_bool(m->g, false) : NULL;
}

static bool positive_quotient(const Match *m)
{
    int64_t v;
    return index_sources(m) && m->slot[D]->arg.i > 0 &&
        !__builtin_mul_overflow(m->slot[C]->arg.i, m->slot[D]->arg.i, &v);
}

/* x != c at an end of x's bounds is an inequality, the form that validity understands. */
static const UOp *unequal_end(const Match *m)
{
    const UOp *a = m->root->src[0], *k = m->root->src[1];
    if (!dtype_is_int((DType)a->dtype) || a->dtype == DT_U64 || k->op != UOP_CONST) return NULL;
    if (a->vmax == k->arg.i) return ALU2(m->g, CMPLT, a, k);
    return a->vmin == k->arg.i ? not_of(m->g, ALU2(m->g, CMPLT, a, uop_int(m->g, (DType)a->dtype, k->arg.i + 1)))
                               : NULL;
}

/* A constant that is an integer, of whatever type. */
static bool whole_number(const UOp *c, int64_t *v)
{
    if (dtype_is_int((DType)c->dtype)) return *v = c->arg.i, c->vmin == c->vmax;
    double d = dtype_is_float((DType)c->dtype) ? uop_const_float(c) : 0.5;
    return fabs(d) < 0x1p53 && trunc(d) == d && (*v = (int64_t)d, true);
}

/* What an exact cast from an integer that fits t, or a constant, was, in t; else NULL. */
static const UOp *cast_from(Graph *g, const UOp *a, DType t)
{
    int64_t v;
    if (!dtype_is_int(t) || t == DT_U64) return NULL;
    if (a->op == UOP_CAST) {
        const UOp *x = a->src[0];
        return dtype_is_int((DType)x->dtype) && fits(x, (DType)a->dtype) && fits(x, t) ? cast_to(g, t, x) : NULL;
    }
    if (a->op != UOP_CONST || !whole_number(a, &v)) return NULL;
    return v >= dtype_min(t) && v <= dtype_max(t) ? uop_int(g, t, v) : NULL;
}

/* Comparing casts of integers that fit: compare what was cast, in one of the types. */
static const UOp *compare_uncast(const Match *m)
{
    const UOp *const *side = m->root->src;
    for (int k = 0; k < 2; k++) {
        if (side[k]->op != UOP_CAST) continue;
        DType t = (DType)side[k]->src[0]->dtype;
        const UOp *a = cast_from(m->g, side[0], t), *b = cast_from(m->g, side[1], t);
        if (a && b) return UOP(m->g, (Op)m->root->op, DT_VOID, NO_ARG, a, b);
    }
    return NULL;
}

static const Rule compare[] = {
    { "lt-same",       P(CMPLT, x, x),                       no,                                NULL,               NULL },
    { "ne-same",       P(CMPNE, x, x),                       no,                                integral,           NULL },
    { "lt-cast",       P(CMPLT, P(CAST, x), y),              NULL,                              NULL,               compare_uncast },
    { "lt-of-cast",    P(CMPLT, y, P(CAST, x)),              NULL,                              NULL,               compare_uncast },
    { "ne-cast",       P(CMPNE, P(CAST, x), y),              NULL,                              NULL,               compare_uncast },
    { "lt-normal",     P(CMPLT, x, y),                       NULL,                              index_sources,      less_normal },
    { "ne-normal",     P(CMPNE, x, y),                       NULL,                              index_sources,      unequal_normal },
    { "lt-quotient",   P(CMPLT, P(IDIV, x, d), c),           P(CMPLT, x, P(MUL, c, d)),         positive_quotient,  NULL },
    { "lt-small",      P(CMPLT, x, c),                       NULL,                              index_sources,      less_without_small },
    { "lt-symbolic",   P(CMPLT, x, c),                       NULL,                              index_sources,      less_symbolic },
    { "ne-end",        P(CMPNE, x, c),                       NULL,                              NULL,               unequal_end },
};
const RuleTable table_compare = RULES(compare);

/* ---- the sets ---- */

static const RuleTable *const all[] = { &table_simple,  &table_logic,  &table_sums,
                                        &table_compare, &table_divmod, &table_valid };

const RuleSet *rules_symbolic(void)
{
    static const RuleSet *_Atomic set;
    return ruleset_once(&set, all, 6);
}

/* without those for validity */
const RuleSet *rules_scalar(void)
{
    static const RuleSet *_Atomic set;
    return ruleset_once(&set, all, 5);
}
