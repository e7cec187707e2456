/* What machine this is: the CPUs that the process may use, one a physical core; caches; the processor (processor.h). */
#define _GNU_SOURCE
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backends/cpu/cpu.h"
#include "backends/cpu/processor.h"
#include "graph/base/memory.h"

enum { CPUS_MAX = 4096 };

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
    cpu_set_t *set = mem_new(size);
    bool any = false, *wanted = mem_zeros(CPUS_MAX, 1);
    TgStatus s =
        !cpus || parse_list(cpus, wanted) ? TG_OK : fail(TG_USAGE, "'%s' is no list of CPUs such as 0-3,8", cpus);
    CPU_ZERO_S(size, set);
    if (!s && sched_getaffinity(0, size, set)) s = fail(TG_DEVICE, "the process's CPUs cannot be read");
    for (int i = 0; i < CPUS_MAX && !s; i++) any |= in[i] = CPU_ISSET_S((size_t)i, size, set) && (!cpus || wanted[i]);
    mem_free(set);
    mem_free(wanted);
    return s ? s : any ? TG_OK : fail(TG_DEVICE, "the process may use none of the CPUs '%s'", cpus ? cpus : "");
}

/* First one CPU of each core, then (when more are requested) the others. */
static void choose(Machine *m, Arena *arena, const bool *in, int threads)
{
    bool *core = mem_zeros(CPUS_MAX, 1), *taken = mem_zeros(CPUS_MAX, 1);
    m->cpu = NEW_N(arena, int, CPUS_MAX);
    for (int pass = 0; pass < 2 && (pass == 0 || threads > m->count); pass++)
        for (int i = 0; i < CPUS_MAX && (!threads || m->count < threads); i++) {
            if (!in[i] || taken[i] || (pass == 0 && core[core_of(i) % CPUS_MAX])) continue;
            if (pass == 0) core[core_of(i) % CPUS_MAX] = true;
            taken[i] = true;
            m->cpu[m->count++] = i;
        }
    mem_free(core);
    mem_free(taken);
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

/* Of a core: the C library counts those of all cores on some machines. 0: there is none, or nobody says. */
static int64_t third_cache(void)
{
    long long kib = 0;
    FILE *f = fopen("/sys/devices/system/cpu/cpu0/cache/index3/size", "r");
    if (f && fscanf(f, "%lldK", &kib) != 1) kib = 0;
    if (f) fclose(f);
    return kib > 0 && kib < 1 << 22 ? kib << 10 : 0;
}

TgStatus machine_read(Machine *m, Arena *arena, const char *cpus, int threads)
{
    bool *in = mem_zeros(CPUS_MAX, 1);
    TgStatus s = allowed(in, cpus);
    if (!s) choose(m, arena, in, threads);
    mem_free(in);
    TRY(s);
    int limit = threads ? 0 : granted();
    if (limit && limit < m->count) m->count = limit;
    long l1 = sysconf(_SC_LEVEL1_DCACHE_SIZE), l2 = sysconf(_SC_LEVEL2_CACHE_SIZE);
    m->l1_bytes = l1 > 0 ? l1 : 32 << 10;
    m->l2_bytes = l2 > 0 ? l2 : 512 << 10;
    m->l3_bytes = third_cache();
    return processor_read(m);
}
