/* Part of a model as a model of its own. */
#ifndef TG_EXTRACT_H
#define TG_EXTRACT_H
#include "graph/base/status.h"

/* See tg_extract in tgrun.h. Errors are one line without the file's name. */
TgStatus extract(const char *model, const TgExtract *want, const char *path);
#endif
