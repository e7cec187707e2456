/* Random graphs as whole plans: scheduled, optimised (by the heuristic, or at random), packed, planned, loaded and run,
 * twice, by the reference device, the CPU and CUDA, against the interpreter of tensors. PLAN_COUNT graphs from
 * RANDOM_SEED (default 1). The emulator of CUDA runs a graph's nodes in any order that its edges allow. Then graphs
 * that are divided among two to four devices: what is put on them, by rows or whole, is chosen at random, as is whether
 * products are divided by weights. Then the same among ranks, here threads that share nothing but mailboxes.
 */
#include "tests/test.h"

#include <pthread.h>
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
    int32_t rank, ranks;                /* 0: devices are the process's */
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

/* ---- mail between ranks ---- */

enum { BOXES = 1 << 14, PATIENCE_S = 30 };
static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    void *message[BOXES];
    bool lost;                          /* somebody waited in vain */
} mail = { .lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER };

static bool wait_for(int32_t box, bool full)
{
    struct timespec end;
    clock_gettime(CLOCK_REALTIME, &end);
    end.tv_sec += PATIENCE_S;
    while (!mail.lost && (mail.message[box] != NULL) != full)
        if (pthread_cond_timedwait(&mail.changed, &mail.lock, &end)) mail.lost = true;
    return !mail.lost;
}

static bool pass(const Message *m, void *const *args, bool sends)
{
    bool good = m->number < BOXES && wait_for(m->number, !sends);
    char *at = good ? sends ? malloc((size_t)m->bytes) : mail.message[m->number] : NULL;
    void *room = at;
    for (uint32_t k = 0; k < m->npiece && good; at += m->piece[k++].bytes) {
        char *piece = (char *)args[m->piece[k].arg] + m->piece[k].begin;
        memcpy(sends ? at : piece, sends ? piece : at, (size_t)m->piece[k].bytes);
    }
    if (!sends) free(room);
    if (good) mail.message[m->number] = sends ? room : NULL;
    pthread_cond_broadcast(&mail.changed);
    return good;
}

static TgStatus exchange(const HostCall *call, void *const *args, int64_t *vars)
{
    const Exchange *e = call->exchange;
    bool good = true;
    (void)vars;
    pthread_mutex_lock(&mail.lock);
    for (uint32_t k = 0; k < e->nmessage && good; k++) good = pass(&e->message[k], args, e->sends);
    pthread_mutex_unlock(&mail.lock);
    return good ? TG_OK : fail(TG_INTERNAL, "a message did not come, or was not fetched");
}

/* ---- one plan ---- */

/* The graph's values over several devices; the engine's target has as many. */
static TgStatus divide(Session *r, Engine *e)
{
    Graph *g = r->rg.g;
    uint32_t n = 2 + random_below(&e->r, 3);
    Devices d = first_devices(e->ranks ? (uint32_t)e->ranks : n);
    const UOp *to[RANDOM_INPUTS], *out[64];
    for (uint32_t k = 0; k < RANDOM_INPUTS; k++) {
        U x = to[k] = r->rg.input[k];
        uint32_t way = random_below(&e->r, 4);
        bool rows = uop_rank(x) && uop_is_const(uop_dim(x, 0)) && uop_size(x, 0) % d.n == 0;
        if (way) to[k] = rows && way < 3 ? copy_to_all(g, x, d) : broadcast_to(g, x, d);
    }
    U sink = uop_substitute(g, r->rg.sink, r->rg.input, to, RANDOM_INPUTS);
    TRY(devices_split(g, sink->src, sink->nsrc, &(SplitBy){ d, random_below(&e->r, 2) }, out));
    r->rg.sink = uop_new(g, UOP_SINK, DT_VOID, NO_ARG, out, sink->nsrc);
    e->several = *e->backend->target(e->device);
    e->several.devices = (int32_t)d.n;
    e->several.threads = (e->several.threads + e->several.devices - 1) / e->several.devices;
    e->several.rank = e->rank;
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
    TRY(sched_schedule(&r->s, r->rg.g, r->rg.sink, e->target, NULL, NULL));
    TRY(sched_optimize(r->s, e->target, choose, e, 1, NULL));
    TRY(plan_make(&r->p, r->s, e->target));
    for (uint32_t i = 0; i < r->p->nstep; i++)
        if (r->p->step[i].kind == STEP_HOST && r->p->step[i].call->exchange) r->p->step[i].host = exchange;
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

static bool begins(Session *r, uint64_t seed, Engine *e)
{
    *r = (Session){ .at = { seed, e->backend->name, NULL, NULL, NULL } };
    random_graph_new(&r->rg, seed);
    e->r.state = seed;
    e->at_random = seed % 2;
    return went(&r->at, prepare(r, e));
}

static void ends(Session *r, Engine *e)
{
    for (int k = 0; k < 3; k++) free(r->out[k]), ref_tensor_free(&r->want[k]);
    if (r->x) e->backend->unload(r->x);
    if (r->code) e->backend->code_free(r->code);
    plan_free(r->p);
    schedule_free(r->s);
    random_graph_free(&r->rg);
}

static bool plan_agrees(uint64_t seed, Engine *e)
{
    Session r;
    bool ok = begins(&r, seed, e) && run_agrees(&r, e) && run_agrees(&r, e);
    ends(&r, e);
    return ok;
}

/* ---- one plan a rank ---- */

enum { RANKS = 4 };
typedef struct { Session r; Engine e; bool good; } Rank;

static void *run_rank(void *rank)
{
    Rank *x = rank;
    x->good = run_agrees(&x->r, &x->e);
    x->good = x->good && run_agrees(&x->r, &x->e);
    return NULL;
}

/* All ranks know what all do, and each has all outputs. */
static bool ranks_agree(uint64_t seed, Rank *rank, int32_t ranks)
{
    pthread_t thread[RANKS];
    bool good = true;
    for (int32_t k = 0; k < ranks; k++) {
        Engine *e = &rank[k].e;
        e->rank = k + 1, e->ranks = ranks;
        good &= begins(&rank[k].r, seed, e);
        if (good && k && rank[k].r.p->common != rank[0].r.p->common)
            good = went(&rank[k].r.at, fail(TG_INTERNAL, "plans differ"));
    }
    for (int32_t k = 0; k < ranks && good; k++) pthread_create(&thread[k], NULL, run_rank, &rank[k]);
    for (int32_t k = 0, all = good; k < ranks && all; k++) pthread_join(thread[k], NULL), good &= rank[k].good;
    for (int32_t k = 0; k < ranks; k++) ends(&rank[k].r, &rank[k].e);
    for (int32_t k = 0; k < BOXES; k++) free(mail.message[k]), mail.message[k] = NULL;
    mail.lost = false;
    return good;
}

static void ranks_of(const Backend *b, long some)
{
    Rank rank[RANKS];
    long count = setting("PLAN_COUNT", some), first = setting("RANDOM_SEED", 1), bad = 0;
    for (int k = 0; k < RANKS; k++) {
        rank[k].e = (Engine){ .backend = b, .divided = true };
        if (!open_backend(&rank[k].e.device, b)) skip();
    }
    for (long i = 0; i < count; i++) {
        for (int k = 0; k < RANKS; k++) rank[k].e.target = b->target(rank[k].e.device);
        bad += !ranks_agree((uint64_t)(first + i), rank, 2 + (int32_t)(i % (RANKS - 1)));
    }
    for (int k = 0; k < RANKS; k++) b->close(rank[k].e.device);
    print_message("ranks of %s: %ld plans, %ld failures\n", b->name, count, bad);
    assert_int_equal(bad, 0);
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
/* Once wrong: GCC 12's vectors of a sum of i64; a sum across lanes taken for a vector; a choice between bytes, which is
 * an int in C, beside a vector of bytes; and divided, a serial kernel of all devices on the last thread. */
static void plans_once_wrong(void **state)
{
    (void)state;
    static const uint64_t seeds[] = { 6543, 6236, 5149, 5175, 30592 };
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

static void plans_over_ranks(void **state)
{
    (void)state;
    ranks_of(&backend_reference, 60);
    ranks_of(&backend_cpu, 30);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(plans_of_the_reference), cmocka_unit_test(plans_of_the_cpu),
                                        cmocka_unit_test(plans_of_cuda),
                                        cmocka_unit_test(plans_over_devices), cmocka_unit_test(plans_over_ranks),
                                        cmocka_unit_test(plans_once_wrong) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
