/* The CPU as a Backend: what a device is, and the functions of the other files behind its names. */
#include <stdlib.h>
#include <string.h>

#include "backends/cpu/compiler.h"
#include "backends/cpu/executable.h"
#include "graph/base/watcher.h"
#include "graph/base/memory.h"

static void cpu_close(Device *d)
{
    if (!d) return;
    team_free(d->team);
    arena_free(d->arena);
    mem_free(d);
}

static Target target_of(const Machine *m)
{
    return (Target){ .kind = "cpu",
                     .vector_bytes = m->vector_bytes,
                     .vector_registers = m->vector_registers,
                     .threads = m->count,
                     .l1_bytes = m->l1_bytes,
                     .l2_bytes = m->l2_bytes,
                     .l3_bytes = m->l3_bytes,
                     .has_threads = true,
                     .clears_halos = true,
                     .has_fma = m->has_fma,
                     .has_exp2 = m->has_exp2,
                     .has_streams = m->has_streams,
                     .wmma = m->rows };
}

static TgStatus cpu_open(Device **out, const DeviceOptions *o)
{
    Device *d = mem_zeros(1, sizeof *d);
    d->arena = arena_new();
    d->cache_dir = o->cache_dir ? arena_strdup(d->arena, o->cache_dir) : NULL;
    TgStatus s = machine_read(&d->machine, d->arena, o->cpus, o->threads);
    if (!s && !(d->team = team_new(d->machine.cpu, d->machine.count))) s = fail(TG_LIMIT, "out of memory");
    if (s) return cpu_close(d), s;
    d->compiler = (CpuCompiler)o->compiler;
    d->compiler_named = o->compiler_named;
    if (!d->machine.has_own && d->compiler == CPU_OWN)
        return cpu_close(d), fail(TG_UNSUPPORTED, "compiler 'own': it wants AVX2, which this processor lacks");
    if (!d->machine.has_own) d->compiler = CPU_CC;
    d->target = target_of(&d->machine);
    *out = d;
    return TG_OK;
}

/* Where there is no compiler, is it our own code's turn? */
static bool or_own(const Device *d) { return d->machine.has_own && !(d->compiler == CPU_CC && d->compiler_named); }

/* A compiler that is named, by CC too, must be there: the compilation says that it is not. */
static TgStatus cpu_ready(const Device *d)
{
    Compiler c;
    const char *named = getenv("CC");
    return or_own(d) || d->compiler_named || (named && *named) ? TG_OK : compiler_or_last(&c, d->cache_dir);
}

static const Target *cpu_target(const Device *d) { return &d->target; }

static void cpu_measure(Device *d) { rates_read(&d->target.rates, &d->machine, d->team, d->cache_dir); }

static void cpu_describe(const Device *d, char name[128], char features[256])
{
    memcpy(name, d->machine.name, 128);
    memcpy(features, d->machine.features, 256);
}

static TgStatus cpu_render(Text *out, const Device *d, const Kernel *k)
{
    (void)d;
    return cstyle_render(out, &cpu_style, k, k->name);
}

static CpuCompile how_to_compile(const Device *d)
{
    return (CpuCompile){ d->cache_dir, d->machine.count, d->compiler, .or_own = or_own(d),
                         .avx2 = d->machine.vector_bytes < 64 };
}

static void say_lack(Device *d, const CpuCompile *how)
{
    if (how->lacks && !d->lacks_compiler && d->compiler != CPU_OWN)
        watch_say("no C compiler ($CC, gcc, clang, cc): kernels are machine code of tgrun's own, up to twice as slow; "
                  "install the package gcc");
    d->lacks_compiler |= how->lacks;
}

static TgStatus cpu_backend_compile(Code **out, Device *d, Kernel *const *k, uint32_t n, CompileStats *stats)
{
    CpuCompile how = how_to_compile(d);
    TgStatus status = cpu_compile(out, &how, k, n, stats);
    say_lack(d, &how);
    return status;
}

static bool cpu_recall(Code **out, Device *d, ByteReader *in, uint32_t n, CompileStats *stats)
{
    CpuCompile how = how_to_compile(d);
    bool there = cpu_code_recall(out, &how, in, n, stats);
    if (there) say_lack(d, &how);
    return there;
}

static TgStatus cpu_backend_assembly(Text *out, Device *d, const Kernel *k)
{
    (void)d;
    return cpu_assembly(out, k);
}

static void cpu_backend_compiler(const Device *d, char out[128])
{
    (void)d;
    cpu_compiler(out);
}

static TgStatus cpu_save_code(BundleWriter *w, Device *d, Kernel *const *k, uint32_t n)
{
    return cpu_code_save(w, d->machine.count, k, n);
}

static double cpu_device_seconds(const Executable *e)
{
    (void)e;
    return 0;
}

const Backend backend_cpu = {
    .name = "cpu",
    .divides = true,
    .open = cpu_open,
    .close = cpu_close,
    .ready = cpu_ready,
    .target = cpu_target,
    .measure = cpu_measure,
    .describe = cpu_describe,
    .render = cpu_render,
    .compile = cpu_backend_compile,
    .compiler = cpu_backend_compiler,
    .code_free = cpu_code_free,
    .remember = cpu_code_remember,
    .recall = cpu_recall,
    .load = executable_load,
    .unload = executable_unload,
    .share = executable_share,
    .save_code = cpu_save_code,
    .save_memory = executable_save_memory,
    .restore = executable_restore,
    .run = executable_run,
    .trace = executable_trace,
    .device_seconds = cpu_device_seconds,
    .time = cpu_time,
    .assembly = cpu_backend_assembly,
};
