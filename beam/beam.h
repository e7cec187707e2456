/* Choosing OptOps for a kernel; never changing what it means. */
#ifndef TG_BEAM_H
#define TG_BEAM_H
#include "sched/sched.h"

typedef struct Backend Backend;         /* backends/backend.h */
typedef struct Device Device;

/* heuristic.c: a good list at once, from the kernel (trial.h) and the device alone */
void heuristic_opts(OptList *out, const Kernel *k, const Target *t);
void gpu_opts(OptList *out, const Kernel *k, const Target *t);            /* gpu.c: its part for GPUs */
/* cut.c: a sum of twice as many terms or more becomes one of sums of at most that many; k has l applied, and so it
 * stays */
void cut_sum(OptList *l, Kernel *k, const Target *t, int64_t most);
/* different lists for a GPU, the likeliest first; returns how many */
uint32_t gpu_candidates(OptList *out, uint32_t cap, const Kernel *k, const Target *t);

/* tunedb.c: what was learned. cache_dir NULL: kept as long as the session. device: everything beside the kernel that
 * decides which list is best. */
typedef struct TuneDb TuneDb;
typedef struct { OptList opts; double seconds; } Tuned;
TuneDb *tunedb_open(const char *cache_dir);
void tunedb_close(TuneDb *d);
/* Opens what is there: so the thread that is watched notices a damaged file, and says so. */
void tunedb_look(TuneDb *d);
/* Numbers that change with the file; of one that is not there zeros. false: what is learned is in memory. */
bool tunedb_stamp(const TuneDb *d, int64_t stamp[2]);
/* Several threads may call it at once. */
bool tunedb_best(TuneDb *d, const char *kernel, const char *device, Tuned *out);
/* in place of the one before */
void tunedb_put_best(TuneDb *d, const char *kernel, const char *device, const Tuned *t);
void tunedb_forget_best(TuneDb *d, const char *kernel, const char *device);
/* The same for schedules: key as schedule_key makes it. */
bool tunedb_schedule(TuneDb *d, const char *key, const char *device, ScheduleList *out);
void tunedb_put_schedule(TuneDb *d, const char *key, const char *device, const ScheduleList *l);
bool tunedb_is_bad(TuneDb *d, const char *kernel, const char *device, const OptList *l);
void tunedb_put_bad(TuneDb *d, const char *kernel, const char *device, const OptList *l);

/* The list for a kernel: what the user named for it (lines `KERNEL: LIST`, or NULL), the database's where it has a
 * legal one, else the heuristic's. */
typedef struct {
    TuneDb *db;
    const Target *target;
    const char *named;
    bool saved;                     /* named are a compiled model's: those that it has code for */
    char device[640];
} Choice;
void choice_init(Choice *c, TuneDb *db, const Backend *b, const Device *d);
bool choice_of(OptList *out, const Choice *c, const Kernel *k);           /* true: named, or from the database */
/* The list for a graph's schedule, likewise (a line `schedule: LIST`); empty where there is none. */
void choice_schedule(ScheduleList *out, const Choice *c, Graph *g, const UOp *sink);
bool choice_names_schedule(const Choice *c);
TgStatus choice_named_check(const char *named);                           /* every line parses */
bool choice_is_named(const Choice *c, const Kernel *k);
TgStatus choice_is_legal(const Choice *c, const Kernel *k, const OptList *l);     /* does k lower under l? */

/* search.c: spends a budget where the time is. Winners go to the choice's database as they are found; those that were
 * there when the thread's watcher ended the search stay. */
typedef struct {
    const Choice *choice;
    const Backend *backend;
    int32_t device_index, threads;
    const char *cpus, *cache_dir;   /* as in DeviceOptions, for the worker */
    Kernel *const *kernel;          /* unique, before OptOps */
    const double *count;            /* launches of each in a run */
    uint32_t n;
    double seconds;                 /* 0: until nothing is gained any more */
    double patience_s;              /* of a candidate that hangs; 0: the default */
    int32_t verbose;                /* what the thread's watcher reads: 1: lists that are bad, 2: all */
    int32_t beam;                   /* lists that are kept of a kernel, 0: the default */
} SearchOptions;
/* before, after: sums over a run's launches that were timed */
typedef struct {
    double before_s, after_s;
    uint32_t timed, improved, tried, bad;
} SearchReport;
TgStatus search_run(SearchReport *out, const SearchOptions *o);

/* schedules.c: adds to a list of choices what makes the kernels of a graph's schedule faster. Of `search`: choice,
 * backend, the worker's options, seconds and verbose. */
typedef struct { SearchOptions search; Graph *g; const UOp *sink; } ScheduleSearch;
TgStatus schedules_search(ScheduleList *list, const ScheduleSearch *o);
/* Of each item, launches of its kernel in a run; 0: it is none, or runs at load. */
void schedule_launches(double *launches, const Schedule *s);
#endif
