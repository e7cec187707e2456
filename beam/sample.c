/* A sample of a kernel's outputs, for an oracle that is too slow for all of them: the loops around the stores run over
 * fewer values, spread over the axis with an odd step, so that every lane and replica of an optimised kernel is met;
 * reduces stay whole. Comes in: form 2 (kernel.h). Goes out: a kernel of its own of the same form, which stores a part
 * of the elements to their usual places. */
#include "beam/sample.h"

#include "sched/sched.h"

typedef struct { int64_t full, count; } Part;

/* Ranges that END lists, by number; those of symbolic size stay whole. */
static void look(const UOp *root, Part part[64])
{
    for (uint32_t i = 0; i < root->nsrc; i++)
        for (uint32_t k = 1; root->src[i]->op == UOP_END && k < root->src[i]->nsrc; k++) {
            const UOp *r = root->src[i]->src[k];
            if (r->op == UOP_RANGE && uop_is_const(r->src[0]))
                part[range_number(r)] = (Part){ r->src[0]->vmax, r->src[0]->vmax };
        }
}

/* Halves the longest loop until the rest is little enough. */
static void shorten(Part part[64], double work, double most)
{
    while (work > most) {
        Part *longest = &part[0];
        for (int i = 1; i < 64; i++)
            if (part[i].count > longest->count) longest = &part[i];
        if (longest->count < 2) return;
        int64_t half = (longest->count + 1) / 2;
        work *= (double)half / (double)longest->count;
        longest->count = half;
    }
}

/* Where the sample's range stands on the axis: an odd step, and a start that differs from kernel to kernel. */
static const UOp *place(Graph *g, const UOp *range, const Part *p, uint32_t salt)
{
    int64_t step = p->count > 1 ? (p->full - 1) / (p->count - 1) : 1;
    step -= step > 1 && step % 2 == 0;
    int64_t room = p->full - (p->count - 1) * step, start = (int64_t)(salt % (uint64_t)room);
    return UOP(g, UOP_ADD, DT_VOID, NO_ARG, UOP(g, UOP_MUL, DT_VOID, NO_ARG, range, uop_index(g, step)),
               uop_index(g, start));
}

static const UOp *sample_end(Graph *g, const UOp *end, const Part part[64], uint32_t salt)
{
    const UOp *src[65], *from[64], *to[64];
    uint32_t n = 0;
    for (uint32_t k = 1; k < end->nsrc; k++) {
        const UOp *r = src[k] = end->src[k];
        const Part *p = r->op == UOP_RANGE ? &part[range_number(r)] : NULL;
        if (!p || p->count == p->full) continue;
        src[k] = uop_range(g, range_number(r), uop_index(g, p->count), range_type(r));
        from[n] = r;
        to[n++] = place(g, src[k], p, salt + (uint32_t)k * 7919);
    }
    src[0] = uop_substitute(g, end->src[0], from, to, n);
    return uop_new(g, UOP_END, DT_VOID, NO_ARG, src, end->nsrc);
}

Kernel *kernel_sample(const Kernel *base, double work, double most)
{
    Part part[64] = { { 0, 0 } };
    const UOp *src[64];
    Kernel *k = kernel_clone(base);
    look(k->root, part);
    shorten(part, work, most);
    if (k->root->nsrc > 64) return k;
    for (uint32_t i = 0; i < k->root->nsrc; i++)
        src[i] = k->root->src[i]->op == UOP_END
            ? sample_end(k->g, k->root->src[i], part, (uint32_t)base->key[0] * 31 + (uint32_t)base->key[5])
            : k->root->src[i];
    k->root = uop_with(k->g, k->root, src);
    return k;
}
