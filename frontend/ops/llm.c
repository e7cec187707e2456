/* com.microsoft operators of language models: weights of few bits, grouped attention on a cache of keys and values. In:
 * as onnxruntime's model builder writes them. Out: the same values as plain products and masks. To add one: a function
 * here and a row in ops.def.
 */
#include "frontend/ops/attention.h"

#include <math.h>

#include "frontend/import/import.h"
#include "frontend/input_names.h"
#include "frontend/ops/quant.h"
#include "graph/custom.h"
#include "graph/guard.h"

/* ---- MatMulNBits ---- */

/* Bytes [..] as the numbers in each, [.., 8 / bits], the lowest bits first. */
static U parts_of(Graph *g, U x, int64_t bits)
{
    U dim[TG_MAX_RANK + 1];
    uint32_t r = uop_rank(x);
    if (x->op == UOP_ERROR) return x;
    U parts = uop_index(g, 8 / bits), shift = mul(g, iota(g, parts, DT_U8), uop_int(g, DT_U8, bits));
    for (uint32_t k = 0; k < r; k++) dim[k] = uop_dim(x, k);
    dim[r] = parts;
    return and_(
        g, UOP(g, UOP_SHR, DT_VOID, NO_ARG, expand(g, unsqueeze(g, x, -1), dim, r + 1), expand(g, shift, dim, r + 1)),
        uop_int(g, DT_U8, (1 << bits) - 1));
}

U unpack_bits(Graph *g, U x, int64_t bits)
{
    U dim[TG_MAX_RANK + 1];
    uint32_t r = uop_rank(x);
    if (x->op == UOP_ERROR || bits == 8) return x;
    for (uint32_t k = 0; k < r; k++) dim[k] = uop_dim(x, k);
    dim[r - 1] = dim_mul(g, dim[r - 1], uop_index(g, 8 / bits));
    return reshape(g, parts_of(g, x, bits), dim, r);
}

/* x [n, blocks] as [n, k]: of each column that of its group, which is its block unless numbers [k] say otherwise. */
static U by_column(Graph *g, U x, U group, int64_t block, int64_t k)
{
    if (x->op == UOP_ERROR || group) return x->op == UOP_ERROR ? x : gather(g, x, group, 1);
    U each = expand(g, unsqueeze(g, x, -1), (U[]){ uop_dim(x, 0), uop_dim(x, 1), uop_index(g, block) }, 3);
    return slice_i(g, reshape_i(g, each, (int64_t[]){ uop_size(x, 0), uop_size(x, 1) * block }, 2), 1, 0, k);
}

/* x [.., k] in blocks, [.., blocks, bytes, parts], each rounded to signed bytes of its largest magnitude. */
static U in_bytes(Graph *g, U x, int64_t blocks, int64_t bytes, int64_t parts)
{
    U dim[TG_MAX_RANK + 2], zero = scalar(g, DT_F32, 0);
    uint32_t r = uop_rank(x);
    for (uint32_t k = 0; k + 1 < r; k++) dim[k] = uop_dim(x, k);
    dim[r - 1] = uop_index(g, blocks), dim[r] = uop_index(g, bytes), dim[r + 1] = uop_index(g, parts);
    x = reshape(g, x, dim, r + 2);
    U most = reduce(g, UOP_MAX, abs_(g, x), (int64_t[]){ r, r + 1 }, 2, true),
      scale = mul(g, most, uop_float(g, DT_F32, 1 / 127.0)),
      inverse = where(g, lt(g, zero, most), div_(g, scalar(g, DT_F32, 127), most), zero);
    return mul(g, cast(g, cast(g, round_even(g, mul(g, x, inverse)), DT_I8), DT_F32), scale);
}

/* x W' of blocks of bytes, q [n, blocks, block / parts, parts] in i8, as accuracy_level 4 allows (int8, "quantized with
 * the same block_size"): a device that multiplies bytes sums each block in integers. Every device rounds x alike, so
 * that they agree. The parts of a byte of W are an axis, so that where W is read narrow its bytes lie side by side. */
static U matmul_bytes(Graph *g, U x, U q, U scale)
{
    int64_t n = uop_size(q, 0), blocks = uop_size(q, 1), bytes = uop_size(q, 2), parts = uop_size(q, 3);
    U w = mul(g, cast(g, q, DT_F32), reshape_i(g, scale, (int64_t[]){ n, blocks, 1, 1 }, 4)),
      a = in_bytes(g, x, blocks, bytes, parts);
    if (a->op == UOP_ERROR) return a;
    uint32_t r = uop_rank(a);
    return reduce(g, UOP_ADD, mul(g, unsqueeze(g, a, r - 3), w), (int64_t[]){ r - 2, r - 1, r }, 3, false);
}

/* x W' in floats, q [n, blocks, block] as stored; zero: [n, blocks], or one number. group: as by_column's. */
static U matmul_floats(Graph *g, U x, U q, U zero, U scale, U group, int64_t k)
{
    int64_t n = uop_size(q, 0), blocks = uop_size(q, 1), block = uop_size(q, 2);
    DType t = type_of(x);
    U z = cast(g, uop_rank(zero) ? by_column(g, zero, group, block, k) : zero, t),
      s = by_column(g, reshape_i(g, scale, (int64_t[]){ n, blocks }, 2), group, block, k);
    q = cast(g, slice_i(g, reshape_i(g, q, (int64_t[]){ n, blocks * block }, 2), 1, 0, k), t);
    return matmul(g, x, transpose(g, mul(g, sub(g, q, z), cast(g, s, t))));
}

/* W of a MatMulNBits: n rows of k numbers, in blocks. whole: zero points are integers. */
typedef struct {
    U b, scale, zero, order;
    int64_t n, k, bits, block, blocks, packed;
    bool whole;
} Bits;

static bool check_bits(Graph *g, const Ctx *c, const Bits *w)
{
    int64_t bytes = w->n * w->blocks * w->block * w->bits / 8;
    U failed = NULL;
    if (type_of(w->b) != DT_U8 || fixed_numel(g, w->b) != bytes)
        failed = fail_node(g, c, TG_BAD_MODEL, "B", "has %lld bytes; wanted %lld", (long long)uop_numel(w->b),
                           (long long)bytes);
    else if (fixed_numel(g, w->scale) != w->n * w->blocks)
        failed = fail_node(g, c, TG_BAD_MODEL, "scales", "has %lld values; wanted %lld", (long long)uop_numel(w->scale),
                           (long long)(w->n * w->blocks));
    else if (w->order && (uop_rank(w->order) != 1 || fixed_size(g, w->order, 0) < w->k))
        failed = fail_node(g, c, TG_BAD_MODEL, "g_idx", "has no value for each of %lld", (long long)w->k);
    else if (w->zero && w->whole && fixed_numel(g, w->zero) != w->n * w->packed)
        failed = fail_node(g, c, TG_BAD_MODEL, "zero_points", "has %lld bytes; wanted %lld",
                           (long long)uop_numel(w->zero), (long long)(w->n * w->packed));
    return !failed;
}

/* [n, blocks], or one number. */
static U zero_of(Graph *g, const Bits *w)
{
    if (!w->zero) return uop_int(g, DT_U8, 1 << (w->bits - 1));
    if (!w->whole) return reshape_i(g, wide(g, w->zero), (int64_t[]){ w->n, w->blocks }, 2);
    U bytes = reshape_i(g, w->zero, (int64_t[]){ w->n, w->packed }, 2);
    return slice_i(g, unpack_bits(g, bytes, w->bits), 1, 0, w->blocks);
}

/** MatMulNBits: y = a W' + bias, W [n, k] = (bits - zero point) * scale by blocks of k, or by groups that g_idx names.
 * b [n, blocks, bytes], scales and zero points one a block. */
U op_mat_mul_n_bits(Graph *g, const Ctx *c)
{
    U x = wide(g, c->in[0]), bias = c->in[MsMatMulNBits_bias], y;
    Bits w = { .b = c->in[MsMatMulNBits_B], .scale = wide(g, c->in[MsMatMulNBits_scales]),
               .zero = c->in[MsMatMulNBits_zero_points], .order = c->in[MsMatMulNBits_g_idx],
               .n = attr_int(g, c, "N", 0), .k = attr_int(g, c, "K", 0), .bits = attr_int(g, c, "bits", 4),
               .block = attr_int(g, c, "block_size", 0) };
    if (w.k < 1 || w.n < 1 || w.k > 1 << 28 || w.n > 1 << 28 || w.block < 8 || w.block > 1 << 20)
        return fail_node(g, c, TG_BAD_MODEL, "block_size", "%lld for K %lld, N %lld", (long long)w.block,
                         (long long)w.k, (long long)w.n);
    if (w.bits != 2 && w.bits != 4 && w.bits != 8)
        return fail_node(g, c, TG_UNSUPPORTED, "bits", "%lld; 2, 4 and 8 are covered", (long long)w.bits);
    w.blocks = (w.k + w.block - 1) / w.block, w.packed = (w.blocks * w.bits + 7) / 8;
    w.whole = !w.zero || type_of(w.zero) == DT_U8;
    if (!check_bits(g, c, &w)) return NULL;
    U bytes = reshape_i(g, w.b, (int64_t[]){ w.n, w.blocks, w.block * w.bits / 8 }, 3), z = zero_of(g, &w);
    bool rounds = attr_int(g, c, "accuracy_level", 0) == 4 && !w.order && w.k % w.block == 0 && type_of(x) == DT_F32 &&
        uop_rank(x) + 3 <= TG_MAX_RANK && (!w.zero || (w.whole && w.bits < 8));
    if (rounds) {
        U low = w.zero ? unsqueeze(g, unsqueeze(g, z, -1), -1) : z, q = parts_of(g, bytes, w.bits);
        y = matmul_bytes(g, x, sub(g, cast(g, q, DT_I8), cast(g, low, DT_I8)), w.scale);
    } else {
        U group = w.order ? place_in(g, slice_i(g, w.order, 0, 0, w.k), uop_index(g, w.blocks)) : NULL;
        y = matmul_floats(g, x, unpack_bits(g, bytes, w.bits), z, w.scale, group, w.k);
    }
    return narrow(g, bias ? add(g, y, wide(g, bias)) : y, c->in[0]);
}

/* ---- MatMulBnb4 ---- */

/* What four bits stand for: signed floats of two bits of exponent and one of mantissa, over their largest; quantiles of
 * a normal distribution (Dettmers et al., QLoRA, 2023). */
static const float fp4[16] = { 0,    0.00520833333f,  0.66666667f,  1,  0.33333333f,  0.5f,  0.16666667f,  0.25f,
                               -0.f, -0.00520833333f, -0.66666667f, -1, -0.33333333f, -0.5f, -0.16666667f, -0.25f };
static const float nf4[16] = { -1,
                               -0.6961928009986877f,
                               -0.5250730514526367f,
                               -0.39491748809814453f,
                               -0.28444138169288635f,
                               -0.18477343022823334f,
                               -0.09105003625154495f,
                               0,
                               0.07958029955625534f,
                               0.16093020141124725f,
                               0.24611230194568634f,
                               0.33791524171829224f,
                               0.44070982933044434f,
                               0.5626170039176941f,
                               0.7229568362236023f,
                               1 };

/** MatMulBnb4: y = a W', W [n, k] = table[four bits] * absmax by blocks of its flat elements. b: bytes, the higher half
 * first. */
U op_mat_mul_bnb4(Graph *g, const Ctx *c)
{
    U x = wide(g, c->in[0]), b = c->in[MsMatMulBnb4_B], absmax = wide(g, c->in[MsMatMulBnb4_absmax]),
      four = uop_int(g, DT_U8, 4);
    int64_t k = attr_int(g, c, "K", 0), n = attr_int(g, c, "N", 0), block = attr_int(g, c, "block_size", 0),
            kind = attr_int(g, c, "quant_type", 0);
    if (k < 1 || n < 1 || k > 1 << 28 || n > 1 << 28 || block < 16 || block > 1 << 20 || block & (block - 1))
        return fail_node(g, c, TG_BAD_MODEL, "block_size", "%lld for K %lld, N %lld", (long long)block, (long long)k,
                         (long long)n);
    if (kind != 0 && kind != 1)
        return fail_node(g, c, TG_BAD_MODEL, "quant_type", "is %lld; wanted 0 or 1", (long long)kind);
    int64_t bytes = (n * k + 1) / 2, blocks = (n * k + block - 1) / block, all = n * k, sixteen = 16;
    if (fixed_numel(g, b) != bytes)
        return fail_node(g, c, TG_BAD_MODEL, c->node->in[MsMatMulBnb4_B], "has %lld bytes; wanted %lld",
                         (long long)uop_numel(b), (long long)bytes);
    if (fixed_numel(g, absmax) != blocks)
        return fail_node(g, c, TG_BAD_MODEL, c->node->in[MsMatMulBnb4_absmax], "has %lld values; wanted %lld",
                         (long long)uop_numel(absmax), (long long)blocks);
    b = reshape_i(g, b, &bytes, 1);
    U code = slice_i(g,
                     reshape_i(g, stack(g, (U[]){ shr(g, b, four), and_(g, b, uop_int(g, DT_U8, 15)) }, 2, 1),
                               (int64_t[]){ bytes * 2 }, 1),
                     0, 0, all);
    U table = tensor_const(g, DT_F32, &sixteen, 1, kind ? nf4 : fp4, sizeof nf4, "");
    U w = mul(g, take(g, table, cast(g, code, DT_INDEX), 0),
              cast(g, on_blocks(g, reshape_i(g, absmax, &blocks, 1), code, 0, block), DT_F32));
    w = cast(g, reshape_i(g, w, (int64_t[]){ n, k }, 2), type_of(x));
    return narrow(g, matmul(g, x, attr_bool(g, c, "transB", true) ? transpose(g, w) : w), c->in[0]);
}

/* ---- GatherBlockQuantized ---- */

/* Slices of a table, of zeros where there is none. */
static U slices_at(Graph *g, U x, U idx, U known, int64_t axis)
{
    U y = gather(g, x, where(g, known, idx, uop_int(g, type_of(idx), 0)), axis);
    for (uint32_t k = (uint32_t)axis + 1; k < uop_rank(x); k++) known = unsqueeze(g, known, -1);
    return is_error(y) ? y : where(g, known, y, scalar(g, type_of(y), 0));
}

/** GatherBlockQuantized: slices of a table along gather_axis, (value - zero point) * scale by blocks of quantize_axis;
 * a slice that is not there is 0. The table: of 4-bit integers, of floats of 8 or 4 bits, or of bytes that hold 8 /
 * bits numbers each along the last axis, less half their range where no zero points are given. Slices are gathered
 * first, so that no table of floats is made. */
U op_gather_block_quantized(Graph *g, const Ctx *c)
{
    U x = special_part(c->in[0], 0), idx = c->in[MsGatherBlockQuantized_indices],
      scale = c->in[MsGatherBlockQuantized_scales],
      zero =
          c->in[MsGatherBlockQuantized_zero_points] ? special_part(c->in[MsGatherBlockQuantized_zero_points], 0) : NULL;
    int64_t rank = uop_rank(x), from, along, block = attr_int(g, c, "block_size", 128),
            bits = attr_int(g, c, "bits", 4), type = special_kind(c->in[0]);
    bool packed = !type, real = type && narrow_is_float((int32_t)type);
    if (!axis_ok(g, c, "gather_axis", attr_int(g, c, "gather_axis", 0), rank, &from) ||
        !axis_ok(g, c, "quantize_axis", attr_int(g, c, "quantize_axis", 1), rank, &along))
        return NULL;
    if (from == along)
        return fail_node(g, c, TG_UNSUPPORTED, "quantize_axis", "is %lld, as is gather_axis", (long long)along);
    if ((block || !real) && (block < 16 || block > 1 << 20 || block & (block - 1)))
        return fail_node(g, c, TG_BAD_MODEL, "block_size", "is %lld; wanted a power of 2 from 16 on", (long long)block);
    if (packed && bits != 2 && bits != 4 && bits != 8)
        return fail_node(g, c, TG_BAD_MODEL, "bits", "is %lld; wanted 2, 4 or 8", (long long)bits);
    if (packed && along != rank - 1)
        return fail_node(g, c, TG_BAD_MODEL, "quantize_axis", "is %lld; wanted the last one of packed numbers",
                         (long long)along);
    if (real && zero)
        return fail_node(g, c, TG_BAD_MODEL, c->node->in[MsGatherBlockQuantized_zero_points], "is given for floats");
    if (uop_rank(scale) != rank || (zero && uop_rank(zero) != rank))
        return fail_node(g, c, TG_BAD_MODEL, c->node->in[MsGatherBlockQuantized_scales],
                         "is not of rank %lld, or the zero points are not", (long long)rank);
    U size = cast(g, uop_dim(x, (uint32_t)from), type_of(idx)),
      known = and_(g, lt(g, idx, size), ge(g, idx, neg(g, size)));
    /* of all slices */
    bool one = uop_is_int_const(uop_dim(scale, (uint32_t)from), 1) && !uop_is_int_const(uop_dim(x, (uint32_t)from), 1);
    U unit = uop_int(g, type_of(idx), 0);
    x = slices_at(g, x, idx, known, from),
    scale = wide(g, slices_at(g, scale, one ? expand_like(g, unit, idx) : idx, known, from)),
    zero = zero ? slices_at(g, zero, idx, known, from) : NULL;
    if (!ok(g)) return NULL;
    if (along > from) along += (int64_t)uop_rank(idx) - 1;
    if (packed)
        x = unpack_bits(g, x, bits), zero = zero ? unpack_bits(g, zero, bits) : uop_int(g, DT_U8, 1 << (bits - 1));
    int64_t n = fixed_size(g, x, (uint32_t)along), blocks = block ? (n + block - 1) / block : 1;
    if (fixed_size(g, scale, (uint32_t)along) != blocks)
        return fail_node(g, c, TG_BAD_MODEL, c->node->in[MsGatherBlockQuantized_scales],
                         "has size %lld; wanted %lld blocks", (long long)uop_size(scale, (uint32_t)along),
                         (long long)blocks);
    if (zero && uop_rank(zero)) zero = on_blocks(g, slice_i(g, zero, along, 0, blocks), x, along, block);
    U y = cast(g, real ? narrow_decode(g, narrow_wrap(g, x, (int32_t)type)) : centred(g, x, zero), type_of(scale));
    return narrow(g, mul(g, y, block ? on_blocks(g, scale, x, along, block) : scale),
                  c->in[MsGatherBlockQuantized_scales]);
}

/* ---- GroupQueryAttention ---- */

/* One head size from a hidden size shared by queries and, when packed, keys and values. */
typedef struct {
    U q, k, v;
    int64_t heads, groups;
} Projections;

static bool read_projections(Graph *g, const Ctx *c, Projections *p)
{
    U q = c->in[0], k = c->in[MsGroupQueryAttention_key], v = c->in[MsGroupQueryAttention_value];
    p->heads = attr_int(g, c, "num_heads", 0), p->groups = attr_int(g, c, "kv_num_heads", 0);
    if (p->heads < 1 || p->groups < 1 || p->heads % p->groups)
        return fail_node(g, c, TG_BAD_MODEL, "kv_num_heads", "%lld for %lld heads", (long long)p->groups,
                         (long long)p->heads),
               false;
    if (uop_rank(q) != 3 || !uop_is_const(uop_dim(q, 2)))
        return fail_node(g, c, TG_BAD_MODEL, "query", "wanted [batch, rows, hidden]"), false;
    if (!k != !v) return fail_node(g, c, TG_BAD_MODEL, k ? "value" : "key", "is missing"), false;
    if (!k) {
        int64_t size = fixed_size(g, q, 2) / (p->heads + 2 * p->groups), at = p->heads * size, step = p->groups * size;
        if (size * (p->heads + 2 * p->groups) != fixed_size(g, q, 2))
            return fail_node(g, c, TG_BAD_MODEL, "query", "has a hidden size of %lld, which does not fit the heads",
                             (long long)uop_size(q, 2)),
                   false;
        k = slice_i(g, q, 2, at, at + step), v = slice_i(g, q, 2, at + step, at + 2 * step),
        q = slice_i(g, q, 2, 0, at);
    }
    p->q = split_heads(g, c, q, p->heads), p->k = split_heads(g, c, k, p->groups),
    p->v = split_heads(g, c, v, p->groups);
    if (!ok(g)) return false;
    const U kept[] = { uop_dim(p->q, 0), NULL, uop_dim(p->q, 2), uop_dim(p->q, 3) };
    for (int i = 0; i < 4; i++)
        if (kept[i] &&
            (!same_size(g, kept[i], uop_dim(p->k, (uint32_t)i)) || !same_size(g, kept[i], uop_dim(p->v, (uint32_t)i))))
            return fail_node(g, c, TG_BAD_MODEL, "key", "does not fit the queries, or value does not"), false;
    return true;
}

/* x [batch, heads, rows, size] turned by its positions [batch, rows]. */
static U turn(Graph *g, const Ctx *c, U x, U at)
{
    U cosine = unsqueeze(g, rows_at(g, wide(g, c->in[MsGroupQueryAttention_cos_cache]), at), 2),
      sine = unsqueeze(g, rows_at(g, wide(g, c->in[MsGroupQueryAttention_sin_cache]), at), 2);
    int64_t size = 2 * fixed_size(g, c->in[MsGroupQueryAttention_cos_cache], 1);
    const int64_t order[] = { 0, 2, 1, 3 };
    return permute(g,
                   rotate(g, permute(g, x, order, 4), cosine, sine, size, attr_bool(g, c, "rotary_interleaved", false)),
                   order, 4);
}

/* x [.., size] over the root of its mean square, times input i, of that size; x where there is none. */
static U head_norm(Graph *g, const Ctx *c, U x, uint32_t i)
{
    U v = wide(g, x);
    if (!c->in[i]) return x;
    if (!shape_ok(g, c, i, &x->shape->dim[3], 1)) return UOP0(g, UOP_ERROR, DT_VOID, NO_ARG);
    U square = mean(g, mul(g, v, v), (int64_t[]){ -1 }, 1, true),
      inverse = recip(g, sqrt_(g, add(g, square, scalar(g, type_of(v), attr_float(g, c, "qk_norm_epsilon", 1e-6)))));
    return narrow(g, mul(g, mul(g, v, inverse), wide(g, c->in[i])), x);
}

/* Rows of present: those of past and the new ones, which total_sequence_length must be then; or, where that is known to
 * lie within past, those of past, which is a buffer for more than there are yet. */
static U present_rows(Graph *g, const Ctx *c, U past, U rows)
{
    U all = past ? dim_add(g, uop_dim(past, 2), rows) : rows,
      given = c->in[MsGroupQueryAttention_total_sequence_length];
    const UOp *v[1];
    int64_t now;
    if (!past || !uop_is_const(uop_dim(past, 2)) || !uop_static(given) || uop_numel(given) != 1) return all;
    U room = uop_dim(past, 2);
    if (!values_of(g, given, v, 1))
        return import_at_hand(c->im, given, &now) && now <= room->arg.i
            ? fail_data(g, c, MsGroupQueryAttention_total_sequence_length)
            : all;
    U total = v[0];
    while (total->op == UOP_CAST && dtype_is_int(type_of(total))) total = total->src[0];
    if (uop_is_const(total)) return uop_const_int(total) <= room->arg.i ? room : all;
    if (type_of(total) != DT_INDEX || size_from_data(g, total) || !uop_is_const(rows)) return all;
    /* it varies, and what it must be otherwise does not */
    graph_need(g, dim_sub(g, room, total));
    return room;
}

/* The cache of so many rows with the new ones behind the `before` [batch, 1, 1, 1] that each sample has: [batch,
 * groups, all, size]. Behind those: what a buffer has there, whose owner may have it changed in place, else zeros.
 * *used: with zeros there, which may be anything in a buffer. */
static U extend_cache(Graph *g, U past, U fresh, U before, U all, U *used)
{
    if (!past) return *used = fresh;
    const int64_t rows_first[] = { 0, 2, 1, 3 };
    U joined = cat(g, (U[]){ past, fresh }, 2, 2), one = uop_index(g, 1);
    if (joined->op == UOP_ERROR) return joined;
    U j = unsqueeze(g, iota(g, all, DT_I64), 1), room = cast(g, uop_dim(past, 2), DT_I64),
      on = lt(g, j, add(g, before, cast(g, uop_dim(fresh, 2), DT_I64)));
    bool buffer = all == uop_dim(past, 2);
    U from = where(g, lt(g, j, before), j,
                   where(g, on, add(g, sub(g, j, before), room), buffer ? j : uop_int(g, DT_I64, 0)));
    U dim[] = { uop_dim(joined, 0), one, all, one }, places[] = { dim[0], all, one };
    U rows = gather_nd(g, permute(g, joined, rows_first, 4), reshape(g, expand(g, from, dim, 4), places, 3), 1);
    rows = permute(g, rows, rows_first, 4);
    *used = where(g, on, rows, scalar(g, type_of(joined), 0));
    return buffer ? rows : *used;
}

/* seqlens_k as [batch, 1, 1, 1]: each below `total`. exact: that is what total_sequence_length must be. */
static U last_positions(Graph *g, const Ctx *c, U q, U total, bool exact)
{
    U one = uop_index(g, 1), given = known_scalar(g, c->in[MsGroupQueryAttention_total_sequence_length]);
    if (fixed_numel(g, c->in[MsGroupQueryAttention_total_sequence_length]) != 1)
        return fail_node(g, c, TG_BAD_MODEL, c->node->in[MsGroupQueryAttention_total_sequence_length],
                         "has %lld values; wanted 1",
                         (long long)uop_numel(c->in[MsGroupQueryAttention_total_sequence_length]));
    if (!same_size(g,
                   dim_product(g, c->in[MsGroupQueryAttention_seqlens_k]->shape->dim,
                               uop_rank(c->in[MsGroupQueryAttention_seqlens_k])),
                   uop_dim(q, 0)))
        return fail_node(g, c, TG_BAD_MODEL, c->node->in[MsGroupQueryAttention_seqlens_k], "wanted a value a batch");
    if (exact && given && !same_size(g, uop_index(g, uop_const_int(given)), total) && uop_is_const(total))
        return fail_node(g, c, TG_BAD_MODEL, c->node->in[MsGroupQueryAttention_total_sequence_length],
                         "is %lld; there are %lld rows", (long long)uop_const_int(given), (long long)total->arg.i);
    U last = input_place(g, c, MsGroupQueryAttention_seqlens_k, total);
    if (ok(g) && exact && !given)
        last = input_place(
            g, c, MsGroupQueryAttention_seqlens_k,
            guard_size(g, GUARD_SIZE,
                       cast(g, reshape(g, c->in[MsGroupQueryAttention_total_sequence_length], NULL, 0), DT_INDEX),
                       total));
    return ok(g) ? reshape(g, last, (U[]){ uop_dim(q, 0), one, one, one }, 4) : NULL;
}

/** GroupQueryAttention: seqlens_k [batch] is the last position that counts; rows are the last ones of each sample. Out:
 * rows, keys, values with the new ones. */
U op_group_query_attention(Graph *g, const Ctx *c)
{
    Projections p;
    U past_k = c->in[MsGroupQueryAttention_past_key], past_v = c->in[MsGroupQueryAttention_past_value], stages[4],
      one = uop_int(g, DT_I64, 1);
    int64_t left = attr_int(g, c, "local_window_size", -1);
    int64_t scores = attr_int(g, c, "qk_output", 0);
    bool causal = attr_bool(g, c, "causal", true);
    if ((left < 1 || !causal) && left != -1)
        return fail_node(g, c, TG_BAD_MODEL, "local_window_size", "is %lld; wanted -1, or 1 or more", (long long)left);
    if (scores < 0 || scores > 2)
        return fail_node(g, c, TG_BAD_MODEL, "qk_output", "is %lld; wanted 0 to 2", (long long)scores);
    if (c->in[MsGroupQueryAttention_k_scale] || c->in[MsGroupQueryAttention_v_scale] ||
        attr_bool(g, c, "sliding_window_cache", false))
        return fail_node(g, c, TG_UNSUPPORTED, "k_scale", "is not covered, nor are caches of windows");
    if (!read_projections(g, c, &p)) return NULL;
    p.q = head_norm(g, c, p.q, 14), p.k = head_norm(g, c, p.k, 15);
    if (!ok(g)) return NULL;
    if (!c->in[MsGroupQueryAttention_seqlens_k]) return fail_node(g, c, TG_BAD_MODEL, "seqlens_k", "is missing");
    if (!past_k != !past_v) return fail_node(g, c, TG_BAD_MODEL, "past_key", "must come together with past_value");
    if (!past_ok(g, c, MsGroupQueryAttention_past_key, p.k) || !past_ok(g, c, MsGroupQueryAttention_past_value, p.v) ||
        (past_k && !same_rows(g, c, 3, 4)))
        return NULL;
    if (past_k && uop_is_int_const(uop_dim(past_k, 2), 0)) past_k = past_v = NULL;
    U rows = uop_dim(p.q, 2), before = uop_int(g, DT_I64, 0), all = present_rows(g, c, past_k, rows);
    if (!ok(g)) return NULL;
    U last = last_positions(g, c, p.q, all, !past_k || all != uop_dim(past_k, 2));
    if (!last) return NULL;
    /* as many rows as there are altogether: a prompt, whose shorter samples have their padding behind them */
    bool prompt = !past_k || all == uop_dim(past_k, 2);
    if (past_k) {
        U total = cast(g, reshape(g, c->in[MsGroupQueryAttention_total_sequence_length], NULL, 0), DT_I64),
          behind = sub(g, add(g, last, one), cast(g, rows, DT_I64));
        if (prompt) behind = where(g, eq(g, total, cast(g, rows, DT_I64)), uop_int(g, DT_I64, 0), behind);
        before = place_in(g, behind, dim_add(g, uop_dim(past_k, 2), uop_index(g, 1)));
    }
    if (attr_bool(g, c, "do_rotary", false)) {
        if (!c->in[MsGroupQueryAttention_cos_cache] || !c->in[MsGroupQueryAttention_sin_cache] ||
            uop_rank(c->in[MsGroupQueryAttention_cos_cache]) != 2)
            return fail_node(g, c, TG_BAD_MODEL, "cos_cache", "is missing");
        if (!shape_ok(g, c, MsGroupQueryAttention_sin_cache, c->in[MsGroupQueryAttention_cos_cache]->shape->dim, 2) ||
            !shape_ok(g, c, MsGroupQueryAttention_position_ids, (U[]){ uop_dim(p.q, 0), rows }, 2))
            return NULL;
        U at = c->in[MsGroupQueryAttention_position_ids]
            ? c->in[MsGroupQueryAttention_position_ids]
            : add(g, past_k ? squeeze(g, squeeze(g, before, 3), 2) : before, iota(g, rows, DT_I64));
        at = expand(g, at, (U[]){ uop_dim(p.q, 0), rows }, 2);
        p.q = narrow(g, turn(g, c, wide(g, p.q), at), c->in[0]),
        p.k = narrow(g, turn(g, c, wide(g, p.k), at), c->in[0]);
    }
    U k, v, present_k = extend_cache(g, past_k, p.k, before, all, &k),
            present_v = extend_cache(g, past_v, p.v, before, all, &v);
    if (!ok(g) || !bias_ok(g, c, 10, p.q, uop_dim(k, 2))) return NULL;
    double scale = attr_float(g, c, "scale", 0);
    Attend a = { .scale = scale != 0 ? scale : 1 / sqrt((double)fixed_size(g, p.q, 3)),
                 .softcap = cap_of(g, c),
                 .bias = wide(g, c->in[MsGroupQueryAttention_attention_bias]) };
    const int64_t by_head[] = { p.heads, 1, 1 }, smooth = attr_int(g, c, "smooth_softmax", -1);
    if (smooth < -1 || smooth > 1)
        return fail_node(g, c, TG_BAD_MODEL, "smooth_softmax", "is %lld; wanted 0 or 1", (long long)smooth);
    if (!shape_ok(g, c, MsGroupQueryAttention_head_sink, (U[]){ uop_index(g, p.heads) }, 1)) return NULL;
    if (c->in[MsGroupQueryAttention_head_sink])
        a.sink = reshape_i(g, wide(g, c->in[MsGroupQueryAttention_head_sink]), by_head, 3);
    else if (smooth == 1) a.sink = scalar(g, DT_F32, 0);
    a.allowed = causal ? window_mask(g, rows, uop_dim(k, 2), before, left > 0 ? left - 1 : -1, 0)
                       : le(g, iota(g, uop_dim(k, 2), DT_I64), last);
    /* rows behind the last position are padding */
    if (causal && prompt) a.allowed = and_(g, a.allowed, le(g, iota(g, uop_dim(k, 2), DT_I64), last));
    U y = narrow(g, join_heads(g, attend(g, wide(g, p.q), wide(g, k), wide(g, v), &a, stages)), c->in[0]);
    U before_softmax = where(g, a.allowed, stages[2], scalar(g, type_of(stages[2]), 0));
    U products = scores ? narrow(g, scores == 1 ? before_softmax : stages[3], c->in[0]) : NULL;
    return outputs(g, c, (U[]){ y, present_k, present_v, products }, 4);
}
