/* What the files of layout share: layout.c decides and substitutes, votes.c says in which order kernels want what they
 * read and store, reorder.c copies what must keep its order, rows.c aligns rows. */
#ifndef TG_LAYOUT_H
#define TG_LAYOUT_H
#include <string.h>

#include "sched/sched.h"

enum { AXES = 16 };

/* Of a BUFFER. fixed: its axes keep their order. bare: it has no halo. last: the axis that is stored last. before,
 * after: the halo, of bytes `fill`; filled: which need not be zeros. added: elements after each row, of any bytes. */
typedef struct {
    bool fixed, bare;
    uint32_t rank;
    float vote[AXES];
    uint8_t last;
    int32_t before[AXES], after[AXES], added;
    bool filled;
    uint8_t fill;
} Layout;

/* INDEXes of a kernel's stores and loads, its ranges; sum: a REDUCE, of a sum of sums the inner one, whose operand is
 * this product; or both are NULL. */
typedef struct {
    const UOp *store[8], *load[64], *range[64], *sum, *product;
    uint32_t nstore, nload, nrange;
} Access;

/* Of a kernel's graph, so of all calls that share it. */
typedef struct Margin {
    int64_t slot;
    int32_t before[AXES], after[AXES];
    uint8_t fill;
    struct Margin *next;
} Margin;
typedef struct { Access access; Margin *margin; } Facts;

/* A layout of each BUFFER, by slot. NULL: what this kernel parameter stands for is none. */
static inline Layout *layout_of(Layout *all, const UOp *buffer)
{
    return buffer->op == UOP_BUFFER ? &all[buffer_slot(buffer)] : NULL;
}
static inline const UOp *index_of(const UOp *load) { return load->src[0]; }
static inline const UOp *buffer_of(const Kernel *k, const UOp *index) { return k->param[index->src[0]->arg.i].buffer; }

/* Votes are in nanoseconds saved: an element stored or loaded in a vector instead of alone, or an operation of a
 * contraction in a lane. */
static const float ELEMENT_NS = 0.5f, LANE_NS_PER_FLOP = 0.04f;

/* votes.c */
void layout_accesses(Access *a, const Kernel *k, Arena *scratch);
int layout_bare_axis(const UOp *index, const UOp *range);       /* the axis whose index is this range; -1: none is */
/* Does this index read a constant? once: by buffer, is it written at load only? */
bool layout_constant(const Schedule *s, const Kernel *k, const UOp *index, const uint8_t *once);
/* The loop along which a product of operands that are no constants has its lanes; NULL: it has none. */
const UOp *layout_lane(const Schedule *s, const Kernel *k, const Access *a, const uint8_t *once);
void layout_vote(Schedule *s, Layout *all, Facts *const *facts, const uint8_t *once);

/* rows.c: sets `added` */
void layout_rows(Schedule *s, Layout *all, Facts *const *facts, const uint8_t *once, Arena *scratch);

/* reorder.c. Inserts items; facts: by item, of the items as they then are. */
Facts **layout_reorder(Schedule *s, Layout *all, Facts **facts, const uint8_t *once, Arena *scratch, const Target *t);
#endif
