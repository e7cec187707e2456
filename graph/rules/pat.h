/* The vocabulary in which rule files write their rows: variables, small values and P(OP, sources...). Rule files only.
 */
#ifndef TG_PAT_H
#define TG_PAT_H
#include "graph/rewrite.h"

typedef const Pat Var[1];                   /* an array, so that its name is a constant address */
#define TG_VAR __attribute__((unused)) static Var

enum { X, Y, Z, W, C, D, SLOT_P, SLOT_Q };  /* slots, for only_if and make: m->slot[X] */
TG_VAR x = {{ .kind = PAT_ANY, .slot = X }};
TG_VAR y = {{ .kind = PAT_ANY, .slot = Y }};
TG_VAR z = {{ .kind = PAT_ANY, .slot = Z }};
TG_VAR w = {{ .kind = PAT_ANY, .slot = W }};
TG_VAR p = {{ .kind = PAT_ANY, .slot = SLOT_P }};
TG_VAR q = {{ .kind = PAT_ANY, .slot = SLOT_Q }};
TG_VAR c = {{ .kind = PAT_CONST, .slot = C }};
TG_VAR d = {{ .kind = PAT_CONST, .slot = D }};
TG_VAR zero = {{ .kind = PAT_VALUE, .value = 0 }};
TG_VAR one = {{ .kind = PAT_VALUE, .value = 1 }};
TG_VAR minus_one = {{ .kind = PAT_VALUE, .value = -1 }};
TG_VAR yes = {{ .kind = PAT_VALUE, .value = 1 }};      /* bool */
TG_VAR no = {{ .kind = PAT_VALUE, .value = 0 }};

#define P(o, ...) &(const Pat){ .kind = PAT_OP, .op = UOP_##o, .src = { __VA_ARGS__ } }
#define P_MORE(o, ...) \
    &(const Pat) \
    { \
        .kind = PAT_OP, .op = UOP_##o, .any_more = true, .src = { __VA_ARGS__ } \
    } /* and any further sources */

#define RULES(id) { #id, id, sizeof id / sizeof *id }   /* a RuleTable's initialiser */

__attribute__((unused)) static bool is_int(const Match *m) { return dtype_is_int((DType)m->root->dtype); }
__attribute__((unused)) static bool is_bool(const Match *m) { return m->root->dtype == DT_BOOL; }
__attribute__((unused)) static bool is_index(const Match *m) { return m->root->dtype == DT_INDEX; }
__attribute__((unused)) static bool is_float(const Match *m) { return dtype_is_float((DType)m->root->dtype); }
__attribute__((unused)) static bool not_float(const Match *m) { return !dtype_is_float((DType)m->root->dtype); }
#endif
