/* sched/halo.c: what is cleared is all that lies outside of the value, and nothing else. */
#include "sched/halo.h"
#include "tests/test.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { RANK = 5 };
static uint32_t seed = 7;
static uint32_t rnd(uint32_t n) { return (seed = seed * 1664525 + 1013904223) / 65536 % n; }

static int64_t extent(const HaloAxis *a) { return a->before + a->size->arg.i + a->after; }

static bool is_inside(const HaloAxis *axis, uint32_t rank, int64_t at)
{
    for (uint32_t k = rank; k-- > 0; at /= extent(&axis[k]))
        if (at % extent(&axis[k]) < axis[k].before || at % extent(&axis[k]) >= axis[k].before + axis[k].size->arg.i)
            return false;
    return true;
}

/* A halo of symbolic sizes clears like that of the numbers. */
static void clear(Graph *g, const HaloAxis *axis, uint32_t rank, int64_t element, uint8_t fill, void *data, int parts)
{
    HaloAxis symbolic[RANK];
    for (uint32_t k = 0; k < rank; k++)
        symbolic[k] = (HaloAxis){ uop_var(g, (char[]){ (char)('a' + k), 0 }, 0, 9), axis[k].before, axis[k].after };
    const Halo *numbers = halo_new(g, axis, rank, element, fill),
               *h = rnd(2) ? halo_new(g, symbolic, rank, element, fill) : numbers;
    int64_t size[HALO_RANK];
    assert_true(h->rank == numbers->rank && halo_bytes(h) >= halo_bytes(numbers));
    for (uint32_t k = 0; k < h->rank; k++) size[k] = numbers->axis[k].size->arg.i;
    for (int part = 0; part < parts; part++) halo_clear(h, size, numbers->element->arg.i, data, part, parts);
}

static void check(Graph *g, const HaloAxis *axis, uint32_t rank, int64_t element, uint8_t fill, int parts)
{
    int64_t numel = 1;
    for (uint32_t k = 0; k < rank; k++) numel *= extent(&axis[k]);
    assert_int_equal(halo_bytes(halo_new(g, axis, rank, element, fill)), numel * element);
    uint8_t *data = memset(malloc((size_t)(numel * element) + 2), 0x5a, (size_t)(numel * element) + 2);
    clear(g, axis, rank, element, fill, data + 1, parts);
    for (int64_t i = 0; i < numel * element; i++)
        assert_int_equal(data[i + 1], is_inside(axis, rank, i / element) ? 0x5a : fill);
    assert_true(data[0] == 0x5a && data[numel * element + 1] == 0x5a);
    free(data);
}

static void clears_what_surrounds(void **state)
{
    (void)state;
    for (int round = 0; round < 4000; round++) {
        HaloAxis axis[RANK] = { { 0 } };
        uint32_t rank = 1 + rnd(RANK), margin = rnd(rank);
        Graph *g = graph_new();
        for (uint32_t k = 0; k < rank; k++)
            axis[k] = (HaloAxis){ uop_index(g, rnd(6)), rnd(3) / 2 * rnd(4), rnd(3) / 2 * rnd(4) };
        axis[margin].after += !axis[margin].before;
        check(g, axis, rank, INT64_C(1) << rnd(4), rnd(2) ? 0 : (uint8_t)rnd(256), 1 + (int)rnd(3));
        graph_free(g);
    }
}

static void equal_zeros(void **state)
{
    (void)state;
    Graph *g = graph_new();
    const UOp *two = uop_index(g, 2), *four = uop_index(g, 4), *five = uop_index(g, 5), *eight = uop_index(g, 8),
              *n = uop_var(g, "n", 1, 5);
    const HaloAxis image[] = { { eight, 0, 0 }, { five, 1, 1 }, { five, 1, 1 } },
                   batch[] = { { two, 0, 0 }, { four, 0, 0 }, image[1], image[2] };
    const HaloAxis other[] = { { eight, 0, 0 }, image[1], { five, 2, 0 } },
                   symbolic[] = { { eight, 0, 0 }, image[1], { n, 1, 1 } };
    const Halo *h = halo_new(g, image, 3, 4, 0);
    assert_true(halo_same(h, halo_new(g, batch, 4, 4, 0)));
    assert_false(halo_same(h, halo_new(g, other, 3, 4, 0)));
    assert_false(halo_same(h, halo_new(g, image, 3, 2, 0)));
    assert_false(halo_same(h, halo_new(g, image, 3, 4, 128)));
    assert_false(halo_same(h, halo_new(g, symbolic, 3, 4, 0)));
    graph_free(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(clears_what_surrounds), cmocka_unit_test(equal_zeros) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
