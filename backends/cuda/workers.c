/* Compiler processes, started by posix_spawn when there is first need and kept for the next search round.
 * One thread serves them all: a worker reads its whole job before it compiles and answers only then, so a write to an idle worker and a read from one that
 * poll calls ready both end soon. Where the worker program is missing, this process compiles by itself. */
#define _GNU_SOURCE
#include "backends/cuda/workers.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "backends/cuda/nvrtc.h"
#include "backends/cuda/worker/protocol.h"

enum { MOST = 64 };
typedef struct { pid_t pid; int to, from; CompileJob *job; } Worker;
struct Workers { Worker worker[MOST]; uint32_t count, most; char path[4096]; bool missing; };

extern char **environ;

static bool beside(char *out, size_t cap, const char *file)
{
    const char *slash = strrchr(file, '/');
    int n = slash ? snprintf(out, cap, "%.*s/tgrun-worker", (int)(slash - file), file) : 0;
    return n > 0 && (size_t)n < cap && !access(out, X_OK);
}

/* Beside this library, else beside the program; TGRUN_WORKER names another. */
static bool find_worker(char *out, size_t cap)
{
    Dl_info info;
    char self[4096];
    const char *own = getenv("TGRUN_WORKER");
    if (own && *own) return snprintf(out, cap, "%s", own) < (int)cap && !access(out, X_OK);
    if (dladdr((void *)(uintptr_t)find_worker, &info) && beside(out, cap, info.dli_fname)) return true;
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    self[n > 0 ? n : 0] = 0;
    return beside(out, cap, self);
}

Workers *workers_new(int most)
{
    Workers *w = calloc(1, sizeof *w);
    w->most = most < 1 ? 1 : most > MOST ? MOST : (uint32_t)most;
    w->missing = !find_worker(w->path, sizeof w->path);
    return w;
}

static void close_worker(Worker *k)
{
    close(k->to);
    close(k->from);
    waitpid(k->pid, NULL, 0);
}

void workers_free(Workers *w)
{
    for (uint32_t k = 0; w && k < w->count; k++) close_worker(&w->worker[k]);
    free(w);
}

/* Pipes are close-on-exec, so that no worker holds another's end open. */
static bool spawn(Workers *w)
{
    int in[2], out[2];
    posix_spawn_file_actions_t actions;
    Worker *k = &w->worker[w->count];
    if (pipe2(in, O_CLOEXEC)) return false;
    if (pipe2(out, O_CLOEXEC)) return close(in[0]), close(in[1]), false;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, in[0], STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions, out[1], STDOUT_FILENO);
    char *argv[] = { w->path, NULL };
    int failed = posix_spawn(&k->pid, w->path, &actions, NULL, argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    close(in[0]);
    close(out[1]);
    k->to = in[1];
    k->from = out[0];
    k->job = NULL;
    if (failed) return close(k->to), close(k->from), false;
    w->count++;
    return true;
}

static bool give(Worker *k, CompileJob *job, const char *arch)
{
    JobHead h = { PROTOCOL_MAGIC, strlen(arch) + 1, strlen(job->source) + 1 };
    k->job = job;
    return write_all(k->to, &h, sizeof h) && write_all(k->to, arch, h.arch_bytes) && write_all(k->to, job->source, h.source_bytes);
}

static bool take(Worker *k)
{
    AnswerHead a;
    if (!read_all(k->from, &a, sizeof a)) return false;
    char *bytes = malloc(a.size_bytes);
    if (!bytes || !read_all(k->from, bytes, a.size_bytes)) return free(bytes), false;
    if (a.status == TG_OK) k->job->cubin = bytes, k->job->size_bytes = a.size_bytes;
    else k->job->error = bytes;
    k->job = NULL;
    return true;
}

/* A worker that died (a crash of the compiler) costs its job, not the program; another takes its place. */
static bool lost(Workers *w, uint32_t at)
{
    if (w->worker[at].job) w->worker[at].job->error = strdup("cuda: the compiler process died");
    close_worker(&w->worker[at]);
    w->worker[at] = w->worker[--w->count];
    return w->count || spawn(w);
}

static bool serve(Workers *w, CompileJob *job, uint32_t n, const char *arch)
{
    uint32_t next = 0;
    while (w->count < w->most && w->count < n && spawn(w)) { }
    while (w->count) {
        struct pollfd fd[MOST];
        uint32_t busy = 0;
        for (uint32_t k = w->count; k--;)
            if (!w->worker[k].job && next < n && !give(&w->worker[k], &job[next++], arch) && !lost(w, k)) return false;
        for (uint32_t k = 0; k < w->count; k++) {
            fd[k] = (struct pollfd){ .fd = w->worker[k].from, .events = POLLIN };
            busy += w->worker[k].job != NULL;
        }
        if (!busy) return true;
        if (poll(fd, w->count, -1) < 0 && errno != EINTR) return false;
        for (uint32_t k = w->count; k--;)
            if ((fd[k].revents & (POLLIN | POLLHUP)) && w->worker[k].job && !take(&w->worker[k]) && !lost(w, k)) return false;
    }
    return n == 0;
}

static TgStatus compile_here(CompileJob *job, uint32_t n, const char *arch)
{
    TRY(nvrtc_open());
    for (uint32_t k = 0; k < n; k++)
        if (nvrtc_compile(&job[k].cubin, &job[k].size_bytes, job[k].source, arch) != TG_OK) job[k].error = strdup(tg_error());
    return TG_OK;
}

TgStatus workers_compile(Workers *w, CompileJob *job, uint32_t n, const char *arch)
{
    if (w->missing || n == 1) return compile_here(job, n, arch);
    void (*old)(int) = signal(SIGPIPE, SIG_IGN);
    bool ok = serve(w, job, n, arch);
    signal(SIGPIPE, old);
    return ok ? TG_OK : fail(TG_CACHE, "cuda: no compiler process can be started: %s", w->path);
}
