/* Builders' ground: failing, sizes, constants. Data-dependent sizes are in build_size.c, movement is in
 * build_move.c, element-wise in build_math.c and build_approx.c, reductions and products in build_reduce.c, indexing by
 * data in build_gather.c. To add one: a line in build.h that says shapes and dtypes, a function of builders that are
 * there, a test. What must hold: a builder checks what uop_new asserts (ranks, sizes, dtypes) and fails with
 * graph_fail; it never writes a FLAG_SUGAR op.
 */
#include "graph/build.h"
#include "graph/custom.h"

#include <stdlib.h>

int64_t axis_of(Graph *g, const char *what, int64_t axis, uint32_t rank)
{
    int64_t a = axis < 0 ? axis + rank : axis;
    if (a >= 0 && a < rank) return a;
    graph_fail(g, "%s: axis %lld is outside a tensor of rank %u", what, (long long)axis, rank);
    return -1;
}

/* ---- sizes ---- */

static U dim_op(Graph *g, Op op, U a, U b)
{
    int64_t r;
    if (is_error(a) || is_error(b)) return is_error(a) ? a : b;
    if (uop_is_const(a) && uop_is_const(b) && uop_eval(op, DT_INDEX, DT_INDEX, (int64_t[]){ a->arg.i, b->arg.i }, &r))
        return uop_index(g, r);
    if (op == UOP_MUL && (uop_is_int_const(a, 1) || uop_is_int_const(b, 0))) return b;
    if (op == UOP_MUL && (uop_is_int_const(b, 1) || uop_is_int_const(a, 0))) return a;
    if (op == UOP_ADD && uop_is_int_const(a, 0)) return b;
    if ((op == UOP_ADD && uop_is_int_const(b, 0)) || (op == UOP_IDIV && uop_is_int_const(b, 1))) return a;
    return dim_simplify(g, UOP(g, op, DT_VOID, NO_ARG, a, b));
}

U dim_add(Graph *g, U a, U b) { return dim_op(g, UOP_ADD, a, b); }
U dim_sub(Graph *g, U a, U b) { return a == b ? uop_index(g, 0) : dim_add(g, a, dim_mul(g, b, uop_index(g, -1))); }
U dim_mul(Graph *g, U a, U b) { return dim_op(g, UOP_MUL, a, b); }
U dim_div(Graph *g, U a, U b) { return a == b && a->vmin > 0 ? uop_index(g, 1) : dim_op(g, UOP_IDIV, a, b); }
U dim_max(Graph *g, U a, U b) { return a->vmin >= b->vmax ? a : b->vmin >= a->vmax ? b : dim_op(g, UOP_MAX, a, b); }
U dim_min(Graph *g, U a, U b)
{
    return a->vmax <= b->vmin ? a : b->vmax <= a->vmin ? b : dim_sub(g, dim_add(g, a, b), dim_max(g, a, b));
}

U dim_product(Graph *g, const U *dim, uint32_t n)
{
    U p = uop_index(g, 1);
    for (uint32_t k = 0; k < n; k++) p = dim_mul(g, p, dim[k]);
    return p;
}

bool same_size(Graph *g, U a, U b)
{
    if (a == b || uop_is_int_const(dim_sub(g, a, b), 0)) return true;
    graph_doubt(g, a, b);
    return false;
}

int64_t fixed_size(Graph *g, U x, uint32_t k)
{
    U dim = uop_dim(x, k);
    if (size_from_data(g, dim))
        graph_fail_code(g, TG_UNSUPPORTED, "the size of axis %u, which depends on data, must be known", k);
    else if (!uop_is_const(dim)) graph_doubt(g, dim, uop_index(g, dim->vmax));
    return dim->vmax;
}

int64_t fixed_numel(Graph *g, U x)
{
    for (uint32_t k = 0; k < uop_rank(x); k++) fixed_size(g, x, k);
    return uop_numel(x);
}

/* ---- constants ---- */

U scalar(Graph *g, DType t, double value) { return uop_const_like(g, t, value); }

U full(Graph *g, DType t, double value, U like)
{
    U c = uop_const_like(g, t, value);
    return like ? expand_like(g, c, like) : c;
}

U tensor_const(Graph *g, DType t, const int64_t *shape, uint32_t rank, const void *data, size_t size_bytes,
               const char *name)
{
    U dim[64];
    for (uint32_t k = 0; k < rank; k++) dim[k] = uop_index(g, shape[k]);
    return graph_add_buffer(
        g,
        &(BufferInfo){
            .dtype = t, .shape = graph_shape(g, dim, rank), .data = data, .size_bytes = size_bytes, .name = name });
}

U iota(Graph *g, U size, DType t)
{
    return is_error(size) ? size : cast(g, UOP(g, UOP_IOTA, DT_VOID, NO_ARG, size), t);
}

U like(Graph *g, U x, double v) { return is_error(x) ? x : uop_const_like(g, x->dtype, v); }
