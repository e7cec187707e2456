/* Memory plan: places in the arena from lifetimes, and what must wait for what, from places.
 *
 * Comes in: lives (first and last step that need the bytes), or a plan whose buffers have places. Goes out: offsets
 * such that two buffers alive at one step never share a byte; sync flags such that no thread can run ahead into bytes
 * that another still writes or reads. Must hold: dependencies are computed on byte ranges, after placing, never on
 * buffers: places are reused.
 */
#include <stdlib.h>

#include "graph/base/memory.h"
#include "sched/plan.h"

static int64_t round_up(int64_t n, int64_t align) { return (n + align - 1) / align * align; }

static int by_size(const void *a, const void *b)
{
    const Life *x = *(Life *const *)a, *y = *(Life *const *)b;
    if (x->size_bytes != y->size_bytes) return x->size_bytes < y->size_bytes ? 1 : -1;
    if (x->first != y->first) return x->first < y->first ? -1 : 1;
    return x < y ? -1 : x > y;
}

static int by_offset(const void *a, const void *b)
{
    const Life *x = *(Life *const *)a, *y = *(Life *const *)b;
    return x->offset != y->offset ? (x->offset < y->offset ? -1 : 1) : x < y ? -1 : x > y;
}

typedef struct { Life **at; uint32_t n, cap; } Lives;

static void add_life(Lives *l, Life *x)
{
    if (l->n == l->cap) l->at = mem_grow(l->at, (l->cap = l->cap ? l->cap * 2 : 16) * sizeof *l->at);
    l->at[l->n++] = x;
}

/* What is placed, so that the few lives that meet one in time are found soon: the steps are cut into spells, a short
 * life stands in the list of each spell that it touches; long ones stand in one list, by offset. */
typedef struct {
    Lives *spell, lasting, met;
    uint32_t nspell, steps;
} Placed;
enum { LIVES_A_SPELL = 16, SHORT_SPELLS = 8 };

static uint32_t spell_of(const Placed *p, uint32_t step) { return (uint32_t)((uint64_t)step * p->nspell / p->steps); }

static void place_life(Placed *p, Life *x)
{
    uint32_t from = spell_of(p, x->first), to = spell_of(p, x->last);
    if (to - from < SHORT_SPELLS) {
        for (uint32_t i = from; i <= to; i++) add_life(&p->spell[i], x);
        return;
    }
    add_life(&p->lasting, x);
    Life **at = p->lasting.at;
    for (uint32_t k = p->lasting.n - 1; k && by_offset(&at[k - 1], &x) > 0; k--) at[k] = at[k - 1], at[k - 1] = x;
}

/* The short lives that x meets, by offset. One that stands in several spells is taken in the first that it shares with
 * x. */
static const Lives *meet(Placed *p, const Life *x)
{
    uint32_t from = spell_of(p, x->first), to = spell_of(p, x->last);
    p->met.n = 0;
    for (uint32_t i = from; i <= to; i++)
        for (uint32_t k = 0; k < p->spell[i].n; k++) {
            Life *y = p->spell[i].at[k];
            uint32_t begin = spell_of(p, y->first);
            if ((begin > from ? begin : from) == i && y->last >= x->first && x->last >= y->first) add_life(&p->met, y);
        }
    if (p->met.n) qsort(p->met.at, p->met.n, sizeof *p->met.at, by_offset);
    return &p->met;
}

/* The smallest gap that holds x among the placed lives that meet it in time; behind them all when none does. */
static int64_t best_fit(Placed *p, const Life *x, int64_t size)
{
    const Lives *near = meet(p, x), *far = &p->lasting;
    int64_t end = 0, best = -1, best_gap = INT64_MAX;
    for (uint32_t i = 0, j = 0; i < near->n || j < far->n;) {
        bool is_near = j == far->n || (i < near->n && near->at[i]->offset <= far->at[j]->offset);
        const Life *y = is_near ? near->at[i++] : far->at[j++];
        if (y->last < x->first || x->last < y->first) continue;
        if (y->offset - end >= size && y->offset - end < best_gap) best_gap = y->offset - end, best = end;
        if (y->offset + y->size_bytes > end) end = y->offset + y->size_bytes;
    }
    return best >= 0 ? best : end;
}

/* Largest first: the big ones decide the size of the arena, the small ones fill their gaps. */
int64_t memplan_place(Life *life, uint32_t n, int64_t align)
{
    Life **order = mem_new(sizeof *order * ((size_t)n + 1));
    Placed p = { .nspell = n / LIVES_A_SPELL + 1, .steps = 1 };
    int64_t bytes = 0;
    for (uint32_t k = 0; k < n; k++) {
        order[k] = &life[k];
        if (life[k].last >= p.steps) p.steps = life[k].last + 1;
    }
    p.spell = mem_zeros(p.nspell, sizeof *p.spell);
    qsort(order, n, sizeof *order, by_size);
    for (uint32_t k = 0; k < n; k++) {
        Life *x = order[k];
        x->size_bytes = round_up(x->size_bytes, align);
        x->offset = best_fit(&p, x, x->size_bytes);
        if (x->offset + x->size_bytes > bytes) bytes = x->offset + x->size_bytes;
        place_life(&p, x);
    }
    for (uint32_t i = 0; i < p.nspell; i++) mem_free(p.spell[i].at);
    mem_free(p.spell);
    mem_free(p.lasting.at);
    mem_free(p.met.at);
    mem_free(order);
    return bytes;
}

static bool overlap(const Plan *p, uint32_t a, uint32_t b)
{
    const PlanBuffer *x = &p->buffer[a], *y = &p->buffer[b];
    if (a == b) return true;
    if (x->kind != y->kind || (x->kind != MEM_ARENA && x->kind != MEM_PERSIST)) return false;
    return x->offset < y->offset + y->size_bytes && y->offset < x->offset + x->size_bytes;
}

/* Two such steps store different parts. */
static bool stores_part(uint8_t access) { return access == (ACCESS_WRITE | ACCESS_PART); }

bool step_touches(const Step *s, uint32_t buffer)
{
    for (uint32_t k = 0; k < s->narg; k++)
        if (s->arg[k] == buffer) return true;
    return false;
}

bool plan_conflict(const Plan *p, const Step *a, const Step *b)
{
    for (uint32_t i = 0; i < a->narg; i++)
        for (uint32_t j = 0; j < b->narg; j++)
            if (((a->access[i] | b->access[j]) & ACCESS_WRITE) && overlap(p, a->arg[i], b->arg[j]) &&
                !(a->arg[i] == b->arg[j] && stores_part(a->access[i]) && stores_part(b->access[j])))
                return true;
    return false;
}

/* Steps that only the calling thread runs follow one another without a barrier (a copy or a host function may be shared
 * out as well); on a device without our threads every order is a dependency. */
static bool is_serial(const Step *s, const Target *t)
{
    return t->has_threads && s->kind == STEP_KERNEL && s->thread_count == 1;
}

/* One thread runs both, in their order. */
static bool follows(const Plan *p, const Step *a, const Step *b, const Target *t)
{
    return is_serial(a, t) && is_serial(b, t) && (p->devices < 2 || a->device == b->device);
}

/* What a chain waits for, it waits for at its first step. */
static bool chain_conflict(const Plan *p, uint32_t since, const Step *s)
{
    bool conflict = false;
    for (uint32_t i = p->chain[s->chain - 1].first; i <= p->chain[s->chain - 1].last; i++)
        for (uint32_t j = since; j < p->chain[s->chain - 1].first && !conflict; j++)
            conflict = plan_conflict(p, &p->step[j], &p->step[i]);
    return conflict;
}

void plan_sync(Plan *p, const Target *t)
{
    /* wide: the steps since the last sync that a serial one may have to wait for */
    uint32_t since = 0, nwide = 0, *wide = mem_new(sizeof *wide * ((size_t)p->nstep + 1));
    p->nsync = 0;
    for (uint32_t i = 0; i < p->nstep; i++) {
        Step *s = &p->step[i];
        bool serial = is_serial(s, t), landed = i && p->step[i - 1].kind == STEP_JUMP;
        if (i && p->step[i - 1].once && !s->once) since = i, nwide = 0;        /* load ends: all have waited */
        for (uint32_t j = 0; p->jumps && j < p->nstep && !landed; j++)
            landed = p->step[j].kind == STEP_JUMP && p->step[j].target == i;
        /* around a jump all meet: what runs next is not what stands next */
        s->sync = landed || s->kind == STEP_JUMP;
        if (s->chain) s->sync |= i == p->chain[s->chain - 1].first && chain_conflict(p, since, s);
        for (uint32_t j = nwide; serial && j-- > 0 && !s->sync;)
            s->sync = !follows(p, &p->step[wide[j]], s, t) && plan_conflict(p, &p->step[wide[j]], s);
        for (uint32_t j = i; !serial && !s->chain && j-- > since && !s->sync;)
            s->sync = plan_conflict(p, &p->step[j], s);
        if (s->sync) since = i, nwide = 0;
        if (!serial || p->devices > 1) wide[nwide++] = i;
        p->nsync += s->sync && !s->once;
    }
    mem_free(wide);
}
