/* TgOptions.stop, call_limit_s, log: a call that is stopped at any of its steps of progress leaves a session that is as
 * good as new; what the library has to say is said to the caller alone. */
#include "tests/test.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/clock.h"
#include "graph/base/watcher.h"
#include "tests/pbtext.h"

/* y = Softmax(x + x) over axis 1 of f32[n,7]; sums of another axis beside it: several kernels */
#define DIM_N "2{1{1:1 2{1{2:'n'} 1{1:7}}}}"
static const char several[] =
    "1:8 8{2:13} 7{1{1:'x' 1:'x' 2:'t' 4:'Add'} 1{1:'t' 2:'s' 4:'Softmax' 5{1:'axis' 3:1 20:2}} "
    "1{1:'s' 2:'u' 4:'ReduceSum'} 1{1:'s' 1:'u' 2:'y' 4:'Mul'} 11{1:'x' " DIM_N "} 12{1:'y' " DIM_N "}}";
/* a loop of 2^40 iterations of v = v + 1 */
static const char endless[] =
    "1:8 8{2:13} 7{1{1:'m' 1:'' 1:'x' 2:'y' 4:'Loop' 5{1:'body' 20:5 6{"
    "1{1:'c' 2:'c2' 4:'Identity'} 1{1:'v' 1:'v' 2:'v2' 4:'Add'} "
    "11{1:'i' 2{1{1:7 2{}}}} 11{1:'c' 2{1{1:9 2{}}}} 11{1:'v' 2{1{1:1 2{1{1:4}}}}} "
    "12{1:'c2' 2{1{1:9 2{}}}} 12{1:'v2' 2{1{1:1 2{1{1:4}}}}}}}} "
    "5{2:7 8:'m' 7:1099511627776} 11{1:'x' 2{1{1:1 2{1{1:4}}}}} 12{1:'y' 2{1{1:1 2{1{1:4}}}}}}";

enum { ROWS = 5, ALL = ROWS * 7 };
static int32_t flag, steps, stop_at;
static char said[4000];

static void count_step(void *user, const char *what, double done, double total)
{
    (void)user, (void)what, (void)done, (void)total;
    if (++steps == stop_at) flag = 1;
}

static void keep_line(void *user, const char *line)
{
    assert_null(strchr(line, '\n'));
    snprintf((char *)user + strlen(user), sizeof said - strlen(user), "%s\n", line);
}

static TgOptions options_of(const char *device)
{
    TgOptions o;
    tg_options_default(&o);
    o.device = device, o.no_cache = 1, o.compiler = strcmp(device, "cpu") ? NULL : "cc";
    o.progress = count_step, o.stop = &flag, o.log = keep_line, o.log_user = said;
    flag = steps = stop_at = 0, *said = 0;
    return o;
}

static TgSession *open_text(const char *text, const TgOptions *o)
{
    TgSession *s = NULL;
    static Text bytes;                              /* the session's as long as it lives */
    text_free(&bytes);
    bytes = pb_text(text);
    if (tg_open_memory(&s, bytes.s, bytes.len, NULL, o) != TG_OK) print_error("%s\n", tg_error());
    return s;
}

static float data[ALL];
static TgTensor input(int32_t rows)
{
    for (int i = 0; i < ALL; i++) data[i] = (float)(i % 11) / 8;
    return (TgTensor){ .type = TG_F32, .rank = 2, .shape = { rows, 7 }, .data = data, .size_bytes = (size_t)rows * 28 };
}

static void check_run(TgSession *s, const float *want)
{
    TgTensor x = input(ROWS), y;
    assert_int_equal(tg_run(s, &x, 1, &y), TG_OK);
    assert_memory_equal(y.data, want, sizeof data);
}

/* Stopped at every step in turn: the next call is right. */
static void stopped_anywhere(void **state)
{
    (void)state;
    static const char *const device[] = { "reference", "cpu" };
    for (int d = 0; d < 2; d++) {
        TgOptions o = options_of(device[d]);
        TgTensor x = input(ROWS), y;
        float want[ALL];
        TgSession *s = open_text(several, &o);
        assert_int_equal(tg_run(s, &x, 1, &y), TG_OK);
        memcpy(want, y.data, sizeof want);
        tg_close(s);
        int32_t all = steps, stops = 0;
        assert_true(all > 3);
        for (int32_t at = 1; at <= all; at += d ? 1 + all / 12 : 1) {       /* a compiler is waited for in many */
            o = options_of(device[d]);
            s = open_text(several, &o);
            stop_at = at;
            TgStatus status = tg_run(s, &x, 1, &y);
            assert_true(status == TG_OK || status == TG_STOPPED);
            stops += status == TG_STOPPED;
            if (status) assert_non_null(strstr(tg_error(), "stopped"));
            if (flag) assert_int_equal(tg_run(s, &x, 1, &y), TG_STOPPED);
            if (flag) assert_int_equal(tg_prepare(s, &x, 1), TG_STOPPED);
            flag = stop_at = 0;
            check_run(s, want);
            tg_close(s);
        }
        assert_true(stops > 2);
    }
}

static void *raise_flag(void *user)
{
    (void)user;
    usleep(50000);
    __atomic_store_n(&flag, 1, __ATOMIC_RELAXED);
    return NULL;
}

/* By another thread, out of a run without an end; and by time. */
static void endless_runs_end(void **state)
{
    (void)state;
    static const char *const device[] = { "reference", "cpu" };
    for (int d = 0; d < 2; d++)
        for (int late = 0; late < 2; late++) {
            pthread_t thread;
            float v[4] = { 0 };
            TgTensor x = { .type = TG_F32, .rank = 1, .shape = { 4 }, .data = v, .size_bytes = sizeof v }, y;
            TgOptions o = options_of(device[d]);
            o.call_limit_s = late ? 1.5 : 0;
            TgSession *s = open_text(endless, &o);
            assert_non_null(s);
            double start = clock_s();
            if (!late) assert_int_equal(pthread_create(&thread, NULL, raise_flag, NULL), 0);
            assert_int_equal(tg_run(s, &x, 1, &y), late ? TG_TIMEOUT : TG_STOPPED);
            if (!late) pthread_join(thread, NULL);
            assert_true(clock_s() - start < 10);
            tg_close(s);
        }
}

static void stopped_load(void **state)
{
    (void)state;
    TgOptions o = options_of("reference");
    Text bytes = pb_text(several);
    TgSession *s = NULL;
    flag = 1;
    assert_int_equal(tg_open_memory(&s, bytes.s, bytes.len, NULL, &o), TG_STOPPED);
    assert_null(s);
    text_free(&bytes);
}

/* Nothing goes to the process's streams. */
static void lines_go_to_the_caller(void **state)
{
    (void)state;
    int kept = dup(STDERR_FILENO), ends[2];
    char got[100];
    assert_int_equal(pipe(ends), 0);
    TgOptions o = options_of("reference");
    o.verbose = 1;
    TgTensor x = input(ROWS), y;
    dup2(ends[1], STDERR_FILENO);
    TgSession *s = open_text(several, &o);
    TgStatus status = tg_run(s, &x, 1, &y);
    x = input(ROWS - 1);
    if (!status) status = tg_run(s, &x, 1, &y);
    tg_close(s);
    fflush(stderr);
    dup2(kept, STDERR_FILENO);
    close(ends[1]), close(kept);
    assert_int_equal(status, TG_OK);
    assert_int_equal(read(ends[0], got, sizeof got), 0);
    close(ends[0]);
    assert_non_null(strstr(said, "is a variable: 1..1024, step 1\n"));
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(stopped_anywhere), cmocka_unit_test(endless_runs_end),
                                        cmocka_unit_test(stopped_load), cmocka_unit_test(lines_go_to_the_caller) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
