/* Tensor files: npy, npz, TensorProto (pb), raw. Trusts none of them. */
#ifndef TG_NPY_H
#define TG_NPY_H
#include "graph/base/status.h"

TgStatus npy_read_bytes(TgTensor *out, const void *data, size_t size);                      /* data malloc'ed; strings are refused */
TgStatus npy_write_file(const TgTensor *t, const char *path);                               /* temporary file, then rename; bf16 as uint16 with a note in the docstring of cli */
TgStatus npz_read(TgTensor *out, const char *path, const char *key);                        /* key NULL: the only member */
TgStatus pb_read_bytes(TgTensor *out, const void *data, size_t size);
TgStatus pb_write_file(const TgTensor *t, const char *name, const char *path);
#endif
