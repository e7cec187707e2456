/* Tensor files: npy, npz, pb (TensorProto, and what holds tensors). Trusts none of them. Errors lack the file's name:
 * tg_tensor_read and tg_tensor_write put it there. */
#ifndef TG_NPY_H
#define TG_NPY_H
#include <stdbool.h>

#include "graph/base/status.h"

bool tensor_same(const TgTensor *a, const TgTensor *b);         /* type, shape and elements, strings by their text */

/* Data are malloc'ed. want: the type that the reader expects, or 0; it decides only what a file cannot say: npy has no
 * bf16, f8 (held as u16 or u8 of the same bits) and no 6-, 4- and 2-bit types (held as a byte each). Whether the type
 * fits is the caller's question. */
TgStatus npy_read_bytes(TgTensor *out, const void *data, size_t size, TgType want);
/* takes fd; key NULL: the only member */
TgStatus npz_read_fd(TgTensor *out, int fd, const char *key, TgType want);
/* want: TG_SEQUENCE, TG_OPTIONAL, TG_MAP, else a tensor */
TgStatus pb_read_bytes(TgTensor *out, const void *data, size_t size, TgType want);

/* The header of an npy file for t: header[NPY_HEADER] is filled, its size returned; 0 for strings. Narrow elements must
 * be unpacked: npy_elements. */
enum { NPY_HEADER = 704 };
size_t npy_header(char *header, const TgTensor *t);
/* NULL: no memory; *owned is to be freed */
const void *npy_elements(const TgTensor *t, void **owned, size_t *size);

/* All write a temporary file beside path and rename it, so that path never holds a part. npz adds to an archive that is
 * there, or replaces the member of that name. */
TgStatus npy_write_file(const TgTensor *t, const char *path);
TgStatus npz_write_file(const TgTensor *t, const char *name, const char *path);
TgStatus pb_write_file(const TgTensor *t, const char *name, const char *path);
#endif
