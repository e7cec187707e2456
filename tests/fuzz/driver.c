/* Runs a harness without libFuzzer:
 *   fuzz_x FILE...           replays files (what a fuzzer found)
 *   fuzz_x --seeds FOLDER    writes the seeds, for libFuzzer to start from
 *   fuzz_x --mutate N        runs N damaged copies of the seeds; the same ones each time */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/base/memory.h"
#include "tests/fuzz/fuzz.h"

static uint64_t state = 88172645463325252u;

static size_t below(size_t n)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return n ? state % n : 0;
}

/* Each input has exactly its bytes, so that a sanitizer sees a read behind them. */
static void run(const char *data, size_t size)
{
    uint8_t *copy = malloc(size ? size : 1);
    if (size) memcpy(copy, data, size);
    LLVMFuzzerTestOneInput(copy, size);
    free(copy);
}

/* A few changes: a byte, a number that is special, a stretch left out, doubled, or taken from another place. data has
 * room for twice its size. */
static size_t damage(char *data, size_t size, size_t cap)
{
    static const char special[] = { 0, 1, 2, 8, 127, -128, -1, '(', '{' };
    for (size_t times = 1 + below(4); times-- && size;) {
        size_t at = below(size), n = 1 + below(size - at < 16 ? size - at : 16), from = below(size);
        switch (below(5)) {
        case 0: data[at] ^= (char)(1 << below(8)); break;
        case 1: data[at] = special[below(sizeof special)]; break;
        case 2: memmove(data + at, data + at + n, size - at - n), size -= n; break;
        case 3: if (size + n <= cap) memmove(data + at + n, data + at, size - at), size += n; break;
        default: memmove(data + at, data + from, n < size - from ? n : size - from);
        }
    }
    return size;
}

static int mutate(size_t count)
{
    size_t seeds = 0, size;
    for (char *seed; (seed = fuzz_seed(seeds, &size)); seeds++) run(seed, size), mem_free(seed);
    for (size_t k = 0; k < count; k++) {
        char *seed = fuzz_seed(k % seeds, &size), *data = malloc(2 * size);
        memcpy(data, seed, size);
        run(data, damage(data, size, 2 * size));
        free(data);
        mem_free(seed);
    }
    return 0;
}

static int write_seeds(const char *folder)
{
    size_t size;
    char path[4096], *seed;
    for (size_t k = 0; (seed = fuzz_seed(k, &size)); k++, mem_free(seed)) {
        snprintf(path, sizeof path, "%s/seed%zu", folder, k);
        FILE *f = fopen(path, "wb");
        if (!f) return perror(path), 1;
        fwrite(seed, 1, size, f);
        fclose(f);
    }
    return 0;
}

static int replay(const char *path)
{
    FILE *f = fopen(path, "rb");
    if (!f) return perror(path), 1;
    fseek(f, 0, SEEK_END);
    size_t size = (size_t)ftell(f);
    char *data = malloc(size + 1);
    rewind(f);
    size = fread(data, 1, size, f);
    run(data, size);
    free(data);
    return fclose(f);
}

int main(int argc, char **argv)
{
    int bad = 0;
    if (argc == 3 && !strcmp(argv[1], "--mutate")) return mutate(strtoul(argv[2], NULL, 10));
    if (argc == 3 && !strcmp(argv[1], "--seeds")) return write_seeds(argv[2]);
    for (int k = 1; k < argc; k++) bad |= replay(argv[k]);
    return bad;
}
