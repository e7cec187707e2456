#include "graph/scalar.h"

#include <math.h>
#include <string.h>

static double from_bf16(uint16_t h)
{
    uint32_t bits = (uint32_t)h << 16;
    float f;
    memcpy(&f, &bits, 4);
    return f;
}

/* value is a bf16 already (dtype_round), so its low bits are zero; a NaN keeps a bit of its payload. */
static uint16_t to_bf16(double v)
{
    float f = (float)v;
    uint32_t bits;
    memcpy(&bits, &f, 4);
    return f == f ? (uint16_t)(bits >> 16) : (uint16_t)(bits >> 16 | 0x40);
}

static double from_f16(uint16_t h)
{
    int e = h >> 10 & 31, m = h & 1023;
    double v = e == 31 ? (m ? NAN : INFINITY) : e ? ldexp(1024 + m, e - 25) : ldexp(m, -24);
    return h >> 15 ? -v : v;
}

static uint16_t to_f16(double v)
{
    uint16_t s = signbit(v) ? 0x8000 : 0;
    int e;
    v = fabs(dtype_round(DT_F16, v));
    if (isnan(v)) return 0x7e00;
    if (isinf(v)) return s | 0x7c00;
    frexp(v, &e);
    if (v < 0x1p-14) return s | (uint16_t)ldexp(v, 24);                       /* no leading one */
    return s | (uint16_t)(((e + 14) << 10) + (int)(ldexp(v, 11 - e) - 1024));
}

int64_t scalar_load(DType t, const void *base, int64_t i)
{
    switch (t) {
    case DT_BOOL: return ((const uint8_t *)base)[i] != 0;
    case DT_I8: return ((const int8_t *)base)[i];
    case DT_U8: return ((const uint8_t *)base)[i];
    case DT_I16: return ((const int16_t *)base)[i];
    case DT_U16: return ((const uint16_t *)base)[i];
    case DT_I32: return ((const int32_t *)base)[i];
    case DT_U32: return ((const uint32_t *)base)[i];
    case DT_F16: return scalar_of(from_f16(((const uint16_t *)base)[i]));
    case DT_BF16: return scalar_of(from_bf16(((const uint16_t *)base)[i]));
    case DT_F32: return scalar_of(((const float *)base)[i]);
    default: return ((const int64_t *)base)[i];                      /* f64's bits are its encoding */
    }
}

void scalar_store(DType t, void *base, int64_t i, int64_t value)
{
    switch (t) {
    case DT_BOOL: ((uint8_t *)base)[i] = value != 0; break;
    case DT_I8:
    case DT_U8: ((uint8_t *)base)[i] = (uint8_t)value; break;
    case DT_I16:
    case DT_U16: ((uint16_t *)base)[i] = (uint16_t)value; break;
    case DT_I32:
    case DT_U32: ((uint32_t *)base)[i] = (uint32_t)value; break;
    case DT_F16: ((uint16_t *)base)[i] = to_f16(scalar_real(value)); break;
    case DT_BF16: ((uint16_t *)base)[i] = to_bf16(dtype_round(DT_BF16, scalar_real(value))); break;
    case DT_F32: ((float *)base)[i] = (float)scalar_real(value); break;
    default: ((int64_t *)base)[i] = value; break;
    }
}

int64_t scalar_bitcast(DType from, DType to, int64_t value)
{
    int64_t cell = 0;
    scalar_store(from, &cell, 0, value);
    return scalar_load(to, &cell, 0);
}
