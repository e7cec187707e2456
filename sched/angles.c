/* Angles: a sine of any f32 looks at 96 bits of 2/pi; of numbers below 2^20, which is what networks have, a product and
 * two remainders do (graph/rules/decompose.c). Which of both a number wants differs by lane, so that vectors would do
 * both.
 *
 * Comes in: SIN(x) of f32. Goes out: SIN(y * 2^-108) of y = x * 2^108, which is looked at (GUARD_FINITE): it is Inf
 * from 2^20 on, and then the run is made again with sines of all numbers (Target.plain). The bounds of the product tell
 * select what may be left out. Must hold: x is no constant, and nothing is known of its size yet. (Snake activations of
 * a codec, 1M numbers on two threads: 2.4 ms, now 0.4.)
 */
#include <math.h>
#include <string.h>

#include "graph/build.h"
#include "graph/guard.h"
#include "graph/rules/rules.h"
#include "sched/sched.h"

static const double up = 0x1p108, down = 0x1p-108;
enum { DEPTH = 8 };

static bool wants_guard(Constants *c, Graph *g, const UOp *u)
{
    if (u->op != UOP_SIN || u->dtype != DT_F32 || made_of_constants(c, g, u->src[0])) return false;
    FloatBounds at = float_bounds(u->src[0], DEPTH);
    return !(fmax(-at.lo, at.hi) <= SMALL_ANGLE);
}

const UOp *guard_angles(Graph *g, const UOp *root, const Target *t)
{
    if (strcmp(t->kind, "cpu") || t->plain) return root;
    Arena *a = arena_new();
    Constants constants = { .arena = a };
    uint32_t n;
    bool any = false;
    const UOp **order = uop_toposort(g, &root, 1, a, &n), **map = NEW_N(a, const UOp *, root->id + 1);
    for (uint32_t i = 0; i < n; i++) any |= order[i]->op == UOP_SIN;
    for (uint32_t i = 0; i < n && any; i++) {
        U u = order[i];
        const UOp **src = NEW_N(a, const UOp *, u->nsrc + 1);
        for (uint32_t k = 0; k < u->nsrc; k++) src[k] = map[u->src[k]->id];
        if (wants_guard(&constants, g, u))
            src[0] = mul(g, guard_finite(g, mul(g, src[0], scalar(g, DT_F32, up))), scalar(g, DT_F32, down));
        map[u->id] = uop_with(g, u, src);
    }
    if (any) root = map[root->id];
    arena_free(a);
    return root;
}
