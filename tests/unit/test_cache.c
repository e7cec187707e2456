/* The cache folder: what was put is got; damage, a cut, foreign write permission and a missing folder are misses, never failures. */
#define _GNU_SOURCE
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "backends/cache.h"
#include "tests/test.h"

static char dir[64], file[128];

static void put_again(void)
{
    cache_put(dir, "kind", "key", "some bytes", 10);
    snprintf(file, sizeof file, "%s/kind/key", dir);
}

static bool hits(void)
{
    void *data;
    size_t size;
    bool hit = cache_get(&data, &size, dir, "kind", "key");
    if (hit) assert_int_equal(size, 10), assert_memory_equal(data, "some bytes", 10);
    free(data);
    return hit;
}

static void what_was_put(void **state)
{
    (void)state;
    struct stat st;
    assert_false(hits());
    put_again();
    assert_true(hits());
    assert_int_equal(stat(file, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    snprintf(file, sizeof file, "%s/kind", dir);
    assert_int_equal(stat(file, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0700);
}

static void damage_is_a_miss(void **state)
{
    (void)state;
    for (int at = 0; at < 42; at++) {
        put_again();
        FILE *f = fopen(file, "r+");
        fseek(f, at, SEEK_SET);
        int c = fgetc(f);
        fseek(f, at, SEEK_SET);
        fputc(c ^ 0x40, f);
        fclose(f);
        assert_false(hits());
    }
    put_again();
    assert_int_equal(truncate(file, 20), 0);
    assert_false(hits());
}

static void writable_by_others_is_a_miss(void **state)
{
    (void)state;
    put_again();
    assert_int_equal(chmod(file, 0666), 0);
    assert_false(hits());
    put_again();
    assert_true(hits());
    snprintf(file, sizeof file, "%s/kind", dir);
    assert_int_equal(chmod(file, 0777), 0);
    assert_false(hits());
    assert_int_equal(chmod(file, 0700), 0);
}

static void no_folder(void **state)
{
    (void)state;
    void *data;
    size_t size;
    cache_put(NULL, "kind", "key", "x", 1);
    cache_put("/proc/none", "kind", "key", "x", 1);
    assert_false(cache_get(&data, &size, NULL, "kind", "key"));
    assert_false(cache_get(&data, &size, "/proc/none", "kind", "key"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_put),
        cmocka_unit_test(damage_is_a_miss),
        cmocka_unit_test(writable_by_others_is_a_miss),
        cmocka_unit_test(no_folder),
    };
    strcpy(dir, "/tmp/tgrun-cache-XXXXXX");
    if (!mkdtemp(dir)) return 1;
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    snprintf(file, sizeof file, "rm -r %s", dir);
    return system(file) ? 1 : failed;
}
