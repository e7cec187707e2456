/* ai.onnx.ml: forests. In: rows [n, features]; trees as lists of nodes, from attributes of either form (one list with
 * leaves among the nodes, or branches and leaves in tables of their own). Out: scores, labels. Here attributes are read
 * and checked, and scores become what each operator gives; forest.c walks.
 */
#include <math.h>
#include <string.h>

#include "frontend/ops/forest.h"
#include "graph/base/map.h"
#include "graph/scalar.h"


enum { BRANCH_MEMBER = LEAF };                                  /* in TreeEnsemble's numbers, where leaves have none */

static void forest_alloc(Graph *g, Forest *f, uint32_t nodes, uint32_t trees)
{
    int64_t **list[] = { &f->feature, &f->yes, &f->no, &f->mode, &f->missing };
    for (int k = 0; k < 5; k++) *list[k] = NEW_N(graph_arena(g), int64_t, nodes + 1);
    f->value = NEW_N(graph_arena(g), double, nodes + 1);
    f->root = NEW_N(graph_arena(g), int64_t, trees + 1);
    f->deep = NEW_N(graph_arena(g), uint32_t, trees + 1);
    f->nodes = nodes;
}

/* Weights of so many targets; those that a leaf does not mention count as nothing. */
static bool weights_alloc(Graph *g, const Ctx *c, Forest *f, int64_t targets)
{
    double none = f->join == JOIN_MIN ? INFINITY : f->join == JOIN_MAX ? -INFINITY : 0;
    if (targets < 1 || targets > 1 << 20)
        return fail_node(g, c, TG_BAD_MODEL, "n_targets", "is %lld", (long long)targets), false;
    if ((uint64_t)f->nodes * (uint64_t)targets > 1 << 26)
        return fail_node(g, c, TG_LIMIT, NULL, "a table of %u nodes by %lld targets", f->nodes, (long long)targets),
               false;
    f->targets = (uint32_t)targets;
    f->weight = NEW_N(graph_arena(g), double, (size_t)f->nodes * f->targets);
    for (size_t k = 0; k < (size_t)f->nodes * f->targets; k++) f->weight[k] = none;
    return true;
}

static void weigh(Forest *f, int64_t node, int64_t target, double weight)
{
    double *w = &f->weight[node * f->targets + target];
    *w = isinf(*w) ? weight : *w + weight;
}

/* A list of floats: attribute `name` as floats or as a tensor, or the tensor name_as_tensor. modes: of bytes instead.
 */
static bool list_of(Graph *g, const Ctx *c, const char *name, bool modes, const double **out, uint32_t *n)
{
    const Attr *a = attr_find(c, name), *other = attr_find(c, arena_printf(graph_arena(g), "%s_as_tensor", name));
    *out = NULL, *n = 0;
    if (a && a->type == ATTR_FLOATS && a->n && other)
        return fail_node(g, c, TG_BAD_MODEL, name, "cannot be given beside %s_as_tensor", name), false;
    if (other) a = other;
    if (!a) return false;
    DType t = a->type == ATTR_FLOATS                                           ? DT_F32
        : a->type == ATTR_TENSOR && a->t->rank < 2 && a->t->numel < UINT32_MAX ? dtype_from_onnx(a->t->type)
                                                                               : DT_VOID;
    if (modes ? t != DT_U8 : !dtype_is_float(t))
        return fail_node(g, c, TG_BAD_MODEL, name, "is not a list of %s", modes ? "bytes" : "floats"), false;
    const void *data = a->type == ATTR_FLOATS ? (const void *)a->floats : a->t->data;
    *n = a->type == ATTR_FLOATS ? a->n : (uint32_t)a->t->numel;
    double *v = NEW_N(graph_arena(g), double, *n + 1);
    for (uint32_t k = 0; k < *n; k++)
        v[k] = dtype_is_float(t) ? scalar_real(scalar_load(t, data, k)) : (double)scalar_load(t, data, k);
    return *out = v, true;
}

static bool numbers(Graph *g, const Ctx *c, const char *name, const double **out, uint32_t *n)
{
    return list_of(g, c, name, false, out, n);
}

static bool are_doubles(Graph *g, const Ctx *c, const char *name)
{
    const Attr *a = attr_find(c, arena_printf(graph_arena(g), "%s_as_tensor", name));
    return a && a->type == ATTR_TENSOR && dtype_from_onnx(a->t->type) == DT_F64;
}

/* ---- nodes and leaves in one list (the operators of opset 1 and 3) ---- */

static bool branch_of(const char *s, int64_t *out)
{
    static const char *const name[MODE_COUNT] = { "BRANCH_LEQ", "BRANCH_LT",  "BRANCH_GTE", "BRANCH_GT",
                                                  "BRANCH_EQ",  "BRANCH_NEQ", "LEAF" };
    for (int k = 0; k < MODE_COUNT; k++)
        if (!strcmp(s, name[k])) return *out = k, true;
    return false;
}

/* The row of (tree, node id), or -1. */
static int64_t node_row(const Map *rows, int64_t tree, int64_t id)
{
    const int64_t key[] = { tree, id };
    return (int64_t)(intptr_t)map_get(rows, key, sizeof key) - 1;
}

/* rows: of nodes by tree and number. */
static bool read_nodes(Graph *g, const Ctx *c, Forest *f, Map *rows)
{
    const int64_t *tree, *id, *yes, *no, *feature, *missing;
    const double *value;
    uint32_t n, m[6];
    const Attr *modes = attr_find(c, "nodes_modes");
    Map known;
    bool all = attr_ints(g, c, "nodes_treeids", &tree, &n) && attr_ints(g, c, "nodes_nodeids", &id, &m[0]) &&
        attr_ints(g, c, "nodes_truenodeids", &yes, &m[1]) && attr_ints(g, c, "nodes_falsenodeids", &no, &m[2]) &&
        attr_ints(g, c, "nodes_featureids", &feature, &m[3]) && numbers(g, c, "nodes_values", &value, &m[4]);
    if (!all || !n || !modes || modes->type != ATTR_STRINGS || modes->n != n)
        return fail_node(g, c, TG_BAD_MODEL, "nodes_modes",
                         "must be there, and as long as the other lists of nodes"),
               false;
    for (int k = 0; k < 5; k++)
        if (m[k] != n)
            return fail_node(g, c, TG_BAD_MODEL, "nodes_nodeids", "is not as long as the other lists of nodes"),
                   false;
    bool tracks = attr_ints(g, c, "nodes_missing_value_tracks_true", &missing, &m[5]) && m[5];
    if (tracks && m[5] != n)
        return fail_node(g, c, TG_BAD_MODEL, "nodes_missing_value_tracks_true", "has %u values; wanted %u", m[5], n),
               false;
    forest_alloc(g, f, n, n);
    map_init(&known, graph_arena(g)), map_init(rows, graph_arena(g));
    for (uint32_t k = 0; k < n; k++) {
        if (node_row(rows, tree[k], id[k]) >= 0)
            return fail_node(g, c, TG_BAD_MODEL, "nodes_nodeids", "node %lld of tree %lld is there twice",
                             (long long)id[k], (long long)tree[k]),
                   false;
        map_put(rows, (const int64_t[]){ tree[k], id[k] }, 2 * sizeof *id, (void *)(intptr_t)(k + 1));
    }
    for (uint32_t k = 0; k < n; k++) {
        if (!branch_of(modes->strings[k], &f->mode[k]))
            return fail_node(g, c, TG_BAD_MODEL, "nodes_modes", "'%s'", modes->strings[k]), false;
        /* a tree's first node is its root; the others need not follow it at once */
        if ((k == 0 || tree[k] != tree[k - 1]) && !map_get(&known, &tree[k], sizeof *tree)) {
            map_put_held(&known, &tree[k], sizeof *tree, f);
            f->root[f->trees++] = k;
        }
        f->value[k] = value[k], f->missing[k] = tracks && missing[k];
        if (f->mode[k] == LEAF) {
            f->yes[k] = f->no[k] = k;
            continue;
        }
        f->feature[k] = feature[k], f->yes[k] = node_row(rows, tree[k], yes[k]),
        f->no[k] = node_row(rows, tree[k], no[k]);
        if (f->yes[k] < 0 || f->no[k] < 0)
            return fail_node(g, c, TG_BAD_MODEL, "nodes_truenodeids", "row %u leads to no node", k), false;
    }
    return true;
}

/* What lists of (tree, node, target, weight) say of all weights: are they of target 0 alone, of target 1 alone, is none
 * negative? */
typedef struct { bool first_only, second_only, positive; } Weights;

static bool read_weights(Graph *g, const Ctx *c, Forest *f, const Map *rows, const char *kind, int64_t targets,
                         Weights *out)
{
    const int64_t *tree, *id, *target;
    const double *weight;
    uint32_t n, m[3];
    char name[4][32];
    static const char *const part[] = { "treeids", "nodeids", "ids", "weights" };
    for (int k = 0; k < 4; k++) strcat(strcat(strcpy(name[k], kind), "_"), part[k]);
    if (!attr_ints(g, c, name[0], &tree, &n) || !attr_ints(g, c, name[1], &id, &m[0]) ||
        !attr_ints(g, c, name[2], &target, &m[1]) || !numbers(g, c, name[3], &weight, &m[2]) || m[0] != n ||
        m[1] != n || m[2] != n)
        return fail_node(g, c, TG_BAD_MODEL, name[0], "must be there, and as long as the lists beside it"), false;
    if (!weights_alloc(g, c, f, targets)) return false;
    f->wide = are_doubles(g, c, name[3]) || are_doubles(g, c, "base_values");
    *out = (Weights){ true, true, true };
    for (uint32_t k = 0; k < n; k++) {
        int64_t row = node_row(rows, tree[k], id[k]);
        if (row < 0 || target[k] < 0 || target[k] >= targets)
            return fail_node(g, c, TG_BAD_MODEL, name[1], "entry %u names no leaf or target", k), false;
        weigh(f, row, target[k], weight[k]);
        out->first_only &= target[k] == 0;
        out->second_only &= target[k] == 1;
        out->positive &= weight[k] >= 0;
    }
    return true;
}

static bool read_join(Graph *g, const Ctx *c, Forest *f)
{
    static const char *const name[JOIN_COUNT] = { "AVERAGE", "SUM", "MIN", "MAX" };
    const char *how = attr_str(g, c, "aggregate_function", "SUM");
    for (int k = 0; k < JOIN_COUNT; k++)
        if (!strcmp(how, name[k])) return f->join = (Join)k, ok(g);
    return fail_node(g, c, TG_BAD_MODEL, "aggregate_function", "is '%s'", how), false;
}

/* ---- branches and leaves in tables of their own (TreeEnsemble, opset 5) ---- */

typedef struct {
    const int64_t *yes, *no, *yes_leaf, *no_leaf, *feature, *missing, *target, *root;
    const double *mode, *split, *member, *weight;
    uint32_t branches, leaves, members, roots;
} Ensemble;

static bool ints_of_length(Graph *g, const Ctx *c, const char *name, uint32_t want, const int64_t **out)
{
    uint32_t n;
    return (attr_ints(g, c, name, out, &n) && n == want) ||
        (fail_node(g, c, TG_BAD_MODEL, name, "has %u values; wanted %u", n, want), false);
}

static bool numbers_of_length(Graph *g, const Ctx *c, const char *name, uint32_t want, const double **out)
{
    uint32_t n;
    return (numbers(g, c, name, out, &n) && n == want) ||
        (fail_node(g, c, TG_BAD_MODEL, name, "has %u values; wanted %u", n, want), false);
}

static bool read_lists(Graph *g, const Ctx *c, Ensemble *e)
{
    uint32_t n;
    if (!list_of(g, c, "nodes_modes", true, &e->mode, &e->branches) ||
        !numbers(g, c, "leaf_weights", &e->weight, &e->leaves) || !e->branches || !e->leaves ||
        e->branches + (uint64_t)e->leaves > 1 << 26)
        return fail_node(g, c, TG_BAD_MODEL, "nodes_modes", "is missing or too long, or leaf_weights is"), false;
    if (!attr_ints(g, c, "tree_roots", &e->root, &e->roots) || !e->roots)
        return fail_node(g, c, TG_BAD_MODEL, "tree_roots", "is missing"), false;
    numbers(g, c, "membership_values", &e->member, &e->members);
    if (!attr_ints(g, c, "nodes_missing_value_tracks_true", &e->missing, &n))
        e->missing = NEW_N(graph_arena(g), int64_t, e->branches);
    else if (n != e->branches)
        return fail_node(g, c, TG_BAD_MODEL, "nodes_missing_value_tracks_true", "has %u values; wanted %u", n,
                         e->branches),
               false;
    return ok(g) && ints_of_length(g, c, "nodes_truenodeids", e->branches, &e->yes) &&
        ints_of_length(g, c, "nodes_falsenodeids", e->branches, &e->no) &&
        ints_of_length(g, c, "nodes_trueleafs", e->branches, &e->yes_leaf) &&
        ints_of_length(g, c, "nodes_falseleafs", e->branches, &e->no_leaf) &&
        ints_of_length(g, c, "nodes_featureids", e->branches, &e->feature) &&
        ints_of_length(g, c, "leaf_targetids", e->leaves, &e->target) &&
        numbers_of_length(g, c, "nodes_splits", e->branches, &e->split);
}

/* Where branch or leaf `id` stands in the forest, branches first. */
static bool place_of(Graph *g, const Ctx *c, const Ensemble *e, const char *field, int64_t id, int64_t leaf,
                     int64_t *out)
{
    if (leaf != 0 && leaf != 1)
        return fail_node(g, c, TG_BAD_MODEL, field, "leads to a leaf or not: %lld is neither 1 nor 0", (long long)leaf),
               false;
    if (id < 0 || id >= (leaf ? e->leaves : e->branches))
        return fail_node(g, c, TG_BAD_MODEL, field, "%lld of %u %s", (long long)id, leaf ? e->leaves : e->branches,
                         leaf ? "leaves" : "nodes"),
               false;
    return *out = leaf ? e->branches + id : id, true;
}

/* A set to be a member of becomes a chain of comparisons with its values, the first in the node's own place, the others
 * behind all nodes. Its values end with a NaN, or the list. */
static void add_members(Forest *f, const Ensemble *e, uint32_t node, uint32_t *at)
{
    int64_t no = f->no[node], last = node;
    f->mode[node] = BRANCH_EQ;
    f->value[node] = NAN;
    for (bool first = true; *at < e->members && !isnan(e->member[*at]); first = false, ++*at) {
        if (!first) {
            int64_t next = f->nodes++;
            f->mode[next] = BRANCH_EQ, f->feature[next] = f->feature[node], f->yes[next] = f->yes[node],
            f->no[next] = no;
            f->no[last] = next, last = next;
        }
        f->value[last] = e->member[*at];
    }
    ++*at;
}

static bool build_forest(Graph *g, const Ctx *c, const Ensemble *e, Forest *f)
{
    uint32_t at = 0;
    forest_alloc(g, f, e->branches + e->leaves + e->members, e->roots);
    f->nodes = e->branches + e->leaves;
    for (uint32_t k = 0; k < e->leaves; k++)
        f->mode[e->branches + k] = LEAF, f->yes[e->branches + k] = f->no[e->branches + k] = e->branches + k;
    for (uint32_t k = 0; k < e->branches; k++) {
        if (!(e->mode[k] >= 0 && e->mode[k] <= BRANCH_MEMBER))
            return fail_node(g, c, TG_BAD_MODEL, "nodes_modes", "%g at %u", e->mode[k], k), false;
        f->mode[k] = (int64_t)e->mode[k], f->value[k] = e->split[k], f->feature[k] = e->feature[k],
        f->missing[k] = e->missing[k];
        if (!place_of(g, c, e, "nodes_truenodeids", e->yes[k], e->yes_leaf[k], &f->yes[k]) ||
            !place_of(g, c, e, "nodes_falsenodeids", e->no[k], e->no_leaf[k], &f->no[k]))
            return false;
        if (f->mode[k] == BRANCH_MEMBER && at >= e->members)
            return fail_node(g, c, TG_BAD_MODEL, "membership_values", "has no set for node %u", k), false;
        if (f->mode[k] == BRANCH_MEMBER) add_members(f, e, k, &at);
    }
    if (at < e->members)
        return fail_node(g, c, TG_BAD_MODEL, "membership_values", "has more sets than there are nodes for them"), false;
    for (; f->trees < e->roots; f->trees++)
        if (!place_of(g, c, e, "tree_roots", e->root[f->trees], false, &f->root[f->trees])) return false;
    return true;
}

static bool read_ensemble(Graph *g, const Ctx *c, Forest *f)
{
    Ensemble e = { 0 };
    int64_t join = attr_int(g, c, "aggregate_function", JOIN_SUM), post = attr_int(g, c, "post_transform", POST_NONE),
            targets = attr_int(g, c, "n_targets", 1);
    if (join < 0 || join >= JOIN_COUNT)
        return fail_node(g, c, TG_BAD_MODEL, "aggregate_function", "is %lld", (long long)join), false;
    if (post < 0 || post >= POST_COUNT)
        return fail_node(g, c, TG_BAD_MODEL, "post_transform", "is %lld", (long long)post), false;
    f->join = (Join)join, f->post = (Post)post;
    if (!read_lists(g, c, &e) || !build_forest(g, c, &e, f) || !weights_alloc(g, c, f, targets)) return false;
    for (uint32_t k = 0; k < e.leaves; k++) {
        if (e.target[k] < 0 || e.target[k] >= targets)
            return fail_node(g, c, TG_BAD_MODEL, "leaf_targetids", "%lld of %lld targets", (long long)e.target[k],
                             (long long)targets),
                   false;
        weigh(f, e.branches + k, e.target[k], e.weight[k]);
    }
    return true;
}

/* ---- operators ---- */

/* Rows in a type of splits that holds their numbers. */
static U rows_of(Graph *g, const Ctx *c)
{
    U x = ml_rows(g, c, 0);
    return ok(g) && dtype_is_int((DType)c->in[0]->dtype) ? reshape(g, cast(g, c->in[0], DT_F64), x->shape->dim, 2) : x;
}

/** TreeEnsemble (5): scores of rows x in x's type. */
U op_tree_ensemble(Graph *g, const Ctx *c)
{
    U x = ml_rows(g, c, 0);
    Forest f = { 0 };
    if (!ok(g) || !read_ensemble(g, c, &f) || !forest_ok(g, c, x, &f)) return NULL;
    return narrow(g, ml_post(g, forest_scores(g, x, &f, type_of(x)), f.post), c->in[0]);
}

U op_tree_ensemble_regressor(Graph *g, const Ctx *c)
{
    U x = rows_of(g, c);
    const double *base;
    uint32_t nbase;
    Weights weights;
    Map rows;
    Forest f = { 0 };
    if (!ok(g) || !ml_read_post(g, c, &f.post) || !read_join(g, c, &f) || !read_nodes(g, c, &f, &rows) ||
        !forest_ok(g, c, x, &f))
        return NULL;
    if (!read_weights(g, c, &f, &rows, "target", attr_int(g, c, "n_targets", 1), &weights)) return NULL;
    U y = forest_scores(g, x, &f, f.wide ? DT_F64 : DT_F32);
    numbers(g, c, "base_values", &base, &nbase);
    if (!ok(g)) return NULL;
    if (nbase && nbase != f.targets)
        return fail_node(g, c, TG_BAD_MODEL, "base_values", "has %u values for %lld targets", nbase,
                         (long long)f.targets);
    if (nbase) y = add(g, y, forest_table(g, type_of(y), base, nbase));
    return cast(g, ml_post(g, y, f.post), DT_F32);
}

/* Two classes of which leaves weigh one alone, by onnxruntime's rules: the second label when the score passes a half,
 * or zero where a weight is negative. Weights of the first class make one score, which is the second's; the first has
 * what is left. */
static U binary_scores(Graph *g, U x, Post p, Weights w, U *at)
{
    U second = slice_i(g, x, 1, w.first_only ? 0 : 1, w.first_only ? 1 : 2);
    *at = cast(g, gt(g, squeeze(g, second, 1), K(w.positive ? 0.5 : 0)), DT_I64);
    if (!w.first_only) return ml_post(g, x, p);
    if (p == POST_LOGISTIC) return sigmoid(g, cat(g, (U[]){ neg(g, second), second }, 2, 1));
    return cat(g, (U[]){ w.positive ? sub(g, K(1), second) : neg(g, second), second }, 2, 1);
}

/** TreeEnsembleClassifier: one score a class, the label of the largest. */
U op_tree_ensemble_classifier(Graph *g, const Ctx *c)
{
    U x = rows_of(g, c), labels, at;
    const double *base;
    uint32_t nbase, classes;
    bool text;
    Weights weights;
    Map rows;
    Forest f = { .join = JOIN_SUM };
    if (!ok(g) || !ml_read_post(g, c, &f.post) || !(labels = ml_labels(g, c, "classlabels_int64s", &classes, &text)))
        return NULL;
    if (!read_nodes(g, c, &f, &rows) || !forest_ok(g, c, x, &f) ||
        !read_weights(g, c, &f, &rows, "class", classes, &weights))
        return NULL;
    U score = forest_scores(g, x, &f, f.wide ? DT_F64 : DT_F32);
    numbers(g, c, "base_values", &base, &nbase);
    if (!ok(g)) return NULL;
    if (nbase && nbase != classes && (nbase != 1 || classes != 2))
        return fail_node(g, c, TG_BAD_MODEL, "base_values", "has %u values for %u classes", nbase, classes);
    if (nbase) score = add(g, score, forest_table(g, type_of(score), base, nbase));
    if (classes == 2 && (weights.first_only || weights.second_only))
        score = binary_scores(g, score, f.post, weights, &at);
    else at = argmax(g, score, 1, false, false), score = ml_post(g, score, f.post);
    return outputs(g, c, (U[]){ ml_labels_at(g, labels, at, text), cast(g, score, DT_F32) }, 2);
}
