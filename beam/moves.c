/* Moves: a factor changed, an op taken out, an axis split once more (for lanes, replicas, unrolling, blocks, threads,
 * workgroups), loops in another order, another axis shared among threads, padding, two loops as one, vectors along
 * another axis, a constant packed or not, a sum's loop outside of others. To add a kind of move: a function below and a
 * line in recipe_neighbours. */
#include "beam/moves.h"

#include <string.h>

typedef struct { const UOp *range[64]; uint8_t name[64]; uint32_t n; } Axes;             /* by axis number */
typedef struct { Kernel *k; const Target *t; uint8_t name_of[64]; } Replay;              /* name_of: by range number */

/* ---- recipes ---- */

static void axes_now(Axes *a, const Replay *p)
{
    a->n = opt_axes(p->k, a->range, 64);
    for (uint32_t i = 0; i < a->n; i++) a->name[i] = p->name_of[range_number(a->range[i])];
}

static int find_name(const Axes *a, uint8_t name)
{
    for (uint32_t i = 0; i < a->n; i++)
        if (a->name[i] == name) return (int)i;
    return -1;
}

static void replay_begin(Replay *p, const Kernel *base, const Target *t)
{
    *p = (Replay){ .k = kernel_clone(base), .t = t };
    for (int i = 0; i < 64; i++) p->name_of[i] = (uint8_t)i;
}

static uint64_t numbers(const Axes *a)
{
    uint64_t set = 0;
    for (uint32_t i = 0; i < a->n; i++) set |= range_bit(a->range[i]);
    return set;
}

/* A range that appears has the splitting op's name. */
static bool replay_op(Replay *p, const OptOp *op, uint8_t id)
{
    Axes before, after;
    axes_now(&before, p);
    if (opt_apply(p->k, op, p->t) != TG_OK) return status_clear(), false;
    axes_now(&after, p);
    uint64_t fresh = numbers(&after) & ~numbers(&before);
    for (; fresh; fresh &= fresh - 1) p->name_of[__builtin_ctzll(fresh)] = (uint8_t)(NAME_SPLIT + id);
    return true;
}

/* STAGE names the axis of its iterations, beside the parameter; CARRY the first loop inside. */
static bool names_second(const OptOp *op)
{
    return op->kind == OPT_SWAP || op->kind == OPT_STAGE || op->kind == OPT_CARRY;
}
static bool names_axis(const OptOp *op)
{
    return op->kind != OPT_PACK && op->kind != OPT_STAGE && op->kind != OPT_STREAM && op->kind != OPT_NOLOCALS;
}

bool recipe_of(Recipe *out, const Kernel *base, const OptList *l, const Target *t)
{
    Replay p;
    bool ok = true;
    replay_begin(&p, base, t);
    *out = (Recipe){ .count = 0 };
    for (uint32_t i = 0; i < l->count && ok; i++) {
        Axes a;
        Move *s = &out->step[out->count++];
        *s = (Move){ .op = l->op[i], .id = out->next_id++ };
        axes_now(&a, &p);
        ok = (!names_axis(&s->op) || (uint32_t)s->op.axis < a.n) &&
            (!names_second(&s->op) || (uint32_t)s->op.factor < a.n);
        if (ok && names_axis(&s->op)) s->on = a.name[s->op.axis];
        if (ok && names_second(&s->op)) s->with = a.name[s->op.factor];
        ok = ok && replay_op(&p, &s->op, s->id);
    }
    kernel_free(p.k);
    return ok;
}

static bool number_axes(const Axes *a, const Move *s, OptOp *op)
{
    *op = s->op;
    int at = names_axis(op) ? find_name(a, s->on) : 0, with = names_second(op) ? find_name(a, s->with) : 0;
    if (names_axis(op)) op->axis = (int8_t)at;
    if (names_second(op)) op->factor = with;
    return at >= 0 && with >= 0;
}

Kernel *recipe_apply(OptList *out, const Kernel *base, const Recipe *r, const Target *t)
{
    Replay p;
    bool ok = true;
    replay_begin(&p, base, t);
    out->count = 0;
    for (uint32_t i = 0; i < r->count && ok; i++) {
        Axes a;
        OptOp op;
        axes_now(&a, &p);
        ok = number_axes(&a, &r->step[i], &op) && replay_op(&p, &op, r->step[i].id);
        if (ok) out->op[out->count++] = op;
    }
    if (ok) return p.k;
    kernel_free(p.k);
    return NULL;
}

/* ---- moves ---- */

typedef struct {
    const Recipe *r;
    const Target *t;
    const Kernel *base;
    Axes end;
    void (*take)(void *user, const Recipe *r);
    void *user;
} Moves;

static bool insert(Recipe *r, uint32_t at, OptOp op, uint8_t on, uint8_t with)
{
    if (r->count == OPT_MAX || r->next_id >= 190) return false;
    memmove(&r->step[at + 1], &r->step[at], (r->count - at) * sizeof *r->step);
    r->step[at] = (Move){ op, r->next_id++, on, with };
    r->count++;
    return true;
}

static void take_out(Recipe *r, uint32_t at)
{
    r->count--;
    memmove(&r->step[at], &r->step[at + 1], (r->count - at) * sizeof *r->step);
}

/* PACK, STAGE and CARRY come last, in this order. */
static uint32_t before_packs(const Recipe *r)
{
    uint32_t at = r->count;
    while (at && opt_is_last(&r->step[at - 1].op)) at--;
    return at;
}

static uint32_t before_carry(const Recipe *r)
{
    return r->count && r->step[r->count - 1].op.kind == OPT_CARRY ? r->count - 1 : r->count;
}

static void factors(Moves *m)
{
    for (uint32_t i = 0; i < m->r->count; i++) {
        int32_t f = m->r->step[i].op.factor,
                next[] = { f * 2, f / 2, f * 4, f / 4, f + 1, f - 1, f * 3, f / 3, f + 2, f - 2, f * 3 / 2, f * 2 / 3 };
        if (m->r->step[i].op.kind != OPT_SPLIT && m->r->step[i].op.kind != OPT_PADTO) continue;
        for (size_t k = 0; k < sizeof next / sizeof *next; k++) {
            Recipe r = *m->r;
            r.step[i].op.factor = next[k];
            if (next[k] > 1 && next[k] != f) m->take(m->user, &r);
        }
    }
}

/* NEST stays: it is there for the rounding of a long sum, not for its speed. */
static void removals(Moves *m)
{
    for (uint32_t i = 0; i < m->r->count; i++) {
        Recipe r = *m->r;
        if (r.step[i].op.kind == OPT_NEST) continue;
        take_out(&r, i);
        m->take(m->user, &r);
    }
}

static void split_axis(Moves *m, uint32_t axis, AxisType target, bool top)
{
    static const int32_t factor[] = { 2, 3, 4, 5, 6, 7, 8, 12, 16, 32, 64, 128, 256 };
    int64_t size = m->end.range[axis]->src[0]->vmax;
    for (size_t k = 0; k <= sizeof factor / sizeof *factor; k++) {
        int64_t f = k < sizeof factor / sizeof *factor ? factor[k] : size;
        bool divides = size % f == 0, overlaps = target == AXIS_UPCAST && f < size;
        Recipe r = *m->r;
        OptOp op = { .kind = OPT_SPLIT, .target = (uint8_t)target, .top = top, .factor = (int32_t)f };
        if (f < 2 || f > size || (!divides && !overlaps) || (k < sizeof factor / sizeof *factor && f == size)) continue;
        if (insert(&r, before_packs(&r), op, m->end.name[axis], 0)) m->take(m->user, &r);
    }
}

static void splits(Moves *m)
{
    static const AxisType cpu_loop[] = { AXIS_UPCAST, AXIS_LOOP }, cpu_reduce[] = { AXIS_UNROLL };
    static const AxisType gpu_loop[] = { AXIS_UPCAST, AXIS_LOCAL, AXIS_GLOBAL, AXIS_LOOP },
                          gpu_reduce[] = { AXIS_UNROLL, AXIS_GROUP_REDUCE, AXIS_WARP };
    bool gpu = m->t->max_block > 0;
    for (uint32_t i = 0; i < m->end.n; i++) {
        AxisType t = range_type(m->end.range[i]);
        bool reduce = t == AXIS_REDUCE || t == AXIS_GROUP_REDUCE;
        if (!uop_is_const(m->end.range[i]->src[0]) ||
            (t != AXIS_LOOP && t != AXIS_GLOBAL && t != AXIS_LOCAL && !reduce))
            continue;
        const AxisType *target = gpu ? reduce ? gpu_reduce : gpu_loop : reduce ? cpu_reduce : cpu_loop;
        for (int k = 0; k < (gpu ? 4 : 2) - reduce; k++) split_axis(m, i, target[k], false);
    }
}

/* Two loops of the output change places; or a block of one goes around all others. */
static void orders(Moves *m)
{
    for (uint32_t i = 0; i < m->end.n; i++)
        for (uint32_t j = i + 1; j < m->end.n; j++) {
            Recipe r = *m->r;
            if (range_type(m->end.range[i]) != range_type(m->end.range[j])) continue;
            if (insert(&r, before_packs(&r), (OptOp){ .kind = OPT_SWAP }, m->end.name[i], m->end.name[j]))
                m->take(m->user, &r);
        }
}

static void blocks(Moves *m)
{
    for (uint32_t i = 0; i < m->end.n; i++)
        for (int32_t f = 2; f <= 64; f *= 2) {
            Recipe r = *m->r;
            uint32_t at = before_packs(&r), first = 0;
            while (first < m->end.n && range_type(m->end.range[first]) != AXIS_LOOP) first++;
            int64_t size = m->end.range[i]->src[0]->vmax;
            if (range_type(m->end.range[i]) != AXIS_LOOP || size % f || size / f < 2 || first >= i) continue;
            uint8_t part = (uint8_t)(NAME_SPLIT + r.next_id);
            bool ok = insert(&r, at, (OptOp){ .kind = OPT_SPLIT, .target = AXIS_LOOP, .top = true, .factor = f },
                             m->end.name[i], 0);
            if (ok && insert(&r, at + 1, (OptOp){ .kind = OPT_SWAP }, part, m->end.name[first])) m->take(m->user, &r);
        }
}

/* Another axis, or another part of it, is shared among the CPU's threads; or none is. */
static void threads(Moves *m)
{
    Recipe bare = *m->r;
    if (!m->t->has_threads) return;
    for (uint32_t i = bare.count; i-- > 0;)
        if (bare.step[i].op.kind == OPT_SPLIT && bare.step[i].op.target == AXIS_THREAD) take_out(&bare, i);
    m->take(m->user, &bare);
    for (uint32_t i = 0; i < m->end.n; i++) {
        int64_t size = m->end.range[i]->src[0]->vmax;
        AxisType t = range_type(m->end.range[i]);
        if ((t != AXIS_LOOP && t != AXIS_THREAD) || !uop_is_const(m->end.range[i]->src[0])) continue;
        for (int64_t f = size; f > 1; f /= 2) {
            Recipe r = bare;
            OptOp share = { .kind = OPT_SPLIT, .target = AXIS_THREAD, .top = f < size, .factor = (int32_t)f };
            if (size % f) continue;
            if (i && !insert(&r, before_packs(&r), (OptOp){ .kind = OPT_SWAP }, m->end.name[i], m->end.name[0]))
                continue;
            if (insert(&r, before_packs(&r), share, m->end.name[i], 0)) m->take(m->user, &r);
        }
    }
}

static void paddings(Moves *m)
{
    static const int32_t multiple[] = { 4, 8, 16, 32 };
    const UOp *axis[64];
    uint32_t n = opt_axes(m->base, axis, 64);
    for (uint32_t i = 0; i < n; i++)
        for (int k = 0; k < 4; k++) {
            Recipe r = *m->r;
            if (!uop_is_const(axis[i]->src[0]) || axis[i]->src[0]->vmax % multiple[k] == 0) continue;
            if (insert(&r, 0, (OptOp){ .kind = OPT_PADTO, .factor = multiple[k] }, (uint8_t)range_number(axis[i]), 0))
                m->take(m->user, &r);
        }
}

/* Two loops of the output as one, before all else; what was done to the inner one is done to both. */
static void merges(Moves *m)
{
    const UOp *axis[64];
    uint32_t n = opt_axes(m->base, axis, 64);
    for (uint32_t i = 0; i + 1 < n && !m->t->max_block; i++) {
        Recipe r = *m->r;
        if (range_type(axis[i]) != AXIS_LOOP || range_type(axis[i + 1]) != AXIS_LOOP) continue;
        uint8_t both = (uint8_t)range_number(axis[i]), inner = (uint8_t)range_number(axis[i + 1]);
        for (uint32_t s = 0; s < r.count; s++) {
            if (r.step[s].on == inner) r.step[s].on = both;
            if (r.step[s].with == inner) r.step[s].with = both;
        }
        if (insert(&r, 0, (OptOp){ .kind = OPT_MERGE }, both, 0)) m->take(m->user, &r);
    }
}

/* A constant in the loops' order: with the arithmetic on it, or as narrow as it is. */
static void packs(Moves *m)
{
    for (uint32_t slot = 0; slot < m->base->nparam; slot++) {
        Recipe r = *m->r;
        bool packed = false;
        for (uint32_t i = 0; i < r.count; i++) {
            OptOp *o = &r.step[i].op;
            if (o->kind != OPT_PACK || (uint32_t)o->axis != slot) continue;
            packed = true;
            o->top = !o->top;
            m->take(m->user, &r);
        }
        for (int narrow = 0; narrow < 2 && m->base->param[slot].constant && !packed; narrow++) {
            r = *m->r;
            if (insert(&r, before_carry(&r), (OptOp){ .kind = OPT_PACK, .axis = (int8_t)slot, .top = narrow }, 0, 0))
                m->take(m->user, &r);
        }
    }
}

static bool is_replicated(const UOp *range)
{
    return range_type(range) == AXIS_UPCAST || range_type(range) == AXIS_UNROLL;
}

/* Vectors along another axis of replicas. */
static void lanes(Moves *m)
{
    uint32_t axes = 0;
    for (uint32_t i = 0; i < m->end.n; i++) axes += is_replicated(m->end.range[i]);
    for (uint32_t i = 0; i < m->end.n && axes > 1; i++) {
        Recipe r = *m->r;
        if (!is_replicated(m->end.range[i])) continue;
        if (insert(&r, before_packs(&r), (OptOp){ .kind = OPT_LANES }, m->end.name[i], 0)) m->take(m->user, &r);
    }
}

/* Stores past the caches. */
static void streams(Moves *m)
{
    for (uint32_t slot = 0; slot < m->base->nparam && m->t->has_streams; slot++) {
        Recipe r = *m->r;
        bool has = !m->base->param[slot].written;
        for (uint32_t i = 0; i < r.count; i++)
            has |= r.step[i].op.kind == OPT_STREAM && r.step[i].op.axis == (int8_t)slot;
        if (!has && insert(&r, before_carry(&r), (OptOp){ .kind = OPT_STREAM, .axis = (int8_t)slot }, 0, 0))
            m->take(m->user, &r);
    }
}

/* An operand that a GPU's workgroup reads together, a tile each iteration of a reduce loop; or one tile instead of two.
 * On a CPU what all iterations inside of a loop read, where no constant could be packed. */
static void stages(Moves *m)
{
    uint64_t staged = 0;
    bool gpu = m->t->has_locals;
    for (uint32_t i = 0; i < m->r->count; i++) {
        Recipe r = *m->r;
        if (r.step[i].op.kind != OPT_STAGE) continue;
        staged |= UINT64_C(1) << r.step[i].op.axis;
        r.step[i].op.target = (uint8_t)(3 - r.step[i].op.target);
        if (gpu) m->take(m->user, &r);
    }
    for (uint32_t slot = 0; slot < m->base->nparam; slot++)
        for (uint32_t i = 0; i < m->end.n; i++) {
            Recipe r = *m->r;
            AxisType type = range_type(m->end.range[i]);
            bool around = gpu ? type == AXIS_REDUCE : type == AXIS_LOOP || type == AXIS_THREAD;
            if (m->base->param[slot].written || (staged >> slot & 1) || !around ||
                (!gpu && m->base->param[slot].constant))
                continue;
            OptOp op = { .kind = OPT_STAGE, .axis = (int8_t)slot, .target = gpu ? 2 : 1 };
            if (insert(&r, before_carry(&r), op, 0, m->end.name[i])) m->take(m->user, &r);
        }
}

/* A sum's loop around loops of the output; one list has one of these at most. */
static void carries(Moves *m)
{
    if (m->t->max_block || before_carry(m->r) < m->r->count) return;
    for (uint32_t i = 0; i < m->end.n; i++)
        for (uint32_t j = 0; j < m->end.n && range_type(m->end.range[i]) == AXIS_REDUCE; j++) {
            Recipe r = *m->r;
            if (range_type(m->end.range[j]) != AXIS_LOOP) continue;
            if (insert(&r, r.count, (OptOp){ .kind = OPT_CARRY }, m->end.name[i], m->end.name[j])) m->take(m->user, &r);
        }
}

void recipe_neighbours(const Recipe *r, const Kernel *base, const Target *t, void (*take)(void *user, const Recipe *r),
                       void *user)
{
    Moves m = { .r = r, .t = t, .base = base, .take = take, .user = user };
    Replay p;
    bool ok = true;
    replay_begin(&p, base, t);
    for (uint32_t i = 0; i < r->count && ok; i++) {
        Axes a;
        OptOp op;
        axes_now(&a, &p);
        ok = number_axes(&a, &r->step[i], &op) && replay_op(&p, &op, r->step[i].id);
    }
    axes_now(&m.end, &p);
    if (ok)
        factors(&m), removals(&m), splits(&m), orders(&m), blocks(&m), threads(&m), paddings(&m), merges(&m),
            packs(&m), lanes(&m), streams(&m), stages(&m), carries(&m);
    kernel_free(p.k);
}
