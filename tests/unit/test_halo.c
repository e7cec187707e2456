/* sched/halo.c: what is cleared is all that lies outside of the value, and nothing else. */
#include "sched/halo.h"
#include "tests/test.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { RANK = 5 };
static uint32_t seed = 7;
static uint32_t rnd(uint32_t n) { return (seed = seed * 1664525 + 1013904223) / 65536 % n; }

static int64_t extent(const HaloAxis *a) { return a->before + a->size + a->after; }

static bool is_inside(const HaloAxis *axis, uint32_t rank, int64_t at)
{
    for (uint32_t k = rank; k-- > 0; at /= extent(&axis[k]))
        if (at % extent(&axis[k]) < axis[k].before || at % extent(&axis[k]) >= axis[k].before + axis[k].size) return false;
    return true;
}

static void check(Arena *arena, const HaloAxis *axis, uint32_t rank, int64_t element, int parts)
{
    int64_t numel = 1;
    for (uint32_t k = 0; k < rank; k++) numel *= extent(&axis[k]);
    const Halo *h = halo_new(arena, axis, rank, element);
    assert_int_equal(h->axis[0].size * h->axis[0].stride, numel * element);
    uint8_t *data = memset(malloc((size_t)(numel * element) + 2), 0x5a, (size_t)(numel * element) + 2);
    for (int part = 0; part < parts; part++) halo_clear(h, data + 1, part, parts);
    for (int64_t i = 0; i < numel * element; i++) assert_int_equal(data[i + 1], is_inside(axis, rank, i / element) ? 0x5a : 0);
    assert_true(data[0] == 0x5a && data[numel * element + 1] == 0x5a);
    free(data);
}

static void clears_what_surrounds(void **state)
{
    (void)state;
    for (int round = 0; round < 4000; round++) {
        HaloAxis axis[RANK] = { { 0 } };
        uint32_t rank = 1 + rnd(RANK), margin = rnd(rank);
        for (uint32_t k = 0; k < rank; k++) axis[k] = (HaloAxis){ .size = rnd(6), .before = rnd(3) / 2 * rnd(4), .after = rnd(3) / 2 * rnd(4) };
        axis[margin].after += !axis[margin].before;
        Arena *arena = arena_new();
        check(arena, axis, rank, INT64_C(1) << rnd(4), 1 + (int)rnd(3));
        arena_free(arena);
    }
}

static void equal_zeros(void **state)
{
    (void)state;
    Arena *arena = arena_new();
    const HaloAxis image[] = { { .size = 8 }, { .size = 5, .before = 1, .after = 1 }, { .size = 5, .before = 1, .after = 1 } };
    const HaloAxis batch[] = { { .size = 2 }, { .size = 4 }, image[1], image[2] }, other[] = { { .size = 8 }, image[1], { .size = 5, .before = 2 } };
    const Halo *h = halo_new(arena, image, 3, 4);
    assert_true(halo_same(h, halo_new(arena, batch, 4, 4)));
    assert_false(halo_same(h, halo_new(arena, other, 3, 4)));
    assert_false(halo_same(h, halo_new(arena, image, 3, 2)));
    arena_free(arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(clears_what_surrounds), cmocka_unit_test(equal_zeros) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
