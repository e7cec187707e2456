/* A node's derived properties: shape, dtype, bounds of its values, open ranges. What a column of uops.def means stands
 * here, a case a word. Nothing is stored: uop.c asks once, when it interns a node. To add a word: a name in its enum
 * below and a case in derive_shape, derive_dtype or derive_bounds.
 */
#include "graph/derive.h"

#include <assert.h>

#include "graph/guard.h"

enum { TYPE_ARG, TYPE_SRC0, TYPE_SRC1, TYPE_SRC2, TYPE_BOOL, TYPE_INDEX, TYPE_VOID };
enum {
    SHAPE_NONE,
    SHAPE_SRC0,
    SHAPE_SRC2,
    SHAPE_SIZES0,
    SHAPE_SIZES1,
    SHAPE_SIZES2,
    SHAPE_SIZE0,
    SHAPE_BYTES,
    SHAPE_PERMUTE,
    SHAPE_INDEX,
    SHAPE_STACK,
    SHAPE_REDUCE,
    SHAPE_GETTUPLE,
    SHAPE_BROADCAST,
    SHAPE_CAT,
    SHAPE_AXIS1
};
enum {
    MM_FULL,
    MM_VALUE,
    MM_SRC0,
    MM_SRC1,
    MM_HULL0,
    MM_HULL,
    MM_BOUND,
    MM_BOUNDS,
    MM_CAST,
    MM_ADD,
    MM_MUL,
    MM_MAX,
    MM_MOD,
    MM_IDIV,
    MM_CMPLT,
    MM_CMPNE,
    MM_OR,
    MM_AND,
    MM_XOR,
    MM_SHR,
    MM_WHERE,
    MM_GUARD
};
#define VAR 1
#define ALU FLAG_ALU
#define COMM FLAG_COMM
#define MOVE FLAG_MOVE
#define EFFECT FLAG_EFFECT
#define SUGAR FLAG_SUGAR
const OpInfo op_info[UOP_COUNT] = {
#define OP(id, least, var, flags, dt, sh, mm, text) \
    [UOP_##id] = { #id, text, least, var, flags, TYPE_##dt, SHAPE_##sh, MM_##mm },
#include "graph/uops.def"
#undef OP
};
#undef VAR
#undef ALU
#undef COMM
#undef MOVE
#undef EFFECT
#undef SUGAR

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
        if (!s->rank) {
            s = t;
            continue;
        }
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

/* A sum of sizes as the builders write it: one constant, last. */
static const UOp *index_add(Graph *g, const UOp *a, const UOp *b)
{
    bool sum = a->op == UOP_ADD && uop_is_const(a->src[1]);
    if (uop_is_const(a) && uop_is_const(b)) return uop_index(g, a->arg.i + b->arg.i);
    if (uop_is_const(a)) return index_add(g, b, a);
    if (b->op == UOP_ADD && uop_is_const(b->src[1])) return index_add(g, index_add(g, a, b->src[0]), b->src[1]);
    if (sum && uop_is_const(b)) return index_add(g, a->src[0], uop_index(g, a->src[1]->arg.i + b->arg.i));
    if (sum) return index_add(g, index_add(g, a->src[0], b), a->src[1]);
    return uop_is_int_const(b, 0) ? a : UOP(g, UOP_ADD, DT_VOID, NO_ARG, a, b);
}

const Shape *derive_shape(Graph *g, Op op, Arg arg, const UOp *const *src, uint32_t n)
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
    case SHAPE_GETTUPLE:
        return n > 1                  ? sizes_shape(g, src[1])
            : src[0]->op == UOP_TUPLE ? src[0]->src[arg.i]->shape
                                      : graph_shape(g, NULL, 0);
    case SHAPE_BROADCAST: return n ? broadcast(g, src, n) : graph_shape(g, NULL, 0);
    case SHAPE_AXIS1:
        for (uint32_t i = 0; i < src[0]->shape->rank; i++) dim[i] = src[0]->shape->dim[i];
        dim[arg.i] = uop_index(g, 1);
        return graph_shape(g, dim, src[0]->shape->rank);
    case SHAPE_CAT:
        for (uint32_t i = 0; i < src[0]->shape->rank; i++) dim[i] = src[0]->shape->dim[i];
        for (uint32_t k = 1; k < n; k++) dim[arg.i] = index_add(g, dim[arg.i], src[k]->shape->dim[arg.i]);
        return graph_shape(g, dim, src[0]->shape->rank);
    default: return graph_shape(g, NULL, 0);
    }
}

DType derive_dtype(Op op, DType given, Arg arg, const UOp *const *src, uint32_t n)
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

static int64_t min64(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t max64(int64_t a, int64_t b) { return a > b ? a : b; }

static Bounds full_bounds(DType t) { return (Bounds){ dtype_min(t), dtype_max(t) }; }

/* The hull of products or quotients at the corners; the dtype's range on overflow. */
static bool corner_products(Bounds a, Bounds b, Bounds *out)
{
    int64_t v[4];
    if (__builtin_mul_overflow(a.lo, b.lo, &v[0]) || __builtin_mul_overflow(a.lo, b.hi, &v[1]) ||
        __builtin_mul_overflow(a.hi, b.lo, &v[2]) || __builtin_mul_overflow(a.hi, b.hi, &v[3]))
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
        return a.lo >= 0 && a.hi < b.lo ? a
            : a.lo >= 0                 ? (Bounds){ 0, min64(a.hi, b.hi - 1) }
                                        : (Bounds){ 0, b.hi - 1 };
    case MM_IDIV:
        if (b.lo <= 0 || (t == DT_U64 && a.hi == INT64_MAX)) return all;       /* INT64_MAX stands for "or more" */
        return (Bounds){ min64(floor_div(a.lo, b.lo), floor_div(a.lo, b.hi)),
                         max64(floor_div(a.hi, b.lo), floor_div(a.hi, b.hi)) };
    case MM_CMPLT:
        return dtype_is_float(src[0]->dtype) || src[0]->dtype == DT_U64 ? all : (Bounds){ a.hi < b.lo, a.lo < b.hi };
    case MM_CMPNE:
        return dtype_is_float(src[0]->dtype)
            ? all
            : (Bounds){ a.hi < b.lo || b.hi < a.lo, !(a.lo == a.hi && b.lo == b.hi && a.lo == b.lo) };
    case MM_OR: return t == DT_BOOL ? (Bounds){ a.lo | b.lo, a.hi | b.hi } : all;
    case MM_AND:
        return t == DT_BOOL          ? (Bounds){ a.lo & b.lo, a.hi & b.hi }
            : a.lo >= 0 && b.lo >= 0 ? (Bounds){ 0, min64(a.hi, b.hi) }
                                     : all;
    case MM_XOR:                        /* with -1: the order reversed */
        if (dtype_info[t].kind != KIND_SINT) return all;
        if (a.lo == -1 && a.hi == -1) return (Bounds){ ~b.hi, ~b.lo };
        return b.lo == -1 && b.hi == -1 ? (Bounds){ ~a.hi, ~a.lo } : all;
    case MM_SHR:
        return b.lo == b.hi && b.lo >= 0 && b.lo < 63 && t != DT_U64 ? (Bounds){ a.lo >> b.lo, a.hi >> b.lo } : all;
    case MM_GUARD:                      /* never a single value: it would fold, and the check with it */
        if (guard_kind(arg) == GUARD_FINITE) return all;
        if (guard_kind(arg) == GUARD_INDEX) return (Bounds){ 0, max64(b.hi, 2) - 1 };
        if (guard_kind(arg) == GUARD_NONZERO) return (Bounds){ a.lo == 0 ? 1 : a.lo, max64(a.hi, 2) };
        return (Bounds){ min64(b.lo, 1), max64(b.hi, 2) + 1 };      /* and never the largest (build_size.c) */
    case MM_WHERE: return (Bounds){ min64(b.lo, src[2]->vmin), max64(b.hi, src[2]->vmax) };
    default: return all;
    }
    return r.lo < all.lo || r.hi > all.hi ? all : r;
}

Bounds derive_bounds(Op op, DType t, Arg arg, const UOp *const *src, uint32_t n)
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
    case MM_CAST:
        return dtype_is_float(src[0]->dtype) || src[0]->dtype == DT_U64 ? all
            : t == DT_BOOL                                              ? all
            : s.lo < all.lo || s.hi > all.hi                            ? all
                                                                        : s;
    default: return alu_bounds(rule, t, arg, src);
    }
}

uint64_t derive_ranges(Op op, const UOp *const *src, uint32_t n, Arg arg)
{
    uint64_t open = op == UOP_RANGE ? UINT64_C(1) << (arg.i & 0xff) : 0, closed = 0;
    for (uint32_t k = 0; k < n; k++) {
        open |= src[k]->ranges;
        if (k && (op == UOP_END || (op == UOP_REDUCE && !arg.blob)))
            if (src[k]->op == UOP_RANGE) closed |= range_bit(src[k]);
    }
    return open & ~closed;
}
