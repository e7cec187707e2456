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
#include "backends/cpu/build.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "backends/cache.h"
#include "backends/cpu/library.h"
#include "backends/seal.h"
#include "common/clock.h"
#include "graph/base/parallel.h"

enum { MAX_BATCH = 48 };                /* kernels of a translation unit */

/* ---- batches ---- */

Item *build_named(Build *b, const char *hash)
{
    Item *i = map_get(&b->items, hash, 32);
    if (i) return i;
    i = &b->item[b->count++];
    snprintf(i->hash, sizeof i->hash, "%.32s", hash);
    snprintf(i->symbol, sizeof i->symbol, "k_%s", i->hash);
    map_puts(&b->items, i->hash, i);
    return i;
}

/* Takes the text. */
static Item *add_item(Build *b, Text *text)
{
    char hash[33];
    seal_name(hash, b->cc.identity, text->s, text->len);
    Item *i = build_named(b, hash);
    if (i->text.s) text_free(text);
    else i->text = *text;
    return i;
}

typedef struct { Kernel *const *k; Text *text; bool *good; } Rendering;

static void render_one(void *rendering, uint32_t i)
{
    const Rendering *r = rendering;
    r->good[i] = cstyle_render(&r->text[i], &cpu_style, r->k[i], "k") == TG_OK;
}

TgStatus build_items(Build *b, Item **of, Kernel *const *k, uint32_t n, int jobs)
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

void build_library(Build *b, const char *entry, void *library)
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
bool build_cached(Build *b, Item *i)
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
        if (library) build_library(b, entry, library);
    }
    i->fn = library ? library_find(library, i->symbol) : NULL;
    return i->fn != NULL;
}

int build_by_length(const void *a, const void *b)
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
    qsort(missing, n, sizeof *missing, build_by_length);
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
    if (!s) job_start(w, job, CC_CODE);
    if (job->pid > 0 && b->stop) setpriority(PRIO_PROCESS, (id_t)job->pid, 19);
    return s;
}

static TgStatus batch_load(Build *b, const Job *job, Item *const *missing, uint32_t n, int batch)
{
    void *bytes, *library;
    size_t size;
    char entry[33];
    TRY(job_read(&bytes, &size, job));
    seal_name(entry, 0, bytes, size);
    if ((library = library_open(b->code, bytes, size))) {
        build_library(b, entry, library);
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

TgStatus build_missing(Build *b, Item **missing, Share share, int jobs)
{
    Work w;
    TgStatus s = TG_OK;
    Undo undo;
    uint32_t n = share.now;
    missing += share.before;
    int batches = assign_batches(missing, n, jobs);
    if (!*b->cc.path) return compiler_find(&b->cc);
    TRY(work_begin(&w, &b->cc));
    undo_push(&undo, work_undo, &w);
    while (w.started < batches && !s)
        if (!(s = batch_start(b, &w, missing, n))) w.started++;
    TgStatus waited = jobs_wait(&w, share, b->stop);
    for (int i = 0; i < batches && !s && !waited; i++) s = batch_load(b, &w.job[i], missing, n, i);
    undo_pop(&undo);
    work_end(&w);
    return s ? s : waited;
}

void build_free_texts(Build *b)
{
    for (uint32_t i = 0; i < b->count; i++) text_free(&b->item[i].text);
}

void build_keep_hashes(Build *b, Item *const *of, uint32_t n)
{
    b->code->identity = b->cc.identity;
    b->code->hash = mem_zeros(n + 1, sizeof *b->code->hash);
    for (uint32_t i = 0; i < n; i++) memcpy(b->code->hash[i], of[i]->hash, sizeof of[i]->hash);
}

TgStatus build_all(Build *b, Kernel *const *k, uint32_t n, int jobs, CpuCompiler by, CompileStats *stats)
{
    Item **of = NEW_N(b->arena, Item *, n), **missing = NEW_N(b->arena, Item *, n);
    uint32_t nmissing = 0;
    if (by == CPU_OWN) {
        if (stats) stats->compiled += n;
        return build_own(b, k, n, jobs);
    }
    TRY(build_items(b, of, k, n, jobs));
    for (uint32_t i = 0; i < b->count; i++)
        if (!build_cached(b, &b->item[i])) missing[nmissing++] = &b->item[i];
    if (stats) stats->compiled += nmissing, stats->cached += b->count - nmissing;
    build_keep_hashes(b, of, n);
    for (uint32_t i = 0; i < n; i++) b->code->fn[i] = of[i]->fn;
    if (by == CPU_AUTO && nmissing && !refused(build_own(b, k, n, jobs)) &&
        (!*b->cc.path || build_behind(b, of, n, missing, nmissing)))
        return TG_OK;
    for (uint32_t at = 0, most = (uint32_t)jobs * MAX_BATCH; at < nmissing; at += most)
        TRY(build_missing(b, missing, (Share){ at, nmissing - at < most ? nmissing - at : most, nmissing }, jobs));
    for (uint32_t i = 0; i < n; i++) b->code->fn[i] = of[i]->fn;
    return TG_OK;
}

static void build_undo(void *build) { cpu_code_free(((Build *)build)->code); }

void build_begin(Build *b, uint32_t n)
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

TgStatus build_end(Code **out, Build *b, TgStatus s)
{
    undo_pop(&b->undo);
    if (!b->code->behind) build_free_texts(b), arena_free(b->arena);                    /* else the thread's */
    if (s) cpu_code_free(b->code);
    else *out = b->code;
    return s;
}

/* s: of looking for it. What CC names is wanted. */
bool build_lacks_compiler(CpuCompile *how, TgStatus s)
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
    if (build_lacks_compiler(how, s)) status_clear(), s = TG_OK;
    if (!s) s = build_all(&b, k, n, jobs, how->lacks ? CPU_OWN : how->by, stats);
    if (stats) stats->compile_s += clock_s() - start;
    return build_end(out, &b, s);
}

void cpu_code_free(Code *c)
{
    if (!c) return;
    build_end_behind(c);
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
    TRY(work_begin(&w, &cc));
    undo_push(&undo, work_undo, &w);
    Job *job = job_new(&w, 0);
    TgStatus s = cstyle_render(&t, &cpu_style, k, k->name);
    if (!s) s = job_write(job, &t);
    text_free(&t);
    if (!s) job_start(&w, job, CC_ASSEMBLY), w.started = 1;
    if (!s) s = jobs_wait(&w, (Share){ 0, 1, 1 }, NULL);
    if (!s) s = job_read(&bytes, &size, job);
    if (!s) text_bytes(out, bytes, size);
    mem_free(bytes);
    undo_pop(&undo);
    work_end(&w);
    return s;
}
