/* The CPU Backend: a plan becomes an Executable whose pointers are resolved at load; a run walks its steps in one
 * region of the team.
 *
 * The steps between two waits are a phase (team_run). A step belongs to part 0 (host functions that have no parts,
 * small copies, kernels without a THREAD range or too small to share) or to all parts, each taking a contiguous piece
 * of the THREAD range, of the bytes, of the function. There is a wait where the plan says so, unless all that ran since
 * the last one and all that comes before the next is part 0's. A plan without shared steps never wakes the team: the
 * caller walks alone. A failed host step ends the run with its phase. Where a JUMP goes is decided between phases.
 */
#define _GNU_SOURCE
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "backends/cpu/cpu.h"
#include "graph/base/clock.h"
#include "graph/base/watcher.h"
#include "graph/wmma.h"

enum { SHARE_NS = 4000, COPY_PART = 64 << 10, FORGET_BYTES = 4 << 20, PART_BYTES = 8 << 20 };

struct Device {
    Machine machine;
    Target target;
    Arena *arena;
    Team *team;
    char *cache_dir;
    CpuCompiler compiler;
    atomic_int runs;                    /* under way, of executables that share */
};

/* A step with everything resolved. */
typedef struct {
    uint8_t kind;
    bool wait, shared;
    CpuKernel fn;
    void **args;
    uint64_t clears;                    /* bit a: the halo of args[a] is zeroed */
    const uint32_t *arg;                /* the plan's buffers behind args */
    uint32_t nvar;
    const uint32_t *var;
    int64_t count;                      /* of the THREAD range; -1: bound's value */
    int64_t part, parts;                /* which part of that; 0 parts: all of it */
    const Kernel *kernel;
    HostFn host;
    HostPart host_part;
    const HostCall *call;
    const PlanBuffer *copied;
    uint32_t target;                    /* of a JUMP, in works */
    uint32_t step;                      /* of the plan */
    uint32_t works;                     /* this and those behind it that go together: 1, or those of a chain */
    bool windows;                       /* some args are a window a thread */
} Work;

typedef struct { void **arg; uint32_t port; bool output; } Patch;

struct Executable {
    Device *device;
    const Plan *plan;
    Code *code;
    const Bundle *stored;               /* constants come from there; NULL: `once` steps make them */
    /* persist, constant: those of another executable that this one shares with; else NULL */
    const struct Executable *of;
    char *arena, *persist, *scratch;
    int64_t arena_bytes, persist_bytes, scratch_bytes;           /* scratch: a thread */
    /* of one that shares: what runs write of the persistent memory, guards first; own_at: by PlanBuffer, -1: shared */
    char *own;
    int64_t own_bytes, *own_at;
    unsigned version;                   /* of the code that the works have */
    const void **constant;              /* by PlanBuffer: where a MEM_CONST is read */
    Work *work;
    uint32_t nwork;
    Patch *patch;
    uint32_t npatch;
    bool shared;
    Arena *memory;
    int64_t *vars;                      /* of the run in progress */
    _Atomic(TgStatus) status;
    uint32_t at, end;                   /* works of the phase */
    double *seconds, start;             /* of each step, where they are traced: then each work is a phase */
    const Watcher *watcher;             /* of the caller, for all threads */
    bool over;                          /* the watcher has ended the run */
};

/* ---- memory ---- */

static void *pages_new(int64_t size)
{
    if (size <= 0) return NULL;
    void *p = mmap(NULL, (size_t)size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) return NULL;
    if (size >= 2 << 20) madvise(p, (size_t)size, MADV_HUGEPAGE);
    return p;
}

static void pages_free(void *p, int64_t size)
{
    if (p) munmap(p, (size_t)size);
}

/* ---- one step ---- */

#ifdef __SANITIZE_THREAD__
void AnnotateIgnoreWritesBegin(const char *file, int line);
void AnnotateIgnoreWritesEnd(const char *file, int line);

/* What overlaps is written twice by two threads, one value to one place, which is no race to report. */
static void call(const Kernel *k, CpuKernel fn, void *const *args, const int64_t *vars, int64_t begin, int64_t end,
                 void *scratch)
{
    bool overlap = kernel_overlaps(k);
    if (overlap) AnnotateIgnoreWritesBegin(__FILE__, __LINE__);
    fn(args, vars, begin, end, scratch);
    if (overlap) AnnotateIgnoreWritesEnd(__FILE__, __LINE__);
}
#else
#define call(k, fn, ...) (fn)(__VA_ARGS__)
#endif

static void clear_halos(const Executable *e, const Work *w, int thread, int threads)
{
    for (uint64_t left = w->clears; left; left &= left - 1) {
        int a = __builtin_ctzll(left);
        plan_clear(e->plan, e->plan->buffer[w->arg[a]].halo, e->vars, w->args[a], thread, threads);
    }
}

static void load_vars(const Executable *e, const Work *w, int64_t *vars)
{
    for (uint32_t i = 0; i < w->nvar; i++) vars[i] = e->vars[w->var[i]];
}

static void kernel_work(const Executable *e, const Work *w, int thread, int threads)
{
    if (w->clears) clear_halos(e, w, thread, threads);
    if (plan_idle(e->plan, &e->plan->step[w->step], e->vars)) return;
    int64_t vars[KERNEL_VARS];
    load_vars(e, w, vars);
    int64_t n = w->count >= 0 ? w->count : kernel_value(w->kernel, w->kernel->thread_bound, vars);
    int64_t first = w->parts ? n * w->part / w->parts : 0, size = w->parts ? n * (w->part + 1) / w->parts - first : n;
    int64_t begin = first + size * thread / threads, end = first + size * (thread + 1) / threads;
    if (begin < end) call(w->kernel, w->fn, w->args, vars, begin, end, e->scratch + e->scratch_bytes * thread);
}

/* Its arguments for parts from `part` on: windows begin where the first of these parts does. */
static void *const *window_args(const Executable *e, const Work *w, int thread, int64_t part, void **out)
{
    if (!w->windows) return w->args;
    const Step *s = &e->plan->step[w->step];
    for (uint32_t k = 0; k < s->narg; k++) {
        const PlanBuffer *b = &e->plan->buffer[w->arg[k]];
        out[k] = b->window
            ? (void *)((uintptr_t)w->args[k] + (uintptr_t)(b->window * thread - part * b->stride - b->first))
            : w->args[k];
    }
    return out;
}

/* The works of a chain, on a thread's parts: all of them on a group of parts, then on the next. */
static void chain_work(Executable *e, const Work *w, int thread, int threads)
{
    int64_t begin = w->count * thread / threads, end = w->count * (thread + 1) / threads, vars[KERNEL_VARS];
    int64_t group = e->plan->chain[e->plan->step[w->step].chain - 1].group;
    char *scratch = e->scratch + e->scratch_bytes * thread;
    void *args[KERNEL_PARAMS];
    for (int64_t p = begin; p < end; p += group)
        for (const Work *x = w; x < w + w->works; x++) {
            double start = e->seconds && !thread ? clock_s() : 0;
            load_vars(e, x, vars);
            call(x->kernel, x->fn, window_args(e, x, thread, p, args), vars, p, p + group < end ? p + group : end,
                 scratch);
            if (e->seconds && !thread) e->seconds[x->step] += clock_s() - start;
        }
}

static int64_t copied_bytes(const Executable *e, const PlanBuffer *b)
{
    int64_t n = dtype_size(b->dtype);
    for (uint32_t k = 0; k < b->shape->rank; k++) n *= plan_eval(e->plan, b->shape->dim[k], e->vars);
    return n < 0 ? 0 : n < b->size_bytes ? n : b->size_bytes;
}

static void copy_work(const Executable *e, const Work *w, int thread, int threads)
{
    int64_t n = copied_bytes(e, w->copied), begin = n * thread / threads & ~INT64_C(63),
            end = thread + 1 == threads ? n : n * (thread + 1) / threads & ~INT64_C(63);
    if (begin < end) memmove((char *)w->args[0] + begin, (char *)w->args[1] + begin, (size_t)(end - begin));
}

/* Where a part fails all do: thread 0 tells. */
static void host_work(Executable *e, const Work *w, int thread, int threads)
{
    TgStatus status =
        w->shared ? w->host_part(w->call, w->args, e->vars, thread, threads) : w->host(w->call, w->args, e->vars);
    if (!thread) e->status = host_status(w->call, status);
}

static void do_work(Executable *e, const Work *w, int thread, int threads)
{
    if (w->works > 1) chain_work(e, w, thread, threads);
    else if (w->kind == STEP_KERNEL) kernel_work(e, w, thread, threads);
    else if (w->kind == STEP_COPY) copy_work(e, w, thread, threads);
    else host_work(e, w, thread, threads);
}

/* A failed run takes no jump, so that it ends. */
static void take_jumps(Executable *e)
{
    while (e->at < e->nwork && e->work[e->at].kind == STEP_JUMP)
        e->at = e->vars[e->work[e->at].var[0]] ? e->at + 1 : e->work[e->at].target;
}

static TeamParts next_phase(void *user)
{
    Executable *e = user;
    bool shared = false;
    if (e->seconds && e->end && e->work[e->at].works == 1) e->seconds[e->work[e->end - 1].step] += clock_s() - e->start;
    e->at = e->end;
    e->over = watch_over(e->watcher);
    if (e->status != TG_OK || e->over) return TEAM_OVER;
    take_jumps(e);
    for (e->end = e->at; e->end < e->nwork && e->work[e->end].kind != STEP_JUMP &&
         (e->end == e->at || (!e->work[e->end].wait && !e->seconds));) {
        shared |= e->work[e->end].shared;
        e->end += e->work[e->end].works;
    }
    if (e->seconds) e->start = clock_s();
    return e->at >= e->nwork ? TEAM_OVER : shared ? TEAM_ALL : TEAM_ONE;
}

static void do_phase(void *user, int part, int parts)
{
    Executable *e = user;
    for (uint32_t i = e->at; i < e->end && e->status == TG_OK; i += e->work[i].works) {
        if (e->work[i].shared) do_work(e, &e->work[i], part, parts);
        else if (!part) do_work(e, &e->work[i], 0, 1);
    }
}

static TgStatus walk_all(Executable *e)
{
    const TeamJob job = { next_phase, do_phase, e };
    e->status = TG_OK;
    e->at = e->end = 0;
    e->watcher = watcher_now();
    /* where others run, threads that wait for each other's cores would do less than each run alone */
    bool only = !atomic_fetch_add(&e->device->runs, 1);
    if (e->shared && only) team_run(e->device->team, &job);
    else
        while (next_phase(e) != TEAM_OVER) do_phase(e, 0, 1);
    atomic_fetch_sub(&e->device->runs, 1);
    return e->over && e->status == TG_OK ? watch_check() : e->status;
}

/* ---- load ---- */

/* What a thread alone would need, by experience: 50 GFLOP/s in vectors, 4 in scalars, 12 GB/s. */
static int64_t cost_ns(const Kernel *k) { return k->flops / (kernel_vectors(k) ? 50 : 4) + k->bytes / 12; }

static bool worth_sharing(const Device *d, const Kernel *k, int64_t count)
{
    return d->machine.count > 1 && count != 1 && count != 0 && cost_ns(k) > SHARE_NS;
}

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
        w.shared = worth_sharing(e->device, w.kernel, s->thread_count);
        int64_t local = (w.kernel->local_bytes + 4095) & ~INT64_C(4095);
        if (local > e->scratch_bytes) e->scratch_bytes = local;
    } else if (s->kind == STEP_COPY) {
        w.copied = &e->plan->buffer[s->arg[0]];
        w.shared = e->device->machine.count > 1 && w.copied->size_bytes > 2 * COPY_PART;
    } else if (s->part) {
        w.shared = e->device->machine.count > 1 && e->plan->buffer[s->arg[0]].size_bytes > 2 * COPY_PART;
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
    }
}

static void collect(Executable *e, const Code *c, bool once)
{
    uint32_t *work_of = NEW_N(e->memory, uint32_t, e->plan->nstep + 1);
    /* sizes: a host function ran, which may have set variables; readers: all threads may be reading them */
    bool wait = false, sizes = false, readers = false;
    e->nwork = e->npatch = 0;
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
enum { SMALL_BYTES = 64 << 10, LINE = 64 };

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
    e->persist = e->stored ? stored_memory(e) : pages_new(e->persist_bytes);
    if (e->stored && !e->persist) return fail(TG_BAD_MODEL, "is damaged: the memory of its constants is not there");
    if (!(e->arena = pages_new(e->arena_bytes)) || !e->persist)
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
        status = walk_all(e);
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

/* As much a thread as the works want; threads' scratches do not start at equal places of a page. */
static TgStatus scratch_new(Executable *e)
{
    e->scratch_bytes += 4096 + 64;
    e->scratch = pages_new(e->scratch_bytes * e->device->machine.count);
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

static void cpu_unload(Executable *e)
{
    if (!e) return;
    pages_free(e->arena, e->arena_bytes);
    if (!e->of) pages_free(e->persist, e->persist_bytes);
    pages_free(e->own, e->own_bytes);
    pages_free(e->scratch, e->scratch_bytes * e->device->machine.count);
    arena_free(e->memory);
    free(e);
}

static TgStatus load(Executable **out, Device *d, const Plan *p, Code *c, const Bundle *stored)
{
    Executable *e = calloc(1, sizeof *e);
    if (!e) return fail(TG_LIMIT, "out of memory");
    e->device = d;
    e->plan = p;
    e->code = c;
    e->stored = stored;
    e->memory = arena_new();
    TgStatus s = load_all(e, c);
    if (s) cpu_unload(e);
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
    e->own = pages_new(e->own_bytes);
    return e->own ? TG_OK : fail(TG_LIMIT, "no memory for %lld bytes of the model's values", (long long)e->own_bytes);
}

static TgStatus share_all(Executable *e, Code *c)
{
    TRY(own_places(e));
    if (!(e->arena = pages_new(e->arena_bytes)))
        return fail(TG_LIMIT, "no memory for %lld bytes of the model's values", (long long)e->arena_bytes);
    e->work = NEW_N(e->memory, Work, e->plan->nstep + 1);
    e->patch = NEW_N(e->memory, Patch, args_total(e->plan) + 1);
    pthread_mutex_lock(&c->lock);                   /* fn may be changing */
    collect(e, c, false);
    e->version = atomic_load(&c->version);
    pthread_mutex_unlock(&c->lock);
    return scratch_new(e);
}

static TgStatus cpu_share(Executable **out, Executable *of)
{
    Executable *e = calloc(1, sizeof *e);
    if (!e) return fail(TG_LIMIT, "out of memory");
    e->of = of;
    e->device = of->device, e->plan = of->plan, e->code = of->code;
    e->persist = of->persist, e->constant = of->constant, e->arena_bytes = of->arena_bytes;
    e->memory = arena_new();
    TgStatus s = share_all(e, of->code);
    if (s) cpu_unload(e);
    else *out = e;
    return s;
}

static TgStatus cpu_load(Executable **out, Device *d, const Plan *p, Code *c) { return load(out, d, p, c, NULL); }

static TgStatus cpu_save_code(BundleWriter *w, Device *d, Kernel *const *k, uint32_t n)
{
    return cpu_code_save(w, d->machine.count, k, n);
}

static TgStatus cpu_save_memory(BundleWriter *w, const Executable *e)
{
    return bundle_put(w, "cpu/memory", e->persist, (size_t)e->persist_bytes);
}

static TgStatus cpu_restore(Executable **out, Code **code, Device *d, const Plan *p, const Bundle *from)
{
    TRY(cpu_code_restore(code, from, p->kernel, p->nkernel));
    return load(out, d, p, *code, from);
}

/* Kernels that the compiler has made meanwhile run from now on. */
static void take_ready(Executable *e)
{
    unsigned version = cpu_code_ready(e->code);
    if (version == e->version) return;
    e->version = version;
    for (uint32_t i = 0; i < e->nwork; i++)
        if (e->work[i].kind == STEP_KERNEL) e->work[i].fn = e->code->fn[e->plan->step[e->work[i].step].kernel];
}

static TgStatus cpu_run(Executable *e, const void *const *inputs, void *const *outputs, int64_t *vars)
{
    take_ready(e);
    for (uint32_t i = 0; i < e->npatch; i++) {
        const Patch *p = &e->patch[i];
        *p->arg = p->output ? outputs[p->port] : (void *)(uintptr_t)inputs[p->port];
    }
    e->vars = vars;
    /* a bad index may be why something else failed */
    TgStatus status = walk_all(e), guarded = plan_guards(e->plan, e->own ? e->own : e->persist, TG_BAD_INPUT);
    return guarded ? guarded : status;
}

static TgStatus cpu_trace(Executable *e, const void *const *inputs, void *const *outputs, int64_t *vars,
                          double *seconds)
{
    e->seconds = seconds;
    TgStatus status = cpu_run(e, inputs, outputs, vars);
    e->seconds = NULL;
    return status;
}

/* ---- timing one kernel, for search ---- */

typedef struct {
    Device *d;
    const Kernel *kernel;
    CpuKernel fn;
    void **args;
    int64_t vars[KERNEL_VARS], count, scratch_bytes;
    char *scratch;
    int runs;
    double limit_s, best_s, start;
    int round;
    bool stop;
} Timing;

static void timing_part(void *user, int thread, int threads)
{
    const Timing *t = user;
    int64_t begin = t->count * thread / threads, end = t->count * (thread + 1) / threads;
    if (begin < end) call(t->kernel, t->fn, t->args, t->vars, begin, end, t->scratch + t->scratch_bytes * thread);
}

/* The first round warms caches and pages, and is taken only when it alone is far beyond the limit. Others may disturb a
 * round, so it takes three to give up. */
static TeamParts timing_next(void *user)
{
    Timing *t = user;
    double s = clock_s() - t->start;
    int r = t->round++ - 1;                                      /* the round that is over */
    if (r >= 0) {
        bool hopeless = t->limit_s > 0 && !r && s > 50 * t->limit_s;
        if ((r || hopeless || !t->runs) && (t->best_s < 0 || s < t->best_s)) t->best_s = s;
        t->stop = hopeless || (t->limit_s > 0 && r >= 3 && t->best_s > t->limit_s);
    }
    t->start = clock_s();
    return r < t->runs && !t->stop ? TEAM_ALL : TEAM_OVER;
}

typedef void Fill(void *user, uint32_t slot, void *ptr, size_t bytes);

static TgStatus timing_memory(Timing *t, const Kernel *k, Fill *fill, void *user)
{
    for (uint32_t i = 0; i < k->nparam; i++) {
        size_t n = (size_t)kernel_param_bytes(k, i);
        if (!(t->args[i] = pages_new((int64_t)n + 64))) return fail(TG_LIMIT, "no memory to time kernel %s", k->name);
        if (fill) fill(user, i, t->args[i], n);
    }
    t->scratch_bytes = ((k->local_bytes + 4095) & ~INT64_C(4095)) + 4096 + 64;
    t->scratch = pages_new(t->scratch_bytes * t->d->machine.count);
    return t->scratch ? TG_OK : fail(TG_LIMIT, "no memory to time kernel %s", k->name);
}

/* What the kernel writes, from fresh inputs: timing may have run it on its own results. */
static void timing_results(Timing *t, const Kernel *k, Fill *fill, void *user, void *const *out)
{
    for (uint32_t i = 0; i < k->nparam && fill; i++) fill(user, i, t->args[i], (size_t)kernel_param_bytes(k, i));
    timing_part(t, 0, 1);
    for (uint32_t i = 0; i < k->nparam; i++)
        if (k->param[i].written && out[i]) memcpy(out[i], t->args[i], (size_t)kernel_param_bytes(k, i));
}

static TgStatus cpu_time(double *seconds, Device *d, Code *c, uint32_t i, const Kernel *k, Fill *fill, void *user,
                         int runs, double limit_s, void *const *out)
{
    void *args[KERNEL_PARAMS] = { 0 };
    Timing t = { .d = d, .kernel = k, .fn = c->fn[i], .args = args, .runs = runs, .limit_s = limit_s, .best_s = -1 };
    for (uint32_t v = 0; v < k->nvar && v < KERNEL_VARS; v++) t.vars[v] = k->var[v]->vmax;
    t.count = k->thread_bound ? kernel_value(k, k->thread_bound, t.vars) : 1;
    TgStatus s = timing_memory(&t, k, fill, user);
    const TeamJob job = { timing_next, timing_part, &t };
    if (!s && worth_sharing(d, k, t.count)) team_run(d->team, &job);
    else if (!s)
        while (timing_next(&t) != TEAM_OVER) timing_part(&t, 0, 1);
    if (!s && out) timing_results(&t, k, fill, user, out);
    for (uint32_t p = 0; p < k->nparam; p++) pages_free(args[p], kernel_param_bytes(k, p) + 64);
    pages_free(t.scratch, t.scratch_bytes * d->machine.count);
    *seconds = t.best_s;
    return s;
}

/* ---- the device ---- */

static void cpu_close(Device *d)
{
    if (!d) return;
    team_free(d->team);
    arena_free(d->arena);
    free(d);
}

static Target target_of(const Machine *m)
{
    return (Target){ .kind = "cpu",
                     .vector_bytes = m->vector_bytes,
                     .vector_registers = m->vector_registers,
                     .threads = m->count,
                     .l1_bytes = m->l1_bytes,
                     .l2_bytes = m->l2_bytes,
                     .has_threads = true,
                     .clears_halos = true,
                     .has_fma = m->has_fma,
                     .has_exp2 = m->has_exp2,
                     .wmma = m->rows };
}

static TgStatus cpu_open(Device **out, const DeviceOptions *o)
{
    Device *d = calloc(1, sizeof *d);
    if (!d) return fail(TG_LIMIT, "out of memory");
    d->arena = arena_new();
    TgStatus s = machine_read(&d->machine, d->arena, o->cpus, o->threads);
    if (!s && !(d->team = team_new(d->machine.cpu, d->machine.count))) s = fail(TG_LIMIT, "out of memory");
    if (s) return cpu_close(d), s;
    d->compiler = (CpuCompiler)o->compiler;
    if (!d->machine.has_own && d->compiler == CPU_OWN)
        return cpu_close(d), fail(TG_UNSUPPORTED, "compiler 'own': it wants AVX-512, which this processor lacks");
    if (!d->machine.has_own) d->compiler = CPU_CC;
    d->target = target_of(&d->machine);
    d->cache_dir = o->cache_dir ? arena_strdup(d->arena, o->cache_dir) : NULL;
    *out = d;
    return TG_OK;
}

static const Target *cpu_target(const Device *d) { return &d->target; }

static void cpu_describe(const Device *d, char name[128], char features[256])
{
    memcpy(name, d->machine.name, 128);
    memcpy(features, d->machine.features, 256);
}

static TgStatus cpu_render(Text *out, const Device *d, const Kernel *k)
{
    (void)d;
    return cstyle_render(out, &cpu_style, k, k->name);
}

static TgStatus cpu_backend_compile(Code **out, Device *d, Kernel *const *k, uint32_t n, CompileStats *stats)
{
    return cpu_compile(out, &(CpuCompile){ d->cache_dir, d->machine.count, d->compiler }, k, n, stats);
}

static TgStatus cpu_backend_assembly(Text *out, Device *d, const Kernel *k)
{
    (void)d;
    return cpu_assembly(out, k);
}

static void cpu_backend_compiler(const Device *d, char out[128])
{
    (void)d;
    cpu_compiler(out);
}

static double cpu_device_seconds(const Executable *e)
{
    (void)e;
    return 0;
}

const Backend backend_cpu = {
    .name = "cpu",
    .open = cpu_open,
    .close = cpu_close,
    .target = cpu_target,
    .describe = cpu_describe,
    .render = cpu_render,
    .compile = cpu_backend_compile,
    .compiler = cpu_backend_compiler,
    .code_free = cpu_code_free,
    .load = cpu_load,
    .unload = cpu_unload,
    .share = cpu_share,
    .save_code = cpu_save_code,
    .save_memory = cpu_save_memory,
    .restore = cpu_restore,
    .run = cpu_run,
    .trace = cpu_trace,
    .device_seconds = cpu_device_seconds,
    .time = cpu_time,
    .assembly = cpu_backend_assembly,
};
