/* TopK of each type, for one kind of processor. Included by host/order.c once for each, with PROCESSOR an attribute of
 * functions and ON(name) the names; columns: by type. */

#define VALUE float
#define LEAST (-INFINITY)
#define BITS int32_t
#define MOST INT32_MAX
#define FLOATS 1
#define PLAIN 1
#define TURNED(x, turn) ((x) * (turn))
#define TOPK(name) ON(name##_f32)
#include "frontend/host/topk.h"

#define VALUE double
#define LEAST ((double)-INFINITY)
#define BITS int64_t
#define MOST INT64_MAX
#define FLOATS 1
#define PLAIN 1
#define TURNED(x, turn) ((x) * (turn))
#define TOPK(name) ON(name##_f64)
#include "frontend/host/topk.h"

#define VALUE int32_t
#define LEAST INT32_MIN
#define BITS int32_t
#define MOST INT32_MAX
#define FLOATS 0
#define PLAIN 0
#define TURNED(x, turn) ((x) ^ (turn))
#define TOPK(name) ON(name##_i32)
#include "frontend/host/topk.h"

#define VALUE int64_t
#define LEAST INT64_MIN
#define BITS int64_t
#define MOST INT64_MAX
#define FLOATS 0
#define PLAIN 0
#define TURNED(x, turn) ((x) ^ (turn))
#define TOPK(name) ON(name##_i64)
#include "frontend/host/topk.h"

static TopkColumns *const ON(columns)[] = { ON(columns_f32), ON(columns_f64), ON(columns_i32), ON(columns_i64) };
