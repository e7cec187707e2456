/* Where a run's time goes: by kernel, by node of the model, beside what the machine can do. */
#ifndef TG_PROFILE_H
#define TG_PROFILE_H
#include <jansson.h>
#include "bench/inputs.h"
#include "bench/peaks.h"

typedef struct {
    TgKernelTime *row;              /* longest first */
    uint32_t count, cap;
    double run_ms;                  /* the median of some whole runs */
    Peaks peaks;                    /* of the CPU; on other devices none is known */
} Profile;

/* Errors are said. The profile is freed by profile_free, also after a failure. */
TgStatus profile_measure(Profile *out, TgSession *s, const DataSet *set);
json_t *profile_json(const Profile *p, const TgSession *s, const char *file);
void profile_free(Profile *p);
#endif
