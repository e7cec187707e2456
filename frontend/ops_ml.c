/* ai.onnx.ml: linear models, trees, scalers and encoders of numbers. In: rows [n, features] of any numeric type. Out: labels and scores in f32.
 * A forest is walked by all rows and trees at once: a position per (row, tree) that takes one step of table lookups a level, no branches.
 * To add one: a function here and a row in ops.def.
 */
#include "frontend/text.h"

#include <math.h>
#include <string.h>

static DType type_of(U x) { return (DType)x->dtype; }
static bool ok(Graph *g) { return graph_error(g) == TG_OK; }

#define K(v) scalar(g, type_of(x), (v))

static U floats(Graph *g, const float *v, uint32_t n)
{
    int64_t shape = n;
    return tensor_const(g, DT_F32, &shape, 1, v, (size_t)n * 4, "");
}

static U ints(Graph *g, const int64_t *v, int64_t n) { return tensor_const(g, DT_I64, &n, 1, v, (size_t)n * 8, ""); }

/* Rows in f32 (f64 stays): [features] counts as one row. */
static U rows_of(Graph *g, const Ctx *c, uint32_t i)
{
    U x = c->in[i]->dtype == DT_F64 ? c->in[i] : cast(g, c->in[i], DT_F32);
    if (uop_rank(x) == 1) x = unsqueeze(g, x, 0);
    if (uop_rank(x) != 2 || !uop_is_const(uop_dim(x, 1))) return fail_node(g, c, TG_BAD_MODEL, c->node->in[i], "has rank %u; wanted rows of features", uop_rank(x));
    return x;
}

/* ---- scores and labels ---- */

typedef enum { POST_NONE, POST_LOGISTIC, POST_SOFTMAX, POST_SOFTMAX_ZERO, POST_PROBIT, POST_COUNT } Post;

static bool read_post(Graph *g, const Ctx *c, Post *out)
{
    static const char *const name[POST_COUNT] = { "NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO", "PROBIT" };
    const char *s = attr_str(g, c, "post_transform", "NONE");
    for (int k = 0; k < POST_COUNT; k++)
        if (!strcmp(s, name[k])) return *out = (Post)k, ok(g);
    return fail_node(g, c, TG_BAD_MODEL, "post_transform", "is '%s'", s), false;
}

static U post(Graph *g, const Ctx *c, U x, Post p)
{
    switch (p) {
    case POST_LOGISTIC: return sigmoid(g, x);
    case POST_SOFTMAX: return softmax(g, x, -1);
    case POST_SOFTMAX_ZERO: {                                   /* zeros stay and do not count */
        U zero = eq(g, x, K(0)), e = where(g, zero, K(0), exp_(g, sub(g, x, max_reduce(g, x, -1, true))));
        return div_(g, e, sum(g, e, -1, true));
    }
    case POST_PROBIT: return fail_node(g, c, TG_UNSUPPORTED, "post_transform", "PROBIT is not covered");
    default: return x;
    }
}

/* The class labels: integers, or numbers of strings. */
static U class_labels(Graph *g, const Ctx *c, const char *name, uint32_t *n, bool *text)
{
    const int64_t *v;
    const Attr *words = attr_find(c, "classlabels_strings");
    if ((*text = words && words->type == ATTR_STRINGS && words->n)) return *n = words->n, text_numbers(text_list(g, import_pool(c), words->strings, &(int64_t){ words->n }, 1));
    if (attr_ints(g, c, name, &v, n) && *n) return ints(g, v, *n);
    return ok(g) ? fail_node(g, c, TG_BAD_MODEL, name, "is missing") : NULL;
}

static U labels_at(Graph *g, U labels, U at, bool text)
{
    U y = take(g, labels, at, 0);
    return text ? text_wrap(g, y) : y;
}

/* Two classes from one score: the second column is the score (or its probability), the first what is left. */
static U two_columns(Graph *g, U x, Post p, bool centred)
{
    U first = p == POST_LOGISTIC || p == POST_SOFTMAX || centred ? neg(g, x) : sub(g, K(1), x);
    return cat(g, (U[]){ first, x }, 2, 1);
}

/* ---- linear models ---- */

static U linear(Graph *g, const Ctx *c, U x, uint32_t *targets)
{
    const float *w, *b;
    uint32_t n, nb, features = (uint32_t)uop_size(x, 1);
    if (!attr_floats(g, c, "coefficients", &w, &n) || !features || n % features) return fail_node(g, c, TG_BAD_MODEL, "coefficients", "has %u values for %u features", n, features);
    *targets = n / features;
    U y = matmul(g, cast(g, x, DT_F32), transpose(g, reshape_i(g, floats(g, w, n), (int64_t[]){ *targets, features }, 2)));
    if (!attr_floats(g, c, "intercepts", &b, &nb) || !nb) return y;
    return nb == *targets ? add(g, y, floats(g, b, nb)) : fail_node(g, c, TG_BAD_MODEL, "intercepts", "has %u values for %u targets", nb, *targets);
}

U op_linear_regressor(Graph *g, const Ctx *c)
{
    U x = rows_of(g, c, 0);
    uint32_t targets;
    Post p;
    return ok(g) && read_post(g, c, &p) ? post(g, c, linear(g, c, x, &targets), p) : NULL;
}

U op_linear_classifier(Graph *g, const Ctx *c)
{
    U x = rows_of(g, c, 0), labels;
    uint32_t targets, classes;
    bool text;
    Post p;
    if (!ok(g) || !read_post(g, c, &p) || !(labels = class_labels(g, c, "classlabels_ints", &classes, &text))) return NULL;
    U score = linear(g, c, x, &targets), at;
    if (!ok(g)) return NULL;
    if (targets == 1 && classes == 2) {
        at = cast(g, gt(g, squeeze(g, score, 1), scalar(g, DT_F32, p == POST_NONE ? 0.5 : 0)), DT_I64);
        score = two_columns(g, score, p, false);
    } else at = argmax(g, score, 1, false, false);
    return outputs(g, c, (U[]){ labels_at(g, labels, at, text), post(g, c, score, p) }, 2);
}

/* ---- trees ---- */

typedef enum { BRANCH_LEQ, BRANCH_LT, BRANCH_GTE, BRANCH_GT, BRANCH_EQ, BRANCH_NEQ, LEAF, MODE_COUNT } Branch;

/* A forest as tables by node: what to compare, and the nodes that follow; a leaf follows itself. weight: [nodes, targets]. */
typedef struct {
    uint32_t nodes, trees, depth, targets;
    int64_t *feature, *yes, *no, *mode, *root, *missing;
    float *value, *weight;
    bool one_mode, any_missing;
} Forest;

static bool branch_of(const char *s, int64_t *out)
{
    static const char *const name[MODE_COUNT] = { "BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ", "LEAF" };
    for (int k = 0; k < MODE_COUNT; k++)
        if (!strcmp(s, name[k])) return *out = k, true;
    return false;
}

/* The row of (tree, node id), by bisection over rows sorted so, else by walking. */
static int64_t node_row(const int64_t *tree, const int64_t *id, uint32_t n, int64_t want_tree, int64_t want_id)
{
    uint32_t lo = 0, hi = n;
    while (lo < hi) {
        uint32_t mid = lo + (hi - lo) / 2;
        if (tree[mid] < want_tree || (tree[mid] == want_tree && id[mid] < want_id)) lo = mid + 1;
        else hi = mid;
    }
    if (lo < n && tree[lo] == want_tree && id[lo] == want_id) return lo;
    for (uint32_t k = 0; k < n; k++)
        if (tree[k] == want_tree && id[k] == want_id) return k;
    return -1;
}

static int64_t *copy_ints(Graph *g, const int64_t *v, uint32_t n) { return arena_copy(graph_arena(g), v, (size_t)n * 8); }

static bool read_nodes(Graph *g, const Ctx *c, Forest *f)
{
    const int64_t *tree, *id, *yes, *no, *feature, *missing;
    const float *value;
    uint32_t n, m[6];
    const Attr *modes = attr_find(c, "nodes_modes");
    bool all = attr_ints(g, c, "nodes_treeids", &tree, &n) && attr_ints(g, c, "nodes_nodeids", &id, &m[0]) && attr_ints(g, c, "nodes_truenodeids", &yes, &m[1]) &&
               attr_ints(g, c, "nodes_falsenodeids", &no, &m[2]) && attr_ints(g, c, "nodes_featureids", &feature, &m[3]) && attr_floats(g, c, "nodes_values", &value, &m[4]);
    if (!all || !n || !modes || modes->type != ATTR_STRINGS || modes->n != n) return ok(g) ? fail_node(g, c, TG_BAD_MODEL, "nodes_modes", "and the other lists of nodes must be there, of one length"), false : false;
    for (int k = 0; k < 5; k++)
        if (m[k] != n) return fail_node(g, c, TG_BAD_MODEL, "nodes_nodeids", "and the other lists of nodes are not of one length"), false;
    *f = (Forest){ .nodes = n, .one_mode = true, .value = arena_copy(graph_arena(g), value, (size_t)n * 4) };
    f->feature = copy_ints(g, feature, n), f->yes = copy_ints(g, yes, n), f->no = copy_ints(g, no, n), f->mode = copy_ints(g, id, n), f->root = copy_ints(g, id, n);
    f->missing = attr_ints(g, c, "nodes_missing_value_tracks_true", &missing, &m[5]) && m[5] == n ? copy_ints(g, missing, n) : NEW_N(graph_arena(g), int64_t, n);
    int64_t first = -1;
    for (uint32_t k = 0; k < n; k++) {
        if (!branch_of(modes->strings[k], &f->mode[k])) return fail_node(g, c, TG_BAD_MODEL, "nodes_modes", "'%s'", modes->strings[k]), false;
        if (k == 0 || tree[k] != tree[k - 1]) f->root[f->trees++] = k;
        f->any_missing |= f->missing[k] != 0;
        if (f->mode[k] == LEAF) { f->feature[k] = 0, f->yes[k] = f->no[k] = k; continue; }
        f->yes[k] = node_row(tree, id, n, tree[k], yes[k]), f->no[k] = node_row(tree, id, n, tree[k], no[k]);
        if (f->yes[k] < 0 || f->no[k] < 0) return fail_node(g, c, TG_BAD_MODEL, "nodes_truenodeids", "row %u leads to no node", k), false;
        if (first < 0) first = f->mode[k];
        f->one_mode &= f->mode[k] == first;
    }
    return true;
}

/* Longest path, level by level; a cycle ends at the number of nodes. */
static bool measure_depth(Graph *g, const Ctx *c, Forest *f)
{
    uint32_t *level = NEW_N(graph_arena(g), uint32_t, f->nodes), *next = NEW_N(graph_arena(g), uint32_t, f->nodes), n = 0;
    enum { DEPTH_MAX = 64 };
    for (uint32_t t = 0; t < f->trees; t++) level[n++] = (uint32_t)f->root[t];
    for (f->depth = 0; n; f->depth++) {
        uint32_t m = 0;
        for (uint32_t k = 0; k < n; k++) {
            if (f->mode[level[k]] == LEAF) continue;
            if (m + 2 > f->nodes) return fail_node(g, c, TG_BAD_MODEL, "nodes_truenodeids", "nodes do not make trees"), false;
            next[m++] = (uint32_t)f->yes[level[k]], next[m++] = (uint32_t)f->no[level[k]];
        }
        if (f->depth > DEPTH_MAX) return fail_node(g, c, TG_LIMIT, "nodes_truenodeids", "a tree deeper than %d", DEPTH_MAX), false;
        memcpy(level, next, sizeof *next * m);
        n = m;
    }
    if (f->depth) f->depth--;
    return true;
}

/* Weights of leaves from lists of (tree, node, target, weight). */
static bool read_weights(Graph *g, const Ctx *c, Forest *f, const char *kind, uint32_t targets, bool *first_only, bool *positive)
{
    const int64_t *tree, *id, *target, *all_tree, *all_id;
    const float *weight;
    uint32_t n, m[3], all;
    char name[4][32];
    static const char *const part[] = { "treeids", "nodeids", "ids", "weights" };
    for (int k = 0; k < 4; k++) strcat(strcat(strcpy(name[k], kind), "_"), part[k]);
    if (!attr_ints(g, c, name[0], &tree, &n) || !attr_ints(g, c, name[1], &id, &m[0]) || !attr_ints(g, c, name[2], &target, &m[1]) || !attr_floats(g, c, name[3], &weight, &m[2]) ||
        m[0] != n || m[1] != n || m[2] != n) return ok(g) ? fail_node(g, c, TG_BAD_MODEL, name[0], "and its fellow lists must be there, of one length"), false : false;
    attr_ints(g, c, "nodes_treeids", &all_tree, &all), attr_ints(g, c, "nodes_nodeids", &all_id, &all);
    f->targets = targets;
    if ((uint64_t)f->nodes * targets > 1 << 26) return fail_node(g, c, TG_LIMIT, name[3], "a table of %u nodes by %u", f->nodes, targets), false;
    f->weight = NEW_N(graph_arena(g), float, (size_t)f->nodes * targets);
    *first_only = *positive = true;
    for (uint32_t k = 0; k < n; k++) {
        int64_t row = node_row(all_tree, all_id, f->nodes, tree[k], id[k]);
        if (row < 0 || target[k] < 0 || target[k] >= targets) return fail_node(g, c, TG_BAD_MODEL, name[1], "entry %u names no leaf or target", k), false;
        f->weight[row * targets + target[k]] += weight[k];
        *first_only &= target[k] == 0;
        *positive &= weight[k] >= 0;
    }
    return true;
}

static U compare(Graph *g, Branch b, U a, U v)
{
    switch (b) {
    case BRANCH_LT: return lt(g, a, v);
    case BRANCH_GTE: return ge(g, a, v);
    case BRANCH_GT: return gt(g, a, v);
    case BRANCH_EQ: return eq(g, a, v);
    case BRANCH_NEQ: return ne(g, a, v);
    default: return le(g, a, v);
    }
}

/* Leaves that rows [n, features] reach: [n, trees]. */
static U walk(Graph *g, U x, const Forest *f)
{
    U feature = ints(g, f->feature, f->nodes), yes = ints(g, f->yes, f->nodes), no = ints(g, f->no, f->nodes), value = cast(g, floats(g, f->value, f->nodes), type_of(x));
    U mode = ints(g, f->mode, f->nodes), missing = ints(g, f->missing, f->nodes), width = cast(g, uop_dim(x, 1), DT_I64);
    U flat = reshape(g, x, (U[]){ dim_mul(g, uop_dim(x, 0), uop_dim(x, 1)) }, 1), row = mul(g, unsqueeze(g, iota(g, uop_dim(x, 0), DT_I64), 1), width);
    U at = expand(g, ints(g, f->root, f->trees), (U[]){ uop_dim(x, 0), uop_index(g, f->trees) }, 2);
    Branch one = BRANCH_LEQ;
    for (uint32_t k = 0; k < f->nodes; k++) one = f->mode[k] != LEAF ? (Branch)f->mode[k] : one;
    for (uint32_t level = 0; level < f->depth; level++) {
        U a = take(g, flat, add(g, row, take(g, feature, at, 0)), 0), v = take(g, value, at, 0), go = compare(g, one, a, v);
        for (int b = 0; b < LEAF && !f->one_mode; b++) go = where(g, eq(g, take(g, mode, at, 0), uop_int(g, DT_I64, b)), compare(g, (Branch)b, a, v), go);
        if (f->any_missing) go = or_(g, go, and_(g, is_nan(g, a), ne(g, take(g, missing, at, 0), uop_int(g, DT_I64, 0))));
        at = where(g, go, take(g, yes, at, 0), take(g, no, at, 0));
    }
    return at;
}

/* [n, trees, targets] joined over the trees. */
static U aggregate(Graph *g, const Ctx *c, U leaf, const Forest *f)
{
    const char *how = attr_str(g, c, "aggregate_function", "SUM");
    U x = take(g, reshape_i(g, floats(g, f->weight, f->nodes * f->targets), (int64_t[]){ f->nodes, f->targets }, 2), leaf, 0);
    if (!strcmp(how, "SUM")) return sum(g, x, 1, false);
    if (!strcmp(how, "AVERAGE")) return div_(g, sum(g, x, 1, false), K(f->trees));
    if (!strcmp(how, "MIN")) return min_reduce(g, x, 1, false);
    if (!strcmp(how, "MAX")) return max_reduce(g, x, 1, false);
    return fail_node(g, c, TG_BAD_MODEL, "aggregate_function", "is '%s'", how);
}

static bool read_base(Graph *g, const Ctx *c, const float **base, uint32_t *n)
{
    attr_floats(g, c, "base_values", base, n);
    return ok(g);
}

static bool features_ok(Graph *g, const Ctx *c, U x, const Forest *f)
{
    for (uint32_t k = 0; k < f->nodes; k++)
        if (f->feature[k] < 0 || f->feature[k] >= uop_size(x, 1)) return fail_node(g, c, TG_BAD_MODEL, "nodes_featureids", "%lld of %lld features", (long long)f->feature[k], (long long)uop_size(x, 1)), false;
    return true;
}

U op_tree_ensemble_regressor(Graph *g, const Ctx *c)
{
    U x = rows_of(g, c, 0);
    const float *base;
    uint32_t nbase;
    int64_t targets = attr_int(g, c, "n_targets", 1);
    bool one, positive;
    Forest f;
    Post p;
    if (targets < 1 || targets > 1 << 20) return fail_node(g, c, TG_BAD_MODEL, "n_targets", "is %lld", (long long)targets);
    if (!ok(g) || !read_post(g, c, &p) || !read_nodes(g, c, &f) || !measure_depth(g, c, &f) || !features_ok(g, c, x, &f)) return NULL;
    if (!read_weights(g, c, &f, "target", (uint32_t)targets, &one, &positive) || !read_base(g, c, &base, &nbase)) return NULL;
    U y = aggregate(g, c, walk(g, x, &f), &f);
    if (ok(g) && nbase == targets) y = add(g, y, floats(g, base, nbase));
    return post(g, c, y, p);
}

/* Two classes, by onnxruntime's rules: the second when a score passes a half, or its own zero where a weight is negative. Weights of the first class alone make one score,
 * which is the second's; the first has what is left. */
static U binary_scores(Graph *g, const Ctx *c, U score, Post p, bool first_only, bool positive, U *at)
{
    U x = score, limit = K(positive ? 0.5 : 0), second = slice_i(g, score, 1, first_only ? 0 : 1, first_only ? 1 : 2);
    *at = cast(g, gt(g, squeeze(g, positive && !first_only ? max_reduce(g, score, 1, true) : second, 1), limit), DT_I64);
    if (!first_only) return post(g, c, score, p);
    if (p == POST_LOGISTIC) return sigmoid(g, cat(g, (U[]){ neg(g, second), second }, 2, 1));
    return cat(g, (U[]){ positive ? sub(g, K(1), second) : neg(g, second), second }, 2, 1);
}

/** TreeEnsembleClassifier: one score a class, the label of the largest. */
U op_tree_ensemble_classifier(Graph *g, const Ctx *c)
{
    U x = rows_of(g, c, 0), labels, at;
    const float *base;
    uint32_t nbase, classes;
    bool first_only, positive, text;
    Forest f;
    Post p;
    if (!ok(g) || !read_post(g, c, &p) || !(labels = class_labels(g, c, "classlabels_int64s", &classes, &text))) return NULL;
    if (!read_nodes(g, c, &f) || !measure_depth(g, c, &f) || !features_ok(g, c, x, &f)) return NULL;
    if (!read_weights(g, c, &f, "class", classes, &first_only, &positive) || !read_base(g, c, &base, &nbase)) return NULL;
    U score = aggregate(g, c, walk(g, x, &f), &f);
    if (!ok(g)) return NULL;
    if (nbase == classes) score = add(g, score, floats(g, base, nbase));
    else if (nbase == 1 && classes == 2) score = add(g, score, scalar(g, DT_F32, (double)base[0]));
    if (classes == 2) score = binary_scores(g, c, score, p, first_only, positive, &at);
    else at = argmax(g, score, 1, false, false), score = post(g, c, score, p);
    return outputs(g, c, (U[]){ labels_at(g, labels, at, text), score }, 2);
}

/* ---- rows of numbers ---- */

U op_normalizer(Graph *g, const Ctx *c)
{
    U x = rows_of(g, c, 0), norm = NULL;
    const char *how = attr_str(g, c, "norm", "MAX");
    if (!ok(g)) return NULL;
    x = cast(g, x, DT_F32);
    if (!strcmp(how, "MAX")) norm = max_reduce(g, x, -1, true);
    if (!strcmp(how, "L1")) norm = sum(g, abs_(g, x), -1, true);
    if (!strcmp(how, "L2")) norm = sqrt_(g, sum(g, mul(g, x, x), -1, true));
    if (!norm) return fail_node(g, c, TG_BAD_MODEL, "norm", "is '%s'; wanted MAX, L1 or L2", how);
    return where(g, eq(g, norm, K(0)), x, div_(g, x, norm));
}

U op_scaler(Graph *g, const Ctx *c)
{
    U x = rows_of(g, c, 0);
    const float *scale, *offset;
    uint32_t ns, no;
    if (!ok(g)) return NULL;
    x = cast(g, x, DT_F32);
    if (attr_floats(g, c, "offset", &offset, &no) && no) x = sub(g, x, floats(g, offset, no));
    if (attr_floats(g, c, "scale", &scale, &ns) && ns) x = mul(g, x, floats(g, scale, ns));
    return x;
}

U op_binarizer(Graph *g, const Ctx *c)
{
    U x = c->in[0];
    return cast(g, gt(g, x, K(attr_float(g, c, "threshold", 0))), type_of(x));
}

/* Columns of the last axis by number. */
U op_array_feature_extractor(Graph *g, const Ctx *c)
{
    U x = c->in[0], at = c->in[1];
    if (uop_rank(x) < 1) return fail_node(g, c, TG_BAD_MODEL, c->node->in[0], "is a scalar");
    if (uop_rank(x) == 1) x = unsqueeze(g, x, 0);
    U n = dim_product(g, at->shape->dim, uop_rank(at));
    return gather(g, x, cast(g, reshape(g, at, &n, 1), DT_I64), -1);
}

U op_imputer(Graph *g, const Ctx *c)
{
    U x = rows_of(g, c, 0), fill;
    const float *v;
    uint32_t n;
    double missing = attr_float(g, c, "replaced_value_float", 0);
    if (!ok(g)) return NULL;
    if (dtype_is_int(type_of(c->in[0])) || !attr_floats(g, c, "imputed_value_floats", &v, &n) || !n) return fail_node(g, c, TG_UNSUPPORTED, "imputed_value_floats", "of integers are not covered");
    fill = cast(g, floats(g, v, n), type_of(x));
    return where(g, isnan(missing) ? is_nan(g, x) : eq(g, x, K(missing)), expand_like(g, fill, x), x);
}

U op_feature_vectorizer(Graph *g, const Ctx *c)
{
    const UOp **part = NEW_N(graph_arena(g), const UOp *, c->nin + 1);
    for (uint32_t k = 0; k < c->nin; k++) {
        if (!c->in[k]) return fail_node(g, c, TG_BAD_MODEL, NULL, "input %u is missing", k);
        part[k] = cast(g, rows_of(g, c, k), DT_F32);
    }
    return cat(g, part, c->nin, 1);
}

/* ZipMap only pairs scores with the labels that its attribute lists; the scores are its value here, a row for each map. */
U op_zip_map(Graph *g, const Ctx *c) { (void)g; return c->in[0]; }
