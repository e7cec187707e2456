/* Validity: conditions (ANDs of comparisons) simplify each other and the index under them; WHEREs around gated LOADs
 * go.
 *
 * A clause `A < c`, its NOT, or `A == c` is an interval of A. To use it, A is replaced by a variable with that interval
 * for bounds, the expression simplified by rules_symbolic, and A put back; the result is taken only where it costs
 * less, so rows end. Nothing below a LOAD or REDUCE is touched: a gate inside might be what keeps an address legal
 * while the outer condition is false.
 */
#include "graph/rules/pat.h"
#include "graph/rules/poly.h"
#include "graph/rules/rules.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { CLAUSES = 32, SMALL = 192, OPENED = 8 };

/* ---- clauses ---- */

typedef struct { const UOp *a; int64_t lo, hi; } Interval;         /* a NULL: no interval */

static Interval interval_of(const UOp *u)
{
    bool turned = is_not(u);
    const UOp *t = turned ? u->src[0] : u;
    if ((t->op != UOP_CMPLT && t->op != UOP_CMPNE) || t->src[1]->op != UOP_CONST) return (Interval){ 0 };
    const UOp *a = t->src[0];
    int64_t k = t->src[1]->arg.i;
    if (!dtype_is_int((DType)a->dtype) || a->dtype == DT_U64 || k == INT64_MIN) return (Interval){ 0 };
    if (t->op == UOP_CMPNE) return turned ? (Interval){ a, k, k } : (Interval){ 0 };
    return turned ? (Interval){ a, k, a->vmax } : (Interval){ a, a->vmin, k - 1 };
}

/* The clauses of an AND, left to right; 0 when there are too many. */
static uint32_t clauses_of(const UOp *u, const UOp **out)
{
    const UOp *todo[CLAUSES] = { u };
    uint32_t n = 0;
    for (uint32_t top = 1; top;) {
        u = todo[--top];
        if (u->op == UOP_AND && top + 2 <= CLAUSES) todo[top++] = u->src[1], todo[top++] = u->src[0];
        else if (n == CLAUSES) return 0;
        else out[n++] = u;
    }
    return n;
}

static const UOp *all_of(Graph *g, const UOp *const *clause, uint32_t n)
{
    const UOp *r = NULL;
    for (uint32_t k = 0; k < n; k++)
        if (clause[k]) r = r ? ALU2(g, AND, r, clause[k]) : clause[k];
    return r ? r : uop_bool(g, true);
}

/* ---- cost ---- */

static uint32_t cost_of(const UOp *u, uint32_t budget)
{
    uint32_t c = u->op == UOP_IDIV || u->op == UOP_MOD ? 17 : 1;
    if (u->op == UOP_LOAD || u->op == UOP_REDUCE) return 1;
    for (uint32_t k = 0; k < u->nsrc && c < budget; k++) c += cost_of(u->src[k], budget - c);
    return c;
}

/* ---- substitution above LOADs ---- */

typedef struct {
    Graph *g;
    uint32_t n;
    const UOp *from[SMALL], *to[SMALL];
    bool full;
} Swap;

static void swap_add(Swap *s, const UOp *from, const UOp *to)
{
    if (s->n == SMALL) s->full = true;
    else s->from[s->n] = from, s->to[s->n++] = to;
}

static const UOp *swap_in(Swap *s, const UOp *u)
{
    const UOp *src[8];
    for (uint32_t k = 0; k < s->n; k++)
        if (s->from[k] == u) return s->to[k];
    /* a guard is checked where nothing holds, too */
    if (!u->nsrc || u->nsrc > 8 || s->full || !op_is((Op)u->op, FLAG_ALU) || u->op == UOP_GUARD) return u;
    for (uint32_t k = 0; k < u->nsrc; k++) src[k] = swap_in(s, u->src[k]);
    const UOp *r = s->full ? u : uop_with(s->g, u, src);
    swap_add(s, u, r);
    return r;
}

/* value with from -> to, simplified (without this file's rows: they would nest without end), or NULL when it is too
 * large. */
static const UOp *swapped_in(Graph *g, const UOp *value, const UOp *from, const UOp *to)
{
    Swap s = { .g = g };
    swap_add(&s, from, to);
    const UOp *r = swap_in(&s, value);
    return s.full ? NULL : r == value ? value : graph_rewrite(g, r, rules_scalar(), 0, NULL);
}

/* ---- a value where an interval holds ---- */

static const UOp *cheaper(const UOp *was, const UOp *now)
{
    if (!now || now == was || now->dtype != was->dtype || now->shape != was->shape) return was;
    uint32_t c = cost_of(was, 4000);
    return cost_of(now, c) < c ? now : was;
}

/* May an interval of a value that depends on these loops simplify u? Sums and products stay what they are wherever
 * their terms lie; it takes an operation that has steps (a division, a comparison, a choice) of all of these loops: of
 * i + k an interval of i + j says nothing that one of i alone does not. */
static bool has_steps(const UOp *u, uint64_t ranges)
{
    if ((u->ranges & ranges) != ranges || !op_is((Op)u->op, FLAG_ALU)) return false;
    if (u->op != UOP_ADD && u->op != UOP_MUL) return true;
    return has_steps(u->src[0], ranges) || has_steps(u->src[1], ranges);
}

/* from becomes `as`, which mentions a variable for a; simplify; the variable becomes a. Where a has one value only, var
 * is that constant and stays. */
static const UOp *try_swap(Graph *g, const UOp *value, const UOp *from, const UOp *as, const UOp *var, const UOp *a)
{
    if (var->op != UOP_CONST && !has_steps(value, a->ranges)) return value;
    const UOp *to = swapped_in(g, value, from, as);
    return to ? cheaper(value, var->op == UOP_CONST ? to : swapped_in(g, to, var, a)) : value;
}

static const UOp *interval_var(Graph *g, Interval i, int number)
{
    char name[24];
    snprintf(name, sizeof name, "valid%d", number);
    return uop_var(g, name, i.lo, i.hi);
}

/* One factor of the sum a stands for the whole: f = (var - the rest) / +-1. */
static const UOp *under_sum(Graph *g, const UOp *value, Interval i, const UOp *var)
{
    Poly s, r;
    if (!poly_of(&s, g, i.a)) return value;
    for (uint32_t k = 0; k < s.n; k++) {
        int64_t by = s.term[k].c;
        if (by != 1 && by != -1) continue;
        poly_init(&r, g, DT_INDEX);
        r.k = -s.k * by;
        poly_add_term(&r, var, by);
        for (uint32_t j = 0; j < s.n; j++)
            if (j != k) poly_add_term(&r, s.term[j].f, -s.term[j].c * by);
        const UOp *to = try_swap(g, value, s.term[k].f, poly_build(&r), var, i.a);
        if (to != value) return to;
    }
    return value;
}

/* What an interval of a sum says of one of its terms, the others at the end that helps least. */
static Interval of_term(const Poly *s, uint32_t k, Interval whole)
{
    Poly rest = *s;
    int64_t c = s->term[k].c, lo, hi, above, below;
    const UOp *f = s->term[k].f;
    Interval r = { f, f->vmin, f->vmax };
    rest.term[k] = rest.term[--rest.n];
    if (c == INT64_MIN || !poly_bounds(&rest, &lo, &hi)) return r;
    if (__builtin_sub_overflow(whole.lo, hi, &above) || __builtin_sub_overflow(whole.hi, lo, &below) ||
        above == INT64_MIN || below == INT64_MIN)
        return r;
    /* above <= c*f <= below */
    int64_t most = floor_div64(c > 0 ? below : -above, c > 0 ? c : -c),
            least = -floor_div64(c > 0 ? -above : below, c > 0 ? c : -c);
    if (most < r.hi) r.hi = most;
    if (least > r.lo) r.lo = least;
    return r;
}

static const UOp *under_interval(Graph *g, const UOp *value, Interval i)
{
    Poly s;
    if (i.lo < i.a->vmin) i.lo = i.a->vmin;
    if (i.hi > i.a->vmax) i.hi = i.a->vmax;
    if (i.lo > i.hi || i.a->dtype != DT_INDEX || (i.lo == i.a->vmin && i.hi == i.a->vmax)) return value;
    const UOp *var = i.lo == i.hi ? uop_index(g, i.lo) : interval_var(g, i, 0);
    value = try_swap(g, value, i.a, var, var, i.a);
    if (i.a->op != UOP_ADD || !poly_of(&s, g, i.a)) return value;
    value = under_sum(g, value, i, var);
    for (uint32_t k = 0; k < s.n; k++) {
        Interval t = of_term(&s, k, i);
        if (t.lo > t.hi || (t.lo == t.a->vmin && t.hi == t.a->vmax)) continue;
        const UOp *one = t.lo == t.hi ? uop_index(g, t.lo) : interval_var(g, t, 1);
        value = try_swap(g, value, t.a, one, one, t.a);
    }
    return value;
}

static const UOp *under_clause(Graph *g, const UOp *value, const UOp *clause)
{
    if (value->op == UOP_CONST) return value;
    const UOp *to = swapped_in(g, value, clause, uop_bool(g, true));
    if (to && is_not(clause)) to = swapped_in(g, to, clause->src[0], uop_bool(g, false));
    value = cheaper(value, to);
    Interval i = interval_of(clause);
    return i.a && (i.a->ranges & value->ranges || !i.a->ranges) ? under_interval(g, value, i) : value;
}

/* Intervals of one A over several clauses meet. */
static Interval met(const UOp *const *clause, uint32_t n, uint32_t k)
{
    Interval i = interval_of(clause[k]);
    for (uint32_t j = 0; i.a && j < n; j++) {
        Interval o = clause[j] ? interval_of(clause[j]) : (Interval){ 0 };
        if (o.a != i.a) continue;
        if (o.lo > i.lo) i.lo = o.lo;
        if (o.hi < i.hi) i.hi = o.hi;
    }
    return i;
}

const UOp *simplify_under(Graph *g, const UOp *value, const UOp *valid)
{
    const UOp *clause[CLAUSES];
    uint32_t n = clauses_of(valid, clause);
    for (uint32_t k = 0; k < n && value->op != UOP_CONST; k++) {
        value = under_clause(g, value, clause[k]);
        Interval both = met(clause, n, k);
        if (both.a && value->op != UOP_CONST) value = under_interval(g, value, both);
    }
    return value;
}

/* ---- clauses among each other ---- */

static const UOp *lower_bound(Graph *g, const UOp *a, int64_t lo)
{
    return not_of(g, ALU2(g, CMPLT, a, uop_int(g, (DType)a->dtype, lo)));
}

/* All intervals of one A become at most two clauses; false: they exclude each other. */
static bool meet_intervals(Graph *g, const UOp **clause, uint32_t n)
{
    for (uint32_t k = 0; k < n; k++) {
        Interval i = clause[k] ? met(clause, n, k) : (Interval){ 0 };
        uint32_t second = n, count = 1;
        if (!i.a) continue;
        for (uint32_t j = k + 1; j < n; j++)
            if (clause[j] && interval_of(clause[j]).a == i.a) {
                if (count++ == 1) second = j;
                else clause[j] = NULL;
            }
        if (i.lo > i.hi) return false;
        if (count == 1) continue;
        bool below = i.hi < i.a->vmax, above = i.lo > i.a->vmin;
        const UOp *hi = below ? ALU2(g, CMPLT, i.a, uop_int(g, (DType)i.a->dtype, i.hi + 1)) : NULL;
        clause[k] = i.lo == i.hi ? not_of(g, ALU2(g, CMPNE, i.a, uop_int(g, (DType)i.a->dtype, i.lo)))
            : above              ? lower_bound(g, i.a, i.lo)
                                 : hi;
        clause[second] = i.lo == i.hi || !above ? NULL : hi;
    }
    return true;
}

/* Each clause where the others hold. */
static void meet_others(Graph *g, const UOp **clause, uint32_t n)
{
    for (uint32_t k = n; k-- > 0;) {
        const UOp *was = clause[k];
        if (!was) continue;
        for (uint32_t j = 0; j < n && clause[k]->op != UOP_CONST; j++)
            if (j != k && clause[j] && clause[j]->ranges & was->ranges)
                clause[k] = under_clause(g, clause[k], clause[j]);
        if (uop_is_int_const(clause[k], 1)) clause[k] = NULL;
    }
}

const UOp *simplify_valid(Graph *g, const UOp *valid)
{
    const UOp *clause[CLAUSES];
    uint32_t n = clauses_of(valid, clause);
    if (n < 2) return valid;
    if (!meet_intervals(g, clause, n)) return uop_bool(g, false);
    meet_others(g, clause, n);
    return cheaper(valid, all_of(g, clause, n));
}

/* ---- rows ---- */

static const UOp *and_valid(const Match *m) { return simplify_valid(m->g, m->root); }

/* The index of a gated LOAD or STORE, where the gate (src[2]) holds. */
static const UOp *access_under(const Match *m)
{
    const UOp *at = m->root->src[0], *src[16];
    if (at->op != UOP_INDEX || at->nsrc > 16) return NULL;
    src[0] = at->src[0];
    for (uint32_t k = 1; k < at->nsrc; k++)
        src[k] = at->src[k]->shape->rank ? at->src[k] : simplify_under(m->g, at->src[k], m->root->src[2]);
    const UOp *to = uop_with(m->g, at, src), *all[3];
    if (to == at) return NULL;
    memcpy(all, m->root->src, sizeof all);
    all[0] = to;
    return uop_with(m->g, m->root, all);
}

static const UOp *plain_store(const Match *m)
{
    return UOP(m->g, UOP_STORE, DT_VOID, NO_ARG, m->root->src[0], m->root->src[1]);
}

static const UOp *and_of(Graph *g, const UOp *a, const UOp *b) { return !b || a == b ? a : ALU2(g, AND, a, b); }

/* Is there a LOAD in u, this one unless it is NULL? */
static bool reads_memory(const UOp *u, const UOp *load, int depth)
{
    if (u->op == UOP_LOAD && (!load || u == load)) return true;
    for (uint32_t k = 0; depth && k < u->nsrc; k++)
        if (reads_memory(u->src[k], load, depth - 1)) return true;
    return false;
}

static bool is_inside(const UOp *at)
{
    for (uint32_t k = 1; k < at->nsrc; k++)
        if (at->src[k]->vmin < 0 || !uop_is_const(uop_dim(at->src[0], k - 1)) ||
            at->src[k]->vmax >= uop_dim(at->src[0], k - 1)->arg.i)
            return false;
    return at->nsrc == 1 + uop_rank(at->src[0]);
}

/* A choice by data of what is there whatever they are, or by itself: a gate would make a branch of it, which no one
 * foresees. */
static bool is_free_choice(const UOp *load, const UOp *gate)
{
    return load->nsrc == 1 && reads_memory(gate, is_inside(load->src[0]) ? NULL : load, 6);
}

static bool implies(const UOp *gate, const UOp *p)
{
    const UOp *clause[CLAUSES], *want[CLAUSES];
    uint32_t n = clauses_of(gate, clause), need = clauses_of(p, want), found = 0;
    for (uint32_t k = 0; k < need; k++)
        for (uint32_t j = 0; j < n; j++)
            if (want[k] == clause[j]) {
                found++;
                break;
            }
    return need && found == need;
}

/* LOAD where p holds, alt else: the LOAD's own gate takes p in. Its own alt is of no matter where p says all that its
 * gate says. */
static const UOp *gated(Graph *g, const UOp *load, const UOp *alt, const UOp *gate)
{
    if (load->op != UOP_LOAD || load->src[0]->op != UOP_INDEX || load->shape->rank || alt->op != UOP_CONST) return NULL;
    if ((load->nsrc > 1 && load->src[1] != alt && !(load->nsrc > 2 && implies(gate, load->src[2]))) ||
        is_free_choice(load, gate))
        return NULL;
    gate = and_of(g, gate, load->nsrc > 2 ? load->src[2] : NULL);
    return ALU3(g, LOAD, load->src[0], alt, gate);
}

static const UOp *where_load(const Match *m) { return gated(m->g, m->root->src[1], m->root->src[2], m->root->src[0]); }

/* The same of a LOAD of integers that is cast to a wider type, where alt is a number of its own. */
static const UOp *where_wide_load(const Match *m)
{
    const UOp *u = m->root, *cast = u->src[1], *load = cast->src[0];
    DType t = (DType)load->dtype;
    bool real = dtype_is_float((DType)u->dtype);
    double v = real ? uop_const_float(u->src[2]) : (double)u->src[2]->arg.i;
    int64_t c = v >= INT32_MIN && v <= INT32_MAX ? (int64_t)v : INT64_MAX;
    if (!dtype_is_int(t) || (!real && !dtype_is_int((DType)u->dtype)) ||
        2 * dtype_size(t) > dtype_size((DType)u->dtype) || (double)c != v || (!c && signbit(v)) || c < dtype_min(t) ||
        c > dtype_max(t))
        return NULL;
    const UOp *y = gated(m->g, load, uop_int(m->g, t, c), u->src[0]);
    return y ? UOP(m->g, UOP_CAST, (DType)u->dtype, NO_ARG, y) : NULL;
}

static const UOp *where_no_load(const Match *m)
{
    return gated(m->g, m->root->src[2], m->root->src[1], not_of(m->g, m->root->src[0]));
}

/* The constant that u is while p is false: LOADs that p gates give their alt, arithmetic on constants folds. NULL: no
 * constant. */
static const UOp *while_false(Graph *g, const UOp *u, const UOp *p, int depth)
{
    const UOp *src[3];
    int64_t v[3], r;
    if (u->op == UOP_CONST) return u;
    if (u->op == UOP_LOAD && u->nsrc == 3)
        return u->src[1]->op == UOP_CONST && implies(u->src[2], p) ? u->src[1] : NULL;
    if (!depth || !op_is((Op)u->op, FLAG_ALU) || u->shape->rank || u->nsrc > 3) return NULL;
    for (uint32_t k = 0; k < u->nsrc; k++) {
        if (!(src[k] = while_false(g, u->src[k], p, depth - 1))) return NULL;
        v[k] = src[k]->arg.i;
    }
    if (!uop_eval((Op)u->op, (DType)u->dtype, (DType)u->src[0]->dtype, v, &r)) return NULL;
    return UOP0(g, UOP_CONST, (DType)u->dtype, ARG_I(r));
}

static bool has_size(const UOp *u)
{
    if (u->op == UOP_DEFINE_VAR || u->op == UOP_LOAD) return true;
    for (uint32_t k = 0; k < u->nsrc; k++)
        if (has_size(u->src[k])) return true;
    return false;
}

/* A LOAD that p gates, without the clauses that are about other loops than its address is: where the rest holds, so do
 * these somewhere, and the address is the same there. Not where a size that is known later may make them hold nowhere.
 */
static const UOp *opened_load(Graph *g, const UOp *load, const UOp *p)
{
    const UOp *clause[CLAUSES], *gate = NULL;
    uint64_t ranges = 0;
    bool drops = false;
    if (load->nsrc < 3 || load->src[0]->op != UOP_INDEX || !implies(p, load->src[2])) return load;
    for (uint32_t k = 1; k < load->src[0]->nsrc; k++) ranges |= load->src[0]->src[k]->ranges;
    for (uint32_t k = 0, n = clauses_of(load->src[2], clause); k < n; k++) {
        bool other = clause[k]->ranges && !(clause[k]->ranges & ranges) && !has_size(clause[k]);
        if (!other) gate = and_of(g, clause[k], gate);
        drops |= other;
    }
    if (!drops) return load;
    if (gate) return ALU3(g, LOAD, load->src[0], load->src[1], gate);
    return is_inside(load->src[0]) ? UOP(g, UOP_LOAD, DT_VOID, NO_ARG, load->src[0]) : load;
}

/* u with such LOADs. */
static const UOp *opened(Graph *g, const UOp *u, const UOp *p, int depth)
{
    const UOp *src[3];
    if (u->op == UOP_LOAD) return opened_load(g, u, p);
    if (!depth || !op_is((Op)u->op, FLAG_ALU) || u->shape->rank || u->nsrc > 3) return u;
    for (uint32_t k = 0; k < u->nsrc; k++) src[k] = opened(g, u->src[k], p, depth - 1);
    return uop_with(g, u, src);
}

/* Does an operation that takes long then leave a loop? */
static bool opens_work(Graph *g, const UOp *u, const UOp *p, int depth)
{
    if (!depth || !op_is((Op)u->op, FLAG_ALU) || u->shape->rank) return false;
    switch (u->op) {
    case UOP_RECIP: case UOP_SQRT: case UOP_DIV: case UOP_EXP2: case UOP_LOG2: case UOP_SIN: case UOP_POW:
        if (opened(g, u, p, depth)->ranges != u->ranges) return true;
        break;
    default: break;
    }
    for (uint32_t k = 0; k < u->nsrc; k++)
        if (opens_work(g, u->src[k], p, depth - 1)) return true;
    return false;
}

/* A choice that the gates of LOADs make as well. */
static const UOp *where_gated(const Match *m)
{
    const UOp *u = m->root, *p = u->src[0], *q = u->src[1]->op == UOP_CONST ? not_of(m->g, p) : NULL;
    if (u->src[2]->op == UOP_CONST && while_false(m->g, u->src[1], p, 8) == u->src[2] &&
        !opens_work(m->g, u->src[1], p, OPENED))
        return u->src[1];
    return q && while_false(m->g, u->src[2], q, 8) == u->src[1] && !opens_work(m->g, u->src[2], q, OPENED) ? u->src[2]
                                                                                                          : NULL;
}

/* What is chosen by p need not be gated by it as well: a LOAD of a row's own stays outside of the row's loop. */
static bool is_read(const UOp *u) { return u->op == UOP_LOAD || u->op == UOP_CAST; }      /* a gate serves it alone */
static const UOp *where_open(const Match *m)
{
    const UOp *u = m->root, *x = u->src[1], *y = u->src[2];
    if (y->op == UOP_CONST && !is_read(x)) x = opened(m->g, x, u->src[0], OPENED);
    else if (x->op == UOP_CONST && !is_read(y)) y = opened(m->g, y, not_of(m->g, u->src[0]), OPENED);
    return x == u->src[1] && y == u->src[2] ? NULL : ALU3(m->g, WHERE, u->src[0], x, y);
}

/* Integer arms, each where its side of the condition holds. */
static const UOp *arms_under(const Match *m)
{
    const UOp *u = m->root;
    if (u->dtype != DT_INDEX && u->dtype != DT_BOOL) return NULL;
    const UOp *a = simplify_under(m->g, u->src[1], u->src[0]);
    const UOp *b = is_not(u->src[0]) ? u->src[2] : simplify_under(m->g, u->src[2], not_of(m->g, u->src[0]));
    return ALU3(m->g, WHERE, u->src[0], a, b);
}

static const Rule valid[] = {
    { "and-valid",   P(AND, x, y),            NULL, is_bool, and_valid },
    { "load-under",  P(LOAD, x, y, p),        NULL, NULL,    access_under },
    { "store-under", P(STORE, x, y, p),       NULL, NULL,    access_under },
    { "store-always", P(STORE, x, y, yes),    NULL, NULL,    plain_store },
    { "where-load",  P(WHERE, p, P_MORE(LOAD, x), c), NULL, NULL, where_load },
    { "where-wide-load", P(WHERE, p, P(CAST, P_MORE(LOAD, x)), c), NULL, NULL, where_wide_load },
    { "where-no-load", P(WHERE, p, c, P_MORE(LOAD, x)), NULL, NULL, where_no_load },
    { "where-gated", P(WHERE, p, x, y),       NULL, NULL,    where_gated },
    { "where-open",  P(WHERE, p, x, y),       NULL, NULL,    where_open },
    { "where-under", P(WHERE, p, x, y),       NULL, NULL,    arms_under },
};
const RuleTable table_valid = RULES(valid);
