/* Strings of npy files. A tensor's strings are one malloc'ed block: pointers, then their bytes. */
#ifndef TG_NPY_TEXT_H
#define TG_NPY_TEXT_H
#include <stdbool.h>
#include "graph/base/status.h"

size_t npy_text_width(const TgTensor *t);                       /* characters of the longest, 1 at least */
void *npy_text_elements(const TgTensor *t, size_t *size);       /* UTF-32, malloc'ed; NULL: no memory */
/* Sets data and size of t from numel strings of `bytes` each; wide: UTF-32 in this machine's order, else bytes. */
TgStatus npy_text_read(TgTensor *t, const uint8_t *from, int32_t bytes, int64_t numel, bool wide);
#endif
