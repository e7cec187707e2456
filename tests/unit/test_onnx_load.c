/* Loading: a table of models that must be refused, each with its exit code and a part of its message; models that look
 * odd and are fine; damage of every kind to a good one. Numbers of fields are onnx-ml.proto's: tests/pbtext.h has the
 * notation. */
#include "onnx/model.h"
#include "tests/pbtext.h"
#include "tests/test.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <xxhash.h>

#define HEAD "1:8 8{2:13} "
#define F32 "2{1{1:1 2{1{1:2}}}}"
#define X "11{1:'x' " F32 "} "
#define Y "12{1:'y' " F32 "} "
#define RELU "1{1:'x' 2:'y' 3:'n' 4:'Relu'} "
#define GRAPH(...) HEAD "7{2:'g' " __VA_ARGS__ "}"
#define GOOD GRAPH(RELU X Y)
#define ATTR(...) GRAPH("1{1:'x' 2:'y' 3:'n' 4:'Op' 5{" __VA_ARGS__ "}} " X Y)
#define INIT(...) GRAPH(RELU X Y "5{8:'w' " __VA_ARGS__ "}")
#define FUNC(...) HEAD "8{1:'f' 2:1} 7{1{1:'x' 2:'y' 4:'A' 7:'f'} " X Y "} " __VA_ARGS__

typedef struct { const char *name, *model; TgStatus status; const char *says; } Refused;
static const Refused refused[] = {
    /* bytes */
    { "empty", "", TG_BAD_MODEL, "is empty" },
    { "html", "!3c21646f63747970652068746d6c3e!", TG_BAD_MODEL, "HTML" },
    { "gzip", "!1f8b0800000000000003!", TG_BAD_MODEL, "gzip" },
    { "zip", "!504b0304140000000800!", TG_BAD_MODEL, "zip" },
    { "git lfs", "!76657273696f6e2068747470733a2f2f6769742d6c66732e6769746875622e636f6d2f737065632f7631!", TG_BAD_MODEL, "LFS" },
    { "length past the end", HEAD "!3aff01!", TG_BAD_MODEL, "past the end" },
    { "length of 2^31-1", HEAD "!3affffffff07!", TG_BAD_MODEL, "past the end" },
    { "length of 2^32+5", HEAD "!3a85808080100000000000!", TG_BAD_MODEL, "past the end" },
    { "length of 2^64-1", HEAD "!3affffffffffffffffff01!", TG_BAD_MODEL, "past the end" },
    { "inner length past its message", HEAD "7{!120a67!}", TG_BAD_MODEL, "GraphProto.name" },
    { "varint of 11 bytes", "!08ffffffffffffffffffff01!", TG_BAD_MODEL, "does not end" },
    { "varint without end", HEAD "!2880!", TG_BAD_MODEL, "does not end" },
    { "field 0", HEAD "!0000!", TG_BAD_MODEL, "no field starts here" },
    { "wire type 6", HEAD "!3e00!", TG_BAD_MODEL, "wire type" },
    { "wire type 7", HEAD "!3f00!", TG_BAD_MODEL, "wire type" },
    { "end of a group", HEAD "!0c!", TG_BAD_MODEL, "groups" },
    { "start of groups", "!0b0b0b0b0b0b0b0b!", TG_BAD_MODEL, "groups" },
    { "known field, wrong wire type", "1:'8'", TG_BAD_MODEL, "ModelProto.ir_version" },
    { "graph as a number", HEAD "7:5", TG_BAD_MODEL, "ModelProto.graph" },
    { "graph twice", HEAD "7{2:'a'} 7{2:'b'}", TG_BAD_MODEL, "given twice" },
    { "two types in one", GRAPH(RELU Y "11{1:'x' 2{1{1:1} 4{1{1{1:1}}}}}"), TG_BAD_MODEL, "given twice" },
    { "trailing bytes", GOOD "!ff!", TG_BAD_MODEL, "no field starts here" },
    { "zero byte in a name", GRAPH("1{1:'x' 2:'y' 3#61006e# 4:'Relu'} " X Y), TG_BAD_MODEL, "NodeProto.name: holds a zero byte" },
    { "name is not UTF-8", GRAPH("1{1:'x' 2:'y' 3#c328# 4:'Relu'} " X Y), TG_BAD_MODEL, "not UTF-8" },
    { "name is a surrogate", GRAPH("1{1:'x' 2:'y' 3#eda080# 4:'Relu'} " X Y), TG_BAD_MODEL, "not UTF-8" },
    { "packed numbers end inside one", INIT("1:2 2:1 4#0000803f00#"), TG_BAD_MODEL, "TensorProto.float_data" },
    /* model and graph */
    { "no graph", HEAD, TG_BAD_MODEL, "graph: the model has none" },
    { "no ir_version", "8{2:13} 7{" RELU X Y "}", TG_BAD_MODEL, "ir_version" },
    { "ir_version from the future", "1:99 8{2:13} 7{" RELU X Y "}", TG_UNSUPPORTED, "ir_version: 99" },
    { "no opset", "1:8 7{" RELU X Y "}", TG_BAD_MODEL, "opset_import" },
    { "opset 0", "1:8 8{2:0} 7{" RELU X Y "}", TG_BAD_MODEL, "version 0" },
    { "opset -1", "1:8 8{2:-1} 7{" RELU X Y "}", TG_BAD_MODEL, "version -1" },
    { "one domain in two versions", "1:8 8{2:13} 8{1:'ai.onnx' 2:14} 7{" RELU X Y "}", TG_BAD_MODEL, "two versions" },
    { "domain without an import", GRAPH("1{1:'x' 2:'y' 3:'n' 4:'Relu' 7:'com.acme'} " X Y), TG_BAD_MODEL, "node 'n' (Relu): domain: 'com.acme'" },
    { "no outputs", GRAPH(RELU X), TG_BAD_MODEL, "no outputs" },
    { "output without a name", GRAPH(RELU X "12{1:'' " F32 "}"), TG_BAD_MODEL, "output 0 has no name" },
    { "output of nobody", GRAPH(RELU X "12{1:'z' " F32 "}"), TG_BAD_MODEL, "output 'z'" },
    { "undefined tensor", GRAPH("1{1:'q' 2:'y' 3:'n' 4:'Relu'} " X Y), TG_BAD_MODEL, "node 'n' (Relu): input: 'q' is made by no node" },
    { "node reads itself", GRAPH("1{1:'y' 2:'y' 3:'n' 4:'Relu'} " X Y), TG_BAD_MODEL, "cycle: 'n'" },
    { "cycle", GRAPH("1{1:'b' 2:'a' 3:'one' 4:'Relu'} 1{1:'a' 2:'b' 3:'two' 4:'Relu'} " RELU X Y), TG_BAD_MODEL, "'two' -> 'one'" },
    { "made by two nodes", GRAPH(RELU "1{1:'x' 2:'y' 3:'m' 4:'Abs'} " X Y), TG_BAD_MODEL, "'y' is made by node 'n' too" },
    { "made twice by one node", GRAPH("1{1:'x' 2:'y' 2:'y' 3:'n' 4:'Split'} " X Y), TG_BAD_MODEL, "made by node 'n' too" },
    { "output shadows an input", GRAPH(RELU "1{1:'x' 2:'x' 3:'m' 4:'Abs'} " X Y), TG_BAD_MODEL, "name of an input" },
    { "output is an initializer", GRAPH(RELU X Y "5{8:'y' 1:1 2:1 4~1}"), TG_BAD_MODEL, "name of an initializer" },
    { "input twice", GRAPH(RELU X X Y), TG_BAD_MODEL, "input 'x' is given twice" },
    { "initializer twice", GRAPH(RELU X Y "5{8:'w' 1:1 2:1 4~1} 5{8:'w' 1:1 2:1 4~1}"), TG_BAD_MODEL, "initializer 'w' is given twice" },
    { "initializer without a name", GRAPH(RELU X Y "5{1:1 2:1 4~1}"), TG_BAD_MODEL, "initializer 0 has no name" },
    { "no op_type", GRAPH("1{1:'x' 2:'y' 3:'n'} " X Y), TG_BAD_MODEL, "op_type" },
    { "input without a type", GRAPH(RELU Y "11{1:'x'}"), TG_BAD_MODEL, "x: input has no type" },
    { "input of type 0", GRAPH(RELU Y "11{1:'x' 2{1{2{1{1:2}}}}}"), TG_BAD_MODEL, "x: input has no type" },
    { "input of type 777", GRAPH(RELU Y "11{1:'x' 2{1{1:777}}}"), TG_BAD_MODEL, "777" },
    { "dimension -7", GRAPH(RELU Y "11{1:'x' 2{1{1:1 2{1{1:-7}}}}}"), TG_BAD_MODEL, "dimension 0 is -7" },
    { "17 dimensions", GRAPH(RELU Y "11{1:'x' 2{1{1:1 2{1(17){1:1}}}}}"), TG_UNSUPPORTED, "rank 17" },
    { "subgraph reads an unknown name", ATTR("1:'body' 20:5 6{1{1:'z' 2:'o' 3:'in' 4:'Abs'} 12{1:'o'}}"), TG_BAD_MODEL, "node 'in' (Abs): input: 'z'" },
    { "subgraph's output of nobody", ATTR("1:'body' 20:5 6{12{1:'o'}}"), TG_BAD_MODEL, "output 'o'" },
    { "cycle through a subgraph", GRAPH("1{1:'x' 2:'y' 3:'n' 4:'If' 5{1:'body' 20:5 6{1{1:'y' 2:'o' 4:'Abs'} 12{1:'o'}}}} " X Y), TG_BAD_MODEL, "cycle" },
    /* attributes */
    { "says FLOAT, holds INT", ATTR("1:'a' 20:1 3:5"), TG_BAD_MODEL, "node 'n' (Op): a: says FLOAT, but holds INT" },
    { "attribute type 999", ATTR("1:'a' 20:999 3:5"), TG_BAD_MODEL, "999" },
    { "attribute type -1", ATTR("1:'a' 20:-1 3:5"), TG_BAD_MODEL, "node 'n' (Op): a" },
    { "attribute without a name", ATTR("20:2 3:5"), TG_BAD_MODEL, "attribute: has no name" },
    { "attribute twice", GRAPH("1{1:'x' 2:'y' 3:'n' 4:'Op' 5{1:'a' 20:2 3:5} 5{1:'a' 20:2 3:6}} " X Y), TG_BAD_MODEL, "a: is given twice" },
    { "TENSOR without a tensor", ATTR("1:'a' 20:4"), TG_BAD_MODEL, "says TENSOR, but holds nothing" },
    { "neither type nor value", ATTR("1:'a'"), TG_BAD_MODEL, "neither type nor value" },
    { "zero byte in a string", ATTR("1:'a' 20:3 4#5641004c#"), TG_BAD_MODEL, "zero byte" },
    { "short tensor in an attribute", ATTR("1:'value' 20:4 5{1:3 2:1 4[1]}"), TG_BAD_MODEL, "float_data" },
    { "reference outside a function", ATTR("1:'a' 20:2 21:'b'"), TG_BAD_MODEL, "outside a function" },
    { "list of graphs", ATTR("1:'a' 20:10 11{2:'g'}"), TG_UNSUPPORTED, "lists of graphs" },
    /* tensors */
    { "data_type 0", INIT("1:1 4~1"), TG_BAD_MODEL, "initializer 'w': tensor without a data_type" },
    { "data_type 999", INIT("1:1 2:999 4~1"), TG_BAD_MODEL, "data_type 999" },
    { "data_type -1", INIT("1:1 2:-1 4~1"), TG_BAD_MODEL, "data_type -1" },
    { "negative dim", INIT("1:-1 2:1 9#00000000#"), TG_BAD_MODEL, "dims" },
    { "two negative dims", INIT("1:-1 1:-1 2:1 9#00000000#"), TG_BAD_MODEL, "dims" },
    { "dim of INT64_MIN", INIT("1:-9223372036854775808 2:1 9#00000000#"), TG_BAD_MODEL, "dims" },
    { "dims that wrap to 0", INIT("1:4294967296 1:4294967296 2:1"), TG_BAD_MODEL, "dims" },
    { "dims that wrap to 4", INIT("1:4611686018427387905 1:4 2:2 9#00000000#"), TG_BAD_MODEL, "dims" },
    { "bytes that wrap", INIT("1:2305843009213693953 2:11 9#0000000000000000#"), TG_BAD_MODEL, "dims" },
    { "raw short", INIT("1:2 2:1 9#00000000000000#"), TG_BAD_MODEL, "raw_data has 7 bytes; type and shape need 8" },
    { "raw long", INIT("1:2 2:1 9#000000000000000000#"), TG_BAD_MODEL, "raw_data has 9 bytes" },
    { "no data", INIT("1:2 2:1"), TG_BAD_MODEL, "no data" },
    { "typed short", INIT("1:3 2:7 7[1 2]"), TG_BAD_MODEL, "int64_data has 2 values; type and shape need 3" },
    { "wrong typed field", INIT("1:1 2:7 5[1]"), TG_BAD_MODEL, "int32_data cannot hold i64" },
    { "data in two places", INIT("1:1 2:6 5[1] 9#00000000#"), TG_BAD_MODEL, "two places" },
    { "int8 value 300", INIT("1:1 2:3 5[300]"), TG_BAD_MODEL, "value 300 at 0 is outside i8" },
    { "u8 value -1", INIT("1:1 2:2 5[-1]"), TG_BAD_MODEL, "value -1" },
    { "bool 2", INIT("1:1 2:9 5[2]"), TG_BAD_MODEL, "outside bool" },
    { "u32 value 2^32", INIT("1:1 2:12 11[4294967296]"), TG_BAD_MODEL, "outside u32" },
    { "strings as raw", INIT("1:1 2:8 9#61#"), TG_BAD_MODEL, "string_data" },
    { "rank 17", INIT("1[1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1] 2:1 4~1"), TG_UNSUPPORTED, "rank 17" },
    { "in segments", INIT("1:1 2:1 4~1 3{1:0 2:1}"), TG_UNSUPPORTED, "segments" },
    { "data_location 5", INIT("1:1 2:1 4~1 14:5"), TG_BAD_MODEL, "data_location 5" },
    { "external without a folder", INIT("1:1 2:1 14:1 13{1:'location' 2:'w.bin'}"), TG_BAD_MODEL, "no folder" },
    { "sparse index outside", GRAPH(RELU X Y "15{1{8:'w' 1:1 2:1 4~1} 2{1:1 2:7 7[4]} 3:4}"), TG_BAD_MODEL, "position of value 0 is outside" },
    { "sparse of TiB", GRAPH(RELU X Y "15{1{8:'w' 1:1 2:1 4~1} 2{1:1 2:7 7[4]} 3:1099511627776}"), TG_LIMIT, "sparse tensors of more than" },
    { "sparse without indices", GRAPH(RELU X Y "15{1{8:'w' 1:1 2:1 4~1} 3:4}"), TG_BAD_MODEL, "without values or indices" },
    /* functions */
    { "function calls itself", FUNC("25{1:'A' 10:'f' 4:'a' 5:'b' 7{1:'a' 2:'b' 4:'A' 7:'f'}}"), TG_BAD_MODEL, "'A' calls itself" },
    { "two functions call each other", FUNC("25{1:'A' 10:'f' 4:'a' 5:'b' 7{1:'a' 2:'b' 4:'B' 7:'f'}} 25{1:'B' 10:'f' 4:'a' 5:'b' 7{1:'a' 2:'b' 4:'A' 7:'f'}}"), TG_BAD_MODEL, "calls itself" },
    { "function twice", FUNC("25(2){1:'A' 10:'f' 4:'a' 5:'b' 9{2:13} 7{1:'a' 2:'b' 4:'Abs'}}"), TG_BAD_MODEL, "'A' is given twice" },
    { "function reads an unknown name", FUNC("25{1:'A' 10:'f' 4:'a' 5:'b' 9{2:13} 7{1:'x' 2:'b' 3:'n' 4:'Abs'}}"), TG_BAD_MODEL, "node 'n' (Abs): input: 'x'" },
    { "function's output of nobody", FUNC("25{1:'A' 10:'f' 4:'a' 5:'b' 9{2:13}}"), TG_BAD_MODEL, "function 'A': output 'b'" },
    { "function without imports", FUNC("25{1:'A' 10:'f' 4:'a' 5:'b' 7{1:'a' 2:'b' 3:'n' 4:'Abs'}}"), TG_BAD_MODEL, "node 'n' (Abs): domain: 'ai.onnx'" },
    { "reference to no attribute", FUNC("25{1:'A' 10:'f' 4:'a' 5:'b' 6:'k' 9{2:13} 7{1:'a' 2:'b' 3:'n' 4:'Elu' 5{1:'alpha' 20:1 21:'q'}}}"), TG_BAD_MODEL, "alpha: refers to 'q'" },
};

static TgStatus load_text(Model **m, Text *bytes, const char *model)
{
    *bytes = pb_text(model);
    return model_load_bytes(m, bytes->s, bytes->len, NULL, NULL);
}

/* What a failed load owes its caller: one line without control characters that is not empty. */
static void check_line(void)
{
    const char *line = tg_error();
    assert_true(*line);
    for (const char *c = line; *c; c++) assert_false(iscntrl((unsigned char)*c));
}

static void refuses(void **state)
{
    (void)state;
    for (size_t k = 0; k < sizeof refused / sizeof *refused; k++) {
        Model *m = NULL;
        Text bytes;
        TgStatus status = load_text(&m, &bytes, refused[k].model);
        bool right = status == refused[k].status && (!refused[k].says || strstr(tg_error(), refused[k].says));
        if (!right)
            print_error("%s: status %d, \"%s\"; expected %d, \"%s\"\n", refused[k].name, status, tg_error(),
                        refused[k].status, refused[k].says);
        assert_true(right);
        if (status == TG_OK) model_free(m);
        else check_line();
        text_free(&bytes);
    }
}

/* ---- what looks odd and is fine */

typedef struct { const char *name, *model; } Accepted;
static const Accepted accepted[] = {
    { "plain", GOOD },
    { "unknown fields of every wire type", GRAPH(RELU X Y "99:5 97~1 96^1 95{1:1} 94:'text'") },
    { "needless bytes in numbers", "!888000888000! 8{2:13} 7{" RELU X Y "}" },
    { "fields in another order", "7{" Y X RELU "} 8{2:13} 1:8" },
    { "nodes in another order",
      GRAPH("1{1:'b' 2:'y' 3:'last' 4:'Abs'} 1{1:'a' 2:'b' 4:'Abs'} 1{1:'x' 2:'a' 4:'Abs'} " X Y) },
    { "initializer among the inputs",
      GRAPH("1{1:'x' 1:'w' 2:'y' 4:'Add'} " X "11{1:'w' " F32 "} " Y "5{8:'w' 1:2 2:1 4~1 4~2}") },
    { "output is an input", GRAPH("12{1:'x' " F32 "} " X) },
    { "output is an initializer", GRAPH(X "12{1:'w'} 5{8:'w' 1:1 2:1 4~1}") },
    { "dead nodes, unused initializers", GRAPH(RELU "1{1:'x' 2:'dead' 4:'Abs'} " X Y "5{8:'w' 1:1 2:1 4~1}") },
    { "absent optional inputs and outputs", GRAPH("1{1:'x' 1:'' 1:'x' 2:'y' 2:'' 2:'' 4:'Clip'} " X Y) },
    { "empty tensor", INIT("1:0 1:3 2:1") },
    { "empty tensor with a dim that would wrap", INIT("1:0 1:4611686018427387904 1:4611686018427387904 2:1") },
    { "scalar", INIT("2:1 4~1") },
    { "free, negative and named dims", GRAPH(RELU Y "11{1:'x' 2{1{1:1 2{1{1:-1} 1{} 1{2:'n'} 1{2:''}}}}}") },
    { "no shape", GRAPH(RELU Y "11{1:'x' 2{1{1:1}}}") },
    { "before IR 3: no imports, untyped attributes",
      "1:1 7{1{1:'x' 2:'y' 4:'Op' 5{1:'a' 2~1} 5{1:'b' 8:1 8:2}} " X Y "}" },
    { "subgraph reads outer names and shadows one",
      ATTR("1:'body' 20:5 6{1{1:'x' 2:'q' 4:'Abs'} 1{1:'q' 2:'y' 4:'Abs'} 12{1:'y'}}") },
    { "subgraph in a node before what it reads",
      GRAPH("1{1:'x' 2:'y' 4:'If' 5{1:'b' 20:5 6{1{1:'late' 2:'o' 4:'Abs'} 12{1:'o'}}}} 1{1:'x' 2:'late' 4:'Abs'} " X
                Y) },
    { "functions",
      FUNC("25{1:'A' 10:'f' 4:'a' 5:'b' 6:'k' 9{2:13} 9{1:'f' 2:1} 7{1:'a' 2:'t' 4:'Elu' 5{1:'alpha' 20:1 21:'k'}} "
           "7{1:'t' 2:'b' 4:'B' 7:'f' 8:'v2'}} "
           "25{1:'B' 13:'v2' 10:'f' 4:'a' 5:'b' 11{1:'e' 20:1 2~2} 9{2:13} 7{1:'a' 2:'b' 4:'Elu' 5{1:'alpha' 20:1 "
           "21:'e'}}}") },
    { "sequence and optional inputs",
      GRAPH(RELU X Y
            "11{1:'s' 2{4{1{1{1:1}}}}} 11{1:'o' 2{9{1{4{1{1{1:7 2{1{1:3}}}}}}}}} 11{1:'m' 2{5{1:7 2{1{1:1}}}}}") },
    { "sparse initializer", GRAPH(RELU X Y "15{1{8:'w' 1:2 2:1 4~1 4~2} 2{1:2 1:2 2:7 7[0 1 1 0]} 3:2 3:2}") },
    { "hostile names", GRAPH("1{1:'x' 2:'y' 3#2a2f0a1b5b33316d25732522# 4:'Relu'}" X Y) },
};

static void accepts(void **state)
{
    (void)state;
    for (size_t k = 0; k < sizeof accepted / sizeof *accepted; k++) {
        Model *m;
        Text bytes;
        TgStatus status = load_text(&m, &bytes, accepted[k].model);
        if (status != TG_OK) print_error("%s: %s\n", accepted[k].name, tg_error());
        assert_int_equal(status, TG_OK);
        model_free(m);
        text_free(&bytes);
    }
}

/* ---- what comes out */

static void contents(void **state)
{
    (void)state;
    Model *m;
    Text bytes;
    assert_int_equal(load_text(&m, &bytes,
                               HEAD "2:'maker' 8{1:'ai.onnx.ml' 2:3} 7{2:'g'"
                                    "1{1:'b' 2:'y' 3:'late' 4:'Abs'}"
                                    "1{1:'x' 1:'' 2:'b' 4:'Op' 7:'ai.onnx' 5{1:'f' 20:1 2~0.5} 5{1:'i' 20:2 3:-3} "
                                    "5{1:'s' 20:3 4:'text'} 5{1:'t' 20:4 5{1:2 2:7 7[5 -6]}}"
                                    "5{1:'fs' 20:6 7~1 7~2} 5{1:'is' 20:7 8:1 8:-2 8:300} 5{1:'ss' 20:8 9:'p' 9:''} "
                                    "5{1:'tp' 20:13 14{4{1{1{1:1}}}}} 5{1:'zero' 20:2}}"
                                    "11{1:'x' 2{1{1:1 2{1{1:-1} 1{2:'n'} 1{1:3}}}}} 11{1:'w' " F32
                                    "} 12{1:'y' 2{4{1{1{1:10}}}}} 5{8:'w' 1:2 2:1 9#0000803f00000040#}"
                                    "15{1{8:'sp' 1:2 2:1 4~7 4~8} 2{1:2 1:2 2:7 7[0 1 1 0]} 3:2 3:2} }"),
                     TG_OK);
    const GraphDef *g = &m->graph;
    const Node *n = &g->node[0];
    assert_int_equal(model_opset(m, ""), 13);
    assert_int_equal(model_opset(m, "ai.onnx"), 13);
    assert_int_equal(model_opset(m, "ai.onnx.ml"), 3);
    assert_int_equal(model_opset(m, "other"), 0);
    assert_string_equal(m->about.producer_name, "maker");
    assert_int_equal(g->nnode, 2);
    assert_string_equal(g->node[1].name, "late");       /* moved behind what it reads */
    assert_string_equal(n->name, "b");                  /* it has none: its first output's */
    assert_string_equal(n->domain, "");
    assert_int_equal(n->nin, 2);
    assert_string_equal(n->in[1], "");
    assert_int_equal(n->nattr, 9);
    assert_true(n->attr[0].f == 0.5f && n->attr[1].i == -3 && n->attr[2].len == 4 && !strcmp(n->attr[2].s, "text"));
    assert_true(n->attr[3].t->numel == 2 && ((const int64_t *)n->attr[3].t->data)[1] == -6);
    assert_true(n->attr[4].n == 2 && n->attr[4].floats[1] == 2 && n->attr[5].n == 3 && n->attr[5].ints[2] == 300 &&
                n->attr[5].ints[1] == -2);
    assert_true(n->attr[6].n == 2 && !strcmp(n->attr[6].strings[0], "p") && !strcmp(n->attr[6].strings[1], ""));
    assert_true(n->attr[7].tp->kind == VALUE_SEQUENCE && n->attr[7].tp->type == TG_F32 && n->attr[8].i == 0);
    assert_int_equal(g->ninput, 1);                     /* w is set by an initializer */
    assert_int_equal(g->input[0].rank, 3);
    assert_true(g->input[0].dim[0].size == -1 && !g->input[0].dim[0].symbol &&
                !strcmp(g->input[0].dim[1].symbol, "n") && g->input[0].dim[2].size == 3);
    assert_true(g->output[0].kind == VALUE_SEQUENCE && g->output[0].type == TG_F16 && g->output[0].rank == -1);
    assert_int_equal(g->ninit, 2);
    assert_true(((const float *)g->init[0].data)[1] == 2);
    const float dense[] = { 0, 7, 8, 0 };
    assert_string_equal(g->init[1].name, "sp");
    assert_memory_equal(g->init[1].data, dense, sizeof dense);
    model_free(m);
    text_free(&bytes);
}

/* What a port holds, from outside in; its tensors' type and shape are given outside too. */
static void types_inside_types(void **state)
{
    (void)state;
    Model *m;
    Text bytes;
    assert_int_equal(
        load_text(&m, &bytes,
                  GRAPH(RELU X Y "11{1:'o' 2{9{1{4{1{1{1:7 2{1{1:3}}}}}}}}} 11{1:'m' 2{4{1{5{1:8 2{1{1:1}}}}}}}")),
        TG_OK);
    const ValueDef *o = &m->graph.input[1], *s = &m->graph.input[2];
    assert_true(o->kind == VALUE_OPTIONAL && o->inside->kind == VALUE_SEQUENCE &&
                o->inside->inside->kind == VALUE_TENSOR && !o->inside->inside->inside);
    assert_true(o->type == TG_I64 && o->rank == 1 && o->dim[0].size == 3 && o->inside->inside->type == TG_I64);
    assert_true(s->kind == VALUE_SEQUENCE && s->inside->kind == VALUE_MAP && s->inside->key == TG_STRING &&
                s->inside->inside->kind == VALUE_TENSOR && s->type == TG_F32);
    model_free(m);
    text_free(&bytes);
    assert_int_equal(load_text(&m, &bytes, GRAPH(RELU X Y "11{1:'deep' 2{4{1{4{1{4{1{4{1{4{1{1{1:1}}}}}}}}}}}}}")),
                     TG_UNSUPPORTED);
    assert_string_equal(tg_error(), "deep: more than 4 types inside one another");
    text_free(&bytes);
    assert_int_equal(load_text(&m, &bytes, GRAPH(RELU X Y "11{1:'m' 2{5{1:1 2{1{1:1}}}}}")), TG_BAD_MODEL);
    assert_string_equal(tg_error(), "m: key type 1 is neither of integers nor of strings");
    text_free(&bytes);
}

/* Each type, in each way that the standard allows: the bytes that must come out. */
static const struct { const char *tensor; int32_t type; const char *bytes; } tensors[] = {
    { "1:2 2:1 4~1 4~-2", TG_F32, "0000803f000000c0" },
    { "1:2 2:1 4#0000803f000000c0#", TG_F32, "0000803f000000c0" },
    { "1:2 2:1 9#0000803f000000c0#", TG_F32, "0000803f000000c0" },
    { "1:3 2:2 5[0 1 255]", TG_U8, "0001ff" },
    { "1:3 2:3 5[-128 -1 127]", TG_I8, "80ff7f" },
    { "1:2 2:4 5[0 65535]", TG_U16, "0000ffff" },
    { "1:2 2:5 5[-32768 -1]", TG_I16, "0080ffff" },
    { "1:2 2:6 5[-1 7]", TG_I32, "ffffffff07000000" },
    { "1:2 2:6 5:-1 5:7", TG_I32, "ffffffff07000000" },
    { "1:2 2:7 7[-1 7]", TG_I64, "ffffffffffffffff0700000000000000" },
    { "1:2 2:9 5[0 1]", TG_BOOL, "0001" },
    { "1:3 2:9 9#0002ff#", TG_BOOL, "000101" },
    { "1:2 2:10 5[15360 49152]", TG_F16, "003c00c0" },
    { "1:1 2:11 10^1", TG_F64, "000000000000f03f" },
    { "1:1 2:12 11[4294967295]", TG_U32, "ffffffff" },
    { "1:1 2:13 11[-1]", TG_U64, "ffffffffffffffff" },
    { "1:1 2:14 4~1 4~-2", TG_COMPLEX64, "0000803f000000c0" },
    { "1:1 2:15 10^1 10^1", TG_COMPLEX128, "000000000000f03f000000000000f03f" },
    { "1:1 2:16 5[16256]", TG_BF16, "803f" },
    { "1:2 2:17 5[56 184]", TG_F8E4M3FN, "38b8" },
    { "1:2 2:24 5[127 128]", TG_F8E8M0, "7f80" },
    { "1:3 2:21 5[33 3]", TG_U4, "2103" },
    { "1:3 2:22 9#f10f#", TG_I4, "f10f" },
    { "1:2 2:23 9#21#", TG_F4E2M1, "21" },
    { "1:5 2:25 9#e401#", TG_U2, "e401" },
    { "1:1 2:26 5[3]", TG_I2, "03" },
    { "1:5 2:27 5[1 63 32 0 7]", TG_F6E2M3, "c10f0207" },
    { "1:5 2:28 9#c10f0207#", TG_F6E3M2, "c10f0207" },
};

static void tensor_types(void **state)
{
    (void)state;
    for (size_t k = 0; k < sizeof tensors / sizeof *tensors; k++) {
        char model[600], hex[80] = "";
        Model *m;
        Text bytes;
        snprintf(model, sizeof model, GRAPH(RELU X Y "5{8:'w' %s}"), tensors[k].tensor);
        TgStatus status = load_text(&m, &bytes, model);
        if (status != TG_OK) print_error("%s: %s\n", tensors[k].tensor, tg_error());
        assert_int_equal(status, TG_OK);
        const TensorDef *t = &m->graph.init[0];
        for (size_t i = 0; i < t->size_bytes; i++) sprintf(hex + 2 * i, "%02x", ((const uint8_t *)t->data)[i]);
        assert_int_equal(t->type, tensors[k].type);
        assert_string_equal(hex, tensors[k].bytes);
        model_free(m);
        text_free(&bytes);
    }
}

static void string_tensor(void **state)
{
    (void)state;
    Model *m;
    Text bytes;
    assert_int_equal(load_text(&m, &bytes, INIT("1:3 2:8 6:'one' 6:'' 6#610062#")), TG_OK);
    const TensorString *s = m->graph.init[0].data;
    assert_true(s[0].len == 3 && !memcmp(s[0].s, "one", 3) && !s[1].len && s[2].len == 3 && !memcmp(s[2].s, "a\0b", 3));
    model_free(m);
    text_free(&bytes);
}

/* Raw bytes lie in place when their address suits their type, and are moved when not: at each of eight offsets. */
static void alignment(void **state)
{
    (void)state;
    for (size_t pad = 0; pad < 8; pad++) {
        char model[400];
        Model *m;
        Text bytes;
        snprintf(model, sizeof model, GRAPH("10:'%.*s' " RELU X Y "5{8:'w' 1:1 2:11 9#000000000000f03f#}"), (int)pad,
                 "12345678");
        assert_int_equal(load_text(&m, &bytes, model), TG_OK);
        const double *v = m->graph.init[0].data;
        assert_true((uintptr_t)v % 8 == 0 && *v == 1);
        model_free(m);
        text_free(&bytes);
    }
}

static void digest(void **state)
{
    (void)state;
    Model *m;
    Text bytes;
    XXH128_canonical_t c;
    char hex[33];
    assert_int_equal(load_text(&m, &bytes, GOOD), TG_OK);
    XXH128_canonicalFromHash(&c, XXH3_128bits(bytes.s, bytes.len));
    for (int k = 0; k < 16; k++) sprintf(hex + 2 * k, "%02x", c.digest[k]);
    assert_string_equal(m->hash, hex);
    model_free(m);
    text_free(&bytes);
}

/* ---- damage */

static const char sample[] = HEAD
    "8{1:'f' 2:1} 25{1:'A' 10:'f' 4:'a' 5:'b' 6:'k' 9{2:13} 7{1:'a' 2:'b' 4:'Elu' 5{1:'alpha' 20:1 21:'k'}}}"
    "7{1{1:'x' 1:'w' 2:'a' 4:'Add'} 1{1:'a' 2:'y' 3:'n' 4:'A' 7:'f' 5{1:'k' 20:1 2~0.5} 5{1:'g' 20:5 6{1{1:'a' 2:'o' "
    "4:'Abs'} 12{1:'o'}}} 5{1:'v' 20:7 8[1 2 3]}}" X Y "13{1:'a' " F32
    "} 5{8:'w' 1:2 2:1 9#0000803f00000040#} 5{8:'s' 1:1 2:8 6:'str'} 15{1{8:'sp' 1:1 2:1 4~1} 2{1:1 2:7 7[1]} 3:4}}";

/* A file that is cut short has lost its graph, so none is a model. Each copy has exactly its bytes, so that a sanitizer
 * sees a read behind them. */
static void truncations(void **state)
{
    (void)state;
    Text bytes = pb_text(sample);
    for (size_t n = 0; n < bytes.len; n++) {
        Model *m;
        char *cut = memcpy(malloc(n + 1), bytes.s, n);
        assert_int_equal(model_load_bytes(&m, cut, n, NULL, NULL), TG_BAD_MODEL);
        check_line();
        free(cut);
    }
    text_free(&bytes);
}

static void single_bytes(void **state)
{
    (void)state;
    Text bytes = pb_text(sample);
    char *copy = malloc(bytes.len);
    for (size_t at = 0; at < bytes.len; at++)
        for (int change = 1; change < 256; change += change < 8 || change > 240 ? 1 : 7) {
            Model *m;
            memcpy(copy, bytes.s, bytes.len);
            copy[at] ^= (char)change;
            TgStatus status = model_load_bytes(&m, copy, bytes.len, NULL, NULL);
            if (status == TG_OK) model_free(m);
            else check_line();
        }
    free(copy);
    text_free(&bytes);
}

/* ---- bombs: refused or read in a moment, with bounded memory and stack */

static TgStatus load_bytes(const Text *t)
{
    Model *m;
    TgStatus status = model_load_bytes(&m, t->s, t->len, NULL, NULL);
    if (status == TG_OK) model_free(m);
    return status;
}

/* depth messages inside one another, around nothing; number: their fields' numbers from the outside, the last `period`
 * of the n over and over. */
static Text nested(const uint64_t *number, size_t n, size_t period, size_t depth)
{
    Text t = { 0 };
    uint8_t *back = malloc(depth * 12), *p = back + depth * 12;
    for (size_t k = 0, size = 0; k < depth; k++, size = (size_t)(back + depth * 12 - p)) {
        Text head = { 0 };
        size_t at = depth - 1 - k;
        pb_varint(&head, number[at < n ? at : n - period + (at - n) % period] << 3 | 2);
        pb_varint(&head, size);
        p -= head.len;
        memcpy(p, head.s, head.len);
        text_free(&head);
    }
    text_bytes(&t, (char *)p, (size_t)(back + depth * 12 - p));
    free(back);
    return t;
}

static void deep_nesting(void **state)
{
    (void)state;
    /* graph > node > attribute > graph; type > sequence > type */
    const uint64_t subgraph[] = { 7, 1, 5, 6 }, types[] = { 7, 11, 2, 4, 1 };
    const size_t depths[] = { 60, 65, 3000, 100000 };
    for (size_t k = 0; k < 4; k++) {
        Text a = nested(subgraph, 4, 3, depths[k]), b = nested(types, 5, 2, depths[k]);
        assert_int_equal(load_bytes(&a), TG_BAD_MODEL);
        assert_true(depths[k] < 64 || strstr(tg_error(), "64 messages"));
        assert_int_equal(load_bytes(&b), TG_BAD_MODEL);
        text_free(&a);
        text_free(&b);
    }
}

static void memory_bombs(void **state)
{
    (void)state;
    static const char *const bombs[] = { HEAD "7{1{4:'A' 2:'y' 5(4000000){}} " X Y "}", HEAD "7{1(4000000){} " X Y "}",
                                         HEAD "7{5(4000000){} " X Y "}" };
    for (size_t k = 0; k < 3; k++) {
        Text t = pb_text(bombs[k]);
        assert_int_equal(load_bytes(&t), TG_BAD_MODEL);
        assert_non_null(strstr(tg_error(), "MiB of memory"));
        text_free(&t);
    }
}

static void add_function(Text *model, uint32_t k, uint32_t calls, bool last)
{
    char body[400], call[200];
    snprintf(call, sizeof call, last ? "7(%u){1:'a' 4:'Abs'}" : "7(%u){1:'a' 4:'F%u' 7:'f'}", calls, k + 1);
    snprintf(body, sizeof body, "25{1:'F%u' 10:'f' 4:'a' 5:'a' 9{2:13} 9{1:'f' 2:1} %s}", k, call);
    Text t = pb_text(body);
    text_bytes(model, t.s, t.len);
    text_free(&t);
}

static TgStatus call_chain(uint32_t length, uint32_t calls)
{
    Text t = pb_text(HEAD "8{1:'f' 2:1} 7{1{1:'x' 2:'y' 4:'F0' 7:'f'} " X Y "}");
    for (uint32_t k = 0; k < length; k++) add_function(&t, k, calls, k + 1 == length);
    TgStatus status = load_bytes(&t);
    text_free(&t);
    return status;
}

static void function_bombs(void **state)
{
    (void)state;
    assert_int_equal(call_chain(10, 2), TG_OK);
    assert_int_equal(call_chain(30, 2), TG_LIMIT);
    assert_int_equal(call_chain(60, 1), TG_OK);
    assert_int_equal(call_chain(20000, 1), TG_LIMIT);
}

/* n nodes in a chain, the last first: sorting must not recurse. */
static void long_chain(void **state)
{
    (void)state;
    const uint32_t n = 20000;
    Text graph = { 0 }, t = pb_text(HEAD), ports = pb_text("11{1:'t0' " F32 "} 12{1:'t20000' " F32 "}");
    for (uint32_t k = n; k-- > 0;) {
        char node[100];
        snprintf(node, sizeof node, "1{1:'t%u' 1:'t%u' 2:'t%u' 4:'Add'}", k, k, k + 1);
        Text one = pb_text(node);
        text_bytes(&graph, one.s, one.len);
        text_free(&one);
    }
    text_bytes(&graph, ports.s, ports.len);
    pb_field(&t, 7, graph.s, graph.len);
    Model *m;
    assert_int_equal(model_load_bytes(&m, t.s, t.len, NULL, NULL), TG_OK);
    assert_string_equal(m->graph.node[0].in[0], "t0");
    assert_string_equal(m->graph.node[n - 1].out[0], "t20000");
    model_free(m);
    text_free(&t);
    text_free(&graph);
    text_free(&ports);
}

static void wide_node(void **state)
{
    (void)state;
    Text graph = pb_text(X Y), node = pb_text("2:'y' 4:'Sum'"), t = pb_text(HEAD);
    for (int k = 0; k < 10000; k++) pb_field(&node, 1, "x", 1);
    pb_field(&graph, 1, node.s, node.len);
    pb_field(&t, 7, graph.s, graph.len);
    assert_int_equal(load_bytes(&t), TG_OK);
    text_free(&graph);
    text_free(&node);
    text_free(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(refuses),        cmocka_unit_test(accepts),
        cmocka_unit_test(contents),       cmocka_unit_test(types_inside_types),
        cmocka_unit_test(tensor_types),   cmocka_unit_test(string_tensor),
        cmocka_unit_test(alignment),      cmocka_unit_test(digest),
        cmocka_unit_test(truncations),    cmocka_unit_test(single_bytes),
        cmocka_unit_test(deep_nesting),   cmocka_unit_test(memory_bombs),
        cmocka_unit_test(function_bombs), cmocka_unit_test(long_chain),
        cmocka_unit_test(wide_node),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
