#include "sched/halo.h"

#include <string.h>

#include "graph/build.h"

Halo *halo_new(Graph *g, const HaloAxis *axis, uint32_t rank, int64_t element_bytes, uint8_t fill)
{
    Halo *h = arena_alloc(graph_arena(g), sizeof *h + sizeof *axis * (rank + 1));
    uint32_t outer = 0;
    h->fill = fill;
    h->element = uop_index(g, element_bytes);
    for (; rank && !axis[rank - 1].before && !axis[rank - 1].after; rank--)
        h->element = dim_mul(g, h->element, axis[rank - 1].size);
    h->axis[0].size = uop_index(g, 1);
    for (; outer < rank && !axis[outer].before && !axis[outer].after; outer++)
        h->axis[0].size = dim_mul(g, h->axis[0].size, axis[outer].size);
    h->rank = rank - outer + 1;
    memcpy(h->axis + 1, axis + outer, sizeof *axis * (rank - outer));
    return h;
}

bool halo_same(const Halo *a, const Halo *b)
{
    return a->rank == b->rank && a->fill == b->fill && a->element == b->element &&
        !memcmp(a->axis, b->axis, sizeof *a->axis * a->rank);
}

int64_t halo_bytes(const Halo *h)
{
    int64_t bytes = h->element->vmax;
    for (uint32_t k = 0; k < h->rank; k++) bytes *= h->axis[k].before + h->axis[k].size->vmax + h->axis[k].after;
    return bytes;
}

/* ---- in a run ---- */

/* One axis of it: `stride` bytes from element to element. */
typedef struct { int64_t size, before, after, stride; } Extent;

/* Most of them are the few elements between two rows. */
static void set(char *from, const char *to, uint8_t fill)
{
    switch (to - from) {
    case 4: memset(from, fill, 4); break;
    case 8: memset(from, fill, 8); break;
    case 16: memset(from, fill, 16); break;
    default: memset(from, fill, (size_t)(to - from));
    }
}

/* Fills what lies between the values of axes a .. last at p, from `gap` on, which may lie before p; returns the end of
 * the last value. */
static char *fill_between(const Extent *a, const Extent *last, char *p, char *gap, uint8_t fill)
{
    char *first = p + a->before * a->stride;
    if (a == last) {
        set(gap, first, fill);
        return first + a->size * a->stride;
    }
    if (a + 1 == last && !last->before && last->after * last->stride == 1) {     /* one byte a row: colours */
        set(gap, first, fill);
        for (int64_t i = 1; i < a->size; i++) first[i * a->stride - 1] = (char)fill;
        return first + a->size * a->stride - (a->size > 0);
    }
    for (int64_t i = 0; i < a->size; i++) gap = fill_between(a + 1, last, first + i * a->stride, gap, fill);
    return gap;
}

void halo_clear(const Halo *h, const int64_t *size, int64_t element, void *data, int part, int parts)
{
    Extent a[HALO_RANK];
    for (uint32_t k = h->rank; k-- > 0; element *= a[k].before + a[k].size + a[k].after)
        a[k] = (Extent){ size[k], h->axis[k].before, h->axis[k].after, element };
    int64_t from = a->size * part / parts, to = a->size * (part + 1) / parts;
    char *first = (char *)data + from * a->stride, *end = (char *)data + to * a->stride, *gap = first;
    for (char *p = first; p < end; p += a->stride) gap = fill_between(a + 1, a + h->rank - 1, p, gap, h->fill);
    set(gap, end, h->fill);
}
