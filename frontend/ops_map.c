/* ai.onnx.ml: maps (tuple.h) from tensors. */
#include "frontend/import.h"
#include "frontend/tuple.h"

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
    if (uop_rank(scores) != 2 || uop_dim(scores, 1) != uop_dim(numbers(keys), 0)) return fail_node(g, c, TG_BAD_MODEL, c->node->in[0], "does not have a column for each of %lld labels", (long long)uop_numel(numbers(keys)));
    return map_new(g, keys, scores);
}
