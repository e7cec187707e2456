/* Sampling at computed places: grids, images from columns, pooled maxima put back, parts of a cache, reversed
 * sequences. In: values and positions, both data. Out: gathers whose index is an expression; positions outside are
 * clamped after the padding rule has had its say, so nothing is read outside. To add one: a function here and a row in
 * ops.def.
 */
#include "frontend/frontend.h"
#include "frontend/input_names.h"

#include <string.h>


/* ---- AffineGrid ---- */

/** AffineGrid: theta [n, k, k+1] on the corners' grid of a size (n, c, d1..dk): [n, d1..dk, k], coordinates innermost
 * axis first. */
U op_affine_grid(Graph *g, const Ctx *c)
{
    U theta = wide(g, c->in[0]), coord[4], dim[5];
    const U *size;
    uint32_t n, k;
    bool corners = attr_bool(g, c, "align_corners", false);
    if (!input_sizes(g, c, AffineGrid_size, &size, &n)) return NULL;
    k = n - 2;
    if (n < 4 || n > 5 || uop_rank(theta) != 3 || fixed_size(g, theta, 1) != k || fixed_size(g, theta, 2) != k + 1)
        return fail_node(g, c, TG_BAD_MODEL, "size", "has %u values for a theta of rank %u", n, uop_rank(theta));
    for (uint32_t a = 0; a < k; a++) {
        U all = size[a + 2], one = uop_index(g, 1), x = iota(g, all, type_of(theta)), line;
        if (all->vmin < 1 || all->vmax > 1 << 24)
            return fail_node(g, c, uop_is_const(all) ? TG_BAD_MODEL : TG_UNSUPPORTED, "size", "%lld",
                             (long long)all->vmin);
        double steps = (double)all->vmax, step = corners ? (steps > 1 ? 2 / (steps - 1) : 0) : 2 / steps;
        U by = uop_is_const(all)
            ? K(step)
            : div_(g, K(2), cast(g, corners ? dim_max(g, dim_sub(g, all, one), one) : all, type_of(theta)));
        line = add(g, mul(g, x, by),
                   corners                 ? K(-1)
                       : uop_is_const(all) ? K(step / 2 - 1)
                                           : sub(g, mul(g, by, K(0.5)), K(1)));
        for (uint32_t b = a + 1; b < k; b++) line = unsqueeze(g, line, -1);
        dim[a + 1] = size[a + 2];
        coord[k - 1 - a] = line;                                           /* x is the last axis */
    }
    dim[0] = uop_dim(theta, 0);
    U out[3];
    for (uint32_t row = 0; row < k; row++) {
        U y = NULL;
        for (uint32_t col = 0; col <= k; col++) {
            U t = slice_i(g, slice_i(g, theta, 1, row, row + 1), 2, col, col + 1);
            t = reshape(g, t, (U[]){ dim[0], uop_index(g, 1), uop_index(g, 1), uop_index(g, 1) }, k + 1);
            t = col < k ? mul(g, t, coord[col]) : t;
            y = y ? add(g, y, t) : t;
        }
        out[row] = unsqueeze(g, expand(g, y, dim, k + 1), -1);
    }
    return narrow(g, cat(g, out, k, -1), c->in[0]);
}

/* ---- GridSample ---- */

enum { GRID_AXES = TG_MAX_RANK - 2, TAPS_APART = 64, TAPS_LOG2_MAX = 20 };
typedef enum { PAD_ZEROS, PAD_BORDER, PAD_REFLECTION } GridPad;
typedef enum { GRID_NEAREST, GRID_LINEAR, GRID_CUBIC } GridMode;        /* 2 to that power are the taps of an axis */
typedef struct { GridMode mode; GridPad pad; bool corners; } Grid;

/* x mirrored at lo and hi until it lies between. */
static U reflect(Graph *g, U x, U lo, U hi)
{
    U span = sub(g, hi, lo), twice = mul(g, K(2), span), safe = where(g, eq(g, span, K(0)), K(1), twice),
      t = mod_floor(g, sub(g, x, lo), safe);
    return add(g, lo, where(g, eq(g, span, K(0)), K(0), min_(g, t, sub(g, twice, t))));
}

/* The taps of a kernel along one axis, all in one tensor [n, taps, places] each: where they lie, their weights (NULL:
 * the only one moves its value), and whether they count (NULL: all do). */
typedef struct { int64_t count; U index, weight, inside; } Taps;

static U cubic_weight(Graph *g, U d)         /* Keys' kernel, a = -0.75, at distance d */
{
    U x = d, square = mul(g, x, x), cube = mul(g, square, x);
    U near = add(g, sub(g, mul(g, K(1.25), cube), mul(g, K(2.25), square)), K(1)),
      far = sub(g, add(g, mul(g, K(-0.75), cube), mul(g, K(3.75), square)), sub(g, mul(g, K(6), x), K(3)));
    return where(g, le(g, x, K(1)), near, far);
}

/* From -1 .. 1 to places of pixels. */
static U pixel(Graph *g, const Grid *s, U x, U size)
{
    U n = cast(g, size, type_of(x)), one = K(1);
    return s->corners ? mul(g, mul(g, add(g, x, one), K(0.5)), sub(g, n, one))
                      : mul(g, sub(g, mul(g, add(g, x, one), n), one), K(0.5));
}

/* x: [n, 1, places] */
static Taps make_taps(Graph *g, const Grid *s, U x, U size)
{
    Taps taps = { .count = 1 << s->mode };
    U n = cast(g, size, type_of(x)), last = sub(g, n, K(1)), lo = s->corners ? K(0) : K(-0.5),
      hi = s->corners ? last : sub(g, n, K(0.5)), one = K(1);
    if (s->mode == GRID_NEAREST) x = round_even(g, x);
    if (s->pad != PAD_ZEROS)
        x = where(g, or_(g, lt(g, x, lo), gt(g, x, hi)),
                  s->pad == PAD_BORDER ? clamp(g, x, K(0), last) : reflect(g, x, lo, hi), x);
    U base = floor_(g, x), f = sub(g, x, base),
      t = sub(g, unsqueeze(g, iota(g, uop_index(g, taps.count), type_of(x)), 1), K(s->mode == GRID_CUBIC)),
      at = s->mode == GRID_NEAREST ? round_even(g, x) : add(g, base, t);
    taps.weight = s->mode == GRID_NEAREST ? NULL
        : s->mode == GRID_CUBIC           ? cubic_weight(g, abs_(g, sub(g, f, t)))
                                          : where(g, lt(g, t, one), sub(g, one, f), f);
    taps.inside = s->pad == PAD_ZEROS ? and_(g, ge(g, at, K(0)), le(g, at, last)) : NULL;
    if (s->pad == PAD_REFLECTION) at = where(g, or_(g, lt(g, at, lo), gt(g, at, hi)), reflect(g, at, lo, hi), at);
    /* a large size is no float; NaN is 0 */
    taps.index = min_(g, cast(g, clamp(g, at, K(0), last), DT_I64), cast(g, sub(g, size, uop_index(g, 1)), DT_I64));
    return taps;
}

static bool read_grid(Graph *g, const Ctx *c, Grid *s)
{
    static const char *const mode[] = { "nearest", "linear", "cubic", "bilinear", "bicubic" },
                             *const pad[] = { "zeros", "border", "reflection" };
    const char *m = attr_str(g, c, "mode", "linear"), *p = attr_str(g, c, "padding_mode", "zeros");
    int at_mode = -1, at_pad = -1;
    for (int k = 0; k < 5; k++) at_mode = strcmp(m, mode[k]) ? at_mode : k > 2 ? k - 2 : k;
    for (int k = 0; k < 3; k++) at_pad = strcmp(p, pad[k]) ? at_pad : k;
    if (at_mode < 0) return fail_node(g, c, TG_BAD_MODEL, "mode", "is '%s'; wanted nearest, linear or cubic", m), false;
    if (at_pad < 0)
        return fail_node(g, c, TG_BAD_MODEL, "padding_mode", "is '%s'; wanted zeros, border or reflection", p), false;
    *s = (Grid){ (GridMode)at_mode, (GridPad)at_pad, attr_bool(g, c, "align_corners", false) };
    return ok(g);
}

/* [n, taps, places] of axis a as [n, 1.., taps, ..1, places], which broadcasts with those of the other axes. */
static U along_taps(Graph *g, U value, uint32_t a, uint32_t axes)
{
    U dim[GRID_AXES + 2];
    for (uint32_t k = 0; k < axes; k++) dim[k + 1] = k == a ? uop_dim(value, 1) : uop_index(g, 1);
    dim[0] = uop_dim(value, 0), dim[axes + 1] = uop_dim(value, 2);
    return reshape(g, value, dim, axes + 2);
}

static U stored(Graph *g, U x, const U *dim) { return contiguous(g, reshape(g, x, dim, 3)); }

/* Values of x, flat, at places of its planes, by their weights. What is outside lies at -1. */
static U tap_values(Graph *g, U x, U plane, U at, U weight, U points, bool outside)
{
    at = cast(g, at, DT_INDEX);
    U v = take(g, x, add(g, plane, clamp(g, at, uop_index(g, 0), dim_sub(g, points, uop_index(g, 1)))), 0);
    if (outside || points->vmin < 1) v = where(g, ge(g, at, uop_index(g, 0)), v, K(0));
    return weight ? mul(g, v, weight) : v;
}

/* The sum over all combinations of taps, one an axis, of weight times value. x: [n, c, points], dim: its sizes before
 * the points became one axis. Index and weight of all combinations are stored as one tensor each: separately they would
 * be more than a kernel can read. A few are summed term by term, many by a loop. */
static U gather_taps(Graph *g, U x, const U *dim, const Taps *taps, uint32_t axes)
{
    int64_t total = 1;
    U index = NULL, weight = NULL, inside = NULL, places = uop_dim(taps->index, 2), points = uop_dim(x, 2), y = NULL;
    for (uint32_t a = 0; a < axes; a++) {
        U i = along_taps(g, taps[a].index, a, axes), w = taps[a].weight ? along_taps(g, taps[a].weight, a, axes) : NULL,
          hit = taps[a].inside ? along_taps(g, taps[a].inside, a, axes) : NULL;
        index = index ? add(g, mul(g, index, cast(g, dim[a + 2], DT_I64)), i) : i;
        weight = weight ? mul(g, weight, w) : w;
        inside = inside ? and_(g, inside, hit) : hit;
        total *= taps[a].count;
    }
    U shape[3] = { dim[0], uop_index(g, total), places }, all = dim_mul(g, dim_mul(g, dim[0], dim[1]), points);
    U flat = reshape(g, x, &all, 1),
      plane = reshape(g, mul(g, iota(g, dim_mul(g, dim[0], dim[1]), DT_INDEX), points),
                      (U[]){ dim[0], dim[1], uop_index(g, 1) }, 3);
    if (inside) index = where(g, inside, index, uop_int(g, DT_I64, -1));
    index = stored(g, cast(g, index, points->vmax <= INT32_MAX ? DT_I32 : DT_I64), shape);
    if (weight) weight = stored(g, cast(g, weight, type_of(x)), shape);
    if (total > TAPS_APART)
        return sum(g,
                   tap_values(g, flat, unsqueeze(g, plane, -1), unsqueeze(g, index, 1), unsqueeze(g, weight, 1), points,
                              inside),
                   2, false);
    for (int64_t k = 0; k < total; k++) {
        U v = tap_values(g, flat, plane, slice_i(g, index, 1, k, k + 1),
                         weight ? slice_i(g, weight, 1, k, k + 1) : NULL, points, inside);
        y = y ? add(g, y, v) : v;
    }
    return y;
}

/** GridSample: x [n, c, d1..dk] at grid [n, o1..ok, k], whose coordinates -1..1 name the innermost axis first. */
U op_grid_sample(Graph *g, const Ctx *c)
{
    U x = wide(g, c->in[0]), grid = wide(g, c->in[GridSample_grid]), dim[TG_MAX_RANK];
    uint32_t r = uop_rank(x), k = r - 2;
    Grid s;
    Taps taps[GRID_AXES];
    if (r < 3 || uop_rank(grid) != r || fixed_size(g, grid, r - 1) != k || uop_dim(grid, 0) != uop_dim(x, 0))
        return fail_node(g, c, TG_BAD_MODEL, c->node->in[GridSample_grid], "does not fit an input of rank %u", r);
    if (!read_grid(g, c, &s)) return NULL;
    if (k * s.mode > TAPS_LOG2_MAX)
        return fail_node(g, c, TG_LIMIT, "mode", "takes more than 2^%d places at once on %u axes", TAPS_LOG2_MAX, k);
    if (c->text && s.mode != GRID_NEAREST)
        return fail_node(g, c, TG_UNSUPPORTED, "mode", "mixes values, which strings cannot be; nearest moves them");
    /* and cut in the end */
    if (s.mode != GRID_NEAREST && !dtype_is_float(x->dtype)) x = cast(g, x, dtype_size(x->dtype) > 2 ? DT_F64 : DT_F32);
    U places = dim_product(g, grid->shape->dim + 1, k);
    for (uint32_t a = 0; a < k; a++) {
        U coord =
            reshape(g, slice_i(g, grid, -1, k - 1 - a, k - a), (U[]){ uop_dim(x, 0), uop_index(g, 1), places }, 3);
        if (coord->op == UOP_ERROR) return coord;
        taps[a] = make_taps(g, &s, pixel(g, &s, coord, uop_dim(x, a + 2)), uop_dim(x, a + 2));
        if (!ok(g)) return NULL;
    }
    U flat = reshape(g, x, (U[]){ uop_dim(x, 0), uop_dim(x, 1), dim_product(g, x->shape->dim + 2, k) }, 3);
    U y = gather_taps(g, flat, x->shape->dim, taps, k);
    dim[0] = uop_dim(x, 0), dim[1] = uop_dim(x, 1);
    for (uint32_t a = 0; a < k; a++) dim[a + 2] = uop_dim(grid, a + 1);
    return narrow(g, reshape(g, y, dim, r), c->in[0]);
}

/* ---- DeformConv ---- */

typedef struct {
    int64_t kernel[2], shape[2], stride[2], dilation[2], pad[4], groups, offsets;
} Deform;

static bool pair_of(Graph *g, const Ctx *c, const char *name, uint32_t n, int64_t lo, int64_t otherwise, int64_t *out)
{
    const int64_t *v;
    uint32_t count;
    for (uint32_t k = 0; k < n; k++) out[k] = otherwise;
    if (!attr_ints(g, c, name, &v, &count)) return ok(g);
    for (uint32_t k = 0; k < n && count == n; k++)
        if (v[k] < lo || v[k] > 1 << 20) count = 0;
    if (count != n)
        return fail_node(g, c, TG_BAD_MODEL, name, "wanted %u values of %lld or more", n, (long long)lo), false;
    memcpy(out, v, sizeof *v * n);
    return true;
}

static bool read_deform(Graph *g, const Ctx *c, U x, U f, Deform *d)
{
    if (uop_rank(x) != 4 || uop_rank(f) != 4 || uop_rank(c->in[DeformConv_offset]) != 4 || !uop_static(x) ||
        !uop_static(f))
        return fail_node(g, c, TG_UNSUPPORTED, NULL, "images of static size are covered"), false;
    d->groups = attr_int(g, c, "group", 1), d->offsets = attr_int(g, c, "offset_group", 1);
    d->kernel[0] = uop_size(f, 2), d->kernel[1] = uop_size(f, 3);
    if (!pair_of(g, c, "strides", 2, 1, 1, d->stride) || !pair_of(g, c, "dilations", 2, 1, 1, d->dilation) ||
        !pair_of(g, c, "pads", 4, 0, 0, d->pad))
        return false;
    memcpy(d->shape, d->kernel, sizeof d->shape);
    if (attr_find(c, "kernel_shape") && !pair_of(g, c, "kernel_shape", 2, 1, 1, d->shape)) return false;
    if (d->groups < 1 || d->offsets < 1 || uop_size(x, 1) % d->offsets ||
        uop_size(x, 1) != uop_size(f, 1) * d->groups || uop_size(f, 0) % d->groups)
        return fail_node(g, c, TG_BAD_MODEL, "group", "%lld and offset_group %lld for %lld channels",
                         (long long)d->groups, (long long)d->offsets, (long long)uop_size(x, 1)),
               false;
    int64_t out[2], taps = d->offsets * d->kernel[0] * d->kernel[1];
    for (int a = 0; a < 2; a++) {
        out[a] = (uop_size(x, (uint32_t)a + 2) + d->pad[a] + d->pad[a + 2] - d->dilation[a] * (d->kernel[a] - 1) - 1) /
                d->stride[a] +
            1;
        if (uop_size(x, (uint32_t)a + 2) < 1 || out[a] < 1 || d->shape[a] != d->kernel[a])
            return fail_node(g, c, TG_BAD_MODEL, "kernel_shape",
                             "weights of size %lld on axis %d of the image do not fit", (long long)d->kernel[a], a),
                   false;
    }
    U n = uop_dim(x, 0), h = uop_index(g, out[0]), w = uop_index(g, out[1]);
    return shape_ok(g, c, DeformConv_offset, (U[]){ n, uop_index(g, 2 * taps), h, w }, 4) &&
        shape_ok(g, c, DeformConv_B, (U[]){ uop_dim(f, 0) }, 1) &&
        shape_ok(g, c, DeformConv_mask, (U[]){ n, uop_index(g, taps), h, w }, 4);
}

/** DeformConv: a convolution whose taps are moved by offset [n, groups * kh * kw * 2, oh, ow] and weighed by mask;
 * values between pixels are bilinear, outside zero. */
U op_deform_conv(Graph *g, const Ctx *c)
{
    U x = wide(g, c->in[0]), f = wide(g, c->in[DeformConv_W]), offset = wide(g, c->in[DeformConv_offset]),
      bias = wide(g, c->in[DeformConv_B]), mask = wide(g, c->in[DeformConv_mask]);
    static const Grid bilinear = { GRID_LINEAR, PAD_ZEROS, true };
    Deform d;
    Taps move[2];
    if (!read_deform(g, c, x, f, &d)) return NULL;
    int64_t n = uop_size(x, 0), taps = d.kernel[0] * d.kernel[1], each = uop_size(x, 1) / d.offsets,
            oh = uop_size(offset, 2), ow = uop_size(offset, 3), m = uop_size(f, 0);
    U moved = reshape_i(g, offset, (int64_t[]){ n * d.offsets, d.kernel[0], d.kernel[1], 2, oh, ow }, 6);
    for (int a = 0; a < 2; a++) {
        U out = sub(g, mul(g, iota(g, uop_index(g, a ? ow : oh), type_of(x)), K((double)d.stride[a])),
                    K((double)d.pad[a])),
          at = mul(g, iota(g, uop_index(g, d.kernel[a]), type_of(x)), K((double)d.dilation[a]));
        U place = a ? add(g, reshape_i(g, at, (int64_t[]){ d.kernel[1], 1, 1 }, 3), out)
                    : add(g, reshape_i(g, at, (int64_t[]){ d.kernel[0], 1, 1, 1 }, 4), unsqueeze(g, out, 1));
        U coord = add(g, squeeze(g, slice_i(g, moved, 3, a, a + 1), 3), place);
        coord = reshape_i(g, coord, (int64_t[]){ n * d.offsets, 1, taps * oh * ow }, 3);
        if (coord->op == UOP_ERROR) return coord;
        move[a] = make_taps(g, &bilinear, coord, uop_dim(x, (uint32_t)a + 2));
    }
    U dim[] = { uop_index(g, n * d.offsets), uop_index(g, each), uop_dim(x, 2), uop_dim(x, 3) };
    U columns = gather_taps(g, reshape_i(g, x, (int64_t[]){ n * d.offsets, each, uop_size(x, 2) * uop_size(x, 3) }, 3),
                            dim, move, 2);
    if (mask) columns = mul(g, columns, reshape_i(g, mask, (int64_t[]){ n * d.offsets, 1, taps * oh * ow }, 3));
    columns = reshape_i(g, columns, (int64_t[]){ n, d.groups, uop_size(f, 1) * taps, oh * ow }, 4);
    U y = reshape_i(
        g, matmul(g, reshape_i(g, f, (int64_t[]){ d.groups, m / d.groups, uop_size(f, 1) * taps }, 3), columns),
        (int64_t[]){ n, m, oh, ow }, 4);
    if (bias) y = add(g, y, reshape_i(g, bias, (int64_t[]){ m, 1, 1 }, 3));
    return y->op == UOP_ERROR ? y : narrow(g, y, c->in[0]);
}

/* ---- positions along an axis ---- */

/* A list v [batch] as [batch, 1..] with the batch at `axis` of rank r. */
static U along(Graph *g, U v, uint32_t axis, uint32_t r)
{
    for (uint32_t k = axis + 1; k < r; k++) v = unsqueeze(g, v, -1);
    return v;
}

/* ReverseSequence: of each batch, the first lens[batch] steps come backwards. */
U op_reverse_sequence(Graph *g, const Ctx *c)
{
    U x = c->in[0], lens = cast(g, c->in[ReverseSequence_sequence_lens], DT_I64);
    int64_t batch, time;
    uint32_t r = uop_rank(x);
    if (!axis_ok(g, c, "batch_axis", attr_int(g, c, "batch_axis", 1), r, &batch) ||
        !axis_ok(g, c, "time_axis", attr_int(g, c, "time_axis", 0), r, &time))
        return NULL;
    if (batch == time || uop_rank(lens) != 1 || !one_size(g, &x, batch, &lens, 0))
        return fail_node(g, c, TG_BAD_MODEL, c->node->in[ReverseSequence_sequence_lens],
                         "wanted a length for each batch");
    lens = place_in(g, lens, dim_add(g, uop_dim(x, (uint32_t)time), uop_index(g, 1)));
    U t = along(g, iota(g, uop_dim(x, (uint32_t)time), DT_I64), (uint32_t)time, r),
      n = along(g, lens, (uint32_t)batch, r);
    U from = where(g, lt(g, t, n), sub(g, sub(g, n, uop_int(g, DT_I64, 1)), t), t);
    from =
        clamp(g, from, uop_int(g, DT_I64, 0), cast(g, dim_sub(g, uop_dim(x, (uint32_t)time), uop_index(g, 1)), DT_I64));
    return gather_elements(g, x, expand_like(g, from, x), time);
}

/** TensorScatter (24): update rows written into a cache from write_indices[batch] on along `axis`; written as a choice
 * by position, in place of a scatter. */
U op_tensor_scatter(Graph *g, const Ctx *c)
{
    U x = c->in[0], update = c->in[TensorScatter_update], zero = uop_int(g, DT_I64, 0);
    const char *mode = attr_str(g, c, "mode", "linear");
    uint32_t r = uop_rank(x);
    int64_t axis;
    if (strcmp(mode, "linear") && strcmp(mode, "circular"))
        return fail_node(g, c, TG_BAD_MODEL, "mode", "is '%s'; wanted linear or circular", mode);
    if (!axis_ok(g, c, "axis", attr_int(g, c, "axis", -2), r, &axis) || uop_rank(update) != r)
        return ok(g) ? fail_node(g, c, TG_BAD_MODEL, c->node->in[TensorScatter_update], "has rank %u; wanted %u",
                                 uop_rank(update), r)
                     : NULL;
    if (axis == 0) return fail_node(g, c, TG_BAD_MODEL, "axis", "is that of the batch");
    U rows = uop_dim(x, (uint32_t)axis), count = uop_dim(update, (uint32_t)axis), dim[TG_MAX_RANK];
    memcpy(dim, x->shape->dim, sizeof *dim * r);
    dim[axis] = NULL;
    if (!shape_ok(g, c, TensorScatter_update, dim, r) ||
        !shape_ok(g, c, TensorScatter_write_indices, (U[]){ uop_dim(x, 0) }, 1))
        return NULL;
    if (count->vmax > rows->vmax)
        return fail_node(g, c, TG_BAD_MODEL, c->node->in[TensorScatter_update], "%lld rows for a cache of %lld",
                         (long long)count->vmax, (long long)rows->vmax);
    if (uop_is_int_const(count, 0)) return x;
    U room = *mode == 'c' ? rows : dim_add(g, dim_sub(g, rows, count), uop_index(g, 1));
    U first = c->in[TensorScatter_write_indices] ? along(g, input_place(g, c, TensorScatter_write_indices, room), 0, r)
                                                 : zero;
    U at = sub(g, along(g, iota(g, rows, DT_I64), (uint32_t)axis, r), first);
    if (*mode == 'c') at = mod_floor(g, at, cast(g, rows, DT_I64));
    U inside = and_(g, ge(g, at, zero), lt(g, at, cast(g, count, DT_I64)));
    memcpy(dim, x->shape->dim, sizeof *dim * r);
    if (count->vmin < 1) at = place_where(g, inside, at, &update, (uint32_t)axis);
    at = clamp(g, at, zero, cast(g, dim_sub(g, uop_dim(update, (uint32_t)axis), uop_index(g, 1)), DT_I64));
    return where(g, inside, gather_elements(g, update, expand(g, at, dim, r), axis), x);
}

/* MaxUnpool: values put back at flat positions, zeros elsewhere. It is a ScatterElements of one axis. */
U op_scatter_elements(Graph *g, const Ctx *c);

/* Flat positions in the shape that kernel and strides imply, as flat positions in a given one that is no smaller. */
static U in_larger(Graph *g, U at, const U *shape, const U *inner, uint32_t r)
{
    U y = uop_int(g, DT_I64, 0), step = uop_index(g, 1);
    at = cast(g, at, DT_I64);
    for (uint32_t k = r; k-- > 0; step = dim_mul(g, step, shape[k])) {
        U size = cast(g, inner[k], DT_I64);
        y = add(g, y, mul(g, mod_floor(g, at, size), cast(g, step, DT_I64)));
        at = idiv(g, at, size);
    }
    return y;
}

/** MaxUnpool (9, 11, 22). Places count in the shape that kernel, strides and pads imply, which output_shape may
 * enlarge; along an axis that it makes smaller they count in it: "pads values [are] auto generated". */
U op_max_unpool(Graph *g, const Ctx *c)
{
    enum { AXIS_MAX = 1 << 24, PLACES_MAX = 1 << 28 };
    U x = c->in[0], shape[TG_MAX_RANK], inner[TG_MAX_RANK], places = uop_index(g, 1), numel = places;
    const U *given = NULL;
    const int64_t *kernel, *stride, *pads;
    uint32_t nk, ns, np, n, r = uop_rank(x);
    if (r < 3) return fail_node(g, c, TG_BAD_MODEL, c->node->in[0], "has rank %u; wanted 3 or more", r);
    if (!attr_ints(g, c, "kernel_shape", &kernel, &nk) || nk != r - 2)
        return fail_node(g, c, TG_BAD_MODEL, "kernel_shape", "wanted %u values", r - 2);
    bool strides = attr_ints(g, c, "strides", &stride, &ns), padded = attr_ints(g, c, "pads", &pads, &np);
    if ((strides && ns != nk) || (padded && np != 2 * nk))
        return fail_node(g, c, TG_BAD_MODEL, "strides", "does not fit %u axes, or pads does not", nk);
    for (uint32_t k = 0; k < 2 * nk; k++)
        if (kernel[k % nk] < 1 || kernel[k % nk] > AXIS_MAX ||
            (strides && (stride[k % nk] < 1 || stride[k % nk] > AXIS_MAX)) ||
            (padded && (pads[k] < 0 || pads[k] > AXIS_MAX)))
            return fail_node(g, c, TG_BAD_MODEL, "kernel_shape", "strides or pads are out of range");
    if (c->in[MaxUnpool_output_shape] && (!input_sizes(g, c, MaxUnpool_output_shape, &given, &n) || n != r))
        return ok(g) ? fail_node(g, c, TG_BAD_MODEL, "output_shape", "has %u values; wanted %u", n, r) : NULL;
    if (!shape_ok(g, c, MaxUnpool_I, x->shape->dim, r)) return NULL;
    for (uint32_t k = 0; k < r; k++) {
        U d = uop_dim(x, k), one = uop_index(g, 1);
        if (given && k < 2 && given[k]->vmax < d->vmin)
            return fail_node(g, c, TG_BAD_MODEL, "output_shape", "is %lld at axis %u; the input has %lld",
                             (long long)given[k]->vmax, k, (long long)d->vmin);
        if (given && k < 2) graph_need(g, dim_sub(g, given[k], d));
        if (k > 1) {
            U reach = dim_add(g, dim_mul(g, dim_sub(g, d, one), uop_index(g, strides ? stride[k - 2] : 1)),
                              uop_index(g, kernel[k - 2]));
            d = dim_sub(g, reach, uop_index(g, padded ? pads[k - 2] + pads[k - 2 + nk] : 0));
            if (d->vmax < (uop_numel(x) > 0))
                return fail_node(g, c, TG_BAD_MODEL, "kernel_shape", "makes %lld at axis %u", (long long)d->vmax, k);
            graph_need(g, dim_sub(g, d, one));
            d = dim_max(g, d, uop_index(g, 0));
        }
        inner[k] = given ? dim_min(g, d, given[k]) : d, shape[k] = given ? given[k] : d;
        places = dim_mul(g, places, inner[k]), numel = dim_mul(g, numel, shape[k]);
        if (shape[k]->vmin < 0 || shape[k]->vmin > AXIS_MAX || inner[k]->vmin > AXIS_MAX || numel->vmin > PLACES_MAX ||
            places->vmin > PLACES_MAX)
            return fail_node(g, c, TG_LIMIT, "output_shape", "%lld at axis %u", (long long)shape[k]->vmin, k);
    }
    U flat = dim_product(g, x->shape->dim, r), at = reshape(g, c->in[MaxUnpool_I], &flat, 1);
    /* a check of 0 alone would fold away, and so would what it checks */
    if (uop_is_int_const(places, 1))
        at = mul(g, cast(g, ne(g, at, uop_int(g, (DType)at->dtype, 0)), DT_I64), cast(g, numel, DT_I64));
    else if (given) at = place_in(g, in_larger(g, place_in(g, at, places), shape, inner, r), numel);
    else at = place_in(g, at, places);
    const UOp *in[CTX_INPUTS] = { expand(g, K(0), &numel, 1), at, reshape(g, x, &flat, 1) };
    Ctx scatter = *c;
    scatter.in = in, scatter.nin = 3;
    U y = op_scatter_elements(g, &scatter);
    return y ? reshape(g, y, shape, r) : NULL;
}
