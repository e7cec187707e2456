/* What a legal graph is after each stage of the pipeline: rules again, rows of a table (verify.c). Debug and test
 * builds ask after every stage. */
#ifndef TG_VERIFY_H
#define TG_VERIFY_H
#include "graph/uop.h"

/* The forms of sched/kernel.h, and the tensor level before them. */
typedef enum {
    VERIFY_TENSOR,
    VERIFY_RANGEIFY,
    VERIFY_LAYOUT,
    VERIFY_OPTIMIZE,
    VERIFY_EXPAND,
    VERIFY_SELECT,
    VERIFY_LINEAR,
    VERIFY_STAGES
} VerifyStage;

/* TG_OK, or TG_INTERNAL with the row's name and the node. Time is linear in the nodes that root reaches. */
TgStatus verify(Graph *g, const UOp *root, VerifyStage stage);
#endif
