/* Does the estimate (beam/cost.c) rank lists as the machine does? Kernels of models, each under lists drawn at random
 * around the heuristic's, are estimated and timed on the CPU. Printed are Spearman's rank correlation of each kernel's
 * lists, what the list of least estimate takes beside the fastest, and what the heuristic's does.
 * KERNEL_MODELS="a.onnx b.onnx"; ESTIMATE_PAIRS: (kernel, list) pairs, 300 for a figure; ESTIMATE_SEED;
 * ESTIMATE_VERBOSE=1: every pair; ESTIMATE_COMPILER=cc: by the C compiler, in place of our own code.
 * ESTIMATE_MFLOP: of a kernel at most; ESTIMATE_LEAST: hundredths that the mean must reach. */
#include "tests/model_kernels.h"

#include <math.h>

#include "beam/check.h"
#include "beam/cost.h"
#include "beam/moves.h"

enum {
    LISTS = 10,
    LEAST = 5,
    STEPS = 5,
    TRIES = 12,
    NEIGHBOURS = 1024,
    LONG = 2500,                    /* instructions */
    TIMINGS = 7,
    RUNS_LEAST = 3,
    RUNS_MOST = 2000
};
/* Seconds of a timing, in which threads that sleep are awake; the slowest list takes so many times what the fastest
 * does: else ranks are noise. */
static const double timing_s = 3e-3, distinct = 1.15;

/* hash: of the linear code, which code is machine code of */
typedef struct {
    OptList opts;
    Cost cost;
    double seconds;
    uint64_t hash;
    Kernel *k;
    Code *code;
} Drawn;
typedef struct { Recipe recipe[NEIGHBOURS]; uint32_t n; } Around;

static uint64_t random_state = 1;
static uint32_t any(uint32_t n)
{
    return (uint32_t)((random_state = random_state * UINT64_C(6364136223846793005) + 1442695040888963407) >> 33) % n;
}

static long number(const char *name, long otherwise) { return getenv(name) ? atol(getenv(name)) : otherwise; }

static void take_recipe(void *user, const Recipe *r)
{
    Around *a = user;
    if (a->n < NEIGHBOURS) a->recipe[a->n++] = *r;
    else if (any(2)) a->recipe[any(NEIGHBOURS)] = *r;
}

/* At most STEPS - 1 legal steps away from a recipe. */
static void step_away(Recipe *r, const Kernel *base, const Target *t, Around *around)
{
    for (uint32_t steps = any(STEPS), s = 0; s < steps; s++) {
        around->n = 0;
        recipe_neighbours(r, base, t, take_recipe, around);
        for (int i = 0; i < TRIES && around->n; i++) {
            const Recipe *next = &around->recipe[any(around->n)];
            OptList list;
            Kernel *k = recipe_apply(&list, base, next, t);
            status_clear();
            if (!k) continue;
            kernel_free(k);
            *r = *next;
            break;
        }
    }
}

static void drawn_free(Drawn *d, const Backend *b)
{
    if (d->code) b->code_free(d->code);
    if (d->k) kernel_free(d->k);
}

/* Estimates and compiles one list; false: it cannot be, or is there already. */
static bool prepare(Drawn *d, uint32_t n, const Recipe *r, const Kernel *base, const ModelKernels *all)
{
    const Backend *b = all->session->backend;
    const Target *t = all->session->choice.target;
    Drawn x = { .seconds = timing_s };
    CompileStats stats = { 0 };
    x.k = recipe_apply(&x.opts, base, r, t);
    bool ok = x.k && kernel_lower(x.k, t, NULL) == TG_OK && x.k->linear->nsrc <= LONG;
    if (ok) x.hash = (uint64_t)x.k->linear->nsrc << 32 | x.k->linear->hash;
    for (uint32_t i = 0; i < n; i++) ok = ok && d[i].hash != x.hash;
    if (ok) {
        x.cost = kernel_cost(x.k, t);
        ok = b->compile(&x.code, all->session->device, &x.k, 1, &stats) == TG_OK;
    }
    status_clear();
    if (ok) d[n] = x;
    else drawn_free(&x, b);
    return ok;
}

/* The least of some times of each list, in turn: a machine that is slow for a while is slow for all. */
static bool measure(Drawn *d, uint32_t n, const ModelKernels *all, Inputs *inputs)
{
    bool ok = true;
    for (int i = 0; i < TIMINGS; i++)
        for (uint32_t k = 0; k < n && ok; k++) {
            double s = 0, runs = fmax(RUNS_LEAST, fmin(RUNS_MOST, timing_s / d[k].seconds));
            Kernel sized = *d[k].k;
            pack_buffers(&sized);
            ok = all->session->backend->time(&s, all->session->device, d[k].code, 0, &sized, inputs_fill, inputs,
                                             (int)runs, 1, NULL) == TG_OK;
            if (!i || s < d[k].seconds) d[k].seconds = s;
        }
    return ok;
}

static double rank_of(const Drawn *d, uint32_t n, uint32_t i, bool estimated)
{
    double rank = 0;
    for (uint32_t j = 0; j < n; j++) {
        double x = estimated ? d[j].cost.seconds : d[j].seconds, y = estimated ? d[i].cost.seconds : d[i].seconds;
        rank += x < y ? 1 : x == y && j != i ? 0.5 : 0;
    }
    return rank;
}

/* Of n pairs; ties have the mean of their ranks. */
static double spearman(const Drawn *d, uint32_t n)
{
    double mean = (n - 1) / 2.0, xy = 0, xx = 0, yy = 0;
    for (uint32_t i = 0; i < n; i++) {
        double x = rank_of(d, n, i, true) - mean, y = rank_of(d, n, i, false) - mean;
        xy += x * y, xx += x * x, yy += y * y;
    }
    return xx > 0 && yy > 0 ? xy / sqrt(xx * yy) : 0;
}

typedef struct { uint32_t pairs, kernels; double sum, chosen, heuristic; } Totals;

static void one_kernel(const ModelKernels *all, const Kernel *base, Totals *sum, Around *around)
{
    const Target *t = all->session->choice.target;
    Drawn d[LISTS];
    Inputs inputs = { 0 };
    Recipe first;
    OptList list;
    uint32_t n = 0, least = 0, fastest = 0, slowest = 0;
    heuristic_opts(&list, base, t);
    if (!recipe_of(&first, base, &list, t) || !inputs_make(&inputs, base, false)) return;
    if (prepare(d, n, &first, base, all)) n++;
    for (int i = 0; i < 3 * LISTS && n < LISTS && n; i++) {
        Recipe r = first;
        step_away(&r, base, t, around);
        if (prepare(d, n, &r, base, all)) n++;
    }
    bool timed = measure(d, n, all, &inputs);
    inputs_free(&inputs);
    for (uint32_t i = 0; i < n; i++) drawn_free(&d[i], all->session->backend);
    if (!timed) return;
    for (uint32_t i = 1; i < n; i++) {
        if (d[i].cost.seconds < d[least].cost.seconds) least = i;
        if (d[i].seconds < d[fastest].seconds) fastest = i;
        if (d[i].seconds > d[slowest].seconds) slowest = i;
    }
    if (n < LEAST || d[slowest].seconds < distinct * d[fastest].seconds) return;
    double rho = spearman(d, n), chosen = d[least].seconds / d[fastest].seconds,
           heuristic = d[0].seconds / d[fastest].seconds;
    sum->pairs += n, sum->kernels++, sum->sum += rho, sum->chosen += log(chosen), sum->heuristic += log(heuristic);
    print_message("%5.2f  of %2u lists, %8.1f to %9.1f us; least estimate %5.2f, heuristic %5.2f of the fastest  %s\n",
                  rho, n, 1e6 * d[fastest].seconds, 1e6 * d[slowest].seconds, chosen, heuristic, base->name);
    for (uint32_t i = 0; i < n && number("ESTIMATE_VERBOSE", 0); i++) {
        Text text = { 0 };
        text_add(&text, "%s", "");
        opt_print(&text, &d[i].opts);
        print_message("       %9.1f us, estimated %9.1f (%.1f, %.1f, %.1f, %.1f, %lld)  %s\n", 1e6 * d[i].seconds,
                      1e6 * d[i].cost.seconds, 1e6 * d[i].cost.compute_s, 1e6 * d[i].cost.l1_s, 1e6 * d[i].cost.l2_s,
                      1e6 * d[i].cost.memory_s, (long long)d[i].cost.instructions, text.s);
        text_free(&text);
    }
}

static void estimate_ranks(void **state)
{
    (void)state;
    ModelKernels all;
    Totals sum = { 0 };
    Around *around = malloc(sizeof *around);
    long pairs = number("ESTIMATE_PAIRS", 120), most = number("ESTIMATE_MFLOP", 300);
    random_state = (uint64_t)number("ESTIMATE_SEED", 1) * 7919;
    const char *compiler = getenv("ESTIMATE_COMPILER");
    setenv("TGRUN_DEFAULT_COMPILER", compiler ? compiler : "own", 1);
    if (!model_kernels(&all, getenv("KERNEL_MODELS"), "cpu")) {    /* our own code wants AVX2 */
        model_kernels_free(&all);
        setenv("TGRUN_DEFAULT_COMPILER", "cc", 1);
        assert_true(model_kernels(&all, getenv("KERNEL_MODELS"), "cpu"));
    }
    for (long tries = 0; sum.pairs < pairs && tries < 4 * pairs; tries++) {
        const Kernel *k = all.kernel[any(all.count)];
        if (k->flops <= most * 1000000) one_kernel(&all, k, &sum, around);
    }
    print_message("Spearman within a kernel, mean of %u kernels, %u pairs: %.3f; the list of least estimate takes %.2f "
                  "times the fastest's time, the heuristic's %.2f (geometric means)\n",
                  sum.kernels, sum.pairs, sum.sum / sum.kernels, exp(sum.chosen / sum.kernels),
                  exp(sum.heuristic / sum.kernels));
    assert_true(sum.kernels > 0);
    assert_true(sum.sum / sum.kernels > number("ESTIMATE_LEAST", 40) / 100.0);
    free(around);
    model_kernels_free(&all);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(estimate_ranks) };
    if (!getenv("KERNEL_MODELS")) return puts("skipped: no KERNEL_MODELS"), 0;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
