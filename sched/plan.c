/* Schedule -> Plan: every buffer gets a place, every step its arguments, nothing is left to look up at run time.
 *
 * Comes in: items in an order that respects their data, over tensor-level BUFFERs and PARAMs. Goes out: steps, `once`
 * ones first, then those of a run, then copies of outputs that no step stores (an input, a constant, a value returned
 * twice). Must hold: a buffer is written before it is read unless it is an input, a constant or zeroed. To add a kind
 * of memory: a MemKind, a case in `place_of` (plan_places.c), and a line in plan_print (plan_run.c).
 */
#include "sched/plan_build.h"

#include <stdlib.h>
#include <string.h>

#include "graph/base/map.h"

/* An iteration of a loop: what its step is in the kernels inside. */
typedef struct Iteration { const char *step; int64_t value; const struct Iteration *up; } Iteration;

/* ---- buffers ---- */

static int64_t buffer_bytes(const Build *b, const UOp *u)
{
    int64_t bytes = uop_numel(u) * dtype_size(u->dtype),
            stored = u->op == UOP_BUFFER ? (int64_t)graph_buffer(b->s->g, buffer_slot(u))->size_bytes : 0;
    return bytes > stored ? bytes : stored;
}

static uint32_t new_buffer(Build *b, const UOp *u, MemKind kind)
{
    uint32_t k = b->p->nbuffer++;
    b->p->buffer[k] =
        (PlanBuffer){ .kind = kind, .size_bytes = buffer_bytes(b, u), .dtype = u->dtype, .shape = u->shape };
    b->p->buffer[k].zeroed = kind == MEM_ARENA && graph_buffer(b->s->g, buffer_slot(u))->zeroed;
    b->use[k] = (Use){ .first = UINT32_MAX, .uop = u };
    return k;
}

static uint32_t buffer_of(Build *b, const UOp *u)
{
    u = uop_memory(u);
    uint32_t *at = u->op == UOP_PARAM ? &b->of_input[u->arg.i] : &b->of_buffer[buffer_slot(u)];
    if (!*at) *at = new_buffer(b, u, u->op == UOP_PARAM ? MEM_INPUT : MEM_ARENA) + 1;
    return *at - 1;
}

void plan_note_use(Build *b, uint32_t buffer, uint8_t access, bool once, uint32_t step)
{
    Use *u = &b->use[buffer];
    if (u->first == UINT32_MAX) u->first = u->made = step, u->read_first = !(access & ACCESS_WRITE);
    u->last = step;
    u->once_write |= once && (access & ACCESS_WRITE);
    u->run_write |= !once && (access & ACCESS_WRITE);
    u->run_use |= !once;
}

/* ---- variables ---- */

static uint32_t add_var(Plan *p, const char *name)
{
    int32_t at = plan_var(p, name);
    if (at >= 0) return (uint32_t)at;
    if (p->nvar % 8 == 0) {
        const char **grown = NEW_N(p->arena, const char *, p->nvar + 8);
        if (p->nvar) memcpy(grown, p->var_name, sizeof *grown * p->nvar);
        p->var_name = grown;
    }
    p->var_name[p->nvar] = arena_strdup(p->arena, name);        /* a kernel's graph does not live as long */
    return p->nvar++;
}

/* A loop's kernels run once an iteration with the step as an argument: variables that hold the numbers. */
static uint32_t var_of(Build *b, const char *name, const Iteration *r)
{
    while (r && strcmp(r->step, name)) r = r->up;
    if (!r) return add_var(b->p, name);
    uint32_t *at = &b->step_var[r->value];
    if (!*at) *at = add_var(b->p, arena_printf(b->p->arena, "#%lld", (long long)r->value)) + 1;
    return *at - 1;
}

static void set_var_values(Plan *p)
{
    int64_t *v = NEW_N(p->arena, int64_t, p->nvar + 1);
    for (uint32_t k = 0; k < p->nvar; k++) v[k] = *p->var_name[k] == '#' ? strtoll(p->var_name[k] + 1, NULL, 10) : 0;
    p->var_value = v;
}

static void add_vars_of(Plan *p, const UOp *u)
{
    if (u->op == UOP_DEFINE_VAR) add_var(p, var_name(u));
    for (uint32_t k = 0; k < u->nsrc; k++) add_vars_of(p, u->src[k]);
}

static bool reads_var(const UOp *u, const char *name)
{
    bool found = u->op == UOP_DEFINE_VAR && !strcmp(var_name(u), name);
    for (uint32_t k = 0; k < u->nsrc && !found; k++) found = reads_var(u->src[k], name);
    return found;
}

/* ---- steps ---- */

static Step *new_step(Build *b, StepKind kind, bool once, uint32_t narg)
{
    Step *s = &b->p->step[b->p->nstep++];
    *s = (Step){ .kind = kind, .once = once, .narg = narg, .thread_count = 1 };
    s->device = once || kind == STEP_COPY ? ALL_DEVICES : 0;
    s->arg = NEW_N(b->p->arena, uint32_t, narg);
    s->access = NEW_N(b->p->arena, uint8_t, narg);
    return s;
}

static void set_origins(Build *b, Step *s, const Origins *o)
{
    s->origins = (Origins){ arena_copy(b->p->arena, o->node, o->count * sizeof *o->node), o->count };
}

static void set_arg(Build *b, Step *s, uint32_t k, uint32_t buffer, uint8_t access)
{
    s->arg[k] = buffer;
    s->access[k] = access;
    plan_note_use(b, buffer, access, s->once, b->p->nstep - 1);
}

/* Kernels without a key stand for themselves. */
static uint32_t kernel_index(Build *b, Kernel *k)
{
    void *known = k->key[0] ? map_gets(&b->kernel, k->key) : NULL;
    if (known) return (uint32_t)(uintptr_t)known - 1;
    b->p->kernel[b->p->nkernel] = k;
    if (k->key[0]) map_puts(&b->kernel, k->key, (void *)(uintptr_t)(b->p->nkernel + 1));
    return b->p->nkernel++;
}

/* Empty tensors are never stored. */
static bool writes_nothing(const Build *b, const Kernel *k)
{
    for (uint32_t i = 0; i < k->nparam; i++)
        if (k->param[i].written &&
            (!uop_is_memory(uop_memory(k->param[i].buffer)) || buffer_bytes(b, uop_memory(k->param[i].buffer))))
            return false;
    return true;
}

static TgStatus kernel_step(Build *b, const ScheduleItem *item, const Iteration *iteration)
{
    Kernel *k = item->kernel;
    if (writes_nothing(b, k)) return TG_OK;
    Step *s = new_step(b, STEP_KERNEL, item->once, k->nparam);
    s->kernel = kernel_index(b, k);
    s->wish = item->chain;
    if (!item->once) s->device = item->device;
    set_origins(b, s, &item->origins);
    for (uint32_t i = 0; i < k->nparam; i++) {
        const KernelParam *a = &k->param[i];
        if (!uop_is_memory(uop_memory(a->buffer)))
            return fail(TG_INTERNAL, "plan: kernel %s: parameter %u is %s, not memory", k->name, i,
                        op_name(a->buffer->op));
        /* neither: a guard's word orders nothing */
        set_arg(b, s, i, buffer_of(b, a->buffer),
                (uint8_t)((a->read ? ACCESS_READ : 0) |
                          (!a->written      ? 0
                               : item->part ? ACCESS_WRITE | ACCESS_PART
                                            : ACCESS_WRITE)));
    }
    s->nvar = k->nvar;
    s->var = NEW_N(b->p->arena, uint32_t, k->nvar);
    for (uint32_t i = 0; i < k->nvar; i++) s->var[i] = var_of(b, var_name(k->var[i]), iteration);
    s->may_idle = plan_may_idle(b->p, s);
    if (k->thread_bound) s->thread_count = uop_is_const(k->thread_bound) ? uop_const_int(k->thread_bound) : -1;
    if (!item->once) b->p->flops += k->flops;
    return TG_OK;
}

static TgStatus host_step(Build *b, const ScheduleItem *item)
{
    uint32_t nin = item->call->nsrc - 1, nout = 0, *result = NEW_N(b->p->arena, uint32_t, item->nout);
    for (uint32_t i = 0; i < item->nout; i++)
        if (item->out[i]) result[nout++] = i;
    uint32_t n = nin + nout;
    Step *s = new_step(b, STEP_HOST, item->once, n);
    HostTensor *tensor = NEW_N(b->p->arena, HostTensor, n);
    HostCall *call = NEW(b->p->arena, HostCall);
    for (uint32_t i = 0; i < n; i++) {
        const UOp *u = i < nin ? item->call->src[i + 1] : item->out[result[i - nin]];
        if (!uop_is_memory(uop_memory(u)))
            return fail(TG_INTERNAL, "plan: host call: argument %u is %s, not memory", i, op_name(u->op));
        tensor[i] = (HostTensor){ u->dtype, u->shape };
        set_arg(b, s, i, buffer_of(b, u), i < nin ? ACCESS_READ : ACCESS_WRITE);
    }
    const UOp *function = item->call->src[0];
    uint32_t *var = NEW_N(b->p->arena, uint32_t, function->nsrc);
    /* one of a single value is folded */
    for (uint32_t i = 0; i < function->nsrc; i++)
        var[i] = add_var(b->p, function->src[i]->op == UOP_DEFINE_VAR ? var_name(function->src[i]) : "-");
    *call = (HostCall){ item->call, b->p, tensor, nin, nout, result, var, .at = item->at };
    s->call = call;
    set_origins(b, s, &item->origins);
    return TG_OK;
}

static TgStatus copy_step(Build *b, const ScheduleItem *item)
{
    if (item->var[0]) return fail(TG_INTERNAL, "plan: a copy into a place that a variable tells");
    Step *s = new_step(b, STEP_COPY, item->once, 2);
    set_arg(b, s, 0, buffer_of(b, item->mem[0]), ACCESS_WRITE);
    set_arg(b, s, 1, buffer_of(b, item->mem[1]), ACCESS_READ);
    return TG_OK;
}

static TgStatus item_step(Build *b, const ScheduleItem *item, const Iteration *iteration)
{
    switch (item->kind) {
    case ITEM_KERNEL: return kernel_step(b, item, iteration);
    case ITEM_HOST: return host_step(b, item);
    case ITEM_COPY: return copy_step(b, item);
    default: return fail(TG_INTERNAL, "plan: a control item out of place");
    }
}

/* ---- loops and branches ---- */

static TgStatus control_step(Build *b, HostFn fn, const Control *c, const UOp *const *mem, uint32_t n)
{
    Step *s = new_step(b, STEP_HOST, false, n);
    HostTensor *tensor = NEW_N(b->p->arena, HostTensor, n + 1);
    HostCall *call = NEW(b->p->arena, HostCall);
    for (uint32_t k = 0; k < n; k++) {
        if (!uop_is_memory(uop_memory(mem[k])))
            return fail(TG_INTERNAL, "plan: a condition is %s, not memory", op_name(mem[k]->op));
        tensor[k] = (HostTensor){ mem[k]->dtype, mem[k]->shape };
        set_arg(b, s, k, buffer_of(b, mem[k]), ACCESS_READ);
    }
    *call = (HostCall){ .plan = b->p, .tensor = tensor, .nin = n, .control = c };
    s->host = fn;
    s->call = call;
    return TG_OK;
}

static uint32_t jump_step(Build *b, uint32_t var)
{
    Step *s = new_step(b, STEP_JUMP, false, 0);
    b->p->jumps = true;
    s->nvar = 1;
    s->var = NEW_N(b->p->arena, uint32_t, 1);
    s->var[0] = var;
    return b->p->nstep - 1;
}

static TgStatus add_range(Build *b, bool once, uint32_t from, uint32_t to, const Iteration *iteration);

static Control *new_control(Build *b)
{
    Control *c = NEW(b->p->arena, Control);
    c->step = c->count = -1;
    c->flag = (int32_t)add_var(b->p, arena_printf(b->p->arena, "#flag%u", b->nflag++));
    return c;
}

static void note_loop(Build *b, uint32_t first, uint32_t last)
{
    if (!(b->nloop & (b->nloop + 1))) {                         /* room for 1, 3, 7 .. */
        Range *grown = NEW_N(b->p->arena, Range, 2 * b->nloop + 1);
        if (b->nloop) memcpy(grown, b->loop, b->nloop * sizeof *grown);
        b->loop = grown;
    }
    b->loop[b->nloop++] = (Range){ first, last };
}

/* begin, JUMP out, body, next, JUMP to the body. */
static TgStatus loop_steps(Build *b, uint32_t i, uint32_t end, const Iteration *iteration)
{
    const ScheduleItem *loop = &b->s->item[i], *next = &b->s->item[end];
    Control *c = new_control(b), *d = NEW(b->p->arena, Control);
    const UOp *mem[2];
    uint32_t n = 0, first = b->p->nstep;
    c->trip = loop->trip;
    c->step = (int32_t)add_var(b->p, var_name(loop->var[0]));
    if (loop->var[1]) c->count = (int32_t)add_var(b->p, var_name(loop->var[1]));
    *d = *c;
    if ((c->has_trip = loop->mem[0] != NULL)) mem[n++] = loop->mem[0];
    if ((c->has_keep = loop->mem[1] != NULL)) mem[n++] = loop->mem[1];
    TRY(control_step(b, control_begin, c, mem, n));
    uint32_t out = jump_step(b, (uint32_t)c->flag), body = b->p->nstep;
    TRY(add_range(b, false, i + 1, end, iteration));
    n = 0;
    if ((d->has_trip = loop->mem[0] != NULL)) mem[n++] = loop->mem[0];
    if ((d->has_keep = next->mem[0] != NULL)) mem[n++] = next->mem[0];
    TRY(control_step(b, control_next, d, mem, n));
    uint32_t back = jump_step(b, (uint32_t)d->flag);
    b->p->step[back].target = body;
    b->p->step[out].target = b->p->nstep;
    note_loop(b, first, back);
    return TG_OK;
}

static TgStatus branch_steps(Build *b, uint32_t i, uint32_t middle, uint32_t end, const Iteration *iteration)
{
    Control *c = new_control(b);
    TRY(control_step(b, control_if, c, b->s->item[i].mem, 1));
    uint32_t no = jump_step(b, (uint32_t)c->flag);
    TRY(add_range(b, false, i + 1, middle, iteration));
    uint32_t over = jump_step(b, var_of(b, "#", &(Iteration){ "#", 0, NULL }));
    b->p->step[no].target = b->p->nstep;
    TRY(add_range(b, false, middle + 1, end, iteration));
    b->p->step[over].target = b->p->nstep;
    return TG_OK;
}

/* The item that closes the one at i: NEXT of a LOOP, ELSE or ENDIF. */
static uint32_t end_of(const Schedule *s, uint32_t i)
{
    uint32_t depth = 0;
    for (i++; i < s->count; i++) {
        ItemKind k = s->item[i].kind;
        if (!depth && (k == ITEM_NEXT || k == ITEM_ELSE || k == ITEM_ENDIF)) break;
        depth += k == ITEM_LOOP || k == ITEM_IF ? 1 : k == ITEM_NEXT || k == ITEM_ENDIF ? -1u : 0;
    }
    return i;
}

enum { STEPS_MAX = 1 << 22, WRITTEN_OUT_MAX = 1 << 14 };

static bool has_size_of(const UOp *u, const char *var)
{
    bool found = false;
    for (uint32_t k = 0; k < uop_rank(u) && !found; k++) found = reads_var(uop_dim(u, k), var);
    return found;
}

/* Is there a host function among these items, some of whose tensors have sizes by that variable? They are given no
 * arguments but the variables themselves. */
static bool host_reads(const Schedule *s, uint32_t from, uint32_t to, const char *var)
{
    bool found = false;
    for (uint32_t i = from; i < to && !found; i++) {
        const ScheduleItem *x = &s->item[i];
        for (uint32_t k = 0; x->kind == ITEM_HOST && k < x->nout; k++)
            found |= x->out[k] && has_size_of(x->out[k], var);
        for (uint32_t k = 1; x->kind == ITEM_HOST && k < x->call->nsrc; k++) found |= has_size_of(x->call->src[k], var);
    }
    return found;
}

/* A loop of known length is written out, its body's items once an iteration with the step as an argument, when that is
 * not too long. */
static bool is_written_out(const Schedule *s, uint32_t at, uint32_t end, int64_t inside)
{
    const ScheduleItem *loop = &s->item[at], *next = &s->item[end];
    if (host_reads(s, at + 1, end, var_name(loop->var[0]))) return false;
    return inside <= WRITTEN_OUT_MAX && loop->trip >= 0 && loop->trip < WRITTEN_OUT_MAX && !loop->mem[1] &&
        !next->mem[0] && inside * (loop->trip + 1) <= WRITTEN_OUT_MAX;
}

/* Steps of these items; the most iterations of a loop that is written out. */
static int64_t count_steps(const Schedule *s, uint32_t from, uint32_t to, int64_t *most)
{
    int64_t n = 0;
    for (uint32_t i = from; i < to && n <= STEPS_MAX; i++, n++) {
        if (s->item[i].kind != ITEM_LOOP) continue;
        uint32_t end = end_of(s, i);
        int64_t inside = count_steps(s, i + 1, end, most),
                iterations = is_written_out(s, i, end, inside) ? s->item[i].trip + 1 : 0;
        if (*most < iterations) *most = iterations;
        n += iterations ? inside * iterations : inside + 4;
        i = end;
    }
    return n;
}

static TgStatus add_loop(Build *b, bool once, uint32_t i, uint32_t end, const Iteration *iteration)
{
    const ScheduleItem *item = &b->s->item[i];
    int64_t most = 0, inside = count_steps(b->s, i + 1, end, &most);
    if (!once && !is_written_out(b->s, i, end, inside)) return loop_steps(b, i, end, iteration);
    for (int64_t r = 0; r < (once ? 1 : item->trip); r++)
        TRY(add_range(b, once, i + 1, end, &(Iteration){ var_name(item->var[0]), r, iteration }));
    return TG_OK;
}

static TgStatus add_range(Build *b, bool once, uint32_t from, uint32_t to, const Iteration *iteration)
{
    for (uint32_t i = from; i < to; i++) {
        const ScheduleItem *item = &b->s->item[i];
        if (item->kind == ITEM_LOOP) {
            uint32_t end = end_of(b->s, i);
            TRY(add_loop(b, once, i, end, iteration));
            i = end;
        } else if (item->kind == ITEM_IF) {
            uint32_t middle = end_of(b->s, i), end = end_of(b->s, middle);
            if (once) {
                TRY(add_range(b, true, i + 1, middle, iteration));
                TRY(add_range(b, true, middle + 1, end, iteration));
            } else TRY(branch_steps(b, i, middle, end, iteration));
            i = end;
        } else if (item->once == once) TRY(item_step(b, item, iteration));
    }
    return TG_OK;
}

/* `once` steps first: they depend on constants only, so the order stays legal. */
static TgStatus add_steps(Build *b)
{
    TRY(add_range(b, true, 0, b->s->count, NULL));
    return add_range(b, false, 0, b->s->count, NULL);
}

/* ---- places ---- */

/* A value that a run's steps store goes straight to the caller's memory; the rest is copied there. */
static void add_outputs(Build *b)
{
    Plan *p = b->p;
    for (uint32_t k = 0; k < b->s->noutput; k++) {
        uint32_t from = buffer_of(b, b->s->output[k]);
        const UOp *u = b->use[from].uop;
        bool direct = p->buffer[from].kind == MEM_ARENA && b->use[from].run_write && !b->use[from].once_write &&
            !graph_buffer(b->s->g, buffer_slot(u))->zeroed;
        if (!direct) {
            Step *s = new_step(b, STEP_COPY, false, 2);
            set_arg(b, s, 0, new_buffer(b, u, MEM_OUTPUT), ACCESS_WRITE);
            set_arg(b, s, 1, from, ACCESS_READ);
            from = s->arg[0];
        }
        p->buffer[from].kind = MEM_OUTPUT;
        p->buffer[from].offset = k;
    }
}

/* ---- the whole ---- */

static void see_input(Build *b, const UOp *u)
{
    u = uop_memory(u);
    if (u->op == UOP_PARAM && u->arg.i >= b->ninput_cap) b->ninput_cap = (uint32_t)u->arg.i + 1;
}

static void count_inputs(Build *b)
{
    for (uint32_t i = 0; i < b->s->count; i++) {
        const ScheduleItem *item = &b->s->item[i];
        for (uint32_t k = 0; item->kind == ITEM_KERNEL && k < item->kernel->nparam; k++)
            see_input(b, item->kernel->param[k].buffer);
        for (uint32_t k = 1; item->kind == ITEM_HOST && k < item->call->nsrc; k++) see_input(b, item->call->src[k]);
        for (uint32_t k = 0; k < 2; k++)
            if (item->mem[k]) see_input(b, item->mem[k]);
    }
    for (uint32_t k = 0; k < b->s->noutput; k++) see_input(b, b->s->output[k]);
}

static TgStatus allocate(Build *b)
{
    Plan *p = b->p;
    Schedule *s = b->s;
    count_inputs(b);
    uint32_t buffers = graph_buffer_count(s->g) + b->ninput_cap + s->noutput;
    b->of_buffer = NEW_N(p->arena, uint32_t, graph_buffer_count(s->g));
    b->of_input = NEW_N(p->arena, uint32_t, b->ninput_cap);
    b->use = NEW_N(p->arena, Use, buffers);
    p->buffer = NEW_N(p->arena, PlanBuffer, buffers);
    int64_t iterations = 0, steps = count_steps(s, 0, s->count, &iterations);
    if (steps > STEPS_MAX) return fail(TG_LIMIT, "loops of more than %d steps in all", STEPS_MAX);
    p->step = NEW_N(p->arena, Step, (uint64_t)steps + s->noutput);
    b->step_var = NEW_N(p->arena, uint32_t, iterations + 1);
    p->kernel = NEW_N(p->arena, Kernel *, s->count);
    p->ninput = b->ninput_cap;
    p->noutput = s->noutput;
    map_init(&b->kernel, p->arena);
    return TG_OK;
}

/* Variables of sizes that somebody requests: of what comes in, goes out, has a halo, is copied or read by host
 * functions. Kernels have their own. */
static void add_size_vars(Plan *p)
{
    bool *needed = NEW_N(p->arena, bool, p->nbuffer + 1);
    for (uint32_t k = 0; k < p->nbuffer; k++)
        needed[k] = p->buffer[k].kind == MEM_INPUT || p->buffer[k].kind == MEM_OUTPUT || p->buffer[k].halo;
    for (uint32_t i = 0; i < p->nstep; i++)
        for (uint32_t k = 0; p->step[i].kind != STEP_KERNEL && k < p->step[i].narg; k++)
            needed[p->step[i].arg[k]] = true;
    for (uint32_t k = 0; k < p->nbuffer; k++)
        for (uint32_t d = 0; needed[k] && d < p->buffer[k].shape->rank; d++) add_vars_of(p, p->buffer[k].shape->dim[d]);
}

static const char *schedule_text(const Schedule *s, Arena *a)
{
    Text t = { 0 };
    schedule_print(&t, &s->list);
    const char *text = arena_strdup(a, t.s ? t.s : "");
    text_free(&t);
    return text;
}

TgStatus plan_make(Plan **out, Schedule *s, const Target *t)
{
    Arena *arena = arena_new();
    Plan *p = NEW(arena, Plan);
    Build b = { .p = p, .s = s, .clears = t->clears_halos };
    p->devices = t->devices > 1 ? t->devices : 1;
    p->arena = arena;
    p->schedule = schedule_text(s, arena);
    TgStatus status = allocate(&b);
    if (status == TG_OK) status = add_steps(&b);
    if (status == TG_OK) {
        add_outputs(&b);
        plan_shares(&b);
        if (t->rank) plan_ranks(&b, t);
    }
    if (status == TG_OK) status = plan_place(&b, t);
    if (status != TG_OK) {
        plan_free(p);
        return status;
    }
    add_size_vars(p);
    set_var_values(p);
    plan_sync(p, t);
    *out = p;
    return TG_OK;
}

void plan_free(Plan *p)
{
    if (p) arena_free(p->arena);
}
