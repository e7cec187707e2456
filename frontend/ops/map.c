/* ai.onnx.ml: maps (tuple.h) to and from tensors. In: keys and values of equal length; the length is known at import,
 * both may be data. Keys are looked up by comparing each with each; a string's key is its number. To add one: a
 * function here, a row in ops.def and, where the input is a map, a name in takes_sequences.
 */
#include <string.h>

#include "frontend/import/import.h"
#include "frontend/values/tuple.h"
#include "graph/guard.h"

/* A list of labels that a node gives as strings or as integers, of which one attribute must be there. */
static U labels(Graph *g, const Ctx *c, const char *strings, const char *integers)
{
    const Attr *s = attr_find(c, strings);
    const int64_t *v;
    uint32_t n;
    if (s && s->type != ATTR_STRINGS) return fail_node(g, c, TG_BAD_MODEL, strings, "wanted strings");
    if (s) return text_list(g, import_pool(c), s->strings, &(int64_t){ s->n }, 1);
    if (attr_ints(g, c, integers, &v, &n)) return tensor_const(g, DT_I64, &(int64_t){ n }, 1, v, n * sizeof *v, "");
    return fail_node(g, c, TG_BAD_MODEL, integers, "is missing, and %s too", strings);
}

static U numbers(U x) { return is_text(x) ? text_numbers(x) : x; }

/* ZipMap: scores [N,K] or [K] with the K labels that the attribute lists: a map a row. */
U op_zip_map(Graph *g, const Ctx *c)
{
    U scores = c->in[0], keys = labels(g, c, "classlabels_strings", "classlabels_int64s");
    if (keys->op == UOP_ERROR) return keys;
    if (uop_rank(scores) == 1) scores = unsqueeze(g, scores, 0);
    if (uop_rank(scores) != 2 || uop_dim(scores, 1) != uop_dim(numbers(keys), 0))
        return fail_node(g, c, TG_BAD_MODEL, c->node->in[0], "does not have a column for each of %lld labels",
                         (long long)uop_numel(numbers(keys)));
    return map_new(g, keys, scores);
}

U maps_apart(Graph *g, U x)
{
    U values = is_map(x) ? x->src[1] : NULL, part[2];
    int32_t kind = values ? special_kind(values) : 0;
    if (!values || uop_rank(special_part(values, 0)) != 2) return x;
    int64_t n = fixed_size(g, special_part(values, 0), 0);
    const UOp **v = NEW_N(graph_arena(g), const UOp *, n + 1);
    for (int64_t k = 0; k < n; k++) {
        for (uint32_t i = 0; i < special_parts(kind); i++)
            part[i] = squeeze(g, slice_i(g, special_part(values, i), 0, k, k + 1), 0);
        v[k] = map_new(g, x->src[0], special_wrap(g, part, kind));
    }
    return sequence_new(g, v, (uint32_t)n);
}

/* values[k] wherever hit[.., k], else `otherwise`. At most one of a row hits. */
static U pick(Graph *g, U hit, U values, U otherwise)
{
    return add(g, sum(g, where(g, hit, sub(g, values, otherwise), scalar(g, (DType)values->dtype, 0)), 1, false),
               otherwise);
}

static bool map_ok(Graph *g, const Ctx *c)
{
    return is_map(c->in[0]) && uop_rank(numbers(c->in[0]->src[1])) == 1
        ? true
        : (fail_node(g, c, TG_BAD_MODEL, c->node->in[0], "is not a map"), false);
}

/* DictVectorizer: [1,C], for each word of the vocabulary the map's value, or 0, or "". */
U op_dict_vectorizer(Graph *g, const Ctx *c)
{
    U words = labels(g, c, "string_vocabulary", "int64_vocabulary");
    if (words->op == UOP_ERROR || !map_ok(g, c)) return NULL;
    U keys = c->in[0]->src[0], values = c->in[0]->src[1];
    bool text = is_text(values);
    if (is_text(keys) != is_text(words))
        return fail_node(g, c, TG_BAD_MODEL, c->node->in[0], "has keys of another type than the vocabulary");
    U hit = eq(g, unsqueeze(g, numbers(words), 1), unsqueeze(g, cast(g, numbers(keys), DT_I64), 0));
    U none = text ? uop_int(g, DT_I64, pool_add(import_pool(c), "", 0)) : scalar(g, (DType)values->dtype, 0);
    return special_wrap(g, (U[]){ unsqueeze(g, pick(g, hit, numbers(values), none), 0) }, special_kind(values));
}

static U cast_values(Graph *g, const Ctx *c, U values, const char *to)
{
    const UOp *in[CTX_INPUTS + 1] = { values };
    Ctx inner = *c;
    inner.in = in;
    DType type = !strcmp(to, "TO_INT64") ? DT_I64 : DT_F32;
    if (!strcmp(to, "TO_STRING")) return is_text(values) ? values : numbers_to_text(g, &inner);
    return is_text(values) ? text_to_numbers(g, &inner, type) : cast(g, values, type);
}

/** CastMap (ai.onnx.ml 1): the values of a map with i64 keys as [1,C]: DENSE in the order of the keys, SPARSE each at
 * the place that its key says, of max_map places. */
U op_cast_map(Graph *g, const Ctx *c)
{
    const char *to = attr_str(g, c, "cast_to", "TO_FLOAT"), *form = attr_str(g, c, "map_form", "DENSE");
    int64_t places = attr_int(g, c, "max_map", 1);
    bool sparse = !strcmp(form, "SPARSE");
    if (!sparse && strcmp(form, "DENSE"))
        return fail_node(g, c, TG_BAD_MODEL, "map_form", "is '%s'; wanted DENSE or SPARSE", form);
    if (strcmp(to, "TO_FLOAT") && strcmp(to, "TO_STRING") && strcmp(to, "TO_INT64"))
        return fail_node(g, c, TG_BAD_MODEL, "cast_to", "is '%s'; wanted TO_FLOAT, TO_STRING or TO_INT64", to);
    if (sparse && (places < 1 || places > INT32_MAX))
        return fail_node(g, c, TG_BAD_MODEL, "max_map", "is %lld", (long long)places);
    if (!map_ok(g, c)) return NULL;
    U keys = c->in[0]->src[0], values = cast_values(g, c, c->in[0]->src[1], to);
    if (!values || is_text(keys))
        return !values ? NULL : fail_node(g, c, TG_BAD_MODEL, c->node->in[0], "has strings as keys; wanted int64");
    U count = uop_dim(keys, 0), smaller = lt(g, unsqueeze(g, keys, 0), unsqueeze(g, keys, 1));
    U place = sparse ? guard_index(g, cast(g, keys, DT_INDEX), uop_index(g, places), false)
                     : sum(g, cast(g, smaller, DT_INDEX), 1, false);
    U hit = eq(g, unsqueeze(g, iota(g, sparse ? uop_index(g, places) : count, DT_INDEX), 1), unsqueeze(g, place, 0));
    U none =
        is_text(values) ? uop_int(g, DT_I64, pool_add(import_pool(c), "0.f", 3)) : scalar(g, (DType)values->dtype, 0);
    return special_wrap(g, (U[]){ unsqueeze(g, pick(g, hit, numbers(values), none), 0) }, special_kind(values));
}
