/* What stays in memory of the files that a model and its test data are: the kernel's own account of this process's
 * mappings, /proc/self/smaps, tells. */
#define _GNU_SOURCE
#include "tests/test.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench/compare.h"
#include "tests/pbtext.h"

enum { N = 1024, ROWS = 16384 };
static char folder[] = "/tmp/tgrun-memory-XXXXXX";

/* y = x w + b, z = row i of a table of 64 MiB. */
#define EXTERNAL(file, offset) "14:1 13{1:'location' 2:'" file "'} 13{1:'offset' 2:'" #offset "'}"
static const char model[] =
    "1:8 8{2:13} 7{1{1:'x' 1:'w' 2:'p' 4:'MatMul'} 1{1:'p' 1:'b' 2:'y' 4:'Add'} 1{1:'t' 1:'i' 2:'z' 4:'Gather'}"
    " 5{8:'w' 1:1024 1:1024 2:1 " EXTERNAL("matrix", 0) "} 5{8:'b' 1:1024 2:1 " EXTERNAL(
        "vector",
        4096) "} 5{8:'t' 1:16384 1:1024 2:1 " EXTERNAL("table",
                                                       0) "}"
                                                          " 11{1:'x' 2{1{1:1 2{1{1:16} 1{1:1024}}}}} 11{1:'i' 2{1{1:7 "
                                                          "2{1{1:1}}}}} 12{1:'y' 2{1{1:1}}} 12{1:'z' 2{1{1:1}}}}";

static int setup(void **state)
{
    (void)state;
    return !mkdtemp(folder) || chdir(folder);
}

static int teardown(void **state)
{
    (void)state;
    return chdir("/") || remove_tree(folder);
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

static void write_zeros(const char *name, off_t size)
{
    FILE *f = fopen(name, "wb");
    assert_true(f && !ftruncate(fileno(f), size));
    fclose(f);
}

static void write_model(void)
{
    Text bytes = pb_text(model);
    FILE *f = fopen("m.onnx", "wb");
    assert_true(f && fwrite(bytes.s, 1, bytes.len, f) == bytes.len);
    fclose(f);
    text_free(&bytes);
    write_zeros("matrix", N * N * 4);
    write_zeros("vector", 4096 + N * 4);
    write_zeros("table", (off_t)ROWS * N * 4);
}

/* A matrix is packed and leaves; small ones are copied, so that nothing around them stays; of a table only the rows
 * that are looked up come. */
static void weights(void **state)
{
    (void)state;
    static float x[16 * N];
    int64_t row = 77;
    TgSession *s;
    TgOptions o;
    TgTensor in[2] = { { .type = TG_F32, .rank = 2, .shape = { 16, N }, .data = x, .size_bytes = sizeof x },
                       { .type = TG_I64, .rank = 1, .shape = { 1 }, .data = &row, .size_bytes = 8 } },
             out[2];
    write_model();
    tg_options_default(&o);
    o.device = "cpu";
    o.no_cache = 1;
    assert_int_equal(tg_open(&s, "m.onnx", &o), TG_OK);
    assert_int_equal(tg_run(s, in, 2, out), TG_OK);
    assert_int_equal(resident_kib("/matrix"), 0);
    assert_int_equal(resident_kib("/vector"), 0);
    /* the system maps up to 2 MiB around what is touched */
    assert_true(resident_kib("/table") > 0 && resident_kib("/table") <= 4096);
    tg_close(s);
    assert_int_equal(resident_kib("/table"), -1);
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
    assert_int_equal(expected_file(&b, "want.npy", &(TgPort){ .type = TG_F32 }), TG_OK);
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
    const struct CMUnitTest tests[] = { cmocka_unit_test(weights), cmocka_unit_test(expectation) };
    return cmocka_run_group_tests(tests, setup, teardown);
}
