/* The last part of rangeify: expressions of all instances, bottom up, then one Kernel a cut, in a graph of its own with
 * ranges and params numbered anew. */
#include <stdlib.h>
#include <string.h>

#include "graph/base/memory.h"
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

/* The part in which `at` lies. Outside of all of them, where nothing is read, any value will do: no part may have been
 * requested then. */
static const UOp *select_part(Rangeify *r, const Inst *i, const UOp *at)
{
    const UOp *u = i->node, *v = NULL, *begin[u->nsrc + 1];
    begin[0] = uop_index(r->g, 0);
    for (uint32_t k = 0; k < u->nsrc; k++)
        begin[k + 1] =
            index_simplify(r,
                           index_math(r->g, UOP_ADD, begin[k],
                                      u->op == UOP_CAT ? uop_dim(u->src[k], (uint32_t)u->arg.i) : uop_index(r->g, 1)));
    for (uint32_t k = u->nsrc; k-- > 0;) {
        if (!i->child[k]) continue;
        const UOp *e = i->child[k]->expr;
        v = v ? UOP(r->g, UOP_WHERE, DT_VOID, NO_ARG, index_simplify(r, index_math(r->g, UOP_CMPLT, at, begin[k + 1])),
                    e, v)
              : e;
    }
    return v ? v : uop_const_like(r->g, (DType)u->dtype, 0);
}

const UOp *guarded(Rangeify *r, const UOp *u, const UOp *valid, const UOp *const *src)
{
    GuardKind kind = guard_kind(u->arg);
    const UOp *words = uop_index(r->g, GUARD_WORDS),
              *word = uop_buffer(r->g, DT_I64, &words, 1, guard_slot(u), SPACE_GLOBAL);
    const UOp *value = !valid || kind == GUARD_SIZE
        ? src[0]
        : UOP(r->g, UOP_WHERE, DT_VOID, NO_ARG, valid, src[0],
              uop_const_like(r->g, (DType)u->dtype, (double)guard_otherwise(kind)));
    const UOp *at = UOP(r->g, UOP_INDEX, DT_VOID, NO_ARG, word, uop_index(r->g, 0));
    return index_simplify(r, UOP(r->g, UOP_GUARD, DT_VOID, ARG_I(kind), value, src[1], at));
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
    case UOP_REDUCE: return uop_reduce_like(r->g, u, i->child[0]->expr, i->range, i->nrange);
    case UOP_BITCAST: return UOP(r->g, UOP_BITCAST, (DType)u->dtype, NO_ARG, i->child[0]->expr);
    case UOP_CAT: return select_part(r, i, i->idx[u->arg.i]);
    case UOP_STACK: return select_part(r, i, i->idx[0]);
    case UOP_PAD:
        if (i->child[0]->valid == i->valid) return i->child[0]->expr;
        return UOP(r->g, UOP_WHERE, DT_VOID, NO_ARG, i->child[0]->valid, i->child[0]->expr,
                   uop_const_like(r->g, (DType)u->dtype, 0));
    default: break;
    }
    if (!op_is((Op)u->op, FLAG_ALU)) return i->child[0]->expr;
    for (uint32_t k = 0; k < u->nsrc; k++) src[k] = i->child[k]->expr;
    if (u->op == UOP_GUARD) return guarded(r, u, i->valid, src);
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
        const UOp **order = uop_toposort(r->g, &root, 1, r->arena, &n), **from = NEW_N(r->arena, const UOp *, n),
                  **to = NEW_N(r->arena, const UOp *, n);
        for (uint32_t i = 0; i < n; i++)
            if (order[i]->op == UOP_CUSTOM)
                from[found] = order[i],
                to[found++] = UOP(r->g, UOP_CAST, DT_INDEX, NO_ARG, by_number[order[i]->arg.i]->expr);
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

bool kernel_add_var(Kernel *k, const UOp *var)
{
    if (k->nvar == KERNEL_VARS) return false;
    if (!(k->nvar & (k->nvar + 1))) {                           /* room for 1, 3, 7 .. */
        const UOp **more = NEW_N(graph_arena(k->g), const UOp *, 2 * k->nvar + 1);
        if (k->nvar) memcpy(more, k->var, k->nvar * sizeof *more);
        k->var = more;
    }
    return k->var[k->nvar++] = var, true;
}

void kernel_vars(Kernel *k)
{
    k->nvar = 0;
    Arena *a = arena_new();
    uint32_t n;
    const UOp **order = uop_toposort(k->g, &k->root, 1, a, &n);
    for (uint32_t i = 0; i < n; i++) {
        if (order[i]->op != UOP_DEFINE_VAR) continue;
        if (!kernel_add_var(k, order[i]))
            graph_fail_code(k->g, TG_UNSUPPORTED, "a kernel of more than %d data-dependent sizes",
                            KERNEL_VARS);
    }
    arena_free(a);
}

/* A fresh graph in which ranges count from 0, the store's first, and memory is PARAM(slot). */
static Kernel *make_kernel(Rangeify *r, const Cut *c, const UOp *root)
{
    Kernel *k = mem_zeros(1, sizeof *k);
    ArenaMark mark = arena_mark(r->arena);
    uint32_t n, next = 0;
    int number[64];
    const UOp **order = uop_postorder(r->g, root, r->arena, &n), **memo = r->copied;
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
        } else if (uop_is_global(u)) {
            if (!(memo[u->id] = param_of(k, u, r->g, memo, false))) break;
        } else uop_copy(k->g, u, memo);
        if (u->op == UOP_LOAD) k->param[memo[u->id]->src[0]->src[0]->arg.i].read = true;
        if (u->op == UOP_GUARD) k->param[memo[u->id]->src[2]->src[0]->arg.i].guard = true;
    }
    k->root = memo[root->id];
    for (uint32_t i = 0; i < n; i++) memo[order[i]->id] = NULL;
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
    const UOp *store =
        UOP(r->g, UOP_STORE, DT_VOID, NO_ARG, uop_new(r->g, UOP_INDEX, DT_VOID, NO_ARG, src, rank + 1), value);
    src[0] = store;
    uint32_t n = 1;
    /* a symbolic bound may have found another form in the value */
    for (uint32_t k = 0; k < c->nout; k++) {
        const UOp *range = rewriter_run(r->simplify, c->range[k]);
        if (range->op == UOP_RANGE) src[n++] = range;
    }
    return UOP(r->g, UOP_SINK, DT_VOID, NO_ARG, uop_new(r->g, UOP_END, DT_VOID, NO_ARG, src, n));
}

ScheduleItem *schedule_add(Schedule *s, ItemKind kind)
{
    if (s->count == s->cap) s->item = mem_grow(s->item, (s->cap = s->cap ? s->cap * 2 : 64) * sizeof *s->item);
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
        if (b->op != UOP_BUFFER || buffer_slot(b) >= known ||
            !(graph_buffer(s->g, buffer_slot(b))->data || once[buffer_slot(b)] == ONCE))
            return false;
    }
    return !k->nvar;
}

/* By call, the GETTUPLEs of it. */
static void find_results(Rangeify *r)
{
    r->results = NEW_N(r->arena, Results, r->nnode);
    for (int pass = 0; pass < 2; pass++)
        for (uint32_t id = 0; id < r->nnode; id++) {
            const UOp *u = graph_node(r->g, id);
            Results *of = u->op == UOP_GETTUPLE ? &r->results[u->src[0]->id] : NULL;
            if (!of) continue;
            if (!pass) of->n = of->n > u->arg.i ? of->n : (uint32_t)u->arg.i + 1;
            else if (!of->of) of->of = NEW_N(r->arena, const UOp *, of->n);
            if (pass) of->of[u->arg.i] = u;
        }
}

static Origins origin_alone(const Rangeify *r, const UOp *u)
{
    uint32_t node = uop_origin(r->g, u);
    return (Origins){ arena_copy(graph_arena(r->g), &node, sizeof node), node != 0 };
}

static TgStatus add_call(Rangeify *r, Schedule *s, const UOp *call)
{
    uint32_t n = 0;
    const Results *results = &r->results[call->id];
    const UOp **arg = NEW_N(graph_arena(r->g), const UOp *, call->nsrc),
              **out = NEW_N(graph_arena(r->g), const UOp *, results->n + 1);
    for (uint32_t k = 1; k < call->nsrc; k++) arg[k] = memory_of(r, call->src[k]);
    arg[0] = call->src[0];
    for (uint32_t k = 0; k < results->n; k++)
        if (results->of[k] && (out[k] = r->buffer[results->of[k]->id])) n = k + 1;
    if (calls_function(call)) return function_items(r, s, call, out, n);
    if (custom_is(call, "loop") || custom_is(call, "if")) return control_items(r, s, call, out, n);
    ScheduleItem *item = schedule_add(s, ITEM_HOST);
    item->origins = origin_alone(r, call);
    item->call = uop_new(r->g, UOP_CALL, DT_VOID, NO_ARG, arg, call->nsrc);
    item->at = graph_call_place(r->g, call);
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

/* ---- order: by node, but whatever needs a size that a call sets comes after the call ---- */

/* pieces that come before; state: 0 new, 1 on the stack, 2 placed */
typedef struct { uint32_t *need, nneed, cap; uint8_t state; } Link;
/* set_by: node id of a DEFINE_VAR -> piece + 1 */
typedef struct {
    Rangeify *r;
    Arena *arena;
    Piece *piece;
    Link *link;
    uint32_t n;
    uint32_t *set_by;
} Linker;

static void needs(Linker *l, uint32_t at, uint32_t before)
{
    Link *k = &l->link[at];
    if (before == at) return;
    if (k->nneed == k->cap) {
        uint32_t *more = NEW_N(l->arena, uint32_t, k->cap = k->cap ? 2 * k->cap : 8);
        if (k->nneed) memcpy(more, k->need, k->nneed * sizeof *more);
        k->need = more;
    }
    k->need[k->nneed++] = before;
}

/* What piece `at` reads: variables that calls set, buffers that others write (a list of writers a buffer slot). */
static void link_piece(Linker *l, uint32_t at, const UOp *root, uint32_t *const *writer)
{
    const Piece *p = &l->piece[at];
    const Results none = { 0 }, *results = p->call ? &l->r->results[p->call->id] : &none;
    uint32_t n, count = 1;
    const UOp **from = NEW_N(l->arena, const UOp *, (p->call ? p->call->nsrc : 0) + results->n + 1);
    from[0] = p->call ? p->call->src[0] : root;                             /* with the bodies of a loop or branch */
    for (uint32_t k = 1; p->call && k < p->call->nsrc; k++) from[count++] = memory_of(l->r, p->call->src[k]);
    for (uint32_t k = 0; k < results->n; k++)
        if (results->of[k]) from[count++] = results->of[k]->src[1];            /* sizes */
    const UOp **order = uop_toposort(l->r->g, from, count, l->arena, &n);
    for (uint32_t i = 0; i < n; i++) {
        const UOp *u = order[i];
        if (u->op == UOP_DEFINE_VAR && l->set_by[u->id]) needs(l, at, l->set_by[u->id] - 1);
        if (u->op != UOP_BUFFER || buffer_space(u) != SPACE_GLOBAL ||
            (p->cut && buffer_slot(u) == buffer_slot(p->cut->buffer)))
            continue;
        const uint32_t *w = writer[buffer_slot(u)];
        for (uint32_t k = 0; w && k < w[0]; k++)
            /* parts that a join gets later are not read here */
            if (l->piece[w[k + 1]].order <= p->order) needs(l, at, w[k + 1]);
    }
}

static uint32_t *one_more(Arena *a, uint32_t *list, uint32_t v)
{
    uint32_t n = list ? list[0] : 0, *more = list;
    if (!(n & (n + 1))) {                       /* room for 1, 3, 7 .. */
        more = NEW_N(a, uint32_t, 2 * n + 3);
        if (list) memcpy(more, list, (n + 1) * sizeof *more);
    }
    more[++more[0]] = v;
    return more;
}

static uint32_t **writers_of(Linker *l)
{
    uint32_t **writer = NEW_N(l->arena, uint32_t *, graph_buffer_count(l->r->g) + 1),
             *of_call = NEW_N(l->arena, uint32_t, l->r->nnode);
    for (uint32_t i = 0; i < l->n; i++) {
        const Cut *c = l->piece[i].cut;
        if (!c) of_call[l->piece[i].call->id] = i + 1;
        else writer[buffer_slot(c->buffer)] = one_more(l->arena, writer[buffer_slot(c->buffer)], i);
    }
    for (uint32_t id = 0; id < l->r->nnode; id++) {
        const UOp *u = graph_node(l->r->g, id), *b = l->r->buffer[id];
        if (u->op == UOP_GETTUPLE && b && u->src[0]->id < l->r->nnode && of_call[u->src[0]->id])
            writer[buffer_slot(b)] = one_more(l->arena, writer[buffer_slot(b)], of_call[u->src[0]->id] - 1);
    }
    return writer;
}

/* Depth first in the order given, what a piece needs in front of it. */
static void place(Linker *l, Piece *out)
{
    uint32_t *stack = NEW_N(l->arena, uint32_t, l->n + 1), *next = NEW_N(l->arena, uint32_t, l->n + 1), placed = 0;
    for (uint32_t i = 0; i < l->n; i++) {
        uint32_t top = 0;
        if (!l->link[i].state) stack[top++] = i, l->link[i].state = 1;
        while (top) {
            uint32_t at = stack[top - 1];
            Link *k = &l->link[at];
            if (next[at] < k->nneed) {
                uint32_t before = k->need[next[at]++];
                if (!l->link[before].state) stack[top++] = before, l->link[before].state = 1;
            } else out[placed++] = l->piece[at], k->state = 2, top--;
        }
    }
}

static const UOp **cut_roots(Rangeify *r, const Piece *piece, uint32_t n, Inst *const *by_number)
{
    const UOp **root = NEW_N(r->arena, const UOp *, r->ncut + 1);
    for (uint32_t i = 0; i < n; i++)
        if (piece[i].cut) root[piece[i].cut - r->cut] = cut_root(r, piece[i].cut, by_number);
    return root;
}

static Piece *in_order(Rangeify *r, Piece *piece, uint32_t n, const UOp *const *root)
{
    Linker l = { .r = r,
                 .arena = r->arena,
                 .piece = piece,
                 .n = n,
                 .link = NEW_N(r->arena, Link, n + 1),
                 .set_by = NEW_N(r->arena, uint32_t, graph_count(r->g)) };
    bool any = false;
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t k = 0; piece[i].call && k < piece[i].call->src[0]->nsrc; k++) {
            const UOp *v = piece[i].call->src[0]->src[k];
            /* counts inside of the loop only, and equal loops may share it */
            bool step = k == 1 && custom_is(piece[i].call, "loop");
            if (v->op == UOP_DEFINE_VAR && !step) l.set_by[v->id] = i + 1, any = true;
        }
    if (!any) return piece;
    uint32_t **writer = writers_of(&l);
    for (uint32_t i = 0; i < n; i++) link_piece(&l, i, piece[i].cut ? root[piece[i].cut - r->cut] : NULL, writer);
    Piece *out = NEW_N(r->arena, Piece, n + 1);
    place(&l, out);
    return out;
}

/* Which kernels run once, at load. A buffer with several writers is of load only when all of them are; whatever reads
 * it before that is known is looked at again. */
static void find_once(Schedule *s, const uint32_t *item, uint32_t n, uint8_t *once, uint32_t known)
{
    for (bool again = true; again;) {
        again = false;
        for (uint32_t i = 0; i < n; i++) {
            ScheduleItem *k = &s->item[item[i]];
            uint8_t *when = &once[buffer_slot(k->kernel->param[0].buffer)], before = *when;
            k->once = before != EACH_RUN && all_once(s, k->kernel, once, known);
            *when = k->once ? ONCE : EACH_RUN;
            again |= before == ONCE && *when == EACH_RUN;
        }
    }
}

typedef struct { uint32_t cut, node; } Origin;

static int by_cut(const void *a, const void *b)
{
    const Origin *x = a, *y = b;
    return x->cut != y->cut ? (x->cut < y->cut ? -1 : 1) : (x->node > y->node) - (x->node < y->node);
}

/* What the kernel of a cut only reads belongs to nobody here, and nodes share what is made of constants. */
static bool computes(const Rangeify *r, const Inst *i)
{
    return !r->constant[i->node->id] && i->node->op != UOP_PARAM && (i->root || !r->buffer[i->node->id]);
}

/* The nodes of the model behind all cuts, in order of cuts. */
static Origin *origins_of(const Rangeify *r, uint32_t *count)
{
    Origin *list = NEW_N(r->arena, Origin, r->ninst + 1);
    uint32_t n = 0, kept = 0;
    for (uint32_t i = 0; i < r->ninst; i++) {
        uint32_t node = uop_origin(r->g, r->all[i]->node);
        if (node && computes(r, r->all[i])) list[n++] = (Origin){ r->all[i]->cut, node };
    }
    if (n) qsort(list, n, sizeof *list, by_cut);
    for (uint32_t i = 0; i < n; i++)
        if (!kept || by_cut(&list[kept - 1], &list[i])) list[kept++] = list[i];
    *count = kept;
    return list;
}

/* By cut, the number + 1 of the device that what it reads is copied to; 0: nothing of it is. */
static int32_t *devices_of(const Rangeify *r)
{
    int32_t *device = NEW_N(r->arena, int32_t, r->ncut + 1);
    for (uint32_t i = 0; i < r->ninst; i++)
        if (r->all[i]->node->op == UOP_COPY) device[r->all[i]->cut] = (int32_t)r->all[i]->node->arg.i + 1;
    return device;
}

/* Those of one cut. */
static Origins origins_in(Rangeify *r, const Origin *list, uint32_t n, uint32_t cut)
{
    uint32_t low = 0, high = n, count = 0;
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        if (list[middle].cut < cut) low = middle + 1;
        else high = middle;
    }
    while (low + count < n && list[low + count].cut == cut) count++;
    uint32_t *node = NEW_N(graph_arena(r->g), uint32_t, count);
    for (uint32_t i = 0; i < count; i++) node[i] = list[low + i].node;
    return (Origins){ node, count };
}

TgStatus cut_kernels(Rangeify *r, Schedule *s)
{
    uint32_t norigin;
    const Origin *origin = origins_of(r, &norigin);
    Inst **by_number = arena_copy(r->arena, r->all, r->ninst * sizeof *r->all);
    if (r->ninst) qsort(r->all, r->ninst, sizeof *r->all, by_node);
    for (uint32_t i = 0; i < r->ninst; i++) r->all[i]->expr = express(r, r->all[i]);
    find_results(r);
    const double *need = cuts_need(r);
    const int32_t *device = devices_of(r);
    Piece *piece = NEW_N(r->arena, Piece, r->ncut + r->nnode);
    uint32_t n = 0;
    for (uint32_t i = 0; i < r->ncut; i++)
        piece[n++] = (Piece){ placement_order(r->placements, r->cut[i].root), i + (r->cut[i].join ? r->ncut : 0),
                              &r->cut[i], NULL };
    for (uint32_t id = 0; id < r->nnode; id++)
        if (r->called[id])
            piece[n++] = (Piece){ placement_order(r->placements, graph_node(r->g, id)), 0, NULL, graph_node(r->g, id) };
    qsort(piece, n, sizeof *piece, by_order);
    const UOp **root = cut_roots(r, piece, n, by_number);
    piece = in_order(r, piece, n, root);
    r->copied = NEW_N(r->arena, const UOp *, graph_count(r->g));
    uint32_t *mine = NULL, known;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t first = s->count;
        if (piece[i].call) {
            TRY(add_call(r, s, piece[i].call));
            for (uint32_t k = first; calls_function(piece[i].call) && k < s->count; k++)
                if (s->item[k].kernel) mine = one_more(r->arena, mine, k);
            continue;
        }
        /* empty: nothing is stored, and what it would load may not be there */
        if (!uop_numel(piece[i].cut->buffer)) continue;
        Kernel *k = make_kernel(r, piece[i].cut, root[piece[i].cut - r->cut]);
        ScheduleItem *item = schedule_add(s, ITEM_KERNEL);
        item->kernel = k;
        k->needed = need[piece[i].cut - r->cut];
        item->device = device[piece[i].cut - r->cut];
        item->part = piece[i].cut->join;
        item->origins = origins_in(r, origin, norigin, (uint32_t)(piece[i].cut - r->cut));
        if (!k->root) return fail(TG_LIMIT, "a kernel reads more than %d tensors", KERNEL_PARAMS);
        mine = one_more(r->arena, mine, first);
    }
    known = graph_buffer_count(r->g);
    if (mine) find_once(s, mine + 1, mine[0], NEW_N(r->arena, uint8_t, known + 1), known);
    return graph_error(r->g);
}
