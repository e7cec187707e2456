/* STAGE and TC: contractions under lists with staged operands and tensor cores, in every form, by the interpreter and
 * by CUDA (the emulator, or a GPU with TGRUN_TEST_GPU), against the plain kernel. */
#include "tests/test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "beam/beam.h"
#include "graph/build.h"
#include "graph/scalar.h"
#include "random_stages.h"

static const Target gpu = { .kind = "cuda",
                            .vector_bytes = 16,
                            .vector_registers = 255,
                            .threads = 132,
                            .l1_bytes = 227 << 10,
                            .l2_bytes = 50 << 20,
                            .has_locals = true,
                            .has_fma = true,
                            .has_f16 = true,
                            .has_bf16 = true,
                            .wmma = UINT32_MAX,
                            .max_block = 1024,
                            .warp = 32 };
static const Target cpu = { .kind = "cpu",
                            .vector_bytes = 32,
                            .vector_registers = 16,
                            .threads = 4,
                            .l1_bytes = 32 << 10,
                            .l2_bytes = 1 << 20,
                            .has_threads = true,
                            .has_fma = true };

/* A[m, k] B[k, n]; ta, tb: stored transposed. refused: what the message says. */
typedef struct { DType t; int64_t m, n, k; bool ta, tb, on_cpu; const char *opts, *refused; } Row;
#define TILES \
    "SPLIT 1 4 UPCAST; SPLIT 0 4 UPCAST; SPLIT 4 8 UNROLL; SPLIT 0 8 LOCAL; SPLIT 3 8 LOCAL; SPLIT 0 2 GLOBAL; SPLIT " \
    "3 2 GLOBAL"
#define WARPS "TC 2 1; SPLIT 0 2 UPCAST; SPLIT 3 2 UPCAST; SPLIT 7 2 UNROLL; SPLIT 0 2 LOCAL; SPLIT 3 2 GLOBAL"
static const Row row[] = {
    { DT_F32, 64, 64, 16, 0, 0, 0, TILES "; STAGE 1 6 1", NULL },
    { DT_F32, 64, 64, 16, 0, 0, 0, TILES "; STAGE 1 6 1; STAGE 2 6 1", NULL },
    { DT_F32, 64, 64, 16, 0, 0, 0, TILES "; STAGE 1 6 2; STAGE 2 6 2", NULL },
    { DT_F32, 64, 64, 16, 1, 1, 0, TILES "; STAGE 1 6 2; STAGE 2 6 2", NULL },
    { DT_F16, 64, 64, 16, 0, 1, 0, TILES "; STAGE 1 6 2; STAGE 2 6 2", NULL },
    { DT_F16, 64, 64, 16, 1, 0, 0, TILES "; STAGE 1 6 2; STAGE 2 6 1", NULL },
    { DT_F32, 64, 64, 8, 0, 0, 0, "SPLIT 1 4 UPCAST; SPLIT 0 8 LOCAL; SPLIT 2 8 LOCAL; STAGE 1 5 2; STAGE 2 5 2", NULL },            /* a tile is less than the threads */
    { DT_F32, 60, 50, 30, 0, 0, 0, "PADTO 0 64; PADTO 1 64; PADTO 2 32; " TILES "; STAGE 1 6 2; STAGE 2 6 2", NULL },
    { DT_F32, 48, 36, 24, 0, 0, 0, "SPLIT 2 4 GROUP_REDUCE; SPLIT 2 3 UNROLL; SPLIT 1 4 UPCAST; SPLIT 0 4 LOCAL; SPLIT 2 3 LOCAL; STAGE 2 5 2", NULL },
    { DT_F32, 48, 36, 24, 0, 0, 0, "SPLIT 2 4 UNROLL; SPLIT 1 4 UPCAST; STAGE 1 3 1", NULL },                                         /* no threads at all */
    { DT_F32, 48, 64, 24, 0, 0, 1, "SPLIT 1 8 UPCAST; SPLIT 1 2 LOOP; SPLIT 0 4 UPCAST; SPLIT 0 2 LOOP; STAGE 2 3 1", NULL },
    { DT_F32, 48, 64, 24, 0, 0, 1, "SPLIT 1 8 UPCAST; SPLIT 0 4 UPCAST; SWAP 2 1; SWAP 1 0; SPLIT 0 8 THREAD; STAGE 2 0 1", NULL },             /* each thread's own */
    { DT_F32, 33, 60, 24, 0, 0, 1, "SPLIT 1 8 UPCAST; SPLIT 1 2 UPCAST; SPLIT 0 4 UPCAST; SWAP 2 1; SWAP 1 0; SPLIT 0 4 THREAD; STAGE 2 0 1", NULL },      /* the last tile begins earlier */
    { DT_F16, 16, 8, 16, 0, 0, 0, "TC 2 1", NULL },                                                                          /* one instruction */
    { DT_BF16, 16, 8, 16, 0, 1, 0, "TC 2 0", NULL },
    { DT_F16, 16, 8, 64, 1, 0, 0, "TC 2 1; SPLIT 3 4 UNROLL", NULL },                                                        /* no loop is left */
    { DT_F16, 32, 48, 48, 0, 0, 0, "TC 2 1", NULL },
    { DT_F16, 64, 32, 64, 0, 0, 0, WARPS, NULL },
    { DT_F16, 64, 32, 64, 0, 0, 0, WARPS "; STAGE 1 7 2; STAGE 2 7 2", NULL },
    { DT_F16, 64, 32, 64, 1, 1, 0, WARPS "; STAGE 1 7 1; STAGE 2 7 2", NULL },
    { DT_F16, 64, 32, 64, 0, 1, 0, WARPS "; STAGE 1 7 2", NULL },
    { DT_F16, 60, 28, 60, 0, 0, 0, "PADTO 0 64; PADTO 1 32; PADTO 2 64; " WARPS "; STAGE 1 7 2; STAGE 2 7 2", NULL },
    { DT_F16, 64, 64, 64, 0, 0, 0, "SPLIT 2 2 GROUP_REDUCE; TC 2 1; SPLIT 0 2 UPCAST", NULL },
    { DT_F16, 64, 64, 64, 0, 0, 0, "TC 2 0", "not of products of bf16" },
    { DT_F32, 64, 64, 64, 0, 0, 0, "TC 2 1", "not of products of f16" },
    { DT_F32, 64, 64, 16, 0, 0, 0, TILES "; STAGE 0 6 1", "not an input" },
    { DT_F32, 64, 64, 16, 0, 0, 0, TILES "; STAGE 1 5 1", "no loop" },
    { DT_F32, 48, 64, 24, 0, 0, 1, "SPLIT 1 8 UPCAST; SWAP 1 0; SPLIT 0 8 THREAD; STAGE 2 0 2", "no loop" },                        /* who would fill the next thread's? */
    { DT_F32, 64, 64, 16, 0, 0, 0, TILES "; STAGE 1 6 2; SPLIT 6 2 REDUCE", "come last" },
    { DT_F32, 64, 64, 16, 0, 0, 0, TILES "; STAGE 1 6 2; STAGE 1 6 2", "inner loop" },
    { DT_F32, 4096, 64, 4096, 0, 0, 0, "SPLIT 2 512 REDUCE; SPLIT 0 512 LOCAL; STAGE 1 3 1", "bytes" },
};

typedef struct {
    const Row *r;
    void *in[2];
    int64_t bytes[2];
    Graph *g;
    Schedule *s;
    Kernel *k;
    void *want;
    int64_t out;
} Case;

static void make_inputs(Case *c)
{
    Random rng = { .state = 7 };
    int64_t size[2] = { c->r->m * c->r->k, c->r->n * c->r->k };
    for (int i = 0; i < 2; i++) {
        c->bytes[i] = size[i] * dtype_size(c->r->t);
        c->in[i] = malloc((size_t)c->bytes[i]);
        for (int64_t j = 0; j < size[i]; j++)
            scalar_store(c->r->t, c->in[i], j, scalar_of(((double)random_below(&rng, 17) - 8) / 8));
    }
}

static void make_case(Case *c, const Row *r)
{
    Graph *g = c->g = graph_new();
    const UOp *m = uop_index(g, r->m), *n = uop_index(g, r->n), *k = uop_index(g, r->k);
    const UOp *a = uop_param(g, r->t, (const UOp *[]){ r->ta ? k : m, r->ta ? m : k }, 2, 0),
              *b = uop_param(g, r->t, (const UOp *[]){ r->tb ? n : k, r->tb ? k : n }, 2, 1);
    const UOp *sink =
        UOP(g, UOP_SINK, DT_VOID, NO_ARG, matmul(g, r->ta ? transpose(g, a) : a, r->tb ? transpose(g, b) : b));
    c->r = r;
    make_inputs(c);
    assert_int_equal(sched_schedule(&c->s, g, sink, r->on_cpu ? &cpu : &gpu, NULL, NULL), TG_OK);
    assert_int_equal(c->s->count, 1);
    c->k = kernel_clone(c->s->item[0].kernel);
    c->out = r->m * r->n;
}

static void case_done(Case *c)
{
    kernel_free(c->k);
    schedule_free(c->s);
    graph_free(c->g);
    for (int i = 0; i < 2; i++) free(c->in[i]);
    free(c->want);
}

/* The kernel's parameters by what stands behind them: the inputs, or the output. */
static void set_memory(Case *c, RefMem *mem, void *out)
{
    for (uint32_t i = 0; i < c->k->nparam; i++) {
        const UOp *b = under(c->k->param[i].buffer);
        mem[i] = c->k->param[i].written ? (RefMem){ out, c->out * dtype_size(c->r->t) }
                                        : (RefMem){ c->in[b->arg.i], c->bytes[b->arg.i] };
    }
}

static void *fresh(const Case *c)
{
    void *out = malloc((size_t)(c->out * dtype_size(c->r->t)) + 64);
    memset(out, 0x5a, (size_t)(c->out * dtype_size(c->r->t)));
    return out;
}

static void run_agrees(Case *c, Run run, const char *stage)
{
    RefMem mem[KERNEL_PARAMS];
    void *out = fresh(c);
    Place at = { (uint64_t)(c->r - row), stage, c->k, &c->k->opts, NULL };
    set_memory(c, mem, out);
    assert_true(went(&at, run(c->k, mem, NULL)));
    if (c->want) assert_true(agree(&at, c->r->t, out, c->want, c->out));
    if (c->want) free(out);
    else c->want = out;
}

static void fill(void *user, uint32_t slot, void *ptr, size_t bytes)
{
    Case *c = user;
    memset(ptr, 0x5a, bytes);
    if (!c->k->param[slot].written) memcpy(ptr, c->in[under(c->k->param[slot].buffer)->arg.i], bytes);
}

static void cuda_agrees(Case *c, Device *d)
{
    CompileStats stats;
    Code *code;
    double seconds;
    void *out[KERNEL_PARAMS] = { NULL };
    Place at = { (uint64_t)(c->r - row), "cuda", c->k, &c->k->opts, NULL };
    for (uint32_t i = 0; i < c->k->nparam; i++)
        if (c->k->param[i].written) out[i] = fresh(c);
    assert_true(went(&at, backend_cuda.compile(&code, d, &c->k, 1, &stats)));
    assert_true(went(&at, backend_cuda.time(&seconds, d, code, 0, c->k, fill, c, 1, 10, out)));
    for (uint32_t i = 0; i < c->k->nparam; i++) {
        if (out[i]) assert_true(agree(&at, c->r->t, out[i], c->want, c->out));
        free(out[i]);
    }
    backend_cuda.code_free(code);
}

static void row_agrees(const Row *r, Device *d)
{
    const Target *t = r->on_cpu ? &cpu : &gpu;
    Case c = { 0 };
    OptList opts;
    make_case(&c, r);
    assert_int_equal(opt_parse(&opts, r->opts), TG_OK);
    TgStatus status = opt_apply_list(c.k, &opts, t);
    if (r->refused) {
        assert_int_equal(status, TG_USAGE);
        assert_non_null(strstr(tg_error(), r->refused));
        case_done(&c);
        return;
    }
    assert_true(went(&(Place){ (uint64_t)(r - row), "optimize", c.k, &opts, NULL }, status));
    Kernel *plain = c.s->item[0].kernel, *k = c.k;
    c.k = plain, run_agrees(&c, ref_exec_root, "plain");
    c.k = k, run_agrees(&c, ref_exec_root, "optimize");
    /* a WMMA between loops requests every lane's parts again and again */
    bool small = !r->opts || !strstr(r->opts, "TC") || r->m * r->n * r->k < 10000;
    assert_int_equal(kernel_expand(k, t), TG_OK);
    if (small) run_agrees(&c, ref_exec_root, "expand");
    assert_int_equal(kernel_select(k, t), TG_OK);
    if (small) run_agrees(&c, ref_exec_root, "select");
    assert_int_equal(kernel_linearize(k, t), TG_OK), run_agrees(&c, ref_exec_linear, "linearize");
    if (d && !r->on_cpu) cuda_agrees(&c, d);
    case_done(&c);
}

static void staged_kernels_agree(void **state)
{
    Device *d = NULL;
    (void)state;
    bool cuda = open_backend(&d, &backend_cuda);
    for (const Row *r = row; r < row + sizeof row / sizeof *row; r++) row_agrees(r, cuda ? d : NULL);
    if (cuda) backend_cuda.close(d);
}

/* A list prints and parses again. */
static void a_list_replays(void **state)
{
    OptList l;
    Text t = { 0 };
    (void)state;
    assert_int_equal(opt_parse(&l, "SPLIT 0 4 UPCAST; STAGE 1 6 2; PACK 2"), TG_OK);
    opt_print(&t, &l);
    assert_string_equal(t.s, "SPLIT 0 4 UPCAST; STAGE 1 6 2; PACK 2");
    text_free(&t);
    assert_int_equal(opt_parse(&l, "STAGE 1 6 3"), TG_USAGE);
}

/* A ring of two tiles needs one barrier an iteration, and one before the first. */
static void a_ring_has_one_barrier(void **state)
{
    Case c = { 0 };
    OptList opts;
    uint32_t barriers = 0;
    (void)state;
    make_case(&c, &row[2]);
    assert_int_equal(opt_parse(&opts, row[2].opts), TG_OK);
    assert_int_equal(opt_apply_list(c.k, &opts, &gpu), TG_OK);
    assert_int_equal(kernel_lower(c.k, &gpu, NULL), TG_OK);
    for (uint32_t i = 0; i < c.k->linear->nsrc; i++) barriers += c.k->linear->src[i]->op == UOP_BARRIER;
    assert_int_equal(barriers, 2);
    case_done(&c);
}

/* On a GPU the heuristic takes tensor cores and stages both operands, with padding where sizes are odd. On a CPU a
 * column whose terms share few sets of a cache, or lie on many pages, is copied, where rows pay for it, and one row
 * reads its columns as they lie. What it takes is right. */
static void the_heuristic_brings_operands_near(void **state)
{
    static const struct { Row row; uint32_t tc, stage, carry; } product[] = {
        { { DT_F16, 64, 64, 256, 0, 0, 0, NULL, NULL }, 1, 2, 0 },
        { { DT_BF16, 100, 72, 128, 0, 1, 0, NULL, NULL }, 1, 2, 0 },
        { { DT_F32, 50, 256, 64, 0, 0, 1, NULL, NULL }, 0, 1, 0 },
        { { DT_F32, 50, 250, 64, 0, 0, 1, NULL, NULL }, 0, 0, 0 },
        { { DT_F32, 50, 290, 260, 0, 0, 1, NULL, NULL }, 0, 1, 0 },         /* the last tile begins earlier */
        { { DT_F32, 20, 256, 64, 0, 0, 1, NULL, NULL }, 0, 0, 0 },
        { { DT_F32, 50, 16, 64, 0, 0, 1, NULL, NULL }, 0, 0, 0 },
        { { DT_F32, 1, 512, 300, 0, 0, 1, NULL, NULL }, 0, 0, 1 },
    };
    (void)state;
    for (size_t i = 0; i < sizeof product / sizeof *product; i++) {
        Case c = { 0 };
        OptList opts;
        uint32_t count[OPT_COUNT] = { 0 };
        const Target *t = product[i].row.on_cpu ? &cpu : &gpu;
        make_case(&c, &product[i].row);
        heuristic_opts(&opts, c.k, t);
        for (uint32_t k = 0; k < opts.count; k++) count[opts.op[k].kind]++;
        assert_int_equal(count[OPT_TC], product[i].tc);
        assert_int_equal(count[OPT_STAGE], product[i].stage);
        assert_int_equal(count[OPT_CARRY], product[i].carry);
        run_agrees(&c, ref_exec_root, "plain");
        assert_int_equal(opt_apply_list(c.k, &opts, t), TG_OK);
        assert_int_equal(kernel_lower(c.k, t, NULL), TG_OK);
        run_agrees(&c, ref_exec_linear, "linearize");
        case_done(&c);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(staged_kernels_agree), cmocka_unit_test(a_list_replays),
                                        cmocka_unit_test(a_ring_has_one_barrier),
                                        cmocka_unit_test(the_heuristic_brings_operands_near) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
