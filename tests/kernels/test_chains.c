/* Chains (sched/chain.h). Slices hold: for kernels of random graphs under random lists, every element that a part
 * touches, found by walking all loops, lies in the slice that kernel_slices says. Chains agree: random networks of
 * rows as whole plans for a core whose cache is so small that kernels are chained and values lie in windows, against
 * the interpreter. RANDOM_COUNT graphs from RANDOM_SEED (default 1). */
#include "tests/test.h"

#include <stdlib.h>
#include <string.h>

#include "beam/beam.h"
#include "random_stages.h"
#include "sched/chain.h"

/* ---- slices ---- */

enum { WALK_MOST = 20000 };
typedef struct { const UOp *range[64]; uint32_t n; int64_t value[64]; } Walk;

static int64_t value_of(const Walk *w, const UOp *u)
{
    int64_t v[3] = { 0 }, out = 0;
    if (u->op == UOP_RANGE) return w->value[range_number(u)];
    if (u->op == UOP_CONST) return u->arg.i;
    for (uint32_t k = 0; k < u->nsrc && k < 3; k++) v[k] = value_of(w, u->src[k]);
    assert_true(uop_eval((Op)u->op, (DType)u->dtype, (DType)u->src[0]->dtype, v, &out));
    return out;
}

static bool is_affordable(const Walk *w)
{
    int64_t n = 1;
    for (uint32_t k = 0; k < w->n; k++) n *= uop_is_const(w->range[k]->src[0]) ? w->range[k]->src[0]->vmax : WALK_MOST;
    return n < WALK_MOST;
}

static bool is_plain(const UOp *u)
{
    bool plain = u->op == UOP_RANGE || u->op == UOP_CONST || op_is((Op)u->op, FLAG_ALU);
    for (uint32_t k = 0; k < u->nsrc && plain && u->op != UOP_RANGE; k++) plain = is_plain(u->src[k]);
    return plain;
}

static int64_t part_of(const Kernel *k, const Walk *w)
{
    const UOp *axis[64];
    int64_t part = 0;
    uint32_t n = opt_axes(k, axis, 64);
    for (uint32_t i = 0; i < n; i++)
        if (range_type(axis[i]) == AXIS_THREAD) part = part * axis[i]->src[0]->vmax + w->value[range_number(axis[i])];
    return part;
}

/* One access, at one value of all ranges. Returns how many were looked at. */
static long look(const Kernel *k, const UOp *u, const Walk *w)
{
    const UOp *at = u->src[0];
    const Slice *s = &k->slice[at->src[0]->arg.i];
    if (u->nsrc > 2 && !value_of(w, u->src[2])) return 0;
    int64_t bytes = dtype_size((DType)at->src[0]->dtype), byte = value_of(w, at->src[1]) * bytes;
    int64_t from = part_of(k, w) / s->every * s->stride + s->first;
    if (s->stride < 0 || !s->span) return 0;
    if (byte >= from && byte + bytes <= from + s->span) return 1;
    print_message("%s: byte %lld of a part from %lld on, %lld long\n", k->name, (long long)byte, (long long)from,
                  (long long)s->span);
    assert_true(false);
    return 1;
}

static long walk(const Kernel *k, const UOp *u, Walk *w, uint32_t depth)
{
    long n = 0;
    if (depth == w->n) return look(k, u, w);
    int64_t *v = &w->value[range_number(w->range[depth])];
    for (*v = 0; *v < w->range[depth]->src[0]->vmax; (*v)++) n += walk(k, u, w, depth + 1);
    *v = 0;
    return n;
}

static long check_slices(const Kernel *k)
{
    Arena *a = arena_new();
    uint32_t count;
    const UOp **order = uop_toposort(k->g, &k->root, 1, a, &count), *all[64] = { 0 };
    long looked = 0;
    for (uint32_t i = 0; i < count; i++)
        if (order[i]->op == UOP_RANGE) all[range_number(order[i])] = order[i];
    for (uint32_t i = 0; i < count; i++) {
        const UOp *u = order[i], *at = u->op == UOP_LOAD || u->op == UOP_STORE ? u->src[0] : NULL;
        if (!at || at->op != UOP_INDEX || at->src[0]->op != UOP_PARAM || !is_plain(at->src[1])) continue;
        if (u->nsrc > 2 && !is_plain(u->src[2])) continue;
        Walk w = { .n = 0 };
        uint64_t on = at->src[1]->ranges | (u->nsrc > 2 ? u->src[2]->ranges : 0);
        for (uint32_t r = 0; r < 64; r++)
            if (on >> r & 1) w.range[w.n++] = all[r];
        if (is_affordable(&w)) looked += walk(k, u, &w, 0);
    }
    arena_free(a);
    return looked;
}

/* A kernel under a random list, some of whose loops become parts first. */
static long slices_of(const Kernel *k, Random *r, const Target *t)
{
    Kernel *c = kernel_clone(k);
    const UOp *axis[64];
    for (int digit = 0; digit < 2; digit++) {
        uint32_t n = opt_axes(c, axis, 64);
        bool loop = (uint32_t)digit < n && range_type(axis[digit]) == AXIS_LOOP && uop_is_const(axis[digit]->src[0]);
        int64_t size = loop ? axis[digit]->src[0]->vmax : 1, f = size;
        if (digit) for (f = 1 + random_below(r, (uint32_t)size); size % f; f--) { }
        OptOp cut = {
            .kind = OPT_SPLIT, .axis = (int8_t)digit, .factor = (int32_t)f, .target = AXIS_THREAD, .top = true
        };
        if (size > 1) random_apply(c, &cut, t);
    }
    for (int padded = 0; padded < 2; padded++) {
        uint32_t n = opt_axes(c, axis, 64);
        if (n) random_apply(c, &(OptOp){ .kind = OPT_PADTO, .axis = (int8_t)random_below(r, n), .factor = 4 }, t);
    }
    random_opts(c, r, random_below(r, 4), t);
    kernel_slice(c);
    long looked = check_slices(c);
    kernel_free(c);
    return looked;
}

static void slices_hold(void **state)
{
    (void)state;
    static const Target t = {
        .kind = "cpu",
        .vector_bytes = 64,
        .vector_registers = 32,
        .threads = 2,
        .l1_bytes = 48 << 10,
        .l2_bytes = 1 << 20,
        .has_threads = true,
        .has_fma = true,
        .clears_halos = true,
    };
    long first = setting("RANDOM_SEED", 1), count = setting("RANDOM_COUNT", 150), looked = 0;
    for (long seed = first; seed < first + count; seed++) {
        RandomGraph rg;
        Schedule *s = NULL;
        random_graph_new(&rg, (uint64_t)seed);
        Random r = { (uint64_t)seed };
        assert_int_equal(sched_schedule(&s, rg.g, rg.sink, &t, NULL, NULL), TG_OK);
        for (uint32_t i = 0; i < s->count; i++)
            for (int list = 0; s->item[i].kernel && list < 2; list++)
                looked += slices_of(s->item[i].kernel, &r, &t);
        schedule_free(s);
        random_graph_free(&rg);
    }
    print_message("%ld accesses lie in their slices\n", looked);
    assert_true(looked > 1000 * count);
}

/* ---- chains ---- */

static void choose(OptList *out, const Kernel *k, const ScheduleItem *item, const Schedule *s, void *user)
{
    (void)item, (void)s;
    heuristic_opts(out, k, user);
}

/* What networks do with rows: statistics, products, attention; and what no chain may cross: transposes, reversals,
 * neighbours. */
static U step(Graph *g, Random *r, U x, U before)
{
    int64_t rows = uop_size(x, 1), columns = uop_size(x, 2), last = 2;
    static const int64_t order[] = { 1, 0, 2 }, up[] = { 0, 1, 0 }, none[] = { 0, 0, 0 };
    switch (random_below(r, 10)) {
    case 0: return softmax(g, x, 2);
    case 1: return sub(g, x, mean(g, x, &last, 1, true));
    case 2: case 3: {
        int64_t shape[] = { columns, 8 + 8 * (int64_t)random_below(r, 4) }, n = shape[0] * shape[1];
        float *w = arena_alloc(graph_arena(g), (size_t)n * sizeof *w);
        for (int64_t i = 0; i < n; i++) w[i] = ((float)random_below(r, 15) - 7) / 16;
        return tanh_(g, matmul(g, x, tensor_const(g, DT_F32, shape, 2, w, (size_t)n * sizeof *w, NULL)));
    }
    case 4: return matmul(g, softmax(g, matmul(g, x, transpose(g, x)), 2), x);
    case 5: return before->shape == x->shape ? add(g, x, before) : contiguous(g, tanh_(g, x));
    case 6: return contiguous(g, permute(g, x, order, 3));
    case 7: return contiguous(g, flip_axis(g, x, (int64_t)random_below(r, 3)));
    case 8: return contiguous(g, add(g, x, slice_i(g, pad_i(g, x, up, none, NULL), 1, 0, rows)));
    default: return contiguous(g, reshape_i(g, x, (int64_t[]){ 1, uop_size(x, 0) * rows, columns }, 3));
    }
}

typedef struct {
    Graph *g;
    U sink;
    float *data;
    RefTensor want;
    Schedule *s;
    Plan *p;
    Code *code;
    Executable *x;
    Place at;
} Network;

/* Attention whose keys are turned by a kernel: once for all blocks of a head's rows. */
static U attention(Graph *g, U x)
{
    U keys = contiguous(g, transpose(g, tanh_(g, x)));
    return matmul(g, softmax(g, matmul(g, x, keys), 2), x);
}

/* What networks do with images: sums over channels, and windows that overlap from row to row, with zeros around. */
static U layer(Graph *g, Random *r, U x, U before, bool wide)
{
    int64_t channels = uop_size(x, 1), size[] = { 1, 1 }, stride[] = { 1, 1 }, one[] = { 1, 1 }, lo[2], hi[2];
    uint32_t kind = random_below(r, 16);
    if (kind == 0) return before->shape == x->shape ? add(g, x, before) : contiguous(g, neg(g, x));
    if (kind == 1) return contiguous(g, flip_axis(g, x, 2));
    for (int k = 0; k < 2; k++) {
        if (wide) size[k] = 1 + random_below(r, 4), stride[k] = 1 + !random_below(r, 6);
        lo[k] = random_below(r, (uint32_t)size[k]);
        hi[k] = size[k] - 1 - (random_below(r, 4) ? lo[k] : random_below(r, (uint32_t)size[k]));
    }
    bool all = !wide || kind == 2;                   /* channels, each of which is summed */
    int64_t shape[] = { all ? 16 << random_below(r, 2) : channels, all ? channels : 1, size[0], size[1] },
            count = shape[0] * shape[1] * shape[2] * shape[3];
    float *w = arena_alloc(graph_arena(g), (size_t)count * sizeof *w);
    for (int64_t i = 0; i < count; i++) w[i] = ((float)random_below(r, 15) - 7) / 16;
    U c = tensor_const(g, DT_F32, shape, 4, w, (size_t)count * sizeof *w, NULL);
    return relu(g, conv(g, x, c, stride, one, lo, hi, all ? 1 : channels));
}

static void make_network(Network *n, Random *r, bool images)
{
    bool heads = !images && !random_below(r, 4);
    int64_t shape[] = { 1 + random_below(r, 4), 8 + 4 * random_below(r, 7), 8 * (1 + random_below(r, 4)), 1 };
    if (heads) shape[0] *= 2, shape[1] = 32 + 8 * random_below(r, 9);
    if (images) {
        shape[0] = 1 + !random_below(r, 6), shape[1] = 16 << random_below(r, 2);
        shape[2] = 16 + 8 * random_below(r, 4), shape[3] = 16 + 4 * random_below(r, 3);
    }
    int64_t numel = shape[0] * shape[1] * shape[2] * shape[3];
    U dim[4], x, before;
    n->g = graph_new();
    n->data = malloc((size_t)numel * sizeof *n->data);
    for (int64_t i = 0; i < numel; i++) n->data[i] = ((float)random_below(r, 15) - 7) / 8;
    for (int k = 0; k < 4; k++) dim[k] = uop_index(n->g, shape[k]);
    x = before = uop_param(n->g, DT_F32, dim, images ? 4 : 3, 0);
    for (uint32_t k = heads ? 1 + random_below(r, 2) : 4 + random_below(r, images ? 2 : 6); k--;) {
        U y = heads ? attention(n->g, x) : images ? layer(n->g, r, x, before, k % 2) : step(n->g, r, x, before);
        before = x;
        x = y;
    }
    n->sink = uop_new(n->g, UOP_SINK, DT_VOID, NO_ARG, &x, 1);
}

/* Planned for a larger cache than scheduled for, so that several parts go together. */
static TgStatus prepare(Network *n, Device *d, const Target *t)
{
    CompileStats stats;
    Target larger = *t;
    larger.l2_bytes <<= n->at.seed % 5;
    TRY(ref_eval(&n->want, n->g, n->sink->src, 1, &(RefInput){ .param = (const void *const *)&n->data, .nparam = 1 }));
    TRY(sched_schedule(&n->s, n->g, n->sink, t, NULL, NULL));
    TRY(sched_optimize(n->s, t, choose, (void *)(uintptr_t)t, 1, NULL));
    TRY(plan_make(&n->p, n->s, &larger));
    TRY(backend_cpu.compile(&n->code, d, n->p->kernel, n->p->nkernel, &stats));
    return backend_cpu.load(&n->x, d, n->p, n->code);
}

static bool run_agrees(Network *n)
{
    int64_t numel = uop_numel(n->sink->src[0]);
    void *out = malloc((size_t)numel * sizeof(float) + 64);
    bool ok = went(&n->at, backend_cpu.run(n->x, (const void *const *)&n->data, &out, NULL));
    ok = ok && agree(&n->at, DT_F32, out, n->want.data, numel);
    free(out);
    return ok;
}

/* mixed: chains of fewer and more parts; around, kept: steps that do parts around a group's, of which some are kept;
 * borders: windows with zeros */
typedef struct { long chains, windows, in_place, mixed, around, kept, borders; } Counts;

static bool chains_of(uint64_t seed, bool images, Device *d, const Target *t, Counts *c)
{
    Network n = { .at = { seed, images ? "images" : "chains", NULL, NULL, NULL } };
    Random r = { seed };
    make_network(&n, &r, images);
    bool ok = went(&n.at, prepare(&n, d, t)) && run_agrees(&n) && run_agrees(&n);
    c->chains += n.p ? n.p->nchain : 0;
    c->in_place -= n.p ? n.p->nlife : 0;
    for (uint32_t k = 0; n.p && k < n.p->nchain; k++) c->mixed += n.p->chain[k].every > 1;
    for (uint32_t k = 0; n.p && k < n.p->nstep; k++) c->around += n.p->step[k].before || n.p->step[k].after;
    for (uint32_t k = 0; n.p && k < n.p->nbuffer; k++) {
        c->windows += n.p->buffer[k].window > 0;
        c->kept += n.p->buffer[k].kept > 0;
        c->borders += n.p->buffer[k].border != NULL;
        c->in_place += n.p->buffer[k].kind == MEM_ARENA;
    }
    ref_tensor_free(&n.want);
    if (n.x) backend_cpu.unload(n.x);
    if (n.code) backend_cpu.code_free(n.code);
    plan_free(n.p);
    schedule_free(n.s);
    graph_free(n.g);
    free(n.data);
    return ok;
}

static void chains_agree(void **state)
{
    (void)state;
    Device *d;
    long first = setting("RANDOM_SEED", 1), count = setting("RANDOM_COUNT", 60), bad = 0;
    Counts c = { 0 };
    assert_true(open_backend(&d, &backend_cpu));
    Target t = *backend_cpu.target(d);
    for (long i = 0; i < count; i++) {
        t.l2_bytes = 1024 << i % 4;
        bad += !chains_of((uint64_t)(first + i), false, d, &t, &c);
        t.l2_bytes = 8192 << i / 2 % 3;
        if (i % 2) bad += !chains_of((uint64_t)(first + i), true, d, &t, &c);
    }
    backend_cpu.close(d);
    print_message("%ld plans with %ld chains (%ld of fewer and more parts), %ld windows (%ld with zeros), %ld steps "
                  "with parts around (%ld keep some), %ld buffers in another's place, %ld failures\n",
                  count + count / 2, c.chains, c.mixed, c.windows, c.borders, c.around, c.kept, c.in_place, bad);
    assert_int_equal(bad, 0);
    assert_true(c.chains > count / 3 && c.windows > count / 4 && c.in_place > count / 4 && c.mixed > count / 30);
    assert_true(c.around > count / 20 && c.kept > count / 20 && c.borders > count / 20);
}

static const Target t = {
    .kind = "cpu",
    .vector_bytes = 64,
    .vector_registers = 32,
    .threads = 2,
    .l1_bytes = 48 << 10,
    .l2_bytes = 1 << 20,
    .has_threads = true,
    .has_fma = true,
    .clears_halos = true,
};

/* A statistic over the outermost axis is not computed anew for each part of that axis: no list cuts a loop on which a
 * sum does not depend (a chain of 31 parts did, and took 31 times as long). */
static void statistics_are_computed_once(void **state)
{
    (void)state;
    Graph *g = graph_new();
    Schedule *s = NULL;
    const int64_t axis[] = { 0, 1 };
    U dim[] = { uop_index(g, 31), uop_index(g, 300), uop_index(g, 224) }, x = uop_param(g, DT_F32, dim, 3, 0);
    U d = sub(g, x, mean(g, x, axis, 1, true)),
      y = div_(g, d, sqrt_(g, add(g, mean(g, mul(g, d, d), axis, 1, true), scalar(g, DT_F32, 1e-5))));
    U turned = contiguous(g, neg(g, contiguous(g, y)));
    y = tanh_(g, add(g, y, reduce(g, UOP_MAX, turned, axis, 2, true)));
    assert_int_equal(sched_schedule(&s, g, UOP(g, UOP_SINK, DT_VOID, NO_ARG, y), &t, NULL, NULL), TG_OK);
    for (uint32_t i = 0; i < s->count; i++) {
        if (!s->item[i].kernel) continue;
        Kernel *k = kernel_clone(s->item[i].kernel);
        const UOp *loop[64];
        Arena *a = arena_new();
        assert_int_equal(opt_apply_list(k, &k->chain, &t), TG_OK);
        uint32_t count, axes = opt_axes(k, loop, 64);
        const UOp **order = uop_toposort(k->g, &k->root, 1, a, &count);
        for (uint32_t n = 0; n < count; n++)
            for (uint32_t r = 0; r < axes && order[n]->op == UOP_REDUCE; r++)
                assert_true(range_type(loop[r]) != AXIS_THREAD || (order[n]->ranges & range_bit(loop[r])));
        arena_free(a);
        kernel_free(k);
    }
    schedule_free(s);
    graph_free(g);
}

/* Maxima of columns: a part of three columns would leave no lanes that are contiguous in memory (it took seven times as
 * long). */
static void columns_keep_lanes(void **state)
{
    (void)state;
    Graph *g = graph_new();
    Schedule *s = NULL;
    const int64_t last = 1;
    U dim[] = { uop_index(g, 1401), uop_index(g, 1707) }, x = transpose(g, neg(g, uop_param(g, DT_F32, dim, 2, 0)));
    U y = contiguous(g, sub(g, x, reduce(g, UOP_MAX, x, &last, 1, true)));
    y = sub(g, y, log_(g, reduce(g, UOP_ADD, exp_(g, y), &last, 1, true)));
    assert_int_equal(sched_schedule(&s, g, UOP(g, UOP_SINK, DT_VOID, NO_ARG, y), &t, NULL, NULL), TG_OK);
    for (uint32_t i = 0; i < s->count; i++) assert_int_equal(s->item[i].kernel ? s->item[i].kernel->chain.count : 0, 0);
    schedule_free(s);
    graph_free(g);
}

/* Attention over long rows: its scores never lie in memory as a whole, nor do those behind the softmax, nor the keys as
 * they are turned for a product. */
static void attention_stays_near(void **state)
{
    (void)state;
    enum { HEADS = 4, ROWS = 2048, SIZE = 64 };
    Graph *g = graph_new();
    U dim[] = { uop_index(g, HEADS), uop_index(g, ROWS), uop_index(g, SIZE) }, in[3];
    for (int k = 0; k < 3; k++) in[k] = uop_param(g, DT_F32, dim, 3, k);
    U y = matmul(g, softmax(g, matmul(g, in[0], transpose(g, in[1])), 2), in[2]);
    Schedule *s = NULL;
    Plan *p = NULL;
    assert_int_equal(sched_schedule(&s, g, uop_new(g, UOP_SINK, DT_VOID, NO_ARG, &y, 1), &t, NULL, NULL), TG_OK);
    assert_int_equal(sched_optimize(s, &t, choose, (void *)(uintptr_t)&t, 1, NULL), TG_OK);
    assert_int_equal(plan_make(&p, s, &t), TG_OK);
    print_message("%lld bytes\n", (long long)p->arena_bytes);
    assert_true(p->nchain == 1 && p->chain->every > 1);
    assert_true(p->arena_bytes < (HEADS * ROWS * SIZE + 8 * ROWS) * (int64_t)sizeof(float));
    plan_free(p);
    schedule_free(s);
    graph_free(g);
}

/* A sum over channels, windows of 3 x 3 by 2 and a sum over channels, as networks for phones begin: the enlarged image
 * lies in windows with zeros around its rows, of which each group keeps those that the next one reads. */
static void windows_overlap(void **state)
{
    (void)state;
    enum { FROM = 16, CHANNELS = 96, TO = 24, SIZE = 112 };
    static float a[CHANNELS * FROM], b[CHANNELS * 9], c[TO * CHANNELS];
    Graph *g = graph_new();
    const int64_t one[] = { 1, 1 }, two[] = { 2, 2 }, none[] = { 0, 0 },
                  shape[][4] = { { CHANNELS, FROM, 1, 1 }, { CHANNELS, 1, 3, 3 }, { TO, CHANNELS, 1, 1 } };
    U dim[] = { uop_index(g, 1), uop_index(g, FROM), uop_index(g, SIZE), uop_index(g, SIZE) },
      x = uop_param(g, DT_F32, dim, 4, 0), w = tensor_const(g, DT_F32, shape[0], 4, a, sizeof a, NULL);
    U y = relu(g, conv(g, x, w, one, one, none, none, 1));
    w = tensor_const(g, DT_F32, shape[1], 4, b, sizeof b, NULL);
    y = relu(g, conv(g, y, w, two, one, one, one, CHANNELS));
    w = tensor_const(g, DT_F32, shape[2], 4, c, sizeof c, NULL);
    y = conv(g, y, w, one, one, none, none, 1);
    Schedule *s = NULL;
    Plan *p = NULL;
    assert_int_equal(sched_schedule(&s, g, uop_new(g, UOP_SINK, DT_VOID, NO_ARG, &y, 1), &t, NULL, NULL), TG_OK);
    assert_int_equal(sched_optimize(s, &t, choose, (void *)(uintptr_t)&t, 1, NULL), TG_OK);
    assert_int_equal(plan_make(&p, s, &t), TG_OK);
    assert_int_equal(p->nchain, 1);
    const PlanChain *chain = p->chain;
    assert_int_equal(chain->last - chain->first, 2);
    const Step *first = &p->step[chain->first];
    assert_true(first->before == 1 && !first->after && !first[1].before && !first[2].before && chain->group > 2);
    const PlanBuffer *image = NULL;
    for (uint32_t k = 0; k < first->narg; k++)
        if (first->access[k] & ACCESS_WRITE) image = &p->buffer[first->arg[k]];
    assert_true(image && image->window && image->kept && image->border && image->kept < image->window);
    assert_true(image->size_bytes < CHANNELS * SIZE * SIZE * (int64_t)sizeof(float) / 2);
    plan_free(p);
    schedule_free(s);
    graph_free(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slices_hold),          cmocka_unit_test(chains_agree),
        cmocka_unit_test(attention_stays_near), cmocka_unit_test(statistics_are_computed_once),
        cmocka_unit_test(columns_keep_lanes),   cmocka_unit_test(windows_overlap),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
