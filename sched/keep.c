/* KEEP: what a reduce computes at each iteration of an axis, and later loops of the same length compute again, is
 * stored by the first and read by the others.
 *
 * Comes in: form 3, a reduce axis a before any split of it. Of the values under a that stand elsewhere too with another
 * range j in a's place, the dearest, E. Goes out: E(j) is LOAD(INDEX(AFTER(BUFFER LOCAL [a], END(STORE(INDEX(BUFFER,
 * a), E(a)), a)), j)). END and REDUCE own the same range, so that linearize gives them one loop, and OptOps on a change
 * both. Must hold: no E(j) is part of the reduce over a itself (then another axis comes first). Ranges that later
 * become UPCAST and on which E depends have an element of the row each: kept_widen, before expand. Where expand leaves
 * no loop of a, loads become the values that were stored, and the row lies in registers: kept_hold, after it.
 */
#include "graph/rewrite.h"
#include "sched/rangeify.h"

enum { COSTLY = 8, ENOUGH = 1 << 20 };                     /* a store and a load cost a few operations */

typedef struct {
    Kernel *k;
    Arena *arena;
    const UOp **order;
    uint32_t n;
    Rewriter *rw;
    float *cost;
    uint64_t outs;
} Keep;

static const UOp *memory_of_access(const UOp *u)
{
    const UOp *m = u->op == UOP_INDEX || u->op == UOP_SHRINK ? u->src[0] : NULL;
    while (m && m->op == UOP_AFTER) m = m->src[0];
    return m;
}

/* ---- what is kept ---- */

static float own_cost(const UOp *u)
{
    switch ((Op)u->op) {
    case UOP_REDUCE: return ENOUGH;
    case UOP_EXP2: case UOP_LOG2: case UOP_SIN: case UOP_POW: return 10;
    case UOP_SQRT: case UOP_RECIP: case UOP_DIV: return 4;
    default: return op_is((Op)u->op, FLAG_ALU) && dtype_is_float((DType)u->dtype) ? 1 : 0;
    }
}

static void find_costs(Keep *x, const UOp *axis)
{
    x->cost = NEW_N(x->arena, float, x->k->root->id + 1);
    for (uint32_t i = 0; i < x->n; i++) {
        const UOp *u = x->order[i];
        if (!(u->ranges & range_bit(axis))) continue;
        float cost = own_cost(u);
        for (uint32_t s = 0; s < u->nsrc; s++) cost += x->cost[u->src[s]->id];
        x->cost[u->id] = cost < ENOUGH ? cost : ENOUGH;
    }
}

/* By id: each node with range b where it has a. */
static const UOp **moved(Keep *x, const UOp *a, const UOp *b)
{
    const UOp **map = NEW_N(x->arena, const UOp *, x->k->root->id + 1), *src[72];
    for (uint32_t i = 0; i < x->n; i++) {
        const UOp *u = x->order[i];
        map[u->id] = u == a ? b : u;
        if (u == a || !(u->ranges & range_bit(a)) || u->nsrc > 72) continue;
        for (uint32_t s = 0; s < u->nsrc; s++) src[s] = map[u->src[s]->id];
        map[u->id] = uop_with(x->k->g, u, src);
        if (u->op == UOP_INDEX) map[u->id] = rewriter_run(x->rw, map[u->id]);
    }
    return map;
}

static bool may_keep(const Keep *x, const UOp *u, const UOp *axis)
{
    return x->cost[u->id] >= COSTLY && dtype_is_float((DType)u->dtype) && !u->shape->rank &&
        (u->ranges & range_bit(axis)) && !(u->ranges & ~range_bit(axis) & ~x->outs);
}

/* The node under range b that is u under the kept axis, or NULL: the kernel has none. */
static const UOp *same_at(const UOp **map, const UOp *u, const uint8_t *there, uint32_t ids)
{
    const UOp *v = map[u->id];
    return v->id < ids && there[v->id] ? v : NULL;
}

static bool is_part(Keep *x, const UOp *whole, const UOp *part)
{
    uint32_t n;
    bool found = false;
    const UOp **order = uop_toposort(x->k->g, &whole, 1, x->arena, &n);
    for (uint32_t i = 0; i < n; i++) found |= order[i] == part;
    return found;
}

static bool in_reduce_over(Keep *x, const UOp *axis, const UOp *part)
{
    for (uint32_t i = 0; i < x->n; i++)
        for (uint32_t s = 1; x->order[i]->op == UOP_REDUCE && s < x->order[i]->nsrc; s++)
            if (x->order[i]->src[s] == axis && is_part(x, x->order[i], part)) return true;
    return false;
}

/* at: the same value elsewhere, with: its range there */
typedef struct { const UOp *value, *at[64], *with[64]; uint32_t n; } Found;

static Found find(Keep *x, const UOp *axis)
{
    Found f = { .n = 0 };
    const UOp *range[64], **map[64];
    uint32_t ids = x->k->root->id + 1, nrange = 0;
    uint8_t *there = NEW_N(x->arena, uint8_t, ids);
    for (uint32_t i = 0; i < x->n; i++) {
        const UOp *u = x->order[i];
        there[u->id] = 1;
        if (u->op == UOP_RANGE && u != axis && u->src[0] == axis->src[0] &&
            (range_type(u) == AXIS_LOOP || range_type(u) == AXIS_REDUCE))
            range[nrange++] = u;
    }
    for (uint32_t r = 0; r < nrange; r++) map[r] = moved(x, axis, range[r]);
    for (uint32_t i = x->n; i-- > 0;) {
        const UOp *u = x->order[i];
        if (!may_keep(x, u, axis) || (f.value && x->cost[u->id] <= x->cost[f.value->id])) continue;
        Found now = { .value = u };
        for (uint32_t r = 0; r < nrange; r++)
            if ((now.at[now.n] = same_at(map[r], u, there, ids)) && now.at[now.n] != u) now.with[now.n++] = range[r];
        if (now.n) f = now;
    }
    return f;
}

static void replace(Keep *x, const UOp *axis, const Found *f)
{
    Graph *g = x->k->g;
    const UOp *to[64],
        *size = uop_index(g, axis->src[0]->vmax),
        *buffer = uop_buffer(g, (DType)f->value->dtype, &size, 1, local_free(x->order, x->n), SPACE_LOCAL);
    const UOp *store = UOP(g, UOP_STORE, DT_VOID, NO_ARG, element_at(g, buffer, axis), f->value),
              *kept = UOP(g, UOP_AFTER, DT_VOID, NO_ARG, buffer, UOP(g, UOP_END, DT_VOID, NO_ARG, store, axis));
    for (uint32_t i = 0; i < f->n; i++) to[i] = UOP(g, UOP_LOAD, DT_VOID, NO_ARG, element_at(g, kept, f->with[i]));
    x->k->root = uop_substitute(g, x->k->root, f->at, to, f->n);
}

TgStatus opt_keep(Kernel *k, const UOp *axis, const Target *t)
{
    if (t->max_block) return fail(TG_USAGE, "optops: KEEP on a device with workgroups");
    if (range_type(axis) != AXIS_REDUCE) return fail(TG_USAGE, "optops: KEEP of an axis that is no reduce");
    Keep x = { .k = k, .arena = arena_new(), .rw = rewriter_new(k->g, rules_symbolic(), NULL) };
    x.order = uop_toposort(k->g, &k->root, 1, x.arena, &x.n);
    for (uint32_t e = 0; e < k->root->nsrc; e++)
        for (uint32_t s = 1; k->root->src[e]->op == UOP_END && s < k->root->src[e]->nsrc; s++)
            x.outs |= range_bit(k->root->src[e]->src[s]);
    find_costs(&x, axis);
    Found f = find(&x, axis);
    TgStatus status = f.value
        ? TG_OK
        : fail(TG_USAGE,
               "optops: KEEP of an axis under which nothing costly is computed that another loop computes again");
    for (uint32_t i = 0; i < f.n && status == TG_OK; i++)
        if (in_reduce_over(&x, axis, f.at[i]))
            status = fail(TG_USAGE, "optops: KEEP of an axis whose reduce needs the other loop");
    if (status == TG_OK) replace(&x, axis, &f);
    rewriter_free(x.rw);
    arena_free(x.arena);
    return status;
}

/* ---- ranges in registers around it ---- */

/* inner: position among the elements that one of the row became */
typedef struct { const UOp *buffer, *wide, *inner; int64_t times; } Wide;

/* UPCAST and UNROLL ranges on which what the buffer holds depends, but not its place there. */
static uint64_t open_ranges(const UOp *after, uint64_t up)
{
    const UOp *end = after->src[1], *store = end->op == UOP_END ? end->src[0] : end;
    return store->op == UOP_STORE ? end->ranges & up & ~store->src[0]->src[1]->ranges : 0;
}

static int accesses_along(const UOp *const *order, uint32_t n, const UOp *range)
{
    int count = 0;
    for (uint32_t i = 0; i < n; i++) {
        const UOp *m = memory_of_access(order[i]);
        count += m && m->op == UOP_PARAM && range_step(order[i]->src[1], range) == 1;
    }
    return count;
}

static Wide widened(Graph *g, const UOp *after, uint64_t open, const UOp *const *range, const UOp *const *order,
                    uint32_t n)
{
    Wide w = { after->src[0], NULL, uop_index(g, 0), 1 };
    int last = -1, most = 0;
    for (uint64_t m = open; m; m &= m - 1) {
        int b = __builtin_ctzll(m), count = accesses_along(order, n, range[b]);
        if (count > most) last = b, most = count;
    }
    for (uint64_t m = open; m || last >= 0; m &= m - 1) {
        int b = m ? __builtin_ctzll(m) : last;
        if (!m) last = -1;
        if (m && b == last) continue;
        w.inner = index_math(g, UOP_ADD, index_math(g, UOP_MUL, w.inner, range[b]->src[0]), range[b]);
        w.times *= range[b]->src[0]->vmax;
        if (!m) break;
    }
    const UOp *size = uop_index(g, uop_numel(w.buffer) * w.times);
    w.wide = uop_buffer(g, (DType)w.buffer->dtype, &size, 1, buffer_slot(w.buffer), SPACE_LOCAL);
    return w;
}

static const Wide *wide_of(const Wide *w, uint32_t n, const UOp *buffer)
{
    for (uint32_t i = 0; i < n; i++)
        if (w[i].buffer == buffer) return &w[i];
    return NULL;
}

static uint32_t find_open(const Kernel *k, const UOp *const *order, uint32_t n, Wide *w, uint32_t cap)
{
    const UOp *range[64] = { NULL };
    uint64_t up = 0;
    uint32_t count = 0;
    for (uint32_t i = 0; i < n; i++)
        if (order[i]->op == UOP_RANGE) {
            range[range_number(order[i])] = order[i];
            if (range_type(order[i]) == AXIS_UPCAST || range_type(order[i]) == AXIS_UNROLL) up |= range_bit(order[i]);
        }
    for (uint32_t i = 0; i < n; i++) {
        const UOp *u = order[i];
        uint64_t open = u->op == UOP_AFTER && u->src[0]->op == UOP_BUFFER && u->nsrc == 2 ? open_ranges(u, up) : 0;
        if (open && count < cap) w[count++] = widened(k->g, u, open, range, order, n);
    }
    return count;
}

void kept_widen(Kernel *k)
{
    Arena *a = arena_new();
    Graph *g = k->g;
    uint32_t n;
    Wide w[16];
    const UOp **order = uop_toposort(g, &k->root, 1, a, &n), **map = NEW_N(a, const UOp *, k->root->id + 1);
    uint32_t count = find_open(k, order, n, w, 16);
    for (uint32_t i = 0; i < n && count; i++) {
        const UOp *u = order[i], **s = NEW_N(a, const UOp *, u->nsrc + 1), *m = memory_of_access(u);
        const Wide *into = wide_of(w, count, m ? m : u);
        for (uint32_t j = 0; j < u->nsrc; j++) s[j] = map[u->src[j]->id];
        if (into && u->op == UOP_INDEX)
            s[1] = index_math(g, UOP_ADD, index_math(g, UOP_MUL, s[1], uop_index(g, into->times)), into->inner);
        map[u->id] = into && !m ? into->wide : uop_with(g, u, s);
    }
    if (count) k->root = graph_rewrite(g, map[k->root->id], rules_symbolic(), 0, NULL);
    arena_free(a);
}

/* ---- rows without loops ---- */

static const UOp *stored_at(const UOp *effect, const UOp *load)
{
    if (effect->op == UOP_END && effect->nsrc > 1) return NULL;
    for (uint32_t i = 0; i < effect->nsrc && effect->op != UOP_STORE; i++) {
        const UOp *found = stored_at(effect->src[i], load);
        if (found) return found;
    }
    bool same =
        effect->op == UOP_STORE && effect->src[0]->op == load->src[0]->op && effect->src[0]->nsrc == load->src[0]->nsrc;
    for (uint32_t i = 1; same && i < load->src[0]->nsrc; i++) same = effect->src[0]->src[i] == load->src[0]->src[i];
    return same ? effect : NULL;
}

/* What an element holds that was stored outside of any loop; NULL: it must be loaded. */
static const UOp *held(Graph *g, const UOp *load)
{
    const UOp *after = load->op == UOP_LOAD && (load->src[0]->op == UOP_INDEX || load->src[0]->op == UOP_SHRINK)
        ? load->src[0]->src[0]
        : load;
    bool local = after->op == UOP_AFTER && after->nsrc == 2 && after->src[0]->op == UOP_BUFFER &&
        buffer_space(after->src[0]) == SPACE_LOCAL;
    const UOp *store = local ? stored_at(after->src[1], load) : NULL;
    if (!store || store->src[1]->shape != load->shape) return NULL;
    if (store->nsrc < 3) return store->src[1];
    return load->nsrc > 2 && load->src[2] == store->src[2]
        ? UOP(g, UOP_WHERE, DT_VOID, NO_ARG, load->src[2], store->src[1], load->src[1])
        : NULL;
}

void kept_hold(Kernel *k)
{
    Arena *a = arena_new();
    uint32_t n;
    const UOp **order = uop_toposort(k->g, &k->root, 1, a, &n), **map = NEW_N(a, const UOp *, k->root->id + 1);
    for (uint32_t i = 0; i < n; i++) {
        const UOp *u = order[i], **src = NEW_N(a, const UOp *, u->nsrc + 1);
        for (uint32_t s = 0; s < u->nsrc; s++) src[s] = map[u->src[s]->id];
        u = uop_with(k->g, u, src);
        const UOp *value = held(k->g, u);
        map[order[i]->id] = value ? value : u;
    }
    k->root = map[k->root->id];
    arena_free(a);
}

int64_t kept_bytes(const Kernel *k)
{
    Arena *a = arena_new();
    uint32_t n;
    Wide w[16];
    int64_t total = 0;
    const UOp **order = uop_toposort(k->g, &k->root, 1, a, &n);
    uint32_t count = find_open(k, order, n, w, 16);
    for (uint32_t i = 0; i < n; i++) {
        if (order[i]->op != UOP_BUFFER) continue;
        const Wide *wide = wide_of(w, count, order[i]);
        total += uop_numel(order[i]) * (wide ? wide->times : 1) * dtype_size((DType)order[i]->dtype);
    }
    arena_free(a);
    return total;
}
