/* What a core and its memory do (cpu/rates.c): measured once a cache folder, typical without one. */
#include <stdlib.h>
#include <string.h>

#include "backends/backend.h"
#include "tests/test.h"

static Rates rates_with(const char *folder)
{
    Device *d = NULL;
    assert_int_equal(backend_cpu.open(&d, &(DeviceOptions){ .threads = 1, .cache_dir = folder }), TG_OK);
    backend_cpu.measure(d);
    Rates r = *target_rates(backend_cpu.target(d));
    backend_cpu.close(d);
    return r;
}

static void without_a_folder_they_are_typical(void **state)
{
    (void)state;
    Rates r = rates_with(NULL);
    assert_int_equal(r.measured, 0);
    assert_true(r.hz == typical_cpu.hz && r.memory_rate == typical_cpu.memory_rate);
}

static void a_folder_keeps_them(void **state)
{
    (void)state;
    char folder[] = "/tmp/tgrun_rates_XXXXXX";
    assert_non_null(mkdtemp(folder));
    Rates first = rates_with(folder), then = rates_with(folder);
    assert_memory_equal(&first, &then, sizeof first);
    print_message("[ INFO     ] measured %d: %.3g GHz, %g products, %g loads, %g stores a cycle, "
                  "%g and %g bytes a cycle, %.3g GB/s, %.3g ns a phase\n", first.measured == 1, first.hz / 1e9, first.fma, first.load, first.store,
                  first.l2_rate, first.l3_rate, first.memory_rate / 1e9, first.phase_s * 1e9);
#ifdef __x86_64__
    assert_int_equal(first.measured, 1);
#endif
    /* what an emulator of another processor gives is not credible */
    if (!first.measured) assert_true(first.hz == typical_cpu.hz && first.l3_rate == typical_cpu.l3_rate);
    assert_true(first.hz > 2e8 && first.hz < 1e10);
    assert_true(first.fma >= 0.25 && first.fma <= 8 && first.load >= 0.25 && first.load <= 8);
    assert_true(first.l3_rate <= 4 * first.l2_rate);
    assert_int_equal(remove_tree(folder), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(without_a_folder_they_are_typical),
                                        cmocka_unit_test(a_folder_keeps_them) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
