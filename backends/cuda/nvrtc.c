/* NVRTC by dlopen. Thread safety: NVRTC's own; nvrtc_open is called before threads start. */
#include "backends/cuda/nvrtc.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/base/memory.h"

typedef struct Program_ *Program;
static struct {
    int (*Version)(int *major, int *minor);
    int (*CreateProgram)(Program *p, const char *source, const char *name, int headers, const char *const *text,
                         const char *const *include);
    int (*CompileProgram)(Program p, int count, const char *const *options);
    int (*DestroyProgram)(Program *p);
    int (*GetProgramLogSize)(Program p, size_t *bytes);
    int (*GetProgramLog)(Program p, char *log);
    int (*GetCUBINSize)(Program p, size_t *bytes);
    int (*GetCUBIN)(Program p, char *cubin);
} rtc;
static void *library;

static const char *const places[] = {
    "libnvrtc.so.13",
    "libnvrtc.so.12",
    "libnvrtc.so",
    "/usr/local/cuda/lib64/libnvrtc.so",
    "/usr/local/cuda/lib/libnvrtc.so",
    "/usr/local/cuda/targets/x86_64-linux/lib/libnvrtc.so",
};

static void *find_library(void)
{
    const char *own = getenv("TGRUN_NVRTC");
    void *lib = NULL;
    if (own && *own) return dlopen(own, RTLD_NOW);
    for (size_t k = 0; !lib && k < sizeof places / sizeof *places; k++) lib = dlopen(places[k], RTLD_NOW);
    return lib;
}

static bool resolve(void *lib, const char *name, void *at)
{
    char symbol[64];
    snprintf(symbol, sizeof symbol, "nvrtc%s", name);
    void *f = dlsym(lib, symbol);
    memcpy(at, &f, sizeof f);
    return f != NULL;
}

TgStatus nvrtc_open(void)
{
    if (library) return TG_OK;
    void *lib = find_library();
    if (!lib)
        return fail(TG_CACHE, "cuda: no NVRTC library: install the CUDA toolkit's, or set TGRUN_NVRTC to its path");
    bool ok = true;
#define F(name) ok &= resolve(lib, #name, &rtc.name);
    F(Version) F(CreateProgram) F(CompileProgram) F(DestroyProgram) F(GetProgramLogSize) F(GetProgramLog) F(GetCUBINSize) F(GetCUBIN)
#undef F
    if (!ok) return fail(TG_CACHE, "cuda: this NVRTC library is too old");
    library = lib;
    return TG_OK;
}

TgStatus nvrtc_version(int *major, int *minor)
{
    TRY(nvrtc_open());
    return rtc.Version(major, minor) ? fail(TG_CACHE, "cuda: NVRTC does not tell its version") : TG_OK;
}

static TgStatus compile_error(Program p)
{
    size_t n = 0;
    rtc.GetProgramLogSize(p, &n);
    char *log = mem_try(n + 1);
    if (!log) return fail(TG_LIMIT, "cuda: the kernel does not compile; there is no memory for the reason");
    log[0] = log[n] = 0;
    if (n) rtc.GetProgramLog(p, log);
    const char *error = strstr(log, "error");
    TgStatus status = fail(TG_INTERNAL, "cuda: the kernel does not compile: %.700s", error ? error : log);
    mem_free(log);
    return status;
}

TgStatus nvrtc_compile(void **out, size_t *size_bytes, const char *source, const char *arch)
{
    char target[32];
    Program p = NULL;
    TRY(nvrtc_open());
    snprintf(target, sizeof target, "-arch=%s", arch);
    const char *const options[] = { target, "-default-device", "-std=c++17" };
    if (rtc.CreateProgram(&p, source, "kernel.cu", 0, NULL, NULL))
        return fail(TG_INTERNAL, "cuda: NVRTC makes no program");
    TgStatus status = rtc.CompileProgram(p, 3, options) ? compile_error(p) : TG_OK;
    if (status == TG_OK && (rtc.GetCUBINSize(p, size_bytes) || !*size_bytes))
        status = fail(TG_INTERNAL, "cuda: NVRTC makes no code for %s", arch);
    if (status == TG_OK && (!(*out = mem_try(*size_bytes)) || rtc.GetCUBIN(p, *out)))
        status = fail(TG_LIMIT, "cuda: no memory for %zu bytes of code", *size_bytes);
    rtc.DestroyProgram(&p);
    return status;
}
