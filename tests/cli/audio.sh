# a recording as an input: rate, channels, length, types
"$PYTHON" - <<'PY'
import wave
import numpy as np, onnx
from onnx import helper as h
for name, channels, rate in (("mono", 1, 8000), ("stereo", 2, 8000)):
    with wave.open(name + ".wav", "wb") as f:
        f.setnchannels(channels), f.setsampwidth(2), f.setframerate(rate)
        f.writeframes((np.arange(6 * channels) * 4096 - 8192).astype("<i2").tobytes())
with wave.open("tone.wav", "wb") as f:
    f.setnchannels(1), f.setsampwidth(2), f.setframerate(8000)
    f.writeframes(np.round(16384 * np.sin(2 * np.pi * 440 * np.arange(4000) / 8000)).astype("<i2").tobytes())
t = np.arange(8000) / 16000
np.save("wave.npy", (0.5 * np.sin(2 * np.pi * 440 * t)).astype("f4")[None])
for name, kind, shape in (("open", 1, [1, "t"]), ("six", 1, [6]), ("two", 1, [1, 2, "t"]), ("bytes", 5, ["b", "t"]), ("text", 8, [1])):
    port = lambda n, s: h.make_tensor_value_info(n, kind, s)
    g = h.make_graph([h.make_node("Identity", ["x"], ["y"])], "g", [port("x", shape)], [port("y", None)])
    onnx.save(h.make_model(g, opset_imports=[h.make_opsetid("", 17)], ir_version=8), name + ".onnx")
port = lambda n, s: h.make_tensor_value_info(n, 1, s)
middle = [h.make_node("Slice", ["x", "from", "to", "axis"], ["y"])]
more = [h.make_tensor(n, 7, [1], [v]) for n, v in (("from", 500), ("to", 7500), ("axis", 1))]
onnx.save(h.make_model(h.make_graph(middle, "g", [port("x", [1, "t"])], [port("y", None)], more), opset_imports=[h.make_opsetid("", 17)], ir_version=8), "middle.onnx")
np.save("middle.npy", np.load("wave.npy")[:, 500:7500])
PY
t open.onnx -i audio:mono.wav -o - --runs 1 -q
t open.onnx -i audio:stereo.wav,8000,samples=8 -o - --runs 1 -q
t two.onnx -i x=audio:stereo.wav -o - --runs 1 -q
t bytes.onnx -i audio:mono.wav,samples=4 -o - --runs 1 -q
t middle.onnx -i audio:tone.wav,16000 -e middle.npy --rtol 0 --atol 2e-3 --runs 1 -q
t six.onnx -i audio:tone.wav --runs 1 -q
t two.onnx -i audio:mono.wav --runs 1 -q
t text.onnx -i audio:mono.wav --runs 1 -q
t open.onnx -i audio:nosuch.wav --runs 1 -q
t open.onnx -i audio:open.onnx --runs 1 -q
t open.onnx -i audio:mono.wav,fast --runs 1 -q
t open.onnx -i audio:mono.wav,samples=0 --runs 1 -q
t open.onnx -i audio: --runs 1 -q
