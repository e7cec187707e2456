/* Pieces of work that know nothing of each other, from several threads. */
#ifndef TG_PARALLEL_H
#define TG_PARALLEL_H
#include <stdbool.h>
#include <stdint.h>

#include "graph/base/status.h"

enum { PARALLEL_MOST = 16 };        /* threads */

/* Cores that this process may use, at most PARALLEL_MOST. */
uint32_t parallel_cores(void);
/* Calls work(user, i) for each i < n, in ascending order, from so many threads at most, the calling one among them, and
 * returns when they have ended. What they make belongs to the attempt under way. No piece is begun after the watcher
 * has ended the work. false: a thread lacked memory; it left what it had begun, and the rest to the others. */
bool parallel_for(uint32_t threads, uint32_t n, void (*work)(void *user, uint32_t i), void *user);
/* The same where every piece is wanted: a lack of memory ends the attempt, and the watcher's end is a failure. */
TgStatus parallel_all(uint32_t threads, uint32_t n, void (*work)(void *user, uint32_t i), void *user);
#endif
