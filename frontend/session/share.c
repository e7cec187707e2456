/* Sessions that share (tg_share): one model, device, code and packed weights; programs with values of their own. */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "frontend/session/compiled.h"
#include "frontend/session/session.h"
#include "graph/base/memory.h"

static TgStatus may_share(const TgSession *s)
{
    if (!s->device) return fail(TG_USAGE, "the session was opened without a device");
    if (!s->backend->share) return fail(TG_UNSUPPORTED, "device %s: sessions cannot share", s->backend->name);
    if (s->target.rank) return fail(TG_UNSUPPORTED, "shard: sessions of ranks cannot share");
    return s->batch ? fail(TG_UNSUPPORTED, "batch: sessions cannot share samples") : TG_OK;
}

static Family *family_new(TgSession *root)
{
    Family *f = mem_beside(root->arena, sizeof *f);
    *f = (Family){ .root = root, .sessions = 1 };
    pthread_mutexattr_t again;                              /* what is made may ask for what is to be made */
    pthread_mutexattr_init(&again);
    pthread_mutexattr_settype(&again, PTHREAD_MUTEX_RECURSIVE);
    pthread_mutex_init(&f->making, &again);
    pthread_mutexattr_destroy(&again);
    return root->family = f;
}

/* The programs that s has, last used first. */
static TgStatus share_programs(TgSession *t, const TgSession *s)
{
    Program **end = &t->program;
    for (Program *p = s->program; p; p = p->next, end = &(*end)->next) TRY(program_share(end, p, s->backend));
    return TG_OK;
}

static TgSession *session_like(const TgSession *s)
{
    Arena *a = arena_new();
    TgSession *t = NEW(a, TgSession);
    *t = *s;
    t->arena = a;
    t->program = NULL, t->profile = NULL, t->bound = NULL;
    t->node_time = t->step_time = NULL, t->nnode_time = t->nstep_time = 0;
    t->load_s = t->compile_s = t->schedule_s = t->tune_s = 0, t->compiled = t->cached = t->made = t->kept = 0;
    t->dims = free_dims_copy(a, &s->dims);
    t->tunedb = tunedb_open(s->options.no_cache || s->saved ? NULL : s->options.cache_dir);
    t->choice.db = t->tunedb;
    t->choice.target = &t->target;
    return t;
}

/* Who watches its calls may be another. */
static TgStatus set_watcher(TgOptions *own, const TgOptions *o)
{
    if (!o) return TG_OK;
    TRY(session_reserved(o->reserved, sizeof o->reserved / sizeof *o->reserved, "options"));
    own->progress = o->progress, own->progress_user = o->progress_user;
    own->log = o->log, own->log_user = o->log_user;
    own->stop = o->stop, own->call_limit_s = o->call_limit_s;
    return TG_OK;
}

static void undo_share(void *session) { tg_close(session); }

static TgStatus share(TgSession **out, TgSession *s, const TgOptions *watcher)
{
    Family *f = s->family ? s->family : family_new(s);
    Undo locked, made;
    pthread_mutex_lock(&f->making);
    undo_push(&locked, family_undo, s);
    TgSession *t = session_like(s);
    f->sessions++;
    undo_push(&made, undo_share, t);
    TgStatus status = set_watcher(&t->options, watcher);
    if (status == TG_OK) status = share_programs(t, s);
    undo_pop(&made);
    undo_pop(&locked);
    pthread_mutex_unlock(&f->making);
    if (status == TG_OK) *out = t;
    else tg_close(t);
    return session_in_file(s, status);
}

TgStatus tg_share(TgSession **out, TgSession *s, const TgOptions *watcher)
{
    TgStatus status;
    TRY(session_in_file(s, may_share(s)));
    ATTEMPT(status, share(out, s, watcher));
    return status;
}

/* Is it one that s would make? */
static bool is_made_so(const Program *p, const TgSession *s)
{
    return p->plain == s->target.plain && p->pieces >= s->pieces;
}

/* Of the programs that the family has made, newest first. */
static TgStatus find_made(Program **out, const TgSession *s, const TgTensor *input, int32_t count)
{
    const Family *f = s->family;
    *out = NULL;
    for (uint32_t k = 0; k < f->nmade && !*out; k++) {
        Program *p;
        if (!is_made_so(f->made[k], s)) continue;
        TRY(program_share(&p, f->made[k], s->backend));     /* what fits may have to be computed */
        ProgramHold h;
        program_hold(&h, &p, s->backend);
        bool fits = program_fits(p, s->backend, input, (uint32_t)count);
        program_let(&h);
        if (fits) *out = p;
        else program_free(p, s->backend);
    }
    return TG_OK;
}

static TgStatus add_made(Family *f, Program *p, const Backend *b)
{
    Program *shared;
    TRY(program_share(&shared, p, b));
    if (f->nmade == PROGRAMS_KEPT) program_free(f->made[--f->nmade], b);
    memmove(f->made + 1, f->made, sizeof *f->made * f->nmade++);
    f->made[0] = shared;
    return TG_OK;
}

static TgStatus find_or_make(Program **out, TgSession *s, const TgTensor *input, int32_t count)
{
    TRY(find_made(out, s, input, count));
    if (*out) return TG_OK;
    TRY(session_make(out, s, input, count));
    if (add_made(s->family, *out, s->backend) != TG_OK) status_clear();      /* then it is this session's alone */
    return TG_OK;
}

TgStatus family_lock(const TgSession *s)
{
    while (s->family && pthread_mutex_trylock(&s->family->making)) {
        TRY(watch_check());
        nanosleep(&(struct timespec){ 0, 200000 }, NULL);
    }
    return TG_OK;
}

void family_unlock(const TgSession *s)
{
    if (s->family) pthread_mutex_unlock(&s->family->making);
}

void family_undo(void *session) { family_unlock(session); }

TgStatus family_program(Program **out, TgSession *s, const TgTensor *input, int32_t count)
{
    Undo undo;
    TRY(family_lock(s));
    undo_push(&undo, family_undo, s);
    TgStatus status = find_or_make(out, s, input, count);
    undo_pop(&undo);
    family_unlock(s);
    return status;
}

static void drop_made(Family *f)
{
    while (f->nmade) program_free(f->made[--f->nmade], f->root->backend);
}

bool family_alone(const TgSession *s)
{
    Family *f = s->family;
    pthread_mutex_lock(&f->making);
    bool alone = f->sessions == 1 && s == f->root;
    if (alone) drop_made(f);
    pthread_mutex_unlock(&f->making);
    return alone;
}

static void family_free(Family *f)
{
    drop_made(f);
    session_free(f->root);
    pthread_mutex_destroy(&f->making);
    mem_free(f);
}

bool family_leave(TgSession *s)
{
    Family *f = s->family;
    if (!f) return false;
    if (s != f->root) {                                     /* while it counts, the others are there, and the root's */
        s->device = NULL, s->model = NULL, s->saved = NULL;
        session_free(s);
    }
    pthread_mutex_lock(&f->making);
    bool last = --f->sessions == 0;
    pthread_mutex_unlock(&f->making);
    if (last) family_free(f);
    return true;
}
