/* tg_run_async: a run in a thread of its own, which ends with it. */
#include <pthread.h>
#include <stdlib.h>

#include "frontend/session/session.h"
#include "graph/base/memory.h"

typedef struct {
    TgSession *session;
    const TgTensor *inputs;
    TgTensor *outputs;
    int32_t count;
    void (*done)(void *user, TgStatus status, const char *error);
    void *user;
} Call;

static void *work(void *user)
{
    Call c = *(Call *)user;
    mem_free(user);
    TgStatus status = tg_run(c.session, c.inputs, c.count, c.outputs);
    c.done(c.user, status, status == TG_OK ? NULL : tg_error());
    return NULL;
}

TgStatus tg_run_async(TgSession *s, const TgTensor *inputs, int32_t count, TgTensor *outputs,
                      void (*done)(void *user, TgStatus status, const char *error), void *user)
{
    pthread_t thread;
    Call *c = mem_try(sizeof *c);
    if (!c) return fail(TG_LIMIT, "out of memory");
    *c = (Call){ s, inputs, outputs, count, done, user };
    if (pthread_create(&thread, NULL, work, c)) {
        mem_free(c);
        return fail(TG_LIMIT, "no thread is to be had for a run");
    }
    pthread_detach(thread);
    return TG_OK;
}
