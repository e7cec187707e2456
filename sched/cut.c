/* The last part of rangeify: expressions of all instances, bottom up, then one Kernel a cut, in a graph of its own with ranges and params numbered anew. */
#include <stdlib.h>
#include <string.h>

#include "graph/custom.h"
#include "sched/rangeify.h"

static const UOp *load(Rangeify *r, const UOp *buffer, const Inst *i)
{
    const UOp *src[65] = { buffer };
    uint32_t rank = uop_rank(buffer);
    if (rank) memcpy(src + 1, i->idx, rank * sizeof *src);
    const UOp *at = uop_new(r->g, UOP_INDEX, DT_VOID, NO_ARG, src, rank + 1);
    if (!i->valid) return UOP(r->g, UOP_LOAD, DT_VOID, NO_ARG, at);
    return UOP(r->g, UOP_LOAD, DT_VOID, NO_ARG, at, uop_const_like(r->g, (DType)buffer->dtype, 0), i->valid);
}

static const UOp *select_part(Rangeify *r, const Inst *i, const UOp *at)
{
    const UOp *u = i->node, *v = NULL, *begin[u->nsrc + 1];
    begin[0] = uop_index(r->g, 0);
    for (uint32_t k = 0; k < u->nsrc; k++)
        begin[k + 1] = index_simplify(r, index_math(r->g, UOP_ADD, begin[k], u->op == UOP_CAT ? uop_dim(u->src[k], (uint32_t)u->arg.i) : uop_index(r->g, 1)));
    for (uint32_t k = u->nsrc; k-- > 0;) {
        if (!i->child[k]) continue;
        const UOp *e = i->child[k]->expr;
        v = v ? UOP(r->g, UOP_WHERE, DT_VOID, NO_ARG, index_simplify(r, index_math(r->g, UOP_CMPLT, at, begin[k + 1])), e, v) : e;
    }
    return v;
}

static const UOp *express(Rangeify *r, const Inst *i)
{
    const UOp *u = i->node, *src[16];
    if (r->buffer[u->id] && !i->root) return load(r, r->buffer[u->id], i);
    switch ((Op)u->op) {
    case UOP_CONST: case UOP_DEFINE_VAR: return u;
    case UOP_BIND: return u->src[0];
    case UOP_IOTA: return i->idx[0];
    case UOP_BUFFER: case UOP_PARAM: return load(r, u, i);
    case UOP_REDUCE: return uop_reduce_ranges(r->g, (Op)u->arg.i, i->child[0]->expr, i->range, i->nrange);
    case UOP_BITCAST: return UOP(r->g, UOP_BITCAST, (DType)u->dtype, NO_ARG, i->child[0]->expr);
    case UOP_CAT: return select_part(r, i, i->idx[u->arg.i]);
    case UOP_STACK: return select_part(r, i, i->idx[0]);
    case UOP_PAD:
        if (i->child[0]->valid == i->valid) return i->child[0]->expr;
        return UOP(r->g, UOP_WHERE, DT_VOID, NO_ARG, i->child[0]->valid, i->child[0]->expr, uop_const_like(r->g, (DType)u->dtype, 0));
    default: break;
    }
    if (!op_is((Op)u->op, FLAG_ALU)) return i->child[0]->expr;
    for (uint32_t k = 0; k < u->nsrc; k++) src[k] = i->child[k]->expr;
    return uop_new(r->g, (Op)u->op, (DType)u->dtype, u->arg, src, u->nsrc);
}

static int by_node(const void *a, const void *b)
{
    const Inst *x = *(Inst *const *)a, *y = *(Inst *const *)b;
    return x->node->id != y->node->id ? (x->node->id < y->node->id ? -1 : 1) : x->number < y->number ? -1 : 1;
}

/* Puts the index tensors' values where placeholders stand; those may hold placeholders again. */
static const UOp *resolve(Rangeify *r, Inst *const *by_number, const UOp *root)
{
    for (;;) {
        uint32_t n, found = 0;
        ArenaMark mark = arena_mark(r->arena);
        const UOp **order = uop_toposort(r->g, &root, 1, r->arena, &n), **from = NEW_N(r->arena, const UOp *, n), **to = NEW_N(r->arena, const UOp *, n);
        for (uint32_t i = 0; i < n; i++)
            if (order[i]->op == UOP_CUSTOM) from[found] = order[i], to[found++] = UOP(r->g, UOP_CAST, DT_INDEX, NO_ARG, by_number[order[i]->arg.i]->expr);
        if (found) root = uop_substitute(r->g, root, from, to, found);
        arena_release(r->arena, mark);
        if (!found) return root;
    }
}

/* ---- kernels ---- */

static const UOp *param_of(Kernel *k, const UOp *buffer, Graph *from, const UOp **memo, bool written)
{
    (void)from;
    uint32_t slot = 0;
    while (slot < k->nparam && k->param[slot].buffer != buffer) slot++;
    if (slot == KERNEL_PARAMS) return NULL;
    if (slot == k->nparam) k->param[k->nparam++].buffer = buffer;
    if (written) k->param[slot].written = true;
    const UOp *dim[64];
    for (uint32_t i = 0; i < uop_rank(buffer); i++) dim[i] = uop_copy(k->g, uop_dim(buffer, i), memo);
    return uop_param(k->g, (DType)buffer->dtype, dim, uop_rank(buffer), slot);
}

void kernel_vars(Kernel *k)
{
    k->nvar = 0;
    Arena *a = arena_new();
    uint32_t n;
    const UOp **order = uop_toposort(k->g, &k->root, 1, a, &n);
    for (uint32_t i = 0; i < n; i++) {
        if (order[i]->op != UOP_DEFINE_VAR) continue;
        if (k->nvar == KERNEL_VARS) graph_fail_code(k->g, TG_UNSUPPORTED, "a kernel of more than %d sizes that only the data tell", KERNEL_VARS);
        else k->var[k->nvar++] = order[i];
    }
    arena_free(a);
}

/* A fresh graph in which ranges count from 0, the store's first, and memory is PARAM(slot). */
static Kernel *make_kernel(Rangeify *r, const Cut *c, const UOp *root)
{
    Kernel *k = calloc(1, sizeof *k);
    ArenaMark mark = arena_mark(r->arena);
    uint32_t n, next = 0;
    int number[64];
    const UOp **order = uop_toposort(r->g, &root, 1, r->arena, &n), **memo = NEW_N(r->arena, const UOp *, graph_count(r->g));
    k->g = graph_new();
    for (uint32_t i = 0; i < c->nrange; i++) number[i] = -1;
    for (uint32_t i = 0; i < c->nout; i++) number[i] = (int)next++;
    memo[c->buffer->id] = param_of(k, c->buffer, r->g, memo, true);
    for (uint32_t i = 0; i < n; i++) {
        const UOp *u = order[i];
        if (memo[u->id]) continue;
        if (u->op == UOP_RANGE) {
            int *at = &number[range_number(u)];
            if (*at < 0) *at = (int)next++;
            memo[u->id] = uop_range(k->g, *at, memo[u->src[0]->id], range_type(u));
        } else if (is_global(u)) {
            if (!(memo[u->id] = param_of(k, u, r->g, memo, false))) break;
        } else uop_copy(k->g, u, memo);
        if (u->op == UOP_LOAD) k->param[memo[u->id]->src[0]->src[0]->arg.i].read = true;
    }
    k->root = memo[root->id];
    arena_release(r->arena, mark);
    if (k->root) kernel_vars(k);
    return k;
}

static const UOp *cut_root(Rangeify *r, Cut *c, Inst *const *by_number)
{
    const UOp *src[65] = { c->buffer };
    uint32_t rank = uop_rank(c->buffer);
    if (rank) memcpy(src + 1, c->store, rank * sizeof *src);
    const UOp *value = resolve(r, by_number, c->inst->expr);
    value = rewriter_run(r->simplify, graph_rewrite(r->g, rewriter_run(r->simplify, value), rules_reduce(), 0, NULL));
    for (uint32_t k = 1; k <= rank; k++) src[k] = rewriter_run(r->simplify, src[k]);
    const UOp *store = UOP(r->g, UOP_STORE, DT_VOID, NO_ARG, uop_new(r->g, UOP_INDEX, DT_VOID, NO_ARG, src, rank + 1), value);
    src[0] = store;
    uint32_t n = 1;
    for (uint32_t k = 0; k < c->nout; k++) {                    /* a symbolic bound may have found another form in the value */
        const UOp *range = rewriter_run(r->simplify, c->range[k]);
        if (range->op == UOP_RANGE) src[n++] = range;
    }
    return UOP(r->g, UOP_SINK, DT_VOID, NO_ARG, uop_new(r->g, UOP_END, DT_VOID, NO_ARG, src, n));
}

ScheduleItem *schedule_add(Schedule *s, ItemKind kind)
{
    if (s->count == s->cap) s->item = realloc(s->item, (s->cap = s->cap ? s->cap * 2 : 64) * sizeof *s->item);
    ScheduleItem *item = memset(&s->item[s->count++], 0, sizeof *s->item);
    item->kind = kind;
    return item;
}

enum { ONCE = 1, EACH_RUN = 2 };          /* of a buffer: a join may have parts of both kinds */

static bool all_once(const Schedule *s, const Kernel *k, const uint8_t *once, uint32_t known)
{
    for (uint32_t i = 0; i < k->nparam; i++) {
        const UOp *b = k->param[i].buffer;
        if (!k->param[i].read) continue;
        if (b->op != UOP_BUFFER || buffer_slot(b) >= known || !(graph_buffer(s->g, buffer_slot(b))->data || once[buffer_slot(b)] == ONCE)) return false;
    }
    return !k->nvar;
}

static TgStatus add_call(Rangeify *r, Schedule *s, const UOp *call)
{
    uint32_t n = 0;
    const UOp **arg = NEW_N(graph_arena(r->g), const UOp *, call->nsrc), **out = NEW_N(graph_arena(r->g), const UOp *, 64);
    for (uint32_t k = 1; k < call->nsrc; k++) arg[k] = r->buffer[call->src[k]->id] ? r->buffer[call->src[k]->id] : call->src[k];
    arg[0] = call->src[0];
    for (uint32_t id = call->id; id < r->nnode; id++) {
        const UOp *u = graph_node(r->g, id);
        if (u->op == UOP_GETTUPLE && u->src[0] == call && r->buffer[id] && u->arg.i < 64) {
            out[u->arg.i] = r->buffer[id];
            if (n <= u->arg.i) n = (uint32_t)u->arg.i + 1;
        }
    }
    if (custom_is(call, "loop") || custom_is(call, "if")) return control_items(r, s, call, out);
    ScheduleItem *item = schedule_add(s, ITEM_HOST);
    item->call = uop_new(r->g, UOP_CALL, DT_VOID, NO_ARG, arg, call->nsrc);
    item->out = out;
    item->nout = n;
    return TG_OK;
}

typedef struct { uint32_t order, sub; Cut *cut; const UOp *call; } Piece;

static int by_order(const void *a, const void *b)
{
    const Piece *x = a, *y = b;
    return x->order != y->order ? (x->order < y->order ? -1 : 1) : x->sub < y->sub ? -1 : x->sub > y->sub;
}

TgStatus cut_kernels(Rangeify *r, Schedule *s)
{
    Inst **by_number = arena_copy(r->arena, r->all, r->ninst * sizeof *r->all);
    if (r->ninst) qsort(r->all, r->ninst, sizeof *r->all, by_node);
    for (uint32_t i = 0; i < r->ninst; i++) r->all[i]->expr = express(r, r->all[i]);
    Piece *piece = NEW_N(r->arena, Piece, r->ncut + r->nnode);
    uint32_t n = 0;
    for (uint32_t i = 0; i < r->ncut; i++) piece[n++] = (Piece){ r->cut[i].order, i, &r->cut[i], NULL };
    for (uint32_t id = 0; id < r->nnode; id++)
        if (r->called[id]) piece[n++] = (Piece){ id, 0, NULL, graph_node(r->g, id) };
    qsort(piece, n, sizeof *piece, by_order);
    uint32_t known = graph_buffer_count(r->g);
    uint8_t *once = NEW_N(r->arena, uint8_t, known + 1);
    for (uint32_t i = 0; i < n; i++) {
        if (piece[i].call) {
            TRY(add_call(r, s, piece[i].call));
            continue;
        }
        Kernel *k = make_kernel(r, piece[i].cut, cut_root(r, piece[i].cut, by_number));
        ScheduleItem *item = schedule_add(s, ITEM_KERNEL);
        item->kernel = k;
        if (!k->root) return fail(TG_UNSUPPORTED, "a kernel reads more than %d tensors", KERNEL_PARAMS);
        item->once = all_once(s, k, once, known);
        uint8_t *when = &once[buffer_slot(piece[i].cut->buffer)];
        *when = item->once && *when != EACH_RUN ? ONCE : EACH_RUN;
    }
    for (uint32_t i = 0; i < s->count; i++) {
        int64_t to = s->item[i].kernel ? buffer_slot(s->item[i].kernel->param[0].buffer) : known;
        if (to < known && once[to] == EACH_RUN) s->item[i].once = false;
    }
    return graph_error(r->g);
}
