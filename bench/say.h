/* What people read: one-line errors on standard error (and as JSON when that was requested), progress on a terminal. */
#ifndef TG_SAY_H
#define TG_SAY_H
#include <stdbool.h>
#include "tgrun.h"

void say_setup(const char *program, const char *json_file, bool quiet); /* json_file: NULL none, "" standard output */
/* `program: message`; control characters escaped. Returns code. */
TgStatus say_error(TgStatus code, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
TgStatus say_library_error(TgStatus code); /* the library's last error, with its place */
/* The exit code: status, unless what was printed did not arrive (a full disk). */
int say_end(TgStatus status);
void say_note(const char *fmt, ...) __attribute__((format(printf, 1, 2)));    /* standard error, not when quiet */
/* when: --progress, `auto` on a terminal alone. */
void say_progress_setup(const char *when);
void say_watch(TgOptions *options);                 /* what a session works on, and what it says, is shown */
/* A bar with the time that is left; total 0: it is not known, and the time so far is shown. What is over in half a
 * second is not shown. It may be called often. */
void say_progress(const char *what, double done, double total);
void say_progress_done(void);                       /* clears the line: before anything else is printed */
#endif
