/* Neighbours of a list of OptOps. */
#ifndef TG_MOVES_H
#define TG_MOVES_H
#include "beam/beam.h"

/* A list whose ops name axes by where they came from, not by number: an op can be changed, taken out or put in, and the
 * others still mean the same axes. An axis is one of the kernel as it came (by its range's number), or the part that a
 * SPLIT made (NAME_SPLIT + that op's id). */
enum { NAME_SPLIT = 64 };
typedef struct { OptOp op; uint8_t id, on, with; } Move;
typedef struct { Move step[OPT_MAX]; uint32_t count; uint8_t next_id; } Recipe;

bool recipe_of(Recipe *out, const Kernel *base, const OptList *l, const Target *t);
/* The list that a recipe means, and base under it; NULL: illegal. The kernel is the caller's. */
Kernel *recipe_apply(OptList *out, const Kernel *base, const Recipe *r, const Target *t);

/* Calls take for every recipe that is one step away; legality is recipe_apply's to say. */
void recipe_neighbours(const Recipe *r, const Kernel *base, const Target *t, void (*take)(void *user, const Recipe *r),
                       void *user);
#endif
