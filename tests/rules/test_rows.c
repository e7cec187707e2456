/* Is each rewrite rule true? For every row of every table: expressions made from its pattern, slots bound to random
 * small expressions (integers with ranges, wrapping data, bools, floats with NaN, Inf, -0 and denormals), the row
 * applied alone, both sides evaluated at random points. Every row must have fired.
 *
 * A LOAD reads a known pseudo-random memory and must stay inside it; a STORE is worth a number made of its place and
 * value; loops add those up. A new row needs nothing here unless random expressions never reach it: then see
 * `reduction`.
 */
#include <stdlib.h>

#include "graph/print.h"
#include "graph/rules/rules.h"
#include "tests/rules/eval.h"
#include "tests/test.h"

enum { TRIES = 60000, ENOUGH = 120, POINTS = 10, DATA = 8, CELLS = 24 };

static uint64_t seed = 1;
static uint32_t rnd(uint32_t n)
{
    return (uint32_t)((seed = seed * 6364136223846793005u + 1442695040888963407u) >> 33) % n;
}
static int64_t between(int64_t a, int64_t b) { return a + (int64_t)rnd((uint32_t)(b - a + 1)); }

/* ---- values of leaves ---- */

typedef struct { int64_t range[64], data[DATA], var; bool outside; } Point;

static int64_t hostile(DType t)
{
    static const double f[] = { 0,    -0.0,  1,     -1,  0.5,      2,        -3,        1e-40, -1e-45,
                                3e38, -3e38, 65504, 0.1, 16777216, INFINITY, -INFINITY, NAN };
    static const int64_t n[] = { 0,         1,         -1,  2,   3,   7,     -8,        100,
                                 INT64_MAX, INT64_MIN, 127, 128, 255, 65535, INT32_MAX, INT32_MIN };
    int64_t v = dtype_is_float(t) ? scalar_of(dtype_round(t, f[rnd(17)])) : n[rnd(16)], r;
    if (!dtype_is_float(t)) uop_eval(UOP_CAST, t, DT_I64, &v, &r), v = r;
    return v;
}

/* Data leaves: PARAM slots below DATA are scalars, one a dtype and index; from DATA on they are memory of CELLS
 * elements. */
static int64_t cell(const UOp *param, int64_t i)
{
    uint64_t h = ((uint64_t)param->arg.i * 131 + (uint64_t)i) * 0x9e3779b97f4a7c15u;
    h ^= h >> 29;
    if (dtype_is_float((DType)param->dtype)) return scalar_of((double)(int64_t)(h % 17) - 8);
    int64_t v = (int64_t)(h % CELLS), r;
    uop_eval(UOP_CAST, (DType)param->dtype, DT_I64, &v, &r);
    return r;
}

static bool eval(const UOp *u, Point *p, int64_t *out);

static bool eval_load(const UOp *u, Point *p, int64_t *out)
{
    int64_t gate = 1, i;
    if (u->nsrc > 2 && !eval(u->src[2], p, &gate)) return false;
    if (!gate) return eval(u->src[1], p, out);
    if (!eval(u->src[0]->src[1], p, &i)) return false;
    if (i < 0 || i >= CELLS) return p->outside = true, *out = 0, true;
    return *out = cell(u->src[0]->src[0], i), true;
}

static bool eval_store(const UOp *u, Point *p, int64_t *out)
{
    int64_t gate = 1, i, v;
    if (u->nsrc > 2 && !eval(u->src[2], p, &gate)) return false;
    if (!gate) return *out = 0, true;
    if (!eval(u->src[0]->src[1], p, &i) || !eval(u->src[1], p, &v)) return false;
    return *out = (int64_t)(((uint64_t)i * 31 + 7) * ((uint64_t)v * 17 + 3)), true;
}

/* Loops over the ranges in src[k..]; END adds the worth of its stores, REDUCE does its op. */
static bool eval_loop(const UOp *u, uint32_t k, Point *p, int64_t *sum)
{
    int64_t n, v, pair[2];
    if (k == u->nsrc) {
        if (!eval(u->src[0], p, &v)) return false;
        if (u->op == UOP_END) return *sum += v, true;
        pair[0] = *sum, pair[1] = v;
        return uop_eval((Op)u->arg.i, (DType)u->dtype, (DType)u->dtype, pair, sum);
    }
    if (u->src[k]->op != UOP_RANGE) return eval_loop(u, k + 1, p, sum);
    if (!eval(u->src[k]->src[0], p, &n)) return false;
    int number = range_number(u->src[k]);
    int64_t keep = p->range[number];
    for (p->range[number] = 0; p->range[number] < n; p->range[number]++)
        if (!eval_loop(u, k + 1, p, sum)) return false;
    p->range[number] = keep;
    return true;
}

static int64_t start_of(const UOp *u)
{
    bool f = dtype_is_float((DType)u->dtype);
    if (u->op == UOP_END || u->arg.i == UOP_ADD) return f ? scalar_of(0) : 0;
    if (u->arg.i == UOP_MUL) return f ? scalar_of(1) : 1;
    return f ? scalar_of(-INFINITY) : dtype_min((DType)u->dtype);
}

static bool eval(const UOp *u, Point *p, int64_t *out)
{
    int64_t v[3] = { 0 };
    switch (u->op) {
    case UOP_RANGE: return *out = p->range[range_number(u)], true;
    case UOP_DEFINE_VAR: return *out = p->var, true;
    case UOP_PARAM: return *out = p->data[u->arg.i], true;
    case UOP_LOAD: return eval_load(u, p, out);
    case UOP_STORE: return eval_store(u, p, out);
    case UOP_END: case UOP_REDUCE: return *out = start_of(u), eval_loop(u, 1, p, out);
    case UOP_WHERE: return eval(u->src[0], p, v) && eval(u->src[v[0] ? 1 : 2], p, out);
    default: break;
    }
    for (uint32_t k = 0; k < u->nsrc; k++)
        if (!eval(u->src[k], p, &v[k])) return false;
    return eval_node(u, v, out);
}

/* ---- random expressions ---- */

static const DType types[] = { DT_BOOL,  DT_I8,    DT_U8,  DT_I32,  DT_U32, DT_I64, DT_U64,
                               DT_INDEX, DT_INDEX, DT_F16, DT_BF16, DT_F32, DT_F64 };
static DType any_type(void) { return types[rnd(sizeof types / sizeof *types)]; }

static const UOp *range(Graph *g, int k)
{
    static const int64_t size[4] = { 4, 6, 7, 12 };
    return k == 4 ? uop_range(g, 4, uop_var(g, "n", 2, 5), AXIS_LOOP)
                  : uop_range(g, k, uop_index(g, size[k]), k == 3 ? AXIS_REDUCE : AXIS_LOOP);
}

static const UOp *constant(Graph *g, DType t)
{
    if (t == DT_INDEX) return uop_index(g, rnd(6) ? between(-3, 16) : 1 << rnd(6));
    if (rnd(3) == 0) return UOP0(g, UOP_CONST, t, ARG_I(hostile(t)));
    return uop_const_like(g, t, (double)between(dtype_info[t].kind == KIND_UINT ? 0 : -3, 5));
}

static const UOp *expr(Graph *g, DType t, int depth);

static const UOp *index_expr(Graph *g, int depth)
{
    const UOp *a;
    switch (rnd(depth ? 11 : 3)) {
    case 0: case 1: return range(g, (int)rnd(3));
    case 2: return rnd(4) ? range(g, (int)rnd(5)) : uop_var(g, "n", 2, 5);
    case 3: case 4: case 5:
        a = ALU2(g, MUL, range(g, (int)rnd(3)), uop_index(g, between(-2, 9)));
        return ALU2(g, ADD, a, index_expr(g, depth - 1));
    case 6: return ALU2(g, ADD, index_expr(g, depth - 1), constant(g, DT_INDEX));
    case 7: return ALU2(g, MOD, index_expr(g, depth - 1), uop_index(g, between(2, 24)));
    case 8: return ALU2(g, IDIV, index_expr(g, depth - 1), uop_index(g, between(2, 12)));
    case 9: return ALU2(g, MUL, index_expr(g, depth - 1), rnd(2) ? uop_var(g, "n", 2, 5) : constant(g, DT_INDEX));
    default: return rnd(2) ? UOP(g, UOP_CAST, DT_INDEX, NO_ARG, expr(g, DT_I32, 0)) : constant(g, DT_INDEX);
    }
}

/* Integers compared in a type to which they, or one of them, are cast. */
static const UOp *compared_casts(Graph *g)
{
    const DType to[] = { DT_F32, DT_F64, DT_F16, DT_I32, DT_U8, DT_I8 }, from[] = { DT_INDEX, DT_I32, DT_I64 };
    DType t = to[rnd(6)];
    const UOp *a = cast_to(g, t, expr(g, from[rnd(3)], 1)),
              *b = rnd(2) ? cast_to(g, t, expr(g, from[rnd(3)], 1)) : constant(g, t);
    if (rnd(4) == 0 && dtype_is_float(t)) b = uop_float(g, t, (double)between(-9, 9) / 2);
    Op op = rnd(3) ? UOP_CMPLT : UOP_CMPNE;
    return rnd(2) ? UOP(g, op, DT_VOID, NO_ARG, a, b) : UOP(g, op, DT_VOID, NO_ARG, b, a);
}

static const UOp *bool_expr(Graph *g, int depth)
{
    switch (rnd(depth ? 6 : 1)) {
    case 1: return ALU2(g, CMPLT, index_expr(g, depth - 1), constant(g, DT_INDEX));
    case 2: return not_of(g, bool_expr(g, depth - 1));
    case 3: return ALU2(g, AND, bool_expr(g, depth - 1), bool_expr(g, depth - 1));
    case 4: return ALU2(g, OR, bool_expr(g, depth - 1), bool_expr(g, depth - 1));
    case 5: return compared_casts(g);
    default: return uop_param(g, DT_BOOL, NULL, 0, rnd(3));
    }
}

static const UOp *expr(Graph *g, DType t, int depth)
{
    if (t == DT_INDEX) return index_expr(g, depth);
    if (t == DT_BOOL) return bool_expr(g, depth);
    switch (rnd(depth ? 6 : 2)) {
    case 2: return cast_to(g, t, index_expr(g, depth - 1));
    case 3: return ALU3(g, WHERE, bool_expr(g, depth - 1), expr(g, t, depth - 1), constant(g, t));
    case 4: return ALU2(g, ADD, expr(g, t, depth - 1), expr(g, t, depth - 1));
    case 5: return constant(g, t);
    default: return uop_param(g, t, NULL, 0, 3 + rnd(3));
    }
}

static const UOp *address(Graph *g, DType t, const UOp *index)
{
    const UOp *n = uop_index(g, CELLS);
    return UOP(g, UOP_INDEX, DT_VOID, NO_ARG, uop_param(g, t, &n, 1, DATA + rnd(2)), index);
}

/* ---- reductions: what random expressions would hardly reach ---- */

static const UOp *equal_clause(Graph *g, const UOp *r)
{
    if (rnd(2)) return not_of(g, ALU2(g, CMPNE, r, index_expr(g, 2)));
    return not_of(g, ALU2(g, CMPNE, cast_to(g, DT_I64, r), expr(g, DT_I64, 1)));
}

static const UOp *clause(Graph *g, const UOp *r)
{
    const UOp *side = ALU2(g, ADD, ALU2(g, MUL, r, uop_index(g, rnd(3) ? 1 : between(-3, 3) | 1)),
                           rnd(2) ? index_expr(g, 1) : uop_index(g, between(-9, 9)));
    if (rnd(3) == 0) return equal_clause(g, r);
    const UOp *lt = ALU2(g, CMPLT, side, uop_index(g, between(-4, 14)));
    return rnd(2) ? not_of(g, lt) : lt;
}

static const UOp *reduced(Graph *g, DType t, Op op, const UOp *r)
{
    const UOp *mask = rnd(3) ? clause(g, r) : equal_clause(g, r),
              *v = rnd(2) ? expr(g, t, 1) : cast_to(g, t, ALU2(g, ADD, r, index_expr(g, 0)));
    if (rnd(3) == 0) mask = ALU2(g, AND, mask, rnd(2) ? clause(g, r) : bool_expr(g, 1));
    if (rnd(3) == 0) v = UOP(g, UOP_LOAD, DT_VOID, NO_ARG, address(g, t, ALU2(g, ADD, r, uop_index(g, rnd(12)))));
    if (rnd(4) == 0) v = constant(g, t);
    const UOp *id = op == UOP_MAX ? dtype_is_float(t) ? uop_float(g, t, -INFINITY) : uop_int(g, t, dtype_min(t))
                                  : uop_const_like(g, t, op == UOP_MUL);
    switch (rnd(6)) {
    case 0: return v;
    case 1: return cast_to(g, t, mask);
    case 2: return ALU2(g, ADD, v, expr(g, t, 1));
    case 3: return ALU2(g, MUL, v, expr(g, t, 1));
    case 4: return ALU3(g, WHERE, mask, id, v);
    default: return ALU3(g, WHERE, mask, v, id);
    }
}

static const UOp *reduction(Graph *g, DType t)
{
    static const Op op[] = { UOP_ADD, UOP_ADD, UOP_ADD, UOP_MAX, UOP_MUL };
    Op o = op[rnd(5)];
    const UOp *r[2] = { range(g, 3), rnd(3) ? range(g, 2) : uop_index(g, 0) },
              *src[3] = { reduced(g, t, o, r[0]), r[0], r[1] };
    return uop_new(g, UOP_REDUCE, DT_VOID, ARG_I(o), src, 2 + rnd(2));
}

static const UOp *loop(Graph *g)
{
    const UOp *store = UOP(g, UOP_STORE, DT_VOID, NO_ARG, address(g, DT_I32, range(g, 2)), expr(g, DT_I32, 1)),
              *src[3] = { store, range(g, 2), uop_index(g, 0) };
    return uop_new(g, UOP_END, DT_VOID, NO_ARG, src, 2 + rnd(2));
}

/* ---- expressions from patterns ---- */

typedef struct { Graph *g; const UOp *slot[PAT_SLOTS]; } Maker;

static const UOp *instance(Maker *m, const Pat *p, DType t);

static DType same_size(DType t)
{
    DType r;
    do r = types[1 + rnd(12)];
    while (dtype_info[r].bits != dtype_info[t].bits || r == DT_F16 || r == DT_INDEX);
    return r;
}

/* A LOAD that p or its NOT gates, in an arm; the other arm becomes a constant. */
static void gate_an_arm(Graph *g, DType t, const UOp **src)
{
    uint32_t arm = 1 + rnd(2);
    const UOp *gate = arm == 1 ? src[0] : not_of(g, src[0]),
              *v = UOP(g, UOP_LOAD, DT_VOID, NO_ARG, address(g, t, range(g, (int)rnd(4))), constant(g, t), gate);
    src[arm] = t != DT_BOOL && rnd(2) ? ALU2(g, ADD, src[arm], v) : v;
    src[3 - arm] = constant(g, t);
}

/* Sources of a pattern's op, so that the node has dtype t; NULL: it cannot. */
static const UOp *instance_op(Maker *m, const Pat *p, DType t)
{
    Op op = (Op)p->op;
    const UOp *src[3] = { NULL };
    uint32_t n = 0;
    if (op == UOP_REDUCE) return reduction(m->g, t);
    if (op == UOP_END) return loop(m->g);
    bool compare = op == UOP_CMPLT || op == UOP_CMPNE, memory = op == UOP_LOAD || op == UOP_STORE;
    DType of = compare && !rnd(3)   ? DT_BOOL
        : compare || op == UOP_CAST ? any_type()
        : op == UOP_BITCAST         ? same_size(t)
        : op == UOP_STORE           ? DT_I32
                                    : t;
    if (compare && t != DT_BOOL) return NULL;
    if (memory) src[n++] = address(m->g, of, rnd(2) ? range(m->g, (int)rnd(4)) : index_expr(m->g, 2));
    for (; n < 3 && p->src[n]; n++) {
        bool is_bool = (op == UOP_WHERE && n == 0) || (memory && n == 2);
        if (!(src[n] = instance(m, p->src[n], is_bool ? DT_BOOL : of))) return NULL;
        if ((compare || op == UOP_CAST) && n == 0) of = (DType)src[0]->dtype;
    }
    if (op == UOP_LOAD && p->any_more && rnd(2)) src[n++] = constant(m->g, t), src[n++] = bool_expr(m->g, 1);
    if (op == UOP_WHERE && rnd(8) == 0) gate_an_arm(m->g, t, src);
    if (n == 2 && op_is(op, FLAG_COMM) && rnd(2)) {
        const UOp *swap = src[0];
        src[0] = src[1], src[1] = swap;
    }
    for (uint32_t k = 1; k < n && op_is(op, FLAG_ALU); k++)
        if (src[k]->dtype != src[op == UOP_WHERE && k == 2]->dtype && !(op == UOP_WHERE && k == 1)) return NULL;
    return op == UOP_LOAD && src[0]->dtype != t ? NULL : uop_new(m->g, op, t, NO_ARG, src, n);
}

static const UOp *instance(Maker *m, const Pat *p, DType t)
{
    if (p->kind == PAT_VALUE)
        return p->value < 0 && dtype_info[t].kind == KIND_UINT ? NULL : uop_const_like(m->g, t, p->value);
    if (p->kind == PAT_OP) return instance_op(m, p, t);
    const UOp **s = &m->slot[p->slot];
    if (!*s)
        *s = p->kind == PAT_CONST ? constant(m->g, t) : rnd(8) ? expr(m->g, t, 1 + (int)rnd(3)) : constant(m->g, t);
    return (*s)->dtype == t ? *s : NULL;
}

/* For rows that see any node: an op at random. */
static const UOp *any_node(Graph *g, DType t)
{
    static const Op binary[] = { UOP_ADD,   UOP_MUL, UOP_MAX, UOP_MOD, UOP_IDIV, UOP_CMPLT,
                                 UOP_CMPNE, UOP_XOR, UOP_OR,  UOP_AND, UOP_SHR,  UOP_SHL };
    Op op = binary[rnd(12)];
    bool whole = op == UOP_IDIV || op >= UOP_XOR;
    if (rnd(20) == 0) return uop_range(g, 9, uop_index(g, 1 + rnd(2)), AXIS_LOOP);
    if (rnd(8) == 0) return UOP(g, UOP_CAST, any_type(), NO_ARG, rnd(2) ? constant(g, t) : expr(g, t, 1));
    if (dtype_is_float(t) && rnd(3) == 0)
        return UOP(g, (Op)(rnd(2) ? UOP_TRUNC : UOP_SQRT), DT_VOID, NO_ARG, rnd(2) ? constant(g, t) : expr(g, t, 1));
    if (whole && dtype_is_float(t)) op = rnd(2) ? UOP_ADD : UOP_DIV;
    return UOP(g, op, DT_VOID, NO_ARG, rnd(2) ? constant(g, t) : expr(g, t, 2),
               rnd(2) ? constant(g, t) : expr(g, t, 2));
}

/* ---- comparing ---- */

/* Rows that change rounding on purpose, let -0 through, or give a NaN another sign: equal within the last places. */
static bool loose(const char *name, DType t, int64_t a, int64_t b)
{
    double x = scalar_real(a), y = scalar_real(b), eps = t == DT_F64 ? 1e-14 : t == DT_F32 ? 1e-5 : 2e-2;
    if (!strcmp(name, "reduce-pick")) return x == y;
    if (!strcmp(name, "sign")) return isnan(x) && isnan(y);
    if (strcmp(name, "widen")) return false;
    return (isnan(x) && isnan(y)) || x == y || fabs(x - y) <= eps * (fabs(x) + fabs(y)) || !isfinite(x) ||
        !isfinite(y) || fmax(fabs(x), fabs(y)) > 1e37;
}

/* A product that is not rounded on its own: within the last place of what is added. */
static bool near_sum(const UOp *mulacc, Point *p, int64_t a, int64_t b)
{
    int64_t v[3];
    for (int k = 0; k < 3; k++)
        if (!eval(mulacc->src[k], p, &v[k])) return false;
    double product = scalar_real(v[0]) * scalar_real(v[1]), x = scalar_real(a), y = scalar_real(b);
    bool overflow = fabs(product) > (mulacc->dtype == DT_F32 ? 1e38 : 1e307);
    return overflow || (isnan(x) && isnan(y)) ||
        fabs(x - y) <= (mulacc->dtype == DT_F32 ? 3e-7 : 1e-15) * (fabs(product) + fabs(scalar_real(v[2]))) + 1e-40;
}

static Point random_point(void)
{
    static const int64_t size[4] = { 4, 6, 7, 12 };
    Point p = { .var = between(2, 5) };
    for (int k = 0; k < 4; k++) p.range[k] = between(0, size[k] - 1);
    p.range[4] = between(0, p.var - 1);
    return p;
}

static void data_for(const UOp *u, Point *p)
{
    if (u->op == UOP_PARAM && u->arg.i < DATA) p->data[u->arg.i] = hostile((DType)u->dtype);
    for (uint32_t k = 0; k < u->nsrc; k++)
        if (u->op != UOP_PARAM) data_for(u->src[k], p);
}

static void report(const char *name, const UOp *was, const UOp *now, int64_t a, int64_t b)
{
    Text t = { 0 };
    uop_print_expr(&t, was);
    text_add(&t, "\n  -> ");
    uop_print_expr(&t, now);
    print_error("%s: %s\n  %lld (%g) is not %lld (%g)\n", name, t.s, (long long)a, scalar_real(a), (long long)b,
                scalar_real(b));
    text_free(&t);
}

/* One data slot serves one dtype in a graph. */
static bool one_type_a_slot(Graph *g)
{
    DType seen[DATA] = { DT_VOID };
    for (uint32_t i = 0; i < graph_count(g); i++) {
        const UOp *u = graph_node(g, i);
        if (u->op != UOP_PARAM || u->arg.i >= DATA) continue;
        if (seen[u->arg.i] && seen[u->arg.i] != u->dtype) return false;
        seen[u->arg.i] = (DType)u->dtype;
    }
    return true;
}

static void assert_same(const char *name, const UOp *was, const UOp *now)
{
    for (int k = 0; k < POINTS; k++) {
        Point p = random_point();
        int64_t a, b;
        data_for(was, &p);
        if (!eval(was, &p, &a) || p.outside) continue;          /* undefined before: anything goes */
        bool same = eval(now, &p, &b) && !p.outside &&
            (a == b || (dtype_is_float((DType)was->dtype) && loose(name, (DType)was->dtype, a, b)));
        if (same || (now->op == UOP_MULACC && near_sum(now, &p, a, b))) continue;
        report(name, was, now, a, b);
        assert_true(same);
    }
}

/* Applies one row to expressions of its pattern until it has fired often enough. */
static uint32_t prove(const Rule *rule)
{
    const RuleTable alone = { rule->name, rule, 1 }, *tables[] = { &alone };
    const RuleSet *set = ruleset_new(tables, 1);
    const SelectOptions options = { .has_fma = true };
    uint32_t hits = 0;
    for (int k = 0; k < TRIES && hits < ENOUGH; k++) {
        Maker m = { .g = graph_new() };
        bool compare = rule->see->kind == PAT_OP && (rule->see->op == UOP_CMPLT || rule->see->op == UOP_CMPNE);
        DType t = compare ? DT_BOOL : any_type();
        const UOp *was = rule->see->kind == PAT_OP ? instance(&m, rule->see, t) : any_node(m.g, t);
        const UOp *now = was && one_type_a_slot(m.g) ? ruleset_apply(set, m.g, was, (void *)(uintptr_t)&options) : NULL;
        if (now) hits++, assert_same(rule->name, was, now);
        graph_free(m.g);
    }
    ruleset_free(set);
    return hits;
}

static void every_row(const RuleTable *t)
{
    uint32_t missed = 0;
    for (uint32_t k = 0; k < t->count; k++) {
        if (prove(&t->rule[k])) continue;
        print_error("%s: row '%s' never fired\n", t->name, t->rule[k].name);
        missed++;
    }
    assert_int_equal(missed, 0);
}

static void simple_rows(void **state) { (void)state; every_row(&table_simple); }
static void logic_rows(void **state) { (void)state; every_row(&table_logic); }
static void sum_rows(void **state) { (void)state; every_row(&table_sums); }
static void compare_rows(void **state) { (void)state; every_row(&table_compare); }
static void divmod_rows(void **state) { (void)state; every_row(&table_divmod); }
static void valid_rows(void **state) { (void)state; every_row(&table_valid); }
static void reduce_rows(void **state) { (void)state; every_row(&table_reduce); }
static void select_rows(void **state) { (void)state; every_row(&table_select); }
static void arithmetic_rows(void **state) { (void)state; every_row(&table_arithmetic); }

/* Whole sets on random expressions: rows that are each true end, and stay true together. */
static void sets_end_and_hold(void **state)
{
    const RuleSet *sets[] = { rules_symbolic(), rules_reduce() };
    (void)state;
    for (int k = 0; k < 12000; k++) {
        Graph *g = graph_new();
        DType t = any_type();
        const UOp *was = k % 2 ? reduction(g, t) : expr(g, t, 5), *now;
        if (one_type_a_slot(g)) {
            now = graph_rewrite(g, was, sets[k % 2], 0, NULL);
            if (graph_error(g)) print_error("%s\n", tg_error()), report("all", was, was, 0, 0);
            assert_int_equal(graph_error(g), TG_OK);
            assert_same(k % 2 ? "reduce-pick" : "all", was, now);
            assert_ptr_equal(now, graph_rewrite(g, now, sets[k % 2], 0, NULL));
        }
        graph_free(g);
    }
}

int main(int argc, char **argv)
{
    if (argc > 1) seed = strtoull(argv[1], NULL, 10);
    const struct CMUnitTest tests[] = { cmocka_unit_test(simple_rows),     cmocka_unit_test(logic_rows),
                                        cmocka_unit_test(sum_rows),        cmocka_unit_test(compare_rows),
                                        cmocka_unit_test(divmod_rows),     cmocka_unit_test(valid_rows),
                                        cmocka_unit_test(reduce_rows),     cmocka_unit_test(select_rows),
                                        cmocka_unit_test(arithmetic_rows), cmocka_unit_test(sets_end_and_hold) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
