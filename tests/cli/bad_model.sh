# files that are no models, and models that break the standard or use what is not covered
t $M/nosuch.onnx
t $M
t $M/empty.onnx
t $M/garbage.onnx
t -q $M/misshapen.onnx
t -q $M/unknown.onnx
t --runs 1 $M/unknown.onnx
t check $M/unknown.onnx
t check $M/garbage.onnx
t check $M/add.onnx
t check $M/map_of_lists.onnx
t --runs 1 -q $M/map_of_lists.onnx
t check $M/future.onnx
t -q --runs 1 -d cpu --timeout 1 $M/long.onnx
t check $M/misshapen.onnx
