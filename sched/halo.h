/* The zeros, or the same byte each, around a stored value: a load that reaches over its edges then needs no gate
 * (layout.c). */
#ifndef TG_HALO_H
#define TG_HALO_H
#include "graph/uop.h"

/* In storage order: `before` and `after` elements around `size` of what lies inside of the axis, which is `element`
 * bytes for the last one. The first axis has no zeros, the last one has. Sizes may be symbolic; equal halos of a
 * schedule are one. fill: what stands for a zero, where elements are bytes. */
enum { HALO_RANK = 20 };
typedef struct { const UOp *size; int64_t before, after; } HaloAxis;
typedef struct Halo { uint32_t rank; uint8_t fill; const UOp *element; HaloAxis axis[]; } Halo;

/* axis: size, before and after of each, at most HALO_RANK - 1; at least one has zeros. */
Halo *halo_new(Graph *g, const HaloAxis *axis, uint32_t rank, int64_t element_bytes, uint8_t fill);
bool halo_same(const Halo *a, const Halo *b);
int64_t halo_bytes(const Halo *h);                  /* of the value with its zeros, at its largest */
/* Fills this part of the parts of a buffer's halo; the value inside is left alone. size[rank]: of each axis in this
 * run; element: as there. */
void halo_clear(const Halo *h, const int64_t *size, int64_t element, void *data, int part, int parts);
#endif
