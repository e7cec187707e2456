/* Layout: in which order the axes of each intermediate buffer lie, and how wide a halo of zeros surrounds it. Until
 * here every access is an INDEX with one expression an axis; a layout is a substitution on one buffer, after which
 * every INDEX is flat.
 *
 * Order: the axis with most votes (votes.c) moves to the end. Constants, inputs, outputs and what host functions touch
 * keep their order; where that costs much, a copy has another (reorder.c). Halo: a load gated by exactly "the index
 * lies inside" reads zeros outside; with a margin of stored zeros the gate goes away. Such a buffer is zeroed once, or
 * each time before it is stored (plan.c). Last, kernels get their key, name and counts. The calls of a function share
 * their kernels' graphs: they are looked at once, and made flat once for all calls whose buffers lie alike.
 */
#include <stdlib.h>
#include <string.h>

#include "graph/base/map.h"
#include "graph/base/parallel.h"
#include "graph/rewrite.h"
#include "graph/rules/poly.h"
#include "sched/halo.h"
#include "sched/layout.h"
#include "sched/rangeify.h"

/* SIZES_MAX: values of a variable that are tried; LANES_LEAST: elements along an axis that is worth being the last */
enum { SIZES_MAX = 1 << 14, LANES_LEAST = 8 };
static const float CHOSEN = 1e12f;            /* nanoseconds that a list's order saves, for all that is known */

/* ---- halo ---- */

static void conjuncts(const UOp *v, const UOp **list, uint32_t *n)
{
    if (v->op == UOP_AND && v->dtype == DT_BOOL) {
        for (uint32_t k = 0; k < 2; k++) conjuncts(v->src[k], list, n);
    } else if (*n < 32) list[(*n)++] = v;
}

static void remove_from(const UOp **list, uint32_t *n, const UOp *v)
{
    for (uint32_t i = 0; i < *n; i++)
        if (list[i] == v) list[i] = list[--*n];
}

/* The one variable in u, which has none yet or that one. */
static bool one_variable(const UOp *u, const UOp **var)
{
    if (u->op == UOP_DEFINE_VAR) return !*var || *var == u ? (*var = u, true) : false;
    for (uint32_t k = 0; k < u->nsrc; k++)
        if (!one_variable(u->src[k], var)) return false;
    return true;
}

static bool the_variable(const void *from, const UOp *u, int64_t *out)
{
    if (u->op == UOP_DEFINE_VAR) *out = *(const int64_t *)from;
    return u->op == UOP_DEFINE_VAR;
}

/* INT64_MAX: it is no arithmetic of that variable. */
static int64_t value_at(const UOp *u, int64_t var)
{
    int64_t v;
    return uop_value(u, the_variable, &var, &v) ? v : INT64_MAX;
}

/* The largest value of an expression of sizes: where the bounds of its parts say too little (a half, twice, less the
 * whole), all values of its variable are tried. */
static int64_t largest(const UOp *u)
{
    const UOp *var = NULL;
    if (u->vmax <= HALO_MAX || !one_variable(u, &var) || !var || var->vmax - var->vmin > SIZES_MAX) return u->vmax;
    int64_t most = INT64_MIN;
    for (int64_t n = var->vmin; n <= var->vmax && most <= HALO_MAX; n++) {
        int64_t v = value_at(u, n);
        if (v > most) most = v;
    }
    return most;
}

/* How far an index reaches over the end of an axis, at most; INT64_MAX: nobody knows. */
static int64_t overhang(const Kernel *k, Rewriter *rw, const UOp *i, const UOp *size)
{
    if (uop_is_const(size)) return i->vmax < size->vmax + HALO_MAX ? i->vmax - size->vmax + 1 : INT64_MAX;
    Poly p, end;
    poly_init(&p, k->g, DT_INDEX);
    if (!poly_add(&p, i, 1) || !poly_add(&p, size, -1) || !poly_extreme(&end, &p, true)) return INT64_MAX;
    int64_t over = largest(rewriter_run(rw, poly_build(&end)));
    return over <= HALO_MAX ? over + 1 : INT64_MAX;
}

/* Does a margin make this load's gate superfluous: does it say nothing but that each axis lies inside? m: the margin
 * that it needs. */
static bool halo_serves(const Kernel *k, Rewriter *rw, const UOp *load, Margin *m)
{
    Graph *g = k->g;
    const UOp *index = index_of(load), *rest[32];
    uint32_t n = 0;
    double grown = 1, plain = 1;
    int32_t *before = m->before, *after = m->after;
    if (load->nsrc < 3 || load->src[1]->op != UOP_CONST || (load->src[1]->arg.i && dtype_size((DType)load->dtype) != 1))
        return false;
    m->fill = (uint8_t)load->src[1]->arg.i;
    conjuncts(load->src[2], rest, &n);
    for (uint32_t a = 1; a < index->nsrc; a++) {
        const UOp *i = index->src[a], *size = uop_dim(index->src[0], a - 1);
        int64_t over = overhang(k, rw, i, size);
        if (i->vmin < -HALO_MAX || over > HALO_MAX) return false;
        before[a - 1] = i->vmin < 0 ? (int32_t)-i->vmin : 0;
        after[a - 1] = over > 0 ? (int32_t)over : 0;
        if (before[a - 1])
            remove_from(rest, &n,
                        rewriter_run(rw,
                                     UOP(g, UOP_CMPNE, DT_VOID, NO_ARG,
                                         UOP(g, UOP_CMPLT, DT_VOID, NO_ARG, i, uop_index(g, 0)), uop_bool(g, true))));
        if (after[a - 1] || !uop_is_const(size))
            remove_from(rest, &n, rewriter_run(rw, UOP(g, UOP_CMPLT, DT_VOID, NO_ARG, i, size)));
        plain *= (double)size->vmax;
        grown *= (double)(size->vmax + before[a - 1] + after[a - 1]);
    }
    return !n && grown <= 2 * plain + 4096;
}

static void margins(Facts *f, const Kernel *k, Arena *scratch)
{
    uint32_t n;
    Rewriter *rw = rewriter_new(k->g, rules_symbolic(), NULL);
    const UOp **order = uop_toposort(k->g, &k->root, 1, scratch, &n);
    for (uint32_t i = 0; i < n; i++) {
        Margin m = { .next = f->margin };
        if (order[i]->op != UOP_LOAD || index_of(order[i])->op != UOP_INDEX ||
            index_of(order[i])->src[0]->op != UOP_PARAM)
            continue;
        m.slot = index_of(order[i])->src[0]->arg.i;
        if (uop_rank(k->param[m.slot].buffer) <= AXES && halo_serves(k, rw, order[i], &m))
            f->margin = arena_copy(scratch, &m, sizeof m);
    }
    rewriter_free(rw);
}

static bool has_halo(const Layout *l)
{
    for (uint32_t a = 0; l && a < l->rank && a < AXES; a++)
        if (l->before[a] || l->after[a]) return true;
    return false;
}

static void want_halo(Layout *all, const Kernel *k, const Margin *m)
{
    for (; m; m = m->next) {
        Layout *l = layout_of(all, k->param[m->slot].buffer);
        if (!l || l->fixed || l->bare || (m->fill && !l->filled) || (has_halo(l) && l->fill != m->fill)) continue;
        l->fill = m->fill;
        for (uint32_t a = 0; a < l->rank; a++) {
            if (l->before[a] < m->before[a]) l->before[a] = m->before[a];
            if (l->after[a] < m->after[a]) l->after[a] = m->after[a];
        }
    }
}

/* ---- substitution ---- */

/* Storage order of axes: as they are, with `last` moved to the end. */
static uint32_t storage(const Layout *l, uint32_t rank, uint32_t k)
{
    return !l || l->fixed || k < l->last ? k : k + 1 < rank ? k + 1 : l->last;
}

static const UOp *stored_size(Graph *g, const Layout *l, const UOp *dim, uint32_t axis)
{
    int64_t margin =
        l && axis < AXES ? l->before[axis] + l->after[axis] + (axis == l->last ? l->added : 0) : 0;
    return margin ? index_math(g, UOP_ADD, dim, uop_index(g, margin)) : dim;
}

static const UOp *flat_index(Graph *g, Rewriter *rw, const Layout *l, const UOp *param, const UOp *const *idx)
{
    uint32_t rank = uop_rank(param);
    const UOp *flat = uop_index(g, 0), *stride = uop_index(g, 1);
    for (uint32_t k = rank; k-- > 0;) {
        uint32_t a = storage(l, rank, k);
        const UOp *i =
            l && a < AXES && l->before[a] ? index_math(g, UOP_ADD, idx[a], uop_index(g, l->before[a])) : idx[a];
        flat = index_math(g, UOP_ADD, flat, index_math(g, UOP_MUL, i, stride));
        stride = index_math(g, UOP_MUL, stride, stored_size(g, l, uop_dim(param, a), a));
    }
    return rewriter_run(rw, flat);
}

static const UOp *flat_param(Graph *g, Rewriter *rw, const Layout *l, const UOp *param)
{
    const UOp *n = uop_index(g, 1);
    for (uint32_t a = 0; a < uop_rank(param); a++)
        n = index_math(g, UOP_MUL, n, stored_size(g, l, uop_dim(param, a), a));
    n = rewriter_run(rw, n);
    return uop_param(g, (DType)param->dtype, &n, 1, param->arg.i);
}

static void flatten_kernel(Layout *all, Kernel *k)
{
    Graph *g = k->g;
    Arena *scratch = arena_new();
    Rewriter *rw = rewriter_new(g, rules_symbolic(), NULL);
    uint32_t n;
    const UOp **order = uop_toposort(g, &k->root, 1, scratch, &n), **map = NEW_N(scratch, const UOp *, graph_count(g));
    for (uint32_t i = 0; i < n; i++) {
        const UOp *u = order[i], *src[65];
        Margin m;
        if (u->nsrc > 64) {
            map[u->id] = u;
            continue;
        }
        for (uint32_t s = 0; s < u->nsrc; s++) src[s] = map[u->src[s]->id];
        const UOp *at = u->op == UOP_INDEX && u->src[0]->op == UOP_PARAM ? u->src[0] : NULL;
        if (at) {
            const Layout *l = layout_of(all, k->param[at->arg.i].buffer);
            map[u->id] =
                UOP(g, UOP_INDEX, DT_VOID, NO_ARG, flat_param(g, rw, l, at), flat_index(g, rw, l, at, src + 1));
            continue;
        }
        uint32_t ns = u->nsrc;
        if (u->op == UOP_LOAD && ns == 3 && index_of(u)->op == UOP_INDEX && index_of(u)->src[0]->op == UOP_PARAM) {
            const Layout *l = layout_of(all, buffer_of(k, index_of(u)));
            if (has_halo(l) && halo_serves(k, rw, u, &m) && l->fill == m.fill) ns = 1;
        }
        map[u->id] = uop_with_n(g, u, src, ns);
    }
    k->root = rewriter_run(rw, map[k->root->id]);
    rewriter_free(rw);
    arena_free(scratch);
}

/* Kernels of one key are one graph. */
static void share_equal(Map *known, Kernel *k)
{
    Kernel *like = map_gets(known, k->key);
    if (!like) {
        map_puts(known, k->key, k);
        return;
    }
    graph_free(k->g);
    k->owner = like;
    k->g = like->g;
    k->root = like->root;
    k->var = like->var;
}

/* ---- calls of a function ---- */

static const Kernel *family(const Kernel *k) { return k->owner ? k->owner : k; }

static bool lie_alike(const Layout *all, const UOp *a, const UOp *b)
{
    static const Layout plain = { .fixed = true };
    const Layout *x = a->op == UOP_BUFFER ? &all[buffer_slot(a)] : &plain,
                 *y = b->op == UOP_BUFFER ? &all[buffer_slot(b)] : &plain;
    uint32_t rank = uop_rank(a), end = rank ? rank - 1 : 0;
    return (x->fixed ? end : x->last) == (y->fixed ? end : y->last) &&
        x->added == y->added && !memcmp(x->before, y->before, sizeof x->before) &&
        !memcmp(x->after, y->after, sizeof x->after);
}

static bool same_places(const Layout *all, const Kernel *a, const Kernel *b)
{
    bool same = family(a) == family(b);
    for (uint32_t p = 0; same && p < a->nparam; p++)
        same = a->param[p].constant == b->param[p].constant && a->param[p].far == b->param[p].far &&
            lie_alike(all, a->param[p].buffer, b->param[p].buffer);
    return same;
}

/* For each item the number + 1 of an earlier one whose flat form is its own; kernels that find none get a graph of
 * their own. */
static uint32_t *find_equals(Schedule *s, const Layout *all, Arena *scratch)
{
    uint32_t *equal = NEW_N(scratch, uint32_t, s->count + 1);
    for (uint32_t i = 0; i < s->count; i++) {
        Kernel *k = s->item[i].kernel;
        for (uint32_t j = 0; k && k->owner && j < i && !equal[i]; j++)
            if (s->item[j].kernel && !equal[j] && same_places(all, k, s->item[j].kernel)) equal[i] = j + 1;
    }
    return equal;
}

static Kernel *with_params_of(Kernel *k, Kernel *own)
{
    Kernel *c = kernel_shared(k);
    memcpy(c->param, own->param, sizeof own->param);
    kernel_free(own);
    return c;
}

static void give_graphs(Schedule *s, const uint32_t *equal)
{
    for (uint32_t i = 0; i < s->count; i++) {
        Kernel *k = s->item[i].kernel;
        if (!k || !k->owner || equal[i]) continue;
        s->item[i].kernel = kernel_clone(k);
        kernel_free(k);
    }
}

/* ---- the stage ---- */

static void fix(Layout *all, const UOp *b)
{
    Layout *l = layout_of(all, b);
    if (l) l->fixed = true;
}

static void fix_seen_outside(Schedule *s, Layout *all)
{
    for (uint32_t b = 0; b < graph_buffer_count(s->g); b++) {
        all[b].rank = graph_buffer(s->g, b)->shape->rank;
        all[b].fixed = graph_buffer(s->g, b)->data || all[b].rank < 2 || all[b].rank > AXES;
    }
    for (uint32_t k = 0; k < s->noutput; k++) fix(all, s->output[k]);
    for (uint32_t i = 0; i < s->count; i++) {
        ScheduleItem *item = &s->item[i];
        for (uint32_t k = 1; item->call && k < item->call->nsrc; k++) fix(all, item->call->src[k]);
        for (uint32_t k = 0; k < item->nout; k++)
            if (item->out[k]) fix(all, item->out[k]);
        for (uint32_t k = 0; k < 2; k++)
            if (item->mem[k]) fix(all, item->mem[k]);
        for (uint32_t k = 0; item->once && k < item->kernel->nparam; k++) fix(all, item->kernel->param[k].buffer);
    }
}

/* The zeros around a value of symbolic size lie elsewhere in each run: only a device that makes them anew can have
 * them, and only where no jump may come to another kernel first (plan.c). So it is with bytes other than zero, with
 * which no memory is filled at load. */
static void allow_halos(Schedule *s, Layout *all, const Target *t, const uint8_t *once)
{
    bool clears = t->clears_halos;
    for (uint32_t i = 0; i < s->count; i++) clears &= s->item[i].kind != ITEM_LOOP && s->item[i].kind != ITEM_IF;
    for (uint32_t b = 0; b < graph_buffer_count(s->g); b++) {
        all[b].filled = clears && !once[b];
        all[b].bare = !clears && !shape_static(graph_buffer(s->g, b)->shape);
    }
}

/* Buffers that only kernels at load write. */
static void written_once(const Schedule *s, uint8_t *once)
{
    for (int pass = 0; pass < 2; pass++)
        for (uint32_t i = 0; i < s->count; i++)
            if (s->item[i].kernel && s->item[i].once == !pass)
                once[buffer_slot(s->item[i].kernel->param[0].buffer)] = !pass;
    for (uint32_t i = 0; i < s->count; i++)
        if (s->item[i].kind == ITEM_COPY && s->item[i].mem[0]->op == UOP_BUFFER)
            once[buffer_slot(s->item[i].mem[0])] = 0;
}

static void choose(Layout *all, uint32_t n)
{
    for (uint32_t b = 0; b < n; b++) {
        Layout *l = &all[b];
        l->last = (uint8_t)(l->rank ? l->rank - 1 : 0);
        for (uint32_t a = 0; !l->fixed && a < l->rank; a++)
            if (l->vote[a] > l->vote[l->last]) l->last = (uint8_t)a;
    }
}

/* A list's axis outweighs all votes, and reaches the buffers that share them. */
static void vote_choices(const Schedule *s, Layout *all, Choices *choices)
{
    for (uint32_t b = 0; choices && b < graph_buffer_count(s->g); b++) {
        uint32_t value = graph_buffer(s->g, b)->value;
        const ScheduleOp *op = value && !all[b].fixed ? choices_find(choices, SCHED_LAST, value) : NULL;
        if (op && op->axis < all[b].rank) all[b].vote[op->axis] = CHOSEN;
    }
}

/* The axis with the next most votes. */
static void offer_orders(const Schedule *s, const Layout *all, Choices *choices)
{
    for (uint32_t b = 0; choices && b < graph_buffer_count(s->g); b++) {
        const Layout *l = &all[b];
        const BufferInfo *info = graph_buffer(s->g, b);
        uint32_t next = l->last;
        for (uint32_t a = 0; !l->fixed && a < l->rank; a++)
            if (a != l->last && l->vote[a] > 0 && info->shape->dim[a]->vmax >= LANES_LEAST &&
                (next == l->last || l->vote[a] > l->vote[next]))
                next = a;
        if (info->value && next != l->last)
            choices_offer(choices, (ScheduleOp){ SCHED_LAST, info->value, next },
                          uop_buffer(s->g, info->dtype, info->shape->dim, info->shape->rank, b, SPACE_GLOBAL));
    }
}

static const Halo *halo_of(Schedule *s, const Layout *l, const BufferInfo *info)
{
    HaloAxis axis[AXES];
    for (uint32_t k = 0; k < l->rank; k++) {
        uint32_t a = storage(l, l->rank, k);
        axis[k] = (HaloAxis){ .size = info->shape->dim[a], .before = l->before[a], .after = l->after[a] };
    }
    return halo_new(s->g, axis, l->rank, dtype_size(info->dtype), l->fill);
}

static int64_t stored_bytes(Graph *g, const Layout *l, const BufferInfo *info)
{
    int64_t bytes = dtype_size(info->dtype);
    for (uint32_t a = 0; a < l->rank; a++) bytes *= stored_size(g, l, info->shape->dim[a], a)->vmax;
    return bytes;
}

static void resize_buffers(Schedule *s, const Layout *all)
{
    for (uint32_t b = 0; b < graph_buffer_count(s->g); b++) {
        BufferInfo *info = graph_buffer(s->g, b);
        if (all[b].added) info->size_bytes = (size_t)stored_bytes(s->g, &all[b], info);
        if (!has_halo(&all[b])) continue;
        info->zeroed = true;
        info->halo = halo_of(s, &all[b], info);
        for (uint32_t first = 0; first < b; first++) {
            const Halo *h = graph_buffer(s->g, first)->halo;
            if (h && halo_same(h, info->halo)) info->halo = h;
        }
        info->size_bytes = (size_t)halo_bytes(info->halo);
    }
}

static Facts **read_kernels(Schedule *s, Arena *scratch)
{
    Facts **facts = NEW_N(scratch, Facts *, s->count + 1);
    for (uint32_t i = 0; i < s->count; i++) {
        Kernel *k = s->item[i].kernel;
        for (uint32_t j = 0; k && k->owner && j < i && !facts[i]; j++)
            if (s->item[j].kernel == k->owner)
                facts[i] = facts[j], k->flops = k->owner->flops, k->bytes = k->owner->bytes;
        if (!k || facts[i]) continue;
        facts[i] = NEW(scratch, Facts);
        kernel_count(k);
        layout_accesses(&facts[i]->access, k, scratch);
        margins(facts[i], k, scratch);
    }
    return facts;
}

static void mark_constants(const Schedule *s, Kernel *k, const uint8_t *once)
{
    for (uint32_t p = 0; p < k->nparam; p++) {
        const UOp *b = k->param[p].buffer;
        k->param[p].constant = !k->param[p].written && b->op == UOP_BUFFER &&
            (graph_buffer(s->g, buffer_slot(b))->data || once[buffer_slot(b)]);
    }
}

/* ---- what is read when caches hold it no more ---- */

static int64_t moved_bytes(const Kernel *k)
{
    int64_t bytes = 0;
    for (uint32_t p = 0; p < k->nparam; p++) bytes += size_in_bytes(k->param[p].buffer);
    return bytes;
}

static bool reads_buffer(const Kernel *k, const UOp *memory)
{
    for (uint32_t p = 0; p < k->nparam; p++)
        if (k->param[p].read && uop_memory(k->param[p].buffer) == memory) return true;
    return false;
}

static bool has_fixed_size(const UOp *b)
{
    for (uint32_t k = 0; k < uop_rank(b); k++)
        if (!uop_is_const(uop_dim(b, k))) return false;
    return true;
}

/* More is moved between the store of a value and its first reader than the last cache holds; of a result, more than the
 * half of it that others leave (the magnitudes of 3.6 million numbers with 48 MB, on two cores: 0.63 ms, past the
 * caches 0.44; of 8 million 2.45, 1.18). */
static bool is_far(const Schedule *s, uint32_t item, const UOp *memory, const Target *t)
{
    int64_t moved = moved_bytes(s->item[item].kernel), room = t->l3_bytes;
    for (uint32_t i = item + 1; i < s->count && moved <= room; i++) {
        const Kernel *k = s->item[i].kernel;
        if (s->item[i].once) continue;
        if (!k || reads_buffer(k, memory)) return false;
        moved += moved_bytes(k);
    }
    return moved > room / 2;
}

static void mark_far(const Schedule *s, uint32_t item, const Target *t)
{
    Kernel *k = s->item[item].kernel;
    bool any = t->has_streams && t->l3_bytes && !s->item[item].once;
    for (uint32_t p = 0; p < k->nparam && any; p++) {
        const KernelParam *a = &k->param[p];
        k->param[p].far = a->written && !a->read && !a->guard && has_fixed_size(a->buffer) &&
            size_in_bytes(a->buffer) > t->l2_bytes * t->threads && is_far(s, item, uop_memory(a->buffer), t);
    }
}

typedef struct { Schedule *s; Layout *all; const Target *t; const uint32_t *equal; } Flatten;

static void flatten_one(void *flatten, uint32_t i)
{
    const Flatten *f = flatten;
    Kernel *k = f->s->item[i].kernel;
    if (!k || f->equal[i]) return;
    flatten_kernel(f->all, k);
    kernel_loops(k, f->t);
    kernel_compact(k);
    kernel_key(k);
    kernel_name(k);
}

static TgStatus flatten(Schedule *s, Layout *all, const Target *t, Arena *scratch)
{
    const uint32_t *equal = find_equals(s, all, scratch);
    Map known;
    map_init(&known, scratch);
    give_graphs(s, equal);
    TRY(parallel_all(target_workers(t), s->count, flatten_one, &(Flatten){ s, all, t, equal }));
    for (uint32_t i = 0; i < s->count; i++) {
        Kernel *k = s->item[i].kernel;
        if (k && equal[i]) s->item[i].kernel = with_params_of(s->item[equal[i] - 1].kernel, k);
        else if (k) share_equal(&known, k);
    }
    return TG_OK;
}

/* Read in pairs along a loop, one beside the other: so a unit wants them (parts.c). */
static bool in_pairs(const UOp *index)
{
    const UOp *last = index->src[index->nsrc - 1];
    return index->nsrc > 1 && last->op == UOP_MOD && uop_is_int_const(last->src[1], 2) &&
        uop_is_int_const(uop_dim(index->src[0], index->nsrc - 2), 2);
}

static void fix_pairs(Schedule *s, Layout *all, Facts *const *facts)
{
    for (uint32_t i = 0; i < s->count; i++)
        for (uint32_t j = 0; s->item[i].kernel && j < facts[i]->access.nload; j++) {
            const UOp *index = facts[i]->access.load[j];
            Layout *l = layout_of(all, buffer_of(s->item[i].kernel, index));
            if (l && in_pairs(index)) l->fixed = true;
        }
}

TgStatus sched_layout(Schedule *s, const Target *t, Choices *choices)
{
    Arena *scratch = arena_new();
    uint32_t room = graph_buffer_count(s->g) + s->count + 1;       /* reorder adds a buffer an item at most */
    Layout *all = NEW_N(scratch, Layout, room);
    uint8_t *once = NEW_N(scratch, uint8_t, room);
    fix_seen_outside(s, all);
    written_once(s, once);
    allow_halos(s, all, t, once);
    Facts **facts = read_kernels(s, scratch);
    fix_pairs(s, all, facts);
    if (t->has_threads) facts = layout_reorder(s, all, facts, once, scratch, t);
    vote_choices(s, all, choices);
    layout_vote(s, all, facts, once);
    choose(all, graph_buffer_count(s->g));
    offer_orders(s, all, choices);
    for (uint32_t i = 0; i < s->count; i++) {
        if (!s->item[i].kernel) continue;
        want_halo(all, s->item[i].kernel, facts[i]->margin);
        mark_constants(s, s->item[i].kernel, once);
        mark_far(s, i, t);
    }
    if (t->has_threads) layout_rows(s, all, facts, once, scratch);
    TgStatus status = flatten(s, all, t, scratch);
    if (status == TG_OK) resize_buffers(s, all);
    arena_free(scratch);
    return status;
}
