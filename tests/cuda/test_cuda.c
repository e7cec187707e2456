/* The CUDA backend without a GPU: rendered kernels run on the emulator, which CUDA_EMULATOR names; on the device with
 * TGRUN_TEST_GPU=1. */
#include "tests/test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backends/backend.h"
#include "cases.h"

static Device *device;

static void fill(void *user, uint32_t slot, void *ptr, size_t bytes)
{
    float **in = user, *p = ptr;
    for (size_t i = 0; i < bytes / 4; i++) p[i] = (float)((i * 37 + slot * 11) % 101) / 50 - 1;
    in[slot] = malloc(bytes + 4);
    memcpy(in[slot], p, bytes);
}

static bool close_to(const float *got, const float *want, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        if (!(fabsf(got[i] - want[i]) <= 1e-4f * fabsf(want[i]) + 1e-5f))
            return print_error("at %ld: %g, not %g\n", (long)i, (double)got[i], (double)want[i]), false;
    return true;
}

static bool run_case(const Case *c)
{
    Kernel *k;
    Code *code;
    CompileStats stats;
    double seconds;
    float *in[KERNEL_PARAMS] = { 0 };
    if (case_lower(&k, c, backend_cuda.target(device))) return print_error("%s: %s\n", c->name, tg_error()), false;
    int64_t n = param_numel(k, 0);
    float *got = calloc((size_t)n, 4), *want = calloc((size_t)n, 4);
    void *out[KERNEL_PARAMS] = { got };
    bool ok = backend_cuda.compile(&code, device, &k, 1, &stats) == TG_OK;
    if (ok) {
        ok = backend_cuda.time(&seconds, device, code, 0, k, fill, in, 1, 1, out) == TG_OK;
        if (ok) c->expect(want, in);
        ok = ok && close_to(got, want, n);
        backend_cuda.code_free(code);
    } else print_error("%s\n", tg_error());
    if (!ok || getenv("SHOW")) {
        Text t = { 0 };
        backend_cuda.render(&t, device, k);
        fprintf(stderr, "case '%s': %s\n%s\n", c->name, c->opts, t.s);
        text_free(&t);
    }
    for (uint32_t i = 0; i < k->nparam; i++) free(in[i]);
    free(got), free(want);
    kernel_free(k);
    return ok;
}

static void kernels_compute(void **state)
{
    (void)state;
    uint32_t bad = 0;
    const char *only = getenv("CASE");
    for (uint32_t i = 0; i < case_count; i++)
        if (!only || !strcmp(only, cases[i].name)) bad += !run_case(&cases[i]);
    assert_int_equal(bad, 0);
}

static int open_device(void **state)
{
    (void)state;
    const DeviceOptions o = { .cache_dir = NULL };
    return backend_cuda.open(&device, &o);
}

static int close_device(void **state)
{
    (void)state;
    backend_cuda.close(device);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(kernels_compute) };
    const char *emulator = getenv("CUDA_EMULATOR");
    if (!emulator && !getenv("TGRUN_TEST_GPU")) return puts("skipped: no CUDA_EMULATOR"), 0;
    if (!getenv("TGRUN_TEST_GPU")) {
        setenv("TGRUN_LIBCUDA", emulator, 1);
        setenv("TGRUN_NVRTC", emulator, 1);
    }
    return cmocka_run_group_tests(tests, open_device, close_device);
}
