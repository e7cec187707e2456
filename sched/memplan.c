/* Memory plan: places in the arena from lifetimes, and what must wait for what, from places.
 *
 * Comes in: lives (first and last step that need the bytes), or a plan whose buffers have places. Goes out: offsets such that two buffers alive at one step
 * never share a byte; sync flags such that no thread can run ahead into bytes that another still writes or reads.
 * Must hold: dependencies are computed on byte ranges, after placing, never on buffers: places are reused.
 */
#include <stdlib.h>

#include "sched/plan.h"

static int64_t round_up(int64_t n, int64_t align) { return (n + align - 1) / align * align; }

static int by_size(const void *a, const void *b)
{
    const Life *x = *(Life *const *)a, *y = *(Life *const *)b;
    if (x->size_bytes != y->size_bytes) return x->size_bytes < y->size_bytes ? 1 : -1;
    if (x->first != y->first) return x->first < y->first ? -1 : 1;
    return x < y ? -1 : x > y;
}

/* The smallest gap that holds x among the placed lives that meet it in time; behind them all when none does. placed is ordered by offset. */
static int64_t best_fit(const Life *x, int64_t size, Life *const *placed, uint32_t n)
{
    int64_t end = 0, best = -1, best_gap = INT64_MAX;
    for (uint32_t k = 0; k < n; k++) {
        const Life *p = placed[k];
        if (p->last < x->first || x->last < p->first) continue;
        if (p->offset - end >= size && p->offset - end < best_gap) best_gap = p->offset - end, best = end;
        if (p->offset + p->size_bytes > end) end = p->offset + p->size_bytes;
    }
    return best >= 0 ? best : end;
}

/* Largest first: the big ones decide the size of the arena, the small ones fill their gaps. */
int64_t memplan_place(Life *life, uint32_t n, int64_t align)
{
    Life **order = malloc(sizeof *order * (2 * (size_t)n + 1)), **placed = order + n;
    int64_t bytes = 0;
    for (uint32_t k = 0; k < n; k++) order[k] = &life[k];
    qsort(order, n, sizeof *order, by_size);
    for (uint32_t k = 0; k < n; k++) {
        Life *x = order[k];
        x->size_bytes = round_up(x->size_bytes, align);
        x->offset = best_fit(x, x->size_bytes, placed, k);
        if (x->offset + x->size_bytes > bytes) bytes = x->offset + x->size_bytes;
        uint32_t at = k;
        for (; at && placed[at - 1]->offset > x->offset; at--) placed[at] = placed[at - 1];
        placed[at] = x;
    }
    free(order);
    return bytes;
}

static bool overlap(const Plan *p, uint32_t a, uint32_t b)
{
    const PlanBuffer *x = &p->buffer[a], *y = &p->buffer[b];
    if (a == b) return true;
    if (x->kind != y->kind || (x->kind != MEM_ARENA && x->kind != MEM_PERSIST)) return false;
    return x->offset < y->offset + y->size_bytes && y->offset < x->offset + x->size_bytes;
}

bool plan_conflict(const Plan *p, const Step *a, const Step *b)
{
    for (uint32_t i = 0; i < a->narg; i++)
        for (uint32_t j = 0; j < b->narg; j++)
            if (((a->access[i] | b->access[j]) & ACCESS_WRITE) && overlap(p, a->arg[i], b->arg[j])) return true;
    return false;
}

/* Steps that only the calling thread runs follow one another without a barrier; on a device without our threads every order is a dependency. */
static bool is_serial(const Step *s, const Target *t) { return t->has_threads && (s->kind != STEP_KERNEL || s->thread_count == 1); }

void plan_sync(Plan *p, const Target *t)
{
    uint32_t since = 0;
    p->nsync = 0;
    for (uint32_t i = 0; i < p->nstep; i++) {
        Step *s = &p->step[i];
        if (i && p->step[i - 1].once && !s->once) since = i;        /* load ends: all have waited */
        bool landed = i && p->step[i - 1].kind == STEP_JUMP;
        for (uint32_t j = 0; p->jumps && j < p->nstep && !landed; j++) landed = p->step[j].kind == STEP_JUMP && p->step[j].target == i;
        s->sync = landed || s->kind == STEP_JUMP;              /* around a jump all meet: what runs next is not what stands next */
        for (uint32_t j = i; j-- > since && !s->sync;)
            s->sync = !(is_serial(s, t) && is_serial(&p->step[j], t)) && plan_conflict(p, &p->step[j], s);
        if (s->sync) since = i;
        p->nsync += s->sync && !s->once;
    }
}
