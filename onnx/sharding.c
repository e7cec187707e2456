/* device_configurations of nodes and configuration of the model: how tensors are spread over devices. In: their
 * messages. Out: plain structs, in which every tensor is one of the node's, every configuration one of the model's, and
 * its devices are there. Whether a spread can be done is for the import to say. */
#include <string.h>

#include "onnx/loader.h"

static const char *text(const char *s) { return s ? s : ""; }

static const ConfigurationDef *configuration(const Model *m, const char *name)
{
    for (uint32_t k = 0; k < m->nconfiguration; k++)
        if (!strcmp(m->configuration[k].name, name)) return &m->configuration[k];
    return NULL;
}

TgStatus configurations_build(Model *m, const Onnx__ModelProto *p)
{
    ConfigurationDef *c = NEW_N(m->arena, ConfigurationDef, p->n_configuration);
    m->configuration = c;
    for (size_t k = 0; k < p->n_configuration; k++) {
        const Onnx__DeviceConfigurationProto *q = p->configuration[k];
        if (configuration(m, text(q->name)))
            return fail_at(TG_BAD_MODEL, NULL, NULL, "configuration", "'%s' is given twice", text(q->name));
        if (q->num_devices < 1 || (q->n_device && q->n_device != (size_t)q->num_devices))
            return fail_at(TG_BAD_MODEL, NULL, NULL, "configuration", "'%s' has %d devices and names %zu",
                           text(q->name), (int)q->num_devices, q->n_device);
        c[m->nconfiguration++] = (ConfigurationDef){ text(q->name), q->num_devices };
    }
    return TG_OK;
}

static bool has_tensor(const Node *n, const char *name)
{
    bool found = false;
    for (uint32_t k = 0; k < n->nin && !found; k++) found = !strcmp(n->in[k], name);
    for (uint32_t k = 0; k < n->nout && !found; k++) found = !strcmp(n->out[k], name);
    return found && *name;
}

static TgStatus build_sharding(Arena *a, const Node *n, const ConfigurationDef *c, const Onnx__ShardingSpecProto *p,
                               ShardingDef *out)
{
    uint32_t most = 0, parts = 1;
    const char *tensor = text(p->tensor_name);
    for (size_t k = 0; k < p->n_sharded_dim; k++) most += (uint32_t)p->sharded_dim[k]->n_simple_sharding;
    ShardedAxis *axis = NEW_N(a, ShardedAxis, most + 1);
    *out = (ShardingDef){ c->name, tensor, (uint32_t)p->n_device, 0, p->device, axis,
                          p->n_index_to_device_group_map > 0 };
    if (!has_tensor(n, tensor))
        return fail_at(TG_BAD_MODEL, n->name, n->op, "sharding_spec", "'%s' is no tensor of the node", tensor);
    if (!p->n_device) return fail_at(TG_BAD_MODEL, n->name, n->op, "sharding_spec", "'%s' has no devices", tensor);
    for (size_t k = 0; k < p->n_device && !out->groups; k++)
        if (p->device[k] < 0 || p->device[k] >= c->devices)
            return fail_at(TG_BAD_MODEL, n->name, n->op, "sharding_spec", "'%s': device %lld of %d", tensor,
                           (long long)p->device[k], c->devices);
    for (size_t k = 0; k < p->n_sharded_dim; k++)
        for (size_t i = 0; i < p->sharded_dim[k]->n_simple_sharding; i++) {
            int64_t shards = p->sharded_dim[k]->simple_sharding[i]->num_shards;
            if (shards < 1 || shards > 1024)
                return fail_at(TG_BAD_MODEL, n->name, n->op, "sharding_spec", "'%s': %lld shards", tensor,
                               (long long)shards);
            if (shards > 1) axis[out->naxis++] = (ShardedAxis){ p->sharded_dim[k]->axis, shards };
            parts *= (uint32_t)shards;
        }
    if (parts > 1 && parts != out->ndevice)
        return fail_at(TG_BAD_MODEL, n->name, n->op, "sharding_spec", "'%s': %u shards on %u devices", tensor, parts,
                       out->ndevice);
    return TG_OK;
}

TgStatus shardings_build(const Model *m, Node *n, const Onnx__NodeProto *p)
{
    size_t most = 0;
    for (size_t k = 0; k < p->n_device_configurations; k++) most += p->device_configurations[k]->n_sharding_spec;
    ShardingDef *s = most ? NEW_N(m->arena, ShardingDef, most) : NULL;
    n->sharding = s;
    for (size_t k = 0; k < p->n_device_configurations; k++) {
        const Onnx__NodeDeviceConfigurationProto *q = p->device_configurations[k];
        const ConfigurationDef *c = configuration(m, text(q->configuration_id));
        if (!c)
            return fail_at(TG_BAD_MODEL, n->name, n->op, "device_configurations", "the model has no configuration '%s'",
                           text(q->configuration_id));
        for (size_t i = 0; i < q->n_sharding_spec; i++)
            TRY(build_sharding(m->arena, n, c, q->sharding_spec[i], &s[n->nsharding++]));
    }
    return TG_OK;
}
