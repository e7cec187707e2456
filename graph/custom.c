/* The blob of a CUSTOMFUNCTION: its name, zeros up to a multiple of 8 bytes, its attributes. */
#include "graph/custom.h"
#include "graph/base/map.h"
#include "graph/guard.h"

#include <string.h>

#include "graph/scalar.h"

const UOp *size_var(Graph *g, const char *what, int64_t least, int64_t largest)
{
    const UOp *v = uop_var(g, arena_printf(graph_arena(g), "%s_%u", what, graph_count(g)), least, largest);
    map_put(graph_data_sizes(g), &v->id, sizeof v->id, (void *)(uintptr_t)v);
    return v;
}

bool size_from_data(Graph *g, const UOp *size)
{
    bool from_data = size->op == UOP_DEFINE_VAR && map_get(graph_data_sizes(g), &size->id, sizeof size->id);
    for (uint32_t k = 0; k < size->nsrc && !from_data; k++) from_data = size_from_data(g, size->src[k]);
    return from_data;
}

int64_t size_number(const UOp *size) { return uop_is_const(size) ? uop_const_int(size) : -1 - (int64_t)size->id; }

const UOp *size_setter(Graph *g, const UOp *var)
{
    for (uint32_t id = var->id; id < graph_count(g); id++)
        if (call_sets(graph_node(g, id), var)) return graph_node(g, id);
    return NULL;
}

/* A CALL that sets a size which sink requests, while none that it reaches does; NULL: there is none. */
static const UOp *lacking(Graph *g, const UOp *sink)
{
    Arena *a = arena_new();
    uint32_t n;
    const UOp **order = uop_toposort(g, &sink, 1, a, &n), *call = NULL;
    for (uint32_t i = 0; i < n && !call; i++) {
        bool set = order[i]->op != UOP_DEFINE_VAR || !size_from_data(g, order[i]);
        for (uint32_t k = 0; k < n && !set; k++) set = call_sets(order[k], order[i]);
        if (!set) call = size_setter(g, order[i]);
    }
    arena_free(a);
    return call;
}

const UOp *sink_of(Graph *g, const UOp *const *value, uint32_t n)
{
    const UOp *sink = uop_new(g, UOP_SINK, DT_VOID, NO_ARG, value, n), *call = lacking(g, sink);
    if (!call) return sink;
    const UOp **more = NEW_N(graph_arena(g), const UOp *, n + 1);
    if (n) memcpy(more, value, n * sizeof *more);
    more[n] = call;
    return sink_of(g, more, n + 1);
}

uint32_t sink_values(const UOp *sink)
{
    uint32_t n = sink->nsrc;
    while (n && sink->src[n - 1]->op == UOP_CALL) n--;
    return n;
}

static size_t name_bytes(const char *name) { return (strlen(name) + 8) & ~(size_t)7; }

const UOp *custom_new(Graph *g, const char *name, const void *attr, size_t attr_bytes, const UOp *const *meta,
                      uint32_t nmeta)
{
    size_t head = name_bytes(name);
    char *bytes = arena_alloc(graph_arena(g), head + attr_bytes);
    memcpy(bytes, name, strlen(name));
    if (attr_bytes) memcpy(bytes + head, attr, attr_bytes);
    return uop_new(g, UOP_CUSTOMFUNCTION, DT_VOID, (Arg){ 0, graph_blob(g, bytes, head + attr_bytes) }, meta, nmeta);
}

const char *custom_name(const UOp *function) { return (const char *)function->arg.blob->data; }

const void *custom_attr(const UOp *function, size_t *size_bytes)
{
    size_t head = name_bytes(custom_name(function));
    if (size_bytes) *size_bytes = function->arg.blob->size - head;
    return function->arg.blob->data + head;
}

bool custom_is(const UOp *call, const char *name)
{
    return call->op == UOP_CALL && call->src[0]->op == UOP_CUSTOMFUNCTION && !strcmp(custom_name(call->src[0]), name);
}

bool call_sets(const UOp *call, const UOp *var)
{
    if (call->op != UOP_CALL || call->src[0]->op != UOP_CUSTOMFUNCTION) return false;
    const UOp *f = call->src[0];
    for (uint32_t k = custom_is(call, "loop") ? 2 : 0; k < f->nsrc; k++)
        if (f->src[k] == var) return true;
    return false;
}

/* A number, or what has no elements, whose formula is never computed, as a constant. */
static const UOp *in_memory(Graph *g, const UOp *u)
{
    bool nothing = u->dtype != DT_VOID && uop_static(u) && !uop_numel(u);
    if (!uop_is_const(u) && !nothing) return u;
    void *data = arena_alloc(graph_arena(g), 16);
    if (!nothing) scalar_store((DType)u->dtype, data, 0, u->arg.i);
    return graph_add_buffer(g,
                            &(BufferInfo){ .dtype = (DType)u->dtype,
                                           .shape = u->shape,
                                           .data = data,
                                           .size_bytes = nothing ? 0 : (size_t)dtype_size((DType)u->dtype),
                                           .name = "" });
}

const UOp *call_new(Graph *g, const UOp *function, const UOp *const *arg, uint32_t narg)
{
    const UOp **src = NEW_N(graph_arena(g), const UOp *, narg + 1);
    src[0] = function;
    for (uint32_t k = 0; k < narg; k++) {
        if (arg[k]->op == UOP_ERROR) return arg[k];
        src[k + 1] = in_memory(g, arg[k]);
    }
    const UOp *call = uop_new(g, UOP_CALL, DT_VOID, NO_ARG, src, narg + 1);
    graph_call_at(g, call);
    return call;
}

const UOp *call_result(Graph *g, const UOp *call, uint32_t k, DType t, const UOp *const *dim, uint32_t rank)
{
    return call->op == UOP_ERROR ? call : UOP(g, UOP_GETTUPLE, t, ARG_I(k), call, uop_sizes(g, dim, rank));
}
