/* The device: what it is, and the backend's table of functions. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backends/cuda/cuda.h"
#include "graph/base/memory.h"
#include "graph/wmma.h"
#include "backends/cuda/nvrtc.h"

static TgStatus attribute(int *out, int which, int device)
{
    CU(DeviceGetAttribute(out, which, device));
    return TG_OK;
}

/* Hopper's and Blackwell's own instructions need the target with the "a". */
static void name_arch(Device *d)
{
    snprintf(d->arch, sizeof d->arch, "sm_%d%s", d->cc, d->cc == 90 || d->cc >= 100 ? "a" : "");
}

static TgStatus read_facts(Device *d, int device)
{
    int major, minor, sms, l2, block, warp, compiler_major = 0, compiler_minor = 0;
    size_t unused;
    TRY(attribute(&major, CU_ATTR_CC_MAJOR, device));
    TRY(attribute(&minor, CU_ATTR_CC_MINOR, device));
    TRY(attribute(&sms, CU_ATTR_SM_COUNT, device));
    TRY(attribute(&l2, CU_ATTR_L2_BYTES, device));
    TRY(attribute(&block, CU_ATTR_THREADS_PER_BLOCK, device));
    TRY(attribute(&warp, CU_ATTR_WARP, device));
    TRY(attribute(&d->registers, CU_ATTR_REGISTERS_PER_SM, device));
    TRY(attribute(&d->shared_bytes, CU_ATTR_SHARED_OPTIN, device));
    CU(DeviceGetName(d->name, sizeof d->name, device));
    CU(MemGetInfo(&unused, &d->memory_bytes));
    d->cc = major * 10 + minor;
    name_arch(d);
    if (nvrtc_version(&compiler_major, &compiler_minor) != TG_OK)
        return fail(TG_DEVICE,
                    "cuda: the device is there, its compiler is not: install NVRTC (of the CUDA toolkit), or set "
                    "TGRUN_NVRTC to its library");
    d->compiler = compiler_major * 10 + compiler_minor;
    d->target = (Target){
        .kind = "cuda",
        .vector_bytes = 16,
        .vector_registers = 255,
        .threads = sms,
        .l1_bytes = d->shared_bytes,
        .l2_bytes = l2,
        .has_locals = true,
        .has_fma = true,
        .has_f16 = true,
        .has_bf16 = d->cc >= 80,
        .max_block = block,
        .warp = warp,
        .wmma = d->cc >= 80 && warp == 32 ? 1u << WMMA_mma_f16 | 1u << WMMA_mma_bf16 : 0,
    };
    return TG_OK;
}

static TgStatus open_device(Device *d, const DeviceOptions *o)
{
    int count = 0, device;
    TRY(cuda_open());
    CU(DeviceGetCount(&count));
    if (o->index < 0 || o->index >= count) return fail(TG_DEVICE, "cuda: no device %d; there are %d", o->index, count);
    CU(DeviceGet(&device, o->index));
    CU(DevicePrimaryCtxRetain(&d->ctx, device));
    CU(CtxSetCurrent(d->ctx));
    TRY(read_facts(d, device));
    CU(StreamCreate(&d->stream, CU_NON_BLOCKING));
    CU(EventCreate(&d->from, 0));
    CU(EventCreate(&d->to, 0));
    d->cache_dir = o->cache_dir ? mem_text(o->cache_dir) : NULL;
    d->workers = workers_kept();
    return TG_OK;
}

/* The primary context stays until the process ends, as it does under CUDA's own runtime: it takes a third of a second
 * to make, and the next session wants it too. */
static void cuda_close(Device *d)
{
    if (!d) return;
    if (d->to) cuda.EventDestroy(d->to);
    if (d->from) cuda.EventDestroy(d->from);
    if (d->stream) cuda.StreamDestroy(d->stream);
    mem_free(d->cache_dir);
    mem_free(d);
}

static void undo_open(void *d) { cuda_close(d); }

static TgStatus cuda_open_device(Device **out, const DeviceOptions *o)
{
    Device *d = mem_zeros(1, sizeof *d);
    Undo undo;
    undo_push(&undo, undo_open, d);
    TgStatus status = open_device(d, o);
    undo_pop(&undo);
    if (status == TG_OK) *out = d;
    else cuda_close(d);
    return status;
}

static const Target *cuda_target(const Device *d) { return &d->target; }

static void cuda_describe(const Device *d, char name[128], char features[256])
{
    snprintf(name, 128, "%s", d->name);
    snprintf(features, 256, "%s, %d SMs, %.0f GiB, NVRTC %d.%d", d->arch, d->target.threads,
             (double)d->memory_bytes / (1 << 30), d->compiler / 10, d->compiler % 10);
}

static TgStatus cuda_source(Text *out, const Device *d, const Kernel *k)
{
    (void)d;
    return cuda_render(out, k);
}

const Backend backend_cuda = {
    .name = "cuda",
    .open = cuda_open_device,
    .close = cuda_close,
    .target = cuda_target,
    .describe = cuda_describe,
    .render = cuda_source,
    .compile = cuda_compile,
    .code_free = cuda_code_free,
    .load = cuda_load,
    .unload = cuda_unload,
    .run = cuda_run,
    .device_seconds = cuda_device_seconds,
    .time = cuda_time,
};
