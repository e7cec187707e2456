/* In: names of values and where to cut. Out: both sides' values. A part is extracted into a file, which either side
 * opens as any other model; what one side cannot run ends the probe with that side's message. */
#include "bench/probe.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "bench/peer.h"
#include "bench/run.h"
#include "bench/say.h"
#include "bench/values.h"

bool is_model_file(const char *other) { return ends_with(other, ".onnx"); }

bool is_dump_folder(const char *other)
{
    struct stat st;
    return !stat(other, &st) && S_ISDIR(st.st_mode);
}

static TgExtract want_of(const char *const *name, int32_t count, const Cut *cut, bool widen)
{
    TgExtract w = { .output = name, .output_count = count, .widen = widen };
    if (cut) w.input = cut->name, w.input_type = cut->value, w.input_count = cut->count;
    return w;
}

/* The value that an input of a part has: a cut's, or the model's own. */
static const TgTensor *given_value(const Sides *s, const Cut *cut, const char *name)
{
    TgPort p;
    for (int32_t k = 0; cut && k < cut->count; k++)
        if (!strcmp(cut->name[k], name)) return &cut->value[k];
    for (int32_t k = 0; k < s->inputs->ninput; k++)
        if (tg_input(s->session, k, &p) == TG_OK && !strcmp(p.name, name)) return &s->inputs->input[k].tensor;
    return NULL;
}

/* ---- one side in this process ---- */

typedef struct {
    TgSession *session;
    int32_t nin, nout;
    TgTensor *in, *out;
} Side;

static void side_close(Side *d)
{
    free(d->in);
    free(d->out);
    tg_close(d->session);
}

static TgStatus side_open(Side *d, const Sides *s, const Cut *cut, const char *path, const char *device)
{
    TgOptions o;
    TgPort p;
    *d = (Side){ .session = NULL };
    args_session_options(s->args, &o);
    o.dims = NULL;                      /* sizes are those of the values */
    o.tune_s = 0;
    if (device) o.device = device, o.beam = 0, o.precision = TG_PRECISION_EXACT;
    TgStatus status = tg_open(&d->session, path, &o);
    if (status != TG_OK) return say_library_error(status);
    d->nin = tg_input_count(d->session);
    d->nout = tg_output_count(d->session);
    d->in = calloc((size_t)d->nin + 1, sizeof *d->in);
    d->out = calloc((size_t)d->nout + 1, sizeof *d->out);
    if (!d->in || !d->out) return say_error(TG_LIMIT, "no memory for a part's ports");
    for (int32_t k = 0; k < d->nin; k++) {
        const TgTensor *t = tg_input(d->session, k, &p) == TG_OK ? given_value(s, cut, p.name) : NULL;
        if (!t)
            return say_error(TG_BAD_INPUT, "%s: input '%s' has no value in %s", path, k < d->nin ? p.name : "",
                             s->model);
        d->in[k] = *t;
    }
    return TG_OK;
}

static TgStatus side_run(Side *d, TgTensor *copy)
{
    TgStatus status = tg_run(d->session, d->in, d->nin, d->out);
    say_progress_done();
    if (status != TG_OK) return say_library_error(status);
    for (int32_t k = 0; k < d->nout; k++)
        if (!tensor_copy(&copy[k], &d->out[k])) return say_error(TG_LIMIT, "no memory for a copy of '%s'", "a value");
    return TG_OK;
}

/* ---- the other side ---- */

static TgStatus take(Probe *p, const TgTensor *value, const char *source)
{
    for (int32_t k = 0; k < p->count; k++) {
        p->set.output[k] = (Bound){ .tensor = value[k], .known = true };
        snprintf(p->set.output[k].source, sizeof p->set.output[k].source, "%s", source);
    }
    return TG_OK;
}

static TgStatus other_here(Probe *p, Sides *s, const Cut *cut, const char *path, const char *device)
{
    Side d;
    TgTensor value[p->count + 1];
    memset(value, 0, sizeof value);
    TgStatus status = side_open(&d, s, cut, path, device);
    if (status == TG_OK) status = side_run(&d, value);
    if (status == TG_OK) take(p, value, s->other);
    else for (int32_t k = 0; k < p->count; k++) tg_tensor_free(&value[k]);
    side_close(&d);
    snprintf(s->name, sizeof s->name, "%.63s", s->other);
    return status;
}

static TgStatus other_model(Probe *p, Sides *s, const Cut *cut)
{
    char path[128];
    TgExtract w = want_of(p->name, p->count, cut, false);
    snprintf(path, sizeof path, "%s/other.onnx", s->folder);
    TgStatus status = tg_extract(s->other, &w, path);
    if (status != TG_OK) return say_library_error(status);
    status = other_here(p, s, cut, path, NULL);
    remove(path);
    return status;
}

static TgStatus other_folder(Probe *p, Sides *s, const TgSession *part)
{
    for (int32_t k = 0; k < p->count; k++) {
        static const char *const suffix[] = { "npy", "pb" };
        char name[512], path[4700];
        TgPort port;
        if (tg_output(part, k, &port) != TG_OK) continue;
        file_name(name, sizeof name, p->name[k]);
        for (size_t i = 0; i < 2 && !p->set.output[k].known; i++) {
            snprintf(path, sizeof path, "%.4000s/%s.%s", s->other, name, suffix[i]);
            TgStatus status = access(path, R_OK) ? TG_OK : expected_file(&p->set.output[k], path, &port);
            if (status != TG_OK) return status;
        }
    }
    snprintf(s->name, sizeof s->name, "%.63s", s->other);
    return TG_OK;
}

static TgStatus other_engine(Probe *p, Sides *s, const TgSession *part, const char *path)
{
    char dir[64];
    Peer peer;
    if (!folder_make(dir)) return TG_CACHE;
    TgStatus status = inputs_write(&p->set, dir);
    if (status == TG_OK && (status = peer_start(&peer, s->other, path, dir, s->args)) == TG_OK) {
        status = peer_save(&peer, dir);
        if (status == TG_OK) status = expected_read(&p->set, part, dir, peer.name);
        snprintf(s->name, sizeof s->name, "%s", peer.name);
        peer_stop(&peer);
    }
    folder_remove(dir);
    return status;
}

static TgStatus both(Probe *p, Sides *s, const Cut *cut, const char *path)
{
    Side d;
    TgInfo info;
    TgStatus status = side_open(&d, s, cut, path, NULL);
    p->set = (DataSet){ .ninput = d.nin,
                        .noutput = p->count,
                        .input = calloc((size_t)d.nin + 1, sizeof(Bound)),
                        .output = calloc((size_t)p->count + 1, sizeof(Bound)) };
    if (status == TG_OK && (!p->set.input || !p->set.output))
        status = say_error(TG_LIMIT, "no memory for a part's ports");
    for (int32_t k = 0; k < d.nin && status == TG_OK; k++)
        p->set.input[k] = (Bound){ .tensor = d.in[k], .known = true }; /* the owner keeps them */
    if (status == TG_OK) status = side_run(&d, p->got);
    if (status == TG_OK && tg_info(d.session, &info) == TG_OK) p->flops = (double)info.flops;
    if (status == TG_OK)
        status = is_model_file(s->other)     ? other_model(p, s, cut)
            : is_dump_folder(s->other)       ? other_folder(p, s, d.session)
            : !strcmp(s->other, "reference") ? other_here(p, s, cut, path, "reference")
                                             : other_engine(p, s, d.session, path);
    for (int32_t k = 0; k < p->count && status == TG_OK; k++) {
        TgPort port;
        if (!p->set.output[k].known) p->compare[k].ok = true;
        else if ((status = tg_output(d.session, k, &port)) == TG_OK)
            p->compare[k] = compare_output(s->args, &port, &p->got[k], &p->set.output[k]);
    }
    side_close(&d);
    return status;
}

TgStatus probe(Probe *out, Sides *s, const char *const *name, int32_t count, const Cut *cut)
{
    char path[128];
    TgExtract w = want_of(name, count, cut, false);
    *out = (Probe){ .count = count,
                    .name = name,
                    .got = calloc((size_t)count + 1, sizeof(TgTensor)),
                    .compare = calloc((size_t)count + 1, sizeof(Comparison)) };
    if (!out->got || !out->compare) return say_error(TG_LIMIT, "no memory for %d values", count);
    snprintf(path, sizeof path, "%s/part.onnx", s->folder);
    TgStatus status = tg_extract(s->model, &w, path);
    if (status != TG_OK) return say_library_error(status);
    status = both(out, s, cut, path);
    remove(path);
    return status;
}

void probe_free(Probe *p)
{
    for (int32_t k = 0; k < p->count && p->got; k++) tg_tensor_free(&p->got[k]);
    for (int32_t k = 0; k < p->count && p->set.output; k++) bound_clear(&p->set.output[k]);
    free(p->got);
    free(p->compare);
    free(p->set.input);
    free(p->set.output);
    *p = (Probe){ 0 };
}

/* ---- in double precision ---- */

static bool widen_value(TgTensor *out, const TgTensor *t)
{
    bool narrow = t->type == TG_F16 || t->type == TG_BF16 || t->type == TG_F32;
    if (!narrow) return tensor_copy(out, t);
    if (!tensor_new(out, TG_F64, t->shape, t->rank)) return false;
    for (int64_t i = 0, n = tensor_numel(t); i < n; i++)
        value_put(TG_F64, out->data, i, value_get(t->type, t->data, i));
    return true;
}

static TgStatus wide_run(TgTensor *value, const Sides *s, const Cut *cut, const char *path, const char *device)
{
    Side d;
    int32_t wide = 0;
    TgStatus status = side_open(&d, s, cut, path, device);
    for (; wide < d.nin && status == TG_OK; wide++) {
        TgTensor t;
        if (!widen_value(&t, &d.in[wide])) {
            status = say_error(TG_LIMIT, "no memory for inputs in f64");
            break;
        }
        d.in[wide] = t;
    }
    if (status == TG_OK) status = side_run(&d, value);
    for (int32_t k = 0; k < wide; k++) tg_tensor_free(&d.in[k]);
    side_close(&d);
    return status;
}

TgStatus probe_wide(TgTensor *value, const Sides *s, const Probe *p, const Cut *cut, const char *device)
{
    char path[128];
    int32_t n = cut ? cut->count : 0;
    TgTensor type[n + 1];
    TgExtract w = want_of(p->name, p->count, cut, true);
    for (int32_t k = 0; k < n; k++) {
        type[k] = cut->value[k];
        if (type[k].type == TG_F16 || type[k].type == TG_BF16 || type[k].type == TG_F32) type[k].type = TG_F64;
    }
    w.input_type = type;
    snprintf(path, sizeof path, "%s/wide.onnx", s->folder);
    TgStatus status = tg_extract(s->model, &w, path);
    if (status != TG_OK) return say_library_error(status);
    status = wide_run(value, s, cut, path, device);
    remove(path);
    return status;
}

/* ---- for people to keep ---- */

TgStatus probe_keep(const Probe *p, const Sides *s, const Cut *cut, const char *dir)
{
    char path[4200];
    TgExtract w = want_of(p->name, p->count, cut, false);
    snprintf(path, sizeof path, "%s/test_data_set_0", dir);
    if ((mkdir(dir, 0777) && errno != EEXIST) || (mkdir(path, 0777) && errno != EEXIST))
        return say_error(TG_CACHE, "--output-dir: %s: %s", path, strerror(errno));
    snprintf(path, sizeof path, "%s/model.onnx", dir);
    TgStatus status = tg_extract(s->model, &w, path);
    for (int32_t k = 0; k < p->set.ninput + p->count && status == TG_OK; k++) {
        bool in = k < p->set.ninput;
        const TgTensor *t = in ? &p->set.input[k].tensor : &p->set.output[k - p->set.ninput].tensor;
        snprintf(path, sizeof path, "%s/test_data_set_0/%s_%d.%s", dir, in ? "input" : "output",
                 in ? k : k - p->set.ninput, holds_tensors(t) ? "pb" : "npy");
        status = tg_tensor_write(t, "", path);
    }
    return status == TG_OK ? status : say_library_error(status);
}
