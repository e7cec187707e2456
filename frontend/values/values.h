/* Values between a graph and a run inside of its import (iterations.h): what is known of them leaves as tensors of
 * tgrun.h, and results come back as constants. */
#ifndef TG_VALUES_H
#define TG_VALUES_H
#include "frontend/import/import.h"
#include "frontend/values/ports.h"

/* A known value, in a's memory; false: it is none yet, and where it can be requested, it is. */
bool value_of(Import *im, U x, Arena *a, TgTensor *t);
U value_constant(const Run *run, const TgTensor *t);
void value_copy(Arena *a, TgTensor *to, const TgTensor *from);      /* all of it */
/* Between a sequence of tensors of one form and the rows of one tensor; false: they are of several, or of less than a
 * byte an element. */
bool value_stack(Arena *a, TgTensor *rows, const TgTensor *sequence);
void value_apart(Arena *a, TgTensor *sequence, const TgTensor *rows);
/* Elements of less than a byte, one byte each while slices and rows are cut and joined; others stay as they are. */
void value_loosen(Arena *a, TgTensor *t);
void value_pack(TgTensor *t);
/* without that axis, loose as well */
void value_slice(Arena *a, TgTensor *to, const TgTensor *loose, int64_t axis, int64_t at);
#endif
