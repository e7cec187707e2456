/* Pieces of work from several threads (parallel.h): each is done once, what they make belongs to the attempt, and a
 * thread that lacks memory, or a watcher that ends the work, leaves the rest undone. */
#include "graph/base/parallel.h"
#include "tests/test.h"

#include <stdatomic.h>
#include <stdint.h>
#include <string.h>

#include "graph/base/memory.h"
#include "graph/base/watcher.h"

enum { PIECES = 200 };
static const size_t NONE = SIZE_MAX / 2;        /* bytes that no machine has */
static atomic_int times[PIECES];
static char *made[PIECES];
static int32_t stop;

static void clear(void)
{
    for (int i = 0; i < PIECES; i++) atomic_store(&times[i], 0), made[i] = NULL;
}

static int done(void)
{
    int n = 0;
    for (int i = 0; i < PIECES; i++) n += atomic_load(&times[i]);
    return n;
}

static void make(void *user, uint32_t i)
{
    made[i] = mem_text(user);
    atomic_fetch_add(&times[i], 1);
}

static TgStatus make_all(uint32_t threads, TgStatus status)
{
    assert_true(parallel_for(threads, PIECES, make, (void *)(uintptr_t) "piece"));
    for (int i = 0; i < PIECES; i++) assert_string_equal(made[i], "piece");
    return status;
}

static TgStatus attempted(uint32_t threads)
{
    TgStatus status;
    ATTEMPT(status, make_all(threads, TG_OK));
    return status;
}

/* Under AddressSanitizer a block that the failed attempt loses is an error. */
static void each_once(void **state)
{
    (void)state;
    for (uint32_t threads = 1; threads <= 5; threads++) {
        clear();
        assert_int_equal(attempted(threads), TG_OK);
        for (int i = 0; i < PIECES; i++) {
            assert_int_equal(atomic_load(&times[i]), 1);
            mem_free(made[i]);
        }
    }
    assert_true(parallel_for(3, 0, make, NULL));
}

static TgStatus make_and_fail(void)
{
    make_all(3, TG_OK);
    mem_new(NONE);
    return TG_OK;
}

static void belongs_to_the_attempt(void **state)
{
    (void)state;
    TgStatus status;
    clear();
    ATTEMPT(status, make_and_fail());
    assert_int_equal(status, TG_LIMIT);
    assert_int_equal(done(), PIECES);
}

static void lack(void *user, uint32_t i)
{
    (void)user;
    if (i == 20 || i == 30) mem_new(NONE);
    atomic_fetch_add(&times[i], 1);
}

static void a_thread_lacks_memory(void **state)
{
    (void)state;
    clear();
    assert_false(parallel_for(4, PIECES, lack, NULL));
    assert_true(done() >= 20 && done() <= PIECES - 2);
    status_clear();
    clear();
    assert_false(parallel_for(1, PIECES, lack, NULL));
    assert_int_equal(done(), 20);
    status_clear();
}

static void stop_at_ten(void *user, uint32_t i)
{
    (void)user;
    atomic_fetch_add(&times[i], 1);
    if (i >= 10) __atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
}

static void the_watcher_ends_it(void **state)
{
    (void)state;
    clear();
    Watcher before = watcher_set((Watcher){ .stop = &stop });
    assert_true(parallel_for(2, PIECES, stop_at_ten, NULL));
    assert_true(done() >= 11 && done() < PIECES);
    assert_int_equal(watch_check(), TG_STOPPED);
    status_clear();
    watcher_set(before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_once), cmocka_unit_test(belongs_to_the_attempt), cmocka_unit_test(a_thread_lacks_memory),
        cmocka_unit_test(the_watcher_ends_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
