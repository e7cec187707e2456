/* Types below a byte and the float8 family: stored, not computed in. Such a value is a TUPLE with a tag around its
 * storage: one byte an element, a number (i4 i2: i8, u4 u2: u8) or a code (floats: u8). Operators that only move
 * elements move the storage; few convert; others refuse (text.h has the list).
 */
#ifndef TG_NARROW_H
#define TG_NARROW_H
#include "frontend/frontend.h"

int32_t narrow_type(U x);                          /* the TgType of such a value, 0 for others */
bool narrow_is(int32_t type);                      /* one of these types? */
bool narrow_is_float(int32_t type);
uint32_t narrow_bits(int32_t type);
DType narrow_storage(int32_t type);
U narrow_wrap(Graph *g, U storage, int32_t type);
U narrow_constant(Graph *g, const TensorDef *t);
U narrow_decode(Graph *g, U x);                    /* integers as i8 or u8, floats as f32; other values as they are */
/* Cast's meaning: integers wrap, floats round to even */
U narrow_encode(Graph *g, U x, int32_t type, bool saturate, const char *round_mode);
U narrow_clamp(Graph *g, U x, int32_t type);       /* QuantizeLinear's: integers saturate */
/* Between a tensor file's packed elements and one byte each. */
void narrow_unpack(uint8_t *out, const void *packed, int64_t n, int32_t type);
void narrow_pack(void *packed, const uint8_t *in, int64_t n, int32_t type);
#endif
