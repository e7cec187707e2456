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
# a TMPDIR whose name is too long for the compiler's folder: the worker, in its sandbox, compiles in /tmp
mkdir a-folder-with-a-name-that-is-longer-than-forty-letters
TMPDIR=$PWD/a-folder-with-a-name-that-is-longer-than-forty-letters t tune $M1 --tune 1 --no-cache | grep -c '^# [1-9][0-9]* kernels\? timed'
