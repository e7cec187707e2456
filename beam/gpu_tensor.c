/* Heuristic for a GPU's tensor cores: a sum of products that a row of graph/wmma.def takes (TC), with tiles of several
 * operations a warp and several warps a workgroup, whose operands are staged in shared memory an iteration ahead. Comes
 * in: a kernel with one sum. Goes out: a list, or nothing where TC or STAGE is refused: then gpu.c does what it does
 * for all others. A small model of one iteration of the reduce chooses the tile: how long a warp waits for what it does
 * alone, and how long the multiprocessor needs for all its warps. Its numbers were fitted to 30 timings of f16 products
 * of 128 to 4096 rows on an H200. To teach it another row: nothing; another shape of tile: the loops of all_tiles.
 */
#include <math.h>
#include <stdlib.h>

#include "beam/gpu_tensor.h"
#include "common/order.h"
#include "graph/base/memory.h"
#include "graph/wmma.h"
#include "sched/rangeify.h"

/* REGISTERS, THREADS: of a multiprocessor; OWN_REGISTERS: of a thread, beside its accumulators; PRODUCTS: of a thread;
 * ACCUMULATORS: tiles of a warp; WARPS_SHARING: of a workgroup, with and without a shared reduce. */
enum {
    TILES = 1024,
    ROW_STEP = 16,
    REGISTERS = 65536,
    THREADS = 2048,
    OWN_REGISTERS = 56,
    ACCUMULATORS = 32,
    PRODUCTS = 64,
    WARPS = 8,
    WARPS_SHARING = 16
};
/* Cycles, fitted to the timings named above: of an iteration that runs alone, of an operation and a read in it; of
 * those among others; of a workgroup's start and end; of a shared sum. Bytes a cycle from memory and between warps; the
 * share of the lesser of two that is not hidden; what orders equal ones. */
static const double alone_cycles = 650, alone_operation = 40, alone_read = 12, operation_cycles = 3.2,
                    read_cycles = 1.2, group_cycles = 1500, sum_cycles = 600, fetched = 15, exchanged = 64,
                    unhidden = 0.3, in_order = 0.0001;
/* operations and warps along m and n; steps of k an iteration; parts of the reduce */
/* sorted by what is first */
typedef struct {
    double cycles;
    int32_t mt, wm, nt, wn, ku, group;
} Tile;
typedef struct {
    Kernel *k;                      /* a scratch copy, on which the list is tried as it grows */
    const Target *t;
    OptList *out;
    const Wmma *w;
    int m, n, r;                    /* range numbers of what is left of m, n and k; -1: nothing */
    int64_t ms, ns, rs;             /* their sizes: operations */
    double others;                  /* outputs beside m and n */
} Tensor;

static bool try_op(Tensor *p, OptOp op) { return opt_try(p->out, p->k, op, p->t); }

static bool split(Tensor *p, int number, int64_t factor, AxisType target, bool top)
{
    int at = factor == 1 ? -1 : opt_axis(p->k, number);
    return factor == 1 ||
        (at >= 0 &&
         try_op(p,
                (OptOp){ .kind = OPT_SPLIT,
                         .axis = (int8_t)at,
                         .target = (uint8_t)target,
                         .factor = (int32_t)factor,
                         .top = top }));
}

/* ---- the operation ---- */

/* The longest axis of the only sum, by number; -1: there is no sum, or several. */
static int long_axis(const Kernel *k)
{
    Arena *a = arena_new();
    uint32_t n, sums = 0;
    const UOp **order = uop_toposort(k->g, &k->root, 1, a, &n), *longest = NULL;
    for (uint32_t i = 0; i < n; i++) {
        const UOp *u = order[i];
        if (u->op != UOP_REDUCE || u->arg.blob) continue;
        sums++;
        for (uint32_t s = 1; s < u->nsrc; s++)
            if (!longest || u->src[s]->src[0]->vmax > longest->src[0]->vmax) longest = u->src[s];
    }
    arena_free(a);
    return sums == 1 ? range_number(longest) : -1;
}

/* Axes are made multiples where that costs little. */
static void pad(Tensor *p, int reduce)
{
    const UOp *axis[64];
    uint32_t n = opt_axes(p->k, axis, 64);
    for (uint32_t i = 0; i < n; i++) {
        int64_t size = axis[i]->src[0]->vmax, full = (size + ROW_STEP - 1) / ROW_STEP * ROW_STEP;
        bool wanted = range_type(axis[i]) == AXIS_LOOP || range_number(axis[i]) == reduce;
        if (wanted && uop_is_const(axis[i]->src[0]) && size > ROW_STEP && full != size && full * 4 <= size * 5)
            try_op(p, (OptOp){ .kind = OPT_PADTO, .axis = (int8_t)i, .factor = ROW_STEP });
    }
}

static bool use_row(Tensor *p, int reduce, int row)
{
    int at = opt_axis(p->k, reduce);
    return at >= 0 && try_op(p, (OptOp){ .kind = OPT_TC, .axis = (int8_t)at, .factor = row });
}

/* Which axes became what: those that lost a factor. */
static void find_axes(Tensor *p, const UOp *const *before, uint32_t n, int reduce)
{
    const UOp *after[64];
    p->m = p->n = p->r = -1;
    p->others = 1;
    p->ms = p->ns = p->rs = 1;
    opt_axes(p->k, after, 64);
    for (uint32_t i = 0; i < n; i++) {
        int number = range_number(before[i]), at = opt_axis(p->k, number);
        int64_t was = before[i]->src[0]->vmax, is = at < 0 ? 1 : after[at]->src[0]->vmax;
        if (number == reduce) p->r = number, p->rs = is;
        else if (range_type(before[i]) != AXIS_LOOP) continue;
        else if (is * p->w->m == was) p->m = number, p->ms = is;
        else if (is * p->w->n == was) p->n = number, p->ns = is;
        else p->others *= (double)was;
    }
}

/* A row of each operand lies side by side along one of its axes, so that it is copied 16 bytes at a time. */
static bool lies_in_rows(const Kernel *k)
{
    Arena *a = arena_new();
    uint32_t n, count;
    const UOp **order = uop_toposort(k->g, &k->root, 1, a, &n), *axis[64];
    bool all = true;
    count = opt_axes(k, axis, 64);
    for (uint32_t i = 0; i < n; i++) {
        const UOp *u = order[i];
        if (u->op != UOP_LOAD || u->src[0]->op != UOP_INDEX || u->src[0]->src[0]->op != UOP_PARAM) continue;
        bool reduced = false, side = false;
        for (uint32_t j = 0; j < count; j++) {
            reduced |= range_type(axis[j]) == AXIS_REDUCE && (u->ranges & range_bit(axis[j]));
            side |= range_step(u->src[0]->src[1], axis[j]) == 1 && axis[j]->src[0]->vmax >= ROW_STEP;
        }
        all &= side || !reduced;
    }
    arena_free(a);
    return all;
}

/* ---- the tile ---- */

static int64_t tile_bytes(const Tensor *p, const Tile *x)
{
    int64_t rows = (int64_t)x->mt * x->wm * p->w->m + (int64_t)x->nt * x->wn * p->w->n;
    return rows * (x->ku * p->w->k + 8) * dtype_size(p->w->a) * x->group;
}

static double threads_of(const Tile *x) { return 32.0 * x->wm * x->wn * x->group; }

/* What the parts of a shared reduce take, a place for every element of every thread. */
static double parts_bytes(const Tile *x) { return x->group > 1 ? threads_of(x) * 16.0 * x->mt * x->nt : 0; }
static double shared_bytes(const Tensor *p, const Tile *x) { return 2.0 * (double)tile_bytes(p, x) + parts_bytes(x); }

/* Workgroups that a multiprocessor holds at once: by registers, shared memory and threads. */
static double resident(const Tensor *p, const Tile *x)
{
    double threads = threads_of(x), registers = OWN_REGISTERS + 4.0 * x->mt * x->nt,
           n = floor(REGISTERS / (registers * threads));
    n = fmin(fmin(n, floor((double)p->t->l1_bytes / shared_bytes(p, x))), floor(THREADS / threads));
    return n < 1 ? 1 : n;
}

static double cycles_of(const Tensor *p, const Tile *x)
{
    double warps = (double)x->wm * x->wn * x->group, operations = (double)x->mt * x->nt * x->ku;
    double iterations = (double)p->rs / (x->ku * x->group),
           groups = p->others * (double)(p->ms / (x->mt * x->wm)) * (double)(p->ns / (x->nt * x->wn));
    double beside = fmin(resident(p, x), ceil(groups / p->t->threads));
    double reads = (double)x->ku * (x->mt + x->nt),
           alone = alone_cycles + alone_operation * operations + alone_read * reads;
    double issue = warps * (operation_cycles * operations + read_cycles * reads),
           moved = (double)tile_bytes(p, x) / fetched;
    double all = beside * (fmax(issue, moved) + unhidden * fmin(issue, moved)),
           waves = ceil(groups / (p->t->threads * beside));
    double sums = x->group > 1 ? sum_cycles + beside * parts_bytes(x) * (1 + x->group) / exchanged : 0;
    return waves * (iterations * (alone > all ? alone : all) + group_cycles + sums);
}

static bool fits(const Tensor *p, const Tile *x)
{
    if (p->ms % (x->mt * x->wm) || p->ns % (x->nt * x->wn) || p->rs % (x->ku * x->group) ||
        p->rs / (x->ku * x->group) < 2)
        return false;
    return x->mt * x->nt <= ACCUMULATORS && x->wm * x->wn <= WARPS && x->wm * x->wn * x->group <= WARPS_SHARING &&
        shared_bytes(p, x) <= (double)p->t->l1_bytes && x->mt * x->nt * x->ku <= PRODUCTS;
}

static uint32_t all_tiles(const Tensor *p, Tile *out)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < 3 * 3 * 4 * 3 * 3 * 3; i++) {
        Tile x = { 0, 1 << i % 3, 1 << i / 3 % 3, 1 << i / 9 % 4, 1 << i / 36 % 3, 1 << i / 108 % 3, 1 << i / 324 % 3 };
        if (!fits(p, &x) || n == TILES) continue;
        x.cycles = cycles_of(p, &x) * (1 + in_order * i);
        out[n++] = x;
    }
    qsort(out, n, sizeof *out, order_ascending);
    return n;
}

/* ---- the list ---- */

static uint64_t operands(const Kernel *k)
{
    Arena *a = arena_new();
    uint32_t n;
    uint64_t slots = 0;
    const UOp **order = uop_toposort(k->g, &k->root, 1, a, &n), *product = NULL;
    for (uint32_t i = 0; i < n; i++)
        if (order[i]->op == UOP_WMMA) product = order[i];
    order = product ? uop_toposort(k->g, &product, 1, a, &n) : order;
    for (uint32_t i = 0; i < n && product; i++)
        if (order[i]->op == UOP_PARAM) slots |= UINT64_C(1) << order[i]->arg.i;
    arena_free(a);
    return slots;
}

static bool stage(Tensor *p)
{
    for (uint64_t s = operands(p->k); s; s &= s - 1)
        if (!try_op(p,
                    (OptOp){ .kind = OPT_STAGE,
                             .axis = (int8_t)__builtin_ctzll(s),
                             .factor = opt_axis(p->k, p->r),
                             .target = 2 }))
            return false;
    return true;
}

/* What is left of the output's loops: workgroups. */
static void grid(Tensor *p)
{
    const UOp *axis[64];
    for (bool more = true; more;) {
        uint32_t n = opt_axes(p->k, axis, 64);
        more = false;
        for (uint32_t i = 0; i < n && !more; i++)
            more = range_type(axis[i]) == AXIS_LOOP &&
                try_op(p, (OptOp){ .kind = OPT_SPLIT, .axis = (int8_t)i, .target = AXIS_GLOBAL });
    }
}

static bool apply(Tensor *p, const Tile *x)
{
    if (!split(p, p->m, x->mt, AXIS_UPCAST, false) || !split(p, p->n, x->nt, AXIS_UPCAST, false) ||
        !split(p, p->r, x->group, AXIS_GROUP_REDUCE, true))
        return false;
    if (!split(p, p->r, x->ku, AXIS_UNROLL, false) || !split(p, p->m, x->wm, AXIS_LOCAL, false) ||
        !split(p, p->n, x->wn, AXIS_LOCAL, false))
        return false;
    grid(p);
    return stage(p);
}

/* Begins with one row; pads only where it is refused as it is. */
static bool begin(Tensor *p, const Kernel *k, int row, bool padded)
{
    const UOp *axis[64];
    int reduce = long_axis(k);
    p->out->count = 0;
    p->k = kernel_clone(k);
    p->w = &wmma_row[row];
    if (padded) pad(p, reduce);
    uint32_t n = opt_axes(p->k, axis, 64);
    if (!use_row(p, reduce, row)) return kernel_free(p->k), false;
    find_axes(p, axis, n, reduce);
    return true;
}

bool tensor_opts(OptList *out, const Kernel *k, const Target *t, uint32_t which)
{
    Tensor p = { .t = t, .out = out };
    bool done = false, begun = false;
    out->count = 0;
    if (!t->wmma || !t->has_locals || long_axis(k) < 0 || !lies_in_rows(k)) return false;
    for (int row = 0; row < WMMA_COUNT && !begun; row++)
        begun =
            (t->wmma >> row & 1) && wmma_row[row].lanes > 1 && (begin(&p, k, row, false) || begin(&p, k, row, true));
    Tile *tile = begun ? mem_zeros(TILES, sizeof *tile) : NULL;
    if (begun && which < all_tiles(&p, tile)) done = apply(&p, &tile[which]);
    if (begun) kernel_free(p.k);
    mem_free(tile);
    if (!done) out->count = 0;
    status_clear();
    return done;
}
