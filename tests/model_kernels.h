/* The kernels of whole models, as the search gets them: before OptOps, each once. Their weights may be missing, only
 * shapes count. Every function that a test of such kernels wants is here; all are static. */
#ifndef TG_MODEL_KERNELS_H
#define TG_MODEL_KERNELS_H
#define _GNU_SOURCE
#include "tests/test.h"

#include <ctype.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "frontend/session/session.h"
#include "graph/base/map.h"

typedef struct {
    Kernel **kernel;
    uint32_t count, cap, bad;       /* bad: models that could not be read, with a message */
    Arena *arena;
    Map seen;
    TgSession *session;             /* of the last model: its device and target */
    char folder[64];
} ModelKernels;

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
static void keep_one(ModelKernels *all, Kernel *k)
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

static TgStatus collect(ModelKernels *all, TgSession *s)
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
    if (status == TG_OK) status = sched_schedule(&schedule, imported.g, imported.sink, s->choice.target, NULL, NULL);
    for (uint32_t i = 0; status == TG_OK && i < schedule->count; i++)
        if (schedule->item[i].kernel && !schedule->item[i].once && schedule->item[i].kernel->key[0])
            keep_one(all, schedule->item[i].kernel);
    if (schedule) schedule_free(schedule);
    if (imported.g) graph_free(imported.g);
    return status;
}

/* list: "a.onnx b.onnx"; false: none of them was read. */
static bool model_kernels(ModelKernels *all, const char *list, const char *device)
{
    char *names = strdup(list), *save = NULL;
    int number = 0;
    *all = (ModelKernels){ .arena = arena_new(), .folder = "/tmp/tgrun_models_XXXXXX" };
    assert_non_null(mkdtemp(all->folder));
    map_init(&all->seen, all->arena);
    for (char *model = strtok_r(names, " ", &save); model; model = strtok_r(NULL, " ", &save)) {
        TgSession *s = NULL;
        char path[512];
        stand_in(model, all->folder, number++, path);
        TgStatus status = tg_open(&s, path, &(TgOptions){ .device = device, .cache_dir = all->folder });
        if (status == TG_OK) status = collect(all, s);
        if (status != TG_OK) print_message("%s: %s\n", model, tg_error()), all->bad++;
        if (all->session && s) tg_close(all->session);
        if (s) all->session = s;
    }
    free(names);
    return all->session != NULL;
}

static void model_kernels_free(ModelKernels *all)
{
    for (uint32_t i = 0; i < all->count; i++) kernel_free(all->kernel[i]);
    free(all->kernel);
    tg_close(all->session);
    arena_free(all->arena);
    assert_int_equal(remove_tree(all->folder), 0);
}
#endif
