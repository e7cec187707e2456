/* Prefetch: a loop that fills staged tiles in turn (STAGE of depth 2) fetches the tile of its next iteration while it
 * computes on this iteration's.
 *
 * Comes in: form 6 (after linearize, on a GPU) with loops as
 *     for r { BARRIER; t = LOAD memory(r); STORE tile(r % 2), t; BARRIER; .. LOAD tile(r % 2) .. }
 * Goes out:
 *     STORE tile(0), LOAD memory(0); BARRIER;  for r { t = LOAD memory(min(r + 1, last)); .. LOAD tile(r % 2) ..; STORE
 * tile((r + 1) % 2), t; BARRIER } One BARRIER an iteration is enough: it divides the reads of a tile from the writes
 * two iterations on. The tile after the last is the last again, and nobody reads it. Must hold: the loop body's own
 * barriers are those of its tiles. Else the loop stays as it is, which is right too.
 */
#include <string.h>

#include "graph/rewrite.h"
#include "sched/rangeify.h"

typedef struct {
    Kernel *k;
    Graph *g;
    Arena *arena;
    const UOp **out;
    uint32_t n, cap, ids;
    uint8_t *cone, *own;            /* by id: what the tiles' stores need; what only they need */
    uint8_t *done;                  /* by id: stands in `out`, in a block that is open */
    uint32_t room, open[64], depth; /* ids that done has; where the open blocks begin */
    const UOp *loop[64];            /* by number, those that have begun */
} Prefetch;

static const UOp *memory_under(const UOp *address)
{
    const UOp *m = address->op == UOP_INDEX || address->op == UOP_SHRINK ? address->src[0] : address;
    while (m->op == UOP_AFTER) m = m->src[0];
    return m;
}

static bool is_fill(const UOp *u)
{
    const UOp *m = u->op == UOP_STORE ? memory_under(u->src[0]) : NULL;
    return m && m->op == UOP_BUFFER && buffer_space(m) == SPACE_LOCAL;
}

static void set_done(Prefetch *p, const UOp *u, bool v)
{
    if (u->id >= p->room) {
        uint8_t *bigger = NEW_N(p->arena, uint8_t, u->id * 2);
        memcpy(bigger, p->done, p->room);
        p->done = bigger;
        p->room = u->id * 2;
    }
    p->done[u->id] = v;
}

/* What an END closes is gone behind it. */
static void push(Prefetch *p, const UOp *u)
{
    bool opens = u->op == UOP_RANGE || u->op == UOP_IF, closes = u->op == UOP_END || u->op == UOP_ENDIF;
    for (uint32_t i = closes && p->depth ? p->open[--p->depth] : p->n; i < p->n; i++) set_done(p, p->out[i], false);
    if (opens && p->depth < 64) p->open[p->depth++] = p->n;
    set_done(p, u, true);
    if (p->n == p->cap) {
        const UOp **bigger = NEW_N(p->arena, const UOp *, p->cap * 2);
        memcpy(bigger, p->out, p->n * sizeof *bigger);
        p->out = bigger;
        p->cap *= 2;
    }
    p->out[p->n++] = u;
}

/* ---- which loops ---- */

static uint32_t end_of(const UOp *linear, uint32_t at)
{
    uint32_t depth = 0;
    for (uint32_t i = at; i < linear->nsrc; i++) {
        depth += linear->src[i]->op == UOP_RANGE || linear->src[i]->op == UOP_IF;
        depth -= linear->src[i]->op == UOP_END || linear->src[i]->op == UOP_ENDIF;
        if (!depth) return i;
    }
    return at;
}

static void mark(uint8_t *set, const UOp *u)
{
    if (set[u->id]) return;
    set[u->id] = 1;
    if (u->op == UOP_PARAM || u->op == UOP_BUFFER || u->op == UOP_RANGE) return;
    for (uint32_t k = 0; k < u->nsrc; k++) mark(set, u->src[k]);
}

/* Fills stand in the body itself, and so does every barrier; no fill reads a variable or LOCAL memory. */
static bool fits(Prefetch *p, const UOp *linear, uint32_t from, uint32_t to)
{
    uint32_t depth = 0, fills = 0;
    memset(p->cone, 0, p->ids);
    memset(p->own, 0, p->ids);
    for (uint32_t i = from + 1; i < to; i++) {
        const UOp *u = linear->src[i];
        depth += u->op == UOP_RANGE || u->op == UOP_IF;
        depth -= u->op == UOP_END || u->op == UOP_ENDIF;
        if ((u->op == UOP_BARRIER || is_fill(u) || u->op == UOP_SHUFFLE) && depth) return false;
        if (u->op == UOP_SHUFFLE) return false;
        /* a tile without a second one */
        if (is_fill(u) && !(u->src[0]->ranges & range_bit(linear->src[from]))) return false;
        if (is_fill(u)) mark(p->cone, u), fills++;
    }
    for (uint32_t i = from + 1; i < to; i++) {
        const UOp *u = linear->src[i];
        if (p->cone[u->id] && u->op == UOP_LOAD && memory_under(u->src[0])->op == UOP_BUFFER) return false;
        /* for the moment: what the others need */
        if (!p->cone[u->id] && u->op != UOP_BARRIER) mark(p->own, u);
    }
    for (uint32_t i = 0; i < p->ids; i++) p->own[i] = p->cone[i] && !p->own[i];
    return fills > 0;
}

/* ---- the new loop ---- */

static bool is_silent(const UOp *u)
{
    bool address = (u->op == UOP_INDEX || u->op == UOP_SHRINK) &&
        (memory_under(u)->op == UOP_PARAM || memory_under(u)->op == UOP_BUFFER);
    return address || u->op == UOP_AFTER || u->op == UOP_PARAM || u->op == UOP_BUFFER || u->op == UOP_RANGE ||
        u->op == UOP_SPECIAL;
}

/* Emits u and what it needs and is not there yet. Sizes under SHRINK are no instructions. */
static void need(Prefetch *p, const UOp *u)
{
    if (u->id < p->room && p->done[u->id]) return;
    bool shrink = u->op == UOP_SHRINK && is_silent(u);
    for (uint32_t k = 0; k < u->nsrc && u->op != UOP_PARAM && u->op != UOP_BUFFER; k++)
        if (shrink && k) {
            for (uint32_t i = 0; k == 1 && i < u->src[1]->nsrc; i++) need(p, u->src[1]->src[i]);
        } else need(p, u->src[k]);
    if (!is_silent(u)) push(p, u);
}

/* The rules may say the size of a loop, which depends on variables, in other words: the loops stay those that are open.
 */
static const UOp *at_iteration(Prefetch *p, const UOp *u, const UOp *range, const UOp *iteration)
{
    u = graph_rewrite(p->g, uop_substitute(p->g, u, &range, &iteration, 1), rules_symbolic(), 0, NULL);
    const UOp *from[64], *to[64];
    uint32_t count, n = 0;
    const UOp **order = uop_toposort(p->g, &u, 1, p->arena, &count);
    for (uint32_t i = 0; i < count; i++) {
        const UOp *open = order[i]->op == UOP_RANGE ? p->loop[range_number(order[i])] : NULL;
        if (open && open != order[i]) from[n] = order[i], to[n++] = open;
    }
    return n ? uop_substitute(p->g, u, from, to, n) : u;
}

/* What a fill stores when the range is `iteration`, and where when it is `slot`. */
static const UOp *fill_at(Prefetch *p, const UOp *fill, const UOp *range, const UOp *iteration, const UOp *slot,
                          bool store)
{
    const UOp *value = uop_substitute(p->g, fill->src[1], &range, &iteration, 1);
    if (!store) return value;
    const UOp *address = at_iteration(p, fill->src[0], range, slot),
              *gate = fill->nsrc > 2 ? at_iteration(p, fill->src[2], range, iteration) : NULL;
    return gate ? UOP(p->g, UOP_STORE, DT_VOID, NO_ARG, address, value, gate)
                : UOP(p->g, UOP_STORE, DT_VOID, NO_ARG, address, value);
}

static void all_fills(Prefetch *p, const UOp *linear, uint32_t from, uint32_t to, const UOp *iteration, const UOp *slot,
                      bool store)
{
    for (uint32_t i = from + 1; i < to; i++)
        if (is_fill(linear->src[i])) need(p, fill_at(p, linear->src[i], linear->src[from], iteration, slot, store));
}

static void rebuild(Prefetch *p, const UOp *linear, uint32_t from, uint32_t to)
{
    Graph *g = p->g;
    const UOp *range = linear->src[from], *zero = uop_index(g, 0),
              *next = index_math(g, UOP_ADD, range, uop_index(g, 1)),
              *last = index_math(g, UOP_ADD, range->src[0], uop_index(g, -1));
    const UOp *more = UOP(g, UOP_CMPLT, DT_VOID, NO_ARG, range, last),
              *iteration = UOP(g, UOP_WHERE, DT_VOID, NO_ARG, more, next, last),
              *slot = index_math(g, UOP_MOD, next, uop_index(g, 2)), *barrier = NULL;
    for (uint32_t i = from + 1; i < to && !barrier; i++)
        if (linear->src[i]->op == UOP_BARRIER) barrier = linear->src[i];
    all_fills(p, linear, from, to, zero, zero, true);
    if (barrier) push(p, UOP0(g, UOP_BARRIER, DT_VOID, NO_ARG));
    push(p, range);
    all_fills(p, linear, from, to, iteration, slot, false);
    for (uint32_t i = from + 1; i < to; i++) {
        const UOp *u = linear->src[i];
        if (u->op == UOP_BARRIER || p->own[u->id] || (p->done[u->id] && u->op != UOP_END)) continue;
        push(p, u);
    }
    all_fills(p, linear, from, to, iteration, slot, true);
    if (barrier) push(p, UOP0(g, UOP_BARRIER, DT_VOID, NO_ARG));
    push(p, linear->src[to]);
}

void kernel_prefetch(Kernel *k)
{
    if (!k->rings) return;
    const UOp *linear = k->linear;
    Prefetch p = { .k = k, .g = k->g, .arena = arena_new(), .cap = linear->nsrc * 2 + 64, .ids = graph_count(k->g) };
    p.out = NEW_N(p.arena, const UOp *, p.cap);
    p.cone = NEW_N(p.arena, uint8_t, p.ids);
    p.own = NEW_N(p.arena, uint8_t, p.ids);
    p.done = NEW_N(p.arena, uint8_t, p.room = p.ids);
    for (uint32_t i = 0; i < linear->nsrc; i++) {
        const UOp *u = linear->src[i];
        bool ring = u->op == UOP_RANGE && (k->rings & range_bit(u));
        uint32_t end = ring ? end_of(linear, i) : 0;
        if (u->op == UOP_RANGE) p.loop[range_number(u)] = u;
        if (ring && fits(&p, linear, i, end)) {
            rebuild(&p, linear, i, end);
            i = end;
            continue;
        }
        push(&p, u);
    }
    k->linear = uop_new(k->g, UOP_LINEAR, DT_VOID, NO_ARG, p.out, p.n);
    arena_free(p.arena);
}
