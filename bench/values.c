#include "bench/values.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

int64_t tensor_numel(const TgTensor *t)
{
    int64_t n = 1;
    for (int32_t k = 0; k < t->rank; k++) n *= t->shape[k];
    return n;
}

bool ends_with(const char *s, const char *end)
{
    size_t n = strlen(s), m = strlen(end);
    return n >= m && !strcmp(s + n - m, end);
}

bool type_is_float(TgType t) { return t == TG_F16 || t == TG_BF16 || t == TG_F32 || t == TG_F64; }
static bool is_signed_packed(TgType t) { return t == TG_I4 || t == TG_I2; }
static bool is_packed_float(TgType t) { return t == TG_F4E2M1 || t == TG_F6E2M3 || t == TG_F6E3M2; }
static bool is_packed(TgType t) { return t == TG_U4 || t == TG_U2 || is_packed_float(t) || is_signed_packed(t); }
bool type_is_integer(TgType t)
{
    return t == TG_BOOL || (t >= TG_U8 && t <= TG_I64) || t == TG_U32 || t == TG_U64 ||
        (is_packed(t) && !is_packed_float(t));
}

TgType type_named(const char *name, size_t len)
{
    for (int t = 1; t <= TG_F6E3M2; t++) {
        const char *s = tg_type_name((TgType)t);
        if (strlen(s) == len && !memcmp(s, name, len)) return (TgType)t;
    }
    return 0;
}

/* ---- half precision, by bits: not every compiler has the types ---- */

static double half_get(uint16_t h)
{
    int e = h >> 10 & 31, m = h & 1023;
    double v = e == 31 ? (m ? NAN : INFINITY) : e ? ldexp(1024 + m, e - 25) : ldexp(m, -24);
    return h >> 15 ? -v : v;
}

static uint16_t half_put(double v)
{
    uint16_t sign = signbit(v) ? 0x8000 : 0;
    double a = fabs(v);
    if (isnan(v)) return 0x7e00;
    if (a >= 65520) return sign | 0x7c00;
    int e;
    frexp(a, &e);
    if (e < -13) e = -13;                                       /* denormals share the smallest exponent's step */
    int64_t steps = (int64_t)nearbyint(ldexp(a, 11 - e)); /* of 2^(e-11); 2048 carries into the exponent by itself */
    return (uint16_t)(sign | (steps < 1024 ? steps : ((e + 13) << 10) + steps));
}

static double bf16_get(uint16_t h)
{
    uint32_t u = (uint32_t)h << 16;
    float f;
    memcpy(&f, &u, 4);
    return (double)f;
}

static uint16_t bf16_put(double v)
{
    float f = (float)v;
    uint32_t u;
    memcpy(&u, &f, 4);
    if (isnan(v)) return 0x7fc0;
    return (uint16_t)((u + 0x7fff + (u >> 16 & 1)) >> 16);
}

/* ---- elements of 6, 4 and 2 bits, the first in the lowest; those of 6 lie across bytes ---- */

static int64_t packed_get(TgType t, const void *data, int64_t i)
{
    int64_t bits = tg_type_bits(t), shift = i * bits % 8, sign = is_signed_packed(t) ? 1 << (bits - 1) : 0;
    const uint8_t *byte = &((const uint8_t *)data)[i * bits / 8];
    int64_t v = *byte >> shift | (shift + bits > 8 ? byte[1] << (8 - shift) : 0);
    return ((v & ((1 << bits) - 1)) ^ sign) - sign;
}

static void packed_put(TgType t, void *data, int64_t i, int64_t v)
{
    int64_t bits = tg_type_bits(t), shift = i * bits % 8, mask = ((1 << bits) - 1) << shift;
    uint8_t *byte = &((uint8_t *)data)[i * bits / 8];
    int64_t moved = (int64_t)((uint64_t)v << shift) & mask;
    byte[0] = (uint8_t)((byte[0] & ~mask) | moved);
    if (mask >> 8) byte[1] = (uint8_t)((byte[1] & ~(mask >> 8)) | moved >> 8);
}

/* ---- elements ---- */

#define TYPES(X) \
    X(TG_BOOL, uint8_t) \
    X(TG_U8, uint8_t) X(TG_I8, int8_t) X(TG_U16, uint16_t) X(TG_I16, int16_t) X(TG_U32, uint32_t) X(TG_I32, int32_t) \
        X(TG_U64, uint64_t) X(TG_I64, int64_t)

double value_get(TgType t, const void *data, int64_t i)
{
    switch (t) {
#define GET(type, c) case type: return (double)((const c *)data)[i];
    TYPES(GET)
#undef GET
    case TG_F32: return (double)((const float *)data)[i];
    case TG_F64: return ((const double *)data)[i];
    case TG_F16: return half_get(((const uint16_t *)data)[i]);
    case TG_BF16: return bf16_get(((const uint16_t *)data)[i]);
    default: return type_is_integer(t) ? (double)packed_get(t, data, i) : 0;
    }
}

int64_t value_get_int(TgType t, const void *data, int64_t i)
{
    switch (t) {
#define GET(type, c) case type: return (int64_t)((const c *)data)[i];
    TYPES(GET)
#undef GET
    default: return is_packed(t) ? packed_get(t, data, i) : 0;
    }
}

void value_put_int(TgType t, void *data, int64_t i, int64_t v)
{
    switch (t) {
#define PUT(type, c) case type: ((c *)data)[i] = type == TG_BOOL ? v != 0 : (c)v; break;
    TYPES(PUT)
#undef PUT
    default:
        if (is_packed(t)) packed_put(t, data, i, v);
        else value_put(t, data, i, (double)v);
    }
}

void value_put(TgType t, void *data, int64_t i, double v)
{
    switch (t) {
    case TG_F32: ((float *)data)[i] = (float)v; break;
    case TG_F64: ((double *)data)[i] = v; break;
    case TG_F16: ((uint16_t *)data)[i] = half_put(v); break;
    case TG_BF16: ((uint16_t *)data)[i] = bf16_put(v); break;
    default:
        if (type_is_integer(t))
            value_put_int(t, data, i, isnan(v) ? 0 : (int64_t)fmin(fmax(nearbyint(v), -0x1p63), 0x1.fffffffffffffp62));
    }
}

bool tensor_new(TgTensor *out, TgType type, const int64_t *shape, int32_t rank)
{
    int64_t bits = tg_type_bits(type), bytes;
    *out = (TgTensor){ .type = type, .rank = rank };
    for (int32_t k = 0; k < rank; k++)
        if (shape[k] < 0 || __builtin_mul_overflow(bits, shape[k], &bits)) return false;
        else out->shape[k] = shape[k];
    bytes = bits / 8 + (bits % 8 != 0);
    out->size_bytes = (size_t)bytes;
    out->data = calloc((size_t)bytes + 64, 1);
    return out->data != NULL;
}

/* One block as tg_tensor_free wants it: pointers, then the strings. */
static char **copy_strings(char *const *s, int64_t n)
{
    size_t size = sizeof *s * (size_t)n + 1;
    for (int64_t k = 0; k < n; k++) size += strlen(s[k]) + 1;
    char **out = malloc(size), *to = out ? (char *)(out + n) : NULL;
    for (int64_t k = 0; out && k < n; k++) {
        out[k] = to;
        to = stpcpy(to, s[k]) + 1;
    }
    return out;
}

bool tensor_copy(TgTensor *out, const TgTensor *t)
{
    *out = *t;
    out->data = t->type == TG_STRING ? (void *)copy_strings(t->data, tensor_numel(t)) : calloc(t->size_bytes + 64, 1);
    bool ok = out->data != NULL;
    for (int64_t k = 0; ok && holds_tensors(t) && k < t->shape[0]; k++)
        ok = tensor_copy((TgTensor *)out->data + k, (const TgTensor *)t->data + k);
    if (ok && t->size_bytes && !holds_tensors(t) && t->type != TG_STRING) memcpy(out->data, t->data, t->size_bytes);
    return ok;
}

/* ---- text ---- */

static void print_title(FILE *f, const TgTensor *t)
{
    enum { SHOWN = 3 };
    fputs(tg_type_name(t->type), f);
    if (!holds_tensors(t) || t->type == TG_SEQUENCE) {
        fputc('[', f);
        for (int32_t k = 0; k < t->rank; k++) fprintf(f, "%s%ld", k ? "," : "", (long)t->shape[k]);
        fputc(']', f);
    }
    if (!holds_tensors(t)) return;
    fputc('(', f);
    for (int64_t k = 0; k < t->shape[0] && k < SHOWN; k++) {
        if (k) fputc(',', f);
        print_title(f, (const TgTensor *)t->data + k);
    }
    fputs(t->shape[0] > SHOWN ? ",..)" : ")", f);
}

void tensor_title(const TgTensor *t, char *out, size_t cap)
{
    char *text = NULL;
    size_t size;
    FILE *f = open_memstream(&text, &size);
    *out = 0;
    if (!f) return;
    print_title(f, t);
    if (!fclose(f)) snprintf(out, cap, "%s", text);
    free(text);
}

static void print_value(FILE *f, const TgTensor *t, int64_t i)
{
    if (type_is_float(t->type)) fprintf(f, "%.7g", value_get(t->type, t->data, i));
    else if (t->type == TG_U64) fprintf(f, "%lu", ((const unsigned long *)t->data)[i]);
    else if (type_is_integer(t->type)) fprintf(f, "%ld", (long)value_get_int(t->type, t->data, i));
    else if (t->type == TG_STRING) fprintf(f, "'%s'", ((const char *const *)t->data)[i]);
    else fputc('?', f);
}

static void print_axis(FILE *f, const TgTensor *t, int32_t axis, int64_t first)
{
    enum { EDGE = 3 };
    int64_t n = axis < t->rank ? t->shape[axis] : 1, inner = 1;
    if (axis == t->rank) return print_value(f, t, first);
    for (int32_t k = axis + 1; k < t->rank; k++) inner *= t->shape[k];
    fputc('[', f);
    for (int64_t i = 0; i < n; i++) {
        if (i) fprintf(f, axis + 1 < t->rank ? "\n%*s" : " ", axis + 1, "");
        if (n > 4 * EDGE && i == EDGE) {
            fprintf(f, axis + 1 < t->rank ? "...\n%*s" : "... ", axis + 1, "");
            i = n - EDGE;
        }
        print_axis(f, t, axis + 1, first + i * inner);
    }
    fputc(']', f);
}

void tensor_print(FILE *f, const char *name, const TgTensor *t)
{
    fprintf(f, "%s  ", name);
    print_title(f, t);
    fputc('\n', f);
    if (!holds_tensors(t)) {
        print_axis(f, t, 0, 0);
        fputc('\n', f);
    }
    for (int64_t k = 0; holds_tensors(t) && k < t->shape[0]; k++) {
        char inside[200];
        snprintf(inside, sizeof inside, "%.150s[%ld]", name, (long)k);
        tensor_print(f, inside, (const TgTensor *)t->data + k);
    }
}
