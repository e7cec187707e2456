/* The zeros around a stored value: a load that reaches over its edges then needs no gate (layout.c). */
#ifndef TG_HALO_H
#define TG_HALO_H
#include "graph/uop.h"

/* In storage order, elements of `stride` bytes inside of an axis: `before` and `after` of them around `size`. The first axis has no zeros, the last one has: what lies inside
 * of it is one element. Equal halos of a schedule are one. */
typedef struct { int64_t size, before, after, stride; } HaloAxis;
typedef struct Halo { uint32_t rank; HaloAxis axis[]; } Halo;

/* axis: size, before and after of each; at least one has zeros. */
Halo *halo_new(Arena *a, const HaloAxis *axis, uint32_t rank, int64_t element_bytes);
bool halo_same(const Halo *a, const Halo *b);
/* Zeroes this part of the parts of a buffer's halo; the value inside is left alone. */
void halo_clear(const Halo *h, void *data, int part, int parts);
#endif
