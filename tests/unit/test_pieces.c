/* Pieces of a loop: every place is taken once, by as many threads as come. */
#include <pthread.h>
#include <stdatomic.h>

#include "backends/cpu/cpu.h"
#include "tests/test.h"

enum { THREADS = 4, PLACES = 5000 };

typedef struct { LoopPiece *piece; atomic_int *taken, *odd; int64_t n, grain; int thread; } Taker;

/* Thread 0 waits now and then, so that others take of its piece. */
static void *take(void *user)
{
    const Taker *t = user;
    int64_t first, end;
    while (pieces_take(t->piece, t->thread, THREADS, t->grain, &first, &end)) {
        if (first >= end || first < 0 || end > t->n) atomic_fetch_add(t->odd, 1);
        for (int64_t i = first; i < end; i++) atomic_fetch_add(&t->taken[i], 1);
        for (atomic_int wait = 0; !t->thread && wait < 2000; wait++) { }
    }
    return NULL;
}

/* `come` of the threads that it was dealt to take. */
static void take_all(int64_t n, int64_t grain, int come)
{
    static LoopPiece piece[THREADS];
    static atomic_int taken[PLACES];
    atomic_int odd = 0;
    pthread_t thread[THREADS];
    Taker taker[THREADS];
    for (int i = 0; i < n; i++) atomic_store(&taken[i], 0);
    assert_true(pieces_deal(piece, THREADS, n));
    for (int i = 0; i < come; i++) {
        taker[i] = (Taker){ piece, taken, &odd, n, grain, i };
        assert_int_equal(pthread_create(&thread[i], NULL, take, &taker[i]), 0);
    }
    for (int i = 0; i < come; i++) pthread_join(thread[i], NULL);
    assert_int_equal(atomic_load(&odd), 0);
    for (int i = 0; i < n; i++) assert_int_equal(atomic_load(&taken[i]), 1);
}

static void every_place_once(void **state)
{
    (void)state;
    static const int64_t sizes[] = { 0, 1, 3, 4, 97, 192, PLACES };
    for (int repeat = 0; repeat < 20; repeat++)
        for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++)
            for (int come = 1; come <= THREADS; come++) {
                take_all(sizes[k], 1, come);
                take_all(sizes[k], 7, come);
            }
}

/* A thread alone begins with its own piece and goes on with the largest of the others, from its end. */
static void own_piece_first(void **state)
{
    (void)state;
    LoopPiece piece[2];
    int64_t first, end;
    assert_true(pieces_deal(piece, 2, 80));
    assert_true(pieces_take(piece, 0, 2, 5, &first, &end));
    assert_true(first == 0 && end == 10);
    while (end < 40) {
        int64_t at = end;
        assert_true(pieces_take(piece, 0, 2, 5, &first, &end));
        assert_true(first == at && end % 5 == 0);
    }
    assert_true(pieces_take(piece, 0, 2, 5, &first, &end));
    assert_true(first == 60 && end == 65);
    assert_false(pieces_deal(piece, 2, INT64_C(1) << 33));
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(every_place_once), cmocka_unit_test(own_piece_first) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
