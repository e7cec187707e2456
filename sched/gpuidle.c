/* Idle threads of a GPU: after linearize (form 6), threads whose stores are all gated away need not compute what they
 * would store. Comes in: instructions whose last part, behind the last BARRIER or SHUFFLE, stores only under a common
 * gate `position < 1` (gpudims.c makes such gates). Goes out: the same with that part under an IF. Must hold: every
 * thread meets every BARRIER and SHUFFLE, so nothing before the last one is touched.
 */
#include "sched/sched.h"

static bool has_gate(const UOp *gate, const UOp *part)
{
    return gate == part ||
        (gate && gate->op == UOP_AND && gate->dtype == DT_BOOL &&
         (has_gate(gate->src[0], part) || has_gate(gate->src[1], part)));
}

/* A part of the gate that every store from `first` on has: position < 1 of a thread, whatever loop it is in. */
static const UOp *common_gate(const UOp *linear, uint32_t first, const UOp *gate)
{
    if (!gate) return NULL;
    if (gate->op == UOP_AND && gate->dtype == DT_BOOL) {
        const UOp *a = common_gate(linear, first, gate->src[0]);
        return a ? a : common_gate(linear, first, gate->src[1]);
    }
    if (gate->op != UOP_CMPLT || !uop_is_int_const(gate->src[1], 1) || gate->ranges) return NULL;
    for (uint32_t i = first; i < linear->nsrc; i++) {
        const UOp *u = linear->src[i];
        bool memory = u->op == UOP_STORE && (u->src[0]->op == UOP_INDEX || u->src[0]->op == UOP_SHRINK);
        if (memory && !has_gate(u->nsrc > 2 ? u->src[2] : NULL, gate)) return NULL;
    }
    return gate;
}

static void mark_sources(const UOp *u, uint8_t *mark)
{
    mark[u->id] = 1;
    for (uint32_t k = 0; k < u->nsrc; k++) mark_sources(u->src[k], mark);
}

/* Behind the last meeting of threads, those whose stores are all gated away have nothing to do: IF the gate, to the
 * end. */
void kernel_skip_idle(Kernel *k)
{
    const UOp *old = k->linear, *gate = NULL;
    uint32_t last = 0, depth = 0, n = 0;
    for (uint32_t i = 0; i < old->nsrc; i++) {
        const UOp *u = old->src[i];
        depth += u->op == UOP_RANGE;
        depth -= u->op == UOP_END;
        if (u->op == UOP_BARRIER || u->op == UOP_SHUFFLE || u->op == UOP_WMMA) last = depth ? UINT32_MAX : i + 1;
    }
    for (uint32_t i = last; i < old->nsrc && !gate; i++)
        if (old->src[i]->op == UOP_STORE && old->src[i]->nsrc > 2) gate = common_gate(old, last, old->src[i]->src[2]);
    if (!last || last == UINT32_MAX || !gate) return;
    Arena *a = arena_new();
    uint8_t *mark = NEW_N(a, uint8_t, graph_count(k->g));
    const UOp **line = NEW_N(a, const UOp *, old->nsrc + 2);
    mark_sources(gate, mark);
    for (uint32_t i = 0; i < old->nsrc; i++)
        if (i < last || mark[old->src[i]->id]) line[n++] = old->src[i];
    const UOp *begin = line[n++] = UOP(k->g, UOP_IF, DT_VOID, NO_ARG, gate);
    for (uint32_t i = last; i < old->nsrc; i++)
        if (!mark[old->src[i]->id]) line[n++] = old->src[i];
    line[n++] = UOP(k->g, UOP_ENDIF, DT_VOID, NO_ARG, begin);
    k->linear = uop_new(k->g, UOP_LINEAR, DT_VOID, NO_ARG, line, n);
    arena_free(a);
}
