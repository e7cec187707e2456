/* Random tensor graphs: what the interpreter says of the tensors against the scheduled kernels that it executes in each of their forms, the later ones under random
 * lists of OptOps. RANDOM_COUNT graphs (default 150) from RANDOM_SEED (default 1); RANDOM_VERBOSE prints what fails.
 */
#include "tests/test.h"

#include <stdio.h>
#include <stdlib.h>

#include "graph/print.h"
#include "random_stages.h"

static const Target target = { .kind = "cpu", .vector_bytes = 32, .vector_registers = 16, .threads = 4, .l1_bytes = 32 << 10, .l2_bytes = 1 << 20, .has_threads = true, .has_fma = true };

typedef struct { unsigned kernels, lists, ops, skipped; } Totals;

static bool kernel_agrees(Memory *m, const Kernel *original, Random *r, uint64_t seed, void **want, Totals *totals)
{
    Kernel *k = kernel_clone(original);
    RefMem pack[KERNEL_PARAMS] = { { NULL, 0 } };
    Place at = { seed, "optimize", k, &k->opts, k->root };
    unsigned legal = random_opts(k, r, random_below(r, 6), &target);
    bool ok = fill_packs(m, k, pack, &at) && launch(m, k, pack, ref_exec_root, want, &at);
    totals->lists++;
    totals->ops += legal;
    TgStatus status = ok ? kernel_expand(k, &target) : TG_OK;
    at.stage = "expand";
    if (status == TG_UNSUPPORTED || status == TG_LIMIT) totals->skipped++;
    else if (ok) {
        ok = went(&at, status) && fill_packs(m, k, pack, &at) && launch(m, k, pack, ref_exec_root, want, &at);
        at.stage = "select";
        if (ok) ok = went(&at, kernel_select(k, &target)) && launch(m, k, pack, ref_exec_root, want, &at);
        at.stage = "linearize";
        if (ok) ok = went(&at, kernel_linearize(k, &target)) && launch(m, k, pack, ref_exec_linear, want, &at);
    }
    for (uint32_t i = 0; i < k->nparam; i++) free(pack[i].data);
    kernel_free(k);
    return ok;
}

static bool kernels_agree(Memory *m, Random *r, uint64_t seed, Totals *totals)
{
    bool ok = true;
    for (uint32_t i = 0; i < m->s->count && ok; i++) {
        Kernel *k = m->s->item[i].kernel;
        void *want[KERNEL_PARAMS] = { NULL };
        ok = launch(m, k, NULL, ref_exec_root, want, &(Place){ seed, "layout, one kernel", k, NULL, NULL });
        totals->kernels++;
        for (int t = 0; t < 3 && ok; t++) ok = kernel_agrees(m, k, r, seed, want, totals);
        for (uint32_t p = 0; p < k->nparam; p++) free(want[p]);
    }
    return ok;
}

static bool stages_agree(RandomGraph *rg, const RefTensor *want, uint64_t seed, Totals *totals)
{
    Schedule *s = calloc(1, sizeof *s);
    Memory m = { 0 };
    const UOp *sink = rg->sink;
    Place at = { seed, "rangeify", NULL, NULL, NULL };
    s->g = rg->g;
    bool ok = went(&at, sched_callify(&sink, rg->g, sink, &target)) && went(&at, sched_rangeify(s, rg->g, sink, &target)) && schedule_agrees(rg, s, want, &m, &at);
    memory_free(&m);
    m = (Memory){ 0 };
    at.stage = "layout";
    ok = ok && went(&at, sched_layout(s, &target)) && schedule_agrees(rg, s, want, &m, &at) && kernels_agree(&m, &rg->r, seed, totals);
    memory_free(&m);
    schedule_free(s);
    return ok;
}

static bool seed_agrees(uint64_t seed, Totals *totals)
{
    RandomGraph rg;
    RefTensor want[3];
    random_graph_new(&rg, seed, 3 + (uint32_t)(seed % 11));
    RefInput in = { .param = (const void *const *)rg.data, .nparam = RANDOM_INPUTS };
    Text text = { 0 };
    if (getenv("RANDOM_VERBOSE")) graph_print(&text, rg.g, rg.sink), fprintf(stderr, "%s\n", text.s);
    bool ok = graph_error(rg.g) == TG_OK && went(&(Place){ seed, "tensors", NULL, NULL, NULL }, ref_eval(want, rg.g, rg.sink->src, rg.sink->nsrc, &in));
    if (ok) {
        ok = stages_agree(&rg, want, seed, totals);
        for (uint32_t k = 0; k < rg.sink->nsrc; k++) ref_tensor_free(&want[k]);
    }
    text_free(&text);
    random_graph_free(&rg);
    return ok;
}

static void stages_agree_with_tensors(void **state)
{
    (void)state;
    long count = setting("RANDOM_COUNT", 150), first = setting("RANDOM_SEED", 1), bad = 0;
    Totals totals = { 0 };
    for (long i = 0; i < count; i++) bad += !seed_agrees((uint64_t)(first + i), &totals);
    print_message("%ld graphs, %u kernels, %u lists of %u OptOps, %u not expanded, %ld failures\n", count, totals.kernels, totals.lists, totals.ops, totals.skipped, bad);
    assert_int_equal(bad, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(stages_agree_with_tensors) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
