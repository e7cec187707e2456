/* In: argv and the environment. Out: Args, every value checked for its kind. A new option is a row of options.def. */
#include "bench/args.h"

#include <ctype.h>
#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/say.h"
#include "bench/task.h"

typedef enum {
    FLAG,
    TEXT,
    COUNT,
    REAL,
    NAMED,
    BYTES,
    CHOICE,
    MAYBE,
    TASK
} OptKind; /* NAMED: V or NAME:V, a number that is not negative; TASK: task.h */
enum { R = PROGRAM_TGRUN, B = PROGRAM_TGBENCH, RB = R | B, NAME_MAX_LEN = 32 };
typedef struct {
    const char *id, *field;
    char letter;
    OptKind kind;
    const char *argument;
    int programs;
    const char *verbs, *otherwise, *help;
} OptRow;

static const OptRow rows[OPT_COUNT] = {
#define OPTION_OF(id, name, letter, kind, argument, programs, verbs, otherwise, help) \
    { #id, #name, letter, kind, argument, programs, verbs, otherwise, help },
#define OPTION(name, ...) OPTION_OF(name, name, __VA_ARGS__)
#include "bench/options.def"
#undef OPTION
#undef OPTION_OF
};

/* `no_cache` as `no-cache`, or as TGRUN_NO_CACHE. */
static void option_name(char out[NAME_MAX_LEN], const OptRow *row)
{
    snprintf(out, NAME_MAX_LEN, "%s", row->field);
    for (char *c = out; *c; c++)
        if (*c == '_') *c = '-';
}

static void variable_name(char out[NAME_MAX_LEN], const OptRow *row)
{
    snprintf(out, NAME_MAX_LEN, "TGRUN_%s", row->id);
    for (char *c = out; *c; c++) *c = (char)toupper((unsigned char)*c);
}

/* ---- values ---- */

bool parse_real(const char *s, double *out)
{
    char *end;
    *out = strtod(s, &end);
    return *s && !isspace((unsigned char)*s) && !*end && isfinite(*out);
}

bool parse_int(const char *s, int64_t *out)
{
    char *end;
    errno = 0;
    *out = strtoll(s, &end, 10);
    return *s && !isspace((unsigned char)*s) && !*end && !errno;
}

static bool parse_bytes(const char *s, double *out)
{
    char digits[32];
    size_t n = strspn(s, "0123456789");
    const char *units = "KMGT", *unit = s[n] ? strchr(units, toupper((unsigned char)s[n])) : NULL;
    if (!n || n >= sizeof digits || (s[n] && (!unit || s[n + 1]))) return false;
    snprintf(digits, sizeof digits, "%.*s", (int)n, s);
    *out = strtod(digits, NULL) * (unit ? ldexp(1, 10 * (int)(unit - units + 1)) : 1);
    return *out < 9e18;
}

static bool is_choice(const char *words, const char *s)
{
    size_t len = strlen(s);
    for (const char *w = words; *w; w += strcspn(w, "|"), w += *w == '|')
        if (strcspn(w, "|") == len && !memcmp(w, s, len)) return true;
    return false;
}

/* What a value of this kind must be; NULL when s is one. */
static const char *wrong(const OptRow *row, const char *s)
{
    double real;
    int64_t whole;
    switch (row->kind) {
    case COUNT:
        return parse_int(s, &whole) && whole >= 0 && whole <= INT32_MAX ? NULL : "a whole number that is not negative";
    case REAL: return parse_real(s, &real) && real >= 0 ? NULL : "a number that is not negative";
    case NAMED:
        return parse_real(strrchr(s, ':') ? strrchr(s, ':') + 1 : s, &real) && real >= 0 && *s != ':'
            ? NULL
            : "a number that is not negative, or NAME: and one";
    case BYTES: return parse_bytes(s, &real) ? NULL : "a whole number of bytes, K, M, G or T";
    case CHOICE: return is_choice(row->argument, s) ? NULL : row->argument;
    case TASK: return task_of(s, NULL) ? NULL : row->argument;
    case TEXT: return *s ? NULL : row->argument;
    default: return NULL;
    }
}

static TgStatus add(Args *a, uint32_t o, const char *shown, const char *s)
{
    const char *wanted = wrong(&rows[o], s);
    if (wanted) return say_error(TG_USAGE, "%s: '%s' is wrong; %s is wanted", shown, s, wanted);
    if (a->value[o].count == ARGS_LIST) return say_error(TG_USAGE, "%s: given more than %d times", shown, ARGS_LIST);
    a->value[o].v[a->value[o].count++] = s;
    return TG_OK;
}

/* ---- where values come from ---- */

static TgStatus flag_variable(Args *a, uint32_t o, const char *name, const char *s)
{
    if (!strcmp(s, "0") || !strcmp(s, "false") || !*s) return TG_OK;
    if (strcmp(s, "1") && strcmp(s, "true")) return say_error(TG_USAGE, "%s: '%s' is wrong; 0 or 1 is wanted", name, s);
    return add(a, o, name, "");
}

static TgStatus from_environment(Args *a)
{
    for (uint32_t o = 0; o < OPT_COUNT; o++) {
        char name[NAME_MAX_LEN];
        variable_name(name, &rows[o]);
        const char *s = getenv(name);
        if (!s || a->value[o].count || !(rows[o].programs & a->program)) continue;
        bool flag = rows[o].kind == FLAG || (rows[o].kind == MAYBE && (!strcmp(s, "0") || !strcmp(s, "1")));
        TgStatus status = flag ? flag_variable(a, o, name, s) : add(a, o, name, s);
        if (status != TG_OK) return status;
        a->variable[o] = true;
    }
    return TG_OK;
}

static bool has_word(const char *list, const char *word)
{
    size_t len = strlen(word);
    for (const char *w = list; *w; w += strcspn(w, " "), w += strspn(w, " "))
        if (strcspn(w, " ") == len && !memcmp(w, word, len)) return true;
    return false;
}

TgStatus args_for_verb(const Args *a, const char *verb)
{
    for (uint32_t o = 0; o < OPT_COUNT; o++) {
        char name[NAME_MAX_LEN];
        if (!a->value[o].count || a->variable[o] || !rows[o].verbs || has_word(rows[o].verbs, verb)) continue;
        option_name(name, &rows[o]);
        return say_error(TG_USAGE, "--%s: has no effect on %s; it is for %s", name, verb, rows[o].verbs);
    }
    return TG_OK;
}

static uint32_t distance(const char *a, const char *b)
{
    uint32_t row[64], n = (uint32_t)strlen(b);
    if (n > 62) return 99;
    for (uint32_t j = 0; j <= n; j++) row[j] = j;
    for (uint32_t i = 0; a[i]; i++) {
        uint32_t corner = row[0];
        row[0] = i + 1;
        for (uint32_t j = 0; j < n; j++) {
            uint32_t best = corner + (a[i] != b[j]);
            corner = row[j + 1];
            if (row[j] + 1 < best) best = row[j] + 1;
            if (corner + 1 < best) best = corner + 1;
            row[j + 1] = best;
        }
    }
    return row[n];
}

const char *nearest(const char *word, const char *const *names, uint32_t count)
{
    const char *best = NULL;
    uint32_t least = (uint32_t)strlen(word) / 3 + 2;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t d = distance(word, names[i]);
        if (d < least) {
            least = d;
            best = names[i];
        }
    }
    return best;
}

static TgStatus unknown(const Args *a, const char *given)
{
    static char text[OPT_COUNT][NAME_MAX_LEN];
    const char *names[OPT_COUNT];
    uint32_t n = 0;
    if (given[0] == '-' && given[1] != '-')
        return say_error(TG_USAGE, "option '%s' is unknown; --help lists them", given);
    for (uint32_t o = 0; o < OPT_COUNT; o++)
        if (rows[o].programs & a->program) {
            option_name(text[n], &rows[o]);
            names[n] = text[n];
            n++;
        }
    char word[64];
    snprintf(word, sizeof word, "%.*s", (int)strcspn(given + 2, "="), given + 2);
    const char *near = nearest(word, names, n);
    if (near) return say_error(TG_USAGE, "option '--%s' is unknown; did you mean '--%s'?", word, near);
    return say_error(TG_USAGE, "option '--%s' is unknown; --help lists them", word);
}

static uint32_t getopt_tables(int program, struct option *longs, char *shorts)
{
    static char text[OPT_COUNT][NAME_MAX_LEN];
    uint32_t n = 0;
    *shorts++ = ':';                                    /* a missing argument differs from an unknown option */
    for (uint32_t o = 0; o < OPT_COUNT; o++) {
        const OptRow *row = &rows[o];
        if (!(row->programs & program)) continue;
        option_name(text[o], row);
        longs[n++] = (struct option){ text[o],
                                      row->kind == FLAG        ? no_argument
                                          : row->kind == MAYBE ? optional_argument
                                                               : required_argument,
                                      NULL, 1000 + (int)o };
        if (!row->letter) continue;
        *shorts++ = row->letter;
        if (row->kind != FLAG) *shorts++ = ':';
    }
    *shorts = 0;
    longs[n] = (struct option){ 0 };
    return n;
}

static int option_of(int c)
{
    for (int o = 0; o < OPT_COUNT; o++)
        if (c == 1000 + o || (rows[o].letter && c == rows[o].letter)) return o;
    return -1;
}

TgStatus args_parse(Args *out, int program, int argc, char **argv)
{
    struct option longs[OPT_COUNT + 1];
    char shorts[2 * OPT_COUNT + 2];
    *out = (Args){ .program = program };
    getopt_tables(program, longs, shorts);
    opterr = 0;
    optind = 0;
    for (int c; (c = getopt_long(argc, argv, shorts, longs, NULL)) != -1;) {
        const char *given = argv[optind - 1];
        int o = option_of(c);
        if (c == ':') return say_error(TG_USAGE, "%s: a value is missing; --help shows it", given);
        if (c == '?')
            return optopt && given[1] == '-' && option_of(optopt) >= 0 ? say_error(TG_USAGE, "%s takes no value", given)
                                                                       : unknown(out, given);
        char name[NAME_MAX_LEN + 2] = "--";
        option_name(name + 2, &rows[o]);
        TgStatus status = add(out, (uint32_t)o, name, optarg ? optarg : "");
        if (status != TG_OK) return status;
    }
    for (; optind < argc; optind++) {
        if (out->operand.count == ARGS_LIST) return say_error(TG_USAGE, "more than %d operands", ARGS_LIST);
        out->operand.v[out->operand.count++] = argv[optind];
    }
    return from_environment(out);
}

const char *args_text(const Args *a, Opt o, const char *otherwise)
{
    return args_has(a, o) ? a->value[o].v[a->value[o].count - 1] : otherwise;
}

double args_real(const Args *a, Opt o, double otherwise)
{
    if (!args_has(a, o)) return otherwise;
    double v = 0;
    const char *s = args_text(a, o, "");
    if (rows[o].kind == BYTES) parse_bytes(s, &v);
    else parse_real(s, &v);
    return v;
}

int64_t args_count(const Args *a, Opt o, int64_t otherwise)
{
    return args_has(a, o) ? (int64_t)args_real(a, o, 0) : otherwise;
}

/* The ranges among the values of --dim, between commas; NULL: none. */
static const char *dim_ranges(const Args *a)
{
    static char text[1024];
    size_t n = 0;
    for (uint32_t i = 0; i < a->value[OPT_dim].count; i++) {
        const char *s = a->value[OPT_dim].v[i];
        if (strstr(s, "..") && n + strlen(s) + 2 < sizeof text)
            n += (size_t)snprintf(text + n, sizeof text - n, "%s%s", n ? "," : "", s);
    }
    return n ? text : NULL;
}

void args_session_options(const Args *a, TgOptions *out)
{
    const char *precision = args_text(a, OPT_precision, "exact");
    tg_options_default(out);
    out->device = args_text(a, OPT_device, "auto");
    out->threads = (int32_t)args_count(a, OPT_threads, 0);
    out->cpus = args_text(a, OPT_cpus, NULL);
    out->precision = *precision == 's' ? TG_PRECISION_SPLIT
        : *precision == 'f'            ? TG_PRECISION_FAST
                                       : TG_PRECISION_EXACT;
    out->cache_dir = args_text(a, OPT_cache_dir, NULL);
    out->no_cache = args_has(a, OPT_no_cache);
    out->compiler = args_text(a, OPT_compiler, NULL);
    out->max_memory_bytes = (int64_t)args_real(a, OPT_max_memory, 0);
    out->dims = dim_ranges(a);
    say_watch(out);
    out->batch = (int32_t)args_count(a, OPT_batch, 0);
    out->batch_inputs = args_text(a, OPT_batch_input, NULL);
    out->shard = args_text(a, OPT_shard, NULL);
    out->beam = (int32_t)args_count(a, OPT_beam, 0);
    out->tune_s = args_real(a, OPT_tune, 0);
    out->verbose = (int32_t)a->value[OPT_verbose].count;
    out->seed = args_count(a, OPT_seed, 0);
}

/* ---- help ---- */

static void help_row(const OptRow *row)
{
    char name[NAME_MAX_LEN], left[160], letter[8] = "    ";
    option_name(name, row);
    if (row->letter) snprintf(letter, sizeof letter, "-%c, ", row->letter);
    const char *between = row->kind == MAYBE ? "[=" : row->kind == FLAG ? "" : " ";
    snprintf(left, sizeof left, "  %s--%s%s%s%s", letter, name, between, row->argument ? row->argument : "",
             row->kind == MAYBE ? "]" : "");
    printf("%-40s %s%s%s%s\n", left, row->help, row->otherwise ? " (" : "", row->otherwise ? row->otherwise : "",
           row->otherwise ? ")" : "");
}

void args_help(int program, const char *usage)
{
    puts(usage);
    puts("options (each also as an environment variable: --no-cache is TGRUN_NO_CACHE):");
    for (uint32_t o = 0; o < OPT_COUNT; o++)
        if (rows[o].programs & program) help_row(&rows[o]);
}

void args_help_verb(const char *verb, const char *usage)
{
    puts(usage);
    for (int every = 0; every < 2; every++) {
        bool any = false;
        for (uint32_t o = 0; o < OPT_COUNT; o++) {
            const OptRow *row = &rows[o];
            if (!(row->programs & PROGRAM_TGRUN) || (every ? row->verbs != NULL : !row->verbs)) continue;
            if (!every && !has_word(row->verbs, verb)) continue;
            if (!any) puts(every ? "options of every verb:" : "options:");
            any = true;
            help_row(row);
        }
    }
}

void args_completion(int program, const char *shell, const char *const *verbs)
{
    const char *name = program == PROGRAM_TGRUN ? "tgrun" : "tgbench";
    bool fish = !strcmp(shell, "fish");
    if (!strcmp(shell, "zsh")) puts("autoload -U +X bashcompinit && bashcompinit");
    if (fish)
        for (; *verbs; verbs++) printf("complete -c %s -n __fish_use_subcommand -a %s\n", name, *verbs);
    else printf("complete -o default -W '");
    for (; !fish && *verbs; verbs++) printf(" %s", *verbs);
    for (uint32_t o = 0; o < OPT_COUNT; o++) {
        char option[NAME_MAX_LEN];
        option_name(option, &rows[o]);
        if (!(rows[o].programs & program)) continue;
        if (fish) printf("complete -c %s -l %s%s\n", name, option, rows[o].kind == FLAG ? "" : " -r");
        else printf(" --%s", option);
    }
    if (!fish) printf("' %s\n", name);
}
