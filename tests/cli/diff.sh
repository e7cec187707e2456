# diff: two models side by side
"$PYTHON" - <<'PY'
import numpy as np, onnx
from onnx import helper as h, numpy_helper as nh
def make(path, bias, op="Relu", extra=False, shape=(2, 3)):
    nodes = [h.make_node("MatMul", ["x", "w"], ["a"], name="mm"), h.make_node("Add", ["a", "b"], ["c"], name="add"), h.make_node(op, ["c"], ["y"], name="act")]
    if extra: nodes.append(h.make_node("Neg", ["y"], ["z"], name="neg"))
    port = lambda n, s: h.make_tensor_value_info(n, 1, s)
    init = [nh.from_array(np.ones((3, 4), np.float32), "w"), nh.from_array(np.full(4, bias, np.float32), "b")]
    g = h.make_graph(nodes, "g", [port("x", shape)], [port("y", None)] + ([port("z", None)] if extra else []), init)
    onnx.save(h.make_model(g, opset_imports=[h.make_opsetid("", 17)], ir_version=8), path)
make("a.onnx", 1); make("b.onnx", 1.5); make("c.onnx", 1, "Abs", True)
PY
t diff a.onnx a.onnx
t diff a.onnx b.onnx -i ones
t diff a.onnx c.onnx -i ones
t diff c.onnx a.onnx -q
t diff a.onnx
t diff a.onnx nosuch.onnx
t diff a.onnx a.onnx --runs 2
"$TGRUN_PROGRAM" diff a.onnx c.onnx --json | keys
