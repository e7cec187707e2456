/* Commute: sums of products with constants, and the linear maps before and behind them, in the order of fewer products.
 *
 * Comes in: y = REDUCE(ADD, MUL(x, w)), w constant: an axis of x, its channels, becomes one of w. A linear map is what
 * treats all channels alike: views and INDEX of other axes, sums, products with what has no channels (a Resize is made
 * of these), CAT; a sum of products with constants is one too. Goes out, where that takes fewer products,
 *     map(x) w          map(x w)                      what is enlarged, behind the product
 *     cat(x, y) w       x w[first] + y w[rest]        where one of the parts is enlarged, or a product
 *     (x v) w           x (v w)                       v w at load
 *     pool(x w)         pool(x) w                     sums over places before the product
 * Errors are those of a sum in another order; where (x v) w is Inf - Inf, x (v w) may be a number or Inf. Must hold:
 * all is f32, and nobody else reads a value that goes. Left alone: maps that treat channels unlike each other. To add a
 * map: a case in below and one in make.
 */
#include "sched/sums.h"

#include <string.h>

/* LEAST_WORK: products that must be saved; NARROW: of fewer columns, a pool of what the product reads takes longer than
 * the product. LESS: what remains of a product's work, at most; RUNS: that pay for v w. */
enum {
    LEAST_WORK = 1 << 20,
    NARROW = 16,
    RUNS = 4,
    MAPS_MAX = 128,
    ENDS_MAX = 24,
    PARTS_MAX = 16,
    VIEWS_MAX = 16,
    PASSES_MAX = 64
};
static const double LESS = 0.75;

/* sum = REDUCE(MUL(x, w)); channel, column: axes of the MUL. w varies along these two only. */
typedef struct {
    U sum, x, w;
    int channel, column;
    int64_t channels, columns;
} Product;

/* A value whose channels, an axis of it, are multiplied by rows of the matrix from the begin-th on. end: the values
 * that are multiplied in its place, itself where nothing is gained; work: products for each column. inner: it is a
 * product, which joins the matrix. */
typedef struct Map {
    U u, made;
    int axis;
    int64_t begin;
    struct Map *end[ENDS_MAX];
    uint32_t nends;
    double work;
    bool inner;
} Map;

typedef struct {
    Graph *g;
    Arena *arena;
    Constants constants;
    uint32_t *uses, *inside, nodes; /* by id: readers; those in the map */
    Product p;
    Map *map[MAPS_MAX];
    uint32_t nmaps;
} Commute;

static bool is_end(const Map *m) { return m->nends == 1 && m->end[0] == m; }

/* ---- which products ---- */

/* w as [channels, columns]. */
static U matrix_of(Graph *g, const Product *p)
{
    bool turned = p->column < p->channel;
    int64_t dim[] = { turned ? p->columns : p->channels, turned ? p->channels : p->columns };
    U w = reshape_i(g, p->w, dim, 2);
    return turned ? transpose(g, w) : w;
}

static bool find_product(Commute *c, Product *p, U u)
{
    U product = u->op == UOP_REDUCE && u->arg.i == UOP_ADD && u->arg.blob ? u->src[0] : NULL;
    if (!product || product->op != UOP_MUL || product->dtype != DT_F32) return false;
    bool second = made_of_constants(&c->constants, c->g, product->src[1]);
    U x = product->src[!second], w = product->src[second];
    if (!made_of_constants(&c->constants, c->g, w) || made_of_constants(&c->constants, c->g, x)) return false;
    *p = (Product){ .sum = u, .x = x, .channel = -1, .column = -1 };
    for (uint32_t k = 0; k < uop_rank(product); k++) {
        int64_t of_x = operand_extent(product, x, k), of_w = operand_extent(product, w, k);
        bool summed = reduce_is_over(u, k);
        int *axis = summed ? &p->channel : &p->column;
        if (of_w == 1 && (!summed || of_x == 1)) continue;
        if (*axis >= 0 || of_x != (summed ? of_w : 1)) return false;
        *axis = (int)k;
        *(summed ? &p->channels : &p->columns) = of_w;
    }
    int at = p->column - (int)(uop_rank(product) - uop_rank(x));
    if (p->channel < 0 || p->column < 0 || (at >= 0 && uop_size(x, (uint32_t)at) > 1)) return false;
    for (p->w = w; p->w->op == UOP_EXPAND;) p->w = p->w->src[0];
    return uop_numel(p->w) == p->channels * p->columns;
}

/* A value of p's places, such as x, with its axes of channels and columns exchanged, in the rank of the sum. */
static U turned(Graph *g, const Product *p, U x)
{
    U dim[RANK_MAX];
    int64_t order[RANK_MAX];
    uint32_t rank = uop_rank(p->sum), off = rank - uop_rank(x);
    for (uint32_t k = 0; k < rank; k++) {
        dim[k] = k < off ? uop_index(g, 1) : uop_dim(x, k - off);
        order[k] = k;
    }
    order[p->column] = p->channel, order[p->channel] = p->column;
    return permute(g, reshape(g, x, dim, rank), order, rank);
}

/* ---- what is gained ---- */

static void look_below(Commute *c, Map *m);

static Map *map_of(Commute *c, U u, int axis, int64_t begin)
{
    for (uint32_t k = 0; k < c->nmaps; k++)
        if (c->map[k]->u == u && c->map[k]->axis == axis && c->map[k]->begin == begin) return c->map[k];
    if (c->nmaps == MAPS_MAX || axis < 0) return NULL;
    Map *m = c->map[c->nmaps++] = NEW(c->arena, Map);
    *m = (Map){ .u = u, .axis = axis, .begin = begin, .nends = 1, .work = (double)uop_numel(u) };
    m->end[0] = m;
    look_below(c, m);
    return m;
}

/* The operand of u that has its channels; NULL: both do. other: what is the same for all. */
static U with_channels(U u, int axis, U *other)
{
    for (uint32_t k = 0; k < 2; k++) {
        *other = u->src[!k];
        if (u->src[k]->shape == u->shape && operand_extent(u, *other, (uint32_t)axis) == 1) return u->src[k];
    }
    return NULL;
}

/* The operand of an ADD beside a constant that varies along channels only. */
static U beside_bias(Commute *c, U u, int axis, U *bias)
{
    for (uint32_t k = 0; k < 2; k++) {
        *bias = u->src[!k];
        bool known = made_of_constants(&c->constants, c->g, *bias) && u->src[k]->shape == u->shape;
        for (uint32_t i = 0; i < uop_rank(u) && known; i++) known = (int)i == axis || operand_extent(u, *bias, i) == 1;
        if (known) return u->src[k];
    }
    return NULL;
}

/* What m's value is made of, as a map of it; 0: it is no map, or of too many. */
static uint32_t below(Commute *c, const Map *m, Map *out[PARTS_MAX])
{
    U u = m->u, src[PARTS_MAX] = { u->nsrc ? u->src[0] : NULL }, other;
    int axis = m->axis;
    uint32_t n = 1;
    switch (u->op) {
    case UOP_CONTIGUOUS: break;
    case UOP_MUL: src[0] = with_channels(u, axis, &other); break;
    case UOP_ADD:
        if ((src[0] = beside_bias(c, u, axis, &other))) break;
        n = u->src[0]->shape == u->shape && u->src[1]->shape == u->shape ? 2 : 0;
        for (uint32_t k = 0; k < n; k++) src[k] = u->src[k];
        break;
    case UOP_CAT:
        n = u->nsrc <= PARTS_MAX ? u->nsrc : 0;
        for (uint32_t k = 0; k < n; k++) src[k] = u->src[k];
        break;
    default:
        if (!view_is(u)) return 0;
        axis = view_axis(u, axis);
    }
    int64_t begin = m->begin;
    for (uint32_t k = 0; k < n; k++) {
        out[k] = src[k] && axis >= 0 && u->dtype == DT_F32 ? map_of(c, src[k], axis, begin) : NULL;
        if (!out[k]) return 0;
        if (u->op == UOP_CAT && u->arg.i == axis) begin += uop_size(src[k], (uint32_t)axis);
    }
    return n;
}

/* Adds an end to those of m. */
static bool take_end(Map *m, Map *end)
{
    for (uint32_t i = 0; i < m->nends; i++)
        if (m->end[i] == end) return true;
    if (m->nends == ENDS_MAX) return false;
    m->end[m->nends++] = end;
    m->work += end->work;
    return true;
}

static void look_below(Commute *c, Map *m)
{
    Map *child[PARTS_MAX];
    Product inner;
    double own = m->work;
    uint32_t n = below(c, m, child);
    bool all = n > 0;
    m->nends = 0, m->work = 0;
    for (uint32_t k = 0; k < n; k++)
        for (uint32_t i = 0; i < child[k]->nends && all; i++) all = take_end(m, child[k]->end[i]);
    if (all && m->work <= LESS * own) return;
    m->end[0] = m, m->nends = 1, m->work = own;
    if (!find_product(c, &inner, m->u) || inner.column != m->axis) return;
    /* the inner product's own work is saved */
    double joined = own * (double)inner.channels * (1 / (double)inner.columns - 1 / (double)c->p.columns);
    m->inner = joined <= LESS * own && (double)(inner.channels * inner.columns) <= RUNS * (own - joined);
    if (m->inner) m->work = joined;
}

/* Only m reads what goes. */
static bool is_closed(Commute *c, Map *top)
{
    Map *child[PARTS_MAX], *todo[MAPS_MAX] = { top };
    uint32_t ntodo = 1;
    memset(c->inside, 0, c->nodes * sizeof *c->inside);
    c->inside[top->u->id] = 1;
    for (uint32_t i = 0; i < ntodo; i++) {
        uint32_t n = is_end(todo[i]) ? 0 : below(c, todo[i], child);
        for (uint32_t k = 0; k < n; k++) {
            bool found = false;
            for (uint32_t j = 0; j < ntodo && !found; j++) found = todo[j] == child[k];
            if (!found) todo[ntodo++] = child[k];
            c->inside[child[k]->u->id]++;
        }
    }
    bool closed = c->uses[c->p.sum->src[0]->id] == 1;
    for (uint32_t i = 0; i < ntodo && closed; i++)
        closed = (is_end(todo[i]) && !todo[i]->inner) || c->uses[todo[i]->u->id] == c->inside[todo[i]->u->id];
    return closed;
}

/* ---- the product below the map ---- */

/* A view of x, which has n channels where the view's own source has others. */
static U seen(Graph *g, U view, U x, int axis, int64_t n)
{
    U dim[RANK_MAX], src[RANK_MAX + 1] = { x };
    for (uint32_t k = 0; k < uop_rank(view); k++) dim[k] = (int)k == axis ? uop_index(g, n) : uop_dim(view, k);
    for (uint32_t k = 1; k < view->nsrc; k++) src[k] = view->src[k];
    switch (view->op) {
    case UOP_RESHAPE: return reshape(g, x, dim, uop_rank(view));
    case UOP_EXPAND: return expand(g, x, dim, uop_rank(view));
    case UOP_PAD:
    case UOP_SHRINK: src[2] = uop_sizes(g, dim, uop_rank(view)); break;
    default: break;
    }
    return uop_new(g, (Op)view->op, DT_VOID, view->arg, src, view->nsrc);
}

/* [.., channels] times [channels, columns]. */
static U rows_by_columns(Graph *g, U x, U matrix)
{
    U dim[RANK_MAX + 1];
    for (uint32_t k = 0; k < uop_rank(x); k++) dim[k] = uop_dim(x, k);
    dim[uop_rank(x)] = uop_index(g, 1);
    return reduce(g, UOP_ADD, mul(g, reshape(g, x, dim, uop_rank(x) + 1), matrix), (int64_t[]){ -2 }, 1, false);
}

/* u times the matrix [channels, columns], along an axis of u. */
static U product(Graph *g, U u, int axis, U matrix)
{
    int64_t last[RANK_MAX], back[RANK_MAX];
    uint32_t n = 0, rank = uop_rank(u);
    for (uint32_t k = 0; k < rank; k++)
        if ((int)k != axis) back[k] = n, last[n++] = k;
    back[axis] = rank - 1, last[rank - 1] = axis;
    return permute(g, rows_by_columns(g, permute(g, u, last, rank), matrix), back, rank);
}

static U rows_of(Commute *c, int64_t begin, int64_t n)
{
    return slice_i(c->g, matrix_of(c->g, &c->p), 0, begin, begin + n);
}

static U multiplied(Commute *c, U u, int axis, int64_t begin);

/* Parts that are enlarged or products are multiplied one by one, the others joined. */
static U sum_of_parts(Commute *c, const Map *m)
{
    Graph *g = c->g;
    U sum = NULL, *rest = NEW_N(c->arena, U, m->u->nsrc), *rows = NEW_N(c->arena, U, m->u->nsrc);
    uint32_t n = 0;
    int64_t begin = m->begin;
    for (uint32_t k = 0; k < m->u->nsrc; k++) {
        U part = m->u->src[k];
        int64_t size = uop_size(part, (uint32_t)m->axis);
        const Map *below = map_of(c, part, m->axis, begin);
        if (is_end(below) && !below->inner) rest[n] = part, rows[n++] = rows_of(c, begin, size);
        else {
            U y = multiplied(c, part, m->axis, begin);
            sum = sum ? add(g, sum, y) : y;
        }
        begin += size;
    }
    if (!n) return sum;
    return add(g, product(g, cat(g, rest, n, m->axis), m->axis, cat(g, rows, n, 0)), sum);
}

static U product_of_product(Commute *c, const Map *m)
{
    Product inner;
    find_product(c, &inner, m->u);
    U rows = rows_of(c, m->begin, inner.columns),
      matrix = contiguous(c->g, rows_by_columns(c->g, matrix_of(c->g, &inner), rows));
    return product(c->g, turned(c->g, &inner, inner.x), m->axis, matrix);
}

static U sum_below(Commute *c, const Map *m)
{
    Graph *g = c->g;
    U u = m->u, bias, x = beside_bias(c, u, m->axis, &bias);
    if (!x) return add(g, multiplied(c, u->src[0], m->axis, m->begin), multiplied(c, u->src[1], m->axis, m->begin));
    U dim[RANK_MAX];
    for (uint32_t k = 0; k < uop_rank(u); k++) dim[k] = (int)k == m->axis ? uop_dim(u, k) : uop_index(g, 1);
    while (bias->op == UOP_EXPAND) bias = bias->src[0];
    bias = expand(g, bias, dim, uop_rank(u));
    return add(g, multiplied(c, x, m->axis, m->begin),
               product(g, bias, m->axis, rows_of(c, m->begin, dim[m->axis]->arg.i)));
}

static U join_parts(Commute *c, const Map *m)
{
    U *part = NEW_N(c->arena, U, m->u->nsrc);
    for (uint32_t k = 0; k < m->u->nsrc; k++) part[k] = multiplied(c, m->u->src[k], m->axis, m->begin);
    return cat(c->g, part, m->u->nsrc, m->u->arg.i);
}

static U make(Commute *c, const Map *m)
{
    U u = m->u, other, x;
    if (m->inner) return product_of_product(c, m);
    if (is_end(m)) return product(c->g, u, m->axis, rows_of(c, m->begin, uop_size(u, (uint32_t)m->axis)));
    switch (u->op) {
    case UOP_CONTIGUOUS: return contiguous(c->g, multiplied(c, u->src[0], m->axis, m->begin));
    case UOP_ADD: return sum_below(c, m);
    case UOP_CAT: return u->arg.i == m->axis ? sum_of_parts(c, m) : join_parts(c, m);
    case UOP_MUL:
        x = with_channels(u, m->axis, &other);
        while (other->op == UOP_EXPAND) other = other->src[0];
        return mul(c->g, multiplied(c, x, m->axis, m->begin), other);
    default:
        x = multiplied(c, u->src[0], view_axis(u, m->axis), m->begin);
        return seen(c->g, u, x, m->axis, c->p.columns);
    }
}

/* u with columns in place of its channels. */
static U multiplied(Commute *c, U u, int axis, int64_t begin)
{
    Map *m = map_of(c, u, axis, begin);
    if (!m->made) m->made = make(c, m);
    return m->made;
}

/* The sum of products as a map of less; NULL: it is none, or little is saved. */
static U product_below(Commute *c)
{
    const Product *p = &c->p;
    c->nmaps = 0;
    Map *top = map_of(c, p->x, p->channel - (int)(uop_rank(p->sum) - uop_rank(p->x)), 0);
    double saved = ((double)uop_numel(p->x) - (top ? top->work : 0)) * (double)p->columns;
    if (!top || (is_end(top) && !top->inner) || saved < LEAST_WORK || !is_closed(c, top)) return NULL;
    return turned(c->g, p, multiplied(c, p->x, top->axis, 0));
}

/* ---- the product behind a pool ---- */

/* u, a sum over places of a product's results, as the product of a sum; NULL: it is none. */
static U product_behind(Commute *c, U u)
{
    if (u->op != UOP_REDUCE || u->arg.i != UOP_ADD || !u->arg.blob || u->dtype != DT_F32) return NULL;
    Graph *g = c->g;
    U view[VIEWS_MAX], q = u->src[0];
    uint32_t n = 0;
    for (; view_is(q) && c->uses[q->id] == 1; q = q->src[0]) {
        if (n == VIEWS_MAX) return NULL;
        view[n++] = q;
    }
    Product *p = &c->p;
    if (c->uses[q->id] != 1 || !find_product(c, p, q) || p->columns < NARROW || 2 * uop_numel(u) > uop_numel(q) ||
        (uop_numel(q) - uop_numel(u)) * p->channels < LEAST_WORK)
        return NULL;
    U x = turned(g, p, p->x);
    int axis[VIEWS_MAX + 1];
    for (uint32_t top = 0; top < uop_rank(u) && x; top++) {
        if (reduce_is_over(u, top)) continue;
        axis[0] = (int)top;
        for (uint32_t k = 0; k < n; k++) axis[k + 1] = axis[k] < 0 ? -1 : view_axis(view[k], axis[k]);
        if (axis[n] != p->column) continue;
        for (uint32_t k = n; k-- > 0;) x = seen(g, view[k], x, axis[k], p->channels);
        return product(g, UOP(g, UOP_REDUCE, DT_VOID, u->arg, x), axis[0], matrix_of(g, p));
    }
    return NULL;
}

/* ---- all of them ---- */

static uint32_t commute_once(Commute *c, const UOp **root)
{
    uint32_t n, found = 0;
    const UOp **order = uop_toposort(c->g, root, 1, c->arena, &n);
    const UOp **from = NEW_N(c->arena, const UOp *, n + 1), **to = NEW_N(c->arena, const UOp *, n + 1);
    c->nodes = (*root)->id + 1;
    c->uses = NEW_N(c->arena, uint32_t, c->nodes);
    c->inside = NEW_N(c->arena, uint32_t, c->nodes);
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t k = 0; k < order[i]->nsrc; k++) c->uses[order[i]->src[k]->id]++;
    for (uint32_t i = 0; i < n; i++) {
        U u = order[i], y = product_behind(c, u);
        if (!y && find_product(c, &c->p, u)) y = product_below(c);
        if (!y) continue;
        from[found] = u, to[found++] = y;
    }
    if (found) *root = uop_substitute(c->g, *root, from, to, found);
    return found;
}

const UOp *commute_products(Graph *g, const UOp *root)
{
    Commute c = { .g = g, .arena = arena_new() };
    c.constants.arena = c.arena;
    for (int pass = 0; pass < PASSES_MAX && commute_once(&c, &root); pass++) {}
    arena_free(c.arena);
    return root;
}
