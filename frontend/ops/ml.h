/* What the ai.onnx.ml importers share: rows, scores, labels. */
#ifndef TG_ML_H
#define TG_ML_H
#include "frontend/values/text.h"

U ml_floats(Graph *g, const float *v, uint32_t n);
U ml_ints(Graph *g, const int64_t *v, int64_t n);
/* input i as [n, features] in f32 (f64 stays); [features] counts as one row */
U ml_rows(Graph *g, const Ctx *c, uint32_t i);

/* numbered as TreeEnsemble does */
typedef enum { POST_NONE, POST_SOFTMAX, POST_LOGISTIC, POST_SOFTMAX_ZERO, POST_PROBIT, POST_COUNT } Post;
bool ml_read_post(Graph *g, const Ctx *c, Post *out);                   /* post_transform by name */
U ml_post(Graph *g, U x, Post p);
/* two classes from one score: the second is the score (or its probability), the first what is left */
U ml_two_columns(Graph *g, U x, Post p, bool centred);

/* the class labels: attribute `name`, or numbers of classlabels_strings */
U ml_labels(Graph *g, const Ctx *c, const char *name, uint32_t *n, bool *text);
U ml_labels_at(Graph *g, U labels, U at, bool text);
#endif
