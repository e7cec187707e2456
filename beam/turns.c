/* Each side goes first in every other turn; the first measurement of both warms up and does not count. */
#include "beam/turns.h"

#include <stdlib.h>

#include "beam/worker.h"
#include "graph/base/order.h"
#include "graph/base/status.h"

/* seconds[side][turn * n + k] */
static TgStatus take(const Turns *t, double *seconds[2], uint32_t *turns)
{
    double until = clock_s() + t->seconds;
    for (int side = 0; side < 2; side++) {
        TRY(t->turn(t->user, side, seconds[side]));
        memset(seconds[side], 0, t->n[side] * sizeof **seconds);
    }
    for (*turns = 0; *turns < TURNS_MOST && (*turns < TURNS_LEAST || clock_s() < until); ++*turns)
        for (uint32_t i = 0; i < 2; i++) {
            int side = (int)(i + *turns) % 2;
            TRY(t->turn(t->user, side, seconds[side] + (size_t)*turns * t->n[side]));
        }
    return TG_OK;
}

static void medians(double *median, const double *seconds, uint32_t n, uint32_t turns)
{
    double v[TURNS_MOST];
    for (uint32_t k = 0; k < n; k++) {
        for (uint32_t i = 0; i < turns; i++) v[i] = seconds[(size_t)i * n + k];
        median[k] = median_of(v, turns);
    }
}

TgStatus turns_take(const Turns *t, double *median[2])
{
    double *seconds[2];
    uint32_t turns = 0;
    for (int side = 0; side < 2; side++) seconds[side] = calloc((size_t)t->n[side] * TURNS_MOST + 1, sizeof **seconds);
    TgStatus status = seconds[0] && seconds[1] ? take(t, seconds, &turns) : fail(TG_LIMIT, "out of memory");
    for (int side = 0; side < 2; side++) {
        if (status == TG_OK) medians(median[side], seconds[side], t->n[side], turns);
        free(seconds[side]);
    }
    return status;
}
