/* See cpu.h: how a column of tiles, which all rows' tiles read, stays in a near cache. One whose terms crowd a few of
 * its sets is copied first (STAGE); of a long one the sum's loop stands outside of the tiles of rows (CARRY), and so
 * where there is one row only, which reads all columns once, as they lie in memory. */
#include <math.h>
#include <stdlib.h>

#include "beam/cpu.h"

/* Of a core's second cache: what a column has at least (197 x 3072 by 768 columns, 786 KB a column of 1 MB: 5.1 ms, 4.2
 * carried; 197 x 768, 196 KB: the same), and what the rows' sums may take. */
static const double column_least = 0.3, sums_most = 0.25;
/* Tiles of rows that pay for sums in memory (3072 terms by 768 columns, tiles of 4 or 6 rows: 16 rows 1.16 ms carried,
 * 0.88 not; 64 rows 4.5, 4.5; 512 rows 26.5, 28.2; two cores, AVX2). */
enum { CARRIED_TILES = 16 };
/* COPY_ROWS: that pay for a copy of a column. FEW_SETS: one is copied whose terms leave this many of the first cache's
 * sets unused for each that they use, as steps of large powers of two do (two cores, AVX2: 1024 x 1024 by 1024 columns
 * that are no constant 54.6 ms, 21.4 copied; AVX-512: 64 x 2048 by 512 0.97, 0.82). PAGES: one is that lies on more,
 * with few terms each, which want entries in the table of pages, unless tiles of so many bytes hide that (AVX2: 256 x
 * 300 by 1520 1.55, 1.11; AVX-512: 1.21, 1.29; attention over 4096 tokens of 64 terms 206 copied, 185 not; AVX2 251,
 * 241). */
enum { COPY_ROWS = 32, FEW_SETS = 4, PAGES = 64, HIDDEN_BY = 1024 };

double cpu_cached_bytes(const Trial *p, const Access *a, double bytes)
{
    double stride = 0;
    for (uint32_t r = p->nout; r < p->naxis && !a->constant; r++) {
        int64_t step = a->step[p->number[r]];
        if (step != NO_STEP) stride = fmax(stride, (double)((step & -step) * a->bytes));
    }
    return p->reduced * (stride < PAGE ? fmax(stride, bytes) : bytes);
}

/* What is summed and varies along the lanes. */
static bool is_column(const Trial *p, const Access *a, int lane)
{
    return !a->store && (a->ranges & p->reduces) && (a->ranges >> lane & 1);
}

static double column_bytes(const Trial *p, int lane, int64_t vectors)
{
    double most = 0;
    for (uint32_t i = 0; i < p->naccess; i++)
        if (is_column(p, &p->access[i], lane))
            most = fmax(most, cpu_cached_bytes(p, &p->access[i], (double)(p->access[i].bytes * vectors * p->lanes)));
    return most;
}

/* ---- copied ---- */

/* Bytes between terms, at the most; 0: some overlap, as windows do, and would be copied one by one. */
static int64_t term_bytes(const Trial *p, const Access *a, int64_t wide)
{
    int64_t most = 0;
    for (uint32_t r = p->nout; r < p->naxis; r++) {
        int64_t step = a->step[p->number[r]];
        if (step == NO_STEP) continue;
        if (step && llabs(step) * a->bytes < wide) return 0;
        if (llabs(step) * a->bytes > most) most = llabs(step) * a->bytes;
    }
    return most;
}

/* The param whose column, of so many vectors, has terms far from each other that the first cache does not hold as they
 * lie; NULL: none. */
static const Access *far_column(const Trial *p, int lane, int64_t vectors)
{
    const Access *far = NULL;
    for (uint32_t i = 0; i < p->naccess; i++) {
        const Access *a = &p->access[i];
        if (!is_column(p, a, lane) || a->constant) continue;
        int64_t wide = vectors * p->lanes * a->bytes, between = term_bytes(p, a, wide);
        if (between >= 2 * wide && p->reduced * (double)between > (double)p->t->l1_bytes) far = a;
    }
    return far;
}

/* Does a copy of it pay, where tiles have so many rows? */
static bool wants_copy(const Trial *p, const Access *a, int64_t vectors, int64_t rows)
{
    int64_t wide = vectors * p->lanes * a->bytes, between = term_bytes(p, a, wide), step = between & -between;
    if (step > PAGE) step = PAGE;
    if (between > PAGE) between = PAGE;
    bool crowded = step >= FEW_SETS * wide && p->reduced * (double)step > (double)p->t->l1_bytes,
         hidden = rows * vectors * p->t->vector_bytes >= HIDDEN_BY;
    return crowded || (!hidden && between >= PAGE / 4 && p->reduced * (double)between > (double)PAGES * PAGE);
}

static uint64_t ranges_of_load(const Kernel *k, int slot)
{
    Arena *a = arena_new();
    uint32_t n;
    uint64_t ranges = 0;
    const UOp **order = uop_toposort(k->g, &k->root, 1, a, &n);
    for (uint32_t i = 0; i < n; i++)
        if (order[i]->op == UOP_LOAD && order[i]->src[0]->src[0]->op == UOP_PARAM &&
            order[i]->src[0]->src[0]->arg.i == slot)
            ranges |= order[i]->ranges;
    arena_free(a);
    return ranges;
}

void cpu_stage(Trial *p, int lane, int64_t vectors, int64_t mr)
{
    const UOp *axis[64];
    uint32_t n = opt_axes(p->k, axis, 64);
    const Access *a = far_column(p, lane, vectors);
    uint64_t ranges = a && wants_copy(p, a, vectors, mr) ? ranges_of_load(p->k, (int)a->slot) : 0;
    double rows = 1;
    for (uint32_t i = n; i-- > 0 && ranges;) {
        AxisType type = range_type(axis[i]);
        if (type == AXIS_REDUCE || type == AXIS_UNROLL) continue;
        if (!(ranges & range_bit(axis[i]))) rows *= (double)axis[i]->src[0]->vmin;
        else if (type != AXIS_UPCAST) {
            if (rows >= COPY_ROWS)
                trial_op(p, (OptOp){ .kind = OPT_STAGE, .axis = (int8_t)a->slot, .factor = (int32_t)i, .target = 1 });
            return;
        }
    }
}

/* ---- read once ---- */

/* The fewest stretches of columns, for all threads alike, whose sums stay in the first cache; 0: nothing divides them.
 */
static int64_t stretches(const Trial *p, int64_t vectors)
{
    for (int64_t q = p->t->threads; q <= 8 * p->t->threads; q++)
        if (vectors % q == 0 && vectors / q * p->t->vector_bytes <= p->t->l1_bytes / 2) return q;
    return 0;
}

bool cpu_stream(Trial *p, int lane)
{
    int sum = p->number[p->nout];
    int64_t parts = p->size[lane] % p->lanes ? 0 : stretches(p, p->size[lane] / p->lanes), terms = 4;
    if (p->nout != 1 || p->naxis != 2 || p->shared || !parts || is_symbolic(p, lane) || is_symbolic(p, sum) ||
        !far_column(p, lane, 1) || !cpu_large_columns(p, lane))
        return false;
    while (p->size[sum] % terms) terms--;
    cpu_lanes(p, lane, p->lanes, 1);
    cpu_split(p, sum, terms, AXIS_UNROLL);
    trial_split(p, lane, parts, AXIS_THREAD, true);
    OptOp carry = { .kind = OPT_CARRY, .axis = (int8_t)opt_axis(p->k, sum), .factor = opt_axis(p->k, lane) };
    trial_op(p, carry);
    return true;
}

/* ---- carried ---- */

/* The last of the axes around a sum that is a term of another one: where opt_axes lists it; -1: there is none. */
static int outer_axis(const Kernel *k)
{
    Arena *a = arena_new();
    uint32_t n;
    int at = -1;
    const UOp **order = uop_toposort(k->g, &k->root, 1, a, &n);
    for (uint32_t i = 0; i < n; i++)
        if (order[i]->op == UOP_REDUCE && !order[i]->arg.blob && order[i]->src[0]->op == UOP_REDUCE)
            at = opt_axis(k, range_number(order[i]->src[order[i]->nsrc - 1]));
    arena_free(a);
    return at;
}

/* The first of the innermost loops of the output along which no column varies, whose sums fit; -1: there is none, or
 * they are too few. */
static int rows_axis(const Trial *p, int lane)
{
    const UOp *axis[64];
    uint32_t n = opt_axes(p->k, axis, 64);
    uint64_t columns = 0, outs = 0;
    double bytes = 4, room = sums_most * (double)p->t->l2_bytes, tiles = 1;
    int first = -1;
    for (uint32_t i = 0; i < p->naccess; i++)
        if (is_column(p, &p->access[i], lane)) columns |= p->access[i].ranges;
    for (uint32_t e = 1; e < p->k->root->src[0]->nsrc; e++) outs |= range_bit(p->k->root->src[0]->src[e]);
    for (uint32_t i = 0; i < n; i++)
        if ((outs & range_bit(axis[i])) && range_type(axis[i]) == AXIS_UPCAST) bytes *= (double)axis[i]->src[0]->vmax;
    for (uint32_t i = n; i-- > 0;) {
        if (!(outs & range_bit(axis[i])) || range_type(axis[i]) != AXIS_LOOP) continue;
        bytes *= (double)axis[i]->src[0]->vmax;
        if ((columns & range_bit(axis[i])) || !uop_is_const(axis[i]->src[0]) || bytes > room) break;
        first = (int)i;
        tiles *= (double)axis[i]->src[0]->vmax;
    }
    return tiles >= CARRIED_TILES ? first : -1;
}

void cpu_carry(Trial *p, int lane, int64_t vectors)
{
    int outer = p->k->root->nsrc == 1 ? outer_axis(p->k) : -1, rows = outer >= 0 ? rows_axis(p, lane) : -1;
    if (rows >= 0 && column_bytes(p, lane, vectors) > column_least * (double)p->t->l2_bytes)
        trial_op(p, (OptOp){ .kind = OPT_CARRY, .axis = (int8_t)outer, .factor = rows });
}
