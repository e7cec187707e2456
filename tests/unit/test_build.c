/* Builders and folding: small tensors of constants go through the builders, values_of evaluates what came out, numbers
 * were worked out by hand. */
#include "graph/build.h"
#include "tests/test.h"

#include <math.h>

static Graph *g;

static int setup(void **state)
{
    (void)state;
    g = graph_new();
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    graph_free(g);
    return 0;
}

/* [0 .. n-1] as a constant tensor of this shape. */
static U counting(DType t, const int64_t *shape, uint32_t rank)
{
    int64_t n = 1;
    for (uint32_t k = 0; k < rank; k++) n *= shape[k];
    return reshape_i(g, iota(g, uop_index(g, n), t), shape, rank);
}
#define COUNTING(t, ...) counting(t, (const int64_t[]){ __VA_ARGS__ }, sizeof((int64_t[]){ __VA_ARGS__ }) / 8)
#define CONST_I64(shape, ...) \
    tensor_const(g, DT_I64, (const int64_t[]){ shape }, 1, (const int64_t[]){ __VA_ARGS__ }, \
                 sizeof((int64_t[]){ __VA_ARGS__ }), NULL)

static void expect(U x, uint32_t n, const double *want)
{
    U v[256];
    assert_int_equal(graph_error(g), TG_OK);
    assert_int_equal(uop_numel(x), n);
    assert_true(values_of(g, x, v, 256));
    for (uint32_t i = 0; i < n; i++) {
        double got = dtype_is_float(x->dtype) ? uop_const_float(v[i]) : (double)v[i]->arg.i;
        if (got != want[i]) print_error("element %u: %g, expected %g\n", i, got, want[i]);
        assert_true(got == want[i]);
    }
}
#define EXPECT(x, ...) expect(x, sizeof((double[]){ __VA_ARGS__ }) / 8, (const double[]){ __VA_ARGS__ })
#define INTS(...) (const int64_t[]){ __VA_ARGS__ }

static void moves(void **state)
{
    (void)state;
    U x = COUNTING(DT_I32, 2, 3);
    EXPECT(transpose(g, x), 0, 3, 1, 4, 2, 5);
    EXPECT(flip_axis(g, x, -1), 2, 1, 0, 5, 4, 3);
    EXPECT(slice_i(g, x, 1, 1, 3), 1, 2, 4, 5);
    EXPECT(slice_step(g, x, 1, 2, 2, -2), 2, 0, 5, 3);
    EXPECT(slice_step(g, x, 1, 2, 3, -1), 2, 1, 0, 5, 4, 3);
    EXPECT(pad_i(g, x, INTS(0, 1), INTS(0, -1), NULL), 0, 0, 1, 0, 3, 4);
    EXPECT(pad_i(g, x, INTS(1, 0), INTS(0, -2), scalar(g, DT_I32, 9)), 9, 0, 3);
    EXPECT(cat(g, (U[]){ x, slice_i(g, x, 0, 1, 2) }, 2, 0), 0, 1, 2, 3, 4, 5, 3, 4, 5);
    EXPECT(cat(g, (U[]){ x, x }, 2, 1), 0, 1, 2, 0, 1, 2, 3, 4, 5, 3, 4, 5);
    EXPECT(stack(g, (U[]){ x, x }, 2, -1), 0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5);
    EXPECT(tile(g, x, (U[]){ uop_index(g, 1), uop_index(g, 2) }), 0, 1, 2, 0, 1, 2, 3, 4, 5, 3, 4, 5);
    EXPECT(windows(g, COUNTING(DT_I32, 1, 7), 1, INTS(3), INTS(2), INTS(1)), 0, 1, 2, 2, 3, 4, 4, 5, 6);
    EXPECT(windows(g, COUNTING(DT_I32, 7), 1, INTS(2), INTS(3), INTS(3)), 0, 3, 3, 6);
    EXPECT(windows(g, COUNTING(DT_I32, 3, 3), 2, INTS(2, 2), INTS(1, 1), INTS(1, 1)), 0, 1, 3, 4, 1, 2, 4, 5, 3, 4, 6,
           7, 4, 5, 7, 8);
    EXPECT(squeeze(g, unsqueeze(g, x, 1), 1), 0, 1, 2, 3, 4, 5);
    assert_ptr_equal(squeeze(g, unsqueeze(g, x, 1), 1), x);
    assert_int_equal(uop_size(flatten(g, COUNTING(DT_I32, 2, 3, 4), 2), 0), 6);
}

static void integer_division(void **state)
{
    (void)state;
    U a = CONST_I64(4, 7, -7, 7, -7), b = CONST_I64(4, 2, 2, -2, -2);
    EXPECT(idiv(g, a, b), 3, -4, -4, 3);
    EXPECT(div_(g, a, b), 3, -3, -3, 3);
    EXPECT(mod_floor(g, a, b), 1, 1, -1, -1);
    EXPECT(mod_trunc(g, a, b), 1, -1, 1, -1);
    EXPECT(min_(g, scalar(g, DT_U8, 200), scalar(g, DT_U8, 100)), 100);
    EXPECT(min_(g, uop_int(g, DT_I32, INT32_MIN), scalar(g, DT_I32, 0)), INT32_MIN);
    EXPECT(pow_(g, CONST_I64(5, 2, -1, 1, 3, 0), CONST_I64(5, 10, -3, -5, -1, 0)), 1024, -1, 1, 0, 1);
}

static void floats(void **state)
{
    (void)state;
    U nan = scalar(g, DT_F32, NAN), one = scalar(g, DT_F32, 1);
    EXPECT(ge(g, nan, one), 0);
    EXPECT(le(g, nan, one), 0);
    EXPECT(ge(g, one, one), 1);
    EXPECT(is_nan(g, max_(g, nan, one)), 1);
    EXPECT(is_nan(g, min_(g, one, nan)), 1);
    EXPECT(is_nan(g, relu(g, nan)), 1);
    EXPECT(is_inf(g, scalar(g, DT_F16, -INFINITY)), 1);
    EXPECT(abs_(g, scalar(g, DT_BF16, -2.5)), 2.5);
    const float v[] = { -2.5f, -1.5f, -0.5f, 0.5f, 1.5f, 2.5f, 2.4f, -2.6f };
    U x = tensor_const(g, DT_F32, INTS(8), 1, v, sizeof v, NULL);
    EXPECT(round_even(g, x), -2, -2, 0, 0, 2, 2, 2, -3);
    EXPECT(floor_(g, x), -3, -2, -1, 0, 1, 2, 2, -3);
    EXPECT(ceil_(g, x), -2, -1, 0, 1, 2, 3, 3, -2);
    EXPECT(trunc_(g, x), -2, -1, 0, 0, 1, 2, 2, -2);
    EXPECT(sign(g, x), -1, -1, -1, 1, 1, 1, 1, -1);
    EXPECT(clamp(g, x, scalar(g, DT_F32, -1), scalar(g, DT_F32, 2)), -1, -1, -0.5, 0.5, 1.5, 2, 2, -1);
    EXPECT(cast(g, x, DT_BOOL), 1, 1, 1, 1, 1, 1, 1, 1);
    EXPECT(mod_trunc(g, x, one), -0.5, -0.5, -0.5, 0.5, 0.5, 0.5, (double)(2.4f - 2), (double)(-2.6f + 2));
}

static void reductions(void **state)
{
    (void)state;
    U x = COUNTING(DT_F32, 2, 3);
    EXPECT(sum(g, x, 1, false), 3, 12);
    EXPECT(max_reduce(g, x, 0, true), 3, 4, 5);
    EXPECT(min_reduce(g, x, -1, false), 0, 3);
    EXPECT(mean(g, x, INTS(0, 1), 2, false), 2.5);
    EXPECT(argmax(g, CONST_I64(5, 1, 4, 2, 4, 0), 0, false, false), 1);
    EXPECT(argmax(g, CONST_I64(5, 1, 4, 2, 4, 0), 0, true, true), 3);
    EXPECT(running(g, UOP_ADD, CONST_I64(4, 1, 2, 3, 4), 0, false, false), 1, 3, 6, 10);
    EXPECT(running(g, UOP_ADD, CONST_I64(4, 1, 2, 3, 4), 0, true, false), 0, 1, 3, 6);
    EXPECT(running(g, UOP_ADD, CONST_I64(4, 1, 2, 3, 4), 0, false, true), 10, 9, 7, 4);
    EXPECT(running(g, UOP_ADD, CONST_I64(4, 1, 2, 3, 4), 0, true, true), 9, 7, 4, 0);
    EXPECT(running(g, UOP_MUL, CONST_I64(4, 1, 2, 3, 4), 0, false, false), 1, 2, 6, 24);
    EXPECT(running(g, UOP_MUL, CONST_I64(4, 1, 2, 3, 4), 0, true, true), 24, 12, 4, 1);
    /* one block, whole ones of either length, rests */
    static const int64_t size[] = { 1, 24, 25, 40, 100, 203 };
    for (size_t s = 0; s < sizeof size / sizeof *size; s++)
        for (int form = 0; form < 4; form++) {
            int64_t n = size[s];
            double want[203], total = 0;
            for (int64_t k = 0; k < n; k++) {
                int64_t i = form & 2 ? n - 1 - k : k;
                want[i] = total + (form & 1 ? 0 : (double)i);
                total += (double)i;
            }
            expect(running(g, UOP_ADD, iota(g, uop_index(g, n), DT_I32), 0, form & 1, form & 2), n, want);
        }
    double sign[40];
    for (int i = 0; i < 40; i++) sign[i] = i & 1 ? 1 : -1;
    expect(running(g, UOP_MUL, expand(g, scalar(g, DT_I32, -1), (U[]){ uop_index(g, 40) }, 1), 0, false, false), 40,
           sign);
    EXPECT(tri_mask(g, uop_index(g, 2), uop_index(g, 3), 0, false), 1, 0, 0, 1, 1, 0);
    EXPECT(tri_mask(g, uop_index(g, 2), uop_index(g, 3), 1, true), 0, 1, 1, 0, 0, 1);
}

static void products(void **state)
{
    (void)state;
    U a = COUNTING(DT_F32, 2, 3), b = COUNTING(DT_F32, 3, 2), v = COUNTING(DT_F32, 3);
    EXPECT(matmul(g, a, b), 10, 13, 28, 40);
    EXPECT(matmul(g, a, v), 5, 14);
    EXPECT(matmul(g, v, b), 10, 13);
    EXPECT(matmul(g, v, v), 5);
    U x = COUNTING(DT_F32, 1, 1, 3, 3), w = COUNTING(DT_F32, 1, 1, 2, 2);
    EXPECT(conv(g, x, w, INTS(1, 1), INTS(1, 1), INTS(0, 0), INTS(0, 0), 1), 19, 25, 37, 43);
    EXPECT(conv(g, x, w, INTS(2, 2), INTS(1, 1), INTS(1, 1), INTS(0, 0), 1), 0, 8, 21, 43);
    U y = COUNTING(DT_F32, 1, 2, 3), u = COUNTING(DT_F32, 4, 1, 2);
    EXPECT(conv(g, y, u, INTS(1), INTS(1), INTS(0), INTS(0), 2), 1, 2, 3, 8, 32, 41, 46, 59);
}

static void gathering(void **state)
{
    (void)state;
    U x = COUNTING(DT_I32, 3, 2), i = CONST_I64(3, 2, 0, -1);
    EXPECT(gather(g, x, i, 0), 4, 5, 0, 1, 4, 5);
    EXPECT(gather(g, x, scalar(g, DT_I64, -1), 1), 1, 3, 5);
    EXPECT(gather(g, x, reshape_i(g, i, INTS(1, 3), 2), 0), 4, 5, 0, 1, 4, 5);
    EXPECT(gather_elements(g, x, reshape_i(g, CONST_I64(4, 1, 0, 0, -1), INTS(2, 2), 2), 1), 1, 0, 2, 3);
    EXPECT(gather_elements(g, x, reshape_i(g, CONST_I64(2, 2, -3), INTS(1, 2), 2), 0), 4, 1);
    EXPECT(gather_nd(g, x, reshape_i(g, CONST_I64(4, 0, 1, -1, 0), INTS(2, 2), 2), 0), 1, 4);
    EXPECT(gather_nd(g, x, reshape_i(g, CONST_I64(2, 1, 2), INTS(2, 1), 2), 0), 2, 3, 4, 5);
    EXPECT(gather_nd(g, x, reshape_i(g, CONST_I64(3, 1, 0, -1), INTS(3, 1), 2), 1), 1, 2, 5);
    EXPECT(one_hot(g, CONST_I64(2, 1, -1), uop_index(g, 3), -1, CONST_I64(2, 5, 9)), 5, 9, 5, 5, 5, 9);
    EXPECT(one_hot(g, CONST_I64(2, 1, -1), uop_index(g, 3), 0, CONST_I64(2, 5, 9)), 5, 5, 9, 5, 5, 9);
}

static void symbolic_sizes(void **state)
{
    (void)state;
    U n = uop_var(g, "n", 1, 64), dim[] = { n, uop_index(g, 3), uop_index(g, 8) }, v[8];
    U x = uop_param(g, DT_F32, dim, 3, 0);
    assert_ptr_equal(uop_dim(reshape(g, x, (U[]){ n, uop_index(g, 24) }, 2), 1), uop_index(g, 24));
    assert_ptr_equal(uop_dim(softmax(g, x, -1), 0), n);
    assert_ptr_equal(uop_dim(matmul(g, x, uop_param(g, DT_F32, (U[]){ uop_index(g, 8), uop_index(g, 5) }, 2, 1)), 0),
                     n);
    assert_ptr_equal(dim_div(g, dim_mul(g, n, uop_index(g, 24)), uop_index(g, 8)), dim_mul(g, uop_index(g, 3), n));
    assert_ptr_equal(dim_sub(g, dim_add(g, n, uop_index(g, 5)), n), uop_index(g, 5));
    U padded =
        pad(g, x, (U[]){ uop_index(g, 0), n, uop_index(g, 0) }, (U[]){ uop_index(g, 0), n, uop_index(g, 0) }, NULL);
    assert_ptr_equal(uop_dim(slice(g, padded, 1, n, uop_index(g, 3)), 1), uop_index(g, 3));
    U shape = cat(g, (U[]){ unsqueeze(g, cast(g, n, DT_I64), 0), CONST_I64(2, -1, 7) }, 2, 0);
    assert_true(values_of(g, shape, v, 8));
    assert_ptr_equal(cast(g, v[0], DT_INDEX)->op == UOP_CAST ? n : cast(g, v[0], DT_INDEX), n);
    assert_true(values_of(g, cast(g, gather(g, shape, scalar(g, DT_I64, 0), 0), DT_INDEX), v, 1));
    assert_ptr_equal(v[0], n);
    assert_false(values_of(g, slice_i(g, reshape(g, x, (U[]){ dim_mul(g, n, uop_index(g, 24)) }, 1), 0, 0, 1), v, 1));
    assert_int_equal(graph_error(g), TG_OK);
}

static void errors_pass_through(void **state)
{
    (void)state;
    U x = COUNTING(DT_F32, 2, 3), bad = add(g, x, COUNTING(DT_F32, 2));
    assert_int_equal(bad->op, UOP_ERROR);
    assert_int_equal(graph_error(g), TG_BAD_MODEL);
    assert_string_equal(tg_error(), "ADD: shapes [2,3] and [2] do not broadcast");
    assert_int_equal(softmax(g, conv(g, erf_(g, matmul(g, transpose(g, bad), x)), x, NULL, NULL, NULL, NULL, 1), 0)->op,
                     UOP_ERROR);
    assert_int_equal(where(g, lt(g, bad, x), gather(g, bad, x, 0), cat(g, &bad, 1, 0))->op, UOP_ERROR);
    assert_string_equal(tg_error(), "ADD: shapes [2,3] and [2] do not broadcast");
}

static void packs_values(void **state)
{
    (void)state;
    U v[12];
    size_t size;
    for (int i = 0; i < 12; i++) v[i] = scalar(g, DT_I64, i - 3);
    EXPECT(from_values(g, DT_I64, v, INTS(2, 2), 2), -3, -2, -1, 0);
    U x = from_values(g, DT_F16, v, INTS(12), 1);
    assert_int_equal(x->op, UOP_BUFFER);
    EXPECT(x, -3, -2, -1, 0, 1, 2, 3, 4, 5, 6, 7, 8);
    const uint16_t *h = data_of(g, add(g, x, x), 100, &size);
    assert_int_equal(size, 24);
    assert_int_equal(h[0], 0xc600);
    assert_int_equal(h[4], 0x4000);
}

/* What only data tell takes no room. */
static void packs_nothing(void **state)
{
    (void)state;
    size_t size;
    U x = uop_param(g, DT_BOOL, (U[]){ uop_index(g, 1 << 22) }, 1, 0);
    assert_null(data_of(g, x, 1 << 24, &size));
    assert_true(arena_bytes(graph_arena(g)) < 1 << 20);
}

/* Answers of the authors' own tests (Random123, threefry 2x32 of 20 rounds). */
static void threefry_answers(void **state)
{
    (void)state;
    static const uint32_t row[][6] = { { 0, 0, 0, 0, 0x6b200159, 0x99ba4efe },
                                       { UINT32_MAX, UINT32_MAX, UINT32_MAX, UINT32_MAX, 0x1cb996fc, 0xbb002be7 },
                                       { 0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344, 0xc4923a9c, 0x483df7a0 } };
    for (size_t k = 0; k < sizeof row / sizeof *row; k++) {
        U word[4];
        for (int i = 0; i < 4; i++) word[i] = uop_int(g, DT_U32, row[k][i]);
        threefry(g, word, word + 2);
        for (int i = 0; i < 2; i++) EXPECT(word[i], row[k][4 + i]);
    }
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(moves),          T(integer_division),    T(floats),       T(reductions),    T(products),        T(gathering),
        T(symbolic_sizes), T(errors_pass_through), T(packs_values), T(packs_nothing), T(threefry_answers)
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
