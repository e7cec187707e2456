/* Interned construction and derived properties. What a column of uops.def means stands in dtype_of, shape_of and bounds_of, a case a word. */
#include "graph/uop.h"
#include "graph/guard.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/base/map.h"

const DTypeInfo dtype_info[DT_COUNT] = {
#define TYPE(id, text, c, nbits, k, onnx_type) [DT_##id] = { text, c, nbits, KIND_##k, onnx_type },
#include "graph/dtype.def"
#undef TYPE
};

enum { TYPE_ARG, TYPE_SRC0, TYPE_SRC1, TYPE_SRC2, TYPE_BOOL, TYPE_INDEX, TYPE_VOID };
enum { SHAPE_NONE, SHAPE_SRC0, SHAPE_SRC2, SHAPE_SIZES0, SHAPE_SIZES1, SHAPE_SIZES2, SHAPE_SIZE0, SHAPE_BYTES, SHAPE_PERMUTE, SHAPE_INDEX, SHAPE_STACK, SHAPE_REDUCE,
       SHAPE_GETTUPLE, SHAPE_BROADCAST, SHAPE_CAT };
enum { MM_FULL, MM_VALUE, MM_SRC0, MM_SRC1, MM_HULL0, MM_HULL, MM_BOUND, MM_BOUNDS, MM_CAST, MM_ADD, MM_MUL, MM_MAX, MM_MOD, MM_IDIV, MM_CMPLT, MM_CMPNE, MM_OR, MM_AND, MM_XOR, MM_SHR, MM_WHERE, MM_GUARD };
#define VAR 1
#define ALU FLAG_ALU
#define COMM FLAG_COMM
#define MOVE FLAG_MOVE
#define EFFECT FLAG_EFFECT
#define SUGAR FLAG_SUGAR
const OpInfo op_info[UOP_COUNT] = {
#define OP(id, least, var, flags, dt, sh, mm, text) [UOP_##id] = { #id, text, least, var, flags, TYPE_##dt, SHAPE_##sh, MM_##mm },
#include "graph/uops.def"
#undef OP
};
#undef VAR
#undef ALU
#undef COMM
#undef MOVE
#undef EFFECT
#undef SUGAR

const char axis_letter[AXIS_COUNT] = { 'g', 'l', 'w', 't', 'L', 'R', 'G', 'u', 'r' };

struct Graph {
    Arena *arena;
    const UOp **node;
    uint32_t count, cap, *slot, slots;
    Map blob, shape;
    BufferInfo *buffer;
    uint32_t nbuffer, buffer_cap;
    TgStatus error;
    void *folds;
    Guard place;
    Map calls;
    uint32_t *mark, marked, walk;       /* uop_toposort's: a node is marked when its mark is the walk's number */
};

static void *must(void *p)
{
    if (p) return p;
    fputs("tgrun: out of memory\n", stderr);
    exit(TG_LIMIT);
}

Graph *graph_new(void)
{
    Graph *g = must(calloc(1, sizeof *g));
    g->arena = arena_new();
    g->slots = 256;
    g->slot = must(calloc(g->slots, sizeof *g->slot));
    map_init(&g->blob, g->arena);
    map_init(&g->shape, g->arena);
    map_init(&g->calls, g->arena);
    return g;
}

void graph_free(Graph *g)
{
    if (!g) return;
    arena_free(g->arena);
    free(g->node);
    free(g->slot);
    free(g->buffer);
    free(g->mark);
    free(g);
}

Arena *graph_arena(Graph *g) { return g->arena; }
Map *graph_calls(Graph *g) { return &g->calls; }
Guard *graph_place(Graph *g) { return &g->place; }
void **graph_folds(Graph *g) { return &g->folds; }
uint32_t graph_count(const Graph *g) { return g->count; }
const UOp *graph_node(const Graph *g, uint32_t id) { return g->node[id]; }
TgStatus graph_error(const Graph *g) { return g->error; }
void graph_error_clear(Graph *g) { g->error = TG_OK; }

static const UOp *vfail(Graph *g, TgStatus code, const char *fmt, va_list ap)
{
    char line[600];
    vsnprintf(line, sizeof line, fmt, ap);
    if (!g->error) g->error = fail(code, "%s", line);
    return UOP0(g, UOP_ERROR, DT_VOID, NO_ARG);
}

const UOp *graph_fail(Graph *g, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    const UOp *u = vfail(g, TG_BAD_MODEL, fmt, ap);
    va_end(ap);
    return u;
}

const UOp *graph_fail_code(Graph *g, TgStatus code, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    const UOp *u = vfail(g, code, fmt, ap);
    va_end(ap);
    return u;
}

/* ---- dtypes ---- */

DType dtype_from_onnx(int32_t type)
{
    for (int t = 1; t < DT_COUNT && type > 0; t++)
        if (dtype_info[t].onnx == type) return (DType)t;
    return DT_VOID;
}

int64_t dtype_min(DType t)
{
    const DTypeInfo *i = &dtype_info[t];
    if (i->kind == KIND_BOOL || i->kind == KIND_UINT) return 0;
    return i->kind == KIND_SINT && i->bits < 64 ? -(INT64_C(1) << (i->bits - 1)) : INT64_MIN;
}

int64_t dtype_max(DType t)
{
    const DTypeInfo *i = &dtype_info[t];
    if (i->kind == KIND_BOOL) return 1;
    if (i->kind == KIND_FLOAT || i->kind == KIND_VOID || i->bits == 64) return INT64_MAX;
    return (INT64_C(1) << (i->bits - (i->kind == KIND_SINT))) - 1;
}

static double round_bits(double v, int digits, int least_exp, double largest)
{
    if (v == 0 || !isfinite(v)) return v;
    int e;
    frexp(v, &e);
    int shift = e - digits > least_exp ? e - digits : least_exp;
    double r = ldexp(nearbyint(ldexp(v, -shift)), shift);
    return fabs(r) > largest ? copysign(INFINITY, v) : r;
}

double dtype_round(DType t, double v)
{
    if (t == DT_F32) return (double)(float)v;
    if (t == DT_F16) return round_bits(v, 11, -24, 65504);
    if (t == DT_BF16) return round_bits(v, 8, -133, 3.3895313892515355e38);
    return v;
}

static int64_t wrap(DType t, int64_t v)
{
    int bits = dtype_info[t].bits;
    if (dtype_info[t].kind == KIND_BOOL) return v != 0;
    if (bits == 64) return v;
    uint64_t m = (UINT64_C(1) << bits) - 1, u = (uint64_t)v & m;
    return dtype_info[t].kind == KIND_SINT && u >> (bits - 1) ? (int64_t)(u | ~m) : (int64_t)u;
}

static int64_t from_double(double v) { int64_t i; memcpy(&i, &v, 8); return i; }
static double to_double(int64_t i) { double v; memcpy(&v, &i, 8); return v; }
double uop_const_float(const UOp *u) { return to_double(u->arg.i); }

/* ---- interning ---- */

const Blob *graph_blob(Graph *g, const void *data, size_t size)
{
    Blob *b = map_get(&g->blob, data, size);
    if (b) return b;
    b = arena_alloc(g->arena, sizeof *b + size);
    b->size = (uint32_t)size;
    if (size) memcpy(b->data, data, size);
    uint32_t h = 2166136261u;
    for (size_t i = 0; i < size; i++) h = (h ^ b->data[i]) * 16777619u;
    b->hash = h;
    map_put(&g->blob, data, size, b);
    return b;
}

const Blob *graph_ints(Graph *g, const int64_t *v, uint32_t n) { return graph_blob(g, v, n * sizeof *v); }

const Shape *graph_shape(Graph *g, const UOp *const *dim, uint32_t rank)
{
    static const UOp *const none[1];
    size_t size = rank * sizeof *dim;
    Shape *s = map_get(&g->shape, rank ? dim : none, size);
    if (s) return s;
    s = arena_alloc(g->arena, sizeof *s + size);
    s->rank = rank;
    if (rank) memcpy(s->dim, dim, size);
    map_put(&g->shape, rank ? dim : none, size, s);
    return s;
}

static uint32_t mix(uint32_t h, uint64_t v)
{
    uint64_t x = (h ^ v) * UINT64_C(0x9e3779b97f4a7c15);
    return (uint32_t)(x ^ x >> 32) * 0x85ebca6bu + 0x7f4a7c15u;
}

/* ---- derived properties ---- */

static const Shape *sizes_shape(Graph *g, const UOp *sizes)
{
    if (sizes->op == UOP_STACK) return graph_shape(g, sizes->src, sizes->nsrc);
    assert(sizes->op == UOP_STACK && "sizes are a STACK");
    return NULL;
}

static bool is_one(const UOp *d) { return d->op == UOP_CONST && d->arg.i == 1; }

static const Shape *broadcast(Graph *g, const UOp *const *src, uint32_t n)
{
    const Shape *s = src[0]->shape;
    for (uint32_t k = 1; k < n; k++) {
        const Shape *t = src[k]->shape;
        if (s == t || !t->rank) continue;
        if (!s->rank) { s = t; continue; }
        uint32_t rank = s->rank > t->rank ? s->rank : t->rank;
        const UOp *dim[rank];
        for (uint32_t i = 0; i < rank; i++) {
            const UOp *a = i + s->rank >= rank ? s->dim[i + s->rank - rank] : NULL;
            const UOp *b = i + t->rank >= rank ? t->dim[i + t->rank - rank] : NULL;
            assert((!a || !b || a == b || is_one(a) || is_one(b)) && "shapes must broadcast");
            dim[i] = !a || (b && is_one(a)) ? b : a;
        }
        s = graph_shape(g, dim, rank);
    }
    return s;
}

static const Shape *index_shape(Graph *g, const UOp *const *src, uint32_t n)
{
    const UOp *dim[64];
    uint32_t rank = 0;
    for (uint32_t k = 1; k < n; k++)
        for (uint32_t i = 0; i < src[k]->shape->rank; i++) dim[rank++] = src[k]->shape->dim[i];
    assert(n - 1 <= src[0]->shape->rank && "more indices than axes");
    for (uint32_t i = n - 1; i < src[0]->shape->rank; i++) dim[rank++] = src[0]->shape->dim[i];
    return graph_shape(g, dim, rank);
}

static const Shape *reduce_shape(Graph *g, const UOp *x, Arg arg)
{
    if (!arg.blob) return x->shape;
    const UOp *dim[64];
    for (uint32_t i = 0; i < x->shape->rank; i++) dim[i] = x->shape->dim[i];
    for (uint32_t i = 0; i < blob_count(arg.blob); i++) dim[blob_ints(arg.blob)[i]] = uop_index(g, 1);
    return graph_shape(g, dim, x->shape->rank);
}

static const UOp *index_add(Graph *g, const UOp *a, const UOp *b)
{
    if (uop_is_const(a) && uop_is_const(b)) return uop_index(g, a->arg.i + b->arg.i);
    return UOP(g, UOP_ADD, DT_VOID, NO_ARG, a, b);
}

static const Shape *shape_of(Graph *g, Op op, Arg arg, const UOp *const *src, uint32_t n)
{
    const UOp *dim[64];
    switch (op_info[op].shape_rule) {
    case SHAPE_SRC0: return src[0]->shape;
    case SHAPE_SRC2: return src[2]->shape;
    case SHAPE_SIZES0: return n ? sizes_shape(g, src[0]) : graph_shape(g, NULL, 0);
    case SHAPE_SIZES1: return sizes_shape(g, src[1]);
    case SHAPE_SIZES2: return sizes_shape(g, src[2]);
    case SHAPE_SIZE0: return graph_shape(g, src, 1);
    case SHAPE_BYTES: dim[0] = uop_index(g, arg.blob->size); return graph_shape(g, dim, 1);
    case SHAPE_PERMUTE:
        for (uint32_t i = 0; i < src[0]->shape->rank; i++) dim[i] = src[0]->shape->dim[blob_ints(arg.blob)[i]];
        return graph_shape(g, dim, src[0]->shape->rank);
    case SHAPE_INDEX: return index_shape(g, src, n);
    case SHAPE_STACK:
        dim[0] = uop_index(g, n);
        for (uint32_t i = 0; n && i < src[0]->shape->rank; i++) dim[i + 1] = src[0]->shape->dim[i];
        return graph_shape(g, dim, n ? src[0]->shape->rank + 1 : 1);
    case SHAPE_REDUCE: return reduce_shape(g, src[0], arg);
    case SHAPE_GETTUPLE: return n > 1 ? sizes_shape(g, src[1]) : src[0]->op == UOP_TUPLE ? src[0]->src[arg.i]->shape : graph_shape(g, NULL, 0);
    case SHAPE_BROADCAST: return n ? broadcast(g, src, n) : graph_shape(g, NULL, 0);
    case SHAPE_CAT:
        for (uint32_t i = 0; i < src[0]->shape->rank; i++) dim[i] = src[0]->shape->dim[i];
        for (uint32_t k = 1; k < n; k++) dim[arg.i] = index_add(g, dim[arg.i], src[k]->shape->dim[arg.i]);
        return graph_shape(g, dim, src[0]->shape->rank);
    default: return graph_shape(g, NULL, 0);
    }
}

static DType dtype_of(Op op, DType given, Arg arg, const UOp *const *src, uint32_t n)
{
    if (op == UOP_STACK && !n) return DT_INDEX;
    if (op == UOP_GETTUPLE && src[0]->op == UOP_TUPLE) return src[0]->src[arg.i]->dtype;
    switch (op_info[op].dtype_rule) {
    case TYPE_ARG: return given;
    case TYPE_SRC0: return src[0]->dtype;
    case TYPE_SRC1: return src[1]->dtype;
    case TYPE_SRC2: return src[2]->dtype;
    case TYPE_BOOL: return DT_BOOL;
    case TYPE_INDEX: return DT_INDEX;
    default: return DT_VOID;
    }
}

typedef struct { int64_t lo, hi; } Bounds;
static int64_t min64(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t max64(int64_t a, int64_t b) { return a > b ? a : b; }

static Bounds full_bounds(DType t) { return (Bounds){ dtype_min(t), dtype_max(t) }; }

/* The hull of products or quotients at the corners; the dtype's range on overflow. */
static bool corner_products(Bounds a, Bounds b, Bounds *out)
{
    int64_t v[4];
    if (__builtin_mul_overflow(a.lo, b.lo, &v[0]) || __builtin_mul_overflow(a.lo, b.hi, &v[1]) || __builtin_mul_overflow(a.hi, b.lo, &v[2]) ||
        __builtin_mul_overflow(a.hi, b.hi, &v[3]))
        return false;
    *out = (Bounds){ min64(min64(v[0], v[1]), min64(v[2], v[3])), max64(max64(v[0], v[1]), max64(v[2], v[3])) };
    return true;
}

static int64_t floor_div(int64_t a, int64_t b)
{
    int64_t q = a / b;
    return q - (a % b != 0 && (a < 0) != (b < 0));
}

static Bounds alu_bounds(int rule, DType t, Arg arg, const UOp *const *src)
{
    Bounds a = { src[0]->vmin, src[0]->vmax }, b = { src[1]->vmin, src[1]->vmax }, r, all = full_bounds(t);
    switch (rule) {
    case MM_ADD:
        if (__builtin_add_overflow(a.lo, b.lo, &r.lo) || __builtin_add_overflow(a.hi, b.hi, &r.hi)) return all;
        break;
    case MM_MUL:
        if (!corner_products(a, b, &r)) return all;
        break;
    case MM_MAX: return (Bounds){ max64(a.lo, b.lo), max64(a.hi, b.hi) };
    case MM_MOD:
        if (b.lo <= 0 || b.hi == INT64_MAX) return all;
        return a.lo >= 0 && a.hi < b.lo ? a : a.lo >= 0 ? (Bounds){ 0, min64(a.hi, b.hi - 1) } : (Bounds){ 0, b.hi - 1 };
    case MM_IDIV:
        if (b.lo <= 0 || (t == DT_U64 && a.hi == INT64_MAX)) return all;       /* INT64_MAX stands for "or more" */
        return (Bounds){ min64(floor_div(a.lo, b.lo), floor_div(a.lo, b.hi)), max64(floor_div(a.hi, b.lo), floor_div(a.hi, b.hi)) };
    case MM_CMPLT: return dtype_is_float(src[0]->dtype) || src[0]->dtype == DT_U64 ? all : (Bounds){ a.hi < b.lo, a.lo < b.hi };
    case MM_CMPNE: return dtype_is_float(src[0]->dtype) ? all : (Bounds){ a.hi < b.lo || b.hi < a.lo, !(a.lo == a.hi && b.lo == b.hi && a.lo == b.lo) };
    case MM_OR: return t == DT_BOOL ? (Bounds){ a.lo | b.lo, a.hi | b.hi } : all;
    case MM_AND: return t == DT_BOOL ? (Bounds){ a.lo & b.lo, a.hi & b.hi } : a.lo >= 0 && b.lo >= 0 ? (Bounds){ 0, min64(a.hi, b.hi) } : all;
    case MM_XOR:                        /* with -1: the order turned round */
        if (dtype_info[t].kind != KIND_SINT) return all;
        if (a.lo == -1 && a.hi == -1) return (Bounds){ ~b.hi, ~b.lo };
        return b.lo == -1 && b.hi == -1 ? (Bounds){ ~a.hi, ~a.lo } : all;
    case MM_SHR: return b.lo == b.hi && b.lo >= 0 && b.lo < 63 && t != DT_U64 ? (Bounds){ a.lo >> b.lo, a.hi >> b.lo } : all;
    case MM_GUARD:                      /* never a single value: it would fold, and the check with it */
        if (guard_kind(arg) == GUARD_INDEX) return (Bounds){ 0, max64(b.hi, 2) - 1 };
        return (Bounds){ a.lo == 0 ? 1 : a.lo, max64(a.hi, 2) };
    case MM_WHERE: return (Bounds){ min64(b.lo, src[2]->vmin), max64(b.hi, src[2]->vmax) };
    default: return all;
    }
    return r.lo < all.lo || r.hi > all.hi ? all : r;
}

static Bounds bounds_of(Op op, DType t, Arg arg, const UOp *const *src, uint32_t n)
{
    Bounds all = full_bounds(t), s = n ? (Bounds){ src[0]->vmin, src[0]->vmax } : all;
    int rule = op_info[op].minmax_rule;
    if (dtype_is_float(t) || t == DT_VOID) return all;
    switch (rule) {
    case MM_FULL: return all;
    case MM_VALUE: return t == DT_U64 && arg.i < 0 ? all : (Bounds){ arg.i, arg.i };
    case MM_SRC0: return n > 1 && op == UOP_LOAD ? (Bounds){ min64(s.lo, src[1]->vmin), max64(s.hi, src[1]->vmax) } : s;
    case MM_SRC1: return (Bounds){ src[1]->vmin, src[1]->vmax };
    case MM_HULL0: return (Bounds){ min64(s.lo, 0), max64(s.hi, 0) };
    case MM_HULL:
        for (uint32_t k = 1; k < n; k++) s = (Bounds){ min64(s.lo, src[k]->vmin), max64(s.hi, src[k]->vmax) };
        return s;
    case MM_BOUND: return (Bounds){ 0, max64(s.hi - 1, 0) };
    case MM_BOUNDS: return (Bounds){ blob_ints(arg.blob)[0], blob_ints(arg.blob)[1] };
    case MM_CAST: return dtype_is_float(src[0]->dtype) || src[0]->dtype == DT_U64 ? all : t == DT_BOOL ? all : s.lo < all.lo || s.hi > all.hi ? all : s;
    default: return alu_bounds(rule, t, arg, src);
    }
}

static uint64_t ranges_of(Op op, const UOp *const *src, uint32_t n, Arg arg)
{
    uint64_t open = op == UOP_RANGE ? UINT64_C(1) << (arg.i & 0xff) : 0, closed = 0;
    for (uint32_t k = 0; k < n; k++) {
        open |= src[k]->ranges;
        if (k && (op == UOP_END || (op == UOP_REDUCE && !arg.blob)))
            if (src[k]->op == UOP_RANGE) closed |= range_bit(src[k]);
    }
    return open & ~closed;
}

static bool same(const UOp *u, uint32_t hash, Op op, DType dtype, uint16_t tag, Arg arg, const UOp *const *src, uint32_t n)
{
    return u->hash == hash && u->op == op && u->dtype == dtype && u->tag == tag && u->nsrc == n && u->arg.i == arg.i && u->arg.blob == arg.blob &&
           (!n || !memcmp(u->src, src, n * sizeof *src));
}

static void slots_grow(Graph *g)
{
    free(g->slot);
    g->slots *= 2;
    g->slot = must(calloc(g->slots, sizeof *g->slot));
    for (uint32_t id = 0; id < g->count; id++) {
        uint32_t i = g->node[id]->hash & (g->slots - 1);
        while (g->slot[i]) i = (i + 1) & (g->slots - 1);
        g->slot[i] = id + 1;
    }
}

static const UOp *intern(Graph *g, Op op, DType dtype, uint16_t tag, Arg arg, const UOp *const *src, uint32_t n)
{
    uint32_t hash = mix(mix(mix((uint32_t)op << 16 | (uint32_t)dtype << 8 | tag, (uint64_t)arg.i), arg.blob ? arg.blob->hash : 0), n);
    for (uint32_t k = 0; k < n; k++) hash = mix(hash, src[k]->hash);
    if (g->count * 2 >= g->slots) slots_grow(g);
    uint32_t i = hash & (g->slots - 1);
    for (; g->slot[i]; i = (i + 1) & (g->slots - 1))
        if (same(g->node[g->slot[i] - 1], hash, op, dtype, tag, arg, src, n)) return g->node[g->slot[i] - 1];
    const Shape *shape = shape_of(g, op, arg, src, n);                  /* may intern sizes: the slot is searched again */
    Bounds b = bounds_of(op, dtype, arg, src, n);
    if (g->count == g->cap) g->node = must(realloc(g->node, (g->cap = g->cap ? g->cap * 2 : 1024) * sizeof *g->node));
    if (g->count * 2 >= g->slots) slots_grow(g);
    for (i = hash & (g->slots - 1); g->slot[i];) i = (i + 1) & (g->slots - 1);
    UOp *u = arena_alloc(g->arena, sizeof *u + n * sizeof *src);
    *u = (UOp){ .id = g->count, .hash = hash, .nsrc = n, .op = (uint8_t)op, .dtype = (uint8_t)dtype, .tag = tag, .arg = arg, .shape = shape,
                .vmin = b.lo, .vmax = b.hi, .ranges = ranges_of(op, src, n, arg) };
    if (n) memcpy(u->src, src, n * sizeof *src);
    g->node[g->count] = u;
    g->slot[i] = ++g->count;
    return u;
}

const UOp *uop_new(Graph *g, Op op, DType dtype, Arg arg, const UOp *const *src, uint32_t n)
{
    assert(n >= op_info[op].min_src && (op_info[op].var_src || n == op_info[op].min_src) && "arity");
    return intern(g, op, dtype_of(op, dtype, arg, src, n), 0, arg, src, n);
}

const UOp *uop_tagged(Graph *g, const UOp *u, uint16_t tag) { return intern(g, (Op)u->op, (DType)u->dtype, tag, u->arg, u->src, u->nsrc); }

const UOp *uop_with(Graph *g, const UOp *u, const UOp *const *src)
{
    if (!u->nsrc || !memcmp(src, u->src, u->nsrc * sizeof *src)) return u;
    return intern(g, (Op)u->op, dtype_of((Op)u->op, (DType)u->dtype, u->arg, src, u->nsrc), u->tag, u->arg, src, u->nsrc);
}

/* ---- leaves ---- */

const UOp *uop_int(Graph *g, DType t, int64_t v) { return UOP0(g, UOP_CONST, t, ARG_I(wrap(t, v))); }

const UOp *uop_float(Graph *g, DType t, double v)
{
    v = dtype_round(t, v);
    return UOP0(g, UOP_CONST, t, ARG_I(from_double(isnan(v) ? NAN : v)));
}

const UOp *uop_const_like(Graph *g, DType t, double v) { return dtype_is_float(t) ? uop_float(g, t, v) : uop_int(g, t, (int64_t)v); }
const UOp *uop_index(Graph *g, int64_t v) { return uop_int(g, DT_INDEX, v); }
const UOp *uop_bool(Graph *g, bool v) { return uop_int(g, DT_BOOL, v); }
bool uop_is_int_const(const UOp *u, int64_t v) { return u->op == UOP_CONST && !dtype_is_float((DType)u->dtype) && u->arg.i == v; }

const UOp *uop_range(Graph *g, int number, const UOp *bound, AxisType type)
{
    assert(number >= 0 && number < 64);
    return UOP(g, UOP_RANGE, DT_INDEX, ARG_I(number | (int64_t)type << 8), bound);
}

const UOp *uop_reduce_ranges(Graph *g, Op op, const UOp *value, const UOp *const *range, uint32_t n)
{
    const UOp *src[65] = { value };
    if (!n) return value;
    memcpy(src + 1, range, n * sizeof *range);
    return uop_new(g, UOP_REDUCE, DT_VOID, ARG_I(op), src, n + 1);
}

const UOp *uop_sizes(Graph *g, const UOp *const *dim, uint32_t rank) { return uop_new(g, UOP_STACK, DT_VOID, NO_ARG, dim, rank); }

const UOp *uop_buffer(Graph *g, DType t, const UOp *const *dim, uint32_t rank, int64_t slot, AddrSpace space)
{
    return UOP(g, UOP_BUFFER, t, ARG_I(slot | (int64_t)space << 32), uop_sizes(g, dim, rank));
}

const UOp *uop_param(Graph *g, DType t, const UOp *const *dim, uint32_t rank, int64_t slot) { return UOP(g, UOP_PARAM, t, ARG_I(slot), uop_sizes(g, dim, rank)); }

const UOp *graph_add_buffer(Graph *g, const BufferInfo *info)
{
    if (g->nbuffer == g->buffer_cap) g->buffer = must(realloc(g->buffer, (g->buffer_cap = g->buffer_cap ? g->buffer_cap * 2 : 64) * sizeof *g->buffer));
    g->buffer[g->nbuffer] = *info;
    if (info->name) g->buffer[g->nbuffer].name = arena_strdup(g->arena, info->name);
    return uop_buffer(g, info->dtype, info->shape->dim, info->shape->rank, g->nbuffer++, SPACE_GLOBAL);
}

BufferInfo *graph_buffer(Graph *g, int64_t slot) { return &g->buffer[slot]; }
uint32_t graph_buffer_count(const Graph *g) { return g->nbuffer; }

/* blob: least, largest, name */
const UOp *uop_var(Graph *g, const char *name, int64_t least, int64_t largest)
{
    struct { int64_t bound[2]; char name[48]; } a = { { least, largest }, { 0 } };
    snprintf(a.name, sizeof a.name, "%s", name);
    return UOP0(g, UOP_DEFINE_VAR, DT_INDEX, ((Arg){ 0, graph_blob(g, &a, sizeof a) }));
}

const char *var_name(const UOp *var) { return (const char *)var->arg.blob->data + 16; }

/* ---- sizes and walks ---- */

bool uop_static(const UOp *u)
{
    for (uint32_t k = 0; k < u->shape->rank; k++)
        if (!uop_is_const(u->shape->dim[k])) return false;
    return true;
}

int64_t uop_size(const UOp *u, uint32_t k) { return u->shape->dim[k]->vmax; }

int64_t uop_numel(const UOp *u)
{
    int64_t n = 1;
    for (uint32_t k = 0; k < u->shape->rank; k++)
        if (__builtin_mul_overflow(n, uop_size(u, k), &n)) return INT64_MAX;
    return n;
}

static int by_id(const void *a, const void *b)
{
    const UOp *x = *(const UOp *const *)a, *y = *(const UOp *const *)b;
    return x->id < y->id ? -1 : x->id > y->id;
}

/* Marks are numbers of the walk, so that a walk over a small part of a large graph costs what the part is worth. */
static uint32_t *walk_marks(Graph *g)
{
    if (g->marked < g->count) {
        g->mark = must(realloc(g->mark, g->cap * sizeof *g->mark));
        memset(g->mark + g->marked, 0, (g->cap - g->marked) * sizeof *g->mark);
        g->marked = g->cap;
    }
    if (!++g->walk) memset(g->mark, 0, g->marked * sizeof *g->mark), g->walk = 1;
    return g->mark;
}

typedef struct { const UOp **node; uint32_t count, cap; } Reached;

static void reach(Graph *g, Reached *r, const UOp *u)
{
    if (g->mark[u->id] == g->walk) return;
    g->mark[u->id] = g->walk;
    if (r->count == r->cap) r->node = must(realloc(r->node, (r->cap = r->cap ? r->cap * 2 : 256) * sizeof *r->node));
    r->node[r->count++] = u;
}

/* Ids ascend from sources to users, so what is reachable, by ids, is the order. */
const UOp **uop_toposort(Graph *g, const UOp *const *root, uint32_t nroot, Arena *arena, uint32_t *count)
{
    Reached r = { 0 };
    uint32_t n = 0;
    const uint32_t *mark = walk_marks(g);
    for (uint32_t k = 0; k < nroot; k++) reach(g, &r, root[k]);
    for (uint32_t i = 0; i < r.count; i++)
        for (uint32_t k = 0; k < r.node[i]->nsrc; k++) reach(g, &r, r.node[i]->src[k]);
    const UOp **out = NEW_N(arena, const UOp *, r.count);
    if (r.count * 16ull < g->count) {
        qsort(r.node, r.count, sizeof *r.node, by_id);
        memcpy(out, r.node, r.count * sizeof *out);
    } else
        for (uint32_t id = 0; n < r.count; id++)
            if (mark[id] == g->walk) out[n++] = g->node[id];
    free(r.node);
    *count = r.count;
    return out;
}

static const UOp *copy_one(Graph *to, const UOp *u, const UOp **memo)
{
    const UOp *few[16], **src = u->nsrc > 16 ? must(malloc(u->nsrc * sizeof *src)) : few;
    for (uint32_t k = 0; k < u->nsrc; k++) src[k] = memo[u->src[k]->id];
    Arg arg = { u->arg.i, u->arg.blob ? graph_blob(to, u->arg.blob->data, u->arg.blob->size) : NULL };
    const UOp *r = intern(to, (Op)u->op, (DType)u->dtype, u->tag, arg, src, u->nsrc);
    if (src != few) free(src);
    return r;
}

const UOp *uop_copy(Graph *to, const UOp *u, const UOp **memo)
{
    const UOp **own = memo ? memo : must(calloc(u->id + 1, sizeof *own));
    struct { const UOp *u; uint32_t next; } *stack = NULL;
    uint32_t top = 0, cap = 0;
    for (const UOp *at = u; at || top;) {
        if (at && !own[at->id]) {
            if (top == cap) stack = must(realloc(stack, (cap = cap ? cap * 2 : 64) * sizeof *stack));
            stack[top].u = at;
            stack[top++].next = 0;
        }
        at = NULL;
        if (!top) break;
        const UOp *t = stack[top - 1].u;
        if (stack[top - 1].next < t->nsrc) at = t->src[stack[top - 1].next++];
        else own[t->id] = copy_one(to, t, own), top--;
    }
    const UOp *r = own[u->id];
    free(stack);
    if (own != memo) free(own);
    return r;
}

const UOp *uop_substitute(Graph *g, const UOp *root, const UOp *const *from, const UOp *const *to, uint32_t n)
{
    Arena *scratch = arena_new();
    uint32_t count;
    const UOp **order = uop_toposort(g, &root, 1, scratch, &count), **map = NEW_N(scratch, const UOp *, root->id + 1);
    for (uint32_t k = 0; k < n; k++)
        if (from[k]->id <= root->id) map[from[k]->id] = to[k];
    for (uint32_t i = 0; i < count; i++) {
        const UOp *u = order[i], *few[16], **src = u->nsrc > 16 ? NEW_N(scratch, const UOp *, u->nsrc) : few;
        if (map[u->id]) continue;
        for (uint32_t k = 0; k < u->nsrc; k++) src[k] = map[u->src[k]->id];
        map[u->id] = uop_with(g, u, src);
    }
    const UOp *r = map[root->id];
    arena_free(scratch);
    return r;
}
