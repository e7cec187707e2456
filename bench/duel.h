/* Engines against each other on one model: blocks of runs in pairs, one engine active at a time. */
#ifndef TG_DUEL_H
#define TG_DUEL_H
#include "bench/compare.h"
#include "bench/peer.h"
#include "bench/stats.h"
#include "bench/watch.h"

enum { ENGINES_MAX = 8, PAIRS_MAX = 1200, BLOCK_MAX = 100000, NOTES_MAX = 32 };
/* Medians of fresh processes; start: from the process's start to its first answer. */
typedef struct {
    double start_s, load_s, first_ms;
} ColdStart;
/* Of an engine whose cache is empty (cold.h), with its files in memory and from disk, but for a share that stayed in
 * memory. known: it was measured. */
typedef struct {
    ColdStart in_memory, from_disk;
    double resident;
    bool known;
} Cold;

typedef struct {
    Peer peer;
    Peer *more; /* streams beside it (throughput.h); NULL: none */
    uint32_t nmore;
    uint32_t block; /* runs in a block */
    double *ms, *sorted; /* all timed runs, in time and by size */
    uint32_t runs, cap;
    double block_median[PAIRS_MAX];
    double memory_mib;
    Cold cold;
    Interval faster; /* how many times as long as the first engine it takes; the first engine's own: placebo */
    bool agrees; /* its outputs and the first engine's */
    double cpu_s, wall_s; /* of its timed blocks: what its threads ran, and how long the blocks took */
    double unseen_ms; /* one run on inputs that it had not seen, after everything else; 0: none */
    double max_abs;
    double offline, server; /* requests a second (throughput.h); server 0: none that was tried */
    double server_p50_ms, server_high_ms, server_percent; /* high: the percentile that its requests allow */
    struct json_t *profile; /* where its time goes, as `tgrun profile --json` says; NULL: not known */
} Engine;

/* A block as it was timed: by which engine, when (seconds from the first one on), and what else the machine did. */
typedef struct {
    uint32_t engine, runs;
    double at_s, wall_s, median_ms;
    Watched watched;
} Block;

typedef struct {
    const char *model;
    uint32_t nengine, pairs, quiet, placebo_pairs,
        restless; /* quiet: pairs that count; restless: hand-overs at which the engine before had not become silent */
    Engine engine[ENGINES_MAX];
    double load_average, others[PAIRS_MAX + 1]; /* the most of a pair's blocks; last: of all placebos */
    int32_t threads;
    uint32_t sets, notes; /* sets of inputs that runs alternate between; what a reader of the times should know */
    char note[NOTES_MAX][240], inputs[400]; /* inputs: names, types and shapes */
    uint32_t streams; /* of a measurement of throughput; 0: of latency */
    double limit_ms; /* of a server's p99; 0: none */
    Block *block; /* in time */
    uint32_t nblock, block_cap;
    double began_s;
    TgStatus status;
} Duel;

/* Starts the engines, compares their outputs, measures. Errors are said and kept in the duel. */
TgStatus duel_run(Duel *d, const Args *a, const char *model);
void duel_free(Duel *d);
int32_t physical_cores(void); /* that this process may use */

/* Blocks in pairs from two sources of times: what duel_run does, open to simulation. block(who, n, ms) times n runs. */
typedef bool (*BlockFn)(void *user, int who, uint32_t n, double *ms);
/* Moves the pairs to the front during which the machine did nothing else, and says how many they are: others[k] are
 * processors that were busy with what is not the engines, or taken by the host. All where fewer than 11 would stay: the
 * machine is busy all the time, or an engine hides its work. */
uint32_t pairs_quiet(double *log_ratio, const double *others, uint32_t pairs);
bool pairs_measure(double *log_ratio, uint32_t pairs, uint32_t block, BlockFn fn, void *user, Random *r);
/* Is there a difference? The interval excludes 1, and the effect is larger than what the placebo shows out of nothing:
 * its half-width, had it as many pairs. */
bool is_different(const Interval *i, uint32_t pairs, const Interval *placebo, uint32_t placebo_pairs);

void duel_table(FILE *f, const Duel *d);
void duel_markdown(FILE *f, const Duel *d, bool head);
void duel_csv(FILE *f, const Duel *d, bool head);
struct json_t *duel_json(const Duel *d);
void duels_page(FILE *f, const Duel *d, uint32_t n); /* page.c */
/* "a is 1.18x as fast as b (95 %: 1.16-1.20)": the other's time over the first's, so above 1 the first is faster. */
void verdict_text(char *out, size_t cap, const Duel *d, uint32_t i);
const char *percentile_text(char buf[24], const Engine *e, double percent); /* n/a: of too few runs */
#endif
