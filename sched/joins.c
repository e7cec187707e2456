/* Joins of what becomes narrow: values that are joined and then quantised are quantised first, so that the join is one
 * of bytes and each part's own kernel stores them.
 *
 * Comes in: CAST(f(CAT(a, b))) to a smaller type, f element by element with uniform operands, which alone reads the
 * join. Goes out: CAT(CAST(f(a)), CAST(f(b))). Must hold: nothing reads a value between the join and the end. To let f
 * have operands that vary along the joined axis: slices of them in of_part.
 */
#include "graph/build.h"
#include "sched/sched.h"

enum { STEPS = 32 };

/* step[0] is the join, the last what becomes narrow: each reads those before it. */
typedef struct {
    const UOp *step[STEPS];
    uint32_t n;
} Formula;

typedef struct {
    Graph *g;
    Arena *arena;
    const UOp **map;
    uint32_t *uses;
} Joins;

/* The one value that all elements of u are; NULL: they may differ. */
static const UOp *uniform(Graph *g, const UOp *u)
{
    while (u->op == UOP_EXPAND || u->op == UOP_RESHAPE) u = u->src[0];
    return uop_static(u) && uop_numel(u) == 1 ? reshape(g, u, NULL, 0) : NULL;
}

static int place_of(const Formula *f, const UOp *u)
{
    for (uint32_t i = 0; i < f->n; i++)
        if (f->step[i] == u) return (int)i;
    return -1;
}

/* Adds u behind what it reads, down to one join. false: it is no such formula, or a longer one. */
static bool collect(const Joins *j, Formula *f, const UOp *u, uint32_t depth)
{
    if (place_of(f, u) >= 0 || uniform(j->g, u)) return true;
    bool join = u->op == UOP_CAT, alu = op_is((Op)u->op, FLAG_ALU) && u->op != UOP_GUARD && depth < STEPS;
    if (join ? f->n > 0 : !alu) return false;
    for (uint32_t k = 0; k < u->nsrc && alu; k++)
        if (!collect(j, f, u->src[k], depth + 1)) return false;
    if (f->n == STEPS || (f->n && u->shape != f->step[0]->shape)) return false;
    f->step[f->n++] = u;
    return true;
}

/* Only the formula reads what is inside of it. */
static bool is_closed(const Joins *j, const Formula *f)
{
    uint32_t inside[STEPS] = { 0 };
    for (uint32_t i = 1; i < f->n; i++)
        for (uint32_t k = 0; k < f->step[i]->nsrc; k++) {
            int at = place_of(f, f->step[i]->src[k]);
            if (at >= 0) inside[at]++;
        }
    for (uint32_t i = 0; i + 1 < f->n; i++)
        if (inside[i] != j->uses[f->step[i]->id]) return false;
    return true;
}

static bool narrows(const Joins *j, Formula *f, const UOp *end)
{
    f->n = 0;
    return end->op == UOP_CAST && dtype_size((DType)end->dtype) < dtype_size((DType)end->src[0]->dtype) &&
        collect(j, f, end, 0) && f->n > 1 && f->step[0]->op == UOP_CAT &&
        dtype_size((DType)end->dtype) < dtype_size((DType)f->step[0]->dtype) && is_closed(j, f);
}

static const UOp *of_part(const Joins *j, const Formula *f, const UOp *part)
{
    const UOp *now[STEPS] = { part };
    for (uint32_t i = 1; i < f->n; i++) {
        const UOp *u = f->step[i], *src[3];
        for (uint32_t k = 0; k < u->nsrc; k++) {
            int at = place_of(f, u->src[k]);
            src[k] = at >= 0 ? now[at] : expand(j->g, uniform(j->g, u->src[k]), part->shape->dim, uop_rank(part));
        }
        now[i] = uop_with(j->g, u, src);
    }
    return now[f->n - 1];
}

static const UOp *narrow_join(const Joins *j, const Formula *f)
{
    const UOp *join = f->step[0], **part = NEW_N(j->arena, const UOp *, join->nsrc);
    for (uint32_t k = 0; k < join->nsrc; k++) part[k] = of_part(j, f, j->map[join->src[k]->id]);
    return uop_new(j->g, UOP_CAT, DT_VOID, join->arg, part, join->nsrc);
}

const UOp *narrow_joins(Graph *g, const UOp *root)
{
    Arena *arena = arena_new();
    uint32_t n, ids = root->id + 1;
    const UOp **order = uop_toposort(g, &root, 1, arena, &n);
    Joins j = { g, arena, NEW_N(arena, const UOp *, ids), NEW_N(arena, uint32_t, ids) };
    bool joins = false;
    for (uint32_t i = 0; i < n; i++) {
        joins |= order[i]->op == UOP_CAT;
        for (uint32_t k = 0; k < order[i]->nsrc; k++) j.uses[order[i]->src[k]->id]++;
    }
    for (uint32_t i = 0; i < n && joins; i++) {
        const UOp *u = order[i], **src = NEW_N(arena, const UOp *, u->nsrc + 1);
        Formula f;
        for (uint32_t k = 0; k < u->nsrc; k++) src[k] = j.map[u->src[k]->id];
        j.map[u->id] = narrows(&j, &f, u) ? narrow_join(&j, &f) : uop_with(g, u, src);
    }
    if (joins) root = j.map[root->id];
    arena_free(arena);
    return root;
}
