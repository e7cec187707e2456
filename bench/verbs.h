/* Verbs of tgrun other than `run`. Each takes the command line and the operands after the verb, and returns the exit
 * code. */
#ifndef TG_VERBS_H
#define TG_VERBS_H
#include "bench/args.h"

TgStatus verb_info(const Args *a, const char *path);
TgStatus verb_check(const Args *a, const char *path);
TgStatus verb_tune(const Args *a, const char *path);
TgStatus verb_compile(const Args *a, const char *path);
TgStatus verb_dump(const Args *a, const char *path);
TgStatus verb_bisect(const Args *a, const char *path);      /* bisect.c */
TgStatus verb_eval(const Args *a, const char *path);        /* eval.c */
TgStatus verb_diff(const Args *a, const char *first, const char *second);
TgStatus verb_profile(const Args *a, const char *path);
TgStatus verb_cache(const Args *a, const char *what);      /* cache_verb.c: list, verify or prune */
TgStatus verb_ops(const Args *a, const char *unused);
TgStatus verb_env(const Args *a, const char *unused);
#endif
