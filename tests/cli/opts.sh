# lists of OptOps: printed by tune, replayed by --opts, wrong ones refused with a reason
M1="$M/add.onnx -d cpu --no-cache"
t tune $M1 --tune 0.2 -q >lists.txt; tail -1 lists.txt
kernel=$(grep -o '^[er]_[^:]*' lists.txt)
same() { sed "s/$kernel/KERNEL/"; }
grep -c "^$kernel: " lists.txt
grep -v '^exit' lists.txt >good.txt
t $M1 --runs 1 -q --opts good.txt
t $M1 --runs 1 -q --opts "$kernel: SPLIT 0 2 UPCAST"
t dump $M1 --stage optimize --opts "$kernel: SPLIT 0 2 UPCAST" | grep ^kernel | same
t $M1 --runs 1 -q --opts "$kernel: SPLIT 0 2 GLOBAL; SPLIT 9 2 UPCAST" | same
t $M1 --runs 1 -q --opts "$kernel: SPLAT 1" | same
t $M1 --runs 1 -q --opts "e_1_00000000: SPLIT 0 2 UPCAST"
t $M1 --runs 1 -q --opts "$kernel" | same
printf '# nothing\n\nSPLIT 0 2\n' >bad.txt
t $M1 --runs 1 -q --opts bad.txt
# choices of a schedule: those that a model has, one that is replayed, a value that is nowhere, a wrong word
"$PYTHON" - <<'PY'
import onnx
from onnx import helper as h
port = lambda name: h.make_tensor_value_info(name, 1, [64, 200])
g = h.make_graph([h.make_node("Softmax", ["x"], ["y"])], "g", [port("x")], [port("y")])
onnx.save(h.make_model(g, opset_imports=[h.make_opsetid("", 17)], ir_version=8), "rows.onnx")
PY
M2="rows.onnx -d cpu --no-cache"
t dump $M2 --stage choices | head -1
store=$(t dump $M2 --stage choices | grep -o '^STORE [0-9a-f]*' | head -1)
kernels() { t "$@" | grep -c '^kernel'; }
kernels dump $M2 --stage layout
kernels dump $M2 --stage layout --opts "schedule: $store"
t tune $M2 --tune 0.2 -q --opts "schedule: $store" | grep -c "^schedule: $store$"
t $M2 --runs 1 -q --opts "schedule: STORE 00000000"
t $M2 --runs 1 -q --opts "schedule: KEEP 00000000"
# a TMPDIR whose name is too long for the compiler's folder: the worker, in its sandbox, compiles in /tmp
mkdir a-folder-with-a-name-that-is-longer-than-forty-letters
TMPDIR=$PWD/a-folder-with-a-name-that-is-longer-than-forty-letters t tune $M1 --tune 1 --no-cache | grep -c '^# [1-9][0-9]* kernels\? timed'
