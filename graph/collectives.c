/* The collectives of seed 000, each a composition of movement, COPY and REDUCE: nothing here moves a byte. To add one:
 * its declaration in devices.h, and a row in tests/rules/test_devices.c. */
#include "graph/devices.h"

Devices first_devices(uint32_t n)
{
#define FOUR(k) (k), (k) + 1, (k) + 2, (k) + 3
    static const int64_t number[DEVICES_MAX] = { FOUR(0),  FOUR(4),  FOUR(8),  FOUR(12), FOUR(16), FOUR(20),
                                                 FOUR(24), FOUR(28), FOUR(32), FOUR(36), FOUR(40), FOUR(44),
                                                 FOUR(48), FOUR(52), FOUR(56), FOUR(60) };
#undef FOUR
    return (Devices){ number, n };
}

U copy_to(Graph *g, U x, int64_t device) { return is_error(x) ? x : UOP(g, UOP_COPY, DT_VOID, ARG_I(device), x); }

U copy_to_all(Graph *g, U x, Devices d)
{
    if (is_error(x)) return x;
    if (!d.n || d.n > DEVICES_MAX) return graph_fail(g, "copy: a tuple of %u devices", d.n);
    if (!uop_rank(x) || !uop_is_const(uop_dim(x, 0)) || uop_size(x, 0) % d.n)
        return graph_fail(g, "copy: axis 0 of %lld elements cannot be divided among %u devices",
                          uop_rank(x) ? (long long)uop_size(x, 0) : 0LL, d.n);
    return UOP(g, UOP_COPY, DT_VOID, ((Arg){ 0, graph_ints(g, d.device, d.n) }), x);
}

U replicated(Graph *g, U x, int64_t axis)
{
    if (is_error(x)) return x;
    int64_t at = axis_of(g, "replicated", axis, uop_rank(x));
    return at < 0 ? graph_fail(g, "replicated") : UOP(g, UOP_REPLICATED, DT_VOID, ARG_I(at), x);
}

/* x with a new axis of n in front. */
static U times(Graph *g, U x, uint32_t n)
{
    U dim[RANK_MAX];
    if (is_error(x) || uop_rank(x) + 1 >= RANK_MAX) return x;
    dim[0] = uop_index(g, n);
    for (uint32_t k = 0; k < uop_rank(x); k++) dim[k + 1] = uop_dim(x, k);
    return expand(g, x, dim, uop_rank(x) + 1);
}

/* [n * s, rest..] as [n, s, rest..]: a row each device. */
static U by_device(Graph *g, U x, Devices d)
{
    U dim[RANK_MAX];
    if (is_error(x)) return x;
    if (!uop_rank(x) || uop_rank(x) + 1 >= RANK_MAX || uop_size(x, 0) % d.n)
        return graph_fail(g, "collective: axis 0 cannot be divided among %u devices", d.n);
    dim[0] = uop_index(g, d.n);
    dim[1] = uop_index(g, uop_size(x, 0) / d.n);
    for (uint32_t k = 1; k < uop_rank(x); k++) dim[k + 1] = uop_dim(x, k);
    return reshape(g, x, dim, uop_rank(x) + 1);
}

/* [n, s, rest..] -> [n * s, rest..]; with n 1: [s, rest..] */
static U without_devices(Graph *g, U x)
{
    U dim[RANK_MAX];
    if (is_error(x)) return x;
    dim[0] = dim_mul(g, uop_dim(x, 0), uop_dim(x, 1));
    for (uint32_t k = 2; k < uop_rank(x); k++) dim[k - 1] = uop_dim(x, k);
    return reshape(g, x, dim, uop_rank(x) - 1);
}

/* All of x, wherever it is, to each device: broadcast and allgather. */
static U to_each(Graph *g, U x, Devices d)
{
    U all = replicated(g, copy_to_all(g, times(g, x, d.n), d), 0);
    return is_error(all) ? all : reshape(g, all, x->shape->dim, uop_rank(x));
}

U broadcast_to(Graph *g, U x, Devices d) { return to_each(g, x, d); }
U scatter(Graph *g, U x, Devices d) { return copy_to_all(g, x, d); }
U gather_from(Graph *g, U x, Devices d) { return copy_to(g, x, d.device[0]); }
U reduce_from(Graph *g, U x, Devices d) { return sum(g, by_device(g, gather_from(g, x, d), d), 0, false); }

U allgather(Graph *g, U x, Devices d) { return to_each(g, x, d); }

/* Each device's part [s, ..] in n pieces, piece k of all of them to device k: [n, n, s / n, ..], turned. */
U reduce_scatter(Graph *g, U x, Devices d)
{
    U parts = by_device(g, x, d), dim[RANK_MAX];
    int64_t order[RANK_MAX] = { 1, 0 };
    if (is_error(parts)) return parts;
    if (uop_size(parts, 1) % d.n || uop_rank(parts) + 1 >= RANK_MAX)
        return graph_fail(g, "reduce_scatter: %lld elements cannot be divided among %u devices",
                          (long long)uop_size(parts, 1), d.n);
    dim[0] = dim[1] = uop_index(g, d.n);
    dim[2] = uop_index(g, uop_size(parts, 1) / d.n);
    for (uint32_t k = 2; k < uop_rank(parts); k++) dim[k + 1] = uop_dim(parts, k);
    for (uint32_t k = 2; k < uop_rank(parts) + 1; k++) order[k] = k;
    U turned = permute(g, reshape(g, parts, dim, uop_rank(parts) + 1), order, uop_rank(parts) + 1);
    return without_devices(g, sum(g, copy_to_all(g, turned, d), 1, false));
}

U allreduce(Graph *g, U x, Devices d) { return allgather(g, reduce_scatter(g, x, d), d); }
