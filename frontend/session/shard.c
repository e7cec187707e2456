#include "frontend/session/shard.h"

#include <stdlib.h>
#include <string.h>

#include "frontend/import/import.h"
#include "graph/blocks.h"
#include "graph/custom.h"
#include "graph/devices.h"

static const char *const way_name[SHARD_WAYS] = { "auto", "batch", "weights", "model" };

TgStatus shard_devices(const char *device, size_t *name_len, int32_t *first, int32_t *last)
{
    *name_len = strcspn(device, ":");
    *first = *last = 0;
    if (!device[*name_len]) return TG_OK;
    char *end;
    const char *at = device + *name_len + 1;
    long from = strtol(at, &end, 10), to = from;
    bool good = end != at && from >= 0 && from <= 1023;
    if (good && *end == '-') {
        at = end + 1;
        to = strtol(at, &end, 10);
        good = end != at && to >= from && to <= 1023;
    }
    *first = (int32_t)from, *last = (int32_t)to;
    return good && !*end
        ? TG_OK
        : fail(TG_DEVICE, "device '%s': the number is wrong; NAME:N or NAME:FIRST-LAST is wanted", device);
}

TgStatus shard_of(Shard *s, const TgOptions *o, int32_t devices)
{
    *s = (Shard){ .devices = devices };
    if (devices > DEVICES_MAX) return fail(TG_DEVICE, "device '%s': at most %d together", o->device, DEVICES_MAX);
    if (!o->shard) return TG_OK;
    while (s->way < SHARD_WAYS && strcmp(o->shard, way_name[s->way])) s->way++;
    if (s->way == SHARD_WAYS)
        return fail(TG_USAGE, "shard '%s' is not known; auto, batch, weights and model are", o->shard);
    return devices > 1
        ? TG_OK
        : fail(TG_USAGE, "shard: device '%s' is one; cpu:0-1 is two, among which a model is divided", o->device);
}

/* What the graph reads of the model's inputs. */
static uint32_t inputs_of(Graph *g, const UOp *sink, Arena *a, const UOp **out)
{
    uint32_t count, n = 0;
    const UOp **u = graph_outer(g, sink, a, &count);
    for (uint32_t k = 0; k < count; k++)
        if (u[k]->op == UOP_PARAM) out[n++] = u[k];
    return n;
}

/* The size that a batch has: axis 0 of the first input that can be divided; 0: none can. */
static int64_t batch_size(const UOp *const *input, uint32_t n, int32_t devices)
{
    for (uint32_t k = 0; k < n; k++)
        if (uop_rank(input[k]) && uop_size(input[k], 0) > 1 && uop_size(input[k], 0) % devices == 0)
            return uop_size(input[k], 0);
    return 0;
}

static TgStatus no_batch(const UOp *const *input, uint32_t n, const Model *m, int32_t devices)
{
    if (!n) return fail(TG_BAD_INPUT, "shard: the model reads no input that could be divided");
    uint64_t first = (uint64_t)input[0]->arg.i;
    return fail(TG_BAD_INPUT, "shard: axis 0 of input '%s' is %lld, which cannot be divided among %d devices",
                first < m->graph.ninput ? m->graph.input[first].name : "",
                uop_rank(input[0]) ? (long long)uop_size(input[0], 0) : 1LL, devices);
}

TgStatus shard_model(Shard *s, Model *m)
{
    m->devices = 0;
    if (s->devices < 2 || (s->way != SHARD_AUTO && s->way != SHARD_MODEL)) return TG_OK;
    if (sharding_configuration(m, s->devices)) {
        s->way = SHARD_MODEL;
        m->devices = s->devices;
        return TG_OK;
    }
    return s->way == SHARD_AUTO ? TG_OK
                                : fail(TG_USAGE, "shard: the model has no configuration of %d devices", s->devices);
}

/* Axis 0 of inputs that have the batch, and all of the others, to the devices; `to` takes their place. */
static TgStatus place_inputs(const Shard *s, const Model *m, Graph *g, Devices d, const UOp *const *input, uint32_t n,
                             const UOp **to, bool *batch)
{
    for (uint32_t k = 0; k < n; k++)
        if (uop_rank(input[k]) && !uop_is_const(uop_dim(input[k], 0)) && s->way != SHARD_WEIGHTS)
            return fail(TG_UNSUPPORTED, "shard: a batch whose size varies is not divided");
    int64_t size = s->way == SHARD_WEIGHTS ? 0 : batch_size(input, n, s->devices);
    if (s->way == SHARD_BATCH && !size) return no_batch(input, n, m, s->devices);
    for (uint32_t k = 0; k < n; k++)
        to[k] = size && uop_rank(input[k]) && uop_size(input[k], 0) == size ? copy_to_all(g, input[k], d)
                                                                            : broadcast_to(g, input[k], d);
    *batch = size != 0;
    return TG_OK;
}

TgStatus shard_split(const Shard *s, const Model *m, Imported *im, bool inputs)
{
    Graph *g = im->g;
    Arena *a = arena_new();
    Devices d = first_devices((uint32_t)s->devices);
    const UOp **input = NEW_N(a, const UOp *, graph_count(g)), **to = NEW_N(a, const UOp *, graph_count(g)),
              **value = NEW_N(a, const UOp *, im->sink->nsrc + 1), *sink = im->sink;
    uint32_t n = inputs_of(g, sink, a, input), nvalue = sink_values(sink);
    bool batch = true;
    TgStatus status = TG_OK;
    if (inputs && s->way != SHARD_MODEL) {
        status = place_inputs(s, m, g, d, input, n, to, &batch);
        if (status == TG_OK) sink = uop_substitute(g, sink, input, to, n);
    }
    if (status == TG_OK) status = devices_split(g, sink->src, nvalue, &(SplitBy){ d, !batch }, value);
    if (status == TG_OK) im->sink = sink_of(g, value, nvalue);
    arena_free(a);
    return status == TG_OK ? graph_error(g) : status;
}
