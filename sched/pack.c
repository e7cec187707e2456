/* PACK: a constant operand is copied, once at load, into the order in which the kernel's loops read it. Every gate that only kept its index inside disappears with it, and the
 * index becomes the loops' own row-major count: a GEMM's weights become panels [N/32][K][32] because its loops are such, and nothing here knows of GEMMs.
 */
#include <stdlib.h>
#include <string.h>

#include "graph/rewrite.h"
#include "sched/rangeify.h"

static const UOp *only_load(Kernel *k, uint32_t slot)
{
    Arena *a = arena_new();
    uint32_t n;
    const UOp **order = uop_toposort(k->g, &k->root, 1, a, &n), *found = NULL;
    bool one = true;
    for (uint32_t i = 0; i < n; i++)
        if (order[i]->op == UOP_LOAD && order[i]->src[0]->src[0]->op == UOP_PARAM && order[i]->src[0]->src[0]->arg.i == slot) {
            one &= !found;
            found = order[i];
        }
    arena_free(a);
    return one ? found : NULL;
}

/* Loops, then what is unrolled, then lanes: the innermost changes fastest. */
static int rank_of(const UOp *r) { return range_type(r) == AXIS_UPCAST ? 2 : range_type(r) == AXIS_UNROLL ? 1 : 0; }

static uint32_t pack_order(const Kernel *k, uint64_t open, const UOp **out)
{
    const UOp *axis[64];
    uint32_t n = opt_axes(k, axis, 64), m = 0;
    for (int rank = 0; rank < 3; rank++)
        for (uint32_t i = 0; i < n; i++)
            if ((open & range_bit(axis[i])) && rank_of(axis[i]) == rank) out[m++] = axis[i];
    return m;
}

TgStatus opt_pack(Kernel *k, uint32_t slot)
{
    if (slot >= k->nparam || k->param[slot].written) return fail(TG_USAGE, "optops: PACK of parameter %u", slot);
    if (!k->param[slot].constant) return fail(TG_USAGE, "optops: PACK of parameter %u, which is not a constant", slot);
    const UOp *load = only_load(k, slot), *range[64];
    if (!load) return fail(TG_USAGE, "optops: PACK: parameter %u is read in several ways", slot);
    Graph *g = k->g;
    uint64_t open = load->ranges;
    uint32_t n = pack_order(k, open, range);
    const UOp *at = uop_index(g, 0), *size = uop_index(g, 1);
    double total = 1;
    for (uint32_t i = n; i-- > 0;) {
        if (!uop_is_const(range[i]->src[0])) return fail(TG_USAGE, "optops: PACK under a symbolic range");
        at = index_math(g, UOP_ADD, index_math(g, UOP_MUL, range[i], size), at);
        size = index_math(g, UOP_MUL, size, range[i]->src[0]);
        total *= (double)range[i]->src[0]->vmax;
    }
    double plain = (double)uop_numel(load->src[0]->src[0]);
    if (total > 1.5 * plain + 1024) return fail(TG_USAGE, "optops: PACK makes parameter %u %.1f times as large", slot, total / plain);
    at = graph_rewrite(g, at, rules_symbolic(), 0, NULL);
    const UOp *param = uop_param(g, (DType)load->dtype, &size, 1, slot);
    const UOp *packed = UOP(g, UOP_LOAD, DT_VOID, NO_ARG, UOP(g, UOP_INDEX, DT_VOID, NO_ARG, param, at));
    k->pack[slot] = (KernelPack){ load, at, (int64_t)total };
    k->root = uop_substitute(g, k->root, &load, &packed, 1);
    return TG_OK;
}

/* The kernel that fills the packed copy: PARAM(0) is the copy, PARAM(1) the original. */
Kernel *pack_kernel(const Kernel *k, uint32_t slot)
{
    const KernelPack *p = &k->pack[slot];
    Kernel *c = calloc(1, sizeof *c);
    const UOp *range[64], *src[66], *from[66], *to[66];
    Graph *g = c->g = graph_new();
    const UOp *load = uop_copy(g, p->load, NULL), *at = uop_copy(g, p->at, NULL), *size = uop_index(g, p->numel);
    uint32_t n = pack_order(k, p->load->ranges, range);
    for (uint32_t i = 0; i < n; i++) from[i] = uop_copy(g, range[i], NULL), to[i] = uop_range(g, (int)i, from[i]->src[0], AXIS_LOOP);
    from[n] = load->src[0]->src[0];
    to[n] = UOP(g, UOP_PARAM, (DType)from[n]->dtype, ARG_I(1), from[n]->src[0]);
    load = uop_substitute(g, load, from, to, n + 1);
    at = uop_substitute(g, at, from, to, n);
    src[0] = UOP(g, UOP_STORE, DT_VOID, NO_ARG, UOP(g, UOP_INDEX, DT_VOID, NO_ARG, uop_param(g, (DType)load->dtype, &size, 1, 0), at), load);
    for (uint32_t i = 0; i < n; i++) src[i + 1] = to[i];
    c->root = UOP(g, UOP_SINK, DT_VOID, NO_ARG, uop_new(g, UOP_END, DT_VOID, NO_ARG, src, n + 1));
    c->nparam = 2;
    c->param[0].written = c->param[1].read = c->param[1].constant = true;
    kernel_count(c);
    kernel_key(c);
    kernel_name(c);
    return c;
}
