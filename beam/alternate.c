/* Each side goes first in every other sample; the first measurement of both warms up and does not count. */
#include "beam/alternate.h"

#include <stdlib.h>

#include "beam/worker.h"
#include "common/order.h"
#include "graph/base/memory.h"
#include "graph/base/status.h"

/* seconds[side][sample * n + k] */
static TgStatus take(const Alternation *t, double *seconds[2], uint32_t *samples)
{
    double until = clock_s() + t->seconds;
    for (int side = 0; side < 2; side++) {
        TRY(t->sample(t->user, side, seconds[side]));
        memset(seconds[side], 0, t->n[side] * sizeof **seconds);
    }
    for (*samples = 0; *samples < SAMPLES_MOST && (*samples < SAMPLES_LEAST || clock_s() < until); ++*samples)
        for (uint32_t i = 0; i < 2; i++) {
            int side = (int)(i + *samples) % 2;
            TRY(t->sample(t->user, side, seconds[side] + (size_t)*samples * t->n[side]));
        }
    return TG_OK;
}

static void medians(double *median, const double *seconds, uint32_t n, uint32_t samples)
{
    double v[SAMPLES_MOST];
    for (uint32_t k = 0; k < n; k++) {
        for (uint32_t i = 0; i < samples; i++) v[i] = seconds[(size_t)i * n + k];
        median[k] = median_of(v, samples);
    }
}

TgStatus alternate(const Alternation *t, double *median[2])
{
    double *seconds[2];
    uint32_t samples = 0;
    for (int side = 0; side < 2; side++)
        seconds[side] = mem_zeros((size_t)t->n[side] * SAMPLES_MOST + 1, sizeof **seconds);
    TgStatus status = take(t, seconds, &samples);
    for (int side = 0; side < 2; side++) {
        if (status == TG_OK) medians(median[side], seconds[side], t->n[side], samples);
        mem_free(seconds[side]);
    }
    return status;
}
