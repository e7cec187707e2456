/* Guards at tensor level, and their messages (guard.h). */
#include "graph/guard.h"

#include <math.h>

#include "graph/base/map.h"
#include "graph/build.h"
#include "graph/scalar.h"

bool guard_allows(GuardKind kind, int64_t value, int64_t bound)
{
    switch (kind) {
    case GUARD_INDEX: return value >= 0 && value < bound;
    case GUARD_NONZERO: return value != 0;
    case GUARD_SIZE: return value == bound;
    case GUARD_FINITE: return isfinite(scalar_real(value));
    default: return value == bound || value == 1;
    }
}

void guard_note(GuardKind kind, int64_t value, int64_t bound, int64_t *word)
{
    word[0] = value;
    word[1] = kind == GUARD_NONZERO || kind == GUARD_FINITE ? 1 : bound + 1;
}

TgStatus guard_fail(const Guard *w, TgStatus code, const int64_t *word)
{
    int64_t size = word[1] - 1,
            index = word[0] >= 0 || !w->from_end ? word[0]
        : word[0] < INT64_MIN + size             ? INT64_MIN
                                                 : word[0] - size;
    if (w->kind == GUARD_FINITE) return (TgStatus)GUARD_PLAIN;
    if (w->kind == GUARD_NONZERO) return fail_at(code, w->node, w->op, w->field, "division of integers by zero");
    if (w->kind == GUARD_SIZE)
        return fail_at(code, w->node, w->op, NULL, "a data-dependent size is %lld; wanted %lld", (long long)word[0],
                       (long long)size);
    if (w->kind == GUARD_BROADCAST)
        return fail_at(code, w->node, w->op, NULL, "sizes %lld, which depends on data, and %lld do not broadcast",
                       (long long)word[0], (long long)size);
    return fail_at(code, w->node, w->op, w->field, "index %lld; the axis has size %lld", (long long)index,
                   (long long)size);
}

static const Guard *guard_here(Graph *g, GuardKind kind, bool from_end)
{
    Guard *w = arena_copy(graph_arena(g), graph_place(g), sizeof *w);
    if (w->node) w->node = arena_strdup(graph_arena(g), w->node);
    if (w->op) w->op = arena_strdup(graph_arena(g), w->op);
    if (w->field) w->field = arena_strdup(graph_arena(g), w->field);
    w->kind = kind;
    w->from_end = from_end;
    return w;
}

void graph_at(Graph *g, const char *node, const char *op, const char *field)
{
    *graph_place(g) = (Guard){ .node = node, .op = op, .field = field };
}

void graph_call_at(Graph *g, const UOp *call)
{
    if (graph_place(g)->node && !graph_call_place(g, call))
        map_put(graph_calls(g), &call->id, sizeof call->id, (void *)(uintptr_t)guard_here(g, GUARD_INDEX, false));
}

const Guard *graph_call_place(Graph *g, const UOp *call) { return map_get(graph_calls(g), &call->id, sizeof call->id); }

/* A value that is a constant and not allowed: the model is wrong. */
static U refused(Graph *g, GuardKind kind, int64_t value, int64_t bound, bool from_end)
{
    int64_t word[GUARD_WORDS];
    if (graph_error(g) != TG_OK) return UOP0(g, UOP_ERROR, DT_VOID, NO_ARG);
    guard_note(kind, value, bound, word);
    U error = graph_fail(g, "guard");
    guard_fail(guard_here(g, kind, from_end), TG_BAD_MODEL, word);         /* the message with its place */
    return error;
}

static U guard(Graph *g, GuardKind kind, U value, U bound, bool from_end)
{
    if (uop_is_const(value) && uop_is_const(bound) && kind != GUARD_FINITE)
        return guard_allows(kind, value->arg.i, bound->arg.i) ? value
                                                              : refused(g, kind, value->arg.i, bound->arg.i, from_end);
    const UOp *two = uop_index(g, GUARD_WORDS);
    BufferInfo info = { .dtype = DT_I64,
                        .shape = graph_shape(g, &two, 1),
                        .size_bytes = GUARD_BYTES,
                        .guard = guard_here(g, kind, from_end) };
    return UOP(g, UOP_GUARD, DT_VOID, ARG_I(kind | buffer_slot(graph_add_buffer(g, &info)) << 8), value, bound);
}

U guard_index(Graph *g, U index, U size, bool from_end)
{
    if (is_error(index) || is_error(size)) return is_error(index) ? index : size;
    bool fits = index->vmin >= 0 && index->vmax < size->vmin;
    return fits || !uop_numel(index) ? index : guard(g, GUARD_INDEX, index, size, from_end);
}

U guard_size(Graph *g, GuardKind kind, U size, U wanted)
{
    return size == wanted ? size : guard(g, kind, size, wanted, false);
}

U guard_nonzero(Graph *g, U value)
{
    if (is_error(value) || !dtype_is_int((DType)value->dtype) || value->vmin > 0 || value->vmax < 0 ||
        !uop_numel(value))
        return value;
    size_t bytes;
    const void *data = uop_static(value) ? data_of(g, value, 1 << 20, &bytes) : NULL;
    for (int64_t k = 0; data && k < uop_numel(value); k++)
        if (!scalar_load((DType)value->dtype, data, k)) return refused(g, GUARD_NONZERO, 0, 0, false);
    return data ? value : guard(g, GUARD_NONZERO, value, uop_int(g, (DType)value->dtype, 0), false);
}

U guard_finite(Graph *g, U value)
{
    return is_error(value) ? value : guard(g, GUARD_FINITE, value, scalar(g, (DType)value->dtype, 0), false);
}
