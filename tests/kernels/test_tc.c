/* TC: products under lists with tensor cores, of every row of wmma.def, in every form, by the interpreter against the
 * plain kernel; and by the backends that can run them. */
#include "tests/test.h"

#include <stdlib.h>
#include <string.h>

#include "beam/beam.h"
#include "graph/build.h"
#include "graph/scalar.h"
#include "random_stages.h"

#define GPU_ROWS (1u << WMMA_mma_bf16 | 1u << WMMA_mma_f16)
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
                            .max_block = 1024,
                            .warp = 32,
                            .wmma = GPU_ROWS };
static const Target cpu = { .kind = "cpu",
                            .vector_bytes = 64,
                            .vector_registers = 32,
                            .threads = 4,
                            .l1_bytes = 32 << 10,
                            .l2_bytes = 1 << 20,
                            .has_threads = true,
                            .has_fma = true,
                            .wmma = ~GPU_ROWS };

/* A[m, k] B[k, n] + bias[n], rounded to t; of u8 or i8 a product with i8 in i32. ta, tb: stored transposed. B is a
 * constant. refused: what the message says. turned: the result too is stored transposed. */
typedef struct {
    DType t;
    int64_t m, n, k;
    bool ta, tb, on_cpu;
    const char *opts, *refused;
    bool turned;
} Row;
static const Row row[] = {
    { DT_BF16, 16, 8, 16, 0, 0, 0, "TC 2 0", NULL },
    { DT_F16, 16, 8, 16, 0, 1, 0, "TC 2 1", NULL },
    { DT_F16, 32, 24, 48, 0, 1, 0, "TC 2 1", NULL },
    { DT_BF16, 32, 24, 48, 1, 0, 0, "TC 2 0", NULL },
    { DT_BF16, 64, 32, 64, 0, 1, 0, "SPLIT 0 32 UPCAST; SPLIT 2 16 UPCAST; TC 4 0; SPLIT 0 2 GLOBAL; SPLIT 3 2 LOCAL", NULL },                 /* 2 x 2 tiles a warp, 2 warps */
    { DT_F16, 60, 30, 40, 0, 1, 0, "PADTO 0 64; PADTO 1 32; PADTO 2 48; TC 2 1; SPLIT 0 4 GLOBAL", NULL },
    { DT_F16, 64, 16, 64, 0, 1, 0, "SPLIT 2 32 REDUCE; NEST 3; TC 3 1", NULL },
    { DT_F16, 32, 16, 64, 0, 1, 0, "TC 2 1; SPLIT 5 2 UNROLL", NULL },
    { DT_F16, 48, 48, 96, 0, 1, 0, "SPLIT 2 2 REDUCE; TC 2 1; NEST 9", "part of a TC" },
    { DT_F16, 32, 16, 64, 0, 1, 0, "TC 2 33", "no axes" },                                                                                 /* there are two pairs */
    { DT_F16, 32, 16, 64, 0, 1, 0, "TC 2 17", NULL },
    { DT_F16, 32, 16, 64, 0, 1, 0, "TC 2 0", "bf16" },
    { DT_F16, 32, 16, 40, 0, 1, 0, "TC 2 1", "multiple of 16" },
    { DT_F16, 24, 16, 32, 0, 1, 0, "TC 2 1", NULL },                                                                                       /* transposed: m is 16 */
    { DT_F16, 24, 12, 32, 0, 1, 0, "TC 2 1", "no axes" },
    { DT_F16, 32, 16, 64, 0, 1, 0, "TC 2 1; SPLIT 1 2 LOOP", "part of a TC" },
    { DT_F16, 16, 16, 64, 0, 1, 0, "TC 2 1; PADTO 4 6", "part of a TC" },
    { DT_F32, 32, 16, 64, 0, 1, 0, "TC 2 1", "not of products" },
    { DT_BF16, 16, 16, 32, 0, 0, 1, "TC 2 2; PACK 2", NULL },
    { DT_BF16, 48, 32, 96, 0, 0, 1, "TC 2 2; PACK 2", NULL },
    { DT_BF16, 64, 64, 64, 0, 0, 1, "SPLIT 0 32 UPCAST; SPLIT 2 32 UPCAST; TC 4 2; PACK 2", NULL },
    { DT_BF16, 64, 96, 128, 0, 1, 1, "SPLIT 0 32 UPCAST; SPLIT 2 32 UPCAST; TC 4 2; SPLIT 6 2 UNROLL; PACK 2", NULL },
    { DT_BF16, 64, 64, 256, 0, 0, 1, "SPLIT 0 32 UPCAST; SPLIT 2 32 UPCAST; TC 4 2; SPLIT 6 8 UNROLL; PACK 2", NULL },                       /* more windows than registers, and no loop */
    { DT_BF16, 64, 96, 256, 0, 1, 1, "SPLIT 0 32 UPCAST; SPLIT 2 32 UPCAST; TC 4 2; SPLIT 6 4 UNROLL; PACK 2", NULL },
    { DT_BF16, 28, 64, 256, 0, 1, 1, "SPLIT 0 28 UPCAST; SPLIT 1 32 UPCAST; TC 3 2; SPLIT 5 4 UNROLL; PACK 2", NULL },                       /* A's registers are shorter than B's */
    { DT_BF16, 37, 32, 64, 0, 1, 1, "SPLIT 0 32 UPCAST; SPLIT 2 32 UPCAST; TC 3 2; PACK 2", NULL },                                        /* rows 5 to 36 again */
    { DT_BF16, 14, 32, 64, 0, 0, 1, "TC 2 2; PACK 2", NULL },                                                                              /* fewer rows than a tile has */
    { DT_BF16, 28, 64, 96, 0, 1, 1, "SPLIT 0 28 UPCAST; SPLIT 1 32 UPCAST; TC 3 2; PACK 2", NULL },                                        /* 14 and 14 */
    { DT_BF16, 7, 48, 64, 0, 1, 1, "SPLIT 1 16 UPCAST; TC 3 2; PACK 2", NULL },
    { DT_BF16, 64, 64, 32, 0, 0, 1, "SPLIT 0 32 UPCAST; SPLIT 2 32 UPCAST; TC 4 2; PACK 2", NULL },                                        /* four sums of one term */
    { DT_BF16, 19, 16, 32, 0, 0, 1, "SPLIT 0 10 UPCAST; TC 3 2; PACK 2", NULL },                                                           /* rows 9 to 18 again */
    { DT_BF16, 4, 16, 32, 0, 0, 1, "TC 2 2; PACK 2", "no axes" },
    { DT_BF16, 64, 64, 64, 0, 0, 1, "TC 2 2; PACK 2; SPLIT 0 2 LOOP", "come last" },
    { DT_BF16, 64, 64, 64, 1, 0, 1, "TC 2 2", "does not lie along" },
    { DT_BF16, 64, 64, 64, 0, 0, 1, "TC 2 2; NEST 4", "part of a TC" },
    { DT_BF16, 32, 48, 64, 0, 0, 1, "TC 2 2; PADTO 4 3; PACK 2", "part of a TC" },
    { DT_BF16, 64, 64, 64, 0, 0, 1, "TC 2 0", "no row" },
    { DT_U8, 1, 16, 4, 0, 0, 1, "TC 1 3; PACK 1", NULL },
    { DT_U8, 5, 16, 4, 0, 0, 1, "TC 2 3; PACK 1", NULL },
    { DT_U8, 7, 48, 52, 0, 1, 1, "SPLIT 1 16 UPCAST; TC 3 3; PACK 1", NULL },
    { DT_U8, 13, 64, 64, 0, 0, 1, "SPLIT 1 16 UPCAST; TC 3 3; SPLIT 1 2 UPCAST; SPLIT 0 5 UPCAST; PACK 1", NULL },                         /* 5 x 2 vectors, rows 3 to 12 again */
    { DT_U8, 6, 24, 36, 0, 0, 1, "SPLIT 1 16 UPCAST; SPLIT 0 3 UPCAST; TC 4 3; SPLIT 4 3 UNROLL; PACK 1", NULL },                          /* columns 8 to 23 again */
    { DT_U8, 16, 16, 64, 1, 0, 1, "TC 2 3", "does not lie along" },
    { DT_U8, 16, 16, 30, 0, 0, 1, "TC 2 3", "multiple of 4" },
    { DT_U8, 16, 12, 64, 0, 0, 1, "TC 2 3", "no axes" },
    { DT_U8, 16, 16, 64, 0, 0, 1, "TC 2 2", "not of products" },
    { DT_U8, 16, 16, 64, 0, 0, 1, "TC 2 4; PACK 1", NULL },
    { DT_U8, 64, 64, 128, 0, 1, 1, "SPLIT 0 32 UPCAST; SPLIT 2 32 UPCAST; TC 4 4; PACK 1", NULL },
    { DT_U8, 37, 48, 192, 0, 0, 1, "SPLIT 0 28 UPCAST; SPLIT 2 16 UPCAST; TC 4 4; PACK 1", NULL },
    { DT_U8, 16, 16, 32, 0, 0, 1, "TC 2 4", "multiple of 64" },
    { DT_BF16, 1, 16, 2, 0, 0, 1, "TC 1 5; PACK 2", NULL },
    { DT_BF16, 5, 16, 6, 0, 0, 1, "TC 2 5; PACK 2", NULL },
    { DT_BF16, 7, 48, 50, 0, 1, 1, "SPLIT 1 16 UPCAST; TC 3 5; PACK 2", NULL },
    { DT_BF16, 13, 64, 64, 0, 0, 1, "SPLIT 1 16 UPCAST; TC 3 5; SPLIT 1 2 UPCAST; SPLIT 0 5 UPCAST; PACK 2", NULL },
    { DT_BF16, 6, 24, 36, 0, 0, 1, "SPLIT 1 16 UPCAST; SPLIT 0 3 UPCAST; TC 4 5; SPLIT 4 3 UNROLL; PACK 2", NULL },
    { DT_BF16, 15, 16, 64, 1, 0, 1, "TC 2 5", "does not lie along" },
    { DT_BF16, 16, 16, 31, 0, 0, 1, "TC 2 5", "multiple of 2" },
    { DT_BF16, 15, 12, 64, 0, 0, 1, "TC 2 5", "no axes" },
    { DT_U8, 2, 16, 16, 0, 0, 1, "SPLIT 2 2 UNROLL TOP; NEST 3; SPLIT 3 2 UNROLL TOP; TC 4 3; PACK 1", NULL },                              /* sums of sums, and no loop */
    { DT_U8, 2, 16, 128, 0, 0, 1, "SPLIT 2 4 REDUCE TOP; NEST 3; TC 3 3; SPLIT 3 8 UNROLL; PACK 1", NULL },
    { DT_BF16, 2, 16, 8, 0, 0, 1, "SPLIT 2 2 UNROLL TOP; NEST 3; SPLIT 3 2 UNROLL TOP; TC 4 5; PACK 2", NULL },
    { DT_BF16, 16, 16, 256, 0, 0, 1, "SPLIT 2 2 UNROLL TOP; NEST 3; SPLIT 3 2 UNROLL TOP; TC 4 2; PACK 2", NULL },                          /* two tiles that are added */
    { DT_BF16, 16, 16, 256, 0, 0, 1, "SPLIT 2 4 REDUCE TOP; NEST 3; TC 3 2; PACK 2", NULL },
    { DT_U8, 5, 8, 4, 0, 0, 1, "TC 2 6; PACK 1", NULL },
    { DT_U8, 13, 64, 64, 0, 0, 1, "SPLIT 1 8 UPCAST; TC 3 6; SPLIT 1 2 UPCAST; SPLIT 0 5 UPCAST; PACK 1", NULL },
    { DT_U8, 6, 12, 36, 0, 0, 1, "SPLIT 1 8 UPCAST; SPLIT 0 3 UPCAST; TC 4 6; SPLIT 4 3 UNROLL; PACK 1", NULL },
    { DT_U8, 5, 4, 4, 0, 0, 1, "TC 2 7; PACK 1", NULL },
    { DT_U8, 7, 12, 52, 0, 1, 1, "SPLIT 1 4 UPCAST; TC 3 7; PACK 1", NULL },
    { DT_U8, 13, 64, 64, 0, 0, 1, "SPLIT 1 4 UPCAST; TC 3 7; SPLIT 1 4 UPCAST; SPLIT 0 5 UPCAST; PACK 1", NULL },
    { DT_U8, 5, 4, 4, 0, 0, 1, "TC 2 8", "not of products" },
    { DT_I8, 5, 4, 4, 0, 0, 1, "TC 2 8; PACK 2", NULL },
    { DT_I8, 7, 12, 52, 0, 1, 1, "SPLIT 1 4 UPCAST; TC 3 8; PACK 2", NULL },
    { DT_I8, 13, 64, 64, 0, 0, 1, "SPLIT 1 4 UPCAST; TC 3 8; SPLIT 1 4 UPCAST; SPLIT 0 5 UPCAST; PACK 2", NULL },
    { DT_BF16, 5, 4, 6, 0, 0, 1, "TC 2 9; PACK 2", NULL },
    { DT_BF16, 7, 12, 50, 0, 1, 1, "SPLIT 1 4 UPCAST; TC 3 9; PACK 2", NULL },
    { DT_BF16, 13, 64, 64, 0, 0, 1, "SPLIT 1 4 UPCAST; TC 3 9; SPLIT 1 4 UPCAST; SPLIT 0 5 UPCAST; PACK 2", NULL },
};

static bool of_bytes(const Row *r) { return r->t == DT_U8 || r->t == DT_I8; }
/* 2: of the bias and the result */
static DType type_of(const Row *r, int input)
{
    return !of_bytes(r) || input == 0 ? r->t : input == 1 ? DT_I8 : DT_I32;
}

typedef struct {
    const Row *r;
    void *in[3];
    int64_t bytes[3];
    Graph *g;
    Schedule *s;
    Kernel *k;
    void *want, *pack[KERNEL_PARAMS];
    int64_t out;
} Case;

static void make_inputs(Case *c)
{
    Random rng = { .state = 7 };
    int64_t size[3] = { c->r->m * c->r->k, c->r->n * c->r->k, c->r->n };
    for (int i = 0; i < 3; i++) {
        DType t = type_of(c->r, i);
        c->bytes[i] = size[i] * dtype_size(t);
        c->in[i] = malloc((size_t)c->bytes[i] + 64);
        for (int64_t j = 0; j < size[i]; j++) {
            double v = (double)random_below(&rng, 17) - 8;
            /* both ends of u8 and i8 are there */
            scalar_store(t, c->in[i], j,
                         dtype_is_float(t) ? scalar_of(v / 8)
                             : t == DT_U8  ? 127 + (int64_t)(v * 16)
                                           : (int64_t)(v * 16) - (v > 7));
        }
    }
}

static void make_case(Case *c, const Row *r)
{
    Graph *g = c->g = graph_new();
    const UOp *m = uop_index(g, r->m), *n = uop_index(g, r->n), *k = uop_index(g, r->k);
    c->r = r;
    make_inputs(c);
    const UOp *a = uop_param(g, type_of(r, 0), (const UOp *[]){ r->ta ? k : m, r->ta ? m : k }, 2, 0),
              *bias = uop_param(g, type_of(r, 2), &n, 1, 1);
    const UOp *b = tensor_const(g, type_of(r, 1), (const int64_t[]){ r->tb ? r->n : r->k, r->tb ? r->k : r->n }, 2,
                                c->in[1], (size_t)c->bytes[1], "b");
    if (of_bytes(r)) a = cast(g, a, DT_I32), b = cast(g, b, DT_I32);
    const UOp *y = add(g, matmul(g, r->ta ? transpose(g, a) : a, r->tb ? transpose(g, b) : b), bias),
              *sink = UOP(g, UOP_SINK, DT_VOID, NO_ARG, r->turned ? transpose(g, y) : y);
    Target t = r->on_cpu ? cpu : gpu;
    /* where there is a row of u8, a becomes u8 */
    if (r->t == DT_I8) t.wmma = 1u << WMMA_neon_i8 | 1u << WMMA_sve_i8;
    assert_int_equal(sched_schedule(&c->s, g, sink, &t, NULL, NULL), TG_OK);
    assert_int_equal(c->s->count, 1);
    c->k = kernel_clone(c->s->item[0].kernel);
    c->out = r->m * r->n;
}

static void case_done(Case *c)
{
    kernel_free(c->k);
    schedule_free(c->s);
    graph_free(c->g);
    for (int i = 0; i < 3; i++) free(c->in[i]);
    for (int i = 0; i < KERNEL_PARAMS; i++) free(c->pack[i]);
    free(c->want);
}

static RefMem memory_behind(Case *c, const UOp *buffer, void *out)
{
    const UOp *b = under(buffer);
    if (b->op == UOP_PARAM) return (RefMem){ c->in[b->arg.i ? 2 : 0], c->bytes[b->arg.i ? 2 : 0] };
    if (graph_buffer(c->g, buffer_slot(b))->data) return (RefMem){ c->in[1], c->bytes[1] };
    return (RefMem){ out, c->out * dtype_size(type_of(c->r, 2)) };
}

static void fill_pack(Case *c, uint32_t slot)
{
    Kernel *p = pack_kernel(c->k, slot);
    RefMem mem[KERNEL_PARAMS];
    int64_t bytes = c->k->pack[slot]->numel * dtype_size(c->k->pack[slot]->value->dtype);
    free(c->pack[slot]);
    mem[0] = (RefMem){ c->pack[slot] = malloc((size_t)bytes + 64), bytes };
    for (uint32_t i = 1; i < p->nparam; i++) mem[i] = memory_behind(c, p->param[i].buffer, NULL);
    assert_int_equal(ref_exec_root(p, mem, NULL), TG_OK);
    kernel_free(p);
}

static void set_memory(Case *c, RefMem *mem, void *out)
{
    for (uint32_t i = 0; i < c->k->nparam; i++) {
        mem[i] = memory_behind(c, c->k->param[i].buffer, out);
        if (!c->k->pack[i]) continue;
        if (!c->pack[i]) fill_pack(c, i);
        mem[i] = (RefMem){ c->pack[i], c->k->pack[i]->numel * dtype_size((DType)c->k->pack[i]->value->dtype) };
    }
}

static void *fresh(const Case *c)
{
    size_t bytes = (size_t)(c->out * dtype_size(type_of(c->r, 2)));
    void *out = malloc(bytes + 64);
    memset(out, 0x5a, bytes);
    return out;
}

static void run_agrees(Case *c, Run run, const char *stage)
{
    RefMem mem[KERNEL_PARAMS];
    void *out = fresh(c);
    Place at = { c->r >= row && c->r < row + sizeof row / sizeof *row ? (uint64_t)(c->r - row) : 0, stage, c->k,
                 &c->k->opts, NULL };
    set_memory(c, mem, out);
    assert_true(went(&at, run(c->k, mem, NULL)));
    if (c->want) assert_true(agree(&at, type_of(c->r, 2), out, c->want, c->out));
    if (c->want) free(out);
    else c->want = out;
}

static void fill(void *user, uint32_t slot, void *ptr, size_t bytes)
{
    Case *c = user;
    RefMem mem[KERNEL_PARAMS];
    set_memory(c, mem, NULL);
    memset(ptr, 0x5a, bytes);
    if (mem[slot].data)
        memcpy(ptr, mem[slot].data, (size_t)mem[slot].size_bytes < bytes ? (size_t)mem[slot].size_bytes : bytes);
}

static void backend_agrees(Case *c, const Backend *b, Device *d)
{
    CompileStats stats;
    Code *code;
    double seconds;
    void *out[KERNEL_PARAMS] = { NULL };
    Place at = { (uint64_t)(c->r - row), b->name, c->k, &c->k->opts, NULL };
    for (uint32_t i = 0; i < c->k->nparam; i++)
        if (c->k->param[i].written) out[i] = fresh(c);
    assert_true(went(&at, b->compile(&code, d, &c->k, 1, &stats)));
    assert_true(went(&at, b->time(&seconds, d, code, 0, c->k, fill, c, 1, 10, out)));
    for (uint32_t i = 0; i < c->k->nparam; i++) {
        if (out[i]) assert_true(agree(&at, type_of(c->r, 2), out[i], c->want, c->out));
        free(out[i]);
    }
    b->code_free(code);
}

static uint32_t rows_of(const OptList *l)
{
    uint32_t rows = 0;
    for (uint32_t i = 0; i < l->count; i++) rows |= l->op[i].kind == OPT_TC ? 1u << l->op[i].factor % 16 : 0;
    return rows;
}

/* A device runs what it has the rows for. */
static void row_agrees(const Row *r, const Backend *b, Device *d)
{
    const Target *t = r->on_cpu ? &cpu : &gpu;
    Case c = { 0 };
    OptList opts;
    make_case(&c, r);
    assert_int_equal(opt_parse(&opts, r->opts), TG_OK);
    TgStatus status = opt_apply_list(c.k, &opts, t);
    if (r->refused) {
        if (status == TG_OK) print_message("row %d is not refused\n", (int)(r - row));
        assert_int_equal(status, TG_USAGE);
        if (!strstr(tg_error(), r->refused)) print_message("row %d: %s\n", (int)(r - row), tg_error());
        assert_non_null(strstr(tg_error(), r->refused));
        case_done(&c);
        return;
    }
    assert_true(went(&(Place){ (uint64_t)(r - row), "optimize", c.k, &opts, NULL }, status));
    Kernel *plain = c.s->item[0].kernel, *k = c.k;
    c.k = plain, run_agrees(&c, ref_exec_root, "plain");
    c.k = k, run_agrees(&c, ref_exec_root, "optimize");
    assert_true(went(&(Place){ (uint64_t)(r - row), "expand", k, &opts, NULL }, kernel_expand(k, t))),
        run_agrees(&c, ref_exec_root, "expand");
    assert_int_equal(kernel_select(k, t), TG_OK), run_agrees(&c, ref_exec_root, "select");
    assert_true(went(&(Place){ (uint64_t)(r - row), "linearize", k, &opts, NULL }, kernel_linearize(k, t))),
        run_agrees(&c, ref_exec_linear, "linearize");
    if (d && !strcmp(b->target(d)->kind, t->kind) && (b->target(d)->wmma & rows_of(&opts)) == rows_of(&opts))
        backend_agrees(&c, b, d);
    case_done(&c);
}

static void tiles_agree(void **state)
{
    Device *d = NULL;
    (void)state;
    assert_int_equal(backend_cpu.open(&d, &(DeviceOptions){ .threads = 2 }), TG_OK);
    for (const Row *r = row; r < row + sizeof row / sizeof *row; r++) row_agrees(r, &backend_cpu, d);
    backend_cpu.close(d);
}

/* Lowers under the list that k has; a stage may refuse what it does not cover. false: it did. */
static bool lowered_agrees(Case *c, const Target *t)
{
    TgStatus status = kernel_expand(c->k, t);
    if (status == TG_OK) run_agrees(c, ref_exec_root, "expand");
    if (status == TG_OK) status = kernel_select(c->k, t);
    if (status == TG_OK) status = kernel_linearize(c->k, t);
    if (status == TG_OK) run_agrees(c, ref_exec_linear, "linearize");
    assert_true(status == TG_OK || status == TG_UNSUPPORTED || status == TG_USAGE);
    return status == TG_OK;
}

/* The heuristic's lists have the row that a product wants, whichever of its axes come first. */
static void heuristic_takes_them(void **state)
{
    (void)state;
    static const Row product[] = { { DT_U8, 13, 64, 64, .on_cpu = true },
                                   { DT_U8, 29, 48, 32, .on_cpu = true, .turned = true },
                                   { DT_BF16, 64, 64, 64, .on_cpu = true },
                                   { DT_BF16, 29, 48, 18, .on_cpu = true, .turned = true } };
    /* the second and the last sum too few terms for a tile */
    static const WmmaRow wants[] = { WMMA_amx_u8, WMMA_vnni_u8, WMMA_amx_bf16, WMMA_dot_bf16 };
    for (const Row *r = product; r < product + sizeof product / sizeof *product; r++) {
        Case c = { 0 };
        OptList opts;
        make_case(&c, r);
        Kernel *plain = c.s->item[0].kernel, *k = c.k;
        heuristic_opts(&opts, k, &cpu);
        assert_int_equal(rows_of(&opts), 1 << wants[r - product]);
        assert_int_equal(opt_apply_list(k, &opts, &cpu), TG_OK);
        c.k = plain, run_agrees(&c, ref_exec_root, "plain");
        c.k = k, run_agrees(&c, ref_exec_root, "optimize");
        assert_true(lowered_agrees(&c, &cpu));
        case_done(&c);
    }
}

/* A TC of any row of these types and pair of axes that is legal. */
static bool try_tc(Kernel *k, Random *r, const Target *t, DType type)
{
    const UOp *axis[64];
    uint32_t n = opt_axes(k, axis, 64), fits[WMMA_COUNT], rows = 0;
    for (uint32_t w = 0; w < WMMA_COUNT; w++)
        if (t->wmma >> w & 1 && wmma_row[w].a == type) fits[rows++] = w;
    for (uint32_t i = n, any = random_below(r, rows); i-- > 0;)
        for (uint32_t c = 0; c < 2 * rows; c++)
            if (random_apply(k,
                             &(OptOp){ .kind = OPT_TC,
                                       .axis = (int8_t)i,
                                       .factor = (int32_t)(fits[(c + any) % rows] + 16 * (c / rows)) },
                             t))
                return true;
    return false;
}

/* Random OptOps before and after a TC, on devices of both kinds. */
static void random_lists_agree(void **state)
{
    (void)state;
    long count = setting("RANDOM_COUNT", 320), made = 0, ran = 0;
    for (long seed = setting("RANDOM_SEED", 1), end = seed + count; seed < end; seed++) {
        Random r = { .state = (uint64_t)seed * 7919 };
        bool on_cpu = seed % 2;
        Row one = { random_below(&r, 2) ? !on_cpu             ? DT_F16
                                            : random_below(&r, 4) ? DT_U8
                                                                  : DT_I8
                                        : DT_BF16,
                    16 + 16 * random_below(&r, 3),
                    16 + 16 * random_below(&r, 3),
                    32 << random_below(&r, 3),
                    !on_cpu && random_below(&r, 2),
                    random_below(&r, 2),
                    on_cpu,
                    NULL,
                    NULL };
        Case c = { 0 };
        const Target *t = on_cpu ? &cpu : &gpu;
        make_case(&c, &one);
        Kernel *k = c.k;
        random_opts(k, &r, random_below(&r, 4), t);
        bool tiles = try_tc(k, &r, t, one.t);
        if (tiles) random_opts(k, &r, random_below(&r, 4), t);
        for (uint32_t i = 0; tiles && on_cpu && i < k->nparam; i++)
            random_apply(k, &(OptOp){ .kind = OPT_PACK, .axis = (int8_t)i }, t);
        c.k = c.s->item[0].kernel, run_agrees(&c, ref_exec_root, "plain");
        c.k = k, run_agrees(&c, ref_exec_root, "optimize");
        made += tiles;
        ran += lowered_agrees(&c, t) && tiles;
        case_done(&c);
    }
    print_message("%ld lists, %ld with a TC, %ld of those ran to the end\n", count, made, ran);
    assert_true(ran * 4 > count);
    bool complete = random_opts_complete(&cpu, true);
    assert_true((random_opts_complete(&gpu, true) && complete) || count < 320);
}

/* Every bit of every index of a row stands in one place, and every place is taken. */
static void rows_are_complete(void **state)
{
    (void)state;
    for (const Wmma *w = wmma_row; w < wmma_row + WMMA_COUNT; w++) {
        const struct {
            const char *bits[2];
            int size[2];
        } part[3] = { { { w->am, w->ak }, { w->m, w->k } },
                      { { w->bk, w->bn }, { w->k, w->n } },
                      { { w->cm, w->cn }, { w->m, w->n } } };
        for (int i = 0; i < 3; i++) {
            int elements = wmma_elements(part[i].bits[0], part[i].bits[1]), lane, element, places = w->lanes * elements;
            uint8_t *seen = calloc((size_t)places, 1);
            assert_int_equal(places, part[i].size[0] * part[i].size[1]);
            for (int a = 0; a < part[i].size[0]; a++)
                for (int b = 0; b < part[i].size[1]; b++) {
                    wmma_place(part[i].bits[0], a, part[i].bits[1], b, &lane, &element);
                    assert_true(lane < w->lanes && element < elements && !seen[lane * elements + element]++);
                }
            free(seen);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(rows_are_complete), cmocka_unit_test(tiles_agree),
                                        cmocka_unit_test(heuristic_takes_them), cmocka_unit_test(random_lists_agree) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
