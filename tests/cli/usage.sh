# every mistake on the command line is one line and exit code 2
t
t --test-dta x model.onnx
t --zzzzzzzzzzzz
t -Z
t --runs
t --runs many $M/add.onnx
t --runs=-1 $M/add.onnx
t --no-cache=1 $M/add.onnx
t --precision exactly $M/add.onnx
t --atol abc $M/add.onnx
t --atol=-1 $M/add.onnx
t --rtol y:none $M/add.onnx
t --rtol nothing:1e-3 $M/add.onnx
t -o nothing=y.npy $M/add.onnx
t -o a.npy -o b.npy -o c.npy $M/add.onnx
t --precision fast $M/add.onnx --device reference
t --max-memory 12Q $M/add.onnx
t --duration nan $M/add.onnx
t chek $M/add.onnx
t check $M/add.onnx $M/ints.onnx
t ops $M/add.onnx
t $M/add.onnx $M/ints.onnx
t --warmup soon $M/add.onnx
t --percentiles 50,200 $M/add.onnx
t dump $M/add.onnx --stage grahp
TGRUN_RUNS=x t $M/add.onnx
TGRUN_NO_CACHE=perhaps t $M/add.onnx
b
b --egnine ort x.onnx
b --require 'ratio > 1' $M/add.onnx
b --engine nosuch $M/add.onnx
# what is said twice, and differs
t $M/add.onnx -i x=ones -i x=zeros -i y=ones
t $M/add.onnx --dim n=4 --dim n=5
t $M/add.onnx --shape x=4,3 --shape x=5,3
