#include "sched/halo.h"

#include <string.h>

Halo *halo_new(Arena *a, const HaloAxis *axis, uint32_t rank, int64_t element_bytes)
{
    Halo *h = arena_alloc(a, sizeof *h + sizeof *axis * (rank + 1));
    uint32_t outer = 0;
    int64_t stride = element_bytes;
    for (; rank && !axis[rank - 1].before && !axis[rank - 1].after; rank--) stride *= axis[rank - 1].size;
    h->axis[0].size = 1;
    for (; outer < rank && !axis[outer].before && !axis[outer].after; outer++) h->axis[0].size *= axis[outer].size;
    h->rank = rank - outer + 1;
    memcpy(h->axis + 1, axis + outer, sizeof *axis * (rank - outer));
    for (uint32_t k = h->rank; k-- > 0; stride *= h->axis[k].before + h->axis[k].size + h->axis[k].after) h->axis[k].stride = stride;
    return h;
}

bool halo_same(const Halo *a, const Halo *b) { return a->rank == b->rank && !memcmp(a->axis, b->axis, sizeof *a->axis * a->rank); }

/* Most of them are the few elements between two rows. */
static void zero(char *from, const char *to)
{
    switch (to - from) {
    case 4: memset(from, 0, 4); break;
    case 8: memset(from, 0, 8); break;
    case 16: memset(from, 0, 16); break;
    default: memset(from, 0, (size_t)(to - from));
    }
}

/* Zeroes what lies between the values of axes k .. at p, from `zeros` on, which may lie before p; returns the end of the last value. */
static char *clear_between(const Halo *h, uint32_t k, char *p, char *zeros)
{
    const HaloAxis *a = &h->axis[k];
    char *first = p + a->before * a->stride;
    if (k + 1 == h->rank) {
        zero(zeros, first);
        return first + a->size * a->stride;
    }
    for (int64_t i = 0; i < a->size; i++) zeros = clear_between(h, k + 1, first + i * a->stride, zeros);
    return zeros;
}

void halo_clear(const Halo *h, void *data, int part, int parts)
{
    const HaloAxis *a = h->axis;
    int64_t from = a->size * part / parts, to = a->size * (part + 1) / parts;
    char *first = (char *)data + from * a->stride, *end = (char *)data + to * a->stride, *zeros = first;
    for (char *p = first; p < end; p += a->stride) zeros = clear_between(h, 1, p, zeros);
    zero(zeros, end);
}
