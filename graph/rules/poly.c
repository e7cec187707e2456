/* Sums in normal form (poly.h). In: any integer expression. Out: its terms, merged and in structural order, and back.
 */
#include "graph/rules/poly.h"

#include <stdlib.h>
#include <string.h>

int64_t gcd64(int64_t a, int64_t b)
{
    uint64_t u = a < 0 ? 0 - (uint64_t)a : (uint64_t)a, v = b < 0 ? 0 - (uint64_t)b : (uint64_t)b;
    while (v) {
        uint64_t r = u % v;
        u = v, v = r;
    }
    return u > INT64_MAX ? 1 : (int64_t)u;
}

int64_t floor_div64(int64_t a, int64_t b) { return a / b - (a % b < 0); }

/* ---- order ---- */

static int rank_of(const UOp *u)
{
    switch (u->op) {
    case UOP_RANGE: return 0;
    case UOP_SPECIAL: return 1;
    case UOP_DEFINE_VAR: return 2;
    case UOP_CONST: return 4;
    default: return 3;
    }
}

static int order64(int64_t a, int64_t b) { return (a > b) - (a < b); }

static int order_blobs(const Blob *a, const Blob *b)
{
    if (a == b) return 0;
    if (!a || !b) return a ? 1 : -1;
    int by = order64(a->size, b->size);
    return by ? by : memcmp(a->data, b->data, a->size);
}

static int order_heads(const UOp *a, const UOp *b)
{
    int by = order64(rank_of(a), rank_of(b));
    if (!by && a->op == UOP_RANGE) by = order64(range_number(a), range_number(b));
    if (!by) by = order64(a->op, b->op);
    if (!by) by = order64(a->dtype, b->dtype);
    if (!by) by = order64(a->arg.i, b->arg.i);
    if (!by) by = order_blobs(a->arg.blob, b->arg.blob);
    if (!by) by = order64(a->nsrc, b->nsrc);
    return by ? by : order64(a->tag, b->tag);
}

/* Equal nodes are one pointer, so the first sources that differ decide: one path down, never a tree. */
int uop_order(const UOp *a, const UOp *b)
{
    while (a != b) {
        int by = order_heads(a, b);
        if (by) return by;
        uint32_t k = 0;
        while (k < a->nsrc && a->src[k] == b->src[k]) k++;
        if (k == a->nsrc) return 0;
        a = a->src[k], b = b->src[k];
    }
    return 0;
}

static const UOp *first_atom(const UOp *f)
{
    while (f->op == UOP_MUL) f = f->src[0];
    return f;
}

static int order_terms(const void *a, const void *b)
{
    const UOp *f = ((const Term *)a)->f, *h = ((const Term *)b)->f;
    int by = uop_order(first_atom(f), first_atom(h));
    if (!by) by = order64(h->op == UOP_MUL, f->op == UOP_MUL);         /* i*w before i */
    return by ? by : uop_order(f, h);
}

/* ---- reading ---- */

void poly_init(Poly *p, Graph *g, DType t)
{
    p->g = g, p->t = t, p->k = 0, p->n = 0;
}

static bool sum64(const Poly *p, int64_t a, int64_t b, int64_t *r)
{
    return !__builtin_add_overflow(a, b, r) || p->t != DT_INDEX;
}
static bool product64(const Poly *p, int64_t a, int64_t b, int64_t *r)
{
    return !__builtin_mul_overflow(a, b, r) || p->t != DT_INDEX;
}

bool poly_add_term(Poly *p, const UOp *f, int64_t c)
{
    uint32_t i = 0;
    while (i < p->n && p->term[i].f != f) i++;
    if (i == p->n) {
        if (c == 0) return true;
        if (p->n == POLY_TERMS) return false;
        p->term[p->n++] = (Term){ f, c };
        return true;
    }
    if (!sum64(p, p->term[i].c, c, &p->term[i].c)) return false;
    if (p->term[i].c == 0) p->term[i] = p->term[--p->n];
    return true;
}

/* One node off the todo list: a constant, a term, or its parts back onto the list. */
static bool add_one(Poly *p, Term at, Term *todo, uint32_t *n)
{
    int64_t v;
    const UOp *u = at.f;
    if (u->op == UOP_CONST) return product64(p, u->arg.i, at.c, &v) && sum64(p, p->k, v, &p->k);
    if (u->op == UOP_ADD) {
        if (*n + 2 > POLY_TERMS) return false;
        todo[(*n)++] = (Term){ u->src[1], at.c };
        todo[(*n)++] = (Term){ u->src[0], at.c };
        return true;
    }
    if (u->op != UOP_MUL || u->src[1]->op != UOP_CONST) return poly_add_term(p, u, at.c);
    if (!product64(p, u->src[1]->arg.i, at.c, &v)) return false;
    if (p->t != DT_INDEX && u->src[0]->op == UOP_ADD) return poly_add_term(p, u->src[0], v);
    todo[(*n)++] = (Term){ u->src[0], v };
    return true;
}

bool poly_add(Poly *p, const UOp *u, int64_t scale)
{
    Term todo[POLY_TERMS] = { { u, scale } };
    for (uint32_t n = 1; n;)
        if (!add_one(p, todo[--n], todo, &n)) return false;
    return true;
}

bool poly_of(Poly *p, Graph *g, const UOp *u)
{
    poly_init(p, g, (DType)u->dtype);
    return poly_add(p, u, 1);
}

static int order_atoms(const void *a, const void *b)
{
    return uop_order(*(const UOp *const *)a, *(const UOp *const *)b);
}

/* The product of two factors: their atoms in order. NULL: too many. */
static const UOp *factor_mul(Graph *g, const UOp *a, const UOp *b)
{
    const UOp *atom[POLY_TERMS];
    uint32_t n = 0;
    for (const UOp *side[2] = { a, b }, **s = side; s < side + 2; s++) {
        const UOp *u = *s;
        for (; u->op == UOP_MUL && n < POLY_TERMS; u = u->src[0]) atom[n++] = u->src[1];
        if (n == POLY_TERMS) return NULL;
        atom[n++] = u;
    }
    qsort(atom, n, sizeof *atom, order_atoms);
    const UOp *r = atom[0];
    for (uint32_t k = 1; k < n; k++) r = UOP(g, UOP_MUL, DT_VOID, NO_ARG, r, atom[k]);
    return r;
}

bool poly_mul(Poly *out, const Poly *a, const Poly *b)
{
    int64_t v;
    poly_init(out, a->g, a->t);
    if (!product64(a, a->k, b->k, &out->k)) return false;
    for (uint32_t i = 0; i < a->n; i++)
        if (!product64(a, a->term[i].c, b->k, &v) || !poly_add_term(out, a->term[i].f, v)) return false;
    for (uint32_t j = 0; j < b->n; j++)
        if (!product64(a, a->k, b->term[j].c, &v) || !poly_add_term(out, b->term[j].f, v)) return false;
    for (uint32_t i = 0; i < a->n; i++)
        for (uint32_t j = 0; j < b->n; j++) {
            const UOp *f = factor_mul(a->g, a->term[i].f, b->term[j].f);
            if (!f || !product64(a, a->term[i].c, b->term[j].c, &v) || !poly_add_term(out, f, v)) return false;
        }
    return true;
}

/* ---- recombining quotients and remainders ---- */

bool is_divmod(const UOp *u, Op op) { return u->op == op && u->src[1]->op == UOP_CONST && u->src[1]->arg.i > 0; }

/* Is q = y // c, given that y may itself be z // e? */
static bool is_quotient(const UOp *q, const UOp *y, int64_t c)
{
    int64_t ec;
    if (!is_divmod(q, UOP_IDIV)) return false;
    if (q->src[0] == y && q->src[1]->arg.i == c) return true;
    return is_divmod(y, UOP_IDIV) && q->src[0] == y->src[0] && !__builtin_mul_overflow(y->src[1]->arg.i, c, &ec) &&
        q->src[1]->arg.i == ec;
}

/* y + k * c; NULL: too large. */
static const UOp *shifted(Graph *g, const UOp *y, int64_t k, int64_t c)
{
    Poly s;
    int64_t by;
    poly_init(&s, g, (DType)y->dtype);
    if (__builtin_mul_overflow(k, c, &by) || !poly_add(&s, y, 1) || __builtin_add_overflow(s.k, by, &s.k)) return NULL;
    return poly_build(&s);
}

/* Is a * c * (y // c) a term? */
static bool has_quotient(const Poly *p, const UOp *y, int64_t c, int64_t a)
{
    int64_t want;
    for (uint32_t i = 0; i < p->n; i++) {
        const UOp *q = p->term[i].f;
        if (is_divmod(q, UOP_IDIV) && q->src[0] == y && q->src[1]->arg.i == c)
            return !__builtin_mul_overflow(a, c, &want) && p->term[i].c == want;
    }
    return false;
}

/* What a * (y % c) and a * c * q, terms of p, make together, or NULL: y, or y % (c * d) where q is (y // c) % d. Where
 * q is (y // c + k) % d it is (y + k * c) % (c * d), but only if that is no remainder in the end. */
static const UOp *joined(const Poly *p, int64_t a, const UOp *y, int64_t c, const UOp *q)
{
    int64_t cd;
    if (is_quotient(q, y, c)) return y;
    if (!is_divmod(q, UOP_MOD) || __builtin_mul_overflow(c, q->src[1]->arg.i, &cd)) return NULL;
    const UOp *of = q->src[0], *to = NULL;
    if (is_quotient(of, y, c)) to = y;
    else if (of->op == UOP_ADD && of->src[1]->op == UOP_CONST && is_quotient(of->src[0], y, c)) {
        to = shifted(p->g, y, of->src[1]->arg.i, c);
        if (to && !has_quotient(p, to, cd, a)) return NULL;
    }
    return to ? UOP(p->g, UOP_MOD, DT_VOID, NO_ARG, to, uop_int(p->g, (DType)y->dtype, cd)) : NULL;
}

static bool join_one(Poly *p)
{
    for (uint32_t i = 0; i < p->n; i++) {
        Term m = p->term[i];
        if (!is_divmod(m.f, UOP_MOD)) continue;
        for (uint32_t j = 0; j < p->n; j++) {
            Term q = p->term[j];
            int64_t want, c = m.f->src[1]->arg.i;
            if (i == j || __builtin_mul_overflow(m.c, c, &want) || q.c != want) continue;
            const UOp *to = joined(p, m.c, m.f->src[0], c, q.f);
            if (to) return poly_add_term(p, m.f, -m.c) && poly_add_term(p, q.f, -q.c) && poly_add(p, to, m.c);
        }
    }
    return false;
}

/* The same by a divisor that is a product with symbols: a * (y % d) and a * d * (y // d) make a * y. */
static bool join_symbolic(Poly *p)
{
    for (uint32_t i = 0; i < p->n; i++) {
        Term m = p->term[i];
        const UOp *d = m.f->op == UOP_MOD ? m.f->src[1] : NULL,
                  *factor = d && d->op == UOP_MUL && d->src[1]->op == UOP_CONST ? d->src[0] : d;
        int64_t want, c = d && factor != d ? d->src[1]->arg.i : 1;
        if (!d || d->op == UOP_CONST || d->vmin < 1 || factor->op == UOP_ADD || __builtin_mul_overflow(m.c, c, &want))
            continue;
        const UOp *q = factor_mul(p->g, UOP(p->g, UOP_IDIV, DT_VOID, NO_ARG, m.f->src[0], d), factor);
        for (uint32_t j = 0; j < p->n; j++)
            if (p->term[j].f == q && p->term[j].c == want)
                return poly_add_term(p, m.f, -m.c) && poly_add_term(p, q, -want) && poly_add(p, m.f->src[0], m.c);
    }
    return false;
}

static uint32_t count_terms(const Poly *p)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < p->n; i++) n += p->term[i].c != 0;
    return n;
}

/* a * y less a * (y % c), all of y's terms among p's: a * c * (y // c). */
static bool join_rest(Poly *p)
{
    for (uint32_t i = 0; i < p->n; i++) {
        Term m = p->term[i];
        Poly y, less = *p;
        int64_t c = m.c && is_divmod(m.f, UOP_MOD) ? m.f->src[1]->arg.i : 0, by;
        if (!c || m.c == INT64_MIN || __builtin_mul_overflow(-m.c, c, &by)) continue;
        poly_init(&y, p->g, p->t);
        if (!poly_add(&y, m.f->src[0], 1) || !poly_add_term(&less, m.f, -m.c) || !poly_add(&less, m.f->src[0], m.c))
            continue;
        if (count_terms(&less) + 1 + count_terms(&y) != count_terms(p)) continue;
        *p = less;
        return poly_add_term(p, UOP(p->g, UOP_IDIV, DT_VOID, NO_ARG, m.f->src[0], m.f->src[1]), by);
    }
    return false;
}

bool poly_recombine(Poly *p)
{
    bool any = false;
    while (p->t == DT_INDEX && (join_one(p) || join_symbolic(p) || join_rest(p))) any = true;
    return any;
}

/* ---- writing ---- */

void poly_sort(Poly *p)
{
    if (p->n > 1) qsort(p->term, p->n, sizeof *p->term, order_terms);
}

const UOp *poly_build(Poly *p)
{
    poly_sort(p);
    const UOp *r = NULL;
    for (uint32_t i = 0; i < p->n; i++) {
        const UOp *c = uop_int(p->g, p->t, p->term[i].c), *f = p->term[i].f;
        if (c->arg.i == 0) continue;
        if (c->arg.i != 1) f = UOP(p->g, UOP_MUL, DT_VOID, NO_ARG, f, c);
        r = r ? UOP(p->g, UOP_ADD, DT_VOID, NO_ARG, r, f) : f;
    }
    const UOp *k = uop_int(p->g, p->t, p->k);
    return !r ? k : k->arg.i ? UOP(p->g, UOP_ADD, DT_VOID, NO_ARG, r, k) : r;
}

static bool scaled(int64_t c, const UOp *f, int64_t *lo, int64_t *hi)
{
    int64_t a = c < 0 ? f->vmax : f->vmin, b = c < 0 ? f->vmin : f->vmax;
    return !__builtin_mul_overflow(c, a, lo) && !__builtin_mul_overflow(c, b, hi);
}

bool poly_bounds(const Poly *p, int64_t *lo, int64_t *hi)
{
    *lo = *hi = p->k;
    for (uint32_t i = 0; i < p->n; i++) {
        int64_t a, b;
        const UOp *f = p->term[i].f;
        if (f->vmin == INT64_MIN || f->vmax == INT64_MAX || !scaled(p->term[i].c, f, &a, &b)) return false;
        if (__builtin_add_overflow(*lo, a, lo) || __builtin_add_overflow(*hi, b, hi)) return false;
    }
    return true;
}

/* The factor f, at its last step in every range (or at 0 in one, which makes it 0); c times it is added to out. */
static bool add_extreme(Poly *out, const UOp *f, int64_t c, bool last)
{
    Poly product, at, next;
    poly_init(&product, out->g, DT_INDEX);
    product.k = c;
    for (const UOp *atom; f; f = f == atom ? NULL : f->src[0]) {
        atom = f->op == UOP_MUL ? f->src[1] : f;
        bool range = atom->op == UOP_RANGE;
        if (atom->vmin < 0) return false;
        if (range && !last) return true;
        poly_init(&at, out->g, DT_INDEX);
        if (!poly_add(&at, range ? atom->src[0] : atom, 1)) return false;
        at.k -= range;
        if (!poly_mul(&next, &product, &at)) return false;
        product = next;
    }
    for (uint32_t i = 0; i < product.n; i++)
        if (!poly_add_term(out, product.term[i].f, product.term[i].c)) return false;
    return !__builtin_add_overflow(out->k, product.k, &out->k);
}

bool poly_extreme(Poly *out, const Poly *p, bool greatest)
{
    poly_init(out, p->g, DT_INDEX);
    out->k = p->k;
    for (uint32_t i = 0; i < p->n; i++)
        if (!add_extreme(out, p->term[i].f, p->term[i].c, (p->term[i].c > 0) == greatest)) return false;
    return true;
}
