/* A file that appears whole or not at all. */
#ifndef TG_SAVE_H
#define TG_SAVE_H
#include <stddef.h>

#include "graph/base/status.h"

typedef struct { int fd, error; char *temp; const char *path; } Save;

TgStatus save_begin(Save *s, const char *path);
void save_write(Save *s, const void *data, size_t size);        /* a failure is remembered */
/* flushes and renames, or removes what was written and says why */
TgStatus save_end(Save *s);
#endif
