/* What shape.c and slice.c share. */
#ifndef TG_OPS_SHAPE_H
#define TG_OPS_SHAPE_H
#include "frontend/import/import.h"

enum { EXTENT_MAX = 1 << 30 };          /* of a pad, a repeat: keeps sums of sizes far from overflow */

static inline int64_t clamp_i(int64_t v, int64_t lo, int64_t hi) { return v < lo ? lo : v > hi ? hi : v; }
U size_value(Graph *g, U dim);          /* a size as a scalar of i64 */
#endif
