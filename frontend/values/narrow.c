/* See narrow.h. A float format is a row: mantissa bits, exponent bias, largest code, codes of NaN and infinity. */
#include "frontend/values/narrow.h"
#include "onnx/tensor.h"

#include <math.h>
#include <string.h>

enum { NARROW = 32 };                              /* tag of type 0 */

typedef struct {
    int32_t type;
    uint32_t bits, mantissa;
    int32_t bias;
    uint32_t max, nan, inf;
    bool is_float, is_signed;
} Format;
static const Format formats[] = {
    { TG_F8E4M3FN,   8, 3,   7, 0x7e, 0x7f, 0x7f, true,  true },
    { TG_F8E4M3FNUZ, 8, 3,   8, 0x7f, 0x80, 0x80, true,  false },
    { TG_F8E5M2,     8, 2,  15, 0x7b, 0x7e, 0x7c, true,  true },
    { TG_F8E5M2FNUZ, 8, 2,  16, 0x7f, 0x80, 0x80, true,  false },
    { TG_F4E2M1,     4, 1,   1, 0x07, 0x08, 0x07, true,  true },
    { TG_F6E2M3,     6, 3,   1, 0x1f, 0x20, 0x1f, true,  true },
    { TG_F6E3M2,     6, 2,   3, 0x1f, 0x20, 0x1f, true,  true },
    { TG_F8E8M0,     8, 0, 127, 0xfe, 0xff, 0xff, true,  false },
    { TG_U4,         4, 0,   0, 0,    0,    0,    false, false },
    { TG_I4,         4, 0,   0, 0,    0,    0,    false, true },
    { TG_U2,         2, 0,   0, 0,    0,    0,    false, false },
    { TG_I2,         2, 0,   0, 0,    0,    0,    false, true },
};

static const Format *format_of(int32_t type)
{
    for (size_t k = 0; k < sizeof formats / sizeof *formats; k++)
        if (formats[k].type == type) return &formats[k];
    return NULL;
}

int32_t narrow_type(U x) { return x->op == UOP_TUPLE && x->tag > NARROW && x->tag < 2 * NARROW ? x->tag - NARROW : 0; }
bool narrow_is(int32_t type) { return format_of(type) != NULL; }
bool narrow_is_float(int32_t type) { return format_of(type)->is_float; }
uint32_t narrow_bits(int32_t type) { return format_of(type)->bits; }
DType narrow_storage(int32_t type) { return type == TG_I4 || type == TG_I2 ? DT_I8 : DT_U8; }

U narrow_wrap(Graph *g, U storage, int32_t type)
{
    if (storage->op == UOP_ERROR) return storage;
    return uop_tagged(g, uop_new(g, UOP_TUPLE, DT_VOID, NO_ARG, &storage, 1), (uint16_t)(NARROW + type));
}

/* ---- packed elements ---- */

void narrow_unpack(uint8_t *out, const void *packed, int64_t n, int32_t type)
{
    const Format *f = format_of(type);
    bits_unpack(out, packed, n, f->bits, f->is_signed && !f->is_float);
}

void narrow_pack(void *packed, const uint8_t *in, int64_t n, int32_t type)
{
    bits_pack(packed, in, n, format_of(type)->bits);
}

U narrow_constant(Graph *g, const TensorDef *t)
{
    uint8_t *out = arena_alloc(graph_arena(g), (size_t)t->numel + 1);
    narrow_unpack(out, t->data, t->numel, t->type);
    TensorDef plain = *t;
    plain.type = narrow_storage(t->type) == DT_I8 ? TG_I8 : TG_U8;
    plain.data = out;
    plain.size_bytes = (size_t)t->numel;
    return narrow_wrap(g, import_tensor(g, &plain), t->type);
}

/* ---- values ---- */

static double code_value(const Format *f, uint32_t code)
{
    if (f->type == TG_F8E8M0) return code == f->nan ? NAN : ldexp(1, (int)code - f->bias);
    uint32_t sign = code >> (f->bits - 1) & 1, body = code & ((1u << (f->bits - 1)) - 1),
             m = body & ((1u << f->mantissa) - 1);
    int e = (int)(body >> f->mantissa);
    if (f->bits == 8 && (code == f->nan || (body > f->max && f->type != TG_F8E5M2))) return NAN;
    if (f->type == TG_F8E5M2 && body > f->inf) return NAN;
    double v = f->type == TG_F8E5M2 && body == f->inf ? INFINITY
        : e                                           ? ldexp((1u << f->mantissa) + m, e - f->bias - (int)f->mantissa)
                                                      : ldexp(m, 1 - f->bias - (int)f->mantissa);
    return sign ? -v : v;
}

U narrow_decode(Graph *g, U x)
{
    const Format *f = format_of(narrow_type(x));
    if (!f) return x;
    if (!f->is_float) return x->src[0];
    int64_t n = INT64_C(1) << f->bits;
    float *table = NEW_N(graph_arena(g), float, n);
    for (int64_t k = 0; k < n; k++) table[k] = (float)code_value(f, (uint32_t)k);
    return take(g, tensor_const(g, DT_F32, &n, 1, table, (size_t)n * 4, ""), x->src[0], 0);
}

static U f32(Graph *g, double v) { return scalar(g, DT_F32, v); }
static U shifted(Graph *g, U x, uint32_t by) { return idiv(g, x, u32(g, UINT32_C(1) << by)); }

/* Codes of |x|, rounded to even: normal ones by adding half of the last place to the bits, small ones by scaling. */
static U magnitude_code(Graph *g, U a, const Format *f)
{
    uint32_t drop = 23 - f->mantissa;
    U bits = bitcast(g, a, DT_U32), odd = and_(g, shifted(g, bits, drop), u32(g, 1));
    U normal = shifted(g, add(g, add(g, bits, u32(g, (UINT32_C(1) << (drop - 1)) - 1)), odd), drop);
    normal = sub(g, normal, u32(g, (uint32_t)(127 - f->bias) << f->mantissa));
    U small = cast(g, round_even(g, mul(g, a, f32(g, ldexp(1, f->bias - 1 + (int)f->mantissa)))), DT_U32);
    return where(g, lt(g, a, f32(g, ldexp(1, 1 - f->bias))), small, normal);
}

static U encode_float(Graph *g, U x, const Format *f, bool saturate)
{
    U a = abs_(g, x), inf = is_inf(g, x),
      code = magnitude_code(g, where(g, inf, f32(g, 0), min_(g, a, f32(g, 3e38))), f);
    U over = or_(g, inf, gt(g, cast(g, code, DT_I64), uop_int(g, DT_I64, f->max)));
    code = where(g, over, u32(g, saturate ? f->max : f->inf), code);
    U negative = lt(g, bitcast(g, x, DT_I32), uop_int(g, DT_I32, 0)), sign = u32(g, UINT32_C(1) << (f->bits - 1));
    U signed_code = or_(g, code, where(g, negative, sign, u32(g, 0)));
    /* no negative zero: its code is NaN */
    if (!f->is_signed) signed_code = where(g, eq(g, code, u32(g, 0)), code, signed_code);
    if (!saturate && f->inf == f->nan && !f->is_signed) signed_code = where(g, over, u32(g, f->nan), signed_code);
    U nan = f->is_signed && f->bits == 8 ? or_(g, u32(g, f->nan), where(g, negative, sign, u32(g, 0))) : u32(g, f->nan);
    return cast(g, where(g, is_nan(g, x), nan, signed_code), DT_U8);
}

/* A power of two by its exponent: rounded up, down, or to the nearest. The smallest, 2^-127, is a subnormal f32: below
 * 2^-126 it lies in the middle. */
static U encode_exponent(Graph *g, U x, const Format *f, bool saturate, const char *round_mode)
{
    U bits = bitcast(g, abs_(g, x), DT_U32), e = shifted(g, bits, 23), m = and_(g, bits, u32(g, 0x7fffff)),
      first = eq(g, e, u32(g, 0)), up;
    if (!strcmp(round_mode, "down")) up = u32(g, 0);
    else if (!strcmp(round_mode, "nearest"))
        up = cast(g, ge(g, m, where(g, first, u32(g, 0x600000), u32(g, 0x400000))), DT_U32);
    else up = cast(g, gt(g, m, where(g, first, u32(g, 0x400000), u32(g, 0))), DT_U32);
    U code = add(g, e, up),
      beyond = saturate ? gt(g, code, u32(g, f->max))
                        : or_(g, lt(g, bits, u32(g, 0x400000)), gt(g, bits, u32(g, f->max << 23)));
    code = where(g, beyond, u32(g, saturate ? f->max : f->nan), code);
    return cast(g, where(g, is_nan(g, x), u32(g, f->nan), code), DT_U8);
}

U narrow_encode(Graph *g, U x, int32_t type, bool saturate, const char *round_mode)
{
    const Format *f = format_of(type);
    x = narrow_decode(g, x);
    if (x->op == UOP_ERROR) return x;
    if (f->is_float) {
        x = cast(g, x, DT_F32);
        return narrow_wrap(
            g, type == TG_F8E8M0 ? encode_exponent(g, x, f, saturate, round_mode) : encode_float(g, x, f, saturate),
            type);
    }
    U v = and_(g, cast(g, x, DT_I32), uop_int(g, DT_I32, (1 << f->bits) - 1)),
      half = uop_int(g, DT_I32, 1 << (f->bits - 1));
    /* the sign bit carried on */
    if (f->is_signed) v = sub(g, xor_(g, v, half), half);
    return narrow_wrap(g, cast(g, v, narrow_storage(type)), type);
}

U narrow_clamp(Graph *g, U x, int32_t type)
{
    const Format *f = format_of(type);
    double lo = f->is_signed ? -(double)(1 << (f->bits - 1)) : 0,
           hi = f->is_signed ? (1 << (f->bits - 1)) - 1 : (1 << f->bits) - 1;
    return narrow_wrap(
        g, cast(g, clamp(g, x, scalar(g, (DType)x->dtype, lo), scalar(g, (DType)x->dtype, hi)), narrow_storage(type)),
        type);
}
