/* Operators of com.microsoft that are forms of the standard's, or a few primitives: what onnxruntime's optimizer and
 * exporters write into models beside attention and quantised values. In: any. Out: as their schemas say; half precision
 * is computed in f32. To add one: a function here, a row in microsoft.def.
 */
#include "frontend/input_names.h"
#include "frontend/ops/activation.h"
#include "frontend/ops/attention.h"
#include "frontend/values/text.h"

#include <math.h>
#include <string.h>


U standard_node(Graph *g, const Ctx *c, const char *name, int64_t opset, const U *in, uint32_t n)
{
    const OpRow *row = op_find("", name, opset);
    const UOp **all = NEW_N(graph_arena(g), const UOp *, n + CTX_INPUTS);
    if (!row) return fail_node(g, c, TG_BAD_MODEL, "opset", "is %lld", (long long)opset);
    memcpy(all, in, sizeof *in * n);
    Ctx inner = *c;
    inner.in = all, inner.nin = n, inner.opset = opset;
    U y = row->fn(g, &inner);
    return y && ok(g) ? y : NULL;
}

/* ---- forms of the standard's operators ---- */

/* pads may be a row of a matrix. */
U op_pad_ms(Graph *g, const Ctx *c)
{
    U pads = c->in[MsPad_pads];
    if (uop_rank(pads) == 2 && uop_is_int_const(uop_dim(pads, 0), 1)) pads = squeeze(g, pads, 0);
    return standard_node(g, c, "Pad", 13, (U[]){ c->in[0], pads, c->in[MsPad_value] }, 3);
}

U op_range_ms(Graph *g, const Ctx *c)
{
    U x = c->in[0];
    return standard_node(g, c, "Range", 11,
                         (U[]){ x, c->in[MsRange_limit], c->in[MsRange_delta] ? c->in[MsRange_delta] : K(1) }, 3);
}

U op_expand_dims(Graph *g, const Ctx *c)
{
    int64_t axis;
    const int64_t *v;
    uint32_t n;
    if (!input_ints(g, c, MsExpandDims_axis, &v, &n)) return NULL;
    if (n != 1) return fail_node(g, c, TG_BAD_MODEL, c->node->in[MsExpandDims_axis], "has %u values; wanted 1", n);
    return axis_ok(g, c, "axis", v[0], uop_rank(c->in[0]) + 1, &axis) ? unsqueeze(g, c->in[0], axis) : NULL;
}

/* All slices of an axis, as a last axis. */
U op_unfold_tensor(Graph *g, const Ctx *c)
{
    U x = c->in[0];
    int64_t axis, size = attr_int(g, c, "size", 0), step = attr_int(g, c, "step", 1), one = 1, r = uop_rank(x),
                  order[TG_MAX_RANK], back[TG_MAX_RANK + 1];
    if (!axis_ok(g, c, "dim", attr_int(g, c, "dim", -1), r, &axis)) return NULL;
    if (size < 1 || step < 1 || size > uop_dim(x, (uint32_t)axis)->vmax || step > 1 << 24)
        return fail_node(g, c, TG_BAD_MODEL, "size", "is %lld, step %lld", (long long)size, (long long)step);
    if (r >= TG_MAX_RANK) return fail_node(g, c, TG_LIMIT, NULL, "an input of rank %lld", (long long)r);
    graph_need(g, dim_sub(g, uop_dim(x, (uint32_t)axis), uop_index(g, size)));
    for (int64_t k = 0; k < r; k++) order[k] = k < axis ? k : k < r - 1 ? k + 1 : axis;
    for (int64_t k = 0; k < r; k++) back[order[k]] = k;
    back[r] = r;
    return permute(g, windows(g, permute(g, x, order, (uint32_t)r), 1, &size, &step, &one), back, (uint32_t)r + 1);
}

/* Softmax of all elements from `axis` on, of data plus a bias. */
U op_bias_softmax(Graph *g, const Ctx *c)
{
    U x = add(g, wide(g, c->in[0]), wide(g, c->in[MsBiasSoftmax_bias]));
    if (is_error(x) || x->shape != c->in[0]->shape)
        return fail_node(g, c, TG_BAD_MODEL, c->node->in[MsBiasSoftmax_bias], "does not broadcast to the data");
    U y = standard_node(g, c, "Softmax", 11, &x, 1);
    return y ? narrow(g, y, c->in[0]) : NULL;
}

/* Dropout(data + bias) + residual, and the mask. */
U op_bias_dropout(Graph *g, const Ctx *c)
{
    U x = add(g, c->in[0], c->in[MsBiasDropout_bias]), out[2];
    if (is_error(x) || !shape_ok(g, c, MsBiasDropout_residual, x->shape->dim, uop_rank(x))) return NULL;
    U y = standard_node(g, c, "Dropout", 13, (U[]){ x, c->in[MsBiasDropout_ratio], c->in[MsBiasDropout_training_mode] },
                        3);
    if (!y) return NULL;
    bool two = y->op == UOP_TUPLE;
    out[0] = two ? y->src[0] : y, out[1] = two ? y->src[1] : NULL;
    if (c->in[MsBiasDropout_residual]) out[0] = add(g, out[0], c->in[MsBiasDropout_residual]);
    return outputs(g, c, out, 2);
}

/* ---- element by element ---- */

static U silu(Graph *g, U x) { return mul(g, x, sigmoid(g, x)); }
/* x plus a bias of its last size. */
static U biased(Graph *g, const Ctx *c)
{
    U x = wide(g, c->in[0]);
    if (!uop_rank(x) || !shape_ok(g, c, MsBiasAdd_bias, &x->shape->dim[uop_rank(x) - 1], 1))
        return fail_node(g, c, TG_BAD_MODEL, c->node->in[0], "is a scalar");
    return add(g, x, wide(g, c->in[MsBiasAdd_bias]));
}

U op_bias_add(Graph *g, const Ctx *c)
{
    U x = biased(g, c);
    return is_error(x) || !shape_ok(g, c, MsBiasAdd_skip, x->shape->dim, uop_rank(x))
        ? NULL
        : narrow(g, add(g, x, wide(g, c->in[MsBiasAdd_skip])), c->in[0]);
}

U op_bias_split_gelu(Graph *g, const Ctx *c)
{
    U x = biased(g, c);
    if (is_error(x)) return x;
    int64_t n = fixed_size(g, x, uop_rank(x) - 1);
    if (n % 2)
        return fail_node(g, c, TG_BAD_MODEL, c->node->in[0], "has size %lld on its last axis; wanted an even one",
                         (long long)n);
    return narrow(g, mul(g, slice_i(g, x, -1, 0, n / 2), gelu(g, slice_i(g, x, -1, n / 2, n))), c->in[0]);
}

U op_gated_add(Graph *g, const Ctx *c)
{
    U x = c->in[0], dim[TG_MAX_RANK];
    uint32_t r = uop_rank(x);
    for (uint32_t k = 0; k < r; k++) dim[k] = k + 1 < r ? uop_dim(x, k) : uop_index(g, 1);
    if (!shape_ok(g, c, MsGatedAdd_Y, x->shape->dim, r) || !shape_ok(g, c, MsGatedAdd_gate, dim, r)) return NULL;
    U scaled = narrow(g, mul(g, wide(g, c->in[MsGatedAdd_Y]), wide(g, c->in[MsGatedAdd_gate])), x);
    return narrow(g, add(g, wide(g, x), wide(g, scaled)), x);
}

U op_scaled_silu(Graph *g, const Ctx *c)
{
    U x = wide(g, c->in[0]),
      scale =
          c->in[MsScaledSiLU_scale] ? cast(g, c->in[MsScaledSiLU_scale], type_of(x)) : K(attr_float(g, c, "alpha", 1));
    if (fixed_numel(g, scale) != 1)
        return fail_node(g, c, TG_BAD_MODEL, c->node->in[MsScaledSiLU_scale], "wanted one value");
    U z = narrow(g, mul(g, x, reshape(g, scale, NULL, 0)), c->in[0]), s = narrow(g, sigmoid(g, wide(g, z)), c->in[0]);
    return narrow(g, mul(g, wide(g, z), wide(g, s)), c->in[0]);
}

/** GatedRMSNorm: x / root mean square of each group of as many elements as scale has, times scale, times an activation
 * of the gate. */
U op_gated_rms_norm(Graph *g, const Ctx *c)
{
    U x = wide(g, c->in[0]), scale = wide(g, c->in[MsGatedRMSNorm_scale]), gate = wide(g, c->in[MsGatedRMSNorm_gate]),
      dim[TG_MAX_RANK + 1];
    static const char *const u32[] = { "silu", "swish", "sigmoid", NULL };
    uint32_t r = uop_rank(x);
    int act;
    if (!attr_choice(g, c, "activation", "silu", u32, &act) || !shape_ok(g, c, MsGatedRMSNorm_gate, x->shape->dim, r))
        return NULL;
    if (!r || uop_rank(scale) != 1 || fixed_size(g, scale, 0) < 1 || fixed_size(g, x, r - 1) % uop_size(scale, 0))
        return fail_node(g, c, TG_BAD_MODEL, c->node->in[MsGatedRMSNorm_scale], "does not divide the last axis");
    memcpy(dim, x->shape->dim, sizeof *dim * r);
    dim[r - 1] = dim_div(g, dim[r - 1], uop_dim(scale, 0)), dim[r] = uop_dim(scale, 0);
    U rows = reshape(g, x, dim, r + 1),
      inverse = recip(
          g,
          sqrt_(g,
                add(g, mean(g, mul(g, rows, rows), (int64_t[]){ -1 }, 1, true), K(attr_float(g, c, "epsilon", 1e-5)))));
    U y = reshape(g, mul(g, mul(g, rows, inverse), scale), x->shape->dim, r);
    return narrow(g, mul(g, y, act < 2 ? silu(g, gate) : sigmoid(g, gate)), c->in[0]);
}

/* ---- hashes, distances, words ---- */

/* MurmurHash3_x86_32 (Appleby, 2011) of n words, the last one of them as many bytes as it has, of `size` bytes in all;
 * words of any shapes. */
static U murmur(Graph *g, U h, const U *part, uint32_t n, uint32_t size)
{
    for (uint32_t k = 0; k < n; k++) {
        h = xor_(g, h, mul(g, rotate_left(g, mul(g, part[k], u32(g, 0xcc9e2d51)), 15), u32(g, 0x1b873593)));
        if (4 * k + 4 <= size) h = add(g, mul(g, rotate_left(g, h, 13), u32(g, 5)), u32(g, 0xe6546b64));
    }
    h = xor_(g, h, u32(g, size));
    h = mul(g, xor_(g, h, shr(g, h, u32(g, 16))), u32(g, 0x85ebca6b));
    h = mul(g, xor_(g, h, shr(g, h, u32(g, 13))), u32(g, 0xc2b2ae35));
    return xor_(g, h, shr(g, h, u32(g, 16)));
}

/* The hash of each string that is known; scalars that fold. */
static U text_hashes(Graph *g, const Ctx *c, U seed)
{
    const char **s;
    int64_t n, shape[TG_MAX_RANK];
    if (!input_text(g, c, 0, &s, &n)) return NULL;
    U x = text_numbers(c->in[0]);
    const UOp **hash = NEW_N(graph_arena(g), const UOp *, n + 1);
    for (int64_t i = 0; i < n; i++) {
        uint32_t size = (uint32_t)strlen(s[i]), words = (size + 3) / 4;
        const UOp **part = NEW_N(graph_arena(g), const UOp *, words + 1);
        for (uint32_t k = 0; k < words; k++) {
            uint32_t v = 0;
            for (uint32_t b = 4 * k; b < 4 * k + 4 && b < size; b++)
                v |= (uint32_t)(unsigned char)s[i][b] << 8 * (b - 4 * k);
            part[k] = u32(g, v);
        }
        hash[i] = murmur(g, seed, part, words, size);
    }
    for (uint32_t k = 0; k < uop_rank(x); k++) shape[k] = uop_size(x, k);
    return from_values(g, DT_U32, hash, shape, uop_rank(x));
}

/** MurmurHash3: of the 4 or 8 bytes of each number, or of a string's. */
U op_murmur_hash3(Graph *g, const Ctx *c)
{
    U x = c->in[0], seed = u32(g, (uint32_t)attr_int(g, c, "seed", 0)), h;
    if (is_text(x)) h = text_hashes(g, c, seed);
    else if (dtype_size(x->dtype) == 8) {
        U bits = bitcast(g, x, DT_U64);
        h = murmur(g, seed, (U[]){ cast(g, bits, DT_U32), cast(g, shr(g, bits, uop_int(g, DT_U64, 32)), DT_U32) }, 2,
                   8);
    } else h = murmur(g, seed, (U[]){ bitcast(g, x, DT_U32) }, 1, 4);
    return !h || attr_bool(g, c, "positive", true) ? h : bitcast(g, h, DT_I32);
}

/** CDist: distances of all rows of a [m, n] to all of b [k, n]. */
U op_c_dist(Graph *g, const Ctx *c)
{
    U a = c->in[0], b = c->in[MsCDist_B];
    static const char *const metric[] = { "sqeuclidean", "euclidean", NULL };
    int kind;
    if (!attr_choice(g, c, "metric", "sqeuclidean", metric, &kind)) return NULL;
    if (uop_rank(a) != 2 || !shape_ok(g, c, MsCDist_B, (U[]){ NULL, uop_dim(a, 1) }, 2))
        return fail_node(g, c, TG_BAD_MODEL, c->node->in[0], "has rank %u; wanted 2", uop_rank(a));
    U d = sub(g, unsqueeze(g, a, 1), unsqueeze(g, b, 0)), y = sum(g, mul(g, d, d), -1, false);
    return kind ? sqrt_(g, y) : y;
}

/** NGramRepeatBlock: scores [batch, words] of what would repeat the last n words of ids [batch, rows] become -inf. */
U op_n_gram_repeat_block(Graph *g, const Ctx *c)
{
    U ids = c->in[0], x = c->in[MsNGramRepeatBlock_scores], same = NULL;
    int64_t n = attr_int(g, c, "ngram_size", 0), rows = uop_rank(ids) == 2 ? fixed_size(g, ids, 1) : 0;
    if (n < 1 || n > 1024)
        return fail_node(g, c, TG_BAD_MODEL, "ngram_size", "is %lld; wanted 1 to 1024", (long long)n);
    if (uop_rank(ids) != 2 || !shape_ok(g, c, MsNGramRepeatBlock_scores, (U[]){ uop_dim(ids, 0), NULL }, 2))
        return fail_node(g, c, TG_BAD_MODEL, c->node->in[0], "wanted [batch, rows]");
    if (rows < n) return x;
    for (int64_t k = 0; k + 1 < n; k++) {
        U hit = eq(g, slice_i(g, ids, 1, k, rows - n + 1 + k), slice_i(g, ids, 1, rows - n + 1 + k, rows - n + 2 + k));
        same = same ? and_(g, same, hit) : hit;
    }
    U next = unsqueeze(g, slice_i(g, ids, 1, n - 1, rows), 2), hit = eq(g, next, iota(g, uop_dim(x, 1), DT_I64));
    if (same) hit = and_(g, hit, unsqueeze(g, same, 2));
    return where(g, cast(g, max_reduce(g, cast(g, hit, DT_U8), 1, false), DT_BOOL), K(-INFINITY), x);
}

/* Pairs of a real and an imaginary part on the last axis. sign -1: the second factor is conjugated. */
static U complex_product(Graph *g, const Ctx *c, double sign)
{
    U part[2][2];
    for (uint32_t k = 0; k < 2; k++) {
        U x = wide(g, c->in[k]);
        uint32_t axis = uop_rank(x) - 1;
        if (!uop_rank(x) || fixed_size(g, x, axis) != 2)
            return fail_node(g, c, TG_BAD_MODEL, c->node->in[k],
                             "wants a last axis of 2: a real and an imaginary part");
        for (uint32_t i = 0; i < 2; i++) part[k][i] = slice_i(g, x, axis, i, i + 1);
        part[k][1] = k ? mul(g, part[k][1], scalar(g, type_of(x), sign)) : part[k][1];
    }
    U real = sub(g, mul(g, part[0][0], part[1][0]), mul(g, part[0][1], part[1][1]));
    U imaginary = add(g, mul(g, part[0][0], part[1][1]), mul(g, part[0][1], part[1][0]));
    return narrow(g, cat(g, (U[]){ real, imaginary }, 2, (int)uop_rank(real) - 1), c->in[0]);
}

U op_complex_mul(Graph *g, const Ctx *c) { return complex_product(g, c, 1); }
U op_complex_mul_conj(Graph *g, const Ctx *c) { return complex_product(g, c, -1); }

U op_is_all_finite(Graph *g, const Ctx *c)
{
    bool inf = attr_bool(g, c, "isinf_only", false), nan = attr_bool(g, c, "isnan_only", false);
    U all = uop_int(g, DT_U8, 1);
    if (inf && nan) return fail_node(g, c, TG_BAD_MODEL, "isinf_only", "excludes isnan_only");
    for (uint32_t k = 0; k < c->nin; k++) {
        if (!c->in[k]) continue;
        U x = wide(g, c->in[k]),
          bad = inf ? is_inf(g, x)
            : nan   ? is_nan(g, x)
                    : or_(g, is_inf(g, x), is_nan(g, x)),
          n = dim_product(g, x->shape->dim, uop_rank(x));
        all = min_(g, all, min_reduce(g, reshape(g, cast(g, not_(g, bad), DT_U8), &n, 1), 0, false));
    }
    return cast(g, all, DT_BOOL);
}

/* ---- positions ---- */

/** RelativePositionBias (T5): table [buckets, heads] by the distance of key and query, exact when small, else by its
 * logarithm. Out: [1, heads, queries, keys]. */
U op_relative_position_bias(Graph *g, const Ctx *c)
{
    U x = wide(g, c->in[0]), zero = uop_int(g, DT_I64, 0);
    const UOp *const *rows, *const *cols;
    uint32_t nr, nc;
    int64_t most = attr_int(g, c, "max_distance", 0), buckets;
    bool both = attr_bool(g, c, "is_bidirectional", false);
    if (uop_rank(x) != 2 || !input_sizes(g, c, MsRelativePositionBias_query_length, &rows, &nr) ||
        !input_sizes(g, c, MsRelativePositionBias_key_length, &cols, &nc))
        return ok(g) ? fail_node(g, c, TG_BAD_MODEL, c->node->in[0], "has rank %u; wanted 2", uop_rank(x)) : NULL;
    if (nr != 1 || nc != 1 || rows[0]->vmin < 0 || cols[0]->vmin < 0)
        return fail_node(g, c, TG_BAD_MODEL, c->node->in[MsRelativePositionBias_query_length],
                         "is no size, or key_length is none");
    buckets = fixed_size(g, x, 0) / (both ? 2 : 1);
    int64_t exact = buckets / 2;
    if (exact < 1 || most <= exact)
        return fail_node(g, c, TG_BAD_MODEL, "max_distance", "is %lld for %lld buckets", (long long)most,
                         (long long)buckets);
    U far = sub(g, iota(g, cols[0], DT_I64), unsqueeze(g, iota(g, rows[0], DT_I64), 1)),
      near = both ? abs_(g, far) : neg(g, min_(g, far, zero));
    U log_far = mul(
        g, log_(g, div_(g, cast(g, max_(g, near, uop_int(g, DT_I64, 1)), DT_F32), scalar(g, DT_F32, (double)exact))),
        scalar(g, DT_F32, (double)(buckets - exact) / log((double)most / (double)exact)));
    U large = min_(g, add(g, cast(g, max_(g, log_far, scalar(g, DT_F32, 0)), DT_I64), uop_int(g, DT_I64, exact)),
                   uop_int(g, DT_I64, buckets - 1)),
      at = where(g, lt(g, near, uop_int(g, DT_I64, exact)), near, large);
    if (both) at = add(g, at, where(g, gt(g, far, zero), uop_int(g, DT_I64, buckets), zero));
    return narrow(g, unsqueeze(g, permute(g, take(g, x, cast(g, at, DT_INDEX), 0), (int64_t[]){ 2, 0, 1 }, 3), 0),
                  c->in[0]);
}

/** GatedRelativePositionBias (WavLM): rel_pos [1, heads, rows, rows] times a gate that each query makes of itself. Out:
 * [batch, heads, rows, rows]. */
U op_gated_relative_position_bias(Graph *g, const Ctx *c)
{
    U x = biased(g, c), rel = wide(g, c->in[MsGatedRelativePositionBias_rel_pos]),
      w = wide(g, c->in[MsGatedRelativePositionBias_weight]), b = wide(g, c->in[MsGatedRelativePositionBias_bias]),
      eco = wide(g, c->in[MsGatedRelativePositionBias_eco_a]), gate[2];
    if (c->in[MsGatedRelativePositionBias_token_offset])
        return fail_node(g, c, TG_UNSUPPORTED, c->node->in[MsGatedRelativePositionBias_token_offset],
                         "belongs to sequences without padding, which are not covered");
    if (is_error(x) || uop_rank(x) != 3)
        return ok(g) ? fail_node(g, c, TG_BAD_MODEL, c->node->in[0], "has rank %u; wanted 3", uop_rank(x)) : NULL;
    U q = split_heads(g, c, x, attr_int(g, c, "num_heads", 0)), one = uop_index(g, 1);
    if (!ok(g) ||
        !shape_ok(g, c, MsGatedRelativePositionBias_rel_pos, (U[]){ one, uop_dim(q, 1), uop_dim(q, 2), uop_dim(q, 2) },
                  4) ||
        !shape_ok(g, c, MsGatedRelativePositionBias_weight, (U[]){ uop_dim(q, 3), NULL }, 2))
        return NULL;
    if (!shape_ok(g, c, MsGatedRelativePositionBias_bias, &w->shape->dim[1], 1) ||
        !shape_ok(g, c, MsGatedRelativePositionBias_eco_a, (U[]){ one, uop_dim(q, 1), one, one }, 4))
        return NULL;
    int64_t n = fixed_size(g, w, 1);
    if (n % 2)
        return fail_node(g, c, TG_BAD_MODEL, c->node->in[MsGatedRelativePositionBias_weight],
                         "has %lld columns; wanted an even number", (long long)n);
    U y = add(g, matmul(g, q, w), b);
    for (int64_t k = 0; k < 2; k++)
        gate[k] = sigmoid(g, sum(g, slice_i(g, y, -1, k * n / 2, (k + 1) * n / 2), -1, true));
    y = add(g, mul(g, gate[0], sub(g, mul(g, gate[1], eco), K(1))), K(2));
    return narrow(g, mul(g, y, rel), c->in[0]);
}
