/* Winograd's short correlations: a sum of three neighbours along an axis, for every place of it, in fewer products.
 *
 * Comes in: y[i, i'] = sum over c, k, k' of x[i + k, i' + k', c] w[k, k', c], k < 3, of f32 and constant w. Goes out,
 * along each of the two axes with tiles of m places, i = m t + p:
 *     v[t, a, c] = sum over j of B[a, j] x[m t + j, c]        j, a < m + 2: additions; stored
 *     u[a, c]    = sum over k of G[a, k] w[k, c]              at load
 *     s[t, a]    = sum over c of v[t, a, c] u[a, c]           m + 2 products where there were 3 m; stored
 *     y[m t + p] = sum over a of A[p, a] s[t, a]
 * which is a sum of products again, one for each a, and sums of few terms before and behind it. A, B and G are those of
 * polynomials at the points 0, 1, -1 and infinity (m = 2): B and A have no other numbers than 0, 1 and -1, and since s
 * sums a ninth of the terms the error is below the plain sum's (measured beside f64: 2.1e-7 of the rms for 2.7e-7 at 64
 * channels, 2.3e-7 for 2.8e-7 at 512).
 * An Inf or a NaN, or a number next to the largest, spoils the tiles that read it, where the plain sum spoils only
 * those sums that do: each y is looked at (GUARD_FINITE), and the run is made again with plain sums when one is no
 * number.
 * Must hold: rows, columns and channels pay for what is stored; there is no unit that sums parts (parts.c).
 * Source: Winograd, Arithmetic Complexity of Computations, 1980; Lavin and Gray, 2015, for images.
 */
#include "graph/guard.h"
#include "sched/sums.h"

#include <string.h>

enum { TAPS = 3, TILE = 2, POINTS = TILE + TAPS - 1, AXES = 2 };
/* BLOCK: tiles that lie together; CACHED: of the second caches that what lies between kernels may fill. */
enum { BLOCK = 16, CACHED = 2 };
/* CHANNELS, COLUMNS: of fewer, what is stored costs as much as products save; ROWS: of fewer, weights, which are 16 for
 * 9, come from memory longer than products take; LEAST_WORK: products of a sum. All measured on Zen 5, two threads. */
enum { CHANNELS = 32, COLUMNS = 32, ROWS = 96, LEAST_WORK = 1 << 20 };
static const double of_input[POINTS][POINTS] = { { 1, 0, -1, 0 }, { 0, 1, 1, 0 }, { 0, -1, 1, 0 }, { 0, 1, 0, -1 } },
                    of_weight[POINTS][TAPS] = { { 1, 0, 0 }, { 0.5, 0.5, 0.5 }, { 0.5, -0.5, 0.5 }, { 0, 0, 1 } },
                    of_sums[TILE][POINTS] = { { 1, 1, 1, 0 }, { 0, 1, -1, -1 } };

/* One sum: axes of its product p. windows: the INDEX by places and neighbours; place, tap: those that it walks; column:
 * of w alone; channel: of both, summed. rows: places of all samples; of a symbolic number of samples the most, and the
 * least. block: tiles along the second axis that lie together; by_point: see arrange. */
typedef struct {
    U sum, p, x, w, windows;
    int place[AXES], tap[AXES], column, channel;
    int64_t rows, least_rows, block;
    bool by_point;
} Sum;

/* ---- which sums ---- */

static bool is_iota(U u, int64_t n)
{
    if (u->op == UOP_RESHAPE) u = u->src[0];
    return u->op == UOP_IOTA && uop_is_int_const(u->src[0], n);
}

/* [n, 3]: place + neighbour. */
static bool is_neighbours(U u)
{
    if (u->op != UOP_ADD || uop_rank(u) != 2 || uop_size(u, 1) != TAPS) return false;
    U places = u->src[0], taps = u->src[1];
    if (uop_rank(places) < 2) places = u->src[1], taps = u->src[0];
    return uop_rank(places) == 2 && uop_rank(taps) == 1 && uop_size(places, 1) == 1 &&
        is_iota(places, uop_size(u, 0)) && is_iota(taps, TAPS);
}

static bool find_windows(Sum *s)
{
    U u = s->x;
    while (view_is(u) && u->op != UOP_INDEX) u = u->src[0];
    s->windows = u;
    return u->op == UOP_INDEX && u->nsrc == 1 + AXES && is_neighbours(u->src[1]) && is_neighbours(u->src[2]);
}

/* The windows' axis that is this axis of the product; -1: none is. */
static int axis_of_windows(const Sum *s, uint32_t k)
{
    int axis = (int)k - (int)(uop_rank(s->p) - uop_rank(s->x));
    for (U u = s->x; u != s->windows && axis >= 0; u = u->src[0]) axis = view_axis(u, axis);
    return axis;
}

/* All of what the windows make is walked, and samples lie in the product as they do in the windows. */
static bool find_axes(Sum *s)
{
    uint32_t found = 0;
    int sample = -1;
    int64_t seen = 1;
    s->column = s->channel = -1;
    s->rows = s->least_rows = 1;
    for (uint32_t k = 0; k < uop_rank(s->p); k++) {
        int64_t of_x = operand_extent(s->p, s->x, k), of_w = operand_extent(s->p, s->w, k);
        U size = uop_dim(s->p, k);
        if (uop_is_int_const(size, 1)) continue;
        int axis = of_x > 1 ? axis_of_windows(s, k) : -1, walked = axis >= 0 && axis < 2 * AXES ? axis : -1;
        bool summed = reduce_is_over(s->sum, k);
        if (of_x > 1 && axis < 0) return false;
        seen *= of_x;
        if (summed != (of_x > 1 && of_w > 1)) return false;
        if (!summed && of_w > 1) {
            if (s->column >= 0) return false;
            s->column = (int)k;
        } else if (walked >= 0 && (walked & 1) == summed) {
            if (!uop_is_const(size)) return false;
            (summed ? s->tap : s->place)[walked / 2] = (int)k;
            found |= 1u << walked;
            if (!summed) s->rows *= of_x, s->least_rows *= of_x;
        } else if (walked >= 0) return false;
        else if (!summed) {
            if (axis < sample) return false;
            sample = axis;
            s->rows *= of_x, s->least_rows *= size->vmin > 1 ? size->vmin : 1;
        } else if (s->channel >= 0) return false;
        else s->channel = (int)k;
    }
    return s->column >= 0 && s->channel >= 0 && found == (1u << 2 * AXES) - 1 && seen == uop_numel(s->windows);
}

/* Products that are saved are worth what is stored and read between them. */
static bool pays(const Sum *s)
{
    int64_t channels = uop_size(s->p, (uint32_t)s->channel), columns = uop_size(s->p, (uint32_t)s->column);
    return channels >= CHANNELS && columns >= COLUMNS && s->least_rows >= ROWS &&
        s->least_rows * channels * columns >= LEAST_WORK;
}

/* ---- transforms ---- */

/* sum over j of row[j] x[j stride]. */
static U combined(Graph *g, const double *row, const U *x, uint32_t n, uint32_t stride)
{
    U y = NULL;
    for (uint32_t j = 0; j < n; j++) {
        double f = row[j], size = f < 0 ? -f : f;
        if (f == 0) continue;
        U term = size == 1 ? x[j * stride] : mul(g, x[j * stride], scalar(g, DT_F32, size));
        y = !y ? (f < 0 ? neg(g, term) : term) : f < 0 ? sub(g, y, term) : add(g, y, term);
    }
    return y;
}

/* y[r, r'] = sum over j, j' of matrix[r][j] matrix[r'][j'] x[j, j'], along two axes of n that follow one another:
 * element by element, so that all are one kernel's, which unrolls them. */
static U transformed(Graph *g, U x, uint32_t axis, const double *matrix, uint32_t rows, uint32_t n)
{
    U e[POINTS * POINTS], half[POINTS * POINTS], row[POINTS], y[POINTS], dim[RANK_MAX], i[AXES];
    for (uint32_t j = 0; j < n * n; j++)
        e[j] = slice_i(g, slice_i(g, x, axis, j / n, j / n + 1), axis + 1, j % n, j % n + 1);
    for (uint32_t r = 0; r < rows; r++)
        for (uint32_t j = 0; j < n; j++) half[r * n + j] = combined(g, matrix + r * n, e + j, n, n);
    for (uint32_t a = 0; a < AXES; a++) {
        for (uint32_t k = 0; k < uop_rank(x); k++) dim[k] = uop_index(g, k == axis + a ? rows : 1);
        i[a] = reshape(g, iota(g, dim[axis + a], DT_I32), dim, uop_rank(x));
    }
    for (uint32_t r = 0; r < rows; r++) {
        for (uint32_t q = 0; q < rows; q++) row[q] = combined(g, matrix + q * n, half + r * n, n, 1);
        y[r] = choose_value(g, i[1], row, rows);
    }
    return choose_value(g, i[0], y, rows);
}

/* x's tiles, transformed and stored: [b, th, tb, a, a', ti, c], or [a, a', b, th, tb, ti, c] by point. */
static U of_tiles(Graph *g, const Sum *s)
{
    static const int64_t stride[] = { TILE, TILE }, kernel[] = { POINTS, POINTS }, one[] = { 1, 1 },
                         by_tile[] = { 0, 2, 3, 5, 6, 4, 1 }, by_point[] = { 5, 6, 0, 2, 3, 4, 1 };
    U x = s->windows->src[0], dim[RANK_MAX] = { uop_index(g, 1) };
    int64_t order[RANK_MAX], after[4] = { 0 };
    uint32_t rank = uop_rank(x), count = 0, channel = (uint32_t)axis_of_windows(s, (uint32_t)s->channel) - AXES;
    for (uint32_t k = AXES; k < rank; k++)
        if (k != channel) order[count++] = k, dim[0] = dim_mul(g, dim[0], uop_dim(x, k));
    order[count++] = channel;
    dim[1] = uop_dim(x, channel);
    for (uint32_t k = 0; k < AXES; k++) {
        order[count++] = k;
        dim[k + 2] = uop_dim(x, k);
        after[k + 2] = uop_size(s->windows, 2 * k) % TILE;
    }
    x = pad_i(g, reshape(g, permute(g, x, order, rank), dim, 4), (int64_t[4]){ 0 }, after, NULL);
    x = windows(g, x, AXES, kernel, stride, one); /* [b, c, th, tw, j, j'] */
    for (uint32_t k = 0; k < 6; k++) dim[k + (k > 3)] = uop_dim(x, k);
    dim[3] = uop_index(g, uop_size(x, 3) / s->block);
    dim[4] = uop_index(g, s->block);
    x = transformed(g, reshape(g, x, dim, 7), 5, *of_input, POINTS, POINTS);
    return contiguous(g, permute(g, x, s->by_point ? by_point : by_tile, 7));
}

/* The places of n different numbers in ascending order. */
static void places_of(int64_t *place, const int64_t *number, uint32_t n)
{
    for (uint32_t k = 0; k < n; k++) {
        place[k] = 0;
        for (uint32_t i = 0; i < n; i++) place[k] += number[i] < number[k];
    }
}

/* w as [a, a', .. m, c], transformed, its axes where those of the tiles are. */
static U of_weights(Graph *g, const Sum *s)
{
    U dim[8], w = s->w->op == UOP_EXPAND ? s->w->src[0] : s->w, one = uop_index(g, 1);
    const int64_t axis[4] = { s->tap[0], s->tap[1], s->column, s->channel };
    int64_t order[4];
    places_of(order, axis, 4);
    for (uint32_t k = 0; k < 4; k++) dim[order[k]] = uop_dim(s->p, (uint32_t)axis[k]);
    w = transformed(g, permute(g, reshape(g, w, dim, 4), order, 4), 0, *of_weight, POINTS, TAPS);
    uint32_t n = 0;
    for (uint32_t k = 0; k < 2; k++) dim[n++] = uop_dim(w, k);
    for (uint32_t k = 0; k < (s->by_point ? 4 : 1); k++) dim[n++] = one;
    for (uint32_t k = 2; k < 4; k++) dim[n++] = uop_dim(w, k);
    return reshape(g, w, dim, n);
}

/* The sums of the points, in the order of the tiles, as the sum was: its axes in their order. */
static U of_points(Graph *g, const Sum *s, U y)
{
    static const int64_t by_tile[] = { 0, 1, 3, 2, 5, 4, 6 }, by_point[] = { 2, 3, 0, 4, 5, 1, 6 };
    U dim[RANK_MAX], zero[4];
    int64_t order[RANK_MAX], place[RANK_MAX], back[RANK_MAX];
    uint32_t count = 0;
    y = permute(g, transformed(g, y, s->by_point ? 0 : 3, *of_sums, TILE, POINTS), s->by_point ? by_point : by_tile, 7);
    dim[0] = uop_dim(y, 0), dim[3] = uop_dim(y, 6);
    dim[1] = dim_product(g, (U[]){ uop_dim(y, 1), uop_dim(y, 2) }, 2);
    dim[2] = dim_product(g, (U[]){ uop_dim(y, 3), uop_dim(y, 4), uop_dim(y, 5) }, 3);
    y = reshape(g, y, dim, 4); /* [b, places, places', m] */
    for (uint32_t k = 0; k < 4; k++) zero[k] = uop_index(g, 0);
    for (uint32_t k = 0; k < AXES; k++) dim[k + 1] = uop_dim(s->p, (uint32_t)s->place[k]);
    y = shrink(g, y, zero, dim);
    for (uint32_t k = 0; k < uop_rank(s->p); k++)
        if (!reduce_is_over(s->sum, k) && (int)k != s->place[0] && (int)k != s->place[1] && (int)k != s->column)
            order[count++] = k;
    order[count++] = s->place[0], order[count++] = s->place[1], order[count++] = s->column;
    for (uint32_t k = 0; k < count; k++) dim[k] = uop_dim(s->p, (uint32_t)order[k]);
    y = reshape(g, y, dim, count);
    places_of(place, order, count);
    for (uint32_t k = 0; k < count; k++) back[place[k]] = k;
    return reshape(g, permute(g, y, back, count), s->sum->shape->dim, uop_rank(s->sum));
}

/* How tiles lie. Where a core's cache holds all weights beside a block of tiles, block by block, so that kernels follow
 * one another in it (chain.h); else point by point: each has weights of its own, which it then reads once. */
static void arrange(Sum *s, const Target *t)
{
    int64_t channels = uop_size(s->p, (uint32_t)s->channel), columns = uop_size(s->p, (uint32_t)s->column),
            wide = (uop_size(s->windows, 2) + TILE - 1) / TILE, point = POINTS * POINTS * (int64_t)sizeof(float);
    for (s->block = wide < BLOCK ? wide : BLOCK; wide % s->block; s->block--) {}
    if (s->block < BLOCK / 2) s->block = wide;
    s->by_point = point * (channels * columns + s->block * (channels + columns)) > cache_room(t);
    if (s->by_point) s->block = wide;
}

/* A sum of two operands, one of them constant; x: the one that is walked. */
static bool find_sum(Sum *s, Graph *g, U sum, Constants *constants)
{
    U p = sum->op == UOP_REDUCE && sum->arg.i == UOP_ADD && sum->dtype == DT_F32 ? sum->src[0] : NULL;
    for (uint32_t k = 0; p && p->op == UOP_MUL && k < 2; k++) {
        *s = (Sum){ .sum = sum, .p = p, .x = p->src[k], .w = p->src[!k] };
        if (uop_static(s->w) && find_windows(s) && find_axes(s) && made_of_constants(constants, g, s->w))
            return true;
    }
    return false;
}

/* What the windows look at, before it is padded. */
static U walked(const Sum *s)
{
    U u = s->windows->src[0];
    while (view_is(u)) u = u->src[0];
    return u;
}

static U sum_by_tiles(Graph *g, Sum *s, const Target *t)
{
    arrange(s, t);
    U v = of_tiles(g, s), dim[8];
    for (uint32_t k = 0; k < 8; k++) dim[k] = k == 6 ? uop_index(g, 1) : uop_dim(v, k < 6 ? k : 6);
    U terms = mul(g, reshape(g, v, dim, 8), of_weights(g, s)); /* [.., m, c] */
    return guard_finite(g, of_points(g, s, contiguous(g, reduce(g, UOP_ADD, terms, (int64_t[]){ -1 }, 1, false))));
}

/* Is it made of tiles? Where there is work for it, a list may choose. */
static bool is_tiled(const Sum *s, Choices *choices, uint32_t name)
{
    int64_t channels = uop_size(s->p, (uint32_t)s->channel), columns = uop_size(s->p, (uint32_t)s->column);
    if (s->least_rows * channels * columns < LEAST_WORK / 4 || s->least_rows < ROWS / 4) return pays(s);
    return choices_between(choices, (Either){ SCHED_WINOGRAD, SCHED_DIRECT }, name, s->sum, pays(s));
}

/* Of what lies between the kernels of a sum, in bytes. */
static int64_t bytes_between(const Sum *s)
{
    return POINTS * POINTS / (TILE * TILE) * s->rows * (int64_t)sizeof(float) *
        (uop_size(s->p, (uint32_t)s->channel) + uop_size(s->p, (uint32_t)s->column));
}

/* Is there a sum in v, above what lies in memory? */
static bool has_sum(const bool *in, U u, U v)
{
    bool found = v->op == UOP_REDUCE;
    for (uint32_t k = 0; k < u->nsrc && !found; k++) found = in[u->src[k]->id];
    return found && v->op != UOP_CONTIGUOUS;
}

/* What windows that are no products show (a pool's): a value, behind views. */
static U pooled(U u)
{
    U x = u->op == UOP_REDUCE && !reduced_product(u) ? u->src[0] : NULL;
    while (x && view_is(x)) x = x->src[0];
    return x;
}

/* What is walked is read by several tiles. Where it is a sum, or no cache holds it, it lies in memory, for all who read
 * it; else each tile makes what it reads of the sums of the points before. What is pooled lies there if it is made of
 * points: their sums serve several places of a window. */
const UOp *sum_windows(Graph *g, const UOp *root, const Target *t, Choices *choices)
{
    if (strcmp(t->kind, "cpu") || has_parts(t) || t->plain) return root;
    Arena *a = arena_new();
    Constants constants = { .arena = a };
    uint32_t n;
    const UOp **order = uop_toposort(g, &root, 1, a, &n), **map = NEW_N(a, const UOp *, root->id + 1);
    bool *read = NEW_N(a, bool, root->id + 1), *large = NEW_N(a, bool, root->id + 1);
    bool *sums = NEW_N(a, bool, root->id + 1), *points = NEW_N(a, bool, root->id + 1),
         *shown = NEW_N(a, bool, root->id + 1), *tiled = NEW_N(a, bool, root->id + 1), any = false;
    const uint32_t *name = choices ? value_names(order, n, root->id, a) : NULL;
    Sum s;
    for (uint32_t i = 0; i < n; i++) {
        U pool = pooled(order[i]);
        if (pool) shown[pool->id] = true;
        if (!find_sum(&s, g, order[i], &constants) || !is_tiled(&s, choices, name ? name[order[i]->id] : 0)) continue;
        tiled[order[i]->id] = true;
        uint32_t id = walked(&s)->id;
        read[id] = any = true;
        large[id] |= bytes_between(&s) > CACHED * t->l2_bytes * t->threads;
    }
    for (uint32_t i = 0; i < n && any; i++) {
        U u = order[i];
        const UOp **src = NEW_N(a, const UOp *, u->nsrc + 1);
        for (uint32_t k = 0; k < u->nsrc; k++) src[k] = map[u->src[k]->id];
        U v = uop_with(g, u, src);
        bool memory = v->op == UOP_PARAM || v->op == UOP_BUFFER || v->op == UOP_CONTIGUOUS || v->op == UOP_COPY;
        uint32_t node = graph_origin(g, uop_origin(g, u));
        bool same = !memory && (op_is((Op)u->op, FLAG_ALU) || op_is((Op)u->op, FLAG_MOVE)); /* places of points */
        for (uint32_t k = 0; k < u->nsrc && same; k++) points[u->id] |= points[u->src[k]->id];
        if (tiled[u->id] && find_sum(&s, g, v, &constants)) v = sum_by_tiles(g, &s, t), points[u->id] = true;
        else sums[u->id] = has_sum(sums, u, v);
        bool wanted = read[u->id] && (large[u->id] || sums[u->id]),
             stored = !memory && (wanted || (shown[u->id] && points[u->id]));
        map[u->id] = stored ? contiguous(g, v) : v;
        graph_origin(g, node);
        sums[u->id] &= !stored;
        points[u->id] &= !stored;
    }
    if (any) root = map[root->id];
    arena_free(a);
    return root;
}
