# bisect: the first node that differs, and the part that is kept
"$PYTHON" - <<'PY'
import os, numpy as np, onnx
from onnx import helper as h, numpy_helper as nh
def make(path, eps):
    w = nh.from_array(np.arange(16, dtype=np.float32).reshape(4, 4) / 16, "w")
    nodes = [h.make_node("MatMul", ["x", "w"], ["a"], name="mm"), h.make_node("LayerNormalization", ["a", "s"], ["b"], name="ln", epsilon=eps),
             h.make_node("Relu", ["b"], ["c"], name="relu"), h.make_node("Add", ["c", "x"], ["y"], name="add")]
    port = lambda n: h.make_tensor_value_info(n, 1, [2, 4])
    g = h.make_graph(nodes, "g", [port("x")], [port("y")], [w, nh.from_array(np.ones(4, np.float32), "s")])
    onnx.save(h.make_model(g, opset_imports=[h.make_opsetid("", 17)], ir_version=8), path)
make("good.onnx", 1e-5); make("bad.onnx", 0.5)
PY
t bisect good.onnx --against reference
t bisect bad.onnx --against good.onnx | sed 's/[0-9.e-]* of 8 values.*/some values differ/'
ls bad.bisect bad.bisect/test_data_set_0
t bad.bisect/model.onnx --test-data bad.bisect --runs 1 -q | sed 's/: [0-9]* of.*/: differs/'
"$TGRUN_PROGRAM" bisect bad.onnx --against good.onnx --json --output-dir kept | keys
t bisect good.onnx
t bisect good.onnx --against nosuch.onnx
t bisect good.onnx --against nosuch
cat > engine.py <<'PY'
import os, sys, numpy as np, onnx
from onnx.reference import ReferenceEvaluator
m = onnx.load(os.environ["MODEL"])
for n in m.graph.node:
    for a in n.attribute:
        if a.name == "epsilon": a.f = 0.5
for y in m.graph.output: y.CopyFrom(onnx.helper.make_tensor_value_info(y.name, 1, None))
run = ReferenceEvaluator(m)
feed = {x.name: np.load(os.path.join(os.environ["DATA"], f"input_{k}.npy")) for k, x in enumerate(m.graph.input)}
print('{"name": "wrong engine", "load_s": 0.1, "first_ms": 1.0}', flush=True)
for line in sys.stdin:
    for k, y in enumerate(run.run(None, feed)): np.save(os.path.join(line.split()[1], f"output_{k}.npy"), y)
    print("ok", flush=True)
PY
t bisect good.onnx --against "cmd:exec $PYTHON engine.py" | sed 's/[0-9]* of 8 values.*/some values differ/; s/is [0-9.e+-]* from/is near/; s/s [0-9.e+-]* (rms)/s far (rms)/'
t good.bisect/model.onnx --against reference --runs 1 -q
t good.onnx --values all -i x=random --output-dir dump --runs 1 -q; ls dump
t good.onnx --values b -o b=b.npy --runs 1 -q; ls b.npy
t bisect bad.onnx --against dump | grep first
rm dump/b.npy; t bisect bad.onnx --against dump | grep first
t good.onnx --values all
t good.onnx --values nothing --output-dir dump
