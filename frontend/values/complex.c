/* See complex.h. */
#include "frontend/values/complex.h"

#include <string.h>

enum { COMPLEX = 64 };                                             /* tag of type 0, above those of narrow types */

bool complex_is(int32_t type) { return type == TG_COMPLEX64 || type == TG_COMPLEX128; }
int32_t complex_type(U x) { return x->op == UOP_TUPLE && x->tag > COMPLEX ? x->tag - COMPLEX : 0; }
DType complex_storage(int32_t type) { return type == TG_COMPLEX64 ? DT_F32 : DT_F64; }

U complex_wrap(Graph *g, const U part[2], int32_t type)
{
    for (int k = 0; k < 2; k++)
        if (part[k]->op == UOP_ERROR) return part[k];
    return uop_tagged(g, uop_new(g, UOP_TUPLE, DT_VOID, NO_ARG, part, 2), (uint16_t)(COMPLEX + type));
}

U complex_of_pairs(Graph *g, U pairs, int32_t type)
{
    U part[2];
    for (int k = 0; k < 2; k++) part[k] = squeeze(g, slice_i(g, pairs, -1, k, k + 1), -1);
    return complex_wrap(g, part, type);
}

U complex_pairs(Graph *g, U x) { return stack(g, x->src, 2, -1); }

U complex_constant(Graph *g, const TensorDef *t)
{
    int64_t *shape = NEW_N(graph_arena(g), int64_t, t->rank + 1);
    TensorDef pairs = *t;
    if (t->rank) memcpy(shape, t->shape, sizeof *shape * t->rank);
    shape[t->rank] = 2;
    pairs.type = dtype_info[complex_storage(t->type)].onnx;
    pairs.shape = shape;
    pairs.rank++;
    pairs.numel *= 2;
    return complex_of_pairs(g, import_tensor(g, &pairs), t->type);
}
