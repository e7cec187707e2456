/* Graphs: interned construction, leaves, walks. Equal nodes are one node: op, dtype, tag, argument and sources decide;
 * derive.c knows what follows from them. */
#include "graph/scalar.h"
#include "graph/uop.h"
#include "graph/derive.h"
#include "graph/guard.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/base/map.h"
#include "graph/base/memory.h"

const char axis_letter[AXIS_COUNT] = { 'g', 'l', 'w', 't', 'L', 'R', 'G', 'u', 'r' };

/* hash: of the node; next_id: the node's id and 1, 0 where the slot is free */
typedef struct { uint32_t hash, next_id; } Slot;

struct Graph {
    Arena *arena;
    const UOp **node;
    uint32_t count, cap, slots;
    Slot *slot;
    uint32_t *origin, at;               /* by id, or NULL; of what is built now */
    Map blob, shape;
    BufferInfo *buffer;
    uint32_t nbuffer, buffer_cap;
    TgStatus error;
    void *folds;
    Guard place;
    Map calls, data_sizes, renames;
    const Doubt *doubt, *need;
    uint32_t *mark, marked, walk;       /* uop_toposort's: a node is marked when its mark is the walk's number */
};

Graph *graph_new(void)
{
    Graph *g = mem_zeros(1, sizeof *g);
    g->arena = arena_new();
    g->slots = 64;
    g->slot = mem_zeros(g->slots, sizeof *g->slot);
    map_init(&g->blob, g->arena);
    map_init(&g->shape, g->arena);
    map_init(&g->calls, g->arena);
    map_init(&g->data_sizes, g->arena);
    map_init(&g->renames, g->arena);
    return g;
}

void graph_free(Graph *g)
{
    if (!g) return;
    arena_free(g->arena);
    mem_free(g->node);
    mem_free(g->origin);
    mem_free(g->slot);
    mem_free(g->buffer);
    mem_free(g->mark);
    mem_free(g);
}

Arena *graph_arena(Graph *g) { return g->arena; }
Map *graph_calls(Graph *g) { return &g->calls; }
Map *graph_data_sizes(Graph *g) { return &g->data_sizes; }
Guard *graph_place(Graph *g) { return &g->place; }
void **graph_folds(Graph *g) { return &g->folds; }
uint32_t graph_count(const Graph *g) { return g->count; }
const UOp *graph_node(const Graph *g, uint32_t id) { return g->node[id]; }
TgStatus graph_error(const Graph *g) { return g->error; }
void graph_error_clear(Graph *g) { g->error = TG_OK; }
void graph_error_is(Graph *g, TgStatus code) { g->error = code; }
const Doubt *graph_doubts(const Graph *g) { return g->doubt; }
const Doubt *graph_needs(const Graph *g) { return g->need; }

static const Doubt *doubt_before(Graph *g, const Doubt *next, const UOp *a, const UOp *b)
{
    Doubt *d = NEW(g->arena, Doubt);
    *d = (Doubt){ next, { a, b } };
    return d;
}

void graph_doubt(Graph *g, const UOp *a, const UOp *b) { g->doubt = doubt_before(g, g->doubt, a, b); }

void graph_need(Graph *g, const UOp *size)
{
    if (size->vmin < 0) g->need = doubt_before(g, g->need, size, NULL);
}

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

double uop_const_float(const UOp *u) { return scalar_real(u->arg.i); }

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
    map_put_held(&g->blob, b->data, size, b);
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
    map_put_held(&g->shape, rank ? s->dim : none, size, s);
    return s;
}

static uint32_t mix(uint32_t h, uint64_t v)
{
    uint64_t x = (h ^ v) * UINT64_C(0x9e3779b97f4a7c15);
    return (uint32_t)(x ^ x >> 32) * 0x85ebca6bu + 0x7f4a7c15u;
}

static bool same(const UOp *u, Op op, DType dtype, uint16_t tag, Arg arg, const UOp *const *src, uint32_t n)
{
    return u->op == op && u->dtype == dtype && u->tag == tag && u->nsrc == n && u->arg.i == arg.i &&
        u->arg.blob == arg.blob && (!n || !memcmp(u->src, src, n * sizeof *src));
}

static Slot *slot_free(Graph *g, uint32_t hash)
{
    uint32_t i = hash & (g->slots - 1);
    while (g->slot[i].next_id) i = (i + 1) & (g->slots - 1);
    return &g->slot[i];
}

static void slots_grow(Graph *g)
{
    uint32_t n = g->slots;
    Slot *old = g->slot, *more = mem_beside(g, 2 * (size_t)n * sizeof *more);
    g->slot = memset(more, 0, 2 * (size_t)n * sizeof *more);
    g->slots = 2 * n;
    for (uint32_t k = 0; k < n; k++)
        if (old[k].next_id) *slot_free(g, old[k].hash) = old[k];
    mem_free(old);
}

static void nodes_grow(Graph *g)
{
    uint32_t cap = g->cap ? g->cap * 2 : 32;
    g->node = mem_grow_beside(g, g->node, cap * sizeof *g->node);
    if (g->origin) g->origin = mem_grow(g->origin, cap * sizeof *g->origin);
    g->cap = cap;
}

uint32_t graph_origin(Graph *g, uint32_t node)
{
    uint32_t before = g->at;
    if (!g->node) nodes_grow(g);
    if (!g->origin) {
        g->origin = mem_beside(g, g->cap * sizeof *g->origin);
        memset(g->origin, 0, g->cap * sizeof *g->origin);
    }
    g->at = node;
    return before;
}

uint32_t uop_origin(const Graph *g, const UOp *u) { return g->origin ? g->origin[u->id] : 0; }

void graph_rename(Graph *g, const UOp *call, const Renamed *node, uint32_t count)
{
    Renames *r = arena_alloc(g->arena, sizeof *r + count * sizeof *node);
    r->count = count;
    if (count) memcpy(r->node, node, count * sizeof *node);
    map_put(&g->renames, &call->id, sizeof call->id, r);
}

uint32_t graph_renamed(Graph *g, const UOp *call, uint32_t node)
{
    const Renames *r = map_get(&g->renames, &call->id, sizeof call->id);
    for (uint32_t k = 0; r && k < r->count; k++)
        if (r->node[k].of == node) return r->node[k].is;
    return node;
}

static uint32_t origin_of(const Graph *g, const UOp *const *src, uint32_t n)
{
    uint32_t latest = g->at;
    for (uint32_t k = 0; k < n && !g->at; k++)
        if (g->origin[src[k]->id] > latest) latest = g->origin[src[k]->id];
    return latest;
}

static const UOp *intern(Graph *g, Op op, DType dtype, uint16_t tag, Arg arg, const UOp *const *src, uint32_t n)
{
    uint32_t hash = mix(
        mix(mix((uint32_t)op << 16 | (uint32_t)dtype << 8 | tag, (uint64_t)arg.i), arg.blob ? arg.blob->hash : 0), n);
    for (uint32_t k = 0; k < n; k++) hash = mix(hash, src[k]->hash);
    if (g->count * 2 >= g->slots) slots_grow(g);
    for (uint32_t i = hash & (g->slots - 1); g->slot[i].next_id; i = (i + 1) & (g->slots - 1)) {
        const UOp *u = g->slot[i].hash == hash ? g->node[g->slot[i].next_id - 1] : NULL;
        if (u && same(u, op, dtype, tag, arg, src, n)) return u;
    }
    /* may intern sizes: the slot is searched after them */
    const Shape *shape = derive_shape(g, op, arg, src, n);
    Bounds b = derive_bounds(op, dtype, arg, src, n);
    if (g->count == g->cap) nodes_grow(g);
    if (g->count * 2 >= g->slots) slots_grow(g);
    UOp *u = arena_alloc(g->arena, sizeof *u + n * sizeof *src);
    *u = (UOp){ .id = g->count,
                .hash = hash,
                .nsrc = n,
                .op = (uint8_t)op,
                .dtype = (uint8_t)dtype,
                .tag = tag,
                .arg = arg,
                .shape = shape,
                .vmin = b.lo,
                .vmax = b.hi,
                .ranges = derive_ranges(op, src, n, arg) };
    if (n) memcpy(u->src, src, n * sizeof *src);
    if (g->origin) g->origin[g->count] = origin_of(g, src, n);
    g->node[g->count] = u;
    *slot_free(g, hash) = (Slot){ hash, ++g->count };
    return u;
}

const UOp *uop_new(Graph *g, Op op, DType dtype, Arg arg, const UOp *const *src, uint32_t n)
{
    assert(n >= op_info[op].min_src && (op_info[op].var_src || n == op_info[op].min_src) && "arity");
    return intern(g, op, derive_dtype(op, dtype, arg, src, n), 0, arg, src, n);
}

const UOp *uop_tagged(Graph *g, const UOp *u, uint16_t tag)
{
    return intern(g, (Op)u->op, (DType)u->dtype, tag, u->arg, u->src, u->nsrc);
}

const UOp *uop_with_n(Graph *g, const UOp *u, const UOp *const *src, uint32_t n)
{
    if (n == u->nsrc) return uop_with(g, u, src);
    return intern(g, (Op)u->op, derive_dtype((Op)u->op, (DType)u->dtype, u->arg, src, n), u->tag, u->arg, src, n);
}

const UOp *uop_with(Graph *g, const UOp *u, const UOp *const *src)
{
    if (!u->nsrc || !memcmp(src, u->src, u->nsrc * sizeof *src)) return u;
    uint32_t at = g->at;
    g->at = uop_origin(g, u);
    const UOp *with = intern(g, (Op)u->op, derive_dtype((Op)u->op, (DType)u->dtype, u->arg, src, u->nsrc), u->tag,
                             u->arg, src, u->nsrc);
    g->at = at;
    /* of the node that it belongs to (guard.h) */
    void *place = u->op == UOP_CALL ? map_get(&g->calls, &u->id, sizeof u->id) : NULL;
    if (place && !map_get(&g->calls, &with->id, sizeof with->id)) map_put(&g->calls, &with->id, sizeof with->id, place);
    void *renames = u->op == UOP_CALL ? map_get(&g->renames, &u->id, sizeof u->id) : NULL;
    if (renames) map_put(&g->renames, &with->id, sizeof with->id, renames);
    return with;
}

/* ---- leaves ---- */

const UOp *uop_int(Graph *g, DType t, int64_t v) { return UOP0(g, UOP_CONST, t, ARG_I(dtype_wrap(t, v))); }

const UOp *uop_float(Graph *g, DType t, double v)
{
    v = dtype_round(t, v);
    return UOP0(g, UOP_CONST, t, ARG_I(scalar_of(isnan(v) ? NAN : v)));
}

/* What no int64_t holds is the nearest end of the type; the rest wraps, so that -1 is all bits. */
static int64_t whole_of(DType t, double v)
{
    if (v >= -9223372036854775808.0 && v < 9223372036854775808.0) return (int64_t)v;
    return isnan(v) ? 0 : v < 0 ? dtype_min(t) : dtype_max(t);
}

const UOp *uop_const_like(Graph *g, DType t, double v)
{
    return dtype_is_float(t) ? uop_float(g, t, v) : uop_int(g, t, whole_of(t, v));
}
const UOp *uop_index(Graph *g, int64_t v) { return uop_int(g, DT_INDEX, v); }
const UOp *uop_bool(Graph *g, bool v) { return uop_int(g, DT_BOOL, v); }
bool uop_is_int_const(const UOp *u, int64_t v)
{
    return u->op == UOP_CONST && !dtype_is_float((DType)u->dtype) && u->arg.i == v;
}

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

const UOp *uop_reduce_like(Graph *g, const UOp *like, const UOp *value, const UOp *const *range, uint32_t n)
{
    const UOp *u = uop_reduce_ranges(g, (Op)like->arg.i, value, range, n);
    return n && like->tag ? uop_tagged(g, u, like->tag) : u;
}

const UOp *uop_sizes(Graph *g, const UOp *const *dim, uint32_t rank)
{
    return uop_new(g, UOP_STACK, DT_VOID, NO_ARG, dim, rank);
}

const UOp *uop_buffer(Graph *g, DType t, const UOp *const *dim, uint32_t rank, int64_t slot, AddrSpace space)
{
    return UOP(g, UOP_BUFFER, t, ARG_I(slot | (int64_t)space << 32), uop_sizes(g, dim, rank));
}

const UOp *uop_param(Graph *g, DType t, const UOp *const *dim, uint32_t rank, int64_t slot)
{
    return UOP(g, UOP_PARAM, t, ARG_I(slot), uop_sizes(g, dim, rank));
}

const UOp *graph_add_buffer(Graph *g, const BufferInfo *info)
{
    if (g->nbuffer == g->buffer_cap) {
        uint32_t cap = g->buffer_cap ? g->buffer_cap * 2 : 64;
        g->buffer = mem_grow_beside(g, g->buffer, cap * sizeof *g->buffer);
        g->buffer_cap = cap;
    }
    g->buffer[g->nbuffer] = *info;
    if (info->name) g->buffer[g->nbuffer].name = arena_strdup(g->arena, info->name);
    return uop_buffer(g, info->dtype, info->shape->dim, info->shape->rank, g->nbuffer++, SPACE_GLOBAL);
}

void graph_drop_buffers(Graph *g, uint32_t n) { g->nbuffer = n; }

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

bool shape_static(const Shape *s)
{
    for (uint32_t k = 0; k < s->rank; k++)
        if (!uop_is_const(s->dim[k])) return false;
    return true;
}

bool uop_static(const UOp *u) { return shape_static(u->shape); }

int64_t uop_size(const UOp *u, uint32_t k) { return u->shape->dim[k]->vmax; }

int64_t uop_numel(const UOp *u)
{
    int64_t n = 1;
    for (uint32_t k = 0; k < u->shape->rank; k++)
        if (__builtin_mul_overflow(n, uop_size(u, k), &n)) return INT64_MAX;
    return n;
}

/* symbolic: factors without ranges count as well, at their largest. */
static int64_t step_of(const UOp *u, const UOp *range, bool symbolic)
{
    int64_t a = NO_STEP, b;
    if (u == range) return 1;
    if (!(u->ranges & range_bit(range))) return 0;
    if (u->op == UOP_ADD) {
        a = step_of(u->src[0], range, symbolic), b = step_of(u->src[1], range, symbolic);
        return a == NO_STEP || b == NO_STEP ? NO_STEP : a + b;
    }
    uint32_t k = u->op == UOP_MUL && symbolic && !u->src[0]->ranges ? 1 : 0;             /* the factor that moves */
    if (u->op == UOP_MUL && (symbolic ? !u->src[1 - k]->ranges : uop_is_const(u->src[1])))
        a = step_of(u->src[k], range, symbolic);
    return a == NO_STEP || __builtin_mul_overflow(a, u->src[1 - k]->vmax, &a) ? NO_STEP : a;
}

int64_t range_step(const UOp *u, const UOp *range) { return step_of(u, range, false); }
int64_t range_reach(const UOp *u, const UOp *range) { return step_of(u, range, true); }

uint64_t range_data(Graph *g, const UOp *u)
{
    Arena *a = arena_new();
    uint32_t n;
    uint64_t ranges = 0;
    const UOp **order = uop_toposort(g, &u, 1, a, &n);
    for (uint32_t i = 0; i < n; i++) ranges |= order[i]->op == UOP_LOAD ? order[i]->ranges : 0;
    arena_free(a);
    return ranges;
}

bool uop_constants(const UOp *u)
{
    for (uint32_t k = 0; k < u->nsrc; k++)
        if (!uop_is_const(u->src[k])) return false;
    return true;
}

bool uop_is_shuffle(const UOp *u, const UOp *of[2])
{
    of[0] = of[1] = NULL;
    for (uint32_t l = 0; l < u->nsrc && u->op == UOP_STACK && u->dtype != DT_INDEX && u->dtype != DT_BOOL; l++) {
        const UOp *lane = u->src[l],
                  *v = lane->op == UOP_INDEX && lane->nsrc == 2 && uop_is_const(lane->src[1]) ? lane->src[0] : NULL;
        if (!v || v->shape->rank != 1 || uop_is_int_const(uop_dim(v, 0), 1) || (of[0] && v->shape != of[0]->shape) ||
            v->op == UOP_PARAM || v->op == UOP_BUFFER)
            return false;
        if (v == of[0] || v == of[1]) continue;
        if (of[1]) return false;
        of[of[0] != NULL] = v;
    }
    return of[0] != NULL;
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
        g->mark = mem_grow_beside(g, g->mark, g->cap * sizeof *g->mark);
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
    if (r->count == r->cap) r->node = mem_grow(r->node, (r->cap = r->cap ? r->cap * 2 : 256) * sizeof *r->node);
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
    if (r.count && r.count * 16ull < g->count) {
        qsort(r.node, r.count, sizeof *r.node, by_id);
        memcpy(out, r.node, r.count * sizeof *out);
    } else
        for (uint32_t id = 0; n < r.count; id++)
            if (mark[id] == g->walk) out[n++] = g->node[id];
    mem_free(r.node);
    *count = r.count;
    return out;
}

const UOp **uop_postorder(Graph *g, const UOp *root, Arena *arena, uint32_t *count)
{
    typedef struct { const UOp *u; uint32_t next; } Frame;
    uint32_t *mark = walk_marks(g), top = 0, cap = 64, n = 0, room = 256;
    Frame *stack = mem_new(cap * sizeof *stack);
    const UOp **out = mem_new(room * sizeof *out);
    stack[top++] = (Frame){ root, 0 };
    mark[root->id] = g->walk;
    while (top) {
        Frame *f = &stack[top - 1];
        while (f->next < f->u->nsrc && mark[f->u->src[f->next]->id] == g->walk) f->next++;
        if (f->next < f->u->nsrc) {
            const UOp *u = f->u->src[f->next++];
            if (top == cap) stack = mem_grow(stack, (cap *= 2) * sizeof *stack);
            stack[top++] = (Frame){ u, 0 };
            mark[u->id] = g->walk;
            continue;
        }
        if (n == room) out = mem_grow(out, (room *= 2) * sizeof *out);
        out[n++] = f->u;
        top--;
    }
    const UOp **kept = arena_copy(arena, out, n * sizeof *out);
    mem_free(stack);
    mem_free(out);
    *count = n;
    return kept;
}

static const UOp *copy_one(Graph *to, const UOp *u, const UOp **memo)
{
    const UOp *few[16], **src = u->nsrc > 16 ? mem_new(u->nsrc * sizeof *src) : few;
    for (uint32_t k = 0; k < u->nsrc; k++) src[k] = memo[u->src[k]->id];
    Arg arg = { u->arg.i, u->arg.blob ? graph_blob(to, u->arg.blob->data, u->arg.blob->size) : NULL };
    const UOp *r = intern(to, (Op)u->op, (DType)u->dtype, u->tag, arg, src, u->nsrc);
    if (src != few) mem_free(src);
    return r;
}

const UOp *uop_copy(Graph *to, const UOp *u, const UOp **memo)
{
    const UOp **own = memo ? memo : mem_zeros(u->id + 1, sizeof *own);
    struct { const UOp *u; uint32_t next; } *stack = NULL;
    uint32_t top = 0, cap = 0;
    for (const UOp *at = u; at || top;) {
        if (at && !own[at->id]) {
            if (top == cap) stack = mem_grow(stack, (cap = cap ? cap * 2 : 64) * sizeof *stack);
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
    mem_free(stack);
    if (own != memo) mem_free(own);
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

const UOp *uop_neutral(Graph *g, Op op, DType t)
{
    if (op == UOP_ADD) return uop_const_like(g, t, 0);
    if (op == UOP_MUL) return uop_const_like(g, t, 1);
    return dtype_is_float(t) ? uop_float(g, t, -__builtin_inf()) : uop_int(g, t, dtype_min(t));
}
