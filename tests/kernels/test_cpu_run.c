/* The CPU backend as a session uses it: a plan by hand with shared and serial kernels, a host function that sets a size
 * and may fail, a copy; the code cache; no compiler. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "backends/backend.h"
#include "tests/kernels/hand.h"
#include "tests/test.h"

enum { N = 1 << 16, ROWS = 64 };
#define stop(...) (print_error(__VA_ARGS__), assert_true(false))

static Device *open_device(int threads, const char *cache_dir)
{
    Device *d = NULL;
    DeviceOptions o = { .threads = threads, .cache_dir = cache_dir };
    if (backend_cpu.open(&d, &o) != TG_OK) stop("%s", tg_error());
    return d;
}

/* out[i] = in[i] * scale + offset for rows of N / ROWS, rows shared among threads; with a variable only that many rows.
 */
static Kernel *scale_kernel(float scale, float offset, bool variable)
{
    Kernel *k = hand_kernel();
    const UOp *rows = uop_index(k->g, ROWS);
    if (variable) kernel_add_var(k, rows = uop_var(k->g, "rows", 0, ROWS));
    const UOp *r[2] = { uop_range(k->g, 0, rows, AXIS_THREAD), hand_loop(k, 1, N / ROWS, AXIS_LOOP) },
              *at = hand_add(k, hand_scaled(k, r[0], N / ROWS, 0), r[1]);
    const UOp *x = hand_load(k, hand_at(k, hand_param(k, 1, DT_F32, N), at, 1)),
              *v = hand_add(k, hand_mul(k, x, uop_float(k->g, DT_F32, scale)), uop_float(k->g, DT_F32, offset));
    const UOp *end = hand_end(k, hand_store(k, hand_at(k, hand_param(k, 0, DT_F32, N), at, 1), v), r, 2);
    hand_sink(k, &end, 1);
    k->bytes = N * 8;
    return k;
}

static bool host_fails;
static int64_t host_rows;

static TgStatus set_rows(const HostCall *call, void *const *args, int64_t *vars)
{
    (void)call;
    const float *x = args[0];
    if (host_fails) return fail(TG_BAD_INPUT, "as requested");
    vars[0] = x[N - 1] == 2.0f * (N - 1) ? host_rows : -1;       /* all threads have written by now */
    return TG_OK;
}

typedef struct {
    Device *d;
    Kernel *kernel[2];
    Code *code;
    Executable *e;
    Graph *g;
    Plan plan;
    Step step[4];
    PlanBuffer buffer[4];
    uint32_t arg[4][2], var[1];
    float *in, *out, *copy;
} Fixture;

static void plan_of(Fixture *f)
{
    const UOp *dim = uop_index(f->g, N);
    const Shape *shape = graph_shape(f->g, &dim, 1);
    static const uint32_t args[4][2] = { { 1, 0 }, { 1, 1 }, { 2, 1 }, { 3, 1 } };
    for (int i = 0; i < 4; i++)
        f->buffer[i] = (PlanBuffer){ .kind = MEM_OUTPUT, .size_bytes = N * 4, .dtype = DT_F32, .shape = shape };
    f->buffer[0].kind = MEM_INPUT, f->buffer[1].kind = MEM_ARENA, f->buffer[3].offset = 1;
    memcpy(f->arg, args, sizeof args);
    f->step[0] = (Step){ .kind = STEP_KERNEL, .kernel = 0, .narg = 2, .arg = f->arg[0], .thread_count = ROWS };
    f->step[1] =
        (Step){ .kind = STEP_HOST, .sync = true, .narg = 1, .arg = f->arg[1], .thread_count = 1, .host = set_rows };
    f->step[2] = (Step){
        .kind = STEP_KERNEL, .kernel = 1, .narg = 2, .arg = f->arg[2], .nvar = 1, .var = f->var, .thread_count = -1
    };
    f->step[3] = (Step){ .kind = STEP_COPY, .narg = 2, .arg = f->arg[3], .thread_count = 1 };
    f->plan = (Plan){ .step = f->step,
                      .nstep = 4,
                      .kernel = f->kernel,
                      .nkernel = 2,
                      .buffer = f->buffer,
                      .nbuffer = 4,
                      .ninput = 1,
                      .noutput = 2,
                      .nvar = 1,
                      .arena_bytes = N * 4 };
}

static Fixture *fixture(int threads, const char *cache_dir, CompileStats *stats)
{
    Fixture *f = calloc(1, sizeof *f);
    f->d = open_device(threads, cache_dir);
    f->g = graph_new();
    f->kernel[0] = scale_kernel(2, 0, false);
    f->kernel[1] = scale_kernel(1, 1, true);
    for (int i = 0; i < 2; i++) assert_int_equal(kernel_linearize(f->kernel[i], backend_cpu.target(f->d)), TG_OK);
    plan_of(f);
    if (backend_cpu.compile(&f->code, f->d, f->kernel, 2, stats) != TG_OK) stop("%s", tg_error());
    if (backend_cpu.load(&f->e, f->d, &f->plan, f->code) != TG_OK) stop("%s", tg_error());
    f->in = malloc(N * 4), f->out = malloc(N * 4), f->copy = malloc(N * 4);
    for (int i = 0; i < N; i++) f->in[i] = (float)i;
    return f;
}

static void fixture_free(Fixture *f)
{
    backend_cpu.unload(f->e);
    backend_cpu.code_free(f->code);
    for (int i = 0; i < 2; i++) kernel_free(f->kernel[i]);
    backend_cpu.close(f->d);
    graph_free(f->g);
    free(f->in), free(f->out), free(f->copy), free(f);
}

static TgStatus run_or_trace(Fixture *f, int64_t rows, double *seconds)
{
    int64_t vars[1] = { 0 };
    const void *in[] = { f->in };
    void *out[] = { f->out, f->copy };
    host_rows = rows;
    for (int i = 0; i < N; i++) f->out[i] = f->copy[i] = -1;
    return seconds ? backend_cpu.trace(f->e, in, out, vars, seconds) : backend_cpu.run(f->e, in, out, vars);
}

static TgStatus run(Fixture *f, int64_t rows) { return run_or_trace(f, rows, NULL); }

static void check(const Fixture *f, int64_t rows)
{
    for (int i = 0; i < N; i++) {
        float want = i < rows * (N / ROWS) ? 2.0f * (float)i + 1 : -1;
        if (f->out[i] != want || f->copy[i] != 2.0f * (float)i)
            stop("element %d: got %g and %g\n", i, f->out[i], f->copy[i]);
    }
}

/* A traced run computes the same, and every step has its time; one that fails gives its status. */
static void traces(Fixture *f)
{
    double seconds[4] = { 0 };
    assert_int_equal(run_or_trace(f, 9, seconds), TG_OK);
    check(f, 9);
    for (int i = 0; i < 4; i++) assert_true(seconds[i] > 0 && seconds[i] < 10);
    host_fails = true;
    assert_int_equal(run_or_trace(f, 3, seconds), TG_BAD_INPUT);
    host_fails = false;
    assert_int_equal(run(f, 7), TG_OK);
    check(f, 7);
}

static void runs(int threads)
{
    Fixture *f = fixture(threads, NULL, NULL);
    for (int i = 0; i < 60; i++) {
        int64_t rows = i * 7 % (ROWS + 1);
        assert_int_equal(run(f, rows), TG_OK);
        check(f, rows);
    }
    host_fails = true;
    assert_int_equal(run(f, 3), TG_BAD_INPUT);
    assert_string_equal(tg_error(), "as requested");
    host_fails = false;
    assert_int_equal(run(f, 5), TG_OK);
    check(f, 5);
    traces(f);
    fixture_free(f);
}

/* A loop in the plan: arena = 2 * in; iterations of arena[rows of this iteration] += 1; the iterations, the rows and an
 * error are the host's choice. */
enum { ITERATIONS = 20 };
static int fails_at;

static TgStatus loop_begin(const HostCall *call, void *const *args, int64_t *vars)
{
    (void)call, (void)args;
    vars[0] = ROWS;
    vars[1] = 0;
    return TG_OK;
}

static TgStatus loop_next(const HostCall *call, void *const *args, int64_t *vars)
{
    (void)call, (void)args;
    vars[0]--;
    vars[1] = vars[0] == ROWS - ITERATIONS;
    return ROWS - vars[0] == fails_at ? fail(TG_BAD_INPUT, "as requested") : TG_OK;
}

static void loops(void **state)
{
    (void)state;
    Fixture *f = fixture(0, NULL, NULL);
    Step step[6] = { f->step[0],
                     { .kind = STEP_HOST, .host = loop_begin },
                     f->step[2],
                     { .kind = STEP_HOST, .host = loop_next },
                     { .kind = STEP_JUMP, .target = 2, .nvar = 1 },
                     f->step[3] };
    uint32_t in_place[2] = { 1, 1 }, flag = 1;
    step[2].sync = step[5].sync = true;
    step[2].arg = in_place;
    step[4].var = &flag;
    f->plan.step = step, f->plan.nstep = 6, f->plan.nvar = 2;
    backend_cpu.unload(f->e);
    assert_int_equal(backend_cpu.load(&f->e, f->d, &f->plan, f->code), TG_OK);
    for (int i = 0; i < 150; i++) {
        int64_t vars[2] = { 0 };
        fails_at = i % 3 ? 0 : i % ITERATIONS + 1;
        TgStatus s = backend_cpu.run(f->e, (const void *[]){ f->in }, (void *[]){ f->out, f->copy }, vars);
        assert_int_equal(s, fails_at ? TG_BAD_INPUT : TG_OK);
        for (int e = 0; e < N && !fails_at; e++) {
            int row = e / (N / ROWS), iterations = ROWS - row < ITERATIONS ? ROWS - row : ITERATIONS;
            if (f->copy[e] != 2.0f * (float)e + (float)iterations)
                stop("run %d, element %d: got %g\n", i, e, f->copy[e] - 2.0f * (float)e);
        }
    }
    fixture_free(f);
}

static void one_thread(void **state) { (void)state; runs(1); }
static void all_threads(void **state) { (void)state; runs(0); }

/* A second process, here a second device, takes all code from the folder; a damaged entry is compiled again. */
static void cached_code(void **state)
{
    (void)state;
    char dir[] = "/tmp/tgrun-code-XXXXXX", command[200];
    assert_non_null(mkdtemp(dir));
    for (int round = 0; round < 3; round++) {
        CompileStats stats = { 0 };
        Fixture *f = fixture(1, dir, &stats);
        assert_int_equal(stats.compiled, round == 1 ? 0 : 2);
        assert_int_equal(stats.cached, round == 1 ? 2 : 0);
        assert_int_equal(run(f, 9), TG_OK);
        check(f, 9);
        fixture_free(f);
        snprintf(command, sizeof command,
                 "for f in %s/cpu/*; do printf x | dd of=$f bs=1 seek=200 conv=notrunc 2>/dev/null; done", dir);
        if (round == 1) assert_int_equal(system(command), 0);
    }
    snprintf(command, sizeof command, "rm -r %s", dir);
    assert_int_equal(system(command), 0);
}

/* The compiler runs under limits: CC is a script here that writes down its own. */
static void limits(void **state)
{
    (void)state;
    Code *code = NULL;
    char folder[] = "/tmp/tgrun-limits.XXXXXX", script[64], said[64], text[200] = "";
    char *given = getenv("CC") ? strdup(getenv("CC")) : NULL;
    assert_non_null(mkdtemp(folder));
    snprintf(script, sizeof script, "%s/cc", folder), snprintf(said, sizeof said, "%s/said", folder);
    FILE *f = fopen(script, "w");
    fprintf(f, "#!/bin/sh\nsleep 0.2\necho $(ulimit -t) $(ulimit -c) >%s\nexec %s \"$@\"\n", said,
            given ? given : "gcc");
    fclose(f);
    chmod(script, 0700);
    setenv("CC", script, 1);
    setenv("TGRUN_SANDBOX", "off", 1);                  /* the script's file lies elsewhere */
    Device *d = open_device(1, NULL);
    Kernel *k = scale_kernel(3, 4, false);
    assert_int_equal(kernel_linearize(k, backend_cpu.target(d)), TG_OK);
    assert_int_equal(backend_cpu.compile(&code, d, &k, 1, NULL), TG_OK);
    if (given) setenv("CC", given, 1);
    else unsetenv("CC");
    unsetenv("TGRUN_SANDBOX");
    f = fopen(said, "r");
    assert_non_null(f);
    assert_non_null(fgets(text, sizeof text, f));
    fclose(f);
    assert_string_equal(text, "600 0\n");
    backend_cpu.code_free(code);
    kernel_free(k);
    backend_cpu.close(d);
    remove(said), remove(script), rmdir(folder);
    free(given);
}

static void no_compiler(void **state)
{
    (void)state;
    Code *code = NULL;
    char *path = strdup(getenv("PATH")), *given = getenv("CC") ? strdup(getenv("CC")) : NULL;
    Device *d = open_device(1, NULL);
    Kernel *k = scale_kernel(3, 4, false);
    assert_int_equal(kernel_linearize(k, backend_cpu.target(d)), TG_OK);
    setenv("PATH", "/nowhere", 1);
    unsetenv("CC");
    /* where none is named, our own code does, if there is some for this processor */
    TgStatus status = backend_cpu.compile(&code, d, &k, 1, NULL);
    if (status == TG_OK) backend_cpu.code_free(code);
    else assert_non_null(strstr(tg_error(), "install the package gcc"));
    backend_cpu.close(d);
    assert_int_equal(backend_cpu.open(&d, &(DeviceOptions){ .threads = 1, .compiler_named = true }), TG_OK);
    assert_int_equal(backend_cpu.compile(&code, d, &k, 1, NULL), TG_CACHE);
    assert_non_null(strstr(tg_error(), "install the package gcc"));
    setenv("PATH", path, 1);
    setenv("CC", "/bin/false", 1);
    assert_int_equal(backend_cpu.compile(&code, d, &k, 1, NULL), TG_CACHE);
    setenv("CC", "gcc-of-tomorrow", 1);
    assert_int_equal(backend_cpu.compile(&code, d, &k, 1, NULL), TG_CACHE);
    assert_non_null(strstr(tg_error(), "gcc-of-tomorrow"));
    if (given) setenv("CC", given, 1);
    else unsetenv("CC");
    assert_int_equal(backend_cpu.compile(&code, d, &k, 1, NULL), TG_OK);
    backend_cpu.code_free(code);
    kernel_free(k);
    backend_cpu.close(d);
    free(path);
    free(given);
}

static void fill_ones(void *user, uint32_t slot, void *ptr, size_t bytes)
{
    (void)user;
    for (size_t i = 0; i < bytes / 4; i++) ((float *)ptr)[i] = (float)slot;
}

static void timing(void **state)
{
    (void)state;
    Code *code = NULL;
    Device *d = open_device(0, NULL);
    Kernel *k = scale_kernel(3, 4, false);
    k->nparam = 2;
    k->param[0].written = k->param[1].read = true;
    assert_int_equal(kernel_linearize(k, backend_cpu.target(d)), TG_OK);
    assert_int_equal(backend_cpu.compile(&code, d, &k, 1, NULL), TG_OK);
    double seconds = 0;
    float *out = malloc(N * 4);
    assert_int_equal(backend_cpu.time(&seconds, d, code, 0, k, fill_ones, NULL, 5, 1, (void *[]){ out, NULL }), TG_OK);
    assert_true(seconds > 0 && seconds < 1);
    for (int i = 0; i < N; i++) assert_true(out[i] == 7);
    free(out);
    backend_cpu.code_free(code);
    kernel_free(k);
    backend_cpu.close(d);
}

static void bad_devices(void **state)
{
    (void)state;
    Device *d;
    assert_int_equal(backend_cpu.open(&d, &(DeviceOptions){ .cpus = "zero" }), TG_USAGE);
    assert_int_equal(backend_cpu.open(&d, &(DeviceOptions){ .cpus = "3-1" }), TG_USAGE);
    assert_int_equal(backend_cpu.open(&d, &(DeviceOptions){ .cpus = "4095" }), TG_DEVICE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_thread),  cmocka_unit_test(all_threads), cmocka_unit_test(loops),
        cmocka_unit_test(cached_code), cmocka_unit_test(limits), cmocka_unit_test(no_compiler),
        cmocka_unit_test(timing),      cmocka_unit_test(bad_devices),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
