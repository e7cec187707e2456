/* Operators that join, cut, repeat and pad tensors, and masks that are made of positions (Trilu, OneHot). In: values
 * whose sizes may be symbolic; where a part begins may be data. Out: views of them, or a gather where data say which
 * part. To add one: a function here and a row in ops.def.
 */
#include "frontend/import/import.h"
#include "frontend/input_names.h"
#include "frontend/ops/shape.h"

#include <string.h>

/* A single integer input with a value that is known. */
static bool input_int(Graph *g, const Ctx *c, uint32_t i, int64_t *out)
{
    const int64_t *v;
    uint32_t n;
    if (!input_ints(g, c, i, &v, &n)) return false;
    if (n != 1) return fail_node(g, c, TG_BAD_MODEL, c->node->in[i], "has %u values; wanted 1", n), false;
    *out = v[0];
    return true;
}

/* ---- joins and cuts ---- */

U op_concat(Graph *g, const Ctx *c)
{
    int64_t axis;
    for (uint32_t k = 0; k < c->nin; k++)
        if (!c->in[k]) return fail_node(g, c, TG_BAD_MODEL, NULL, "input %u is missing", k);
    if (c->opset >= 4 && !attr_find(c, "axis")) return fail_node(g, c, TG_BAD_MODEL, "axis", "is missing");
    if (!axis_ok(g, c, "axis", attr_int(g, c, "axis", 1), uop_rank(c->in[0]), &axis)) return NULL;
    return cat(g, c->in, c->nin, axis);
}

/* Split: sizes from input or attribute, or equal parts; the last of num_outputs (opset 18) may be smaller. */
U op_split(Graph *g, const Ctx *c)
{
    U x = c->in[0], *part = NEW_N(graph_arena(g), U, c->nout + 1), *each = NEW_N(graph_arena(g), U, c->nout + 1),
      at = uop_index(g, 0);
    const U *size = NULL;
    const int64_t *list = NULL;
    uint32_t n = c->nout;
    int64_t axis, num = attr_int(g, c, "num_outputs", c->nout);
    if (!axis_ok(g, c, "axis", attr_int(g, c, "axis", 0), uop_rank(x), &axis)) return NULL;
    U dim = uop_dim(x, (uint32_t)axis);
    bool given = c->nin > 1 && c->in[Split_split] ? input_sizes(g, c, Split_split, &size, &n)
                                                  : attr_ints(g, c, "split", &list, &n);
    if (!ok(g)) return NULL;
    if (!given) n = c->nout;
    if (n != c->nout) return fail_node(g, c, TG_BAD_MODEL, "split", "%u sizes for %u outputs", n, c->nout);
    if (!given && (num != c->nout || (c->opset < 18 && uop_is_const(dim) && uop_const_int(dim) % num)))
        return fail_node(g, c, TG_BAD_MODEL, "num_outputs", "%lld parts, %u outputs, %lld elements", (long long)num,
                         c->nout, (long long)uop_size(x, (uint32_t)axis));
    U chunk = dim_div(g, dim_add(g, dim, uop_index(g, num - 1)), uop_index(g, num));
    for (uint32_t k = 0; k < n; k++) {
        U s = size                       ? size[k]
            : list                       ? uop_index(g, list[k])
            : k + 1 < n || c->opset < 18 ? dim_min(g, chunk, dim_sub(g, dim, at))
                                         : dim_sub(g, dim, at);
        if (s->vmax < 0) return fail_node(g, c, TG_BAD_MODEL, "split", "size %lld", (long long)s->vmax);
        each[k] = s;
        at = dim_add(g, at, s);
    }
    if (!may_agree(g, at, dim) && uop_is_const(at) && uop_is_const(dim))
        return fail_node(g, c, TG_BAD_MODEL, "split", "sizes add up to %lld on an axis of %lld", (long long)at->arg.i,
                         (long long)dim->arg.i);
    x = sized(g, x, axis, at);
    at = uop_index(g, 0);
    for (uint32_t k = 0; k < n; at = dim_add(g, at, each[k++])) part[k] = slice(g, x, axis, at, each[k]);
    return outputs(g, c, part, n);
}

/* A start or end of a Slice on an axis of size dim: counted from the end when negative, clamped to lo .. hi. */
static U bound(Graph *g, const Ctx *c, U v, U dim, U lo, U hi)
{
    if (uop_is_const(v) && uop_is_const(dim)) {
        int64_t i = v->arg.i, d = dim->arg.i;
        return uop_index(g, clamp_i(i < 0 ? (i < -d ? -1 - d : i) + d : i, lo->arg.i, hi->arg.i));
    }
    if (v->vmin < 0 && v->vmax >= 0)
        return fail_node(g, c, TG_UNSUPPORTED, NULL, "the sign of a symbolic start or end is not known");
    if (v->vmin >= 0 && v->vmin >= dim->vmax) return hi;
    return dim_max(g, lo, dim_min(g, hi, v->vmax < 0 ? dim_add(g, v, dim) : v));
}

static U slice_axis(Graph *g, const Ctx *c, U x, int64_t axis, U start, U end, U by)
{
    U dim = uop_dim(x, (uint32_t)axis), zero = uop_index(g, 0), one = uop_index(g, 1), minus = uop_index(g, -1);
    if (!uop_is_const(by)) return fail_node(g, c, TG_UNSUPPORTED, "steps", "has a symbolic step, which is not covered");
    int64_t step = clamp_i(by->arg.i, -EXTENT_MAX, EXTENT_MAX);
    U last = step > 0 ? dim : dim_sub(g, dim, one), first = step > 0 ? zero : minus;
    if (step == 0) return fail_node(g, c, TG_BAD_MODEL, "steps", "has a step of 0; wanted another");
    if (uop_is_int_const(dim, 0)) return x;
    U from = bound(g, c, start, dim, zero, uop_is_const(last) && last->arg.i < 0 ? zero : last),
      to = bound(g, c, end, dim, first, last);
    if (!ok(g)) return NULL;
    if (step == 1) return slice(g, x, axis, from, dim_max(g, zero, dim_sub(g, to, from)));
    if (step == -1)
        return flip_axis(g, slice(g, x, axis, dim_add(g, to, one), dim_max(g, zero, dim_sub(g, from, to))), axis);
    if (!uop_is_const(from) || !uop_is_const(to))
        return fail_node(g, c, TG_UNSUPPORTED, "steps", "step %lld on a symbolic size", (long long)step);
    int64_t span = step > 0 ? to->arg.i - from->arg.i : from->arg.i - to->arg.i, stride = step > 0 ? step : -step;
    return slice_step(g, x, axis, from->arg.i, span > 0 ? (span + stride - 1) / stride : 0, step);
}

/* A list of Slice: input i, or an attribute before opset 10; NULL when absent. */
static const U *slice_list(Graph *g, const Ctx *c, uint32_t i, const char *name, uint32_t *n)
{
    const U *v = NULL;
    const int64_t *list;
    if (i < c->nin && c->in[i]) return input_sizes(g, c, i, &v, n) ? v : NULL;
    if (c->opset >= 10 || !attr_ints(g, c, name, &list, n)) return NULL;
    const UOp **out = NEW_N(graph_arena(g), const UOp *, *n + 1);
    for (uint32_t k = 0; k < *n; k++) out[k] = uop_index(g, list[k]);
    return out;
}

/* The axes of that many bounds, where all steps are 1. */
static bool axes_of_bounds(Graph *g, const Ctx *c, int64_t count, int64_t *axes)
{
    uint32_t n = 0;
    for (int64_t k = 0; k < count; k++) axes[k] = 1;
    if (c->in[Slice_steps] && (!ints_of(g, c->in[Slice_steps], axes, TG_MAX_RANK, &n) || n != count)) return false;
    for (int64_t k = 0; k < count; k++) {
        if (axes[k] != 1) return false;
        axes[k] = k;
    }
    return !c->in[Slice_axes] || (ints_of(g, c->in[Slice_axes], axes, TG_MAX_RANK, &n) && n == count);
}

/* Starts that depend on data, with ends = starts + constants: the sizes are known and the part is taken by index,
 * clamped so that it stays inside. NULL: it has another form. */
static U slice_by_data(Graph *g, const Ctx *c)
{
    U x = c->in[0], start = c->opset >= 10 ? c->in[Slice_starts] : NULL,
      end = c->opset >= 10 ? c->in[Slice_ends] : NULL;
    const UOp *v[TG_MAX_RANK];
    int64_t size[TG_MAX_RANK], axes[TG_MAX_RANK];
    uint32_t n;
    if (!start || !end || uop_rank(start) != 1 || !uop_static(start) || end->op != UOP_ADD ||
        (end->src[0] != start && end->src[1] != start))
        return NULL;
    int64_t count = uop_numel(start);
    if (count > TG_MAX_RANK || uop_numel(end) != count || values_of(g, start, v, TG_MAX_RANK)) return NULL;
    if (!ints_of(g, end->src[end->src[0] == start], size, TG_MAX_RANK, &n) || (n != 1 && n != count)) return NULL;
    if (!axes_of_bounds(g, c, count, axes)) return NULL;
    for (int64_t k = 0, axis; k < count; k++) {
        if (!axis_ok(g, c, "axes", axes[k], uop_rank(x), &axis)) return NULL;
        U dim = uop_dim(x, (uint32_t)axis), length = uop_index(g, size[n > 1 ? k : 0]),
          at = cast(g, squeeze(g, slice_i(g, start, 0, k, k + 1), 0), DT_INDEX);
        if (length->vmin < 1 || length->vmin > dim->vmin) return NULL;
        at = clamp(g, where(g, lt(g, at, uop_index(g, 0)), add(g, at, dim), at), uop_index(g, 0),
                   dim_sub(g, dim, length));
        x = take(g, x, add(g, iota(g, length, DT_INDEX), at), axis);
    }
    return x;
}

/* Element k of a list as an i64 scalar between 0 and dim, counted from the end where negative. */
static U bound_by_data(Graph *g, U list, int64_t k, U dim)
{
    U v = cast(g, squeeze(g, slice_i(g, list, 0, k, k + 1), 0), DT_I64), zero = uop_int(g, DT_I64, 0);
    return clamp(g, where(g, lt(g, v, zero), add(g, v, dim), v), zero, dim);
}

/* Starts or ends that only a run can tell, in steps of 1: the run tells sizes alone, and the part is taken by
 * index, so that one program serves parts that begin anywhere. NULL: they are known, may become variables (dims.h), or
 * the steps are not 1. */
static U slice_by_size(Graph *g, const Ctx *c)
{
    U x = c->in[0], start = c->opset >= 10 ? c->in[Slice_starts] : NULL,
      end = c->opset >= 10 ? c->in[Slice_ends] : NULL;
    const UOp *v[TG_MAX_RANK];
    int64_t axes[TG_MAX_RANK];
    if (!start || !end || uop_rank(start) != 1 || !uop_static(start) || start->shape != end->shape) return NULL;
    int64_t count = uop_numel(start);
    bool starts = values_of(g, start, v, TG_MAX_RANK), ends = values_of(g, end, v, TG_MAX_RANK);
    bool both = (starts || import_may_be_size(c->im, start)) && (ends || import_may_be_size(c->im, end));
    if (count > TG_MAX_RANK || both) return NULL;
    if (!axes_of_bounds(g, c, count, axes)) return NULL;
    uint64_t seen = 0;
    for (int64_t k = 0, axis; k < count; k++) {
        if (!axis_ok(g, c, "axes", axes[k], uop_rank(x), &axis)) return NULL;
        if (seen >> axis & 1) return fail_node(g, c, TG_BAD_MODEL, "axes", "axis %lld twice", (long long)axis);
        seen |= UINT64_C(1) << axis;
        U dim = size_value(g, uop_dim(x, (uint32_t)axis)), from = bound_by_data(g, start, k, dim),
          to = bound_by_data(g, end, k, dim), length = max_(g, sub(g, to, from), uop_int(g, DT_I64, 0)),
          size = queried_size(g, c, starts ? Slice_ends : Slice_starts, length);
        if (!size) return NULL;
        x = uop_is_int_const(size, 0) ? slice_i(g, x, axis, 0, 0)
                                      : take(g, x, add(g, iota(g, size, DT_INDEX), cast(g, from, DT_INDEX)), axis);
    }
    return x;
}

U op_slice(Graph *g, const Ctx *c)
{
    U x = slice_by_data(g, c), one = uop_index(g, 1);
    if (!x && ok(g)) x = slice_by_size(g, c);
    if (x || !ok(g)) return x;
    x = c->in[0];
    uint32_t ns = 0, ne = 0, na = 0, nt = 0;
    const U *start = slice_list(g, c, Slice_starts, "starts", &ns), *end = slice_list(g, c, Slice_ends, "ends", &ne);
    const U *axes = slice_list(g, c, Slice_axes, "axes", &na), *step = slice_list(g, c, Slice_steps, "steps", &nt);
    uint64_t seen = 0;
    if (!ok(g)) return NULL;
    if (!start || !end) return fail_node(g, c, TG_BAD_MODEL, start ? "ends" : "starts", "is missing");
    if (ne != ns || (axes && na != ns) || (step && nt != ns))
        return fail_node(g, c, TG_BAD_MODEL, NULL, "starts, ends, axes and steps of lengths %u, %u, %u, %u", ns, ne, na,
                         nt);
    for (uint32_t k = 0; k < ns; k++) {
        int64_t axis;
        if (axes && !uop_is_const(axes[k])) return fail_node(g, c, TG_BAD_MODEL, "axes", "axis %u is not constant", k);
        if (!axis_ok(g, c, "axes", axes ? axes[k]->arg.i : k, uop_rank(x), &axis)) return NULL;
        if (seen >> axis & 1) return fail_node(g, c, TG_BAD_MODEL, "axes", "axis %lld twice", (long long)axis);
        seen |= UINT64_C(1) << axis;
        if (!(x = slice_axis(g, c, x, axis, start[k], end[k], step ? step[k] : one)) || !ok(g)) return x;
    }
    return x;
}

U op_tile(Graph *g, const Ctx *c)
{
    U x = c->in[0];
    const U *v;
    U repeat[TG_MAX_RANK];
    int64_t tiles, axis;
    uint32_t n, rank = uop_rank(x);
    for (uint32_t k = 0; k < rank; k++) repeat[k] = uop_index(g, 1);
    if (c->opset < 6) {                             /* how often along one axis, both as numbers of x's type */
        const UOp *in[CTX_INPUTS] = { x, cast(g, c->in[Tile_repeats], DT_I64),
                                      c->in[Tile_axis] ? cast(g, c->in[Tile_axis], DT_I64) : NULL };
        Ctx old = *c;
        old.in = in;
        if (!input_int(g, &old, 1, &tiles) || !input_int(g, &old, 2, &axis) ||
            !axis_ok(g, c, "axis", axis, rank, &axis))
            return NULL;
        repeat[axis] = uop_index(g, tiles);
    } else {
        if (!input_sizes(g, c, Tile_repeats, &v, &n)) return NULL;
        if (n != rank) return fail_node(g, c, TG_BAD_MODEL, "repeats", "has %u values; wanted %u", n, rank);
        memcpy(repeat, v, sizeof *v * n);
    }
    for (uint32_t k = 0; k < rank; k++)
        if (repeat[k]->vmin < 0 || repeat[k]->vmax > EXTENT_MAX)
            return fail_node(g, c,
                             !uop_is_const(repeat[k])  ? TG_UNSUPPORTED
                                 : repeat[k]->vmin < 0 ? TG_BAD_MODEL
                                                       : TG_LIMIT,
                             "repeats", "%lld at axis %u", (long long)repeat[k]->vmin, k);
    return tile(g, x, repeat);
}

/* ---- padding ---- */

/* Where an element of the padded axis comes from: position i - before, brought back into 0 .. n-1. */
static U source(Graph *g, U position, U n, const char *mode)
{
    U zero = uop_index(g, 0), last = dim_sub(g, n, uop_index(g, 1));
    if (!strcmp(mode, "edge")) return clamp(g, position, zero, last);
    if (!strcmp(mode, "wrap")) return mod_floor(g, position, n);
    if (uop_is_int_const(n, 1)) return mul(g, position, zero);
    U period = dim_mul(g, last, uop_index(g, 2)), t = mod_floor(g, position, period);
    return min_(g, t, sub(g, period, t));
}

/* Of the last axis, whose elements lie side by side, the pads are parts beside x, which moves as a whole. NULL: they
 * are longer than x, or sizes are not known. */
static U pad_beside(Graph *g, U x, uint32_t axis, U before, U after, const char *mode)
{
    int64_t n = uop_size(x, axis);
    bool edge = !strcmp(mode, "edge"), wrap = !strcmp(mode, "wrap");
    U part[3], d[TG_MAX_RANK];
    uint32_t count = 0;
    if (axis + 1 != uop_rank(x) || !uop_static(x) || !uop_is_const(before) || !uop_is_const(after)) return NULL;
    int64_t lo = before->arg.i, hi = after->arg.i, most = edge ? INT64_MAX : wrap ? n : n - 1;
    if (lo > most || hi > most) return NULL;
    for (uint32_t k = 0; k < uop_rank(x); k++) d[k] = uop_dim(x, k);
    for (int side = 0; side < 3; side++) {
        int64_t size = side == 0 ? lo : side == 1 ? n : hi;
        d[axis] = uop_index(g, size);
        if (!size) continue;
        if (side == 1) part[count++] = x;
        else if (edge) part[count++] = expand(g, slice_i(g, x, axis, side ? n - 1 : 0, side ? n : 1), d, uop_rank(x));
        else if (wrap) part[count++] = slice_i(g, x, axis, side ? 0 : n - lo, side ? hi : n);
        else part[count++] = flip_axis(g, slice_i(g, x, axis, side ? n - 1 - hi : 1, side ? n - 1 : lo + 1), axis);
    }
    return cat(g, part, count, axis);
}

static U pad_copies(Graph *g, const Ctx *c, U x, const U *before, const U *after, const char *mode)
{
    for (uint32_t k = 0; k < uop_rank(x) && ok(g); k++) {
        U lo = before[k], hi = after[k], cut = uop_index(g, 0), n = uop_dim(x, k);
        if (uop_is_int_const(lo, 0) && uop_is_int_const(hi, 0)) continue;
        if (lo->vmax < 0) cut = dim_mul(g, lo, uop_index(g, -1)), lo = uop_index(g, 0);
        U keep = dim_sub(g, n, cut);
        if (hi->vmax < 0) keep = dim_add(g, keep, hi), hi = uop_index(g, 0);
        if (keep->vmax <= 0) return fail_node(g, c, TG_BAD_MODEL, "pads", "mode %s on an axis without elements", mode);
        x = slice(g, x, k, cut, keep);
        U position = sub(g, iota(g, dim_add(g, dim_add(g, lo, keep), hi), DT_INDEX), lo),
          beside = ok(g) ? pad_beside(g, x, k, lo, hi, mode) : NULL;
        x = beside ? beside : take(g, x, source(g, position, keep, mode), k);
    }
    return x;
}

/* The pads of each axis from the input or attribute, with axes (opset 18). */
static bool read_pads(Graph *g, const Ctx *c, U *before, U *after)
{
    const U *v = NULL;
    const int64_t *list, *axis;
    uint32_t n = 0, na, rank = uop_rank(c->in[0]);
    bool given, input = c->opset >= 11;
    if (input ? !input_sizes(g, c, 1, &v, &n) : !attr_ints(g, c, c->opset < 2 ? "paddings" : "pads", &list, &n))
        return ok(g) ? fail_node(g, c, TG_BAD_MODEL, "pads", "is missing"), false : false;
    if (!node_axes(g, c, input ? 3 : -1, rank, &axis, &na, &given)) return false;
    if (n != 2 * na) return fail_node(g, c, TG_BAD_MODEL, "pads", "has %u values; wanted %u", n, 2 * na), false;
    for (uint32_t k = 0; k < rank; k++) before[k] = after[k] = uop_index(g, 0);
    for (uint32_t k = 0; k < na; k++) {
        before[axis[k]] = input ? v[k] : uop_index(g, list[k]);
        after[axis[k]] = input ? v[k + na] : uop_index(g, list[k + na]);
    }
    for (uint32_t k = 0; k < rank; k++)
        if (before[k]->vmax > EXTENT_MAX || after[k]->vmax > EXTENT_MAX || before[k]->vmin < -EXTENT_MAX ||
            after[k]->vmin < -EXTENT_MAX)
            return fail_node(g, c, TG_LIMIT, "pads", "more than %d elements at axis %u", EXTENT_MAX, k), false;
    return true;
}

U op_pad(Graph *g, const Ctx *c)
{
    U x = c->in[0], before[TG_MAX_RANK], after[TG_MAX_RANK], fill = NULL;
    const char *mode = attr_str(g, c, "mode", "constant");
    if (!read_pads(g, c, before, after)) return NULL;
    for (uint32_t k = 0; k < uop_rank(x); k++)
        if (dim_add(g, dim_add(g, uop_dim(x, k), before[k]), after[k])->vmax < 0)
            return fail_node(g, c, TG_BAD_MODEL, "pads", "remove more than axis %u has", k);
    if (!strcmp(mode, "reflect") || !strcmp(mode, "edge") || !strcmp(mode, "wrap"))
        return pad_copies(g, c, x, before, after, mode);
    if (strcmp(mode, "constant"))
        return fail_node(g, c, TG_BAD_MODEL, "mode", "is '%s'; wanted constant, reflect, edge or wrap", mode);
    if (c->opset < 11) fill = scalar(g, type_of(x), attr_float(g, c, "value", 0));
    else if (c->nin > 2 && c->in[Pad_constant_value]) {
        if (uop_numel(c->in[Pad_constant_value]) != 1 || c->in[Pad_constant_value]->dtype != x->dtype)
            return fail_node(g, c, TG_BAD_MODEL, "constant_value", "is not a scalar of the input's type");
        fill = reshape_i(g, c->in[Pad_constant_value], NULL, 0);
    }
    return pad(g, x, before, after, fill);
}

U op_center_crop_pad(Graph *g, const Ctx *c)
{
    U x = c->in[0], before[TG_MAX_RANK], after[TG_MAX_RANK];
    const int64_t *want, *axis;
    uint32_t n, na;
    bool given;
    if (!node_axes(g, c, -1, uop_rank(x), &axis, &na, &given) || !input_ints(g, c, CenterCropPad_shape, &want, &n))
        return NULL;
    if (n != na) return fail_node(g, c, TG_BAD_MODEL, "shape", "has %u values; wanted %u", n, na);
    for (uint32_t k = 0; k < uop_rank(x); k++) before[k] = after[k] = uop_index(g, 0);
    for (uint32_t k = 0; k < n; k++) {
        U d = uop_dim(x, (uint32_t)axis[k]);
        if (!uop_is_const(d))
            return fail_node(g, c, TG_UNSUPPORTED, "axes", "has a symbolic size, which is not covered");
        if (want[k] < 0 || want[k] > EXTENT_MAX)
            return fail_node(g, c, TG_BAD_MODEL, "shape", "size %lld", (long long)want[k]);
        int64_t more = want[k] - d->arg.i, first = more < 0 ? -(-more / 2) : more / 2;
        before[axis[k]] = uop_index(g, first);
        after[axis[k]] = uop_index(g, more - first);
    }
    return pad(g, x, before, after, NULL);
}

U op_trilu(Graph *g, const Ctx *c)
{
    U x = c->in[0];
    int64_t k = 0;
    uint32_t r = uop_rank(x);
    bool upper = attr_bool(g, c, "upper", true);
    if (c->nin > 1 && c->in[Trilu_k] && !input_int(g, c, 1, &k)) return NULL;
    if (r < 2) return fail_node(g, c, TG_BAD_MODEL, NULL, "an input of rank %u; wanted 2 or more", r);
    return where(g, tri_mask(g, uop_dim(x, r - 2), uop_dim(x, r - 1), clamp_i(k, -EXTENT_MAX, EXTENT_MAX), upper), x,
                 scalar(g, type_of(x), 0));
}

U op_one_hot(Graph *g, const Ctx *c)
{
    U idx = c->in[0], n = cast(g, c->in[OneHot_depth], DT_I64), size;
    const UOp *depth[1];
    int64_t axis;
    if (uop_numel(n) != 1 || uop_rank(n) > 1) return fail_node(g, c, TG_BAD_MODEL, "depth", "is not a scalar");
    if (!values_of(g, n, depth, 1) || !(size = size_of_value(g, depth[0]))) return fail_data(g, c, 1);
    if (size->vmin < 0 || size->vmax > EXTENT_MAX)
        return fail_node(g, c, uop_is_const(size) ? TG_BAD_MODEL : TG_UNSUPPORTED, "depth", "is %lld",
                         (long long)size->vmin);
    if (!uop_static(c->in[OneHot_values]) || uop_numel(c->in[OneHot_values]) != 2)
        return fail_node(g, c, TG_BAD_MODEL, "values", "has %lld elements; wanted 2",
                         (long long)uop_numel(c->in[OneHot_values]));
    if (!axis_ok(g, c, "axis", attr_int(g, c, "axis", -1), uop_rank(idx) + 1, &axis)) return NULL;
    return one_hot(g, cast(g, idx, DT_I64), size, axis, c->in[OneHot_values]);
}
