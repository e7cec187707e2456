/* A pool of compiler processes. */
#ifndef TG_CUDA_WORKERS_H
#define TG_CUDA_WORKERS_H
#include <stddef.h>

#include "graph/base/status.h"

typedef struct Workers Workers;
typedef struct {
    const char *source;
    void *cubin;                    /* out, malloc'ed; NULL when it failed */
    size_t size_bytes;
    char *error;                    /* out, malloc'ed; NULL when it compiled */
} CompileJob;

Workers *workers_new(int most);     /* starts nothing yet */
Workers *workers_kept(void);        /* those of this process, one for each processor at most; they end when it does */
void workers_free(Workers *w);
/* Compiles all jobs, those of one thread at a time; those that fail say so in their error. A failure here means that
 * nothing can be compiled. */
TgStatus workers_compile(Workers *w, CompileJob *job, uint32_t n, const char *arch);
#endif
