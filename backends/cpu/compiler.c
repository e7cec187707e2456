/* Which C compiler makes kernels, how it is called, and what its code depends on: its program, flags, this CPU, our
 * version. */
#define _GNU_SOURCE
#include "backends/cpu/compiler.h"

#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "backends/cache.h"
#include "backends/cpu/cpu.h"
#include "backends/cpu/processor.h"
#include "backends/sandbox.h"
#include "graph/base/memory.h"

extern char **environ;

enum { CODE_VERSION = 1 };
#ifdef __SANITIZE_THREAD__
#define WATCHED , "-fsanitize=thread" /* so that a wait that is missing between two kernels is seen */
#else
#define WATCHED
#endif
#define FLAGS \
    "-O2", "-std=gnu11", "-w", "-ffp-contract=fast", "-fno-math-errno", "-fno-trapping-math", \
        "-fwrapv", "-fno-strict-aliasing", "-fno-stack-protector", "-fno-asynchronous-unwind-tables", \
        "-fPIC" WATCHED
static const char *const flags[] = { FLAGS, NULL };

static bool find_program(char out[PATH_MAX], const char *name)
{
    char one[PATH_MAX];
    const char *path = strchr(name, '/') ? "" : getenv("PATH");
    while (path) {
        const char *end = strchrnul(path, ':');
        snprintf(one, sizeof one, "%.*s%s%s", (int)(end - path), path, end == path ? "" : "/", name);
        if (!access(one, X_OK) && realpath(one, out)) return true;
        path = *end ? end + 1 : NULL;
    }
    return false;
}

static XXH64_hash_t processor_identity(void)
{
    unsigned word[PROCESSOR_WORDS];
    processor_words(word);
    return XXH3_64bits(word, sizeof word);
}

/* What code depends on besides its text: each word's program, or the word. */
static void add_identity(Compiler *c, const char *word)
{
    struct { int64_t size, time; char path[PATH_MAX]; } id;
    struct stat st;
    memset(&id, 0, sizeof id);
    if (find_program(id.path, word) && !stat(id.path, &st)) id.size = st.st_size, id.time = st.st_mtime;
    else snprintf(id.path, sizeof id.path, "%s", word);
    const char *base = strrchr(id.path, '/');
    c->clang |= strstr(base ? base : id.path, "clang") != NULL;
    c->identity = XXH3_64bits_withSeed(&id, sizeof id, c->identity);
}

static bool compiler_is(Compiler *c, const char *name)
{
    char *more;
    c->narg = 0;
    snprintf(c->words, sizeof c->words, "%s", name);
    char *word = strtok_r(c->words, " \t", &more);
    if (!word || !find_program(c->path, word)) return false;
    c->identity = processor_identity() + CODE_VERSION, c->clang = false;
    add_identity(c, word);
    while ((word = strtok_r(NULL, " \t", &more))) {
        if (c->narg == CC_WORDS) return false;
        c->arg[c->narg++] = (int)(word - c->words), add_identity(c, word);
    }
    for (const char *const *f = processor_flags(c->clang, false); *f; f++)
        c->identity = XXH3_64bits_withSeed(*f, strlen(*f), c->identity);
    for (int k = 0; flags[k]; k++) c->identity ^= XXH3_64bits_withSeed(flags[k], strlen(flags[k]), (XXH64_hash_t)k);
    return true;
}

TgStatus compiler_find(Compiler *c)
{
    const char *own = getenv("CC"), *name[] = { "gcc", "clang", "cc" };
    if (own && *own && strlen(own) >= sizeof c->words) return fail(TG_CACHE, "CC is longer than %d bytes", PATH_MAX);
    if (own && *own && compiler_is(c, own)) return TG_OK;
    if (own && *own)
        return c->narg == CC_WORDS ? fail(TG_CACHE, "CC has more than %d words", CC_WORDS)
                                   : fail(TG_CACHE, "the C compiler that CC names is not there: '%s'", own);
    for (int i = 0; i < 3; i++)
        if (compiler_is(c, name[i])) return TG_OK;
    return fail(TG_CACHE, "no C compiler found ($CC, gcc, clang, cc): install the package gcc");
}

TgStatus compiler_or_last(Compiler *c, const char *cache_dir)
{
    void *last = NULL;
    size_t size = 0;
    TgStatus status = compiler_find(c);
    const char *own = getenv("CC");
    bool known = cache_get(&last, &size, cache_dir, "cpu-compiler", "last") && size == sizeof c->identity;
    if (status == TG_OK && (!known || memcmp(last, &c->identity, size)))
        cache_put(cache_dir, "cpu-compiler", "last", &c->identity, sizeof c->identity);
    if (status != TG_OK && known && !(own && *own))
        memcpy(&c->identity, last, size), *c->path = 0, status_clear(), status = TG_OK;
    mem_free(last);
    return status;
}

void cpu_compiler(char out[128])
{
    Compiler c;
    *out = 0;
    if (compiler_find(&c) == TG_OK)
        snprintf(out, 128, "%s %016llx", strrchr(c.path, '/') + 1, (unsigned long long)c.identity);
    else status_clear();
}

/* A compiler that runs wild ends itself: seconds of a processor, bytes of a file and of memory, no core. What it starts
 * has the same limits. */
static void limit(pid_t pid)
{
    static const struct {
        __rlimit_resource_t what;
        rlim_t most;
    } row[] = { { RLIMIT_CPU, 600 }, { RLIMIT_FSIZE, 1 << 30 }, { RLIMIT_DATA, (rlim_t)4 << 30 }, { RLIMIT_CORE, 0 } };
    for (size_t k = 0; k < sizeof row / sizeof *row; k++) {
        struct rlimit l;
        if (prlimit(pid, row[k].what, NULL, &l)) continue;
        if (l.rlim_cur > row[k].most) l.rlim_cur = row[k].most, prlimit(pid, row[k].what, &l, NULL);
    }
}

/* ccache and the like keep files of their own, and may ask other machines. */
static bool is_launcher(const Compiler *c)
{
    const char *name = strrchr(c->path, '/') + 1;
    return c->narg || strstr(name, "cache") || strstr(name, "dist");
}

typedef struct {
    const char *const *arg, *const *environment;
    const posix_spawn_file_actions_t *actions;
    const posix_spawnattr_t *attr;
    pid_t pid;
} Start;

static void start(void *user)
{
    Start *s = user;
    if (posix_spawn(&s->pid, s->arg[0], s->actions, s->attr, (char *const *)(uintptr_t)s->arg,
                    (char *const *)(uintptr_t)s->environment))
        s->pid = -1;
    else limit(s->pid);
}

/* The process's, but that files for a while go into the folder. */
static const char **environment_in(const char *folder)
{
    size_t n = 0, to = 0;
    while (environ && environ[n]) n++;
    const char **all = mem_new((n + 2) * sizeof *all);
    char *own = mem_new(strlen(folder) + sizeof "TMPDIR=");
    sprintf(own, "TMPDIR=%s", folder);
    for (size_t k = 0; k < n; k++)
        if (strncmp(environ[k], "TMPDIR=", 7)) all[to++] = environ[k];
    all[to++] = own;
    all[to] = NULL;
    return all;
}

static void environment_free(const char **all)
{
    size_t n = 0;
    while (all[n + 1]) n++;
    mem_free((void *)(uintptr_t)all[n]);
    mem_free(all);
}

pid_t compiler_start(const Compiler *c, const CompilerFiles *files, CompilerOutput what)
{
    const char *const *processor = processor_flags(c->clang, what == CC_SAFE);
    if (!processor) return -1;
    const char *arg[CC_WORDS + 32] = { c->path }, **environment = environment_in(files->folder);
    int n = 1;
    for (int i = 0; i < c->narg; i++) arg[n++] = c->words + c->arg[i];
    for (int i = 0; flags[i]; i++) arg[n++] = flags[i];
    for (const char *const *f = processor; *f; f++) arg[n++] = *f;
    arg[n++] = what == CC_ASSEMBLY ? "-S" : "-shared";
    arg[n++] = "-o", arg[n++] = files->object, arg[n++] = files->source;
    if (what != CC_ASSEMBLY) arg[n++] = "-lm";
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attr;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&actions, 1, files->log, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    posix_spawn_file_actions_adddup2(&actions, 1, 2);
    posix_spawnattr_init(&attr);
    posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETPGROUP);
    Start s = { arg, environment, &actions, &attr, -1 };
    if (is_launcher(c)) start(&s);
    else sandbox_run(files->folder, start, &s);
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attr);
    environment_free(environment);
    return s.pid;
}
