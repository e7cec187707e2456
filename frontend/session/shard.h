/* TgOptions.device of several devices ("cpu:0-3") and TgOptions.shard: a model's graph becomes one a device
 * (graph/devices.h), by samples or by parts of its weights. */
#ifndef TG_SHARD_H
#define TG_SHARD_H
#include "frontend/frontend.h"
#include "onnx/model.h"

/* MODEL: as its own configuration of so many devices says */
typedef enum { SHARD_AUTO, SHARD_BATCH, SHARD_WEIGHTS, SHARD_MODEL, SHARD_WAYS } ShardWay;
typedef struct Shard { int32_t devices; ShardWay way; } Shard;

/* Of options: the name of the device, up to the colon, and the numbers of the first and last behind it, 0 where there
 * are none. TG_DEVICE: they are not numbers, or not in order. */
TgStatus shard_devices(const char *device, size_t *name_len, int32_t *first, int32_t *last);
/* s->devices: how many the session has. TG_USAGE: a way that is not known, or of a single device. */
TgStatus shard_of(Shard *s, const TgOptions *o, int32_t devices);
/* The model's own configuration, where it has one of so many devices, is what `auto` takes: then imports obey it. */
TgStatus shard_model(Shard *s, Model *m);
/* The import of a model for one device becomes one for all of s; `m` names its inputs. inputs: they are divided, too,
 * as s says. TG_UNSUPPORTED: the size of a batch varies. TG_BAD_INPUT: there is nothing that can be divided so. */
TgStatus shard_split(const Shard *s, const Model *m, Imported *im, bool inputs);
#endif
