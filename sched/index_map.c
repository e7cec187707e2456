/* How an index passes from a node to its sources: the only place that knows what movement means. Everything else of a
 * view is simplification. */
#include <string.h>

#include "sched/rangeify.h"

const UOp *index_simplify(Rangeify *r, const UOp *u) { return u && u->nsrc ? rewriter_run(r->simplify, u) : u; }

const UOp *index_math(Graph *g, Op op, const UOp *a, const UOp *b)
{
    int64_t v[2] = { a->arg.i, b->arg.i }, out;
    if (uop_is_const(a) && uop_is_const(b) && uop_eval(op, DT_INDEX, DT_INDEX, v, &out))
        return op == UOP_CMPLT ? uop_bool(g, out) : uop_index(g, out);
    if (op == UOP_ADD && uop_is_int_const(a, 0)) return b;
    if (op == UOP_ADD && uop_is_int_const(b, 0)) return a;
    if (op == UOP_MUL && uop_is_int_const(a, 1)) return b;
    if ((op == UOP_MUL || op == UOP_IDIV) && uop_is_int_const(b, 1)) return a;
    return UOP(g, op, DT_VOID, NO_ARG, a, b);
}

static const UOp *both(Graph *g, const UOp *a, const UOp *b)
{
    if (!a || !b) return a ? a : b;
    return UOP(g, UOP_AND, DT_VOID, NO_ARG, a, b);
}

static bool always(const UOp *v) { return v->vmin == 1; }

/* begin <= i < end */
static const UOp *within(Rangeify *r, const UOp *i, const UOp *begin, const UOp *end)
{
    Graph *g = r->g;
    const UOp *below = index_math(g, UOP_CMPLT, i, begin), *lo = NULL,
              *hi = index_simplify(r, index_math(g, UOP_CMPLT, i, end));
    if (below->vmax != 0) lo = index_simplify(r, UOP(g, UOP_CMPNE, DT_VOID, NO_ARG, below, uop_bool(g, true)));
    if (lo && always(lo)) lo = NULL;
    return both(g, lo, always(hi) ? NULL : hi);
}

/* Runs of axes with equal products pass alone; inside a run the index is flattened and cut again. */
void index_reshape(Rangeify *r, const Shape *to, const Shape *from, const UOp *const *idx, const UOp **out)
{
    Graph *g = r->g;
    uint32_t i = 0, j = 0;
    while (i < to->rank || j < from->rank) {
        uint32_t i0 = i, j0 = j;
        const UOp *a = uop_index(g, 1), *b = a;
        if (i < to->rank) a = to->dim[i++];
        if (j < from->rank) b = from->dim[j++];
        while (a != b && (i < to->rank || j < from->rank)) {
            bool more_a = j >= from->rank || (i < to->rank && a->vmax < b->vmax) ||
                (i < to->rank && a->vmax == b->vmax && !uop_is_const(a));
            if (more_a && i < to->rank) a = index_simplify(r, index_math(g, UOP_MUL, a, to->dim[i++]));
            else b = index_simplify(r, index_math(g, UOP_MUL, b, from->dim[j++]));
        }
        if (i - i0 == 1 && j - j0 == 1) {
            out[j0] = idx[i0];
            continue;
        }
        const UOp *flat = uop_index(g, 0), *stride = uop_index(g, 1);
        for (uint32_t k = i; k-- > i0; stride = index_simplify(r, index_math(g, UOP_MUL, stride, to->dim[k])))
            flat = index_math(g, UOP_ADD, flat, index_math(g, UOP_MUL, idx[k], stride));
        flat = index_simplify(r, flat);
        stride = uop_index(g, 1);
        for (uint32_t k = j; k-- > j0;) {
            const UOp *q = index_math(g, UOP_IDIV, flat, stride);
            out[k] = uop_is_int_const(from->dim[k], 1)
                ? uop_index(g, 0)
                : index_simplify(r, k > j0 ? index_math(g, UOP_MOD, q, from->dim[k]) : q);
            stride = index_simplify(r, index_math(g, UOP_MUL, stride, from->dim[k]));
        }
    }
}

/* Element-wise operands and EXPAND: right-aligned, an axis of size 1 is read at 0. */
static void index_broadcast(Rangeify *r, const Shape *to, const Shape *from, const UOp *const *idx, const UOp **out)
{
    for (uint32_t k = 0; k < from->rank; k++) {
        uint32_t at = k + to->rank - from->rank;
        out[k] = uop_is_int_const(from->dim[k], 1) ? uop_index(r->g, 0) : idx[at];
    }
}

/* INDEX(T, i0, i1..): source 0 is wanted at the gathered positions, an index tensor at its own part of idx. */
static void index_gather(Rangeify *r, const UOp *node, uint32_t k, const UOp *const *idx, const UOp *const *gather,
                         const UOp **out)
{
    uint32_t at = 0;
    for (uint32_t i = 1; i < node->nsrc; i++) {
        uint32_t rank = uop_rank(node->src[i]);
        if (i == k) memcpy(out, idx + at, rank * sizeof *out);
        at += rank;
    }
    if (k) return;
    for (uint32_t i = 1; i < node->nsrc; i++) out[i - 1] = gather[i - 1];
    for (uint32_t i = node->nsrc - 1; i < uop_rank(node->src[0]); i++) out[i] = idx[at++];
    (void)r;
}

void index_source(Rangeify *r, const UOp *node, uint32_t k, const UOp *const *idx, const UOp *valid,
                  const UOp *const *gather, const UOp **out, const UOp **out_valid)
{
    Graph *g = r->g;
    const UOp *s = node->src[k];
    const int64_t *list = node->arg.blob ? blob_ints(node->arg.blob) : NULL;
    uint32_t rank = uop_rank(s);
    *out_valid = valid;
    switch ((Op)node->op) {
    case UOP_RESHAPE: index_reshape(r, node->shape, s->shape, idx, out); break;
    case UOP_PERMUTE:
        for (uint32_t i = 0; i < rank; i++) out[list[i]] = idx[i];
        break;
    case UOP_FLIP:
        for (uint32_t i = 0; i < rank; i++)
            out[i] = list[i]
                ? index_simplify(r,
                                 index_math(g, UOP_ADD, index_math(g, UOP_ADD, uop_dim(s, i), uop_index(g, -1)),
                                            index_math(g, UOP_MUL, idx[i], uop_index(g, -1))))
                : idx[i];
        break;
    case UOP_SHRINK:
        for (uint32_t i = 0; i < rank; i++)
            out[i] = index_simplify(r, index_math(g, UOP_ADD, idx[i], node->src[1]->src[i]));
        break;
    case UOP_PAD:
        for (uint32_t i = 0; i < rank; i++) {
            const UOp *begin = node->src[1]->src[i];
            out[i] = idx[i];
            if (uop_is_int_const(begin, 0) && uop_dim(s, i) == uop_dim(node, i)) continue;
            *out_valid = both(g, *out_valid, within(r, idx[i], begin, index_math(g, UOP_ADD, begin, uop_dim(s, i))));
            out[i] = index_simplify(r, index_math(g, UOP_ADD, idx[i], index_math(g, UOP_MUL, begin, uop_index(g, -1))));
        }
        break;
    case UOP_CAT: {
        const UOp *begin = uop_index(g, 0);
        for (uint32_t i = 0; i < k; i++)
            begin = index_simplify(r, index_math(g, UOP_ADD, begin, uop_dim(node->src[i], (uint32_t)node->arg.i)));
        for (uint32_t i = 0; i < rank; i++) out[i] = idx[i];
        const UOp *i = idx[node->arg.i];
        *out_valid =
            both(g, valid, within(r, i, begin, index_math(g, UOP_ADD, begin, uop_dim(s, (uint32_t)node->arg.i))));
        out[node->arg.i] =
            index_simplify(r, index_math(g, UOP_ADD, i, index_math(g, UOP_MUL, begin, uop_index(g, -1))));
        break;
    }
    case UOP_STACK: memcpy(out, idx + 1, rank * sizeof *out); break;
    case UOP_INDEX: index_gather(r, node, k, idx, gather, out); break;
    default: index_broadcast(r, node->shape, s->shape, idx, out);
    }
    *out_valid = index_simplify(r, *out_valid);
    if (*out_valid && always(*out_valid)) *out_valid = NULL;
}

bool ends_range(const UOp *u, const UOp *range)
{
    for (uint32_t k = 1; k < u->nsrc; k++)
        if (u->src[k] == range) return true;
    return false;
}
