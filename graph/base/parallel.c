/* See parallel.h. Threads are started for each call: work that takes milliseconds is worth one. */
#define _GNU_SOURCE
#include "graph/base/parallel.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "graph/base/memory.h"
#include "graph/base/watcher.h"

typedef struct {
    void (*work)(void *user, uint32_t i);
    void *user;
    uint32_t n;
    atomic_uint next;
    atomic_bool lacked;
    Attempt *around;
    const Watcher *watcher;
} Pieces;

static TgStatus take_pieces(Pieces *p)
{
    for (uint32_t i; !watch_over(p->watcher) && (i = atomic_fetch_add(&p->next, 1)) < p->n;) p->work(p->user, i);
    return TG_OK;
}

static void *thread_main(void *pieces)
{
    Pieces *p = pieces;
    TgStatus status;
    ATTEMPT_FOR(p->around, status, take_pieces(p));
    if (status != TG_OK) atomic_store(&p->lacked, true);
    return NULL;
}

uint32_t parallel_cores(void)
{
    cpu_set_t set;
    int n = sched_getaffinity(0, sizeof set, &set) ? 1 : CPU_COUNT(&set);
    return n > PARALLEL_MOST ? PARALLEL_MOST : (uint32_t)n;
}

bool parallel_for(uint32_t threads, uint32_t n, void (*work)(void *user, uint32_t i), void *user)
{
    Pieces p = { .work = work, .user = user, .n = n, .around = attempt_now(), .watcher = watcher_now() };
    pthread_t thread[PARALLEL_MOST];
    uint32_t started = 0;
    if (threads > PARALLEL_MOST) threads = PARALLEL_MOST;
    if (threads > n) threads = n;
    while (started + 1 < threads && !pthread_create(&thread[started], NULL, thread_main, &p)) started++;
    thread_main(&p);
    while (started) pthread_join(thread[--started], NULL);
    return !atomic_load(&p.lacked);
}

TgStatus parallel_all(uint32_t threads, uint32_t n, void (*work)(void *user, uint32_t i), void *user)
{
    if (!parallel_for(threads, n, work, user)) attempt_fail(0);
    return watch_check();
}
