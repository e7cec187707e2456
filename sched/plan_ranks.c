/* A plan of several devices becomes one of a rank, a process that is one of them and shares no memory with the others.
 *
 * Comes in: all steps in order, each with its device, before buffers have places. Goes out: those of this rank and
 * those that all have, and between them exchanges: behind a step the bytes of it that others will read are sent, before
 * the first step that reads such bytes they are received. Of `once` steps those stay whose results are read here.
 *
 * What is read was stored last by the step before it that stored there: steps are looked at backwards, each taking its
 * region from what is still wanted. Bytes that go from one step to one rank are one message. A part of a join that
 * lies where only a run tells (sizes that data decide) all ranks store, each for itself. Where a plan jumps, which
 * step was the last is not known before it runs: there all ranks get all of what each step stores, at once.
 *
 * Must hold: every rank makes the same messages with the same numbers, from the same steps; sends do not wait, and
 * receives stand in the order of the steps, so that no rank waits for one that waits for it. */
#include <string.h>
#include <xxhash.h>

#include "graph/base/text.h"
#include "sched/plan_build.h"
#include "sched/regions.h"

/* A step that stores into a buffer: all of it where it is not known where. */
typedef struct Store { uint32_t step; const Region *region; struct Store *before; } Store;
/* Of a message, the bytes of one buffer. */
typedef struct Part { uint32_t buffer; const Region *region; struct Part *next; } Part;
/* What step `from` leaves for rank `to`, which reads it first at step `at`. */
typedef struct { uint32_t from, at; int32_t to; Part *part; } Parcel;
typedef struct {
    Plan *p;
    Arena *arena;
    int32_t rank, ranks;
    Store **last;                   /* by buffer */
    Parcel *parcel;
    uint32_t nparcel, cap;
    uint32_t *number;               /* [step * ranks + to]: number + 1 of the parcel */
    Step *out;
    uint32_t nout, *place;          /* by step: where it, or what takes its place, begins */
} Ranks;

static bool is_all(const Step *s) { return s->kind != STEP_KERNEL || s->device < 0; }

static const Region *whole(Ranks *r, uint32_t buffer) { return region_all(r->arena, r->p->buffer[buffer].size_bytes); }

/* NULL: not known */
static const Region *region_of(Ranks *r, const Step *s, uint32_t arg, bool stored)
{
    const Kernel *k = s->kind == STEP_KERNEL ? r->p->kernel[s->kernel] : NULL;
    const Region **known = !k ? NULL : stored ? k->stores : k->reads;
    if (known && known[arg]) return known[arg];
    return stored && k ? NULL : whole(r, s->arg[arg]);
}

/* ---- what goes where ---- */

static Parcel *parcel_of(Ranks *r, uint32_t from, int32_t to, uint32_t at)
{
    uint32_t *number = &r->number[from * (uint32_t)r->ranks + (uint32_t)to];
    if (*number) return &r->parcel[*number - 1];
    if (r->nparcel == r->cap) {
        Parcel *more = NEW_N(r->arena, Parcel, r->cap = 2 * r->cap + 64);
        if (r->nparcel) memcpy(more, r->parcel, r->nparcel * sizeof *more);
        r->parcel = more;
    }
    r->parcel[r->nparcel] = (Parcel){ .from = from, .at = at, .to = to };
    *number = ++r->nparcel;
    return &r->parcel[r->nparcel - 1];
}

static void add_part(Ranks *r, Parcel *x, uint32_t buffer, const Region *region)
{
    Part *p = x->part;
    while (p && p->buffer != buffer) p = p->next;
    if (p) p->region = region_join(r->arena, p->region, region);
    else {
        p = NEW(r->arena, Part);
        *p = (Part){ buffer, region, x->part };
        x->part = p;
    }
}

/* Rank `to` reads these bytes at step `at`. */
static void want(Ranks *r, int32_t to, uint32_t at, uint32_t buffer, const Region *region)
{
    for (const Store *s = r->last[buffer]; s && region->n; s = s->before) {
        const Region *here = region_meet(r->arena, region, s->region);
        const Step *from = &r->p->step[s->step];
        if (!here->n) continue;
        if (!is_all(from) && from->device != to) add_part(r, parcel_of(r, s->step, to, at), buffer, here);
        region = region_less(r->arena, region, s->region);
    }
}

static void want_of(Ranks *r, const Step *s, uint32_t at, uint32_t buffer, const Region *region)
{
    for (int32_t to = 0; to < r->ranks; to++)
        if (is_all(s) || s->device == to) want(r, to, at, buffer, region);
}

/* Where it is not known what a step stores of a buffer that others have stored to, it must be all there before. */
static bool overwrites(Ranks *r, const Step *s, uint32_t arg)
{
    return (s->access[arg] & (ACCESS_WRITE | ACCESS_PART)) == ACCESS_WRITE && !region_of(r, s, arg, true) &&
        r->last[s->arg[arg]];
}

static void note_store(Ranks *r, uint32_t at, uint32_t arg)
{
    const Step *s = &r->p->step[at];
    const Region *known = region_of(r, s, arg, true);
    if (!known && (s->access[arg] & ACCESS_PART)) return;           /* all have it, and no other step stores it */
    Store *x = NEW(r->arena, Store);
    *x = (Store){ at, known ? known : whole(r, s->arg[arg]), r->last[s->arg[arg]] };
    r->last[s->arg[arg]] = x;
}

static void note_step(Ranks *r, uint32_t at)
{
    const Step *s = &r->p->step[at];
    for (uint32_t k = 0; k < s->narg; k++) {
        if (s->access[k] & ACCESS_READ) want_of(r, s, at, s->arg[k], region_of(r, s, k, false));
        if (overwrites(r, s, k)) want_of(r, s, at, s->arg[k], whole(r, s->arg[k]));
    }
    for (uint32_t k = 0; k < s->narg; k++)
        if (s->access[k] & ACCESS_WRITE) note_store(r, at, k);
}

/* Others store their parts of the same join: what is sent of it must be known. */
static bool stores_somewhere(Ranks *r, const Step *s)
{
    bool somewhere = false;
    for (uint32_t k = 0; k < s->narg && !somewhere; k++)
        somewhere = (s->access[k] & ACCESS_PART) && !region_of(r, s, k, true);
    return somewhere;
}

/* All that a step stores, to all, behind it. */
static void tell_all(Ranks *r, uint32_t at)
{
    const Step *s = &r->p->step[at];
    for (uint32_t k = 0; k < s->narg && !is_all(s); k++)
        for (int32_t to = 0; to < r->ranks && (s->access[k] & ACCESS_WRITE); to++) {
            const Region *stored = region_of(r, s, k, true);
            if (to != s->device)
                add_part(r, parcel_of(r, at, to, at), s->arg[k], stored ? stored : whole(r, s->arg[k]));
        }
}

static void find_parcels(Ranks *r)
{
    Plan *p = r->p;
    for (uint32_t i = 0; i < p->nstep; i++) {
        if (p->step[i].once) continue;
        if (stores_somewhere(r, &p->step[i])) p->step[i].device = ALL_DEVICES;
        if (p->jumps) tell_all(r, i);
        else note_step(r, i);
    }
    for (uint32_t k = 0; k < p->nbuffer && !p->jumps; k++)
        for (int32_t to = 0; to < r->ranks && p->buffer[k].kind == MEM_OUTPUT; to++)
            want(r, to, p->nstep, k, whole(r, k));
}

/* ---- the steps of this rank ---- */

static void fill_message(Ranks *r, Message *m, const Parcel *x, Step *s)
{
    uint32_t n = 0;
    for (const Part *p = x->part; p; p = p->next) n += p->region->n;
    MessagePart *piece = NEW_N(r->p->arena, MessagePart, n);
    *m = (Message){ .number = (int32_t)(x - r->parcel), .piece = piece, .npiece = n };
    for (const Part *p = x->part; p; p = p->next) {
        uint32_t arg = 0;
        while (arg < s->narg && s->arg[arg] != p->buffer) arg++;
        if (arg == s->narg) s->arg[s->narg++] = p->buffer;
        for (uint32_t k = 0; k < p->region->n; k++, piece++) {
            *piece = (MessagePart){ arg, p->region->run[k].begin, p->region->run[k].end - p->region->run[k].begin };
            m->bytes += piece->bytes;
        }
    }
}

/* One step for these parcels, of each of which this rank is an end. */
static void add_exchange(Ranks *r, const uint32_t *parcel, uint32_t n, bool sends)
{
    Arena *a = r->p->arena;
    uint32_t parts = 0;
    if (!n) return;
    for (uint32_t k = 0; k < n; k++)
        for (const Part *p = r->parcel[parcel[k]].part; p; p = p->next) parts++;
    Step *s = &r->out[r->nout++];
    *s = (Step){ .kind = STEP_HOST, .thread_count = 1, .arg = NEW_N(a, uint32_t, parts) };
    Exchange *e = NEW(a, Exchange);
    Message *m = NEW_N(a, Message, n);
    for (uint32_t k = 0; k < n; k++) {
        const Parcel *x = &r->parcel[parcel[k]];
        fill_message(r, &m[k], x, s);
        m[k].peer = sends ? x->to : r->p->step[x->from].device;
    }
    *e = (Exchange){ sends, m, n };
    s->access = NEW_N(a, uint8_t, s->narg);
    memset(s->access, sends ? ACCESS_READ : ACCESS_WRITE | ACCESS_PART, s->narg);
    HostTensor *tensor = NEW_N(a, HostTensor, s->narg);
    for (uint32_t k = 0; k < s->narg; k++)
        tensor[k] = (HostTensor){ r->p->buffer[s->arg[k]].dtype, r->p->buffer[s->arg[k]].shape };
    HostCall *call = NEW(a, HostCall);
    *call = (HostCall){ .plan = r->p, .tensor = tensor, .exchange = e };
    *(sends ? &call->nin : &call->nout) = s->narg;
    s->call = call;
}

/* What step `from` leaves for others is sent; what is read at `at`, or arrives behind it, is received. */
static void add_sends(Ranks *r, uint32_t from)
{
    uint32_t list[r->ranks], n = 0;
    for (int32_t to = 0; to < r->ranks && r->p->step[from].device == r->rank; to++)
        if (r->number[from * (uint32_t)r->ranks + (uint32_t)to])
            list[n++] = r->number[from * (uint32_t)r->ranks + (uint32_t)to] - 1;
    add_exchange(r, list, n, true);
}

static void add_receives(Ranks *r, uint32_t at, const uint32_t *first, const uint32_t *next)
{
    uint32_t n = 0, *list = NEW_N(r->arena, uint32_t, r->nparcel + 1);
    for (uint32_t k = first[at]; k; k = next[k - 1]) list[n++] = k - 1;
    add_exchange(r, list, n, false);
}

/* `once` steps of which something is read, backwards: reads: by buffer. */
static void find_needed(const Plan *p, int32_t rank, bool *kept, bool *reads)
{
    for (uint32_t i = p->nstep; i-- > 0;) {
        const Step *s = &p->step[i];
        kept[i] = !s->once && (is_all(s) || s->device == rank);
        for (uint32_t k = 0; k < s->narg && s->once; k++)
            kept[i] |= (s->access[k] & ACCESS_WRITE) && reads[s->arg[k]];
        for (uint32_t k = 0; k < s->narg && kept[i]; k++) reads[s->arg[k]] |= (s->access[k] & ACCESS_READ) != 0;
    }
}

/* Lists of what this rank receives at each step: of parcels the number + 1, the last ones first. */
static void list_receives(const Ranks *r, uint32_t *first, uint32_t *next)
{
    for (uint32_t k = r->nparcel; k-- > 0;)
        if (r->parcel[k].to == r->rank) {
            next[k] = first[r->parcel[k].at];
            first[r->parcel[k].at] = k + 1;
        }
}

static void make_steps(Ranks *r)
{
    Plan *p = r->p;
    bool *kept = NEW_N(r->arena, bool, p->nstep + 1), *reads = NEW_N(r->arena, bool, p->nbuffer + 1);
    uint32_t *first = NEW_N(r->arena, uint32_t, p->nstep + 1), *next = NEW_N(r->arena, uint32_t, r->nparcel + 1);
    find_needed(p, r->rank, kept, reads);
    list_receives(r, first, next);
    r->out = NEW_N(p->arena, Step, p->nstep + 2 * r->nparcel + 1);
    r->place = NEW_N(r->arena, uint32_t, p->nstep + 1);
    for (uint32_t i = 0; i < p->nstep; i++) {
        r->place[i] = r->nout;
        if (!p->jumps) add_receives(r, i, first, next);
        if (kept[i]) {
            r->out[r->nout] = p->step[i];
            if (!p->step[i].once) r->out[r->nout].device = 0;
            r->nout++;
        }
        if (!p->step[i].once) add_sends(r, i);
        if (p->jumps) add_receives(r, i, first, next);
    }
    r->place[p->nstep] = r->nout;
    add_receives(r, p->nstep, first, next);
}

/* Steps have other numbers; a buffer that no step touches any more takes no memory. */
static void take_steps(Build *b, Ranks *r)
{
    Plan *p = b->p;
    for (uint32_t i = 0; i < r->nout; i++)
        if (r->out[i].kind == STEP_JUMP) r->out[i].target = r->place[r->out[i].target];
    for (uint32_t l = 0; l < b->nloop; l++)
        b->loop[l] = (Range){ r->place[b->loop[l].first], r->place[b->loop[l].last + 1] - 1 };
    p->step = r->out;
    p->nstep = r->nout;
    p->devices = 1;
    plan_note_again(b);
    for (uint32_t k = 0; k < p->nbuffer; k++)
        if (p->buffer[k].kind == MEM_ARENA && b->use[k].first == UINT32_MAX)
            p->buffer[k].size_bytes = 0, p->buffer[k].zeroed = false;
}

static uint64_t hash_of(const Plan *p)
{
    Text text = { 0 };
    plan_print(&text, p);
    uint64_t hash = XXH3_64bits(text.s, text.len);
    text_free(&text);
    return hash;
}

void plan_ranks(Build *b, const Target *t)
{
    Arena *a = arena_new();
    Plan *p = b->p;
    Ranks r = { .p = p,
                .arena = a,
                .rank = t->rank - 1,
                .ranks = t->devices,
                .last = NEW_N(a, Store *, p->nbuffer + 1),
                .number = NEW_N(a, uint32_t, (uint64_t)p->nstep * (uint32_t)t->devices + 1) };
    p->common = hash_of(p);
    find_parcels(&r);
    make_steps(&r);
    take_steps(b, &r);
    arena_free(a);
}
