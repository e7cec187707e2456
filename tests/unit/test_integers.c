/* Integers: sums of products of quantised values are made of bytes, and are what the interpreter finds for the model's
 * own text: exact in i32, to its rounding in f32; so are blocks of them that have a scale each. */
#include <math.h>
#include <string.h>

#include "backends/reference/reference.h"
#include "graph/build.h"
#include "graph/wmma.h"
#include "sched/halo.h"
#include "sched/sched.h"
#include "tests/test.h"

static const Target vnni = { .kind = "cpu", .wmma = 1 << WMMA_vnni_u8 }, without = { .kind = "cpu" },
                    fills = { .kind = "cpu", .wmma = 1 << WMMA_vnni_u8, .clears_halos = true };

/* x [1, C, 7, 6] * w [M, C / groups, k, k], padded by `pad`; k 0: [5, C] times [C, M]. z: subtracted from each, NAN: no
 * operand at all there. scales: 0 i32, 1 one number each, 2 one a channel of w. made: what the sum is made of, DT_VOID:
 * it stays as it is. filled: the same where padding is filled, if not as made. */
typedef struct {
    DType x, w;
    int64_t c, m, k, groups, pad;
    double zx, zw;
    int scales;
    DType made, filled;
} Row;
static const Row row[] = {
    { DT_U8, DT_I8, 8, 5, 0, 1, 0, NAN, NAN, 0, DT_I32 },
    { DT_U8, DT_I8, 8, 5, 0, 1, 0, 113, NAN, 0, DT_I32 },
    { DT_U8, DT_U8, 8, 5, 0, 1, 0, 113, 128, 0, DT_I32 },
    { DT_I8, DT_I8, 8, 5, 0, 1, 0, -13, 3, 0, DT_I32 },
    { DT_I8, DT_U8, 12, 5, 0, 1, 0, 7, 250, 1, DT_I32 },
    { DT_U8, DT_I8, 8, 5, 0, 1, 0, 0, 0, 1, DT_I32 },
    { DT_U8, DT_I8, 8, 5, 0, 1, 0, 100, 0, 2, DT_I32 },
    { DT_U8, DT_I8, 8, 5, 3, 1, 1, 0, 0, 2, DT_I32 },
    { DT_I8, DT_I8, 8, 5, 3, 1, 1, -128, 0, 2, DT_I32 },
    { DT_U8, DT_I8, 8, 5, 1, 1, 0, 77, 0, 2, DT_I32 },
    { DT_U8, DT_I8, 8, 6, 3, 2, 1, 0, 0, 1, DT_I32 },
    { DT_U8, DT_I8, 8, 6, 3, 2, 1, 0, 0, 2, DT_I32 },               /* the scale lies along two axes */
    { DT_U8, DT_I8, 8, 5, 3, 1, 1, 9, 0, 2, DT_I32 },               /* what is padded is no byte */
    { DT_I8, DT_I8, 8, 5, 3, 1, 1, 9, NAN, 0, DT_I32 },
    { DT_U8, DT_I8, 8, 5, 3, 1, 1, 9, 4, 2, DT_I32 },               /* nor has each place as many terms */
    { DT_U8, DT_U8, 8, 5, 3, 1, 1, 77, 121, 0, DT_I32 },
    { DT_U8, DT_U8, 6, 6, 3, 6, 1, 50, 121, 0, DT_F32 },
    { DT_U8, DT_U8, 3, 5, 3, 1, 1, 300, 7, 2, DT_I32 },
    { DT_U8, DT_I8, 6, 6, 3, 6, 1, 50, 0, 2, DT_F32 },              /* depthwise, too */
    { DT_U8, DT_I8, 3, 5, 3, 1, 1, 0, 0, 2, DT_I32 },               /* with a fourth element */
    { DT_U8, DT_I8, 7, 5, 3, 1, 1, 40, 0, 2, DT_I32 },
    { DT_U8, DT_I8, 5, 5, 3, 1, 1, 0, 0, 2, DT_VOID },              /* no fours: an axis of the window is none */
    { DT_U8, DT_I8, 6, 6, 3, 6, 1, 0, 0, 2, DT_F32 },               /* depthwise */
    { DT_U8, DT_I8, 6, 6, 3, 6, 0, 50, 0, 2, DT_F32 },
    { DT_I8, DT_U8, 6, 6, 3, 6, 0, 50, 3, 0, DT_F32 },
    { DT_U8, DT_F32, 6, 6, 3, 6, 1, 0, NAN, 1, DT_F32 },            /* its weights are no bytes */
    { DT_U8, DT_F32, 6, 6, 3, 6, 0, 4, NAN, 1, DT_VOID },
    { DT_U8, DT_F32, 8, 5, 3, 1, 1, 0, NAN, 1, DT_VOID },
};
enum { X_MOST = 16 * 7 * 6 };

static uint32_t number(uint32_t k) { return k * 2654435761u >> 15; }

static void fill(DType t, void *p, int64_t n, uint32_t seed)
{
    for (int64_t i = 0; i < n; i++) {
        uint32_t v = number((uint32_t)i + seed);
        if (t == DT_F32) ((float *)p)[i] = (float)(v % 255) / 64 - 2;
        else ((uint8_t *)p)[i] = (uint8_t)v;
    }
}

static U constant(Graph *g, DType t, const int64_t *shape, uint32_t rank, uint32_t seed)
{
    int64_t n = 1;
    for (uint32_t k = 0; k < rank; k++) n *= shape[k];
    void *p = arena_alloc(graph_arena(g), (size_t)(n * dtype_size(t)));
    fill(t, p, n, seed);
    return tensor_const(g, t, shape, rank, p, (size_t)(n * dtype_size(t)), "");
}

/* As ops/quant.c writes it. */
static U quantised(Graph *g, U q, double z, U scale)
{
    if (q->dtype == DT_F32) return q;
    U y = cast(g, q, DT_I32);
    if (z == z) y = sub(g, y, scalar(g, DT_I32, z));
    return scale ? mul(g, cast(g, y, DT_F32), scale) : y;
}

static U make(Graph *g, const Row *r)
{
    int64_t shape_x[] = { 1, r->c, 7, 6 }, shape_m[] = { 5, r->c }, shape_w[] = { r->m, r->c / r->groups, r->k, r->k },
            shape_k[] = { r->c, r->m }, one[] = { 1, 1 }, pads[] = { r->pad, r->pad }, along[] = { r->m, 1, 1, 1 };
    U dim[4], s = r->scales ? scalar(g, DT_F32, 0.0625) : NULL,
              s_w = r->scales < 2 ? s
        : r->k                    ? constant(g, DT_F32, along, 4, 99)
                                  : constant(g, DT_F32, along, 1, 99);
    for (int k = 0; k < 4; k++) dim[k] = uop_index(g, r->k ? shape_x[k] : shape_m[k % 2]);
    U x = quantised(g, uop_param(g, r->x, dim, r->k ? 4 : 2, 0), r->zx, s),
      w = r->k ? constant(g, r->w, shape_w, 4, 5) : constant(g, r->w, shape_k, 2, 5);
    w = quantised(g, w, r->zw, s_w);
    U y = r->k ? conv(g, x, w, one, one, pads, pads, r->groups) : matmul(g, x, w);
    return UOP(g, UOP_SINK, DT_VOID, NO_ARG, y);
}

static bool is_of_bytes(U u)
{
    while (u->op == UOP_INDEX || u->op == UOP_WHERE || (op_is((Op)u->op, FLAG_MOVE) && u->op != UOP_BITCAST))
        u = u->src[u->op == UOP_WHERE];
    return u->op == UOP_CAST && dtype_size((DType)u->src[0]->dtype) == 1;
}

static bool reads_input(Graph *g, U u)
{
    Arena *a = arena_new();
    uint32_t n;
    bool reads = false;
    const UOp **order = uop_toposort(g, &u, 1, a, &n);
    for (uint32_t i = 0; i < n; i++) reads |= order[i]->op == UOP_PARAM;
    arena_free(a);
    return reads;
}

/* The type of a sum of products of bytes, or of bytes and a plain constant; DT_VOID: there is none. */
static DType made_of(Graph *g, U root)
{
    Arena *a = arena_new();
    uint32_t n;
    DType t = DT_VOID;
    const UOp **order = uop_toposort(g, &root, 1, a, &n);
    for (uint32_t i = 0; i < n; i++) {
        U p = order[i]->op == UOP_REDUCE && order[i]->src[0]->op == UOP_MUL ? order[i]->src[0] : NULL;
        if (p && reads_input(g, p) && (is_of_bytes(p->src[0]) || is_of_bytes(p->src[1]))) t = (DType)p->dtype;
    }
    arena_free(a);
    return t;
}

static void eval(RefTensor *out, Graph *g, U sink)
{
    uint8_t x[X_MOST];
    const void *data[2] = { x, x + 100 };
    fill(DT_U8, x, X_MOST, 7777);
    assert_int_equal(ref_eval(out, g, sink->src, sink->nsrc, &(RefInput){ .param = data, .nparam = 2 }), TG_OK);
}

static bool near(const RefTensor *got, const RefTensor *want)
{
    double most = 0, worst = 0;
    for (int64_t i = 0; i < want->numel; i++) {
        double w = ((const float *)want->data)[i], d = fabs(((const float *)got->data)[i] - w);
        if (fabs(w) > most) most = fabs(w);
        if (d > worst) worst = d;
    }
    return worst <= 2e-6 * most;
}

static void rows_on(const Target *t)
{
    for (const Row *r = row; r < row + sizeof row / sizeof *row; r++) {
        DType made = t == &fills && r->filled ? r->filled : r->made;
        Graph *g = graph_new();
        RefTensor want = { 0 }, got = { 0 };
        U sink = make(g, r), one = sum_integers(g, sink, t);
        bool integers = r->scales == 0, there = made_of(g, one) == made || (made == DT_VOID && one == sink);
        assert_int_equal(graph_error(g), TG_OK);
        eval(&want, g, sink);
        eval(&got, g, one);
        bool same = got.numel == want.numel &&
            (integers ? !memcmp(got.data, want.data, (size_t)want.numel * 4) : near(&got, &want));
        if (!there || !same)
            print_message("row %d: made of %s, %s\n", (int)(r - row), dtype_name(made_of(g, one)),
                          same ? "right" : "wrong");
        assert_true(there && same);
        assert_ptr_equal(sum_integers(g, sink, &without), sink);
        ref_tensor_free(&want);
        ref_tensor_free(&got);
        graph_free(g);
    }
}

static void rows_agree(void **state)
{
    (void)state;
    rows_on(&vnni);
    rows_on(&fills);
}

static uint32_t count(Graph *g, U root, Op op)
{
    Arena *a = arena_new();
    uint32_t n, found = 0;
    const UOp **order = uop_toposort(g, &root, 1, a, &n);
    for (uint32_t i = 0; i < n; i++) found += order[i]->op == op;
    arena_free(a);
    return found;
}

/* What is made of such a sum is divided by a known number as by multiplying; a quotient of anything else is exact, as
 * quantising wants it. */
/* x [2, 5, 8] less z_x [.., 1 or 8] times w [2, 8, 6] less z_w [.., 6] or [.., 8, 1], as quantised recurrences have
 * them: z_x is an input. */
static U product_of_zeros(Graph *g, const int64_t *zx, const int64_t *zw)
{
    const int64_t x[] = { 2, 5, 8 }, w[] = { 2, 8, 6 };
    U dim_x[3], dim_z[3];
    for (int k = 0; k < 3; k++) dim_x[k] = uop_index(g, x[k]), dim_z[k] = uop_index(g, zx[k]);
    U q_x = cast(g, uop_param(g, DT_U8, dim_x, 3, 0), DT_I32), z_x = cast(g, uop_param(g, DT_U8, dim_z, 3, 1), DT_I32),
      q_w = cast(g, constant(g, DT_U8, w, 3, 5), DT_I32), z_w = cast(g, constant(g, DT_U8, zw, 3, 55), DT_I32);
    return UOP(g, UOP_SINK, DT_VOID, NO_ARG, matmul(g, sub(g, q_x, z_x), sub(g, q_w, z_w)));
}

static void zeros_lie_along_axes(void **state)
{
    (void)state;
    static const struct { int64_t zx[3], zw[3]; DType made; } rows[] = {
        { { 1, 1, 1 }, { 2, 1, 6 }, DT_I32 }, { { 2, 1, 1 }, { 2, 1, 6 }, DT_I32 }, { { 2, 1, 1 }, { 2, 1, 1 }, DT_I32 },
        { { 1, 5, 1 }, { 1, 1, 6 }, DT_I32 }, { { 2, 5, 1 }, { 1, 1, 6 }, DT_I32 },
        { { 2, 1, 8 }, { 1, 1, 1 }, DT_VOID }, { { 2, 1, 1 }, { 1, 8, 1 }, DT_VOID },      /* summed */
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        Graph *g = graph_new();
        RefTensor want = { 0 }, got = { 0 };
        U sink = product_of_zeros(g, rows[i].zx, rows[i].zw), one = sum_integers(g, sink, &vnni);
        eval(&want, g, sink);
        eval(&got, g, one);
        if (made_of(g, one) != rows[i].made)
            print_message("zeros %d: made of %s\n", (int)i, dtype_name(made_of(g, one)));
        assert_int_equal(made_of(g, one), rows[i].made);
        assert_true(got.numel == 60 && want.numel == 60 && !memcmp(got.data, want.data, 60 * 4));
        ref_tensor_free(&want);
        ref_tensor_free(&got);
        graph_free(g);
    }
}

static void quotients_are_products(void **state)
{
    (void)state;
    const Row r = { DT_U8, DT_I8, 8, 5, 3, 1, 1, 0, 0, 2, DT_I32 };
    Graph *g = graph_new();
    RefTensor want = { 0 }, got = { 0 };
    U y = make(g, &r)->src[0], c = scalar(g, DT_F32, 0.3), s = scalar(g, DT_F32, 7),
      sink = UOP(g, UOP_SINK, DT_VOID, NO_ARG, div_(g, relu(g, add(g, y, s)), c));
    U one = sum_integers(g, sink, &vnni),
      plain =
          UOP(g, UOP_SINK, DT_VOID, NO_ARG, div_(g, uop_param(g, DT_F32, (const UOp *[]){ uop_index(g, 5) }, 1, 0), c));
    assert_int_equal(count(g, sink, UOP_DIV), 1);
    assert_int_equal(count(g, one, UOP_DIV), 0);
    eval(&want, g, sink);
    eval(&got, g, one);
    assert_true(near(&got, &want));
    assert_ptr_equal(sum_integers(g, plain, &vnni), plain);
    ref_tensor_free(&want);
    ref_tensor_free(&got);
    graph_free(g);
}

/* x [rows, 3, block] times w [5, 3, block], both with a scale a block. */
static U blocks(Graph *g, int64_t rows, int64_t block)
{
    int64_t shape_w[] = { 5, 3, block }, shape_s[] = { 5, 3, 1 };
    U dim[] = { uop_index(g, rows), uop_index(g, 3), uop_index(g, block) }, x = uop_param(g, DT_I8, dim, 3, 0);
    U scale = sqrt_(g, add(g, cast(g, reduce(g, UOP_MAX, cast(g, x, DT_I32), (int64_t[]){ 2 }, 1, true), DT_F32),
                           scalar(g, DT_F32, 200)));
    U a = mul(g, cast(g, x, DT_F32), scale),
      w = mul(g, cast(g, constant(g, DT_I8, shape_w, 3, 5), DT_F32), constant(g, DT_F32, shape_s, 3, 99));
    U y = reduce(g, UOP_ADD, mul(g, unsqueeze(g, a, 1), w), (int64_t[]){ 2, 3 }, 2, false);
    return UOP(g, UOP_SINK, DT_VOID, NO_ARG, y);
}

/* Blocks with a scale each: integers within a block, where fours are whole.
 * Both sums are one kernel. */
static void blocks_agree(void **state)
{
    (void)state;
    static const struct { int64_t rows, block; DType made; } of[] = {
        { 7, 16, DT_I32 }, { 2, 8, DT_I32 }, { 1, 16, DT_I32 }, { 7, 10, DT_VOID }
    };
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        Graph *g = graph_new();
        RefTensor want = { 0 }, got = { 0 };
        U sink = blocks(g, of[i].rows, of[i].block), one = sum_integers(g, sink, &vnni);
        assert_int_equal(graph_error(g), TG_OK);
        assert_int_equal(made_of(g, one), of[i].made);
        eval(&want, g, sink);
        eval(&got, g, one);
        assert_true(got.numel == want.numel && near(&got, &want));
        ref_tensor_free(&want);
        ref_tensor_free(&got);
        graph_free(g);
    }
    Target t = vnni;
    t.threads = 2, t.vector_bytes = 64, t.vector_registers = 32, t.l1_bytes = 32 << 10, t.l2_bytes = 1 << 20;
    Graph *g = graph_new();
    Schedule *s = NULL;
    uint32_t sums = 0;
    assert_int_equal(sched_schedule(&s, g, blocks(g, 70, 16), &t, NULL, NULL), TG_OK);
    for (uint32_t i = 0; i < s->count; i++) {
        const Kernel *k = s->item[i].kernel;
        if (k && !s->item[i].once && count(k->g, k->root, UOP_REDUCE) == 2) sums++;
    }
    assert_int_equal(sums, 1);
    schedule_free(s);
    graph_free(g);
}

/* A value that is padded and has a zero point is read without gates: what lies around it is that zero. Nothing but the
 * weights' sums is computed at load. */
static void padding_lies_in_memory(void **state)
{
    (void)state;
    const Row r = { DT_U8, DT_I8, 8, 8, 3, 1, 1, 0, 0, 2, DT_I32 };
    Target t = fills;
    t.threads = 2, t.vector_bytes = 64, t.vector_registers = 32, t.l1_bytes = 32 << 10, t.l2_bytes = 1 << 20;
    Graph *g = graph_new();
    Schedule *s = NULL;
    U y = make(g, &r)->src[0];
    uint32_t filled = 0;
    U q = cast(g, clamp(g, y, scalar(g, DT_F32, 0), scalar(g, DT_F32, 255)), DT_U8);
    int64_t shape_w[] = { 5, 8, 3, 3 }, one[] = { 1, 1 };
    U x = quantised(g, q, 77, scalar(g, DT_F32, 0.5)),
      w = quantised(g, constant(g, DT_I8, shape_w, 4, 5), NAN, scalar(g, DT_F32, 0.25)),
      sink = UOP(g, UOP_SINK, DT_VOID, NO_ARG, conv(g, x, w, one, one, one, one, 1));
    assert_int_equal(sched_schedule(&s, g, sink, &t, NULL, NULL), TG_OK);
    for (uint32_t b = 0; b < graph_buffer_count(s->g); b++) {
        const Halo *h = graph_buffer(s->g, b)->halo;
        if (h) assert_int_equal(h->fill, 77), filled++;
    }
    assert_int_equal(filled, 1);
    schedule_free(s);
    graph_free(g);
}

/* An input of three channels is copied to where a fourth and what pads it lie. */
static void inputs_of_threes_are_copied(void **state)
{
    (void)state;
    const Row r = { DT_U8, DT_I8, 3, 16, 3, 1, 1, 9, 0, 2, DT_I32 };
    Target t = fills;
    t.threads = 2, t.vector_bytes = 64, t.vector_registers = 32, t.l1_bytes = 32 << 10, t.l2_bytes = 1 << 20;
    Graph *g = graph_new();
    Schedule *s = NULL;
    uint32_t filled = 0;
    assert_int_equal(sched_schedule(&s, g, make(g, &r), &t, NULL, NULL), TG_OK);
    for (uint32_t b = 0; b < graph_buffer_count(s->g); b++) {
        const Halo *h = graph_buffer(s->g, b)->halo;
        filled += h && h->fill == 9;
    }
    assert_int_equal(filled, 1);
    schedule_free(s);
    graph_free(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(rows_agree), cmocka_unit_test(zeros_lie_along_axes),
                                        cmocka_unit_test(blocks_agree), cmocka_unit_test(quotients_are_products),
                                        cmocka_unit_test(padding_lies_in_memory),
                                        cmocka_unit_test(inputs_of_threes_are_copied) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
