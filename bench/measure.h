/* Timing one session's runs on one set of inputs. */
#ifndef TG_MEASURE_H
#define TG_MEASURE_H
#include "bench/args.h"
#include "common/clock.h"

typedef struct {
    double *ms;                     /* each timed run, sorted */
    uint32_t runs, warm;            /* warm: runs before, the first included */
    double total_s, device_median_ms;      /* 0: the device cannot tell */
} Latency;

/* --runs, --duration and --warmup; the first run is over. --runs 1: no timed runs. */
TgStatus latency_measure(Latency *out, TgSession *s, const Args *a, const TgTensor *in, int32_t nin, TgTensor *outputs);
#endif
