/* Any bytes as a picture in a file's bytes. What libraries decode has not many seeds here: a fuzzer finds its way by
 * the formats' magic numbers. */
#include <stdlib.h>
#include <string.h>

#include "frontend/host/picture.h"
#include "graph/base/memory.h"
#include "tests/fuzz/fuzz.h"

static volatile uint64_t sink;

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    Arena *a = arena_new();
    Picture p = { 0 };
    if (picture_decode(&p, a, data, size) == TG_OK && p.height)
        for (int64_t k = 0; k < p.height * p.width * 3; k++) sink += p.rgb[k];
    arena_free(a);
    return 0;
}

#define ROW(s) { s, sizeof s - 1 }
static const struct { const char *s; size_t n; } seeds[] = {
    ROW("P6\n2 1\n255\n\1\2\3\4\5\6"),
    ROW("P5 # grey\n3 2 65535\n\0\1\0\2\0\3\0\4\0\5\0\6"),
    ROW("P3 1 1 9 1 2 3"),
    ROW("P4\n9 1\n\252\200"),
    ROW("BM\72\0\0\0\0\0\0\0\66\0\0\0\50\0\0\0\1\0\0\0\1\0\0\0\1\0\30\0\0\0\0\0\4\0\0\0\0\0\0\0\0\0"
        "\0\0\0\0\0\0\0\0\0\0\1\2\3\0"),
    ROW("BM\106\0\0\0\0\0\0\0\76\0\0\0\50\0\0\0\2\0\0\0\376\377\377\377\1\0\1\0\0\0\0\0\10\0\0\0\0"
        "\0\0\0\0\0\0\0\2\0\0\0\0\0\0\0"
        "\1\2\3\0\4\5\6\0\200\0\0\0\100\0\0\0"),
    ROW("BM\116\0\0\0\0\0\0\0\76\0\0\0\50\0\0\0\4\0\0\0\1\0\0\0\1\0\10\0\1\0\0\0\20\0\0\0\0\0\0\0\0"
        "\0\0\0\2\0\0\0\0\0\0\0"
        "\1\2\3\0\4\5\6\0\2\1\0\2\1\0\0\1\0\0"),
    ROW("\211PNG\r\n\32\n\0\0\0\15IHDR\0\0\0\1\0\0\0\1\10\2\0\0\0\220wS\336\0\0\0\14IDATx\234c\370"
        "\317\300\0\0\3\1\1\0\311\376\222\357\0\0\0\0IEND\256B`\202"),
    ROW("\377\330\377\340\0\20JFIF\0\1\1\0\0\1\0\1\0\0\377\331"),
    ROW("RIFF\32\0\0\0WEBPVP8L\15\0\0\0\57\0\0\0\20\7\20\21\21\210\210\376\7\0"),
};

char *fuzz_seed(size_t k, size_t *size)
{
    if (k >= sizeof seeds / sizeof *seeds) return NULL;
    *size = seeds[k].n;
    return memcpy(mem_new(seeds[k].n + 1), seeds[k].s, seeds[k].n);
}
