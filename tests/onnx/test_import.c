/* Import of hand-made models: shapes that come out right, and every bad attribute, size and axis refused with the node
 * and field named. A case is a row: one node, its inputs (constants have values), its attributes, the status and a part
 * of the message. To add one: a row.
 */
#include "tests/test.h"

#include <stdio.h>
#include <string.h>

#include "frontend/frontend.h"
#include "graph/print.h"

enum { MAX_IN = 5, MAX_AT = 6, MAX_INTS = 8 };

typedef struct {
    TgType type;
    int32_t rank;
    int64_t shape[4];
    bool known;
    int64_t v[MAX_INTS];
} In;
typedef struct {
    const char *name;
    AttrType type;
    int64_t i;
    float f;
    const char *s;
    int64_t ints[MAX_INTS];
    uint32_t n;
} At;
typedef struct {
    const char *op;
    int64_t opset;
    In in[MAX_IN];
    At at[MAX_AT];
    TgStatus want;
    const char *say;
    uint32_t nout;
} Case;

#define COUNT(...) (sizeof((int64_t[]){ __VA_ARGS__ }) / 8)
#define F(...) { TG_F32, COUNT(__VA_ARGS__), { __VA_ARGS__ } }
#define L(...) { TG_I64, COUNT(__VA_ARGS__), { __VA_ARGS__ } }
#define V(...) { TG_I64, 1, { COUNT(__VA_ARGS__) }, true, { __VA_ARGS__ } }        /* a constant list */
#define S(v) { TG_I64, 0, { 0 }, true, { v } }                                     /* a constant scalar */
#define NONE { 0 }
#define AI(name, v) { name, ATTR_INT, (v) }
#define AF(name, v) { name, ATTR_FLOAT, 0, (v) }
#define AS(name, v) { name, ATTR_STRING, 0, 0, (v) }
#define AL(name, ...) { name, ATTR_INTS, 0, 0, NULL, { __VA_ARGS__ }, COUNT(__VA_ARGS__) }
#define BIG INT64_MAX
#define LOW INT64_MIN

static const Case cases[] = {
    /* binary and broadcast */
    { "Add", 13, { F(2, 3), F(3) }, { { 0 } }, TG_OK, "f32[2,3]", 1 },
    { "Add", 13, { F(2, 3), F(4) }, { { 0 } }, TG_BAD_MODEL, "node 'n' (Add)", 1 },
    { "Add", 13, { F(2, 3), L(3) }, { { 0 } }, TG_BAD_MODEL, "i1: is of type i64; input 0 is of type f32, and both must be of one", 1 },
    { "Add", 13, { F(2, 3) }, { { 0 } }, TG_BAD_MODEL, "1 inputs; at least 2", 1 },
    { "Add", 13, { F(2), F(2), F(2) }, { { 0 } }, TG_BAD_MODEL, "3 inputs; at most 2", 1 },
    { "Add", 6, { F(2, 3, 4), F(3) }, { AI("broadcast", 1), AI("axis", 1) }, TG_OK, "f32[2,3,4]", 1 },
    { "Add", 6, { F(2, 3, 4), F(3) }, { AI("broadcast", 1), AI("axis", 9) }, TG_BAD_MODEL, "axis 9 of a tensor of rank 3", 1 },
    { "NoSuchOperator", 13, { F(2) }, { { 0 } }, TG_UNSUPPORTED, "node 'n' (NoSuchOperator): operator NoSuchOperator of opset 13 is not covered", 1 },
    { "add", 13, { F(2), F(2) }, { { 0 } }, TG_UNSUPPORTED, "operator add", 1 },
    { "Relu", 13, { F(2) }, { { 0 } }, TG_BAD_MODEL, "2 outputs", 2 },
    { "Cast", 13, { F(2) }, { { 0 } }, TG_BAD_MODEL, "to: is missing", 1 },
    { "Cast", 13, { F(2) }, { AI("to", 0) }, TG_BAD_MODEL, "to: is 0", 1 },
    { "Cast", 13, { F(2) }, { AI("to", 999) }, TG_BAD_MODEL, "to: is 999", 1 },
    { "BitShift", 11, { L(2), L(2) }, { { 0 } }, TG_BAD_MODEL, "i0: is of type i64, which input 0 (X) of the operator does not take", 1 },
    /* axes */
    { "Softmax", 13, { F(2, 3) }, { AI("axis", 99) }, TG_BAD_MODEL, "node 'n' (Softmax): axis: axis 99 of a tensor of rank 2", 1 },
    { "Softmax", 13, { F(2, 3) }, { AI("axis", LOW) }, TG_BAD_MODEL, "axis:", 1 },
    { "Softmax", 13, { F(2, 3) }, { AF("axis", 1) }, TG_BAD_MODEL, "axis: is of type float; wanted int", 1 },
    { "Softmax", 9, { F(2, 3, 4) }, { { 0 } }, TG_OK, "f32[2,3,4]", 1 },
    { "Concat", 13, { F(2, 3), F(2, 5) }, { AI("axis", 1) }, TG_OK, "f32[2,8]", 1 },
    { "Concat", 13, { F(2, 3), F(3, 5) }, { AI("axis", 1) }, TG_BAD_MODEL, "(Concat)", 1 },
    { "Concat", 13, { F(2, 3) }, { { 0 } }, TG_BAD_MODEL, "axis: is missing", 1 },
    { "Transpose", 13, { F(2, 3, 4) }, { AL("perm", 2, 0, 1) }, TG_OK, "f32[4,2,3]", 1 },
    { "Transpose", 13, { F(2, 3, 4) }, { AL("perm", 0, 0, 1) }, TG_BAD_MODEL, "(Transpose)", 1 },
    { "Transpose", 13, { F(2, 3, 4) }, { AL("perm", 0, 1) }, TG_BAD_MODEL, "(Transpose)", 1 },
    { "Transpose", 13, { F(2, 3) }, { AL("perm", 0, BIG) }, TG_BAD_MODEL, "(Transpose)", 1 },
    { "Squeeze", 11, { F(1, 3, 1) }, { AL("axes", 0, 2) }, TG_OK, "f32[3]", 1 },
    { "Squeeze", 13, { F(1, 3, 1), V(-1) }, { { 0 } }, TG_OK, "f32[1,3]", 1 },
    { "Squeeze", 13, { F(1, 3), V(1) }, { { 0 } }, TG_BAD_MODEL, "axes: axis 1 has size 3; wanted 1", 1 },
    { "Unsqueeze", 11, { F(3) }, { AL("axes", 0, 2) }, TG_OK, "f32[1,3,1]", 1 },
    { "Unsqueeze", 13, { F(3), V(0, 0) }, { { 0 } }, TG_BAD_MODEL, "axes: axis 0 twice", 1 },
    { "Unsqueeze", 11, { F(3) }, { { 0 } }, TG_BAD_MODEL, "axes: is missing", 1 },
    { "ReduceSum", 11, { F(2, 3) }, { AL("axes", 1), AI("keepdims", 0) }, TG_OK, "f32[2]", 1 },
    { "ReduceSum", 13, { F(2, 3), V(1) }, { { 0 } }, TG_OK, "f32[2,1]", 1 },
    { "ReduceSum", 13, { F(2, 3), V(7) }, { { 0 } }, TG_BAD_MODEL, "axes: axis 7", 1 },
    { "ReduceMax", 11, { F(2, 3) }, { AL("axes", 0, -2) }, TG_BAD_MODEL, "axes: axis 0 twice", 1 },
    { "ArgMax", 13, { F(2, 3) }, { AI("axis", 1), AI("keepdims", 0) }, TG_OK, "i64[2]", 1 },
    { "Flatten", 13, { F(2, 3, 4) }, { AI("axis", 2) }, TG_OK, "f32[6,4]", 1 },
    { "Flatten", 13, { F(2, 3) }, { AI("axis", 3) }, TG_BAD_MODEL, "(Flatten)", 1 },
    /* shapes */
    { "Reshape", 13, { F(2, 3, 4), V(0, -1) }, { { 0 } }, TG_OK, "f32[2,12]", 1 },
    { "Reshape", 13, { F(2, 3), V(4) }, { { 0 } }, TG_BAD_MODEL, "(Reshape)", 1 },
    { "Reshape", 13, { F(2, 3), V(-1, -1) }, { { 0 } }, TG_BAD_MODEL, "shape: -1 twice", 1 },
    { "Reshape", 13, { F(2, 3), V(-7) }, { { 0 } }, TG_BAD_MODEL, "shape: size -7", 1 },
    { "Reshape", 13, { F(2, 3), V(4, -1) }, { { 0 } }, TG_BAD_MODEL, "6 elements cannot be divided by 4", 1 },
    { "Reshape", 14, { F(0, 3), V(0, -1) }, { AI("allowzero", 1) }, TG_BAD_MODEL, "-1 beside a size of 0", 1 },
    { "Reshape", 13, { F(2, 3), V(1, 1, 0) }, { { 0 } }, TG_BAD_MODEL, "0 at axis 2 of an input of rank 2", 1 },
    { "Reshape", 13, { F(2, 3), V(BIG, BIG) }, { { 0 } }, TG_BAD_MODEL, "(Reshape)", 1 },
    { "Reshape", 1, { F(2, 3) }, { AL("shape", 3, 2) }, TG_OK, "f32[3,2]", 1 },
    { "Reshape", 13, { F(2, 3), L(2) }, { { 0 } }, TG_UNSUPPORTED, "i1: a size or axis depends on the data of this input", 1 },
    { "Expand", 13, { F(3, 1), V(2, 1, 4) }, { { 0 } }, TG_OK, "f32[2,3,4]", 1 },
    { "Expand", 13, { F(3, 2), V(3, 4) }, { { 0 } }, TG_BAD_MODEL, "(Expand)", 1 },
    { "Expand", 13, { F(3), V(-2, 3) }, { { 0 } }, TG_BAD_MODEL, "size -2 of axis 0", 1 },
    { "Expand", 13, { F(1), V(BIG) }, { { 0 } }, TG_LIMIT, "(Expand)", 1 },
    { "ConstantOfShape", 9, { V(2, 3) }, { { 0 } }, TG_OK, "f32[2,3]", 1 },
    { "ConstantOfShape", 9, { V(1000000000000, 1000000000000) }, { { 0 } }, TG_LIMIT, "(ConstantOfShape)", 1 },
    { "Tile", 13, { F(2, 3), V(2, 1) }, { { 0 } }, TG_OK, "f32[4,3]", 1 },
    { "Tile", 13, { F(2, 3), V(2) }, { { 0 } }, TG_BAD_MODEL, "repeats: has 1 values; wanted 2", 1 },
    { "Tile", 13, { F(2, 3), V(BIG, BIG) }, { { 0 } }, TG_LIMIT, "repeats", 1 },
    { "Slice", 9, { F(5, 7) }, { AL("starts", 1), AL("ends", BIG), AL("axes", -1) }, TG_OK, "f32[5,6]", 1 },
    { "Slice", 13, { F(5, 7), V(BIG), V(LOW), V(0), V(-2) }, { { 0 } }, TG_OK, "f32[3,7]", 1 },
    { "Slice", 13, { F(5, 7), V(LOW), V(BIG), V(0), V(BIG) }, { { 0 } }, TG_OK, "f32[1,7]", 1 },
    { "Slice", 13, { F(5, 7), V(0), V(5), V(0), V(0) }, { { 0 } }, TG_BAD_MODEL, "steps: has a step of 0", 1 },
    { "Slice", 13, { F(5, 7), V(0, 0), V(5) }, { { 0 } }, TG_BAD_MODEL, "of lengths 2, 1", 1 },
    { "Slice", 13, { F(5, 7), V(0, 0), V(5, 5), V(1, 1) }, { { 0 } }, TG_BAD_MODEL, "axes: axis 1 twice", 1 },
    { "Split", 11, { F(6, 2) }, { AL("split", 1, 5) }, TG_OK, "f32[1,2] f32[5,2]", 2 },
    { "Split", 13, { F(6, 2), V(1, 4) }, { { 0 } }, TG_BAD_MODEL, "sizes add up to 5 on an axis of 6", 2 },
    { "Split", 13, { F(6, 2), V(-1, 7) }, { { 0 } }, TG_BAD_MODEL, "split: size -1", 2 },
    { "Split", 18, { F(7) }, { AI("num_outputs", 2) }, TG_OK, "f32[4] f32[3]", 2 },
    { "Pad", 2, { F(2, 3) }, { AL("pads", 0, 1, 0, 2) }, TG_OK, "f32[2,6]", 1 },
    { "Pad", 13, { F(2, 3), V(0, 1, 0) }, { { 0 } }, TG_BAD_MODEL, "pads: has 3 values; wanted 4", 1 },
    { "Pad", 13, { F(2, 3), V(0, 0, 0, INT64_C(1) << 62) }, { { 0 } }, TG_LIMIT, "pads", 1 },
    { "Pad", 13, { F(2, 3), V(0, -2, 0, -2) }, { { 0 } }, TG_BAD_MODEL, "pads: remove more than axis 1 has", 1 },
    { "Pad", 13, { F(2, 3), V(0, 1, 0, 1) }, { AS("mode", "sideways") }, TG_BAD_MODEL, "mode: is 'sideways'", 1 },
    { "Range", 11, { S(0), S(10), S(3) }, { { 0 } }, TG_OK, "i64[4]", 1 },
    { "Range", 11, { S(0), S(10), S(0) }, { { 0 } }, TG_BAD_MODEL, "is 0; wanted another step", 1 },
    { "Range", 11, { S(0), S(BIG), S(1) }, { { 0 } }, TG_LIMIT, "(Range)", 1 },
    { "Range", 11, { S(LOW), S(BIG), S(BIG) }, { { 0 } }, TG_OK, "i64[3]", 1 },
    { "Shape", 15, { F(2, 3, 4) }, { AI("start", -2), AI("end", BIG) }, TG_OK, "i64[2]", 1 },
    { "DepthToSpace", 13, { F(1, 8, 2, 3) }, { AI("blocksize", 2) }, TG_OK, "f32[1,2,4,6]", 1 },
    { "DepthToSpace", 13, { F(1, 8, 2, 3) }, { AI("blocksize", 0) }, TG_BAD_MODEL, "blocksize: 0", 1 },
    { "CumSum", 14, { F(2, 3), S(5) }, { { 0 } }, TG_BAD_MODEL, "axis 5", 1 },
    { "Trilu", 14, { F(3, 3), S(LOW) }, { { 0 } }, TG_OK, "f32[3,3]", 1 },
    /* windows */
    { "Conv", 11, { F(1, 4, 8, 8), F(6, 4, 3, 3) }, { AL("pads", 1, 1, 1, 1), AL("strides", 2, 2) }, TG_OK, "f32[1,6,4,4]", 1 },
    { "Conv", 11, { F(1, 4, 8, 8), F(6, 2, 3, 3) }, { AI("group", 2), AS("auto_pad", "SAME_UPPER") }, TG_OK, "f32[1,6,8,8]", 1 },
    { "Conv", 11, { F(1, 4, 8, 8), F(6, 4, 3, 3) }, { AL("pads", 1, 1, 1) }, TG_BAD_MODEL, "node 'n' (Conv): pads: has 3 values, expected 4", 1 },
    { "Conv", 11, { F(1, 4, 8, 8), F(6, 4, 3, 3) }, { AL("strides", 0, 1) }, TG_BAD_MODEL, "strides: 0", 1 },
    { "Conv", 11, { F(1, 4, 8, 8), F(6, 4, 3, 3) }, { AL("strides", INT64_C(1) << 62, 1) }, TG_BAD_MODEL, "strides", 1 },
    { "Conv", 11, { F(1, 4, 8, 8), F(6, 4, 3, 3) }, { AL("dilations", 1, -1) }, TG_BAD_MODEL, "dilations: -1", 1 },
    { "Conv", 11, { F(1, 4, 8, 8), F(6, 4, 3, 3) }, { AI("group", 0) }, TG_BAD_MODEL, "group: is 0", 1 },
    { "Conv", 11, { F(1, 4, 8, 8), F(6, 4, 3, 3) }, { AI("group", INT64_C(1) << 40) }, TG_BAD_MODEL, "group", 1 },
    { "Conv", 11, { F(1, 4, 8, 8), F(6, 4, 3, 3) }, { AI("group", 3) }, TG_BAD_MODEL, "does not fit 4 channels in 3 groups", 1 },
    { "Conv", 11, { F(1, 4, 2, 2), F(6, 4, 3, 3) }, { { 0 } }, TG_OK, "f32[1,6,0,0]", 1 },
    { "Conv", 11, { F(1, 4, 1, 1), F(6, 4, 3, 3) }, { { 0 } }, TG_BAD_MODEL, "(Conv)", 1 },
    { "Conv", 11, { F(1, 4, 8, 8), F(6, 4, 3) }, { { 0 } }, TG_BAD_MODEL, "W: has rank 3, the input rank 4", 1 },
    { "Conv", 11, { F(1, 4), F(6, 4) }, { { 0 } }, TG_OK, "f32[1,6]", 1 },
    { "Conv", 11, { F(4), F(4) }, { { 0 } }, TG_BAD_MODEL, "an input of rank 1", 1 },
    { "Conv", 11, { F(1, 4, 8, 8), F(6, 4, 3, 3), F(5) }, { { 0 } }, TG_BAD_MODEL, "B: wanted one value an output channel", 1 },
    { "Conv", 11, { F(1, 4, 8, 8), F(6, 4, 3, 3) }, { AS("auto_pad", "SAME") }, TG_BAD_MODEL, "auto_pad: is 'SAME'", 1 },
    { "Conv", 11, { F(1, 4, 8, 8), F(6, 4, 3, 3) }, { AL("kernel_shape", 5, 5) }, TG_BAD_MODEL, "kernel_shape: 5 at axis 0; the weights have 3", 1 },
    { "Conv", 11, { F(1, 4, 8, 8), F(6, 4, 0, 3) }, { { 0 } }, TG_BAD_MODEL, "(Conv)", 1 },
    { "ConvTranspose", 11, { F(1, 4, 5, 5), F(4, 6, 3, 3) }, { AL("strides", 2, 2), AL("output_padding", 1, 1) }, TG_OK, "f32[1,6,12,12]", 1 },
    { "MaxPool", 12, { F(1, 4, 7, 7) }, { AL("kernel_shape", 2, 2), AL("strides", 2, 2), AI("ceil_mode", 1) }, TG_OK, "f32[1,4,4,4] i64[1,4,4,4]", 2 },
    { "MaxPool", 12, { F(1, 4, 7, 7) }, { AL("kernel_shape", 0, 2) }, TG_BAD_MODEL, "kernel_shape: 0", 1 },
    { "MaxPool", 12, { F(1, 4, 7, 7) }, { { 0 } }, TG_BAD_MODEL, "kernel_shape: is missing", 1 },
    { "AveragePool", 11, { F(1, 4, 7, 7) }, { AL("kernel_shape", 9, 9) }, TG_BAD_MODEL, "(AveragePool)", 1 },
    { "GlobalAveragePool", 11, { F(1, 4, 7, 7) }, { { 0 } }, TG_OK, "f32[1,4,1,1]", 1 },
    /* products and norms */
    { "MatMul", 13, { F(2, 3), F(4, 5) }, { { 0 } }, TG_BAD_MODEL, "(MatMul)", 1 },
    { "Gemm", 13, { F(2, 3), F(5, 3), F(5) }, { AI("transB", 1) }, TG_OK, "f32[2,5]", 1 },
    { "Gemm", 13, { F(3), F(3, 5) }, { { 0 } }, TG_BAD_MODEL, "inputs of ranks 1 and 2", 1 },
    { "Gemm", 13, { F(2, 3), F(3, 5), F(7) }, { { 0 } }, TG_BAD_MODEL, "(Gemm)", 1 },
    { "BatchNormalization", 9, { F(1, 4, 5, 5), F(4), F(4), F(4), F(3) }, { { 0 } }, TG_BAD_MODEL, "has 3 values", 1 },
    { "LayerNormalization", 17, { F(2, 8), F(8) }, { AI("axis", 4) }, TG_BAD_MODEL, "axis 4", 1 },
    { "GroupNormalization", 21, { F(1, 6, 4), F(6), F(6) }, { AI("num_groups", 4) }, TG_BAD_MODEL, "num_groups: 4 groups of 6 channels", 1 },
    { "LRN", 13, { F(1, 6, 4, 4) }, { AI("size", 0) }, TG_BAD_MODEL, "size: is 0", 1 },
    { "Einsum", 12, { F(2, 3), F(3, 4) }, { AS("equation", "ij,jk->ik") }, TG_OK, "f32[2,4]", 1 },
    { "Einsum", 12, { F(2, 3), F(3, 4) }, { AS("equation", "ij,jk->iz!") }, TG_BAD_MODEL, "equation", 1 },
    { "Einsum", 12, { F(2, 3) }, { AS("equation", "i") }, TG_BAD_MODEL, "equation", 1 },
    { "Einsum", 12, { F(2, 3), F(4, 4) }, { AS("equation", "ij,jk->ik") }, TG_BAD_MODEL, "(Einsum)", 1 },
    { "STFT", 17, { F(1, 16, 1), S(0), NONE, S(8) }, { { 0 } }, TG_BAD_MODEL, "(STFT)", 1 },
    { "DFT", 17, { F(1, 16, 3) }, { { 0 } }, TG_BAD_MODEL, "last axis has size 3", 1 },
    { "Attention", 23, { F(1, 2, 4, 8), F(1, 3, 4, 8), F(1, 3, 4, 8) }, { { 0 } }, TG_BAD_MODEL, "2 heads of queries on 3 of keys", 1 },
};

/* ---- a model of one node ---- */

static const char *const in_name[] = { "i0", "i1", "i2", "i3", "i4" }, *const out_name[] = { "o0", "o1" };

typedef struct {
    Model m;
    Node node;
    const char *in[MAX_IN];
    Attr at[MAX_AT];
    TensorDef init[MAX_IN];
    ValueDef input[MAX_IN], output[2];
    DimDef dim[MAX_IN][4];
    TgTensor tensor[MAX_IN];
    OpsetDef opset;
} Made;

static void make_inputs(Made *d, const Case *c)
{
    for (uint32_t k = 0; k < MAX_IN; k++) {
        const In *in = &c->in[k];
        d->in[k] = in->type ? in_name[k] : "";
        if (!in->type) continue;
        d->node.nin = k + 1;
        if (in->known) {
            d->init[d->m.graph.ninit++] = (TensorDef){ .name = in_name[k],
                                                       .type = in->type,
                                                       .rank = (uint32_t)in->rank,
                                                       .shape = in->shape,
                                                       .numel = in->rank ? in->shape[0] : 1,
                                                       .data = in->v,
                                                       .size_bytes = sizeof in->v };
            continue;
        }
        for (int32_t a = 0; a < in->rank; a++) d->dim[k][a] = (DimDef){ .size = in->shape[a] };
        uint32_t at = d->m.graph.ninput++;
        d->input[at] = (ValueDef){
            .name = in_name[k], .kind = VALUE_TENSOR, .type = in->type, .rank = in->rank, .dim = d->dim[k]
        };
        d->tensor[at] = (TgTensor){ .type = in->type, .rank = in->rank };
        memcpy(d->tensor[at].shape, in->shape, sizeof in->shape);
    }
}

static void make(Made *d, const Case *c)
{
    *d = (Made){ .opset = { "", c->opset } };
    d->node =
        (Node){ .name = "n", .op = c->op, .domain = "", .nout = c->nout, .in = d->in, .out = out_name, .attr = d->at };
    make_inputs(d, c);
    for (; d->node.nattr < MAX_AT && c->at[d->node.nattr].name; d->node.nattr++) {
        const At *a = &c->at[d->node.nattr];
        d->at[d->node.nattr] = (Attr){ .name = a->name,
                                       .type = a->type,
                                       .i = a->i,
                                       .f = a->f,
                                       .s = a->s,
                                       .len = a->s ? strlen(a->s) : 0,
                                       .ints = a->ints,
                                       .n = a->n };
    }
    for (uint32_t k = 0; k < c->nout; k++)
        d->output[k] = (ValueDef){ .name = out_name[k], .kind = VALUE_TENSOR, .rank = -1 };
    d->m.nopset = 1, d->m.opset = &d->opset;
    d->m.graph.nnode = 1, d->m.graph.node = &d->node, d->m.graph.noutput = c->nout;
    d->m.graph.input = d->input, d->m.graph.output = d->output, d->m.graph.init = d->init;
}

static void describe(Text *t, const Imported *im)
{
    for (uint32_t k = 0; k < im->noutput; k++) {
        U u = im->sink->src[k];
        text_add(t, "%s%s[", k ? " " : "", dtype_name((DType)u->dtype));
        for (uint32_t a = 0; a < uop_rank(u); a++) text_add(t, "%s%lld", a ? "," : "", (long long)uop_size(u, a));
        text_add(t, "]");
    }
}

static void rows(void **state)
{
    (void)state;
    int wrong = 0;
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        Made d;
        Imported im;
        Text said = { 0 };
        make(&d, &cases[k]);
        TgStatus status = import_model(&im, &d.m, d.tensor, d.m.graph.ninput, NULL, NULL);
        if (status == TG_OK) describe(&said, &im), graph_free(im.g);
        else text_add(&said, "%s", tg_error());
        if (status != cases[k].want || !strstr(said.s, cases[k].say)) {
            print_message("row %zu, %s: status %d, '%s'; wanted %d, '%s'\n", k, cases[k].op, status, said.s,
                          cases[k].want, cases[k].say);
            wrong++;
        }
        text_free(&said);
    }
    assert_int_equal(wrong, 0);
}

/* ---- models of several nodes ---- */

#define NODE(op, nin, in, nout, out) { "", op, "", nin, nout, 0, in, out, NULL }
#define NAMES(...) (const char *const[]){ __VA_ARGS__ }

static TgStatus import_nodes(const Node *node, uint32_t n, const FunctionDef *function, uint32_t nfunction)
{
    static const DimDef dim[] = { { .size = 3 } };
    static const ValueDef input = { .name = "x", .kind = VALUE_TENSOR, .type = TG_F32, .rank = 1, .dim = dim },
                          output = { .name = "y", .kind = VALUE_TENSOR, .rank = -1 };
    static const OpsetDef opset[] = { { "", 17 }, { "local", 1 } };
    Model m = { .nopset = 2, .opset = opset, .nfunction = nfunction, .function = function,
                .graph = { .nnode = n, .node = node, .ninput = 1, .input = &input, .noutput = 1, .output = &output } };
    Imported im;
    TgStatus status = import_model(&im, &m, &(TgTensor){ .type = TG_F32, .rank = 1, .shape = { 3 } }, 1, NULL, NULL);
    if (status == TG_OK) graph_free(im.g);
    return status;
}

static void names(void **state)
{
    (void)state;
    const Node twice[] = { NODE("Relu", 1, NAMES("x"), 1, NAMES("y")), NODE("Relu", 1, NAMES("x"), 1, NAMES("y")) };
    const Node early[] = { NODE("Relu", 1, NAMES("z"), 1, NAMES("y")) };
    assert_int_equal(import_nodes(twice, 1, NULL, 0), TG_OK);
    assert_int_equal(import_nodes(twice, 2, NULL, 0), TG_BAD_MODEL);
    assert_string_equal(tg_error(), "node 'y' (Relu): y: this tensor is already defined");
    assert_int_equal(import_nodes(early, 1, NULL, 0), TG_BAD_MODEL);
    assert_string_equal(tg_error(), "node 'y' (Relu): tensor 'z' is not defined before its use");
    assert_int_equal(import_nodes(NULL, 0, NULL, 0), TG_BAD_MODEL);
    assert_string_equal(tg_error(), "output 'y' is not made by any node");
}

/* f(a) = Relu(a) twice, as functions that call each other; one that calls itself; 2^40 calls. */
static void functions(void **state)
{
    (void)state;
    static const OpsetDef opset[] = { { "", 17 }, { "local", 1 } };
    static const char *const a[] = { "a" }, *const b[] = { "b" }, *const mid[] = { "m" };
    const Node call[] = { { "c", "F0", "local", 1, 1, 0, NAMES("x"), NAMES("y"), NULL } };
    const Node relu[] = { NODE("Relu", 1, NAMES("a"), 1, NAMES("b")) };
    const Node self[] = { { "s", "F0", "local", 1, 1, 0, NAMES("a"), NAMES("b"), NULL } };
    FunctionDef f[40];
    Node twice[40][2];
    char name[40][8], next[40][8];
    f[0] = (FunctionDef){ .name = "F0",
                          .domain = "local",
                          .nin = 1,
                          .nout = 1,
                          .nnode = 1,
                          .nopset = 2,
                          .in = NAMES("a"),
                          .out = NAMES("b"),
                          .node = relu,
                          .opset = opset };
    assert_int_equal(import_nodes(call, 1, f, 1), TG_OK);
    f[0].node = self;
    assert_int_equal(import_nodes(call, 1, f, 1), TG_BAD_MODEL);
    assert_non_null(strstr(tg_error(), "deeper than"));
    for (int k = 0; k < 40; k++) {
        snprintf(name[k], sizeof name[k], "F%d", k), snprintf(next[k], sizeof next[k], "F%d", k + 1);
        twice[k][0] = (Node){ "p", k < 39 ? next[k] : "Relu", k < 39 ? "local" : "", 1, 1, 0, a, mid, NULL };
        twice[k][1] = (Node){ "q", k < 39 ? next[k] : "Relu", k < 39 ? "local" : "", 1, 1, 0, mid, b, NULL };
        f[k] = (FunctionDef){ .name = name[k],
                              .domain = "local",
                              .nin = 1,
                              .nout = 1,
                              .nnode = 2,
                              .nopset = 2,
                              .in = a,
                              .out = b,
                              .node = twice[k],
                              .opset = opset };
    }
    assert_int_equal(import_nodes(call, 1, f, 40), TG_LIMIT);
}

static void count_line(void *user, const char *line)
{
    char *all = user;
    strcat(strcat(all, line), "\n");
}

static void unsupported(void **state)
{
    (void)state;
    char all[600] = "";
    uint32_t ports;
    const Node node[] = { NODE("Foo", 1, NAMES("x"), 1, NAMES("a")),
                          NODE("Relu", 1, NAMES("a"), 1, NAMES("b")),
                          NODE("Foo", 1, NAMES("b"), 1, NAMES("c")),
                          { "odd", "Bar", "my.domain", 1, 1, 0, NAMES("c"), NAMES("y"), NULL } };
    const OpsetDef opset = { "", 17 };
    Model m = { .nopset = 1, .opset = &opset, .graph = { .nnode = 4, .node = node } };
    assert_int_equal(import_unsupported(&m, &ports, count_line, all), 2);
    assert_int_equal(ports, 0);
    assert_string_equal(
        all, "Foo, opset 17 is not covered: nodes 'a', 'c'\nmy.domain.Bar, opset 1 is not covered: node 'odd'\n");
}

/* The rows stand in the order by which op_find bisects. */
static void registry(void **state)
{
    (void)state;
    for (uint32_t k = 0; k < op_row_count; k++)
        assert_ptr_equal(op_find(op_rows[k].domain, op_rows[k].name, op_rows[k].since), &op_rows[k]);
    assert_null(op_find("", "Gelu", 19));
    assert_non_null(op_find("ai.onnx", "Gelu", 25));
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(rows), cmocka_unit_test(names), cmocka_unit_test(functions),
                                        cmocka_unit_test(unsupported), cmocka_unit_test(registry) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
