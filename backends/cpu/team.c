/* A team of threads that outlives runs: OpenMP makes them, in one parallel region that lasts as long as the team.
 *
 * A job is a row of phases (team_run). Those of one part are the caller's; the others have a part for each thread.
 * Thread i claims part i, and whoever finishes the last part of a phase begins the next: nobody waits for a thread that
 * has not begun. One that has done its own part and waited a little claims parts whose threads have not come: another
 * program has their core, or they are still being woken. A part that was begun is waited for. Part 0 is never claimed
 * by another thread: it may leave a message in the caller's memory.
 *
 * OpenMP's own fork and join is not used for a run: how long its threads spin is read from the environment before we
 * start and is milliseconds by default, its threads are not bound, and a region costs what four of these phases cost.
 * Here a thread spins 200 us at most, then sleeps in the kernel. Each thread is bound to a core of its own, else two of
 * them meet on one until the next tick; the caller, thread 0, is bound during a run, and its mask restored after. That
 * takes 4 us: it is left out where runs are short and the caller is on none of the others' cores. Where threads are
 * late again and again others use these cores: then none is bound, until all has been quiet for a while.
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
#include "common/clock.h"

enum {
    SPIN_NS = 200000,
    CROWDED_SPIN_NS = 10000,
    PAUSES = 32,
    LATE_NS = 5000,
    LATE_MOST = 4,
    STRAIN_MOST = 8,
    SHORT_NS = 200000
};

/* The last phases of which somebody took the part, and which its own thread saw. */
typedef struct { alignas(64) atomic_uint claimed; atomic_uint seen; } Part;

struct Team {
    alignas(64) atomic_uint phase;       /* counts phases, times two; plus one where it has parts for all */
    alignas(64) atomic_int done;         /* parts of the phase */
    alignas(64) atomic_int sleepers;
    atomic_int given, ready, gone;       /* threads in the team, that watch, that have left */
    atomic_int late;                     /* parts that were claimed by others lately */
    atomic_bool quit, over, crowded;     /* over: the job has no more phases; crowded: nobody is bound */
    TeamJob job;
    Part *part;
    cpu_set_t allowed;                   /* the caller's cores when the threads were made */
    atomic_uint first;                   /* phase of the job */
    int count, wanted, strain, *cpu;      /* strain: how many more jobs had late threads than had none, lately */
    int64_t last_ns;                      /* what the last job took */
    pthread_t starter;
    bool started;
    pid_t pid;
};

static void pause_cpu(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

static void futex(atomic_uint *word, int op, unsigned value)
{
    syscall(SYS_futex, word, op | FUTEX_PRIVATE_FLAG, value, NULL, NULL, 0);
}

static void publish(Team *t, unsigned phase)
{
    atomic_store(&t->phase, phase);
    if (atomic_load(&t->sleepers)) futex(&t->phase, FUTEX_WAKE, 1 << 30);
}

/* ---- phases ---- */

static bool is_wide(unsigned phase) { return phase & 1; }

/* The next phase of the job, or its end. */
static void advance(Team *t, unsigned phase)
{
    TeamParts parts = t->job.next(t->job.user);
    atomic_store(&t->done, 0);
    atomic_store(&t->over, parts == TEAM_OVER);
    publish(t, (phase | 1) + 1 + (parts == TEAM_ALL));
}

static void finish(Team *t, unsigned phase)
{
    if (atomic_fetch_add(&t->done, 1) + 1 == (is_wide(phase) ? t->count : 1)) advance(t, phase);
}

/* A part that is not claimed in this phase was claimed in an earlier one; then the phase still goes on, since it has
 * not ended without this part. */
static bool claim(Team *t, int part, unsigned phase)
{
    unsigned was = atomic_load(&t->part[part].claimed);
    return (int)(phase - was) > 0 && atomic_compare_exchange_strong(&t->part[part].claimed, &was, phase);
}

static void do_part(Team *t, int part, unsigned phase)
{
    t->job.part(t->job.user, part, t->count);
    finish(t, phase);
}

/* Parts of threads that have not come. One that has taken part in this job was awake: something else has its core. */
static void help(Team *t, unsigned phase)
{
    for (int i = 1; i < t->count && atomic_load(&t->phase) == phase; i++) {
        bool awake = (int)(atomic_load(&t->part[i].seen) - atomic_load(&t->first)) >= 0;
        if (!claim(t, i, phase)) continue;
        if (awake) atomic_fetch_add(&t->late, 1);
        do_part(t, i, phase);
    }
}

/* Until the phase is over: spins, helps, then sleeps. */
static void wait_phase(Team *t, unsigned phase)
{
    int64_t start = 0;
    bool helps = is_wide(phase);
    while (atomic_load_explicit(&t->phase, memory_order_acquire) == phase) {
        for (int i = 0; i < PAUSES; i++) {
            if (atomic_load_explicit(&t->phase, memory_order_acquire) != phase) return;
            pause_cpu();
        }
        int64_t now = clock_ns();
        if (!start) start = now;
        if (helps && now - start > LATE_NS) help(t, phase), helps = false;
        /* a yield would give the core away for a whole slice */
        if (now - start < (atomic_load_explicit(&t->crowded, memory_order_relaxed) ? CROWDED_SPIN_NS : SPIN_NS))
            continue;
        atomic_fetch_add(&t->sleepers, 1);
        futex(&t->phase, FUTEX_WAIT, phase);
        atomic_fetch_sub(&t->sleepers, 1);
    }
}

/* What a thread does with the phase that it sees. */
static void take_part(Team *t, int thread, unsigned phase)
{
    atomic_store_explicit(&t->part[thread].seen, phase, memory_order_relaxed);
    if (is_wide(phase) ? thread == 0 || claim(t, thread, phase) : thread == 0) do_part(t, thread, phase);
    wait_phase(t, phase);
}

/* ---- threads ---- */

static void bind_to(int cpu)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    if (cpu < CPU_SETSIZE) CPU_SET((size_t)cpu, &set), sched_setaffinity(0, sizeof set, &set);
}

static void worker(Team *t, int thread)
{
    bool bound = false, crowded;
    unsigned phase = atomic_load(&t->phase);
    atomic_fetch_add(&t->ready, 1);
    while (!atomic_load(&t->quit)) {
        if (bound != !(crowded = atomic_load(&t->crowded))) {
            if (crowded) sched_setaffinity(0, sizeof t->allowed, &t->allowed);
            else bind_to(t->cpu[thread]);
            bound = !crowded;
        }
        take_part(t, thread, phase);
        phase = atomic_load_explicit(&t->phase, memory_order_acquire);
    }
    atomic_fetch_add(&t->gone, 1);
}

static void *starter(void *user)
{
    Team *t = user;
    omp_set_dynamic(0);
#pragma omp parallel num_threads(t->wanted - 1)
    {
#pragma omp single
        atomic_store(&t->given, omp_get_num_threads() + 1);      /* the environment may give fewer than requested */
        worker(t, omp_get_thread_num() + 1);
    }
    return NULL;
}

static void team_start(Team *t)
{
    t->started = true;
    t->pid = getpid();
    t->count = t->wanted;
    atomic_store(&t->given, 0);
    atomic_store(&t->ready, 0);
    atomic_store(&t->gone, 0);
    atomic_store(&t->sleepers, 0);
    atomic_store(&t->phase, atomic_load(&t->phase) & ~1u);       /* nothing to do */
    if (sched_getaffinity(0, sizeof t->allowed, &t->allowed)) atomic_store(&t->crowded, true);
    if (t->wanted < 2) return;
    if (pthread_create(&t->starter, NULL, starter, t)) {
        t->count = t->wanted = 1;                                 /* no thread to be had: the caller works alone */
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
    t->wanted = t->count = count < 1 ? 1 : count;
    t->cpu = malloc(sizeof *cpu * (size_t)t->wanted);
    t->part = aligned_alloc(64, sizeof *t->part * (size_t)t->wanted);
    if (!t->cpu || !t->part) {
        free(t->cpu);
        free(t->part);
        return free(t), NULL;
    }
    memcpy(t->cpu, cpu, sizeof *cpu * (size_t)t->wanted);
    memset(t->part, 0, sizeof *t->part * (size_t)t->wanted);
    return t;
}

void team_free(Team *t)
{
    if (!t) return;
    if (t->started && t->wanted > 1 && t->pid == getpid()) {
        atomic_store(&t->quit, true);
        publish(t, atomic_load(&t->phase) + 2);
        pthread_join(t->starter, NULL);
        /* the join has waited; this says so to those who check for races */
        while (atomic_load(&t->gone) < t->count - 1) sched_yield();
    }
    free(t->part);
    free(t->cpu);
    free(t);
}

int team_size(const Team *t) { return t->count; }

/* ---- jobs ---- */

/* Do others use these cores? Jobs in which threads were late count up, those in which none was count down. */
static void look_around(Team *t)
{
    int late = atomic_exchange(&t->late, 0);
    if (late >= LATE_MOST && t->strain < STRAIN_MOST) t->strain++;
    else if (!late && t->strain) t->strain--;
    if (t->strain == STRAIN_MOST) atomic_store(&t->crowded, true);
    else if (!t->strain) atomic_store(&t->crowded, false);
}

static void all_phases(Team *t)
{
    atomic_store(&t->over, false);
    atomic_store(&t->first, (atomic_load(&t->phase) | 1) + 1);
    for (advance(t, atomic_load(&t->phase)); !atomic_load(&t->over);)
        take_part(t, 0, atomic_load_explicit(&t->phase, memory_order_acquire));
}

/* Is the caller on a core of its own? */
static bool is_elsewhere(const Team *t)
{
    int cpu = sched_getcpu();
    for (int i = 1; i < t->count; i++)
        if (t->cpu[i] == cpu) return false;
    return cpu >= 0;
}

static void run_together(Team *t)
{
    cpu_set_t mask;
    bool stays = atomic_load(&t->crowded) || (t->last_ns < SHORT_NS && is_elsewhere(t)),
         bound = !stays && !sched_getaffinity(0, sizeof mask, &mask);
    int64_t start = clock_ns();
    bool there = bound && CPU_COUNT(&mask) == 1 && t->cpu[0] < CPU_SETSIZE && CPU_ISSET((size_t)t->cpu[0], &mask);
    if (bound && !there) bind_to(t->cpu[0]);
    all_phases(t);
    t->last_ns = clock_ns() - start;
    if (bound && !there) sched_setaffinity(0, sizeof mask, &mask);
    look_around(t);
}

void team_run(Team *t, const TeamJob *job)
{
    bool alone = t->wanted < 2 || omp_in_parallel();
    if (!alone && (!t->started || t->pid != getpid())) team_start(t);
    if (alone || t->count < 2) {
        while (job->next(job->user) != TEAM_OVER) job->part(job->user, 0, 1);
        return;
    }
    t->job = *job;
    run_together(t);
}
