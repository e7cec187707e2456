/* Attention and what stands around it in transformers: the standard's operators, and those that onnxruntime's own
 * exporters write (domain com.microsoft). In: queries, keys, values as [batch, heads, rows, size] or [batch, rows,
 * heads * size]. Out: as they came. Scores and softmax are plain reduces in f32, so that the scheduler may join them;
 * masks are comparisons of positions, never tables. A row without an allowed key gives zeros. To add one: a function
 * here and a row in ops.def.
 */
#include "frontend/input_names.h"
#include "frontend/ops/activation.h"
#include "frontend/ops/attention.h"
#include "frontend/ops/quant.h"

#include <math.h>
#include <string.h>


/* ---- heads ---- */

U split_heads(Graph *g, const Ctx *c, U x, int64_t heads)
{
    if (uop_rank(x) == 4) return x;
    if (uop_rank(x) != 3) return fail_node(g, c, TG_BAD_MODEL, NULL, "an input of rank %u; wanted 3 or 4", uop_rank(x));
    if (heads < 1 || !uop_is_const(uop_dim(x, 2)) || uop_size(x, 2) % heads)
        return fail_node(g, c, TG_BAD_MODEL, "num_heads", "%lld for a hidden size of %lld", (long long)heads,
                         (long long)uop_size(x, 2));
    U n = uop_index(g, heads), size = dim_div(g, uop_dim(x, 2), n);
    return permute(g, reshape(g, x, (U[]){ uop_dim(x, 0), uop_dim(x, 1), n, size }, 4), (int64_t[]){ 0, 2, 1, 3 }, 4);
}

U join_heads(Graph *g, U x)
{
    if (x->op == UOP_ERROR) return x;
    U rows = permute(g, x, (int64_t[]){ 0, 2, 1, 3 }, 4);
    return reshape(g, rows, (U[]){ uop_dim(x, 0), uop_dim(x, 2), dim_mul(g, uop_dim(x, 1), uop_dim(x, 3)) }, 3);
}

/* a[b, h, n, k] b[b, h/groups, k, m]: each head of b serves `groups` neighbouring heads of a, without copies. */
static U grouped_matmul(Graph *g, U a, U b)
{
    if (a->op == UOP_ERROR || b->op == UOP_ERROR || uop_dim(a, 1) == uop_dim(b, 1)) return matmul(g, a, b);
    U groups = dim_div(g, uop_dim(a, 1), uop_dim(b, 1));
    U y = matmul(g, reshape(g, a, (U[]){ uop_dim(a, 0), uop_dim(b, 1), groups, uop_dim(a, 2), uop_dim(a, 3) }, 5),
                 unsqueeze(g, b, 2));
    return y->op == UOP_ERROR ? y
                              : reshape(g, y, (U[]){ uop_dim(a, 0), uop_dim(a, 1), uop_dim(a, 2), uop_dim(b, 3) }, 4);
}

/* ---- shapes ---- */

bool past_ok(Graph *g, const Ctx *c, uint32_t i, U x)
{
    return shape_ok(g, c, i, (U[]){ uop_dim(x, 0), uop_dim(x, 1), NULL, uop_dim(x, 3) }, 4);
}
bool same_rows(Graph *g, const Ctx *c, uint32_t i, uint32_t j)
{
    return shape_ok(g, c, j, (U[]){ NULL, NULL, uop_dim(c->in[i], 2), NULL }, 4);
}

/* Queries, keys and values [batch, heads, rows, size] that belong together. */
static bool heads_ok(Graph *g, const Ctx *c, U q, U k, U v)
{
    bool same = same_size(g, uop_dim(q, 0), uop_dim(k, 0)) && same_size(g, uop_dim(q, 0), uop_dim(v, 0)) &&
        same_size(g, uop_dim(k, 1), uop_dim(v, 1)) && same_size(g, uop_dim(k, 2), uop_dim(v, 2)) &&
        same_size(g, uop_dim(q, 3), uop_dim(k, 3));
    return same || (fail_node(g, c, TG_BAD_MODEL, NULL, "queries, keys and values do not fit each other"), false);
}

bool bias_ok(Graph *g, const Ctx *c, uint32_t i, U q, U keys)
{
    U x = c->in[i], dim[4] = { uop_dim(q, 0), uop_dim(q, 1), uop_dim(q, 2), keys };
    for (uint32_t k = 0; x && k < 2 && k < uop_rank(x); k++)
        if (uop_is_int_const(uop_dim(x, k), 1)) dim[k] = NULL;
    return shape_ok(g, c, i, dim, 4);
}

/* ---- masks ---- */

static U both(Graph *g, U a, U b) { return !a ? b : !b ? a : and_(g, a, b); }
static U total_of(Graph *g, U a, U b) { return !a ? b : !b ? a : add(g, a, b); }
static U positions(Graph *g, U n) { return iota(g, n, DT_I64); }

#define FAR (INT64_C(1) << 48)              /* beyond every position; sums with it do not wrap */

U window_mask(Graph *g, U rows, U cols, U offset, int64_t left, int64_t right)
{
    U i = add(g, unsqueeze(g, positions(g, rows), 1), offset), j = positions(g, cols), mask = NULL;
    if (right > FAR) right = FAR;
    if (left > FAR) left = FAR;
    if (right >= 0) mask = le(g, j, add(g, i, uop_int(g, DT_I64, right)));
    if (left >= 0) mask = both(g, mask, ge(g, j, sub(g, i, uop_int(g, DT_I64, left))));
    return mask;
}

/* Softmax of scores; where not allowed they count as -inf, and a row of nothing but -inf gives zeros. */
static U masked_softmax(Graph *g, U x, U sink)
{
    U top = max_reduce(g, x, -1, true);
    if (sink) top = max_(g, top, sink);
    U shift = where(g, eq(g, top, K(-INFINITY)), K(0), top), e = exp_below(g, sub(g, x, shift)),
      total = sum(g, e, -1, true);
    if (sink) total = add(g, total, exp_(g, sub(g, sink, shift)));
    return div_(g, e, where(g, eq(g, total, K(0)), K(1), total));
}

U attend(Graph *g, U q, U k, U v, const Attend *a, U stages[4])
{
    U x = stages[0] = mul(g, grouped_matmul(g, q, transpose(g, k)), scalar(g, type_of(q), a->scale));
    if (x->op == UOP_ERROR) return x;
    if (a->softcap != 0) x = mul(g, K(a->softcap), tanh_(g, div_(g, x, K(a->softcap))));
    stages[1] = x;
    if (a->bias) x = add(g, x, cast(g, a->bias, type_of(x)));
    if (a->allowed) x = where(g, a->allowed, x, K(-INFINITY));
    stages[2] = x;
    DType own = type_of(x);
    if (a->softmax) x = wide(g, cast(g, x, a->softmax));
    x = a->bias || a->allowed || a->sink ? masked_softmax(g, x, a->sink ? cast(g, a->sink, type_of(x)) : NULL)
                                         : softmax(g, x, -1);
    stages[3] = a->softmax ? cast(g, cast(g, x, a->softmax), own) : x;
    return grouped_matmul(g, stages[3], v);
}

static double default_scale(Graph *g, U q) { return 1 / sqrt((double)fixed_size(g, q, 3)); }

/* Double, unlike an attribute's default. */
static double scale_of(Graph *g, const Ctx *c, U q)
{
    return attr_find(c, "scale") ? attr_float(g, c, "scale", 0) : default_scale(g, q);
}

double cap_of(Graph *g, const Ctx *c)
{
    double cap = attr_float(g, c, "softcap", 0);
    if (!(cap >= 0 && isfinite(cap))) fail_node(g, c, TG_BAD_MODEL, "softcap", "is %g; wanted 0 or more", cap);
    return cap;
}

/* ---- the standard's Attention (23, 24, 25) ---- */

/* The standard's mask, which broadcasts to [batch, heads, rows, keys]. From version 24 on its last axis may be shorter
 * than the keys, and is not repeated if it is 1: the rest is not attended. */
static U long_mask(Graph *g, const Ctx *c, U q, U keys)
{
    U mask = c->in[Attention_attn_mask], before[TG_MAX_RANK], after[TG_MAX_RANK];
    uint32_t r = uop_rank(mask);
    if (r < 1 || r > 4)
        return fail_node(g, c, TG_BAD_MODEL, c->node->in[Attention_attn_mask], "has rank %u; wanted 1 to 4", r);
    if (!spreads_ok(g, c, Attention_attn_mask,
                    (U[]){ uop_dim(q, 0), uop_dim(q, 1), uop_dim(q, 2), c->opset < 24 ? keys : NULL }, 4))
        return UOP0(g, UOP_ERROR, DT_VOID, NO_ARG);
    if (c->opset < 24 || uop_dim(mask, r - 1) == keys) return mask;
    if (dim_sub(g, keys, uop_dim(mask, r - 1))->vmax < 0)
        return fail_node(g, c, TG_BAD_MODEL, c->node->in[Attention_attn_mask],
                         "has size %lld on axis %u; there are %lld keys", (long long)uop_size(mask, r - 1), r - 1,
                         (long long)keys->vmax);
    for (uint32_t k = 0; k < r; k++) before[k] = after[k] = uop_index(g, 0);
    after[r - 1] = dim_sub(g, keys, uop_dim(mask, r - 1));
    return pad(g, mask, before, after, type_of(mask) == DT_BOOL ? NULL : scalar(g, type_of(mask), -INFINITY));
}

static void read_masks(Graph *g, const Ctx *c, U q, U k, U past, Attend *a)
{
    U rows = uop_dim(q, 2), keys = uop_dim(k, 2), mask = c->in[Attention_attn_mask] ? long_mask(g, c, q, keys) : NULL,
      offset = uop_int(g, DT_I64, 0);
    int64_t left = attr_int(g, c, "left_window_size", -1), right = attr_int(g, c, "right_window_size", -1);
    if (left < -1 || right < -1)
        return (void)fail_node(g, c, TG_BAD_MODEL, left < -1 ? "left_window_size" : "right_window_size",
                               "is %lld; wanted -1 or more", (long long)(left < -1 ? left : right));
    if (!ok(g) || !shape_ok(g, c, Attention_nonpad_kv_seqlen, (U[]){ uop_dim(q, 0) }, 1)) return;
    if (past && c->in[Attention_nonpad_kv_seqlen])
        return (void)fail_node(g, c, TG_BAD_MODEL, c->node->in[Attention_nonpad_kv_seqlen],
                               "cannot be given together with past_key");
    if (mask && type_of(mask) == DT_BOOL) a->allowed = mask;
    else a->bias = wide(g, mask);
    if (past) offset = cast(g, uop_dim(past, 2), DT_I64);
    /* how many keys of each batch are not padding */
    if (c->in[Attention_nonpad_kv_seqlen]) {
        U valid = input_count(g, c, 6, keys);
        for (int n = 0; n < 3; n++) valid = unsqueeze(g, valid, -1);
        if (!past) offset = sub(g, valid, cast(g, rows, DT_I64));
        a->allowed = both(g, a->allowed, lt(g, positions(g, keys), valid));
    }
    if (attr_bool(g, c, "is_causal", false)) right = 0;
    if (left >= 0 || right >= 0) a->allowed = both(g, a->allowed, window_mask(g, rows, keys, offset, left, right));
}

U op_attention(Graph *g, const Ctx *c)
{
    bool flat = uop_rank(c->in[0]) == 3;
    int64_t mode = attr_int(g, c, "qk_matmul_output_mode", 0), heads = attr_int(g, c, "q_num_heads", 0),
            kv_heads = attr_int(g, c, "kv_num_heads", 0);
    int64_t precision = attr_int(g, c, "softmax_precision", TG_F32);
    U q = split_heads(g, c, c->in[0], heads), k = split_heads(g, c, c->in[Attention_K], kv_heads),
      v = split_heads(g, c, c->in[Attention_V], kv_heads), stages[4];
    if (!ok(g)) return NULL;
    if (precision != TG_F32 && precision != TG_F16 && precision != TG_F64 && precision != TG_BF16)
        return fail_node(g, c, TG_BAD_MODEL, "softmax_precision", "is %lld; wanted a float type", (long long)precision);
    if ((attr_find(c, "q_num_heads") && heads != fixed_size(g, q, 1)) ||
        (attr_find(c, "kv_num_heads") && kv_heads != fixed_size(g, k, 1)))
        return fail_node(g, c, TG_BAD_MODEL, "q_num_heads", "is not what the inputs have, or kv_num_heads is not");
    if (!heads_ok(g, c, q, k, v)) return NULL;
    if (mode < 0 || mode > 3)
        return fail_node(g, c, TG_BAD_MODEL, "qk_matmul_output_mode", "is %lld; wanted 0 to 3", (long long)mode);
    if (fixed_size(g, k, 1) < 1 || fixed_size(g, q, 1) % fixed_size(g, k, 1))
        return fail_node(g, c, TG_BAD_MODEL, "kv_num_heads", "%lld heads of queries on %lld of keys",
                         (long long)uop_size(q, 1), (long long)uop_size(k, 1));
    if (!c->in[Attention_past_key] != !c->in[Attention_past_value])
        return fail_node(g, c, TG_BAD_MODEL, "past_key", "must come together with past_value");
    if (!past_ok(g, c, Attention_past_key, k) || !past_ok(g, c, Attention_past_value, v) ||
        (c->in[Attention_past_key] && !same_rows(g, c, 4, 5)))
        return NULL;
    if (c->in[Attention_past_key])
        k = cat(g, (U[]){ c->in[Attention_past_key], k }, 2, 2),
        v = cat(g, (U[]){ c->in[Attention_past_value], v }, 2, 2);
    if (!ok(g)) return NULL;
    Attend a = { .softcap = cap_of(g, c), .scale = scale_of(g, c, q) };
    if (attr_find(c, "softmax_precision")) a.softmax = attr_float_type(g, c, "softmax_precision", TG_F32);
    read_masks(g, c, q, k, c->in[Attention_past_key], &a);
    U y = attend(g, wide(g, q), wide(g, k), cast(g, wide(g, v), type_of(wide(g, q))), &a, stages);
    if (!ok(g)) return NULL;
    y = narrow(g, flat ? join_heads(g, y) : y, c->in[0]);
    return outputs(g, c, (U[]){ y, k, v, narrow(g, stages[mode], c->in[0]) }, 4);
}

/* ---- FlexAttention (ai.onnx.preview) ---- */

/* x by the subgraph of that name, if there is one; it keeps type and shape. */
static U modified(Graph *g, const Ctx *c, const char *name, U x)
{
    SubGraph sub;
    U y;
    if (!attr_find(c, name) || x->op == UOP_ERROR) return x;
    if (!attr_graph(g, c, name, &sub) || import_subgraph(g, c, &sub, &x, 1, &y, 1) != TG_OK) return NULL;
    return y->dtype == x->dtype && y->shape == x->shape
        ? y
        : fail_node(g, c, TG_BAD_MODEL, name, "changes the type or shape of what it is given");
}

/** FlexAttention: prob_mod(softmax(score_mod(q k' scale))) v, q [b,h,n,d], k and v [b,h/groups,m,d]. */
U op_flex_attention(Graph *g, const Ctx *c)
{
    U q = c->in[0], k = c->in[FlexAttention_K], v = c->in[FlexAttention_V];
    DType t = attr_float_type(g, c, "softmax_precision", q->dtype == DT_F64 ? TG_F64 : TG_F32);
    if (!ok(g)) return NULL;
    if (uop_rank(q) != 4 || uop_rank(k) != 4 || uop_rank(v) != 4)
        return fail_node(g, c, TG_BAD_MODEL, NULL, "inputs of ranks %u, %u and %u; wanted 4", uop_rank(q), uop_rank(k),
                         uop_rank(v));
    int64_t heads = fixed_size(g, q, 1), of_keys = fixed_size(g, k, 1), of_values = fixed_size(g, v, 1);
    if (!ok(g)) return NULL;
    if (of_keys < 1 || of_keys != of_values || heads % of_keys)
        return fail_node(g, c, TG_BAD_MODEL, NULL, "%lld heads of queries on %lld of keys and %lld of values",
                         (long long)heads, (long long)of_keys, (long long)of_values);
    U x = grouped_matmul(g, wide(g, q), transpose(g, wide(g, k)));
    x = modified(g, c, "score_mod", cast(g, mul(g, x, K(scale_of(g, c, q))), t));
    if (!x || !ok(g)) return NULL;
    x = modified(g, c, "prob_mod", narrow(g, softmax(g, wide(g, x), -1), x));
    return x && ok(g) ? narrow(g, grouped_matmul(g, cast(g, x, type_of(wide(g, v))), wide(g, v)), q) : NULL;
}

/* ---- positions ---- */

U rotate(Graph *g, U x, U cosine, U sine, int64_t size, bool interleaved)
{
    int64_t half = size / 2;
    U head = slice_i(g, x, -1, 0, size), a, b;
    if (head->op == UOP_ERROR) return head;
    U pairs[] = { uop_dim(x, 0), uop_dim(x, 1), uop_dim(x, 2), uop_index(g, interleaved ? half : 2),
                  uop_index(g, interleaved ? 2 : half) };
    int64_t axis = interleaved ? 4 : 3;
    head = reshape(g, head, pairs, 5);
    a = squeeze(g, slice_i(g, head, axis, 0, 1), axis), b = squeeze(g, slice_i(g, head, axis, 1, 2), axis);
    U real = sub(g, mul(g, cosine, a), mul(g, sine, b)), imag = add(g, mul(g, sine, a), mul(g, cosine, b));
    U turned = cat(g, (U[]){ unsqueeze(g, real, axis), unsqueeze(g, imag, axis) }, 2, axis);
    if (turned->op == UOP_ERROR) return turned;
    turned = reshape(g, turned, (U[]){ uop_dim(x, 0), uop_dim(x, 1), uop_dim(x, 2), uop_index(g, size) }, 4);
    return cat(g, (U[]){ turned, slice(g, x, -1, uop_index(g, size), dim_sub(g, uop_dim(x, 3), uop_index(g, size))) },
               2, -1);
}

U rows_at(Graph *g, U table, U ids)
{
    if (table->op == UOP_ERROR || ids->op == UOP_ERROR) return table->op == UOP_ERROR ? table : ids;
    return uop_rank(table) ? gather(g, table, place_in(g, ids, uop_dim(table, 0)), 0)
                           : graph_fail(g, "a table of rank 0");
}

static U rotary(Graph *g, const Ctx *c, U cosine, U sine, U ids)
{
    U x = wide(g, c->in[0]), like = c->in[0];
    int64_t heads = attr_int(g, c, "num_heads", 0), size = attr_int(g, c, "rotary_embedding_dim", 0);
    bool flat = uop_rank(x) == 3;
    if (uop_rank(cosine) < 2 || fixed_size(g, cosine, uop_rank(cosine) - 1) < 1)
        return fail_node(g, c, TG_BAD_MODEL, "cos_cache", "has rank %u, or no columns", uop_rank(cosine));
    if (flat && !heads && size > 0 && fixed_size(g, x, 2) % size == 0) heads = fixed_size(g, x, 2) / size;
    if (flat && !heads) heads = fixed_size(g, x, 2) / (2 * fixed_size(g, cosine, uop_rank(cosine) - 1));
    x = split_heads(g, c, x, heads);
    if (!ok(g)) return NULL;
    x = permute(g, x, (int64_t[]){ 0, 2, 1, 3 }, 4);                         /* [batch, rows, heads, size] */
    size = size ? size : fixed_size(g, x, 3);
    if (ids) cosine = gather(g, cosine, ids, 0), sine = gather(g, sine, ids, 0);
    if (!ok(g)) return NULL;
    if (uop_rank(cosine) != 3 || uop_rank(sine) != 3 || size < 2 || size % 2 || size > fixed_size(g, x, 3) ||
        fixed_size(g, cosine, 2) != size / 2 || fixed_size(g, sine, 2) != size / 2)
        return fail_node(g, c, TG_BAD_MODEL, "cos_cache", "does not fit a rotated size of %lld", (long long)size);
    U y = rotate(g, x, wide(g, unsqueeze(g, cosine, 2)), wide(g, unsqueeze(g, sine, 2)), size,
                 attr_bool(g, c, "interleaved", false));
    if (!ok(g)) return NULL;
    y = flat ? reshape(g, y, like->shape->dim, 3) : permute(g, y, (int64_t[]){ 0, 2, 1, 3 }, 4);
    return narrow(g, y, like);
}

U op_rotary_embedding(Graph *g, const Ctx *c)
{
    return rotary(g, c, c->in[RotaryEmbedding_cos_cache], c->in[RotaryEmbedding_sin_cache],
                  c->in[RotaryEmbedding_position_ids]);
}

/* com.microsoft: positions come second; a single one is where the first row stands. */
U op_rotary_embedding_ms(Graph *g, const Ctx *c)
{
    U ids = c->in[MsRotaryEmbedding_position_ids], x = c->in[0];
    if (uop_rank(x) < 3) return fail_node(g, c, TG_BAD_MODEL, NULL, "an input of rank %u; wanted 3 or 4", uop_rank(x));
    U batch = uop_dim(x, 0), rows = uop_dim(x, uop_rank(x) == 3 ? 1 : 2), table = c->in[MsRotaryEmbedding_cos_cache];
    if (uop_rank(table) != 2 || !shape_ok(g, c, MsRotaryEmbedding_sin_cache, table->shape->dim, 2))
        return fail_node(g, c, TG_BAD_MODEL, c->node->in[MsRotaryEmbedding_cos_cache], "has rank %u; wanted 2",
                         uop_rank(table));
    if (fixed_numel(g, ids) != 1 && !shape_ok(g, c, MsRotaryEmbedding_position_ids, (U[]){ batch, rows }, 2))
        return NULL;
    if (fixed_numel(g, ids) == 1) ids = add(g, reshape_i(g, ids, NULL, 0), iota(g, rows, type_of(ids)));
    if (uop_rank(ids) == 1) ids = expand(g, unsqueeze(g, ids, 0), (U[]){ batch, rows }, 2);
    return rotary(g, c, table, c->in[MsRotaryEmbedding_sin_cache], place_in(g, ids, uop_dim(table, 0)));
}

/* ---- com.microsoft ---- */

/* A mask of rank 1, input i: lengths [batch], or with first positions behind them [2 batch], or with where sequences
 * start behind them [3 batch + 2], which says nothing new. Which keys of [batch, keys] are on; NULL: it is none of
 * them. */
static U keys_on(Graph *g, const Ctx *c, uint32_t i, U batch, U keys)
{
    U size = uop_dim(c->in[i], 0), twice = dim_add(g, batch, batch), at = positions(g, keys), zero = uop_index(g, 0);
    bool starts = uop_is_int_const(dim_sub(g, size, twice), 0) && !uop_is_int_const(size, 0),
         sums = uop_is_int_const(dim_sub(g, size, dim_add(g, dim_add(g, twice, batch), uop_index(g, 2))), 0);
    if (!starts && !sums && !same_size(g, size, batch)) return NULL;
    U count = starts ? c->in[i] : input_count(g, c, i, keys);
    if (!starts && !sums) return lt(g, at, unsqueeze(g, count, 1));
    U on = lt(g, at, cast(g, unsqueeze(g, slice(g, count, 0, zero, batch), 1), DT_I64));
    return starts ? and_(g, on, ge(g, at, cast(g, unsqueeze(g, slice(g, count, 0, batch, batch), 1), DT_I64))) : on;
}

/* Input i, a mask of one of the forms: rank 1 as above, [batch, keys], [batch, rows, keys], [batch, 1, longest,
 * longest]; what is not above 0 gets the filter value added. */
static U filter_bias(Graph *g, const Ctx *c, uint32_t i, U q, U keys, double filter)
{
    U mask = c->in[i], batch = uop_dim(q, 0), rows = uop_dim(q, 2), on;
    uint32_t rank = uop_rank(mask);
    const U form[4][4] = { { NULL }, { batch, keys }, { batch, rows, keys }, { batch, uop_index(g, 1), NULL, NULL } };
    if (rank < 1 || rank > 4)
        return fail_node(g, c, TG_UNSUPPORTED, c->node->in[i], "is a mask of rank %u, which is not covered", rank);
    if (!shape_ok(g, c, i, form[rank - 1], rank)) return UOP0(g, UOP_ERROR, DT_VOID, NO_ARG);
    on = rank == 1 ? keys_on(g, c, i, batch, keys) : gt(g, mask, scalar(g, type_of(mask), 0));
    if (!on)
        return fail_node(g, c, TG_BAD_MODEL, c->node->in[i], "has size %lld; wanted one length a batch",
                         (long long)uop_size(mask, 0));
    if (rank < 3) on = unsqueeze(g, on, 1);
    if (rank < 4) on = unsqueeze(g, on, 1);
    else if (uop_dim(on, 3) != keys)                        /* square for the longest sequence */
        on = slice(g, slice(g, on, 3, uop_index(g, 0), keys), 2, dim_sub(g, keys, rows), rows);
    return where(g, on, scalar(g, DT_F32, 0), scalar(g, DT_F32, filter));
}

/* Attention of y [b, s, 3h], whose columns are queries, keys and values. mask, past, bias: inputs, absent ones too. x:
 * of the type of the results. */
static U attention_of(Graph *g, const Ctx *c, U y, U x, uint32_t mask, uint32_t past, uint32_t bias)
{
    U part[3], stages[4];
    int64_t heads = attr_int(g, c, "num_heads", 0), at = 0, size[3];
    const int64_t *sizes;
    uint32_t n;
    if (is_error(y)) return NULL;
    if (attr_bool(g, c, "do_rotary", false) || attr_bool(g, c, "past_present_share_buffer", false))
        return fail_node(g, c, TG_UNSUPPORTED, "do_rotary", "is not covered, nor are shared buffers");
    bool given = attr_ints(g, c, "qkv_hidden_sizes", &sizes, &n);
    if (given && n != 3) return fail_node(g, c, TG_BAD_MODEL, "qkv_hidden_sizes", "has %u values; wanted 3", n);
    for (int k = 0; k < 3; k++) {
        size[k] = given ? sizes[k] : fixed_size(g, y, 2) / 3;
        if (size[k] < 1 || at + size[k] > fixed_size(g, y, 2))
            return fail_node(g, c, TG_BAD_MODEL, "qkv_hidden_sizes", "do not fit weights of %lld columns",
                             (long long)uop_size(y, 2));
        part[k] = split_heads(g, c, slice_i(g, y, 2, at, at + size[k]), heads);
        at += size[k];
    }
    if (at != fixed_size(g, y, 2))
        return fail_node(g, c, TG_BAD_MODEL, "qkv_hidden_sizes", "%lld columns of weights; wanted %lld",
                         (long long)uop_size(y, 2), (long long)at);
    if (!ok(g) || !heads_ok(g, c, part[0], part[1], part[2])) return NULL;
    U rows = uop_dim(y, 1), offset = uop_int(g, DT_I64, 0);
    if (c->in[past]) {
        if (!shape_ok(g, c, past,
                      (U[]){ uop_index(g, 2), uop_dim(y, 0), uop_index(g, heads), NULL, uop_dim(part[1], 3) }, 5))
            return NULL;
        offset = cast(g, uop_dim(c->in[past], 3), DT_I64);
        for (int k = 1; k < 3; k++)
            part[k] = cat(g, (U[]){ wide(g, squeeze(g, slice_i(g, c->in[past], 0, k - 1, k), 0)), part[k] }, 2, 2);
    }
    if (!ok(g)) return NULL;
    double scale = attr_float(g, c, "scale", 0);
    U keys = uop_dim(part[1], 2);
    if (!bias_ok(g, c, bias, part[0], keys)) return NULL;
    Attend a = { .scale = scale != 0 ? scale : default_scale(g, part[0]), .bias = wide(g, c->in[bias]) };
    if (c->in[mask])
        a.bias =
            total_of(g, a.bias, filter_bias(g, c, mask, part[0], keys, attr_float(g, c, "mask_filter_value", -10000)));
    if (attr_bool(g, c, "unidirectional", false)) a.allowed = window_mask(g, rows, keys, offset, -1, 0);
    U out = narrow(g, join_heads(g, attend(g, part[0], part[1], part[2], &a, stages)), x);
    if (!ok(g) || c->nout < 2) return out;
    U present = cat(g, (U[]){ unsqueeze(g, part[1], 0), unsqueeze(g, part[2], 0) }, 2, 0);
    return outputs(g, c, (U[]){ out, narrow(g, present, x) }, 2);
}

/* Input 1 and a bias, input 2, are weights of x [b, s, in]. */
static bool projection_ok(Graph *g, const Ctx *c)
{
    U x = c->in[0], w = c->in[MsAttention_weights];
    if (uop_rank(x) != 3 || uop_rank(w) != 2 || !uop_is_const(uop_dim(w, 1)))
        return fail_node(g, c, TG_BAD_MODEL, NULL, "inputs of ranks %u and %u; wanted 3 and 2", uop_rank(x),
                         uop_rank(w)),
               false;
    return shape_ok(g, c, MsAttention_weights, (U[]){ uop_dim(x, 2), NULL }, 2) &&
        shape_ok(g, c, MsAttention_bias, &w->shape->dim[1], 1);
}

/** com.microsoft Attention: x [b, s, in] times W [in, 3h] gives queries, keys, values; past [2, b, heads, p, size].
 * Out: [b, s, h], present. */
U op_attention_ms(Graph *g, const Ctx *c)
{
    if (!projection_ok(g, c)) return NULL;
    if (c->in[MsAttention_past_sequence_length])
        return fail_node(g, c, TG_UNSUPPORTED, c->node->in[MsAttention_past_sequence_length],
                         "belongs to shared buffers, which are not covered");
    U y = matmul(g, wide(g, c->in[0]), wide(g, c->in[MsAttention_weights]));
    return attention_of(g, c, c->in[MsAttention_bias] ? add(g, y, wide(g, c->in[MsAttention_bias])) : y, c->in[0], 3, 4,
                        5);
}

/** QAttention: the same of quantised x and weights. In: x, W, bias, their scales, mask, their zero points, past. */
U op_q_attention(Graph *g, const Ctx *c)
{
    if (!projection_ok(g, c)) return NULL;
    U y =
        scaled_product(g, c, c->in[0], c->in[MsQAttention_input_scale], c->in[MsQAttention_input_zero_point], 4, 7, 2);
    return y && ok(g) ? attention_of(g, c, y, c->in[MsQAttention_input_scale], 5, 8, 9) : NULL;
}

/* Part k of input i, [batch, rows, heads, parts, size], as [batch, rows, heads * size]. */
static U one_of_packed(Graph *g, const Ctx *c, uint32_t i, int64_t k, int64_t parts, int64_t heads)
{
    U x = c->in[i];
    if (!shape_ok(g, c, i, (U[]){ NULL, NULL, uop_index(g, heads), uop_index(g, parts), NULL }, 5)) return NULL;
    return reshape(g, slice_i(g, x, 3, k, k + 1),
                   (U[]){ uop_dim(x, 0), uop_dim(x, 1), dim_mul(g, uop_dim(x, 2), uop_dim(x, 4)) }, 3);
}

/** com.microsoft MultiHeadAttention: query, key, value [b, rows, h] (or keys and values already by heads), bias [3h],
 * masks, past. */
U op_multi_head_attention(Graph *g, const Ctx *c)
{
    int64_t heads = attr_int(g, c, "num_heads", 0), at = 0, columns = 0;
    U in[3] = { c->in[0], c->in[MsMultiHeadAttention_key], c->in[MsMultiHeadAttention_value] }, part[3], stages[4];
    /* the input that holds what follows it too */
    uint32_t packed = !in[1] && !in[2] ? 0 : in[1] && !in[2] ? 1 : 3;
    for (uint32_t k = packed; k < 3; k++)
        if (!(in[k] = one_of_packed(g, c, packed, k - packed, 3 - packed, heads))) return NULL;
    if (!in[1] || uop_rank(in[0]) != 3)
        return fail_node(g, c, TG_BAD_MODEL, c->node->in[0], "has rank %u, or a key is missing", uop_rank(c->in[0]));
    if (!c->in[MsMultiHeadAttention_past_key] != !c->in[MsMultiHeadAttention_past_value])
        return fail_node(g, c, TG_BAD_MODEL, "past_key", "must come together with past_value");
    if (c->in[MsMultiHeadAttention_past_sequence_length] || c->in[MsMultiHeadAttention_cache_indirection])
        return fail_node(g, c, TG_UNSUPPORTED, c->node->in[c->in[MsMultiHeadAttention_past_sequence_length] ? 8 : 9],
                         "belongs to shared buffers, which are not covered");
    if (c->in[MsMultiHeadAttention_bias] && uop_rank(c->in[MsMultiHeadAttention_bias]) != 1)
        return fail_node(g, c, TG_BAD_MODEL, c->node->in[MsMultiHeadAttention_bias], "has rank %u; wanted 1",
                         uop_rank(c->in[MsMultiHeadAttention_bias]));
    for (int k = 0; k < 3; k++) {
        U x = wide(g, in[k]);
        if (c->in[MsMultiHeadAttention_bias] && uop_rank(x) == 3)
            x = add(g, x, wide(g, slice_i(g, c->in[MsMultiHeadAttention_bias], 0, at, at + fixed_size(g, x, 2))));
        at += uop_rank(x) == 3 ? fixed_size(g, x, 2) : 0;
        part[k] = split_heads(g, c, x, heads);
    }
    if (!ok(g) || !heads_ok(g, c, part[0], part[1], part[2])) return NULL;
    if (!same_size(g, uop_dim(part[0], 1), uop_dim(part[1], 1)))
        return fail_node(g, c, TG_BAD_MODEL, c->node->in[MsMultiHeadAttention_key], "has %lld heads; wanted %lld",
                         (long long)uop_size(part[1], 1), (long long)heads);
    for (int k = 0; k < 3; k++) columns += heads * fixed_size(g, part[k], 3);
    if (!shape_ok(g, c, MsMultiHeadAttention_bias, (U[]){ uop_index(g, columns) }, 1)) return NULL;
    U offset = uop_int(g, DT_I64, 0);
    if (c->in[MsMultiHeadAttention_past_key]) {
        if (!past_ok(g, c, MsMultiHeadAttention_past_key, part[1]) ||
            !past_ok(g, c, MsMultiHeadAttention_past_value, part[2]) || !same_rows(g, c, 6, 7))
            return NULL;
        offset = cast(g, uop_dim(c->in[MsMultiHeadAttention_past_key], 2), DT_I64);
        for (int k = 1; k < 3; k++)
            part[k] = cat(g, (U[]){ wide(g, c->in[MsMultiHeadAttention_past_key + k - 1]), part[k] }, 2, 2);
    }
    if (!ok(g)) return NULL;
    double scale = attr_float(g, c, "scale", 0);
    U rows = uop_dim(part[0], 2), keys = uop_dim(part[1], 2);
    if (!bias_ok(g, c, 5, part[0], keys)) return NULL;
    Attend a = { .scale = scale != 0 ? scale : default_scale(g, part[0]),
                 .bias = wide(g, c->in[MsMultiHeadAttention_attention_bias]) };
    if (c->in[MsMultiHeadAttention_key_padding_mask])
        a.bias =
            total_of(g, a.bias, filter_bias(g, c, 4, part[0], keys, attr_float(g, c, "mask_filter_value", -10000)));
    if (attr_bool(g, c, "unidirectional", false)) a.allowed = window_mask(g, rows, keys, offset, -1, 0);
    U y = narrow(g, join_heads(g, attend(g, part[0], part[1], part[2], &a, stages)), c->in[0]);
    return outputs(
        g, c, (U[]){ y, narrow(g, part[1], c->in[0]), narrow(g, part[2], c->in[0]), narrow(g, stages[2], c->in[0]) },
        4);
}

/* (x - mean) / deviation along the last axis, times gamma plus beta; the three outputs that follow the first in this
 * family. */
static U layer_norm(Graph *g, const Ctx *c, U x, U gamma, U beta, bool centred, U out[3])
{
    double epsilon = attr_float(g, c, "epsilon", 1e-12);
    const int64_t axis[] = { -1 };
    if (!(epsilon >= 0)) fail_node(g, c, TG_BAD_MODEL, "epsilon", "is %g; wanted 0 or more", epsilon);
    U m = centred ? mean(g, x, axis, 1, true) : NULL, d = m ? sub(g, x, m) : x;
    U inverse = recip(g, sqrt_(g, add(g, mean(g, mul(g, d, d), axis, 1, true), K(epsilon)))),
      y = mul(g, mul(g, d, inverse), cast(g, gamma, type_of(x)));
    out[0] = m, out[1] = inverse, out[2] = x;
    return beta ? add(g, y, cast(g, beta, type_of(x))) : y;
}

/* What is added to x [.., rows, size] has its shape, but for a batch that is left out or is one; scales and biases have
 * its last size. */
static bool skip_shapes_ok(Graph *g, const Ctx *c)
{
    U x = c->in[0], skip = c->in[MsSkipLayerNormalization_skip], dim[TG_MAX_RANK];
    uint32_t rank = uop_rank(x), n = uop_rank(skip);
    if (rank < 2) return fail_node(g, c, TG_BAD_MODEL, c->node->in[0], "has rank %u; wanted 2 or more", rank), false;
    if (n < 2 || n > rank)
        return fail_node(g, c, TG_BAD_MODEL, c->node->in[MsSkipLayerNormalization_skip], "has rank %u; wanted %u", n,
                         rank),
               false;
    for (uint32_t k = 0; k < n; k++)
        dim[k] = k + 2 < n && uop_is_int_const(uop_dim(skip, k), 1) ? NULL : uop_dim(x, rank - n + k);
    for (uint32_t k = 2; k < 5; k++)
        if (!shape_ok(g, c, k, &x->shape->dim[rank - 1], 1)) return false;
    return shape_ok(g, c, MsSkipLayerNormalization_skip, dim, n);
}

U op_skip_layer_normalization(Graph *g, const Ctx *c)
{
    if (!skip_shapes_ok(g, c)) return NULL;
    U x = add(g, wide(g, c->in[0]), wide(g, c->in[MsSkipLayerNormalization_skip])), more[3], like = c->in[0];
    if (c->in[MsSkipLayerNormalization_bias]) x = add(g, x, wide(g, c->in[MsSkipLayerNormalization_bias]));
    if (!ok(g)) return NULL;
    U y = narrow(
        g, layer_norm(g, c, x, c->in[MsSkipLayerNormalization_gamma], c->in[MsSkipLayerNormalization_beta], true, more),
        like);
    return outputs(g, c, (U[]){ y, more[0], more[1], narrow(g, x, like) }, 4);
}

U op_skip_rms_normalization(Graph *g, const Ctx *c)
{
    if (!skip_shapes_ok(g, c)) return NULL;
    U x = add(g, wide(g, c->in[0]), wide(g, c->in[MsSkipSimplifiedLayerNormalization_skip])), more[3], like = c->in[0];
    if (c->in[MsSkipSimplifiedLayerNormalization_bias])
        x = add(g, x, wide(g, c->in[MsSkipSimplifiedLayerNormalization_bias]));
    if (!ok(g)) return NULL;
    U y = narrow(g, layer_norm(g, c, x, c->in[MsSkipSimplifiedLayerNormalization_gamma], NULL, false, more), like);
    return outputs(g, c, (U[]){ y, NULL, more[1], narrow(g, x, like) }, 4);
}

/* Rows of table i, or a scale or shift i, as floats. quantised: its scale is input i + 6, its zero point input i + 11.
 */
static U embedded(Graph *g, const Ctx *c, uint32_t i, U ids, bool quantised)
{
    U x = ids ? rows_at(g, c->in[i], ids) : c->in[i];
    return is_error(x) ? x : quantised ? dequantised(g, x, c->in[i + 6], c->in[i + 11]) : wide(g, x);
}

/* EmbedLayerNormalization: word + position + segment rows, normalised. Second output: how many entries of each mask row
 * are on. positions: an input that may say them, or NULL. like: of the type of the result. */
static U embed(Graph *g, const Ctx *c, U positions, U like, bool quantised)
{
    U ids = c->in[0], more[3];
    if (uop_rank(ids) != 2) return fail_node(g, c, TG_BAD_MODEL, c->node->in[0], "wanted [batch, rows]");
    U batch = uop_dim(ids, 0), at = positions ? positions : iota(g, uop_dim(ids, 1), DT_I64);
    if (!c->in[MsEmbedLayerNormalization_segment_ids] != !c->in[MsEmbedLayerNormalization_segment_embedding])
        return fail_node(g, c, TG_BAD_MODEL, "segment_ids", "must come together with segment_embedding");
    U size = uop_rank(c->in[MsEmbedLayerNormalization_word_embedding]) == 2
        ? uop_dim(c->in[MsEmbedLayerNormalization_word_embedding], 1)
        : NULL;
    const U each[] = { batch, uop_dim(ids, 1) }, column[] = { NULL, size };
    if (!shape_ok(g, c, MsEmbedLayerNormalization_word_embedding, column, 2) ||
        !shape_ok(g, c, MsEmbedLayerNormalization_position_embedding, column, 2) ||
        !shape_ok(g, c, MsEmbedLayerNormalization_segment_embedding, column, 2) ||
        !shape_ok(g, c, MsEmbedLayerNormalization_gamma, &size, 1) ||
        !shape_ok(g, c, MsEmbedLayerNormalization_beta, &size, 1))
        return NULL;
    if (!shape_ok(g, c, MsEmbedLayerNormalization_segment_ids, each, 2) ||
        !shape_ok(g, c, MsEmbedLayerNormalization_mask, each, 2) ||
        (positions && !spreads_ok(g, c, MsEmbedLayerNormalization_position_ids, each, 2)))
        return NULL;
    U x = add(g, embedded(g, c, 2, ids, quantised), embedded(g, c, 3, at, quantised));
    if (c->in[MsEmbedLayerNormalization_segment_ids])
        x = add(g, x, embedded(g, c, 4, c->in[MsEmbedLayerNormalization_segment_ids], quantised));
    if (!ok(g)) return NULL;
    U y = narrow(
        g, layer_norm(g, c, x, embedded(g, c, 5, NULL, quantised), embedded(g, c, 6, NULL, quantised), true, more),
        like);
    U count = c->in[MsEmbedLayerNormalization_mask]
        ? sum(g,
              cast(g,
                   eq(g, c->in[MsEmbedLayerNormalization_mask],
                      uop_int(g, type_of(c->in[MsEmbedLayerNormalization_mask]), 1)),
                   DT_I32),
              1, false)
        : expand(g, scalar(g, DT_I32, 0), &batch, 1);
    return outputs(g, c, (U[]){ y, count, narrow(g, x, like) }, 3);
}

U op_embed_layer_normalization(Graph *g, const Ctx *c)
{
    return embed(g, c, c->in[MsEmbedLayerNormalization_position_ids], c->in[MsEmbedLayerNormalization_word_embedding],
                 false);
}

/** QEmbedLayerNormalization: of quantised tables; behind the mask come their five scales and five zero points. */
U op_q_embed_layer_normalization(Graph *g, const Ctx *c)
{
    if (c->in[MsQEmbedLayerNormalization_segment_embedding] &&
        !c->in[MsQEmbedLayerNormalization_segment_embedding_scale])
        return fail_node(g, c, TG_BAD_MODEL, "segment_embedding_scale", "is missing");
    return embed(g, c, NULL, c->in[MsQEmbedLayerNormalization_gamma_scale], true);
}

/* x plus a bias of its last size, if there is one. */
static U with_bias(Graph *g, const Ctx *c)
{
    U x = wide(g, c->in[0]);
    if (!c->in[MsFastGelu_bias] || !uop_rank(x)) return x;
    return shape_ok(g, c, MsFastGelu_bias, &x->shape->dim[uop_rank(x) - 1], 1)
        ? add(g, x, wide(g, c->in[MsFastGelu_bias]))
        : UOP0(g, UOP_ERROR, DT_VOID, NO_ARG);
}

U op_gelu_ms(Graph *g, const Ctx *c)        /* Gelu, BiasGelu */
{
    U x = with_bias(g, c);
    return narrow(g, mul(g, mul(g, K(0.5), x), add(g, K(1), erf_(g, mul(g, x, K(M_SQRT1_2))))), c->in[0]);
}

U op_fast_gelu(Graph *g, const Ctx *c) { return narrow(g, gelu_tanh(g, with_bias(g, c)), c->in[0]); }

/* com.microsoft GemmFastGelu: of a product and a bias. */
U op_gemm_fast_gelu(Graph *g, const Ctx *c)
{
    U x = matmul(g, wide(g, c->in[0]), wide(g, c->in[MsGemmFastGelu_W]));
    if (is_error(x) || !shape_ok(g, c, MsGemmFastGelu_bias, &x->shape->dim[uop_rank(x) ? uop_rank(x) - 1 : 0], 1))
        return NULL;
    return narrow(g, gelu_tanh(g, c->in[MsGemmFastGelu_bias] ? add(g, x, wide(g, c->in[MsGemmFastGelu_bias])) : x),
                  c->in[0]);
}

U op_quick_gelu(Graph *g, const Ctx *c)
{
    U x = wide(g, c->in[0]);
    return narrow(g, mul(g, x, sigmoid(g, mul(g, K(attr_float(g, c, "alpha", 1.702)), x))), c->in[0]);
}

/* An operand of FusedMatMul: its first axis put behind the other batch axes, the last two exchanged, where attributes
 * say so. */
static U turned(Graph *g, const Ctx *c, U x, const char *batch, const char *last)
{
    int64_t order[TG_MAX_RANK];
    uint32_t r = uop_rank(x);
    bool first = attr_bool(g, c, batch, false), two = attr_bool(g, c, last, false);
    for (uint32_t k = 0; k < r; k++) order[k] = !first || r < 3 || k == r - 1 ? k : k == r - 2 ? 0 : k + 1;
    x = permute(g, x, order, r);
    return two && r > 1 ? transpose(g, x) : x;
}

/* com.microsoft FusedMatMul: alpha * A' B'. */
U op_fused_mat_mul(Graph *g, const Ctx *c)
{
    U x = turned(g, c, wide(g, c->in[0]), "transBatchA", "transA"),
      y = matmul(g, x, turned(g, c, wide(g, c->in[MsFusedMatMul_B]), "transBatchB", "transB"));
    return y->op == UOP_ERROR ? y : narrow(g, mul(g, y, K(attr_float(g, c, "alpha", 1))), c->in[0]);
}
