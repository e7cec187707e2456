#define _GNU_SOURCE
#include "bench/peer.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <jansson.h>
#include <math.h>
#include <poll.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "bench/measure.h"
#include "bench/python.h"
#include "bench/say.h"
#include "bench/serve.h"
#include "bench/stop.h"
#include "bench/values.h"

extern char **environ;
extern const char peer_ort[], peer_ov[], peer_torch[];
enum { ARGV_MAX = 1024 };

/* ---- folders ---- */

bool folder_make(char out[64])
{
    const char *tmp = getenv("TMPDIR");
    char prefix[32];
    stop_prefix(prefix);
    snprintf(out, 64, "%.36s/%sXXXXXX", tmp && *tmp && strlen(tmp) < 36 ? tmp : "/tmp", prefix);
    if (mkdtemp(out)) return true;
    say_error(TG_CACHE, "%s: %s", out, strerror(errno));
    return false;
}

/* Only files that the peers make: input_K and output_K, .npy or, of what holds tensors, .pb. */
void folder_remove(const char *dir)
{
    static const char *const forms[] = { "%s/input_%d.npy", "%s/input_%d.pb", "%s/output_%d.npy", "%s/output_%d.pb" };
    bool any = true;
    for (int k = 0; k < PORTS_MAX && any; k++) {
        any = false;
        for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
            char path[128];
            snprintf(path, sizeof path, forms[i], dir, k);
            any |= !remove(path);
        }
    }
    rmdir(dir);
}

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *at)
{
    return (void)st, (void)kind, (void)at, remove(path);
}

void folder_clear(const char *dir) { nftw(dir, remove_one, 16, FTW_DEPTH | FTW_PHYS); }

void value_path(char *path, size_t cap, const char *dir, const char *stem, int32_t k, const TgTensor *t)
{
    snprintf(path, cap, "%s/%s_%d.%s", dir, stem, k, holds_tensors(t) ? "pb" : "npy");
}

TgStatus inputs_write(const DataSet *set, const char *dir)
{
    if (set->given)
        return say_error(TG_UNSUPPORTED, "-i %s: what has a default value cannot be given to other engines",
                         set->given);
    for (int32_t k = 0; k < set->ninput; k++) {
        char path[128];
        value_path(path, sizeof path, dir, "input", k, &set->input[k].tensor);
        TgStatus status = tg_tensor_write(&set->input[k].tensor, "", path);
        if (status != TG_OK) return say_library_error(status);
    }
    return TG_OK;
}

TgStatus expected_read(DataSet *set, const TgSession *session, const char *dir, const char *source)
{
    for (int32_t k = 0; k < set->noutput; k++) {
        char path[128];
        TgPort p;
        Bound *b = &set->output[k];
        snprintf(path, sizeof path, "%s/output_%d.pb", dir, k);
        bool holds = !access(path, F_OK);
        if (!holds) snprintf(path, sizeof path, "%s/output_%d.npy", dir, k);
        TgStatus status = tg_output(session, k, &p);
        if (status != TG_OK) return say_library_error(status);
        if (holds && !p.type) p.type = TG_SEQUENCE;
        if ((status = expected_file(b, path, &p)) != TG_OK) return status;
        snprintf(b->source, sizeof b->source, "%s", source);
    }
    return TG_OK;
}

/* ---- command lines ---- */

typedef struct {
    const char *argv[ARGV_MAX];
    int n;
    char text[4096];
    size_t used;
} Command;

static void push(Command *c, const char *s)
{
    if (c->n + 1 < ARGV_MAX) c->argv[c->n++] = s;
}

static const char *keep(Command *c, const char *s, size_t len)
{
    char *at = c->text + c->used;
    if (c->used + len + 1 > sizeof c->text) return "";
    memcpy(at, s, len);
    at[len] = 0;
    c->used += len + 1;
    return at;
}

static const char *keep_text(Command *c, const char *format, const char *s)
{
    char text[300];
    int n = snprintf(text, sizeof text, format, s);
    return keep(c, text, (size_t)n);
}

static void python_command(Command *c, const char *script, const char *model, const char *dir, const char *threads,
                           const char *more)
{
    char path[4096];
    const char *program = python_program(path, sizeof path);
    if (program == path) program = keep(c, path, strlen(path));
    const char *list[] = { program, "-W", "ignore", "-c", script, model, dir, threads, more };
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) push(c, list[i]);
}

/* A size is in the inputs already; a range is the library's to know. */
static bool goes_along(Opt o, const char *value) { return o != OPT_dim || strstr(value, ".."); }

/* This program again, or another build of it, as an engine (serve.h): the options of the command line, then those after
 * `tgrun:`. */
static void own_command(Command *c, const char *engine, const char *model, const char *dir, const char *threads,
                        const Args *a, const char *more)
{
    static const struct {
        Opt o;
        const char *name;
    } passed[] = { { OPT_device, "--device" },
                   { OPT_threads, "--threads" },
                   { OPT_cpus, "--cpus" },
                   { OPT_precision, "--precision" },
                   { OPT_compiler, "--compiler" },
                   { OPT_cache_dir, "--cache-dir" },
                   { OPT_beam, "--beam" },
                   { OPT_tune, "--tune" },
                   { OPT_opts, "--opts" },
                   { OPT_max_memory, "--max-memory" },
                   { OPT_dim, "--dim" },
                   { OPT_batch, "--batch" },
                   { OPT_batch_input, "--batch-input" },
                   { OPT_seed, "--seed" } };
    const char *build = more && (*more == '/' || *more == '.') ? keep(c, more, strcspn(more, " ")) : NULL;
    const char *fixed[] = {
        build ? build : "/proc/self/exe", "@engine", build ? "tgrun" : engine, model, dir, threads
    };
    if (build) more += strlen(build), more += strspn(more, " ");
    for (size_t i = 0; i < sizeof fixed / sizeof *fixed; i++) push(c, fixed[i]);
    for (size_t i = 0; i < sizeof passed / sizeof *passed && more; i++)
        for (uint32_t k = 0; k < a->value[passed[i].o].count; k++) {
            const char *value = a->value[passed[i].o].v[k];
            if (!goes_along(passed[i].o, value)) continue;
            push(c, passed[i].name);
            push(c, value);
        }
    if (more && args_has(a, OPT_no_cache)) push(c, "--no-cache");
    for (size_t len; more && *more; more += len, more += strspn(more, " ")) {
        len = strcspn(more, " ");
        push(c, keep(c, more, len));
    }
}

static bool names_library(const char *s) { return strchr(s, '/') || strstr(s, ".so"); }

static TgStatus command_for(Command *c, const char *engine, const char *model, const char *dir, const Args *a)
{
    const char *colon = strchr(engine, ':'), *more = colon ? colon + 1 : "";
    size_t len = colon ? (size_t)(colon - engine) : strlen(engine);
    char threads[16];
    snprintf(threads, sizeof threads, "%ld", (long)args_count(a, OPT_threads, 0));
    const char *t = keep(c, threads, strlen(threads));
    if (len == 5 && !memcmp(engine, "tgrun", 5)) own_command(c, engine, model, dir, t, a, more);
    else if (len == 3 && !memcmp(engine, "ort", 3) && !*more && ort_library_found())
        own_command(c, keep_text(c, "ort:%s", ort_library_found()), model, dir, t, a, NULL);
    else if (len == 3 && !memcmp(engine, "ort", 3) && names_library(more))
        own_command(c, engine, model, dir, t, a, NULL);
    else if (len == 3 && !memcmp(engine, "ort", 3)) python_command(c, peer_ort, model, dir, t, more);
    else if (len == 2 && !memcmp(engine, "ov", 2)) python_command(c, peer_ov, model, dir, t, more);
    else if (len == 5 && !memcmp(engine, "torch", 5)) python_command(c, peer_torch, model, dir, t, more);
    else if (len == 3 && !memcmp(engine, "cmd", 3) && *more) {
        push(c, "/bin/sh");
        push(c, "-c");
        push(c, more);
        setenv("MODEL", model, 1);
        setenv("DATA", dir, 1);
        setenv("THREADS", t, 1);
    } else
        return say_error(TG_USAGE,
                         "engine '%s' is unknown; tgrun[:opts], tgrun:/PATH[ opts], ort[:LIB|:PROVIDER], ov[:DEVICE], "
                         "torch[:compile] or 'cmd:...' is wanted",
                         engine);
    c->argv[c->n] = NULL;
    return TG_OK;
}

/* ---- the conversation ---- */

static TgStatus dead(Peer *p, const char *doing)
{
    int status = 0;
    waitpid(p->pid, &status, 0);
    p->pid = 0;
    if (WIFSIGNALED(status))
        return say_error(TG_DEVICE, "engine %s ended by signal %d while it %s", p->label, WTERMSIG(status), doing);
    return say_error(TG_DEVICE, "engine %s ended with exit code %d while it %s", p->label, WEXITSTATUS(status), doing);
}

/* Until an answer begins. An answer is one line, so that none of the one before is left to be read. */
static void wait_for(const Peer *p)
{
    struct pollfd fd = { .fd = fileno(p->from), .events = POLLIN };
    char what[96];
    snprintf(what, sizeof what, "engine %.80s", *p->name ? p->name : p->label);
    for (bool known = *p->name; !poll(&fd, 1, 100);)
        if (!known) say_progress(what, 0, 0); /* one that runs is part of a bar already */
    if (!*p->name) say_progress_done();
}

/* One line of answer, without its end; the caller frees it. */
static TgStatus answer(Peer *p, char **line, const char *doing)
{
    size_t cap = 0;
    *line = NULL;
    wait_for(p);
    ssize_t n = getline(line, &cap, p->from);
    if (n <= 0) {
        free(*line);
        *line = NULL;
        return dead(p, doing);
    }
    (*line)[strcspn(*line, "\n")] = 0;
    if (strncmp(*line, "error ", 6)) return TG_OK;
    say_error(TG_DEVICE, "engine %s: %s", p->label, *line + 6);
    free(*line);
    *line = NULL;
    return TG_DEVICE;
}

static TgStatus spawn(Peer *p, char *const *argv)
{
    int to[2], from[2];
    posix_spawn_file_actions_t actions;
    if (pipe2(to, O_CLOEXEC) || pipe2(from, O_CLOEXEC)) return say_error(TG_LIMIT, "pipe: %s", strerror(errno));
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, to[0], STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions, from[1], STDOUT_FILENO);
    int bad = posix_spawnp(&p->pid, argv[0], &actions, NULL, argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    close(to[0]);
    close(from[1]);
    p->to = fdopen(to[1], "w");
    p->from = fdopen(from[0], "r");
    return bad ? p->pid = 0, say_error(TG_DEVICE, "engine %s: %s: %s", p->label, argv[0], strerror(bad)) : TG_OK;
}

static TgStatus greeting(Peer *p)
{
    char *line;
    TgStatus status = answer(p, &line, "loaded the model");
    if (status != TG_OK) return status;
    const char *name = "";
    json_t *j = json_loads(line, 0, NULL);
    const char *device = "", *provider = "", *precision = "", *built_in = "";
    p->overhead_ms = NAN;
    if (!j ||
        json_unpack(j, "{s:s, s:F, s:F, s?b, s?b, s?b, s?s, s?s, s?s, s?i, s?F, s?s}", "name", &name, "load_s",
                    &p->load_s, "first_ms", &p->first_ms, "sets", &p->sets, "profile", &p->profiles, "once", &p->once,
                    "device", &device, "provider", &provider, "precision", &precision, "threads", &p->threads,
                    "overhead_ms", &p->overhead_ms, "built_in", &built_in))
        status = say_error(TG_DEVICE, "engine %s: a strange answer: %.100s", p->label, line);
    snprintf(p->name, sizeof p->name, "%s", name);
    snprintf(p->device, sizeof p->device, "%s", device);
    snprintf(p->provider, sizeof p->provider, "%s", provider);
    snprintf(p->precision, sizeof p->precision, "%s", precision);
    snprintf(p->built_in, sizeof p->built_in, "%s", built_in);
    json_decref(j);
    free(line);
    return status;
}

/* The program that a shell has started and waits for; the process itself where it has none. */
static pid_t worker_of(pid_t pid)
{
    char path[64];
    int child, more;
    snprintf(path, sizeof path, "/proc/%d/task/%d/children", (int)pid, (int)pid);
    FILE *f = fopen(path, "r");
    int n = f ? fscanf(f, "%d %d", &child, &more) : 0;
    if (f) fclose(f);
    return n == 1 ? child : pid;
}

TgStatus peer_start(Peer *out, const char *engine, const char *model, const char *data_dir, const Args *a)
{
    Command c = { .n = 0 };
    *out = (Peer){ .pid = 0 };
    if (strlen(engine) >= sizeof out->label)
        return say_error(TG_USAGE, "--engine: a text of at most %zu bytes is wanted", sizeof out->label - 1);
    snprintf(out->label, sizeof out->label, "%s", engine);
    TgStatus status = command_for(&c, engine, model, data_dir, a);
    double start = clock_s();
    if (status == TG_OK) status = spawn(out, (char *const *)c.argv);
    if (status == TG_OK) status = greeting(out);
    out->start_s = clock_s() - start;
    out->worker = strncmp(engine, "cmd:", 4) ? out->pid : worker_of(out->pid);
    if (status != TG_OK) peer_stop(out);
    return status;
}

TgStatus peer_run(Peer *p, uint32_t n, double *ms)
{
    char *line;
    fprintf(p->to, "run %u\n", n);
    fflush(p->to);
    TgStatus status = answer(p, &line, "ran");
    if (status != TG_OK) return status;
    char *at = line;
    for (uint32_t i = 0; i < n && status == TG_OK; i++) {
        char *end;
        ms[i] = 1e-6 * strtod(at, &end);
        if (end == at || ms[i] <= 0)
            status = say_error(TG_DEVICE, "engine %s: %u times were wanted, %u came", p->label, n, i);
        at = end;
    }
    free(line);
    return status;
}

/* A command that is answered by `ok`. */
static TgStatus command(Peer *p, const char *word, const char *dir, const char *doing)
{
    char *line;
    fprintf(p->to, "%s %s\n", word, dir);
    fflush(p->to);
    TgStatus status = answer(p, &line, doing);
    free(line);
    return status;
}

TgStatus peer_save(Peer *p, const char *dir) { return command(p, "save", dir, "wrote its outputs"); }
TgStatus peer_inputs(Peer *p, const char *dir) { return command(p, "inputs", dir, "read inputs"); }
TgStatus peer_once(Peer *p, const char *dir) { return command(p, "once", dir, "ran on one set of inputs"); }
TgStatus peer_profile(Peer *p, const char *file) { return command(p, "profile", file, "profiled itself"); }
TgStatus peer_kept(Peer *p, const char *dir) { return command(p, "kept", dir, "wrote the outputs of its last run"); }

double peer_memory(Peer *p)
{
    char *line;
    double mib;
    fprintf(p->to, "memory\n");
    fflush(p->to);
    if (answer(p, &line, "reported its memory") != TG_OK) return NAN;
    if (!parse_real(line, &mib)) mib = NAN;
    free(line);
    return mib;
}

/* Nanoseconds that the process's threads have run, those included that have ended. */
static int64_t cpu_time(pid_t pid)
{
    clockid_t clock;
    struct timespec t;
    if (pid <= 0 || clock_getcpuclockid(pid, &clock) || clock_gettime(clock, &t)) return 0;
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

double peer_cpu_s(const Peer *p) { return 1e-9 * (double)cpu_time(p->worker); }

bool peer_silent(const Peer *p)
{
    double start = clock_s();
    for (int64_t before = cpu_time(p->worker), now; clock_s() - start < 0.2; before = now) {
        usleep(2000);
        now = cpu_time(p->worker);
        if (now == before) return true;
    }
    return false;
}

void peer_stop(Peer *p)
{
    if (p->to) fclose(p->to);
    if (p->from) fclose(p->from);
    if (p->pid > 0) waitpid(p->pid, NULL, 0);
    p->to = p->from = NULL;
    p->pid = 0;
}
