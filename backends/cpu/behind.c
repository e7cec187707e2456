/* What a thread compiles behind the runs, one unit after another, and how runs take it over. Comes in: a build whose
 * kernels run as machine code of our own. */
#define _GNU_SOURCE
#include "backends/cpu/build.h"

#include <stdlib.h>
#include <time.h>

/* kernels of a unit: runs take over as they come, and a process that ends soon leaves some to the next */
enum { BEHIND_BATCH = 16 };

/* One after another, of all sessions of the process. False: it is to stop. */
static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER;
static bool take_turn(const Behind *h)
{
    while (!atomic_load(&h->stop)) {
        if (!pthread_mutex_trylock(&turn)) return true;
        nanosleep(&(struct timespec){ 0, 5000000 }, NULL);
    }
    return false;
}

static bool compile_some(Behind *h, Share share)
{
    TgStatus status;
    ATTEMPT(status, build_missing(&h->b, h->missing, share, 1));
    return !refused(status);
}

static void *compile_behind(void *user)
{
    Behind *h = user;
    bool good = true;
    qsort(h->missing, h->nmissing, sizeof *h->missing, build_by_length);
    for (uint32_t at = 0, now; at < h->nmissing && good; at += now) {
        now = h->nmissing - at < BEHIND_BATCH ? h->nmissing - at : BEHIND_BATCH;
        if (!take_turn(h)) return NULL;
        good = compile_some(h, (Share){ at, now, h->nmissing });
        pthread_mutex_unlock(&turn);
        if (good) atomic_store(&h->ready, at + now);
    }
    return NULL;
}

bool build_behind(Build *b, Item **of, uint32_t count, Item **missing, uint32_t nmissing)
{
    Behind *h = mem_zeros(1, sizeof *h);
    *h = (Behind){ .b = *b, .of = of, .missing = missing, .count = count, .nmissing = nmissing };
    h->b.stop = &h->stop;
    if (pthread_create(&h->thread, NULL, compile_behind, h)) {
        mem_free(h);
        return false;
    }
    b->code->behind = h;
    return true;
}

void build_end_behind(Code *c)
{
    Behind *h = c->behind;
    if (!h) return;
    atomic_store(&h->stop, true);
    pthread_join(h->thread, NULL);
    build_free_texts(&h->b);
    arena_free(h->b.arena);
    mem_free(h);
    c->behind = NULL;
}

static void take_ready(Code *c)
{
    Behind *h = c->behind;
    uint32_t ready = h ? atomic_load(&h->ready) : 0;
    if (!h || ready == h->taken) return;
    while (h->taken < ready) h->missing[h->taken++]->taken = true;
    for (uint32_t i = 0; i < h->count; i++)
        if (h->of[i]->taken) c->fn[i] = h->of[i]->fn;
    if (ready == h->nmissing) build_end_behind(c);
    atomic_fetch_add(&c->version, 1);
}

unsigned cpu_code_ready(Code *c)
{
    if (atomic_load_explicit(&c->behind, memory_order_relaxed) && !pthread_mutex_trylock(&c->lock)) {
        take_ready(c);
        pthread_mutex_unlock(&c->lock);
    }
    return atomic_load(&c->version);
}

