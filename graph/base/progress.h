/* How far a long piece of work has come, for whoever watches this thread. */
#ifndef TG_PROGRESS_H
#define TG_PROGRESS_H

/* what: the work, in a few words; done of total, in what it consists of. It is called often, from the thread that
 * works. */
typedef void (*ProgressFn)(void *user, const char *what, double done, double total);
typedef struct { ProgressFn fn; void *user; } Watcher;

/* The watcher of this thread from now on, NULL for none; returns the one before, which the caller restores. */
Watcher progress_watch(Watcher w);
void progress_step(const char *what, double done, double total);
#endif
