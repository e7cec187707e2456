/* What a schedule is determined by beside its graph and its target: a list of choices, in place of those that the
 * stages would make. Each is of a value, whose name says what it is made of since memory, sums and joins: repeated
 * blocks have values of one name, and are chosen for at once.
 *
 *     STORE v        the value lies in memory            INLINE v     each kernel that reads it makes it again
 *     WINOGRAD v     the sum is made of tiles            DIRECT v     it is not (winograd.c)
 *     JOIN v         the sum is one with its siblings    SINGLE v     it is not (siblings.c)
 *     LAST v axis    that axis of what is stored is the last in memory (layout.c)
 *
 * A stage looks in the list before it decides; what it decides by itself, and what could be otherwise, it offers to a
 * search (beam/schedules.c). To add a choice: its kinds, their names in choices.c, and the stage that looks. */
#ifndef TG_CHOICES_H
#define TG_CHOICES_H
#include "graph/base/text.h"
#include "graph/uop.h"

typedef enum {
    SCHED_STORE,
    SCHED_INLINE,
    SCHED_WINOGRAD,
    SCHED_DIRECT,
    SCHED_JOIN,
    SCHED_SINGLE,
    SCHED_LAST,
    SCHED_KINDS
} ScheduleKind;
/* axis: of a LAST, else 0 */
typedef struct { uint32_t kind, value, axis; } ScheduleOp;
enum { SCHEDULE_OPS = 24 };
typedef struct { ScheduleOp op[SCHEDULE_OPS]; uint32_t count; } ScheduleList;

/* list: what is wanted. used: a bit for each of its ops, by number, that some value had. offered: ops that would change
 * the schedule, each once; those beyond OFFERED_MOST are left out. */
enum { OFFERED_MOST = 192 };
typedef struct Choices {
    ScheduleList list;
    uint32_t used;
    ScheduleOp offered[OFFERED_MOST];
    const UOp *of[OFFERED_MOST];    /* the first value that it was offered for */
    uint32_t noffered;
} Choices;

/* The op of that kind for this value, which is used from then on; NULL: there is none, or choices is NULL. */
const ScheduleOp *choices_find(Choices *choices, ScheduleKind kind, uint32_t value);
void choices_offer(Choices *choices, ScheduleOp op, const UOp *of);
/* Is a value so, of a choice between two kinds? Without a word in the list it is as `now` says, and the other kind is
 * offered. */
typedef struct { ScheduleKind yes, no; } Either;
bool choices_between(Choices *choices, Either kind, uint32_t value, const UOp *of, bool now);
void choices_print(Text *out, const Choices *choices);                  /* what is offered, a line each */
/* The ops that were used. */
ScheduleList choices_applied(const Choices *choices);

/* By id, of nodes in order, sources first: names of values. */
const uint32_t *value_names(const UOp *const *order, uint32_t n, uint32_t nodes, Arena *a);

void schedule_print(Text *out, const ScheduleList *l);                  /* "STORE 3fa1c2d0; LAST 07c3d519 1" */
TgStatus schedule_parse(ScheduleList *out, const char *text);           /* TG_USAGE and a reason */
/* Of the structure of a graph: sizes, but no contents of constants. */
void schedule_key(char key[33], Graph *g, const UOp *sink);
#endif
