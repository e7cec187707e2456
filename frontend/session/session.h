/* A session, as the files that implement tgrun.h share it. */
#ifndef TG_SESSION_H
#define TG_SESSION_H
#include <pthread.h>

#include "frontend/session/batch.h"
#include "frontend/session/program.h"
#include "frontend/session/ranks.h"
#include "frontend/session/shard.h"
#include "graph/base/memory.h"
#include "graph/base/watcher.h"

enum { PROGRAMS_KEPT = 8 };
/* What sessions that share have in common, made by the first tg_share. Programs that one of them made since are there
 * for all: newest first. making: one program is made at a time. */
typedef struct {
    pthread_mutex_t making;
    int32_t sessions;               /* those that are open */
    TgSession *root;                /* the first, whose model, device and options these are; freed last */
    Program *made[PROGRAMS_KEPT];
    uint32_t nmade;
} Family;

struct TgSession {
    Arena *arena;
    Family *family;                 /* NULL: it shares with none */
    Model *model;
    const Backend *backend;
    Device *device;
    TuneDb *tunedb;
    Target target;                  /* the device's, as the precision has it */
    Choice choice;                  /* which list a kernel gets: from the database, else the heuristic's */
    Program *program;               /* list, last used first */
    FreeDims dims;                  /* what sizes inputs had */
    GraphDef whole;                 /* the model's graph as it was opened: without optional inputs, with all outputs */
    bool *given;                    /* [whole.noptional] those that are inputs now */
    const Outside *outside;         /* of a session inside */
    TgOptions options;
    Batch *batch;                   /* NULL: the model runs as it is */
    Shard shard;                    /* among how many devices, and how */
    Bound *bound;                   /* by output, what tg_bind_output said; NULL: nothing */
    const char *path;
    struct Compiled *saved;         /* compiled.h: the file was one; NULL: it was a model */
    int32_t device_index;           /* cuda:N */
    double load_s, compile_s, schedule_s, tune_s;
    int64_t compiled, cached, made, kept;       /* kernels; programs */
    int64_t pieces;                 /* of a string that programs have room for; 0: their own least */
    SearchReport report;            /* of the last search */
    Arena *profile;                 /* of what tg_profile found last; or NULL */
    TgNodeTime *node_time, *step_time;
    uint32_t nnode_time, nstep_time;
};

/* share.c. A program for these inputs: one of the family's, else one that is made, and is the family's from then on. */
TgStatus family_program(Program **out, TgSession *s, const TgTensor *input, int32_t count);
/* Is it the last of its family? Then what that has made is gone, too. */
bool family_alone(const TgSession *s);
/* While one of a family makes something of the model, the others wait, or are stopped (watch_check). */
TgStatus family_lock(const TgSession *s);
void family_unlock(const TgSession *s);
void family_undo(void *session);        /* the same (undo_push) */
/* The session, whose programs are gone, ends. false: what it has is its own to free. */
bool family_leave(TgSession *s);

/* devices.c: opens the device that the options name. */
TgStatus session_open_device(TgSession *s);
/* A compiled model runs on at most the threads that it was compiled for. */
TgStatus session_fewer_threads(TgSession *s);
/* The target that kernels are made for: the device's, with numbers in as many parts as the precision allows. */
TgStatus session_target(TgSession *s);
void session_drop_programs(TgSession *s);
void session_free(TgSession *s);        /* what has no programs any more */
double model_step(const Model *m, const char *output);                /* step.c: TgPort.step */
/* step.c: the half type that an output is a cast of, or 0 */
TgType model_rounded(const Model *m, const char *output);
/* From here on the caller's options say who watches this thread's work; a body's watchers are those of what runs it. A
 * call within a call ends with it. The caller gives what is returned back to watcher_set. */
Watcher session_watch(const TgSession *s);
/* status: of a call of the interface, which is watched, and done as a whole or not at all (memory.h). */
#define SESSION_CALL(status, session, call)         \
    do {                                            \
        Watcher before_ = session_watch(session);   \
        ATTEMPT(status, call);                      \
        watcher_set(before_);                       \
    } while (0)
/* a failure's message starts with the model's file name */
TgStatus session_in_file(const TgSession *s, TgStatus status);
/* TG_USAGE: a field of a caller's struct is set that this library does not know. */
TgStatus session_reserved(const int64_t *reserved, size_t n, const char *what);
/* The first thing of what takes inputs: those of the session's programs, which where samples run one after another are
 * the first sample's. */
TgStatus session_enter(TgSession *s, const TgTensor **inputs, int32_t count);
/* makes the one that fits these inputs the one used last */
TgStatus session_program(TgSession *s, const TgTensor *input, int32_t count);
/* status: of a run. Was a sum that is rewritten no number in some element, where the plain one may be (GUARD_FINITE)?
 * Then sums stay as they are from here on, and there is no program: all is to be made and run again. Of a compiled
 * model it is a failure. */
bool session_falls_plain(TgSession *s, TgStatus *status);
/* a program for these inputs, the caller's */
TgStatus session_make(Program **out, TgSession *s, const TgTensor *input, int32_t count);
/* the same as far as its plan */
TgStatus session_plan(Program **out, const TgSession *s, const TgTensor *input, int32_t count, Dump *dump);
/* the program used last, for inputs that it fits, with the lists that the database has now; the caller's */
TgStatus session_make_anew(Program **out, TgSession *s, const TgTensor *input);
/* p takes the place of the program used last, which is freed */
void session_replace(TgSession *s, Program *p);
const char *session_cache_dir(Arena *a);                            /* where sessions cache by default; NULL: nowhere */
ProgramMaker session_maker(const TgSession *s);
/* profile.c: a run; seconds[plan->nkernel]: all launches of each are added */
TgStatus trace_kernels(Program *p, const Backend *b, const TgTensor *input, double *seconds);
TgStatus session_check_inputs(const TgSession *s, const TgTensor *input, int32_t count);
#endif
