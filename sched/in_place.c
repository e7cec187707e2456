/* In place: whether what a kernel stores may lie where it reads.
 *
 * Comes in: linear code. Goes out: the params whose memory the stored one may have. Each load of such a param comes
 * before every store of its bytes. Either the load is of exactly the elements that a store behind it replaces, and no
 * element is stored twice; or it precedes the stores in each iteration of the loops that are around both, and no
 * iteration loads what another stores (a softmax's rows, which a window of scores holds). */
#include "graph/base/memory.h"
#include "sched/chain.h"

#include <string.h>

/* An access of a param: its address, and the loops around it, the outermost first. */
typedef struct { const UOp *address, *loop[DIGITS_MAX]; uint32_t at, depth; bool stores; } Access;
typedef struct { Access *access; uint32_t n; const UOp *range[64]; } Accesses;

/* false: loops are too many. */
static bool find_accesses(Accesses *all, const UOp *linear)
{
    const UOp *open[DIGITS_MAX];
    uint32_t depth = 0;
    for (uint32_t i = 0; i < linear->nsrc; i++) {
        const UOp *u = linear->src[i], *address = u->nsrc ? u->src[0] : NULL;
        if (u->op == UOP_RANGE) {
            if (depth == DIGITS_MAX) return false;
            all->range[range_number(u)] = open[depth++] = u;
        }
        depth -= u->op == UOP_END;
        bool access = u->op == UOP_LOAD || u->op == UOP_STORE;
        if (!access || address->nsrc < 2 || address->src[0]->op != UOP_PARAM) continue;
        Access *a = &all->access[all->n++];
        *a = (Access){ .address = address, .at = i, .depth = depth, .stores = u->op == UOP_STORE };
        memcpy(a->loop, open, depth * sizeof *open);
    }
    return true;
}

static bool same_elements(const UOp *a, const UOp *b)
{
    bool same = a->op == b->op && a->nsrc == b->nsrc;
    for (uint32_t k = 1; k < a->nsrc && same; k++) same = a->src[k] == b->src[k];
    return same;
}

/* Iterations of loops times elements; -1: not known. */
static int64_t times(const UOp *const *loop, uint32_t n, int64_t elements)
{
    for (uint32_t k = 0; k < n && elements > 0; k++)
        elements = uop_is_const(loop[k]->src[0]) ? elements * loop[k]->src[0]->arg.i : -1;
    return elements;
}

int64_t kernel_elements(const Kernel *k)
{
    int64_t sum = 0;
    for (uint32_t i = 0; i < k->root->nsrc && sum >= 0; i++) {
        const UOp *end = k->root->src[i];
        int64_t n = end->op == UOP_END ? times(end->src + 1, end->nsrc - 1, 1) : -1;
        sum = n < 0 ? -1 : sum + n;
    }
    return sum;
}

/* As many elements are stored as must be: none twice. */
static bool stores_once(const Accesses *all, int64_t elements)
{
    int64_t sum = 0;
    for (uint32_t i = 0; i < all->n && sum >= 0; i++) {
        const Access *s = &all->access[i];
        int64_t n = s->stores ? times(s->loop, s->depth, access_width(s->address)) : 0;
        sum = n < 0 ? -1 : sum + n;
    }
    return sum == elements;
}

/* The load comes first in each iteration of the loops around both, and iterations keep to themselves. */
static bool precedes(Accesses *all, const Access *load, const Access *store)
{
    Digit digit[DIGITS_MAX];
    uint32_t n = 0;
    for (uint32_t k = 0; k < load->depth && k < store->depth && load->loop[k] == store->loop[k]; k++) {
        if (!uop_is_const(load->loop[k]->src[0])) return false;
        digit[n++] = (Digit){ load->loop[k], load->loop[k]->src[0]->vmax, 1 };
    }
    bool shared = false;                                /* by threads, each of which loads before all that it stores */
    for (uint32_t k = n; k < store->depth; k++) shared |= range_type(store->loop[k]) == AXIS_THREAD;
    if (load->at > store->at || shared) return false;
    if (!n) return true;
    Slice a = access_slice(load->address, NULL, all->range, digit, n),
          b = access_slice(store->address, NULL, all->range, digit, n);
    return b.every == 1 && slices_disjoint(&a, &b);
}

static bool is_safe(Accesses *all, const Access *load)
{
    bool replaced = false, first = true;
    for (uint32_t i = 0; i < all->n && !replaced; i++) {
        const Access *s = &all->access[i];
        replaced = s->stores && load->at < s->at && same_elements(load->address, s->address);
    }
    for (uint32_t i = 0; i < all->n && !replaced && first; i++)
        first = !all->access[i].stores || precedes(all, load, &all->access[i]);
    return replaced || first;
}

static bool fits(const Kernel *k, uint32_t read, uint32_t written)
{
    const KernelParam *r = &k->param[read], *w = &k->param[written];
    return r->read && !r->written && !r->constant && !r->guard && uop_memory(r->buffer) == r->buffer &&
        r->buffer->dtype == w->buffer->dtype && uop_static(r->buffer) && uop_static(w->buffer) &&
        kernel_param_bytes(k, read) == kernel_param_bytes(k, written);
}

uint64_t kernel_in_place(const Kernel *k, int64_t elements)
{
    uint32_t stored = 0, written = 0;
    uint64_t out = 0;
    for (uint32_t i = 0; i < k->nparam; i++)
        if (k->param[i].written) written = i, stored += 1 + k->param[i].read;
    if (stored != 1 || elements <= 0) return 0;
    for (uint32_t i = 0; i < k->nparam; i++) out |= fits(k, i, written) ? UINT64_C(1) << i : 0;
    if (!out) return 0;
    Accesses all = { .access = mem_new(sizeof *all.access * ((size_t)k->linear->nsrc + 1)) };
    if (!find_accesses(&all, k->linear) || !stores_once(&all, elements)) out = 0;
    for (uint32_t i = 0; i < all.n && out; i++) {
        uint64_t param = UINT64_C(1) << all.access[i].address->src[0]->arg.i;
        if (!all.access[i].stores && out & param && !is_safe(&all, &all.access[i])) out &= ~param;
    }
    mem_free(all.access);
    return out;
}
