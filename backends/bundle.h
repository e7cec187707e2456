/* A compiled model's file: named pieces of bytes, mapped where they are read. It holds machine code: as trustworthy as
 * a program. Written beside its place and renamed, so that a file is there whole or not at all. */
#ifndef TG_BUNDLE_H
#define TG_BUNDLE_H
#include <stdbool.h>
#include <stddef.h>
#include "graph/base/status.h"

typedef struct Bundle Bundle;
typedef struct { const void *data; size_t size; } Piece;

bool bundle_is(const char *path);           /* does a file begin as one? */
/* The table of its pieces is checked; TG_BAD_MODEL. */
TgStatus bundle_open(Bundle **out, const char *path);
void bundle_close(Bundle *b);
/* A piece, aligned to a page, valid until bundle_close. TG_BAD_MODEL: there is none, or its bytes are not those that
 * were written (those of more than 16 MiB are not looked at). */
TgStatus bundle_get(const Bundle *b, Piece *out, const char *name);
bool bundle_has(const Bundle *b, const char *name);
/* the name of the k-th piece whose name begins so, without that beginning; NULL: there are fewer */
const char *bundle_name(const Bundle *b, const char *prefix, size_t k);
/* A private copy of a piece that may be written to, whose pages are the file's until then; freed by munmap of its size.
 * NULL: there is no such piece, or no memory. */
void *bundle_map(const Bundle *b, const char *name, size_t *size_bytes);

typedef struct BundleWriter BundleWriter;
TgStatus bundle_begin(BundleWriter **out, const char *path);
TgStatus bundle_put(BundleWriter *w, const char *name, const void *data, size_t size_bytes);
/* status: of what was put; the file appears if that and the writing are TG_OK. Frees the writer. */
TgStatus bundle_end(BundleWriter *w, TgStatus status);
#endif
