/* Kernels as objects: copies, keys, names, counts. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "graph/base/memory.h"
#include "graph/base/parallel.h"
#include "sched/sched.h"

/* A core of AVX-512 machines (Ice Lake to Zen 5) beside three others; a GPU of H200's size. */
const Rates typical_cpu = { .hz = 2.6e9, .fma = 2, .load = 2, .store = 1, .l2_rate = 64, .l3_rate = 16,
                            .memory_rate = 4 * 20e9, .phase_s = 2e-6 };
const Rates typical_gpu = { .hz = 1.7e9, .fma = 1, .load = 1, .store = 1, .l2_rate = 20, .memory_rate = 4e12,
                            .phase_s = 1.5e-6 };

uint32_t target_workers(const Target *t)
{
    uint32_t cores = parallel_cores(), own = t->threads > 1 ? (uint32_t)t->threads : 1;
    return t->max_block || own > cores ? cores : own;
}

void kernel_free(Kernel *k)
{
    if (!k) return;
    if (!k->owner) graph_free(k->g);
    mem_free(k);
}

Kernel *kernel_shared(Kernel *k)
{
    Kernel *c = mem_new(sizeof *c);
    *c = *k;
    c->owner = k->owner ? k->owner : k;
    return c;
}

static const UOp *moved(Graph *g, const UOp *u) { return u ? uop_copy(g, u, NULL) : NULL; }

/* Brings what k holds beside root and linear from another graph to its own. */
static void move_small_parts(Kernel *k)
{
    Graph *g = k->g;
    const UOp *const *var = k->var;
    uint32_t nvar = k->nvar;
    for (k->nvar = 0; k->nvar < nvar;) kernel_add_var(k, moved(g, var[k->nvar]));
    for (uint32_t i = 0; i < k->nparam; i++)
        if (k->pack[i])
            k->pack[i] =
                arena_copy(graph_arena(g),
                           &(KernelPack){ moved(g, k->pack[i]->value), moved(g, k->pack[i]->at), k->pack[i]->numel },
                           sizeof **k->pack);
    for (uint32_t i = 0; i < 3; i++) k->grid[i] = moved(g, k->grid[i]), k->block[i] = moved(g, k->block[i]);
    k->thread_bound = moved(g, k->thread_bound);
}

/* The copy holds root (not linear): a search lowers many copies of one kernel. */
Kernel *kernel_clone(const Kernel *k)
{
    Kernel *c = mem_new(sizeof *c);
    *c = *k;
    c->g = graph_new();
    c->owner = NULL;
    c->root = uop_copy(c->g, k->root, NULL);
    move_small_parts(c);
    c->linear = NULL;
    return c;
}

void kernel_compact(Kernel *k)
{
    if (k->owner) return;
    Graph *old = k->g;
    k->g = graph_new();
    k->root = k->linear ? NULL : moved(k->g, k->root);
    k->linear = moved(k->g, k->linear);
    move_small_parts(k);
    graph_free(old);
}

/* What is still wanted of a kernel whose code is compiled, in g. */
static void keep_facts(Kernel *k, Graph *g)
{
    int64_t *bytes = NEW_N(graph_arena(g), int64_t, k->nparam + 1);
    Graph *old = k->g;
    for (uint32_t p = 0; p < k->nparam; p++) bytes[p] = kernel_param_bytes(k, p);
    k->param_bytes = bytes;
    k->vectors = kernel_vectors(k);
    k->overlaps = kernel_overlaps(k);
    k->root = k->linear = NULL;
    memset(k->pack, 0, sizeof k->pack);
    k->g = g;
    move_small_parts(k);
    if (!k->owner) graph_free(old);
}

/* One graph holds what is left: the kernels of a model know the same sizes. Those that share a graph come after its
 * owner. */
void schedule_forget_code(Schedule *s)
{
    Kernel *first = NULL;
    Graph *g = graph_new();
    for (uint32_t i = s->count; i-- > 0;) {
        Kernel *k = s->item[i].kernel;
        if (k && k->linear) keep_facts(first = k, g);
    }
    for (uint32_t i = 0; i < s->count; i++)
        if (s->item[i].kernel && s->item[i].kernel->g == g) s->item[i].kernel->owner = first;
    if (first) first->owner = NULL;
    else graph_free(g);
}

bool kernel_vectors(const Kernel *k)
{
    for (uint32_t i = 0; k->linear && i < k->linear->nsrc; i++)
        if (op_is((Op)k->linear->src[i]->op, FLAG_ALU) && uop_numel(k->linear->src[i]) > 1) return true;
    return !k->linear && k->vectors;
}

bool kernel_overlaps(const Kernel *k)
{
    for (uint32_t i = 0; k->linear && i < k->linear->nsrc; i++)
        if (k->linear->src[i]->op == UOP_WHERE && k->linear->src[i]->dtype == DT_INDEX) return true;
    return !k->linear && k->overlaps;
}

int64_t kernel_param_bytes(const Kernel *k, uint32_t slot)
{
    if (!k->linear) return k->param_bytes[slot];
    const UOp *b = k->param[slot].buffer;
    int64_t most = b ? size_in_bytes(b) : 0;
    for (uint32_t i = 0; i < k->linear->nsrc; i++) {
        const UOp *u = k->linear->src[i];
        int64_t bytes = u->op == UOP_PARAM && u->arg.i == slot ? uop_numel(u) * dtype_size((DType)u->dtype) : 0;
        if (bytes > most) most = bytes;
    }
    return most;
}

/* Structure only: the order of a fresh copy, which depends on neither ids nor addresses. */
void structure_bytes(Text *out, const UOp *const *order, uint32_t n, uint32_t *at)
{
    for (uint32_t i = 0; i < n; i++) {
        const UOp *u = order[i];
        struct {
            uint32_t op, dtype, tag, nsrc;
            int64_t arg;
            uint32_t blob, pad;
        } head = { u->op, u->dtype, u->tag, u->nsrc, u->arg.i, u->arg.blob ? u->arg.blob->size : 0, 0 };
        at[u->id] = i;
        text_bytes(out, (const char *)&head, sizeof head);
        if (u->arg.blob) text_bytes(out, (const char *)u->arg.blob->data, u->arg.blob->size);
        for (uint32_t k = 0; k < u->nsrc; k++) text_bytes(out, (const char *)&at[u->src[k]->id], sizeof *at);
    }
}

void kernel_key(Kernel *k)
{
    Arena *a = arena_new();
    Graph *g = graph_new();
    uint32_t n;
    const UOp *root = uop_copy(g, k->root, NULL), **order = uop_toposort(g, &root, 1, a, &n);
    Text t = { 0 };
    for (uint32_t i = 0; i < k->nparam; i++)
        text_bytes(&t, (const char *)&k->param[i].constant, sizeof k->param[i].constant);
    for (uint32_t i = 0; i < k->nparam; i++)
        if (k->param[i].far) text_add(&t, "far %u", i);
    structure_bytes(&t, order, n, NEW_N(a, uint32_t, graph_count(g)));
    XXH128_hash_t d = XXH3_128bits(t.s, t.len);
    snprintf(k->key, sizeof k->key, "%016llx%016llx", (unsigned long long)d.high64, (unsigned long long)d.low64);
    text_free(&t);
    graph_free(g);
    arena_free(a);
}

/* r (has a reduce) or e, the sizes of its loops, and eight digits of its key. */
void kernel_name(Kernel *k)
{
    const UOp *range[64];
    uint32_t n = opt_axes(k, range, 64);
    bool reduces = false;
    char sizes[40] = "";
    for (uint32_t i = 0; i < n; i++) {
        size_t len = strlen(sizes);
        reduces |= range_type(range[i]) == AXIS_REDUCE;
        if (len < 28) snprintf(sizes + len, sizeof sizes - len, "_%lld", (long long)range[i]->src[0]->vmax);
    }
    snprintf(k->name, sizeof k->name, "%s%s_%.8s", reduces ? "r" : "e", sizes, k->key);
}

/* Adds the ranges of REDUCEs below u, those of a sum of sums before those of the sums. The walk follows sources, not
 * ids: a copy of the kernel, whose ids differ, must give the same axes. */
typedef struct {
    const UOp **range;
    uint32_t n, cap;
    uint64_t seen;
    uint8_t *visited;
} Axes;

static void add_axes(Axes *x, const UOp *u)
{
    for (uint32_t i = 1; i < u->nsrc; i++) {
        if (!(x->seen & range_bit(u->src[i])) && x->n < x->cap) x->range[x->n++] = u->src[i];
        x->seen |= range_bit(u->src[i]);
    }
}

static void walk_reduces(Axes *x, const UOp *root, Arena *a, uint32_t ids)
{
    typedef struct { const UOp *u; uint32_t next; } Frame;
    Frame *stack = NEW_N(a, Frame, ids);
    uint32_t top = 1;
    stack[0].u = root;
    while (top) {
        Frame *f = &stack[top - 1];
        while (f->next < f->u->nsrc && x->visited[f->u->src[f->next]->id]) f->next++;
        if (f->next < f->u->nsrc) {
            const UOp *u = f->u->src[f->next++];
            stack[top++] = (Frame){ u, 0 };
            x->visited[u->id] = 1;
            if (u->op == UOP_REDUCE && !u->arg.blob) add_axes(x, u);
        } else top--;
    }
}

uint32_t opt_axes(const Kernel *k, const UOp **range, uint32_t cap)
{
    Arena *a = arena_new();
    Axes x = { .range = range, .cap = cap, .visited = NEW_N(a, uint8_t, graph_count(k->g)) };
    for (uint32_t e = 0; e < k->root->nsrc; e++)
        if (k->root->src[e]->op == UOP_END) add_axes(&x, k->root->src[e]);
    walk_reduces(&x, k->root, a, graph_count(k->g) + 1);
    arena_free(a);
    return x.n;
}

int opt_axis(const Kernel *k, int number)
{
    const UOp *axis[64];
    uint32_t n = opt_axes(k, axis, 64);
    for (uint32_t i = 0; i < n; i++)
        if (range_number(axis[i]) == number) return (int)i;
    return -1;
}

bool kernel_is_pure(const Kernel *k)
{
    for (uint32_t i = 0; i < k->nparam; i++)
        if (k->param[i].written && k->param[i].read) return false;
    return true;
}

int range_free(const UOp *const *order, uint32_t n)
{
    int top = 0;
    for (uint32_t i = 0; i < n; i++)
        if (order[i]->op == UOP_RANGE && range_number(order[i]) >= top) top = range_number(order[i]) + 1;
    return top;
}

int64_t local_free(const UOp *const *order, uint32_t n)
{
    int64_t next = 0;
    for (uint32_t i = 0; i < n; i++)
        if (order[i]->op == UOP_BUFFER && buffer_slot(order[i]) >= next) next = buffer_slot(order[i]) + 1;
    return next;
}

typedef struct { const Kernel *kernel; const int64_t *vars; } KernelVars;

static bool kernel_leaf(const void *from, const UOp *u, int64_t *out)
{
    const KernelVars *v = from;
    for (uint32_t i = 0; u->op == UOP_DEFINE_VAR && i < v->kernel->nvar; i++)
        if (v->kernel->var[i] == u || !strcmp(var_name(v->kernel->var[i]), var_name(u)))
            return *out = v->vars[i], true;
    return false;
}

int64_t kernel_value(const Kernel *k, const UOp *u, const int64_t *vars)
{
    int64_t v;
    return uop_value(u, kernel_leaf, &(KernelVars){ k, vars }, &v) ? v : 0;
}
