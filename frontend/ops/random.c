/* Random numbers: THREEFRY of (element, stream) under a key, so that any shape, symbolic ones too, is element-wise work
 * and every run of a model, on every device, gives the same numbers: what is no number of 24 bits is computed in
 * doubles, so that devices, whose last bits differ there, agree in single precision. The key is the node's attribute
 * seed; else it is made of the node's name and the session's seed. Dropout's seed alone names numpy's generator. To add
 * one: a function here and a row in ops.def.
 */
#include "frontend/import/import.h"
#include "frontend/input_names.h"
#include "frontend/values/narrow.h"

#include <math.h>
#include <string.h>
#include <xxhash.h>

/* ---- bits and distributions ---- */

static void node_key(Graph *g, const Ctx *c, U key[2])
{
    const Attr *seed = attr_find(c, "seed");
    const char *name = node_label(c->node);
    bool given = seed && seed->type == ATTR_FLOAT;
    uint64_t v = given ? XXH3_64bits(&seed->f, sizeof seed->f)
                       : XXH3_64bits_withSeed(name, strlen(name), c->im->run->model->seed);
    for (int k = 0; k < 2; k++) key[k] = uop_int(g, DT_U32, (uint32_t)(v >> 32 * k));
}

/* 64 random bits an element, in two words. */
static void bits(Graph *g, const Ctx *c, const U *dim, uint32_t rank, U out[2])
{
    U key[2];
    node_key(g, c, key);
    out[0] = reshape(g, iota(g, dim_product(g, dim, rank), DT_U32), dim, rank), out[1] = uop_int(g, DT_U32, 0);
    threefry(g, out, key);
}

/* The upper 24 bits of a word as a number in [0, 1). */
static U unit(Graph *g, U word)
{
    return mul(g, cast(g, shr(g, word, uop_int(g, DT_U32, 8)), DT_F32), scalar(g, DT_F32, 0x1p-24));
}

static U uniform(Graph *g, const Ctx *c, const U *dim, uint32_t rank)
{
    U word[2];
    bits(g, c, dim, rank, word);
    return unit(g, word[0]);
}

static U f64(Graph *g, U x) { return cast(g, x, DT_F64); }

/* Box and Muller, 1958; doubles. */
static U normal(Graph *g, const Ctx *c, const U *dim, uint32_t rank)
{
    U word[2];
    bits(g, c, dim, rank, word);
    U a = add(g, f64(g, unit(g, word[0])), scalar(g, DT_F64, 0x1p-24)),
      radius = sqrt_(g, mul(g, scalar(g, DT_F64, -2), log_(g, a)));
    return mul(g, radius, cos_(g, mul(g, scalar(g, DT_F64, 2 * M_PI), f64(g, unit(g, word[1])))));
}

/* ---- operators ---- */

/* The shape and type wanted: from attributes, or like an input's. */
static bool read_shape(Graph *g, const Ctx *c, const U **dim, uint32_t *rank, DType *type)
{
    const int64_t *shape;
    int64_t t = attr_int(g, c, "dtype", c->in[0] ? dtype_info[c->in[0]->dtype].onnx : TG_F32);
    *type = t > 0 && t < 100 ? dtype_from_onnx((int32_t)t) : DT_VOID;
    if (*type == DT_VOID)
        return fail_node(g, c, TG_UNSUPPORTED, "dtype", "element type %lld is not covered", (long long)t), false;
    if (c->in[0]) return *dim = c->in[0]->shape->dim, *rank = uop_rank(c->in[0]), true;
    if (!attr_ints(g, c, "shape", &shape, rank) || *rank > TG_MAX_RANK)
        return fail_node(g, c, TG_BAD_MODEL, "shape", "is missing"), false;
    const UOp **d = NEW_N(graph_arena(g), const UOp *, *rank + 1);
    for (uint32_t k = 0; k < *rank; k++) {
        if (shape[k] < 0 || shape[k] > INT32_MAX)
            return fail_node(g, c, TG_BAD_MODEL, "shape", "size %lld", (long long)shape[k]), false;
        d[k] = uop_index(g, shape[k]);
    }
    *dim = d;
    return true;
}

static bool float_shape(Graph *g, const Ctx *c, const U **dim, uint32_t *rank, DType *type)
{
    if (!read_shape(g, c, dim, rank, type)) return false;
    return dtype_is_float(*type) ||
        (fail_node(g, c, TG_BAD_MODEL, "dtype", "is %s; wanted a floating-point type", dtype_name(*type)), false);
}

static U scaled(Graph *g, U x, double by, double plus, DType t)
{
    return cast(g, cast(g, add(g, mul(g, f64(g, x), scalar(g, DT_F64, by)), scalar(g, DT_F64, plus)), DT_F32), t);
}

U op_random_uniform(Graph *g, const Ctx *c)
{
    const U *dim;
    uint32_t rank;
    DType t;
    double low = attr_float(g, c, "low", 0), high = attr_float(g, c, "high", 1);
    return float_shape(g, c, &dim, &rank, &t) ? scaled(g, uniform(g, c, dim, rank), high - low, low, t) : NULL;
}

U op_random_normal(Graph *g, const Ctx *c)
{
    const U *dim;
    uint32_t rank;
    DType t;
    return float_shape(g, c, &dim, &rank, &t)
        ? scaled(g, normal(g, c, dim, rank), attr_float(g, c, "scale", 1), attr_float(g, c, "mean", 0), t)
        : NULL;
}

U op_bernoulli(Graph *g, const Ctx *c)
{
    const U *dim;
    uint32_t rank;
    DType t;
    if (!read_shape(g, c, &dim, &rank, &t)) return NULL;
    U hit = lt(g, uniform(g, c, dim, rank), cast(g, c->in[0], DT_F32));
    return t == DT_BOOL ? hit : cast(g, hit, t);
}

/* Multinomial: draws by the largest of log-probability plus Gumbel noise. x [batch, classes] -> [batch, samples]. */
U op_multinomial(Graph *g, const Ctx *c)
{
    U x = f64(g, c->in[0]);
    int64_t n = attr_int(g, c, "sample_size", 1), type = attr_int(g, c, "dtype", TG_I32);
    if (uop_rank(x) != 2 || n < 1 || n > 1 << 20)
        return fail_node(g, c, TG_BAD_MODEL, "sample_size", "%lld of an input of rank %u", (long long)n, uop_rank(x));
    if (type != TG_I32 && type != TG_I64)
        return fail_node(g, c, TG_BAD_MODEL, "dtype", "is %lld; wanted int32 or int64", (long long)type);
    U dim[] = { uop_dim(x, 0), uop_index(g, n), uop_dim(x, 1) },
      a = add(g, f64(g, uniform(g, c, dim, 3)), scalar(g, DT_F64, 0x1p-25));
    U noise = neg(g, log_(g, neg(g, log_(g, a))));
    return cast(g, argmax(g, add(g, unsqueeze(g, x, 1), noise), -1, false, false), type == TG_I32 ? DT_I32 : DT_I64);
}

/* ---- Dropout ---- */

enum { TWISTER_WORDS = 624, DRAWN_MAX = 1 << 24 };
typedef struct { uint32_t word[TWISTER_WORDS], at; } Twister;

/* Matsumoto and Nishimura, 1998, as numpy.random.seed starts it. */
static void twister_seed(Twister *t, uint32_t seed)
{
    for (uint32_t k = 0; k < TWISTER_WORDS; k++) t->word[k] = seed, seed = 1812433253u * (seed ^ seed >> 30) + k + 1;
    t->at = TWISTER_WORDS;
}

static uint32_t twister_next(Twister *t)
{
    for (uint32_t k = 0; t->at == TWISTER_WORDS && k < TWISTER_WORDS; k++) {
        uint32_t y = (t->word[k] & 0x80000000u) | (t->word[(k + 1) % TWISTER_WORDS] & 0x7fffffffu);
        t->word[k] = t->word[(k + 397) % TWISTER_WORDS] ^ y >> 1 ^ (y & 1 ? 0x9908b0dfu : 0);
    }
    if (t->at == TWISTER_WORDS) t->at = 0;
    uint32_t y = t->word[t->at++];
    y ^= y >> 11, y ^= y << 7 & 0x9d2c5680u, y ^= y << 15 & 0xefc60000u;
    return y ^ y >> 18;
}

/* numpy.random.uniform(0, 1, x's shape) after numpy.random.seed: what the standard's tests expect of a seed. */
static U numpy_uniform(Graph *g, const Ctx *c, U x, int64_t seed)
{
    Twister t;
    int64_t n = uop_static(x) ? uop_numel(x) : -1;
    if (seed < 0 || seed > UINT32_MAX)
        return fail_node(g, c, TG_BAD_MODEL, "seed", "is %lld; wanted 0 to 2^32-1", (long long)seed);
    if (n < 0 || n > DRAWN_MAX)
        return fail_node(g, c, n < 0 ? TG_UNSUPPORTED : TG_LIMIT, "seed", "is given for a shape that %s",
                         n < 0 ? "depends on data" : "is too large");
    double *v = NEW_N(graph_arena(g), double, n + 1);
    twister_seed(&t, (uint32_t)seed);
    for (int64_t k = 0; k < n; k++) {
        uint32_t high = twister_next(&t) >> 5, low = twister_next(&t) >> 6;
        v[k] = (high * 67108864.0 + low) / 9007199254740992.0;
    }
    return reshape(g, tensor_const(g, DT_F64, &n, 1, v, (size_t)n * 8, ""), x->shape->dim, uop_rank(x));
}

/** Dropout: in training, x / (1 - ratio) where a draw is at least ratio, else 0; otherwise x. Opset 12 trains when
 * input 2 says so; before 7, unless is_test; between, never. */
U op_dropout(Graph *g, const Ctx *c)
{
    U x = narrow_decode(g, c->in[0]),
      on = c->opset >= 12 && c->in[Dropout_training_mode] ? reshape_i(g, c->in[Dropout_training_mode], NULL, 0)
                                      : uop_bool(g, c->opset < 7 && !attr_bool(g, c, "is_test", false));
    U ratio = c->opset >= 12 && c->in[Dropout_ratio]
        ? cast(g, reshape_i(g, narrow_decode(g, c->in[Dropout_ratio]), NULL, 0), DT_F64)
        : scalar(g, DT_F64, attr_float(g, c, "ratio", 0.5)),
      known = known_scalar(g, on);
    const Attr *seed = attr_find(c, "seed");
    int32_t type = narrow_type(c->in[0]);
    DType mask = c->opset < 10 ? type_of(x) : DT_BOOL;
    if (known && uop_is_int_const(known, 0)) return outputs(g, c, (U[]){ c->in[0], full(g, mask, 1, x) }, 2);
    U drawn = seed ? numpy_uniform(g, c, x, attr_int(g, c, "seed", 0))
                   : cast(g, uniform(g, c, x->shape->dim, uop_rank(x)), DT_F64);
    U keep = or_(g, ge(g, drawn, ratio), not_(g, on)),
      scale = where(g, on, recip(g, sub(g, scalar(g, DT_F64, 1), ratio)), scalar(g, DT_F64, 1)), w = wide(g, x);
    U y = narrow(g, where(g, keep, mul(g, w, cast(g, scale, type_of(w))), scalar(g, type_of(w), 0)), x);
    return outputs(g, c, (U[]){ type ? narrow_encode(g, y, type, false, "up") : y, cast(g, keep, mask) }, 2);
}
