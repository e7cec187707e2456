/* See sums.h. */
#include "sched/sums.h"

bool view_is(U u)
{
    return u->op == UOP_INDEX || (op_is((Op)u->op, FLAG_MOVE) && u->op != UOP_BITCAST && u->op != UOP_CONTIGUOUS &&
                                     u->op != UOP_COPY);
}

/* Elements behind an axis of u. */
static int64_t behind(U u, uint32_t axis)
{
    int64_t n = 1;
    for (uint32_t k = axis + 1; k < uop_rank(u); k++) n *= uop_size(u, k);
    return n;
}

/* Axes that the indices of an INDEX make. */
static int axes_made(U view)
{
    int n = 0;
    for (uint32_t k = 1; k < view->nsrc; k++) n += (int)uop_rank(view->src[k]);
    return n;
}

int view_axis(U view, int axis)
{
    U x = view->src[0];
    int off = (int)uop_rank(view) - (int)uop_rank(x), under = -1;
    switch (view->op) {
    case UOP_EXPAND:  under = axis - off; break;
    case UOP_PERMUTE: under = (int)blob_ints(view->arg.blob)[axis]; break;
    case UOP_INDEX:   under = axis < axes_made(view) ? -1 : axis - axes_made(view) + (int)view->nsrc - 1; break;
    case UOP_PAD:
    case UOP_SHRINK:  under = axis; break;
    case UOP_RESHAPE:
        for (uint32_t k = 0; k < uop_rank(x); k++)
            if (behind(x, k) == behind(view, (uint32_t)axis) && uop_size(x, k) > 1) under = (int)k;
        break;
    default: break;
    }
    return under >= 0 && uop_size(x, (uint32_t)under) == uop_size(view, (uint32_t)axis) ? under : -1;
}

int64_t operand_extent(U p, U u, uint32_t axis)
{
    uint32_t off = uop_rank(p) - uop_rank(u);
    const UOp *v = u;
    if (axis < off) return 1;
    axis -= off;
    if (v->op == UOP_EXPAND) {
        off = uop_rank(v) - uop_rank(v->src[0]);
        if (axis < off || uop_is_int_const(uop_dim(v->src[0], axis - off), 1)) return 1;
    }
    return uop_size(u, axis);
}

U choose_value(Graph *g, U i, const U *value, int64_t n)
{
    U y = value[n - 1];
    for (int64_t k = n - 1; k-- > 0;)
        if (value[k] != value[k + 1]) y = where(g, lt(g, i, uop_int(g, (DType)i->dtype, k + 1)), value[k], y);
    return y;
}
