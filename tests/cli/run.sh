# what a run takes, prints and writes
t -q $M/add.onnx --runs 1 -i x=$M/x.npy -i 'y=f32[1,3]:10,20,30' -o -
t -q $M/add.onnx --runs 1 -i $M/xy.npz -o -
t -q $M/add.onnx --runs 1 -i - -i ones -o - < $M/x.npy
t -q $M/add.onnx --runs 1 -i zeros -i 'f32[2,3]:7' -o -
t -q $M/add.onnx --runs 1 --dim n=2 -i x=ones -i y=ones -o -
t -q $M/add.onnx --runs 1 --dim n=1..3 -i x=ones -i y=ones -o -
t -q $M/add.onnx --runs 1 --dim n=1..3 --dim n=2 -i x=ones -i y=ones -o - -v -d cpu
t -q $M/ints.onnx --runs 1 -i a=$M/ints.npy -i 'b=i64[2]:-5,9223372036854775807' -o -
t -q $M/add.onnx --runs 1 --test-data $M/add_data
t -q $M/add.onnx --runs 1 --test-data $M/add_data --atol 0 --rtol 0
t -q $M/add.onnx --runs 1 --test-data $M/add_data/test_data_set_1
t -q $M/add.onnx --runs 1 -i x=$M/x.npy -i y=ones -e 'f32[1,3]:2,3,4'
t -q $M/add.onnx --runs 1 -i x=$M/x.npy -i y=ones -e 'f32[1,3]:2,3,5'
t -q $M/add.onnx --runs 1 -i x=$M/x.npy -i y=ones -e 'f32[1,3]:2,3,5' --atol sum:1
t -q $M/add.onnx --runs 1 --against reference
t -q $M/add.onnx --runs 1 --test-data $M/add_data --output-dir out/deep
t -q $M/ints.onnx --runs 1 --output-dir out/ints
find out -type f | sort
t -q $M/add.onnx --runs 1 -i $M/xy.npz -o sum.npy -o sum=sum.pb; ls
t -q $M/add.onnx --runs 1 -i $M/xy.npz -e sum.npy
t -q $M/add.onnx --runs 1 -i $M/xy.npz -e sum.pb
t -q $M/add.onnx --dim n=200000 --duration 60 --timeout 0.5
t -q $M/add.onnx --runs 1 --dim n=1000 --max-memory 4K
t -q $M/words.onnx --runs 1 --test-data $M/words_data --output-dir words -o -; "$PYTHON" -c 'import numpy as np; print(ascii(np.load("words/t.npy")))'
t -q $M/words.onnx --runs 1
t -q $M/sums.onnx --runs 1 --outputs neg,sum --test-data $M/sums_data -o -
t -q $M/sums.onnx --outputs neg,other
t -q $M/sums.onnx --outputs sum --outputs sum
# a launcher before the compiler; none at all, where an earlier one's kernels are in the cache, and where they are not
export XDG_CACHE_HOME=$PWD/kept
CC="env gcc -g0" t -q $M/add.onnx --runs 1 -i x=$M/x.npy -i y=ones -o - -d cpu
PATH=/nonexistent "$TGRUN_PROGRAM" -q $M/add.onnx --runs 1 -i x=$M/x.npy -i y=ones -o - -d cpu; echo "exit $?"
PATH=/nonexistent "$TGRUN_PROGRAM" -q $M/ints.onnx --runs 1 -d cpu --compiler cc 2>&1 | sed 's|.*/||'
CC=nogcc t -q $M/add.onnx --runs 1 -i x=$M/x.npy -i y=ones -o - -d cpu
