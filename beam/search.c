/* BEAM over lists of OptOps, kernel by kernel, within a budget for all of them.
 *
 * Every unique kernel is timed under its list first. Then the one with the most time in a run (less for those that
 * lately gained nothing) gets a round, again and again:
 *   1. pool: neighbours (moves.c) of the lists that are kept; lowered, distinguished by their code, estimated (cost.c,
 * times the error of the estimate of the list that they are neighbours of); the best estimates' neighbours join, twice;
 *   2. the best estimates, and a few others in case the estimate errs, go to the worker (worker.c): compiled together,
 * timed in alternation with the incumbent, checked;
 *   3. the fastest that was right becomes the incumbent and goes to the database at once, so that ending the search at
 * any moment keeps what was found; lists that crash, hang, do not compile or compute something else are remembered as
 * bad. The fastest few are kept for the next round. The model's own graph is never touched: each candidate lives in a
 * graph of its own.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "beam/cost.h"
#include "beam/moves.h"
#include "beam/worker.h"
#include "graph/base/map.h"
#include "graph/base/memory.h"
#include "graph/base/parallel.h"
#include "graph/base/watcher.h"

enum {
    BEAM_DEFAULT = 4,
    BEAM_MOST = 16,
    POOL = 512,
    BATCH = 12,
    GPU_BATCH = 32,
    GPU_LISTS = 24,
    ALIKE = 2,
    DEEPEN = 3,
    TRIES = 260,
    LEFT = 128,
    INSTRUCTIONS_MOST = 4000,
    GPU_INSTRUCTIONS_MOST = 2500,
    LOST_ROUNDS = 2,                /* without gain */
    PATIENCE_ROUNDS = 4
};
#define POOL_S 0.8                  /* seconds for a pool: about what compiling a batch takes */
#define FIRST 1e-12                 /* seconds: an estimate that comes before all true ones */
#define GAIN 0.015                  /* a winner is faster by this share at least */
#define PARENT 1.5                  /* up to so many of the winner's time, neighbours are worth trying */
#define DRY 0.6                     /* a kernel's share of the time after a batch without a winner */

/* estimate: the model's, times what measuring said of the list it was made from. code: 0: cannot be. */
typedef struct {
    Recipe recipe;
    OptList opts;
    double model, estimate, seconds;
    uint64_t code;
} Candidate;
typedef struct {
    Kernel *k;
    double count, seconds, first_s; /* seconds: of one launch under `best`; 0: not timed */
    OptList best;
    Candidate kept[BEAM_MOST];
    uint32_t nkept, dry;            /* dry: rounds without gain */
    bool done;
    Candidate *left;                /* estimated, not yet tried; best first */
    uint32_t nleft;
    Arena *arena;
    Map seen;                       /* by code: what was estimated already */
} Subject;

typedef struct {
    const SearchOptions *o;
    const Target *t;
    SearchReport *report;
    Worker *worker;
    Subject *subject;
    double start, until, pool_until;
    uint32_t width, threads;
    uint64_t random;
} Search;

/* ---- pool ---- */

typedef struct {
    Search *s;
    Subject *u;
    Candidate *c;
    uint32_t n;
    Recipe *waiting;
    uint32_t nwaiting;
} Pool;

static uint32_t any(Search *s, uint32_t n)
{
    return (uint32_t)((s->random = s->random * UINT64_C(6364136223846793005) + 1442695040888963407) >> 33) % n;
}

static void wait_in_line(void *user, const Recipe *r)
{
    Pool *p = user;
    if (p->nwaiting < POOL) p->waiting[p->nwaiting++] = *r;
    else {
        uint32_t at = any(p->s, POOL * 2);
        if (at < POOL) p->waiting[at] = *r;
    }
}

static uint64_t code_of(const Kernel *k) { return (uint64_t)k->linear->nsrc << 32 | k->linear->hash; }

static bool is_new(Subject *u, uint64_t code)
{
    if (map_get(&u->seen, &code, sizeof code)) return false;
    map_put(&u->seen, &code, sizeof code, u);
    return true;
}

/* Lowers and estimates; touches nothing but the candidate, so that many go on at once. */
static void estimate(const Search *s, const Subject *u, Candidate *c)
{
    Kernel *k = recipe_apply(&c->opts, u->k, &c->recipe, s->t);
    c->seconds = 1e30;
    c->code = 0;
    if (k && kernel_lower(k, s->t, NULL) == TG_OK &&
        k->linear->nsrc <= (s->t->max_block ? GPU_INSTRUCTIONS_MOST : INSTRUCTIONS_MOST)) {
        c->code = code_of(k);
        c->model = c->estimate = kernel_cost(k, s->t).seconds;
    }
    if (k) kernel_free(k);
    status_clear();
}

/* Not illegal or too long, not seen before, not known as bad. */
static bool is_worth_trying(const Search *s, Subject *u, const Candidate *c)
{
    return c->code && is_new(u, c->code) && !tunedb_is_bad(s->o->choice->db, u->k->key, s->o->choice->device, &c->opts);
}

typedef struct {
    const Search *s;
    const Subject *u;
    Candidate *c;
    double until;
} Estimates;

static void estimate_one(void *estimates, uint32_t i)
{
    const Estimates *e = estimates;
    if (clock_s() < e->until) estimate(e->s, e->u, &e->c[i]);
}

/* The neighbours of one recipe, in an order that favours none. */
static void expand_pool(Pool *p, const Candidate *near, uint32_t most)
{
    const Recipe from = near->recipe;
    double error = near->seconds < 1e20 ? near->seconds / near->model
        : near->estimate < FIRST * LEFT ? 1
                                        : near->estimate / near->model;
    Candidate *fresh = p->c + p->n;
    uint32_t n = 0;
    p->nwaiting = 0;
    recipe_neighbours(&from, p->u->k, p->s->t, wait_in_line, p);
    for (uint32_t left = p->nwaiting; left && n < most && p->n + n < POOL; left--) {
        uint32_t at = any(p->s, left);
        fresh[n].code = 0;
        fresh[n++].recipe = p->waiting[at];
        p->waiting[at] = p->waiting[left - 1];
    }
    Estimates e = { .s = p->s, .u = p->u, .c = fresh, .until = p->s->pool_until };
    parallel_for(n / 4 < p->s->threads ? n / 4 + 1 : p->s->threads, n, estimate_one, &e);
    for (uint32_t i = 0; i < n; i++)
        if (is_worth_trying(p->s, p->u, &fresh[i])) {
            p->c[p->n] = fresh[i];
            p->c[p->n++].estimate *= error;
        }
}

static int by_estimate(const void *a, const void *b)
{
    double x = ((const Candidate *)a)->estimate, y = ((const Candidate *)b)->estimate;
    return (x > y) - (x < y);
}

/* Within a share of the time that a round takes. */
static void make_pool(Pool *p)
{
    p->s->pool_until = fmin(p->s->until, clock_s() + POOL_S);
    for (; p->n < p->u->nleft; p->n++) p->c[p->n] = p->u->left[p->n];
    for (uint32_t i = 0; i < p->u->nkept; i++) expand_pool(p, &p->u->kept[i], TRIES / p->u->nkept);
    for (int deeper = 0; deeper < 2; deeper++) {
        uint32_t n = p->n < DEEPEN ? p->n : DEEPEN;
        Candidate from[DEEPEN];
        p->s->pool_until = fmin(p->s->until, clock_s() + POOL_S / 3);
        qsort(p->c, p->n, sizeof *p->c, by_estimate);
        for (uint32_t i = 0; i < n; i++) from[i] = p->c[i];
        for (uint32_t i = 0; i < n; i++) expand_pool(p, &from[i], TRIES / 6);
    }
    qsort(p->c, p->n, sizeof *p->c, by_estimate);
}

static uint32_t alike(const Candidate *c, uint32_t n, double estimate)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < n; i++) count += fabs(c[i].estimate - estimate) < 1e-3 * estimate;
    return count;
}

/* Best estimates first, few of those that the estimate finds equal; every fourth from anywhere in the better half. The
 * longer nothing is gained, the more from anywhere, and a quarter of what waits is from there: the estimate may be
 * wrong of this kernel, or what it likes may not compile. */
static uint32_t pick(Pool *p, Candidate *out, uint32_t most)
{
    uint32_t n = 0, kept = 0;
    for (uint32_t i = 0; i < p->n; i++) {
        uint32_t among = p->u->dry < LOST_ROUNDS ? (p->n - i + 1) / 2 : p->n - i;
        uint32_t at = n % 4 + p->u->dry >= 3 ? i + any(p->s, among) : i;
        Candidate c = p->c[at];
        p->c[at] = p->c[i];
        if (n < most && (at != i || alike(out, n, c.estimate) < ALIKE)) out[n++] = c;
        else p->c[kept++] = c;
    }
    qsort(p->c, kept, sizeof *p->c, by_estimate);
    p->u->nleft = kept < LEFT ? kept : LEFT;
    for (uint32_t i = LEFT * 3 / 4; i < p->u->nleft; i++) {
        uint32_t at = i + any(p->s, kept - i);
        Candidate c = p->c[at];
        p->c[at] = p->c[i];
        p->c[i] = c;
    }
    memcpy(p->u->left, p->c, p->u->nleft * sizeof *p->c);
    return n;
}

/* ---- rounds ---- */

static void keep(Search *s, Subject *u, const Candidate *c)
{
    uint32_t at = u->nkept < s->width ? u->nkept++ : s->width;
    while (at && u->kept[at - 1].seconds > c->seconds) {
        if (at < s->width) u->kept[at] = u->kept[at - 1];
        at--;
    }
    if (at < s->width) u->kept[at] = *c;
}

static bool is_bad(ListState state) { return state == LIST_UNCOMPILED || state == LIST_WRONG || state == LIST_FAILED; }

static void remember_bad(Search *s, const Subject *u, const Candidate *c)
{
    s->report->bad++;
    tunedb_put_bad(s->o->choice->db, u->k->key, s->o->choice->device, &c->opts);
}

/* What became of a list, for who requested it: its state, microseconds estimated, measured, and the incumbent's. */
static void say_result(const Search *s, const Subject *u, const Candidate *c, const ListResult *r)
{
    static const char *const state[] = { "timed", "BETTER", "illegal", "UNCOMPILED", "WRONG", "FAILED" };
    Text t = { 0 };
    if (s->o->verbose < (is_bad(r->state) ? 1 : 2)) return;
    text_add(&t, "%s", "");
    opt_print(&t, &c->opts);
    watch_say("%s %s %.2f %.2f %.2f  %s%s%s", u->k->name, state[r->state], 1e6 * c->estimate, 1e6 * r->seconds,
            1e6 * r->incumbent_s, t.s, *r->why ? ": " : "", r->why);
    text_free(&t);
}

static void take_winner(Search *s, Subject *u, const Candidate *c)
{
    u->best = c->opts;
    u->seconds = c->seconds;
    tunedb_put_best(s->o->choice->db, u->k->key, s->o->choice->device, &(Tuned){ c->opts, c->seconds });
}

/* All that was made from it is bad: it may be, too. The first round checks nothing. */
static void doubt_first(Subject *u)
{
    if (opt_same(&u->kept[0].opts, &u->best)) return;
    memmove(u->kept, u->kept + 1, --u->nkept * sizeof *u->kept);
}

/* Times relative to the incumbent of the same moment, so that a slow minute does not favour later rounds. A round in
 * which every list is bad says nothing of those that are left. */
static void take_results(Search *s, Subject *u, Candidate *c, const ListResult *r, uint32_t n)
{
    const Candidate *winner = NULL;
    uint32_t known = 0, bad = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (!r[i].known) continue;
        s->report->tried++;
        known++, bad += is_bad(r[i].state);
        say_result(s, u, &c[i], &r[i]);
        if (is_bad(r[i].state)) remember_bad(s, u, &c[i]);
        if (r[i].state != LIST_TIMED && r[i].state != LIST_BETTER) continue;
        c[i].seconds = u->seconds * r[i].seconds / r[i].incumbent_s;
        if (r[i].state == LIST_BETTER && (!winner || c[i].seconds < winner->seconds)) winner = &c[i];
    }
    if (winner) take_winner(s, u, winner);
    bool all_bad = bad && bad == known;
    if (all_bad && u->nkept > 1) doubt_first(u);
    for (uint32_t i = 0; i < n; i++)
        if (c[i].seconds < PARENT * u->seconds) keep(s, u, &c[i]);
    u->dry = winner ? 0 : u->dry + !all_bad;
}

static TgStatus send_picked(Search *s, Subject *u, Candidate *c, uint32_t n)
{
    OptList list[ROUND_MOST];
    ListResult result[ROUND_MOST];
    RoundHead h = { .runs = 3, .gain = GAIN };
    list[0] = u->best;
    for (uint32_t i = 0; i < n; i++) list[i + 1] = c[i].opts;
    TRY(worker_round(s->worker, u->k, &h, list, n + 1, result, s->until));
    take_results(s, u, c, result + 1, n);
    return TG_OK;
}

static void tune_once(Search *s, Subject *u)
{
    Pool p = { .s = s, .u = u, .c = mem_new(POOL * sizeof *p.c), .waiting = mem_new(POOL * sizeof *p.waiting) };
    Candidate picked[GPU_BATCH];
    double start = clock_s();
    if (p.c && p.waiting) make_pool(&p);
    double made = clock_s();
    uint32_t n = pick(&p, picked, s->t->max_block ? GPU_BATCH : BATCH);
    if (!n || send_picked(s, u, picked, n) != TG_OK) u->done = true;
    if (s->o->verbose > 1)
        watch_say("%s: %u of a pool of %u; %.2f s for the pool, %.2f s for the worker", u->k->name, n, p.n,
                  made - start, clock_s() - made);
    u->done |= u->dry >= PATIENCE_ROUNDS;
    status_clear();
    mem_free(p.c);
    mem_free(p.waiting);
}

/* ---- subjects ---- */

static void add_kept(Search *s, Subject *u, const OptList *l, double seconds)
{
    Candidate c = { .opts = *l, .seconds = seconds };
    if (!recipe_of(&c.recipe, u->k, l, s->t)) return;
    Kernel *k = recipe_apply(&c.opts, u->k, &c.recipe, s->t);
    if (k && kernel_lower(k, s->t, NULL) == TG_OK && is_new(u, code_of(k))) {
        c.model = kernel_cost(k, s->t).seconds;
        keep(s, u, &c);
    }
    if (k) kernel_free(k);
    status_clear();
}

/* The heuristic's other lists for a GPU go first, in their order. */
static void add_candidates(Search *s, Subject *u)
{
    OptList *list = mem_zeros(GPU_LISTS, sizeof *list);
    uint32_t n = s->t->max_block ? gpu_candidates(list, GPU_LISTS, u->k, s->t) : 0;
    for (uint32_t i = 0; i < n && u->nleft < LEFT; i++) {
        Candidate c;
        if (!recipe_of(&c.recipe, u->k, &list[i], s->t)) continue;
        estimate(s, u, &c);
        if (!is_worth_trying(s, u, &c)) continue;
        c.estimate = FIRST * (u->nleft + 1);
        u->left[u->nleft++] = c;
    }
    mem_free(list);
    status_clear();
}

/* A first round of one list, or two: where the database has one, the heuristic's is a beginning too, unless the
 * compiler falls over it. */
static void time_first(Search *s, Subject *u)
{
    OptList list[2];
    ListResult r[2];
    RoundHead h = { .runs = 3, .gain = 2 };                     /* nothing is checked */
    bool learned = choice_of(&list[0], s->o->choice, u->k);
    uint32_t n = learned ? 2 : 1;
    if (learned) heuristic_opts(&list[1], u->k, s->t);
    u->best = list[0];
    do {
        u->done =
            worker_round(s->worker, u->k, &h, list, n, r, s->until) != TG_OK || !r[0].known || r[0].state != LIST_TIMED;
        status_clear();
    } while (u->done && --n);
    if (u->done) return;
    u->seconds = u->first_s = r[0].seconds;
    s->report->timed++;
    for (uint32_t i = 0; i < n; i++)
        if (r[i].known && r[i].state == LIST_TIMED) add_kept(s, u, &list[i], r[i].seconds);
    add_candidates(s, u);
}

static Subject *next_subject(Search *s)
{
    Subject *best = NULL;
    double most = 0;
    for (uint32_t i = 0; i < s->o->n; i++) {
        Subject *u = &s->subject[i];
        double share = u->done ? 0 : u->count * u->seconds * pow(DRY, u->dry);
        if (share > most) most = share, best = u;
    }
    return best;
}

static void sum_up(Search *s)
{
    SearchReport *r = s->report;
    r->before_s = r->after_s = 0;
    r->improved = 0;
    for (uint32_t i = 0; i < s->o->n; i++) {
        const Subject *u = &s->subject[i];
        r->before_s += u->count * u->first_s;
        r->after_s += u->count * u->seconds;
        r->improved += u->seconds < u->first_s;
    }
}

static void tell(Search *s, const char *what, const char *name)
{
    char line[160];
    sum_up(s);
    const SearchReport *r = s->report;
    snprintf(line, sizeof line, "%s %s: %u of %u kernels better, %.2fx", what, name, r->improved, s->o->n,
             r->after_s > 0 ? r->before_s / r->after_s : 1);
    watch_step(line, clock_s() - s->start, s->o->seconds);
}

static bool is_over(const Search *s) { return clock_s() >= s->until || watch_over(watcher_now()); }

static void run(Search *s)
{
    for (uint32_t i = 0; i < s->o->n && !is_over(s); i++) {
        tell(s, "timing", s->subject[i].k->name);
        time_first(s, &s->subject[i]);
    }
    for (Subject *u; !is_over(s) && (u = next_subject(s));) {
        tell(s, "tuning", u->k->name);
        tune_once(s, u);
    }
    sum_up(s);
}

static void undo_worker(void *worker) { worker_free(worker); }

WorkerOptions search_worker(const SearchOptions *o)
{
    return (WorkerOptions){
        .backend = o->backend->name,
        .options = { .index = o->device_index, .threads = o->threads, .cpus = o->cpus, .cache_dir = o->cache_dir },
        .patience_s = o->patience_s
    };
}

TgStatus search_run(SearchReport *out, const SearchOptions *o)
{
    Search s = { .o = o, .t = o->choice->target, .report = out, .start = clock_s(), .random = 88172645463325252u };
    WorkerOptions w = search_worker(o);
    *out = (SearchReport){ 0 };
    s.until = o->seconds > 0 ? s.start + o->seconds : 1e300;
    s.width = o->beam < 1 ? BEAM_DEFAULT : o->beam > BEAM_MOST ? BEAM_MOST : (uint32_t)o->beam;
    Undo undo;
    TRY(worker_new(&s.worker, &w));
    undo_push(&undo, undo_worker, s.worker);
    s.threads = parallel_cores();
    s.subject = mem_zeros(o->n + 1, sizeof *s.subject);
    for (uint32_t i = 0; i < o->n; i++) {
        Subject *u = &s.subject[i];
        *u = (Subject){ .k = o->kernel[i], .count = o->count[i], .arena = arena_new() };
        map_init(&u->seen, u->arena);
        u->left = NEW_N(u->arena, Candidate, LEFT);
    }
    run(&s);
    for (uint32_t i = 0; i < o->n; i++) arena_free(s.subject[i].arena);
    mem_free(s.subject);
    undo_pop(&undo);
    worker_free(s.worker);
    return watch_check();
}
