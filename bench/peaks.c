/* Each peak is the fastest of some tries in which every thread does the same at the same time. Sums of independent
 * terms, as many as hide the latency of a multiply-add; bytes are read in lines, in order. */
#define _GNU_SOURCE
#include "bench/peaks.h"

#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/clock.h"

enum { THREADS_MOST = 256, TRIES = 5, LINE = 64 };
static const double TRY_S = 0.01;
static const int64_t MEMORY_MOST = 1ll << 30;

const char *const level_name[LEVELS] = { "L2", "L3", "memory" };

/* ---- what a thread does: `n` iterations, and what one of them is worth ---- */

typedef struct Work Work;
typedef struct {
    void (*run)(Work *w, int64_t n);
    double worth;
} Job;
struct Work {
    const Job *job;
    int cpu;
    int64_t n;
    const char *data;               /* bytes of this thread */
    int64_t bytes;
    double seconds, sink;
    _Atomic int *signal;            /* 0: wait, 1: go, 2: a thread is missing */
};

enum { SUMS = 12 };                 /* two units, five cycles, and two more */
/* The twelve sums stay in registers since every loop over them has a constant number of iterations. */
#define FMA_JOB(NAME, TARGET, BYTES)                                                                                   \
    TARGET static void fma_##NAME(Work *w, int64_t n)                                                                  \
    {                                                                                                                  \
        typedef float Vector __attribute__((vector_size(BYTES)));                                                      \
        Vector sum[SUMS], a = { 0 }, b = { 0 };                                                                        \
        a += 0.999f + (float)w->sink;                                                                                  \
        b += 0.001f;                                                                                                   \
        _Pragma("GCC unroll 12") for (int i = 0; i < SUMS; i++) sum[i] = a + (float)i;                                 \
        for (int64_t k = 0; k < n; k++) {                                                                              \
            _Pragma("GCC unroll 12") for (int i = 0; i < SUMS; i++) sum[i] = sum[i] * a + b;                           \
        }                                                                                                              \
        _Pragma("GCC unroll 12") for (int i = 1; i < SUMS; i++) sum[0] += sum[i];                                      \
        w->sink += (double)sum[0][0] * 1e-30;                                                                          \
    }                                                                                                                  \
    static const Job fma_job_##NAME = { fma_##NAME, 2.0 * SUMS * (BYTES) / sizeof(float) };

/* An iteration reads eight lines and begins again at the end. */
#define READ_JOB(NAME, TARGET, BYTES)                                                                                  \
    TARGET static void read_##NAME(Work *w, int64_t n)                                                                 \
    {                                                                                                                  \
        typedef int64_t Vector __attribute__((vector_size(BYTES)));                                                    \
        enum { EACH = 8 * LINE / (BYTES) };                                                                            \
        Vector sum[EACH] = { { 0 } };                                                                                  \
        const char *at = w->data, *end = w->data + w->bytes;                                                           \
        for (int64_t k = 0; k < n; k++) {                                                                              \
            const Vector *v = (const Vector *)at;                                                                      \
            _Pragma("GCC unroll 32") for (int i = 0; i < EACH; i++) sum[i] ^= v[i];                                    \
            at = at + 8 * LINE < end ? at + 8 * LINE : w->data;                                                        \
        }                                                                                                              \
        _Pragma("GCC unroll 32") for (int i = 1; i < EACH; i++) sum[0] ^= sum[i];                                      \
        w->sink += 1e-30 * (double)sum[0][0];                                                                          \
    }                                                                                                                  \
    static const Job read_job_##NAME = { read_##NAME, 8 * LINE };

FMA_JOB(plain, , 16)
READ_JOB(plain, , 16)
#if defined(__x86_64__)
#include <immintrin.h>
FMA_JOB(avx2, __attribute__((target("avx2,fma"))), 32)
FMA_JOB(avx512, __attribute__((target("avx512f"))), 64)
READ_JOB(avx2, __attribute__((target("avx2"))), 32)
READ_JOB(avx512, __attribute__((target("avx512f"))), 64)

/* Four sums of 16 x 16 from two and two operands: all eight tiles. The library has the system's permission. */
__attribute__((target("amx-tile,amx-bf16"))) static void tiles(Work *w, int64_t n)
{
    struct {
        uint8_t palette, start, zero[14];
        uint16_t bytes[16];
        uint8_t rows[16];
    } shape __attribute__((aligned(64))) = { .palette = 1 };
    char zeros[16 * 64] __attribute__((aligned(64))) = { 0 };
    for (int i = 0; i < 8; i++) shape.bytes[i] = 64, shape.rows[i] = 16;
    _tile_loadconfig(&shape);
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    _tile_loadd(4, zeros, 64);
    _tile_loadd(5, zeros, 64);
    _tile_loadd(6, zeros, 64);
    _tile_loadd(7, zeros, 64);
    for (int64_t k = 0; k < n; k++) {
        _tile_dpbf16ps(0, 4, 6);
        _tile_dpbf16ps(1, 4, 7);
        _tile_dpbf16ps(2, 5, 6);
        _tile_dpbf16ps(3, 5, 7);
    }
    _tile_stored(0, zeros, 64);
    _tile_release();
    w->sink += zeros[0];
}
static const Job tile_job = { tiles, 4 * 2.0 * 16 * 16 * 32 };
#endif

typedef struct { const Job *fma, *read, *matrix; } Jobs;

static Jobs jobs_for(const char *features)
{
    Jobs j = { &fma_job_plain, &read_job_plain, NULL };
#if defined(__x86_64__)
    if (strstr(features, "amx")) j.matrix = &tile_job;
    if (__builtin_cpu_supports("avx512f")) j.fma = &fma_job_avx512, j.read = &read_job_avx512;
    else if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        j.fma = &fma_job_avx2, j.read = &read_job_avx2;
#else
    (void)features;
#endif
    return j;
}

/* ---- all threads at once ---- */

static void *thread_main(void *user)
{
    Work *w = user;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(w->cpu, &one);
    sched_setaffinity(0, sizeof one, &one);
    int signal;
    while (!(signal = *w->signal)) sched_yield();
    double start = clock_s();
    if (signal == 1) w->job->run(w, w->n);
    w->seconds = clock_s() - start;
    return NULL;
}

static int processors(int *cpu, int32_t threads)
{
    cpu_set_t mask;
    int n = 0;
    if (sched_getaffinity(0, sizeof mask, &mask)) return 0;
    for (int c = 0; c < CPU_SETSIZE && n < threads && n < THREADS_MOST; c++)
        if (CPU_ISSET(c, &mask)) cpu[n++] = c;
    return n;
}

/* Seconds of the slowest thread; NAN: a thread could not start. */
static double together(Work *w, int threads)
{
    pthread_t id[THREADS_MOST];
    _Atomic int signal = 0;
    double slowest = 0;
    int n = 0;
    for (; n < threads; n++) {
        w[n].signal = &signal;
        if (pthread_create(&id[n], NULL, thread_main, &w[n])) break;
    }
    signal = n < threads ? 2 : 1;
    for (int i = 0; i < n; i++) {
        pthread_join(id[i], NULL);
        slowest = fmax(slowest, w[i].seconds);
    }
    return n < threads ? NAN : slowest;
}

/* What all threads reach in a second: as many iterations as take TRY_S, then the best of the tries. */
static double rate(const Job *job, const int *cpu, int threads, char *data, int64_t bytes)
{
    Work w[THREADS_MOST];
    int64_t n = 1000, each = bytes / threads & -(8 * (int64_t)LINE);
    double best = 0;
    if (bytes && each < 8 * LINE) return NAN;
    for (int i = 0; i < threads; i++)
        w[i] = (Work){ .job = job, .cpu = cpu[i], .data = data ? data + i * each : NULL, .bytes = each };
    for (int k = 0; k < TRIES + 12; k++) {
        for (int i = 0; i < threads; i++) w[i].n = n;
        double s = together(w, threads);
        if (!isfinite(s) || s <= 0) return NAN;
        best = fmax(best, job->worth * (double)n * threads / s);
        if (s >= TRY_S && k >= TRIES) break;
        if (s < TRY_S) n *= s < TRY_S / 8 ? 8 : 2;
    }
    return best;
}

/* ---- levels ---- */

static int64_t available_bytes(void)
{
    long pages = sysconf(_SC_AVPHYS_PAGES), size = sysconf(_SC_PAGESIZE);
    return pages > 0 && size > 0 ? (int64_t)pages * size : 0;
}

static void levels(Peaks *p, const Job *read, const int *cpu, int threads)
{
    int64_t l2 = sysconf(_SC_LEVEL2_CACHE_SIZE), l3 = sysconf(_SC_LEVEL3_CACHE_SIZE), half = available_bytes() / 2;
    p->holds[LEVEL_L2] = l2 > 0 ? l2 * threads : 0;
    p->holds[LEVEL_L3] = l3 > 0 ? l3 : 0;
    p->holds[LEVEL_MEMORY] = INT64_MAX;
    int64_t most = 4 * (l3 > 0 ? l3 : 1 << 25), size[LEVELS] = { p->holds[LEVEL_L2] / 2, p->holds[LEVEL_L3] / 2 };
    if (most > MEMORY_MOST) most = MEMORY_MOST;
    size[LEVEL_MEMORY] = most < half ? most : half;
    char *data = NULL;
    if (size[LEVEL_MEMORY] <= 0 || posix_memalign((void **)&data, LINE, (size_t)size[LEVEL_MEMORY])) return;
    memset(data, 1, (size_t)size[LEVEL_MEMORY]);
    for (int i = 0; i < LEVELS; i++)
        if (size[i] > 0 && size[i] <= size[LEVEL_MEMORY]) p->bytes[i] = rate(read, cpu, threads, data, size[i]);
    free(data);
}

Peaks peaks_measure(int32_t threads, const char *features)
{
    Peaks p = { NAN, NAN, { NAN, NAN, NAN }, { 0 } };
    int cpu[THREADS_MOST], n = processors(cpu, threads);
    if (n < 1) return p;
    Jobs jobs = jobs_for(features);
    p.flops = rate(jobs.fma, cpu, n, NULL, 0);
    if (jobs.matrix) p.matrix_flops = rate(jobs.matrix, cpu, n, NULL, 0);
    levels(&p, jobs.read, cpu, n);
    return p;
}

Level peaks_level(const Peaks *p, double bytes)
{
    for (Level l = LEVEL_L2; l < LEVEL_MEMORY; l++)
        if (isfinite(p->bytes[l]) && bytes <= (double)p->holds[l]) return l;
    return LEVEL_MEMORY;
}
