# --batch: a model of one sample on many, at once or one after another; what cannot be is refused
"$PYTHON" - <<'PY'
import numpy as np, onnx
from onnx import helper as h, numpy_helper as nh
def model(name, nodes, ports, out, init=()):
    port = lambda n, k, s: h.make_tensor_value_info(n, k, s)
    g = h.make_graph(nodes, "g", [port(*p) for p in ports], [port("y", 1, out)], list(init))
    onnx.save(h.make_model(g, opset_imports=[h.make_opsetid("", 17)], ir_version=8), name + ".onnx")
model("row", [h.make_node("MatMul", ["x", "w"], ["y"])], [("x", 1, [1, 2]), ("w", 1, [2, 2])], [1, 2])
model("size", [h.make_node("Reshape", ["x", "s"], ["y"])], [("x", 1, [1, 2]), ("s", 7, [2])], None)
model("free", [h.make_node("Relu", ["x"], ["y"])], [("x", 1, ["b", 2])], ["b", 2])
PY
t row.onnx --batch 3 --batch-input x -i 'x=f32[3,2]:1,2,3,4,5,6' -i 'w=f32[2,2]:1,0,0,2' -o - --runs 1 -q
t row.onnx --batch 2 -i 'x=f32[2,2]:1,2,3,4' -i 'w=f32[2,2,2]:1,0,0,1,0,1,1,0' -o - --runs 1 -q
t size.onnx --batch 2 -i 'x=f32[2,2]:1,2,3,4' -i 's=i64[2,2]:2,1,2,1' -o - --runs 1 2>&1 | grep -vE 'opset|^input|^memory'
t size.onnx --batch 2 -i 'x=f32[2,2]:1,2,3,4' -i 's=i64[2,2]:2,1,1,2' -o - --runs 1 -q
t row.onnx --batch 3 -i 'x=f32[2,2]:1' -i w=random -q
t row.onnx --batch 3 --batch-input x,z
t row.onnx --batch-input x
t free.onnx --batch 3
t check row.onnx --batch 3
t check size.onnx --batch 3
"$TGRUN_PROGRAM" check size.onnx --batch 3 --json | keys
t compile row.onnx --batch 3 -o row.tgc
