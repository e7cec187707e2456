/* Heuristics: a good list of OptOps at once, from the kernel's accesses and the device's registers. Nothing here knows an operator.
 *
 * CPU. A vector axis is chosen by what each access costs along it (contiguous: one vector; constant: one, because it will be packed; not depending: a broadcast; else a gather). A
 * contraction then gets a tile of MR x NV vector accumulators: NV along the vector axis, MR along an output axis on which the vector operand does not depend, as many as the
 * registers hold, with the least padding. Other kernels get lanes and a few replicas; row statistics get lanes along their reduce and along their output. Constants that
 * vary along the lanes are packed. The outermost loop that balances is shared among threads.
 */
#include <stdlib.h>
#include <string.h>

#include "beam/beam.h"
#include "graph/wmma.h"

enum { ACCESSES = 96, WHOLE = 16, SHORT = 27, DOT_OTHERS = 4 };         /* SHORT: reduces that are unrolled whole; DOT_OTHERS: of a dot product, which takes its other operand in a register */
typedef struct { bool store, constant; uint32_t slot, bytes; uint64_t ranges, placed; int64_t step[64]; const UOp *at; } Access;    /* step: NO_STEP where the index is not linear; placed: what loaded places in it depend on */
typedef struct {
    Kernel *k;                      /* a scratch copy on which the list is tried as it grows */
    const Target *t;
    OptList *out;
    Access access[ACCESSES];
    uint32_t naccess;
    const UOp *axis[64];            /* of the kernel as it came: outputs, then reduces */
    uint32_t naxis, nout;
    uint64_t outs, reduces, rows;   /* rows: outer ranges on which every reduce depends, when some loop of the output lies inside of that; else outs */
    bool contraction;
    DType products;                 /* what is multiplied in a contraction, before it was widened */
    int lanes, work;                /* work: operations on floats in the kernel's text */
    bool kept;                      /* KEEP found something */
} Plan;

/* ---- facts ---- */

static uint64_t ranges_of_places(Graph *g, const UOp *index)
{
    Arena *a = arena_new();
    uint32_t n;
    uint64_t ranges = 0;
    const UOp **order = uop_toposort(g, &index, 1, a, &n);
    for (uint32_t i = 0; i < n; i++) ranges |= order[i]->op == UOP_LOAD ? order[i]->ranges : 0;
    arena_free(a);
    return ranges;
}

static void add_access(Plan *p, const UOp *u)
{
    const UOp *index = u->src[0];
    if (index->op != UOP_INDEX || index->src[0]->op != UOP_PARAM || p->naccess == ACCESSES) return;
    Access *a = &p->access[p->naccess++];
    a->store = u->op == UOP_STORE;
    a->slot = (uint32_t)index->src[0]->arg.i;
    a->constant = p->k->param[a->slot].constant;
    a->bytes = (uint32_t)dtype_size((DType)index->dtype);
    a->at = index->src[1];
    a->placed = ranges_of_places(p->k->g, a->at);
    a->ranges = index->ranges | (u->nsrc > 2 ? u->src[2]->ranges : 0);
    for (uint32_t i = 0; i < p->naxis; i++) a->step[range_number(p->axis[i])] = range_step(index->src[1], p->axis[i]);
}

static const UOp *through_casts(const UOp *u)
{
    while (u->op == UOP_CAST) u = u->src[0];
    return u;
}

/* A product summed for every element of the output, whose operands do not all vary with all loops. */
static bool contracts(const Plan *p, const UOp *u)
{
    const UOp *m = u->op == UOP_REDUCE && u->arg.i == UOP_ADD ? through_casts(u->src[0]) : NULL;
    return m && m->op == UOP_MUL && u->ranges == p->outs && m->src[0]->ranges != m->src[1]->ranges;
}

static void look(Plan *p)
{
    Arena *a = arena_new();
    uint32_t n;
    const UOp **order = uop_toposort(p->k->g, &p->k->root, 1, a, &n);
    p->naxis = opt_axes(p->k, p->axis, 64);
    p->outs = p->reduces = 0;
    p->naccess = p->nout = 0;
    p->work = 0;
    for (uint32_t i = 0; i < p->naxis; i++)
        if (range_type(p->axis[i]) == AXIS_LOOP) p->outs |= range_bit(p->axis[i]), p->nout++;
        else p->reduces |= range_bit(p->axis[i]);
    for (uint32_t i = 0; i < n; i++) {
        if (order[i]->op == UOP_LOAD || order[i]->op == UOP_STORE) add_access(p, order[i]);
        p->work += op_is((Op)order[i]->op, FLAG_ALU) && dtype_is_float((DType)order[i]->dtype);
        if (!contracts(p, order[i])) continue;
        p->contraction = true;
        p->products = (DType)through_casts(through_casts(order[i]->src[0])->src[0])->dtype;
    }
    arena_free(a);
}

static int64_t size_of(const Plan *p, int number)
{
    for (uint32_t i = 0; i < p->naxis; i++)
        if (range_number(p->axis[i]) == number) return p->axis[i]->src[0]->vmax;
    return 1;
}

static bool is_static(const Plan *p, uint32_t i) { return uop_is_const(p->axis[i]->src[0]); }

/* ---- trying ops ---- */

static bool try_op(Plan *p, OptOp op) { return opt_try(p->out, p->k, op, p->t); }

/* What is left of a loop; NULL: nothing. */
static const UOp *axis_now(const Plan *p, int number)
{
    const UOp *axis[64];
    int at = opt_axis(p->k, number);
    opt_axes(p->k, axis, 64);
    return at < 0 ? NULL : axis[at];
}

static int64_t size_now(const Plan *p, int number)
{
    const UOp *axis = axis_now(p, number);
    return axis ? axis->src[0]->vmax : 1;
}

/* What divides a loop's length: the length itself where it is known. */
static int64_t divisor_now(const Plan *p, int number)
{
    const UOp *axis = axis_now(p, number);
    return axis ? index_divisor(axis->src[0]) : 1;
}

static bool split(Plan *p, int number, int64_t factor, AxisType target)
{
    int at = opt_axis(p->k, number);
    return at >= 0 && factor > 1 && try_op(p, (OptOp){ .kind = OPT_SPLIT, .axis = (int8_t)at, .target = (uint8_t)target, .factor = (int32_t)factor });
}

static bool padto(Plan *p, int number, int64_t multiple)
{
    int at = opt_axis(p->k, number);
    if (at < 0 || divisor_now(p, number) % multiple == 0) return at >= 0;
    return try_op(p, (OptOp){ .kind = OPT_PADTO, .axis = (int8_t)at, .factor = (int32_t)multiple });
}

static bool is_symbolic(const Plan *p, int number)
{
    for (uint32_t i = 0; i < p->naxis; i++)
        if (range_number(p->axis[i]) == number) return !is_static(p, i);
    return false;
}

/* Lanes on a loop of the output; one of symbolic size gets as many more rounds as make it whole, whose elements are gated. */
static bool lanes_of(Plan *p, int number, int64_t lanes, int64_t together)
{
    return (!is_symbolic(p, number) || padto(p, number, lanes * together)) && split(p, number, lanes, AXIS_UPCAST);
}

static void move_first(Plan *p, int number)
{
    for (int at = opt_axis(p->k, number); at > 0; at--)
        if (!try_op(p, (OptOp){ .kind = OPT_SWAP, .axis = (int8_t)at, .factor = at - 1 })) return;
}

/* Moves an output loop outwards past those in `past`. */
static void move_out(Plan *p, int number, uint64_t past)
{
    const UOp *axis[64];
    for (int at = opt_axis(p->k, number); at > 0; at--) {
        opt_axes(p->k, axis, 64);
        if (!(past & range_bit(axis[at - 1])) || !try_op(p, (OptOp){ .kind = OPT_SWAP, .axis = (int8_t)at, .factor = at - 1 })) return;
    }
}

/* Constants that vary along lanes or tile, or are read with gates. */
static void pack_constants(Plan *p)
{
    uint64_t done = 0;
    for (uint32_t i = 0; i < p->naccess; i++) {
        const Access *a = &p->access[i];
        if (!a->constant || !(a->ranges & p->reduces) || (done >> a->slot & 1)) continue;
        done |= UINT64_C(1) << a->slot;
        try_op(p, (OptOp){ .kind = OPT_PACK, .axis = (int8_t)a->slot });
    }
}

static int64_t ceil_to(int64_t n, int64_t m) { return (n + m - 1) / m * m; }

static int64_t floor_power(int64_t n)
{
    int64_t w = 1;
    while (w * 2 <= n) w *= 2;
    return w;
}

/* ---- vector axis ---- */

/* Lanes that lie multiples of a page apart share the sets of a cache, which holds fewer than there are lanes: each access misses. Loaded places are gathered at once. */
static double apart(const Plan *p, const Access *a, int number)
{
    int64_t step = a->step[number];
    if (!a->store && a->bytes >= 4 && (a->placed >> number & 1)) return 0.6 * p->lanes;
    return step != NO_STEP && step && step * a->bytes % 4096 == 0 ? 3.0 * p->lanes : p->lanes;
}

/* Cost of one inner iteration's accesses when this axis is in lanes, in vector instructions; scalar code costs one a lane. */
static double lane_cost(const Plan *p, int number)
{
    double cost = 0;
    for (uint32_t i = 0; i < p->naccess; i++) {
        const Access *a = &p->access[i];
        bool inner = !p->reduces || (a->ranges & p->reduces), contiguous = a->step[number] == 1;
        double weight = inner ? 1 : p->contraction ? 0.02 : 0.3;
        if (!(a->ranges >> number & 1)) cost += 0.5 * weight;
        else if (contiguous || (a->constant && p->contraction)) cost += weight;
        else cost += weight * apart(p, a, number);
    }
    return cost;
}

static int best_lane(const Plan *p, uint64_t among)
{
    int best = -1;
    double least = 1e30;
    for (uint32_t i = p->naxis; i-- > 0;) {
        int number = range_number(p->axis[i]);
        int64_t n = p->axis[i]->src[0]->vmax;
        if (!(among >> number & 1) || n < 4) continue;
        double waste = (double)ceil_to(n, p->lanes) / (double)n, cost = lane_cost(p, number) * (waste > 1.5 ? waste : 1 + (waste - 1) / 2);
        if (cost < least) least = cost, best = number;
    }
    return best;
}

static double scalar_cost(const Plan *p)
{
    double cost = 0;
    for (uint32_t i = 0; i < p->naccess; i++) cost += !p->reduces || (p->access[i].ranges & p->reduces) ? 1 : p->contraction ? 0.02 : 0.3;
    return cost * p->lanes;
}

/* Lanes that each fetch for themselves save little where nothing is computed between, and are many times the text. */
static bool worth_lanes(const Plan *p, int lane) { return lane_cost(p, lane) + p->work < 0.55 * (scalar_cost(p) + p->work * p->lanes); }

/* Of a reduce axis: the widest power of two up to the lanes that divides n, or the lanes with padding where that is worth it: only the last round is gated (peel.c). */
static int64_t lane_width(const Plan *p, int64_t n)
{
    int64_t w = p->lanes;
    while (w > 1 && n % w) w /= 2;
    if (n < p->lanes / 2) return w;
    return ceil_to(n, p->lanes) * 4 <= n * 5 || (w * 2 < p->lanes && ceil_to(n, p->lanes) * 2 <= n * 3) ? p->lanes : w;
}

/* ---- threads ---- */

static double balance(int64_t n, int threads) { return (double)n / (double)(ceil_to(n, threads)) ; }

/* How far an index moves with a range, about: gates keep it inside at the ends only. */
static int64_t reach_of(const UOp *u, const UOp *range)
{
    if (u == range) return 1;
    if (!(u->ranges & range_bit(range))) return 0;
    if (u->op == UOP_MUL && uop_is_const(u->src[1])) return reach_of(u->src[0], range) * u->src[1]->arg.i;
    int64_t a = u->nsrc > 1 ? reach_of(u->src[u->nsrc - 2], range) : 0, b = u->nsrc > 1 ? reach_of(u->src[u->nsrc - 1], range) : 0;
    return u->op == UOP_ADD ? a + b : u->op == UOP_WHERE ? (a > b ? a : b) : 0;
}

/* The outermost axis in memory of what a kernel of constants reads (it runs once, and packs): a part of the loop then reads a part of the file. -1: the kernel reads more. */
static int farthest(const Plan *p)
{
    int number = -1;
    int64_t far = 0;
    for (uint32_t i = 0; i < p->naccess; i++) {
        const Access *a = &p->access[i];
        if (!a->store && !a->constant) return -1;
        for (uint32_t j = 0; j < p->naxis && !a->store; j++) {
            int64_t reach = reach_of(a->at, p->axis[j]);
            if (reach > far) far = reach, number = range_number(p->axis[j]);
        }
    }
    return number;
}

static void share(Plan *p, int first)
{
    const UOp *axis[64];
    uint32_t n = opt_axes(p->k, axis, 64);
    int best = -1;
    double score = 0.5;
    double work = (double)p->k->flops + (double)p->k->bytes;
    if (!p->t->has_threads || work < 20000) return;
    if (first < 0) first = farthest(p);
    for (uint32_t i = 0; i < n; i++) {
        if (range_type(axis[i]) != AXIS_LOOP || axis[i]->src[0]->vmax < 2) continue;
        if (p->rows && (p->outs & ~p->rows) >> range_number(axis[i]) & 1) continue;         /* outside of the rows it would repeat their statistics */
        double b = balance(axis[i]->src[0]->vmax, p->t->threads) + (range_number(axis[i]) == first ? 0.12 : 0) - 0.01 * i;
        if (b > score) score = b, best = range_number(axis[i]);
    }
    if (best < 0) return;
    move_first(p, best);
    int at = opt_axis(p->k, best);
    opt_axes(p->k, axis, 64);
    try_op(p, (OptOp){ .kind = OPT_SPLIT, .axis = (int8_t)at, .target = AXIS_THREAD, .factor = uop_is_const(axis[at]->src[0]) ? (int32_t)axis[at]->src[0]->vmax : 0 });
}

/* ---- contractions ---- */

typedef struct { int m; int64_t mr, nv; double score; bool pad_m; } Tile;

static int64_t registers(const Plan *p) { return p->t->vector_registers - 2; }

/* Share of the multiply-add peak that a tile reaches: loads, latency, padding. */
static double tile_score(const Plan *p, int64_t mr, int64_t nv, int64_t m, int64_t n)
{
    double fma = (double)(mr * nv), loads = (double)(mr + nv), cycles = fma / 2 > loads / 2 ? fma / 2 : loads / 2;
    double latency = fma >= 8 ? 1 : fma / 8, waste = (double)ceil_to(n, nv * p->lanes) / (double)n * (double)ceil_to(m, mr) / (double)m;
    return fma / 2 / (cycles + 0.6) * latency / waste;
}

/* Rows of a tile that lie multiples of a page apart share the sets of the first cache: more of them than it has ways, and each push out the others at every step. */
static bool crowded(const Plan *p, int lane, int number, int64_t mr)
{
    int64_t ways = p->t->l1_bytes / 4096;
    for (uint32_t i = 0; number >= 0 && i < p->naccess; i++) {
        const Access *a = &p->access[i];
        int64_t bytes = a->step[number] == NO_STEP ? 0 : a->step[number] * a->bytes, place = bytes & -bytes;
        if (a->store || !bytes || !(a->ranges & p->reduces) || (a->ranges >> lane & 1)) continue;
        int64_t places = place > 4096 ? 1 : place < 64 ? 64 : 4096 / place;
        if ((mr + places - 1) / places + 2 > ways) return true;
    }
    return false;
}

/* others: registers that hold neither accumulators nor vectors of the lane axis. */
static void consider(const Plan *p, Tile *best, int lane, int number, int64_t m, int64_t n, int64_t others)
{
    for (int64_t nv = 1; nv <= 8; nv++)
        for (int64_t mr = 1; mr <= 16 && mr <= m; mr++) {
            if (mr * nv + nv + others > registers(p) || (mr > 1 && nv > 4) || nv * p->lanes > ceil_to(n, p->lanes)) continue;
            double s = tile_score(p, mr, nv, m, n) * (crowded(p, lane, number, mr) ? 0.6 : 1);
            if (s > best->score + 1e-9) *best = (Tile){ number, mr, nv, s, false };
        }
}

/* Output axes on which some reduced operand that varies along the lanes does not depend. */
static bool tiles(const Plan *p, int number, int lane)
{
    for (uint32_t i = 0; i < p->naccess; i++) {
        const Access *a = &p->access[i];
        if (!a->store && (a->ranges & p->reduces) && (a->ranges >> lane & 1) && !(a->ranges >> number & 1)) return true;
    }
    return false;
}

static void weigh(const Plan *p, int lane, double *constant, double *other)
{
    *constant = *other = 0;
    for (uint32_t i = 0; i < p->naccess; i++) {
        const Access *a = &p->access[i];
        double bytes = a->bytes;
        for (uint32_t j = 0; j < p->naxis; j++)
            if (a->ranges & range_bit(p->axis[j])) bytes *= (double)p->axis[j]->src[0]->vmax;
        if (a->store || !(a->ranges & p->reduces)) continue;
        if (a->ranges >> lane & 1) *constant += bytes;
        else *other += bytes;
    }
}

static Tile best_tile(const Plan *p, int lane, int64_t others)
{
    Tile best = { -1, 1, 1, 0, false };
    int64_t n = size_of(p, lane);
    consider(p, &best, lane, -1, 1, n, others);
    for (uint32_t i = 0; i < p->nout; i++) {
        int number = range_number(p->axis[i]);
        if (number != lane && tiles(p, number, lane)) consider(p, &best, lane, number, p->axis[i]->src[0]->vmax, n, others);
    }
    return best;
}

static void contract(Plan *p, int lane)
{
    Tile best = best_tile(p, lane, 0);
    int64_t n = size_of(p, lane);
    double lane_bytes, other_bytes;
    weigh(p, lane, &lane_bytes, &other_bytes);
    lanes_of(p, lane, floor_power(n < p->lanes ? n : p->lanes), best.nv);
    if (best.nv > 1) split(p, lane, best.nv, AXIS_UPCAST);
    if (best.m >= 0 && best.mr > 1) split(p, best.m, best.mr, AXIS_UPCAST);
    uint64_t inside = 0;
    for (uint32_t i = 0; i < 64; i++)
        if ((int)i != lane && (!(p->outs >> i & 1) || tiles(p, (int)i, lane))) inside |= UINT64_C(1) << i;
    move_out(p, lane, inside);
    cut_sum(p->out, p->k, p->t, 512);
    share(p, lane_bytes > 512 << 10 || best.m < 0 ? lane : -1);
    pack_constants(p);
}

/* ---- tiles ---- */

typedef struct { int k, m, n; int32_t row; } TilePlan;

static void start_again(Plan *p, const Kernel *k)
{
    kernel_free(p->k);
    p->k = kernel_clone(k);
    p->out->count = 0;
    look(p);                                            /* what was seen lay in the copy before */
}

/* Can the operands of the TC be made? */
static bool is_fragmented(const Kernel *k)
{
    Kernel *trial = kernel_clone(k);
    bool good = kernel_fragments(trial) == TG_OK;
    kernel_free(trial);
    return good;
}

/* Two by two tiles of m and n where they are long enough; every window must be packed, or lie as it should. */
static bool try_tiles(Plan *p, const TilePlan *t)
{
    const Wmma *w = &wmma_row[t->row];
    int64_t m = size_of(p, t->m), n = size_of(p, t->n);
    if (m < w->m || n < w->n || size_of(p, t->k) % w->k) return false;
    if (!split(p, t->n, n >= 2 * w->n ? 2 * w->n : w->n, AXIS_UPCAST) || !split(p, t->m, m >= 2 * w->m ? 2 * w->m : w->m, AXIS_UPCAST)) return false;
    if (!try_op(p, (OptOp){ .kind = OPT_TC, .axis = (int8_t)opt_axis(p->k, t->k), .factor = t->row })) return false;
    if (opt_axis(p->k, t->n) >= 0) move_out(p, t->n, p->outs);
    share(p, t->n);
    pack_constants(p);
    return is_fragmented(p->k);
}

/* Sums of products that the device has a tile operation for. n is best where the store is contiguous. */
static bool tiles_of(Plan *p, const Kernel *k, int32_t row)
{
    for (uint32_t r = p->naxis; r-- > p->nout;)
        for (uint32_t n = p->nout; n-- > 0;)
            for (uint32_t m = p->nout; m-- > 0;) {
                TilePlan t = { range_number(p->axis[r]), range_number(p->axis[m]), range_number(p->axis[n]), row };
                if (m == n || !is_static(p, r) || !is_static(p, m) || !is_static(p, n)) continue;
                if (try_tiles(p, &t)) return true;
                start_again(p, k);
            }
    return false;
}

/* Of what is summed the constants vary along it, and nothing else. */
static bool is_of_constants(const Plan *p, int number)
{
    for (uint32_t i = 0; i < p->naccess; i++) {
        const Access *a = &p->access[i];
        if (!a->store && (a->ranges & p->reduces) && (a->ranges >> number & 1) != a->constant) return false;
    }
    return true;
}

/* Rows of vectors as in contract, each lane the dot product of neighbours along axis r. */
static bool try_dots(Plan *p, int r, int lane, int32_t row)
{
    const Wmma *w = &wmma_row[row];
    if (size_of(p, lane) < w->n || size_of(p, r) % w->k || !is_of_constants(p, lane)) return false;
    Tile best = best_tile(p, lane, DOT_OTHERS);
    if (!split(p, lane, w->n, AXIS_UPCAST)) return false;
    if (best.nv > 1) split(p, lane, best.nv, AXIS_UPCAST);
    if (best.m >= 0 && best.mr > 1) split(p, best.m, best.mr, AXIS_UPCAST);
    move_out(p, lane, p->outs);
    share(p, lane);
    if (!try_op(p, (OptOp){ .kind = OPT_TC, .axis = (int8_t)opt_axis(p->k, r), .factor = row })) return false;
    pack_constants(p);
    return is_fragmented(p->k);
}

static bool dots_of(Plan *p, const Kernel *k, int32_t row)
{
    for (uint32_t r = p->naxis; r-- > p->nout;)
        for (uint32_t n = p->nout; n-- > 0;) {
            if (is_static(p, r) && is_static(p, n) && try_dots(p, range_number(p->axis[r]), range_number(p->axis[n]), row)) return true;
            start_again(p, k);
        }
    return false;
}

static bool operations_of(Plan *p, const Kernel *k)
{
    for (int32_t row = 0; row < WMMA_COUNT; row++) {
        const Wmma *w = &wmma_row[row];
        if ((p->products != w->a && p->products != w->b) || !(p->t->wmma >> row & 1) || w->lanes > 1) continue;
        if (wmma_tiled(w) ? tiles_of(p, k, row) : dots_of(p, k, row)) return true;
    }
    return false;
}

/* Both operands run along the reduce: lanes there, a tile of output pairs. */
static void dot_products(Plan *p, int lane)
{
    int64_t left = 16;
    if (!padto(p, lane, lane_width(p, size_of(p, lane)))) return;
    split(p, lane, lane_width(p, size_now(p, lane)), AXIS_UNROLL);
    for (uint32_t i = p->nout; i-- > 0 && left > 1;)
        for (int64_t f = left >= 4 ? 4 : left; f > 1; f--)
            if (p->axis[i]->src[0]->vmax >= f && split(p, range_number(p->axis[i]), f, AXIS_UPCAST)) { left /= f; break; }
    share(p, -1);
    pack_constants(p);
}

/* ---- the others ---- */

/* Small windows disappear; long reduces keep their loop. */
static void unroll_small(Plan *p, int64_t most)
{
    for (uint32_t i = p->naxis; i-- > p->nout;) {
        int number = range_number(p->axis[i]);
        int64_t n = size_now(p, number);
        if (!is_static(p, i) || opt_axis(p->k, number) < 0 || n > most || n < 2) continue;
        if (split(p, number, n, AXIS_UNROLL)) most /= n;
    }
}

/* A short loop of the output on which short sums depend, though nothing does that they read: they differ in how many terms a mask lets through (running sums). -1: there is none. */
static int shares_terms(const Plan *p)
{
    int64_t terms = 1;
    for (uint32_t i = p->nout; i < p->naxis; i++) terms *= is_static(p, i) ? p->axis[i]->src[0]->vmax : SHORT + 1;
    for (uint32_t i = p->nout; p->reduces && terms <= SHORT && i-- > 0;) {
        int number = range_number(p->axis[i]);
        bool same = is_static(p, i) && p->axis[i]->src[0]->vmax <= SHORT && p->rows >> number & 1;
        for (uint32_t j = 0; j < p->naccess && same; j++)
            same = p->access[j].store || !(p->access[j].at->ranges & p->reduces) || !(p->access[j].at->ranges >> number & 1);
        if (same) return number;
    }
    return -1;
}

/* Rounds of a reduce that share a variable: all when they are few, else what divides them, so that the loop waits for one operation in several; 1: nothing good does. */
static int64_t rounds_together(const Plan *p, int64_t rounds)
{
    static const int8_t few[] = { 4, 5, 3, 6, 7, 2 };
    if (rounds <= WHOLE && rounds * p->work <= 512) return rounds;
    for (size_t i = 0; i < sizeof few; i++)
        if (rounds % few[i] == 0) return few[i];
    return 1;
}

static void reduce_lanes(Plan *p, int number)
{
    int64_t n = size_of(p, number), w = lane_width(p, n);
    bool odd = rounds_together(p, ceil_to(n, w) / w) < 3 && n >= 32 * w;
    if (w < 4 || !padto(p, number, odd ? 4 * w : w)) return;
    split(p, number, w, AXIS_UNROLL);
    if (opt_axis(p->k, number) >= 0 && !is_symbolic(p, number)) split(p, number, rounds_together(p, size_now(p, number)), AXIS_UNROLL);
}

static void lanes_on(Plan *p, int number, int64_t replicas)
{
    int64_t n = size_of(p, number), w = floor_power(n < p->lanes ? n : p->lanes);
    if (w < 4) return;
    lanes_of(p, number, w, 1);
    for (int64_t f = replicas; f > 1; f /= 2)
        if (opt_axis(p->k, number) >= 0 && divisor_now(p, number) % f == 0 && split(p, number, f, AXIS_UPCAST)) return;
}

/* Two or three rounds at once of an output loop on which most of what is loaded in lanes does not depend: tables of places and weights are then read once for several channels. */
static void share_loads(Plan *p, int lane)
{
    int best = -1, most = 1;
    for (uint32_t i = p->nout; i-- > 0;) {
        int number = range_number(p->axis[i]), loads = 0, same = 0;
        int64_t n = p->axis[i]->src[0]->vmax;
        for (uint32_t j = 0; j < p->naccess; j++) {
            const Access *a = &p->access[j];
            if (a->store || !(a->ranges >> lane & 1)) continue;
            loads++;
            same += !(a->ranges >> number & 1);
        }
        if (number != lane && is_static(p, i) && (n % 2 == 0 || n % 3 == 0) && same > most && 2 * same >= loads) best = number, most = same;
    }
    if (best >= 0) split(p, best, size_of(p, best) % 2 ? 3 : 2, AXIS_UPCAST);
}

/* That loop becomes replicas, so that each sum is another's and the terms that it has more (expand.c). */
static void running(Plan *p, int number)
{
    int lane = best_lane(p, p->outs & ~(UINT64_C(1) << number));
    unroll_small(p, SHORT);
    split(p, number, size_of(p, number), AXIS_UPCAST);
    if (lane >= 0 && worth_lanes(p, lane)) lanes_on(p, lane, 1);
}

/* A short row that is kept stays in registers: its loop has the rounds of the reduces, none is left. */
static bool whole_row(Plan *p, int number)
{
    int64_t n = size_of(p, number), w = lane_width(p, n);
    if (w < 4 || rounds_together(p, ceil_to(n, w) / w) * w < n || !padto(p, number, w)) return false;
    split(p, number, w, AXIS_UPCAST);
    if (opt_axis(p->k, number) >= 0) split(p, number, size_now(p, number), AXIS_UPCAST);
    return true;
}

/* Reduce axes along which loads are contiguous, each in its own loop (row statistics), and the output axis beside them. */
static void statistics(Plan *p, uint64_t rows)
{
    for (uint32_t i = p->nout; i < p->naxis; i++) {
        bool contiguous = false;
        for (uint32_t j = 0; j < p->naccess; j++) contiguous |= p->access[j].step[range_number(p->axis[i])] == 1;
        if (contiguous) reduce_lanes(p, range_number(p->axis[i]));
    }
    int lane = best_lane(p, p->outs & ~rows);
    if (lane >= 0 && !(p->kept && whole_row(p, lane))) lanes_on(p, lane, 2);
}

/* A row axis along which everything lies side by side, does not change, or is a constant that can be packed: its lanes serve the statistic and the loops behind it. */
static int row_lane(const Plan *p, uint64_t rows)
{
    for (uint32_t i = p->nout; i-- > 0;) {
        int number = range_number(p->axis[i]);
        bool fits = (rows >> number & 1) && is_static(p, i) && p->axis[i]->src[0]->vmax >= p->lanes;
        for (uint32_t j = 0; j < p->naccess && fits; j++) {
            const Access *a = &p->access[j];
            fits = !(a->ranges >> number & 1) || a->step[number] == 1 || (a->constant && (a->ranges & p->reduces));
        }
        if (fits) return number;
    }
    return -1;
}

/* Outer ranges on which every reduce depends, when some loop of the output lies inside of that. */
static uint64_t row_ranges(const Plan *p)
{
    Arena *a = arena_new();
    uint32_t n;
    uint64_t rows = p->outs;
    const UOp **order = uop_toposort(p->k->g, &p->k->root, 1, a, &n);
    for (uint32_t i = 0; i < n; i++)
        if (order[i]->op == UOP_REDUCE) rows &= order[i]->ranges | p->reduces;
    arena_free(a);
    return rows & p->outs;
}

/* What a reduce's loop computes and a later one needs again. */
static void keep_rows(Plan *p)
{
    for (uint32_t i = p->nout; i < p->naxis; i++) p->kept |= try_op(p, (OptOp){ .kind = OPT_KEEP, .axis = (int8_t)i });
}

static void cpu(Plan *p, const Kernel *k)
{
    uint64_t rows = p->rows = p->reduces ? row_ranges(p) : p->outs;
    int out = best_lane(p, p->outs), reduce = best_lane(p, p->reduces);
    if (p->contraction) {
        if (operations_of(p, k)) return;
        if (out >= 0 && (reduce < 0 || lane_cost(p, out) <= 1.5 * lane_cost(p, reduce))) contract(p, out);
        else if (reduce >= 0 && lane_cost(p, reduce) < scalar_cost(p)) dot_products(p, reduce);
        else share(p, -1);
        return;
    }
    if (p->reduces && rows != p->outs) keep_rows(p);
    int row = p->reduces && rows != p->outs ? row_lane(p, rows) : -1;
    int same = shares_terms(p);
    if (same >= 0) running(p, same);
    else if (row >= 0) lanes_on(p, row, 2);
    else if (p->reduces && rows != p->outs) statistics(p, rows);
    else if (p->reduces && reduce >= 0 && (out < 0 || lane_cost(p, reduce) < lane_cost(p, out))) reduce_lanes(p, reduce);
    else if (out >= 0 && worth_lanes(p, out)) {
        unroll_small(p, SHORT);
        lanes_on(p, out, p->reduces ? 4 : 1);
        if (!p->reduces) share_loads(p, out);
    } else unroll_small(p, SHORT);
    share(p, -1);
    pack_constants(p);
}

void heuristic_opts(OptList *out, const Kernel *k, const Target *t)
{
    if (t->max_block) {
        gpu_opts(out, k, t);
        return;
    }
    Plan *p = calloc(1, sizeof *p);
    out->count = 0;
    p->k = kernel_clone(k);
    p->t = t;
    p->out = out;
    p->lanes = t->vector_bytes / 4 > 1 ? t->vector_bytes / 4 : 1;
    look(p);
    if (!strcmp(t->kind, "cpu") && p->nout + 0 < 60) cpu(p, k);
    kernel_free(p->k);
    free(p);
    status_clear();
}
