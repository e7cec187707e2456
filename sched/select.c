/* Select: what a target cannot say is written in what it can (kernel.h, form 4 to 5).
 *
 * Arithmetic on f16 and bf16 is done in f32 with one rounding an op, where the target has none of its own; a sum of them is kept in f32 and rounded once. Casts
 * between them and other types go through f32. Then the rules of rules_select: one rounded division, MULACC, polynomials.
 */
#include <stdlib.h>

#include "graph/rewrite.h"
#include "sched/sched.h"

typedef struct { Graph *g; const Target *t; const UOp **map; } Select;

static bool is_half(DType t) { return t == DT_F16 || t == DT_BF16; }
static bool lacks(const Select *s, DType t) { return (t == DT_F16 && !(s->t && s->t->has_f16)) || (t == DT_BF16 && !(s->t && s->t->has_bf16)); }

static const UOp *cast_to(Graph *g, const UOp *u, DType t) { return u->dtype == t ? u : UOP(g, UOP_CAST, t, NO_ARG, u); }

static bool widens(const Select *s, const UOp *u)
{
    bool computes = (op_is((Op)u->op, FLAG_ALU) && u->op != UOP_CAST && u->op != UOP_WHERE) || u->op == UOP_REDUCE;
    return computes && (lacks(s, (DType)u->dtype) || lacks(s, (DType)u->src[0]->dtype));
}

static const UOp *select_cast(Select *s, const UOp *u)
{
    const UOp *x = u->src[0];
    bool direct = x->dtype == DT_F32 || u->dtype == DT_F32 || x->dtype == u->dtype || (!is_half((DType)x->dtype) && !is_half((DType)u->dtype));
    return direct ? u : cast_to(s->g, cast_to(s->g, x, DT_F32), (DType)u->dtype);
}

static const UOp *select_one(Select *s, const UOp *u)
{
    const UOp *few[16], **src = u->nsrc > 16 ? malloc(u->nsrc * sizeof *src) : few;
    bool wide = widens(s, u);
    for (uint32_t k = 0; k < u->nsrc; k++) {
        src[k] = s->map[u->src[k]->id];
        if (wide && lacks(s, (DType)src[k]->dtype)) src[k] = cast_to(s->g, src[k], DT_F32);
    }
    const UOp *r = uop_with(s->g, u, src);
    if (wide && r->dtype != u->dtype) r = cast_to(s->g, r, (DType)u->dtype);
    if (src != few) free(src);
    return r->op == UOP_CAST && !wide ? select_cast(s, r) : r;
}

static const UOp *select_all(Select *s, const UOp *root)
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
    Select s = { .g = k->g, .t = t };
    k->root = select_all(&s, k->root);
    return graph_error(k->g);
}
