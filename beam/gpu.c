/* Heuristics for GPUs: a list of OptOps at once, from the kernel's accesses, the sizes of its loops and the device's
 * size. Nothing here knows an operator.
 *
 * Three shapes of kernel. A contraction gets a tile of registers a thread (an axis whose loads lie side by side across
 * threads, and one on which they do not depend), and shares its reduce among threads when there are too few tiles to
 * fill the device: a small model of loads, multiply-adds and parallelism chooses. Row statistics get a group of threads
 * a row, all loops over the row alike, so that they share one set of threads. All else gets a thread an element, or one
 * for four. Every split is tried on a scratch copy; an illegal one is left out. To teach it a new shape: a function
 * like `rows`, and its line in gpu_opts.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "beam/beam.h"
#include "beam/gpu_tensor.h"
#include "beam/trial.h"
#include "common/order.h"

/* BLOCK, LEAST_BLOCK: threads of a workgroup; WARPS_MOST: of one; BUSY_WARPS: that a multiprocessor wants; WINDOW:
 * places of a window that are unrolled; LEAST_SUM: terms that threads share; ACCUMULATORS: of a thread; TERMS: of a sum
 * that is added up at once. */
enum {
    TENSOR_VARIANTS = 12,
    ROW_VARIANTS = 5,
    WARP = 32,
    BLOCK = 256,
    LEAST_BLOCK = 64,
    WARPS_MOST = 32,
    BUSY_WARPS = 16,
    WINDOW = 49,
    LEAST_SUM = 64,
    ACCUMULATORS = 64,
    TERMS = 128
};
/* Lines: of a warp that reads one place, of one whose places depend on data; accesses beside those of a sum's or a
 * product's terms. */
static const double one_line = 0.25, data_lines = 16, beside_sum = 0.3, beside_product = 0.05;

/* ---- ops ---- */

/* The parts of a symbolic axis overlap: it needs no padding. */
static bool padto(Trial *p, int number, int64_t multiple)
{
    int at = opt_axis(p->k, number);
    if (at < 0 || is_symbolic(p, number) || trial_size(p, number) % multiple == 0) return at >= 0;
    return trial_op(p, (OptOp){ .kind = OPT_PADTO, .axis = (int8_t)at, .factor = (int32_t)multiple });
}

static int64_t divisor_up_to(int64_t n, int64_t most)
{
    for (int64_t f = most < n ? most : n; f > 1; f--)
        if (n % f == 0) return f;
    return 1;
}

/* The largest factor up to `most` by which a loop can be split. */
static int64_t part_of(const Trial *p, int number, int64_t most)
{
    int64_t n = trial_size(p, number);
    return is_symbolic(p, number) && n > 1 ? most < n ? most : n - 1 : divisor_up_to(n, most);
}

/* Threads for a loop: what divides it, or a padded warp where that is much better. */
static int64_t spread(Trial *p, int number, int64_t most)
{
    int64_t n = trial_size(p, number), f = part_of(p, number, most);
    if (f < WARP && f < n && most >= WARP && ceil_to(n, WARP) * 4 <= n * 5 && padto(p, number, WARP))
        f = divisor_up_to(trial_size(p, number), most);
    return trial_split(p, number, f, AXIS_LOCAL, false) ? f : 1;
}

/* What is left of the output's loops: workgroups. */
static void grid(Trial *p)
{
    const UOp *axis[64];
    for (bool more = true; more;) {
        uint32_t n = opt_axes(p->k, axis, 64);
        more = false;
        for (uint32_t i = 0; i < n && !more; i++)
            if (range_type(axis[i]) == AXIS_LOOP && (p->outs & range_bit(axis[i])) && axis[i]->src[0]->vmax > 1)
                more =
                    trial_op(p,
                             (OptOp){ .kind = OPT_SPLIT,
                                      .axis = (int8_t)i,
                                      .target = AXIS_GLOBAL,
                                      .factor = uop_is_const(axis[i]->src[0]) ? (int32_t)axis[i]->src[0]->vmax : 0 });
    }
}

/* ---- which axis lies side by side across threads ---- */

/* Transactions of a warp's access, in lines: 1 when neighbours are contiguous, more with the stride. */
static double lines(const Access *a, int number)
{
    int64_t s = a->step[number];
    if (!(a->ranges >> number & 1) || s == 0) return one_line;
    if (s == NO_STEP) return data_lines;
    s = s < 0 ? -s : s;
    return s > 32 ? 32 : (double)s;
}

static double lane_cost(const Trial *p, int number)
{
    double cost = 0;
    for (uint32_t i = 0; i < p->naccess; i++) {
        const Access *a = &p->access[i];
        bool inner = !p->reduces || (a->ranges & p->reduces);
        double n = a->constant && inner && p->contraction && (a->ranges >> number & 1) ? 1 : lines(a, number);
        cost += inner ? n : n * (p->contraction ? beside_product : beside_sum);
    }
    return cost;
}

static int best_lane(const Trial *p, uint64_t among)
{
    int best = -1;
    double least = 1e30;
    for (uint32_t i = p->naxis; i-- > 0;) {
        int n = p->number[i];
        double cost = lane_cost(p, n) * (p->size[n] < WARP ? 1 + 0.5 * (double)(WARP - p->size[n]) / WARP : 1);
        if ((among >> n & 1) && p->size[n] > 1 && cost < least) least = cost, best = n;
    }
    return best;
}

/* ---- elements ---- */

static void unroll_small(Trial *p, int64_t most)
{
    for (uint32_t i = p->naxis; i-- > p->nout;) {
        int64_t n = trial_size(p, p->number[i]);
        if (n > 1 && n <= most && trial_split(p, p->number[i], n, AXIS_UNROLL, false)) most /= n;
    }
}

/* Every access along the lane is a plain row, so that four neighbours are one access of 16 bytes. Constants that will
 * be packed do not count, nor does what a tile stores in rows along m. */
static bool takes_vectors(const Trial *p, int lane, int m)
{
    if (p->size[lane] % 4 || is_symbolic(p, lane)) return false;
    for (uint32_t i = 0; i < p->naccess; i++) {
        const Access *a = &p->access[i];
        if (!(a->ranges >> lane & 1) || (p->contraction && a->constant && (a->ranges & p->reduces))) continue;
        if (m >= 0 && !(a->ranges & p->reduces) && a->step[m] == 1) continue;
        if (a->step[lane] != 1 || a->gated) return false;
        for (uint32_t j = 0; j < p->naxis; j++)
            if (p->number[j] != lane && (a->step[p->number[j]] == NO_STEP || a->step[p->number[j]] % 4)) return false;
    }
    return true;
}

static void threads(Trial *p, int lane, int64_t most)
{
    int64_t left = most;
    if (lane >= 0) left /= spread(p, lane, left);
    for (uint32_t i = p->nout; i-- > 0 && left > 1;)
        if (p->number[i] != lane) left /= spread(p, p->number[i], left);
    grid(p);
}

static void elements(Trial *p)
{
    int lane = best_lane(p, p->outs);
    unroll_small(p, WINDOW);
    if (lane >= 0 && p->elements >= 4.0 * BLOCK * p->t->threads && takes_vectors(p, lane, -1))
        trial_split(p, lane, 4, AXIS_UPCAST, false);
    int64_t block = BLOCK;
    while (block > LEAST_BLOCK && p->elements / (double)block < p->t->threads) block /= 2;
    threads(p, lane, block);
}

/* ---- rows ---- */

/* One loop over the row: four in registers, a warp of them side by side, then a group of warps; the rest stays a loop.
 */
static void share_loop(Trial *p, int number, bool reduce, int64_t warps, bool four)
{
    int64_t lane = WARP * (four ? 4 : 1), n = trial_size(p, number);
    if (n < 2 || !padto(p, number, n % (lane * warps) && ceil_to(n, lane * warps) * 8 <= n * 9 ? lane * warps : lane))
        return;
    if (four) trial_split(p, number, 4, reduce ? AXIS_UNROLL : AXIS_UPCAST, false);
    if (!trial_split(p, number, WARP, reduce ? AXIS_WARP : AXIS_LOCAL, false)) return;
    if (warps > 1) trial_split(p, number, part_of(p, number, warps), reduce ? AXIS_GROUP_REDUCE : AXIS_LOCAL, false);
}

static bool all_rows_of(const Trial *p, int64_t n)
{
    for (uint32_t i = 0; i < p->naxis; i++) {
        int k = p->number[i];
        for (uint32_t j = 0; j < p->naccess && !(p->rows >> k & 1) && p->size[k] > 1; j++)
            if ((p->access[j].ranges >> k & 1) && !p->access[j].constant &&
                (p->access[j].step[k] != 1 || p->access[j].gated))
                return false;
    }
    return n % 4 == 0 && n >= 4 * WARP;
}

static int64_t warps_of_row(const Trial *p, double count)
{
    double each = p->reduced / WARP, idle = BUSY_WARPS * (double)p->t->threads / count;
    int64_t warps = 1;
    while (warps < WARPS_MOST && (double)warps * 2 <= idle && each / (double)(warps * 2) >= 4) warps *= 2;
    return warps;
}

/* Two loops that some access depends on cannot share threads. */
static bool meet(const Trial *p, int a, int b)
{
    for (uint32_t i = 0; i < p->naccess; i++)
        if ((p->access[i].ranges >> a & 1) && (p->access[i].ranges >> b & 1)) return true;
    return false;
}

/* Warps' worth of a loop: loops share threads when these split alike. */
static int64_t groups_of(const Trial *p, int number, bool four)
{
    int64_t lane = WARP * (four ? 4 : 1);
    return ceil_to(p->size[number], lane) / lane;
}

/* The reduce loop that threads share: one that lies side by side in memory, or the longest where that is shorter than a
 * warp. */
static int lane_of_rows(const Trial *p)
{
    int best = best_lane(p, p->reduces);
    for (uint32_t i = p->nout; i < p->naxis && p->size[best] < WARP; i++)
        if (p->size[p->number[i]] >= WARP) best = p->number[i];
    return best;
}

/* Rows: outputs on which all reduces depend. All loops over the row are shared out alike. */
static void rows(Trial *p, int64_t more_warps)
{
    double count = 1;
    for (uint32_t i = 0; i < p->nout; i++)
        if (p->rows >> p->number[i] & 1) count *= (double)p->size[p->number[i]];
    int reduce = lane_of_rows(p), inner = best_lane(p, p->outs & ~p->rows);
    int64_t warps = warps_of_row(p, count) * more_warps > WARPS_MOST ? WARPS_MOST : warps_of_row(p, count) * more_warps,
            length = p->size[reduce];
    if (inner >= 0 && meet(p, inner, reduce)) inner = -1;
    bool four = all_rows_of(p, length) && !is_symbolic(p, reduce) &&
        (inner < 0 || (p->size[inner] % 4 == 0 && !is_symbolic(p, inner)));
    while (inner >= 0 && warps > 1 && (groups_of(p, reduce, four) % warps || groups_of(p, inner, four) % warps))
        warps /= 2;
    for (uint32_t i = p->nout; i < p->naxis; i++)
        if (trial_size(p, p->number[i]) == length && (p->number[i] == reduce || !meet(p, p->number[i], reduce)))
            share_loop(p, p->number[i], true, warps, four);
    if (inner >= 0) share_loop(p, inner, false, warps, four);
    if (warps == 1)
        for (uint32_t i = p->nout, left = 4; i-- > 0 && left > 1;)
            if (p->rows >> p->number[i] & 1) {
                int64_t f = part_of(p, p->number[i], left);
                if (trial_split(p, p->number[i], f, AXIS_LOCAL, false)) left /= (uint32_t)f;
            }
    grid(p);
    trial_pack(p);
}

/* ---- contractions ---- */

/* un elements along the lane axis and um along another in registers; a warp along the lane axis; rows: such warps along
 * the other in a workgroup, which find each other's lane operand in the cache; group: threads that share a reduce. */
/* sorted by what is first */
typedef struct {
    double cycles;
    int lane, m;
    int64_t un, um, rows, group;
} Tile;

static int best_m(const Trial *p, int lane)
{
    int best = -1;
    for (uint32_t i = 0; i < p->nout; i++) {
        int n = p->number[i];
        if (n != lane && p->size[n] > 1 && trial_shares(p, n, lane) && (best < 0 || p->size[n] > p->size[best]))
            best = n;
    }
    return best;
}

/* A load along which four steps of the reduce lie in one place. */
static bool reads_fours(const Trial *p, const Access *a)
{
    for (uint32_t i = p->nout; i < p->naxis; i++)
        if (a->step[p->number[i]] == 1 && p->size[p->number[i]] % 4 == 0) return true;
    return a->constant;
}

/* Lines of memory that a warp moves for one step of the reduce of its tile. */
static double lines_of_step(const Trial *p, const Tile *x)
{
    double sum = 0;
    for (uint32_t i = 0; i < p->naccess; i++) {
        const Access *a = &p->access[i];
        if (a->store || !(a->ranges & p->reduces)) continue;
        bool lane = a->ranges >> x->lane & 1;
        double n = lane ? (double)x->un * (a->constant ? 1 : lines(a, x->lane)) : reads_fours(p, a) ? one_line : 1;
        sum += x->m >= 0 && (a->ranges >> x->m & 1) ? n * (double)x->um : n;
    }
    return sum;
}

static int64_t unroll_of(const Tile *x)
{
    int64_t n = 64 / (x->un * x->um);
    return n < 4 ? 4 : n > 16 ? 16 : n;
}

static int64_t lanes_of_block(const Trial *p, const Tile *x)
{
    int64_t n = ceil_to(p->size[x->lane], x->un) / x->un,
            most = x->group * x->rows > 2 ? WARP
        : x->group * x->rows > 1          ? 2 * WARP
                                          : 4 * WARP;
    return n < most ? n : most;
}

/* Waves of workgroups; while they are few, the last one counts for half a whole one. */
static double waves_of(const Trial *p, double blocks)
{
    double waves = blocks > p->t->threads ? blocks / p->t->threads : 1;
    return waves < 4 ? 0.5 * (waves + ceil(waves)) : waves;
}

/* Fitted to 1,157 timings of 35 kernels on an H200: the choice then takes 1.15 times as long as the best list that was
 * timed. Cycles: of a line, of a wait for loads, and of each product and line in it; of a shared sum, and of each
 * element of it. Registers that make room for warps, and what a column and a row take of them; the least room. What
 * vectors of four and tiles of eight columns save; what orders equal ones. */
static const double line_cycles = 11, wait_cycles = 740, waiting = 7.6, sum_cycles = 520, sum_element = 9,
                    registers = 680, column_registers = 0.6, row_registers = 2.1, least_room = 4, fours = 0.6,
                    eights = 0.78, in_order = 0.0001;

/* Cycles of a multiprocessor: what its units must do, and how long its few warps wait for each other's loads; the
 * longer counts, and both where they are near. */
static double tile_cycles(const Trial *p, const Tile *x)
{
    int64_t n = p->size[x->lane], m = x->m >= 0 ? p->size[x->m] : 1, lanes = lanes_of_block(p, x),
            warps = ceil_to(lanes * x->rows * x->group, WARP) / WARP;
    double waste = (double)ceil_to(n, x->un) / (double)n * (double)ceil_to(m, x->um) / (double)m,
           tile = (double)(x->un * x->um), steps = p->reduced / (double)x->group;
    double waves = waves_of(p, p->elements * waste / tile / (double)(lanes * x->rows)), each = waves * (double)warps,
           line = lines_of_step(p, x), unroll = (double)unroll_of(x);
    double work = each * steps * (tile + line_cycles * line) / 4,
           room = registers / (tile + column_registers * (double)x->un + row_registers * (double)x->um),
           resident = room < least_room ? least_room : room;
    double wait =
        (each > resident ? each / resident : 1) * steps / unroll * (wait_cycles + waiting * unroll * (tile + line));
    double sums = x->group > 1 ? (sum_cycles + sum_element * tile * (double)x->group) * sqrt(waves) : 0,
           all = sqrt(hypot(work * work, wait * wait)) + sums;
    return all * (x->un == 4 && takes_vectors(p, x->lane, x->m) ? fours : x->un == 8 ? eights : 1);
}

static bool fits(const Trial *p, const Tile *x)
{
    int64_t lanes = lanes_of_block(p, x), threads = lanes * x->rows * x->group, m = x->m >= 0 ? p->size[x->m] : 1;
    if (x->un * x->um > ACCUMULATORS || (x->un > 1 && x->un * 2 > p->size[x->lane]) || x->um * x->rows > m ||
        threads > p->t->max_block)
        return false;
    if (x->rows > 1 && !is_symbolic(p, x->m) && ceil_to(m, x->um) / x->um % x->rows) return false;
    return x->group == 1 || (p->reduced >= 4.0 * (double)x->group && x->un * x->um * threads * 4 <= p->t->l1_bytes / 2);
}

enum { TILES = 4 * 8 * 4 * 6 };
static uint32_t all_tiles(const Trial *p, int lane, Tile *out)
{
    static const int64_t un[] = { 1, 2, 4, 8 }, um[] = { 1, 2, 4, 7, 8, 12, 14, 16 }, rows[] = { 1, 2, 4, 8 },
                         group[] = { 1, 2, 4, 8, 16, 32 };
    int m = best_m(p, lane);
    uint32_t n = 0;
    for (uint32_t i = 0; i < TILES; i++) {
        Tile x = { 0, lane, m, un[i % 4], um[i / 4 % 8], rows[i / 32 % 4], group[i / 128] };
        if (!fits(p, &x)) continue;
        x.cycles = tile_cycles(p, &x) * (1 + in_order * i);
        out[n++] = x;
    }
    qsort(out, n, sizeof *out, order_ascending);
    return n;
}

/* The longest reduce loop gives the group; windows are unrolled, and a few steps of a long loop, so that loads are
 * under way together. */
static void reduce_loops(Trial *p, const Tile *x)
{
    int longest = -1;
    for (uint32_t i = p->nout; i < p->naxis; i++)
        if (longest < 0 || p->size[p->number[i]] > p->size[longest]) longest = p->number[i];
    int64_t budget = unroll_of(x);
    if (x->group > 1 && longest >= 0) {
        int64_t n = trial_size(p, longest), f = n % (4 * x->group) == 0 ? x->group : part_of(p, longest, x->group);
        if (f * 2 > x->group || padto(p, longest, f = x->group)) trial_split(p, longest, f, AXIS_GROUP_REDUCE, true);
    }
    for (uint32_t i = p->naxis; i-- > p->nout && budget > 1;) {
        int64_t f = part_of(p, p->number[i], budget);
        if (trial_split(p, p->number[i], f, AXIS_UNROLL, false)) budget /= f;
    }
}

static void apply_tile(Trial *p, const Tile *x)
{
    bool inner = p->size[x->lane] % x->un == 0 && x->un == 4 && takes_vectors(p, x->lane, x->m);
    if (x->un > 1 && padto(p, x->lane, x->un))
        trial_split(p, x->lane, x->un, AXIS_UPCAST, !inner && !is_symbolic(p, x->lane));
    if (x->m >= 0 && x->um > 1 && padto(p, x->m, x->um)) trial_split(p, x->m, x->um, AXIS_UPCAST, false);
    reduce_loops(p, x);
    cut_sum(p->out, p->k, p->t, TERMS);      /* as fast as uncut or with 512, and rounds like a CPU's library */
    if (x->rows > 1) trial_split(p, x->m, x->rows, AXIS_LOCAL, false);
    spread(p, x->lane, lanes_of_block(p, x));
    grid(p);
    trial_pack(p);
}

/* Every element of the large operand is used once: a row a warp, as for a reduction. */
static bool is_matvec(const Trial *p, int lane)
{
    return best_m(p, lane) < 0 && p->reduced >= 2 * WARP && p->elements <= (double)BLOCK * p->t->threads;
}

static void contraction(Trial *p, uint32_t which)
{
    Tile tile[TILES];
    int lane = best_lane(p, p->outs);
    if (lane < 0 || (is_matvec(p, lane) && best_lane(p, p->reduces) >= 0)) {
        if (which < ROW_VARIANTS) rows(p, (int64_t)1 << which);
    }
    else if (which < all_tiles(p, lane, tile)) apply_tile(p, &tile[which]);
}

/* Long reduces that would leave threads without work, or whose loads lie side by side along the reduce. */
static bool has_rows(const Trial *p)
{
    int reduce = best_lane(p, p->reduces), out = best_lane(p, p->outs);
    if (p->reduced < LEAST_SUM || reduce < 0) return false;
    return p->rows != p->outs || out < 0 || p->elements < (double)LEAST_BLOCK * p->t->threads ||
        lane_cost(p, reduce) < lane_cost(p, out);
}

/* The list that this file thinks `which`-th best. */
static void choose(OptList *out, const Kernel *k, const Target *t, uint32_t which)
{
    if (which < TENSOR_VARIANTS && tensor_opts(out, k, t, which)) return;
    /* behind its lists come those without tensor cores */
    if (which >= TENSOR_VARIANTS && tensor_opts(out, k, t, 0)) which -= TENSOR_VARIANTS;
    Trial *p = trial_new(out, k, t);
    if (p->contraction) contraction(p, which);
    else if (has_rows(p) && which < ROW_VARIANTS) rows(p, (int64_t)1 << which);
    else if (!which) elements(p);
    trial_free(p);
}

void gpu_opts(OptList *out, const Kernel *k, const Target *t) { choose(out, k, t, 0); }

uint32_t gpu_candidates(OptList *out, uint32_t cap, const Kernel *k, const Target *t)
{
    uint32_t n = 0;
    for (uint32_t which = 0; n < cap; which++) {
        choose(&out[n], k, t, which);
        if (which && !out[n].count) break;
        bool known = false;
        for (uint32_t i = 0; i < n && !known; i++) known = opt_same(&out[i], &out[n]);
        n += !known;
        if (which > 4 * cap) break;
    }
    return n;
}
