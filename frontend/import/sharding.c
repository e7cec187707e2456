/* The standard's shardings: what a node's device_configurations say of a tensor becomes a COPY around it, to the whole
 * tuple of devices or to one (graph/devices.h), which the session splits when all is imported. */
#include <string.h>

#include "frontend/import/import.h"
#include "graph/devices.h"

const ConfigurationDef *sharding_configuration(const Model *m, int32_t devices)
{
    for (uint32_t k = 0; k < m->nconfiguration; k++)
        if (m->configuration[k].devices == devices) return &m->configuration[k];
    return NULL;
}

/* Are they 0, 1 .. n - 1? */
static bool all_devices(const ShardingDef *s, uint32_t n)
{
    bool all = s->ndevice == n;
    for (uint32_t k = 0; k < n && all; k++) all = s->device[k] == k;
    return all;
}

static U along_axis(Graph *g, U x, int64_t axis, Devices d)
{
    int64_t there[RANK_MAX], back[RANK_MAX];
    uint32_t rank = uop_rank(x);
    there[0] = axis;
    for (uint32_t k = 1; k < rank; k++) there[k] = k - (k <= axis);
    for (uint32_t k = 0; k < rank; k++) back[there[k]] = k;
    return permute(g, copy_to_all(g, permute(g, x, there, rank), d), back, rank);
}

static TgStatus place(Import *im, const Node *n, const ShardingDef *s, U *value)
{
    Graph *g = im->run->g;
    int64_t axis = s->naxis ? s->axis[0].axis : 0;
    uint32_t devices = (uint32_t)im->run->model->devices, rank = uop_rank(*value);
    Devices d = first_devices(devices);
    if ((*value)->op == UOP_TUPLE || (*value)->dtype == DT_VOID)
        return fail_at(TG_UNSUPPORTED, node_label(n), n->op, "sharding_spec", "'%s' is no tensor", s->tensor);
    if (s->naxis && (axis < -(int64_t)rank || axis >= rank))
        return fail_at(TG_BAD_MODEL, node_label(n), n->op, "sharding_spec", "'%s': axis %lld of rank %u", s->tensor,
                       (long long)axis, rank);
    if (s->groups || s->naxis > 1 || (!all_devices(s, devices) && s->ndevice > 1))
        return fail_at(TG_UNSUPPORTED, node_label(n), n->op, "sharding_spec",
                       "'%s': groups of devices, several sharded axes, or some of the devices", s->tensor);
    if (axis < 0) axis += rank;
    if (s->naxis && uop_static(*value) && uop_size(*value, (uint32_t)axis) % devices)
        return fail_at(TG_UNSUPPORTED, node_label(n), n->op, "sharding_spec",
                       "'%s': axis %lld of %lld elements cannot be divided among %u devices", s->tensor,
                       (long long)axis, (long long)uop_size(*value, (uint32_t)axis), devices);
    *value = s->naxis        ? along_axis(g, *value, axis, d)
        : s->ndevice == 1    ? copy_to(g, *value, s->device[0])
                             : broadcast_to(g, *value, d);
    return graph_error(g);
}

TgStatus sharding_apply(Import *im, const Node *n, const char *tensor, U *value)
{
    const Model *m = im->run->model;
    const ConfigurationDef *c = m->devices ? sharding_configuration(m, m->devices) : NULL;
    for (uint32_t k = 0; c && *value && k < n->nsharding; k++) {
        const ShardingDef *s = &n->sharding[k];
        if (strcmp(s->tensor, tensor) != 0 || strcmp(s->configuration, c->name) != 0) continue;
        if (im->up || im->run->depth)
            return fail_at(TG_UNSUPPORTED, node_label(n), n->op, "sharding_spec", "'%s' inside of a body or a function",
                           tensor);
        return place(im, n, s, value);
    }
    return TG_OK;
}
