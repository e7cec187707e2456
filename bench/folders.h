/* Folders as inputs: each file is a data set of its own. */
#ifndef TG_FOLDERS_H
#define TG_FOLDERS_H
#include "bench/inputs.h"

enum { FOLDERS_MAX = 8, SPEC_BYTES = 4096 };
typedef struct {
    uint32_t count; /* data sets; 0: no folder is given */
    struct {
        uint32_t option;
        size_t from, to;
        char **file;
    } list[FOLDERS_MAX]; /* of -i number `option`: the folder's place */
    uint32_t lists; /* in its text, and the files by name */
} Folders;

/* The folders among -i: image:DIR[,..], audio:DIR[,..], text(..):@DIR, or DIR with tensor files; several have equally
 * many files, which go together in the order of their names. Errors are said. */
TgStatus folders_list(Folders *out, const Args *a);
void folders_free(Folders *f);
/* The options of data set k: each folder replaced by its k-th file; text holds what is new. */
void folders_args(const Folders *f, uint32_t k, Args *one, char (*text)[SPEC_BYTES]);
const char *folders_name(const Folders *f, uint32_t k); /* the first folder's k-th file */
/* What reads such a file, by its suffix: "image:", "audio:" or "". */
const char *reader_of(const char *file);
#endif
