/* no_memory DEVICE COMPILER[+] TRIES SEED MODEL: opens MODEL, runs it, shares it, runs that, closes all; then again and
 * again, with the library's n-th request for memory refused, or the n-th and all behind it, for as many n as TRIES
 * says (0: for all), from a different one for each SEED. Each time the call says TG_LIMIT, what was there before stays
 * as it was and gives the same results, and no file or thread is left behind. +: nothing is cached. Where
 * NO_MEMORY_TRAP is set, the process ends at the request, for a debugger. The linker's --wrap counts requests. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tgrun.h"

/* ---- requests ---- */

static _Atomic long requests, refuse_from = -1;
static bool refuse_all;

static bool refused(void)
{
    long at = requests++;
    bool yes = refuse_from >= 0 && (refuse_all ? at >= refuse_from : at == refuse_from);
    if (yes && getenv("NO_MEMORY_TRAP")) __builtin_trap();
    return yes;
}

void *__real_malloc(size_t n);
void *__real_calloc(size_t n, size_t m);
void *__real_realloc(void *p, size_t n);
void *__real_aligned_alloc(size_t a, size_t n);
int __real_posix_memalign(void **p, size_t a, size_t n);
void *__real_mmap(void *at, size_t n, int protection, int flags, int fd, off_t offset);
void *__wrap_malloc(size_t n) { return refused() ? NULL : __real_malloc(n); }
void *__wrap_calloc(size_t n, size_t m) { return refused() ? NULL : __real_calloc(n, m); }
void *__wrap_realloc(void *p, size_t n) { return refused() ? NULL : __real_realloc(p, n); }
void *__wrap_aligned_alloc(size_t a, size_t n) { return refused() ? NULL : __real_aligned_alloc(a, n); }
int __wrap_posix_memalign(void **p, size_t a, size_t n) { return refused() ? ENOMEM : __real_posix_memalign(p, a, n); }
void *__wrap_mmap(void *at, size_t n, int protection, int flags, int fd, off_t offset)
{
    return refused() ? (errno = ENOMEM, MAP_FAILED) : __real_mmap(at, n, protection, flags, fd, offset);
}

/* ---- what is compared ---- */

enum { PORTS = 8, RUNS = 3 };
static char *program;

static _Noreturn void stop(long at, const char *what)
{
    const char *all = refuse_all ? " and all behind it" : "";
    fprintf(stderr, "%s, request %ld%s: %s (%s)\n", program, at, all, what, tg_error());
    exit(1);
}

/* Free sizes are `length`; strings are words. */
static void fill(TgTensor *out, const TgPort *port, int64_t length)
{
    static char *words[] = { "the", "Cat sat", "on a mat", "", "one", "two", "three" };
    int64_t n = 1;
    *out = (TgTensor){ .type = port->type, .rank = port->rank < 0 ? 1 : port->rank };
    for (int32_t k = 0; k < out->rank; k++)
        n *= out->shape[k] = port->rank < 0 || port->shape[k] < 0 ? length : port->shape[k];
    out->size_bytes = (size_t)n * (size_t)tg_type_bits(port->type) / 8;
    if (port->type == TG_STRING) out->size_bytes = (size_t)n * sizeof(char *);
    out->data = __real_calloc(1, out->size_bytes + 1);
    for (int64_t k = 0; k < n; k++) switch (port->type) {
        case TG_F32: ((float *)out->data)[k] = (float)((k * 7 + 3) % 11 - 4) / 4; break;
        case TG_I64: ((int64_t *)out->data)[k] = 1 + k % 2; break;
        case TG_STRING: ((char **)out->data)[k] = words[k % 7]; break;
        default: ((char *)out->data)[k] = (char)(k % 2);
        }
}

static uint64_t hash(uint64_t h, const void *data, size_t n)
{
    for (const uint8_t *p = data; n--; p++) h = (h ^ *p) * 1099511628211u;
    return h;
}

/* Floats as a sum: where memory is short for the largest of sizes that vary, they are built in, and other kernels round
 * otherwise. */
typedef struct { uint64_t hash; double sum; } Result;

static void add_tensor(Result *r, const TgTensor *t)
{
    r->hash = hash(r->hash, t->shape, sizeof *t->shape * (size_t)t->rank);
    for (int64_t k = 0; t->type >= TG_SEQUENCE && k < t->shape[0]; k++) add_tensor(r, (TgTensor *)t->data + k);
    for (size_t k = 0; t->type == TG_STRING && k < t->size_bytes / sizeof(char *); k++)
        r->hash = hash(r->hash, ((char **)t->data)[k], strlen(((char **)t->data)[k]));
    for (size_t k = 0; t->type == TG_F32 && k < t->size_bytes / 4; k++)
        r->sum += (double)((float *)t->data)[k] * (double)(1 + k % 7);
    if (t->type < TG_SEQUENCE && t->type != TG_STRING && t->type != TG_F32)
        r->hash = hash(r->hash, t->data, t->size_bytes);
}

static bool same(const Result *a, const Result *b)
{
    return a->hash == b->hash && fabs(a->sum - b->sum) <= 1e-5 * (1 + fabs(a->sum));
}

static TgStatus run(TgSession *s, int64_t length, Result *result)
{
    int32_t n = tg_input_count(s), m = tg_output_count(s);
    TgTensor in[PORTS], out[PORTS];
    for (int32_t k = 0; k < n; k++) {
        TgPort port;
        tg_input(s, k, &port);
        fill(&in[k], &port, length);
    }
    TgStatus status = tg_run(s, in, n, out);
    *result = (Result){ 14695981039346656037u, 0 };
    for (int32_t k = 0; k < m && status == TG_OK; k++) add_tensor(result, &out[k]);
    for (int32_t k = 0; k < n; k++) free(in[k].data);
    return status;
}

static int entries(const char *folder)
{
    int n = 0;
    DIR *d = opendir(folder);
    while (readdir(d)) n++;
    closedir(d);
    return n;
}

/* A thread that was waited for is listed a moment longer. */
static bool ended(int threads)
{
    for (int tries = 0; entries("/proc/self/task") > threads && tries < 1000; tries++) usleep(1000);
    return entries("/proc/self/task") <= threads;
}

/* ---- a trial ---- */

typedef struct { const char *device, *compiler, *model; } How;
typedef struct { TgSession *session, *other; Result result[RUNS]; } Run;
enum { OPEN, FIRST, SECOND, SHARE, THIRD, STEPS };

static TgStatus step(int k, Run *r, const How *how)
{
    TgOptions o;
    char compiler[16];
    switch (k) {
    case OPEN:
        tg_options_default(&o);
        o.device = how->device;
        snprintf(compiler, sizeof compiler, "%.*s", (int)strcspn(how->compiler, "+"), how->compiler);
        o.compiler = *compiler ? compiler : NULL;
        o.no_cache = strchr(how->compiler, '+') != NULL;
        o.threads = 2;
        return tg_open(&r->session, how->model, &o);
    case FIRST: return run(r->session, 3, &r->result[0]);
    case SECOND: return run(r->session, 5, &r->result[1]);
    case SHARE: return strcmp(how->device, "cpu") ? TG_OK : tg_share(&r->other, r->session, NULL);
    default: return run(r->other ? r->other : r->session, 4, &r->result[2]);
    }
}

/* Where a request is refused, the step says so; done once more, it is as if nothing had been. Was one refused? */
static bool trial(Run *r, const How *how, long at)
{
    bool met = false;
    *r = (Run){ 0 };
    requests = 0;
    refuse_from = at;
    for (int k = 0; k < STEPS; k++) {
        TgStatus status = step(k, r, how);
        met |= at >= 0 && requests > at;
        if (met) refuse_from = -1;
        if (status == TG_LIMIT && met && !*tg_error()) stop(at, "the failure has no message");
        if (status == TG_LIMIT && met) status = step(k, r, how);
        if (status != TG_OK) stop(at, "a step fails");
    }
    refuse_from = -1;
    if (r->other) tg_close(r->other);
    tg_close(r->session);
    return met;
}

/* How many files are open, `files` before the trial. A process of CUDA's compiler is kept for good, and its two files,
 * where this trial was the first to want it; it is replaced where its answer found no memory. The trial leaves files
 * behind if it does so again. */
static int files_after(const How *how, long at, int files)
{
    Run again;
    int now = entries("/proc/self/fd");
    if (now <= files) return now;
    trial(&again, how, at);
    if (entries("/proc/self/fd") > now) stop(at, "files are left open");
    return now;
}

int main(int argc, char **argv)
{
    if (argc != 6) return 2;
    const How how = { argv[1], argv[2], argv[5] };
    long tries = atol(argv[3]), seed = atol(argv[4]), done = 0;
    Run first, again;
    program = argv[5];
    trial(&first, &how, -1);
    trial(&first, &how, -1);                /* what is kept for good is there */
    long most = requests, stride = tries && most > tries ? most / tries : 1;
    int files = entries("/proc/self/fd"), threads = entries("/proc/self/task");
    for (int all = 0; all < 2; all++)
        for (long at = seed % stride; at < most; at += stride, done++) {
            refuse_all = all;
            trial(&again, &how, at);
            for (int k = 0; k < RUNS; k++)
                if (!same(&first.result[k], &again.result[k])) stop(at, "results differ");
            files = files_after(&how, at, files);
            if (!ended(threads)) stop(at, "threads are left");
        }
    printf("%s on %s: %ld requests, %ld refused\n", argv[5], argv[1], most, done);
    return 0;
}
