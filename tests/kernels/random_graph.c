/* To let the generator make one more op: a case in one of the step_ functions. A step takes values that are there and
 * returns a new one, or NULL when it does not fit. */
#include "random_graph.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "graph/scalar.h"

enum { NUMEL_MAX = 1500, AXES_MAX = 5, BOUND = 64, VAR_MAX = 8 };

uint32_t random_below(Random *r, uint32_t n)
{
    r->state += UINT64_C(0x9e3779b97f4a7c15);
    uint64_t z = r->state;
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return n ? (uint32_t)((z ^ z >> 31) % n) : 0;
}

void random_fill(Random *r, DType t, void *data, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        int64_t v = (int64_t)random_below(r, 15) - (dtype_is_float(t) || dtype_info[t].kind == KIND_SINT ? 7 : 0);
        scalar_store(t, data, i, dtype_is_float(t) ? scalar_of((double)v) : v);
    }
}

static void make_hostile(Random *r, DType t, void *data, int64_t count)
{
    static const double nasty[] = { NAN, INFINITY, -INFINITY, -0.0, 1e-40, -1e-42, 0, 65000 };
    for (int64_t i = 0; i < count && dtype_is_float(t); i++)
        if (!random_below(r, 12)) scalar_store(t, data, i, scalar_of(nasty[random_below(r, 8)]));
}

static uint32_t pick(RandomGraph *rg) { return random_below(&rg->r, rg->count); }
static int64_t between(RandomGraph *rg, int64_t lo, int64_t hi)
{
    return lo + random_below(&rg->r, (uint32_t)(hi - lo + 1));
}
static uint32_t axis_in(RandomGraph *rg, U x) { return random_below(&rg->r, uop_rank(x)); }

static U random_leaf(RandomGraph *rg, DType t, int slot)
{
    static const int64_t sizes[] = { 1, 2, 3, 4, 5, 6, 7, 8, 8, 12, 16, 17, 32 };
    int64_t shape[4], n = 1;
    uint32_t rank = (uint32_t)between(rg, 1, 4);
    U dim[4];
    for (uint32_t k = 0; k < rank; k++) {
        shape[k] =
            rg->var && random_below(&rg->r, 2) ? VAR_MAX : sizes[random_below(&rg->r, sizeof sizes / sizeof *sizes)];
        if (n * shape[k] > NUMEL_MAX / 2) shape[k] = 1;
        n *= shape[k];
        dim[k] = rg->var && shape[k] == VAR_MAX ? rg->var : uop_index(rg->g, shape[k]);
    }
    void *data = malloc((size_t)(n * dtype_size(t)));
    random_fill(&rg->r, t, data, n);
    if (slot >= 0 && rg->hostile) make_hostile(&rg->r, t, data, n);
    if (slot >= 0) return rg->data[slot] = data, uop_param(rg->g, t, dim, rank, slot);
    void *kept = arena_copy(graph_arena(rg->g), data, (size_t)(n * dtype_size(t)));
    free(data);
    return tensor_const(rg->g, t, shape, rank, kept, (size_t)(n * dtype_size(t)), NULL);
}

/* Brings an exact value back to -BOUND .. BOUND, so that it stays exact and small. */
static U small(RandomGraph *rg, U x)
{
    return clamp(rg->g, x, scalar(rg->g, x->dtype, -BOUND), scalar(rg->g, x->dtype, BOUND));
}

static bool is_known(U x, uint32_t k) { return uop_is_const(uop_dim(x, k)); }
static bool is_float(U x) { return dtype_is_float(x->dtype); }

/* Arguments of transcendentals stay where results are neither huge nor tiny. */
static U tame(RandomGraph *rg, U x) { return clamp(rg->g, x, scalar(rg->g, x->dtype, -4), scalar(rg->g, x->dtype, 4)); }

/* Of results without a jump. */
static U function_of_c(RandomGraph *rg, U x)
{
    Graph *g = rg->g;
    switch (between(rg, 0, 2)) {
    case 0: return pow_(g, add(g, abs_(g, x), scalar(g, x->dtype, 0.5)), x);
    case 1: return sin_(g, x);
    default: return abs_(g, sub(g, mod_floor(g, x, scalar(g, x->dtype, 2.5)), scalar(g, x->dtype, 1.25)));
    }
}

static U step_unary(RandomGraph *rg, U x, bool *exact)
{
    Graph *g = rg->g;
    switch (between(rg, 0, *exact ? 14 : 10)) {
    case 0: return neg(g, x);
    case 1: return relu(g, x);
    case 2: return abs_(g, x);
    case 3: return is_float(x) ? (*exact = false, exp_(g, tame(rg, x))) : not_(g, x);
    case 4: return is_float(x) ? (*exact = false, sigmoid(g, x)) : NULL;
    case 5: return is_float(x) ? (*exact = false, tanh_(g, x)) : NULL;
    case 6: return is_float(x) ? (*exact = false, erf_(g, x)) : NULL;
    case 7:
        return is_float(x)
            ? (*exact = false, div_(g, scalar(g, x->dtype, 3), add(g, scalar(g, x->dtype, 1), mul(g, x, x))))
            : NULL;
    case 8: return is_float(x) ? (*exact = false, sqrt_(g, abs_(g, x))) : NULL;
    case 9: return is_float(x) ? (*exact = false, log_(g, add(g, abs_(g, x), scalar(g, x->dtype, 0.5)))) : NULL;
    case 10: return is_float(x) ? (*exact = false, function_of_c(rg, tame(rg, x))) : NULL;
    case 11: return sign(g, x);
    case 12: return is_float(x) ? floor_(g, mul(g, x, scalar(g, x->dtype, 0.25))) : div_(g, x, scalar(g, x->dtype, 3));
    case 13:
        return is_float(x) ? round_even(g, mul(g, x, scalar(g, x->dtype, 0.5)))
                           : mod_trunc(g, x, scalar(g, x->dtype, 5));
    default: return is_float(x) ? rg->hostile ? NULL : cast(g, x, DT_I32) : mod_floor(g, x, scalar(g, x->dtype, 7));
    }
}

static bool fits(U a, U b)
{
    if (a->dtype != b->dtype) return false;
    for (uint32_t k = 1; k <= uop_rank(a) && k <= uop_rank(b); k++) {
        U p = uop_dim(a, uop_rank(a) - k), q = uop_dim(b, uop_rank(b) - k);
        if (p != q && !uop_is_int_const(p, 1) && !uop_is_int_const(q, 1)) return false;
    }
    return true;
}

static U step_binary(RandomGraph *rg, uint32_t i, bool *exact)
{
    Graph *g = rg->g;
    U a = rg->value[i], b = NULL;
    for (int t = 0; t < 8 && !b; t++) {
        uint32_t j = pick(rg);
        if (fits(a, rg->value[j])) b = rg->value[j], *exact = rg->exact[i] && rg->exact[j];
    }
    if (!b) b = scalar(g, a->dtype, (double)between(rg, 1, 5));
    switch (between(rg, 0, *exact ? 7 : 4)) {
    case 0: return add(g, a, b);
    case 1: return sub(g, a, b);
    case 2: return mul(g, a, b);
    case 3: return max_(g, a, b);
    case 4: return min_(g, a, b);
    case 5: return where(g, lt(g, a, b), a, scalar(g, a->dtype, 2));
    case 6: return where(g, eq(g, a, b), sub(g, b, scalar(g, a->dtype, 1)), a);
    default: return where(g, or_(g, ge(g, a, b), lt(g, a, scalar(g, a->dtype, 0))), a, b);
    }
}

/* Two neighbouring axes become one, or one with a divisor becomes two. */
static U random_reshape(RandomGraph *rg, U x)
{
    uint32_t r = uop_rank(x), k = axis_in(rg, x), n = 0;
    int64_t f = between(rg, 2, 4);
    U d[RANK_MAX];
    bool join = k + 1 < r && random_below(&rg->r, 2);
    if (!join && (!is_known(x, k) || uop_size(x, k) % f || r >= AXES_MAX)) return NULL;
    for (uint32_t i = 0; i < r; i++) {
        if (i != k) d[n++] = uop_dim(x, i);
        else if (join) d[n++] = dim_mul(rg->g, uop_dim(x, i), uop_dim(x, i + 1)), i++;
        else d[n++] = uop_index(rg->g, uop_size(x, k) / f), d[n++] = uop_index(rg->g, f);
    }
    return reshape(rg->g, x, d, n);
}

static U random_permute(RandomGraph *rg, U x)
{
    int64_t order[RANK_MAX];
    uint32_t r = uop_rank(x);
    for (uint32_t k = 0; k < r; k++) order[k] = k;
    for (uint32_t k = r; k > 1; k--) {
        uint32_t j = random_below(&rg->r, k);
        int64_t t = order[k - 1];
        order[k - 1] = order[j];
        order[j] = t;
    }
    return permute(rg->g, x, order, r);
}

static U random_pad(RandomGraph *rg, U x)
{
    int64_t before[RANK_MAX], after[RANK_MAX];
    for (uint32_t k = 0; k < uop_rank(x); k++) {
        bool crops = is_known(x, k) && uop_size(x, k) > 2;
        before[k] = crops ? between(rg, -1, 2) : between(rg, 0, 1);
        after[k] = crops ? between(rg, -1, 1) : between(rg, 0, 1);
    }
    return pad_i(rg->g, x, before, after, random_below(&rg->r, 2) ? NULL : scalar(rg->g, x->dtype, 3));
}

static U random_expand(RandomGraph *rg, U x)
{
    U d[RANK_MAX], y = random_below(&rg->r, 2) && uop_rank(x) < AXES_MAX ? unsqueeze(rg->g, x, axis_in(rg, x)) : x;
    for (uint32_t k = 0; k < uop_rank(y); k++)
        d[k] = uop_is_int_const(uop_dim(y, k), 1) ? uop_index(rg->g, between(rg, 2, 5)) : uop_dim(y, k);
    return expand(rg->g, y, d, uop_rank(y));
}

static U random_windows(RandomGraph *rg, U x)
{
    int64_t k = between(rg, 1, 3), s = between(rg, 1, 2), d = between(rg, 1, 2);
    if (uop_rank(x) >= AXES_MAX || uop_dim(x, uop_rank(x) - 1)->vmin < (k - 1) * d + 1) return NULL;
    return windows(rg->g, x, 1, &k, &s, &d);
}

static U random_slice(RandomGraph *rg, U x)
{
    uint32_t k = axis_in(rg, x);
    int64_t n = uop_size(x, k), step = between(rg, 1, 3), size = (n + step - 1) / step;
    if (!is_known(x, k)) return flip_axis(rg->g, x, k);
    if (random_below(&rg->r, 2)) return slice_step(rg->g, x, k, 0, size, step);
    return slice_step(rg->g, x, k, n - 1, size, -step);
}

static U random_cat(RandomGraph *rg, U x)
{
    uint32_t k = axis_in(rg, x);
    U part[3] = { x, flip_axis(rg->g, x, k), is_known(x, k) ? slice_i(rg->g, x, k, 0, (uop_size(x, k) + 1) / 2) : x };
    return cat(rg->g, part, (uint32_t)between(rg, 2, 3), k);
}

static U step_move(RandomGraph *rg, U x)
{
    U twice[RANK_MAX];
    if (!uop_rank(x)) return unsqueeze(rg->g, x, 0);
    switch (between(rg, 0, 9)) {
    case 0: return random_reshape(rg, x);
    case 1: return random_permute(rg, x);
    case 2: return random_pad(rg, x);
    case 3: return random_expand(rg, x);
    case 4: return random_windows(rg, x);
    case 5: return random_slice(rg, x);
    case 6: return random_cat(rg, x);
    case 7: return flip_axis(rg->g, x, axis_in(rg, x));
    case 8:
        return uop_rank(x) < AXES_MAX ? stack(rg->g, (U[]){ x, neg(rg->g, x) }, 2, random_below(&rg->r, 2) ? 0 : -1)
                                      : NULL;
    default:
        for (uint32_t k = 0; k < uop_rank(x); k++) twice[k] = uop_index(rg->g, between(rg, 1, 2));
        return tile(rg->g, x, twice);
    }
}

static U random_product(RandomGraph *rg, U x, bool *exact)
{
    if (uop_rank(x) < 2) return NULL;
    U y = random_below(&rg->r, 2) ? transpose(rg->g, x) : NULL;
    for (uint32_t j = 0; j < rg->count && !y; j++)
        if (rg->value[j]->dtype == x->dtype && uop_rank(rg->value[j]) == 2 &&
            uop_dim(rg->value[j], 0) == uop_dim(x, uop_rank(x) - 1))
            y = rg->value[j], *exact &= rg->exact[j];
    return y ? matmul(rg->g, x, y) : NULL;
}

static U random_conv(RandomGraph *rg, U x, bool *exact)
{
    U w = NULL;
    int64_t s = between(rg, 1, 2), p = between(rg, 0, 1), one = 1;
    if (uop_rank(x) != 3 || !is_known(x, 1) || !is_known(x, 2)) return NULL;
    for (uint32_t j = 0; j < rg->count; j++) {
        U v = rg->value[j];
        if (v->dtype == x->dtype && uop_rank(v) == 3 && uop_static(v) && uop_size(v, 1) == uop_size(x, 1) &&
            uop_size(v, 2) <= uop_size(x, 2) + 2 * p && uop_size(v, 2) <= 4)
            w = v, *exact &= rg->exact[j];
    }
    return w ? conv(rg->g, x, w, &s, &one, &p, &p, 1) : NULL;
}

static U step_reduce(RandomGraph *rg, U x, bool *exact)
{
    Graph *g = rg->g;
    uint32_t k = uop_rank(x) ? axis_in(rg, x) : 0;
    bool keep = random_below(&rg->r, 2);
    if (!uop_rank(x)) return NULL;
    switch (between(rg, 0, 10)) {
    case 0:
    case 1: return sum(g, x, k, keep);
    case 2: return max_reduce(g, x, k, keep);
    case 3: return min_reduce(g, x, k, keep);
    case 4: return is_float(x) ? (*exact = false, mean(g, x, (const int64_t[]){ 0, k }, 2, keep)) : NULL;
    case 5: return is_float(x) ? (*exact = false, softmax(g, x, k)) : NULL;
    case 6: return is_float(x) ? (*exact = false, log_softmax(g, x, k)) : NULL;
    case 7: return *exact ? cast(g, argmax(g, x, k, keep, random_below(&rg->r, 2)), DT_I32) : NULL;
    case 8: return running(g, UOP_ADD, x, k, random_below(&rg->r, 2), random_below(&rg->r, 2));
    case 9: return random_product(rg, x, exact);
    default: return random_conv(rg, x, exact);
    }
}

/* What models are made of: normalised rows, attention, gates, a residual. */
static U step_block(RandomGraph *rg, U x, bool *exact)
{
    Graph *g = rg->g;
    uint32_t r = uop_rank(x);
    if (!r || !is_float(x)) return NULL;
    *exact = false;
    int64_t last = r - 1;
    U centred = sub(g, x, mean(g, x, &last, 1, true)), t = tame(rg, x);
    switch (between(rg, 0, 4)) {
    case 0:
        return div_(g, centred,
                    sqrt_(g, add(g, mean(g, mul(g, centred, centred), &last, 1, true), scalar(g, x->dtype, 0.5))));
    case 1: return r < 2 ? NULL : matmul(g, softmax(g, matmul(g, t, transpose(g, t)), -1), t);
    case 2: return mul(g, x, sigmoid(g, x));
    case 3: return add(g, x, relu(g, centred));
    default:
        return mul(g, mul(g, x, scalar(g, x->dtype, 0.5)),
                   add(g, erf_(g, mul(g, x, scalar(g, x->dtype, 0.7071))), scalar(g, x->dtype, 1)));
    }
}

/* By indices that are constant, or come from data: an argmax of something. */
static U step_gather(RandomGraph *rg, U x)
{
    Graph *g = rg->g;
    if (!uop_rank(x)) return NULL;
    uint32_t k = axis_in(rg, x);
    int64_t n = uop_size(x, k), idx[6];
    if (!is_known(x, k)) return NULL;
    uint32_t count = (uint32_t)between(rg, 1, 6);
    for (uint32_t i = 0; i < count; i++) idx[i] = between(rg, -n, n - 1);
    U at = tensor_const(g, DT_I64, (const int64_t[]){ count }, 1, arena_copy(graph_arena(g), idx, sizeof idx),
                        count * sizeof *idx, NULL);
    for (uint32_t t = 0; t < 4; t++) {
        uint32_t j = pick(rg);
        U v = rg->value[j];
        if (rg->exact[j] && uop_rank(v) == 2 && random_below(&rg->r, 2))
            at = mod_floor(g, argmax(g, v, 1, false, false), scalar(g, DT_I64, (double)n));
    }
    if (random_below(&rg->r, 3) || !uop_static(x)) return gather(g, x, at, k);
    U wide = mod_floor(g, cast(g, iota(g, uop_index(g, uop_numel(x)), DT_I32), DT_I64), scalar(g, DT_I64, (double)n));
    return gather_elements(g, x, reshape(g, wide, x->shape->dim, uop_rank(x)), k);
}

/* A negative float has no unsigned value: targets differ there. */
static U random_cast(RandomGraph *rg, U x, DType t)
{
    if (is_float(x) && rg->hostile && !dtype_is_float(t)) return NULL;
    if (is_float(x) && dtype_info[t].kind == KIND_UINT) x = max_(rg->g, x, scalar(rg->g, x->dtype, 0));
    return cast(rg->g, x, t);
}

static U step(RandomGraph *rg, bool *exact)
{
    static const DType to[] = { DT_F32, DT_F64, DT_I32, DT_I64, DT_U8, DT_F16, DT_BF16, DT_I8 };
    uint32_t i =
        random_below(&rg->r, 3) ? rg->count - 1 - random_below(&rg->r, rg->count < 3 ? rg->count : 3) : pick(rg);
    U x = rg->value[i];
    *exact = rg->exact[i];
    switch (between(rg, 0, 10)) {
    case 10: return step_block(rg, x, exact);
    case 0:
    case 1: return step_unary(rg, x, exact);
    case 2:
    case 3: return step_binary(rg, i, exact);
    case 4:
    case 5:
    case 6: return step_move(rg, x);
    case 7:
    case 8: return step_reduce(rg, x, exact);
    default:
        return random_below(&rg->r, 2) ? step_gather(rg, x)
            : *exact                   ? random_cast(rg, x, to[random_below(&rg->r, 8)])
                                       : NULL;
    }
}

/* Narrow values are widened, so that rounding stays comparable; exact ones are kept small. */
static void keep(RandomGraph *rg, U x, bool exact)
{
    if (is_error(x)) {
        fprintf(stderr, "random graph: %s\n", tg_error());
        abort();
    }
    if (x->dtype == DT_BOOL || x->dtype == DT_INDEX) x = cast(rg->g, x, DT_I32);
    if (!is_float(x)) exact = true;
    if (rg->hostile && is_float(x)) exact = false;
    if (uop_numel(x) > NUMEL_MAX || uop_rank(x) > AXES_MAX || uop_numel(x) == 0) return;
    if (exact && (dtype_info[x->dtype].kind == KIND_SINT || is_float(x))) x = small(rg, x);
    else if (is_float(x) && !rg->hostile)
        x = clamp(rg->g, x, scalar(rg->g, x->dtype, -1000), scalar(rg->g, x->dtype, 1000));
    rg->value[rg->count] = x;
    rg->exact[rg->count++] = exact;
}

void random_graph_new(RandomGraph *out, uint64_t seed)
{
    uint32_t ops = seed % 7 == 6 ? 28 : 3 + (uint32_t)(seed % 11);
    static const DType types[] = { DT_F32, DT_F32, DT_F64, DT_I32, DT_I64, DT_F16, DT_U8 };
    *out = (RandomGraph){ .g = graph_new(), .r = { seed * 7919 + 1 } };
    RandomGraph *rg = out;
    rg->hostile = seed % 5 == 4;
    if (seed % 3 == 0) rg->var = uop_var(rg->g, "n", 1, VAR_MAX), rg->var_value = between(rg, 1, VAR_MAX);
    for (int k = 0; k < RANDOM_INPUTS; k++) {
        rg->input[k] = random_leaf(rg, k ? types[random_below(&rg->r, 7)] : DT_F32, k);
        keep(rg, rg->input[k], true);
    }
    if (random_below(&rg->r, 2)) keep(rg, random_leaf(rg, DT_F32, -1), true);
    for (uint32_t tries = 0; ops && tries < 200 && rg->count + 1 < RANDOM_VALUES; tries++) {
        bool exact;
        U x = step(rg, &exact);
        if (!x) continue;
        keep(rg, x, exact);
        ops--;
    }
    U value[3] = { rg->value[rg->count - 1], rg->value[pick(rg)], rg->value[pick(rg)] };
    rg->sink = uop_new(rg->g, UOP_SINK, DT_VOID, NO_ARG, value, (uint32_t)between(rg, 1, 3));
}

void random_graph_free(RandomGraph *rg)
{
    for (int k = 0; k < RANDOM_INPUTS; k++) free(rg->data[k]);
    graph_free(rg->g);
}
