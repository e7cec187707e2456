/* Fourier transforms, windows and mel weights. Where lengths are known at import, tables of sines are constants and a
 * transform is one product of matrices, or for long signals two of the roots of the length with twiddle factors between
 * (Cooley and Tukey, 1965). The table of a short symbolic length is computed. Complex numbers are a last axis of 2. To
 * add one: a function here and a row in ops.def.
 */
#include "frontend/frontend.h"
#include "frontend/input_names.h"

#include <math.h>

/* TABLE_MAX: entries above which a transform is split when its length allows; PRIME_MAX: the longest that it does not;
 * SYMBOLIC_MAX: the longest whose table is computed. */
enum { LENGTH_MAX = 1 << 22, TABLE_MAX = 1 << 20, PRIME_MAX = 2048, SYMBOLIC_MAX = 1024 };


/* A table of n doubles as a constant in the type that x is computed in. */
static U table(Graph *g, U x, const double *v, const int64_t *shape, uint32_t rank)
{
    int64_t n = 1;
    for (uint32_t k = 0; k < rank; k++) n *= shape[k];
    if (type_of(x) == DT_F64) return tensor_const(g, DT_F64, shape, rank, v, (size_t)n * 8, "");
    float *f = NEW_N(graph_arena(g), float, n + 1);
    for (int64_t k = 0; k < n; k++) f[k] = (float)v[k];
    return tensor_const(g, DT_F32, shape, rank, f, (size_t)n * 4, "");
}

static bool known_int(Graph *g, const Ctx *c, uint32_t i, int64_t lo, int64_t *out)
{
    const int64_t *v;
    uint32_t n;
    if (!input_ints(g, c, i, &v, &n)) return false;
    if (n != 1 || v[0] < lo || v[0] > LENGTH_MAX)
        return fail_node(g, c, TG_BAD_MODEL, c->node->in[i], "wanted one value from %lld to %d", (long long)lo,
                         LENGTH_MAX),
               false;
    *out = v[0];
    return true;
}

/* ---- transforms ---- */

/* x with its last two axes replaced: [lead.., a, b]. */
static U last_two(Graph *g, U x, U a, U b)
{
    U dim[TG_MAX_RANK + 2];
    if (x->op == UOP_ERROR) return x;
    uint32_t lead = uop_rank(x) - 2;
    for (uint32_t k = 0; k < lead; k++) dim[k] = uop_dim(x, k);
    dim[lead] = a, dim[lead + 1] = b;
    return reshape(g, x, dim, lead + 2);
}

/* [.., n, parts] -> [.., count, ends] by a table [n parts, count ends]. */
static U by_table(Graph *g, U x, U w, U count, int64_t ends)
{
    if (x->op == UOP_ERROR || w->op == UOP_ERROR) return x->op == UOP_ERROR ? x : w;
    return last_two(g, matmul(g, last_two(g, x, uop_index(g, 1), uop_dim(w, 0)), w), count, uop_index(g, ends));
}

/* Cosines and sines of 2 pi j k / n as doubles [rows, columns], for a length that is a variable. */
static void computed_sines(Graph *g, U rows, U columns, U n, U *re, U *im)
{
    U turn = mod_floor(g, mul(g, unsqueeze(g, iota(g, rows, DT_I64), 1), iota(g, columns, DT_I64)), cast(g, n, DT_I64));
    U angle = mul(g, scalar(g, DT_F64, 2 * M_PI), div_(g, cast(g, turn, DT_F64), cast(g, n, DT_F64)));
    *re = cos_(g, angle), *im = sin_(g, angle);
}

static U stored_table(Graph *g, U x, U w, U rows, U columns)
{
    return UOP(g, UOP_CONTIGUOUS, DT_VOID, NO_ARG, reshape(g, cast(g, w, type_of(x)), (U[]){ rows, columns }, 2));
}

/* The tables of transform_direct and transform_real_inverse. */
static U computed_table(Graph *g, U x, U n, int64_t parts, U bins, int sign)
{
    U re, im, two = uop_index(g, 2);
    computed_sines(g, n, bins, n, &re, &im);
    if (sign < 0) im = neg(g, im);
    U w = stack(g, (U[]){ re, im }, 2, -1);
    if (parts == 2) w = stack(g, (U[]){ w, stack(g, (U[]){ neg(g, im), re }, 2, -1) }, 2, 1);
    return stored_table(g, x, w, dim_mul(g, n, uop_index(g, parts)), dim_mul(g, bins, two));
}

static U computed_real_inverse(Graph *g, U x, U n, U bins)
{
    U re, im, two = uop_index(g, 2), k = unsqueeze(g, iota(g, bins, DT_I64), 1);
    computed_sines(g, bins, n, n, &re, &im);
    U once = or_(g, eq(g, k, uop_int(g, DT_I64, 0)), eq(g, mul(g, k, uop_int(g, DT_I64, 2)), cast(g, n, DT_I64)));
    U by = div_(g, where(g, once, scalar(g, DT_F64, 1), scalar(g, DT_F64, 2)), cast(g, n, DT_F64));
    return stored_table(g, x, stack(g, (U[]){ mul(g, by, re), neg(g, mul(g, by, im)) }, 2, 1), dim_mul(g, bins, two),
                        n);
}

/* [.., n, parts] -> [.., bins, 2]: one product with the table of e^(sign 2 pi i k j / n). */
static U transform_direct(Graph *g, U x, int64_t n, int64_t parts, int64_t bins, int sign)
{
    double *t = NEW_N(graph_arena(g), double, n * parts * bins * 2);
    for (int64_t j = 0; j < n; j++)
        for (int64_t k = 0; k < bins; k++) {
            double angle = sign * 2 * M_PI * (double)(j * k % n) / (double)n, re = cos(angle), im = sin(angle);
            double *row = t + (j * parts * bins + k) * 2;
            row[0] = re, row[1] = im;
            if (parts == 2) row[bins * 2] = -im, row[bins * 2 + 1] = re;
        }
    return by_table(g, x, table(g, x, t, (int64_t[]){ n * parts, bins * 2 }, 2), uop_index(g, bins), 2);
}

/* a * b for complex values, last axis 2; b is a constant table [.., 2]. */
static U complex_mul(Graph *g, U a, U re, U im)
{
    U ar = slice_i(g, a, -1, 0, 1), ai = slice_i(g, a, -1, 1, 2);
    return cat(g, (U[]){ sub(g, mul(g, ar, re), mul(g, ai, im)), add(g, mul(g, ar, im), mul(g, ai, re)) }, 2, -1);
}

static int64_t factor(int64_t n)
{
    for (int64_t f = (int64_t)sqrt((double)n); f > 1; f--)
        if (n % f == 0) return f;
    return 1;
}

/* Axes at -3 and -2 exchanged. */
static U exchange(Graph *g, U x)
{
    int64_t order[TG_MAX_RANK + 4];
    if (x->op == UOP_ERROR) return x;
    uint32_t r = uop_rank(x);
    for (uint32_t k = 0; k < r; k++) order[k] = k;
    order[r - 3] = r - 2, order[r - 2] = r - 3;
    return permute(g, x, order, r);
}

/* [.., n, parts] -> [.., bins, 2]. Index j = n2 j1 + j2, bin k = k1 + n1 k2: transforms of n1, twiddles e^(j2 k1),
 * transforms of n2. */
static U transform(Graph *g, U x, int64_t n, int64_t parts, int64_t bins, int sign)
{
    int64_t n1 = factor(n), n2 = n / n1;
    if (n * bins <= TABLE_MAX || n1 == 1 || x->op == UOP_ERROR || uop_rank(x) > TG_MAX_RANK)
        return transform_direct(g, x, n, parts, bins, sign);
    U dim[TG_MAX_RANK + 2];
    uint32_t lead = uop_rank(x) - 2;
    for (uint32_t k = 0; k < lead; k++) dim[k] = uop_dim(x, k);
    dim[lead] = uop_index(g, n1), dim[lead + 1] = uop_index(g, n2), dim[lead + 2] = uop_index(g, parts);
    U y = transform(g, exchange(g, reshape(g, x, dim, lead + 3)), n1, parts, n1, sign);         /* [.., j2, k1, 2] */
    double *re = NEW_N(graph_arena(g), double, n), *im = NEW_N(graph_arena(g), double, n);
    for (int64_t j = 0; j < n; j++) {
        double angle = sign * 2 * M_PI * (double)((j / n1) * (j % n1) % n) / (double)n;
        re[j] = cos(angle), im[j] = sin(angle);
    }
    const int64_t shape[] = { n2, n1, 1 };
    y = complex_mul(g, y, table(g, x, re, shape, 3), table(g, x, im, shape, 3));
    y = exchange(g, transform(g, exchange(g, y), n2, 2, n2, sign));                              /* [.., k2, k1, 2] */
    if (y->op == UOP_ERROR) return y;
    dim[lead] = uop_index(g, n), dim[lead + 1] = uop_index(g, 2);
    return slice_i(g, reshape(g, y, dim, lead + 2), -2, 0, bins);
}

/* [.., bins, 2] of a real signal's spectrum -> [.., n, 1]: the mirrored half counts by doubling, or is put there when a
 * table would be large. */
static U transform_real_inverse(Graph *g, U x, int64_t n, int64_t bins)
{
    if (n * bins > TABLE_MAX && x->op != UOP_ERROR) {
        U mirror = flip_axis(g, slice_i(g, x, -2, 1, n - bins + 1), -2), im = neg(g, slice_i(g, mirror, -1, 1, 2));
        U full = cat(g, (U[]){ x, cat(g, (U[]){ slice_i(g, mirror, -1, 0, 1), im }, 2, -1) }, 2, -2);
        return mul(g, slice_i(g, transform(g, full, n, 2, n, 1), -1, 0, 1), K(1 / (double)n));
    }
    double *t = NEW_N(graph_arena(g), double, bins * 2 * n);
    for (int64_t k = 0; k < bins; k++)
        for (int64_t j = 0; j < n; j++) {
            double twice = k == 0 || 2 * k == n ? 1 : 2, angle = 2 * M_PI * (double)(j * k % n) / (double)n;
            t[2 * k * n + j] = twice * cos(angle) / (double)n;
            t[(2 * k + 1) * n + j] = -twice * sin(angle) / (double)n;
        }
    return by_table(g, x, table(g, x, t, (int64_t[]){ bins * 2, n }, 2), uop_index(g, n), 1);
}

/* The axis at -2 cut or filled with zeros to n. */
static U fit(Graph *g, U x, int64_t n)
{
    U before[TG_MAX_RANK], after[TG_MAX_RANK];
    uint32_t r = uop_rank(x);
    for (uint32_t k = 0; k < r; k++) before[k] = after[k] = uop_index(g, 0);
    after[r - 2] = dim_sub(g, uop_index(g, n), uop_dim(x, r - 2));
    return pad(g, x, before, after, NULL);
}

/* The same for all of an axis of variable size, at -2. */
static U transform_open(Graph *g, U x, U size, int64_t parts, bool half, bool inverse)
{
    U one = uop_index(g, 1), two = uop_index(g, 2), bins = half ? dim_add(g, dim_div(g, size, two), one) : size;
    if (!half || !inverse) return by_table(g, x, computed_table(g, x, size, parts, bins, inverse ? 1 : -1), bins, 2);
    U n = dim_mul(g, dim_sub(g, size, one), two);
    graph_need(g, dim_sub(g, n, one));
    return by_table(g, x, computed_real_inverse(g, x, n, size), n, 1);
}

/** DFT (ONNX 17, 20): along `axis` (attribute of 1, later an input of -2), of dft_length. Last axis 1 (real) or 2
 * (complex). onesided: the first half of bins; with inverse a real signal from them. */
U op_dft(Graph *g, const Ctx *c)
{
    U x = wide(g, c->in[0]);
    int64_t r = uop_rank(x), axis = c->opset < 20 ? attr_int(g, c, "axis", 1) : -2, n,
            parts = r ? fixed_size(g, x, (uint32_t)r - 1) : 0;
    bool inverse = attr_bool(g, c, "inverse", false), half = attr_bool(g, c, "onesided", false);
    const int64_t *v;
    uint32_t count;
    if (c->in[DFT_axis] && (!input_ints(g, c, DFT_axis, &v, &count) || count != 1)) return NULL;
    if (c->in[DFT_axis]) axis = v[0];
    if (r < 2 || parts < 1 || parts > 2)
        return fail_node(g, c, TG_BAD_MODEL, NULL, "an input whose last axis has size %lld; wanted 1 or 2",
                         (long long)parts);
    if (!axis_ok(g, c, "axis", axis, r, &axis)) return NULL;
    if (axis == r - 1) return fail_node(g, c, TG_BAD_MODEL, "axis", "is that of real and imaginary parts");
    U dim = uop_dim(x, (uint32_t)axis);
    bool open = !c->in[DFT_dft_length] && !uop_is_const(dim);
    if (open && dim->vmax > SYMBOLIC_MAX)
        return fail_node(g, c, TG_UNSUPPORTED, "axis", "has a symbolic size above %d, and dft_length is missing",
                         SYMBOLIC_MAX);
    n = half && inverse ? 2 * (dim->vmax - 1) : dim->vmax;
    if (c->in[DFT_dft_length] && !known_int(g, c, DFT_dft_length, 1, &n)) return NULL;
    if (n < 1 || n > LENGTH_MAX || (factor(n) == 1 && n > PRIME_MAX))
        return fail_node(g, c, n < 1 ? TG_BAD_MODEL : TG_LIMIT, "dft_length", "is %lld", (long long)n);
    if (half && inverse && parts == 1)
        return fail_node(g, c, TG_BAD_MODEL, "onesided", "the inverse wants complex input");
    int64_t order[TG_MAX_RANK], back[TG_MAX_RANK], bins = n / 2 + 1;
    for (int64_t k = 0; k < r; k++) order[k] = k < axis || k == r - 1 ? k : k == r - 2 ? axis : k + 1;
    for (int64_t k = 0; k < r; k++) back[order[k]] = k;
    x = permute(g, x, order, (uint32_t)r);
    if (open) x = transform_open(g, x, dim, parts, half, inverse);
    else if (half && inverse) x = transform_real_inverse(g, fit(g, x, bins), n, bins);
    else x = transform(g, fit(g, x, n), n, parts, half ? bins : n, inverse ? 1 : -1);
    if (inverse && !half && x->op != UOP_ERROR)
        x = mul(g, x, open ? recip(g, cast(g, dim, type_of(x))) : K(1 / (double)n));
    return narrow(g, permute(g, x, back, (uint32_t)r), c->in[0]);
}

/** STFT: signal [batch, length, 1|2], frames of frame_length every frame_step, times window; [batch, frames, bins, 2].
 */
U op_stft(Graph *g, const Ctx *c)
{
    U x = wide(g, c->in[0]), window = wide(g, c->in[STFT_window]);
    int64_t step, n = 0, one[] = { 1 };
    if (uop_rank(x) == 2) x = unsqueeze(g, x, 2);
    if (uop_rank(x) != 3 || fixed_size(g, x, 2) < 1 || fixed_size(g, x, 2) > 2)
        return fail_node(g, c, TG_BAD_MODEL, c->node->in[0], "wanted [batch, length, 1 or 2]");
    if (window && (uop_rank(window) != 1 || !uop_is_const(uop_dim(window, 0))))
        return fail_node(g, c, TG_BAD_MODEL, c->node->in[STFT_window], "wanted a list of known length");
    if (!known_int(g, c, STFT_frame_step, 1, &step) ||
        (c->in[STFT_frame_length] && !known_int(g, c, STFT_frame_length, 1, &n)))
        return NULL;
    if (!c->in[STFT_frame_length]) n = window ? fixed_size(g, window, 0) : fixed_size(g, x, 1);
    if (window && fixed_size(g, window, 0) != n)
        return fail_node(g, c, TG_BAD_MODEL, c->node->in[STFT_window], "has %lld values; frames have %lld",
                         (long long)uop_size(window, 0), (long long)n);
    if (factor(n) == 1 && n > PRIME_MAX)
        return fail_node(g, c, TG_LIMIT, "frame_length", "%lld, a prime", (long long)n);
    if (n < 1 || n > fixed_size(g, x, 1))
        return fail_node(g, c, TG_BAD_MODEL, "frame_length", "is %lld, the signal has %lld", (long long)n,
                         (long long)uop_size(x, 1));
    int64_t parts = fixed_size(g, x, 2), bins = attr_bool(g, c, "onesided", true) && parts == 1 ? n / 2 + 1 : n;
    U frames = permute(g, windows(g, transpose(g, x), 1, &n, &step, one), (int64_t[]){ 0, 2, 3, 1 }, 4);
    if (window) frames = mul(g, frames, unsqueeze(g, window, 1));
    return narrow(g, transform(g, frames, n, parts, bins, -1), c->in[0]);
}

/* ---- tables ---- */

/* a0 - a1 cos(2 pi j / n) + a2 cos(4 pi j / n), n one less than the size when symmetric. */
static U cosine_window(Graph *g, const Ctx *c, double a0, double a1, double a2)
{
    int64_t size, type = attr_int(g, c, "output_datatype", TG_F32);
    DType t = attr_dtype(g, c, "output_datatype", TG_F32);
    if (!known_int(g, c, 0, 0, &size)) return NULL;
    if (t == DT_VOID)
        return fail_node(g, c, TG_UNSUPPORTED, "output_datatype", "element type %lld is not covered", (long long)type);
    double n = attr_bool(g, c, "periodic", true) ? (double)size : (double)size - 1,
           *v = NEW_N(graph_arena(g), double, size + 1);
    for (int64_t j = 0; j < size; j++)
        v[j] = a0 - a1 * cos(2 * M_PI * (double)j / n) + a2 * cos(4 * M_PI * (double)j / n);
    return cast(g, tensor_const(g, DT_F64, &size, 1, v, (size_t)size * 8, ""), t);
}

U op_hann_window(Graph *g, const Ctx *c) { return cosine_window(g, c, 0.5, 0.5, 0); }
U op_hamming_window(Graph *g, const Ctx *c) { return cosine_window(g, c, 25.0 / 46, 21.0 / 46, 0); }
U op_blackman_window(Graph *g, const Ctx *c) { return cosine_window(g, c, 0.42, 0.5, 0.08); }

static double hertz_to_mel(double f) { return 2595 * log10(1 + f / 700); }
static double mel_to_hertz(double m) { return 700 * (pow(10, m / 2595) - 1); }

static bool known_float(Graph *g, const Ctx *c, uint32_t i, double *out)
{
    U v = known_scalar(g, cast(g, c->in[i], DT_F64));
    if (!v) return fail_data(g, c, i), false;
    *out = uop_const_float(v);
    return true;
}

/* One triangle a band, edges at equal steps of the mel scale rounded down to bins; the peak is 1. */
U op_mel_weight_matrix(Graph *g, const Ctx *c)
{
    int64_t bands, length, rate, type = attr_int(g, c, "output_datatype", TG_F32);
    double low, high;
    DType t = attr_dtype(g, c, "output_datatype", TG_F32);
    if (!known_int(g, c, 0, 1, &bands) || !known_int(g, c, MelWeightMatrix_dft_length, 1, &length) ||
        !known_int(g, c, MelWeightMatrix_sample_rate, 1, &rate) || !known_float(g, c, 3, &low) ||
        !known_float(g, c, 4, &high))
        return NULL;
    if (t == DT_VOID)
        return fail_node(g, c, TG_UNSUPPORTED, "output_datatype", "element type %lld is not covered", (long long)type);
    int64_t bins = length / 2 + 1, *edge = NEW_N(graph_arena(g), int64_t, bands + 2);
    if (bins * bands > LENGTH_MAX) return fail_node(g, c, TG_LIMIT, NULL, "more than %d weights", LENGTH_MAX);
    double from = hertz_to_mel(low), step = (hertz_to_mel(high) - from) / (double)(bands + 2),
           *w = NEW_N(graph_arena(g), double, bins *bands);
    for (int64_t k = 0; k < bands + 2; k++) {
        double at = floor((double)(length + 1) * mel_to_hertz(from + step * (double)k) / (double)rate);
        if (!(at >= 0 && at <= (double)bins))
            return fail_node(g, c, TG_BAD_MODEL, NULL, "a band edge outside of the spectrum");
        edge[k] = (int64_t)at;
    }
    for (int64_t k = 0; k < bands; k++) {
        int64_t lo = edge[k], mid = edge[k + 1], hi = edge[k + 2];
        for (int64_t j = lo; j <= mid && j < bins; j++)
            w[j * bands + k] = mid > lo ? (double)(j - lo) / (double)(mid - lo) : 1;
        for (int64_t j = mid; j < hi && j < bins; j++) w[j * bands + k] = (double)(hi - j) / (double)(hi - mid);
    }
    return cast(g, tensor_const(g, DT_F64, (int64_t[]){ bins, bands }, 2, w, (size_t)(bins * bands) * 8, ""), t);
}
