/* KEEP, CARRY and peeled loops: rows that several loops read, and sums whose loops stand outside of the output's, under
 * lists of OptOps, and loops that are one, in every form by the interpreter against the plain kernel. */
#include "tests/test.h"

#include <stdlib.h>
#include <string.h>

#include "graph/build.h"
#include "graph/scalar.h"
#include "random_stages.h"

static const Target cpu = { .kind = "cpu",
                            .vector_bytes = 32,
                            .vector_registers = 16,
                            .threads = 4,
                            .l1_bytes = 32 << 10,
                            .l2_bytes = 1 << 20,
                            .has_threads = true,
                            .has_fma = true,
                            .has_exp2 = true };

static const UOp *rows_softmax(Graph *g, const UOp *x) { return softmax(g, x, 1); }
static const UOp *columns_softmax(Graph *g, const UOp *x) { return softmax(g, x, 0); }
static const UOp *
root_norm(Graph *g, const UOp *x) /* e / sqrt(mean e^2 + 1) of e = 2^x: three loops, of which the sum needs no other */
{
    const UOp *e = exp2_(g, x), *mean = sum(g, mul(g, e, e), 1, true);
    return mul(g, e, recip(g, sqrt_(g, add(g, mean, uop_const_like(g, DT_F32, 1)))));
}
static const UOp *
centred(Graph *g, const UOp *x) /* (e - mean) / (1 + sum of squares of that): e in three loops, one behind the other */
{
    const UOp *e = exp2_(g, x), *d = sub(g, e, mul(g, sum(g, e, 1, true), uop_const_like(g, DT_F32, 0.125)));
    return mul(g, d, recip(g, add(g, sum(g, mul(g, d, d), 1, true), uop_const_like(g, DT_F32, 1))));
}
static const UOp *over_mean(Graph *g, const UOp *x)                  /* e / sum of max(e, sum of e) */
{
    const UOp *e = exp2_(g, x);
    return mul(g, e, recip(g, sum(g, max_(g, e, sum(g, e, 1, true)), 1, true)));
}
static const UOp *
scaled_softmax(Graph *g, const UOp *x) /* the greatest of 2 e - 1 of e = 2^x, which is a fused product and sum */
{
    return softmax(g, add(g, mul(g, exp2_(g, x), uop_const_like(g, DT_F32, 2)), uop_const_like(g, DT_F32, -1)), 1);
}
static const UOp *squared(Graph *g, const UOp *x) { return matmul(g, x, x); }
static const UOp *greatest_sums(Graph *g, const UOp *x)     /* of x[i, k] + x[k, j], the greatest over k, less 1 */
{
    const UOp *sums = add(g, unsqueeze(g, x, 2), unsqueeze(g, x, 0));
    return add(g, reduce(g, UOP_MAX, sums, (int64_t[]){ 1 }, 1, false), uop_const_like(g, DT_F32, -1));
}
static const UOp *plain_sum(Graph *g, const UOp *x) { return mul(g, x, sum(g, x, 1, true)); }

/* exps: EXP2s that are left; -1: any. refused: what the message says. */
typedef struct {
    const UOp *(*make)(Graph *g, const UOp *x);
    int64_t m, n;
    const char *opts;
    int exps;
    const char *refused;
} Row;
static const Row row[] = {
    { rows_softmax, 5, 31, "", 2, NULL },
    { rows_softmax, 5, 31, "KEEP 3", 1, NULL },
    { rows_softmax, 5, 31, "KEEP 3; PADTO 2 8; SPLIT 2 8 UNROLL; PADTO 4 8; SPLIT 4 8 UNROLL; SPLIT 1 8 UPCAST", -1, NULL },
    { rows_softmax, 5, 31, "KEEP 3; PADTO 3 8; SPLIT 3 8 UNROLL; SPLIT 3 4 UNROLL; PADTO 1 8; SPLIT 1 8 UPCAST; SPLIT 1 4 UPCAST", -1, NULL },     /* the row stays in registers */
    { rows_softmax, 17, 13, "KEEP 3; SPLIT 0 8 UPCAST", -1, NULL },                                                            /* eight rows beside one another */
    { rows_softmax, 17, 64, "KEEP 3; SPLIT 0 4 UPCAST; SPLIT 4 8 UNROLL; SPLIT 2 4 UPCAST", -1, NULL },
    { rows_softmax, 8, 100, "KEEP 3; SPLIT 0 8 THREAD; PADTO 3 64; SPLIT 3 8 UNROLL; SPLIT 3 4 UNROLL", -1, NULL },
    { rows_softmax, 6, 7, "KEEP 3; SWAP 0 1", 1, NULL },
    { columns_softmax, 31, 24, "", 2, NULL },
    { columns_softmax, 31, 24, "KEEP 3; SPLIT 1 8 UPCAST", -1, NULL },
    { columns_softmax, 31, 21, "KEEP 3; SPLIT 1 8 UPCAST; SPLIT 0 4 UPCAST", -1, NULL },
    { root_norm, 9, 33, "KEEP 2; SPLIT 2 3 UNROLL; SPLIT 1 8 UPCAST", -1, NULL },
    { centred, 9, 33, "KEEP 2", 1, NULL },
    { centred, 9, 33, "KEEP 2; PADTO 3 8; SPLIT 3 8 UNROLL; PADTO 2 8; SPLIT 2 8 UNROLL; SPLIT 1 8 UPCAST", -1, NULL },
    { over_mean, 9, 33, "KEEP 3; SPLIT 1 8 UPCAST", -1, NULL },
    { over_mean, 9, 33, "KEEP 2", 0, "needs the other loop" },
    { scaled_softmax, 17, 13, "KEEP 2; SPLIT 0 8 UPCAST", -1, NULL },
    { scaled_softmax, 17, 13, "SPLIT 0 8 UPCAST", -1, NULL },
    { squared, 24, 24, "CARRY 2 0", 0, NULL },
    { squared, 24, 24, "SPLIT 2 6 REDUCE; NEST 3; CARRY 2 1", 0, NULL },
    { squared, 21, 21, "SPLIT 1 8 UPCAST; SPLIT 0 4 UPCAST; SPLIT 4 7 REDUCE; CARRY 4 0", 0, NULL },             /* the tiles overlap */
    { squared, 24, 24, "SPLIT 1 8 UPCAST; SPLIT 0 4 UPCAST; SWAP 2 0; SPLIT 0 3 THREAD; SPLIT 4 6 REDUCE; NEST 5; CARRY 4 2", 0, NULL },
    { squared, 24, 24, "SPLIT 2 2 UNROLL; SPLIT 2 4 REDUCE; SPLIT 1 8 UPCAST; CARRY 4 0", 0, NULL },             /* two loops stand outside */
    { greatest_sums, 17, 17, "SPLIT 1 8 UPCAST; CARRY 3 0", 0, NULL },
    { squared, 21, 21, "MERGE 0", 0, NULL },
    { squared, 21, 21, "MERGE 0; SPLIT 1 3 REDUCE; NEST 2; SPLIT 0 5 UPCAST", 0, NULL },       /* 5 elements of two lines, the last of which overlap */
    { squared, 21, 21, "MERGE 0; PADTO 0 16; SPLIT 0 7 THREAD TOP; SPLIT 1 8 UPCAST", 0, NULL },
    { squared, 21, 21, "SPLIT 1 7 UPCAST; MERGE 0; SPLIT 0 9 THREAD TOP; CARRY 3 1", 0, NULL },
    { rows_softmax, 17, 13, "SPLIT 1 13 UPCAST; MERGE 0", 2, "not two loops" },
    { rows_softmax, 17, 13, "MERGE 0", 2, "no neighbours" },
    { squared, 24, 24, "MERGE 1", 0, "not two loops" },
    { rows_softmax, 17, 13, "CARRY 2 0", 2, NULL },
    { rows_softmax, 17, 13, "SPLIT 0 8 UPCAST; CARRY 4 0", 2, NULL },
    { squared, 24, 24, "CARRY 0 1", 0, "no reduce has" },
    { squared, 24, 24, "CARRY 2 2", 0, "no loop" },
    { squared, 24, 24, "SPLIT 0 24 THREAD; CARRY 2 0", 0, "no loop" },
    { squared, 24, 24, "SPLIT 2 24 UNROLL; CARRY 2 0", 0, "no loop" },
    { squared, 24, 24, "CARRY 2 0; SPLIT 1 8 UPCAST", 0, "last" },
    { squared, 1000, 1000, "SPLIT 0 40 UPCAST; CARRY 3 0", 0, "LOCAL memory" },
    { plain_sum, 9, 33, "KEEP 2", 0, "nothing costly" },
    { rows_softmax, 5, 31, "KEEP 2", 0, "nothing costly" },
    { rows_softmax, 5, 31, "KEEP 1", 0, "no reduce" },
    { rows_softmax, 5, 31, "SPLIT 3 31 UNROLL; KEEP 3", 0, "no reduce" },
    { rows_softmax, 64, 100000, "KEEP 3; SPLIT 0 64 UPCAST", 0, "LOCAL memory" },
};

typedef struct { float *in, *got, *want; Graph *g; Schedule *s; const Row *r; } Case;

static uint32_t count_exps(const Kernel *k)
{
    Arena *a = arena_new();
    uint32_t n, exps = 0;
    const UOp **order = uop_toposort(k->g, &k->root, 1, a, &n);
    for (uint32_t i = 0; i < n; i++) exps += order[i]->op == UOP_EXP2;
    arena_free(a);
    return exps;
}

static void make_case(Case *c, const Row *r)
{
    Random rng = { .state = 7 };
    Graph *g = c->g = graph_new();
    const UOp *x = uop_param(g, DT_F32, (const UOp *[]){ uop_index(g, r->m), uop_index(g, r->n) }, 2, 0);
    c->r = r;
    c->in = malloc((size_t)(r->m * r->n) * sizeof *c->in);
    c->got = malloc((size_t)(r->m * r->n) * sizeof *c->in);
    c->want = malloc((size_t)(r->m * r->n) * sizeof *c->in);
    for (int64_t i = 0; i < r->m * r->n; i++) c->in[i] = ((float)random_below(&rng, 400) - 200) / 40;
    const UOp *sink = UOP(g, UOP_SINK, DT_VOID, NO_ARG, r->make(g, x));
    assert_int_equal(sched_schedule(&c->s, g, sink, &cpu, NULL, NULL), TG_OK);
    assert_int_equal(c->s->count, 1);
}

static void run(Case *c, Kernel *k, Run how, float *out, const char *stage)
{
    RefMem mem[KERNEL_PARAMS];
    int64_t bytes = c->r->m * c->r->n * (int64_t)sizeof *out;
    memset(out, 0x5a, (size_t)bytes);
    for (uint32_t i = 0; i < k->nparam; i++)
        mem[i] = k->param[i].written ? (RefMem){ out, bytes } : (RefMem){ c->in, bytes };
    Place at = { (uint64_t)(c->r - row), stage, k, &k->opts, NULL };
    assert_true(went(&at, how(k, mem, NULL)));
    if (out != c->want) assert_true(agree(&at, DT_F32, out, c->want, c->r->m * c->r->n));
}

static void row_agrees(const Row *r)
{
    Case c;
    OptList opts;
    make_case(&c, r);
    Kernel *k = kernel_clone(c.s->item[0].kernel);
    assert_int_equal(opt_parse(&opts, r->opts), TG_OK);
    TgStatus status = opt_apply_list(k, &opts, &cpu);
    if (r->refused) {
        assert_int_equal(status, TG_USAGE);
        assert_non_null(strstr(tg_error(), r->refused));
    } else {
        assert_true(went(&(Place){ (uint64_t)(r - row), "optimize", k, &opts, NULL }, status));
        if (r->exps >= 0) assert_int_equal(count_exps(k), r->exps);
        run(&c, c.s->item[0].kernel, ref_exec_root, c.want, "plain");
        run(&c, k, ref_exec_root, c.got, "optimize");
        assert_int_equal(kernel_expand(k, &cpu), TG_OK), run(&c, k, ref_exec_root, c.got, "expand");
        assert_int_equal(kernel_select(k, &cpu), TG_OK), run(&c, k, ref_exec_root, c.got, "select");
        assert_int_equal(kernel_linearize(k, &cpu), TG_OK), run(&c, k, ref_exec_linear, c.got, "linearize");
    }
    kernel_free(k);
    schedule_free(c.s);
    graph_free(c.g);
    free(c.in), free(c.got), free(c.want);
}

static void kept_rows_agree(void **state)
{
    (void)state;
    for (const Row *r = row; r < row + sizeof row / sizeof *row; r++) row_agrees(r);
}

/* A row of whole registers has no LOCAL memory; a padded loop that is peeled tests no gate in its first iterations. */
static void what_is_left(void **state)
{
    static const struct { int row, locals, gated, plain; } want[] = { { 1, 1, 0, 3 }, { 3, 0, 1, 4 }, { 2, 1, 2, 4 } };
    (void)state;
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        Case c;
        OptList opts;
        int locals = 0, gated = 0, plain = 0;
        make_case(&c, &row[want[i].row]);
        Kernel *k = kernel_clone(c.s->item[0].kernel);
        assert_int_equal(opt_parse(&opts, row[want[i].row].opts), TG_OK);
        assert_int_equal(opt_apply_list(k, &opts, &cpu), TG_OK);
        assert_int_equal(kernel_lower(k, &cpu, NULL), TG_OK);
        for (uint32_t n = 0; n < k->linear->nsrc; n++) {
            const UOp *u = k->linear->src[n];
            locals += u->op == UOP_BUFFER && buffer_space(u) == SPACE_LOCAL;
            if (u->op != UOP_LOAD || u->src[0]->op == UOP_BUFFER) continue;
            bool gate = u->nsrc > 2 && u->src[2]->vmin != 1;
            gated += gate;
            plain += !gate;
        }
        assert_int_equal(locals, want[i].locals);
        assert_int_equal(gated, want[i].gated);
        assert_int_equal(plain, want[i].plain);
        kernel_free(k);
        schedule_free(c.s);
        graph_free(c.g);
        free(c.in), free(c.got), free(c.want);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(kept_rows_agree), cmocka_unit_test(what_is_left) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
