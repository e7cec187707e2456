/* Gradients: what the gradient dy of a value is for each of its sources. A row sees TUPLE(value, dy) and writes a TUPLE
 * in the order of the sources; a source that it does not reach, and one that is `none`, has no gradient. Broadcasts are
 * summed back by gradient.c. tests/rules/test_gradient.c proves each row by finite differences. Ties of MAX share in
 * equal parts. What is written with bits is first written with arithmetic (rules_arithmetic).
 */
#include <math.h>

#include "graph/build.h"
#include "graph/rules/pat.h"
#include "graph/rules/rules.h"

#define dy q
#define OF(value) P(TUPLE, value, dy)
#define OF_MORE(op, ...) P(TUPLE, P_MORE(op, __VA_ARGS__), dy)
#define none P(TUPLE)
TG_VAR two = {{ .kind = PAT_VALUE, .value = 2 }};

static U one_gradient(const Match *m, U d) { return UOP(m->g, UOP_TUPLE, DT_VOID, NO_ARG, d); }
static U two_gradients(const Match *m, U a, U b) { return UOP(m->g, UOP_TUPLE, DT_VOID, NO_ARG, a, b); }
static U value_of(const Match *m) { return m->root->src[0]; }
static U dy_of(const Match *m) { return m->root->src[1]; }
static U number(const Match *m, double v) { return scalar(m->g, (DType)dy_of(m)->dtype, v); }
static U sizes(const Match *m, U like) { return uop_sizes(m->g, like->shape->dim, like->shape->rank); }

/* ---- element-wise ---- */

static U of_cast(const Match *m)
{
    DType from = (DType)m->slot[X]->dtype;
    return dtype_is_float(from) && dtype_is_float((DType)value_of(m)->dtype)
        ? one_gradient(m, cast(m->g, dy_of(m), from))
        : UOP0(m->g, UOP_TUPLE, DT_VOID, NO_ARG);
}

static U of_max(const Match *m)
{
    Graph *g = m->g;
    U a = m->slot[X], b = m->slot[Y], half = mul(g, dy_of(m), number(m, 0.5)), zero = number(m, 0), tie = eq(g, a, b);
    return two_gradients(m, where(g, tie, half, where(g, lt(g, b, a), dy_of(m), zero)),
                         where(g, tie, half, where(g, lt(g, a, b), dy_of(m), zero)));
}

static U of_mod(const Match *m)
{
    Graph *g = m->g;
    return two_gradients(m, dy_of(m), neg(g, mul(g, dy_of(m), floor_(g, div_(g, m->slot[X], m->slot[Y])))));
}

static U of_where(const Match *m)
{
    Graph *g = m->g;
    U zero = number(m, 0), nothing = UOP0(g, UOP_TUPLE, DT_VOID, NO_ARG);
    return UOP(g, UOP_TUPLE, DT_VOID, NO_ARG, nothing, where(g, m->slot[SLOT_P], dy_of(m), zero),
               where(g, m->slot[SLOT_P], zero, dy_of(m)));
}

static U of_exp2(const Match *m)
{
    return one_gradient(m, mul(m->g, dy_of(m), mul(m->g, value_of(m), number(m, M_LN2))));
}
static U of_log2(const Match *m)
{
    return one_gradient(m, div_(m->g, dy_of(m), mul(m->g, m->slot[X], number(m, M_LN2))));
}
static U of_sin(const Match *m) { return one_gradient(m, mul(m->g, dy_of(m), cos_(m->g, m->slot[X]))); }

/* b x^(b-1) and x^b ln x, each 0 where the factor before is. */
static U of_pow(const Match *m)
{
    Graph *g = m->g;
    U a = m->slot[X], b = m->slot[Y], zero = number(m, 0);
    U base = where(g, eq(g, b, zero), zero, mul(g, b, pow_(g, a, sub(g, b, number(m, 1))))),
      power = where(g, eq(g, a, zero), zero, mul(g, value_of(m), log_(g, a)));
    return two_gradients(m, mul(g, dy_of(m), base), mul(g, dy_of(m), power));
}

/* ---- reductions: the reduced axes are 1 in the value and in dy ---- */

static U of_reduce(const Match *m)
{
    Graph *g = m->g;
    U x0 = m->slot[X], y0 = value_of(m), d = dy_of(m), zero = number(m, 0), all = number(m, 1);
    if ((Op)y0->arg.i == UOP_ADD) return one_gradient(m, expand_like(g, d, x0));
    if ((Op)y0->arg.i == UOP_MAX) {
        U best = cast(g, eq(g, x0, y0), (DType)d->dtype);
        return one_gradient(
            m, mul(g, d, div_(g, best, uop_new(g, UOP_REDUCE, DT_VOID, (Arg){ UOP_ADD, y0->arg.blob }, &best, 1))));
    }
    /* the product of the others, without dividing by a zero */
    U gone = eq(g, x0, zero), is_zero = cast(g, gone, (DType)d->dtype), rest = where(g, gone, all, x0);
    U zeros = uop_new(g, UOP_REDUCE, DT_VOID, (Arg){ UOP_ADD, y0->arg.blob }, &is_zero, 1),
      product = uop_new(g, UOP_REDUCE, DT_VOID, y0->arg, &rest, 1);
    U others = div_(g, product, rest), lone = eq(g, zeros, is_zero);
    return one_gradient(m, mul(g, d, where(g, lone, others, zero)));
}

/* ---- movement ---- */

static U of_reshape(const Match *m)
{
    return one_gradient(m, reshape(m->g, dy_of(m), m->slot[X]->shape->dim, uop_rank(m->slot[X])));
}
static U of_flip(const Match *m) { return one_gradient(m, UOP(m->g, UOP_FLIP, DT_VOID, value_of(m)->arg, dy_of(m))); }
static U of_pad(const Match *m)
{
    return one_gradient(m, UOP(m->g, UOP_SHRINK, DT_VOID, NO_ARG, dy_of(m), m->slot[Y], sizes(m, m->slot[X])));
}
static U of_shrink(const Match *m)
{
    return one_gradient(m, UOP(m->g, UOP_PAD, DT_VOID, NO_ARG, dy_of(m), m->slot[Y], sizes(m, m->slot[X])));
}

static U of_permute(const Match *m)
{
    const int64_t *order = blob_ints(value_of(m)->arg.blob);
    int64_t back[RANK_MAX];
    uint32_t n = uop_rank(value_of(m));
    for (uint32_t k = 0; k < n; k++) back[order[k]] = k;
    return one_gradient(m, permute(m->g, dy_of(m), back, n));
}

static U of_cat(const Match *m)
{
    U v = value_of(m), at = uop_index(m->g, 0);
    const UOp **d = NEW_N(graph_arena(m->g), const UOp *, v->nsrc);
    for (uint32_t k = 0; k < v->nsrc; k++) {
        U size = uop_dim(v->src[k], (uint32_t)v->arg.i);
        d[k] = slice(m->g, dy_of(m), v->arg.i, at, size);
        at = dim_add(m->g, at, size);
    }
    return uop_new(m->g, UOP_TUPLE, DT_VOID, NO_ARG, d, v->nsrc);
}

static U of_stack(const Match *m)
{
    U v = value_of(m);
    const UOp **d = NEW_N(graph_arena(m->g), const UOp *, v->nsrc);
    for (uint32_t k = 0; k < v->nsrc; k++) d[k] = squeeze(m->g, slice_i(m->g, dy_of(m), 0, k, k + 1), 0);
    return uop_new(m->g, UOP_TUPLE, DT_VOID, NO_ARG, d, v->nsrc);
}

/* Each index in turn, from the left: the rows of dy that it chose, added up where they came from. */
static U of_index(const Match *m)
{
    Graph *g = m->g;
    U v = value_of(m), from = v->src[0], d = dy_of(m), front = uop_index(g, 1),
      back = dim_product(g, v->shape->dim, uop_rank(v));
    if (!uop_numel(v)) return one_gradient(m, full(g, (DType)from->dtype, 0, from));
    for (uint32_t k = 1; k < v->nsrc; k++) {
        U at = v->src[k], size = uop_dim(from, k - 1), n = dim_product(g, at->shape->dim, uop_rank(at));
        back = dim_div(g, back, n);
        /* [size, n] */
        U chosen = eq(g, unsqueeze(g, iota(g, size, DT_I64), 1), cast(g, reshape(g, at, &n, 1), DT_I64));
        U rows = reshape(g, d, (U[]){ front, uop_index(g, 1), n, back }, 4);
        d = sum(g, where(g, unsqueeze(g, chosen, 2), rows, number(m, 0)), 2, false);
        front = dim_mul(g, front, size);
    }
    return one_gradient(m, reshape(g, d, from->shape->dim, uop_rank(from)));
}

/* ---- rows ---- */

static const Rule gradients[] = {
    /* name         see                              write only if  make */
    { "add", OF(P(ADD, x, y)), P(TUPLE, dy, dy), NULL, NULL },
    { "mul", OF(P(MUL, x, y)), P(TUPLE, P(MUL, dy, y), P(MUL, dy, x)), NULL, NULL },
    { "recip", OF(P(RECIP, x)), P(TUPLE, P(MUL, P(MUL, dy, minus_one), P(MUL, P(RECIP, x), P(RECIP, x)))), NULL, NULL },
    { "div", OF(P(DIV, x, y)), P(TUPLE, P(DIV, dy, y), P(DIV, P(MUL, P(MUL, dy, minus_one), P(DIV, x, y)), y)), NULL,
      NULL },
    { "sqrt", OF(P(SQRT, x)), P(TUPLE, P(DIV, dy, P(MUL, P(SQRT, x), two))), NULL, NULL },
    { "exp2", OF(P(EXP2, x)), NULL, NULL, of_exp2 },
    { "log2", OF(P(LOG2, x)), NULL, NULL, of_log2 },
    { "sin", OF(P(SIN, x)), NULL, NULL, of_sin },
    { "pow", OF(P(POW, x, y)), NULL, NULL, of_pow },
    { "max", OF(P(MAX, x, y)), NULL, NULL, of_max },
    { "mod", OF(P(MOD, x, y)), NULL, NULL, of_mod },
    { "trunc", OF(P(TRUNC, x)), none, NULL, NULL },
    { "cast", OF(P(CAST, x)), NULL, NULL, of_cast },
    { "where", OF(P(WHERE, p, x, y)), NULL, NULL, of_where },
    { "guard", OF_MORE(GUARD, x), P(TUPLE, dy), NULL, NULL },
    { "reduce", OF(P(REDUCE, x)), NULL, NULL, of_reduce },
    { "reshape", OF(P(RESHAPE, x, y)), NULL, NULL, of_reshape },
    { "expand", OF(P(EXPAND, x, y)), P(TUPLE, dy), NULL, NULL },
    { "permute", OF(P(PERMUTE, x)), NULL, NULL, of_permute },
    { "flip", OF(P(FLIP, x)), NULL, NULL, of_flip },
    { "pad", OF(P(PAD, x, y, z)), NULL, NULL, of_pad },
    { "shrink", OF(P(SHRINK, x, y, z)), NULL, NULL, of_shrink },
    { "cat", OF_MORE(CAT, x), NULL, NULL, of_cat },
    { "stack", OF_MORE(STACK, x), NULL, NULL, of_stack },
    { "index", OF_MORE(INDEX, x), NULL, NULL, of_index },
    { "bitcast", OF(P(BITCAST, x)), none, NULL, NULL },
    { "contiguous", OF(P(CONTIGUOUS, x)), P(TUPLE, dy), NULL, NULL },
    { "contiguous-backward", OF(P(CONTIGUOUSBACKWARD, x)), P(TUPLE, P(CONTIGUOUS, dy)), NULL, NULL },
    { "detach", OF(P(DETACH, x)), none, NULL, NULL },
};
const RuleTable table_gradient = RULES(gradients);

/* ---- bits ---- */

static bool drops_sign(const Match *m)
{
    U bits = m->slot[C];
    return dtype_is_float((DType)m->root->dtype) &&
        (uint64_t)bits->arg.i == (UINT64_C(1) << (dtype_info[bits->dtype].bits - 1)) - 1 &&
        m->slot[X]->dtype == m->root->dtype;
}

static bool is_sign(const Match *m)
{
    U bits = m->slot[C];
    return dtype_is_float((DType)m->root->dtype) &&
        (uint64_t)bits->arg.i == UINT64_C(1) << (dtype_info[bits->dtype].bits - 1) &&
        m->slot[X]->dtype == m->root->dtype && m->slot[Y]->dtype == m->root->dtype;
}

static U signed_of(const Match *m)
{
    U x = m->slot[X], c = m->slot[C], y = bitcast(m->g, m->slot[Y], (DType)c->dtype);
    return where(m->g, ne(m->g, and_(m->g, y, c), uop_const_like(m->g, c->dtype, 0)),
                 neg(m->g, mul(m->g, x, sign(m->g, x))), x);
}

static U abs_of(const Match *m) { return mul(m->g, m->slot[X], sign(m->g, m->slot[X])); }

static const Rule arithmetic[] = {
    { "abs",        P(BITCAST, P(AND, P(BITCAST, x), c)), NULL,                                                       drops_sign, abs_of },
    { "sign",       P(BITCAST, P(OR, P(BITCAST, x), P(AND, P(BITCAST, y), c))), NULL,                                 is_sign, signed_of },
};
const RuleTable table_arithmetic = RULES(arithmetic);

const RuleSet *rules_gradient(void)
{
    static const RuleTable *const all[] = { &table_gradient };
    static const RuleSet *_Atomic set;
    return ruleset_once(&set, all, 1);
}

const RuleSet *rules_arithmetic(void)
{
    static const RuleTable *const all[] = { &table_arithmetic };
    static const RuleSet *_Atomic set;
    return ruleset_once(&set, all, 1);
}
