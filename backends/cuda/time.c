/* Timing of one kernel for search: on buffers of its own, in a graph of copies in a row, so that the launch itself
 * costs what it costs in a model. */
#include <stdlib.h>
#include <string.h>

#include "backends/cuda/cuda.h"
#include "graph/base/memory.h"

enum { COPIES = 10 };

typedef struct {
    Device *d;
    const Kernel *k;
    Arena *arena;
    Launch launch;
    CuPtr block, *at;
    int64_t *bytes, total;
    CuGraph graph;
    CuGraphExec exec;
} Bench;

static TgStatus fill_params(Bench *b, void (*fill)(void *user, uint32_t slot, void *ptr, size_t bytes), void *user)
{
    int64_t largest = 1;
    b->at = NEW_N(b->arena, CuPtr, b->k->nparam);
    b->bytes = NEW_N(b->arena, int64_t, b->k->nparam);
    for (uint32_t i = 0; i < b->k->nparam; i++) {
        b->bytes[i] = kernel_param_bytes(b->k, i);
        b->at[i] = (CuPtr)b->total;
        b->total += (b->bytes[i] + 255) / 256 * 256 + 256;
        largest = b->bytes[i] > largest ? b->bytes[i] : largest;
    }
    CU(MemAlloc(&b->block, (size_t)b->total));
    void *host = mem_try((size_t)largest);
    TgStatus status = host ? TG_OK : fail(TG_LIMIT, "no memory to time a kernel on %lld bytes", (long long)largest);
    for (uint32_t i = 0; i < b->k->nparam && status == TG_OK; i++) {
        b->at[i] += b->block;
        fill(user, i, host, (size_t)b->bytes[i]);
        CuResult r = b->bytes[i] ? cuda.MemcpyHtoD(b->at[i], host, (size_t)b->bytes[i]) : 0;
        if (r) status = cuda_failed(r, "MemcpyHtoD");
    }
    mem_free(host);
    TRY(status);
    /* a copy may return before its bytes are there, and the kernel's stream does not wait for it */
    CU(StreamSynchronize(NULL));
    return TG_OK;
}

static TgStatus make_graph(Bench *b, int copies)
{
    CuNode last = NULL, node;
    CU(GraphCreate(&b->graph, 0));
    for (int k = 0; k < copies; k++, last = node)
        CU(GraphAddKernelNode(&node, b->graph, &last, last != NULL, &b->launch.node));
    CU(GraphInstantiate(&b->exec, b->graph, 0));
    return TG_OK;
}

static void drop_graph(Bench *b)
{
    if (b->exec) cuda.GraphExecDestroy(b->exec);
    if (b->graph) cuda.GraphDestroy(b->graph);
    b->exec = NULL;
    b->graph = NULL;
}

static TgStatus once(double *seconds, Bench *b, int copies)
{
    float ms = 0;
    CU(EventRecord(b->d->from, b->d->stream));
    CU(GraphLaunch(b->exec, b->d->stream));
    CU(EventRecord(b->d->to, b->d->stream));
    CU(EventSynchronize(b->d->to));
    CU(EventElapsedTime(&ms, b->d->from, b->d->to));
    *seconds = (double)ms * 1e-3 / copies;
    return TG_OK;
}

/* The first launch alone makes the results that are handed out: the later ones may add to what it wrote. */
static TgStatus measure(double *seconds, Bench *b, int runs, double limit_s, void *const *out)
{
    double s;
    TRY(make_graph(b, 1));
    TRY(once(seconds, b, 1));
    for (uint32_t i = 0; out && i < b->k->nparam; i++)
        if (b->k->param[i].written && out[i] && b->bytes[i]) CU(MemcpyDtoH(out[i], b->at[i], (size_t)b->bytes[i]));
    drop_graph(b);
    if (runs <= 1 || *seconds > limit_s) return TG_OK;
    int copies = *seconds > 1e-3 ? 1 : COPIES;
    TRY(make_graph(b, copies));
    for (int k = 0; k < runs; k++) {
        TRY(once(&s, b, copies));
        if (s < *seconds) *seconds = s;
        if (k > 0 && *seconds > limit_s) break;
    }
    return TG_OK;
}

TgStatus cuda_time(double *seconds, Device *d, Code *c, uint32_t i, const Kernel *k,
                   void (*fill)(void *user, uint32_t slot, void *ptr, size_t bytes), void *user, int runs,
                   double limit_s, void *const *out)
{
    Bench b = { .d = d, .k = k, .arena = arena_new() };
    int64_t vars[KERNEL_VARS];
    CuResult r = cuda.CtxSetCurrent(d->ctx);
    TgStatus status = r ? cuda_failed(r, "CtxSetCurrent") : fill_params(&b, fill, user);
    if (status == TG_OK) {
        launch_init(&b.launch, b.arena, k, c->kernel[i].function);
        for (uint32_t v = 0; v < k->nvar; v++) vars[v] = k->var[v]->vmax;
        for (uint32_t p = 0; p < k->nparam; p++) b.launch.value[p] = (int64_t)b.at[p];
        *seconds = 0;
        if (launch_size(&b.launch, vars)) status = measure(seconds, &b, runs, limit_s, out);
    }
    drop_graph(&b);
    if (b.block) cuda.MemFree(b.block);
    arena_free(b.arena);
    return status;
}
