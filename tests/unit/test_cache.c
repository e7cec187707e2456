/* The cache folder: what was put comes back whole or not at all. */
#define _GNU_SOURCE
#include "graph/base/memory.h"
#include "tests/test.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "backends/cache.h"

static char dir[] = "/tmp/tg_cache_XXXXXX";

static void round_trip(void **state)
{
    (void)state;
    char big[5000];
    void *got;
    size_t n;
    for (size_t i = 0; i < sizeof big; i++) big[i] = (char)(i * 7);
    assert_false(cache_get(&got, &n, dir, "kind", "a"));
    cache_put(dir, "kind", "a", big, sizeof big);
    cache_put(dir, "kind", "empty", "", 0);
    assert_true(cache_get(&got, &n, dir, "kind", "a"));
    assert_int_equal(n, sizeof big);
    assert_memory_equal(got, big, n);
    mem_free(got);
    assert_true(cache_get(&got, &n, dir, "kind", "empty"));
    assert_int_equal(n, 0);
    mem_free(got);
    cache_put(dir, "kind", "a", "new", 3);
    assert_true(cache_get(&got, &n, dir, "kind", "a"));
    assert_int_equal(n, 3);
    mem_free(got);
    assert_false(cache_get(&got, &n, dir, "other", "a"));
    assert_false(cache_get(&got, &n, NULL, "kind", "a"));
    cache_put(NULL, "kind", "a", "x", 1);
}

/* A cut, a longer and a changed file are misses. */
static void damage_is_a_miss(void **state)
{
    (void)state;
    char path[200];
    void *got;
    size_t n;
    snprintf(path, sizeof path, "%s/kind/d", dir);
    for (int how = 0; how < 3; how++) {
        cache_put(dir, "kind", "d", "some bytes", 10);
        FILE *f = fopen(path, "r+b");
        assert_non_null(f);
        if (how == 0) assert_int_equal(ftruncate(fileno(f), 20), 0);
        if (how == 1) fseek(f, 0, SEEK_END), fputc('x', f);
        if (how == 2) fseek(f, -1, SEEK_END), fputc('x', f);
        fclose(f);
        assert_false(cache_get(&got, &n, dir, "kind", "d"));
    }
    cache_put("/proc/no-such-place", "kind", "d", "x", 1);
}

static void make_secret(const char *path, unsigned char first, mode_t mode)
{
    unsigned char bytes[32] = { first };
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, sizeof bytes, f), sizeof bytes);
    fclose(f);
    assert_int_equal(chmod(path, mode), 0);
}

static void count(void *user, const CacheFile *f)
{
    int64_t *n = user;
    n[0]++;
    n[1] += f->good;
}

static bool is_there(const char *kind, const char *key)
{
    void *got = NULL;
    size_t n;
    bool there = cache_get(&got, &n, dir, kind, key);
    mem_free(got);
    return there;
}

/* What another secret sealed, or this one for another name, is a miss; so is all where others may read the secret. */
static void foreign_is_a_miss(void **state)
{
    (void)state;
    char from[200], to[200], secret[200];
    struct stat st;
    snprintf(from, sizeof from, "%s/kind/e", dir);
    snprintf(to, sizeof to, "%s/kind/f", dir);
    snprintf(secret, sizeof secret, "%s/secret", dir);
    cache_put(dir, "kind", "e", "some bytes", 10);
    assert_int_equal(stat(secret, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    assert_true(is_there("kind", "e"));
    assert_int_equal(rename(from, to), 0);
    assert_false(is_there("kind", "f"));
    cache_put(dir, "kind", "e", "some bytes", 10);
    assert_int_equal(unlink(secret), 0);
    assert_false(is_there("kind", "e"));
    make_secret(secret, 1, 0600);
    assert_false(is_there("kind", "e"));
    cache_put(dir, "kind", "e", "some bytes", 10);
    assert_true(is_there("kind", "e"));
    make_secret(secret, 1, 0644);
    assert_false(is_there("kind", "e"));
    cache_put(dir, "kind", "g", "some bytes", 10);              /* and nothing is stored */
    make_secret(secret, 1, 0600);
    assert_true(is_there("kind", "e"));
    assert_false(is_there("kind", "g"));
}

/* What another version stored is a miss, which prune removes. */
static void old_ones_go(void **state)
{
    (void)state;
    char path[200];
    int64_t n[2] = { 0 };
    cache_put(dir, "kind", "old", "some bytes", 10);
    snprintf(path, sizeof path, "%s/kind/old", dir);
    FILE *f = fopen(path, "r+b");
    assert_non_null(f);
    assert_int_equal(fwrite("tgcache2", 1, 8, f), 8);
    fclose(f);
    assert_false(is_there("kind", "old"));
    cache_prune(dir, INT64_MAX);
    assert_int_equal(access(path, F_OK), -1);
    assert_true(cache_walk(dir, CACHE_ALL, count, n));
    assert_int_equal(n[0], n[1]);
}

/* What was used last stays; what is damaged goes first; what is not ours to begin with is left alone. */
static void grows_no_further(void **state)
{
    (void)state;
    char path[PATH_MAX], sub[64], big[5000] = { 1 };
    int64_t n[2] = { 0 };
    snprintf(sub, sizeof sub, "%s/small", dir);
    for (int i = 0; i < 10; i++) {
        char key[8];
        struct timespec t[2] = { { .tv_sec = 1000000 + 100 * i }, { .tv_sec = 1000000 + 100 * i } };
        snprintf(key, sizeof key, "k%d", i);
        cache_put(sub, "kind", key, big, sizeof big);
        snprintf(path, sizeof path, "%s/kind/%s", sub, key);
        assert_int_equal(utimensat(AT_FDCWD, path, t, 0), 0);
    }
    void *got;
    size_t size;
    assert_true(cache_get(&got, &size, sub, "kind", "k0"));          /* used: the youngest now */
    mem_free(got);
    assert_int_equal(truncate(path, 100), 0);                        /* k9 */
    snprintf(path, sizeof path, "%s/kind/other", sub);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs("somebody's", f);
    fclose(f);
    assert_true(cache_walk(sub, CACHE_ALL, count, n));
    assert_int_equal(n[0], 10);
    assert_int_equal(n[1], 9);
    CachePruned p = cache_prune(sub, 4 * ((int64_t)sizeof big + 64));
    assert_int_equal(p.files, 6);
    assert_int_equal(p.left_files, 4);
    assert_false(cache_get(&got, &size, sub, "kind", "k9"));
    assert_false(cache_get(&got, &size, sub, "kind", "k1"));
    assert_true(cache_get(&got, &size, sub, "kind", "k0"));
    mem_free(got);
    assert_int_equal(access(path, F_OK), 0);
    assert_false(cache_walk("/nowhere", CACHE_NAMES, count, n));
}

static void written(char *path, const char *name, time_t age)
{
    snprintf(path, PATH_MAX, "%s/kind/%s", dir, name);
    int fd = open(path, O_CREAT | O_WRONLY, 0600);
    assert_true(fd >= 0 && write(fd, "x", 1) == 1);
    const struct timespec at[2] = { { .tv_sec = time(NULL) - age }, { .tv_sec = time(NULL) - age } };
    assert_int_equal(futimens(fd, at), 0);
    close(fd);
}

/* What a killed process was writing goes after an hour; what is none of ours stays. */
static void leftovers_go(void **state)
{
    (void)state;
    char old[PATH_MAX], fresh[PATH_MAX], other[PATH_MAX];
    cache_put(dir, "kind", "key", "x", 1);
    written(old, "key.aB3-_9", 4000);
    written(fresh, "key.aB3-_8", 10);
    written(other, "notes.text", 4000);
    cache_prune(dir, INT64_MAX);
    assert_int_equal(access(old, F_OK), -1);
    assert_int_equal(access(fresh, F_OK), 0);
    assert_int_equal(access(other, F_OK), 0);
}

static int clean(void **state)
{
    (void)state;
    return remove_tree(dir);
}

static int make(void **state)
{
    (void)state;
    return !mkdtemp(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(round_trip), cmocka_unit_test(damage_is_a_miss),
                                        cmocka_unit_test(foreign_is_a_miss), cmocka_unit_test(grows_no_further),
                                        cmocka_unit_test(old_ones_go), cmocka_unit_test(leftovers_go) };
    return cmocka_run_group_tests(tests, make, clean);
}
