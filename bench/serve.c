#include "bench/serve.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/measure.h"
#include "bench/peer.h"
#include "bench/report.h"
#include "bench/run.h"
#include "bench/say.h"

static TgStatus run_times(Served *e, unsigned n)
{
    for (unsigned i = 0; i < n; i++) {
        double start = clock_s();
        TgStatus status = e->run(e->self);
        if (status != TG_OK) return status;
        printf("%s%.0f", i ? " " : "", 1e9 * (clock_s() - start));
    }
    putchar('\n');
    return TG_OK;
}

static TgStatus obey(Served *e, char *line, int64_t idle_bytes)
{
    unsigned n;
    line[strcspn(line, "\n")] = 0;
    if (sscanf(line, "run %u", &n) == 1) return run_times(e, n);
    if (!strncmp(line, "save ", 5)) {
        TgStatus status = e->save(e->self, line + 5);
        if (status == TG_OK) puts("ok");
        return status;
    }
    printf("%.3f\n", (double)(peak_bytes() - idle_bytes) / (1 << 20));
    return TG_OK;
}

TgStatus serve_loop(Served *e, int64_t idle_bytes)
{
    char *line = NULL;
    size_t cap = 0;
    double start = clock_s();
    TgStatus status = e->run(e->self);
    if (status == TG_OK) printf("{\"name\": \"%s\", \"load_s\": %.6f, \"first_ms\": %.6f}\n", e->name, e->load_s, 1e3 * (clock_s() - start));
    fflush(stdout);
    while (status == TG_OK && getline(&line, &cap, stdin) > 0) {
        status = obey(e, line, idle_bytes);
        fflush(stdout);
    }
    free(line);
    return status;
}

/* ---- ourselves ---- */

typedef struct { TgSession *session; Data data; TgTensor *in, *out; } Own;

static TgStatus own_run(void *self)
{
    Own *o = self;
    return tg_run(o->session, o->in, o->data.set[0].ninput, o->out);
}

static TgStatus own_save(void *self, const char *dir)
{
    Own *o = self;
    TgStatus status = own_run(self);
    for (int32_t k = 0; k < o->data.set[0].noutput && status == TG_OK; k++) {
        char path[4096];
        value_path(path, sizeof path, dir, "output", k, &o->out[k]);
        status = tg_tensor_write(&o->out[k], "", path);
    }
    return status;
}

static TgStatus own_open(Served *e, Own *o, const Args *a, const char *model)
{
    TgInfo i;
    TgStatus status = open_model(&o->session, &o->data, a, model);
    if (status != TG_OK) return status;
    const DataSet *set = &o->data.set[0];
    o->in = calloc((size_t)set->ninput + 1, sizeof *o->in);
    o->out = calloc((size_t)set->noutput + 1, sizeof *o->out);
    if (!o->in || !o->out) return TG_LIMIT;
    set_inputs(set, o->in);
    status = tg_prepare(o->session, o->in, set->ninput);
    if (status == TG_OK) status = tg_info(o->session, &i);
    if (status != TG_OK) return status;
    *e = (Served){ .load_s = i.load_s + i.schedule_s + i.compile_s, .run = own_run, .save = own_save, .self = o };
    snprintf(e->name, sizeof e->name, "tgrun %s", tg_version());
    return TG_OK;
}

/* argv: the options after the fixed operands, as tgbench takes them. */
static TgStatus serve_own(const char *model, const char *data_dir, int argc, char **argv, int64_t idle_bytes)
{
    Args a;
    Own o = { 0 };
    Served e;
    TgStatus status = args_parse(&a, PROGRAM_TGBENCH, argc, argv);
    if (status == TG_OK && a.operand.count) return printf("error '%s' is no option; --NAME=VALUE is wanted\n", a.operand.v[0]), TG_USAGE;
    if (status == TG_OK) a.value[OPT_test_data] = (ArgList){ 1, { data_dir } };
    if (status == TG_OK) status = own_open(&e, &o, &a, model);
    if (status == TG_OK) status = serve_loop(&e, idle_bytes);
    if (status != TG_OK) printf("error %s\n", tg_error());
    free(o.in);
    free(o.out);
    data_free(&o.data);
    tg_close(o.session);
    return status;
}

static TgStatus serve_ort(const char *library, const char *model, const char *data_dir, int threads, int64_t idle_bytes)
{
    Served e = { .self = NULL };
    TgStatus status = ort_library_open(&e, library, model, data_dir, threads);
    if (status == TG_OK) status = serve_loop(&e, idle_bytes);
    if (status != TG_OK) printf("error %s\n", e.error);
    ort_library_close(&e);
    return status;
}

int serve(int argc, char **argv)
{
    int64_t idle_bytes = peak_bytes();
    if (argc < 5) return TG_USAGE;
    const char *engine = argv[1], *model = argv[2], *data_dir = argv[3];
    say_setup("tgrun", NULL, true);
    if (!strncmp(engine, "ort:", 4)) return (int)serve_ort(engine + 4, model, data_dir, atoi(argv[4]), idle_bytes);
    return (int)serve_own(model, data_dir, argc - 4, argv + 4, idle_bytes);
}
