/* See activation.h. To add one: its kind, a row, a case. */
#include "frontend/ops/activation.h"

#include <math.h>
#include <string.h>
#include <strings.h>

static const struct { const char *name; int takes; double a, b; } row[ACT_COUNT] = {
    [ACT_SIGMOID] = { "Sigmoid" }, [ACT_TANH] = { "Tanh" }, [ACT_RELU] = { "Relu" }, [ACT_AFFINE] = { "Affine", 2, 1, 0 },
    [ACT_LEAKY_RELU] = { "LeakyRelu", 1, 0.01, 0 }, [ACT_THRESHOLDED_RELU] = { "ThresholdedRelu", 1, 1, 0 },
    [ACT_SCALED_TANH] = { "ScaledTanh", 2, 1, 1 }, [ACT_HARD_SIGMOID] = { "HardSigmoid", 2, 0.2, 0.5 }, [ACT_ELU] = { "Elu", 1, 1, 0 },
    [ACT_SOFTSIGN] = { "Softsign" }, [ACT_SOFTPLUS] = { "Softplus" }, [ACT_CLIP] = { "Clip", 2, -INFINITY, INFINITY },
};

Act act_of(ActKind kind) { return (Act){ kind, row[kind].a, row[kind].b }; }
int act_takes(ActKind kind) { return row[kind].takes; }

bool act_named(Graph *g, const Ctx *c, const char *field, const char *name, ActKind kinds, Act *out)
{
    /* in recurrent layers a name may be in any case */
    int (*differ)(const char *, const char *) = kinds == ACT_CELLS ? strcasecmp : strcmp;
    for (ActKind k = 0; k < kinds; k++)
        if (!differ(row[k].name, name)) return *out = act_of(k), true;
    /* the standard's list has an end */
    return fail_node(g, c, kinds == ACT_CELLS ? TG_BAD_MODEL : TG_UNSUPPORTED, field,
                     "'%s' is not an activation that it may have", name),
           false;
}

U act_apply(Graph *g, Act f, U x)
{
    U zero = scalar(g, x->dtype, 0), one = scalar(g, x->dtype, 1), a = scalar(g, x->dtype, f.a),
      b = scalar(g, x->dtype, f.b);
    switch (f.kind) {
    case ACT_SIGMOID: return sigmoid(g, x);
    case ACT_TANH: return tanh_(g, x);
    case ACT_RELU: return relu(g, x);
    case ACT_AFFINE: return add(g, mul(g, x, a), b);
    case ACT_LEAKY_RELU: return where(g, lt(g, x, zero), mul(g, x, a), x);
    case ACT_THRESHOLDED_RELU: return where(g, lt(g, x, a), zero, x);
    case ACT_SCALED_TANH: return mul(g, a, tanh_(g, mul(g, b, x)));
    case ACT_HARD_SIGMOID: return clamp(g, add(g, mul(g, x, a), b), zero, one);
    case ACT_ELU: return where(g, lt(g, x, zero), mul(g, a, sub(g, exp_(g, x), one)), x);
    case ACT_SOFTSIGN: return div_(g, x, add(g, abs_(g, x), one));
    case ACT_CLIP: return clamp(g, x, a, b);
    default: return add(g, max_(g, x, zero), log_(g, add(g, one, exp_(g, neg(g, abs_(g, x))))));
    }
}

U gelu(Graph *g, U x) { return mul(g, mul(g, K(0.5), x), add(g, K(1), erf_(g, mul(g, x, K(M_SQRT1_2))))); }

U gelu_tanh(Graph *g, U x)
{
    U cube = mul(g, x, mul(g, x, x)), inner = mul(g, K(sqrt(2 / M_PI)), add(g, x, mul(g, K(0.044715), cube)));
    return mul(g, mul(g, K(0.5), x), add(g, K(1), tanh_(g, inner)));
}
