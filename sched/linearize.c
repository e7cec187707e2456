/* Linearize: the graph of a kernel (kernel.h, form 5) becomes instructions in order (form 6).
 *
 * Which loops a node stands in follows from the RANGEs that it depends on (u->ranges). Loops form a tree of blocks: a
 * block is the inside of one loop, the root block the inside of none. END and REDUCE are loop owners: they open their
 * ranges, outermost first, in the block of the deepest range that they depend on themselves. Owners that start in one
 * block with the same range and do not depend on each other (equal level) share the loop; the rule is applied range by
 * range, so owners share the outer loops that they have in common. Two owners of one range that depend on each other
 * get a loop each, and what both need under it is computed in both. So 24 accumulators of a tile run in one loop over
 * k, and a row's mean and its output in one loop over rows.
 *
 * In a block, nodes stand in the order in which they are requested (sources right before their first user), so few
 * values live at once. A REDUCE becomes a variable: BUFFER(REG), STORE of the neutral element before its loop,
 * STORE(REG, op(LOAD(REG), value)) inside, LOAD(REG) after it. THREAD ranges of one END become one range (the caller's
 * begin .. end), which must be outermost; on a GPU gpudims.c has made positions of the ranges that are no loops.
 *
 * To add an axis type that is no loop: a case in open_range.
 */
#include <stdlib.h>
#include <string.h>

#include "graph/wmma.h"
#include "sched/sched.h"

typedef struct { const UOp *node; uint32_t next; } Entry;        /* a loop owner and how many of its ranges are open */

typedef struct Block {
    const UOp *range;                                            /* NULL: the root */
    uint64_t open;                                               /* bits of all loops around, its own included */
    /* the owners that share this loop; the root: the SINK's effects */
    const Entry *entry;
    uint32_t nentry;
} Block;

/* Owners that share a child loop of a block. */
typedef struct {
    const UOp *range;
    uint32_t level, count;
    Entry *entry;
    bool done;
} Group;

typedef struct {
    Kernel *k;
    Graph *g;
    Arena *arena;
    const UOp **order;                                           /* all nodes, sources first */
    uint32_t count, ids;
    const UOp **map;                                             /* old id -> instruction that holds its value */
    const UOp **line;
    uint32_t nline, cap, nreg;
    TgStatus status;
} Lin;

/* A block's own view: what it reaches, how deep owners depend on each other, which group an owner belongs to. */
typedef struct {
    const Block *b;
    uint8_t *reach, *done;
    uint32_t *group_of;                                          /* by node id, 1-based */
    Group *group;
    uint32_t ngroup;
} View;

static bool is_owner(const UOp *u)
{
    return (u->op == UOP_END && u->nsrc > 1) || (u->op == UOP_REDUCE && !u->arg.blob);
}
static bool is_inner(const Block *b, const UOp *u) { return (u->ranges & ~b->open) != 0; }
static bool is_outer(const Block *b, const UOp *u)
{
    return b->range && !is_inner(b, u) && !(u->ranges & range_bit(b->range));
}

static void push(Lin *l, const UOp *u)
{
    if (l->nline == l->cap) {
        const UOp **bigger = NEW_N(l->arena, const UOp *, l->cap * 2);
        memcpy(bigger, l->line, l->nline * sizeof *bigger);
        l->line = bigger;
        l->cap *= 2;
    }
    l->line[l->nline++] = u;
}

/* ---- a REDUCE's variable ---- */

/* Set to one scalar: it stands for all lanes. */
static const UOp *variable(Lin *l, const UOp *reduce)
{
    const Shape *s = reduce->shape;
    const UOp *reg = uop_buffer(l->g, (DType)reduce->dtype, s->dim, s->rank, l->nreg++, SPACE_REG);
    const UOp *zero = uop_neutral(l->g, (Op)reduce->arg.i, (DType)reduce->dtype);
    push(l, zero);
    push(l, reg);
    push(l, UOP(l->g, UOP_STORE, DT_VOID, NO_ARG, reg, zero));
    return reg;
}

/* ---- one block ---- */

static uint32_t range_total(const UOp *u) { return u->nsrc - 1; }

/* Marks what the entries' bodies reach without passing below nodes of outer blocks. */
static void view_reach(const Lin *l, View *v)
{
    for (uint32_t k = 0; k < v->b->nentry; k++) v->reach[v->b->entry[k].node->src[0]->id] = 1;
    for (uint32_t i = l->count; i-- > 0;) {
        const UOp *u = l->order[i];
        if (!v->reach[u->id] || is_outer(v->b, u)) continue;
        for (uint32_t k = 0; k < u->nsrc; k++) v->reach[u->src[k]->id] = 1;
    }
}

static void group_add(Lin *l, View *v, const UOp *owner, uint32_t next, uint32_t level)
{
    const UOp *range = owner->src[1 + next];
    uint32_t i = 0;
    while (i < v->ngroup && (v->group[i].range != range || v->group[i].level != level)) i++;
    Group *p = &v->group[i];
    if (i == v->ngroup) *p = (Group){ .range = range, .level = level }, v->ngroup++;
    if (!(p->count & (p->count - 1))) {                          /* room doubles at powers of two */
        Entry *bigger = NEW_N(l->arena, Entry, p->count ? p->count * 2 : 1);
        if (p->count) memcpy(bigger, p->entry, p->count * sizeof *bigger);
        p->entry = bigger;
    }
    p->entry[p->count++] = (Entry){ owner, next };
    if (!next) v->group_of[owner->id] = i + 1;
}

/* Levels: 1 + the highest level of the owners of this block that an owner depends on. */
static void view_groups(Lin *l, View *v)
{
    uint32_t *level = NEW_N(l->arena, uint32_t, l->ids), owners = 0;
    for (uint32_t i = 0; i < l->count; i++) owners += is_owner(l->order[i]);
    v->group = NEW_N(l->arena, Group, owners + v->b->nentry);
    v->group_of = NEW_N(l->arena, uint32_t, l->ids);
    for (uint32_t i = 0; i < l->count; i++) {
        const UOp *u = l->order[i];
        if (!v->reach[u->id] || is_outer(v->b, u)) continue;
        for (uint32_t k = 0; k < u->nsrc; k++)
            if (level[u->src[k]->id] > level[u->id]) level[u->id] = level[u->src[k]->id];
        if (is_owner(u) && !is_inner(v->b, u)) group_add(l, v, u, 0, ++level[u->id]);
    }
    for (uint32_t k = 0; k < v->b->nentry; k++) {
        const Entry *e = &v->b->entry[k];
        if (v->b->range && e->next < range_total(e->node))
            group_add(l, v, e->node, e->next, level[e->node->src[0]->id] + 1);
    }
}

static void emit_loop(Lin *l, const Block *b, Group *p);
static void need(Lin *l, View *v, const UOp *u);

static void need_group(Lin *l, View *v, Group *p)
{
    if (p->done) return;
    p->done = true;
    for (uint32_t k = 0; k < p->count; k++) {
        const UOp *o = p->entry[k].node;
        for (uint32_t i = p->entry[k].next; i < range_total(o); i++) need(l, v, o->src[1 + i]->src[0]);
        need(l, v, o->src[0]);
    }
    emit_loop(l, v->b, p);
}

static const UOp *rewritten(Lin *l, const UOp *u)
{
    const UOp *few[16], **src = u->nsrc > 16 ? NEW_N(l->arena, const UOp *, u->nsrc) : few;
    for (uint32_t k = 0; k < u->nsrc; k++) src[k] = l->map[u->src[k]->id] ? l->map[u->src[k]->id] : u->src[k];
    return uop_with(l->g, u, src);
}

static void emit(Lin *l, const UOp *u)
{
    const UOp *n = u->op == UOP_AFTER ? l->map[u->src[0]->id] : rewritten(l, u);
    l->map[u->id] = n;
    bool silent =
        u->op == UOP_AFTER || u->op == UOP_END || u->op == UOP_GROUP || u->op == UOP_SINK || uop_is_address(u);
    if (!silent) push(l, n);
}

/* Emits u and what it needs, if this block is its place. Sizes in shapes (a STACK under PARAM or SHRINK) are no
 * instructions. */
static void need(Lin *l, View *v, const UOp *u)
{
    /* the bound of a loop that may open further in */
    if (u->op == UOP_RANGE) u = u->src[0];
    if (v->done[u->id] || is_outer(v->b, u)) return;
    v->done[u->id] = 1;
    if (v->group_of[u->id]) {
        need_group(l, v, &v->group[v->group_of[u->id] - 1]);
        return;
    }
    bool memory = u->op == UOP_PARAM || u->op == UOP_BUFFER;
    for (uint32_t k = 0; k < u->nsrc && !memory; k++)
        if (u->op == UOP_SHRINK && k) {
            for (uint32_t i = 0; k == 1 && i < u->src[1]->nsrc; i++) need(l, v, u->src[1]->src[i]);
        } else need(l, v, u->src[k]);
    if (u->op == UOP_SHRINK && !is_inner(v->b, u)) l->map[u->src[1]->id] = rewritten(l, u->src[1]);
    if (!is_inner(v->b, u)) emit(l, u);
}

/* ---- the order of a loop's sums ----
 * The sum of an unrolled loop is a tree of ADDs. With many sums in one loop it is cut into terms, and all sums take
 * their first term, then all their second: the values that the terms share (a row of B) are read once and die early.
 * With few sums the tree stays, because a chain would wait for itself. */

enum { MANY_SUMS = 6, MAX_TERMS = 64 };
typedef struct {
    const UOp *reduce, *reg, *acc;
    const UOp *term[MAX_TERMS];
    uint32_t nterm;
    bool split, taken;
} Sum;

/* false: there are more than fit, and the sum stays whole. */
static bool terms(const UOp *u, Op op, const UOp **term, uint32_t *n, uint32_t depth)
{
    bool whole = op != UOP_ADD || u->tag == TERM_TAG;
    if (depth == MAX_TERMS) return false;
    if (u->op == UOP_ADD && !whole)
        return terms(u->src[0], op, term, n, depth + 1) && terms(u->src[1], op, term, n, depth + 1);
    if (u->op == UOP_MULACC && !whole && !terms(u->src[2], op, term, n, depth + 1)) return false;
    if (*n == MAX_TERMS) return false;
    /* of a MULACC its product only: split in sum_step */
    term[(*n)++] = u;
    return true;
}

static void split_sum(Sum *s, bool many)
{
    const UOp *whole = s->reduce->src[0];
    s->split = (many || s->reduce->shape->rank) && terms(whole, (Op)s->reduce->arg.i, s->term, &s->nterm, 0);
    if (!s->split) s->term[0] = whole, s->nterm = 1;
}

/* How good it is to take this term next: what is new costs, what gets its last use is a gain. */
static int64_t term_cost(const View *v, const uint32_t *uses, const UOp *t)
{
    int64_t fresh = 0, left = 1 << 20;
    for (uint32_t k = 0; k < t->nsrc && k < 2; k++) {
        const UOp *s = t->src[k];
        if (is_outer(v->b, s)) continue;
        if (!v->done[s->id]) fresh++;
        else if (uses[s->id] < left) left = uses[s->id];
    }
    return fresh << 32 | left;
}

static void sum_step(Lin *l, View *v, Sum *s, uint32_t t)
{
    const UOp *u = s->term[t];
    Op op = (Op)s->reduce->arg.i;
    bool product = op == UOP_ADD && u->op == UOP_MUL && dtype_is_float((DType)u->dtype) && !v->done[u->id];
    if (product || wmma_adds(u) || (op == UOP_ADD && s->split && u->op == UOP_MULACC && u->tag != TERM_TAG)) {
        need(l, v, u->src[0]);
        need(l, v, u->src[1]);
        s->acc = UOP(l->g, u->op == UOP_WMMA ? UOP_WMMA : UOP_MULACC, DT_VOID, u->op == UOP_WMMA ? u->arg : NO_ARG,
                     l->map[u->src[0]->id], l->map[u->src[1]->id], s->acc);
    } else {
        need(l, v, u);
        s->acc = UOP(l->g, op, DT_VOID, NO_ARG, s->acc, l->map[u->id]);
        if (s->reduce->tag && op == UOP_MAX) s->acc = uop_tagged(l->g, s->acc, s->reduce->tag);
    }
    push(l, s->acc);
}

static void round_of_terms(Lin *l, View *v, Sum *sum, uint32_t n, uint32_t t, uint32_t *uses)
{
    for (uint32_t i = 0; i < n; i++) {
        sum[i].taken = t >= sum[i].nterm;
        for (uint32_t k = 0; !sum[i].taken && k < sum[i].term[t]->nsrc && k < 2; k++)
            uses[sum[i].term[t]->src[k]->id]++;
    }
    for (;;) {
        Sum *best = NULL;
        int64_t cost = INT64_MAX;
        for (uint32_t i = 0; i < n; i++) {
            int64_t c = sum[i].taken ? INT64_MAX : term_cost(v, uses, sum[i].term[t]);
            if (c < cost) best = &sum[i], cost = c;
        }
        if (!best) return;
        best->taken = true;
        for (uint32_t k = 0; k < best->term[t]->nsrc && k < 2; k++) uses[best->term[t]->src[k]->id]--;
        sum_step(l, v, best, t);
    }
}

static void emit_sums(Lin *l, View *v, Sum *sum, uint32_t n)
{
    uint32_t *uses = NEW_N(l->arena, uint32_t, l->ids), most = 0;
    for (uint32_t i = 0; i < n; i++) {
        sum[i].reg = l->map[sum[i].reduce->id];
        split_sum(&sum[i], n >= MANY_SUMS);
        if (sum[i].nterm > most) most = sum[i].nterm;
    }
    for (uint32_t i = 0; i < n; i++) push(l, sum[i].acc = UOP(l->g, UOP_LOAD, DT_VOID, NO_ARG, sum[i].reg));
    for (uint32_t t = 0; t < most; t++) round_of_terms(l, v, sum, n, t, uses);
    for (uint32_t i = 0; i < n; i++) push(l, UOP(l->g, UOP_STORE, DT_VOID, NO_ARG, sum[i].reg, sum[i].acc));
}

/* ---- blocks and loops ---- */

static void emit_block(Lin *l, const Block *b)
{
    View v = { .b = b, .reach = NEW_N(l->arena, uint8_t, l->ids), .done = NEW_N(l->arena, uint8_t, l->ids) };
    view_reach(l, &v);
    view_groups(l, &v);
    Sum *sum = NEW_N(l->arena, Sum, b->nentry);
    uint32_t nsum = 0;
    for (uint32_t k = 0; k < b->nentry; k++) {
        const Entry *e = &b->entry[k];
        if (b->range && e->next < range_total(e->node)) continue;
        if (e->node->op == UOP_REDUCE) sum[nsum++].reduce = e->node;
        else need(l, &v, e->node->src[0]);
    }
    if (nsum) emit_sums(l, &v, sum, nsum);
    for (uint32_t i = 0; i < v.ngroup; i++) need_group(l, &v, &v.group[i]);      /* those that go on in deeper loops */
}

static void open_range(Lin *l, const UOp *range)
{
    const UOp *r = rewritten(l, range);
    AxisType t = range_type(range);
    if (t != AXIS_LOOP && t != AXIS_REDUCE && t != AXIS_THREAD)
        l->status =
            fail(TG_INTERNAL, "kernel %s: a range of type %c is left for linearize", l->k->name, axis_letter[t]);
    if (t == AXIS_THREAD && l->k->thread_bound && l->k->thread_bound != range->src[0])
        l->status = fail(TG_INTERNAL, "kernel %s: THREAD ranges of different size", l->k->name);
    if (t == AXIS_THREAD) l->k->thread_bound = range->src[0];
    l->map[range->id] = r;
    push(l, r);
}

static void emit_loop(Lin *l, const Block *b, Group *p)
{
    Entry *in = NEW_N(l->arena, Entry, p->count);
    for (uint32_t k = 0; k < p->count; k++) {
        in[k] = (Entry){ p->entry[k].node, p->entry[k].next + 1 };
        if (in[k].next == 1 && in[k].node->op == UOP_REDUCE) l->map[in[k].node->id] = variable(l, in[k].node);
    }
    Block child = { .range = p->range, .open = b->open | range_bit(p->range), .entry = in, .nentry = p->count };
    if (range_type(p->range) == AXIS_THREAD && b->range)
        l->status = fail(TG_INTERNAL, "kernel %s: a THREAD range must be outermost", l->k->name);
    open_range(l, p->range);
    if (!l->status) emit_block(l, &child);
    push(l, UOP(l->g, UOP_END, DT_VOID, NO_ARG, l->map[p->range->id]));
    for (uint32_t k = 0; k < p->count; k++) {
        const UOp *o = p->entry[k].node;
        if (p->entry[k].next || o->op != UOP_REDUCE) continue;
        const UOp *v = UOP(l->g, UOP_LOAD, DT_VOID, NO_ARG, l->map[o->id]);
        l->map[o->id] = v;
        push(l, v);
    }
}

/* ---- several THREAD ranges of one END become one ---- */

static const UOp *one_thread_range(Graph *g, const UOp *end, int number)
{
    const UOp *thread[64], *value[64], *bound = uop_index(g, 1);
    uint32_t n = 0;
    for (uint32_t k = 1; k < end->nsrc; k++)
        if (range_type(end->src[k]) == AXIS_THREAD) thread[n++] = end->src[k];
    if (n < 2) return end;
    for (uint32_t k = 0; k < n; k++) bound = UOP(g, UOP_MUL, DT_VOID, NO_ARG, bound, thread[k]->src[0]);
    if (uop_is_const(thread[0]->src[0])) {
        int64_t total = 1;
        for (uint32_t k = 0; k < n; k++) total *= thread[k]->src[0]->vmax;
        if (bound->vmin == total && bound->vmax == total) bound = uop_index(g, total);
    }
    const UOp *all = uop_range(g, number, bound, AXIS_THREAD), *rest = all;
    for (uint32_t k = n; k-- > 0;) {
        value[k] = k ? UOP(g, UOP_MOD, DT_VOID, NO_ARG, rest, thread[k]->src[0]) : rest;
        rest = UOP(g, UOP_IDIV, DT_VOID, NO_ARG, rest, thread[k]->src[0]);
    }
    const UOp *src[66] = { uop_substitute(g, end->src[0], thread, value, n), all };
    uint32_t m = 2;
    for (uint32_t k = 1; k < end->nsrc; k++)
        if (range_type(end->src[k]) != AXIS_THREAD) src[m++] = uop_substitute(g, end->src[k], thread, value, n);
    return uop_new(g, UOP_END, DT_VOID, NO_ARG, src, m);
}

static const UOp *merge_threads(Lin *l, const UOp *root)
{
    const UOp **src = NEW_N(l->arena, const UOp *, root->nsrc);
    int number = range_free(l->order, l->count);
    for (uint32_t k = 0; k < root->nsrc; k++)
        src[k] =
            root->src[k]->op == UOP_END && number < 64 ? one_thread_range(l->g, root->src[k], number) : root->src[k];
    return uop_with(l->g, root, src);
}

/* Bytes of scratch a thread, in order of the instructions; the renderer places them in the same way. */
static int64_t local_bytes(const UOp *linear)
{
    int64_t total = 0;
    for (uint32_t i = 0; i < linear->nsrc; i++) {
        const UOp *u = linear->src[i];
        if (u->op == UOP_BUFFER && buffer_space(u) == SPACE_LOCAL)
            total += (uop_numel(u) * dtype_size((DType)u->dtype) + 63) & ~INT64_C(63);
    }
    return total;
}

static void sort_all(Lin *l, const UOp *root)
{
    l->order = uop_toposort(l->g, &root, 1, l->arena, &l->count);
    l->ids = graph_count(l->g);
}

static TgStatus linearize(Lin *l, const UOp *root)
{
    sort_all(l, root);
    root = merge_threads(l, root);
    sort_all(l, root);
    l->map = NEW_N(l->arena, const UOp *, l->ids);
    l->cap = l->count + 64;
    l->line = NEW_N(l->arena, const UOp *, l->cap);
    Entry top = { root, 0 };
    /* the root block's only body is the SINK itself */
    const UOp *all = UOP(l->g, UOP_END, DT_VOID, NO_ARG, root);
    top.node = all;
    Block b = { .entry = &top, .nentry = 1 };
    l->k->thread_bound = NULL;
    emit_block(l, &b);
    TRY(l->status);
    l->k->linear = uop_new(l->g, UOP_LINEAR, DT_VOID, NO_ARG, l->line, l->nline);
    l->k->local_bytes = local_bytes(l->k->linear);
    return graph_error(l->g);
}

TgStatus kernel_linearize(Kernel *k, const Target *t)
{
    if (t->max_block) TRY(kernel_gpudims(k, t));
    Lin l = { .k = k, .g = k->g, .arena = arena_new() };
    TgStatus s = linearize(&l, k->root);
    arena_free(l.arena);
    if (s == TG_OK && !t->max_block) kernel_skip_zeros(k), kernel_peel(k);
    if (!t->max_block || s != TG_OK) return s;
    kernel_prefetch(k);
    kernel_skip_idle(k);
    k->shared_bytes = k->local_bytes;
    if (k->shared_bytes > t->l1_bytes)
        return fail(TG_UNSUPPORTED, "kernel %s: %lld bytes of shared memory; there are %lld", k->name,
                    (long long)k->shared_bytes, (long long)t->l1_bytes);
    return s;
}
