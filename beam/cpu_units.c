/* See cpu.h: sums of products by operations of the device's own: tiles of a matrix unit first, then dot products in
 * vectors. */
#include "beam/beam.h"
#include "beam/cpu.h"
#include "graph/wmma.h"

/* DOT_OTHERS: of a dot product, which takes its other operand in a register; CHOICES: pairs of axes of a TC that are
 * tried; TABLE_MAX: places of a table that are unrolled. */
enum { DOT_OTHERS = 4, CHOICES = 8, TABLE_MAX = 9 };

typedef struct { int k, m, n; int32_t row; } TilePlan;

/* Can the operands of the TC be made? */
static bool is_fragmented(const Kernel *k)
{
    Kernel *trial = kernel_clone(k);
    bool good = kernel_fragments(trial) == TG_OK;
    kernel_free(trial);
    return good;
}

/* Of what is summed the constants vary along it, and nothing else; where there are none, some of it does. */
static bool separates_lanes(const Trial *p, int number)
{
    bool constants = false, with = false, exact = true;
    for (uint32_t i = 0; i < p->naccess; i++) {
        const Access *a = &p->access[i];
        bool varies = a->ranges >> number & 1;
        if (a->store || !(a->ranges & p->reduces)) continue;
        constants |= a->constant;
        with |= varies;
        exact &= varies == a->constant;
    }
    return constants ? exact : with;
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
        if (other != t->m && other != t->n && p->size[other] > 1 && !cpu_meets_constants(p, other) &&
            cpu_split(p, other, 2, AXIS_UPCAST))
            return;
    }
}

/* The pair of axes that TC takes when it takes m and n: which operand is whose, it says itself. */
static bool try_tc(Trial *p, const TilePlan *t)
{
    for (int32_t choice = 0; choice < CHOICES; choice++)
        if (trial_op(p,
                     (OptOp){ .kind = OPT_TC, .axis = (int8_t)opt_axis(p->k, t->k), .factor = t->row + 16 * choice }))
            return true;
    return false;
}

/* A short loop of the sum that finds its places by a table (which parts of two numbers are multiplied): they become
 * known ones. */
static void unroll_tables(Trial *p)
{
    for (uint32_t r = p->nout; r < p->naxis; r++) {
        int number = p->number[r];
        bool table = false;
        for (uint32_t i = 0; i < p->naccess; i++)
            table |= (p->access[i].ranges >> number & 1) && p->access[i].step[number] == NO_STEP;
        if (table && p->size[number] <= TABLE_MAX && !is_symbolic(p, number))
            cpu_split(p, number, p->size[number], AXIS_UNROLL);
    }
}

/* A product for each of what weights depend on: all of one before the next. */
static bool share_batch(Trial *p, uint64_t batch)
{
    int number = __builtin_ctzll(batch);
    if ((batch & (batch - 1)) || is_symbolic(p, number) || opt_axis(p->k, number) < 0) return false;
    cpu_first(p, number);
    return trial_split(p, number, trial_size(p, number), AXIS_THREAD, false);
}

/* Two by two tiles of m and n where they are long enough; every window must be packed, or lie as it should. */
static bool try_tiles(Trial *p, const TilePlan *t)
{
    const Wmma *w = &wmma_row[t->row];
    bool cut = cpu_cut_rows(p, t->n, t->m, 4 * w->n, 0);
    double filled;
    int64_t n = p->size[t->n], tiles = 1, rows = wmma_cover(trial_size(p, t->m), &tiles, &filled);
    if (!rows || n < w->n || p->size[t->k] % w->k) return false;
    if (!cpu_split(p, t->n, ceil_to(n, 2 * w->n) * 4 <= ceil_to(n, w->n) * 5 ? 2 * w->n : w->n, AXIS_UPCAST) ||
        !cpu_split(p, t->m, rows * tiles, AXIS_UPCAST))
        return false;
    if (tiles == 1) second_row(p, t);
    unroll_tables(p);
    if (!try_tc(p, t)) return false;
    uint64_t batch = cpu_batch(p);
    if (batch && cpu_meets_constants(p, t->n) && !p->shared) cut = share_batch(p, batch);
    if (cut) cpu_share_columns(p, t->n);
    else {
        if (opt_axis(p->k, t->n) >= 0 && cpu_meets_constants(p, t->n)) cpu_move_out(p, t->n, p->outs & ~batch);
        cpu_share(p, batch ? -1 : t->n);
    }
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
                if (m == n || is_symbolic(p, t.k) || is_symbolic(p, t.m) || is_symbolic(p, t.n) ||
                    !separates(p, t.m, t.n))
                    continue;
                if (try_tiles(p, &t)) return true;
                trial_again(p, k);
            }
    return false;
}

/* Rows of vectors as in contract, each lane the dot product of neighbours along axis r. */
static bool try_dots(Trial *p, int r, int lane, int32_t row)
{
    const Wmma *w = &wmma_row[row];
    if (p->size[lane] < w->n || p->size[r] % w->k || !separates_lanes(p, lane)) return false;
    Tile best = cpu_best_tile(p, lane, DOT_OTHERS, cpu_large_columns(p, lane));
    if (!cpu_split(p, lane, w->n, AXIS_UPCAST)) return false;
    if (best.nv > 1) cpu_split(p, lane, best.nv, AXIS_UPCAST);
    if (best.m >= 0 && best.mr > 1) cpu_split(p, best.m, best.mr, AXIS_UPCAST);
    cpu_move_out(p, lane, p->outs);
    cpu_unroll_parts(p);
    cpu_share(p, cpu_larger_side(p, lane));
    if (!try_tc(p, &(TilePlan){ .k = r, .row = row })) return false;
    trial_pack(p);
    return is_fragmented(p->k);
}

static bool dots_of(Trial *p, const Kernel *k, int32_t row)
{
    for (uint32_t r = p->naxis; r-- > p->nout;)
        for (uint32_t n = p->nout; n-- > 0;) {
            if (!is_symbolic(p, p->number[r]) && !is_symbolic(p, p->number[n]) &&
                try_dots(p, p->number[r], p->number[n], row))
                return true;
            trial_again(p, k);
        }
    return false;
}

/* Tiles first: they do the most at once. */
bool cpu_operations(Trial *p, const Kernel *k)
{
    for (int tiled = 1; tiled >= 0; tiled--)
        for (int32_t row = 0; row < WMMA_COUNT; row++) {
            const Wmma *w = &wmma_row[row];
            if ((p->products != w->a && p->products != w->b) || !(p->t->wmma >> row & 1) || w->lanes > 1 ||
                wmma_tiled(w) != tiled)
                continue;
            if (tiled ? tiles_of(p, k, row) : dots_of(p, k, row)) return true;
        }
    return false;
}
