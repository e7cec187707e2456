/* The verb `eval`: accuracy over a data set, beside an engine's. In: lines `FILE LABEL`. Each file is an input; the
 * first output's rows (its last axis) should be largest at the label, a number, or at those of a .npy, a number a row.
 */
#include <errno.h>
#include <libgen.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bench/folders.h"
#include "bench/peer.h"
#include "bench/run.h"
#include "bench/say.h"
#include "bench/values.h"
#include "bench/verbs.h"

enum { PATH_BYTES = 4096, BESIDE = 2 };
typedef struct { char *file, *label; } Sample;
/* rows: that were looked at; right: with the label largest, among the five largest; same: the other's largest is ours
 */
typedef struct { int64_t rows, top1, top5, same; } Score;
typedef struct {
    const Args *args;
    const char *model, *dir;
    Sample *sample;
    uint32_t count;
    TgSession *session;
    Peer peer;
    bool beside;
    char folder[64];
    Score score[BESIDE];
    double ms;                      /* of our runs, in all */
} Eval;

/* ---- the list ---- */

static TgStatus add_sample(Eval *e, char *line, const char *list, unsigned number)
{
    line[strcspn(line, "\r\n")] = 0;
    char *gap = strrchr(line, ' ');
    if (!*line || *line == '#') return TG_OK;
    if (!gap || gap == line || !gap[1])
        return say_error(TG_BAD_INPUT, "--labels: %s:%u: `FILE LABEL` is wanted", list, number);
    int64_t label;
    if (!parse_int(gap + 1, &label) && !strstr(gap + 1, ".npy"))
        return say_error(TG_BAD_INPUT, "--labels: %s:%u: '%s' is neither a whole number nor a .npy", list, number,
                         gap + 1);
    Sample *grown = realloc(e->sample, (e->count + 1) * sizeof *grown);
    if (!grown) return say_error(TG_LIMIT, "no memory for the labels");
    e->sample = grown;
    *gap = 0;
    e->sample[e->count] = (Sample){ strdup(line), strdup(gap + 1) };
    return e->sample[e->count].file && e->sample[e->count++].label ? TG_OK : say_error(TG_LIMIT, "no memory");
}

static TgStatus read_labels(Eval *e, const char *list)
{
    char *line = NULL;
    size_t cap = 0;
    unsigned number = 0;
    TgStatus status = TG_OK;
    FILE *f = fopen(list, "r");
    if (!f) return say_error(TG_BAD_INPUT, "--labels: %s: %s", list, strerror(errno));
    while (status == TG_OK && getline(&line, &cap, f) > 0) status = add_sample(e, line, list, ++number);
    free(line);
    fclose(f);
    if (status == TG_OK && !e->count) status = say_error(TG_BAD_INPUT, "--labels: %s: it has no lines", list);
    return status;
}

/* ---- one sample ---- */

static void path_in(char out[PATH_BYTES], const Eval *e, const char *file)
{
    snprintf(out, PATH_BYTES, "%s%s%s", *file == '/' ? "" : e->dir, *file == '/' ? "" : "/", file);
}

/* Values of -i with `{}` replaced by the file; without any, the file alone, a picture or a recording as one. */
static void sample_inputs(ArgList *out, const Eval *e, const char *path, char (*text)[PATH_BYTES])
{
    const ArgList *given = &e->args->value[OPT_input];
    *out = *given;
    if (!given->count) {
        snprintf(text[0], PATH_BYTES, "%s%.4000s", reader_of(path), path);
        *out = (ArgList){ 1, { text[0] } };
    }
    for (uint32_t i = 0; i < given->count; i++) {
        const char *at = strstr(given->v[i], "{}");
        if (!at) continue;
        snprintf(text[i], PATH_BYTES, "%.*s%s%s", (int)(at - given->v[i]), given->v[i], path, at + 2);
        out->v[i] = text[i];
    }
}

/* The label of row r: a number for all, or the file's. */
static int64_t label_of(const Sample *s, const TgTensor *list, int64_t r)
{
    int64_t v = -1;
    if (!list->data) return parse_int(s->label, &v) ? v : -1;
    return r < tensor_numel(list) ? value_get_int(list->type, list->data, r) : -1;
}

static TgStatus labels_of(const Eval *e, const Sample *s, TgTensor *list, int64_t rows)
{
    char path[PATH_BYTES];
    *list = (TgTensor){ 0 };
    if (!strstr(s->label, ".npy")) return TG_OK;
    path_in(path, e, s->label);
    TgStatus status = tg_tensor_read(list, path, 0);
    if (status != TG_OK) return say_library_error(status);
    if (type_is_integer(list->type) && tensor_numel(list) == rows) return TG_OK;
    return say_error(TG_BAD_INPUT, "%s: one whole number for each of the output's %ld rows is wanted", path,
                     (long)rows);
}

static void score(Score *s, const Sample *sample, const TgTensor *list, const TgTensor *y)
{
    int64_t n = y->shape[y->rank - 1], rows = n ? tensor_numel(y) / n : 0;
    for (int64_t r = 0; r < rows; r++) {
        int64_t label = label_of(sample, list, r);
        s->rows++;
        s->top1 += among_largest(y->type, y->data, r * n, n, label, 1);
        s->top5 += among_largest(y->type, y->data, r * n, n, label, 5);
    }
}

static TgStatus check_output(const TgTensor *y)
{
    if (type_is_float(y->type) && y->rank) return TG_OK;
    return say_error(TG_BAD_INPUT, "eval: the first output has no scores: floats with an axis of classes are wanted");
}

/* What the other engine makes of the same inputs. */
static TgStatus run_beside(Eval *e, const DataSet *set, const Sample *sample, const TgTensor *list,
                           const TgTensor *ours)
{
    TgTensor theirs = { 0 };
    char path[PATH_BYTES];
    TgStatus status = inputs_write(set, e->folder);
    if (status == TG_OK && !e->beside) {
        const char *who = args_text(e->args, OPT_against, NULL);
        if (!strcmp(who, "reference")) who = "tgrun:--device reference";
        status = peer_start(&e->peer, who, e->model, e->folder, e->args);
        e->beside = status == TG_OK;
        if (status == TG_OK && !e->peer.once)
            status = say_error(TG_UNSUPPORTED, "eval: engine %s runs on no other inputs", e->peer.label);
    }
    if (status == TG_OK) status = peer_once(&e->peer, e->folder);
    snprintf(path, sizeof path, "%s/output_0.npy", e->folder);
    if (status == TG_OK && (status = tg_tensor_read(&theirs, path, 0)) != TG_OK) say_library_error(status);
    if (status == TG_OK && (theirs.type != ours->type || tensor_numel(&theirs) != tensor_numel(ours)))
        status = say_error(TG_DIFFERS, "eval: the first output of %s has another type or shape", e->peer.name);
    if (status == TG_OK) {
        int64_t n = ours->shape[ours->rank - 1], rows = n ? tensor_numel(ours) / n : 0;
        score(&e->score[1], sample, list, &theirs);
        e->score[1].same += (int64_t)llround(task_measure(TASK_TOP1, ours, &theirs) * (double)rows);
    }
    tg_tensor_free(&theirs);
    return status;
}

static TgStatus run_sample(Eval *e, const Sample *sample)
{
    static char text[ARGS_LIST][PATH_BYTES];
    char path[PATH_BYTES];
    Args one = *e->args;
    Data data = { 0 };
    path_in(path, e, sample->file);
    sample_inputs(&one.value[OPT_input], e, path, text);
    TgStatus status = e->session ? data_make(&data, e->session, &one) : open_model(&e->session, &data, &one, e->model);
    if (status == TG_OK) {
        const DataSet *set = &data.set[0];
        TgTensor in[set->ninput + 1], out[set->noutput + 1], list = { 0 };
        set_inputs(set, in);
        status = tg_prepare(e->session, in, set->ninput);
        double start = clock_s();
        if (status == TG_OK) status = tg_run(e->session, in, set->ninput, out);
        e->ms += 1e3 * (clock_s() - start);
        if (status != TG_OK) say_library_error(status);
        else status = set->noutput ? check_output(&out[0]) : TG_BAD_INPUT;
        if (status == TG_OK)
            status =
                labels_of(e, sample, &list, tensor_numel(&out[0]) / fmax(1, (double)out[0].shape[out[0].rank - 1]));
        if (status == TG_OK) score(&e->score[0], sample, &list, &out[0]);
        if (status == TG_OK && args_has(e->args, OPT_against)) status = run_beside(e, set, sample, &list, &out[0]);
        tg_tensor_free(&list);
    }
    data_free(&data);
    return status;
}

/* ---- the report ---- */

static double share(int64_t part, const Score *s) { return s->rows ? (double)part / (double)s->rows : NAN; }

static void people(const Eval *e)
{
    printf("%-24s %9s %9s %9s\n", "", "top-1", "top-5", "rows");
    for (int i = 0; i < (e->beside ? BESIDE : 1); i++)
        printf("%-24s %8.2f%% %8.2f%% %9ld\n", i ? e->peer.name : "tgrun", 100 * share(e->score[i].top1, &e->score[i]),
               100 * share(e->score[i].top5, &e->score[i]), (long)e->score[i].rows);
    if (e->beside) printf("both name the same in %.2f%% of rows\n", 100 * share(e->score[1].same, &e->score[1]));
    printf("%u inputs, %.3f ms a run\n", e->count, e->ms / e->count);
}

static json_t *score_json(const Eval *e, int i)
{
    const Score *s = &e->score[i];
    return json_pack("{s:s, s:o, s:o, s:I}", "engine", i ? e->peer.name : "tgrun", "top1",
                     json_number(share(s->top1, s)), "top5", json_number(share(s->top5, s)), "rows",
                     (json_int_t)s->rows);
}

static TgStatus report(const Eval *e)
{
    if (!args_has(e->args, OPT_json)) return people(e), TG_OK;
    json_t *engines = json_array();
    for (int i = 0; i < (e->beside ? BESIDE : 1); i++) json_array_append_new(engines, score_json(e, i));
    json_t *same = e->beside ? json_number(share(e->score[1].same, &e->score[1])) : json_null();
    return json_write(json_pack("{s:s, s:s, s:i, s:f, s:o, s:o, s:b, s:i}", "schema", "tgrun.eval/1", "file", e->model,
                                "inputs", (int)e->count, "run_ms", e->ms / e->count, "engines", engines, "agreement",
                                same, "ok", 1, "exit", 0),
                      args_text(e->args, OPT_json, ""));
}

TgStatus verb_eval(const Args *a, const char *path)
{
    const char *list = args_text(a, OPT_labels, NULL);
    char beside[PATH_BYTES];
    if (!list) return say_error(TG_USAGE, "eval: --labels is wanted: a file of lines `FILE LABEL`");
    snprintf(beside, sizeof beside, "%s", list);
    Eval e = { .args = a, .model = path, .dir = args_text(a, OPT_data, dirname(beside)) };
    bool folder = args_has(a, OPT_against);
    if (folder && !folder_make(e.folder)) return TG_CACHE;
    TgStatus status = read_labels(&e, list);
    for (uint32_t i = 0; i < e.count && status == TG_OK; i++) {
        say_progress("inputs", i, e.count);
        status = run_sample(&e, &e.sample[i]);
    }
    say_progress_done();
    if (status == TG_OK) status = report(&e);
    if (e.beside) peer_stop(&e.peer);
    if (folder) folder_remove(e.folder);
    for (uint32_t i = 0; i < e.count; i++) {
        free(e.sample[i].file);
        free(e.sample[i].label);
    }
    free(e.sample);
    tg_close(e.session);
    return status;
}
