/* Kernels -> loaded code: render, take CUBINs from the cache, compile the rest in the workers, load.
 * A CUBIN's key is the hash of its source, the architecture and the compiler's version: the source holds all else. */
#include <stdio.h>
#include <stdlib.h>

#include "backends/cache.h"
#include "backends/cuda/cuda.h"
#include "backends/seal.h"
#include "common/clock.h"
#include "graph/base/memory.h"

enum { STATIC_SHARED_BYTES = 48 << 10 };        /* more must be requested, by function */

typedef struct { Text source; char key[33]; } Job;

static void make_key(Job *j, const Device *d)
{
    Text t = { 0 };
    text_add(&t, "%s %d\n%s", d->arch, d->compiler, j->source.s);
    seal_name(j->key, 0, t.s, t.len);
    text_free(&t);
}

static TgStatus load_one(CodeKernel *out, const Kernel *k, const void *cubin)
{
    CU(ModuleLoadData(&out->module, cubin));
    CU(ModuleGetFunction(&out->function, out->module, k->name));
    CU(FuncGetAttribute(&out->registers, CU_FUNC_REGISTERS, out->function));
    CU(FuncGetAttribute(&out->local_bytes, CU_FUNC_LOCAL_BYTES, out->function));
    if (k->shared_bytes > STATIC_SHARED_BYTES)
        CU(FuncSetAttribute(out->function, CU_FUNC_MAX_DYNAMIC_SHARED, (int)k->shared_bytes));
    return TG_OK;
}

static TgStatus fetch(CompileJob *job, Job *text, Device *d, Kernel *const *k, uint32_t n, CompileStats *stats)
{
    CompileJob *missing = mem_zeros(n + !n, sizeof *missing);
    uint32_t *at = mem_zeros(n + !n, sizeof *at), count = 0;
    TgStatus status = TG_OK;
    for (uint32_t i = 0; i < n; i++) {
        if (cache_get(&job[i].cubin, &job[i].size_bytes, d->cache_dir, "cuda", text[i].key)) continue;
        at[count] = i;
        missing[count++].source = text[i].source.s;
    }
    if (count) status = workers_compile(d->workers, missing, count, d->arch);
    for (uint32_t m = 0; m < count; m++) {
        job[at[m]] = missing[m];
        if (missing[m].cubin) cache_put(d->cache_dir, "cuda", text[at[m]].key, missing[m].cubin, missing[m].size_bytes);
        else if (status == TG_OK)
            status = fail(TG_INTERNAL, "kernel %s: %s", k[at[m]]->name,
                          missing[m].error ? missing[m].error : "was not compiled");
    }
    stats->compiled = count;
    stats->cached = n - count;
    mem_free(missing);
    mem_free(at);
    return status;
}

static TgStatus compile_all(Code *c, Device *d, Kernel *const *k, CompileJob *job, Job *text, CompileStats *stats)
{
    for (uint32_t i = 0; i < c->count; i++) {
        TRY(cuda_render(&text[i].source, k[i]));
        make_key(&text[i], d);
    }
    TRY(fetch(job, text, d, k, c->count, stats));
    for (uint32_t i = 0; i < c->count; i++) TRY(load_one(&c->kernel[i], k[i], job[i].cubin));
    return TG_OK;
}

static void undo_compile(void *c) { cuda_code_free(c); }

TgStatus cuda_compile(Code **out, Device *d, Kernel *const *k, uint32_t n, CompileStats *stats)
{
    double start = clock_s();
    CompileJob *job = mem_zeros(n + !n, sizeof *job);
    Job *text = mem_zeros(n + !n, sizeof *text);
    Code *c = mem_zeros(1, sizeof *c);
    Undo undo;
    *c = (Code){ mem_zeros(n + !n, sizeof *c->kernel), n };
    *stats = (CompileStats){ 0 };
    undo_push(&undo, undo_compile, c);
    TgStatus status = cuda.CtxSetCurrent(d->ctx) ? fail(TG_DEVICE, "cuda: the context is gone")
                                                 : compile_all(c, d, k, job, text, stats);
    for (uint32_t i = 0; i < n; i++) {
        text_free(&text[i].source);
        mem_free(job[i].cubin);
        mem_free(job[i].error);
    }
    mem_free(text);
    mem_free(job);
    undo_pop(&undo);
    stats->compile_s = clock_s() - start;
    if (status == TG_OK) *out = c;
    else cuda_code_free(c);
    return status;
}

void cuda_code_free(Code *c)
{
    for (uint32_t i = 0; c && i < c->count; i++)
        if (c->kernel[i].module) cuda.ModuleUnload(c->kernel[i].module);
    if (c) mem_free(c->kernel);
    mem_free(c);
}
