/* GPU dimensions: GLOBAL, LOCAL, WARP and GROUP_REDUCE ranges become positions of workgroups and threads, before
 * linearize, which then sees loops only.
 *
 * Comes in: form 5 with such ranges. Goes out: no such range; SPECIALs in their place, Kernel.grid and .block, and in
 * the graph
 *   - a REDUCE over threads: lanes of one warp by SHUFFLE and op, halving; what is left through a LOCAL buffer with a
 * place for every thread, a BARRIER, and a short loop in each thread. All threads get the same bits, in a fixed order.
 *   - a staged LOCAL buffer: private to each value of the thread ranges around its loops; a BARRIER after it is
 * written, and inside a loop one before it is written again;
 *   - a STORE that does not depend on a range that others use: a gate, so that one thread (or workgroup) does it.
 * Threads are one line: slot k has extent e and stride s, its index is tid / s % e. The slot of a WARP range has
 * stride 1. Ranges share a slot when nothing depends on both and their extents agree: the loops over a row in softmax
 * are one slot. A LOCAL range that meets no other and is as long as the line is the line: the copy of a tile.
 * Workgroups are up to three axes, or one line when those do not do. Must hold: every thread meets every BARRIER and
 * SHUFFLE; so nothing here is under an IF, gates are on stores only.
 */
#include <string.h>

#include "sched/sched.h"

enum { MAX_SLOTS = 16, GRID_YZ = 65535, WARP_LINE = 32 };

/* line: all threads, whatever the other slots make of them */
typedef struct {
    uint64_t ranges;
    const UOp *bound, *index;
    int64_t extent, stride;
    bool warp, line;
} Slot;
typedef struct { Slot slot[MAX_SLOTS]; uint32_t count; } Slots;

typedef struct {
    Kernel *k;
    Graph *g;
    Arena *arena;
    const Target *t;
    const UOp **order, **map;       /* nodes, sources first; what they become, by id */
    uint32_t count, ids;
    Slots group, thread;            /* workgroups; threads */
    int64_t threads;
    uint64_t *cover;                /* by id of a STORE: ranges of the END around it */
    uint32_t *level;                /* by id: how many reductions through memory lie below, one after the other */
    const UOp **outer;              /* by id of a LOCAL buffer: where a thread's own copy begins, or NULL */
    int64_t *copies;
    int next_range;
    int64_t next_buffer;
} Dims;

static bool is_group_axis(AxisType t) { return t == AXIS_GLOBAL; }
static bool is_thread_axis(AxisType t) { return t == AXIS_LOCAL || t == AXIS_WARP || t == AXIS_GROUP_REDUCE; }
static bool is_local_buffer(const UOp *u) { return u->op == UOP_BUFFER && buffer_space(u) == SPACE_LOCAL; }
static const UOp *mul(Graph *g, const UOp *a, int64_t n)
{
    return n == 1 ? a : UOP(g, UOP_MUL, DT_VOID, NO_ARG, a, uop_index(g, n));
}
static const UOp *plus(Graph *g, const UOp *a, const UOp *b)
{
    return !a || uop_is_int_const(a, 0) ? b : !b || uop_is_int_const(b, 0) ? a : UOP(g, UOP_ADD, DT_VOID, NO_ARG, a, b);
}

/* ---- slots ---- */

/* Ranges that some value or loop nest has together with r: they cannot share its place. */
static uint64_t together(const Dims *d, const UOp *r)
{
    uint64_t all = 0;
    for (uint32_t i = 0; i < d->count; i++) {
        const UOp *u = d->order[i];
        uint64_t own = u->ranges;
        for (uint32_t k = 0; (u->op == UOP_END || u->op == UOP_REDUCE) && k < u->nsrc; k++) own |= u->src[k]->ranges;
        if (own & range_bit(r)) all |= own;
    }
    return all & ~range_bit(r);
}

static TgStatus add_range(Dims *d, Slots *s, const UOp *r)
{
    uint64_t split = together(d, r);
    for (uint32_t k = 0; k < s->count; k++) {
        Slot *p = &s->slot[k];
        if (p->bound->vmax != r->src[0]->vmax || p->bound->vmin != r->src[0]->vmin ||
            (!uop_is_const(p->bound) && p->bound != r->src[0]) || (p->ranges & split))
            continue;
        p->ranges |= range_bit(r);
        p->warp |= range_type(r) == AXIS_WARP;
        return TG_OK;
    }
    if (s->count == MAX_SLOTS) return fail(TG_UNSUPPORTED, "kernel %s: more than %d GPU axes", d->k->name, MAX_SLOTS);
    s->slot[s->count++] = (Slot){
        .ranges = range_bit(r), .bound = r->src[0], .extent = r->src[0]->vmax, .warp = range_type(r) == AXIS_WARP
    };
    return TG_OK;
}

/* The stride in memory of this range, at an address: |coefficient| of an affine index; far when it is
 * none. */
enum { FAR = 1 << 30 };
static int64_t distance(const UOp *u, const UOp *range)
{
    if (u == range) return 1;
    if (!(u->ranges & range_bit(range))) return 0;
    if (u->op == UOP_ADD) {
        int64_t a = distance(u->src[0], range), b = distance(u->src[1], range);
        return a && b ? FAR : a + b;
    }
    if (u->op == UOP_STACK) return distance(u->src[0], range);
    bool left = u->op == UOP_MUL && uop_is_const(u->src[0]),
         right = (u->op == UOP_MUL || u->op == UOP_SHL) && uop_is_const(u->src[1]);
    int64_t factor = left ? u->src[0]->arg.i
        : right           ? u->op == UOP_SHL ? INT64_C(1) << (u->src[1]->arg.i & 31) : u->src[1]->arg.i
                          : FAR;
    int64_t inner = left || right ? distance(u->src[left ? 1 : 0], range) : 1;
    factor = factor < 0 ? -factor : factor;
    return inner >= FAR || factor >= FAR / inner ? FAR : inner * factor;
}

static int64_t nearest(const Dims *d, const UOp *range)
{
    int64_t best = FAR + 1;
    for (uint32_t i = 0; i < d->count; i++) {
        const UOp *u = d->order[i];
        if ((u->op != UOP_INDEX && u->op != UOP_SHRINK) || u->src[0]->op != UOP_PARAM ||
            !(u->src[1]->ranges & range_bit(range)))
            continue;
        int64_t n = distance(u->src[1], range);
        if (n < best) best = n;
    }
    return best;
}

static int64_t threads_of(const Slots *s)
{
    int64_t n = 1;
    for (uint32_t k = 0; k < s->count; k++) n *= s->slot[k].line ? 1 : s->slot[k].extent;
    return n;
}

/* A LOCAL range that meets no other thread range: the copy of a tile, for which only the number of threads counts. */
static bool stands_alone(const Dims *d, const UOp *r)
{
    uint64_t others = range_type(r) == AXIS_LOCAL ? together(d, r) : UINT64_MAX;
    for (uint32_t i = 0; i < d->count && others != UINT64_MAX; i++)
        if (d->order[i]->op == UOP_RANGE && is_thread_axis(range_type(d->order[i])) &&
            (others & range_bit(d->order[i])))
            return false;
    return others != UINT64_MAX;
}

/* Ranges that stand alone: those that are not as long as the line first, since they may make it longer. */
static TgStatus add_alone(Dims *d, const UOp **range, uint32_t n)
{
    for (int64_t line = 0; line != threads_of(&d->thread);) {
        line = threads_of(&d->thread);
        for (uint32_t k = 0; k < n; k++) {
            if (!range[k] || (line > 1 && range[k]->src[0]->vmax == line)) continue;
            TRY(add_range(d, &d->thread, range[k]));
            range[k] = NULL;
        }
    }
    for (uint32_t k = 0; k < n; k++) {
        if (!range[k]) continue;
        if (d->thread.count == MAX_SLOTS) return add_range(d, &d->thread, range[k]);
        d->thread.slot[d->thread.count++] = (Slot){ .ranges = range_bit(range[k]),
                                                    .bound = range[k]->src[0],
                                                    .extent = range[k]->src[0]->vmax,
                                                    .stride = 1,
                                                    .line = true };
    }
    return TG_OK;
}

/* Ranges whose neighbours are near in memory first: they get neighbouring threads. Among equals the last range. */
static TgStatus find_slots(Dims *d)
{
    const UOp *range[64];
    int64_t near[64];
    uint32_t n = 0;
    for (uint32_t i = 0; i < d->count; i++) {
        const UOp *r = d->order[i];
        if (r->op != UOP_RANGE || (!is_group_axis(range_type(r)) && !is_thread_axis(range_type(r)))) continue;
        if (is_thread_axis(range_type(r)) && !uop_is_const(r->src[0]))
            return fail(TG_UNSUPPORTED, "kernel %s: a thread axis of symbolic size", d->k->name);
        int64_t key = nearest(d, r);
        uint32_t at = n++;
        for (; at && (key < near[at - 1] || (key == near[at - 1] && range_number(r) > range_number(range[at - 1])));
             at--)
            range[at] = range[at - 1], near[at] = near[at - 1];
        range[at] = r;
        near[at] = key;
    }
    uint32_t alone = 0;
    for (uint32_t k = 0; k < n; k++)
        if (stands_alone(d, range[k])) range[alone++] = range[k];
        else TRY(add_range(d, is_group_axis(range_type(range[k])) ? &d->group : &d->thread, range[k]));
    return add_alone(d, range, alone);
}

static const UOp *special(Graph *g, const char *name, const UOp *bound)
{
    return UOP(g, UOP_SPECIAL, DT_VOID, ((Arg){ 0, graph_blob(g, name, strlen(name) + 1) }), bound);
}

static const UOp *part_of_line(Graph *g, const UOp *line, const UOp *stride, const UOp *bound, bool last)
{
    const UOp *i = uop_is_int_const(stride, 1) ? line : UOP(g, UOP_IDIV, DT_VOID, NO_ARG, line, stride);
    return last ? i : UOP(g, UOP_MOD, DT_VOID, NO_ARG, i, bound);
}

static TgStatus place_threads(Dims *d)
{
    Slots *s = &d->thread;
    uint32_t warps = 0;
    for (uint32_t k = 0; k < s->count; k++) {
        if (!s->slot[k].warp) continue;
        Slot warp = s->slot[k];
        memmove(s->slot + 1, s->slot, k * sizeof *s->slot);
        s->slot[0] = warp;
        if (++warps > 1) return fail(TG_UNSUPPORTED, "kernel %s: two WARP axes", d->k->name);
    }
    d->threads = 1;
    uint32_t count = 0;
    for (uint32_t k = 0; k < s->count; k++) {
        if (s->slot[k].line) continue;
        s->slot[k].stride = d->threads;
        d->threads *= s->slot[k].extent;
        count = k + 1;
    }
    if (d->threads > (d->t->max_block ? d->t->max_block : 1))
        return fail(TG_UNSUPPORTED, "kernel %s: %lld threads in a workgroup", d->k->name, (long long)d->threads);
    const UOp *tid = special(d->g, "lidx0", uop_index(d->g, d->threads));
    for (uint32_t k = 0; k < s->count; k++)
        s->slot[k].index = s->slot[k].line
            ? tid
            : part_of_line(d->g, tid, uop_index(d->g, s->slot[k].stride), s->slot[k].bound, k + 1 == count);
    d->k->block[0] = uop_index(d->g, d->threads);
    d->k->block[1] = d->k->block[2] = NULL;
    return TG_OK;
}

static const UOp *times(Graph *g, const UOp *a, const UOp *b)
{
    if (uop_is_const(a) && uop_is_const(b)) return uop_index(g, a->arg.i * b->arg.i);
    return uop_is_int_const(a, 1) ? b : UOP(g, UOP_MUL, DT_VOID, NO_ARG, a, b);
}

static void place_groups(Dims *d)
{
    static const char *const name[] = { "gidx0", "gidx1", "gidx2" };
    Slots *s = &d->group;
    bool axes = s->count <= 3;
    const UOp *all = uop_index(d->g, 1);
    for (uint32_t k = 1; k < s->count; k++) axes &= s->slot[k].extent <= GRID_YZ;
    for (int k = 0; k < 3; k++) d->k->grid[k] = NULL;
    for (uint32_t k = 0; k < s->count; k++) {
        /* its stride, for the moment */
        s->slot[k].index = axes ? special(d->g, name[k], s->slot[k].bound) : all;
        if (axes) d->k->grid[k] = s->slot[k].bound;
        all = times(d->g, all, s->slot[k].bound);
    }
    if (axes) return;
    const UOp *line = special(d->g, "gidx0", all);
    for (uint32_t k = 0; k < s->count; k++)
        s->slot[k].index = part_of_line(d->g, line, s->slot[k].index, s->slot[k].bound, k + 1 == s->count);
    d->k->grid[0] = all;
}

static Slot *slot_of(Dims *d, const UOp *range)
{
    for (uint32_t k = 0; k < d->group.count; k++)
        if (d->group.slot[k].ranges & range_bit(range)) return &d->group.slot[k];
    for (uint32_t k = 0; k < d->thread.count; k++)
        if (d->thread.slot[k].ranges & range_bit(range)) return &d->thread.slot[k];
    return NULL;
}

/* ---- shared memory ---- */

static const UOp *address(Graph *g, const UOp *memory, const UOp *index, const UOp *like)
{
    if (!like->shape->rank) return UOP(g, UOP_INDEX, DT_VOID, NO_ARG, memory, index);
    return UOP(g, UOP_SHRINK, DT_VOID, NO_ARG, memory, uop_sizes(g, &index, 1), uop_sizes(g, like->shape->dim, 1));
}

static const UOp *new_local(Dims *d, DType t, int64_t size)
{
    const UOp *dim = uop_index(d->g, size);
    return uop_buffer(d->g, t, &dim, 1, d->next_buffer++, SPACE_LOCAL);
}

/* What is written in a loop was read in the iteration before: all threads must be past that. */
static const UOp *before_writing(Dims *d, const UOp *buffer, uint64_t loops)
{
    const UOp *src[64];
    uint32_t n = 0;
    for (uint32_t i = 0; i < d->count; i++)
        if (d->order[i]->op == UOP_RANGE && (loops & range_bit(d->order[i])) && !slot_of(d, d->order[i]))
            src[n++] = d->map[d->order[i]->id];
    if (!n || d->threads == 1) return buffer;
    return UOP(d->g, UOP_AFTER, DT_VOID, NO_ARG, buffer, uop_new(d->g, UOP_BARRIER, DT_VOID, NO_ARG, src, n));
}

static const UOp *after_writing(Dims *d, const UOp *buffer, const UOp *store)
{
    const UOp *done = d->threads > 1 ? UOP(d->g, UOP_BARRIER, DT_VOID, NO_ARG, store) : store;
    return UOP(d->g, UOP_AFTER, DT_VOID, NO_ARG, buffer, done);
}

/* ---- reductions over threads ---- */

static int64_t lanes_of(const Slot *s)
{
    if ((s->extent & (s->extent - 1)) || (s->stride & (s->stride - 1)) || s->stride >= WARP_LINE) return 1;
    return s->extent < WARP_LINE / s->stride ? s->extent : WARP_LINE / s->stride;
}

static const UOp *by_shuffles(Dims *d, const UOp *v, Op op, const Slot *s)
{
    for (int64_t n = lanes_of(s) / 2; n; n /= 2)
        v = UOP(d->g, op, DT_VOID, NO_ARG, v, UOP(d->g, UOP_SHUFFLE, DT_VOID, ARG_I(n * s->stride), v));
    return v;
}

static const UOp *get(Dims *d, const UOp *u);

static uint32_t split_ranges(Dims *d, const UOp *u, Slot **slot, const UOp **loop, uint32_t *nloop)
{
    uint32_t n = 0;
    *nloop = 0;
    for (uint32_t k = 1; k < u->nsrc; k++) {
        Slot *s = u->src[k]->op == UOP_RANGE ? slot_of(d, u->src[k]) : NULL;
        if (s) slot[n++] = s;
        else loop[(*nloop)++] = u->src[k];
    }
    return n;
}

static bool is_thread_reduce(const UOp *u) { return u->op == UOP_REDUCE && !u->arg.blob; }

static bool needs_memory(Dims *d, const UOp *u)
{
    const UOp *loop[64];
    Slot *slot[MAX_SLOTS];
    uint32_t nloop, n = is_thread_reduce(u) ? split_ranges(d, u, slot, loop, &nloop) : 0;
    for (uint32_t k = 0; k < n; k++)
        if (lanes_of(slot[k]) < slot[k]->extent) return true;
    return false;
}

/* What a thread has of a REDUCE after its own loops and its warp's lanes. */
static const UOp *own_part(Dims *d, const UOp *u)
{
    const UOp *loop[64];
    Slot *slot[MAX_SLOTS];
    uint32_t nloop, n = split_ranges(d, u, slot, loop, &nloop);
    for (uint32_t k = 0; k < nloop; k++) loop[k] = get(d, loop[k]);
    const UOp *v = uop_reduce_like(d->g, u, get(d, u->src[0]), loop, nloop);
    for (uint32_t k = 0; k < n; k++) v = by_shuffles(d, v, (Op)u->arg.i, slot[k]);
    return v;
}

/* Where a thread reads the others' parts: those of the threads that differ from it in the reduced slots. Gives the
 * loops over them. */
static const UOp *others(Dims *d, const UOp *u, const UOp **range, uint32_t *nrange)
{
    Graph *g = d->g;
    const UOp *loop[64], *base = NULL;
    Slot *slot[MAX_SLOTS];
    uint32_t nloop, n = split_ranges(d, u, slot, loop, &nloop);
    *nrange = 0;
    for (uint32_t k = 0; k < n; k++) {
        int64_t inner = lanes_of(slot[k]), rest = slot[k]->extent / inner, stride = slot[k]->stride * inner;
        if (rest == 1) continue;
        const UOp *index =
            inner == 1 ? slot[k]->index : UOP(g, UOP_IDIV, DT_VOID, NO_ARG, slot[k]->index, uop_index(g, inner));
        range[*nrange] = uop_range(g, d->next_range++, uop_index(g, rest), AXIS_REDUCE);
        base = plus(g, base, mul(g, UOP(g, UOP_ADD, DT_VOID, NO_ARG, range[(*nrange)++], mul(g, index, -1)), stride));
    }
    return plus(g, special(g, "lidx0", d->k->block[0]), base);
}

static bool same_set(Dims *d, const UOp *a, const UOp *b)
{
    if (!needs_memory(d, b) || d->level[a->id] != d->level[b->id] || a->ranges != b->ranges || a->nsrc != b->nsrc)
        return false;
    return !memcmp(a->src + 1, b->src + 1, (a->nsrc - 1) * sizeof *a->src);
}

/* Reductions through memory: every thread's part has a place. Those over the same ranges that do not wait for each
 * other share a barrier and the loop behind it. */
static void reduce_by_memory(Dims *d, const UOp *u)
{
    Graph *g = d->g;
    const UOp **member = NEW_N(d->arena, const UOp *, d->count), **store = NEW_N(d->arena, const UOp *, d->count),
              **part = NEW_N(d->arena, const UOp *, d->count), *range[MAX_SLOTS];
    const UOp **buffer = NEW_N(d->arena, const UOp *, d->count);
    uint32_t n = 0, nrange;
    for (uint32_t i = 0; i < d->count; i++)
        if (d->order[i] == u || same_set(d, u, d->order[i])) member[n++] = d->order[i];
    for (uint32_t k = 0; k < n; k++) {
        const UOp *v = part[k] = own_part(d, member[k]);
        int64_t lanes = v->shape->rank ? uop_size(v, 0) : 1;
        buffer[k] = new_local(d, (DType)v->dtype, d->threads * lanes);
        store[k] = UOP(
            g, UOP_STORE, DT_VOID, NO_ARG,
            address(g, before_writing(d, buffer[k], v->ranges), mul(g, special(g, "lidx0", d->k->block[0]), lanes), v),
            v);
    }
    const UOp *all = uop_new(g, UOP_BARRIER, DT_VOID, NO_ARG, store, n), *from = others(d, u, range, &nrange);
    for (uint32_t k = 0; k < n; k++) {
        int64_t lanes = part[k]->shape->rank ? uop_size(part[k], 0) : 1;
        const UOp *shared = UOP(g, UOP_AFTER, DT_VOID, NO_ARG, buffer[k], all);
        const UOp *read = UOP(g, UOP_LOAD, DT_VOID, NO_ARG, address(g, shared, mul(g, from, lanes), part[k]));
        d->map[member[k]->id] = uop_reduce_like(g, member[k], read, range, nrange);
    }
}

static const UOp *reduce_node(Dims *d, const UOp *u)
{
    if (!needs_memory(d, u)) return own_part(d, u);
    reduce_by_memory(d, u);
    return d->map[u->id];
}

/* ---- stores and stages ---- */

static void cover_stores(Dims *d, const UOp *body, uint64_t ranges)
{
    if (body->op == UOP_STORE) d->cover[body->id] |= ranges;
    for (uint32_t k = 0; body->op == UOP_GROUP && k < body->nsrc; k++) cover_stores(d, body->src[k], ranges);
}

static const UOp *memory_under(const UOp *a)
{
    const UOp *m = a->op == UOP_INDEX || a->op == UOP_SHRINK ? a->src[0] : a;
    while (m->op == UOP_AFTER) m = m->src[0];
    return m;
}

/* A LOCAL buffer that is written under thread ranges which its index does not name: a copy for each of their values. */
static void find_copies(Dims *d, const UOp *store)
{
    const UOp *b = memory_under(store->src[0]);
    if (!is_local_buffer(b)) return;
    uint64_t missing = store->ranges & ~d->cover[store->id];       /* the loops that fill it fill one copy */
    for (uint32_t k = 1; k < store->src[0]->nsrc; k++) missing &= ~store->src[0]->src[k]->ranges;
    for (uint32_t k = 0; k < d->thread.count; k++) {
        const Slot *s = &d->thread.slot[k];
        if (!(s->ranges & missing)) continue;
        if (!d->copies[b->id]) d->copies[b->id] = 1;
        d->outer[b->id] = plus(d->g, d->outer[b->id], mul(d->g, s->index, d->copies[b->id] * uop_numel(b)));
        d->copies[b->id] *= s->extent;
    }
}

static const UOp *gate_of(Dims *d, const UOp *store)
{
    const UOp *gate = store->nsrc > 2 ? d->map[store->src[2]->id] : NULL;
    bool local = is_local_buffer(memory_under(store->src[0])), line = false;
    for (uint32_t k = 0; k < d->thread.count; k++)
        line |= d->thread.slot[k].line && (d->thread.slot[k].ranges & (d->cover[store->id] | store->ranges));
    for (uint32_t k = 0; k < d->thread.count + d->group.count; k++) {
        const Slot *s = k < d->thread.count ? &d->thread.slot[k] : &d->group.slot[k - d->thread.count];
        if ((s->ranges & (d->cover[store->id] | store->ranges)) || s->extent == 1 || s->line ||
            (line && k < d->thread.count) || (local && k >= d->thread.count))
            continue;
        const UOp *first = UOP(d->g, UOP_CMPLT, DT_VOID, NO_ARG, s->index, uop_index(d->g, 1));
        gate = gate ? UOP(d->g, UOP_AND, DT_VOID, NO_ARG, gate, first) : first;
    }
    return gate;
}

static const UOp *store_node(Dims *d, const UOp *u)
{
    const UOp *gate = gate_of(d, u), *to = d->map[u->src[0]->id], *value = d->map[u->src[1]->id];
    if (is_local_buffer(memory_under(to))) {
        const UOp *src[64] = { before_writing(d, to->src[0], u->ranges & ~d->cover[u->id]) };
        for (uint32_t k = 1; k < to->nsrc; k++) src[k] = to->src[k];
        to = uop_with(d->g, to, src);
    }
    return gate ? UOP(d->g, UOP_STORE, DT_VOID, NO_ARG, to, value, gate)
                : UOP(d->g, UOP_STORE, DT_VOID, NO_ARG, to, value);
}

static const UOp *end_node(Dims *d, const UOp *u)
{
    const UOp *src[65] = { d->map[u->src[0]->id] };
    uint32_t n = 1;
    for (uint32_t k = 1; k < u->nsrc; k++)
        if (!slot_of(d, u->src[k])) src[n++] = d->map[u->src[k]->id];
    return n > 1 ? uop_new(d->g, UOP_END, DT_VOID, NO_ARG, src, n) : src[0];
}

static const UOp *address_node(Dims *d, const UOp *u, const UOp *const *src)
{
    const UOp *b = memory_under(u), *own = is_local_buffer(b) ? d->outer[b->id] : NULL,
              *moved[3] = { src[0], NULL, NULL };
    if (!own) return uop_with(d->g, u, src);
    if (u->op == UOP_INDEX) moved[1] = plus(d->g, src[1], own);
    else {
        const UOp *at = plus(d->g, src[1]->src[0], own);
        moved[1] = uop_sizes(d->g, &at, 1);
        moved[2] = src[2];
    }
    return uop_with(d->g, u, moved);
}

static const UOp *rebuilt(Dims *d, const UOp *u)
{
    const UOp **src = NEW_N(d->arena, const UOp *, u->nsrc);
    for (uint32_t k = 0; k < u->nsrc; k++) src[k] = d->map[u->src[k]->id];
    if (u->op == UOP_RANGE && slot_of(d, u)) return slot_of(d, u)->index;
    if (u->op == UOP_REDUCE && !u->arg.blob) return reduce_node(d, u);
    if (u->op == UOP_STORE) return store_node(d, u);
    if (u->op == UOP_END) return end_node(d, u);
    if (u->op == UOP_AFTER && is_local_buffer(memory_under(u))) return after_writing(d, src[0], src[1]);
    if ((u->op == UOP_INDEX || u->op == UOP_SHRINK) && is_local_buffer(memory_under(u))) return address_node(d, u, src);
    if (is_local_buffer(u) && d->copies[u->id]) {
        const UOp *dim = uop_index(d->g, uop_numel(u) * d->copies[u->id]);
        return uop_buffer(d->g, (DType)u->dtype, &dim, 1, buffer_slot(u), SPACE_LOCAL);
    }
    return u->nsrc ? uop_with(d->g, u, src) : u;
}

/* Mostly in order; only those that share a barrier are requested earlier. */
static const UOp *get(Dims *d, const UOp *u)
{
    if (d->map[u->id]) return d->map[u->id];
    for (uint32_t k = 0; k < u->nsrc; k++) get(d, u->src[k]);
    return d->map[u->id] = rebuilt(d, u);
}

/* ---- the whole ---- */

static void prepare(Dims *d)
{
    for (uint32_t i = 0; i < d->count; i++) {
        const UOp *u = d->order[i];
        uint64_t own = 0;
        for (uint32_t k = 0; k < u->nsrc; k++)
            if (d->level[u->src[k]->id] > d->level[u->id]) d->level[u->id] = d->level[u->src[k]->id];
        d->level[u->id] += needs_memory(d, u);
        if (u->op == UOP_RANGE && range_number(u) >= d->next_range) d->next_range = range_number(u) + 1;
        if (is_local_buffer(u) && buffer_slot(u) >= d->next_buffer) d->next_buffer = buffer_slot(u) + 1;
        if (u->op != UOP_END) continue;
        for (uint32_t k = 1; k < u->nsrc; k++) own |= u->src[k]->ranges;
        cover_stores(d, u->src[0], own);
    }
}

static TgStatus gpu_dims(Dims *d)
{
    d->order = uop_toposort(d->g, &d->k->root, 1, d->arena, &d->count);
    d->ids = graph_count(d->g);
    d->map = NEW_N(d->arena, const UOp *, d->ids);
    d->outer = NEW_N(d->arena, const UOp *, d->ids);
    d->copies = NEW_N(d->arena, int64_t, d->ids);
    d->cover = NEW_N(d->arena, uint64_t, d->ids);
    d->level = NEW_N(d->arena, uint32_t, d->ids);
    TRY(find_slots(d));
    TRY(place_threads(d));
    place_groups(d);
    prepare(d);
    for (uint32_t i = 0; i < d->count; i++)
        if (d->order[i]->op == UOP_STORE) find_copies(d, d->order[i]);
    for (uint32_t i = 0; i < d->count; i++) {
        if (d->next_range > 60) return fail(TG_UNSUPPORTED, "kernel %s: too many loops", d->k->name);
        get(d, d->order[i]);
    }
    d->k->root = merge_loads(d->g, d->map[d->k->root->id]);
    return graph_error(d->g);
}

TgStatus kernel_gpudims(Kernel *k, const Target *t)
{
    Dims d = { .k = k, .g = k->g, .arena = arena_new(), .t = t };
    TgStatus status = gpu_dims(&d);
    arena_free(d.arena);
    return status;
}
