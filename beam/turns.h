/* Two things measured in turns: what drifts or disturbs a machine hits both. */
#ifndef TG_TURNS_H
#define TG_TURNS_H
#include <stdint.h>

#include "tgrun.h"

enum { TURNS_LEAST = 3, TURNS_MOST = 31 };

typedef struct {
    /* measures side 0 or 1 once; adds to seconds[n[side]], which begin at 0 */
    TgStatus (*turn)(void *user, int side, double *seconds);
    void *user;
    uint32_t n[2];
    double seconds;                 /* about how long all turns may take; TURNS_LEAST are made in any case */
} Turns;

/* median[side][n[side]], the caller's: of each measured number over the turns. */
TgStatus turns_take(const Turns *t, double *median[2]);
#endif
