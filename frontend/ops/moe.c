/* Mixtures of experts of com.microsoft: MoE, QMoE. In: tokens, their scores of experts, two or three layers of weights
 * an expert. Out: of each token the sum over its best experts of their answers, weighed. Only the weights of chosen
 * experts are read: the expert is an index into them. To add a form of weights: a case of `weights`.
 */
#include "frontend/input_names.h"
#include "frontend/ops/activation.h"
#include "frontend/ops/attention.h"
#include "frontend/ops/quant.h"

#include <math.h>
#include <string.h>

/* A layer: the inputs that hold its weights [experts, columns, rows], bias, scales and zero points; bits 0: weights are
 * floats. */
typedef struct {
    uint32_t w, bias, scale, zero;
    int64_t bits, block;
} Layer;

/* Numbers of one layer for each chosen expert: rows [experts, ..] of v by idx [n, k]. */
static U chosen(Graph *g, U v, U idx) { return is_error(v) ? v : take(g, v, idx, 0); }

/* Weights [n, k, columns, rows] as floats: (number - zero point) * scale of its column, or of its block within. */
static U weights(Graph *g, const Ctx *c, const Layer *l, U idx, int64_t rows)
{
    U w = c->in[l->w], scale = c->in[l->scale], zero = c->in[l->zero];
    int64_t columns = fixed_size(g, w, 1), blocks = l->block ? rows / l->block : 1,
            per_byte = l->bits ? 8 / l->bits : 1;
    const U dim[] = { uop_dim(w, 0), uop_index(g, columns), uop_index(g, blocks) };
    const U packed[] = { dim[0], uop_index(g, l->block ? columns : (columns + per_byte - 1) / per_byte),
                         uop_index(g, (blocks + per_byte - 1) / per_byte) };
    if (!l->bits) return wide(g, chosen(g, w, idx));
    if (!scale) return fail_node(g, c, TG_BAD_MODEL, NULL, "input %u, the scales, is missing", l->scale);
    if (!shape_ok(g, c, l->scale, dim, l->block ? 3 : 2) || !shape_ok(g, c, l->zero, packed, l->block ? 3 : 2))
        return UOP0(g, UOP_ERROR, DT_VOID, NO_ARG);
    w = unpack_bits(g, chosen(g, w, idx), l->bits), scale = wide(g, chosen(g, scale, idx));
    zero = zero ? slice_i(g, unpack_bits(g, chosen(g, zero, idx), l->bits), -1, 0, l->block ? blocks : columns)
                : uop_int(g, DT_U8, 1 << (l->bits - 1));
    if (is_error(w) || is_error(zero)) return is_error(w) ? w : zero;
    if (!l->block) scale = unsqueeze(g, scale, -1), zero = uop_rank(zero) ? unsqueeze(g, zero, -1) : zero;
    else scale = on_blocks(g, scale, w, 3, l->block), zero = uop_rank(zero) ? on_blocks(g, zero, w, 3, l->block) : zero;
    return mul(g, cast(g, centred(g, w, zero), type_of(scale)), scale);
}

/* x [n, k or 1, rows] times a layer of each chosen expert: [n, k, columns]. */
static U expert_product(Graph *g, const Ctx *c, const Layer *l, U x, U idx)
{
    if (is_error(x)) return x;
    int64_t rows = fixed_size(g, x, 2), per_byte = l->bits ? 8 / l->bits : 1;
    U w = c->in[l->w], bias = c->in[l->bias];
    if (rows % per_byte || (l->block && rows % l->block))
        return fail_node(g, c, TG_BAD_MODEL, c->node->in[l->w], "rows of %lld do not fill bytes or blocks",
                         (long long)rows);
    if (!shape_ok(g, c, l->w, (U[]){ NULL, NULL, uop_index(g, rows / per_byte) }, 3) ||
        !shape_ok(g, c, l->bias, w->shape->dim, 2))
        return UOP0(g, UOP_ERROR, DT_VOID, NO_ARG);
    U y = sum(g, mul(g, unsqueeze(g, x, 2), weights(g, c, l, idx, rows)), -1, false);
    return bias ? add(g, y, wide(g, chosen(g, bias, idx))) : y;
}

typedef enum { MOE_RELU, MOE_GELU, MOE_SILU, MOE_SWIGLU, MOE_IDENTITY } MoeAct;

/* G sigmoid(alpha G) (L + beta), both within the limit. */
static U swiglu(Graph *g, const Ctx *c, U gate, U linear)
{
    double limit = attr_find(c, "swiglu_limit") ? attr_float(g, c, "swiglu_limit", 0) : INFINITY;
    DType t = type_of(gate);
    gate = min_(g, gate, scalar(g, t, limit)), linear = clamp(g, linear, scalar(g, t, -limit), scalar(g, t, limit));
    U y = mul(g, gate, sigmoid(g, mul(g, gate, scalar(g, t, attr_float(g, c, "activation_alpha", 1)))));
    return mul(g, y, add(g, linear, scalar(g, t, attr_float(g, c, "activation_beta", 0))));
}

/* What the first layers say of x [n, 1, hidden]: [n, k, inner]. */
static U first_layers(Graph *g, const Ctx *c, const Layer layer[3], MoeAct act, U x, U idx)
{
    U h = expert_product(g, c, &layer[0], x, idx),
      third = c->in[layer[2].w] ? expert_product(g, c, &layer[2], x, idx) : NULL, y;
    int64_t fused = attr_int(g, c, "swiglu_fusion", 0);
    if (is_error(h) || (third && is_error(third))) return is_error(h) ? h : third;
    if (act == MOE_SWIGLU && fused) {
        int64_t n = fixed_size(g, h, 2);
        if (fused < 1 || fused > 2 || n % 2 || third)
            return fail_node(g, c, TG_BAD_MODEL, "swiglu_fusion", "is %lld with %lld columns", (long long)fused,
                             (long long)n);
        if (fused == 2) return swiglu(g, c, slice_i(g, h, 2, 0, n / 2), slice_i(g, h, 2, n / 2, n));
        U pair = reshape(g, h, (U[]){ uop_dim(h, 0), uop_dim(h, 1), uop_index(g, n / 2), uop_index(g, 2) }, 4);
        return swiglu(g, c, squeeze(g, slice_i(g, pair, 3, 0, 1), 3), squeeze(g, slice_i(g, pair, 3, 1, 2), 3));
    }
    if (act == MOE_SWIGLU)
        return third ? swiglu(g, c, h, third)
                     : fail_node(g, c, TG_BAD_MODEL, "swiglu_fusion", "is 0 without a third layer");
    switch (act) {
    case MOE_RELU: y = relu(g, h); break;
    case MOE_GELU: y = gelu_tanh(g, h); break;                   /* the tangent's: so does onnxruntime */
    case MOE_SILU: y = mul(g, h, sigmoid(g, h)); break;
    default: y = h;
    }
    return third ? mul(g, y, third) : y;
}

/* The k best of each row of p [n, experts], and their places [n, k]. */
static bool best(Graph *g, const Ctx *c, U p, int64_t k, U *value, U *place)
{
    Ctx two = *c;
    two.nout = 2;
    U y = standard_node(g, &two, "TopK", 11, (U[]){ p, reshape_i(g, uop_int(g, DT_I64, k), (int64_t[]){ 1 }, 1) }, 2);
    if (!y) return false;
    *value = y->src[0], *place = cast(g, y->src[1], DT_INDEX);
    return true;
}

/* router: an input whose values weigh the answers, or 0: the scores do. */
static U mixture(Graph *g, const Ctx *c, const Layer layer[3], uint32_t router)
{
    static const char *const word[] = { "relu", "gelu", "silu", "swiglu", "identity", NULL };
    U x = wide(g, c->in[0]), p = wide(g, c->in[MsMoE_router_probs]), value, idx;
    int64_t k = attr_int(g, c, "k", 1), rank = uop_rank(x);
    bool norm = attr_bool(g, c, "normalize_routing_weights", false);
    int act;
    if (!attr_choice(g, c, "activation_type", "relu", word, &act)) return NULL;
    if (attr_bool(g, c, "use_sparse_mixer", false))
        return fail_node(g, c, TG_UNSUPPORTED, "use_sparse_mixer", "is not covered");
    if (rank != 2 && rank != 3)
        return fail_node(g, c, TG_BAD_MODEL, c->node->in[0], "has rank %lld; wanted 2 or 3", (long long)rank);
    U n = dim_product(g, x->shape->dim, (uint32_t)rank - 1), hidden = uop_dim(x, (uint32_t)rank - 1),
      experts = uop_rank(c->in[layer[0].w]) ? uop_dim(c->in[layer[0].w], 0) : NULL;
    if (!shape_ok(g, c, MsMoE_router_probs, (U[]){ n, experts }, 2) ||
        (router && !shape_ok(g, c, router, (U[]){ n, experts }, 2)))
        return NULL;
    if (k < 1 || k > fixed_size(g, p, 1))
        return fail_node(g, c, TG_BAD_MODEL, "k", "is %lld of %lld experts", (long long)k, (long long)uop_size(p, 1));
    for (uint32_t i = 1; i < 3; i++)
        if (c->in[layer[i].w] && !shape_ok(g, c, layer[i].w, (U[]){ experts, i == 1 ? hidden : NULL, NULL }, 3))
            return NULL;
    bool given = router && c->in[router];
    if (!best(g, c, norm || given ? p : softmax(g, p, -1), k, &value, &idx)) return NULL;
    if (given) {
        value = gather_elements(g, wide(g, c->in[router]), cast(g, idx, DT_I64), 1);
        if (norm) value = div_(g, value, sum(g, value, -1, true));
    } else if (norm) value = softmax(g, value, -1);
    U h = first_layers(g, c, layer, (MoeAct)act, reshape(g, x, (U[]){ n, uop_index(g, 1), hidden }, 3), idx),
      y = expert_product(g, c, &layer[1], h, idx);
    if (!ok(g) || is_error(y)) return NULL;
    return narrow(
        g, reshape(g, sum(g, mul(g, y, unsqueeze(g, value, -1)), 1, false), c->in[0]->shape->dim, (uint32_t)rank),
        c->in[0]);
}

/** MoE. In: x [.., hidden], scores [n, experts], fc1 and bias, fc2 and bias, fc3 and bias. */
U op_moe(Graph *g, const Ctx *c)
{
    return mixture(g, c, (Layer[]){ { .w = 2, .bias = 3 }, { .w = 4, .bias = 5 }, { .w = 6, .bias = 7 } }, 0);
}

/** QMoE: the same of weights of few bits; behind each layer's weights come its scales, behind all of them zero points.
 */
U op_q_moe(Graph *g, const Ctx *c)
{
    Layer layer[3] = { { 2, 4, 3, 11, 0, 0 }, { 5, 7, 6, 12, 0, 0 }, { 8, 10, 9, 13, 0, 0 } };
    static const char *const bits[] = { "fc1_expert_weight_bits", "fc2_expert_weight_bits", "fc3_expert_weight_bits" };
    int64_t all = attr_int(g, c, "expert_weight_bits", 4), block = attr_int(g, c, "block_size", 0);
    if (strcmp(attr_str(g, c, "quant_type", "int"), "int"))
        return fail_node(g, c, TG_UNSUPPORTED, "quant_type", "other than int is not covered");
    if (attr_int(g, c, "weights_prepacked", 0) > 0)
        return fail_node(g, c, TG_UNSUPPORTED, "weights_prepacked", "is not covered");
    if (block < 0 || block > 1 << 20) return fail_node(g, c, TG_BAD_MODEL, "block_size", "is %lld", (long long)block);
    for (uint32_t k = 0; k < 3; k++) {
        layer[k].bits = attr_int(g, c, bits[k], all), layer[k].block = block;
        if (layer[k].bits != 2 && layer[k].bits != 4 && layer[k].bits != 8)
            return fail_node(g, c, TG_BAD_MODEL, "expert_weight_bits", "is %lld; wanted 2, 4 or 8",
                             (long long)layer[k].bits);
    }
    return mixture(g, c, layer, 14);
}
