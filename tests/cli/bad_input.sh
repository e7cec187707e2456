# inputs that do not fit
t -q $M/add.onnx -i nosuch.npy
t -q $M/add.onnx -i x=$M/ints.npy
t -q $M/add.onnx -i x=f32[2]:1,2 -i y=random
t -q $M/add.onnx -i 'x=f32[1,4]:1' -i y=random
t -q $M/add.onnx -i 'x=f32[1,3]:1,2'
t -q $M/add.onnx -i 'x=f32[1,3]:1,2,3,4'
t -q $M/add.onnx -i 'x=f32[1,3]:a'
t -q $M/add.onnx -i x=what
t -q $M/add.onnx -i x=random:cauchy
t -q $M/add.onnx -i x=random:ints
t -q $M/add.onnx -i zeros -i zeros -i zeros
t -q $M/add.onnx -i $M/ints.npz
t -q $M/add.onnx --test-data $M/nosuch
t -q $M/add.onnx --shape z=1
t -q $M/add.onnx --shape x=1,b
t -q $M/add.onnx --dim m=2
t -q $M/add.onnx --dim n
t -q $M/add.onnx --dim m=1..4
t -q $M/add.onnx --dim n=0..4
t -q $M/add.onnx --dim n=4..1
t -q $M/add.onnx --dim n=1..4 --dim n=5
t -q $M/add.onnx --dim n=1..4 -i x=ones -i 'y=f32[2,3]:1' --shape x=3,3
t -q $M/add.onnx -e $M/ints.npy --runs 1
t -q $M/add.onnx -d cuda:900 | sed 's/cuda.*/cuda/'
t -q $M/add.onnx -d cpu:3
t -q $M/add.onnx -d tpu
head -c 8 $M/x.npy > raw.bin; t -q $M/add.onnx -i x=raw:raw.bin
t $M/add.onnx -q --runs 1 -d cpu -i nosuch=x.npy
t $M/add.onnx -q --runs 1 -d cpu -e nosuch=x.npy
t $M/add.onnx -q --runs 1 -d cpu -s x=1,3 -i x=raw:$M/x.npy
t $M/add.onnx -q --runs 1 --cpus 4000
t dump $M/add.onnx -q --stage source -d cpu --kernel nosuch
t -q $M/add.onnx -i x=ones
t -q $M/add.onnx -i x=ones -i y=random --shape y=4,4
