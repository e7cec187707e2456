/* Outputs that are sequences of maps: a tensor with a row a map, keys beside it; as files {"name": .., "value": [[[key, number], ..], ..]}. */
#ifndef TG_MAPS_H
#define TG_MAPS_H
#include <stdbool.h>
#include "tgrun.h"

bool output_is_map(const TgSession *s, int32_t index);
TgStatus map_read(TgTensor *out, const char *path);             /* the numbers, a row a map; errors are said */
TgStatus map_write(const TgSession *s, int32_t index, const char *name, const TgTensor *t, const char *path);
#endif
