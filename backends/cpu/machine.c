/* What machine this is: the CPUs that the process may use, one a physical core; caches; instruction sets. */
#define _GNU_SOURCE
#include <cpuid.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "backends/cpu/cpu.h"

enum { CPUS_MAX = 4096, ARCH_GET_XCOMP_SUPP = 0x1021, ARCH_REQ_XCOMP_PERM = 0x1023, TILE_DATA = 18 };

/* A list such as "0-3,8". */
static bool parse_list(const char *s, bool *in)
{
    while (*s) {
        char *end;
        long a = strtol(s, &end, 10), b = a;
        if (end == s || a < 0 || a >= CPUS_MAX) return false;
        s = end;
        if (*s == '-') {
            b = strtol(s + 1, &end, 10);
            if (end == s + 1 || b < a || b >= CPUS_MAX) return false;
            s = end;
        }
        for (; a <= b; a++) in[a] = true;
        if (*s == ',') s++;
        else if (*s) return false;
    }
    return true;
}

/* The lowest CPU of the core that this one belongs to; the CPU itself when the system does not tell. */
static int core_of(int cpu)
{
    char path[96];
    int first = cpu;
    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/topology/thread_siblings_list", cpu);
    FILE *f = fopen(path, "r");
    if (f && fscanf(f, "%d", &first) != 1) first = cpu;
    if (f) fclose(f);
    return first;
}

static TgStatus allowed(bool *in, const char *cpus)
{
    size_t size = CPU_ALLOC_SIZE(CPUS_MAX);
    cpu_set_t *set = CPU_ALLOC(CPUS_MAX);
    bool any = false, *wanted = calloc(CPUS_MAX, 1);
    TgStatus s =
        !cpus || parse_list(cpus, wanted) ? TG_OK : fail(TG_USAGE, "'%s' is no list of CPUs such as 0-3,8", cpus);
    CPU_ZERO_S(size, set);
    if (!s && sched_getaffinity(0, size, set)) s = fail(TG_DEVICE, "the process's CPUs cannot be read");
    for (int i = 0; i < CPUS_MAX && !s; i++) any |= in[i] = CPU_ISSET_S((size_t)i, size, set) && (!cpus || wanted[i]);
    CPU_FREE(set);
    free(wanted);
    return s ? s : any ? TG_OK : fail(TG_DEVICE, "the process may use none of the CPUs '%s'", cpus ? cpus : "");
}

/* First one CPU of each core, then (when more are requested) the others. */
static void choose(Machine *m, Arena *arena, const bool *in, int threads)
{
    bool *core = calloc(CPUS_MAX, 1), *taken = calloc(CPUS_MAX, 1);
    m->cpu = NEW_N(arena, int, CPUS_MAX);
    for (int pass = 0; pass < 2 && (pass == 0 || threads > m->count); pass++)
        for (int i = 0; i < CPUS_MAX && (!threads || m->count < threads); i++) {
            if (!in[i] || taken[i] || (pass == 0 && core[core_of(i) % CPUS_MAX])) continue;
            if (pass == 0) core[core_of(i) % CPUS_MAX] = true;
            taken[i] = true;
            m->cpu[m->count++] = i;
        }
    free(core);
    free(taken);
}

/* CPUs' worth of time that a container grants, or 0: no limit. Threads beyond it would only wait for their turn. */
static int granted(void)
{
    long long quota = 0, period = 100000;
    FILE *f = fopen("/sys/fs/cgroup/cpu.max", "r"), *g = f ? NULL : fopen("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "r"),
         *h = g ? fopen("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "r") : NULL;
    if (f && fscanf(f, "%lld %lld", &quota, &period) != 2) quota = 0;
    if (g && fscanf(g, "%lld", &quota) != 1) quota = 0;
    if (h && fscanf(h, "%lld", &period) != 1) quota = 0;
    if (f) fclose(f);
    if (g) fclose(g);
    if (h) fclose(h);
    return quota > 0 && period > 0 ? (int)((quota + period - 1) / period) : 0;
}

/* Does the system save these registers? Bits of XCR0. */
static bool saves(unsigned want)
{
    unsigned a, b, c, d, low, high;
    if (!__get_cpuid_count(1, 0, &a, &b, &c, &d) || !(c & 1u << 27)) return false;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return (low & want) == want;
}

static void instructions(Machine *m)
{
    unsigned a, b, c, d;
    unsigned long supported = 0;
    if (!__get_cpuid_count(1, 0, &a, &b, &c, &d)) return;
    bool ymm = saves(6), zmm = saves(0xe6);
    m->avx = ymm && c & 1u << 28, m->fma = ymm && c & 1u << 12, m->f16c = ymm && c & 1u << 29;
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d)) return;
    m->avx2 = ymm && b & 1u << 5;
    m->avx512 = zmm && b & 1u << 16 && b & 1u << 17 && b & 1u << 30 && b & 1u << 31;     /* F, DQ, BW, VL */
    m->vnni = zmm && c & 1u << 11;
    /* with products of bf16 and of bytes, which all that have tiles have */
    bool tiles = d & 1u << 24 && d & 1u << 22 && d & 1u << 25 && saves(3u << 17);
    /* the kernel saves tiles from then on */
    m->amx = tiles && !syscall(SYS_arch_prctl, ARCH_GET_XCOMP_SUPP, &supported) && supported >> TILE_DATA & 1 &&
        !syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, TILE_DATA);
    m->dot_bf16 = m->avx512 && __get_cpuid_count(7, 1, &a, &b, &c, &d) && a & 1u << 5;
}

static void brand(char name[128])
{
    unsigned r[13] = { 0 };
    for (unsigned i = 0; i < 3; i++)
        __get_cpuid(0x80000002 + i, &r[4 * i], &r[4 * i + 1], &r[4 * i + 2], &r[4 * i + 3]);
    const char *s = (const char *)r;
    while (*s == ' ') s++;
    snprintf(name, 128, "%s", *s ? s : "x86-64 processor");
}

TgStatus machine_read(Machine *m, Arena *arena, const char *cpus, int threads)
{
    bool *in = calloc(CPUS_MAX, 1);
    TgStatus s = allowed(in, cpus);
    if (!s) choose(m, arena, in, threads);
    free(in);
    TRY(s);
    int limit = threads ? 0 : granted();
    if (limit && limit < m->count) m->count = limit;
    long l1 = sysconf(_SC_LEVEL1_DCACHE_SIZE), l2 = sysconf(_SC_LEVEL2_CACHE_SIZE);
    m->l1_bytes = l1 > 0 ? l1 : 32 << 10;
    m->l2_bytes = l2 > 0 ? l2 : 512 << 10;
    instructions(m);
    brand(m->name);
    snprintf(m->features, sizeof m->features, "%s%s%s%s%s",
             m->avx512     ? "avx512"
                 : m->avx2 ? "avx2"
                 : m->avx  ? "avx"
                           : "sse2",
             m->fma && !m->avx512 ? " fma" : "", m->vnni ? " vnni" : "", m->dot_bf16 ? " bf16" : "",
             m->amx ? " amx" : "");
    return TG_OK;
}
