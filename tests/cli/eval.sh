# accuracy over a data set, ours and beside an engine's; tolerances by task
"$PYTHON" - <<'PY'
import numpy as np, onnx
from onnx import helper as h
port = lambda n, s: h.make_tensor_value_info(n, 1, s)
g = h.make_graph([h.make_node("Softmax", ["x"], ["y"])], "g", [port("x", ["n", 8])], [port("y", ["n", 8])])
onnx.save(h.make_model(g, opset_imports=[h.make_opsetid("", 17)], ir_version=8), "m.onnx")
rng, lines = np.random.default_rng(3), []
for k in range(10):
    x = rng.standard_normal((1, 8)).astype("f4")
    np.save(f"x{k}.npy", x)
    order = np.argsort(-x[0])
    lines.append(f"x{k}.npy {order[0 if k < 7 else 3 if k < 9 else 7]}")
open("labels.txt", "w").write("# file label\n" + "\n".join(lines) + "\n")
rows = rng.standard_normal((4, 8)).astype("f4")
np.save("rows.npy", rows), np.save("tokens.npy", rows.argmax(1))
open("rows.txt", "w").write("rows.npy tokens.npy\n")
open("bad.txt", "w").write("x0.npy cat\n"), open("short.txt", "w").write("x0.npy tokens.npy\n")
np.save("e.npy", np.array([[1, 2, 3, 4, 5, 6, 7, 9]], "f4")), np.save("f.npy", np.array([[1, 2, 3, 4, 5, 6, 7.01, 9]], "f4"))
g = h.make_graph([h.make_node("Identity", ["x"], ["y"])], "g", [port("x", ["n", "k"])], [port("y", ["n", "k"])])
onnx.save(h.make_model(g, opset_imports=[h.make_opsetid("", 17)], ir_version=8), "same.onnx")
np.save("a.npy", np.array([[0, 0, 10, 10], [5, 5, 6, 6]], "f4")), np.save("b.npy", np.array([[0, 0, 10, 9], [5, 5, 6, 6]], "f4"))
PY
t eval m.onnx --labels labels.txt -d cpu -q | sed 's/, .* ms a run//'
t eval m.onnx --labels labels.txt -d cpu -q --against reference | sed 's/, .* ms a run//; s/^tgrun [0-9.]* /tgrun VERSION /'
t eval m.onnx --labels rows.txt -d cpu -q -i x={} | sed 's/, .* ms a run//'
"$TGRUN_PROGRAM" eval m.onnx --labels labels.txt -d cpu -q --json | keys
for f in bad short nosuch; do t eval m.onnx --labels $f.txt -d cpu -q; done
t eval m.onnx -d cpu -q
t eval m.onnx --labels labels.txt --data nosuch -d cpu -q
for task in auto top1 top5 cosine:0.9999 cosine:0.99999999 psnr:50 psnr:80 y=top1 z=top1 top2 top1:2 iou; do echo "-- $task"; t same.onnx -i f.npy -e e.npy -d cpu --runs 1 --tolerance $task | grep -E 'output|exit|tgrun'; done
t same.onnx -i b.npy -e a.npy -d cpu --runs 1 --tolerance iou | grep -E 'output|exit'
t same.onnx -i b.npy -e a.npy -d cpu --runs 1 --tolerance iou:0.9 | grep -E 'output|exit'
"$TGRUN_PROGRAM" same.onnx -i b.npy -e a.npy -d cpu --runs 1 --tolerance iou:0.9 --json -q | keys | grep compare
