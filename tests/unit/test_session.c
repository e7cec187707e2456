/* The public API: sessions, programs for several shapes, values on which shapes depend, errors. The model files are
 * made here (tests/pbtext.h has the notation). */
#include "tests/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/pbtext.h"
#include "tgrun.h"

/* y = x + x with x f32[n];   r = Reshape(x, shape) with shape i64[2]: its value is part of the program */
#define DIM_N "2{1{1:1 2{1{2:'n'}}}}"
static const char twice[] =
    "1:8 8{2:13} 7{1{1:'x' 1:'x' 2:'y' 3:'plus' 4:'Add'} 11{1:'x' " DIM_N "} 12{1:'y' " DIM_N "}}";
static const char shaped[] = "1:8 8{2:13} 7{1{1:'x' 1:'shape' 2:'y' 4:'Reshape'} 11{1:'x' " DIM_N
                             "} 11{1:'shape' 2{1{1:7 2{1{1:2}}}}} 12{1:'y' 2{1{1:1}}}}";

static char folder[] = "/tmp/tgrun-session.XXXXXX", path[64];

static int make_folder(void **state)
{
    (void)state;
    return mkdtemp(folder) ? snprintf(path, sizeof path, "%s/m.onnx", folder) < 0 : -1;
}

static int remove_folder(void **state)
{
    (void)state;
    remove(path);
    return rmdir(folder);
}

static void write_model(const char *text)
{
    Text bytes = pb_text(text);
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes.s, 1, bytes.len, f), bytes.len);
    fclose(f);
    text_free(&bytes);
}

static TgOptions options_of(const char *device)
{
    TgOptions o;
    tg_options_default(&o);
    o.device = device;
    o.no_cache = 1;
    return o;
}

static TgSession *open_text(const char *text, const char *device)
{
    TgOptions o = options_of(device);
    TgSession *s = NULL;
    write_model(text);
    assert_int_equal(tg_open(&s, path, &o), TG_OK);
    return s;
}

static TgTensor vector(float *data, int64_t n)
{
    for (int64_t i = 0; i < n; i++) data[i] = (float)(i + n);
    return (
        TgTensor){ .type = TG_F32, .rank = 1, .shape = { n }, .data = data, .size_bytes = sizeof *data * (size_t)n };
}

/* More shapes than a session keeps, some again: each run has its own sizes and values. */
static void many_shapes(void **state)
{
    (void)state;
    static const int64_t sizes[] = { 5, 1, 7, 5, 11, 13, 0, 2, 3, 4, 6, 8, 5, 1, 11 };
    TgSession *s = open_text(twice, "reference");
    float data[16];
    for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
        TgTensor x = vector(data, sizes[k]), y;
        assert_int_equal(tg_prepare(s, &x, 1), TG_OK);
        assert_int_equal(tg_run(s, &x, 1, &y), TG_OK);
        assert_true(y.type == TG_F32 && y.rank == 1 && y.shape[0] == sizes[k] && y.size_bytes == 4 * (size_t)sizes[k]);
        for (int64_t i = 0; i < sizes[k]; i++) assert_true(((float *)y.data)[i] == 2 * data[i]);
    }
    tg_close(s);
}

/* The first size is built in, the second makes it a variable; what was requested as a range is kept to it. */
static void sizes_that_vary(void **state)
{
    (void)state;
    TgOptions o = options_of("reference");
    TgSession *s;
    float data[100];
    TgTensor x = vector(data, 8), more = vector(data, 9), y;
    write_model(twice);
    o.dims = "m=1..8";
    assert_int_equal(tg_open(&s, path, &o), TG_USAGE);
    o.dims = "n=1..8,";
    assert_int_equal(tg_open(&s, path, &o), TG_OK);
    assert_int_equal(tg_run(s, &x, 1, &y), TG_OK);
    assert_int_equal(y.shape[0], 8);
    assert_int_equal(tg_run(s, &more, 1, &y), TG_BAD_INPUT);
    assert_non_null(strstr(tg_error(), "input 'x': axis 0 (n) is 9; 1..8 is wanted"));
    x = vector(data, 0);
    assert_int_equal(tg_run(s, &x, 1, &y), TG_BAD_INPUT);
    tg_close(s);
}

static void values_that_shapes_depend_on(void **state)
{
    (void)state;
    static const int64_t shapes[][2] = { { 2, 3 }, { 3, 2 }, { 6, -1 }, { 2, 3 } };
    TgSession *s = open_text(shaped, "reference");
    float data[6];
    for (size_t k = 0; k < 4; k++) {
        TgTensor in[2] = { vector(data, 6),
                           { .type = TG_I64,
                             .rank = 1,
                             .shape = { 2 },
                             .data = (void *)(uintptr_t)shapes[k],
                             .size_bytes = 16 } },
                 y;
        assert_int_equal(tg_run(s, in, 2, &y), TG_OK);
        assert_int_equal(y.rank, 2);
        assert_int_equal(y.shape[0], shapes[k][0]);
        assert_int_equal(y.shape[0] * y.shape[1], 6);
        assert_memory_equal(y.data, data, sizeof data);
    }
    tg_close(s);
}

static void wrong_calls(void **state)
{
    (void)state;
    TgSession *s = open_text(twice, "reference");
    float data[4];
    TgTensor x = vector(data, 4), bad = x, y;
    TgPort p;
    assert_int_equal(tg_run(s, &x, 0, &y), TG_BAD_INPUT);
    assert_int_equal(tg_run(s, &x, -1, &y), TG_BAD_INPUT);
    assert_int_equal(tg_run(s, &x, INT32_MAX, &y), TG_BAD_INPUT);
    bad.type = TG_I64;
    assert_int_equal(tg_run(s, &bad, 1, &y), TG_BAD_INPUT);
    assert_non_null(strstr(tg_error(), "input 'x' is i64; f32 is wanted"));
    bad = x;
    bad.rank = 2;
    assert_int_equal(tg_run(s, &bad, 1, &y), TG_BAD_INPUT);
    bad = x;
    bad.shape[0] = INT64_MAX;
    assert_int_equal(tg_prepare(s, &bad, 1), TG_BAD_INPUT);
    assert_int_equal(tg_input(s, 1, &p), TG_USAGE);
    assert_int_equal(tg_input(s, 0, &p), TG_OK);
    assert_true(p.shape[0] == -1 && !strcmp(p.symbol[0], "n"));
    assert_int_equal(tg_run(s, &x, 1, &y), TG_OK);      /* still good after all of that */
    tg_close(s);
}

/* A program that was compiled with this header works with later libraries, since they fill no more than it has room
 * for: new fields take the place of reserved ones. */
static void structs_keep_their_sizes(void **state)
{
    (void)state;
    const size_t size[] = { sizeof(TgPort),  sizeof(TgOptions), sizeof(TgInfo),    sizeof(TgMemory),
                            sizeof(TgModel), sizeof(TgNode),    sizeof(TgExtract), sizeof(TgNodeTime) },
                 released[] = { 384, 392, 856, 88, 192, 112, 104, 120 };
    if (sizeof(void *) == 8) assert_memory_equal(size, released, sizeof size);
    TgOptions o = options_of("reference");
    TgSession *s = NULL;
    write_model(twice);
    for (size_t k = 0; k < sizeof o.reserved / sizeof *o.reserved; k++) assert_true(o.reserved[k] == 0);
    o.reserved[3] = 1;
    assert_int_equal(tg_open(&s, path, &o), TG_USAGE);
    assert_non_null(strstr(tg_error(), "options: a field is set that this library"));
}

static void looking_needs_no_device(void **state)
{
    (void)state;
    TgSession *s = open_text(twice, "none");
    TgInfo info;
    const char *domain, *name;
    float data[1];
    TgTensor x = vector(data, 1), y;
    assert_int_equal(tg_info(s, &info), TG_OK);
    assert_true(info.nodes == 1 && info.opset == 13);
    assert_int_equal(tg_model_operator(s, 0, &domain, &name), 1);
    assert_string_equal(name, "Add");
    assert_int_equal(tg_model_operator(s, 1, &domain, &name), 0);
    assert_int_equal(tg_run(s, &x, 1, &y), TG_USAGE);
    tg_close(s);
}

static void memory_limit(void **state)
{
    (void)state;
    TgOptions o = options_of("reference");
    TgSession *s;
    float data[100];
    TgTensor x = vector(data, 100), small = vector(data, 4), y;
    write_model(twice);
    o.max_memory_bytes = 200;
    assert_int_equal(tg_open(&s, path, &o), TG_OK);
    assert_int_equal(tg_run(s, &x, 1, &y), TG_LIMIT);
    assert_int_equal(tg_run(s, &small, 1, &y), TG_OK);
    tg_close(s);
}

/* y = the sequence's tensors in one, and the sequence as it is. A length or a shape that is new makes a program; each
 * run has its own values. */
#define SEQ_OF "2{4{1{1{1:1 2{1{}}}}}}"
static const char joined[] = "1:8 8{2:14} 7{1{1:'s' 2:'y' 3:'join' 4:'ConcatFromSequence' 5{1:'axis' 20:2}} 1{1:'s' "
                             "2:'t' 4:'Identity'} 11{1:'s' " SEQ_OF "} 12{1:'y' 2{1{1:1}}} 12{1:'t' " SEQ_OF "}}";

static void sequences(void **state)
{
    (void)state;
    static const int64_t lengths[][3] = { { 5, 0, 3 }, { 1, -1 }, { 5, 0, 3 }, { 2, 2, -1 }, { 5, 0, 3 } };
    TgSession *s = open_text(joined, "reference");
    TgPort p;
    assert_int_equal(tg_input(s, 0, &p), TG_OK);
    assert_true(p.type == TG_SEQUENCE && p.inside[0] == TG_F32 && !p.inside[1] && p.rank == 1 && p.shape[0] == -1);
    for (size_t k = 0; k < sizeof lengths / sizeof *lengths; k++) {
        float data[3][8];
        TgTensor part[3], x = { .type = TG_SEQUENCE, .rank = 1, .data = part }, y[2];
        for (; x.shape[0] < 3 && lengths[k][x.shape[0]] >= 0; x.shape[0]++)
            part[x.shape[0]] = vector(data[x.shape[0]], lengths[k][x.shape[0]]);
        data[0][0] = (float)k;
        assert_int_equal(tg_run(s, &x, 1, y), TG_OK);
        assert_true(y[1].type == TG_SEQUENCE && y[1].rank == 1 && y[1].shape[0] == x.shape[0] &&
                    y[1].size_bytes == sizeof *part * (size_t)x.shape[0]);
        int64_t at = 0;
        for (int64_t i = 0; i < x.shape[0]; i++) {
            const TgTensor *t = (const TgTensor *)y[1].data + i;
            assert_true(t->type == TG_F32 && t->rank == 1 && t->shape[0] == part[i].shape[0]);
            assert_memory_equal(t->data, data[i], part[i].size_bytes);
            assert_memory_equal((float *)y[0].data + at, data[i], part[i].size_bytes);
            at += t->shape[0];
        }
        assert_true(y[0].shape[0] == at);
    }
    tg_close(s);
}

static void wrong_sequences(void **state)
{
    (void)state;
    float data[4];
    TgTensor part[2] = { vector(data, 4), vector(data, 3) },
             good = { .type = TG_SEQUENCE, .rank = 1, .shape = { 2 }, .data = part, .size_bytes = sizeof part }, y[2],
             bad = good;
    TgSession *s = open_text(joined, "reference");
    assert_int_equal(tg_run(s, &part[0], 1, y), TG_BAD_INPUT);
    assert_non_null(strstr(tg_error(), "input 's' is f32; seq is wanted"));
    bad.rank = 0;
    assert_int_equal(tg_run(s, &bad, 1, y), TG_BAD_INPUT);
    bad = good, bad.shape[0] = -1;
    assert_int_equal(tg_run(s, &bad, 1, y), TG_BAD_INPUT);
    bad = good, bad.data = NULL;
    assert_int_equal(tg_run(s, &bad, 1, y), TG_BAD_INPUT);
    bad = good, bad.type = TG_MAP;
    assert_int_equal(tg_run(s, &bad, 1, y), TG_BAD_INPUT);
    assert_int_equal(tg_run(s, &good, 1, y), TG_OK);
    part[1].type = TG_I64;
    assert_int_equal(tg_run(s, &good, 1, y), TG_BAD_INPUT);
    assert_non_null(strstr(tg_error(), "input 's'[1] is i64; f32 is wanted"));
    part[1] = good;
    assert_int_equal(tg_prepare(s, &good, 1), TG_BAD_INPUT);
    assert_non_null(strstr(tg_error(), "input 's'[1] is seq; f32 is wanted"));
    tg_close(s);
    TgOptions o = options_of("reference");
    o.dims = "*=2..3";                                  /* not how many tensors it holds, nor their sizes */
    assert_int_equal(tg_open(&s, path, &o), TG_USAGE);
}

/* Two right programs may differ by a step of what the model rounds to: a quantisation's scale, also behind nodes that
 * move values; the last bit of a sigmoid's 1. */
static void steps_of_outputs(void **state)
{
    (void)state;
#define PORT(number, name, type) #number "{1:'" name "' 2{1{1:" #type " 2{1{1:4}}}}}"
    static const char coarse[] =
        "1:8 8{2:13} 7{1{1:'q' 1:'scale' 2:'a' 4:'DequantizeLinear'} 1{1:'a' 2:'b' 4:'Identity'} 1{1:'b' 2:'c' "
        "4:'Sigmoid'} 1{1:'c' 1:'b' 2:'d' 4:'Add'}"
        " 5{2:1 8:'scale' 4#0000803e#}" PORT(11, "q", 2) PORT(12, "b", 1) PORT(12, "c", 1) PORT(12, "d", 1) "}";
    static const double want[] = { 0.25, 0x1p-23, 0 };
    TgSession *s = open_text(coarse, "none");
    for (int32_t k = 0; k < 3; k++) {
        TgPort p;
        assert_int_equal(tg_output(s, k, &p), TG_OK);
        assert_true(p.step == want[k]);
    }
    tg_close(s);
}

/* Errors call it "model"; what it says of itself and its properties can be read. */
static void model_in_memory(void **state)
{
    (void)state;
    Text bytes = pb_text("1:8 2:'maker' 5:7 6:'why' 8{2:13} 14{1:'k' 2:'v'} 7{2:'g' 10:'graph' 1{1:'x' 2:'y' 4:'Neg' "
                         "6:'unread'} 11{1:'x' " DIM_N "} 12{1:'y' " DIM_N "}}");
    TgOptions o;
    TgSession *s = NULL;
    TgModel about;
    const char *key, *value;
    float data[3];
    TgTensor x = vector(data, 3), y;
    tg_options_default(&o);
    o.device = "reference";
    assert_int_equal(tg_open_memory(&s, "no model", 8, NULL, &o), TG_BAD_MODEL);
    assert_int_equal(strncmp(tg_error(), "model: ", 7), 0);
    assert_int_equal(tg_open_memory(&s, "", 0, NULL, &o), TG_BAD_MODEL);
    assert_int_equal(tg_open_memory(&s, bytes.s, bytes.len, NULL, &o), TG_OK);
    tg_model(s, &about);
    assert_string_equal(about.producer_name, "maker");
    assert_string_equal(about.producer_version, "");
    assert_string_equal(about.doc_string, "why");
    assert_string_equal(about.graph_name, "g");
    assert_string_equal(about.graph_doc_string, "graph");
    assert_true(about.model_version == 7 && about.ir_version == 8);
    assert_int_equal(tg_model_property(s, 0, &key, &value), 1);
    assert_true(!strcmp(key, "k") && !strcmp(value, "v") && !tg_model_property(s, 1, &key, &value) &&
                !tg_model_property(s, -1, &key, &value));
    assert_int_equal(tg_run(s, &x, 1, &y), TG_OK);
    assert_true(((float *)y.data)[2] == -data[2]);
    tg_close(s);
    text_free(&bytes);
}

/* What was taken keeps its values in later runs and after the session is closed. */
static void taken_outputs(void **state)
{
    (void)state;
    static const char *const devices[] = { "reference", "cpu" };
    for (size_t d = 0; d < 2; d++) {
        TgSession *s = open_text(twice, devices[d]);
        float data[5];
        TgTensor x = vector(data, 5), y, first, second;
        assert_int_equal(tg_take(&first, s, 0), TG_USAGE);
        assert_int_equal(tg_run(s, &x, 1, &y), TG_OK);
        assert_int_equal(tg_take(&first, s, 1), TG_USAGE);
        assert_int_equal(tg_take(&first, s, 0), TG_OK);
        assert_int_equal(tg_take(&second, s, 0), TG_USAGE);
        assert_ptr_equal(first.data, y.data);
        data[0] = 100;
        assert_int_equal(tg_run(s, &x, 1, &y), TG_OK);
        assert_int_equal(tg_take(&second, s, 0), TG_OK);
        tg_close(s);
        assert_true(((float *)first.data)[0] == 10 && ((float *)second.data)[0] == 200 &&
                    ((float *)second.data)[4] == 2 * data[4]);
        tg_tensor_free(&first);
        tg_tensor_free(&second);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(many_shapes),
        cmocka_unit_test(sizes_that_vary),
        cmocka_unit_test(values_that_shapes_depend_on),
        cmocka_unit_test(wrong_calls),
        cmocka_unit_test(structs_keep_their_sizes),
        cmocka_unit_test(looking_needs_no_device),
        cmocka_unit_test(memory_limit),
        cmocka_unit_test(sequences),
        cmocka_unit_test(wrong_sequences),
        cmocka_unit_test(steps_of_outputs),
        cmocka_unit_test(model_in_memory),
        cmocka_unit_test(taken_outputs),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
