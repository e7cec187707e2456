# the folder of compiled kernels: what is in it, what is damaged, how it gets smaller
t cache
t cache lst
t cache list --cache-dir nothing
t cache list --cache-size 1
t $M/add.onnx --cache-dir c --runs 1 -q
size() { sed 's/ [0-9.]* [KM]*i*B/ SIZE/g; s/[0-9]*-[0-9]*-[0-9]*/DAY/; s/ *[0-9]* files/ N files/g'; }
t cache list --cache-dir c | size
t cache verify --cache-dir c | tail -2 | sed "s/[0-9][0-9]*/N/g"
file=$(ls c/cpu/* | head -1)
printf 'x' >> $file
t cache verify --cache-dir c 2>&1 | grep -oE 'cut, damaged.*|exit .*'
t cache prune --cache-dir c | size
t cache verify --cache-dir c | tail -2 | sed "s/[0-9][0-9]*/N/g"
t $M/add.onnx --cache-dir c --runs 1 -q
t cache prune --cache-dir c --cache-size 0 | sed 's/.*; //'
echo other > c/cpu/mine; t cache prune --cache-dir c --cache-size 0 | sed 's/.*; //'; cat c/cpu/mine
"$TGRUN_PROGRAM" cache list --cache-dir c --json | keys
