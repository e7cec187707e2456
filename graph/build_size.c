/* Data-dependent sizes (custom.h), where they meet others: what they belong to takes the other's size, by an
 * index of which every place is 0 where the size is 1, and a guard compares when the kernel runs that reads it
 * (guard.h). So nothing is assumed that is not checked, and no memory is read that is not there. Sizes of other kinds
 * are left to dims.h: where those are not known to be equal there is a doubt.
 */
#include "graph/build.h"
#include "graph/custom.h"
#include "graph/guard.h"

enum { READ_DEPTH = 8 };

static bool depends_on_data(Graph *g, U a, U b) { return size_from_data(g, a) || size_from_data(g, b); }
static bool may_be(U size, int64_t v) { return size->vmin <= v && v <= size->vmax; }
static bool may_meet(Graph *g, U a, U b) { return may_be(dim_sub(g, a, b), 0); }

bool may_agree(Graph *g, U a, U b)
{
    return a == b || (depends_on_data(g, a, b) ? may_meet(g, a, b) : same_size(g, a, b));
}

/* x beside a size that was checked, which is never as large as this. */
static U beside(Graph *g, U x, U checked)
{
    return is_error(x)
        ? x
        : where(g, ne(g, checked, uop_index(g, checked->vmax)), x, uop_const_like(g, (DType)x->dtype, 0));
}

/* Are x's elements read where the index says, as far as so many nodes tell? Else they may be a formula that needs no
 * index. */
static bool is_read(U x, int depth)
{
    if (x->op == UOP_CONST || x->op == UOP_EXPAND || !depth) return false;
    if (op_is((Op)x->op, FLAG_MOVE) || x->op == UOP_INDEX || x->op == UOP_REDUCE) return is_read(x->src[0], depth - 1);
    bool read = !op_is((Op)x->op, FLAG_ALU);
    for (uint32_t k = 0; k < x->nsrc && !read; k++) read = is_read(x->src[k], depth - 1);
    return read;
}

static U with_size(Graph *g, U x, int64_t axis, U size, GuardKind kind)
{
    U own = uop_dim(x, (uint32_t)axis), checked = guard_size(g, kind, own, size),
      step = cast(g, ne(g, checked, uop_index(g, 1)), DT_INDEX);
    U y = take(g, x, mul(g, iota(g, size, DT_INDEX), step), axis);
    /* where every place is 0, or none is read, the check would go */
    return own->vmax > 1 && size->vmax > 1 && is_read(x, READ_DEPTH) ? y : beside(g, y, checked);
}

U sized(Graph *g, U x, int64_t axis, U size)
{
    if (is_error(x) || (axis = axis_of(g, "sized", axis, uop_rank(x))) < 0) return x;
    U own = uop_dim(x, (uint32_t)axis);
    return own == size || !depends_on_data(g, own, size) ? x : with_size(g, x, axis, size, GUARD_SIZE);
}

bool one_size(Graph *g, U *a, int64_t i, U *b, int64_t j)
{
    U p = uop_dim(*a, (uint32_t)axis_of(g, "one_size", i, uop_rank(*a))),
      q = uop_dim(*b, (uint32_t)axis_of(g, "one_size", j, uop_rank(*b)));
    if (!may_agree(g, p, q)) return false;
    if (uop_is_const(q)) *a = sized(g, *a, i, q);
    else *b = sized(g, *b, j, p);
    return true;
}

/* The larger one, but of 0 and 1 it is 0. */
U common_size(Graph *g, U a, U b)
{
    U one = uop_index(g, 1);
    if (a == b || b == one) return a;
    if (a == one) return b;
    if (!depends_on_data(g, a, b)) return same_size(g, a, b) ? a : NULL;
    if (!may_meet(g, a, b) && !may_be(a, 1) && !may_be(b, 1)) return NULL;
    if (uop_is_const(a) || !may_be(b, 1)) return uop_is_const(a) ? a : b;
    return uop_is_const(b) ? b
        : !may_be(a, 1)    ? a
                           : dim_simplify(g, where(g, eq(g, add(g, a, b), one), uop_index(g, 0), max_(g, a, b)));
}

U beside_size(Graph *g, U x, U a, U size)
{
    return a == size ? x : beside(g, x, guard_size(g, GUARD_BROADCAST, a, size));
}

U stretched(Graph *g, U x, int64_t axis, U size)
{
    if (is_error(x) || (axis = axis_of(g, "stretched", axis, uop_rank(x))) < 0) return x;
    U own = uop_dim(x, (uint32_t)axis);
    return own == size || uop_is_int_const(own, 1)
        ? x
        : with_size(g, x, axis, size, may_be(own, 1) ? GUARD_BROADCAST : GUARD_SIZE);
}
