/* Every rendered kernel goes through the real compiler, in worker processes; skipped where libnvrtc is not installed.
 * No GPU is needed. */
#include "graph/base/memory.h"
#include "tests/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backends/cuda/cuda.h"
#include "backends/cuda/nvrtc.h"
#include "cases.h"

static const char *const archs[] = { "sm_80", "sm_90a" };

static void kernels_compile(void **state)
{
    (void)state;
    CompileJob *job = calloc(case_count, sizeof *job);
    Text *source = calloc(case_count, sizeof *source);
    uint32_t bad = 0;
    for (uint32_t i = 0; i < case_count; i++) {
        Kernel *k;
        assert_int_equal(case_lower(&k, &cases[i], &gpu_target), TG_OK);
        assert_int_equal(cuda_render(&source[i], k), TG_OK);
        kernel_free(k);
    }
    Workers *w = workers_new(2);
    for (size_t a = 0; a < sizeof archs / sizeof *archs; a++) {
        for (uint32_t i = 0; i < case_count; i++) job[i] = (CompileJob){ .source = source[i].s };
        assert_int_equal(workers_compile(w, job, case_count, archs[a]), TG_OK);
        for (uint32_t i = 0; i < case_count; i++) {
            if (!job[i].cubin)
                fprintf(stderr, "case '%s', %s: %s\n%s\n", cases[i].name, archs[a], job[i].error, source[i].s);
            bad += !job[i].cubin || job[i].size_bytes < 1000 || memcmp(job[i].cubin, "\x7f" "ELF", 4) != 0;
            mem_free(job[i].cubin);
            mem_free(job[i].error);
        }
    }
    workers_free(w);
    for (uint32_t i = 0; i < case_count; i++) text_free(&source[i]);
    free(source);
    free(job);
    assert_int_equal(bad, 0);
}

/* A job that does not compile says why and harms no other. */
static void errors_are_told(void **state)
{
    (void)state;
    Workers *w = workers_new(2);
    CompileJob job[] = { { .source = "__global__ void f() { int i = nothing; }" },
                         { .source = "extern \"C\" __global__ void g(float *p) { p[0] = 1; }" } };
    assert_int_equal(workers_compile(w, job, 2, "sm_90a"), TG_OK);
    assert_null(job[0].cubin);
    assert_non_null(strstr(job[0].error, "nothing"));
    assert_non_null(job[1].cubin);
    mem_free(job[0].error);
    mem_free(job[1].cubin);
    workers_free(w);
}

/* A compiler that dies costs its jobs, not the program. */
static void death_is_told(void **state)
{
    (void)state;
    const char *keep = getenv("TGRUN_WORKER");
    char *old = keep ? strdup(keep) : NULL;
    setenv("TGRUN_WORKER", "/bin/false", 1);
    Workers *w = workers_new(2);
    CompileJob job[3] = { { .source = "a" }, { .source = "b" }, { .source = "c" } };
    assert_int_equal(workers_compile(w, job, 3, "sm_90a"), TG_OK);
    for (int k = 0; k < 3; k++) {
        assert_null(job[k].cubin);
        assert_non_null(strstr(job[k].error, "died"));
        mem_free(job[k].error);
    }
    workers_free(w);
    if (old) setenv("TGRUN_WORKER", old, 1);
    else unsetenv("TGRUN_WORKER");
    free(old);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(death_is_told), cmocka_unit_test(kernels_compile),
                                        cmocka_unit_test(errors_are_told) };
    if (nvrtc_open() != TG_OK) {
        printf("skipped: the compiler's own tests: %s\n", tg_error());
        return _cmocka_run_group_tests("without NVRTC", tests, 1, NULL, NULL);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
