/* What the files of the CPU's heuristic share: heuristic.c chooses, cpu_axis.c knows loops, lanes and threads,
 * cpu_product.c sums of products, cpu_units.c those that the device has operations for, cpu_column.c how what rows
 * share stays near. A loop is named by its range's number. */
#ifndef TG_BEAM_CPU_H
#define TG_BEAM_CPU_H
#include "beam/trial.h"

static inline bool cpu_split(Trial *p, int number, int64_t factor, AxisType target)
{
    return trial_split(p, number, factor, target, false);
}
/* what divides what is left of a loop: its length where that is known */
int64_t cpu_divisor(const Trial *p, int number);
bool cpu_padto(Trial *p, int number, int64_t multiple);
/* on a loop of the output; one of symbolic size gets as many more iterations as make it whole, whose elements are gated
 */
bool cpu_lanes(Trial *p, int number, int64_t lanes, int64_t together);
void cpu_first(Trial *p, int number);                                      /* an output loop, outside of all others */
/* an output loop, outwards past those in `past` */
void cpu_move_out(Trial *p, int number, uint64_t past);

/* of one inner iteration's accesses when this axis is in lanes, in vector instructions */
double cpu_lane_cost(const Trial *p, int number);
double cpu_scalar_cost(const Trial *p);
int cpu_best_lane(const Trial *p, uint64_t among);                      /* -1: none */
bool cpu_worth_lanes(const Trial *p, int lane);
int64_t cpu_lane_width(const Trial *p, int64_t n);                      /* of a reduce axis */
/* are lanes along the reduce better than along the output? */
bool cpu_sums_in_lanes(const Trial *p, int reduce, int out);
/* the outermost axis in memory of what a kernel of constants reads; -1: it reads more */
int cpu_farthest(const Trial *p);
/* the loop that balances best among threads, first where that is as good; -1: none is preferred */
void cpu_share(Trial *p, int first);

/* cpu_product.c: mr rows along loop m of nv vectors each, and the share of the multiply-add peak that it reaches */
typedef struct { int m; int64_t mr, nv; double score; } Tile;
/* others: registers that hold neither sums nor vectors of the lane axis; columns: threads take columns of tiles each */
Tile cpu_best_tile(const Trial *p, int lane, int64_t others, bool columns);
/* Lanes of a short axis of n: all of it at once, with a few that compute nothing, where the largest power of two below
 * it would go over everything twice. */
int64_t cpu_lanes_of_short(Trial *p, int lane, int64_t n);
uint64_t cpu_batch(const Trial *p);                                     /* loops on which all that is summed depends */
bool cpu_meets_constants(const Trial *p, int number);                   /* some that are summed vary along it */
bool cpu_large_columns(const Trial *p, int lane);                       /* so many bytes that threads share them out */
int cpu_larger_side(const Trial *p, int n);        /* the loop of a product that threads divide */
/* a stretch of rows goes with all columns, of which there are `least`, before the next, where rows are more than a
 * core's cache holds; mr: rows of a tile, 0: of a unit's */
bool cpu_cut_rows(Trial *p, int n, int m, int64_t least, int64_t mr);
void cpu_share_columns(Trial *p, int n);           /* after it, where stretches alone do not balance */
void cpu_unroll_parts(Trial *p);                   /* of a byte that holds several numbers */
/* cpu_units.c: tiles or dot products of the device; false: nothing changed */
bool cpu_operations(Trial *p, const Kernel *k);
/* lanes along an output axis, rows of accumulators along another */
void cpu_contract(Trial *p, int lane);
/* cpu_column.c. Bytes of a core's cache that so many bytes of each term take: where the stride between terms is larger,
 * they share the sets that they meet. */
double cpu_cached_bytes(const Trial *p, const Access *a, double bytes);
/* a column of tiles that is no constant is copied before its tiles, of so many rows, where it is worth that */
void cpu_stage(Trial *p, int lane, int64_t vectors, int64_t rows);
/* the whole list of a product of one row; false: its columns are few or lie near, nothing changed */
bool cpu_stream(Trial *p, int lane);
/* the last of all: a long sum's loop outside of tiles of rows, in columns of so many vectors along the lane */
void cpu_carry(Trial *p, int lane, int64_t vectors);
void cpu_dot_products(Trial *p, int lane);                              /* lanes along the reduce */
#endif
