/* What ops/quant.c (and ops/llm.c) lends to other operators on quantised values. scale and zero: one element each, zero
 * NULL: 0. */
#ifndef TG_QUANT_H
#define TG_QUANT_H
#include "frontend/frontend.h"

U centred(Graph *g, U x, U zero);                       /* x - zero, which broadcasts, in i32 */
U dequantised(Graph *g, U x, U scale, U zero);          /* (x - zero) * scale in f32 */
/* each element of v along the axis for `block` elements of x, no more than there are */
U on_blocks(Graph *g, U v, U x, int64_t axis, int64_t block);
/* bytes [.., n] as n * 8 / bits numbers of few bits each, the lowest bits first */
U unpack_bits(Graph *g, U x, int64_t bits);
/* x on 0 .. 255 by its range over axes, widened to hold 0: u8 values, scale, zero point. All-zero x has scale 1. */
void dynamic_range(Graph *g, U x, const int64_t *axes, uint32_t n, bool keepdims, U out[3]);
/* a times input 1 in integers, times their scales, plus a bias, in f32. scale, zero, bias: the inputs that belong to
 * input 1 and to the product. */
U scaled_product(Graph *g, const Ctx *c, U a, U a_scale, U a_zero, uint32_t scale, uint32_t zero, uint32_t bias);
#endif
