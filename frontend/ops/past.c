/* Experimental operators that left the standard and live on in old models (opset 1 of ai.onnx). To add one: a function
 * here and a row in ops.def. */
#include "frontend/frontend.h"


/* The input, which is of a float type, as x is computed. */
static U floats(Graph *g, const Ctx *c)
{
    U x = c->in[0];
    return dtype_is_float(type_of(x))
        ? wide(g, x)
        : fail_node(g, c, TG_BAD_MODEL, c->node->in[0], "is of type %s; wanted floats", dtype_name(x->dtype));
}

/* An attribute without a default. */
static double needed(Graph *g, const Ctx *c, const char *name)
{
    if (!attr_find(c, name)) fail_node(g, c, TG_BAD_MODEL, name, "is missing");
    return attr_float(g, c, name, 1);
}

U op_affine(Graph *g, const Ctx *c)
{
    U x = floats(g, c);
    return !ok(g)
        ? NULL
        : narrow(g, add(g, mul(g, K(attr_float(g, c, "alpha", 1)), x), K(attr_float(g, c, "beta", 0))), c->in[0]);
}

U op_scaled_tanh(Graph *g, const Ctx *c)
{
    U x = floats(g, c);
    double alpha = needed(g, c, "alpha"), beta = needed(g, c, "beta");
    return ok(g) ? narrow(g, mul(g, K(alpha), tanh_(g, mul(g, K(beta), x))), c->in[0]) : NULL;
}

/* alpha ln(1 + e^(beta x)), the larger part of the logarithm taken out */
U op_parametric_softplus(Graph *g, const Ctx *c)
{
    U x = floats(g, c);
    double alpha = needed(g, c, "alpha"), beta = needed(g, c, "beta");
    if (!ok(g)) return NULL;
    x = mul(g, x, K(beta));
    U y = add(g, relu(g, x), log_(g, add(g, K(1), exp_(g, neg(g, abs_(g, x))))));
    return narrow(g, mul(g, K(alpha), y), c->in[0]);
}

/* ImageScaler: pictures [N,C,H,W] times scale, plus a bias a channel. */
U op_image_scaler(Graph *g, const Ctx *c)
{
    U x = floats(g, c);
    const float *bias;
    uint32_t n;
    if (!ok(g)) return NULL;
    if (uop_rank(x) != 4) return fail_node(g, c, TG_BAD_MODEL, c->node->in[0], "has rank %u; wanted 4", uop_rank(x));
    x = mul(g, x, K(attr_float(g, c, "scale", 1)));
    if (!attr_floats(g, c, "bias", &bias, &n) || !n) return narrow(g, x, c->in[0]);
    if (uop_size(x, 1) != n)
        return fail_node(g, c, TG_BAD_MODEL, "bias", "has %u values for %lld channels", n, (long long)uop_size(x, 1));
    U b = cast(g, tensor_const(g, DT_F32, (int64_t[]){ n, 1, 1 }, 3, bias, (size_t)n * 4, ""), type_of(x));
    return narrow(g, add(g, x, b), c->in[0]);
}

/* Crop: border [left, top, right, bottom] of pictures [N,C,H,W] goes; with scale [height, width], that much stays from
 * left and top on. */
U op_crop(Graph *g, const Ctx *c)
{
    U x = c->in[0];
    const int64_t *border, *size;
    uint32_t n, m;
    floats(g, c);
    if (!ok(g)) return NULL;
    if (uop_rank(x) != 4 || !uop_is_const(uop_dim(x, 2)) || !uop_is_const(uop_dim(x, 3)))
        return fail_node(g, c, TG_BAD_MODEL, c->node->in[0], "has rank %u; wanted 4, of known size", uop_rank(x));
    if (!attr_ints(g, c, "border", &border, &n) || n != 4)
        return fail_node(g, c, TG_BAD_MODEL, "border", "has %u values; wanted 4", n);
    bool given = attr_ints(g, c, "scale", &size, &m) && m;
    if (given && m != 2) return fail_node(g, c, TG_BAD_MODEL, "scale", "has %u values; wanted 2", m);
    for (int k = 0; k < 2; k++) {
        int64_t from = border[1 - k], all = uop_size(x, (uint32_t)k + 2), rest = border[3 - k];
        bool inside = from >= 0 && from <= all && rest >= 0 && rest <= all;
        int64_t keep = !inside ? -1 : given ? size[k] : all - from - rest;
        if (keep < 0 || keep > all - from)
            return fail_node(g, c, TG_BAD_MODEL, "border", "leaves nothing of an axis of size %lld", (long long)all);
        x = slice_i(g, x, k + 2, from, from + keep);
    }
    return x;
}
