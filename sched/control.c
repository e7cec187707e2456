/* Branches: a CALL of "if" (graph/custom.h) becomes its bodies' items between ITEM_IF, ITEM_ELSE and ITEM_ENDIF.
 * (loop.c has loops.)
 *
 * A body is scheduled like a graph of its own, over the same table of buffers: its PARAMs are put in place by BUFFERs.
 * At its end its values are copied to the call's results.
 */
#include <stdlib.h>

#include "graph/base/memory.h"
#include "graph/custom.h"
#include "sched/rangeify.h"

typedef struct {
    Rangeify *r;
    Schedule *s;
    const UOp *call, *const *result;
    uint32_t nresult;
} Control;

static void add_copy(Schedule *s, const UOp *to, const UOp *from)
{
    if (to == from) return;
    ScheduleItem *i = schedule_add(s, ITEM_COPY);
    i->mem[0] = to;
    i->mem[1] = from;
}

/* Schedules body (a TUPLE over PARAM(base + k) of these buffers) behind what is there; out: where its values lie. */
static TgStatus add_body(Control *c, const UOp *body, int64_t base, const UOp *const *buffer, uint32_t nbuffer,
                         const UOp **out)
{
    Graph *g = c->r->g;
    Arena *a = c->r->arena;
    uint32_t n, found = 0;
    const UOp **order = uop_toposort(g, &body, 1, a, &n), **from = NEW_N(a, const UOp *, n),
              **to = NEW_N(a, const UOp *, n);
    for (uint32_t i = 0; i < n; i++)
        if (order[i]->op == UOP_PARAM && order[i]->arg.i >= base && order[i]->arg.i < base + nbuffer)
            from[found] = order[i], to[found++] = buffer[order[i]->arg.i - base];
    body = uop_substitute(g, body, from, to, found);
    Schedule sub = { .g = g };
    const UOp *sink = uop_new(g, UOP_SINK, DT_VOID, NO_ARG, body->src, body->nsrc);
    TRY(sched_rangeify(&sub, g, sink, c->r->target, NULL, NULL, c->r->choices));
    for (uint32_t i = 0; i < sub.count; i++) *schedule_add(c->s, sub.item[i].kind) = sub.item[i];
    for (uint32_t k = 0; k < sink_values(body); k++) out[k] = sub.output[k];
    mem_free(sub.item);
    mem_free(sub.function);
    return TG_OK;
}

static TgStatus add_branch(Control *c)
{
    const UOp *function = c->call->src[0], *const *arg = c->call->src + 1;
    const BranchAttr *attr = custom_attr(function, NULL);
    Arena *a = c->r->arena;
    const UOp **place = NEW_N(a, const UOp *, attr->captured + 1), **value = NEW_N(a, const UOp *, attr->values + 1);
    for (uint32_t k = 0; k < attr->captured; k++) place[k] = memory_of(c->r, arg[1 + k]);
    schedule_add(c->s, ITEM_IF)->mem[0] = memory_of(c->r, arg[0]);
    for (uint32_t b = 0; b < 2; b++) {
        TRY(add_body(c, function->src[b], attr->base, place, attr->captured, value));
        for (uint32_t k = 0; k < attr->values; k++)
            if (k < c->nresult && c->result[k]) add_copy(c->s, c->result[k], value[k]);
        schedule_add(c->s, b ? ITEM_ENDIF : ITEM_ELSE);
    }
    return TG_OK;
}

TgStatus control_items(Rangeify *r, Schedule *s, const UOp *call, const UOp *const *result, uint32_t nresult)
{
    return custom_is(call, "loop") ? loop_items(r, s, call, result, nresult)
                                   : add_branch(&(Control){ r, s, call, result, nresult });
}
