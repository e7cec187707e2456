/* What the tests of random graphs share: see random_stages.h. */
#include "random_stages.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/print.h"
#include "graph/scalar.h"
#include "tests/test.h"

long setting(const char *name, long otherwise) { return getenv(name) ? atol(getenv(name)) : otherwise; }

bool open_backend(Device **out, const Backend *b)
{
    const char *emulator = getenv("CUDA_EMULATOR");
    if (b == &backend_cuda && !getenv("TGRUN_TEST_GPU")) {
        if (!emulator) return false;
        setenv("TGRUN_LIBCUDA", emulator, 1);
        setenv("TGRUN_NVRTC", emulator, 1);
    }
    return b->open(out, &(DeviceOptions){ .threads = 2 }) == TG_OK;
}

/* ---- memory of a schedule ---- */

const UOp *under(const UOp *u)
{
    while (u->op == UOP_AFTER || u->op == UOP_RESHAPE) u = u->src[0];
    return u;
}

RefMem mem_of(Memory *m, const UOp *u)
{
    u = under(u);
    int64_t bytes = uop_numel(u) * dtype_size(u->dtype);
    if (u->op == UOP_PARAM) return (RefMem){ m->rg->data[u->arg.i], bytes };
    int64_t slot = buffer_slot(u);
    BufferInfo *info = graph_buffer(m->s->g, slot);
    if (info->data) return (RefMem){ (void *)(uintptr_t)info->data, bytes };
    if ((int64_t)info->size_bytes > bytes) bytes = (int64_t)info->size_bytes;
    if (!m->buffer[slot]) {
        m->buffer[slot] = malloc((size_t)bytes + 1);
        memset(m->buffer[slot], info->zeroed ? 0 : 0x5a, (size_t)bytes);
        m->size[slot] = bytes;
    }
    return (RefMem){ m->buffer[slot], bytes };
}

void kernel_mem(Memory *m, const Kernel *k, RefMem *mem)
{
    for (uint32_t i = 0; i < k->nparam; i++) mem[i] = mem_of(m, k->param[i].buffer);
}

void memory_free(Memory *m)
{
    for (uint32_t i = 0; i < m->count; i++) free(m->buffer[i]);
    free(m->buffer);
    free(m->size);
}

/* ---- comparing ---- */

/* Floats agree to a small part of the tensor's own scale, which counts as 0.5 at least (a - a under a fused
 * multiply-add is no zero); integers exactly. */
static double worst_error(DType t, const void *got, const void *want, int64_t n)
{
    double scale = 0.5, worst = 0, unit = t == DT_F16 ? 2e-2 : t == DT_BF16 ? 1e-1 : 2e-4;
    for (int64_t i = 0; i < n && dtype_is_float(t); i++) {
        double w = fabs(scalar_real(scalar_load(t, want, i)));
        if (isfinite(w) && w > scale) scale = w;
    }
    for (int64_t i = 0; i < n; i++) {
        int64_t a = scalar_load(t, got, i), b = scalar_load(t, want, i);
        double x = scalar_real(a), y = scalar_real(b), e = 0;
        if (!dtype_is_float(t)) e = a == b ? 0 : 1e9;
        else if (isnan(x) || isnan(y)) e = isnan(x) && isnan(y) ? 0 : 1e9;
        else if (x != y) e = fabs(x - y) / (unit * (0.1 * scale + fabs(y)));
        if (e > worst) worst = e;
    }
    return worst;
}

static bool print_kernel(const Place *p)
{
    Text text = { 0 };
    if (!p->k || !getenv("RANDOM_VERBOSE")) return false;
    if (p->original) graph_print(&text, p->k->g, p->original), text_add(&text, "----\n");
    graph_print(&text, p->k->g, p->k->linear ? p->k->linear : p->k->root);
    fprintf(stderr, "%s\n", text.s);
    text_free(&text);
    return false;
}

bool agree(const Place *p, DType t, const void *got, const void *want, int64_t n)
{
    double e = worst_error(t, got, want, n);
    Text text = { 0 };
    if (e <= 1) return true;
    if (p->opts) opt_print(&text, p->opts);
    print_message("seed %llu, %s: error %.3g%s%s%s%s\n", (unsigned long long)p->seed, p->stage, e,
                  p->k ? ", kernel " : "", p->k ? p->k->name : "", text.len ? ", opts " : "", text.len ? text.s : "");
    text_free(&text);
    return print_kernel(p);
}

bool went(const Place *p, TgStatus status)
{
    Text text = { 0 };
    if (status == TG_OK) return true;
    if (p->opts) opt_print(&text, p->opts);
    print_message("seed %llu, %s: %s%s%s\n", (unsigned long long)p->seed, p->stage, tg_error(),
                  text.len ? ", opts " : "", text.len ? text.s : "");
    text_free(&text);
    return print_kernel(p);
}

/* ---- a whole schedule, in the form in which it is ---- */

const int64_t *vars_of(const RandomGraph *rg, const Kernel *k)
{
    static int64_t value[16];
    for (uint32_t i = 0; i < k->nvar; i++) value[i] = rg->var_value;
    return value;
}

static bool run_schedule(Memory *m, const Place *at)
{
    RefMem mem[KERNEL_PARAMS];
    for (uint32_t i = 0; i < m->s->count; i++) {
        const Kernel *k = m->s->item[i].kernel;
        Place p = *at;
        p.k = k;
        if (m->s->item[i].kind == ITEM_COPY) {
            RefMem to = mem_of(m, m->s->item[i].mem[0]), from = mem_of(m, m->s->item[i].mem[1]);
            memcpy(to.data, from.data, (size_t)from.size_bytes);
            continue;
        }
        kernel_mem(m, k, mem);
        if (!went(&p, ref_exec_root(k, mem, vars_of(m->rg, k)))) return false;
    }
    return true;
}

Memory memory_new(RandomGraph *rg, Schedule *s)
{
    uint32_t n = graph_buffer_count(s->g) + 64;
    return (Memory){ rg, s, calloc(n, sizeof(void *)), calloc(n, sizeof(int64_t)), n };
}

bool schedule_agrees(RandomGraph *rg, Schedule *s, const RefTensor *want, Memory *m, const Place *at)
{
    *m = memory_new(rg, s);
    if (!run_schedule(m, at)) return false;
    for (uint32_t k = 0; k < rg->sink->nsrc; k++)
        if (!agree(at, want[k].dtype, mem_of(m, s->output[k]).data, want[k].data, want[k].numel)) return false;
    return true;
}

/* ---- one kernel, optimised at random ---- */

/* A divisor of n above 1 as a rule; sometimes any number, so that refusals are tried too. */
static int32_t random_factor(Random *r, int64_t n)
{
    int32_t f = (int32_t)(2 + random_below(r, 15));
    for (int i = 0; i < 20 && n % f && random_below(r, 12); i++)
        f = (int32_t)(2 + random_below(r, n > 16 ? 16 : (uint32_t)n));
    return random_below(r, 6) ? f : random_below(r, 2) ? (int32_t)n : 0;
}

static uint8_t random_target(Random *r, AxisType from, bool gpu)
{
    static const uint8_t cpu_loop[] = { AXIS_THREAD, AXIS_LOOP, AXIS_UPCAST, AXIS_UPCAST },
                         cpu_sum[] = { AXIS_REDUCE, AXIS_UNROLL, AXIS_UNROLL, AXIS_UNROLL };
    static const uint8_t gpu_loop[] = { AXIS_GLOBAL, AXIS_LOCAL, AXIS_WARP, AXIS_UPCAST, AXIS_LOOP },
                         gpu_sum[] = { AXIS_REDUCE, AXIS_UNROLL, AXIS_GROUP_REDUCE, AXIS_WARP };
    if (from == AXIS_REDUCE) return (gpu ? gpu_sum : cpu_sum)[random_below(r, 4)];
    return gpu ? gpu_loop[random_below(r, 5)] : cpu_loop[random_below(r, 4)];
}

/* Half of them are SPLITs, the rest any kind; the last axis, which is that of a reduce where there is one, more often
 * than others. A reduce just split is often nested. */
static OptOp random_op(const Kernel *k, Random *r, const UOp *const *axis, uint32_t n, bool gpu)
{
    const OptOp *last = k->opts.count ? &k->opts.op[k->opts.count - 1] : NULL;
    if (last && last->kind == OPT_SPLIT && last->target == AXIS_REDUCE && random_below(r, 2))
        return (OptOp){ .kind = OPT_NEST, .axis = (int8_t)(last->axis + 1) };
    OptOp o = { .kind = OPT_SPLIT,
                .axis = (int8_t)(random_below(r, 3) ? random_below(r, n) : n - 1),
                .top = random_below(r, 4) == 0 };
    const UOp *at = axis[o.axis];
    o.factor = random_factor(r, at->src[0]->vmax);
    o.target = random_target(r, range_type(at), gpu);
    if (o.target == AXIS_THREAD) o.axis = 0, o.top = true;
    if (random_below(r, 2)) return o;
    o.kind = (uint8_t)random_below(r, gpu ? OPT_STREAM : OPT_KEEP);
    if (o.kind == OPT_MERGE && n > 1) o.axis = (int8_t)random_below(r, n - 1);
    if (o.kind == OPT_SWAP) o.factor = (int32_t)random_below(r, n);
    if (o.kind == OPT_PACK || o.kind == OPT_STAGE || o.kind == OPT_STREAM) o.axis = (int8_t)random_below(r, k->nparam);
    if (o.kind == OPT_STAGE) o.factor = (int32_t)random_below(r, n), o.target = (uint8_t)(1 + random_below(r, 2));
    return o;
}

/* on CPUs, on GPUs */
static struct { unsigned kind[OPT_COUNT], target[AXIS_COUNT], tiles[WMMA_COUNT]; } applied[2];

bool random_apply(Kernel *k, const OptOp *o, const Target *target)
{
    if (opt_apply(k, o, target) != TG_OK) return false;
    applied[target->has_locals].kind[o->kind]++;
    if (o->kind == OPT_SPLIT) applied[target->has_locals].target[o->target]++;
    if (o->kind == OPT_TC) applied[target->has_locals].tiles[o->factor % 16]++;
    return true;
}

/* What may be kept is, in kernels of an even number of parameters: it is rare, and must come before any split. */
static void keep_all(Kernel *k, const Target *target)
{
    const UOp *axis[64];
    for (uint32_t i = k->nparam % 2 ? 0 : opt_axes(k, axis, 64); i-- > 0;)
        random_apply(k, &(OptOp){ .kind = OPT_KEEP, .axis = (int8_t)i }, target);
}

/* In a third of the kernels that have them, a reduce stands outside of loops: behind all else. */
static bool carry_one(Kernel *k, Random *r, const Target *target)
{
    const UOp *axis[64];
    uint32_t n = opt_axes(k, axis, 64), loop = 0, sum = n;
    while (loop < n && range_type(axis[loop]) != AXIS_LOOP) loop++;
    while (sum && range_type(axis[sum - 1]) != AXIS_REDUCE) sum--;
    if (loop == n || !sum || random_below(r, 3)) return false;
    return random_apply(k, &(OptOp){ .kind = OPT_CARRY, .axis = (int8_t)(sum - 1), .factor = (int32_t)loop }, target);
}

unsigned random_opts(Kernel *k, Random *r, uint32_t most, const Target *target)
{
    unsigned legal = 0;
    keep_all(k, target);
    for (uint32_t i = 0; i < 3 * most && legal < most; i++) {
        const UOp *axis[64];
        uint32_t n = opt_axes(k, axis, 64);
        if (!n) break;
        OptOp o = random_op(k, r, axis, n, target->has_locals);
        legal += random_apply(k, &o, target);
    }
    return legal + carry_one(k, r, target);
}

static bool kind_is_for(OptKind k, const Target *t, bool tiles)
{
    return k == OPT_NOLOCALS                   ? t->has_locals
        : k == OPT_TC                          ? tiles
        : k == OPT_STREAM                      ? t->has_streams
        : k == OPT_KEEP || k == OPT_CARRY ? !t->max_block && !tiles
                                               : true;
}

static bool target_is_for(AxisType a, const Target *t)
{
    return a == AXIS_THREAD                                                               ? t->has_threads
        : a == AXIS_GLOBAL || a == AXIS_LOCAL || a == AXIS_WARP || a == AXIS_GROUP_REDUCE ? t->has_locals
                                                                                          : true;
}

static unsigned counted(Text *line, const char *name, unsigned count)
{
    text_add(line, " %s %u", name, count);
    return !count;
}

bool random_opts_complete(const Target *t, bool tiles)
{
    unsigned *kind = applied[t->has_locals].kind, *target = applied[t->has_locals].target,
             *tile = applied[t->has_locals].tiles, missing = 0;
    Text line = { 0 };
    for (int i = 0; i < OPT_COUNT; i++)
        if (kind_is_for((OptKind)i, t, tiles)) missing += counted(&line, opt_kind_name((OptKind)i), kind[i]);
    text_add(&line, "; to");
    for (int i = 0; i < AXIS_COUNT; i++)
        if (target_is_for((AxisType)i, t)) missing += counted(&line, opt_target_name((AxisType)i), target[i]);
    for (int i = 0; tiles && i < WMMA_COUNT; i++)
        if (!strcmp(wmma_row[i].device, t->kind)) missing += counted(&line, wmma_row[i].name, tile[i]);
    print_message("%s:%s\n", t->kind, line.s);
    text_free(&line);
    memset(&applied[t->has_locals], 0, sizeof *applied);
    return !missing;
}

bool fill_packs(Memory *m, Kernel *k, RefMem *pack, const Place *at)
{
    bool ok = true;
    for (uint32_t i = 0; i < k->nparam && ok; i++) {
        RefMem mem[KERNEL_PARAMS];
        if (!k->pack[i]) continue;
        Kernel *p = pack_kernel(k, i);
        pack[i].size_bytes = k->pack[i]->numel * dtype_size(k->pack[i]->value->dtype);
        free(pack[i].data);
        pack[i].data = malloc((size_t)pack[i].size_bytes + 1);
        mem[0] = pack[i];
        for (uint32_t j = 1; j < p->nparam; j++) mem[j] = mem_of(m, p->param[j].buffer);
        ok = went(at, ref_exec_root(p, mem, vars_of(m->rg, p)));
        kernel_free(p);
    }
    return ok;
}

void launch_mem(Memory *m, const Kernel *k, const RefMem *pack, RefMem *mem, void **fresh)
{
    kernel_mem(m, k, mem);
    for (uint32_t i = 0; i < k->nparam; i++) {
        fresh[i] = NULL;
        if (pack && pack[i].data) mem[i] = pack[i];
        if (!k->param[i].written) continue;
        fresh[i] = malloc((size_t)mem[i].size_bytes + 1);
        if (k->param[i].read) memcpy(fresh[i], mem[i].data, (size_t)mem[i].size_bytes);
        else memset(fresh[i], 0x5a, (size_t)mem[i].size_bytes);
        mem[i].data = fresh[i];
    }
}

/* The type of the number whose bits v has, with the bits of others in between; else as it was. */
static DType bits_of(const UOp *v, DType t)
{
    if (v->op == UOP_BITCAST && dtype_is_float((DType)v->src[0]->dtype)) return (DType)v->src[0]->dtype;
    bool parts =
        v->op == UOP_AND || v->op == UOP_OR || v->op == UOP_XOR || v->op == UOP_STACK || v->op == UOP_INDEX;
    for (uint32_t k = 0; parts && k < v->nsrc; k++) t = bits_of(v->src[k], t);
    return t;
}

DType compared_as(const Kernel *k, uint32_t param)
{
    Arena *a = arena_new();
    uint32_t n;
    DType t = (DType)under(k->param[param].buffer)->dtype;
    const UOp **order = uop_toposort(k->g, &k->root, 1, a, &n);
    for (uint32_t i = 0; i < n; i++) {
        const UOp *to = order[i]->op == UOP_STORE ? order[i]->src[0] : NULL, *v = to ? order[i]->src[1] : NULL;
        if (!to || (to->op != UOP_INDEX && to->op != UOP_SHRINK) || to->src[0]->op != UOP_PARAM ||
            to->src[0]->arg.i != param)
            continue;
        t = bits_of(v, t);
    }
    arena_free(a);
    return t;
}

bool launch(Memory *m, Kernel *k, const RefMem *pack, Run run, void **want, const Place *at)
{
    RefMem mem[KERNEL_PARAMS];
    void *fresh[KERNEL_PARAMS] = { NULL };
    launch_mem(m, k, pack, mem, fresh);
    bool ok = went(at, run(k, mem, vars_of(m->rg, k)));
    for (uint32_t i = 0; i < k->nparam; i++) {
        if (ok && k->param[i].written && want[i])
            ok = agree(at, compared_as(k, i), fresh[i], want[i],
                       mem[i].size_bytes / dtype_size(under(k->param[i].buffer)->dtype));
        if (ok && k->param[i].written && !want[i]) want[i] = fresh[i];
        else free(fresh[i]);
    }
    return ok;
}
