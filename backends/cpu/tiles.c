/* Tile registers (AMX): the instructions of a kernel's LINEAR whose values are tiles (tiles.h), and these printed as
 * assembler, which GCC and Clang take alike.
 *
 * A REG accumulator has a register of its own from its first to its last use, and what is loaded of it or added to it
 * stays there. A value that is used in a loop opened after it lives to that loop's end. Windows of memory that are used
 * in the same loop body only are loaded where they are used: the registers that are left hold those whose next use is
 * the nearest (Belady), and what was let go is loaded again, from the first level of the cache by then. The tiles'
 * sizes are set when a kernel begins and released when it ends, so that nobody else is disturbed: those that hold A and
 * C have as many rows as the kernel's WMMAs say, those that hold B all.
 */
#include <string.h>

#include "backends/cpu/cpu.h"
#include "backends/cpu/tiles.h"
#include "graph/wmma.h"

enum { TILES = 8, DEPTH = 64, ROW_BYTES = 64, ROWS = 16, WINDOWS = 12, NEAR_BYTES = 24 << 10 };

static const char tile_helpers[] =
    "#ifndef TG_TILES\n#define TG_TILES\n"
    "#define TG_TILE_ZERO(t) __asm__ volatile(\"tilezero %%tmm\" #t : : )\n"
    "#define TG_TILE_LOAD(t, p, stride) __asm__ volatile(\"tileloadd (%0,%1,1), %%tmm\" #t : : \"r\"(p), "
    "\"r\"((long)(stride)) : \"memory\")\n"
    "#define TG_TILE_STORE(t, p) __asm__ volatile(\"tilestored %%tmm\" #t \", (%0,%1,1)\" : : \"r\"(p), \"r\"(64L) : "
    "\"memory\")\n"
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
static const UOp *owner_of(const UOp *u)
{
    for (;;)
        if (u->op == UOP_WMMA && u->src[2]->op != UOP_STACK) u = u->src[2];
        else if (u->op == UOP_LOAD && !is_window(u)) u = u->src[0];
        else return u;
}

static bool is_tile(const UOp *u)
{
    return u->op != UOP_PARAM && u->op != UOP_SHRINK && u->shape->rank == 1 && uop_static(u) && wmma_is_tile(u) &&
        (u->op != UOP_BUFFER || buffer_space(u) == SPACE_REG);
}

typedef enum { NOTHING, HOLDS_A, HOLDS_B } Role;

/* Where a WMMA finds its operands: a register each, and whether it is to be loaded first. */
typedef struct { uint8_t reg[2]; bool load[2]; } Operands;

struct Tiles {
    const UOp *const *line;
    uint32_t count;
    uint32_t *end, *body;           /* by position: where the loop that begins here ends; the loop around this one */
    uint32_t *first, *last;         /* by id: positions */
    const UOp **wmma;               /* by id: of a window, who reads it .. */
    uint8_t *operand;               /* .. and as what */
    bool *late;                     /* by id: a window that is loaded where it is used */
    Operands *taken;                /* by id: of a WMMA */
    Role role[TILES];
    CpuAhead ahead;                 /* what the body of the loop at `at` fetches of the next panel */
    uint32_t at, operations, done;  /* done: operations of that body that have fetched their share */
    const UOp *row[WINDOWS];        /* windows of A of which that body fetches the next iteration's */
    uint32_t rows;
    const Kernel *kernel;
    uint8_t *reg;                   /* by id: 1 + the register that holds it */
};

/* Position where a value of that first position dies when it is used here. */
static uint32_t dies(const Tiles *l, const uint32_t *open, uint32_t depth, uint32_t first, uint32_t use)
{
    for (uint32_t d = 0; d < depth; d++)
        if (open[d] > first) return l->end[open[d]];
    return use;
}

static void find_loops(Tiles *l)
{
    uint32_t open[DEPTH], depth = 0;
    for (uint32_t i = 0; i < l->count; i++) {
        if (l->line[i]->op == UOP_RANGE && depth < DEPTH) open[depth++] = i;
        l->body[i] = depth ? open[depth - 1] : UINT32_MAX;
        if (l->line[i]->op == UOP_END && depth) l->end[open[--depth]] = i;
    }
}

static void find_lives(Tiles *l)
{
    uint32_t open[DEPTH], depth = 0;
    for (uint32_t i = 0; i < l->count; i++) {
        const UOp *u = l->line[i];
        if (u->op == UOP_RANGE && depth < DEPTH) open[depth++] = i;
        if (u->op == UOP_END && depth) depth--;
        if (is_tile(u) && owner_of(u) == u) l->first[u->id] = l->last[u->id] = i, l->late[u->id] = is_window(u);
        for (uint32_t k = 0; k < u->nsrc && u->op != UOP_END; k++) {
            if (u->op == UOP_WMMA) l->wmma[u->src[k]->id] = u, l->operand[u->src[k]->id] = (uint8_t)k;
            const UOp *h = is_tile(u->src[k]) ? owner_of(u->src[k]) : NULL;
            uint32_t at = h ? dies(l, open, depth, l->first[h->id], i) : 0;
            if (h && at > l->last[h->id]) l->last[h->id] = at;
            if (h) l->late[h->id] &= u->op == UOP_WMMA && l->body[i] == l->body[l->first[h->id]];
        }
    }
}

/* A register that has held B has all its rows, one that has held A or C those of the kernel's tiles. */
static Role role_of(const Tiles *l, const UOp *u)
{
    return l->wmma[u->id] && l->operand[u->id] == 1 ? HOLDS_B : HOLDS_A;
}

static uint32_t next_use(const Tiles *l, const UOp *window, uint32_t from)
{
    for (uint32_t i = from; i <= l->last[window->id]; i++)
        if (l->line[i]->op == UOP_WMMA && (l->line[i]->src[0] == window || l->line[i]->src[1] == window)) return i;
    return UINT32_MAX;
}

/* A register for u at position i: a free one, or that of the late window, but for `other`, whose next use from `from`
 * on is the farthest; TILES: there is none. */
static int take_register(const Tiles *l, const UOp *const *in, const UOp *u, uint32_t i, uint32_t from,
                         const UOp *other)
{
    int best = TILES;
    uint32_t farthest = i;
    for (int k = 0; k < TILES; k++) {
        if (l->role[k] && l->role[k] != role_of(l, u)) continue;
        if (!in[k]) return k;
        if (in[k] == other) continue;
        uint32_t next = l->late[in[k]->id] ? next_use(l, in[k], from) : l->last[in[k]->id] < i ? UINT32_MAX : 0;
        if (next == UINT32_MAX) return k;
        if (next > farthest) best = k, farthest = next;
    }
    return best;
}

static bool take_operands(Tiles *l, const UOp **in, const UOp *u, uint32_t i)
{
    Operands *o = &l->taken[u->id];
    for (int s = 0; s < 2; s++) {
        int at = 0;
        while (at < TILES && in[at] != u->src[s]) at++;
        o->load[s] = at == TILES && l->late[u->src[s]->id];
        if (o->load[s]) at = take_register(l, in, u->src[s], i, i + 1, u->src[!s]);
        if (at == TILES) return false;
        in[at] = u->src[s];
        o->reg[s] = (uint8_t)at;
        l->role[at] = role_of(l, u->src[s]);
    }
    return true;
}

/* False: there are too few. */
static bool give_registers(Tiles *l)
{
    const UOp *in[TILES] = { NULL };
    memset(l->role, 0, sizeof l->role);
    for (uint32_t i = 0; i < l->count; i++) {
        const UOp *u = l->line[i];
        for (int k = 0; k < TILES && (u->op == UOP_RANGE || u->op == UOP_END);
             k++) /* what the next iteration loads lies elsewhere */
            if (in[k] && l->late[in[k]->id]) in[k] = NULL;
        if (u->op == UOP_WMMA && is_tile(u) && !take_operands(l, in, u, i)) return false;
        /* nobody uses it, or not yet */
        if (!is_tile(u) || u->op == UOP_STACK || (owner_of(u) == u && (l->late[u->id] || l->last[u->id] == i)))
            continue;
        int free = owner_of(u) == u ? take_register(l, in, u, i, i, NULL) : 0;
        if (free == TILES) return false;
        if (owner_of(u) == u) in[free] = u, l->reg[u->id] = (uint8_t)(free + 1), l->role[free] = role_of(l, u);
        else l->reg[u->id] = l->reg[owner_of(u)->id];
    }
    return true;
}

TgStatus tiles_new(Tiles **out, const Kernel *k, Arena *arena)
{
    uint32_t ids = graph_count(k->g), count = k->linear->nsrc;
    Tiles *l = *out = NEW(arena, Tiles);
    *l = (Tiles){ .line = k->linear->src,
                  .count = count,
                  .end = NEW_N(arena, uint32_t, count),
                  .body = NEW_N(arena, uint32_t, count),
                  .first = NEW_N(arena, uint32_t, ids),
                  .last = NEW_N(arena, uint32_t, ids),
                  .wmma = NEW_N(arena, const UOp *, ids),
                  .operand = NEW_N(arena, uint8_t, ids),
                  .late = NEW_N(arena, bool, ids),
                  .taken = NEW_N(arena, Operands, ids),
                  .reg = NEW_N(arena, uint8_t, ids),
                  .kernel = k,
                  .at = UINT32_MAX - 1 };               /* of no body yet */
    find_loops(l);
    find_lives(l);
    if (give_registers(l)) return TG_OK;
    /* none waits for a loop */
    for (uint32_t i = 0; i < count; i++) l->late[l->line[i]->id] = is_window(l->line[i]) && l->wmma[l->line[i]->id];
    return give_registers(l) ? TG_OK : fail(TG_UNSUPPORTED, "kernel %s: more than %d tiles", k->name, TILES);
}

static int register_of(const Tiles *l, const UOp *u) { return l->reg[u->id] - 1; }

void tiles_sizes(const Tiles *l, uint8_t config[64])
{
    unsigned rows = (unsigned)wmma_ranges(a_wmma(l->kernel))->rows;
    memset(config, 0, 64);
    config[0] = 1;
    for (int i = 0; i < TILES; i++) {
        config[16 + 2 * i] = ROW_BYTES;
        config[48 + i] = l->role[i] == HOLDS_B ? ROWS : (uint8_t)rows;
    }
}

static bool store(const Tiles *l, const UOp *u, const TileOps *t, void *user)
{
    const UOp *to = u->src[0], *v = u->src[1];
    if (is_tile(to) && !v->shape->rank) return t->zero(user, register_of(l, to)), true;
    if (!is_tile(v)) return false;
    if (to->op == UOP_SHRINK) t->store(user, register_of(l, v), to);
    else if (register_of(l, to) != register_of(l, v)) t->moved(user);
    return true;
}

static void load(const Tiles *l, const UOp *window, const UOp *wmma, uint32_t s, int reg, const TileOps *t, void *user)
{
    (void)l;
    t->load(user, reg, window->src[0], wmma_stride(wmma, s) * dtype_size((DType)window->dtype));
}

bool tile_instruction(Tiles *t, const UOp *u, const TileOps *ops, void *user)
{
    if (u->op == UOP_STORE) return store(t, u, ops, user);
    if (!is_tile(u)) return false;
    if (is_window(u)) {
        if (t->wmma[u->id] && !t->late[u->id])
            load(t, u, t->wmma[u->id], t->operand[u->id], register_of(t, u), ops, user);
    } else if (u->op == UOP_WMMA) {
        const Operands *o = &t->taken[u->id];
        for (uint32_t s = 0; s < 2; s++)
            if (o->load[s]) load(t, u->src[s], u, s, o->reg[s], ops, user);
        if (u->src[2]->op == UOP_STACK) ops->zero(user, register_of(t, u));
        ops->multiply(user, u, register_of(t, u), o->reg[0], o->reg[1]);
    }
    return true;
}

/* ---- as text ---- */

static Tiles *tiles_of(CRender *r)
{
    if (!r->own && (r->status = tiles_new((Tiles **)&r->own, r->k, r->arena))) return NULL;
    return r->own;
}

void cpu_tile_sizes(CRender *r, Text *out)
{
    uint8_t config[64];
    if (!tiles_of(r)) return;
    tiles_sizes(tiles_of(r), config);
    unsigned rows = (unsigned)wmma_ranges(a_wmma(r->k))->rows, for_b = 0;
    for (int i = 0; i < TILES; i++) for_b |= (unsigned)(tiles_of(r)->role[i] == HOLDS_B) << i;
    text_add(out, "%s#ifndef TG_TILES_%u_%x\n#define TG_TILES_%u_%x\n", tile_helpers, rows, for_b, rows, for_b);
    text_add(out, "static const unsigned char tg_tiles_%u_%x[64] __attribute__((aligned(64))) = { 1", rows, for_b);
    for (int i = 0; i < TILES; i++)
        text_add(out, ", [%d] = %d, [%d] = %u", 16 + 2 * i, config[16 + 2 * i], 48 + i, config[48 + i]);
    text_add(out, " };\n#endif\n#undef TG_TILES_HERE\n#define TG_TILES_HERE tg_tiles_%u_%x\n", rows, for_b);
}

static void print_zero(void *user, int reg) { cr_line(user, "TG_TILE_ZERO(%d);", reg); }

static void print_load(void *user, int reg, const UOp *from, int64_t stride)
{
    cr_line(user, "TG_TILE_LOAD(%d, %s + %s, %ld);", reg, cr_memory(user, from), cr_position(user, from, 0),
            (long)stride);
}

static void print_store(void *user, int reg, const UOp *to)
{
    cr_line(user, "TG_TILE_STORE(%d, %s + %s);", reg, cr_memory(user, to), cr_position(user, to, 0));
}

static void print_moved(void *user)
{
    CRender *r = user;
    r->status = fail(TG_INTERNAL, "kernel %s: a tile moves", r->k->name);
}

/* Windows of A that the body of this loop loads, whose rows the next iteration finds a step further on, where all
 * iterations touch more of A than stays in the first cache. */
static void find_rows(Tiles *l)
{
    const UOp *loop = l->at == UINT32_MAX ? NULL : l->line[l->at];
    l->rows = 0;
    if (!loop || !uop_is_const(loop->src[0])) return;
    for (uint32_t k = 0; k < l->count; k++) {
        const UOp *u = l->line[k], *at = is_window(u) && l->wmma[u->id] ? u->src[0]->src[1]->src[0] : NULL;
        bool near = at && l->late[u->id] && !l->operand[u->id] && l->body[k] == l->at;
        if (near && l->rows < WINDOWS && range_step(at, loop) > 0) l->row[l->rows++] = u;
    }
    if (l->rows * ROWS * ROW_BYTES * loop->src[0]->vmax < NEAR_BYTES) l->rows = 0;
}

/* Fetches row n of those that the next iteration loads. */
static void prefetch_row(CRender *r, const Tiles *l, uint32_t n, const UOp *loop, uint32_t rows)
{
    const UOp *window = l->row[n / rows], *wmma = l->wmma[window->id];
    int64_t stride = wmma_stride(wmma, 0), step = range_step(window->src[0]->src[1]->src[0], loop);
    cr_line(r, "__builtin_prefetch(%s + (%s + %ld));", cr_memory(r, window->src[0]), cr_position(r, window->src[0], 0),
            (long)(step + stride * (n % rows)));
}

/* Each operation of a loop body fetches its share of the next panel, and of the rows of the next iteration. */
static void fetch_ahead(CRender *r, Tiles *l, const UOp *wmma)
{
    uint32_t i = 0, rows = (uint32_t)wmma_ranges(wmma)->rows;
    while (l->line[i] != wmma) i++;
    if (l->body[i] != l->at) {
        l->at = l->body[i];
        l->operations = l->done = 0;
        for (uint32_t k = 0; k < l->count; k++) l->operations += l->line[k]->op == UOP_WMMA && l->body[k] == l->at;
        cpu_prefetch_lines(r, wmma->src[1], &l->ahead);
        find_rows(l);
    }
    uint32_t lines = l->ahead.lines, own = l->rows * rows, done = l->done++;
    for (uint32_t n = lines * done / l->operations; n < lines * l->done / l->operations; n++)
        cr_line(r, "__builtin_prefetch(%s + %u);", l->ahead.name, n * ROW_BYTES);
    for (uint32_t n = own * done / l->operations; n < own * l->done / l->operations; n++)
        prefetch_row(r, l, n, l->line[l->at], rows);
}

static void print_multiply(void *user, const UOp *wmma, int c, int a, int b)
{
    CRender *r = user;
    cr_line(r, "TG_TILE_%s(%d, %d, %d);", wmma_of(wmma)->name, c, a, b);
    fetch_ahead(r, tiles_of(r), wmma);
}

bool cpu_tile_line(CRender *r, const UOp *u)
{
    static const TileOps print = { print_zero, print_load, print_store, print_multiply, print_moved };
    bool tiles = u->op == UOP_STORE ? is_tile(u->src[0]) || is_tile(u->src[1]) : is_tile(u);
    return tiles && tiles_of(r) && tile_instruction(tiles_of(r), u, &print, r);
}
