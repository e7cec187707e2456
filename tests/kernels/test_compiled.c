/* Kernels of random graphs under random lists of OptOps, lowered, compiled and run by the CPU and CUDA backends,
 * against the interpreter. COMPILED_COUNT lists a backend from RANDOM_SEED (default 1); .ci/run requests 1000. Every
 * OptOp and every axis type must have been among them.
 */
#include "tests/test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backends/cpu/cpu.h"
#include "graph/base/memory.h"
#include "graph/scalar.h"
#include "random_stages.h"

enum { BATCH = 96 };

/* One lowered kernel, its memory, and what it should write. */
typedef struct {
    uint64_t seed;
    Kernel *k;
    RefMem mem[KERNEL_PARAMS];
    int64_t count[KERNEL_PARAMS];
    void *want[KERNEL_PARAMS];
    bool loose;                     /* what is wanted as NaN may be any value */
} Case;
typedef struct {
    Case item[BATCH];
    uint32_t count;
    const Backend *backend;
    Device *device;
    const Target *target;
    unsigned lists, ops, skipped, bad;
} Batch;

static void *copy(const void *data, int64_t size)
{
    void *p = malloc((size_t)size + 1);
    if (size) memcpy(p, data, (size_t)size);
    return p;
}

static int64_t elements(const Kernel *k, const RefMem *mem, uint32_t i)
{
    return mem[i].size_bytes / dtype_size(under(k->param[i].buffer)->dtype);
}

/* The case keeps copies: the graph goes before the batch runs. */
static void add_case(Batch *b, uint64_t seed, Memory *m, Kernel *k, const RefMem *pack, void *const *want)
{
    Case *c = &b->item[b->count++];
    RefMem mem[KERNEL_PARAMS];
    *c = (Case){ .seed = seed, .k = k };
    kernel_mem(m, k, mem);
    for (uint32_t i = 0; i < k->nparam; i++) {
        RefMem from = pack[i].data ? pack[i] : mem[i];
        c->mem[i] = (RefMem){ copy(from.data, from.size_bytes), from.size_bytes };
        c->count[i] = elements(k, mem, i);
        if (k->param[i].written && !k->param[i].read) memset(c->mem[i].data, 0x5a, (size_t)from.size_bytes);
        if (k->param[i].written) c->want[i] = copy(want[i], mem[i].size_bytes);
    }
}

static void case_free(Case *c)
{
    for (uint32_t i = 0; i < c->k->nparam; i++) free(c->mem[i].data), free(c->want[i]);
    kernel_free(c->k);
}

/* ---- running a batch ---- */

static void fill_memory(void *user, uint32_t slot, void *ptr, size_t bytes)
{
    const RefMem *m = &((const Case *)user)->mem[slot];
    memset(ptr, 0, bytes);
    memcpy(ptr, m->data, (size_t)m->size_bytes < bytes ? (size_t)m->size_bytes : bytes);
}

/* Has it a softmax's maximum (LOOSE_TAG), and not its sum, which keeps NaN? In a kernel before OptOps. */
static bool is_loose(const Kernel *k)
{
    Arena *a = arena_new();
    uint32_t n;
    bool maximum = false, sum = false;
    const UOp **order = uop_toposort(k->g, &k->root, 1, a, &n);
    for (uint32_t i = 0; i < n; i++) {
        maximum |= order[i]->op == UOP_REDUCE && order[i]->tag == LOOSE_TAG;
        sum |= order[i]->op == UOP_REDUCE && order[i]->arg.i == UOP_ADD;
    }
    arena_free(a);
    return maximum && !sum;
}

static void forgive(DType t, void *got, const void *want, int64_t n)
{
    size_t size = (size_t)dtype_size(t);
    for (int64_t i = 0; i < n && dtype_is_float(t); i++)
        if (isnan(scalar_real(scalar_load(t, want, i))))
            memcpy((char *)got + (size_t)i * size, (const char *)want + (size_t)i * size, size);
}

static int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }

static bool case_agrees(Batch *b, Code *code, uint32_t i, Case *c)
{
    Kernel *k = c->k;
    void *out[KERNEL_PARAMS] = { NULL };
    double seconds;
    Place at = { c->seed, "compiled", k, &k->opts, k->root };
    for (uint32_t p = 0; p < k->nparam; p++)
        if (k->param[p].written) out[p] = malloc((size_t)most(kernel_param_bytes(k, p), c->mem[p].size_bytes) + 1);
    bool ok = went(&at, b->backend->time(&seconds, b->device, code, i, k, fill_memory, c, 1, 1.0, out));
    for (uint32_t p = 0; p < k->nparam; p++) {
        if (ok && k->param[p].written && c->loose) forgive(compared_as(k, p), out[p], c->want[p], c->count[p]);
        if (ok && k->param[p].written) ok = agree(&at, compared_as(k, p), out[p], c->want[p], c->count[p]);
        free(out[p]);
    }
    return ok;
}

/* Compiles and runs cases from .. to; where the compiler fails, each alone, to tell which. */
static void run_cases(Batch *b, uint32_t from, uint32_t to)
{
    Kernel *k[BATCH] = { NULL };
    Code *code;
    CompileStats stats;
    for (uint32_t i = from; i < to; i++) k[i] = b->item[i].k;
    TgStatus status = b->backend->compile(&code, b->device, k + from, to - from, &stats);
    if (status == TG_OK) {
        for (uint32_t i = from; i < to; i++) b->bad += !case_agrees(b, code, i - from, &b->item[i]);
        b->backend->code_free(code);
    } else if (to - from > 1)
        for (uint32_t i = from; i < to; i++) run_cases(b, i, i + 1);
    else b->bad += !went(&(Place){ b->item[from].seed, "compiling", k[from], &k[from]->opts, k[from]->root }, status);
}

static void run_batch(Batch *b)
{
    if (b->count) run_cases(b, 0, b->count);
    for (uint32_t i = 0; i < b->count; i++) case_free(&b->item[i]);
    b->count = 0;
}

/* ---- filling it ---- */

static void add_list(Batch *b, uint64_t seed, Memory *m, const Kernel *original, Random *r, void *const *want)
{
    RefMem pack[KERNEL_PARAMS] = { { NULL, 0 } };
    Kernel *k = kernel_clone(original);
    Place at = { seed, "lowering", k, &k->opts, k->root };
    b->lists++;
    b->ops += random_opts(k, r, random_below(r, 7), b->target);
    TgStatus status = kernel_lower(k, b->target, NULL);
    bool too_large = status == TG_UNSUPPORTED || status == TG_LIMIT,
         ok = too_large || (went(&at, status) && fill_packs(m, k, pack, &at));
    b->skipped += too_large;
    b->bad += !ok;
    if (ok && !too_large) {
        add_case(b, seed, m, k, pack, want);
        b->item[b->count - 1].loose = is_loose(original);
    } else kernel_free(k);
    for (uint32_t i = 0; i < original->nparam; i++) free(pack[i].data);
}

static bool schedule(RandomGraph *rg, Schedule *s, const Target *t)
{
    const UOp *sink = rg->sink;
    s->g = rg->g;
    return sched_callify(&sink, rg->g, sink, t, NULL) == TG_OK &&
        sched_rangeify(s, rg->g, sink, t, NULL, NULL, NULL) == TG_OK && sched_layout(s, t, NULL) == TG_OK;
}

/* Buffers of a case's kernel have a dtype and size that are read when the graph is gone; a packed constant's is that of
 * the copy. */
static void detach(Batch *b, uint32_t from, Graph *keep)
{
    for (uint32_t i = from; i < b->count; i++) {
        Kernel *k = b->item[i].k;
        for (uint32_t p = 0; p < k->nparam; p++) {
            const UOp *size = k->pack[p] ? uop_index(keep, k->pack[p]->numel) : NULL;
            k->param[p].buffer = size ? uop_param(keep, (DType)k->pack[p]->value->dtype, &size, 1, p)
                                      : uop_copy(keep, under(k->param[p].buffer), NULL);
        }
    }
}

static void add_seed(Batch *b, uint64_t seed, Graph *keep)
{
    RandomGraph rg;
    RefTensor want[3];
    Memory m = { 0 };
    Schedule *s = mem_zeros(1, sizeof *s);
    uint32_t first = b->count;
    Place at = { seed, "layout", NULL, NULL, NULL };
    random_graph_new(&rg, seed);
    if (rg.var) rg.var_value = rg.var->vmax;                                      /* as Backend.time takes it */
    bool ok = went(&at,
                   ref_eval(want, rg.g, rg.sink->src, rg.sink->nsrc,
                            &(RefInput){ .param = (const void *const *)rg.data,
                                         .nparam = RANDOM_INPUTS,
                                         .nvar = rg.var != NULL,
                                         .var = &(RefVar){ rg.var, rg.var_value } }));
    if (ok) {
        ok = went(&at, schedule(&rg, s, b->target) ? TG_OK : TG_INTERNAL) && schedule_agrees(&rg, s, want, &m, &at);
        for (uint32_t k = 0; k < rg.sink->nsrc; k++) ref_tensor_free(&want[k]);
    }
    for (uint32_t i = 0; ok && i < s->count; i++) {
        const Kernel *k = s->item[i].kernel;
        void *result[KERNEL_PARAMS] = { NULL };
        ok = launch(&m, (Kernel *)(uintptr_t)k, NULL, ref_exec_root, result, &at);
        for (int t = 0; t < 2 && ok && b->count < BATCH; t++) add_list(b, seed, &m, k, &rg.r, result);
        for (uint32_t p = 0; p < k->nparam; p++) free(result[p]);
    }
    b->bad += !ok;
    detach(b, first, keep);
    memory_free(&m);
    schedule_free(s);
    random_graph_free(&rg);
}

static bool open_own(Device **out)
{
    return backend_cpu.open(out, &(DeviceOptions){ .threads = 2, .compiler = CPU_OWN }) == TG_OK;
}

static void compiled_kernels_agree(const Backend *backend, bool own, long some)
{
    Batch *b = calloc(1, sizeof *b);
    uint64_t seed = (uint64_t)setting("RANDOM_SEED", 1);
    unsigned count = (unsigned)setting("COMPILED_COUNT", some);
    b->backend = backend;
    if (own ? !open_own(&b->device) : !open_backend(&b->device, backend)) {
        free(b);
        skip();
    }
    b->target = backend->target(b->device);
    while (b->lists < count) {
        Graph *keep = graph_new();
        while (b->lists < count && b->count < BATCH * 3 / 4) add_seed(b, seed++, keep);
        run_batch(b);
        graph_free(keep);
    }
    print_message("%s: %u lists of %u OptOps, %u refused, %u failures\n", backend->name, b->lists, b->ops, b->skipped,
                  b->bad);
    bool complete = random_opts_complete(b->target, false);
    unsigned bad = b->bad;
    backend->close(b->device);
    free(b);
    assert_int_equal(bad, 0);
    assert_true(complete);
}

static void cpu_kernels_agree(void **state) { (void)state, compiled_kernels_agree(&backend_cpu, false, 600); }
/* machine code without a compiler, where the processor has AVX2: there is some for every kernel */
static void own_kernels_agree(void **state) { (void)state, compiled_kernels_agree(&backend_cpu, true, 600); }
static void cuda_kernels_agree(void **state) { (void)state, compiled_kernels_agree(&backend_cuda, false, 400); }

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(cpu_kernels_agree), cmocka_unit_test(own_kernels_agree),
                                        cmocka_unit_test(cuda_kernels_agree) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
