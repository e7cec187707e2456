/* Compiled models: a model, its plan's choices, code and constants in one file (backends/bundle.h), which opens without
 * a compiler and without packing weights. This build of tgrun reads the plan as well; another one of this version
 * imports and schedules again: what that makes must be what the file's code is for, which the kernels' text tells. */
#ifndef TG_COMPILED_H
#define TG_COMPILED_H
#include "frontend/session/session.h"

typedef struct Compiled {
    Bundle *bundle;
    Target target;                  /* that it was compiled for; kind: the device's own */
    TgTensor *input;                /* [ninput] shapes of its program, data where they are built in */
    uint32_t ninput;
    const char *opts, *dims;        /* lists of its kernels; ranges of sizes, or NULL */
    const char *device;             /* "cpu" */
} Compiled;

/* source.c: the program used last as a folder of source text. */
TgStatus source_write(TgSession *s, const char *folder);
/* Options that contradict the file are refused by name; s gets the model and its own. */
TgStatus compiled_open(TgSession *s);
/* The open device beside the one that it was compiled for: fewer processors are taken, others refused. */
TgStatus compiled_device(TgSession *s);
TgStatus compiled_fixed(const char *option);        /* it is in the file */
/* These inputs are not what it was compiled for. */
TgStatus compiled_refuse(const TgSession *s, const TgTensor *input, int32_t count);
#endif
