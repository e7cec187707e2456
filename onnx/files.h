/* The files behind one model: itself and those that it names. Every byte of them is mapped, never read past its end,
 * and given back at once by files_free. */
#ifndef TG_FILES_H
#define TG_FILES_H
#include <stdbool.h>
#include "onnx/wire.h"

typedef struct Files Files;

/* path: the user's own word, so links are followed. out_bytes: the mapped file. Refused: what is no regular file, is
 * empty, or has 2 GiB or more. */
TgStatus files_open(Files **out, Bytes *out_bytes, Arena *arena, const char *path);
/* For a model from memory. folder NULL: it may name no files. */
TgStatus files_open_memory(Files **out, Arena *arena, const char *folder);
/* For what lies in memory whole: a model's external files, whose bytes outlive this. digest: of the model. */
typedef struct { const char *name; Bytes bytes; } NamedBytes;
TgStatus files_open_all(Files **out, Arena *arena, const NamedBytes *file, uint32_t n, const char *digest);
/* The file of this name is these bytes, which are somebody's who outlives this; false: there is one of this name. A
 * name that begins with / is no file's: what is given under it waits for files_find, which reads what is known. */
bool files_give(Files *f, const char *name, Bytes bytes);
bool files_find(Files *f, const char *name, Bytes *out);
bool files_read(const Files *f, const char *name);      /* has anybody read it? */
/* the k-th that was read, in whatever order they were given, so that it is one with the digest; "" is the model itself;
 * false: there are fewer */
bool files_at(const Files *f, uint32_t k, NamedBytes *out);
void files_free(Files *f);
void files_undo(void *files);           /* the same (undo_push) */

/* Maps a file that the model names. The one door: `name` must lead, without links, to a regular file in or below the
 * model's folder. What it said is in the error. `field`: who asks. */
TgStatus files_map(Bytes *out, Files *f, const char *name, const char *field);

/* Memory that lives as long as the files; 64-byte aligned, not zeroed. */
void *files_block(Files *f, size_t size);
/* These bytes will not be read soon: their pages need not stay in memory. Only mapped bytes are affected. */
void files_forget(const Files *f, Bytes bytes);
void files_forget_all(const Files *f);
/* The digest over the model and, in the order of reading, the external bytes that it uses. */
void files_digest(Files *f, Bytes bytes);
void files_digest_hex(const Files *f, char hex[33]);
#endif
