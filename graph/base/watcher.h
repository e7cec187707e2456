/* Who watches the work of this thread: is shown how far it has come, reads what it says, may end it. Set by the
 * library's entry points from the caller's options; deeper code neither knows nor passes it. */
#ifndef TG_WATCHER_H
#define TG_WATCHER_H
#include <stdbool.h>
#include <stdint.h>

#include "graph/base/status.h"

/* progress: the work, in a few words; done of total, in what it consists of. log: a line, without its end. Both are
 * called from the thread that works. */
typedef struct {
    void (*progress)(void *user, const char *what, double done, double total);
    void *progress_user;
    void (*log)(void *user, const char *line);
    void *log_user;
    const int32_t *stop;            /* not 0, which any thread may make it: the work is to end; or NULL */
    double deadline;                /* of clock_s: so is it from then on; 0: never */
} Watcher;

/* The watcher of this thread from now on; returns the one before, which the caller restores. */
Watcher watcher_set(Watcher w);
/* That of this thread. Another thread that works for it may call watch_over on it meanwhile. */
const Watcher *watcher_now(void);
void watch_step(const char *what, double done, double total);
/* Lines of text; nobody reads them: nothing. */
void watch_say(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* Is the work to end? To be called between pieces of work: once a kernel, a stage, a step of a run. */
bool watch_over(const Watcher *w);
/* The same of this thread's watcher, as a failure: TG_STOPPED, TG_TIMEOUT. */
TgStatus watch_check(void);
#endif
