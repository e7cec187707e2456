/* What host functions share: sizes of a call's tensors, elements as numbers, lists in order. */
#ifndef TG_HOST_UTIL_H
#define TG_HOST_UTIL_H
#include <string.h>

#include "sched/plan.h"

int64_t host_dim(const HostCall *call, uint32_t tensor, uint32_t axis, const int64_t *vars);
/* of sizes from .. to-1 */
int64_t host_product(const HostCall *call, uint32_t tensor, uint32_t from, uint32_t to, const int64_t *vars);
void *host_result(const HostCall *call, void *const *args, uint32_t k);       /* NULL: nobody reads it */
void *host_scratch(size_t size);                                    /* the thread's, until the next call */
double host_float(DType t, const void *p, int64_t i);
int64_t host_key(DType t, const void *p, int64_t i);                /* orders as the elements do */

static inline void host_copy(int64_t size, char *out, const char *from)         /* of one element */
{
    switch (size) {
    case 1: *out = *from; break;
    case 2: memcpy(out, from, 2); break;
    case 4: memcpy(out, from, 4); break;
    default: memcpy(out, from, 8); break;
    }
}

/* What lists are sorted as: bits above that order as the values do, the best first, and the index below; NaN is above
 * all numbers. spare: room for n more. */
uint64_t host_item(float value, int64_t index, bool largest);
void host_sort(uint64_t *item, uint64_t *spare, int64_t n);

TgStatus host_topk(const HostCall *call, void *const *args, int64_t *vars);
TgStatus host_topk_part(const HostCall *call, void *const *args, const int64_t *vars, int64_t part, int64_t parts);
TgStatus host_unique(const HostCall *call, void *const *args, int64_t *vars);
TgStatus host_nms(const HostCall *call, void *const *args, int64_t *vars);
TgStatus host_picture(const HostCall *call, void *const *args, int64_t *vars);
TgStatus host_picture_size(const HostCall *call, void *const *args, int64_t *vars);
TgStatus host_roi_align(const HostCall *call, void *const *args, int64_t *vars);
TgStatus host_roi_align_part(const HostCall *call, void *const *args, const int64_t *vars, int64_t part, int64_t parts);
#endif
