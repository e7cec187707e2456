/* A backend: a struct of functions that make lowered kernels and a plan run on one kind of device. Adding one touches
 * its folder and the list in session.c. Thread safety: one Device serves one session and those that share with it; what
 * is made on it is made one after another, and executables that share run at once. Nothing here knows operators or
 * models.
 */
#ifndef TG_BACKEND_H
#define TG_BACKEND_H
#include "backends/bundle.h"
#include "graph/base/bytes.h"
#include "sched/plan.h"

typedef struct Device Device;
typedef struct Code Code;               /* compiled kernels, loaded */
typedef struct Executable Executable;   /* a plan with memory and code, ready to run */

typedef struct {
    int32_t index, threads;             /* cuda:index; 0 threads: one a physical core of the mask */
    const char *cpus, *cache_dir;       /* cache_dir NULL: no cache */
    int32_t verbose;
    /* of the CPU: 0 the system's, which is waited for; 1 our own machine code until that has compiled, or where there
     * is none; 2 our own alone */
    int32_t compiler;
    bool compiler_named;                /* by the caller: 0 is an error where the system has none, not our own */
} DeviceOptions;

typedef struct { uint32_t compiled, cached; double compile_s; } CompileStats;

/* What a program is called from outside, for its source text. dim[rank]: sizes, DT_INDEX over the plan's variables. */
typedef struct {
    const char *name;
    TgType type;
    uint32_t rank;
    const UOp *const *dim;
} ListingPort;
/* A size that varies from run to run, least .. largest: step times a variable, which is number `var` of the plan (-1:
 * nothing reads it). name: what people call the size. */
typedef struct {
    const char *name, *variable;
    int64_t least, largest, step;
    int32_t var;
} ListingSize;
/* need[nneed]: sizes that must not be negative. */
typedef struct {
    const char *name, *model;       /* an identifier, which starts all names; what it is made of, a line */
    const Plan *plan;
    const ListingPort *input, *output;
    const ListingSize *size;
    const UOp *const *need;
    uint32_t ninput, noutput, nsize, nneed;
} Listing;

typedef struct Backend {
    const char *name;                                                           /* "cpu" */
    /* TG_DEVICE and a reason when it cannot work here */
    TgStatus (*open)(Device **out, const DeviceOptions *o);
    void (*close)(Device *d);
    /* TG_CACHE and a reason: nothing here compiles its kernels: only those run that are compiled already. NULL: it
     * always can */
    TgStatus (*ready)(const Device *d);
    const Target *(*target)(const Device *d);
    /* From then on the target's rates are the machine's: measured once a cache folder, for a tenth of a second. NULL:
     * typical ones stay */
    void (*measure)(Device *d);
    void (*describe)(const Device *d, char name[128], char features[256]);
    /* source of one lowered kernel, for dump and goldens */
    TgStatus (*render)(Text *out, const Device *d, const Kernel *k);
    /* Renders, compiles in parallel or takes from the cache, and loads. All kernels of a model at once. */
    TgStatus (*compile)(Code **out, Device *d, Kernel *const *k, uint32_t n, CompileStats *stats);
    void (*code_free)(Code *c);
    /* What finds the code of n kernels again, in the cache or in these bytes; false: nothing does. And from there;
     * false: some of it is not there any more. NULL, both: the device keeps no programs. */
    bool (*remember)(Text *out, const Code *c);
    bool (*recall)(Code **out, Device *d, ByteReader *in, uint32_t n, CompileStats *stats);
    /* Allocates, uploads constants, runs the `once` steps. The plan and code outlive it. */
    TgStatus (*load)(Executable **out, Device *d, const Plan *p, Code *c);
    void (*unload)(Executable *e);
    /* Another of the same plan, code and constants, with memory of its own for values: the two may run at once. `of`
     * outlives it. NULL: the device cannot. */
    TgStatus (*share)(Executable **out, Executable *of);
    /* Puts kernels, compiled, and the memory of a plan that is loaded into a compiled model; and instead of compile and
     * load, from there: kernels as they are lowered, or as a plan of this build has them without their code. NULL, all
     * of them: the device has no compiled models. */
    TgStatus (*save_code)(BundleWriter *w, Device *d, Kernel *const *k, uint32_t n);
    TgStatus (*save_memory)(BundleWriter *w, const Executable *e);
    TgStatus (*restore)(Executable **out, Code **code, Device *d, const Plan *p, const Bundle *from);
    /* Writes a program as a folder of source text, which appears whole or not at all. NULL: the device has none. */
    TgStatus (*write)(const Device *d, const Listing *l, const char *folder);
    /* inputs, outputs: host pointers in the order of ports. vars: the plan's variables (sizes); host steps may change
     * them. No allocation, lock or string on the way. */
    TgStatus (*run)(Executable *e, const void *const *inputs, void *const *outputs, int64_t *vars);
    double (*device_seconds)(const Executable *e);                              /* of the last run, 0: not measured */
    /* As run; adds what each of the plan's steps took to seconds[nstep], every step begun and ended by all threads
     * together. NULL: the device cannot tell. */
    TgStatus (*trace)(Executable *e, const void *const *inputs, void *const *outputs, int64_t *vars, double *seconds);
    /* For search: seconds of one launch of kernel i of the code on buffers of its params' sizes filled by fill(slot,
     * ptr, bytes); the best of up to `runs`, stopped early above `limit_s`. When out is not NULL the written params are
     * copied there afterwards (to compare with another schedule of the same kernel). */
    TgStatus (*time)(double *seconds, Device *d, Code *c, uint32_t i, const Kernel *k,
                     void (*fill)(void *user, uint32_t slot, void *ptr, size_t bytes), void *user, int runs,
                     double limit_s, void *const *out);
    TgStatus (*assembly)(Text *out, Device *d, const Kernel *k);                /* for dump --stage asm; may be NULL */
    /* which compiler makes its code, where `describe` does not say; may be NULL */
    void (*compiler)(const Device *d, char out[128]);
    /* works with kernels as they are written: they must keep their instructions */
    bool interprets;
    bool divides;                   /* runs plans of several devices (Target.devices) */
} Backend;

extern const Backend backend_cpu, backend_cuda, backend_reference, backend_c, backend_c11;
#endif
