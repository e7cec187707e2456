/* Which device an item belongs to.
 *
 * Comes in: a schedule whose items know the device of the COPYs that they read through, or nothing. Goes out: the
 * number of a device for each. What reads through no COPY belongs to the device that made what it reads; what is made
 * of constants and inputs alone, to all where it runs at load, else to the first. */
#include "sched/rangeify.h"

/* maker: by slot of a BUFFER, the number + 1 of a device that stores it. */
static int32_t *maker_of(int32_t *maker, const UOp *buffer)
{
    buffer = uop_memory(buffer);
    return buffer->op == UOP_BUFFER ? &maker[buffer_slot(buffer)] : NULL;
}

static void find_device(int32_t *maker, ScheduleItem *item)
{
    const Kernel *k = item->kernel;
    for (uint32_t p = 0; k && p < k->nparam && !item->device; p++) {
        const int32_t *at = k->param[p].read ? maker_of(maker, k->param[p].buffer) : NULL;
        if (at) item->device = *at;
    }
    for (uint32_t p = 0; k && p < k->nparam; p++) {
        int32_t *at = k->param[p].written ? maker_of(maker, k->param[p].buffer) : NULL;
        if (at && !*at) *at = item->device;
    }
}

void sched_devices(Schedule *s, const Target *t)
{
    if (t->devices < 2) return;
    Arena *a = arena_new();
    int32_t *maker = NEW_N(a, int32_t, graph_buffer_count(s->g) + 1);
    for (uint32_t i = 0; i < s->count; i++) find_device(maker, &s->item[i]);
    for (uint32_t i = 0; i < s->count; i++) {
        ScheduleItem *item = &s->item[i];
        item->device = item->once ? ALL_DEVICES : item->kernel && item->device ? item->device - 1 : 0;
    }
    arena_free(a);
}
