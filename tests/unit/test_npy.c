/* Tensor files: a table of npy headers, good and bad; every type to a file and back; npz and pb; damage. */
#define _GNU_SOURCE
#include "onnx/files/npy.h"
#include "tests/pbtext.h"
#include "tests/test.h"

#include <stdbool.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

/* An npy file of version 1 (or `version`) with this header text and data. */
static Text npy(int version, const char *header, const char *hex)
{
    Text t = { 0 };
    const char *s = hex - 1;
    size_t n = strlen(header);
    const char head[] = { (char)0x93, 'N', 'U', 'M', 'P', 'Y', (char)version, 0, (char)n, (char)(n >> 8), 0, 0 };
    text_bytes(&t, head, version == 1 ? 10 : 12);
    text_bytes(&t, header, n);
    pb_hex(&t, &s, 0);
    return t;
}

#define H(descr, fortran, shape) "{'descr': '" descr "', 'fortran_order': " fortran ", 'shape': " shape ", }  \n"
static const struct { const char *header, *data, *says; TgType type; int32_t rank; const char *out; } rows[] = {
    { H("<f4", "False", "(2,)"), "0000803f00000040", NULL, TG_F32, 1, "0000803f00000040" },
    { H("<f4", "False", "()"), "0000803f", NULL, TG_F32, 0, "0000803f" },
    { H("|b1", "False", "(3,)"), "0002ff", NULL, TG_BOOL, 1, "000101" },
    { H("|i1", "False", "(2,)"), "ff01", NULL, TG_I8, 1, "ff01" },
    { H("<i8", "False", "(1, 1)"), "0100000000000000", NULL, TG_I64, 2, "0100000000000000" },
    { H("<c8", "False", "(1,)"), "0000803f00000040", NULL, TG_COMPLEX64, 1, "0000803f00000040" },
    { H(">u2", "False", "(2,)"), "00010203", NULL, TG_U16, 1, "01000302" },
    { H(">c8", "False", "(1,)"), "3f80000040000000", NULL, TG_COMPLEX64, 1, "0000803f00000040" },
    { H("=u2", "False", "(1,)"), "0100", NULL, TG_U16, 1, "0100" },
    { H("|u1", "True", "(2, 3)"), "010203040506", NULL, TG_U8, 2, "010305020406" },
    { H(">u2", "True", "(2, 1, 2)"), "0001000200030004", NULL, TG_U16, 3, "0100030002000400" },
    { H("|u1", "True", "(0, 3)"), "", NULL, TG_U8, 2, "" },
    { H("<f8", "False", "(0,)"), "", NULL, TG_F64, 1, "" },
    { "{\"shape\":(1L,),\"fortran_order\":False,\"descr\":\"<f2\"}", "003c", NULL, TG_F16, 1, "003c" },
    { H("<f4", "False", "(2,)"), "0000803f000000", "npy data have 7 bytes; type and shape need 8", 0, 0, NULL },
    { H("<f4", "False", "(2,)"), "0000803f0000004000", "npy data have 9 bytes", 0, 0, NULL },
    { H("<f4", "False", "(65536, 65536)"), "", "npy data have 0 bytes", 0, 0, NULL },
    { H("<f4", "False", "(-1,)"), "", "no number", 0, 0, NULL },
    { H("<f4", "False", "(18446744073709551618,)"), "0000803f0000803f", "no number", 0, 0, NULL },
    { H("<f4", "False", "(4611686018427387904, 4)"), "", "too large", 0, 0, NULL },
    { H("<f4", "False", "(9223372036854775807,)"), "", "too large", 0, 0, NULL },
    { H("<f4", "False", "(1.5,)"), "0000803f", "malformed", 0, 0, NULL },
    { H("<f4", "False", "(2)"), "0000803f0000803f", "no tuple", 0, 0, NULL },
    { H("<f4", "False", "2"), "0000803f0000803f", "no tuple", 0, 0, NULL },
    { H("<f4", "False", "(1,,1)"), "0000803f", "no number", 0, 0, NULL },
    { H("<f4", "False", "(1, 1"), "0000803f", "no number", 0, 0, NULL },
    { H("<f4", "False", "(1 1)"), "0000803f", "malformed", 0, 0, NULL },
    { H("<f4", "False", "(1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1)"), "0000803f", "more than 16 dimensions", 0, 0, NULL },
    { H("<f4", "False", "((((((((((((((((((((((((((((((((1"), "", "no number", 0, 0, NULL },
    { H("<f4", "Maybe", "(1,)"), "0000803f", "neither True nor False", 0, 0, NULL },
    { H("|O", "False", "(1,)"), "80", "element type", 0, 0, NULL },
    { H("|O8", "False", "(1,)"), "8003580100000061", "Python objects", 0, 0, NULL },
    { H("<U4", "False", "(1,)"), "61000000000000006200000000000000", "zero character", 0, 0, NULL },
    { H("<U0", "False", "(1099511627776,)"), "", "empty strings", 0, 0, NULL },
    { H("<U99999999", "False", "(1,)"), "61000000", "element type", 0, 0, NULL },
    { H("<V2", "False", "(1,)"), "803f", "element type", 0, 0, NULL },
    { H("<f3", "False", "(1,)"), "000000", "element type", 0, 0, NULL },
    { H("<f16", "False", "(1,)"), "00000000000000000000000000000000", "element type", 0, 0, NULL },
    { H("<M8[ns]", "False", "(1,)"), "0000000000000000", "element type", 0, 0, NULL },
    { "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,)}", "0000803f", "element type", 0, 0, NULL },
    { "{'descr': '<f4', 'fortran_order': False}", "0000803f", "lacks", 0, 0, NULL },
    { "{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': ()}", "0000803f", "descr twice", 0, 0, NULL },
    { "{'descr': '<f4', 'fortran_order': False, 'shape': (), 'x': 1}", "0000803f", "unknown key", 0, 0, NULL },
    { "{'descr': '<f4' 'fortran_order': False, 'shape': ()}", "0000803f", "malformed", 0, 0, NULL },
    { "{'descr': '<f4', 'fortran_order': False, 'shape': ()} + f()", "0000803f", "behind its dictionary", 0, 0, NULL },
    { "__import__('os').system('true')", "", "no dictionary", 0, 0, NULL },
    { "", "", "no dictionary", 0, 0, NULL },
};

static void hex_of(char *out, const TgTensor *t)
{
    *out = 0;
    for (size_t i = 0; i < t->size_bytes; i++) sprintf(out + 2 * i, "%02x", ((const uint8_t *)t->data)[i]);
}

static void headers(void **state)
{
    (void)state;
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++)
        for (int version = 1; version <= 3; version++) {
            char hex[100];
            TgTensor t = { 0 };
            Text file = npy(version, rows[k].header, rows[k].data);
            TgStatus status = npy_read_bytes(&t, file.s, file.len, 0);
            bool right = rows[k].says
                ? (status == TG_BAD_INPUT || status == TG_LIMIT) && strstr(tg_error(), rows[k].says)
                : status == TG_OK && t.type == rows[k].type && t.rank == rows[k].rank;
            if (!right)
                print_error("%s: status %d, \"%s\"; expected \"%s\"\n", rows[k].header, status, tg_error(),
                            rows[k].says ? rows[k].says : "success");
            assert_true(right);
            if (status == TG_OK) {
                hex_of(hex, &t);
                assert_string_equal(hex, rows[k].out);
                tg_tensor_free(&t);
            }
            text_free(&file);
        }
}

static void not_npy(void **state)
{
    (void)state;
    static const struct {
        const char *bytes;
        size_t size;
        const char *says;
    } cases[] = { { "", 0, "is empty" },
                  { "a,b\n1,2\n", 8, "not an npy" },
                  { "PK\3\4", 4, "not an npy" },
                  { "\x93NUMPY\1\0", 8, "not an npy" },
                  { "\x93NUMPY\x09\0\2\0{}", 12, "version 9" },
                  { "\x93NUMPY\1\0\xff\xff{}", 12, "header of 65535 bytes" },
                  { "\x93NUMPY\2\0\xff\xff\xff\xff{}", 14, "header of 4294967295 bytes" },
                  { "\x93NUMPY\2\0\2\0", 10, "does not end" } };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        TgTensor t;
        assert_int_equal(npy_read_bytes(&t, cases[k].bytes, cases[k].size, 0), TG_BAD_INPUT);
        assert_non_null(strstr(tg_error(), cases[k].says));
    }
}

static void truncations(void **state)
{
    (void)state;
    Text file = npy(1, H("<f4", "True", "(1, 2)"), "0000803f00000040");
    for (size_t n = 0; n < file.len; n++) {
        TgTensor t;
        char *cut = memcpy(malloc(n + 1), file.s, n);
        assert_int_equal(npy_read_bytes(&t, cut, n, 0), TG_BAD_INPUT);
        free(cut);
    }
    for (size_t at = 0; at < file.len; at++)
        for (int change = 1; change < 256; change++) {
            TgTensor t;
            file.s[at] ^= (char)change;
            if (npy_read_bytes(&t, file.s, file.len, 0) == TG_OK) tg_tensor_free(&t);
            file.s[at] ^= (char)change;
        }
    text_free(&file);
}

/* ---- files */

static char root[] = "/tmp/tgrun-npy-XXXXXX";
static int setup(void **state) { (void)state; return !mkdtemp(root) || chdir(root); }

static int teardown(void **state)
{
    (void)state;
    return chdir("/") || remove_tree(root);
}

/* Every type that a tensor can have, through every kind of file. Five elements: packed types end inside a byte. */
static void round_trips(void **state)
{
    (void)state;
    static const char *const suffixes[] = { "npy", "npz", "pb" };
    for (int type = 1; type <= TG_F6E3M2; type++)
        for (size_t k = 0; k < 3; k++) {
            uint8_t data[80];
            char path[40];
            int32_t bits = tg_type_bits((TgType)type);
            TgTensor back,
                t = { .type = (TgType)type,
                      .rank = 2,
                      .shape = { 1, 5 },
                      .data = data,
                      .size_bytes = ((size_t)bits * 5 + 7) / 8 };
            for (size_t i = 0; i < sizeof data; i++) data[i] = type == TG_BOOL ? i & 1 : (uint8_t)(i * 37 + 5);
            if (bits < 8) data[t.size_bytes - 1] &= (uint8_t)((1 << (bits * 5 % 8)) - 1);
            if (type == TG_STRING) continue;
            snprintf(path, sizeof path, "t.%s", suffixes[k]);
            if (k == 1) remove(path);
            assert_int_equal(tg_tensor_write(&t, "name", path), TG_OK);
            assert_int_equal(tg_tensor_read(&back, path, (TgType)type), TG_OK);
            assert_true(back.type == t.type && back.rank == 2 && back.shape[1] == 5 && back.size_bytes == t.size_bytes);
            assert_memory_equal(back.data, data, t.size_bytes);
            tg_tensor_free(&back);
        }
}

static void write_text(const char *path, const Text *t)
{
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    if (t->len) fwrite(t->s, 1, t->len, f);
    fclose(f);
}

/* Elements that lie as memory wants them are used where they are; all other files say so and are read. */
static void mapped(void **state)
{
    (void)state;
    static const struct { const char *header, *data; TgType want; bool good; } cases[] = {
        { H("<f4", "False", "(2,)"), "0000803f00000040", TG_F32, true }, { H("<f4", "True", "(2,)"), "0000803f00000040", 0, true }, { H("<V2", "False", "(1,)"), "803f", TG_BF16, true },
        { H("<f4", "False", "(2,)"), "0000803f00000040", TG_F64, false }, { H(">f4", "False", "(1,)"), "3f800000", TG_F32, false }, { H("<f4", "True", "(1, 2)"), "0000803f00000040", TG_F32, false },
        { H("|b1", "False", "(1,)"), "02", TG_BOOL, false }, { H("|i1", "False", "(1,)"), "07", TG_I4, false }, { H("<U2", "False", "(1,)"), "6100000000000000", TG_STRING, false },
        { H("<f4", "False", "(0,)"), "", TG_F32, false }, { H("<f4", "False", "(9,)"), "0000803f", TG_F32, false },
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++)
        for (int aligned = 0; aligned < 2; aligned++) {
            char hex[100], header[200], path[] = "m.npy";
            TgTensor t;
            snprintf(header, sizeof header, "%-*s", aligned ? 118 : 117, cases[k].header);
            Text file = npy(1, header, cases[k].data);
            write_text(path, &file);
            assert_int_equal(tg_tensor_map(&t, path, cases[k].want), cases[k].good && aligned ? TG_OK : TG_UNSUPPORTED);
            if (cases[k].good && aligned) {
                hex_of(hex, &t);
                assert_string_equal(hex, cases[k].data);
            }
            tg_tensor_unmap(&t);
            assert_null(t.data);
            text_free(&file);
        }
    TgTensor t;
    assert_int_equal(tg_tensor_map(&t, "none.npy", 0), TG_BAD_INPUT);
    assert_int_equal(tg_tensor_map(&t, "t.pb", 0), TG_UNSUPPORTED);
}

static void strings(void **state)
{
    (void)state;
    char *data[] = { "one", "", "three" };
    TgTensor back, t = { .type = TG_STRING, .rank = 1, .shape = { 3 }, .data = data, .size_bytes = sizeof data };
    assert_int_equal(tg_tensor_write(&t, "s", "s.pb"), TG_OK);
    assert_int_equal(tg_tensor_read(&back, "s.pb", TG_STRING), TG_OK);
    assert_int_equal(back.size_bytes, sizeof data);
    for (int k = 0; k < 3; k++) assert_string_equal(((char **)back.data)[k], data[k]);
    tg_tensor_free(&back);
    char *words[] = { "d\xc3\xa9", "\xe2\x82\xac", "\xf0\x9f\x98\x80 x" };
    TgTensor wide = { .type = TG_STRING, .rank = 1, .shape = { 3 }, .data = words, .size_bytes = sizeof words };
    assert_int_equal(tg_tensor_write(&wide, "w", "w.npy"), TG_OK);
    assert_int_equal(tg_tensor_read(&back, "w.npy", TG_STRING), TG_OK);
    assert_true(back.type == TG_STRING && back.rank == 1 && back.shape[0] == 3);
    for (int k = 0; k < 3; k++) assert_string_equal(((char **)back.data)[k], words[k]);
    tg_tensor_free(&back);
    assert_int_equal(tg_tensor_write(&t, "s", "s.npy"), TG_OK);        /* of one width, four bytes a character */
    FILE *f = fopen("s.npy", "rb");
    char bytes[512];
    size_t n = fread(bytes, 1, sizeof bytes, f);
    fclose(f);
    assert_int_equal(n, 128 + 3 * 5 * 4);
    assert_non_null(strstr(bytes + 10, "'<U5'"));
    assert_memory_equal(bytes + 128 + 2 * 5 * 4, "t\0\0\0h\0\0\0r\0\0\0e\0\0\0e\0\0\0", 20);
}

static void narrow_values(void **state)
{
    (void)state;
    TgTensor t;
    Text file = npy(1, H("|i1", "False", "(3,)"), "f80700"), wide = npy(1, H("|i1", "False", "(1,)"), "08"),
         bf16 = npy(1, H("<V2", "False", "(1,)"), "803f");
    assert_int_equal(npy_read_bytes(&t, file.s, file.len, TG_I4), TG_OK);
    assert_memory_equal(t.data, "\x78\x00", 2);
    tg_tensor_free(&t);
    assert_int_equal(npy_read_bytes(&t, wide.s, wide.len, TG_I4), TG_BAD_INPUT);
    assert_int_equal(npy_read_bytes(&t, bf16.s, bf16.len, TG_BF16), TG_OK);
    assert_int_equal(t.type, TG_BF16);
    tg_tensor_free(&t);
    text_free(&file);
    text_free(&wide);
    text_free(&bf16);
}

static void archive_keys(void **state)
{
    (void)state;
    float a = 1, b = 2;
    TgTensor t = { .type = TG_F32, .rank = 0, .data = &a, .size_bytes = 4 };
    assert_int_equal(tg_tensor_write(&t, "a", "keys.npz"), TG_OK);
    t.data = &b;
    assert_int_equal(tg_tensor_write(&t, "b", "keys.npz"), TG_OK);
    assert_int_equal(tg_tensor_read(&t, "keys.npz:b", 0), TG_OK);
    assert_true(*(float *)t.data == 2);
    tg_tensor_free(&t);
    assert_int_equal(tg_tensor_read(&t, "keys.npz", 0), TG_BAD_INPUT);
    assert_string_equal(tg_error(), "keys.npz: has 2 members: name one (FILE.npz:KEY)");
    assert_int_equal(tg_tensor_read(&t, "keys.npz:c", 0), TG_BAD_INPUT);
}

/* What holds tensors comes back as it went, with the kind of its port. */
#define TENSOR(t, n, d) { .type = t, .rank = 1, .shape = { n }, .data = d, .size_bytes = sizeof d }
static void same_value(const TgTensor *a, const TgTensor *b)
{
    assert_true(a->type == b->type && a->rank == b->rank &&
                !memcmp(a->shape, b->shape, sizeof *a->shape * (size_t)a->rank) && a->size_bytes == b->size_bytes);
    for (int64_t k = 0; a->type >= TG_SEQUENCE && k < a->shape[0]; k++)
        same_value((TgTensor *)a->data + k, (TgTensor *)b->data + k);
    for (int64_t k = 0; a->type == TG_STRING && k < a->shape[0]; k++)
        assert_string_equal(((char **)a->data)[k], ((char **)b->data)[k]);
    if (a->type < TG_SEQUENCE && a->type != TG_STRING && a->size_bytes)
        assert_memory_equal(a->data, b->data, a->size_bytes);
}

static void holders(void **state)
{
    (void)state;
    float five[5] = { 1, 2, 3, 4, 5 }, six[6] = { 6, 5, 4, 3, 2, 1 };
    int64_t numbers[] = { -1, 1L << 40 }, three[] = { 7, 8, 9 };
    char *words[] = { "one", "", "three" };
    TgTensor ragged[] = { TENSOR(TG_F32, 5, five),
                          { .type = TG_F32, .rank = 2, .shape = { 0, 3 } },
                          { .type = TG_F32, .rank = 0, .data = six, .size_bytes = 4 } };
    TgTensor text[] = { TENSOR(TG_STRING, 3, words) };
    TgTensor map[] = { TENSOR(TG_I64, 2, numbers),
                       { .type = TG_F32, .rank = 1, .shape = { 2 }, .data = five, .size_bytes = 8 } };
    TgTensor maps[] = { TENSOR(TG_STRING, 3, words),
                        { .type = TG_F32, .rank = 2, .shape = { 2, 3 }, .data = six, .size_bytes = 24 } };
    TgTensor word_map[] = { TENSOR(TG_I64, 3, three), TENSOR(TG_STRING, 3, words) };
    TgTensor short_map[] = { { .type = TG_I64, .rank = 1, .shape = { 1 }, .data = numbers, .size_bytes = 8 },
                             { .type = TG_F32, .rank = 1, .shape = { 1 }, .data = five, .size_bytes = 4 } };
    TgTensor differing[] = { TENSOR(TG_MAP, 2, map), TENSOR(TG_MAP, 2, short_map) };
    TgTensor all[] = {
        TENSOR(TG_SEQUENCE, 3, ragged),
        { .type = TG_SEQUENCE, .rank = 1 },
        TENSOR(TG_SEQUENCE, 1, text),
        TENSOR(TG_OPTIONAL, 1, text),
        { .type = TG_OPTIONAL, .rank = 1 },
        TENSOR(TG_MAP, 2, map),
        TENSOR(TG_MAP, 2, maps),
        TENSOR(TG_MAP, 2, word_map),
        { .type = TG_SEQUENCE, .rank = 1, .shape = { 2 }, .data = differing, .size_bytes = sizeof differing }
    };
    TgTensor nested[] = {
        { .type = TG_SEQUENCE, .rank = 1, .shape = { 2 }, .data = all, .size_bytes = 2 * sizeof *all },
        { .type = TG_OPTIONAL, .rank = 1, .shape = { 1 }, .data = all, .size_bytes = sizeof *all }
    };
    const TgTensor *value[] = { &all[0], &all[1], &all[2], &all[3],    &all[4],   &all[5],
                                &all[6], &all[7], &all[8], &nested[0], &nested[1] };
    for (size_t k = 0; k < sizeof value / sizeof *value; k++) {
        TgTensor back;
        TgType want = value[k] == &all[6] ? TG_SEQUENCE : value[k]->type;
        assert_int_equal(tg_tensor_write(value[k], "name", "h.pb"), TG_OK);
        assert_int_equal(tg_tensor_read(&back, "h.pb", want), TG_OK);
        same_value(value[k], &back);
        tg_tensor_free(&back);
        assert_int_equal(tg_tensor_write(value[k], "name", "h.npy"), TG_USAGE);
    }
    assert_int_equal(tg_tensor_write(&all[0], "", "h.npz"), TG_USAGE);
    assert_string_equal(tg_error(), "h.npz: a seq goes to a .pb file");
}

#define ONE "3{2:1 9#0000803f#}"
static void bad_files(void **state)
{
    (void)state;
    static const struct { const char *path, *proto, *says; TgType want; } cases[] = {
        { "s.pb", "2:1 3{1:1 2:1 9#00#}", "raw_data has 1 bytes", TG_SEQUENCE },
        { "s.pb", "2:1 " ONE " 5{2:1}", "values of several kinds", TG_SEQUENCE },
        { "m.pb", "2:7 3[1 2] 5{2:1 " ONE "}", "not as many as keys", TG_MAP },
        { "m.pb", "2:7 3[1 2]", "not as many as keys", TG_MAP },
        { "m.pb", "2:7 3[1 2] 5{2:1 " ONE " 3{2:7 7:1}}", "one element of the others' type", TG_MAP },
        { "m.pb", "2:7 3[1] 5{2:1 3{1:2 2:1 9#0000803f0000803f#}}", "one element of the others' type", TG_MAP },
        { "m.pb", "2:8 3[1] 4:'a' 5{2:1 " ONE " " ONE "}", "numbers and strings", TG_MAP },
        { "o.pb", "2:1 3{2:1 9#0000803f#} 5{2:1}", "values of several kinds", TG_OPTIONAL },
        { "o.pb", "!ffff!", "OptionalProto", TG_OPTIONAL },
        { "a.pb", "", "is empty" },
        { "a.pb", "1:2 2:1 9#0000803f#", "raw_data has 4 bytes" },
        { "a.pb", "1:8 8{2:13} 7{2:'g'}", "data_type" },                                   /* a model */
        { "a.pb", "1:1 2:1 14:1 13{1:'location' 2:'/etc/passwd'}", "not allowed" },
        { "a.pb", "1:1 2:1 !ffff!", "TensorProto" },
        { "a.pb", "1:1 2:8 6#6100#", "zero byte" },
        { "a.npz", "1:1", "not an npz" },
        { "a.txt", "1:1", "by its name" },
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        TgTensor t;
        Text bytes = pb_text(cases[k].proto);
        write_text(cases[k].path, &bytes);
        assert_int_equal(tg_tensor_read(&t, cases[k].path, cases[k].want), TG_BAD_INPUT);
        if (!strstr(tg_error(), cases[k].says)) print_error("%s: %s\n", cases[k].proto, tg_error());
        assert_non_null(strstr(tg_error(), cases[k].says));
        assert_int_equal(strncmp(tg_error(), cases[k].path, strlen(cases[k].path)), 0);
        text_free(&bytes);
    }
    TgTensor t;
    assert_int_equal(mkfifo("pipe.npy", 0600), 0);
    assert_int_equal(tg_tensor_read(&t, "pipe.npy", 0), TG_BAD_INPUT);       /* and does not wait */
    assert_int_equal(tg_tensor_read(&t, "none.npy", 0), TG_BAD_INPUT);
    Text good = npy(1, H("<f4", "False", "()"), "0000803f");
    write_text("f32.npy", &good);
    text_free(&good);
    assert_int_equal(tg_tensor_read(&t, "f32.npy", TG_F64), TG_BAD_INPUT);
    assert_string_equal(tg_error(), "f32.npy: holds f32; f64 is wanted");
    assert_int_equal(tg_tensor_read(&t, "f32.npy", TG_SEQUENCE), TG_BAD_INPUT);
    assert_string_equal(tg_error(), "f32.npy: holds f32; seq is wanted");
    assert_int_equal(tg_tensor_read(&t, ".", 0), TG_BAD_INPUT);
}

/* A write that fails leaves what was there, and nothing else. */
static void whole_or_not(void **state)
{
    (void)state;
    float v = 1;
    TgTensor t = { .type = TG_F32, .rank = 0, .data = &v, .size_bytes = 4 };
    assert_int_equal(tg_tensor_write(&t, "", "missing/x.npy"), TG_CACHE);
    assert_int_equal(tg_tensor_write(&t, "", "missing/x.npz"), TG_CACHE);
    assert_int_equal(tg_tensor_write(&t, "", "x.dat"), TG_USAGE);
    assert_int_equal(mkdir("only", 0700), 0);
    assert_int_equal(tg_tensor_write(&t, "", "only/x.npy"), TG_OK);
    assert_int_equal(tg_tensor_write(&t, "", "only/x.npy"), TG_OK);
    assert_int_equal(remove("only/x.npy"), 0);
    assert_int_equal(rmdir("only"), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(headers),       cmocka_unit_test(not_npy),      cmocka_unit_test(truncations),
        cmocka_unit_test(round_trips),   cmocka_unit_test(mapped),       cmocka_unit_test(strings),
        cmocka_unit_test(narrow_values), cmocka_unit_test(archive_keys), cmocka_unit_test(holders),
        cmocka_unit_test(bad_files),     cmocka_unit_test(whole_or_not),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
