/* Kernels -> machine code: rendered, looked up, the missing ones put into a few translation units, compiled in parallel
 * by the system's C compiler, loaded.
 *
 * A kernel's hash covers its text and everything else that makes code: compiler (path, size, time), flags, this CPU,
 * our version. Equal kernels are compiled once and the symbol is k_<hash>. A cache entry is the object of one batch,
 * named by the hash of its bytes; an index row kernel hash -> entry finds it, so that models share kernels. Bytes are
 * verified when read (backends/cache.c) and loaded from memory (library.c).
 *
 * A first run need not wait for that: kernels that are missing run as machine code of our own (backends/x86), and a
 * thread has the compiler make theirs meanwhile, one process at the least priority, which run from then on.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>
#include <xxhash.h>

#include "backends/cache.h"
#include "backends/cpu/compiler.h"
#include "backends/cpu/cpu.h"
#include "backends/cpu/jobs.h"
#include "backends/cpu/library.h"
#include "backends/cpu/processor.h"
#include "backends/x86/x86.h"
#include "common/clock.h"
#include "graph/base/map.h"
#include "graph/base/memory.h"
#include "graph/base/parallel.h"
#include "graph/base/watcher.h"

/* kernels of a translation unit; BEHIND_BATCH: of one that is compiled behind the runs, which take over as it comes, so
 * that a process that ends soon leaves some to the next */
enum { MAX_BATCH = 48, BEHIND_BATCH = 16 };

/* ---- batches ---- */

typedef struct {
    char hash[33], symbol[40];
    Text text;                                                   /* of a function "k"; until it is compiled */
    CpuKernel fn;
    int batch;
    bool taken;                                                  /* from the thread that compiled it */
} Item;

typedef struct {
    Code *code;
    const char *cache_dir;
    Compiler cc;
    Arena *arena;
    Map items, entries;                                          /* hash -> Item; entry -> library */
    Item *item;
    uint32_t count;
    BundleWriter *to;                                            /* objects go there as well; or NULL */
    uint32_t written;
    const atomic_bool *stop;                                     /* of a compile behind the runs; or NULL */
    bool avx2;                                                   /* as CpuCompile's */
    Undo undo;
} Build;

static void hex(char out[33], XXH128_hash_t h)
{
    snprintf(out, 33, "%016llx%016llx", (unsigned long long)h.high64, (unsigned long long)h.low64);
}

/* Takes the text. */
static Item *add_item(Build *b, Text *text)
{
    char hash[33];
    hex(hash, XXH3_128bits_withSeed(text->s, text->len, b->cc.identity));
    Item *i = map_gets(&b->items, hash);
    if (i) return text_free(text), i;
    i = &b->item[b->count++];
    *i = (Item){ .text = *text };
    strcpy(i->hash, hash);
    snprintf(i->symbol, sizeof i->symbol, "k_%s", hash);
    map_puts(&b->items, hash, i);
    return i;
}

typedef struct { Kernel *const *k; Text *text; bool *good; } Rendering;

static void render_one(void *rendering, uint32_t i)
{
    const Rendering *r = rendering;
    r->good[i] = cstyle_render(&r->text[i], &cpu_style, r->k[i], "k") == TG_OK;
}

static TgStatus add_items(Build *b, Item **of, Kernel *const *k, uint32_t n, int jobs)
{
    Rendering r = { k, NEW_N(b->arena, Text, n), NEW_N(b->arena, bool, n) };
    TgStatus status = parallel_all((uint32_t)jobs, n, render_one, &r);
    for (uint32_t i = 0; i < n; i++) {
        Text again = { 0 };
        if (status == TG_OK && r.good[i]) of[i] = add_item(b, &r.text[i]);
        else text_free(&r.text[i]);
        if (status == TG_OK && !r.good[i]) status = cstyle_render(&again, &cpu_style, k[i], "k");       /* says why */
        text_free(&again);
    }
    return status;
}

static void undo_library(void *library) { library_close(library); }

static void keep_library(Build *b, const char *entry, void *library)
{
    Code *c = b->code;
    Undo undo;
    undo_push(&undo, undo_library, library);
    map_puts(&b->entries, entry, library);
    c->library = mem_grow_beside(c, c->library, (c->nlibrary + 1) * sizeof *c->library);
    c->library[c->nlibrary++] = library;
    undo_pop(&undo);
}

/* From the cache: an index row names the entry. */
static bool item_cached(Build *b, Item *i)
{
    void *row, *bytes;
    size_t size;
    char entry[33] = "";
    if (!cache_get(&row, &size, b->cache_dir, "cpu-index", i->hash)) return false;
    if (size == 32) memcpy(entry, row, 32);
    mem_free(row);
    void *library = map_gets(&b->entries, entry);
    if (!library && *entry && cache_get(&bytes, &size, b->cache_dir, "cpu", entry)) {
        library = library_open(b->code, bytes, size);
        mem_free(bytes);
        if (library) keep_library(b, entry, library);
    }
    i->fn = library ? library_find(library, i->symbol) : NULL;
    return i->fn != NULL;
}

static int by_length(const void *a, const void *b)
{
    size_t x = (*(Item *const *)a)->text.len, y = (*(Item *const *)b)->text.len;
    return x < y ? 1 : x > y ? -1 : 0;
}

/* Longest first, each to the batch with the least text. */
static int assign_batches(Item **missing, uint32_t n, int jobs)
{
    uint32_t most = (n + 1) / 2 < (uint32_t)jobs ? (n + 1) / 2 : (uint32_t)jobs;
    int batches = (int)(most < MAX_JOBS ? most : MAX_JOBS);
    size_t load[MAX_JOBS] = { 0 };
    if (batches < 1) batches = 1;
    qsort(missing, n, sizeof *missing, by_length);
    for (uint32_t k = 0; k < n; k++) {
        int least = 0;
        for (int i = 1; i < batches; i++)
            if (load[i] < load[least]) least = i;
        missing[k]->batch = least;
        load[least] += missing[k]->text.len + 1500;                /* a kernel has a price of its own */
    }
    return batches;
}

/* The function "k" under its symbol. */
static void add_text(Text *t, const Item *i)
{
    static const char head[] = "void k(void";
    const char *at = strstr(i->text.s, head);
    if (!at) return;
    text_bytes(t, i->text.s, (size_t)(at - i->text.s));
    text_add(t, "void %s(void", i->symbol);
    text_add(t, "%s", at + sizeof head - 1);
}

static TgStatus batch_start(const Build *b, Work *w, Item *const *missing, uint32_t n)
{
    int batch = w->started;
    Job *job = job_new(w, batch);
    Text t = { 0 };
    TgStatus s = TG_OK;
    for (uint32_t k = 0; k < n; k++)
        if (missing[k]->batch == batch) add_text(&t, missing[k]);
    s = job_write(job, &t);
    text_free(&t);
    if (!s) job->pid = compiler_start(&b->cc, &(CompilerFiles){ w->folder, job->source, job->object, job->log }, false);
    if (job->pid > 0 && b->stop) setpriority(PRIO_PROCESS, (id_t)job->pid, 19);
    return s;
}

static TgStatus batch_load(Build *b, const Job *job, Item *const *missing, uint32_t n, int batch)
{
    void *bytes, *library;
    size_t size;
    char entry[33];
    TRY(job_read(&bytes, &size, job));
    hex(entry, XXH3_128bits(bytes, size));
    if ((library = library_open(b->code, bytes, size))) {
        keep_library(b, entry, library);
        cache_put(b->cache_dir, "cpu", entry, bytes, size);
    }
    char piece[32];
    snprintf(piece, sizeof piece, "cpu/code/%u", b->written++);
    TgStatus stored = b->to ? bundle_put(b->to, piece, bytes, size) : TG_OK;
    mem_free(bytes);
    TRY(stored);
    if (!library) return fail(TG_CACHE, "compiled kernels cannot be loaded: %s", dlerror());
    for (uint32_t k = 0; k < n; k++) {
        if (missing[k]->batch != batch) continue;
        if (!(missing[k]->fn = library_find(library, missing[k]->symbol)))
            return fail(TG_INTERNAL, "a compiled kernel lacks its symbol");
        cache_put(b->cache_dir, "cpu-index", missing[k]->hash, entry, 32);
    }
    return TG_OK;
}

static TgStatus compile_missing(Build *b, Item **missing, Share share, int jobs)
{
    Work w;
    TgStatus s = TG_OK;
    Undo undo;
    uint32_t n = share.now;
    missing += share.before;
    int batches = assign_batches(missing, n, jobs);
    if (!*b->cc.path) return compiler_find(&b->cc);
    TRY(work_begin(&w));
    undo_push(&undo, work_undo, &w);
    while (w.started < batches && !s)
        if (!(s = batch_start(b, &w, missing, n))) w.started++;
    TgStatus waited = jobs_wait(&w, share, b->stop);
    for (int i = 0; i < batches && !s && !waited; i++) s = batch_load(b, &w.job[i], missing, n, i);
    undo_pop(&undo);
    work_end(&w);
    return s ? s : waited;
}

static bool refused(TgStatus s)
{
    if (s) status_clear();
    return s != TG_OK;
}

typedef struct { const Build *b; Kernel *const *k; Bytes *code; TgStatus *status; } Assembly;

static void assemble_one(void *assembly, uint32_t i)
{
    const Assembly *a = assembly;
    if (!a->b->code->fn[i]) a->status[i] = x86_assemble(&a->code[i], a->k[i], a->b->avx2);
}

/* One behind the other; to has the sums of their sizes. */
static void join(Bytes *to, Bytes *code, uint32_t n)
{
    size_t at = 0, calls = 0;
    to->data = mem_new(to->size + 1);
    to->call = mem_new((to->ncall + 1) * sizeof *to->call);
    for (uint32_t i = 0; i < n; i++) {
        if (code[i].size) memcpy(to->data + at, code[i].data, code[i].size);
        for (uint32_t k = 0; k < code[i].ncall; k++)
            to->call[calls++] = (X86Call){ (uint32_t)at + code[i].call[k].at, code[i].call[k].function };
        at += code[i].size;
        mem_free(code[i].data);
        mem_free(code[i].call);
    }
}

/* Machine code of our own for the kernels that have none yet. TG_UNSUPPORTED, with the reason: one of them has none. */
static TgStatus assemble(Build *b, Kernel *const *k, uint32_t n, int jobs)
{
    Bytes all = { 0 };
    Assembly a = { b, k, NEW_N(b->arena, Bytes, n), NEW_N(b->arena, TgStatus, n) };
    TgStatus status = parallel_all((uint32_t)jobs, n, assemble_one, &a);
    for (uint32_t i = 0; i < n; i++) {
        if (!status && a.status[i]) status = x86_assemble(&a.code[i], k[i], b->avx2);                   /* says why */
        all.size += a.code[i].size;
        all.ncall += a.code[i].ncall;
    }
    join(&all, a.code, n);
    x86_link(&all);
    char *pages = all.size && !status ? x86_map(&all) : NULL;
    if (all.size && !status && !pages) status = fail(TG_LIMIT, "the system has no memory for machine code");
    size_t first = 0;
    for (uint32_t i = 0; pages && i < n; first += a.code[i++].size) {
        void *p = pages + first;
        if (a.code[i].size) memcpy(&b->code->fn[i], &p, sizeof p);
    }
    b->code->own = pages, b->code->own_bytes = all.size;
    b->code->call = all.call, b->code->ncall = all.ncall;
    mem_free(all.data);
    return status;
}

/* What a thread compiles behind the runs. */
struct Behind {
    Build b;
    Item **of, **missing;                                        /* of: by kernel */
    uint32_t count, nmissing, taken;
    pthread_t thread;
    atomic_bool stop;
    atomic_uint ready;                                           /* of `missing`, the first so many */
};

/* One after another, of all sessions of the process. False: it is to stop. */
static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER;
static bool take_turn(const Behind *h)
{
    while (!atomic_load(&h->stop)) {
        if (!pthread_mutex_trylock(&turn)) return true;
        nanosleep(&(struct timespec){ 0, 5000000 }, NULL);
    }
    return false;
}

static bool compile_some(Behind *h, Share share)
{
    TgStatus status;
    ATTEMPT(status, compile_missing(&h->b, h->missing, share, 1));
    return !refused(status);
}

static void *compile_behind(void *user)
{
    Behind *h = user;
    bool good = true;
    qsort(h->missing, h->nmissing, sizeof *h->missing, by_length);
    for (uint32_t at = 0, now; at < h->nmissing && good; at += now) {
        now = h->nmissing - at < BEHIND_BATCH ? h->nmissing - at : BEHIND_BATCH;
        if (!take_turn(h)) return NULL;
        good = compile_some(h, (Share){ at, now, h->nmissing });
        pthread_mutex_unlock(&turn);
        if (good) atomic_store(&h->ready, at + now);
    }
    return NULL;
}

static void free_texts(Build *b)
{
    for (uint32_t i = 0; i < b->count; i++) text_free(&b->item[i].text);
}

/* Takes the build over. False: there is no thread to be had. */
static bool begin_behind(Build *b, Item **of, uint32_t count, Item **missing, uint32_t nmissing)
{
    Behind *h = mem_zeros(1, sizeof *h);
    *h = (Behind){ .b = *b, .of = of, .missing = missing, .count = count, .nmissing = nmissing };
    h->b.stop = &h->stop;
    if (pthread_create(&h->thread, NULL, compile_behind, h)) {
        mem_free(h);
        return false;
    }
    b->code->behind = h;
    return true;
}

static void end_behind(Code *c)
{
    Behind *h = c->behind;
    if (!h) return;
    atomic_store(&h->stop, true);
    pthread_join(h->thread, NULL);
    free_texts(&h->b);
    arena_free(h->b.arena);
    mem_free(h);
    c->behind = NULL;
}

static void take_ready(Code *c)
{
    Behind *h = c->behind;
    uint32_t ready = h ? atomic_load(&h->ready) : 0;
    if (!h || ready == h->taken) return;
    while (h->taken < ready) h->missing[h->taken++]->taken = true;
    for (uint32_t i = 0; i < h->count; i++)
        if (h->of[i]->taken) c->fn[i] = h->of[i]->fn;
    if (ready == h->nmissing) end_behind(c);
    atomic_fetch_add(&c->version, 1);
}

unsigned cpu_code_ready(Code *c)
{
    if (atomic_load_explicit(&c->behind, memory_order_relaxed) && !pthread_mutex_trylock(&c->lock)) {
        take_ready(c);
        pthread_mutex_unlock(&c->lock);
    }
    return atomic_load(&c->version);
}

static void keep_hashes(Build *b, Item *const *of, uint32_t n)
{
    b->code->identity = b->cc.identity;
    b->code->hash = mem_zeros(n + 1, sizeof *b->code->hash);
    for (uint32_t i = 0; i < n; i++) memcpy(b->code->hash[i], of[i]->hash, sizeof of[i]->hash);
}

static TgStatus build(Build *b, Kernel *const *k, uint32_t n, int jobs, CpuCompiler by, CompileStats *stats)
{
    Item **of = NEW_N(b->arena, Item *, n), **missing = NEW_N(b->arena, Item *, n);
    uint32_t nmissing = 0;
    if (by == CPU_OWN) {
        if (stats) stats->compiled += n;
        return assemble(b, k, n, jobs);
    }
    TRY(add_items(b, of, k, n, jobs));
    for (uint32_t i = 0; i < b->count; i++)
        if (!item_cached(b, &b->item[i])) missing[nmissing++] = &b->item[i];
    if (stats) stats->compiled += nmissing, stats->cached += b->count - nmissing;
    keep_hashes(b, of, n);
    for (uint32_t i = 0; i < n; i++) b->code->fn[i] = of[i]->fn;
    if (by == CPU_AUTO && nmissing && !refused(assemble(b, k, n, jobs)) &&
        (!*b->cc.path || begin_behind(b, of, n, missing, nmissing)))
        return TG_OK;
    for (uint32_t at = 0, most = (uint32_t)jobs * MAX_BATCH; at < nmissing; at += most)
        TRY(compile_missing(b, missing, (Share){ at, nmissing - at < most ? nmissing - at : most, nmissing }, jobs));
    for (uint32_t i = 0; i < n; i++) b->code->fn[i] = of[i]->fn;
    return TG_OK;
}

static void build_undo(void *build) { cpu_code_free(((Build *)build)->code); }

static void build_begin(Build *b, uint32_t n)
{
    b->arena = arena_new();
    map_init(&b->items, b->arena);
    map_init(&b->entries, b->arena);
    b->item = NEW_N(b->arena, Item, n);
    Code *c = mem_zeros(1, sizeof *c);
    c->fn = mem_zeros(n + 1, sizeof *c->fn);
    c->count = n;
    pthread_mutex_init(&c->lock, NULL);
    b->code = c;
    undo_push(&b->undo, build_undo, b);
}

static TgStatus build_end(Code **out, Build *b, TgStatus s)
{
    undo_pop(&b->undo);
    if (!b->code->behind) free_texts(b), arena_free(b->arena);                    /* else the thread's */
    if (s) cpu_code_free(b->code);
    else *out = b->code;
    return s;
}

/* s: of looking for it. What CC names is wanted. */
static bool lacks_compiler(CpuCompile *how, TgStatus s)
{
    return how->lacks = s == TG_CACHE && how->or_own && (how->by == CPU_AUTO || !getenv("CC"));
}

TgStatus cpu_compile(Code **out, CpuCompile *how, Kernel *const *k, uint32_t n, CompileStats *stats)
{
    Build b = { .cache_dir = how->cache_dir, .avx2 = how->avx2 };
    double start = clock_s();
    int jobs = how->jobs < 1 ? 1 : how->jobs < MAX_JOBS ? how->jobs : MAX_JOBS;
    TgStatus s = TG_OK;
    build_begin(&b, n);
    if (how->by != CPU_OWN) s = compiler_or_last(&b.cc, how->cache_dir);
    if (lacks_compiler(how, s)) status_clear(), s = TG_OK;
    if (!s) s = build(&b, k, n, jobs, how->lacks ? CPU_OWN : how->by, stats);
    if (stats) stats->compile_s += clock_s() - start;
    return build_end(out, &b, s);
}

/* ---- programs that are kept: the hashes under which the cache has, or will have, their kernels; until it has them the
 * text of these and machine code of our own ---- */

bool cpu_code_remember(Text *out, const Code *c)
{
    if (!c->hash && !c->own) return false;
    put_int(out, (int64_t)c->identity);
    put_bytes(out, c->own, c->own_bytes);
    put_int(out, c->ncall);
    for (uint32_t k = 0; k < c->ncall; k++) put_int(out, c->call[k].at), put_int(out, c->call[k].function);
    for (uint32_t i = 0; i < c->count; i++) {
        const Item *item = c->behind ? c->behind->of[i] : NULL;
        char *fn;
        memcpy(&fn, &c->fn[i], sizeof fn);
        bool own = c->own && fn >= (char *)c->own && fn < (char *)c->own + c->own_bytes;
        put_text(out, c->hash ? c->hash[i] : NULL);
        put_text(out, own && item ? item->text.s : NULL);
        put_int(out, own ? fn - (char *)c->own : -1);
    }
    return true;
}

static Item *named_item(Build *b, const char *hash)
{
    Item *i = map_get(&b->items, hash, 32);
    if (i) return i;
    i = &b->item[b->count++];
    snprintf(i->hash, sizeof i->hash, "%.32s", hash);
    snprintf(i->symbol, sizeof i->symbol, "k_%s", i->hash);
    map_puts(&b->items, i->hash, i);
    return i;
}

/* What is known of a kernel: any may be absent. */
typedef struct { const char *hash, *text; int64_t own; } Remembered;

/* From the cache; what it lacks is compiled from its text behind the runs. */
static bool recall_named(Build *b, Item **of, const Remembered *k, uint32_t n, CpuCompiler by, CompileStats *stats)
{
    Item **missing = NEW_N(b->arena, Item *, n);
    uint32_t nmissing = 0;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t before = b->count;
        if (!k[i].hash || strlen(k[i].hash) != 32) return false;
        of[i] = named_item(b, k[i].hash);
        if (before == b->count || item_cached(b, of[i])) continue;
        if (!k[i].text || by != CPU_AUTO) return false;
        text_bytes(&of[i]->text, k[i].text, strlen(k[i].text));
        missing[nmissing++] = of[i];
    }
    keep_hashes(b, of, n);
    for (uint32_t i = 0; i < n; i++) b->code->fn[i] = of[i]->fn;
    stats->compiled += nmissing;
    stats->cached += b->count - nmissing;
    return !nmissing || !*b->cc.path || begin_behind(b, of, n, missing, nmissing);
}

/* For kernels that have no function yet. */
static bool recall_own(Code *c, Bytes *own, const Remembered *k, uint32_t n)
{
    uint32_t lacks = 0;
    for (uint32_t i = 0; i < n; i++) lacks += !c->fn[i];
    if (!lacks) return true;
    if (!own->size) return false;
    Bytes linked = *own;
    linked.data = mem_new(own->size);
    memcpy(linked.data, own->data, own->size);
    x86_link(&linked);
    c->own = x86_map(&linked);
    c->own_bytes = own->size;
    mem_free(linked.data);
    if (!c->own) return false;
    for (uint32_t i = 0; i < n; i++) {
        if (c->fn[i]) continue;
        if (k[i].own < 0 || (size_t)k[i].own >= own->size) return false;
        void *fn = (char *)c->own + k[i].own;
        memcpy(&c->fn[i], &fn, sizeof fn);
    }
    return true;
}

static bool recall(Build *b, CpuCompiler by, ByteReader *in, uint32_t n, CompileStats *stats)
{
    Item **of = NEW_N(b->arena, Item *, n);
    Remembered *k = NEW_N(b->arena, Remembered, n);
    Bytes own = { 0 };
    bool same = (uint64_t)get_int(in) == b->cc.identity;
    own.data = (uint8_t *)(uintptr_t)get_bytes(in, &own.size);
    own.ncall = get_count(in);
    own.call = NEW_N(b->arena, X86Call, own.ncall + 1);
    for (uint32_t c = 0; c < own.ncall; c++) {
        int64_t at = get_int(in), function = get_int(in);
        in->bad |= at < 0 || (size_t)at + 8 > own.size || function < 0 || function >= x86_function_count;
        own.call[c] = (X86Call){ (uint32_t)at, (uint32_t)function };
    }
    for (uint32_t i = 0; i < n; i++) {
        k[i].hash = get_text(in, b->arena);
        k[i].text = get_text(in, b->arena);
        k[i].own = get_int(in);
    }
    if (in->bad) return false;
    if (by == CPU_OWN) stats->cached += n;
    return (by == CPU_OWN || (same && recall_named(b, of, k, n, by, stats))) && recall_own(b->code, &own, k, n);
}

bool cpu_code_recall(Code **out, CpuCompile *how, ByteReader *in, uint32_t n, CompileStats *stats)
{
    Build b = { .cache_dir = how->cache_dir, .avx2 = how->avx2 };
    CompileStats found = { 0 };
    double start = clock_s();
    TgStatus s = TG_OK;
    build_begin(&b, n);
    if (how->by != CPU_OWN) s = compiler_or_last(&b.cc, how->cache_dir);
    if (lacks_compiler(how, s)) s = TG_OK;
    if (!s && !recall(&b, how->lacks ? CPU_OWN : how->by, in, n, &found)) s = TG_CACHE;
    if (s) status_clear();
    found.compile_s = clock_s() - start;
    if (!s) *stats = found;
    return build_end(out, &b, s) == TG_OK;
}

/* ---- compiled models: objects in a bundle, and which compiler and processor they are of ---- */

typedef struct { XXH64_hash_t compiler; unsigned word[PROCESSOR_WORDS]; } Identity;

TgStatus cpu_code_save(BundleWriter *w, int jobs, Kernel *const *k, uint32_t n)
{
    Build b = { .to = w };
    Code *code = NULL;
    Identity id;
    build_begin(&b, n);
    memset(&id, 0, sizeof id);
    processor_words(id.word);
    TgStatus s = compiler_find(&b.cc);
    id.compiler = b.cc.identity;
    if (!s) s = build(&b, k, n, jobs < 1 ? 1 : jobs < MAX_JOBS ? jobs : MAX_JOBS, CPU_CC, NULL);
    if (!s) s = bundle_put(w, "cpu/identity", &id, sizeof id);
    if (!s) s = bundle_put(w, "cpu/kernels", b.code->hash, (n + 1) * sizeof *b.code->hash);
    s = build_end(&code, &b, s);
    if (!s) cpu_code_free(code);
    return s;
}

/* What the processor had that compiled it must be here too. */
static TgStatus check_processor(const Identity *id)
{
    unsigned here[PROCESSOR_WORDS];
    processor_words(here);
    for (int k = PROCESSOR_FEATURES; k < PROCESSOR_WORDS; k++)
        if (id->word[k] & ~here[k])
            return fail(TG_DEVICE, "was compiled for a processor (model %x) with features that this one (%x) lacks; "
                        "compile it again here", id->word[PROCESSOR_MODEL], here[PROCESSOR_MODEL]);
    return TG_OK;
}

static TgStatus open_objects(Build *b, const Bundle *from)
{
    char piece[32];
    for (uint32_t i = 0; snprintf(piece, sizeof piece, "cpu/code/%u", i), bundle_has(from, piece); i++) {
        Piece object;
        TRY(bundle_get(from, &object, piece));
        void *library = library_open(b->code, object.data, object.size);
        if (!library) return fail(TG_CACHE, "compiled kernels cannot be loaded: %s", dlerror());
        keep_library(b, piece, library);
    }
    return TG_OK;
}

/* Kernels without their code are of a plan that this build made: the n-th has the n-th hash. */
static TgStatus name_items(Build *b, Item **of, const Bundle *from, uint32_t n)
{
    Piece hashes;
    TRY(bundle_get(from, &hashes, "cpu/kernels"));
    if (hashes.size != (n + 1) * sizeof *b->code->hash) return fail(TG_BAD_MODEL, "is damaged: it lacks kernels");
    for (uint32_t i = 0; i < n; i++) of[i] = named_item(b, ((char (*)[33])(uintptr_t)hashes.data)[i]);
    return TG_OK;
}

static TgStatus find_stored(Build *b, const Bundle *from, int jobs, Kernel *const *k, uint32_t n)
{
    Item **of = NEW_N(b->arena, Item *, n);
    TRY(n && !k[0]->linear ? name_items(b, of, from, n) : add_items(b, of, k, n, jobs));
    for (uint32_t i = 0; i < n; i++) {
        Item *item = of[i];
        for (uint32_t l = 0; l < b->code->nlibrary && !item->fn; l++)
            item->fn = library_find(b->code->library[l], item->symbol);
        if (!item->fn)
            return fail(TG_BAD_MODEL, "lacks kernel %s: another build of tgrun compiled it; compile it again",
                        k[i]->name);
        b->code->fn[i] = item->fn;
    }
    return TG_OK;
}

TgStatus cpu_code_restore(Code **out, const Bundle *from, int jobs, Kernel *const *k, uint32_t n)
{
    Build b = { .cache_dir = NULL };
    Piece id;
    build_begin(&b, n);
    TgStatus s = bundle_get(from, &id, "cpu/identity");
    if (!s && id.size != sizeof(Identity)) s = fail(TG_BAD_MODEL, "is damaged: it does not say for which processor");
    if (!s) s = check_processor(id.data);
    if (!s) b.cc.identity = ((const Identity *)id.data)->compiler;
    if (!s) s = open_objects(&b, from);
    if (!s) s = find_stored(&b, from, jobs, k, n);
    return build_end(out, &b, s);
}

void cpu_code_free(Code *c)
{
    if (!c) return;
    end_behind(c);
    for (uint32_t i = 0; i < c->nlibrary; i++) library_close(c->library[i]);
    if (c->own) x86_unmap(c->own, c->own_bytes);
    mem_free(c->call);
    pthread_mutex_destroy(&c->lock);
    mem_free(c->library);
    mem_free(c->hash);
    mem_free(c->fn);
    mem_free(c);
}

TgStatus cpu_assembly(Text *out, const Kernel *k)
{
    Compiler cc;
    Work w;
    Text t = { 0 };
    Undo undo;
    void *bytes = NULL;
    size_t size;
    TRY(compiler_find(&cc));
    TRY(work_begin(&w));
    undo_push(&undo, work_undo, &w);
    Job *job = job_new(&w, 0);
    TgStatus s = cstyle_render(&t, &cpu_style, k, k->name);
    if (!s) s = job_write(job, &t);
    text_free(&t);
    if (!s) job->pid = compiler_start(&cc, &(CompilerFiles){ w.folder, job->source, job->object, job->log }, true);
    if (!s) w.started = 1;
    if (!s) s = jobs_wait(&w, (Share){ 0, 1, 1 }, NULL);
    if (!s) s = job_read(&bytes, &size, job);
    if (!s) text_bytes(out, bytes, size);
    mem_free(bytes);
    undo_pop(&undo);
    work_end(&w);
    return s;
}
