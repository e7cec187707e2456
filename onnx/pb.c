/* A serialized TensorProto <-> a tensor: the standard's own test data. In: bytes from anybody. Out: a tensor in one malloc'ed block (strings: pointers, then their bytes). */
#include <stdlib.h>
#include <string.h>

#include "onnx/npy.h"
#include "onnx/save.h"
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
    *out = (TgTensor){ .type = (TgType)d->type, .rank = (int32_t)d->rank, .size_bytes = d->type == TG_STRING ? (size_t)d->numel * sizeof(char *) : d->size_bytes };
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

TgStatus pb_read_bytes(TgTensor *out, const void *data, size_t size)
{
    TensorDef d;
    ProtobufCMessage *message;
    const Place at = { TG_BAD_INPUT, NULL, NULL, "TensorProto" };
    if (!size) return fail(TG_BAD_INPUT, "is empty");
    if (size > INT32_MAX) return fail(TG_BAD_INPUT, "has 2 GiB or more, the limit of the format");
    Arena *arena = arena_new();
    const Wire wire = { { data, size }, arena, TG_BAD_INPUT };
    const TensorSource source = { &wire, NULL, arena, 0 };
    TgStatus status = wire_unpack(&message, &wire, &onnx__tensor_proto__descriptor);
    if (status == TG_OK) status = tensor_decode(&d, &source, (const Onnx__TensorProto *)message, &at);
    if (status == TG_OK) status = take(out, &d);
    arena_free(arena);
    return status;
}

typedef struct { ProtobufCBuffer base; Save *save; } SaveBuffer;

static void append(ProtobufCBuffer *buffer, size_t size, const uint8_t *data) { save_write(((SaveBuffer *)buffer)->save, data, size); }

static TgStatus write_message(const Onnx__TensorProto *p, const char *path)
{
    Save s;
    SaveBuffer buffer = { { append }, &s };
    TRY(save_begin(&s, path));
    protobuf_c_message_pack_to_buffer(&p->base, &buffer.base);
    return save_end(&s);
}

TgStatus pb_write_file(const TgTensor *t, const char *name, const char *path)
{
    Onnx__TensorProto p = ONNX__TENSOR_PROTO__INIT;
    size_t strings = t->type == TG_STRING ? t->size_bytes / sizeof(char *) : 0;
    p.n_dims = (size_t)t->rank;
    p.dims = (int64_t *)t->shape;
    p.has_data_type = 1;
    p.data_type = (int32_t)t->type;
    p.name = (char *)(name && *name ? name : NULL);
    p.has_raw_data = t->type != TG_STRING;
    p.raw_data = (ProtobufCBinaryData){ t->size_bytes, t->data };
    p.n_string_data = strings;
    p.string_data = calloc(strings + 1, sizeof *p.string_data);
    if (!p.string_data) return fail(TG_LIMIT, "out of memory");
    for (size_t k = 0; k < strings; k++) {
        char *s = ((char **)t->data)[k];
        p.string_data[k] = (ProtobufCBinaryData){ strlen(s), (uint8_t *)s };
    }
    TgStatus status = write_message(&p, path);
    free(p.string_data);
    return status;
}
