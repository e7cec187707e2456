/* tgrun: runs an ONNX model, checks its outputs and reports latency. The first operand is a verb, or the model. */
#include <stdio.h>
#include <string.h>

#include "bench/run.h"
#include "bench/say.h"
#include "bench/serve.h"
#include "bench/stop.h"
#include "bench/suite.h"
#include "bench/verbs.h"

/* operands: what stands behind the verb; examples: a line each */
typedef struct {
    const char *name;
    TgStatus (*fn)(const Args *a, const char *path);
    bool takes_model;
    const char *help, *operands, *examples;
} Verb;

static const Verb verbs[] = {
    { "run", run_model, true, "runs the model, compares if a reference is at hand, reports latency", "MODEL",
      "tgrun model.onnx -i x.npy -o y.npy\n"
      "tgrun model.onnx --test-data data --against ort\n"
      "tgrun model.onnx --dim batch=8 --runs 100 --json results.json\n" },
    { "info", verb_info, true,
      "inputs, outputs, free dimensions, opset, operators with counts, parameters, planned memory", "MODEL",
      "tgrun info model.onnx\n"
      "tgrun info model.onnx --dim batch=8 --json\n" },
    { "check", verb_check, true, "is the model valid, and what in it is not supported; nothing runs", "MODEL",
      "tgrun check model.onnx\n" },
    { "tune", verb_tune, true, "searches schedules and kernels for --tune SECONDS", "MODEL",
      "tgrun tune model.onnx --tune 60 >lists.txt\n"
      "tgrun model.onnx --opts lists.txt\n" },
    { "compile", verb_compile, true,
      "-o FILE: kernels, packed weights and the model in one file that runs as a model does, on such a processor, without "
      "a compiler",
      "MODEL -o FILE",
      "tgrun compile model.onnx -o model.tgc && tgrun model.tgc -i x.npy\n"
      "tgrun compile model.onnx --dim batch=1..16 --tune 60 -t 8 -o model.tgc\n" },
    { "profile", verb_profile, true,
      "every kernel within runs and alone: launches, time, flops, bytes, its OptOps; then the model's nodes by time",
      "MODEL",
      "tgrun profile model.onnx --test-data data\n"
      "tgrun profile model.onnx --trace steps.json\n" },
    { "bisect", verb_bisect, true,
      "the first node whose value differs: --against reference|ort|tgrun:OPTIONS|MODEL.onnx; writes the smallest part "
      "that does",
      "MODEL --against WHAT",
      "tgrun bisect model.onnx --against ort --test-data data --output-dir part\n"
      "tgrun bisect model.onnx --against 'tgrun:--precision fast'\n" },
    { "eval", verb_eval, true,
      "--labels FILE: top-1 and top-5 accuracy over a data set, with --against ENGINE beside another's", "MODEL --labels FILE",
      "tgrun eval model.onnx --labels val/labels.txt -i 'image:{},224x224,mean=0.485:0.456:0.406,std=0.229:0.224:0.225'\n"
      "tgrun eval model.onnx --labels labels.txt --data tensors --against ort --precision fast\n" },
    { "diff", NULL, true,
      "A B: inputs, outputs, operators and weights that two models have differently, and their outputs' differences",
      "A B", "tgrun diff before.onnx after.onnx -i x.npy\n" },
    { "dump", verb_dump, true, "what a stage made: --stage NAME, --kernel NAME", "MODEL",
      "tgrun dump model.onnx --stage plan\n"
      "tgrun dump model.onnx --stage source --kernel r_64_56_56_64_3_3\n" },
    { "test", NULL, false,
      "DIR...: every model below, each in a child, with its data sets; .tar.gz too; --junit FILE; --timeout of each, "
      "600 s",
      "DIR...", "tgrun test models --jobs 4 --junit report.xml\n" },
    { "cache", verb_cache, true,
      "list|verify|prune: the folder of compiled kernels; prune removes damaged files, and the oldest down to "
      "--cache-size",
      "list|verify|prune", "tgrun cache prune --cache-size 1G\n" },
    { "ops", verb_ops, false, "every operator, version and domain that is covered", "", "tgrun ops\n" },
    { "env", verb_env, false, "devices, compiler, cache: the block to paste into a report", "", "tgrun env\n" },
};
enum { VERBS = sizeof verbs / sizeof *verbs };

static void verb_help(const Verb *v)
{
    char text[2048];
    snprintf(text, sizeof text, "tgrun %s%s%s [options]\n\n%s\n\nexamples:\n  ", v->name, *v->operands ? " " : "",
             v->operands, v->help);
    size_t n = strlen(text);
    for (const char *s = v->examples; *s && n + 4 < sizeof text; s++) {
        text[n++] = *s;
        if (*s == '\n' && s[1]) text[n++] = ' ', text[n++] = ' ';
    }
    text[n] = 0;
    args_help_verb(v->name, text);
}

static void help(void)
{
    char text[4096];
    int n = snprintf(
        text, sizeof text,
        "tgrun [VERB] MODEL [options]\n\nverbs (run, when left out; a model file named \"check\" is ./check; `tgrun VERB "
        "--help` has its options and examples):\n");
    for (int i = 0; i < VERBS; i++)
        n += snprintf(text + n, sizeof text - (size_t)n, "  %-9s%s\n", verbs[i].name, verbs[i].help);
    args_help(PROGRAM_TGRUN, text);
    puts("\nexit: 0 good, 1 an output differs, 2 usage, 3 bad model, 4 bad input, 5 unsupported, 6 a limit, 7 cache or "
         "compiler, 8 device, 9 our own error, 124 time limit");
}

static void completion(const char *shell)
{
    const char *names[VERBS + 1] = { NULL };
    for (int i = 0; i < VERBS; i++) names[i] = verbs[i].name;
    args_completion(PROGRAM_TGRUN, shell, names);
}

static const Verb *verb_of(const Args *a, uint32_t *first)
{
    *first = 0;
    for (int i = 0; i < VERBS && a->operand.count; i++)
        if (!strcmp(a->operand.v[0], verbs[i].name)) return *first = 1, &verbs[i];
    return &verbs[0];
}

/* A lone word that is no file is more likely a verb that was misspelt. */
static TgStatus no_such_model(const char *word)
{
    const char *names[VERBS];
    for (int i = 0; i < VERBS; i++) names[i] = verbs[i].name;
    const char *near = strpbrk(word, "./") ? NULL : nearest(word, names, VERBS);
    return near ? say_error(TG_USAGE, "'%s' is neither a verb nor a file; did you mean '%s'?", word, near) : TG_OK;
}

/* Of a job of several processes (mpirun) those behind the first do what it wants of them, if it divides a model. */
static bool serves(const Args *a, TgStatus *status)
{
    int32_t rank, ranks;
    const char *device = args_text(a, OPT_device, "auto");
    if (!args_has(a, OPT_shard) || strchr(device, ':')) return false;
    *status = tg_ranks(&rank, &ranks);
    if (*status != TG_OK) return say_library_error(*status), true;
    if (!rank) return false;
    *status = tg_ranks_serve();
    if (*status != TG_OK && *status != TG_STOPPED) say_library_error(*status);
    return true;
}

static TgStatus dispatch(const Args *a)
{
    uint32_t first, left;
    const Verb *v = verb_of(a, &first);
    left = a->operand.count - first;
    if (args_for_verb(a, v->name) != TG_OK) return TG_USAGE;
    bool two = !strcmp(v->name, "diff");
    if (two && left != 2)
        return say_error(TG_USAGE, "diff: two models are wanted; %u %s given", left, left == 1 ? "is" : "are");
    if (!two && !v->fn) return suite_run(a, a->operand.v + first, left, "tgrun");   /* each child has its own limit */
    TgStatus status;
    if (!two && v->takes_model && left == 1 && serves(a, &status)) return tg_ranks_end((int32_t)status), status;
    stop_after(args_real(a, OPT_timeout, 0));
    if (two) return verb_diff(a, a->operand.v[first], a->operand.v[first + 1]);
    if (!v->takes_model)
        return left ? say_error(TG_USAGE, "%s takes no model; '%s' is one too many", v->name, a->operand.v[first])
                    : v->fn(a, NULL);
    if (!left && v->fn == verb_cache) return say_error(TG_USAGE, "cache: list, verify or prune is wanted");
    if (!left) return say_error(TG_USAGE, "a model is missing: tgrun [VERB] MODEL [options]; --help tells more");
    if (left > 1 && !first && no_such_model(a->operand.v[0]) != TG_OK) return TG_USAGE;
    if (left > 1) return say_error(TG_USAGE, "'%s' is one model too many", a->operand.v[first + 1]);
    status = v->fn(a, a->operand.v[first]);
    tg_ranks_end((int32_t)status);
    return status;
}

static TgStatus tgrun(const Args *a)
{
    uint32_t first;
    const Verb *v = verb_of(a, &first);
    if (args_has(a, OPT_help) && first) return verb_help(v), TG_OK;
    if (args_has(a, OPT_help)) return help(), TG_OK;
    if (args_has(a, OPT_version)) return printf("tgrun %s\n", tg_version()), TG_OK;
    if (args_has(a, OPT_completion)) return completion(args_text(a, OPT_completion, "bash")), TG_OK;
    return dispatch(a);
}

int main(int argc, char **argv)
{
    Args a;
    setenv("TGRUN_DEFAULT_COMPILER", "cc", 0);                   /* what is measured is what stays */
    if (argc > 1 && !strcmp(argv[1], "@engine")) return serve(argc - 1, argv + 1);
    say_setup("tgrun", NULL, false);
    stop_setup("tgrun");
    TgStatus status = args_parse(&a, PROGRAM_TGRUN, argc, argv);
    if (status != TG_OK) return (int)status;
    say_setup("tgrun", args_has(&a, OPT_json) ? args_text(&a, OPT_json, "") : NULL, args_has(&a, OPT_quiet));
    say_progress_setup(args_text(&a, OPT_progress, "auto"));
    return say_end(tgrun(&a));
}
