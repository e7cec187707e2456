/* Constants: a tensor of the file as a value, and values that are made of known ones alone, which are computed as they
 * appear, so that shape arithmetic leaves nothing. Must hold: what is folded is small. */
#include "frontend/import/import.h"

U import_tensor(Graph *g, const TensorDef *t)
{
    const char *name = t->name ? t->name : "";
    DType type = dtype_from_onnx(t->type);
    if (type == DT_VOID)
        return graph_fail_code(g, TG_UNSUPPORTED, "tensor '%s': element type %d is not covered", name, t->type);
    if (t->rank > TG_MAX_RANK)
        return graph_fail_code(g, TG_LIMIT, "tensor '%s': rank %u; at most %d", name, t->rank, TG_MAX_RANK);
    U x = tensor_const(g, type, t->shape, t->rank, t->data, (size_t)(t->numel * dtype_size(type)), name);
    const UOp *v[IMPORT_LITERAL];
    bool literal = t->numel == 1 || (t->rank <= 1 && t->numel && t->numel <= IMPORT_LITERAL && !dtype_is_float(type));
    return literal && values_of(g, x, v, IMPORT_LITERAL) ? from_values(g, type, v, t->shape, t->rank) : x;
}

U import_constant(Graph *g, StringPool *pool, const TensorDef *t)
{
    return t->type == TG_STRING ? text_constant(g, pool, t)
        : complex_is(t->type)   ? complex_constant(g, t)
        : narrow_is(t->type)    ? narrow_constant(g, t)
                                : import_tensor(g, t);
}

bool import_is_literal(U u)
{
    while (u->op == UOP_RESHAPE) u = u->src[0];
    if (u->op != UOP_STACK) return u->op == UOP_CONST;
    for (uint32_t k = 0; k < u->nsrc; k++)
        if (uop_rank(u->src[k])) return false;
    return true;
}

/* As many numbers, made of bytes: what sums them wants these (sched/integers.c). */
static bool is_made_of_bytes(U u, int64_t numel, int depth)
{
    if (u->op == UOP_CAST && (u->src[0]->dtype == DT_I8 || u->src[0]->dtype == DT_U8)) return uop_numel(u) == numel;
    bool found = false;
    if (depth && (u->op == UOP_MUL || u->op == UOP_ADD || u->op == UOP_CAST || op_is((Op)u->op, FLAG_MOVE)))
        for (uint32_t k = 0; k < u->nsrc && !found; k++) found = is_made_of_bytes(u->src[k], numel, depth - 1);
    return found;
}

U import_fold(Graph *g, U u)
{
    int64_t shape[TG_MAX_RANK], numel = uop_static(u) ? uop_numel(u) : 0;
    const UOp *v[IMPORT_LITERAL];
    size_t size;
    if (u->dtype == DT_VOID || u->op == UOP_BUFFER || numel < 1 || numel > IMPORT_KNOWN) return u;
    for (uint32_t k = 0; k < uop_rank(u); k++) shape[k] = uop_size(u, k);
    bool literal = numel == 1 || (numel <= IMPORT_LITERAL && !dtype_is_float((DType)u->dtype));
    if (literal && values_of(g, u, v, IMPORT_LITERAL)) return from_values(g, (DType)u->dtype, v, shape, uop_rank(u));
    if (literal || is_made_of_bytes(u, numel, 6)) return u;
    const void *data = data_of(g, u, IMPORT_KNOWN, &size);
    return data ? tensor_const(g, (DType)u->dtype, shape, uop_rank(u), data, size, "") : u;
}
