/* Winograd: sums over windows of three by three are made of tiles where they are worth it, and are what the interpreter
 * finds for the sums themselves, whatever the sizes; one that is no number is noticed. */
#include <math.h>

#include "backends/reference/reference.h"
#include "graph/build.h"
#include "graph/guard.h"
#include "graph/rewrite.h"
#include "graph/wmma.h"
#include "sched/rangeify.h"
#include "tests/test.h"

/* x [n, c, h, w], padded; weights [m, c, k, k]. l2: of the second cache, which decides how tiles lie. any: of up to n
 * samples. */
typedef struct {
    int64_t n, c, h, w, m, k, stride, dilation, groups, pad, l2;
    bool made, any;
} Row;
static const Row row[] = {
    { 1, 32, 36, 36, 32, 3, 1, 1, 1, 1, 1 << 20, true },
    { 1, 32, 36, 36, 32, 3, 1, 1, 1, 1, 1 << 10, true }, /* point by point */
    { 2, 33, 27, 37, 35, 3, 1, 1, 1, 1, 1 << 20, true }, /* tiles at the ends are not whole */
    { 2, 33, 27, 37, 35, 3, 1, 1, 1, 0, 1 << 10, true },
    { 1, 32, 8, 140, 40, 3, 1, 1, 1, 1, 1 << 20, true }, /* blocks of tiles */
    { 3, 64, 7, 15, 64, 3, 1, 1, 1, 1, 1 << 20, true },
    { 2, 33, 27, 37, 35, 3, 1, 1, 1, 1, 1 << 20, true, true },
    { 2, 33, 27, 37, 40, 3, 1, 1, 1, 0, 1 << 10, true, true },
    { 3, 64, 7, 15, 64, 3, 1, 1, 1, 1, 1 << 20, false, true }, /* too few rows of one sample */
    { 1, 128, 9, 9, 128, 3, 1, 1, 1, 1, 1 << 20, false }, /* too few rows */
    { 1, 16, 64, 64, 64, 3, 1, 1, 1, 1, 1 << 20, false }, /* too few channels */
    { 1, 64, 40, 40, 16, 3, 1, 1, 1, 1, 1 << 20, false },
    { 1, 64, 40, 40, 64, 3, 2, 1, 1, 1, 1 << 20, false },
    { 1, 64, 40, 40, 64, 3, 1, 2, 1, 1, 1 << 20, false },
    { 1, 32, 40, 40, 32, 5, 1, 1, 1, 2, 1 << 20, false },
    { 1, 32, 40, 40, 32, 1, 1, 1, 1, 0, 1 << 20, false },
    { 1, 64, 40, 40, 64, 3, 1, 1, 2, 1, 1 << 20, false },
};
enum { MOST = 1 << 17 };

static float number(uint32_t k) { return (float)((k * 2654435761u >> 8) % 65537) / 32768 - 1; }

static U constant(Graph *g, const int64_t *shape, uint32_t rank)
{
    int64_t n = 1;
    for (uint32_t k = 0; k < rank; k++) n *= shape[k];
    float *p = arena_alloc(graph_arena(g), (size_t)n * sizeof *p);
    for (int64_t i = 0; i < n; i++) p[i] = number((uint32_t)i + 99);
    return tensor_const(g, DT_F32, shape, rank, p, (size_t)n * sizeof *p, "");
}

static U samples(Graph *g, const Row *r) { return r->any ? uop_var(g, "n", 1, r->n) : uop_index(g, r->n); }

static U made(Graph *g, const Row *r)
{
    const int64_t stride[] = { r->stride, r->stride }, dilation[] = { r->dilation, r->dilation },
                  pads[] = { r->pad, r->pad };
    U dim[] = { samples(g, r), uop_index(g, r->c), uop_index(g, r->h), uop_index(g, r->w) };
    U w = constant(g, (int64_t[]){ r->m, r->c / r->groups, r->k, r->k }, 4),
      y = conv(g, relu(g, uop_param(g, DT_F32, dim, 4, 0)), w, stride, dilation, pads, pads, r->groups);
    return graph_rewrite(g, UOP(g, UOP_SINK, DT_VOID, NO_ARG, y), rules_movement(), 0, NULL);
}

/* Output element [b, m, i, j] in double precision. */
static double plain(const Row *r, int64_t b, int64_t m, int64_t i, int64_t j)
{
    double sum = 0;
    for (int64_t c = 0; c < r->c; c++)
        for (int64_t k = 0; k < r->k * r->k; k++) {
            int64_t y = i + k / r->k - r->pad, x = j + k % r->k - r->pad;
            if (y < 0 || y >= r->h || x < 0 || x >= r->w) continue;
            sum += fmax(number((uint32_t)(((b * r->c + c) * r->h + y) * r->w + x)), 0) *
                number((uint32_t)((m * r->c + c) * r->k * r->k + k) + 99);
        }
    return sum;
}

static void compare(const Row *r, const RefTensor *got)
{
    int64_t h = r->h + 2 * r->pad - r->k + 1, w = r->w + 2 * r->pad - r->k + 1;
    assert_int_equal(got->numel, r->n * r->m * h * w);
    for (int64_t i = 0; i < got->numel; i++) {
        double want = plain(r, i / w / h / r->m, i / w / h % r->m, i / w % h, i % w), y = ((const float *)got->data)[i];
        bool near = fabs(y - want) <= 0x1p-20 * sqrt((double)r->c);
        if (!near) print_message("row %d: %g for %g\n", (int)(r - row), y, want);
        assert_true(near);
    }
}

static TgStatus eval(RefTensor *out, Graph *g, const Row *r, U sink, uint32_t special)
{
    static float x[MOST];
    static const float odd[] = { INFINITY, -INFINITY, NAN };
    const void *data[] = { x };
    for (uint32_t i = 0; i < MOST; i++) x[i] = number(i);
    if (special) x[1000] = odd[special - 1];
    RefInput in = { .param = data, .nparam = 1, .var = &(RefVar){ samples(g, r), r->n }, .nvar = r->any };
    return ref_eval(out, g, sink->src, sink->nsrc, &in);
}

static void rows_agree(void **state)
{
    (void)state;
    for (const Row *r = row; r < row + sizeof row / sizeof *row; r++) {
        Graph *g = graph_new();
        RefTensor got = { 0 };
        Target t = { .kind = "cpu", .l2_bytes = r->l2, .threads = 2 };
        U sink = made(g, r), one = sum_windows(g, sink, &t, NULL);
        assert_int_equal(graph_error(g), TG_OK);
        if ((one != sink) != r->made) print_message("row %d\n", (int)(r - row));
        assert_int_equal(one != sink, r->made);
        assert_ptr_equal(sum_windows(g, sink, &(Target){ .kind = "cuda" }, NULL), sink);
        assert_ptr_equal(sum_windows(g, sink, &(Target){ .kind = "cpu", .wmma = 1 << WMMA_amx_bf16 }, NULL), sink);
        if (r->made && (!getenv("SANITIZED") || (r - row) % 3 == 0)) { /* the interpreter takes seconds */
            assert_int_equal(eval(&got, g, r, one, 0), TG_OK);
            compare(r, &got);
            ref_tensor_free(&got);
        }
        graph_free(g);
    }
}

/* Sums over windows that are not all that a convolution has: one sample of two, and samples in another order. */
static void others_stay(void **state)
{
    (void)state;
    static const int64_t stride[] = { 1, 1 }, kernel[] = { 3, 3 }, whole[] = { 0, 1, 2, 3, 4, 5, 6 },
                         turned[] = { 1, 0, 2, 3, 4, 5, 6 };
    for (int form = 0; form < 3; form++) {
        Graph *g = graph_new();
        Target t = { .kind = "cpu", .l2_bytes = 1 << 20, .threads = 2 };
        U dim[] = { uop_index(g, 2), uop_index(g, 3), uop_index(g, 32), uop_index(g, 34), uop_index(g, 34) },
          v = windows(g, uop_param(g, DT_F32, dim, 5, 0), 2, kernel, stride, stride);
        v = permute(g, v, form == 1 ? turned : whole, 7);
        if (form == 2) v = slice_i(g, v, 0, 1, 2); /* [n, n', c, h, w, k, k'] */
        v = permute(g, unsqueeze(g, v, 2), (const int64_t[]){ 0, 1, 2, 4, 5, 3, 6, 7 }, 8);
        U w = reshape_i(g, constant(g, (int64_t[]){ 32, 32, 3, 3 }, 4), (int64_t[]){ 32, 1, 1, 32, 3, 3 }, 6),
          y = reduce(g, UOP_ADD, mul(g, v, w), (int64_t[]){ 5, 6, 7 }, 3, true),
          sink = graph_rewrite(g, UOP(g, UOP_SINK, DT_VOID, NO_ARG, y), rules_movement(), 0, NULL),
          one = sum_windows(g, sink, &t, NULL);
        assert_int_equal(graph_error(g), TG_OK);
        if ((one != sink) != !form) print_message("form %d\n", form);
        assert_int_equal(one != sink, form == 0);
        graph_free(g);
    }
}

/* Of an Inf or a NaN among what is read. */
static void no_numbers_are_noticed(void **state)
{
    (void)state;
    for (uint32_t special = 1; special <= (getenv("SANITIZED") ? 1 : 3); special++) {
        Graph *g = graph_new();
        RefTensor got = { 0 };
        Target t = { .kind = "cpu", .l2_bytes = 1 << 20, .threads = 2 };
        U one = sum_windows(g, made(g, &row[0]), &t, NULL);
        /* relu makes a number of -Inf */
        assert_int_equal(eval(&got, g, &row[0], one, special), special == 2 ? TG_OK : (TgStatus)GUARD_PLAIN);
        ref_tensor_free(&got);
        graph_free(g);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(rows_agree), cmocka_unit_test(others_stay),
                                        cmocka_unit_test(no_numbers_are_noticed) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
