/* Only one engine runs at a time: a block of runs is a command to one child while the others wait for theirs, and a
 * hand-over waits until the child that ran has gone quiet. In a round every engine runs one block, in random order, and
 * in the next round in the order reversed, so that drift, heat, other load and a place in the order meet all of them.
 * Some rounds run the first engine twice: the placebo, which shows what difference this machine makes out of nothing.
 */
#define _GNU_SOURCE
#include "bench/duel.h"

#include <jansson.h>
#include <math.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "bench/cold.h"
#include "bench/fair.h"
#include "bench/measure.h"
#include "bench/say.h"
#include "bench/throughput.h"
#include "bench/values.h"

enum { WARM_GROUP = 5, BLOCK_RUNS_LEAST = 5, PLACEBO_PAIRS = 5, UNSEEN = 3 };
/* usual, and of a budget that is given: at most; quiet: so many that a busy machine needs no more time */
enum { PAIRS_LEAST = 11, PAIRS_QUIET = 30, PAIRS_USUAL = 60, PAIRS_BUDGET = 400 };
static const double BLOCK_MS_LEAST = 50, TICK_S = 0.01; /* the system counts processors' time in ticks */
static const double TOLERATED = 0.3;                        /* processors that others keep busy: a tick in a block */

/* Processors of our mask, less those that share a core with an earlier one. */
int32_t physical_cores(void)
{
    cpu_set_t mask;
    int32_t n = 0;
    if (sched_getaffinity(0, sizeof mask, &mask)) return 1;
    for (int c = 0; c < CPU_SETSIZE; c++) {
        char path[128];
        int first = c;
        if (!CPU_ISSET(c, &mask)) continue;
        snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/topology/thread_siblings_list", c);
        FILE *f = fopen(path, "r");
        if (f && fscanf(f, "%d", &first) != 1) first = c;
        if (f) fclose(f);
        n += first == c || !CPU_ISSET(first, &mask);
    }
    return n ? n : 1;
}

bool pairs_measure(double *log_ratio, uint32_t pairs, uint32_t block, BlockFn fn, void *user, Random *r)
{
    double ms[block], median[2];
    int first = 0;
    for (uint32_t k = 0; k < pairs; k++) {
        first = k & 1 ? !first : (int)(random_bits(r) & 1);
        for (int turn = 0; turn < 2; turn++) {
            int who = first ^ turn;
            if (!fn(user, who, block, ms)) return false;
            median[who] = median_of(ms, block);
        }
        log_ratio[k] = log(median[1] / median[0]);
    }
    return true;
}

bool is_different(const Interval *i, uint32_t pairs, const Interval *placebo, uint32_t placebo_pairs)
{
    double half = (placebo->high - placebo->low) / 2 * sqrt((double)placebo_pairs / (double)pairs);
    return (i->low > 1 || i->high < 1) && fabs(i->ratio - 1) > half;
}

static uint32_t count_quiet(const double *others, uint32_t pairs)
{
    uint32_t quiet = 0;
    for (uint32_t k = 0; k < pairs; k++) quiet += others[k] <= TOLERATED;
    return quiet;
}

uint32_t pairs_quiet(double *log_ratio, const double *others, uint32_t pairs)
{
    uint32_t n = 0;
    if (count_quiet(others, pairs) < PAIRS_LEAST) return pairs;
    for (uint32_t k = 0; k < pairs; k++)
        if (others[k] <= TOLERATED) log_ratio[n++] = log_ratio[k];
    return n;
}

/* ---- blocks ---- */

static TgStatus run_block(Duel *d, Engine *e, uint32_t n, double *ms)
{
    double cpu = peer_cpu_s(&e->peer), start = clock_s();
    TgStatus status = peer_run(&e->peer, n, ms);
    e->wall_s += clock_s() - start;
    e->cpu_s += peer_cpu_s(&e->peer) - cpu;
    if (status == TG_OK && !peer_silent(&e->peer)) d->restless++;
    return status;
}

static bool keep_times(Engine *e, const double *ms, uint32_t n)
{
    if (e->runs + n > e->cap) {
        e->cap = 2 * (e->runs + n);
        double *grown = realloc(e->ms, sizeof *grown * e->cap);
        if (!grown) return false;
        e->ms = grown;
    }
    memcpy(e->ms + e->runs, ms, sizeof *ms * n);
    e->runs += n;
    return true;
}

/* Warm until steady, at most a tenth of the budget; then the block is long enough for clocks and scheduling to average
 * out. */
static TgStatus pilot(Duel *d, Engine *e, const Args *a, double budget)
{
    enum { MOST = 2000 };
    double ms[MOST], start = clock_s();
    uint32_t n = 0;
    while (n + WARM_GROUP <= MOST &&
           (n < 2 * WARM_GROUP || (clock_s() - start < budget / 10 && !is_steady(ms, n, WARM_GROUP, 0.01)))) {
        TgStatus status = run_block(d, e, WARM_GROUP, ms + n);
        if (status != TG_OK) return status;
        n += WARM_GROUP;
        if (n >= WARM_GROUP && clock_s() - start > budget / 4) break;
    }
    double typical = median_of(ms + n - WARM_GROUP, WARM_GROUP), wanted = ceil(BLOCK_MS_LEAST / typical);
    e->block = (uint32_t)args_count(a, OPT_block,
                                    wanted < BLOCK_RUNS_LEAST ? BLOCK_RUNS_LEAST
                                        : wanted > BLOCK_MAX  ? BLOCK_MAX
                                                              : (int64_t)wanted);
    if (!e->block || e->block > BLOCK_MAX) e->block = BLOCK_RUNS_LEAST;
    return TG_OK;
}

static uint32_t pairs_for(const Duel *d, const Args *a, double budget, double round_s)
{
    if (args_has(a, OPT_pairs)) {
        int64_t n = args_count(a, OPT_pairs, PAIRS_LEAST);
        return n < 1 ? 1 : n > PAIRS_MAX ? PAIRS_MAX : (uint32_t)n;
    }
    double most = args_has(a, OPT_budget) ? PAIRS_BUDGET : PAIRS_USUAL;
    double n = budget * d->nengine / round_s - PLACEBO_PAIRS;
    return (uint32_t)fmin(fmax(n, PAIRS_LEAST), most);
}

static void shuffle(uint32_t *order, uint32_t n, Random *r)
{
    for (uint32_t i = 0; i < n; i++) order[i] = i;
    for (uint32_t i = n; i > 1; i--) {
        uint32_t k = (uint32_t)(random_bits(r) % i), t = order[k];
        order[k] = order[i - 1];
        order[i - 1] = t;
    }
}

static void reverse(uint32_t *order, uint32_t n)
{
    for (uint32_t i = 0; i < n / 2; i++) {
        uint32_t t = order[i];
        order[i] = order[n - 1 - i];
        order[n - 1 - i] = t;
    }
}

static bool keep_block(Duel *d, const Block *b)
{
    if (d->nblock == d->block_cap) {
        Block *grown = realloc(d->block, sizeof *grown * (d->block_cap = d->block_cap ? 2 * d->block_cap : 64));
        if (!grown) return false;
        d->block = grown;
    }
    d->block[d->nblock++] = *b;
    return true;
}

static TgStatus one_block(Duel *d, uint32_t pair, Engine *e, double *ms, double *median)
{
    Watch before = watch_begin(e->peer.worker, peer_cpu_s(&e->peer));
    TgStatus status = run_block(d, e, e->block, ms);
    if (status != TG_OK) return status;
    Block b = { .engine = (uint32_t)(e - d->engine),
                .runs = e->block,
                .at_s = before.at_s - (d->nblock ? d->began_s : (d->began_s = before.at_s)),
                .wall_s = clock_s() - before.at_s,
                .watched = watch_end(&before, e->peer.worker, peer_cpu_s(&e->peer)) };
    bool kept = keep_times(e, ms, e->block);
    b.median_ms = *median = median_of(ms, e->block);
    double busy = b.watched.others + b.watched.steal;
    if (busy * b.wall_s > 1.5 * TICK_S && busy > d->others[pair]) d->others[pair] = busy;
    return kept && keep_block(d, &b) ? TG_OK : say_error(TG_LIMIT, "no memory for the timings");
}

/* Is the machine so busy that as much again is worth its time? */
static bool wants_more(const Duel *d, uint32_t pairs, double until_s)
{
    uint32_t wanted = d->pairs < PAIRS_QUIET ? d->pairs : PAIRS_QUIET;
    return pairs < PAIRS_MAX && clock_s() < until_s && count_quiet(d->others, pairs) < wanted;
}

static TgStatus rounds(Duel *d, const Args *a, double *ms, double *placebo, Random *r)
{
    uint32_t order[ENGINES_MAX] = { 0 }, total = d->pairs + d->placebo_pairs, at = 0, placebos = 0;
    double start = clock_s(), until_s = 0;
    TgStatus status = TG_OK;
    for (uint32_t k = 0; status == TG_OK && (k < total || wants_more(d, at, until_s)); k++) {
        say_progress(d->model, k, total);
        if (k + 1 == total && !args_has(a, OPT_pairs)) until_s = 2 * clock_s() - start;
        bool is_placebo = placebos * total < k * d->placebo_pairs && placebos < d->placebo_pairs; /* spread evenly */
        if (k < total && (is_placebo || total - k == d->placebo_pairs - placebos)) {
            double m[2] = { 1, 1 };
            for (int turn = 0; turn < 2 && status == TG_OK; turn++)
                status = one_block(d, PAIRS_MAX, &d->engine[0], ms, &m[turn]);
            placebo[placebos++] = (random_bits(r) & 1 ? 1 : -1) * log(m[1] / m[0]);
            continue;
        }
        if (at & 1) reverse(order, d->nengine);
        else shuffle(order, d->nengine, r);
        for (uint32_t i = 0; i < d->nengine && status == TG_OK; i++)
            status = one_block(d, at, &d->engine[order[i]], ms, &d->engine[order[i]].block_median[at]);
        at++;
    }
    d->pairs = d->quiet = at;
    return status;
}

static TgStatus measure(Duel *d, const Args *a)
{
    double budget = args_real(a, OPT_budget, 30), start = clock_s(), placebo[PAIRS_MAX], log_ratio[PAIRS_MAX];
    uint32_t longest = 0;
    double round_s = 0;
    Random r = { 42 + (uint64_t)args_count(a, OPT_seed, 0) };
    TgStatus status = TG_OK;
    for (uint32_t i = 0; i < d->nengine && status == TG_OK; i++) {
        status = pilot(d, &d->engine[i], a, budget);
        if (d->engine[i].block > longest) longest = d->engine[i].block;
    }
    double *ms = malloc(sizeof *ms * (longest + 1));
    if (!ms) return say_error(TG_LIMIT, "no memory for the timings");
    double spent = clock_s() - start;
    start = clock_s();
    for (uint32_t i = 0; i < d->nengine && status == TG_OK; i++)
        status = run_block(d, &d->engine[i], d->engine[i].block, ms);
    round_s = clock_s() - start;
    d->pairs = d->quiet = pairs_for(d, a, budget - spent / d->nengine, round_s);
    d->placebo_pairs = PLACEBO_PAIRS;
    if (status == TG_OK) status = rounds(d, a, ms, placebo, &r);
    say_progress_done();
    free(ms);
    if (status != TG_OK) return status;
    d->engine[0].faster = ratio_of_pairs(placebo, d->placebo_pairs);
    for (uint32_t i = 1; i < d->nengine; i++) {
        for (uint32_t k = 0; k < d->pairs; k++)
            log_ratio[k] = log(d->engine[i].block_median[k] / d->engine[0].block_median[k]);
        d->quiet = pairs_quiet(log_ratio, d->others, d->pairs);
        d->engine[i].faster = ratio_of_pairs(log_ratio, d->quiet);
    }
    if (d->quiet < d->pairs)
        duel_note(d, "%u of %u pairs do not count, since other programs ran meanwhile", d->pairs - d->quiet, d->pairs);
    for (uint32_t i = 0; i < d->nengine; i++) {
        Engine *e = &d->engine[i];
        if (!(e->sorted = malloc(sizeof *e->sorted * e->runs))) return say_error(TG_LIMIT, "no memory for the timings");
        memcpy(e->sorted, e->ms, sizeof *e->sorted * e->runs);
        sort_doubles(e->sorted, e->runs);
        e->memory_mib = peer_memory(&e->peer);
    }
    return TG_OK;
}

/* ---- outputs ---- */

static void compare_sets(Duel *d, uint32_t i, const DataSet *first, const DataSet *other, const Args *a,
                         const TgSession *s)
{
    Engine *e = &d->engine[i];
    for (int32_t k = 0; k < first->noutput; k++) {
        TgPort p;
        if (tg_output(s, k, &p) != TG_OK) continue;
        Comparison c = compare_output(a, &p, &other->output[k].tensor, &first->output[k]);
        e->agrees &= c.ok;
        if (c.max_abs > e->max_abs) e->max_abs = c.max_abs;
        if (!c.ok)
            say_note("%s: %s and %s differ in output '%s': %ld of %ld values, max|d| %.2g%s%s", d->model,
                     d->engine[0].peer.name, e->peer.name, p.name, (long)c.outside, (long)c.numel, c.max_abs,
                     *c.why ? ": " : "", c.why);
    }
}

/* kept: what its last timed run left; else what a run on the first inputs makes. */
static TgStatus outputs_of(Engine *e, DataSet *set, const TgSession *s, bool kept)
{
    char dir[64];
    if (!folder_make(dir)) return TG_CACHE;
    TgStatus status = kept ? peer_kept(&e->peer, dir) : peer_save(&e->peer, dir);
    if (status == TG_OK) status = expected_read(set, s, dir, e->peer.name);
    folder_remove(dir);
    return status;
}

/* Every engine's outputs against the first one's. A difference is a result, not an error: its times are shown as not
 * comparable. */
static TgStatus compare_outputs(Duel *d, const Args *a, const TgSession *s, int32_t noutput, bool kept)
{
    Bound mine[noutput + 1], theirs[noutput + 1];
    DataSet first = { .noutput = noutput, .output = memset(mine, 0, sizeof mine) },
            other = { .noutput = noutput, .output = memset(theirs, 0, sizeof theirs) };
    TgStatus status = outputs_of(&d->engine[0], &first, s, kept);
    for (uint32_t i = 1; i < d->nengine && status == TG_OK; i++) {
        if (kept && !d->engine[i].peer.sets) continue;
        status = outputs_of(&d->engine[i], &other, s, kept);
        if (status == TG_OK) compare_sets(d, i, &first, &other, a, s);
    }
    for (int32_t k = 0; k < noutput; k++) {
        bound_clear(&mine[k]);
        bound_clear(&theirs[k]);
    }
    return status;
}

/* ---- inputs ---- */

static TgStatus engine_inputs(Engine *e, const char *dir)
{
    TgStatus status = peer_inputs(&e->peer, dir);
    for (uint32_t k = 0; k < e->nmore && status == TG_OK; k++) status = peer_inputs(&e->more[k], dir);
    return status;
}

/* The test data's own set where it has one of these shapes, else the first one turned. Every engine that can gets it.
 */
static TgStatus give_inputs(Duel *d, const Data *data, uint32_t number)
{
    Data turned = { 0 };
    char dir[64];
    bool own = number < data->count && same_shapes(&data->set[number], &data->set[0]);
    TgStatus status = own ? TG_OK : set_turned(&turned, &data->set[0], number);
    if (status == TG_OK && !folder_make(dir)) status = TG_CACHE;
    else if (status == TG_OK) {
        status = inputs_write(own ? &data->set[number] : turned.set, dir);
        for (uint32_t i = 0; i < d->nengine && status == TG_OK; i++)
            if (d->engine[i].peer.sets) status = engine_inputs(&d->engine[i], dir);
        folder_remove(dir);
    }
    data_free(&turned);
    return status;
}

/* Runs on inputs that nobody has seen: the shortest of some, since others disturb one now and then, and the outputs
 * that the last of them leaves. */
static TgStatus check_unseen(Duel *d, const Args *a, const TgSession *s, const Data *data)
{
    TgStatus status = TG_OK;
    for (uint32_t k = 0; k < UNSEEN && status == TG_OK; k++) {
        double ms[WARM_GROUP];
        status = give_inputs(d, data, d->sets + k);
        for (uint32_t i = 0; i < d->nengine && status == TG_OK; i++) {
            Engine *e = &d->engine[i];
            if (!e->peer.sets) continue;
            status = peer_run(&e->peer, 1, ms);
            if (!k || ms[0] < e->unseen_ms) e->unseen_ms = ms[0];
        }
    }
    return status == TG_OK && d->engine[0].peer.sets ? compare_outputs(d, a, s, data->set[0].noutput, true) : status;
}

static void inputs_title(Duel *d, const TgSession *s, const DataSet *set)
{
    size_t n = 0;
    for (int32_t k = 0; k < set->ninput && n + 1 < sizeof d->inputs; k++) {
        char title[200];
        TgPort p;
        if (tg_input(s, k, &p) != TG_OK) continue;
        tensor_title(&set->input[k].tensor, title, sizeof title);
        n += (size_t)snprintf(d->inputs + n, sizeof d->inputs - n, "%s%.100s %s", k ? ", " : "", p.name, title);
    }
}

/* Where the time of engines goes that know it: after everything else, since it is work of its own. */
static TgStatus profiles(Duel *d)
{
    char dir[64], file[80];
    if (!folder_make(dir)) return TG_CACHE;
    TgStatus status = TG_OK;
    snprintf(file, sizeof file, "%s/profile.json", dir);
    for (uint32_t i = 0; i < d->nengine && status == TG_OK; i++) {
        Engine *e = &d->engine[i];
        if (!e->peer.profiles) continue;
        status = peer_profile(&e->peer, file);
        if (status != TG_OK) break;
        if (!(e->profile = json_load_file(file, 0, NULL)))
            status = say_error(TG_DEVICE, "engine %s: its profile is no JSON", e->peer.label);
    }
    folder_clear(dir);
    return status;
}

/* ---- the whole ---- */

static bool is_named(const Duel *d, const char *name)
{
    for (uint32_t i = 0; i < d->nengine; i++)
        if (!strcmp(d->engine[i].peer.name, name)) return true;
    return false;
}

/* An engine that calls itself like one before it is named as it was requested, or with its number. */
static void distinct_name(const Duel *d, Engine *e, const char *label)
{
    if (is_named(d, e->peer.name) && strchr(label, ':')) snprintf(e->peer.name, sizeof e->peer.name, "%.60s", label);
    if (!is_named(d, e->peer.name)) return;
    char name[sizeof e->peer.name];
    snprintf(name, sizeof name, "%.50s (%u)", e->peer.name, d->nengine + 1);
    memcpy(e->peer.name, name, sizeof name);
}

static TgStatus start_engines(Duel *d, const Args *a, const char *model, const char *dir)
{
    static const char *const usual[] = { "tgrun", "ort" };
    const ArgList *given = &a->value[OPT_engine];
    uint32_t n = given->count ? given->count : 2;
    if (n > ENGINES_MAX) return say_error(TG_USAGE, "--engine: %u engines; at most %d are compared", n, ENGINES_MAX);
    for (; d->nengine < n; d->nengine++) {
        const char *label = given->count ? given->v[d->nengine] : usual[d->nengine];
        Engine *e = &d->engine[d->nengine];
        TgStatus status = peer_start(&e->peer, label, model, dir, a);
        if (status != TG_OK) return status;
        distinct_name(d, e, label);
        e->agrees = true;
        peer_silent(&e->peer);
    }
    return fair_devices(d, a);
}

static TgStatus duel_in(Duel *d, const Args *a, const TgSession *s, const Data *data, const char *dir)
{
    const DataSet *set = &data->set[0];
    TgStatus status = inputs_write(set, dir);
    if (status == TG_OK) status = start_engines(d, a, d->model, dir);
    if (status == TG_OK) status = compare_outputs(d, a, s, set->noutput, false);
    if (status == TG_OK && d->streams) status = throughput_start(d, a, dir);
    bool any = false;
    for (uint32_t i = 0; i < d->nengine; i++) any |= d->engine[i].peer.sets;
    if (!any) d->sets = 1;
    for (uint32_t k = 1; k < d->sets && status == TG_OK; k++) status = give_inputs(d, data, k);
    if (status == TG_OK) status = d->streams ? throughput_measure(d, a) : measure(d, a);
    if (status == TG_OK && d->sets > 1) status = check_unseen(d, a, s, data);
    if (status == TG_OK && !d->streams) fair_notes(d);
    if (status == TG_OK && args_has(a, OPT_report)) status = profiles(d);
    throughput_stop(d);
    for (uint32_t i = 0; i < d->nengine; i++) peer_stop(&d->engine[i].peer);
    for (uint32_t i = 0; i < d->nengine && status == TG_OK && args_has(a, OPT_cold); i++)
        status = cold_measure(&d->engine[i], a, d->model, dir);
    return status;
}

TgStatus duel_run(Duel *d, const Args *a, const char *model)
{
    TgSession *s = NULL;
    TgOptions o;
    Data data = { 0 };
    char dir[64];
    *d = (Duel){ .model = model,
                 .threads = (int32_t)args_count(a, OPT_threads, 0),
                 .streams = args_has(a, OPT_throughput) ? (uint32_t)args_count(a, OPT_streams, 1) : 0,
                 .sets = (uint32_t)args_count(a, OPT_sets, SETS_USUAL) };
    if (d->sets < 1 || d->sets > 8) return d->status = say_error(TG_USAGE, "--sets: 1 to 8 is wanted");
    if (getloadavg(&d->load_average, 1) < 1) d->load_average = NAN;
    args_session_options(a, &o);
    o.device = "none";
    d->status = tg_open(&s, model, &o);
    if (d->status != TG_OK) say_library_error(d->status);
    else d->status = data_make(&data, s, a);
    if (d->status == TG_OK && !folder_make(dir)) d->status = TG_CACHE;
    else if (d->status == TG_OK) {
        inputs_title(d, s, &data.set[0]);
        if (!data.set[0].ninput) d->sets = 1;
        d->status = duel_in(d, a, s, &data, dir);
        folder_remove(dir);
    }
    data_free(&data);
    tg_close(s);
    return d->status;
}

void duel_free(Duel *d)
{
    for (uint32_t i = 0; i < d->nengine; i++) {
        free(d->engine[i].ms);
        free(d->engine[i].sorted);
        free(d->engine[i].more);
        json_decref(d->engine[i].profile);
    }
    free(d->block);
}
