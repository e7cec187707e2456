/* The cost of linear code. Instructions are walked in order with the loops around them. Each loop body gets cycles: the
 * busiest of multiply-add ports, load ports, store port, issue width, the longest chain from a variable's old value to
 * its new one (a reduction with too few accumulators), and the longest path of an iteration as far as iterations do not
 * overlap (look-ups that wait for look-ups). Variables beyond the registers cost loads and stores. Memory: what an
 * iteration of a loop touches that others did comes from the level below as far as a cache does not hold an iteration;
 * memory itself counts for what the last cache does not hold, and for results that are read when it has lost them. On a
 * GPU, thread by thread: what a warp touches in one load is counted in sectors by evaluating its address for the 32
 * lanes; waves of workgroups fill the SMs. What is not seen: associativity, pages, prefetching, frequency. Measured
 * kernels decide.
 */
#include "beam/cost.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "graph/wmma.h"
#include "sched/sched.h"

enum {
    LOOPS = 256,                    /* and accesses of a kernel that are counted */
    ACCESSES = 4096,
    DEEP = 64,
    TILE_BYTES = 1024,              /* of a tile register: rows of a line */
    TILE_ROWS = 16,
    FRESH = 8,                      /* bytes of a line that data choose which are not near yet */
    AHEAD = 512,                    /* instructions that a core has begun and not ended */
    LONG = 3000,                    /* instructions that no cache of decoded ones holds */
    DRAWS = 64,                     /* iterations at which a condition is looked at */
    SECTOR = 32,                    /* bytes of a GPU's transaction */
    GPU_REGISTERS = 200,            /* that a thread may use for variables */
    GPU_THREADS = 2048              /* that a multiprocessor holds */
};

/* Cycles of a port, per operation of a register. Those of a core are of AVX-512 machines (Ice Lake to Zen 5), rounded;
 * tests/beam/test_cost.c holds what follows from them. */
static const double divide = 10, divide_integers = 24, divide_by_constant = 4, transcendental = 25, branch = 3,
                    scalar_max = 4, gpu_max = 6, select_lanes = 1.5, a_position = 0.3, gathered_lane = 1.2,
                    crowded_lane = 4, a_lane_gated = 4, a_gate = 1, tile_product = 32, warp_product = 8,
                    one_product = 1, a_reduce = 8, a_barrier = 20;
/* Cycles until a result is there. */
static const double float_latency = 4, long_latency = 3, near_latency = 5, gather_latency = 20;
/* Shares: of what the busiest unit leaves idle that is not hidden; of the caches that a kernel's data may fill; of what
 * a kernel whose data fits finds from the kernel before; what an instruction adds, and what it adds to long code. */
static const double unhidden_ports = 0.15, unhidden_levels = 0.25, l1_share = 0.8, l2_share = 0.7, l3_share = 0.5,
                    fresh_share = 0.25, text_share = 3e-5, long_text_share = 1e-3;
/* Warps that hide half of what they wait for. */
static const double half_hidden = 8;

/* path: the longest of one iteration; scattered: of the store port's cycles, those of lanes in different lines */
typedef struct {
    const UOp *range;
    int parent;
    double trip, fma, load, store, scattered, issue, chain, path, inside;
    int64_t accumulators, loads_shared;
} Loop;
typedef struct {
    const UOp *address, *param;
    int loop;
    double bytes;
    bool store;
} Access;
typedef struct {
    const Kernel *k;
    const Target *t;
    const Rates *rates;
    Arena *arena;
    Loop *loop;                     /* [0]: outside of all */
    Access *access;
    struct Group *group;
    uint32_t nloop, naccess, ngroup;
    int at;
    /* by id: latency since a variable's old value, < 0: none; since the iteration began */
    float *depth, *path;
    int *loop_of;                   /* by id: where it is computed */
    uint8_t *uses;
} Walk;

/* ---- facts ---- */

static double trip_of(const Walk *w, const UOp *range)
{
    double n = (double)range->src[0]->vmax;
    if (range_type(range) == AXIS_THREAD && w->t->threads > 1) {
        int64_t parts = (range->src[0]->vmax + w->t->threads - 1) / w->t->threads;
        n = (double)parts;
    }
    return n;
}

static int64_t lanes_of(const UOp *u) { return u->shape && u->shape->rank ? uop_numel(u) : 1; }

static double registers_of(const Walk *w, const UOp *u)
{
    double bytes = (double)(lanes_of(u) * (u->dtype == DT_BOOL ? 4 : dtype_size((DType)u->dtype))),
           width = w->t->max_block ? 4 : w->t->vector_bytes;
    return bytes <= width ? 1 : (double)(int64_t)((bytes + width - 1) / width);
}

static bool is_variable(const UOp *u)
{
    u = uop_memory(u);
    return u->op == UOP_BUFFER && buffer_space(u) == SPACE_REG;
}

static const UOp *position(const UOp *address)
{
    return address->op == UOP_SHRINK ? address->src[1]->src[0] : address->src[1];
}

/* ---- instructions ---- */

/* Cycles of one port for an element-wise op on one register. A scalar choice is a branch, which data mispredict. */
static double port_cycles(const Walk *w, const UOp *u)
{
    bool scalar = !u->shape->rank && dtype_is_float((DType)u->dtype);
    switch ((Op)u->op) {
    case UOP_MAX: return !scalar ? 1 : w->t->max_block ? gpu_max : scalar_max;
    case UOP_DIV: case UOP_RECIP: case UOP_SQRT: return divide;
    case UOP_IDIV: case UOP_MOD: return uop_is_const(u->src[1]) ? divide_by_constant : divide_integers;
    case UOP_EXP2: case UOP_LOG2: case UOP_SIN: case UOP_POW: return transcendental;
    case UOP_WHERE: return scalar ? branch : select_lanes;
    default: return 1;
    }
}

static void count_alu(Walk *w, Loop *l, const UOp *u)
{
    double n = registers_of(w, u), cost = port_cycles(w, u);
    bool position = u->dtype == DT_INDEX && lanes_of(u) == 1;
    if ((u->op == UOP_IDIV || u->op == UOP_MOD) && !w->t->max_block) n = (double)lanes_of(u);
    if (position) l->issue += cost > 1 ? cost : a_position;
    else if (dtype_is_float((DType)u->dtype) || lanes_of(u) > 1) l->fma += n * cost, l->issue += n;
    else l->issue += cost;
}

static void add_access(Walk *w, const UOp *address, const UOp *value, bool store)
{
    if (uop_addressed(address)->op != UOP_PARAM || w->naccess == ACCESSES) return;
    Access *a = &w->access[w->naccess++];
    *a = (Access){ .address = address,
                   .param = uop_addressed(address),
                   .loop = w->at,
                   .bytes =
                       wmma_is_tile(value) ? TILE_BYTES : (double)(lanes_of(value) * dtype_size((DType)value->dtype)),
                   .store = store };
}

/* One lane, of a vector or of a warp, in one iteration of a loop; all other loops and workgroups are at 0. draw: each
 * loop is somewhere, where this number says. */
typedef struct {
    int64_t lane, iteration;
    const UOp *range;
    uint64_t draw;
} Spot;

static bool at_spot(const void *from, const UOp *u, int64_t *out)
{
    const Spot *s = from;
    uint64_t any = (s->draw + (u->op == UOP_RANGE ? (uint64_t)range_number(u) : 0)) * UINT64_C(0x9e3779b97f4a7c15);
    if (u->op == UOP_RANGE && s->draw) return *out = (int64_t)((any >> 33) % (uint64_t)(u->vmax + 1)), true;
    if (u->op == UOP_RANGE) return *out = u == s->range ? s->iteration : 0, true;
    if (u->op == UOP_DEFINE_VAR) return *out = u->vmax, true;
    if (u->op == UOP_SPECIAL) return *out = u->arg.blob->data[0] == 'l' ? s->lane : 0, true;
    return u->op == UOP_STACK && s->lane < u->nsrc && uop_value(u->src[s->lane], at_spot, from, out);
}

/* A position for one lane. false: it depends on data. */
static bool position_at(const UOp *u, int64_t lane, int64_t *out)
{
    return uop_value(u, at_spot, &(Spot){ .lane = lane }, out);
}

/* Elements from one iteration of a loop to the next; NO_STEP: data tell. */
static int64_t step_along(const UOp *u, const UOp *range)
{
    int64_t first, next;
    if (!(u->ranges & range_bit(range))) return 0;
    bool known = uop_value(u, at_spot, &(Spot){ .range = range }, &first) &&
        uop_value(u, at_spot, &(Spot){ .range = range, .iteration = 1 }, &next);
    return known ? llabs(next - first) : NO_STEP;
}

/* In which share of all iterations a condition holds; 1: data tell. */
static double share_open(const UOp *condition)
{
    int held = 0;
    int64_t value;
    for (uint64_t draw = 1; draw <= DRAWS; draw++) {
        if (!uop_value(condition, at_spot, &(Spot){ .draw = draw }, &value)) return 1;
        held += value != 0;
    }
    return (double)held / DRAWS;
}

/* Bytes from the first lane to the second; 0: nobody knows. */
static int64_t lane_bytes(const UOp *address, DType t)
{
    int64_t first, second;
    if (lanes_of(position(address)) < 2 || !position_at(position(address), 0, &first) ||
        !position_at(position(address), 1, &second))
        return 0;
    return llabs(second - first) * dtype_size(t);
}

/* Lanes that lie multiples of a page from each other share the sets of a cache, which holds fewer than there are lanes:
 * each access misses. */
static bool is_crowded(const UOp *address, DType t)
{
    int64_t step = lane_bytes(address, t);
    return step && step % PAGE == 0;
}

/* Lanes whose gate is closed are not touched by one instruction: of floats, on machines with masks; with masks in
 * vectors, of loads alone (such a store is 42 operations on a Zen 3). */
static bool is_masked(const Walk *w, DType t, bool store)
{
    return w->t->vector_bytes >= (store ? 64 : 32) && (t == DT_F32 || t == DT_F64);
}

static void count_memory(Walk *w, Loop *l, const UOp *u)
{
    bool store = u->op == UOP_STORE, gated = u->nsrc > 2;
    const UOp *value = store ? u->src[1] : u, *address = u->src[0];
    double n = registers_of(w, value), lanes = (double)lanes_of(value);
    if (wmma_is_tile(value)) {                                  /* 16 rows of a cache line */
        *(store ? &l->store : &l->load) += TILE_ROWS;
        l->issue += 1;
        add_access(w, address, value, store);
        return;
    }
    bool gather = lanes > 1 && address->op == UOP_INDEX && lanes_of(address->src[1]) > 1;
    bool crowded = gather && !w->t->max_block && is_crowded(address, (DType)value->dtype);
    double cost = gather ? gathered_lane * lanes * (crowded ? crowded_lane : 1) : n;
    bool masked = gated && lanes_of(u->src[2]) > 1, gpu = w->t->max_block > 0,
         by_lane = masked && !gpu && !is_masked(w, (DType)value->dtype, store);
    if (gated && gpu) cost += masked ? 2 * lanes : branch;
    else if (masked) cost = by_lane ? lanes : cost + 1;
    *(store ? &l->store : &l->load) += cost;
    if (store && gather) l->scattered += cost;
    l->issue += by_lane ? a_lane_gated * lanes : gather ? 2 * lanes : n;
    if (gated && !masked && !gpu) l->issue += a_gate;
    if (!store && lanes > 1 && w->uses[u->id] > 1) l->loads_shared += (int64_t)n;
    add_access(w, address, value, store);
}

static double latency_of(const Walk *w, const UOp *u)
{
    return op_is((Op)u->op, FLAG_ALU)
        ? dtype_is_float((DType)u->dtype) ? float_latency * (port_cycles(w, u) > 2 ? long_latency : 1) : 1
        : 0;
}

static void follow_chain(Walk *w, const UOp *u)
{
    float deepest = -1;
    if (u->op == UOP_LOAD && is_variable(u->src[0])) deepest = 0;
    else if (op_is((Op)u->op, FLAG_ALU) || u->op == UOP_WMMA)
        for (uint32_t i = 0; i < u->nsrc; i++)
            if (w->depth[u->src[i]->id] > deepest) deepest = w->depth[u->src[i]->id];
    w->depth[u->id] = deepest < 0 ? -1 : deepest + (float)latency_of(w, u);
}

static float path_of(const Walk *w, const UOp *u)
{
    /* addresses are no lines of their own */
    if (u->op == UOP_INDEX || u->op == UOP_SHRINK) u = position(u);
    return w->loop_of[u->id] == w->at ? w->path[u->id] : 0;
}

/* What is looked up where another look-up says waits for that one; iterations overlap as far as the machine looks
 * ahead. */
static void follow_path(Walk *w, const UOp *u)
{
    bool load = u->op == UOP_LOAD && !is_variable(u->src[0]);
    float path = 0;
    if (u->op == UOP_STORE || u->op == UOP_WMMA || (u->op == UOP_LOAD && !load)) return;
    for (uint32_t i = 0; i < u->nsrc; i++)
        if (path_of(w, u->src[i]) > path) path = path_of(w, u->src[i]);
    bool gathers = load && u->src[0]->op == UOP_INDEX && lanes_of(u) > 1 && lanes_of(position(u->src[0])) > 1;
    path += gathers ? gather_latency : load ? near_latency : (float)latency_of(w, u);
    w->loop_of[u->id] = w->at, w->path[u->id] = path;
    if (path > w->loop[w->at].path) w->loop[w->at].path = path;
}

static void count_one(Walk *w, const UOp *u)
{
    Loop *l = &w->loop[w->at];
    follow_chain(w, u);
    follow_path(w, u);
    if (u->op == UOP_STORE && is_variable(u->src[0]) && wmma_is_tile(u->src[0])) return;
    if (u->op == UOP_STORE && is_variable(u->src[0])) {
        double chain = w->depth[u->src[1]->id];
        if (chain > l->chain) l->chain = chain;
        if (chain >= 0) l->accumulators += (int64_t)registers_of(w, u->src[1]);
    } else if (u->op == UOP_LOAD && is_variable(u->src[0])) return;
    else if (u->op == UOP_LOAD || u->op == UOP_STORE) count_memory(w, l, u);
    else if (u->op == UOP_REDUCE) l->fma += a_reduce, l->issue += a_reduce;
    else if (u->op == UOP_STACK && lanes_of(u) > 1 && u->dtype != DT_INDEX)
        l->issue += uop_is_shuffle(u, (const UOp *[2]){ 0 }) ? (double)registers_of(w, u) : (double)lanes_of(u);
    else if (u->op == UOP_SHUFFLE) l->issue += 2, l->load += 1;
    else if (u->op == UOP_BARRIER) l->issue += a_barrier;
    else if (u->op == UOP_WMMA) {
        l->fma += wmma_tiled(wmma_of(u)) ? tile_product : wmma_of(u)->lanes > 1 ? warp_product : one_product;
        l->issue += 1;
    }
    else if (op_is((Op)u->op, FLAG_ALU)) count_alu(w, l, u);
}

/* Cycles of all iterations of a loop. */
static double loop_cycles(const Walk *w, const Loop *l)
{
    bool gpu = w->t->max_block > 0;
    int64_t live = l->accumulators + (l->loads_shared < 4 ? l->loads_shared : 4) + 1,
            spilled = gpu ? live - GPU_REGISTERS : live - w->t->vector_registers;
    double load = l->load, store = l->store, cycles;
    /* each is fetched and put back for every addition to it */
    if (spilled > 0 && l->accumulators) {
        double times = l->fma > (double)l->accumulators ? l->fma / (double)l->accumulators : 1;
        load += 3 * (double)spilled * times;
        store += 2 * (double)spilled * times;
    }
    double products = l->fma / w->rates->fma, loads = load / w->rates->load, stores = store / w->rates->store;
    cycles = products > loads ? products : loads;
    if (stores > cycles) cycles = stores;
    if ((l->issue + (l->range ? 3 : 0)) / 4 > cycles) cycles = (l->issue + 3) / 4;
    if (gpu) cycles = l->issue + 2 * load + 2 * store;
    cycles += unhidden_ports * (products + loads + stores);
    if (l->chain > cycles && !gpu) cycles = l->chain;
    double waits = l->path * (l->issue < AHEAD ? l->issue / AHEAD : 1);
    if (waits > cycles && !gpu) cycles = waits;
    return l->trip * (cycles + l->inside + (l->range ? gpu ? 4 : 0.25 : 0));
}

/* What a condition guards is a loop of a part of an iteration. */
static void open_loop(Walk *w, const UOp *range, double trip)
{
    if (w->nloop == LOOPS) return;
    w->loop[w->nloop] = (Loop){ .range = range, .parent = w->at, .trip = trip };
    w->at = (int)w->nloop++;
}

static void close_loop(Walk *w)
{
    Loop *l = &w->loop[w->at];
    if (l->parent < 0) return;
    w->loop[l->parent].inside += loop_cycles(w, l);
    w->at = l->parent;
}

static void walk(Walk *w)
{
    const UOp *line = w->k->linear;
    w->loop[0] = (Loop){ .parent = -1, .trip = 1 };
    w->nloop = 1;
    for (uint32_t i = 0; i < line->nsrc; i++)
        for (uint32_t s = 0; s < line->src[i]->nsrc; s++)
            if (w->uses[line->src[i]->src[s]->id] < 2) w->uses[line->src[i]->src[s]->id]++;
    for (uint32_t i = 0; i < line->nsrc; i++) {
        const UOp *u = line->src[i];
        if (u->op == UOP_RANGE) open_loop(w, u, trip_of(w, u));
        else if (u->op == UOP_IF && !w->t->max_block) open_loop(w, NULL, share_open(u->src[0]));
        else if (u->op == UOP_END || (u->op == UOP_ENDIF && !w->t->max_block)) close_loop(w);
        else count_one(w, u);
    }
}

/* ---- memory ---- */

/* Bytes between neighbours in memory that an access touches in all iterations of `loop` and what is inside of it; FRESH
 * where data tell; 1e30: it touches one place. */
static double neighbours(const Walk *w, const Access *a, int loop)
{
    double size = (double)dtype_size((DType)a->param->dtype), least = 1e30;
    for (int l = a->loop; l > 0; l = w->loop[l].parent) {
        int64_t s = w->loop[l].range ? step_along(position(a->address), w->loop[l].range) : 0;
        double step = s == NO_STEP ? FRESH : (double)s * size;
        if (s && step < least) least = step;
        if (l == loop) break;
    }
    bool spread = a->address->op == UOP_INDEX && lanes_of(position(a->address)) > 1;
    int64_t beside = spread ? lane_bytes(a->address, (DType)a->param->dtype) : 0;
    return beside && (double)beside < least ? (double)beside : least;
}

/* Whole lines are moved: what no iteration of `loop` touches of them is wasted. */
static double bytes_moved(const Walk *w, const Access *a, int loop)
{
    double lanes = a->address->op == UOP_INDEX ? (double)lanes_of(position(a->address)) : 1, bytes = a->bytes / lanes,
           least = neighbours(w, a, loop);
    return bytes >= LINE || least <= bytes ? a->bytes : (least < LINE ? least : LINE) * lanes;
}

static bool depends(const Access *a, const Loop *l) { return l->range && (a->address->ranges & range_bit(l->range)); }

/* The least and the largest value of a position while only these ranges run. */
static void reach(const UOp *u, uint64_t ranges, double *lo, double *hi)
{
    double a[2], b[2];
    if (u->op == UOP_RANGE && !(range_bit(u) & ranges)) {
        *lo = *hi = 0;
        return;
    }
    *lo = (double)u->vmin, *hi = (double)u->vmax;
    if (u->op == UOP_CAST && u->dtype == DT_INDEX) reach(u->src[0], ranges, lo, hi);
    else if (u->op == UOP_ADD || (u->op == UOP_MUL && uop_is_const(u->src[1]) && u->src[1]->vmin >= 0)) {
        reach(u->src[0], ranges, &a[0], &a[1]), reach(u->src[1], ranges, &b[0], &b[1]);
        *lo = u->op == UOP_ADD ? a[0] + b[0] : a[0] * b[0], *hi = u->op == UOP_ADD ? a[1] + b[1] : a[1] * b[1];
    }
}

/* What is touched of a parameter: places at multiples of a distance from the first on, `moved` bytes at each. */
typedef struct { double bytes, first, last, distance, moved; } Places;

/* Their bytes: no more than fit between the first place and the last. */
static double bytes_of(const Places *p)
{
    bool dense = p->distance <= p->moved;
    double most = dense ? p->last - p->first + p->moved + LINE : ((p->last - p->first) / p->distance + 1) * p->moved;
    return p->bytes < most ? p->bytes : most;
}

static double common(double a, double b) { return (double)common_divisor((int64_t)a, (int64_t)b); }

/* What the access touches in all iterations of `loop` and what is inside of it. */
static Places footprint(const Walk *w, const Access *a, int loop)
{
    double size = (double)dtype_size((DType)a->param->dtype), most = (double)uop_numel(a->param) * size, lo, hi;
    Places p = { .moved = bytes_moved(w, a, loop) };
    uint64_t inside = 0;
    p.bytes = p.moved;
    for (int l = a->loop; l >= 0; l = w->loop[l].parent) {
        int64_t step = w->loop[l].range ? step_along(position(a->address), w->loop[l].range) : 0;
        if (depends(a, &w->loop[l])) p.bytes *= w->loop[l].trip;
        if (w->loop[l].range) inside |= range_bit(w->loop[l].range);
        p.distance = step == NO_STEP ? 1 : common(p.distance, (double)llabs(step) * size);
        if (l == loop) break;
    }
    reach(position(a->address), inside, &lo, &hi);
    p.first = lo * size, p.last = hi * size;
    if (p.bytes > most) p.bytes = most;
    p.bytes = bytes_of(&p);
    return p;
}

static void add_places(Places *all, const Places *p, double most)
{
    if (!all->bytes) {
        *all = *p;
        return;
    }
    all->distance = common(common(all->distance, p->distance), fabs(all->first - p->first));
    all->first = fmin(all->first, p->first), all->last = fmax(all->last, p->last);
    all->moved = fmax(all->moved, p->moved);
    all->bytes = fmin(all->bytes + p->bytes, most);
    all->bytes = bytes_of(all);
}

/* Accesses of one parameter in one loop: replicas, whose places are different. Loops beside each other walk the same
 * places of a parameter: of those the largest counts. */
/* at[level]: footprint in the loop itself, then in each around it; once: bytes in one iteration */
typedef struct Group {
    const UOp *param;
    int loop, nlevel;
    Places *at;
    double once, whole;
} Group;

static Group *group_of(Walk *w, const Access *a)
{
    for (uint32_t i = w->ngroup; i-- > 0;)
        if (w->group[i].param == a->param && w->group[i].loop == a->loop) return &w->group[i];
    Group *g = &w->group[w->ngroup++];
    *g = (Group){ .param = a->param,
                  .loop = a->loop,
                  .whole = (double)uop_numel(a->param) * (double)dtype_size((DType)a->param->dtype) };
    for (int l = a->loop; l >= 0; l = w->loop[l].parent) g->nlevel++;
    g->at = NEW_N(w->arena, Places, g->nlevel);
    return g;
}

/* Whole vectors of a parameter with a STREAM do; its other stores are plain. */
static bool passes_by(const Walk *w, const Access *a)
{
    return a->store && a->address->op == UOP_SHRINK && a->bytes == w->t->vector_bytes &&
        kernel_streams(w->k, (uint32_t)a->param->arg.i);
}

static void make_groups(Walk *w)
{
    w->group = NEW_N(w->arena, Group, w->naccess + 1);
    for (uint32_t i = 0; i < w->naccess; i++) {
        if (passes_by(w, &w->access[i])) continue;
        Group *g = group_of(w, &w->access[i]);
        int level = 0;
        g->once += bytes_moved(w, &w->access[i], g->loop);
        for (int l = g->loop; l >= 0; l = w->loop[l].parent, level++) {
            Places one = footprint(w, &w->access[i], l);
            add_places(&g->at[level], &one, g->whole);
        }
    }
}

/* Bytes touched inside each loop, and in one iteration of it, all parameters together. */
static void working_sets(const Walk *w, double *set, double *iteration)
{
    double *most = NEW_N(w->arena, double, w->nloop), *part = NEW_N(w->arena, double, w->nloop);    /* of a parameter */
    for (uint32_t l = 0; l < w->nloop; l++) set[l] = iteration[l] = 0;
    for (uint32_t i = 0; i < w->ngroup; i++) {
        bool first = true;
        for (uint32_t j = 0; j < i; j++) first &= w->group[j].param != w->group[i].param;
        if (!first) continue;
        memset(most, 0, w->nloop * sizeof *most);
        memset(part, 0, w->nloop * sizeof *part);
        for (uint32_t j = i; j < w->ngroup; j++) {
            const Group *g = &w->group[j];
            int level = 0;
            double inside = fmin(g->once, g->whole);
            for (int l = g->loop; g->param == w->group[i].param && l >= 0; l = w->loop[l].parent, level++) {
                part[l] = fmax(part[l], inside);
                most[l] = fmax(most[l], inside = g->at[level].bytes);
            }
        }
        for (uint32_t l = 0; l < w->nloop; l++) set[l] += most[l], iteration[l] += part[l];
    }
}

/* Bytes of a group that pass from below a cache of that size. What an iteration of a loop touches that others did is
 * there as far as the cache holds an iteration. */
static double passes(const Walk *w, const Group *g, const double *iteration, double cache)
{
    double bytes = g->once;
    int level = 0;
    for (int l = g->loop; l >= 0; l = w->loop[l].parent, level++) {
        double all = bytes * w->loop[l].trip, first = fmin(g->at[level].bytes, all);
        bytes = iteration[l] <= cache ? first : first + (all - first) * (1 - cache / iteration[l]);
    }
    return bytes;
}

/* Of all groups. */
static double traffic(const Walk *w, const double *set, const double *iteration, double cache)
{
    double total = 0, *of = NEW_N(w->arena, double, w->ngroup + 1);
    int *at = NEW_N(w->arena, int, w->ngroup + 1);
    for (uint32_t i = 0; i < w->ngroup; i++) {
        const Group *g = &w->group[i];
        at[i] = -1;
        for (int l = g->loop; l >= 0 && set[l] <= cache; l = w->loop[l].parent) at[i] = l;
        total += of[i] = passes(w, g, iteration, cache);
        for (uint32_t j = 0; j < i && at[i] >= 0; j++)
            if (w->group[j].param == g->param && at[j] == at[i]) {          /* it is there already */
                total -= of[i] < of[j] ? of[i] : of[j];
                if (of[j] > of[i]) of[i] = of[j];
                of[j] = 0;
            }
    }
    return total;
}

static double busiest(double a, double b, double c, double d)
{
    double m = a > b ? a : b, n = c > d ? c : d, most = m > n ? m : n;
    return most + unhidden_levels * (a + b + c + d - most);
}

/* Bytes that go to memory and come from there. What the last cache holds is mostly there; a line that is stored far
 * away from its next use is fetched first, unless it passes the caches by. */
static double memory_bytes(const Walk *w)
{
    const Kernel *k = w->k;
    double bytes = (double)k->bytes, beyond = 0;
    for (uint32_t i = 0; i < k->nparam; i++) {
        bool streams = false;
        for (uint32_t a = 0; a < w->naccess; a++)
            streams |= (uint32_t)w->access[a].param->arg.i == i && passes_by(w, &w->access[a]);
        double stored = k->param[i].written && (streams || k->param[i].far) ? (double)kernel_param_bytes(k, i) : 0;
        bytes -= fmin(bytes, stored);
        beyond += streams ? stored : 2 * stored;
    }
    return bytes * (bytes <= l3_share * (double)w->t->l3_bytes ? fresh_share : 1) + beyond;
}

static double executions(const Walk *w, int loop)
{
    double n = 1;
    for (; loop > 0; loop = w->loop[loop].parent) n *= w->loop[loop].trip;
    return n;
}

/* Stores leave in order: those to many lines wait behind the one whose line is not there. */
static double scattered_cycles(const Walk *w)
{
    double cycles = 0;
    for (uint32_t i = 0; i < w->nloop; i++) cycles += w->loop[i].scattered * executions(w, (int)i);
    return cycles / w->rates->store;
}

static Cost cpu_cost(Walk *w)
{
    double *set = NEW_N(w->arena, double, w->nloop), *one = NEW_N(w->arena, double, w->nloop);
    double cycles = loop_cycles(w, &w->loop[0]);
    bool shared = w->k->thread_bound != NULL;
    make_groups(w);
    working_sets(w, set, one);
    double l1 = traffic(w, set, one, l1_share * (double)w->t->l1_bytes),
           l2 = traffic(w, set, one, l2_share * (double)w->t->l2_bytes);
    if (set[0] <= l2_share * (double)w->t->l2_bytes) l2 *= fresh_share;
    const Rates *f = w->rates;
    Cost c = { .compute_s = cycles / f->hz,
               .l1_s = l1 / f->l2_rate / f->hz,
               .l2_s = l2 / f->l3_rate / f->hz,
               .memory_s = memory_bytes(w) / f->memory_rate };
    double waits = scattered_cycles(w) / f->hz;
    c.seconds = busiest(c.compute_s, c.l1_s + waits, c.l2_s + waits, c.memory_s + waits) + (shared ? f->phase_s : 0);
    return c;
}

/* ---- GPUs ---- */

static double sectors(const Access *a)
{
    int64_t seen[32];
    int n = 0;
    for (int lane = 0; lane < 32; lane++) {
        int64_t p, s;
        if (lanes_of(position(a->address)) > 1 || !position_at(position(a->address), lane, &p))
            return 32 * (a->bytes > SECTOR ? a->bytes / SECTOR : 1);
        int i = 0;
        for (s = p * dtype_size((DType)a->param->dtype) / SECTOR; i < n && seen[i] != s; i++) { }
        if (i == n) seen[n++] = s;
    }
    return n * (a->bytes > SECTOR ? a->bytes / SECTOR : 1);
}

static double volume(const UOp *const *dim)
{
    double n = 1;
    for (int i = 0; i < 3; i++)
        if (dim[i]) n *= (double)dim[i]->vmax;
    return n;
}

static Cost gpu_cost(Walk *w)
{
    double blocks = volume(w->k->grid), threads = volume(w->k->block), warps = (double)(int64_t)((threads + 31) / 32),
           moved = 0;
    double cycles = loop_cycles(w, &w->loop[0]), sms = w->t->threads > 0 ? w->t->threads : 1,
           fit = GPU_THREADS / (warps * 32);
    for (uint32_t i = 0; i < w->naccess; i++)
        moved += sectors(&w->access[i]) * SECTOR * executions(w, w->access[i].loop) * warps * blocks;
    if (w->k->shared_bytes > 0 && (double)w->t->l1_bytes / (double)w->k->shared_bytes < fit)
        fit = (double)w->t->l1_bytes / (double)w->k->shared_bytes;
    if (fit < 1) fit = 1;
    double per_sm = (double)(int64_t)((blocks + sms - 1) / sms),
           together = per_sm < fit ? per_sm : (double)(int64_t)fit, active = together * warps;
    double rate = active / (active + half_hidden) * 4;                                   /* warp instructions a cycle */
    const Rates *f = w->rates;
    Cost c = { .compute_s = per_sm * warps * cycles / rate / f->hz,
               .l2_s = moved / (f->l2_rate * f->hz * sms),
               .memory_s = (double)w->k->bytes / f->memory_rate };
    double busy = blocks < sms ? blocks / sms : 1;
    c.l2_s /= busy;
    c.seconds = busiest(c.compute_s, 0, c.l2_s, c.memory_s) + f->phase_s;
    return c;
}

Cost kernel_cost(const Kernel *k, const Target *t)
{
    Walk w = { .k = k, .t = t, .rates = target_rates(t), .arena = arena_new() };
    uint32_t n = k->linear->id + 1;
    w.loop = NEW_N(w.arena, Loop, LOOPS);
    w.access = NEW_N(w.arena, Access, ACCESSES);
    w.depth = NEW_N(w.arena, float, n);
    w.uses = NEW_N(w.arena, uint8_t, n);
    w.path = NEW_N(w.arena, float, n);
    w.loop_of = NEW_N(w.arena, int, n);
    for (uint32_t i = 0; i < n; i++) w.depth[i] = -1, w.loop_of[i] = -1;
    walk(&w);
    Cost c = t->max_block ? gpu_cost(&w) : cpu_cost(&w);
    for (uint32_t i = 0; i < w.nloop; i++)
        if (w.loop[i].accumulators > c.accumulators) c.accumulators = w.loop[i].accumulators;
    c.instructions = k->linear->nsrc;
    /* long code leaves caches, and takes long to compile */
    c.seconds *= 1 + (double)c.instructions * (c.instructions > LONG ? long_text_share : text_share);
    arena_free(w.arena);
    return c;
}
