/* Quantised operators: integers with a scale and a zero point, written as arithmetic on wider types.
 * In: quantised tensors with their parameters a tensor, an axis or a block. Out: the standard's letter: products and
 * sums in i32, rounding to even, saturation at the end. Nothing is fused here: that integers suffice for QDQ chains is
 * the compiler's business. Those of com.microsoft go through f32, as onnxruntime's do.
 */
#include "frontend/import/import.h"
#include "frontend/input_names.h"
#include "frontend/values/narrow.h"
#include "frontend/ops/quant.h"

static U f32(Graph *g, U x) { return x->op == UOP_ERROR || x->dtype == DT_F32 ? x : cast(g, x, DT_F32); }

static U as_scalar(Graph *g, U v) { return uop_rank(v) ? reshape_i(g, v, NULL, 0) : v; }

/* v [C] as [1, .., C, .., 1] beside a tensor of that rank. */
static U on_axis(Graph *g, U v, int64_t axis, uint32_t rank)
{
    U dim[rank + 1];
    for (uint32_t k = 0; k < rank; k++) dim[k] = uop_index(g, 1);
    dim[axis] = uop_dim(v, 0);
    return reshape(g, v, dim, rank);
}

U on_blocks(Graph *g, U v, U x, int64_t axis, int64_t block)
{
    uint32_t rank = uop_rank(x);
    U wide_dim[rank + 1], dim[rank + 1];
    for (uint32_t k = 0; k < rank; k++) wide_dim[k + (k > axis)] = dim[k] = uop_dim(v, k);
    wide_dim[axis + 1] = uop_index(g, block);
    dim[axis] = uop_index(g, uop_size(v, (uint32_t)axis) * block);
    U y = reshape(g, expand(g, unsqueeze(g, v, axis + 1), wide_dim, rank + 1), dim, rank);
    return slice_i(g, y, axis, 0, uop_size(x, (uint32_t)axis));
}

/* A scale or zero point of x so that it broadcasts: one for all, one an index of the axis, or one a block. Where a
 * size depends on data, x and v take each other's. */
static U spread(Graph *g, const Ctx *c, U v, U *x)
{
    int64_t axis = 0, block = attr_int(g, c, "block_size", 0), rank = uop_rank(*x);
    if (uop_rank(v) == 0 || (uop_rank(v) == 1 && uop_size(v, 0) == 1 && !block)) return as_scalar(g, v);
    if (!axis_ok(g, c, "axis", attr_int(g, c, "axis", 1), rank, &axis)) return graph_fail(g, "axis");
    if (!block) {
        if (uop_rank(v) != 1)
            return fail_node(g, c, TG_BAD_MODEL, "block_size", "is needed by a scale of rank %u", uop_rank(v));
        if (!one_size(g, x, axis, &v, 0))
            return fail_node(g, c, TG_BAD_MODEL, "axis", "the scale or zero point does not fit its size");
        return on_axis(g, v, axis, (uint32_t)rank);
    }
    for (uint32_t k = 0; k < rank && uop_rank(v) == rank; k++)
        if (k != axis && !one_size(g, x, k, &v, k))
            return fail_node(g, c, TG_BAD_MODEL, "block_size",
                             "the scale or zero point has size %lld on axis %u of %lld", (long long)uop_size(v, k), k,
                             (long long)uop_size(*x, k));
    U n = uop_dim(*x, (uint32_t)axis), blocks = uop_rank(v) == rank ? uop_dim(v, (uint32_t)axis) : NULL;
    if (!blocks || block < 0 || !uop_is_const(n) || !uop_is_const(blocks) ||
        blocks->vmax != n->vmax / block + (n->vmax % block != 0))
        return fail_node(g, c, TG_BAD_MODEL, "block_size", "%lld does not fit the shapes", (long long)block);
    return on_blocks(g, v, *x, axis, block < n->vmax ? block : n->vmax);
}

static U saturate(Graph *g, U y, DType t)
{
    return cast(g, clamp(g, y, scalar(g, y->dtype, (double)dtype_min(t)), scalar(g, y->dtype, (double)dtype_max(t))),
                t);
}

static bool is_zero(Graph *g, U x)
{
    U v;
    return uop_numel(x) == 1 && values_of(g, x, &v, 1) && v && uop_is_int_const(v, 0);
}

/* y rounded to even, plus zero (of type t, or NULL for 0), within t; the greatest for NaN. Cut to the ends first, which
 * are whole, it is small: adding 1.5 * 2^23 (f64: 2^52) leaves no digits behind the point. */
static U rounded(Graph *g, U y, U zero, DType t)
{
    if (is_error(y) || (y->dtype != DT_F64 && y->dtype != DT_F32)) y = f32(g, y);
    if (is_error(y)) return y;
    DType f = (DType)y->dtype;
    U z = zero ? cast(g, zero, f) : NULL, least = scalar(g, f, (double)dtype_min(t)),
      most = scalar(g, f, (double)dtype_max(t)), big = scalar(g, f, f == DT_F64 ? 0x1.8p52 : 0x1.8p23);
    if (z) least = sub(g, least, z), most = sub(g, most, z);
    y = max_(g, y, least);
    y = sub(g, add(g, where(g, lt(g, y, most), y, most), big), big);
    return cast(g, z && !is_zero(g, zero) ? add(g, y, z) : y, t);
}

/* zero: of type t, or NULL for 0; x, scale: of one float type. */
static U quantize(Graph *g, U x, U scale, U zero, DType t) { return rounded(g, div_(g, x, scale), zero, t); }

/* A sum of products of integers as a quantised value: one multiplication by the scales' quotient, as integer kernels
 * do. zero: of type t, or NULL for 0. */
static U requantize(Graph *g, U total, U scale, U zero, DType t)
{
    return rounded(g, mul(g, f32(g, total), scale), zero, t);
}

U centred(Graph *g, U x, U zero)
{
    U y = x->dtype == DT_I32 ? x : cast(g, x, DT_I32);
    return zero ? sub(g, y, zero->dtype == DT_I32 ? zero : cast(g, zero, DT_I32)) : y;
}

static bool narrow_int(DType t) { return t == DT_I8 || t == DT_U8 || t == DT_I16 || t == DT_U16; }

static DType output_type(Graph *g, const Ctx *c, DType otherwise)
{
    return attr_int(g, c, "output_dtype", 0) ? attr_dtype(g, c, "output_dtype", 0) : otherwise;
}

/* To types below a byte, and to float8, where the zero point is 0 and there is nothing to round but the result. */
static U quantize_narrow(Graph *g, const Ctx *c, U x, U scale, U zero, int32_t type)
{
    U y = f32(g, div_(g, x, scale));
    if (!narrow_is_float(type)) y = round_even(g, y);
    if (zero) y = add(g, y, f32(g, zero));
    return narrow_is_float(type) ? narrow_encode(g, y, type, attr_bool(g, c, "saturate", true), "up")
                                 : narrow_clamp(g, y, type);
}

U op_quantize_linear(Graph *g, const Ctx *c)
{
    U x = c->in[0], zero = c->nin > 2 ? c->in[QuantizeLinear_y_zero_point] : NULL;
    int64_t wanted = attr_int(g, c, "output_dtype", 0);
    int32_t narrow = zero                                          ? narrow_type(zero)
        : wanted > 0 && wanted < 100 && narrow_is((int32_t)wanted) ? (int32_t)wanted
                                                                   : 0;
    if (zero && wanted && wanted != (narrow ? narrow : dtype_info[zero->dtype].onnx))
        return fail_node(g, c, TG_BAD_MODEL, "output_dtype", "is %lld, which the zero point is not", (long long)wanted);
    if (narrow_type(x)) return fail_node(g, c, TG_UNSUPPORTED, NULL, "inputs of such types are not covered");
    if (zero) zero = narrow_decode(g, zero);
    U given = narrow_decode(g, c->in[QuantizeLinear_y_scale]); /* of e8m0, which is no type to divide in, as f32 */
    DType t = narrow ? DT_I8 : output_type(g, c, zero ? (DType)zero->dtype : DT_U8), precision = (DType)given->dtype;
    if (attr_int(g, c, "precision", 0)) precision = attr_dtype(g, c, "precision", 0);
    if (!narrow_int(t) || narrow == TG_F8E8M0)
        return fail_node(g, c, TG_UNSUPPORTED, "output_dtype", "this type of quantised values is not covered");
    if (!dtype_is_float(precision)) return fail_node(g, c, TG_BAD_MODEL, "y_scale", "wanted a floating-point type");
    U scale = spread(g, c, cast(g, given, precision), &x);
    if (zero) zero = spread(g, c, zero, &x);
    if (narrow) return quantize_narrow(g, c, cast(g, x, precision), scale, zero, narrow);
    return quantize(g, cast(g, x, precision), scale, zero, t);
}

U op_dequantize_linear(Graph *g, const Ctx *c)
{
    U x = narrow_decode(g, c->in[0]),
      zero = c->nin > 2 && c->in[DequantizeLinear_x_zero_point] ? narrow_decode(g, c->in[DequantizeLinear_x_zero_point])
                                                                : NULL;
    DType t = output_type(g, c, (DType)c->in[DequantizeLinear_x_scale]->dtype);        /* a scale of e8m0 says none */
    if (!dtype_is_float(t)) return fail_node(g, c, TG_BAD_MODEL, "output_dtype", "is no float type");
    bool plain = narrow_type(c->in[0]) && dtype_is_float((DType)x->dtype);
    if (!plain && !narrow_int((DType)x->dtype) && x->dtype != DT_I32)
        return fail_node(g, c, TG_UNSUPPORTED, "x", "quantised values of type %s are not covered",
                         dtype_name(x->dtype));
    U scale = f32(g, spread(g, c, narrow_decode(g, c->in[DequantizeLinear_x_scale]), &x));
    if (zero) zero = spread(g, c, zero, &x);
    U y = !plain ? f32(g, centred(g, x, zero)) : zero ? sub(g, x, f32(g, zero)) : x;
    return cast(g, mul(g, y, scale), t);
}

void dynamic_range(Graph *g, U x, const int64_t *axes, uint32_t n, bool keepdims, U out[3])
{
    U zero = scalar(g, DT_F32, 0);
    U high = max_(g, reduce(g, UOP_MAX, x, axes, n, keepdims), zero),
      low = min_(g, neg(g, reduce(g, UOP_MAX, neg(g, x), axes, n, keepdims)), zero);
    out[1] = where(g, eq(g, high, low), scalar(g, DT_F32, 1), div_(g, sub(g, high, low), scalar(g, DT_F32, 255)));
    out[2] = saturate(g, round_even(g, neg(g, div_(g, low, out[1]))), DT_U8);
    out[0] = quantize(g, x, out[1], out[2], DT_U8);
}

/* The same by the range of all of x. */
static void whole_range(Graph *g, U x, U out[3])
{
    int64_t axes[TG_MAX_RANK];
    for (uint32_t k = 0; k < uop_rank(x); k++) axes[k] = k;
    dynamic_range(g, x, axes, uop_rank(x), false, out);
}

/** DynamicQuantizeLinear (ONNX 11).
 *  in   x f32, and f16 or bf16 as quantisers of such models write it
 *  out  y u8, scale of x's type (), zero point u8 ()
 */
U op_dynamic_quantize_linear(Graph *g, const Ctx *c)
{
    U out[3];
    whole_range(g, wide(g, c->in[0]), out);
    out[1] = narrow(g, out[1], c->in[0]);
    return outputs(g, c, out, 3);
}

/* Parameters of a matrix's rows (a left operand) come as [M]; as [M, 1] they broadcast. Everything else does already.
 */
static U of_rows(Graph *g, U v)
{
    if (!v || !uop_rank(v)) return v;
    return uop_numel(v) == 1 ? as_scalar(g, v) : uop_rank(v) == 1 ? unsqueeze(g, v, 1) : v;
}

/* Is input i, a scale or zero point of matrices x, one for all, one for each index of x's axis `back` from the end, or
 * of x's axes? */
static bool of_axis(Graph *g, const Ctx *c, uint32_t i, U x, uint32_t back)
{
    U v = i < c->nin && c->in[i] ? special_part(c->in[i], 0) : NULL;
    x = special_part(x, 0);
    if (!v || x->op == UOP_ERROR || !uop_rank(v) || fixed_numel(g, v) == 1) return ok(g);
    if (uop_rank(v) > 1 || uop_rank(x) < back) return spreads_ok(g, c, i, x->shape->dim, uop_rank(x));
    return shape_ok(g, c, i, &x->shape->dim[uop_rank(x) - back], 1);
}

static U of_columns(Graph *g, U v) { return v && uop_rank(v) && uop_numel(v) == 1 ? as_scalar(g, v) : v; }

U op_mat_mul_integer(Graph *g, const Ctx *c)
{
    if (!of_axis(g, c, MatMulInteger_a_zero_point, c->in[0], 2) ||
        !of_axis(g, c, MatMulInteger_b_zero_point, c->in[MatMulInteger_B], 1))
        return NULL;
    U a_zero = c->nin > 2 ? of_rows(g, c->in[MatMulInteger_a_zero_point]) : NULL,
      b_zero = c->nin > 3 ? of_columns(g, c->in[MatMulInteger_b_zero_point]) : NULL;
    return matmul(g, centred(g, c->in[0], a_zero), centred(g, c->in[MatMulInteger_B], b_zero));
}

static U number(Graph *g, U x) { return f32(g, narrow_decode(g, x)); }

U op_q_linear_mat_mul(Graph *g, const Ctx *c)
{
    const U *in = c->in;
    /* a scale and its zero point: of one shape, or one each */
    for (uint32_t k = 1; k < 8; k += k == 1 ? 3 : 2) {
        U zero = special_part(in[k + 1], 0);
        bool single = uop_static(in[k]) && uop_static(zero) && uop_numel(in[k]) == 1 && uop_numel(zero) == 1;
        if (!single && !shape_ok(g, c, k + 1, in[k]->shape->dim, uop_rank(in[k]))) return NULL;
    }
    if (!of_axis(g, c, QLinearMatMul_a_scale, in[0], 2) ||
        !of_axis(g, c, QLinearMatMul_b_scale, in[QLinearMatMul_b], 1))
        return NULL;
    U scale =
        div_(g, mul(g, f32(g, of_rows(g, in[QLinearMatMul_a_scale])), f32(g, of_columns(g, in[QLinearMatMul_b_scale]))),
             f32(g, of_rows(g, in[QLinearMatMul_y_scale])));
    int32_t type = narrow_type(in[QLinearMatMul_y_zero_point]);
    /* of float8: products and sums of numbers */
    bool numbers = narrow_type(in[0]) || narrow_type(in[QLinearMatMul_b]) || type;
    if (!numbers && !narrow_int((DType)in[QLinearMatMul_y_zero_point]->dtype))
        return fail_node(g, c, TG_UNSUPPORTED, "y_zero_point", "type %s is not covered",
                         dtype_name(in[QLinearMatMul_y_zero_point]->dtype));
    U a = numbers ? sub(g, number(g, in[0]), of_rows(g, number(g, in[QLinearMatMul_a_zero_point])))
                  : centred(g, in[0], of_rows(g, in[QLinearMatMul_a_zero_point]));
    U b = numbers ? sub(g, number(g, in[QLinearMatMul_b]), of_columns(g, number(g, in[QLinearMatMul_b_zero_point])))
                  : centred(g, in[QLinearMatMul_b], of_columns(g, in[QLinearMatMul_b_zero_point])),
      y = matmul(g, a, b);
    if (!of_axis(g, c, QLinearMatMul_y_scale, y, 2)) return NULL;
    if (!numbers)
        return requantize(g, y, scale, of_rows(g, in[QLinearMatMul_y_zero_point]),
                          (DType)in[QLinearMatMul_y_zero_point]->dtype);
    U zero = of_rows(g, number(g, in[QLinearMatMul_y_zero_point]));
    return type
        ? narrow_encode(g, add(g, mul(g, y, scale), zero), type, true, "up")
        : saturate(g, add(g, round_even(g, mul(g, y, scale)), zero), (DType)in[QLinearMatMul_y_zero_point]->dtype);
}

/* Is input i, a parameter of filters w, one, or one for each (axis 0 of w)? */
static bool filters_ok(Graph *g, const Ctx *c, uint32_t i, U w)
{
    U v = i < c->nin ? c->in[i] : NULL;
    return !v || !uop_rank(v) || fixed_numel(g, v) == 1 ? ok(g) : shape_ok(g, c, i, w->shape->dim, 1);
}

/* A weight's parameter: one, or one an output channel (axis 0 of w). */
static U of_filters(Graph *g, U v, U w)
{
    if (!v || !uop_rank(v)) return v;
    return uop_numel(v) == 1 ? as_scalar(g, v) : on_axis(g, v, 0, uop_rank(w));
}

static U of_channels(Graph *g, U v, U x) { return uop_numel(v) == 1 ? as_scalar(g, v) : on_axis(g, v, 1, uop_rank(x)); }

U op_conv_integer(Graph *g, const Ctx *c)
{
    if (!filters_ok(g, c, 3, c->in[ConvInteger_w])) return NULL;
    U x_zero = c->nin > 2 && c->in[ConvInteger_x_zero_point] ? as_scalar(g, c->in[ConvInteger_x_zero_point]) : NULL,
      w_zero = c->nin > 3 ? of_filters(g, c->in[ConvInteger_w_zero_point], c->in[ConvInteger_w]) : NULL;
    return conv_node(g, c, centred(g, c->in[0], x_zero), centred(g, c->in[ConvInteger_w], w_zero));
}

U op_q_linear_conv(Graph *g, const Ctx *c)
{
    const U *in = c->in;
    if (!filters_ok(g, c, QLinearConv_w_scale, in[QLinearConv_w]) ||
        !filters_ok(g, c, QLinearConv_w_zero_point, in[QLinearConv_w]) ||
        !shape_ok(g, c, QLinearConv_B, in[QLinearConv_w]->shape->dim, 1))
        return NULL;
    U x = centred(g, in[0], as_scalar(g, in[QLinearConv_x_zero_point])),
      w = centred(g, in[QLinearConv_w], of_filters(g, in[QLinearConv_w_zero_point], in[QLinearConv_w]));
    U y = conv_node(g, c, x, w),
      scale = div_(g, mul(g, as_scalar(g, in[QLinearConv_x_scale]), of_channels(g, in[QLinearConv_w_scale], in[0])),
                   as_scalar(g, in[QLinearConv_y_scale]));
    if (!narrow_int((DType)in[QLinearConv_y_zero_point]->dtype))
        return fail_node(g, c, TG_UNSUPPORTED, "y_zero_point", "type %s is not covered",
                         dtype_name(in[QLinearConv_y_zero_point]->dtype));
    if (c->nin > 8 && in[QLinearConv_B]) y = add(g, y, of_channels(g, in[QLinearConv_B], in[0]));
    return requantize(g, y, scale, as_scalar(g, in[QLinearConv_y_zero_point]),
                      (DType)in[QLinearConv_y_zero_point]->dtype);
}

/* ---- com.microsoft ---- */

U dequantised(Graph *g, U x, U scale, U zero)
{
    return mul(g, f32(g, centred(g, x, zero ? as_scalar(g, zero) : NULL)), f32(g, as_scalar(g, scale)));
}

/* Inputs i, i+1, i+2: values, their scale, and their zero point or none; as f32. */
static U real(Graph *g, const Ctx *c, uint32_t i) { return dequantised(g, c->in[i], c->in[i + 1], c->in[i + 2]); }

/* f32 as quantised values by scale i and zero point i+1, or none; of the zero point's type, else like's. */
static U quantized_by(Graph *g, const Ctx *c, U y, uint32_t i, U like)
{
    U zero = c->in[i + 1];
    DType t = (DType)(zero ? zero : like)->dtype;
    if (!narrow_int(t))
        return fail_node(g, c, TG_UNSUPPORTED, c->node->in[0], "quantised values of type %s are not covered",
                         dtype_name(t));
    return quantize(g, y, f32(g, as_scalar(g, c->in[i])), zero ? as_scalar(g, zero) : NULL, t);
}

U op_q_linear_add(Graph *g, const Ctx *c)
{
    return quantized_by(g, c, add(g, real(g, c, 0), real(g, c, MsQLinearAdd_B)), 6, c->in[0]);
}
U op_q_linear_mul(Graph *g, const Ctx *c)
{
    return quantized_by(g, c, mul(g, real(g, c, 0), real(g, c, MsQLinearMul_B)), 6, c->in[0]);
}
U op_q_linear_sigmoid(Graph *g, const Ctx *c) { return quantized_by(g, c, sigmoid(g, real(g, c, 0)), 3, c->in[0]); }

U op_q_linear_leaky_relu(Graph *g, const Ctx *c)
{
    U x = real(g, c, 0), zero = scalar(g, DT_F32, 0);
    return quantized_by(
        g, c, where(g, lt(g, x, zero), mul(g, x, scalar(g, DT_F32, attr_float(g, c, "alpha", 0.01))), x), 3, c->in[0]);
}

/* An operator of the standard between real numbers, its attributes as of that version. */
static U quantised_node(Graph *g, const Ctx *c, const char *name, int64_t opset)
{
    U x = real(g, c, 0), y = standard_node(g, c, name, opset, &x, 1);
    return y ? quantized_by(g, c, y, 3, c->in[0]) : NULL;
}

U op_q_linear_softmax(Graph *g, const Ctx *c) { return quantised_node(g, c, "Softmax", attr_int(g, c, "opset", 0)); }

/* Where its attribute says so, the first input has its channels last, and so has the result. */
static U either_layout(Graph *g, const Ctx *c, Importer fn)
{
    return attr_bool(g, c, "channels_last", false) ? from_channels_last(g, c, 1, fn) : fn(g, c);
}

static U average_pool(Graph *g, const Ctx *c) { return quantised_node(g, c, "AveragePool", 11); }
U op_q_linear_average_pool(Graph *g, const Ctx *c) { return either_layout(g, c, average_pool); }
U op_q_linear_conv_ms(Graph *g, const Ctx *c) { return either_layout(g, c, op_q_linear_conv); }

U op_q_linear_reduce_mean(Graph *g, const Ctx *c) { return quantised_node(g, c, "ReduceMean", 11); }

U op_q_linear_where(Graph *g, const Ctx *c)
{
    return quantized_by(g, c, where(g, c->in[0], real(g, c, MsQLinearWhere_X), real(g, c, MsQLinearWhere_Y)), 7,
                        c->in[MsQLinearWhere_X]);
}

static U global_average_pool(Graph *g, const Ctx *c)
{
    const U *in = c->in;
    U x = centred(g, in[0],
                  in[MsQLinearGlobalAveragePool_x_zero_point]
                      ? as_scalar(g, in[MsQLinearGlobalAveragePool_x_zero_point])
                      : NULL),
      count = uop_index(g, 1);
    uint32_t n = uop_rank(x);
    DType t = (DType)(in[MsQLinearGlobalAveragePool_y_zero_point] ? in[MsQLinearGlobalAveragePool_y_zero_point] : in[0])
                  ->dtype;
    if (n < 3) return fail_node(g, c, TG_BAD_MODEL, c->node->in[0], "has rank %u; wanted 3 or more", n);
    for (uint32_t k = 2; k < n; k++)
        if (uop_is_int_const(uop_dim(x, k), 0))
            return fail_node(g, c, TG_BAD_MODEL, c->node->in[0], "has no elements along axis %u", k);
    if (!narrow_int(t))
        return fail_node(g, c, TG_UNSUPPORTED, c->node->in[0], "quantised values of type %s are not covered",
                         dtype_name(t));
    for (uint32_t k = 2; k < n; k++) {
        count = dim_mul(g, count, uop_dim(x, k));
        x = sum(g, x, k, true);
    }
    U scale = div_(g, f32(g, as_scalar(g, in[MsQLinearGlobalAveragePool_x_scale])),
                   mul(g, f32(g, as_scalar(g, in[MsQLinearGlobalAveragePool_y_scale])), cast(g, count, DT_F32)));
    return requantize(
        g, x, scale,
        in[MsQLinearGlobalAveragePool_y_zero_point] ? as_scalar(g, in[MsQLinearGlobalAveragePool_y_zero_point]) : NULL,
        t);
}

U op_q_linear_global_average_pool(Graph *g, const Ctx *c) { return either_layout(g, c, global_average_pool); }

/* Scale and zero point of the result come first, then three inputs a part. */
U op_q_linear_concat(Graph *g, const Ctx *c)
{
    uint32_t n = (c->nin - 2) / 3;
    const UOp **part = NEW_N(graph_arena(g), const UOp *, n + 1);
    int64_t axis;
    if (c->nin != 2 + 3 * n)
        return fail_node(g, c, TG_BAD_MODEL, NULL, "%u inputs; wanted 2 and 3 for each part", c->nin);
    for (uint32_t k = 0; k < n; k++) {
        for (uint32_t i = 2 + 3 * k; i < 5 + 3 * k; i++)
            if (!c->in[i]) return fail_node(g, c, TG_BAD_MODEL, NULL, "input %u is missing", i);
        part[k] = real(g, c, 2 + 3 * k);
    }
    if (is_error(part[0]) || !axis_ok(g, c, "axis", attr_int(g, c, "axis", 0), uop_rank(part[0]), &axis)) return NULL;
    return quantized_by(g, c, cat(g, part, n, axis), 0, c->in[MsQLinearConcat_inputs]);
}

U op_mul_integer(Graph *g, const Ctx *c)
{
    return mul(g, centred(g, c->in[0], c->in[MsMulInteger_A_zero_point]),
               centred(g, c->in[MsMulInteger_B], c->in[MsMulInteger_B_zero_point]));
}

U op_reduce_sum_integer(Graph *g, const Ctx *c)
{
    U x = cast(g, c->in[0], c->in[0]->dtype == DT_I8 ? DT_I32 : DT_U32);
    return standard_node(g, c, "ReduceSum", 11, &x, 1);
}

U op_mat_mul_integer16(Graph *g, const Ctx *c)
{
    DType t = c->in[0]->dtype == DT_U16 && c->in[MsMatMulInteger16_B]->dtype == DT_U16 ? DT_U32 : DT_I32;
    return matmul(g, cast(g, c->in[0], t), cast(g, c->in[MsMatMulInteger16_B], t));
}

/* An operand of a product: centred, transposed where the attribute says so. */
static U operand(Graph *g, const Ctx *c, U x, U zero, const char *transposed)
{
    x = centred(g, x, zero);
    return *transposed && attr_bool(g, c, transposed, false) ? transpose(g, x) : x;
}

/** QGemm: alpha a b' + bias, bias in the product's scale; f32 unless a scale of the result is there. */
U op_q_gemm(Graph *g, const Ctx *c)
{
    const U *in = c->in;
    if (uop_rank(in[0]) != 2 || uop_rank(in[MsQGemm_B]) != 2)
        return fail_node(g, c, TG_BAD_MODEL, NULL, "inputs of ranks %u and %u; wanted 2", uop_rank(in[0]),
                         uop_rank(in[MsQGemm_B]));
    if (!in[MsQGemm_y_scale] != !in[MsQGemm_y_zero_point])
        return fail_node(g, c, TG_UNSUPPORTED, "y_scale", "is covered together with y_zero_point only");
    bool turned = attr_bool(g, c, "transB", false);
    if (!of_axis(g, c, MsQGemm_b_scale, in[MsQGemm_B], 1 + turned) ||
        !of_axis(g, c, MsQGemm_b_zero_point, in[MsQGemm_B], 1 + turned))
        return NULL;
    U b_zero = in[MsQGemm_b_zero_point] && uop_numel(in[MsQGemm_b_zero_point]) > 1 && turned
        ? unsqueeze(g, in[MsQGemm_b_zero_point], 1)
        : of_columns(g, in[MsQGemm_b_zero_point]);
    U y = matmul(g, operand(g, c, in[0], as_scalar(g, in[MsQGemm_a_zero_point]), "transA"),
                 operand(g, c, in[MsQGemm_B], b_zero, "transB"));
    if (!ok(g) || !spreads_ok(g, c, MsQGemm_C, y->shape->dim, 2)) return NULL;
    if (in[MsQGemm_C]) y = add(g, y, in[MsQGemm_C]);
    y = mul(g, f32(g, y),
            mul(g, scalar(g, DT_F32, attr_float(g, c, "alpha", 1)),
                mul(g, f32(g, as_scalar(g, in[MsQGemm_a_scale])), f32(g, of_columns(g, in[MsQGemm_b_scale])))));
    return in[MsQGemm_y_scale] ? quantized_by(g, c, y, 7, in[0]) : y;
}

U scaled_product(Graph *g, const Ctx *c, U a, U a_scale, U a_zero, uint32_t scale, uint32_t zero, uint32_t bias)
{
    U b = c->in[MsDynamicQuantizeMatMul_B];
    if (!of_axis(g, c, scale, b, 1) || !of_axis(g, c, zero, b, 1)) return NULL;
    U y = f32(g, matmul(g, centred(g, a, a_zero), centred(g, b, of_columns(g, c->in[zero]))));
    if (!spreads_ok(g, c, bias, y->shape->dim, uop_rank(y))) return NULL;
    y = mul(g, y, mul(g, f32(g, as_scalar(g, a_scale)), f32(g, of_columns(g, c->in[scale]))));
    return c->in[bias] ? add(g, y, f32(g, c->in[bias])) : y;
}

U op_mat_mul_integer_to_float(Graph *g, const Ctx *c)
{
    const U *in = c->in;
    return scaled_product(
        g, c, in[0], in[MsMatMulIntegerToFloat_a_scale],
        in[MsMatMulIntegerToFloat_a_zero_point] ? as_scalar(g, in[MsMatMulIntegerToFloat_a_zero_point]) : NULL, 3, 5,
        6);
}

/** DynamicQuantizeMatMul: a quantised by its own range, as DynamicQuantizeLinear does. */
U op_dynamic_quantize_mat_mul(Graph *g, const Ctx *c)
{
    U a[3];
    whole_range(g, c->in[0], a);
    return scaled_product(g, c, a[0], a[1], a[2], 2, 3, 4);
}
