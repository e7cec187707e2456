/* Attributes of the host functions, as the importers write them and host.c reads them (custom_attr). Plain integers and
 * floats, no padding. They and the arguments distinguish calls: what else sizes of results are made of is among them
 * (size_number). */
#ifndef TG_HOST_H
#define TG_HOST_H
#include <stdint.h>

typedef enum { SCATTER_SET, SCATTER_ADD, SCATTER_MUL, SCATTER_MAX, SCATTER_MIN } ScatterOp;
typedef struct { int32_t op, axis; } ScatterAttr;               /* axis -1: ScatterND */
typedef struct { int32_t axis, largest; int64_t k; } TopkAttr;
typedef struct { int32_t centre; } NmsAttr;                     /* boxes are centre and size, else two corners */
typedef struct { int32_t sorted; } UniqueAttr;
/* wide: doubles, else floats; samples: of a cell along an axis, 0: as many as its pixels */
typedef struct {
    int32_t max, half_pixel, wide, samples, h, w;
    float scale;
} RoiAttr;
typedef struct { int32_t channel[3], channels; } PictureAttr;   /* of RGB, in order; channels 1: grey */

/* The same search on a constant at import: row-major positions of what is not zero; out may be NULL, else has room for
 * one more than it finds. Returns how many. */
int64_t nonzero_find(int dtype, const void *data, int64_t numel, int64_t *out);
#endif
