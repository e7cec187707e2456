/* A driver and a compiler library for tests without a GPU: the functions of backends/cuda/driver.def and of NVRTC that
 * we call, on this machine's memory and C++ compiler.
 *
 * "CUBIN": a head and a shared object. A kernel runs workgroup by workgroup; where its source meets threads (barrier,
 * shuffle), each thread is a fiber that runs to the next meeting in turn, so that a missing barrier shows as a wrong
 * number. A graph's nodes run in a random order that its edges allow, so that a missing edge does too. Fails on what a
 * GPU refuses: launch sizes out of limits, copies outside allocations, threads that do not meet.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>
#include <unistd.h>

#include "backends/cuda/driver.h"
#include "common/clock.h"

#define EXPORT __attribute__((visibility("default")))
enum { OK = 0, INVALID = 1, NO_MEMORY = 2, FAILED = 719, MAX_ARGS = 80, STACK_BYTES = 64 << 10, MAX_THREADS = 1024 };

struct CuModule_ { void *lib; CuFunction functions; };
struct CuFunction_ {
    void *code;
    int params;
    bool meets;
    unsigned (*block)[3], (*thread)[3];
    void (**meet)(void);
    CuFunction next;
};
struct CuEvent_ { double s; };
typedef enum { RUN, COPY } What;
struct CuNode_ {
    What what;
    CuKernelNode kernel;
    uint64_t value[MAX_ARGS];
    CuCopy copy;
    struct CuNode_ *after[512];
    size_t count;
    bool disabled, done;
};
struct CuGraph_ { CuNode node[4096]; size_t count; };
struct CuGraphExec_ { CuGraph graph; };

/* ---- memory: every access from the host is checked against what is allocated ---- */

static struct { uint64_t at, bytes; } block[65536];
static size_t blocks;

static CuResult check(uint64_t p, size_t bytes)
{
    for (size_t k = 0; k < blocks; k++)
        if (block[k].at && p >= block[k].at && p + bytes <= block[k].at + block[k].bytes) return OK;
    return fprintf(stderr, "emulator: %zu bytes at %#lx are not device memory\n", bytes, (unsigned long)p), INVALID;
}

EXPORT CuResult cuMemAlloc_v2(CuPtr *p, size_t bytes)
{
    void *m = bytes ? aligned_alloc(256, (bytes + 255) / 256 * 256) : NULL;
    if (!m || blocks == sizeof block / sizeof *block) return m ? NO_MEMORY : INVALID;
    memset(m, 0xa5, bytes);                                     /* no one may count on zeros */
    block[blocks].at = *p = (CuPtr)(uintptr_t)m;
    block[blocks++].bytes = bytes;
    return OK;
}

EXPORT CuResult cuMemFree_v2(CuPtr p)
{
    for (size_t k = 0; k < blocks; k++) {
        if (block[k].at != p) continue;
        block[k] = block[--blocks];
        return free((void *)(uintptr_t)p), OK;
    }
    return INVALID;
}

EXPORT CuResult cuMemHostAlloc(void **p, size_t bytes, unsigned flags)
{
    return (void)flags, (*p = malloc(bytes)) ? OK : NO_MEMORY;
}
EXPORT CuResult cuMemFreeHost(void *p) { return free(p), OK; }
EXPORT CuResult cuMemcpyHtoD_v2(CuPtr to, const void *from, size_t n)
{
    return check(to, n) ? INVALID : (memcpy((void *)(uintptr_t)to, from, n), OK);
}
EXPORT CuResult cuMemcpyDtoHAsync_v2(void *to, CuPtr from, size_t n, CuStream s)
{
    (void)s;
    return check(from, n) ? INVALID : (memcpy(to, (void *)(uintptr_t)from, n), OK);
}
EXPORT CuResult cuMemcpyDtoH_v2(void *to, CuPtr from, size_t n)
{
    return check(from, n) ? INVALID : (memcpy(to, (void *)(uintptr_t)from, n), OK);
}
EXPORT CuResult cuMemsetD8_v2(CuPtr p, unsigned char v, size_t n)
{
    return check(p, n) ? INVALID : (memset((void *)(uintptr_t)p, v, n), OK);
}
EXPORT CuResult cuMemGetInfo_v2(size_t *left, size_t *all) { return *left = *all = (size_t)1 << 33, OK; }

/* ---- the device ---- */

EXPORT CuResult cuInit(unsigned flags) { return (void)flags, OK; }
EXPORT CuResult cuDriverGetVersion(int *v) { return *v = 13000, OK; }
EXPORT CuResult cuGetErrorString(CuResult r, const char **text)
{
    return *text = r == NO_MEMORY ? "out of memory" : "the emulator refuses", OK;
}
EXPORT CuResult cuDeviceGetCount(int *n) { return *n = 1, OK; }
EXPORT CuResult cuDeviceGet(int *d, int ordinal) { return *d = 0, ordinal ? INVALID : OK; }
EXPORT CuResult cuDeviceGetName(char *name, int size, int d)
{
    return (void)d, snprintf(name, (size_t)size, "emulator"), OK;
}
EXPORT CuResult cuDevicePrimaryCtxRetain(CuContext *c, int d) { return (void)d, *c = (CuContext)block, OK; }
EXPORT CuResult cuCtxSetCurrent(CuContext c) { return c ? OK : INVALID; }
EXPORT CuResult cuStreamCreate(CuStream *s, unsigned flags) { return (void)flags, *s = (CuStream)block, OK; }
EXPORT CuResult cuStreamDestroy_v2(CuStream s) { return (void)s, OK; }
EXPORT CuResult cuStreamSynchronize(CuStream s) { return (void)s, OK; }

EXPORT CuResult cuDeviceGetAttribute(int *v, int which, int d)
{
    (void)d;
    switch (which) {
    case CU_ATTR_THREADS_PER_BLOCK: *v = MAX_THREADS; break;
    case CU_ATTR_WARP: *v = 32; break;
    case CU_ATTR_SM_COUNT: *v = 132; break;
    case CU_ATTR_L2_BYTES: *v = 50 << 20; break;
    case CU_ATTR_CC_MAJOR: *v = 9; break;
    case CU_ATTR_CC_MINOR: *v = 0; break;
    case CU_ATTR_REGISTERS_PER_SM: *v = 65536; break;
    case CU_ATTR_SHARED_OPTIN: *v = 227 << 10; break;
    default: return INVALID;
    }
    return OK;
}

EXPORT CuResult cuEventCreate(CuEvent *e, unsigned flags)
{
    return (void)flags, (*e = calloc(1, sizeof **e)) ? OK : NO_MEMORY;
}
EXPORT CuResult cuEventDestroy_v2(CuEvent e) { return free(e), OK; }
EXPORT CuResult cuEventRecord(CuEvent e, CuStream s) { return (void)s, e->s = clock_s(), OK; }
EXPORT CuResult cuEventSynchronize(CuEvent e) { return (void)e, OK; }
EXPORT CuResult cuEventElapsedTime(float *ms, CuEvent a, CuEvent b) { return *ms = (float)((b->s - a->s) * 1e3), OK; }

/* ---- code ---- */

typedef struct { char magic[8]; uint64_t bytes; } Head;

static bool write_file(const char *path, const void *data, size_t n)
{
    FILE *f = fopen(path, "wb");
    bool ok = f && fwrite(data, 1, n, f) == n;
    return f ? !fclose(f) && ok : false;
}

EXPORT CuResult cuModuleLoadData(CuModule *m, const void *image)
{
    const Head *h = image;
    char path[] = "/tmp/tg_emulator_XXXXXX";
    int fd = memcmp(h->magic, "emulated", 8) ? -1 : mkstemp(path);
    if (fd < 0 || close(fd) || !write_file(path, h + 1, h->bytes)) return INVALID;
    void *lib = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!lib) fprintf(stderr, "emulator: %s\n", dlerror());
    unlink(path);
    *m = calloc(1, sizeof **m);
    (*m)->lib = lib;
    return lib ? OK : INVALID;
}

EXPORT CuResult cuModuleUnload(CuModule m)
{
    for (CuFunction f = m->functions, next; f; f = next) next = f->next, free(f);
    return dlclose(m->lib), free(m), OK;
}

EXPORT CuResult cuModuleGetFunction(CuFunction *f, CuModule m, const char *name)
{
    int *params = dlsym(m->lib, "tg_emulator_params");
    bool *meets = dlsym(m->lib, "tg_emulator_meets");
    void *code = dlsym(m->lib, name);
    if (!params || !meets || !code) return INVALID;
    *f = calloc(1, sizeof **f);                                 /* lives as long as its module */
    **f = (struct CuFunction_){ code,
                                *params,
                                *meets,
                                dlsym(m->lib, "blockIdx"),
                                dlsym(m->lib, "threadIdx"),
                                dlsym(m->lib, "tg_emulator_meet"),
                                m->functions };
    m->functions = *f;
    return OK;
}

EXPORT CuResult cuFuncSetAttribute(CuFunction f, int which, int v)
{
    return f && which == CU_FUNC_MAX_DYNAMIC_SHARED && v <= 227 << 10 ? OK : INVALID;
}
EXPORT CuResult cuFuncGetAttribute(int *v, int which, CuFunction f)
{
    return *v = which == CU_FUNC_REGISTERS ? 32 : 0, f ? OK : INVALID;
}

/* ---- running ---- */

static ucontext_t scheduler, fiber[MAX_THREADS];
static char *stack[MAX_THREADS];
static bool alive[MAX_THREADS];
static unsigned current;
static struct CuNode_ *running;

/* ThreadSanitizer keeps a stack of calls for each fibre, if it knows when we go to another. */
#ifdef __SANITIZE_THREAD__
void *__tsan_get_current_fiber(void), *__tsan_create_fiber(unsigned flags);
void __tsan_switch_to_fiber(void *fiber, unsigned flags), __tsan_destroy_fiber(void *fiber);
static void *watched[MAX_THREADS], *watched_scheduler;
static void watch(unsigned t) { watched_scheduler = __tsan_get_current_fiber(), watched[t] = __tsan_create_fiber(0); }
static void unwatch(unsigned t) { __tsan_destroy_fiber(watched[t]); }
#define entering(t) __tsan_switch_to_fiber(watched[t], 0)
#define leaving() __tsan_switch_to_fiber(watched_scheduler, 0)
#else
#define watch(t) ((void)(t))
#define unwatch(t) ((void)(t))
#define entering(t) ((void)(t))
#define leaving() ((void)0)
#endif

/* A fibre comes to a meeting, or to its end. */
static void meet(void)
{
    leaving();
    swapcontext(&fiber[current], &scheduler);
}

static void call(const struct CuNode_ *n)
{
    const uint64_t *a = n->value;
    typedef void (*F)(uint64_t, ...);
#define A8(k) a[k], a[k + 1], a[k + 2], a[k + 3], a[k + 4], a[k + 5], a[k + 6], a[k + 7]
    /* more than it takes does no harm */
    ((F)(uintptr_t)n->kernel.func->code)(A8(0), A8(8), A8(16), A8(24), A8(32), A8(40), A8(48), A8(56), A8(64), A8(72));
}

static void thread_main(void)
{
    call(running);
    alive[current] = false;
    meet();
}

static void at_thread(const CuKernelNode *k, unsigned t)
{
    unsigned (*at)[3] = k->func->thread;
    (*at)[0] = t % k->block[0];
    (*at)[1] = t / k->block[0] % k->block[1];
    (*at)[2] = t / k->block[0] / k->block[1];
}

/* All threads run to their next meeting, in turn; then the next round. One that ends while another meets is an error.
 */
static CuResult run_fibers(const CuKernelNode *k, unsigned threads)
{
    *k->func->meet = meet;
    /* volatile: getcontext may come back, for all that a compiler knows */
    for (volatile unsigned t = 0; t < threads; t++) {
        if (!stack[t]) stack[t] = malloc(STACK_BYTES);
        getcontext(&fiber[t]);
        fiber[t].uc_stack.ss_sp = stack[t];
        fiber[t].uc_stack.ss_size = STACK_BYTES;
        makecontext(&fiber[t], thread_main, 0);
        watch(t);
        alive[t] = true;
    }
    for (unsigned left = threads; left;) {
        left = 0;
        for (current = 0; current < threads; current++) {
            at_thread(k, current);
            entering(current);
            swapcontext(&scheduler, &fiber[current]);
            left += alive[current];
        }
        if (left && left != threads)
            return fprintf(stderr, "emulator: only %u of %u threads come to a meeting\n", left, threads), FAILED;
    }
    for (unsigned t = 0; t < threads; t++) unwatch(t);
    return OK;
}

static CuResult run_kernel(struct CuNode_ *n)
{
    const CuKernelNode *k = &n->kernel;
    uint64_t threads = (uint64_t)k->block[0] * k->block[1] * k->block[2];
    running = n;
    for (unsigned z = 0; z < k->grid[2]; z++)
        for (unsigned y = 0; y < k->grid[1]; y++)
            for (unsigned x = 0; x < k->grid[0]; x++) {
                (*k->func->block)[0] = x, (*k->func->block)[1] = y, (*k->func->block)[2] = z;
                for (unsigned t = 0; !k->func->meets && t < threads; t++) at_thread(k, t), call(n);
                if (k->func->meets && run_fibers(k, (unsigned)threads)) return FAILED;
            }
    return OK;
}

static CuResult run_copy(const CuCopy *c)
{
    void *to = c->to.memory == CU_MEMORY_HOST ? (void *)(uintptr_t)c->to.host : (void *)(uintptr_t)c->to.device;
    const void *from = c->from.memory == CU_MEMORY_HOST ? c->from.host : (void *)(uintptr_t)c->from.device;
    if ((c->to.memory == CU_MEMORY_DEVICE && check(c->to.device, c->width)) ||
        (c->from.memory == CU_MEMORY_DEVICE && check(c->from.device, c->width)))
        return INVALID;
    return memcpy(to, from, c->width), OK;
}

/* ---- graphs ---- */

static CuResult set_kernel(struct CuNode_ *n, const CuKernelNode *k)
{
    uint64_t threads = (uint64_t)k->block[0] * k->block[1] * k->block[2];
    if (!k->func || !k->grid[0] || !k->grid[1] || !k->grid[2] || !threads || threads > MAX_THREADS ||
        k->grid[1] > 65535 || k->grid[2] > 65535)
        return INVALID;
    if (k->shared_bytes > 227 << 10 || k->func->params > MAX_ARGS) return INVALID;
    n->kernel = *k;
    for (int i = 0; i < k->func->params; i++) memcpy(&n->value[i], k->params[i], 8);
    return OK;
}

static CuResult add_node(CuNode *out, CuGraph g, const CuNode *after, size_t count)
{
    if (g->count == sizeof g->node / sizeof *g->node || count > 512) return NO_MEMORY;
    *out = g->node[g->count++] = calloc(1, sizeof **out);
    (*out)->count = count;
    for (size_t k = 0; k < count; k++) (*out)->after[k] = after[k];
    return OK;
}

EXPORT CuResult cuGraphCreate(CuGraph *g, unsigned flags)
{
    return (void)flags, (*g = calloc(1, sizeof **g)) ? OK : NO_MEMORY;
}

EXPORT CuResult cuGraphDestroy(CuGraph g)
{
    for (size_t k = 0; k < g->count; k++) free(g->node[k]);
    return free(g), OK;
}

EXPORT CuResult cuGraphAddKernelNode_v2(CuNode *n, CuGraph g, const CuNode *after, size_t count, const CuKernelNode *k)
{
    CuResult r = add_node(n, g, after, count);
    return r ? r : set_kernel(*n, k);
}

EXPORT CuResult cuGraphAddMemcpyNode(CuNode *n, CuGraph g, const CuNode *after, size_t count, const CuCopy *c,
                                     CuContext ctx)
{
    CuResult r = ctx && c->height == 1 && c->depth == 1 && c->width ? add_node(n, g, after, count) : INVALID;
    if (!r) (*n)->what = COPY, (*n)->copy = *c;
    return r;
}

EXPORT CuResult cuGraphInstantiateWithFlags(CuGraphExec *e, CuGraph g, unsigned long long flags)
{
    (void)flags;
    *e = calloc(1, sizeof **e);
    /* our users keep the graph as long as what is made of it */
    return (*e)->graph = g, OK;
}

EXPORT CuResult cuGraphExecDestroy(CuGraphExec e) { return free(e), OK; }
EXPORT CuResult cuGraphExecKernelNodeSetParams_v2(CuGraphExec e, CuNode n, const CuKernelNode *k)
{
    return e ? set_kernel(n, k) : INVALID;
}
EXPORT CuResult cuGraphNodeSetEnabled(CuGraphExec e, CuNode n, unsigned on)
{
    return n->disabled = !on, e ? OK : INVALID;
}
EXPORT CuResult cuGraphUpload(CuGraphExec e, CuStream s) { return (void)s, e ? OK : INVALID; }

static bool is_ready(const struct CuNode_ *n)
{
    for (size_t k = 0; k < n->count; k++)
        if (!n->after[k]->done) return false;
    return !n->done;
}

EXPORT CuResult cuGraphLaunch(CuGraphExec e, CuStream s)
{
    static uint32_t seed = 1;
    CuGraph g = e->graph;
    (void)s;
    for (size_t k = 0; k < g->count; k++) g->node[k]->done = false;
    for (size_t left = g->count; left; left--) {
        size_t at = (seed = seed * 1664525 + 1013904223) / 65536 % g->count;
        while (!is_ready(g->node[at])) at = (at + 1) % g->count;
        struct CuNode_ *n = g->node[at];
        CuResult r = n->disabled ? OK : n->what == RUN ? run_kernel(n) : run_copy(&n->copy);
        if (r) return r;
        n->done = true;
    }
    return OK;
}

/* ---- NVRTC ---- */

typedef struct { char *source, log[4096]; void *out; size_t bytes; } *Program;

EXPORT int nvrtcVersion(int *major, int *minor) { return *major = 13, *minor = 0, 0; }

EXPORT int nvrtcCreateProgram(Program *p, const char *source, const char *name, int headers, const char *const *text,
                              const char *const *include)
{
    (void)name, (void)headers, (void)text, (void)include;
    *p = calloc(1, sizeof **p);
    return (*p)->source = strdup(source), 0;
}

/* The signature's commas tell how many parameters there are. */
static void write_source(FILE *f, const char *source)
{
    const char *s = strstr(source, "__global__"), *open = s ? strchr(s, '(') : NULL;
    open = open ? strchr(open + 1, '(') : NULL;                 /* behind __launch_bounds__(..) */
    int params = open && open[1] != ')';
    for (int depth = 0; open && *open; open++) {
        depth += (*open == '(') - (*open == ')');
        if (!depth) break;
        params += *open == ',';
    }
    fprintf(f, "#include \"%s\"\n%s\n", TG_EMULATOR_PRELUDE, source);
    fprintf(f, "extern \"C\" { int tg_emulator_params = %d; bool tg_emulator_meets = %d; }\n", params,
            strstr(source, "__syncthreads()") || strstr(source, "__shfl_") || strstr(source, "tg_mma_"));
}

static void read_back(Program p, const char *path)
{
    FILE *f = fopen(path, "rb");
    long n = f && !fseek(f, 0, SEEK_END) ? ftell(f) : -1;
    if (n > 0) {
        Head h = { .bytes = (uint64_t)n };
        memcpy(h.magic, "emulated", 8);
        p->out = malloc(sizeof h + (size_t)n);
        memcpy(p->out, &h, sizeof h);
        rewind(f);
        p->bytes = sizeof h + fread((char *)p->out + sizeof h, 1, (size_t)n, f);
    }
    if (f) fclose(f);
}

EXPORT int nvrtcCompileProgram(Program p, int count, const char *const *options)
{
    char dir[] = "/tmp/tg_emulator_XXXXXX", in[64], out[64], log[64], command[512];
    if (!count || strncmp(options[0], "-arch=sm_", 9) || !mkdtemp(dir)) return 1;
    snprintf(in, sizeof in, "%s/k.cpp", dir);
    snprintf(out, sizeof out, "%s/k.so", dir);
    snprintf(log, sizeof log, "%s/log", dir);
    FILE *f = fopen(in, "w");
    write_source(f, p->source);
    fclose(f);
    /* C's headers and no libraries: what they hold is in the process already, and most of a small kernel's time is
     * C++'s */
    snprintf(command, sizeof command,
             "c++ -std=c++17 -D_GLIBCXX_INCLUDE_NEXT_C_HEADERS -O1 -w -ffp-contract=off -shared -nostdlib -fPIC -o %s "
             "%s -lgcc 2>%s",
             out, in, log);
    int failed = system(command);
    f = fopen(log, "r");
    if (f) p->log[fread(p->log, 1, sizeof p->log - 1, f)] = 0, fclose(f);
    if (!failed) read_back(p, out);
    remove(in), remove(out), remove(log), rmdir(dir);
    return !p->out;
}

EXPORT int nvrtcDestroyProgram(Program *p) { return free((*p)->source), free((*p)->out), free(*p), 0; }
EXPORT int nvrtcGetProgramLogSize(Program p, size_t *n) { return *n = strlen(p->log) + 1, 0; }
EXPORT int nvrtcGetProgramLog(Program p, char *log) { return strcpy(log, p->log), 0; }
EXPORT int nvrtcGetCUBINSize(Program p, size_t *n) { return *n = p->bytes, 0; }
EXPORT int nvrtcGetCUBIN(Program p, char *out) { return memcpy(out, p->out, p->bytes), 0; }
