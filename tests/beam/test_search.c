/* The search against a stub device whose "seconds" are a formula of the list, and which crashes, hangs or computes
 * nonsense where it is made to: the best right list wins, bad ones are remembered, and nothing takes the search down.
 * The same for schedules. Then against the real CPU. This program is its own worker.
 */
#include "tests/test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backends/backend.h"
#include "beam/wire.h"
#include "common/clock.h"
#include "graph/build.h"
#include "subject.h"

/* ---- the stub ---- */

static bool has(const OptList *l, AxisType target)
{
    for (uint32_t i = 0; i < l->count; i++)
        if (l->op[i].kind == OPT_SPLIT && l->op[i].target == target) return true;
    return false;
}

static int64_t lanes(const OptList *l)
{
    int64_t n = 1;
    for (uint32_t i = 0; i < l->count; i++)
        if (l->op[i].kind == OPT_SPLIT && l->op[i].target == AXIS_UPCAST) n *= l->op[i].factor;
    return n;
}

/* Of a device on which a kernel takes the square of how many loops it has. */
static double loops_seconds(const Kernel *k)
{
    double n = 0;
    for (uint32_t i = 0; i < k->linear->nsrc; i++) n += k->linear->src[i]->op == UOP_RANGE;
    return 1e-3 * n * n;
}

/* More lanes are faster up to 48, threads help; unrolling does what STUB says, and looks very fast. */
static double stub_seconds(const OptList *l)
{
    double n = (double)lanes(l), s = 1e-3 * (1 + fabs(log2(48 / n)));
    if (has(l, AXIS_THREAD)) s /= 2;
    return has(l, AXIS_UNROLL) ? s / 100 : s;
}

static TgStatus stub_time(double *seconds, Device *d, Code *c, uint32_t i, const Kernel *k,
                          void (*fill)(void *user, uint32_t slot, void *ptr, size_t bytes), void *user, int runs,
                          double limit_s, void *const *out)
{
    const char *fault = getenv("STUB");
    bool bad = fault && has(&k->opts, AXIS_UNROLL);
    if (bad && !strcmp(fault, "crash")) abort();
    if (bad && !strcmp(fault, "hang")) sleep(1000);
    if (bad && !strcmp(fault, "fail")) return fail(TG_DEVICE, "stub: launch failed");
    if (out) TRY(backend_reference.time(seconds, d, c, i, k, fill, user, runs, limit_s, out));
    if (bad && out && !strcmp(fault, "wrong")) ((float *)out[0])[3] += 0.01f;
    *seconds = fault && !strcmp(fault, "loops") ? loops_seconds(k) : stub_seconds(&k->opts);
    return TG_OK;
}

static TgStatus stub_compile(Code **out, Device *d, Kernel *const *k, uint32_t n, CompileStats *stats)
{
    const char *fault = getenv("STUB");
    for (uint32_t i = 0; i < n && fault; i++) {
        if (has(&k[i]->opts, AXIS_UNROLL) && !strcmp(fault, "compiler")) return fail(TG_CACHE, "stub: error");
        if (has(&k[i]->opts, AXIS_UNROLL) && !strcmp(fault, "compiler crash")) abort();
    }
    return backend_reference.compile(out, d, k, n, stats);
}

static const Target *stub_target(const Device *d) { return (void)d, &beam_target; }

static Backend stub(void)
{
    Backend b = backend_reference;
    b.name = "stub";
    b.target = stub_target;
    b.time = stub_time;
    b.compile = stub_compile;
    return b;
}

/* ---- searching ---- */

typedef struct {
    Graph *g;
    Schedule *schedule;
    Kernel *k;
    TuneDb *db;
    Choice choice;
    Device *device;
    Backend backend;
} Case;

static void begin(Case *c, const Backend *b, int64_t m, int64_t n, int64_t k)
{
    *c = (Case){ .g = graph_new(), .backend = *b, .db = tunedb_open(NULL) };
    assert_int_equal(b->open(&c->device, &(DeviceOptions){ .threads = 1 }), TG_OK);
    choice_init(&c->choice, c->db, &c->backend, c->device);
    c->k = subject_of(c->g, subject_gemm(c->g, m, n, k), c->choice.target, &c->schedule);
    assert_non_null(c->k);
}

static void end(Case *c)
{
    c->backend.close(c->device);
    tunedb_close(c->db);
    schedule_free(c->schedule);
    graph_free(c->g);
}

static SearchReport search(Case *c, double seconds)
{
    double count = 3;
    SearchReport r;
    SearchOptions o = { .choice = &c->choice,
                        .backend = &c->backend,
                        .threads = 1,
                        .kernel = &c->k,
                        .count = &count,
                        .n = 1,
                        .seconds = seconds,
                        .patience_s = fmin(seconds / 4, 1),          /* enough for a machine with other load */
                        .beam = 4,
                        .verbose = getenv("SEARCH_VERBOSE") ? atoi(getenv("SEARCH_VERBOSE")) : 0 };
    assert_int_equal(search_run(&r, &o), TG_OK);
    return r;
}

static void test_finds(void **state)
{
    Case c;
    Tuned t;
    OptList heuristic;
    Backend b = stub();
    (void)state;
    unsetenv("STUB");
    begin(&c, &b, 12, 24, 16);
    heuristic_opts(&heuristic, c.k, c.choice.target);
    SearchReport r = search(&c, 4);
    assert_int_equal(r.timed, 1);
    assert_int_equal(r.bad, 0);
    assert_true(r.after_s <= r.before_s);
    assert_true(fabs(r.before_s - 3 * stub_seconds(&heuristic)) < 1e-6);
    assert_true(tunedb_best(c.db, c.k->key, c.choice.device, &t));
    assert_true(has(&t.opts, AXIS_UNROLL));
    /* the database's list is the one in use now */
    assert_true(choice_of(&heuristic, &c.choice, c.k));
    end(&c);
}

/* Whatever unrolling does to the process, the winner has none, and the lists that had are known. */
static void test_faults(void **state)
{
    static const char *const fault[] = { "wrong", "fail", "crash", "hang", "compiler", "compiler crash" };
    (void)state;
    for (size_t i = 0; i < sizeof fault / sizeof *fault; i++) {
        Case c;
        Tuned t;
        Backend b = stub();
        setenv("STUB", fault[i], 1);
        /* each list that hangs takes two seconds: a sum of 3 has few */
        bool slow = !strcmp(fault[i], "hang");
        begin(&c, &b, 12, 24, slow ? 3 : 16);
        OptList plain = { .count = 0 };
        tunedb_put_best(c.db, c.k->key, c.choice.device, &(Tuned){ plain, 1 });      /* begin far from the best */
        SearchReport r = search(&c, slow ? 40 : 4);
        if (r.improved != 1 || !r.bad)
            print_message("%s: %u improved, %u bad, %u tried\n", fault[i], r.improved, r.bad, r.tried);
        assert_true(r.bad > 0);
        assert_true(r.improved == 1);
        assert_true(tunedb_best(c.db, c.k->key, c.choice.device, &t));
        assert_false(has(&t.opts, AXIS_UNROLL));
        end(&c);
    }
    unsetenv("STUB");
}

static void test_time_limit(void **state)
{
    Case c;
    Backend b = stub();
    (void)state;
    setenv("STUB", "hang", 1);
    begin(&c, &b, 12, 24, 16);
    double start = clock_s();
    search(&c, 1);
    assert_true(clock_s() - start < 6);
    unsetenv("STUB");
    end(&c);
}

static void test_no_worker(void **state)
{
    Case c;
    Backend b = stub();
    SearchReport r;
    (void)state;
    begin(&c, &b, 4, 8, 8);
    char *self = strdup(getenv("TGRUN_WORKER"));
    setenv("TGRUN_WORKER", "/dev/null/no-such-program", 1);
    SearchOptions o = { .choice = &c.choice, .backend = &c.backend, .seconds = 1 };
    assert_int_equal(search_run(&r, &o), TG_CACHE);
    setenv("TGRUN_WORKER", self, 1);
    free(self);
    end(&c);
}

/* A softmax of rows is one kernel, or two on a device that is slow with many loops: what gains is kept, and a second
 * search from there finds nothing. */
static void test_schedules(void **state)
{
    Case c;
    Backend b = stub();
    (void)state;
    setenv("STUB", "loops", 1);
    begin(&c, &b, 4, 8, 8);
    U dim[] = { uop_index(c.g, 256), uop_index(c.g, 1024) };
    U y = softmax(c.g, uop_param(c.g, DT_F32, dim, 2, 7), 1);
    ScheduleSearch o = { .search = { .choice = &c.choice, .backend = &c.backend, .threads = 1, .seconds = 20 },
                         .g = c.g,
                         .sink = UOP(c.g, UOP_SINK, DT_VOID, NO_ARG, y) };
    ScheduleList list = { .count = 0 }, again;
    assert_int_equal(schedules_search(&list, &o), TG_OK);
    assert_true(list.count > 0);
    for (uint32_t i = 0; i < list.count; i++) assert_int_equal(list.op[i].kind, SCHED_STORE);
    again = list;
    assert_int_equal(schedules_search(&again, &o), TG_OK);
    assert_int_equal(again.count, list.count);
    unsetenv("STUB");
    end(&c);
}

/* Real code, real time: never slower than the heuristic's list as measured against it, and right. */
static void test_cpu(void **state)
{
    Case c;
    (void)state;
    begin(&c, &backend_cpu, 31, 40, 57);
    SearchReport r = search(&c, 4);
    /* a machine that is busy needs longer for a first round */
    for (int more = 0; !r.tried && more < 5; more++) r = search(&c, 8);
    assert_int_equal(r.timed, 1);
    assert_true(r.tried > 0);
    assert_true(r.after_s <= r.before_s);
    end(&c);
}

int main(int argc, char **argv)
{
    Backend b = stub();
    const Backend *const backends[] = { &b, &backend_cpu, NULL };
    if (argc > 1 && !strcmp(argv[1], "tune")) return tune_serve(backends, argc - 2, argv + 2);
    setenv("TGRUN_WORKER", "/proc/self/exe", 1);
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_finds), cmocka_unit_test(test_faults),
                                        cmocka_unit_test(test_time_limit), cmocka_unit_test(test_no_worker),
                                        cmocka_unit_test(test_schedules), cmocka_unit_test(test_cpu) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
