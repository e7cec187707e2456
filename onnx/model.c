/* ModelProto -> Model: plain structs in the model's arena.
 *
 * In: an unpacked ModelProto. Out: Model; its names and number lists are those of the messages (same arena), tensors
 * point into the file. Must hold afterwards: every attribute has the type that it claims; every name has one maker and
 * nodes are in order (names.c); function calls end (calls.c). What an operator wants of its inputs is not known here.
 */
#include <stdio.h>
#include <string.h>

#include "graph/base/map.h"
#include "onnx/loader.h"

enum { NEWEST_IR = ONNX__VERSION__IR_VERSION, MAX_ATTRS = 256 };

typedef struct {
    Arena *arena, *scratch;
    const Model *model;
    TensorSource source;
    const FunctionDef *function;    /* whose body is being read, or NULL */
} Build;

static TgStatus build_graph(Build *b, GraphDef *g, const Onnx__GraphProto *p, Wants *wants);

static const char *text(const char *s) { return s ? s : ""; }
static const char *domain_name(const char *s) { return !s || !strcmp(s, "ai.onnx") ? "" : s; }

static const char *function_name(Build *b, const char *name, const char *overload)
{
    return overload && *overload ? arena_printf(b->arena, "%s:%s", text(name), overload) : text(name);
}

/* ---- values */

static TgStatus build_dims(Build *b, ValueDef *v, const Onnx__TensorShapeProto *p)
{
    if (!p) return TG_OK;
    if (p->n_dim > TG_MAX_RANK)
        return fail_at(TG_UNSUPPORTED, NULL, NULL, v->name, "rank %zu; at most %d is supported", p->n_dim, TG_MAX_RANK);
    DimDef *dim = NEW_N(b->arena, DimDef, p->n_dim);
    const char **denotation = NEW_N(b->arena, const char *, p->n_dim);
    for (size_t k = 0; k < p->n_dim; k++) {
        const Onnx__TensorShapeProto__Dimension *d = p->dim[k];
        dim[k].size = -1;
        denotation[k] = text(d->denotation);
        if (d->value_case == ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_PARAM)
            dim[k].symbol = *d->dim_param ? d->dim_param : NULL;
        if (d->value_case == ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE) dim[k].size = d->dim_value;
        if (dim[k].size < -1)
            return fail_at(TG_BAD_MODEL, NULL, NULL, v->name, "dimension %zu is %lld", k, (long long)dim[k].size);
    }
    v->rank = (int32_t)p->n_dim;
    v->dim = dim;
    v->denotation = denotation;
    return TG_OK;
}

static TgStatus build_type(Build *b, ValueDef *v, const Onnx__TypeProto *p, uint32_t depth);

static TgStatus build_inside(Build *b, ValueDef *v, const Onnx__TypeProto *p, uint32_t depth)
{
    ValueDef *inside = NEW(b->arena, ValueDef);
    if (depth == VALUE_DEPTH)
        return fail_at(TG_UNSUPPORTED, NULL, NULL, v->name, "more than %d types inside one another", VALUE_DEPTH);
    inside->name = v->name;
    TRY(build_type(b, inside, p, depth + 1));
    v->inside = inside;
    v->type = inside->type;
    v->rank = inside->rank;
    v->dim = inside->dim;
    v->denotation = inside->denotation;
    return TG_OK;
}

static TgStatus build_map(Build *b, ValueDef *v, const Onnx__TypeProto__Map *p, uint32_t depth)
{
    bool integer = (p->key_type >= TG_U8 && p->key_type <= TG_I64) || p->key_type == TG_U32 || p->key_type == TG_U64;
    if (!integer && p->key_type != TG_STRING)
        return fail_at(TG_BAD_MODEL, NULL, NULL, v->name, "key type %d is neither of integers nor of strings",
                       p->key_type);
    v->key = p->key_type;
    return build_inside(b, v, p->value_type, depth);
}

static TgStatus build_type(Build *b, ValueDef *v, const Onnx__TypeProto *p, uint32_t depth)
{
    static const ValueKind kinds[] = { [ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE] = VALUE_TENSOR,
                                       [ONNX__TYPE_PROTO__VALUE_SEQUENCE_TYPE] = VALUE_SEQUENCE,
                                       [ONNX__TYPE_PROTO__VALUE_MAP_TYPE] = VALUE_MAP,
                                       [ONNX__TYPE_PROTO__VALUE_OPTIONAL_TYPE] = VALUE_OPTIONAL,
                                       [ONNX__TYPE_PROTO__VALUE_SPARSE_TENSOR_TYPE] = VALUE_TENSOR };
    v->rank = -1;
    v->kind = VALUE_UNKNOWN;
    if (!p || p->value_case == ONNX__TYPE_PROTO__VALUE__NOT_SET || p->value_case == ONNX__TYPE_PROTO__VALUE_OPAQUE_TYPE)
        return TG_OK;
    v->kind = kinds[p->value_case];
    if (v->kind == VALUE_SEQUENCE) return build_inside(b, v, p->sequence_type->elem_type, depth);
    if (v->kind == VALUE_OPTIONAL) return build_inside(b, v, p->optional_type->elem_type, depth);
    if (v->kind == VALUE_MAP) return build_map(b, v, p->map_type, depth);
    v->sparse = p->value_case == ONNX__TYPE_PROTO__VALUE_SPARSE_TENSOR_TYPE;
    v->type = v->sparse ? p->sparse_tensor_type->elem_type : p->tensor_type->elem_type;
    if (v->type && !type_known(v->type))
        return fail_at(TG_BAD_MODEL, NULL, NULL, v->name, "element type %d is unknown", v->type);
    return build_dims(b, v, v->sparse ? p->sparse_tensor_type->shape : p->tensor_type->shape);
}

/* Those of the list whose names are in `list`, or are not; NULL: no name is. */
static TgStatus build_values(Build *b, const ValueDef **out, uint32_t *count, Onnx__ValueInfoProto *const *p, size_t n,
                             const Map *list, bool in)
{
    ValueDef *v = NEW_N(b->arena, ValueDef, n);
    *count = 0;
    *out = v;
    for (size_t k = 0; k < n; k++) {
        if ((list && map_gets(list, text(p[k]->name))) != in) continue;
        v[*count].name = text(p[k]->name);
        TRY(build_type(b, &v[(*count)++], p[k]->type, 0));
    }
    return TG_OK;
}

static const char *const *value_names(Build *b, Onnx__ValueInfoProto *const *p, size_t n)
{
    const char **name = NEW_N(b->scratch, const char *, n);
    for (size_t k = 0; k < n; k++) name[k] = text(p[k]->name);
    return name;
}

/* ---- attributes */

static TgStatus build_string(Build *b, const char **out, size_t *len, const ProtobufCBinaryData *field, const Place *at)
{
    Bytes s = wire_bytes(b->source.wire, field);
    if (s.size && memchr(s.data, 0, s.size)) return FAIL_AT(at, "the string holds a zero byte");
    *out = arena_strndup(b->arena, (const char *)s.data, s.size);
    *len = s.size;
    return TG_OK;
}

static TgStatus build_strings(Build *b, Attr *a, const Onnx__AttributeProto *p, const Place *at)
{
    size_t len;
    const char **s = NEW_N(b->arena, const char *, p->n_strings);
    for (size_t k = 0; k < p->n_strings; k++) TRY(build_string(b, &s[k], &len, &p->strings[k], at));
    a->strings = s;
    a->n = (uint32_t)p->n_strings;
    return TG_OK;
}

static TgStatus build_tensors(Build *b, Attr *a, const Onnx__AttributeProto *p, const Place *at)
{
    TensorDef *t = NEW_N(b->arena, TensorDef, p->n_tensors);
    const TensorDef **list = NEW_N(b->arena, const TensorDef *, p->n_tensors);
    for (size_t k = 0; k < p->n_tensors; k++) {
        TRY(tensor_decode(&t[k], &b->source, p->tensors[k], at));
        list[k] = &t[k];
    }
    a->tensors = list;
    a->n = (uint32_t)p->n_tensors;
    return TG_OK;
}

static TgStatus build_attr_value(Build *b, Attr *a, const Onnx__AttributeProto *p, const Place *at, Wants *captured)
{
    TensorDef *t = NULL;
    ValueDef *v = NULL;
    GraphDef *g = NULL;
    switch (a->type) {
    case ATTR_FLOAT: a->f = p->f; return TG_OK;
    case ATTR_INT: a->i = p->i; return TG_OK;
    case ATTR_STRING: return build_string(b, &a->s, &a->len, &p->s, at);
    case ATTR_STRINGS: return build_strings(b, a, p, at);
    case ATTR_FLOATS: a->floats = p->floats; a->n = (uint32_t)p->n_floats; return TG_OK;
    case ATTR_INTS: a->ints = p->ints; a->n = (uint32_t)p->n_ints; return TG_OK;
    case ATTR_TENSOR: a->t = t = NEW(b->arena, TensorDef); return tensor_decode(t, &b->source, p->t, at);
    case ATTR_SPARSE_TENSOR:
        a->t = t = NEW(b->arena, TensorDef);
        return tensor_decode_sparse(t, &b->source, p->sparse_tensor, at);
    case ATTR_TENSORS: return build_tensors(b, a, p, at);
    case ATTR_GRAPH: a->graph = g = NEW(b->arena, GraphDef); return build_graph(b, g, p->g, captured);
    case ATTR_TYPE_PROTO: a->tp = v = NEW(b->arena, ValueDef); v->name = a->name; return build_type(b, v, p->tp, 0);
    default:
        return fail_at(
            TG_UNSUPPORTED, at->node, at->op, at->field,
            "lists of graphs, types or sparse tensors are not supported: no operator of the standard has one");
    }
}

/* What the attribute says that it is; before IR 2 it did not say, and the field that is set tells. 0: neither. */
static int attr_type(const Onnx__AttributeProto *p, const bool *given, size_t n)
{
    int only = 0;
    if (p->has_type && p->type) return (int)p->type;
    for (size_t k = 1; k < n; k++)
        if (given[k]) only = only ? -1 : (int)k;
    return only;
}

static const char *attr_type_name(int type)
{
    const ProtobufCEnumValue *v =
        protobuf_c_enum_descriptor_get_value(&onnx__attribute_proto__attribute_type__descriptor, type);
    return v ? v->name : "?";
}

static bool function_has(const FunctionDef *f, const char *attr)
{
    for (uint32_t k = 0; k < f->nattr; k++)
        if (!strcmp(f->attr[k], attr)) return true;
    for (uint32_t k = 0; k < f->nattr_default; k++)
        if (!strcmp(f->attr_default[k].name, attr)) return true;
    return false;
}

static TgStatus build_attr(Build *b, Attr *a, const Onnx__AttributeProto *p, const char *node, const char *op,
                           Wants *captured)
{
    const bool given[] = { false,
                           p->has_f,
                           p->has_i,
                           p->has_s,
                           p->t != NULL,
                           p->g != NULL,
                           p->n_floats > 0,
                           p->n_ints > 0,
                           p->n_strings > 0,
                           p->n_tensors > 0,
                           p->n_graphs > 0,
                           p->sparse_tensor != NULL,
                           p->n_sparse_tensors > 0,
                           p->tp != NULL,
                           p->n_type_protos > 0 };
    enum { TYPES = sizeof given / sizeof *given };
    const Place at = { TG_BAD_MODEL, node, op, text(p->name) };
    int type = attr_type(p, given, TYPES), other = 0;
    for (int k = 1; k < TYPES; k++)
        if (given[k]) other = k;
    *a = (Attr){ .name = text(p->name),
                 .type = (AttrType)type,
                 .ref = p->ref_attr_name && *p->ref_attr_name ? p->ref_attr_name : NULL };
    if (!*a->name) return fail_at(TG_BAD_MODEL, node, op, "attribute", "has no name");
    if (a->ref && !b->function) return FAIL_AT(&at, "refers to attribute '%s' outside a function", a->ref);
    if (a->ref && !function_has(b->function, a->ref))
        return FAIL_AT(&at, "refers to '%s', which is no attribute of the function", a->ref);
    if (a->ref) return TG_OK;
    if (type <= 0) return FAIL_AT(&at, type ? "has several values and no type" : "has neither type nor value");
    if (type >= TYPES) return FAIL_AT(&at, "attribute type %d is unknown", type);
    if (!given[type] && other)
        return FAIL_AT(&at, "says %s, but holds %s", attr_type_name(type), attr_type_name(other));
    bool message = type == ATTR_TENSOR || type == ATTR_GRAPH || type == ATTR_SPARSE_TENSOR || type == ATTR_TYPE_PROTO;
    if (!given[type] && message) return FAIL_AT(&at, "says %s, but holds nothing", attr_type_name(type));
    return build_attr_value(b, a, p, &at, captured);
}

static TgStatus build_attrs(Build *b, const Attr **out, uint32_t *count, Onnx__AttributeProto *const *p, size_t n,
                            const char *node, const char *op, Wants *captured)
{
    Attr *a = NEW_N(b->arena, Attr, n);
    if (n > MAX_ATTRS) return fail_at(TG_LIMIT, node, op, "attribute", "%zu attributes; limit %d", n, MAX_ATTRS);
    for (size_t k = 0; k < n; k++) {
        TRY(build_attr(b, &a[k], p[k], node, op, captured));
        for (size_t i = 0; i < k; i++)
            if (!strcmp(a[i].name, a[k].name)) return fail_at(TG_BAD_MODEL, node, op, a[k].name, "is given twice");
    }
    *out = a;
    *count = (uint32_t)n;
    return TG_OK;
}

/* ---- nodes, graphs, functions */

static TgStatus build_node(Build *b, Node *n, const Onnx__NodeProto *p, uint32_t index, Wants *captured)
{
    *n = (Node){ .name = text(p->name),
                 .op = function_name(b, p->op_type, p->overload),
                 .domain = domain_name(p->domain),
                 .nin = (uint32_t)p->n_input,
                 .nout = (uint32_t)p->n_output,
                 .in = (const char *const *)p->input,
                 .out = (const char *const *)p->output };
    for (uint32_t k = 0; !*n->name && k < n->nout; k++) n->name = n->out[k];
    if (!p->op_type || !*p->op_type) return fail_at(TG_BAD_MODEL, n->name, NULL, "op_type", "node %u has none", index);
    TRY(shardings_build(b->model, n, p));
    return build_attrs(b, &n->attr, &n->nattr, p->attribute, p->n_attribute, n->name, n->op, captured);
}

static TgStatus build_nodes(Build *b, Body *body, Onnx__NodeProto *const *p, size_t n)
{
    body->node = NEW_N(b->arena, Node, n);
    body->captured = NEW_N(b->scratch, Wants, n);
    body->nnode = (uint32_t)n;
    for (size_t k = 0; k < n; k++) TRY(build_node(b, &body->node[k], p[k], (uint32_t)k, &body->captured[k]));
    return TG_OK;
}

static TgStatus build_init(Build *b, const GraphDef *g, TensorDef *t, const Onnx__TensorProto *p, const Place *at)
{
    Bytes given;
    bool main = g == &b->model->graph && b->source.files;
    if (main && files_find(b->source.files, model_data_name(b->scratch, text(p->name)), &given))
        return tensor_decode_given(t, &b->source, p, given, at);
    return tensor_decode(t, &b->source, p, at);
}

static TgStatus build_inits(Build *b, GraphDef *g, const Onnx__GraphProto *p, const char ***names)
{
    size_t n = p->n_initializer + p->n_sparse_initializer;
    TensorDef *t = NEW_N(b->arena, TensorDef, n);
    *names = NEW_N(b->scratch, const char *, n);
    for (size_t k = 0; k < n; k++) {
        const Onnx__TensorProto *dense = k < p->n_initializer ? p->initializer[k] : NULL;
        const Onnx__SparseTensorProto *sparse = dense ? NULL : p->sparse_initializer[k - p->n_initializer];
        char field[80];
        const char *name = dense ? text(dense->name) : sparse->values ? text(sparse->values->name) : "";
        const Place at = { TG_BAD_MODEL, NULL, NULL, field };
        snprintf(field, sizeof field, "initializer '%.60s'", name);
        TRY(dense ? build_init(b, g, &t[k], dense, &at)
                  : tensor_decode_sparse(&t[k], &b->source, sparse, &at));
        (*names)[k] = name;
    }
    g->init = t;
    g->ninit = (uint32_t)n;
    return TG_OK;
}

static TgStatus build_graph(Build *b, GraphDef *g, const Onnx__GraphProto *p, Wants *wants)
{
    Map inits;
    const char **init_names;
    Body body = { .where = "graph",
                  .input = value_names(b, p->input, p->n_input),
                  .ninput = (uint32_t)p->n_input,
                  .output = value_names(b, p->output, p->n_output),
                  .noutput = (uint32_t)p->n_output };
    g->name = text(p->name);
    TRY(build_inits(b, g, p, &init_names));
    body.init = init_names;
    body.ninit = g->ninit;
    map_init(&inits, b->scratch);
    for (uint32_t k = 0; k < g->ninit; k++) map_puts(&inits, init_names[k], (void *)init_names[k]);
    TRY(build_values(b, &g->input, &g->ninput, p->input, p->n_input, &inits, false));
    TRY(build_values(b, &g->optional, &g->noptional, p->input, p->n_input, &inits, true));
    TRY(build_values(b, &g->output, &g->noutput, p->output, p->n_output, NULL, false));
    TRY(build_values(b, &g->value, &g->nvalue, p->value_info, p->n_value_info, NULL, false));
    TRY(build_nodes(b, &body, p->node, p->n_node));
    TRY(names_check(&body, wants, b->scratch));
    g->node = body.node;
    g->nnode = body.nnode;
    return TG_OK;
}

static TgStatus build_opsets(Build *b, const OpsetDef **out, uint32_t *count, Onnx__OperatorSetIdProto *const *p,
                             size_t n)
{
    OpsetDef *o = NEW_N(b->arena, OpsetDef, n + 1);
    *count = 0;
    *out = o;
    for (size_t k = 0; k < n; k++) {
        const OpsetDef one = { domain_name(p[k]->domain), p[k]->version };
        uint32_t i = 0;
        if (one.version <= 0)
            return fail_at(TG_BAD_MODEL, NULL, NULL, "opset_import", "domain '%s' has version %lld",
                           *one.domain ? one.domain : "ai.onnx", (long long)one.version);
        while (i < *count && strcmp(o[i].domain, one.domain)) i++;
        if (i < *count && o[i].version != one.version)
            return fail_at(TG_BAD_MODEL, NULL, NULL, "opset_import", "domain '%s' is imported in two versions",
                           *one.domain ? one.domain : "ai.onnx");
        if (i == *count && *count == MAX_ATTRS)
            return fail_at(TG_LIMIT, NULL, NULL, "opset_import", "more than %d domains", MAX_ATTRS);
        if (i == *count) o[(*count)++] = one;
    }
    return TG_OK;
}

static TgStatus build_function(Build *b, FunctionDef *f, const Onnx__FunctionProto *p)
{
    char where[100];
    Wants wants = { 0 }, none = { 0 };
    Body body = { .where = where,
                  .input = (const char *const *)p->input,
                  .ninput = (uint32_t)p->n_input,
                  .output = (const char *const *)p->output,
                  .noutput = (uint32_t)p->n_output };
    *f = (FunctionDef){ .name = function_name(b, p->name, p->overload),
                        .domain = domain_name(p->domain),
                        .nin = body.ninput,
                        .nout = body.noutput,
                        .nattr = (uint32_t)p->n_attribute,
                        .in = body.input,
                        .out = body.output,
                        .attr = (const char *const *)p->attribute };
    snprintf(where, sizeof where, "function '%.60s'", f->name);
    if (!*f->name) return fail_at(TG_BAD_MODEL, NULL, NULL, "function", "has no name");
    TRY(build_opsets(b, &f->opset, &f->nopset, p->opset_import, p->n_opset_import));
    b->function = NULL;
    TRY(build_attrs(b, &f->attr_default, &f->nattr_default, p->attribute_proto, p->n_attribute_proto, NULL, NULL,
                    &none));
    if (f->nattr > MAX_ATTRS)
        return fail_at(TG_LIMIT, NULL, NULL, where, "%u attributes; limit %d", f->nattr, MAX_ATTRS);
    b->function = f;
    TRY(build_nodes(b, &body, p->node, p->n_node));
    TRY(names_check(&body, &wants, b->scratch));
    f->node = body.node;
    f->nnode = body.nnode;
    b->function = NULL;
    return names_refuse(&body, &wants);
}

static TgStatus build_functions(Build *b, Model *m, const Onnx__ModelProto *p)
{
    FunctionDef *f = NEW_N(b->arena, FunctionDef, p->n_functions);
    for (size_t k = 0; k < p->n_functions; k++) TRY(build_function(b, &f[k], p->functions[k]));
    m->function = f;
    m->nfunction = (uint32_t)p->n_functions;
    return TG_OK;
}

/* Ports of the model itself, unlike those of subgraphs, must say what they are. */
static TgStatus check_ports(const GraphDef *g)
{
    if (!g->noutput) return fail_at(TG_BAD_MODEL, NULL, NULL, "graph", "has no outputs");
    for (uint32_t k = 0; k < g->ninput; k++)
        if (g->input[k].kind == VALUE_UNKNOWN || (g->input[k].kind == VALUE_TENSOR && !g->input[k].type))
            return fail_at(TG_BAD_MODEL, NULL, NULL, g->input[k].name, "input has no type");
    return TG_OK;
}

static void build_about(Build *b, Model *m, const Onnx__ModelProto *p)
{
    m->about = (TgModel){ .producer_name = text(p->producer_name),
                          .producer_version = text(p->producer_version),
                          .domain = text(p->domain),
                          .doc_string = text(p->doc_string),
                          .graph_name = text(p->graph->name),
                          .graph_doc_string = text(p->graph->doc_string),
                          .model_version = p->model_version,
                          .ir_version = p->ir_version };
    PropertyDef *q = NEW_N(b->arena, PropertyDef, p->n_metadata_props);
    for (size_t k = 0; k < p->n_metadata_props; k++)
        q[k] = (PropertyDef){ text(p->metadata_props[k]->key), text(p->metadata_props[k]->value) };
    m->property = q;
    m->nproperty = (uint32_t)p->n_metadata_props;
}

/* Models before IR 3 could not say which operators they mean: opset 1 is what there was. */
static TgStatus build_version(Build *b, Model *m, const Onnx__ModelProto *p)
{
    static const OpsetDef first = { "", 1 };
    if (p->ir_version < 1) return fail_at(TG_BAD_MODEL, NULL, NULL, "ir_version", "is missing or not positive");
    if (p->ir_version > NEWEST_IR)
        return fail_at(TG_UNSUPPORTED, NULL, NULL, "ir_version", "%lld; the newest supported is %d",
                       (long long)p->ir_version, NEWEST_IR);
    if (!p->graph) return fail_at(TG_BAD_MODEL, NULL, NULL, "graph", "the model has none");
    TRY(build_opsets(b, &m->opset, &m->nopset, p->opset_import, p->n_opset_import));
    if (m->nopset) return TG_OK;
    if (p->ir_version >= 3) return fail_at(TG_BAD_MODEL, NULL, NULL, "opset_import", "the model has none");
    m->opset = &first;
    m->nopset = 1;
    return TG_OK;
}

TgStatus model_build(Model *m, const Onnx__ModelProto *p, const TensorSource *source, Arena *scratch)
{
    Build b = { .arena = m->arena, .scratch = scratch, .model = m, .source = *source };
    Wants wants = { 0 };
    TRY(build_version(&b, m, p));
    build_about(&b, m, p);
    TRY(configurations_build(m, p));
    TRY(build_functions(&b, m, p));
    TRY(build_graph(&b, &m->graph, p->graph, &wants));
    TRY(names_refuse(&(Body){ .where = "graph" }, &wants));
    TRY(check_ports(&m->graph));
    return calls_check(m, scratch);
}

int64_t model_opset(const Model *m, const char *domain)
{
    for (uint32_t k = 0; k < m->nopset; k++)
        if (!strcmp(m->opset[k].domain, domain_name(domain))) return m->opset[k].version;
    return 0;
}
