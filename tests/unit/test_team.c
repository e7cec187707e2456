/* Threads that wait together: every part runs once, waits separate phases, masks come back, a child after fork works, a foreign parallel region runs alone. */
#define _GNU_SOURCE
#include <omp.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "backends/cpu/cpu.h"
#include "tests/test.h"

typedef struct { Team *team; atomic_int ran, phase[64]; int count, bad; } Job;

static void phases(void *user, int thread, int count)
{
    Job *j = user;
    atomic_fetch_add(&j->ran, 1);
    if (!thread) j->count = count;
    for (int i = 0; i < 64; i++) {
        atomic_fetch_add(&j->phase[i], 1);
        if (count > 1) team_wait(j->team);
        if (atomic_load(&j->phase[i]) != count) j->bad = 1;
    }
}

static Team *team_of(int n)
{
    cpu_set_t set;
    int cpu[8], have = 0;
    sched_getaffinity(0, sizeof set, &set);
    for (int i = 0; i < CPU_SETSIZE && have < n; i++)
        if (CPU_ISSET(i, &set)) cpu[have++] = i;
    for (int i = have; i < n; i++) cpu[i] = cpu[i % have];       /* more threads than cores must still be right */
    return team_new(cpu, n);
}

static void run_phases(Team *t, int expected)
{
    Job j;
    memset(&j, 0, sizeof j);
    j.team = t;
    team_run(t, phases, &j);
    assert_int_equal(j.bad, 0);
    assert_int_equal(j.ran, expected);
    assert_int_equal(j.count, expected);
}

static void all_phases_match(void **state)
{
    (void)state;
    for (int n = 1; n <= 4; n++) {
        Team *t = team_of(n);
        for (int i = 0; i < 50; i++) run_phases(t, n);
        usleep(2000);                                            /* longer than they spin: they sleep and wake */
        run_phases(t, n);
        team_free(t);
    }
}

static void mask_is_restored(void **state)
{
    (void)state;
    cpu_set_t before, after;
    Team *t = team_of(2);
    sched_getaffinity(0, sizeof before, &before);
    run_phases(t, 2);
    sched_getaffinity(0, sizeof after, &after);
    assert_true(CPU_EQUAL(&before, &after));
    team_free(t);
}

#ifndef __SANITIZE_THREAD__
static void child_after_fork(void **state)
{
    (void)state;
    int status;
    Team *t = team_of(2);
    run_phases(t, 2);
    pid_t pid = fork();
    if (!pid) {
        Job j;
        memset(&j, 0, sizeof j);
        j.team = t;
        alarm(20);
        team_run(t, phases, &j);
        team_free(t);
        _exit(j.ran == 2 && !j.bad ? 0 : 1);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    run_phases(t, 2);
    team_free(t);
}

static void alone_in_a_foreign_region(void **state)
{
    (void)state;
    Team *t[2] = { team_of(2), team_of(2) };
    atomic_int bad = 0;
#pragma omp parallel num_threads(2)
    {
        Job j;
        memset(&j, 0, sizeof j);
        j.team = t[omp_get_thread_num()];
        team_run(j.team, phases, &j);
        if (omp_get_num_threads() > 1 && j.ran != 1) bad = 1;
    }
    assert_int_equal(bad, 0);
    team_free(t[0]);
    team_free(t[1]);
}

#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_phases_match),
        cmocka_unit_test(mask_is_restored),
#ifndef __SANITIZE_THREAD__             /* which knows neither threads after fork nor OpenMP's own barriers */
        cmocka_unit_test(child_after_fork),
        cmocka_unit_test(alone_in_a_foreign_region),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
