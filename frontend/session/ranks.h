/* Sessions that the processes of a job (ranks) have together, each one of the devices among which a model is divided.
 *
 * Rank 0 is the caller's. What it does with such a session the others do, too: it sends them the call and its inputs,
 * and all make the same programs, whose plans say what travels in a run (sched/plan_ranks.c). At the end of a call all
 * know whether it went well with all. */
#ifndef TG_RANKS_H
#define TG_RANKS_H
#include "backends/mpi/job.h"
#include "onnx/model.h"

struct TgSession;

typedef enum {
    RANKS_END,
    RANKS_OPEN,
    RANKS_CLOSE,
    RANKS_GIVE,
    RANKS_SELECT,
    RANKS_PLAN,
    RANKS_PREPARE,
    RANKS_RUN
} RanksCall;
/* What a call is of: RUN, PREPARE and PLAN have tensors, the others what is theirs. */
typedef struct {
    RanksCall call;
    const struct TgSession *session;
    const TgTensor *input;
    int32_t count;
    const TgOptions *options;
    const char *text;               /* a path, an input's name */
    const int32_t *index;
} RanksWork;

/* status: of `call`, which all ranks make: rank 0 sends it to the others first. Within another such call, and for a
 * session that is this process's alone (ranked false), it is just the call. */
#define RANKS_CALL(status, ranked, work, call)              \
    do {                                                    \
        bool outermost_ = (ranked) && job_enter();        \
        (status) = outermost_ ? ranks_begin(work) : TG_OK;  \
        if ((status) == TG_OK) (status) = (call);           \
        if (outermost_) (status) = job_leave(status);     \
    } while (0)
TgStatus ranks_begin(const RanksWork *w);

/* Is a session of these options one of all ranks? Those that are, by number. */
bool ranks_wanted(const TgOptions *o);
void ranks_add(struct TgSession *s);
void ranks_remove(const struct TgSession *s);
#endif
