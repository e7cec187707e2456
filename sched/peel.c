/* The last iteration of a loop by itself: gates that only it can close (PADTO leaves them) need not be tested in the
 * others.
 *
 * Comes in: form 6, on a CPU. Goes out: the same, where an innermost loop of n iterations has gates that are true in
 * the first n - 1: a loop of those, without the gates, and a loop of one iteration with them. A gate that is true is no
 * gate: LOAD, STORE and WHERE do without.
 */
#include "sched/sched.h"

enum { MOST_BODY = 1000 };
/* value: what stands for range */
typedef struct {
    Kernel *k;
    const UOp **line;
    uint32_t n;
    const UOp **map, *range, *value;
    uint64_t used;
    Arena *arena;
    uint32_t gone;
} Peel;

static bool is_true(const UOp *u) { return u->dtype == DT_BOOL && u->vmin == 1; }

static const UOp *without_gate(Peel *p, const UOp *u)
{
    if ((u->op == UOP_LOAD || u->op == UOP_STORE) && u->nsrc > 2 && is_true(u->src[2]))
        return p->gone++, uop_new(p->k->g, (Op)u->op, DT_VOID, u->arg, u->src, u->op == UOP_LOAD ? 1 : 2);
    if (u->op == UOP_WHERE && is_true(u->src[0]) && u->src[1]->shape == u->shape) return p->gone++, u->src[1];
    if (u->op == UOP_AND && is_true(u->src[0]) && u->src[1]->shape == u->shape) return u->src[1];
    if (u->op == UOP_AND && is_true(u->src[1]) && u->src[0]->shape == u->shape) return u->src[0];
    return u;
}

static const UOp *moved(Peel *p, const UOp *u)
{
    if (u == p->range) return p->value;
    if (!(u->ranges & range_bit(p->range))) return u;
    if (p->map[u->id]) return p->map[u->id];
    const UOp *few[16], **src = u->nsrc > 16 ? NEW_N(p->arena, const UOp *, u->nsrc) : few;
    for (uint32_t s = 0; s < u->nsrc; s++) src[s] = moved(p, u->src[s]);
    return p->map[u->id] = without_gate(p, uop_with(p->k->g, u, src));
}

/* Where the innermost loop that begins at i ends; 0: it is none, or its last iteration cannot stand by itself. */
static uint32_t end_of(const UOp *linear, uint32_t i)
{
    const UOp *r = linear->src[i];
    if (r->op != UOP_RANGE || range_type(r) == AXIS_THREAD || !uop_is_const(r->src[0]) || r->src[0]->vmax < 2) return 0;
    for (uint32_t at = i + 1; at < linear->nsrc && at - i < MOST_BODY; at++) {
        Op op = (Op)linear->src[at]->op;
        if (op == UOP_END) return at;
        if (op == UOP_RANGE || op == UOP_IF || op == UOP_BARRIER || op == UOP_WMMA) return 0;
    }
    return 0;
}

static const UOp *fresh_range(Peel *p, int64_t iterations)
{
    uint32_t number = (uint32_t)__builtin_ctzll(~p->used);
    p->used |= UINT64_C(1) << number;
    return uop_range(p->k->g, (int)number, uop_index(p->k->g, iterations), range_type(p->range));
}

/* Has u a value where the line ends: does it stand there, outside of loops that have ended? */
static bool stands(const UOp *const *line, uint32_t n, const UOp *u)
{
    while (n--) {
        if (line[n] == u) return true;
        for (const UOp *open = line[n]->op == UOP_END || line[n]->op == UOP_ENDIF ? line[n]->src[0] : line[n];
             line[n] != open;)
            n--;
    }
    return false;
}

/* The body with value in place of the range; those that became another value of it are no instructions. */
static void emit(Peel *p, const UOp *open, const UOp *value, const UOp *const *body, uint32_t n)
{
    Graph *g = p->k->g;
    p->value = value;
    p->map = NEW_N(p->arena, const UOp *, p->k->linear->id + 1);
    p->line[p->n++] = open;
    if (value != open) p->line[p->n++] = value;
    for (uint32_t i = 0; i < n; i++) {
        const UOp *u = moved(p, body[i]);
        bool source = false;
        for (uint32_t s = 0; s < body[i]->nsrc && u != body[i]; s++) source |= u == moved(p, body[i]->src[s]);
        if (!source && !stands(p->line, p->n, u)) p->line[p->n++] = u;
    }
    p->line[p->n++] = UOP(g, UOP_END, DT_VOID, NO_ARG, open);
}

static bool peel(Peel *p, const UOp *const *body, uint32_t n)
{
    Graph *g = p->k->g;
    uint32_t before = p->n, gone = p->gone;
    int64_t iterations = p->range->src[0]->vmax;
    uint64_t used = p->used;
    if (__builtin_popcountll(~p->used) < 2) return false;
    const UOp *most = fresh_range(p, iterations - 1);
    emit(p, most, most, body, n);
    if (p->gone == gone) {
        p->n = before;
        p->used = used;
        return false;
    }
    const UOp *last = fresh_range(p, 1);
    emit(p, last, UOP(g, UOP_ADD, DT_VOID, NO_ARG, last, uop_index(g, iterations - 1)), body, n);
    return true;
}

void kernel_peel(Kernel *k)
{
    const UOp *old = k->linear;
    Peel p = { .k = k, .arena = arena_new() };
    bool any = false;
    p.line = NEW_N(p.arena, const UOp *, 2 * (size_t)old->nsrc + 4 * 64);
    for (uint32_t i = 0; i < old->nsrc; i++)
        if (old->src[i]->op == UOP_RANGE) p.used |= range_bit(old->src[i]);
    for (uint32_t i = 0; i < old->nsrc; i++) {
        uint32_t end = end_of(old, i);
        p.range = old->src[i];
        if (end && peel(&p, old->src + i + 1, end - i - 1)) i = end, any = true;
        else p.line[p.n++] = old->src[i];
    }
    if (any) k->linear = uop_new(k->g, UOP_LINEAR, DT_VOID, NO_ARG, p.line, p.n);
    arena_free(p.arena);
}
