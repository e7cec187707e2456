/* See cpu.h: where the loop of a long sum stands outside of the tiles of rows (CARRY), so that each part of a column of
 * tiles is read from a near cache. */
#include <math.h>

#include "beam/cpu.h"

/* Of a core's second cache: what a column has at least (197 x 3072 by 768 columns, 786 KB a column of 1 MB: 5.1 ms, 4.2
 * carried; 197 x 768, 196 KB: the same), and what the rows' sums may take. */
static const double column_least = 0.3, sums_most = 0.25;

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

/* The first of the innermost loops of the output along which no column varies, whose sums fit; -1: there is none. */
static int rows_axis(const Trial *p, int lane)
{
    const UOp *axis[64];
    uint32_t n = opt_axes(p->k, axis, 64);
    uint64_t columns = 0, outs = 0;
    double bytes = 4, room = sums_most * (double)p->t->l2_bytes;
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
    }
    return first;
}

void cpu_carry(Trial *p, int lane, int64_t vectors)
{
    int outer = p->k->root->nsrc == 1 ? outer_axis(p->k) : -1, rows = outer >= 0 ? rows_axis(p, lane) : -1;
    if (rows >= 0 && column_bytes(p, lane, vectors) > column_least * (double)p->t->l2_bytes)
        trial_op(p, (OptOp){ .kind = OPT_CARRY, .axis = (int8_t)outer, .factor = rows });
}
