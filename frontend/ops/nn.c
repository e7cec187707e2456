/* Convolutions and pools: sliding windows over the axes after [N, C]. In: x [N, C, d..], static or symbolic sizes. Out:
 * [N, M, o..]. A Window is read once from attributes and checked; pads of auto_pad or ceil_mode become sizes
 * in it. Half precision is summed in f32. To add one: a function here and a row in ops.def.
 */
#include "frontend/input_names.h"
#include "frontend/ops/activation.h"

#include <math.h>
#include <string.h>

enum { AXES_MAX = TG_MAX_RANK / 2, STEP_MAX = 1 << 30 };

typedef struct {
    uint32_t n;                                                                 /* windowed axes */
    int64_t kernel[AXES_MAX], stride[AXES_MAX], dilation[AXES_MAX];
    /* sizes; extra: what ceil_mode adds behind the pads */
    U before[AXES_MAX], after[AXES_MAX], extra[AXES_MAX];
} Window;


/* ---- windows ---- */

/* A list attribute of n values in lo .. STEP_MAX, or `otherwise` when absent. */
static bool read_list(Graph *g, const Ctx *c, const char *name, uint32_t n, int64_t lo, int64_t otherwise, int64_t *out)
{
    const int64_t *v;
    uint32_t count;
    for (uint32_t k = 0; k < n; k++) out[k] = otherwise;
    if (!attr_ints(g, c, name, &v, &count)) return ok(g);
    if (count != n) return fail_node(g, c, TG_BAD_MODEL, name, "has %u values, expected %u", count, n), false;
    for (uint32_t k = 0; k < n; k++) {
        if (v[k] < lo || v[k] > STEP_MAX)
            return fail_node(g, c, TG_BAD_MODEL, name, "%lld; wanted %lld to %d", (long long)v[k], (long long)lo,
                             STEP_MAX),
                   false;
        out[k] = v[k];
    }
    return true;
}

static int64_t reach(const Window *w, uint32_t k) { return w->dilation[k] * (w->kernel[k] - 1) + 1; }

/* The word of auto_pad; an empty one is NOTSET. */
static const char *auto_pad(Graph *g, const Ctx *c)
{
    const char *mode = attr_str(g, c, "auto_pad", "NOTSET");
    return *mode ? mode : "NOTSET";
}

/* What is added to n to make it a multiple of s: 0 .. s - 1. */
static U to_multiple(Graph *g, U n, int64_t s)
{
    U last = uop_index(g, s - 1);
    return dim_sub(g, last, dim_simplify(g, UOP(g, UOP_MOD, DT_VOID, NO_ARG, dim_add(g, n, last), uop_index(g, s))));
}

/* As many windows as strides begin in n elements: together the pads are what the last one hangs over. */
static void same_pads(Graph *g, U x, Window *w, bool upper)
{
    for (uint32_t k = 0; k < w->n; k++) {
        int64_t s = w->stride[k];
        U total = dim_max(g, dim_add(g, to_multiple(g, uop_dim(x, k + 2), s), uop_index(g, reach(w, k) - s)),
                          uop_index(g, 0)),
          two = uop_index(g, 2);
        U less = dim_div(g, total, two), more = dim_div(g, dim_add(g, total, uop_index(g, 1)), two);
        w->before[k] = upper ? less : more;
        w->after[k] = upper ? more : less;
    }
}

static bool read_pads(Graph *g, const Ctx *c, U x, Window *w)
{
    const char *mode = auto_pad(g, c);
    int64_t both[2 * AXES_MAX];
    /* also where auto_pad makes them count nothing */
    if (!read_list(g, c, "pads", 2 * w->n, 0, 0, both)) return false;
    if (!strcmp(mode, "SAME_UPPER") || !strcmp(mode, "SAME_LOWER")) return same_pads(g, x, w, mode[5] == 'U'), ok(g);
    if (strcmp(mode, "NOTSET") && strcmp(mode, "VALID"))
        return fail_node(g, c, TG_BAD_MODEL, "auto_pad", "is '%s'; wanted NOTSET, VALID, SAME_UPPER or SAME_LOWER",
                         mode),
               false;
    bool valid = !strcmp(mode, "VALID");
    for (uint32_t k = 0; k < w->n; k++)
        w->before[k] = uop_index(g, valid ? 0 : both[k]), w->after[k] = uop_index(g, valid ? 0 : both[k + w->n]);
    return true;
}

/* ceil_mode: a last window that hangs over the end counts, unless it starts in the right pad. */
static bool read_ceil(Graph *g, const Ctx *c, U x, Window *w)
{
    for (uint32_t k = 0; k < w->n; k++) w->extra[k] = uop_index(g, 0);
    if (strcmp(auto_pad(g, c), "NOTSET") || !attr_bool(g, c, "ceil_mode", false)) return ok(g);
    for (uint32_t k = 0; k < w->n; k++) {
        U over = dim_sub(g, dim_add(g, uop_dim(x, k + 2), dim_add(g, w->before[k], w->after[k])),
                         uop_index(g, reach(w, k))),
          more = to_multiple(g, over, w->stride[k]);
        if (over->vmax <= -w->stride[k]) continue;
        /* of the last window, behind the input's end */
        U starts = dim_sub(g, dim_add(g, w->after[k], more), uop_index(g, reach(w, k)));
        w->extra[k] = starts->vmax < 0 ? more
            : starts->vmin >= 0        ? uop_index(g, 0)
                                       : where(g, lt(g, starts, uop_index(g, 0)), more, uop_index(g, 0));
    }
    return ok(g);
}

/* Strides, dilations, pads for kernels that are already in w. */
static bool read_steps(Graph *g, const Ctx *c, U x, Window *w)
{
    if (!read_list(g, c, "strides", w->n, 1, 1, w->stride) || !read_list(g, c, "dilations", w->n, 1, 1, w->dilation))
        return false;
    for (uint32_t k = 0; k < w->n; k++)
        if ((w->kernel[k] - 1) * (w->dilation[k] / 4 + 1) > STEP_MAX)
            return fail_node(g, c, TG_LIMIT, "dilations", "makes a window that reaches too far"), false;
    return read_pads(g, c, x, w) && read_ceil(g, c, x, w);
}

/* least: 2, of a convolution, whose windows are then single values, or 3 */
static bool spatial_ok(Graph *g, const Ctx *c, U x, uint32_t least, Window *w)
{
    *w = (Window){ .n = uop_rank(x) - 2 };
    if (uop_rank(x) < least || w->n > AXES_MAX)
        return fail_node(g, c, TG_BAD_MODEL, NULL, "an input of rank %u; wanted %u to %d", uop_rank(x), least,
                         AXES_MAX + 2),
               false;
    return true;
}

static bool read_pool(Graph *g, const Ctx *c, U x, Window *w)
{
    if (!spatial_ok(g, c, x, 3, w)) return false;
    if (!attr_find(c, "kernel_shape")) return fail_node(g, c, TG_BAD_MODEL, "kernel_shape", "is missing"), false;
    if (!read_list(g, c, "kernel_shape", w->n, 1, 1, w->kernel) || !read_steps(g, c, x, w)) return false;
    for (uint32_t k = 0; k < w->n; k++) {
        if (uop_is_int_const(uop_dim(x, k + 2), 0))
            return fail_node(g, c, TG_BAD_MODEL, c->node->in[0], "has no elements along axis %u", k + 2), false;
        if (w->before[k]->vmin >= w->kernel[k] * w->dilation[k] || w->after[k]->vmin >= w->kernel[k] * w->dilation[k])
            return fail_node(g, c, TG_BAD_MODEL, "pads", "hold a whole window on axis %u", k + 2), false;
    }
    return true;
}

/* x with pads around its spatial axes. */
static U padded(Graph *g, U x, const Window *w, bool pads, bool extra, U fill)
{
    U before[TG_MAX_RANK], after[TG_MAX_RANK], none = uop_index(g, 0);
    uint32_t first = uop_rank(x) - w->n;
    for (uint32_t k = 0; k < first; k++) before[k] = after[k] = none;
    for (uint32_t k = 0; k < w->n; k++) {
        before[first + k] = pads ? w->before[k] : none;
        after[first + k] = dim_add(g, pads ? w->after[k] : none, extra ? w->extra[k] : none);
    }
    return pad(g, x, before, after, fill);
}

/* [.., o.., k..] reduced over the k. */
static U reduce_windows(Graph *g, Op op, U x, const Window *w)
{
    int64_t axis[AXES_MAX];
    U y = windows(g, x, w->n, w->kernel, w->stride, w->dilation);
    for (uint32_t k = 0; k < w->n; k++) axis[k] = -1 - (int64_t)k;
    return reduce(g, op, y, axis, w->n, false);
}

/* ---- convolution ---- */

static bool conv_checks(Graph *g, const Ctx *c, U x, U f, Window *w, int64_t *groups)
{
    int64_t shape[AXES_MAX];
    if (!spatial_ok(g, c, x, 2, w)) return false;
    if (uop_rank(f) != uop_rank(x))
        return fail_node(g, c, TG_BAD_MODEL, "W", "has rank %u, the input rank %u", uop_rank(f), uop_rank(x)), false;
    if (type_of(f) != type_of(x))
        return fail_node(g, c, TG_BAD_MODEL, "W", "is of type %s, the input of %s", dtype_name(type_of(f)),
                         dtype_name(type_of(x))),
               false;
    if (!uop_static(f)) return fail_node(g, c, TG_UNSUPPORTED, "W", "has a symbolic size"), false;
    *groups = attr_int(g, c, "group", 1);
    if (*groups < 1 || *groups > STEP_MAX)
        return fail_node(g, c, TG_BAD_MODEL, "group", "is %lld; wanted 1 or more", (long long)*groups), false;
    for (uint32_t k = 0; k < w->n; k++)
        if ((w->kernel[k] = uop_size(f, k + 2)) < 1)
            return fail_node(g, c, TG_BAD_MODEL, "W", "axis %u has no elements", k + 2), false;
    if (!read_list(g, c, "kernel_shape", w->n, 1, 0, shape)) return false;
    for (uint32_t k = 0; k < w->n; k++)
        if (shape[k] && shape[k] != w->kernel[k])
            return fail_node(g, c, TG_BAD_MODEL, "kernel_shape", "%lld at axis %u; the weights have %lld",
                             (long long)shape[k], k, (long long)w->kernel[k]),
                   false;
    return true;
}

static U add_bias(Graph *g, const Ctx *c, U y, U bias, uint32_t n)
{
    if (!bias || y->op == UOP_ERROR) return y;
    if (uop_rank(bias) != 1 || uop_dim(bias, 0) != uop_dim(y, 1))
        return fail_node(g, c, TG_BAD_MODEL, "B", "wanted one value an output channel");
    for (uint32_t k = 0; k < n; k++) bias = unsqueeze(g, bias, -1);
    return add(g, y, bias);
}

/* Taps whose every reach lies in the pads (those of a dilated kernel on a small picture) are left out, from both ends,
 * with the pads that only they saw. */
static U drop_blind_taps(Graph *g, U x, U f, Window *w)
{
    for (uint32_t k = 0; k < w->n; k++) {
        int64_t d = w->dilation[k], n = uop_size(x, k + 2), before = w->before[k]->vmax, after = w->after[k]->vmax,
                first = 0, last = w->kernel[k] - 1;
        if (!uop_is_const(uop_dim(x, k + 2)) || w->extra[k]->vmax) continue;
        /* from the first window to the last */
        int64_t span = n + before + after - reach(w, k), travel = span - span % w->stride[k];
        if (span < 0) continue;
        while (first < last && before >= d && travel < before) first++, before -= d;
        int64_t end = last * d - (before + first * d);
        for (; first < last && after >= d && end >= n; end -= d) last--, after -= d;
        if (last - first + 1 == w->kernel[k]) continue;
        w->before[k] = uop_index(g, before), w->after[k] = uop_index(g, after);
        f = slice_i(g, f, k + 2, first, last + 1);
        w->kernel[k] = last - first + 1;
    }
    return f;
}

U conv_node(Graph *g, const Ctx *c, U x, U f)
{
    Window w;
    int64_t groups;
    if (!conv_checks(g, c, x, f, &w, &groups) || !read_steps(g, c, x, &w)) return UOP0(g, UOP_ERROR, DT_VOID, NO_ARG);
    int64_t channels = fixed_size(g, x, 1), each = fixed_size(g, f, 1);
    if (channels != each * groups || uop_size(f, 0) % groups)
        return fail_node(g, c, TG_BAD_MODEL, "W", "[%lld, %lld, ..] does not fit %lld channels in %lld groups",
                         (long long)uop_size(f, 0), (long long)each, (long long)channels, (long long)groups);
    f = drop_blind_taps(g, x, f, &w);
    return conv(g, padded(g, x, &w, true, false, NULL), f, w.stride, w.dilation, NULL, NULL, groups);
}

/** Conv: Y[n,m,o..] = sum over c, k.. of X[n, c, o*stride + k*dilation - pad ..] W[m, c, k..] + B[m], channels in
 * groups. */
U op_conv(Graph *g, const Ctx *c)
{
    U y = conv_node(g, c, wide(g, c->in[0]), wide(g, c->in[Conv_W]));
    return y->op == UOP_ERROR ? y : narrow(g, add_bias(g, c, y, wide(g, c->in[Conv_B]), uop_rank(y) - 2), c->in[0]);
}

/* The activation that an attribute names, its parameters in a list or one by one. */
static U fused_activation(Graph *g, const Ctx *c, U x)
{
    const float *p;
    uint32_t n;
    Act f;
    if (!attr_find(c, "activation")) return x;
    if (!act_named(g, c, "activation", attr_str(g, c, "activation", ""), ACT_COUNT, &f))
        return UOP0(g, UOP_ERROR, DT_VOID, NO_ARG);
    attr_floats(g, c, "activation_params", &p, &n);
    if (act_takes(f.kind) > 0) f.a = n > 0 ? (double)p[0] : attr_float(g, c, "activation_alpha", f.a);
    if (act_takes(f.kind) > 1) f.b = n > 1 ? (double)p[1] : attr_float(g, c, "activation_beta", f.b);
    return act_apply(g, f, x);
}

/* com.microsoft FusedConv: a convolution, a sum, an activation. */
U op_fused_conv(Graph *g, const Ctx *c)
{
    U y = conv_node(g, c, wide(g, c->in[0]), wide(g, c->in[MsFusedConv_W]));
    if (y->op == UOP_ERROR) return y;
    y = add_bias(g, c, y, wide(g, c->in[MsFusedConv_B]), uop_rank(y) - 2);
    if (y->op == UOP_ERROR || !shape_ok(g, c, MsFusedConv_Z, y->shape->dim, uop_rank(y))) return NULL;
    if (c->in[MsFusedConv_Z]) y = add(g, y, wide(g, c->in[MsFusedConv_Z]));
    return y->op == UOP_ERROR ? y : narrow(g, fused_activation(g, c, y), c->in[0]);
}

U op_gemm(Graph *g, const Ctx *c);
U op_max_pool(Graph *g, const Ctx *c);

/* com.microsoft FusedGemm: a Gemm, an activation. */
U op_fused_gemm(Graph *g, const Ctx *c)
{
    U y = op_gemm(g, c);
    return y && ok(g) ? narrow(g, fused_activation(g, c, wide(g, y)), y) : NULL;
}

/* x [n, c, d..] as [n, d.., c], or back. */
static U turned(Graph *g, U x, bool to_last)
{
    int64_t order[TG_MAX_RANK] = { 0 };
    uint32_t r = uop_rank(x);
    if (r < 3) return x;
    for (uint32_t k = 1; k < r; k++) order[k] = to_last ? (k < r - 1 ? k + 1 : 1) : k > 1 ? k - 1 : r - 1;
    return permute(g, x, order, r);
}

U from_channels_last(Graph *g, const Ctx *c, uint32_t inputs, Importer fn)
{
    const UOp **in = NEW_N(graph_arena(g), const UOp *, c->nin + CTX_INPUTS);
    Ctx inner = *c;
    for (uint32_t k = 0; k < c->nin; k++) in[k] = c->in[k] && inputs >> k & 1 ? turned(g, c->in[k], false) : c->in[k];
    inner.in = in;
    U y = fn(g, &inner);
    if (!y || !ok(g)) return NULL;
    if (y->op != UOP_TUPLE) return turned(g, y, true);
    const UOp **part = NEW_N(graph_arena(g), const UOp *, y->nsrc);
    for (uint32_t k = 0; k < y->nsrc; k++) part[k] = turned(g, y->src[k], true);
    return uop_new(g, UOP_TUPLE, DT_VOID, NO_ARG, part, y->nsrc);
}

U op_nhwc_max_pool(Graph *g, const Ctx *c) { return from_channels_last(g, c, 1, op_max_pool); }
U op_nhwc_conv(Graph *g, const Ctx *c) { return from_channels_last(g, c, 1, op_conv); }
U op_nhwc_fused_conv(Graph *g, const Ctx *c) { return from_channels_last(g, c, 1 | 1 << 3, op_fused_conv); }

/* Zeros between the taps of a dilated kernel; its reach becomes its size. */
static U dilate(Graph *g, U f, Window *w)
{
    for (uint32_t k = 0; k < w->n; k++) {
        int64_t d = w->dilation[k], before[TG_MAX_RANK + 1] = { 0 }, after[TG_MAX_RANK + 1] = { 0 };
        U dim[TG_MAX_RANK];
        if (d == 1) continue;
        after[k + 3] = d - 1;
        memcpy(dim, f->shape->dim, sizeof *dim * uop_rank(f));
        dim[k + 2] = uop_index(g, w->kernel[k] * d);
        f = slice_i(g, reshape(g, pad_i(g, unsqueeze(g, f, k + 3), before, after, NULL), dim, w->n + 2), k + 2, 0,
                    reach(w, k));
        w->kernel[k] = reach(w, k);
        w->dilation[k] = 1;
        if (f->op == UOP_ERROR) return f;
    }
    return f;
}

/* ConvTranspose's pads: explicit, or from the wanted size (output_shape, or input * stride for SAME). after may be
 * negative: zeros are added there. */
static bool transposed_pads(Graph *g, const Ctx *c, U x, Window *w, const int64_t *more)
{
    const char *mode = auto_pad(g, c);
    bool same = !strncmp(mode, "SAME", 4), upper = !strcmp(mode, "SAME_UPPER"),
         shaped = attr_find(c, "output_shape") != NULL;
    int64_t want[AXES_MAX];
    if (!read_pads(g, c, x, w) || (!shaped && !same)) return ok(g);
    if (!read_list(g, c, "output_shape", w->n, 1, 1, want)) return false;
    for (uint32_t k = 0; k < w->n; k++) {
        U dim = uop_dim(x, k + 2);
        if (shaped && !uop_is_const(dim))
            return fail_node(g, c, TG_UNSUPPORTED, "output_shape", "is not covered where a size is symbolic"), false;
        int64_t total = more[k] + reach(w, k) - w->stride[k] + (shaped ? dim->arg.i * w->stride[k] - want[k] : 0),
                half = total > 0 ? total / 2 : 0;
        if (shaped && total <= -w->stride[k])
            return fail_node(g, c, TG_BAD_MODEL, "output_shape", "%lld on axis %u is more than there is",
                             (long long)want[k], k + 2),
                   false;
        int64_t before = total < 0 ? 0 : upper ? half : total - half;
        w->before[k] = uop_index(g, before), w->after[k] = uop_index(g, total - before);
    }
    return true;
}

/* Weights [C, M/groups, K..] as those of a plain convolution that makes every stride phase a channel: [M, s..,
 * C/groups, K/s..], taps reversed. K is a multiple of the stride by zeros behind. */
static U phase_weights(Graph *g, U f, const Window *w, int64_t groups)
{
    int64_t before[TG_MAX_RANK] = { 0 }, after[TG_MAX_RANK] = { 0 }, split[2 * TG_MAX_RANK], order[2 * TG_MAX_RANK],
            dim[TG_MAX_RANK];
    bool turn[2 * TG_MAX_RANK] = { false };
    uint32_t at = 3, n = w->n;
    int64_t in = uop_size(f, 0) / groups, out = uop_size(f, 1);
    split[0] = groups, split[1] = in, split[2] = out;
    order[0] = 0, order[1] = 2, order[2 + n] = 1;
    dim[0] = groups * out, dim[1] = in;
    for (uint32_t k = 0; k < n; k++, at += 2) {
        int64_t s = w->stride[k], taps = (w->kernel[k] + s - 1) / s;
        after[k + 2] = taps * s - w->kernel[k];
        split[at] = dim[k + 2] = taps, split[at + 1] = s;
        order[2 + k] = at + 1, order[3 + n + k] = at;
        turn[3 + n + k] = true;
        dim[0] *= s;
    }
    U whole = pad_i(g, f, before, after, NULL);
    if (whole != f) whole = contiguous(g, whole);
    f = permute(g, reshape_i(g, whole, split, at), order, at);
    return reshape_i(g, flip(g, f, turn), dim, n + 2);
}

/* [N, M s.., q..] -> [N, M, q s..]: the phases interleaved. */
static U interleave(Graph *g, U y, const Window *w, int64_t channels)
{
    U split[2 * TG_MAX_RANK], dim[TG_MAX_RANK];
    int64_t order[2 * TG_MAX_RANK] = { 0, 1 };
    uint32_t n = w->n;
    if (y->op == UOP_ERROR) return y;
    split[0] = dim[0] = uop_dim(y, 0);
    split[1] = dim[1] = uop_index(g, channels);
    for (uint32_t k = 0; k < n; k++) {
        split[2 + k] = uop_index(g, w->stride[k]);
        split[2 + n + k] = uop_dim(y, 2 + k);
        order[2 + 2 * k] = 2 + n + k, order[3 + 2 * k] = 2 + k;
        dim[2 + k] = dim_mul(g, split[2 + k], split[2 + n + k]);
    }
    return reshape(g, permute(g, reshape(g, y, split, 2 + 2 * n), order, 2 + 2 * n), dim, 2 + n);
}

/* Sum over c, k of x[n,c,i..] f[c,m,k..] at i*stride + k*dilation - pad, `more` places behind the end. Written without
 * zeros between inputs: output positions of one phase (mod stride) meet the same taps, so all phases are the channels
 * of one small convolution, interleaved afterwards. Where ends are cut that convolution is stored: along places of the
 * result the weights would change with the phase. */
static U transposed(Graph *g, U x, U f, Window w, const int64_t *more, int64_t groups)
{
    int64_t one[AXES_MAX], edge[AXES_MAX], channels = uop_size(f, 1) * groups;
    U before[TG_MAX_RANK], after[TG_MAX_RANK], none = before[0] = before[1] = after[0] = after[1] = uop_index(g, 0);
    bool cut = false;
    f = dilate(g, f, &w);
    for (uint32_t k = 0; k < w.n; k++) {
        int64_t s = w.stride[k], taps = (w.kernel[k] + s - 1) / s;
        one[k] = 1, edge[k] = taps - 1;
        before[k + 2] = dim_sub(g, none, w.before[k]);
        after[k + 2] = dim_sub(g, uop_index(g, more[k] + w.kernel[k] - taps * s), w.after[k]);
        cut |= s > 1 && (before[k + 2] != none || after[k + 2] != none);
    }
    U y = f->op == UOP_ERROR ? f : conv(g, x, phase_weights(g, f, &w, groups), one, one, edge, edge, groups);
    if (cut) y = contiguous(g, y);
    return pad(g, interleave(g, y, &w, channels), before, after, NULL);
}

/** ConvTranspose: Y[n, m, i*stride + k*dilation - pad ..] gathers X[n,c,i..] W[c,m,k..]. */
U op_conv_transpose(Graph *g, const Ctx *c)
{
    U x = wide(g, c->in[0]), f = wide(g, c->in[ConvTranspose_W]);
    Window w;
    int64_t groups, more[AXES_MAX];
    if (!conv_checks(g, c, x, f, &w, &groups)) return NULL;
    if (!read_list(g, c, "strides", w.n, 1, 1, w.stride) || !read_list(g, c, "dilations", w.n, 1, 1, w.dilation))
        return NULL;
    if (!read_list(g, c, "output_padding", w.n, 0, 0, more)) return NULL;
    for (uint32_t k = 0; k < w.n; k++)
        if (more[k] && more[k] >= w.stride[k] && more[k] >= w.dilation[k])
            return fail_node(g, c, TG_BAD_MODEL, "output_padding", "%lld on axis %u; wanted less than the stride",
                             (long long)more[k], k + 2);
    if (!transposed_pads(g, c, x, &w, more)) return NULL;
    if (fixed_size(g, x, 1) != fixed_size(g, f, 0) || fixed_size(g, f, 0) % groups)
        return fail_node(g, c, TG_BAD_MODEL, "W", "[%lld, ..] does not fit %lld channels in %lld groups",
                         (long long)uop_size(f, 0), (long long)uop_size(x, 1), (long long)groups);
    return narrow(g, add_bias(g, c, transposed(g, x, f, w, more, groups), wide(g, c->in[ConvTranspose_B]), w.n),
                  c->in[0]);
}

/* The unit matrix as weights [taps, 1, k..]: tap j goes to place j of its block. */
static U unit_weights(Graph *g, U x, const Window *w, int64_t taps)
{
    U dim[TG_MAX_RANK] = { uop_index(g, taps), uop_index(g, 1) }, j = iota(g, uop_index(g, taps), DT_I64);
    for (uint32_t k = 0; k < w->n; k++) dim[k + 2] = uop_index(g, w->kernel[k]);
    return reshape(g, cast(g, eq(g, unsqueeze(g, j, 1), j), type_of(x)), dim, w->n + 2);
}

/** Col2Im: columns [n, c * block, places] added up into images [n, c, d..]: a transposed convolution by the unit
 * matrix. */
U op_col2_im(Graph *g, const Ctx *c)
{
    U x = wide(g, c->in[0]), dim[TG_MAX_RANK];
    const int64_t *image, *block;
    int64_t more[AXES_MAX], both[2 * AXES_MAX], taps = 1, places = 1;
    uint32_t n, nb;
    if (c->text) return fail_node(g, c, TG_UNSUPPORTED, c->node->in[0], "is of text, which has no sum");
    if (!input_ints(g, c, Col2Im_image_shape, &image, &n) || !input_ints(g, c, Col2Im_block_shape, &block, &nb))
        return NULL;
    Window w = { .n = n };
    if (uop_rank(x) != 3 || n < 1 || n > AXES_MAX - 1 || nb != n || !uop_static(x))
        return fail_node(g, c, TG_BAD_MODEL, NULL, "an input of rank %u, an image of %u axes, blocks of %u",
                         uop_rank(x), n, nb);
    if (!read_list(g, c, "strides", n, 1, 1, w.stride) || !read_list(g, c, "dilations", n, 1, 1, w.dilation) ||
        !read_list(g, c, "pads", 2 * n, 0, 0, both))
        return NULL;
    for (uint32_t k = 0; k < n; k++) {
        if (block[k] < 1 || block[k] > STEP_MAX / 64 || image[k] < 1 || image[k] > STEP_MAX ||
            w.dilation[k] > STEP_MAX / block[k])
            return fail_node(g, c, TG_BAD_MODEL, "block_shape", "%lld for an image of %lld", (long long)block[k],
                             (long long)image[k]);
        w.kernel[k] = block[k], w.before[k] = uop_index(g, both[k]), w.after[k] = uop_index(g, both[k + n]);
        int64_t over = image[k] + both[k] + both[k + n] - reach(&w, k), count = over < 0 ? 0 : over / w.stride[k] + 1;
        more[k] = over - (count - 1) * w.stride[k];
        dim[k + 2] = uop_index(g, count);
        if (count < 1 || (taps *= block[k]) > 1 << 20 || (places *= count) > STEP_MAX)
            return fail_node(g, c, TG_BAD_MODEL, "image_shape", "%lld at axis %u", (long long)image[k], k);
    }
    if (uop_size(x, 1) % taps || uop_size(x, 2) != places)
        return fail_node(g, c, TG_BAD_MODEL, "image_shape", "[%lld, %lld] columns do not make it",
                         (long long)uop_size(x, 1), (long long)uop_size(x, 2));
    int64_t channels = uop_size(x, 1) / taps;
    dim[0] = dim_mul(g, uop_dim(x, 0), uop_index(g, channels));
    dim[1] = uop_index(g, taps);
    U y = transposed(g, reshape(g, x, dim, n + 2), unit_weights(g, x, &w, taps), w, more, 1);
    dim[0] = uop_dim(x, 0), dim[1] = uop_index(g, channels);
    for (uint32_t k = 0; k < n; k++) dim[k + 2] = uop_index(g, image[k]);
    return narrow(g, reshape(g, y, dim, n + 2), c->in[0]);
}

/** CausalConvWithState (27): each channel convolved with its own kernel over itself and what came before: past [n, c,
 * k-1], or zeros. Out: the same length, and the last k-1 places (times the dilation) for the next call. */
U op_causal_conv(Graph *g, const Ctx *c)
{
    U x = wide(g, c->in[0]), f = wide(g, c->in[CausalConvWithState_weight]),
      past = wide(g, c->in[CausalConvWithState_past_state]);
    const char *activation = attr_str(g, c, "activation", "none");
    bool swish = !strcmp(activation, "silu") || !strcmp(activation, "swish");
    int64_t one[] = { 1 }, dilation = attr_int(g, c, "dilation", 1);
    if (dilation < 1 || dilation > STEP_MAX)
        return fail_node(g, c, TG_BAD_MODEL, "dilation", "is %lld; wanted 1 or more", (long long)dilation);
    if (uop_rank(x) != 3 || uop_rank(f) != 3 || !uop_static(f) || uop_size(f, 1) != 1 || uop_size(f, 2) < 1 ||
        uop_dim(f, 0) != uop_dim(x, 1))
        return fail_node(g, c, TG_BAD_MODEL, "weight", "wanted [channels, 1, k] for [batch, channels, length]");
    if (!swish && strcmp(activation, "none"))
        return fail_node(g, c, TG_BAD_MODEL, "activation", "is '%s'; wanted none, silu or swish", activation);
    if (uop_size(f, 2) > STEP_MAX / dilation)
        return fail_node(g, c, TG_LIMIT, "dilation", "makes a window that reaches too far");
    int64_t reach = (uop_size(f, 2) - 1) * dilation, before[] = { 0, 0, reach }, none[] = { 0, 0, 0 };
    if (!shape_ok(g, c, CausalConvWithState_past_state, (U[]){ uop_dim(x, 0), uop_dim(x, 1), uop_index(g, reach) }, 3))
        return NULL;
    U all = past ? cat(g, (U[]){ past, x }, 2, 2) : pad_i(g, x, before, none, NULL);
    U y = add_bias(g, c, conv(g, all, f, one, &dilation, NULL, NULL, uop_size(x, 1)),
                   wide(g, c->in[CausalConvWithState_bias]), 1);
    if (y->op == UOP_ERROR) return y;
    U state = slice(g, all, 2, dim_sub(g, uop_dim(all, 2), uop_index(g, reach)), uop_index(g, reach));
    return outputs(g, c, (U[]){ narrow(g, swish ? mul(g, y, sigmoid(g, y)) : y, c->in[0]), narrow(g, state, c->in[0]) },
                   2);
}

/* com.microsoft: the same, which may also have dilated taps, more axes, channels last and states of several steps. */
U op_causal_conv_ms(Graph *g, const Ctx *c)
{
    if (attr_int(g, c, "state_window", 0) || attr_int(g, c, "ndim", 1) != 1 || attr_bool(g, c, "channels_last", false))
        return fail_node(g, c, TG_UNSUPPORTED, "ndim", "above 1, channels_last and state_window are not covered");
    return op_causal_conv(g, c);
}

/* ---- pools ---- */

static U lowest(Graph *g, U x)
{
    return dtype_is_float(type_of(x)) ? K(-INFINITY) : uop_int(g, type_of(x), dtype_min(type_of(x)));
}

/* Where the maximum of each window stood: position in the whole input, row-major or (storage_order 1) column-major
 * within an image. */
static U max_positions(Graph *g, const Ctx *c, U x, const Window *w)
{
    U dim[TG_MAX_RANK],
        y = windows(g, padded(g, x, w, true, true, lowest(g, x)), w->n, w->kernel, w->stride, w->dilation);
    U inside =
        windows(g, padded(g, full(g, DT_BOOL, 1, x), w, true, true, NULL), w->n, w->kernel, w->stride, w->dilation);
    uint32_t n = w->n;
    if (y->op == UOP_ERROR || inside->op == UOP_ERROR) return y;
    int64_t taps = 1;
    memcpy(dim, y->shape->dim, sizeof *dim * (n + 2));
    for (uint32_t k = 0; k < n; k++) taps *= w->kernel[k];
    dim[n + 2] = uop_index(g, taps);
    /* what lies outside may be as small as the maximum */
    y = reshape(g, y, dim, n + 3), inside = reshape(g, inside, dim, n + 3);
    U hit = and_(g, inside, or_(g, eq(g, y, max_reduce(g, y, -1, true)), is_nan(g, y)));
    /* i64 [N, C, o..], tap number */
    U at = argmax(g, cast(g, hit, DT_U8), -1, false, false);
    bool columns = attr_bool(g, c, "storage_order", false);
    U image = dim_product(g, x->shape->dim + 2, n), step = uop_index(g, 1), total = NULL;
    for (uint32_t j = 0; j < n; j++) {
        uint32_t k = columns ? j : n - 1 - j;
        int64_t inner = 1;
        for (uint32_t i = k + 1; i < n; i++) inner *= w->kernel[i];
        U tap = mod_floor(g, idiv(g, at, uop_int(g, DT_I64, inner)), uop_int(g, DT_I64, w->kernel[k]));
        U from = sub(g, mul(g, iota(g, dim[k + 2], DT_I64), uop_int(g, DT_I64, w->stride[k])),
                     cast(g, w->before[k], DT_I64));
        for (uint32_t i = k + 1; i < n; i++) from = unsqueeze(g, from, -1);
        U term = mul(g, add(g, from, mul(g, tap, uop_int(g, DT_I64, w->dilation[k]))), cast(g, step, DT_I64));
        total = total ? add(g, total, term) : term;
        step = dim_mul(g, step, uop_dim(x, k + 2));
    }
    U plane = reshape(g, iota(g, dim_mul(g, dim[0], dim[1]), DT_I64), dim, 2);
    for (uint32_t k = 0; k < n; k++) plane = unsqueeze(g, plane, -1);
    return add(g, total, mul(g, plane, cast(g, image, DT_I64)));
}

U op_max_pool(Graph *g, const Ctx *c)
{
    U x = c->in[0];
    Window w;
    if (!read_pool(g, c, x, &w)) return NULL;
    U y = reduce_windows(g, UOP_MAX, padded(g, x, &w, true, true, lowest(g, x)), &w);
    return c->nout < 2 ? y : outputs(g, c, (U[]){ y, max_positions(g, c, x, &w) }, 2);
}

/* How many elements each window holds: those of the input, with count_include_pad those of the pads too, never those
 * that ceil_mode added. Constant-only. */
static U window_counts(Graph *g, const Ctx *c, U x, const Window *w)
{
    bool pads = attr_bool(g, c, "count_include_pad", false), uniform = true;
    int64_t taps = 1;
    for (uint32_t k = 0; k < w->n; k++) {
        uniform &= !w->extra[k]->vmax && (pads || (!w->before[k]->vmax && !w->after[k]->vmax));
        taps *= w->kernel[k];
    }
    if (uniform) return K((double)taps);
    U ones = expand(g, K(1), x->shape->dim + 2, w->n);
    ones = padded(g, padded(g, ones, w, true, false, pads ? K(1) : NULL), w, false, true, NULL);
    return reduce_windows(g, UOP_ADD, ones, w);
}

U op_average_pool(Graph *g, const Ctx *c)
{
    U x = wide(g, c->in[0]);
    Window w;
    if (!read_pool(g, c, x, &w)) return NULL;
    return narrow(
        g, div_(g, reduce_windows(g, UOP_ADD, padded(g, x, &w, true, true, NULL), &w), window_counts(g, c, x, &w)),
        c->in[0]);
}

static U power(Graph *g, U x, double p) { return p == 1 ? x : p == 2 ? mul(g, x, x) : pow_(g, x, K(p)); }
static U root(Graph *g, U x, double p) { return p == 1 ? x : p == 2 ? sqrt_(g, x) : pow_(g, x, K(1 / p)); }
/* p was a float in opset 1. */
static double read_p(Graph *g, const Ctx *c)
{
    return c->opset < 2 ? attr_float(g, c, "p", 2) : (double)attr_int(g, c, "p", 2);
}

U op_lp_pool(Graph *g, const Ctx *c)
{
    U x = wide(g, c->in[0]);
    double p = read_p(g, c);
    Window w;
    if (!read_pool(g, c, x, &w)) return NULL;
    return narrow(g,
                  root(g, reduce_windows(g, UOP_ADD, padded(g, power(g, abs_(g, x), p), &w, true, true, NULL), &w), p),
                  c->in[0]);
}

/* ---- global pools ---- */

static bool spatial_axes(Graph *g, const Ctx *c, U x, int64_t *axis, uint32_t *n)
{
    if (uop_rank(x) < 3)
        return fail_node(g, c, TG_BAD_MODEL, NULL, "an input of rank %u; wanted 3 or more", uop_rank(x)), false;
    *n = uop_rank(x) - 2;
    for (uint32_t k = 0; k < *n; k++) {
        axis[k] = k + 2;
        if (uop_is_int_const(uop_dim(x, k + 2), 0))
            return fail_node(g, c, TG_BAD_MODEL, c->node->in[0], "has no elements along axis %u", k + 2), false;
    }
    return true;
}

U op_global_average_pool(Graph *g, const Ctx *c)
{
    U x = wide(g, c->in[0]);
    int64_t axis[TG_MAX_RANK];
    uint32_t n;
    return spatial_axes(g, c, x, axis, &n) ? narrow(g, mean(g, x, axis, n, true), c->in[0]) : NULL;
}

U op_global_max_pool(Graph *g, const Ctx *c)
{
    int64_t axis[TG_MAX_RANK];
    uint32_t n;
    return spatial_axes(g, c, c->in[0], axis, &n) ? reduce(g, UOP_MAX, c->in[0], axis, n, true) : NULL;
}

U op_global_lp_pool(Graph *g, const Ctx *c)
{
    U x = wide(g, c->in[0]);
    double p = read_p(g, c);
    int64_t axis[TG_MAX_RANK];
    uint32_t n;
    return spatial_axes(g, c, x, axis, &n)
        ? narrow(g, root(g, reduce(g, UOP_ADD, power(g, abs_(g, x), p), axis, n, true), p), c->in[0])
        : NULL;
}
