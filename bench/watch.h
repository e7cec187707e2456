/* What else the machine did while an engine's runs were timed: read from /proc and /sys before and after. */
#ifndef TG_WATCH_H
#define TG_WATCH_H
#include <stdint.h>
#include <sys/types.h>

/* Counts that only grow. */
typedef struct {
    double at_s, busy_s, steal_s, engine_s;     /* clock; the processors that we may use; the engine's own threads */
    double energy_j;                            /* of the processor packages */
    int64_t switches, throttled;                /* of the engine, not of its own will; of the processors or a quota */
} Watch;
/* others: processors busy with what is not the engine; steal: processors that the host took. NAN where the system does
 * not say. */
typedef struct {
    double others, steal, mhz, rss_mib, energy_j;
    int64_t switches, throttled;
} Watched;

/* Joules that the packages' meters below folder (/sys/class/powercap) show, and at what they begin anew; NAN: there are
 * none, or they may not be read. */
double energy_read(const char *folder, double *range_j);

Watch watch_begin(pid_t engine, double engine_s);
Watched watch_end(const Watch *before, pid_t engine, double engine_s);
#endif
