/* An index that is a sum of ranges times numbers says where runs begin: ranges whose steps fit into the run that those
 * inside make are part of it, the others count runs. Another index of a store is evaluated at all values of its ranges,
 * where these are few. */
#include "sched/regions.h"

#include <stdlib.h>
#include <string.h>

enum { TERMS = 64, RUNS_MOST = 1 << 20, EVALUATED_MOST = 1 << 22 };

typedef struct { int64_t step, count; } Term;
/* first + the terms' values, each below its count */
typedef struct { int64_t first; Term term[TERMS]; uint32_t n; bool good; } Sum;

/* ---- runs ---- */

static Region *region_new(Arena *a, uint32_t runs) { return arena_alloc(a, sizeof(Region) + runs * sizeof(Run)); }

static void add_run(Region *r, int64_t begin, int64_t end)
{
    if (begin >= end) return;
    if (r->n && begin <= r->run[r->n - 1].end) {
        if (r->run[r->n - 1].end < end) r->run[r->n - 1].end = end;
    } else r->run[r->n++] = (Run){ begin, end };
}

Region *region_all(Arena *a, int64_t bytes)
{
    Region *r = region_new(a, 1);
    add_run(r, 0, bytes);
    return r;
}

Region *region_meet(Arena *a, const Region *x, const Region *y)
{
    Region *r = region_new(a, x->n + y->n);
    for (uint32_t i = 0, j = 0; i < x->n && j < y->n;) {
        const Run *p = &x->run[i], *q = &y->run[j];
        add_run(r, p->begin > q->begin ? p->begin : q->begin, p->end < q->end ? p->end : q->end);
        if (p->end < q->end) i++;
        else j++;
    }
    return r;
}

Region *region_less(Arena *a, const Region *x, const Region *y)
{
    Region *r = region_new(a, x->n + y->n);
    for (uint32_t i = 0, j = 0; i < x->n; i++) {
        int64_t at = x->run[i].begin;
        while (j < y->n && y->run[j].end <= at) j++;
        for (uint32_t k = j; k < y->n && y->run[k].begin < x->run[i].end; k++) {
            add_run(r, at, y->run[k].begin);
            if (at < y->run[k].end) at = y->run[k].end;
        }
        add_run(r, at, x->run[i].end);
    }
    return r;
}

Region *region_join(Arena *a, const Region *x, const Region *y)
{
    Region *r = region_new(a, x->n + y->n);
    for (uint32_t i = 0, j = 0; i < x->n || j < y->n;) {
        bool first = j == y->n || (i < x->n && x->run[i].begin <= y->run[j].begin);
        const Run *p = first ? &x->run[i++] : &y->run[j++];
        add_run(r, p->begin, p->end);
    }
    return r;
}

static int by_begin(const void *a, const void *b)
{
    const Run *x = a, *y = b;
    return (x->begin > y->begin) - (x->begin < y->begin);
}

/* Sorted and joined, in place. */
static void tidy(Region *r)
{
    uint32_t n = r->n;
    if (n) qsort(r->run, n, sizeof *r->run, by_begin);
    r->n = 0;
    for (uint32_t k = 0; k < n; k++) add_run(r, r->run[k].begin, r->run[k].end);
}

/* ---- indices that are sums ---- */

static void add_terms(Sum *s, const UOp *u, int64_t scale)
{
    int64_t far = INT64_C(1) << 40;
    if (!s->good || llabs(scale) > far) s->good = false;
    else if (u->op == UOP_RANGE && uop_is_const(u->src[0]) && s->n < TERMS) {
        int64_t count = uop_const_int(u->src[0]);
        if (scale < 0) s->first += scale * (count - 1);
        if (scale && count > 1) s->term[s->n++] = (Term){ llabs(scale), count };
    } else if (u->op == UOP_ADD) {
        add_terms(s, u->src[0], scale);
        add_terms(s, u->src[1], scale);
    } else if (u->op == UOP_MUL && uop_is_const(u->src[1]) && llabs(uop_const_int(u->src[1])) < far)
        add_terms(s, u->src[0], scale * uop_const_int(u->src[1]));
    else if (uop_is_const(u)) s->first += scale * uop_const_int(u);
    else s->good = false;
}

static int by_step(const void *a, const void *b)
{
    const Term *x = a, *y = b;
    return (x->step > y->step) - (x->step < y->step);
}

/* In elements. exact: NULL where there are too many runs, else what lies between them then counts as read. */
static Region *runs_of(Arena *a, Sum *s, bool exact)
{
    int64_t length = 1, runs = 1;
    uint32_t inner = 0;
    if (s->n) qsort(s->term, s->n, sizeof *s->term, by_step);
    for (uint32_t k = 0; k < s->n; k++) {
        if (k == inner && s->term[k].step <= length) {
            length += s->term[k].step * (s->term[k].count - 1);
            inner++;
        } else runs *= s->term[k].count;
        if (runs <= RUNS_MOST) continue;
        if (exact) return NULL;
        for (uint32_t i = inner; i <= k; i++) length += s->term[i].step * (s->term[i].count - 1);
        inner = k + 1, runs = 1;
    }
    Region *r = region_new(a, (uint32_t)runs);
    r->n = 0;
    for (int64_t i = 0; i < runs; i++) {
        int64_t at = s->first, left = i;
        for (uint32_t k = inner; k < s->n; left /= s->term[k++].count) at += left % s->term[k].count * s->term[k].step;
        r->run[r->n++] = (Run){ at, at + length };
    }
    tidy(r);
    return r;
}

/* ---- indices of another kind ---- */

typedef struct { const UOp *range[TERMS]; int64_t value[TERMS]; uint32_t n; } Point;

static bool range_value(const void *from, const UOp *leaf, int64_t *out)
{
    const Point *p = from;
    for (uint32_t k = 0; k < p->n; k++)
        if (p->range[k] == leaf) return *out = p->value[k], true;
    return false;
}

static bool find_ranges(Point *p, const UOp *u)
{
    bool good = true;
    if (u->op == UOP_RANGE) {
        for (uint32_t k = 0; k < p->n; k++)
            if (p->range[k] == u) return true;
        good = p->n < TERMS && uop_is_const(u->src[0]);
        if (good) p->range[p->n++] = u;
        return good;
    }
    for (uint32_t k = 0; k < u->nsrc && good; k++) good = find_ranges(p, u->src[k]);
    return good;
}

/* The elements that are stored at `index` where the gate, if there is one, is true, among so many. */
static Region *evaluated(Arena *a, const UOp *index, const UOp *gate, int64_t elements)
{
    Point p = { .n = 0 };
    int64_t points = 1, at, open = 1;
    if (elements > EVALUATED_MOST || !find_ranges(&p, index) || (gate && !find_ranges(&p, gate))) return NULL;
    for (uint32_t k = 0; k < p.n && points <= EVALUATED_MOST; k++) points *= uop_const_int(p.range[k]->src[0]);
    if (points > EVALUATED_MOST) return NULL;
    Arena *scratch = arena_new();
    bool *stored = NEW_N(scratch, bool, elements + 1), good = true;
    for (int64_t i = 0; i < points && good; i++) {
        int64_t left = i;
        for (uint32_t k = 0; k < p.n; k++) {
            int64_t count = uop_const_int(p.range[k]->src[0]);
            p.value[k] = left % count;
            left /= count;
        }
        if (gate) good = uop_value(gate, range_value, &p, &open);
        if (good && open) good = uop_value(index, range_value, &p, &at) && at >= 0 && at < elements;
        if (good && open) stored[at] = true;
    }
    uint32_t runs = 0;
    for (int64_t k = 0; k < elements; k++) runs += stored[k] && !stored[k + 1];
    Region *r = good ? region_new(a, runs) : NULL;
    for (int64_t k = 0; k < elements && good; k++)
        if (stored[k]) add_run(r, k, k + 1);
    arena_free(scratch);
    return r;
}

/* ---- kernels ---- */

static const UOp *param_of(const UOp *index)
{
    const UOp *u = index->op == UOP_INDEX || index->op == UOP_SHRINK ? index->src[0] : NULL;
    return u && u->op == UOP_PARAM ? u : NULL;
}

static Region *stored_by(Arena *a, const UOp *store)
{
    const UOp *gate = store->nsrc > 2 ? store->src[2] : NULL;
    Sum s = { .good = !gate };
    if (store->src[0]->op != UOP_INDEX || store->src[0]->nsrc != 2) return NULL;
    add_terms(&s, store->src[0]->src[1], 1);
    Region *r = s.good ? runs_of(a, &s, true) : NULL;
    return r ? r : evaluated(a, store->src[0]->src[1], gate, uop_numel(store->src[0]->src[0]));
}

static Region *read_at(Arena *a, const UOp *index)
{
    Sum s = { .good = index->op == UOP_INDEX && index->nsrc == 2 };
    if (s.good) add_terms(&s, index->src[1], 1);
    return s.good ? runs_of(a, &s, false) : region_all(a, uop_numel(index->src[0]));
}

static Region *in_bytes(Region *r, const UOp *param)
{
    for (uint32_t k = 0; r && k < r->n; k++)
        r->run[k].begin *= dtype_size((DType)param->dtype), r->run[k].end *= dtype_size((DType)param->dtype);
    return r;
}

static void find_regions(Arena *a, Kernel *k)
{
    Arena *scratch = arena_new();
    uint32_t n;
    const UOp **order = uop_toposort(k->g, &k->root, 1, scratch, &n);
    bool unknown[KERNEL_PARAMS] = { false };
    for (uint32_t i = 0; i < n; i++) {
        const UOp *u = order[i];
        bool store = u->op == UOP_STORE && param_of(u->src[0]);
        if (!store && !(u->op == UOP_LOAD && param_of(u->src[0]))) continue;
        const UOp *param = param_of(u->src[0]);
        int64_t slot = param->arg.i;
        const Region **at = store ? &k->stores[slot] : &k->reads[slot];
        Region *r = in_bytes(store ? stored_by(a, u) : read_at(a, u->src[0]), param);
        unknown[slot] |= !r;
        if (r) *at = *at ? region_join(a, *at, r) : r;
    }
    for (uint32_t p = 0; p < k->nparam; p++)
        if (unknown[p]) k->stores[p] = NULL;
    arena_free(scratch);
}

void sched_regions(Schedule *s)
{
    for (uint32_t i = 0; i < s->count; i++) {
        Kernel *k = s->item[i].kernel;
        if (!k || s->item[i].once) continue;
        Arena *a = graph_arena(s->g);
        k->reads = NEW_N(a, const Region *, KERNEL_PARAMS);
        k->stores = NEW_N(a, const Region *, KERNEL_PARAMS);
        find_regions(a, k);
    }
}
