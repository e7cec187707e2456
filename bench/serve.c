/* This program as an engine: speaks the lines of peer.h on standard input and output. */
#include <stdlib.h>
#include <string.h>

#include "bench/duel.h"
#include "bench/measure.h"
#include "bench/report.h"
#include "bench/run.h"
#include "bench/say.h"

typedef struct { TgSession *session; const DataSet *set; TgTensor *in, *out; int64_t idle_bytes; } Server;

static TgStatus run_times(Server *s, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        double start = now_s();
        TgStatus status = tg_run(s->session, s->in, s->set->ninput, s->out);
        if (status != TG_OK) return status;
        printf("%s%.0f", i ? " " : "", 1e9 * (now_s() - start));
    }
    putchar('\n');
    return TG_OK;
}

static TgStatus save(Server *s, const char *dir)
{
    TgStatus status = tg_run(s->session, s->in, s->set->ninput, s->out);
    for (int32_t k = 0; k < s->set->noutput && status == TG_OK; k++) {
        char path[4096];
        snprintf(path, sizeof path, "%s/output_%d.npy", dir, k);
        status = tg_tensor_write(&s->out[k], "", path);
    }
    if (status == TG_OK) puts("ok");
    return status;
}

static TgStatus greet(Server *s, const Args *a)
{
    TgInfo i;
    double seconds = args_real(a, OPT_tune, 0);
    TgStatus status = tg_prepare(s->session, s->in, s->set->ninput);
    if (status == TG_OK && seconds > 0) status = tg_tune(s->session, seconds, (int32_t)args_count(a, OPT_beam, 0));
    double start = now_s();
    if (status == TG_OK) status = tg_run(s->session, s->in, s->set->ninput, s->out);
    if (status != TG_OK) return status;
    double first = 1e3 * (now_s() - start);
    tg_info(s->session, &i);
    printf("{\"name\": \"tgrun %s\", \"load_s\": %.6f, \"first_ms\": %.6f}\n", tg_version(), i.load_s + i.schedule_s + i.compile_s, first);
    return TG_OK;
}

static TgStatus obey(Server *s, char *line)
{
    unsigned n;
    line[strcspn(line, "\n")] = 0;
    if (sscanf(line, "run %u", &n) == 1) return run_times(s, n);
    if (!strncmp(line, "save ", 5)) return save(s, line + 5);
    printf("%.3f\n", (double)(peak_bytes() - s->idle_bytes) / (1 << 20));
    return TG_OK;
}

TgStatus serve(const Args *a, const char *model)
{
    Server s = { .idle_bytes = peak_bytes() };
    Data data;
    char *line = NULL;
    size_t cap = 0;
    TgStatus status = open_model(&s.session, &data, a, model);
    if (status == TG_OK) {
        s.set = &data.set[0];
        s.in = calloc((size_t)s.set->ninput + 1, sizeof *s.in);
        s.out = calloc((size_t)s.set->noutput + 1, sizeof *s.out);
        set_inputs(s.set, s.in);
        status = greet(&s, a);
        fflush(stdout);
        while (status == TG_OK && getline(&line, &cap, stdin) > 0) {
            status = obey(&s, line);
            fflush(stdout);
        }
    }
    if (status != TG_OK) {
        printf("error %s\n", tg_error());
        fflush(stdout);
    }
    free(line);
    free(s.in);
    free(s.out);
    data_free(&data);
    tg_close(s.session);
    return status;
}
