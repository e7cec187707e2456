#include "graph/base/progress.h"

static _Thread_local Watcher watcher;

Watcher progress_watch(Watcher w)
{
    Watcher before = watcher;
    watcher = w;
    return before;
}

void progress_step(const char *what, double done, double total)
{
    if (watcher.fn) watcher.fn(watcher.user, what, done, total);
}
