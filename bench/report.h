/* Results of a run, for people and for programs (cli.md). */
#ifndef TG_REPORT_H
#define TG_REPORT_H
#include <math.h>
#include <jansson.h>
#include "bench/compare.h"
#include "bench/inputs.h"
#include "bench/measure.h"

typedef struct {
    const char *file;
    const Args *args;
    const TgSession *session;
    TgInfo info;
    const Data *data;
    TgTensor *output; /* of the first set: type and shape stay valid, data do not; what holds tensors is a copy */
    Comparison *compare;            /* [set * noutput + k]; only where the set's output is known */
    bool ok;
    Latency latency;
    double first_run_ms;
} Result;

int64_t peak_bytes(void);           /* the process's highest resident size */
const char *bytes_text(char buf[32], double v);         /* "25.6 MiB" */
const char *precision_name(const Args *a);
void report_people(FILE *f, const Result *r);
json_t *report_json(const Result *r, TgStatus exit_code);
TgStatus json_write(json_t *j, const char *file);       /* file "" is standard output; drops the reference */
/* JSON knows no NaN and no Inf: null. */
static inline json_t *json_number(double v) { return isfinite(v) ? json_real(v) : json_null(); }
json_t *env_json(const TgInfo *info);
/* What each of several devices has of a program: lines, and a list of objects. */
enum { SHARES_MOST = 64 };
void shares_people(FILE *f, const TgShare *share, int32_t devices);
json_t *shares_json(const TgShare *share, int32_t devices);
/* `50,90,99` as numbers; TG_USAGE after say_error. */
TgStatus percentile_list(const Args *a, double out[8], uint32_t *n);
#endif
