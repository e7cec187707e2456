/* See memory.h. A block has a header, by which it is a member of its attempt's list; a block of no attempt is in no
 * list. Lists change under one lock: a thread may free what another's attempt made. */
#include "graph/base/memory.h"

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct MemBlock {
    struct MemBlock *older, *newer;
    Attempt *_Atomic of;
    size_t mark;                    /* a block has MARK; and the bytes behind it are aligned to 16 */
} MemBlock;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static _Thread_local Attempt *now;

static const size_t MARK = 0x6b636f6c42;

static MemBlock *header(const void *block)
{
    MemBlock *b = (MemBlock *)(uintptr_t)block - 1;
    assert(b->mark == MARK);
    return b;
}

/* ---- membership: with the lock ---- */

static void join(MemBlock *b, Attempt *a)
{
    atomic_store_explicit(&b->of, a, memory_order_relaxed);
    if (!a) return;
    b->newer = NULL;
    if ((b->older = a->newest)) b->older->newer = b;
    a->newest = b;
}

static void leave(MemBlock *b)
{
    Attempt *a = atomic_load_explicit(&b->of, memory_order_relaxed);
    if (!a) return;
    if (b->older) b->older->newer = b->newer;
    if (b->newer) b->newer->older = b->older;
    else a->newest = b->older;
    atomic_store_explicit(&b->of, NULL, memory_order_relaxed);
}

static void enter(MemBlock *b, Attempt *a)
{
    if (!a) {
        atomic_init(&b->of, NULL);
        return;
    }
    pthread_mutex_lock(&lock);
    join(b, a);
    pthread_mutex_unlock(&lock);
}

static void enter_beside(MemBlock *b, const void *owner)
{
    pthread_mutex_lock(&lock);
    join(b, atomic_load_explicit(&header(owner)->of, memory_order_relaxed));
    pthread_mutex_unlock(&lock);
}

void mem_keep(void *block)
{
    if (!block || !atomic_load_explicit(&header(block)->of, memory_order_relaxed)) return;
    pthread_mutex_lock(&lock);
    leave(header(block));
    pthread_mutex_unlock(&lock);
}

/* ---- blocks ---- */

static MemBlock *take(size_t bytes)
{
    MemBlock *b = bytes <= SIZE_MAX - sizeof *b ? malloc(sizeof *b + bytes) : NULL;
    if (b) b->mark = MARK;
    return b;
}

void *mem_try(size_t bytes)
{
    MemBlock *b = take(bytes);
    if (!b) return NULL;
    enter(b, now);
    return b + 1;
}

void *mem_new(size_t bytes)
{
    void *block = mem_try(bytes);
    if (!block) attempt_fail(bytes);
    return block;
}

void *mem_zeros(size_t n, size_t bytes)
{
    size_t all = 0;
    bool fits = !__builtin_mul_overflow(n, bytes, &all) && all <= SIZE_MAX - sizeof(MemBlock);
    MemBlock *b = fits ? calloc(1, sizeof *b + all) : NULL;
    if (!b) attempt_fail(all);
    b->mark = MARK;
    enter(b, now);
    return b + 1;
}

void *mem_beside(const void *owner, size_t bytes)
{
    MemBlock *b = take(bytes);
    if (!b) attempt_fail(bytes);
    enter_beside(b, owner);
    return b + 1;
}

/* A block that moves takes its place in the list again. */
static void *grow(void *block, size_t bytes)
{
    MemBlock *b = header(block), *moved = NULL;
    if (bytes > SIZE_MAX - sizeof *b) return NULL;
    if (!atomic_load_explicit(&b->of, memory_order_relaxed)) {
        moved = realloc(b, sizeof *b + bytes);
        return moved ? (void *)(moved + 1) : NULL;
    }
    pthread_mutex_lock(&lock);
    Attempt *of = atomic_load_explicit(&b->of, memory_order_relaxed);
    leave(b);
    moved = realloc(b, sizeof *b + bytes);
    join(moved ? moved : b, of);
    pthread_mutex_unlock(&lock);
    return moved ? (void *)(moved + 1) : NULL;
}

void *mem_try_grow(void *block, size_t bytes) { return block ? grow(block, bytes) : mem_try(bytes); }

void *mem_grow(void *block, size_t bytes)
{
    void *grown = mem_try_grow(block, bytes);
    if (!grown) attempt_fail(bytes);
    return grown;
}

void *mem_grow_beside(const void *owner, void *block, size_t bytes)
{
    return block ? mem_grow(block, bytes) : mem_beside(owner, bytes);
}

char *mem_text(const char *s)
{
    size_t bytes = strlen(s) + 1;
    return memcpy(mem_new(bytes), s, bytes);
}

void mem_free(void *block)
{
    if (!block) return;
    mem_keep(block);
    free(header(block));
}

/* ---- attempts ---- */

void attempt_begin(Attempt *a, Attempt *around)
{
    a->before = now;
    a->around = around;
    a->newest = NULL;
    a->undo = NULL;
    now = a;
}

Attempt *attempt_now(void) { return now; }

void attempt_end(Attempt *a)
{
    now = a->before;
    pthread_mutex_lock(&lock);
    for (MemBlock *b = a->newest, *older; b; b = older) {
        older = b->older;
        join(b, a->around);
    }
    pthread_mutex_unlock(&lock);
}

void undo_push(Undo *u, void (*call)(void *of), void *of)
{
    *u = (Undo){ .call = call, .of = of };
    if (!now) return;
    u->below = now->undo;
    now->undo = u;
}

void undo_pop(Undo *u)
{
    if (now && now->undo == u) now->undo = u->below;
}

static void sweep(Attempt *a)
{
    pthread_mutex_lock(&lock);
    MemBlock *b = a->newest;
    a->newest = NULL;
    pthread_mutex_unlock(&lock);
    for (MemBlock *older; b; b = older) {
        older = b->older;
        free(b);
    }
}

void attempt_fail(size_t bytes)
{
    Attempt *a = now;
    if (!a) {
        fputs("tgrun: out of memory\n", stderr);
        exit(TG_LIMIT);
    }
    while (a->undo) {
        Undo *u = a->undo;
        a->undo = u->below;
        u->call(u->of);
    }
    sweep(a);
    now = a->before;
    fail(TG_LIMIT, bytes ? "out of memory: %zu bytes more are wanted" : "out of memory", bytes);
    longjmp(a->back, 1);
}
