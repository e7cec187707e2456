/* Select: what a target cannot say is written in what it can (kernel.h, form 4 to 5).
 *
 * A sum of f16 or bf16 is kept in f32 and rounded once, where the target has no arithmetic of its own; casts between
 * them and types other than f32 go through f32. The rest is rules (graph/rules/decompose.c): one rounded division,
 * MULACC, MIN, shifts, polynomials, narrow arithmetic.
 */
#include <stdlib.h>

#include "graph/base/memory.h"
#include "graph/rewrite.h"
#include "sched/sched.h"

typedef struct { Graph *g; SelectOptions has; const UOp **map; } Select;

static bool lacks(const Select *s, DType t)
{
    return (t == DT_F16 && !s->has.has_f16) || (t == DT_BF16 && !s->has.has_bf16);
}
static const UOp *cast_to(Graph *g, const UOp *u, DType t)
{
    return u->dtype == t ? u : UOP(g, UOP_CAST, t, NO_ARG, u);
}

static const UOp *select_cast(Select *s, const UOp *u)
{
    DType from = (DType)u->src[0]->dtype, to = (DType)u->dtype;
    if (from == DT_F32 || to == DT_F32 || from == to || (!dtype_is_half(from) && !dtype_is_half(to))) return u;
    return cast_to(s->g, cast_to(s->g, u->src[0], DT_F32), to);
}

static const UOp *select_one(Select *s, const UOp *u)
{
    const UOp *few[16], **src = u->nsrc > 16 ? mem_new(u->nsrc * sizeof *src) : few;
    for (uint32_t k = 0; k < u->nsrc; k++) src[k] = s->map[u->src[k]->id];
    bool sum = u->op == UOP_REDUCE && lacks(s, (DType)u->dtype);
    if (sum) src[0] = cast_to(s->g, src[0], DT_F32);
    const UOp *r = uop_with(s->g, u, src);
    if (src != few) mem_free(src);
    return sum ? cast_to(s->g, r, (DType)u->dtype) : r->op == UOP_CAST ? select_cast(s, r) : r;
}

static const UOp *select_types(Select *s, const UOp *root)
{
    Arena *a = arena_new();
    uint32_t n;
    const UOp **order = uop_toposort(s->g, &root, 1, a, &n);
    s->map = NEW_N(a, const UOp *, graph_count(s->g));
    for (uint32_t i = 0; i < n; i++) s->map[order[i]->id] = select_one(s, order[i]);
    root = s->map[root->id];
    arena_free(a);
    return root;
}

TgStatus kernel_select(Kernel *k, const Target *t)
{
    bool gpu = t->max_block > 0;
    Select s = { .g = k->g,
                 .has = { .has_fma = t->has_fma,
                          .whole_math = gpu,
                          .whole_exp2 = t->has_exp2,
                          .has_f16 = t->has_f16,
                          .has_bf16 = t->has_bf16 } };
    k->root = graph_rewrite(k->g, select_types(&s, k->root), rules_select(), 0, &s.has);
    return graph_error(k->g);
}
