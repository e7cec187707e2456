/* A compiler or worker that is led astray can do little: where the kernel has Landlock, a thread and the processes that
 * it starts from then on write beneath named folders alone, open no TCP connection and signal nobody outside. */
#ifndef TG_SANDBOX_H
#define TG_SANDBOX_H
#include <stdbool.h>
#include <stdint.h>

/* Of the calling thread, for good. writable[n]: folders; NULL ones and those that are not there are left out; /dev is
 * one always. false: the kernel has it not or has refused, or TGRUN_SANDBOX=off stands in the environment; nothing has
 * changed then, except that programs gain no privileges by starting (no_new_privs). */
bool sandbox_enter(const char *const *writable, uint32_t n);
/* Runs `start` in a thread of its own, which is in such a sandbox. What it starts stays there. The thread has ended
 * when this returns. Where there is no thread or no sandbox, `start` runs all the same. */
void sandbox_run(const char *writable, void (*start)(void *user), void *user);
#endif
