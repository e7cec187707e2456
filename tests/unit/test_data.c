/* Constants in the caller's memory (TgOptions.data): an initializer's, whatever its file says, and files that are not
 * there; the session's digest has them, so that no cache takes one for another; what is no entry is refused. */
#include "tests/test.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/pbtext.h"
#include "tgrun.h"

/* y = x + w, x f32[2], w f32[2], whose data are in w.bin */
static const char text[] = "1:8 8{2:13} 7{1{1:'x' 1:'w' 2:'y' 4:'Add'} "
                           "5{1:2 2:1 8:'w' 13{1:'location' 2:'w.bin'} 14:1} "
                           "11{1:'x' 2{1{1:1 2{1{1:2}}}}} 12{1:'y' 2{1{1:1}}}}";
static Text bytes;
static char folder[] = "/tmp/tg_data_XXXXXX";

static TgTensor pair(const float *v)
{
    return (TgTensor){ .type = TG_F32, .rank = 1, .shape = { 2 }, .data = (void *)v, .size_bytes = 8 };
}

static TgStatus open_with(TgSession **s, const TgData *data, int64_t n)
{
    TgOptions o;
    tg_options_default(&o);
    o.device = "cpu", o.cache_dir = folder, o.threads = 1, o.data = data, o.data_count = n;
    *s = NULL;
    return tg_open_memory(s, bytes.s, bytes.len, NULL, &o);
}

static void sums(TgSession *s, float a, float b)
{
    const float x[] = { 1, 2 };
    TgTensor in = pair(x), y;
    assert_int_equal(tg_run(s, &in, 1, &y), TG_OK);
    assert_true(((float *)y.data)[0] == a && ((float *)y.data)[1] == b);
}

static void taken(void **state)
{
    (void)state;
    _Alignas(16) char odd[16];
    const float v[] = { 10, 20 }, other[] = { 30, 40 };
    memcpy(odd + 1, other, 8);
    const TgData named[] = { { .initializer = "w", .value = pair(v) },
                             { .initializer = "w", .value = pair((const float *)(void *)(odd + 1)) },
                             { .file = "w.bin", .value = pair(v) } };
    TgSession *s[3], *shared;
    TgInfo info[3];
    for (int k = 0; k < 6; k++) {               /* the second time from the cache */
        int i = k % 3;
        assert_int_equal(open_with(&s[i], &named[i], 1), TG_OK);
        sums(s[i], i == 1 ? 31 : 11, i == 1 ? 42 : 22);
        assert_int_equal(tg_info(s[i], &info[i]), TG_OK);
        assert_int_equal(tg_share(&shared, s[i], NULL), TG_OK);
        sums(shared, i == 1 ? 31 : 11, i == 1 ? 42 : 22);
        tg_close(shared);
        tg_close(s[i]);
    }
    assert_string_not_equal(info[0].model_hash, info[1].model_hash);
    assert_string_not_equal(info[0].model_hash, info[2].model_hash);
    assert_int_equal(open_with(&s[0], NULL, 0), TG_BAD_MODEL);
}

/* Files are known by when the model reads them, whatever order they are given in. */
static void in_any_order(void **state)
{
    (void)state;
    const float v[] = { 10, 20 }, w[] = { 1, 3 };
    const TgData given[2][2] = { { { .file = "a.bin", .value = pair(v) }, { .file = "b.bin", .value = pair(w) } },
                                 { { .file = "b.bin", .value = pair(w) }, { .file = "a.bin", .value = pair(v) } } };
    const Text one = bytes;
    bytes = pb_text("1:8 8{2:13} 7{1{1:'x' 1:'w' 2:'z' 4:'Mul'} 1{1:'z' 1:'v' 2:'y' 4:'Add'} "
                    "5{1:2 2:1 8:'w' 13{1:'location' 2:'b.bin'} 14:1} 5{1:2 2:1 8:'v' 13{1:'location' 2:'a.bin'} 14:1} "
                    "11{1:'x' 2{1{1:1 2{1{1:2}}}}} 12{1:'y' 2{1{1:1}}}}");
    for (int k = 0; k < 4; k++) {
        TgSession *s;
        assert_int_equal(open_with(&s, given[k & 1], 2), TG_OK);
        sums(s, 11, 26);
        tg_close(s);
    }
    text_free(&bytes);
    bytes = one;
}

static void refused(void **state)
{
    (void)state;
    const float v[] = { 10, 20 };
    TgTensor wrong = pair(v), empty = pair(NULL);
    wrong.type = TG_I32;
    const struct { TgStatus status; const char *said; TgData data[2]; } rows[] = {
        { TG_USAGE, "data 0: either initializer or file is named", { { .value = pair(v) } } },
        { TG_USAGE, "either", { { .initializer = "w", .file = "w.bin", .value = pair(v) } } },
        { TG_USAGE, "data 0: file '/w.bin' is no external", { { .file = "/w.bin", .value = pair(v) } } },
        { TG_USAGE, "its value has no data", { { .initializer = "w", .value = empty } } },
        { TG_USAGE, "data: a field is set that this library", { { .initializer = "w", .value = pair(v), .reserved = { 1 } } } },
        { TG_USAGE, "data 1: 'w' is given twice",
          { { .initializer = "w", .value = pair(v) }, { .initializer = "w", .value = pair(v) } } },
        { TG_BAD_INPUT, "f32; i32 is given", { { .initializer = "w", .value = wrong } } },
        { TG_BAD_INPUT, "other: data: the model has no such initializer",
          { { .initializer = "w", .value = pair(v) }, { .initializer = "other", .value = pair(v) } } },
        { TG_BAD_INPUT, "other.bin: data: the model reads no such file",
          { { .file = "w.bin", .value = pair(v) }, { .file = "other.bin", .value = pair(v) } } },
    };
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
        TgSession *s;
        const TgData *second = &rows[k].data[1];
        assert_int_equal(open_with(&s, rows[k].data, second->initializer || second->file ? 2 : 1), rows[k].status);
        if (!strstr(tg_error(), rows[k].said)) print_error("'%s' is not in '%s'\n", rows[k].said, tg_error());
        assert_non_null(strstr(tg_error(), rows[k].said));
    }
}

static int make(void **state)
{
    (void)state;
    bytes = pb_text(text);
    return mkdtemp(folder) ? 0 : 1;
}

static int end(void **state)
{
    (void)state;
    text_free(&bytes);
    char command[64];
    snprintf(command, sizeof command, "rm -r %s", folder);
    return system(command);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(taken), cmocka_unit_test(in_any_order),
                                        cmocka_unit_test(refused) };
    return cmocka_run_group_tests(tests, make, end);
}
