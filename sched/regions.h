/* Regions: which bytes of a buffer a kernel reads and stores, as runs of neighbours. What travels between ranks follows
 * from them (plan_ranks.c). */
#ifndef TG_REGIONS_H
#define TG_REGIONS_H
#include "sched/sched.h"

/* Bytes begin .. end - 1. */
typedef struct { int64_t begin, end; } Run;
/* Ascending, with gaps between them. */
typedef struct Region { uint32_t n; Run run[]; } Region;

/* Of each param of each kernel that runs: Kernel.reads and Kernel.stores. Kernels are in form 2, their buffers laid
 * out. What is read may be less than said, never more. What is stored is exact; NULL: it is not known, or is all. */
void sched_regions(Schedule *s);

/* In a, with the bytes of both, of the first only, of either. */
Region *region_meet(Arena *a, const Region *x, const Region *y);
Region *region_less(Arena *a, const Region *x, const Region *y);
Region *region_join(Arena *a, const Region *x, const Region *y);
Region *region_all(Arena *a, int64_t bytes);
#endif
