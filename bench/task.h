/* Is an output as good for its task? What --tolerance names beside `auto` and `standard`. */
#ifndef TG_TASK_H
#define TG_TASK_H
#include <stdbool.h>
#include "tgrun.h"

typedef enum { TASK_AUTO, TASK_STANDARD, TASK_TOP1, TASK_TOP5, TASK_COSINE, TASK_PSNR, TASK_IOU } TaskKind;
/* least: what the measure must reach */
typedef struct {
    TaskKind kind;
    double least;
} Task;

/* `[NAME=]WORD[:LEAST]`; false: it is none. out: NULL, or what it names; the name is the text before the last `=`. */
bool task_of(const char *s, Task *out);
const char *task_name(TaskKind kind);
/* top1, top5: the share of rows of the last axis whose largest element is, among the five largest is, where it is in
 * `want`; cosine: of the angle between both; psnr: decibels, the largest magnitude of `want` over the rms of the
 * difference; iou: the mean overlap of boxes (rows of x0 y0 x1 y1) in the same places. Elements that are no number are
 * right where they are the same. NAN: the tensors have no such measure. Both have the same type and shape. */
double task_measure(TaskKind kind, const TgTensor *got, const TgTensor *want);
/* Is element `label` of a row of n numbers among its `most` largest? */
bool among_largest(TgType type, const void *row, int64_t first, int64_t n, int64_t label, int64_t most);
#endif
