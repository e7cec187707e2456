/* Every kernel of whole models under the heuristic's list. Without a GPU: the real compiler takes it (skipped where
 * libnvrtc is not installed). On one (TGRUN_TEST_GPU=1): what it computes is compared with the interpreter.
 * KERNEL_MODELS="a.onnx b.onnx": the models; their weights may be missing, only shapes count. */
#define _GNU_SOURCE
#include "tests/test.h"

#include <ctype.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "backends/cuda/cuda.h"
#include "backends/cuda/nvrtc.h"
#include "beam/check.h"
#include "frontend/session/session.h"
#include "graph/base/map.h"

typedef struct {
    Kernel **kernel;
    uint32_t count, cap;
    Arena *arena;
    Map seen;
    bool gpu;
    uint32_t bad;
} All;

/* Sizes of free dimensions: those of the models that the tests know. */
static int64_t free_size(const char *symbol)
{
    static const struct { const char *symbol; int64_t size; } known[] = { { "S", 128 }, { "T", 200 }, { "P", 63 } };
    for (size_t i = 0; symbol && i < sizeof known / sizeof *known; i++)
        if (!strcmp(symbol, known[i].symbol)) return known[i].size;
    return 1;
}

/* The name of a model's file of weights: the first that ends so in its bytes. */
static bool weights_name(const char *model, char out[256])
{
    static const char suffix[] = ".weights";
    FILE *f = fopen(model, "rb");
    char *bytes = malloc(8 << 20), *end = NULL, *start;
    size_t n = f && bytes ? fread(bytes, 1, 8 << 20, f) : 0;
    if (n) end = memmem(bytes, n, suffix, sizeof suffix - 1);
    for (start = end; end && start > bytes && (isalnum((unsigned char)start[-1]) || start[-1] == '_'); start--) {}
    if (end) snprintf(out, 256, "%.*s%s", (int)(end - start), start, suffix);
    if (f) fclose(f);
    free(bytes);
    return end != NULL;
}

/* The model in a folder of its own, beside an empty file of weights, as large as any model's. */
static void stand_in(const char *model, const char *parent, int number, char path[512])
{
    char name[256], weights[512], folder[128];
    snprintf(folder, sizeof folder, "%s/%d", parent, number);
    assert_int_equal(mkdir(folder, 0700), 0);
    snprintf(path, 512, "%s/%s", folder, strrchr(model, '/') ? strrchr(model, '/') + 1 : model);
    assert_int_equal(symlink(model, path), 0);
    if (!weights_name(model, name)) return;
    snprintf(weights, sizeof weights, "%s/%s", folder, name);
    int f = open(weights, O_CREAT | O_WRONLY, 0600);
    assert_true(f >= 0);
    assert_int_equal(ftruncate(f, INT64_C(4) << 30), 0);
    close(f);
}

/* The kernel outlives the model's graph. */
static void keep_one(All *all, Kernel *k)
{
    if (map_gets(&all->seen, k->key)) return;
    map_puts(&all->seen, arena_strdup(all->arena, k->key), k);
    if (all->count == all->cap)
        all->kernel = realloc(all->kernel, (all->cap = all->cap ? all->cap * 2 : 256) * sizeof *all->kernel);
    Kernel *c = all->kernel[all->count++] = kernel_clone(k);
    Arena *a = arena_new();
    uint32_t n;
    const UOp **order = uop_toposort(c->g, &c->root, 1, a, &n);
    for (uint32_t i = 0; i < n; i++)
        if (order[i]->op == UOP_PARAM) c->param[order[i]->arg.i].buffer = order[i];
    for (uint32_t i = 0; i < c->nparam; i++)
        if (c->param[i].buffer->op != UOP_PARAM) c->param[i].buffer = uop_copy(c->g, c->param[i].buffer, NULL);
    arena_free(a);
}

static TgStatus collect(All *all, TgSession *s)
{
    TgTensor in[32] = { { 0 } };
    TgPort port;
    int32_t n = 0;
    for (; n < 32 && tg_input(s, n, &port) == TG_OK; n++) {
        in[n] = (TgTensor){ .type = port.type, .rank = port.rank };
        for (int32_t d = 0; d < port.rank; d++)
            in[n].shape[d] = port.shape[d] < 0 ? free_size(port.symbol[d]) : port.shape[d];
    }
    Imported imported = { 0 };
    Schedule *schedule = NULL;
    TgStatus status = import_model(&imported, s->model, in, (uint32_t)n, NULL, NULL);
    if (status == TG_OK) status = sched_schedule(&schedule, imported.g, imported.sink, s->choice.target, NULL);
    for (uint32_t i = 0; status == TG_OK && i < schedule->count; i++)
        if (schedule->item[i].kernel && !schedule->item[i].once && schedule->item[i].kernel->key[0])
            keep_one(all, schedule->item[i].kernel);
    if (schedule) schedule_free(schedule);
    if (imported.g) graph_free(imported.g);
    return status;
}

static TgStatus lowered(Kernel **out, const Kernel *k, const Target *t)
{
    OptList list;
    heuristic_opts(&list, k, t);
    *out = kernel_clone(k);
    TRY(opt_apply_list(*out, &list, t));
    return kernel_lower(*out, t, NULL);
}

static void compile_all(All *all, const Target *t)
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
        free(job[i].cubin);
        free(job[i].error);
        text_free(&source[i]);
    }
    workers_free(w);
    free(job);
    free(source);
}

static void compare_one(All *all, const Backend *b, Device *d, const Kernel *base)
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
    char *list = strdup(getenv("KERNEL_MODELS")), *save = NULL, folder[] = "/tmp/tgrun_models_XXXXXX", command[64];
    All all = { .arena = arena_new(), .gpu = getenv("TGRUN_TEST_GPU") != NULL };
    TgSession *last = NULL;
    int number = 0;
    assert_non_null(mkdtemp(folder));
    map_init(&all.seen, all.arena);
    for (char *model = strtok_r(list, " ", &save); model; model = strtok_r(NULL, " ", &save)) {
        TgSession *s = NULL;
        char path[512];
        stand_in(model, folder, number++, path);
        TgStatus status = tg_open(
            &s, path,
            &(TgOptions){ .device = getenv("KERNEL_DEVICE") ? getenv("KERNEL_DEVICE") : "cuda", .no_cache = 1 });
        if (status == TG_OK) status = collect(&all, s);
        if (status != TG_OK) print_message("%s: %s\n", model, tg_error()), all.bad++;
        if (last) tg_close(last);
        last = s;
    }
    assert_non_null(last);
    if (!all.gpu) compile_all(&all, last->choice.target);
    for (uint32_t i = 0; all.gpu && i < all.count; i++) compare_one(&all, last->backend, last->device, all.kernel[i]);
    print_message("%u of %u different kernels %s\n", all.count - all.bad, all.count,
                  all.gpu ? "are what the interpreter has" : "compile");
    for (uint32_t i = 0; i < all.count; i++) kernel_free(all.kernel[i]);
    free(all.kernel);
    tg_close(last);
    arena_free(all.arena);
    free(list);
    snprintf(command, sizeof command, "rm -r %s", folder);
    assert_int_equal(system(command), 0);
    assert_int_equal(all.bad, 0);
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
