/* Random numbers: a hash of (element, seed), so that any shape, symbolic ones too, is element-wise work and every run of a model gives the same numbers.
 * The seed is the node's attribute, or made from its name. The hash is the 32-bit finaliser of C. Wellons' prospector ("lowbias32").
 * To add one: a function here and a row in ops.def.
 */
#include "frontend/import.h"

#include <math.h>
#include <string.h>
#include <xxhash.h>

static U u32(Graph *g, uint32_t v) { return uop_int(g, DT_U32, v); }
static U mixed(Graph *g, U x, int shift) { return xor_(g, x, idiv(g, x, u32(g, UINT32_C(1) << shift))); }

/* 32 random bits an element of a value of n elements in all. stream: several for one element. */
static U bits(Graph *g, const Ctx *c, U n, uint32_t stream)
{
    const Attr *seed = attr_find(c, "seed");
    const char *name = node_label(c->node);
    uint32_t key = seed && seed->type == ATTR_FLOAT ? (uint32_t)XXH3_64bits(&seed->f, sizeof seed->f) : (uint32_t)XXH3_64bits(name, strlen(name));
    U x = add(g, mul(g, iota(g, n, DT_U32), u32(g, 2)), u32(g, stream));
    x = add(g, mul(g, x, u32(g, 0x9e3779b9)), u32(g, key));
    x = mul(g, mixed(g, x, 16), u32(g, 0x7feb352d));
    x = mul(g, mixed(g, x, 15), u32(g, 0x846ca68b));
    return mixed(g, x, 16);
}

/* Uniform in [0, 1), 24 bits, of a shape. */
static U uniform(Graph *g, const Ctx *c, const U *dim, uint32_t rank, uint32_t stream)
{
    U x = idiv(g, bits(g, c, dim_product(g, dim, rank), stream), u32(g, 256));
    return reshape(g, mul(g, cast(g, x, DT_F32), scalar(g, DT_F32, 0x1p-24)), dim, rank);
}

/* Box and Muller, 1958. */
static U normal(Graph *g, const Ctx *c, const U *dim, uint32_t rank)
{
    U a = add(g, uniform(g, c, dim, rank, 0), scalar(g, DT_F32, 0x1p-24)), b = uniform(g, c, dim, rank, 1);
    U radius = sqrt_(g, mul(g, scalar(g, DT_F32, -2), log_(g, a)));
    return mul(g, radius, cos_(g, mul(g, scalar(g, DT_F32, 2 * M_PI), b)));
}

/* The shape and type wanted: from attributes, or like an input's. */
static bool read_shape(Graph *g, const Ctx *c, const U **dim, uint32_t *rank, DType *type)
{
    const int64_t *shape;
    int64_t t = attr_int(g, c, "dtype", c->in[0] ? dtype_info[c->in[0]->dtype].onnx : TG_F32);
    *type = t > 0 && t < 100 ? dtype_from_onnx((int32_t)t) : DT_VOID;
    if (*type == DT_VOID) return fail_node(g, c, TG_UNSUPPORTED, "dtype", "element type %lld is not covered", (long long)t), false;
    if (c->in[0]) return *dim = c->in[0]->shape->dim, *rank = uop_rank(c->in[0]), true;
    if (!attr_ints(g, c, "shape", &shape, rank) || *rank > TG_MAX_RANK) return fail_node(g, c, TG_BAD_MODEL, "shape", "is missing"), false;
    const UOp **d = NEW_N(graph_arena(g), const UOp *, *rank + 1);
    for (uint32_t k = 0; k < *rank; k++) {
        if (shape[k] < 0 || shape[k] > INT32_MAX) return fail_node(g, c, TG_BAD_MODEL, "shape", "size %lld", (long long)shape[k]), false;
        d[k] = uop_index(g, shape[k]);
    }
    *dim = d;
    return true;
}

static U scaled(Graph *g, U x, double by, double plus, DType t) { return cast(g, add(g, mul(g, x, scalar(g, DT_F32, by)), scalar(g, DT_F32, plus)), t); }

U op_random_uniform(Graph *g, const Ctx *c)
{
    const U *dim;
    uint32_t rank;
    DType t;
    double low = attr_float(g, c, "low", 0), high = attr_float(g, c, "high", 1);
    return read_shape(g, c, &dim, &rank, &t) ? scaled(g, uniform(g, c, dim, rank, 0), high - low, low, t) : NULL;
}

U op_random_normal(Graph *g, const Ctx *c)
{
    const U *dim;
    uint32_t rank;
    DType t;
    return read_shape(g, c, &dim, &rank, &t) ? scaled(g, normal(g, c, dim, rank), attr_float(g, c, "scale", 1), attr_float(g, c, "mean", 0), t) : NULL;
}

U op_bernoulli(Graph *g, const Ctx *c)
{
    const U *dim;
    uint32_t rank;
    DType t;
    if (!read_shape(g, c, &dim, &rank, &t)) return NULL;
    U hit = lt(g, uniform(g, c, dim, rank, 0), cast(g, c->in[0], DT_F32));
    return t == DT_BOOL ? hit : cast(g, hit, t);
}

/* Multinomial: draws by the largest of log-probability plus Gumbel noise. x [batch, classes] -> [batch, samples]. */
U op_multinomial(Graph *g, const Ctx *c)
{
    U x = cast(g, c->in[0], DT_F32);
    int64_t n = attr_int(g, c, "sample_size", 1), type = attr_int(g, c, "dtype", TG_I32);
    if (uop_rank(x) != 2 || n < 1 || n > 1 << 20) return fail_node(g, c, TG_BAD_MODEL, "sample_size", "%lld of an input of rank %u", (long long)n, uop_rank(x));
    if (type != TG_I32 && type != TG_I64) return fail_node(g, c, TG_BAD_MODEL, "dtype", "is %lld; wanted int32 or int64", (long long)type);
    U dim[] = { uop_dim(x, 0), uop_index(g, n), uop_dim(x, 1) }, a = add(g, uniform(g, c, dim, 3, 0), scalar(g, DT_F32, 0x1p-25));
    U noise = neg(g, log_(g, neg(g, log_(g, a))));
    return cast(g, argmax(g, add(g, unsqueeze(g, x, 1), noise), -1, false, false), type == TG_I32 ? DT_I32 : DT_I64);
}
