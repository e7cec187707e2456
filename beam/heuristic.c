/* Heuristics: a good list of OptOps at once, from the kernel's accesses and the device's registers. Nothing here knows an operator.
 *
 * CPU. A vector axis is chosen by what each access costs along it (contiguous: one vector; constant: one, because it will be packed; not depending: a broadcast; else a gather). A
 * contraction then gets a tile of MR x NV vector accumulators: NV along the vector axis, MR along an output axis on which the vector operand does not depend, as many as the
 * registers hold, with the least padding. Other kernels get lanes and a few replicas; row statistics get lanes along their reduce and along their output. Constants that
 * vary along the lanes are packed. The outermost loop that balances is shared among threads.
 */
#include <string.h>

#include "beam/beam.h"
#include "beam/cost.h"
#include "beam/trial.h"
#include "graph/wmma.h"

/* SHORT: reduces that are unrolled whole; DOT_OTHERS: of a dot product, which takes its other operand in a register; PLACES: addresses that stay in registers; CHOICES: pairs of axes of a TC
 * that are tried; COPIES: of what is stored several times; SHORT_SUM: terms; TABLE_MAX: places of a table that are unrolled. */
enum { WHOLE = 16, SHORT = 27, DOT_OTHERS = 4, PLACES = 12, CHOICES = 8, COPIES = 4, SHORT_SUM = 128, TABLE_MAX = 9, OTHERS = 4 };

/* ---- ops ---- */

static bool split(Trial *p, int number, int64_t factor, AxisType target) { return trial_split(p, number, factor, target, false); }

/* What divides what is left of a loop: its length where that is known. */
static int64_t divisor_now(const Trial *p, int number)
{
    const UOp *axis[64];
    int at = opt_axis(p->k, number);
    opt_axes(p->k, axis, 64);
    return at < 0 ? 1 : index_divisor(axis[at]->src[0]);
}

static bool padto(Trial *p, int number, int64_t multiple)
{
    int at = opt_axis(p->k, number);
    if (at < 0 || divisor_now(p, number) % multiple == 0) return at >= 0;
    return trial_op(p, (OptOp){ .kind = OPT_PADTO, .axis = (int8_t)at, .factor = (int32_t)multiple });
}

/* Lanes on a loop of the output; one of symbolic size gets as many more rounds as make it whole, whose elements are gated. */
static bool lanes_of(Trial *p, int number, int64_t lanes, int64_t together)
{
    return (!is_symbolic(p, number) || padto(p, number, lanes * together)) && split(p, number, lanes, AXIS_UPCAST);
}

static void move_first(Trial *p, int number)
{
    for (int at = opt_axis(p->k, number); at > 0; at--)
        if (!trial_op(p, (OptOp){ .kind = OPT_SWAP, .axis = (int8_t)at, .factor = at - 1 })) return;
}

/* Moves an output loop outwards past those in `past`. */
static void move_out(Trial *p, int number, uint64_t past)
{
    const UOp *axis[64];
    for (int at = opt_axis(p->k, number); at > 0; at--) {
        opt_axes(p->k, axis, 64);
        if (!(past & range_bit(axis[at - 1])) || !trial_op(p, (OptOp){ .kind = OPT_SWAP, .axis = (int8_t)at, .factor = at - 1 })) return;
    }
}

static int64_t floor_power(int64_t n)
{
    int64_t w = 1;
    while (w * 2 <= n) w *= 2;
    return w;
}

/* ---- vector axis ---- */

/* Lanes that lie multiples of a page apart share the sets of a cache, which holds fewer than there are lanes: each access misses. Loaded places are gathered at once. */
static double apart(const Trial *p, const Access *a, int number)
{
    int64_t step = a->step[number];
    if (!a->store && a->bytes >= 4 && (a->placed >> number & 1)) return 0.6 * p->lanes;
    return step != NO_STEP && step && step * a->bytes % 4096 == 0 ? 3.0 * p->lanes : p->lanes;
}

/* Cost of one inner iteration's accesses when this axis is in lanes, in vector instructions; scalar code costs one a lane. */
static double lane_cost(const Trial *p, int number)
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

/* With what the last vector wastes. */
static double whole_cost(const Trial *p, int number)
{
    double n = (double)p->size[number], waste = (double)ceil_to(p->size[number], p->lanes) / n;
    return lane_cost(p, number) * (waste > 1.5 ? waste : 1 + (waste - 1) / 2);
}

static int best_lane(const Trial *p, uint64_t among)
{
    int best = -1;
    double least = 1e30;
    for (uint32_t i = p->naxis; i-- > 0;) {
        int number = p->number[i];
        if (!(among >> number & 1) || p->size[number] < 4) continue;
        double cost = whole_cost(p, number);
        if (cost < least) least = cost, best = number;
    }
    return best;
}

static double scalar_cost(const Trial *p)
{
    double cost = 0;
    for (uint32_t i = 0; i < p->naccess; i++) cost += !p->reduces || (p->access[i].ranges & p->reduces) ? 1 : p->contraction ? 0.02 : 0.3;
    return cost * p->lanes;
}

/* Lanes that each fetch for themselves save little where nothing is computed between, and are many times the text. */
static bool worth_lanes(const Trial *p, int lane) { return lane_cost(p, lane) + p->work < 0.55 * (scalar_cost(p) + p->work * p->lanes); }

/* Of a reduce axis: the widest power of two up to the lanes that divides n, or the lanes with padding where that is worth it: only the last round is gated (peel.c). */
static int64_t lane_width(const Trial *p, int64_t n)
{
    int64_t w = p->lanes;
    while (w > 1 && n % w) w /= 2;
    if (n < p->lanes / 2) return w;
    return ceil_to(n, p->lanes) * 4 <= n * 5 || (w * 2 < p->lanes && ceil_to(n, p->lanes) * 2 <= n * 3) ? p->lanes : w;
}

/* Are lanes along the reduce better than along the output? At the end of each sum they meet, which few rounds do not pay for. */
static bool sums_in_lanes(const Trial *p, int reduce, int out)
{
    double rounds = 1, width = (double)lane_width(p, p->size[reduce]);
    for (uint32_t i = p->nout; i < p->naxis; i++) rounds *= (double)p->size[p->number[i]];
    if (width < 4) return false;
    return out < 0 || whole_cost(p, reduce) + width / 4 * width / rounds < whole_cost(p, out);
}

/* ---- threads ---- */

static double balance(int64_t n, int threads) { return (double)n / (double)(ceil_to(n, threads)) ; }

/* How far an index moves with a range, about: gates keep it inside at the ends only. */
static int64_t reach_of(const UOp *u, int number)
{
    if (!(u->ranges >> number & 1)) return 0;
    if (u->op == UOP_RANGE) return 1;
    if (u->op == UOP_MUL && uop_is_const(u->src[1])) return reach_of(u->src[0], number) * u->src[1]->arg.i;
    int64_t a = u->nsrc > 1 ? reach_of(u->src[u->nsrc - 2], number) : 0, b = u->nsrc > 1 ? reach_of(u->src[u->nsrc - 1], number) : 0;
    return u->op == UOP_ADD ? a + b : u->op == UOP_WHERE ? (a > b ? a : b) : 0;
}

/* The outermost axis in memory of what a kernel of constants reads (it runs once, and packs): a part of the loop then reads a part of the file. -1: the kernel reads more. */
static int farthest(const Trial *p)
{
    int number = -1;
    int64_t far = 0;
    for (uint32_t i = 0; i < p->naccess; i++) {
        const Access *a = &p->access[i];
        if (!a->store && !a->constant) return -1;
        for (uint32_t j = 0; j < p->naxis && !a->store; j++) {
            int64_t reach = reach_of(a->at, p->number[j]);
            if (reach > far) far = reach, number = p->number[j];
        }
    }
    return number;
}

static void share(Trial *p, int first)
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
    trial_op(p, (OptOp){ .kind = OPT_SPLIT, .axis = (int8_t)at, .target = AXIS_THREAD, .factor = uop_is_const(axis[at]->src[0]) ? (int32_t)axis[at]->src[0]->vmax : 0 });
}

/* ---- contractions ---- */

typedef struct { int m; int64_t mr, nv; double score; bool pad_m; } Tile;

static int64_t registers(const Trial *p) { return p->t->vector_registers - 2; }

/* Share of the multiply-add peak that a tile reaches: loads, latency, padding. */
static double tile_score(const Trial *p, int64_t mr, int64_t nv, int64_t m, int64_t n)
{
    double fma = (double)(mr * nv), loads = (double)(mr + nv), cycles = fma / 2 > loads / 2 ? fma / 2 : loads / 2;
    double latency = fma >= 8 ? 1 : fma / 8, waste = (double)ceil_to(n, nv * p->lanes) / (double)n * (double)ceil_to(m, mr) / (double)m;
    return fma / 2 / (cycles + 0.6) * latency / waste;
}

/* Rows of a tile that lie multiples of a page apart share the sets of the first cache: more of them than it has ways, and each push out the others at every step. */
static bool crowded(const Trial *p, int lane, int number, int64_t mr)
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

/* Rows of a tile that lie a symbolic size apart, or that are as many as a symbolic size allows: each needs a register for its place. */
static bool scattered(const Trial *p, int number)
{
    bool any = number >= 0 && is_symbolic(p, number);
    for (uint32_t i = 0; number >= 0 && i < p->naccess; i++) any |= !p->access[i].store && (p->access[i].ranges & p->reduces) && (p->access[i].scattered >> number & 1);
    return any;
}

/* others: registers that hold neither accumulators nor vectors of the lane axis. */
static void consider(const Trial *p, Tile *best, int lane, int number, int64_t m, int64_t n, int64_t others)
{
    for (int64_t nv = 1; nv <= 8; nv++)
        for (int64_t mr = 1; mr <= 16 && mr <= m; mr++) {
            if (mr * nv + nv + others > registers(p) || (mr > 1 && nv > 4) || nv * p->lanes > ceil_to(n, p->lanes)) continue;
            double s = tile_score(p, mr, nv, m, n) * (crowded(p, lane, number, mr) ? 0.6 : 1) * (mr > PLACES && scattered(p, number) ? 0.8 : 1);
            if (s > best->score + 1e-9) *best = (Tile){ number, mr, nv, s, false };
        }
}

static void weigh(const Trial *p, int lane, double *constant, double *other)
{
    *constant = *other = 0;
    for (uint32_t i = 0; i < p->naccess; i++) {
        const Access *a = &p->access[i];
        double bytes = a->bytes;
        for (uint32_t j = 0; j < p->naxis; j++)
            if (a->ranges >> p->number[j] & 1) bytes *= (double)p->size[p->number[j]];
        if (a->store || !(a->ranges & p->reduces)) continue;
        if (a->ranges >> lane & 1) *constant += bytes;
        else *other += bytes;
    }
}

static Tile best_tile(const Trial *p, int lane, int64_t others)
{
    Tile best = { -1, 1, 1, 0, false };
    int64_t n = p->size[lane];
    consider(p, &best, lane, -1, 1, n, others);
    for (uint32_t i = 0; i < p->nout; i++) {
        int number = p->number[i];
        if (number != lane && trial_shares(p, number, lane)) consider(p, &best, lane, number, p->size[number], n, others);
    }
    return best;
}

/* Axes on which all that is summed depends. */
static uint64_t batch_of(const Trial *p)
{
    uint64_t batch = p->outs;
    for (uint32_t i = 0; i < p->naccess; i++)
        if (!p->access[i].store && (p->access[i].ranges & p->reduces)) batch &= p->access[i].ranges;
    return batch;
}

/* A short loop of the sum along which a constant that varies with the others does not: parts of it (four bits of a byte), which are then known ones. */
static void unroll_parts(Trial *p)
{
    for (uint32_t r = p->nout; r < p->naxis; r++) {
        int number = p->number[r];
        bool part = false;
        for (uint32_t i = 0; i < p->naccess; i++) {
            const Access *a = &p->access[i];
            part |= a->constant && a->bytes == 1 && (a->ranges & p->reduces) && !(a->ranges >> number & 1);
        }
        if (part && p->size[number] <= LANE_TURNS && !is_symbolic(p, number)) split(p, number, p->size[number], AXIS_UNROLL);
    }
}

/* Lanes of a short axis: all of it at once, with a few that compute nothing, where the largest power of two below it would go over everything twice. */
static int64_t lanes_of_short(Trial *p, int lane, int64_t n)
{
    int64_t below = floor_power(n), above = below == n ? n : 2 * below;
    return above <= p->lanes && 5 * above <= 8 * n && !is_symbolic(p, lane) && padto(p, lane, above) ? above : below;
}

static void contract(Trial *p, int lane)
{
    Tile best = best_tile(p, lane, 0);
    int64_t n = p->size[lane];
    double lane_bytes, other_bytes;
    weigh(p, lane, &lane_bytes, &other_bytes);
    lanes_of(p, lane, n < p->lanes ? lanes_of_short(p, lane, n) : p->lanes, best.nv);
    if (best.nv > 1) split(p, lane, best.nv, AXIS_UPCAST);
    if (best.m >= 0 && best.mr > 1) split(p, best.m, best.mr, AXIS_UPCAST);
    uint64_t inside = 0;
    for (uint32_t i = 0; i < 64; i++)
        if ((int)i != lane && (!(p->outs >> i & 1) || trial_shares(p, (int)i, lane))) inside |= UINT64_C(1) << i;
    if (!batch_of(p) || p->reduced > SHORT_SUM) move_out(p, lane, inside);                  /* short sums wait for what they store: row by row */
    unroll_parts(p);
    cut_sum(p->out, p->k, p->t, 512);
    share(p, !batch_of(p) && (lane_bytes > 512 << 10 || best.m < 0) ? lane : -1);           /* of a batch each thread takes some whole */
    trial_pack(p);
}

/* ---- tiles ---- */

typedef struct { int k, m, n; int32_t row; } TilePlan;

/* Can the operands of the TC be made? */
static bool is_fragmented(const Kernel *k)
{
    Kernel *trial = kernel_clone(k);
    bool good = kernel_fragments(trial) == TG_OK;
    kernel_free(trial);
    return good;
}

/* Rows of a tile, and how many tiles beside each other, that cover m with the least work: an operation takes as many steps as rows, and some to load what it takes of B. */
static int64_t rows_of(int64_t m, const Wmma *w, int64_t *tiles)
{
    int64_t best = 0;
    double least = 0;
    for (int64_t n = 1; n <= 2; n++)
        for (int64_t rows = WMMA_ROWS; rows <= w->m && n * rows <= m; rows++) {
            double cost = (double)ceil_to(m, n * rows) / (double)(n * rows) * (double)n * ((double)rows + (n > 1 ? 4 : 8));
            if (!best || cost <= least) best = rows, *tiles = n, least = cost;
        }
    return best;
}

/* Of what is summed the constants vary along it, and nothing else. */
static bool is_of_constants(const Trial *p, int number)
{
    for (uint32_t i = 0; i < p->naccess; i++) {
        const Access *a = &p->access[i];
        if (!a->store && (a->ranges & p->reduces) && (a->ranges >> number & 1) != a->constant) return false;
    }
    return true;
}

/* Some constant that is summed varies along it. */
static bool meets_constants(const Trial *p, int number)
{
    bool meets = false;
    for (uint32_t i = 0; i < p->naccess; i++) meets |= p->access[i].constant && (p->access[i].ranges & p->reduces) && p->access[i].ranges >> number & 1;
    return meets;
}

/* What is summed varies with m or with n, some of it with each, constants with n. */
static bool separates(const Trial *p, int m, int n)
{
    bool with_m = false, with_n = false;
    for (uint32_t i = 0; i < p->naccess; i++) {
        const Access *a = &p->access[i];
        bool one = a->ranges >> m & 1, two = a->ranges >> n & 1;
        if (a->store || !(a->ranges & p->reduces)) continue;
        if ((one && two) || (one && a->constant)) return false;
        with_m |= one;
        with_n |= two;
    }
    return with_m && with_n;
}

/* Where m makes one tile only, two of another axis on which no constant depends share what is loaded of B. */
static void second_row(Trial *p, const TilePlan *t)
{
    for (uint32_t i = p->nout; i-- > 0;) {
        int other = p->number[i];
        if (other != t->m && other != t->n && p->size[other] > 1 && !meets_constants(p, other) && split(p, other, 2, AXIS_UPCAST)) return;
    }
}

/* The pair of axes that TC takes when it takes m and n: which operand is whose, it says itself. */
static bool try_tc(Trial *p, const TilePlan *t)
{
    for (int32_t choice = 0; choice < CHOICES; choice++)
        if (trial_op(p, (OptOp){ .kind = OPT_TC, .axis = (int8_t)opt_axis(p->k, t->k), .factor = t->row + 16 * choice })) return true;
    return false;
}

/* A short loop of the sum that finds its places by a table (which parts of two numbers are multiplied): they become known ones. */
static void unroll_tables(Trial *p)
{
    for (uint32_t r = p->nout; r < p->naxis; r++) {
        int number = p->number[r];
        bool table = false;
        for (uint32_t i = 0; i < p->naccess; i++) table |= (p->access[i].ranges >> number & 1) && p->access[i].step[number] == NO_STEP;
        if (table && p->size[number] <= TABLE_MAX && !is_symbolic(p, number)) split(p, number, p->size[number], AXIS_UNROLL);
    }
}

/* Two by two tiles of m and n where they are long enough; every window must be packed, or lie as it should. */
static bool try_tiles(Trial *p, const TilePlan *t)
{
    const Wmma *w = &wmma_row[t->row];
    int64_t n = p->size[t->n], tiles = 1, rows = rows_of(p->size[t->m], w, &tiles);
    if (!rows || n < w->n || p->size[t->k] % w->k) return false;
    if (!split(p, t->n, ceil_to(n, 2 * w->n) * 4 <= ceil_to(n, w->n) * 5 ? 2 * w->n : w->n, AXIS_UPCAST) || !split(p, t->m, rows * tiles, AXIS_UPCAST)) return false;
    if (tiles == 1) second_row(p, t);
    unroll_tables(p);
    if (!try_tc(p, t)) return false;
    uint64_t batch = batch_of(p);
    if (opt_axis(p->k, t->n) >= 0) move_out(p, t->n, p->outs & ~batch);
    share(p, batch ? -1 : t->n);
    trial_pack(p);
    return is_fragmented(p->k);
}

/* Sums of products that the device has a tile operation for. n is best where the store is contiguous. */
static bool tiles_of(Trial *p, const Kernel *k, int32_t row)
{
    for (uint32_t r = p->naxis; r-- > p->nout;)
        for (uint32_t n = p->nout; n-- > 0;)
            for (uint32_t m = p->nout; m-- > 0;) {
                TilePlan t = { p->number[r], p->number[m], p->number[n], row };
                if (m == n || is_symbolic(p, t.k) || is_symbolic(p, t.m) || is_symbolic(p, t.n) || !separates(p, t.m, t.n)) continue;
                if (try_tiles(p, &t)) return true;
                trial_again(p, k);
            }
    return false;
}

/* Rows of vectors as in contract, each lane the dot product of neighbours along axis r. */
static bool try_dots(Trial *p, int r, int lane, int32_t row)
{
    const Wmma *w = &wmma_row[row];
    if (p->size[lane] < w->n || p->size[r] % w->k || !is_of_constants(p, lane)) return false;
    Tile best = best_tile(p, lane, DOT_OTHERS);
    if (!split(p, lane, w->n, AXIS_UPCAST)) return false;
    if (best.nv > 1) split(p, lane, best.nv, AXIS_UPCAST);
    if (best.m >= 0 && best.mr > 1) split(p, best.m, best.mr, AXIS_UPCAST);
    move_out(p, lane, p->outs);
    share(p, lane);
    if (!trial_op(p, (OptOp){ .kind = OPT_TC, .axis = (int8_t)opt_axis(p->k, r), .factor = row })) return false;
    trial_pack(p);
    return is_fragmented(p->k);
}

static bool dots_of(Trial *p, const Kernel *k, int32_t row)
{
    for (uint32_t r = p->naxis; r-- > p->nout;)
        for (uint32_t n = p->nout; n-- > 0;) {
            if (!is_symbolic(p, p->number[r]) && !is_symbolic(p, p->number[n]) && try_dots(p, p->number[r], p->number[n], row)) return true;
            trial_again(p, k);
        }
    return false;
}

/* Tiles first: they do the most at once. */
static bool operations_of(Trial *p, const Kernel *k)
{
    for (int tiled = 1; tiled >= 0; tiled--)
        for (int32_t row = 0; row < WMMA_COUNT; row++) {
            const Wmma *w = &wmma_row[row];
            if ((p->products != w->a && p->products != w->b) || !(p->t->wmma >> row & 1) || w->lanes > 1 || wmma_tiled(w) != tiled) continue;
            if (tiled ? tiles_of(p, k, row) : dots_of(p, k, row)) return true;
        }
    return false;
}

/* Both operands run along the reduce: lanes there, a tile of output pairs. */
static void dot_products(Trial *p, int lane)
{
    int64_t left = 16;
    if (!padto(p, lane, lane_width(p, p->size[lane]))) return;
    split(p, lane, lane_width(p, trial_size(p, lane)), AXIS_UNROLL);
    for (uint32_t i = p->nout; i-- > 0 && left > 1;)
        for (int64_t f = left >= 4 ? 4 : left; f > 1; f--)
            if (p->size[p->number[i]] >= f && split(p, p->number[i], f, AXIS_UPCAST)) { left /= f; break; }
    share(p, -1);
    trial_pack(p);
}

/* ---- the others ---- */

/* Small windows disappear; long reduces keep their loop. */
static void unroll_small(Trial *p, int64_t most)
{
    for (uint32_t i = p->naxis; i-- > p->nout;) {
        int number = p->number[i];
        int64_t n = trial_size(p, number);
        if (is_symbolic(p, number) || opt_axis(p->k, number) < 0 || n > most || n < 2) continue;
        if (split(p, number, n, AXIS_UNROLL)) most /= n;
    }
}

/* A short loop of the output on which short sums depend, though nothing does that they read: they differ in how many terms a mask lets through (running sums). -1: there is none. */
static int shares_terms(const Trial *p)
{
    int64_t terms = 1;
    for (uint32_t i = p->nout; i < p->naxis; i++) terms *= is_symbolic(p, p->number[i]) ? SHORT + 1 : p->size[p->number[i]];
    for (uint32_t i = p->nout; p->reduces && terms <= SHORT && i-- > 0;) {
        int number = p->number[i];
        bool same = !is_symbolic(p, number) && p->size[number] <= SHORT && p->rows >> number & 1;
        for (uint32_t j = 0; j < p->naccess && same; j++)
            same = p->access[j].store || !(p->access[j].at->ranges & p->reduces) || !(p->access[j].at->ranges >> number & 1);
        if (same) return number;
    }
    return -1;
}

/* Rounds of a reduce that share a variable: all when they are few, else what divides them, so that the loop waits for one operation in several; 1: nothing good does. */
static int64_t rounds_together(const Trial *p, int64_t rounds)
{
    static const int8_t few[] = { 4, 5, 3, 6, 7, 2 };
    if (rounds <= WHOLE && rounds * p->work <= 512) return rounds;
    for (size_t i = 0; i < sizeof few; i++)
        if (rounds % few[i] == 0) return few[i];
    return 1;
}

/* single: one vector at a time, of long formulas. */
static void reduce_lanes(Trial *p, int number, bool single)
{
    int64_t n = p->size[number], w = lane_width(p, n);
    bool odd = rounds_together(p, ceil_to(n, w) / w) < 3 && n >= 32 * w;
    if (w < 4 || !padto(p, number, odd && !single ? 4 * w : w)) return;
    split(p, number, w, AXIS_UNROLL);
    if (!single && opt_axis(p->k, number) >= 0 && !is_symbolic(p, number)) split(p, number, rounds_together(p, trial_size(p, number)), AXIS_UNROLL);
}

static void lanes_on(Trial *p, int number, int64_t replicas)
{
    int64_t n = p->size[number], w = floor_power(n < p->lanes ? n : p->lanes);
    if (w < 4) return;
    lanes_of(p, number, w, 1);
    for (int64_t f = replicas; f > 1; f /= 2)
        if (opt_axis(p->k, number) >= 0 && divisor_now(p, number) % f == 0 && split(p, number, f, AXIS_UPCAST)) return;
}

/* What is moved between the lanes of one loop and the rounds of another: a square of both where each has enough, else few rounds that lie between the lanes in memory. */
typedef struct { int lane, row; int64_t lanes, rows; } Block;

static int64_t lanes_of_all(const Trial *p, int number)
{
    int64_t n = p->size[number] < p->lanes ? p->size[number] : p->lanes;
    for (uint32_t i = 0; i < p->naccess; i++)
        if (n * p->access[i].bytes > p->t->vector_bytes) n = p->t->vector_bytes / p->access[i].bytes;
    return floor_power(n);
}

/* Is something loaded side by side along the row and apart along the lanes, and all stored side by side along the lanes? Or is what lies side by side along the lanes stored in turns? Two
 * squares at once are more than the registers hold. */
static bool is_block(const Trial *p, Block *b)
{
    int64_t few = p->size[b->row];
    bool side = true, load_turns = few <= LANE_TURNS, store_turns = load_turns, along = false;
    int apart = 0, rows = 0;
    for (uint32_t i = 0; i < p->naccess; i++) {
        const Access *a = &p->access[i];
        int64_t lane = a->step[b->lane];
        bool row = a->step[b->row] == 1 && !a->gated;
        if (a->store) side &= lane == 1, store_turns &= row && lane == few;
        else if (lane == 1) along = true;
        else if (a->ranges >> b->lane & 1) apart++, rows += row, load_turns &= row && lane == few;
    }
    b->rows = few <= LANE_TURNS ? few : b->lanes;
    return (side && rows && (load_turns || (rows == 1 && few >= b->lanes))) || (store_turns && along && !apart);
}

static bool move_block(Trial *p)
{
    if (p->reduces || farthest(p) >= 0) return false;
    for (uint32_t i = p->nout; i-- > 0;)
        for (uint32_t j = p->nout; j-- > 0;) {
            Block b = { .lane = p->number[i], .row = p->number[j], .lanes = lanes_of_all(p, p->number[i]) };
            if (p->size[b.row] > LANE_TURNS && p->size[b.row] < b.lanes) b.lanes = floor_power(p->size[b.row]);
            if (i == j || is_symbolic(p, b.lane) || is_symbolic(p, b.row) || b.lanes < 4 || p->size[b.row] < 2 || !is_block(p, &b)) continue;
            split(p, b.lane, b.lanes, AXIS_UPCAST);
            split(p, b.row, b.rows, AXIS_UPCAST);
            return true;
        }
    return false;
}

/* What is stored a few times of the same loads is computed once: a short loop on which nothing that is loaded depends, or hardly anything, is unrolled. */
static void compute_once(Trial *p)
{
    for (uint32_t i = 0; i < p->nout; i++) {
        int number = p->number[i];
        bool few = !is_symbolic(p, number) && p->size[number] <= COPIES;
        uint32_t loads = 0, others = 0;
        for (uint32_t j = 0; j < p->naccess; j++) {
            if (p->access[j].store) continue;
            loads++;
            others += p->access[j].ranges >> number & 1;
        }
        if (few && loads && OTHERS * others <= loads) split(p, number, p->size[number], AXIS_UPCAST);
    }
}

/* Two or three rounds at once of an output loop on which most of what is loaded in lanes does not depend: tables of places and weights are then read once for several channels. */
static void share_loads(Trial *p, int lane)
{
    int best = -1, most = 1;
    for (uint32_t i = p->nout; i-- > 0;) {
        int number = p->number[i], loads = 0, same = 0;
        int64_t n = p->size[number];
        for (uint32_t j = 0; j < p->naccess; j++) {
            const Access *a = &p->access[j];
            if (a->store || !(a->ranges >> lane & 1)) continue;
            loads++;
            same += !(a->ranges >> number & 1);
        }
        if (number != lane && !is_symbolic(p, number) && (n % 2 == 0 || n % 3 == 0) && same > most && 2 * same >= loads) best = number, most = same;
    }
    if (best >= 0) split(p, best, p->size[best] % 2 ? 3 : 2, AXIS_UPCAST);
}

/* Are rounds stored multiples of a page apart? Then each is a stream that wants more than a line at a time. */
static bool pages_apart(const Trial *p, int number)
{
    for (uint32_t i = 0; i < p->naccess; i++) {
        const Access *a = &p->access[i];
        if (a->store && a->step[number] != NO_STEP && a->step[number] * a->bytes % 4096 == 0) return true;
    }
    return false;
}

/* That loop becomes replicas, so that each sum is another's and the terms that it has more (expand.c). */
static void running(Trial *p, int number)
{
    int lane = best_lane(p, p->outs & ~(UINT64_C(1) << number));
    unroll_small(p, SHORT);
    split(p, number, p->size[number], AXIS_UPCAST);
    if (lane >= 0 && worth_lanes(p, lane)) lanes_on(p, lane, pages_apart(p, number) ? 4 : 1);
}

/* A short row that is kept stays in registers: its loop has the rounds of the reduces, none is left. */
static bool whole_row(Trial *p, int number)
{
    int64_t n = p->size[number], w = lane_width(p, n);
    if (w < 4 || rounds_together(p, ceil_to(n, w) / w) * w < n || !padto(p, number, w)) return false;
    split(p, number, w, AXIS_UPCAST);
    if (opt_axis(p->k, number) >= 0) split(p, number, trial_size(p, number), AXIS_UPCAST);
    return true;
}

/* Reduce axes along which loads are contiguous, or all, each in its own loop (row statistics), and the output axis beside them. */
static void statistics(Trial *p, bool kept, bool all, bool single)
{
    for (uint32_t i = p->nout; i < p->naxis; i++) {
        bool contiguous = all;
        for (uint32_t j = 0; j < p->naccess; j++) contiguous |= p->access[j].step[p->number[i]] == 1;
        if (contiguous) reduce_lanes(p, p->number[i], single);
    }
    int lane = best_lane(p, p->outs & ~p->rows);
    if (lane >= 0 && !(kept && whole_row(p, lane))) lanes_on(p, lane, 2);
}

/* A row axis along which everything lies side by side, does not change, or is a constant that can be packed: its lanes serve the statistic and the loops behind it. */
static int row_lane(const Trial *p)
{
    for (uint32_t i = p->nout; i-- > 0;) {
        int number = p->number[i];
        bool fits = (p->rows >> number & 1) && !is_symbolic(p, number) && p->size[number] >= p->lanes;
        for (uint32_t j = 0; j < p->naccess && fits; j++) {
            const Access *a = &p->access[j];
            fits = !(a->ranges >> number & 1) || a->step[number] == 1 || (a->constant && (a->ranges & p->reduces));
        }
        if (fits) return number;
    }
    return -1;
}

/* Loops on which a row's statistics depend go outside of those on which they do not: else a statistic is computed again for each of their iterations. false: they are there already. */
static bool rows_first(Trial *p)
{
    uint64_t behind = p->outs & ~p->rows;
    uint32_t before = p->out->count;
    for (uint32_t i = 0; i < p->nout; i++)
        if (p->rows >> p->number[i] & 1) move_out(p, p->number[i], behind);
    return p->out->count > before;
}

/* What a reduce's loop computes and a later one needs again. */
static bool keep_rows(Trial *p)
{
    bool kept = false;
    for (uint32_t i = p->nout; i < p->naxis; i++) kept |= trial_op(p, (OptOp){ .kind = OPT_KEEP, .axis = (int8_t)i });
    return kept;
}

/* ---- proposals ---- */

/* One list of a kernel with reduces: which loops come first, what is kept, where lanes lie, how many vectors and how many rows at once. */
enum { ON_CONTIGUOUS_REDUCES = -1, ON_REDUCES = -2 };
typedef struct { bool first, kept; int lane; int8_t vectors, rows; } Proposal;
enum { TEXT_MOST = 1200, SQUARE_MOST = 4000 };                     /* instructions of a kernel that is worth a look */

/* The innermost row loop that has no lanes. */
static int inner_row(const Trial *p, int lane)
{
    for (uint32_t i = p->nout; i-- > 0;)
        if ((p->rows >> p->number[i] & 1) && p->number[i] != lane && !is_symbolic(p, p->number[i])) return p->number[i];
    return -1;
}

static bool propose(Trial *p, const Proposal *c)
{
    compute_once(p);
    if (c->first && !rows_first(p)) return false;
    bool kept = c->kept && keep_rows(p);
    if (c->kept && !kept) return false;
    if (c->lane < 0) statistics(p, kept, c->lane == ON_REDUCES, c->vectors > 1);
    else {
        unroll_small(p, SHORT);
        lanes_on(p, c->lane, c->vectors);
    }
    int row = inner_row(p, c->lane);
    if (c->rows > 1 && (row < 0 || p->size[row] < c->rows || !split(p, row, c->rows, AXIS_UPCAST))) return false;
    share(p, -1);
    trial_pack(p);
    return true;
}

/* What the list costs, by the estimate. p->k is lowered. */
static double estimate(Trial *p, uint32_t most)
{
    if (kernel_lower(p->k, p->t, NULL) != TG_OK || p->k->linear->nsrc > most) return 1e30;
    return kernel_cost(p->k, p->t).seconds;
}

/* Of a kernel with row statistics: the list of least cost. */
static void best_of_rows(Trial *p, const Kernel *k)
{
    static const struct { int8_t vectors, rows; } shape[] = { { 1, 1 }, { 2, 1 }, { 4, 1 }, { 1, 4 } };
    OptList best = *p->out;
    double least = estimate(p, UINT32_MAX) * 0.8, cost;             /* the estimate is not better than that */
    for (int lane = ON_REDUCES; lane < 64; lane++)
        for (uint32_t i = 0; i < (lane < 0 || p->outs >> lane & 1 ? 4 : 0); i++)
            for (uint32_t s = 0; s < sizeof shape / sizeof *shape; s++) {
                Proposal c = { i & 1, i >> 1 & 1, lane, shape[s].vectors, shape[s].rows };
                if (lane < 0 && c.rows == 1 && c.vectors > 1 && (lane != ON_REDUCES || c.vectors > 2)) continue;
                trial_again(p, k);
                if (!propose(p, &c) || (cost = estimate(p, TEXT_MOST)) >= least) continue;
                least = cost;
                best = *p->out;
            }
    *p->out = best;
}

/* Whether some load's elements are neighbours along another loop than the lanes'. */
static bool moves_across(const Trial *p, int lane)
{
    for (uint32_t i = 0; lane >= 0 && i < p->naccess; i++)
        if ((p->access[i].ranges >> lane & 1) && p->access[i].step[lane] != 1 && p->access[i].step[lane] != NO_STEP) return true;
    return false;
}

static bool has_step_one(const Trial *p, int number)
{
    for (uint32_t i = 0; i < p->naccess; i++)
        if (p->access[i].step[number] == 1) return true;
    return false;
}

/* Of an element-wise kernel between two orders of memory: the list of least cost, squares among them. */
static void best_of_moves(Trial *p, const Kernel *k)
{
    OptList best = *p->out;
    double least = estimate(p, UINT32_MAX) * 0.8, cost;
    for (int lane = 0; lane < 64; lane++)
        for (int row = 0; row < 64; row++) {
            if (!(p->outs >> lane & 1) || !(p->outs >> row & 1) || is_symbolic(p, lane) || is_symbolic(p, row) || !has_step_one(p, lane) || (row != lane && !has_step_one(p, row))) continue;
            int64_t width = lanes_of_all(p, lane);
            if (width < 4 || p->size[row] < width) continue;
            trial_again(p, k);
            compute_once(p);
            if (!split(p, lane, width, AXIS_UPCAST) || (row != lane && !split(p, row, width, AXIS_UPCAST))) continue;
            share(p, -1);
            if ((cost = estimate(p, SQUARE_MOST)) >= least) continue;
            least = cost;
            best = *p->out;
        }
    *p->out = best;
}

/* Are terms of a sum looked up at places that the data tell, in place of being walked through? Or one look-up by another? */
static bool looks_up(const Trial *p)
{
    int n = 0;
    for (uint32_t i = 0; i < p->naccess; i++)
        if (!p->access[i].store && p->access[i].placed) n += p->access[i].placed & p->reduces ? 2 : 1;
    return n > 1;
}

static void cpu(Trial *p, const Kernel *k)
{
    int out = best_lane(p, p->outs), reduce = best_lane(p, p->reduces);
    if (p->contraction) {
        if (operations_of(p, k)) return;
        if (out >= 0 && (reduce < 0 || lane_cost(p, out) <= 1.5 * lane_cost(p, reduce))) contract(p, out);
        else if (reduce >= 0 && lane_cost(p, reduce) < scalar_cost(p)) dot_products(p, reduce);
        else share(p, -1);
        return;
    }
    compute_once(p);
    bool has_rows = p->rows != p->outs, kept = has_rows && keep_rows(p);
    int row = has_rows ? row_lane(p) : -1, same = shares_terms(p);
    bool looked_up = looks_up(p), across = !p->reduces && farthest(p) < 0 && moves_across(p, out);
    if (same >= 0) running(p, same);
    else if (row >= 0) lanes_on(p, row, 2);
    else if (has_rows) statistics(p, kept, false, false);
    else if (reduce >= 0 && sums_in_lanes(p, reduce, out)) reduce_lanes(p, reduce, false);
    else if (move_block(p)) { }
    else if (out >= 0 && worth_lanes(p, out)) {
        unroll_small(p, SHORT);
        lanes_on(p, out, p->reduces ? 4 : 1);
        if (!p->reduces) share_loads(p, out);
    } else unroll_small(p, SHORT);
    share(p, -1);
    trial_pack(p);
    if ((has_rows || looked_up) && same < 0) best_of_rows(p, k);
    else if (across) best_of_moves(p, k);
}

void heuristic_opts(OptList *out, const Kernel *k, const Target *t)
{
    if (t->max_block) {
        gpu_opts(out, k, t);
        return;
    }
    Trial *p = trial_new(out, k, t);
    if (!strcmp(t->kind, "cpu") && p->nout < 60) cpu(p, k);
    trial_free(p);
}
