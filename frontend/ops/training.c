/* ai.onnx.preview.training: gradients, and one step of an optimizer. An optimizer's inputs: rate R, count of updates T,
 * then groups of n tensors each: variables, gradients, and what it remembers of them. Out: new variables, then what it
 * remembers now. Rate and count are scalars; what they make of the rate is computed in f64. To add one: its step and a
 * row in ops.def.
 */
#include <string.h>

#include "frontend/import/import.h"
#include "frontend/input_names.h"
#include "graph/gradient.h"


enum { MEMORIES = 2 };

/* One variable: x, gradient and memories to next[0], the new x, and the new memories after it. */
typedef void (*Step)(Graph *g, const Ctx *c, U x, U grad, const U *memory, U *next);

static U optimize(Graph *g, const Ctx *c, uint32_t memories, Step step)
{
    uint32_t groups = 2 + memories, n = (c->nin - 2) / groups;
    const UOp **out = NEW_N(graph_arena(g), const UOp *, c->nin);
    if (!n || c->nin != 2 + n * groups)
        return fail_node(g, c, TG_BAD_MODEL, NULL, "%u inputs; wanted 2 and %u for each variable", c->nin, groups);
    for (uint32_t k = 0; k < c->nin; k++) {
        U like = c->in[k < 2 ? k : 2 + (k - 2) % n];
        if (!c->in[k]) return fail_node(g, c, TG_BAD_MODEL, NULL, "input %u is missing", k);
        if (k < 2 ? uop_numel(like) != 1 : type_of(c->in[k]) != type_of(like) || c->in[k]->shape != like->shape)
            return fail_node(g, c, TG_BAD_MODEL, c->node->in[k],
                             k < 2 ? "wanted a scalar" : "its type or shape is not that of its variable");
    }
    for (uint32_t k = 0; k < n; k++) {
        U memory[MEMORIES], next[1 + MEMORIES];
        for (uint32_t m = 0; m < memories; m++) memory[m] = c->in[2 + (2 + m) * n + k];
        step(g, c, c->in[2 + k], c->in[2 + n + k], memory, next);
        for (uint32_t m = 0; m <= memories; m++) out[m * n + k] = next[m];
    }
    return outputs(g, c, out, n * (1 + memories));
}

/* Input 0 or 1 as a scalar of type t. */
static U rate(Graph *g, const Ctx *c, DType t) { return cast(g, reshape_i(g, c->in[0], NULL, 0), t); }
static U count(Graph *g, const Ctx *c, DType t) { return cast(g, reshape_i(g, c->in[Adam_T], NULL, 0), t); }

/* The gradient of the loss and of norm_coefficient / 2 * |x|^2. */
static U regularized(Graph *g, const Ctx *c, U x, U grad)
{
    return add(g, mul(g, K(attr_float(g, c, "norm_coefficient", 0)), x), grad);
}

static U root(Graph *g, const Ctx *c, U x) { return add(g, sqrt_(g, x), K(attr_float(g, c, "epsilon", 1e-6))); }

static void adagrad_step(Graph *g, const Ctx *c, U x, U grad, const U *memory, U *next)
{
    U decay = add(g, scalar(g, DT_F64, 1),
                  mul(g, count(g, c, DT_F64), scalar(g, DT_F64, attr_float(g, c, "decay_factor", 0))));
    U r = cast(g, div_(g, rate(g, c, DT_F64), decay), type_of(x)), d = regularized(g, c, x, grad);
    next[1] = add(g, memory[0], mul(g, d, d));
    next[0] = sub(g, x, div_(g, mul(g, r, d), root(g, c, next[1])));
}

/* The rate with what the memories, zero at first, lack after T updates put right. */
static U adam_rate(Graph *g, const Ctx *c, double alpha, double beta)
{
    U r = rate(g, c, DT_F64), t = count(g, c, DT_F64), one = scalar(g, DT_F64, 1);
    U first = sub(g, one, pow_(g, scalar(g, DT_F64, alpha), t)),
      second = sub(g, one, pow_(g, scalar(g, DT_F64, beta), t));
    return where(g, gt(g, t, scalar(g, DT_F64, 0)), div_(g, mul(g, r, sqrt_(g, second)), first), r);
}

static U blend(Graph *g, double keep, U old, U x) { return add(g, mul(g, K(keep), old), mul(g, K(1 - keep), x)); }

static void adam_step(Graph *g, const Ctx *c, U x, U grad, const U *memory, U *next)
{
    double alpha = attr_float(g, c, "alpha", 0.9), beta = attr_float(g, c, "beta", 0.999);
    U d = regularized(g, c, x, grad);
    next[1] = blend(g, alpha, memory[0], d);
    next[2] = blend(g, beta, memory[1], mul(g, d, d));
    U y = sub(g, x, div_(g, mul(g, cast(g, adam_rate(g, c, alpha, beta), type_of(x)), next[1]), root(g, c, next[2])));
    next[0] = mul(g, K(1 - attr_float(g, c, "norm_coefficient_post", 0)), y);
}

static void momentum_step(Graph *g, const Ctx *c, U x, U grad, const U *memory, U *next)
{
    const char *mode = attr_str(g, c, "mode", "");
    bool nesterov = !strcmp(mode, "nesterov");
    if (!nesterov && strcmp(mode, "standard"))
        fail_node(g, c, TG_BAD_MODEL, "mode", "is '%s'; wanted standard or nesterov", mode);
    U d = regularized(g, c, x, grad), alpha = K(attr_float(g, c, "alpha", 0)),
      first = le(g, count(g, c, DT_I64), uop_int(g, DT_I64, 0));
    next[1] = add(g, mul(g, alpha, memory[0]), mul(g, where(g, first, K(1), K(attr_float(g, c, "beta", 0))), d));
    next[0] = sub(g, x, mul(g, rate(g, c, type_of(x)), nesterov ? add(g, d, mul(g, alpha, next[1])) : next[1]));
}

U op_adagrad(Graph *g, const Ctx *c) { return optimize(g, c, 1, adagrad_step); }
U op_adam(Graph *g, const Ctx *c) { return optimize(g, c, 2, adam_step); }
U op_momentum(Graph *g, const Ctx *c) { return optimize(g, c, 1, momentum_step); }

/* ---- Gradient ---- */

static bool names_of(Graph *g, const Ctx *c, const char *field, const char **out, uint32_t *n)
{
    const Attr *a = attr_find(c, field);
    if (!a) return true;
    if (a->type != ATTR_STRINGS || *n + a->n > c->nin)
        return fail_node(g, c, TG_BAD_MODEL, field, "is not a list of names, or of more than %u inputs", c->nin), false;
    for (uint32_t k = 0; k < a->n; k++) out[(*n)++] = a->strings[k];
    return true;
}

/* Gradient: of y, as the graph makes it of the tensors xs and zs, with respect to xs, where these have the values of
 * the inputs. That part of the graph is imported with parameters in their place, which the inputs then take: so a
 * constant is as good a variable as any, and equal values stay distinct. */
U op_gradient(Graph *g, const Ctx *c)
{
    const char **name = NEW_N(graph_arena(g), const char *, c->nin + 1), *target = attr_str(g, c, "y", "");
    const UOp **x = NEW_N(graph_arena(g), const UOp *, 2 * c->nin + 1), **out = x + c->nin, *y;
    uint32_t nx = 0, n = 0;
    if (!names_of(g, c, "xs", name, &n)) return NULL;
    nx = n;
    if (!names_of(g, c, "zs", name, &n)) return NULL;
    if (!*target || !nx || n != c->nin)
        return fail_node(g, c, TG_BAD_MODEL, *target ? "xs" : "y", "%u names for %u inputs", n, c->nin);
    for (uint32_t k = 0; k < n; k++) {
        if (!c->in[k] || c->in[k]->dtype == DT_VOID)
            return fail_node(g, c, TG_BAD_MODEL, NULL, "input %u is not a tensor", k);
        x[k] = uop_param(g, type_of(c->in[k]), c->in[k]->shape->dim, uop_rank(c->in[k]),
                         INT64_C(1) << 40 | (int64_t)graph_count(g));
    }
    if (import_value(&y, c, target, name, x, n) != TG_OK) return NULL;
    if (y->dtype == DT_VOID || !dtype_is_float(type_of(y)))
        return fail_node(g, c, TG_BAD_MODEL, "y", "'%s' is not a tensor of floats", target);
    if (gradient(g, y, full(g, type_of(y), 1, y), x, nx, out) != TG_OK) return NULL;
    for (uint32_t k = 0; k < nx; k++) out[k] = uop_substitute(g, out[k], x, c->in, n);
    return outputs(g, c, out, nx);
}
