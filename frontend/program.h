/* A program: what a session made for one set of input shapes, ready to run. */
#ifndef TG_PROGRAM_H
#define TG_PROGRAM_H
#include "backends/backend.h"
#include "beam/beam.h"
#include "frontend/frontend.h"

typedef struct Program {
    struct Program *next;           /* the session's list, last used first */
    Arena *arena;
    uint32_t ninput, noutput;
    TgTensor *input;                /* type and shape; data: a copy of the value where it is baked into the graph, else NULL */
    Imported imported;
    Schedule *schedule;
    Plan *plan;
    Code *code;
    Executable *executable;
    CompileStats stats;
    double schedule_s, load_s;
    int64_t **text;                 /* [ninput] numbers of a string input's strings, or NULL */
    Arena *words;                   /* strings of the last run that the model does not know */
    TgTensor *output;               /* data: this program's own memory, written by each run */
    int64_t *vars;                  /* [plan->nvar], sizes that host steps find */
} Program;

/* How far to go: a dump needs no compiler. */
typedef enum { PROGRAM_PLAN, PROGRAM_READY } ProgramGoal;
TgStatus program_make(Program **out, const Model *m, const TgTensor *input, uint32_t ninput, const Backend *b, Device *d, const Choice *c, ProgramGoal goal, Dump *dump);
void program_free(Program *p, const Backend *b);
bool program_fits(const Program *p, const TgTensor *input, uint32_t ninput);
TgStatus program_run(Program *p, const Backend *b, const TgTensor *input, TgTensor *output);
double seconds_now(void);           /* monotonic */
#endif
