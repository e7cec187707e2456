#include "frontend/session/ranks.h"

#include <string.h>

#include "frontend/session/session.h"

typedef struct { uint32_t number, call; int32_t session; uint32_t reserved; uint64_t bytes; } Head;

static bool joined;
static TgSession **opened;          /* those that are open, by number; NULL: closed */
static int32_t nopened;

/* ---- a call as bytes ---- */

static void put_tensor(Text *t, const TgTensor *x)
{
    put_bytes(t, x, sizeof *x);
    put_int(t, x->data != NULL);
    if (!x->data) return;
    if (holds_tensors(x))
        for (int64_t k = 0; k < x->shape[0]; k++) put_tensor(t, (const TgTensor *)x->data + k);
    else if (x->type == TG_STRING)
        for (int64_t k = 0; k < tensor_count(x); k++) put_text(t, ((const char *const *)x->data)[k]);
    else put_bytes(t, x->data, x->size_bytes);
}

/* What rank 0 wrote a moment ago: of one build, and whole. */
typedef struct { Arena *arena; ByteReader in; } Body;

static void take_struct(Body *b, void *out, size_t n)
{
    size_t size;
    const void *data = get_bytes(&b->in, &size);
    if (size == n && n) memcpy(out, data, n);
}

static const char *take_text(Body *b) { return get_text(&b->in, b->arena); }

static void take_tensor(Body *b, TgTensor *x)
{
    size_t size;
    take_struct(b, x, sizeof *x);
    x->data = NULL;
    if (!get_int(&b->in)) return;
    if (holds_tensors(x)) {
        TgTensor *inside = x->data = NEW_N(b->arena, TgTensor, x->shape[0] + 1);
        for (int64_t k = 0; k < x->shape[0]; k++) take_tensor(b, &inside[k]);
    } else if (x->type == TG_STRING) {
        const char **s = x->data = NEW_N(b->arena, const char *, tensor_count(x) + 1);
        for (int64_t k = 0; k < tensor_count(x); k++) s[k] = take_text(b);
    } else {
        const void *data = get_bytes(&b->in, &size);
        x->data = arena_copy(b->arena, data ? data : "", size);                             /* aligned */
    }
}

/* Strings of the options that a rank has of rank 0; what watches a call is each rank's own. */
static const size_t option_text[] = { offsetof(TgOptions, device),       offsetof(TgOptions, cpus),
                                      offsetof(TgOptions, cache_dir),    offsetof(TgOptions, opts),
                                      offsetof(TgOptions, dims),         offsetof(TgOptions, batch_inputs),
                                      offsetof(TgOptions, compiler),     offsetof(TgOptions, shard) };
enum { OPTION_TEXTS = sizeof option_text / sizeof *option_text };

static void put_options(Text *t, const TgOptions *o)
{
    put_bytes(t, o, sizeof *o);
    for (size_t k = 0; k < OPTION_TEXTS; k++) {
        const char *s;
        memcpy(&s, (const char *)o + option_text[k], sizeof s);
        put_text(t, s);
    }
}

static void take_options(Body *b, TgOptions *o)
{
    take_struct(b, o, sizeof *o);
    for (size_t k = 0; k < OPTION_TEXTS; k++) {
        const char *s = take_text(b);
        memcpy((char *)o + option_text[k], &s, sizeof s);
    }
    o->progress = NULL, o->log = NULL, o->stop = NULL;
    o->progress_user = o->log_user = NULL;
}

static void put_work(Text *t, const RanksWork *w)
{
    put_int(t, w->count);
    put_text(t, w->text);
    if (w->call == RANKS_OPEN) put_options(t, w->options);
    for (int32_t k = 0; k < w->count && w->index; k++) put_int(t, w->index[k]);
    for (int32_t k = 0; k < w->count && w->input; k++) put_tensor(t, &w->input[k]);
}

static int32_t number_of(const TgSession *s)
{
    for (int32_t k = 0; k < nopened; k++)
        if (opened[k] == s) return k;
    return -1;
}

/* ---- calls ---- */

static TgStatus send_work(const RanksWork *w)
{
    Text body = { 0 };
    put_work(&body, w);
    Head h = { .number = job_next(), .call = w->call, .session = number_of(w->session), .bytes = body.len };
    TgStatus status = job_tell(&h, sizeof h);
    if (status == TG_OK) status = job_tell(body.s, (int64_t)body.len);
    text_free(&body);
    return status;
}

TgStatus ranks_begin(const RanksWork *w)
{
    if (job_is_broken()) return fail(TG_DEVICE, "ranks: a call was cut short before; the job must be started anew");
    return ranks_number() ? TG_OK : send_work(w);
}

/* ---- sessions ---- */

bool ranks_wanted(const TgOptions *o)
{
    return ranks_count() > 1 && o && o->shard && (!o->device || (!strchr(o->device, ':') && strcmp(o->device, "none")));
}

void ranks_add(TgSession *s)
{
    int32_t at = number_of(NULL);
    if (at < 0) {
        TgSession **more = mem_new(sizeof *more * (size_t)(nopened + 1));
        if (nopened) memcpy(more, opened, sizeof *more * (size_t)nopened);
        mem_keep(more);
        mem_free(opened);
        opened = more;
        at = nopened++;
    }
    opened[at] = s;
}

void ranks_remove(const TgSession *s)
{
    int32_t at = number_of(s);
    if (at >= 0) opened[at] = NULL;
}

static TgStatus obey(const Head *h, Body *b)
{
    int32_t count = (int32_t)get_int(&b->in);
    const char *text = take_text(b);
    TgSession *s = h->session >= 0 && h->session < nopened ? opened[h->session] : NULL;
    if (h->call == RANKS_OPEN) {
        TgOptions o;
        take_options(b, &o);
        return tg_open(&s, text, &o);
    }
    if (!s) return fail(TG_INTERNAL, "ranks: session %d is not open", h->session);
    if (h->call == RANKS_CLOSE) return tg_close(s), TG_OK;
    if (h->call == RANKS_GIVE) return tg_give(s, text, count);
    if (h->call == RANKS_SELECT) {
        int32_t *index = NEW_N(b->arena, int32_t, count + 1);
        for (int32_t k = 0; k < count; k++) index[k] = (int32_t)get_int(&b->in);
        return tg_select_outputs(s, index, count);
    }
    TgTensor *input = NEW_N(b->arena, TgTensor, count + 1), y[tg_output_count(s) + 1];
    TgMemory memory;
    for (int32_t k = 0; k < count; k++) take_tensor(b, &input[k]);
    if (h->call == RANKS_PLAN) return tg_memory(s, input, count, &memory, NULL, NULL);
    return h->call == RANKS_RUN ? tg_run(s, input, count, y) : tg_prepare(s, input, count);
}

static TgStatus serve_one(bool *over)
{
    Head h;
    TRY(job_hear(&h, sizeof h));
    job_follow(h.number);
    *over = h.call == RANKS_END;
    Arena *a = arena_new();
    uint8_t *body = arena_alloc(a, h.bytes + 1);
    TgStatus status = job_hear(body, (int64_t)h.bytes);
    /* what fails fails on rank 0, too, which says so */
    if (status == TG_OK && !*over) obey(&h, &(Body){ a, { body, body + h.bytes, false } });
    arena_free(a);
    return job_is_broken() ? fail(TG_STOPPED, "ranks: a call was cut short") : status;
}

static TgStatus serve(void)
{
    TgStatus status = TG_OK;
    for (bool over = false; !over && status == TG_OK;) status = serve_one(&over);
    return status;
}

TgStatus tg_ranks(int32_t *rank, int32_t *ranks)
{
    TgStatus status = joined ? TG_OK : job_join();
    joined = status == TG_OK;
    *rank = ranks_number();
    *ranks = ranks_count();
    return status;
}

TgStatus tg_ranks_serve(void)
{
    TgStatus status;
    if (!ranks_number()) return fail(TG_USAGE, "ranks: this is rank 0, which the others serve");
    ATTEMPT(status, serve());
    return status;
}

void tg_ranks_end(int32_t status)
{
    if (ranks_count() < 2) return;
    if (!job_is_broken() && !ranks_number()) send_work(&(RanksWork){ .call = RANKS_END });
    job_end(status);
    mem_free(opened);
    opened = NULL;
    nopened = 0;
}
