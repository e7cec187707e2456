/* Archives of models: tar, plain or packed by gzip or xz. */
#ifndef TG_ARCHIVE_H
#define TG_ARCHIVE_H
#include <signal.h>

#include "tgrun.h"

/* Unpacks into a folder that is there and that nobody else writes to. Nothing is written outside of it: names that are
 * absolute or go up, links and devices are refused. What was written before a failure stays. stop: not 0 ends it, with
 * TG_LIMIT and without a word. A failure is said: TG_BAD_INPUT; TG_UNSUPPORTED: xz without liblzma, which is opened
 * when it is wanted; TG_CACHE: the disk. */
TgStatus archive_unpack(const char *archive, const char *folder, const volatile sig_atomic_t *stop);
#endif
