/* Any bytes as a model: loaded or refused with a line. What was loaded is read to its last byte. */
#include <stdlib.h>

#include "onnx/model.h"
#include "tests/fuzz/fuzz.h"
#include "tests/pbtext.h"

static volatile uint64_t sink;

static void touch(const void *p, size_t n)
{
    for (size_t k = 0; k < n; k++) sink += ((const uint8_t *)p)[k];
}

static void touch_tensor(const TensorDef *t)
{
    touch(t->shape, t->rank * sizeof *t->shape);
    touch(t->data, t->size_bytes);
    for (int64_t k = 0; t->type == TG_STRING && k < t->numel; k++)
        touch(((const TensorString *)t->data)[k].s, ((const TensorString *)t->data)[k].len);
}

static void touch_graph(const GraphDef *g);

static void touch_nodes(const Node *node, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        sink += strlen(node[i].name) + strlen(node[i].op) + strlen(node[i].domain);
        for (uint32_t k = 0; k < node[i].nin; k++) touch(node[i].in[k], strlen(node[i].in[k]));
        for (uint32_t k = 0; k < node[i].nout; k++) touch(node[i].out[k], strlen(node[i].out[k]));
        for (uint32_t k = 0; k < node[i].nattr; k++) {
            const Attr *a = &node[i].attr[k];
            if (a->t) touch_tensor(a->t);
            if (a->graph) touch_graph(a->graph);
            if (a->s) touch(a->s, a->len + 1);
            if (a->ints) touch(a->ints, a->n * sizeof *a->ints);
            if (a->floats) touch(a->floats, a->n * sizeof *a->floats);
            for (uint32_t j = 0; a->strings && j < a->n; j++) touch(a->strings[j], strlen(a->strings[j]));
            for (uint32_t j = 0; a->tensors && j < a->n; j++) touch_tensor(a->tensors[j]);
        }
    }
}

static void touch_values(const ValueDef *v, uint32_t n)
{
    for (uint32_t k = 0; k < n; k++) {
        touch(v[k].name, strlen(v[k].name));
        if (v[k].inside) touch_values(v[k].inside, 1);
        for (int32_t d = 0; d < v[k].rank; d++)
            sink += (uint64_t)v[k].dim[d].size + (v[k].dim[d].symbol ? strlen(v[k].dim[d].symbol) : 0);
    }
}

static void touch_graph(const GraphDef *g)
{
    touch_values(g->input, g->ninput);
    touch_values(g->output, g->noutput);
    touch_values(g->value, g->nvalue);
    for (uint32_t k = 0; k < g->ninit; k++) touch_tensor(&g->init[k]);
    touch_nodes(g->node, g->nnode);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    Model *m;
    if (model_load_bytes(&m, data, size, NULL, NULL) != TG_OK) {
        if (!*tg_error()) abort();
        return 0;
    }
    touch_graph(&m->graph);
    for (uint32_t k = 0; k < m->nfunction; k++) touch_nodes(m->function[k].node, m->function[k].nnode);
    model_free(m);
    return 0;
}

static const char *const seeds[] = {
    "1:8 8{2:13} 7{2:'g' 1{1:'x' 2:'y' 3:'n' 4:'Relu'} 11{1:'x' 2{1{1:1 2{1{1:2} 1{2:'n'}}}}} 12{1:'y' 2{1{1:1}}}}",
    "1:8 8{2:13} 7{1{1:'x' 2:'y' 4:'Op' 5{1:'f' 20:1 2~0.5} 5{1:'i' 20:2 3:-3} 5{1:'s' 20:3 4:'text'} 5{1:'t' 20:4 "
    "5{1:2 2:7 7[5 -6]}} 5{1:'fs' 20:6 7~1 7~2} 5{1:'is' 20:7 8:1 8:300} "
    "5{1:'ss' 20:8 9:'p' 9:''} 5{1:'ts' 20:9 10{2:1 4~1}} 5{1:'tp' 20:13 14{4{1{1{1:1}}}}}} 11{1:'x' 2{1{1:1}}} "
    "12{1:'y'}}",
    "1:8 8{2:13} 7{1{1:'x' 2:'y' 4:'If' 5{1:'b' 20:5 6{1{1:'late' 2:'o' 4:'Abs'} 12{1:'o'}}}} 1{1:'x' 2:'late' "
    "4:'Abs'} 11{1:'x' 2{1{1:9}}} 12{1:'y'}}",
    "1:10 8{2:21} 8{1:'f' 2:1} 25{1:'A' 10:'f' 4:'a' 5:'b' 6:'k' 11{1:'e' 20:1 2~2} 9{2:13} 7{1:'a' 2:'b' 4:'Elu' "
    "5{1:'alpha' 20:1 21:'k'}}} 7{1{1:'x' 2:'y' 4:'A' 7:'f' 5{1:'k' 20:1 2~1}} "
    "11{1:'x' 2{1{1:1}}} 12{1:'y'}}",
    "1:3 8{2:9} 7{12{1:'w'} 5{8:'w' 1:2 2:1 9#0000803f00000040#} 5{8:'s' 1:2 2:8 6:'a' 6:''} 5{8:'h' 1:2 2:10 5[15360 "
    "49152]} 5{8:'q' 1:3 2:22 9#f10f#} 5{8:'b' 1:2 2:9 9#02ff#} "
    "5{8:'d' 1:1 2:11 10^1} 5{8:'u' 1:1 2:12 11[7]} 5{8:'e' 1:2 2:1 14:1 13{1:'location' 2:'w.bin'} 13{1:'offset' "
    "2:'4'}} 15{1{8:'sp' 1:1 2:1 4~1} 2{1:1 2:7 7[1]} 3:4}}",
};

char *fuzz_seed(size_t k, size_t *size)
{
    if (k >= sizeof seeds / sizeof *seeds) return NULL;
    Text t = pb_text(seeds[k]);
    *size = t.len;
    return t.s;
}
