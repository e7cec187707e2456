/* Tile registers (AMX): which of the eight holds what of a kernel's LINEAR, whose values are tiles (graph/wmma.h), and
 * what its instructions do with them, for whoever writes code. */
#ifndef TG_CPU_TILES_H
#define TG_CPU_TILES_H
#include "sched/kernel.h"

typedef struct Tiles Tiles;
/* Lives in the arena. TG_UNSUPPORTED: eight are too few. */
TgStatus tiles_new(Tiles **out, const Kernel *k, Arena *arena);
/* The operand of ldtilecfg. */
void tiles_sizes(const Tiles *t, uint8_t config[64]);

/* c, a, b, reg: numbers of registers. from, to: addresses (SHRINK) of a window, rows `stride` bytes from each other; a
 * stored tile's rows lie one behind the other. moved: a tile would have to move, which cannot be said. */
typedef struct {
    void (*zero)(void *user, int reg);
    void (*load)(void *user, int reg, const UOp *from, int64_t stride);
    void (*store)(void *user, int reg, const UOp *to);
    void (*multiply)(void *user, const UOp *wmma, int c, int a, int b);
    void (*moved)(void *user);
} TileOps;
/* Instruction u by these. False: it has nothing to do with tiles. Instructions come in order. */
bool tile_instruction(Tiles *t, const UOp *u, const TileOps *ops, void *user);
#endif
