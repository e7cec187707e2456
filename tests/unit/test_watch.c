/* Meters of energy: packages are added up, their parts and what is no meter are not. */
#include "tests/test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "bench/peer.h"
#include "bench/watch.h"
#include "common/clock.h"

static char folder[64];

static int make(void **state)
{
    (void)state;
    return !folder_make(folder);
}

static int drop(void **state)
{
    (void)state;
    folder_clear(folder);
    return 0;
}

static void zone(const char *name, const char *energy)
{
    char path[200];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    mkdir(path, 0700);
    static const char *const files[] = { "energy_uj", "max_energy_range_uj" };
    for (int i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "%s/%s/%s", folder, name, files[i]);
        FILE *f = fopen(path, "w");
        assert_non_null(f);
        fprintf(f, "%s\n", i ? "262143328850" : energy);
        fclose(f);
    }
}

static void energy(void **state)
{
    (void)state;
    double range;
    assert_true(isnan(energy_read("/nowhere", &range)));
    assert_true(isnan(energy_read(folder, &range)));
    zone("intel-rapl:0", "5000000");
    zone("intel-rapl:1", "2500000");
    zone("intel-rapl:0:0", "1000000");
    zone("dtpm", "1000000");
    assert_true(fabs(energy_read(folder, &range) - 7.5) < 1e-9);
    assert_true(fabs(range - 262143.32885) < 1e-6);
}

/* This process over a tenth of a second: it was busy, and nobody else had more than all processors. */
static void load(void **state)
{
    (void)state;
    double start = clock_s(), spun = 0;
    Watch w = watch_begin(getpid(), 0);
    while ((spun = clock_s() - start) < 0.1) { }
    Watched seen = watch_end(&w, getpid(), spun);
    assert_true(seen.others >= 0 && seen.others <= (double)sysconf(_SC_NPROCESSORS_CONF) + 1);
    assert_true(seen.rss_mib > 0.1 && seen.switches >= 0 && seen.throttled >= 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(energy), cmocka_unit_test(load) };
    return cmocka_run_group_tests(tests, make, drop);
}
