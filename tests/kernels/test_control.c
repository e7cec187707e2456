/* Loops and branches as whole plans: scheduled, planned and run by the reference device and by the CPU, against the
 * interpreter of tensors. A case is a function that writes its outputs in builders; it runs on several inputs, so that
 * data decide differently. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "backends/backend.h"
#include "backends/reference/reference.h"
#include "beam/beam.h"
#include "frontend/control/loop.h"
#include "graph/custom.h"
#include "tests/test.h"

enum { ROWS = 5, WIDTH = 7, OUTPUTS = 4, SETS = 4 };

#define broken(...)                 \
    do {                            \
        print_error(__VA_ARGS__);   \
        print_error("\n");          \
        assert_true(false);         \
    } while (0)

typedef struct { U x; U bias; } Case;        /* x [ROWS, WIDTH] f32: the input */

static U row_of(Graph *g, U x, U step)
{
    U at = uop_is_const(step) ? uop_index(g, uop_const_int(step) % ROWS) : mod_floor(g, step, uop_index(g, ROWS));
    return squeeze(g, slice(g, x, 0, at, uop_index(g, 1)), 0);
}

/* The number of positive elements, i64 (). */
static U positives(Graph *g, U x)
{
    return sum(g, reshape_i(g, cast(g, gt(g, x, scalar(g, DT_F32, 0)), DT_I64), (int64_t[]){ ROWS * WIDTH }, 1), 0,
               false);
}

/* ---- bodies ---- */

static bool recur(Graph *g, void *user, U step, const U *state, U *next, U *row, U *keep)
{
    Case *c = user;
    U mixed = matmul(g, state[0], c->bias);                         /* [WIDTH] */
    next[0] = tanh_(g, add(g, mul(g, mixed, scalar(g, DT_F32, 0.5)), row_of(g, c->x, step)));
    next[1] = add(g, state[1], next[0]);
    row[0] = next[0];
    row[1] = mul(g, next[1], scalar(g, DT_F32, 2));
    *keep = NULL;
    return true;
}

static bool swap(Graph *g, void *user, U step, const U *state, U *next, U *row, U *keep)
{
    (void)user, (void)step, (void)row;
    next[0] = state[1];
    next[1] = add(g, state[0], scalar(g, DT_F32, 1));
    next[2] = state[2];
    *keep = NULL;
    return true;
}

static bool grow_up(Graph *g, void *user, U step, const U *state, U *next, U *row, U *keep)
{
    (void)user;
    next[0] = mul(g, state[0], scalar(g, DT_F32, 1.5));
    row[0] = add(g, next[0], cast(g, step, DT_F32));
    *keep = lt(g, sum(g, abs_(g, next[0]), 0, false), scalar(g, DT_F32, 50));
    return true;
}

static bool count_up(Graph *g, void *user, U step, const U *state, U *next, U *row, U *keep)
{
    (void)user, (void)row;
    next[0] = add(g, state[0], cast(g, step, DT_F32));
    *keep = NULL;
    return true;
}

static bool nest(Graph *g, void *user, U step, const U *state, U *next, U *row, U *keep)
{
    Case *c = user;
    U inner, trip = add(g, positives(g, c->x), cast(g, step, DT_I64));
    Loop l = { .body = count_up, .trip = trip, .most = 100, .states = 1, .init = state };
    if (!loop_build(g, &l, &inner, NULL)) return false;
    next[0] = mul(g, inner, scalar(g, DT_F32, 0.0625));
    row[0] = add(g, inner, state[0]);
    *keep = NULL;
    return true;
}

/* ---- cases: return the number of outputs ---- */

static uint32_t iterations(Graph *g, Case *c, U *out, int64_t trip)
{
    U zero = expand(g, scalar(g, DT_F32, 0), (U[]){ uop_index(g, WIDTH) }, 1),
      init[2] = { zero, row_of(g, c->x, uop_index(g, 0)) };
    Loop l = {
        .body = recur, .user = c, .trip = uop_index(g, trip), .most = trip, .states = 2, .rows = 2, .init = init
    };
    return loop_build(g, &l, out, out + 2) ? 4 : 0;
}

static uint32_t few_iterations(Graph *g, Case *c, U *out) { return iterations(g, c, out, 3); }
static uint32_t many_iterations(Graph *g, Case *c, U *out) { return iterations(g, c, out, 23); }

static uint32_t swapped_states(Graph *g, Case *c, U *out)
{
    U init[3] = { row_of(g, c->x, uop_index(g, 0)), row_of(g, c->x, uop_index(g, 1)), c->x };
    Loop l = { .body = swap, .user = c, .trip = uop_index(g, 13), .most = 13, .states = 3, .init = init };
    return loop_build(g, &l, out, NULL) ? 3 : 0;
}

static uint32_t conditions(Graph *g, Case *c, U *out)
{
    U first = row_of(g, c->x, uop_index(g, 0)),
      start = gt(g, squeeze(g, slice_i(g, first, 0, 0, 1), 0), scalar(g, DT_F32, -1));
    Loop l = { .body = grow_up,
               .user = c,
               .trip = uop_index(g, 40),
               .most = 40,
               .keep = start,
               .states = 1,
               .rows = 1,
               .init = &first };
    if (!loop_build(g, &l, out, out + 1)) return 0;
    out[2] = sum(g, out[1], 0, false);
    return 3;
}

static uint32_t counted_by_data(Graph *g, Case *c, U *out)
{
    U init = row_of(g, c->x, uop_index(g, 2));
    Loop l = {
        .body = count_up, .user = c, .trip = positives(g, c->x), .most = ROWS * WIDTH, .states = 1, .init = &init
    };
    return loop_build(g, &l, out, NULL) ? 1 : 0;
}

static uint32_t nested(Graph *g, Case *c, U *out)
{
    U init = row_of(g, c->x, uop_index(g, 2));
    Loop l = { .body = nest, .user = c, .trip = uop_index(g, 11), .most = 11, .states = 1, .rows = 1, .init = &init };
    return loop_build(g, &l, out, out + 1) ? 2 : 0;
}

static uint32_t too_long_to_write_out(Graph *g, Case *c, U *out)
{
    U init = row_of(g, c->x, uop_index(g, 2));
    Loop l = { .body = count_up, .user = c, .trip = uop_index(g, 17000), .most = 17000, .states = 1, .init = &init };
    return loop_build(g, &l, out, NULL) ? 1 : 0;
}

static uint32_t branches(Graph *g, Case *c, U *out)
{
    U p = gt(g, positives(g, c->x), uop_int(g, DT_I64, ROWS * WIDTH / 2)),
      dim[2] = { uop_index(g, ROWS), uop_index(g, WIDTH) };
    BranchAttr attr = { .base = 1 << 20, .values = 2, .captured = 1 };
    U in = uop_param(g, DT_F32, dim, 2, attr.base);
    U yes[2] = { softmax(g, in, 1), in },
      no[2] = {
          in, matmul(g, in, expand(g, scalar(g, DT_F32, 0.5), (U[]){ uop_index(g, WIDTH), uop_index(g, WIDTH) }, 2))
      };
    U body[2] = { uop_new(g, UOP_TUPLE, DT_VOID, NO_ARG, yes, 2), uop_new(g, UOP_TUPLE, DT_VOID, NO_ARG, no, 2) };
    U call = call_new(g, custom_new(g, "if", &attr, sizeof attr, body, 2),
                      (U[]){ p, add(g, c->x, scalar(g, DT_F32, 1)) }, 2);
    out[0] = call_result(g, call, 0, DT_F32, dim, 2);
    out[1] = add(g, call_result(g, call, 1, DT_F32, dim, 2), c->x);
    return 2;
}

/* The state as bytes times weights as bytes, both with zero points. */
static bool quantised_step(Graph *g, void *user, U step, const U *state, U *next, U *row, U *keep)
{
    Case *c = user;
    (void)row;
    U bytes = cast(g, mul(g, add(g, state[0], scalar(g, DT_F32, 1)), scalar(g, DT_F32, 100)), DT_U8),
      sums = matmul(g, sub(g, cast(g, bytes, DT_I32), scalar(g, DT_I32, 100)), c->bias);
    next[0] = tanh_(g, add(g, mul(g, cast(g, sums, DT_F32), scalar(g, DT_F32, 1e-4)), row_of(g, c->x, step)));
    *keep = NULL;
    return true;
}

static uint32_t weights_as_bytes(Graph *g, Case *c, U *out)
{
    static const uint8_t w[WIDTH * WIDTH] = { 3, 250, 77, 121, 0, 9, 130, [20] = 55, [33] = 201, [48] = 99 };
    U weights = tensor_const(g, DT_U8, (int64_t[]){ WIDTH, WIDTH }, 2, w, sizeof w, "w");
    Case mine = { c->x, sub(g, cast(g, weights, DT_I32), scalar(g, DT_I32, 121)) };
    U init = row_of(g, c->x, uop_index(g, 2));
    Loop l = {
        .body = quantised_step, .user = &mine, .trip = uop_index(g, 12), .most = 12, .states = 1, .init = &init
    };
    if (!loop_build(g, &l, out, NULL)) return 0;
    U call = out[0]->src[0];
    assert_int_equal(call->op, UOP_CALL);
    for (uint32_t k = 3; k < call->nsrc; k++) assert_int_equal(call->src[k]->dtype, DT_F32);    /* no wide weights */
    return 1;
}

static const struct { const char *name; uint32_t (*make)(Graph *g, Case *c, U *out); } row[] = {
    { "few iterations", few_iterations }, { "many iterations", many_iterations }, { "swapped states", swapped_states }, { "conditions", conditions }, { "counted by data", counted_by_data },
    { "nested", nested }, { "too long to write out", too_long_to_write_out }, { "branches", branches },
    { "weights as bytes", weights_as_bytes },
};

/* ---- a case ---- */

typedef struct { const Backend *b; Device *d; const Target *t; } Engine;

static void choose(OptList *out, const Kernel *k, const ScheduleItem *item, const Schedule *s, void *user)
{
    (void)item, (void)s;
    heuristic_opts(out, k, ((Engine *)user)->t);
}

static void set_data(float *x, int set)
{
    srand((unsigned)set);
    for (int i = 0; i < ROWS * WIDTH; i++) x[i] = (float)(rand() % 2000 - 1000) / 500 + (float)(set - 1);
}

static void compare(const char *name, int set, const RefTensor *want, const float *got)
{
    for (int64_t i = 0; i < want->numel; i++) {
        float w = ((const float *)want->data)[i];
        if (fabsf(got[i] - w) > 1e-4f * (1 + fabsf(w)))
            broken("%s, set %d: element %ld is %g; wanted %g", name, set, (long)i, (double)got[i], (double)w);
    }
}

static void run_sets(const char *name, Graph *g, U sink, const Plan *p, Executable *x, const Engine *e)
{
    int64_t *vars = calloc(p->nvar + 1u, sizeof *vars);
    void *out[OUTPUTS];
    for (uint32_t k = 0; k < sink->nsrc; k++) out[k] = calloc((size_t)uop_numel(sink->src[k]) + 16, 4);
    if (p->nvar) memcpy(vars, p->var_value, p->nvar * sizeof *vars);
    for (int set = 0; set < SETS; set++) {
        float data[ROWS * WIDTH];
        const void *in = data;
        RefTensor want[OUTPUTS];
        set_data(data, set);
        assert_int_equal(ref_eval(want, g, sink->src, sink->nsrc, &(RefInput){ .param = &in, .nparam = 1 }), TG_OK);
        if (e->b->run(x, &in, out, vars) != TG_OK) broken("%s: %s", name, tg_error());
        for (uint32_t k = 0; k < sink->nsrc; k++) compare(name, set, &want[k], out[k]), ref_tensor_free(&want[k]);
    }
    for (uint32_t k = 0; k < sink->nsrc; k++) free(out[k]);
    free(vars);
}

static void run_case(const Engine *e, uint32_t i)
{
    static float weight[WIDTH * WIDTH];
    Graph *g = graph_new();
    U dim[2] = { uop_index(g, ROWS), uop_index(g, WIDTH) }, out[OUTPUTS];
    for (int k = 0; k < WIDTH * WIDTH; k++) weight[k] = (float)(k % 5 - 2) / 4;
    Case c = { uop_param(g, DT_F32, dim, 2, 0),
               tensor_const(g, DT_F32, (int64_t[]){ WIDTH, WIDTH }, 2, weight, sizeof weight, "w") };
    U sink = uop_new(g, UOP_SINK, DT_VOID, NO_ARG, out, row[i].make(g, &c, out));
    Schedule *s;
    Plan *p = NULL;
    Code *code = NULL;
    Executable *x = NULL;
    CompileStats stats;
    if (!sink->nsrc || graph_error(g) != TG_OK) broken("%s: %s", row[i].name, tg_error());
    if (sched_schedule(&s, g, sink, e->t, NULL, NULL) != TG_OK ||
        sched_optimize(s, e->t, choose, (void *)(uintptr_t)e, 1, NULL) != TG_OK || plan_make(&p, s, e->t) != TG_OK ||
        e->b->compile(&code, e->d, p->kernel, p->nkernel, &stats) != TG_OK || e->b->load(&x, e->d, p, code) != TG_OK)
        broken("%s: %s", row[i].name, tg_error());
    run_sets(row[i].name, g, sink, p, x, e);
    e->b->unload(x);
    e->b->code_free(code);
    plan_free(p);
    schedule_free(s);
    graph_free(g);
}

static void run_all(const Backend *b)
{
    Engine e = { .b = b };
    assert_int_equal(b->open(&e.d, &(DeviceOptions){ .threads = 2 }), TG_OK);
    e.t = b->target(e.d);
    for (uint32_t i = 0; i < sizeof row / sizeof *row; i++)
        if (b != &backend_cuda || row[i].make != too_long_to_write_out) run_case(&e, i);      /* the emulator is slow */
    b->close(e.d);
}

static void test_reference(void **state) { (void)state, run_all(&backend_reference); }
static void test_cpu(void **state) { (void)state, run_all(&backend_cpu); }

/* On the emulator that CUDA_EMULATOR names, or on a device with TGRUN_TEST_GPU=1. */
static void test_cuda(void **state)
{
    (void)state;
    const char *emulator = getenv("CUDA_EMULATOR");
    if (!emulator && !getenv("TGRUN_TEST_GPU")) skip();
    if (!getenv("TGRUN_TEST_GPU")) {
        setenv("TGRUN_LIBCUDA", emulator, 1);
        setenv("TGRUN_NVRTC", emulator, 1);
    }
    run_all(&backend_cuda);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_reference), cmocka_unit_test(test_cpu),
                                        cmocka_unit_test(test_cuda) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
