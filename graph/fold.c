/* Known small values: what a tensor's elements are when they depend on constants and sizes only. This is how shape
 * arithmetic folds at import, symbolic sizes included: an element is a scalar UOp, simplified, or NULL when it depends
 * on data. Every node is folded once per graph (memo by id, explicit stack). A node is a Fold: one value for all
 * elements, constant memory read on demand, an iota, or a list of at most LIST_MAX elements. To teach it an op: a case
 * in fold_node.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "graph/base/memory.h"
#include "graph/build.h"
#include "graph/guard.h"
#include "graph/rewrite.h"
#include "graph/scalar.h"

enum { LIST_MAX = 4096 };
typedef enum { FOLD_UNKNOWN, FOLD_UNIFORM, FOLD_MEMORY, FOLD_IOTA, FOLD_LIST } FoldKind;
typedef struct {
    FoldKind kind;
    U one;
    const void *data;
    DType dtype;
    U *list;
} Fold;
typedef struct { const Fold **at; uint32_t cap; } Folds;

static const Fold unknown = { FOLD_UNKNOWN };

static U element(Graph *g, const Fold *f, int64_t i)
{
    switch (f->kind) {
    case FOLD_UNIFORM: return f->one;
    case FOLD_MEMORY: return UOP0(g, UOP_CONST, f->dtype, ARG_I(scalar_load(f->dtype, f->data, i)));
    case FOLD_IOTA: return uop_index(g, i);
    case FOLD_LIST: return f->list[i];
    default: return NULL;
    }
}

/* ---- scalars ---- */

U dim_simplify(Graph *g, U size) { return size->nsrc ? graph_rewrite(g, size, rules_symbolic(), 0, NULL) : size; }

/* An element-wise op on known scalars. */
static U fold_scalar(Graph *g, Op op, DType t, const U *src, uint32_t n)
{
    int64_t v[3], r;
    bool all = true;
    if (op == UOP_WHERE && src[0] && src[0]->vmin == src[0]->vmax) return src[src[0]->vmin ? 1 : 2];
    for (uint32_t k = 0; k < n; k++) {
        if (!src[k]) return NULL;
        all &= uop_is_const(src[k]);
        v[k] = src[k]->arg.i;
    }
    if (all) {
        if (op == UOP_BITCAST) return UOP0(g, UOP_CONST, t, ARG_I(scalar_bitcast((DType)src[0]->dtype, t, v[0])));
        return uop_eval(op, t, (DType)src[0]->dtype, v, &r) ? UOP0(g, UOP_CONST, t, ARG_I(r)) : NULL;
    }
    if (op == UOP_BITCAST) return NULL;
    return dim_simplify(g, uop_new(g, op, t, NO_ARG, src, n));
}

/* ---- one node ---- */

typedef struct { Graph *g; U u; const Fold **src; int64_t numel; } Job;

static const Fold *made(Graph *g, Fold f) { return arena_copy(graph_arena(g), &f, sizeof f); }
static const Fold *uniform(Graph *g, U one) { return one ? made(g, (Fold){ FOLD_UNIFORM, .one = one }) : &unknown; }

/* A list that at(job, i) fills; unknown when no element is known. */
static const Fold *list_of(Job *j, U (*at)(Job *j, const int64_t *idx, int64_t i))
{
    bool some = false;
    int64_t idx[RANK_MAX] = { 0 };
    if (!uop_static(j->u) || j->numel > LIST_MAX || uop_rank(j->u) > RANK_MAX) return &unknown;
    U *list = NEW_N(graph_arena(j->g), U, j->numel);
    for (int64_t i = 0; i < j->numel; i++) {
        some |= (list[i] = at(j, idx, i)) != NULL;
        for (uint32_t k = uop_rank(j->u); k-- > 0; idx[k] = 0)
            if (++idx[k] < uop_size(j->u, k)) break;
    }
    return some || !j->numel ? made(j->g, (Fold){ FOLD_LIST, .list = list }) : &unknown;
}

/* Element of source s at idx, right-aligned over idx of `rank` axes; axes of size 1 stay at 0. */
static U broadcast_element(Job *j, uint32_t s, const int64_t *idx, uint32_t rank)
{
    U x = j->u->src[s];
    int64_t at = 0;
    for (uint32_t k = 0; k < uop_rank(x); k++) {
        int64_t n = uop_size(x, k), i = idx[k + rank - uop_rank(x)];
        at = at * n + (n == 1 ? 0 : i);
    }
    return element(j->g, j->src[s], at);
}

/* A guard that stands in a size's way: known values were checked when it was built, or are now; a symbolic one is taken
 * as it is, since a bad one gives no size. */
static U fold_guard(U u, U value, U bound)
{
    if (!value || !bound || !uop_is_const(value) || !uop_is_const(bound)) return value;
    return guard_allows(guard_kind(u->arg), value->arg.i, bound->arg.i) ? value : NULL;
}

static U fold_values(Job *j, U *v)
{
    return j->u->op == UOP_GUARD ? fold_guard(j->u, v[0], v[1])
                                 : fold_scalar(j->g, (Op)j->u->op, (DType)j->u->dtype, v, j->u->nsrc);
}

static U alu_at(Job *j, const int64_t *idx, int64_t i)
{
    U v[3];
    (void)i;
    for (uint32_t k = 0; k < j->u->nsrc; k++) v[k] = broadcast_element(j, k, idx, uop_rank(j->u));
    return fold_values(j, v);
}

static const Fold *fold_alu(Job *j)
{
    bool same = true;
    U v[3];
    for (uint32_t k = 0; k < j->u->nsrc; k++) {
        same &= j->src[k]->kind == FOLD_UNIFORM || j->src[k]->kind == FOLD_UNKNOWN;
        v[k] = element(j->g, j->src[k], 0);
        if (j->src[k]->kind == FOLD_UNKNOWN && j->u->op != UOP_WHERE) return &unknown;
    }
    return same ? uniform(j->g, fold_values(j, v)) : list_of(j, alu_at);
}

static U expand_at(Job *j, const int64_t *idx, int64_t i)
{
    return (void)i, broadcast_element(j, 0, idx, uop_rank(j->u));
}

/* Row-major place in source 0 of an index of it; -1: outside. */
static int64_t place(U x, const int64_t *idx)
{
    int64_t at = 0;
    for (uint32_t k = 0; k < uop_rank(x); k++) {
        if (idx[k] < 0 || idx[k] >= uop_size(x, k)) return -1;
        at = at * uop_size(x, k) + idx[k];
    }
    return at;
}

static U move_at(Job *j, const int64_t *idx, int64_t i)
{
    int64_t from[RANK_MAX];
    U u = j->u, x = u->src[0];
    const int64_t *arg = u->arg.blob ? blob_ints(u->arg.blob) : NULL;
    (void)i;
    for (uint32_t k = 0; k < uop_rank(x); k++) {
        if (u->op == UOP_PERMUTE) from[arg[k]] = idx[k];
        else if (u->op == UOP_FLIP) from[k] = arg[k] ? uop_size(x, k) - 1 - idx[k] : idx[k];
        else from[k] = idx[k] + (u->op == UOP_PAD ? -1 : 1) * u->src[1]->src[k]->arg.i;
    }
    int64_t at = place(x, from);
    return at >= 0 ? element(j->g, j->src[0], at) : u->op == UOP_PAD ? uop_const_like(j->g, (DType)u->dtype, 0) : NULL;
}

static bool offsets_known(U u)
{
    for (uint32_t k = 0; k < u->src[1]->nsrc; k++)
        if (!uop_is_const(u->src[1]->src[k])) return false;
    return true;
}

static U stack_at(Job *j, const int64_t *idx, int64_t i)
{
    int64_t n = j->numel / j->u->nsrc;
    return element(j->g, j->src[idx[0]], i - idx[0] * n);
}

static U cat_at(Job *j, const int64_t *idx, int64_t i)
{
    int64_t from[RANK_MAX];
    uint32_t axis = (uint32_t)j->u->arg.i, s = 0;
    (void)i;
    memcpy(from, idx, uop_rank(j->u) * sizeof *idx);
    while (from[axis] >= uop_size(j->u->src[s], axis)) from[axis] -= uop_size(j->u->src[s++], axis);
    return element(j->g, j->src[s], place(j->u->src[s], from));
}

static U index_at(Job *j, const int64_t *idx, int64_t i)
{
    int64_t from[RANK_MAX];
    U x = j->u->src[0];
    uint32_t n = j->u->nsrc - 1;
    (void)i;
    for (uint32_t s = 0; s < n; idx += uop_rank(j->u->src[++s])) {
        U v = element(j->g, j->src[s + 1], place(j->u->src[s + 1], idx));
        if (!v || !uop_is_const(v)) return NULL;
        from[s] = v->arg.i;
    }
    memcpy(from + n, idx, (uop_rank(x) - n) * sizeof *idx);
    int64_t at = place(x, from);
    return at < 0 ? NULL : element(j->g, j->src[0], at);
}

/* Floats are summed in double and rounded once. */
static U reduce_at(Job *j, const int64_t *idx, int64_t i)
{
    U x = j->u->src[0], r = NULL;
    Graph *g = j->g;
    int64_t at[RANK_MAX], size[RANK_MAX];
    DType t = (DType)x->dtype, acc = dtype_is_float(t) ? DT_F64 : t;
    (void)i;
    for (uint32_t k = 0; k < uop_rank(x); k++) at[k] = idx[k], size[k] = idx[k] + 1;
    for (uint32_t k = 0; k < blob_count(j->u->arg.blob); k++) {
        int64_t axis = blob_ints(j->u->arg.blob)[k];
        size[axis] = uop_size(x, (uint32_t)axis);
        if (!size[axis]) return NULL;
    }
    for (uint32_t k = 0; k < uop_rank(x);) {
        U e = element(g, j->src[0], place(x, at));
        if (!e) return NULL;
        e = fold_scalar(g, UOP_CAST, acc, &e, 1);
        r = r ? fold_scalar(g, (Op)j->u->arg.i, acc, (U[]){ r, e }, 2) : e;
        for (k = uop_rank(x); k-- > 0; at[k] = idx[k])
            if (++at[k] < size[k]) break;
        if (k == UINT32_MAX) break;
        k = 0;
    }
    return r ? fold_scalar(g, UOP_CAST, t, &r, 1) : NULL;
}

static const Fold *fold_memory(Job *j)
{
    U u = j->u;
    const BufferInfo *b = buffer_space(u) == SPACE_GLOBAL && buffer_slot(u) < graph_buffer_count(j->g)
        ? graph_buffer(j->g, buffer_slot(u))
        : NULL;
    return b && b->data ? made(j->g, (Fold){ FOLD_MEMORY, .data = b->data, .dtype = b->dtype }) : &unknown;
}

/* What moves elements. Uniform values need no places; the others need known sizes, of sources too. */
static const Fold *fold_move(Job *j)
{
    U u = j->u;
    const Fold *f = j->src[0];
    if (f->kind == FOLD_UNIFORM &&
        (u->op == UOP_EXPAND || u->op == UOP_PERMUTE || u->op == UOP_FLIP || u->op == UOP_SHRINK))
        return f;
    for (uint32_t k = 0; k < u->nsrc; k++)
        if (!uop_static(u->src[k])) return &unknown;
    if (f->kind == FOLD_UNKNOWN && u->op != UOP_CAT && u->op != UOP_STACK) return &unknown;
    switch (u->op) {
    case UOP_STACK: return list_of(j, stack_at);
    case UOP_CAT: return list_of(j, cat_at);
    case UOP_EXPAND: return list_of(j, expand_at);
    case UOP_PERMUTE:
    case UOP_FLIP: return list_of(j, move_at);
    case UOP_SHRINK:
    case UOP_PAD: return offsets_known(u) ? list_of(j, move_at) : &unknown;
    case UOP_INDEX: return list_of(j, index_at);
    case UOP_REDUCE: return u->arg.blob && uop_numel(u->src[0]) <= LIST_MAX ? list_of(j, reduce_at) : &unknown;
    default: return &unknown;
    }
}

static const Fold *fold_node(Job *j)
{
    U u = j->u;
    if (u->op == UOP_CONST || u->op == UOP_DEFINE_VAR) return uniform(j->g, u);
    if ((dtype_is_int(u->dtype) || u->dtype == DT_BOOL) && u->vmin == u->vmax)
        return uniform(j->g, uop_int(j->g, u->dtype, u->vmin));
    if (op_is((Op)u->op, FLAG_ALU) || u->op == UOP_BITCAST) return fold_alu(j);
    switch (u->op) {
    case UOP_BIND: return uniform(j->g, u->src[1]);
    case UOP_BUFFER: return fold_memory(j);
    case UOP_IOTA: return uop_static(u) ? made(j->g, (Fold){ FOLD_IOTA }) : &unknown;
    case UOP_RESHAPE:
    case UOP_CONTIGUOUS:
    case UOP_CONTIGUOUSBACKWARD:
    case UOP_COPY:
    case UOP_DETACH: return j->src[0];
    default: return u->nsrc ? fold_move(j) : &unknown;
    }
}

/* ---- the walk ---- */

/* How many of u's sources have elements that count. */
static uint32_t value_sources(U u)
{
    if (op_is((Op)u->op, FLAG_ALU) || u->op == UOP_INDEX || u->op == UOP_STACK || u->op == UOP_CAT) return u->nsrc;
    return op_is((Op)u->op, FLAG_MOVE) || u->op == UOP_REDUCE;
}

static Folds *folds_of(Graph *g, uint32_t id)
{
    void **slot = graph_folds(g);
    Folds *f = *slot ? *slot : (*slot = NEW(graph_arena(g), Folds));
    if (id < f->cap) return f;
    uint32_t cap = id + id / 2 + 1024;
    const Fold **at = NEW_N(graph_arena(g), const Fold *, cap);
    if (f->cap) memcpy(at, f->at, f->cap * sizeof *at);
    *f = (Folds){ at, cap };
    return f;
}

static const Fold *fold_one(Graph *g, U u)
{
    const Folds *f = folds_of(g, u->id);
    const Fold *src[u->nsrc + 1];
    uint32_t n = value_sources(u);
    for (uint32_t k = 0; k < u->nsrc; k++) src[k] = k < n ? f->at[u->src[k]->id] : &unknown;
    return fold_node(&(Job){ g, u, src, uop_numel(u) });
}

static const Fold *fold(Graph *g, U root)
{
    uint32_t top = 0, cap = 64;
    U *stack = mem_new(cap * sizeof *stack);
    for (stack[top++] = root; top;) {
        U u = stack[top - 1];
        uint32_t n = value_sources(u), before = top;
        if (top + n > cap) stack = mem_grow(stack, (cap = 2 * (top + n)) * sizeof *stack);
        for (uint32_t k = 0; k < n; k++)
            if (!folds_of(g, u->src[k]->id)->at[u->src[k]->id]) stack[top++] = u->src[k];
        if (top > before) continue;
        const Fold *f = fold_one(g, u);                               /* may make nodes and grow the memo */
        folds_of(g, u->id)->at[u->id] = f;
        top--;
    }
    mem_free(stack);
    return folds_of(g, root->id)->at[root->id];
}

/* ---- what builders and importers ask ---- */

bool values_of(Graph *g, U x, const UOp **out, uint32_t limit)
{
    if (is_error(x) || !uop_static(x) || uop_numel(x) > limit) return false;
    const Fold *f = fold(g, x);
    for (int64_t i = 0; i < uop_numel(x); i++)
        if (!(out[i] = element(g, f, i))) return false;
    return true;
}

bool ints_of(Graph *g, U x, int64_t *out, uint32_t limit, uint32_t *count)
{
    if (is_error(x) || dtype_is_float(x->dtype) || !uop_static(x) || uop_numel(x) > limit) return false;
    const Fold *f = fold(g, x);
    *count = (uint32_t)uop_numel(x);
    for (uint32_t i = 0; i < *count; i++) {
        U e = element(g, f, i);
        if (!e || !uop_is_const(e)) return false;
        out[i] = e->arg.i;
    }
    return true;
}

/* All CONST: packed bytes in the graph's arena. */
static void *pack(Graph *g, DType t, const Fold *f, int64_t n)
{
    if (f->kind == FOLD_UNKNOWN && n) return NULL;
    char *bytes = arena_alloc(graph_arena(g), (size_t)(n * dtype_size(t) + 1));
    for (int64_t i = 0; i < n; i++) {
        U e = element(g, f, i);
        if (!e || !uop_is_const(e)) return NULL;
        scalar_store(t, bytes, i, e->arg.i);
    }
    return bytes;
}

enum { STACK_FEW = 8 };

U from_values(Graph *g, DType t, const UOp *const *v, const int64_t *shape, uint32_t rank)
{
    int64_t n = 1;
    for (uint32_t k = 0; k < rank; k++) n *= shape[k];
    U *list = NEW_N(graph_arena(g), U, n + 1);
    for (int64_t i = 0; i < n; i++)
        if (is_error(list[i] = cast(g, v[i], t))) return list[i];
    void *bytes = n > STACK_FEW || !n ? pack(g, t, &(Fold){ FOLD_LIST, .list = list }, n) : NULL;
    if (bytes) return tensor_const(g, t, shape, rank, bytes, (size_t)(n * dtype_size(t)), NULL);
    return reshape_i(g, rank ? stack(g, list, (uint32_t)n, 0) : list[0], shape, rank);
}

const void *data_of(Graph *g, U x, uint32_t limit, size_t *size_bytes)
{
    if (is_error(x) || !uop_static(x) || uop_numel(x) > limit) return NULL;
    const Fold *f = fold(g, x);
    *size_bytes = (size_t)(uop_numel(x) * dtype_size(x->dtype));
    return f->kind == FOLD_MEMORY ? f->data : pack(g, x->dtype, f, uop_numel(x));
}
