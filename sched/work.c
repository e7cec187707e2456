/* How much a kernel does: float operations of its loops, of what its part of the graph needs, of what its instructions
 * execute; bytes that it touches. What is executed beyond what is needed was made again: by a value that several
 * indices want, by tiles that overlap or are padded, by loops around what does not depend on them. A value that several
 * kernels make for themselves counts as needed in each.
 */
#include <math.h>

#include "sched/rangeify.h"

static double trips(const UOp *const *range, uint64_t open)
{
    double n = 1;
    for (; open; open &= open - 1) n *= (double)range[__builtin_ctzll(open)]->src[0]->vmax;
    return n;
}

/* Operations of a node each time that it is computed; 0: it is none. */
static double operations(const UOp *u)
{
    if (!dtype_is_float((DType)u->dtype) || u->op == UOP_WHERE || u->op == UOP_CAST) return 0;
    if (u->op == UOP_WMMA) return 1;
    return !op_is((Op)u->op, FLAG_ALU) ? 0 : u->op == UOP_MULACC ? 2 : 1;
}

static void find_ranges(const UOp **range, const UOp *const *order, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (order[i]->op == UOP_RANGE) range[range_number(order[i])] = order[i];
}

static double flops_of(const UOp *const *order, uint32_t n, const UOp *const *range)
{
    double flops = 0;
    for (uint32_t i = 0; i < n; i++) {
        const UOp *u = order[i];
        bool sum = u->op == UOP_REDUCE && dtype_is_float((DType)u->dtype);
        if (sum) flops += trips(range, u->src[0]->ranges | u->ranges) * (double)uop_numel(u->src[0]);
        else if (operations(u) > 0) flops += trips(range, u->ranges) * operations(u) * (double)uop_numel(u);
    }
    return flops;
}

double kernel_flops(const Kernel *k)
{
    Arena *a = arena_new();
    uint32_t n;
    const UOp **order = uop_toposort(k->g, &k->root, 1, a, &n), *range[64] = { 0 };
    find_ranges(range, order, n);
    double flops = flops_of(order, n, range);
    arena_free(a);
    return flops;
}

static int64_t clamp64(double v) { return v > 9e18 ? INT64_MAX : (int64_t)v; }

static double bytes_of(const UOp *u) { return (double)uop_numel(u) * (double)dtype_size((DType)u->dtype); }

/* Float operations of a launch, and bytes of the buffers that it touches: each once, and no more than it accesses. */
void kernel_count(Kernel *k)
{
    Arena *a = arena_new();
    uint32_t n;
    double *touched = NEW_N(a, double, k->nparam + 1);
    const UOp **order = uop_toposort(k->g, &k->root, 1, a, &n), *range[64] = { 0 };
    double bytes = 0;
    find_ranges(range, order, n);
    for (uint32_t i = 0; i < n; i++) {
        const UOp *u = order[i];
        const UOp *param = u->op == UOP_INDEX ? uop_memory(u->src[0]) : NULL;
        if (param && param->op == UOP_PARAM && (uint32_t)param->arg.i < k->nparam)
            touched[param->arg.i] += trips(range, u->ranges) * bytes_of(u);
    }
    for (uint32_t i = 0; i < n; i++)
        if (order[i]->op == UOP_PARAM && (uint32_t)order[i]->arg.i < k->nparam)
            bytes += fmin(bytes_of(order[i]), touched[order[i]->arg.i]);
    k->flops = clamp64(flops_of(order, n, range));
    k->bytes = clamp64(bytes);
    arena_free(a);
}

/* Of the instructions, whichever loops they stand in. */
static double linear_flops(const Kernel *k)
{
    double flops = 0, open[128] = { 1 };
    uint32_t depth = 0;
    for (uint32_t i = 0; i < k->linear->nsrc; i++) {
        const UOp *u = k->linear->src[i];
        if (u->op == UOP_RANGE && depth < 127) depth++, open[depth] = open[depth - 1] * (double)u->src[0]->vmax;
        else if (u->op == UOP_END && depth) depth--;
        else if (u->op == UOP_REDUCE) flops += open[depth] * (double)uop_numel(u->src[0]);
        else flops += open[depth] * operations(u) * (double)uop_numel(u);
    }
    return flops;
}

void kernel_executes(Kernel *k, double optimized)
{
    double selected = kernel_flops(k), linear = linear_flops(k);
    k->executed = selected > 0 ? optimized * linear / selected : optimized;
}

/* ---- needed ---- */

static double elements(const Inst *i)
{
    return (double)uop_numel(i->node->op == UOP_REDUCE ? i->node->src[0] : i->node);
}

/* What one demand computes. */
static double computed(const Rangeify *r, const Inst *i)
{
    const Cut *c = &r->cut[i->cut];
    double n = cut_extent(c, i->enclosing);
    for (uint32_t k = 0; k < i->nrange; k++) n *= (double)i->range[k]->src[0]->vmax;
    return n;
}

double *cuts_need(const Rangeify *r)
{
    double *need = NEW_N(r->arena, double, r->ncut + 1), *of_node = NEW_N(r->arena, double, r->ncut + 1);
    for (uint32_t i = 0, end; i < r->ninst; i = end) {
        const UOp *u = r->all[i]->node;
        bool counts = operations(u) > 0 || (u->op == UOP_REDUCE && dtype_is_float((DType)u->dtype));
        for (end = i; end < r->ninst && r->all[end]->node == u; end++)
            if (counts && (!r->buffer[u->id] || r->all[end]->root))
                of_node[r->all[end]->cut] += computed(r, r->all[end]);
        for (uint32_t k = i; k < end; k++) {
            double *n = &of_node[r->all[k]->cut], most = elements(r->all[k]);
            need[r->all[k]->cut] += *n < most ? *n : most;
            *n = 0;
        }
    }
    return need;
}
