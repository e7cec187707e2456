/* The steps of loading a model, in order: wire.h, model_build (model.c), which asks names_check for every body, and
 * calls_check. load.c calls them. */
#ifndef TG_LOADER_H
#define TG_LOADER_H
#include "onnx/tensor.h"

/* ModelProto -> Model. scratch: what is needed only while loading. */
TgStatus model_build(Model *m, const Onnx__ModelProto *p, const TensorSource *source, Arena *scratch);

/* data.c: what is given in place of the file's own data becomes files that lie in memory; this one is an initializer's.
 * Afterwards: of the types and shapes of the model, and all of it was read. */
TgStatus model_data_give(Files *files, Arena *arena, const ModelData *data);
const char *model_data_name(Arena *arena, const char *initializer);
TgStatus model_data_check(const Model *m, const Files *files, Arena *scratch, const ModelData *data);

/* sharding.c: before nodes, and of each */
TgStatus configurations_build(Model *m, const Onnx__ModelProto *p);
TgStatus shardings_build(const Model *m, Node *n, const Onnx__NodeProto *p);

/* Names that a body takes from around it, each with a node that reads it (NULL: an output does). */
typedef struct { const char *name; const Node *reader; } Want;
typedef struct { Want *v; uint32_t n, cap; } Wants;

/* A graph, subgraph or function body. captured[k]: what the subgraphs of node[k] take from around them. */
typedef struct {
    Node *node;
    Wants *captured;
    const char *const *input, *const *init, *const *output;
    uint32_t nnode, ninput, ninit, noutput;
    const char *where;      /* "graph" or "function 'f'", for messages */
} Body;

/* Every name has one maker; nodes are put behind those that they read. wants: gets what nobody in the body makes. */
TgStatus names_check(Body *b, Wants *wants, Arena *scratch);
TgStatus names_refuse(const Body *b, const Wants *wants);       /* wants of a body that has nothing around it */

/* Operators' domains are imported; functions do not call themselves, and their bodies, put in place of every call, stay
 * below a million nodes. */
TgStatus calls_check(const Model *m, Arena *scratch);
#endif
