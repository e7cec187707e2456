/* Compiler processes, started by posix_spawn when there is first need and kept for the next search round.
 * One thread serves them all: a worker reads its whole job before it compiles and answers only then, so a write to an
 * idle worker and a read from one that poll calls ready both end soon. Where the worker program is missing, this
 * process compiles by itself. */
#define _GNU_SOURCE
#include "backends/cuda/workers.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backends/child.h"
#include "backends/cuda/nvrtc.h"
#include "backends/cuda/protocol.h"
#include "graph/base/memory.h"
#include "graph/base/watcher.h"

enum { MOST = 64 };
typedef struct { Child child; CompileJob *job; } Worker;
struct Workers {
    Worker worker[MOST];
    uint32_t count, most;
    char path[4096];
    bool missing;
    pthread_mutex_t lock;
};

Workers *workers_new(int most)
{
    Workers *w = mem_zeros(1, sizeof *w);
    w->most = most < 1 ? 1 : most > MOST ? MOST : (uint32_t)most;
    w->missing = !child_find(w->path, sizeof w->path);
    pthread_mutex_init(&w->lock, NULL);
    return w;
}

static void unlock(void *mutex) { pthread_mutex_unlock(mutex); }

Workers *workers_kept(void)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static Workers *kept;
    Undo undo;
    pthread_mutex_lock(&lock);
    undo_push(&undo, unlock, &lock);
    if (!kept) mem_keep(kept = workers_new((int)sysconf(_SC_NPROCESSORS_ONLN)));
    undo_pop(&undo);
    pthread_mutex_unlock(&lock);
    return kept;
}

void workers_free(Workers *w)
{
    for (uint32_t k = 0; w && k < w->count; k++) child_stop(&w->worker[k].child, false);
    if (w) pthread_mutex_destroy(&w->lock);
    mem_free(w);
}

static bool spawn(Workers *w)
{
    const char *argv[] = { w->path, NULL };
    if (!child_start(&w->worker[w->count].child, w->path, argv, false)) return false;
    w->worker[w->count++].job = NULL;
    return true;
}

static bool give(Worker *k, CompileJob *job, const char *arch)
{
    JobHead h = { PROTOCOL_MAGIC, strlen(arch) + 1, strlen(job->source) + 1 };
    k->job = job;
    return pipe_write(k->child.to, &h, sizeof h) && pipe_write(k->child.to, arch, h.arch_bytes) &&
        pipe_write(k->child.to, job->source, h.source_bytes);
}

static bool take(Worker *k)
{
    AnswerHead a;
    if (!pipe_read(k->child.from, &a, sizeof a)) return false;
    char *bytes = mem_try(a.size_bytes);
    if (!bytes || !pipe_read(k->child.from, bytes, a.size_bytes)) return mem_free(bytes), false;
    if (a.status == TG_OK) k->job->cubin = bytes, k->job->size_bytes = a.size_bytes;
    else k->job->error = bytes;
    k->job = NULL;
    return true;
}

/* A worker that died (a crash of the compiler) costs its job, not the program; another takes its place. */
static bool lost(Workers *w, uint32_t at)
{
    static const char why[] = "cuda: the compiler process died";
    char *error = w->worker[at].job ? w->worker[at].job->error = mem_try(sizeof why) : NULL;
    if (error) memcpy(error, why, sizeof why);
    child_stop(&w->worker[at].child, false);
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
            fd[k] = (struct pollfd){ .fd = w->worker[k].child.from, .events = POLLIN };
            busy += w->worker[k].job != NULL;
        }
        watch_step("compiling kernels", next - busy, n);
        if (!busy && next == n) return true;
        /* every worker died before it had its job; the next ones take the rest */
        if (!busy) continue;
        if (poll(fd, w->count, 200) < 0 && errno != EINTR) return false;
        for (uint32_t k = w->count; k--;)
            if ((fd[k].revents & (POLLIN | POLLHUP)) && w->worker[k].job && !take(&w->worker[k]) && !lost(w, k))
                return false;
    }
    return n == 0;
}

static TgStatus compile_here(CompileJob *job, uint32_t n, const char *arch)
{
    TRY(nvrtc_open());
    for (uint32_t k = 0; k < n; k++, watch_step("compiling kernels", k, n)) {
        TRY(watch_check());
        if (nvrtc_compile(&job[k].cubin, &job[k].size_bytes, job[k].source, arch) != TG_OK)
            job[k].error = mem_text(tg_error());
    }
    return TG_OK;
}

TgStatus workers_compile(Workers *w, CompileJob *job, uint32_t n, const char *arch)
{
    if (w->missing || n == 1) return compile_here(job, n, arch);
    pthread_mutex_lock(&w->lock);
    bool ok = serve(w, job, n, arch);
    pthread_mutex_unlock(&w->lock);
    return ok ? TG_OK : fail(TG_CACHE, "cuda: no compiler process can be started: %s", w->path);
}
