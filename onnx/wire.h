/* Protobuf, checked. Only onnx/ sees these types.
 *
 * protobuf-c alone recurses as deep as a file asks it to, needs up to 145 bytes of memory a byte of file, is quadratic
 * in repeated singular messages and loses the length of strings. So wire_unpack first walks the bytes itself (wire.c)
 * and hands protobuf-c a checked copy of what this program uses.
 */
#ifndef TG_WIRE_H
#define TG_WIRE_H
#include <protobuf-c/protobuf-c.h>
#include <stdint.h>

#include "graph/base/arena.h"
#include "graph/base/status.h"
#include "onnx/onnx-ml.pb-c.h"

typedef struct { const uint8_t *data; size_t size; } Bytes;

/* A file's bytes. The messages made from them live in the arena; their `bytes` fields (raw_data, strings of tensors and
 * attributes) are not copied: see wire_bytes. */
typedef struct {
    Bytes file;
    Arena *arena;
    TgStatus code;      /* what a breach is: TG_BAD_MODEL or TG_BAD_INPUT */
} Wire;

/* out: a message of that type. Refused, with field and byte offset: bytes that are no message of the type, nesting
 * above 64 messages, zero bytes or no UTF-8 in a string, and what would take more than 64 MiB + 24 times the file's
 * size. Fields that this program does not use (nodes' documentation and metadata) are skipped unread. */
TgStatus wire_unpack(ProtobufCMessage **out, const Wire *w, const ProtobufCMessageDescriptor *type);

/* The bytes of a field of type `bytes`, inside w->file. */
Bytes wire_bytes(const Wire *w, const ProtobufCBinaryData *field);
#endif
