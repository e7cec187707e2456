/* The standard's own test data through loader, import and reference interpreter: does each operator agree with the
 * standard?
 *
 *   test_onnx_conformance [-v] [-o NAME] [-a ATOL] [-d DEVICE] [-s SYMBOL=LEAST..LARGEST] DIR...      every folder
 * below that holds model.onnx is a case with its test_data_set_K/{input,output}_N.pb
 *
 * Each case runs in a child with a time limit, so that a crash is one line too. Prints what did not pass (-v:
 * everything) and a summary; exit 1 when a case differs or crashes. With -d the case goes through a session of that
 * device (cpu, cuda, reference): every stage and host functions. -s: sizes that are variables. Without folders nothing
 * is run. Tolerances are the standard's: rtol 1e-3, atol 1e-7 (or -a).
 */
#include <dirent.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "backends/reference/reference.h"
#include "frontend/frontend.h"
#include "frontend/values/ports.h"
#include "onnx/files/npy.h"

/* Only type and shape are compared: random numbers differ between engines; what is expected of the others is further
 * from the exact values than the tolerance (tests/python/test_backend.py proves it, and compares them with those). */
static const char *const free_case[] = { "bernoulli", "test_dft_inverse", "test_attention_4d_causal_fp16_expanded" };

enum { PORTS_MAX = 64, SECONDS_MAX = 600, CPU_SECONDS_MAX = 120, CASES_MAX = 1 << 16 };

static struct {
    int passed, differed, crashed, unsupported, verbose;
    bool free;
    double atol;
    const char *device, *dims;
} total = { .atol = 1e-7 };
static struct { char *path[CASES_MAX]; int count; } cases;

/* ---- data ---- */

static char *read_file(const char *path, size_t *size)
{
    FILE *f = fopen(path, "rb");
    if (!f) return NULL;
    fseek(f, 0, SEEK_END);
    *size = (size_t)ftell(f);
    rewind(f);
    char *data = malloc(*size + 1);
    *size = fread(data, 1, *size, f);
    fclose(f);
    return data;
}

/* input_N.pb or output_N.pb of a set; false: no such file. */
static bool read_value(TgTensor *t, const ValueDef *d, const char *set, const char *kind, uint32_t n, TgStatus *status)
{
    static const TgType want[] = {
        [VALUE_SEQUENCE] = TG_SEQUENCE, [VALUE_OPTIONAL] = TG_OPTIONAL, [VALUE_MAP] = TG_MAP, [VALUE_UNKNOWN] = 0
    };
    char path[4096];
    size_t size;
    snprintf(path, sizeof path, "%s/%s_%u.pb", set, kind, n);
    char *data = read_file(path, &size);
    if (!data) return false;
    *status = pb_read_bytes(t, data, size, want[d->kind]);
    free(data);
    return true;
}

static double half(uint16_t h)
{
    int e = h >> 10 & 31, m = h & 1023;
    double v = e == 31 ? (m ? NAN : INFINITY) : e ? ldexp(1024 + m, e - 25) : ldexp(m, -24);
    return h >> 15 ? -v : v;
}

static double bfloat(uint16_t h)
{
    uint32_t bits = (uint32_t)h << 16;
    float f;
    memcpy(&f, &bits, 4);
    return f;
}

static double element(const TgTensor *t, int64_t k)
{
    const void *d = t->data;
    switch (t->type) {
    case TG_F32: return ((const float *)d)[k];
    case TG_F64: return ((const double *)d)[k];
    case TG_F16: return half(((const uint16_t *)d)[k]);
    case TG_BF16: return bfloat(((const uint16_t *)d)[k]);
    default: return NAN;
    }
}

static double relative(TgType t)
{
    return t == TG_BF16 ? ldexp(1, -6) : 1e-3;
} /* the standard's own: of bfloat16 two units of the last place */
static bool is_float(TgType t) { return t == TG_F32 || t == TG_F64 || t == TG_F16 || t == TG_BF16; }

/* NULL: equal; else what is wrong. */
static const char *compare(const TgTensor *want, const TgTensor *got)
{
    static char text[160];
    const char *wrong = NULL;
    int64_t numel = 1;
    if (want->type != got->type)
        return snprintf(text, sizeof text, "type %d, expected %d", got->type, want->type), text;
    if (want->rank != got->rank)
        return snprintf(text, sizeof text, "rank %d, expected %d", got->rank, want->rank), text;
    for (int32_t k = 0; k < want->rank; k++) {
        if (want->shape[k] != got->shape[k])
            return snprintf(text, sizeof text, "axis %d has size %lld, expected %lld", k, (long long)got->shape[k],
                            (long long)want->shape[k]),
                   text;
        numel *= want->shape[k];
    }
    for (int64_t k = 0; k < numel && holds_tensors(want) && !wrong; k++)
        wrong = compare((const TgTensor *)want->data + k, (const TgTensor *)got->data + k);
    if (holds_tensors(want)) return wrong;
    for (int64_t k = 0; k < numel && want->type == TG_STRING; k++) {
        const char *a = ((const char *const *)want->data)[k], *b = ((const char *const *)got->data)[k];
        if (strcmp(a, b))
            return snprintf(text, sizeof text, "string %lld is '%.50s', expected '%.50s'", (long long)k, b, a), text;
    }
    if (want->type == TG_STRING) return NULL;
    int64_t bits = tg_type_bits(want->type);
    if (bits < 8)
        return memcmp(want->data, got->data, (size_t)((numel * bits + 7) / 8)) ? "packed elements differ" : NULL;
    size_t size = (size_t)bits / 8;
    for (int64_t k = 0; k < numel && !total.free; k++) {
        if (!memcmp((const char *)want->data + size * (size_t)k, (const char *)got->data + size * (size_t)k, size))
            continue;
        if (!is_float(want->type))
            return snprintf(text, sizeof text, "element %lld of %lld differs", (long long)k, (long long)numel), text;
        double a = element(want, k), b = element(got, k);
        if ((isnan(a) && isnan(b)) || a == b || fabs(a - b) <= total.atol + relative(want->type) * fabs(a)) continue;
        return snprintf(text, sizeof text, "element %lld of %lld is %.9g, expected %.9g", (long long)k,
                        (long long)numel, b, a),
               text;
    }
    return NULL;
}

/* A sequence of maps is output_N.json, {"value": [[[key, number], ..a map..], ..a row..]}; its value here is the
 * numbers, a row a map. NULL: no file, or equal. */
static const char *compare_maps(const char *set, uint32_t n, const TgTensor *got)
{
    static char text[160];
    char path[4096];
    snprintf(path, sizeof path, "%s/output_%u.json", set, n);
    json_t *file = json_load_file(path, 0, NULL), *rows = json_object_get(file, "value"), *row, *entry;
    size_t i, j;
    if (!file) return NULL;
    if (got->type != TG_MAP) return "is not a map";
    got = (const TgTensor *)got->data + 1;
    if (got->rank != 2 || got->shape[0] != (int64_t)json_array_size(rows)) return "the maps do not have one row each";
    json_array_foreach(rows, i, row) {
        if (got->shape[1] != (int64_t)json_array_size(row)) return "a map of another size";
        json_array_foreach(row, j, entry) {
            double a = json_number_value(json_array_get(entry, 1)),
                   b = element(got, (int64_t)i * got->shape[1] + (int64_t)j);
            if (!(fabs(a - b) <= total.atol + relative(got->type) * fabs(a)))
                return snprintf(text, sizeof text, "map %zu, entry %zu is %.9g, expected %.9g", i, j, b, a), text;
        }
    }
    json_decref(file);
    return NULL;
}

/* ---- one case, in the child ---- */

/* The graph's values by the reference interpreter, on the inputs as they are. */
static TgStatus evaluate(const Imported *im, const TgTensor *input, uint32_t ninput, TgTensor *output, uint32_t noutput)
{
    for (uint32_t k = 0; k < im->ninput + im->noutput; k++)
        if (k < im->ninput ? (im->input_text[k] && !im->baked[k]) || im->input_narrow[k]
                           : im->output_text[k - im->ninput] || im->output_narrow[k - im->ninput])
            return fail(TG_UNSUPPORTED, "strings and packed types need a session");
    if (im->ninput > PORTS_MAX || im->noutput > PORTS_MAX)
        return fail(TG_UNSUPPORTED, "more than %d tensors", PORTS_MAX);
    const void *param[PORTS_MAX];
    const TgTensor *in[PORTS_MAX], *out[PORTS_MAX];
    RefTensor value[PORTS_MAX];
    port_parts(in, input, ninput);
    port_parts(out, im->output, noutput);
    for (uint32_t k = 0; k < im->ninput; k++) param[k] = in[k]->data;
    TRY(ref_eval(value, im->g, im->sink->src, im->noutput, &(RefInput){ .param = param, .nparam = im->ninput }));
    for (uint32_t k = 0; k < im->noutput; k++) {
        TgTensor *y = (TgTensor *)(uintptr_t)out[k];
        *y = (TgTensor){ .type = (TgType)dtype_info[value[k].dtype].onnx,
                         .rank = (int32_t)value[k].rank,
                         .data = value[k].data };
        memcpy(y->shape, value[k].shape, sizeof *value[k].shape * value[k].rank);
    }
    memcpy(output, im->output, sizeof *output * noutput);
    return TG_OK;
}

static TgStatus run_session(const char *path, uint32_t ninput, const TgTensor *input, TgTensor *output)
{
    TgOptions o;
    TgSession *session;
    tg_options_default(&o);
    o.device = total.device;
    o.dims = total.dims;
    TRY(tg_open(&session, path, &o));
    /* its memory is the outputs'; the child ends soon */
    return tg_run(session, input, (int32_t)ninput, output);
}

static TgStatus run_set(const Model *m, const char *path, const char *set)
{
    TgTensor input[PORTS_MAX] = { 0 }, output[PORTS_MAX] = { 0 }, want = { 0 };
    Imported im;
    TgStatus status = TG_OK;
    if (m->graph.ninput > PORTS_MAX || m->graph.noutput > PORTS_MAX)
        return fail(TG_UNSUPPORTED, "more than %d ports", PORTS_MAX);
    for (uint32_t k = 0; k < m->graph.ninput; k++) {
        if (!read_value(&input[k], &m->graph.input[k], set, "input", k, &status))
            return fail(TG_UNSUPPORTED, "input %u has no file", k);
        if (status != TG_OK) return TG_UNSUPPORTED;
    }
    if (total.device) TRY(run_session(path, m->graph.ninput, input, output));
    else {
        TRY(import_model(&im, m, input, m->graph.ninput, NULL, NULL));
        TRY(evaluate(&im, input, m->graph.ninput, output, m->graph.noutput));
    }
    for (uint32_t k = 0; k < m->graph.noutput; k++) {
        const char *wrong = compare_maps(set, k, &output[k]);
        if (!wrong && read_value(&want, &m->graph.output[k], set, "output", k, &status)) {
            if (status != TG_OK) return TG_UNSUPPORTED;
            wrong = compare(&want, &output[k]);
        }
        if (wrong) return fail(TG_DIFFERS, "output %u: %s", k, wrong);
    }
    return TG_OK;
}

static TgStatus run_case(const char *dir)
{
    char path[4096], set[4096];
    Model *m;
    struct stat st;
    snprintf(path, sizeof path, "%s/model.onnx", dir);
    TRY(model_load(&m, path, NULL));
    for (int k = 0;; k++) {
        snprintf(set, sizeof set, "%s/test_data_set_%d", dir, k);
        if (stat(set, &st)) return TG_OK;
        TRY(run_set(m, path, set));
    }
}

/* ---- all cases ---- */

static void report(const char *dir, int status, const char *line)
{
    bool died = !WIFEXITED(status);
    int code = died ? -1 : WEXITSTATUS(status);
    const char *word = died ? "CRASH" : code == TG_OK ? "ok" : code == TG_UNSUPPORTED ? "unsupported" : "FAIL";
    const char *name = strrchr(dir, '/') ? strrchr(dir, '/') + 1 : dir;
    *(died                         ? &total.crashed
          : code == TG_OK          ? &total.passed
          : code == TG_UNSUPPORTED ? &total.unsupported
                                   : &total.differed) += 1;
    if (total.verbose || code != TG_OK) printf("%-11s %s: %s\n", word, name, died ? strsignal(WTERMSIG(status)) : line);
}

static void run_child(const char *dir)
{
    int pipe_fd[2], status;
    char line[1100] = "";
    if (pipe(pipe_fd)) exit(9);
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        /* its own time: others may be using the machine */
        setrlimit(RLIMIT_CPU, &(struct rlimit){ CPU_SECONDS_MAX, CPU_SECONDS_MAX });
        alarm(SECONDS_MAX);
        for (size_t k = 0; k < sizeof free_case / sizeof *free_case; k++)
            total.free |= strstr(dir, free_case[k]) != NULL;
        TgStatus code = run_case(dir);
        if (code != TG_OK && write(pipe_fd[1], tg_error(), strlen(tg_error())) < 0) _exit(9);
        _exit(code);
    }
    close(pipe_fd[1]);
    for (size_t n = 0, got; n < sizeof line - 1 &&
         (got = (size_t)read(pipe_fd[0], line + n, sizeof line - 1 - n)) > 0 && got < sizeof line;)
        n += got;
    close(pipe_fd[0]);
    waitpid(child, &status, 0);
    report(dir, status, line);
}

static void find_cases(const char *dir, const char *only)
{
    char path[4096];
    struct dirent **entry;
    struct stat st;
    snprintf(path, sizeof path, "%s/model.onnx", dir);
    if (!stat(path, &st)) {
        if ((!only || strstr(dir, only)) && cases.count < CASES_MAX) cases.path[cases.count++] = strdup(dir);
        return;
    }
    int n = scandir(dir, &entry, NULL, alphasort);
    for (int k = 0; k < n; k++) {
        snprintf(path, sizeof path, "%s/%s", dir, entry[k]->d_name);
        if (entry[k]->d_name[0] != '.' && !stat(path, &st) && S_ISDIR(st.st_mode)) find_cases(path, only);
        free(entry[k]);
    }
    if (n >= 0) free(entry);
}

int main(int argc, char **argv)
{
    const char *only = NULL;
    for (int k = 1; k < argc; k++) {
        if (!strcmp(argv[k], "-v")) total.verbose = 1;
        else if (!strcmp(argv[k], "-d") && k + 1 < argc) total.device = argv[++k];
        else if (!strcmp(argv[k], "-s") && k + 1 < argc) total.dims = argv[++k];
        else if (!strcmp(argv[k], "-a") && k + 1 < argc) total.atol = atof(argv[++k]);
        else if (!strcmp(argv[k], "-o") && k + 1 < argc) only = argv[++k];
        else find_cases(argv[k], only);
    }
    for (int k = 0; k < cases.count; k++) run_child(cases.path[k]);
    printf("%d of %d cases are right, %d differ, %d crashed, %d unsupported\n", total.passed,
           cases.count - total.unsupported, total.differed, total.crashed, total.unsupported);
    return total.differed || total.crashed;
}
