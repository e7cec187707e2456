/* The tuning database: rows come back, the later winner stays, several processes write at once, damage costs what was
 * learned and nothing else. */
#include "tests/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "beam/beam.h"

enum { WRITERS = 6, ROWS = 40 };
static char folder[64], file[96];

static int make_folder(void **state)
{
    (void)state;
    strcpy(folder, "/tmp/tgrun-test-XXXXXX");
    if (!mkdtemp(folder)) return -1;
    snprintf(file, sizeof file, "%s/tune-1.db", folder);
    return 0;
}

static int drop_folder(void **state)
{
    (void)state;
    return remove_tree(folder);
}

static Tuned tuned(const char *list, double seconds)
{
    Tuned t = { .seconds = seconds };
    assert_int_equal(opt_parse(&t.opts, list), TG_OK);
    return t;
}

static void assert_list(const Tuned *t, const char *list)
{
    Text text = { 0 };
    text_add(&text, "%s", "");
    opt_print(&text, &t->opts);
    assert_string_equal(text.s, list);
    text_free(&text);
}

static void put(TuneDb *d, const char *kernel, const char *list, double seconds)
{
    Tuned t = tuned(list, seconds);
    tunedb_put_best(d, kernel, "here", &t);
}

static void test_rows(void **state)
{
    Tuned got;
    (void)state;
    for (int kept = 0; kept < 2; kept++) {
        TuneDb *d = tunedb_open(kept ? folder : NULL);
        Tuned bad = tuned("SPLIT 0 4 UPCAST", 0), good = tuned("SPLIT 0 8 UPCAST", 0);
        assert_false(tunedb_best(d, "k", "here", &got));
        put(d, "k", "SPLIT 1 16 UPCAST; PACK 2", 2e-3);
        assert_true(tunedb_best(d, "k", "here", &got));
        assert_list(&got, "SPLIT 1 16 UPCAST; PACK 2");
        /* the later winner was measured against the earlier one */
        put(d, "k", "", 3e-3);
        assert_true(tunedb_best(d, "k", "here", &got));
        assert_list(&got, "");
        assert_true(got.seconds == 3e-3);
        assert_false(tunedb_best(d, "k", "there", &got));
        tunedb_put_bad(d, "k", "here", &bad.opts);
        assert_true(tunedb_is_bad(d, "k", "here", &bad.opts));
        assert_false(tunedb_is_bad(d, "k", "here", &good.opts));
        assert_false(tunedb_is_bad(d, "k", "there", &bad.opts));
        assert_true(tunedb_best(d, "k", "here", &got));
        tunedb_close(d);
    }
    TuneDb *again = tunedb_open(folder);
    assert_true(tunedb_best(again, "k", "here", &got));
    tunedb_close(again);
}

static void test_reading_makes_no_file(void **state)
{
    Tuned got;
    TuneDb *d = tunedb_open(folder);
    (void)state;
    assert_false(tunedb_best(d, "k", "here", &got));
    tunedb_close(d);
    assert_int_not_equal(access(file, F_OK), 0);
}

static void write_rows(int writer)
{
    TuneDb *d = tunedb_open(folder);
    for (int i = 0; i < ROWS; i++) {
        char kernel[32];
        snprintf(kernel, sizeof kernel, "k%d-%d", writer, i);
        put(d, kernel, "SPLIT 0 4 UPCAST", 1e-3 * writer);
        put(d, "shared", writer % 2 ? "SPLIT 0 2 UPCAST" : "SPLIT 0 8 UPCAST", 1);
    }
    tunedb_close(d);
}

static void test_writers(void **state)
{
    int status, rows = 0;
    Tuned got;
    (void)state;
    for (int w = 0; w < WRITERS; w++)
        if (!fork()) write_rows(w), _exit(0);
    for (int w = 0; w < WRITERS; w++) {
        wait(&status);
        assert_int_equal(status, 0);
    }
    TuneDb *d = tunedb_open(folder);
    for (int w = 0; w < WRITERS; w++)
        for (int i = 0; i < ROWS; i++) {
            char kernel[32];
            snprintf(kernel, sizeof kernel, "k%d-%d", w, i);
            rows += tunedb_best(d, kernel, "here", &got);
        }
    assert_int_equal(rows, WRITERS * ROWS);
    assert_true(tunedb_best(d, "shared", "here", &got));
    tunedb_close(d);
}

static void damage(const char *how)
{
    struct stat st;
    if (!strcmp(how, "text")) {
        FILE *f = fopen(file, "wb");
        fputs("this is no database, but long enough to be read as the head of one, which has a hundred bytes; so here "
              "are some more of them",
              f);
        fclose(f);
    } else if (!strcmp(how, "cut")) {
        assert_int_equal(stat(file, &st), 0);
        assert_int_equal(truncate(file, st.st_size / 2), 0);
    } else if (!strcmp(how, "zeros")) {
        FILE *f = fopen(file, "r+b");
        char zeros[3000] = { 0 };
        fseek(f, 100, SEEK_SET);
        fwrite(zeros, 1, sizeof zeros, f);
        fclose(f);
    } else if (!strcmp(how, "folder")) {
        unlink(file);
        mkdir(file, 0700);
    }
}

static void test_damage(void **state)
{
    static const char *const how[] = { "text", "cut", "zeros", "folder" };
    (void)state;
    for (size_t i = 0; i < sizeof how / sizeof *how; i++) {
        Tuned got;
        drop_folder(NULL);
        make_folder(NULL);
        write_rows(1);
        damage(how[i]);
        TuneDb *d = tunedb_open(folder);
        tunedb_best(d, "k1-1", "here", &got);
        put(d, "fresh", "SPLIT 0 4 UPCAST", 1);
        assert_true(tunedb_best(d, "fresh", "here", &got));
        assert_list(&got, "SPLIT 0 4 UPCAST");
        tunedb_close(d);
    }
}

static void test_damage_while_open(void **state)
{
    Tuned got;
    (void)state;
    write_rows(1);
    TuneDb *d = tunedb_open(folder);
    assert_true(tunedb_best(d, "k1-1", "here", &got));
    damage("text");
    put(d, "fresh", "", 1);
    tunedb_close(d);
    d = tunedb_open(folder);
    put(d, "fresh", "", 1);
    assert_true(tunedb_best(d, "fresh", "here", &got));
    tunedb_close(d);
}

static void test_no_place(void **state)
{
    Tuned got;
    TuneDb *d = tunedb_open("/dev/null/nowhere");
    (void)state;
    put(d, "k", "", 1);
    assert_true(tunedb_best(d, "k", "here", &got));
    tunedb_close(d);
}

#define IN_FOLDER(f) cmocka_unit_test_setup_teardown(f, make_folder, drop_folder)

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_FOLDER(test_rows),   IN_FOLDER(test_reading_makes_no_file), IN_FOLDER(test_writers),
        IN_FOLDER(test_damage), IN_FOLDER(test_damage_while_open),     IN_FOLDER(test_no_place)
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
