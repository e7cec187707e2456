/* Part of a model as a model of its own.
 *
 * In: a model file, names of values of its graph that become outputs, and of values that become inputs. Out: a file
 * that holds the nodes between them, the initializers that those read (external ones become internal) and the model's
 * functions. Subgraphs stay whole: a node is taken or left as one. Steps: unpack (wire.c), point bytes fields at the
 * file's bytes (settle), mark the nodes that outputs need (close_over), keep what is marked (cut), pack. Widening is a
 * walk over the same messages before they are packed: every place that says f16, bf16 or f32 says f64.
 */
#include "graph/base/memory.h"
#include "onnx/extract.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/base/map.h"
#include "graph/scalar.h"
#include "onnx/files/save.h"
#include "onnx/tensor.h"

typedef Onnx__GraphProto GraphProto;
typedef Onnx__NodeProto NodeProto;
typedef Onnx__AttributeProto AttrProto;

typedef struct {
    const TgExtract *want;
    Arena *arena;
    TensorSource source;
    Map maker;          /* name of a value -> its node's index + 1 */
    Map needed;         /* names of values that the part reads */
    bool *taken;        /* of each node */
    uint32_t *todo, ntodo;
} Extract;

static const char *text(const char *s) { return s ? s : ""; }

/* ---- tensors whose bytes are elsewhere ---- */

static bool is_narrow_float(int32_t type) { return type == TG_F16 || type == TG_BF16 || type == TG_F32; }
static int32_t wider(int32_t type) { return is_narrow_float(type) ? TG_F64 : type; }

static TgStatus raw_room(uint8_t **out, Onnx__TensorProto *p, size_t size, Extract *e)
{
    *out = size <= INT32_MAX ? arena_alloc(e->arena, size + 1) : NULL;
    if (!*out) return fail(TG_LIMIT, "initializer '%s' has 2 GiB or more, which one file cannot hold", text(p->name));
    p->n_float_data = p->n_int32_data = p->n_int64_data = p->n_double_data = p->n_uint64_data = p->n_external_data = 0;
    p->has_data_location = 0;
    p->has_raw_data = 1;
    p->raw_data = (ProtobufCBinaryData){ size, *out };
    return TG_OK;
}

static TgStatus widen_tensor(Onnx__TensorProto *p, const TensorDef *t, Extract *e)
{
    uint8_t *raw;
    DType from = t->type == TG_F16 ? DT_F16 : t->type == TG_BF16 ? DT_BF16 : DT_F32;
    TRY(raw_room(&raw, p, (size_t)t->numel * sizeof(double), e));
    for (int64_t i = 0; i < t->numel; i++)
        memcpy(raw + (size_t)i * sizeof(double), &(double){ scalar_real(scalar_load(from, t->data, i)) },
               sizeof(double));
    p->data_type = TG_F64;
    return TG_OK;
}

/* Points its bytes at where they are; those of other files become its own. */
static TgStatus settle_tensor(Onnx__TensorProto *p, Extract *e)
{
    TensorDef t;
    const Place at = { TG_BAD_MODEL, NULL, NULL, text(p->name) };
    bool external = p->has_data_location && p->data_location == ONNX__TENSOR_PROTO__DATA_LOCATION__EXTERNAL,
         widen = e->want->widen && is_narrow_float(p->data_type);
    if (external || widen) {
        uint8_t *raw;
        TRY(tensor_decode(&t, &e->source, p, &at));
        if (widen) return widen_tensor(p, &t, e);
        TRY(raw_room(&raw, p, t.size_bytes, e));
        memcpy(raw, t.data, t.size_bytes);
        return TG_OK;
    }
    if (p->has_raw_data) {
        Bytes b = wire_bytes(e->source.wire, &p->raw_data);
        p->raw_data = (ProtobufCBinaryData){ b.size, (uint8_t *)b.data };
    }
    for (size_t k = 0; k < p->n_string_data; k++) {
        Bytes b = wire_bytes(e->source.wire, &p->string_data[k]);
        p->string_data[k] = (ProtobufCBinaryData){ b.size, (uint8_t *)b.data };
    }
    return TG_OK;
}

static TgStatus settle_sparse(Onnx__SparseTensorProto *p, Extract *e)
{
    if (p->values) TRY(settle_tensor(p->values, e));
    return p->indices ? settle_tensor(p->indices, e) : TG_OK;
}

/* ---- types ---- */

static void widen_type(Onnx__TypeProto *t)
{
    for (; t; ) switch (t->value_case) {
    case ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE: t->tensor_type->elem_type = wider(t->tensor_type->elem_type); return;
    case ONNX__TYPE_PROTO__VALUE_SPARSE_TENSOR_TYPE:
        t->sparse_tensor_type->elem_type = wider(t->sparse_tensor_type->elem_type);
        return;
    case ONNX__TYPE_PROTO__VALUE_SEQUENCE_TYPE: t = t->sequence_type->elem_type; break;
    case ONNX__TYPE_PROTO__VALUE_OPTIONAL_TYPE: t = t->optional_type->elem_type; break;
    case ONNX__TYPE_PROTO__VALUE_MAP_TYPE: t = t->map_type->value_type; break;
    default: return;
    }
}

static void widen_ports(Onnx__ValueInfoProto **port, size_t n)
{
    for (size_t k = 0; k < n; k++) widen_type(port[k]->type);
}

/* Attributes of the standard's operators whose number is an element type. */
static bool says_type(const char *name)
{
    static const char *const names[] = { "to",           "dtype",           "stash_type", "softmax_precision",
                                         "output_dtype", "output_datatype", "precision" };
    for (size_t k = 0; k < sizeof names / sizeof *names; k++)
        if (!strcmp(name, names[k])) return true;
    return false;
}

/* Constant's value_float and value_floats are f32 by their names: they become a tensor. */
static TgStatus widen_constant(AttrProto *a, Extract *e)
{
    bool list = !strcmp(text(a->name), "value_floats");
    if (!list && strcmp(text(a->name), "value_float")) return TG_OK;
    size_t n = list ? a->n_floats : 1;
    Onnx__TensorProto *t = NEW(e->arena, Onnx__TensorProto);
    onnx__tensor_proto__init(t);
    t->has_data_type = 1;
    t->data_type = TG_F64;
    t->n_dims = list;
    t->dims = NEW(e->arena, int64_t);
    *t->dims = (int64_t)n;
    t->n_double_data = n;
    t->double_data = NEW_N(e->arena, double, n);
    for (size_t k = 0; k < n; k++) t->double_data[k] = list ? (double)a->floats[k] : (double)a->f;
    AttrProto plain = ONNX__ATTRIBUTE_PROTO__INIT;
    plain.name = (char *)"value";
    plain.has_type = 1;
    plain.type = ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__TENSOR;
    plain.t = t;
    *a = plain;
    return TG_OK;
}

/* ---- a walk over everything that a part keeps ---- */

static TgStatus settle_graph(GraphProto *g, Extract *e);

static TgStatus settle_attr(AttrProto *a, Extract *e)
{
    if (a->has_s) {
        Bytes b = wire_bytes(e->source.wire, &a->s);
        a->s = (ProtobufCBinaryData){ b.size, (uint8_t *)b.data };
    }
    for (size_t k = 0; k < a->n_strings; k++) {
        Bytes b = wire_bytes(e->source.wire, &a->strings[k]);
        a->strings[k] = (ProtobufCBinaryData){ b.size, (uint8_t *)b.data };
    }
    if (a->t) TRY(settle_tensor(a->t, e));
    for (size_t k = 0; k < a->n_tensors; k++) TRY(settle_tensor(a->tensors[k], e));
    if (a->sparse_tensor) TRY(settle_sparse(a->sparse_tensor, e));
    for (size_t k = 0; k < a->n_sparse_tensors; k++) TRY(settle_sparse(a->sparse_tensors[k], e));
    if (a->g) TRY(settle_graph(a->g, e));
    for (size_t k = 0; k < a->n_graphs; k++) TRY(settle_graph(a->graphs[k], e));
    if (!e->want->widen) return TG_OK;
    if (a->has_i && says_type(text(a->name))) a->i = wider((int32_t)a->i);
    widen_type(a->tp);
    return widen_constant(a, e);
}

static TgStatus settle_nodes(NodeProto **node, size_t n, Extract *e)
{
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < node[i]->n_attribute; k++) TRY(settle_attr(node[i]->attribute[k], e));
    return TG_OK;
}

static TgStatus settle_graph(GraphProto *g, Extract *e)
{
    for (size_t k = 0; k < g->n_initializer; k++) TRY(settle_tensor(g->initializer[k], e));
    for (size_t k = 0; k < g->n_sparse_initializer; k++) TRY(settle_sparse(g->sparse_initializer[k], e));
    if (e->want->widen) {
        widen_ports(g->input, g->n_input);
        widen_ports(g->output, g->n_output);
        widen_ports(g->value_info, g->n_value_info);
    }
    return settle_nodes(g->node, g->n_node, e);
}

/* ---- which nodes ---- */

static void need(Extract *e, const char *name)
{
    if (!*name || map_gets(&e->needed, name)) return;
    map_puts(&e->needed, name, e);
    for (int32_t k = 0; k < e->want->input_count; k++)
        if (!strcmp(name, e->want->input[k])) return;
    uint32_t maker = (uint32_t)(uintptr_t)map_gets(&e->maker, name);
    if (!maker || e->taken[maker - 1]) return;
    e->taken[maker - 1] = true;
    e->todo[e->ntodo++] = maker - 1;
}

static void need_node(Extract *e, const NodeProto *n);

/* Names that a body only has inside are nobody's outside, or another's: then more is kept than must be. */
static void need_body(Extract *e, const GraphProto *g)
{
    for (size_t k = 0; k < g->n_node; k++) need_node(e, g->node[k]);
    for (size_t k = 0; k < g->n_output; k++) need(e, text(g->output[k]->name));
}

static void need_node(Extract *e, const NodeProto *n)
{
    for (size_t k = 0; k < n->n_input; k++) need(e, n->input[k]);
    for (size_t k = 0; k < n->n_attribute; k++) {
        if (n->attribute[k]->g) need_body(e, n->attribute[k]->g);
        for (size_t i = 0; i < n->attribute[k]->n_graphs; i++) need_body(e, n->attribute[k]->graphs[i]);
    }
}

static bool has_port(Onnx__ValueInfoProto **port, size_t n, const char *name)
{
    for (size_t k = 0; k < n; k++)
        if (!strcmp(text(port[k]->name), name)) return true;
    return false;
}

static TgStatus close_over(Extract *e, const GraphProto *g)
{
    e->taken = NEW_N(e->arena, bool, g->n_node + 1);
    e->todo = NEW_N(e->arena, uint32_t, g->n_node + 1);
    map_init(&e->maker, e->arena);
    map_init(&e->needed, e->arena);
    for (size_t i = 0; i < g->n_node; i++)
        for (size_t k = 0; k < g->node[i]->n_output; k++)
            map_puts(&e->maker, g->node[i]->output[k], (void *)(uintptr_t)(i + 1));
    for (int32_t k = 0; k < e->want->output_count; k++) {
        const char *name = e->want->output[k];
        if (!map_gets(&e->maker, name) && !has_port(g->input, g->n_input, name) &&
            !has_port(g->output, g->n_output, name))
            return fail(TG_USAGE, "the graph has no value '%s'", name);
        need(e, name);
    }
    while (e->ntodo) need_node(e, g->node[e->todo[--e->ntodo]]);
    return TG_OK;
}

/* ---- the new graph ---- */

static Onnx__ValueInfoProto *new_port(Extract *e, const char *name, const TgTensor *t)
{
    Onnx__ValueInfoProto *v = NEW(e->arena, Onnx__ValueInfoProto);
    onnx__value_info_proto__init(v);
    v->name = arena_strdup(e->arena, name);
    if (!t) return v;
    v->type = NEW(e->arena, Onnx__TypeProto);
    onnx__type_proto__init(v->type);
    v->type->value_case = ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE;
    Onnx__TypeProto__Tensor *type = v->type->tensor_type = NEW(e->arena, Onnx__TypeProto__Tensor);
    onnx__type_proto__tensor__init(type);
    type->has_elem_type = 1;
    type->elem_type = (int32_t)t->type;
    type->shape = NEW(e->arena, Onnx__TensorShapeProto);
    onnx__tensor_shape_proto__init(type->shape);
    type->shape->n_dim = (size_t)t->rank;
    type->shape->dim = NEW_N(e->arena, Onnx__TensorShapeProto__Dimension *, t->rank + 1);
    for (int32_t d = 0; d < t->rank; d++) {
        Onnx__TensorShapeProto__Dimension *dim = type->shape->dim[d] = NEW(e->arena, Onnx__TensorShapeProto__Dimension);
        onnx__tensor_shape_proto__dimension__init(dim);
        dim->value_case = ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE;
        dim->dim_value = t->shape[d];
    }
    return v;
}

static void cut_inputs(Extract *e, GraphProto *g)
{
    const TgExtract *w = e->want;
    size_t n = 0;
    Onnx__ValueInfoProto **port = NEW_N(e->arena, Onnx__ValueInfoProto *, g->n_input + (size_t)w->input_count + 1);
    for (size_t k = 0; k < g->n_input; k++) {
        bool given = false;
        for (int32_t i = 0; i < w->input_count; i++) given |= !strcmp(w->input[i], text(g->input[k]->name));
        if (!given && map_gets(&e->needed, text(g->input[k]->name))) port[n++] = g->input[k];
    }
    for (int32_t i = 0; i < w->input_count; i++)
        if (map_gets(&e->needed, w->input[i])) port[n++] = new_port(e, w->input[i], &w->input_type[i]);
    g->input = port;
    g->n_input = n;
}

/* An output that the model has keeps its type; of others nothing is said. */
static void cut_outputs(Extract *e, GraphProto *g)
{
    const TgExtract *w = e->want;
    Onnx__ValueInfoProto **port = NEW_N(e->arena, Onnx__ValueInfoProto *, w->output_count + 1);
    for (int32_t i = 0; i < w->output_count; i++) {
        port[i] = new_port(e, w->output[i], NULL);
        for (size_t k = 0; k < g->n_output; k++)
            if (!strcmp(text(g->output[k]->name), w->output[i])) port[i] = g->output[k];
    }
    g->output = port;
    g->n_output = (size_t)w->output_count;
}

static bool is_given(const Extract *e, const char *name)
{
    for (int32_t i = 0; i < e->want->input_count; i++)
        if (!strcmp(e->want->input[i], name)) return true;
    return false;
}

static void cut(Extract *e, GraphProto *g)
{
    size_t n = 0;
    for (size_t i = 0; i < g->n_node; i++)
        if (e->taken[i]) g->node[n++] = g->node[i];
    g->n_node = n;
    n = 0;
    for (size_t k = 0; k < g->n_initializer; k++)
        if (map_gets(&e->needed, text(g->initializer[k]->name)) && !is_given(e, text(g->initializer[k]->name)))
            g->initializer[n++] = g->initializer[k];
    g->n_initializer = n;
    n = 0;
    for (size_t k = 0; k < g->n_sparse_initializer; k++)
        if (g->sparse_initializer[k]->values && map_gets(&e->needed, text(g->sparse_initializer[k]->values->name)))
            g->sparse_initializer[n++] = g->sparse_initializer[k];
    g->n_sparse_initializer = n;
    n = 0;
    for (size_t k = 0; k < g->n_value_info; k++) {
        const char *name = text(g->value_info[k]->name);
        if (map_gets(&e->needed, name) && !is_given(e, name)) g->value_info[n++] = g->value_info[k];
    }
    g->n_value_info = n;
    cut_inputs(e, g);
    cut_outputs(e, g);
}

/* ---- the file ---- */

static TgStatus write_model(const Onnx__ModelProto *m, const char *path)
{
    Save save;
    size_t size = protobuf_c_message_get_packed_size(&m->base);
    if (size > INT32_MAX) return fail(TG_LIMIT, "the part has 2 GiB or more, which one file cannot hold");
    uint8_t *bytes = mem_try(size + 1);
    if (!bytes) return fail(TG_LIMIT, "no memory for a part of %zu bytes", size);
    protobuf_c_message_pack(&m->base, bytes);
    TgStatus status = save_begin(&save, path);
    if (status == TG_OK) {
        save_write(&save, bytes, size);
        status = save_end(&save);
    }
    mem_free(bytes);
    return status;
}

static TgStatus extract_from(Extract *e, Bytes file, const char *path)
{
    ProtobufCMessage *message;
    const Wire wire = { file, e->arena, TG_BAD_MODEL };
    e->source.wire = &wire;
    TRY(wire_unpack(&message, &wire, &onnx__model_proto__descriptor));
    Onnx__ModelProto *m = (Onnx__ModelProto *)message;
    if (!m->graph) return fail_at(TG_BAD_MODEL, NULL, NULL, "graph", "the model has none");
    TRY(close_over(e, m->graph));
    cut(e, m->graph);
    TRY(settle_graph(m->graph, e));
    for (size_t k = 0; k < m->n_functions; k++) {
        Onnx__FunctionProto *f = m->functions[k];
        for (size_t i = 0; i < f->n_attribute_proto; i++) TRY(settle_attr(f->attribute_proto[i], e));
        TRY(settle_nodes(f->node, f->n_node, e));
    }
    return write_model(m, path);
}

TgStatus extract(const char *model, const TgExtract *want, const char *path)
{
    Bytes file;
    Files *files = NULL;
    Arena *arena = arena_new();
    Extract e = { .want = want, .arena = arena };
    TgStatus status = files_open(&files, &file, arena, model);
    if (status == TG_OK) {
        Undo undo;
        undo_push(&undo, files_undo, files);
        e.source = (TensorSource){ .files = files, .arena = arena, .dense_left = DENSE_LIMIT };
        status = extract_from(&e, file, path);
        undo_pop(&undo);
        files_free(files);
    }
    arena_free(arena);
    return status;
}
