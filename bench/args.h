/* Command lines: options by table (options.def), from the environment too. Every mistake is one line and exit code 2.
 */
#ifndef TG_ARGS_H
#define TG_ARGS_H
#include <stdbool.h>
#include <stdint.h>
#include "tgrun.h"

typedef enum {
#define OPTION(name, ...) OPT_##name,
#define OPTION_OF(id, name, ...) OPT_##id,
#include "bench/options.def"
#undef OPTION
#undef OPTION_OF
    OPT_COUNT
} Opt;

enum { PROGRAM_TGRUN = 1, PROGRAM_TGBENCH = 2, ARGS_LIST = 256 };
typedef struct { uint32_t count; const char *v[ARGS_LIST]; } ArgList;
typedef struct {
    int program;
    ArgList value[OPT_COUNT]; /* what was given, in order; the environment's value stands where the command line gives
                                 none */
    ArgList operand;
    bool variable[OPT_COUNT];       /* it came from the environment, which is meant for every command */
} Args;

/* TG_OK, or TG_USAGE after say_error. Strings belong to argv and the environment. */
TgStatus args_parse(Args *out, int program, int argc, char **argv);
static inline bool args_has(const Args *a, Opt o) { return a->value[o].count > 0; }
const char *args_text(const Args *a, Opt o, const char *otherwise);     /* the last value */
double args_real(const Args *a, Opt o, double otherwise); /* COUNT, REAL and BYTES, checked by args_parse */
int64_t args_count(const Args *a, Opt o, int64_t otherwise);
/* Options that only some verbs look at (a column of options.def): TG_USAGE after say_error where another verb is given
 * one. */
TgStatus args_for_verb(const Args *a, const char *verb);
void args_help(int program, const char *usage);
void args_help_verb(const char *verb, const char *usage);               /* tgrun's options that it looks at */
void args_completion(int program, const char *shell, const char *const *verbs);
const char *nearest(const char *word, const char *const *names, uint32_t count);     /* NULL: none is near */
/* The library's options out of the command line. */
void args_session_options(const Args *a, TgOptions *out);
bool parse_real(const char *s, double *out);                            /* the whole of s is a finite number */
bool parse_int(const char *s, int64_t *out);
#endif
