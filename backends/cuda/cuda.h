/* What the files of this backend share. A kernel is `extern "C" __global__ void NAME(pointers of its params.., long of
 * its vars..)`. */
#ifndef TG_CUDA_H
#define TG_CUDA_H
#include "backends/backend.h"
#include "backends/cuda/driver.h"
#include "backends/cuda/workers.h"

struct Device {
    Target target;
    char name[128], arch[16], *cache_dir;
    int cc, registers, shared_bytes, compiler;     /* cc 90; compiler: version * 10 of NVRTC */
    size_t memory_bytes;
    CuContext ctx;
    CuStream stream;
    CuEvent from, to;
    Workers *workers;
};

typedef struct { CuModule module; CuFunction function; int registers, local_bytes; } CodeKernel;
struct Code { CodeKernel *kernel; uint32_t count; };

/* A launch with its arguments at fixed addresses, as graph nodes want it. */
typedef struct {
    CuKernelNode node;
    const Kernel *kernel;
    int64_t *value;                 /* [nparam + nvar]: device addresses, then variables */
} Launch;

TgStatus cuda_render(Text *out, const Kernel *k);
TgStatus cuda_compile(Code **out, Device *d, Kernel *const *k, uint32_t n, CompileStats *stats);
void cuda_code_free(Code *c);
TgStatus cuda_load(Executable **out, Device *d, const Plan *p, Code *c);
void cuda_unload(Executable *e);
TgStatus cuda_run(Executable *e, const void *const *inputs, void *const *outputs, int64_t *vars);
double cuda_device_seconds(const Executable *e);
TgStatus cuda_time(double *seconds, Device *d, Code *c, uint32_t i, const Kernel *k,
                   void (*fill)(void *user, uint32_t slot, void *ptr, size_t bytes), void *user, int runs,
                   double limit_s, void *const *out);

void launch_init(Launch *l, Arena *arena, const Kernel *k, CuFunction f);
/* Grid and block for these variables (value of each of the kernel's, in its order). False: an extent is 0 and there is
 * nothing to launch. */
bool launch_size(Launch *l, const int64_t *vars);
#endif
