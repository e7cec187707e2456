/* Kernels as objects: copies, keys, names, counts. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "sched/sched.h"

void kernel_free(Kernel *k)
{
    if (!k) return;
    if (!k->owner) graph_free(k->g);
    free(k);
}

Kernel *kernel_shared(Kernel *k)
{
    Kernel *c = malloc(sizeof *c);
    *c = *k;
    c->owner = k->owner ? k->owner : k;
    return c;
}

/* The copy holds root (not linear): a search lowers many copies of one kernel. */
Kernel *kernel_clone(const Kernel *k)
{
    Kernel *c = malloc(sizeof *c);
    *c = *k;
    c->g = graph_new();
    c->owner = NULL;
    const UOp **memo = calloc(k->root->id + 1, sizeof *memo);
    c->root = uop_copy(c->g, k->root, memo);
    for (uint32_t i = 0; i < k->nvar; i++) c->var[i] = uop_copy(c->g, k->var[i], NULL);
    for (uint32_t i = 0; i < k->nparam; i++)
        if (k->pack[i].value) c->pack[i].value = uop_copy(c->g, k->pack[i].value, NULL), c->pack[i].at = uop_copy(c->g, k->pack[i].at, NULL);
    c->linear = NULL;
    free(memo);
    return c;
}

static double trips(const UOp *const *range, uint64_t open)
{
    double n = 1;
    for (; open; open &= open - 1) n *= (double)range[__builtin_ctzll(open)]->src[0]->vmax;
    return n;
}

static int64_t clamp64(double v) { return v > 9e18 ? INT64_MAX : (int64_t)v; }

/* Float operations of a launch, and bytes of the buffers that it touches. */
void kernel_count(Kernel *k)
{
    Arena *a = arena_new();
    uint32_t n;
    const UOp **order = uop_toposort(k->g, &k->root, 1, a, &n), *range[64] = { 0 };
    double flops = 0, bytes = 0;
    for (uint32_t i = 0; i < n; i++)
        if (order[i]->op == UOP_RANGE) range[range_number(order[i])] = order[i];
    for (uint32_t i = 0; i < n; i++) {
        const UOp *u = order[i];
        if (u->op == UOP_PARAM) bytes += (double)uop_numel(u) * (double)dtype_size((DType)u->dtype);
        if (!dtype_is_float((DType)u->dtype)) continue;
        if (u->op == UOP_REDUCE) flops += trips(range, u->src[0]->ranges | u->ranges);
        else if (op_is((Op)u->op, FLAG_ALU) && u->op != UOP_WHERE && u->op != UOP_CAST) flops += trips(range, u->ranges);
    }
    k->flops = clamp64(flops);
    k->bytes = clamp64(bytes);
    arena_free(a);
}

/* Structure only: the order of a fresh copy, which depends on neither ids nor addresses. */
static void key_bytes(const UOp *const *order, uint32_t n, uint32_t *at, XXH3_state_t *h)
{
    for (uint32_t i = 0; i < n; i++) {
        const UOp *u = order[i];
        struct { uint32_t op, dtype, tag, nsrc; int64_t arg; uint32_t blob, pad; } head = { u->op, u->dtype, u->tag, u->nsrc, u->arg.i, u->arg.blob ? u->arg.blob->size : 0, 0 };
        at[u->id] = i;
        XXH3_128bits_update(h, &head, sizeof head);
        if (u->arg.blob) XXH3_128bits_update(h, u->arg.blob->data, u->arg.blob->size);
        for (uint32_t k = 0; k < u->nsrc; k++) XXH3_128bits_update(h, &at[u->src[k]->id], sizeof *at);
    }
}

void kernel_key(Kernel *k)
{
    Arena *a = arena_new();
    Graph *g = graph_new();
    uint32_t n;
    const UOp *root = uop_copy(g, k->root, NULL), **order = uop_toposort(g, &root, 1, a, &n);
    XXH3_state_t *h = XXH3_createState();
    XXH3_128bits_reset(h);
    for (uint32_t i = 0; i < k->nparam; i++) XXH3_128bits_update(h, &k->param[i].constant, sizeof k->param[i].constant);
    key_bytes(order, n, NEW_N(a, uint32_t, graph_count(g)), h);
    XXH128_hash_t d = XXH3_128bits_digest(h);
    snprintf(k->key, sizeof k->key, "%016llx%016llx", (unsigned long long)d.high64, (unsigned long long)d.low64);
    XXH3_freeState(h);
    graph_free(g);
    arena_free(a);
}

/* r (has a reduce) or e, the sizes of its loops, and eight digits of its key. */
void kernel_name(Kernel *k)
{
    const UOp *range[64];
    uint32_t n = opt_axes(k, range, 64);
    bool reduces = false;
    char sizes[40] = "";
    for (uint32_t i = 0; i < n; i++) {
        size_t len = strlen(sizes);
        reduces |= range_type(range[i]) == AXIS_REDUCE;
        if (len < 28) snprintf(sizes + len, sizeof sizes - len, "_%lld", (long long)range[i]->src[0]->vmax);
    }
    snprintf(k->name, sizeof k->name, "%s%s_%.8s", reduces ? "r" : "e", sizes, k->key);
}

uint32_t opt_axes(const Kernel *k, const UOp **range, uint32_t cap)
{
    Arena *a = arena_new();
    uint32_t count, n = 0;
    uint64_t seen = 0;
    const UOp **order = uop_toposort(k->g, &k->root, 1, a, &count);
    for (uint32_t e = 0; e < k->root->nsrc; e++)
        for (uint32_t i = 1; k->root->src[e]->op == UOP_END && i < k->root->src[e]->nsrc; i++) {
            const UOp *r = k->root->src[e]->src[i];
            if (!(seen & range_bit(r)) && n < cap) range[n++] = r;
            seen |= range_bit(r);
        }
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t j = 1; order[i]->op == UOP_REDUCE && !order[i]->arg.blob && j < order[i]->nsrc; j++) {
            const UOp *r = order[i]->src[j];
            if (!(seen & range_bit(r)) && n < cap) range[n++] = r;
            seen |= range_bit(r);
        }
    arena_free(a);
    return n;
}
