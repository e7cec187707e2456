/* Attempts (memory.h): what is freed when one fails, what stays when it ends well, what was made for something older,
 * and the order in which what is no memory is undone. Under AddressSanitizer a block that is lost is an error. */
#include "graph/base/memory.h"
#include "tests/test.h"

#include <pthread.h>
#include <stdint.h>
#include <string.h>

#include "graph/base/arena.h"

static const size_t NONE = SIZE_MAX / 2;        /* bytes that no machine has */
static char order[8];
static size_t undone;
static char *older, *made;
static Arena *arena;

static void note(void *letter) { order[undone++] = *(const char *)letter; }

static TgStatus fails(void)
{
    Undo a, b, c;
    undo_push(&a, note, "a");
    made = mem_new(10);
    undo_push(&b, note, "b");
    made = mem_grow(made, 100000);
    undo_push(&c, note, "c");
    undo_pop(&c);
    arena_alloc(arena, 50000);                  /* stays: the arena is older */
    older = mem_grow_beside(arena, older, 3000);
    mem_zeros(2, NONE);
    return TG_OK;
}

static void gives_back(void **state)
{
    (void)state;
    TgStatus status;
    arena = arena_new();
    older = mem_text("older");
    undone = 0;
    ATTEMPT(status, fails());
    assert_int_equal(status, TG_LIMIT);
    assert_non_null(strstr(tg_error(), "out of memory"));
    assert_int_equal(undone, 2);
    assert_memory_equal(order, "ba", 2);
    assert_string_equal(older, "older");
    assert_null(attempt_now());
    assert_true(arena_bytes(arena) >= 50000);
    mem_free(older);
    arena_free(arena);
}

static TgStatus keeps(Arena **out)
{
    *out = arena_new();
    made = mem_text("made");
    return arena_printf(*out, "%s", made) ? TG_OK : TG_INTERNAL;
}

/* What an attempt within has made is this one's; what one alone has made is nobody's. */
static TgStatus within(bool alone)
{
    TgStatus status;
    char *kept = mem_text("kept");
    mem_keep(kept);
    older = kept;
    if (alone) ATTEMPT_ALONE(status, keeps(&arena));
    else ATTEMPT(status, keeps(&arena));
    assert_int_equal(status, TG_OK);
    attempt_fail(0);
}

static void fails_around(bool alone)
{
    TgStatus status;
    ATTEMPT(status, within(alone));
    assert_int_equal(status, TG_LIMIT);
    assert_string_equal(older, "kept");
    mem_free(older);
}

static void inherits(void **state)
{
    (void)state;
    TgStatus status;
    fails_around(false);
    fails_around(true);
    assert_string_equal(made, "made");
    mem_free(made);
    arena_free(arena);
    ATTEMPT(status, keeps(&arena));
    assert_int_equal(status, TG_OK);
    made = mem_grow(made, 1 << 20);
    mem_free(made);
    arena_free(arena);
}

/* A thread that works for an attempt leaves its blocks to it, and may free what that has made. */
static void *work(void *around)
{
    TgStatus status;
    ATTEMPT_FOR(around, status, keeps(&arena));
    mem_free(older);
    return (void *)(uintptr_t)status;
}

static TgStatus work_for(void)
{
    pthread_t thread;
    void *status;
    older = mem_text("older");
    assert_int_equal(pthread_create(&thread, NULL, work, attempt_now()), 0);
    pthread_join(thread, &status);
    assert_ptr_equal(status, NULL);
    arena_alloc(arena, 100);
    attempt_fail(0);
}

static void threads(void **state)
{
    (void)state;
    TgStatus status;
    ATTEMPT(status, work_for());
    assert_int_equal(status, TG_LIMIT);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(gives_back), cmocka_unit_test(inherits),
                                        cmocka_unit_test(threads) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
