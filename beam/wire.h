/* What a search and its worker process say to each other, and a kernel as text.
 *
 * Frames on two pipes: Frame, then size_bytes bytes. The search sends a kernel (kernel_write), then rounds: RoundHead
 * and the lists, a line each, the incumbent first. The worker answers a round with an Answer whenever something is
 * begun or known, the last one EVENT_END. Both sides are of one build. A worker that dies or falls silent has said
 * before which list it was at.
 */
#ifndef TG_WIRE_H
#define TG_WIRE_H
#include "beam/beam.h"

enum { FRAME_KERNEL = 0x74677232, FRAME_ROUND, ROUND_MOST = 64 };     /* ROUND_MOST: lists of a round */
typedef struct { uint32_t kind, size_bytes; } Frame;
/* runs: of a timing at least; gain: a list is checked when it is faster by this share */
typedef struct { int32_t runs; double gain; } RoundHead;
/* BEGIN_*: what follows may crash or hang; index: the list. RESULT: of list `index`. END: status of the round as a
 * whole. */
typedef enum { EVENT_COMPILE, EVENT_TIME, EVENT_CHECK, EVENT_RESULT, EVENT_END } Event;
/* BETTER: faster, and its numbers are right */
typedef enum { LIST_TIMED, LIST_BETTER, LIST_ILLEGAL, LIST_UNCOMPILED, LIST_WRONG, LIST_FAILED } ListState;
typedef struct {
    uint32_t event, index, state, status;
    double seconds, incumbent_s;
    char why[160];
} Answer;

/* The form before OptOps, with the sizes of what stands behind its parameters. kernel_read makes those parameters'
 * buffers in the kernel's own graph. */
void kernel_write(Text *out, const Kernel *k);
TgStatus kernel_read(Kernel **out, const char *text);

/* worker.c: serves rounds from standard input until it closes. argv: device, index, threads, cpus, cache folder (the
 * last two may be ""). */
int tune_serve(const Backend *const *backends, int argc, char **argv);
#endif
