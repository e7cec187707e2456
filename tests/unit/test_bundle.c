/* A compiled model's file: what was put comes back, whatever was damaged is refused; and a model in it that another
 * processor or another build compiled is refused too. */
#include "tests/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "backends/bundle.h"
#include "tests/pbtext.h"
#include "tgrun.h"

static char folder[] = "/tmp/tgrun-bundle.XXXXXX", path[64], other[64], model[64];

static int make_folder(void **state)
{
    (void)state;
    if (!mkdtemp(folder)) return -1;
    snprintf(path, sizeof path, "%s/a.tgc", folder);
    snprintf(other, sizeof other, "%s/b.tgc", folder);
    snprintf(model, sizeof model, "%s/m.onnx", folder);
    return 0;
}

static int remove_folder(void **state)
{
    (void)state;
    remove(path);
    remove(other);
    remove(model);
    return rmdir(folder);
}

static void write_file(const char *to, const void *data, size_t size)
{
    FILE *f = fopen(to, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(data, 1, size, f), size);
    fclose(f);
}

static char *read_file(const char *from, size_t *size)
{
    FILE *f = fopen(from, "rb");
    assert_non_null(f);
    fseek(f, 0, SEEK_END);
    *size = (size_t)ftell(f);
    rewind(f);
    char *data = malloc(*size + 1);
    assert_int_equal(fread(data, 1, *size, f), *size);
    fclose(f);
    return data;
}

static void write_two(void)
{
    BundleWriter *w;
    assert_int_equal(bundle_begin(&w, path), TG_OK);
    assert_int_equal(bundle_put(w, "one", "first", 5), TG_OK);
    assert_int_equal(bundle_put(w, "file/two", "second", 6), TG_OK);
    assert_int_equal(bundle_put(w, "none", "", 0), TG_OK);
    assert_true(access(path, F_OK));                    /* there whole or not at all */
    assert_int_equal(bundle_end(w, TG_OK), TG_OK);
}

/* Are the pieces those that write_two puts there, as far as they are given out? */
static bool is_right(const Bundle *b)
{
    Piece p;
    bool right = bundle_get(b, &p, "one") != TG_OK || (p.size == 5 && !memcmp(p.data, "first", 5));
    return right && (bundle_get(b, &p, "file/two") != TG_OK || (p.size == 6 && !memcmp(p.data, "second", 6)));
}

static void round_trip(void **state)
{
    (void)state;
    Bundle *b;
    Piece p;
    size_t size;
    write_two();
    assert_true(bundle_is(path));
    assert_int_equal(bundle_open(&b, path), TG_OK);
    assert_int_equal(bundle_get(b, &p, "one"), TG_OK);
    assert_true(is_right(b));
    assert_int_equal(bundle_get(b, &p, "none"), TG_OK);
    assert_int_equal(p.size, 0);
    assert_int_equal(bundle_get(b, &p, "three"), TG_BAD_MODEL);
    assert_string_equal(bundle_name(b, "file/", 0), "two");
    assert_null(bundle_name(b, "file/", 1));
    char *copy = bundle_map(b, "one", &size);
    assert_int_equal(size, 5);
    copy[0] = 'F';                                      /* the file stays as it is */
    assert_true(is_right(b));
    munmap(copy, size);
    bundle_close(b);
    BundleWriter *w;
    remove(path);
    assert_int_equal(bundle_begin(&w, path), TG_OK);
    assert_int_equal(bundle_end(w, TG_LIMIT), TG_LIMIT);
    assert_true(access(path, F_OK));
}

/* Every length, and every byte of head, pieces and table changed. */
static void damaged(void **state)
{
    (void)state;
    Bundle *b;
    size_t size;
    write_two();
    char *data = read_file(path, &size);
    for (size_t n = 0; n < size; n += n < 200 || n + 200 > size ? 1 : 97) {
        write_file(other, data, n);
        assert_int_not_equal(bundle_open(&b, other), TG_OK);
    }
    for (size_t at = 0; at < size; at++) {
        bool near = at < 64 || (at & 4095) < 16 || at >= 16384;
        if (!near) continue;
        data[at] ^= 0x55;
        write_file(other, data, size);
        if (bundle_open(&b, other) == TG_OK) {
            assert_true(is_right(b));
            bundle_close(b);
        }
        data[at] ^= 0x55;
    }
    free(data);
}

/* y = x + x with x f32[3], compiled. */
static void save_model(void)
{
    static const char twice[] = "1:8 8{2:13} 7{1{1:'x' 1:'x' 2:'y' 3:'plus' 4:'Add'} 11{1:'x' 2{1{1:1 2{1{1:3}}}}} "
                                "12{1:'y' 2{1{1:1 2{1{1:3}}}}}}";
    Text bytes = pb_text(twice);
    TgOptions o;
    TgSession *s;
    float data[3] = { 1, 2, 3 };
    TgTensor x = { .type = TG_F32, .rank = 1, .shape = { 3 }, .data = data, .size_bytes = sizeof data };
    write_file(model, bytes.s, bytes.len);
    text_free(&bytes);
    tg_options_default(&o);
    o.device = "cpu";
    o.no_cache = 1;
    assert_int_equal(tg_open(&s, model, &o), TG_OK);
    assert_int_equal(tg_save(s, path), TG_USAGE);        /* nothing is prepared */
    assert_int_equal(tg_prepare(s, &x, 1), TG_OK);
    assert_int_equal(tg_save(s, path), TG_OK);
    tg_close(s);
}

/* What a run of the compiled model returns; its result must be right. */
static TgStatus run_model(const char *file)
{
    TgOptions o;
    TgSession *s = NULL;
    float data[3] = { 4, 5, 6 };
    TgTensor x = { .type = TG_F32, .rank = 1, .shape = { 3 }, .data = data, .size_bytes = sizeof data }, y;
    tg_options_default(&o);
    o.no_cache = 1;
    TgStatus status = tg_open(&s, file, &o);
    if (status == TG_OK) status = tg_run(s, &x, 1, &y);
    if (status == TG_OK)
        for (int k = 0; k < 3; k++) assert_true(((const float *)y.data)[k] == 2 * data[k]);
    tg_close(s);
    return status;
}

/* The compiled model with one piece replaced, or (data NULL) without it. */
static void replace(const char *name, const void *data, size_t size)
{
    Bundle *b;
    BundleWriter *w;
    Piece p;
    assert_int_equal(bundle_open(&b, path), TG_OK);
    assert_int_equal(bundle_begin(&w, other), TG_OK);
    for (size_t k = 0; bundle_name(b, "", k); k++) {
        const char *at = bundle_name(b, "", k);
        bool this = !strcmp(at, name);
        if (this && !data) continue;
        assert_int_equal(bundle_get(b, &p, at), TG_OK);
        assert_int_equal(bundle_put(w, at, this ? data : p.data, this ? size : p.size), TG_OK);
    }
    assert_int_equal(bundle_end(w, TG_OK), TG_OK);
    bundle_close(b);
}

/* A copy of a piece with some bytes changed. */
static void change(const char *name, size_t at, const void *bytes, size_t n)
{
    Bundle *b;
    Piece p;
    assert_int_equal(bundle_open(&b, path), TG_OK);
    assert_int_equal(bundle_get(b, &p, name), TG_OK);
    char *copy = malloc(p.size + 1);
    memcpy(copy, p.data, p.size);
    assert_true(at + n <= p.size);
    memcpy(copy + at, bytes, n);
    replace(name, copy, p.size);
    free(copy);
    bundle_close(b);
}

static void other_machines(void **state)
{
    (void)state;
    static const char all[16] = { -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1 };
    save_model();
    assert_int_equal(run_model(path), TG_OK);
    change("cpu/identity", 16, all, 16);                /* features that no processor has together */
    assert_int_equal(run_model(other), TG_DEVICE);
    assert_non_null(strstr(tg_error(), "compile it again here"));
    replace("program", "another build's", 15);          /* which imports and schedules again */
    assert_int_equal(run_model(other), TG_OK);
    assert_int_equal(rename(other, path), 0);
    change("cpu/identity", 0, "another", 8);            /* another compiler's kernels have other names */
    assert_int_equal(run_model(other), TG_BAD_MODEL);
    change("about", 0, "0.0.9", 6);
    assert_int_equal(run_model(other), TG_BAD_MODEL);
    assert_non_null(strstr(tg_error(), "0.0.9"));
}

static void missing_pieces(void **state)
{
    (void)state;
    static const char *const name[] = { "about",      "target",       "input/0",    "opts",
                                        "model",      "cpu/identity", "cpu/code/0", "cpu/memory" };
    save_model();
    for (size_t k = 0; k < sizeof name / sizeof *name; k++) {
        replace(name[k], NULL, 0);
        assert_int_equal(run_model(other), TG_BAD_MODEL);
        replace(name[k], "", 0);
        assert_int_not_equal(run_model(other), TG_OK);
    }
    replace("cpu/kernels", NULL, 0);                    /* then the kernels' text names them */
    assert_int_equal(run_model(other), TG_OK);
    replace("opts", "x: nonsense", 12);                 /* a list that is none: kernels without code */
    TgStatus status = run_model(other);
    assert_true(status == TG_USAGE || status == TG_BAD_MODEL || status == TG_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(round_trip),
        cmocka_unit_test(damaged),
        cmocka_unit_test(other_machines),
        cmocka_unit_test(missing_pieces),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
