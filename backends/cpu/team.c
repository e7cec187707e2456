/* A team of threads that outlives runs: OpenMP makes them, in one parallel region that lasts as long as the team; work is handed over by a counter that they watch.
 *
 * OpenMP's own fork and join is not used for a run: how long its threads spin is read from the environment before we start and is milliseconds by default,
 * its threads are not bound, and a region costs what four of these barriers cost. Here a thread spins 200 us at most, then sleeps in the kernel.
 * Each thread is bound to a core of its own, else two of them meet on one until the next tick. The caller is thread 0: bound during a run, its mask restored after.
 * After a fork the child makes its threads again. Inside a foreign parallel region the caller works alone.
 */
#define _GNU_SOURCE
#include <linux/futex.h>
#include <omp.h>
#include <pthread.h>
#include <sched.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "backends/cpu/cpu.h"
#include "graph/base/clock.h"

enum { SPIN_NS = 200000, PAUSES = 32, YIELD_AFTER = 8 };

struct Team {
    alignas(64) atomic_uint epoch;       /* counts jobs */
    alignas(64) atomic_uint phase;       /* counts completed waits */
    alignas(64) atomic_int arrived;
    alignas(64) atomic_int sleepers;
    atomic_int given, ready, gone;       /* threads in the team, that watch, that have left */
    atomic_bool quit;
    void (*work)(void *user, int thread, int count);
    void *user;
    int count, asked, *cpu;
    pthread_t starter;
    bool started;
    pid_t pid;
};

static void pause_cpu(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
}

static void futex(atomic_uint *word, int op, unsigned value) { syscall(SYS_futex, word, op | FUTEX_PRIVATE_FLAG, value, NULL, NULL, 0); }

/* Until word is no longer old: spins, then sleeps. */
static void wait_change(Team *t, atomic_uint *word, unsigned old)
{
    int64_t start = 0;
    for (int turn = 0; atomic_load_explicit(word, memory_order_acquire) == old; turn++) {
        for (int i = 0; i < PAUSES; i++) {
            if (atomic_load_explicit(word, memory_order_acquire) != old) return;
            pause_cpu();
        }
        if (turn < YIELD_AFTER) continue;
        if (!start) start = clock_ns();
        if (clock_ns() - start < SPIN_NS) {
            sched_yield();                                       /* another program may want this core */
            continue;
        }
        atomic_fetch_add(&t->sleepers, 1);
        futex(word, FUTEX_WAIT, old);
        atomic_fetch_sub(&t->sleepers, 1);
    }
}

static void change(Team *t, atomic_uint *word, unsigned value)
{
    atomic_store(word, value);
    if (atomic_load(&t->sleepers)) futex(word, FUTEX_WAKE, 1 << 30);
}

void team_wait(Team *t)
{
    unsigned phase = atomic_load_explicit(&t->phase, memory_order_acquire);
    if (atomic_fetch_add(&t->arrived, 1) == t->count - 1) {
        atomic_store(&t->arrived, 0);
        change(t, &t->phase, phase + 1);
    } else {
        wait_change(t, &t->phase, phase);
    }
}

static void bind_to(int cpu)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    if (cpu < CPU_SETSIZE) CPU_SET((size_t)cpu, &set), sched_setaffinity(0, sizeof set, &set);
}

static void worker(Team *t, int thread)
{
    unsigned epoch = atomic_load(&t->epoch);
    bind_to(t->cpu[thread]);
    atomic_fetch_add(&t->ready, 1);
    for (;;) {
        wait_change(t, &t->epoch, epoch);
        epoch++;
        if (atomic_load(&t->quit)) break;
        t->work(t->user, thread, t->count);
        team_wait(t);
    }
    atomic_fetch_add(&t->gone, 1);
}

static void *starter(void *user)
{
    Team *t = user;
    omp_set_dynamic(0);
#pragma omp parallel num_threads(t->asked - 1)
    {
#pragma omp single
        atomic_store(&t->given, omp_get_num_threads() + 1);      /* the environment may give fewer than asked for */
        worker(t, omp_get_thread_num() + 1);
    }
    return NULL;
}

static void team_start(Team *t)
{
    t->started = true;
    t->pid = getpid();
    t->count = t->asked;
    atomic_store(&t->given, 0);
    atomic_store(&t->ready, 0);
    atomic_store(&t->gone, 0);
    atomic_store(&t->arrived, 0);
    atomic_store(&t->sleepers, 0);
    if (t->asked < 2) return;
    if (pthread_create(&t->starter, NULL, starter, t)) {
        t->count = t->asked = 1;                                 /* no thread to be had: the caller works alone */
        return;
    }
    while (!atomic_load(&t->given) || atomic_load(&t->ready) < atomic_load(&t->given) - 1) sched_yield();
    t->count = atomic_load(&t->given);                           /* the others read it when the next job is announced */
}

Team *team_new(const int *cpu, int count)
{
    Team *t = aligned_alloc(64, (sizeof *t + 63) & ~(size_t)63);
    if (!t) return NULL;
    memset(t, 0, sizeof *t);
    t->asked = t->count = count < 1 ? 1 : count;
    t->cpu = malloc(sizeof *cpu * (size_t)t->asked);
    if (!t->cpu) return free(t), NULL;
    memcpy(t->cpu, cpu, sizeof *cpu * (size_t)t->asked);
    return t;
}

void team_free(Team *t)
{
    if (!t) return;
    if (t->started && t->asked > 1 && t->pid == getpid()) {
        atomic_store(&t->quit, true);
        change(t, &t->epoch, atomic_load(&t->epoch) + 1);
        pthread_join(t->starter, NULL);
        while (atomic_load(&t->gone) < t->count - 1) sched_yield();     /* the join has waited; this says so to those who check for races */
    }
    free(t->cpu);
    free(t);
}

int team_size(const Team *t) { return t->count; }

static void run_together(Team *t, void (*work)(void *user, int thread, int count), void *user)
{
    cpu_set_t mask;
    bool bound = !sched_getaffinity(0, sizeof mask, &mask);
    bool there = bound && CPU_COUNT(&mask) == 1 && t->cpu[0] < CPU_SETSIZE && CPU_ISSET((size_t)t->cpu[0], &mask);
    t->work = work;
    t->user = user;
    change(t, &t->epoch, atomic_load(&t->epoch) + 1);
    if (bound && !there) bind_to(t->cpu[0]);
    work(user, 0, t->count);
    team_wait(t);
    if (bound && !there) sched_setaffinity(0, sizeof mask, &mask);
}

void team_run(Team *t, void (*work)(void *user, int thread, int count), void *user)
{
    bool alone = t->asked < 2 || omp_in_parallel();
    if (!alone && (!t->started || t->pid != getpid())) team_start(t);
    if (alone || t->count < 2) {
        int count = t->count;
        t->count = 1;                                            /* team_wait does not wait */
        work(user, 0, 1);
        t->count = count;
    } else {
        run_together(t, work, user);
    }
}
