/* PACK: a constant expression (a load of a constant and the arithmetic on constants alone around it) is computed once,
 * at load, in the order in which the kernel's loops read it. Gates that only kept its index inside disappear with it,
 * and its index becomes the loops' own row-major count: a GEMM's weights become panels [N/32][K][32] because its loops
 * are such, quantised weights become floats, and a constant factor on the sum (a folded batch norm) moves into them;
 * nothing here knows of any of these. NARROW: the load alone, as narrow as it is; the arithmetic stays in the loops. It
 * is for sums that wait for memory.
 */
#include <stdlib.h>
#include <string.h>

#include "graph/base/memory.h"
#include "graph/rewrite.h"
#include "sched/rangeify.h"

typedef struct {
    Arena *arena;
    const UOp **order, **user;
    uint32_t n;
    uint8_t *uses, *constant;
} Uses;

/* Users, and what depends on nothing but constants and ranges. A constant that is packed is none: the kernel of another
 * copy would read it unpacked. */
static void look(Uses *s, Kernel *k)
{
    s->arena = arena_new();
    s->order = uop_toposort(k->g, &k->root, 1, s->arena, &s->n);
    s->user = NEW_N(s->arena, const UOp *, k->root->id + 1);
    s->uses = NEW_N(s->arena, uint8_t, k->root->id + 1);
    s->constant = NEW_N(s->arena, uint8_t, k->root->id + 1);
    for (uint32_t i = 0; i < s->n; i++) {
        const UOp *u = s->order[i];
        bool c = u->op != UOP_PARAM || (k->param[u->arg.i].constant && !k->pack[u->arg.i]);
        c &= u->op != UOP_DEFINE_VAR && u->op != UOP_REDUCE && u->op != UOP_BUFFER && u->op != UOP_STORE &&
            u->op != UOP_SPECIAL;
        for (uint32_t j = 0; j < u->nsrc; j++) {
            uint32_t id = u->src[j]->id;
            c &= s->constant[id];
            s->user[id] = u;
            if (s->uses[id] < 2) s->uses[id]++;
        }
        s->constant[u->id] = c;
    }
}

static const UOp *only_load(const Uses *s, uint32_t slot)
{
    const UOp *found = NULL;
    for (uint32_t i = 0; i < s->n; i++)
        if (s->order[i]->op == UOP_LOAD && s->order[i]->src[0]->src[0]->op == UOP_PARAM &&
            s->order[i]->src[0]->src[0]->arg.i == slot) {
            if (found) return NULL;
            found = s->order[i];
        }
    return found;
}

static const UOp *only_user(const Uses *s, const UOp *u) { return s->uses[u->id] == 1 ? s->user[u->id] : NULL; }

/* The largest constant expression around the load. */
static const UOp *grow(const Uses *s, const UOp *e)
{
    for (const UOp *u = only_user(s, e); u && op_is((Op)u->op, FLAG_ALU) && s->constant[u->id]; u = only_user(s, e))
        e = u;
    return e;
}

static bool is_sum(const UOp *u) { return u->op == UOP_REDUCE && u->arg.i == UOP_ADD && !u->arg.blob; }

/* MUL(REDUCE(ADD, MUL(e, other)), c), c constant and within e's ranges: returns that MUL. */
static const UOp *scaled_sum(const Uses *s, const UOp *e, const UOp **product, const UOp **factor)
{
    const UOp *m = only_user(s, e), *r = m && m->op == UOP_MUL ? only_user(s, m) : NULL,
              *scaled = r && is_sum(r) ? only_user(s, r) : NULL;
    for (; scaled && is_sum(scaled); scaled = only_user(s, r)) r = scaled;
    if (!scaled || scaled->op != UOP_MUL || !dtype_is_float((DType)scaled->dtype)) return NULL;
    *product = m;
    *factor = scaled->src[scaled->src[0] == r];
    if (!s->constant[(*factor)->id] || ((*factor)->ranges & ~e->ranges)) return NULL;
    return scaled;
}

/* Loops, then what is unrolled, then threads side by side, those that share a sum outside of the others, then lanes:
 * the innermost changes fastest. */
enum { RANKS = 6 };
#define PADDED 1.5                  /* a packed constant is so many times as large at most, but for */
#define PADDING 1024                /* elements */
static int rank_of(const UOp *r)
{
    static const int rank[AXIS_COUNT] = {
        [AXIS_UNROLL] = 1, [AXIS_GROUP_REDUCE] = 2, [AXIS_LOCAL] = 3, [AXIS_WARP] = 4, [AXIS_UPCAST] = 5
    };
    return rank[range_type(r)];
}

static uint32_t pack_order(const Kernel *k, uint64_t open, const UOp **out)
{
    const UOp *axis[64];
    uint32_t n = opt_axes(k, axis, 64), m = 0;
    int pair = wmma_pair(k);                                    /* tiles want it innermost */
    for (int rank = 0; rank <= RANKS; rank++)
        for (uint32_t i = 0; i < n; i++)
            if ((open & range_bit(axis[i])) && (range_number(axis[i]) == pair ? RANKS : rank_of(axis[i])) == rank)
                out[m++] = axis[i];
    return m;
}

/* A range that a value depends on only by a table of it (WHERE of places in it: which part of a number is multiplied
 * now): the copy's axis has the table's values. Or NULL. */
static const UOp *table_of(Kernel *k, const UOp *e, const UOp *range)
{
    Arena *a = arena_new();
    uint32_t n;
    const UOp **order = uop_toposort(k->g, &e, 1, a, &n), *table = NULL, *zero = uop_index(k->g, 0);
    for (uint32_t i = 0; i < n; i++)
        if (order[i]->op == UOP_WHERE && order[i]->dtype == DT_INDEX && order[i]->ranges == range_bit(range))
            table = order[i];
    arena_free(a);
    bool alone = table && !table->vmin && table->vmax + 1 < range->src[0]->vmax &&
        !(uop_substitute(k->g, e, &table, &zero, 1)->ranges & range_bit(range));
    return alone ? table : NULL;
}

/* The copy's index, and how many elements it has; axes that stand for tables of the loops. */
typedef struct {
    const UOp *at, *table[64], *axis[64];
    uint32_t ntable;
    int64_t numel;
} Copy;

static TgStatus plan_copy(Kernel *k, const UOp *e, const UOp *load, Copy *c)
{
    Graph *g = k->g;
    const UOp *range[64], *index = uop_index(g, 0), *size = uop_index(g, 1);
    double total = 1, plain = (double)uop_numel(load->src[0]->src[0]);
    uint64_t known = 0;
    for (uint32_t i = pack_order(k, e->ranges, range); i-- > 0;) {
        const UOp *r = range[i], *table = uop_is_const(r->src[0]) ? table_of(k, e, r) : NULL;
        if (!uop_is_const(r->src[0])) return fail(TG_USAGE, "optops: PACK under a symbolic range");
        if (table)
            r = uop_range(g, range_number(r), uop_index(g, table->vmax + 1), range_type(r)),
            c->table[c->ntable] = table, c->axis[c->ntable++] = r;
        index = index_math(g, UOP_ADD, index_math(g, UOP_MUL, r, size), index);
        size = index_math(g, UOP_MUL, size, r->src[0]);
        total *= (double)r->src[0]->vmax;
        known |= range_bit(r);
    }
    if (e->ranges & ~known) return fail(TG_USAGE, "optops: PACK of what a stage copies");
    if (total > PADDED * plain + PADDING)
        return fail(TG_USAGE, "optops: PACK makes parameter %d %.1f times as large", (int)load->src[0]->src[0]->arg.i,
                    total / plain);
    c->at = graph_rewrite(g, index, rules_symbolic(), 0, NULL);
    c->numel = (int64_t)total;
    return TG_OK;
}

static TgStatus pack(Kernel *k, uint32_t slot, bool narrow, const Uses *s)
{
    Graph *g = k->g;
    const UOp *load = only_load(s, slot), *product, *factor, *from[2], *to[2];
    if (!load) return fail(TG_USAGE, "optops: PACK: parameter %u is not read in one way", slot);
    if (!s->constant[load->id])
        return fail(TG_USAGE, "optops: PACK: where parameter %u is read depends on data or on what is packed", slot);
    const UOp *e = narrow ? load : grow(s, load), *scaled = narrow ? NULL : scaled_sum(s, e, &product, &factor),
              *value = scaled ? UOP(g, UOP_MUL, DT_VOID, NO_ARG, e, factor) : e;
    Copy c = { 0 };
    TRY(plan_copy(k, e, load, &c));
    const UOp *size = uop_index(g, c.numel), *param = uop_param(g, (DType)e->dtype, &size, 1, slot);
    from[0] = e;
    to[0] = UOP(g, UOP_LOAD, DT_VOID, NO_ARG,
                UOP(g, UOP_INDEX, DT_VOID, NO_ARG, param, uop_substitute(g, c.at, c.axis, c.table, c.ntable)));
    if (scaled) {
        const UOp *sum = scaled->src[scaled->src[0] == factor];
        from[1] = scaled;
        to[1] = uop_substitute(g, sum, from, to, 1);
    }
    k->pack[slot] =
        arena_copy(graph_arena(g), &(KernelPack){ uop_substitute(g, value, c.table, c.axis, c.ntable), c.at, c.numel },
                   sizeof **k->pack);
    k->root = uop_substitute(g, k->root, from, to, scaled ? 2 : 1);
    return TG_OK;
}

TgStatus opt_pack(Kernel *k, uint32_t slot, bool narrow)
{
    if (slot >= k->nparam || !k->param[slot].constant)
        return fail(TG_USAGE, "optops: PACK of parameter %u, which is not a constant", slot);
    if (k->pack[slot]) return fail(TG_USAGE, "optops: PACK of parameter %u again", slot);
    Uses s;
    look(&s, k);
    TgStatus status = pack(k, slot, narrow, &s);
    arena_free(s.arena);
    return status;
}

/* The ranges of a packed value, loops first; a lowered kernel has them no more. */
static uint32_t value_ranges(const Kernel *k, const UOp *value, const UOp **out)
{
    Arena *a = arena_new();
    uint32_t count, n = 0;
    const UOp **order = uop_postorder(k->g, value, a, &count);
    for (int rank = 0; rank < RANKS; rank++)
        for (uint32_t i = 0; i < count; i++)
            if (order[i]->op == UOP_RANGE && rank_of(order[i]) == rank) out[n++] = order[i];
    arena_free(a);
    return n;
}

/* The kernel that fills the packed copy, PARAM(0); the others are the constants it is made of, with the buffers that
 * stand behind them in k. */
Kernel *pack_kernel(const Kernel *k, uint32_t slot)
{
    const KernelPack *p = k->pack[slot];
    Kernel *c = mem_zeros(1, sizeof *c);
    Arena *a = arena_new();
    Graph *g = c->g = graph_new();
    const UOp *range[64], *src[66], *from[64 + KERNEL_PARAMS], *to[64 + KERNEL_PARAMS],
        *value = uop_copy(g, p->value, NULL), *at = uop_copy(g, p->at, NULL), *size = uop_index(g, p->numel);
    uint32_t n = value_ranges(k, p->value, range), count, m;
    for (m = 0; m < n; m++)
        from[m] = uop_copy(g, range[m], NULL), src[m + 1] = to[m] = uop_range(g, (int)m, from[m]->src[0], AXIS_LOOP);
    const UOp **order = uop_postorder(g, value, a, &count);
    c->param[c->nparam++].written = true;
    for (uint32_t i = 0; i < count; i++)
        if (order[i]->op == UOP_PARAM) {
            from[m] = order[i];
            to[m++] = UOP(g, UOP_PARAM, (DType)order[i]->dtype, ARG_I(c->nparam), order[i]->src[0]);
            c->param[c->nparam++] =
                (KernelParam){ .buffer = k->param[order[i]->arg.i].buffer, .read = true, .constant = true };
        }
    value = uop_substitute(g, value, from, to, m);
    at = uop_substitute(g, at, from, to, n);
    src[0] = UOP(g, UOP_STORE, DT_VOID, NO_ARG,
                 UOP(g, UOP_INDEX, DT_VOID, NO_ARG, uop_param(g, (DType)value->dtype, &size, 1, 0), at), value);
    c->root = UOP(g, UOP_SINK, DT_VOID, NO_ARG, uop_new(g, UOP_END, DT_VOID, NO_ARG, src, n + 1));
    arena_free(a);
    kernel_count(c);
    kernel_key(c);
    kernel_name(c);
    return c;
}
