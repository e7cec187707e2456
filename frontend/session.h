/* A session, as the files that implement tgrun.h share it. */
#ifndef TG_SESSION_H
#define TG_SESSION_H
#include "frontend/program.h"

struct TgSession {
    Arena *arena;
    Model *model;
    const Backend *backend;
    Device *device;
    Program *program;               /* list, last used first */
    TgOptions options;
    const char *path;
    double load_s, compile_s, schedule_s;
    int64_t compiled, cached;
};

TgStatus session_in_file(const TgSession *s, TgStatus status);      /* a failure's message starts with the model's file name */
TgStatus session_check_inputs(const TgSession *s, const TgTensor *input, int32_t count);
#endif
