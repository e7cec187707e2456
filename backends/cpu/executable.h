/* What the files of a run share: load.c resolves a plan's steps, launch.c walks them, time.c times one kernel, device.c
 * is the Backend. */
#ifndef TG_EXECUTABLE_H
#define TG_EXECUTABLE_H
#include "backends/cpu/cpu.h"
#include "graph/base/watcher.h"

/* COPY_PART: bytes of a copy that are worth a thread. SCRATCH_PAD: threads' scratches do not start at equal places of a
 * page. */
enum { COPY_PART = 64 << 10, SCRATCH_PAD = PAGE + 64 };

struct Device {
    Machine machine;
    Target target;
    Arena *arena;
    Team *team;
    char *cache_dir;
    CpuCompiler compiler;
    bool compiler_named, lacks_compiler;        /* lacks: which has been said */
    atomic_int runs;                    /* under way, of executables that share */
};

/* A step with everything resolved. */
typedef struct {
    uint8_t kind;
    int32_t device;                     /* whose threads run it; ALL_DEVICES: those of all */
    bool wait, shared;                  /* shared: worth waking the team */
    CpuKernel fn;
    void **args;
    uint64_t clears;                    /* bit a: the halo of args[a] is zeroed */
    const uint32_t *arg;                /* the plan's buffers behind args */
    uint32_t nvar;
    const uint32_t *var;
    int64_t count;                      /* of the THREAD range; -1: bound's value */
    int64_t part, parts;                /* which part of that; 0 parts: all of it */
    const Kernel *kernel;
    HostFn host;
    HostPart host_part;
    const HostCall *call;
    const PlanBuffer *copied;
    uint32_t target;                    /* of a JUMP, in works */
    uint32_t step;                      /* of the plan */
    uint32_t works;                     /* this and those behind it that go together: 1, or those of a chain */
    bool windows;                       /* some args are a window a thread */
    bool balanced;                      /* long enough that threads take pieces of it from each other */
} Work;

typedef struct { void **arg; uint32_t port; bool output; } Patch;

struct Executable {
    Device *device;
    const Plan *plan;
    Code *code;
    const Bundle *stored;               /* constants come from there; NULL: `once` steps make them */
    /* persist, constant: those of another executable that this one shares with; else NULL */
    const struct Executable *of;
    char *arena, *persist, *scratch;
    int64_t arena_bytes, persist_bytes, scratch_bytes;           /* scratch: a thread */
    /* of one that shares: what runs write of the persistent memory, guards first; own_at: by PlanBuffer, -1: shared */
    char *own;
    int64_t own_bytes, *own_at;
    unsigned version;                   /* of the code that the works have */
    const void **constant;              /* by PlanBuffer: where a MEM_CONST is read */
    Work *work;
    uint32_t nwork;
    Patch *patch;
    uint32_t npatch;
    bool shared;
    Arena *memory;
    int64_t *vars;                      /* of the run in progress */
    _Atomic(TgStatus) status;
    uint32_t at, end;                   /* works of the phase */
    bool alone;                         /* the caller does them all */
    LoopPiece *piece;                   /* a thread's, of the last work of the phase */
    const Work *dealt;                  /* that work where it is balanced, else NULL */
    int64_t grain;                      /* of its pieces */
    double *seconds, start;             /* of each step, where they are traced: then each work is a phase */
    const Watcher *watcher;             /* of the caller, for all threads */
    bool over;                          /* the watcher has ended the run */
};

/* Pages of zeros, NULL where there are none; large ones where they pay. */
void *cpu_pages_new(int64_t size);
void cpu_pages_free(void *p, int64_t size);

#ifdef __SANITIZE_THREAD__
void AnnotateIgnoreWritesBegin(const char *file, int line);
void AnnotateIgnoreWritesEnd(const char *file, int line);

/* What overlaps is written twice by two threads, one value to one place, which is no race to report. */
static inline void call_kernel(const Kernel *k, CpuKernel fn, void *const *args, const int64_t *vars, int64_t begin,
                               int64_t end, void *scratch)
{
    bool overlap = kernel_overlaps(k);
    if (overlap) AnnotateIgnoreWritesBegin(__FILE__, __LINE__);
    fn(args, vars, begin, end, scratch);
    if (overlap) AnnotateIgnoreWritesEnd(__FILE__, __LINE__);
}
#else
#define call_kernel(k, fn, ...) (fn)(__VA_ARGS__)
#endif

/* launch.c: all works, in phases */
TgStatus executable_walk(Executable *e);
TgStatus executable_run(Executable *e, const void *const *inputs, void *const *outputs, int64_t *vars);
TgStatus executable_trace(Executable *e, const void *const *inputs, void *const *outputs, int64_t *vars,
                          double *seconds);

/* load.c */
TgStatus executable_load(Executable **out, Device *d, const Plan *p, Code *c);
void executable_unload(Executable *e);
TgStatus executable_share(Executable **out, Executable *of);
TgStatus executable_save_memory(BundleWriter *w, const Executable *e);
TgStatus executable_restore(Executable **out, Code **code, Device *d, const Plan *p, const Bundle *from);

/* time.c */
typedef void Fill(void *user, uint32_t slot, void *ptr, size_t bytes);
TgStatus cpu_time(double *seconds, Device *d, Code *c, uint32_t i, const Kernel *k, Fill *fill, void *user, int runs,
                  double limit_s, void *const *out);
#endif
