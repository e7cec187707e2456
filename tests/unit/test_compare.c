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

/* Elements of 6, 4 and 2 bits: the first in the lowest bits, signed ones with their sign; neighbours are left alone. */
static void packed_types(void **state)
{
    (void)state;
    static const struct { TgType type; const char *name; int64_t least, most; size_t bytes; } rows[] = {
        { TG_I4, "i4", -8, 7, 3 }, { TG_U4, "u4", 0, 15, 3 }, { TG_I2, "i2", -2, 1, 2 }, { TG_U2, "u2", 0, 3, 2 }, { TG_F4E2M1, "f4e2m1", 0, 15, 3 }, { TG_F6E2M3, "f6e2m3", 0, 63, 4 }, { TG_F6E3M2, "f6e3m2", 0, 63, 4 },
    };
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
        TgTensor a, b;
        TgType t = rows[k].type;
        int64_t shape = 5, v[] = { rows[k].most, rows[k].least, 1, 0, rows[k].least };
        assert_int_equal(type_named(rows[k].name, strlen(rows[k].name)), t);
        assert_true(tensor_new(&a, t, &shape, 1) && tensor_new(&b, t, &shape, 1));
        assert_int_equal(a.size_bytes, rows[k].bytes);
        for (int64_t i = 4; i >= 0; i--)
            value_put_int(t, a.data, i, 0), value_put_int(t, a.data, i, v[i]), value_put_int(t, b.data, i, v[i]);
        for (int64_t i = 0; i < 5; i++) assert_int_equal(value_get_int(t, a.data, i), v[i]);
        ((uint8_t *)b.data)[rows[k].bytes - 1] ^= 0x80;         /* bits behind the last element do not count */
        assert_true(compare_tensors(&a, &(Bound){ .tensor = b }, (Tolerance){ 0, 0 }).ok);
        value_put_int(t, b.data, 3, 1);
        Comparison c = compare_tensors(&a, &(Bound){ .tensor = b }, (Tolerance){ 0, 0 });
        assert_true(!c.ok && c.outside == 1 && c.first == 3);
        tg_tensor_free(&a);
        tg_tensor_free(&b);
    }
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
    float want[4] = { 1, NAN, INFINITY, -2 }, same[4] = { 1, NAN, INFINITY, -2 },
          near[4] = { 1.00005f, NAN, INFINITY, -2 }, wrong[4] = { 1, 0, -INFINITY, NAN };
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

/* What holds tensors is equal when all of them are; an optional's element may stand alone. */
static void holders(void **state)
{
    (void)state;
    Args a = plain();
    TgPort y = { .name = "y", .type = TG_SEQUENCE };
    float v[] = { 1, 2, 3 }, w[] = { 1, 2, 4 };
    TgTensor x = { .type = TG_F32, .rank = 1, .shape = { 3 }, .data = v, .size_bytes = sizeof v }, other = x,
             shorter = x;
    other.data = w;
    shorter.shape[0] = 2;
    TgTensor good[] = { x, x }, bad[] = { x, other }, form[] = { x, shorter },
             got = { .type = TG_SEQUENCE, .rank = 1, .shape = { 2 }, .data = good };
    Bound want = { .tensor = got }, element = { .tensor = x };
    assert_true(compare_output(&a, &y, &got, &want).ok);
    got.data = bad;
    Comparison c = compare_output(&a, &y, &got, &want);
    assert_true(!c.ok && c.first == 1 && c.outside == 1 && c.numel == 6 && c.max_abs == 1 && !*c.why);
    got.data = form;
    c = compare_output(&a, &y, &got, &want);
    assert_string_equal(c.why, "[1] is f32[2], expected f32[3]");
    got.shape[0] = 1;
    c = compare_output(&a, &y, &got, &want);
    assert_string_equal(c.why, "is seq[1](f32[3]), expected seq[2](f32[3],f32[3])");
    got.type = TG_OPTIONAL;
    assert_true(compare_output(&a, &y, &got, &element).ok && !compare_output(&a, &y, &x, &(Bound){ .tensor = got }).ok);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(half_precision_by_bits),
        cmocka_unit_test(integers_are_exact_and_clamp),
        cmocka_unit_test(packed_types),
        cmocka_unit_test(floats_within_tolerance),
        cmocka_unit_test(ulps_count_values_between),
        cmocka_unit_test(shapes_types_and_integers),
        cmocka_unit_test(holders),
        cmocka_unit_test(automatic_tolerances),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
