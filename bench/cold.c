#define _GNU_SOURCE /* mincore */
#include "bench/cold.h"

#include <dirent.h>
#include <fcntl.h>
#include <jansson.h>
#include <libgen.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "bench/report.h"
#include "bench/say.h"
#include "bench/values.h"

enum { STARTS = 3, FILES_MAX = 1024, PATH_BYTES = 4096 };
typedef struct {
    char *path[FILES_MAX];
    uint32_t count;
} Files;

/* ---- the files of an engine ---- */

static void add_file(Files *f, const char *path)
{
    for (uint32_t i = 0; i < f->count; i++)
        if (!strcmp(f->path[i], path)) return;
    if (f->count < FILES_MAX && (f->path[f->count] = strdup(path))) f->count++;
}

static void add_beside(Files *f, const char *model)
{
    char copy[PATH_BYTES], path[PATH_BYTES + 300];
    snprintf(copy, sizeof copy, "%s", model);
    const char *folder = dirname(copy);
    DIR *d = opendir(folder);
    for (struct dirent *e; d && (e = readdir(d));) {
        struct stat st;
        snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
        if (!stat(path, &st) && S_ISREG(st.st_mode)) add_file(f, path);
    }
    if (d) closedir(d);
}

static void add_mapped(Files *f, pid_t pid)
{
    char name[64], *line = NULL;
    size_t cap = 0;
    snprintf(name, sizeof name, "/proc/%d/maps", (int)pid);
    FILE *maps = fopen(name, "r");
    while (maps && getline(&line, &cap, maps) > 0) {
        char *path = strchr(line, '/');
        if (!path) continue;
        path[strcspn(path, "\n")] = 0;
        if (strncmp(path, "/dev/", 5)) add_file(f, path);
    }
    free(line);
    if (maps) fclose(maps);
}

/* Pages of a file that are in memory, and all of them. */
static void count_pages(int fd, size_t bytes, double *in_memory, double *all)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), n = (bytes + page - 1) / page;
    void *at = n ? mmap(NULL, bytes, PROT_READ, MAP_SHARED, fd, 0) : MAP_FAILED;
    unsigned char *seen = malloc(n + 1);
    if (at != MAP_FAILED && seen && !mincore(at, bytes, seen)) {
        *all += (double)n;
        for (size_t i = 0; i < n; i++) *in_memory += seen[i] & 1;
    }
    if (at != MAP_FAILED) munmap(at, bytes);
    free(seen);
}

/* Throws the files out of memory and says which share of them stayed. */
static double evict(const Files *f)
{
    double in_memory = 0, all = 0;
    for (uint32_t i = 0; i < f->count; i++) {
        struct stat st;
        int fd = open(f->path[i], O_RDONLY | O_CLOEXEC);
        if (fd < 0) continue;
        if (!fstat(fd, &st) && S_ISREG(st.st_mode)) {
            fdatasync(fd); /* what is not written yet would stay */
            posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
            count_pages(fd, (size_t)st.st_size, &in_memory, &all);
        }
        close(fd);
    }
    return all > 0 ? in_memory / all : NAN;
}

/* ---- starts ---- */

/* files: of an engine's start, where not NULL. */
static TgStatus start_once(ColdStart *out, const Engine *e, const Args *a, const char *model, const char *dir,
                           Files *files)
{
    Peer p;
    char cache[64];
    Args one = *a;
    if (!folder_make(cache)) return TG_CACHE;
    one.value[OPT_cache_dir] = (ArgList){ 1, { cache } };
    TgStatus status = peer_start(&p, e->peer.label, model, dir, &one);
    folder_clear(cache);
    if (status != TG_OK) return status;
    if (files) add_mapped(files, p.worker);
    *out = (ColdStart){ p.start_s, p.load_s, p.first_ms };
    peer_stop(&p);
    return TG_OK;
}

static ColdStart median_start(const ColdStart *s)
{
    double start[STARTS], load[STARTS], first[STARTS];
    for (int i = 0; i < STARTS; i++) start[i] = s[i].start_s, load[i] = s[i].load_s, first[i] = s[i].first_ms;
    return (ColdStart){ median_of(start, STARTS), median_of(load, STARTS), median_of(first, STARTS) };
}

TgStatus cold_measure(Engine *e, const Args *a, const char *model, const char *dir)
{
    ColdStart start[STARTS];
    double stayed[STARTS];
    Files files = { .count = 0 };
    TgStatus status = TG_OK;
    add_beside(&files, model);
    for (int i = 0; i < STARTS && status == TG_OK; i++) status = start_once(&start[i], e, a, model, dir, &files);
    if (status == TG_OK) e->cold.in_memory = median_start(start);
    for (int i = 0; i < STARTS && status == TG_OK; i++) {
        stayed[i] = evict(&files);
        status = start_once(&start[i], e, a, model, dir, NULL);
    }
    if (status == TG_OK) {
        e->cold.from_disk = median_start(start);
        e->cold.resident = median_of(stayed, STARTS);
        e->cold.known = true;
    }
    for (uint32_t i = 0; i < files.count; i++) free(files.path[i]);
    return status;
}

/* ---- reports ---- */

bool cold_text(char *out, size_t cap, const Engine *e, bool from_disk)
{
    const ColdStart *c = from_disk ? &e->cold.from_disk : &e->cold.in_memory;
    char how[80] = "in memory";
    if (from_disk) snprintf(how, sizeof how, "from disk (%.0f %% stayed in memory)", 100 * e->cold.resident);
    snprintf(out, cap, "cold, files %s: process to first answer %.2f s, of it load %.2f s, first run %.1f ms", how,
             c->start_s, c->load_s, c->first_ms);
    return e->cold.known;
}

static json_t *start_json(const ColdStart *s)
{
    return json_pack("{s:f, s:f, s:f}", "start_s", s->start_s, "load_s", s->load_s, "first_ms", s->first_ms);
}

json_t *cold_json(const Cold *c)
{
    if (!c->known) return json_null();
    return json_pack("{s:o, s:o, s:o}", "in_memory", start_json(&c->in_memory), "from_disk", start_json(&c->from_disk),
                     "resident", json_number(c->resident));
}
