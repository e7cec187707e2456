/* The rows of wmma.def, and what a WMMA's arg says.
 *
 * A WMMA is scalar in form 3 (kernel.h): one product a * b of one m, n, k, under the REDUCE(ADD) that sums it; so the
 * kernel means what it meant before. In form 4 it is the whole operation: A and B are fragments, the accumulator and
 * the result have shape (elements a lane). arg.i is the row, arg.blob a WmmaRanges: the numbers of the ranges that it
 * is made of, of which only `lane` is left in form 4, and how many rows of A and C a tile register holds: m or, where
 * that fits an axis better, fewer.
 */
#ifndef TG_WMMA_H
#define TG_WMMA_H
#include "graph/uop.h"

typedef struct {
    const char *name, *device;
    int32_t m, n, k;
    DType a, b, acc;
    int32_t lanes;
    const char *am, *ak, *bk, *bn, *cm, *cn;
} Wmma;

typedef enum {
#define WMMA(name, ...) WMMA_##name,
#include "graph/wmma.def"
#undef WMMA
    WMMA_COUNT
} WmmaRow;
extern const Wmma wmma_row[WMMA_COUNT];

/* Range numbers, -1: none. m, n: C's element bits of the axis; k: its runs of bits of one kind in B, lowest first;
 * lane: of the lanes. */
enum { WMMA_K = 4 };
typedef struct {
    int64_t lane, m, n, k[WMMA_K], rows;
} WmmaRanges;
/* the numbers among them; the fewest rows: shorter tiles could be vectors */
enum { WMMA_RANGES = 3 + WMMA_K, WMMA_ROWS = 5 };

static inline const Wmma *wmma_of(const UOp *u) { return &wmma_row[u->arg.i]; }
/* A WMMA adds by itself: to a sum's accumulator, unless it is the end of another sum. */
static inline bool wmma_adds(const UOp *u) { return u->op == UOP_WMMA && u->src[2]->op != UOP_WMMA; }
static inline const WmmaRanges *wmma_ranges(const UOp *u) { return (const WmmaRanges *)u->arg.blob->data; }

/* Which lane holds the element of A, B or C at these two indices, and its number there. */
static inline bool wmma_tiled(const Wmma *w)
{
    return w->lanes == 1 && w->m > 1;
} /* C lies in a tile register; else in a vector, or in a warp's registers */
void wmma_place(const char *row_bits, int64_t row, const char *column_bits, int64_t column, int *lane, int *element);
int wmma_elements(const char *row_bits, const char *column_bits);           /* a lane's */
/* a lane's elements of operand s: of A, B or the accumulator */
int wmma_operand(const UOp *wmma, uint32_t s);
/* Rows of a tile, and how many tiles beside each other, that cover m rows with the least work; 0: m is too short.
 * filled: the work of full tiles over that, 0 to 1. */
int64_t wmma_cover(int64_t m, int64_t *tiles, double *filled);
/* tiled: elements from row to row of operand s, whose shape tells */
int64_t wmma_stride(const UOp *wmma, uint32_t s);
/* what the verifier asks: types and shapes are the row's */
bool wmma_fits(const UOp *u);
static inline bool wmma_is_tile(const UOp *u)
{
    return u->shape->rank == 1 && uop_numel(u) > 64;
} /* no vector is that long: what a tiled WMMA reads and gives */
#endif
