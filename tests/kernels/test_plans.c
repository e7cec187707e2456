/* Random graphs as whole plans: scheduled, optimised (by the heuristic, or at random), packed, planned, loaded and run,
 * twice, by the reference device, the CPU and CUDA, against the interpreter of tensors. PLAN_COUNT graphs from
 * RANDOM_SEED (default 1). The emulator of CUDA runs a graph's nodes in any order that its edges allow. Then graphs
 * that are divided among two to four devices: what is put on them, by rows or whole, is chosen at random, as is whether
 * products are divided by weights.
 */
#include "tests/test.h"

#include <stdlib.h>
#include <string.h>

#include "beam/beam.h"
#include "graph/devices.h"
#include "random_stages.h"

typedef struct {
    const Backend *backend;
    Device *device;
    const Target *target;
    Random r;
    bool at_random;
    bool divided;                       /* among devices */
    Target several;
} Engine;

static void choose(OptList *out, const Kernel *k, const ScheduleItem *item, const Schedule *s, void *user)
{
    Engine *e = user;
    (void)item, (void)s;
    if (!e->at_random) {
        heuristic_opts(out, k, e->target);
        return;
    }
    Kernel *c = kernel_clone(k);
    random_opts(c, &e->r, random_below(&e->r, 5), e->target);
    *out = c->opts;
    kernel_free(c);
}

/* ---- one plan ---- */

typedef struct {
    RandomGraph rg;
    RefTensor want[3];
    Schedule *s;
    Plan *p;
    Code *code;
    Executable *x;
    void *out[3];
    Place at;
} Session;

/* The graph's values over several devices; the engine's target has as many. */
static TgStatus divide(Session *r, Engine *e)
{
    Graph *g = r->rg.g;
    Devices d = first_devices(2 + random_below(&e->r, 3));
    const UOp *to[RANDOM_INPUTS], *out[64];
    for (uint32_t k = 0; k < RANDOM_INPUTS; k++) {
        U x = to[k] = r->rg.input[k];
        uint32_t way = random_below(&e->r, 4);
        bool rows = uop_static(x) && uop_rank(x) && uop_size(x, 0) % d.n == 0;
        if (way) to[k] = rows && way < 3 ? copy_to_all(g, x, d) : uop_static(x) ? broadcast_to(g, x, d) : x;
    }
    U sink = uop_substitute(g, r->rg.sink, r->rg.input, to, RANDOM_INPUTS);
    TRY(devices_split(g, sink->src, sink->nsrc, &(SplitBy){ d, random_below(&e->r, 2) }, out));
    r->rg.sink = uop_new(g, UOP_SINK, DT_VOID, NO_ARG, out, sink->nsrc);
    e->several = *e->backend->target(e->device);
    e->several.devices = (int32_t)d.n;
    e->several.threads = (e->several.threads + e->several.devices - 1) / e->several.devices;
    e->target = &e->several;
    return graph_error(g);
}

static TgStatus prepare(Session *r, Engine *e)
{
    CompileStats stats;
    TRY(ref_eval(r->want, r->rg.g, r->rg.sink->src, r->rg.sink->nsrc,
                 &(RefInput){ .param = (const void *const *)r->rg.data,
                              .nparam = RANDOM_INPUTS,
                              .nvar = r->rg.var != NULL,
                              .var = &(RefVar){ r->rg.var, r->rg.var_value } }));
    if (e->divided) TRY(divide(r, e));
    TRY(sched_schedule(&r->s, r->rg.g, r->rg.sink, e->target, NULL));
    TRY(sched_optimize(r->s, e->target, choose, e, NULL));
    TRY(plan_make(&r->p, r->s, e->target));
    TRY(e->backend->compile(&r->code, e->device, r->p->kernel, r->p->nkernel, &stats));
    return e->backend->load(&r->x, e->device, r->p, r->code);
}

static bool run_agrees(Session *r, Engine *e)
{
    int64_t vars[16];
    for (uint32_t v = 0; v < r->p->nvar; v++) vars[v] = r->rg.var_value;
    for (uint32_t k = 0; k < r->rg.sink->nsrc; k++) {
        if (!r->out[k])
            r->out[k] = malloc((size_t)(uop_numel(r->rg.sink->src[k]) * dtype_size(r->rg.sink->src[k]->dtype)) + 64);
        memset(r->out[k], 0x5a, (size_t)(uop_numel(r->rg.sink->src[k]) * dtype_size(r->rg.sink->src[k]->dtype)));
    }
    if (!went(&r->at, e->backend->run(r->x, (const void *const *)r->rg.data, r->out, vars))) return false;
    for (uint32_t k = 0; k < r->rg.sink->nsrc; k++)
        if (!agree(&r->at, r->want[k].dtype, r->out[k], r->want[k].data, r->want[k].numel)) return false;
    return true;
}

static bool plan_agrees(uint64_t seed, Engine *e)
{
    Session r = { .at = { seed, e->backend->name, NULL, NULL, NULL } };
    random_graph_new(&r.rg, seed);
    e->r.state = seed;
    e->at_random = seed % 2;
    bool ok = went(&r.at, prepare(&r, e)) && run_agrees(&r, e) && run_agrees(&r, e);
    for (int k = 0; k < 3; k++) free(r.out[k]), ref_tensor_free(&r.want[k]);
    if (r.x) e->backend->unload(r.x);
    if (r.code) e->backend->code_free(r.code);
    plan_free(r.p);
    schedule_free(r.s);
    random_graph_free(&r.rg);
    return ok;
}

static void plans_agree(const Backend *b, long some, bool divided)
{
    Engine e = { .backend = b, .divided = divided };
    long count = setting("PLAN_COUNT", some), first = setting("RANDOM_SEED", 1), bad = 0;
    if (!open_backend(&e.device, b)) skip();
    e.target = b->target(e.device);
    for (long i = 0; i < count; i++) bad += !plan_agrees((uint64_t)(first + i), &e);
    b->close(e.device);
    print_message("%s: %ld plans, %ld failures\n", b->name, count, bad);
    assert_int_equal(bad, 0);
}

static void plans_of_the_reference(void **state) { (void)state, plans_agree(&backend_reference, 40, false); }
static void plans_of_the_cpu(void **state) { (void)state, plans_agree(&backend_cpu, 40, false); }
static void plans_of_cuda(void **state)
{
    (void)state, plans_agree(&backend_cuda, getenv("TGRUN_TEST_GPU") ? 50 : 10, false);
}
/* Once wrong: GCC 12's vectors of a sum of i64; a sum across lanes taken for a vector; and divided, a serial kernel of
 * all devices on the last thread. */
static void plans_once_wrong(void **state)
{
    (void)state;
    static const uint64_t seeds[] = { 6543, 6236, 5149, 5175 };
    Engine e = { .backend = &backend_cpu };
    long bad = 0;
    if (!open_backend(&e.device, e.backend)) skip();
    for (size_t k = 0; k < sizeof seeds / sizeof *seeds; k++)
        for (int divided = 0; divided < 2; divided++) {
            e.target = e.backend->target(e.device);
            e.divided = divided;
            bad += !plan_agrees(seeds[k], &e);
        }
    e.backend->close(e.device);
    assert_int_equal(bad, 0);
}
static void plans_over_devices(void **state)
{
    (void)state;
    plans_agree(&backend_reference, 60, true);
    plans_agree(&backend_cpu, 60, true);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(plans_of_the_reference), cmocka_unit_test(plans_of_the_cpu),
                                        cmocka_unit_test(plans_of_cuda),
                                        cmocka_unit_test(plans_over_devices),
                                        cmocka_unit_test(plans_once_wrong) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
