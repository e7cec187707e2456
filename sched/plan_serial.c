/* Comes in: a plan that plan_make has finished, before or after its kernels have forgotten their code. Writing and
 * reading go through the same fields in the same order, a pair of functions for each struct. */
#include "sched/plan_serial.h"

#include <string.h>

enum { ALIGNED = 64 };                  /* of constants that are copied */

typedef struct {
    UOpWriter *w;
    Text *out;
    const PlanFiles *files;
    size_t bytes;                   /* of constants that are in no file */
    bool good;
} Writer;
typedef struct { UOpReader *u; ByteReader *in; const PlanFiles *files; Plan *p; } Reader;

static void put_numbers(Text *out, const uint32_t *v, uint32_t n)
{
    for (uint32_t k = 0; k < n; k++) put_int(out, v[k]);
}

static uint32_t *get_numbers(Reader *r, uint32_t n)
{
    uint32_t *v = NEW_N(r->p->arena, uint32_t, n + 1);
    for (uint32_t k = 0; k < n; k++) v[k] = (uint32_t)get_int(r->in);
    return v;
}

/* The numbers of things that there are fewer of than `most`. */
static uint32_t *get_indices(Reader *r, uint32_t n, uint32_t most)
{
    uint32_t *v = get_numbers(r, n);
    for (uint32_t k = 0; k < n; k++) r->in->bad |= v[k] >= most;
    return v;
}

/* ---- kernels: what schedule_forget_code leaves of them ---- */

static void write_kernel(Writer *w, const Kernel *k)
{
    put_bytes(w->out, k->name, sizeof k->name);
    put_bytes(w->out, k->key, sizeof k->key);
    put_bytes(w->out, &k->opts, sizeof k->opts);
    put_int(w->out, kernel_vectors(k));
    put_int(w->out, kernel_overlaps(k));
    put_int(w->out, k->flops);
    put_int(w->out, k->bytes);
    put_int(w->out, k->local_bytes);
    put_int(w->out, k->shared_bytes);
    put_float(w->out, k->needed);
    put_float(w->out, k->executed);
    put_int(w->out, k->nparam);
    for (uint32_t i = 0; i < k->nparam; i++) {
        const KernelParam *p = &k->param[i];
        put_int(w->out, p->written | p->read << 1 | p->constant << 2 | p->guard << 3);
        put_int(w->out, p->buffer ? p->buffer->dtype : -1);
        put_int(w->out, kernel_param_bytes(k, i));
    }
    put_int(w->out, k->nvar);
    for (uint32_t i = 0; i < k->nvar; i++) uop_write(w->w, k->var[i]);
    uop_write(w->w, k->thread_bound);
    for (int i = 0; i < 3; i++) uop_write(w->w, k->grid[i]), uop_write(w->w, k->block[i]);
}

static void get_exactly(Reader *r, void *out, size_t want)
{
    size_t size;
    const void *data = get_bytes(r->in, &size);
    r->in->bad |= size != want;
    if (want && size == want) memcpy(out, data, want);
}

static void read_params(Reader *r, Kernel *k)
{
    int64_t *bytes = NEW_N(r->p->arena, int64_t, k->nparam + 1);
    k->param_bytes = bytes;
    for (uint32_t i = 0; i < k->nparam; i++) {
        int64_t is = get_int(r->in), dtype = get_int(r->in);
        k->param[i] = (KernelParam){ .written = is & 1, .read = is & 2, .constant = is & 4, .guard = is & 8 };
        if (dtype >= 0 && dtype < DT_COUNT) k->param[i].buffer = uop_param(r->u->g, (DType)dtype, NULL, 0, i);
        bytes[i] = get_int(r->in);
    }
}

static Kernel *read_kernel(Reader *r)
{
    Kernel *k = NEW(r->p->arena, Kernel);
    k->g = r->u->g;
    get_exactly(r, k->name, sizeof k->name);
    get_exactly(r, k->key, sizeof k->key);
    get_exactly(r, &k->opts, sizeof k->opts);
    k->vectors = get_int(r->in);
    k->overlaps = get_int(r->in);
    k->flops = get_int(r->in);
    k->bytes = get_int(r->in);
    k->local_bytes = get_int(r->in);
    k->shared_bytes = get_int(r->in);
    k->needed = get_float(r->in);
    k->executed = get_float(r->in);
    k->nparam = get_count(r->in);
    r->in->bad |= k->nparam > KERNEL_PARAMS;
    if (r->in->bad) return k;
    read_params(r, k);
    k->nvar = get_count(r->in);
    k->var = NEW_N(r->p->arena, const UOp *, k->nvar + 1);
    for (uint32_t i = 0; i < k->nvar; i++) r->in->bad |= !(k->var[i] = uop_read(r->u));
    k->thread_bound = uop_read(r->u);
    for (int i = 0; i < 3; i++) k->grid[i] = uop_read(r->u), k->block[i] = uop_read(r->u);
    return k;
}

/* ---- buffers ---- */

static void write_halo(Writer *w, const Halo *h)
{
    put_int(w->out, h ? h->rank : 0);
    if (!h) return;
    put_int(w->out, h->fill);
    uop_write(w->w, h->element);
    for (uint32_t k = 0; k < h->rank; k++) {
        uop_write(w->w, h->axis[k].size);
        put_int(w->out, h->axis[k].before);
        put_int(w->out, h->axis[k].after);
    }
}

static const Halo *read_halo(Reader *r)
{
    uint32_t rank = get_count(r->in);
    if (!rank || rank > HALO_RANK) return r->in->bad |= rank != 0, NULL;
    Halo *h = arena_alloc(r->p->arena, sizeof *h + sizeof *h->axis * rank);
    h->rank = rank;
    h->fill = (uint8_t)get_int(r->in);
    r->in->bad |= !(h->element = uop_read(r->u));
    for (uint32_t k = 0; k < rank; k++) {
        r->in->bad |= !(h->axis[k].size = uop_read(r->u));
        h->axis[k].before = get_int(r->in);
        h->axis[k].after = get_int(r->in);
    }
    return h;
}

static void write_constant(Writer *w, const PlanBuffer *b)
{
    PlanPlace at;
    bool placed = w->files->place(w->files->owner, b->data, (size_t)b->size_bytes, &at);
    put_int(w->out, placed);
    if (placed) {
        put_int(w->out, at.file);
        put_int(w->out, (int64_t)at.offset);
    } else if ((w->bytes += (size_t)b->size_bytes) <= SERIAL_BYTES)
        put_bytes(w->out, b->data, (size_t)b->size_bytes);
    else w->good = false;
}

static const void *read_constant(Reader *r, size_t want)
{
    size_t size;
    if (get_int(r->in)) {
        int64_t file = get_int(r->in), offset = get_int(r->in);
        const void *data =
            r->files->find(r->files->owner, &(PlanPlace){ (uint32_t)file, (uint64_t)offset }, want);
        r->in->bad |= !data;
        return data;
    }
    const void *data = get_bytes(r->in, &size);
    char *copy = arena_alloc(r->p->arena, size + ALIGNED);
    copy += -(uintptr_t)copy & (ALIGNED - 1);
    r->in->bad |= size != want;
    return size ? memcpy(copy, data, size) : copy;
}

static void write_border(Writer *w, const Border *f)
{
    put_int(w->out, f != NULL);
    if (!f) return;
    put_int(w->out, f->pitch);
    put_int(w->out, f->at);
    put_int(w->out, f->gap);
    put_int(w->out, f->from);
    put_int(w->out, f->to);
    put_int(w->out, f->end);
    put_int(w->out, f->fill);
}

static const Border *read_border(Reader *r)
{
    if (!get_int(r->in)) return NULL;
    Border *f = NEW(r->p->arena, Border);
    f->pitch = get_int(r->in);
    f->at = get_int(r->in);
    f->gap = get_int(r->in);
    f->from = get_int(r->in);
    f->to = get_int(r->in);
    f->end = get_int(r->in);
    f->fill = (uint8_t)get_int(r->in);
    r->in->bad |= f->pitch < 1 || f->gap < 0;
    return f;
}

static void write_buffer(Writer *w, const PlanBuffer *b)
{
    put_int(w->out, b->kind | b->zeroed << 4 | b->once << 5);
    put_int(w->out, b->window);
    put_int(w->out, b->life);
    put_int(w->out, b->stride);
    put_int(w->out, b->every);
    put_int(w->out, b->first);
    put_int(w->out, b->kept);
    write_border(w, b->border);
    put_int(w->out, b->offset);
    put_int(w->out, b->size_bytes);
    put_int(w->out, b->dtype);
    shape_write(w->w, b->shape);
    write_halo(w, b->halo);
    if (b->kind == MEM_CONST) write_constant(w, b);
}

static void read_buffer(Reader *r, PlanBuffer *b)
{
    int64_t is = get_int(r->in);
    b->kind = (MemKind)(is & 15);
    b->zeroed = is & 16;
    b->once = is & 32;
    b->window = get_int(r->in);
    b->life = (uint32_t)get_int(r->in);
    b->stride = get_int(r->in);
    b->every = get_int(r->in);
    b->first = get_int(r->in);
    b->kept = get_int(r->in);
    b->border = read_border(r);
    b->offset = get_int(r->in);
    b->size_bytes = get_int(r->in);
    b->dtype = (DType)get_int(r->in);
    b->shape = shape_read(r->u);
    b->halo = read_halo(r);
    r->in->bad |= b->kind > MEM_OUTPUT || b->dtype >= DT_COUNT || b->size_bytes < 0 || (b->window && b->every < 1) ||
        b->kept < 0 || b->kept > b->window;
    if (b->kind == MEM_CONST && !r->in->bad) b->data = read_constant(r, (size_t)b->size_bytes);
}

/* ---- steps ---- */

static void write_guard(Text *out, const Guard *g)
{
    put_int(out, g != NULL);
    if (!g) return;
    put_int(out, g->kind | g->from_end << 8);
    put_text(out, g->node);
    put_text(out, g->op);
    put_text(out, g->field);
}

static const Guard *read_guard(Reader *r)
{
    if (!get_int(r->in)) return NULL;
    Guard *g = NEW(r->p->arena, Guard);
    int64_t is = get_int(r->in);
    g->kind = (GuardKind)(is & 255);
    g->from_end = is >> 8;
    g->node = get_text(r->in, r->p->arena);
    g->op = get_text(r->in, r->p->arena);
    g->field = get_text(r->in, r->p->arena);
    return g;
}

static void write_control(Text *out, const Control *c)
{
    put_int(out, c != NULL);
    if (!c) return;
    put_int(out, c->trip);
    put_int(out, c->step);
    put_int(out, c->count);
    put_int(out, c->flag);
    put_int(out, c->has_trip | c->has_keep << 1);
}

static const Control *read_control(Reader *r)
{
    if (!get_int(r->in)) return NULL;
    Control *c = NEW(r->p->arena, Control);
    c->trip = get_int(r->in);
    c->step = (int32_t)get_int(r->in);
    c->count = (int32_t)get_int(r->in);
    c->flag = (int32_t)get_int(r->in);
    int64_t has = get_int(r->in);
    c->has_trip = has & 1;
    c->has_keep = has & 2;
    r->in->bad |= c->step >= (int32_t)r->p->nvar || c->count >= (int32_t)r->p->nvar || c->flag >= (int32_t)r->p->nvar;
    return c;
}

/* Control's functions are three, and found by what the step is. */
static const HostFn controls[] = { control_begin, control_next, control_if };
enum { CONTROLS = sizeof controls / sizeof *controls };

static void write_call(Writer *w, const Step *s)
{
    const HostCall *c = s->call;
    int control = 0;
    w->good &= !c->exchange;
    write_control(w->out, c->control);
    while (c->control && control < CONTROLS && controls[control] != s->host) control++;
    put_int(w->out, control);
    uop_write(w->w, c->call ? c->call->src[0] : NULL);
    put_int(w->out, c->nin);
    put_int(w->out, c->nout);
    for (uint32_t k = 0; k < c->nin + c->nout; k++) {
        put_int(w->out, c->tensor[k].dtype);
        shape_write(w->w, c->tensor[k].shape);
    }
    for (uint32_t k = 0; k < c->nout; k++) put_int(w->out, c->result ? c->result[k] : k);
    for (uint32_t k = 0; c->call && k < c->call->src[0]->nsrc; k++) put_int(w->out, c->var[k]);
    write_guard(w->out, c->at);
}

static void read_call(Reader *r, Step *s)
{
    HostCall *c = NEW(r->p->arena, HostCall);
    s->call = c;
    c->plan = r->p;
    c->control = read_control(r);
    int64_t control = get_int(r->in);
    r->in->bad |= control < 0 || control >= CONTROLS;
    if (c->control && !r->in->bad) s->host = controls[control];
    const UOp *function = uop_read(r->u);
    r->in->bad |= function ? function->op != UOP_CUSTOMFUNCTION : !c->control;
    c->nin = get_count(r->in);
    c->nout = get_count(r->in);
    r->in->bad |= (uint64_t)c->nin + c->nout > s->narg;
    if (r->in->bad) return;
    if (function) c->call = UOP(r->u->g, UOP_CALL, DT_VOID, NO_ARG, function);
    HostTensor *tensor = NEW_N(r->p->arena, HostTensor, c->nin + c->nout + 1);
    for (uint32_t k = 0; k < c->nin + c->nout; k++) {
        tensor[k].dtype = (DType)get_int(r->in);
        tensor[k].shape = shape_read(r->u);
    }
    c->tensor = tensor;
    c->result = get_numbers(r, c->nout);
    c->var = get_indices(r, function ? function->nsrc : 0, r->p->nvar);
    c->at = read_guard(r);
}

static void write_step(Writer *w, const Step *s)
{
    put_int(w->out, s->kind | s->once << 4 | s->may_idle << 5 | s->sync << 6);
    put_int(w->out, s->device);
    put_int(w->out, s->kernel);
    put_int(w->out, s->chain);
    put_int(w->out, s->before);
    put_int(w->out, s->after);
    put_int(w->out, s->target);
    put_int(w->out, s->thread_count);
    put_int(w->out, s->origins.count);
    put_numbers(w->out, s->origins.node, s->origins.count);
    put_int(w->out, s->narg);
    put_numbers(w->out, s->arg, s->narg);
    put_bytes(w->out, s->access, s->narg);
    put_int(w->out, s->nvar);
    put_numbers(w->out, s->var, s->nvar);
    if (s->kind == STEP_HOST) write_call(w, s);
}

static void read_step(Reader *r, Step *s)
{
    int64_t is = get_int(r->in);
    s->kind = (StepKind)(is & 15);
    s->once = is & 16;
    s->may_idle = is & 32;
    s->sync = is & 64;
    s->device = (int32_t)get_int(r->in);
    s->kernel = (uint32_t)get_int(r->in);
    s->chain = (uint32_t)get_int(r->in);
    s->before = get_int(r->in);
    s->after = get_int(r->in);
    s->target = (uint32_t)get_int(r->in);
    s->thread_count = get_int(r->in);
    s->origins.count = get_count(r->in);
    s->origins.node = get_numbers(r, s->origins.count);
    s->narg = get_count(r->in);
    s->arg = get_indices(r, s->narg, r->p->nbuffer);
    s->access = arena_alloc(r->p->arena, s->narg + 1);
    get_exactly(r, s->access, s->narg);
    s->nvar = get_count(r->in);
    s->var = get_indices(r, s->nvar, r->p->nvar);
    r->in->bad |= s->kind > STEP_JUMP || s->chain > r->p->nchain || s->target > r->p->nstep || s->before < 0 ||
        s->after < 0 ||
        (s->kind == STEP_KERNEL && s->kernel >= r->p->nkernel);
    if (s->kind == STEP_HOST && !r->in->bad) read_call(r, s);
}

/* ---- the plan ---- */

static void write_lives(Writer *w, const Plan *p)
{
    put_int(w->out, p->nlife);
    for (uint32_t k = 0; k < p->nlife; k++) {
        put_int(w->out, p->life[k].size_bytes);
        put_int(w->out, p->life[k].offset);
        put_int(w->out, p->life[k].first);
        put_int(w->out, p->life[k].last);
    }
}

static void read_lives(Reader *r)
{
    Plan *p = r->p;
    p->nlife = get_count(r->in);
    Life *life = NEW_N(p->arena, Life, p->nlife + 1);
    for (uint32_t k = 0; k < p->nlife; k++) {
        life[k].size_bytes = get_int(r->in);
        life[k].offset = get_int(r->in);
        life[k].first = (uint32_t)get_int(r->in);
        life[k].last = (uint32_t)get_int(r->in);
    }
    p->life = life;
}

static void write_chains(Writer *w, const Plan *p)
{
    put_int(w->out, p->nchain);
    for (uint32_t k = 0; k < p->nchain; k++) {
        put_int(w->out, p->chain[k].first);
        put_int(w->out, p->chain[k].last);
        put_int(w->out, p->chain[k].group);
        put_int(w->out, p->chain[k].parts);
        put_int(w->out, p->chain[k].every);
    }
}

static void read_chains(Reader *r)
{
    Plan *p = r->p;
    p->nchain = get_count(r->in);
    p->chain = NEW_N(p->arena, PlanChain, p->nchain + 1);
    for (uint32_t k = 0; k < p->nchain; k++) {
        p->chain[k].first = (uint32_t)get_int(r->in);
        p->chain[k].last = (uint32_t)get_int(r->in);
        p->chain[k].group = get_int(r->in);
        p->chain[k].parts = get_int(r->in);
        p->chain[k].every = get_int(r->in);
        r->in->bad |= p->chain[k].group < 1 || p->chain[k].every < 1;
    }
}

static void write_share(Writer *w, const PlanShare *s)
{
    put_int(w->out, s->kernels);
    put_int(w->out, s->flops);
    put_int(w->out, s->constant_bytes);
    put_int(w->out, s->foreign_bytes);
}

static void read_share(Reader *r)
{
    PlanShare *s = NEW(r->p->arena, PlanShare);
    s->kernels = get_int(r->in);
    s->flops = get_int(r->in);
    s->constant_bytes = get_int(r->in);
    s->foreign_bytes = get_int(r->in);
    r->p->share = s;
    r->p->nshare = 1;
}

static void write_variables(Writer *w, const Plan *p)
{
    put_int(w->out, p->nvar);
    for (uint32_t k = 0; k < p->nvar; k++) {
        put_text(w->out, p->var_name[k]);
        put_int(w->out, p->var_value[k]);
    }
}

static void read_variables(Reader *r)
{
    Plan *p = r->p;
    p->nvar = get_count(r->in);
    int64_t *value = NEW_N(p->arena, int64_t, p->nvar + 1);
    p->var_name = NEW_N(p->arena, const char *, p->nvar + 1);
    for (uint32_t k = 0; k < p->nvar; k++) {
        r->in->bad |= !(p->var_name[k] = get_text(r->in, p->arena));
        value[k] = get_int(r->in);
    }
    p->var_value = value;
}

bool plan_write(UOpWriter *u, const Plan *p, const PlanFiles *files)
{
    Writer w = { u, u->out, files, 0, p->devices == 1 && p->nshare == 1 && !p->common };
    if (!w.good) return false;
    put_int(w.out, p->ninput);
    put_int(w.out, p->noutput);
    put_int(w.out, p->arena_bytes);
    put_int(w.out, p->persist_bytes);
    put_int(w.out, p->flops);
    put_int(w.out, p->nsync);
    put_int(w.out, p->jumps);
    put_text(w.out, p->schedule);
    write_share(&w, p->share);
    write_variables(&w, p);
    write_chains(&w, p);
    write_lives(&w, p);
    put_int(w.out, p->nguard);
    for (uint32_t k = 0; k < p->nguard; k++) write_guard(w.out, p->guard[k]);
    put_int(w.out, p->nkernel);
    for (uint32_t k = 0; k < p->nkernel; k++) write_kernel(&w, p->kernel[k]);
    put_int(w.out, p->nbuffer);
    for (uint32_t k = 0; k < p->nbuffer; k++) write_buffer(&w, &p->buffer[k]);
    put_int(w.out, p->nstep);
    for (uint32_t k = 0; k < p->nstep; k++) write_step(&w, &p->step[k]);
    return w.good && !u->bad;
}

static void read_plan(Reader *r)
{
    Plan *p = r->p;
    p->devices = 1;
    p->ninput = (uint32_t)get_int(r->in);
    p->noutput = (uint32_t)get_int(r->in);
    p->arena_bytes = get_int(r->in);
    p->persist_bytes = get_int(r->in);
    p->flops = get_int(r->in);
    p->nsync = (uint32_t)get_int(r->in);
    p->jumps = get_int(r->in);
    r->in->bad |= !(p->schedule = get_text(r->in, p->arena));
    read_share(r);
    read_variables(r);
    read_chains(r);
    read_lives(r);
    p->nguard = get_count(r->in);
    const Guard **guard = NEW_N(p->arena, const Guard *, p->nguard + 1);
    p->guard = guard;
    for (uint32_t k = 0; k < p->nguard; k++) r->in->bad |= !(guard[k] = read_guard(r));
    p->nkernel = get_count(r->in);
    p->kernel = NEW_N(p->arena, Kernel *, p->nkernel + 1);
    for (uint32_t k = 0; k < p->nkernel && !r->in->bad; k++) p->kernel[k] = read_kernel(r);
    p->nbuffer = get_count(r->in);
    p->buffer = NEW_N(p->arena, PlanBuffer, p->nbuffer + 1);
    for (uint32_t k = 0; k < p->nbuffer && !r->in->bad; k++) read_buffer(r, &p->buffer[k]);
    for (uint32_t k = 0; k < p->nbuffer; k++)
        r->in->bad |= p->buffer[k].kind == MEM_ARENA && p->buffer[k].life >= p->nlife;
    p->nstep = get_count(r->in);
    p->step = NEW_N(p->arena, Step, p->nstep + 1);
    for (uint32_t k = 0; k < p->nstep && !r->in->bad; k++) read_step(r, &p->step[k]);
}

Plan *plan_read(UOpReader *u, const PlanFiles *files)
{
    Arena *arena = arena_new();
    Reader r = { u, u->in, files, NEW(arena, Plan) };
    r.p->arena = arena;
    read_plan(&r);
    if (!u->in->bad) return r.p;
    plan_free(r.p);
    return NULL;
}
