/* See sums.h. */
#include "sched/sums.h"

bool view_is(U u)
{
    return u->op == UOP_INDEX ||
        (op_is((Op)u->op, FLAG_MOVE) && u->op != UOP_BITCAST && u->op != UOP_CONTIGUOUS && u->op != UOP_COPY);
}

/* Factors of a product of sizes. */
typedef struct {
    U symbol[RANK_MAX];
    uint32_t n;
    int64_t constant;
} Factors;

static bool multiply(Factors *f, U size)
{
    if (size->op == UOP_MUL) return multiply(f, size->src[0]) && multiply(f, size->src[1]);
    if (uop_is_const(size)) return f->constant *= size->arg.i, true;
    if (f->n == RANK_MAX) return false;
    f->symbol[f->n++] = size;
    return true;
}

static bool behind(Factors *f, U u, uint32_t axis)
{
    *f = (Factors){ .constant = 1 };
    bool all = true;
    while (++axis < uop_rank(u) && all) all = multiply(f, uop_dim(u, axis));
    return all;
}

/* As many elements lie behind axis i of a as behind axis k of b, whatever symbolic sizes are. */
static bool same_behind(U a, uint32_t i, U b, uint32_t k)
{
    Factors x, y;
    if (!behind(&x, a, i) || !behind(&y, b, k) || x.constant != y.constant || x.n != y.n) return false;
    for (uint32_t j = 0, at; j < y.n; j++) {
        for (at = 0; at < x.n && x.symbol[at] != y.symbol[j];) at++;
        if (at == x.n) return false;
        x.symbol[at] = x.symbol[--x.n];
    }
    return true;
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
    case UOP_EXPAND: under = axis - off; break;
    case UOP_PERMUTE: under = (int)blob_ints(view->arg.blob)[axis]; break;
    case UOP_INDEX: under = axis < axes_made(view) ? -1 : axis - axes_made(view) + (int)view->nsrc - 1; break;
    case UOP_PAD:
    case UOP_SHRINK: under = axis; break;
    case UOP_RESHAPE:
        for (uint32_t k = 0; k < uop_rank(x); k++)
            if (uop_size(x, k) > 1 && same_behind(x, k, view, (uint32_t)axis)) under = (int)k;
        break;
    default: break;
    }
    return under >= 0 && uop_dim(x, (uint32_t)under) == uop_dim(view, (uint32_t)axis) ? under : -1;
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
