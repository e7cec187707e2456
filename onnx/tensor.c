/* TensorProto -> type, shape, bytes.
 *
 * In: an unpacked TensorProto whose raw bytes lie in a mapped file, or which names an external file. Out: a TensorDef
 * that points into those bytes where they lie as its type wants them, and else to a copy. Must hold: the bytes are
 * exactly as many as the shape says; every number is in its type's range; bools are 0 or 1. To add an element type: a
 * row in `types`, a name in tgrun.h's TgType.
 */
#include "onnx/tensor.h"

#include <string.h>

/* store: the typed field that holds it: f float_data, i int32_data, l int64_data, d double_data, u uint64_data, s
 * string_data. least, largest: of int32_data. */
typedef struct {
    const char *name;
    uint8_t bits, align;
    char store;
    int32_t least, largest;
} TypeRow;
static const TypeRow types[] = {
    [TG_F32] = { "f32", 32, 4, 'f', 0, 0 },
    [TG_U8] = { "u8", 8, 1, 'i', 0, 255 },
    [TG_I8] = { "i8", 8, 1, 'i', -128, 127 },
    [TG_U16] = { "u16", 16, 2, 'i', 0, 65535 },
    [TG_I16] = { "i16", 16, 2, 'i', -32768, 32767 },
    [TG_I32] = { "i32", 32, 4, 'i', INT32_MIN, INT32_MAX },
    [TG_I64] = { "i64", 64, 8, 'l', 0, 0 },
    [TG_STRING] = { "string", 8 * sizeof(char *), 8, 's', 0, 0 },
    [TG_BOOL] = { "bool", 8, 1, 'i', 0, 1 },
    [TG_F16] = { "f16", 16, 2, 'i', 0, 65535 },
    [TG_F64] = { "f64", 64, 8, 'd', 0, 0 },
    [TG_U32] = { "u32", 32, 4, 'u', 0, 0 },
    [TG_U64] = { "u64", 64, 8, 'u', 0, 0 },
    [TG_COMPLEX64] = { "c64", 64, 4, 'f', 0, 0 },
    [TG_COMPLEX128] = { "c128", 128, 8, 'd', 0, 0 },
    [TG_BF16] = { "bf16", 16, 2, 'i', 0, 65535 },
    [TG_F8E4M3FN] = { "f8e4m3fn", 8, 1, 'i', 0, 255 },
    [TG_F8E4M3FNUZ] = { "f8e4m3fnuz", 8, 1, 'i', 0, 255 },
    [TG_F8E5M2] = { "f8e5m2", 8, 1, 'i', 0, 255 },
    [TG_F8E5M2FNUZ] = { "f8e5m2fnuz", 8, 1, 'i', 0, 255 },
    [TG_U4] = { "u4", 4, 1, 'i', 0, 255 },
    [TG_I4] = { "i4", 4, 1, 'i', -128, 255 },
    [TG_F4E2M1] = { "f4e2m1", 4, 1, 'i', 0, 255 },
    [TG_F8E8M0] = { "f8e8m0", 8, 1, 'i', 0, 255 },
    [TG_U2] = { "u2", 2, 1, 'i', 0, 255 },
    [TG_I2] = { "i2", 2, 1, 'i', -128, 255 },
    [TG_F6E2M3] = { "f6e2m3", 6, 1, 'i', 0, 63 },
    [TG_F6E3M2] = { "f6e3m2", 6, 1, 'i', 0, 63 },
};
enum { TYPES = sizeof types / sizeof *types };

static const TypeRow *row_of(int32_t type)
{
    return type > 0 && type < TYPES && types[type].name ? &types[type] : NULL;
}
bool type_known(int32_t type) { return row_of(type) != NULL; }
int32_t tg_type_bits(TgType type) { return type_known((int32_t)type) ? types[type].bits : 0; }

const char *tg_type_name(TgType type)
{
    switch (type) {
    case TG_SEQUENCE: return "seq";
    case TG_OPTIONAL: return "optional";
    case TG_MAP: return "map";
    default: return type_known((int32_t)type) ? types[type].name : "?";
    }
}

bool shape_numel(const int64_t *dim, size_t rank, int64_t *numel)
{
    bool empty = false;
    *numel = 1;
    for (size_t k = 0; k < rank; k++) {
        if (dim[k] < 0) return false;
        if (!dim[k]) empty = true;
    }
    for (size_t k = 0; k < rank && !empty; k++)
        if (__builtin_mul_overflow(*numel, dim[k], numel)) return false;
    if (empty) *numel = 0;
    return true;
}

bool type_bytes(int32_t type, int64_t numel, size_t *bytes)
{
    int64_t bits;
    if (type == TG_STRING) return !__builtin_mul_overflow((size_t)numel, sizeof(TensorString), bytes);
    if (__builtin_mul_overflow(numel, (int64_t)types[type].bits, &bits) || bits > INT64_MAX - 7) return false;
    *bytes = (size_t)((bits + 7) / 8);
    return true;
}

void bits_unpack(uint8_t *out, const uint8_t *packed, int64_t n, unsigned bits, bool is_signed)
{
    unsigned held = 0, count = 0, mask = (1u << bits) - 1, sign = is_signed ? 1u << (bits - 1) : 0;
    for (int64_t k = 0; k < n; k++, held >>= bits, count -= bits) {
        if (count < bits) held |= (unsigned)*packed++ << count, count += 8;
        out[k] = (uint8_t)(((held & mask) ^ sign) - sign);
    }
}

void bits_pack(uint8_t *packed, const uint8_t *in, int64_t n, unsigned bits)
{
    unsigned held = 0, count = 0, mask = (1u << bits) - 1;
    for (int64_t k = 0; k < n; k++) {
        held |= (in[k] & mask) << count;
        count += bits;
        if (count >= 8) *packed++ = (uint8_t)held, held >>= 8, count -= 8;
    }
    if (count) *packed = (uint8_t)held;
}

static void *room(const TensorSource *s, size_t size)
{
    bool large = s->files && size > ((size_t)64 << 10);     /* an arena would zero it first */
    void *p = large ? files_block(s->files, size) : NULL;
    return p ? p : arena_alloc(s->arena, size);
}

/* Bytes as a file has them: used in place unless they lie at an odd address or hold a bool that is neither 0 nor 1. */
static void adopt(TensorDef *t, const TensorSource *s, Bytes b)
{
    bool stray = false;
    for (size_t k = 0; t->type == TG_BOOL && k < b.size; k++) stray |= b.data[k] > 1;
    t->data = b.data;
    if (!stray && !((uintptr_t)b.data % types[t->type].align)) return;
    uint8_t *copy = room(s, b.size);
    memcpy(copy, b.data, b.size);
    for (size_t k = 0; stray && k < b.size; k++) copy[k] = copy[k] != 0;
    if (s->files) files_forget(s->files, b);
    t->data = copy;
}

static bool decimal(const char *text, uint64_t *out)
{
    *out = 0;
    for (const char *c = text; *c; c++)
        if (*c < '0' || *c > '9' || __builtin_mul_overflow(*out, 10, out) ||
            __builtin_add_overflow(*out, (uint64_t)(*c - '0'), out))
            return false;
    return *text != 0;
}

static TgStatus decode_external(TensorDef *t, const TensorSource *s, const Onnx__TensorProto *p, const Place *at)
{
    static const char *const keys[] = { "location", "offset", "length" };
    const char *value[3] = { NULL, NULL, NULL };
    uint64_t offset = 0, length = t->size_bytes;
    Bytes file;
    for (size_t k = 0; k < p->n_external_data; k++)
        for (int i = 0; i < 3; i++) {
            const char *key = p->external_data[k]->key;
            if (!key || strcmp(key, keys[i])) continue;
            if (value[i]) return FAIL_AT(at, "external data give %s twice", key);
            value[i] = p->external_data[k]->value ? p->external_data[k]->value : "";
        }
    if (!s->files) return FAIL_AT(at, "external data are not allowed here");
    if (!value[0]) return FAIL_AT(at, "external data without a location");
    if (value[1] && !decimal(value[1], &offset)) return FAIL_AT(at, "external offset '%s' is no number", value[1]);
    if (value[2] && !decimal(value[2], &length)) return FAIL_AT(at, "external length '%s' is no number", value[2]);
    if (length != t->size_bytes)
        return FAIL_AT(at, "external length is %llu bytes; type and shape need %zu", (unsigned long long)length,
                       t->size_bytes);
    TgStatus status = files_map(&file, s->files, value[0], at->field);
    if (status != TG_OK) return status;
    if (offset > file.size || length > file.size - offset)
        return FAIL_AT(at, "external file '%s' has %zu bytes; %llu at offset %llu lie outside", value[0], file.size,
                       (unsigned long long)length, (unsigned long long)offset);
    Bytes b = { file.data + offset, length };
    files_digest(s->files, b);
    adopt(t, s, b);
    return TG_OK;
}

/* Do numbers of int32_data hold bytes of packed elements? Those of 6 bits stand one a number. */
static bool holds_packed(const TypeRow *row) { return row->bits < 6; }

/* int32_data holds one element a number, or packed bytes of the types narrower than a byte. */
static TgStatus decode_int32(TensorDef *t, const TensorSource *s, const Onnx__TensorProto *p, const Place *at)
{
    const TypeRow *row = &types[t->type];
    if (row->bits == 32) return t->data = p->int32_data, TG_OK;
    uint8_t *out = room(s, row->bits == 6 ? (size_t)t->numel : t->size_bytes);
    for (size_t k = 0; k < p->n_int32_data; k++) {
        int32_t v = p->int32_data[k];
        if (v < row->least || v > row->largest) return FAIL_AT(at, "value %d at %zu is outside %s", v, k, row->name);
        if (row->bits == 16) memcpy(out + 2 * k, &(uint16_t){ (uint16_t)v }, 2);
        else out[k] = (uint8_t)v;
    }
    if (row->bits == 6) bits_pack(out, out, t->numel, 6);
    t->data = out;
    return TG_OK;
}

static TgStatus decode_uint32(TensorDef *t, const TensorSource *s, const Onnx__TensorProto *p, const Place *at)
{
    uint32_t *out = room(s, t->size_bytes);
    for (size_t k = 0; k < p->n_uint64_data; k++) {
        if (p->uint64_data[k] > UINT32_MAX)
            return FAIL_AT(at, "value %llu at %zu is outside u32", (unsigned long long)p->uint64_data[k], k);
        out[k] = (uint32_t)p->uint64_data[k];
    }
    t->data = out;
    return TG_OK;
}

static TgStatus decode_strings(TensorDef *t, const TensorSource *s, const Onnx__TensorProto *p)
{
    TensorString *out = NEW_N(s->arena, TensorString, p->n_string_data);
    for (size_t k = 0; k < p->n_string_data; k++) {
        Bytes b = wire_bytes(s->wire, &p->string_data[k]);
        out[k] = (TensorString){ (const char *)b.data, b.size };
    }
    t->data = out;
    return TG_OK;
}

/* The typed fields: exactly the one that the type requests, with exactly as many numbers as the shape. */
static TgStatus decode_typed(TensorDef *t, const TensorSource *s, const Onnx__TensorProto *p, const Place *at)
{
    const struct { char store; const char *name; size_t n; const void *data; } fields[] = {
        { 'f', "float_data", p->n_float_data, p->float_data },    { 'i', "int32_data", p->n_int32_data, p->int32_data },
        { 'l', "int64_data", p->n_int64_data, p->int64_data },    { 'd', "double_data", p->n_double_data, p->double_data },
        { 'u', "uint64_data", p->n_uint64_data, p->uint64_data }, { 's', "string_data", p->n_string_data, p->string_data },
    };
    bool complex = t->type == TG_COMPLEX64 || t->type == TG_COMPLEX128;
    const TypeRow *row = &types[t->type];
    size_t want = holds_packed(row) ? t->size_bytes : (size_t)t->numel * (complex ? 2 : 1);
    for (size_t k = 0; k < sizeof fields / sizeof *fields; k++) {
        if (fields[k].store != row->store && fields[k].n)
            return FAIL_AT(at, "%s cannot hold %s", fields[k].name, row->name);
        if (fields[k].store != row->store) continue;
        if (!fields[k].n && want) return FAIL_AT(at, "has no data; its shape needs %lld elements", (long long)t->numel);
        if (fields[k].n != want)
            return FAIL_AT(at, "%s has %zu values; type and shape need %zu", fields[k].name, fields[k].n, want);
        t->data = fields[k].data;
    }
    if (row->store == 'i') return decode_int32(t, s, p, at);
    if (t->type == TG_U32) return decode_uint32(t, s, p, at);
    return row->store == 's' ? decode_strings(t, s, p) : TG_OK;
}

static TgStatus decode_header(TensorDef *t, const TensorSource *s, const Onnx__TensorProto *p, const Place *at)
{
    *t = (TensorDef){
        .name = p->name ? p->name : "", .type = p->data_type, .rank = (uint32_t)p->n_dims, .shape = p->dims
    };
    if (!p->n_dims) t->shape = NEW(s->arena, int64_t);
    if (!p->data_type) return FAIL_AT(at, "tensor without a data_type");
    if (!type_known(p->data_type)) return FAIL_AT(at, "data_type %d is not supported", p->data_type);
    if (p->segment)
        return fail_at(TG_UNSUPPORTED, at->node, at->op, at->field, "tensors in segments are not supported");
    if (p->n_dims > TG_MAX_RANK)
        return fail_at(TG_UNSUPPORTED, at->node, at->op, at->field, "rank %zu; at most %d is supported", p->n_dims,
                       TG_MAX_RANK);
    if (!shape_numel(p->dims, p->n_dims, &t->numel) || !type_bytes(t->type, t->numel, &t->size_bytes))
        return FAIL_AT(at, "its dims are negative or too large");
    return TG_OK;
}

TgStatus tensor_decode(TensorDef *out, const TensorSource *s, const Onnx__TensorProto *p, const Place *at)
{
    TRY(decode_header(out, s, p, at));
    bool typed = p->n_float_data || p->n_int32_data || p->n_int64_data || p->n_double_data || p->n_uint64_data ||
        p->n_string_data;
    bool external = p->has_data_location && p->data_location == ONNX__TENSOR_PROTO__DATA_LOCATION__EXTERNAL;
    if (p->has_data_location && !external && p->data_location)
        return FAIL_AT(at, "data_location %d is unknown", (int)p->data_location);
    Bytes raw = p->has_raw_data ? wire_bytes(s->wire, &p->raw_data) : (Bytes){ NULL, 0 };
    if ((external && (typed || raw.size)) || (typed && raw.size)) return FAIL_AT(at, "gives its data in two places");
    if (out->type == TG_STRING && (external || raw.size)) return FAIL_AT(at, "strings must be in string_data");
    if (external) TRY(decode_external(out, s, p, at));
    else if (!raw.size) TRY(decode_typed(out, s, p, at));
    else if (raw.size != out->size_bytes)
        return FAIL_AT(at, "raw_data has %zu bytes; type and shape need %zu", raw.size, out->size_bytes);
    else adopt(out, s, raw);
    if (!out->data) out->data = arena_alloc(s->arena, 16);
    return TG_OK;
}

TgStatus tensor_decode_given(TensorDef *out, const TensorSource *s, const Onnx__TensorProto *p, Bytes given,
                             const Place *at)
{
    TRY(decode_header(out, s, p, at));
    if (out->type == TG_STRING)
        return fail_at(TG_UNSUPPORTED, NULL, NULL, at->field, "is of strings, which cannot be given");
    if (given.size != out->size_bytes)
        return fail_at(TG_BAD_INPUT, NULL, NULL, at->field, "%zu bytes are given; type and shape need %zu", given.size,
                       out->size_bytes);
    files_digest(s->files, (Bytes){ (const uint8_t *)out->name, strlen(out->name) + 1 });
    files_digest(s->files, given);
    if (given.size) adopt(out, s, given);
    else out->data = arena_alloc(s->arena, 16);
    return TG_OK;
}

/* The index of nonzero k: linear, or one number an axis. */
static bool sparse_position(const TensorDef *dense, const TensorDef *index, size_t k, int64_t *out)
{
    const int64_t *v = index->data;
    if (index->rank == 1) return *out = v[k], v[k] >= 0 && v[k] < dense->numel;
    *out = 0;
    for (uint32_t d = 0; d < dense->rank; d++) {
        int64_t i = v[k * dense->rank + d];
        if (i < 0 || i >= dense->shape[d]) return false;
        *out = *out * dense->shape[d] + i;
    }
    return true;
}

TgStatus tensor_decode_sparse(TensorDef *out, TensorSource *s, const Onnx__SparseTensorProto *p, const Place *at)
{
    TensorDef values, index;
    if (!p->values || !p->indices) return FAIL_AT(at, "sparse tensor without values or indices");
    TRY(tensor_decode(&values, s, p->values, at));
    TRY(tensor_decode(&index, s, p->indices, at));
    const TypeRow *row = &types[values.type];
    *out = (TensorDef){ .name = values.name, .type = values.type, .rank = (uint32_t)p->n_dims, .shape = p->dims };
    if (p->n_dims > TG_MAX_RANK)
        return fail_at(TG_UNSUPPORTED, at->node, at->op, at->field, "rank %zu; at most %d is supported", p->n_dims,
                       TG_MAX_RANK);
    if (row->bits < 8 || values.type == TG_STRING)
        return fail_at(TG_UNSUPPORTED, at->node, at->op, at->field, "sparse %s is not supported", row->name);
    if (!p->n_dims || !shape_numel(p->dims, p->n_dims, &out->numel) ||
        !type_bytes(out->type, out->numel, &out->size_bytes))
        return FAIL_AT(at, "its dims are missing, negative or too large");
    if (out->size_bytes > s->dense_left)
        return fail_at(TG_LIMIT, at->node, at->op, at->field, "sparse tensors of more than %zu MiB, made dense",
                       DENSE_LIMIT >> 20);
    s->dense_left -= out->size_bytes;
    bool pairs = index.rank == 2 && index.shape[0] == values.numel && index.shape[1] == (int64_t)p->n_dims;
    if (index.type != TG_I64 || values.rank != 1 || !(pairs || (index.rank == 1 && index.numel == values.numel)))
        return FAIL_AT(at, "indices must be i64[n] or i64[n,rank] for values[n]");
    size_t size = row->bits / 8u;
    uint8_t *dense = room(s, out->size_bytes);
    memset(dense, 0, out->size_bytes);
    for (int64_t k = 0, to; k < values.numel; k++) {
        if (!sparse_position(out, &index, (size_t)k, &to))
            return FAIL_AT(at, "the position of value %lld is outside the tensor", (long long)k);
        memcpy(dense + (size_t)to * size, (const uint8_t *)values.data + (size_t)k * size, size);
    }
    out->data = dense;
    return TG_OK;
}
