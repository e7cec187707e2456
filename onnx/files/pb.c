/* Serialized TensorProto, SequenceProto, OptionalProto, MapProto <-> tensors and what holds them (tgrun.h): the
 * standard's own test data. In: bytes from anybody. Out: each tensor in one malloc'ed block (strings: pointers, then
 * their bytes). A file does not say which of the four it is: the reader knows it from the port. */
#include <stdlib.h>
#include <string.h>

#include "graph/base/memory.h"
#include "onnx/files/npy.h"
#include "onnx/onnx-data.pb-c.h"
#include "onnx/files/save.h"
#include "onnx/tensor.h"

static void *copy_strings(const TensorDef *d)
{
    const TensorString *s = d->data;
    size_t size = sizeof(char *) * (size_t)d->numel + 1;
    for (int64_t k = 0; k < d->numel; k++) size += s[k].len + 1;
    char **out = malloc(size), *to = out ? (char *)(out + d->numel) : NULL;
    for (int64_t k = 0; out && k < d->numel; k++) {
        out[k] = to;
        if (s[k].len) memcpy(to, s[k].s, s[k].len);
        to[s[k].len] = 0;
        to += s[k].len + 1;
    }
    return out;
}

static TgStatus take(TgTensor *out, const TensorDef *d)
{
    *out = (TgTensor){ .type = (TgType)d->type,
                       .rank = (int32_t)d->rank,
                       .size_bytes = d->type == TG_STRING ? (size_t)d->numel * sizeof(char *) : d->size_bytes };
    for (uint32_t k = 0; k < d->rank; k++) out->shape[k] = d->shape[k];
    for (int64_t k = 0; d->type == TG_STRING && k < d->numel; k++) {
        const TensorString *s = &((const TensorString *)d->data)[k];
        if (s->len && memchr(s->s, 0, s->len)) return fail(TG_BAD_INPUT, "string %lld holds a zero byte", (long long)k);
    }
    out->data = d->type == TG_STRING ? copy_strings(d) : malloc(d->size_bytes + 1);
    if (!out->data) return fail(TG_LIMIT, "%zu bytes of memory are not there", d->size_bytes);
    if (d->type != TG_STRING && d->size_bytes) memcpy(out->data, d->data, d->size_bytes);
    return TG_OK;
}

/* ---- reading */

static const Place at_tensor = { TG_BAD_INPUT, NULL, NULL, "TensorProto" };

static TgStatus read_tensor(TgTensor *out, const TensorSource *s, const Onnx__TensorProto *p)
{
    TensorDef d;
    TRY(tensor_decode(&d, s, p, &at_tensor));
    return take(out, &d);
}

/* Room for n tensors inside; those that are not read yet are empty, so that a holder can be freed at any time. */
static TgStatus hold(TgTensor *out, TgType type, size_t n)
{
    *out = (TgTensor){ .type = type,
                       .rank = 1,
                       .shape = { (int64_t)n },
                       .data = calloc(n + 1, sizeof *out),
                       .size_bytes = n * sizeof *out };
    return out->data ? TG_OK : fail(TG_LIMIT, "no memory for %zu tensors", n);
}

/* Keys in the order of the file, as one tensor. */
static TgStatus read_keys(TgTensor *out, const TensorSource *s, const Onnx__MapProto *p)
{
    Onnx__TensorProto keys = ONNX__TENSOR_PROTO__INIT;
    bool text = p->n_string_keys > 0;
    int64_t n = (int64_t)(text ? p->n_string_keys : p->n_keys);
    if (text && p->n_keys) return fail_at(TG_BAD_INPUT, NULL, NULL, "MapProto.keys", "numbers and strings");
    keys.has_data_type = 1;
    keys.data_type = text || p->key_type == TG_STRING ? TG_STRING : TG_I64;
    keys.n_dims = 1, keys.dims = &n;
    keys.n_int64_data = p->n_keys, keys.int64_data = p->keys;
    keys.n_string_data = p->n_string_keys, keys.string_data = p->string_keys;
    return read_tensor(out, s, &keys);
}

/* The values of n maps, each a sequence of one-element tensors, as the rows of one tensor that is made of their
 * messages. */
static TgStatus read_values(TgTensor *out, const TensorSource *s, Onnx__MapProto *const *map, size_t n, int64_t width,
                            uint32_t rank)
{
    TensorDef all = { .rank = rank,
                      .shape = rank == 2 ? (int64_t[]){ (int64_t)n, width } : &width,
                      .numel = (int64_t)n * width },
              one;
    char *to = NULL;
    for (size_t i = 0; i < n; i++) {
        const Onnx__SequenceProto *values = map[i]->values;
        if ((values ? values->n_tensor_values : 0) != (size_t)width)
            return fail_at(TG_BAD_INPUT, NULL, NULL, "MapProto.values", "not as many as keys");
        for (int64_t k = 0; k < width; k++) {
            TRY(tensor_decode(&one, s, values->tensor_values[k], &at_tensor));
            if (one.numel != 1 || tg_type_bits((TgType)one.type) < 8 || (all.data && one.type != all.type))
                return fail_at(TG_BAD_INPUT, NULL, NULL, "MapProto.values",
                               "value %lld is not one element of the others' type", (long long)k);
            if (!all.data) {
                all.type = one.type;
                all.size_bytes = (size_t)all.numel * one.size_bytes;
                all.data = to = arena_alloc(s->arena, all.size_bytes);
            }
            memcpy(to, one.data, one.size_bytes);
            to += one.size_bytes;
        }
    }
    if (!all.data) all.type = TG_F32;                       /* no key, no value that would tell */
    return take(out, &all);
}

/* rank 1: one map; 2: a sequence of n with the same keys. */
static TgStatus read_maps(TgTensor *out, const TensorSource *s, Onnx__MapProto *const *map, size_t n, uint32_t rank)
{
    TRY(hold(out, TG_MAP, 2));
    TgTensor *part = out->data;
    TRY(read_keys(&part[0], s, n ? map[0] : &(Onnx__MapProto)ONNX__MAP_PROTO__INIT));
    return read_values(&part[1], s, map, n, part[0].shape[0], rank);
}

/* Have n maps the keys of the first, in its order? */
static bool same_keys(const Wire *wire, Onnx__MapProto *const *map, size_t n)
{
    for (size_t k = 1; k < n; k++) {
        const Onnx__MapProto *a = map[0], *b = map[k];
        if (a->n_keys != b->n_keys || a->n_string_keys != b->n_string_keys ||
            (a->n_keys && memcmp(a->keys, b->keys, a->n_keys * sizeof *a->keys)))
            return false;
        for (size_t i = 0; i < a->n_string_keys; i++) {
            Bytes x = wire_bytes(wire, &a->string_keys[i]), y = wire_bytes(wire, &b->string_keys[i]);
            if (x.size != y.size || memcmp(x.data, y.data, x.size)) return false;
        }
    }
    return true;
}

static TgStatus read_sequence(TgTensor *out, const TensorSource *s, const Onnx__SequenceProto *p);
static TgStatus read_optional(TgTensor *out, const TensorSource *s, const Onnx__OptionalProto *p);

/* What a SequenceProto or an OptionalProto holds: values of one kind. */
typedef struct {
    size_t tensors, sequences, maps, optionals, sparse;
    Onnx__TensorProto *const *tensor;
    Onnx__SequenceProto *const *sequence;
    Onnx__MapProto *const *map;
    Onnx__OptionalProto *const *optional;
} Held;

static TgStatus read_held(TgTensor *out, const TensorSource *s, TgType type, const Held *h)
{
    size_t n = h->tensors + h->sequences + h->maps + h->optionals;
    if (h->sparse) return fail(TG_UNSUPPORTED, "sparse tensors inside a %s are not covered", tg_type_name(type));
    if (n != h->tensors && n != h->sequences && n != h->maps && n != h->optionals)
        return fail(TG_BAD_INPUT, "a %s of values of several kinds", tg_type_name(type));
    TRY(hold(out, type, n));
    TgTensor *part = out->data;
    for (size_t k = 0; k < h->tensors; k++) TRY(read_tensor(&part[k], s, h->tensor[k]));
    for (size_t k = 0; k < h->sequences; k++) TRY(read_sequence(&part[k], s, h->sequence[k]));
    for (size_t k = 0; k < h->maps; k++) TRY(read_maps(&part[k], s, &h->map[k], 1, 1));
    for (size_t k = 0; k < h->optionals; k++) TRY(read_optional(&part[k], s, h->optional[k]));
    return TG_OK;
}

static TgStatus read_optional(TgTensor *out, const TensorSource *s, const Onnx__OptionalProto *p)
{
    return read_held(out, s, TG_OPTIONAL,
                     &(Held){ p->tensor_value != NULL, p->sequence_value != NULL, p->map_value != NULL,
                              p->optional_value != NULL, p->sparse_tensor_value != NULL, &p->tensor_value,
                              &p->sequence_value, &p->map_value, &p->optional_value });
}

static TgStatus read_sequence(TgTensor *out, const TensorSource *s, const Onnx__SequenceProto *p)
{
    if (p->elem_type == ONNX__SEQUENCE_PROTO__DATA_TYPE__MAP && same_keys(s->wire, p->map_values, p->n_map_values))
        return read_maps(out, s, p->map_values, p->n_map_values, 2);
    return read_held(out, s, TG_SEQUENCE,
                     &(Held){ p->n_tensor_values, p->n_sequence_values, p->n_map_values, p->n_optional_values,
                              p->n_sparse_tensor_values, p->tensor_values, p->sequence_values, p->map_values,
                              p->optional_values });
}

static TgStatus read_message(TgTensor *out, const TensorSource *s, TgType want)
{
    ProtobufCMessage *message;
    const ProtobufCMessageDescriptor *type = want == TG_SEQUENCE ? &onnx__sequence_proto__descriptor
        : want == TG_OPTIONAL                                    ? &onnx__optional_proto__descriptor
        : want == TG_MAP                                         ? &onnx__map_proto__descriptor
                                                                 : &onnx__tensor_proto__descriptor;
    TRY(wire_unpack(&message, s->wire, type));
    switch (want) {
    case TG_SEQUENCE: return read_sequence(out, s, (const Onnx__SequenceProto *)message);
    case TG_OPTIONAL: return read_optional(out, s, (const Onnx__OptionalProto *)message);
    case TG_MAP: return read_maps(out, s, &(Onnx__MapProto *){ (Onnx__MapProto *)message }, 1, 1);
    default: return read_tensor(out, s, (const Onnx__TensorProto *)message);
    }
}

static TgStatus read_bytes(TgTensor *out, Bytes bytes, TgType want)
{
    Arena *arena = arena_new();
    const Wire wire = { bytes, arena, TG_BAD_INPUT };
    const TensorSource source = { &wire, NULL, arena, 0 };
    TgStatus status = read_message(out, &source, want);
    arena_free(arena);
    return status;
}

TgStatus pb_read_bytes(TgTensor *out, const void *data, size_t size, TgType want)
{
    if (!size && want < TG_SEQUENCE) return fail(TG_BAD_INPUT, "is empty");
    if (size > INT32_MAX) return fail(TG_BAD_INPUT, "has 2 GiB or more, the limit of the format");
    TgStatus status;
    *out = (TgTensor){ 0 };
    ATTEMPT(status, read_bytes(out, (Bytes){ data, size }, want));
    if (status != TG_OK) tg_tensor_free(out);
    return status;
}

/* ---- writing: messages in an arena that point into the tensors */

#define MESSAGE(arena, Type, INIT) arena_copy(arena, &(Type)INIT, sizeof(Type))

static ProtobufCBinaryData *strings(Arena *a, char *const *s, size_t n)
{
    ProtobufCBinaryData *out = NEW_N(a, ProtobufCBinaryData, n + 1);
    for (size_t k = 0; k < n; k++) out[k] = (ProtobufCBinaryData){ strlen(s[k]), (uint8_t *)s[k] };
    return out;
}

static Onnx__TensorProto *tensor_message(Arena *a, const TgTensor *t)
{
    Onnx__TensorProto *p = MESSAGE(a, Onnx__TensorProto, ONNX__TENSOR_PROTO__INIT);
    p->n_dims = (size_t)t->rank;
    p->dims = arena_copy(a, t->shape, sizeof *t->shape * (size_t)t->rank);
    p->has_data_type = 1;
    p->data_type = (int32_t)t->type;
    p->has_raw_data = t->type != TG_STRING;
    p->raw_data = (ProtobufCBinaryData){ t->size_bytes, t->data };
    p->n_string_data = t->type == TG_STRING ? t->size_bytes / sizeof(char *) : 0;
    p->string_data = strings(a, t->data, p->n_string_data);
    return p;
}

/* Map i of those that share their keys. */
static Onnx__MapProto *map_message(Arena *a, const TgTensor *t, int64_t i)
{
    const TgTensor *keys = t->data, *values = keys + 1;
    size_t n = (size_t)keys->shape[0], size = (size_t)tg_type_bits(values->type) / 8;
    bool text = keys->type == TG_STRING;
    Onnx__MapProto *p = MESSAGE(a, Onnx__MapProto, ONNX__MAP_PROTO__INIT);
    Onnx__SequenceProto *all = p->values = MESSAGE(a, Onnx__SequenceProto, ONNX__SEQUENCE_PROTO__INIT);
    p->has_key_type = all->has_elem_type = 1;
    p->key_type = (int32_t)keys->type;
    p->n_keys = text ? 0 : n;
    p->keys = keys->data;
    p->n_string_keys = text ? n : 0;
    p->string_keys = strings(a, keys->data, p->n_string_keys);
    all->elem_type = ONNX__SEQUENCE_PROTO__DATA_TYPE__TENSOR;
    all->n_tensor_values = n;
    all->tensor_values = NEW_N(a, Onnx__TensorProto *, n + 1);
    for (size_t k = 0; k < n; k++)
        all->tensor_values[k] = tensor_message(a,
                                               &(TgTensor){ .type = values->type,
                                                            .data = (char *)values->data + ((size_t)i * n + k) * size,
                                                            .size_bytes = size });
    return p;
}

static Onnx__SequenceProto *sequence_message(Arena *a, const TgTensor *t);

static Onnx__OptionalProto *optional_message(Arena *a, const TgTensor *t)
{
    Onnx__OptionalProto *p = MESSAGE(a, Onnx__OptionalProto, ONNX__OPTIONAL_PROTO__INIT);
    const TgTensor *held = t->data;
    p->has_elem_type = 1;
    if (!t->shape[0]) return p;
    switch (held->type) {
    case TG_SEQUENCE:
        p->elem_type = ONNX__OPTIONAL_PROTO__DATA_TYPE__SEQUENCE;
        p->sequence_value = sequence_message(a, held);
        break;
    case TG_OPTIONAL:
        p->elem_type = ONNX__OPTIONAL_PROTO__DATA_TYPE__OPTIONAL;
        p->optional_value = optional_message(a, held);
        break;
    case TG_MAP: p->elem_type = ONNX__OPTIONAL_PROTO__DATA_TYPE__MAP; p->map_value = map_message(a, held, 0); break;
    default: p->elem_type = ONNX__OPTIONAL_PROTO__DATA_TYPE__TENSOR; p->tensor_value = tensor_message(a, held);
    }
    return p;
}

static Onnx__SequenceProto *sequence_message(Arena *a, const TgTensor *t)
{
    Onnx__SequenceProto *p = MESSAGE(a, Onnx__SequenceProto, ONNX__SEQUENCE_PROTO__INIT);
    const TgTensor *part = t->data;
    bool maps = t->type == TG_MAP;
    size_t n = (size_t)(maps ? part[1].shape[0] : t->shape[0]);
    TgType type = maps ? TG_MAP : n ? part->type : TG_F32;
    void **m = NEW_N(a, void *, n + 1);
    for (size_t k = 0; k < n; k++)
        m[k] = maps               ? (void *)map_message(a, t, (int64_t)k)
            : type == TG_SEQUENCE ? (void *)sequence_message(a, &part[k])
            : type == TG_OPTIONAL ? (void *)optional_message(a, &part[k])
            : type == TG_MAP      ? (void *)map_message(a, &part[k], 0)
                                  : tensor_message(a, &part[k]);
    p->has_elem_type = 1;
    switch (type) {
    case TG_SEQUENCE:
        p->elem_type = ONNX__SEQUENCE_PROTO__DATA_TYPE__SEQUENCE;
        p->n_sequence_values = n;
        p->sequence_values = (Onnx__SequenceProto **)m;
        break;
    case TG_OPTIONAL:
        p->elem_type = ONNX__SEQUENCE_PROTO__DATA_TYPE__OPTIONAL;
        p->n_optional_values = n;
        p->optional_values = (Onnx__OptionalProto **)m;
        break;
    case TG_MAP:
        p->elem_type = ONNX__SEQUENCE_PROTO__DATA_TYPE__MAP;
        p->n_map_values = n;
        p->map_values = (Onnx__MapProto **)m;
        break;
    default:
        p->elem_type = ONNX__SEQUENCE_PROTO__DATA_TYPE__TENSOR;
        p->n_tensor_values = n;
        p->tensor_values = (Onnx__TensorProto **)m;
    }
    return p;
}

static const ProtobufCMessage *message_of(Arena *a, const TgTensor *t, char *name)
{
    if (t->type == TG_OPTIONAL) {
        Onnx__OptionalProto *p = optional_message(a, t);
        return p->name = name, &p->base;
    }
    if (t->type == TG_MAP && ((const TgTensor *)t->data)[1].rank == 1) {
        Onnx__MapProto *p = map_message(a, t, 0);
        return p->name = name, &p->base;
    }
    if (t->type == TG_MAP || t->type == TG_SEQUENCE) {
        Onnx__SequenceProto *p = sequence_message(a, t);
        return p->name = name, &p->base;
    }
    Onnx__TensorProto *p = tensor_message(a, t);
    return p->name = name, &p->base;
}

typedef struct { ProtobufCBuffer base; Save *save; } SaveBuffer;

static void append(ProtobufCBuffer *buffer, size_t size, const uint8_t *data)
{
    save_write(((SaveBuffer *)buffer)->save, data, size);
}

static TgStatus write_file(const TgTensor *t, const char *name, const char *path)
{
    Save s;
    SaveBuffer buffer = { { append }, &s };
    Arena *arena = arena_new();
    const ProtobufCMessage *m = message_of(arena, t, (char *)(name && *name ? name : NULL));
    TgStatus status = save_begin(&s, path);
    if (status == TG_OK) {
        protobuf_c_message_pack_to_buffer(m, &buffer.base);
        status = save_end(&s);
    }
    arena_free(arena);
    return status;
}

TgStatus pb_write_file(const TgTensor *t, const char *name, const char *path)
{
    TgStatus status;
    ATTEMPT(status, write_file(t, name, path));
    return status;
}
