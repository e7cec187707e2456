/* See forest.h. A forest becomes tables by node; all rows and trees are walked at once: a position per (row, tree)
 * takes one step of table look-ups a level, without branches, and stays once it is at a leaf, which follows itself. A
 * step reads three numbers: a word (which feature, where the children are), the split, and the row's feature. What a
 * tree says of a target is in a table [nodes, targets]. Must hold: every path ends.
 */
#include "frontend/ops/forest.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "frontend/control/loop.h"
#include "graph/scalar.h"

typedef struct { uint32_t node, tree; } Step;

/* Level by level; a cycle would go on beyond the number of nodes. */
bool forest_ok(Graph *g, const Ctx *c, U x, Forest *f)
{
    Step *level = NEW_N(graph_arena(g), Step, f->nodes), *next = NEW_N(graph_arena(g), Step, f->nodes);
    uint32_t n = 0;
    for (uint32_t k = 0; k < f->nodes; k++)
        if (f->feature[k] < 0 || f->feature[k] >= fixed_size(g, x, 1))
            return fail_node(g, c, TG_BAD_MODEL, "nodes_featureids", "%lld of %lld features", (long long)f->feature[k],
                             (long long)uop_size(x, 1)),
                   false;
    if (f->trees > f->nodes)
        return fail_node(g, c, TG_BAD_MODEL, "tree_roots", "%u trees of %u nodes", f->trees, f->nodes), false;
    for (uint32_t t = 0; t < f->trees; t++) level[n++] = (Step){ (uint32_t)f->root[t], t };
    for (;; f->depth++) {
        uint32_t m = 0;
        for (uint32_t k = 0; k < n; k++) {
            Step at = level[k];
            if (f->mode[at.node] == LEAF) continue;
            if (m + 2 > f->nodes || f->depth > f->nodes)
                return fail_node(g, c, TG_BAD_MODEL, "nodes_truenodeids", "nodes do not make trees"), false;
            next[m++] = (Step){ (uint32_t)f->yes[at.node], at.tree },
            next[m++] = (Step){ (uint32_t)f->no[at.node], at.tree };
            f->deep[at.tree] = f->depth + 1;
        }
        if (!m) return true;
        memcpy(level, next, sizeof *next * m);
        n = m;
    }
}

U forest_table(Graph *g, DType t, const double *v, int64_t n)
{
    char *data = NEW_N(graph_arena(g), char, n * dtype_size(t) + 1);
    for (int64_t k = 0; k < n; k++) scalar_store(t, data, k, scalar_of(v[k]));
    return tensor_const(g, t, &n, 1, data, (size_t)(n * dtype_size(t)), "");
}

/* ---- tables ---- */

/* A node as a row of tables: rows whose feature is below the split (equal: is the split), or is NaN where nan is set,
 * go to the record in front of `other`, the others to `other`. */
typedef struct {
    double split;
    uint32_t feature, other, node;
    bool equal, nan;
} Record;
/* Roots first. The two children of a branch stand side by side; several branches that lead to one node share its
 * children. */
typedef struct { Record *item; uint32_t n; } Records;

static double above(DType t, double v)
{
    return t == DT_F32 ? (double)nextafterf((float)v, INFINITY) : nextafter(v, INFINITY);
}

/* The number of type t below which exactly those numbers of t are that are below v (or_equal: or v itself). */
static double split_below(DType t, double v, bool or_equal)
{
    double near = t == DT_F32 ? (double)(float)v : v;
    return near < v || (near == v && or_equal) ? above(t, near) : near;
}

/* A branch as a record, and its children in the record's order: "above" and "is not" are "below" and "is" with their
 * children exchanged, and NaN, which fails all comparisons but "is not", with them. */
static Record record_of(const Forest *f, DType t, uint32_t node, int64_t child[2])
{
    Branch b = (Branch)f->mode[node];
    double v = f->value[node];
    bool or_equal = b == BRANCH_LEQ || b == BRANCH_GT, turned = b == BRANCH_GT || b == BRANCH_GTE || b == BRANCH_NEQ,
         nan_yes = f->missing[node] || b == BRANCH_NEQ;
    Record r = { .feature = (uint32_t)f->feature[node],
                 .node = node,
                 .equal = b == BRANCH_EQ || b == BRANCH_NEQ,
                 .nan = nan_yes != turned };
    child[0] = turned ? f->no[node] : f->yes[node], child[1] = turned ? f->yes[node] : f->no[node];
    r.split = !r.equal ? split_below(t, v, or_equal) : t == DT_F32 && (double)(float)v != v ? NAN : v;
    /* all numbers are at most that: NaN alone goes a way of its own */
    if (or_equal && isinf(v) && v > 0) {
        int64_t all = child[0];
        child[0] = nan_yes ? f->yes[node] : f->no[node], child[1] = all;
        r.split = -INFINITY, r.nan = true;
    }
    return r;
}

static Records records_of(Graph *g, const Forest *f, DType t)
{
    uint32_t *children = NEW_N(graph_arena(g), uint32_t, f->nodes + 1);
    Records r = { NEW_N(graph_arena(g), Record, f->trees + 2 * (size_t)f->nodes + 1), f->trees };
    for (uint32_t k = 0; k < f->trees; k++) r.item[k].node = (uint32_t)f->root[k];
    for (uint32_t k = 0; k < r.n; k++) {
        uint32_t node = r.item[k].node;
        int64_t child[2];
        if (f->mode[node] == LEAF) {
            r.item[k] = (Record){ .split = -INFINITY, .other = k, .node = node };
            continue;
        }
        r.item[k] = record_of(f, t, node, child);
        if (!children[node]) {
            children[node] = r.n;
            for (int side = 0; side < 2; side++) r.item[r.n++].node = (uint32_t)child[side];
        }
        r.item[k].other = children[node] + 1;
    }
    return r;
}

/* ---- walking ---- */

/* What a walk reads of a record besides its split: whole numbers, as many in one u32 as it holds. */
typedef enum { FIELD_OTHER, FIELD_FEATURE, FIELD_NAN, FIELD_EQUAL, FIELD_COUNT } FieldOf;
typedef struct { uint32_t word, shift, bits; } Field;

static uint32_t field_value(const Record *r, int f)
{
    return f == FIELD_OTHER ? r->other : f == FIELD_FEATURE ? r->feature : f == FIELD_NAN ? r->nan : r->equal;
}

/* The forest's tables, and rows x as one list with where each begins. */
typedef struct {
    U flat, row, word[FIELD_COUNT], split;
    Field field[FIELD_COUNT];
    uint32_t words;
} Walk;

static void walk_tables(Graph *g, U x, const Records *r, Walk *w)
{
    double *split = NEW_N(graph_arena(g), double, r->n + 1);
    uint32_t *word = NEW_N(graph_arena(g), uint32_t, (size_t)r->n * FIELD_COUNT), used = 32;
    int64_t n = r->n;
    for (int f = 0; f < FIELD_COUNT; f++) {
        Field *at = &w->field[f];
        uint32_t most = 0;
        for (uint32_t k = 0; k < r->n; k++) most |= field_value(&r->item[k], f);
        for (at->bits = 0; at->bits < 32 && most >> at->bits; at->bits++) {}
        if (used + at->bits > 32) used = 0, w->words++;
        at->word = w->words - 1, at->shift = used, used += at->bits;
        for (uint32_t k = 0; at->bits && k < r->n; k++)
            word[at->word * n + k] |= field_value(&r->item[k], f) << at->shift;
    }
    for (uint32_t k = 0; k < r->n; k++) split[k] = r->item[k].split;
    for (uint32_t k = 0; k < w->words; k++)
        w->word[k] = tensor_const(g, DT_U32, &n, 1, word + k * n, sizeof *word * r->n, "");
    w->split = forest_table(g, type_of(x), split, n);
    w->flat = reshape(g, x, (U[]){ dim_mul(g, uop_dim(x, 0), uop_dim(x, 1)) }, 1);
    w->row = mul(g, unsqueeze(g, iota(g, uop_dim(x, 0), DT_I64), 1), cast(g, uop_dim(x, 1), DT_I64));
}

static U field_at(Graph *g, const Walk *w, FieldOf f, const U *word)
{
    const Field *at = &w->field[f];
    if (!at->bits) return uop_int(g, DT_U32, 0);
    U v = shr(g, word[at->word], uop_int(g, DT_U32, at->shift));
    return at->bits < 32 ? and_(g, v, uop_int(g, DT_U32, (1ll << at->bits) - 1)) : v;
}

/* One step down from records `at` [n, trees] in i32. */
static U step_down(Graph *g, const Walk *w, U at)
{
    U word[FIELD_COUNT], zero = uop_int(g, DT_U32, 0);
    for (uint32_t k = 0; k < w->words; k++) word[k] = take(g, w->word[k], at, 0);
    U a = take(g, w->flat, add(g, w->row, cast(g, field_at(g, w, FIELD_FEATURE, word), DT_I64)), 0),
      v = take(g, w->split, at, 0), go = lt(g, a, v);
    if (w->field[FIELD_EQUAL].bits) go = where(g, ne(g, field_at(g, w, FIELD_EQUAL, word), zero), eq(g, a, v), go);
    if (w->field[FIELD_NAN].bits) go = or_(g, go, and_(g, is_nan(g, a), ne(g, field_at(g, w, FIELD_NAN, word), zero)));
    return sub(g, cast(g, field_at(g, w, FIELD_OTHER, word), DT_I32), cast(g, go, DT_I32));
}

static bool walk_iteration(Graph *g, void *user, U step, const U *state, U *next, U *row, U *keep)
{
    (void)step, (void)row;
    next[0] = step_down(g, user, state[0]);
    *keep = NULL;
    return ok(g);
}

/* Records of the leaves that rows reach, [n, trees]: a formula of all levels, or a loop when they are many. */
static U walk(Graph *g, U x, const Forest *f, const Records *r)
{
    enum { FORMULA_MAX = 64 };
    Walk w = { 0 };
    U at = unsqueeze(g, iota(g, uop_index(g, f->trees), DT_I32), 0), all[] = { uop_dim(x, 0), uop_index(g, f->trees) };
    walk_tables(g, x, r, &w);
    if (!f->depth || f->depth > FORMULA_MAX) at = expand(g, at, all, 2);
    Loop l = {
        .body = walk_iteration, .user = &w, .trip = uop_index(g, f->depth), .most = f->depth, .states = 1, .init = &at
    };
    if (f->depth > FORMULA_MAX) return loop_build(g, &l, &at, NULL) ? at : UOP0(g, UOP_ERROR, DT_VOID, NO_ARG);
    for (uint32_t level = 0; level < f->depth; level++) at = step_down(g, &w, at);
    return at;
}

/* ---- scores ---- */

static U joined(Graph *g, const Forest *f, U a, U b)
{
    return f->join == JOIN_MIN ? min_(g, a, b) : f->join == JOIN_MAX ? max_(g, a, b) : add(g, a, b);
}

/* What the trees of f give in all, in type t: [n, targets]. */
static U walked(Graph *g, U x, const Forest *f, DType t)
{
    Records r = records_of(g, f, type_of(x));
    double *w = NEW_N(graph_arena(g), double, (size_t)r.n * f->targets);
    for (uint32_t k = 0; k < r.n; k++)
        memcpy(w + (size_t)k * f->targets, f->weight + (size_t)r.item[k].node * f->targets, sizeof *w * f->targets);
    U weight = reshape_i(g, forest_table(g, t, w, (int64_t)r.n * f->targets), (int64_t[]){ r.n, f->targets }, 2);
    x = take(g, weight, walk(g, x, f, &r), 0);                                          /* [n, trees, targets] */
    return f->join == JOIN_MIN ? min_reduce(g, x, 1, false)
        : f->join == JOIN_MAX  ? max_reduce(g, x, 1, false)
                               : sum(g, x, 1, false);
}

typedef struct { int64_t root; uint32_t depth; } Tree;

static int by_depth(const void *a, const void *b)
{
    const Tree *x = a, *y = b;
    return x->depth != y->depth ? (x->depth > y->depth) - (x->depth < y->depth)
                                : (x->root > y->root) - (x->root < y->root);
}

typedef struct { uint32_t first, end, depth; } Group;
enum { GROUPS = 3, GROUP_LEAST = 16, DEPTHS = 256 };

/* Sorts the trees by depth. Goes out: where each run of equal depth, and of GROUP_LEAST trees or more before and behind
 * it, ends. */
static uint32_t ends_of_depths(Graph *g, Forest *f, uint32_t end[DEPTHS])
{
    Tree *tree = NEW_N(graph_arena(g), Tree, f->trees);
    uint32_t n = 0;
    for (uint32_t k = 0; k < f->trees; k++) tree[k] = (Tree){ f->root[k], f->deep[k] };
    qsort(tree, f->trees, sizeof *tree, by_depth);
    for (uint32_t k = 0; k < f->trees; k++) f->root[k] = tree[k].root, f->deep[k] = tree[k].depth;
    for (uint32_t k = GROUP_LEAST; k + GROUP_LEAST <= f->trees && n < DEPTHS - 1; k++)
        if (f->deep[k - 1] != f->deep[k]) end[n++] = k;
    return end[n++] = f->trees, n;
}

/* All rows go as deep as the deepest leaf of the trees that are walked at once. So trees of like depth are walked
 * together, where that takes a quarter of the steps away, in groups that fill a vector. */
static uint32_t groups_of(Graph *g, Forest *f, Group *out)
{
    uint32_t end[DEPTHS], ends = ends_of_depths(g, f, end), n = 0;
    uint64_t best = (uint64_t)f->trees * f->depth * 3 / 4;
    for (uint32_t i = 0; i < ends; i++)
        for (uint32_t j = i + 1; j < ends; j++) {
            if (end[j] - end[i] < GROUP_LEAST) continue;
            const uint32_t to[GROUPS] = { end[i], end[j], f->trees };
            uint64_t steps = 0;
            for (uint32_t k = 0; k < GROUPS; k++) steps += (uint64_t)(to[k] - (k ? to[k - 1] : 0)) * f->deep[to[k] - 1];
            if (steps >= best) continue;
            best = steps, n = 0;
            for (uint32_t k = 0; k < GROUPS && (!k || to[k] > to[k - 1]); k++)
                out[n++] = (Group){ k ? to[k - 1] : 0, to[k], f->deep[to[k] - 1] };
        }
    if (!n) out[n++] = (Group){ 0, f->trees, f->depth };
    return n;
}

U forest_scores(Graph *g, U x, Forest *f, DType t)
{
    Group group[GROUPS];
    uint32_t n = groups_of(g, f, group);
    U y = NULL;
    for (uint32_t k = 0; k < n; k++) {
        Forest part = *f;
        part.root = f->root + group[k].first, part.trees = group[k].end - group[k].first, part.depth = group[k].depth;
        U z = walked(g, x, &part, t);
        y = y ? joined(g, f, y, z) : z;
    }
    x = y;
    if (f->join == JOIN_AVERAGE) return div_(g, x, scalar(g, type_of(x), f->trees));
    return f->join == JOIN_SUM ? x : where(g, is_inf(g, x), scalar(g, type_of(x), 0), x);
}
