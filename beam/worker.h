/* The worker process as a search sees it: it compiles, times and checks lists; its crash or silence is a list's result,
 * not ours. */
#ifndef TG_WORKER_H
#define TG_WORKER_H
#include "backends/backend.h"
#include "beam/wire.h"
#include "common/clock.h"

/* patience_s: silence that counts as hanging, beside what the work needs; 0: 20 */
typedef struct { const char *backend; DeviceOptions options; double patience_s; } WorkerOptions;
/* known: false when time ran out before */
typedef struct {
    ListState state;
    bool known;
    double seconds, incumbent_s;
    char why[160];
} ListResult;
typedef struct Worker Worker;

WorkerOptions search_worker(const SearchOptions *o);                     /* search.c */
/* TG_CACHE when the program is missing; it is started by the first kernel */
TgStatus worker_new(Worker **out, const WorkerOptions *o);
void worker_free(Worker *w);
/* Rounds of one kernel (before OptOps, borrowed until the next). list[0] is the incumbent, result[n] of all. A failure:
 * this kernel cannot be tuned. until: on clock_s. */
TgStatus worker_round(Worker *w, const Kernel *k, const RoundHead *h, const OptList *list, uint32_t n,
                      ListResult *result, double until);
#endif
