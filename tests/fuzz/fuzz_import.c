/* Any node as a model: bytes choose an operator, its opset, inputs and attributes, half of them hostile. Imported or
 * refused with a line that names the node; what was imported is evaluated by the reference interpreter when it is
 * small, so that a graph that breaks its own rules is found too. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backends/reference/reference.h"
#include "frontend/frontend.h"
#include "graph/base/memory.h"
#include "tests/fuzz/fuzz.h"

enum { MAX_IN = 7, MAX_AT = 5, MAX_LIST = 8, SEED_BYTES = 160, EVALUATED_MAX = 20000 };

/* Names of attributes with the type that most operators expect of them. */
static const struct { const char *name; AttrType type; } names[] = {
    { "axis", ATTR_INT }, { "axes", ATTR_INTS }, { "keepdims", ATTR_INT }, { "perm", ATTR_INTS }, { "kernel_shape", ATTR_INTS }, { "strides", ATTR_INTS }, { "pads", ATTR_INTS },
    { "dilations", ATTR_INTS }, { "group", ATTR_INT }, { "auto_pad", ATTR_STRING }, { "ceil_mode", ATTR_INT }, { "output_padding", ATTR_INTS }, { "output_shape", ATTR_INTS },
    { "count_include_pad", ATTR_INT }, { "storage_order", ATTR_INT }, { "to", ATTR_INT }, { "mode", ATTR_STRING }, { "blocksize", ATTR_INT }, { "split", ATTR_INTS },
    { "num_outputs", ATTR_INT }, { "starts", ATTR_INTS }, { "ends", ATTR_INTS }, { "shape", ATTR_INTS }, { "allowzero", ATTR_INT }, { "alpha", ATTR_FLOAT }, { "beta", ATTR_FLOAT },
    { "epsilon", ATTR_FLOAT }, { "transA", ATTR_INT }, { "transB", ATTR_INT }, { "broadcast", ATTR_INT }, { "equation", ATTR_STRING }, { "direction", ATTR_STRING },
    { "hidden_size", ATTR_INT }, { "layout", ATTR_INT }, { "batch_dims", ATTR_INT }, { "reduction", ATTR_STRING }, { "ignore_index", ATTR_INT }, { "k", ATTR_INT },
    { "largest", ATTR_INT }, { "sorted", ATTR_INT }, { "num_groups", ATTR_INT }, { "size", ATTR_INT }, { "p", ATTR_INT }, { "scales", ATTR_FLOATS }, { "start", ATTR_INT },
    { "end", ATTR_INT }, { "exclusive", ATTR_INT }, { "reverse", ATTR_INT }, { "upper", ATTR_INT }, { "noop_with_empty_axes", ATTR_INT }, { "select_last_index", ATTR_INT },
    { "coordinate_transformation_mode", ATTR_STRING }, { "nearest_mode", ATTR_STRING }, { "padding_mode", ATTR_STRING }, { "align_corners", ATTR_INT }, { "onesided", ATTR_INT },
    { "inverse", ATTR_INT }, { "num_heads", ATTR_INT }, { "q_num_heads", ATTR_INT }, { "kv_num_heads", ATTR_INT }, { "is_causal", ATTR_INT }, { "softcap", ATTR_FLOAT },
    { "qkv_hidden_sizes", ATTR_INTS }, { "rotary_embedding_dim", ATTR_INT }, { "interleaved", ATTR_INT }, { "batch_axis", ATTR_INT }, { "time_axis", ATTR_INT }, { "min", ATTR_FLOAT },
    { "max", ATTR_FLOAT }, { "value", ATTR_FLOAT }, { "value_ints", ATTR_INTS }, { "value_float", ATTR_FLOAT }, { "bits", ATTR_INT }, { "block_size", ATTR_INT }, { "K", ATTR_INT }, { "N", ATTR_INT },
    { "sample_size", ATTR_INT }, { "dtype", ATTR_INT }, { "new_axis", ATTR_INT }, { "output_height", ATTR_INT }, { "output_width", ATTR_INT }, { "sampling_ratio", ATTR_INT },
    { "coefficients", ATTR_FLOATS }, { "intercepts", ATTR_FLOATS }, { "classlabels_ints", ATTR_INTS }, { "fmod", ATTR_INT }, { "spatial", ATTR_INT }, { "training_mode", ATTR_INT },
};
static const char *const words[] = { "",
                                     "SAME_UPPER",
                                     "SAME_LOWER",
                                     "VALID",
                                     "reflect",
                                     "edge",
                                     "wrap",
                                     "constant",
                                     "linear",
                                     "cubic",
                                     "nearest",
                                     "ij,jk->ik",
                                     "...i->i",
                                     "ii",
                                     "forward",
                                     "reverse",
                                     "bidirectional",
                                     "LEFT",
                                     "RIGHT",
                                     "CRD",
                                     "sum",
                                     "mean",
                                     "none",
                                     "add",
                                     "max",
                                     "circular",
                                     "tanh",
                                     "align_corners",
                                     "asymmetric",
                                     "half_pixel",
                                     "tf_crop_and_resize",
                                     "%s\n\x01",
                                     "border" };
static const int64_t hostile[] = { 0,     1,      2,  3,   4,         8,         -1,        -2,        -3,
                                   5,     7,      16, 100, INT64_MAX, INT64_MIN, INT32_MAX, INT32_MIN, (int64_t)1 << 62,
                                   65536, 1 << 20 };
static const TgType types[] = { TG_F32, TG_F32, TG_F32, TG_I64,  TG_I64, TG_I32,    TG_F16, TG_BOOL,
                                TG_U8,  TG_I8,  TG_F64, TG_BF16, TG_U64, TG_STRING, TG_I4,  TG_F8E4M3FN };

typedef struct { const uint8_t *p, *end; } Bytes;
static uint32_t next(Bytes *b, uint32_t below)
{
    uint32_t v = b->p < b->end ? *b->p++ : 0;
    if (below > 256) v = v << 8 | (b->p < b->end ? *b->p++ : 0);
    return below ? v % below : 0;
}
#define PICK(b, list) (list)[next(b, sizeof(list) / sizeof *(list))]

static const char *const in_name[MAX_IN] = { "a", "b", "c", "d", "e", "f", "g" }, *const out_name[] = { "x", "y", "z" };
typedef struct {
    Model m;
    Node node;
    OpsetDef opset[3];
    const char *in[MAX_IN];
    Attr at[MAX_AT];
    int64_t ints[MAX_AT][MAX_LIST];
    float floats[MAX_AT][MAX_LIST];
    TensorDef init[MAX_IN];
    ValueDef input[MAX_IN], output[3];
    DimDef dim[MAX_IN][5];
    int64_t shape[MAX_IN][5];
    void *data[MAX_IN];
    TgTensor tensor[MAX_IN];
    TensorString text[64];
    const char *pointer[64];
} Made;

static void make_data(Made *d, Bytes *b, uint32_t k, TgType type, int64_t numel, bool graph_input)
{
    static const char *const text[] = { "", "a", "The", "b c", "12" };
    if (type == TG_STRING) {
        for (int64_t j = 0; j < 64; j++)
            d->pointer[j] = PICK(b, text), d->text[j] = (TensorString){ d->pointer[j], strlen(d->pointer[j]) };
        d->data[k] = graph_input ? (void *)d->pointer : (void *)d->text;
        return;
    }
    d->data[k] = calloc((size_t)numel + 1, 8);
    for (int64_t j = 0; j < numel; j++) {
        int64_t v = PICK(b, hostile);
        if (type == TG_I64) ((int64_t *)d->data[k])[j] = v;
        else if (type == TG_I32) ((int32_t *)d->data[k])[j] = (int32_t)v;
        else if (type == TG_F32) ((float *)d->data[k])[j] = (float)(v % 1000) / 8;
        else if (type == TG_BOOL) ((uint8_t *)d->data[k])[j] = v & 1;
        else ((uint8_t *)d->data[k])[j] = (uint8_t)v;
    }
}

static void make_inputs(Made *d, Bytes *b, uint32_t n)
{
    static const int64_t sizes[] = { 1, 2, 2, 4, 2, 3, 4, 8, 1, 0, 2, 4 };
    TgType like = TG_F32;
    uint32_t like_rank = 0;
    for (uint32_t k = 0; k < n; k++) {
        /* often the first one's type and rank, as operators want them */
        TgType type = k && next(b, 2) ? like : PICK(b, types);
        uint32_t rank = k && next(b, 2) ? like_rank : next(b, 6);
        bool known = next(b, 3) == 0, absent = next(b, 16) == 0;
        int64_t numel = 1;
        if (!k) like = type, like_rank = rank;
        d->in[k] = absent ? "" : in_name[k];
        d->node.nin = k + 1;
        if (absent) continue;
        for (uint32_t a = 0; a < rank && a < 5; a++)
            d->shape[k][a] = PICK(b, sizes), d->dim[k][a] = (DimDef){ .size = d->shape[k][a] }, numel *= d->shape[k][a];
        if (rank > 5) rank = 5;
        if (type == TG_STRING && numel > 64) type = TG_F32;
        make_data(d, b, k, type, numel, !known);
        if (known) {
            d->init[d->m.graph.ninit++] = (TensorDef){ .name = in_name[k],
                                                       .type = type,
                                                       .rank = rank,
                                                       .shape = d->shape[k],
                                                       .numel = numel,
                                                       .data = d->data[k],
                                                       .size_bytes = (size_t)numel * 8 };
            continue;
        }
        uint32_t at = d->m.graph.ninput++;
        d->input[at] = (ValueDef){
            .name = in_name[k], .kind = VALUE_TENSOR, .type = (int32_t)type, .rank = (int32_t)rank, .dim = d->dim[k]
        };
        d->tensor[at] =
            (TgTensor){ .type = type, .rank = (int32_t)rank, .data = d->data[k], .size_bytes = (size_t)numel * 8 };
        memcpy(d->tensor[at].shape, d->shape[k], sizeof d->shape[k]);
    }
}

static void make_attributes(Made *d, Bytes *b, uint32_t n)
{
    for (uint32_t k = 0; k < n; k++) {
        uint32_t which = next(b, sizeof names / sizeof *names), count = 1 + next(b, MAX_LIST);
        AttrType type = next(b, 16) ? names[which].type : (AttrType)(1 + next(b, 8));
        const char *word = PICK(b, words);
        for (uint32_t j = 0; j < MAX_LIST; j++)
            d->ints[k][j] = PICK(b, hostile), d->floats[k][j] = (float)d->ints[k][j] / 4;
        if (type == ATTR_TENSOR || type == ATTR_GRAPH || type == ATTR_STRINGS) type = ATTR_INT;
        d->at[k] = (Attr){ .name = names[which].name,
                           .type = type,
                           .i = d->ints[k][0],
                           .f = d->floats[k][0],
                           .s = word,
                           .len = strlen(word),
                           .n = count,
                           .ints = d->ints[k],
                           .floats = d->floats[k] };
        d->node.nattr = k + 1;
    }
}

static bool small(const Imported *im)
{
    Arena *a = arena_new();
    uint32_t n;
    const UOp **u = uop_toposort(im->g, &im->sink, 1, a, &n);
    bool ok = true;
    for (uint32_t k = 0; k < n; k++)
        ok &= u[k]->dtype == DT_VOID || (uop_static(u[k]) && uop_numel(u[k]) < EVALUATED_MAX);
    for (uint32_t k = 0; k < n; k++) ok &= u[k]->op != UOP_CALL;
    for (uint32_t k = 0; k < im->ninput + im->noutput; k++)
        ok &= k < im->ninput ? !im->input_text[k] : !im->output_text[k - im->ninput];
    arena_free(a);
    return ok;
}

static void evaluate(const Imported *im, const Made *d)
{
    const void *param[MAX_IN];
    RefTensor out[3];
    for (uint32_t k = 0; k < im->ninput; k++) param[k] = d->tensor[k].data;
    if (ref_eval(out, im->g, im->sink->src, im->noutput, &(RefInput){ .param = param, .nparam = im->ninput }) != TG_OK)
        return;
    for (uint32_t k = 0; k < im->noutput; k++) ref_tensor_free(&out[k]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    Bytes b = { data, data + size };
    Made *d = calloc(1, sizeof *d);
    Imported im;
    const OpRow *row = &op_rows[next(&b, 65536) % op_row_count];
    uint32_t most = row->most < MAX_IN ? row->most : MAX_IN,
             nin = row->least + (next(&b, 32) ? next(&b, most - row->least + 1) : 3),
             nout = 1 + (next(&b, 8) == 0) + (next(&b, 16) == 0);
    if (nin > MAX_IN) nin = MAX_IN;
    d->opset[0] = (OpsetDef){ "", 1 + next(&b, 27) }, d->opset[1] = (OpsetDef){ "com.microsoft", 1 },
    d->opset[2] = (OpsetDef){ "ai.onnx.ml", 1 + next(&b, 5) };
    d->node = (Node){
        .name = "n", .op = row->name, .domain = row->domain, .nout = nout, .in = d->in, .out = out_name, .attr = d->at
    };
    make_attributes(d, &b, next(&b, MAX_AT));
    make_inputs(d, &b, nin);
    for (uint32_t k = 0; k < nout; k++)
        d->output[k] = (ValueDef){ .name = out_name[k], .kind = VALUE_TENSOR, .rank = -1 };
    d->m = (Model){ .nopset = 3,
                    .opset = d->opset,
                    .graph = { .nnode = 1,
                               .node = &d->node,
                               .ninput = d->m.graph.ninput,
                               .input = d->input,
                               .noutput = nout,
                               .output = d->output,
                               .ninit = d->m.graph.ninit,
                               .init = d->init } };
    if (import_model(&im, &d->m, d->tensor, d->m.graph.ninput, NULL, NULL) == TG_OK) {
        if (small(&im)) evaluate(&im, d);
        graph_free(im.g);
    } else if (!*tg_error()) abort();                               /* refused without a word */
    for (uint32_t k = 0; k < MAX_IN; k++)
        if (d->data[k] != (void *)d->text && d->data[k] != (void *)d->pointer) free(d->data[k]);
    free(d);
    return 0;
}

/* A seed an operator, and as many again with other bytes. */
char *fuzz_seed(size_t k, size_t *size)
{
    if (k >= 4 * (size_t)op_row_count) return NULL;
    uint8_t *s = mem_new(*size = SEED_BYTES);
    uint64_t state = 0x9e3779b97f4a7c15u * (k + 1);
    for (size_t j = 0; j < SEED_BYTES; j++) {
        state ^= state << 13, state ^= state >> 7, state ^= state << 17;
        s[j] = (uint8_t)(state >> 24);
    }
    s[0] = (uint8_t)(k % op_row_count >> 8), s[1] = (uint8_t)(k % op_row_count);
    return (char *)s;
}
