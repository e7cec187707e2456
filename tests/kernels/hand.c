#include "graph/base/memory.h"
#include "tests/kernels/hand.h"

#include <stdlib.h>
#include <string.h>

Kernel *hand_kernel(void)
{
    Kernel *k = mem_zeros(1, sizeof *k);
    k->g = graph_new();
    strcpy(k->name, "hand");
    return k;
}

const UOp *hand_param(Kernel *k, int slot, DType t, int64_t size)
{
    const UOp *dim = uop_index(k->g, size);
    if ((uint32_t)slot >= k->nparam) k->nparam = (uint32_t)slot + 1;
    return uop_param(k->g, t, &dim, 1, slot);
}

const UOp *hand_loop(Kernel *k, int number, int64_t bound, AxisType type)
{
    return uop_range(k->g, number, uop_index(k->g, bound), type);
}

const UOp *hand_at(Kernel *k, const UOp *memory, const UOp *i, int64_t lanes)
{
    if (lanes == 1) return UOP(k->g, UOP_INDEX, DT_VOID, NO_ARG, memory, i);
    const UOp *n = uop_index(k->g, lanes);
    return UOP(k->g, UOP_SHRINK, DT_VOID, NO_ARG, memory, uop_sizes(k->g, &i, 1), uop_sizes(k->g, &n, 1));
}

const UOp *hand_load(Kernel *k, const UOp *address) { return UOP(k->g, UOP_LOAD, DT_VOID, NO_ARG, address); }
const UOp *hand_store(Kernel *k, const UOp *address, const UOp *value)
{
    return UOP(k->g, UOP_STORE, DT_VOID, NO_ARG, address, value);
}

const UOp *hand_end(Kernel *k, const UOp *effect, const UOp *const *range, uint32_t n)
{
    const UOp *src[65] = { effect };
    if (n) memcpy(src + 1, range, n * sizeof *range);
    return uop_new(k->g, UOP_END, DT_VOID, NO_ARG, src, n + 1);
}

const UOp *hand_add(Kernel *k, const UOp *a, const UOp *b) { return UOP(k->g, UOP_ADD, DT_VOID, NO_ARG, a, b); }
const UOp *hand_mul(Kernel *k, const UOp *a, const UOp *b) { return UOP(k->g, UOP_MUL, DT_VOID, NO_ARG, a, b); }

const UOp *hand_scaled(Kernel *k, const UOp *i, int64_t scale, int64_t offset)
{
    const UOp *s = scale == 1 ? i : hand_mul(k, i, uop_index(k->g, scale));
    return offset ? hand_add(k, s, uop_index(k->g, offset)) : s;
}

void hand_sink(Kernel *k, const UOp *const *effect, uint32_t n)
{
    k->root = uop_new(k->g, UOP_SINK, DT_VOID, NO_ARG, effect, n);
}
