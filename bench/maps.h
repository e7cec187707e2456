/* Maps as JSON files: {"name": .., "value": [[key, value], ..]} is one, {"name": .., "value": [[[key, value], ..], ..]}
 * a sequence of maps that share their keys. */
#ifndef TG_MAPS_H
#define TG_MAPS_H
#include "tgrun.h"

TgStatus map_read(TgTensor *out, const char *path, const TgPort *port);        /* errors are said */
TgStatus map_write(const TgTensor *map, const char *name, const char *path);
#endif
