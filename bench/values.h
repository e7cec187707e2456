/* Elements of any type as numbers, and text of tensors. */
#ifndef TG_VALUES_H
#define TG_VALUES_H
#include <stdbool.h>
#include <stdio.h>
#include "tgrun.h"

int64_t tensor_numel(const TgTensor *t);
bool ends_with(const char *s, const char *end);
bool type_is_float(TgType t);                       /* f16, bf16, f32, f64 */
bool type_is_integer(TgType t);                     /* bool too */
TgType type_named(const char *name, size_t len);    /* "f32"; 0 when there is none */
double value_get(TgType t, const void *data, int64_t i);
int64_t value_get_int(TgType t, const void *data,
                      int64_t i); /* integers, exactly (u64 by its bits); a float of 4 bits by its code */
void value_put(TgType t, void *data, int64_t i, double v);          /* rounds to nearest, clamps integers */
void value_put_int(TgType t, void *data, int64_t i, int64_t v);
static inline bool holds_tensors(const TgTensor *t) { return t->type >= TG_SEQUENCE; }
/* Makes a zeroed tensor; false when there is no memory or the size overflows. Freed by tg_tensor_free. */
bool tensor_new(TgTensor *out, TgType type, const int64_t *shape, int32_t rank);
bool tensor_copy(TgTensor *out, const TgTensor *t); /* with strings and what it holds; false when there is no memory */
void tensor_title(const TgTensor *t, char *out, size_t cap);        /* f32[1,3,224,224]; seq[2](f32[5],f32[7]) */
void tensor_print(FILE *f, const char *name, const TgTensor *t); /* numpy-like text, the middle of long ones left out */
#endif
