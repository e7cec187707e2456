/* Arena: bump allocation, freed all at once or back to a mark. A debug build (TG_ARENA_MALLOC) gives each block its own
 * malloc, so that ASan sees overruns. There is memory, or the attempt ends (memory.h); an arena's blocks belong to what
 * the arena belongs to. */
#ifndef TG_ARENA_H
#define TG_ARENA_H
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

typedef struct Arena Arena;
typedef struct { void *chunk; size_t used; } ArenaMark;

Arena *arena_new(void);
Arena *arena_beside(const void *owner);                   /* mem_beside */
void arena_keep(Arena *a);                                /* mem_keep */
void arena_free(Arena *a);
void *arena_alloc(Arena *a, size_t size);                 /* zeroed, 16-byte aligned */
void *arena_copy(Arena *a, const void *data, size_t size);
char *arena_strdup(Arena *a, const char *s);
char *arena_strndup(Arena *a, const char *s, size_t n);
char *arena_vprintf(Arena *a, const char *fmt, va_list ap) __attribute__((nonnull(2)));
char *arena_printf(Arena *a, const char *fmt, ...) __attribute__((format(printf, 2, 3), nonnull(2)));
ArenaMark arena_mark(const Arena *a);
void arena_release(Arena *a, ArenaMark mark);             /* everything allocated after the mark is gone */
size_t arena_bytes(const Arena *a);

#define NEW(a, T) ((T *)arena_alloc((a), sizeof(T)))
#define NEW_N(a, T, n) ((T *)arena_alloc((a), sizeof(T) * (size_t)(n)))
#endif
