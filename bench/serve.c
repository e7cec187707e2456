#include "bench/serve.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/measure.h"
#include "bench/peer.h"
#include "bench/profile.h"
#include "bench/report.h"
#include "bench/run.h"
#include "bench/say.h"
#include "bench/stop.h"

typedef struct { Served *e; uint32_t next; } Turn;

static TgStatus run_times(Turn *t, unsigned n)
{
    for (unsigned i = 0; i < n; i++) {
        double start = clock_s();
        TgStatus status = t->e->run(t->e->self, t->next++ % t->e->sets);
        if (status != TG_OK) return status;
        printf("%s%.0f", i ? " " : "", 1e9 * (clock_s() - start));
    }
    putchar('\n');
    return TG_OK;
}

/* Further sets come next, so that the first run on them is a timed one. */
static TgStatus add_inputs(Turn *t, const char *dir)
{
    if (t->e->sets == SERVED_SETS)
        return snprintf(t->e->error, sizeof t->e->error, "more than %d sets of inputs", SERVED_SETS), TG_LIMIT;
    TgStatus status = t->e->inputs(t->e->self, dir);
    if (status == TG_OK) t->next = t->e->sets++;
    return status;
}

static TgStatus obey(Turn *t, char *line, int64_t idle_bytes)
{
    unsigned n;
    Served *e = t->e;
    line[strcspn(line, "\n")] = 0;
    if (sscanf(line, "run %u", &n) == 1) return run_times(t, n);
    if (e->profile && !strncmp(line, "profile ", 8)) {
        TgStatus status = e->profile(e->self, line + 8);
        if (status == TG_OK) puts("ok");
        return status;
    }
    if (e->once && !strncmp(line, "once ", 5)) {
        TgStatus status = e->once(e->self, line + 5);
        if (status == TG_OK) puts("ok");
        return status;
    }
    bool save = !strncmp(line, "save ", 5), kept = !strncmp(line, "kept ", 5), inputs = !strncmp(line, "inputs ", 7);
    if (save || kept || inputs) {
        TgStatus status = save ? e->run(e->self, 0) : TG_OK;
        if (status == TG_OK) status = inputs ? add_inputs(t, line + 7) : e->save(e->self, line + 5);
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
    Turn turn = { .e = e };
    e->sets = 1;
    TgStatus status = e->run(e->self, 0);
    if (status == TG_OK)
        printf("{\"name\": \"%s\", \"load_s\": %.6f, \"first_ms\": %.6f, \"sets\": true, \"device\": \"%s\", "
               "\"provider\": \"%s\", \"precision\": \"%s\", \"threads\": %d, \"profile\": %s, \"once\": %s, "
               "\"built_in\": \"%s\"}\n",
               e->name, e->load_s, 1e3 * (clock_s() - start), e->device, e->provider, e->precision, e->threads,
               e->profile ? "true" : "false", e->once ? "true" : "false", e->built_in);
    fflush(stdout);
    while (status == TG_OK && getline(&line, &cap, stdin) > 0) {
        status = obey(&turn, line, idle_bytes);
        fflush(stdout);
    }
    free(line);
    return status;
}

/* ---- ourselves ---- */

typedef struct {
    TgSession *session;
    const Args *args;
    Data data[SERVED_SETS];
    uint32_t sets;
    TgTensor *in, *out;
} Own;

static TgStatus own_run(void *self, uint32_t set)
{
    Own *o = self;
    set_inputs(&o->data[set].set[0], o->in);
    return tg_run(o->session, o->in, o->data[set].set[0].ninput, o->out);
}

static TgStatus own_inputs(void *self, const char *dir)
{
    Own *o = self;
    Args one = *o->args;
    one.value[OPT_test_data] = (ArgList){ 1, { dir } };
    return data_make(&o->data[o->sets++], o->session, &one);
}

static TgStatus own_save(void *self, const char *dir)
{
    Own *o = self;
    TgStatus status = TG_OK;
    for (int32_t k = 0; k < o->data[0].set[0].noutput && status == TG_OK; k++) {
        char path[4096];
        value_path(path, sizeof path, dir, "output", k, &o->out[k]);
        status = tg_tensor_write(&o->out[k], "", path);
    }
    return status;
}

static TgStatus own_once(void *self, const char *dir)
{
    Own *o = self;
    Data data = { 0 };
    Args one = *o->args;
    one.value[OPT_test_data] = (ArgList){ 1, { dir } };
    TgStatus status = data_make(&data, o->session, &one);
    if (status == TG_OK) set_inputs(&data.set[0], o->in);
    if (status == TG_OK) status = tg_run(o->session, o->in, data.set[0].ninput, o->out);
    if (status == TG_OK) status = own_save(o, dir);
    data_free(&data);
    return status;
}

static TgStatus own_profile(void *self, const char *file)
{
    Own *o = self;
    Profile p;
    TgStatus status = profile_measure(&p, o->session, &o->data[0].set[0]);
    if (status == TG_OK) status = json_write(profile_json(&p, o->session, ""), file);
    profile_free(&p);
    return status;
}

static TgStatus own_open(Served *e, Own *o, const Args *a, const char *model)
{
    TgInfo i;
    TgStatus status = open_model(&o->session, &o->data[0], a, model);
    if (status != TG_OK) return status;
    const DataSet *set = &o->data[0].set[0];
    o->args = a;
    o->sets = 1;
    o->in = calloc((size_t)set->ninput + 1, sizeof *o->in);
    o->out = calloc((size_t)set->noutput + 1, sizeof *o->out);
    if (!o->in || !o->out) return TG_LIMIT;
    set_inputs(set, o->in);
    status = tg_prepare(o->session, o->in, set->ninput);
    if (status == TG_OK) status = tg_info(o->session, &i);
    if (status != TG_OK) return status;
    *e = (Served){ .load_s = i.load_s + i.schedule_s + i.compile_s,
                   .threads = (int)i.threads,
                   .run = own_run,
                   .save = own_save,
                   .inputs = own_inputs,
                   .profile = own_profile,
                   .once = own_once,
                   .self = o };
    snprintf(e->name, sizeof e->name, "tgrun %s", tg_version());
    snprintf(e->device, sizeof e->device, "%s", i.device_kind);
    snprintf(e->precision, sizeof e->precision, "%s", precision_name(a));
    for (int32_t k = 0; k < set->ninput; k++) {
        TgPort p;
        size_t n = strlen(e->built_in);
        if (!tg_built_in(o->session, k) || tg_input(o->session, k, &p) != TG_OK || strpbrk(p.name, "\"\\")) continue;
        snprintf(e->built_in + n, sizeof e->built_in - n, "%s%s", n ? ", " : "", p.name);
    }
    return TG_OK;
}

/* argv: the options after the fixed operands, as tgbench takes them. */
static TgStatus serve_own(const char *model, const char *data_dir, int argc, char **argv, int64_t idle_bytes)
{
    Args a;
    Own o = { 0 };
    Served e;
    TgStatus status = args_parse(&a, PROGRAM_TGBENCH, argc, argv);
    if (status == TG_OK && a.operand.count)
        return printf("error '%s' is no option; --NAME=VALUE is wanted\n", a.operand.v[0]), TG_USAGE;
    if (status == TG_OK) a.value[OPT_test_data] = (ArgList){ 1, { data_dir } };
    if (status == TG_OK) status = own_open(&e, &o, &a, model);
    if (status == TG_OK) status = serve_loop(&e, idle_bytes);
    if (status != TG_OK) printf("error %s\n", tg_error());
    free(o.in);
    free(o.out);
    for (uint32_t i = 0; i < o.sets; i++) data_free(&o.data[i]);
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
    stop_setup("tgrun");
    if (!strncmp(engine, "ort:", 4)) return (int)serve_ort(engine + 4, model, data_dir, atoi(argv[4]), idle_bytes);
    return (int)serve_own(model, data_dir, argc - 4, argv + 4, idle_bytes);
}
