/* Which device a session has: by its name, or the first that works; and the target that kernels are made for. */
#define _GNU_SOURCE
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

#include "frontend/session/compiled.h"

/* The backends of this build, in the order in which `auto` tries them; those that interpret or write kernels are only
 * used when named. */
static const Backend *const backends[] = {
#ifdef TG_HAVE_CUDA
    &backend_cuda,
#endif
#ifdef TG_HAVE_CPU
    &backend_cpu,
#endif
#ifdef TG_HAVE_REFERENCE
    &backend_reference,
#endif
#ifdef TG_HAVE_C
    &backend_c,
    &backend_c11,
#endif
    NULL
};

static const Backend *backend_named(const char *name, size_t len)
{
    for (int i = 0; backends[i]; i++)
        if (strlen(backends[i]->name) == len && !memcmp(backends[i]->name, name, len)) return backends[i];
    return NULL;
}

static TgStatus open_named(TgSession *s, const char *name, DeviceOptions *o)
{
    size_t len;
    int32_t first, last;
    TRY(shard_devices(name, &len, &first, &last));
    const Backend *b = backend_named(name, len);
    if (!b)
        return fail(TG_DEVICE, "device '%s' is unknown; auto, cpu, cuda, cuda:N, reference, c or c11 is wanted", name);
    bool cuda = !strcmp(b->name, "cuda");
    if (name[len] && !cuda && (!b->divides || first))
        return fail(TG_DEVICE, "device '%s': the number is wrong; cuda:N, or cpu:0-N for several, is wanted", name);
    o->index = first;
    s->backend = b;
    s->device_index = first;
    TRY(shard_of(&s->shard, &s->options, ranks_wanted(&s->options) ? ranks_count() : last - first + 1));
    if (s->shard.devices > 1 && !b->divides)
        return fail(TG_DEVICE, "device '%s': a model is divided among devices of the CPU only", name);
    return b->open(&s->device, o);
}

static TgStatus compiler_of(const TgOptions *o, int32_t *out)
{
    static const char *const name[] = { "cc", "auto", "own" };
    const char *wanted = o->compiler, *common = getenv("TGRUN_DEFAULT_COMPILER");
    bool search = o->beam > 0 || o->tune_s > 0;
    if (wanted && !strcmp(wanted, "own") && search)
        return fail(TG_USAGE, "compiler 'own': a search is for kernels of the C compiler");
    if (!wanted) wanted = common && *common ? common : "auto";
    for (*out = 0; *out < 3 && strcmp(name[*out], wanted);) ++*out;
    if (*out == 3) return fail(TG_USAGE, "compiler '%s' is not known; auto, cc and own are", wanted);
    if (search) *out = 0;
    return TG_OK;
}

/* The last resort where no device compiles kernels: what computes them without. */
static TgStatus open_interpreter(TgSession *s, const DeviceOptions *d)
{
    const Backend *reference = backend_named("reference", strlen("reference"));
    if (!reference) return TG_CACHE;
    status_clear();
    s->backend = reference;
    TRY(reference->open(&s->device, d));
    watch_say("no C compiler ($CC, gcc, clang, cc), and no machine code of tgrun's own for this processor: the "
              "interpreter runs the model, thousands of times slower; install the package gcc");
    return TG_OK;
}

static TgStatus open_one(TgSession *s)
{
    const TgOptions *o = &s->options;
    DeviceOptions d = {
        .threads = o->threads, .cpus = o->cpus, .cache_dir = o->no_cache ? NULL : o->cache_dir, .verbose = o->verbose
    };
    TRY(compiler_of(o, &d.compiler));
    d.compiler_named = o->compiler || o->beam > 0 || o->tune_s > 0;
    if (strcmp(o->device, "auto")) return open_named(s, o->device, &d);
    TRY(shard_of(&s->shard, o, ranks_wanted(o) ? ranks_count() : 1));
    TgStatus status = fail(TG_DEVICE, "no device works here");
    for (int i = 0; backends[i]; i++) {
        if (backends[i]->interprets || (s->shard.devices > 1 && !backends[i]->divides)) continue;
        s->backend = backends[i];
        status = backends[i]->open(&s->device, &d);
        if (!status && backends[i]->ready && (status = backends[i]->ready(s->device)) != TG_OK)
            backends[i]->close(s->device), s->device = NULL;
        if (!status) return TG_OK;
        if (o->verbose) watch_say("%s: %s", backends[i]->name, tg_error());
    }
    return status == TG_CACHE ? open_interpreter(s, &d) : status;
}

TgStatus session_open_device(TgSession *s)
{
    const char *wanted = s->options.compiler;
    TRY(open_one(s));
    if (!wanted || !strcmp(wanted, "auto") || !strcmp(s->backend->name, "cpu")) return TG_OK;
    return fail(TG_USAGE, "compiler '%s': device %s has none to choose", wanted, s->backend->name);
}

static TgStatus describe_device(const TgOptions *options, char name[128], char features[256])
{
    TgSession s = { .options = *options };
    TRY(session_open_device(&s));
    s.backend->describe(s.device, name, features);
    s.backend->close(s.device);
    return TG_OK;
}

TgStatus tg_device(const TgOptions *options, char name[128], char features[256])
{
    TgStatus status;
    ATTEMPT(status, describe_device(options, name, features));
    return status;
}

static void undo_device(void *of)
{
    TgSession *s = of;
    s->backend->close(s->device);
}

static TgStatus read_rates(const TgOptions *options, TgRates *out)
{
    TgSession s = { .options = *options };
    Undo undo;
    Arena *a = arena_new();
    if (!s.options.cache_dir) s.options.cache_dir = session_cache_dir(a);
    TgStatus status = session_open_device(&s);
    if (status != TG_OK) return arena_free(a), status;
    undo_push(&undo, undo_device, &s);
    if (s.backend->measure) s.backend->measure(s.device);
    undo_pop(&undo);
    const Rates *r = target_rates(s.backend->target(s.device));
    *out = (TgRates){ .hz = r->hz, .products = r->fma, .loads = r->load, .stores = r->store, .l2_bytes = r->l2_rate,
                      .l3_bytes = r->l3_rate, .memory_bytes = r->memory_rate, .phase_s = r->phase_s,
                      .measured = r->measured != 0 };
    s.backend->close(s.device);
    arena_free(a);
    return TG_OK;
}

TgStatus tg_rates(const TgOptions *options, TgRates *out)
{
    TgStatus status;
    ATTEMPT(status, read_rates(options, out));
    return status;
}

/* Ranks of one machine that no launcher has bound to cores have equal shares of them. */
static TgStatus share_cores(TgSession *s)
{
    int32_t number, beside = ranks_beside(&number), threads = s->backend->target(s->device)->threads;
    cpu_set_t mask;
    bool bound = sched_getaffinity(0, sizeof mask, &mask) || CPU_COUNT(&mask) < sysconf(_SC_NPROCESSORS_ONLN);
    if (s->options.threads || s->options.cpus || bound || beside < 2) return TG_OK;
    s->backend->close(s->device);
    s->device = NULL;
    s->options.threads = threads > beside ? threads / beside : 1;
    return session_open_device(s);
}

/* Ranks make the same kernels, for a processor that all have. */
static TgStatus join_ranks(TgSession *s)
{
    char name[128], features[256];
    const TgOptions *o = &s->options;
    if (!ranks_wanted(o)) return TG_OK;
    if (o->beam || o->tune_s > 0) return fail(TG_UNSUPPORTED, "shard: ranks do not search");
    TRY(share_cores(s));
    s->target.rank = ranks_number() + 1;
    s->backend->describe(s->device, name, features);
    TRY(ranks_same(XXH3_64bits(features, strlen(features)), "processor"));
    TRY(ranks_same(XXH3_64bits(s->model->hash, strlen(s->model->hash)), "model"));
    int64_t threads = s->backend->target(s->device)->threads;
    TRY(ranks_least(&threads));
    s->target.threads = (int32_t)threads;
    return TG_OK;
}

/* The target that kernels are made for: the device's, with numbers in as many parts as the precision allows. */
TgStatus session_target(TgSession *s)
{
    static const struct {
        const char *name;
        int32_t parts;
    } way[] = { [TG_PRECISION_EXACT] = { "exact", 0 },
                [TG_PRECISION_SPLIT] = { "split", 2 },
                [TG_PRECISION_FAST] = { "fast", 1 } };
    TgPrecision p = s->options.precision;
    if ((unsigned)p >= sizeof way / sizeof *way) return fail(TG_USAGE, "precision: %d is none", (int)p);
    /* each rank would measure others; kernels of a compiled model are chosen */
    if (s->backend->measure && !ranks_wanted(&s->options) && !s->saved) s->backend->measure(s->device);
    s->target = *s->backend->target(s->device);
    s->target.devices = s->shard.devices;
    if (!ranks_wanted(&s->options))
        s->target.threads = (s->target.threads + s->shard.devices - 1) / s->shard.devices;
    TRY(join_ranks(s));
    s->target.parts = way[p].parts;
    if (!s->target.parts || has_parts(&s->target)) return TG_OK;
    s->target.parts = way[TG_PRECISION_FAST].parts;
    return fail(TG_UNSUPPORTED, "precision: device %s does not compute '%s'; %s what it has", s->backend->name,
                way[p].name, has_parts(&s->target) ? "exact and fast are" : "exact is");
}

/* A compiled model runs on at most the threads that it was compiled for. */
TgStatus session_fewer_threads(TgSession *s)
{
    if (!s->saved || s->backend->target(s->device)->threads <= s->saved->target.threads) return TG_OK;
    s->backend->close(s->device);
    s->device = NULL;
    s->options.threads = s->saved->target.threads;
    return session_open_device(s);
}
