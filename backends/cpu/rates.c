/* What a core and its memory do in a second: measured once a machine, kept in the cache folder. Detection tells sizes;
 * clocks, ports and bandwidths depend on the processor's generation, on its memory and on who else is there.
 *
 * Every figure is the best of some short samples, since other programs only slow a sample, and it is rounded to steps
 * of an eighth to a quarter, so that two measurements choose the same kernels. Memory is read where its lines were
 * flushed from the caches, since pages that no process has touched yet take longer to come than all samples together.
 * Every build compiles this file with -O2 and without a sanitizer's checks, since they are what it would measure.
 * Without a cache folder nothing is measured: typical_cpu holds, as it does for what there is no memory to measure. */
#ifdef __x86_64__
#include <cpuid.h>
#endif
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

#include "backends/cache.h"
#include "backends/cpu/executable.h"
#include "backends/cpu/processor.h"
#include "common/clock.h"
#include "graph/base/memory.h"

enum {
    VERSION = 2,
    SAMPLES = 7,                    /* of a figure */
    STEPS = 20000,                  /* of the chain that tells the clock, six cycles each */
    TURNS = 2000,                   /* of the loop of products */
    NEAR_BYTES = 8 << 10,           /* which the first cache holds */
    FAR_BYTES = 8 << 20,            /* which are read from memory */
    PHASES = 20,
    ATTEMPTS = 3,                   /* at figures that are credible */
    ITERATION = 512                 /* bytes of the loops' iterations, at most */
};

/* Six instructions that wait for each other, whatever the processor. */
static uint64_t chain(uint64_t x, long steps)
{
    for (long i = 0; i < steps; i++) x ^= x << 13, x ^= x >> 7, x ^= x << 17;
    return x;
}

/* Products that are added to 12 accumulators; loads, and stores, of vectors, over `bytes` again and again. */
typedef struct {
    int vector_bytes;
    void (*products)(long turns);
    void (*loads)(const void *p, size_t bytes, long turns);
    void (*stores)(void *p, size_t bytes, long turns);
} Loops;

#define TWELVE(I) I(0) I(1) I(2) I(3) I(4) I(5) I(6) I(7) I(8) I(9) I(10) I(11)
#define LOOPS_OF(NAME, TARGET, BYTES, VALUE, PRODUCT, LOAD, STORE)                                           \
    typedef float NAME##_v __attribute__((vector_size(BYTES)));                                              \
    TARGET static void NAME##_products(long turns)                                                           \
    {                                                                                                        \
        NAME##_v s[12] = { { 0 } }, a = { 0 };                                                               \
        for (long i = 0; i < turns; i++) { TWELVE(PRODUCT) }                                                 \
    }                                                                                                        \
    TARGET static void NAME##_loads(const void *p, size_t bytes, long turns)                                 \
    {                                                                                                        \
        NAME##_v a, b, c, d, f, g, h, k;                                                                     \
        for (long i = 0; i < turns; i++)                                                                     \
            for (const NAME##_v *q = p, *e = q + bytes / BYTES; q < e; q += 8)                               \
                __asm__ volatile(LOAD(0, 8) LOAD(1, 9) LOAD(2, 10) LOAD(3, 11)                               \
                                 LOAD(4, 12) LOAD(5, 13) LOAD(6, 14) LOAD(7, 15)                             \
                                 : VALUE(a), VALUE(b), VALUE(c), VALUE(d), VALUE(f), VALUE(g), VALUE(h), VALUE(k)\
                                 : "m"(q[0]), "m"(q[1]), "m"(q[2]), "m"(q[3]),                               \
                                   "m"(q[4]), "m"(q[5]), "m"(q[6]), "m"(q[7]));                              \
    }                                                                                                        \
    TARGET static void NAME##_stores(void *p, size_t bytes, long turns)                                      \
    {                                                                                                        \
        NAME##_v a = { 0 };                                                                                  \
        for (long i = 0; i < turns; i++)                                                                     \
            for (NAME##_v *q = p, *e = q + bytes / BYTES; q < e; q += 2)                                     \
                __asm__ volatile(STORE(2, 0) STORE(2, 1) : "=m"(q[0]), "=m"(q[1]) : VALUE##_IN(a));          \
    }                                                                                                        \
    static const Loops NAME = { BYTES, NAME##_products, NAME##_loads, NAME##_stores };

#ifdef __x86_64__
#define REGISTER(v) "=v"(v)
#define REGISTER_IN(v) "v"(v)
#define FUSED(k) __asm__ volatile("vfmadd231ps %1, %1, %0" : "+v"(s[k]) : "v"(a));
#define ADDED(k) __asm__ volatile("addps %1, %0" : "+x"(s[k]) : "x"(a));
#define LOAD_WIDE(k, m) "vmovups %" #m ", %" #k "\n"
#define LOAD_SSE(k, m) "movups %" #m ", %" #k "\n"
#define STORE_WIDE(k, m) "vmovups %" #k ", %" #m "\n"
#define STORE_SSE(k, m) "movups %" #k ", %" #m "\n"
LOOPS_OF(avx512, __attribute__((target("avx512f"))), 64, REGISTER, FUSED, LOAD_WIDE, STORE_WIDE)
LOOPS_OF(avx2, __attribute__((target("avx2,fma"))), 32, REGISTER, FUSED, LOAD_WIDE, STORE_WIDE)
LOOPS_OF(sse2, , 16, REGISTER, ADDED, LOAD_SSE, STORE_SSE)
static const Loops *loops_of(const Machine *m)
{
    return m->vector_bytes == 64 ? &avx512 : m->vector_bytes == 32 && m->has_fma ? &avx2 : &sse2;
}
#elif defined(__aarch64__)
#define REGISTER(v) "=w"(v)
#define REGISTER_IN(v) "w"(v)
#define FUSED(k) __asm__ volatile("fmla %0.4s, %1.4s, %1.4s" : "+w"(s[k]) : "w"(a));
#define LOAD_NEON(k, m) "ldr %q" #k ", %" #m "\n"
#define STORE_NEON(k, m) "str %q" #k ", %" #m "\n"
LOOPS_OF(neon, , 16, REGISTER, FUSED, LOAD_NEON, STORE_NEON)
/* SVE's, of the length that the system gives. This file is compiled for NEON: registers are named. */
#define SVE_PRODUCT(k) "fmla z" #k ".s, p0/m, z12.s, z12.s\n"
#define SVE_LOAD(k) "ld1w { z" #k ".s }, p0/z, [%0, #" #k ", mul vl]\n"
#define SVE_STORE(k) "st1w { z0.s }, p0, [%0, #" #k ", mul vl]\n"
#define SVE_LOOP(before, body, step, until) \
    ".arch_extension sve\nptrue p0.s\n" before "1:\n" body step "\n" until "\n.arch_extension nosve\n"
static void sve_products(long turns)
{
    __asm__ volatile(SVE_LOOP("mov z12.s, #0\n", TWELVE(SVE_PRODUCT), "subs %0, %0, #1", "b.ne 1b")
                     : "+r"(turns) : : "cc", "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v8", "v9", "v10",
                       "v11", "v12");
}
static void sve_loads(const void *p, size_t bytes, long turns)
{
    for (long i = 0; i < turns; i++) {
        const char *q = p;
        __asm__ volatile(SVE_LOOP("", SVE_LOAD(0) SVE_LOAD(1) SVE_LOAD(2) SVE_LOAD(3) SVE_LOAD(4) SVE_LOAD(5)
                                  SVE_LOAD(6) SVE_LOAD(7), "addvl %0, %0, #8", "cmp %0, %1\nb.lo 1b")
                         : "+r"(q) : "r"(q + bytes) : "cc", "memory", "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7");
    }
}
static void sve_stores(void *p, size_t bytes, long turns)
{
    for (long i = 0; i < turns; i++) {
        char *q = p;
        __asm__ volatile(SVE_LOOP("", SVE_STORE(0) SVE_STORE(1), "addvl %0, %0, #2", "cmp %0, %1\nb.lo 1b")
                         : "+r"(q) : "r"(q + bytes) : "cc", "memory");
    }
}
static const Loops sve = { 32, sve_products, sve_loads, sve_stores };
static const Loops *loops_of(const Machine *m) { return m->vector_bytes == 32 ? &sve : &neon; }
#else
static const Loops *loops_of(const Machine *m) { return (void)m, NULL; }
#endif

/* The lines leave all caches; clflushopt, where it is known, does not wait for the line before. */
static void flush(const char *p, size_t bytes)
{
#ifdef __x86_64__
    unsigned a, b = 0, c, d;
    if (__get_cpuid_count(7, 0, &a, &b, &c, &d) && b & 1u << 23)
        for (size_t i = 0; i < bytes; i += LINE) __asm__ volatile("clflushopt %0" : : "m"(p[i]));
    else
        for (size_t i = 0; i < bytes; i += LINE) __asm__ volatile("clflush %0" : : "m"(p[i]));
    __asm__ volatile("mfence" : : : "memory");
#elif defined(__aarch64__)
    for (size_t i = 0; i < bytes; i += LINE) __asm__ volatile("dc civac, %0" : : "r"(p + i) : "memory");
    __asm__ volatile("dsb sy" : : : "memory");
#else
    (void)p, (void)bytes;
#endif
}

/* steps 2: 1, 1.5, 2, 3, 4, ..; steps 4: 1, 1.25, 1.5, 1.75, 2, 2.5, .. */
static double in_steps(double v, int steps)
{
    double unit = 1;
    if (!(v > 0)) return 0;
    while (v >= 2 * steps * unit) unit *= 2;
    while (v < steps * unit) unit /= 2;
    return (double)(int64_t)(v / unit + 0.5) * unit;
}

static double clock_hz(void)
{
    volatile uint64_t sink = 88172645463325252u;
    double start = clock_s();
    sink = chain(sink, STEPS);
    return 6.0 * STEPS / (clock_s() - start);
}

/* Bytes, or products, a second: each turn has so many of them. */
typedef struct { const Loops *by; char *memory; size_t bytes; long turns; } Sample;
static void sample_products(const Sample *s) { s->by->products(s->turns); }
static void sample_loads(const Sample *s) { s->by->loads(s->memory, s->bytes, s->turns); }
static void sample_stores(const Sample *s) { s->by->stores(s->memory, s->bytes, s->turns); }

static double rate(void (*run)(const Sample *), const Sample *s, double each_turn)
{
    run(s);                         /* what lies in no cache yet comes into one */
    double start = clock_s();
    run(s);
    return each_turn * (double)s->turns / (clock_s() - start);
}

/* A phase in which every thread reads its part of memory, or does nothing. */
typedef struct { const Sample *sample; int left; } Together;
static TeamParts together_next(void *user)
{
    Together *t = user;
    return t->left-- > 0 ? TEAM_ALL : TEAM_OVER;
}
static void together_part(void *user, int part, int parts)
{
    const Sample *s = ((Together *)user)->sample;
    size_t of = s->bytes / (size_t)parts / ITERATION * ITERATION;
    if (s->by) s->by->loads(s->memory + of * (size_t)part, of, 1);
}
static double together_s(Team *team, const Sample *sample, int phases)
{
    const Sample nothing = { 0 };
    Together t = { &nothing, 1 };
    const TeamJob job = { together_next, together_part, &t };
    team_run(team, &job);           /* wakes the threads */
    t = (Together){ sample, phases };
    double start = clock_s();
    team_run(team, &job);
    return (clock_s() - start) / phases;
}

/* Of the machine, and of the container. */
static int64_t free_bytes(void)
{
    long pages = sysconf(_SC_AVPHYS_PAGES);
    long long most = 0, taken = 0, left = pages > 0 ? (long long)pages * sysconf(_SC_PAGESIZE) : 0;
    FILE *f = fopen("/sys/fs/cgroup/memory.max", "r"), *g = fopen("/sys/fs/cgroup/memory.current", "r");
    if (f && g && fscanf(f, "%lld", &most) == 1 && fscanf(g, "%lld", &taken) == 1 && most - taken < left)
        left = most - taken;
    if (f) fclose(f);
    if (g) fclose(g);
    return left;
}

static void measure(Rates *f, const Machine *m, Team *team)
{
    const Loops *by = loops_of(m);
    size_t near = NEAR_BYTES, second = (size_t)m->l2_bytes / 2 / PAGE * PAGE, third = 0, most = FAR_BYTES;
    if (m->l3_bytes > 8 * m->l2_bytes) third = 8 * second;
    if (most < second) most = second;
    if (most < third) most = third;
    if ((int64_t)most > free_bytes() / 4) return;
    char *memory = by ? cpu_pages_new((int64_t)most) : NULL;
    if (!memory) return;
    double vector = by->vector_bytes;
    memset(memory, 1, most);
    /* samples of one figure are milliseconds from each other: what disturbs one is over at another */
    double hz = 0, fma = 0, load = 0, store = 0, l2 = 0, l3 = 0, reads = 0, phases = 0;
    for (int i = 0; i < SAMPLES; i++) {
        hz = fmax(hz, clock_hz());
        fma = fmax(fma, rate(sample_products, &(Sample){ by, memory, 0, TURNS }, 12));
        load = fmax(load, rate(sample_loads, &(Sample){ by, memory, near, TURNS / 10 }, (double)near));
        store = fmax(store, rate(sample_stores, &(Sample){ by, memory, near, TURNS / 10 }, (double)near));
        l2 = fmax(l2, rate(sample_loads, &(Sample){ by, memory, second, 4 }, (double)second));
        if (third) l3 = fmax(l3, rate(sample_loads, &(Sample){ by, memory, third, 1 }, (double)third));
        phases = fmax(phases, 1 / together_s(team, &(Sample){ 0 }, PHASES));
        flush(memory, FAR_BYTES);
        reads = fmax(reads, FAR_BYTES / together_s(team, &(Sample){ by, memory, FAR_BYTES, 1 }, 1));
    }
    *f = (Rates){ .hz = in_steps(hz, 4), .fma = in_steps(fma / hz, 2), .load = in_steps(load / hz / vector, 2),
                  .store = in_steps(store / hz / vector, 2), .l2_rate = in_steps(l2 / hz, 4),
                  .l3_rate = in_steps(l3 / hz, 4), .memory_rate = in_steps(reads, 4),
                  .phase_s = in_steps(1 / phases, 4), .measured = 1 };
    if (!third) f->l3_rate = f->memory_rate / hz / team_size(team);
    cpu_pages_free(memory, (int64_t)most);
}

/* What is measured on a host that is busy all the time, or emulated, is nonsense: typical rates are kept instead. */
static bool credible(const Rates *f)
{
    const double a_cycle[] = { f->fma, f->load, f->store };
    for (int i = 0; i < 3; i++)
        if (!(a_cycle[i] >= 0.25 && a_cycle[i] <= 8)) return false;
    const Rates *t = &typical_cpu;
    const double got[] = { f->hz, f->fma, f->load, f->store, f->l2_rate, f->l3_rate, f->memory_rate },
                 usual[] = { t->hz, t->fma, t->load, t->store, t->l2_rate, t->l3_rate, t->memory_rate };
    for (size_t i = 0; i < sizeof got / sizeof *got; i++)
        if (!(got[i] > usual[i] / 16 && got[i] < usual[i] * 16)) return false;
    return f->l3_rate <= 4 * f->l2_rate && f->phase_s > 0 && f->phase_s < 1e-3;
}

void rates_read(Rates *f, const Machine *m, Team *team, const char *cache_dir)
{
    struct { unsigned word[PROCESSOR_WORDS]; int version, threads, vector_bytes; } of = { .version = VERSION };
    char key[33];
    Rates *kept = NULL;
    size_t size = 0;
    *f = typical_cpu;
    if (m->halves) f->fma /= 2, f->load /= 2, f->store /= 2;
    if (!cache_dir) return;
    processor_words(of.word);
    of.threads = m->count, of.vector_bytes = m->vector_bytes;
    snprintf(key, sizeof key, "%016llx", (unsigned long long)XXH3_64bits(&of, sizeof of));
    bool known = cache_get((void **)&kept, &size, cache_dir, "cpu-rates", key) && size == sizeof *f && credible(kept);
    if (known) *f = *kept;
    else {
        for (int i = 0; i < ATTEMPTS && !f->measured; i++) {
            Rates fresh = *f;
            measure(&fresh, m, team);
            if (credible(&fresh)) *f = fresh;
        }
        cache_put(cache_dir, "cpu-rates", key, f, sizeof *f);
    }
    mem_free(kept);
}
