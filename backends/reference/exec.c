/* Kernels in forms 1 to 5: a graph of scalars and short vectors under RANGEs.
 *
 * An effect (END, STORE) runs; a value is requested. A node's value is kept with the time at which it was computed, and
 * serves as long as no RANGE that the node depends on was set later. END and REDUCE set their ranges in turn, outermost
 * first. A staged buffer (AFTER(BUFFER, END..)) is filled when it is read at a time when its END has not run for the
 * present ranges. WHERE requests the arm that it takes; LOAD and STORE request the gate first.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "backends/reference/reference.h"
#include "graph/guard.h"
#include "graph/scalar.h"

enum { LANES_MAX = 1024, DEPTH_MAX = 8000 };

typedef struct { int64_t *value; uint64_t time; } Cell;
typedef struct {
    const Kernel *k;
    const RefMem *mem;
    const int64_t *vars;
    Arena *arena;
    Cell *cell;                     /* by id */
    void **staged;                  /* by id of BUFFER */
    uint64_t set[64], now;          /* when each range was set last */
    int64_t at[64];                 /* its value */
    uint32_t depth;
    TgStatus status;
} Exec;

static const int64_t *value_of(Exec *e, const UOp *u);

static void broken(Exec *e, TgStatus code, const char *what, const UOp *u, int64_t v)
{
    if (!e->status)
        e->status = fail(code, "reference: kernel %s: %s (%s %%%u, %lld)", e->k->name, what, op_name((Op)u->op), u->id,
                         (long long)v);
}

static bool is_fresh(const Exec *e, const UOp *u, uint64_t time)
{
    for (uint64_t r = u->ranges; r; r &= r - 1)
        if (e->set[__builtin_ctzll(r)] > time) return false;
    return true;
}

/* Calls body once an assignment of the ranges. */
static void loop(Exec *e, const UOp *u, uint32_t k, void (*body)(Exec *e, const UOp *u))
{
    while (k < u->nsrc && u->src[k]->op != UOP_RANGE) k++;
    if (k == u->nsrc) {
        body(e, u);
        return;
    }
    const UOp *r = u->src[k];
    int64_t n = *value_of(e, r->src[0]);
    for (int64_t i = 0; i < n && !e->status; i++) {
        e->at[range_number(r)] = i;
        e->set[range_number(r)] = ++e->now;
        loop(e, u, k + 1, body);
    }
    e->set[range_number(r)] = ++e->now;
}

/* ---- memory ---- */

typedef struct {
    void *base;
    int64_t count, at[LANES_MAX];
    uint32_t lanes;
    DType dtype;
} Place;

static void run(Exec *e, const UOp *u);

/* The memory behind PARAM, BUFFER or AFTER(..); what AFTER waits for is done first. */
static void *memory(Exec *e, const UOp *m, int64_t *count)
{
    for (; m->op == UOP_AFTER; m = m->src[0])
        for (uint32_t k = 1; k < m->nsrc; k++) run(e, m->src[k]);
    if (m->op == UOP_PARAM) {
        *count = m->arg.i < e->k->nparam ? e->mem[m->arg.i].size_bytes / dtype_size(m->dtype) : 0;
        return m->arg.i < e->k->nparam ? e->mem[m->arg.i].data : NULL;
    }
    if (m->op != UOP_BUFFER) return broken(e, TG_INTERNAL, "no memory", m, 0), NULL;
    *count = uop_numel(m);
    if (!e->staged[m->id]) e->staged[m->id] = arena_alloc(e->arena, (size_t)(*count * dtype_size(m->dtype)) + 1);
    return e->staged[m->id];
}

static void index_place(Exec *e, const UOp *u, Place *p)
{
    const UOp *m = u->src[0];
    p->lanes = ref_lanes(u);
    p->at[0] = 0;                                                /* a scalar buffer has no axis to index */
    for (uint32_t k = 1; k < u->nsrc; k++) {
        const int64_t *i = value_of(e, u->src[k]);
        uint32_t n = ref_lanes(u->src[k]);
        int64_t size = u->nsrc == 2           ? p->count
            : uop_is_const(uop_dim(m, k - 1)) ? uop_size(m, k - 1)
                                              : *value_of(e, uop_dim(m, k - 1));
        for (uint32_t l = 0; l < p->lanes && !e->status; l++) {
            int64_t v = i[n == 1 ? 0 : l];
            p->at[l] = v < 0 || v >= size || (k > 1 && p->at[l] < 0) ? -1 : (k == 1 ? 0 : p->at[l] * size) + v;
        }
    }
}

static bool is_open(const int64_t *gate, uint32_t gates, uint32_t l) { return !gates || gate[gates == 1 ? 0 : l]; }

/* The places of an access; those whose gate is open must be in bounds. */
static void find_place(Exec *e, const UOp *a, const int64_t *gate, uint32_t gates, Place *p)
{
    const UOp *m = a->op == UOP_INDEX || a->op == UOP_SHRINK ? a->src[0] : a;
    p->lanes = 0;
    p->dtype = (DType)a->dtype;
    p->base = memory(e, m, &p->count);
    if (e->status) return;
    if (ref_lanes(a) > LANES_MAX) broken(e, TG_UNSUPPORTED, "too many lanes", a, ref_lanes(a));
    else if (a->op == UOP_INDEX) index_place(e, a, p);
    else {
        int64_t first = a == m ? 0 : *value_of(e, a->src[1]->src[0]);
        p->lanes = ref_lanes(a);
        for (uint32_t l = 0; l < p->lanes; l++) p->at[l] = first + l;
    }
    for (uint32_t l = 0; l < p->lanes; l++)
        if (is_open(gate, gates, l) && (p->at[l] < 0 || p->at[l] >= p->count))
            broken(e, TG_INTERNAL, "an access is out of bounds", a, p->at[l]);
    if (!p->base) broken(e, TG_USAGE, "memory without data", a, 0);
}

static bool any_lane(const int64_t *v, uint32_t n)
{
    for (uint32_t l = 0; l < n; l++)
        if (v[l]) return true;
    return false;
}

static void load(Exec *e, const UOp *u, int64_t *out)
{
    uint32_t n = ref_lanes(u), gates = u->nsrc > 2 ? ref_lanes(u->src[2]) : 0;
    const int64_t *gate = gates ? value_of(e, u->src[2]) : NULL, *alt = gates ? value_of(e, u->src[1]) : NULL;
    Place p;
    for (uint32_t l = 0; gates && l < n; l++) out[l] = alt[ref_lanes(u->src[1]) == 1 ? 0 : l];
    if (gates && !any_lane(gate, gates)) return;
    find_place(e, u->src[0], gate, gates, &p);
    for (uint32_t l = 0; l < p.lanes && !e->status; l++)
        if (is_open(gate, gates, l)) out[l] = scalar_load(p.dtype, p.base, p.at[l]);
}

static void store(Exec *e, const UOp *u)
{
    uint32_t gates = u->nsrc > 2 ? ref_lanes(u->src[2]) : 0, n = ref_lanes(u->src[1]);
    const int64_t *gate = gates ? value_of(e, u->src[2]) : NULL;
    Place p;
    if (gates && !any_lane(gate, gates)) return;
    const int64_t *v = value_of(e, u->src[1]);
    find_place(e, u->src[0], gate, gates, &p);
    for (uint32_t l = 0; l < p.lanes && !e->status; l++)
        if (is_open(gate, gates, l)) scalar_store(p.dtype, p.base, p.at[l], v[n == 1 ? 0 : l]);
}

/* ---- values ---- */

static void add_to_sum(Exec *e, const UOp *u)
{
    DType t = (DType)u->dtype, acc = dtype_is_float(t) ? DT_F64 : t;
    const int64_t *v = value_of(e, u->src[0]);
    for (uint32_t l = 0; l < ref_lanes(u); l++)
        if (!e->status)
            uop_eval((Op)u->arg.i, acc, acc, (int64_t[]){ e->cell[u->id].value[l], v[l] }, &e->cell[u->id].value[l]);
}

static void reduce(Exec *e, const UOp *u, int64_t *out)
{
    DType t = (DType)u->dtype;
    bool real = dtype_is_float(t);
    int64_t start = u->arg.i == UOP_ADD ? 0
        : u->arg.i == UOP_MUL           ? (real ? scalar_of(1) : 1)
        : real                          ? scalar_of(-INFINITY)
                                        : dtype_min(t);
    uint32_t n = ref_lanes(u);
    for (uint32_t l = 0; l < n; l++) out[l] = start;
    if (u->arg.blob) {                                          /* over lanes */
        const int64_t *v = value_of(e, u->src[0]);
        for (uint32_t l = 0; l < ref_lanes(u->src[0]) && !e->status; l++)
            uop_eval((Op)u->arg.i, real ? DT_F64 : t, real ? DT_F64 : t, (int64_t[]){ out[0], v[l] }, out);
    } else loop(e, u, 1, add_to_sum);
    for (uint32_t l = 0; l < n && real; l++) out[l] = scalar_of(dtype_round(t, scalar_real(out[l])));
}

/* What most instructions are, without uop_eval's many cases. A sum or product of floats in double, rounded again, is
 * the float sum or product. */
static bool simple_alu(const UOp *u, const int64_t *a, const int64_t *b, int64_t *out)
{
    bool f32 = u->dtype == DT_F32, wide = u->dtype == DT_INDEX || u->dtype == DT_I64;
    if (u->op == UOP_ADD && f32) *out = scalar_of((float)(scalar_real(*a) + scalar_real(*b)));
    else if (u->op == UOP_MUL && f32) *out = scalar_of((float)(scalar_real(*a) * scalar_real(*b)));
    else if (u->op == UOP_ADD && wide) *out = (int64_t)((uint64_t)*a + (uint64_t)*b);
    else if (u->op == UOP_MUL && wide) *out = (int64_t)((uint64_t)*a * (uint64_t)*b);
    else return false;
    return f32 ? scalar_real(*out) == scalar_real(*out) : true;             /* NaNs are made equal by uop_eval */
}

int64_t ref_guard(const UOp *u, int64_t value, int64_t bound, int64_t *word)
{
    GuardKind kind = guard_kind(u->arg);
    if (guard_allows(kind, value, bound)) return value;
    if (word) guard_note(kind, value, bound, word);
    return kind == GUARD_FINITE ? value : guard_otherwise(kind);
}

bool ref_alu(const UOp *u, const int64_t *const *src, int64_t *out)
{
    int64_t v[3] = { 0 };
    uint32_t lanes = ref_lanes(u);
    if (lanes == 1 && u->nsrc == 2 && simple_alu(u, src[0], src[1], out)) return true;
    for (uint32_t l = 0; l < lanes; l++) {
        for (uint32_t k = 0; k < u->nsrc; k++) v[k] = src[k][ref_lanes(u->src[k]) == 1 ? 0 : l];
        if (u->op == UOP_BITCAST) out[l] = scalar_bitcast((DType)u->src[0]->dtype, (DType)u->dtype, v[0]);
        else if (!uop_eval((Op)u->op, (DType)u->dtype, (DType)u->src[0]->dtype, v, &out[l])) {
            if (u->op != UOP_IDIV && u->op != UOP_MOD) return false;
            /* as in compiled kernels: what divides a place by a size of 0 stands before a loop without iterations */
            out[l] = 0;
        }
    }
    return true;
}

/* a and b: fragments of all lanes, one after the other; out: the lane's accumulator, which grows. Sums are kept wide
 * and rounded once. */
void ref_wmma(const UOp *u, int64_t lane, const int64_t *a, const int64_t *b, int64_t *out)
{
    const Wmma *w = wmma_of(u);
    int na = wmma_operand(u, 0), nb = wmma_operand(u, 1), l, e;
    DType wide = dtype_is_float(w->acc) ? DT_F64 : w->acc;
    for (int m = 0; m < wmma_ranges(u)->rows; m++)
        for (int n = 0; n < w->n; n++) {
            wmma_place(w->cm, m, w->cn, n, &l, &e);
            if (l != lane) continue;
            int64_t *c = &out[e];
            for (int k = 0; k < w->k; k++) {
                int64_t v[2];
                wmma_place(w->am, m, w->ak, k, &l, &e);
                v[0] = a[l * na + e];
                wmma_place(w->bk, k, w->bn, n, &l, &e);
                v[1] = b[l * nb + e];
                uop_eval(UOP_MUL, wide, wide, v, &v[0]);
                uop_eval(UOP_ADD, wide, wide, (int64_t[]){ *c, v[0] }, c);
            }
            if (wide == DT_F64) *c = scalar_of(dtype_round(w->acc, scalar_real(*c)));
        }
}

static void choose(Exec *e, const UOp *u, int64_t *out)
{
    const int64_t *p = value_of(e, u->src[0]);
    uint32_t np = ref_lanes(u->src[0]);
    for (uint32_t l = 0; l < ref_lanes(u); l++) {
        const UOp *arm = u->src[p[np == 1 ? 0 : l] ? 1 : 2];
        out[l] = value_of(e, arm)[ref_lanes(arm) == 1 ? 0 : l];
    }
}

static void check(Exec *e, const UOp *u, int64_t *out)
{
    const int64_t *v = value_of(e, u->src[0]), *bound = value_of(e, u->src[1]);
    Place word;
    find_place(e, u->src[2], NULL, 0, &word);
    for (uint32_t l = 0; l < ref_lanes(u) && !e->status; l++)
        out[l] =
            ref_guard(u, v[ref_lanes(u->src[0]) == 1 ? 0 : l], bound[ref_lanes(u->src[1]) == 1 ? 0 : l], word.base);
}

/* ---- WMMA ---- */

/* Element number `at` of a tiled operand: of its window in memory. */
static int64_t window_element(Exec *e, const UOp *load, int64_t at, int64_t stride)
{
    const UOp *a = load->src[0];
    int64_t count, columns = 64 / dtype_size(load->dtype),
                   place = *value_of(e, a->src[1]->src[0]) + at / columns * stride + at % columns;
    void *p = memory(e, a->src[0], &count);
    if (e->status || !p || place < 0 || place >= count)
        return broken(e, TG_INTERNAL, "a window is out of bounds", load, place), 0;
    return scalar_load((DType)load->dtype, p, place);
}

/* Operand s of a lane, as its windows of memory or its own values have it. */
static void fragment(Exec *e, const UOp *u, uint32_t s, int64_t lane, int64_t *out)
{
    const Wmma *w = wmma_of(u);
    int64_t n = wmma_operand(u, s), range = wmma_ranges(u)->lane;
    if (wmma_tiled(w)) {
        for (int64_t i = 0; i < n && !e->status; i++) out[i] = window_element(e, u->src[s], i, wmma_stride(u, s));
        return;
    }
    if (range >= 0) e->at[range] = lane, e->set[range] = ++e->now;
    memcpy(out, value_of(e, u->src[s]), (size_t)n * sizeof *out);
}

/* The elements of the present lane. */
static void wmma(Exec *e, const UOp *u, int64_t *out)
{
    const Wmma *w = wmma_of(u);
    int na = wmma_operand(u, 0), nb = wmma_operand(u, 1);
    int64_t range = wmma_ranges(u)->lane, mine = range < 0 ? 0 : e->at[range],
            *a = arena_alloc(e->arena, sizeof *a * (size_t)((na + nb) * w->lanes)), *b = a + na * w->lanes;
    for (int64_t l = 0; l < w->lanes && !e->status; l++)
        fragment(e, u, 0, l, a + l * na), fragment(e, u, 1, l, b + l * nb);
    if (range >= 0) e->at[range] = mine, e->set[range] = ++e->now;
    memcpy(out, value_of(e, u->src[2]), ref_lanes(u) * sizeof *out);
    if (!e->status) ref_wmma(u, mine, a, b, out);
}

static void compute(Exec *e, const UOp *u, int64_t *out)
{
    const int64_t *src[3];
    if (u->op == UOP_WHERE) choose(e, u, out);
    else if (u->op == UOP_GUARD) check(e, u, out);
    else if (op_is((Op)u->op, FLAG_ALU) || u->op == UOP_BITCAST) {
        for (uint32_t k = 0; k < u->nsrc; k++) src[k] = value_of(e, u->src[k]);
        if (!e->status && !ref_alu(u, src, out)) broken(e, TG_BAD_INPUT, "division by zero", u, 0);
    } else switch (u->op) {
    case UOP_CONST: *out = u->arg.i; break;
    case UOP_RANGE: *out = e->at[range_number(u)]; break;
    case UOP_LOAD: load(e, u, out); break;
    case UOP_REDUCE: reduce(e, u, out); break;
    case UOP_WMMA:
        if (u->shape->rank) wmma(e, u, out);
        else
            uop_eval(UOP_MUL, (DType)u->dtype, (DType)u->dtype,
                     (int64_t[]){ *value_of(e, u->src[0]), *value_of(e, u->src[1]) }, out);
        break;
    case UOP_AFTER:
        for (uint32_t k = 1; k < u->nsrc; k++) run(e, u->src[k]);
        memcpy(out, value_of(e, u->src[0]), ref_lanes(u) * sizeof *out);
        break;
    case UOP_BIND: *out = *value_of(e, u->src[1]); break;
    case UOP_STACK:
        for (uint32_t l = 0; l < u->nsrc; l++) out[l] = *value_of(e, u->src[l]);
        break;
    case UOP_INDEX: {
        int64_t l = *value_of(e, u->src[1]);
        if (l < 0 || l >= ref_lanes(u->src[0])) broken(e, TG_INTERNAL, "no such lane", u, l);
        else *out = value_of(e, u->src[0])[l];
        break;
    }
    case UOP_DEFINE_VAR:
        for (uint32_t k = 0; k < e->k->nvar; k++)
            if (e->k->var[k] == u) {
                *out = e->vars[k];
                return;
            }
        broken(e, TG_USAGE, "a size without a value", u, 0);
        break;
    default: broken(e, TG_UNSUPPORTED, "no value", u, 0);
    }
}

static const int64_t *value_of(Exec *e, const UOp *u)
{
    Cell *c = &e->cell[u->id];
    if (c->value && c->time && is_fresh(e, u, c->time)) return c->value;
    if (!c->value) c->value = arena_alloc(e->arena, ref_lanes(u) * sizeof *c->value + 8);
    if (++e->depth > DEPTH_MAX) broken(e, TG_UNSUPPORTED, "an expression is too deep", u, e->depth);
    if (!e->status) compute(e, u, c->value);
    e->depth--;
    c->time = ++e->now;
    return c->value;
}

/* ---- effects ---- */

static void run_body(Exec *e, const UOp *u) { run(e, u->src[0]); }

static void run(Exec *e, const UOp *u)
{
    Cell *c = &e->cell[u->id];
    if (e->status || (u->op == UOP_END && c->time && is_fresh(e, u, c->time))) return;
    switch (u->op) {
    case UOP_END: loop(e, u, 1, run_body); break;
    case UOP_STORE: store(e, u); break;
    case UOP_SINK:
    case UOP_GROUP:
        for (uint32_t k = 0; k < u->nsrc; k++) run(e, u->src[k]);
        break;
    case UOP_BARRIER: break;
    default: broken(e, TG_UNSUPPORTED, "no effect", u, 0);
    }
    c->time = ++e->now;
}

TgStatus ref_exec_root(const Kernel *k, const RefMem *mem, const int64_t *vars)
{
    Exec e = { .k = k, .mem = mem, .vars = vars, .arena = arena_new() };
    e.cell = NEW_N(e.arena, Cell, graph_count(k->g));
    e.staged = NEW_N(e.arena, void *, graph_count(k->g));
    run(&e, k->root);
    arena_free(e.arena);
    return e.status;
}

TgStatus ref_exec(const Kernel *k, const RefMem *mem, const int64_t *vars)
{
    return k->linear ? ref_exec_linear(k, mem, vars) : ref_exec_root(k, mem, vars);
}
