/* TgOptions.batch: a model of one sample runs on many. At once, its graph mapped over them (graph/vmap.h); or, where an
 * op or a size differs from sample to sample, one after another. */
#ifndef TG_BATCH_H
#define TG_BATCH_H
#include "frontend/frontend.h"
#include "onnx/model.h"

typedef struct Batch {
    int32_t n;                      /* samples */
    uint32_t ninput;
    bool *mapped;                   /* [ninput] inputs that have a sample each; the others are shared by all */
    bool *in_front;                 /* [ninput] theirs is a new axis in front; else it stands for axis 0, which is 1 */
    TgTensor *one;                  /* [ninput] of one sample, for whoever needs them now */
    bool serial;                    /* one after another, and why */
    char why[240];
    TgTensor *output;               /* [noutput] of all samples, of the last serial run; its strings */
    Arena *words;
    uint32_t noutput;
} Batch;

/* *out NULL: none is wanted. Inputs that are named must exist and be plain tensors. */
TgStatus batch_new(Batch **out, Arena *a, const Model *m, const TgOptions *o);
void batch_free(Batch *b);                                  /* outputs; the rest is the arena's; b may be NULL */
/* What an input, or an output, is over all samples. */
void batch_port(const Batch *b, TgPort *port, int32_t input);       /* input -1: an output */
/* one[ninput]: sample k of inputs; k -1: of the first, without data. TG_BAD_INPUT: as many samples are not there. */
TgStatus batch_sample(const Batch *b, const Model *m, TgTensor *one, const TgTensor *all, int32_t k);
/* The import of one sample becomes one of all. TG_UNSUPPORTED: it cannot be mapped. */
TgStatus batch_map(const Batch *b, Imported *im);
/* Sample k's outputs are added to b->output. TG_UNSUPPORTED: they have another type or shape than the first one's. */
TgStatus batch_keep(Batch *b, int32_t k, const TgTensor *y, uint32_t n);
#endif
