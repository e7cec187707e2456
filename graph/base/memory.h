/* Memory that is there. Who requests a block gets one; where there is none, the work under way ends: the attempt that
 * it belongs to gives back all that was made since it began, and its caller gets TG_LIMIT. So deeper code has no path
 * for a lack of memory, and the program that uses the library goes on.
 *
 * An attempt is a call of the library's interface (or what a thread of its own does):
 *
 *     TgStatus status;
 *     ATTEMPT(status, open_model(s, path));
 *
 * Blocks that an attempt made are its own until it ends well. Then they stay, and belong to the attempt around it, or
 * to none. Where it fails, first what was pushed for that (undo_push) is called, newest first, while the stack is as it
 * was: it undoes what is no memory, such as locks, files, processes and threads, and requests none. Then the blocks
 * that are left are freed.
 *
 * What is stored in something older than the attempt must belong to that (mem_beside, arena_beside) or to nothing
 * (mem_keep), so that it is not freed behind its owner's back. */
#ifndef TG_MEMORY_H
#define TG_MEMORY_H
#include <setjmp.h>
#include <stdbool.h>
#include <stddef.h>

#include "graph/base/status.h"

void *mem_new(size_t bytes);                            /* 16-byte aligned, not cleared */
void *mem_zeros(size_t n, size_t bytes);                /* n * bytes, cleared */
void *mem_grow(void *block, size_t bytes);              /* block: NULL, or of this header; it may move */
char *mem_text(const char *s);                          /* a copy */
/* Blocks that belong to what `owner`, a block itself, belongs to now. */
void *mem_beside(const void *owner, size_t bytes);
void *mem_grow_beside(const void *owner, void *block, size_t bytes);
/* For sizes that come from a caller or a file: NULL where there is no such memory, and the caller says for what. */
void *mem_try(size_t bytes);
void *mem_try_grow(void *block, size_t bytes);
void mem_free(void *block);                             /* or NULL */
/* The block belongs to no attempt from here on: what keeps it frees it. */
void mem_keep(void *block);

typedef struct Undo {
    struct Undo *below;
    void (*call)(void *of);
    void *of;
} Undo;
/* `call` is called with `of` if the attempt fails before undo_pop. u lies in the caller's frame; they are popped in
 * reverse order. */
void undo_push(Undo *u, void (*call)(void *of), void *of);
void undo_pop(Undo *u);

typedef struct Attempt {
    jmp_buf back;
    struct Attempt *before, *around;    /* of this thread; what inherits the blocks */
    struct MemBlock *newest;
    Undo *undo;
} Attempt;
/* around: what inherits the blocks that are left: the attempt under way, that of a thread for which this one works, or
 * NULL, none. */
void attempt_begin(Attempt *a, Attempt *around);
void attempt_end(Attempt *a);
/* status: what `call` returns, or TG_LIMIT with its message. */
#define ATTEMPT(status, call) ATTEMPT_FOR(attempt_now(), status, call)
/* Blocks that are left belong to no attempt: what was made stays, whatever becomes of the attempt around. */
#define ATTEMPT_ALONE(status, call) ATTEMPT_FOR(NULL, status, call)
#define ATTEMPT_FOR(around, status, call)           \
    do {                                            \
        Attempt attempt_;                           \
        attempt_begin(&attempt_, around);           \
        if (_setjmp(attempt_.back)) {               \
            (status) = TG_LIMIT;                    \
        } else {                                    \
            (status) = (call);                      \
            attempt_end(&attempt_);                 \
        }                                           \
    } while (0)
Attempt *attempt_now(void);
/* The attempt under way ends as one does that lacks memory; `bytes`: how much it lacks. */
_Noreturn void attempt_fail(size_t bytes);
#endif
