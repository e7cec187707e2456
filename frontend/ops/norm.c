/* Normalisations. In: x [N, C, d..] or rows, parameters by channel or by row. Out: x's shape and type. Half precision
 * is computed in f32. Scales and shifts that depend on constants only are written as such (x*s + b), so that they fold
 * into a convolution's weights. To add one: a function here and a row in ops.def.
 */
#include "frontend/frontend.h"
#include "frontend/input_names.h"

#include <string.h>


/* A parameter [C] in x's computing type, along axis 1 of x. */
static U by_channel(Graph *g, const Ctx *c, U x, uint32_t i)
{
    U p = c->in[i], at = uop_rank(x) > 1 ? uop_dim(x, 1) : uop_index(g, 1);
    if (uop_rank(p) != 1 || uop_dim(p, 0) != at)
        return fail_node(g, c, TG_BAD_MODEL, c->node->in[i],
                         "has %lld values in rank %u; wanted one for each of %lld channels", (long long)uop_numel(p),
                         uop_rank(p), (long long)at->vmax);
    for (uint32_t k = 2; k < uop_rank(x); k++) p = unsqueeze(g, p, -1);
    return cast(g, p, type_of(x));
}

/* (x - mean) / sqrt(variance + epsilon) over axes; mean and the reciprocal deviation may be wanted too. */
static U standardise(Graph *g, U x, const int64_t *axis, uint32_t n, double epsilon, U *out_mean, U *out_inverse)
{
    U m = mean(g, x, axis, n, true), d = sub(g, x, m);
    U inverse = recip(g, sqrt_(g, add(g, mean(g, mul(g, d, d), axis, n, true), K(epsilon))));
    if (out_mean) *out_mean = m;
    if (out_inverse) *out_inverse = inverse;
    return mul(g, d, inverse);
}

/* ---- by channel ---- */

/* Training: statistics of this batch (over its places too, if spatial), and running ones moved towards them. */
static U batch_train(Graph *g, const Ctx *c, U x, U scale, U bias, double epsilon, bool spatial)
{
    int64_t axis[TG_MAX_RANK] = { 0 };
    double momentum = attr_float(g, c, "momentum", 0.9);
    uint32_t n = spatial ? uop_rank(x) - 1 : 1;
    for (uint32_t k = 1; k < n; k++) axis[k] = k + 1;
    U m = mean(g, x, axis, n, false), y = standardise(g, x, axis, n, epsilon, NULL, NULL),
      d = sub(g, x, mean(g, x, axis, n, true));
    U v = mean(g, mul(g, d, d), axis, n, false), old_m = cast(g, c->in[BatchNormalization_input_mean], type_of(x)),
      old_v = cast(g, c->in[BatchNormalization_input_var], type_of(x));
    U new_m = add(g, mul(g, old_m, K(momentum)), mul(g, m, K(1 - momentum))),
      new_v = add(g, mul(g, old_v, K(momentum)), mul(g, v, K(1 - momentum)));
    y = narrow(g, add(g, mul(g, y, scale), bias), c->in[0]);
    return outputs(g, c,
                   (U[]){ y, narrow(g, new_m, c->in[BatchNormalization_input_mean]),
                          narrow(g, new_v, c->in[BatchNormalization_input_var]),
                          narrow(g, m, c->in[BatchNormalization_input_mean]),
                          narrow(g, v, c->in[BatchNormalization_input_var]) },
                   c->opset < 14 ? 5 : 3);
}

/* Does it train? By its attribute from opset 14 on; before, when its further outputs are wanted, and before 7 only if
 * is_test does not forbid it. */
static bool batch_trains(Graph *g, const Ctx *c)
{
    bool more = false;
    for (uint32_t k = 1; k < c->nout; k++) more |= *c->node->out[k] != 0;
    return c->opset < 14 ? more && !attr_bool(g, c, "is_test", false) : attr_bool(g, c, "training_mode", false);
}

/** BatchNormalization: y = x*s + b with s = scale / sqrt(var + epsilon), b = bias - mean*s: one multiply-add, and
 * nothing once folded. Before opset 9, spatial 0 had a parameter for every element of a sample. */
U op_batch_normalization(Graph *g, const Ctx *c)
{
    U x = wide(g, c->in[0]), p[5];
    double epsilon = attr_float(g, c, "epsilon", 1e-5);
    bool spatial = c->opset >= 9 || attr_bool(g, c, "spatial", true);
    if (uop_rank(x) < 2 && !spatial) return fail_node(g, c, TG_BAD_MODEL, NULL, "an input of rank %u", uop_rank(x));
    for (uint32_t k = 1; k < 5; k++) {
        if (!spatial && !shape_ok(g, c, k, x->shape->dim + 1, uop_rank(x) - 1)) return NULL;
        p[k] = spatial ? by_channel(g, c, x, k) : cast(g, c->in[k], type_of(x));
    }
    if (!ok(g)) return NULL;
    if (c->opset >= 14 && c->nout > 1 && !batch_trains(g, c))
        return fail_node(g, c, TG_BAD_MODEL, "training_mode", "%u outputs; one when it is 0", c->nout);
    if (batch_trains(g, c)) return batch_train(g, c, x, p[1], p[2], epsilon, spatial);
    U s = mul(g, p[1], recip(g, sqrt_(g, add(g, p[4], K(epsilon))))), b = sub(g, p[2], mul(g, p[3], s));
    U y = narrow(g, add(g, mul(g, x, s), b), c->in[0]);
    return outputs(g, c,
                   (U[]){ y, c->in[BatchNormalization_input_mean], c->in[BatchNormalization_input_var],
                          c->in[BatchNormalization_input_mean], c->in[BatchNormalization_input_var] },
                   c->opset < 14 ? 5 : 3);
}

U op_instance_normalization(Graph *g, const Ctx *c)
{
    U x = wide(g, c->in[0]);
    int64_t axis[TG_MAX_RANK];
    uint32_t n = 0;
    if (uop_rank(x) < 3)
        return fail_node(g, c, TG_BAD_MODEL, NULL, "an input of rank %u; wanted 3 or more", uop_rank(x));
    U scale = by_channel(g, c, x, 1), bias = by_channel(g, c, x, 2);
    for (uint32_t k = 2; k < uop_rank(x); k++) axis[n++] = k;
    if (!ok(g)) return NULL;
    U y = standardise(g, x, axis, n, attr_float(g, c, "epsilon", 1e-5), NULL, NULL);
    return narrow(g, add(g, mul(g, y, scale), bias), c->in[0]);
}

/* A parameter of groups (opset 18) repeated for each channel of its group. */
static U group_parameter(Graph *g, const Ctx *c, U x, uint32_t i, int64_t groups)
{
    U p = c->in[i], each = dim_div(g, uop_dim(x, 1), uop_index(g, groups));
    const UOp *in[CTX_INPUTS] = { 0 };
    Ctx channel = *c;
    if (c->opset < 21 && uop_rank(p) == 1 && fixed_size(g, p, 0) == groups)
        p = reshape(g, expand(g, unsqueeze(g, p, 1), (U[]){ uop_dim(p, 0), each }, 2), (U[]){ uop_dim(x, 1) }, 1);
    in[i] = p;
    channel.in = in;
    return by_channel(g, &channel, x, i);
}

/* x [n, c, ..] normalised within each sample's groups of channels. */
static U grouped(Graph *g, const Ctx *c, U x, const char *attribute)
{
    int64_t groups = attr_int(g, c, attribute, 0);
    if (uop_rank(x) < 2)
        return fail_node(g, c, TG_BAD_MODEL, NULL, "an input of rank %u; wanted 2 or more", uop_rank(x));
    if (groups < 1 || !uop_is_const(uop_dim(x, 1)) || uop_size(x, 1) % groups)
        return fail_node(g, c, TG_BAD_MODEL, attribute, "%lld groups of %lld channels", (long long)groups,
                         (long long)uop_size(x, 1));
    U rest = dim_div(g, dim_product(g, x->shape->dim + 1, uop_rank(x) - 1), uop_index(g, groups)),
      dim[] = { uop_dim(x, 0), uop_index(g, groups), rest };
    U y = standardise(g, reshape(g, x, dim, 3), (int64_t[]){ 2 }, 1, attr_float(g, c, "epsilon", 1e-5), NULL, NULL);
    return reshape(g, y, x->shape->dim, uop_rank(x));
}

/* The first input as the first stage takes it: rounded to stash_type. Of doubles nothing is lost, since onnxruntime and
 * the standard's evaluator keep them, too. */
static U staged(Graph *g, const Ctx *c)
{
    DType stash = attr_float_type(g, c, "stash_type", TG_F32);
    return ok(g) ? wide(g, cast(g, c->in[0], type_of(c->in[0]) == DT_F64 ? DT_F64 : stash)) : c->in[0];
}

U op_group_normalization(Graph *g, const Ctx *c)
{
    U x = staged(g, c), y = grouped(g, c, x, "num_groups");
    if (!ok(g)) return NULL;
    U scale = group_parameter(g, c, x, 1, attr_int(g, c, "num_groups", 0)),
      bias = group_parameter(g, c, x, 2, attr_int(g, c, "num_groups", 0));
    return ok(g) ? narrow(g, add(g, mul(g, y, scale), bias), c->in[0]) : NULL;
}

/* com.microsoft GroupNorm, SkipGroupNorm: of x, or of the sum of x, skip and bias, which is a second output; an
 * activation. Channels last or on axis 1. */
static U group_norm_first(Graph *g, const Ctx *c)
{
    U x = wide(g, c->in[0]), skip = wide(g, c->in[MsSkipGroupNorm_skip]);
    int64_t act = attr_int(g, c, "activation", 0);
    if (act != 0 && act != 1)
        return fail_node(g, c, TG_BAD_MODEL, "activation", "is %lld; wanted 0 or 1", (long long)act);
    if (skip && uop_rank(skip) == 2)
        for (uint32_t k = 2; k < uop_rank(x); k++) skip = unsqueeze(g, skip, -1);
    if (skip && (is_error(skip) || uop_rank(skip) != uop_rank(x)))
        return fail_node(g, c, TG_BAD_MODEL, c->node->in[MsSkipGroupNorm_skip], "has rank %u; wanted 2 or %u",
                         uop_rank(c->in[MsSkipGroupNorm_skip]), uop_rank(x));
    if (skip) x = add(g, x, skip);
    if (c->in[MsSkipGroupNorm_bias]) x = add(g, x, by_channel(g, c, x, 4));
    if (is_error(x) || x->shape != c->in[0]->shape)
        return fail_node(g, c, TG_BAD_MODEL, c->node->in[MsSkipGroupNorm_skip], "does not fit the input");
    U y = grouped(g, c, x, "groups"), scale = by_channel(g, c, x, 1), bias = by_channel(g, c, x, 2);
    if (!ok(g)) return NULL;
    y = add(g, mul(g, y, scale), bias);
    y = narrow(g, act ? mul(g, y, sigmoid(g, y)) : y, c->in[0]);
    return c->nout < 2 ? y : UOP(g, UOP_TUPLE, DT_VOID, NO_ARG, y, narrow(g, x, c->in[0]));
}

U op_group_norm(Graph *g, const Ctx *c)
{
    bool wide_skip = c->in[MsSkipGroupNorm_skip] && uop_rank(c->in[MsSkipGroupNorm_skip]) > 2;
    return attr_bool(g, c, "channels_last", true)
        ? from_channels_last(g, c, wide_skip ? 1 | 1 << 3 : 1, group_norm_first)
        : group_norm_first(g, c);
}

/** LRN: y = x / (bias + alpha/size * sum of squares over `size` neighbouring channels)^beta. */
U op_lrn(Graph *g, const Ctx *c)
{
    U x = wide(g, c->in[0]);
    int64_t size = attr_int(g, c, "size", 0), one[] = { 1 }, before[TG_MAX_RANK] = { 0 }, after[TG_MAX_RANK] = { 0 },
            order[TG_MAX_RANK], back[TG_MAX_RANK];
    double alpha = attr_float(g, c, "alpha", 1e-4), beta = attr_float(g, c, "beta", 0.75),
           bias = attr_float(g, c, "bias", 1);
    uint32_t r = uop_rank(x);
    if (size < 1 || size > 1 << 20)
        return fail_node(g, c, TG_BAD_MODEL, "size", "is %lld; wanted 1 or more", (long long)size);
    if (r < 2) return fail_node(g, c, TG_BAD_MODEL, NULL, "an input of rank %u; wanted 2 or more", r);
    if (uop_is_int_const(uop_dim(x, 1), 0)) return c->in[0];
    /* channels last, and back */
    for (uint32_t k = 0; k < r; k++) order[k] = k < 1 ? 0 : k + 1 < r ? k + 1 : 1;
    for (uint32_t k = 0; k < r; k++) back[order[k]] = k;
    before[r - 1] = (size - 1) / 2;
    after[r - 1] = size - 1 - before[r - 1];
    U squares = pad_i(g, permute(g, mul(g, x, x), order, r), before, after, NULL);
    U total = permute(g, sum(g, windows(g, squares, 1, &size, one, one), -1, false), back, r);
    return narrow(g, div_(g, x, pow_(g, add(g, K(bias), mul(g, total, K(alpha / (double)size))), K(beta))), c->in[0]);
}

U op_mean_variance_normalization(Graph *g, const Ctx *c)
{
    U x = wide(g, c->in[0]);
    const int64_t *list;
    int64_t axis[TG_MAX_RANK] = { 0, 2, 3 };
    uint32_t n;
    if (!attr_ints(g, c, "axes", &list, &n)) list = axis, n = 3;
    if (n > uop_rank(x)) return fail_node(g, c, TG_BAD_MODEL, "axes", "%u axes of a tensor of rank %u", n, uop_rank(x));
    for (uint32_t k = 0; k < n; k++)
        if (!axis_ok(g, c, "axes", list[k], uop_rank(x), &axis[k])) return NULL;
    U d = sub(g, x, mean(g, x, axis, n, true)), deviation = sqrt_(g, mean(g, mul(g, d, d), axis, n, true));
    return narrow(g, div_(g, d, add(g, deviation, K(1e-9))), c->in[0]);
}

/* ---- by row ---- */

/* The axes from `axis` on. */
static bool row_axes(Graph *g, const Ctx *c, U x, int64_t *axis, uint32_t *n)
{
    int64_t first;
    if (!axis_ok(g, c, "axis", attr_int(g, c, "axis", -1), uop_rank(x), &first)) return false;
    for (*n = 0; first + *n < uop_rank(x); ++*n) axis[*n] = first + *n;
    return true;
}

U op_layer_normalization(Graph *g, const Ctx *c)
{
    U x = staged(g, c), scale = cast(g, c->in[LayerNormalization_Scale], type_of(x)),
      bias = c->in[LayerNormalization_B] ? cast(g, c->in[LayerNormalization_B], type_of(x)) : NULL, m, inverse;
    int64_t axis[TG_MAX_RANK];
    uint32_t n;
    if (!row_axes(g, c, x, axis, &n) || !spreads_ok(g, c, LayerNormalization_Scale, x->shape->dim, uop_rank(x)) ||
        !spreads_ok(g, c, LayerNormalization_B, x->shape->dim, uop_rank(x)))
        return NULL;
    U y = mul(g, standardise(g, x, axis, n, attr_float(g, c, "epsilon", 1e-5), &m, &inverse), scale);
    DType stash = attr_float_type(g, c, "stash_type", TG_F32);
    if (!ok(g)) return NULL;
    return outputs(
        g, c, (U[]){ narrow(g, bias ? add(g, y, bias) : y, c->in[0]), cast(g, m, stash), cast(g, inverse, stash) }, 3);
}

/* RMSNormalization, and SimplifiedLayerNormalization, which has the reciprocal as a second output. The result is of the
 * scale's type. */
U op_rms_normalization(Graph *g, const Ctx *c)
{
    U x = staged(g, c), scale = cast(g, c->in[RMSNormalization_scale], type_of(x));
    int64_t axis[TG_MAX_RANK];
    uint32_t n;
    for (uint32_t k = 0; k < 2; k++)                                    /* the second operator is in no schema */
        if (!dtype_is_float(c->in[k]->dtype))
            return fail_node(g, c, TG_BAD_MODEL, c->node->in[k], "is of type %s; wanted floats",
                             dtype_name(c->in[k]->dtype));
    if (!row_axes(g, c, x, axis, &n) || !spreads_ok(g, c, RMSNormalization_scale, x->shape->dim, uop_rank(x)))
        return NULL;
    U inverse = recip(g, sqrt_(g, add(g, mean(g, mul(g, x, x), axis, n, true), K(attr_float(g, c, "epsilon", 1e-5)))));
    if (!ok(g)) return NULL;
    return outputs(g, c, (U[]){ narrow(g, mul(g, mul(g, x, inverse), scale), c->in[RMSNormalization_scale]), inverse },
                   2);
}

U op_lp_normalization(Graph *g, const Ctx *c)
{
    U x = wide(g, c->in[0]);
    int64_t axis, p = attr_int(g, c, "p", 2);
    if (!axis_ok(g, c, "axis", attr_int(g, c, "axis", -1), uop_rank(x), &axis)) return NULL;
    if (p != 1 && p != 2) return fail_node(g, c, TG_BAD_MODEL, "p", "is %lld; wanted 1 or 2", (long long)p);
    U total = sum(g, p == 1 ? abs_(g, x) : mul(g, x, x), axis, true), norm = p == 1 ? total : sqrt_(g, total);
    return narrow(g, where(g, eq(g, norm, K(0)), K(0), div_(g, x, norm)), c->in[0]);
}
