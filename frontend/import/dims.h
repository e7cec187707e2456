/* Free dimensions: which sizes of a model's inputs are variables of a program. The first sizes of a session are built
 * in; a size that comes again with another value, with it the other sizes of a picture, or one for which a range was
 * requested, becomes a DEFINE_VAR of one program for all of the range, bound when it runs. Equal symbols are one
 * variable. Where the import meets sizes of which it cannot show that they are equal, it is tried again with less
 * freedom: a variable follows from others (the length of a mask is that of a cache plus that of what is new), or a size
 * becomes a multiple (32 k where a network halves five times and adds what was skipped), or it is built in after all.
 * The elements of a short integer input from whose values sizes follow (`baked`, import.c) are such sizes as well:
 * beside its axes an input has an axis TG_MAX_RANK + e for its element e. So nothing is assumed that is not checked: a
 * program is only used for sizes that dims_values takes, others get a program of their own.
 */
#ifndef TG_DIMS_H
#define TG_DIMS_H
#include "graph/build.h"
#include "onnx/model.h"

enum { DIMS_VALUES = 16, DIMS_AXES = TG_MAX_RANK + DIMS_VALUES };

/* What a session knows of an axis of an input. least 0: no range was requested; free: the model names no size. */
typedef struct {
    int64_t first, fewest, most, least, largest;
    bool varies, free;
} FreeDim;
/* valued: inputs whose values a program was made for */
typedef struct { uint32_t ninput; bool any, *valued; FreeDim (*axis)[DIMS_AXES]; } FreeDims;
/* text: SYMBOL=LEAST..LARGEST, several between commas, * for all symbols; NULL: none. */
TgStatus free_dims_new(FreeDims *out, Arena *a, const Model *m, const char *text);
FreeDims free_dims_copy(Arena *a, const FreeDims *f);
/* sizes within the ranges that were requested, equal where their symbols are */
TgStatus free_dims_check(const FreeDims *f, const Model *m, const TgTensor *input);
void free_dims_see(FreeDims *f, const TgTensor *input);

/* size = step * variable, least .. largest; at hand: what the program is made for first; seen: the largest that came so
 * far. */
typedef struct {
    const char *name;
    int64_t least, largest, step, at_hand, seen;
    bool requested, value, fixed;       /* fixed: built in after all */
    const char *why;                /* it is */
    /* [nvar]: it is no variable of the program, but the sum of of[k] times variable k, and plus; NULL: it is one */
    int64_t *of, plus;
} DimVar;
/* of[input][axis]: its variable, -1: none */
typedef struct { Arena *arena; uint32_t ninput, nvar; DimVar *var; int32_t (*of)[DIMS_AXES]; } Dims;
/* The variables of a program for these inputs; NULL: every size is built in. */
Dims *dims_new(Arena *a, const FreeDims *f, const Model *m, const TgTensor *input);
int32_t dims_find(const Dims *d, uint32_t input, int32_t axis);                         /* -1: the size is built in */
int32_t dims_find_value(const Dims *d, uint32_t input, int64_t element);
U dims_size(Graph *g, const Dims *d, uint32_t input, int32_t axis, int64_t size);
/* after an import that failed (the error), or is in doubt (NULL): false when all is built in already */
bool dims_refine(Dims *d, Graph *g, const char *error);
/* it took sizes of these variables for equal without a proof, or what is not true of these inputs */
bool dims_doubted(const Dims *d, Graph *g, const TgTensor *input);
/* half the range, of those nobody requested, that goes farthest beyond what was seen; false: none does any more */
bool dims_narrow(Dims *d);
/* of the most that a size could be, what it is at the largest of its variables now; 1: not known, or as much */
double dims_share(const Dims *d, const UOp *size);
/* of a value, where ranges end as they do now; 0 where one variable is in two of its sizes, as in scores of an
 * attention, of which little is stored */
double dims_bytes(const Dims *d, const UOp *value);
/* of the variables, for these inputs; false: they do not fit */
bool dims_values(const Dims *d, const TgTensor *input, int64_t *value);
/* what the import took for granted of these variables is true of these values */
bool dims_hold(const Dims *d, const Graph *g, const int64_t *value);
#endif
