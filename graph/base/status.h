/* Failure: the deepest place that knows writes the message once, by fail(); everyone above passes the status on with
 * TRY. */
#ifndef TG_STATUS_H
#define TG_STATUS_H
#include "tgrun.h"

/* Records the calling thread's error line (no file name in front: the loader's caller adds it) and returns code. */
TgStatus fail(TgStatus code, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* The same with its place, for messages `node 'conv1' (Conv): pads: has 3 values, expected 4` and the JSON error. NULL
 * parts are left out. */
TgStatus fail_at(TgStatus code, const char *node, const char *op, const char *field, const char *fmt, ...)
    __attribute__((format(printf, 5, 6)));
void status_clear(void);
/* puts "node '..' (Op): " in front of the recorded line, unless it names a node */
void status_at(const char *node, const char *op);
void status_prefix(const char *file);   /* puts "file: " in front of the recorded line, control characters escaped */

#define TRY(call)                                 \
    do {                                          \
        TgStatus try_status_ = (call);            \
        if (try_status_ != TG_OK) return try_status_; \
    } while (0)
#endif
