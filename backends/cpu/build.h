/* Kernels of a program on their way to a Code, as the files that make one share it: compile.c has the compiler, own.c
 * our own machine code, behind.c the thread that compiles while that runs, stored.c what is kept and read again. */
#ifndef TG_CPU_BUILD_H
#define TG_CPU_BUILD_H
#include "backends/cpu/compiler.h"
#include "backends/cpu/cpu.h"
#include "backends/cpu/jobs.h"
#include "backends/x86/x86.h"
#include "graph/base/map.h"
#include "graph/base/memory.h"

typedef struct {
    char hash[33], symbol[40];
    Text text;                                                   /* of a function "k"; until it is compiled */
    CpuKernel fn;
    int batch;
    bool taken;                                                  /* from the thread that compiled it */
} Item;

typedef struct {
    Code *code;
    const char *cache_dir;
    Compiler cc;
    Arena *arena;
    Map items, entries;                                          /* hash -> Item; entry -> library */
    Item *item;
    uint32_t count;
    BundleWriter *to;                                            /* objects go there as well; or NULL */
    uint32_t written;
    const atomic_bool *stop;                                     /* of a compile behind the runs; or NULL */
    bool avx2;                                                   /* as CpuCompile's */
    Undo undo;
} Build;

/* What a thread compiles behind the runs. */
struct Behind {
    Build b;
    Item **of, **missing;                                        /* of: by kernel */
    uint32_t count, nmissing, taken;
    pthread_t thread;
    atomic_bool stop;
    atomic_uint ready;                                           /* of `missing`, the first so many */
};

static inline bool refused(TgStatus s)
{
    if (s) status_clear();
    return s != TG_OK;
}

/* compile.c. What kernels have, or get, in common: of[n], a kernel's; of equal ones the same. */
TgStatus build_items(Build *b, Item **of, Kernel *const *k, uint32_t n, int jobs);
Item *build_named(Build *b, const char *hash);                          /* of 32 letters; without its text */
bool build_cached(Build *b, Item *i);                                   /* it has its function from the cache now */
void build_library(Build *b, const char *entry, void *library);         /* is the code's */
int build_by_length(const void *a, const void *b);                      /* of Items, the longest text first */
TgStatus build_missing(Build *b, Item **missing, Share share, int jobs);        /* compiles and loads these */
void build_keep_hashes(Build *b, Item *const *of, uint32_t n);
void build_free_texts(Build *b);
void build_begin(Build *b, uint32_t n);
TgStatus build_all(Build *b, Kernel *const *k, uint32_t n, int jobs, CpuCompiler by, CompileStats *stats);
TgStatus build_end(Code **out, Build *b, TgStatus s);                   /* s: of what was built */
bool build_lacks_compiler(CpuCompile *how, TgStatus s);                 /* s: of looking for it; sets how->lacks */

/* own.c. For kernels that have no function yet. TG_UNSUPPORTED, with the reason: one of them has no machine code. From
 * what is kept, where they begin at at[n]; false: it lacks one. */
TgStatus build_own(Build *b, Kernel *const *k, uint32_t n, int jobs);
bool build_recall_own(Code *c, const Bytes *own, const int64_t *at, uint32_t n);

/* behind.c. Takes the build over; false: there is no thread to be had. */
bool build_behind(Build *b, Item **of, uint32_t count, Item **missing, uint32_t nmissing);
void build_end_behind(Code *c);
#endif
