/* The model as plain structs in one arena: what the rest of the program sees of ONNX files. Nobody outside onnx/ knows
 * protobuf. */
#ifndef TG_MODEL_H
#define TG_MODEL_H
#include <stdbool.h>
#include "graph/base/arena.h"
#include "graph/base/status.h"

typedef struct GraphDef GraphDef;

/* A tensor of the file: data point into the file's bytes or a mapped external file where alignment and type allow, else
 * into the arena. Elements are little endian, one element a storage unit of its type (4- and 2-bit types as packed
 * bytes). Strings: data is an array of TensorString. */
typedef struct { const char *s; size_t len; } TensorString;
typedef struct {
    const char *name;
    int32_t type;                   /* TensorProto.DataType */
    uint32_t rank;
    const int64_t *shape;
    int64_t numel;
    const void *data;
    size_t size_bytes;
} TensorDef;

/* ANY, ROWS: of loops' bodies alone (frontend/control/iterations.h), the second a sequence, which may come as one
 * tensor. */
typedef enum {
    VALUE_TENSOR,
    VALUE_SEQUENCE,
    VALUE_OPTIONAL,
    VALUE_MAP,
    VALUE_UNKNOWN,
    VALUE_ANY,
    VALUE_ROWS
} ValueKind;
typedef struct { int64_t size; const char *symbol; } DimDef;      /* size -1: free */
/* inside: what a sequence or an optional holds, or a map's values, at most VALUE_DEPTH of them; their type and dim are
 * given outside too. type 0: unknown; rank -1: not declared. */
enum { VALUE_DEPTH = 4 };
/* key: type of a map's keys; denotation: [rank] what axes mean, "DATA_BATCH", or "" (NULL: nothing is said); sparse: a
 * tensor that the model says is one, here dense */
typedef struct ValueDef {
    const char *name;
    ValueKind kind;
    int32_t type, key, rank;
    const DimDef *dim;
    const struct ValueDef *inside;
    const char *const *denotation;
    bool sparse;
} ValueDef;

typedef enum {
    ATTR_FLOAT = 1,
    ATTR_INT = 2,
    ATTR_STRING = 3,
    ATTR_TENSOR = 4,
    ATTR_GRAPH = 5,
    ATTR_FLOATS = 6,
    ATTR_INTS = 7,
    ATTR_STRINGS = 8,
    ATTR_TENSORS = 9,
    ATTR_GRAPHS = 10,
    ATTR_SPARSE_TENSOR = 11,
    ATTR_TYPE_PROTO = 13
} AttrType;
typedef struct {
    const char *name, *ref;         /* ref: ref_attr_name inside a function, or NULL */
    AttrType type;
    int64_t i;
    float f;
    const char *s;                  /* zero-terminated; len tells */
    size_t len;
    const TensorDef *t;             /* a sparse tensor too, made dense */
    const GraphDef *graph;
    const ValueDef *tp;
    uint32_t n;                     /* of the lists */
    const int64_t *ints;
    const float *floats;
    const char *const *strings;
    const TensorDef *const *tensors;
} Attr;

/* How a node's device_configurations spread one of its tensors: each of these axes in so many parts, row by row over
 * the devices; no axis: whole, on each of them. groups: some of the devices stand for several. */
typedef struct { int64_t axis, parts; } ShardedAxis;
typedef struct {
    const char *configuration, *tensor;
    uint32_t ndevice, naxis;
    const int64_t *device;
    const ShardedAxis *axis;
    bool groups;
} ShardingDef;
typedef struct { const char *name; int32_t devices; } ConfigurationDef;

typedef struct {
    /* name: the first output's when it has none; op: "Op:overload" for a function's overload; domain "" is ai.onnx */
    const char *name, *op, *domain;
    uint32_t nin, nout, nattr;
    const char *const *in, *const *out; /* "" when absent */
    const Attr *attr;
    const ShardingDef *sharding;
    uint32_t nsharding;
} Node;

struct GraphDef {
    const char *name;
    uint32_t nnode, ninput, noutput, ninit, nvalue, noptional;
    const Node *node;               /* each after those that make its inputs */
    /* optional: inputs whose default is an initializer; input: the others */
    const ValueDef *input, *output, *value, *optional;
    const TensorDef *init;
};
typedef struct { const char *domain; int64_t version; } OpsetDef;
typedef struct {
    const char *name, *domain;
    uint32_t nin, nout, nattr, nnode, nopset;
    const char *const *in, *const *out, *const *attr;
    const Attr *attr_default;
    uint32_t nattr_default;
    const Node *node;
    const OpsetDef *opset;
} FunctionDef;
typedef struct { const char *key, *value; } PropertyDef;
typedef struct {
    const char *path;
    TgModel about;                  /* what it says of itself */
    const PropertyDef *property;    /* metadata_props */
    uint32_t nproperty;
    uint32_t nopset, nfunction;
    const OpsetDef *opset;
    const FunctionDef *function;
    GraphDef graph;
    char hash[33];                  /* XXH3-128 of the file, and then of the external bytes that it uses, if any */
    const void *file_data;
    size_t file_bytes;
    const ConfigurationDef *configuration;
    uint32_t nconfiguration;
    int32_t devices;                /* not of the file: the configuration of so many is obeyed; 0: none is */
    uint64_t seed;                  /* not of the file: what random nodes start from that name no seed */
    void *owner;                    /* mappings */
    Arena *arena;
} Model;

/* What is given in place of the file's own data (TgOptions.data). */
typedef struct { const TgData *at; int64_t n; } ModelData;
/* Loads and checks a file (onnx/load.c). Errors are one line without the file's name; the caller prefixes it. given
 * NULL: nothing is. */
TgStatus model_load(Model **out, const char *path, const ModelData *given);
/* folder NULL: no external data. data must outlive the model. */
TgStatus model_load_bytes(Model **out, const void *data, size_t size, const char *folder, const ModelData *given);
/* The model and its external files in memory, whose digest is known (hash above); all of it outlives the model. */
typedef struct { const char *name; const void *data; size_t size_bytes; } ModelFile;
TgStatus model_load_files(Model **out, const ModelFile *model, const ModelFile *external, uint32_t n, const char *hash);
/* the k-th of its external files that were read; false: there are fewer */
bool model_external(const Model *m, uint32_t k, ModelFile *out);
void model_free(Model *m);
/* mapped weights there need not stay in memory; they come back when read */
void model_forget(const Model *m, const void *data, size_t bytes);
void model_forget_all(const Model *m);
int64_t model_opset(const Model *m, const char *domain);      /* 0: not imported */
#endif
