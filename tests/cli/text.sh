# a text as an input, by a tokenizer of five words; folders as inputs
"$PYTHON" - <<'PY'
import json, os
import numpy as np, onnx
from onnx import helper as h
words = {"[PAD]": 7, "[UNK]": 1, "the": 2, "cat": 3, "sat": 4}
tokenizer = dict(version="1.0", truncation=None, padding=None, added_tokens=[], normalizer=dict(type="Lowercase"),
                 pre_tokenizer=dict(type="Whitespace"), post_processor=None, decoder=None,
                 model=dict(type="WordLevel", vocab=words, unk_token="[UNK]"))
json.dump(tokenizer, open("tokenizer.json", "w"))
open("broken.json", "w").write("{}")
def model(name, ports, kind=7):
    port = lambda n, s: h.make_tensor_value_info(n, kind, s)
    nodes = [h.make_node("Identity", [n], ["of_" + n]) for n, _ in ports]
    g = h.make_graph(nodes, "g", [port(*p) for p in ports], [port("of_" + n, None) for n, _ in ports])
    onnx.save(h.make_model(g, opset_imports=[h.make_opsetid("", 17)], ir_version=8), name + ".onnx")
names = ["input_ids", "attention_mask", "token_type_ids", "position_ids"]
model("bert", [(n, ["b", "s"]) for n in names])
model("six", [(n, [1, 6]) for n in names])
model("flat", [("tokens", ["s"])], 6)
model("two", [("ids", [2, "s"])])
model("floats", [("x", ["b", "s"])], 1)
model("pair", [("x", ["s"]), ("y", ["s"])], 1)
for folder, texts in (("said", ["the cat", "sat", "the cat sat"]), ("empty", [])):
    os.mkdir(folder)
    for k, t in enumerate(texts):
        open(f"{folder}/{8 + k}.txt", "w").write(t)
for folder, n in (("a", 3), ("b", 3), ("c", 2)):
    os.mkdir(folder)
    for k in range(n):
        np.save(f"{folder}/{k}.npy", np.arange(2, dtype="f4") + 10 * k + ord(folder))
open("a/notes.txt", "w").write("no tensor")
PY
out="-o - --runs 1 -q"
t bert.onnx -i 'text(tokenizer.json):The cat purrs' $out
t six.onnx -i 'text(tokenizer.json):The cat sat' $out
t bert.onnx -i 'text(tokenizer.json):The cat' -s input_ids=1,4 $out
t flat.onnx -i 'tokens=text(tokenizer.json):@said/10.txt' $out
t six.onnx -i 'text(tokenizer.json):the the the the the the the' --runs 1 2>&1 | grep 'left out'
t bert.onnx -i 'text(tokenizer.json):@said/' --output-dir made --runs 1 -q
find made | sort
t floats.onnx -i 'text(tokenizer.json):The cat' $out
t two.onnx -i 'text(tokenizer.json):The cat' $out
t bert.onnx -i 'text(nosuch.json):The cat' $out
t bert.onnx -i 'text(broken.json):The cat' $out
t bert.onnx -i 'text(tokenizer.json):@nosuch.txt' $out
t bert.onnx -i 'text(tokenizer.json):' $out
t bert.onnx -i 'text:The cat' $out
t bert.onnx -i 'text(tokenizer.json):@empty' $out
# folders of tensors, together
t pair.onnx -i x=a -i y=b --output-dir pairs --runs 1 -q
"$PYTHON" -c 'import numpy as np; print(*(np.load(f"pairs/{k}.npy/of_{n}.npy").tolist() for k in range(3) for n in "xy"))'
t pair.onnx -i x=a -i y=c --runs 1 -q
t pair.onnx -i x=a -i y=ones -o y.npy --runs 1 -q
t pair.onnx -i x=a -i y=ones -e x=zeros --runs 1 -q
t profile pair.onnx -i x=a -i y=ones -q
t pair.onnx -i x=said -i y=ones --runs 1 -q
