/* Resampling: Resize, Upsample, RoiAlign, MaxRoiPool.
 * Resize works axis by axis. In: sizes, scales and regions known at import. For each place of the result the standard's
 * formulas give source positions and weights
 * ("taps"), computed here; out: a view (whole factors), one lookup (nearest), two lookups and a blend (linear), or a
 * weighted sum (cubic, antialias).
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "frontend/import/import.h"
#include "frontend/host/host.h"
#include "frontend/input_names.h"
#include "graph/custom.h"
#include "graph/scalar.h"


typedef enum { MODE_NEAREST, MODE_LINEAR, MODE_CUBIC } Mode;
typedef enum {
    HALF_PIXEL,
    HALF_PIXEL_SYMMETRIC,
    PYTORCH_HALF_PIXEL,
    ALIGN_CORNERS,
    ASYMMETRIC,
    TF_CROP_AND_RESIZE,
    TF_HALF_PIXEL_FOR_NN
} Coordinates;
typedef enum { ROUND_PREFER_FLOOR, ROUND_PREFER_CEIL, ROUND_FLOOR, ROUND_CEIL } Rounding;
typedef struct {
    Mode mode;
    Coordinates at;
    Rounding rounding;
    double cubic_a, extrapolation;
    bool exclude_outside, antialias;
    int policy;
} Resize;
/* one axis */
typedef struct {
    int64_t in, out;
    double scale, roi0, roi1;
} Line;
typedef struct { int64_t n; int64_t *index; double *weight; bool *outside; } Taps;      /* n a place */

/* ---- positions and weights ---- */

/* In float, as scales are in the standard and as other engines compute it: far from 0 a position is only known to 1e-5
 * of a pixel, and a picture shows it. */
static double source_of(const Resize *r, const Line *l, int64_t i)
{
    float x = (float)i, in = (float)l->in, out = (float)l->out, scale = (float)l->scale, last = (float)(l->in - 1),
          half = (x + 0.5f) / scale;
    float roi0 = (float)l->roi0, roi1 = (float)l->roi1;
    switch (r->at) {
    case HALF_PIXEL: return half - 0.5f;
    case HALF_PIXEL_SYMMETRIC: return in / 2 * (1 - out / (scale * in)) + half - 0.5f;
    case PYTORCH_HALF_PIXEL: return l->out == 1 ? 0 : half - 0.5f;
    case ALIGN_CORNERS: return scale * in == 1 || l->out == 1 ? 0 : x * last / (scale * in - 1);
    case ASYMMETRIC: return x / scale;
    case TF_HALF_PIXEL_FOR_NN: return half;
    default: return roi0 * last + (l->out == 1 ? (roi1 - roi0) * last / 2 : x * (roi1 - roi0) * last / (out - 1));
    }
}

static double cubic(double a, double x)
{
    x = fabs(x);
    if (x <= 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
    return x < 2 ? ((a * x - 5 * a) * x + 8 * a) * x - 4 * a : 0;
}

/* Which of the two neighbours the nearest is: 0 the left, 1 the right. */
static int64_t nearest(Rounding how, double ratio)
{
    if (ratio == 1) return 1;
    if (how == ROUND_PREFER_FLOOR) return ratio > 0.5;
    if (how == ROUND_PREFER_CEIL) return ratio >= 0.5;
    return how == ROUND_CEIL;
}

static int64_t half_width(const Resize *r, const Line *l)
{
    double radius = r->mode == MODE_CUBIC ? 2 : 1;
    return r->antialias && l->scale < 1 ? (int64_t)ceil(radius / l->scale) : (int64_t)radius;
}

static int64_t clamped(int64_t at, int64_t size) { return at < 0 ? 0 : at >= size ? size - 1 : at; }

/* The taps of one place: sources first .. first+n-1, the place lying at `ratio` (above 0, at most 1) after the middle
 * one. */
static void weigh(const Resize *r, const Line *l, double ratio, int64_t first, int64_t n, int64_t *index,
                  double *weight)
{
    double squeeze = r->antialias && l->scale < 1 ? l->scale : 1, sum = 0;
    bool scaled = r->antialias || r->exclude_outside;
    for (int64_t k = 0; k < n; k++) {
        double d = ((double)(k - n / 2 + 1) - ratio) * squeeze;
        int64_t at = first + k;
        weight[k] = r->mode == MODE_CUBIC ? cubic(r->cubic_a, d) : fmax(0, 1 - fabs(d));
        if (r->exclude_outside && (at < 0 || at >= l->in)) weight[k] = 0;
        index[k] = clamped(at, l->in);
        sum += weight[k];
    }
    for (int64_t k = 0; k < n && scaled && sum != 0; k++) weight[k] /= sum;
}

/* Taps that weigh nothing at any place go: of a whole factor there may be many. */
static void drop_idle(Graph *g, Taps *t, int64_t out)
{
    int64_t *kept = NEW_N(graph_arena(g), int64_t, t->n), n = 0;
    for (int64_t k = 0; k < t->n; k++) {
        bool weighs = false;
        for (int64_t i = 0; i < out && !weighs; i++) weighs = t->weight[i * t->n + k] != 0;
        if (weighs) kept[n++] = k;
    }
    for (int64_t i = 0; i < out && n; i++)
        for (int64_t k = 0; k < n; k++) {
            t->index[i * n + k] = t->index[i * t->n + kept[k]];
            t->weight[i * n + k] = t->weight[i * t->n + kept[k]];
        }
    if (n) t->n = n;
}

static Taps taps_of(Graph *g, const Resize *r, const Line *l)
{
    int64_t n = r->mode == MODE_NEAREST ? 1 : 2 * half_width(r, l);
    Taps t = { n, NEW_N(graph_arena(g), int64_t, l->out * n + 1), NEW_N(graph_arena(g), double, l->out * n + 1), NULL };
    for (int64_t i = 0; i < l->out; i++) {
        /* left: strictly before x, so that a whole x has ratio 1 */
        double x = source_of(r, l, i), left = ceil(x) - 1;
        if (r->at == TF_CROP_AND_RESIZE && (x < 0 || x > (double)(l->in - 1))) {
            if (!t.outside) t.outside = NEW_N(graph_arena(g), bool, l->out);
            t.outside[i] = true;
        }
        left = fmin(fmax(left, -0x1p40), 0x1p40);
        double ratio = x - left;
        if (n == 1) {
            int64_t at = (int64_t)left + nearest(r->rounding, ratio);
            t.index[i] = clamped(at, l->in);
            t.weight[i] = 1;
        } else weigh(r, l, ratio, (int64_t)left - n / 2 + 1, n, t.index + i * n, t.weight + i * n);
    }
    drop_idle(g, &t, l->out);
    return t;
}

/* ---- graph ---- */

/* Values along one axis, to broadcast with x; inner: of the axis that follows it too. */
static U along(Graph *g, DType t, const void *data, int64_t n, int64_t inner, int64_t axis, uint32_t rank)
{
    int64_t shape[TG_MAX_RANK + 1];
    for (uint32_t k = 0; k < rank; k++) shape[k] = k == axis ? n : inner && k == axis + 1 ? inner : 1;
    return tensor_const(g, t, shape, rank, data, (size_t)(n * (inner ? inner : 1) * dtype_size(t)), "");
}

/* Source places of n taps from `from` on: [out], [out, n] where they are many. Narrow, as the positions in a kernel
 * then are. */
static U positions(Graph *g, const Taps *t, const Line *l, int64_t from, int64_t n)
{
    DType type = l->in <= 1 << 16 ? DT_U16 : l->in <= INT32_MAX ? DT_I32 : DT_I64;
    void *v = NEW_N(graph_arena(g), char, l->out * n * dtype_size(type) + 1);
    for (int64_t i = 0; i < l->out; i++)
        for (int64_t k = 0; k < n; k++) scalar_store(type, v, i * n + k, t->index[i * t->n + from + k]);
    return tensor_const(g, type, (int64_t[]){ l->out, n }, n > 1 ? 2 : 1, v, (size_t)(l->out * n * dtype_size(type)),
                        "");
}

/* In x's type. */
static U weights(Graph *g, U x, const Taps *t, int64_t out, int64_t from, int64_t n, int64_t axis, uint32_t rank)
{
    DType type = (DType)x->dtype;
    char *v = NEW_N(graph_arena(g), char, out * n * dtype_size(type) + 1);
    for (int64_t i = 0; i < out; i++)
        for (int64_t k = 0; k < n; k++) scalar_store(type, v, i * n + k, scalar_of(t->weight[i * t->n + from + k]));
    return along(g, type, v, out, n > 1 ? n : 0, axis, rank);
}

/* One tap where every source comes f times in a row, or every f-th one: no lookup is needed. NULL: it is. */
static U whole_factor(Graph *g, U x, int64_t axis, const Line *l, const Taps *t, int64_t tap)
{
    const int64_t *index = t->index + tap;
    int64_t up = l->in && l->out % l->in == 0 ? l->out / l->in : 0, step = l->out > 1 ? index[t->n] - index[0] : 1;
    bool repeats = up > 0, steps = step > 0 && l->out > 0;
    for (int64_t i = 0; i < l->out; i++) {
        repeats = repeats && index[i * t->n] == i / up;
        steps = steps && index[i * t->n] == index[0] + i * step;
    }
    if (steps) return slice_step(g, x, axis, index[0], l->out, step);
    if (!repeats) return NULL;
    U wide_dim[TG_MAX_RANK + 1], dim[TG_MAX_RANK];
    for (uint32_t k = 0; k < uop_rank(x); k++) wide_dim[k + (k > axis)] = dim[k] = uop_dim(x, k);
    wide_dim[axis + 1] = uop_index(g, up);
    dim[axis] = uop_index(g, l->out);
    return reshape(g, expand(g, unsqueeze(g, x, axis + 1), wide_dim, uop_rank(x) + 1), dim, uop_rank(x));
}

static U one_tap(Graph *g, U x, int64_t axis, const Line *l, const Taps *t, int64_t tap)
{
    U y = whole_factor(g, x, axis, l, t, tap);
    return y ? y : take(g, x, positions(g, t, l, tap, 1), axis);
}

static U blend(Graph *g, U x, int64_t axis, const Line *l, const Taps *t)
{
    uint32_t rank = uop_rank(x);
    if (t->n > 2)
        return sum(
            g, mul(g, take(g, x, positions(g, t, l, 0, t->n), axis), weights(g, x, t, l->out, 0, t->n, axis, rank + 1)),
            axis + 1, false);
    U y = mul(g, one_tap(g, x, axis, l, t, 0), weights(g, x, t, l->out, 0, 1, axis, rank));
    return t->n < 2 ? y : add(g, y, mul(g, one_tap(g, x, axis, l, t, 1), weights(g, x, t, l->out, 1, 1, axis, rank)));
}

static bool is_copy(const Taps *t, int64_t out)
{
    for (int64_t i = 0; i < out && t->n == 1; i++)
        if (t->weight[i] != 1) return false;
    return t->n == 1;
}

static U resize_axis(Graph *g, const Resize *r, U x, int64_t axis, const Line *l, const Taps *t)
{
    U y = is_copy(t, l->out) ? one_tap(g, x, axis, l, t, 0) : blend(g, x, axis, l, t);
    return t->outside ? where(g, along(g, DT_BOOL, t->outside, l->out, 0, axis, uop_rank(x)),
                              scalar(g, y->dtype, r->extrapolation), y)
                      : y;
}

/* ---- axes of symbolic size ---- */

enum { MODEL_SIZE = 64, FACTOR_MAX = 64, TAPS_MAX = 8 };

/* What every `factor` places have in common, found on an axis of MODEL_SIZE: place i takes source i / factor + offset,
 * clamped, with a weight; both depend on i % factor alone. */
typedef struct { int64_t n, offset[TAPS_MAX][FACTOR_MAX]; float weight[TAPS_MAX][FACTOR_MAX]; } Period;

static bool period_of(Graph *g, const Resize *r, int64_t factor, Period *p)
{
    Line l = { .in = MODEL_SIZE, .out = MODEL_SIZE * factor, .scale = (double)factor, .roi1 = 1 };
    Taps t = taps_of(g, r, &l);
    int64_t middle = MODEL_SIZE / 2 * factor;
    if ((p->n = t.n) > TAPS_MAX || t.outside) return false;
    for (int64_t i = 0; i < l.out * t.n; i++) {
        int64_t tap = i % t.n, place = i / t.n, phase = place % factor, like = (middle + phase) * t.n + tap;
        p->offset[tap][phase] = t.index[like] - MODEL_SIZE / 2;
        p->weight[tap][phase] = t.n > 1 ? (float)t.weight[like] : 1;
        int64_t at = clamped(place / factor + p->offset[tap][phase], l.in);
        if (t.index[i] != at || (t.n > 1 && t.weight[i] != t.weight[like])) return false;
    }
    return true;
}

/* [.., n, ..] to [.., n, factor, ..]: one tap. */
static U periodic_tap(Graph *g, const Period *p, int64_t tap, U x, int64_t axis, int64_t factor)
{
    U n = uop_dim(x, (uint32_t)axis), j = unsqueeze(g, iota(g, n, DT_INDEX), 1);
    int64_t *offset = NEW_N(graph_arena(g), int64_t, factor);
    float *weight = NEW_N(graph_arena(g), float, factor);
    memcpy(offset, p->offset[tap], sizeof *offset * (size_t)factor);
    memcpy(weight, p->weight[tap], sizeof *weight * (size_t)factor);
    U at = clamp(g, add(g, j, tensor_const(g, DT_I64, &factor, 1, offset, sizeof *offset * (size_t)factor, "")),
                 uop_index(g, 0), dim_sub(g, n, uop_index(g, 1)));
    U y = take(g, x, at, axis);
    return p->n > 1 ? mul(g, y, along(g, DT_F32, weight, factor, 0, axis + 1, uop_rank(y))) : y;
}

/* An axis whose size is not known, made `factor` times as long. NULL: its places are not alike. */
static U resize_symbolic(Graph *g, const Resize *r, U x, int64_t axis, int64_t factor)
{
    Period p;
    U y = NULL, dim[TG_MAX_RANK];
    if (factor < 1 || factor > FACTOR_MAX || !period_of(g, r, factor, &p)) return NULL;
    for (int64_t tap = 0; tap < p.n; tap++) {
        U part = periodic_tap(g, &p, tap, x, axis, factor);
        y = y ? add(g, y, part) : part;
    }
    for (uint32_t k = 0; k < uop_rank(x); k++)
        dim[k] = k == axis ? dim_mul(g, uop_dim(x, k), uop_index(g, factor)) : uop_dim(x, k);
    return reshape(g, y, dim, uop_rank(x));
}

/* ---- inputs and attributes ---- */

/* Values of a small constant float input; n 0 when absent or empty. */
static bool input_floats(Graph *g, const Ctx *c, uint32_t i, double *out, uint32_t *n)
{
    const UOp *v[2 * TG_MAX_RANK];
    U x = i < c->nin ? c->in[i] : NULL;
    *n = x && uop_static(x) ? (uint32_t)uop_numel(x) : 0;
    if (!*n) return true;
    if (uop_rank(x) != 1)
        return fail_node(g, c, TG_BAD_MODEL, c->node->in[i], "has rank %u; wanted a list", uop_rank(x)), false;
    bool known = *n <= 2 * TG_MAX_RANK && dtype_is_float((DType)x->dtype) && values_of(g, x, v, *n);
    for (uint32_t k = 0; known && k < *n; k++) {
        known = uop_is_const(v[k]);
        out[k] = known ? uop_const_float(v[k]) : 0;
    }
    if (known) return true;
    return fail_data(g, c, i), false;
}

static bool resize_attrs(Graph *g, const Ctx *c, Resize *r)
{
    static const char *const modes[] = { "nearest", "linear", "cubic", NULL },
                             *const roundings[] = { "round_prefer_floor", "round_prefer_ceil", "floor", "ceil", NULL };
    static const char *const places[] = { "half_pixel", "half_pixel_symmetric", "pytorch_half_pixel",   "align_corners",
                                          "asymmetric", "tf_crop_and_resize",   "tf_half_pixel_for_nn", NULL };
    static const char *const policies[] = { "stretch", "not_larger", "not_smaller", NULL };
    bool old = c->opset < 11;
    int mode, at, rounding, policy;
    const char *s = attr_str(g, c, "mode", "nearest");
    if (!strcmp(s, "bilinear") || !strcmp(s, "trilinear")) mode = MODE_LINEAR;
    else if (!attr_choice(g, c, "mode", "nearest", modes, &mode)) return false;
    if (!attr_choice(g, c, "coordinate_transformation_mode", old ? "asymmetric" : "half_pixel", places, &at))
        return false;
    if (!attr_choice(g, c, "nearest_mode", old ? "floor" : "round_prefer_floor", roundings, &rounding)) return false;
    if (!attr_choice(g, c, "keep_aspect_ratio_policy", "stretch", policies, &policy)) return false;
    *r = (Resize){ (Mode)mode,
                   (Coordinates)at,
                   (Rounding)rounding,
                   attr_float(g, c, "cubic_coeff_a", -0.75),
                   attr_float(g, c, "extrapolation_value", 0),
                   attr_bool(g, c, "exclude_outside", false),
                   attr_bool(g, c, "antialias", false),
                   policy };
    return true;
}

/* Sizes given for n axes: each its own scale, or one scale for all of them that keeps the picture's proportions. */
static bool scales_of_sizes(Graph *g, const Ctx *c, int policy, const Line *old, uint32_t n, Line *l)
{
    double scale = 0;
    for (uint32_t k = 0; k < n; k++) {
        l[k] = old[k];
        if (l[k].out < 1 && l[k].in)
            return fail_node(g, c, TG_BAD_MODEL, "sizes", "%lld on axis %u", (long long)l[k].out, k), false;
        l[k].scale = (double)l[k].out / (double)l[k].in;
        scale = !k ? l[k].scale : policy == 1 ? fmin(scale, l[k].scale) : fmax(scale, l[k].scale);
    }
    for (uint32_t k = 0; k < n && policy; k++) {
        l[k].scale = scale;
        l[k].out = (int64_t)floor(scale * (double)l[k].in + 0.5);
    }
    return true;
}

static bool lines_from_scales(Graph *g, const Ctx *c, const double *scale, uint32_t given, const int64_t *axes,
                              uint32_t n, U x, Line *l)
{
    if (given != n) return fail_node(g, c, TG_BAD_MODEL, "scales", "has %u values; wanted %u", given, n), false;
    for (uint32_t k = 0; k < n; k++) {
        int64_t in = uop_size(x, (uint32_t)axes[k]);
        float out = floorf((float)in * (float)scale[k]);         /* 480 by a scale of 5/3, rounded, are 800 */
        bool upsample = c->opset < 10;                           /* the name of Resize until then, of nothing smaller */
        if (!(scale[k] > 0) || (upsample && scale[k] < 1) || !(out < 0x1p31f))
            return fail_node(g, c, TG_BAD_MODEL, "scales", "%g is not a scale", scale[k]), false;
        l[k] = (Line){ .in = in, .out = scale[k] == 1 ? in : (int64_t)out, .scale = scale[k], .roi1 = 1 };
    }
    return true;
}

/* A size that is known to be a whole number of times another. */
static bool whole_times(Graph *g, U size, U of)
{
    return of->vmax > 0 && same_size(g, size, dim_mul(g, of, uop_index(g, size->vmax / of->vmax)));
}

static bool lines_from_sizes(Graph *g, const Ctx *c, int policy, uint32_t input, const int64_t *axes, uint32_t n, U x,
                             Line *l)
{
    const U *size;
    uint32_t given;
    if (!input_sizes(g, c, input, &size, &given)) return false;
    if (given != n) return fail_node(g, c, TG_BAD_MODEL, "sizes", "has %u values; wanted %u", given, n), false;
    Line old[TG_MAX_RANK];
    for (uint32_t k = 0; k < n; k++) {
        U in = uop_dim(x, (uint32_t)axes[k]);
        bool same = size[k] == in;
        if (!same && (!uop_is_const(size[k]) || !uop_is_const(in)) && whole_times(g, size[k], in)) {
            old[k] = (Line){ .in = 1, .out = size[k]->vmax / in->vmax, .roi1 = 1 };
            continue;
        }
        if (!same && (!uop_is_const(size[k]) || !uop_is_const(in)))
            return fail_node(g, c, TG_UNSUPPORTED, "sizes", "a size that depends on data is not covered"), false;
        if (!same && (uop_const_int(size[k]) < 0 || uop_const_int(size[k]) > INT32_MAX))
            return fail_node(g, c, TG_BAD_MODEL, "sizes", "a size is out of range"), false;
        old[k] = (Line){ .in = same ? in->vmax : fixed_size(g, x, (uint32_t)axes[k]),
                         .out = same ? in->vmax : uop_const_int(size[k]),
                         .roi1 = 1 };
        if (!ok(g)) return false;
    }
    return scales_of_sizes(g, c, policy, old, n, l);
}

/* An axis to be resized: results an input element, work a result (a lookup in the last axis is costly, since neighbours
 * are not contiguous), how the places are made. */
typedef struct {
    int64_t axis;
    const Line *line;
    Taps taps;
    double ratio, work;
} Pass;

/* Each pass works on what the ones before it left: of two, that one comes first with which they do less together. */
static void order_passes(Pass *p, uint32_t n)
{
    for (uint32_t k = 1; k < n; k++)
        for (uint32_t at = k; at; at--) {
            Pass a = p[at - 1], b = p[at];
            if (a.ratio * (a.work + b.ratio * b.work) <= b.ratio * (b.work + a.ratio * a.work)) break;
            p[at - 1] = b, p[at] = a;
        }
}

static bool line_is_same(const Resize *r, const Line *l)
{
    return l->in == l->out && l->scale == 1 && (r->at != TF_CROP_AND_RESIZE || (l->roi0 == 0 && l->roi1 == 1));
}

/* n: of the axes, then of the passes. */
static bool make_passes(Graph *g, const Ctx *c, const Resize *r, U x, const int64_t *axes, const Line *l, uint32_t *n,
                        Pass *p)
{
    uint32_t count = 0;
    for (uint32_t k = 0; k < *n; k++) {
        const Line *line = &l[k];
        Pass pass = { .axis = axes[k], .line = line, .taps.n = 1 };
        if (line_is_same(r, line)) continue;
        if (uop_is_const(uop_dim(x, (uint32_t)axes[k]))) {
            if (line->out > 1 << 24)
                return fail_node(g, c, TG_LIMIT, NULL, "axis %d becomes %lld long; at most %d", (int)axes[k],
                                 (long long)line->out, 1 << 24),
                       false;
            if (!line->in && line->out)
                return fail_node(g, c, TG_BAD_MODEL, NULL, "axis %d is empty", (int)axes[k]), false;
            pass.taps = taps_of(g, r, line);
        }
        pass.ratio = (double)line->out / fmax(1, (double)line->in);
        pass.work = (double)pass.taps.n * (axes[k] + 1 == uop_rank(x) ? 8 : 1);
        p[count++] = pass;
    }
    order_passes(p, *n = count);
    return true;
}

static U resize_lines(Graph *g, const Ctx *c, const Resize *r, const int64_t *axes, const Line *l, uint32_t n)
{
    U x = wide(g, c->in[0]), y = x;
    Pass pass[TG_MAX_RANK];
    bool blended = false;
    if (r->mode != MODE_NEAREST && !dtype_is_float((DType)y->dtype)) y = cast(g, y, DT_F32);
    if (c->text && r->mode != MODE_NEAREST)
        return fail_node(g, c, TG_UNSUPPORTED, "mode", "mixes values, which strings cannot be; nearest moves them");
    if (c->text && r->at == TF_CROP_AND_RESIZE && r->extrapolation != 0)
        return fail_node(g, c, TG_UNSUPPORTED, "extrapolation_value", "is a number; x is of strings");
    if (!make_passes(g, c, r, x, axes, l, &n, pass)) return NULL;
    for (const Pass *p = pass; p < pass + n; p++) {
        if (!p->taps.index) {
            y = resize_symbolic(g, r, y, p->axis,
                                p->line->scale == floor(p->line->scale) ? (int64_t)p->line->scale : 0);
            if (!y)
                return fail_node(g, c, TG_UNSUPPORTED, NULL,
                                 "axis %d of symbolic size does not become a whole number of times as long",
                                 (int)p->axis);
            continue;
        }
        /* its values are wanted more than once each */
        if (blended && (double)p->taps.n * p->ratio >= 1) y = contiguous(g, y);
        y = resize_axis(g, r, y, p->axis, p->line, &p->taps);
        blended = p->taps.n > 1;
    }
    /* of integers, as onnxruntime does it; the standard leaves it open */
    bool cut = r->mode == MODE_LINEAR && !r->antialias;
    if (dtype_is_float(type_of(y)) && dtype_is_int(x->dtype) && !cut) y = round_even(g, y);
    return narrow(g, y, c->in[0]);
}

/** Resize (ONNX 10, 11, 13, 18, 19), Upsample (9): x sampled at the places that the attributes name.
 *  in   x, [region of interest], scales or sizes     out  as many axes, other sizes
 */
U op_resize(Graph *g, const Ctx *c)
{
    Resize r;
    Line line[TG_MAX_RANK] = { 0 };
    double scale[2 * TG_MAX_RANK], roi[2 * TG_MAX_RANK];
    const int64_t *axes;
    uint32_t n, nscale, nroi = 0, at = c->opset < 11 ? 1 : 2;
    bool given;
    U x = c->in[0];
    if (!resize_attrs(g, c, &r) || !node_axes(g, c, -1, uop_rank(x), &axes, &n, &given) ||
        !input_floats(g, c, at, scale, &nscale))
        return NULL;
    if (nscale && c->in[Resize_sizes] && fixed_numel(g, c->in[Resize_sizes]))
        return fail_node(g, c, TG_BAD_MODEL, c->node->in[Resize_sizes], "cannot be given together with scales");
    if (nscale ? !lines_from_scales(g, c, scale, nscale, axes, n, x, line)
               : !lines_from_sizes(g, c, r.policy, 3, axes, n, x, line))
        return NULL;
    if (r.at == TF_CROP_AND_RESIZE) {
        if (!input_floats(g, c, 1, roi, &nroi)) return NULL;
        if (nroi != 2 * n) return fail_node(g, c, TG_BAD_MODEL, "roi", "has %u values; wanted %u", nroi, 2 * n);
        for (uint32_t k = 0; k < n; k++) line[k].roi0 = roi[k], line[k].roi1 = roi[k + n];
    }
    return resize_lines(g, c, &r, axes, line, n);
}

/** Upsample (ONNX 1, 7): scales are attributes, of all axes or of the last two. */
U op_upsample_1(Graph *g, const Ctx *c)
{
    Resize r;
    Line line[TG_MAX_RANK] = { 0 };
    const float *given;
    double scale[TG_MAX_RANK];
    int64_t axes[TG_MAX_RANK];
    uint32_t n, rank = uop_rank(c->in[0]);
    if (!resize_attrs(g, c, &r)) return NULL;
    if (c->opset < 7) {
        if (rank != 4) return fail_node(g, c, TG_BAD_MODEL, c->node->in[0], "has rank %u; wanted 4", rank);
        scale[0] = scale[1] = 1, scale[2] = attr_float(g, c, "height_scale", 0),
        scale[3] = attr_float(g, c, "width_scale", 0), n = 4;
    } else {
        if (!attr_floats(g, c, "scales", &given, &n) || n > TG_MAX_RANK)
            return fail_node(g, c, TG_BAD_MODEL, "scales", "is missing or too long");
        for (uint32_t k = 0; k < n; k++) scale[k] = (double)given[k];
    }
    for (uint32_t k = 0; k < n; k++) axes[k] = k;
    return lines_from_scales(g, c, scale, n, axes, rank, c->in[0], line) ? resize_lines(g, c, &r, axes, line, rank)
                                                                         : NULL;
}

/* ---- RoiAlign ---- */

/* Sample points of each region along one direction: [R, cells * samples]. */
static U sample_points(Graph *g, U start, U extent, int64_t cells, int64_t samples)
{
    DType t = (DType)start->dtype;
    int64_t n = cells * samples;
    char *v = NEW_N(graph_arena(g), char, n * dtype_size(t) + 1);
    for (int64_t i = 0; i < n; i++)
        scalar_store(t, v, i,
                     scalar_of(((double)(i % samples) + 0.5) / (double)samples / (double)cells +
                               (double)(i / samples) / (double)cells));
    U at = tensor_const(g, t, (int64_t[]){ 1, n }, 2, v, (size_t)(n * dtype_size(t)), "");
    return add(g, unsqueeze(g, start, 1), mul(g, at, unsqueeze(g, extent, 1)));
}

typedef struct { U low, high, low_weight, high_weight; } Ends;

/* The two pixels (i64) and weights of points along an axis of that size; weights 0 more than a pixel outside. */
static Ends ends_of(Graph *g, U x, int64_t size)
{
    U one = K(1), last = K((double)(size - 1)),
      ok = cast(g, and_(g, ge(g, x, K(-1)), le(g, x, K((double)size))), (DType)x->dtype);
    U at = clamp(g, x, K(0), last), low = floor_(g, at), part = sub(g, at, low);
    return (Ends){ cast(g, low, DT_I64), cast(g, min_(g, add(g, low, one), last), DT_I64),
                   mul(g, ok, sub(g, one, part)), mul(g, ok, part) };
}

/* One corner of every sample: rows of the pictures (channels last), weighted. -> [R, h', w', C] */
static U corner(Graph *g, U rows, U picture, U y, U x, U weight_y, U weight_x, int64_t h, int64_t w)
{
    U at = add(g, mul(g, picture, uop_int(g, DT_I64, h)), y);                                             /* [R, h'] */
    /* [R, h', w'] */
    at = add(g, mul(g, unsqueeze(g, at, 2), uop_int(g, DT_I64, w)), unsqueeze(g, x, 1));
    U weight = mul(g, unsqueeze(g, weight_y, 2), unsqueeze(g, weight_x, 1));
    return mul(g, take(g, rows, at, 0), unsqueeze(g, weight, 3));
}

typedef struct {
    int64_t h, w, samples;
    bool max, half_pixel;
    double scale;
} Roi;

static U roi_column(Graph *g, U rois, int64_t k, const Roi *r)
{
    U x = squeeze(g, slice_i(g, rois, 1, k, k + 1), 1), v = mul(g, x, K(r->scale));
    return r->half_pixel ? sub(g, v, K(0.5)) : v;
}

/* A fixed number of samples a cell: gathers and a reduction. */
static U roi_align_fixed(Graph *g, U x, U rois, U picture, const Roi *r)
{
    int64_t n = uop_size(x, 0), c = uop_size(x, 1), h = uop_size(x, 2), w = uop_size(x, 3), s = r->samples;
    U x0 = roi_column(g, rois, 0, r), y0 = roi_column(g, rois, 1, r), rw = sub(g, roi_column(g, rois, 2, r), x0),
      rh = sub(g, roi_column(g, rois, 3, r), y0);
    if (!r->half_pixel) rw = max_(g, rw, K(1)), rh = max_(g, rh, K(1));
    Ends v = ends_of(g, sample_points(g, y0, rh, r->h, s), h), u = ends_of(g, sample_points(g, x0, rw, r->w, s), w);
    U rows = contiguous(g, reshape_i(g, permute(g, x, (int64_t[]){ 0, 2, 3, 1 }, 4), (int64_t[]){ n * h * w, c }, 2));
    U p = unsqueeze(g, picture, 1);
    U part[4] = { corner(g, rows, p, v.low, u.low, v.low_weight, u.low_weight, h, w),
                  corner(g, rows, p, v.low, u.high, v.low_weight, u.high_weight, h, w),
                  corner(g, rows, p, v.high, u.low, v.high_weight, u.low_weight, h, w),
                  corner(g, rows, p, v.high, u.high, v.high_weight, u.high_weight, h, w) };
    U y = r->max ? max_(g, max_(g, part[0], part[1]), max_(g, part[2], part[3]))
                 : add(g, add(g, part[0], part[1]), add(g, part[2], part[3]));
    U dim[] = { uop_dim(rois, 0),   uop_index(g, r->h), uop_index(g, s),
                uop_index(g, r->w), uop_index(g, s),    uop_index(g, c) };
    y = reshape(g, y, dim, 6);
    y = r->max ? reduce(g, UOP_MAX, y, (int64_t[]){ 2, 4 }, 2, false) : mean(g, y, (int64_t[]){ 2, 4 }, 2, false);
    return permute(g, y, (int64_t[]){ 0, 3, 1, 2 }, 4);
}

static U roi_align_host(Graph *g, U x, U rois, U picture, const Roi *r)
{
    RoiAttr a = { r->max,        r->half_pixel, x->dtype == DT_F64, (int32_t)r->samples,
                  (int32_t)r->h, (int32_t)r->w, (float)r->scale };
    U call = call_new(g, custom_new(g, "roi_align", &a, sizeof a, NULL, 0),
                      (U[]){ permute(g, x, (int64_t[]){ 0, 2, 3, 1 }, 4), rois, picture }, 3);
    return call_result(g, call, 0, (DType)x->dtype,
                       (U[]){ uop_dim(rois, 0), uop_dim(x, 1), uop_index(g, r->h), uop_index(g, r->w) }, 4);
}

/** RoiAlign (ONNX 10, 16): each region [x0 y0 x1 y1] of its picture cut into h x w cells, each the mean (or maximum) of
 * bilinear samples. in   x [N,C,H,W], regions [R,4], pictures [R]     out  [R,C,h,w]
 */
U op_roi_align(Graph *g, const Ctx *c)
{
    static const char *const places[] = { "half_pixel", "output_half_pixel", NULL },
                             *const modes[] = { "avg", "max", NULL };
    U x = c->in[0], rois = wide(g, c->in[RoiAlign_rois]);
    int place, mode;
    if (!attr_choice(g, c, "coordinate_transformation_mode", c->opset < 16 ? "output_half_pixel" : "half_pixel", places,
                     &place) ||
        !attr_choice(g, c, "mode", "avg", modes, &mode))
        return NULL;
    Roi r = { attr_int(g, c, "output_height", 1),
              attr_int(g, c, "output_width", 1),
              attr_int(g, c, "sampling_ratio", 0),
              mode == 1,
              place == 0,
              attr_float(g, c, "spatial_scale", 1) };
    if (uop_rank(x) != 4 || uop_rank(rois) != 2 || !uop_is_int_const(uop_dim(rois, 1), 4))
        return fail_node(g, c, TG_BAD_MODEL, NULL, "wanted x of rank 4 and regions [R,4]");
    if (!shape_ok(g, c, RoiAlign_batch_indices, (U[]){ uop_dim(rois, 0) }, 1)) return NULL;
    if (!(r.scale > 0 && isfinite(r.scale)))
        return fail_node(g, c, TG_BAD_MODEL, "spatial_scale", "is %g; wanted a positive number", r.scale);
    if (r.h < 1 || r.w < 1 || r.samples < 0 || r.h > 4096 || r.w > 4096 || r.samples > 4096)
        return fail_node(g, c, TG_BAD_MODEL, NULL, "output sizes or sampling_ratio are out of range");
    U picture = input_place(g, c, RoiAlign_batch_indices, uop_dim(x, 0)), wide_x = wide(g, x);
    rois = cast(g, rois, (DType)wide_x->dtype);
    return narrow(g,
                  r.samples && uop_static(x) ? roi_align_fixed(g, wide_x, rois, picture, &r)
                                             : roi_align_host(g, wide_x, rois, picture, &r),
                  x);
}

/* ---- MaxRoiPool ---- */

/* To the nearest integer, halves away from zero. */
static U round_away(Graph *g, U x)
{
    U half = floor_(g, add(g, abs_(g, x), scalar(g, (DType)x->dtype, 0.5)));
    return where(g, lt(g, x, scalar(g, (DType)x->dtype, 0)), neg(g, half), half);
}

/* Which pixels of an axis of that size the cells of each region hold: bool [R, cells, size]. first, last: [R], pixels
 * both of them the region's own. */
static U cell_masks(Graph *g, U first, U last, int64_t cells, U size)
{
    U x = first, one = K(1), n = K((double)cells), extent = max_(g, add(g, sub(g, last, first), one), one),
      i = iota(g, uop_index(g, cells), (DType)x->dtype), pixel = iota(g, size, (DType)x->dtype);
    U step = div_(g, unsqueeze(g, extent, 1), n), start = unsqueeze(g, first, 1);
    U begin = add(g, floor_(g, mul(g, i, step)), start), end = add(g, ceil_(g, mul(g, add(g, i, one), step)), start);
    return and_(g, ge(g, pixel, unsqueeze(g, begin, 2)), lt(g, pixel, unsqueeze(g, end, 2)));
}

/** MaxRoiPool (ONNX 1): each region [picture x0 y0 x1 y1] cut into h x w cells that share border pixels, each the
 * maximum of its pixels, 0 where it has none. in   x [N,C,H,W], regions [R,5]     out  [R,C,h,w]
 */
U op_max_roi_pool(Graph *g, const Ctx *c)
{
    U x = wide(g, c->in[0]), rois = wide(g, c->in[MaxRoiPool_rois]), at[5], none = K(-INFINITY);
    double scale = attr_float(g, c, "spatial_scale", 1);
    const int64_t *shape;
    uint32_t n;
    if (uop_rank(x) != 4 || uop_rank(rois) != 2 || !uop_is_int_const(uop_dim(rois, 1), 5))
        return fail_node(g, c, TG_BAD_MODEL, NULL, "wanted x of rank 4 and regions [R,5]");
    if (!attr_ints(g, c, "pooled_shape", &shape, &n) || n != 2 || shape[0] < 1 || shape[1] < 1 || shape[0] > 4096 ||
        shape[1] > 4096)
        return fail_node(g, c, TG_BAD_MODEL, "pooled_shape", "wanted two sizes of 1 to 4096");
    if (!(scale > 0 && isfinite(scale)))
        return fail_node(g, c, TG_BAD_MODEL, "spatial_scale", "is %g; wanted a positive number", scale);
    for (int k = 0; k < 5; k++) at[k] = squeeze(g, slice_i(g, rois, 1, k, k + 1), 1);
    for (int k = 1; k < 5; k++) at[k] = round_away(g, mul(g, at[k], K(scale)));
    U rows = cell_masks(g, at[2], at[4], shape[0], uop_dim(x, 2)),
      columns = cell_masks(g, at[1], at[3], shape[1], uop_dim(x, 3));
    /* what is no whole number is none */
    U picture = place_in(g, where(g, eq(g, at[0], floor_(g, at[0])), cast(g, at[0], DT_I64), uop_int(g, DT_I64, -1)),
                         uop_dim(x, 0));
    /* [R,C,H,1,W] */
    U y = unsqueeze(g, gather(g, x, picture, 0), 3);
    /* [R,C,H,w] */
    y = max_reduce(g, where(g, unsqueeze(g, unsqueeze(g, columns, 1), 1), y, none), -1, false);
    /* [R,C,h,w] */
    y = max_reduce(g, where(g, unsqueeze(g, unsqueeze(g, rows, 1), 4), unsqueeze(g, y, 2), none), 3, false);
    return narrow(g, where(g, eq(g, y, none), K(0), y), c->in[0]);
}
