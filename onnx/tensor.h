/* Element types and tensors of files. */
#ifndef TG_TENSOR_H
#define TG_TENSOR_H
#include <stdbool.h>

#include "onnx/files.h"
#include "onnx/model.h"

/* Who is being read, for messages: parts may be NULL. code: what a breach is. */
typedef struct { TgStatus code; const char *node, *op, *field; } Place;
#define FAIL_AT(place, ...) fail_at((place)->code, (place)->node, (place)->op, (place)->field, __VA_ARGS__)

bool type_known(int32_t type);
/* Bytes of numel elements, packed where they are narrower than a byte (strings: TensorString). false: a size that
 * overflows or is negative. */
bool shape_numel(const int64_t *dim, size_t rank, int64_t *numel);
bool type_bytes(int32_t type, int64_t numel, size_t *bytes);
/* Between packed elements of 1 to 8 bits, the first in the lowest, and a byte each. is_signed: the sign bit carried on.
 */
void bits_unpack(uint8_t *out, const uint8_t *packed, int64_t n, unsigned bits, bool is_signed);
void bits_pack(uint8_t *packed, const uint8_t *in, int64_t n, unsigned bits);                /* in place too */

/* What reading needs: where bytes fields point to, which files may be named (NULL: none), how many bytes sparse tensors
 * may still become. */
typedef struct { const Wire *wire; Files *files; Arena *arena; size_t dense_left; } TensorSource;
#define DENSE_LIMIT ((size_t)256 << 20)
TgStatus tensor_decode(TensorDef *out, const TensorSource *s, const Onnx__TensorProto *p, const Place *at);
/* p has type and shape alone; these are its bytes, the caller's (TgData). */
TgStatus tensor_decode_given(TensorDef *out, const TensorSource *s, const Onnx__TensorProto *p, Bytes given,
                             const Place *at);
/* A sparse tensor comes out dense. */
TgStatus tensor_decode_sparse(TensorDef *out, TensorSource *s, const Onnx__SparseTensorProto *p, const Place *at);
#endif
