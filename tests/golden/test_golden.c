/* Goldens: the graph, the schedule with its OptOps and the C of small compositions, as text that somebody reviewed:
 * core.md's worked examples and the compositions of the seed. The device is described here (a CPU of AVX-512 with two
 * threads), so the text is the same on every machine. tests/golden/NAME.txt is what is wanted; a difference is shown by
 * diff. TG_GOLDEN_UPDATE=1 ctest -R golden      writes the files anew: read the difference before you commit it. To add
 * a case: a builder and a row in `cases`. */
#include "tests/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backends/cpu/cpu.h"
#include "beam/beam.h"
#include "graph/devices.h"
#include "graph/print.h"

static const Target avx512 = { .kind = "cpu",
                               .vector_bytes = 64,
                               .vector_registers = 32,
                               .threads = 2,
                               .l1_bytes = 32 << 10,
                               .l2_bytes = 1 << 20,
                               .has_threads = true,
                               .has_fma = true,
                               .has_exp2 = true };

static U input(Graph *g, int slot, DType t, uint32_t rank, const int64_t *size)
{
    U dim[8];
    for (uint32_t k = 0; k < rank; k++) dim[k] = uop_index(g, size[k]);
    return uop_param(g, t, dim, rank, slot);
}
#define INPUT(slot, t, ...) input(g, slot, t, sizeof((int64_t[]){ __VA_ARGS__ }) / 8, (int64_t[]){ __VA_ARGS__ })

static U weight(Graph *g, uint32_t rank, const int64_t *size)
{
    size_t n = 4;
    for (uint32_t k = 0; k < rank; k++) n *= (size_t)size[k];
    return tensor_const(g, DT_F32, size, rank, arena_alloc(graph_arena(g), n), n, "w");
}
#define WEIGHT(...) weight(g, sizeof((int64_t[]){ __VA_ARGS__ }) / 8, (int64_t[]){ __VA_ARGS__ })

/* ---- the compositions ---- */

static U normed(Graph *g, U x)
{
    int64_t axis = -1;
    U d = sub(g, x, mean(g, x, &axis, 1, true)), v = mean(g, mul(g, d, d), &axis, 1, true);
    return mul(g, d, recip(g, sqrt_(g, add(g, v, scalar(g, DT_F32, 1e-5)))));
}

static U gemm(Graph *g) { return matmul(g, INPUT(0, DT_F32, 64, 96), INPUT(1, DT_F32, 96, 64)); }
static U gemm_packed(Graph *g) { return matmul(g, INPUT(0, DT_F32, 48, 64), WEIGHT(64, 96)); }
static U gemm_epilogue(Graph *g)
{
    return add(g, relu(g, add(g, matmul(g, INPUT(0, DT_F32, 48, 64), WEIGHT(64, 96)), WEIGHT(96))),
               INPUT(1, DT_F32, 48, 96));
}
static U softmax_rows(Graph *g) { return softmax(g, INPUT(0, DT_F32, 128, 64), -1); }
static U layer_norm(Graph *g)
{
    return add(g, mul(g, normed(g, add(g, INPUT(0, DT_F32, 128, 64), INPUT(1, DT_F32, 128, 64))), WEIGHT(64)),
               WEIGHT(64));
}
static U prefix_sum(Graph *g) { return running(g, UOP_ADD, INPUT(0, DT_F32, 4, 256), 1, false, false); }
static U arange(Graph *g) { return iota(g, uop_index(g, 64), DT_F32); }
static U gather_rows(Graph *g) { return gather(g, INPUT(0, DT_F32, 100, 32), INPUT(1, DT_I64, 7), 0); }
static U one_hot_rows(Graph *g)
{
    return sum(g,
               where(g, eq(g, unsqueeze(g, INPUT(1, DT_I64, 7), 1), iota(g, uop_index(g, 100), DT_I64)),
                     INPUT(0, DT_F32, 7, 100), scalar(g, DT_F32, 0)),
               1, false);
}

/* y[i] = the sum of x[k] with idx[k] == i. */
static U scatter_add(Graph *g)
{
    U at = eq(g, unsqueeze(g, iota(g, uop_index(g, 32), DT_I64), 1), unsqueeze(g, INPUT(1, DT_I64, 16), 0));
    return sum(g, where(g, at, unsqueeze(g, INPUT(0, DT_F32, 16), 0), scalar(g, DT_F32, 0)), 1, false);
}

static U convolution(Graph *g)
{
    int64_t one[] = { 1, 1 };
    return relu(g,
                add(g, conv(g, INPUT(0, DT_F32, 1, 16, 14, 14), WEIGHT(32, 16, 3, 3), one, one, one, one, 1),
                    WEIGHT(1, 32, 1, 1)));
}

static U attention(Graph *g)
{
    U q = INPUT(0, DT_F32, 2, 48, 16), k = INPUT(1, DT_F32, 2, 48, 16), v = INPUT(2, DT_F32, 2, 48, 16);
    return matmul(g, softmax(g, mul(g, matmul(g, q, transpose(g, k)), scalar(g, DT_F32, 0.25)), -1), v);
}

static U join(Graph *g)
{
    U part[] = { relu(g, INPUT(0, DT_F32, 8, 32)), neg(g, INPUT(1, DT_F32, 8, 16)) };
    return cat(g, part, 2, 1);
}

static U heads(Graph *g)
{
    int64_t split[] = { 48, 4, 16 }, order[] = { 1, 0, 2 };
    return permute(g, reshape_i(g, matmul(g, INPUT(0, DT_F32, 48, 64), WEIGHT(64, 64)), split, 3), order, 3);
}

/* Three layers: one FUNCTION of two kernels. */
static U layers(Graph *g)
{
    U x = INPUT(0, DT_F32, 48, 64);
    for (int k = 0; k < 3; k++) x = normed(g, add(g, x, relu(g, add(g, matmul(g, x, WEIGHT(64, 64)), WEIGHT(64)))));
    return x;
}

/* stage: of the graph that is shown, callify when left out */
typedef struct { const char *name; U (*build)(Graph *g); bool source; const char *stage; } Case;
static const Case cases[] = {
    { "gemm",          gemm,          true  },
    { "gemm_packed",   gemm_packed,   true  },
    { "gemm_epilogue", gemm_epilogue, false },
    { "softmax",       softmax_rows,  true  },
    { "layer_norm",    layer_norm,    false },
    { "convolution",   convolution,   false },
    { "attention",     attention,     false },
    { "heads",         heads,         false },
    { "layers",        layers,        false, "functions" },
    { "join",          join,          true  },
    { "prefix_sum",    prefix_sum,    false },
    { "arange",        arange,        true  },
    { "gather",        gather_rows,   true  },
    { "one_hot",       one_hot_rows,  false },
    { "scatter_add",   scatter_add,   false },
};

/* ---- the text ---- */

static void choose(OptList *out, const Kernel *k, const ScheduleItem *item, const Schedule *s, void *user)
{
    (void)item, (void)s;
    heuristic_opts(out, k, user);
}

/* Kernels in order, their lists of OptOps, and what they read and write. */
static void print_schedule(Text *out, const Schedule *s)
{
    for (uint32_t i = 0; i < s->count; i++) {
        const Kernel *k = s->item[i].kernel;
        if (!k) continue;
        text_add(out, "%s %-40s flops %-8ld ", s->item[i].once ? "once" : "run ", k->name, (long)k->flops);
        opt_print(out, &k->opts);
        for (uint32_t p = 0; p < k->nparam; p++)
            text_add(out, "%s%s%ld", p ? " " : "   ",
                     k->param[p].buffer->op == UOP_PARAM ? "in"
                         : k->param[p].written           ? ">b"
                                                         : "b",
                     (long)buffer_slot(k->param[p].buffer));
        text_add(out, "\n");
    }
}

static TgStatus print_case(Text *out, const Case *c)
{
    Graph *g = graph_new();
    Schedule *s = NULL;
    U value = c->build(g);
    Dump dump = { .text = out, .stage = c->stage ? c->stage : "callify" };
    assert_int_equal(graph_error(g), TG_OK);
    text_add(out, "---- graph\n");
    TRY(sched_schedule(&s, g, UOP(g, UOP_SINK, DT_VOID, NO_ARG, value), &avx512, NULL, &dump));
    text_add(out, "\n---- schedule\n");
    TRY(sched_optimize(s, &avx512, choose, (void *)(uintptr_t)&avx512, 1, NULL));
    print_schedule(out, s);
    if (c->source) text_add(out, "\n---- source\n");
    for (uint32_t i = 0; c->source && i < s->count; i++)
        if (s->item[i].kernel) TRY(cstyle_render(out, &cpu_style, s->item[i].kernel, s->item[i].kernel->name));
    schedule_free(s);
    graph_free(g);
    return TG_OK;
}

static bool same_text(const char *path, const Text *t)
{
    FILE *f = fopen(path, "r");
    bool same = f != NULL;
    for (size_t i = 0; same && i < t->len; i++) same = fgetc(f) == (unsigned char)t->s[i];
    same = same && fgetc(f) == EOF;
    if (f) fclose(f);
    return same;
}

/* Is the text that of the file? */
static bool matches(const char *name, const Text *text)
{
    char path[256], command[600];
    snprintf(path, sizeof path, "tests/golden/%s.txt", name);
    bool same = same_text(path, text);
    if (!same && getenv("TG_GOLDEN_UPDATE")) {
        FILE *f = fopen(path, "w");
        same = f && fwrite(text->s, 1, text->len, f) == text->len && !fclose(f);
    } else if (!same) {
        snprintf(command, sizeof command, "diff -u %s - 1>&2", path);
        FILE *diff = popen(command, "w");
        if (diff) fwrite(text->s, 1, text->len, diff), pclose(diff);
    }
    return same;
}

static bool check(const Case *c)
{
    Text text = { 0 };
    assert_int_equal(print_case(&text, c), TG_OK);
    bool same = matches(c->name, &text);
    text_free(&text);
    return same;
}

static void test_texts(void **state)
{
    bool same = true;
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) same &= check(&cases[i]);
    assert_true(same);
}

/* The specification's collectives over two devices, as composed and as they are split. */
static void test_collectives(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        U (*of)(Graph *g, U x, Devices d);
        bool from_all;
    } rows[] = { { "broadcast", broadcast_to, false }, { "scatter", scatter, false },
                 { "gather", gather_from, true },      { "reduce", reduce_from, true },
                 { "allgather", allgather, true },     { "reduce_scatter", reduce_scatter, true },
                 { "allreduce", allreduce, true } };
    Text text = { 0 };
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
        Graph *g = graph_new();
        Devices d = first_devices(2);
        U x = INPUT(0, DT_F32, 8), y = rows[k].of(g, rows[k].from_all ? copy_to_all(g, x, d) : x, d), parts;
        text_add(&text, "---- %s\n", rows[k].name);
        graph_print(&text, g, y);
        assert_int_equal(devices_split(g, &y, 1, &(SplitBy){ d, false }, &parts), TG_OK);
        text_add(&text, "---- split\n");
        graph_print(&text, g, parts);
        text_add(&text, "\n");
        graph_free(g);
    }
    assert_true(matches("collectives", &text));
    text_free(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_texts), cmocka_unit_test(test_collectives) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
