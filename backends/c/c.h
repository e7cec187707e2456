/* C source's own parts. The folder of a program `net`: net.h, net.c (memory and steps), net_kernels_K.c, net.weights,
 * main.c, Makefile. */
#ifndef TG_C_H
#define TG_C_H
#include "backends/backend.h"
#include "backends/cstyle.h"

/* Scalars alone, for any compiler; cpu_style (backends/cpu/cpu.h) has the vector types of GCC and Clang. */
extern const CStyle c11_style;
void c11_head(Text *out);           /* what stands at the head of a file of such kernels: what their text calls */

/* Where constants lie in the weights file: at[buffer], -1: it is none. */
typedef struct { int64_t *at, bytes; } CWeights;
/* ALIGN: of all memory; FILE_KERNELS: a file, so that files compile at once; BAD_SIZE: as model.h.in has it */
enum { C_ALIGN = 64, C_FILE_KERNELS = 8, C_BAD_SIZE = 1 };

/* What stands in the templates for @key@. */
enum { C_FIELDS = 32 };
typedef struct {
    uint32_t n;
    struct { const char *key, *text; } item[C_FIELDS];
} CFields;
static inline void c_field(CFields *f, const char *key, const char *text)
{
    f->item[f->n].key = key;
    f->item[f->n++].text = text;
}

/* Those of net.c, in the arena. TG_UNSUPPORTED: a step that has no C. */
TgStatus c_plan(CFields *f, Arena *a, const Listing *l, const Target *t, const CWeights *w);
/* Writes all of it. TG_CACHE: the folder is there already, or the disk does not take it. */
TgStatus c_folder(const Listing *l, const Target *t, const CStyle *style, const char *folder);
#endif
