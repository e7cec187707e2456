/* A plan as bytes, for a file: what a device wants of it once its kernels are code. Constants that lie in files that
 * are there again are written as their place in these. */
#ifndef TG_PLAN_SERIAL_H
#define TG_PLAN_SERIAL_H
#include "graph/serial.h"
#include "sched/plan.h"

typedef struct { uint32_t file; uint64_t offset; } PlanPlace;
typedef struct {
    const void *owner;
    bool (*place)(const void *owner, const void *data, size_t size_bytes, PlanPlace *out);      /* false: in none */
    const void *(*find)(const void *owner, const PlanPlace *at, size_t size_bytes);             /* NULL: not there */
} PlanFiles;

/* false: it has what is not kept: several devices, ranks, constants of more than SERIAL_BYTES that are in no file. */
enum { SERIAL_BYTES = 16 << 20 };
bool plan_write(UOpWriter *w, const Plan *p, const PlanFiles *files);
/* Its expressions are of r->g, which must outlive it; steps lack their host functions, as from plan_make. NULL: it is
 * damaged, or a file is not as it was. */
Plan *plan_read(UOpReader *r, const PlanFiles *files);
#endif
