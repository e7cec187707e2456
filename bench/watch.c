#define _GNU_SOURCE
#include "bench/watch.h"

#include <dirent.h>
#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench/measure.h"

#define POWERCAP "/sys/class/powercap"

/* The numbers behind `key` in a file of lines `key: number`, summed; -1: no such line. */
static int64_t number_in(const char *path, const char *key)
{
    char *line = NULL;
    size_t cap = 0, len = strlen(key);
    int64_t sum = -1;
    FILE *f = fopen(path, "r");
    while (f && getline(&line, &cap, f) > 0)
        if (!strncmp(line, key, len))
            sum = (sum < 0 ? 0 : sum) + strtoll(line + len + strspn(line + len, ": \t"), NULL, 10);
    free(line);
    if (f) fclose(f);
    return sum;
}

/* Of all threads: a process's own file counts its first one only. */
static int64_t switches_of(pid_t pid)
{
    char path[320];
    int64_t sum = 0;
    snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
    DIR *d = opendir(path);
    for (struct dirent *e; d && (e = readdir(d));) {
        if (*e->d_name == '.') continue;
        snprintf(path, sizeof path, "/proc/%d/task/%.200s/status", (int)pid, e->d_name);
        int64_t n = number_in(path, "nonvoluntary_ctxt_switches");
        sum += n > 0 ? n : 0;
    }
    if (d) closedir(d);
    return sum;
}

/* Heat lowers the clock of a processor, a quota stops the whole group. */
static int64_t throttled(const cpu_set_t *mask)
{
    int64_t sum = number_in("/sys/fs/cgroup/cpu.stat", "nr_throttled ");
    if (sum < 0) sum = 0;
    for (int c = 0; c < CPU_SETSIZE; c++) {
        char path[128];
        long n = 0;
        if (!CPU_ISSET(c, mask)) continue;
        snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/thermal_throttle/core_throttle_count", c);
        FILE *f = fopen(path, "r");
        if (f && fscanf(f, "%ld", &n) == 1) sum += n;
        if (f) fclose(f);
    }
    return sum;
}

/* /proc/stat: user nice system idle iowait irq softirq steal, in ticks of the system. */
static void processor_times(const cpu_set_t *mask, Watch *w)
{
    char *line = NULL;
    size_t cap = 0;
    double tick = 1.0 / (double)sysconf(_SC_CLK_TCK);
    FILE *f = fopen("/proc/stat", "r");
    if (!f) w->busy_s = w->steal_s = NAN;
    while (f && getline(&line, &cap, f) > 0) {
        int c;
        unsigned long long t[8];
        if (sscanf(line, "cpu%d %llu %llu %llu %llu %llu %llu %llu %llu", &c, &t[0], &t[1], &t[2], &t[3], &t[4], &t[5],
                   &t[6], &t[7]) != 9 || c < 0 || c >= CPU_SETSIZE || !CPU_ISSET(c, mask))
            continue;
        w->busy_s += tick * (double)(t[0] + t[1] + t[2] + t[5] + t[6]);
        w->steal_s += tick * (double)t[7];
    }
    free(line);
    if (f) fclose(f);
}

static double number_file(const char *folder, const char *zone, const char *name)
{
    char path[600];
    double v = NAN;
    snprintf(path, sizeof path, "%s/%.200s/%s", folder, zone, name);
    FILE *f = fopen(path, "r");
    if (f && fscanf(f, "%lf", &v) != 1) v = NAN;
    if (f) fclose(f);
    return v;
}

/* Zones of whole packages are named intel-rapl:N, on AMD's processors too; those of their parts intel-rapl:N:M. */
double energy_read(const char *folder, double *range_j)
{
    double sum = NAN;
    *range_j = 0;
    DIR *d = opendir(folder);
    for (struct dirent *e; d && (e = readdir(d));) {
        const char *colon = strchr(e->d_name, ':');
        if (!colon || strchr(colon + 1, ':') || strncmp(e->d_name, "intel-rapl", 10)) continue;
        double uj = number_file(folder, e->d_name, "energy_uj");
        if (isnan(uj)) continue;
        sum = (isnan(sum) ? 0 : sum) + 1e-6 * uj;
        *range_j = 1e-6 * number_file(folder, e->d_name, "max_energy_range_uj");
    }
    if (d) closedir(d);
    return sum;
}

static double clock_mhz(const cpu_set_t *mask)
{
    char *line = NULL;
    size_t cap = 0;
    int c = -1, n = 0;
    double sum = 0, mhz;
    FILE *f = fopen("/proc/cpuinfo", "r");
    while (f && getline(&line, &cap, f) > 0) {
        if (sscanf(line, "processor : %d", &c) == 1) continue;
        if (c >= 0 && c < CPU_SETSIZE && CPU_ISSET(c, mask) && sscanf(line, "cpu MHz : %lf", &mhz) == 1)
            sum += mhz, n++;
    }
    free(line);
    if (f) fclose(f);
    return n ? sum / n : NAN;
}

Watch watch_begin(pid_t engine, double engine_s)
{
    cpu_set_t mask;
    CPU_ZERO(&mask);
    sched_getaffinity(0, sizeof mask, &mask);
    Watch w = {
        .at_s = clock_s(), .engine_s = engine_s, .switches = switches_of(engine), .throttled = throttled(&mask)
    };
    double range;
    processor_times(&mask, &w);
    w.energy_j = energy_read(POWERCAP, &range);
    return w;
}

Watched watch_end(const Watch *before, pid_t engine, double engine_s)
{
    cpu_set_t mask;
    char path[64];
    Watch now = watch_begin(engine, engine_s);
    double wall = fmax(now.at_s - before->at_s, 1e-9);
    CPU_ZERO(&mask);
    sched_getaffinity(0, sizeof mask, &mask);
    snprintf(path, sizeof path, "/proc/%d/status", (int)engine);
    int64_t kib = number_in(path, "VmRSS");
    double range, energy = now.energy_j - before->energy_j;
    if (energy < 0 && isfinite(energy_read(POWERCAP, &range))) energy += range;         /* one meter began anew */
    return (Watched){ .others = fmax(0, (now.busy_s - before->busy_s - (now.engine_s - before->engine_s)) / wall),
                      .steal = (now.steal_s - before->steal_s) / wall,
                      .mhz = clock_mhz(&mask),
                      .rss_mib = kib < 0 ? NAN : (double)kib / 1024,
                      .energy_j = energy,
                      .switches = now.switches - before->switches,
                      .throttled = now.throttled - before->throttled };
}
