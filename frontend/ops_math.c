/* Element-wise operators. In: broadcastable inputs of one dtype. Out: the broadcast shape. Functions of a half-precision input are computed in f32 and
 * rounded once. To add one: a function here and a row in ops.def.
 */
#include "frontend/frontend.h"

#include <math.h>
#include <string.h>

/* Two inputs of one type. */
static bool pair(Graph *g, const Ctx *c)
{
    if (c->in[0]->dtype == c->in[1]->dtype) return true;
    fail_node(g, c, TG_BAD_MODEL, NULL, "inputs of types %s and %s; wanted one type", dtype_name((DType)c->in[0]->dtype), dtype_name((DType)c->in[1]->dtype));
    return false;
}

#define BINARY(name, value)                                                 \
    U name(Graph *g, const Ctx *c)                                          \
    {                                                                       \
        if (!pair(g, c)) return NULL;                                       \
        U like = c->in[0], a = wide(g, c->in[0]), b = wide(g, c->in[1]);    \
        return narrow(g, value, like);                                      \
    }
#define UNARY(name, value)                       \
    U name(Graph *g, const Ctx *c)               \
    {                                            \
        U like = c->in[0], x = wide(g, like);    \
        return narrow(g, value, like);           \
    }

U op_identity(Graph *g, const Ctx *c) { (void)g; return c->in[0]; }

BINARY(op_add, add(g, a, b))
BINARY(op_sub, sub(g, a, b))
BINARY(op_mul, mul(g, a, b))
BINARY(op_div, div_(g, a, b))
UNARY(op_abs, abs_(g, x))
