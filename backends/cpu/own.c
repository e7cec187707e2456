/* Machine code of our own (backends/x86) for the kernels of a build: made by all jobs, mapped as one. */
#include "backends/cpu/build.h"

#include <string.h>

#include "graph/base/parallel.h"

typedef struct { const Build *b; Kernel *const *k; Bytes *code; TgStatus *status; } Assembly;

static void assemble_one(void *assembly, uint32_t i)
{
    const Assembly *a = assembly;
    if (!a->b->code->fn[i]) a->status[i] = x86_assemble(&a->code[i], a->k[i], a->b->avx2);
}

/* One behind the other; to has the sums of their sizes. */
static void join(Bytes *to, Bytes *code, uint32_t n)
{
    size_t at = 0, calls = 0;
    to->data = mem_new(to->size + 1);
    to->call = mem_new((to->ncall + 1) * sizeof *to->call);
    for (uint32_t i = 0; i < n; i++) {
        if (code[i].size) memcpy(to->data + at, code[i].data, code[i].size);
        for (uint32_t k = 0; k < code[i].ncall; k++)
            to->call[calls++] = (X86Call){ (uint32_t)at + code[i].call[k].at, code[i].call[k].function };
        at += code[i].size;
        mem_free(code[i].data);
        mem_free(code[i].call);
    }
}

TgStatus build_own(Build *b, Kernel *const *k, uint32_t n, int jobs)
{
    Bytes all = { 0 };
    Assembly a = { b, k, NEW_N(b->arena, Bytes, n), NEW_N(b->arena, TgStatus, n) };
    TgStatus status = parallel_all((uint32_t)jobs, n, assemble_one, &a);
    for (uint32_t i = 0; i < n; i++) {
        if (!status && a.status[i]) status = x86_assemble(&a.code[i], k[i], b->avx2);                   /* says why */
        all.size += a.code[i].size;
        all.ncall += a.code[i].ncall;
    }
    join(&all, a.code, n);
    x86_link(&all);
    char *pages = all.size && !status ? x86_map(&all) : NULL;
    if (all.size && !status && !pages) status = fail(TG_LIMIT, "the system has no memory for machine code");
    size_t first = 0;
    for (uint32_t i = 0; pages && i < n; first += a.code[i++].size) {
        void *p = pages + first;
        if (a.code[i].size) memcpy(&b->code->fn[i], &p, sizeof p);
    }
    b->code->own = pages, b->code->own_bytes = all.size;
    b->code->call = all.call, b->code->ncall = all.ncall;
    mem_free(all.data);
    return status;
}

bool build_recall_own(Code *c, const Bytes *own, const int64_t *at, uint32_t n)
{
    uint32_t lacks = 0;
    for (uint32_t i = 0; i < n; i++) lacks += !c->fn[i];
    if (!lacks) return true;
    if (!own->size) return false;
    Bytes linked = *own;
    linked.data = mem_new(own->size);
    memcpy(linked.data, own->data, own->size);
    x86_link(&linked);
    c->own = x86_map(&linked);
    c->own_bytes = own->size;
    mem_free(linked.data);
    if (!c->own) return false;
    for (uint32_t i = 0; i < n; i++) {
        if (c->fn[i]) continue;
        if (at[i] < 0 || (size_t)at[i] >= own->size) return false;
        void *fn = (char *)c->own + at[i];
        memcpy(&c->fn[i], &fn, sizeof fn);
    }
    return true;
}

