/* Loops: a CALL of "loop" (graph/custom.h) becomes ITEM_LOOP .. ITEM_NEXT around the items of its body, each kernel
 * once, with the step as a variable.
 *
 * A state lives in a buffer of several slots, so that an iteration reads one and writes another and nothing is copied
 * or swapped: two slots in turn (slot step % 2), or trip + 1 of them where all values of the state are wanted (slot
 * step). Before the loop slot 0 gets the initial value; after it the last slot is copied out. Rows go to their place of
 * the result. In: the call with its arguments in memory, result buffers (NULL: nobody reads it). Must hold: items of a
 * body are never `once`.
 */
#include <stdlib.h>
#include <string.h>

#include "graph/base/memory.h"
#include "graph/custom.h"
#include "sched/rangeify.h"

/* Where a value of the body goes: buffer[at, ..], or the whole buffer when at is NULL. */
/* first: size of axis 0 as kernels see it, 0: the buffer's own */
typedef struct { const UOp *value, *buffer, *at; int64_t first; } Place;
typedef struct {
    Rangeify *r;
    Graph *g;
    Schedule *s;
    const LoopAttr *attr;
    const UOp *body, *step, *count;         /* count: NULL where the number of iterations is known */
    const UOp *trip, *keep;         /* in memory, where they depend on data */
    /* initial states, then captured values, in memory; results: of each state and row, NULL where nobody reads it */
    const UOp *const *arg, *const *out;
    const UOp **slots;              /* buffer of each state */
} Loop;

static const UOp *slot_of(const Loop *l, uint32_t state, const UOp *n)
{
    if (loop_keeps_all(l->attr, state)) return n;
    const UOp *two = uop_index(l->g, 2);
    return uop_is_const(n) ? uop_index(l->g, uop_const_int(n) % 2) : UOP(l->g, UOP_MOD, DT_VOID, NO_ARG, n, two);
}

static const UOp *next_of(const Loop *l) { return UOP(l->g, UOP_ADD, DT_VOID, NO_ARG, l->step, uop_index(l->g, 1)); }

/* The value in a slot, as a view; it may be smaller than the slot, which holds the largest. */
static const UOp *view_of(Graph *g, const UOp *buffer, const UOp *slot, const UOp *like)
{
    uint32_t rank = uop_rank(buffer);
    const UOp *begin[64], *size[64];
    for (uint32_t k = 0; k < rank; k++) {
        begin[k] = k ? uop_index(g, 0) : slot;
        size[k] = k ? uop_dim(like, k - 1) : uop_index(g, 1);
    }
    const UOp *part = UOP(g, UOP_SHRINK, DT_VOID, NO_ARG, buffer, uop_sizes(g, begin, rank), uop_sizes(g, size, rank));
    return UOP(g, UOP_RESHAPE, DT_VOID, NO_ARG, part, uop_sizes(g, size + 1, rank - 1));
}

/* n places for the values of a state: what an iteration leaves of it may be larger than what the loop begins with, of
 * which nobody stores what has no elements. */
static const UOp *new_slots(Graph *g, const UOp *init, const UOp *next, int64_t n)
{
    const UOp *dim[65] = { uop_index(g, n) };
    for (uint32_t k = 0; k < uop_rank(init); k++)
        dim[k + 1] = uop_dim(next, k) == uop_dim(init, k) ? uop_dim(init, k) : uop_index(g, uop_size(next, k));
    return graph_add_buffer(g,
                            &(BufferInfo){ .dtype = (DType)init->dtype,
                                           .shape = graph_shape(g, dim, uop_rank(init) + 1),
                                           .name = "",
                                           .zeroed = !uop_numel(init) });
}

/* ---- storing into a part of a buffer ---- */

/* Kernel k knew its param p as a buffer of its own; now that is slot `at` of another one. */
static void redirect(Kernel *k, uint32_t p, const Place *to)
{
    Arena *a = arena_new();
    uint32_t n;
    const UOp **order = uop_toposort(k->g, &k->root, 1, a, &n), **map = NEW_N(a, const UOp *, graph_count(k->g)),
              *dim[64];
    const UOp *at = to->at ? uop_copy(k->g, to->at, NULL) : NULL;
    for (uint32_t d = 0; d < uop_rank(to->buffer); d++)
        dim[d] = !d && to->first ? uop_index(k->g, to->first) : uop_copy(k->g, uop_dim(to->buffer, d), NULL);
    for (uint32_t i = 0; i < n; i++) {
        const UOp *u = order[i], *src[u->nsrc + 2];
        bool index = u->op == UOP_INDEX && u->src[0]->op == UOP_PARAM && u->src[0]->arg.i == p, changed = index;
        uint32_t m = 0;
        for (uint32_t s = 0; s < u->nsrc; s++) {
            changed |= map[u->src[s]->id] != u->src[s];
            src[m++] = map[u->src[s]->id];
            if (index && !s && at) src[m++] = at;
        }
        if (u->op == UOP_PARAM && u->arg.i == p)
            map[u->id] = uop_param(k->g, (DType)u->dtype, dim, uop_rank(to->buffer), p);
        else map[u->id] = changed ? uop_with_n(k->g, u, src, m) : u;
    }
    k->root = map[k->root->id];
    k->param[p].buffer = to->buffer;
    kernel_vars(k);
    arena_free(a);
}

static bool has_own_kernel(const UOp *u)
{
    return u->op != UOP_CONST && u->op != UOP_PARAM && u->op != UOP_BUFFER && u->op != UOP_IOTA &&
        u->op != UOP_DEFINE_VAR && u->op != UOP_BIND && u->op != UOP_GETTUPLE;
}

/* With room for more behind them. */
static const UOp **owned(Loop *l, const Place *place, uint32_t n, uint32_t more)
{
    const UOp **value = NEW_N(l->r->arena, const UOp *, n + more + 1);
    for (uint32_t k = 0; k < n; k++) {
        bool own = has_own_kernel(place[k].value);
        for (uint32_t i = 0; i < k; i++) own = own && place[i].value != place[k].value;
        value[k] = own
            ? place[k].value
            : uop_tagged(l->g, UOP(l->g, UOP_CONTIGUOUS, DT_VOID, NO_ARG, place[k].value), (uint16_t)(k + 1));
    }
    return value;
}

/* Puts the items' results into their places. What reads a place, or what such an item made, is not computed at load. */
static void redirect_items(Schedule *part, const Place *place, uint32_t n, uint8_t *each_run)
{
    for (uint32_t i = 0; i < part->count; i++) {
        ScheduleItem *item = &part->item[i];
        Kernel *k = item->kernel;
        for (uint32_t p = 0; k && p < k->nparam; p++) {
            const UOp *b = k->param[p].buffer;
            item->once = item->once && !(b->op == UOP_BUFFER && each_run[buffer_slot(b)]);
            for (uint32_t j = 0; j < n; j++) {
                if (b != part->output[j]) continue;
                redirect(k, p, &place[j]);
                item->once = false;
                break;
            }
        }
        if (k && !item->once && k->param[0].buffer->op == UOP_BUFFER) each_run[buffer_slot(k->param[0].buffer)] = 1;
    }
}

/* Appends the items that compute the values into their places; body: and the calls behind its values, or NULL. */
static TgStatus add_items(Loop *l, const Place *place, uint32_t n, const UOp *body)
{
    Schedule part = { .g = l->g };
    uint32_t values = body ? sink_values(body) : 0, calls = body ? body->nsrc - values : 0;
    const UOp *sink, **value = owned(l, place, n, calls);
    if (calls) memcpy(value + n, body->src + values, calls * sizeof *value);
    TRY(sched_callify(&sink, l->g, uop_new(l->g, UOP_SINK, DT_VOID, NO_ARG, value, n + calls), l->r->target,
                      l->r->choices));
    TgStatus status = sched_rangeify(&part, l->g, sink, l->r->target, NULL, NULL, l->r->choices);
    if (status == TG_OK) redirect_items(&part, place, n, NEW_N(l->r->arena, uint8_t, graph_buffer_count(l->g) + 1));
    for (uint32_t i = 0; i < part.count; i++) *schedule_add(l->s, part.item[i].kind) = part.item[i];
    mem_free(part.item);
    mem_free(part.function);
    return status;
}

/* ---- a loop ---- */

static TgStatus before_loop(Loop *l)
{
    uint32_t n = 0;
    Place *place = NEW_N(graph_arena(l->g), Place, l->attr->states + 1);
    for (uint32_t k = 0; k < l->attr->states; k++) {
        const UOp *init = l->arg[k];
        bool history = loop_keeps_all(l->attr, k);
        l->slots[k] =
            history && l->out[k] ? l->out[k] : new_slots(l->g, init, l->body->src[k], history ? l->attr->trip + 1 : 2);
        if (uop_numel(init)) place[n++] = (Place){ init, l->slots[k], uop_index(l->g, 0) };
    }
    return n ? add_items(l, place, n, NULL) : TG_OK;
}

/* The body over memory: states are slots, captured values the call's arguments. */
static const UOp *bind_body(const Loop *l)
{
    Graph *g = l->g;
    uint32_t n, found = 0, all = l->attr->states + l->attr->captured;
    const UOp **order = uop_toposort(g, &l->body, 1, l->r->arena, &n),
              **from = NEW_N(l->r->arena, const UOp *, all + 1), **to = NEW_N(l->r->arena, const UOp *, all + 1);
    for (uint32_t i = 0; i < n; i++) {
        int64_t k = order[i]->op == UOP_PARAM ? order[i]->arg.i - l->attr->base : -1;
        if (k < 0 || k >= all) continue;
        from[found] = order[i];
        to[found++] =
            k < l->attr->states ? view_of(g, l->slots[k], slot_of(l, (uint32_t)k, l->step), order[i]) : l->arg[k];
    }
    return found ? uop_substitute(g, l->body, from, to, found) : l->body;
}

static TgStatus iterations(Loop *l)
{
    const UOp *body = bind_body(l);
    uint32_t n = 0, all = l->attr->states + l->attr->rows;
    Place *place = NEW_N(graph_arena(l->g), Place, all + 2);
    for (uint32_t k = 0; k < all; k++) {
        bool state = k < l->attr->states;
        if (state) place[n++] = (Place){ body->src[k], l->slots[k], slot_of(l, k, next_of(l)) };
        else if (l->out[k]) place[n++] = (Place){ body->src[k], l->out[k], l->step, l->count ? l->count->vmax : 0 };
    }
    ScheduleItem *loop = schedule_add(l->s, ITEM_LOOP);
    loop->trip = l->attr->trip;
    loop->var[0] = l->step;
    loop->var[1] = l->count;
    loop->mem[0] = l->trip;
    loop->mem[1] = l->keep;
    const UOp *keep = l->attr->has_keep
        ? graph_add_buffer(
              l->g, &(BufferInfo){ .dtype = DT_BOOL, .shape = graph_shape(l->g, NULL, 0), .size_bytes = 1, .name = "" })
        : NULL;
    if (keep) place[n++] = (Place){ body->src[all], keep, NULL, 0 };
    TgStatus status = add_items(l, place, n, body);
    schedule_add(l->s, ITEM_NEXT)->mem[0] = keep;
    return status;
}

static TgStatus after_loop(Loop *l)
{
    Place *place = NEW_N(graph_arena(l->g), Place, l->attr->states + 1);
    uint32_t n = 0;
    for (uint32_t k = 0; k < l->attr->states; k++) {
        if (!l->out[k] || l->slots[k] == l->out[k]) continue;
        place[n++] = (Place){ view_of(l->g, l->slots[k],
                                      slot_of(l, k, l->count ? l->count : uop_index(l->g, l->attr->trip)), l->out[k]),
                              l->out[k], NULL, 0 };
    }
    return n ? add_items(l, place, n, NULL) : TG_OK;
}

TgStatus loop_items(Rangeify *r, Schedule *s, const UOp *call, const UOp *const *result, uint32_t nresult)
{
    const LoopAttr *attr = custom_attr(call->src[0], NULL);
    uint32_t n = attr->states + attr->captured;
    const UOp **arg = NEW_N(r->arena, const UOp *, n + 1),
              **out = NEW_N(r->arena, const UOp *, attr->states + attr->rows + 1);
    for (uint32_t k = 0; k < n; k++) arg[k] = memory_of(r, call->src[3 + k]);
    for (uint32_t k = 0; k < nresult; k++) out[k] = result[k];
    Loop l = { .r = r,
               .g = r->g,
               .s = s,
               .attr = attr,
               .body = call->src[0]->src[0],
               .step = call->src[0]->src[1],
               .arg = arg,
               .out = out };
    l.count = attr->counted ? call->src[0]->src[2] : NULL;
    l.trip = attr->trip < 0 ? memory_of(r, call->src[1]) : NULL;
    l.keep = attr->counted ? memory_of(r, call->src[2]) : NULL;
    l.slots = NEW_N(r->arena, const UOp *, attr->states + 1);
    TRY(before_loop(&l));
    TRY(iterations(&l));
    return after_loop(&l);
}
