# sequences, optionals and maps: what is said of them, files and comparisons
for m in parts maybe scores; do t info $M/$m.onnx -d reference | grep -E '^(in|out)put|exit'; t check $M/$m.onnx; done
t -q $M/parts.onnx --runs 1 -i 'f32[3]:1,2,3' -o -
t -q $M/parts.onnx --runs 1 -i 'f32[3]:1,2,3' -o parts.pb; t -q $M/parts.onnx --runs 1 -i 'f32[3]:1,2,3' -e parts.pb
t -q $M/parts.onnx --runs 1 -i 'f32[3]:1,5,3' -e parts.pb
t -q $M/parts.onnx --runs 1 -i 'f32[3]:1,2,3' -o parts.npy
t -q $M/parts.onnx --runs 1 -i 'f32[3]:1,2,3' -e $M/x.npy
t -q $M/parts.onnx --runs 1 --against reference
t -q $M/maybe.onnx --runs 1
t -q $M/maybe.onnx --runs 1 -i 'f32[3]:1,2,3' -o -
t -q $M/maybe.onnx --runs 1 -i $M/x.npy
t -q $M/maybe.onnx --runs 1 -i parts.pb
t -q $M/scores.onnx --runs 1 -i 'f32[2,3]:1,2,3,4,5,6' -o - -o scores=scores.pb
t -q $M/scores.onnx --runs 1 -i 'f32[2,3]:1,2,3,4,5,6' -e scores.pb --output-dir out; "$PYTHON" -c 'import json; print(json.load(open("out/scores.json")))'
t -q $M/scores.onnx --runs 1 -i 'f32[2,3]:1,2,3,4,5,6' -e out/scores.json
t -q $M/scores.onnx --runs 1 -i 'f32[2,3]:1,2,3,4,5,7' -e out/scores.json
t -q $M/scores.onnx --runs 1 -i 'f32[1,3]:1,2,3' -e out/scores.json
for v in '[[["a", 1], ["b", 2], ["c", 3]], [["a", 1], ["c", 2], ["b", 3]]]' '[[["a", "x"], ["b", 2], ["c", 3]]]' '[[["a"]]]' '7' ; do echo "{\"value\": $v}" > bad.json; t -q $M/scores.onnx --runs 1 -e bad.json; done
t -q $M/parts.onnx --runs 1 -i 'f32[3]:1,2,3' --output-dir out; t -q $M/maybe.onnx --runs 1 -i 'f32[3]:1,2,3' --output-dir out; find out -type f | sort
"$TGRUN_PROGRAM" $M/parts.onnx -q --json --runs 1 -i 'f32[3]:1,2,3' | "$PYTHON" -c 'import json, sys; print(json.load(sys.stdin)["outputs"])'
"$TGRUN_PROGRAM" info $M/scores.onnx -q --json | "$PYTHON" -c 'import json, sys; print(json.load(sys.stdin)["outputs"])'
# an initializer that is listed among the inputs
for w in "" "-i w=f32[2]:5,7" "-i v=f32[2]:5,7" "-i w=ones --against reference" "-i w=ones --against ort"; do t -q $M/default.onnx --runs 1 -i x=ones $w -o -; done
