/* The rows of wmma.def, and the little that every reader of their bits needs. */
#include "graph/wmma.h"

#include <string.h>

const Wmma wmma_row[WMMA_COUNT] = {
#define WMMA(name, device, m, n, k, a, b, acc, lanes, am, ak, bk, bn, cm, cn) \
    { #name, device, m, n, k, DT_##a, DT_##b, DT_##acc, lanes, am, ak, bk, bn, cm, cn },
#include "graph/wmma.def"
#undef WMMA
};

enum { WINDOW_BYTES = 64, TILE_ROWS = 16 };

static void add_bits(const char *bits, int64_t v, int *lane, int *element)
{
    for (int p = 0; bits[p]; p++) {
        int one = (int)(v >> p & 1);
        if (bits[p] >= 'a') *lane |= one << (bits[p] - 'a');
        else *element |= one << (bits[p] & 15);           /* '0' is 48 */
    }
}

void wmma_place(const char *row_bits, int64_t row, const char *column_bits, int64_t column, int *lane, int *element)
{
    *lane = *element = 0;
    add_bits(row_bits, row, lane, element);
    add_bits(column_bits, column, lane, element);
}

int wmma_elements(const char *row_bits, const char *column_bits)
{
    int n = 1;
    for (const char *s = row_bits; *s; s++) n <<= *s < 'a';
    for (const char *s = column_bits; *s; s++) n <<= *s < 'a';
    return n;
}

int wmma_operand(const UOp *u, uint32_t s)
{
    const Wmma *w = wmma_of(u);
    int n = s == 0 ? wmma_elements(w->am, w->ak) : s == 1 ? wmma_elements(w->bk, w->bn) : wmma_elements(w->cm, w->cn);
    return s == 1 ? n : n * (int)wmma_ranges(u)->rows / w->m;
}

int64_t wmma_stride(const UOp *u, uint32_t s)
{
    int64_t columns = WINDOW_BYTES / dtype_size(wmma_of(u)->a), rows = wmma_operand(u, s) / columns;
    return (uop_numel(u->src[s]) - columns) / (rows - 1);
}

/* An operation takes as many steps as rows, and some to load what it takes of B, which two tiles share. */
static double cover_cost(int64_t m, int64_t rows, int64_t tiles)
{
    int64_t blocks = (m + rows * tiles - 1) / (rows * tiles);
    return (double)(blocks * tiles * (rows + (tiles > 1 ? 4 : 8)));
}

int64_t wmma_cover(int64_t m, int64_t *tiles, double *filled)
{
    int64_t best = 0;
    double least = 0;
    for (int64_t n = 1; n <= 2; n++)
        for (int64_t rows = WMMA_ROWS; rows <= TILE_ROWS && n * rows <= m; rows++) {
            double cost = cover_cost(m, rows, n);
            if (!best || cost <= least) best = rows, *tiles = n, least = cost;
        }
    *filled = best ? (double)m / (2 * TILE_ROWS) * cover_cost(2 * TILE_ROWS, TILE_ROWS, 2) / least : 0;
    return best;
}

static bool fragment_fits(const Wmma *w, const UOp *u, DType t, int elements)
{
    int64_t n = u->shape->rank == 1 ? uop_numel(u) : 0;
    return u->dtype == t && (wmma_tiled(w) ? u->op == UOP_LOAD && n >= elements : n == elements);
}

bool wmma_fits(const UOp *u)
{
    if (u->arg.i < 0 || u->arg.i >= WMMA_COUNT || !u->arg.blob || u->arg.blob->size != sizeof(WmmaRanges)) return false;
    const Wmma *w = wmma_of(u);
    int64_t rows = wmma_ranges(u)->rows;
    if (u->dtype != w->acc || (rows != w->m && (!wmma_tiled(w) || rows < WMMA_ROWS || rows > w->m))) return false;
    if (!u->shape->rank) return u->src[0]->dtype == w->a && u->src[1]->dtype == w->b;
    return fragment_fits(w, u->src[0], w->a, wmma_operand(u, 0)) &&
        fragment_fits(w, u->src[1], w->b, wmma_operand(u, 1)) && uop_numel(u) == wmma_operand(u, 2);
}
