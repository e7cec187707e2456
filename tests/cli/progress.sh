# bars: of what takes longer than half a second, where they are wanted; never without a terminal by themselves
t $M/add.onnx -d reference --progress always --duration 1.2 2>&1 | tr '\r' '\n' | grep -qE 'timing  \[#+-*\] [01] of 1, [12] s left' && echo a bar
t $M/add.onnx -d reference --duration 1.2 2>&1 | grep -c 'timing'
t $M/add.onnx -d reference --duration 1.2 --progress always -q 2>&1 | grep -c 'timing'
t $M/add.onnx -d cpu --progress sometimes
