/* bench/archive.c on archives with bytes changed at random: what cannot be unpacked is said, and nothing is written
 * beside the folder. */
#define _GNU_SOURCE
#include "tests/test.h"

#include <dirent.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "bench/archive.h"
#include "bench/stats.h"

enum { BLOCK = 512, ROUNDS = 1000 };
typedef struct { char bytes[8 * BLOCK]; size_t n; } Tar;

static size_t below(Random *r, size_t n) { return random_bits(r) % n; }

static void add(Tar *t, const char *name, char kind, const char *content)
{
    char *block = t->bytes + t->n;
    unsigned sum = 0;
    snprintf(block, 100, "%s", name);
    snprintf(block + 124, 12, "%011o", (unsigned)strlen(content));
    memcpy(block + 148, "        ", 8);
    block[156] = kind;
    memcpy(block + 257, "ustar\0" "00", 8);
    for (int k = 0; k < BLOCK; k++) sum += (unsigned char)block[k];
    snprintf(block + 148, 8, "%06o", sum);
    memcpy(block + BLOCK, content, strlen(content));
    t->n += *content ? 2 * BLOCK : BLOCK;
}

static void write_file(const char *path, const void *data, size_t n)
{
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(data, 1, n, f), n);
    fclose(f);
}

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *at)
{
    return (void)st, (void)kind, (void)at, remove(path);
}

static int entries(const char *folder)
{
    int n = 0;
    DIR *d = opendir(folder);
    while (readdir(d)) n++;
    closedir(d);
    return n - 2;
}

/* Mostly a byte that keeps the sum right, by one more that takes it away again. */
static void spoil(Tar *t, Random *r)
{
    for (size_t k = below(r, 4); k-- > 0;) {
        size_t block = below(r, t->n / BLOCK) * BLOCK, i = block + below(r, BLOCK), j = block + below(r, BLOCK);
        char by = (char)below(r, 256);
        t->bytes[i] = (char)(t->bytes[i] + by);
        t->bytes[j] = (char)(t->bytes[j] - by);
    }
    if (!below(r, 8)) t->n = below(r, t->n);
}

static void changed_bytes(void **state)
{
    (void)state;
    char top[] = "/tmp/tg_archive_XXXXXX", file[64], folder[64];
    volatile sig_atomic_t stop = 0;
    int errors = dup(2), nowhere = open("/dev/null", O_WRONLY), good = 0;
    Random r = { 7 };
    Tar whole = { .n = 0 }, hostile;
    add(&whole, "a/", '5', "");
    add(&whole, "x", 'x', "17 path=a/b/long\n");
    add(&whole, "a/b", '0', "content");
    hostile = whole;
    add(&whole, "././@LongLink", 'L', "a/c/d");
    add(&whole, "e", '0', "");
    add(&hostile, "././@LongLink", 'L', "a/../../e");
    add(&hostile, "e", '0', "");
    assert_non_null(mkdtemp(top));
    snprintf(file, sizeof file, "%s/in.tar", top);
    snprintf(folder, sizeof folder, "%s/out", top);
    dup2(nowhere, 2);
    for (int i = 0; i < ROUNDS; i++) {
        Tar t = i % 2 ? hostile : whole;
        spoil(&t, &r);
        write_file(file, t.bytes, t.n);
        assert_int_equal(mkdir(folder, 0700), 0);
        TgStatus status = archive_unpack(file, folder, &stop);
        assert_true(status == TG_OK || status == TG_BAD_INPUT || status == TG_CACHE);
        assert_int_equal(entries(top), 2);
        good += status == TG_OK;
        nftw(folder, remove_one, 8, FTW_DEPTH | FTW_PHYS);
    }
    stop = 1;
    assert_int_equal(archive_unpack(file, top, &stop), TG_LIMIT);
    dup2(errors, 2);
    close(errors), close(nowhere);
    nftw(top, remove_one, 8, FTW_DEPTH | FTW_PHYS);
    assert_true(good > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(changed_bytes) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
