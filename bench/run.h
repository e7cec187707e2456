/* The verb `run`, and what other verbs share with it. */
#ifndef TG_RUN_H
#define TG_RUN_H
#include "bench/report.h"

TgStatus run_model(const Args *a, const char *path);
/* A session and its data from the command line; errors are said. Both are the caller's, also after a failure. */
TgStatus open_model(TgSession **session, Data *data, const Args *a, const char *path);
/* on that device instead of --device */
TgStatus open_model_on(TgSession **session, Data *data, const Args *a, const char *path, const char *device);
/* A value's name as that of a file: what is no letter, digit, dot, dash or underscore is an underscore. */
void file_name(char *out, size_t cap, const char *name);
/* tensors[k] = the set's inputs, in the model's order. */
void set_inputs(const DataSet *set, TgTensor *tensors);
#endif
