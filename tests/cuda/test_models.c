/* Every kernel of whole models under the heuristic's list. Without a GPU: the real compiler takes it (skipped where
 * libnvrtc is not installed). On one (TGRUN_TEST_GPU=1): what it computes is compared with the interpreter.
 * KERNEL_MODELS="a.onnx b.onnx": the models; their weights may be missing, only shapes count. */
#include "tests/model_kernels.h"
#include "graph/base/memory.h"

#include <stdio.h>
#include <stdlib.h>

#include "backends/cuda/cuda.h"
#include "backends/cuda/nvrtc.h"
#include "beam/check.h"

static TgStatus lowered(Kernel **out, const Kernel *k, const Target *t)
{
    OptList list;
    heuristic_opts(&list, k, t);
    *out = kernel_clone(k);
    TRY(opt_apply_list(*out, &list, t));
    return kernel_lower(*out, t, NULL);
}

static void compile_all(ModelKernels *all, const Target *t)
{
    CompileJob *job = calloc(all->count, sizeof *job);
    Text *source = calloc(all->count, sizeof *source);
    Workers *w = workers_new(2);
    for (uint32_t i = 0; i < all->count; i++) {
        Kernel *k;
        bool ok = lowered(&k, all->kernel[i], t) == TG_OK && cuda_render(&source[i], k) == TG_OK;
        if (!ok) print_message("%s: %s\n", all->kernel[i]->name, tg_error()), all->bad++, text_add(&source[i], "\n");
        kernel_free(k);
        job[i] = (CompileJob){ .source = source[i].s };
    }
    assert_int_equal(workers_compile(w, job, all->count, "sm_90a"), TG_OK);
    for (uint32_t i = 0; i < all->count; i++) {
        if (!job[i].cubin) print_message("%s: %s\n%s\n", all->kernel[i]->name, job[i].error, source[i].s), all->bad++;
        mem_free(job[i].cubin);
        mem_free(job[i].error);
        text_free(&source[i]);
    }
    workers_free(w);
    free(job);
    free(source);
}

static void compare_one(ModelKernels *all, const Backend *b, Device *d, const Kernel *base)
{
    Checker c;
    Kernel *k;
    Code *code = NULL;
    CompileStats stats = { 0 };
    char why[160] = "";
    TgStatus status = lowered(&k, base, b->target(d));
    if (status == TG_OK) status = b->compile(&code, d, &k, 1, &stats);
    if (status == TG_OK) status = checker_init(&c, b, d, base);
    if (status == TG_OK) {
        status = check_list(&c, k, code, 0, why);
        checker_free(&c);
    }
    if (status != TG_OK) print_message("%s: %s\n", base->name, status == TG_DIFFERS ? why : tg_error()), all->bad++;
    status_clear();
    if (code) b->code_free(code);
    kernel_free(k);
}

static void kernels_of_models(void **state)
{
    (void)state;
    const char *device = getenv("KERNEL_DEVICE");
    bool gpu = getenv("TGRUN_TEST_GPU") != NULL;
    ModelKernels all;
    assert_true(model_kernels(&all, getenv("KERNEL_MODELS"), device ? device : "cuda"));
    TgSession *last = all.session;
    if (!gpu) compile_all(&all, last->choice.target);
    for (uint32_t i = 0; gpu && i < all.count; i++) compare_one(&all, last->backend, last->device, all.kernel[i]);
    uint32_t bad = all.bad;
    print_message("%u of %u different kernels %s\n", all.count - bad, all.count,
                  gpu ? "are what the interpreter has" : "compile");
    model_kernels_free(&all);
    assert_int_equal(bad, 0);
}

int main(void)
{
    const char *emulator = getenv("CUDA_EMULATOR");
    const struct CMUnitTest tests[] = { cmocka_unit_test(kernels_of_models) };
    if (!getenv("KERNEL_MODELS")) return puts("skipped: no KERNEL_MODELS"), 0;
    if (!getenv("TGRUN_TEST_GPU")) {
        if (!emulator || nvrtc_open() != TG_OK) return puts("skipped: no CUDA_EMULATOR, or no compiler"), 0;
        setenv("TGRUN_LIBCUDA", emulator, 1);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
