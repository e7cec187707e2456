/* The pipeline, in one place: a model's graph to kernels in order (sched_schedule), kernels to what a backend renders
 * (sched_optimize, kernel_lower). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/base/map.h"
#include "graph/base/memory.h"
#include "graph/base/parallel.h"
#include "graph/base/watcher.h"
#include "graph/print.h"
#include "graph/verify.h"
#include "sched/chain.h"
#include "sched/regions.h"

/* ---- what `tgrun dump` sees ---- */

static bool wanted(const Dump *d, const char *stage) { return d && d->stage && !strcmp(d->stage, stage); }

static void dump_kernel(Dump *d, const char *stage, const Kernel *k)
{
    if (!wanted(d, stage) || (d->kernel && strcmp(d->kernel, k->name))) return;
    text_add(d->text, "kernel %s", *k->name ? k->name : "-");
    if (k->opts.count) text_add(d->text, "   opts "), opt_print(d->text, &k->opts);
    text_add(d->text, "\n");
    graph_print(d->text, k->g, k->linear ? k->linear : k->root);
    text_add(d->text, "\n");
}

static void dump_schedule(Dump *d, const char *stage, const Schedule *s)
{
    for (uint32_t i = 0; wanted(d, stage) && i < s->count; i++)
        if (s->item[i].kernel) dump_kernel(d, stage, s->item[i].kernel);
}

/* `12 calls of one function of 9 kernels`, a line a function. */
static void dump_calls(Dump *d, const Schedule *s)
{
    for (uint32_t i = 0; wanted(d, "calls") && i < s->nfunction; i++) {
        const struct FunctionUse *f = &s->function[i];
        uint32_t n = 0, once = 0;
        for (uint32_t k = f->first; k < f->first + f->count; k++)
            *(s->item[k].once ? &once : &n) += s->item[k].kernel != NULL;
        text_add(d->text, "%u calls of one function of %u kernel%s", f->calls, n, n == 1 ? "" : "s");
        text_add(d->text, once ? ", %u more at load\n" : "\n", once);
    }
}

static void dump_graph(Dump *d, const char *stage, Graph *g, const UOp *root)
{
    if (wanted(d, stage)) graph_print(d->text, g, root);
}

/* ---- what debug builds check after each stage ---- */

static TgStatus check(Graph *g, const UOp *root, VerifyStage stage)
{
#ifdef NDEBUG
    (void)g, (void)root, (void)stage;
    return TG_OK;
#else
    return verify(g, root, stage);
#endif
}

static TgStatus check_schedule(const Schedule *s, VerifyStage stage)
{
    for (uint32_t i = 0; i < s->count; i++)
        if (s->item[i].kernel) TRY(check(s->item[i].kernel->g, s->item[i].kernel->root, stage));
    return TG_OK;
}

/* ---- graph to kernels ---- */

void schedule_free(Schedule *s)
{
    if (!s) return;
    for (uint32_t i = 0; i < s->count; i++) kernel_free(s->item[i].kernel);
    mem_free(s->item);
    text_free(&s->why_refused);
    mem_free(s->function);
    mem_free(s);
}

static TgStatus stages(Schedule *s, Graph *g, const UOp *sink, const Target *t, Choices *choices, Dump *dump,
                       Placements *placements, Rangeify **swept)
{
    dump_graph(dump, "graph", g, sink);
    TRY(sched_callify(&sink, g, sink, t, choices));
    dump_graph(dump, "callify", g, sink);
    TRY(check(g, sink, VERIFY_TENSOR));
    TRY(watch_check());
    TRY(sched_functions(&sink, placements, swept, g, sink, t, choices));
    dump_graph(dump, "functions", g, sink);
    TRY(check(g, sink, VERIFY_TENSOR));
    TRY(watch_check());
    TRY(sched_rangeify(s, g, sink, t, placements, *swept, choices));
    dump_schedule(dump, "rangeify", s);
    dump_calls(dump, s);
    TRY(check_schedule(s, VERIFY_RANGEIFY));
    TRY(watch_check());
    TRY(sched_layout(s, t, choices));
    if (t->max_block) sched_calls(s);
    sched_devices(s, t);
    if (t->rank) sched_regions(s);
    sched_chains(s, t);
    dump_schedule(dump, "layout", s);
    if (choices && wanted(dump, "choices")) choices_print(dump->text, choices);
    return check_schedule(s, VERIFY_LAYOUT);
}

static TgStatus schedule(Schedule **out, Graph *g, const UOp *sink, const Target *t, Choices *choices,
                         Dump *dump)
{
    Schedule *s = mem_zeros(1, sizeof *s);
    s->g = g;
    if (choices) choices->used = choices->noffered = 0;
    Placements placements = { 0 };
    Rangeify *swept = NULL;
    TgStatus status = stages(s, g, sink, t, choices, dump, &placements, &swept);
    s->list = choices_applied(choices);
    rangeify_free(swept);
    placements_free(&placements);
    if (status == TG_OK) *out = s;
    else schedule_free(s);
    return status;
}

/* Few graphs have kernels that would read too many tensors: those are scheduled once more. */
TgStatus sched_schedule(Schedule **out, Graph *g, const UOp *sink, const Target *t, Choices *choices, Dump *dump)
{
    static const uint32_t most[] = { KERNEL_PARAMS / 2, KERNEL_PARAMS / 8 };
    uint32_t buffers = graph_buffer_count(g);
    TgStatus status = schedule(out, g, sink, t, choices, dump);
    for (size_t k = 0; k < sizeof most / sizeof *most && status == TG_LIMIT && graph_error(g) == TG_OK; k++) {
        graph_drop_buffers(g, buffers);
        status_clear();
        status = schedule(out, g, limit_reads(g, sink, most[k]), t, choices, dump);
    }
    return status;
}

/* ---- kernels to linear code ---- */

TgStatus kernel_lower(Kernel *k, const Target *t, Dump *dump)
{
    dump_kernel(dump, "optimize", k);
    TRY(check(k->g, k->root, VERIFY_OPTIMIZE));
    TRY(kernel_expand(k, t));
    dump_kernel(dump, "expand", k);
    TRY(check(k->g, k->root, VERIFY_EXPAND));
    TRY(kernel_select(k, t));
    dump_kernel(dump, "select", k);
    TRY(check(k->g, k->root, VERIFY_SELECT));
    TRY(kernel_linearize(k, t));
    dump_kernel(dump, "linearize", k);
    return check(k->g, k->linear, VERIFY_LINEAR);
}

/* packed: what is stored, of which constants -> BUFFER */
typedef struct {
    Schedule *s, *out;
    const Target *t;
    ChooseOpts choose;
    void *user;
    Dump *dump;
    Map done, packed;
} Optimize;

static ScheduleItem *append(Schedule *s, ScheduleItem item)
{
    if (s->count == s->cap) s->item = mem_grow(s->item, (s->cap = s->cap ? s->cap * 2 : 64) * sizeof *s->item);
    s->item[s->count] = item;
    return &s->item[s->count++];
}

/* What a kernel's list came to; refused, why: of lists that the device did not take, a line each. error: the message
 * of a status that is not TG_OK. */
typedef struct {
    bool done;
    TgStatus status;
    char error[1024];
    uint32_t refused;
    Text why;
} Lowered;

static TgStatus optimize_item(Optimize *o, ScheduleItem item, Lowered *ahead);

/* The packed copy of a constant is a buffer of its own, filled by a kernel that runs once; kernels that read it alike
 * share it. made: takes the place of the packed parameters when all kernels are known. */
static TgStatus pack_param(Optimize *o, const Kernel *k, uint32_t slot, const UOp **made)
{
    Kernel *p = pack_kernel(k, slot);
    struct { char key[sizeof p->key]; const UOp *of[KERNEL_PARAMS]; } id = { { 0 }, { NULL } };
    memcpy(id.key, p->key, sizeof id.key);
    for (uint32_t i = 1; i < p->nparam; i++) id.of[i] = p->param[i].buffer;
    if ((*made = map_get(&o->packed, &id, sizeof id))) return kernel_free(p), TG_OK;
    const UOp *dim = uop_index(o->s->g, k->pack[slot]->numel);
    DType t = (DType)k->pack[slot]->value->dtype;
    BufferInfo info = { t,    graph_shape(o->s->g, &dim, 1), NULL, (size_t)(k->pack[slot]->numel * dtype_size(t)), NULL,
                        false };
    *made = p->param[0].buffer = graph_add_buffer(o->s->g, &info);
    map_put(&o->packed, &id, sizeof id, (void *)(uintptr_t)*made);
    return optimize_item(o, (ScheduleItem){ .kind = ITEM_KERNEL, .once = true, .kernel = p }, &(Lowered){ 0 });
}

static TgStatus pack_params(Optimize *o, Kernel *k)
{
    const UOp *made[KERNEL_PARAMS] = { 0 };
    for (uint32_t i = 0; i < k->nparam; i++)
        if (k->pack[i]) TRY(pack_param(o, k, i, &made[i]));
    for (uint32_t i = 0; i < k->nparam; i++)
        if (made[i]) k->param[i].buffer = made[i];
    return TG_OK;
}

static TgStatus lower_with(const Optimize *o, Kernel *k, const OptList *opts)
{
    int64_t elements = kernel_elements(k);
    TRY(opt_apply_list(k, opts, o->t));
    double flops = kernel_flops(k);
    kernel_slice(k);
    TRY(kernel_lower(k, o->t, o->dump));
    if (o->t->has_threads) k->in_place = kernel_in_place(k, elements);
    kernel_executes(k, flops);
    return TG_OK;
}

/* A list that requests more than the device has (threads, shared memory, code) is no failure: the kernel is then
 * lowered with as many of its first ops as serve, and counted. */
static TgStatus lower(const Optimize *o, Kernel **k, const OptList *opts, Lowered *l)
{
    OptList serve = *opts;
    for (;;) {
        Kernel *plain = serve.count ? kernel_clone(*k) : NULL;
        TgStatus status = lower_with(o, *k, &serve);
        if (!plain || (status != TG_UNSUPPORTED && status != TG_USAGE)) return kernel_free(plain), status;
        if (serve.count == opts->count) {
            text_add(&l->why, "kernel %s: its list is refused: %s\n", plain->name, tg_error());
            l->refused++;
        }
        status_clear();
        kernel_free(*k);
        *k = plain;
        serve.count--;
    }
}

/* A kernel that runs once packs nothing: the copy would be made for a single reader, by a kernel that runs once. */
static void drop_packs(OptList *l)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < l->count; i++)
        if (l->op[i].kind != OPT_PACK) l->op[n++] = l->op[i];
    l->count = n;
}

/* Touches nothing but the item, so that many go on at once. */
static void choose_and_lower(const Optimize *o, ScheduleItem *item, Lowered *l)
{
    OptList opts = { .count = 0 };
    o->choose(&opts, item->kernel, item, o->s, o->user);
    if (item->once) drop_packs(&opts);
    l->status = lower(o, &item->kernel, &opts, l);
    if (l->status != TG_OK) snprintf(l->error, sizeof l->error, "%s", tg_error());
    l->done = true;
}

/* Kernels of one key are optimised and lowered once; the others take the result with their own buffers. ahead: of this
 * one, if it was lowered already. */
static TgStatus optimize_item(Optimize *o, ScheduleItem item, Lowered *ahead)
{
    Kernel *k = item.kernel, *like = k ? map_gets(&o->done, k->key) : NULL;
    if (!k) return append(o->out, item), TG_OK;
    if (!like) {
        if (k->owner) {                     /* which comes later, and is gone then */
            item.kernel = kernel_clone(k);
            kernel_free(k);
        }
        if (!ahead->done) choose_and_lower(o, &item, ahead);
        k = item.kernel;
        o->s->refused += ahead->refused;
        if (ahead->why.s) text_add(&o->s->why_refused, "%s", ahead->why.s);
        text_free(&ahead->why);
        if (ahead->status != TG_OK) return append(o->out, item), fail(ahead->status, "%s", ahead->error);
        map_puts(&o->done, k->key, k);
    } else {
        KernelParam own[KERNEL_PARAMS];
        memcpy(own, k->param, sizeof own);
        item.kernel = kernel_shared(like);
        for (uint32_t i = 0; i < k->nparam; i++) item.kernel->param[i].buffer = own[i].buffer;
        kernel_free(k);
        k = item.kernel;
    }
    TgStatus status = pack_params(o, k);
    if (!like && status == TG_OK) kernel_compact(k);
    append(o->out, item);
    return status;
}

/* What is made at load is made just before the first that reads it: then what only the load reads is alive for a
 * moment, one of all weights after the other. maker: by buffer, the number + 1 of the one item that stores it, a kernel
 * at load; item: by kernel, likewise. */
typedef struct {
    const Schedule *s;
    ScheduleItem *out;
    uint32_t n, *maker;
    bool *moves, *done;
    Map item;
} Delay;

static void stays(Delay *d, const UOp *u)
{
    if (u && u->op == UOP_BUFFER && d->maker[buffer_slot(u)]) d->moves[d->maker[buffer_slot(u)] - 1] = false;
}

static void find_makers(Delay *d)
{
    const Schedule *s = d->s;
    for (uint32_t i = 0; i < s->count; i++) {
        const Kernel *k = s->item[i].once ? s->item[i].kernel : NULL;
        d->moves[i] = k != NULL;
        for (uint32_t p = 0; k && p < k->nparam; p++) {
            const UOp *b = k->param[p].buffer;
            if (!k->param[p].written) continue;
            if (b->op != UOP_BUFFER) d->moves[i] = false;
            else if (d->maker[buffer_slot(b)]) d->moves[i] = false, stays(d, b);
            else d->maker[buffer_slot(b)] = i + 1;
        }
    }
    for (uint32_t k = 0; k < s->noutput; k++) stays(d, s->output[k]);
    for (uint32_t i = 0; i < s->count; i++) {
        const ScheduleItem *item = &s->item[i];
        for (uint32_t k = 1; item->call && k < item->call->nsrc; k++) stays(d, item->call->src[k]);
        for (uint32_t k = 0; k < item->nout; k++) stays(d, item->out[k]);
        for (uint32_t k = 0; k < 2; k++) stays(d, item->mem[k]);
    }
}

static void emit(Delay *d, uint32_t i)
{
    const Kernel *k = d->s->item[i].kernel;
    if (d->done[i]) return;
    d->done[i] = true;
    uintptr_t owner = k && k->owner ? (uintptr_t)map_get(&d->item, &k->owner, sizeof k->owner) : 0;
    /* whose code it shares comes first, as everywhere */
    if (owner) emit(d, (uint32_t)owner - 1);
    for (uint32_t p = 0; k && p < k->nparam; p++) {
        const UOp *b = k->param[p].buffer;
        uint32_t maker = b->op == UOP_BUFFER ? d->maker[buffer_slot(b)] : 0;
        if (maker && d->moves[maker - 1]) emit(d, maker - 1);
    }
    d->out[d->n++] = d->s->item[i];
}

static void delay_once(Schedule *s)
{
    Arena *a = arena_new();
    Delay d = { s,
                NEW_N(a, ScheduleItem, s->count + 1),
                0,
                NEW_N(a, uint32_t, graph_buffer_count(s->g) + 1),
                NEW_N(a, bool, s->count + 1),
                NEW_N(a, bool, s->count + 1) };
    map_init(&d.item, a);
    for (uint32_t i = 0; i < s->count; i++)
        if (s->item[i].kernel)
            map_put(&d.item, &s->item[i].kernel, sizeof s->item[i].kernel, (void *)(uintptr_t)(i + 1));
    find_makers(&d);
    for (uint32_t i = 0; i < s->count; i++)
        if (!d.moves[i]) emit(&d, i);
    for (uint32_t i = 0; i < s->count; i++) emit(&d, i);
    if (s->count) memcpy(s->item, d.out, s->count * sizeof *s->item);
    arena_free(a);
}

/* ---- several at once ---- */

typedef struct { const Optimize *o; ScheduleItem **item; Lowered **lowered; uint32_t n; } Several;

static void lower_one(void *several, uint32_t i)
{
    const Several *s = several;
    watch_step("choosing and lowering kernels", i, s->n);
    choose_and_lower(s->o, s->item[i], s->lowered[i]);
}

/* The first of each key, but for those whose graph is another's. */
static TgStatus lower_ahead(const Optimize *o, Lowered *ahead, uint32_t threads, Arena *a)
{
    const Schedule *s = o->s;
    Several w = { .o = o, .item = NEW_N(a, ScheduleItem *, s->count), .lowered = NEW_N(a, Lowered *, s->count) };
    Map seen;
    map_init(&seen, a);
    for (uint32_t i = 0; i < s->count; i++) {
        const Kernel *k = s->item[i].kernel;
        if (!k || map_gets(&seen, k->key)) continue;
        map_puts(&seen, k->key, (void *)(uintptr_t)k);
        if (k->owner) continue;
        w.item[w.n] = &s->item[i];
        w.lowered[w.n++] = &ahead[i];
    }
    return w.n > 1 ? parallel_all(threads, w.n, lower_one, &w) : TG_OK;
}

TgStatus sched_optimize(Schedule *s, const Target *t, ChooseOpts choose, void *user, uint32_t threads, Dump *dump)
{
    Arena *a = arena_new();
    Lowered *ahead = NEW_N(a, Lowered, s->count + 1);
    Schedule out = { 0 };
    Optimize o = { .s = s, .out = &out, .t = t, .choose = choose, .user = user, .dump = dump };
    map_init(&o.done, a);
    map_init(&o.packed, a);
    TgStatus status = threads > 1 && !dump ? lower_ahead(&o, ahead, threads, a) : TG_OK;
    uint32_t i = 0;
    for (; i < s->count && status == TG_OK; i++) {
        if ((status = watch_check()) != TG_OK) break;           /* this item is the schedule's, as those behind it */
        watch_step("choosing and lowering kernels", i, s->count);
        status = optimize_item(&o, s->item[i], &ahead[i]);
    }
    for (uint32_t k = i; k < s->count; k++) text_free(&ahead[k].why);
    for (; i < s->count; i++) append(&out, s->item[i]);
    mem_free(s->item);
    s->item = out.item;
    s->count = out.count;
    s->cap = out.cap;
    if (status == TG_OK) delay_once(s);
    arena_free(a);
    return status;
}
