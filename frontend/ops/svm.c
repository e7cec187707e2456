/* ai.onnx.ml: support vector machines. In: rows [n, features]; support vectors, coefficients and constants (rho) as
 * attributes. Out: labels and scores in f32. The kernel function of every row and vector is one matrix [n, vectors];
 * decisions of all pairs of classes are its product with coefficients that are put in order here. Without vectors a
 * machine is linear. Scores are those of the standard's reference; onnxruntime leaves softmax out for two classes.
 */
#include <math.h>
#include <string.h>

#include "frontend/control/loop.h"
#include "frontend/ops/ml.h"


typedef enum { SVM_LINEAR, SVM_POLY, SVM_RBF, SVM_SIGMOID, SVM_COUNT } SvmKernel;
typedef struct {
    SvmKernel kernel;
    double gamma, offset, degree;
    uint32_t vectors, coefficients, rhos;
    const float *coefficient, *rho;
    U vector;                       /* [vectors, features] */
} Svm;

/* In: rows x and the number of support vectors, 0 for a linear machine. */
static bool read_svm(Graph *g, const Ctx *c, U x, int64_t vectors, Svm *s)
{
    static const char *const name[SVM_COUNT] = { "LINEAR", "POLY", "RBF", "SIGMOID" };
    const char *kernel = attr_str(g, c, "kernel_type", "LINEAR");
    const float *v;
    uint32_t n, m, k = 0;
    while (k < SVM_COUNT && strcmp(kernel, name[k])) k++;
    if (k == SVM_COUNT)
        return fail_node(g, c, TG_BAD_MODEL, "kernel_type", "is '%s'; wanted LINEAR, POLY, RBF or SIGMOID", kernel),
               false;
    if (!attr_floats(g, c, "coefficients", &s->coefficient, &s->coefficients) || !s->coefficients)
        return fail_node(g, c, TG_BAD_MODEL, "coefficients", "is missing"), false;
    if (!attr_floats(g, c, "rho", &s->rho, &s->rhos) || !s->rhos)
        return fail_node(g, c, TG_BAD_MODEL, "rho", "is missing"), false;
    if (attr_floats(g, c, "kernel_params", &v, &m) && m == 3)
        s->gamma = (double)v[0], s->offset = (double)v[1], s->degree = trunc((double)v[2]);
    else if (m) return fail_node(g, c, TG_BAD_MODEL, "kernel_params", "has %u values; wanted 3", m), false;
    s->kernel = vectors ? (SvmKernel)k : SVM_LINEAR, s->vectors = (uint32_t)vectors;
    if (!vectors) return ok(g);
    if (vectors < 0 || vectors > UINT32_MAX || !attr_floats(g, c, "support_vectors", &v, &n) ||
        n != vectors * fixed_size(g, x, 1))
        return fail_node(g, c, TG_BAD_MODEL, "support_vectors", "do not make %lld of %lld features", (long long)vectors,
                         (long long)uop_size(x, 1)),
               false;
    s->vector = cast(g, reshape_i(g, ml_floats(g, v, n), (int64_t[]){ vectors, fixed_size(g, x, 1) }, 2), type_of(x));
    return ok(g);
}

/* [n, vectors] */
static U kernel_of(Graph *g, const Svm *s, U x)
{
    if (s->kernel == SVM_RBF) {
        U d = sub(g, unsqueeze(g, x, 1), s->vector);
        return exp_(g, mul(g, K(-s->gamma), sum(g, mul(g, d, d), -1, false)));
    }
    U y = matmul(g, x, transpose(g, s->vector));
    if (s->kernel == SVM_LINEAR) return y;
    y = add(g, mul(g, K(s->gamma), y), K(s->offset));
    return s->kernel == SVM_POLY ? pow_(g, y, K(s->degree)) : tanh_(g, y);
}

/* x times a table of w [rows, columns] that is made at import. */
static U product(Graph *g, U x, const float *w, int64_t rows, int64_t columns)
{
    return matmul(g, x,
                  cast(g, reshape_i(g, ml_floats(g, w, (uint32_t)(rows * columns)), (int64_t[]){ rows, columns }, 2),
                       type_of(x)));
}

/** SVMRegressor: the weighted sum of kernels, or with one_class its sign. */
U op_svm_regressor(Graph *g, const Ctx *c)
{
    U x = ml_rows(g, c, 0);
    int64_t vectors = attr_int(g, c, "n_supports", 0);
    Svm s = { 0 };
    Post p;
    if (!ok(g) || !ml_read_post(g, c, &p) || !read_svm(g, c, x, vectors, &s)) return NULL;
    if (s.coefficients != (vectors ? vectors : fixed_size(g, x, 1)))
        return fail_node(g, c, TG_BAD_MODEL, "coefficients", "has %u values; wanted %lld", s.coefficients,
                         (long long)(vectors ? vectors : uop_size(x, 1)));
    x = add(g, product(g, vectors ? kernel_of(g, &s, x) : x, s.coefficient, s.coefficients, 1), K((double)s.rho[0]));
    if (attr_bool(g, c, "one_class", false)) x = where(g, gt(g, x, K(0)), K(1), K(-1));
    return cast(g, ml_post(g, x, p), DT_F32);
}

/* ---- classes ---- */

/* Classes by pairs i < j, in this order: pair p has row p of every list. first[i]: of class i's vectors. */
typedef struct { uint32_t classes, pairs; const int64_t *count; uint32_t *first; } Pairs;

static bool read_pairs(Graph *g, const Ctx *c, Pairs *p, int64_t *vectors)
{
    uint32_t n;
    *vectors = 0;
    if (!attr_ints(g, c, "vectors_per_class", &p->count, &n) || !n) return ok(g);
    if (n != p->classes || n < 2 || n > 1024)
        return fail_node(g, c, TG_BAD_MODEL, "vectors_per_class", "has %u values for %u classes", n, p->classes), false;
    p->pairs = n * (n - 1) / 2;
    p->first = NEW_N(graph_arena(g), uint32_t, n);
    for (uint32_t k = 0; k < n; *vectors += p->count[k++]) {
        if (p->count[k] < 0 || p->count[k] > (1 << 24) - *vectors)
            return fail_node(g, c, TG_BAD_MODEL, "vectors_per_class", "%lld", (long long)p->count[k]), false;
        p->first[k] = (uint32_t)*vectors;
    }
    return true;
}

/* Decisions [n, pairs]: a pair weighs the vectors of its two classes, each by the coefficients that it has against the
 * other. */
static U decisions(Graph *g, const Svm *s, const Pairs *p, U kernels)
{
    float *w = NEW_N(graph_arena(g), float, (size_t)s->vectors * p->pairs);
    uint32_t pair = 0;
    for (uint32_t i = 0; i < p->classes; i++)
        for (uint32_t j = i + 1; j < p->classes; j++, pair++) {
            for (uint32_t v = p->first[i]; v < p->first[i] + p->count[i]; v++)
                w[(size_t)v * p->pairs + pair] = s->coefficient[(size_t)(j - 1) * s->vectors + v];
            for (uint32_t v = p->first[j]; v < p->first[j] + p->count[j]; v++)
                w[(size_t)v * p->pairs + pair] = s->coefficient[(size_t)i * s->vectors + v];
        }
    return add(g, product(g, kernels, w, s->vectors, p->pairs),
               cast(g, ml_floats(g, s->rho, p->pairs), type_of(kernels)));
}

/* How many pairs each class wins: [n, classes]. */
static U votes(Graph *g, const Pairs *p, U x)
{
    float *w = NEW_N(graph_arena(g), float, (size_t)p->pairs * p->classes),
          *lost = NEW_N(graph_arena(g), float, p->classes);
    uint32_t pair = 0;
    for (uint32_t i = 0; i < p->classes; i++)
        for (uint32_t j = i + 1; j < p->classes; j++, pair++)
            w[(size_t)pair * p->classes + i] = 1, w[(size_t)pair * p->classes + j] = -1, lost[j]++;
    return add(g, product(g, cast(g, gt(g, x, K(0)), DT_F32), w, p->pairs, p->classes), ml_floats(g, lost, p->classes));
}

/* ---- probabilities ---- */

/* One step of the iteration: class t = step mod classes; the sums are made afresh for class 0, when rows that are near
 * enough stop. q: [n, classes, classes]. */
typedef struct { U q; int64_t classes; } Couple;
enum { COUPLE_P, COUPLE_QP, COUPLE_PQP, COUPLE_ACTIVE, COUPLE_STATES };

static bool couple_iteration(Graph *g, void *user, U step, const U *state, U *next, U *row, U *keep)
{
    const Couple *s = user;
    U x = state[COUPLE_P], n = uop_index(g, s->classes), t = mod_floor(g, step, n),
      begin = eq(g, cast(g, t, DT_I64), uop_int(g, DT_I64, 0)), one = K(1);
    U fresh = squeeze(g, matmul(g, s->q, unsqueeze(g, x, -1)), -1), total = sum(g, mul(g, x, fresh), -1, true);
    U far = ge(g, max_reduce(g, abs_(g, sub(g, fresh, total)), -1, true), K(0.005 / (double)s->classes));
    U active = and_(g, state[COUPLE_ACTIVE], or_(g, far, not_(g, begin))),
      qp = where(g, begin, fresh, state[COUPLE_QP]), pqp = where(g, begin, total, state[COUPLE_PQP]);
    U q = squeeze(g, slice(g, s->q, 1, t, uop_index(g, 1)), 1),
      mine = cast(g, eq(g, iota(g, n, DT_I64), cast(g, t, DT_I64)), type_of(x));
    U qtt = sum(g, mul(g, q, mine), -1, true), qpt = sum(g, mul(g, qp, mine), -1, true),
      d = div_(g, sub(g, pqp, qpt), qtt), scale = add(g, one, d);
    next[COUPLE_P] = where(g, active, div_(g, add(g, x, mul(g, d, mine)), scale), x);
    next[COUPLE_QP] = div_(g, add(g, qp, mul(g, d, q)), scale);
    next[COUPLE_PQP] = div_(g, add(g, pqp, mul(g, d, add(g, mul(g, d, qtt), mul(g, K(2), qpt)))), mul(g, scale, scale));
    next[COUPLE_ACTIVE] = active;
    (void)row, *keep = NULL;
    return ok(g);
}

/* Probabilities of the classes [n, classes] from those of pairs [n, pairs]: pairwise coupling by Wu, Lin and Weng
 * (2004), the iteration of libsvm. */
static U couple(Graph *g, const Pairs *p, U x)
{
    int64_t k = p->classes, *at = NEW_N(graph_arena(g), int64_t, k * k), pair = 0;
    for (int64_t i = 0; i < k; i++) {
        at[i * k + i] = 2 * p->pairs;
        for (int64_t j = i + 1; j < k; j++, pair++) at[i * k + j] = pair, at[j * k + i] = p->pairs + pair;
    }
    U all = pad_i(g, cat(g, (U[]){ x, sub(g, K(1), x) }, 2, 1), (int64_t[]){ 0, 0 }, (int64_t[]){ 0, 1 }, NULL),
      r = take(g, all, reshape_i(g, ml_ints(g, at, k * k), (int64_t[]){ k, k }, 2), 1);
    U turned = transpose(g, r),
      eye = eq(g, unsqueeze(g, iota(g, uop_index(g, k), DT_I64), 1), iota(g, uop_index(g, k), DT_I64));
    Couple s = { where(g, eye, unsqueeze(g, sum(g, mul(g, r, r), 1, false), 1), neg(g, mul(g, turned, r))), k };
    U dim[] = { uop_dim(x, 0), uop_index(g, k) }, thin[] = { dim[0], uop_index(g, 1) }, none = expand(g, K(0), dim, 2);
    U init[COUPLE_STATES] = { expand(g, K(1.0 / (double)k), dim, 2), none, expand(g, K(0), thin, 2),
                              expand(g, uop_bool(g, true), thin, 2) },
      last[COUPLE_STATES];
    int64_t iterations = (k > 100 ? k : 100) * k;
    Loop l = { .body = couple_iteration,
               .user = &s,
               .trip = uop_index(g, iterations),
               .most = iterations,
               .states = COUPLE_STATES,
               .init = init };
    return loop_build(g, &l, last, NULL) ? last[COUPLE_P] : UOP0(g, UOP_ERROR, DT_VOID, NO_ARG);
}

/* Of the first class of each pair, by the sigmoid that training fitted. */
static U pair_probabilities(Graph *g, U x, const float *a, const float *b, uint32_t pairs)
{
    U y = sigmoid(g,
                  neg(g,
                      add(g, mul(g, x, cast(g, ml_floats(g, a, pairs), type_of(x))),
                          cast(g, ml_floats(g, b, pairs), type_of(x)))));
    return clamp(g, y, K(1e-7), K(1 - 1e-7));
}

/* ---- SVMClassifier ---- */

/* Scores [n, classes] of a machine without vectors: a plane a class. */
static U planes(Graph *g, const Ctx *c, const Svm *s, U x, uint32_t classes)
{
    int64_t features = fixed_size(g, x, 1);
    if (s->coefficients != classes * features)
        return fail_node(g, c, TG_BAD_MODEL, "coefficients", "has %u values; wanted %u of %lld features",
                         s->coefficients, classes, (long long)features);
    U w = cast(g, reshape_i(g, ml_floats(g, s->coefficient, s->coefficients), (int64_t[]){ classes, features }, 2),
               type_of(x));
    return add(g, matmul(g, x, transpose(g, w)), K((double)s->rho[0]));
}

/** SVMClassifier: the label that speaks most, and decisions of pairs (of a plane each, or probabilities of the
 * classes). One pair makes two columns of its own. */
U op_svm_classifier(Graph *g, const Ctx *c)
{
    U x = ml_rows(g, c, 0), labels, score, speaks;
    const float *a, *b;
    uint32_t na, nb;
    int64_t vectors;
    bool text;
    Svm s = { 0 };
    Pairs p = { 0 };
    Post post;
    if (!ok(g) || !ml_read_post(g, c, &post) || !(labels = ml_labels(g, c, "classlabels_ints", &p.classes, &text)) ||
        !read_pairs(g, c, &p, &vectors) || !read_svm(g, c, x, vectors, &s))
        return NULL;
    attr_floats(g, c, "prob_a", &a, &na), attr_floats(g, c, "prob_b", &b, &nb);
    if (na != nb) return fail_node(g, c, TG_BAD_MODEL, "prob_a", "has %u values, prob_b %u", na, nb);
    bool probable = vectors && na;
    if (!vectors) speaks = score = planes(g, c, &s, x, p.classes);
    else {
        if (s.coefficients != (p.classes - 1) * vectors)
            return fail_node(g, c, TG_BAD_MODEL, "coefficients", "has %u values; wanted %u of %lld vectors",
                             s.coefficients, p.classes - 1, (long long)vectors);
        if (s.rhos != p.pairs)
            return fail_node(g, c, TG_BAD_MODEL, "rho", "has %u values for %u pairs of classes", s.rhos, p.pairs);
        if (probable && na != p.pairs)
            return fail_node(g, c, TG_BAD_MODEL, "prob_a", "has %u values for %u pairs of classes", na, p.pairs);
        score = decisions(g, &s, &p, kernel_of(g, &s, x)), speaks = votes(g, &p, score);
        if (probable) score = couple(g, &p, pair_probabilities(g, score, a, b, p.pairs));
    }
    if (!ok(g)) return NULL;
    U at = argmax(g, speaks, 1, false, false);
    if (p.pairs == 1 && !probable && post != POST_PROBIT) score = ml_two_columns(g, score, post, true);
    return outputs(g, c, (U[]){ ml_labels_at(g, labels, at, text), cast(g, ml_post(g, score, post), DT_F32) }, 2);
}
