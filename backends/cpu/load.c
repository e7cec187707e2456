/* A plan becomes an Executable, whose pointers are resolved here, once: its memory, its works, the constants that
 * `once` steps make; what shares them with another; what a compiled model holds.
 */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "backends/cpu/executable.h"
#include "graph/base/memory.h"

enum { FORGET_BYTES = 4 << 20, PART_BYTES = 8 << 20 };

/* ---- memory ---- */

void *cpu_pages_new(int64_t size)
{
    if (size <= 0) return NULL;
    void *p = mmap(NULL, (size_t)size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) return NULL;
    if (size >= 2 << 20) madvise(p, (size_t)size, MADV_HUGEPAGE);
    return p;
}

void cpu_pages_free(void *p, int64_t size)
{
    if (p) munmap(p, (size_t)size);
}

/* ---- works ---- */

static void *address(const Executable *e, const PlanBuffer *b)
{
    switch (b->kind) {
    case MEM_ARENA: return e->arena + b->offset;
    case MEM_PERSIST:
        return e->own_at && e->own_at[b - e->plan->buffer] >= 0 ? e->own + e->own_at[b - e->plan->buffer]
                                                                 : e->persist + b->offset;
    case MEM_CONST: return (void *)(uintptr_t)e->constant[b - e->plan->buffer];           /* kernels only read it */
    default: return NULL;
    }
}

static void resolve_args(Executable *e, Work *w, const Step *s)
{
    w->args = NEW_N(e->memory, void *, s->narg + 1);
    w->arg = s->arg;
    for (uint32_t k = 0; k < s->narg; k++) {
        const PlanBuffer *b = &e->plan->buffer[s->arg[k]];
        w->args[k] = address(e, b);
        w->windows |= b->window > 0;
        if (b->halo && (s->access[k] & ACCESS_CLEAR)) w->clears |= UINT64_C(1) << k;
        if (b->kind == MEM_INPUT || b->kind == MEM_OUTPUT)
            e->patch[e->npatch++] = (Patch){ &w->args[k], (uint32_t)b->offset, b->kind == MEM_OUTPUT };
    }
}

static Work resolve(Executable *e, const Step *s, const Code *c)
{
    Work w = { .kind = s->kind,
               .device = s->device,
               .nvar = s->nvar,
               .var = s->var,
               .count = s->thread_count,
               .host = s->host,
               .host_part = s->part,
               .call = s->call,
               .target = s->target };
    resolve_args(e, &w, s);
    if (s->kind == STEP_KERNEL) {
        w.kernel = e->plan->kernel[s->kernel];
        w.fn = c->fn[s->kernel];
        /* where there are several devices, another has something to do meanwhile */
        bool beside = e->plan->devices > 1 && s->device >= 0;
        w.shared = cpu_worth_sharing(&e->device->target, e->device->machine.count, w.kernel,
                                     beside ? -1 : s->thread_count);
        int64_t local = (w.kernel->local_bytes + PAGE - 1) / PAGE * PAGE;
        if (local > e->scratch_bytes) e->scratch_bytes = local;
    } else if (s->kind == STEP_COPY) {
        w.copied = &e->plan->buffer[s->arg[0]];
        w.shared = e->device->machine.count > 1 && w.copied->size_bytes > 2 * COPY_PART;
    } else if (s->part) {
        w.shared = e->device->machine.count > 1 && e->plan->buffer[s->arg[0]].size_bytes > 2 * s->part_bytes;
    }
    return w;
}

/* Drops waits that only thread 0 would see. All wait at a JUMP, so nothing is pending behind one, wherever it goes. */
static void thin_waits(Executable *e)
{
    bool shared_before = false;
    e->shared = false;
    for (uint32_t i = 0; i < e->nwork;) {
        uint32_t end = i + 1;
        bool shared = e->work[i].shared, jump = e->work[i].kind == STEP_JUMP;
        for (; end < e->nwork && !e->work[end].wait; end++) shared |= e->work[end].shared;
        e->work[i].wait &= jump || shared || shared_before;
        shared_before = shared || (!e->work[i].wait && shared_before);
        e->shared |= shared;
        i = end;
    }
}

/* Balance is worth it where each thread has so much to do. */
enum { BALANCED_NS = 20000 };

static bool is_long(const Executable *e, const Work *w)
{
    int64_t ns = 0;
    for (uint32_t k = 0; k < w->works; k++) {
        if (w[k].kind != STEP_KERNEL || w[k].count == 1) return false;
        ns += cpu_cached_ns(&e->device->target, w[k].kernel);
    }
    return ns > (int64_t)BALANCED_NS * e->device->machine.count;
}

/* The works of a chain go together, and are shared out where one of them is worth it. */
static void join_chains(Executable *e)
{
    for (uint32_t i = 0, end; i < e->nwork; i = end) {
        uint32_t chain = e->plan->step[e->work[i].step].chain;
        bool shared = false;
        for (end = i; end == i || (chain && end < e->nwork && e->plan->step[e->work[end].step].chain == chain); end++)
            shared |= e->work[end].shared;
        for (uint32_t k = i; k < end; k++) e->work[k].shared = shared;
        e->work[i].works = end - i;
        e->work[i].balanced = e->plan->devices < 2 && shared && is_long(e, &e->work[i]);
    }
}

/* Threads that wait between runs are up after WAKE_NS / 2, which a run of a few small kernels does not make good. Among
 * others, values lie in the caches of those that made them, so each kernel is judged by itself. */
enum { WAKE_NS = 5000 };

static void stay_alone(Executable *e)
{
    int64_t ns = 0;
    for (uint32_t i = 0; i < e->nwork; i++) {
        const Work *w = &e->work[i];
        if (w->kind == STEP_JUMP || (w->shared && w->kind != STEP_KERNEL)) return;
        if (w->shared && (ns += cpu_cached_ns(&e->device->target, w->kernel)) > WAKE_NS) return;
    }
    for (uint32_t i = 0; i < e->nwork; i++) e->work[i].shared = false;
}

static void collect(Executable *e, const Code *c, bool once)
{
    uint32_t *work_of = NEW_N(e->memory, uint32_t, e->plan->nstep + 1);
    /* sizes: a host function ran, which may have set variables; readers: all threads may be reading them */
    bool wait = false, sizes = false, readers = false;
    e->nwork = e->npatch = 0;
    if (!e->piece) e->piece = NEW_N(e->memory, LoopPiece, (size_t)e->device->machine.count);
    for (uint32_t i = 0; i < e->plan->nstep; i++) {
        const Step *s = &e->plan->step[i];
        wait |= s->sync;
        work_of[i] = e->nwork;
        if (s->once != once) continue;
        Work *w = &e->work[e->nwork++];
        *w = resolve(e, s, c);
        w->step = i;
        w->wait = wait || (sizes && w->shared) || (readers && w->kind == STEP_HOST) || w->kind == STEP_JUMP;
        sizes = w->kind == STEP_HOST || (sizes && !w->wait);
        readers = (w->shared && (w->nvar || w->kind != STEP_KERNEL)) || (readers && !w->wait);
        wait = false;
    }
    work_of[e->plan->nstep] = e->nwork;
    join_chains(e);
    if (e->plan->devices < 2) stay_alone(e);
    for (uint32_t i = 0; i < e->nwork; i++)
        if (e->work[i].kind == STEP_JUMP) e->work[i].target = work_of[e->work[i].target];
    thin_waits(e);
}

static uint32_t args_total(const Plan *p)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < p->nstep; i++) n += p->step[i].narg;
    return n;
}

/* Around a few bytes that are read of a file the system maps at least that many, and up to 2 MiB: small constants of a
 * run are copied side by side. */
enum { SMALL_BYTES = 64 << 10 };

static void gather_constants(Executable *e)
{
    const Plan *p = e->plan;
    e->constant = NEW_N(e->memory, const void *, p->nbuffer + 1);
    for (uint32_t i = 0; i < p->nbuffer; i++) {
        const PlanBuffer *b = &p->buffer[i];
        bool small = b->kind == MEM_CONST && !b->once && b->size_bytes <= SMALL_BYTES;
        char *copy = small ? arena_alloc(e->memory, (size_t)b->size_bytes + LINE) : NULL;
        e->constant[i] =
            small ? memcpy(copy + (-(uintptr_t)copy & (LINE - 1)), b->data, (size_t)b->size_bytes) : b->data;
    }
}

/* The constants as the `once` steps left them, in pages of the file. */
static void *stored_memory(const Executable *e)
{
    size_t size;
    void *p = bundle_map(e->stored, "cpu/memory", &size);
    if (!p || size == (size_t)e->persist_bytes) return p;
    munmap(p, size);
    return NULL;
}

static TgStatus allocate(Executable *e)
{
    const Plan *p = e->plan;
    gather_constants(e);
    e->arena_bytes = p->arena_bytes + 64;
    e->persist_bytes = p->persist_bytes + 64;
    e->persist = e->stored ? stored_memory(e) : cpu_pages_new(e->persist_bytes);
    if (e->stored && !e->persist) return fail(TG_BAD_MODEL, "is damaged: the memory of its constants is not there");
    if (!(e->arena = cpu_pages_new(e->arena_bytes)) || !e->persist)
        return fail(TG_LIMIT, "no memory for %lld bytes of the model's values",
                    (long long)(p->arena_bytes + p->persist_bytes));
    e->work = NEW_N(e->memory, Work, p->nstep + 1);
    e->patch = NEW_N(e->memory, Patch, args_total(p) + 1);
    return TG_OK;
}

static int64_t forgettable(const Executable *e, const Step *s)
{
    int64_t bytes = 0;
    for (uint32_t k = 0; k < s->narg; k++) {
        const PlanBuffer *b = &e->plan->buffer[s->arg[k]];
        if (b->kind == MEM_CONST) bytes += b->size_bytes;
    }
    return bytes;
}

static void forget_sources(const Executable *e, const Step *s)
{
    for (uint32_t k = 0; k < s->narg; k++) {
        const PlanBuffer *b = &e->plan->buffer[s->arg[k]];
        if (b->kind == MEM_CONST) e->plan->forget(e->plan->forget_owner, b->data, (size_t)b->size_bytes);
    }
}

/* The works that e has now, which read so many bytes of the file; a single large one in parts. */
static TgStatus walk_part(Executable *e, const Step *s, int64_t bytes)
{
    Work *w = e->work;
    TgStatus status = TG_OK;
    if (e->nwork == 1 && s->kind == STEP_KERNEL && bytes > 2 * PART_BYTES && w->count > 1)
        w->parts = bytes / PART_BYTES < w->count ? bytes / PART_BYTES : w->count;
    do {
        status = executable_walk(e);
        if (w->parts && e->plan->forget) forget_sources(e, s);
    } while (status == TG_OK && ++w->part < w->parts);
    return status;
}

/* The `once` steps, a few at a time: what they read of the file leaves memory as soon as its packed copy is there, so
 * that the two never stand side by side. */
static TgStatus walk_once(Executable *e)
{
    Work *all = e->work;
    uint32_t total = e->nwork, step = 0;
    TgStatus status = TG_OK;
    for (uint32_t from = 0; from < total && status == TG_OK;) {
        uint32_t first = step, n = 0;
        int64_t bytes = 0;
        for (; from + n < total; step++) {
            int64_t more = e->plan->step[step].once ? forgettable(e, &e->plan->step[step]) : 0;
            if (n && bytes + more > FORGET_BYTES) break;
            bytes += more;
            n += e->plan->step[step].once;
        }
        e->work = all + from;
        e->nwork = n;
        status = walk_part(e, &e->plan->step[step - 1], bytes);
        for (; first < step && e->plan->forget; first++)
            if (e->plan->step[first].once) forget_sources(e, &e->plan->step[first]);
        from += n;
    }
    e->work = all;
    return status;
}

/* As much a thread as the works want. */
static TgStatus scratch_new(Executable *e)
{
    e->scratch_bytes += SCRATCH_PAD;
    e->scratch = cpu_pages_new(e->scratch_bytes * e->device->machine.count);
    return e->scratch ? TG_OK : fail(TG_LIMIT, "no memory for scratch");
}

static TgStatus load_all(Executable *e, const Code *c)
{
    int64_t *vars = NEW_N(e->memory, int64_t, e->plan->nvar + 1);
    TRY(allocate(e));
    e->vars = vars;
    collect(e, c, false);                                        /* for the largest scratch */
    collect(e, c, true);
    TRY(scratch_new(e));
    int64_t scratch = e->scratch_bytes;
    TgStatus s = e->stored ? TG_OK : walk_once(e), guarded = plan_guards(e->plan, e->persist, TG_BAD_MODEL);
    if (guarded) s = guarded;
    collect(e, c, false);
    e->scratch_bytes = scratch;
    return s;
}

void executable_unload(Executable *e)
{
    if (!e) return;
    cpu_pages_free(e->arena, e->arena_bytes);
    if (!e->of) cpu_pages_free(e->persist, e->persist_bytes);
    cpu_pages_free(e->own, e->own_bytes);
    cpu_pages_free(e->scratch, e->scratch_bytes * e->device->machine.count);
    arena_free(e->memory);
    mem_free(e);
}

static void unload(void *e) { executable_unload(e); }

static TgStatus load(Executable **out, Device *d, const Plan *p, Code *c, const Bundle *stored)
{
    Executable *e = mem_zeros(1, sizeof *e);
    Undo undo;
    e->device = d;
    e->plan = p;
    e->code = c;
    e->stored = stored;
    e->memory = arena_new();
    undo_push(&undo, unload, e);
    TgStatus s = load_all(e, c);
    undo_pop(&undo);
    if (s) executable_unload(e);
    else *out = e;
    return s;
}

/* ---- one that shares ---- */

/* Places for what runs write of the persistent memory: zeros to begin with. */
static TgStatus own_places(Executable *e)
{
    const Plan *p = e->plan;
    e->own_at = NEW_N(e->memory, int64_t, p->nbuffer + 1);
    e->own_bytes = p->nguard * GUARD_BYTES + LINE;
    for (uint32_t i = 0; i < p->nbuffer; i++) {
        bool guard = p->buffer[i].kind == MEM_PERSIST && p->buffer[i].offset < p->nguard * GUARD_BYTES;
        e->own_at[i] = guard ? p->buffer[i].offset : -1;
    }
    for (uint32_t i = 0; i < p->nstep; i++)
        for (uint32_t k = 0; k < p->step[i].narg && !p->step[i].once; k++) {
            uint32_t at = p->step[i].arg[k];
            const PlanBuffer *b = &p->buffer[at];
            if (b->kind != MEM_PERSIST || e->own_at[at] >= 0 || !(p->step[i].access[k] & ACCESS_WRITE)) continue;
            if (!b->zeroed) return fail(TG_UNSUPPORTED, "a run changes a value that was computed at load");
            e->own_at[at] = e->own_bytes;
            e->own_bytes += (b->size_bytes + 2 * LINE - 1) / LINE * LINE;
        }
    e->own = cpu_pages_new(e->own_bytes);
    return e->own ? TG_OK : fail(TG_LIMIT, "no memory for %lld bytes of the model's values", (long long)e->own_bytes);
}

static void unlock(void *code) { pthread_mutex_unlock(&((Code *)code)->lock); }

static TgStatus share_all(Executable *e, Code *c)
{
    TRY(own_places(e));
    if (!(e->arena = cpu_pages_new(e->arena_bytes)))
        return fail(TG_LIMIT, "no memory for %lld bytes of the model's values", (long long)e->arena_bytes);
    e->work = NEW_N(e->memory, Work, e->plan->nstep + 1);
    e->patch = NEW_N(e->memory, Patch, args_total(e->plan) + 1);
    Undo undo;
    pthread_mutex_lock(&c->lock);                   /* fn may be changing */
    undo_push(&undo, unlock, c);
    collect(e, c, false);
    e->version = atomic_load(&c->version);
    undo_pop(&undo);
    pthread_mutex_unlock(&c->lock);
    return scratch_new(e);
}

TgStatus executable_share(Executable **out, Executable *of)
{
    Executable *e = mem_zeros(1, sizeof *e);
    Undo undo;
    e->of = of;
    e->device = of->device, e->plan = of->plan, e->code = of->code;
    e->persist = of->persist, e->constant = of->constant, e->arena_bytes = of->arena_bytes;
    e->memory = arena_new();
    undo_push(&undo, unload, e);
    TgStatus s = share_all(e, of->code);
    undo_pop(&undo);
    if (s) executable_unload(e);
    else *out = e;
    return s;
}

TgStatus executable_load(Executable **out, Device *d, const Plan *p, Code *c) { return load(out, d, p, c, NULL); }

TgStatus executable_save_memory(BundleWriter *w, const Executable *e)
{
    return bundle_put(w, "cpu/memory", e->persist, (size_t)e->persist_bytes);
}

TgStatus executable_restore(Executable **out, Code **code, Device *d, const Plan *p, const Bundle *from)
{
    TRY(cpu_code_restore(code, from, d->machine.count, p->kernel, p->nkernel));
    return load(out, d, p, *code, from);
}
