/* Two things measured in alternation: what drifts or disturbs a machine hits both. */
#ifndef TG_ALTERNATE_H
#define TG_ALTERNATE_H
#include <stdint.h>

#include "tgrun.h"

enum { SAMPLES_LEAST = 3, SAMPLES_MOST = 31 };

typedef struct {
    /* measures side 0 or 1 once; adds to seconds[n[side]], which begin at 0 */
    TgStatus (*sample)(void *user, int side, double *seconds);
    void *user;
    uint32_t n[2];
    double seconds;                 /* about how long all samples may take; SAMPLES_LEAST are made in any case */
} Alternation;

/* median[side][n[side]], the caller's: of each measured number over the samples. */
TgStatus alternate(const Alternation *t, double *median[2]);
#endif
