#include "graph/base/watcher.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "common/clock.h"

static _Thread_local Watcher watcher;

Watcher watcher_set(Watcher w)
{
    Watcher before = watcher;
    watcher = w;
    return before;
}

const Watcher *watcher_now(void) { return &watcher; }

void watch_step(const char *what, double done, double total)
{
    if (watcher.progress) watcher.progress(watcher.progress_user, what, done, total);
}

void watch_say(const char *fmt, ...)
{
    char text[2000], *more;
    va_list args;
    if (!watcher.log) return;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    for (char *line = strtok_r(text, "\n", &more); line; line = strtok_r(NULL, "\n", &more))
        watcher.log(watcher.log_user, line);
}

static bool stopped(const Watcher *w) { return w->stop && __atomic_load_n(w->stop, __ATOMIC_RELAXED); }
static bool late(const Watcher *w) { return w->deadline > 0 && clock_s() >= w->deadline; }

bool watch_over(const Watcher *w) { return stopped(w) || late(w); }

TgStatus watch_check(void)
{
    if (stopped(&watcher)) return fail(TG_STOPPED, "stopped");
    return late(&watcher) ? fail(TG_TIMEOUT, "the call's time is over") : TG_OK;
}
