/* A model's inputs and outputs as values of the graph: tensors one by one, PARAMs in and sources of the SINK out; what
 * holds them is a TUPLE (tuple.h) here and TgTensors (ports.h) outside. Must hold: inputs fit their declarations
 * (port_check). Outputs are compared with theirs here.
 */
#include "frontend/import/shape_query.h"
#include "frontend/values/ports.h"
#include "frontend/values/tuple.h"
#include "graph/custom.h"

U border_constant(const Run *run, const TgTensor *t)
{
    Arena *a = graph_arena(run->g);
    if (t->type == TG_STRING) return text_list(run->g, run->pool, t->data, t->shape, (uint32_t)t->rank);
    TensorDef def = { .type = t->type,
                      .rank = (uint32_t)t->rank,
                      .shape = arena_copy(a, t->shape, sizeof t->shape),
                      .numel = tensor_count(t),
                      .size_bytes = t->size_bytes,
                      .data = arena_copy(a, t->data, t->size_bytes) };
    return import_constant(run->g, run->pool, &def);
}

/* A value that sizes follow from; elements that vary are sizes themselves. */
static U baked_input(const Run *run, const TgTensor *t, uint32_t port)
{
    Graph *g = run->g;
    U x = border_constant(run, t);
    const UOp *v[DIMS_VALUES];
    int64_t n = tensor_count(t), any = 0;
    for (int64_t e = 0; e < n && run->dims; e++) any += dims_find_value(run->dims, port, e) >= 0;
    if (!any || !values_of(g, x, v, DIMS_VALUES)) return x;
    for (int64_t e = 0; e < n; e++)
        if (dims_find_value(run->dims, port, e) >= 0)
            v[e] = cast(g, dims_size(g, run->dims, port, TG_MAX_RANK + (int32_t)e, 0), (DType)x->dtype);
    return from_values(g, (DType)x->dtype, v, t->shape, (uint32_t)t->rank);
}

/* port: the model's input that it is; inside of another one it is none, and its sizes are built in. */
static U tensor_input(Run *run, const TgTensor *t, uint32_t port, uint32_t slot, bool baked)
{
    Graph *g = run->g;
    const UOp *dim[TG_MAX_RANK + 1];
    bool text = t->type == TG_STRING, narrow = narrow_is((int32_t)t->type);
    bool pairs = complex_is((int32_t)t->type);
    DType type = text ? DT_I64
        : narrow      ? narrow_storage((int32_t)t->type)
        : pairs       ? complex_storage((int32_t)t->type)
                      : dtype_from_onnx((int32_t)t->type);
    dim[t->rank] = uop_index(g, 2);
    for (int32_t k = 0; k < t->rank; k++) dim[k] = dims_size(g, run->dims, port, k, t->shape[k]);
    U param = uop_param(g, type, dim, (uint32_t)t->rank + pairs, slot);
    if (baked) return baked_input(run, t, port);
    return text  ? text_wrap(g, param)
        : pairs  ? complex_of_pairs(g, param, (int32_t)t->type)
        : narrow ? narrow_wrap(g, param, (int32_t)t->type)
                 : param;
}

U border_input(Run *run, const TgTensor *t, uint32_t port, uint32_t *slot, const bool *baked)
{
    uint32_t at = *slot, n = (uint32_t)t->shape[0];
    if (!holds_tensors(t)) return ++*slot, tensor_input(run, t, port, at, baked[at]);
    const UOp **v = NEW_N(run->arena, const UOp *, n + 1);
    for (uint32_t k = 0; k < n; k++) v[k] = border_input(run, (const TgTensor *)t->data + k, UINT32_MAX, slot, baked);
    if (t->type == TG_OPTIONAL) return n ? v[0] : optional_empty(run->g);
    return t->type == TG_SEQUENCE ? sequence_new(run->g, v, n) : maps_apart(run->g, map_new(run->g, v[0], v[1]));
}

/* ---- outputs ---- */

/* The tensors of a model's outputs, those inside others one by one. What a tensor is in a file: strings are numbers in
 * the graph, narrow types wider ones, complex ones pairs. */
typedef struct {
    Graph *g;
    const char *name;
    const UOp **value;
    bool *text;
    int32_t *narrow;
    uint32_t n;
} Outputs;

static uint32_t count_tensors(U v)
{
    uint32_t n = 0;
    if (!is_sequence(v) && !is_map(v)) return 1;
    for (uint32_t k = 0; k < v->nsrc; k++) n += count_tensors(v->src[k]);
    return n;
}

static TgStatus add_tensor(Outputs *o, const ValueDef *d, U v)
{
    bool text = is_text(v);
    int32_t narrow = complex_type(v) ? complex_type(v) : narrow_type(v),
            type = text ? (int32_t)TG_STRING
        : narrow        ? narrow
                        : dtype_info[v->dtype].onnx;
    if (d->kind == VALUE_TENSOR && d->type > 0 && type > 0 && d->type != type)
        return fail(TG_BAD_MODEL, "output '%s' is declared as %s; it is %s", o->name, tg_type_name((TgType)d->type),
                    tg_type_name((TgType)type));
    o->text[o->n] = text;
    o->narrow[o->n] = narrow;
    o->value[o->n++] = complex_type(v) ? complex_pairs(o->g, v) : special_part(v, 0);
    return TG_OK;
}

static ValueKind kind_of(U v)
{
    return is_sequence(v) || is_rows(v) ? VALUE_SEQUENCE
        : is_map(v)                     ? VALUE_MAP
        : is_empty_optional(v)          ? VALUE_OPTIONAL
                                        : VALUE_TENSOR;
}

/* *to is what the caller gets: a tensor, which the program fills in, or what holds those of v. */
static TgStatus add_output(Outputs *o, TgTensor *to, const ValueDef *d, U v)
{
    static const char *const name[] = { [VALUE_TENSOR] = "a tensor",
                                        [VALUE_SEQUENCE] = "a sequence",
                                        [VALUE_OPTIONAL] = "an optional",
                                        [VALUE_MAP] = "a map" };
    static const ValueDef unknown = { .kind = VALUE_UNKNOWN, .rank = -1 };
    ValueKind kind = kind_of(v);
    bool wrap = d->kind == VALUE_OPTIONAL || kind == VALUE_OPTIONAL,
         fits = d->kind == kind || d->kind == VALUE_UNKNOWN || d->kind == VALUE_OPTIONAL ||
        (d->kind == VALUE_SEQUENCE && kind == VALUE_MAP);
    if (is_rows(v) && d->kind != VALUE_UNKNOWN)
        return fail(TG_UNSUPPORTED, "output '%s' is a sequence whose length is a variable", o->name);
    if (!fits) return fail(TG_BAD_MODEL, "output '%s' is declared as %s; it is %s", o->name, name[d->kind], name[kind]);
    if (!wrap && kind == VALUE_TENSOR) return add_tensor(o, d, v);
    uint32_t n = wrap ? kind != VALUE_OPTIONAL : v->nsrc;
    TgTensor *held = hold(graph_arena(o->g), to, wrap ? TG_OPTIONAL : kind == VALUE_MAP ? TG_MAP : TG_SEQUENCE, n);
    if (is_rows(v)) to->rank = ROWS_RANK;
    for (uint32_t k = 0; k < n; k++)
        TRY(add_output(o, &held[k], d->inside && kind != VALUE_MAP ? d->inside : &unknown, wrap ? v : v->src[k]));
    return TG_OK;
}

TgStatus border_outputs(Imported *out, const GraphDef *d, const UOp *const *value)
{
    Arena *arena = graph_arena(out->g);
    uint32_t n = 0;
    for (uint32_t k = 0; k < d->noutput; k++) n += count_tensors(value[k]);
    Outputs o = { .g = out->g,
                  .value = NEW_N(arena, const UOp *, n + 1),
                  .text = NEW_N(arena, bool, n + 1),
                  .narrow = NEW_N(arena, int32_t, n + 1) };
    out->output = NEW_N(arena, TgTensor, d->noutput + 1);
    for (uint32_t k = 0; k < d->noutput; k++) {
        o.name = d->output[k].name;
        TRY(add_output(&o, &out->output[k], &d->output[k], value[k]));
    }
    out->noutput = o.n;
    out->output_text = o.text;
    out->output_narrow = o.narrow;
    out->sink = sink_of(out->g, o.value, o.n);
    return graph_error(out->g);
}
