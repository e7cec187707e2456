/* See cpu.h: which loop lies in lanes, which is shared among threads, from what the accesses cost along them. */
#include "beam/cpu.h"

/* ---- ops ---- */

/* What divides what is left of a loop: its length where that is known. */
int64_t cpu_divisor(const Trial *p, int number)
{
    const UOp *axis[64];
    int at = opt_axis(p->k, number);
    opt_axes(p->k, axis, 64);
    return at < 0 ? 1 : index_divisor(axis[at]->src[0]);
}

bool cpu_padto(Trial *p, int number, int64_t multiple)
{
    int at = opt_axis(p->k, number);
    if (at < 0 || cpu_divisor(p, number) % multiple == 0) return at >= 0;
    return trial_op(p, (OptOp){ .kind = OPT_PADTO, .axis = (int8_t)at, .factor = (int32_t)multiple });
}

/* Lanes on a loop of the output; one of symbolic size gets as many more iterations as make it whole, whose elements are
 * gated. */
bool cpu_lanes(Trial *p, int number, int64_t lanes, int64_t together)
{
    return (!is_symbolic(p, number) || cpu_padto(p, number, lanes * together)) &&
        cpu_split(p, number, lanes, AXIS_UPCAST);
}

void cpu_first(Trial *p, int number)
{
    for (int at = opt_axis(p->k, number); at > 0; at--)
        if (!trial_op(p, (OptOp){ .kind = OPT_SWAP, .axis = (int8_t)at, .factor = at - 1 })) return;
}

/* Moves an output loop outwards past those in `past`, and past parts of loops that are none in the end. */
void cpu_move_out(Trial *p, int number, uint64_t past)
{
    const UOp *axis[64];
    for (int at = opt_axis(p->k, number); at > 0; at--) {
        opt_axes(p->k, axis, 64);
        bool open = range_type(axis[at - 1]) == AXIS_UPCAST || (past & range_bit(axis[at - 1]));
        if (!open || !trial_op(p, (OptOp){ .kind = OPT_SWAP, .axis = (int8_t)at, .factor = at - 1 })) return;
    }
}

/* ---- vector axis ---- */

/* In vector instructions, tried on the zoo's kernels (AVX2 and AVX-512): a lane that is gathered, one that misses as
 * its set is full, one value for all lanes; what is shuffled; accesses beside those of a sum's or a product's terms;
 * what a last vector may waste before it counts whole; what lanes that fetch each for themselves must save. */
static const double gathered = 0.6, missed = 3, broadcast = 0.5, shuffled = 2, beside_sum = 0.3, beside_product = 0.02,
                    much = 1.5, worth = 0.55;

/* Lanes that lie at a stride of whole pages share the sets of a cache, which holds fewer than there are lanes: each
 * access misses. Loaded places are gathered at once. Every other element, or all backwards, is two vectors and a
 * shuffle (expand.c). */
static double conflict(const Trial *p, const Access *a, int number)
{
    int64_t step = a->step[number];
    if (!a->store && a->bytes >= 4 && (a->placed >> number & 1)) return gathered * p->lanes;
    if (!a->store && (step == 2 || step == -1 || step == -2)) return 2 + shuffled;
    return step != NO_STEP && step && step * a->bytes % PAGE == 0 ? missed * p->lanes : p->lanes;
}

/* How often an access happens, beside those of the innermost loops. */
static double weight_of(const Trial *p, const Access *a)
{
    return !p->reduces || (a->ranges & p->reduces) ? 1 : p->contraction ? beside_product : beside_sum;
}

/* Does a short loop, which is unrolled, fill what lies between the lanes (a window of two at a stride of two)? Then all
 * is loaded side by side, and shuffled. */
static bool is_filled(const Trial *p, const Access *a, int number)
{
    int64_t step = a->step[number];
    if (p->contraction || a->store || a->gated || step < 2 || step > LANE_INTERLEAVED) return false;
    for (uint32_t i = p->nout; i < p->naxis; i++)
        if (a->step[p->number[i]] == 1 && p->size[p->number[i]] == step) return true;
    return false;
}

/* Cost of one inner iteration's accesses when this axis is in lanes, in vector instructions; scalar code costs one a
 * lane. */
double cpu_lane_cost(const Trial *p, int number)
{
    double cost = 0;
    for (uint32_t i = 0; i < p->naccess; i++) {
        const Access *a = &p->access[i];
        bool contiguous = a->step[number] == 1;
        double weight = weight_of(p, a);
        if (!(a->ranges >> number & 1)) cost += broadcast * weight;
        else if (contiguous || (a->constant && p->contraction)) cost += weight;
        else if (is_filled(p, a, number)) cost += shuffled * weight;
        else cost += weight * conflict(p, a, number);
    }
    return cost;
}

/* With what the last vector wastes. */
static double whole_cost(const Trial *p, int number)
{
    double n = (double)p->size[number], waste = (double)ceil_to(p->size[number], p->lanes) / n;
    return cpu_lane_cost(p, number) * (waste > much ? waste : 1 + (waste - 1) / 2);
}

int cpu_best_lane(const Trial *p, uint64_t among)
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

double cpu_scalar_cost(const Trial *p)
{
    double cost = 0;
    for (uint32_t i = 0; i < p->naccess; i++) cost += weight_of(p, &p->access[i]);
    return cost * p->lanes;
}

/* Lanes that each fetch for themselves save little where nothing is computed between, and are many times the text. */
bool cpu_worth_lanes(const Trial *p, int lane)
{
    return cpu_lane_cost(p, lane) + p->work < worth * (cpu_scalar_cost(p) + p->work * p->lanes);
}

/* Of a reduce axis: the widest power of two up to the lanes that divides n, or the lanes with padding where that is
 * worth it: only the last iteration is gated (peel.c). */
int64_t cpu_lane_width(const Trial *p, int64_t n)
{
    int64_t w = p->lanes;
    while (w > 1 && n % w) w /= 2;
    if (n < p->lanes / 2) return w;
    return ceil_to(n, p->lanes) * 4 <= n * 5 || (w * 2 < p->lanes && ceil_to(n, p->lanes) * 2 <= n * 3) ? p->lanes : w;
}

/* Are lanes along the reduce better than along the output? At the end of each sum they meet, which few iterations do
 * not pay for. */
bool cpu_sums_in_lanes(const Trial *p, int reduce, int out)
{
    double iterations = 1, width = (double)cpu_lane_width(p, p->size[reduce]);
    for (uint32_t i = p->nout; i < p->naxis; i++) iterations *= (double)p->size[p->number[i]];
    if (width < 4) return false;
    return out < 0 || whole_cost(p, reduce) + width / 4 * width / iterations < whole_cost(p, out);
}

/* ---- threads ---- */

/* LEAST_SHARED: operations and bytes of a kernel that pay for a phase of the team. Shares of threads that are busy: at
 * least; what the axis that is the first in memory is worth; what one further out is in a product, whose tiles lie in
 * caches, and elsewhere, where the parts of an inner axis begin anew in each row: many streams, and two threads in the
 * line where their parts meet. LINE: bytes of a cache's; NARROW_PART: of memory that a thread's part stores side by
 * side, below which its ends matter, by in_lines. */
enum { LEAST_SHARED = 20000, NARROW_PART = 256 };
static const double least_balance = 0.5, favour = 0.12, inward_product = 0.01, inward = 0.08, in_lines = 0.2;

/* Of n blocks of this loop among threads. The last of blocks that do not divide it begins early: two threads store the
 * same then, line by line, which counts where there is nothing else to do (12 columns turned to rows of 2304: 12.7 us,
 * 5.7). */
static double balance(const Trial *p, int number, int64_t n)
{
    int64_t block = p->together[number] ? p->together[number] : 1, size = p->size[number];
    double stored = size < n * block && !p->reduces ? (double)size / (double)block : (double)n;
    return stored / (double)ceil_to(n, p->t->threads);
}

/* Of a symbolic loop half counts as if it were the shortest: a batch of 1 to 4 is mostly 1, and one thread's then. */
static double expected_balance(const Trial *p, int number, const UOp *size)
{
    double most = balance(p, number, size->vmax);
    return uop_is_const(size) ? most : (most + balance(p, number, size->vmin > 1 ? size->vmin : 1)) / 2;
}

/* How far an index moves with a range, about: gates keep it inside at the ends only. */
static int64_t reach_of(const UOp *u, int number)
{
    if (!(u->ranges >> number & 1)) return 0;
    if (u->op == UOP_RANGE) return 1;
    if (u->op == UOP_MUL && uop_is_const(u->src[1])) return reach_of(u->src[0], number) * u->src[1]->arg.i;
    int64_t a = u->nsrc > 1 ? reach_of(u->src[u->nsrc - 2], number) : 0,
            b = u->nsrc > 1 ? reach_of(u->src[u->nsrc - 1], number) : 0;
    return u->op == UOP_ADD ? a + b : u->op == UOP_WHERE ? (a > b ? a : b) : 0;
}

/* The outermost axis in memory of what a kernel of constants reads (it runs once, and packs): a part of the loop then
 * reads a part of the file. -1: the kernel reads more. */
int cpu_farthest(const Trial *p)
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

/* Threads' parts of this loop, of n iterations now, meet inside of lines that are stored to, in each pixel or row. */
static bool meets_in_lines(const Trial *p, int number, int64_t n)
{
    for (uint32_t i = 0; i < p->naccess; i++) {
        const Access *a = &p->access[i];
        int64_t threads = p->t->threads, size = p->size[number], step = a->step[number];
        if (!a->store || step <= 0 || step == NO_STEP || n < 2) continue;
        step *= a->bytes;
        int64_t part = ceil_to(n, threads) / threads * (ceil_to(size, n) / n) * step;
        if (part < NARROW_PART && (part % LINE || step * size % LINE)) return true;
    }
    return false;
}

void cpu_share(Trial *p, int first)
{
    const UOp *axis[64];
    uint32_t n = opt_axes(p->k, axis, 64);
    int best = -1;
    double score = least_balance, further = p->contraction ? inward_product : inward;
    double work = (double)p->k->flops + (double)p->k->bytes;
    if (!p->t->has_threads || work < LEAST_SHARED || p->shared) return;
    if (first < 0) first = cpu_farthest(p);
    for (uint32_t i = 0; i < n; i++) {
        if (range_type(axis[i]) != AXIS_LOOP || axis[i]->src[0]->vmax < 2) continue;
        /* outside of the rows it would repeat their statistics */
        if (p->rows && (p->outs & ~p->rows) >> range_number(axis[i]) & 1) continue;
        int number = range_number(axis[i]);
        double b = expected_balance(p, number, axis[i]->src[0]) + (number == first ? favour : 0) - further * i;
        if (meets_in_lines(p, number, axis[i]->src[0]->vmax)) b -= in_lines;
        if (b > score) score = b, best = number;
    }
    if (best < 0) return;
    cpu_first(p, best);
    int at = opt_axis(p->k, best);
    opt_axes(p->k, axis, 64);
    trial_op(p,
             (OptOp){ .kind = OPT_SPLIT,
                      .axis = (int8_t)at,
                      .target = AXIS_THREAD,
                      .factor = uop_is_const(axis[at]->src[0]) ? (int32_t)axis[at]->src[0]->vmax : 0 });
}
