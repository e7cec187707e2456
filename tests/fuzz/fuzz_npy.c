/* Any bytes as a tensor file. The first byte chooses npy or pb and the type that the reader wants. */
#include <stdlib.h>

#include "onnx/files/npy.h"
#include "tests/fuzz/fuzz.h"
#include "tests/pbtext.h"

static volatile uint64_t sink;

static void touch(const TgTensor *t)
{
    for (size_t k = 0; k < t->size_bytes; k++) sink += ((const uint8_t *)t->data)[k];
    for (size_t k = 0; t->type == TG_STRING && k < t->size_bytes / sizeof(char *); k++)
        sink += strlen(((char **)t->data)[k]);
    for (int64_t k = 0; t->type >= TG_SEQUENCE && k < t->shape[0]; k++) touch((const TgTensor *)t->data + k);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const TgType holder[] = { 0, TG_SEQUENCE, TG_OPTIONAL, TG_MAP };
    TgTensor t;
    if (!size) return 0;
    TgStatus status = data[0] & 64 ? pb_read_bytes(&t, data + 1, size - 1, holder[data[0] & 3])
                                   : npy_read_bytes(&t, data + 1, size - 1, (TgType)(data[0] & 31));
    if (status != TG_OK) {
        if (!*tg_error()) abort();
        return 0;
    }
    touch(&t);
    tg_tensor_free(&t);
    return 0;
}

static Text npy(char first, const char *header, size_t data)
{
    Text t = { 0 };
    size_t n = strlen(header);
    const char head[] = { first, (char)0x93, 'N', 'U', 'M', 'P', 'Y', 1, 0, (char)n, 0 };
    text_bytes(&t, head, sizeof head);
    text_bytes(&t, header, n);
    for (size_t k = 0; k < data; k++) text_bytes(&t, k % 3 ? "\1" : "\2", 1);
    return t;
}

static const struct { char first; const char *header; size_t data; } seeds[] = {
    { 0, "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }\n", 8 },    { 0, "{'descr': '>c16', 'fortran_order': True, 'shape': (2, 1, 3), }\n", 96 },
    { 22, "{'descr': '|i1', 'fortran_order': False, 'shape': (5,), }\n", 5 },   { 16, "{'descr': '<V2', 'fortran_order': False, 'shape': (), }\n", 2 },
    { 64, "1:2 2:1 8:'name' 9#0000803f00000040#", 0 },                          { 64, "1:2 2:8 6:'one' 6:''", 0 },
    { 64, "1:3 2:3 5[-1 0 1]", 0 },                                             { 65, "1:'s' 2:1 3{1:1 2:1 9#0000803f#} 3{1:2 2:7 7[1 2]}", 0 },
    { 65, "2:4 6{2:7 3[4 5] 5{2:1 3{2:1 9#0000803f#} 3{2:1 9#0000803f#}}}", 0 },  { 66, "2:3 5{2:1 3{1:1 2:1 9#0000803f#}}", 0 },
    { 67, "2:8 4:'a' 4:'b' 5{2:1 3{2:7 7:3} 3{2:7 7:4}}", 0 },
};

char *fuzz_seed(size_t k, size_t *size)
{
    if (k >= sizeof seeds / sizeof *seeds) return NULL;
    Text t = { 0 };
    if (seeds[k].first & 64) {
        Text body = pb_text(seeds[k].header);
            text_bytes(&t, &seeds[k].first, 1);
        text_bytes(&t, body.s, body.len);
        text_free(&body);
    } else t = npy(seeds[k].first, seeds[k].header, seeds[k].data);
    *size = t.len;
    return t.s;
}
