/* A server without its network: clients ask for runs of several models and wait, workers serve them.
 *
 *     server SECONDS WORKERS CLIENTS MODEL..
 *
 * Each worker has a session of each model that shares model, kernels and weights with the others' (tg_share), so a
 * model is in memory once and no run waits for another. Prints requests a second, how long clients waited, and how much
 * memory was added after the first second. Exit code 1: a run failed.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <tgrun.h>

enum { MODELS_MOST = 8, PORTS_MOST = 16, TIMES = 1 << 20 };

typedef struct Request {
    struct Request *next;
    int model;
    int done;
} Request;

static TgSession *model[MODELS_MOST];
static TgTensor input[MODELS_MOST][PORTS_MOST];
static int models, failures, over;
static Request *first, **last = &first;         /* the queue */
static float waited_ms[TIMES];
static long requests;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t came = PTHREAD_COND_INITIALIZER, answered = PTHREAD_COND_INITIALIZER;

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static long resident_kib(void)
{
    long pages = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    if (f && fscanf(f, "%*s %ld", &pages) != 1) pages = 0;
    if (f) fclose(f);
    return pages * (sysconf(_SC_PAGESIZE) / 1024);
}

static void die(void)
{
    fprintf(stderr, "server: %s\n", tg_error());
    exit(1);
}

/* Zeros of the declared shape, free dimensions being 1; and a run, so that everything is compiled. */
static void open_model(int m, const char *path)
{
    TgOptions o;
    TgTensor y[PORTS_MOST];
    tg_options_default(&o);
    o.compiler = "cc";
    if (tg_open(&model[m], path, &o) != TG_OK || tg_input_count(model[m]) > PORTS_MOST) die();
    for (int32_t i = 0; i < tg_input_count(model[m]); i++) {
        TgPort port;
        TgTensor *t = &input[m][i];
        tg_input(model[m], i, &port);
        *t = (TgTensor){ .type = port.type, .rank = port.rank, .size_bytes = (size_t)tg_type_bits(port.type) / 8 };
        for (int32_t k = 0; k < port.rank; k++) {
            t->shape[k] = port.shape[k] < 0 ? 1 : port.shape[k];
            t->size_bytes *= (size_t)t->shape[k];
        }
        t->data = calloc(1, t->size_bytes + 1);
    }
    if (tg_run(model[m], input[m], tg_input_count(model[m]), y) != TG_OK) die();
}

static void *worker(void *user)
{
    TgSession **session = user;
    TgTensor y[PORTS_MOST];
    pthread_mutex_lock(&lock);
    while (!over || first) {
        Request *r = first;
        if (!r) {
            pthread_cond_wait(&came, &lock);
            continue;
        }
        if (!(first = r->next)) last = &first;
        pthread_mutex_unlock(&lock);
        TgStatus status = tg_run(session[r->model], input[r->model], tg_input_count(session[r->model]), y);
        pthread_mutex_lock(&lock);
        failures += status != TG_OK;
        r->done = 1;
        pthread_cond_broadcast(&answered);
    }
    pthread_mutex_unlock(&lock);
    for (int m = 0; m < models; m++) tg_close(session[m]);
    free(session);
    return NULL;
}

static void *client(void *user)
{
    unsigned seed = (unsigned)(size_t)user;
    pthread_mutex_lock(&lock);
    while (!over) {
        Request r = { .model = rand_r(&seed) % models };
        double start = now_s();
        *last = &r, last = &r.next;
        pthread_cond_signal(&came);
        while (!r.done) pthread_cond_wait(&answered, &lock);
        waited_ms[requests++ % TIMES] = (float)(1e3 * (now_s() - start));
    }
    pthread_mutex_unlock(&lock);
    return NULL;
}

static int ascending(const void *a, const void *b)
{
    float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
    int seconds = argc > 4 ? atoi(argv[1]) : 0, workers = seconds ? atoi(argv[2]) : 0,
        clients = workers ? atoi(argv[3]) : 0;
    models = argc - 4;
    if (seconds < 2 || workers < 1 || clients < 1 || models > MODELS_MOST) {
        fprintf(stderr, "usage: server SECONDS WORKERS CLIENTS MODEL.. (2 s or more, %d models)\n", MODELS_MOST);
        return 2;
    }
    memset(waited_ms, 1, sizeof waited_ms);         /* its pages are there from now on: only what runs add is seen */
    for (int m = 0; m < models; m++) open_model(m, argv[4 + m]);
    pthread_t thread[workers + clients];
    for (int w = 0; w < workers; w++) {
        TgSession **session = calloc((size_t)models, sizeof *session);
        for (int m = 0; m < models; m++)
            if (tg_share(&session[m], model[m], NULL) != TG_OK) die();
        pthread_create(&thread[w], NULL, worker, session);
    }
    for (int c = 0; c < clients; c++) pthread_create(&thread[workers + c], NULL, client, (void *)(size_t)(c + 1));
    sleep(1);
    long before = resident_kib();
    sleep((unsigned)seconds - 1);
    long added = resident_kib() - before;
    pthread_mutex_lock(&lock);
    over = 1;
    pthread_cond_broadcast(&came);
    pthread_mutex_unlock(&lock);
    for (int c = 0; c < clients; c++) pthread_join(thread[workers + c], NULL);
    pthread_mutex_lock(&lock);
    pthread_cond_broadcast(&came);
    pthread_mutex_unlock(&lock);
    for (int w = 0; w < workers; w++) pthread_join(thread[w], NULL);
    long n = requests < TIMES ? requests : TIMES;
    qsort(waited_ms, (size_t)n, sizeof *waited_ms, ascending);
    printf("%.0f requests/s, median %.2f ms, p99 %.2f ms, %d failures, %ld KiB added\n", (double)requests / seconds,
           waited_ms[n / 2], waited_ms[n * 99 / 100], failures, added);
    for (int m = 0; m < models; m++) tg_close(model[m]);
    return failures > 0;
}
