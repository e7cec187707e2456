/* `--device c` and `c11`: programs are made for a processor like this one's and written as source text. Nothing is
 * compiled and nothing runs; Code and Executable hold nothing.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backends/c/c.h"
#include "backends/cpu/cpu.h"
#include "graph/base/memory.h"

struct Device { Target target; Arena *arena; Machine machine; const CStyle *style; };

static void device_close(Device *d)
{
    if (d) arena_free(d->arena);
    mem_free(d);
}

/* What only some processors have is not there, so that any takes the text: units of products; nor what the library does
 * beside kernels: zeros that a step makes, sums that are made again. */
static TgStatus open_style(Device **out, const DeviceOptions *o, const CStyle *style)
{
    Device *d = mem_zeros(1, sizeof *d);
    d->arena = arena_new();
    TgStatus status = machine_read(&d->machine, d->arena, o->cpus, o->threads);
    if (status != TG_OK) return device_close(d), status;
    d->style = style;
    d->target = (Target){ .kind = "cpu",
                          .vector_bytes = style->vectors ? d->machine.vector_bytes : (int32_t)sizeof(float),
                          .vector_registers = d->machine.vector_registers,
                          .threads = d->machine.count,
                          .l1_bytes = d->machine.l1_bytes,
                          .l2_bytes = d->machine.l2_bytes,
                          .has_threads = true,
                          .has_fma = true,
                          .plain = true };
    *out = d;
    return TG_OK;
}

static TgStatus c_open(Device **out, const DeviceOptions *o) { return open_style(out, o, &cpu_style); }
static TgStatus c11_open(Device **out, const DeviceOptions *o) { return open_style(out, o, &c11_style); }

static const Target *device_target(const Device *d) { return &d->target; }

static void device_describe(const Device *d, char name[128], char features[256])
{
    snprintf(name, 128, "%s source for %.100s", d->style->name, d->machine.name);
    features[0] = 0;
}

static TgStatus device_render(Text *out, const Device *d, const Kernel *k)
{
    return cstyle_render(out, d->style, k, k->name);
}

static TgStatus device_compile(Code **out, Device *d, Kernel *const *k, uint32_t n, CompileStats *stats)
{
    (void)d, (void)k, (void)n;
    *out = NULL;
    *stats = (CompileStats){ 0 };
    return TG_OK;
}

static void code_free(Code *c) { (void)c; }

static TgStatus plan_load(Executable **out, Device *d, const Plan *p, Code *c)
{
    (void)d, (void)p, (void)c;
    *out = NULL;
    return TG_OK;
}

static void plan_unload(Executable *e) { (void)e; }

static TgStatus plan_run(Executable *e, const void *const *inputs, void *const *outputs, int64_t *vars)
{
    (void)e, (void)inputs, (void)outputs, (void)vars;
    return fail(TG_UNSUPPORTED, "devices c and c11 write source text (tgrun compile); nothing runs, not even what a "
                "size depends on");
}

static double device_seconds(const Executable *e) { return (void)e, 0; }

static TgStatus device_write(const Device *d, const Listing *l, const char *folder)
{
    return c_folder(l, &d->target, d->style, folder);
}

#define WRITER(text, opens)                                                                           \
    {                                                                                                 \
        .name = text, .open = opens, .close = device_close, .target = device_target,                  \
        .describe = device_describe, .render = device_render, .compile = device_compile,              \
        .code_free = code_free, .load = plan_load, .unload = plan_unload, .run = plan_run,            \
        .device_seconds = device_seconds, .write = device_write, .interprets = true                   \
    }
const Backend backend_c = WRITER("c", c_open), backend_c11 = WRITER("c11", c11_open);
