# cpu:0-3: a model divided among devices, by samples and by weights; what cannot be is refused
"$PYTHON" - <<'PY'
import numpy as np, onnx
from onnx import helper as h, numpy_helper as nh
def model(name, nodes, ports, out, init=()):
    port = lambda n, k, s: h.make_tensor_value_info(n, k, s)
    g = h.make_graph(nodes, "g", [port(*p) for p in ports], [port("y", 1, out)], list(init))
    onnx.save(h.make_model(g, opset_imports=[h.make_opsetid("", 17)], ir_version=8), name + ".onnx")
w = lambda n, k, m: nh.from_array((np.arange(k * m).reshape(k, m) % 5).astype(np.float32), n)
model("two", [h.make_node("MatMul", ["x", "a"], ["t"]), h.make_node("Relu", ["t"], ["r"]),
              h.make_node("MatMul", ["r", "b"], ["y"])], [("x", 1, ["n", 4])], ["n", 4], [w("a", 4, 8), w("b", 8, 4)])
model("rows", [h.make_node("NonZero", ["x"], ["i"]), h.make_node("Cast", ["i"], ["y"], to=1)], [("x", 1, ["n"])], None)
PY
x='x=f32[4,4]:1,0,0,0,0,1,0,0,0,0,1,0,1,1,1,1'
t two.onnx -i "$x" -o - --runs 1 -q
t two.onnx -i "$x" -o - --runs 1 -q -d cpu:0-1
t two.onnx -i "$x" -o - --runs 1 -q -d cpu:0-1 --shard weights -t 1
t two.onnx -i "$x" -o - --runs 1 -q -d cpu:0-3 --shard weights
t two.onnx -i "$x" -o - --runs 1 -q -d reference:0-3 --shard weights
t rows.onnx -i 'x=f32[4]:0,3,0,5' -o - --runs 1 -q -d cpu:0-1
t info two.onnx -i "$x" -d cpu:0-1 | grep ^device
t info two.onnx -i "$x" -d cpu:0-1 --shard weights | grep ^device
"$TGRUN_PROGRAM" info two.onnx -i "$x" -d cpu:0-1 --json | keys | grep devices
t two.onnx -i 'x=f32[3,4]:1' -d cpu:0-1 --shard batch -q
t two.onnx -d cpu --shard batch -q
t two.onnx -d cpu:0-1 --shard rows -q
t two.onnx -d cpu:1-2 -q
t two.onnx -d cpu:0-x -q
t two.onnx -d cpu:0-99 -q
t two.onnx -d c:0-1 -q
t compile two.onnx --shape x=4,4 -d cpu:0-1 -o two.tgc
