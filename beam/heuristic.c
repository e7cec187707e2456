/* Heuristics: a good list of OptOps at once, from the kernel's accesses and the device's registers. Nothing here knows
 * an operator.
 *
 * CPU. A vector axis is chosen by what each access costs along it (contiguous: one vector; constant: one, because it
 * will be packed; not depending: a broadcast; else a gather). A contraction then gets a tile of MR x NV vector
 * accumulators: NV along the vector axis, MR along an output axis on which the vector operand does not depend, as many
 * as the registers hold, with the least padding. Other kernels get lanes and a few replicas; row statistics get lanes
 * along their reduce and along their output; of the ways in which a sum's lanes can lie, the estimate may choose
 * another than the first. Constants that vary along the lanes are packed. The outermost loop that balances is shared
 * among threads.
 */
#include <string.h>

#include "beam/beam.h"
#include "beam/cost.h"
#include "beam/cpu.h"

/* WHOLE: iterations that are unrolled whole, of so much work; SHORT: reduces that are unrolled whole; RUNNING: running
 * sums that are (FEW_ROWS of graph/build_reduce.c); WINDOW: places of a weighed window that are; COPIES: of what is
 * stored several times; OTHERS: loads of which one may depend on a loop that is computed once. */
enum { WHOLE = 16, WHOLE_WORK = 512, SHORT = 27, RUNNING = 48, WINDOW = 25, COPIES = 4, OTHERS = 4 };

/* ---- the others ---- */

/* Small windows disappear; long reduces keep their loop. */
static void unroll_small(Trial *p, int64_t most)
{
    for (uint32_t i = p->naxis; i-- > p->nout;) {
        int number = p->number[i];
        int64_t n = trial_size(p, number);
        if (is_symbolic(p, number) || opt_axis(p->k, number) < 0 || n > most || n < 2) continue;
        if (cpu_split(p, number, n, AXIS_UNROLL)) most /= n;
    }
}

/* A short loop of the output on which short sums depend, though nothing does that they read: they differ in how many
 * terms a mask lets through (running sums). -1: there is none. */
static int shares_terms(const Trial *p)
{
    int64_t terms = 1;
    for (uint32_t i = p->nout; i < p->naxis; i++)
        terms *= is_symbolic(p, p->number[i]) ? RUNNING + 1 : p->size[p->number[i]];
    for (uint32_t i = p->nout; p->reduces && terms <= RUNNING && i-- > 0;) {
        int number = p->number[i];
        bool same = !is_symbolic(p, number) && p->size[number] <= RUNNING && p->rows >> number & 1;
        for (uint32_t j = 0; j < p->naccess && same; j++)
            same = p->access[j].store || !(p->access[j].at->ranges & p->reduces) ||
                !(p->access[j].at->ranges >> number & 1);
        if (same) return number;
    }
    return -1;
}

/* Iterations of a reduce that share a variable: all when they are few, else what divides them, so that the loop waits
 * for one operation in several; 1: nothing good does. */
static int64_t iterations_together(const Trial *p, int64_t iterations)
{
    static const int8_t few[] = { 4, 5, 3, 6, 7, 2 };
    if (iterations <= WHOLE && iterations * p->work <= WHOLE_WORK) return iterations;
    for (size_t i = 0; i < sizeof few; i++)
        if (iterations % few[i] == 0) return few[i];
    return 1;
}

/* Outputs whose terms lie between the lanes of a sum, a few at each of its places, are summed at once: then whole lines
 * are read (384 places of 3 in 785 rows: 0.36 ms one by one, 0.04 so; of 2, which would be lanes themselves, 0.03 and
 * 0.11). */
static void sum_between(Trial *p, int reduce)
{
    for (uint32_t i = 0; i < p->nout; i++) {
        int number = p->number[i];
        int64_t few = p->size[number];
        bool between = !is_symbolic(p, number) && (few & (few - 1)) && few <= LANE_INTERLEAVED;
        for (uint32_t j = 0; j < p->naccess && between; j++) {
            const Access *a = &p->access[j];
            if (!a->store && (a->ranges >> reduce & 1)) between = a->step[number] == 1 && a->step[reduce] == few;
        }
        if (between) cpu_split(p, number, few, AXIS_UPCAST);
    }
}

/* single: one vector at a time, of long formulas. */
static void reduce_lanes(Trial *p, int number, bool single)
{
    int64_t n = p->size[number], w = cpu_lane_width(p, n);
    bool odd = iterations_together(p, ceil_to(n, w) / w) < 3 && n >= 32 * w;
    if (w < 4 || !cpu_padto(p, number, odd && !single ? 4 * w : w)) return;
    cpu_split(p, number, w, AXIS_UNROLL);
    if (!single && opt_axis(p->k, number) >= 0 && !is_symbolic(p, number))
        cpu_split(p, number, iterations_together(p, trial_size(p, number)), AXIS_UNROLL);
}

/* Do groups of f iterations make up a loop, or nearly, so that the last begins a little earlier, with one for each
 * thread? */
static bool in_groups(const Trial *p, int number, int64_t f)
{
    int64_t n = trial_size(p, number);
    return cpu_divisor(p, number) % f == 0 ||
        (!is_symbolic(p, number) && ceil_to(n, f) - n <= n / 8 && ceil_to(n, f) / f >= p->t->threads);
}

/* Several vectors at once take whole lines of what is reduced across its rows (the greatest of each of 1686 columns in
 * 1470 rows: 3.4 ms in single vectors, 1.3 by four). A line that is few of them has each at its place, so that only the
 * first and the last meet a window's border: windows of 5 x 5 by 2 over 77 x 77, 64 channels: 0.63 ms, now 0.18. */
static void lanes_on(Trial *p, int number, int64_t replicas)
{
    int64_t n = p->size[number], w = floor_power(n < p->lanes ? n : p->lanes);
    if (w < 4) return;
    cpu_lanes(p, number, w, 1);
    int64_t whole = opt_axis(p->k, number) >= 0 && !is_symbolic(p, number) ? trial_size(p, number) : 0;
    if (whole > 1 && whole <= replicas && cpu_split(p, number, whole, AXIS_UPCAST)) return;
    for (int64_t f = replicas; f > 1; f /= 2)
        if (opt_axis(p->k, number) >= 0 && in_groups(p, number, f) && cpu_split(p, number, f, AXIS_UPCAST)) return;
    if (whole > 1 && whole <= 2 * replicas && replicas > 1) cpu_split(p, number, whole, AXIS_UPCAST);
}

/* What is moved between the lanes of one loop and the iterations of another: a square of both where each has enough,
 * else few iterations that lie between the lanes in memory. */
typedef struct { int lane, row; int64_t lanes, rows; } Block;

static int64_t lanes_of_all(const Trial *p, int number)
{
    int64_t n = p->size[number] < p->lanes ? p->size[number] : p->lanes;
    for (uint32_t i = 0; i < p->naccess; i++)
        if (n * p->access[i].bytes > p->t->vector_bytes) n = p->t->vector_bytes / p->access[i].bytes;
    return floor_power(n);
}

/* Is something loaded side by side along the row and scattered along the lanes, and all stored side by side along the
 * lanes? Or is what lies side by side along the lanes stored mixed? Two squares at once are more than the registers
 * hold. */
static bool is_block(const Trial *p, Block *b)
{
    int64_t few = p->size[b->row];
    bool side = true, load_mixed = few <= LANE_INTERLEAVED, store_mixed = load_mixed, along = false;
    int scattered = 0, rows = 0;
    for (uint32_t i = 0; i < p->naccess; i++) {
        const Access *a = &p->access[i];
        int64_t lane = a->step[b->lane];
        bool row = a->step[b->row] == 1 && !a->gated;
        if (a->store) side &= lane == 1, store_mixed &= row && lane == few;
        else if (lane == 1) along = true;
        else if (a->ranges >> b->lane & 1) scattered++, rows += row, load_mixed &= row && lane == few;
    }
    b->rows = few <= LANE_INTERLEAVED ? few : b->lanes;
    return (side && rows && (load_mixed || (rows == 1 && few >= b->lanes))) || (store_mixed && along && !scattered);
}

static bool move_block(Trial *p)
{
    if (p->reduces || cpu_farthest(p) >= 0) return false;
    for (uint32_t i = p->nout; i-- > 0;)
        for (uint32_t j = p->nout; j-- > 0;) {
            Block b = { .lane = p->number[i], .row = p->number[j], .lanes = lanes_of_all(p, p->number[i]) };
            if (p->size[b.row] > LANE_INTERLEAVED && p->size[b.row] < b.lanes) b.lanes = floor_power(p->size[b.row]);
            if (i == j || is_symbolic(p, b.lane) || is_symbolic(p, b.row) || b.lanes < 4 || p->size[b.row] < 2 ||
                !is_block(p, &b))
                continue;
            cpu_split(p, b.lane, b.lanes, AXIS_UPCAST);
            cpu_split(p, b.row, b.rows, AXIS_UPCAST);
            return true;
        }
    return false;
}

/* What is stored a few times of the same loads is computed once: a short loop on which nothing that is loaded depends,
 * or hardly anything, is unrolled. */
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
        if (few && loads && OTHERS * others <= loads) cpu_split(p, number, p->size[number], AXIS_UPCAST);
    }
}

/* Two or three iterations at once of an output loop on which most of what is loaded in lanes does not depend: tables of
 * places and weights are then read once for several channels. */
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
        if (number != lane && !is_symbolic(p, number) && (n % 2 == 0 || n % 3 == 0) && same > most && 2 * same >= loads)
            best = number, most = same;
    }
    if (best >= 0) cpu_split(p, best, p->size[best] % 2 ? 3 : 2, AXIS_UPCAST);
}

/* Are iterations stored at a stride of whole pages? Then each is a stream that wants more than a line at a time. */
static bool pages_apart(const Trial *p, int number)
{
    for (uint32_t i = 0; i < p->naccess; i++) {
        const Access *a = &p->access[i];
        if (a->store && a->step[number] != NO_STEP && a->step[number] * a->bytes % PAGE == 0) return true;
    }
    return false;
}

/* That loop becomes replicas, so that each sum is another's and the terms that it has more (expand.c). */
static void running(Trial *p, int number)
{
    int lane = cpu_best_lane(p, p->outs & ~(UINT64_C(1) << number));
    unroll_small(p, RUNNING);
    cpu_split(p, number, p->size[number], AXIS_UPCAST);
    if (lane >= 0 && cpu_worth_lanes(p, lane)) lanes_on(p, lane, pages_apart(p, number) ? 4 : 1);
}

/* A short row that is kept stays in registers: its loop has the iterations of the reduces, none is left. */
static bool whole_row(Trial *p, int number)
{
    int64_t n = p->size[number], w = cpu_lane_width(p, n);
    if (w < 4 || iterations_together(p, ceil_to(n, w) / w) * w < n || !cpu_padto(p, number, w)) return false;
    cpu_split(p, number, w, AXIS_UPCAST);
    if (opt_axis(p->k, number) >= 0) cpu_split(p, number, trial_size(p, number), AXIS_UPCAST);
    return true;
}

/* Reduce axes along which loads are contiguous, or all, each in its own loop (row statistics), and the output axis
 * beside them, which no reduce needs. */
static void statistics(Trial *p, bool kept, bool all, bool single)
{
    for (uint32_t i = p->nout; i < p->naxis; i++) {
        bool contiguous = all;
        for (uint32_t j = 0; j < p->naccess; j++) contiguous |= p->access[j].step[p->number[i]] == 1;
        if (contiguous) reduce_lanes(p, p->number[i], single);
    }
    uint64_t beside = p->outs & ~p->rows;
    for (uint32_t i = 0; i < p->nout; i++)
        if (p->depend[p->number[i]]) beside &= ~(UINT64_C(1) << p->number[i]);
    int lane = cpu_best_lane(p, beside);
    if (lane >= 0 && !(kept && whole_row(p, lane))) lanes_on(p, lane, 2);
}

/* A row axis along which everything lies side by side, does not change, or is a constant that can be packed: its lanes
 * serve the statistic and the loops behind it. */
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

/* Loops on which more of a row's statistics depend go outside of those on which fewer do: else a statistic is computed
 * again for each of their iterations. false: they are there already. */
static bool rows_first(Trial *p)
{
    uint32_t before = p->out->count;
    for (uint32_t i = 0; i < p->nout; i++) {
        uint64_t fewer = 0;
        for (uint32_t j = 0; j < p->nout; j++)
            if (p->depend[p->number[j]] < p->depend[p->number[i]]) fewer |= UINT64_C(1) << p->number[j];
        if (fewer) cpu_move_out(p, p->number[i], fewer);
    }
    return p->out->count > before;
}

/* What a reduce's loop computes and a later one needs again. */
static bool keep_rows(Trial *p)
{
    bool kept = false;
    for (uint32_t i = p->nout; i < p->naxis; i++)
        kept |= trial_op(p, (OptOp){ .kind = OPT_KEEP, .axis = (int8_t)opt_axis(p->k, p->number[i]) });
    return kept;
}

/* ---- proposals ---- */

/* One list of a kernel with reduces: which loops come first, what is kept, where lanes lie, how many vectors, how many
 * rows and, of lanes that lie along outputs, how many terms at once; SQUARE: short rows as squares. */
enum { ON_CONTIGUOUS_REDUCES = -1, ON_REDUCES = -2, SQUARE = 0 };
typedef struct {
    bool first, kept;
    int lane;
    int8_t vectors, rows, terms;
} Proposal;
enum { TEXT_MOST = 1200, SQUARE_MOST = 4000 };                     /* instructions of a kernel that is worth a look */
static const double sure = 0.8,             /* an estimate below this share of another's is one to believe */
    over_dot = 1.5;                         /* lanes of outputs may cost so many of a sum's lanes: these need adding */

/* The innermost row loop that has no lanes. */
static int inner_row(const Trial *p, int lane)
{
    for (uint32_t i = p->nout; i-- > 0;)
        if ((p->rows >> p->number[i] & 1) && p->number[i] != lane && !is_symbolic(p, p->number[i])) return p->number[i];
    return -1;
}

/* May a loop's lanes take several vectors at once? Else a proposal of more is that of one. */
static bool has_vectors(const Trial *p, int lane)
{
    return is_symbolic(p, lane) ? cpu_divisor(p, lane) % (2 * p->lanes) == 0 : p->size[lane] > p->lanes;
}

/* Long reduces take so many terms at once, in sums of their own. */
static bool terms_at_once(Trial *p, int64_t n)
{
    bool any = false;
    for (uint32_t i = p->nout; i < p->naxis; i++) {
        int number = p->number[i];
        if (opt_axis(p->k, number) < 0 || is_symbolic(p, number) || trial_size(p, number) % n) continue;
        any |= cpu_split(p, number, n, AXIS_UNROLL);
    }
    return any;
}

/* Short rows in squares of as many rows as lanes, in which rows and columns change places (expand.c): no statistic goes
 * across lanes, and what is made of it is made for a vector of rows (a log-softmax of 16384 rows of 16: 0.23 ms, 0.075
 * so). */
static bool rows_in_squares(Trial *p, int lane)
{
    int64_t w = p->size[p->number[p->nout]];
    if (w < 4 || w > p->lanes || (w & (w - 1)) || is_symbolic(p, lane) || p->size[lane] < w ||
        !cpu_split(p, lane, w, AXIS_UPCAST))
        return false;
    for (uint32_t i = 0; i < p->naxis; i++) {
        int number = p->number[i];
        AxisType type = i < p->nout ? AXIS_UPCAST : AXIS_UNROLL;
        if (i < p->nout && (p->rows >> number & 1)) continue;
        if (p->size[number] != w || is_symbolic(p, number) || !cpu_split(p, number, w, type)) return false;
    }
    return true;
}

static bool propose(Trial *p, const Proposal *c)
{
    int row = inner_row(p, c->lane);
    if (c->rows > 1 && (row < 0 || p->size[row] < c->rows)) return false;
    if (c->vectors > 1 && c->lane >= 0 && !has_vectors(p, c->lane)) return false;
    compute_once(p);
    if (c->first && !rows_first(p)) return false;
    bool kept = c->kept && keep_rows(p);
    if (c->kept && !kept) return false;
    if (c->terms == SQUARE) {
        if (!rows_in_squares(p, c->lane)) return false;
    } else if (c->lane < 0) statistics(p, kept, c->lane == ON_REDUCES, c->vectors > 1);
    else {
        int64_t n = p->size[c->lane];
        unroll_small(p, SHORT);
        if (p->contraction && n < p->lanes) cpu_lanes(p, c->lane, cpu_lanes_of_short(p, c->lane, n), 1);
        else lanes_on(p, c->lane, c->vectors);
        if (c->terms > 1 && !terms_at_once(p, c->terms)) return false;
    }
    if (c->rows > 1 && !cpu_split(p, row, c->rows, AXIS_UPCAST)) return false;
    cpu_share(p, -1);
    trial_pack(p);
    return true;
}

/* What the list costs, by the estimate. p->k is lowered. */
static double estimate(Trial *p, uint32_t most)
{
    if (kernel_lower(p->k, p->t, NULL) != TG_OK || p->k->linear->nsrc > most) return 1e30;
    return kernel_cost(p->k, p->t).seconds;
}

static void try_proposal(Trial *p, const Kernel *k, const Proposal *c, OptList *best, double *least)
{
    trial_again(p, k);
    double cost = propose(p, c) ? estimate(p, c->terms == SQUARE ? SQUARE_MOST : TEXT_MOST) : 1e30;
    if (cost >= *least) return;
    *least = cost;
    *best = *p->out;
}

/* Of a kernel with row statistics: the list of least cost. */
static void best_of_rows(Trial *p, const Kernel *k)
{
    static const struct { int8_t vectors, rows, terms; } shape[] = { { 1, 1, 1 }, { 2, 1, 1 }, { 4, 1, 1 },
                                                                     { 1, 4, 1 }, { 1, 1, 4 }, { 1, 1, SQUARE } };
    OptList best = *p->out;
    double least = estimate(p, UINT32_MAX) * sure;
    for (int lane = ON_REDUCES; lane < 64; lane++)
        for (uint32_t i = 0; i < (lane < 0 || p->outs >> lane & 1 ? 4 : 0); i++)
            for (uint32_t s = 0; s < sizeof shape / sizeof *shape; s++) {
                Proposal c = { i & 1, i >> 1 & 1, lane, shape[s].vectors, shape[s].rows, shape[s].terms };
                /* there, two stands for one vector at a time (reduce_lanes) */
                if (lane < 0 && (c.terms != 1 || (c.rows == 1 && c.vectors > (lane == ON_REDUCES ? 2 : 1)))) continue;
                if (c.terms != SQUARE || p->rows >> lane & 1) try_proposal(p, k, &c, &best, &least);
            }
    *p->out = best;
}

/* A window of few places that a constant weighs, the same along the lanes: no operand is shared by a tile's rows, but
 * what rows load is. */
static bool is_window(const Trial *p, int lane)
{
    bool own = false, same = true;
    for (uint32_t i = 0; i < p->naccess; i++) {
        const Access *a = &p->access[i];
        if (a->store || !(a->ranges & p->reduces)) continue;
        own |= (a->ranges & p->outs) == p->outs && !a->constant;
        same &= !a->constant || !(a->ranges >> lane & 1);
    }
    return own && same && p->reduced <= WINDOW && p->outs == p->rows && !is_symbolic(p, lane);
}

/* Windows whole, for several vectors or rows at once, so that what these have in common is loaded once (512 x 16
 * pictures of 32 x 5, 3 x 3: 2.0 ms, 0.40). */
static void best_of_windows(Trial *p, const Kernel *k, int lane)
{
    static const struct { int8_t vectors, rows; } shape[] = { { 1, 1 }, { 4, 1 }, { 2, 2 }, { 1, 2 }, { 1, 4 } };
    OptList best = *p->out;
    double least = estimate(p, UINT32_MAX) * sure;
    for (uint32_t s = 0; s < sizeof shape / sizeof *shape; s++) {
        Proposal c = { .lane = lane, .vectors = shape[s].vectors, .rows = shape[s].rows, .terms = 1 };
        try_proposal(p, k, &c, &best, &least);
    }
    *p->out = best;
}

/* ---- forms of a sum ---- */

enum { FEW = 16, ROWS = 4 };            /* columns, at most; rows of them at a time */

/* Where rows of a few columns follow each other, what is reduced across the rows: the columns; -1: it is otherwise. */
static int narrow_columns(const Trial *p, int reduce)
{
    int column = -1;
    for (uint32_t i = 0; i < p->naccess; i++) {
        const Access *a = &p->access[i];
        if (a->store || !(a->ranges >> reduce & 1)) continue;
        int found = -1;
        for (int n = 0; n < 64; n++)
            if ((p->outs >> n & 1) && a->step[n] == 1 && a->step[reduce] == p->size[n]) found = n;
        if (found < 0 || (column >= 0 && column != found)) return -1;
        column = found;
    }
    return column;
}

/* How the lanes of a sum (a maximum) lie, in one vector at a time or several; out: an output axis, or -1. */
typedef void FormFn(Trial *p, int reduce, int out, bool single);
typedef struct { FormFn *apply; bool single; } Form;

static void terms_in_lanes(Trial *p, int reduce, int out, bool single)
{
    (void)out;
    reduce_lanes(p, reduce, single);
    if (!single) sum_between(p, reduce);
}

static void outs_in_lanes(Trial *p, int reduce, int out, bool single)
{
    (void)reduce;
    unroll_small(p, SHORT);
    lanes_on(p, out, single ? 1 : 4);
}

/* Four rows of few columns have sums of their own: else each sum waits for its last step. */
static void rows_at_a_time(Trial *p, int reduce, int column, bool single)
{
    (void)single;
    cpu_padto(p, reduce, ROWS);
    cpu_split(p, reduce, ROWS, AXIS_UNROLL);
    if (p->size[column] < 4) cpu_split(p, column, p->size[column], AXIS_UPCAST);
    else lanes_on(p, column, 4);
}

/* Lanes that hold n values, nothing in the last. */
static int64_t padded(int64_t n)
{
    int64_t w = 4;
    while (w < n) w *= 2;
    return w;
}

/* Rows of so few columns that none divides a vector: the next power of two of them. */
static void padded_columns(Trial *p, int reduce, int column, bool single)
{
    int64_t w = padded(p->size[column]), rows = single ? ROWS : 2 * ROWS;
    if (!cpu_padto(p, column, w)) return;
    cpu_padto(p, reduce, rows);
    cpu_split(p, reduce, rows, AXIS_UNROLL);
    cpu_split(p, column, w, AXIS_UPCAST);
}

/* The first, unless the estimate is sure that another is better: terms or what follows the sum may be costly. */
static void best_form(Trial *p, const Kernel *k, const Form *form, int n, int reduce, int out)
{
    double least = 0, cost;
    int best = 0;
    for (int f = 0; f < n; f++) {
        trial_again(p, k);
        compute_once(p);
        form[f].apply(p, reduce, out, form[f].single);
        cpu_share(p, -1);
        cost = estimate(p, TEXT_MOST);
        if (f && cost >= least * (best ? 1 : sure)) continue;
        least = cost;
        best = f;
    }
    trial_again(p, k);
    compute_once(p);
    form[best].apply(p, reduce, out, form[best].single);
}

/* (1000 x 100 x n, the greatest: of 2, 0.22 ms, in rows 0.06; of 3, 0.15, 0.04; of 4, 0.11, 0.03; of 7, 0.11, 0.05.
 * Sums of exponentials of 400 x 100 x n, in rows and with terms in lanes: of 2, 0.29, 0.014; of 5, 0.10, 0.06. The
 * place of the greatest of 100 x 3574 x 3, in rows 0.79, padded to four columns 0.25.) */
static bool few_columns(Trial *p, const Kernel *k, int reduce)
{
    static const Form form[] = { { rows_at_a_time, false }, { terms_in_lanes, false }, { terms_in_lanes, true },
                                 { padded_columns, true },  { padded_columns, false } };
    int column = reduce >= 0 && p->naxis == p->nout + 1 ? narrow_columns(p, reduce) : -1;
    int64_t n = column < 0 ? 0 : p->size[column], rows = reduce < 0 ? 0 : p->size[reduce];
    if (n < 2 || n >= FEW || rows <= SHORT || is_symbolic(p, column) || is_symbolic(p, reduce)) return false;
    best_form(p, k, form, n == 2 || (n & (n - 1)) ? 5 : 3, reduce, column);
    return true;
}

/* A whole short sum in one vector, or in two that are added. */
static void padded_terms(Trial *p, int reduce, int out, bool single)
{
    int64_t w = padded(p->size[reduce]), lanes = w < p->lanes ? w : p->lanes;
    (void)out, (void)single;
    if (!cpu_padto(p, reduce, w)) return;
    cpu_split(p, reduce, lanes, AXIS_UNROLL);
    if (w > lanes) cpu_split(p, reduce, w / lanes, AXIS_UNROLL);
}

static void lanes_if_worth(Trial *p, int reduce, int out, bool single)
{
    if (out >= 0 && cpu_worth_lanes(p, out)) outs_in_lanes(p, reduce, out, single);
    else unroll_small(p, SHORT);
}

/* Short sums whose outputs do not lie side by side as their terms do: lanes along none cost each term a load of its
 * own (the place of the greatest of 7, 327680 times, stored in another order: 4.0 ms, now 0.5; of 17, 15856 times, in
 * four vectors 0.20, in one 0.08). */
static bool short_sum(Trial *p, const Kernel *k, int reduce, int out)
{
    static const Form form[] = { { lanes_if_worth, false }, { lanes_if_worth, true }, { padded_terms, true } };
    bool fits = reduce >= 0 && p->naxis == p->nout + 1 && !is_symbolic(p, reduce) && p->size[reduce] <= 2 * p->lanes;
    if (!fits || p->size[reduce] < 3 || (out >= 0 && is_symbolic(p, out))) return false;
    best_form(p, k, form, 3, reduce, out);
    return true;
}

/* Lanes along the terms, if they cost less there; along outputs where what follows the sum is what counts. */
static bool sum_in_lanes(Trial *p, const Kernel *k, int reduce, int out)
{
    static const Form form[] = { { terms_in_lanes, false }, { outs_in_lanes, false }, { outs_in_lanes, true } };
    if (reduce < 0 || !cpu_sums_in_lanes(p, reduce, out)) return false;
    if (out < 0 || is_symbolic(p, out) || is_symbolic(p, reduce)) terms_in_lanes(p, reduce, out, false);
    else best_form(p, k, form, 3, reduce, out);
    return true;
}

/* Whether some load's elements are neighbours along another loop than the lanes'. */
static bool moves_across(const Trial *p, int lane)
{
    for (uint32_t i = 0; lane >= 0 && i < p->naccess; i++)
        if ((p->access[i].ranges >> lane & 1) && p->access[i].step[lane] != 1 && p->access[i].step[lane] != NO_STEP)
            return true;
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
    double least = estimate(p, UINT32_MAX) * sure, cost;
    for (int lane = 0; lane < 64; lane++)
        for (int row = 0; row < 64; row++) {
            if (!(p->outs >> lane & 1) || !(p->outs >> row & 1) || is_symbolic(p, lane) || is_symbolic(p, row) ||
                !has_step_one(p, lane) || (row != lane && !has_step_one(p, row)))
                continue;
            int64_t width = lanes_of_all(p, lane);
            if (width < 4 || p->size[row] < width) continue;
            trial_again(p, k);
            compute_once(p);
            if (!cpu_split(p, lane, width, AXIS_UPCAST) || (row != lane && !cpu_split(p, row, width, AXIS_UPCAST)))
                continue;
            cpu_share(p, -1);
            if ((cost = estimate(p, SQUARE_MOST)) >= least) continue;
            least = cost;
            best = *p->out;
        }
    *p->out = best;
}

/* Are terms of a sum looked up at data-dependent places, in place of being walked through? Or one look-up by
 * another? */
static bool looks_up(const Trial *p)
{
    int n = 0;
    for (uint32_t i = 0; i < p->naccess; i++)
        if (!p->access[i].store && p->access[i].placed) n += p->access[i].placed & p->reduces ? 2 : 1;
    return n > 1;
}

static void cpu(Trial *p, const Kernel *k)
{
    int out = cpu_best_lane(p, p->outs), reduce = cpu_best_lane(p, p->reduces);
    if (p->contraction) {
        if (cpu_operations(p, k)) return;
        if (out >= 0 && (reduce < 0 || cpu_lane_cost(p, out) <= over_dot * cpu_lane_cost(p, reduce)))
            cpu_contract(p, out);
        else if (reduce >= 0 && cpu_lane_cost(p, reduce) < cpu_scalar_cost(p)) cpu_dot_products(p, reduce);
        else cpu_share(p, -1);
        if (out >= 0 && is_window(p, out)) best_of_windows(p, k, out);
        return;
    }
    compute_once(p);
    bool has_rows = p->rows != p->outs, kept = has_rows && keep_rows(p);
    int row = has_rows ? row_lane(p) : -1, same = shares_terms(p);
    bool looked_up = looks_up(p), across = !p->reduces && cpu_farthest(p) < 0 && moves_across(p, out);
    if (same >= 0) running(p, same);
    else if (row >= 0) lanes_on(p, row, 2);
    else if (has_rows) statistics(p, kept, false, false);
    else if (few_columns(p, k, reduce)) { }
    else if (sum_in_lanes(p, k, reduce, out)) { }
    else if (move_block(p)) { }
    else if (short_sum(p, k, reduce, out)) { }
    else {
        bool shares = !p->reduces && out >= 0 && cpu_worth_lanes(p, out);
        lanes_if_worth(p, reduce, out, !p->reduces);
        if (shares) share_loads(p, out);
    }
    cpu_share(p, -1);
    trial_pack(p);
    if ((has_rows || looked_up) && same < 0) best_of_rows(p, k);
    else if (across) best_of_moves(p, k);
}

static double cost_of(const Kernel *k, const OptList *l, const Target *t)
{
    Kernel *copy = kernel_clone(k);
    double seconds = opt_apply_list(copy, l, t) == TG_OK && kernel_lower(copy, t, NULL) == TG_OK
        ? kernel_cost(copy, t).seconds : 1e30;
    kernel_free(copy);
    status_clear();
    return seconds;
}

/* Kernels that wait for memory store past the caches. Those that compute have the lines by then (an exact Gelu of 3.3
 * million numbers: 1.07 ms, 1.16; their exponentials: 0.90, 0.65). */
static void stream(Trial *p, const Kernel *k)
{
    OptList list = *p->out, with = list;
    trial_again(p, k);
    uint32_t before = p->out->count;
    trial_stream(p);
    for (uint32_t i = before; i < p->out->count && with.count < OPT_MAX; i++) with.op[with.count++] = p->out->op[i];
    *p->out = with.count > list.count && cost_of(k, &with, p->t) < sure * cost_of(k, &list, p->t) ? with : list;
}

void heuristic_opts(OptList *out, const Kernel *k, const Target *t)
{
    if (t->max_block) {
        gpu_opts(out, k, t);
        return;
    }
    Trial *p = trial_new(out, k, t);
    if (!strcmp(t->kind, "cpu") && p->nout < 60) cpu(p, k), stream(p, k);
    trial_free(p);
}
