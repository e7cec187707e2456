/* See jobs.h. The folder is tgrun-cc-PID-XXXXXX in TMPDIR; those of processes that were killed go when another
 * comes. */
#define _GNU_SOURCE
#include "backends/cpu/jobs.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/folders.h"
#include "graph/base/memory.h"
#include "graph/base/watcher.h"

enum { TIME_LIMIT_S = 300 };

static void first_error(char out[300], const char *log)
{
    FILE *f = fopen(log, "r");
    strcpy(out, "it was killed or could not start");
    while (f && fgets(out, 300, f))
        if (strstr(out, "error")) break;
    if (f) fclose(f);
    out[strcspn(out, "\n")] = 0;
}

static void remove_folder(const char *path)
{
    char file[400];
    DIR *d = opendir(path);
    for (struct dirent *e; d && (e = readdir(d));) {
        snprintf(file, sizeof file, "%s/%s", path, e->d_name);
        if (e->d_name[0] != '.') unlink(file);
    }
    if (d) closedir(d);
    rmdir(path);
}

/* Of a folder tgrun-cc-PID-XXXXXX: does that process run? Another machine's, or another container's, may. */
static bool is_alive(const char *name)
{
    long pid = strtol(name + sizeof "tgrun-cc-" - 1, NULL, 10);
    return pid <= 0 || !kill((pid_t)pid, 0) || errno != ESRCH;
}

/* What killed processes of ours left behind: no compile takes that long. */
static void sweep(const char *tmp)
{
    char path[360];
    struct stat st;
    DIR *d = opendir(tmp);
    for (struct dirent *e; d && (e = readdir(d));) {
        if (strncmp(e->d_name, "tgrun-cc-", 9)) continue;
        snprintf(path, sizeof path, "%s/%s", tmp, e->d_name);
        if (!lstat(path, &st) && S_ISDIR(st.st_mode) && st.st_uid == geteuid() &&
            time(NULL) - st.st_mtime > (is_alive(e->d_name) ? 4 * TIME_LIMIT_S : TIME_LIMIT_S))
            remove_folder(path);
    }
    if (d) closedir(d);
}

TgStatus work_begin(Work *w, const Compiler *cc)
{
    sweep(temporary_folder());
    w->cc = cc, w->started = 0;
    snprintf(w->folder, sizeof w->folder, "%s/tgrun-cc-%d-XXXXXX", temporary_folder(), (int)getpid());
    if (mkdtemp(w->folder)) return TG_OK;
    return fail(TG_CACHE, "%s: no temporary folder: %s", temporary_folder(), strerror(errno));
}

void work_end(Work *w) { remove_folder(w->folder); }

void work_undo(void *work)
{
    Work *w = work;
    for (int i = 0; i < w->started; i++) {
        if (w->job[i].done || w->job[i].pid <= 0) continue;
        kill(-w->job[i].pid, SIGKILL);
        while (waitpid(w->job[i].pid, NULL, 0) < 0 && errno == EINTR) { }
    }
    work_end(w);
}

Job *job_new(Work *w, int i)
{
    char folder[sizeof w->folder];
    Job *j = &w->job[i];
    memcpy(folder, w->folder, sizeof folder);
    *j = (Job){ .pid = -1 };
    snprintf(j->source, sizeof j->source, "%s/%d.c", folder, i);
    snprintf(j->object, sizeof j->object, "%s/%d.so", folder, i);
    snprintf(j->log, sizeof j->log, "%s/%d.log", folder, i);
    return j;
}

TgStatus job_write(const Job *j, const Text *t)
{
    const char *path = j->source;
    FILE *f = fopen(path, "w");
    bool ok = f && fwrite(t->s, 1, t->len, f) == t->len;
    if (f) ok &= !fclose(f);
    return ok ? TG_OK : fail(TG_CACHE, "%s: %s", path, strerror(errno));
}

void job_start(const Work *w, Job *j, CompilerOutput what)
{
    j->what = what;
    j->pid = compiler_start(w->cc, &(CompilerFiles){ w->folder, j->source, j->object, j->log }, what);
    j->done = false;
}

/* After a failure; false: there is no other way. */
static bool job_again(const Work *w, Job *j)
{
    if (j->what != CC_CODE) return false;
    job_start(w, j, CC_SAFE);
    j->done = j->pid <= 0;
    return !j->done;
}

TgStatus job_read(void **out, size_t *size, const Job *j)
{
    const char *path = j->object;
    FILE *f = fopen(path, "rb");
    struct stat st;
    *out = NULL;
    if (f && !fstat(fileno(f), &st) && (*out = mem_try((size_t)st.st_size + 1))) {
        *size = fread(*out, 1, (size_t)st.st_size, f);
        ((char *)*out)[*size] = 0;
    }
    if (f) fclose(f);
    return *out ? TG_OK : fail(TG_CACHE, "%s: cannot be read", path);
}

TgStatus jobs_wait(Work *w, Share kernels, const atomic_bool *stop)
{
    TgStatus s = TG_OK;
    Job *job = w->job;
    int n = w->started;
    double limit = clock_s() + TIME_LIMIT_S;
    for (int left = n; left;) {
        watch_step("compiling kernels", kernels.before + kernels.now * (n - left) / n, kernels.all);
        for (int i = 0; i < n; i++) {
            int status = -1;
            pid_t got = job[i].done ? 0 : job[i].pid < 0 ? -1 : waitpid(job[i].pid, &status, WNOHANG);
            if (!got || (got < 0 && errno == EINTR)) continue;
            job[i].done = true;
            left--;
            if (got > 0 && WIFEXITED(status) && !WEXITSTATUS(status)) continue;
            char why[300];
            first_error(why, job[i].log);
            if (got > 0 && WIFEXITED(status) && job_again(w, &job[i])) left++;
            else if (!s) s = fail(TG_CACHE, "the C compiler failed on generated code: %s", why);
        }
        bool over = (stop && atomic_load(stop)) || watch_over(watcher_now()), late = clock_s() > limit || over;
        if (over && !s) s = watch_check();
        for (int i = 0; late && i < n; i++)
            if (!job[i].done) kill(-job[i].pid, SIGKILL), limit = clock_s() + TIME_LIMIT_S;
        if (left) nanosleep(&(struct timespec){ 0, stop ? 5000000 : 300000 }, NULL);
    }
    return s;
}
