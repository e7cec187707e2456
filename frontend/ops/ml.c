/* ai.onnx.ml: scores and labels, linear models, scalers and encoders of numbers. In: rows [n, features] of any numeric
 * type. Out: labels and scores in f32. Trees and support vectors stand in files of their own. To add one: a function
 * here and a row in ops.def.
 */
#include "frontend/input_names.h"
#include "frontend/ops/ml.h"

#include <math.h>
#include <string.h>


U ml_floats(Graph *g, const float *v, uint32_t n)
{
    int64_t shape = n;
    return tensor_const(g, DT_F32, &shape, 1, v, (size_t)n * 4, "");
}

U ml_ints(Graph *g, const int64_t *v, int64_t n) { return tensor_const(g, DT_I64, &n, 1, v, (size_t)n * 8, ""); }

/* Rows in f32 (f64 stays): [features] counts as one row. */
U ml_rows(Graph *g, const Ctx *c, uint32_t i)
{
    U x = c->in[i]->dtype == DT_F64 ? c->in[i] : cast(g, c->in[i], DT_F32);
    if (uop_rank(x) == 1) x = unsqueeze(g, x, 0);
    if (uop_rank(x) != 2)
        return fail_node(g, c, TG_BAD_MODEL, c->node->in[i], "has rank %u; wanted rows of features", uop_rank(x));
    if (!uop_is_const(uop_dim(x, 1)))
        return fail_node(g, c, TG_UNSUPPORTED, c->node->in[i], "has a number of features that depends on data");
    return x;
}

/* ---- scores and labels ---- */

bool ml_read_post(Graph *g, const Ctx *c, Post *out)
{
    static const char *const name[POST_COUNT] = { "NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT" };
    const char *s = attr_str(g, c, "post_transform", "NONE");
    for (int k = 0; k < POST_COUNT; k++)
        if (!strcmp(s, name[k])) return *out = (Post)k, ok(g);
    return fail_node(g, c, TG_BAD_MODEL, "post_transform", "is '%s'", s), false;
}

/* Softmax in which zeros stay and do not count; a row of nothing else is halves. */
static U softmax_zero(Graph *g, U x)
{
    U top = max_reduce(g, x, -1, true),
      e = where(g, lt(g, abs_(g, x), K(1e-7)), mul(g, x, exp_(g, neg(g, top))), exp_(g, sub(g, x, top))),
      total = sum(g, e, -1, true);
    return where(g, eq(g, total, K(0)), K(0.5), div_(g, e, total));
}

/* The normal distribution's quantile by Winitzki's inverse of erf (2008), as the standard's reference and onnxruntime
 * have it. */
static U probit(Graph *g, U x)
{
    U y = sub(g, mul(g, K(2), x), K(1)), rest = mul(g, sub(g, K(1), y), add(g, K(1), y)), l = log_(g, rest);
    U v = add(g, K(2 / (M_PI * 0.147)), mul(g, K(0.5), l)),
      root = sqrt_(g, sub(g, sqrt_(g, sub(g, mul(g, v, v), div_(g, l, K(0.147)))), v));
    return mul(g, K(M_SQRT2), where(g, eq(g, rest, K(0)), K(0), where(g, lt(g, y, K(0)), neg(g, root), root)));
}

U ml_post(Graph *g, U x, Post p)
{
    switch (p) {
    case POST_LOGISTIC: return sigmoid(g, x);
    case POST_SOFTMAX: return softmax(g, x, -1);
    case POST_SOFTMAX_ZERO: return softmax_zero(g, x);
    case POST_PROBIT: return probit(g, x);
    default: return x;
    }
}

/* The class labels: integers, or numbers of strings. */
U ml_labels(Graph *g, const Ctx *c, const char *name, uint32_t *n, bool *text)
{
    const int64_t *v;
    const Attr *words = attr_find(c, "classlabels_strings");
    const Attr *numbers = attr_find(c, name);
    if (words && words->n && numbers && numbers->n)
        return fail_node(g, c, TG_BAD_MODEL, name, "cannot be given beside classlabels_strings");
    if ((*text = words && words->type == ATTR_STRINGS && words->n))
        return *n = words->n, text_numbers(text_list(g, import_pool(c), words->strings, &(int64_t){ words->n }, 1));
    if (attr_ints(g, c, name, &v, n) && *n) return ml_ints(g, v, *n);
    return ok(g) ? fail_node(g, c, TG_BAD_MODEL, name, "is missing") : NULL;
}

U ml_labels_at(Graph *g, U labels, U at, bool text)
{
    U y = gather(g, labels, at, 0);                 /* guarded where there may be more scores than labels */
    return text ? text_wrap(g, y) : y;
}

/* Two classes from one score: the second column is the score (or its probability), the first what is left. */
U ml_two_columns(Graph *g, U x, Post p, bool centred)
{
    U first = p == POST_LOGISTIC || p == POST_SOFTMAX || centred ? neg(g, x) : sub(g, K(1), x);
    return cat(g, (U[]){ first, x }, 2, 1);
}

/* ---- linear models ---- */

static U linear(Graph *g, const Ctx *c, U x, uint32_t *targets)
{
    const float *w, *b;
    uint32_t n, nb, features = (uint32_t)fixed_size(g, x, 1);
    if (!attr_floats(g, c, "coefficients", &w, &n) || !features || n % features)
        return fail_node(g, c, TG_BAD_MODEL, "coefficients", "has %u values for %u features", n, features);
    *targets = n / features;
    U y = matmul(g, cast(g, x, DT_F32),
                 transpose(g, reshape_i(g, ml_floats(g, w, n), (int64_t[]){ *targets, features }, 2)));
    if (!attr_floats(g, c, "intercepts", &b, &nb) || !nb) return y;
    return nb == *targets ? add(g, y, ml_floats(g, b, nb))
                          : fail_node(g, c, TG_BAD_MODEL, "intercepts", "has %u values for %u targets", nb, *targets);
}

U op_linear_regressor(Graph *g, const Ctx *c)
{
    U x = ml_rows(g, c, 0);
    uint32_t targets;
    Post p;
    if (!ok(g) || !ml_read_post(g, c, &p)) return NULL;
    U y = linear(g, c, x, &targets);
    if (ok(g) && attr_int(g, c, "targets", 1) != targets)
        return fail_node(g, c, TG_BAD_MODEL, "targets", "is %lld; the coefficients are of %u",
                         (long long)attr_int(g, c, "targets", 1), targets);
    return ml_post(g, y, p);
}

U op_linear_classifier(Graph *g, const Ctx *c)
{
    U x = ml_rows(g, c, 0), labels;
    uint32_t targets, classes;
    bool text;
    Post p;
    if (!ok(g) || !ml_read_post(g, c, &p) || !(labels = ml_labels(g, c, "classlabels_ints", &classes, &text)))
        return NULL;
    U score = linear(g, c, x, &targets), at;
    if (!ok(g)) return NULL;
    if (targets != classes && (targets != 1 || classes != 2))
        return fail_node(g, c, TG_BAD_MODEL, "coefficients", "are of %u classes; there are %u labels", targets,
                         classes);
    if (targets == 1 && classes == 2) {
        at = cast(g, gt(g, squeeze(g, score, 1), scalar(g, DT_F32, p == POST_NONE ? 0.5 : 0)), DT_I64);
        score = ml_two_columns(g, score, p, false);
    } else at = argmax(g, score, 1, false, false);
    return outputs(g, c, (U[]){ ml_labels_at(g, labels, at, text), ml_post(g, score, p) }, 2);
}

/* ---- rows of numbers ---- */

U op_normalizer(Graph *g, const Ctx *c)
{
    U x = cast(g, c->in[0], DT_F32), norm = NULL;
    const char *how = attr_str(g, c, "norm", "MAX");
    ml_rows(g, c, 0);
    if (!ok(g)) return NULL;
    if (!strcmp(how, "MAX")) norm = max_reduce(g, x, -1, true);
    if (!strcmp(how, "L1")) norm = sum(g, abs_(g, x), -1, true);
    if (!strcmp(how, "L2")) norm = sqrt_(g, sum(g, mul(g, x, x), -1, true));
    if (!norm) return fail_node(g, c, TG_BAD_MODEL, "norm", "is '%s'; wanted MAX, L1 or L2", how);
    return where(g, eq(g, norm, K(0)), x, div_(g, x, norm));
}

U op_scaler(Graph *g, const Ctx *c)
{
    static const char *const name[] = { "offset", "scale" };
    U x = cast(g, c->in[0], DT_F32), rows;
    const float *v[2];
    uint32_t n[2];
    for (int k = 0; k < 2; k++) {
        if (!attr_floats(g, c, name[k], &v[k], &n[k]) || n[k] < 2) continue;
        rows = ml_rows(g, c, 0);
        if (!ok(g)) return NULL;
        if (n[k] != fixed_size(g, rows, 1))
            return fail_node(g, c, TG_BAD_MODEL, name[k], "has %u values for %lld features", n[k],
                             (long long)uop_size(rows, 1));
    }
    if (!ok(g)) return NULL;
    if (n[0]) x = sub(g, x, ml_floats(g, v[0], n[0]));
    return n[1] ? mul(g, x, ml_floats(g, v[1], n[1])) : x;
}

U op_binarizer(Graph *g, const Ctx *c)
{
    U x = c->in[0];
    return cast(g, gt(g, x, K(attr_float(g, c, "threshold", 0))), type_of(x));
}

/* Columns of the last axis by number. */
U op_array_feature_extractor(Graph *g, const Ctx *c)
{
    U x = c->in[0], at = c->in[ArrayFeatureExtractor_Y];
    if (uop_rank(x) < 1) return fail_node(g, c, TG_BAD_MODEL, c->node->in[0], "is a scalar");
    if (uop_rank(x) == 1) x = unsqueeze(g, x, 0);
    U n = dim_product(g, at->shape->dim, uop_rank(at));
    return gather(g, x, cast(g, reshape(g, at, &n, 1), DT_I64), -1);
}

/* One value for all features, or one each, in place of the one that stands for none. */
U op_imputer(Graph *g, const Ctx *c)
{
    U x = c->in[0], fill;
    const float *v;
    const int64_t *w;
    uint32_t n;
    bool whole = dtype_is_int(type_of(x));
    const char *field = whole ? "imputed_value_int64s" : "imputed_value_floats";
    if (attr_find(c, "imputed_value_int64s") && attr_find(c, "imputed_value_floats"))
        return fail_node(g, c, TG_BAD_MODEL, field, "is one of two lists of values; wanted one");
    if (whole ? !attr_ints(g, c, field, &w, &n) || !n : !attr_floats(g, c, field, &v, &n) || !n)
        return fail_node(g, c, TG_BAD_MODEL, field, "is missing");
    if (n > 1 && (uop_rank(x) < 1 || uop_rank(x) > 2 || uop_size(x, uop_rank(x) - 1) != n))
        return fail_node(g, c, TG_BAD_MODEL, field, "has %u values for another number of features", n);
    fill = cast(g, whole ? ml_ints(g, w, n) : ml_floats(g, v, n), type_of(x));
    double missing = whole ? 0 : attr_float(g, c, "replaced_value_float", 0);
    U gone = whole       ? eq(g, x, uop_int(g, type_of(x), attr_int(g, c, "replaced_value_int64", 0)))
        : isnan(missing) ? is_nan(g, x)
                         : eq(g, x, K(missing));
    return where(g, gone, expand_like(g, fill, x), x);
}

U op_feature_vectorizer(Graph *g, const Ctx *c)
{
    const UOp **part = NEW_N(graph_arena(g), const UOp *, c->nin + 1);
    const int64_t *size;
    uint32_t n;
    bool given = attr_ints(g, c, "inputdimensions", &size, &n);
    if (given && n != c->nin)
        return fail_node(g, c, TG_BAD_MODEL, "inputdimensions", "has %u values for %u inputs", n, c->nin);
    for (uint32_t k = 0; k < c->nin; k++) {
        if (!c->in[k]) return fail_node(g, c, TG_BAD_MODEL, NULL, "input %u is missing", k);
        part[k] = cast(g, ml_rows(g, c, k), DT_F32);
        if (!ok(g)) return NULL;
        if (given && size[k] != uop_size(part[k], 1))
            return fail_node(g, c, TG_BAD_MODEL, "inputdimensions", "is %lld for input %u, which has %lld",
                             (long long)size[k], k, (long long)uop_size(part[k], 1));
    }
    return cat(g, part, c->nin, 1);
}
