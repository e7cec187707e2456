/* Values on several devices (seed 000). A tensor on a tuple of n devices has an axis, along which each device has a
 * part of equal size, or none: then each has all of it. Which of the two follows from the graph:
 *   COPY(x; devices): to one device, or to a tuple, sharded along axis 0
 *   REPLICATED(x; axis): of what is sharded along this axis, where its size is the number of devices: each device's
 *   part, which are equal, is the value; the axis becomes 1
 *   movement and element-wise ops keep the axis of what they are made of, REDUCE over it ends it.
 * A value that is made of no COPY lies nowhere (constants) or on the host, which is the first device.
 */
#ifndef TG_DEVICES_H
#define TG_DEVICES_H
#include "graph/build.h"

enum { DEVICES_MAX = 64 };
/* A tuple of devices, by number. */
typedef struct { const int64_t *device; uint32_t n; } Devices;
Devices first_devices(uint32_t n);              /* 0, 1 .. n - 1; n is at most DEVICES_MAX */

U copy_to(Graph *g, U x, int64_t device);
/* axis 0 of x is a multiple of d.n, else graph_fail */
U copy_to_all(Graph *g, U x, Devices d);
U replicated(Graph *g, U x, int64_t axis);

/* The collectives, as the specification composes them. x: on one device, of any shape, for broadcast and scatter; on d
 * with axis 0 for the others, where for reduce, reduce_scatter and allreduce each device's part is one of n tensors
 * that are added up. scatter and reduce_scatter want an axis 0 (of a part) that is a multiple of n. Results: broadcast,
 * allgather, allreduce: on d, no axis; scatter, reduce_scatter: on d, axis 0; gather, reduce: on the first device. */
U broadcast_to(Graph *g, U x, Devices d);
U scatter(Graph *g, U x, Devices d);
U gather_from(Graph *g, U x, Devices d);
U reduce_from(Graph *g, U x, Devices d);
U allgather(Graph *g, U x, Devices d);
U reduce_scatter(Graph *g, U x, Devices d);
U allreduce(Graph *g, U x, Devices d);

/* What becomes of a graph over d: a graph for each device, in which COPY to one device is all that joins them. An op
 * that cannot be done by parts is done on the first device. weights: sums of products of what all devices have are
 * divided by an axis of the weights, or one that both operands have; else what all devices have all compute. out[k]:
 * value k, in full. TG_UNSUPPORTED: a COPY to other devices. */
typedef struct { Devices devices; bool weights; } SplitBy;
TgStatus devices_split(Graph *g, const U *value, uint32_t n, const SplitBy *by, U *out);
#endif
