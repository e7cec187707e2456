/* Floor division and remainder of index math. In: IDIV(x, c) or MOD(x, c), x in normal form, c > 0. Out: fewer or
 * smaller of them.
 *
 * Write x = sum a_i f_i + k. Quotient and remainder of one x are always brought to the same reduced x, so that (x%c)*a
 * + (x//c)*a*c still meet (poly.c): pull    what c divides leaves; k is shifted by a multiple of c until x starts in
 * [0, c): C's division serves then fits    with each a_i replaced by a residue of it, the sum stays within one period:
 * no division is left gcd     a common factor of c and all a_i goes split   a factor f of c divides some terms, the
 * rest stays within one period of f: x//c = (x/f)//(c/f) nest    (y//a)//c = y//(ac); (y%m)//c = (y//c)%(m/c); (.. +
 * y%m)%c = (.. + y)%c where c divides m symbolic divisors: i*w + j with 0 <= j < w Each row makes the coefficients, the
 * divisor or the count of IDIV and MOD smaller. All of it is exact for floor division; nothing overflows, or no row
 * applies.
 */
#include "graph/rules/pat.h"
#include "graph/rules/poly.h"
#include "graph/rules/rules.h"

static const UOp *div_by(Graph *g, const UOp *a, int64_t by)
{
    return by == 1 ? a : ALU2(g, IDIV, a, uop_index(g, by));
}
static const UOp *mod_by(Graph *g, const UOp *a, int64_t by)
{
    return by == 1 ? uop_index(g, 0) : ALU2(g, MOD, a, uop_index(g, by));
}

static bool by_const(const Match *m)
{
    return m->root->dtype == DT_INDEX && m->slot[C]->arg.i > 1 && m->slot[C]->arg.i < INT64_MAX / 4;
}

/* x of IDIV(x, c) or MOD(x, c), its coefficients far from overflow. */
static bool read_x(Poly *x0, const Match *m)
{
    if (!poly_of(x0, m->g, m->root->src[0])) return false;
    for (uint32_t i = 0; i < x0->n; i++)
        if (x0->term[i].c > INT64_MAX / 4 || x0->term[i].c < INT64_MIN / 4) return false;
    poly_sort(x0);
    return x0->k < INT64_MAX / 4 && x0->k > INT64_MIN / 4;
}

static Poly empty(const Match *m)
{
    Poly r;
    poly_init(&r, m->g, DT_INDEX);
    return r;
}

static const UOp *quotient_plus(Poly *q, const UOp *rest)
{
    return poly_add(q, rest, 1) ? poly_build(q) : NULL;
}

/* ---- pull ---- */

/* x = c*q + r: r has the residues that keep their sign, and starts in [0, c) when it has a bound. */
static bool pull(const Poly *from, int64_t by, Poly *q, Poly *r)
{
    int64_t lo, hi, s;
    for (uint32_t i = 0; i < from->n; i++) {
        Term t = from->term[i];
        if (!poly_add_term(q, t.f, t.c / by) || !poly_add_term(r, t.f, t.c % by)) return false;
    }
    s = floor_div64(poly_bounds(r, &lo, &hi) && !__builtin_add_overflow(lo, from->k, &lo) ? lo : from->k, by);
    q->k = s;
    return !__builtin_sub_overflow(from->k, s * by, &r->k);
}

static const UOp *div_pull(const Match *m)
{
    int64_t by = m->slot[C]->arg.i;
    Poly x0, q = empty(m), r = empty(m);
    if (!read_x(&x0, m) || !pull(&x0, by, &q, &r) || (!q.n && !q.k)) return NULL;
    return quotient_plus(&q, div_by(m->g, poly_build(&r), by));
}

static const UOp *mod_pull(const Match *m)
{
    int64_t by = m->slot[C]->arg.i;
    Poly x0, q = empty(m), r = empty(m);
    if (!read_x(&x0, m) || !pull(&x0, by, &q, &r) || (!q.n && !q.k)) return NULL;
    return mod_by(m->g, poly_build(&r), by);
}

/* ---- fits ---- */

enum { TRIED = 5 };                         /* so many terms may take either residue */

/* Looks for residues r_i = a_i - c*q_i such that sum r_i f_i + k stays in [s*c, s*c + c). */
static bool residues(const Poly *from, int64_t by, Poly *q, Poly *r)
{
    uint32_t open = from->n < TRIED ? from->n : TRIED;
    for (uint32_t pick = 0; pick < 1u << open; pick++) {
        q->n = r->n = 0, r->k = from->k;
        bool ok = true;
        for (uint32_t i = 0; i < from->n; i++) {
            int64_t a = from->term[i].c, rest = a % by;
            if (rest < 0) rest += by;
            if (rest && (i < open ? pick >> i & 1 : a < 0)) rest -= by;
            ok = ok && poly_add_term(r, from->term[i].f, rest) && poly_add_term(q, from->term[i].f, (a - rest) / by);
        }
        int64_t lo, hi;
        if (!ok || !poly_bounds(r, &lo, &hi) || (q->k = floor_div64(lo, by)) != floor_div64(hi, by)) continue;
        r->k -= q->k * by;
        return true;
    }
    return false;
}

static const UOp *div_fits(const Match *m)
{
    Poly x0, q = empty(m), r = empty(m);
    return read_x(&x0, m) && residues(&x0, m->slot[C]->arg.i, &q, &r) ? poly_build(&q) : NULL;
}

static const UOp *mod_fits(const Match *m)
{
    Poly x0, q = empty(m), r = empty(m);
    return read_x(&x0, m) && residues(&x0, m->slot[C]->arg.i, &q, &r) ? poly_build(&r) : NULL;
}

/* ---- gcd and split ---- */

/* Parts x = f*hi + lo for a factor f of c, lo within one period of f: lo in [t*f, t*f + f). Afterwards hi includes t
 * and lo starts in [0, f). */
static bool parts(const Poly *from, int64_t f, Poly *hi, Poly *lo)
{
    int64_t least, most;
    hi->n = lo->n = 0, hi->k = 0, lo->k = from->k;
    for (uint32_t i = 0; i < from->n; i++) {
        Term t = from->term[i];
        if (!(t.c % f ? poly_add_term(lo, t.f, t.c) : poly_add_term(hi, t.f, t.c / f))) return false;
    }
    if (!hi->n || !poly_bounds(lo, &least, &most)) return false;
    hi->k = floor_div64(least, f);
    lo->k -= hi->k * f;
    return hi->k == floor_div64(most, f);
}

/* The largest factor of c that splits x; a common factor of all terms is the case where lo is a constant. */
static int64_t best_split(const Poly *from, int64_t by, Poly *hi, Poly *lo)
{
    int64_t best = 1;
    for (uint32_t i = 0; i < from->n; i++) {
        int64_t f = gcd64(from->term[i].c, by);
        if (f > best && f < by && parts(from, f, hi, lo)) best = f;
    }
    return best > 1 && parts(from, best, hi, lo) ? best : 1;
}

static const UOp *div_split(const Match *m)
{
    int64_t by = m->slot[C]->arg.i;
    Poly x0, hi = empty(m), lo = empty(m);
    int64_t f = read_x(&x0, m) ? best_split(&x0, by, &hi, &lo) : 1;
    return f == 1 ? NULL : div_by(m->g, poly_build(&hi), by / f);
}

static const UOp *mod_split(const Match *m)
{
    int64_t by = m->slot[C]->arg.i;
    Poly x0, hi = empty(m), lo = empty(m);
    int64_t f = read_x(&x0, m) ? best_split(&x0, by, &hi, &lo) : 1;
    if (f == 1 || !poly_add(&lo, mod_by(m->g, poly_build(&hi), by / f), f)) return NULL;
    return poly_build(&lo);
}

/* ---- nest ---- */

/* (y//a + k)//c = (y + k*a)//(a*c) */
static const UOp *div_div(const Match *m)
{
    Poly x0;
    int64_t ac, ka;
    if (!read_x(&x0, m) || x0.n != 1 || x0.term[0].c != 1 || !is_divmod(x0.term[0].f, UOP_IDIV)) return NULL;
    const UOp *in = x0.term[0].f;
    int64_t a = in->src[1]->arg.i;
    if (__builtin_mul_overflow(a, m->slot[C]->arg.i, &ac) || __builtin_mul_overflow(a, x0.k, &ka)) return NULL;
    Poly s = empty(m);
    s.k = ka;
    return ac < INT64_MAX / 4 && poly_add(&s, in->src[0], 1) ? div_by(m->g, poly_build(&s), ac) : NULL;
}

/* (y%m)//c = (y//c)%(m/c) */
static const UOp *div_of_mod(const Match *m)
{
    const UOp *in = m->root->src[0];
    int64_t by = m->slot[C]->arg.i, of = m->slot[D]->arg.i;
    return of > 0 && of % by == 0 ? mod_by(m->g, div_by(m->g, in->src[0], by), of / by) : NULL;
}

/* a*(y%m) under %c is a*y where c divides a*m */
static const UOp *mod_of_mod(const Match *m)
{
    Poly x0, r = empty(m);
    int64_t by = m->slot[C]->arg.i, am;
    bool any = false;
    if (!read_x(&x0, m)) return NULL;
    r.k = x0.k;
    for (uint32_t i = 0; i < x0.n; i++) {
        Term t = x0.term[i];
        bool drop =
            is_divmod(t.f, UOP_MOD) && !__builtin_mul_overflow(t.c, t.f->src[1]->arg.i, &am) && am % by == 0;
        any |= drop;
        if (!poly_add(&r, drop ? t.f->src[0] : t.f, t.c)) return NULL;
    }
    return any ? mod_by(m->g, poly_build(&r), by) : NULL;
}

/* x // -c = -x // c;  x % -c = -(-x % c) */
static const UOp *negative_divisor(const Match *m)
{
    int64_t by = m->slot[C]->arg.i;
    if (m->root->dtype != DT_INDEX || by >= 0 || by < -INT64_MAX / 4) return NULL;
    const UOp *minus = ALU2(m->g, MUL, m->slot[X], uop_index(m->g, -1));
    if (m->root->op == UOP_IDIV) return div_by(m->g, minus, -by);
    return ALU2(m->g, MUL, mod_by(m->g, minus, -by), uop_index(m->g, -1));
}

/* Other integers: no sums are looked into, since they may wrap. */
static bool within(const Match *m)
{
    const UOp *a = m->root->src[0], *b = m->root->src[1];
    return dtype_is_int((DType)a->dtype) && a->dtype != DT_U64 && a->vmin >= 0 && b->vmin > 0 && a->vmax < b->vmin;
}

/* ---- symbolic divisors ---- */

static const UOp *without_atom(Graph *g, const UOp *f, const UOp *atom)
{
    if (f == atom) return uop_index(g, 1);
    if (f->op != UOP_MUL) return NULL;
    if (f->src[1] == atom) return f->src[0];
    const UOp *rest = without_atom(g, f->src[0], atom);
    return !rest ? NULL : uop_is_int_const(rest, 1) ? f->src[1] : ALU2(g, MUL, rest, f->src[1]);
}

/* f / product of w's atoms, or NULL. */
static const UOp *without_factor(Graph *g, const UOp *f, const UOp *by)
{
    for (; f && by->op == UOP_MUL; by = by->src[0]) f = without_atom(g, f, by->src[1]);
    return f ? without_atom(g, f, by) : NULL;
}

static uint32_t atoms(const UOp *f)
{
    uint32_t n = 1;
    for (; f->op == UOP_MUL; f = f->src[0]) n++;
    return n;
}

/* q * by leaves x, q is added to hi; false: too large. */
static bool subtract_product(Poly *x0, Poly *hi, const UOp *q, int64_t c, const Poly *by)
{
    Poly one, product;
    poly_init(&one, by->g, DT_INDEX);
    if (!poly_add(&one, q, c) || !poly_mul(&product, &one, by) || !poly_add(hi, q, c)) return false;
    for (uint32_t i = 0; i < product.n; i++)
        if (!poly_add_term(x0, product.term[i].f, -product.term[i].c)) return false;
    return !__builtin_sub_overflow(x0->k, product.k, &x0->k);
}

/* Long division by the term of `by` with most factors: x = by*hi + (what is left of x). */
static bool long_division(Poly *x0, Poly *hi, const Poly *by)
{
    Term lead = by->term[0];
    for (uint32_t i = 1; i < by->n; i++)
        if (atoms(by->term[i].f) > atoms(lead.f)) lead = by->term[i];
    for (uint32_t i = 0, steps = 0; i < x0->n; i++) {
        Term t = x0->term[i];
        const UOp *q = t.c % lead.c ? NULL : without_factor(by->g, t.f, lead.f);
        if (!q) continue;
        if (steps++ == POLY_TERMS || !subtract_product(x0, hi, q, t.c / lead.c, by)) return false;
        i = UINT32_MAX;                         /* from the first term again */
    }
    return true;
}

/* 0 <= lo < w, w a sum of positive symbols? */
static bool within_symbol(const Poly *lo, const UOp *by, const Poly *w0)
{
    Poly most, room = *w0;
    int64_t least, greatest;
    if (!poly_bounds(lo, &least, &greatest) || least < 0) return false;
    if (greatest < by->vmin) return true;
    if (!poly_extreme(&most, lo, true)) return false;
    for (uint32_t i = 0; i < most.n; i++)
        if (!poly_add_term(&room, most.term[i].f, -most.term[i].c)) return false;
    room.k -= most.k;
    return poly_bounds(&room, &least, &greatest) && least >= 1;
}

/* x = w*hi + lo. *rest: is lo//w or lo%w still to be done? false: nothing is gained. */
static bool symbolic_parts(const Match *m, Poly *hi, Poly *lo, bool *rest)
{
    const UOp *by = m->root->src[1];
    Poly w0;
    if (m->root->dtype != DT_INDEX || by->op == UOP_CONST || by->vmin <= 0 || !read_x(lo, m) ||
        !poly_of(&w0, m->g, by) || !w0.n)
        return false;
    if (!long_division(lo, hi, &w0)) return false;
    *rest = !within_symbol(lo, by, &w0);
    return !*rest || hi->n || hi->k;
}

static const UOp *div_symbolic(const Match *m)
{
    Poly hi = empty(m), lo = empty(m);
    bool rest;
    if (!symbolic_parts(m, &hi, &lo, &rest)) return NULL;
    return !rest || poly_add(&hi, ALU2(m->g, IDIV, poly_build(&lo), m->root->src[1]), 1) ? poly_build(&hi) : NULL;
}

static const UOp *mod_symbolic(const Match *m)
{
    Poly hi = empty(m), lo = empty(m);
    bool rest;
    if (!symbolic_parts(m, &hi, &lo, &rest)) return NULL;
    return rest ? ALU2(m->g, MOD, poly_build(&lo), m->root->src[1]) : poly_build(&lo);
}

static const UOp *div_same(const Match *m)
{
    return m->slot[X]->vmin > 0 || m->slot[X]->vmax < 0 ? uop_int(m->g, (DType)m->root->dtype, m->root->op == UOP_IDIV)
                                                        : NULL;
}

/* (y//a)//b = y//(a*b), a and b positive */
static const UOp *div_div_symbolic(const Match *m)
{
    if (m->root->dtype != DT_INDEX || m->slot[Y]->vmin <= 0 || m->slot[Z]->vmin <= 0) return NULL;
    const UOp *ab = ALU2(m->g, MUL, m->slot[Y], m->slot[Z]);
    return ab->vmin > 0 && ab->vmax < INT64_MAX ? ALU2(m->g, IDIV, m->slot[X], ab) : NULL;
}

static const Rule divmod[] = {
    /* name           see                           write   only if    make */
    { "mod-within",   P(MOD, x, y),                 x,      within,    NULL },
    { "idiv-within",  P(IDIV, x, y),                zero,   within,    NULL },
    { "div-same",     P(IDIV, x, x),                NULL,   is_int,    div_same },
    { "mod-same",     P(MOD, x, x),                 NULL,   is_int,    div_same },
    { "div-negative", P(IDIV, x, c),                NULL,   NULL,      negative_divisor },
    { "mod-negative", P(MOD, x, c),                 NULL,   NULL,      negative_divisor },
    { "div-fits",     P(IDIV, x, c),                NULL,   by_const,  div_fits },
    { "mod-fits",     P(MOD, x, c),                 NULL,   by_const,  mod_fits },
    { "mod-of-mod",   P(MOD, x, c),                 NULL,   by_const,  mod_of_mod },
    { "div-pull",     P(IDIV, x, c),                NULL,   by_const,  div_pull },
    { "mod-pull",     P(MOD, x, c),                 NULL,   by_const,  mod_pull },
    { "div-split",    P(IDIV, x, c),                NULL,   by_const,  div_split },
    { "mod-split",    P(MOD, x, c),                 NULL,   by_const,  mod_split },
    { "div-div",      P(IDIV, x, c),                NULL,   by_const,  div_div },
    { "div-of-mod",   P(IDIV, P(MOD, x, d), c),     NULL,   by_const,  div_of_mod },
    { "div-symbolic", P(IDIV, x, y),                NULL,   NULL,      div_symbolic },
    { "mod-symbolic", P(MOD, x, y),                 NULL,   NULL,      mod_symbolic },
    { "div-div-sym",  P(IDIV, P(IDIV, x, y), z),    NULL,   NULL,      div_div_symbolic },
};
const RuleTable table_divmod = RULES(divmod);
