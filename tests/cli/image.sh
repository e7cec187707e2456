# a picture as an input: sizes, order of channels, mean and deviation
"$PYTHON" - <<'PY'
import numpy as np, onnx
from onnx import helper as h
open("p.ppm", "wb").write(b"P6\n3 2\n255\n" + bytes(range(0, 180, 10)))
for name, shape in (("planes", [1, 3, 2, 3]), ("last", [2, 3, 3]), ("open", [1, 3, "h", "w"]), ("grey", [1, 1, 2, 4]), ("two", [2, 3, 2, 3])):
    port = lambda n, s: h.make_tensor_value_info(n, 1, s)
    g = h.make_graph([h.make_node("Identity", ["x"], ["y"])], "g", [port("x", shape)], [port("y", None)])
    onnx.save(h.make_model(g, opset_imports=[h.make_opsetid("", 17)], ir_version=8), name + ".onnx")
PY
t planes.onnx -i image:p.ppm,range=255 -o - --runs 1 -q
t planes.onnx -i image:p.ppm,mean=0.5,std=0.25:0.5:1,bgr -o - --runs 1 -q
t last.onnx -i x=image:p.ppm,range=255 -o - --runs 1 -q
t open.onnx -i image:p.ppm,2x3,range=255 -o y.npy --runs 1 -q
t planes.onnx -i image:p.ppm,range=255 -e y.npy --runs 1 -q
t open.onnx -i image:p.ppm,4x4,range=255 -o - --runs 1 -q | tail -3
t open.onnx -i image:p.ppm --runs 1 -q
t grey.onnx -i image:p.ppm --runs 1 -q
t two.onnx -i image:p.ppm --runs 1 -q
t planes.onnx -i image:p.ppm,4x4 --runs 1 -q
t planes.onnx -i image:nosuch.ppm --runs 1 -q
t planes.onnx -i image:p.ppm,std=0 --runs 1 -q
t planes.onnx -i image:p.ppm,mean=1:2 --runs 1 -q
t planes.onnx -i image:p.ppm,flip --runs 1 -q
t planes.onnx -i image:planes.onnx --runs 1 -q
t $M/ints.onnx -i image:p.ppm --runs 1 -q
