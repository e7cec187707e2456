/* What importers ask of a node: attributes, folded integer inputs, normalised axes, errors that name the place.
 * Every question checks what it returns; a failed one has recorded an error in the graph, and the importer may go on or
 * return (import.c looks once a node).
 */
#include "frontend/import/shape_query.h"
#include "graph/guard.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const char *node_label(const Node *n)
{
    if (n->name && *n->name) return n->name;
    for (uint32_t k = 0; k < n->nout; k++)
        if (*n->out[k]) return n->out[k];
    return "?";
}

U fail_node(Graph *g, const Ctx *c, TgStatus code, const char *field, const char *fmt, ...)
{
    char text[600];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    if (graph_error(g) != TG_OK) return UOP0(g, UOP_ERROR, DT_VOID, NO_ARG);    /* the first failure stands */
    U error = graph_fail_code(g, code, "%s", text);
    fail_at(code, node_label(c->node), c->node->op, field, "%s", text);         /* the same message with its place */
    return error;
}

static const Attr *find_in(const Attr *a, uint32_t n, const char *name)
{
    for (uint32_t k = 0; k < n; k++)
        if (!strcmp(a[k].name, name)) return &a[k];
    return NULL;
}

const Attr *attr_resolve(const Attr *a, Import **im)
{
    while (a && a->ref) {
        if (!(*im)->call) return NULL;
        const Attr *given = find_in((*im)->call->node->attr, (*im)->call->node->nattr, a->ref);
        if (!given) return find_in((*im)->function->attr_default, (*im)->function->nattr_default, a->ref);
        a = given;
        *im = (*im)->call->im;
    }
    return a;
}

static const Attr *find_from(const Ctx *c, const char *name, Import **im)
{
    *im = c->im;
    return attr_resolve(find_in(c->node->attr, c->node->nattr, name), im);
}

const Attr *attr_find(const Ctx *c, const char *name)
{
    Import *im;
    return find_from(c, name, &im);
}

bool attr_graph(Graph *g, const Ctx *c, const char *name, SubGraph *out)
{
    const Attr *a = find_from(c, name, &out->frame);
    if (a && a->type == ATTR_GRAPH && a->graph) return out->def = a->graph, true;
    return fail_node(g, c, TG_BAD_MODEL, name, a ? "is not a graph" : "is missing"), false;
}

static const char *const type_name[] = { "undefined",      "float",      "int",        "string",
                                         "tensor",         "graph",      "floats",     "ints",
                                         "strings",        "tensors",    "graphs",     "sparse_tensor",
                                         "sparse_tensors", "type_proto", "type_protos" };

const Attr *attr_typed(Graph *g, const Ctx *c, const char *name, AttrType type)
{
    const Attr *a = attr_find(c, name);
    if (!a || a->type == type) return a;
    if (a->type == ATTR_SPARSE_TENSOR && type == ATTR_TENSOR) return a;         /* it is dense here */
    fail_node(g, c, TG_BAD_MODEL, name, "is of type %s; wanted %s",
              (unsigned)a->type < 15 ? type_name[a->type] : "unknown", type_name[type]);
    return NULL;
}

int64_t attr_int(Graph *g, const Ctx *c, const char *name, int64_t otherwise)
{
    const Attr *a = attr_typed(g, c, name, ATTR_INT);
    return a ? a->i : otherwise;
}

bool attr_bool(Graph *g, const Ctx *c, const char *name, bool otherwise)
{
    int64_t v = attr_int(g, c, name, otherwise);
    if (v != 0 && v != 1) fail_node(g, c, TG_BAD_MODEL, name, "is %lld; wanted 0 or 1", (long long)v);
    return v == 1;
}

DType attr_dtype(Graph *g, const Ctx *c, const char *name, int64_t otherwise)
{
    int64_t v = attr_int(g, c, name, otherwise);
    return v > 0 && v < 100 ? dtype_from_onnx((int32_t)v) : DT_VOID;
}

DType attr_float_type(Graph *g, const Ctx *c, const char *name, int64_t otherwise)
{
    DType t = attr_dtype(g, c, name, otherwise);
    if (!dtype_is_float(t)) fail_node(g, c, TG_BAD_MODEL, name, "is no float type");
    return t;
}

double attr_float(Graph *g, const Ctx *c, const char *name, double otherwise)
{
    const Attr *a = attr_typed(g, c, name, ATTR_FLOAT);
    return (double)(a ? a->f : (float)otherwise);
}

const char *attr_str(Graph *g, const Ctx *c, const char *name, const char *otherwise)
{
    const Attr *a = attr_typed(g, c, name, ATTR_STRING);
    if (a && strlen(a->s) != a->len) {
        fail_node(g, c, TG_BAD_MODEL, name, "holds a zero byte");
        return otherwise;
    }
    return a ? a->s : otherwise;
}

bool attr_choice(Graph *g, const Ctx *c, const char *name, const char *otherwise, const char *const *allowed, int *out)
{
    const char *s = attr_str(g, c, name, otherwise);
    for (*out = 0; allowed[*out]; ++*out)
        if (!strcmp(s, allowed[*out])) return ok(g);
    return fail_node(g, c, TG_BAD_MODEL, name, "'%s' is not a value of the standard", s), false;
}

bool attr_ints(Graph *g, const Ctx *c, const char *name, const int64_t **out, uint32_t *n)
{
    const Attr *a = attr_typed(g, c, name, ATTR_INTS);
    *out = a ? a->ints : NULL;
    *n = a ? a->n : 0;
    return a != NULL;
}

bool attr_floats(Graph *g, const Ctx *c, const char *name, const float **out, uint32_t *n)
{
    const Attr *a = attr_typed(g, c, name, ATTR_FLOATS);
    *out = a ? a->floats : NULL;
    *n = a ? a->n : 0;
    return a != NULL;
}

bool axis_ok(Graph *g, const Ctx *c, const char *field, int64_t axis, int64_t rank, int64_t *out)
{
    *out = axis < 0 ? axis + rank : axis;
    if (axis >= -rank && axis < rank) return true;
    *out = 0;
    fail_node(g, c, TG_BAD_MODEL, field, "axis %lld of a tensor of rank %lld", (long long)axis, (long long)rank);
    return false;
}

bool shape_ok(Graph *g, const Ctx *c, uint32_t i, const U *dim, uint32_t n)
{
    U x = i < c->nin && c->in[i] ? special_part(c->in[i], 0) : NULL;
    if (!x || x->op == UOP_ERROR) return ok(g);
    if (uop_rank(x) != n)
        return fail_node(g, c, TG_BAD_MODEL, c->node->in[i], "has rank %u; wanted %u", uop_rank(x), n), false;
    for (uint32_t k = 0; k < n; k++)
        if (dim[k] && !same_size(g, uop_dim(x, k), dim[k]))
            return fail_node(g, c, TG_BAD_MODEL, c->node->in[i], "has size %lld on axis %u; wanted %lld",
                             (long long)uop_size(x, k), k, (long long)dim[k]->vmax),
                   false;
    return true;
}

bool spreads_ok(Graph *g, const Ctx *c, uint32_t i, const U *dim, uint32_t n)
{
    U x = i < c->nin ? c->in[i] : NULL, want[TG_MAX_RANK];
    if (!x || x->op == UOP_ERROR || uop_rank(x) > n) return shape_ok(g, c, i, dim, n);
    uint32_t rank = uop_rank(x);
    for (uint32_t k = 0; k < rank; k++) want[k] = uop_is_int_const(uop_dim(x, k), 1) ? NULL : dim[n - rank + k];
    return shape_ok(g, c, i, want, rank);
}

/* The model's inputs that x depends on are baked in on the next try, or x is requested; import.c decides. */
U fail_data(Graph *g, const Ctx *c, uint32_t i)
{
    import_needs(c->im, c->in[i]);
    import_query(c->im, c->in[i]);
    return fail_node(g, c, TG_UNSUPPORTED, c->node->in[i], "a size or axis depends on the data of this input");
}

bool said_to_hold(Graph *g, const Ctx *c, U x, bool *holds)
{
    U known = import_query(c->im, cast(g, x, DT_I64)), v = known ? known_scalar(g, known) : NULL;
    *holds = v && uop_const_int(v);
    return v;
}

U queried_size(Graph *g, const Ctx *c, uint32_t i, U x)
{
    U known = import_query(c->im, x), v = known ? known_scalar(g, known) : NULL;
    if (v) return uop_index(g, uop_const_int(v));
    if (!c->im->run->question) import_needs(c->im, c->in[i]);
    return fail_node(g, c, TG_UNSUPPORTED, c->node->in[i], "a size or axis depends on the data of this input");
}

U known_scalar(Graph *g, U x)
{
    const UOp *v[1];
    return x->dtype != DT_VOID && uop_static(x) && uop_numel(x) == 1 && values_of(g, x, v, 1) && uop_is_const(v[0])
        ? v[0]
        : NULL;
}

enum { VALUES_MAX = 4096 };

static bool values(Graph *g, const Ctx *c, uint32_t i, const UOp ***out, uint32_t *n)
{
    *n = 0;
    if (i >= c->nin || !c->in[i]) return fail_node(g, c, TG_BAD_MODEL, NULL, "input %u is missing", i), false;
    U x = c->in[i];
    int64_t count = uop_static(x) ? uop_numel(x) : VALUES_MAX + 1;
    if (!dtype_is_int(x->dtype))
        return fail_node(g, c, TG_BAD_MODEL, c->node->in[i], "is of type %s; wanted integers", dtype_name(x->dtype)),
               false;
    if (uop_rank(x) > 1)
        return fail_node(g, c, TG_BAD_MODEL, c->node->in[i], "has rank %u; wanted a list", uop_rank(x)), false;
    if (count > VALUES_MAX) return fail_data(g, c, i), false;
    *out = NEW_N(graph_arena(g), const UOp *, count + 1);
    if (!values_of(g, x, *out, (uint32_t)count)) return fail_data(g, c, i), false;
    *n = (uint32_t)count;
    return true;
}

bool input_ints(Graph *g, const Ctx *c, uint32_t i, const int64_t **out, uint32_t *n)
{
    const UOp **v;
    *out = NULL;
    if (!values(g, c, i, &v, n)) return false;
    int64_t *list = NEW_N(graph_arena(g), int64_t, *n + 1);
    for (uint32_t k = 0; k < *n; k++) {
        if (!uop_is_const(v[k])) return fail_data(g, c, i), false;
        list[k] = uop_const_int(v[k]);
    }
    *out = list;
    return true;
}

static U as_index(Graph *g, U v)
{
    if (uop_is_const(v)) return uop_index(g, uop_const_int(v));
    while (v->op == UOP_CAST && v->dtype == DT_I64 && v->src[0]->dtype == DT_INDEX) v = v->src[0];
    return v->dtype == DT_INDEX ? v : cast(g, v, DT_INDEX);
}

U size_of_value(Graph *g, U v)
{
    U size = as_index(g, v);
    return uop_is_const(size) || size->op != UOP_CAST ? size : NULL;
}

bool input_sizes(Graph *g, const Ctx *c, uint32_t i, const U **out, uint32_t *n)
{
    const UOp **v;
    *out = NULL;
    if (!values(g, c, i, &v, n)) return false;
    for (uint32_t k = 0; k < *n; k++) v[k] = as_index(g, v[k]);
    *out = v;
    return true;
}

U input_place(Graph *g, const Ctx *c, uint32_t i, U size)
{
    graph_at(g, node_label(c->node), c->node->op, c->node->in[i]);
    return place_in(g, c->in[i], size);
}

U input_count(Graph *g, const Ctx *c, uint32_t i, U most)
{
    return input_place(g, c, i, dim_add(g, most, uop_index(g, 1)));
}

bool node_axes(Graph *g, const Ctx *c, int32_t i, int64_t rank, const int64_t **out, uint32_t *n, bool *given)
{
    const int64_t *v = NULL;
    uint64_t seen = 0;
    *n = 0;
    *given = i >= 0 && (uint32_t)i < c->nin && c->in[i] ? input_ints(g, c, (uint32_t)i, &v, n)
                                                        : attr_ints(g, c, "axes", &v, n);
    if (graph_error(g) != TG_OK) return false;
    if (!*given) *n = (uint32_t)rank;
    int64_t *axis = NEW_N(graph_arena(g), int64_t, *n + 1);
    for (uint32_t k = 0; k < *n; k++) {
        if (!axis_ok(g, c, "axes", *given ? v[k] : (int64_t)k, rank, &axis[k])) return false;
        if (seen >> axis[k] & 1)
            return fail_node(g, c, TG_BAD_MODEL, "axes", "axis %lld twice", (long long)axis[k]), false;
        seen |= UINT64_C(1) << axis[k];
    }
    *out = axis;
    return true;
}

U outputs(Graph *g, const Ctx *c, const U *v, uint32_t n)
{
    if (c->nout <= 1) return v[0];
    if (c->nout > n) return fail_node(g, c, TG_BAD_MODEL, NULL, "%u outputs; it has %u", c->nout, n);
    const UOp **src = NEW_N(graph_arena(g), const UOp *, c->nout);
    for (uint32_t k = 0; k < c->nout; k++) {
        if (!v[k] && *c->node->out[k])
            return fail_node(g, c, TG_UNSUPPORTED, c->node->out[k], "this output is not covered");
        src[k] = v[k] ? v[k] : scalar(g, DT_F32, 0);
    }
    return uop_new(g, UOP_TUPLE, DT_VOID, NO_ARG, src, c->nout);
}

U wide(Graph *g, U x) { return x && (x->dtype == DT_F16 || x->dtype == DT_BF16) ? cast(g, x, DT_F32) : x; }

U narrow(Graph *g, U y, U like)
{
    return y->op != UOP_ERROR && y->dtype != like->dtype ? cast(g, y, (DType)like->dtype) : y;
}
