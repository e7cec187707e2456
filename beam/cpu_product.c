/* See cpu.h: sums of products in a tile of MR x NV vector accumulators, where the device has no operation of its own
 * for them (cpu_units.c). */
#include <math.h>
#include <stdlib.h>

#include "beam/beam.h"
#include "beam/cpu.h"
#include "graph/wmma.h"

/* PLACES: addresses that stay in registers; SHORT_SUM: terms; STRETCH: rows that pay for weights from memory where no
 * tiles are; TERMS: of a sum that is added up at once, as libraries do; OWN_COLUMNS: bytes of weights of which each
 * thread reads some; LONG_LOOP, FEW_SUMS, PRODUCTS: iterations, vectors of sums and products of a loop that takes
 * several terms at once; ODD_LOOP: iterations of one that is padded for that; FEW_ROWS: of its tiles, each a value in a
 * register; MERGED_SUM: terms that pay for loops that are merged. */
enum {
    PLACES = 12,
    SHORT_SUM = 128,
    STRETCH = 48,
    TERMS = 256,
    OWN_COLUMNS = 512 << 10,
    LONG_LOOP = 16,
    ODD_LOOP = 64,
    FEW_SUMS = 6,
    PRODUCTS = 60,
    FEW_ROWS = 8,
    MERGED_SUM = 64,
    SIZES = 32
};
/* Cycles from one product of an accumulator to its next, of a loop beside its products, and of each load in it
 * (r_16_196_512_512: 210 GFLOP/s in tiles of 14 x 2, 216 of 6 x 4); loads that a cycle has of the two that a core may
 * begin, where nothing else fills it (37650 x 100 by 50 columns: 7.2 ms in tiles of 13 x 1, 3.9 of 6 x 2); the rate of
 * tiles whose rows push each other out of the cache, and of those whose places need registers; shares of tiles that are
 * filled: at least, and for another cut; what loops that are merged must gain; cycles of a lane that is stored alone,
 * in the page of its vector's others, and at a stride of whole pages (3136 x 147 by 64 columns, stored as 64 x 3136:
 * 0.31 ms in tiles of 6 x 4, 0.21 in squares of 16; 4096 x 160 by 96: 1.00 in tiles of 9 x 3, 0.40 in squares; 64 x 49
 * x 96 by 288, stored as 288 x 49: 2.0 in tiles of 7 x 3, 2.3 in squares). */
static const double fma_latency = 4, loop_cycles = 0.6, load_cycles = 0.1, loads_a_cycle = 1.6, crowded_rate = 0.6,
                    scattered_rate = 0.8, least_filled = 0.7, better_filled = 0.02, merged_gain = 0.04, store_lane = 5,
                    store_near = 2.5, store_missed = 10;
/* How much of a core's cache a column of tiles may fill, and bytes a cycle from beyond it: 450 x 12544 by 1024 columns
 * takes 49 ms in tiles of 6 x 4 vectors (3.2 MB a column), 33 ms in those of 12 x 2 (1.6 of 2 MB), on two cores. */
static const double column_share = 0.875, beyond_rate = 6;
/* The same for columns that are not packed, which the processor fetches ahead: 4096 x 4096 by 64 columns takes 93 ms in
 * tiles of 4 x 4 vectors, 76 in those of 6 x 4 and 8 x 2, on two cores with 1 MB each. */
static const double stream_rate = 20;
/* Of the bytes that a core loads in a cycle: what vectors come at, from wherever they come. A dot product of bytes,
 * r_64_56_56_3_3_64, takes 0.30 ms in tiles of 4 x 4 vectors, 0.34 of 4 x 2, 0.26 of 7 x 2, 8 x 2 and 14 x 2 where a
 * core loads 64; 1500 x 64 by 1500 columns 41 ms in tiles of 10 x 2, 36 of 5 x 4 and 6 x 4 where it loads 128. */
static const double vector_share = 0.39;

/* ---- contractions ---- */

static int64_t registers(const Trial *p) { return p->t->vector_registers - 2; }

/* Cycles in which a term's vectors of a column of tiles come, where the rows' tiles read that column again and again;
 * 0: a core's cache holds it. */
static double column_cycles(const Trial *p, int lane, int64_t nv)
{
    double cycles = 0;
    for (uint32_t i = 0; i < p->naccess; i++) {
        const Access *a = &p->access[i];
        if (a->store || !(a->ranges & p->reduces) || !(a->ranges >> lane & 1)) continue;
        double bytes = (double)(a->bytes * nv * p->lanes);
        if (cpu_cached_bytes(p, a, bytes) > column_share * (double)p->t->l2_bytes)
            cycles = fmax(cycles, bytes / (a->constant ? beyond_rate : stream_rate));
    }
    return cycles;
}

/* Does what is summed beside the constants vary along the lanes, too? Then each row has vectors of its own (depthwise),
 * which no other row shares. */
static bool owns_vectors(const Trial *p, int lane)
{
    bool owns = false, constants = false;
    for (uint32_t i = 0; i < p->naccess; i++) {
        const Access *a = &p->access[i];
        if (a->store || !(a->ranges & p->reduces) || !(a->ranges >> lane & 1)) continue;
        if (a->constant) constants = true;
        else owns = true;
    }
    return owns && constants;
}

/* columns: threads take columns of tiles each. owns: as owns_vectors says. others: registers that hold neither
 * accumulators nor vectors of the lane axis. */
typedef struct {
    int lane;
    bool owns, columns;
    int64_t others;
} TileKind;

/* Rows that tiles of mr have for each that there is; of a symbolic number over all sizes: a batch of 1 to 8 in tiles of
 * 4 does 1.3 times the work. */
static double rows_done(const Trial *p, int number, int64_t mr, int64_t m)
{
    int64_t least = number >= 0 && is_symbolic(p, number) && p->least[number] < m ? p->least[number] : m;
    int64_t step = (m - least) / SIZES + 1;
    double done = 0, wanted = 0;
    for (int64_t k = least; k <= m; k += step) done += (double)ceil_to(k, mr), wanted += (double)k;
    return done / wanted;
}

/* Is a tile of so many rows stored as a square whose rows, not its lanes, are neighbours? Then rows and lanes change
 * places in registers (expand.c). */
static bool is_square(const Trial *p, const Access *a, int lane, int number, int64_t mr)
{
    bool turned = a->store && number >= 0 && a->step[number] == 1 && a->step[lane] != 1 && a->step[lane] != NO_STEP;
    return turned && mr == p->lanes && p->size[lane] >= p->lanes;
}

/* Cycles in which a vector of sums is stored: lanes that are no neighbours there one by one, or in a square. */
static double store_cycles(const Trial *p, int lane, int number, int64_t mr)
{
    double cycles = 0, shuffles = __builtin_ctzll((uint64_t)p->lanes);
    for (uint32_t i = 0; i < p->naccess; i++) {
        const Access *a = &p->access[i];
        if (!a->store || a->step[lane] == NO_STEP || !(a->ranges >> lane & 1)) continue;
        int64_t bytes = a->step[lane] * a->bytes;
        double each = bytes % PAGE == 0 ? store_missed : bytes * p->lanes > PAGE ? store_lane : store_near;
        cycles += a->step[lane] == 1 ? 1 : is_square(p, a, lane, number, mr) ? 1 + shuffles : each * (double)p->lanes;
    }
    return cycles;
}

/* Share of the multiply-add peak that a tile reaches: loads, latency, padding, threads that wait. number: its rows'
 * axis, or -1. */
static double tile_score(const Trial *p, const TileKind *t, int number, int64_t mr, int64_t nv, int64_t m, int64_t n)
{
    bool owns = t->owns;
    double fma = (double)(mr * nv), loads = owns ? fma + (double)nv : (double)(mr + nv),
           cycles = fmax(fma / 2, owns ? loads / 2 : loads / loads_a_cycle);
    if (m > mr) cycles = fmax(cycles, column_cycles(p, t->lane, nv));
    double loads_bytes = target_rates(p->t)->load * p->t->vector_bytes;
    if (!owns) cycles = fmax(cycles, (double)(nv * p->t->vector_bytes) / (vector_share * loads_bytes));
    cycles = fmax(cycles, fma_latency);
    double waste = (double)ceil_to(n, nv * p->lanes) / (double)n * rows_done(p, number, mr, m);
    int64_t parts = ceil_to(n, nv * p->lanes) / (nv * p->lanes);
    if (t->columns) waste *= (double)ceil_to(parts, p->t->threads) / (double)parts;
    double stores = fma * store_cycles(p, t->lane, number, mr) / (double)p->reduced;
    return fma / 2 / (cycles + stores + loop_cycles + load_cycles * loads) / waste;
}

/* Rows of a tile that lie at a stride of whole pages share the sets of the first cache: more of them than it has ways,
 * and each pushes out the others at every step (8 ways, 4096 terms, 2 vectors: 77 ms in tiles of 8 rows, 94 of 14). */
static bool crowded(const Trial *p, int number, int64_t mr)
{
    int64_t ways = p->t->l1_bytes / PAGE;
    for (uint32_t i = 0; number >= 0 && i < p->naccess; i++) {
        const Access *a = &p->access[i];
        int64_t bytes = a->step[number] == NO_STEP ? 0 : a->step[number] * a->bytes, place = bytes & -bytes;
        if (a->store || !bytes || !(a->ranges & p->reduces) || a->constant) continue;
        int64_t places = place > PAGE ? 1 : place < LINE ? PAGE / LINE : PAGE / place;
        if ((mr + places - 1) / places > ways) return true;
    }
    return false;
}

/* Rows of a tile at a symbolic stride, or that are as many as a symbolic size allows: each needs a register
 * for its place. */
static bool scattered(const Trial *p, int number)
{
    bool any = number >= 0 && is_symbolic(p, number);
    for (uint32_t i = 0; number >= 0 && i < p->naccess; i++)
        any |= !p->access[i].store && (p->access[i].ranges & p->reduces) && (p->access[i].scattered >> number & 1);
    return any;
}

/* Compilers load a row's own vectors ahead: each wants a register (r_384_14_14_3_3, 14 x 2 vectors: 19 us, 7 x 2: 8).
 * So does the sum that a nested one is a term of. */
static void consider(const Trial *p, Tile *best, const TileKind *t, int number, int64_t m, int64_t n)
{
    int64_t each = t->owns || p->nested ? 2 : 1;
    for (int64_t nv = 1; nv <= 8; nv++)
        for (int64_t mr = 1; mr <= 16 && mr <= m; mr++) {
            if (mr * nv * each + nv + t->others > registers(p) || (mr > 1 && nv > 4) ||
                nv * p->lanes > ceil_to(n, p->lanes))
                continue;
            double s = tile_score(p, t, number, mr, nv, m, n) * (crowded(p, number, mr) ? crowded_rate : 1) *
                (mr > PLACES && scattered(p, number) ? scattered_rate : 1);
            if (s > best->score + 1e-9) *best = (Tile){ number, mr, nv, s };
        }
}

/* Do the columns of what is summed have so many bytes that threads should share them out? */
bool cpu_large_columns(const Trial *p, int lane)
{
    double all = 0;
    for (uint32_t i = 0; i < p->naccess; i++) {
        const Access *a = &p->access[i];
        double bytes = a->bytes;
        if (a->store || !(a->ranges & p->reduces) || !(a->ranges >> lane & 1)) continue;
        for (uint32_t j = 0; j < p->naxis; j++)
            if (a->ranges >> p->number[j] & 1) bytes *= (double)p->size[p->number[j]];
        all += bytes;
    }
    return all > OWN_COLUMNS;
}

/* The bytes between neighbours along it in what is summed. */
static int64_t distance(const Trial *p, int number)
{
    int64_t far = 0;
    for (uint32_t i = 0; i < p->naccess; i++) {
        const Access *a = &p->access[i];
        if (a->store || !(a->ranges & p->reduces) || a->step[number] == NO_STEP) continue;
        if (llabs(a->step[number]) * a->bytes > far) far = llabs(a->step[number]) * a->bytes;
    }
    return far;
}

/* Of axes that make equal tiles, that whose rows are nearest: a 3 x 3 convolution of bytes, 64 to 32 channels of 256 x
 * 256, takes 4.3 ms in tiles of 10 lines, 3.5 in those of 10 columns. */
Tile cpu_best_tile(const Trial *p, int lane, int64_t others, bool columns)
{
    Tile best = { -1, 1, 1, 0 };
    TileKind t = { lane, owns_vectors(p, lane), columns, others };
    int64_t n = p->size[lane];
    consider(p, &best, &t, -1, 1, n);
    for (uint32_t i = 0; i < p->nout; i++) {
        Tile other = { .m = -1 };
        int number = p->number[i];
        if (number == lane || !trial_shares(p, number, lane)) continue;
        consider(p, &other, &t, number, p->size[number], n);
        if (other.score > best.score + 1e-9 ||
            (best.m >= 0 && other.score > best.score - 1e-9 && distance(p, number) < distance(p, best.m)))
            best = other;
    }
    return best;
}

/* A picture whose width leaves a tile partly empty: its lines as one loop, where sums are so long that quotients for
 * the places of a tile's rows are few (512 to 512 channels of 7 x 7 pixels, 3 x 3: 3.2 ms in tiles of 4 rows, 2.9 in
 * those of 5 of the 49), and their last loop, before which each row's place moves on (16 to 32 channels of 14 x 14,
 * which has 3 steps: 0.047 ms, 0.071 merged). */
static bool merge_lines(Trial *p, int lane, bool columns, const Tile *best)
{
    TileKind t = { lane, owns_vectors(p, lane), columns, 0 };
    bool is_long = p->naxis > p->nout && p->size[p->number[p->naxis - 1]] >= LONG_LOOP && p->reduced >= MERGED_SUM;
    for (uint32_t i = 0; i + 1 < p->nout && is_long; i++) {
        int outer = p->number[i], inner = p->number[i + 1], at = opt_axis(p->k, outer);
        Tile both = { -1, 1, 1, best->score * (1 + merged_gain) };
        if (outer == lane || inner == lane || is_symbolic(p, outer) || is_symbolic(p, inner) || at < 0 ||
            opt_axis(p->k, inner) != at + 1 || !trial_shares(p, outer, lane) || !trial_shares(p, inner, lane))
            continue;
        consider(p, &both, &t, -1, p->size[outer] * p->size[inner], p->size[lane]);
        if (both.mr > 1 && both.mr <= PLACES && trial_merge(p, outer)) return true;
    }
    return false;
}

/* Axes on which all that is summed depends. */
uint64_t cpu_batch(const Trial *p)
{
    uint64_t batch = p->outs;
    for (uint32_t i = 0; i < p->naccess; i++)
        if (!p->access[i].store && (p->access[i].ranges & p->reduces)) batch &= p->access[i].ranges;
    return batch;
}

/* A short loop of the sum along which a constant that varies with the others does not: parts of it (four bits of a
 * byte), which are then known ones. */
void cpu_unroll_parts(Trial *p)
{
    for (uint32_t r = p->nout; r < p->naxis; r++) {
        int number = p->number[r];
        bool part = false;
        for (uint32_t i = 0; i < p->naccess; i++) {
            const Access *a = &p->access[i];
            part |= a->constant && a->bytes == 1 && (a->ranges & p->reduces) && !(a->ranges >> number & 1);
        }
        if (part && p->size[number] <= LANE_INTERLEAVED && !is_symbolic(p, number))
            cpu_split(p, number, p->size[number], AXIS_UNROLL);
    }
}

int64_t cpu_lanes_of_short(Trial *p, int lane, int64_t n)
{
    int64_t below = floor_power(n), above = below == n ? n : 2 * below;
    return above <= p->lanes && 5 * above <= 8 * n && !is_symbolic(p, lane) && cpu_padto(p, lane, above) ? above
                                                                                                         : below;
}

/* Some constant that is summed varies along it. */
bool cpu_meets_constants(const Trial *p, int number)
{
    bool meets = false;
    for (uint32_t i = 0; i < p->naccess; i++)
        meets |= p->access[i].constant && (p->access[i].ranges & p->reduces) && p->access[i].ranges >> number & 1;
    return meets;
}

/* Bytes of what is summed and varies with this loop of the output, but not with those of `without`. */
static int64_t bytes_along(const Trial *p, int number, uint64_t without)
{
    int64_t bytes = 0;
    for (uint32_t i = 0; i < p->naccess; i++) {
        const Access *a = &p->access[i];
        if (!a->store && (a->ranges & p->reduces) && (a->ranges >> number & 1) && !(a->ranges & without))
            bytes += uop_numel(p->k->param[a->slot].buffer) * a->bytes;
    }
    return bytes;
}

/* The loop that threads divide: the columns n, of whose constants each then reads a part, or the longest of the others
 * where what varies with it takes more. Two threads that each store half of a pixel's 96 bytes of channels share lines,
 * besides (112 x 112 pixels of 16 bytes: 0.23 ms, by rows of pixels 0.095). */
int cpu_larger_side(const Trial *p, int n)
{
    int64_t constants = bytes_along(p, n, 0), longest = 1;
    int side = n;
    for (uint32_t i = 0; i < p->nout; i++) {
        int number = p->number[i];
        if (number == n || is_symbolic(p, number) || p->size[number] <= longest) continue;
        if (bytes_along(p, number, UINT64_C(1) << n) > constants) side = number, longest = p->size[number];
    }
    return side;
}

/* In how many stretches rows are cut, of so many bytes: as few as a core's cache wants, or some more where those fill
 * their tiles better, which have mr rows or are a unit's (0) (3483 x 640 by 96 columns in stretches of 129 rows and
 * tiles of 13 x 2 vectors: 1.61 ms, of 81 and 9 x 3: 1.34). */
static int64_t stretches_of(const Trial *p, int64_t size, int64_t bytes, int64_t mr, double *filled)
{
    int64_t best = 0, least = 0, tiles;
    for (int64_t q = 2; q <= size && (!least || q <= 2 * least); q++) {
        if (size % q || bytes / q > cache_room(p->t)) continue;
        if (!least) least = q;
        double share = 1;
        if (!mr) wmma_cover(size / q, &tiles, &share);
        else share = (double)(size / q) / (double)ceil_to(size / q, mr);
        if (!best || share > *filled + better_filled) best = q, *filled = share;
    }
    return best;
}

/* Where rows are more than a core's cache holds, each column of tiles would fetch all of them again: a stretch of rows
 * goes with all columns before the next. */
bool cpu_cut_rows(Trial *p, int n, int m, int64_t least, int64_t mr)
{
    int64_t bytes = 0, size = 1;
    int rows = -1;
    for (uint32_t i = 0; i < p->nout; i++) {
        int number = p->number[i];
        int64_t own = number == n || is_symbolic(p, number) ? 0 : bytes_along(p, number, UINT64_C(1) << n);
        if (own && p->size[number] > size) rows = number, bytes = own, size = p->size[number];
    }
    if (rows < 0 || bytes <= p->t->l2_bytes / 2 || p->size[n] < least || p->shared || cpu_batch(p)) return false;
    double filled = 0;
    int64_t stretches = stretches_of(p, size, bytes, rows == m ? mr : 1, &filled);
    if (!stretches || filled < least_filled || (mr && (rows != m || size / stretches < STRETCH))) return false;
    cpu_first(p, rows);
    return trial_split(p, rows, stretches, AXIS_THREAD, stretches < size);
}

/* Where stretches are few, threads take pairs of a stretch and a column, so that they can balance (pieces.c: 384 x 3072
 * by 768 columns in 4 stretches, beside other programs: 16.5 ms, 14.5 in pairs). */
void cpu_share_columns(Trial *p, int n)
{
    const UOp *axis[64];
    opt_axes(p->k, axis, 64);
    int64_t stretches = axis[0]->src[0]->vmax;
    for (int at = opt_axis(p->k, n); at > 1; at--)
        trial_op(p, (OptOp){ .kind = OPT_SWAP, .axis = (int8_t)at, .factor = at - 1 });
    if (stretches < 4 * p->t->threads) cpu_split(p, n, trial_size(p, n), AXIS_THREAD);
}

/* A long sum that nothing divides gets a few terms of zeros, in its last iteration, which stands by itself (961 x 197
 * by 96 columns: 0.55 ms, by four terms of 200 0.42). */
static void pad_terms(Trial *p, int number, int64_t size, const Tile *tile)
{
    static const int8_t terms[] = { 4, 5, 3 };
    for (size_t i = 0; i < sizeof terms && size >= ODD_LOOP; i++) {
        if (terms[i] * tile->mr * tile->nv > PRODUCTS || terms[i] == tile->mr) continue;
        if (cpu_padto(p, number, terms[i])) cpu_split(p, number, terms[i], AXIS_UNROLL);
        return;
    }
}

/* Several terms an iteration: the loop's own instructions and its prefetch are a fifth of those of a small tile, and
 * what begins them is shared with another thread on many a machine (240 x 256 by 256 columns on one core of 16
 * registers, in tiles of 6 x 2 vectors: 0.48 ms in each case alone; with the core's other thread busy 0.88, by four
 * terms 0.62; 197 x 3072 by 768 columns in tiles of 6 x 4, 32 registers: 4.0, by two 3.7, by four 3.9). Of two terms
 * gcc wants two registers more; windows of a few pixels share their values between rows, which then want more, too; as
 * many terms as rows would be a square, whose rows expand takes for lanes. */
static void unroll_terms(Trial *p, const Tile *tile)
{
    static const int8_t terms[] = { 4, 3, 5, 2 };
    const UOp *axis[64];
    uint32_t n = opt_axes(p->k, axis, 64);
    const UOp *last = n ? axis[n - 1] : NULL;
    int64_t sums = tile->mr * tile->nv;
    bool divided = false;
    if (!last || range_type(last) != AXIS_REDUCE || !uop_is_const(last->src[0]) || last->src[0]->vmax < LONG_LOOP ||
        sums < FEW_SUMS || tile->mr > FEW_ROWS)
        return;
    for (size_t i = 0; i < sizeof terms; i++) {
        divided |= last->src[0]->vmax % terms[i] == 0;
        bool room = terms[i] > 2 || sums + tile->nv <= registers(p) - 2;
        if (terms[i] * sums > PRODUCTS || last->src[0]->vmax % terms[i] || !room || terms[i] == tile->mr) continue;
        cpu_split(p, range_number(last), terms[i], AXIS_UNROLL);
        return;
    }
    if (!divided) pad_terms(p, range_number(last), last->src[0]->vmax, tile);
}

/* Moves the columns' loops outside of the rows': the lanes' loop, and others of the output along which all columns vary
 * (lines of a picture). Returns the longest of them. */
static int order_columns(Trial *p, int lane, uint64_t inside)
{
    uint64_t others = cpu_batch(p) ? 0 : p->outs & ~inside & ~(UINT64_C(1) << lane);
    int longest = lane;
    for (uint64_t m = others; m; m &= m - 1) {
        int number = __builtin_ctzll(m);
        if (is_symbolic(p, number)) continue;
        cpu_move_out(p, number, inside);
        if (trial_size(p, number) > trial_size(p, longest)) longest = number;
    }
    cpu_move_out(p, lane, inside);
    return longest;
}

/* A window of few pixels: what is widened for one of its rows is the next one's as well (144 channels of 56 x 56 pixels
 * of a byte, 3 x 3: 81 us, 55). */
static void unroll_window(Trial *p, const Tile *tile)
{
    for (uint32_t i = 0; i < p->naccess; i++) {
        const Access *a = &p->access[i];
        int64_t along = tile->m < 0 ? NO_STEP : a->step[tile->m];
        if (a->store || a->bytes >= 4 || along == NO_STEP || !along) continue;
        for (uint32_t r = p->nout; r < p->naxis; r++) {
            int number = p->number[r];
            int64_t size = p->size[number], step = a->step[number];
            if (is_symbolic(p, number) || step == NO_STEP || !step || along % step || along / step >= size) continue;
            if (size * tile->mr * tile->nv <= PRODUCTS) cpu_split(p, number, size, AXIS_UNROLL);
        }
    }
}

/* Short sums wait for what they store: row by row, all columns of each, where those stay in the first cache (16384 x 8
 * by 96 columns: 0.30 ms, 0.17; 12800 x 32 by 197, 25 of 48 KB: 1.12, 0.80; 16384 x 64 by 192, all of it: 1.25, 1.37).
 */
static bool rows_first(const Trial *p, int lane, int64_t nv)
{
    if (p->reduced > SHORT_SUM) return false;
    return cpu_batch(p) || (p->size[lane] > p->lanes * nv && 4 * bytes_along(p, lane, 0) <= 3 * p->t->l1_bytes);
}

void cpu_contract(Trial *p, int lane)
{
    int64_t n = p->size[lane];
    if (cpu_stream(p, lane)) return;
    bool columns = !cpu_batch(p) && cpu_large_columns(p, lane);
    Tile best = cpu_best_tile(p, lane, 0, columns);
    if (merge_lines(p, lane, columns, &best)) best = cpu_best_tile(p, lane, 0, columns);
    /* squares go row by row (3136 x 147 by 64 columns, stored as 64 x 3136: 0.27 ms column by column, 0.21) */
    bool square = false;
    for (uint32_t i = 0; i < p->naccess; i++) square |= is_square(p, &p->access[i], lane, best.m, best.mr);
    bool rows = square || rows_first(p, lane, best.nv);
    /* one column of tiles fetches nothing again */
    int64_t least = best.nv < 4 ? 4 * p->lanes : best.nv * p->lanes + 1;
    bool cut = !rows && cpu_meets_constants(p, lane) && cpu_cut_rows(p, lane, best.m, least, best.mr);
    if (cut) {                                                      /* threads take stretches of rows each */
        p->size[best.m] = trial_size(p, best.m);
        best = cpu_best_tile(p, lane, 0, false);
    }
    cpu_lanes(p, lane, n < p->lanes ? cpu_lanes_of_short(p, lane, n) : p->lanes, best.nv);
    if (best.nv > 1) cpu_split(p, lane, best.nv, AXIS_UPCAST);
    if (best.m >= 0 && best.mr > 1) cpu_split(p, best.m, best.mr, AXIS_UPCAST);
    uint64_t inside = 0;
    for (uint32_t i = 0; i < 64; i++)
        if ((int)i != lane && (!(p->outs >> i & 1) || trial_shares(p, (int)i, lane))) inside |= UINT64_C(1) << i;
    int longest = rows ? lane : order_columns(p, lane, inside);
    if (square) cpu_move_out(p, best.m, UINT64_C(1) << lane);
    cpu_unroll_parts(p);
    if (best.mr > 1) unroll_window(p, &best);
    cut_sum(p->out, p->k, p->t, TERMS);
    unroll_terms(p, &best);
    if (cut) cpu_share_columns(p, lane);
    /* of a batch each thread takes some whole */
    else cpu_share(p, columns ? longest : !cpu_batch(p) && best.m < 0 ? lane : -1);
    trial_pack(p);
    cpu_stage(p, lane, best.nv, best.mr);
    cpu_carry(p, lane, best.nv);
}

/* Both operands run along the reduce: lanes there, a tile of output pairs, whose sums leave registers for the operands
 * (12 of 128 x 64 by 128 terms, 16 registers: 6.1 ms in tiles of 4 x 4, 4.8 of 4 x 2, 4.1 of 4 x 3). */
void cpu_dot_products(Trial *p, int lane)
{
    int64_t left = registers(p) > 16 ? 16 : 12;
    if (!cpu_padto(p, lane, cpu_lane_width(p, p->size[lane]))) return;
    cpu_split(p, lane, cpu_lane_width(p, trial_size(p, lane)), AXIS_UNROLL);
    for (uint32_t i = p->nout; i-- > 0 && left > 1;)
        for (int64_t f = left >= 4 ? 4 : left; f > 1; f--)
            if (p->size[p->number[i]] >= f && cpu_split(p, p->number[i], f, AXIS_UPCAST)) {
                left /= f;
                break;
            }
    cpu_share(p, -1);
    trial_pack(p);
}
