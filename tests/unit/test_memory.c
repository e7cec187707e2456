/* What stays in memory of the files that a model and its test data are: the kernel's own account of this process's mappings, /proc/self/smaps, tells. */
#define _GNU_SOURCE
#include "tests/test.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench/compare.h"

static char folder[] = "/tmp/tgrun-memory-XXXXXX";

static int setup(void **state)
{
    (void)state;
    return !mkdtemp(folder) || chdir(folder);
}

static int teardown(void **state)
{
    (void)state;
    char command[100];
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    return chdir("/") || system(command);
}

/* KiB that are in memory of the mappings of files of that name; -1: none is mapped. */
static long resident_kib(const char *name)
{
    char line[512];
    long kib = -1, part;
    bool ours = false;
    FILE *f = fopen("/proc/self/smaps", "r");
    assert_non_null(f);
    while (fgets(line, sizeof line, f))
        if (strchr(line, '-') && strchr(line, '-') < strchr(line, ' ')) ours = strstr(line, name) != NULL;
        else if (ours && sscanf(line, "Rss: %ld", &part) == 1) kib = (kib < 0 ? 0 : kib) + part;
    fclose(f);
    return kib;
}

/* An expectation is looked at where it lies, a part at a time. */
static void expectation(void **state)
{
    (void)state;
    enum { COUNT = 3 << 20 };
    float *v = malloc(COUNT * sizeof *v);
    for (int i = 0; i < COUNT; i++) v[i] = (float)(i % 1000);
    TgTensor t = { .type = TG_F32, .rank = 1, .shape = { COUNT }, .data = v, .size_bytes = COUNT * sizeof *v };
    Bound b = { .known = false };
    assert_int_equal(tg_tensor_write(&t, "", "want.npy"), TG_OK);
    assert_int_equal(expected_file(&b, "want.npy", TG_F32), TG_OK);
    assert_true(b.known && b.mapped && resident_kib("/want.npy") <= 4096);
    v[COUNT - 5] = -1;
    Comparison c = compare_tensors(&t, &b, (Tolerance){ 0, 0 });
    assert_true(!c.ok && c.outside == 1 && c.first == COUNT - 5 && c.max_abs == (COUNT - 5) % 1000 + 1);
    assert_true(resident_kib("/want.npy") <= 4096);
    bound_clear(&b);
    assert_int_equal(resident_kib("/want.npy"), -1);
    free(v);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(expectation) };
    return cmocka_run_group_tests(tests, setup, teardown);
}
