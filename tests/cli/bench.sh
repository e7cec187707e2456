# tgbench with engines whose times are known: a script that answers as bench/peer.h says, 2 or 4 ms a run, right or
# wrong sums
cat > engine.py <<'END'
import os, sys, numpy as np
ms, off = float(sys.argv[1]), float(sys.argv[2])
x, y = (np.load(os.path.join(os.environ["DATA"], f"input_{k}.npy")) for k in (0, 1))
print('{"name": "fake %g", "load_s": 0.5, "first_ms": 3.0}' % ms, flush=True)
rng = np.random.default_rng(int(ms))
for line in sys.stdin:
    word, _, rest = line.strip().partition(" ")
    if word == "run": print(*(int(1e6 * ms * (1 + 0.001 * rng.random())) for _ in range(int(rest))), flush=True)
    elif word == "save": np.save(os.path.join(rest, "output_0.npy"), x + y + off); print("ok", flush=True)
    else: print("10.0", flush=True)
END
two="cmd:exec $PYTHON engine.py 2 0"; four="cmd:exec $PYTHON engine.py 4 0"; wrong="cmd:exec $PYTHON engine.py 4 1"
head() { sed '/pairs do not count/d; s/load [0-9.]*//; s/[(]0.999-1.001[)]/(about 1)/; s/placebo.*/placebo/'; }
b -q $M/add.onnx --engine "$two" --engine "$four" --pairs 11 -t 1 | head
b -q $M/add.onnx --engine "$two" --engine "$two" --pairs 11 -t 1 | grep -o 'no difference shown'
b -q $M/add.onnx --engine "$two" --engine "$four" --pairs 11 -t 1 --require 'ratio >= 1.9' >/dev/null; b -q $M/add.onnx --engine "$two" --engine "$four" --pairs 11 --require 'ratio >= 1.9' | tail -1
b -q $M/add.onnx --engine "$four" --engine "$two" --pairs 11 --require 'ratio >= 1.0' | tail -1
b $M/add.onnx --dim n=1 --engine "$two" --engine "$wrong" --pairs 11 2>&1 | grep -E 'differ|exit'
b -q $M/add.onnx --engine "$two" --engine "cmd:exit 3" --pairs 11
b -q $M/add.onnx --engine "$two" --engine "cmd:echo error no such model" --pairs 11
"$TGBENCH_PROGRAM" -q $M/add.onnx --engine "$two" --engine "$four" --pairs 11 --format json --report page.html | keys | sed '/notes\|others\|steal\|mhz\|rss\|energy/s/ .*/ or null/'
grep -o '</html>' page.html
echo '{"models": [{"model": "'$M'/add.onnx", "test_data": "'$M'/add_data"}, {"model": "nosuch.onnx"}, {"model": "'$M'/add.onnx", "atol": 2}]}' > suite.json
b -q --suite suite.json --engine "$two" --engine "$wrong" --pairs 11 --format csv | cut -d, -f1,2,3,14,15
b -q $M/add.onnx --engine tgrun --engine tgrun:--no-cache --pairs 3 --block 5 --budget 1 | grep -oE 'outputs agree|exit .*'
b $M/add.onnx -q --engine 'tgrun:cache-dir=x' --budget 0.1 | grep -v '  failed'
b -q $M/add.onnx --engine "$two" --require 'ratio >= 1'
b -q $M/add.onnx --engine "$two" --engine "$two" --pairs 11 --require 'ratio >= 1.0' | tail -1
b -q $M/add.onnx --sets 9
b -q $M/add.onnx --report nosuch/page.html
b -q $M/add.onnx --sweep n=4..2
b -q $M/add.onnx --sweep n=1..4 --engine "$two" --engine "$four" --pairs 11 | grep -oE 'inputs .*'
echo '{"models": [{"model": "add.onnx", "tolerance": 1}]}' > keys.json; b --suite keys.json
own='cmd:exec $PYTHON engine.py $OWN 0'
OWN=2 "$TGBENCH_PROGRAM" -q $M/add.onnx --engine "$own" --engine "$four" --pairs 11 --format json > then.json
OWN=4 b -q $M/add.onnx --engine "$own" --engine "$four" --pairs 11 --format csv --baseline then.json | grep -oE 'slower|faster|no diff.*|exit .*'
echo '{}' > other.json; b -q $M/add.onnx --baseline other.json
# what a program was made for is said
"$PYTHON" -c '
import onnx; from onnx import helper as h
p = lambda n, k, s: h.make_tensor_value_info(n, k, s)
onnx.save(h.make_model(h.make_graph([h.make_node("Reshape", ["x", "s"], ["y"])], "g", [p("x", 1, [6]), p("s", 7, [2])], [p("y", 1, None)]),
                       opset_imports=[h.make_opsetid("", 17)], ir_version=8), "size.onnx")'
b -q size.onnx -i x=random -i 's=i64[2]:2,3' --engine tgrun --sets 1 --pairs 3 --block 5 | grep -o 'has the value of s built in'
