/* Loops and branches: CALLs of "loop" and "if" (graph/custom.h) become their bodies' items between ITEM_LOOP and ITEM_NEXT, or ITEM_IF, ITEM_ELSE and ITEM_ENDIF.
 *
 * A body is scheduled like a graph of its own, over the same table of buffers: its PARAMs are put in place by BUFFERs (states, captured values). States live in the
 * buffers of the call's results; at the end of a round the next states are copied there, and rows into their place of the stacked result.
 */
#include <stdlib.h>
#include <string.h>

#include "graph/custom.h"
#include "sched/rangeify.h"

typedef struct { Rangeify *r; Schedule *s; const UOp *call; const UOp *result[64]; } Control;

static const UOp *new_like(Graph *g, const UOp *u)
{
    BufferInfo info = { .dtype = (DType)u->dtype, .shape = u->shape, .size_bytes = (size_t)(uop_numel(u) * dtype_size((DType)u->dtype)) };
    return graph_add_buffer(g, &info);
}

static void add_copy(Schedule *s, const UOp *to, const UOp *from, const UOp *at)
{
    if (to == from) return;
    ScheduleItem *i = schedule_add(s, ITEM_COPY);
    i->mem[0] = to;
    i->mem[1] = from;
    i->var[0] = at;
}

/* Schedules body (a TUPLE over PARAM(base + k) of these buffers) behind what is there; out: where its values lie. */
static TgStatus add_body(Control *c, const UOp *body, int64_t base, const UOp *const *buffer, uint32_t nbuffer, const UOp **out)
{
    Graph *g = c->r->g;
    Arena *a = c->r->arena;
    uint32_t n, found = 0;
    const UOp **order = uop_toposort(g, &body, 1, a, &n), **from = NEW_N(a, const UOp *, n), **to = NEW_N(a, const UOp *, n);
    for (uint32_t i = 0; i < n; i++)
        if (order[i]->op == UOP_PARAM && order[i]->arg.i >= base && order[i]->arg.i < base + nbuffer) from[found] = order[i], to[found++] = buffer[order[i]->arg.i - base];
    body = uop_substitute(g, body, from, to, found);
    Schedule sub = { .g = g };
    TRY(sched_rangeify(&sub, g, uop_new(g, UOP_SINK, DT_VOID, NO_ARG, body->src, body->nsrc), c->r->target));
    for (uint32_t i = 0; i < sub.count; i++) *schedule_add(c->s, sub.item[i].kind) = sub.item[i];
    for (uint32_t k = 0; k < body->nsrc; k++) out[k] = sub.output[k];
    free(sub.item);
    return TG_OK;
}

static const UOp *result_of(Control *c, uint32_t k, const UOp *like)
{
    if (k < 64 && c->result[k]) return c->result[k];
    return new_like(c->r->g, like);
}

/* Next states that are states of this round themselves are saved before any is overwritten. */
static void carry(Control *c, const UOp *const *state, const UOp **next, uint32_t n)
{
    for (uint32_t k = 0; k < n; k++)
        for (uint32_t j = 0; j < k; j++)
            if (next[k] == state[j] && next[j] != state[j]) {
                const UOp *saved = new_like(c->r->g, next[k]);
                add_copy(c->s, saved, next[k], NULL);
                next[k] = saved;
            }
    for (uint32_t k = 0; k < n; k++) add_copy(c->s, state[k], next[k], NULL);
}

static TgStatus add_loop(Control *c)
{
    const UOp *function = c->call->src[0], *const *arg = c->call->src + 1;
    const LoopAttr *attr = custom_attr(function, NULL);
    Arena *a = c->r->arena;
    const UOp *body = function->src[0], *step = function->src[1], *count = attr->counted ? function->src[2] : NULL;
    uint32_t states = attr->states;
    const UOp **place = NEW_N(a, const UOp *, states + attr->captured + 1), **value = NEW_N(a, const UOp *, body->nsrc + 1);
    for (uint32_t k = 0; k < states; k++) {
        place[k] = result_of(c, k, arg[2 + k]);
        add_copy(c->s, place[k], memory_of(c->r, arg[2 + k]), NULL);
    }
    for (uint32_t k = 0; k < attr->captured; k++) place[states + k] = memory_of(c->r, arg[2 + states + k]);
    ScheduleItem *loop = schedule_add(c->s, ITEM_LOOP);
    loop->trip = attr->trip;
    loop->mem[0] = attr->trip < 0 ? memory_of(c->r, arg[0]) : NULL;
    loop->mem[1] = attr->counted ? memory_of(c->r, arg[1]) : NULL;
    loop->var[0] = step;
    loop->var[1] = count;
    TRY(add_body(c, body, attr->base, place, states + attr->captured, value));
    for (uint32_t k = 0; k < attr->rows; k++)
        if (states + k < 64 && c->result[states + k]) add_copy(c->s, c->result[states + k], value[states + k], step);
    carry(c, place, value, states);
    ScheduleItem *next = schedule_add(c->s, ITEM_NEXT);
    next->mem[0] = attr->has_keep ? value[states + attr->rows] : NULL;
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
            if (k < 64 && c->result[k]) add_copy(c->s, c->result[k], value[k], NULL);
        schedule_add(c->s, b ? ITEM_ENDIF : ITEM_ELSE);
    }
    return TG_OK;
}

TgStatus control_items(Rangeify *r, Schedule *s, const UOp *call, const UOp *const *result)
{
    Control c = { .r = r, .s = s, .call = call };
    const LoopAttr *attr = custom_attr(call->src[0], NULL);
    if (custom_is(call, "loop") && attr->trip >= 0 && !attr->counted) return loop_items(r, s, call, result);
    memcpy(c.result, result, sizeof c.result);
    return custom_is(call, "loop") ? add_loop(&c) : add_branch(&c);
}
