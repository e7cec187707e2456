/* Items of several devices: which is whose, and all in turn.
 *
 * Comes in: a schedule whose items know the device of the COPYs that they read through, or nothing. Goes out: every
 * item has a device, and between control items those of different devices take turns, so that what is done at the same
 * time stands side by side: the devices of a plan meet at its waits. An item without a COPY belongs to the device that
 * made what it reads; what is made of constants and inputs alone, to all or to the first. Must hold: an item comes
 * behind what writes what it reads, and what reads what it writes. */
#include "sched/rangeify.h"

#include <string.h>

/* Of a buffer, the items so far that write and that read it. */
typedef struct {
    uint32_t *item, n, cap;
} Items;
typedef struct {
    Schedule *s;
    Arena *arena;
    uint32_t devices;
    Items *writer, *reader, *need; /* by slot; need: by item, those that must come before it */
    uint32_t *first; /* by slot: an item that writes the buffer, + 1 */
    bool *done;
} Turns;

static void add(Arena *a, Items *l, uint32_t item)
{
    if (l->n == l->cap) {
        uint32_t *more = NEW_N(a, uint32_t, l->cap = l->cap ? 2 * l->cap : 4);
        if (l->n) memcpy(more, l->item, l->n * sizeof *more);
        l->item = more;
    }
    l->item[l->n++] = item;
}

static int64_t slot_of(const UOp *buffer)
{
    buffer = buffer ? uop_memory(buffer) : NULL;
    return buffer && buffer->op == UOP_BUFFER ? buffer_slot(buffer) : -1;
}

/* ---- what an item touches ---- */

typedef void (*Touch)(Turns *t, uint32_t item, int64_t slot, bool written);

static void touch(Turns *t, uint32_t i, const UOp *buffer, bool written, Touch f)
{
    int64_t slot = slot_of(buffer);
    if (slot >= 0) f(t, i, slot, written);
}

static void touches(Turns *t, uint32_t i, Touch f)
{
    const ScheduleItem *item = &t->s->item[i];
    const Kernel *k = item->kernel;
    for (uint32_t p = 0; k && p < k->nparam; p++) {
        if (k->param[p].read) touch(t, i, k->param[p].buffer, false, f);
        if (k->param[p].written) touch(t, i, k->param[p].buffer, true, f);
    }
    for (uint32_t p = 1; item->call && p < item->call->nsrc; p++) touch(t, i, item->call->src[p], false, f);
    for (uint32_t p = 0; p < item->nout; p++) touch(t, i, item->out[p], true, f);
    for (uint32_t p = 0; p < 2; p++) touch(t, i, item->mem[p], item->kind == ITEM_COPY && !p, f);
}

/* ---- whose it is ---- */

static void inherit(Turns *t, uint32_t i, int64_t slot, bool written)
{
    ScheduleItem *item = &t->s->item[i];
    if (!written && !item->device && t->first[slot]) item->device = t->s->item[t->first[slot] - 1].device;
}

static void note_writer(Turns *t, uint32_t i, int64_t slot, bool written)
{
    if (written && !t->first[slot]) t->first[slot] = i + 1;
}

static void find_devices(Turns *t)
{
    for (uint32_t i = 0; i < t->s->count; i++) {
        touches(t, i, inherit);
        touches(t, i, note_writer);
    }
    for (uint32_t i = 0; i < t->s->count; i++) {
        ScheduleItem *item = &t->s->item[i];
        item->device = item->kind != ITEM_KERNEL || !item->device ? 0 : item->device - 1;
        if (item->once) item->device = ALL_DEVICES;
    }
}

/* ---- in turn ---- */

static void depend(Turns *t, uint32_t i, int64_t slot, bool written)
{
    const ScheduleItem *all = t->s->item;
    const Items *w = &t->writer[slot], *r = &t->reader[slot];
    for (uint32_t k = 0; k < w->n; k++)
        if (!written || !all[i].part || !all[w->item[k]].part) add(t->arena, &t->need[i], w->item[k]);
    for (uint32_t k = 0; k < r->n && written; k++) add(t->arena, &t->need[i], r->item[k]);
}

static void note(Turns *t, uint32_t i, int64_t slot, bool written)
{
    add(t->arena, written ? &t->writer[slot] : &t->reader[slot], i);
}

static bool is_ready(const Turns *t, uint32_t i)
{
    bool ready = true;
    for (uint32_t k = 0; k < t->need[i].n && ready; k++) ready = t->done[t->need[i].item[k]];
    return ready;
}

static uint32_t queue_of(const Turns *t, uint32_t i)
{
    int32_t d = t->s->item[i].device;
    return d > 0 && d < (int32_t)t->devices ? (uint32_t)d : 0;
}

static int64_t parts_of(const ScheduleItem *item) { return item->kernel ? item->kernel->chain_parts : 0; }

/* The next item of a device, `to` if there is none. */
static uint32_t head(const Turns *t, uint32_t d, uint32_t from, uint32_t to)
{
    while (from < to && queue_of(t, from) != d) from++;
    return from;
}

static void emit(Turns *t, uint32_t i, ScheduleItem **out)
{
    t->done[i] = true;
    *(*out)++ = t->s->item[i];
}

/* One turn of a device, from its item at `i`: that, those that may be a chain with it, and what runs at load, which
 * takes no turn. Returns the next. */
static uint32_t turn(Turns *t, uint32_t d, uint32_t i, uint32_t to, ScheduleItem **out)
{
    const ScheduleItem *item = t->s->item;
    int64_t parts;
    bool load;
    do {
        load = item[i].device == ALL_DEVICES;
        parts = parts_of(&item[i]);
        emit(t, i, out);
        i = head(t, d, i + 1, to);
    } while (i < to && is_ready(t, i) && (load || (parts && parts_of(&item[i]) == parts)));
    return i;
}

/* Items from .. to - 1, each device's in their order. Whose next item waits for none of this turn has one. */
static void take_turns(Turns *t, uint32_t from, uint32_t to, ScheduleItem *out)
{
    uint32_t next[t->devices];
    bool ready[t->devices];
    const ScheduleItem *end = out + (to - from);
    for (uint32_t d = 0; d < t->devices; d++) next[d] = head(t, d, from, to);
    while (out < end) {
        for (uint32_t d = 0; d < t->devices; d++) ready[d] = next[d] < to && is_ready(t, next[d]);
        for (uint32_t d = 0; d < t->devices; d++)
            if (ready[d]) next[d] = turn(t, d, next[d], to, &out);
    }
}

static bool is_control(ItemKind k)
{
    return k == ITEM_LOOP || k == ITEM_NEXT || k == ITEM_IF || k == ITEM_ELSE || k == ITEM_ENDIF;
}

static void order(Turns *t)
{
    Schedule *s = t->s;
    ScheduleItem *out = NEW_N(t->arena, ScheduleItem, s->count + 1);
    for (uint32_t i = 0; i < s->count; i++) {
        touches(t, i, depend);
        touches(t, i, note);
    }
    for (uint32_t from = 0, to; from < s->count; from = to) {
        for (to = from; to < s->count && !is_control(s->item[to].kind);) to++;
        take_turns(t, from, to, out + from);
        for (; to < s->count && is_control(s->item[to].kind); to++) out[to] = s->item[to], t->done[to] = true;
    }
    if (s->count) memcpy(s->item, out, s->count * sizeof *out);
}

static Turns turns_of(Schedule *s, const Target *t, Arena *a)
{
    uint32_t slots = graph_buffer_count(s->g) + 1;
    return (Turns){ .s = s,
                    .arena = a,
                    .devices = (uint32_t)t->devices,
                    .writer = NEW_N(a, Items, slots),
                    .reader = NEW_N(a, Items, slots),
                    .need = NEW_N(a, Items, s->count + 1),
                    .first = NEW_N(a, uint32_t, slots),
                    .done = NEW_N(a, bool, s->count + 1) };
}

void sched_devices(Schedule *s, const Target *t)
{
    Arena *a = arena_new();
    Turns turns = turns_of(s, t, a);
    if (t->devices > 1) find_devices(&turns);
    for (uint32_t i = 0; t->devices < 2 && i < s->count; i++) s->item[i].device = 0;
    arena_free(a);
}

void sched_turns(Schedule *s, const Target *t)
{
    Arena *a = arena_new();
    Turns turns = turns_of(s, t, a);
    if (t->devices > 1) order(&turns);
    arena_free(a);
}
