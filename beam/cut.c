/* A long sum rounds like its longest part: cut in two, each part of some hundred terms has a sum of its own, and the
 * tile's sums are added once a part. */
#include "beam/beam.h"

static bool is_summed(const UOp *axis) { return range_type(axis) == AXIS_REDUCE || range_type(axis) == AXIS_UNROLL; }

static double terms(const UOp *const *axis, uint32_t n)
{
    double all = 1;
    for (uint32_t i = 0; i < n; i++)
        if (is_summed(axis[i])) all *= (double)axis[i]->src[0]->vmax;
    return all;
}

/* Of axis i such a part goes inside that with the `inside` terms of the axes behind it, the first of which is `next`,
 * at most `most` come together. */
static void cut_at(OptList *l, Kernel *k, const Target *t, const UOp *axis, uint32_t i, uint32_t next, int64_t inside,
                   int64_t most)
{
    int64_t length = index_divisor(axis->src[0]), part = range_type(axis) == AXIS_REDUCE ? most / inside : 1;
    while (part > 1 && length % part) part--;
    if (part * inside < most / 8) return;
    if (part > 1 &&
        !opt_try(l, k, (OptOp){ .kind = OPT_SPLIT, .axis = (int8_t)i, .target = AXIS_REDUCE, .factor = (int32_t)part },
                 t))
        return;
    opt_try(l, k, (OptOp){ .kind = OPT_NEST, .axis = (int8_t)(part > 1 ? i + 1 : next) }, t);
}

void cut_sum(OptList *l, Kernel *k, const Target *t, int64_t most)
{
    const UOp *axis[64];
    uint32_t n = opt_axes(k, axis, 64), next = n;
    int64_t inside = 1;
    if (terms(axis, n) < 2 * (double)most) return;
    for (uint32_t i = n; i-- > 0;) {
        if (!is_summed(axis[i])) continue;
        if (inside * axis[i]->src[0]->vmax > most) {
            cut_at(l, k, t, axis[i], i, next, inside, most);
            return;
        }
        inside *= axis[i]->src[0]->vmax;
        next = i;
    }
}
