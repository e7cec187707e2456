/* See standard.h. An operator's rows ascend by version; the newest that is not newer than the model's opset counts. To
 * add an operator of com.microsoft: a row of microsoft.def as well. */
#include "frontend/import/standard.h"

#include <string.h>

#include "frontend/import/import.h"
#include "frontend/values/tuple.h"

/* An input: its types are sets, a bit for each TensorProto.DataType. Inputs of one variable (not 0) are of one type.
 * The last one may stand for many. */
typedef enum { REQUIRED, OPTIONAL, MANY } Presence;
typedef struct {
    const char *name;
    int32_t variable;
    Presence presence;
    uint32_t tensor, sequence, optional;
    bool map;
} Formal;
typedef struct { const char *name; AttrType type; bool required; } Attribute;
typedef struct {
    const char *domain, *name;
    int32_t since, tests;
    uint32_t least_in, most_in, least_out, most_out, ninput, nattribute;
    const Formal *input;
    const Attribute *attribute;
} StandardRow;

#define LIST(type, ...) sizeof((const type[]){ __VA_ARGS__ }) / sizeof(type)
static const StandardRow standard[] = {
#define INPUTS(...) __VA_ARGS__
#define ATTRIBUTES(...) __VA_ARGS__
#define STANDARD(domain, name, since, tests, least_in, most_in, least_out, most_out, inputs, attributes) \
    { domain, name, since, tests, least_in, most_in, least_out, most_out, LIST(Formal, inputs), LIST(Attribute, attributes), (const Formal[]){ inputs }, (const Attribute[]){ attributes } },
#include "onnx/standard_rows.h"
#undef STANDARD
};
enum { STANDARD_COUNT = sizeof standard / sizeof *standard };

/* com.microsoft, which is no standard: rows by hand. */
#define TYPE_SET(t) (1u << TG_##t)
enum {
    FLOATS = TYPE_SET(F16) | TYPE_SET(BF16) | TYPE_SET(F32) | TYPE_SET(F64),
    INDICES = TYPE_SET(I32) | TYPE_SET(I64),
    BYTES = TYPE_SET(I8) | TYPE_SET(U8),
    TEXT = TYPE_SET(STRING),
    CODES = TYPE_SET(F8E4M3FN) | TYPE_SET(F8E4M3FNUZ) | TYPE_SET(F8E5M2) | TYPE_SET(F8E5M2FNUZ) | TYPE_SET(F4E2M1) |
        TYPE_SET(I4) | TYPE_SET(U4) | TYPE_SET(U8),
    EVERY = FLOATS | INDICES | BYTES | TEXT | TYPE_SET(BOOL) | TYPE_SET(I16) | TYPE_SET(U16) | TYPE_SET(U32) |
        TYPE_SET(U64) | TYPE_SET(COMPLEX64) | TYPE_SET(COMPLEX128),
    QUANTS = BYTES | TYPE_SET(I16) | TYPE_SET(U16) | TYPE_SET(I32) | TYPE_SET(I4) | TYPE_SET(U4),
};
static const StandardRow microsoft[] = {
#define IN(name, variable, presence, types) { #name, variable, presence, types }
#define AT(name, type, required) { #name, ATTR_##type, required }
#define MICROSOFT(name, fn, least, least_in, most_in, least_out, most_out, inputs, attributes) \
    { "com.microsoft", #name, 1, -1, least_in, most_in, least_out, most_out, LIST(Formal, inputs), LIST(Attribute, attributes), (const Formal[]){ inputs }, (const Attribute[]){ attributes } },
#include "frontend/import/microsoft.def"
};
enum { MICROSOFT_COUNT = sizeof microsoft / sizeof *microsoft };

static int order(const StandardRow *s, const char *domain, const char *name)
{
    int by_domain = strcmp(s->domain, domain);
    return by_domain ? by_domain : strcmp(s->name, name);
}

static const StandardRow *standard_find(const char *domain, const char *name, int64_t opset)
{
    bool own = !strcmp(domain, "com.microsoft");
    const StandardRow *row = own ? microsoft : standard;
    int32_t lo = 0, hi = own ? MICROSOFT_COUNT : STANDARD_COUNT;
    if (!strcmp(domain, "ai.onnx")) domain = "";
    while (lo < hi) {                                   /* lo: rows at or before (domain, name, opset) */
        int32_t mid = lo + (hi - lo) / 2, by = order(&row[mid], domain, name);
        if (by < 0 || (!by && row[mid].since <= opset)) lo = mid + 1;
        else hi = mid;
    }
    return lo && !order(&row[lo - 1], domain, name) ? &row[lo - 1] : NULL;
}

/* ---- a node against its row ---- */

static int32_t element_type(U x) { return special_kind(x) ? special_kind(x) : dtype_info[x->dtype].onnx; }
static const char *type_text(U x)
{
    return is_sequence(x) || is_rows(x) ? "a sequence"
        : is_map(x)                     ? "a map"
        : is_empty_optional(x)          ? "an empty optional"
                                        : tg_type_name((TgType)element_type(x));
}
static bool has(uint32_t types, int32_t type)
{
    return !type || types >> type & 1;
} /* 0: positions and sizes, which are integers of any width */

/* Types that the standard leaves out, of what quantisers write for models of f16 all the same. */
static bool taken_beside(const StandardRow *s, U x)
{
    return !strcmp(s->name, "DynamicQuantizeLinear") && !*s->domain &&
        (TYPE_SET(F16) | TYPE_SET(BF16)) >> element_type(x) & 1;
}

static bool takes(const Formal *f, U x)
{
    if (is_map(x)) return f->map;
    if (is_rows(x)) return has(f->sequence, element_type(x->src[0]));
    if (is_empty_optional(x)) return f->optional;
    if (!is_sequence(x)) return has(f->tensor | f->optional, element_type(x));
    for (uint32_t k = 0; k < x->nsrc; k++)
        if (!is_sequence(x->src[k]) && !has(f->sequence, element_type(x->src[k]))) return false;
    return f->sequence;
}

/* The first input of variable `like` before input k that is there; k when there is none. */
static uint32_t tied(const StandardRow *s, const Ctx *c, uint32_t k, int32_t like)
{
    for (uint32_t i = 0; i < k; i++)
        if (c->in[i] && s->input[i < s->ninput ? i : s->ninput - 1].variable == like) return i;
    return k;
}

static U check_input(Graph *g, const Ctx *c, const StandardRow *s, uint32_t k)
{
    const Formal *f = &s->input[k < s->ninput ? k : s->ninput - 1];
    U x = c->in[k];
    if (!x)
        return f->presence == REQUIRED ? fail_node(g, c, TG_BAD_MODEL, NULL, "input %u (%s) is missing", k, f->name)
                                       : NULL;
    if (!takes(f, x) && !taken_beside(s, x))
        return fail_node(g, c, TG_BAD_MODEL, c->node->in[k],
                         "is of type %s, which input %u (%s) of the operator does not take", type_text(x), k, f->name);
    uint32_t first = f->variable ? tied(s, c, k, f->variable) : k;
    if (element_type(x) && element_type(c->in[first]) && element_type(x) != element_type(c->in[first]))
        return fail_node(g, c, TG_BAD_MODEL, c->node->in[k],
                         "is of type %s; input %u is of type %s, and both must be of one", type_text(x), first,
                         type_text(c->in[first]));
    return NULL;
}

static const Attribute *attribute_of(const StandardRow *s, const char *name)
{
    for (uint32_t k = 0; k < s->nattribute; k++)
        if (!strcmp(s->attribute[k].name, name)) return &s->attribute[k];
    return NULL;
}

static void check_attributes(Graph *g, const Ctx *c, const StandardRow *s)
{
    for (uint32_t k = 0; k < c->node->nattr && ok(g); k++)
        if (!attribute_of(s, c->node->attr[k].name))
            fail_node(g, c, s->tests < 0 ? TG_UNSUPPORTED : TG_BAD_MODEL, c->node->attr[k].name,
                      "is no attribute of the operator as of version %d", s->since);
    for (uint32_t k = 0; k < s->nattribute && ok(g); k++)
        if (!attr_typed(g, c, s->attribute[k].name, s->attribute[k].type) && s->attribute[k].required)
            fail_node(g, c, TG_BAD_MODEL, s->attribute[k].name, "is missing");
}

TgStatus standard_check(Graph *g, const Ctx *c)
{
    const StandardRow *s = standard_find(c->node->domain, c->node->op, c->opset);
    if (!s) return TG_OK;
    if (c->nin < s->least_in) fail_node(g, c, TG_BAD_MODEL, NULL, "%u inputs; at least %u", c->nin, s->least_in);
    if (c->nin > s->most_in) fail_node(g, c, TG_BAD_MODEL, NULL, "%u inputs; at most %u", c->nin, s->most_in);
    if (c->nout < s->least_out) fail_node(g, c, TG_BAD_MODEL, NULL, "%u outputs; at least %u", c->nout, s->least_out);
    if (c->nout > s->most_out) fail_node(g, c, TG_BAD_MODEL, NULL, "%u outputs; at most %u", c->nout, s->most_out);
    for (uint32_t k = 0; k < c->nin && ok(g); k++) check_input(g, c, s, k);
    check_attributes(g, c, s);
    return graph_error(g);
}

/* ---- the list of operators ---- */

static bool in_standard(const OpRow *r)
{
    for (int32_t k = 0; k < STANDARD_COUNT; k++)
        if (!order(&standard[k], r->domain, r->name)) return true;
    return false;
}

static void first_types(const Formal *f, TgOperator *out)
{
    uint32_t n = 0, types = f->tensor | f->sequence | f->optional;
    for (int32_t type = 1; type < 32; type++)
        if (types >> type & 1) out->type[n++] = (TgType)type;
    out->sequence = f->sequence != 0, out->optional = f->optional != 0, out->map = f->map;
}

int32_t tg_operator(int32_t index, TgOperator *out)
{
    if (index >= 0 && index < STANDARD_COUNT) {
        const StandardRow *s = &standard[index];
        *out = (TgOperator){ .domain = s->domain,
                             .name = s->name,
                             .since_version = s->since,
                             .covered = op_find(s->domain, s->name, s->since) != NULL,
                             .tests = s->tests };
        if (s->ninput) first_types(s->input, out);
        return 1;
    }
    index -= STANDARD_COUNT;
    for (uint32_t k = 0; k < op_row_count && index >= 0; k++)
        if (!in_standard(&op_rows[k]) && !index--)
            return *out = (TgOperator){ .domain = op_rows[k].domain,
                                        .name = op_rows[k].name,
                                        .since_version = op_rows[k].since,
                                        .covered = 1,
                                        .tests = -1 },
                   1;
    return 0;
}

int32_t tg_type_covered(TgType type)
{
    return type == TG_STRING || narrow_is((int32_t)type) || complex_is((int32_t)type) ||
        dtype_from_onnx((int32_t)type) != DT_VOID;
}
