/* Worker processes: an executable of ours, started by posix_spawn with a pipe to its input and one from its output.
 * Nothing forks once CUDA or a thread team runs. */
#ifndef TG_CHILD_H
#define TG_CHILD_H
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

typedef struct { pid_t pid; int to, from; } Child;

/* tgrun-worker: beside this library, in tgrun/ there or in the bin folder of its prefix, else beside the program;
 * TGRUN_WORKER names another. */
bool child_find(char *path, size_t cap);
/* Its pipes are close-on-exec here, so that no other child holds them open. group: in a process group of its own, out
 * of reach of Ctrl-C. */
bool child_start(Child *c, const char *path, const char *const *argv, bool group);
void child_stop(Child *c, bool at_once);        /* closes the pipes, kills when at_once, and waits */
bool pipe_write(int fd, const void *data, size_t n);
bool pipe_read(int fd, void *data, size_t n);
#endif
