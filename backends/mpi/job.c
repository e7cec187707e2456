#define _GNU_SOURCE
#include "backends/mpi/job.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "backends/mpi/mpi.h"
#include "common/clock.h"
#include "graph/base/memory.h"
#include "graph/base/watcher.h"

enum {
    CHUNK = 1 << 30,                /* bytes of a message, at most */
    TAG_CALL = 1, TAG_ANSWER, TAG_NOTICE, TAG_TURN, TAG_DATA,
    EPOCHS = 1 << 9,                /* of tags: those of a call that was cut short are not taken for another's */
    NUMBERS = 1 << 18,
    SPIN_NS = 1000000, NAP_NS = 50000, IDLE_NS = 1000000
};

/* A rank's call has failed, or what it says at the end of one. */
typedef struct { uint32_t epoch; int32_t status; uint64_t value; char message[480]; } Word;
typedef struct { char machine[64]; } Where;
/* Bytes under way. */
typedef struct { MpiRequest request; char *room; int64_t bytes; bool busy; } Sent;

static struct {
    int32_t rank, ranks, beside, number;        /* beside: ranks of this machine; number: of this one among them */
    bool inside, broken;
    bool here[RANKS_MOST];                      /* on this machine */
    uint32_t epoch;
    Word notice[RANKS_MOST];
    MpiRequest listening[RANKS_MOST];
    Sent *sent;                                 /* by a message's number */
    int32_t nsent;
    char *arrived;
    int64_t arrived_bytes;
} job = { .ranks = 1, .beside = 1 };

int32_t ranks_count(void) { return job.ranks; }
int32_t ranks_number(void) { return job.rank; }

int32_t ranks_beside(int32_t *number)
{
    *number = job.number;
    return job.beside;
}

/* ---- messages ---- */

static TgStatus listen_to(int32_t rank)
{
    return mpi_receive(&job.listening[rank], &job.notice[rank], sizeof *job.notice, rank, TAG_NOTICE);
}

/* Has another rank's call failed? */
static TgStatus look_around(void)
{
    for (int32_t k = 0; k < job.ranks; k++) {
        bool done = false;
        if (k == job.rank) continue;
        TRY(mpi_done(&job.listening[k], &done));
        if (!done) continue;
        Word w = job.notice[k];
        TRY(listen_to(k));
        if (job.inside && w.epoch == job.epoch)
            return fail((TgStatus)w.status, "rank %d: %.*s", k, (int)sizeof w.message - 1, w.message);
    }
    return TG_OK;
}

/* Waits; a core is given away soon, as ranks may be more than there are cores. idle: no failure ends it. */
static TgStatus wait_for(MpiRequest *r, bool idle)
{
    int64_t start = clock_ns(), nap = NAP_NS;
    bool done = false;
    for (;;) {
        TRY(mpi_done(r, &done));
        if (done) return TG_OK;
        if (clock_ns() - start < SPIN_NS) {
            sched_yield();
            continue;
        }
        TgStatus status = watch_check();
        if (status == TG_OK && !idle) status = look_around();
        if (status != TG_OK) return mpi_forget(r), status;
        nanosleep(&(struct timespec){ 0, nap }, NULL);
        if (idle && nap < IDLE_NS) nap *= 2;
    }
}

/* idle: between calls, or at the end of one, to which all come, whatever has become of it. */
static TgStatus receive(void *data, int64_t bytes, int32_t from, int32_t tag, bool idle)
{
    for (int64_t at = 0; at < bytes; at += CHUNK) {
        MpiRequest r;
        int64_t n = bytes - at < CHUNK ? bytes - at : CHUNK;
        TRY(mpi_receive(&r, (char *)data + at, (int32_t)n, from, tag));
        TRY(wait_for(&r, idle));
    }
    return TG_OK;
}

static TgStatus send(const void *data, int64_t bytes, int32_t to, int32_t tag, bool idle)
{
    for (int64_t at = 0; at < bytes; at += CHUNK) {
        MpiRequest r;
        int64_t n = bytes - at < CHUNK ? bytes - at : CHUNK;
        TRY(mpi_send(&r, (const char *)data + at, (int32_t)n, to, tag));
        TRY(wait_for(&r, idle));
    }
    return TG_OK;
}

/* ---- what all find out together ---- */

/* Rank 0 gets everybody's word, and everybody its. */
static TgStatus gather_words(Word *own, Word *all, bool idle)
{
    if (job.rank) {
        TRY(send(own, sizeof *own, 0, TAG_ANSWER, idle));
        return receive(own, sizeof *own, 0, TAG_ANSWER, idle);
    }
    all[0] = *own;
    for (int32_t k = 1; k < job.ranks; k++) TRY(receive(&all[k], sizeof *all, k, TAG_ANSWER, idle));
    return TG_OK;
}

static TgStatus tell(const Word *verdict)
{
    for (int32_t k = 1; k < job.ranks && !job.rank; k++) TRY(send(verdict, sizeof *verdict, k, TAG_ANSWER, true));
    return TG_OK;
}

TgStatus ranks_same(uint64_t value, const char *what)
{
    Word own = { .value = value }, all[RANKS_MOST];
    TRY(gather_words(&own, all, false));
    for (int32_t k = 1; k < job.ranks && !job.rank && own.status == TG_OK; k++)
        if (all[k].value != value) {
            own.status = TG_DEVICE;
            snprintf(own.message, sizeof own.message, "rank %d has another %s than rank 0", k, what);
        }
    TRY(tell(&own));
    return own.status == TG_OK ? TG_OK : fail((TgStatus)own.status, "%s", own.message);
}

TgStatus ranks_least(int64_t *value)
{
    Word own = { .value = (uint64_t)*value }, all[RANKS_MOST];
    TRY(gather_words(&own, all, false));
    for (int32_t k = 1; k < job.ranks && !job.rank; k++)
        if (all[k].value < own.value) own.value = all[k].value;
    TRY(tell(&own));
    *value = (int64_t)own.value;
    return TG_OK;
}

TgStatus ranks_turn(bool done)
{
    char byte = 0;
    int32_t first = 0;
    while (!job.here[first]) first++;
    if (job.number) return done ? TG_OK : receive(&byte, 1, first, TAG_TURN, false);
    for (int32_t k = first + 1; k < job.ranks && done; k++)
        if (job.here[k]) TRY(send(&byte, 1, k, TAG_TURN, false));
    return TG_OK;
}

/* ---- calls ---- */

static void say_failure(const Word *own)
{
    for (int32_t k = 0; k < job.ranks; k++)
        if (k != job.rank && send(own, sizeof *own, k, TAG_NOTICE, true) != TG_OK) return;
}

/* Everybody's verdict is the first failure, rank 0's own words if it has one. */
static TgStatus find_verdict(Word *own)
{
    Word all[RANKS_MOST];
    bool mine = own->status != TG_OK;
    TRY(gather_words(own, all, true));
    for (int32_t k = 1; k < job.ranks && !job.rank && own->status == TG_OK; k++)
        if (all[k].status != TG_OK) {
            own->status = all[k].status;
            snprintf(own->message, sizeof own->message, "rank %d: %.400s", k, all[k].message);
        }
    TRY(tell(own));
    if (own->status == TG_OK || (mine && !job.rank)) return (TgStatus)own->status;
    return fail((TgStatus)own->status, "%.*s", (int)sizeof own->message - 1, own->message);
}

/* What was sent before it is of another epoch: messages of a run that failed, and what was said of that. */
TgStatus ranks_agree(TgStatus status)
{
    Word own = { .epoch = job.epoch, .status = (int32_t)status };
    job.broken |= status == TG_STOPPED || status == TG_TIMEOUT;
    if (job.broken) return status;
    if (status != TG_OK) {
        snprintf(own.message, sizeof own.message, "%s", tg_error());
        say_failure(&own);
    }
    TgStatus all = find_verdict(&own);
    job.broken = all == TG_STOPPED || all == TG_TIMEOUT;
    job.epoch++;
    return all;
}

bool job_enter(void)
{
    bool outermost = !job.inside;
    job.inside = true;
    return outermost;
}

TgStatus job_leave(TgStatus status)
{
    status = ranks_agree(status);
    job.inside = false;
    return status;
}

bool job_is_broken(void) { return job.broken; }
uint32_t job_next(void) { return ++job.epoch; }
void job_follow(uint32_t epoch) { job.epoch = epoch; }

TgStatus job_tell(const void *data, int64_t bytes)
{
    for (int32_t k = 1; k < job.ranks; k++) TRY(send(data, bytes, k, TAG_CALL, true));
    return TG_OK;
}

TgStatus job_hear(void *data, int64_t bytes) { return receive(data, bytes, 0, TAG_CALL, true); }

/* ---- a run's messages ---- */

static int32_t tag_of(int32_t number) { return TAG_DATA + (int32_t)(job.epoch % EPOCHS) * NUMBERS + number % NUMBERS; }

static Sent *sent_of(int32_t number)
{
    if (number >= job.nsent) {
        int32_t n = number + 64;
        job.sent = job.sent ? mem_grow(job.sent, (size_t)n * sizeof *job.sent) : mem_new((size_t)n * sizeof *job.sent);
        mem_keep(job.sent);
        memset(job.sent + job.nsent, 0, (size_t)(n - job.nsent) * sizeof *job.sent);
        job.nsent = n;
    }
    return &job.sent[number];
}

/* A larger one takes the room's place. */
static void make_room(char **room, int64_t *have, int64_t bytes)
{
    if (*have >= bytes) return;
    mem_free(*room);
    *room = NULL, *have = 0;
    *room = mem_new((size_t)bytes);
    mem_keep(*room);
    *have = bytes;
}

/* From room that stays until the message has gone: what it was made of may be overwritten at once. */
static TgStatus send_message(const Message *m, void *const *args)
{
    Sent *s = sent_of(m->number);
    if (m->bytes > CHUNK) return fail(TG_UNSUPPORTED, "ranks: a message of %lld bytes", (long long)m->bytes);
    if (s->busy) TRY(wait_for(&s->request, false));
    s->busy = false;
    make_room(&s->room, &s->bytes, m->bytes);
    char *to = s->room;
    for (uint32_t k = 0; k < m->npiece; to += m->piece[k++].bytes)
        memcpy(to, (const char *)args[m->piece[k].arg] + m->piece[k].begin, (size_t)m->piece[k].bytes);
    TRY(mpi_send(&s->request, s->room, (int32_t)m->bytes, m->peer, tag_of(m->number)));
    s->busy = true;
    return TG_OK;
}

static TgStatus take_message(const Message *m, void *const *args)
{
    bool direct = m->npiece == 1;
    if (!direct) make_room(&job.arrived, &job.arrived_bytes, m->bytes);
    char *from = direct ? (char *)args[m->piece->arg] + m->piece->begin : job.arrived;
    TRY(receive(from, m->bytes, m->peer, tag_of(m->number), false));
    for (uint32_t k = 0; k < m->npiece && !direct; from += m->piece[k++].bytes)
        memcpy((char *)args[m->piece[k].arg] + m->piece[k].begin, from, (size_t)m->piece[k].bytes);
    return TG_OK;
}

TgStatus ranks_exchange(const HostCall *call, void *const *args, int64_t *vars)
{
    const Exchange *e = call->exchange;
    (void)vars;
    for (uint32_t k = 0; k < e->nmessage; k++)
        TRY(e->sends ? send_message(&e->message[k], args) : take_message(&e->message[k], args));
    return TG_OK;
}

/* ---- its begin and end ---- */

static TgStatus find_machines(void)
{
    Where own = { { 0 } }, other;
    gethostname(own.machine, sizeof own.machine - 1);
    MpiRequest r[RANKS_MOST];
    job.beside = job.number = 0;
    for (int32_t k = 0; k < job.ranks; k++)
        if (k != job.rank) TRY(mpi_send(&r[k], &own, sizeof own, k, TAG_CALL));
    for (int32_t k = 0; k < job.ranks; k++) {
        if (k != job.rank) TRY(receive(&other, sizeof other, k, TAG_CALL, true));
        job.here[k] = k == job.rank || !strcmp(own.machine, other.machine);
        if (k < job.rank) job.number += job.here[k];
        job.beside += job.here[k];
    }
    for (int32_t k = 0; k < job.ranks; k++)
        if (k != job.rank) TRY(wait_for(&r[k], true));
    return TG_OK;
}

TgStatus job_join(void)
{
    if (!mpi_launched()) return TG_OK;
    TRY(mpi_start(&job.rank, &job.ranks));
    if (job.ranks > RANKS_MOST) {
        int32_t ranks = job.ranks;
        job.ranks = 1;
        return fail(TG_DEVICE, "ranks: %d of them; at most %d", ranks, RANKS_MOST);
    }
    if (job.ranks < 2) return TG_OK;
    TRY(find_machines());
    for (int32_t k = 0; k < job.ranks; k++)
        if (k != job.rank) TRY(listen_to(k));
    return TG_OK;
}

void job_end(int32_t status)
{
    if (job.broken) mpi_abort(status ? status : TG_DEVICE);
    for (int32_t k = 0; k < job.ranks; k++)
        if (k != job.rank) mpi_forget(&job.listening[k]);
    for (int32_t k = 0; k < job.nsent; k++) {
        if (job.sent[k].busy) wait_for(&job.sent[k].request, true);
        mem_free(job.sent[k].room);
    }
    mem_free(job.sent);
    mem_free(job.arrived);
    mpi_finish();
    job.ranks = 1;
    job.rank = 0;
}
