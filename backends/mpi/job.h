/* The processes of a job (ranks), as calls see them that all make: what rank 0 says is heard by the others, what fails
 * on one fails on all, and a run's messages go from rank to rank.
 *
 * A rank whose call fails tells the others, which may be waiting for what it would have sent. Where a call is cut short
 * (a time limit, a signal) the job is broken: nobody waits for anybody any more, and all that is left is to end it. One
 * thread of a process calls these at a time. */
#ifndef TG_JOB_H
#define TG_JOB_H
#include "sched/plan.h"

enum { RANKS_MOST = 64 };           /* DEVICES_MAX */

/* How many the job has and which this is; 1 and 0 before job_join, or where no launcher has started the process. */
int32_t ranks_count(void);
int32_t ranks_number(void);
/* How many of them run on this machine, and the number of this one among those. */
int32_t ranks_beside(int32_t *number);

TgStatus job_join(void);
/* All call it; where the job is broken it ends all at once, with this exit code. */
void job_end(int32_t status);
bool job_is_broken(void);

/* A call begins, unless it is within another: false. It ends with the first failure of any rank. */
bool job_enter(void);
TgStatus job_leave(TgStatus status);
/* Of rank 0, at the begin of a call: its number, which the others follow; and bytes for all of them, which each
 * hears. */
uint32_t job_next(void);
void job_follow(uint32_t number);
TgStatus job_tell(const void *data, int64_t bytes);
TgStatus job_hear(void *data, int64_t bytes);

/* Within a call, by all ranks at the same place. The first failure of any: then it is that of all. */
TgStatus ranks_agree(TgStatus status);
/* What they have must be equal: `what` names it. */
TgStatus ranks_same(uint64_t value, const char *what);
TgStatus ranks_least(int64_t *value);
/* The first rank of a machine does something before the others do: before it (done false), and behind it. */
TgStatus ranks_turn(bool done);
/* The HostFn of a plan's exchanges. */
TgStatus ranks_exchange(const HostCall *call, void *const *args, int64_t *vars);
#endif
