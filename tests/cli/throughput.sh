# requests a second: reports, and options that do not fit
b $M/add.onnx --dim n=4 --throughput --streams 2 --threads 2 --budget 1 --latency-limit 1000 --engine tgrun --engine tgrun --format json -q | head -n -1 | keys | grep -v '^.env'
b $M/add.onnx --dim n=4 --throughput --threads 100 --budget 0.1 --engine tgrun -q | grep -c '64 streams of 1 thread'
b $M/add.onnx --dim n=4 --throughput --streams 1 --budget 1 --latency-limit 1000 --rate 200 --engine tgrun -q | grep -c '200.0 .*(p'
b $M/add.onnx --streams 2
b $M/add.onnx --rate 5
b $M/add.onnx --throughput --rate 5
b $M/add.onnx --throughput --cold
b $M/add.onnx --throughput --report p.html
b $M/add.onnx --throughput --format md
b $M/add.onnx --throughput --streams 65
b $M/add.onnx --throughput --latency-limit 0
