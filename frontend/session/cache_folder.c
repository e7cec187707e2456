/* The cache folder as users see it: what is in it, what is damaged, and how to make it smaller. */
#include <string.h>

#include "backends/cache.h"
#include "frontend/session/session.h"
#include "graph/base/memory.h"

typedef struct { void (*emit)(void *user, const TgCacheFile *file); void *user; } Sink;

static void pass_on(void *user, const CacheFile *f)
{
    const Sink *to = user;
    to->emit(to->user, &(TgCacheFile){ f->kind, f->key, f->size_bytes, f->used, f->good });
}

static TgStatus folder_of(const char **dir, Arena *a)
{
    if (!*dir) *dir = session_cache_dir(a);
    return *dir ? TG_OK : fail(TG_CACHE, "there is no cache folder: neither XDG_CACHE_HOME nor HOME is set");
}

static TgStatus list(const char *cache_dir, bool check, const Sink *to)
{
    Arena *a = arena_new();
    TgStatus status = folder_of(&cache_dir, a);
    if (status == TG_OK && !cache_walk(cache_dir, check ? CACHE_ALL : CACHE_HEADS, pass_on, (void *)(uintptr_t)to))
        status = fail(TG_CACHE, "%s: there is no cache folder", cache_dir);
    arena_free(a);
    return status;
}

TgStatus tg_cache_list(const char *cache_dir, int32_t check, void (*emit)(void *user, const TgCacheFile *file),
                       void *user)
{
    TgStatus status;
    ATTEMPT(status, list(cache_dir, check != 0, &(Sink){ emit, user }));
    return status;
}

static TgStatus prune(const char *cache_dir, int64_t most_bytes, int64_t removed[2], int64_t left[2])
{
    Arena *a = arena_new();
    TgStatus status =
        most_bytes < 0 ? fail(TG_USAGE, "most_bytes is %lld", (long long)most_bytes) : folder_of(&cache_dir, a);
    if (status == TG_OK) {
        CachePruned p = cache_prune(cache_dir, most_bytes);
        removed[0] = p.files, removed[1] = p.bytes;
        left[0] = p.left_files, left[1] = p.left_bytes;
    }
    arena_free(a);
    return status;
}

TgStatus tg_cache_prune(const char *cache_dir, int64_t most_bytes, int64_t removed[2], int64_t left[2])
{
    TgStatus status;
    ATTEMPT(status, prune(cache_dir, most_bytes, removed, left));
    return status;
}
