/* Chunks start small, since a model has thousands of arenas, and grow by half of what there is, up to 8 MiB; a block
 * larger than a chunk gets one of its own. */
#include "graph/base/arena.h"

#include "graph/base/memory.h"
#include "graph/base/number.h"

#include <string.h>

typedef struct Chunk {
    struct Chunk *prev;
    size_t cap, used, single;     /* single: a debug block's own malloc */
} Chunk;

struct Arena {
    Chunk *top;
    size_t total;
};

#define HEADER ((sizeof(Chunk) + 15) & ~(size_t)15)
#define CHUNK_MIN ((size_t)2 << 10)
#define CHUNK_MAX ((size_t)8 << 20)

Arena *arena_new(void) { return mem_zeros(1, sizeof(Arena)); }

Arena *arena_beside(const void *owner)
{
    Arena *a = mem_beside(owner, sizeof *a);
    *a = (Arena){ 0 };
    return a;
}

void arena_keep(Arena *a)
{
    mem_keep(a);
    for (Chunk *c = a->top; c; c = c->prev) mem_keep(c);
}

static void chunk_push(Arena *a, size_t cap)
{
    Chunk *c = mem_beside(a, HEADER + cap);
    *c = (Chunk){ .prev = a->top, .cap = cap };
    a->top = c;
    a->total += cap;
}

void *arena_alloc(Arena *a, size_t size)
{
    size = (size + 15) & ~(size_t)15;
#ifdef TG_ARENA_MALLOC
    chunk_push(a, size ? size : 16);
#else
    if (!a->top || a->top->cap - a->top->used < size) {
        size_t cap = a->total / 2;
        if (cap < CHUNK_MIN) cap = CHUNK_MIN;
        if (cap > CHUNK_MAX) cap = CHUNK_MAX;
        if (cap < size) cap = size;
        chunk_push(a, cap);
    }
#endif
    char *p = (char *)a->top + HEADER + a->top->used;
    a->top->used += size;
    return memset(p, 0, size);
}

void *arena_copy(Arena *a, const void *data, size_t size)
{
    void *p = arena_alloc(a, size);
    return size ? memcpy(p, data, size) : p;
}

char *arena_strndup(Arena *a, const char *s, size_t n)
{
    char *p = arena_alloc(a, n + 1);
    if (n) memcpy(p, s, n);
    return p;
}

char *arena_strdup(Arena *a, const char *s) { return arena_strndup(a, s, strlen(s)); }

char *arena_vprintf(Arena *a, const char *fmt, va_list ap)
{
    char few[256];
    va_list again;
    va_copy(again, ap);
    int n = number_vprint(few, sizeof few, fmt, ap);
    char *p = arena_alloc(a, (size_t)n + 1);
    if ((size_t)n < sizeof few) memcpy(p, few, (size_t)n + 1);
    else number_vprint(p, (size_t)n + 1, fmt, again);
    va_end(again);
    return p;
}

char *arena_printf(Arena *a, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    char *p = arena_vprintf(a, fmt, ap);
    va_end(ap);
    return p;
}

ArenaMark arena_mark(const Arena *a) { return (ArenaMark){ a->top, a->top ? a->top->used : 0 }; }

void arena_release(Arena *a, ArenaMark mark)
{
    while (a->top && a->top != mark.chunk) {
        Chunk *prev = a->top->prev;
        a->total -= a->top->cap;
        mem_free(a->top);
        a->top = prev;
    }
    if (a->top) a->top->used = mark.used;
}

void arena_free(Arena *a)
{
    if (!a) return;
    arena_release(a, (ArenaMark){ NULL, 0 });
    mem_free(a);
}

size_t arena_bytes(const Arena *a) { return a->total; }
