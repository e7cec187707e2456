/* A team: every part of a phase runs once, part 0 on the caller, parts of threads that do not come are done by others,
 * masks come back, a child after fork works, a foreign parallel region runs alone. */
#define _GNU_SOURCE
#include <omp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "backends/cpu/cpu.h"
#include "common/clock.h"
#include "tests/test.h"

enum { PHASES = 64 };
typedef struct { atomic_int ran[PHASES], alone; int phase, count, bad; pthread_t caller; } Job;

/* Every third phase is the caller's. */
static TeamParts next(void *user)
{
    Job *j = user;
    if (j->phase >= 0 && atomic_load(&j->ran[j->phase]) != (j->phase % 3 ? j->count : 1)) j->bad = 1;
    return ++j->phase == PHASES ? TEAM_OVER : j->phase % 3 ? TEAM_ALL : TEAM_ONE;
}

static void part(void *user, int part, int parts)
{
    Job *j = user;
    if (parts != j->count || (!part && !pthread_equal(pthread_self(), j->caller))) j->bad = 1;
    atomic_fetch_add(&j->ran[j->phase], 1);
}

static int run(Team *t, int expected)
{
    Job j = { .phase = -1, .count = expected, .caller = pthread_self() };
    team_run(t, &(TeamJob){ next, part, &j });
    return j.bad || j.phase != PHASES;
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

static void run_phases(Team *t, int expected) { assert_int_equal(run(t, expected), 0); }

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
/* Two programs that never wait, on the cores of the team: what its threads do not come for is done by the others, and
 * 200 jobs of 64 phases take far less than a slice of the scheduler each. */
static void others_use_the_cores(void **state)
{
    (void)state;
    pid_t busy[2];
    Team *t = team_of(2);
    run_phases(t, 2);
    for (int i = 0; i < 2; i++)
        if (!(busy[i] = fork()))
            for (alarm(60);;) { }
    int64_t start = clock_ns();
    for (int i = 0; i < 200; i++) run_phases(t, 2);
    int64_t took = clock_ns() - start;
    for (int i = 0; i < 2; i++) {
        kill(busy[i], SIGKILL);
        waitpid(busy[i], NULL, 0);
    }
    assert_true(took < INT64_C(25000000000));
    team_free(t);
}

static void child_after_fork(void **state)
{
    (void)state;
    if (getenv("EMULATED")) skip();         /* qemu 7.2 stops at a thread of a child */
    int status;
    Team *t = team_of(2);
    run_phases(t, 2);
    pid_t pid = fork();
    if (!pid) {
        alarm(20);
        int bad = run(t, 2);
        team_free(t);
        _exit(bad);
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
        if (run(t[omp_get_thread_num()], omp_get_num_threads() > 1 ? 1 : 2)) bad = 1;
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
        cmocka_unit_test(others_use_the_cores),
        cmocka_unit_test(child_after_fork),
        cmocka_unit_test(alone_in_a_foreign_region),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
