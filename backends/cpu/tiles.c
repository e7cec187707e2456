/* Tile registers (AMX): the instructions of a kernel's LINEAR whose values are tiles (graph/wmma.h), printed as assembler, which GCC and Clang take alike.
 *
 * A REG accumulator has a register of its own from its first to its last use, and what is loaded of it or added to it stays there; a window has one while it is used. A value that
 * is used in a loop opened after it lives to that loop's end. The tiles' sizes are set when a kernel begins and released when it ends, so that nobody else is disturbed:
 * those that hold A and C have as many rows as the kernel's WMMAs say, those that hold B all.
 */
#include <string.h>

#include "backends/cpu/cpu.h"
#include "graph/wmma.h"

enum { TILES = 8, DEPTH = 64, ROW_BYTES = 64, ROWS = 16, USED_TILES = 5, USED_FOR_B = 6 };

static const char tile_helpers[] =
    "#ifndef TG_TILES\n#define TG_TILES\n"
    "#define TG_TILE_ZERO(t) __asm__ volatile(\"tilezero %%tmm\" #t : : )\n"
    "#define TG_TILE_LOAD(t, p, stride) __asm__ volatile(\"tileloadd (%0,%1,1), %%tmm\" #t : : \"r\"(p), \"r\"((long)(stride)) : \"memory\")\n"
    "#define TG_TILE_STORE(t, p) __asm__ volatile(\"tilestored %%tmm\" #t \", (%0,%1,1)\" : : \"r\"(p), \"r\"(64L) : \"memory\")\n"
    "#define TG_TILE_amx_bf16(c, a, b) __asm__ volatile(\"tdpbf16ps %%tmm\" #b \", %%tmm\" #a \", %%tmm\" #c : : )\n"
    "#define TG_TILE_amx_u8(c, a, b) __asm__ volatile(\"tdpbusd %%tmm\" #b \", %%tmm\" #a \", %%tmm\" #c : : )\n"
    "#endif\n";

/* A WMMA of tiles in the kernel, all of which have the same rows; NULL: there is none. */
static const UOp *a_wmma(const Kernel *k)
{
    for (uint32_t i = 0; i < k->linear->nsrc; i++)
        if (k->linear->src[i]->op == UOP_WMMA && wmma_tiled(wmma_of(k->linear->src[i]))) return k->linear->src[i];
    return NULL;
}

bool cpu_has_tiles(const Kernel *k) { return a_wmma(k) != NULL; }

/* ---- which register holds what ---- */

static bool is_window(const UOp *u) { return u->op == UOP_LOAD && u->src[0]->op == UOP_SHRINK; }

/* The value whose register this one shares. Of zeros each WMMA makes its own. */
static const UOp *home(const UOp *u)
{
    for (;;)
        if (u->op == UOP_WMMA && u->src[2]->op != UOP_STACK) u = u->src[2];
        else if (u->op == UOP_LOAD && !is_window(u)) u = u->src[0];
        else return u;
}

static bool is_tile(const UOp *u) { return u->op != UOP_PARAM && u->op != UOP_SHRINK && u->shape->rank == 1 && uop_static(u) && wmma_is_tile(u) && (u->op != UOP_BUFFER || buffer_space(u) == SPACE_REG); }

/* end: of the loop that begins at this position; first, last: by id; wmma, operand: by id of a window, who reads it. */
typedef struct { const UOp *const *line; uint32_t count, *end, *first, *last; const UOp **wmma; uint8_t *operand; } Lives;

/* Position where a value of that first position dies when it is used here. */
static uint32_t dies(const Lives *l, const uint32_t *open, uint32_t depth, uint32_t first, uint32_t use)
{
    for (uint32_t d = 0; d < depth; d++)
        if (open[d] > first) return l->end[open[d]];
    return use;
}

static void find_loops(Lives *l)
{
    uint32_t open[DEPTH], depth = 0;
    for (uint32_t i = 0; i < l->count; i++) {
        if (l->line[i]->op == UOP_RANGE && depth < DEPTH) open[depth++] = i;
        if (l->line[i]->op == UOP_END && depth) l->end[open[--depth]] = i;
    }
}

static void find_lives(Lives *l)
{
    uint32_t open[DEPTH], depth = 0;
    for (uint32_t i = 0; i < l->count; i++) {
        const UOp *u = l->line[i];
        if (u->op == UOP_RANGE && depth < DEPTH) open[depth++] = i;
        if (u->op == UOP_END && depth) depth--;
        if (is_tile(u) && home(u) == u) l->first[u->id] = l->last[u->id] = i;
        for (uint32_t k = 0; k < u->nsrc && u->op != UOP_END; k++) {
            if (u->op == UOP_WMMA) l->wmma[u->src[k]->id] = u, l->operand[u->src[k]->id] = (uint8_t)k;
            const UOp *h = is_tile(u->src[k]) ? home(u->src[k]) : NULL;
            uint32_t at = h ? dies(l, open, depth, l->first[h->id], i) : 0;
            if (h && at > l->last[h->id]) l->last[h->id] = at;
        }
    }
}

static bool is_b(const Lives *l, const UOp *u) { return l->wmma[u->id] && l->operand[u->id] == 1; }

static void give_registers(CRender *r)
{
    const UOp *linear = r->k->linear, *in[TILES] = { NULL };
    uint32_t ids = graph_count(r->k->g);
    Lives l = { linear->src, linear->nsrc, NEW_N(r->arena, uint32_t, linear->nsrc), NEW_N(r->arena, uint32_t, ids), NEW_N(r->arena, uint32_t, ids), NEW_N(r->arena, const UOp *, ids),
                NEW_N(r->arena, uint8_t, ids) };
    find_loops(&l);
    find_lives(&l);
    for (uint32_t i = 0; i < l.count; i++) {
        const UOp *u = l.line[i];
        if (!is_tile(u) || u->op == UOP_STACK || (home(u) == u && l.last[u->id] == i)) continue;       /* nobody uses it */
        int free = 0;
        while (home(u) == u && free < TILES && in[free] && (l.last[in[free]->id] >= i || is_b(&l, in[free]) != is_b(&l, u))) free++;
        if (free == TILES) r->status = fail(TG_UNSUPPORTED, "kernel %s: more than %d tiles", r->k->name, TILES);
        else if (home(u) == u) in[free] = u, r->note[u->id] = (uint8_t)(free + 1), r->used[USED_FOR_B] |= (uint64_t)is_b(&l, u) << free;
        else r->note[u->id] = r->note[home(u)->id];
    }
    r->used[USED_TILES] = 1;
}

static int register_of(CRender *r, const UOp *u)
{
    if (!r->used[USED_TILES]) give_registers(r);
    return r->note[u->id] - 1;
}

/* ---- instructions ---- */

void cpu_tile_sizes(CRender *r, Text *out)
{
    const UOp *wmma = a_wmma(r->k);
    unsigned for_b = (unsigned)r->used[USED_FOR_B], rows = (unsigned)wmma_ranges(wmma)->rows;
    text_add(out, "%s#ifndef TG_TILES_%u_%x\n#define TG_TILES_%u_%x\n", tile_helpers, rows, for_b, rows, for_b);
    text_add(out, "static const unsigned char tg_tiles_%u_%x[64] __attribute__((aligned(64))) = { 1", rows, for_b);
    for (int i = 0; i < TILES; i++) text_add(out, ", [%d] = %d, [%d] = %u", 16 + 2 * i, ROW_BYTES, 48 + i, for_b >> i & 1 ? ROWS : rows);
    text_add(out, " };\n#endif\n#undef TG_TILES_HERE\n#define TG_TILES_HERE tg_tiles_%u_%x\n", rows, for_b);
}

static const UOp *reader_of(const Kernel *k, const UOp *window, uint32_t *operand)
{
    for (uint32_t i = 0; i < k->linear->nsrc; i++)
        for (*operand = 0; *operand < 2 && k->linear->src[i]->op == UOP_WMMA; ++*operand)
            if (k->linear->src[i]->src[*operand] == window) return k->linear->src[i];
    return NULL;
}

static bool store_line(CRender *r, const UOp *u)
{
    const UOp *to = u->src[0], *v = u->src[1];
    if (is_tile(to) && !v->shape->rank) return cr_line(r, "TG_TILE_ZERO(%d);", register_of(r, to)), true;
    if (!is_tile(v)) return false;
    if (to->op == UOP_SHRINK) cr_line(r, "TG_TILE_STORE(%d, %s + %s);", register_of(r, v), cr_memory(r, to), cr_position(r, to, 0));
    else if (register_of(r, to) != register_of(r, v)) r->status = fail(TG_INTERNAL, "kernel %s: a tile moves", r->k->name);
    return true;
}

bool cpu_tile_line(CRender *r, const UOp *u)
{
    if (u->op == UOP_STORE) return store_line(r, u);
    if (!is_tile(u)) return false;
    if (is_window(u)) {
        uint32_t s = 0;
        const UOp *w = reader_of(r->k, u, &s);
        if (w) cr_line(r, "TG_TILE_LOAD(%d, %s + %s, %ld);", register_of(r, u), cr_memory(r, u->src[0]), cr_position(r, u->src[0], 0), (long)(wmma_stride(w, s) * dtype_size((DType)u->dtype)));
    } else if (u->op == UOP_WMMA) {
        if (u->src[2]->op == UOP_STACK) cr_line(r, "TG_TILE_ZERO(%d);", register_of(r, u));
        cr_line(r, "TG_TILE_%s(%d, %d, %d);", wmma_of(u)->name, register_of(r, u), register_of(r, u->src[0]), register_of(r, u->src[1]));
    }
    return true;
}
