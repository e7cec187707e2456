/* Siblings: sums of products of one value with several constants (the queries, keys and values of an attention) become
 * one sum with the constants joined: one kernel reads the value once, and all threads wait once.
 *
 * Comes in: y_k = REDUCE(MUL(x, w_k)) + b_k, times s_k, where x is the same node, w_k is constant and only it has the
 * last axis, and only views read y_k (an arithmetic reader would rather be the epilogue of the one sum). Goes out: y_k
 * as a SHRINK of REDUCE(MUL(x, CAT w)) + CAT b, times CAT s. A part without b has -0 there, without s 1: neither
 * changes a value. Must hold: the sizes of the constants are known. To join one more step behind the sum: a field of
 * Sibling, a row in look_behind and one in join.
 */
#include "graph/build.h"
#include "sched/sched.h"

/* products of one sum: beyond, a wait is nothing, and parts of one buffer cannot have a layout each */
enum { SIBLINGS_MAX = 4, SIBLINGS_WORK = 1 << 27 };
/* flat: the sum without unit axes */
typedef struct Sibling {
    const UOp *sum, *x, *w, *flat, *bias, *scale, *end;
    struct Sibling *next;
} Sibling;
/* computed: read by more than views */
typedef struct {
    Graph *g;
    Arena *arena;
    const UOp **order, **user;
    uint32_t n;
    uint8_t *uses;
    bool *computed;
    Sibling **at;
    const UOp **map;
    Choices *choices;
    const uint32_t *name;
} Search;

static bool is_view(const UOp *u) { return op_is((Op)u->op, FLAG_MOVE) && u->op != UOP_BITCAST; }
static const UOp *last_dim(const UOp *u) { return uop_dim(u, uop_rank(u) - 1); }

static bool is_known(Graph *g, const UOp *u)
{
    while (is_view(u) || u->op == UOP_CAST) u = u->src[0];
    return u->op == UOP_CONST || (u->op == UOP_BUFFER && graph_buffer(g, buffer_slot(u))->data);
}

static void count_users(Search *s)
{
    for (uint32_t i = 0; i < s->n; i++)
        for (uint32_t k = 0; k < s->order[i]->nsrc; k++) {
            uint32_t id = s->order[i]->src[k]->id;
            if (s->uses[id] < 2) s->uses[id]++;
            s->user[id] = s->order[i];
            s->computed[id] |= !is_view(s->order[i]);
        }
}

static const UOp *only_user(const Search *s, const UOp *u) { return s->uses[u->id] == 1 ? s->user[u->id] : NULL; }

/* A constant that varies along the last axis at most, as it is without the other axes; NULL: it is none. */
static const UOp *along_last(Graph *g, const UOp *u, const UOp *size)
{
    while (u->op == UOP_EXPAND) u = u->src[0];
    if (!is_known(g, u) || !uop_static(u)) return NULL;
    if (uop_numel(u) == 1) return reshape(g, u, NULL, 0);
    return last_dim(u) == size && uop_numel(u) == size->arg.i ? reshape(g, u, &size, 1) : NULL;
}

/* u's only user as op with a constant: the constant. */
static const UOp *operand(Search *s, const UOp *u, Op op)
{
    const UOp *v = only_user(s, u);
    if (!v || v->op != op || v->shape != u->shape || v->src[0] == v->src[1]) return NULL;
    return along_last(s->g, v->src[v->src[0] == u], last_dim(u));
}

static void look_behind(Search *s, Sibling *b)
{
    const UOp *v = only_user(s, b->sum);
    b->flat = b->end = v && v->op == UOP_RESHAPE && uop_rank(v) && last_dim(v) == last_dim(b->sum) ? v : b->sum;
    if ((b->bias = operand(s, b->end, UOP_ADD))) b->end = only_user(s, b->end);
    if ((b->scale = operand(s, b->end, UOP_MUL))) b->end = only_user(s, b->end);
}

/* Behind its views u has one reader, and that is element-wise: u's own sum had better store what it makes of u. */
static bool has_epilogue(const Search *s, const UOp *u)
{
    const UOp *v = only_user(s, u);
    while (v && is_view(v)) v = only_user(s, v);
    return v && op_is((Op)v->op, FLAG_ALU) && uop_numel(v) == uop_numel(u);
}

static bool only_views_read(const Search *s, const UOp *u) { return s->uses[u->id] && !s->computed[u->id]; }

/* u as a sum of products with a constant that alone has the last axis. */
static Sibling *sibling(Search *s, const UOp *u)
{
    const UOp *p = u->op == UOP_REDUCE && u->arg.i == UOP_ADD && u->arg.blob ? u->src[0] : NULL;
    if (!p || p->op != UOP_MUL || uop_rank(p) < 2 || !uop_is_const(last_dim(p)) || uop_size(u, uop_rank(u) - 1) < 2 ||
        last_dim(u) != last_dim(p) || uop_numel(p) > SIBLINGS_WORK)
        return NULL;
    bool second = is_known(s->g, p->src[1]);
    Sibling b = { .sum = u, .x = p->src[!second], .w = p->src[second] };
    if (is_known(s->g, b.x) || !is_known(s->g, b.w) || !uop_static(b.w) || uop_rank(b.x) != uop_rank(p) ||
        !uop_rank(b.w))
        return NULL;
    if (!uop_is_int_const(last_dim(b.x), 1) || last_dim(b.w) != last_dim(p) || b.w->op == UOP_EXPAND) return NULL;
    look_behind(s, &b);
    return only_views_read(s, b.end) && !has_epilogue(s, b.end) ? arena_copy(s->arena, &b, sizeof b) : NULL;
}

static bool same_but_last(const UOp *a, const UOp *b)
{
    bool same = uop_rank(a) == uop_rank(b) && a->dtype == b->dtype;
    for (uint32_t k = 0; same && k + 1 < uop_rank(a); k++) same = uop_dim(a, k) == uop_dim(b, k);
    return same;
}

static bool alike(const Sibling *a, const Sibling *b)
{
    return a->x == b->x && a->sum->arg.blob == b->sum->arg.blob && same_but_last(a->w, b->w) &&
        same_but_last(a->sum, b->sum) && same_but_last(a->flat, b->flat);
}

static bool is_joined(Search *s, const Sibling *first)
{
    static const Either kind = { SCHED_JOIN, SCHED_SINGLE };
    return !s->choices || choices_between(s->choices, kind, s->name[first->sum->id], first->sum, true);
}

/* Families: the first of each leads its list. */
static bool find(Search *s)
{
    Sibling **all = NEW_N(s->arena, Sibling *, s->n + 1);
    uint32_t n = 0;
    bool found = false;
    for (uint32_t i = 0; i < s->n; i++) {
        Sibling *b = sibling(s, s->order[i]), *first = NULL;
        if (!b) continue;
        for (uint32_t k = 0; k < n && !first; k++)
            if (alike(all[k], b)) first = all[k];
        uint32_t size = 1;
        Sibling *last = first;
        for (; last && last->next; last = last->next) size++;
        if (!last) all[n++] = b;
        else if (size < SIBLINGS_MAX) last->next = b, found = true;
    }
    for (uint32_t k = 0; k < n && found; k++)
        if (all[k]->next && is_joined(s, all[k]))
            for (Sibling *b = all[k]; b; b = b->next) s->at[b->end->id] = all[k];
    return found;
}

/* ---- the joined sum ---- */

static const UOp *joined(Graph *g, const UOp *const *part, uint32_t n, int64_t axis)
{
    bool same = !uop_rank(part[0]);
    for (uint32_t k = 0; k < n; k++) same &= part[k] == part[0];
    return same ? part[0] : UOP(g, UOP_CONTIGUOUS, DT_VOID, NO_ARG, cat(g, part, n, axis));
}

/* The constants of one step behind the sum, -0 or 1 where a part has none; NULL: no part has one. */
static const UOp *step(Graph *g, const Sibling *first, bool scale)
{
    const UOp *part[SIBLINGS_MAX];
    uint32_t n = 0;
    bool any = false, uniform = true;
    for (const Sibling *b = first; b; b = b->next) {
        const UOp *c = scale ? b->scale : b->bias;
        any |= c != NULL;
        part[n++] = c ? c : uop_const_like(g, (DType)b->sum->dtype, scale ? 1 : -0.0);
        uniform &= !uop_rank(part[n - 1]) && part[n - 1] == part[0];
    }
    if (!any || uniform) return any ? part[0] : NULL;
    const Sibling *b = first;
    for (uint32_t k = 0; k < n; k++, b = b->next) {
        const UOp *size = last_dim(b->sum);
        part[k] = expand(g, part[k], &size, 1);
    }
    return joined(g, part, n, 0);
}

static const UOp *join(Search *s, const Sibling *first)
{
    Graph *g = s->g;
    const UOp *w[SIBLINGS_MAX], *dim[RANK_MAX], *c, *p = first->sum->src[0], *x = s->map[first->x->id],
                                                    *size = uop_index(g, 0);
    uint32_t n = 0;
    for (const Sibling *b = first; b; b = b->next) w[n++] = b->w, size = dim_add(g, size, last_dim(b->w));
    const UOp *all = joined(g, w, n, uop_rank(w[0]) - 1), *product[2] = { x, all };
    if (p->src[1] == first->x) product[0] = all, product[1] = x;
    const UOp *y = UOP(g, UOP_REDUCE, DT_VOID, first->sum->arg, uop_new(g, UOP_MUL, DT_VOID, NO_ARG, product, 2));
    for (uint32_t k = 0; k < uop_rank(first->flat); k++) dim[k] = uop_dim(first->flat, k);
    dim[uop_rank(first->flat) - 1] = size;
    y = reshape(g, y, dim, uop_rank(first->flat));
    if ((c = step(g, first, false))) y = add(g, y, c);
    if ((c = step(g, first, true))) y = mul(g, y, c);
    return y;
}

/* The part of the family's sum that is u. */
static const UOp *part_of(Search *s, const UOp *u, const Sibling *first)
{
    const UOp *begin = uop_index(s->g, 0);
    for (const Sibling *b = first; b->end != u; b = b->next) begin = dim_add(s->g, begin, last_dim(b->sum));
    return slice(s->g, join(s, first), -1, begin, last_dim(u));
}

const UOp *join_siblings(Graph *g, const UOp *root, Choices *choices)
{
    Search s = { .g = g, .arena = arena_new(), .choices = choices };
    s.order = uop_toposort(g, &root, 1, s.arena, &s.n);
    if (choices) s.name = value_names(s.order, s.n, root->id, s.arena);
    uint32_t ids = root->id + 1;
    s.user = NEW_N(s.arena, const UOp *, ids);
    s.uses = NEW_N(s.arena, uint8_t, ids);
    s.computed = NEW_N(s.arena, bool, ids);
    s.at = NEW_N(s.arena, Sibling *, ids);
    s.map = NEW_N(s.arena, const UOp *, ids);
    count_users(&s);
    bool found = find(&s);
    for (uint32_t i = 0; i < s.n && found; i++) {
        const UOp *u = s.order[i], **src = NEW_N(s.arena, const UOp *, u->nsrc + 1);
        for (uint32_t k = 0; k < u->nsrc; k++) src[k] = s.map[u->src[k]->id];
        s.map[u->id] = s.at[u->id] ? part_of(&s, u, s.at[u->id]) : uop_with(g, u, src);
    }
    if (found) root = s.map[root->id];
    arena_free(s.arena);
    return root;
}
