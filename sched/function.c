/* Functions: a CALL of a FUNCTION (graph/blocks.h) becomes the items of its body with buffers of its own. The body is
 * scheduled once.
 *
 * Its PARAMs are put in place by stand-ins for the first call's arguments, buffers that no plan sees: constant where
 * the argument is. Each call then gets the items with its arguments, results and intermediate buffers in the places of
 * the stand-ins', the kernels sharing one graph. Must hold: which of the arguments are constants is the same for all
 * calls, or a kernel for load may run each time (find_once looks at each call).
 */
#include <stdlib.h>
#include <string.h>

#include "graph/base/memory.h"
#include "sched/rangeify.h"

/* A body as it was scheduled. inner: buffers that its schedule made, first_inner and up; place: of each, what stands in
 * for it in the call at hand. */
typedef struct Body {
    const UOp *function;
    Schedule part;                  /* kernels belong to the first call's items */
    const UOp **param, **mine;      /* buffers of all kernels' parameters, side by side; stand-ins */
    uint32_t nmine, first_inner, ninner, use;      /* use: number in the schedule's list */
    const UOp **place;              /* by slot - first_inner */
    struct Body *next;
} Body;

static const UOp *stand_in(Graph *g, const UOp *arg)
{
    BufferInfo info = { .dtype = (DType)arg->dtype, .shape = arg->shape, .name = "" };
    if (arg->op == UOP_BUFFER) info = *graph_buffer(g, buffer_slot(arg));
    info.name = NULL;
    return graph_add_buffer(g, &info);
}

/* The body's values over stand-ins. */
static const UOp *bind_body(Rangeify *r, Body *b, const UOp *call)
{
    Graph *g = r->g;
    const UOp *f = call->src[0], **memo = NEW_N(r->arena, const UOp *, graph_count(g));
    uint32_t n;
    const UOp **order = uop_toposort(g, &f->src[0], 1, r->arena, &n);
    b->nmine = call->nsrc - 1;
    b->mine = NEW_N(r->arena, const UOp *, call->nsrc);
    for (uint32_t k = 0; k < b->nmine; k++) b->mine[k] = stand_in(g, memory_of(r, call->src[k + 1]));
    for (uint32_t i = 0; i < n; i++) {
        int64_t k = order[i]->op == UOP_PARAM ? order[i]->arg.i - f->arg.i : -1;
        if (k >= 0 && k < b->nmine) memo[order[i]->id] = b->mine[k];
    }
    const UOp *body = graph_rebuild(g, f->src[0], memo, r->placements);
    return uop_new(g, UOP_SINK, DT_VOID, NO_ARG, body->src, body->nsrc);
}

static void keep_params(Rangeify *r, Body *b)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < b->part.count; i++) n += b->part.item[i].kernel ? b->part.item[i].kernel->nparam : 0;
    b->param = NEW_N(r->arena, const UOp *, n + 1);
    n = 0;
    for (uint32_t i = 0; i < b->part.count; i++) {
        const Kernel *k = b->part.item[i].kernel;
        for (uint32_t p = 0; k && p < k->nparam; p++) b->param[n++] = k->param[p].buffer;
    }
}

static TgStatus check_items(const Schedule *s)
{
    for (uint32_t i = 0; i < s->count; i++)
        if (s->item[i].kind != ITEM_KERNEL && s->item[i].kind != ITEM_COPY)
            return fail(TG_UNSUPPORTED, "a function with a loop, a branch or a host function in it");
    return TG_OK;
}

static TgStatus schedule_body(Rangeify *r, Body *b, const UOp *call)
{
    const UOp *sink = bind_body(r, b, call);
    b->part.g = r->g;
    b->first_inner = graph_buffer_count(r->g);
    TgStatus status = sched_rangeify(&b->part, r->g, sink, r->target, r->placements, NULL, r->choices);
    if (status == TG_OK) status = check_items(&b->part);
    if (status != TG_OK) {
        for (uint32_t i = 0; i < b->part.count; i++) kernel_free(b->part.item[i].kernel);
        mem_free(b->part.item);
        mem_free(b->part.function);
        return status;
    }
    b->ninner = graph_buffer_count(r->g) - b->first_inner;
    b->place = NEW_N(r->arena, const UOp *, b->ninner + 1);
    keep_params(r, b);
    return TG_OK;
}

static bool is_inner(const Body *b, const UOp *u)
{
    return u->op == UOP_BUFFER && buffer_slot(u) >= b->first_inner && buffer_slot(u) < b->first_inner + b->ninner;
}

static const UOp *placed(Rangeify *r, Body *b, const UOp *u, const UOp *call)
{
    for (uint32_t k = 0; k < b->nmine; k++)
        if (u == b->mine[k]) return memory_of(r, call->src[k + 1]);
    if (!is_inner(b, u)) return u;
    const UOp **at = &b->place[buffer_slot(u) - b->first_inner];
    if (!*at) {
        BufferInfo info = *graph_buffer(r->g, buffer_slot(u));
        info.name = NULL;
        *at = graph_add_buffer(r->g, &info);
    }
    return *at;
}

/* A result is where the body left it; one that it only hands on, or that is there twice, is copied. */
static void place_results(Rangeify *r, Body *b, const UOp *const *result, uint32_t n)
{
    memset(b->place, 0, b->ninner * sizeof *b->place);
    for (uint32_t k = 0; k < n; k++) {
        const UOp *from = b->part.output[k],
                  **at = is_inner(b, from) && !graph_buffer(r->g, buffer_slot(from))->data
            ? &b->place[buffer_slot(from) - b->first_inner]
            : NULL;
        if (result[k] && at && !*at) *at = result[k];
    }
}

static void copy_results(Rangeify *r, Body *b, Schedule *s, const UOp *call, const UOp *const *result, uint32_t n)
{
    for (uint32_t k = 0; k < n; k++) {
        const UOp *from = placed(r, b, b->part.output[k], call);
        if (!result[k] || from == result[k]) continue;
        ScheduleItem *item = schedule_add(s, ITEM_COPY);
        item->mem[0] = result[k];
        item->mem[1] = from;
    }
}

static int ascending(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

static Origins origins_of(Graph *g, const UOp *call, const Origins *first)
{
    uint32_t *node = arena_copy(graph_arena(g), first->node, first->count * sizeof *first->node);
    for (uint32_t k = 0; k < first->count; k++) node[k] = graph_renamed(g, call, node[k]);
    if (first->count) qsort(node, first->count, sizeof *node, ascending);
    uint32_t n = 0;
    for (uint32_t k = 0; k < first->count; k++)
        if (!n || node[n - 1] != node[k]) node[n++] = node[k];
    return (Origins){ node, n };
}

static void add_items(Rangeify *r, Body *b, Schedule *s, const UOp *call, bool again)
{
    const UOp **param = b->param;
    for (uint32_t i = 0; i < b->part.count; i++) {
        const ScheduleItem *of = &b->part.item[i];
        ScheduleItem *item = schedule_add(s, of->kind);
        Kernel *k = of->kernel;
        for (uint32_t m = 0; m < 2 && !k; m++) item->mem[m] = placed(r, b, of->mem[m], call);
        if (!k) continue;
        item->kernel = again ? kernel_shared(k) : k;
        item->device = of->device;
        item->part = of->part;
        item->origins = origins_of(r->g, call, &of->origins);
        for (uint32_t p = 0; p < k->nparam; p++) item->kernel->param[p].buffer = placed(r, b, *param++, call);
    }
}

static void note_use(Schedule *s, Body *b, uint32_t first, bool again)
{
    if (!again) {
        s->function = mem_grow(s->function, (s->nfunction + 1) * sizeof *s->function);
        s->function[b->use = s->nfunction++] = (struct FunctionUse){ 0, first, s->count - first };
    }
    s->function[b->use].calls++;
}

TgStatus function_items(Rangeify *r, Schedule *s, const UOp *call, const UOp *const *result, uint32_t n)
{
    Body *b = r->body;
    while (b && b->function != call->src[0]) b = b->next;
    bool again = b != NULL;
    if (!again) {
        b = NEW(r->arena, Body);
        b->function = call->src[0];
        TRY(schedule_body(r, b, call));
        b->next = r->body;
        r->body = b;
    }
    uint32_t first = s->count;
    place_results(r, b, result, n);
    add_items(r, b, s, call, again);
    copy_results(r, b, s, call, result, n);
    note_use(s, b, first, again);
    return TG_OK;
}

void functions_free(Rangeify *r)
{
    for (Body *b = r->body; b; b = b->next) mem_free(b->part.item), mem_free(b->part.function);
}
