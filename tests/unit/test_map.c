/* graph/base/map: keys are bytes, values are replaced, order of insertion is kept. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <cmocka.h>
#include "graph/base/map.h"

static void keeps_order_and_replaces(void **state)
{
    (void)state;
    Arena *a = arena_new();
    Map m;
    map_init(&m, a);
    char key[32];
    for (int i = 0; i < 1000; i++) {
        snprintf(key, sizeof key, "key%d", i);
        map_puts(&m, key, (void *)(intptr_t)(i + 1));
    }
    map_puts(&m, "key7", (void *)(intptr_t)77);
    assert_int_equal(m.count, 1000);
    assert_int_equal((intptr_t)map_gets(&m, "key7"), 77);
    assert_int_equal((intptr_t)m.entry[999].value, 1000);
    assert_null(map_gets(&m, "key"));
    arena_free(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(keeps_order_and_replaces) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
