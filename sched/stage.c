/* STAGE: what all iterations inside of a loop read of a parameter is copied into LOCAL memory once per iteration of
 * that loop, and read there.
 *
 * Comes in: form 3 with all its splits made, a parameter that one LOAD reads, and an axis. The copy stands inside of
 * that axis, of the LOOP and REDUCE axes before it, and of GLOBAL and THREAD axes; the ranges of all others say which
 * elements an iteration reads: the tile. Goes out: LOAD(INDEX(AFTER(BUFFER LOCAL, END(STORE(..copy..))), ..)). The tile
 * lies in LOCAL as it lies in memory, row by row: ranges whose steps fit into one another (k4 of step 4 around k of
 * step 1 and 4 iterations) are one dimension, the nearest is the row. On a GPU rows are padded to an odd number of 16
 * bytes, so that neighbouring rows begin in different banks, and all threads of the workgroup copy, 16 bytes each; on a
 * CPU it is a packed panel of the thread's scratch. A range whose quotient and remainder are read separately (the lanes
 * of a WMMA) is two of them. depth 2: two tiles, filled in turn, so that one may be filled while the other is read
 * (prefetch.c). Gates and alternatives of the LOAD move into the copy. Must hold: no range of the tile is symbolic, and
 * nothing in the kernel writes the parameter.
 */
#include <stdlib.h>

#include "graph/rewrite.h"
#include "sched/rangeify.h"

enum { MAX_TILE = 32, VECTOR_BYTES = 16, REPLICAS = 16 };

/* Ranges inside of the tile, nearest first; step: elements in memory, or NO_STEP. */
/* value: what the range is for the reader, where it is a digit of another */
typedef struct { const UOp *range, *value; int64_t step, extent; } Part;
/* Neighbouring parts whose steps fit: one run of extent elements, at stride step in memory and pitch in LOCAL. */
typedef struct {
    uint32_t first, count;
    int64_t step, extent, pitch;
} Run;

typedef struct {
    Kernel *k;
    Graph *g;
    const Target *t;
    const UOp *load, *index, *base, *iteration;              /* base: index where the tile begins */
    const UOp *src[3];                                   /* of the load, in terms of the parts */
    uint64_t digits;                                     /* numbers of ranges that stand for digits */
    uint64_t inside;
    Part part[MAX_TILE];
    Run run[MAX_TILE];
    uint32_t nparts, nruns;
    /* of a tile; of a tile in LOCAL; of an element; elements a copy; threads that copy */
    int64_t elements, pitch, size, vector, threads;
    int depth;
} Stage;

static const UOp *times(Graph *g, const UOp *a, int64_t n) { return index_math(g, UOP_MUL, a, uop_index(g, n)); }
static const UOp *over(Graph *g, const UOp *a, int64_t n) { return index_math(g, UOP_IDIV, a, uop_index(g, n)); }
static const UOp *modulo(Graph *g, const UOp *a, int64_t n) { return index_math(g, UOP_MOD, a, uop_index(g, n)); }

/* ---- what is read ---- */

static TgStatus find_load(Stage *s, uint32_t slot)
{
    Arena *a = arena_new();
    uint32_t n, found = 0;
    const UOp **order = uop_toposort(s->g, &s->k->root, 1, a, &n);
    for (uint32_t i = 0; i < n; i++) {
        const UOp *u = order[i];
        if (u->op != UOP_LOAD || u->src[0]->src[0]->op != UOP_PARAM || u->src[0]->src[0]->arg.i != slot) continue;
        s->load = u;
        s->index = u->src[0]->src[1];
        for (uint32_t j = 0; j < u->nsrc && j < 3; j++) s->src[j] = u->src[j];
        found++;
    }
    arena_free(a);
    return found == 1 ? TG_OK : fail(TG_USAGE, "optops: STAGE: parameter %u is read in %u places", slot, found);
}

static bool is_loop(const UOp *r) { return range_type(r) == AXIS_LOOP || range_type(r) == AXIS_REDUCE; }
static bool is_grid(const UOp *r) { return range_type(r) == AXIS_GLOBAL || range_type(r) == AXIS_THREAD; }
static bool is_thread(const UOp *r)
{
    return range_type(r) == AXIS_LOCAL || range_type(r) == AXIS_WARP || range_type(r) == AXIS_GROUP_REDUCE;
}

static uint64_t nearness(int64_t step) { return step <= 0 ? UINT64_MAX : (uint64_t)step; }

static void add_part(Stage *s, const UOp *range, const UOp *value)
{
    Part p = { range, value, range_step(s->index, range), range->src[0]->vmax };
    if (value != range && !(s->index->ranges & range_bit(range))) return;
    uint32_t at = s->nparts++;
    for (; at && nearness(p.step) < nearness(s->part[at - 1].step); at--) s->part[at] = s->part[at - 1];
    s->part[at] = p;
}

/* The divisor by which the index cuts the range; 0: none, or several. */
static int64_t divisor_of(const Stage *s, const UOp *range)
{
    Arena *a = arena_new();
    uint32_t n;
    int64_t by = 0;
    const UOp **order = uop_toposort(s->g, &s->index, 1, a, &n);
    for (uint32_t i = 0; i < n; i++) {
        const UOp *u = order[i];
        if ((u->op != UOP_IDIV && u->op != UOP_MOD) || u->src[0] != range || !uop_is_const(u->src[1])) continue;
        by = by && by != u->src[1]->arg.i ? -1 : u->src[1]->arg.i;
    }
    arena_free(a);
    return by > 1 && range->src[0]->vmax % by == 0 && by < range->src[0]->vmax ? by : 0;
}

static const UOp *digit(Stage *s, int64_t extent, AxisType type)
{
    uint64_t used = opt_numbers(s->k) | s->digits;
    if (!~used) return NULL;
    s->digits |= ~used & (used + 1);
    return uop_range(s->g, __builtin_ctzll(~used), uop_index(s->g, extent), type);
}

/* r = high * by + low, in all that the load reads. */
static TgStatus take_apart(Stage *s, const UOp *r, int64_t by)
{
    Graph *g = s->g;
    const UOp *high = digit(s, r->src[0]->vmax / by, range_type(r)), *low = digit(s, by, range_type(r));
    if (!high || !low) return fail(TG_USAGE, "optops: more than 64 ranges");
    const UOp *whole = index_add(g, times(g, high, by), low);
    s->index = graph_rewrite(g, uop_substitute(g, s->index, &r, &whole, 1), rules_symbolic(), 0, NULL);
    for (uint32_t i = 1; i < s->load->nsrc; i++)
        s->src[i] = graph_rewrite(g, uop_substitute(g, s->src[i], &r, &whole, 1), rules_symbolic(), 0, NULL);
    add_part(s, high, over(g, r, by));
    add_part(s, low, modulo(g, r, by));
    return TG_OK;
}

static TgStatus find_parts(Stage *s, const OptOp *o, const UOp *const *axis, uint32_t n)
{
    uint64_t reads = s->load->ranges;
    s->threads = 1;
    for (uint32_t i = 0; i < n; i++) {
        const UOp *r = axis[i];
        if (is_thread(r)) s->threads *= r->src[0]->vmax;
        if (is_grid(r) || (is_loop(r) && i <= (uint32_t)o->factor)) continue;
        s->inside |= range_bit(r);
        if (!(reads & range_bit(r))) continue;
        if (!uop_is_const(r->src[0])) return fail(TG_USAGE, "optops: STAGE over axis %u of symbolic size", i);
        if (s->nparts + 2 > MAX_TILE) return fail(TG_USAGE, "optops: STAGE over more than %d axes", MAX_TILE);
        int64_t by = range_step(s->index, r) == NO_STEP ? divisor_of(s, r) : 0;
        if (by) TRY(take_apart(s, r, by));
        else add_part(s, r, r);
    }
    for (uint32_t i = 0; i < n; i++) reads &= ~range_bit(axis[i]);
    return reads    ? fail(TG_USAGE, "optops: STAGE of what an inner loop of a stage reads")
        : s->nparts ? TG_OK
                    : fail(TG_USAGE, "optops: STAGE of one element an iteration");
}

static void find_runs(Stage *s)
{
    const UOp *from[MAX_TILE], *zero[MAX_TILE];
    for (uint32_t i = 0; i < s->nparts; i++) from[i] = s->part[i].range, zero[i] = uop_index(s->g, 0);
    s->base = graph_rewrite(s->g, uop_substitute(s->g, s->index, from, zero, s->nparts), rules_symbolic(), 0, NULL);
    for (uint32_t i = 0; i < s->nparts; i++) {
        const Part *p = &s->part[i];
        Run *last = s->nruns ? &s->run[s->nruns - 1] : NULL;
        if (last && p->step > 0 && last->step > 0 && p->step == last->step * last->extent)
            last->count++, last->extent *= p->extent;
        else s->run[s->nruns++] = (Run){ i, 1, p->step, p->extent, 0 };
    }
}

/* ---- where it lies ---- */

/* The widest copy: elements side by side, whose place is a multiple at both ends where the device wants that. */
static int64_t widest(const Stage *s)
{
    int64_t most = (s->t->max_block ? VECTOR_BYTES : s->t->vector_bytes) / s->size, n;
    if (s->run[0].step != 1) return 1;
    for (uint32_t i = 0; i < s->run[0].count && s->load->nsrc > 2; i++)
        if (s->src[2]->ranges & range_bit(s->part[i].range)) return 1;
    n = common_divisor(most, s->run[0].extent);
    if (!s->t->max_block) return n;
    for (uint32_t i = 1; i < s->nruns; i++) {
        if (s->run[i].step == NO_STEP) return 1;
        n = common_divisor(n, s->run[i].step);
    }
    return common_divisor(n, index_divisor(s->base));
}

static void lay_out(Stage *s)
{
    int64_t row = s->run[0].extent, units = VECTOR_BYTES / s->size;
    s->elements = 1;
    for (uint32_t i = 0; i < s->nruns; i++) s->elements *= s->run[i].extent;
    if (s->t->max_block && s->nruns > 1 && row % units == 0 && row / units % 2 == 0) row += units;
    s->run[0].pitch = 1;
    for (uint32_t i = 1; i < s->nruns; i++) s->run[i].pitch = i == 1 ? row : s->run[i - 1].pitch * s->run[i - 1].extent;
    s->pitch = s->nruns == 1 ? s->elements : s->run[s->nruns - 1].pitch * s->run[s->nruns - 1].extent;
}

/* Which of the tiles this iteration's is. */
static const UOp *tile_of_iteration(const Stage *s)
{
    return s->depth > 1 ? times(s->g, modulo(s->g, s->iteration, s->depth), s->pitch) : uop_index(s->g, 0);
}

/* The LOCAL index of the LOAD: its ranges, with the pitches of their runs. */
static const UOp *place_read(const Stage *s)
{
    const UOp *at = tile_of_iteration(s);
    for (uint32_t i = 0; i < s->nruns; i++) {
        int64_t pitch = s->run[i].pitch;
        for (uint32_t j = 0; j < s->run[i].count; j++) {
            const Part *p = &s->part[s->run[i].first + j];
            at = index_add(s->g, at, times(s->g, p->value, pitch));
            pitch *= p->extent;
        }
    }
    return at;
}

/* ---- the copy ---- */

/* Element number `flat` of the tile: its place in LOCAL, and what the tile's ranges are there. */
static const UOp *place_written(const Stage *s, const UOp *flat, const UOp **from, const UOp **to)
{
    Graph *g = s->g;
    const UOp *at = tile_of_iteration(s);
    for (uint32_t i = 0; i < s->nruns; i++) {
        const Run *r = &s->run[i];
        const UOp *v = i + 1 < s->nruns ? modulo(g, flat, r->extent) : flat;
        flat = over(g, flat, r->extent);
        at = index_add(g, at, times(g, v, r->pitch));
        for (uint32_t j = 0; j < r->count; j++) {
            const Part *p = &s->part[r->first + j];
            from[r->first + j] = p->range;
            to[r->first + j] = j + 1 < r->count ? modulo(g, v, p->extent) : v;
            v = over(g, v, p->extent);
        }
    }
    return at;
}

/* The same for the address in memory, run by run: shorter than to substitute every range. */
static const UOp *memory_index(const Stage *s, const UOp *flat, const UOp *const *from, const UOp *const *to)
{
    Graph *g = s->g;
    const UOp *at = s->base;
    for (uint32_t i = 0; i < s->nparts; i++)
        if (s->part[i].step == NO_STEP) return uop_substitute(g, s->index, from, to, s->nparts);
    for (uint32_t i = 0; i < s->nruns; i++) {
        at = index_add(g, at, times(g, i + 1 < s->nruns ? modulo(g, flat, s->run[i].extent) : flat, s->run[i].step));
        flat = over(g, flat, s->run[i].extent);
    }
    return at;
}

static const UOp *fresh_range(Stage *s, int64_t extent, AxisType type, const UOp **list, uint32_t *n)
{
    if (extent == 1) return uop_index(s->g, 0);
    uint64_t used = opt_numbers(s->k) | s->digits;
    for (uint32_t i = 0; i < *n; i++) used |= range_bit(list[i]);
    return ~used ? list[(*n)++] = uop_range(s->g, __builtin_ctzll(~used), uop_index(s->g, extent), type) : NULL;
}

/* Copies are shared out: iterations x threads x elements side by side. The last iteration may not need all threads. */
static const UOp *copy_tile(Stage *s, const UOp *buffer)
{
    Graph *g = s->g;
    const UOp *list[4], *from[MAX_TILE], *to[MAX_TILE];
    uint32_t n = 0;
    int64_t copies = s->elements / s->vector, iterations = (copies + s->threads - 1) / s->threads;
    const UOp *iteration =
        fresh_range(s, iterations, iterations > REPLICAS || !s->t->max_block ? AXIS_LOOP : AXIS_UPCAST, list, &n);
    const UOp *thread = fresh_range(s, s->threads, AXIS_LOCAL, list, &n),
              *lane = fresh_range(s, s->vector, AXIS_UPCAST, list, &n);
    if (!iteration || !thread || !lane) return NULL;
    const UOp *number = index_add(g, times(g, iteration, s->threads), thread),
              *flat = index_add(g, times(g, number, s->vector), lane);
    const UOp *local = place_written(s, flat, from, to), *memory = memory_index(s, flat, from, to);
    const UOp *load[3] = { UOP(g, UOP_INDEX, DT_VOID, NO_ARG, s->load->src[0]->src[0], memory) },
              *store[3] = { UOP(g, UOP_INDEX, DT_VOID, NO_ARG, buffer, local) }, *gate = NULL;
    uint32_t nload = s->load->nsrc;
    for (uint32_t i = 1; i < nload; i++) load[i] = uop_substitute(g, s->src[i], from, to, s->nparts);
    if (copies % s->threads) {
        gate = UOP(g, UOP_CMPLT, DT_VOID, NO_ARG, number, uop_index(g, copies));
        load[1] = nload > 1 ? load[1] : uop_const_like(g, (DType)s->load->dtype, 0);
        load[2] = nload > 1 ? UOP(g, UOP_AND, DT_VOID, NO_ARG, load[2], gate) : gate;
        nload = 3;
    }
    store[1] = uop_new(g, UOP_LOAD, DT_VOID, s->load->arg, load, nload);
    store[2] = gate;
    const UOp *end[5] = { uop_new(g, UOP_STORE, DT_VOID, NO_ARG, store, gate ? 3 : 2) };
    for (uint32_t i = 0; i < n; i++) end[i + 1] = list[i];
    return n ? uop_new(g, UOP_END, DT_VOID, NO_ARG, end, n + 1) : end[0];
}

/* LOCAL buffers have numbers; a new one has the next. */
static int64_t free_slot(const Stage *s)
{
    Arena *a = arena_new();
    uint32_t n;
    const UOp **order = uop_toposort(s->g, &s->k->root, 1, a, &n);
    int64_t next = local_free(order, n);
    arena_free(a);
    return next;
}

static TgStatus replace(Stage *s)
{
    Graph *g = s->g;
    const UOp *size = uop_index(g, s->pitch * s->depth),
              *buffer = uop_buffer(g, (DType)s->load->dtype, &size, 1, free_slot(s), SPACE_LOCAL),
              *copy = copy_tile(s, buffer);
    if (!copy) return fail(TG_USAGE, "optops: more than 64 ranges");
    if (copy->ranges & s->digits)
        return fail(TG_USAGE, "optops: STAGE of a parameter whose gate knows more of the lanes than its index");
    const UOp *staged = UOP(g, UOP_AFTER, DT_VOID, NO_ARG, buffer, copy);
    const UOp *read = UOP(g, UOP_LOAD, DT_VOID, NO_ARG, UOP(g, UOP_INDEX, DT_VOID, NO_ARG, staged, place_read(s)));
    s->k->root = graph_rewrite(g, uop_substitute(g, s->k->root, &s->load, &read, 1), rules_symbolic(), 0, NULL);
    return graph_error(g);
}

TgStatus opt_stage(Kernel *k, const OptOp *o, const UOp *const *axis, uint32_t n, const Target *t)
{
    Stage s = { .k = k, .g = k->g, .t = t, .depth = o->target };
    uint32_t slot = (uint32_t)o->axis;
    if (slot >= k->nparam || k->param[slot].written)
        return fail(TG_USAGE, "optops: STAGE of parameter %u, which is not an input", slot);
    bool loops = o->factor >= 0 && (uint32_t)o->factor < n &&
        (is_loop(axis[o->factor]) || (range_type(axis[o->factor]) == AXIS_THREAD && o->target == 1));
    if (!loops)
        return fail(TG_USAGE, "optops: STAGE in axis %d, which is no loop", o->factor);
    if (s.depth < 1 || s.depth > 2) return fail(TG_USAGE, "optops: STAGE of depth %d; 1 or 2", s.depth);
    TRY(find_load(&s, slot));
    s.iteration = axis[o->factor];
    if (!(s.load->ranges & range_bit(s.iteration)))
        return fail(TG_USAGE, "optops: STAGE in axis %d, on which parameter %u does not depend", o->factor, slot);
    TRY(find_parts(&s, o, axis, n));
    s.size = dtype_size((DType)s.load->dtype);
    find_runs(&s);
    lay_out(&s);
    s.vector = widest(&s);
    if (s.pitch * s.size * s.depth > (t->max_block ? t->l1_bytes : t->l2_bytes / 2))
        return fail(TG_USAGE, "optops: STAGE of %lld bytes", (long long)(s.pitch * s.size * s.depth));
    uint64_t data = range_data(s.g, s.index) | (s.load->nsrc > 2 ? range_data(s.g, s.src[2]) : 0);
    bool idle = s.elements / s.vector % s.threads != 0;                  /* threads, in the last iteration */
    for (uint32_t i = 0; i < s.nparts && idle; i++)
        if (data & range_bit(s.part[i].range))
            return fail(TG_USAGE, "optops: STAGE of a parameter where data say, by threads of which some are idle");
    if (s.depth > 1) k->rings |= range_bit(s.iteration);
    return replace(&s);
}
