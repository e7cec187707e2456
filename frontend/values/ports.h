/* Values at a model's border. A sequence, an optional or a map holds TgTensors (tgrun.h); the graph knows only the
 * tensors inside, its parts, numbered depth first. */
#ifndef TG_PORTS_H
#define TG_PORTS_H
#include <stdbool.h>

#include "graph/base/arena.h"
#include "onnx/model.h"

static inline bool holds_tensors(const TgTensor *t) { return t->type >= TG_SEQUENCE; }
/* makes *out a holder of n empty tensors, which are returned */
TgTensor *hold(Arena *a, TgTensor *out, TgType type, uint32_t n);

enum { SEQUENCE_MAX = 1 << 16 };
bool port_covered(const ValueDef *d);                                      /* as an input */
TgStatus port_check(const ValueDef *d, const TgTensor *t);                 /* does an input fit its declaration? */
/* Outputs of bodies (VALUE_ROWS) too: a sequence as the rows of its one tensor, which its rank tells. */
enum { ROWS_RANK = 2 };
/* The tensors inside n values; part NULL: counts only. */
uint32_t port_parts(const TgTensor **part, const TgTensor *value, uint32_t n);
bool port_has_data(const TgTensor *value, int64_t n);                      /* all of them */
/* types, shapes and what holds them, without elements */
TgTensor *port_copy(Arena *a, const TgTensor *value, uint32_t n);
/* the same form; and, where mine has elements, the same elements */
bool port_same(const TgTensor *mine, const TgTensor *t);
int64_t tensor_count(const TgTensor *t);                                   /* its elements */
#endif
