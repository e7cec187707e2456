/* The CPU backend's own parts: render.c text, compile.c objects and their cache, team.c threads, machine.c facts,
 * executable.h what runs are made of. */
#ifndef TG_CPU_H
#define TG_CPU_H
#include <pthread.h>
#include <stdatomic.h>

#include "backends/backend.h"
#include "backends/cstyle.h"

/* A kernel in machine code. args[slot] is PARAM slot; vars the kernel's variables in order; a THREAD range runs begin
 * .. end; scratch: kernel.local_bytes. */
typedef void (*CpuKernel)(void *const *args, const int64_t *vars, int64_t begin, int64_t end, void *scratch);

extern const CStyle cpu_style;
unsigned cpu_half_bits(DType t, double v);                   /* of f16 or bf16; v is a value of the type */

/* prefetch.c: hints before the instruction */
void cpu_prefetch_panel(CRender *r, const UOp *load);
/* a pointer to the first of the lines that an iteration requests; none of them: no name */
typedef struct { const char *name; uint32_t lines; } CpuAhead;
void cpu_prefetch_lines(CRender *r, const UOp *load, CpuAhead *ahead);
void cpu_prefetch_epilogue(CRender *r, const UOp *range);
void cpu_prefetch_rows(CRender *r, const UOp *end);

/* tiles.c */
bool cpu_has_tiles(const Kernel *k);
/* prints an instruction on tile registers; false: it is none */
bool cpu_tile_line(CRender *r, const UOp *u);
/* what must stand before a kernel that has tiles, whose body is rendered */
void cpu_tile_sizes(CRender *r, Text *out);

/* compile.c */
typedef struct Behind Behind;
struct Code {
    CpuKernel *fn;
    char (*hash)[33];               /* [count] under which the cache has them, or will; NULL: our own code alone */
    uint64_t identity;              /* of the compiler */
    uint32_t count;
    void **library;
    uint32_t nlibrary;
    void *own;                      /* machine code of our own, and where it calls functions */
    size_t own_bytes;
    struct X86Call *call;
    uint32_t ncall;
    Behind *_Atomic behind;         /* what is compiled meanwhile; NULL: nothing */
    atomic_uint version;            /* counts the changes of fn */
    pthread_mutex_t lock;           /* of that change */
};
typedef enum { CPU_CC, CPU_AUTO, CPU_OWN } CpuCompiler;          /* as DeviceOptions.compiler */
/* or_own: where there is no compiler, our own code does; lacks: so it was; avx2: it is for AVX2, not for AVX-512 */
typedef struct { const char *cache_dir; int jobs; CpuCompiler by; bool or_own, lacks, avx2; } CpuCompile;
TgStatus cpu_compile(Code **out, CpuCompile *how, Kernel *const *k, uint32_t n, CompileStats *stats);
/* What is kept of a program beside its plan (backend.h: remember, recall). */
bool cpu_code_remember(Text *out, const Code *c);
bool cpu_code_recall(Code **out, CpuCompile *how, ByteReader *in, uint32_t n, CompileStats *stats);
/* Between runs: has what was compiled meanwhile come, then fn has it. Returns the version. */
unsigned cpu_code_ready(Code *c);
/* Into a compiled model, and from one, where no compiler is needed. TG_DEVICE: it is for another processor. */
TgStatus cpu_code_save(BundleWriter *w, int jobs, Kernel *const *k, uint32_t n);
TgStatus cpu_code_restore(Code **out, const Bundle *from, int jobs, Kernel *const *k, uint32_t n);
/* its name and the identity that keys the cache; "" when there is none */
void cpu_compiler(char out[128]);
TgStatus cpu_assembly(Text *out, const Kernel *k);
void cpu_code_free(Code *c);

/* team.c: threads that wait for work together. Thread 0 is the caller. */
typedef struct Team Team;
Team *team_new(const int *cpu, int count);                   /* cpu[i]: the core of thread i */
void team_free(Team *t);
int team_size(const Team *t);
/* A job: phases one after another, each with a part for every thread, or with part 0 alone, which is the caller's. A
 * part may run on any thread but for part 0, and parts of a phase at once. */
typedef enum { TEAM_OVER, TEAM_ONE, TEAM_ALL } TeamParts;
typedef struct {
    TeamParts (*next)(void *user);                           /* between phases, on one thread: what the next has */
    /* a part of the phase; parts is 1 where the caller is alone, whatever next said */
    void (*part)(void *user, int part, int parts);
    void *user;
} TeamJob;
void team_run(Team *t, const TeamJob *job);                  /* returns when all phases are over */

/* pieces.c: 0 .. n - 1 in a piece a thread, which the threads share out among themselves. pieces_deal: false, there are
 * too many to count. pieces_take: what a thread does next, some multiple of grain or the rest of a piece; false: all is
 * taken. Nobody may take while they are dealt. line: what fills up the cache's. */
typedef struct { _Atomic uint64_t left; char line[56]; } LoopPiece;
bool pieces_deal(LoopPiece *p, int threads, int64_t n);
bool pieces_take(LoopPiece *p, int thread, int threads, int64_t grain, int64_t *first, int64_t *end);

/* time.c: is a kernel of so many parts worth waking these threads? */
bool cpu_worth_sharing(const Target *t, int threads, const Kernel *k, int64_t count);
/* what a thread alone needs on values in its cache */
int64_t cpu_cached_ns(const Target *t, const Kernel *k);

/* machine.c */
typedef struct {
    /* one CPU a physical core that we may use, at most as many as requested */
    int *cpu, count;
    int64_t l1_bytes, l2_bytes, l3_bytes;
    /* the processor, by processor_read: its widest vectors; bits of graph/wmma.def; has_exp2: 2^x in few instructions;
     * has_streams: stores past the caches; has_own: backends/x86 makes code for it; halves: a vector takes its units
     * twice */
    int vector_bytes, vector_registers;
    uint32_t rows;
    bool has_fma, has_exp2, has_streams, has_own, halves;
    char name[128], features[256];
} Machine;
/* cpus: a list such as "0-3,8", or NULL: all of the process */
TgStatus machine_read(Machine *m, Arena *arena, const char *cpus, int threads);

/* rates.c. cache_dir NULL: the typical ones */
void rates_read(Rates *f, const Machine *m, Team *team, const char *cache_dir);
#endif
