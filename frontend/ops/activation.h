/* Activations that attributes name: of recurrent cells, and of products and convolutions that onnxruntime's optimizer
 * joins with what follows. */
#ifndef TG_ACTIVATION_H
#define TG_ACTIVATION_H
#include "frontend/frontend.h"

typedef enum {
    ACT_SIGMOID,
    ACT_TANH,
    ACT_RELU,
    ACT_AFFINE,
    ACT_LEAKY_RELU,
    ACT_THRESHOLDED_RELU,
    ACT_SCALED_TANH,
    ACT_HARD_SIGMOID,
    ACT_ELU,
    ACT_SOFTSIGN,
    ACT_SOFTPLUS,
    ACT_CLIP,
    ACT_COUNT,
    ACT_CELLS = ACT_CLIP
} ActKind;
typedef struct { ActKind kind; double a, b; } Act;      /* with its parameters, as far as it has them */

Act act_of(ActKind kind);                               /* with those that it has unless others are given */
static inline bool act_same(Act a, Act b) { return a.kind == b.kind && a.a == b.a && a.b == b.b; }
int act_takes(ActKind kind);                            /* how many parameters: 0 to 2 */
/* Of that name, upper case or not, one of the first `kinds`; else an error that names the field. */
bool act_named(Graph *g, const Ctx *c, const char *field, const char *name, ActKind kinds, Act *out);
U act_apply(Graph *g, Act f, U x);                      /* x: floats */
U gelu(Graph *g, U x);                                  /* by erf */
U gelu_tanh(Graph *g, U x);
#endif
