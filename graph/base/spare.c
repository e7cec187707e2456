/* See spare.h. The held blocks are few, so a search walks them all; the one that was held first makes room for the
 * next. */
#include "graph/base/spare.h"

#include <malloc.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* SPARE_LEAST: glibc gives smaller ones from its heap. Larger ones begin with a page: malloc gives callers 16 bytes
 * behind the beginning of one, and a processor that compares the low 12 bits of addresses takes a load for one of the
 * store before it where results lie 64 bytes behind their operands, modulo 4,096; such a kernel may need half as long
 * again. */
enum { SPARE_BLOCKS = 16, SPARE_LEAST = 128 << 10, SPARE_BYTES = 128 << 20, ALIGN = 64, PAGE = 4096 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct { void *block; size_t bytes; } held[SPARE_BLOCKS];
static size_t nheld, held_bytes;

static void *remove_at(size_t at)
{
    void *block = held[at].block;
    held_bytes -= held[at].bytes;
    nheld--;
    memmove(held + at, held + at + 1, (nheld - at) * sizeof *held);
    return block;
}

/* A held block that is large enough, and at most a quarter larger. */
static void *find(size_t bytes)
{
    for (size_t i = nheld; i-- > 0;)
        if (held[i].bytes >= bytes && held[i].bytes - bytes <= bytes / 4 && (uintptr_t)held[i].block % PAGE == 0)
            return remove_at(i);
    return NULL;
}

void *spare_alloc(size_t bytes)
{
    void *block = NULL;
    size_t align = bytes >= SPARE_LEAST ? PAGE : ALIGN;
    if (bytes > SIZE_MAX - 2 * PAGE) return NULL;
    if (bytes >= SPARE_LEAST) {
        pthread_mutex_lock(&lock);
        block = find(bytes);
        pthread_mutex_unlock(&lock);
    }
    return block ? block : aligned_alloc(align, (bytes + ALIGN + align - 1) / align * align);
}

void spare_free(void *block)
{
    size_t bytes = block ? malloc_usable_size(block) : 0;
    void *old[SPARE_BLOCKS];
    size_t nold = 0;
    if (bytes < SPARE_LEAST || bytes > SPARE_BYTES) {
        free(block);
        return;
    }
    pthread_mutex_lock(&lock);
    while (nheld == SPARE_BLOCKS || held_bytes + bytes > SPARE_BYTES) old[nold++] = remove_at(0);
    held[nheld].block = block;
    held[nheld++].bytes = bytes;
    held_bytes += bytes;
    pthread_mutex_unlock(&lock);
    while (nold) free(old[--nold]);
}
