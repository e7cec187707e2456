/* com.microsoft operators of language models: weights of few bits, grouped attention on a cache of keys and values. In: as onnxruntime's model builder writes
 * them. Out: the same values as plain products and masks. To add one: a function here and a row in ops.def.
 */
#include "frontend/attention.h"

#include <math.h>

#include "graph/guard.h"

/* ---- MatMulNBits ---- */

/* Bytes [.., n] as n * 8 / bits numbers of few bits each, the lowest bits first. */
static U unpack_bits(Graph *g, U x, int64_t bits)
{
    U dim[TG_MAX_RANK + 1];
    uint32_t r = uop_rank(x);
    if (x->op == UOP_ERROR || bits == 8) return x;
    U parts = uop_index(g, 8 / bits), shift = mul(g, iota(g, parts, DT_U8), uop_int(g, DT_U8, bits));
    for (uint32_t k = 0; k < r; k++) dim[k] = uop_dim(x, k);
    dim[r] = parts;
    U y = and_(g, UOP(g, UOP_SHR, DT_VOID, NO_ARG, expand(g, unsqueeze(g, x, -1), dim, r + 1), expand(g, shift, dim, r + 1)), uop_int(g, DT_U8, (1 << bits) - 1));
    dim[r - 1] = dim_mul(g, dim[r - 1], parts);
    return reshape(g, y, dim, r);
}

/* x [n, blocks] as [n, k]: of each column that of its group, which is its block unless numbers [k] say otherwise. */
static U by_column(Graph *g, U x, U group, int64_t block, int64_t k)
{
    if (x->op == UOP_ERROR || group) return x->op == UOP_ERROR ? x : gather(g, x, group, 1);
    U each = expand(g, unsqueeze(g, x, -1), (U[]){ uop_dim(x, 0), uop_dim(x, 1), uop_index(g, block) }, 3);
    return slice_i(g, reshape_i(g, each, (int64_t[]){ uop_size(x, 0), uop_size(x, 1) * block }, 2), 1, 0, k);
}

/** MatMulNBits: y = a W' + bias, W [n, k] = (bits - zero point) * scale by blocks of k, or by groups that g_idx names. b [n, blocks, bytes], scales and zero points one a block. */
U op_mat_mul_n_bits(Graph *g, const Ctx *c)
{
    U x = wide(g, c->in[0]), b = c->in[1], scale = wide(g, c->in[2]), zero = c->in[3];
    int64_t k = attr_int(g, c, "K", 0), n = attr_int(g, c, "N", 0), bits = attr_int(g, c, "bits", 4), block = attr_int(g, c, "block_size", 0);
    if (k < 1 || n < 1 || k > 1 << 28 || n > 1 << 28 || block < 8 || block > 1 << 20) return fail_node(g, c, TG_BAD_MODEL, "block_size", "%lld for K %lld, N %lld", (long long)block, (long long)k, (long long)n);
    if (bits != 2 && bits != 4 && bits != 8) return fail_node(g, c, TG_UNSUPPORTED, "bits", "%lld; 2, 4 and 8 are covered", (long long)bits);
    int64_t blocks = (k + block - 1) / block, packed = (blocks * bits + 7) / 8, per_byte = 8 / bits;
    if (type_of(b) != DT_U8 || fixed_numel(g, b) != n * blocks * block / per_byte) return fail_node(g, c, TG_BAD_MODEL, "B", "has %lld bytes; wanted %lld", (long long)uop_numel(b), (long long)(n * blocks * block / per_byte));
    if (fixed_numel(g, scale) != n * blocks) return fail_node(g, c, TG_BAD_MODEL, "scales", "has %lld values; wanted %lld", (long long)uop_numel(scale), (long long)(n * blocks));
    if (c->in[4] && (uop_rank(c->in[4]) != 1 || fixed_size(g, c->in[4], 0) < k)) return fail_node(g, c, TG_BAD_MODEL, "g_idx", "has no value for each of %lld", (long long)k);
    U q = cast(g, unpack_bits(g, reshape_i(g, b, (int64_t[]){ n, blocks, block / per_byte }, 3), bits), type_of(x)), z;
    U group = c->in[4] ? place_in(g, slice_i(g, c->in[4], 0, 0, k), uop_index(g, blocks)) : NULL;
    if (!zero) z = scalar(g, type_of(x), 1 << (bits - 1));
    else if (type_of(zero) != DT_U8) z = by_column(g, reshape_i(g, wide(g, zero), (int64_t[]){ n, blocks }, 2), group, block, k);
    else if (fixed_numel(g, zero) != n * packed) return fail_node(g, c, TG_BAD_MODEL, "zero_points", "has %lld bytes; wanted %lld", (long long)uop_numel(zero), (long long)(n * packed));
    else z = by_column(g, cast(g, slice_i(g, unpack_bits(g, reshape_i(g, zero, (int64_t[]){ n, packed }, 2), bits), 1, 0, blocks), type_of(x)), group, block, k);
    q = slice_i(g, reshape_i(g, q, (int64_t[]){ n, blocks * block }, 2), 1, 0, k);
    U w = mul(g, sub(g, q, z), cast(g, by_column(g, reshape_i(g, scale, (int64_t[]){ n, blocks }, 2), group, block, k), type_of(x)));
    U y = matmul(g, x, transpose(g, w));
    return narrow(g, c->in[5] ? add(g, y, wide(g, c->in[5])) : y, c->in[0]);
}

/* ---- GroupQueryAttention ---- */

/* One head size from a hidden size shared by queries and, when packed, keys and values. */
typedef struct { U q, k, v; int64_t heads, groups; } Projections;

static bool read_projections(Graph *g, const Ctx *c, Projections *p)
{
    U q = c->in[0], k = c->in[1], v = c->in[2];
    p->heads = attr_int(g, c, "num_heads", 0), p->groups = attr_int(g, c, "kv_num_heads", 0);
    if (p->heads < 1 || p->groups < 1 || p->heads % p->groups) return fail_node(g, c, TG_BAD_MODEL, "kv_num_heads", "%lld for %lld heads", (long long)p->groups, (long long)p->heads), false;
    if (uop_rank(q) != 3 || !uop_is_const(uop_dim(q, 2))) return fail_node(g, c, TG_BAD_MODEL, "query", "wanted [batch, rows, hidden]"), false;
    if (!k != !v) return fail_node(g, c, TG_BAD_MODEL, k ? "value" : "key", "is missing"), false;
    if (!k) {
        int64_t size = fixed_size(g, q, 2) / (p->heads + 2 * p->groups), at = p->heads * size, step = p->groups * size;
        if (size * (p->heads + 2 * p->groups) != fixed_size(g, q, 2)) return fail_node(g, c, TG_BAD_MODEL, "query", "a hidden size of %lld for these heads", (long long)uop_size(q, 2)), false;
        k = slice_i(g, q, 2, at, at + step), v = slice_i(g, q, 2, at + step, at + 2 * step), q = slice_i(g, q, 2, 0, at);
    }
    p->q = split_heads(g, c, q, p->heads), p->k = split_heads(g, c, k, p->groups), p->v = split_heads(g, c, v, p->groups);
    if (!ok(g)) return false;
    const U kept[] = { uop_dim(p->q, 0), NULL, uop_dim(p->q, 2), uop_dim(p->q, 3) };
    for (int i = 0; i < 4; i++)
        if (kept[i] && (!same_size(g, kept[i], uop_dim(p->k, (uint32_t)i)) || !same_size(g, kept[i], uop_dim(p->v, (uint32_t)i)))) return fail_node(g, c, TG_BAD_MODEL, "key", "or value does not fit the queries"), false;
    return true;
}

/* x [batch, heads, rows, size] turned by its positions [batch, rows]. */
static U turn(Graph *g, const Ctx *c, U x, U at)
{
    U cosine = unsqueeze(g, rows_at(g, wide(g, c->in[7]), at), 2), sine = unsqueeze(g, rows_at(g, wide(g, c->in[8]), at), 2);
    int64_t size = 2 * fixed_size(g, c->in[7], 1);
    const int64_t order[] = { 0, 2, 1, 3 };
    return permute(g, rotate(g, permute(g, x, order, 4), cosine, sine, size, attr_bool(g, c, "rotary_interleaved", false)), order, 4);
}

/* The cache with the new rows behind the `before` [batch, 1, 1, 1] that each sample has: [batch, groups, past + rows, size]. */
static U extend_cache(Graph *g, U past, U fresh, U before)
{
    if (!past) return fresh;
    U joined = cat(g, (U[]){ past, fresh }, 2, 2), dim[4];
    if (joined->op == UOP_ERROR) return joined;
    for (uint32_t k = 0; k < 4; k++) dim[k] = uop_dim(joined, k);
    U j = unsqueeze(g, iota(g, dim[2], DT_I64), 1), room = cast(g, uop_dim(past, 2), DT_I64), last = cast(g, dim_sub(g, dim[2], uop_index(g, 1)), DT_I64);
    U from = where(g, lt(g, j, before), j, add(g, sub(g, j, before), room));                   /* a sample shorter than the cache leaves a gap that closes */
    return gather_elements(g, joined, expand(g, min_(g, from, last), dim, 4), 2);
}

/* seqlens_k as [batch, 1, 1, 1]: each below `total`, which is what total_sequence_length must be. */
static U last_positions(Graph *g, const Ctx *c, U q, U total)
{
    U one = uop_index(g, 1), given = known_scalar(g, c->in[6]);
    if (fixed_numel(g, c->in[6]) != 1) return fail_node(g, c, TG_BAD_MODEL, c->node->in[6], "has %lld values; wanted 1", (long long)uop_numel(c->in[6]));
    if (!same_size(g, dim_product(g, c->in[5]->shape->dim, uop_rank(c->in[5])), uop_dim(q, 0))) return fail_node(g, c, TG_BAD_MODEL, c->node->in[5], "wanted a value a batch");
    if (given && !same_size(g, uop_index(g, uop_const_int(given)), total) && uop_is_const(total))
        return fail_node(g, c, TG_UNSUPPORTED, c->node->in[6], "is %lld of %lld rows: a buffer that past and present share is not covered", (long long)uop_const_int(given), (long long)total->arg.i);
    U last = input_place(g, c, 5, total);
    if (ok(g) && !given) last = input_place(g, c, 5, guard_size(g, GUARD_SIZE, cast(g, reshape(g, c->in[6], NULL, 0), DT_INDEX), total));
    return ok(g) ? reshape(g, last, (U[]){ uop_dim(q, 0), one, one, one }, 4) : NULL;
}

/** GroupQueryAttention: seqlens_k [batch] is the last position that counts; rows are the last ones of each sample. Out: rows, keys, values with the new ones. */
U op_group_query_attention(Graph *g, const Ctx *c)
{
    Projections p;
    U past_k = c->in[3], past_v = c->in[4], stages[4], one = uop_int(g, DT_I64, 1);
    int64_t left = attr_int(g, c, "local_window_size", -1);
    if (left < 1 && left != -1) return fail_node(g, c, TG_BAD_MODEL, "local_window_size", "is %lld; wanted -1, or 1 or more", (long long)left);
    if (!read_projections(g, c, &p)) return NULL;
    if (!c->in[5]) return fail_node(g, c, TG_BAD_MODEL, "seqlens_k", "is missing");
    if (!past_k != !past_v) return fail_node(g, c, TG_BAD_MODEL, "past_key", "and past_value must come together");
    if (!past_ok(g, c, 3, p.k) || !past_ok(g, c, 4, p.v) || (past_k && !same_rows(g, c, 3, 4))) return NULL;
    if (past_k && uop_is_int_const(uop_dim(past_k, 2), 0)) past_k = past_v = NULL;
    U rows = uop_dim(p.q, 2), before = uop_int(g, DT_I64, 0), last = last_positions(g, c, p.q, past_k ? dim_add(g, uop_dim(past_k, 2), rows) : rows);
    if (!last) return NULL;
    if (past_k) before = place_in(g, sub(g, add(g, last, one), cast(g, rows, DT_I64)), dim_add(g, uop_dim(past_k, 2), uop_index(g, 1)));
    if (attr_bool(g, c, "do_rotary", false)) {
        if (!c->in[7] || !c->in[8] || uop_rank(c->in[7]) != 2) return fail_node(g, c, TG_BAD_MODEL, "cos_cache", "is missing");
        if (!shape_ok(g, c, 8, c->in[7]->shape->dim, 2) || !shape_ok(g, c, 9, (U[]){ uop_dim(p.q, 0), rows }, 2)) return NULL;
        U at = c->in[9] ? c->in[9] : add(g, past_k ? squeeze(g, squeeze(g, before, 3), 2) : before, iota(g, rows, DT_I64));
        at = expand(g, at, (U[]){ uop_dim(p.q, 0), rows }, 2);
        p.q = narrow(g, turn(g, c, wide(g, p.q), at), c->in[0]), p.k = narrow(g, turn(g, c, wide(g, p.k), at), c->in[0]);
    }
    U k = extend_cache(g, past_k, p.k, before), v = extend_cache(g, past_v, p.v, before);
    if (!ok(g) || !bias_ok(g, c, 10, p.q, uop_dim(k, 2))) return NULL;
    double scale = attr_float(g, c, "scale", 0);
    Attend a = { .scale = scale != 0 ? scale : 1 / sqrt((double)fixed_size(g, p.q, 3)), .softcap = cap_of(g, c), .bias = wide(g, c->in[10]) };
    const int64_t by_head[] = { p.heads, 1, 1 };
    if (!shape_ok(g, c, 11, (U[]){ uop_index(g, p.heads) }, 1)) return NULL;
    if (c->in[11]) a.sink = reshape_i(g, wide(g, c->in[11]), by_head, 3);
    else if (attr_bool(g, c, "smooth_softmax", false)) a.sink = scalar(g, DT_F32, 0);
    a.allowed = window_mask(g, rows, uop_dim(k, 2), before, left > 0 ? left - 1 : -1, 0);
    if (!past_k) a.allowed = and_(g, a.allowed, le(g, iota(g, rows, DT_I64), last));       /* rows behind the last position are padding */
    U y = narrow(g, join_heads(g, attend(g, wide(g, p.q), wide(g, k), wide(g, v), &a, stages)), c->in[0]);
    return outputs(g, c, (U[]){ y, k, v }, 3);
}
