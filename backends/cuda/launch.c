/* Executable: a plan's memory on the device, and its steps as CUDA graphs.
 *
 * Everything has a fixed address: one block holds what stays (constants, persistent buffers, inputs, outputs), one the
 * arena, one pinned host block the staging of inputs, outputs and of what host functions see. Host functions end a
 * graph, those in a row one for all of them; between two graphs' ends every kernel and copy is a node whose edges are
 * the conflicts of byte ranges, transitively reduced: independent branches run side by side.
 * Must hold: plan, code and device outlive the executable; kernels whose sizes changed are updated before their graph
 * is launched.
 */
#include <stdlib.h>
#include <string.h>

#include "backends/cuda/cuda.h"
#include "graph/base/memory.h"
#include "graph/base/watcher.h"

enum { ALIGN = 256 };

/* A node: a step of the plan, or the way of one buffer up to the device or down to the host; both look like a step to
 * plan_conflict. */
typedef enum { NODE_STEP, NODE_UP, NODE_DOWN } NodeKind;
typedef struct {
    NodeKind kind;
    Step own, *step;                /* NODE_UP, NODE_DOWN: step is &own */
    uint32_t buffer;
    uint8_t access;
    Launch launch;                  /* kernels */
    CuNode node;                    /* NULL: nothing to do */
    bool symbolic, enabled;
} Node;

typedef struct {
    Node *node;
    uint32_t count, cap;
    CuGraph graph;
    CuGraphExec exec;
    const Step *host;               /* nhost steps in a row that run after the graph */
    void ***host_arg;
    uint32_t nhost;
    const Step *jump;               /* after that: to segment `target` when its variable is 0 */
    uint32_t target;
    bool symbolic;
    int64_t *vars;                  /* that its graph holds; NULL: none yet */
} Segment;

struct Executable {
    Device *d;
    const Plan *p;
    Code *c;
    Arena *arena;
    CuPtr resident, scratch, load_only;      /* allocations */
    char *staging;
    CuPtr *at;                      /* by PlanBuffer */
    char **mirror;                  /* pinned host memory of a buffer, or NULL */
    Segment *segment;
    uint32_t nsegment;
    int64_t *vars;                  /* the values that launches are sized by */
    void *guards;                   /* pinned: where the words of the plan's guards come down after a run */
    bool timed;
};

/* ---- launches ---- */

void launch_init(Launch *l, Arena *arena, const Kernel *k, CuFunction f)
{
    uint32_t n = k->nparam + k->nvar;
    *l = (Launch){ .kernel = k, .node = { .func = f, .shared_bytes = (unsigned)k->shared_bytes } };
    l->value = NEW_N(arena, int64_t, n);
    l->node.params = NEW_N(arena, void *, n + 1);
    for (uint32_t i = 0; i < n; i++) l->node.params[i] = &l->value[i];
}

bool launch_size(Launch *l, const int64_t *vars)
{
    bool any = true;
    for (int axis = 0; axis < 3; axis++) {
        int64_t grid = l->kernel->grid[axis] ? kernel_value(l->kernel, l->kernel->grid[axis], vars) : 1,
                block = l->kernel->block[axis] ? kernel_value(l->kernel, l->kernel->block[axis], vars) : 1;
        any &= grid > 0 && block > 0;
        l->node.grid[axis] = grid > 0 ? (unsigned)grid : 1;
        l->node.block[axis] = block > 0 ? (unsigned)block : 1;
    }
    for (uint32_t i = 0; i < l->kernel->nvar; i++) l->value[l->kernel->nparam + i] = vars[i];
    return any;
}

static bool is_symbolic(const Kernel *k)
{
    bool symbolic = k->nvar > 0;
    for (int axis = 0; axis < 3; axis++)
        symbolic |=
            (k->grid[axis] && !uop_is_const(k->grid[axis])) || (k->block[axis] && !uop_is_const(k->block[axis]));
    return symbolic;
}

static bool size_node(const Executable *e, Node *n)
{
    int64_t vars[KERNEL_VARS];
    for (uint32_t i = 0; i < n->step->nvar; i++) vars[i] = e->vars[n->step->var[i]];
    return launch_size(&n->launch, vars) && !plan_idle(e->p, n->step, e->vars);
}

/* ---- memory ---- */

static int64_t up(int64_t n) { return (n + ALIGN - 1) / ALIGN * ALIGN; }

static TgStatus allocate(CuPtr *out, int64_t bytes)
{
    if (bytes) CU(MemAlloc(out, (size_t)bytes));
    return TG_OK;
}

static bool is_load_only(const PlanBuffer *m) { return m->kind == MEM_CONST && m->once; }

static TgStatus place_device(Executable *e)
{
    const Plan *p = e->p;
    int64_t resident = up(p->persist_bytes), load_only = 0;
    for (uint32_t k = 0; k < p->nbuffer; k++) {
        const PlanBuffer *m = &p->buffer[k];
        int64_t *end = is_load_only(m) ? &load_only : &resident;
        if (m->kind == MEM_ARENA || m->kind == MEM_PERSIST) continue;
        e->at[k] = (CuPtr)*end;
        *end += up(m->size_bytes);
    }
    TRY(allocate(&e->resident, resident));
    TRY(allocate(&e->scratch, p->arena_bytes));
    TRY(allocate(&e->load_only, load_only));
    for (uint32_t k = 0; k < p->nbuffer; k++) {
        const PlanBuffer *m = &p->buffer[k];
        if (m->kind == MEM_ARENA) e->at[k] = e->scratch + (CuPtr)m->offset;
        else if (m->kind == MEM_PERSIST) e->at[k] = e->resident + (CuPtr)m->offset;
        else e->at[k] += is_load_only(m) ? e->load_only : e->resident;
    }
    return TG_OK;
}

static TgStatus place_host(Executable *e)
{
    const Plan *p = e->p;
    int64_t bytes = 0;
    bool *need = NEW_N(e->arena, bool, p->nbuffer);
    for (uint32_t k = 0; k < p->nbuffer; k++)
        need[k] = p->buffer[k].kind == MEM_INPUT || p->buffer[k].kind == MEM_OUTPUT;
    for (uint32_t i = 0; i < p->nstep; i++)
        for (uint32_t a = 0; p->step[i].kind == STEP_HOST && a < p->step[i].narg; a++)
            need[p->step[i].arg[a]] = p->buffer[p->step[i].arg[a]].kind != MEM_CONST || need[p->step[i].arg[a]];
    for (uint32_t k = 0; k < p->nbuffer; k++) bytes += need[k] ? up(p->buffer[k].size_bytes + 1) : 0;
    bytes += up(p->nguard * GUARD_BYTES);
    if (bytes) CU(MemHostAlloc((void **)&e->staging, (size_t)bytes, 0));
    for (uint32_t k = 0, at = 0; k < p->nbuffer; k++) {
        if (!need[k]) continue;
        e->mirror[k] = e->staging + (int64_t)at * ALIGN;
        at += (uint32_t)(up(p->buffer[k].size_bytes + 1) / ALIGN);
    }
    if (p->nguard) e->guards = e->staging + bytes - up(p->nguard * GUARD_BYTES);
    return TG_OK;
}

static TgStatus upload(Executable *e)
{
    if (e->p->persist_bytes) CU(MemsetD8(e->resident, 0, (size_t)e->p->persist_bytes));
    for (uint32_t k = 0; k < e->p->nbuffer; k++) {
        const PlanBuffer *m = &e->p->buffer[k];
        if (m->kind != MEM_CONST || !m->size_bytes) continue;
        CU(MemcpyHtoD(e->at[k], m->data, (size_t)m->size_bytes));
        if (e->p->forget) e->p->forget(e->p->forget_owner, m->data, (size_t)m->size_bytes);
    }
    /* what was set and copied is there: the kernels' stream does not wait for it */
    CU(StreamSynchronize(NULL));
    return TG_OK;
}

/* ---- graphs ---- */

static Node *add_node(Segment *s, Arena *arena, NodeKind kind, Step *step)
{
    if (s->count == s->cap) {
        Node *grown = NEW_N(arena, Node, s->cap = s->cap ? s->cap * 2 : 32);
        if (s->count) memcpy(grown, s->node, sizeof *grown * s->count);
        s->node = grown;
    }
    s->node[s->count] = (Node){ .kind = kind, .step = step };
    return &s->node[s->count++];
}

static void add_copy(Segment *s, Arena *arena, NodeKind kind, uint32_t buffer)
{
    Node *n = add_node(s, arena, kind, NULL);
    n->buffer = buffer;
    n->access = kind == NODE_UP ? ACCESS_WRITE : ACCESS_READ;
}

/* Steps point into their own node, which has its last place now. */
static void settle(Segment *s)
{
    for (uint32_t i = 0; i < s->count; i++) {
        Node *n = &s->node[i];
        if (n->kind == NODE_STEP) continue;
        n->own = (Step){ .kind = STEP_COPY, .narg = 1, .arg = &n->buffer, .access = &n->access };
        n->step = &n->own;
    }
}

static TgStatus add_kernel(Executable *e, Segment *s, Node *n, const CuNode *after, size_t count)
{
    const Kernel *k = e->p->kernel[n->step->kernel];
    launch_init(&n->launch, e->arena, k, e->c->kernel[n->step->kernel].function);
    for (uint32_t i = 0; i < n->step->narg; i++) n->launch.value[i] = (int64_t)e->at[n->step->arg[i]];
    n->symbolic = is_symbolic(k);
    n->enabled = true;
    s->symbolic |= n->symbolic;
    if (!size_node(e, n) && !n->symbolic) return TG_OK;
    CU(GraphAddKernelNode(&n->node, s->graph, after, count, &n->launch.node));
    return TG_OK;
}

static TgStatus add_memcpy(Executable *e, Segment *s, Node *n, const CuNode *after, size_t count)
{
    uint32_t to = n->step->arg[0], from = n->step->arg[n->step->narg - 1];
    size_t bytes = (size_t)e->p->buffer[from].size_bytes;
    CuCopy c = { .width = bytes, .height = 1, .depth = 1 };
    c.from = (CuCopyEnd){ .memory = CU_MEMORY_DEVICE, .device = e->at[from], .pitch = bytes, .height = 1 };
    c.to = (CuCopyEnd){ .memory = CU_MEMORY_DEVICE, .device = e->at[to], .pitch = bytes, .height = 1 };
    if (n->kind == NODE_UP) c.from.memory = CU_MEMORY_HOST, c.from.host = e->mirror[from], c.from.device = 0;
    if (n->kind == NODE_DOWN) c.to.memory = CU_MEMORY_HOST, c.to.host = e->mirror[to], c.to.device = 0;
    if (!bytes) return TG_OK;
    CU(GraphAddMemcpyNode(&n->node, s->graph, after, count, &c, e->d->ctx));
    return TG_OK;
}

/* Nodes in order, each after the earlier ones that it conflicts with and that no other of those waits for already.
 * behind[i]: bits of all that node i waits for. A node that does nothing (an extent is 0) orders nothing. */
static TgStatus link_nodes(Executable *e, Segment *s)
{
    uint32_t words = (s->count + 63) / 64;
    uint64_t *behind = mem_zeros((size_t)s->count * words + 1, sizeof *behind);
    CuNode *after = mem_new(sizeof *after * (s->count + 1));
    TgStatus status = TG_OK;
    for (uint32_t i = 0; i < s->count && status == TG_OK; i++) {
        Node *n = &s->node[i];
        uint64_t *mine = behind + (size_t)i * words;
        size_t count = 0;
        for (uint32_t j = i; j--;) {
            const Node *m = &s->node[j];
            if (!m->node || (mine[j / 64] >> j % 64 & 1) || !plan_conflict(e->p, m->step, n->step)) continue;
            after[count++] = m->node;
            for (uint32_t w = 0; w <= j / 64; w++) mine[w] |= behind[(size_t)j * words + w];
            mine[j / 64] |= UINT64_C(1) << j % 64;
        }
        status = n->kind == NODE_STEP && n->step->kind == STEP_KERNEL ? add_kernel(e, s, n, after, count)
                                                                      : add_memcpy(e, s, n, after, count);
    }
    mem_free(after);
    mem_free(behind);
    return status;
}

static TgStatus build_graph(Executable *e, Segment *s)
{
    settle(s);
    if (!s->count) return TG_OK;
    CU(GraphCreate(&s->graph, 0));
    TRY(link_nodes(e, s));
    CU(GraphInstantiate(&s->exec, s->graph, 0));
    CU(GraphUpload(s->exec, e->d->stream));
    return TG_OK;
}

/* Room for the host steps in a row from step i on. */
static void begin_host(Executable *e, Segment *s, uint32_t i, uint32_t last)
{
    uint32_t n = 0;
    while (i + n < last && e->p->step[i + n].kind == STEP_HOST) n++;
    s->host = &e->p->step[i];
    s->host_arg = NEW_N(e->arena, void **, n);
}

/* What an earlier one of the row wrote is in its mirror already. */
static bool is_on_host(const Segment *s, uint32_t buffer)
{
    for (uint32_t h = 0; h < s->nhost; h++)
        for (uint32_t a = 0; a < s->host[h].narg; a++)
            if (s->host[h].arg[a] == buffer) return true;
    return false;
}

static void add_host(Executable *e, Segment *s, const Step *step)
{
    void **arg = s->host_arg[s->nhost] = NEW_N(e->arena, void *, step->narg);
    for (uint32_t a = 0; a < step->narg; a++) {
        const PlanBuffer *m = &e->p->buffer[step->arg[a]];
        arg[a] = m->kind == MEM_CONST ? (void *)(uintptr_t)m->data : e->mirror[step->arg[a]];
        if ((step->access[a] & ACCESS_READ) && m->kind != MEM_CONST && m->kind != MEM_INPUT &&
            !is_on_host(s, step->arg[a]))
            add_copy(s, e->arena, NODE_DOWN, step->arg[a]);
    }
    s->nhost++;
}

/* The steps first .. last - 1 as segments; inputs come up in the first, outputs go down in the last. A long plan is
 * cut: edges are found by comparing all pairs. */
static TgStatus build_segments(Executable *e, uint32_t first, uint32_t last, bool ports)
{
    const Plan *p = e->p;
    enum { NODES = 1024 };
    uint32_t cuts = 0, *segment_of = NEW_N(e->arena, uint32_t, p->nstep + 1);
    bool *landing = NEW_N(e->arena, bool, p->nstep + 1);
    for (uint32_t i = first; i < last; i++) {
        cuts += p->step[i].kind == STEP_HOST ? 1 : p->step[i].kind == STEP_JUMP ? 2 : 0;
        if (p->step[i].kind == STEP_JUMP) landing[p->step[i].target] = true;
    }
    e->segment = NEW_N(e->arena, Segment, cuts + (last - first + p->nbuffer) / NODES + 1);
    Segment *s = e->segment;
    for (uint32_t k = 0; ports && k < p->nbuffer; k++)
        if (p->buffer[k].kind == MEM_INPUT) add_copy(s, e->arena, NODE_UP, k);
    for (uint32_t i = first; i < last; i++) {
        Step *step = &p->step[i];
        if (landing[i]) segment_of[i] = (uint32_t)(++s - e->segment);
        if (step->kind == STEP_JUMP) {
            s++->jump = step;
            continue;
        }
        if (step->kind != STEP_HOST) {
            s += s->count >= NODES;
            add_node(s, e->arena, NODE_STEP, step);
            continue;
        }
        if (!step->host) return fail(TG_UNSUPPORTED, "the host function of step %u is not covered yet", i);
        if (i == first || landing[i] || p->step[i - 1].kind != STEP_HOST) begin_host(e, s++, i, last);
        add_host(e, s - 1, step);
        for (uint32_t a = 0; a < step->narg; a++)
            if (step->access[a] & ACCESS_WRITE) add_copy(s, e->arena, NODE_UP, step->arg[a]);
    }
    if (landing[last]) segment_of[last] = (uint32_t)(++s - e->segment);
    for (uint32_t k = 0; ports && k < p->nbuffer; k++)
        if (p->buffer[k].kind == MEM_OUTPUT) add_copy(s, e->arena, NODE_DOWN, k);
    e->nsegment = (uint32_t)(s - e->segment) + 1;
    for (uint32_t k = 0; k < e->nsegment; k++) {
        if (e->segment[k].jump) e->segment[k].target = segment_of[e->segment[k].jump->target];
        TRY(build_graph(e, &e->segment[k]));
    }
    return TG_OK;
}

static void free_segments(Executable *e)
{
    for (uint32_t k = 0; k < e->nsegment; k++) {
        if (e->segment[k].exec) cuda.GraphExecDestroy(e->segment[k].exec);
        if (e->segment[k].graph) cuda.GraphDestroy(e->segment[k].graph);
    }
    e->nsegment = 0;
}

/* ---- running ---- */

static TgStatus update(Executable *e, Segment *s)
{
    for (uint32_t i = 0; i < s->count; i++) {
        Node *n = &s->node[i];
        if (!n->symbolic) continue;
        bool enabled = size_node(e, n);
        CU(GraphExecKernelNodeSetParams(s->exec, n->node, &n->launch.node));
        if (enabled != n->enabled) CU(GraphNodeSetEnabled(s->exec, n->node, enabled));
        n->enabled = enabled;
    }
    return TG_OK;
}

static TgStatus host_step(const Step *h, void **arg, int64_t *vars)
{
    TgStatus status;
    ATTEMPT(status, h->host(h->call, arg, vars));
    return host_status(h->call, status);
}

static TgStatus run_segments(Executable *e, int64_t *vars)
{
    size_t bytes = sizeof *vars * e->p->nvar;
    for (uint32_t k = 0; k < e->nsegment; k++) {
        Segment *s = &e->segment[k];
        TRY(watch_check());
        if (s->symbolic && (!s->vars || memcmp(s->vars, vars, bytes))) {
            if (!s->vars) s->vars = arena_alloc(e->arena, bytes);
            memcpy(s->vars, vars, bytes);
            memcpy(e->vars, vars, bytes);
            TRY(update(e, s));
        }
        if (s->exec) CU(GraphLaunch(s->exec, e->d->stream));
        if (s->nhost) CU(StreamSynchronize(e->d->stream));
        for (uint32_t h = 0; h < s->nhost; h++)
            TRY(host_step(&s->host[h], s->host_arg[h], vars));
        if (s->jump && !vars[s->jump->var[0]]) k = s->target - 1;
    }
    return TG_OK;
}

/* The guards' words come down behind the last graph; the failing ones are cleared for the next run. */
static TgStatus finish(Executable *e, TgStatus status, TgStatus code)
{
    size_t bytes = GUARD_BYTES * (size_t)e->p->nguard;
    if (bytes) CU(MemcpyDtoHAsync(e->guards, e->resident, bytes, e->d->stream));
    CU(StreamSynchronize(e->d->stream));
    TgStatus guarded = bytes ? plan_guards(e->p, e->guards, code) : TG_OK;
    if (guarded) {
        CU(MemsetD8(e->resident, 0, bytes));
        CU(StreamSynchronize(NULL));
    }
    return guarded ? guarded : status;
}

static int64_t used_bytes(const Executable *e, const PlanBuffer *m, const int64_t *vars)
{
    int64_t bytes = dtype_size(m->dtype);
    for (uint32_t d = 0; d < m->shape->rank; d++)
        bytes *=
            uop_is_const(m->shape->dim[d]) ? uop_const_int(m->shape->dim[d]) : plan_eval(e->p, m->shape->dim[d], vars);
    return bytes < m->size_bytes ? bytes : m->size_bytes;
}

TgStatus cuda_run(Executable *e, const void *const *inputs, void *const *outputs, int64_t *vars)
{
    const Plan *p = e->p;
    CU(CtxSetCurrent(e->d->ctx));
    for (uint32_t k = 0; k < p->nbuffer; k++)
        if (p->buffer[k].kind == MEM_INPUT)
            memcpy(e->mirror[k], inputs[p->buffer[k].offset], (size_t)used_bytes(e, &p->buffer[k], vars));
    CU(EventRecord(e->d->from, e->d->stream));
    TgStatus status = run_segments(e, vars);
    CU(EventRecord(e->d->to, e->d->stream));
    TRY(finish(e, status, TG_BAD_INPUT));
    e->timed = true;
    for (uint32_t k = 0; k < p->nbuffer; k++)
        if (p->buffer[k].kind == MEM_OUTPUT)
            memcpy(outputs[p->buffer[k].offset], e->mirror[k], (size_t)used_bytes(e, &p->buffer[k], vars));
    return TG_OK;
}

double cuda_device_seconds(const Executable *e)
{
    float ms = 0;
    return e->timed && !cuda.EventElapsedTime(&ms, e->d->from, e->d->to) ? (double)ms * 1e-3 : 0;
}

static TgStatus load(Executable *e)
{
    uint32_t once = 0;
    CU(CtxSetCurrent(e->d->ctx));
    TRY(place_device(e));
    TRY(place_host(e));
    TRY(upload(e));
    while (once < e->p->nstep && e->p->step[once].once) once++;
    if (e->p->nvar) memcpy(e->vars, e->p->var_value, sizeof *e->vars * e->p->nvar);
    if (once) {
        TRY(build_segments(e, 0, once, false));
        TRY(finish(e, run_segments(e, e->vars), TG_BAD_MODEL));
        free_segments(e);
    }
    if (e->load_only) CU(MemFree(e->load_only));
    e->load_only = 0;
    return build_segments(e, once, e->p->nstep, true);
}

static void undo_load(void *e) { cuda_unload(e); }

TgStatus cuda_load(Executable **out, Device *d, const Plan *p, Code *c)
{
    Executable *e = mem_zeros(1, sizeof *e);
    *e = (Executable){ .d = d, .p = p, .c = c, .arena = arena_new() };
    Undo undo;
    undo_push(&undo, undo_load, e);
    e->at = NEW_N(e->arena, CuPtr, p->nbuffer);
    e->mirror = NEW_N(e->arena, char *, p->nbuffer);
    e->vars = NEW_N(e->arena, int64_t, p->nvar + 1);
    TgStatus status = load(e);
    undo_pop(&undo);
    if (status == TG_OK) *out = e;
    else cuda_unload(e);
    return status;
}

void cuda_unload(Executable *e)
{
    if (!e) return;
    cuda.CtxSetCurrent(e->d->ctx);
    cuda.StreamSynchronize(e->d->stream);
    free_segments(e);
    if (e->staging) cuda.MemFreeHost(e->staging);
    if (e->load_only) cuda.MemFree(e->load_only);
    if (e->scratch) cuda.MemFree(e->scratch);
    if (e->resident) cuda.MemFree(e->resident);
    arena_free(e->arena);
    mem_free(e);
}
