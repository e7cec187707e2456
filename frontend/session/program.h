/* A program: what a session made for one set of input shapes, ready to run. */
#ifndef TG_PROGRAM_H
#define TG_PROGRAM_H
#include <stdatomic.h>

#include "backends/backend.h"
#include "beam/beam.h"
#include "common/clock.h"
#include "frontend/frontend.h"
#include "frontend/values/ports.h"
#include "graph/base/memory.h"

typedef struct Program {
    struct Program *next;           /* the session's list, last used first */
    struct Program *of;             /* whose graph, plan, code and constants these are; NULL: its own */
    atomic_int users;               /* of one that has its own: itself, and those that share */
    Arena *arena;
    /* the model's inputs and outputs; tensors in and out, those inside sequences and maps one by one (ports.h) */
    uint32_t nport, nresult, ninput, noutput;
    /* [nport] types and shapes, data: a copy of the value where it is baked into the graph, else NULL; [nresult] */
    TgTensor *input, *output;
    /* [ninput], [noutput] the tensors in these; data of out: this program's own memory, written by each run; NULL:
     * taken */
    TgTensor **in, **out;
    const TgTensor **given;         /* [ninput] those of the run */
    /* sizes that are variables, or NULL: for sizes that dims_values takes; else for those of `input` alone */
    Dims *dims;
    Imported imported;
    Known known;                    /* the queries of the import, and */
    struct Program **answer;        /* [known.n] the programs that answer */
    Schedule *schedule;
    Plan *plan;
    Code *code;
    Executable *executable;
    CompileStats stats;
    double schedule_s, load_s;
    bool tuned;                     /* made after a search for its kernels */
    bool kept;                      /* it was read, not made (kept.h) */
    bool plain;                     /* its sums are not rewritten (session_falls_plain) */
    int64_t pieces;                 /* ProgramMaker's */
    /* [ninput] as the graph sees them, the numbers of a string input's strings, and a narrow one a byte an element:
     * memory for */
    void **own;
    int64_t *room;                  /* [ninput] so many */
    Arena *words;                   /* strings of the last run that the model does not know */
    int64_t pieces_wanted;          /* by the last run, which failed for it: of a string, more than there is room for */
    int64_t *vars;                  /* [plan->nvar], sizes that host steps find */
} Program;

/* What programs of one session are made with. */
typedef struct ProgramMaker {
    const Model *model;
    const Backend *backend;
    Device *device;
    const Choice *choice;
    const Bundle *compiled;         /* where code and constants come from; NULL: they are made */
    const char *cache_dir;          /* where programs are kept (kept.h); NULL: nowhere */
    int64_t max_memory_bytes;       /* 0: no limit */
    int64_t pieces;                 /* of a string that there is room for; 0: the least */
    const struct Batch *batch;      /* the model is mapped over samples (batch.h); NULL: it is not */
    const struct Shard *shard;      /* the model is divided among devices (shard.h); NULL: it is not */
    const Outside *outside;         /* Known's */
    Bodies bodies;                  /* Known's; their user is this */
} ProgramMaker;

/* How far to go: a dump needs no compiler. */
typedef enum { PROGRAM_PLAN, PROGRAM_READY } ProgramGoal;
/* f: those that vary are variables; NULL: none */
TgStatus program_make(Program **out, const ProgramMaker *maker, const TgTensor *input, uint32_t nport,
                      const FreeDims *f, ProgramGoal goal, Dump *dump);
/* The inputs that it is for: their form. */
void program_inputs(Program *p, const TgTensor *input, uint32_t nport);
/* Another of the same code and constants, with values of its own: the two may run at once, each in one thread at a
 * time. b can share. Either may be freed first. */
TgStatus program_share(Program **out, Program *p, const Backend *b);
/* *p, which the caller's frame holds and which may be NULL, is freed if the attempt fails before program_let. */
typedef struct { Undo undo; Program **p; const Backend *b; } ProgramHold;
void program_hold(ProgramHold *h, Program **p, const Backend *b);
void program_let(ProgramHold *h);
int64_t program_bytes(const Program *p);        /* that it plans to hold: arenas, outputs */
void program_free(Program *p, const Backend *b);
/* also by its queries: runs those programs */
bool program_fits(const Program *p, const Backend *b, const TgTensor *input, uint32_t nport);
/* bound [nresult]: memory of the caller's that results go to, where data is not NULL; NULL: none do. */
typedef struct { void *data; size_t size_bytes; } Bound;
/* Those of output[n] that are not there yet go there. TG_BAD_INPUT: a size is another. */
TgStatus bound_copy(const Bound *bound, TgTensor *output, uint32_t n);
/* Memory for the outputs that have none and that are not written elsewhere (direct, by output; NULL: none is): at first
 * all, later those that tg_take gave away. It is sized by the largest values of symbolic sizes; the shape of a run is
 * evaluated after it. */
TgStatus program_outputs(Program *p, void *const *direct);
TgStatus program_run(Program *p, const Backend *b, const TgTensor *input, const Bound *bound, TgTensor *output);
/* a run; seconds[plan->nstep]: what its steps took is added. b can trace */
TgStatus program_trace(Program *p, const Backend *b, const TgTensor *input, double *seconds);
#endif
