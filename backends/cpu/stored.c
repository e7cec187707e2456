/* Code that is kept and read again: of programs in the cache, and of compiled models. */
#include "backends/cpu/build.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "backends/cpu/library.h"
#include "backends/cpu/processor.h"
#include "common/clock.h"

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

/* What is known of a kernel: either may be absent. */
typedef struct { const char *hash, *text; } Remembered;

/* From the cache; what it lacks is compiled from its text behind the runs. */
static bool recall_named(Build *b, Item **of, const Remembered *k, uint32_t n, CpuCompiler by, CompileStats *stats)
{
    Item **missing = NEW_N(b->arena, Item *, n);
    uint32_t nmissing = 0;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t before = b->count;
        if (!k[i].hash || strlen(k[i].hash) != 32) return false;
        of[i] = build_named(b, k[i].hash);
        if (before == b->count || build_cached(b, of[i])) continue;
        if (!k[i].text || by != CPU_AUTO) return false;
        text_bytes(&of[i]->text, k[i].text, strlen(k[i].text));
        missing[nmissing++] = of[i];
    }
    build_keep_hashes(b, of, n);
    for (uint32_t i = 0; i < n; i++) b->code->fn[i] = of[i]->fn;
    stats->compiled += nmissing;
    stats->cached += b->count - nmissing;
    return !nmissing || !*b->cc.path || build_behind(b, of, n, missing, nmissing);
}

static bool recall(Build *b, CpuCompiler by, ByteReader *in, uint32_t n, CompileStats *stats)
{
    Item **of = NEW_N(b->arena, Item *, n);
    Remembered *k = NEW_N(b->arena, Remembered, n);
    int64_t *at = NEW_N(b->arena, int64_t, n);
    Bytes own = { 0 };
    bool same = (uint64_t)get_int(in) == b->cc.identity;
    own.data = (uint8_t *)(uintptr_t)get_bytes(in, &own.size);
    own.ncall = get_count(in);
    own.call = NEW_N(b->arena, X86Call, own.ncall + 1);
    for (uint32_t c = 0; c < own.ncall; c++) {
        int64_t place = get_int(in), function = get_int(in);
        in->bad |= place < 0 || (size_t)place + 8 > own.size || function < 0 || function >= x86_function_count;
        own.call[c] = (X86Call){ (uint32_t)place, (uint32_t)function };
    }
    for (uint32_t i = 0; i < n; i++) {
        k[i].hash = get_text(in, b->arena);
        k[i].text = get_text(in, b->arena);
        at[i] = get_int(in);
    }
    if (in->bad) return false;
    if (by == CPU_OWN) stats->cached += n;
    return (by == CPU_OWN || (same && recall_named(b, of, k, n, by, stats))) && build_recall_own(b->code, &own, at, n);
}

bool cpu_code_recall(Code **out, CpuCompile *how, ByteReader *in, uint32_t n, CompileStats *stats)
{
    Build b = { .cache_dir = how->cache_dir, .avx2 = how->avx2 };
    CompileStats found = { 0 };
    double start = clock_s();
    TgStatus s = TG_OK;
    build_begin(&b, n);
    if (how->by != CPU_OWN) s = compiler_or_last(&b.cc, how->cache_dir);
    if (build_lacks_compiler(how, s)) s = TG_OK;
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
    if (!s) s = build_all(&b, k, n, jobs < 1 ? 1 : jobs < MAX_JOBS ? jobs : MAX_JOBS, CPU_CC, NULL);
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
        build_library(b, piece, library);
    }
    return TG_OK;
}

/* Kernels without their code are of a plan that this build made: the n-th has the n-th hash. */
static TgStatus name_items(Build *b, Item **of, const Bundle *from, uint32_t n)
{
    Piece hashes;
    TRY(bundle_get(from, &hashes, "cpu/kernels"));
    if (hashes.size != (n + 1) * sizeof *b->code->hash) return fail(TG_BAD_MODEL, "is damaged: it lacks kernels");
    for (uint32_t i = 0; i < n; i++) of[i] = build_named(b, ((char (*)[33])(uintptr_t)hashes.data)[i]);
    return TG_OK;
}

static TgStatus find_stored(Build *b, const Bundle *from, int jobs, Kernel *const *k, uint32_t n)
{
    Item **of = NEW_N(b->arena, Item *, n);
    TRY(n && !k[0]->linear ? name_items(b, of, from, n) : build_items(b, of, k, n, jobs));
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

