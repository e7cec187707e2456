/* `--device reference`: plans run by the interpreter. Memory is malloc'ed host memory, steps run one after another;
 * whatever a kernel touches is checked against the sizes of its buffers. Nothing is compiled: Code is the list of
 * kernels.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backends/backend.h"
#include "backends/reference/reference.h"
#include "common/clock.h"
#include "graph/base/memory.h"
#include "graph/base/watcher.h"
#include "graph/print.h"

struct Device { Target target; };
struct Code { Kernel *const *kernel; uint32_t count; };
struct Executable { const Plan *plan; const Code *code; char *arena, *persist; };

static TgStatus device_open(Device **out, const DeviceOptions *o)
{
    (void)o;
    *out = mem_zeros(1, sizeof **out);
    (*out)->target = (Target){ .kind = "reference",
                               .vector_bytes = 4,
                               .vector_registers = 16,
                               .threads = 1,
                               .l1_bytes = 32 << 10,
                               .l2_bytes = 1 << 20 };
    return TG_OK;
}

static void device_close(Device *d) { mem_free(d); }
static const Target *device_target(const Device *d) { return &d->target; }

static void device_describe(const Device *d, char name[128], char features[256])
{
    (void)d;
    snprintf(name, 128, "reference interpreter");
    features[0] = 0;
}

static TgStatus device_render(Text *out, const Device *d, const Kernel *k)
{
    (void)d;
    graph_print(out, k->g, k->linear ? k->linear : k->root);
    return TG_OK;
}

static TgStatus device_compile(Code **out, Device *d, Kernel *const *k, uint32_t n, CompileStats *stats)
{
    (void)d;
    *stats = (CompileStats){ 0 };
    Kernel **copy = mem_zeros(n + 1, sizeof *copy);
    *out = mem_zeros(1, sizeof **out);
    for (uint32_t i = 0; i < n; i++) copy[i] = k[i];
    **out = (Code){ copy, n };
    return TG_OK;
}

static void code_free(Code *c)
{
    if (c) mem_free((void *)(uintptr_t)c->kernel);
    mem_free(c);
}

/* ---- running ---- */

static void *memory_of(const Executable *e, const PlanBuffer *b, const void *const *inputs, void *const *outputs)
{
    switch (b->kind) {
    case MEM_ARENA: return e->arena + b->offset;
    case MEM_PERSIST: return e->persist + b->offset;
    case MEM_INPUT: return inputs ? (void *)(uintptr_t)inputs[b->offset] : NULL;
    case MEM_OUTPUT: return outputs ? outputs[b->offset] : NULL;
    default: return (void *)(uintptr_t)b->data;
    }
}

/* Bytes that a value of these sizes fills now: symbolic sizes may be smaller than the buffer. */
static int64_t bytes_now(const Plan *p, const PlanBuffer *b, const int64_t *vars)
{
    int64_t n = dtype_size(b->dtype);
    for (uint32_t k = 0; k < b->shape->rank; k++) {
        int64_t size = plan_eval(p, b->shape->dim[k], vars);
        if (size == INT64_MIN) return b->size_bytes;
        n *= size;
    }
    return n < b->size_bytes ? n : b->size_bytes;
}

static TgStatus run_kernel(const Executable *e, const Step *s, void *const *arg, const int64_t *vars)
{
    RefMem mem[KERNEL_PARAMS];
    int64_t var[KERNEL_VARS];
    for (uint32_t k = 0; k < s->narg; k++) mem[k] = (RefMem){ arg[k], e->plan->buffer[s->arg[k]].size_bytes };
    for (uint32_t k = 0; k < s->nvar; k++) var[k] = vars[s->var[k]];
    return ref_exec(e->code->kernel[s->kernel], mem, var);
}

static TgStatus run_steps(const Executable *e, bool once, const void *const *inputs, void *const *outputs,
                          int64_t *vars)
{
    const Plan *p = e->plan;
    for (uint32_t i = 0; i < p->nstep; i++) {
        const Step *s = &p->step[i];
        if (s->once != once) continue;
        watch_step("interpreting", i, p->nstep);
        TRY(watch_check());
        void *arg[s->narg + 1];
        for (uint32_t k = 0; k < s->narg; k++) arg[k] = memory_of(e, &p->buffer[s->arg[k]], inputs, outputs);
        if (plan_idle(p, s, vars)) continue;
        if (s->kind == STEP_KERNEL) TRY(run_kernel(e, s, arg, vars));
        else if (s->kind == STEP_HOST) TRY(host_status(s->call, s->host(s->call, arg, vars)));
        else if (s->kind == STEP_JUMP) i = vars[s->var[0]] ? i : s->target - 1;
        else memmove(arg[0], arg[1], (size_t)bytes_now(p, &p->buffer[s->arg[0]], vars));
    }
    return TG_OK;
}

static TgStatus checked(const Executable *e, TgStatus status, TgStatus code)
{
    TgStatus guarded = plan_guards(e->plan, e->persist, code);
    return guarded ? guarded : status;
}

static void plan_unload(Executable *e)
{
    if (!e) return;
    mem_free(e->arena);
    mem_free(e->persist);
    mem_free(e);
}

static TgStatus plan_load(Executable **out, Device *d, const Plan *p, Code *c)
{
    (void)d;
    Executable *e = mem_zeros(1, sizeof *e);
    int64_t *vars = mem_zeros(p->nvar + 1, sizeof *vars);
    *e = (Executable){ p, c, mem_zeros(1, (size_t)p->arena_bytes + 1), mem_zeros(1, (size_t)p->persist_bytes + 1) };
    TgStatus s = checked(e, run_steps(e, true, NULL, NULL, vars), TG_BAD_MODEL);
    mem_free(vars);
    if (s) plan_unload(e);
    else status_clear();
    *out = s ? NULL : e;
    return s;
}

static TgStatus plan_run(Executable *e, const void *const *inputs, void *const *outputs, int64_t *vars)
{
    return checked(e, run_steps(e, false, inputs, outputs, vars), TG_BAD_INPUT);
}

/* ---- timing one kernel ---- */

/* Sizes of a kernel's params are its PARAMs' shapes. */
static void param_sizes(const Kernel *k, RefMem *mem)
{
    for (uint32_t i = 0; i < graph_count(k->g); i++) {
        const UOp *u = graph_node(k->g, i);
        if (u->op == UOP_PARAM && u->arg.i < KERNEL_PARAMS)
            mem[u->arg.i].size_bytes = uop_numel(u) * dtype_size(u->dtype);
    }
}

static TgStatus kernel_time(double *seconds, Device *d, Code *c, uint32_t i, const Kernel *k,
                            void (*fill)(void *user, uint32_t slot, void *ptr, size_t bytes), void *user, int runs,
                            double limit_s, void *const *out)
{
    RefMem mem[KERNEL_PARAMS] = { { 0 } };
    int64_t vars[KERNEL_VARS];
    TgStatus s = TG_OK;
    (void)d, (void)limit_s;
    param_sizes(k, mem);
    for (uint32_t v = 0; v < k->nvar; v++) vars[v] = k->var[v]->vmax;
    *seconds = 1e30;
    for (uint32_t p = 0; p < k->nparam; p++) mem[p].data = mem_zeros(1, (size_t)mem[p].size_bytes + 1);
    for (int r = 0; r < runs && !s; r++) {
        for (uint32_t p = 0; p < k->nparam && fill; p++) fill(user, p, mem[p].data, (size_t)mem[p].size_bytes);
        double begin = clock_s();
        s = ref_exec(c->kernel[i], mem, vars);
        if (clock_s() - begin < *seconds) *seconds = clock_s() - begin;
    }
    for (uint32_t p = 0; p < k->nparam; p++) {
        if (out && k->param[p].written && !s) memcpy(out[p], mem[p].data, (size_t)mem[p].size_bytes);
        mem_free(mem[p].data);
    }
    return s;
}

static double device_seconds(const Executable *e) { return (void)e, 0; }

const Backend backend_reference = { .name = "reference",
                                    .divides = true,
                                    .open = device_open,
                                    .close = device_close,
                                    .target = device_target,
                                    .describe = device_describe,
                                    .render = device_render,
                                    .compile = device_compile,
                                    .code_free = code_free,
                                    .load = plan_load,
                                    .unload = plan_unload,
                                    .run = plan_run,
                                    .device_seconds = device_seconds,
                                    .time = kernel_time,
                                    .interprets = true };
