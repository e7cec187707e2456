/* bench/values.c and bench/compare.c: numbers of every type, and when outputs count as equal. */
#include "tests/test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bench/compare.h"
#include "bench/values.h"

static void half_precision_by_bits(void **state)
{
    (void)state;
    static const struct { TgType type; double v; uint16_t bits; double back; } rows[] = {
        { TG_F16, 1, 0x3c00, 1 }, { TG_F16, -2, 0xc000, -2 }, { TG_F16, 65504, 0x7bff, 65504 }, { TG_F16, 65519, 0x7bff, 65504 }, { TG_F16, 65520, 0x7c00, INFINITY },
        { TG_F16, 0x1p-24, 1, 0x1p-24 }, { TG_F16, 0x1p-25, 0, 0 }, { TG_F16, 0x1.8p-25, 1, 0x1p-24 }, { TG_F16, 0x1p-14, 0x0400, 0x1p-14 }, { TG_F16, 0x1.ff8p-15, 0x03ff, 0x1.ff8p-15 }, { TG_F16, 0x1.ffcp-15, 0x0400, 0x1p-14 },
        { TG_F16, 2049, 0x6800, 2048 }, { TG_F16, 2051, 0x6802, 2052 }, { TG_F16, -0.0, 0x8000, 0 }, { TG_F16, 0x1.ffep+0, 0x4000, 2 },
        { TG_BF16, 1, 0x3f80, 1 }, { TG_BF16, 1.00390625, 0x3f80, 1 }, { TG_BF16, 1.01171875, 0x3f82, 1.015625 }, { TG_BF16, -INFINITY, 0xff80, -INFINITY },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        uint16_t h;
        value_put(rows[i].type, &h, 0, rows[i].v);
        assert_int_equal(h, rows[i].bits);
        assert_true(value_get(rows[i].type, &h, 0) == rows[i].back);
    }
    for (uint32_t u = 0; u < 65536; u++) {              /* every half precision number comes back */
        uint16_t h = (uint16_t)u, again;
        double v = value_get(TG_F16, &h, 0);
        value_put(TG_F16, &again, 0, v);
        assert_true(isnan(v) ? isnan(value_get(TG_F16, &again, 0)) : again == h);
    }
}

static void integers_are_exact_and_clamp(void **state)
{
    (void)state;
    int64_t big;
    uint8_t flag;
    value_put_int(TG_I64, &big, 0, INT64_MAX);
    assert_int_equal(value_get_int(TG_I64, &big, 0), INT64_MAX);
    value_put(TG_I64, &big, 0, 1e300);
    assert_true(big > INT64_MAX - 4096);
    value_put(TG_BOOL, &flag, 0, 7);
    assert_int_equal(flag, 1);
    assert_int_equal(type_named("bf16", 4), TG_BF16);
    assert_int_equal(type_named("x", 1), 0);
}

static Args plain(void)
{
    Args a;
    char *argv[] = { (char[]){ "tgrun" }, NULL };
    assert_int_equal(args_parse(&a, PROGRAM_TGRUN, 1, argv), TG_OK);
    return a;
}

static Comparison compare(TgType type, const void *got, const void *want, int64_t n, Tolerance t)
{
    TgTensor g = { .type = type, .rank = 1, .shape = { n }, .data = (void *)(uintptr_t)got };
    Bound w = { .tensor = g };
    w.tensor.data = (void *)(uintptr_t)want;
    return compare_tensors(&g, &w, t);
}

static void floats_within_tolerance(void **state)
{
    (void)state;
    float want[4] = { 1, NAN, INFINITY, -2 }, same[4] = { 1, NAN, INFINITY, -2 }, near[4] = { 1.00005f, NAN, INFINITY, -2 }, wrong[4] = { 1, 0, -INFINITY, NAN };
    Tolerance t = { 1e-4, 0 };
    Comparison c = compare(TG_F32, same, want, 4, t);
    assert_true(c.ok && c.max_abs == 0 && c.ulp99 == 0 && c.not_finite == 2 && c.first == -1);
    c = compare(TG_F32, near, want, 4, t);
    assert_true(c.ok && c.max_abs > 4e-5 && c.ulp99 > 0);
    assert_false(compare(TG_F32, near, want, 4, (Tolerance){ 1e-5, 0 }).ok);
    c = compare(TG_F32, wrong, want, 4, (Tolerance){ 1e9, 1e9 });
    assert_true(!c.ok && c.outside == 3 && c.first == 1);
}

static void ulps_count_values_between(void **state)
{
    (void)state;
    float want[1] = { 1 }, next[1] = { nextafterf(1, 2) }, minus[1] = { -0x1p-149f }, plus[1] = { 0x1p-149f };
    assert_true(compare(TG_F32, next, want, 1, (Tolerance){ 1, 1 }).ulp99 == 1);
    assert_true(compare(TG_F32, minus, plus, 1, (Tolerance){ 1, 1 }).ulp99 == 2);
}

static void shapes_types_and_integers(void **state)
{
    (void)state;
    int64_t a[3] = { 1, 2, INT64_MAX }, b[3] = { 1, 3, INT64_MAX - 1 };
    Comparison c = compare(TG_I64, a, b, 3, (Tolerance){ 0, 0 });
    assert_true(!c.ok && c.outside == 2 && c.first == 1);
    TgTensor x = { .type = TG_I64, .rank = 1, .shape = { 3 }, .data = a };
    Bound y = { .tensor = { .type = TG_I64, .rank = 2, .shape = { 1, 3 }, .data = a } };
    c = compare_tensors(&x, &y, (Tolerance){ 0, 0 });
    assert_true(!c.ok && strstr(c.why, "i64[3]") && strstr(c.why, "i64[1,3]"));
    Bound none = { .tensor = { .type = TG_F32, .rank = 1, .shape = { 0 }, .data = a } };
    assert_true(compare_tensors(&none.tensor, &none, (Tolerance){ 0, 0 }).ok);
}

static void automatic_tolerances(void **state)
{
    (void)state;
    Args a = plain();
    float v[2] = { 3, 4 };
    Bound w = { .tensor = { .type = TG_F32, .rank = 1, .shape = { 2 }, .data = v } };
    TgPort x = { .name = "x" }, y = { .name = "y" }, coarse = { .name = "y", .step = 0.5 };
    Tolerance t = tolerance_for(&a, &y, &w);
    assert_true(t.rtol == 1e-4);
    assert_float_equal(t.atol, 5e-5 * sqrt(12.5), 1e-12);
    assert_float_equal(tolerance_for(&a, &coarse, &w).atol, 1.5, 1e-12);
    a.value[OPT_atol] = (ArgList){ 3, { "z:9", "0.5", "y:0.25" } };
    assert_true(tolerance_for(&a, &y, &w).atol == 0.25);
    assert_true(tolerance_for(&a, &x, &w).atol == 0.5);
    a = plain();
    a.value[OPT_tolerance] = (ArgList){ 1, { "standard" } };
    assert_true(tolerance_for(&a, &y, &w).atol == 1e-7);
    w.tensor.type = TG_I32;
    assert_true(tolerance_for(&a, &y, &w).rtol == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(half_precision_by_bits), cmocka_unit_test(integers_are_exact_and_clamp), cmocka_unit_test(floats_within_tolerance),
        cmocka_unit_test(ulps_count_values_between), cmocka_unit_test(shapes_types_and_integers), cmocka_unit_test(automatic_tolerances),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
